/*
 * tree.c - building, reading and complaining about the one object tree.
 *
 * Maps get an array of their children sorted by key when they are complete. It finds duplicates
 * and keys in O(n log n) and O(log n) whatever the keys are; a hash table would be as quick on
 * friendly input and quadratic on keys chosen to collide.
 */
#include "base/tree.h"

#include "base/conf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/yaml.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Blocks double from the first to the largest size; a larger request gets a block of its own. */
#define BLOCK_BYTES_MIN ((size_t)4 << 10)
#define BLOCK_BYTES_MAX ((size_t)1 << 20)

struct aw_tree_block {
    struct aw_tree_block *older;
    struct aw_arena arena;
};

static size_t block_header(void)
{
    return (sizeof(struct aw_tree_block) + 15) / 16 * 16;
}

static void *tree_alloc(struct aw_tree *tree, size_t count, size_t size)
{
    struct aw_tree_block *block = tree->blocks;
    void *part = block ? aw_arena_alloc(&block->arena, count, size) : NULL;
    if (part)
        return part;
    /* Counts and sizes are bounded by AW_TREE_NODES_MAX and AW_TREE_BYTES_MAX: no overflow. */
    size_t need = count * size + 16;
    size_t bytes = block ? 2 * block->arena.size : BLOCK_BYTES_MIN;
    bytes = bytes > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX : bytes;
    bytes = bytes < need ? need : bytes;
    block = aw_alloc_new(tree->alloc, block_header() + bytes, 1);
    if (!block)
        return NULL;
    block->older = tree->blocks;
    block->arena =
        (struct aw_arena){.base = (unsigned char *)block + block_header(), .size = bytes};
    tree->blocks = block;
    return aw_arena_alloc(&block->arena, count, size);
}

void aw__tree_init(struct aw_tree *tree, const char *name, const struct aw_alloc *alloc)
{
    *tree = (struct aw_tree){.alloc = alloc};
    if (name)
        snprintf(tree->file, sizeof tree->file, "%s", name);
}

void aw_tree_deinit(struct aw_tree *tree)
{
    struct aw_tree_block *block = tree->blocks;
    while (block) {
        struct aw_tree_block *older = block->older;
        aw_alloc_free(tree->alloc, block);
        block = older;
    }
    *tree = (struct aw_tree){0};
}

enum aw_err aw__tree_check_bytes(const char *name, const char *bytes, size_t len,
                                 struct aw_diag *diag)
{
    if (len > AW_TREE_BYTES_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, NULL,
                          "expected at most %zu MiB of text, found %zu bytes",
                          AW_TREE_BYTES_MAX >> 20, len);
    size_t bad = aw_text_utf8_bad(bytes, len);
    if (bad < len) {
        uint32_t line, column;
        aw_text_place(bytes, bad, &line, &column);
        return aw_fail_at(diag, AW_ERR_FORMAT, name, line, column, NULL,
                          "expected UTF-8 text, found the byte 0x%02x", (unsigned char)bytes[bad]);
    }
    return AW_OK;
}

enum aw_err aw__tree_text(struct aw_tree *tree, const char *bytes, size_t len, const char **ret,
                          struct aw_diag *diag)
{
    char *copy = tree_alloc(tree, len + 1, 1);
    if (!copy)
        return aw_fail_at(diag, AW_ERR_NOMEM, tree->file, 0, 0, NULL, "out of memory");
    memcpy(copy, bytes, len);
    *ret = copy;
    return AW_OK;
}

enum aw_err aw__tree_add(struct aw_tree *tree, struct aw_node *parent, const char *key,
                         struct aw__tree_place key_place, struct aw__tree_place place,
                         struct aw_node **ret, struct aw_diag *diag)
{
    if (tree->node_count >= AW_TREE_NODES_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, tree->file, place.line, place.column, NULL,
                          "expected at most %u values", AW_TREE_NODES_MAX);
    if (!parent && tree->doc_count >= AW_TREE_DOCS_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, tree->file, place.line, place.column, NULL,
                          "expected at most %u documents", AW_TREE_DOCS_MAX);
    struct aw_node *node = tree_alloc(tree, 1, sizeof *node);
    if (!node)
        return aw_fail_at(diag, AW_ERR_NOMEM, tree->file, 0, 0, NULL, "out of memory");
    node->line = place.line;
    node->column = place.column;
    node->key = key;
    node->key_line = key ? key_place.line : 0;
    node->key_column = key ? key_place.column : 0;
    node->parent = parent;
    node->text = "";
    tree->node_count++;
    struct aw_node **first = parent ? &parent->first : &tree->first;
    struct aw_node **last = parent ? &parent->last : &tree->last;
    *(*last ? &(*last)->next : first) = node;
    *last = node;
    if (parent)
        parent->count++;
    else
        tree->doc_count++;
    *ret = node;
    return AW_OK;
}

