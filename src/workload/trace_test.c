#include "workload/trace.h"

#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct aw_trace_settings defaults(void)
{
    struct aw_trace_settings s;
    aw_conf_defaults(aw_trace_fields, &s);
    return s;
}

/* As aw_trace_read, from text. */
static enum aw_err read_text(const char *text, const struct aw_trace_settings *s,
                             const struct aw_alloc *alloc, struct aw_load *load,
                             struct aw_trace_report *report, struct aw_diag *diag)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    enum aw_err err = aw_trace_read_stream(stream, "t.csv", s, alloc, load, report, diag);
    fclose(stream);
    return err;
}

static void expect_rates(const struct aw_load *load, double slot_s, const double *per_slot,
                         uint32_t count)
{
    assert_int_equal(load->slot_count, count);
    assert_int_equal(load->slot_us, llround(slot_s * 1e6));
    for (uint32_t i = 0; i < count; i++)
        assert_close((double)load->rate_per_s[i], per_slot[i], 1e-6);
}

static const char minutes_text[] = "HashOwner,HashApp,HashFunction,Trigger,480,481,482\n"
                                   "o,a,f1,timer,0,60,120\n"
                                   "o,a,f2,http,6,0,0\r\n"
                                   "o,a,g3,http,600,0,6\n";

static void a_function_of_the_2019_trace_is_chosen_by_row_hash_or_rank(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        double rates[3];
        const char *name;
    } cases[] = {
        {"row", "1", {0, 1, 2}, "f1"},     {"func", "f2", {0.1, 0, 0}, "f2"},
        {"func", "g", {10, 0, 0.1}, "g3"}, {"top", "1", {10, 0, 0.1}, "g3"},
        {"top", "2", {0, 1, 2}, "f1"},     {"row", "0", {10.1, 1, 2.1}, "all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_trace_settings s = defaults();
        struct aw_trace_report report;
        struct aw_load load = {0};
        assert_ok(aw_conf_set(aw_trace_fields, &s, cases[i].key, cases[i].value, NULL));
        assert_ok(read_text(minutes_text, &s, NULL, &load, &report, NULL));
        expect_rates(&load, 60, cases[i].rates, 3);
        assert_string_equal(load.name, cases[i].name);
        assert_int_equal(report.format, AW_TRACE_AZURE_2019);
        assert_int_equal(report.row_count, 3);
        assert_int_equal(report.bad_count, 0);
        aw_load_deinit(&load);
    }
}

static void the_2019_header_may_have_any_order_and_names_and_leave_minutes_out(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "minute_4,HashFunction,minute_1,minute_2,HashOwner\n"
                               "\"240\", f ,60,120,o\n";
    const double rates[] = {1, 2, 2, 4}; /* minute 3 has none: the one before holds */
    struct aw_trace_settings s = defaults();
    struct aw_load load = {0};
    assert_ok(read_text(text, &s, NULL, &load, NULL, NULL));
    expect_rates(&load, 60, rates, 4);
    aw_load_deinit(&load);
}

