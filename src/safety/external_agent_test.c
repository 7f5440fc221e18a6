/* external_agent_test.c - how an agent of another process gains trust, loses it, and comes back. */
#include "safety/external_agent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

#define TICK_US INT64_C(15000000)

struct bench {
    struct aw_external_agent_settings settings;
    struct aw_external_agent_memory memory;
    struct aw_external_agent_report report;
    int64_t now_us;
};

static void begin(struct bench *b)
{
    memset(b, 0, sizeof *b);
    aw_conf_defaults(aw_external_agent_fields, &b->settings);
    b->now_us = INT64_C(1000000000);
    aw_external_agent_begin(&b->memory, b->now_us);
}

static struct aw_external_agent_answer answer_of(const char *name,
                                                 enum aw_external_agent_fault fault)
{
    struct aw_external_agent_answer answer = {.agent = aw_external_agent_id(name), .fault = fault};
    snprintf(answer.name, sizeof answer.name, "%s", name);
    return answer;
}

/* One tick, as a loop makes it: who is set aside is not asked. */
static const struct aw_external_agent_report *tick(struct bench *b,
                                                   const struct aw_external_agent_answer *came)
{
    struct aw_external_agent_answer answer = *came;
    b->now_us += TICK_US;
    if (answer.agent && !aw_external_agent_asks(&b->memory, b->now_us))
        answer.fault = AW_EXTERNAL_AGENT_FAULT_UNASKED;
    aw_external_agent_step(&b->settings, &b->memory, &answer, b->now_us, &b->report);
    return &b->report;
}

static const struct aw_external_agent_report *answers(struct bench *b,
                                                      enum aw_external_agent_fault fault)
{
    const struct aw_external_agent_answer answer = answer_of("td3@7", fault);
    return tick(b, &answer);
}

static const struct aw_external_agent_report *nobody(struct bench *b)
{
    return tick(b, &(struct aw_external_agent_answer){0});
}

static void until_trusted(struct bench *b)
{
    for (uint32_t i = 0; i < 1000; i++)
        if (answers(b, AW_EXTERNAL_AGENT_FAULT_NONE)->follow)
            return;
    fail_msg("it is never trusted");
}

/* --- answers ---------------------------------------------------------------------------------- */

static void values_cross_the_wall_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        float values[5];
        size_t count;
        enum aw_external_agent_fault fault;
        const char *why;
    } cases[] = {
        {{0, 0.5f, -1}, 3, AW_EXTERNAL_AGENT_FAULT_NONE, "three numbers within the bounds"},
        {{1, 1, 1}, 3, AW_EXTERNAL_AGENT_FAULT_NONE, "the bounds themselves"},
        {{1.0000005f, 0, 0}, 3, AW_EXTERNAL_AGENT_FAULT_NONE, "what rounding may have done"},
        {{0}, 0, AW_EXTERNAL_AGENT_FAULT_SIZE, "nothing"},
        {{0, 0}, 2, AW_EXTERNAL_AGENT_FAULT_SIZE, "too few"},
        {{0, 0, 0, 0}, 4, AW_EXTERNAL_AGENT_FAULT_SIZE, "too many"},
        {{0, NAN, 0}, 3, AW_EXTERNAL_AGENT_FAULT_NOT_FINITE, "not a number"},
        {{0, 0, INFINITY}, 3, AW_EXTERNAL_AGENT_FAULT_NOT_FINITE, "infinite"},
        {{-INFINITY, 0, 0}, 3, AW_EXTERNAL_AGENT_FAULT_NOT_FINITE, "infinite the other way"},
        {{1.01f, 0, 0}, 3, AW_EXTERNAL_AGENT_FAULT_BOUNDS, "a little too much"},
        {{0, 0, -3e38f}, 3, AW_EXTERNAL_AGENT_FAULT_BOUNDS, "far too little"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float action[AW_ACTION_MAX] = {7, 7, 7};
        const enum aw_external_agent_fault fault =
            aw_external_agent_check(cases[i].values, cases[i].count, AW_ACTION_DIM, action);
        if (fault != cases[i].fault)
            fail_msg("%s: %s", cases[i].why, aw_external_agent_fault_name(fault));
        for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
            if (fault ? action[a] != 7 : !(fabsf(action[a]) <= 1))
                fail_msg("%s: element %u is %g", cases[i].why, a, (double)action[a]);
    }
}

/* --- standing --------------------------------------------------------------------------------- */

