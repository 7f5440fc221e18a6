/* train_bootstrap_test.c - runs that begin with the agent that an environment brings along. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/testing.h"
#include "train/train.h"

/* ---- pendulum-v1 as if it lived elsewhere, with a rule of its own ---- */

#define ADDRESS "test://pendulum"

struct ruled {
    struct aw_env inner;
    const struct aw_alloc *alloc;
    float obs[3]; /* cosine, sine, speed */
};

static uint32_t asked; /* how often the rule was */
static bool silent;    /* it brings no rule along */

static enum aw_err ruled_reset(void *self, uint64_t seed, float *obs)
{
    struct ruled *ruled = self;
    const enum aw_err err = ruled->inner.ops->reset(ruled->inner.self, seed, obs);
    memcpy(ruled->obs, obs, sizeof ruled->obs);
    return err;
}

static enum aw_err ruled_step(void *self, const float *action, float *obs, struct aw_step *ret)
{
    struct ruled *ruled = self;
    const enum aw_err err = ruled->inner.ops->step(ruled->inner.self, action, obs, ret);
    memcpy(ruled->obs, obs, sizeof ruled->obs);
    return err;
}

static void ruled_state_save(const void *self, void *bytes)
{
    const struct ruled *ruled = self;
    memcpy(bytes, ruled->obs, sizeof ruled->obs);
    ruled->inner.ops->state_save(ruled->inner.self, (char *)bytes + sizeof ruled->obs);
}

static enum aw_err ruled_state_load(void *self, const void *bytes)
{
    struct ruled *ruled = self;
    memcpy(ruled->obs, bytes, sizeof ruled->obs);
    return ruled->inner.ops->state_load(ruled->inner.self, (const char *)bytes + sizeof ruled->obs);
}

static void ruled_free(void *self)
{
    struct ruled *ruled = self;
    if (!ruled)
        return;
    aw_env_free(&ruled->inner);
    aw_alloc_free(ruled->alloc, ruled);
}

static const struct aw_env_ops ruled_ops = {ruled_reset, ruled_step, ruled_state_save,
                                            ruled_state_load, ruled_free};
static struct aw_env_spec ruled_spec;

static enum aw_err ruled_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                              struct aw_diag *diag)
{
    struct ruled *ruled = aw_alloc_new(alloc, 1, sizeof *ruled);
    if (!ruled)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a pendulum");
    ruled->alloc = alloc;
    const enum aw_err err = aw_env_make_with("pendulum-v1", NULL, 0, alloc, &ruled->inner, diag);
    if (err) {
        aw_alloc_free(alloc, ruled);
        return err;
    }
    *ret_env = (struct aw_env){.spec = &ruled_spec, .ops = &ruled_ops, .self = ruled};
    return AW_OK;
}

static struct aw_env_factory ruled_factory = {.spec = &ruled_spec, .make = ruled_make};

static enum aw_err find(const char *address, const struct aw_env_factory **ret_factory,
                        struct aw_diag *diag)
{
    const struct aw_env_factory *inner = NULL;
    (void)address;
    const enum aw_err err = aw_env_find("pendulum-v1", &inner, diag);
    if (err)
        return err;
    ruled_spec = *inner->spec;
    ruled_spec.name = ADDRESS;
    ruled_spec.state_bytes += sizeof(float[3]);
    *ret_factory = &ruled_factory;
    return AW_OK;
}

static const char *rule_name(const struct aw_env *env)
{
    return env->ops == &ruled_ops && !silent ? "pump-and-hold" : "";
}

/* Push along until there is energy enough to stand, let go, and hold what comes near the top. */
static bool rule(const struct aw_env *env, float *action)
{
    if (env->ops != &ruled_ops || silent)
        return false;
    const struct ruled *ruled = env->self;
    const float off = atan2f(ruled->obs[1], ruled->obs[0]), speed = ruled->obs[2];
    const float energy = speed * speed / 6 + 5 * ruled->obs[0];
    asked++;
    if (fabsf(off) < 0.4f)
        *action = fminf(fmaxf(-10 * off - 2 * speed, -2), 2);
    else
        *action = energy < 5 ? copysignf(1, speed) : 0;
    return true;
}

static const struct aw_env_elsewhere elsewhere = {find, rule_name, rule};

static int set_up(void **state)
{
    (void)state;
    silent = false;
    asked = 0;
    aw_env_elsewhere_set(&elsewhere);
    return 0;
}

static struct aw_train_config config_of(const char *agent, uint64_t steps, uint32_t episodes)
{
    struct aw_train_config config = {
        .env = ADDRESS, .steps = steps, .env_count = 1, .bootstrap_episodes = episodes};
    const struct aw_agent_factory *factory = NULL;
    const char *preset;
    snprintf(config.agent, sizeof config.agent, "%s", agent);
    assert_ok(aw_agent_factory_find(agent, &factory, NULL));
    assert_ok(aw_train_settings(factory, ADDRESS, "none", config.settings, &preset, NULL));
    if (!strcmp(agent, "bcq")) {
        static const char *const small[] = {"hidden=32", "vae_hidden=32", "updates_per_step=3",
                                            "replay_capacity=5000"};
        for (size_t i = 0; i < sizeof small / sizeof *small; i++)
            assert_ok(aw_conf_set_pair(factory->fields, config.settings, small[i], NULL));
    }
    return config;
}

static double evaluated(struct aw_train *train)
{
    double returns[10], sum = 0;
    assert_ok(aw_train_evaluate(train, 10, 7, returns, NULL));
    for (int i = 0; i < 10; i++)
        sum += returns[i] / 10;
    return sum;
}

