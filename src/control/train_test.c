#include "control/train.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"
#include "control/train_internal.h"

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
    bool seen; /* there was an observe */
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

static enum aw_err probe_act(void *self, const float *obs, uint32_t count, bool explore,
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
        for (uint32_t k = 0; k < probe->shape.act_dim; k++)
            action[i * probe->shape.act_dim + k] =
                probe->shape.action == AW_AGENT_DISCRETE
                    ? (float)(uint32_t)((value + 1) / 2.001f * (float)probe->shape.act_n)
                    : probe->low + (value + 1) / 2 * (probe->high - probe->low);
    }
    return AW_OK;
}

static enum aw_err probe_observe(void *self, const struct aw_transition *t)
{
    struct probe *probe = self;
    uint32_t dim = probe->shape.obs_dim;
    for (uint32_t i = 0; i < probe->shape.env_count; i++) {
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

static enum aw_err probe_learn(void *self, struct aw_learn_stats *stats)
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

static enum aw_err probe_save(void *self, const char *dir, bool resumable, struct aw_diag *diag)
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

static enum aw_err probe_load_file(const char *dir, const char *name, void *to, size_t size,
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

static enum aw_err probe_load(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct probe *probe = self;
    enum aw_err err =
        probe_load_file(dir, "model.safetensors", &probe->model, sizeof probe->model, diag);
    if (err || !resumable)
        return err;
    return probe_load_file(dir, "state.safetensors", &probe->state, sizeof probe->state, diag);
}

static void probe_free(void *self)
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

static enum aw_err probe_make(const struct aw_agent_shape *shape, const void *settings,
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

static int setup(void **state)
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

static void wipe(const char *dir)
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

static int teardown(void **state)
{
    (void)state;
    return rmdir(top);
}

static size_t slurp(const char *path, unsigned char **ret)
{
    char *bytes = NULL;
    size_t len = 0;
    assert_ok(aw_file_read(path, 1 << 24, NULL, &bytes, &len, NULL));
    *ret = (unsigned char *)bytes;
    return len;
}

/* Without the syncs of aw_file_replace: a test that damages a file a hundred times need not wait.
 */
static void spill(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static bool same_file(const char *a, const char *b)
{
    unsigned char *left, *right;
    size_t left_len = slurp(a, &left), right_len = slurp(b, &right);
    bool same = left_len == right_len && !memcmp(left, right, left_len);
    aw_alloc_free(NULL, left);
    aw_alloc_free(NULL, right);
    return same;
}

static void assert_same_run(const char *a, const char *b)
{
    for (const char *const *name = run_files; *name; name++) {
        if (!same_file(in(a, *name), in(b, *name)))
            fail_msg("%s of %s and %s differ", *name, a, b);
    }
}

static void copy_file(const char *from, const char *to)
{
    unsigned char *bytes;
    size_t len = slurp(from, &bytes);
    spill(to, bytes, len);
    aw_alloc_free(NULL, bytes);
}

static struct aw_train_config config_of(const char *env, uint64_t steps, uint32_t env_count)
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

static struct aw_train *train_of(const char *env, uint64_t steps, uint32_t env_count)
{
    struct aw_train_config config = config_of(env, steps, env_count);
    struct aw_train *train = NULL;
    assert_ok(aw__train_new(&config, &probe_factory, NULL, &train, NULL));
    return train;
}

static void train_all(struct aw_train *train)
{
    assert_ok(aw_train_step(train, UINT32_MAX, NULL, NULL, NULL));
}

/* ---- the loop ---- */

struct tally {
    uint64_t episodes, steps, step_last;
    double return_sum;
};

static void tally_episode(void *ctx, const struct aw_train_episode *episode)
{
    struct tally *tally = ctx;
    tally->episodes++;
    tally->steps += episode->length;
    tally->return_sum += episode->episode_return;
    assert_true(episode->step >= tally->step_last);
    tally->step_last = episode->step;
}

static void a_run_ends_at_the_first_multiple_that_reaches_its_steps(void **state)
{
    (void)state;
    struct aw_train *train = train_of("cartpole-v1", 1001, 4);
    struct tally tally = {0};
    assert_false(aw_train_done(train));
    assert_true(isnan(aw_train_progress(train)->return_mean));
    assert_ok(aw_train_step(train, 1, tally_episode, &tally, NULL));
    assert_int_equal(aw_train_progress(train)->step, 4);
    assert_ok(aw_train_step(train, UINT32_MAX, tally_episode, &tally, NULL));
    const struct aw_train_progress *progress = aw_train_progress(train);
    assert_int_equal(progress->step, 1004);
    assert_true(aw_train_done(train));
    assert_int_equal(progress->episode_count, tally.episodes);
    assert_int_equal(progress->update_count, 251 / 3);
    assert_true(tally.episodes > 10 && tally.steps <= 1004);
    assert_close(tally.return_sum, (double)tally.steps, 1e-9); /* CartPole pays 1 for each step */
    if (tally.episodes < AW_TRAIN_RECENT)
        assert_close(progress->return_mean, tally.return_sum / (double)tally.episodes, 1e-12);
    assert_string_equal(progress->learn.stat[0].name, "weight");
    assert_ok(aw_train_step(train, 100, tally_episode, &tally, NULL));
    assert_int_equal(aw_train_progress(train)->step, 1004);
    aw_train_free(train);
    aw_train_free(NULL);
}

static void the_learner_sees_the_final_observation_and_acts_on_the_first(void **state)
{
    (void)state;
    continued_count = ended_count = broken_count = 0;
    struct aw_train *train = train_of("cartpole-v1", 4000, 8);
    train_all(train);
    assert_true(ended_count > 100);
    assert_true(continued_count > 3000);
    assert_int_equal(broken_count, 0);
    aw_train_free(train);
}

static void the_ring_keeps_the_last_hundred_returns_oldest_first(void **state)
{
    (void)state;
    struct aw_train *train = train_of("cartpole-v1", 100, 1);
    double recent[AW_TRAIN_RECENT];
    assert_int_equal(aw_train_recent(train, recent), 0);
    for (uint32_t n = 0; n < 150; n++) {
        train->recent_return[train->recent_next] = n;
        train->recent_next = (train->recent_next + 1) % AW_TRAIN_RECENT;
        train->recent_count += train->recent_count < AW_TRAIN_RECENT;
        uint32_t count = aw_train_recent(train, recent);
        assert_int_equal(count, n + 1 < AW_TRAIN_RECENT ? n + 1 : AW_TRAIN_RECENT);
        for (uint32_t i = 0; i < count; i++)
            assert_true(recent[i] == n + 1 - count + i);
    }
    aw_train_free(train);
}

static void threads_and_slices_change_no_bytes(void **state)
{
    (void)state;
    struct aw_train_config config = config_of("pendulum-v1", 2400, 8);
    struct aw_train *train = train_of("pendulum-v1", 2400, 8), *other = NULL;
    train_all(train);
    assert_ok(aw_train_save(train, in("a", ""), true, NULL));
    aw_train_free(train);
    config.thread_count = 3;
    assert_ok(aw__train_new(&config, &probe_factory, NULL, &other, NULL));
    while (!aw_train_done(other))
        assert_ok(aw_train_step(other, 13, NULL, NULL, NULL));
    assert_ok(aw_train_save(other, in("b", ""), true, NULL));
    aw_train_free(other);
    for (const char *const *name = run_files + 1; *name; name++)
        assert_true(same_file(in("a", *name), in("b", *name)));
    wipe("a");
    wipe("b");
}

/* ---- resume ---- */

static void a_resumed_run_equals_an_uninterrupted_one_wherever_it_was_cut(void **state)
{
    (void)state;
    static const struct {
        const char *env;
        uint32_t env_count;
    } rows[] = {{"cartpole-v1", 1}, {"cartpole-v1", 4}, {"pendulum-v1", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_train *train = train_of(rows[i].env, 1500, rows[i].env_count);
        train_all(train);
        assert_ok(aw_train_save(train, in("whole", ""), true, NULL));
        aw_train_free(train);
        for (uint64_t cut = 0; cut < 1500; cut += 467) {
            train = train_of(rows[i].env, 1500, rows[i].env_count);
            assert_ok(aw_train_step(train, cut, NULL, NULL, NULL));
            assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
            struct aw_train_progress before = *aw_train_progress(train);
            assert_ok(aw_train_step(train, 50, NULL, NULL, NULL)); /* lost in the crash */
            aw_train_free(train);
            train = NULL;
            assert_ok(aw__train_load(in("cut", ""), 0, true, &probe_factory, NULL, &train, NULL));
            const struct aw_train_progress *after = aw_train_progress(train);
            assert_int_equal(after->step, before.step);
            assert_int_equal(after->episode_count, before.episode_count);
            assert_int_equal(after->learn.count, before.learn.count);
            assert_true(after->return_mean == before.return_mean || isnan(before.return_mean));
            train_all(train);
            assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
            aw_train_free(train);
            assert_same_run("whole", "cut");
            assert_int_not_equal(access(in("cut", "checkpoint.tmp"), F_OK), 0);
        }
        wipe("cut");
        wipe("whole");
    }
}

/* The learners that ship, each on an environment whose actions it can take. */
static void every_learner_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    static const char *const smaller[] = {"replay_capacity=2000", "warmup_steps=100",
                                          "rollout_steps=64", NULL};
    for (const struct aw_agent_factory *const *f = aw_agent_builtin(); *f; f++) {
        struct aw_train_config config = {.steps = 500, .seed = 3, .env_count = 2};
        struct aw_train *train = NULL;
        const char *preset;
        snprintf(config.env, sizeof config.env, "%s",
                 (*f)->discrete ? "cartpole-v1" : "pendulum-v1");
        snprintf(config.agent, sizeof config.agent, "%s", (*f)->name);
        assert_ok(aw_train_settings(*f, config.env, NULL, config.settings, &preset, NULL));
        for (const char *const *pair = smaller; *pair; pair++) {
            enum aw_err err = aw_conf_set_pair((*f)->fields, config.settings, *pair, NULL);
            assert_true(err == AW_OK || err == AW_ERR_CONFIG); /* not every learner has each */
        }
        assert_ok(aw_train_new(&config, NULL, &train, NULL));
        train_all(train);
        assert_ok(aw_train_save(train, in("whole", ""), true, NULL));
        double whole[10], cut[10];
        assert_ok(aw_train_evaluate(train, 10, 1, whole, NULL));
        aw_train_free(train);
        assert_ok(aw_train_new(&config, NULL, &train, NULL));
        assert_ok(aw_train_step(train, 282, NULL, NULL, NULL));
        assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
        aw_train_free(train);
        struct aw_diag diag = {0};
        if (aw_train_resume(in("cut", ""), 0, NULL, &train, &diag))
            fail_msg("%s: %s", (*f)->name, diag.text);
        train_all(train);
        assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
        aw_train_free(train);
        assert_same_run("whole", "cut");
        assert_ok(aw_train_open(in("cut", ""), NULL, &train, NULL));
        assert_ok(aw_train_evaluate(train, 10, 1, cut, NULL));
        assert_memory_equal(whole, cut, sizeof whole);
        aw_train_free(train);
        wipe("whole");
        wipe("cut");
    }
}

static void a_learner_that_cannot_take_the_actions_names_those_that_can(void **state)
{
    (void)state;
    const struct aw_agent_factory *ddpg = NULL;
    struct aw_train_config config = {
        .env = "cartpole-v1", .agent = "ddpg", .steps = 10, .env_count = 1};
    struct aw_train *train = NULL;
    struct aw_diag diag;
    assert_ok(aw_agent_factory_find("ddpg", &ddpg, NULL));
    aw_conf_defaults(ddpg->fields, config.settings);
    assert_int_equal(aw_train_new(&config, NULL, &train, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "dqn"));
    assert_null(strstr(diag.text, "td3"));
}

static void a_longer_total_goes_on_where_the_shorter_ended(void **state)
{
    (void)state;
    struct aw_train *train = train_of("pendulum-v1", 900, 3);
    train_all(train);
    assert_ok(aw_train_save(train, in("whole", ""), true, NULL));
    aw_train_free(train);
    train = train_of("pendulum-v1", 300, 3);
    train_all(train);
    assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
    aw_train_free(train);
    assert_ok(aw__train_load(in("cut", ""), 900, true, &probe_factory, NULL, &train, NULL));
    assert_false(aw_train_done(train));
    train_all(train);
    assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
    aw_train_free(train);
    assert_same_run("whole", "cut");
    wipe("whole");
    wipe("cut");
}

/* A save is: the learner's files and loop.state into checkpoint.tmp, then three moves. Whatever was
 * done of it when the power went, resume finds the old checkpoint or the new one. */
static void a_crash_in_the_middle_of_a_save_loses_no_checkpoint(void **state)
{
    (void)state;
    static const char *const files[] = {"model.safetensors", "state.safetensors", "loop.state"};
    struct aw_train *train = train_of("cartpole-v1", 1000, 2);
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("old", ""), true, NULL));
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("new", ""), true, NULL));
    aw_train_free(train);
    for (uint32_t done = 0; done <= 6; done++) {
        char saving[64];
        assert_ok(aw_file_mkdirs(in("x", "checkpoint.tmp"), NULL));
        copy_file(in("old", "run.json"), in("x", "run.json"));
        for (uint32_t i = 0; i < 3; i++) {
            bool written = done > i, moved = done > 3 + i;
            snprintf(saving, sizeof saving, "checkpoint.tmp/%s", files[i]);
            copy_file(in(moved ? "new" : "old", files[i]), in("x", files[i]));
            if (written && !moved)
                copy_file(in("new", files[i]), in("x", saving));
        }
        train = NULL;
        assert_ok(aw__train_load(in("x", ""), 0, true, &probe_factory, NULL, &train, NULL));
        assert_int_equal(aw_train_progress(train)->step, done < 3 ? 400 : 800);
        aw_train_free(train);
        assert_same_run(done < 3 ? "old" : "new", "x");
        assert_int_not_equal(access(in("x", "checkpoint.tmp"), F_OK), 0);
        wipe("x");
    }
    wipe("old");
    wipe("new");
}

static enum aw_err load_error(const char *dir, struct aw_diag *diag)
{
    struct aw_train *train = NULL;
    enum aw_err err = aw__train_load(in(dir, ""), 0, true, &probe_factory, NULL, &train, diag);
    assert_null(train);
    return err;
}

static void a_damaged_loop_state_is_refused_at_every_byte(void **state)
{
    (void)state;
    struct aw_diag diag;
    unsigned char *bytes;
    struct aw_train *train = train_of("cartpole-v1", 1000, 2);
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    aw_train_free(train);
    size_t len = slurp(in("x", "loop.state"), &bytes);
    for (size_t i = 0; i < len; i += i < 64 ? 1 : 97) {
        bytes[i] ^= 0x04;
        spill(in("x", "loop.state"), bytes, len);
        assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
        bytes[i] ^= 0x04;
        spill(in("x", "loop.state"), bytes, i);
        assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
    }
    spill(in("x", "loop.state"), "PK\3\4 something else", 20);
    assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.file, "loop.state"));
    unlink(in("x", "loop.state"));
    assert_int_equal(load_error("x", &diag), AW_ERR_NOTFOUND);
    aw_alloc_free(NULL, bytes);
    wipe("x");
}