static void a_malformed_row_is_reported_and_the_rest_is_read(void **state)
{
    (void)state;
    static const char text[] = "HashFunction,1,2\n"
                               "f1,60,60\n"
                               "f2,60\n"
                               "f3,60,x7\n"
                               "# a comment\n"
                               "\n"
                               "f4,60,60,60\n"
                               "f5,,60\n"
                               ",1,1\n"
                               "f7,-1,60\n"
                               "f8,nan,60\n"
                               "f9,120,120";
    static const struct {
        uint32_t line, column;
        const char *says;
    } findings[] = {
        {3, 4, "expected 3 columns, found 2"},
        {4, 7, "expected a count of requests, found \"x7\""},
        {7, 10, "expected 3 columns, found 4"},
        {8, 4, "found \"\""},
        {9, 1, "hash of a function"},
        {10, 4, "found \"-1\""},
        {11, 4, "found \"nan\""},
    };
    const double rates[] = {3, 3};
    struct aw_trace_settings s = defaults();
    struct aw_trace_report report;
    struct aw_load load = {0};
    struct aw_diag diag = {0};
    assert_ok(read_text(text, &s, NULL, &load, &report, NULL));
    expect_rates(&load, 60, rates, 2);
    aw_load_deinit(&load);
    assert_int_equal(report.row_count, 9);
    assert_int_equal(report.bad_count, 7);
    assert_int_equal(report.finding_count, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(report.finding[i].line, findings[i].line);
        assert_int_equal(report.finding[i].column, findings[i].column);
        assert_non_null(strstr(report.finding[i].text, findings[i].says));
    }
    /* more than half: no longer a warning */
    assert_int_equal(aw_trace_judge(&report, "t.csv", &diag), AW_ERR_FORMAT);
    assert_int_equal(diag.line, 3);
    report.bad_count = 4;
    assert_ok(aw_trace_judge(&report, "t.csv", &diag));
}

static void findings_are_kept_up_to_a_limit_and_all_are_counted(void **state)
{
    (void)state;
    char text[8192] = "1\n";
    for (int i = 0; i < 100; i++)
        strncat(text, i % 2 ? "2\n" : "two\n", sizeof text - strlen(text) - 1);
    struct aw_trace_settings s = defaults();
    struct aw_trace_report report;
    struct aw_load load = {0};
    assert_ok(read_text(text, &s, NULL, &load, &report, NULL));
    assert_int_equal(report.bad_count, 50);
    assert_int_equal(report.finding_count, AW_TRACE_FINDINGS_MAX);
    assert_int_equal(load.slot_count, 101);
    aw_load_deinit(&load);
}

static const char invocations_text[] = "app,func,end_timestamp,duration\n"
                                       "a,f1,10,4\n"
                                       "a,f2,130.5,0.5\n"
                                       "a,f1,70,7.5\n"
                                       "a,f1,6.5,0.5\n"
                                       "a,f2,200,194\n";

