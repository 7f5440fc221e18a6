/* experiment_test.c - a made-up report, as text, Markdown, JSON and page. */
#include "lab/experiment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"

static const struct aw_experiment_entry entry = {
    .name = "made-up", .shows = "AWARE Fig. 0", .title = "Made up"};

static struct aw__experiment ask_of(void)
{
    struct aw__experiment ask = {.entry = &entry, .seconds = 75, .load = "trace.csv"};
    aw_experiment_config_init(&ask.config);
    return ask;
}

static struct aw_study_report *report_new(const char *title)
{
    struct aw_study_report *report = NULL;
    assert_ok(aw_study_report_new("made-up", title, NULL, &report, NULL));
    snprintf(report->command, sizeof report->command, "aware experiment made-up");
    snprintf(report->source, sizeof report->source, "v0");
    return report;
}

/* Every unit, with and without interval, paper and goal; tables, plots and notes of every kind. */
static struct aw_study_report *report_full(void)
{
    static const char *const columns[] = {"episodes", "missed", "time", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_COUNT, AW_UNIT_SHARE,
                                                      AW_UNIT_SECONDS};
    struct aw_study_report *report = report_new("A </script> & \"title\"");
    report->apps = 20;
    report->seeds = 3;
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, AW_UNIT_TIMES, 12.34, "fewer episodes than TL");
    figure->interval = (struct aw_interval){9.1, 15.6};
    figure->paper = 5.5;
    figure->goal = 10;
    figure = aw_study_report_figure(report, AW_UNIT_SHARE, 0.081, "zero-shot drop");
    figure->interval = (struct aw_interval){0.06, 0.1};
    figure->paper = 0.105;
    figure->goal = 0.05;
    figure->lower = true;
    aw_study_report_figure(report, AW_UNIT_SECONDS, 0.0123, "one embedding");
    aw_study_report_figure(report, AW_UNIT_BYTES, 5.5 * 1024 * 1024, "the model");
    aw_study_report_figure(report, AW_UNIT_COUNT, 1234567, "steps");
    figure = aw_study_report_figure(report, AW_UNIT_PLAIN, NAN, "not known");
    figure->goal = 1;
    const uint32_t table = aw_study_report_table(report, "By application", columns, units);
    assert_ok(aw_study_report_row(report, table, (double[]){4, 0.25, 75}, "app %d", 800));
    assert_ok(aw_study_report_row(report, table, (double[]){4.5, NAN, 0.5}, "app %d", 801));
    const uint32_t lines =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Reward", "episode", "R");
    const uint32_t with = aw_study_report_series(report, lines, "AWARE");
    const uint32_t without = aw_study_report_series(report, lines, "TL");
    for (uint32_t i = 0; i < 5; i++) {
        assert_ok(aw_study_report_point(report, lines, with, i, 100 + i, 90 + i, 110 + i));
        assert_ok(aw_study_report_point(report, lines, without, i, 50 + i, NAN, NAN));
    }
    const uint32_t bars = aw_study_report_plot(report, AW_STUDY_REPORT_BARS, "Nothing", "x", "y");
    assert_ok(aw_study_report_label(report, bars, 0, "first"));
    aw_study_report_note(report, "a note");
    return report;
}

static char *printed(struct aw__experiment *ask, const struct aw_study_report *report,
                     unsigned columns, bool color)
{
    static char *bytes; /* not of the call: gcc 12 takes what is read of it for the pointer */
    static size_t len;
    FILE *out = open_memstream(&bytes, &len);
    assert_non_null(out);
    assert_ok(aw__experiment_print(ask, report, out, columns, color, NULL));
    assert_int_equal(fclose(out), 0);
    return bytes;
}

#define assert_has(text, part)                                      \
    do {                                                            \
        if (!strstr((text), (part)))                                \
            fail_msg("there is no \"%s\" in:\n%s", (part), (text)); \
    } while (0)

