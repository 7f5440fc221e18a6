/* watchdog_test.c - every cause by itself, the quiet time and its back-off, a twin for the window,
 * and that the promise of the header holds for an agent that does nothing but harm. */
#include "safety/watchdog.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "safety/guard.h"
#include "safety/lifecycle.h"

#define NONE ((double)NAN)
#define S    INT64_C(1000000)
#define STEP (15 * S)

static struct aw_watchdog_settings defaults(void)
{
    struct aw_watchdog_settings settings;
    aw_conf_defaults(aw_watchdog_fields, &settings);
    return settings;
}

/* The agent acted and is about to act again; all is well. */
static struct aw_watchdog_input well(void)
{
    return (struct aw_watchdog_input){.last_actor = AW_ACTOR_AGENT,
                                      .last_slo = AW_WATCHDOG_SLO_MET,
                                      .last_extra_cost = NONE,
                                      .wanted = true,
                                      .finite = true,
                                      .age_s = 5,
                                      .distance = 0,
                                      .took_s = 1e-5};
}

static void each_cause_trips_at_once_and_says_so(void **state)
{
    (void)state;
    static const struct {
        bool finite;
        double age_s, distance, took_s;
        enum aw_watchdog_cause cause;
        bool fault;
        const char *text, *why;
    } rows[] = {
        {true, 5, 0, 0, AW_WATCHDOG_CAUSE_NONE, false, "nothing is wrong", "all is well"},
        {true, 45, 4, 1, AW_WATCHDOG_CAUSE_NONE, false, "nothing is wrong", "just within"},
        {true, 5, NONE, 0, AW_WATCHDOG_CAUSE_NONE, false, "nothing is wrong",
         "what is trained on is not known yet"},
        {false, 5, 0, 0, AW_WATCHDOG_CAUSE_NOT_FINITE, true,
         "the agent's action or value is not a finite number; the fallback acts for 300 s", "NaN"},
        {true, 60, 0, 0, AW_WATCHDOG_CAUSE_NO_FIGURES, false,
         "a figure that is needed is missing or stale; 60 s old, 45 allowed; the fallback acts for "
         "300 s",
         "stale"},
        {true, INFINITY, 0, 0, AW_WATCHDOG_CAUSE_NO_FIGURES, false,
         "a figure that is needed is missing or stale; the fallback acts for 300 s", "missing"},
        {true, NONE, 0, 0, AW_WATCHDOG_CAUSE_NO_FIGURES, false,
         "a figure that is needed is missing or stale; the fallback acts for 300 s", "missing"},
        {true, 5, 4.1, 0, AW_WATCHDOG_CAUSE_STRANGE, true,
         "the state lies outside what the agent was trained on; 4.1 deviations outside, 4 allowed; "
         "the fallback acts for 300 s",
         "far away"},
        {true, 5, INFINITY, 0, AW_WATCHDOG_CAUSE_STRANGE, true,
         "the state lies outside what the agent was trained on; the fallback acts for 300 s",
         "a state with NaN"},
        {true, 5, 0, 1.5, AW_WATCHDOG_CAUSE_DEADLINE, false,
         "the decision took longer than allowed; 1.5 s, 1 allowed; the fallback acts for 300 s",
         "late"},
        {true, 5, 0, NONE, AW_WATCHDOG_CAUSE_DEADLINE, false,
         "the decision took longer than allowed; the fallback acts for 300 s", "never"},
        {false, 99, 99, 99, AW_WATCHDOG_CAUSE_NOT_FINITE, true,
         "the agent's action or value is not a finite number; the fallback acts for 300 s",
         "all at once: the plainest is named"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aw_watchdog_settings settings = defaults();
        struct aw_watchdog_memory memory;
        struct aw_watchdog_reason reason;
        char text[AW_WATCHDOG_TEXT_MAX];
        aw_watchdog_begin(&memory, 0);
        struct aw_watchdog_input input = well();
        input.finite = rows[i].finite;
        input.age_s = rows[i].age_s;
        input.distance = rows[i].distance;
        input.took_s = rows[i].took_s;
        enum aw_watchdog_verdict verdict =
            aw_watchdog_step(&settings, &memory, &input, STEP, &reason);
        if (reason.cause != rows[i].cause || (verdict == AW_WATCHDOG_PASS) != !rows[i].cause)
            fail_msg("%s: %s", rows[i].why, aw_watchdog_cause_name(reason.cause));
        assert_int_equal(aw_watchdog_cause_fault(reason.cause), rows[i].fault);
        assert_string_equal(aw_watchdog_reason_format(&reason, text, sizeof text), rows[i].text);
        assert_int_equal(memory.trips, rows[i].cause ? 1 : 0);

        input.wanted = false; /* where the agent does not act there is nothing to take away */
        aw_watchdog_begin(&memory, 0);
        assert_int_equal(aw_watchdog_step(&settings, &memory, &input, STEP, NULL),
                         AW_WATCHDOG_PASS);
    }
}

static void the_budget_of_a_window_is_spent_by_the_agents_own_violations_alone(void **state)
{
    (void)state;
    static const struct {
        enum aw_actor actor;
        enum aw_watchdog_slo slo;
        int trips_after; /* bad steps; -1: never */
        const char *why;
    } rows[] = {
        {AW_ACTOR_AGENT, AW_WATCHDOG_SLO_MISSED, 5, "1 % of 100 and 3: the fifth is too many"},
        {AW_ACTOR_EXPLORING, AW_WATCHDOG_SLO_MISSED, 5, "exploring is the agent, too"},
        {AW_ACTOR_FALLBACK, AW_WATCHDOG_SLO_MISSED, -1, "not the agent's"},
        {AW_ACTOR_NOBODY, AW_WATCHDOG_SLO_MISSED, -1, "nobody's"},
        {AW_ACTOR_AGENT, AW_WATCHDOG_SLO_UNKNOWN, -1, "not known to be one"},
        {AW_ACTOR_AGENT, AW_WATCHDOG_SLO_MET, -1, "none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aw_watchdog_settings settings = defaults();
        struct aw_watchdog_memory memory;
        struct aw_watchdog_reason reason;
        struct aw_watchdog_input input = well();
        int64_t now = 0;
        int tripped = -1;
        aw_watchdog_begin(&memory, now);
        for (int k = 0; k < 10; k++) /* the grace is over */
            assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                             AW_WATCHDOG_PASS);
        assert_close(aw_watchdog_allowed(&settings, &memory), 4, 1e-12);
        input.last_actor = rows[i].actor;
        input.last_slo = rows[i].slo;
        for (int k = 1; k <= 50 && tripped < 0; k++)
            if (aw_watchdog_step(&settings, &memory, &input, now += STEP, &reason))
                tripped = k;
        if (tripped != rows[i].trips_after)
            fail_msg("%s: %d", rows[i].why, tripped);
        if (tripped > 0) {
            assert_int_equal(reason.cause, AW_WATCHDOG_CAUSE_SLO_BUDGET);
            assert_close(reason.value, 5, 0);
            assert_close(reason.limit, 4, 1e-12);
        }
    }
}

static void old_violations_leave_the_window(void **state)
{
    (void)state;
    const struct aw_watchdog_settings settings = defaults();
    struct aw_watchdog_memory memory;
    struct aw_watchdog_input input = well();
    int64_t now = 0;
    aw_watchdog_begin(&memory, now);
    for (int k = 0; k < 5000; k++) { /* four in every hundred are within budget and slack */
        input.last_slo = k % 25 == 24 ? AW_WATCHDOG_SLO_MISSED : AW_WATCHDOG_SLO_MET;
        assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                         AW_WATCHDOG_PASS);
    }
    assert_close(aw_watchdog_allowed(&settings, &memory), 0, 1e-12);
}