/* Bottom-up merge sort, stable; `scratch` is as long as `item`. Returns whichever of the two holds
 * the result. */
static struct aw_node **sort_by_key(struct aw_node **item, struct aw_node **scratch, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t middle = start + width < n ? start + width : n;
            size_t end = middle + width < n ? middle + width : n;
            size_t a = start, b = middle;
            for (size_t k = start; k < end; k++) {
                bool left = b == end || (a < middle && strcmp(item[a]->key, item[b]->key) <= 0);
                scratch[k] = left ? item[a++] : item[b++];
            }
        }
        struct aw_node **held = item;
        item = scratch;
        scratch = held;
    }
    return item;
}

static bool key_before(const struct aw_node *a, const struct aw_node *b)
{
    return a->key_line != b->key_line ? a->key_line < b->key_line : a->key_column < b->key_column;
}

enum aw_err aw__tree_close_map(struct aw_tree *tree, struct aw_node *map, struct aw_diag *diag)
{
    struct aw_node **item = tree_alloc(tree, 2 * (size_t)map->count, sizeof(struct aw_node *));
    if (!item)
        return aw_fail_at(diag, AW_ERR_NOMEM, tree->file, 0, 0, NULL, "out of memory");
    size_t n = 0;
    for (struct aw_node *node = map->first; node; node = node->next)
        item[n++] = node;
    map->sorted = sort_by_key(item, item + n, n);
    const struct aw_node *twin = NULL, *original = NULL;
    for (size_t i = 1; i < n; i++) {
        const struct aw_node *node = map->sorted[i];
        if (strcmp(map->sorted[i - 1]->key, node->key) == 0 && (!twin || key_before(node, twin))) {
            twin = node;
            original = map->sorted[i - 1];
        }
    }
    if (!twin)
        return AW_OK;
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_tree_place_key(
        tree, twin,
        aw_fail(diag, AW_ERR_FORMAT, "the key %s is already on line %" PRIu32,
                aw_text_quote(twin->key, strlen(twin->key), quoted, sizeof quoted),
                original->key_line),
        diag);
}

const struct aw_node *aw_node_find(const struct aw_node *map, const char *key)
{
    if (!map || map->kind != AW_NODE_MAP)
        return NULL;
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, map->sorted[middle]->key);
        if (order == 0)
            return map->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

enum aw_err aw_tree_only(const struct aw_tree *tree, const struct aw_node **ret_root,
                         struct aw_diag *diag)
{
    if (!tree->first)
        return aw_fail_at(diag, AW_ERR_FORMAT, tree->file, 0, 0, NULL,
                          "expected a document, found nothing");
    const struct aw_node *second = tree->first->next;
    if (second)
        return aw_fail_at(diag, AW_ERR_FORMAT, tree->file, second->line, second->column, NULL,
                          "expected one document, found %" PRIu32, tree->doc_count);
    *ret_root = tree->first;
    return AW_OK;
}

/* A key is shown bare where it could be typed without quotes in a path. */
static bool is_bare(const char *key)
{
    if (!*key)
        return false;
    for (; *key; key++) {
        char c = *key;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || c == '/';
        if (!plain)
            return false;
    }
    return true;
}

static void add_path(struct aw_text *out, const struct aw_node *node)
{
    /* Depth is at most AW_TREE_DEPTH_MAX, so is the recursion. */
    if (!node->parent)
        return;
    add_path(out, node->parent);
    if (!node->key) {
        uint32_t index = 0;
        for (const struct aw_node *other = node->parent->first; other != node; other = other->next)
            index++;
        aw_text_add(out, "[%" PRIu32 "]", index);
        return;
    }
    if (out->len)
        aw_text_add(out, ".");
    char quoted[AW_TEXT_QUOTE_MAX];
    if (is_bare(node->key))
        aw_text_add(out, "%s", node->key);
    else
        aw_text_add(out, "%s", aw_text_quote(node->key, strlen(node->key), quoted, sizeof quoted));
}

const char *aw_node_path(const struct aw_node *node, char *buf, size_t size)
{
    struct aw_text out;
    aw_text_init(&out, buf, size);
    add_path(&out, node);
    return buf;
}

