/* agents_test.c - the contract of include/aware/agent.h, held against every learner there is. */
#include "rl/agents.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/testing.h"
#include "nn/safetensors.h"

#define ENVS           2u
#define OBS            4u
#define ACT            2u
#define CHOICES        3u
#define PATH_MAX_BYTES 256

/* A world that is plain data: copy it, and the copy has the same future. */
struct toy {
    struct aw_rng rng;
    float obs[ENVS * OBS], next_obs[ENVS * OBS], action[ENVS * ACT], reward[ENVS];
    bool terminated[ENVS], truncated[ENVS];
};

static const float act_low[ACT] = {-2, 1}, act_high[ACT] = {2, 5};

static void toy_init(struct toy *toy, uint64_t seed)
{
    *toy = (struct toy){0};
    aw_rng_init(&toy->rng, seed, 9);
    aw_rng_fill_normal(&toy->rng, toy->obs, ENVS * OBS);
}

static void toy_move(struct toy *toy, uint32_t act_dim)
{
    for (uint32_t e = 0; e < ENVS; e++) {
        toy->reward[e] = -fabsf(toy->obs[e * OBS] - toy->action[e * act_dim]);
        toy->terminated[e] = aw_rng_double(&toy->rng) < 0.03;
        toy->truncated[e] = aw_rng_double(&toy->rng) < 0.03;
        for (uint32_t i = 0; i < OBS; i++)
            toy->next_obs[e * OBS + i] =
                0.9f * toy->obs[e * OBS + i] + 0.3f * (float)aw_rng_normal(&toy->rng);
    }
}

static struct aw_transition toy_transition(const struct toy *toy)
{
    return (struct aw_transition){.obs = toy->obs,
                                  .action = toy->action,
                                  .reward = toy->reward,
                                  .next_obs = toy->next_obs,
                                  .terminated = toy->terminated,
                                  .truncated = toy->truncated};
}

static uint64_t toy_run(struct toy *toy, struct aw_agent *agent, uint32_t act_dim, int steps)
{
    uint64_t updates = 0;
    for (int t = 0; t < steps; t++) {
        struct aw_learn_stats stats;
        assert_ok(agent->ops->act(agent->self, toy->obs, ENVS, true, toy->action));
        toy_move(toy, act_dim);
        struct aw_transition transition = toy_transition(toy);
        assert_ok(agent->ops->observe(agent->self, &transition));
        assert_ok(agent->ops->learn(agent->self, &stats));
        for (uint32_t i = 0; i < stats.count; i++)
            assert_true(isfinite(stats.stat[i].value));
        updates += stats.update_count;
        memcpy(toy->obs, toy->next_obs, sizeof toy->obs);
        for (uint32_t e = 0; e < ENVS; e++)
            if (toy->terminated[e] || toy->truncated[e])
                aw_rng_fill_normal(&toy->rng, toy->obs + e * OBS, OBS);
    }
    return updates;
}

/* Small and quick, with everything optional switched on. A learner ignores keys it has not. */
static const char *const small[][2] = {
    {"hidden", "8,6"},        {"vae_hidden", "8,6"},
    {"batch", "16"},          {"replay_capacity", "200"},
    {"warmup_steps", "20"},   {"normalise_obs", "true"},
    {"scale_reward", "true"}, {"grad_clip", "1"},
    {"act_samples", "10"},    {"noise", "ou"},
    {"rollout_steps", "8"},   {"minibatches", "2"},
    {"epochs", "2"},          {"target_every", "7"},
    {"update_every", "1"},
};

struct subject {
    const struct aw_agent_factory *factory;
    bool discrete;
    uint32_t act_dim;
    struct aw_agent_shape shape;
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
};