static void a_file_of_another_checkpoint_is_refused_by_name(void **state)
{
    (void)state;
    struct aw_diag diag;
    struct aw_train *train = train_of("cartpole-v1", 1000, 2);
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("old", ""), true, NULL));
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    aw_train_free(train);
    copy_file(in("old", "state.safetensors"), in("x", "state.safetensors"));
    assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.file, "state.safetensors"));
    unlink(in("x", "state.safetensors"));
    assert_int_equal(load_error("x", &diag), AW_ERR_NOTFOUND);
    wipe("old");
    wipe("x");
}

static void a_bad_run_json_is_refused_with_its_place(void **state)
{
    (void)state;
#define RUN(env, seed, settings)                                                                \
    "{\"format\": \"aware-run\", \"version\": 1,\n \"env\": \"" env "\", \"agent\": \"probe\"," \
    " \"preset\": \"\",\n \"seed\": " seed ", \"steps\": 10, \"envs\": 1, \"threads\": 1,\n"    \
    " \"settings\": {" settings "}}"
    static const struct {
        const char *json;
        enum aw_err err;
        uint32_t line;
        const char *text, *why;
    } rows[] = {
        {"", AW_ERR_FORMAT, 0, "", "empty"},
        {"{", AW_ERR_FORMAT, 0, "", "cut off"},
        {"[1]", AW_ERR_CONFIG, 0, "", "not a map"},
        {"{\"format\": \"other\"}", AW_ERR_FORMAT, 0, "not a run", "of another program"},
        {"{\"format\": \"aware-run\", \"version\": 2}", AW_ERR_CONFIG, 1, "1",
         "of a later version"},
        {RUN("nowhere", "1", ""), AW_ERR_NOTFOUND, 0, "nowhere", "no such environment"},
        {RUN("cartpole-v1", "-1", ""), AW_ERR_CONFIG, 3, "-1", "a seed below zero"},
        {RUN("cartpole-v1", "1.5", ""), AW_ERR_CONFIG, 3, "1.5", "half a seed"},
        {RUN("cartpole-v1", "1", "\"gian\": \"1\""), AW_ERR_CONFIG, 4, "gain",
         "an unknown setting, with the nearest"},
        {RUN("cartpole-v1", "1", "\"gain\": \"2\""), AW_ERR_CONFIG, 4, "2", "a setting too high"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_diag diag = {0};
        assert_ok(aw_file_mkdirs(in("x", ""), NULL));
        spill(in("x", "run.json"), rows[i].json, strlen(rows[i].json));
        enum aw_err err = load_error("x", &diag);
        if (err != rows[i].err || (rows[i].line && diag.line != rows[i].line) ||
            !strstr(diag.text, rows[i].text))
            fail_msg("%s: %s, line %u: %s", rows[i].why, aw_err_name(err), diag.line, diag.text);
    }
    wipe("x");
    assert_int_equal(load_error("x", NULL), AW_ERR_NOTFOUND);
}

/* ---- evaluation ---- */

static void an_episode_of_an_evaluation_depends_on_seed_and_index_alone(void **state)
{
    (void)state;
    double all[50], some[50], again[50];
    struct aw_train *train = train_of("cartpole-v1", 600, 2);
    assert_ok(aw_train_step(train, 300, NULL, NULL, NULL));
    assert_ok(aw_train_evaluate(train, 50, 1, all, NULL));
    for (uint32_t count = 1; count <= 50; count += 7) {
        assert_ok(aw_train_evaluate(train, count, 1, some, NULL));
        assert_memory_equal(all, some, count * sizeof *all);
    }
    assert_ok(aw_train_evaluate(train, 50, 2, again, NULL));
    assert_memory_not_equal(all, again, sizeof all);
    assert_ok(aw_train_evaluate(train, 0, 1, again, NULL));
    assert_int_equal(aw_train_evaluate(train, AW_TRAIN_EVAL_EPISODES_MAX + 1, 1, again, NULL),
                     AW_ERR_LIMIT);
    aw_train_free(train);
}

static void evaluating_and_saving_do_not_disturb_the_run(void **state)
{
    (void)state;
    double returns[5];
    struct aw_train *train = train_of("pendulum-v1", 900, 2);
    train_all(train);
    assert_ok(aw_train_save(train, in("a", ""), true, NULL));
    aw_train_free(train);
    train = train_of("pendulum-v1", 900, 2);
    while (!aw_train_done(train)) {
        assert_ok(aw_train_step(train, 100, NULL, NULL, NULL));
        assert_ok(aw_train_evaluate(train, 5, 3, returns, NULL));
        assert_ok(aw_train_save(train, in("b", ""), true, NULL));
    }
    aw_train_free(train);
    assert_same_run("a", "b");
    wipe("a");
    wipe("b");
}

static void an_opened_run_acts_like_the_one_that_was_saved(void **state)
{
    (void)state;
    double saved[20], opened[20];
    struct aw_train *train = train_of("pendulum-v1", 900, 2);
    train_all(train);
    assert_ok(aw_train_evaluate(train, 20, 5, saved, NULL));
    assert_ok(aw_train_save(train, in("x", ""), false, NULL));
    aw_train_free(train);
    assert_int_not_equal(access(in("x", "state.safetensors"), F_OK), 0);
    assert_ok(aw__train_load(in("x", ""), 0, false, &probe_factory, NULL, &train, NULL));
    assert_ok(aw_train_evaluate(train, 20, 5, opened, NULL));
    assert_memory_equal(saved, opened, sizeof saved);
    aw_train_free(train);
    wipe("x");
}

/* ---- memory and refusals ---- */

static void after_new_nothing_allocates_and_no_failed_allocation_leaks(void **state)
{
    (void)state;
    struct aw_train_config config = config_of("cartpole-v1", 2000, 2);
    struct aw_alloc_counting counting;
    double returns[20];
    for (uint64_t budget = 0;; budget++) {
        struct aw_train *train = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = aw__train_new(&config, &probe_factory, &counting.alloc, &train, NULL);
        if (!err) {
            uint64_t before = counting.alloc_count;
            assert_ok(aw_train_step(train, 1000, NULL, NULL, NULL));
            assert_ok(aw_train_evaluate(train, 20, 1, returns, NULL));
            assert_int_equal(counting.alloc_count, before);
            aw_train_free(train);
            assert_int_equal(counting.alloc_count, counting.free_count);
            assert_true(budget > 3);
            break;
        }
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_null(train);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

static void a_config_out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t steps, seed;
        uint32_t env_count;
        const char *key;
    } rows[] = {
        {0, 0, 1, "steps"},
        {(uint64_t)AW_TRAIN_STEPS_MAX + 1, 0, 1, "steps"},
        {10, UINT64_MAX, 1, "seed"},
        {10, 0, 0, "envs"},
        {10, 0, AW_TRAIN_ENVS_MAX + 1, "envs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_train_config config = config_of("cartpole-v1", rows[i].steps, rows[i].env_count);
        struct aw_train *train = NULL;
        struct aw_diag diag;
        config.seed = rows[i].seed;
        assert_int_equal(aw__train_new(&config, &probe_factory, NULL, &train, &diag), AW_ERR_RANGE);
        assert_string_equal(diag.key, rows[i].key);
        assert_null(train);
    }
}

static void a_learner_that_diverges_says_so_and_when(void **state)
{
    (void)state;
    struct aw_diag diag;
    struct aw_train *train = train_of("cartpole-v1", 100, 1);
    assert_ok(aw_train_step(train, 5, NULL, NULL, NULL));
    probe_learn_answer = AW_ERR_DIVERGED;
    assert_int_equal(aw_train_step(train, 5, NULL, NULL, &diag), AW_ERR_DIVERGED);
    probe_learn_answer = AW_OK;
    assert_non_null(strstr(diag.text, "step 6"));
    aw_train_free(train);
}

static void a_preset_named_like_the_environment_is_taken_by_itself(void **state)
{
    (void)state;
    static const struct {
        const char *env, *preset, *name;
        double gain;
    } rows[] = {
        {"pendulum-v1", NULL, "pendulum-v1", 0.25},
        {"pendulum-v1", "", "pendulum-v1", 0.25},
        {"pendulum-v1", "none", "", 0.5},
        {"pendulum-v1", "slow", "slow", 0.125},
        {"cartpole-v1", NULL, "", 0.5},
        {"cartpole-v1", "slow", "slow", 0.125},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe_settings settings;
        const char *name = NULL;
        assert_ok(
            aw_train_settings(&probe_factory, rows[i].env, rows[i].preset, &settings, &name, NULL));
        assert_string_equal(name, rows[i].name);
        assert_close((double)settings.gain, rows[i].gain, 0);
    }
    struct probe_settings settings;
    const char *name = "untouched";
    struct aw_diag diag;
    assert_int_equal(
        aw_train_settings(&probe_factory, "pendulum-v1", "quick", &settings, &name, &diag),
        AW_ERR_NOTFOUND);
    assert_string_equal(name, "untouched");
    assert_non_null(strstr(diag.text, "quick"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_ends_at_the_first_multiple_that_reaches_its_steps),
        cmocka_unit_test(the_learner_sees_the_final_observation_and_acts_on_the_first),
        cmocka_unit_test(the_ring_keeps_the_last_hundred_returns_oldest_first),
        cmocka_unit_test(threads_and_slices_change_no_bytes),
        cmocka_unit_test(a_resumed_run_equals_an_uninterrupted_one_wherever_it_was_cut),
        cmocka_unit_test(every_learner_resumes_to_the_same_bytes),
        cmocka_unit_test(a_learner_that_cannot_take_the_actions_names_those_that_can),
        cmocka_unit_test(a_longer_total_goes_on_where_the_shorter_ended),
        cmocka_unit_test(a_crash_in_the_middle_of_a_save_loses_no_checkpoint),
        cmocka_unit_test(a_damaged_loop_state_is_refused_at_every_byte),
        cmocka_unit_test(a_file_of_another_checkpoint_is_refused_by_name),
        cmocka_unit_test(a_bad_run_json_is_refused_with_its_place),
        cmocka_unit_test(an_episode_of_an_evaluation_depends_on_seed_and_index_alone),
        cmocka_unit_test(evaluating_and_saving_do_not_disturb_the_run),
        cmocka_unit_test(an_opened_run_acts_like_the_one_that_was_saved),
        cmocka_unit_test(after_new_nothing_allocates_and_no_failed_allocation_leaks),
        cmocka_unit_test(a_config_out_of_range_is_refused),
        cmocka_unit_test(a_learner_that_diverges_says_so_and_when),
        cmocka_unit_test(a_preset_named_like_the_environment_is_taken_by_itself),
    };
    return cmocka_run_group_tests_name("train", tests, setup, teardown);
}
