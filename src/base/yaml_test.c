#include "base/yaml.h"

#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one line that a person sees for a text that must be refused. */
static const char *refusal(const char *text, enum aw_err want)
{
    static char line[1024];
    struct aw_tree tree;
    struct aw_diag diag = {0};
    enum aw_err err = aw_yaml_parse(&tree, "f", text, strlen(text), NULL, &diag);
    assert_int_equal(err, want);
    assert_null(tree.blocks);
    return aw_diag_format(&diag, err, line, sizeof line);
}

static void plain_scalars_follow_the_core_schema(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_node_kind kind;
        double value;
        const char *why;
    } table[] = {
        {"~", AW_NODE_NULL, 0, ""},
        {"NULL", AW_NODE_NULL, 0, ""},
        {"\"\"", AW_NODE_STRING, 0, "quoted nothing is a string"},
        {"nUll", AW_NODE_STRING, 0, "not among the spellings"},
        {"True", AW_NODE_BOOL, 1, ""},
        {"FALSE", AW_NODE_BOOL, 0, ""},
        {"yes", AW_NODE_STRING, 0, "YAML 1.1 took it for true"},
        {"no", AW_NODE_STRING, 0, "and Norway for false"},
        {"on", AW_NODE_STRING, 0, ""},
        {"'true'", AW_NODE_STRING, 0, "quoted"},
        {"-12", AW_NODE_INTEGER, -12, ""},
        {"+7", AW_NODE_INTEGER, 7, ""},
        {"010", AW_NODE_INTEGER, 10, "octal is 0o in YAML 1.2"},
        {"0o17", AW_NODE_INTEGER, 15, ""},
        {"0xfF", AW_NODE_INTEGER, 255, ""},
        {"0o8", AW_NODE_STRING, 0, "not octal"},
        {"0x", AW_NODE_STRING, 0, "no digits"},
        {"-0x1", AW_NODE_STRING, 0, "no sign before a base"},
        {"-", AW_NODE_LIST, 0, "a dash begins a list"},
        {"1_000", AW_NODE_STRING, 0, "YAML 1.1 only"},
        {"9223372036854775807", AW_NODE_INTEGER, 0x1p63, "largest"},
        {"-9223372036854775808", AW_NODE_INTEGER, -0x1p63, "smallest"},
        {"0.5", AW_NODE_REAL, 0.5, ""},
        {".5", AW_NODE_REAL, 0.5, ""},
        {"5.", AW_NODE_REAL, 5, ""},
        {"1e3", AW_NODE_REAL, 1000, ""},
        {"-1.5E-3", AW_NODE_REAL, -0.0015, ""},
        {".inf", AW_NODE_REAL, INFINITY, ""},
        {"-.Inf", AW_NODE_REAL, -INFINITY, ""},
        {"1.2.3", AW_NODE_STRING, 0, "a version"},
        {"12:30", AW_NODE_STRING, 0, "YAML 1.1 took it for 750"},
        {"2001-01-01", AW_NODE_STRING, 0, "no dates"},
        {"250m", AW_NODE_STRING, 0, "a quantity"},
        {"!!str 12", AW_NODE_STRING, 0, "tagged"},
        {"! 12", AW_NODE_STRING, 0, "non-specific tag"},
        {"!!int '12'", AW_NODE_INTEGER, 12, "tagged"},
        {"!!float 1", AW_NODE_REAL, 1, "tagged"},
        {"!!seq [1]", AW_NODE_LIST, 0, "tagged"},
        {"!!map {a: 1}", AW_NODE_MAP, 0, "tagged"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct aw_tree tree;
        const struct aw_node *root;
        assert_ok(aw_yaml_parse(&tree, NULL, table[i].text, strlen(table[i].text), NULL, NULL));
        assert_ok(aw_tree_only(&tree, &root, NULL));
        if (root->kind != table[i].kind)
            fail_msg("%s (%s) has kind %d", table[i].text, table[i].why, (int)root->kind);
        if (root->kind == AW_NODE_INTEGER)
            assert_true((double)root->integer == table[i].value);
        if (root->kind == AW_NODE_REAL)
            assert_true(root->real == table[i].value);
        if (root->kind == AW_NODE_BOOL)
            assert_true(root->boolean == (table[i].value != 0));
        aw_tree_deinit(&tree);
    }
}

