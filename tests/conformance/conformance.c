/* conformance.c - reads case files, finds the kind of each case, and compares. */
#include "conformance.h"

#include "conformance_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void aw__case_fail(struct aw__case *c, const struct aw_node *node, const char *text)
{
    if (c->err)
        return;
    c->err = aw_fail(&c->diag, AW_ERR_CONFIG, "%s", text);
    if (node)
        aw_tree_place(c->tree, node, c->err, &c->diag);
}

const struct aw_node *aw__case_need(struct aw__case *c, const struct aw_node *map, const char *key)
{
    const struct aw_node *node = NULL;
    if (!c->err)
        c->err = aw_tree_require(c->tree, map, key, &node, &c->diag);
    return node;
}

bool aw__case_has(const struct aw_node *map, const char *key)
{
    const struct aw_node *node = aw_node_find(map, key);
    return node && node->kind != AW_NODE_NULL;
}

int64_t aw__case_whole(struct aw__case *c, const struct aw_node *node, int64_t min, int64_t max)
{
    int64_t value = 0;
    if (c->err)
        return 0;
    if (node->kind == AW_NODE_REAL && fabs(node->real) < 0x1p53 &&
        trunc(node->real) == node->real) {
        value = (int64_t)node->real;
        if (value >= min && value <= max)
            return value;
    }
    c->err = aw_tree_i64(c->tree, node, min, max, &value, &c->diag);
    return value;
}

int64_t aw__case_i64(struct aw__case *c, const struct aw_node *map, const char *key, int64_t min,
                     int64_t max)
{
    const struct aw_node *node = aw__case_need(c, map, key);
    return node ? aw__case_whole(c, node, min, max) : 0;
}

static double number(struct aw__case *c, const struct aw_node *node)
{
    double value = 0;
    if (!c->err)
        c->err = aw_tree_real(c->tree, node, -INFINITY, INFINITY, &value, &c->diag);
    return value;
}

double aw__case_real(struct aw__case *c, const struct aw_node *map, const char *key)
{
    const struct aw_node *node = aw__case_need(c, map, key);
    return node ? number(c, node) : 0;
}

const char *aw__case_text(struct aw__case *c, const struct aw_node *map, const char *key)
{
    const struct aw_node *node = aw__case_need(c, map, key);
    const char *text = "";
    if (node)
        c->err = aw_tree_string(c->tree, node, &text, &c->diag);
    return text;
}

const struct aw_node *aw__case_list(struct aw__case *c, const struct aw_node *map, const char *key)
{
    const struct aw_node *list = aw__case_need(c, map, key);
    if (!list)
        return NULL;
    c->err = aw_tree_list(c->tree, list, &c->diag);
    if (c->err)
        return NULL;
    if (list->count > AW__CASE_LIST_MAX) {
        aw__case_fail(c, list, "the list is longer than a case may have");
        return NULL;
    }
    return list->first;
}

void aw__case_numbers(struct aw__case *c, const struct aw_node *list, double *ret, uint32_t count,
                      double max)
{
    memset(ret, 0, count * sizeof *ret);
    if (!c->err)
        c->err = aw_tree_list(c->tree, list, &c->diag);
    if (c->err)
        return;
    if (list->count != count) {
        aw__case_fail(c, list, "the list has another length than its kind of entry");
        return;
    }
    const struct aw_node *item = list->first;
    for (uint32_t i = 0; i < count; i++, item = item->next)
        if (!c->err)
            c->err = aw_tree_real(c->tree, item, -max, max, &ret[i], &c->diag);
}

double aw__case_key(struct aw__case *c, const struct aw_node *node)
{
    double value = 0;
    if (!c->err && aw_text_parse_real(node->key, &value) != AW_OK)
        aw__case_fail(c, node, "expected a number as key");
    return value;
}

static void write_down(struct aw__case *c, const char *label, const char *expected,
                       const char *found)
{
    const char *comma = c->expected.len ? ", " : "";
    aw_text_add(&c->expected, "%s%s %s", comma, label, expected);
    aw_text_add(&c->found, "%s%s %s", comma, label, found);
}

const struct aw_node *aw__case_expect(struct aw__case *c, const char *key)
{
    const struct aw_node *node = aw_node_find(c->expect, key);
    c->compared += node != NULL;
    return c->err ? NULL : node;
}

void aw__case_compare(struct aw__case *c, const char *label, double expected, double found,
                      double relative)
{
    char a[AW_TEXT_REAL_MAX], b[AW_TEXT_REAL_MAX];
    if (c->err)
        return;
    if (!(fabs(expected - found) <= relative * fmax(fabs(expected), fabs(found))))
        c->differs = true;
    write_down(c, label, aw_text_real(expected, a, sizeof a), aw_text_real(found, b, sizeof b));
}

void aw__case_close(struct aw__case *c, const char *key, double found, double relative)
{
    const struct aw_node *node = aw__case_expect(c, key);
    if (node)
        aw__case_compare(c, key, number(c, node), found, relative);
}

void aw__case_same(struct aw__case *c, const char *key, int64_t found)
{
    const struct aw_node *node = aw__case_expect(c, key);
    if (!node)
        return;
    char a[32], b[32];
    int64_t expected = aw__case_whole(c, node, INT64_MIN, INT64_MAX);
    c->differs |= expected != found;
    snprintf(a, sizeof a, "%" PRId64, expected);
    snprintf(b, sizeof b, "%" PRId64, found);
    write_down(c, key, a, b);
}

