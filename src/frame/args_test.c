#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "frame/verb.h"

static const char *const colours[] = {"red", "green", NULL};
static const struct aw_option options[] = {
    {.name = "count",
     .letter = 'c',
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "2k",
     .min = 1,
     .max = 5000000,
     .help = "how many"},
    {.name = "colour",
     .kind = AW_ARG_CHOICE,
     .arg = "NAME",
     .choices = colours,
     .help = "which",
     .required = true},
    {.name = "set",
     .kind = AW_ARG_SETTING,
     .arg = "KEY=VALUE",
     .help = "settings",
     .repeated = true},
    {.name = "dry", .letter = 'd', .kind = AW_ARG_FLAG, .help = "only look"},
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "FROM", .kind = AW_ARG_DIR, .help = "a directory"},
    {.name = "TO", .kind = AW_ARG_DIR, .help = "another", .optional = true},
    {.name = NULL},
};
static const struct aw_verb verb = {
    .name = "copy", .options = options, .positionals = positionals, .json = true};

#define WORDS_MAX 80

/* Splits at spaces, so that a row of a table reads like a command line. */
static enum aw_err parse_for(const struct aw_verb *of, const char *line, struct aw_args *args,
                             bool *help, struct aw_diag *diag)
{
    static char text[2048];
    static char *argv[WORDS_MAX]; /* the words of a parsed line point into it */
    char *save = NULL;
    int argc = 0;
    snprintf(text, sizeof text, "copy %s", line);
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    return aw_args_parse(of, argc, argv, args, help, diag);
}

static enum aw_err parse(const char *line, struct aw_args *args, bool *help, struct aw_diag *diag)
{
    return parse_for(&verb, line, args, help, diag);
}

static void options_and_words_may_stand_in_any_order(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--colour red a b -c 7 -d --set x=1 --set y=2",
        "a --set x=1 -dc7 --colour=red b --set=y=2",
        "--dry --count=7 --set x=1 --set y=2 --colour red -- a b",
        "a b --colou red --cou 7 --set x=1 --dry --dry --set y=2",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct aw_args args;
        bool help = true;
        assert_ok(parse(lines[i], &args, &help, NULL));
        assert_false(help);
        assert_string_equal(args.positional[0], "a");
        assert_string_equal(args.positional[1], "b");
        assert_string_equal(aw_args_text(&args, "colour"), "red");
        assert_int_equal(aw_args_number(&args, "count"), 7);
        assert_true(aw_args_given(&args, "dry"));
        assert_int_equal(args.repeat_count, 2);
        assert_string_equal(args.repeat[0], "x=1");
        assert_string_equal(args.repeat[1], "y=2");
    }
}

static void what_is_not_given_has_its_default(void **state)
{
    (void)state;
    struct aw_args args;
    bool help;
    assert_ok(parse("a --colour green", &args, &help, NULL));
    assert_int_equal(aw_args_number(&args, "count"), 2000);
    assert_false(aw_args_given(&args, "count"));
    assert_false(aw_args_given(&args, "dry"));
    assert_null(args.positional[1]);
    assert_string_equal(aw_args_text(&args, "output"), "table");
    assert_string_equal(aw_args_text(&args, "color"), "auto");
}

static void help_wins_over_what_is_missing(void **state)
{
    (void)state;
    struct aw_args args;
    bool help = false;
    assert_ok(parse("--help", &args, &help, NULL));
    assert_true(help);
    help = false;
    assert_ok(parse("-h --nonsense", &args, &help, NULL));
    assert_true(help);
}

static void a_wrong_line_says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *line, *text, *why;
    } rows[] = {
        {"a", "needs --colour NAME", "a required option is missing"},
        {"--colour red", "needs FROM", "a required word is missing"},
        {"a b c --colour red", "does not take \"c\"", "a word too many"},
        {"a --colour blue", "red, green", "not one of the choices"},
        {"a --colour", "needs a value", "an option without its value"},
        {"a -c", "needs a value", "a letter without its value"},
        {"a --colour red --conut 3", "did you mean --count", "a slip of the finger"},
        {"a --colour red --co 3", "could be any of: --count, --colour", "an ambiguous beginning"},
        {"a --colour red -x", "unknown option \"-x\"", "an unknown letter"},
        {"a --colour red --dry=1", "takes no value", "a value for a flag"},
        {"a --colour red -c 0", "from 1 to 5000000", "below the least"},
        {"a --colour red -c 6M", "found \"6M\"", "above the most"},
        {"a --colour red --colour red", "more than once", "given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_args args = {.repeat_count = 99};
        struct aw_diag diag = {0};
        char line[1024];
        bool help;
        enum aw_err err = parse(rows[i].line, &args, &help, &diag);
        aw_diag_format(&diag, err, line, sizeof line);
        if (err != AW_ERR_USAGE || !strstr(line, rows[i].text))
            fail_msg("%s: %s: %s", rows[i].why, aw_err_name(err), line);
        assert_int_equal(args.repeat_count, 99);
    }
}

