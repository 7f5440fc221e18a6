#include "base/json.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *refusal(const char *text, enum aw_err want)
{
    static char line[1024];
    struct aw_tree tree;
    struct aw_diag diag = {0};
    enum aw_err err = aw_json_parse(&tree, "f", text, strlen(text), NULL, &diag);
    assert_int_equal(err, want);
    assert_null(tree.blocks);
    return aw_diag_format(&diag, err, line, sizeof line);
}

static void values_come_with_their_places(void **state)
{
    (void)state;
    const char *text = "{\n"
                       "  \"caf\xc3\xa9\": \"a\\\"]b\\u00e9\",\n"
                       "  \"list\": [1, -2.50, true, null,\n"
                       "    {}, [ ], {\"x\" : \"y\"}]\n"
                       "}\n";
    struct aw_tree tree;
    assert_ok(aw_json_parse(&tree, "f", text, strlen(text), NULL, NULL));
    const struct aw_node *root;
    assert_ok(aw_tree_only(&tree, &root, NULL));
    assert_true(root->kind == AW_NODE_MAP && root->line == 1 && root->column == 1);
    const struct aw_node *cafe = aw_node_find(root, "caf\xc3\xa9");
    assert_string_equal(cafe->text, "a\"]b\xc3\xa9");
    assert_int_equal(cafe->text_len, 6);
    assert_true(cafe->key_line == 2 && cafe->key_column == 3);
    assert_true(cafe->line == 2 && cafe->column == 12);
    const struct aw_node *item = aw_node_find(root, "list")->first;
    assert_true(item->kind == AW_NODE_INTEGER && item->integer == 1 && item->column == 12);
    item = item->next;
    assert_true(item->kind == AW_NODE_REAL && item->real == -2.5 && item->column == 15);
    assert_string_equal(item->text, "-2.50");
    item = item->next;
    assert_true(item->kind == AW_NODE_BOOL && item->boolean && item->line == 3);
    item = item->next;
    assert_true(item->kind == AW_NODE_NULL && item->line == 3);
    item = item->next;
    assert_true(item->kind == AW_NODE_MAP && item->count == 0 && item->line == 4);
    assert_null(aw_node_find(item, "x"));
    item = item->next;
    assert_true(item->kind == AW_NODE_LIST && item->count == 0 && item->column == 9);
    item = aw_node_find(item->next, "x");
    assert_true(item->line == 4 && item->column == 21 && item->key_column == 15);
    aw_tree_deinit(&tree);
    assert_ok(aw_json_parse(&tree, "f", "\xef\xbb\xbf 7", 5, NULL, NULL));
    assert_int_equal(tree.first->integer, 7);
    aw_tree_deinit(&tree);
}

static void what_is_refused_says_where_and_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } table[] = {
        {"", "f: the file is empty"},
        {" \n", "f: the file is empty"},
        {"{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", "f:3:2: the key \"a\" is already there"},
        {"{\"a\": tru}", "f:1:7: not valid JSON: invalid token, found \"tru\""},
        {"[1,\n 2,\n]", "f:3:1: not valid JSON: unexpected token, found \"]\""},
        {"{a: 1}", "f:1:2: not valid JSON: string or '}' expected, found \"a\""},
        {"{\"a\" 1}", "f:1:6: not valid JSON: ':' expected, found \"1\""},
        {"[1, 2", "f:1:6: not valid JSON: the text ends too early"},
        {"[1] x", "f:1:5: not valid JSON: end of file expected, found \"x\""},
        {"[9223372036854775808]",
         "f:1:2: not valid JSON: too big integer, found \"9223372036854775808\""},
        {"[1e999]", "f:1:2: not valid JSON: real number overflow, found \"1e999\""},
        {"[01]", "f:1:2: not valid JSON: invalid token, found \"01\""},
        {"[NaN]", "f:1:2: not valid JSON: invalid token, found \"NaN\""},
        {"['a']", "f:1:2: not valid JSON: invalid token, found \"'a'\""},
        {"// c\n1", "f:1:1: not valid JSON: invalid token, found \"//\""},
        {"\"a\nb\"", "f:1:1: not valid JSON: unexpected newline, found \"\\\"a\\x0ab\\\"\""},
        {"[\"\\ud800\"]",
         "f:1:2: not valid JSON: invalid Unicode '\\uD800', found \"\\\"\\\\ud800\\\"\""},
        {"{\"\\u0000\": 1}", "f:1:2: a string may not contain a NUL character"},
        {"[\"\\u0000\"]", "f:1:2: a string may not contain a NUL character"},
        {"[\"\xc0\xaf\"]", "f:1:3: expected UTF-8 text, found the byte 0xc0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_string_equal(refusal(table[i].text, AW_ERR_FORMAT), table[i].want);
}

static void limits_hold_before_anything_is_built(void **state)
{
    (void)state;
    enum { MANY = 3 << 20 };
    char *text = malloc(MANY + 1);
    assert_non_null(text);
    memset(text, '[', MANY);
    text[MANY] = 0;
    assert_string_equal(refusal(text, AW_ERR_LIMIT),
                        "f:1:65: expected at most 64 levels of lists and maps");
    for (size_t i = 1; i < MANY; i++)
        text[i] = i & 1 ? '1' : ',';
    assert_string_equal(refusal(text, AW_ERR_LIMIT),
                        "f:1:2097151: expected at most 1048576 values");
    free(text);
    struct aw_tree tree;
    assert_int_equal(aw_json_parse(&tree, "f", "1\0", 2, NULL, NULL), AW_ERR_FORMAT);
}

/* Duplicates among many keys must not cost quadratic time: this would take minutes. */
static void a_large_object_is_read_and_searched_quickly(void **state)
{
    (void)state;
    enum { KEYS = 200000 };
    size_t size = (size_t)KEYS * 24, len = 0;
    char *text = malloc(size);
    assert_non_null(text);
    for (int i = 0; i < KEYS; i++)
        len += (size_t)snprintf(text + len, size - len, "%s\"key%d\":%d", i ? "," : "{",
                                (i * 7919) % KEYS, i);
    len += (size_t)snprintf(text + len, size - len, "}");
    struct aw_tree tree;
    assert_ok(aw_json_parse(&tree, "f", text, len, NULL, NULL));
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key%d", (i * 7919) % KEYS);
        assert_int_equal(aw_node_find(tree.first, key)->integer, i);
    }
    assert_null(aw_node_find(tree.first, "key"));
    aw_tree_deinit(&tree);
    free(text);
}

