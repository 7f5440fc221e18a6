#include "frame/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"

static void the_line_never_fills_the_terminal_and_drops_the_least_first(void **state)
{
    (void)state;
    const struct aw_train_progress at = {.step = 42000, .return_mean = -152.34};
    const struct aw__progress_view view = {&at, 100000, 31234};
    char line[AW_STATUS_LINE_MAX];
    assert_string_equal(aw__progress_line(&view, 120, line, sizeof line),
                        " 42%  [##########..............]  42.0k/100k steps  return -152.3  "
                        "31.2k/s  1.9 s left");
    for (unsigned columns = 0; columns < 130; columns++) {
        aw__progress_line(&view, columns, line, sizeof line);
        assert_true(strlen(line) < columns || (columns == 0 && !*line));
        if (columns > 60)
            assert_non_null(strstr(line, "left"));
        if (columns > 5)
            assert_non_null(strstr(line, "42%"));
    }
}

static void before_the_first_episode_there_is_a_dash_and_no_nan(void **state)
{
    (void)state;
    const struct aw_train_progress at = {.return_mean = (double)NAN};
    const struct aw__progress_view view = {&at, 100, 0};
    char line[AW_STATUS_LINE_MAX];
    aw__progress_line(&view, 120, line, sizeof line);
    assert_null(strstr(line, "nan"));
    assert_non_null(strstr(line, "return -"));
    assert_non_null(strstr(line, "  0%"));
}

static void a_run_past_its_total_shows_a_hundred_percent(void **state)
{
    (void)state;
    const struct aw_train_progress at = {.step = 104, .return_mean = 12345.6};
    const struct aw__progress_view view = {&at, 100, 10};
    char line[AW_STATUS_LINE_MAX];
    aw__progress_line(&view, 120, line, sizeof line);
    assert_non_null(strstr(line, "100%"));
    assert_non_null(strstr(line, "0.0 s left"));
    assert_non_null(strstr(line, "return 12346"));
}

static void a_file_gets_about_twenty_rows_however_the_run_is_sliced(void **state)
{
    (void)state;
    static const uint64_t slices[] = {1, 7, 50, 333};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        char *text = NULL;
        size_t size;
        FILE *out = tmpfile();
        assert_non_null(out);
        struct aw_progress progress;
        aw_progress_init(&progress, out, false, 0, 1000, 0);
        assert_false(progress.line.terminal);
        struct aw_train_progress at = {.return_mean = 1, .length_mean = 1};
        for (; at.step < 1000;) {
            at.step += slices[i];
            aw_progress_update(&progress, &at, (int64_t)at.step * 1000);
        }
        aw_progress_clear(&progress);
        rewind(out);
        uint32_t lines = 0;
        while (getline(&text, &size, out) > 0) {
            lines++;
            assert_null(strchr(text, '\033'));
        }
        assert_int_equal(lines, 1 + (slices[i] > 50 ? 4 : 20));
        free(text);
        fclose(out);
    }
}

AW_TEST_GROUP("cli-progress")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_never_fills_the_terminal_and_drops_the_least_first),
        cmocka_unit_test(before_the_first_episode_there_is_a_dash_and_no_nan),
        cmocka_unit_test(a_run_past_its_total_shows_a_hundred_percent),
        cmocka_unit_test(a_file_gets_about_twenty_rows_however_the_run_is_sliced),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
