#include "fallback/hpa_limits.h"

#include "base/rng.h"
#include "base/testing.h"

#define SECOND_US ((int64_t)1000000)
#define NOW_US    (100000 * SECOND_US)

static void recommend(struct aw_hpa_state *state, int32_t replicas, int64_t age_us)
{
    state->recommendations[state->recommendation_count++] = (struct aw_hpa_recommendation){
        .time_us = NOW_US - age_us, .low = replicas, .high = replicas};
}

static void an_entry_as_old_as_the_window_counts_without_rules_and_not_with_them(void **state)
{
    (void)state;
    struct aw_hpa_state history = {0};
    recommend(&history, 9, 300 * SECOND_US);
    assert_int_equal(aw__hpa_stabilize(&history, NOW_US, 300 * SECOND_US, 3), 9);
    history = (struct aw_hpa_state){0};
    recommend(&history, 9, 300 * SECOND_US + 1);
    assert_int_equal(aw__hpa_stabilize(&history, NOW_US, 300 * SECOND_US, 3), 3);

    history = (struct aw_hpa_state){0};
    recommend(&history, 9, 300 * SECOND_US);
    assert_int_equal(aw__hpa_stabilize_by_rules(&history, NOW_US, 0, 300 * SECOND_US, 20, 3), 3);
    history = (struct aw_hpa_state){0};
    recommend(&history, 9, 300 * SECOND_US - 1);
    assert_int_equal(aw__hpa_stabilize_by_rules(&history, NOW_US, 0, 300 * SECOND_US, 20, 3), 9);
}

static void an_outdated_entry_makes_room_before_a_new_one_is_taken(void **state)
{
    (void)state;
    struct aw_hpa_state history = {0};
    recommend(&history, 9, 600 * SECOND_US);
    recommend(&history, 4, 60 * SECOND_US);
    aw__hpa_stabilize(&history, NOW_US, 300 * SECOND_US, 5);
    assert_int_equal(history.recommendation_count, 2);
    assert_int_equal(history.recommendations[0].high, 5);
    aw__hpa_stabilize(&history, NOW_US + 15 * SECOND_US, 300 * SECOND_US, 6);
    assert_int_equal(history.recommendation_count, 3);
}

#define STEPS 4000

/* All recommendations ever, and the highest of a window by looking at each. Returns how often ours
 * was higher than that. */
static int times_held_longer(int64_t sync_s)
{
    static int32_t all[STEPS];
    struct aw_hpa_state history = {0};
    struct aw_rng rng;
    const int64_t window_s = 3600;
    int longer = 0;
    aw_rng_init(&rng, 4, 0);
    for (int t = 0; t < STEPS; t++) {
        all[t] = 1 + (int32_t)aw_rng_below(&rng, 100);
        if (t > 1000 && t < 2000)
            all[t] /= 10;
        int32_t highest = 0;
        for (int s = t; s >= 0 && (t - s) * sync_s <= window_s; s--)
            highest = all[s] > highest ? all[s] : highest;
        int32_t found = aw__hpa_stabilize(&history, NOW_US + t * sync_s * SECOND_US,
                                          window_s * SECOND_US, all[t]);
        assert_true(found >= highest);
        longer += found > highest;
        assert_true(history.recommendation_count <= AW_HPA_RECOMMENDATIONS_MAX);
        assert_true(aw_hpa_state_valid(&history));
    }
    return longer;
}

static void a_bounded_history_holds_back_as_long_as_an_unbounded_one(void **state)
{
    (void)state;
    assert_int_equal(times_held_longer(15), 0);
    assert_true(times_held_longer(5) < STEPS / 50);
    assert_true(times_held_longer(1) < STEPS / 50);
}