static void every_value_and_key_knows_its_place_in_bytes(void **state)
{
    (void)state;
    const char *text = "# comment\n"
                       "goals:\n"
                       "  - name: \"caf\xc3\xa9\"\n"
                       "    \xc3\xa9t\xc3\xa9: [1, '\xe2\x82\xac', {x: 2}]\n"
                       "empty:\n";
    struct aw_tree tree;
    assert_ok(aw_yaml_parse(&tree, "f", text, strlen(text), NULL, NULL));
    const struct aw_node *goals = aw_node_find(tree.first, "goals");
    assert_true(goals->key_line == 2 && goals->key_column == 1);
    assert_true(goals->line == 3 && goals->column == 3);
    const struct aw_node *name = aw_node_find(goals->first, "name");
    assert_true(name->key_line == 3 && name->key_column == 5);
    assert_true(name->line == 3 && name->column == 11);
    const struct aw_node *summer = aw_node_find(goals->first, "\xc3\xa9t\xc3\xa9");
    assert_true(summer->line == 4 && summer->column == 12);
    const struct aw_node *euro = summer->first->next;
    assert_string_equal(euro->text, "\xe2\x82\xac");
    assert_int_equal(euro->text_len, 3);
    assert_true(euro->line == 4 && euro->column == 16);
    assert_true(euro->next->line == 4 && euro->next->column == 23);
    const struct aw_node *x = aw_node_find(euro->next, "x");
    assert_true(x->column == 27 && x->key_column == 24);
    assert_int_equal(aw_node_find(tree.first, "empty")->kind, AW_NODE_NULL);
    aw_tree_deinit(&tree);
}

static void a_stream_may_hold_several_documents(void **state)
{
    (void)state;
    const char *text = "a: 1\n---\nb: 2\n---\n- 3\n";
    struct aw_tree tree;
    const struct aw_node *root;
    struct aw_diag diag;
    assert_ok(aw_yaml_parse(&tree, "f", text, strlen(text), NULL, NULL));
    assert_int_equal(tree.doc_count, 3);
    assert_non_null(aw_node_find(tree.first, "a"));
    assert_non_null(aw_node_find(tree.first->next, "b"));
    assert_int_equal(tree.first->next->next->kind, AW_NODE_LIST);
    assert_null(tree.first->next->next->next);
    assert_int_equal(aw_tree_only(&tree, &root, &diag), AW_ERR_FORMAT);
    assert_int_equal(diag.line, 3);
    assert_string_equal(diag.text, "expected one document, found 3");
    aw_tree_deinit(&tree);
    assert_ok(aw_yaml_parse(&tree, "f", "# nothing\n", 10, NULL, NULL));
    assert_int_equal(tree.doc_count, 0);
    assert_int_equal(aw_tree_only(&tree, &root, &diag), AW_ERR_FORMAT);
    aw_tree_deinit(&tree);
    assert_string_equal(refusal("a: &x 1\n---\nb: *x\n", AW_ERR_FORMAT),
                        "f:3:4: no anchor \"x\" comes before this alias");
}

static void aliases_bring_copies(void **state)
{
    (void)state;
    const char *text = "base: &b {cpu: 1, list: [true, 2.5, s]}\nuse: *b\nagain:\n  - *b\n"
                       "later: &b 7\nlast: *b\n";
    struct aw_tree tree;
    char path[AW_DIAG_KEY_MAX];
    assert_ok(aw_yaml_parse(&tree, "f", text, strlen(text), NULL, NULL));
    const struct aw_node *use = aw_node_find(tree.first, "use");
    const struct aw_node *cpu = aw_node_find(use, "cpu");
    assert_int_equal(cpu->integer, 1);
    assert_string_equal(aw_node_path(cpu, path, sizeof path), "use.cpu");
    assert_int_equal(cpu->line, 1); /* where it was written */
    assert_int_equal(use->key_line, 2);
    const struct aw_node *list = aw_node_find(aw_node_find(tree.first, "again")->first, "list");
    assert_true(list->first->boolean);
    assert_true(list->first->next->real == 2.5);
    assert_string_equal(list->last->text, "s");
    assert_string_equal(aw_node_path(list->last, path, sizeof path), "again[0].list[2]");
    assert_int_equal(aw_node_find(tree.first, "last")->integer, 7); /* the newest anchor wins */
    aw_tree_deinit(&tree);
}