static void a_fallback_that_misses_more_than_the_budget_sets_the_measure(void **state)
{
    (void)state;
    static const struct {
        int steps;
        double share, limit;
        const char *why;
    } rows[] = {
        {99, 0.2, 4, "too few steps to tell"},
        {1000, 0.2, 25, "1.1 times 20 in a hundred, and 3"},
        {1000, 0, 4, "one that misses nothing does not make the budget smaller"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aw_watchdog_settings settings = defaults();
        struct aw_watchdog_memory memory;
        struct aw_watchdog_input input = well();
        int64_t now = 0;
        aw_watchdog_begin(&memory, now);
        input.last_actor = AW_ACTOR_FALLBACK;
        input.wanted = false;
        for (int k = 0; k < rows[i].steps; k++) {
            const int period = rows[i].share > 0 ? (int)(1 / rows[i].share) : 1 << 30;
            input.last_slo = k % period == 1 ? AW_WATCHDOG_SLO_MISSED : AW_WATCHDOG_SLO_MET;
            aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
        }
        if (fabs(aw_watchdog_allowed(&settings, &memory) - rows[i].limit) > 0.05)
            fail_msg("%s: %g", rows[i].why, aw_watchdog_allowed(&settings, &memory));
    }
}

static void what_the_fallback_left_behind_is_not_the_agents_fault(void **state)
{
    (void)state;
    struct aw_watchdog_settings settings = defaults();
    struct aw_watchdog_memory memory;
    struct aw_watchdog_input input = well();
    int64_t now = 0;
    settings.slack = 0;
    settings.slo_budget = 0;
    aw_watchdog_begin(&memory, now);
    input.last_slo = AW_WATCHDOG_SLO_MISSED;
    for (int turn = 0; turn < 3; turn++) {
        input.last_actor = AW_ACTOR_AGENT;
        for (uint32_t k = 0; k < settings.grace; k++)
            assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                             AW_WATCHDOG_PASS);
        input.last_actor = AW_ACTOR_FALLBACK;
        aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
    }
    input.last_actor = AW_ACTOR_AGENT;
    for (uint32_t k = 0; k < settings.grace; k++)
        aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
    assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                     AW_WATCHDOG_TRIPPED);
}

