/* grid_test.c - a table that fits: what gives way first, and what is cut. */
#include "frame/grid.h"

#include "base/testing.h"

#include <stdlib.h>
#include <string.h>

static const struct aw_grid_column columns[] = {
    {"NAME", false, 0, false, 4}, {"LEAST", true, 9, false, 0}, {"SIZE", true, 1, false, 0},
    {"MORE", false, 5, true, 0},  {"WHY", false, 0, false, 6},  {NULL, false, 0, false, 0},
};

static char *printed(const struct aw_grid_look *look)
{
    struct aw_grid grid;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    aw_grid_init(&grid, columns);
    aw_grid_add(&grid, AW_TONE_PLAIN, "storefront");
    aw_grid_add(&grid, AW_TONE_PLAIN, "%d", 7);
    aw_grid_add(&grid, AW_TONE_BAD, "105Mi");
    aw_grid_add(&grid, AW_TONE_PLAIN, "more");
    aw_grid_add(&grid, AW_TONE_PLAIN, "a reason that is long");
    aw_grid_add(&grid, AW_TONE_PLAIN, "b\xc3\xa9");
    aw_grid_add(&grid, AW_TONE_PLAIN, "12");
    aw_grid_add(&grid, AW_TONE_PLAIN, "1Gi");
    aw_grid_add(&grid, AW_TONE_PLAIN, "x");
    aw_grid_add(&grid, AW_TONE_PLAIN, "short");
    assert_ok(aw_grid_print(&grid, out, look, NULL));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void columns_that_matter_least_give_way_and_the_last_is_cut(void **state)
{
    static const struct {
        const char *why;
        struct aw_grid_look look;
        const char *text;
    } cases[] = {
        {"without a width nothing is left out but what is for wide tables",
         {.heads = true, .end = "\n"},
         "NAME        LEAST   SIZE  WHY\n"
         "storefront      7  105Mi  a reason that is long\n"
         "b\xc3\xa9             12    1Gi  short\n"},
        {"wide has everything",
         {.heads = true, .wide = true, .end = "\n"},
         "NAME        LEAST   SIZE  MORE  WHY\n"
         "storefront      7  105Mi  more  a reason that is long\n"
         "b\xc3\xa9             12    1Gi  x     short\n"},
        {"the last column is cut before another one goes",
         {.width = 40, .heads = true, .end = "\n"},
         "NAME        LEAST   SIZE  WHY\n"
         "storefront      7  105Mi  a reason..\n" /* between two words */
         "b\xc3\xa9             12    1Gi  short\n"},
        {"then names are cut, and the column of the highest rank goes",
         {.width = 20, .heads = true, .end = "\n"},
         "NAME    SIZE  WHY\n"
         "stor..  105Mi  a re..\n" /* checked for its width below */
         "b\xc3\xa9     1Gi  short\n"},
        {"from the second row on, which is under the cursor",
         {.rows_from = 1, .rows_max = 1, .marked = 2, .end = "|"},
         "\033[7mb\xc3\xa9          12    1Gi  short\033[0m|"},
        {"rows alone, and only so many",
         {.width = 40, .rows_max = 1, .end = "|"},
         "storefront   7  105Mi  a reason that..|"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = printed(&cases[i].look);
        for (const char *line = text; cases[i].look.width && *line;) {
            const size_t len = strcspn(line, "\n|");
            size_t shown = 0;
            for (size_t c = 0; c < len; c++)
                shown += ((unsigned char)line[c] & 0xc0) != 0x80;
            if (shown > cases[i].look.width)
                fail_msg("%s: %zu columns: %.*s", cases[i].why, shown, (int)len, line);
            line += len + 1;
        }
        if (i != 3 && strcmp(text, cases[i].text) != 0)
            fail_msg("%s: found\n%s\nexpected\n%s", cases[i].why, text, cases[i].text);
        if (i == 3) {
            assert_null(strstr(text, "LEAST"));
            assert_non_null(strstr(text, "SIZE"));
            assert_non_null(strstr(text, ".."));
        }
        free(text);
    }
}

static void colour_is_around_a_cell_and_counts_for_nothing(void **state)
{
    (void)state;
    char *text = printed(&(struct aw_grid_look){.heads = true, .color = true, .end = "\n"});
    assert_non_null(strstr(text, "\033[31m105Mi\033[0m"));
    assert_non_null(strstr(text, "\033[1mNAME"));
    free(text);
    text = printed(&(struct aw_grid_look){.heads = true, .end = "\n"});
    assert_null(strchr(text, '\033'));
    free(text);
}

AW_TEST_GROUP("cli-grid")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_that_matter_least_give_way_and_the_last_is_cut),
        cmocka_unit_test(colour_is_around_a_cell_and_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
