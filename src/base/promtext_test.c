/* promtext_test.c - one histogram of a page: read, refused, increased, asked for quantiles. */
#include "base/promtext.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"

#define H "took_seconds"

static enum aw_err read_text(const char *text, struct aw_promtext_histogram *ret)
{
    /* of its own length: a step beyond it is seen */
    const size_t len = strlen(text);
    char *bytes = malloc(len + 1);
    assert_non_null(bytes);
    memcpy(bytes, text, len);
    char *exact = realloc(bytes, len > 0 ? len : 1);
    assert_non_null(exact);
    struct aw_diag diag = {0};
    const enum aw_err err = aw_promtext_read(exact, len, H, ret, &diag);
    assert_int_equal(err != AW_OK, diag.text[0] != '\0');
    free(exact);
    return err;
}

static void a_histogram_is_found_among_other_metrics(void **state)
{
    (void)state;
    static const char page[] = "# HELP took_seconds From here to there.\n"
                               "# TYPE took_seconds histogram\n"
                               "\n"
                               "ready 1\n"
                               "took_seconds_bucket{le=\"0.1\"} 3\n"
                               "took_seconds_bucket{le=\"2.5\"} 5 1395066363000\n"
                               "took_seconds_bucket{le=\"+Inf\"} 7 # {trace=\"x\"} 0.67\n"
                               "took_seconds_sum 9.5\n"
                               "took_seconds_count 7\n"
                               "took_seconds_bucket_total 99 and no number\n"
                               "utter nonsense { here\n";
    struct aw_promtext_histogram h;
    assert_ok(read_text(page, &h));
    assert_int_equal(h.buckets, 3);
    assert_true(h.bound[0] == 0.1 && h.bound[1] == 2.5 && isinf(h.bound[2]));
    assert_true(h.count[0] == 3 && h.count[1] == 5 && h.count[2] == 7);
}

static void series_are_added_up_bound_by_bound(void **state)
{
    (void)state;
    struct aw_promtext_histogram h;
    assert_ok(read_text(H "_bucket{le=\"+Inf\",path=\"a \\\"b\\\" }\"} 4\n" /* any order */
                        H "_bucket{path=\"a\",le=\"1e-1\",} 1\n" H
                          "_bucket { le = \"0.1\" } 2e0\n" H "_bucket\t{le=\"+Inf\"}\t2\n",
                        &h));
    assert_int_equal(h.buckets, 2);
    assert_true(h.bound[0] == 0.1 && h.count[0] == 3 && h.count[1] == 6);
}