/* Steps until the agent gets control back; `input` is what is seen meanwhile. */
static double held_s(const struct aw_watchdog_settings *settings, struct aw_watchdog_memory *memory,
                     struct aw_watchdog_input input, int64_t *now_us)
{
    const int64_t begin = *now_us;
    input.last_actor = AW_ACTOR_FALLBACK;
    struct aw_watchdog_reason reason;
    for (;;) {
        *now_us += STEP;
        if (!aw_watchdog_step(settings, memory, &input, *now_us, &reason))
            return (double)(*now_us - begin) * 1e-6;
        assert_int_equal(reason.cause, AW_WATCHDOG_CAUSE_QUIET);
        assert_true(*now_us - begin < 100000 * STEP);
    }
}

static void the_quiet_time_doubles_up_to_its_end_and_is_forgiven_in_time(void **state)
{
    (void)state;
    const struct aw_watchdog_settings settings = defaults();
    struct aw_watchdog_memory memory;
    struct aw_watchdog_input bad = well();
    int64_t now = 0;
    bad.finite = false;
    aw_watchdog_begin(&memory, now);
    static const double expected[] = {300, 600, 1200, 2400, 4800, 9600, 14400, 14400};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(aw_watchdog_step(&settings, &memory, &bad, now += STEP, NULL),
                         AW_WATCHDOG_TRIPPED);
        assert_close(held_s(&settings, &memory, well(), &now), expected[i], 0);
    }
    assert_int_equal(memory.trips, 8);
    /* level 8 means 14400 s twice and then ever less: four of each without a trip */
    const double calm = 4 * (14400 * 3 + 9600 + 4800 + 2400 + 1200 + 600);
    struct aw_watchdog_input good = well();
    for (double s = 0; s < calm + 15; s += 15)
        assert_int_equal(aw_watchdog_step(&settings, &memory, &good, now += STEP, NULL),
                         AW_WATCHDOG_PASS);
    assert_int_equal(memory.level, 0);
    aw_watchdog_step(&settings, &memory, &bad, now += STEP, NULL);
    assert_close(held_s(&settings, &memory, well(), &now), 300, 0);
}

static void control_does_not_come_back_while_figures_are_missing(void **state)
{
    (void)state;
    const struct aw_watchdog_settings settings = defaults();
    struct aw_watchdog_memory memory;
    struct aw_watchdog_input input = well();
    int64_t now = 0;
    aw_watchdog_begin(&memory, now);
    input.age_s = INFINITY;
    assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                     AW_WATCHDOG_TRIPPED);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                         AW_WATCHDOG_HELD);
    assert_int_equal(memory.trips, 1); /* one outage is one trip */
    input = well();
    input.distance = 10;
    assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                     AW_WATCHDOG_HELD);
    input.distance = 0;
    assert_int_equal(aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL),
                     AW_WATCHDOG_PASS);
}

static void a_clock_that_goes_back_does_not_stretch_the_quiet_time(void **state)
{
    (void)state;
    const struct aw_watchdog_settings settings = defaults();
    struct aw_watchdog_memory memory;
    struct aw_watchdog_input input = well();
    int64_t now = INT64_C(1700000000) * S;
    aw_watchdog_begin(&memory, now);
    input.finite = false;
    aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
    now -= INT64_C(1000000000) * S;
    assert_close(held_s(&settings, &memory, well(), &now), 315, 0);
}