static void figures_have_units_that_people_read(void **state)
{
    (void)state;
    static const struct {
        enum aw_study_report_unit unit;
        double value;
        const char *text, *why;
    } cases[] = {
        {AW_UNIT_PLAIN, 0.12345, "0.123", "three digits"},
        {AW_UNIT_PLAIN, 1234.4, "1234", "no exponent where people read without one"},
        {AW_UNIT_PLAIN, 999.7, "1000", "nor where rounding makes a fourth digit"},
        {AW_UNIT_PLAIN, 3e9, "3e+09", "but where there are too many digits"},
        {AW_UNIT_PLAIN, -0.0, "0", "no minus of nothing"},
        {AW_UNIT_SHARE, 0.105, "10.5 %", "in %"},
        {AW_UNIT_SHARE, -0.475, "-47.5 %", "below 0 as well"},
        {AW_UNIT_TIMES, 5.5, "5.5x", "as it was published"},
        {AW_UNIT_TIMES, 56.1, "56.1x", "as it was published"},
        {AW_UNIT_SECONDS, 0, "0 s", "nothing is no nanoseconds"},
        {AW_UNIT_SECONDS, 4.1e-8, "41 ns", "small"},
        {AW_UNIT_SECONDS, 0.000041, "41 us", "small"},
        {AW_UNIT_SECONDS, 0.1, "100 ms", "small"},
        {AW_UNIT_SECONDS, 59.5, "59.5 s", "seconds"},
        {AW_UNIT_SECONDS, 185, "3m 05s", "minutes"},
        {AW_UNIT_SECONDS, 7260, "2h 01m", "hours"},
        {AW_UNIT_BYTES, 512, "512 B", "small"},
        {AW_UNIT_BYTES, 1536, "1.5 KiB", "larger"},
        {AW_UNIT_BYTES, 3.0 * 1024 * 1024 * 1024, "3 GiB", "large"},
        {AW_UNIT_COUNT, 7, "7", "whole"},
        {AW_UNIT_COUNT, 4.6, "4.6", "a mean of counts is not whole"},
        {AW_UNIT_COUNT, 9999, "9999", "all digits of what is not many"},
        {AW_UNIT_COUNT, 1234567, "1.23M", "many"},
        {AW_UNIT_SHARE, NAN, "-", "not known"},
        {AW_UNIT_TIMES, INFINITY, "inf", "a ratio to nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[AW__FIGURE_MAX];
        aw__figure_show(cases[i].unit, cases[i].value, text, sizeof text);
        if (strcmp(text, cases[i].text) != 0)
            fail_msg("%s, not %s: %s", text, cases[i].text, cases[i].why);
    }
}

static void an_interval_says_its_unit_once(void **state)
{
    (void)state;
    static const struct {
        enum aw_study_report_unit unit;
        struct aw_interval interval;
        const char *text;
    } cases[] = {
        {AW_UNIT_SHARE, {0.091, 0.124}, "9.1 to 12.4 %"},
        {AW_UNIT_SHARE, {-0.02, 0.01}, "-2 to 1 %"},
        {AW_UNIT_TIMES, {5, 6.25}, "5 to 6.25x"},
        {AW_UNIT_SECONDS, {0.9, 1.2}, "900 ms to 1.2 s"},
        {AW_UNIT_SECONDS, {65, 125}, "1m 05s to 2m 05s"},
        {AW_UNIT_PLAIN, {1, 2}, "1 to 2"},
        {AW_UNIT_TIMES, {NAN, 6}, "-"},
        {AW_UNIT_TIMES, {9.25, INFINITY}, "9.25x or more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2 * AW__FIGURE_MAX];
        assert_string_equal(aw__interval_show(cases[i].unit, &cases[i].interval, text, sizeof text),
                            cases[i].text);
    }
}

static void text_has_everything_beside_the_paper(void **state)
{
    (void)state;
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_full();
    char *text = printed(&ask, report, 100, false);
    assert_has(text, "Shows AWARE Fig. 0. Scale quick, 20 applications, 3 seeds from 1 on");
    assert_has(text, "1m 15s");
    assert_has(text, "aware experiment made-up\n");
    assert_has(text, "FIGURE                     HERE          95 %   PAPER    GOAL  MET\n");
    assert_has(text, "fewer episodes than TL    12.3x  9.1 to 15.6x    5.5x  >= 10x  yes\n");
    assert_has(text, "zero-shot drop            8.1 %     6 to 10 %  10.5 %  <= 5 %  no\n");
    assert_has(text, "one embedding           12.3 ms");
    assert_has(text, "the model               5.5 MiB");
    assert_has(text, "steps                     1.23M");
    assert_has(text, "By application\n");
    assert_has(text, "EPISODES  MISSED    TIME\n");
    assert_has(text, "app 800         4    25 %  1m 15s\n");
    assert_has(text, "app 801       4.5       -  500 ms\n");
    assert_has(text, "- a note\n");
    assert_null(strchr(text, '\033'));
    free(text);
    text = printed(&ask, report, 100, true);
    assert_has(text, "\033[");
    free(text);
    aw_study_report_free(report);
}

static void long_names_are_wrapped_inside_their_column(void **state)
{
    (void)state;
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_new("Long names");
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_SHARE, 0.5, "%s",
        "reward of an application that was never seen, before the first episode, as a share of "
        "what it comes to in the end");
    figure->interval = (struct aw_interval){0.4, 0.6};
    aw_study_report_figure(report, AW_UNIT_TIMES, 2, "%s",
                           "caf\xc3\xa9-a-word-that-is-longer-than-any-column-has-room-for-it x");
    for (unsigned columns = 20; columns <= 140; columns += 3) {
        char *text = printed(&ask, report, columns, false);
        assert_has(text, "FIGURE");
        unsigned wide = 0;
        for (const char *at = strstr(text, "FIGURE"); *at; at++) {
            wide = *at == '\n' ? 0 : wide + (((unsigned char)*at & 0xc0) != 0x80);
            if (columns > 100 && wide > columns)
                fail_msg("wider than %u columns: %s", columns, text);
        }
        free(text);
    }
    char *text = printed(&ask, report, 110, false);
    assert_has(text, " 50 %");
    assert_has(text, "in the end");
    free(text);
    aw_study_report_free(report);
}

static void markdown_is_a_part_of_a_page_of_results(void **state)
{
    (void)state;
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_full();
    ask.markdown = true;
    char *text = printed(&ask, report, 100, true);
    assert_has(text, "## A </script> & \"title\"\n");
    assert_has(text, "`aware experiment made-up`\n");
    assert_has(text, "| figure | here | 95 % | paper | goal | met |\n|---|--:|--:|--:|--:|---|\n");
    assert_has(text, "| zero-shot drop | 8.1 % | 6 to 10 % | 10.5 % | <= 5 % | no |\n");
    assert_has(text, "| not known | - | - | - | >= 1 | no |\n");
    assert_has(text, "### By application\n\n|  | episodes | missed | time |\n");
    assert_has(text, "| app 801 | 4.5 | - | 500 ms |\n");
    assert_null(strchr(text, '\033'));
    free(text);
    aw_study_report_free(report);
}

static void a_long_table_is_cut_and_says_so(void **state)
{
    (void)state;
    static const char *const columns[] = {"x", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN};
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_new("Long table");
    const uint32_t table = aw_study_report_table(report, "Rows", columns, units);
    for (uint32_t i = 0; i < 100; i++)
        assert_ok(aw_study_report_row(report, table, (double[]){i}, "row %u", i));
    char *text = printed(&ask, report, 80, false);
    assert_has(text, "row 39");
    assert_null(strstr(text, "row 40"));
    assert_has(text, "60 more rows are in the page and in JSON.\n");
    free(text);
    json_t *document = aw__experiment_json(&ask, report);
    const json_t *rows =
        json_object_get(json_array_get(json_object_get(document, "tables"), 0), "rows");
    assert_int_equal(json_array_size(rows), 100);
    json_decref(document);
    aw_study_report_free(report);
}

static void json_has_every_point_and_null_for_what_is_not_known(void **state)
{
    (void)state;
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_full();
    json_t *document = aw__experiment_json(&ask, report), *list;
    assert_non_null(document);
    const char *command, *unit, *goal_is;
    int seeds, apps, met;
    double value, low, high;
    assert_int_equal(json_unpack(document, "{s:s, s:i, s:i}", "command", &command, "seeds", &seeds,
                                 "apps", &apps),
                     0);
    assert_string_equal(command, "aware experiment made-up");
    assert_int_equal(seeds, 3);
    assert_int_equal(apps, 20);
    list = json_object_get(document, "figures");
    assert_int_equal(json_array_size(list), 6);
    assert_int_equal(json_unpack(json_array_get(list, 1), "{s:s, s:F, s:[F, F], s:s, s:b}", "unit",
                                 &unit, "value", &value, "interval_95", &low, &high, "goal_is",
                                 &goal_is, "met", &met),
                     0);
    assert_string_equal(unit, "share");
    assert_string_equal(goal_is, "at most");
    assert_close(value, 0.081, 0);
    assert_close(low, 0.06, 0);
    assert_false(met);
    assert_true(json_is_null(json_object_get(json_array_get(list, 5), "value")));
    assert_true(json_is_null(json_object_get(json_array_get(list, 2), "interval_95")));
    assert_null(json_object_get(json_array_get(list, 2), "met"));
    list = json_object_get(document, "plots");
    assert_int_equal(json_array_size(list), 2);
    const json_t *series = json_object_get(json_array_get(list, 0), "series");
    const json_t *with = json_array_get(series, 0), *without = json_array_get(series, 1);
    assert_int_equal(json_array_size(json_object_get(with, "y")), 5);
    assert_close(json_real_value(json_array_get(json_object_get(with, "high"), 4)), 114, 0);
    assert_true(json_is_null(json_object_get(without, "high")));
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 1), "series")), 0);
    const char *label;
    assert_int_equal(json_unpack(json_array_get(list, 1), "{s:[{s:F, s:s}]}", "labels", "x", &value,
                                 "text", &label),
                     0);
    assert_string_equal(label, "first");
    json_decref(document);
    aw_study_report_free(report);
}

