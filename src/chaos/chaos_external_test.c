/* chaos_external_test.c - bad days with agents of other processes that are as bad as they come.
 * `aware chaos --external --seeds 1..2000` is the long version. */
#include "base/testing.h"
#include "chaos/chaos.h"

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
#define SEEDS (SANITIZED ? 4u : 40u)

static void live(struct aw_chaos_config config, struct aw_chaos_result *ret)
{
    struct aw_diag diag = {0};
    config.external = true;
    if (aw_chaos_run(&config, ret, &diag))
        fail_msg("seed %u: %s", (unsigned)config.seed, diag.text);
    if (ret->failed)
        fail_msg("seed %u, tick %u, %s: %s: %s", (unsigned)config.seed, ret->failure.tick,
                 ret->failure.workload, aw_invariant_name(ret->failure.invariant),
                 ret->failure.text);
}

/* With everything else in order, so that nothing but agents is bad. */
static void bad_agents_alone_break_no_promise(void **state)
{
    (void)state;
    struct aw_chaos_result sum = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct aw_chaos_result result;
        live((struct aw_chaos_config){.seed = seed}, &result);
        for (uint32_t i = 0; i < AW_EXTERNAL_AGENT_FAULT_COUNT; i++)
            sum.answers[i] += result.answers[i];
        sum.agent_steps += result.agent_steps;
        sum.decisions += result.decisions;
        sum.asides += result.asides;
    }
    /* bad enough, and good enough for once to be followed */
    assert_true(sum.agent_steps > 0 && sum.agent_steps < sum.decisions);
    assert_true(sum.asides > 0);
    static const uint32_t met[] = {
        AW_EXTERNAL_AGENT_FAULT_NONE,   AW_EXTERNAL_AGENT_FAULT_LATE,
        AW_EXTERNAL_AGENT_FAULT_SIZE,   AW_EXTERNAL_AGENT_FAULT_NOT_FINITE,
        AW_EXTERNAL_AGENT_FAULT_BOUNDS, AW_EXTERNAL_AGENT_FAULT_OLD,
        AW_EXTERNAL_AGENT_FAULT_GONE};
    for (size_t i = 0; !SANITIZED && i < sizeof met / sizeof *met; i++)
        if (sum.answers[met[i]] == 0)
            fail_msg("no answer was ever %s",
                     aw_external_agent_fault_name((enum aw_external_agent_fault)met[i]));
}

static void bad_agents_on_bad_days_break_no_promise(void **state)
{
    (void)state;
    uint64_t tested = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct aw_chaos_result result;
        live((struct aw_chaos_config){.seed = seed, .faults = AW_CHAOS_ALL}, &result);
        tested += result.check_count[AW_INVARIANT_EXTERNAL];
    }
    assert_true(tested > 0);
}

static void the_same_seed_gives_the_same_agents(void **state)
{
    (void)state;
    struct aw_chaos_result result;
    for (uint64_t seed = 21; seed < (SANITIZED ? 22 : 25); seed++)
        live((struct aw_chaos_config){.seed = seed, .faults = AW_CHAOS_ALL, .again = true},
             &result);
}

AW_TEST_GROUP("chaos-external")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_agents_alone_break_no_promise),
        cmocka_unit_test(bad_agents_on_bad_days_break_no_promise),
        cmocka_unit_test(the_same_seed_gives_the_same_agents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