static const struct {
    const char *why;
    enum aw_hpa_select select;
    struct aw_hpa_policy policy[2];
    uint32_t policy_count;
    int32_t current, desired, min, max, expected;
    enum aw_hpa_reason reason;
} policy_cases[] = {
    {"100 * (1 + 10 / 100.0) is a hair above 110",
     AW_HPA_SELECT_MAX,
     {{AW_HPA_POLICY_PERCENT, 10, 60}},
     1,
     100,
     500,
     1,
     1000,
     111,
     AW_HPA_REASON_UP_LIMIT},
    {"the larger of two",
     AW_HPA_SELECT_MAX,
     {{AW_HPA_POLICY_PODS, 4, 60}, {AW_HPA_POLICY_PERCENT, 100, 60}},
     2,
     10,
     500,
     1,
     1000,
     20,
     AW_HPA_REASON_UP_LIMIT},
    {"the smaller of two",
     AW_HPA_SELECT_MIN,
     {{AW_HPA_POLICY_PODS, 4, 60}, {AW_HPA_POLICY_PERCENT, 100, 60}},
     2,
     10,
     500,
     1,
     1000,
     14,
     AW_HPA_REASON_UP_LIMIT},
    {"never up",
     AW_HPA_SELECT_DISABLED,
     {{AW_HPA_POLICY_PODS, 4, 60}},
     1,
     10,
     11,
     1,
     1000,
     10,
     AW_HPA_REASON_UP_LIMIT},
    {"never down",
     AW_HPA_SELECT_DISABLED,
     {{AW_HPA_POLICY_PODS, 4, 60}},
     1,
     10,
     9,
     1,
     1000,
     10,
     AW_HPA_REASON_DOWN_LIMIT},
    {"down: the larger change",
     AW_HPA_SELECT_MAX,
     {{AW_HPA_POLICY_PODS, 4, 60}, {AW_HPA_POLICY_PERCENT, 50, 60}},
     2,
     10,
     1,
     1,
     1000,
     5,
     AW_HPA_REASON_DOWN_LIMIT},
    {"down: the smaller change",
     AW_HPA_SELECT_MIN,
     {{AW_HPA_POLICY_PODS, 4, 60}, {AW_HPA_POLICY_PERCENT, 50, 60}},
     2,
     10,
     1,
     1,
     1000,
     6,
     AW_HPA_REASON_DOWN_LIMIT},
    {"the maximum comes first",
     AW_HPA_SELECT_MAX,
     {{AW_HPA_POLICY_PERCENT, 900, 60}},
     1,
     10,
     500,
     1,
     30,
     30,
     AW_HPA_REASON_TOO_MANY},
    {"the minimum comes first",
     AW_HPA_SELECT_MAX,
     {{AW_HPA_POLICY_PERCENT, 100, 60}},
     1,
     10,
     0,
     3,
     30,
     3,
     AW_HPA_REASON_TOO_FEW},
    {"staying is always allowed",
     AW_HPA_SELECT_DISABLED,
     {{AW_HPA_POLICY_PODS, 1, 60}},
     1,
     10,
     10,
     1,
     30,
     10,
     AW_HPA_REASON_WITHIN_RANGE},
};

static void a_change_follows_its_policies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof policy_cases / sizeof *policy_cases; i++) {
        struct aw_hpa_state history = {0};
        struct aw_hpa_spec spec = {.replicas_min = policy_cases[i].min,
                                   .replicas_max = policy_cases[i].max};
        spec.up.select = policy_cases[i].select;
        spec.up.policy_count = policy_cases[i].policy_count;
        spec.up.policies[0] = policy_cases[i].policy[0];
        spec.up.policies[1] = policy_cases[i].policy[1];
        spec.down = spec.up;
        struct aw__hpa_limited limited = aw__hpa_limit_rate(
            &spec, &history, NOW_US, policy_cases[i].current, policy_cases[i].desired);
        if (limited.replicas != policy_cases[i].expected ||
            limited.reason != policy_cases[i].reason)
            fail_msg("%s: %d %s", policy_cases[i].why, limited.replicas,
                     aw_hpa_reason_name(limited.reason));
    }
}