static void words_cross_the_wall_as_text_that_can_be_shown(void **state)
{
    static const float sure = 0.75f, too_sure = 1.5f, unsure = NAN;
    static const struct {
        const char *said, *kept, *why;
    } cases[] = {
        {NULL, "", "nothing"},
        {"load doubles at nine", "load doubles at nine", "plain"},
        {"caf\xc3\xa9 \xe2\x82\xac", "caf\xc3\xa9 \xe2\x82\xac", "any language"},
        {"a\nb\x1b[31mc\x7f", "a b [31mc ", "terminals obey control characters"},
        {"a\xc2\x9b"
         "b",
         "a?b", "and those of two bytes"},
        {"a\xff\xc3", "a??", "not UTF-8"},
        {"\"\\", "'/", "JSON would escape them"},
    };
    struct aw_external_agent_words words;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aw_external_agent_words_take(&words, &sure, cases[i].said);
        if (strcmp(words.explanation, cases[i].kept) != 0)
            fail_msg("%s: %s", cases[i].why, words.explanation);
        assert_true(words.has_confidence && words.confidence == sure);
    }
    char many[2 * AW_EXTERNAL_AGENT_WORDS_MAX + 1];
    for (size_t i = 0; i < AW_EXTERNAL_AGENT_WORDS_MAX; i++)
        memcpy(many + 2 * i, "\xc3\xa9", 3);
    aw_external_agent_words_take(&words, &too_sure, many);
    assert_int_equal(strlen(words.explanation),
                     AW_EXTERNAL_AGENT_WORDS_MAX - 2); /* whole characters */
    assert_false(words.has_confidence);
    aw_external_agent_words_take(&words, &unsure, "");
    assert_false(words.has_confidence);
    aw_external_agent_words_take(&words, NULL, "");
    assert_false(words.has_confidence);
}

static void an_agent_is_judged_before_it_is_followed(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    assert_int_equal(nobody(&b)->standing, AW_EXTERNAL_AGENT_ABSENT);
    for (uint32_t i = 1; i < b.settings.probation; i++) {
        const struct aw_external_agent_report *report = answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE);
        assert_int_equal(report->standing, AW_EXTERNAL_AGENT_PROBATION);
        assert_false(report->follow);
        assert_int_equal(report->streak, i);
        assert_int_equal(report->moved, i == 1);
    }
    assert_true(answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE)->follow);
    assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_TRUSTED);
    assert_string_equal(b.report.name, "td3@7");
}

static void a_bad_answer_is_never_followed(void **state)
{
    (void)state;
    for (uint32_t f = AW_EXTERNAL_AGENT_FAULT_NONE + 1; f < AW_EXTERNAL_AGENT_FAULT_COUNT; f++) {
        struct bench b;
        begin(&b);
        until_trusted(&b);
        assert_false(answers(&b, (enum aw_external_agent_fault)f)->follow);
        if (f == AW_EXTERNAL_AGENT_FAULT_FLOOD) /* which is no accident */
            assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_ASIDE);
        else
            assert_true(answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE)->follow);
    }
}

static void three_strikes_set_it_aside_and_it_comes_back_when_it_behaves(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    until_trusted(&b);
    for (uint32_t i = 0; i < b.settings.strikes; i++)
        (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_LATE);
    assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_ASIDE);
    const int64_t begin_us = b.now_us;
    while (b.now_us + TICK_US < begin_us + (int64_t)(b.settings.backoff * 1e6)) {
        assert_false(answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE)->asked);
        assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_ASIDE);
        assert_true(b.report.left_s > 0);
    }
    assert_true(answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE)->asked);
    assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_PROBATION);
    for (uint32_t i = 1; i < b.settings.probation; i++) {
        assert_false(b.report.follow);
        (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE);
    }
    assert_true(b.report.follow);
}

static void each_time_aside_is_twice_as_long_up_to_a_limit(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    double before = 0;
    for (uint32_t i = 0; i < 12; i++) {
        while (answers(&b, AW_EXTERNAL_AGENT_FAULT_NOT_FINITE)->standing !=
                   AW_EXTERNAL_AGENT_ASIDE ||
               !b.report.moved)
            assert_true(b.memory.asides <= i + 1);
        const double expected = fmin(b.settings.backoff_max, ldexp(b.settings.backoff, (int)i));
        assert_true(fabs(b.report.left_s - expected) < 1e-3);
        assert_true(b.report.left_s >= before);
        before = b.report.left_s;
        while (!aw_external_agent_asks(&b.memory, b.now_us + TICK_US))
            (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE);
    }
}

static void good_answers_take_back_strikes_one_at_a_time(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    until_trusted(&b);
    for (uint32_t round = 0; round < 20; round++) { /* a late one now and then is lived with */
        (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_LATE);
        assert_int_equal(b.report.strikes, 1);
        for (uint32_t i = 0; i < b.settings.forgive; i++)
            (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE);
        assert_int_equal(b.report.strikes, 0);
    }
    assert_int_equal(b.memory.asides, 0);
    /* the watchdog forgives who takes over its first steps: nobody is always in them */
    for (uint32_t i = 0; i < 3 * b.settings.strikes; i++)
        (void)answers(&b, i % 2 ? AW_EXTERNAL_AGENT_FAULT_LATE : AW_EXTERNAL_AGENT_FAULT_NONE);
    assert_int_equal(b.memory.asides, 1);
}

