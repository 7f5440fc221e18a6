/* metrics_test.c - both formats against text written by hand, escaping against a reader, buckets
 * against a naive count, and a crowd that stays small. */
#include "telemetry/metrics.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t text_len;

static void begin(struct aw_metrics *m, bool openmetrics)
{
    free(text);
    text = NULL;
    FILE *out = open_memstream(&text, &text_len);
    assert_non_null(out);
    aw_metrics_init(m, out, openmetrics);
}

static const char *finish(struct aw_metrics *m)
{
    assert_ok(aw_metrics_end(m));
    assert_int_equal(fclose(m->out), 0);
    return text;
}

static void write_all(struct aw_metrics *m)
{
    static const double bounds[] = {0.5, 1, 2.5};
    struct aw_metric_histogram h = {.bounds = bounds, .bound_count = 3};
    const struct aw_metric_label who[] = {{"namespace", "shop"}, {"workload", "cart"}};
    aw_metrics_family(m, "aware_cost_dollars", AW_METRIC_COUNTER, "dollars", "What was spent.");
    aw_metrics_sample(m, who, 2, 1.25);
    aw_metrics_family(m, "aware_up", AW_METRIC_GAUGE, NULL, "A \"back\\slash\"\nand a line.");
    aw_metrics_sample(m, NULL, 0, 1);
    aw_metrics_sample(m, NULL, 0, NAN);
    aw_metrics_sample(m, who, 1, -INFINITY);
    aw_metrics_family(m, "aware_build", AW_METRIC_INFO, NULL, "Version.");
    aw_metrics_sample(m, &(struct aw_metric_label){"version", "0.1.0"}, 1, 1);
    aw_metric_observe(&h, 0.5);
    aw_metric_observe(&h, 0.75);
    aw_metric_observe(&h, 9);
    aw_metric_observe(&h, NAN);
    aw_metrics_family(m, "tick_seconds", AW_METRIC_HISTOGRAM, "seconds", "Ticks.");
    aw_metrics_histogram(m, who, 1, &h);
}

static void openmetrics_is_written_as_its_standard_says(void **state)
{
    struct aw_metrics m;
    (void)state;
    begin(&m, true);
    write_all(&m);
    assert_string_equal(finish(&m),
                        "# TYPE aware_cost_dollars counter\n"
                        "# UNIT aware_cost_dollars dollars\n"
                        "# HELP aware_cost_dollars What was spent.\n"
                        "aware_cost_dollars_total{namespace=\"shop\",workload=\"cart\"} 1.25\n"
                        "# TYPE aware_up gauge\n"
                        "# HELP aware_up A \\\"back\\\\slash\\\"\\nand a line.\n"
                        "aware_up 1\n"
                        "aware_up{namespace=\"shop\"} -Inf\n"
                        "# TYPE aware_build info\n"
                        "# HELP aware_build Version.\n"
                        "aware_build_info{version=\"0.1.0\"} 1\n"
                        "# TYPE tick_seconds histogram\n"
                        "# UNIT tick_seconds seconds\n"
                        "# HELP tick_seconds Ticks.\n"
                        "tick_seconds_bucket{namespace=\"shop\",le=\"0.5\"} 1\n"
                        "tick_seconds_bucket{namespace=\"shop\",le=\"1.0\"} 2\n"
                        "tick_seconds_bucket{namespace=\"shop\",le=\"2.5\"} 2\n"
                        "tick_seconds_bucket{namespace=\"shop\",le=\"+Inf\"} 3\n"
                        "tick_seconds_sum{namespace=\"shop\"} 10.25\n"
                        "tick_seconds_count{namespace=\"shop\"} 3\n"
                        "# EOF\n");
}

static void the_older_format_has_its_suffix_in_the_name(void **state)
{
    struct aw_metrics m;
    (void)state;
    begin(&m, false);
    write_all(&m);
    const char *found = finish(&m);
    assert_non_null(strstr(found, "# HELP aware_cost_dollars_total What was spent.\n"
                                  "# TYPE aware_cost_dollars_total counter\n"
                                  "aware_cost_dollars_total{namespace="));
    assert_non_null(strstr(found, "# TYPE aware_build_info gauge\naware_build_info{"));
    assert_non_null(strstr(found, "# HELP aware_up A \"back\\\\slash\"\\nand a line.\n"));
    assert_null(strstr(found, "# EOF"));
    assert_null(strstr(found, "# UNIT"));
}