/* The header's promise, for an agent that misses the SLO in every step, and for one at random. */
static void no_agent_spends_more_than_the_budget_before_it_is_stopped(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 40; seed++) {
        struct aw_watchdog_settings settings = defaults();
        struct aw_watchdog_memory memory;
        struct aw_rng rng;
        static bool log[20000]; /* the agent's steps since it was armed; the twin */
        uint32_t count = 0, trips = 0;
        int64_t now = 0;
        bool acts = true;
        aw_rng_init(&rng, seed, 0);
        settings.grace = 0;
        settings.window = 1 + aw_rng_below(&rng, AW_WATCHDOG_WINDOW_MAX);
        settings.slo_budget = seed % 2 ? 0.01 : 0;
        settings.slack = aw_rng_below(&rng, 5);
        const double harm = seed % 4 == 0 ? 1 : 0.05 * aw_rng_double(&rng);
        const double limit = settings.slo_budget * settings.window + settings.slack;
        aw_watchdog_begin(&memory, now);
        for (int i = 0; i < 20000; i++) {
            struct aw_watchdog_input input = well();
            const bool missed = acts && aw_rng_double(&rng) < harm;
            input.last_actor = acts ? AW_ACTOR_AGENT : AW_ACTOR_FALLBACK;
            input.last_slo = missed ? AW_WATCHDOG_SLO_MISSED : AW_WATCHDOG_SLO_MET;
            if (acts)
                log[count++] = missed;
            const enum aw_watchdog_verdict verdict =
                aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
            uint32_t bad = 0;
            for (uint32_t k = count;
                 acts && k > 0 && k > (count < settings.window ? 0 : count - settings.window); k--)
                bad += log[k - 1];
            if (acts) {
                assert_int_equal(verdict == AW_WATCHDOG_TRIPPED, bad > limit);
                assert_true(bad <= floor(limit) + 1);
                trips += verdict == AW_WATCHDOG_TRIPPED;
            } else if (verdict == AW_WATCHDOG_PASS) {
                count = 0;
            }
            acts = verdict == AW_WATCHDOG_PASS;
        }
        assert_int_equal(trips, memory.trips);
        if (harm == 1)
            assert_true(trips > 5 && trips < 60); /* 20 000 steps are 83 hours */
    }
}

