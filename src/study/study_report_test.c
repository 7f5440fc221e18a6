/* study_report_test.c - what is written is what is read, up to the maxima and without memory. */
#include "study/study_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "base/text.h"

static struct aw_study_report *report_new(void)
{
    struct aw_study_report *report = NULL;
    assert_ok(aw_study_report_new("made-up", "Made up", NULL, &report, NULL));
    return report;
}

static void a_figure_begins_without_interval_paper_and_goal(void **state)
{
    (void)state;
    struct aw_study_report *report = report_new();
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, AW_UNIT_TIMES, 5.5, "%s, %d episodes", "TL", 40);
    assert_non_null(figure);
    assert_string_equal(figure->name, "TL, 40 episodes");
    assert_int_equal(figure->unit, AW_UNIT_TIMES);
    assert_close(figure->value, 5.5, 0);
    assert_true(isnan(figure->interval.low) && isnan(figure->interval.high));
    assert_true(isnan(figure->paper) && isnan(figure->goal));
    assert_false(figure->lower);
    aw_study_report_free(report);
}

static void a_goal_is_met_from_the_right_side(void **state)
{
    (void)state;
    static const struct {
        double value, goal;
        bool lower;
        enum aw_study_report_verdict verdict;
        const char *why;
    } cases[] = {
        {3, 10, true, AW_STUDY_REPORT_MET, "below, and lower is better"},
        {3, 10, false, AW_STUDY_REPORT_MISSED, "below, and higher is better"},
        {10, 10, true, AW_STUDY_REPORT_MET, "the goal itself is enough"},
        {10, 10, false, AW_STUDY_REPORT_MET, "the goal itself is enough"},
        {11, 10, true, AW_STUDY_REPORT_MISSED, "above, and lower is better"},
        {11, 10, false, AW_STUDY_REPORT_MET, "above, and higher is better"},
        {NAN, 10, true, AW_STUDY_REPORT_MISSED, "what is not known is not reached"},
        {NAN, 10, false, AW_STUDY_REPORT_MISSED, "what is not known is not reached"},
        {3, NAN, true, AW_STUDY_REPORT_OPEN, "no goal"},
        {NAN, NAN, false, AW_STUDY_REPORT_OPEN, "no goal"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_study_report_figure figure = {
            .value = cases[i].value, .goal = cases[i].goal, .lower = cases[i].lower};
        if (aw_study_report_verdict(&figure) != cases[i].verdict)
            fail_msg("case %zu: %s", i, cases[i].why);
    }
}

static void rows_and_points_keep_their_order_while_they_grow(void **state)
{
    (void)state;
    static const char *const columns[] = {"index", "square", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_COUNT, AW_UNIT_PLAIN};
    struct aw_study_report *report = report_new();
    const uint32_t table = aw_study_report_table(report, "Squares", columns, units);
    const uint32_t other = aw_study_report_table(report, "Nothing", columns, units);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_DOTS, "Squares", "x", "y");
    const uint32_t series = aw_study_report_series(report, plot, "all");
    const uint32_t few = aw_study_report_series(report, plot, "few");
    assert_int_equal(other, 1);
    assert_int_equal(few, 1);
    for (uint32_t i = 0; i < AW_STUDY_REPORT_ROWS_MAX; i++)
        assert_ok(aw_study_report_row(report, table, (double[]){i, (double)i * i}, "row %u", i));
    for (uint32_t i = 0; i < AW_STUDY_REPORT_POINTS_MAX; i++) {
        assert_ok(
            aw_study_report_point(report, plot, series, i, 2.0 * i, i % 2 ? NAN : 1.0 * i, i));
        if (i % 1000 == 0)
            assert_ok(aw_study_report_point(report, plot, few, -1.0 * i, 0, NAN, NAN));
    }
    const struct aw_study_report_table *t = &report->table[table];
    assert_int_equal(t->rows, AW_STUDY_REPORT_ROWS_MAX);
    for (uint32_t i = 0; i < t->rows; i++) {
        char label[64];
        snprintf(label, sizeof label, "row %u", i);
        assert_string_equal(t->label[i], label);
        assert_close(t->value[2 * i], i, 0);
        assert_close(t->value[2 * i + 1], (double)i * i, 0);
    }
    const struct aw_study_report_series *s = &report->plot[plot].series[series];
    assert_int_equal(s->points, AW_STUDY_REPORT_POINTS_MAX);
    for (uint32_t i = 0; i < s->points; i++) {
        assert_close(s->point[i].x, i, 0);
        assert_close(s->point[i].y, 2.0 * i, 0);
        assert_close(s->point[i].high, i, 0);
        assert_int_equal(isnan(s->point[i].low), i % 2);
    }
    assert_int_equal(report->plot[plot].series[few].points, 5);
    assert_close(report->plot[plot].series[few].point[4].x, -4000, 0);
    assert_int_equal(report->table[other].rows, 0);
    aw_study_report_free(report);
}