static void what_is_refused_says_where_and_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } table[] = {
        {"a: 1\nb: 2\na: 3\n", "f:3:1: a: the key \"a\" is already on line 1"},
        {"x:\n  1: a\n  '1': b\n", "f:3:3: x.1: the key \"1\" is already on line 2"},
        {"a: {<<: {b: 1}}", "f:1:5: merge keys (<<) are not supported: write the keys out"},
        {"[a]: 1", "f:1:1: expected a key, found a list"},
        {"? {a: 1}\n: 2\n", "f:1:3: expected a key, found a map"},
        {"a: !secret x", "f:1:4: the tag \"!secret\" does not fit here"},
        {"a: !!int x", "f:1:4: the tag \"tag:yaml.org,2002:int\" does not fit here"},
        {"a: !!python/object x",
         "f:1:4: the tag \"tag:yaml.org,2002:python/object\" does not fit here"},
        {"a: !!map [1]", "f:1:4: the tag \"tag:yaml.org,2002:map\" does not fit here"},
        {"%TAG !e! tag:x,2000:\n---\na: 1\n", "f:1:1: %TAG directives are not supported"},
        {"a: *b", "f:1:4: no anchor \"b\" comes before this alias"},
        {"a: &x [1, *x]", "f:1:11: the alias \"x\" stands inside its own value"},
        {"a: 9223372036854775808",
         "f:1:4: expected a whole number that fits 64 bits, found \"9223372036854775808\""},
        {"a: 1e999", "f:1:4: expected a number that fits, found \"1e999\""},
        {"a: \"x\\0y\"", "f:1:4: a string may not contain a NUL character"},
        {"a: [1, 2\nb: 3\n",
         "f:2:2: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence"},
        {"a:\n\tb: 1\n", "f:2:1: not valid YAML: found character that cannot start any token while "
                         "scanning for the next token"},
        {"a: \x01", "f:1:4: not valid YAML: control characters are not allowed (0x01)"},
        {"a: 1\nb: \xff\n", "f:2:4: expected UTF-8 text, found the byte 0xff"},
        {"caf\xc3\xa9: @x", "f:1:8: not valid YAML: found character that cannot start any token "
                            "while scanning for the next token"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_string_equal(refusal(table[i].text, AW_ERR_FORMAT), table[i].want);
}

/* `count` times `unit`, then `tail`, in one block for the caller to free. */
static char *repeated(const char *head, const char *unit, size_t count, const char *tail)
{
    size_t n = strlen(unit);
    char *text = malloc(strlen(head) + n * count + strlen(tail) + 1);
    assert_non_null(text);
    char *at = text;
    memcpy(at, head, strlen(head));
    at += strlen(head);
    for (size_t i = 0; i < count; i++, at += n)
        memcpy(at, unit, n);
    memcpy(at, tail, strlen(tail) + 1);
    return text;
}

static void limits_hold_against_hostile_text(void **state)
{
    (void)state;
    const char *laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
                         "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                         "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                         "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                         "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
                         "f: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    assert_string_equal(refusal(laughs, AW_ERR_LIMIT),
                        "f:5:20: expected aliases to bring at most 65536 values");
    static const struct {
        const char *head, *unit;
        size_t count;
        const char *tail, *want;
    } table[] = {
        {"", "[", AW_TREE_DEPTH_MAX + 1, "",
         "f:1:65: expected at most 64 levels of lists and maps"},
        {"", "[", 100000, "", "f:1:65: expected at most 64 levels of lists and maps"},
        {"a: &a [[1]]\nb: ", "[", AW_TREE_DEPTH_MAX - 2, "*a",
         "f:2:66: expected at most 64 levels of lists and maps"},
        {"[", "&a 1,", AW_TREE_ANCHORS_MAX + 1, "]", "f:1:1282: expected at most 256 anchors"},
        {"", "--- x\n", AW_TREE_DOCS_MAX + 1, "", "f:65537:5: expected at most 65536 documents"},
        {"[", "1,", AW_TREE_NODES_MAX, "]", "f:1:2097152: expected at most 1048576 values"},
        {"", "%TAG !a! b\n", 100000, "", "f: %TAG directives are not supported"},
        {"", "xxxxxxxxxxxxxxxx", (AW_TREE_BYTES_MAX >> 4) + 1, "",
         "f: expected at most 16 MiB of text, found 16777232 bytes"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char *text = repeated(table[i].head, table[i].unit, table[i].count, table[i].tail);
        assert_string_equal(refusal(text, AW_ERR_LIMIT), table[i].want);
        free(text);
    }
    /* Exactly at the limit it is fine. */
    char *deep = repeated("", "[", AW_TREE_DEPTH_MAX,
                          "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    struct aw_tree tree;
    assert_ok(aw_yaml_parse(&tree, "f", deep, strlen(deep), NULL, NULL));
    aw_tree_deinit(&tree);
    free(deep);
}

/* Ten thousand workloads and what they scale are twenty thousand documents. */
static void a_file_may_hold_more_than_1024_documents(void **state)
{
    (void)state;
    char *text = repeated("", "--- x\n", 20000, "");
    struct aw_tree tree;
    assert_ok(aw_yaml_parse(&tree, "f", text, strlen(text), NULL, NULL));
    assert_int_equal(tree.doc_count, 20000);
    aw_tree_deinit(&tree);
    free(text);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    enum { LINES = 200 };
    char text[LINES * 32];
    size_t len = 0;
    for (int i = 0; i < LINES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "k%d: [%d, &a {b: c}, *a]\n", i, i);
    uint64_t n = 0;
    for (enum aw_err err = AW_ERR_NOMEM; err; n++) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        struct aw_tree tree;
        err = aw_yaml_parse(&tree, "f", text, len, &counting.alloc, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        aw_tree_deinit(&tree);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_true(n > 3);
}

AW_TEST_GROUP("yaml")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_follow_the_core_schema),
        cmocka_unit_test(every_value_and_key_knows_its_place_in_bytes),
        cmocka_unit_test(a_stream_may_hold_several_documents),
        cmocka_unit_test(aliases_bring_copies),
        cmocka_unit_test(what_is_refused_says_where_and_why),
        cmocka_unit_test(limits_hold_against_hostile_text),
        cmocka_unit_test(a_file_may_hold_more_than_1024_documents),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
