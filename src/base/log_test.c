#include "base/log.h"
#include "base/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 2026-01-31T12:34:56.789012Z */
#define NOW_US 1769862896789012

struct fixture {
    struct aw_clock_virtual virt;
    struct aw_log log;
    int read_fd;
    char text[4 * AW_LOG_LINE_MAX];
};

static void open_log(struct fixture *f, enum aw_log_format format)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    aw_clock_virtual_init(&f->virt, NOW_US);
    aw_log_init(&f->log, fds[1], AW_LOG_INFO, format, &f->virt.clock);
    f->read_fd = fds[0];
}

static const char *read_log(struct fixture *f)
{
    ssize_t n = read(f->read_fd, f->text, sizeof f->text - 1);
    f->text[n > 0 ? n : 0] = 0;
    return f->text;
}

static void close_log(struct fixture *f)
{
    close(f->log.fd);
    close(f->read_fd);
}

static void a_text_line_reads_as_time_level_message_and_fields(void **state)
{
    (void)state;
    struct fixture f;
    open_log(&f, AW_LOG_TEXT);
    assert_false(f.log.colour); /* a pipe is no terminal */
    aw_log_warn(&f.log, "metric is stale", AW_LOG_STR("workload", "shop"), AW_LOG_INT("age_us", -5),
                AW_LOG_NUM("ratio", 0.1), AW_LOG_BOOL("held", true), AW_LOG_STR("why", "two words"),
                AW_LOG_STR("none", NULL), AW_LOG_NUM("nan", (double)NAN));
    const char *text = read_log(&f);
    assert_non_null(strstr(text, "nan="));
    *strstr(f.text, " nan=") = 0; /* libc may print a sign before nan */
    assert_string_equal(text, "2026-01-31T12:34:56.789Z warn  metric is stale workload=shop "
                              "age_us=-5 ratio=0.1 held=true why=\"two words\" none=null");
    aw_log_info(&f.log, "bare");
    assert_string_equal(read_log(&f), "2026-01-31T12:34:56.789Z info  bare\n");
    f.log.colour = true;
    aw_log_error(&f.log, "red", AW_LOG_INT("n", 1));
    assert_string_equal(read_log(&f), "2026-01-31T12:34:56.789Z \x1b[31merror\x1b[0m red "
                                      "\x1b[2mn=\x1b[0m1\n");
    close_log(&f);
}

static void a_line_for_the_journal_has_its_priority_and_no_time(void **state)
{
    (void)state;
    struct fixture f;
    open_log(&f, AW_LOG_JOURNAL);
    aw_log_error(&f.log, "gone", AW_LOG_INT("n", 1));
    assert_string_equal(read_log(&f), "<3>gone n=1\n");
    aw_log_info(&f.log, "two\nlines");
    assert_string_equal(read_log(&f), "<6>two\\nlines\n");
    close_log(&f);
}

static void a_value_cannot_forge_a_line_or_steer_a_terminal(void **state)
{
    (void)state;
    struct fixture f;
    open_log(&f, AW_LOG_TEXT);
    aw_log_info(&f.log, "a\nb\x1b[2J", AW_LOG_STR("k", "x\r\n\"\\\x7f\xff\xc2\x9b"),
                AW_LOG_STR("e", ""));
    assert_string_equal(read_log(&f), "2026-01-31T12:34:56.789Z info  a\\nb\\x1b[2J "
                                      "k=\"x\\r\\n\\\"\\\\\\x7f\\xff\\u009b\" e=\"\"\n");
    close_log(&f);
}

