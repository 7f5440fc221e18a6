/*
 * chaos_test.c - some bad days, that they are bad enough, and what single ones have taught.
 *
 * `aware chaos --seeds 1..2000` is the long version (docs/results/chaos.md). That the invariants
 * notice what they are there for is shown by tests/mutants.
 */
#include "chaos/chaos.h"

#include "control/pilot_peek.h"
#include "control/pilot_testing.h"
#include "policy/capacity.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
#define SEEDS (SANITIZED ? 6u : 80u)

/* --- days ------------------------------------------------------------------------------------- */

static void live(struct aw_chaos_config config, struct aw_chaos_result *ret)
{
    struct aw_diag diag = {0};
    if (aw_chaos_run(&config, ret, &diag))
        fail_msg("seed %u: %s", (unsigned)config.seed, diag.text);
    if (ret->failed)
        fail_msg("seed %u, tick %u, %s: %s: %s", (unsigned)config.seed, ret->failure.tick,
                 ret->failure.workload, aw_invariant_name(ret->failure.invariant),
                 ret->failure.text);
}

static void bad_days_break_no_promise(void **state)
{
    (void)state;
    uint64_t struck[AW_CHAOS_FAULT_COUNT] = {0}, tested[AW_INVARIANT_COUNT] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct aw_chaos_result result;
        live((struct aw_chaos_config){.seed = seed, .faults = AW_CHAOS_ALL}, &result);
        for (uint32_t i = 0; i < AW_CHAOS_FAULT_COUNT; i++)
            struck[i] += result.fault_count[i];
        for (uint32_t i = 0; i < AW_INVARIANT_COUNT; i++)
            tested[i] += result.check_count[i];
    }
    /* a promise that nothing puts to the test is none */
    for (uint32_t i = 0; !SANITIZED && i < AW_CHAOS_FAULT_COUNT; i++)
        if (struck[i] == 0)
            fail_msg("%s never struck", aw_chaos_fault_name(i));
    for (uint32_t i = 0; !SANITIZED && i < AW_INVARIANT_COUNT; i++)
        if (tested[i] == 0 && i != AW_INVARIANT_SAME && i != AW_INVARIANT_EXTERNAL)
            fail_msg("%s was never put to the test", aw_invariant_name(i));
}

static void the_same_seed_gives_the_same_day(void **state)
{
    (void)state;
    struct aw_chaos_result one, other;
    for (uint64_t seed = 11; seed < (SANITIZED ? 12 : 16); seed++)
        live((struct aw_chaos_config){.seed = seed, .faults = AW_CHAOS_ALL, .again = true}, &one);
    live((struct aw_chaos_config){.seed = 3, .faults = AW_CHAOS_ALL}, &one);
    live((struct aw_chaos_config){.seed = 4, .faults = AW_CHAOS_ALL}, &other);
    assert_true(one.digest != other.digest);
}

static void a_day_is_as_long_and_as_bad_as_asked_for(void **state)
{
    (void)state;
    struct aw_chaos_result result;
    live((struct aw_chaos_config){.seed = 5, .steps = 40, .workloads = 3}, &result);
    assert_int_equal(result.ticks, 40);
    assert_int_equal(result.workloads, 3);
    assert_int_equal(result.decisions, 40 * 3);
    assert_int_equal(result.restarts, 1);
    for (uint32_t i = 0; i < AW_CHAOS_FAULT_COUNT; i++)
        assert_int_equal(result.fault_count[i], 0);
    live((struct aw_chaos_config){.seed = 5, .steps = 200, .faults = AW_CHAOS_BIT(AW_CHAOS_KILL)},
         &result);
    assert_true(result.fault_count[AW_CHAOS_KILL] > 0 && result.restarts > 1);
    assert_int_equal(result.fault_count[AW_CHAOS_SOMEBODY], 0);
    struct aw_diag diag = {0};
    assert_int_equal(aw_chaos_run(&(struct aw_chaos_config){.workloads = 1000}, &result, &diag),
                     AW_ERR_LIMIT);
    assert_true(*diag.text);
}

static void faults_are_read_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t faults;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {"all", AW_CHAOS_ALL, AW_OK, "everything"},
        {"none", 0, AW_OK, "nothing"},
        {"kill", AW_CHAOS_BIT(AW_CHAOS_KILL), AW_OK, "one"},
        {"kill,power-cut", AW_CHAOS_BIT(AW_CHAOS_KILL) | AW_CHAOS_BIT(AW_CHAOS_POWER_CUT), AW_OK,
         "two"},
        {"all,-kill", AW_CHAOS_ALL & ~AW_CHAOS_BIT(AW_CHAOS_KILL), AW_OK, "all but one"},
        {"kil", 0, AW_ERR_USAGE, "a typing error"},
        {"", 0, AW_ERR_USAGE, "nothing is not none"},
        {"kill,", 0, AW_ERR_USAGE, "a comma too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t faults = 0;
        struct aw_diag diag = {0};
        if (aw_chaos_faults_parse(cases[i].text, &faults, &diag) != cases[i].err ||
            faults != cases[i].faults)
            fail_msg("\"%s\": %s", cases[i].text, cases[i].why);
    }
}