static void invocations_of_2021_are_counted_where_they_begin(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        double rates[3];
    } cases[] = {
        {"func", "f1", {2 / 60.0, 0, 0}}, /* arrivals at 6, 6 and 62.5; slots begin at 6 */
        {"row", "2", {1 / 60.0, 0, 1 / 60.0}},
        {"top", "2", {1 / 60.0, 0, 1 / 60.0}},
        {"row", "0", {3 / 60.0, 0, 1 / 60.0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_trace_settings s = defaults();
        struct aw_trace_report report;
        struct aw_load load = {0};
        double rates[3];
        memcpy(rates, cases[i].rates, sizeof rates);
        if (i == 0 || i == 3)
            rates[0] += 1 / 60.0; /* 62.5 is 56.5 after the first */
        assert_ok(aw_conf_set(aw_trace_fields, &s, cases[i].key, cases[i].value, NULL));
        assert_ok(read_text(invocations_text, &s, NULL, &load, &report, NULL));
        assert_int_equal(report.format, AW_TRACE_AZURE_2021);
        expect_rates(&load, 60, rates, 3);
        aw_load_deinit(&load);
    }
    struct aw_trace_settings s = defaults();
    struct aw_load load = {0};
    s.slot_s = 10;
    assert_ok(read_text(invocations_text, &s, NULL, &load, NULL, NULL));
    assert_int_equal(load.slot_count, 13);
    assert_close((double)load.rate_per_s[0], 0.3, 1e-6);
    assert_close((double)load.rate_per_s[5], 0.1, 1e-6);
    aw_load_deinit(&load);
}

static void a_number_a_line_is_a_rate_a_second_and_a_bad_one_does_not_shift_time(void **state)
{
    (void)state;
    const double rates[] = {10, 20.5, 20.5, 0, 7};
    struct aw_trace_settings s = defaults();
    struct aw_trace_report report;
    struct aw_load load = {0};
    assert_ok(read_text("10\n20.5\noops\n0\n7\n", &s, NULL, &load, &report, NULL));
    expect_rates(&load, 1, rates, 5);
    assert_int_equal(report.format, AW_TRACE_RATES);
    assert_int_equal(report.bad_count, 1);
    assert_int_equal(report.finding[0].line, 3);
    aw_load_deinit(&load);
    s.slot_s = 15;
    assert_ok(read_text("10\n20.5\noops\n0\n7\n", &s, NULL, &load, &report, NULL));
    expect_rates(&load, 15, rates, 5);
    aw_load_deinit(&load);
}

static void timestamps_are_laid_on_a_grid_of_their_usual_distance(void **state)
{
    (void)state;
    static const struct {
        const char *text, *settings, *why;
        double rates[5];
        uint32_t count;
        double slot_s;
    } cases[] = {
        {"timestamp,value\n2014-04-10 00:00:00,300\n2014-04-10 00:05:00,600\n",
         "",
         "as NAB",
         {1, 2},
         2,
         300},
        {"2014-04-10T00:00Z,300\n2014-04-10T00:05:00.000+00:00,600\n",
         "",
         "ISO, no header",
         {1, 2},
         2,
         300},
        {"0,10\n10,20\n20,30\n40,50\n", "", "seconds with a gap", {1, 2, 3, 3, 5}, 5, 10},
        {"20,30\n0,10\n10,20\n", "", "out of order", {1, 2, 3}, 3, 10},
        {"0,10\n10,20\n10,40\n20,30\n", "", "twice the same", {1, 3, 3}, 3, 10},
        {"0,10\n10,20\n", "unit=rate", "rates, not counts", {10, 20}, 2, 10},
        {"time,x,rps\n0,1,10\n10,2,20\n", "unit=rate,column=rps", "by name", {10, 20}, 2, 10},
        {"2016-02-29 23:59:00,60\n2016-03-01 00:00:00,120\n", "", "a leap day", {1, 2}, 2, 60},
        {"2015-12-31 23:59:00,60\n2016-01-01 00:00:00,120\n", "", "a new year", {1, 2}, 2, 60},
        {"0,120\n", "", "a single one", {2}, 1, 60},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_trace_settings s = defaults();
        struct aw_trace_report report;
        struct aw_load load = {0};
        struct aw_diag diag = {0};
        if (strstr(cases[i].settings, "unit=rate"))
            s.unit = AW_TRACE_RATE;
        if (strstr(cases[i].settings, "column=rps"))
            snprintf(s.column, sizeof s.column, "rps");
        if (read_text(cases[i].text, &s, NULL, &load, &report, &diag))
            fail_msg("%s: %s", cases[i].why, diag.text);
        assert_int_equal(report.format, AW_TRACE_TIMESTAMPS);
        assert_int_equal(report.bad_count, 0);
        expect_rates(&load, cases[i].slot_s, cases[i].rates, cases[i].count);
        aw_load_deinit(&load);
    }
}

static void what_is_no_time_is_a_finding(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "2014-13-01 00:00:00", "2014-02-29 00:00:00", "2014-01-01",         "2014-01-01 24:00:00",
        "2014-01-01 00:60",    "yesterday",           "2014-01-01 00:00:0", "1e300",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        struct aw_trace_settings s = defaults();
        struct aw_trace_report report;
        struct aw_load load = {0};
        snprintf(text, sizeof text, "timestamp,value\n2014-01-01 00:00:00,1\n%s,5\n", bad[i]);
        assert_ok(read_text(text, &s, NULL, &load, &report, NULL));
        assert_int_equal(report.bad_count, 1);
        assert_int_equal(load.slot_count, 1);
        aw_load_deinit(&load);
    }
}

