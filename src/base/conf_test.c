#include "base/conf.h"

#include "base/rng.h"
#include "base/testing.h"
#include "base/yaml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct settings {
    bool shuffle;
    uint32_t batch;
    uint32_t free_u32;
    uint64_t seed;
    uint64_t large;
    float gamma;
    double rate;
    double floor_only;
    uint32_t activation;
    struct aw_conf_u32_list hidden;
    char note[AW_CONF_TEXT_MAX];
};

static const char *const activations[] = {"relu", "tanh", NULL};

#define AW_CONF_OF struct settings
static const struct aw_conf_field table[] = {
    AW_CONF_PLAIN(shuffle, "true", "a"),
    AW_CONF_NUMBER(batch, "64", 1, 100, "b"),
    AW_CONF_NUMBER(free_u32, "0", 0, 0, "b"),
    AW_CONF_NUMBER(seed, "1_000", 0, 0, "c"),
    AW_CONF_NUMBER(large, "1", 1, 0x1p63, "c"),
    AW_CONF_NUMBER(gamma, "0.99", 0, 1, "d"),
    AW_CONF_NUMBER(rate, "3e-4", 0, 0, "e"),
    AW_CONF_NUMBER(floor_only, "0", 0, INFINITY, "e"),
    AW_CONF_ONE_OF(activation, "relu", activations, "f"),
    AW_CONF_NUMBER(hidden, "64,64", 1, 1024, "g"),
    AW_CONF_PLAIN(note, "", "h"),
    {0},
};

static const struct aw_conf_field *field_of(const char *key)
{
    const struct aw_conf_field *field = table;
    while (strcmp(field->key, key) != 0)
        field++;
    return field;
}

static void defaults_are_what_the_table_says(void **state)
{
    (void)state;
    struct settings s;
    memset(&s, 0xff, sizeof s);
    aw_conf_defaults(table, &s);
    assert_true(s.shuffle);
    assert_int_equal(s.batch, 64);
    assert_int_equal(s.seed, 1000);
    assert_true(s.gamma == 0.99f);
    assert_true(s.rate == 3e-4);
    assert_int_equal(s.activation, 0);
    assert_int_equal(s.hidden.count, 2);
    assert_int_equal(s.hidden.value[1], 64);
    assert_string_equal(s.note, "");
}

static void values_are_read_or_refused_by_type_and_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        const char *back; /* as aw_conf_get writes it; NULL: refused */
        const char *why;
    } rows[] = {
        {"shuffle", "false", "false", ""},
        {"shuffle", "no", NULL, "one spelling"},
        {"shuffle", "", NULL, "empty"},
        {"batch", "1", "1", "lower bound included"},
        {"batch", "100", "100", "upper bound included"},
        {"batch", "0", NULL, "below"},
        {"batch", "101", NULL, "above"},
        {"batch", "-1", NULL, "no sign"},
        {"batch", "1.0", NULL, "not whole"},
        {"batch", "1e2", NULL, "not digits"},
        {"free_u32", "4_294_967_295", "4294967295", "underscores"},
        {"free_u32", "4294967296", NULL, "one too many"},
        {"seed", "18446744073709551615", "18446744073709551615", "all 64 bits"},
        {"seed", "18446744073709551616", NULL, "one too many"},
        {"large", "9223372036854775808", "9223372036854775808", "bound of 2^63 is exact"},
        {"large", "9223372036854775809", NULL, "where doubles cannot tell"},
        {"gamma", "0.1", "0.1", "shortest float"},
        {"gamma", "1", "1", "upper bound"},
        {"gamma", "1.5", NULL, "above"},
        {"gamma", "nan", NULL, "not finite"},
        {"gamma", "0x1p-1", NULL, "no hexadecimal"},
        {"rate", "-1e308", "-1e+308", "no bounds"},
        {"rate", "1e309", NULL, "not finite"},
        {"rate", "0.1 ", NULL, "trailing space"},
        {"floor_only", "1e300", "1e+300", "no upper bound"},
        {"floor_only", "-0.1", NULL, "but a lower one"},
        {"activation", "tanh", "tanh", ""},
        {"activation", "Tanh", NULL, "names are exact"},
        {"hidden", "1, 2,3", "1,2,3", "a space after a comma"},
        {"hidden", "", "", "an empty list"},
        {"hidden", "1,2,3,4,5,6,7,8", "1,2,3,4,5,6,7,8", "the most"},
        {"hidden", "1,2,3,4,5,6,7,8,9", NULL, "too many"},
        {"hidden", "1,", NULL, "nothing after the comma"},
        {"hidden", ",1", NULL, "nothing before it"},
        {"hidden", "1,,2", NULL, "nothing between"},
        {"hidden", "1,1025", NULL, "elements have bounds"},
        {"note", "a=b, c", "a=b, c", "any text"},
    };
    char buf[AW_CONF_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct settings s, before;
        memset(&s, 0, sizeof s);
        aw_conf_defaults(table, &s);
        before = s;
        struct aw_diag diag = {0};
        enum aw_err err = aw_conf_set(table, &s, rows[i].key, rows[i].value, &diag);
        if (err != (rows[i].back ? AW_OK : AW_ERR_CONFIG))
            fail_msg("%s=%s (%s): %s", rows[i].key, rows[i].value, rows[i].why, diag.text);
        if (err)
            assert_memory_equal(&s, &before, sizeof s);
        else
            assert_string_equal(aw_conf_get(field_of(rows[i].key), &s, buf, sizeof buf),
                                rows[i].back);
    }
}