static void subject_init(struct subject *subject, const struct aw_agent_factory *factory,
                         bool discrete)
{
    *subject = (struct subject){.factory = factory, .discrete = discrete};
    subject->act_dim = discrete ? 1 : ACT;
    subject->shape = (struct aw_agent_shape){
        .env_count = ENVS,
        .obs_dim = OBS,
        .action = discrete ? AW_AGENT_DISCRETE : AW_AGENT_CONTINUOUS,
        .act_dim = subject->act_dim,
        .act_n = discrete ? CHOICES : 0,
        .act_low = discrete ? NULL : act_low,
        .act_high = discrete ? NULL : act_high,
    };
    assert_ok(aw_agent_settings(factory, NULL, subject->settings, NULL));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        for (const struct aw_conf_field *field = factory->fields; field->key; field++)
            if (strcmp(field->key, small[i][0]) == 0)
                assert_ok(aw_conf_set(factory->fields, subject->settings, small[i][0], small[i][1],
                                      NULL));
}

static void subject_make(const struct subject *subject, uint64_t seed, const struct aw_alloc *alloc,
                         struct aw_agent *agent)
{
    struct aw_diag diag = {0};
    enum aw_err err =
        subject->factory->make(&subject->shape, subject->settings, seed, alloc, agent, &diag);
    if (err)
        print_error("%s\n", diag.text);
    assert_int_equal(err, AW_OK);
}

static void for_every_learner(void (*body)(const struct subject *subject, const char *dir))
{
    for (const struct aw_agent_factory *const *each = aw_agent_builtin(); *each; each++) {
        for (int discrete = 0; discrete < 2; discrete++) {
            if (discrete ? !(*each)->discrete : !(*each)->continuous)
                continue;
            print_message("# %s, %s\n", (*each)->name, discrete ? "discrete" : "continuous");
            const char *base = getenv("TMPDIR");
            char dir[PATH_MAX_BYTES], path[PATH_MAX_BYTES + 32];
            snprintf(dir, sizeof dir, "%s/aw-agents-XXXXXX", base ? base : "/tmp");
            assert_non_null(mkdtemp(dir));
            struct subject subject;
            subject_init(&subject, *each, discrete);
            body(&subject, dir);
            for (const char *const *file =
                     (const char *const[]){"model.safetensors", "state.safetensors", NULL};
                 *file; file++) {
                snprintf(path, sizeof path, "%s/%s", dir, *file);
                unlink(path);
            }
            assert_int_equal(rmdir(dir), 0);
        }
    }
}

struct bytes {
    unsigned char *data;
    size_t size;
};

