/*
 * learn_dpg.c - DDPG and TD3 learn, in returns over seeds.
 *
 *   learn_dpg          short: the tests
 *   learn_dpg --full   five seeds of 20 000 steps on pendulum-v1, 100 episodes of evaluation each:
 *                      the table of docs/algorithms/ddpg.md and td3.md; fails below -180 on average
 */
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "learn.h"
#include "rl/ddpg.h"
#include "rl/td3.h"

#define SEEDS         5u
#define PENDULUM_GOAL (-180.0)

static double run(const struct aw_agent_factory *factory, const char *env, uint64_t steps,
                  uint32_t episodes, uint64_t seed, double *ret_seconds)
{
    const struct aw_learn_case learn = {
        .env = env,
        .factory = factory,
        .env_count = 1,
        .steps = steps,
        .episode_count = episodes,
    };
    struct aw_learn_result result = {0};
    struct aw_diag diag = {0};
    enum aw_err err = aw_learn_run(&learn, seed, &result, &diag);
    char line[1024];
    if (err)
        print_error("%s\n", aw_diag_format(&diag, err, line, sizeof line));
    assert_int_equal(err, AW_OK);
    if (ret_seconds)
        *ret_seconds = result.seconds;
    return result.return_mean;
}

static void identity_is_learned_in_2000_steps(void **state)
{
    (void)state;
    assert_true(run(&aw_ddpg_factory, "identity-box-v0", 2000, 10, 1, NULL) > 90);
    assert_true(run(&aw_td3_factory, "identity-box-v0", 2000, 10, 1, NULL) > 90);
}

static void ddpg_swings_the_pendulum_up(void **state)
{
    (void)state;
    double mean = run(&aw_ddpg_factory, "pendulum-v1", 12000, 50, 1, NULL);
    print_message("# return %.1f\n", mean);
    assert_true(mean >= -200);
}

static void td3_swings_the_pendulum_up(void **state)
{
    (void)state;
    double mean = run(&aw_td3_factory, "pendulum-v1", 12000, 50, 1, NULL);
    print_message("# return %.1f\n", mean);
    assert_true(mean >= -200);
}

static int full(void)
{
    static const struct aw_agent_factory *const learners[] = {&aw_ddpg_factory, &aw_td3_factory,
                                                              NULL};
    int missed = 0;
    printf("%-8s %4s %10s %10s\n", "learner", "seed", "return", "seconds");
    for (size_t i = 0; learners[i]; i++) {
        double sum = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            double seconds, mean = run(learners[i], "pendulum-v1", 20000, 100, seed, &seconds);
            printf("%-8s %4u %10.1f %10.2f\n", learners[i]->name, (unsigned)seed, mean, seconds);
            fflush(stdout);
            sum += mean;
        }
        printf("%-8s mean %10.1f\n", learners[i]->name, sum / SEEDS);
        missed += sum / SEEDS < PENDULUM_GOAL;
    }
    return missed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0)
        return full();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_is_learned_in_2000_steps),
        cmocka_unit_test(ddpg_swings_the_pendulum_up),
        cmocka_unit_test(td3_swings_the_pendulum_up),
    };
    return cmocka_run_group_tests_name("learn_dpg", tests, NULL, NULL);
}