static void an_accept_header_chooses(void **state)
{
    static const struct {
        const char *accept;
        bool openmetrics;
        const char *why;
    } cases[] = {
        {NULL, false, "curl without headers"},
        {"*/*", false, "curl"},
        {"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", true,
         "Prometheus"},
        {"Application/OpenMetrics-Text", true, "types have no case"},
        {"text/plain", false, "an old one"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (aw_metrics_wants_openmetrics(cases[i].accept) != cases[i].openmetrics)
            fail_msg("%s", cases[i].why);
}

/* --- escaping --------------------------------------------------------------------------------- */

/* Reads what stands between the quotes, as a scraper does. */
static size_t unescape(const char *from, char *to)
{
    size_t len = 0;
    for (; *from != '"'; from++) {
        assert_true(*from != '\0' && *from != '\n');
        if (*from == '\\') {
            from++;
            assert_true(*from == '\\' || *from == 'n' || *from == '"');
            to[len++] = *from;
            if (*from == 'n')
                to[len - 1] = '\n';
        } else {
            to[len++] = *from;
        }
    }
    to[len] = '\0';
    return len;
}

static void any_label_comes_back_as_it_was(void **state)
{
    struct aw_rng rng;
    (void)state;
    aw_rng_init(&rng, 1, 0);
    for (int round = 0; round < 2000; round++) {
        static const char alphabet[] = "ab\\\n\"{}=, \t";
        char value[24], back[64];
        struct aw_metrics m;
        const uint32_t len = aw_rng_below(&rng, sizeof value - 1);
        for (uint32_t i = 0; i < len; i++)
            value[i] = alphabet[aw_rng_below(&rng, sizeof alphabet - 1)];
        value[len] = '\0';
        begin(&m, true);
        aw_metrics_family(&m, "x", AW_METRIC_GAUGE, NULL, "x");
        aw_metrics_sample(&m, &(struct aw_metric_label){"l", value}, 1, 1);
        const char *at = strstr(finish(&m), "x{l=\"");
        assert_non_null(at);
        unescape(at + 5, back);
        assert_string_equal(back, value);
    }
}

static void bytes_that_are_no_text_become_question_marks(void **state)
{
    struct aw_metrics m;
    (void)state;
    begin(&m, true);
    aw_metrics_family(&m, "x", AW_METRIC_GAUGE, NULL, "x");
    aw_metrics_sample(&m, &(struct aw_metric_label){"l", "a\xff\xc3z\xc3\xa9"}, 1, 1);
    assert_non_null(strstr(finish(&m), "{l=\"a??z\xc3\xa9\"}"));
}

/* --- buckets ---------------------------------------------------------------------------------- */

static void buckets_count_what_a_loop_would(void **state)
{
    static const double bounds[] = {0.001, 0.01, 0.1, 1, 10};
    struct aw_metric_histogram h = {.bounds = bounds, .bound_count = 5};
    struct aw_rng rng;
    double seen[500], sum = 0;
    (void)state;
    aw_rng_init(&rng, 2, 0);
    for (int i = 0; i < 500; i++) {
        seen[i] = i % 7 == 0 ? bounds[i % 5] : exp(aw_rng_normal(&rng) * 3 - 2);
        sum += seen[i];
        aw_metric_observe(&h, seen[i]);
    }
    uint64_t total = 0;
    for (uint32_t b = 0; b <= h.bound_count; b++) {
        uint64_t below = 0;
        for (int i = 0; i < 500; i++)
            below += b == h.bound_count || seen[i] <= bounds[b];
        total += h.bucket[b];
        assert_int_equal(total, below);
    }
    assert_close(h.sum, sum, 1e-9);
}

/* --- a crowd ---------------------------------------------------------------------------------- */

static uint32_t lines_of(const char *from)
{
    uint32_t lines = 0;
    for (; *from; from++)
        lines += *from == '\n';
    return lines;
}

static void a_crowd_has_a_maximum_and_the_rest_is_one_series(void **state)
{
    static const struct {
        enum aw_metric_merge merge;
        const char *expected;
    } cases[] = {{AW_METRIC_SUM, "x{workload=\"other\"} 5003.5\n"},
                 {AW_METRIC_MEAN, "x{workload=\"other\"} 1000.7\n"},
                 {AW_METRIC_MAX, "x{workload=\"other\"} 1002.5\n"}};
    const struct aw_metric_label other = {"workload", AW_METRICS_OTHER};
    (void)state;
    for (size_t c = 0; c < 3; c++) {
        struct aw_metric_rest rest = {.merge = cases[c].merge};
        struct aw_metrics m;
        begin(&m, true);
        aw_metrics_family(&m, "x", AW_METRIC_GAUGE, NULL, "x");
        for (uint32_t i = 0; i < AW_METRICS_SERIES_MAX + 6; i++) {
            char name[16];
            /* values 1000, 1001, 1002.5, 1000, 1000, and one that is none */
            const double value = i == AW_METRICS_SERIES_MAX + 5   ? NAN
                                 : i == AW_METRICS_SERIES_MAX + 1 ? 1001
                                 : i == AW_METRICS_SERIES_MAX + 2 ? 1002.5
                                                                  : 1000;
            snprintf(name, sizeof name, "w%u", i);
            aw_metrics_one_of(&m, &rest, i, &(struct aw_metric_label){"workload", name}, 1, value);
        }
        aw_metrics_rest(&m, &rest, &other, 1);
        aw_metrics_rest(&m, &rest, &other, 1); /* empty now: writes nothing */
        const char *found = finish(&m);
        assert_non_null(strstr(found, cases[c].expected));
        assert_int_equal(lines_of(found), 2 + AW_METRICS_SERIES_MAX + 1 + 1);
    }
}

static void a_stream_that_fails_is_told(void **state)
{
    struct aw_metrics m;
    FILE *full = fopen("/dev/full", "w");
    (void)state;
    if (!full)
        skip();
    setvbuf(full, NULL, _IONBF, 0);
    aw_metrics_init(&m, full, true);
    aw_metrics_family(&m, "x", AW_METRIC_GAUGE, NULL, "x");
    assert_int_equal(aw_metrics_end(&m), AW_ERR_IO);
    fclose(full);
}

static int tear_down(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

AW_TEST_GROUP("metrics")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openmetrics_is_written_as_its_standard_says),
        cmocka_unit_test(the_older_format_has_its_suffix_in_the_name),
        cmocka_unit_test(an_accept_header_chooses),
        cmocka_unit_test(any_label_comes_back_as_it_was),
        cmocka_unit_test(bytes_that_are_no_text_become_question_marks),
        cmocka_unit_test(buckets_count_what_a_loop_would),
        cmocka_unit_test(a_crowd_has_a_maximum_and_the_rest_is_one_series),
        cmocka_unit_test(a_stream_that_fails_is_told),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, tear_down);
}