static void a_part_of_a_trace_is_taken_compressed_and_rescaled(void **state)
{
    (void)state;
    struct aw_trace_settings s = defaults();
    struct aw_load load = {0};
    const double part[] = {2, 3}, scaled[] = {8, 12};
    s.start_s = 1;
    s.length_s = 2;
    assert_ok(read_text("1\n2\n3\n4\n", &s, NULL, &load, NULL, NULL));
    expect_rates(&load, 1, part, 2);
    aw_load_deinit(&load);
    s.compress = 10;
    s.mean_per_s = 10;
    assert_ok(read_text("1\n2\n3\n4\n", &s, NULL, &load, NULL, NULL));
    expect_rates(&load, 0.1, scaled, 2);
    aw_load_deinit(&load);
    s.mean_per_s = 0;
    s.peak_per_s = 12;
    assert_ok(read_text("1\n2\n3\n4\n", &s, NULL, &load, NULL, NULL));
    expect_rates(&load, 0.1, scaled, 2);
    aw_load_deinit(&load);
}

static void what_cannot_be_read_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key, *value;
        enum aw_err err;
        const char *says;
    } cases[] = {
        {"\n# nothing\n", "row", "0", AW_ERR_NODATA, "empty"},
        {"HashFunction,1,2\n", "row", "0", AW_ERR_NODATA, "empty"},
        {"HashFunction,1,2\nf,x,y\n", "row", "0", AW_ERR_NODATA, "no row could be read"},
        {"HashFunction,1\nf,0\n", "row", "0", AW_ERR_NODATA, "not one request"},
        {"0\n0\n", "row", "0", AW_ERR_NODATA, "not one request"},
        {"app,func,end_timestamp,duration\n", "row", "0", AW_ERR_NODATA, "empty"},
        {"timestamp,value\n", "row", "0", AW_ERR_NODATA, "empty"},
        {"HashFunction,Average\nf,3\n", "row", "0", AW_ERR_FORMAT, "durations"},
        {"HashFunction,1,1\nf,3,4\n", "row", "0", AW_ERR_FORMAT, "two columns"},
        {"hello world\n", "row", "0", AW_ERR_FORMAT, "found \"hello world\""},
        {minutes_text, "row", "9", AW_ERR_NOTFOUND, "no readable function 9"},
        {minutes_text, "top", "9", AW_ERR_NOTFOUND, "3 functions"},
        {minutes_text, "func", "zz", AW_ERR_NOTFOUND, "no function begins"},
        {minutes_text, "func", "f", AW_ERR_CONFIG, "2 functions begin"},
        {invocations_text, "func", "f", AW_ERR_CONFIG, "2 functions begin"},
        {invocations_text, "func", "q", AW_ERR_NOTFOUND, "no function begins"},
        {invocations_text, "row", "3", AW_ERR_NOTFOUND, "no readable function 3"},
        {minutes_text, "slot", "5", AW_ERR_CONFIG, "slot"},
        {minutes_text, "start", "180", AW_ERR_CONFIG, "ends after 180s"},
        {minutes_text, "compress", "1e6", AW_ERR_CONFIG, "1 ms"},
        {"1\n2\n", "row", "1", AW_ERR_CONFIG, "no functions"},
        {"1\n2\n", "column", "x", AW_ERR_CONFIG, "column"},
        {"0,1\n1e12,1\n1000000000001,1\n", "slot", "1", AW_ERR_LIMIT, "slots"},
        {"time,value\n0,1\n", "column", "x", AW_ERR_CONFIG, "a column \"x\""},
        {"app,func,end_timestamp\nx,y,1\n", "row", "0", AW_ERR_FORMAT, "a column duration"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_trace_settings s = defaults();
        struct aw_load load = {0};
        struct aw_diag diag = {0};
        assert_ok(aw_conf_set(aw_trace_fields, &s, cases[i].key, cases[i].value, NULL));
        enum aw_err err = read_text(cases[i].text, &s, NULL, &load, NULL, &diag);
        if (err != cases[i].err || !strstr(diag.text, cases[i].says))
            fail_msg("case %zu (%s): %s: %s", i, cases[i].says, aw_err_name(err), diag.text);
        assert_null(load.rate_per_s);
    }
    struct aw_trace_settings s = defaults();
    struct aw_load load = {0};
    s.row = s.top = 1;
    assert_int_equal(read_text(minutes_text, &s, NULL, &load, NULL, NULL), AW_ERR_CONFIG);
    s = defaults();
    s.mean_per_s = s.peak_per_s = 1;
    assert_int_equal(read_text(minutes_text, &s, NULL, &load, NULL, NULL), AW_ERR_CONFIG);
    assert_int_equal(aw_trace_read("/no/such/file", &s, NULL, &load, NULL, NULL), AW_ERR_NOTFOUND);
    assert_int_equal(aw_trace_read("/", &s, NULL, &load, NULL, NULL), AW_ERR_NOTFOUND);
}