static void errors_read_well(void **state)
{
    (void)state;
    static const struct {
        const char *pair, *want;
    } rows[] = {
        {"gama=1", "unknown setting \"gama\" (did you mean \"gamma\"?)"},
        {"zebra=1", "unknown setting \"zebra\""},
        {"gamma=1.5", "gamma: expected a number from 0 to 1, found \"1.5\""},
        {"batch=x", "batch: expected a whole number from 1 to 100, found \"x\""},
        {"free_u32=x", "free_u32: expected a whole number from 0 to 4294967295, found \"x\""},
        {"floor_only=-1", "floor_only: expected a number of at least 0, found \"-1\""},
        {"shuffle=1", "shuffle: expected true or false, found \"1\""},
        {"activation=elu", "activation: expected one of: relu, tanh, found \"elu\""},
        {"hidden=0", "hidden: expected up to 8 whole numbers, each from 1 to 1024, separated by "
                     "commas, found \"0\""},
        {"gamma", "expected key=value, found \"gamma\""},
        {"=1", "expected key=value, found \"=1\""},
        {"rate=\n", "rate: expected a number, found \"\\x0a\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct settings s;
        struct aw_diag diag;
        char line[1024];
        aw_conf_defaults(table, &s);
        assert_int_equal(aw_conf_set_pair(table, &s, rows[i].pair, &diag), AW_ERR_CONFIG);
        assert_string_equal(aw_diag_format(&diag, AW_ERR_CONFIG, line, sizeof line), rows[i].want);
    }
    struct settings s;
    char text[AW_CONF_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    text[AW_CONF_TEXT_MAX] = 0;
    assert_int_equal(aw_conf_set(table, &s, "note", text, NULL), AW_ERR_CONFIG);
    text[AW_CONF_TEXT_MAX - 1] = 0;
    assert_ok(aw_conf_set(table, &s, "note", text, NULL));
    assert_string_equal(s.note, text);
}

static void any_value_reads_back_to_the_same_bits(void **state)
{
    (void)state;
    struct aw_rng rng;
    char buf[AW_CONF_TEXT_MAX];
    aw_rng_init(&rng, 9, 0);
    for (int i = 0; i < 20000; i++) {
        struct settings s, back;
        memset(&s, 0, sizeof s);
        memset(&back, 0, sizeof back);
        uint64_t bits = aw_rng_u64(&rng);
        s.shuffle = bits & 1;
        s.batch = 1 + aw_rng_below(&rng, 100);
        s.seed = aw_rng_u64(&rng);
        s.large = 1 + (aw_rng_u64(&rng) >> 1);
        s.gamma = aw_rng_float(&rng);
        memcpy(&s.rate, &bits, sizeof bits);
        s.rate = isfinite(s.rate) ? s.rate : 0;
        s.activation = aw_rng_below(&rng, 2);
        s.hidden.count = aw_rng_below(&rng, AW_CONF_LIST_MAX + 1);
        for (uint32_t k = 0; k < s.hidden.count; k++)
            s.hidden.value[k] = 1 + aw_rng_below(&rng, 1024);
        for (const struct aw_conf_field *field = table; field->key; field++)
            assert_ok(aw_conf_set(table, &back, field->key, aw_conf_get(field, &s, buf, sizeof buf),
                                  NULL));
        assert_memory_equal(&s, &back, sizeof s);
    }
}

static void the_nearest_name_forgives_a_slip_and_no_more(void **state)
{
    (void)state;
    static const char *const names[] = {"gamma", "batch_size", "learning_rate", "tau", NULL};
    static const struct {
        const char *word, *want, *why;
    } rows[] = {
        {"gama", "gamma", "missing letter"},
        {"gammma", "gamma", "doubled letter"},
        {"gmama", "gamma", "swapped neighbours"},
        {"GAMMA", "gamma", "case"},
        {"batch-size", "batch_size", "dash"},
        {"batchsize", "batch_size", "missing underscore"},
        {"lerning_rat", "learning_rate", "two slips in a long word"},
        {"tua", "tau", "short"},
        {"x", NULL, "a single letter is near to nothing"},
        {"momentum", NULL, "another word"},
        {"", NULL, "nothing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *got = aw_conf_nearest(rows[i].word, names);
        if (rows[i].want)
            assert_string_equal(got ? got : "(none)", rows[i].want);
        else
            assert_null(got);
    }
    char word[500];
    memset(word, 'g', sizeof word);
    word[sizeof word - 1] = 0;
    assert_null(aw_conf_nearest(word, names));
}

static enum aw_err set_yaml(const char *text, struct settings *s, struct aw_diag *diag)
{
    struct aw_tree tree;
    assert_ok(aw_yaml_parse(&tree, "a.yaml", text, strlen(text), NULL, diag));
    enum aw_err err = aw_conf_set_tree(table, s, &tree, tree.first, diag);
    aw_tree_deinit(&tree);
    return err;
}

static void a_yaml_map_sets_all_or_nothing(void **state)
{
    (void)state;
    struct settings s, before;
    memset(&s, 0, sizeof s);
    aw_conf_defaults(table, &s);
    assert_ok(set_yaml("shuffle: False\nbatch: 0x10\nseed: 1_000\ngamma: .5\nhidden: [3, 4]\n"
                       "activation: tanh\nnote: 1.10\n",
                       &s, NULL));
    assert_false(s.shuffle);
    assert_int_equal(s.batch, 16);
    assert_int_equal(s.seed, 1000);
    assert_true(s.gamma == 0.5f);
    assert_int_equal(s.hidden.count, 2);
    assert_int_equal(s.hidden.value[1], 4);
    assert_int_equal(s.activation, 1);
    assert_string_equal(s.note, "1.10");
    assert_ok(set_yaml("hidden: 5\n", &s, NULL));
    assert_int_equal(s.hidden.count, 1);
    before = s;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"batch: 7\ngama: 1\n",
         "a.yaml:2:1: gama: unknown setting \"gama\" (did you mean \"gamma\"?)"},
        {"batch: 7\ngamma: 2\n", "a.yaml:2:8: gamma: expected a number from 0 to 1, found 2"},
        {"batch:\n", "a.yaml:1:7: batch: expected a whole number from 1 to 100, found null"},
        {"gamma: .nan\n", "a.yaml:1:8: gamma: expected a number from 0 to 1, found .nan"},
        {"note: [a]\n",
         "a.yaml:1:7: note: expected a text of at most 255 bytes, found a list of 1"},
        {"batch: 7\nhidden: [1, x]\n",
         "a.yaml:2:9: hidden: expected up to 8 whole numbers, each from 1 to 1024, separated by "
         "commas, found a list of 2"},
        {"- 1\n", "a.yaml:1:1: expected a map, found a list of 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct aw_diag diag;
        char line[1024];
        assert_int_equal(set_yaml(rows[i].text, &s, &diag), AW_ERR_CONFIG);
        assert_string_equal(aw_diag_format(&diag, AW_ERR_CONFIG, line, sizeof line), rows[i].want);
        assert_memory_equal(&s, &before, sizeof s);
    }
}

static void a_double_that_may_be_anything_and_a_short_text_come_back(void **state)
{
    (void)state;
    struct free {
        double any;
        int64_t whole;
        char name[5];
    } set = {0}, other;
    const struct aw_conf_field rows[] = {
        AW_CONF_ROW(struct free, "any", any, "nan", -INFINITY, INFINITY, "i"),
        AW_CONF_MARKED(struct free, "whole", whole, "3", 0, 0x1p62, "j", 2),
        AW_CONF_MARKED(struct free, "name", name, "ab", 0, 5, "k", 4),
        {0},
    };
    static const char *const texts[] = {"nan", "inf", "-inf", "-0", "0.1"};
    char text[AW_CONF_TEXT_MAX];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(aw_conf_set(rows, &set, "any", texts[i], NULL), AW_OK);
        assert_string_equal(aw_conf_get(rows, &set, text, sizeof text), texts[i]);
    }
    assert_int_equal(aw_conf_set(rows, &set, "any", "many", NULL), AW_ERR_CONFIG);
    assert_int_equal(aw_conf_set(rows, &set, "name", "abcde", NULL), AW_ERR_CONFIG);
    assert_int_equal(aw_conf_set(rows, &set, "name", "abcd", NULL), AW_OK);
    assert_string_equal(aw_conf_get(&rows[2], &set, text, sizeof text), "abcd");
    assert_int_equal(aw_conf_set(rows, &set, "whole", "-1", NULL), AW_ERR_CONFIG);
    aw_conf_defaults(rows, &set);
    assert_true(isnan(set.any) && set.whole == 3);
    other = set;
    other.whole = 4;
    assert_false(aw_conf_same(rows, 2 | 4, &set, &other));
    assert_true(aw_conf_same(rows, 4, &set, &other));
}

AW_TEST_GROUP("conf")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_what_the_table_says),
        cmocka_unit_test(values_are_read_or_refused_by_type_and_bounds),
        cmocka_unit_test(errors_read_well),
        cmocka_unit_test(any_value_reads_back_to_the_same_bits),
        cmocka_unit_test(the_nearest_name_forgives_a_slip_and_no_more),
        cmocka_unit_test(a_yaml_map_sets_all_or_nothing),
        cmocka_unit_test(a_double_that_may_be_anything_and_a_short_text_come_back),
    };
    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
