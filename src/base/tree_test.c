#include "base/tree.h"

#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct aw_tree tree;
static struct aw_diag diag;
static char line[1024];

static const struct aw_node *load(const char *text)
{
    const struct aw_node *root;
    assert_ok(aw_tree_load(&tree, "p.yaml", text, strlen(text), NULL, NULL));
    assert_ok(aw_tree_only(&tree, &root, NULL));
    return root;
}

/* The line for people, and checks that the error was one of configuration. */
static const char *said(enum aw_err err)
{
    assert_int_equal(err, AW_ERR_CONFIG);
    return aw_diag_format(&diag, err, line, sizeof line);
}

static void getters_give_the_value_or_say_what_they_found(void **state)
{
    (void)state;
    const struct aw_node *root = load("goals:\n  slo: {target: abc, share: 0.5, n: 3}\n"
                                      "on: true\nlist: [a, 2, [], {}, ~, .inf]\n");
    const struct aw_node *slo = aw_node_find(aw_node_find(root, "goals"), "slo"), *node;
    const struct aw_node *item = aw_node_find(root, "list")->first;
    int64_t whole = 7;
    double real = 7;
    bool flag = false;
    const char *text = NULL;
    assert_ok(aw_tree_require(&tree, slo, "target", &node, &diag));
    assert_ok(aw_tree_string(&tree, node, &text, &diag));
    assert_string_equal(text, "abc");
    assert_ok(aw_tree_bool(&tree, aw_node_find(root, "on"), &flag, &diag));
    assert_true(flag);
    assert_ok(aw_tree_i64(&tree, aw_node_find(slo, "n"), 3, 3, &whole, &diag));
    assert_ok(aw_tree_real(&tree, aw_node_find(slo, "n"), 0, 3, &real, &diag));
    assert_true(whole == 3 && real == 3);
    assert_ok(aw_tree_scalar(&tree, aw_node_find(slo, "share"), &text, &diag));
    assert_string_equal(text, "0.5");
    whole = 7;
    real = 7;
    assert_string_equal(
        said(aw_tree_i64(&tree, node, INT64_MIN, INT64_MAX, &whole, &diag)),
        "p.yaml:2:17: goals.slo.target: expected a whole number, found the string \"abc\"");
    assert_string_equal(
        said(aw_tree_i64(&tree, aw_node_find(slo, "n"), 4, INT64_MAX, &whole, &diag)),
        "p.yaml:2:37: goals.slo.n: expected a whole number of at least 4, found 3");
    assert_string_equal(said(aw_tree_i64(&tree, aw_node_find(slo, "n"), -1, 2, &whole, &diag)),
                        "p.yaml:2:37: goals.slo.n: expected a whole number from -1 to 2, found 3");
    assert_string_equal(
        said(aw_tree_i64(&tree, aw_node_find(slo, "share"), INT64_MIN, 2, &whole, &diag)),
        "p.yaml:2:29: goals.slo.share: expected a whole number of at most 2, found 0.5");
    assert_string_equal(said(aw_tree_real(&tree, aw_node_find(slo, "share"), 0.6, 1, &real, &diag)),
                        "p.yaml:2:29: goals.slo.share: expected a number from 0.6 to 1, found 0.5");
    assert_string_equal(said(aw_tree_string(&tree, aw_node_find(root, "on"), &text, &diag)),
                        "p.yaml:3:5: on: expected a string, found true");
    assert_string_equal(said(aw_tree_bool(&tree, item, &flag, &diag)),
                        "p.yaml:4:8: list[0]: expected true or false, found the string \"a\"");
    item = item->next->next;
    assert_string_equal(said(aw_tree_map(&tree, item, &diag)),
                        "p.yaml:4:14: list[2]: expected a map, found an empty list");
    item = item->next;
    assert_string_equal(said(aw_tree_list(&tree, item, &diag)),
                        "p.yaml:4:18: list[3]: expected a list, found an empty map");
    item = item->next;
    assert_string_equal(said(aw_tree_scalar(&tree, item, &text, &diag)),
                        "p.yaml:4:22: list[4]: expected a string or a number, found null");
    item = item->next;
    assert_string_equal(said(aw_tree_real(&tree, item, -INFINITY, INFINITY, &real, &diag)),
                        "p.yaml:4:25: list[5]: expected a finite number, found .inf");
    assert_string_equal(said(aw_tree_list(&tree, root, &diag)),
                        "p.yaml:1:1: expected a list, found a map");
    assert_true(whole == 7 && real == 7);
    assert_int_equal(aw_tree_list(&tree, root, NULL), AW_ERR_CONFIG);
    aw_tree_deinit(&tree);
}

