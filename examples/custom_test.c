/* custom_test.c - does the example keep the contracts? The library's own checker is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "custom.h"
#include "env/check.h"

#define DIMS    3u
#define CHOICES 3u

static void the_environment_keeps_the_contract(void **state)
{
    (void)state;
    struct aw_env_finding findings[AW_ENV_CHECK_RULE_COUNT];
    uint32_t count;
    struct aw_env env;
    assert_ok(pool_factory.make(NULL, &env, NULL));
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_ok(aw_env_check(&env, seed, NULL, findings, AW_ENV_CHECK_RULE_COUNT, &count));
        for (uint32_t f = 0; f < count; f++)
            print_error("%s: %s\n", aw_env_check_rule_name(findings[f].rule), findings[f].text);
        assert_int_equal(count, 0);
    }
    aw_env_free(&env);
}

static void new_agent(uint64_t seed, struct aw_agent *agent)
{
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = DIMS,
                                         .action = AW_AGENT_DISCRETE,
                                         .act_dim = 1,
                                         .act_n = CHOICES};
    assert_ok(linear_agent_new(&shape, seed, agent, NULL));
}

/* Plays `episodes` episodes, learning. */
static void play(struct aw_agent *agent, uint32_t episodes)
{
    struct aw_env env;
    float obs[DIMS], next_obs[DIMS], action;
    assert_ok(pool_factory.make(NULL, &env, NULL));
    for (uint32_t e = 0; e < episodes; e++) {
        struct aw_step step = {0};
        assert_ok(env.ops->reset(env.self, e, obs));
        while (!step.truncated) {
            assert_ok(agent->ops->act(agent->self, obs, 1, true, &action));
            assert_ok(env.ops->step(env.self, &action, next_obs, &step));
            const struct aw_transition transition = {obs,      &action,          &step.reward,
                                                     next_obs, &step.terminated, &step.truncated};
            assert_ok(agent->ops->observe(agent->self, &transition));
            assert_ok(agent->ops->learn(agent->self, NULL));
            memcpy(obs, next_obs, sizeof obs);
        }
    }
    aw_env_free(&env);
}

static void assert_same_policy(const struct aw_agent *a, const struct aw_agent *b)
{
    for (uint32_t i = 0; i < 1000; i++) {
        const float obs[DIMS] = {(float)(i / 100) / 9, (float)(i / 10 % 10) / 9,
                                 (float)(i % 10) / 9};
        float x, y;
        assert_ok(a->ops->act(a->self, obs, 1, false, &x));
        assert_ok(b->ops->act(b->self, obs, 1, false, &y));
        assert_true(x == y);
    }
}

static void a_saved_policy_comes_back(void **state)
{
    (void)state;
    struct aw_agent taught, other;
    char dir[] = "/tmp/aware-custom-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    new_agent(1, &taught);
    new_agent(2, &other);
    play(&taught, 80);
    assert_int_equal(other.ops->load(other.self, dir, false, NULL), AW_ERR_NOTFOUND);
    assert_ok(taught.ops->save(taught.self, dir, false, NULL));
    assert_ok(other.ops->load(other.self, dir, false, NULL));
    assert_same_policy(&taught, &other);

    assert_int_equal(truncate(path, 50), 0);
    assert_int_equal(other.ops->load(other.self, dir, false, NULL), AW_ERR_FORMAT);
    assert_same_policy(&taught, &other); /* a failure leaves it as it was */
    assert_int_equal(taught.ops->save(taught.self, dir, true, NULL), AW_ERR_UNSUPPORTED);

    unlink(path);
    rmdir(dir);
    aw_agent_free(&taught);
    aw_agent_free(&other);
}

static void what_is_not_finite_is_not_learned_from(void **state)
{
    (void)state;
    struct aw_agent agent;
    new_agent(1, &agent);
    const float obs[DIMS] = {0, 0, __builtin_nanf("")}, reward = __builtin_inff();
    const bool no = false;
    float action = -1;
    assert_int_equal(agent.ops->act(agent.self, obs, 1, true, &action), AW_ERR_DIVERGED);
    assert_true(action == -1);
    const struct aw_transition transition = {obs, &action, &reward, obs, &no, &no};
    assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_DIVERGED);
    aw_agent_free(&agent);
}

static void an_agent_says_what_it_cannot_take(void **state)
{
    (void)state;
    struct aw_agent agent = {0};
    struct aw_diag diag = {0};
    const float low = -1, high = 1;
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = DIMS,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = 1,
                                         .act_low = &low,
                                         .act_high = &high};
    assert_int_equal(linear_agent_new(&shape, 1, &agent, &diag), AW_ERR_UNSUPPORTED);
    assert_null(agent.self);
    assert_non_null(strstr(diag.text, "choices"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_keeps_the_contract),
        cmocka_unit_test(a_saved_policy_comes_back),
        cmocka_unit_test(what_is_not_finite_is_not_learned_from),
        cmocka_unit_test(an_agent_says_what_it_cannot_take),
    };
    return cmocka_run_group_tests_name("custom", tests, NULL, NULL);
}