static void nothing_found_is_still_a_document(void **state)
{
    (void)state;
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_new("Nothing");
    char *text = printed(&ask, report, 80, false);
    assert_has(text, "Nothing\n");
    assert_null(strstr(text, "FIGURE"));
    free(text);
    json_t *document = aw__experiment_json(&ask, report);
    assert_int_equal(json_array_size(json_object_get(document, "figures")), 0);
    assert_true(json_is_null(json_object_get(document, "seeds")));
    json_decref(document);
    aw_study_report_free(report);
}

/* With a path as argument the page stays there, to be looked at. */
static const char *page_kept;

static void a_page_needs_no_other_file_and_nothing_in_it_ends_its_data(void **state)
{
    (void)state;
    char folder[] = "/tmp/aware-experiment-XXXXXX", html[64], json[64];
    assert_non_null(mkdtemp(folder));
    snprintf(html, sizeof html, "%s/page.html", folder);
    snprintf(json, sizeof json, "%s/page.json", folder);
    struct aw__experiment ask = ask_of();
    struct aw_study_report *report = report_full();
    json_t *document = aw__experiment_json(&ask, report);
    assert_ok(aw__experiment_page_write(document, page_kept ? page_kept : html, NULL));
    assert_ok(aw__experiment_json_write(document, json, NULL));
    char *bytes = NULL;
    size_t len = 0;
    assert_ok(aw_file_read(page_kept ? page_kept : html, 1 << 22, NULL, &bytes, &len, NULL));
    assert_has(bytes, "<title>A &lt;/script> &amp; \"title\"</title>");
    assert_null(strstr(bytes, "@@"));
    assert_null(strstr(bytes, " src="));
    const char *data = strstr(bytes, "type=\"application/json\">");
    assert_non_null(data);
    data = strchr(data, '>') + 1;
    json_t *again =
        json_loadb(data, (size_t)(strstr(data, "</script>") - data), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(again);
    assert_string_equal(json_string_value(json_object_get(again, "title")), report->title);
    json_decref(again);
    aw_alloc_free(NULL, bytes);
    again = json_load_file(json, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_equal(again, document));
    json_decref(again);
    json_decref(document);
    aw_study_report_free(report);
    unlink(html);
    unlink(json);
    rmdir(folder);
}

static void a_line_of_progress_fits_and_tells_what_is_left(void **state)
{
    (void)state;
    char line[AW__EXPERIMENT_LINE];
    assert_string_equal(aw__experiment_line("curves", 12, 48, 30, 90, 100, line, sizeof line),
                        " 25 %  curves: 12 of 48, 30 s, 1m 30s left");
    assert_string_equal(aw__experiment_line("curves", 0, 48, 0, NAN, 100, line, sizeof line),
                        "  0 %  curves: 0 of 48, 0.0 s");
    assert_string_equal(aw__experiment_line("curves", 48, 48, 30, 0, 100, line, sizeof line),
                        "100 %  curves: 48 of 48, 30 s");
    assert_string_equal(aw__experiment_line("nothing", 0, 0, 0, NAN, 100, line, sizeof line),
                        "  0 %  nothing: 0 of 0, 0.0 s");
    for (unsigned columns = 0; columns < 60; columns++) {
        aw__experiment_line("\xc3\xa9\xc3\xa9", 12, 48, 30, 90, columns, line, sizeof line);
        const size_t len = strlen(line);
        assert_true(columns ? len < columns : len == 0);
        assert_int_equal(aw_text_utf8_bad(line, len), len);
    }
}

AW_TEST_GROUP("cli-experiment")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_have_units_that_people_read),
        cmocka_unit_test(an_interval_says_its_unit_once),
        cmocka_unit_test(text_has_everything_beside_the_paper),
        cmocka_unit_test(long_names_are_wrapped_inside_their_column),
        cmocka_unit_test(markdown_is_a_part_of_a_page_of_results),
        cmocka_unit_test(a_long_table_is_cut_and_says_so),
        cmocka_unit_test(json_has_every_point_and_null_for_what_is_not_known),
        cmocka_unit_test(nothing_found_is_still_a_document),
        cmocka_unit_test(a_page_needs_no_other_file_and_nothing_in_it_ends_its_data),
        cmocka_unit_test(a_line_of_progress_fits_and_tells_what_is_left),
    };
    page_kept = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