static void missing_and_unknown_keys_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"target", "bounds", NULL};
    const struct aw_node *root = load("a:\n  target: 1\n  bonds: 2\n"), *node = NULL;
    const struct aw_node *a = aw_node_find(root, "a");
    assert_string_equal(said(aw_tree_require(&tree, a, "bounds", &node, &diag)),
                        "p.yaml:2:3: a: missing key \"bounds\"");
    assert_null(node);
    assert_string_equal(said(aw_tree_known(&tree, a, names, &diag)),
                        "p.yaml:3:3: a.bonds: unknown key \"bonds\" (did you mean \"bounds\"?)");
    assert_string_equal(said(aw_tree_known(&tree, root, names, &diag)),
                        "p.yaml:1:1: a: unknown key \"a\"");
    assert_string_equal(said(aw_tree_known(&tree, a->first, names, &diag)),
                        "p.yaml:2:11: a.target: expected a map, found 1");
    assert_null(aw_node_find(a->first, "x"));
    assert_null(aw_node_find(NULL, "x"));
    aw_tree_deinit(&tree);
}

static void paths_quote_what_would_mislead_and_are_cut_at_their_end(void **state)
{
    (void)state;
    char path[AW_DIAG_KEY_MAX], small[8];
    const struct aw_node *root = load("app.io/x:\n  - {\"\": [1]}\n");
    const struct aw_node *deep = root->first->first->first->first;
    assert_string_equal(aw_node_path(deep, path, sizeof path), "\"app.io/x\"[0].\"\"[0]");
    assert_string_equal(aw_node_path(deep, small, sizeof small), "\"app.io");
    assert_string_equal(aw_node_path(root, path, sizeof path), "");
    aw_tree_deinit(&tree);
}

static void the_format_follows_the_name_or_the_first_character(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        bool accepted;
        const char *why;
    } table[] = {
        {"a.json", "{\"a\": 1}", true, "JSON"},
        {"a.JSON", "{\"a\": 1}", true, "endings in any case"},
        {"a.json", "{a: 1}", false, "JSON is strict"},
        {"a.yaml", "{a: 1}", true, "YAML in flow form"},
        {"a.yml", "a: 1", true, "YAML"},
        {"a.conf", " {a: 1}", false, "a brace means JSON"},
        {NULL, "[1]", true, "a bracket too"},
        {NULL, "a: 1", true, "anything else is YAML"},
        {"a.yaml", "", false, "empty"},
        {"a.yaml", "# x\n", false, "only comments"},
        {"a.json", "", false, "empty"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        enum aw_err err =
            aw_tree_load(&tree, table[i].name, table[i].text, strlen(table[i].text), NULL, &diag);
        if ((err == AW_OK) != table[i].accepted)
            fail_msg("%s: %s", table[i].why, diag.text);
        assert_true(err == AW_OK || diag.text[0]);
        aw_tree_deinit(&tree);
        assert_null(tree.first);
    }
}

static void a_file_that_cannot_be_loaded_says_why(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-tree-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(aw_tree_load_file(&tree, path, NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.file, path);
    assert_string_equal(diag.text, "the file is empty");
    assert_int_equal(write(fd, "a: 1\nb: \xfe\n", 10), 10);
    assert_int_equal(aw_tree_load_file(&tree, path, NULL, &diag), AW_ERR_FORMAT);
    assert_true(diag.line == 2 && diag.column == 4);
    assert_string_equal(diag.text, "expected UTF-8 text, found the byte 0xfe");
    assert_int_equal(ftruncate(fd, 4), 0);
    assert_ok(aw_tree_load_file(&tree, path, NULL, &diag));
    assert_int_equal(aw_node_find(tree.first, "a")->integer, 1);
    assert_string_equal(tree.file, path);
    aw_tree_deinit(&tree);
    assert_int_equal(ftruncate(fd, (off_t)AW_TREE_BYTES_MAX + 1), 0);
    assert_int_equal(aw_tree_load_file(&tree, path, NULL, &diag), AW_ERR_LIMIT);
    close(fd);
    unlink(path);
    assert_int_equal(aw_tree_load_file(&tree, path, NULL, &diag), AW_ERR_NOTFOUND);
    assert_string_equal(diag.text, "cannot open: No such file or directory");
    assert_int_equal(aw_tree_load_file(&tree, "/tmp", NULL, &diag), AW_ERR_NOTFOUND);
    assert_string_equal(diag.text, "cannot read: Is a directory");
}

static void a_dash_is_standard_input(void **state)
{
    (void)state;
    int ends[2], held = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "{\"a\": x}", 8), 8);
    close(ends[1]);
    assert_true(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends[0]);
    assert_int_equal(aw_tree_load_file(&tree, "-", NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(aw_diag_format(&diag, AW_ERR_FORMAT, line, sizeof line),
                        "(standard input):1:7: not valid JSON: invalid token, found \"x\"");
    if (held >= 0) {
        dup2(held, STDIN_FILENO);
        close(held);
    }
}

AW_TEST_GROUP("tree")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(getters_give_the_value_or_say_what_they_found),
        cmocka_unit_test(missing_and_unknown_keys_are_named),
        cmocka_unit_test(paths_quote_what_would_mislead_and_are_cut_at_their_end),
        cmocka_unit_test(the_format_follows_the_name_or_the_first_character),
        cmocka_unit_test(a_file_that_cannot_be_loaded_says_why),
        cmocka_unit_test(a_dash_is_standard_input),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
