#include "frame/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"

static void text_is_wrapped_between_words_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned column, indent, width;
        const char *wrapped, *why;
    } rows[] = {
        {"one two three", 0, 0, 80, "one two three\n", "it fits"},
        {"one two three", 0, 2, 8, "one two\n  three\n", "the rest is indented"},
        {"one two", 5, 5, 12, "one two\n", "exactly the width"},
        {"one two", 5, 5, 11, "one\n     two\n", "one too many"},
        {"incomprehensible word", 0, 0, 4, "incomprehensible\nword\n", "a word is never cut"},
        {"  a \n  b ", 0, 0, 80, "a b\n", "any white space is one space"},
        {"", 3, 3, 80, "\n", "nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        aw_wrap(out, rows[i].text, rows[i].column, rows[i].indent, rows[i].width);
        fclose(out);
        if (strcmp(text, rows[i].wrapped) != 0)
            fail_msg("%s: '%s'", rows[i].why, text);
        free(text);
    }
}

static char *table_text(bool color)
{
    static const char *const heads[] = {"NAME", ">SIZE", "WHAT", NULL};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct aw_table table;
    aw_table_init(&table, heads);
    aw_table_add(&table, "short");
    aw_table_add(&table, "%d", 7);
    aw_table_add(&table, "one");
    aw_table_add(&table, "much longer");
    aw_table_add(&table, "%d", 12345);
    aw_table_add(&table, "%s",
                 "a text that is so long that it does not fit into the hundred columns of a "
                 "page and goes on below");
    assert_ok(aw_table_print(&table, out, color, NULL));
    fclose(out);
    aw_table_deinit(&table);
    return text;
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    (void)state;
    char *text = table_text(false);
    assert_string_equal(text,
                        "NAME          SIZE  WHAT\n"
                        "short            7  one\n"
                        "much longer  12345  a text that is so long that it does not fit into the "
                        "hundred columns of a page\n"
                        "                    and goes on below\n");
    free(text);
    text = table_text(true);
    assert_non_null(strstr(text, "\033[1mNAME"));
    assert_null(strstr(strchr(text, '\n') + 6, "\033["));
    free(text);
}

static void a_page_has_the_same_table_as_markdown(void **state)
{
    (void)state;
    static const char *const page_heads[] = {"NAME", ">SIZE", NULL};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct aw_table table;
    aw_table_init(&table, page_heads);
    aw_table_add(&table, "a");
    aw_table_add(&table, "7");
    aw_table_add(&table, "b");
    aw_table_add(&table, "12");
    assert_ok(aw_table_print_markdown(&table, out, NULL));
    fclose(out);
    assert_string_equal(text, "| NAME | SIZE |\n|---|--:|\n| a | 7 |\n| b | 12 |\n");
    free(text);
}

static void figures_are_short_enough_to_read(void **state)
{
    (void)state;
    static const struct {
        double count;
        const char *text;
    } counts[] = {{0, "0"},       {9999, "9999"},      {10000, "10.0k"}, {123456, "123k"},
                  {1e6, "1.00M"}, {12345678, "12.3M"}, {2e9, "2.00G"}};
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "0.0 s"},     {9.96, "10 s"}, {59.4, "59 s"},     {61, "1m 01s"},
                 {3725, "1h 02m"}, {-1, "-"},      {(double)NAN, "-"}, {(double)INFINITY, "-"}};
    char buf[32];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_string_equal(aw_count_format(counts[i].count, buf, sizeof buf), counts[i].text);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(aw_seconds_format(times[i].seconds, buf, sizeof buf), times[i].text);
    assert_string_equal(aw_figure_format((double)NAN, buf, sizeof buf), "-");
    assert_string_equal(aw_figure_format((double)-INFINITY, buf, sizeof buf), "-inf");
    assert_string_equal(aw_figure_format(0.25, buf, sizeof buf), "0.25");
}

AW_TEST_GROUP("cli-layout")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_wrapped_between_words_alone),
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(a_page_has_the_same_table_as_markdown),
        cmocka_unit_test(figures_are_short_enough_to_read),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
