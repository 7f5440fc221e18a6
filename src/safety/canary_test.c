/* canary_test.c - how a new policy is watched, tried, adopted and taken back. */
#include "safety/canary.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

#define EPISODE 100u
#define TRIAL   UINT64_C(0xabc)
#define GOOD    UINT64_C(0xdef)

static const struct aw_plan present = {
    .set = 7, .replicas = 4, .cpu_millicores = 500, .memory_bytes = 1 << 30};

struct bench {
    struct aw_canary_settings settings;
    struct aw_canary_memory memory;
    struct aw_canary_candidate candidate;
    struct aw_canary_standing standing;
    uint32_t step;
};

/* The policy in force earns -200 +- 10 and misses one step in two hundred. */
static void begin(struct bench *b)
{
    memset(b, 0, sizeof *b);
    aw_conf_defaults(aw_canary_fields, &b->settings);
    aw_canary_begin(&b->memory);
    b->candidate = (struct aw_canary_candidate){
        .id = TRIAL, .gain = 20, .gain_error = 4, .violation_share = 0.008};
    b->standing = (struct aw_canary_standing){.id = GOOD,
                                              .score_mean = -200,
                                              .score_std = 10,
                                              .violation_share = 0.005,
                                              .budget = 0.01,
                                              .episodes = 10};
}

static void propose(struct bench *b)
{
    aw_canary_propose(&b->memory, &b->candidate, &b->standing, AW_CANARY_CAUSE_FOUND);
}

static const struct aw_canary_watched sound = {.finite = true};

static void through_shadow(struct bench *b)
{
    propose(b);
    while (b->memory.state == AW_CANARY_SHADOW)
        (void)aw_canary_watch(&b->settings, &b->memory, &sound);
    assert_int_equal(b->memory.state, AW_CANARY_TRIAL);
}

/* One episode whose step i misses its SLO where `missed` says so. Returns in how many the policy on
 * trial acted. */
static uint32_t episode(struct bench *b, double score, bool (*missed)(uint32_t acted))
{
    uint32_t acted = 0;
    bool last = false;
    for (uint32_t i = 0; i <= EPISODE; i++) {
        if (last && aw_canary_judge(&b->settings, &b->memory, missed && missed(acted)))
            return acted;
        if (i == EPISODE)
            break;
        last = aw_canary_turn(&b->settings, &b->memory, i, EPISODE);
        if (last)
            aw_canary_acts(&b->memory, &present);
        else
            aw_canary_rests(&b->memory);
        acted += last;
    }
    (void)aw_canary_episode(&b->settings, &b->memory, score, EPISODE);
    return acted;
}

static bool always(uint32_t acted)
{
    (void)acted;
    return true;
}

static bool once(uint32_t acted)
{
    return acted == 10;
}

static void a_sound_policy_goes_from_shadow_over_a_part_to_whole_episodes_and_is_adopted(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    propose(&b);
    assert_int_equal(b.memory.reason.cause, AW_CANARY_CAUSE_FOUND);
    assert_true(aw_canary_busy(&b.memory));
    for (uint32_t i = 0; i < b.settings.shadow_steps; i++) {
        assert_false(aw_canary_turn(&b.settings, &b.memory, i, EPISODE)); /* asked, and no more */
        assert_true(aw_canary_watch(&b.settings, &b.memory, &sound) ==
                    (i + 1 == b.settings.shadow_steps));
    }
    assert_int_equal(b.memory.reason.cause, AW_CANARY_CAUSE_SOUND);
    assert_int_equal(episode(&b, -190, once), EPISODE / 4); /* its last part */
    assert_int_equal(b.memory.state, AW_CANARY_TRIAL);
    assert_int_equal(b.memory.reason.cause, AW_CANARY_CAUSE_PART_GOOD);
    assert_int_equal(episode(&b, -185, NULL), EPISODE);
    assert_int_equal(b.memory.state, AW_CANARY_TRIAL);
    assert_int_equal(episode(&b, -175, NULL), EPISODE);
    assert_int_equal(b.memory.state, AW_CANARY_ADOPTED);
    const struct aw_canary_reason *reason = &b.memory.reason;
    assert_int_equal(reason->cause, AW_CANARY_CAUSE_PROVEN);
    assert_close(reason->observed, -180, 1e-12);
    assert_close(reason->predicted, -180, 1e-12);
    assert_true(b.memory.good.id == TRIAL);
    assert_false(aw_canary_busy(&b.memory));
    assert_false(aw_canary_turn(&b.settings, &b.memory, 0, EPISODE));
}