static struct bytes read_bytes(const char *dir, const char *file)
{
    char path[PATH_MAX_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    struct bytes bytes = {0};
    assert_int_equal(fseek(stream, 0, SEEK_END), 0);
    bytes.size = (size_t)ftell(stream);
    rewind(stream);
    bytes.data = malloc(bytes.size + 1);
    assert_non_null(bytes.data);
    assert_int_equal(fread(bytes.data, 1, bytes.size, stream), bytes.size);
    fclose(stream);
    return bytes;
}

static struct bytes state_of(struct aw_agent *agent, const char *dir)
{
    struct aw_diag diag = {0};
    enum aw_err err = agent->ops->save(agent->self, dir, true, &diag);
    if (err)
        print_error("%s: %s\n", diag.key, diag.text);
    assert_int_equal(err, AW_OK);
    return read_bytes(dir, "state.safetensors");
}

static void assert_same_bytes(struct bytes a, struct bytes b)
{
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    free(a.data);
    free(b.data);
}

static void resume_body(const struct subject *subject, const char *dir)
{
    struct toy toy_a, toy_b, elsewhere;
    struct aw_agent a, b, c;
    toy_init(&toy_a, 1);
    toy_b = toy_a;
    toy_init(&elsewhere, 77);
    subject_make(subject, 5, NULL, &a);
    subject_make(subject, 5, NULL, &b);
    subject_make(subject, 5, NULL, &c);
    assert_true(toy_run(&toy_a, &a, subject->act_dim, 300) > 0);

    toy_run(&toy_b, &b, subject->act_dim, 150);
    assert_ok(b.ops->save(b.self, dir, true, NULL));
    toy_run(&elsewhere, &c, subject->act_dim, 40); /* whatever it knew must be gone */
    assert_ok(c.ops->load(c.self, dir, true, NULL));
    toy_run(&toy_b, &c, subject->act_dim, 150);

    assert_memory_equal(&toy_a, &toy_b, sizeof toy_a);
    struct bytes from_a = state_of(&a, dir);
    assert_same_bytes(from_a, state_of(&c, dir));
    aw_agent_free(&a);
    aw_agent_free(&b);
    aw_agent_free(&c);
}

static void a_resumed_run_gives_the_bytes_of_one_that_was_not_interrupted(void **state)
{
    (void)state;
    for_every_learner(resume_body);
}

static void seed_body(const struct subject *subject, const char *dir)
{
    struct bytes bytes[3];
    for (int i = 0; i < 3; i++) {
        struct toy toy;
        struct aw_agent agent;
        toy_init(&toy, 1);
        subject_make(subject, i == 2 ? 6 : 5, NULL, &agent);
        toy_run(&toy, &agent, subject->act_dim, 100);
        bytes[i] = state_of(&agent, dir);
        aw_agent_free(&agent);
    }
    assert_true(bytes[0].size != bytes[2].size ||
                memcmp(bytes[0].data, bytes[2].data, bytes[0].size) != 0);
    free(bytes[2].data);
    assert_same_bytes(bytes[0], bytes[1]);
}

static void the_same_seed_gives_the_same_bytes_and_another_gives_others(void **state)
{
    (void)state;
    for_every_learner(seed_body);
}

static void allocation_body(const struct subject *subject, const char *dir)
{
    (void)dir;
    struct toy toy;
    struct aw_agent agent;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    toy_init(&toy, 1);
    subject_make(subject, 5, &counting.alloc, &agent);
    uint64_t made = counting.alloc_count, freed = counting.free_count;
    assert_true(made > 0);
    assert_true(toy_run(&toy, &agent, subject->act_dim, 200) > 0);
    assert_ok(agent.ops->act(agent.self, toy.obs, ENVS, false, toy.action));
    assert_int_equal(counting.alloc_count, made);
    assert_int_equal(counting.free_count, freed);
    aw_agent_free(&agent);
    assert_int_equal(counting.free_count, made);
    aw_agent_free(&agent);

    for (uint64_t budget = 0; budget < made; budget++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        struct aw_diag diag = {0};
        assert_int_equal(subject->factory->make(&subject->shape, subject->settings, 5,
                                                &counting.alloc, &agent, &diag),
                         AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_null(agent.ops); /* untouched */
    }
}

static void acting_observing_and_learning_never_allocate(void **state)
{
    (void)state;
    for_every_learner(allocation_body);
}

static void finite_body(const struct subject *subject, const char *dir)
{
    struct toy toy;
    struct aw_agent agent;
    toy_init(&toy, 1);
    subject_make(subject, 5, NULL, &agent);
    toy_run(&toy, &agent, subject->act_dim, 60);
    assert_ok(agent.ops->act(agent.self, toy.obs, ENVS, true, toy.action));
    toy_move(&toy, subject->act_dim);
    struct bytes before = state_of(&agent, dir);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        for (int where = 0; where < 4; where++) {
            struct toy broken = toy;
            *(where == 0   ? &broken.obs[ENVS * OBS - 1]
              : where == 1 ? &broken.action[ENVS * subject->act_dim - 1]
              : where == 2 ? &broken.reward[ENVS - 1]
                           : &broken.next_obs[0]) = bad[k];
            struct aw_transition transition = toy_transition(&broken);
            assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_DIVERGED);
            float action[ENVS * ACT];
            if (where == 0) {
                assert_int_equal(agent.ops->act(agent.self, broken.obs, ENVS, true, action),
                                 AW_ERR_DIVERGED);
                assert_int_equal(agent.ops->act(agent.self, broken.obs, ENVS, false, action),
                                 AW_ERR_DIVERGED);
            }
        }
    }
    assert_same_bytes(before, state_of(&agent, dir));
    struct aw_transition transition = toy_transition(&toy);
    assert_ok(agent.ops->observe(agent.self, &transition));
    aw_agent_free(&agent);
}

static void a_number_that_is_not_finite_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    for_every_learner(finite_body);
}

