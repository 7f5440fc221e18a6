/*
 * learn_dqn.c - DQN learns, in returns over seeds.
 *
 *   learn_dqn          short: the tests
 *   learn_dqn --full   five seeds of 50 000 steps on cartpole-v1, 100 episodes of evaluation each:
 *                      the table of docs/algorithms/dqn.md; fails when fewer than four seeds reach
 *                      475
 */
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "learn.h"
#include "rl/dqn.h"

#define SEEDS         5u
#define CARTPOLE_GOAL 475.0

static struct aw_learn_result run(const char *env, uint64_t steps, uint32_t episodes, uint64_t seed)
{
    const struct aw_learn_case learn = {
        .env = env,
        .factory = &aw_dqn_factory,
        .env_count = 1,
        .steps = steps,
        .episode_count = episodes,
    };
    struct aw_learn_result result = {0};
    struct aw_diag diag = {0};
    char line[1024];
    enum aw_err err = aw_learn_run(&learn, seed, &result, &diag);
    if (err)
        print_error("%s\n", aw_diag_format(&diag, err, line, sizeof line));
    assert_int_equal(err, AW_OK);
    return result;
}

static double mean_of_seeds(const char *env, uint64_t steps, uint32_t seeds)
{
    double sum = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        double mean = run(env, steps, 20, seed).return_mean;
        print_message("# %s seed %u: return %.1f\n", env, (unsigned)seed, mean);
        sum += mean;
    }
    return sum / seeds;
}

static void the_identity_is_learned(void **state)
{
    (void)state;
    assert_true(mean_of_seeds("identity-discrete-v0", 4000, 2) > 95);
}

static void the_pole_is_balanced_on_three_seeds(void **state)
{
    (void)state;
    assert_true(mean_of_seeds("cartpole-v1", 50000, 3) >= 425);
}

static int full(void)
{
    uint32_t reached = 0;
    printf("%-12s %4s %18s %8s\n", "environment", "seed", "return", "seconds");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct aw_learn_result result = run("cartpole-v1", 50000, 100, seed);
        printf("%-12s %4u %9.1f +- %5.1f %8.2f\n", "cartpole-v1", (unsigned)seed,
               result.return_mean, result.return_std, result.seconds);
        fflush(stdout);
        reached += result.return_mean >= CARTPOLE_GOAL;
    }
    printf("%-12s reached %.0f on %u of %u seeds\n", "cartpole-v1", CARTPOLE_GOAL, reached, SEEDS);
    return reached + 1 < SEEDS ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0)
        return full();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_identity_is_learned),
        cmocka_unit_test(the_pole_is_balanced_on_three_seeds),
    };
    return cmocka_run_group_tests_name("learn_dqn", tests, NULL, NULL);
}
