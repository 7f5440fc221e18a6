#include "env/cartpole/cartpole.h"
#include "env/testing.h"

#include <math.h>

/* From Gymnasium's CartPole-v1 in double, starting at (0.01, -0.02, 0.03, 0.04). */
static const struct {
    bool push_right;
    struct aw__cartpole_state after;
} vectors[] = {
    {true, {.0096, .174679195748, .0308, -.24306871796}},
    {false, {.013093583915, -.0208688489482, .0259386256408, .0591679999394}},
    {true, {.012676206936, .173871774873, .0271219856396, -.22521957256}},
};

static void the_dynamics_are_those_of_gymnasium(void **state)
{
    (void)state;
    struct aw__cartpole_state pole = {.01, -.02, .03, .04};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        aw__cartpole_advance(&pole, vectors[i].push_right);
        assert_close(pole.position, vectors[i].after.position, 1e-11);
        assert_close(pole.velocity, vectors[i].after.velocity, 1e-11);
        assert_close(pole.angle, vectors[i].after.angle, 1e-11);
        assert_close(pole.spin, vectors[i].after.spin, 1e-11);
        assert_false(aw__cartpole_fallen(&pole));
    }
}

/* The equations once more, with the library's sine and cosine. */
static double spin_rate_twin(const struct aw__cartpole_state *pole, double push)
{
    double s = sin(pole->angle), c = cos(pole->angle);
    double drive = (push + 0.05 * pole->spin * pole->spin * s) / 1.1;
    return (9.8 * s - c * drive) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1));
}

static void the_short_series_is_as_good_as_the_library_while_the_pole_stands(void **state)
{
    (void)state;
    for (double angle = -0.2094; angle <= 0.2094; angle += 0.0001) {
        struct aw__cartpole_state pole = {.angle = angle, .spin = 1 + angle}, before = pole;
        aw__cartpole_advance(&pole, angle > 0);
        double rate = spin_rate_twin(&before, angle > 0 ? 10 : -10);
        assert_close(pole.spin, before.spin + 0.02 * rate, 4e-16);
    }
}

static void it_falls_beyond_twelve_degrees_or_the_end_of_the_track(void **state)
{
    (void)state;
    const double limit = 0.20943951023931953;
    assert_false(aw__cartpole_fallen(&(struct aw__cartpole_state){.angle = limit}));
    assert_true(aw__cartpole_fallen(&(struct aw__cartpole_state){.angle = -limit - 1e-12}));
    assert_false(aw__cartpole_fallen(&(struct aw__cartpole_state){.position = -2.4}));
    assert_true(aw__cartpole_fallen(&(struct aw__cartpole_state){.position = 2.4 + 1e-12}));
}

static void an_episode_shows_pays_and_ends_as_documented(void **state)
{
    (void)state;
    struct aw_env env;
    assert_ok(aw_env_make("cartpole-v1", &env, NULL));
    float obs[4];
    assert_ok(env.ops->reset(env.self, 3, obs));
    struct aw__cartpole_state twin = {(double)obs[0], (double)obs[1], (double)obs[2],
                                      (double)obs[3]};
    for (int i = 0; i < 4; i++)
        assert_true(obs[i] >= -0.05f && obs[i] <= 0.05f && obs[i] != 0);
    const float right = 1;
    struct aw_step step = {0};
    for (uint32_t steps = 1; !step.terminated; steps++) {
        assert_true(steps < 20); /* pushing one way never balances */
        assert_ok(env.ops->step(env.self, &right, obs, &step));
        aw__cartpole_advance(&twin, true);
        assert_true(step.reward == 1);
        assert_false(step.truncated);
        assert_close((double)obs[0], twin.position, 1e-6);
        assert_close((double)obs[3], twin.spin, 1e-6);
    }
    assert_true(aw_space_contains(&env.spec->observation, obs));
    aw_env_free(&env);
}

/* Leaning into the fall, with a slow pull to the middle, holds the pole for good. */
static float balance(const float *obs)
{
    return obs[2] + 0.3f * obs[3] + 0.02f * obs[0] + 0.06f * obs[1] > 0 ? 1 : 0;
}

static void a_balanced_pole_is_truncated_after_500_steps(void **state)
{
    (void)state;
    struct aw_env env;
    assert_ok(aw_env_make("cartpole-v1", &env, NULL));
    for (uint64_t seed = 0; seed < 20; seed++) {
        float obs[4];
        struct aw_step step = {0};
        assert_ok(env.ops->reset(env.self, seed, obs));
        for (uint32_t i = 1; i <= 500; i++) {
            float action = balance(obs);
            assert_ok(env.ops->step(env.self, &action, obs, &step));
            assert_false(step.terminated);
            assert_int_equal(step.truncated, i == 500);
        }
    }
    aw_env_free(&env);
}

static void random_play_scores_what_gymnasium_s_scores(void **state)
{
    (void)state;
    struct aw_env env;
    assert_ok(aw_env_make("cartpole-v1", &env, NULL));
    aw_testing_random_returns(&env, 20000, 22.43, 12.0, 20000);
    aw_env_free(&env);
}

AW_TEST_GROUP("cartpole")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dynamics_are_those_of_gymnasium),
        cmocka_unit_test(the_short_series_is_as_good_as_the_library_while_the_pole_stands),
        cmocka_unit_test(it_falls_beyond_twelve_degrees_or_the_end_of_the_track),
        cmocka_unit_test(an_episode_shows_pays_and_ends_as_documented),
        cmocka_unit_test(a_balanced_pole_is_truncated_after_500_steps),
        cmocka_unit_test(random_play_scores_what_gymnasium_s_scores),
    };
    return cmocka_run_group_tests_name("cartpole", tests, NULL, NULL);
}