static void act_body(const struct subject *subject, const char *dir)
{
    enum { ROWS = 50 };
    struct toy toy;
    struct aw_agent agent;
    toy_init(&toy, 1);
    subject_make(subject, 5, NULL, &agent);
    toy_run(&toy, &agent, subject->act_dim, 120);
    struct bytes before = state_of(&agent, dir);
    float obs[ROWS * OBS], first[ROWS * ACT], again[ROWS * ACT], single[ACT];
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 3);
    aw_rng_fill_normal(&rng, obs, ROWS * OBS);
    assert_ok(agent.ops->act(agent.self, obs, ROWS, false, first));
    assert_ok(agent.ops->act(agent.self, obs, ROWS, false, again));
    size_t width = subject->act_dim;
    assert_memory_equal(first, again, ROWS * width * sizeof *first);
    for (size_t i = 0; i < ROWS; i++) {
        assert_ok(agent.ops->act(agent.self, obs + i * OBS, 1, false, single));
        for (size_t j = 0; j < width && j < ACT; j++) {
            assert_close((double)single[j], (double)first[i * width + j], 1e-5);
            if (subject->discrete)
                assert_true(single[j] >= 0 && single[j] < CHOICES && single[j] == rintf(single[j]));
            else
                assert_true(single[j] >= act_low[j] && single[j] <= act_high[j]);
        }
    }
    assert_same_bytes(before, state_of(&agent, dir));
    for (int t = 0; t < 300 && !subject->discrete; t++) {
        assert_ok(agent.ops->act(agent.self, obs, ENVS, true, again));
        for (size_t i = 0; i < ENVS * ACT; i++)
            assert_true(isfinite(again[i]));
    }
    aw_agent_free(&agent);
}

static void acting_without_exploration_is_a_function_of_the_observation(void **state)
{
    (void)state;
    for_every_learner(act_body);
}

static void model_body(const struct subject *subject, const char *dir)
{
    struct toy toy;
    struct aw_agent agent, fresh;
    toy_init(&toy, 1);
    subject_make(subject, 5, NULL, &agent);
    subject_make(subject, 99, NULL, &fresh);
    toy_run(&toy, &agent, subject->act_dim, 120);
    assert_ok(agent.ops->save(agent.self, dir, false, NULL));
    assert_int_not_equal(fresh.ops->load(fresh.self, dir, true, NULL), AW_OK); /* no state there */
    assert_ok(fresh.ops->load(fresh.self, dir, false, NULL));
    float action[ENVS * ACT], loaded[ENVS * ACT];
    assert_ok(agent.ops->act(agent.self, toy.obs, ENVS, false, action));
    assert_ok(fresh.ops->act(fresh.self, toy.obs, ENVS, false, loaded));
    assert_memory_equal(action, loaded, ENVS * subject->act_dim * sizeof *action);

    char path[PATH_MAX_BYTES + 32], key[AW_CONF_TEXT_MAX], value[AW_CONF_TEXT_MAX];
    struct aw_safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(aw_safetensors_open(path, NULL, &file, NULL));
    assert_string_equal(aw_safetensors_meta(file, "algorithm"), subject->factory->name);
    assert_string_equal(aw_safetensors_meta(file, "seed"), "5");
    for (const struct aw_conf_field *field = subject->factory->fields; field->key; field++) {
        snprintf(key, sizeof key, "setting.%s", field->key);
        assert_non_null(aw_safetensors_meta(file, key));
        assert_string_equal(aw_safetensors_meta(file, key),
                            aw_conf_get(field, subject->settings, value, sizeof value));
    }
    aw_safetensors_close(file);
    aw_agent_free(&agent);
    aw_agent_free(&fresh);
}

static void a_saved_model_acts_alike_and_says_how_it_was_made(void **state)
{
    (void)state;
    for_every_learner(model_body);
}

