/*
 * learn_ppo.c - PPO learns, in returns over seeds.
 *
 *   learn_ppo          short: the tests
 *   learn_ppo --full   five seeds of 100 000 steps on cartpole-v1 and on pendulum-v1, 100 episodes
 *                      of evaluation each: the table of docs/algorithms/ppo.md; fails when fewer
 *                      than four seeds reach 475 and -250
 */
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "learn.h"
#include "rl/ppo.h"

#define SEEDS         5u
#define CARTPOLE_GOAL 475.0
#define PENDULUM_GOAL (-250.0)

static struct aw_learn_result run(const char *env, uint32_t env_count, uint64_t steps,
                                  uint32_t episodes, uint64_t seed)
{
    const struct aw_learn_case learn = {
        .env = env,
        .factory = &aw_ppo_factory,
        .env_count = env_count,
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

static double mean_of_seeds(const char *env, uint32_t env_count, uint64_t steps, uint32_t seeds)
{
    double sum = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        double mean = run(env, env_count, steps, 20, seed).return_mean;
        print_message("# %s seed %u: return %.1f\n", env, (unsigned)seed, mean);
        sum += mean;
    }
    return sum / seeds;
}

static void the_identity_is_learned_with_either_kind_of_action(void **state)
{
    (void)state;
    assert_true(mean_of_seeds("identity-discrete-v0", 4, 8000, 2) > 95);
    assert_true(mean_of_seeds("identity-box-v0", 4, 20000, 2) > 90);
}

static void the_pole_is_balanced_on_three_seeds(void **state)
{
    (void)state;
    assert_true(mean_of_seeds("cartpole-v1", 8, 60000, 3) >= 450);
}

static void the_pendulum_is_swung_up(void **state)
{
    (void)state;
    assert_true(mean_of_seeds("pendulum-v1", 4, 100000, 2) >= PENDULUM_GOAL);
}

static int full(void)
{
    static const struct {
        const char *env;
        uint32_t env_count;
        double goal;
    } rows[] = {
        {"cartpole-v1", 1, CARTPOLE_GOAL},
        {"cartpole-v1", 8, CARTPOLE_GOAL},
        {"pendulum-v1", 1, PENDULUM_GOAL},
        {"pendulum-v1", 4, PENDULUM_GOAL},
    };
    int missed = 0;
    printf("%-12s %4s %4s %18s %8s\n", "environment", "envs", "seed", "return", "seconds");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t reached = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct aw_learn_result result = run(rows[i].env, rows[i].env_count, 100000, 100, seed);
            printf("%-12s %4u %4u %9.1f +- %5.1f %8.2f\n", rows[i].env, rows[i].env_count,
                   (unsigned)seed, result.return_mean, result.return_std, result.seconds);
            fflush(stdout);
            reached += result.return_mean >= rows[i].goal;
        }
        printf("%-12s %4u reached %.0f on %u of %u seeds\n", rows[i].env, rows[i].env_count,
               rows[i].goal, reached, SEEDS);
        missed += reached + 1 < SEEDS;
    }
    return missed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0)
        return full();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_identity_is_learned_with_either_kind_of_action),
        cmocka_unit_test(the_pole_is_balanced_on_three_seeds),
        cmocka_unit_test(the_pendulum_is_swung_up),
    };
    return cmocka_run_group_tests_name("learn_ppo", tests, NULL, NULL);
}