static void bytes_that_are_no_text_are_findings(void **state)
{
    (void)state;
    static const char text[] = "1\n2\0002\n\x1b[31m3\n\xff\n5\n";
    struct aw_trace_settings s = defaults();
    struct aw_trace_report report;
    struct aw_load load = {0};
    FILE *stream = fmemopen((void *)(uintptr_t)text, sizeof text - 1, "r");
    assert_ok(aw_trace_read_stream(stream, "t", &s, NULL, &load, &report, NULL));
    fclose(stream);
    assert_int_equal(report.bad_count, 3);
    assert_string_equal(report.finding[0].text, "expected text, found the byte \\x00");
    assert_int_equal(report.finding[0].column, 2);
    assert_int_equal(load.slot_count, 5);
    aw_load_deinit(&load);
}

static void a_line_too_long_is_a_finding_and_the_next_is_read(void **state)
{
    (void)state;
    size_t len = AW_TRACE_LINE_BYTES_MAX + 100;
    char *text = malloc(len + 16);
    assert_non_null(text);
    memset(text, '1', len);
    memcpy(text, "5\n", 2);
    memcpy(text + len, "\n6\n", 4);
    struct aw_trace_settings s = defaults();
    struct aw_trace_report report;
    struct aw_load load = {0};
    const double rates[] = {5, 5, 6};
    assert_ok(read_text(text, &s, NULL, &load, &report, NULL));
    expect_rates(&load, 1, rates, 3);
    assert_int_equal(report.bad_count, 1);
    assert_non_null(strstr(report.finding[0].text, "at most"));
    aw_load_deinit(&load);
    free(text);
}

static void functions_are_listed_with_their_figures_the_busiest_first(void **state)
{
    (void)state;
    static const char *const texts[] = {minutes_text, invocations_text};
    for (uint32_t t = 0; t < 2; t++) {
        struct aw_trace_settings s = defaults();
        struct aw_trace_list list = {0};
        FILE *stream = fmemopen((void *)(uintptr_t)texts[t], strlen(texts[t]), "r");
        assert_ok(aw_trace_list_stream(stream, "t", &s, NULL, &list, NULL, NULL));
        fclose(stream);
        assert_int_equal(list.count, t == 0 ? 3 : 2);
        assert_close(list.length_s, 180, 1e-12);
        for (uint32_t i = 0; i < list.count; i++) {
            /* the figures of a listed function are those of the load that it yields */
            const struct aw_trace_function *f = &list.function[i];
            struct aw_load load = {0};
            s.row = f->row;
            assert_ok(read_text(texts[t], &s, NULL, &load, NULL, NULL));
            struct aw_load_figures figures = aw_load_figures(&load);
            assert_string_equal(load.name, f->name);
            assert_close(f->mean_per_s, figures.mean_per_s, 1e-6);
            assert_close(f->peak_per_s, figures.peak_per_s, 1e-6);
            assert_close(f->burstiness, figures.burstiness, 1e-5);
            assert_close(f->total, figures.mean_per_s * 180, 1e-5);
            assert_close(f->per_day, figures.mean_per_s * 86400, 1e-5);
            assert_true(i == 0 || f->total <= list.function[i - 1].total);
            aw_load_deinit(&load);
        }
        aw_trace_list_deinit(&list);
    }
}