static void the_part_is_the_last_one_of_an_episode_and_whole(void **s)
{
    (void)s;
    static const struct {
        double share;
        uint32_t from;    /* step at which the shadow ended */
        uint32_t acts[2]; /* first step in which it acts: in this episode, in the next */
        const char *why;
    } row[] = {
        {0.25, 0, {75, 0}, "the last quarter, then all"},
        {0.25, 75, {75, 0}, "just in time"},
        {0.25, 76, {EPISODE, 75}, "too late for this one: no half parts"},
        {0.001, 0, {99, 0}, "at least a step"},
        {0.5, 50, {50, 0}, "half"},
        {1, 0, {0, 0}, "all at once"},
        {1, 1, {EPISODE, 0}, "all, from the next on"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct bench b;
        begin(&b);
        b.settings.share = row[k].share;
        through_shadow(&b);
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t first = EPISODE;
            for (uint32_t i = e ? 0 : row[k].from; i < EPISODE; i++)
                if (aw_canary_turn(&b.settings, &b.memory, i, EPISODE)) {
                    aw_canary_acts(&b.memory, &present);
                    first = i < first ? i : first;
                } else {
                    assert_true(first == EPISODE); /* without a gap */
                }
            if (first != row[k].acts[e])
                fail_msg("%s: acts from step %u on in episode %u", row[k].why, first, e);
            (void)aw_canary_episode(&b.settings, &b.memory, -180, EPISODE);
        }
    }
}

