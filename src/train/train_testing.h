/*
 * train_testing.h - what the tests of the training loop share: a learner small enough to be seen
 * through, and run directories that come and go. Included by tests alone.
 */
#ifndef AW_TRAIN_TRAIN_TESTING_H
#define AW_TRAIN_TRAIN_TESTING_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"
#include "train/train_internal.h"

/* ---- a learner for tests: it learns a little, explores by chance, and checks the contract ---- */

struct probe_settings {
    float gain;
    uint32_t period; /* turns between updates */
};

static const struct aw_conf_field probe_fields[] = {
    {.key = "gain",
     .type = AW_CONF_F32,
     .offset = offsetof(struct probe_settings, gain),
     .initial = "0.5",
     .min = 0,
     .max = 1,
     .help = "how much of the weights reaches the action"},
    {.key = "period",
     .type = AW_CONF_U32,
     .offset = offsetof(struct probe_settings, period),
     .initial = "3",
     .min = 1,
     .max = 100,
     .help = "turns between updates"},
    {.key = NULL},
};

#define PROBE_OBS_MAX 8u
#define PROBE_ENV_MAX 8u

struct probe_model {
    float weight[PROBE_OBS_MAX];
};

struct probe_state {
    struct aw_rng rng;
    uint64_t turn;
    float next_obs[PROBE_ENV_MAX][PROBE_OBS_MAX]; /* of the last observe */
    bool ended[PROBE_ENV_MAX];
    bool seen;                               /* there was an observe */
    float obs[PROBE_ENV_MAX][PROBE_OBS_MAX]; /* of the last act, and what it answered */
    float action[PROBE_ENV_MAX];
};

struct probe {
    struct aw_agent_shape shape;
    struct probe_settings settings;
    float low, high;
    struct probe_model model;
    struct probe_state state;
    const struct aw_alloc *alloc;
};

/* What the contract of next_obs promises, counted over all probes. */
static uint64_t continued_count, ended_count, broken_count;
static enum aw_err probe_learn_answer;

static inline enum aw_err probe_act(void *self, const float *obs, uint32_t count, bool explore,
                                    float *action)
{
    struct probe *probe = self;
    uint32_t dim = probe->shape.obs_dim;
    for (uint32_t i = 0; i < count; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < dim; k++)
            sum += probe->model.weight[k] * obs[i * dim + k];
        float value = tanhf(probe->settings.gain * sum);
        if (explore && probe->state.seen) {
            bool same = !memcmp(obs + i * dim, probe->state.next_obs[i], dim * sizeof(float));
            if (probe->state.ended[i])
                ended_count++;
            else
                continued_count++;
            broken_count += same == probe->state.ended[i];
        }
        if (explore)
            value = 0.5f * value + 0.5f * (2 * aw_rng_float(&probe->state.rng) - 1);
        if (explore)
            memcpy(probe->state.obs[i], obs + i * dim, dim * sizeof(float));
        for (uint32_t k = 0; k < probe->shape.act_dim; k++)
            action[i * probe->shape.act_dim + k] =
                probe->shape.action == AW_AGENT_DISCRETE
                    ? (float)(uint32_t)((value + 1) / 2.001f * (float)probe->shape.act_n)
                    : probe->low + (value + 1) / 2 * (probe->high - probe->low);
        if (explore)
            probe->state.action[i] = action[i * probe->shape.act_dim];
    }
    return AW_OK;
}

static inline enum aw_err probe_observe(void *self, const struct aw_transition *t)
{
    struct probe *probe = self;
    uint32_t dim = probe->shape.obs_dim;
    for (uint32_t i = 0; i < probe->shape.env_count; i++) {
        broken_count += memcmp(probe->state.obs[i], t->obs + i * dim, dim * sizeof(float)) != 0 ||
                        probe->state.action[i] != t->action[i * probe->shape.act_dim];
        memcpy(probe->state.next_obs[i], t->next_obs + i * dim, dim * sizeof(float));
        probe->state.ended[i] = t->terminated[i] || t->truncated[i];
        for (uint32_t k = 0; k < dim; k++)
            probe->model.weight[k] +=
                0.01f * t->reward[i] * (t->obs[i * dim + k] - t->next_obs[i * dim + k]);
    }
    probe->state.seen = true;
    probe->state.turn++;
    return AW_OK;
}

static inline enum aw_err probe_learn(void *self, struct aw_learn_stats *stats)
{
    struct probe *probe = self;
    if (probe_learn_answer)
        return probe_learn_answer;
    if (probe->state.turn % probe->settings.period)
        return AW_OK;
    for (uint32_t k = 0; k < probe->shape.obs_dim; k++)
        probe->model.weight[k] += 0.01f * (aw_rng_float(&probe->state.rng) - 0.5f);
    stats->update_count = 1;
    stats->count = 1;
    stats->stat[0].name = "weight";
    stats->stat[0].value = (double)probe->model.weight[0];
    return AW_OK;
}

static inline enum aw_err probe_save(void *self, const char *dir, bool resumable,
                                     struct aw_diag *diag)
{
    struct probe *probe = self;
    char path[AW_FILE_PATH_MAX];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    enum aw_err err = aw_file_replace(path, &probe->model, sizeof probe->model, NULL, diag);
    if (err || !resumable)
        return err;
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    return aw_file_replace(path, &probe->state, sizeof probe->state, NULL, diag);
}

static inline enum aw_err probe_load_file(const char *dir, const char *name, void *to, size_t size,
                                          struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX], *bytes = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    enum aw_err err = aw_file_read(path, size, NULL, &bytes, &len, diag);
    if (!err && len == size)
        memcpy(to, bytes, size);
    aw_alloc_free(NULL, bytes);
    return err;
}