static void what_is_beyond_a_maximum_is_refused(void **state)
{
    (void)state;
    static const char *const columns[] = {"x", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN};
    const double value = 1;
    struct aw_study_report *report = report_new();
    for (uint32_t i = 0; i < AW_STUDY_REPORT_FIGURES_MAX; i++)
        assert_non_null(aw_study_report_figure(report, AW_UNIT_PLAIN, i, "f"));
    assert_null(aw_study_report_figure(report, AW_UNIT_PLAIN, 0, "one more"));
    for (uint32_t i = 0; i < AW_STUDY_REPORT_TABLES_MAX; i++)
        assert_int_equal(aw_study_report_table(report, "t", columns, units), i);
    const uint32_t table = aw_study_report_table(report, "one more", columns, units);
    assert_int_equal(table, AW_STUDY_REPORT_TABLES_MAX);
    assert_int_equal(aw_study_report_row(report, table, &value, "r"), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_STUDY_REPORT_ROWS_MAX; i++)
        assert_ok(aw_study_report_row(report, 3, &value, "r"));
    assert_int_equal(aw_study_report_row(report, 3, &value, "r"), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_STUDY_REPORT_PLOTS_MAX; i++)
        assert_int_equal(aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "p", "x", "y"), i);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "one more", "x", "y");
    assert_int_equal(plot, AW_STUDY_REPORT_PLOTS_MAX);
    assert_int_equal(aw_study_report_series(report, plot, "s"), AW_STUDY_REPORT_SERIES_MAX);
    assert_int_equal(aw_study_report_point(report, plot, 0, 1, 1, NAN, NAN), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_STUDY_REPORT_SERIES_MAX; i++)
        assert_int_equal(aw_study_report_series(report, 2, "s"), i);
    const uint32_t series = aw_study_report_series(report, 2, "one more");
    assert_int_equal(series, AW_STUDY_REPORT_SERIES_MAX);
    assert_int_equal(aw_study_report_point(report, 2, series, 1, 1, NAN, NAN), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_STUDY_REPORT_POINTS_MAX; i++)
        assert_ok(aw_study_report_point(report, 2, 0, i, 1, NAN, NAN));
    assert_int_equal(aw_study_report_point(report, 2, 0, 1, 1, NAN, NAN), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_STUDY_REPORT_LABELS_MAX; i++)
        assert_ok(aw_study_report_label(report, 2, i, "group"));
    assert_int_equal(aw_study_report_label(report, 2, 0, "one more"), AW_ERR_RANGE);
    assert_int_equal(aw_study_report_label(report, plot, 0, "no such plot"), AW_ERR_RANGE);
    assert_int_equal(report->plot[2].labels, AW_STUDY_REPORT_LABELS_MAX);
    assert_close(report->plot[2].label[7].x, 7, 0);
    assert_string_equal(report->plot[2].label[7].text, "group");
    for (uint32_t i = 0; i <= AW_STUDY_REPORT_NOTES_MAX; i++)
        aw_study_report_note(report, "note %u", i);
    assert_int_equal(report->notes, AW_STUDY_REPORT_NOTES_MAX);
    aw_study_report_free(report);
}

static void a_text_that_is_too_long_is_cut_between_characters(void **state)
{
    (void)state;
    char text[2 * AW_STUDY_REPORT_TEXT_MAX + 2];
    struct aw_study_report *report = report_new();
    for (uint32_t lead = 0; lead < 2; lead++) { /* one of the two cuts falls into a character */
        memset(text, 'a', lead);
        for (uint32_t i = 0; i < AW_STUDY_REPORT_TEXT_MAX; i++)
            memcpy(text + lead + 2 * i, "\xc3\xa9", 2);
        text[lead + 2 * AW_STUDY_REPORT_TEXT_MAX] = '\0';
        const struct aw_study_report_figure *figure =
            aw_study_report_figure(report, AW_UNIT_PLAIN, 0, "%s", text);
        assert_non_null(figure);
        const size_t len = strlen(figure->name);
        assert_true(len >= AW_STUDY_REPORT_TEXT_MAX - 2 && len < AW_STUDY_REPORT_TEXT_MAX);
        assert_int_equal(aw_text_utf8_bad(figure->name, len), len);
        assert_memory_equal(figure->name, text, len);
    }
    aw_study_report_free(report);
}

static enum aw_err fill(const struct aw_alloc *alloc)
{
    static const char *const columns[] = {"x", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN};
    struct aw_study_report *report = NULL;
    enum aw_err err = aw_study_report_new("made-up", "Made up", alloc, &report, NULL);
    if (err) {
        assert_null(report);
        return err;
    }
    const uint32_t table = aw_study_report_table(report, "t", columns, units);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "p", "x", "y");
    const uint32_t series = aw_study_report_series(report, plot, "s");
    for (uint32_t i = 0; !err && i < 40; i++) {
        const double value = i;
        err = aw_study_report_row(report, table, &value, "row %u", i);
        err = err ? err : aw_study_report_point(report, plot, series, i, i, NAN, NAN);
        if (err) /* a failure leaves what there was */
            assert_true(report->table[table].rows == i ||
                        report->plot[plot].series[series].points == i);
        for (uint32_t k = 0; k < report->table[table].rows; k++)
            assert_close(report->table[table].value[k], k, 0);
    }
    aw_study_report_free(report);
    return err;
}

static void every_allocation_may_fail_and_nothing_leaks(void **state)
{
    (void)state;
    enum aw_err err = AW_ERR_NOMEM;
    uint64_t n = 0;
    for (; err && n < 100; n++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = fill(&counting.alloc);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_ok(err);
    assert_true(n > 9); /* the report, and three blocks each of labels, values and points */
}

AW_TEST_GROUP("study-report")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_figure_begins_without_interval_paper_and_goal),
        cmocka_unit_test(a_goal_is_met_from_the_right_side),
        cmocka_unit_test(rows_and_points_keep_their_order_while_they_grow),
        cmocka_unit_test(what_is_beyond_a_maximum_is_refused),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_between_characters),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