static void what_is_not_sound_is_refused_in_the_shadow(void **s)
{
    (void)s;
    static const struct {
        struct aw_canary_watched watched;
        uint32_t of_ten; /* ticks in which it is so; the rest are sound */
        enum aw_canary_state state;
        enum aw_canary_cause cause;
        const char *why;
    } row[] = {
        {{.finite = false}, 1, AW_CANARY_REFUSED, AW_CANARY_CAUSE_NOT_FINITE, "once is enough"},
        {{.finite = true, .absurd = true}, 1, AW_CANARY_REFUSED, AW_CANARY_CAUSE_ABSURD, "so is"},
        {{.finite = true, .clipped = true}, 2, AW_CANARY_TRIAL, AW_CANARY_CAUSE_SOUND, "a fifth"},
        {{.finite = true, .clipped = true}, 3, AW_CANARY_REFUSED, AW_CANARY_CAUSE_CLIPPED, "more"},
        {{.finite = true, .clipped = true, .clipped_good = true},
         10,
         AW_CANARY_TRIAL,
         AW_CANARY_CAUSE_SOUND,
         "the policy in force fares no better"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct bench b;
        begin(&b);
        propose(&b);
        for (uint32_t i = 0; b.memory.state == AW_CANARY_SHADOW; i++)
            (void)aw_canary_watch(&b.settings, &b.memory,
                                  i % 10 < row[k].of_ten ? &row[k].watched : &sound);
        if (b.memory.state != row[k].state || b.memory.reason.cause != row[k].cause)
            fail_msg("%s: %s", row[k].why, aw_canary_cause_sentence(b.memory.reason.cause));
        assert_int_equal(b.memory.failures, row[k].state == AW_CANARY_REFUSED);
        assert_int_equal(b.memory.restore_left, 0); /* it has done nothing */
    }
}

static void a_policy_that_always_misses_is_rolled_back_within_a_few_steps(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    through_shadow(&b);
    const uint32_t acted = episode(&b, -180, always);
    assert_int_equal(b.memory.state, AW_CANARY_ROLLED_BACK);
    assert_int_equal(b.memory.reason.cause, AW_CANARY_CAUSE_VIOLATIONS);
    assert_true(acted <= b.settings.grace + 2 * (uint32_t)b.settings.clump + 1);
    assert_true(b.memory.reason.tail < b.settings.chance);
    char text[AW_CANARY_TEXT_MAX];
    aw_canary_reason_format(&b.memory.reason, text, sizeof text);
    assert_non_null(strstr(text, "trial -> rolled_back: rolled back: the SLO was missed"));
    assert_non_null(strstr(text, "0000000000000abc"));
    assert_non_null(strstr(text, "last known good 0000000000000def"));
    assert_non_null(strstr(text, "probability by chance"));
}

static void chance_alone_seldom_rolls_back_and_ten_times_the_budget_always_does(void **s)
{
    (void)s;
    static const struct {
        double share;
        uint32_t least, most; /* of 200 */
        const char *why;
    } row[] = {
        {0.005, 0, 4, "half the budget"},
        {0.01, 0, 10, "the budget itself"},
        {0.1, 190, 200, "ten times of it"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct aw_rng rng;
        aw_rng_init(&rng, 5, k);
        uint32_t back = 0;
        for (uint32_t n = 0; n < 200; n++) {
            struct bench b;
            begin(&b);
            through_shadow(&b);
            b.memory.acted = b.settings.grace + 1;
            bool over = false;
            for (uint32_t i = 0; !over && i < 225; i++)
                over = aw_canary_judge(&b.settings, &b.memory, aw_rng_double(&rng) < row[k].share);
            back += over;
        }
        if (back < row[k].least || back > row[k].most)
            fail_msg("%s: %u of 200 rolled back", row[k].why, back);
    }
}

static void what_misses_less_than_the_policy_in_force_is_not_rolled_back_for_it(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    b.standing.violation_share = 0.2;
    through_shadow(&b);
    b.memory.acted = b.settings.grace + 1;
    for (uint32_t i = 0; i < 200; i++)
        assert_false(aw_canary_judge(&b.settings, &b.memory, i % 7 == 0));
}

static void the_steps_of_a_take_over_are_not_held_against_it(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    through_shadow(&b);
    for (uint32_t i = 0; i < 50; i++) { /* it takes over again and again */
        aw_canary_rests(&b.memory);
        for (uint32_t k = 0; k < b.settings.grace; k++) {
            aw_canary_acts(&b.memory, &present);
            assert_false(aw_canary_judge(&b.settings, &b.memory, true));
        }
    }
    assert_int_equal(b.memory.judged, 0);
}

static void a_score_below_the_predicted_interval_rolls_back(void **s)
{
    (void)s;
    /* one episode: the least of -180 - 3 sqrt(4^2 + 10^2 (1 + 1/10)) and -200 - 3 * 10 sqrt(1.1) */
    const double low = -200 - 30 * sqrt(1.1);
    static const struct {
        double gain, off;
        enum aw_canary_state state;
        const char *why;
    } row[] = {
        {20, 0.1, AW_CANARY_TRIAL, "just inside"},
        {20, -0.1, AW_CANARY_ROLLED_BACK, "just outside"},
        {60, 0.1, AW_CANARY_TRIAL, "less than was hoped, and no worse than what there is"},
        {(double)NAN, 0.1, AW_CANARY_TRIAL, "nothing was predicted: no worse than what there is"},
        {(double)NAN, -0.1, AW_CANARY_ROLLED_BACK, "and worse"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct bench b;
        begin(&b);
        b.candidate.gain = row[k].gain;
        through_shadow(&b);
        episode(&b, -180, NULL);
        episode(&b, low + row[k].off, NULL);
        if (b.memory.state != row[k].state)
            fail_msg("%s: %s", row[k].why,
                     aw_canary_state_name((enum aw_canary_state)b.memory.state));
        if (row[k].state == AW_CANARY_ROLLED_BACK) {
            assert_int_equal(b.memory.reason.cause, AW_CANARY_CAUSE_SCORE_LOW);
            assert_close(b.memory.reason.limit, low, 1e-9);
            assert_int_equal(b.memory.restore_left, b.settings.restore_steps);
        }
    }
}

static void the_interval_narrows_with_episodes_and_widens_with_doubt(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    propose(&b);
    assert_true(aw_canary_low(&b.settings, &b.memory, 4) >
                aw_canary_low(&b.settings, &b.memory, 1));
    assert_true(aw_canary_high(&b.settings, &b.memory, 4) <
                aw_canary_high(&b.settings, &b.memory, 1));
    assert_close(aw_canary_mean(&b.memory), -180, 1e-12);
    const double high = aw_canary_high(&b.settings, &b.memory, 1);
    b.memory.candidate.gain_error = 40;
    assert_true(aw_canary_high(&b.settings, &b.memory, 1) > high);
    b.memory.good.score_mean = b.memory.good.score_std = NAN;
    assert_true(isnan(aw_canary_low(&b.settings, &b.memory, 1))); /* and accuses nobody */
}

static void an_episode_in_which_the_fallback_had_to_act_says_nothing(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    through_shadow(&b);
    episode(&b, -180, NULL);
    assert_int_equal(b.memory.whole, 1);
    for (uint32_t i = 0; i < EPISODE; i++)
        if (aw_canary_turn(&b.settings, &b.memory, i, EPISODE) && i < 79)
            aw_canary_acts(&b.memory, &present);
    assert_false(aw_canary_episode(&b.settings, &b.memory, -1e6, EPISODE));
    assert_int_equal(b.memory.episodes, 0);
    assert_int_equal(episode(&b, (double)NAN, NULL), EPISODE); /* nor does one without a score */
    assert_int_equal(b.memory.episodes, 0);
}

static void a_trip_of_the_watchdog_takes_back_whoever_acted(void **s)
{
    (void)s;
    static const struct {
        bool acted, own, back;
        const char *why;
    } row[] = {
        {false, false, false, "the policy in force did it"},
        {true, false, true, "it acted in the step before"},
        {false, true, true, "its first answer is not finite"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct bench b;
        begin(&b);
        through_shadow(&b);
        if (row[k].acted)
            aw_canary_acts(&b.memory, &present);
        if (aw_canary_trip(&b.settings, &b.memory, row[k].own) != row[k].back)
            fail_msg("%s", row[k].why);
        assert_true((b.memory.state == AW_CANARY_ROLLED_BACK) == row[k].back);
        assert_true((b.memory.restore_left > 0) == row[k].acted); /* or nothing has changed */
    }
}

static void the_last_known_good_allocation_is_what_stood_before_the_first_step(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    through_shadow(&b);
    struct aw_plan now = present;
    aw_canary_acts(&b.memory, &now);
    now.replicas = 1;
    now.cpu_millicores = 100;
    aw_canary_acts(&b.memory, &now);
    assert_false(aw_canary_restore(&b.memory, &now)); /* not while it is tried */
    assert_true(aw_canary_trip(&b.settings, &b.memory, false));
    assert_memory_equal(&b.memory.allocation, &present, sizeof present);
    for (uint32_t i = 0; i < b.settings.restore_steps; i++)
        assert_true(aw_canary_restore(&b.memory, &now));
    assert_false(aw_canary_restore(&b.memory, &now)); /* not for ever */
    b.memory.restore_left = 5;
    assert_false(aw_canary_restore(&b.memory, &present)); /* nor once it is there */
    assert_false(aw_canary_restore(&b.memory, &now));
}

static void what_was_rolled_back_is_barred_until_there_is_more_to_know(void **s)
{
    (void)s;
    struct bench b;
    begin(&b);
    through_shadow(&b);
    assert_true(aw_canary_trip(&b.settings, &b.memory, true));
    aw_canary_bar(&b.memory, 500);
    assert_true(aw_canary_barred(&b.memory, TRIAL, 499));
    assert_false(aw_canary_barred(&b.memory, TRIAL, 500));
    assert_false(aw_canary_barred(&b.memory, GOOD, 0));
    assert_false(aw_canary_barred(&b.memory, 0, 0));
    for (uint32_t i = 0; i < AW_CANARY_BARRED_MAX; i++) { /* the oldest is forgotten */
        b.memory.candidate.id = 100 + i;
        aw_canary_bar(&b.memory, 500);
    }
    assert_false(aw_canary_barred(&b.memory, TRIAL, 0));
    assert_true(aw_canary_barred(&b.memory, 100, 0));
}

static void a_trial_that_can_no_longer_be_judged_is_given_up_without_blame(void **s)
{
    (void)s;
    static const enum aw_canary_cause cause[] = {AW_CANARY_CAUSE_STAGE, AW_CANARY_CAUSE_CHANGED};
    for (size_t i = 0; i < sizeof cause / sizeof *cause; i++) {
        struct bench b;
        begin(&b);
        assert_false(aw_canary_withdraw(&b.memory, cause[i]));
        propose(&b);
        assert_true(aw_canary_withdraw(&b.memory, cause[i]));
        assert_int_equal(b.memory.state, AW_CANARY_ROLLED_BACK);
        assert_int_equal(b.memory.reason.cause, cause[i]);
        assert_int_equal(b.memory.failures, 0);
        assert_int_equal(b.memory.restore_left, 0);
    }
}

static void what_a_person_takes_back_goes_back_as_after_a_failure(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    assert_false(aw_canary_order_back(&b.settings, &b.memory));
    propose(&b);
    assert_true(aw_canary_order_back(&b.settings, &b.memory));
    assert_int_equal(b.memory.state, AW_CANARY_ROLLED_BACK);
    assert_int_equal(b.memory.reason.cause, AW_CANARY_CAUSE_ORDERED);
    assert_int_equal(b.memory.restore_left, 0); /* it never acted */
    propose(&b);
    b.memory.state = AW_CANARY_TRIAL;
    aw_canary_acts(&b.memory, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 3});
    assert_true(aw_canary_order_back(&b.settings, &b.memory));
    assert_int_equal(b.memory.restore_left, b.settings.restore_steps);
    assert_int_equal(b.memory.failures, 2);
}

/* Term by term from binomial coefficients, in long double. */
static double naive_tail(uint32_t n, double p, uint32_t k)
{
    long double sum = 0;
    for (uint32_t i = k; i <= n; i++) {
        long double term = 1;
        for (uint32_t j = 0; j < i; j++)
            term *= (long double)p * (n - j) / (j + 1);
        for (uint32_t j = i; j < n; j++)
            term *= 1 - (long double)p;
        sum += term;
    }
    return (double)sum;
}

static void the_tail_is_that_of_the_binomial(void **s)
{
    (void)s;
    static const double share[] = {0.001, 0.01, 0.1, 0.5, 0.9};
    for (size_t i = 0; i < sizeof share / sizeof *share; i++)
        for (uint32_t n = 1; n <= 60; n += 7)
            for (uint32_t k = 0; k <= n; k++)
                assert_true(fabs(aw_canary_tail(n, share[i], k) - naive_tail(n, share[i], k)) <
                            1e-12);
    assert_true(aw_canary_tail(5, 0.5, 6) == 0);
    assert_true(aw_canary_tail(5, 0, 1) == 0);
    assert_true(aw_canary_tail(5, 1, 5) == 1);
    assert_true(aw_canary_tail(0, 0.5, 0) == 1);
    /* where the first term is no number any more */
    assert_true(fabs(aw_canary_tail(20000, 0.5, 10000) - 0.5) < 0.01);
    assert_true(aw_canary_tail(20000, 0.5, 10500) < 1e-9);
}

static void a_report_says_what_was_predicted_and_what_was_seen(void **s)
{
    (void)s;
    struct bench b;
    struct aw_canary_report report;
    begin(&b);
    aw_canary_report(&b.settings, &b.memory, &report);
    assert_int_equal(report.state, AW_CANARY_NONE);
    assert_true(report.trial == 0 && isnan(report.predicted_mean) && isnan(report.observed_share));
    through_shadow(&b);
    episode(&b, -190, once);
    episode(&b, -170, NULL);
    aw_canary_report(&b.settings, &b.memory, &report);
    assert_int_equal(report.state, AW_CANARY_TRIAL);
    assert_true(report.trial == TRIAL && report.good == GOOD);
    assert_close(report.predicted_mean, -180, 1e-12);
    assert_true(report.predicted_low < -180 && report.predicted_high > -180);
    assert_close(report.predicted_share, 0.01, 1e-12);
    assert_close(report.observed_mean, -170, 1e-12);
    assert_int_equal(report.episodes, 1);
    assert_close(report.observed_share, 1.0 / report.steps, 1e-12);
}

static void every_name_and_sentence_is_there(void **s)
{
    (void)s;
    for (uint32_t i = 0; i < AW_CANARY_CAUSE_COUNT; i++)
        assert_true(strlen(aw_canary_cause_sentence((enum aw_canary_cause)i)) > 10);
    for (uint32_t i = 0; i < AW_CANARY_STATE_COUNT; i++)
        assert_true(strlen(aw_canary_state_name((enum aw_canary_state)i)) > 0);
}

AW_TEST_GROUP("canary")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_sound_policy_goes_from_shadow_over_a_part_to_whole_episodes_and_is_adopted),
        cmocka_unit_test(the_part_is_the_last_one_of_an_episode_and_whole),
        cmocka_unit_test(what_is_not_sound_is_refused_in_the_shadow),
        cmocka_unit_test(a_policy_that_always_misses_is_rolled_back_within_a_few_steps),
        cmocka_unit_test(chance_alone_seldom_rolls_back_and_ten_times_the_budget_always_does),
        cmocka_unit_test(what_misses_less_than_the_policy_in_force_is_not_rolled_back_for_it),
        cmocka_unit_test(the_steps_of_a_take_over_are_not_held_against_it),
        cmocka_unit_test(a_score_below_the_predicted_interval_rolls_back),
        cmocka_unit_test(the_interval_narrows_with_episodes_and_widens_with_doubt),
        cmocka_unit_test(an_episode_in_which_the_fallback_had_to_act_says_nothing),
        cmocka_unit_test(a_trip_of_the_watchdog_takes_back_whoever_acted),
        cmocka_unit_test(the_last_known_good_allocation_is_what_stood_before_the_first_step),
        cmocka_unit_test(what_was_rolled_back_is_barred_until_there_is_more_to_know),
        cmocka_unit_test(a_trial_that_can_no_longer_be_judged_is_given_up_without_blame),
        cmocka_unit_test(what_a_person_takes_back_goes_back_as_after_a_failure),
        cmocka_unit_test(the_tail_is_that_of_the_binomial),
        cmocka_unit_test(a_report_says_what_was_predicted_and_what_was_seen),
        cmocka_unit_test(every_name_and_sentence_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