const char *aw_node_describe(const struct aw_node *node, char *buf, size_t size)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    struct aw_text out;
    aw_text_init(&out, buf, size);
    switch (node->kind) {
    case AW_NODE_NULL:
        aw_text_add(&out, "null");
        break;
    case AW_NODE_BOOL:
        aw_text_add(&out, "%s", node->boolean ? "true" : "false");
        break;
    case AW_NODE_INTEGER:
    case AW_NODE_REAL:
        /* Numbers as written may be megabytes long; quoting cuts them. */
        if (node->text_len <= AW_TEXT_QUOTE_SHOWN)
            aw_text_add(&out, "%s", node->text);
        else
            aw_text_add(&out, "the number %s",
                        aw_text_quote(node->text, node->text_len, quoted, sizeof quoted));
        break;
    case AW_NODE_STRING:
        aw_text_add(&out, "the string %s",
                    aw_text_quote(node->text, node->text_len, quoted, sizeof quoted));
        break;
    case AW_NODE_LIST:
        if (node->count)
            aw_text_add(&out, "a list of %" PRIu32, node->count);
        else
            aw_text_add(&out, "an empty list");
        break;
    case AW_NODE_MAP:
        aw_text_add(&out, "%s", node->count ? "a map" : "an empty map");
        break;
    }
    return buf;
}

static enum aw_err place_at(const struct aw_tree *tree, const struct aw_node *node, uint32_t line,
                            uint32_t column, enum aw_err err, struct aw_diag *diag)
{
    if (err == AW_OK || !diag)
        return err;
    char path[AW_DIAG_KEY_MAX];
    return aw_fail_at(diag, err, tree->file, line, column, aw_node_path(node, path, sizeof path),
                      "%s", diag->text);
}

enum aw_err aw_tree_place(const struct aw_tree *tree, const struct aw_node *node, enum aw_err err,
                          struct aw_diag *diag)
{
    return place_at(tree, node, node->line, node->column, err, diag);
}

enum aw_err aw_tree_place_key(const struct aw_tree *tree, const struct aw_node *node,
                              enum aw_err err, struct aw_diag *diag)
{
    return place_at(tree, node, node->key_line, node->key_column, err, diag);
}

enum aw_err aw_tree_expected(const struct aw_tree *tree, const struct aw_node *node,
                             enum aw_err err, struct aw_diag *diag, const char *expected)
{
    char found[AW_TEXT_QUOTE_MAX + 32];
    return aw_tree_place(tree, node,
                         aw_fail(diag, err, "expected %s, found %s", expected,
                                 aw_node_describe(node, found, sizeof found)),
                         diag);
}

enum aw_err aw_tree_map(const struct aw_tree *tree, const struct aw_node *node,
                        struct aw_diag *diag)
{
    return node->kind == AW_NODE_MAP ? AW_OK
                                     : aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, "a map");
}

enum aw_err aw_tree_list(const struct aw_tree *tree, const struct aw_node *node,
                         struct aw_diag *diag)
{
    return node->kind == AW_NODE_LIST ? AW_OK
                                      : aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, "a list");
}

enum aw_err aw_tree_bool(const struct aw_tree *tree, const struct aw_node *node, bool *ret,
                         struct aw_diag *diag)
{
    if (node->kind != AW_NODE_BOOL)
        return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, "true or false");
    *ret = node->boolean;
    return AW_OK;
}

enum aw_err aw_tree_string(const struct aw_tree *tree, const struct aw_node *node, const char **ret,
                           struct aw_diag *diag)
{
    if (node->kind != AW_NODE_STRING)
        return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, "a string");
    *ret = node->text;
    return AW_OK;
}

enum aw_err aw_tree_scalar(const struct aw_tree *tree, const struct aw_node *node, const char **ret,
                           struct aw_diag *diag)
{
    if (node->kind != AW_NODE_STRING && node->kind != AW_NODE_INTEGER && node->kind != AW_NODE_REAL)
        return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, "a string or a number");
    *ret = node->text;
    return AW_OK;
}

enum aw_err aw_tree_i64(const struct aw_tree *tree, const struct aw_node *node, int64_t min,
                        int64_t max, int64_t *ret, struct aw_diag *diag)
{
    if (node->kind == AW_NODE_INTEGER && node->integer >= min && node->integer <= max) {
        *ret = node->integer;
        return AW_OK;
    }
    char expected[96];
    struct aw_text out;
    aw_text_init(&out, expected, sizeof expected);
    aw_text_add(&out, "a whole number");
    if (min != INT64_MIN && max != INT64_MAX)
        aw_text_add(&out, " from %" PRId64 " to %" PRId64, min, max);
    else if (min != INT64_MIN)
        aw_text_add(&out, " of at least %" PRId64, min);
    else if (max != INT64_MAX)
        aw_text_add(&out, " of at most %" PRId64, max);
    return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, expected);
}