static void leaving_and_another_name_give_no_fresh_start(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    until_trusted(&b);
    (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_GONE);
    (void)nobody(&b);
    assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_ABSENT);
    (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE);
    assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_PROBATION);
    assert_int_equal(b.report.strikes, 1);
    until_trusted(&b);
    const struct aw_external_agent_answer other = answer_of("other", AW_EXTERNAL_AGENT_FAULT_NONE);
    assert_int_equal(tick(&b, &other)->standing, AW_EXTERNAL_AGENT_PROBATION);
    assert_string_equal(b.report.name, "other");

    begin(&b);
    while (answers(&b, AW_EXTERNAL_AGENT_FAULT_SIZE)->standing != AW_EXTERNAL_AGENT_ASIDE)
        ;
    (void)nobody(&b); /* it goes and comes as somebody else */
    assert_int_equal(tick(&b, &other)->standing, AW_EXTERNAL_AGENT_ASIDE);
    assert_false(b.report.asked);
}

static void a_shadow_is_never_followed(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    struct aw_external_agent_answer answer = answer_of("watcher", AW_EXTERNAL_AGENT_FAULT_NONE);
    answer.shadow = 1;
    for (uint32_t i = 0; i < 5 * b.settings.probation; i++)
        assert_false(tick(&b, &answer)->follow);
    assert_int_equal(b.report.standing, AW_EXTERNAL_AGENT_TRUSTED);
    assert_int_equal(b.memory.shadow, 1);
}

static void a_clock_that_goes_back_makes_no_time_aside_longer(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    while (answers(&b, AW_EXTERNAL_AGENT_FAULT_LATE)->standing != AW_EXTERNAL_AGENT_ASIDE)
        ;
    b.now_us -= INT64_C(500000000);
    (void)answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE);
    assert_true(b.report.left_s <= b.settings.backoff);
}

static void whatever_comes_only_a_trusted_good_answer_is_followed(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 1);
    for (uint32_t run = 0; run < 200; run++) {
        struct bench b;
        begin(&b);
        b.settings.strikes = 1 + aw_rng_below(&rng, 5);
        b.settings.probation = 1 + aw_rng_below(&rng, 12);
        const double good = aw_rng_double(&rng);
        uint32_t in_a_row = 0;
        for (uint32_t t = 0; t < 300; t++) {
            const bool there = aw_rng_double(&rng) < 0.95;
            const uint32_t fault = aw_rng_double(&rng) < good
                                       ? 0
                                       : 2 + aw_rng_below(&rng, AW_EXTERNAL_AGENT_FAULT_COUNT - 2);
            if (there)
                (void)answers(&b, (enum aw_external_agent_fault)fault);
            else
                (void)nobody(&b);
            const bool counts = there && b.report.asked && fault == 0;
            in_a_row = counts ? in_a_row + 1 : there && !b.report.asked ? in_a_row : 0;
            assert_true(!b.report.follow || (counts && in_a_row >= 1 &&
                                             b.report.standing == AW_EXTERNAL_AGENT_TRUSTED));
            assert_true(b.report.strikes < b.settings.strikes);
            char text[AW_EXTERNAL_AGENT_TEXT_MAX];
            assert_true(*aw_external_agent_report_format(&b.report, text, sizeof text));
        }
    }
}

static void reports_read_as_sentences(void **state)
{
    (void)state;
    struct bench b;
    char text[AW_EXTERNAL_AGENT_TEXT_MAX];
    begin(&b);
    assert_string_equal(aw_external_agent_report_format(nobody(&b), text, sizeof text),
                        "no agent is registered for the workload");
    assert_string_equal(
        aw_external_agent_report_format(answers(&b, AW_EXTERNAL_AGENT_FAULT_NONE), text,
                                        sizeof text),
        "agent td3@7 is not followed: it is on probation: asked, judged, not followed (1 of 10 "
        "good answers)");
    until_trusted(&b);
    assert_string_equal(
        aw_external_agent_report_format(answers(&b, AW_EXTERNAL_AGENT_FAULT_LATE), text,
                                        sizeof text),
        "agent td3@7 is not followed: it has not answered within the deadline (strike 1 of 3)");
    assert_string_equal(aw_external_agent_report_format(nobody(&b), text, sizeof text),
                        "agent td3@7 has left, and nobody else has registered");
}

AW_TEST_GROUP("external-agent")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_cross_the_wall_whole_or_not_at_all),
        cmocka_unit_test(words_cross_the_wall_as_text_that_can_be_shown),
        cmocka_unit_test(an_agent_is_judged_before_it_is_followed),
        cmocka_unit_test(a_bad_answer_is_never_followed),
        cmocka_unit_test(three_strikes_set_it_aside_and_it_comes_back_when_it_behaves),
        cmocka_unit_test(each_time_aside_is_twice_as_long_up_to_a_limit),
        cmocka_unit_test(good_answers_take_back_strikes_one_at_a_time),
        cmocka_unit_test(leaving_and_another_name_give_no_fresh_start),
        cmocka_unit_test(a_shadow_is_never_followed),
        cmocka_unit_test(a_clock_that_goes_back_makes_no_time_aside_longer),
        cmocka_unit_test(whatever_comes_only_a_trusted_good_answer_is_followed),
        cmocka_unit_test(reports_read_as_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