static void many_functions_and_invocations_are_read_in_linear_time(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    fputs("app,func,end_timestamp,duration\n", out);
    for (uint32_t i = 0; i < 60000; i++)
        fprintf(out, "a,function-%u,%u,0\n", i % 20000, i / 10);
    fclose(out);
    struct aw_trace_settings s = defaults();
    struct aw_trace_list list = {0};
    FILE *stream = fmemopen(text, len, "r");
    assert_ok(aw_trace_list_stream(stream, "t", &s, NULL, &list, NULL, NULL));
    fclose(stream);
    assert_int_equal(list.count, 20000);
    for (uint32_t i = 0; i < list.count; i++)
        assert_close(list.function[i].total, 3, 0);
    aw_trace_list_deinit(&list);
    free(text);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const texts[] = {minutes_text, invocations_text, "1\n2\n", "0,1\n5,2\n"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        enum aw_err err = AW_ERR_NOMEM;
        for (uint64_t n = 0; err; n++) {
            struct aw_alloc_counting counting;
            struct aw_trace_settings s = defaults();
            struct aw_load load = {0};
            s.top = t < 2;
            aw_alloc_counting_init(&counting);
            counting.fail_after = n;
            err = read_text(texts[t], &s, &counting.alloc, &load, NULL, NULL);
            assert_true(err == AW_OK || err == AW_ERR_NOMEM);
            aw_load_deinit(&load);
            assert_int_equal(counting.alloc_count, counting.free_count);
            assert_true(n < 100);
        }
    }
}

/* ---- loads as one word ---- */

static void a_load_is_read_from_a_word(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double mean, length_s, slot_s;
    } cases[] = {
        {"constant", 20, 21600, 5},
        {"diurnal:mean=50/s,peak=4,period=1h", 50, 21600, 5},
        {"diurnal:mean=1k/m,period=1d", 1000 / 60.0, 86400, 5},
        {"bursts:mean=5,length=90m,slot=500ms,duration=1m30s", 5, 5400, 0.5},
        {"ramp:period=600,length=600,slot=1", 20, 600, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_load load = {0};
        struct aw_diag diag = {0};
        if (aw_load_parse(cases[i].text, 1, NULL, &load, &diag))
            fail_msg("%s: %s", cases[i].text, diag.text);
        assert_close(aw_load_figures(&load).mean_per_s, cases[i].mean, 1e-5);
        assert_close((double)load.slot_us * 1e-6 * load.slot_count, cases[i].length_s, 1e-9);
        assert_close((double)load.slot_us * 1e-6, cases[i].slot_s, 1e-9);
        aw_load_deinit(&load);
    }
}

static void a_wrong_word_is_refused_with_what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        const char *says;
    } cases[] = {
        {"", AW_ERR_CONFIG, "found nothing"},
        {"diurnl", AW_ERR_NOTFOUND, "did you mean \"diurnal\""},
        {"diurnl:mean=3", AW_ERR_NOTFOUND, "did you mean \"diurnal\""},
        {"/no/file.csv:row=3", AW_ERR_NOTFOUND, "neither a file nor"},
        {"diurnal:men=3", AW_ERR_CONFIG, "did you mean \"mean\""},
        {"diurnal:mean", AW_ERR_CONFIG, "key=value"},
        {"diurnal:mean=3,", AW_ERR_CONFIG, "after the last comma"},
        {"diurnal:mean=abc", AW_ERR_CONFIG, "abc"},
        {"diurnal:period=abc", AW_ERR_CONFIG, "abc"},
        {"diurnal:peak=0.5", AW_ERR_CONFIG, "1 to 1000"},
        {"spikes:duration=1h,period=1h,peak=5", AW_ERR_CONFIG, "cannot reach"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_load load = {0};
        struct aw_diag diag = {0};
        enum aw_err err = aw_load_parse(cases[i].text, 1, NULL, &load, &diag);
        char line[1024];
        aw_diag_format(&diag, err, line, sizeof line);
        if (err != cases[i].err || !strstr(line, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].text, aw_err_name(err), line);
        assert_null(load.rate_per_s);
    }
}

