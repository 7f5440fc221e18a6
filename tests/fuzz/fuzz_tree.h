/* fuzz_tree.h - what holds for every object tree, whichever text it came from. */
#ifndef AW_TESTS_FUZZ_TREE_H
#define AW_TESTS_FUZZ_TREE_H

#include "fuzz.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* Beyond this an alias bomb within its budget would make a JSON text of hundreds of megabytes. */
#define ROUND_TRIP_BYTES_MAX ((size_t)1 << 20)

/* Links, places, index and depth; returns the bytes of text below. */
static inline size_t check_node(const struct aw_node *node, uint32_t depth)
{
    char path[AW_DIAG_KEY_MAX], found[512];
    size_t bytes = node->text_len + (node->key ? strlen(node->key) : 0) + 1;
    AW_ASSERT(node->line >= 1 && node->column >= 1);
    AW_ASSERT(strlen(node->text) == node->text_len);
    AW_ASSERT(!node->key == !(node->parent && node->parent->kind == AW_NODE_MAP));
    AW_ASSERT(aw_node_describe(node, found, sizeof found)[0]);
    if (depth < 4)
        AW_ASSERT(!aw_node_path(node, path, sizeof path)[0] == !node->parent);
    if (node->kind != AW_NODE_LIST && node->kind != AW_NODE_MAP)
        return bytes;
    AW_ASSERT(depth < AW_TREE_DEPTH_MAX);
    uint32_t count = 0;
    for (const struct aw_node *child = node->first; child; child = child->next, count++) {
        AW_ASSERT(child->parent == node);
        if (node->kind == AW_NODE_MAP)
            AW_ASSERT(aw_node_find(node, child->key) == child);
        bytes += check_node(child, depth + 1);
    }
    AW_ASSERT(count == node->count);
    return bytes;
}

/* Written as JSON and read again it is the same value. */
static inline void check_round_trip(const struct aw_node *node)
{
    char *text = NULL;
    size_t size = 0;
    struct aw_tree tree;
    json_t *value = aw_json_from_node(node);
    if (!value)
        return; /* .inf and .nan have no JSON */
    FILE *stream = open_memstream(&text, &size);
    AW_ASSERT(stream && aw_json_write(value, stream, size % 3) == AW_OK);
    AW_ASSERT(fclose(stream) == 0);
    AW_ASSERT(aw_json_parse(&tree, "again", text, size, NULL, NULL) == AW_OK);
    json_t *back = aw_json_from_node(tree.first);
    AW_ASSERT(json_equal(value, back));
    aw_tree_deinit(&tree);
    json_decref(back);
    json_decref(value);
    free(text);
}

static inline void check_tree(const struct aw_tree *tree)
{
    uint32_t docs = 0;
    for (const struct aw_node *doc = tree->first; doc; doc = doc->next, docs++)
        if (check_node(doc, 0) < ROUND_TRIP_BYTES_MAX)
            check_round_trip(doc);
    AW_ASSERT(docs == tree->doc_count);
}

#endif