/* A learner that has made updates takes another's model: Adam begins anew. */
static void moments_body(const struct subject *subject, const char *dir)
{
    struct aw_agent agent, trained;
    struct toy toy;
    subject_make(subject, 5, NULL, &agent);
    assert_ok(agent.ops->save(agent.self, dir, false, NULL));
    aw_agent_free(&agent);
    subject_make(subject, 6, NULL, &trained);
    toy_init(&toy, 6);
    assert_true(toy_run(&toy, &trained, subject->act_dim, 40) > 0);
    assert_ok(trained.ops->load(trained.self, dir, false, NULL));
    assert_ok(trained.ops->save(trained.self, dir, true, NULL));
    aw_agent_free(&trained);

    char path[PATH_MAX_BYTES + 32];
    struct aw_safetensors *file = NULL;
    uint32_t seen = 0;
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    assert_ok(aw_safetensors_open(path, NULL, &file, NULL));
    for (uint32_t i = 0; i < aw_safetensors_count(file); i++) {
        struct aw_tensor_view view;
        aw_safetensors_at(file, i, &view);
        if (strncmp(view.name, "adam.", 5) != 0)
            continue;
        for (size_t at = 0; at < view.bytes; at++)
            assert_int_equal(((const unsigned char *)view.data)[at], 0);
        seen++;
    }
    assert_true(seen > 0);
    aw_safetensors_close(file);
}

static void a_model_without_its_state_begins_with_fresh_moments(void **state)
{
    (void)state;
    for_every_learner(moments_body);
}

static void refuse_body(const struct subject *subject, const char *dir)
{
    struct aw_agent agent, other = {0};
    struct aw_diag diag;
    subject_make(subject, 5, NULL, &agent);
    assert_ok(agent.ops->save(agent.self, dir, true, NULL));
    struct bytes before = read_bytes(dir, "state.safetensors");

    struct subject wider = *subject;
    wider.shape.obs_dim = OBS + 1;
    subject_make(&wider, 5, NULL, &other);
    for (int resumable = 0; resumable < 2; resumable++) {
        diag = (struct aw_diag){0};
        assert_int_equal(other.ops->load(other.self, dir, resumable, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.key, "obs_dim"));
        assert_non_null(strstr(diag.text, "expected 5, found 4"));
    }
    aw_agent_free(&other);

    for (const struct aw_agent_factory *const *each = aw_agent_builtin(); *each; each++) {
        if (*each == subject->factory ||
            !(subject->discrete ? (*each)->discrete : (*each)->continuous))
            continue;
        struct subject stranger;
        subject_init(&stranger, *each, subject->discrete);
        subject_make(&stranger, 5, NULL, &other);
        diag = (struct aw_diag){0};
        assert_int_equal(other.ops->load(other.self, dir, false, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, subject->factory->name));
        assert_non_null(strstr(diag.text, (*each)->name));
        aw_agent_free(&other);
    }

    /* cut anywhere, the file is refused and the learner stays what it was */
    char path[PATH_MAX_BYTES + 32];
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    for (size_t cut = 0; cut < before.size; cut += 1 + before.size / 13) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_int_not_equal(agent.ops->load(agent.self, dir, true, NULL), AW_OK);
        struct bytes now = state_of(&agent, dir);
        assert_int_equal(now.size, before.size);
        assert_memory_equal(now.data, before.data, now.size);
        free(now.data);
    }
    free(before.data);
    assert_int_not_equal(agent.ops->load(agent.self, "/nowhere/at/all", true, NULL), AW_OK);
    assert_int_not_equal(agent.ops->save(agent.self, "/nowhere/at/all", true, NULL), AW_OK);
    aw_agent_free(&agent);
}

static void files_of_others_are_refused_with_a_reason_and_change_nothing(void **state)
{
    (void)state;
    for_every_learner(refuse_body);
}

static void deep_body(const struct subject *subject, const char *dir)
{
    struct subject deep = *subject;
    const struct aw_conf_field *fields = subject->factory->fields;
    for (const struct aw_conf_field *field = fields; field->key; field++)
        if (field->type == AW_CONF_U32_LIST)
            assert_ok(aw_conf_set(fields, deep.settings, field->key, "4,4,4,4,4,4,4", NULL));
    struct toy toy;
    struct aw_agent agent;
    toy_init(&toy, 1);
    subject_make(&deep, 5, NULL, &agent);
    toy_run(&toy, &agent, subject->act_dim, 40);
    assert_ok(agent.ops->save(agent.self, dir, true, NULL));
    assert_ok(agent.ops->load(agent.self, dir, true, NULL));
    aw_agent_free(&agent);
}