static void a_file_with_settings_is_a_load_and_its_bad_rows_are_never_silent(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-trace-XXXXXX", text[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char content[] = "10\n20\nx\n30\n";
    assert_int_equal(write(fd, content, sizeof content - 1), sizeof content - 1);
    close(fd);
    struct aw_load load = {0};
    struct aw_trace_report report;
    struct aw_diag diag = {0};
    snprintf(text, sizeof text, "%s:peak=60/s,slot=1m,compress=2", path);
    assert_ok(aw_load_parse_report(text, 1, NULL, &load, &report, &diag));
    const double rates[] = {20, 40, 40, 60};
    expect_rates(&load, 30, rates, 4);
    assert_int_equal(report.bad_count, 1);
    aw_load_deinit(&load);
    assert_int_equal(aw_load_parse(text, 1, NULL, &load, &diag), AW_ERR_FORMAT);
    assert_int_equal(diag.line, 3);
    assert_null(load.rate_per_s);
    unlink(path);
}

/* ---- the files as published ---- */

static void published_files_are_read_whole(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t format;
        uint64_t rows;
        double busiest; /* requests of its busiest function, counted with another tool */
        uint32_t busy;  /* functions above 1e5 a day */
    } files[] = {
        {"azure_functions_2019_sample/100/invocations.csv", AW_TRACE_AZURE_2019, 100, 273379, 1},
        {"azure_functions_2019_sample/500/invocations.csv", AW_TRACE_AZURE_2019, 500, 1915521, 9},
        {"azure_functions_2019_fullday/f1250_inv.csv", AW_TRACE_AZURE_2019, 1250, 1493122, 27},
        {"azure_functions_2021_sample/Azure2021_30.csv", AW_TRACE_AZURE_2021, 0, 0, 0},
        {"azure_functions_2021_sample/Azure2021_200.csv", AW_TRACE_AZURE_2021, 0, 0, 0},
        {"autothrottle_traces/diurnal.txt", AW_TRACE_RATES, 3600, 0, 0},
        {"autothrottle_traces/noisy.txt", AW_TRACE_RATES, 0, 0, 0},
        {"nab/realAWSCloudwatch/elb_request_count_8c0756.csv", AW_TRACE_TIMESTAMPS, 4032, 0, 0},
    };
    const char *root = getenv("AWARE_DATA_DIR");
    if (!root || !*root) {
        print_message("skipped: AWARE_DATA_DIR does not name a folder with the published files\n");
        skip();
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[1024];
        struct aw_trace_settings s = defaults();
        struct aw_trace_report report;
        struct aw_trace_list list = {0};
        struct aw_diag diag = {0};
        snprintf(path, sizeof path, "%s/%s", root, files[i].path);
        if (aw_trace_list(path, &s, NULL, &list, &report, &diag))
            fail_msg("%s: %s", path, diag.text);
        assert_int_equal(report.format, files[i].format);
        assert_int_equal(report.bad_count, 0);
        if (files[i].rows)
            assert_int_equal(report.row_count, files[i].rows);
        if (files[i].busiest > 0) {
            uint32_t busy = 0;
            for (uint32_t k = 0; k < list.count; k++)
                busy += list.function[k].per_day > AW_TRACE_BUSY_PER_DAY;
            assert_close(list.function[0].total, files[i].busiest, 0);
            assert_int_equal(busy, files[i].busy);
        }
        aw_trace_list_deinit(&list);
        struct aw_load load = {0};
        assert_ok(aw_trace_read(path, &s, NULL, &load, &report, &diag));
        assert_true(aw_load_figures(&load).mean_per_s > 0);
        aw_load_deinit(&load);
    }
}