static json_t *parse_line(struct fixture *f)
{
    read_log(f);
    size_t length = strlen(f->text);
    assert_true(length > 0 && length <= AW_LOG_LINE_MAX);
    assert_int_equal(f->text[length - 1], '\n');
    assert_ptr_equal(strchr(f->text, '\n'), f->text + length - 1);
    json_t *root = json_loads(f->text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    return root;
}

static void a_json_line_parses_whatever_it_carries(void **state)
{
    (void)state;
    struct fixture f;
    open_log(&f, AW_LOG_JSON);
    aw_log_info(&f.log, "q\"\\\n\x01\xff\xed\xa0\x80 \xe2\x82\xac", AW_LOG_NUM("nan", (double)NAN),
                AW_LOG_NUM("inf", (double)-INFINITY), AW_LOG_NUM("third", 1.0 / 3),
                AW_LOG_INT("min", INT64_MIN), AW_LOG_BOOL("no", false), AW_LOG_STR("none", NULL),
                AW_LOG_STR("text", "\t\x7f"));
    json_t *root = parse_line(&f);
    assert_string_equal(json_string_value(json_object_get(root, "time")),
                        "2026-01-31T12:34:56.789012Z");
    assert_string_equal(json_string_value(json_object_get(root, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(root, "message")),
                        "q\"\\\n\x01\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xe2\x82\xac");
    assert_true(json_is_null(json_object_get(root, "nan")));
    assert_true(json_is_null(json_object_get(root, "inf")));
    assert_true(json_real_value(json_object_get(root, "third")) == 1.0 / 3);
    assert_true(json_integer_value(json_object_get(root, "min")) == INT64_MIN);
    assert_true(json_is_false(json_object_get(root, "no")));
    assert_true(json_is_null(json_object_get(root, "none")));
    assert_null(json_object_get(root, "cut"));
    json_decref(root);
    close_log(&f);
}

static void an_overlong_line_is_cut_marked_and_still_valid(void **state)
{
    (void)state;
    static char longer[AW_LOG_LINE_MAX + 100];
    struct fixture f;
    open_log(&f, AW_LOG_JSON);
    /* Every length around the limit, with a character of one, two and three bytes or an escape. */
    const char *units[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\n", "\xff"};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (size_t length = AW_LOG_LINE_MAX - 200; length < AW_LOG_LINE_MAX; length += 3) {
            size_t used = 0, step = strlen(units[u]);
            for (; used + step <= length; used += step)
                memcpy(longer + used, units[u], step);
            longer[used] = 0;
            for (int where = 0; where < 3; where++) {
                aw_log_info(&f.log, where == 0 ? longer : "m",
                            AW_LOG_STR(where == 1 ? longer : "k", where == 2 ? longer : "v"),
                            AW_LOG_INT("last", 123456789), AW_LOG_NUM("num", 0.25));
                json_t *root = parse_line(&f);
                bool cut = json_is_true(json_object_get(root, "cut"));
                assert_true(cut != (json_object_get(root, "num") != NULL));
                json_decref(root);
            }
        }
    f.log.format = AW_LOG_TEXT;
    aw_log_info(&f.log, longer, AW_LOG_INT("k", 1));
    const char *text = read_log(&f);
    assert_true(strlen(text) <= AW_LOG_LINE_MAX);
    assert_non_null(strstr(text, " [cut]\n"));
    close_log(&f);
}

static int64_t evaluated(int *count)
{
    return ++*count;
}

static void what_is_below_the_level_is_not_even_evaluated(void **state)
{
    (void)state;
    struct fixture f;
    open_log(&f, AW_LOG_TEXT);
    int count = 0;
    aw_log_debug(&f.log, "quiet", AW_LOG_INT("n", evaluated(&count)));
    aw_log_error((struct aw_log *)NULL, "nobody", AW_LOG_INT("n", evaluated(&count)));
    assert_int_equal(count, 0);
    assert_string_equal(read_log(&f), "");
    f.log.level = AW_LOG_DEBUG;
    aw_log_debug(&f.log, "loud", AW_LOG_INT("n", evaluated(&count)));
    assert_int_equal(count, 1);
    assert_non_null(strstr(read_log(&f), "debug loud n=1\n"));
    close_log(&f);
}

static void a_line_that_cannot_be_written_is_counted_and_errno_kept(void **state)
{
    (void)state;
    struct aw_log log;
    aw_log_init(&log, -1, AW_LOG_INFO, AW_LOG_TEXT, NULL);
    errno = ENOENT;
    aw_log_info(&log, "lost");
    assert_int_equal(errno, ENOENT);
    assert_int_equal(log.lost_count, 1);
}

static void levels_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    enum aw_log_level level;
    for (int i = AW_LOG_ERROR; i <= AW_LOG_DEBUG; i++) {
        assert_ok(aw_log_level_parse(names[i], &level));
        assert_int_equal(level, i);
    }
    level = AW_LOG_WARN;
    assert_int_equal(aw_log_level_parse("loud", &level), AW_ERR_NOTFOUND);
    assert_int_equal(level, AW_LOG_WARN);
}

enum { WRITERS = 4, LINES = 200 };

static void *write_lines(void *arg)
{
    char text[300];
    memset(text, 'a' + (int)(pthread_self() % 26), sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < LINES; i++)
        aw_log_info((struct aw_log *)arg, "line", AW_LOG_STR("text", text));
    return NULL;
}

static void lines_of_several_threads_never_mix(void **state)
{
    (void)state;
    char path[] = "/tmp/aw_log_test_XXXXXX";
    int fd = mkostemp(path, O_APPEND);
    assert_true(fd >= 0);
    struct aw_log log;
    aw_log_init(&log, fd, AW_LOG_INFO, AW_LOG_JSON, NULL);
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &log), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(log.lost_count, 0);
    FILE *file = fopen(path, "r");
    char line[AW_LOG_LINE_MAX + 1];
    int lines = 0;
    for (; fgets(line, sizeof line, file); lines++) {
        json_t *root = json_loads(line, 0, NULL);
        assert_non_null(root);
        assert_int_equal(json_string_length(json_object_get(root, "text")), 299);
        json_decref(root);
    }
    assert_int_equal(lines, WRITERS * LINES);
    fclose(file);
    close(fd);
    unlink(path);
}

AW_TEST_GROUP("log")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_line_reads_as_time_level_message_and_fields),
        cmocka_unit_test(a_line_for_the_journal_has_its_priority_and_no_time),
        cmocka_unit_test(a_value_cannot_forge_a_line_or_steer_a_terminal),
        cmocka_unit_test(a_json_line_parses_whatever_it_carries),
        cmocka_unit_test(an_overlong_line_is_cut_marked_and_still_valid),
        cmocka_unit_test(what_is_below_the_level_is_not_even_evaluated),
        cmocka_unit_test(a_line_that_cannot_be_written_is_counted_and_errno_kept),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(lines_of_several_threads_never_mix),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
