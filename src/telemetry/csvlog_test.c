#include "telemetry/csvlog.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

static const char *const columns[] = {"step", "return", "note", NULL};
static char dir[] = "/tmp/aware-csvlog-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/x.csv", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static const char *slurp(void)
{
    static char text[8192];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void spill(const char *text)
{
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
}

static void row(struct aw_csvlog *log, uint64_t step, double value, const char *note)
{
    aw_csvlog_u64(log, step);
    aw_csvlog_real(log, value);
    aw_csvlog_text(log, note);
    assert_ok(aw_csvlog_end_row(log, NULL));
}

static void a_row_is_on_disk_as_soon_as_it_ends(void **state)
{
    (void)state;
    struct aw_csvlog log;
    assert_ok(aw_csvlog_create(&log, path, columns, NULL));
    assert_string_equal(slurp(), "step,return,note\n");
    row(&log, 0, -1.5, "plain");
    assert_string_equal(slurp(), "step,return,note\n0,-1.5,plain\n");
    row(&log, UINT64_MAX, NAN, "");
    assert_string_equal(slurp(), "step,return,note\n0,-1.5,plain\n18446744073709551615,,\n");
    aw_csvlog_close(&log);
    aw_csvlog_close(&log);
}

static void what_needs_quotes_gets_them(void **state)
{
    (void)state;
    static const struct {
        const char *value, *cell, *why;
    } rows[] = {
        {"a b", "a b", "a space does not"},
        {"a,b", "\"a,b\"", "a comma does"},
        {"a\"b", "\"a\"\"b\"", "a quote does, and is doubled"},
        {"a\nb", "\"a\nb\"", "a newline does"},
        {"\r", "\"\r\"", "a carriage return does"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_csvlog log;
        char expected[128];
        assert_ok(aw_csvlog_create(&log, path, columns, NULL));
        row(&log, 7, 1, rows[i].value);
        aw_csvlog_close(&log);
        snprintf(expected, sizeof expected, "step,return,note\n7,1,%s\n", rows[i].cell);
        if (strcmp(slurp(), expected) != 0)
            fail_msg("%s: %s", rows[i].why, slurp());
    }
}

static void resume_keeps_exactly_the_whole_rows_up_to_the_step(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after, *last, *why;
    } rows[] = {
        {"step,return,note\n1,1,a\n5,2,b\n6,3,c\n", "step,return,note\n1,1,a\n5,2,b\n", "5,2,b",
         "later steps go"},
        {"step,return,note\n1,1,a\n5,2,b", "step,return,note\n1,1,a\n", "1,1,a",
         "a row without its newline goes"},
        {"step,return,note\n1,1,a\n,2,b\n2,3,c\n", "step,return,note\n1,1,a\n", "1,1,a",
         "a row without a step goes, and all after it"},
        {"step,return,note\n1,1,\"a\n9,9\"\n9,1,b\n", "step,return,note\n1,1,\"a\n9,9\"\n",
         "1,1,\"a\n9,9\"", "a newline inside quotes does not end a row"},
        {"step,return,note\n", "step,return,note\n", "", "no rows yet"},
        {"", "step,return,note\n", "", "an empty file is begun"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_csvlog log;
        char last[64];
        spill(rows[i].before);
        assert_ok(aw_csvlog_resume(&log, path, columns, 5, last, sizeof last, NULL));
        if (strcmp(slurp(), rows[i].after) != 0 || strcmp(last, rows[i].last) != 0)
            fail_msg("%s: kept '%s', last '%s'", rows[i].why, slurp(), last);
        row(&log, 9, 1, "z");
        aw_csvlog_close(&log);
        const char *text = slurp();
        assert_string_equal(text + strlen(text) - 6, "9,1,z\n");
    }
}

static void other_columns_are_refused_and_the_file_left_alone(void **state)
{
    (void)state;
    struct aw_csvlog log;
    struct aw_diag diag;
    char last[8];
    spill("time,return\n1,2\n");
    assert_int_equal(aw_csvlog_resume(&log, path, columns, 5, last, sizeof last, &diag),
                     AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "step,return,note"));
    assert_string_equal(slurp(), "time,return\n1,2\n");
    aw_csvlog_close(&log);
}

static void a_row_beyond_the_limit_is_refused_and_the_next_is_fine(void **state)
{
    (void)state;
    static char longest[AW_CSVLOG_ROW_MAX + 1];
    struct aw_csvlog log;
    memset(longest, 'x', sizeof longest - 1);
    assert_ok(aw_csvlog_create(&log, path, columns, NULL));
    aw_csvlog_u64(&log, 1);
    aw_csvlog_real(&log, 1);
    aw_csvlog_text(&log, longest);
    assert_int_equal(aw_csvlog_end_row(&log, NULL), AW_ERR_LIMIT);
    row(&log, 2, 1, "fits");
    assert_string_equal(slurp(), "step,return,note\n2,1,fits\n");
    aw_csvlog_close(&log);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct aw_csvlog log;
    struct aw_diag diag;
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(aw_csvlog_create(&log, "/dev/full", columns, &diag), AW_ERR_IO);
    assert_non_null(strstr(diag.text, "No space"));
    aw_csvlog_close(&log);
}

AW_TEST_GROUP("csvlog")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_on_disk_as_soon_as_it_ends),
        cmocka_unit_test(what_needs_quotes_gets_them),
        cmocka_unit_test(resume_keeps_exactly_the_whole_rows_up_to_the_step),
        cmocka_unit_test(other_columns_are_refused_and_the_file_left_alone),
        cmocka_unit_test(a_row_beyond_the_limit_is_refused_and_the_next_is_fine),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests_name("csvlog", tests, setup, teardown);
}