/* ---- */

static void
the_environments_agent_acts_first_and_the_learner_is_good_from_its_first_step(void **state)
{
    (void)state;
    struct aw_train *train = NULL, *alone = NULL;
    struct aw_train_config config = config_of("bcq", 10 * 200, 10);
    assert_ok(aw_train_new(&config, NULL, &train, NULL));
    assert_ok(aw_train_step(train, config.steps, NULL, NULL, NULL));
    const struct aw_train_progress *at = aw_train_progress(train);
    assert_int_equal(asked, 10 * 200);
    assert_int_equal(at->bootstrap_count, 10);
    assert_true(at->update_count > 3 * (10 * 200 - 101));             /* less the first batch */
    assert_true(fabs(at->bootstrap_return - at->return_mean) < 1e-6); /* of the same ten */
    assert_true(at->bootstrap_return > -600);
    /* who acts without having seen the rule falls short by far: about -1200 */
    config.bootstrap_episodes = 0;
    config.steps = 1;
    assert_ok(aw_train_new(&config, NULL, &alone, NULL));
    const double with = evaluated(train), without = evaluated(alone);
    if (!(with > without + 150))
        fail_msg("%.0f after the rule's episodes, %.0f without", with, without);
    aw_train_free(alone);
    aw_train_free(train);
}

static void after_the_bootstrap_the_learner_acts_itself(void **state)
{
    (void)state;
    struct aw_train *train = NULL;
    const struct aw_train_config config = config_of("td3", 400, 1);
    assert_ok(aw_train_new(&config, NULL, &train, NULL));
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_int_equal(asked, 200);
    assert_int_equal(aw_train_progress(train)->bootstrap_count, 1);
    assert_int_equal(aw_train_progress(train)->episode_count, 2);
    aw_train_free(train);
}

static void run_remove(const char *dir)
{
    static const char *const files[] = {"run.json", "model.safetensors", "state.safetensors",
                                        "loop.state"};
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void
a_run_that_is_resumed_goes_on_with_its_bootstrap_and_does_not_begin_it_anew(void **state)
{
    (void)state;
    char dir[] = "/tmp/aware-bootstrap-XXXXXX";
    struct aw_train *whole = NULL, *part = NULL;
    double expected[AW_TRAIN_RECENT], found[AW_TRAIN_RECENT];
    const struct aw_train_config config = config_of("bcq", 600, 2);
    assert_non_null(mkdtemp(dir));
    assert_ok(aw_train_new(&config, NULL, &whole, NULL));
    assert_ok(aw_train_step(whole, 600, NULL, NULL, NULL));
    assert_int_equal(asked, 400);
    asked = 0;
    assert_ok(aw_train_new(&config, NULL, &part, NULL));
    assert_ok(aw_train_step(part, 300, NULL, NULL, NULL));
    assert_ok(aw_train_save(part, dir, true, NULL));
    aw_train_free(part);
    assert_ok(aw_train_resume(dir, 0, NULL, &part, NULL));
    assert_int_equal(aw_train_config(part)->bootstrap_episodes, 2);
    assert_ok(aw_train_step(part, 600, NULL, NULL, NULL));
    assert_int_equal(asked, 400);
    assert_int_equal(aw_train_recent(whole, expected), 3);
    assert_int_equal(aw_train_recent(part, found), 3);
    assert_memory_equal(expected, found, 3 * sizeof *found);
    aw_train_free(whole);
    aw_train_free(part);
    run_remove(dir);
}

static void where_there_is_nothing_to_begin_with_it_is_refused_and_why(void **state)
{
    (void)state;
    struct aw_train *train = NULL;
    struct aw_diag diag = {0};
    struct aw_train_config config = config_of("ppo", 400, 1);
    assert_int_equal(aw_train_new(&config, NULL, &train, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "only from what it does itself"));
    config = config_of("td3", 400, 1);
    silent = true;
    assert_int_equal(aw_train_new(&config, NULL, &train, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "brings no agent of its own"));
    snprintf(config.env, sizeof config.env, "pendulum-v1");
    assert_int_equal(aw_train_new(&config, NULL, &train, &diag), AW_ERR_UNSUPPORTED);
    config.bootstrap_episodes = AW_TRAIN_BOOTSTRAP_MAX + 1;
    assert_int_equal(aw_train_new(&config, NULL, &train, &diag), AW_ERR_RANGE);
    assert_null(train);
}

static void a_rule_that_falls_silent_ends_the_run_with_a_sentence(void **state)
{
    (void)state;
    struct aw_train *train = NULL;
    struct aw_diag diag = {0};
    const struct aw_train_config config = config_of("td3", 400, 2);
    assert_ok(aw_train_new(&config, NULL, &train, NULL));
    assert_ok(aw_train_step(train, 10, NULL, NULL, NULL));
    silent = true;
    assert_int_equal(aw_train_step(train, 10, NULL, NULL, &diag), AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "does not say what its own agent does"));
    aw_train_free(train);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

AW_TEST_GROUP("train-bootstrap")
{
    const struct CMUnitTest tests[] = {
        TEST(the_environments_agent_acts_first_and_the_learner_is_good_from_its_first_step),
        TEST(after_the_bootstrap_the_learner_acts_itself),
        TEST(a_run_that_is_resumed_goes_on_with_its_bootstrap_and_does_not_begin_it_anew),
        TEST(where_there_is_nothing_to_begin_with_it_is_refused_and_why),
        TEST(a_rule_that_falls_silent_ends_the_run_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