static inline enum aw_err probe_load(void *self, const char *dir, bool resumable,
                                     struct aw_diag *diag)
{
    struct probe *probe = self;
    enum aw_err err =
        probe_load_file(dir, "model.safetensors", &probe->model, sizeof probe->model, diag);
    if (err || !resumable)
        return err;
    return probe_load_file(dir, "state.safetensors", &probe->state, sizeof probe->state, diag);
}

static inline void probe_free(void *self)
{
    struct probe *probe = self;
    if (probe)
        aw_alloc_free(probe->alloc, probe);
}

static const struct aw_agent_ops probe_ops = {
    .name = "probe",
    .act = probe_act,
    .observe = probe_observe,
    .learn = probe_learn,
    .save = probe_save,
    .load = probe_load,
    .free = probe_free,
};

static inline enum aw_err probe_make(const struct aw_agent_shape *shape, const void *settings,
                                     uint64_t seed, const struct aw_alloc *alloc,
                                     struct aw_agent *ret_agent, struct aw_diag *diag)
{
    struct probe *probe = aw_alloc_new(alloc, 1, sizeof *probe);
    if (!probe)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the probe");
    AW_ASSERT(shape->obs_dim <= PROBE_OBS_MAX && shape->env_count <= PROBE_ENV_MAX);
    probe->shape = *shape;
    probe->alloc = alloc;
    if (shape->act_low) {
        probe->low = shape->act_low[0];
        probe->high = shape->act_high[0];
    }
    memcpy(&probe->settings, settings, sizeof probe->settings);
    aw_rng_init(&probe->state.rng, seed, 0);
    *ret_agent = (struct aw_agent){&probe_ops, probe};
    return AW_OK;
}

static const char *const probe_pendulum[] = {"gain=0.25", NULL};
static const char *const probe_slow[] = {"gain=0.125", "period=50", NULL};
static const struct aw_agent_preset probe_presets[] = {
    {"pendulum-v1", "tuned for it", probe_pendulum},
    {"slow", "rare updates", probe_slow},
    {NULL, NULL, NULL},
};
static const struct aw_agent_factory probe_factory = {
    .name = "probe",
    .summary = "A learner for tests.",
    .fields = probe_fields,
    .settings_bytes = sizeof(struct probe_settings),
    .presets = probe_presets,
    .continuous = true,
    .discrete = true,
    .make = probe_make,
};

/* ---- a directory for each test ---- */

static char top[] = "/tmp/aware-train-XXXXXX";

static inline int setup(void **state)
{
    (void)state;
    return mkdtemp(top) ? 0 : -1;
}

static const char *const run_files[] = {"run.json", "model.safetensors", "state.safetensors",
                                        "loop.state", NULL};

static const char *in(const char *dir, const char *name)
{
    static char path[4][512];
    static unsigned turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/%s%s%s", top, dir, *name ? "/" : "", name);
    return path[turn];
}

static inline void wipe(const char *dir)
{
    char saving[64];
    for (const char *const *name = run_files; *name; name++) {
        unlink(in(dir, *name));
        snprintf(saving, sizeof saving, "checkpoint.tmp/%s", *name);
        unlink(in(dir, saving));
    }
    rmdir(in(dir, "checkpoint.tmp"));
    rmdir(in(dir, ""));
}

static inline int teardown(void **state)
{
    (void)state;
    return rmdir(top);
}

static inline size_t slurp(const char *path, unsigned char **ret)
{
    char *bytes = NULL;
    size_t len = 0;
    assert_ok(aw_file_read(path, 1 << 24, NULL, &bytes, &len, NULL));
    *ret = (unsigned char *)bytes;
    return len;
}

/* Without the syncs of aw_file_replace: a test that damages a file a hundred times need not wait.
 */
static inline void spill(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static inline bool same_file(const char *a, const char *b)
{
    unsigned char *left, *right;
    size_t left_len = slurp(a, &left), right_len = slurp(b, &right);
    bool same = left_len == right_len && !memcmp(left, right, left_len);
    aw_alloc_free(NULL, left);
    aw_alloc_free(NULL, right);
    return same;
}

static inline void assert_same_run(const char *a, const char *b)
{
    for (const char *const *name = run_files; *name; name++) {
        if (!same_file(in(a, *name), in(b, *name)))
            fail_msg("%s of %s and %s differ", *name, a, b);
    }
}

static inline void copy_file(const char *from, const char *to)
{
    unsigned char *bytes;
    size_t len = slurp(from, &bytes);
    spill(to, bytes, len);
    aw_alloc_free(NULL, bytes);
}

static inline struct aw_train_config config_of(const char *env, uint64_t steps, uint32_t env_count)
{
    struct aw_train_config config = {
        .steps = steps, .seed = 7, .env_count = env_count, .thread_count = 1};
    const char *preset;
    snprintf(config.env, sizeof config.env, "%s", env);
    snprintf(config.agent, sizeof config.agent, "probe");
    assert_ok(aw_train_settings(&probe_factory, env, NULL, config.settings, &preset, NULL));
    snprintf(config.preset, sizeof config.preset, "%s", preset);
    return config;
}

static inline struct aw_train *train_of(const char *env, uint64_t steps, uint32_t env_count)
{
    struct aw_train_config config = config_of(env, steps, env_count);
    struct aw_train *train = NULL;
    assert_ok(aw__train_new(&config, &probe_factory, NULL, &train, NULL));
    return train;
}

static inline void train_all(struct aw_train *train)
{
    assert_ok(aw_train_step(train, UINT32_MAX, NULL, NULL, NULL));
}

#endif