static void what_was_added_counts_until_its_period_is_over(void **state)
{
    (void)state;
    struct aw_hpa_state history = {0};
    struct aw_hpa_spec spec;
    aw_hpa_spec_defaults(&spec, 1000);
    spec.up.policy_count = 1;
    spec.up.policies[0] = (struct aw_hpa_policy){AW_HPA_POLICY_PODS, 10, 60};
    aw__hpa_events_add(&history.up, &spec.up, NOW_US, 7);
    assert_int_equal(aw__hpa_limit_rate(&spec, &history, NOW_US, 100, 500).replicas, 103);
    int64_t later_us = NOW_US + 60 * SECOND_US;
    assert_int_equal(aw__hpa_limit_rate(&spec, &history, later_us - 1, 100, 500).replicas, 103);
    assert_int_equal(aw__hpa_limit_rate(&spec, &history, later_us, 100, 500).replicas, 110);
    /* what was removed may be added again */
    aw__hpa_events_add(&history.down, &spec.down, NOW_US, 20);
    assert_int_equal(aw__hpa_limit_rate(&spec, &history, NOW_US, 100, 500).replicas, 123);
    /* an outdated entry is used again; "outdated" begins after the period, not at its end */
    struct aw_hpa_events events = history.up;
    aw__hpa_events_add(&events, &spec.up, later_us, 1);
    assert_int_equal(events.count, 2);
    events = history.up;
    aw__hpa_events_add(&events, &spec.up, later_us + 1, 1);
    assert_int_equal(events.count, 1);
}

static void a_full_list_of_events_forgets_nothing_too_early(void **state)
{
    (void)state;
    struct aw_hpa_state history = {0};
    struct aw_hpa_spec spec;
    aw_hpa_spec_defaults(&spec, 1000);
    spec.up.policy_count = 1;
    spec.up.policies[0] = (struct aw_hpa_policy){AW_HPA_POLICY_PODS, 1000, 1800};
    /* one pod every 5 s for an hour: 360 of them lie within half an hour */
    for (int t = 0; t <= 720; t++)
        aw__hpa_events_add(&history.up, &spec.up, NOW_US + t * 5 * SECOND_US, 1);
    spec.replicas_max = 1000000;
    int32_t most =
        aw__hpa_limit_rate(&spec, &history, NOW_US + 3600 * SECOND_US, 1000, 100000).replicas;
    assert_true(most <= 2000 - 360);
    assert_true(most >= 2000 - 363); /* an entry of up to three counts as long as its last */
    assert_true(history.up.count <= AW_HPA_EVENTS_MAX);
}

static void without_rules_a_count_at_most_doubles_or_reaches_four(void **state)
{
    (void)state;
    assert_int_equal(aw__hpa_clamp(1, 100, 1, 1000).replicas, 4);
    assert_int_equal(aw__hpa_clamp(2, 100, 1, 1000).replicas, 4);
    assert_int_equal(aw__hpa_clamp(3, 100, 1, 1000).replicas, 6);
    assert_int_equal(aw__hpa_clamp(INT32_MAX, INT32_MAX, 1, INT32_MAX).replicas, INT32_MAX);
    assert_int_equal(aw__hpa_clamp(100, 1, 1, 1000).replicas, 1);
}

AW_TEST_GROUP("hpa-limits")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_as_old_as_the_window_counts_without_rules_and_not_with_them),
        cmocka_unit_test(an_outdated_entry_makes_room_before_a_new_one_is_taken),
        cmocka_unit_test(a_bounded_history_holds_back_as_long_as_an_unbounded_one),
        cmocka_unit_test(a_change_follows_its_policies),
        cmocka_unit_test(what_was_added_counts_until_its_period_is_over),
        cmocka_unit_test(a_full_list_of_events_forgets_nothing_too_early),
        cmocka_unit_test(without_rules_a_count_at_most_doubles_or_reaches_four),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