static void exploring_has_a_budget_of_its_own(void **state)
{
    (void)state;
    static const struct {
        enum aw_actor actor;
        enum aw_watchdog_slo slo;
        double extra;
        int stops_after; /* steps; -1: never within 40 */
        const char *why;
    } rows[] = {
        {AW_ACTOR_EXPLORING, AW_WATCHDOG_SLO_MET, 0, -1, "it costs nothing"},
        {AW_ACTOR_EXPLORING, AW_WATCHDOG_SLO_MET, NONE, -1, "nobody knows what it costs"},
        {AW_ACTOR_EXPLORING, AW_WATCHDOG_SLO_MET, 1, 21, "0.05 of 400 steps are 20"},
        {AW_ACTOR_AGENT, AW_WATCHDOG_SLO_MET, 1, -1, "not exploring"},
        {AW_ACTOR_EXPLORING, AW_WATCHDOG_SLO_MISSED, 0, 1, "not while the SLO is missed"},
        {AW_ACTOR_FALLBACK, AW_WATCHDOG_SLO_MISSED, 0, 1, "whoever acts"},
        {AW_ACTOR_EXPLORING, AW_WATCHDOG_SLO_UNKNOWN, 0, 1, "nor while nobody knows"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aw_watchdog_settings settings = defaults();
        struct aw_watchdog_memory memory;
        struct aw_watchdog_input input = well();
        int stopped = -1;
        aw_watchdog_begin(&memory, 0);
        assert_true(aw_explore_allowed(&settings, &memory));
        input.last_actor = rows[i].actor;
        input.last_slo = rows[i].slo;
        input.last_extra_cost = rows[i].extra;
        for (int k = 1; k <= 40 && stopped < 0; k++) {
            aw_watchdog_step(&settings, &memory, &input, k * STEP, NULL);
            if (!aw_explore_allowed(&settings, &memory))
                stopped = k;
        }
        if (stopped != rows[i].stops_after)
            fail_msg("%s: %d", rows[i].why, stopped);
    }
}

static void violations_while_exploring_are_forgotten_after_the_window(void **state)
{
    (void)state;
    struct aw_watchdog_settings settings = defaults();
    struct aw_watchdog_memory memory;
    struct aw_watchdog_input input = well();
    int64_t now = 0;
    settings.slack = 1000; /* the watchdog itself is not what is tested */
    aw_watchdog_begin(&memory, now);
    /* half of 1 % of 400 and one forgiven: three are allowed */
    for (int k = 0; k < 4; k++) {
        input.last_actor = AW_ACTOR_EXPLORING;
        input.last_slo = AW_WATCHDOG_SLO_MISSED;
        aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
        input.last_slo = AW_WATCHDOG_SLO_MET;
        aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
        assert_int_equal(aw_explore_allowed(&settings, &memory), k < 3);
    }
    input.last_actor = AW_ACTOR_AGENT;
    int steps = 0;
    while (!aw_explore_allowed(&settings, &memory)) {
        aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
        assert_true(++steps <= 400);
    }
    assert_true(steps > 350); /* the window, up to a piece of 25 steps */
    input.finite = false;
    aw_watchdog_step(&settings, &memory, &input, now += STEP, NULL);
    assert_false(aw_explore_allowed(&settings, &memory)); /* tripped */
}

static void a_familiar_state_is_inside_the_box_and_a_strange_one_says_how_far(void **state)
{
    (void)state;
    struct aw_familiar familiar;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    aw_familiar_begin(&familiar, 2);
    for (uint32_t i = 0; i < 1000; i++) {
        const float x[2] = {aw_rng_float(&rng), 0.5f}; /* the second never moves */
        const float nan[2] = {NAN, 0.5f};
        assert_int_equal(isnan(aw_familiar_distance(&familiar, x)), i < AW_FAMILIAR_COUNT_MIN);
        aw_familiar_push(&familiar, x);
        aw_familiar_push(&familiar, nan);
    }
    assert_int_equal(familiar.count, 1000);
    assert_close(familiar.mean[0], 0.5, 0.05);
    static const struct {
        float x, y;
        double low, high;
        const char *why;
    } rows[] = {
        {0.5f, 0.5f, 0, 0, "seen"},
        {1.0f, 0.5f, 0, 0.02, "at the edge"},
        {1.2888f, 0.5f, 0.97, 1.03, "one deviation of a uniform number is 0.2887"},
        {-0.5774f, 0.5f, 1.97, 2.03, "two below"},
        {0.5f, 0.6f, 1.99, 2.01, "what never moved has a least deviation of 0.05"},
        {9, 9, 100, 200, "the worst element counts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const float x[2] = {rows[i].x, rows[i].y};
        const double distance = aw_familiar_distance(&familiar, x);
        if (!(distance >= rows[i].low && distance <= rows[i].high))
            fail_msg("%s: %g", rows[i].why, distance);
    }
    assert_true(isinf(aw_familiar_distance(&familiar, (const float[2]){0.5f, NAN})));
    assert_true(isinf(aw_familiar_distance(&familiar, (const float[2]){INFINITY, 0.5f})));
}

static void memories_have_no_padding_and_are_small(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct aw_watchdog_memory), AW_WATCHDOG_WINDOW_MAX / 8 + 2 * 8 +
                                                            AW_EXPLORE_PIECES * (8 + 4 + 4) +
                                                            3 * 8 + 10 * 4);
    assert_int_equal(sizeof(struct aw_familiar), AW_FAMILIAR_DIM_MAX * (8 + 8 + 4 + 4) + 16);
    /* per workload: ten thousand of them fit into 80 MiB */
    assert_true(sizeof(struct aw_guard_memory) + sizeof(struct aw_lifecycle_memory) +
                    sizeof(struct aw_watchdog_memory) + sizeof(struct aw_familiar) <
                8192);
    for (uint32_t cause = 0; cause < AW_WATCHDOG_CAUSE_COUNT; cause++)
        assert_true(strlen(aw_watchdog_cause_sentence(cause)) > 10);
}

AW_TEST_GROUP("watchdog")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_trips_at_once_and_says_so),
        cmocka_unit_test(the_budget_of_a_window_is_spent_by_the_agents_own_violations_alone),
        cmocka_unit_test(old_violations_leave_the_window),
        cmocka_unit_test(a_fallback_that_misses_more_than_the_budget_sets_the_measure),
        cmocka_unit_test(what_the_fallback_left_behind_is_not_the_agents_fault),
        cmocka_unit_test(the_quiet_time_doubles_up_to_its_end_and_is_forgiven_in_time),
        cmocka_unit_test(control_does_not_come_back_while_figures_are_missing),
        cmocka_unit_test(a_clock_that_goes_back_does_not_stretch_the_quiet_time),
        cmocka_unit_test(no_agent_spends_more_than_the_budget_before_it_is_stopped),
        cmocka_unit_test(exploring_has_a_budget_of_its_own),
        cmocka_unit_test(violations_while_exploring_are_forgotten_after_the_window),
        cmocka_unit_test(a_familiar_state_is_inside_the_box_and_a_strange_one_says_how_far),
        cmocka_unit_test(memories_have_no_padding_and_are_small),
    };
    return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