static void a_pack_has_what_reading_each_function_by_its_rank_gives(void **state)
{
    (void)state;
    static const char minutes_more[] = "HashFunction,480,481,482\n"
                                       "f1,0,60,120\nf2,6,0,0\nbad,x,0,0\nnone,0,0,0\ng3,600,0,6\n";
    static const char invocations[] = "app,func,end_timestamp,duration\n"
                                      "a,f,61,1\na,g,62,1\na,g,121,0\na,h,200,5\na,g,181,0\n";
    static const struct {
        const char *why, *text;
        uint32_t max, count;
    } cases[] = {
        {"a row per function", minutes_text, 10, 3},
        {"no more than asked for", minutes_text, 2, 2},
        {"bad rows and those without requests", minutes_more, 10, 3},
        {"a row per invocation", invocations, 10, 3},
        {"nothing to choose from", "1\n2\n3\n", 10, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_trace_settings s = defaults();
        struct aw_trace_pack pack = {0};
        struct aw_alloc_counting counting;
        enum aw_err err = AW_ERR_NOMEM;
        aw_alloc_counting_init(&counting);
        for (uint64_t n = 0; err == AW_ERR_NOMEM; n++) {
            FILE *stream = fmemopen((void *)(uintptr_t)cases[i].text, strlen(cases[i].text), "r");
            assert_non_null(stream);
            counting.fail_after = counting.alloc_count + n;
            err = aw_trace_pack_stream(stream, "t.csv", &s, cases[i].max, &counting.alloc, &pack,
                                       NULL, NULL);
            fclose(stream);
            if (err)
                assert_int_equal(counting.alloc_count, counting.free_count);
        }
        assert_ok(err);
        assert_int_equal(pack.count, cases[i].count);
        for (uint32_t k = 0; k < pack.count; k++) {
            struct aw_load load = {0};
            s.top = pack.count > 1 ? k + 1 : 0;
            assert_ok(read_text(cases[i].text, &s, NULL, &load, NULL, NULL));
            assert_string_equal(load.name, pack.load[k].name);
            assert_int_equal(load.slot_us, pack.load[k].slot_us);
            assert_int_equal(load.slot_count, pack.load[k].slot_count);
            assert_memory_equal(load.rate_per_s, pack.load[k].rate_per_s,
                                load.slot_count * sizeof *load.rate_per_s);
            aw_load_deinit(&load);
        }
        aw_trace_pack_deinit(&pack);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

AW_TEST_GROUP("trace")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_of_the_2019_trace_is_chosen_by_row_hash_or_rank),
        cmocka_unit_test(the_2019_header_may_have_any_order_and_names_and_leave_minutes_out),
        cmocka_unit_test(a_malformed_row_is_reported_and_the_rest_is_read),
        cmocka_unit_test(findings_are_kept_up_to_a_limit_and_all_are_counted),
        cmocka_unit_test(invocations_of_2021_are_counted_where_they_begin),
        cmocka_unit_test(a_number_a_line_is_a_rate_a_second_and_a_bad_one_does_not_shift_time),
        cmocka_unit_test(timestamps_are_laid_on_a_grid_of_their_usual_distance),
        cmocka_unit_test(what_is_no_time_is_a_finding),
        cmocka_unit_test(a_part_of_a_trace_is_taken_compressed_and_rescaled),
        cmocka_unit_test(what_cannot_be_read_is_refused_with_a_reason),
        cmocka_unit_test(bytes_that_are_no_text_are_findings),
        cmocka_unit_test(a_line_too_long_is_a_finding_and_the_next_is_read),
        cmocka_unit_test(functions_are_listed_with_their_figures_the_busiest_first),
        cmocka_unit_test(many_functions_and_invocations_are_read_in_linear_time),
        cmocka_unit_test(a_pack_has_what_reading_each_function_by_its_rank_gives),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_load_is_read_from_a_word),
        cmocka_unit_test(a_wrong_word_is_refused_with_what_was_meant),
        cmocka_unit_test(a_file_with_settings_is_a_load_and_its_bad_rows_are_never_silent),
        cmocka_unit_test(published_files_are_read_whole),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