/* --- what single days have taught ------------------------------------------------------------- */

static void a_cached_reading_is_as_old_as_our_clock_says(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    for (uint32_t i = 0; i < 5; i++)
        assert_false(isnan(bench_tick(&b)->reading.cpu_cores_used));
    /* a reading that is whole, consistent, and ten minutes old */
    const int64_t now = b.sample.at_us + 600 * INT64_C(1000000);
    aw_pilot_observe(b.pilot, &b.sample, now, &b.row);
    const struct aw_decision *decision = aw_pilot_decide(b.pilot, NULL, now);
    assert_true(isnan(decision->reading.cpu_cores_used));
    assert_true(isinf(decision->reading.age_s));
    bench_end(&b);
}

static void what_was_asked_for_is_known_when_the_cluster_falls_silent(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    const struct aw_decision *decision;
    uint32_t ticks = 0;
    do {
        decision = bench_tick(&b);
        assert_true(ticks++ < 200);
    } while (!decision->applied);
    const struct aw_plan asked = decision->guard.plan;
    b.silent = true;
    decision = bench_tick(&b);
    assert_int_equal(decision->reading.replicas_wanted, asked.replicas);
    assert_int_equal(decision->reading.cpu_millicores_wanted, asked.cpu_millicores);
    assert_int_equal(decision->reading.memory_bytes_wanted, asked.memory_bytes);
    bench_end(&b);
}

static void a_capacity_rule_that_is_not_a_number_does_not_act(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_until_it_acts(&b, 3);
    aw_capacity_of(aw_pilot_in_force(b.pilot))->values.v[AW_CAPACITY_RULE_MARGIN] = (double)NAN;
    const struct aw_decision *decision = bench_tick(&b);
    assert_int_equal(decision->actor, AW_ACTOR_FALLBACK);
    assert_int_equal(decision->watchdog.cause, AW_WATCHDOG_CAUSE_NOT_FINITE);
    assert_int_equal(decision->by_agent.set, 0);
    bench_end(&b);
}

static void after_a_restart_steps_go_on_behind_what_is_kept(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    for (uint32_t i = 0; i < 5; i++)
        bench_tick(&b);
    aw_pilot_resume(b.pilot, &(struct aw_store_last){.episode = 7, .step = 3});
    const struct aw_decision *decision = bench_tick(&b);
    assert_false(b.finished); /* nobody knows what became of the step in flight */
    assert_int_equal(decision->episode, 8);
    assert_int_equal(decision->step, 0);
    bench_tick(&b);
    assert_true(b.finished);
    assert_int_equal(b.row.episode, 8);
    aw_pilot_resume(b.pilot, &(struct aw_store_last){.episode = 2}); /* of an older store */
    assert_int_equal(bench_tick(&b)->episode, 8);
    bench_end(&b);
}

static void a_workload_is_seen_before_anything_is_changed(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    b.orders = (struct aw_orders){
        .pin_kind = AW_ORDER_UNDO, .pin_id = 1, .pin = {.set = AW_PLAN_REPLICAS, .replicas = 5}};
    aw_pilot_resume(b.pilot, NULL);
    b.silent = true; /* for all we know there may be nine by now, and 5 were less */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(bench_tick(&b)->guard.plan.set, 0);
    b.silent = false;
    const struct aw_decision *decision = bench_tick(&b);
    assert_int_equal(decision->guard.plan.set, AW_PLAN_REPLICAS); /* an order does not wait */
    assert_int_equal(decision->guard.plan.replicas, 5);
    bench_end(&b);
}

AW_TEST_GROUP("chaos")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_days_break_no_promise),
        cmocka_unit_test(the_same_seed_gives_the_same_day),
        cmocka_unit_test(a_day_is_as_long_and_as_bad_as_asked_for),
        cmocka_unit_test(faults_are_read_by_name),
        cmocka_unit_test(a_cached_reading_is_as_old_as_our_clock_says),
        cmocka_unit_test(what_was_asked_for_is_known_when_the_cluster_falls_silent),
        cmocka_unit_test(a_capacity_rule_that_is_not_a_number_does_not_act),
        cmocka_unit_test(after_a_restart_steps_go_on_behind_what_is_kept),
        cmocka_unit_test(a_workload_is_seen_before_anything_is_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