static void the_deepest_networks_are_saved_too(void **state)
{
    (void)state;
    for_every_learner(deep_body);
}

static void a_learner_that_cannot_take_the_actions_says_so(void **state)
{
    (void)state;
    for (const struct aw_agent_factory *const *each = aw_agent_builtin(); *each; each++) {
        for (int discrete = 0; discrete < 2; discrete++) {
            if (discrete ? (*each)->discrete : (*each)->continuous)
                continue;
            struct subject subject;
            struct aw_agent agent = {0};
            struct aw_diag diag = {0};
            subject_init(&subject, *each, discrete);
            assert_int_equal(
                (*each)->make(&subject.shape, subject.settings, 1, NULL, &agent, &diag),
                AW_ERR_UNSUPPORTED);
            assert_true(diag.text[0]);
            assert_null(agent.ops);
        }
    }
}

static void every_preset_of_every_learner_makes_one(void **state)
{
    (void)state;
    for (const struct aw_agent_factory *const *each = aw_agent_builtin(); *each; each++) {
        assert_true((*each)->settings_bytes <= AW_AGENT_SETTINGS_BYTES_MAX);
        for (const struct aw_agent_preset *preset = (*each)->presets; preset->name; preset++) {
            print_message("# %s, %s\n", (*each)->name, preset->name);
            struct subject subject;
            struct aw_agent agent = {0};
            struct aw_diag diag = {0};
            subject_init(&subject, *each, !(*each)->continuous);
            assert_ok(aw_agent_settings(*each, preset->name, subject.settings, &diag));
            for (const struct aw_conf_field *field = (*each)->fields; field->key; field++) {
                assert_true(field->help && strlen(field->help) > 10);
                if (strcmp(field->key, "replay_capacity") == 0) /* a test needs no gigabyte */
                    assert_ok(
                        aw_conf_set((*each)->fields, subject.settings, field->key, "5000", NULL));
            }
            subject_make(&subject, 1, NULL, &agent);
            aw_agent_free(&agent);
        }
    }
}

static void names_are_found_and_misspelt_ones_are_helped(void **state)
{
    (void)state;
    const struct aw_agent_factory *factory = NULL;
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    struct aw_diag diag = {0};
    assert_ok(aw_agent_factory_find("ddpg", &factory, NULL));
    assert_string_equal(factory->name, "ddpg");
    factory = NULL;
    assert_int_equal(aw_agent_factory_find("dddpg", &factory, &diag), AW_ERR_NOTFOUND);
    assert_null(factory);
    assert_non_null(strstr(diag.text, "td3"));
    assert_non_null(strstr(diag.text, "did you mean 'ddpg'"));
    assert_ok(aw_agent_factory_find("ddpg", &factory, NULL));
    assert_int_equal(aw_agent_settings(factory, "aware-table3", settings, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "aware-table2"));
    assert_ok(aw_agent_settings(factory, "", settings, NULL));
}

AW_TEST_GROUP("agents")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_gives_the_bytes_of_one_that_was_not_interrupted),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_and_another_gives_others),
        cmocka_unit_test(acting_observing_and_learning_never_allocate),
        cmocka_unit_test(a_number_that_is_not_finite_is_refused_and_changes_nothing),
        cmocka_unit_test(acting_without_exploration_is_a_function_of_the_observation),
        cmocka_unit_test(a_saved_model_acts_alike_and_says_how_it_was_made),
        cmocka_unit_test(a_model_without_its_state_begins_with_fresh_moments),
        cmocka_unit_test(files_of_others_are_refused_with_a_reason_and_change_nothing),
        cmocka_unit_test(the_deepest_networks_are_saved_too),
        cmocka_unit_test(a_learner_that_cannot_take_the_actions_says_so),
        cmocka_unit_test(every_preset_of_every_learner_makes_one),
        cmocka_unit_test(names_are_found_and_misspelt_ones_are_helped),
    };
    return cmocka_run_group_tests_name("agents", tests, NULL, NULL);
}