static void what_is_no_histogram_is_refused_whole(void **state)
{
    (void)state;
#define INF H "_bucket{le=\"+Inf\"} 5\n"
    static const struct {
        const char *text;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {"", AW_ERR_NODATA, "nothing at all"},
        {"took 1\n", AW_ERR_NODATA, "other metrics"},
        {H "_sum 1\n" H "_count 1\n", AW_ERR_NODATA, "a summary has no buckets"},
        {H "_bucket{le=\"1\"} 5\n", AW_ERR_FORMAT, "no +Inf"},
        {H "_bucket{le=\"1\"} 6\n" INF, AW_ERR_FORMAT, "counts fall"},
        {H "_bucket{le=\"1\"} 1\n" H "_bucket{le=\"1.0\"} 1\n" INF, AW_ERR_FORMAT, "twice"},
        {H "_bucket{le=\"1\",a=\"b\"} 1\n" INF INF, AW_ERR_FORMAT, "one series lacks a bound"},
        {H "_bucket{le=\"+Inf\"} 5", AW_ERR_FORMAT, "cut in its last line"},
        {H "_bucket 5\n", AW_ERR_FORMAT, "no labels"},
        {H "_bucket{} 5\n", AW_ERR_FORMAT, "no bound"},
        {H "_bucket{a=\"b\"} 5\n", AW_ERR_FORMAT, "no bound among its labels"},
        {H "_bucket{le=\"1\",le=\"2\"} 5\n", AW_ERR_FORMAT, "two bounds"},
        {H "_bucket{le=\"one\"} 5\n", AW_ERR_FORMAT, "a bound that is no number"},
        {H "_bucket{le=\"NaN\"} 5\n", AW_ERR_FORMAT, "nor is this"},
        {H "_bucket{le=\"\"} 5\n", AW_ERR_FORMAT, "nor this"},
        {H "_bucket{le=\"1} 5\n", AW_ERR_FORMAT, "a quote that never ends"},
        {H "_bucket{le=\"1\\\"} 5\n", AW_ERR_FORMAT, "nor here"},
        {H "_bucket{le=1} 5\n", AW_ERR_FORMAT, "no quotes"},
        {H "_bucket{le=\"1\" 5\n", AW_ERR_FORMAT, "no end of the labels"},
        {H "_bucket{le=\"1\";a=\"b\"} 5\n", AW_ERR_FORMAT, "no comma"},
        {H "_bucket{=\"1\"} 5\n", AW_ERR_FORMAT, "a label without a name"},
        {H "_bucket{le=\"1\"}\n", AW_ERR_FORMAT, "no count"},
        {H "_bucket{le=\"1\"} -1\n", AW_ERR_FORMAT, "less than nothing"},
        {H "_bucket{le=\"1\"} NaN\n", AW_ERR_FORMAT, "no number"},
        {H "_bucket{le=\"1\"} +Inf\n", AW_ERR_FORMAT, "without end"},
        {H "_bucket{le=\"1\"} 0x5\n", AW_ERR_FORMAT, "hexadecimal"},
        {H "_bucket{le=\"1\"} 5 now\n", AW_ERR_FORMAT, "a time that is none"},
        {H "_bucket{le=\"1\"} 5 6 7\n", AW_ERR_FORMAT, "two times"},
        {H "_bucket{le=\"1\"} 1e308\n" H "_bucket{le=\"1\"} 1e308\n" INF INF, AW_ERR_FORMAT,
         "more than there are numbers for"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_promtext_histogram h = {.buckets = 77};
        const enum aw_err err = read_text(cases[i].text, &h);
        if (err != cases[i].err || h.buckets != 77)
            fail_msg("%s: found %d", cases[i].why, err);
    }
#undef INF
}

static void bounds_have_a_maximum_and_pages_may_be_large(void **state)
{
    (void)state;
    enum { LINES = 20000, LINE_MAX = 64 };
    char *page = malloc((size_t)LINES * LINE_MAX);
    size_t len = 0;
    struct aw_promtext_histogram h;
    assert_non_null(page);
    for (uint32_t b = 0; b <= AW_PROMTEXT_BUCKETS_MAX; b++) {
        len += (size_t)snprintf(page + len, LINE_MAX, H "_bucket{le=\"%u\"} %u\n", b, b);
        const enum aw_err err = aw_promtext_read(page, len, H, &h, NULL);
        assert_int_equal(err, b < AW_PROMTEXT_BUCKETS_MAX ? AW_ERR_FORMAT : AW_ERR_LIMIT);
    }
    len = 0;
    for (uint32_t i = 0; i < LINES; i++)
        len += (size_t)snprintf(page + len, LINE_MAX, H "_bucket{le=\"%s\",path=\"/%u\"} 1\n",
                                i % 2 ? "+Inf" : "0.5", i / 2);
    assert_ok(aw_promtext_read(page, len, H, &h, NULL));
    assert_true(h.buckets == 2 && h.count[0] == LINES / 2 && h.count[1] == LINES / 2);
    free(page);
}

static void names_are_those_of_metrics(void **state)
{
    (void)state;
    char longest[AW_PROMTEXT_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest);
    longest[AW_PROMTEXT_NAME_MAX - 1] = '\0';
    assert_true(aw_promtext_name_valid(H) && aw_promtext_name_valid("a:b_C9"));
    assert_true(aw_promtext_name_valid(longest));
    longest[AW_PROMTEXT_NAME_MAX - 1] = 'a';
    longest[AW_PROMTEXT_NAME_MAX] = '\0';
    assert_false(aw_promtext_name_valid(longest));
    assert_false(aw_promtext_name_valid("") || aw_promtext_name_valid("9a") ||
                 aw_promtext_name_valid("a b") || aw_promtext_name_valid("a-b"));
}

static struct aw_promtext_histogram counts(double a, double b, double c)
{
    return (struct aw_promtext_histogram){
        .buckets = 3, .bound = {0.1, 1, (double)INFINITY}, .count = {a, b, c}};
}

static void increases_survive_a_restart(void **state)
{
    (void)state;
    struct aw_promtext_histogram sum = {0}, before = {0}, now = counts(1, 2, 3);
    assert_true(aw_promtext_add(&sum, &before, &now)); /* all of it: nothing came before */
    before = now;
    now = counts(1, 4, 6);
    assert_true(aw_promtext_add(&sum, &before, &now));
    assert_true(sum.count[0] == 1 && sum.count[1] == 4 && sum.count[2] == 6);
    before = now;
    now = counts(2, 2, 2); /* a counter has fallen: what it says now happened since */
    assert_true(aw_promtext_add(&sum, &before, &now));
    assert_true(sum.count[0] == 3 && sum.count[1] == 6 && sum.count[2] == 8);
    before = counts(0, 5, 5);
    now = counts(2, 6, 7); /* 2, 1, 2: never less up to a higher bound */
    assert_true(aw_promtext_add(&sum, &before, &now));
    assert_true(sum.count[0] == 5 && sum.count[1] == 8 && sum.count[2] == 10);
    before = now;
    now.bound[0] = 0.2;
    assert_false(aw_promtext_add(&sum, &before, &now)); /* of another kind */
    assert_true(sum.count[2] == 10);
}

static void quantiles_are_those_of_histogram_quantile(void **state)
{
    static const double bounds[] = {0.1, 0.5, 1, INFINITY};
    static const struct {
        double counts[4], quantile, value;
    } cases[] = {
        {{10, 10, 10, 10}, 0.5, 0.05},    {{0, 10, 10, 10}, 0.5, 0.3}, {{0, 0, 0, 10}, 0.5, 1},
        {{5, 5, 10, 10}, 0.9, 0.9},       {{10, 20, 20, 20}, 1, 0.5},  {{10, 20, 20, 20}, 0, 0},
        {{0, 0, 0, 0}, 0.5, (double)NAN},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double found = aw_promtext_quantile(bounds, cases[i].counts, 4, cases[i].quantile);
        if (isnan(cases[i].value))
            assert_true(isnan(found));
        else
            assert_close(found, cases[i].value, 1e-12);
    }
    assert_true(isnan(aw_promtext_quantile(bounds, cases[0].counts, 3, 0.5))); /* no end */
    assert_true(isnan(aw_promtext_quantile(bounds, cases[0].counts, 0, 0.5)));
}

AW_TEST_GROUP("promtext")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_histogram_is_found_among_other_metrics),
        cmocka_unit_test(series_are_added_up_bound_by_bound),
        cmocka_unit_test(what_is_no_histogram_is_refused_whole),
        cmocka_unit_test(bounds_have_a_maximum_and_pages_may_be_large),
        cmocka_unit_test(names_are_those_of_metrics),
        cmocka_unit_test(increases_survive_a_restart),
        cmocka_unit_test(quantiles_are_those_of_histogram_quantile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