void aw__case_same_text(struct aw__case *c, const char *key, const char *found)
{
    const char *expected = "";
    const struct aw_node *node = aw__case_expect(c, key);
    if (!node)
        return;
    c->err = aw_tree_string(c->tree, node, &expected, &c->diag);
    c->differs |= strcmp(expected, found) != 0;
    write_down(c, key, expected, found);
}

void aw__case_same_bool(struct aw__case *c, const char *key, bool found)
{
    bool expected = false;
    const struct aw_node *node = aw__case_expect(c, key);
    if (!node)
        return;
    c->err = aw_tree_bool(c->tree, node, &expected, &c->diag);
    c->differs |= expected != found;
    write_down(c, key, expected ? "true" : "false", found ? "true" : "false");
}

#define TABLE_COUNT 2

static const struct aw__case_kind *const tables[TABLE_COUNT] = {aw__case_kinds_hpa,
                                                                aw__case_kinds_vpa};

static const struct aw__case_kind *find_kind(const char *name)
{
    for (size_t t = 0; t < TABLE_COUNT; t++)
        for (const struct aw__case_kind *kind = tables[t]; kind->kind; kind++)
            if (strcmp(kind->kind, name) == 0)
                return kind;
    return NULL;
}

const char *aw_conformance_kind(uint32_t index)
{
    for (size_t t = 0; t < TABLE_COUNT; t++)
        for (const struct aw__case_kind *kind = tables[t]; kind->kind; kind++)
            if (index-- == 0)
                return kind->kind;
    return NULL;
}

static void copy_text(const struct aw_node *map, const char *key, char *ret, size_t size)
{
    const struct aw_node *node = aw_node_find(map, key);
    if (node && node->kind == AW_NODE_STRING)
        snprintf(ret, size, "%s", node->text);
}

/* Every key of `expect` must have been compared; `note` is for people. */
static void check_all_compared(struct aw__case *c)
{
    uint32_t count = c->expect->count - (aw_node_find(c->expect, "note") != NULL);
    if (count == 0)
        aw__case_fail(c, c->expect, "the case expects nothing");
    else if (c->compared != count)
        aw__case_fail(c, c->expect, "an expectation is not known for this kind of case");
}

static void run_kind(struct aw__case *c, const struct aw_node *node, const char *kind_name)
{
    static const char *const case_keys[] = {"id", "kind", "source", "test", "in", "expect", NULL};
    const struct aw__case_kind *kind = find_kind(kind_name);

    c->err = aw_tree_known(c->tree, node, case_keys, &c->diag);
    if (!kind) {
        aw__case_fail(c, aw_node_find(node, "kind") ? aw_node_find(node, "kind") : node,
                      "this kind of case is not known");
        return;
    }
    c->in = aw__case_need(c, node, "in");
    c->expect = aw__case_need(c, node, "expect");
    if (!c->err)
        c->err = aw_tree_known(c->tree, c->in, kind->in_keys, &c->diag);
    if (!c->err)
        c->err = aw_tree_map(c->tree, c->expect, &c->diag);
    if (c->err)
        return;
    kind->run(c);
    if (!c->err)
        check_all_compared(c);
}

static void run_case(const struct aw_tree *tree, const struct aw_node *node,
                     struct aw_conformance_result *result)
{
    struct aw__case c = {.tree = tree};

    memset(result, 0, sizeof *result);
    result->line = node->line;
    result->column = node->column;
    aw_node_path(node, result->id, sizeof result->id);
    copy_text(node, "id", result->id, sizeof result->id);
    copy_text(node, "kind", result->kind, sizeof result->kind);
    copy_text(node, "test", result->test, sizeof result->test);
    aw_text_init(&c.expected, result->expected, sizeof result->expected);
    aw_text_init(&c.found, result->found, sizeof result->found);
    run_kind(&c, node, result->kind);
    if (c.err)
        aw_diag_format(&c.diag, c.err, result->found, sizeof result->found);
    result->passed = !c.err && !c.differs;
}

enum aw_err aw_conformance_run(const struct aw_tree *tree, aw_conformance_sink *sink, void *ctx,
                               struct aw_conformance_summary *ret, struct aw_diag *diag)
{
    const struct aw_node *root = NULL, *cases = NULL;
    struct aw_conformance_summary summary = {0};
    struct aw_conformance_result result;

    enum aw_err err = aw_tree_only(tree, &root, diag);
    if (!err)
        err = aw_tree_require(tree, root, "cases", &cases, diag);
    if (!err)
        err = aw_tree_list(tree, cases, diag);
    if (err)
        return err;
    if (cases->count == 0)
        return aw_tree_place(tree, cases, aw_fail(diag, AW_ERR_NODATA, "there are no cases"), diag);
    for (const struct aw_node *node = cases->first; node; node = node->next) {
        run_case(tree, node, &result);
        *(result.passed ? &summary.passed : &summary.failed) += 1;
        if (sink)
            sink(ctx, &result);
    }
    *ret = summary;
    return AW_OK;
}

enum aw_err aw_conformance_run_file(const char *path, const struct aw_alloc *alloc,
                                    aw_conformance_sink *sink, void *ctx,
                                    struct aw_conformance_summary *ret, struct aw_diag *diag)
{
    struct aw_tree tree = {0};
    enum aw_err err = aw_tree_load_file(&tree, path, alloc, diag);
    if (!err)
        err = aw_conformance_run(&tree, sink, ctx, ret, diag);
    aw_tree_deinit(&tree);
    return err;
}
