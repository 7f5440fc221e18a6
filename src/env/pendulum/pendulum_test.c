#include "env/pendulum/pendulum.h"
#include "env/testing.h"

#include <math.h>

/* From Gymnasium's Pendulum-v1 in double, starting at (3 pi / 4, 0.5). */
static const struct {
    double torque, angle, speed, reward;
} vectors[] = {
    {1, 2.41521099449, 1.18033008589, -5.57765247561},
    {-2.5, 2.48413383555, 1.3784568212, -5.97656205906}, /* clipped to -2 */
    {.3, 2.57822320263, 1.88178734158, -6.3610252337},
};

static void the_dynamics_are_those_of_gymnasium(void **state)
{
    (void)state;
    struct aw__pendulum_state pendulum;
    aw__pendulum_place(&pendulum, 2.356194490192345, .5);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_close(aw__pendulum_advance(&pendulum, vectors[i].torque), vectors[i].reward, 1e-11);
        assert_close(pendulum.angle, vectors[i].angle, 1e-11);
        assert_close(pendulum.speed, vectors[i].speed, 1e-11);
        assert_close(pendulum.cosine, cos(vectors[i].angle), 1e-10);
        assert_close(pendulum.sine, sin(vectors[i].angle), 1e-10);
    }
}

static void the_cost_knows_no_full_turns(void **state)
{
    (void)state;
    const double turn = 6.283185307179586;
    for (double angle = -3.1; angle < 3.2; angle += 0.2)
        for (int turns = -13; turns <= 13; turns++) {
            struct aw__pendulum_state pendulum;
            aw__pendulum_place(&pendulum, angle + turns * turn, 0);
            assert_close(aw__pendulum_advance(&pendulum, 0), -angle * angle, 1e-12);
        }
}

static void speed_is_capped_and_hanging_still_costs_most(void **state)
{
    (void)state;
    struct aw__pendulum_state pendulum;
    aw__pendulum_place(&pendulum, 1.5, 7.9);
    aw__pendulum_advance(&pendulum, 2);
    assert_true(pendulum.speed == 8);
    struct aw_env env;
    assert_ok(aw_env_make("pendulum-v1", &env, NULL));
    aw__pendulum_place(&pendulum, -3.14159265358979323846, 8);
    float worst = (float)aw__pendulum_advance(&pendulum, -2);
    assert_true(worst == env.spec->reward_low);
    assert_close((double)worst, -16.2736044, 1e-7);
    aw_env_free(&env);
}

static void random_play_scores_what_gymnasium_s_scores(void **state)
{
    (void)state;
    struct aw_env env;
    assert_ok(aw_env_make("pendulum-v1", &env, NULL));
    aw_testing_random_returns(&env, 4000, -1227, 287, 1000);
    aw_env_free(&env);
}

AW_TEST_GROUP("pendulum")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dynamics_are_those_of_gymnasium),
        cmocka_unit_test(the_cost_knows_no_full_turns),
        cmocka_unit_test(speed_is_capped_and_hanging_still_costs_most),
        cmocka_unit_test(random_play_scores_what_gymnasium_s_scores),
    };
    return cmocka_run_group_tests_name("pendulum", tests, NULL, NULL);
}
