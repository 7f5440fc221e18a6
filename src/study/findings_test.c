/* findings_test.c - what is written is what is read, up to the maxima and through lack of memory.
 */
#include "study/findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "base/text.h"

static struct aw_findings *findings_new(void)
{
    struct aw_findings *findings = NULL;
    assert_ok(aw_findings_new("made-up", "Made up", NULL, &findings, NULL));
    return findings;
}

static void a_figure_begins_without_interval_paper_and_goal(void **state)
{
    (void)state;
    struct aw_findings *findings = findings_new();
    struct aw_finding *figure =
        aw_findings_figure(findings, AW_UNIT_TIMES, 5.5, "%s, %d episodes", "TL", 40);
    assert_non_null(figure);
    assert_string_equal(figure->name, "TL, 40 episodes");
    assert_int_equal(figure->unit, AW_UNIT_TIMES);
    assert_close(figure->value, 5.5, 0);
    assert_true(isnan(figure->interval.low) && isnan(figure->interval.high));
    assert_true(isnan(figure->paper) && isnan(figure->goal));
    assert_false(figure->lower);
    aw_findings_free(findings);
}

static void a_goal_is_met_from_the_right_side(void **state)
{
    (void)state;
    static const struct {
        double value, goal;
        bool lower;
        enum aw_finding_verdict verdict;
        const char *why;
    } cases[] = {
        {3, 10, true, AW_FINDING_MET, "below, and lower is better"},
        {3, 10, false, AW_FINDING_MISSED, "below, and higher is better"},
        {10, 10, true, AW_FINDING_MET, "the goal itself is enough"},
        {10, 10, false, AW_FINDING_MET, "the goal itself is enough"},
        {11, 10, true, AW_FINDING_MISSED, "above, and lower is better"},
        {11, 10, false, AW_FINDING_MET, "above, and higher is better"},
        {NAN, 10, true, AW_FINDING_MISSED, "what is not known is not reached"},
        {NAN, 10, false, AW_FINDING_MISSED, "what is not known is not reached"},
        {3, NAN, true, AW_FINDING_OPEN, "no goal"},
        {NAN, NAN, false, AW_FINDING_OPEN, "no goal"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_finding figure = {
            .value = cases[i].value, .goal = cases[i].goal, .lower = cases[i].lower};
        if (aw_finding_verdict(&figure) != cases[i].verdict)
            fail_msg("case %zu: %s", i, cases[i].why);
    }
}

static void rows_and_points_keep_their_order_while_they_grow(void **state)
{
    (void)state;
    static const char *const columns[] = {"index", "square", NULL};
    static const enum aw_findings_unit units[] = {AW_UNIT_COUNT, AW_UNIT_PLAIN};
    struct aw_findings *findings = findings_new();
    const uint32_t table = aw_findings_table(findings, "Squares", columns, units);
    const uint32_t other = aw_findings_table(findings, "Nothing", columns, units);
    const uint32_t plot = aw_findings_plot(findings, AW_FINDINGS_DOTS, "Squares", "x", "y");
    const uint32_t series = aw_findings_series(findings, plot, "all");
    const uint32_t few = aw_findings_series(findings, plot, "few");
    assert_int_equal(other, 1);
    assert_int_equal(few, 1);
    for (uint32_t i = 0; i < AW_FINDINGS_ROWS_MAX; i++)
        assert_ok(aw_findings_row(findings, table, (double[]){i, (double)i * i}, "row %u", i));
    for (uint32_t i = 0; i < AW_FINDINGS_POINTS_MAX; i++) {
        assert_ok(aw_findings_point(findings, plot, series, i, 2.0 * i, i % 2 ? NAN : 1.0 * i, i));
        if (i % 1000 == 0)
            assert_ok(aw_findings_point(findings, plot, few, -1.0 * i, 0, NAN, NAN));
    }
    const struct aw_findings_table *t = &findings->table[table];
    assert_int_equal(t->rows, AW_FINDINGS_ROWS_MAX);
    for (uint32_t i = 0; i < t->rows; i++) {
        char label[64];
        snprintf(label, sizeof label, "row %u", i);
        assert_string_equal(t->label[i], label);
        assert_close(t->value[2 * i], i, 0);
        assert_close(t->value[2 * i + 1], (double)i * i, 0);
    }
    const struct aw_findings_series *s = &findings->plot[plot].series[series];
    assert_int_equal(s->points, AW_FINDINGS_POINTS_MAX);
    for (uint32_t i = 0; i < s->points; i++) {
        assert_close(s->point[i].x, i, 0);
        assert_close(s->point[i].y, 2.0 * i, 0);
        assert_close(s->point[i].high, i, 0);
        assert_int_equal(isnan(s->point[i].low), i % 2);
    }
    assert_int_equal(findings->plot[plot].series[few].points, 5);
    assert_close(findings->plot[plot].series[few].point[4].x, -4000, 0);
    assert_int_equal(findings->table[other].rows, 0);
    aw_findings_free(findings);
}

static void what_is_beyond_a_maximum_is_refused(void **state)
{
    (void)state;
    static const char *const columns[] = {"x", NULL};
    static const enum aw_findings_unit units[] = {AW_UNIT_PLAIN};
    const double value = 1;
    struct aw_findings *findings = findings_new();
    for (uint32_t i = 0; i < AW_FINDINGS_FIGURES_MAX; i++)
        assert_non_null(aw_findings_figure(findings, AW_UNIT_PLAIN, i, "f"));
    assert_null(aw_findings_figure(findings, AW_UNIT_PLAIN, 0, "one more"));
    for (uint32_t i = 0; i < AW_FINDINGS_TABLES_MAX; i++)
        assert_int_equal(aw_findings_table(findings, "t", columns, units), i);
    const uint32_t table = aw_findings_table(findings, "one more", columns, units);
    assert_int_equal(table, AW_FINDINGS_TABLES_MAX);
    assert_int_equal(aw_findings_row(findings, table, &value, "r"), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_FINDINGS_ROWS_MAX; i++)
        assert_ok(aw_findings_row(findings, 3, &value, "r"));
    assert_int_equal(aw_findings_row(findings, 3, &value, "r"), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_FINDINGS_PLOTS_MAX; i++)
        assert_int_equal(aw_findings_plot(findings, AW_FINDINGS_LINES, "p", "x", "y"), i);
    const uint32_t plot = aw_findings_plot(findings, AW_FINDINGS_LINES, "one more", "x", "y");
    assert_int_equal(plot, AW_FINDINGS_PLOTS_MAX);
    assert_int_equal(aw_findings_series(findings, plot, "s"), AW_FINDINGS_SERIES_MAX);
    assert_int_equal(aw_findings_point(findings, plot, 0, 1, 1, NAN, NAN), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_FINDINGS_SERIES_MAX; i++)
        assert_int_equal(aw_findings_series(findings, 2, "s"), i);
    const uint32_t series = aw_findings_series(findings, 2, "one more");
    assert_int_equal(series, AW_FINDINGS_SERIES_MAX);
    assert_int_equal(aw_findings_point(findings, 2, series, 1, 1, NAN, NAN), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_FINDINGS_POINTS_MAX; i++)
        assert_ok(aw_findings_point(findings, 2, 0, i, 1, NAN, NAN));
    assert_int_equal(aw_findings_point(findings, 2, 0, 1, 1, NAN, NAN), AW_ERR_RANGE);
    for (uint32_t i = 0; i < AW_FINDINGS_LABELS_MAX; i++)
        assert_ok(aw_findings_label(findings, 2, i, "group"));
    assert_int_equal(aw_findings_label(findings, 2, 0, "one more"), AW_ERR_RANGE);
    assert_int_equal(aw_findings_label(findings, plot, 0, "no such plot"), AW_ERR_RANGE);
    assert_int_equal(findings->plot[2].labels, AW_FINDINGS_LABELS_MAX);
    assert_close(findings->plot[2].label[7].x, 7, 0);
    assert_string_equal(findings->plot[2].label[7].text, "group");
    for (uint32_t i = 0; i <= AW_FINDINGS_NOTES_MAX; i++)
        aw_findings_note(findings, "note %u", i);
    assert_int_equal(findings->notes, AW_FINDINGS_NOTES_MAX);
    aw_findings_free(findings);
}

static void a_text_that_is_too_long_is_cut_between_characters(void **state)
{
    (void)state;
    char text[2 * AW_FINDINGS_TEXT_MAX + 2];
    struct aw_findings *findings = findings_new();
    for (uint32_t lead = 0; lead < 2; lead++) { /* one of the two cuts falls into a character */
        memset(text, 'a', lead);
        for (uint32_t i = 0; i < AW_FINDINGS_TEXT_MAX; i++)
            memcpy(text + lead + 2 * i, "\xc3\xa9", 2);
        text[lead + 2 * AW_FINDINGS_TEXT_MAX] = '\0';
        const struct aw_finding *figure =
            aw_findings_figure(findings, AW_UNIT_PLAIN, 0, "%s", text);
        assert_non_null(figure);
        const size_t len = strlen(figure->name);
        assert_true(len >= AW_FINDINGS_TEXT_MAX - 2 && len < AW_FINDINGS_TEXT_MAX);
        assert_int_equal(aw_text_utf8_bad(figure->name, len), len);
        assert_memory_equal(figure->name, text, len);
    }
    aw_findings_free(findings);
}

static enum aw_err fill(const struct aw_alloc *alloc)
{
    static const char *const columns[] = {"x", NULL};
    static const enum aw_findings_unit units[] = {AW_UNIT_PLAIN};
    struct aw_findings *findings = NULL;
    enum aw_err err = aw_findings_new("made-up", "Made up", alloc, &findings, NULL);
    if (err) {
        assert_null(findings);
        return err;
    }
    const uint32_t table = aw_findings_table(findings, "t", columns, units);
    const uint32_t plot = aw_findings_plot(findings, AW_FINDINGS_LINES, "p", "x", "y");
    const uint32_t series = aw_findings_series(findings, plot, "s");
    for (uint32_t i = 0; !err && i < 40; i++) {
        const double value = i;
        err = aw_findings_row(findings, table, &value, "row %u", i);
        err = err ? err : aw_findings_point(findings, plot, series, i, i, NAN, NAN);
        if (err) /* a failure leaves what there was */
            assert_true(findings->table[table].rows == i ||
                        findings->plot[plot].series[series].points == i);
        for (uint32_t k = 0; k < findings->table[table].rows; k++)
            assert_close(findings->table[table].value[k], k, 0);
    }
    aw_findings_free(findings);
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
    assert_true(n > 9); /* the findings, and three blocks each of labels, values and points */
}

AW_TEST_GROUP("findings")
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
