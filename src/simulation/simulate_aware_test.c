#include "simulation/simulate_aware.h"

#include "base/testing.h"
#include "control/pilot.h"
#include "simulation/simulate_testing.h"

#include <math.h>
#include <string.h>

static const struct aw_app plain = {
    .name = "plain",
    .segment_count = 1,
    .segment = {{.name = "work",
                 .cpu_ms = 20,
                 .cpu_cv = 0.3,
                 .memory_base_mib = 100,
                 .memory_flight_mib = 2,
                 .parallelism = 1,
                 .cold_start_ms = 500}},
};

struct heard {
    double arrivals[400];
    uint32_t count, applied;
    int64_t first_us;
};

static bool hear(void *ctx, const struct aw_simulate_step *step)
{
    struct heard *heard = ctx;
    if (heard->count == 0)
        heard->first_us = step->at_us;
    heard->arrivals[heard->count++] = step->arrivals_per_s;
    heard->applied += step->applied;
    return true;
}

static struct aw_simulate_summary run(const struct aw_simulate_config *config,
                                      const struct aw_simulate_case *c, const char *name,
                                      struct heard *heard)
{
    struct aw_simulate_policy policy;
    struct aw_simulate_summary summary;
    assert_ok(aw_simulate_policy_named(name, &policy, NULL));
    policy.lived_s = fmin(policy.lived_s, 7200); /* a day takes seconds */
    const struct aw_fallback_task task = aw_simulate_task(&config->settings, c);
    *heard = (struct heard){0};
    assert_ok(
        aw_simulate_run(config, c, 0, &policy, &task, hear, heard, NULL, &summary, NULL, NULL));
    return summary;
}

/* The load doubles after an hour: whoever is scored meets it at the same step. */
static void it_is_scored_on_what_all_meet_and_has_lived_what_others_are_tuned_on(void **state)
{
    (void)state;
    struct aw_load load, other;
    struct aw_pilot_config pilot;
    struct aw_simulate_config config;
    struct heard rule, aware, old, again;
    load_make("constant", 20, 1, 1, &load);
    load_make("constant", 5, 1, 1, &other);
    for (uint32_t i = (uint32_t)(3600000000ll / load.slot_us); i < load.slot_count; i++)
        load.rate_per_s[i] = 40;
    const struct aw_simulate_case c = {.app = plain, .load = &load, .tuning_load = &other};
    aw_simulate_config_init(&config);
    aw_pilot_config_init(&pilot);
    config.pilot = &pilot;
    config.settings.slo_factor = 3;
    config.settings.episodes = 4;
    config.settings.warmup_steps = 80;
    run(&config, &c, "hpa", &rule);
    const struct aw_simulate_summary young = run(&config, &c, "aware", &aware);
    const struct aw_simulate_summary day2 = run(&config, &c, "aware:day2", &old);
    assert_int_equal(rule.first_us, 80 * 15000000ll);
    assert_int_equal(aware.first_us, rule.first_us + 900 * 1000000ll);
    assert_int_equal(old.first_us, rule.first_us + 7200 * 1000000ll);
    for (uint32_t i = 0; i < 400; i++) {
        const double rate = i < 160 ? 20 : 40; /* 80 + 160 steps are an hour */
        assert_true(fabs(aware.arrivals[i] - rate) < 8 && fabs(old.arrivals[i] - rate) < 8);
        assert_true(fabs(rule.arrivals[i] - rate) < 8);
    }
    assert_int_equal(aware.applied, 400);
    assert_int_equal(young.steps, 400);
    assert_true(young.mean.violation_share < 0.05 && day2.mean.violation_share < 0.05);
    assert_string_equal(day2.policy, "aware:day2");
    const struct aw_simulate_summary twin = run(&config, &c, "aware", &again);
    assert_memory_equal(&twin.mean, &young.mean, sizeof twin.mean); /* same seed, same bytes */
    assert_memory_equal(again.arrivals, aware.arrivals, sizeof again.arrivals);
    aw_load_deinit(&load);
    aw_load_deinit(&other);
}

static void every_beginning_is_a_new_workload(void **state)
{
    (void)state;
    struct aw_load load;
    struct aw_pilot_config pilot;
    struct aw_simulate_config config;
    struct heard one, two;
    load_make("constant", 20, 1, 1, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    aw_simulate_config_init(&config);
    aw_pilot_config_init(&pilot);
    config.pilot = &pilot;
    config.settings.slo_factor = 3;
    config.settings.continuous = false;
    config.settings.episodes = 1;
    run(&config, &c, "aware", &one);
    config.settings.episodes = 2;
    run(&config, &c, "aware", &two);
    assert_int_equal(two.count, 200);
    for (uint32_t i = 0; i < one.count; i++)
        assert_close(one.arrivals[i], two.arrivals[i], 0);
    aw_load_deinit(&load);
}

static void without_a_pilot_it_is_refused(void **state)
{
    (void)state;
    struct aw_load load;
    struct aw_simulate_config config;
    struct aw_simulate_policy policy;
    struct aw_simulate_summary summary;
    struct aw_diag diag = {0};
    load_make("constant", 20, 1, 1, &load);
    const struct aw_simulate_case c = {.app = plain, .load = &load};
    aw_simulate_config_init(&config);
    assert_ok(aw_simulate_policy_named("aware:day2", &policy, NULL));
    const struct aw_fallback_task task = aw_simulate_task(&config.settings, &c);
    assert_int_equal(
        aw_simulate_run(&config, &c, 0, &policy, &task, NULL, NULL, NULL, &summary, NULL, &diag),
        AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "aware:day2"));
    assert_int_equal(aw_simulate_policy_named("aware:day3", &policy, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "aware:day2"));
    aw_load_deinit(&load);
}

AW_TEST_GROUP("simulate-aware")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_scored_on_what_all_meet_and_has_lived_what_others_are_tuned_on),
        cmocka_unit_test(every_beginning_is_a_new_workload),
        cmocka_unit_test(without_a_pilot_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