static void a_repeatable_option_has_a_limit(void **state)
{
    (void)state;
    struct aw_args args;
    struct aw_diag diag;
    bool help;
    char *argv[2 * AW_REPEAT_MAX + 8] = {(char[]){"copy"}, (char[]){"a"}, (char[]){"--colour=red"}};
    char pair[] = "--set=x=1";
    int argc = 3;
    for (uint32_t i = 0; i < AW_REPEAT_MAX; i++)
        argv[argc++] = pair;
    assert_ok(aw_args_parse(&verb, argc, argv, &args, &help, NULL));
    assert_int_equal(args.repeat_count, AW_REPEAT_MAX);
    argv[argc++] = pair;
    assert_int_equal(aw_args_parse(&verb, argc, argv, &args, &help, &diag), AW_ERR_USAGE);
    assert_string_equal(diag.key, "--set");
}

static void numbers_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t number;
    } rows[] = {
        {"0", true, 0},
        {"007", true, 7},
        {"20000", true, 20000},
        {"20_000", true, 20000},
        {"20k", true, 20000},
        {"3M", true, 3000000},
        {"2G", true, 2000000000},
        {"2e4", true, 20000},
        {"1e0", true, 1},
        {"0e99", true, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"1e20", false, 0},
        {"99999999999999999999G", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1.5", false, 0},
        {"1__0", false, 0},
        {"_1", false, 0},
        {"1_", false, 0},
        {"1kk", false, 0},
        {"k", false, 0},
        {"1e", false, 0},
        {"1e-3", false, 0},
        {"0x10", false, 0},
        {"nan", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t number = 12345;
        enum aw_err err = aw_number_parse(rows[i].text, 0, UINT64_MAX, "x", &number, NULL);
        if ((err == AW_OK) != rows[i].good || number != (rows[i].good ? rows[i].number : 12345))
            fail_msg("\"%s\": %s, %llu", rows[i].text, aw_err_name(err),
                     (unsigned long long)number);
    }
}

static const struct aw_option out_options[] = {
    {.name = "out", .letter = 'o', .kind = AW_ARG_FILE, .arg = "FILE", .help = "where to"},
    {.name = NULL},
};
static const struct aw_positional many[] = {
    {.name = "FIRST", .kind = AW_ARG_TEXT, .help = "one"},
    {.name = "FILE", .kind = AW_ARG_FILE, .help = "the others", .repeated = true},
    {.name = NULL},
};

static void the_last_positional_may_take_all_words_that_are_left(void **state)
{
    (void)state;
    static const struct aw_verb verb_many = {.name = "many", .positionals = many, .json = true};
    struct aw_args args;
    bool help;
    assert_int_equal(parse_for(&verb_many, "a b --output json c d", &args, &help, NULL), AW_OK);
    assert_int_equal(args.word_count, 4);
    assert_string_equal(args.positional[1], "b");
    assert_string_equal(args.words[1], "b");
    assert_string_equal(args.words[3], "d");
    assert_int_equal(parse_for(&verb_many, "a", &args, &help, NULL), AW_ERR_USAGE);
}

static void output_gives_up_its_letter_and_takes_csv_where_a_verb_has_it(void **state)
{
    (void)state;
    static const struct aw_verb plain = {.name = "plain", .json = true};
    static const struct aw_verb table = {
        .name = "table", .options = out_options, .json = true, .csv = true};
    struct aw_args args;
    bool help;
    assert_int_equal(parse_for(&plain, "--output csv", &args, &help, NULL), AW_ERR_USAGE);
    assert_int_equal(parse_for(&table, "-o f --output csv", &args, &help, NULL), AW_OK);
    assert_string_equal(aw_args_text(&args, "out"), "f");
    assert_string_equal(aw_args_text(&args, "output"), "csv");
    assert_int_equal(aw_verb_option(&plain, 0)->letter, 'o');
    assert_int_equal(aw_verb_option(&table, 1)->letter, 0);
}

AW_TEST_GROUP("cli-args")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_words_may_stand_in_any_order),
        cmocka_unit_test(what_is_not_given_has_its_default),
        cmocka_unit_test(help_wins_over_what_is_missing),
        cmocka_unit_test(a_wrong_line_says_what_is_wrong),
        cmocka_unit_test(a_repeatable_option_has_a_limit),
        cmocka_unit_test(numbers_are_read_as_people_write_them),
        cmocka_unit_test(the_last_positional_may_take_all_words_that_are_left),
        cmocka_unit_test(output_gives_up_its_letter_and_takes_csv_where_a_verb_has_it),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
