#include "simulation/simulate.h"

#include "base/testing.h"
#include "simulation/simulate_testing.h"

static void oracles_are_ahead_of_everybody_on_their_own_objective(void **state)
{
    (void)state;
    static const char *const names[] = {"hpa",    "hpa+vpa",    "hpa+vpa-mem",
                                        "aimd",   "constant",   "constant-reward",
                                        "oracle", "oracle-cost"};
    enum { COUNT = sizeof names / sizeof *names, REWARD = COUNT - 2, COST = COUNT - 1 };
    struct pool pool;
    struct aw_simulate_policy policies[COUNT];
    static struct aw_simulate_summary s[CASES * COUNT];
    struct aw_simulate_config config;
    aw_simulate_config_init(&config);
    config.settings.episodes = 4;
    config.settings.shift = true;
    pool_make(&pool);
    for (int i = 0; i < COUNT; i++)
        assert_ok(aw_simulate_policy_named(names[i], &policies[i], NULL));
    assert_ok(
        aw_simulate_compare(&config, pool.c, CASES, policies, COUNT, NULL, NULL, NULL, s, NULL));
    for (uint32_t i = 0; i < CASES; i++) {
        const struct aw_simulate_summary *row = &s[i * COUNT];
        for (int k = 0; k < COUNT; k++) {
            if (row[k].mean.reward > row[REWARD].mean.reward + 2)
                fail_msg("case %u: %s has reward %.1f, the oracle %.1f", i, names[k],
                         row[k].mean.reward, row[REWARD].mean.reward);
            if (row[k].slo_kept && row[k].mean.cost < 0.97 * row[COST].mean.cost)
                fail_msg("case %u: %s costs %.4f, the oracle %.4f", i, names[k], row[k].mean.cost,
                         row[COST].mean.cost);
        }
        assert_true(row[COST].slo_kept);
    }
    pool_free(&pool);
}

static void the_tuned_keep_their_budget_on_the_load_they_were_tuned_on(void **state)
{
    (void)state;
    struct pool pool;
    struct aw_simulate_config config;
    aw_simulate_config_init(&config);
    config.settings.episodes = config.tuning_episodes = 3;
    pool_make(&pool);
    static const char *const names[] = {"hpa", "hpa+vpa-mem", "constant"};
    for (uint32_t i = 0; i < CASES; i++) {
        struct aw_simulate_policy policy;
        struct aw_fallback_task task = aw_simulate_task(&config.settings, &pool.c[i]);
        const struct aw_fallback_task before = task;
        bool kept = false;
        assert_ok(aw_simulate_policy_named(names[i], &policy, NULL));
        assert_ok(aw_simulate_tune(&config, &pool.c[i], i, &policy, &task, NULL, &kept, NULL));
        assert_true(kept);
        /* Run again what the tuner saw: the tuning load, in pieces, with its own chance. */
        struct aw_simulate_case again = pool.c[i];
        struct aw_simulate_config same = config;
        struct aw_simulate_summary s;
        again.load = pool.c[i].tuning_load;
        same.settings.continuous = false;
        same.seed = config.seed ^ AW_SIMULATE_TUNING_SEED;
        assert_ok(
            aw_simulate_run(&same, &again, i, &policy, &task, NULL, NULL, NULL, &s, NULL, NULL));
        assert_true(s.slo_kept);
        assert_true(s.mean.violation_share <= config.settings.slo_budget);
        assert_memory_equal(&task.bounds, &before.bounds, sizeof task.bounds);
    }
    pool_free(&pool);
}

AW_TEST_GROUP("simulate-ceiling")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracles_are_ahead_of_everybody_on_their_own_objective),
        cmocka_unit_test(the_tuned_keep_their_budget_on_the_load_they_were_tuned_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