enum aw_err aw_tree_real(const struct aw_tree *tree, const struct aw_node *node, double min,
                         double max, double *ret, struct aw_diag *diag)
{
    bool number = node->kind == AW_NODE_INTEGER || node->kind == AW_NODE_REAL;
    double value = node->kind == AW_NODE_INTEGER ? (double)node->integer : number ? node->real : 0;
    if (number && isfinite(value) && value >= min && value <= max) {
        *ret = value;
        return AW_OK;
    }
    char expected[128], low[AW_TEXT_REAL_MAX], high[AW_TEXT_REAL_MAX];
    struct aw_text out;
    aw_text_init(&out, expected, sizeof expected);
    aw_text_add(&out, number && !isfinite(value) ? "a finite number" : "a number");
    aw_text_real(min, low, sizeof low);
    aw_text_real(max, high, sizeof high);
    if (isfinite(min) && isfinite(max))
        aw_text_add(&out, " from %s to %s", low, high);
    else if (isfinite(min))
        aw_text_add(&out, " of at least %s", low);
    else if (isfinite(max))
        aw_text_add(&out, " of at most %s", high);
    return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, expected);
}

enum aw_err aw_tree_require(const struct aw_tree *tree, const struct aw_node *map, const char *key,
                            const struct aw_node **ret, struct aw_diag *diag)
{
    enum aw_err err = aw_tree_map(tree, map, diag);
    if (err)
        return err;
    const struct aw_node *node = aw_node_find(map, key);
    if (!node)
        return aw_tree_place(tree, map, aw_fail(diag, AW_ERR_CONFIG, "missing key \"%s\"", key),
                             diag);
    *ret = node;
    return AW_OK;
}

static bool is_listed(const char *word, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(word, *names) == 0)
            return true;
    return false;
}

enum aw_err aw_tree_known(const struct aw_tree *tree, const struct aw_node *map,
                          const char *const *names, struct aw_diag *diag)
{
    enum aw_err err = aw_tree_map(tree, map, diag);
    if (err)
        return err;
    const struct aw_node *node = map->first;
    while (node && is_listed(node->key, names))
        node = node->next;
    if (!node)
        return AW_OK;
    char quoted[AW_TEXT_QUOTE_MAX];
    aw_text_quote(node->key, strlen(node->key), quoted, sizeof quoted);
    const char *nearest = aw_conf_nearest(node->key, names);
    if (nearest)
        aw_fail(diag, AW_ERR_CONFIG, "unknown key %s (did you mean \"%s\"?)", quoted, nearest);
    else
        aw_fail(diag, AW_ERR_CONFIG, "unknown key %s", quoted);
    return aw_tree_place_key(tree, node, AW_ERR_CONFIG, diag);
}

static bool ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), tail = strlen(ending);
    return len >= tail && strcasecmp(name + len - tail, ending) == 0;
}

static bool looks_like_json(const char *name, const char *bytes, size_t len)
{
    if (name && ends_with(name, ".json"))
        return true;
    if (name && (ends_with(name, ".yaml") || ends_with(name, ".yml")))
        return false;
    size_t at = 0;
    while (at < len && strchr(" \t\r\n", bytes[at]) && bytes[at])
        at++;
    return at < len && (bytes[at] == '{' || bytes[at] == '[');
}

enum aw_err aw_tree_load(struct aw_tree *tree, const char *name, const char *bytes, size_t len,
                         const struct aw_alloc *alloc, struct aw_diag *diag)
{
    enum aw_err err = looks_like_json(name, bytes, len)
                          ? aw_json_parse(tree, name, bytes, len, alloc, diag)
                          : aw_yaml_parse(tree, name, bytes, len, alloc, diag);
    if (err == AW_OK && tree->doc_count == 0) {
        aw_tree_deinit(tree);
        err = aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                         len ? "expected a document, found only comments" : "the file is empty");
    }
    return err;
}

enum aw_err aw_tree_load_file(struct aw_tree *tree, const char *path, const struct aw_alloc *alloc,
                              struct aw_diag *diag)
{
    *tree = (struct aw_tree){0};
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "(standard input)" : path;
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err =
        standard ? aw_file_read_fd(STDIN_FILENO, name, AW_TREE_BYTES_MAX, alloc, &bytes, &len, diag)
                 : aw_file_read(path, AW_TREE_BYTES_MAX, alloc, &bytes, &len, diag);
    if (err == AW_OK)
        err = aw_tree_load(tree, name, bytes, len, alloc, diag);
    aw_alloc_free(alloc, bytes);
    return err;
}