static char *written(const json_t *value, unsigned indent)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_ok(aw_json_write(value, stream, indent));
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void writing_is_exact_and_short(void **state)
{
    (void)state;
    json_t *value = json_pack("{s:[f,f,I,b,n], s:{}, s:[], s:s}", "a\n", 0.1, 3.0,
                              (json_int_t)INT64_MIN, 1, "b", "c", "d", "\"\xc3\xa9");
    assert_non_null(value);
    char *text = written(value, 0);
    assert_string_equal(text, "{\"a\\n\":[0.1,3.0,-9223372036854775808,true,null],\"b\":{},"
                              "\"c\":[],\"d\":\"\\\"\xc3\xa9\"}\n");
    struct aw_tree tree;
    assert_ok(aw_json_parse(&tree, "f", text, strlen(text), NULL, NULL));
    json_t *back = aw_json_from_node(tree.first);
    assert_true(json_equal(value, back));
    aw_tree_deinit(&tree);
    free(text);
    text = written(back, 2);
    assert_string_equal(text, "{\n  \"a\\n\": [\n    0.1,\n    3.0,\n    -9223372036854775808,\n"
                              "    true,\n    null\n  ],\n  \"b\": {},\n  \"c\": [],\n"
                              "  \"d\": \"\\\"\xc3\xa9\"\n}\n");
    free(text);
    json_decref(back);
    json_decref(value);
}

static void any_finite_number_survives_writing_and_reading(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 4, 0);
    for (int i = 0; i < 5000; i++) {
        union {
            uint64_t bits;
            double real;
        } x = {aw_rng_u64(&rng)};
        json_t *value = isfinite(x.real) ? json_real(x.real) : json_integer((int64_t)x.bits);
        char *text = written(value, 0);
        struct aw_tree tree;
        assert_ok(aw_json_parse(&tree, "f", text, strlen(text), NULL, NULL));
        if (isfinite(x.real))
            assert_true(tree.first->kind == AW_NODE_REAL && tree.first->real == x.real);
        else
            assert_true(tree.first->kind == AW_NODE_INTEGER &&
                        tree.first->integer == (int64_t)x.bits);
        aw_tree_deinit(&tree);
        free(text);
        json_decref(value);
    }
}

static void writing_reports_a_full_disk_and_endless_depth(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "we");
    json_t *value = json_array();
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        assert_int_equal(aw_json_write(value, full, 0), AW_ERR_IO);
        fclose(full);
    }
    for (unsigned i = 0; i < AW_TREE_DEPTH_MAX + 1; i++)
        value = json_pack("[o]", value);
    FILE *sink = fopen("/dev/null", "we");
    assert_non_null(sink);
    assert_int_equal(aw_json_write(value, sink, 0), AW_ERR_LIMIT);
    fclose(sink);
    json_decref(value);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    enum { ITEMS = 300 };
    char text[ITEMS * 20];
    size_t len = 0;
    for (int i = 0; i < ITEMS; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s{\"k\":[%d]}", i ? "," : "[", i);
    len += (size_t)snprintf(text + len, sizeof text - len, "]");
    uint64_t n = 0;
    for (enum aw_err err = AW_ERR_NOMEM; err; n++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        struct aw_tree tree;
        err = aw_json_parse(&tree, "f", text, len, &counting.alloc, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        aw_tree_deinit(&tree);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_true(n > 3);
}

AW_TEST_GROUP("json")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_with_their_places),
        cmocka_unit_test(what_is_refused_says_where_and_why),
        cmocka_unit_test(limits_hold_before_anything_is_built),
        cmocka_unit_test(a_large_object_is_read_and_searched_quickly),
        cmocka_unit_test(writing_is_exact_and_short),
        cmocka_unit_test(any_finite_number_survives_writing_and_reading),
        cmocka_unit_test(writing_reports_a_full_disk_and_endless_depth),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
