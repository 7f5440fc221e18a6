#include "env/testing.h"

#include <math.h>

/* Plays one episode of 100 steps with a policy of the observation; returns its return. */
static double play(const struct aw_env *env, float (*policy)(const float *obs))
{
    float obs[4];
    struct aw_step step = {0};
    double total = 0;
    assert_ok(env->ops->reset(env->self, 5, obs));
    for (int i = 1; i <= 100; i++) {
        assert_true(aw_space_contains(&env->spec->observation, obs));
        float action = policy(obs);
        assert_ok(env->ops->step(env->self, &action, obs, &step));
        assert_false(step.terminated);
        assert_int_equal(step.truncated, i == 100);
        total += (double)step.reward;
    }
    return total;
}

static float name_the_light(const float *obs)
{
    int lit = -1, count = 0;
    for (int i = 0; i < 4; i++)
        if (obs[i] == 1) {
            lit = i;
            count++;
        }
    assert_int_equal(count, 1);
    return (float)lit;
}

static float name_the_next(const float *obs)
{
    return fmodf(name_the_light(obs) + 1, 4);
}

static float repeat(const float *obs)
{
    return obs[0];
}

static float overshoot(const float *obs)
{
    return obs[0] + 0.25f > 1 ? 50 : obs[0] + 0.25f; /* beyond the bound: as the bound itself */
}

static float zero(const float *obs)
{
    (void)obs;
    return 0;
}

static void naming_the_light_pays_one_and_anything_else_nothing(void **state)
{
    (void)state;
    struct aw_env env;
    assert_ok(aw_env_make("identity-discrete-v0", &env, NULL));
    assert_true(play(&env, name_the_light) == 100);
    assert_true(play(&env, name_the_next) == 0);
    aw_testing_random_returns(&env, 2000, 25, sqrt(100 * 0.25 * 0.75), 1e9);
    aw_env_free(&env);
}

static void the_box_pays_less_the_further_the_answer_is(void **state)
{
    (void)state;
    struct aw_env env;
    assert_ok(aw_env_make("identity-box-v0", &env, NULL));
    assert_true(play(&env, repeat) == 100);
    double off = play(&env, overshoot);
    assert_true(off > 75 && off < 80);
    assert_close(play(&env, zero), 50, 0.15);
    /* 1 - |a - s|: mean 1/3, variance 2/9, for two uniform numbers in [-1, 1] */
    aw_testing_random_returns(&env, 2000, 100.0 / 3, 10 * sqrt(2.0 / 9), 1e9);
    aw_env_free(&env);
}

AW_TEST_GROUP("identity")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naming_the_light_pays_one_and_anything_else_nothing),
        cmocka_unit_test(the_box_pays_less_the_further_the_answer_is),
    };
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
