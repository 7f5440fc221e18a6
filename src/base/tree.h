/*
 * tree.h - one object tree for JSON and YAML, in which every value knows its line and column.
 *
 * Call order: aw_tree_load_file (or aw_yaml_parse, aw_json_parse), then any getters, then
 *             aw_tree_deinit.
 * Memory:     the tree owns everything reached through it, in blocks from the allocator given to
 *             the parser; it lives until deinit. The libraries underneath (jansson, libyaml) use
 *             the process heap while they parse.
 * Threads:    a finished tree is read-only and may be shared.
 *
 * The trap: a getter fails on a value of the wrong kind, never converts. `version: 1.10` is the
 * number 1.1; the node's `text` has what was written.
 */
#ifndef AW_BASE_TREE_H
#define AW_BASE_TREE_H

#include "base/alloc.h"

#define AW_TREE_BYTES_MAX       ((size_t)16 << 20) /* of input */
#define AW_TREE_NODES_MAX       (1u << 20)         /* values of all documents together */
#define AW_TREE_DEPTH_MAX       64u                /* lists and maps within each other */
#define AW_TREE_DOCS_MAX        65536u             /* documents of one YAML stream */
#define AW_TREE_ANCHORS_MAX     256u               /* anchors of one YAML document */
#define AW_TREE_ALIAS_NODES_MAX (1u << 16)         /* values made by expanding YAML aliases */

enum aw_node_kind {
    AW_NODE_NULL,
    AW_NODE_BOOL,
    AW_NODE_INTEGER, /* fits int64_t; what does not is refused by the parser */
    AW_NODE_REAL,    /* YAML may say .inf and .nan; the getters refuse them */
    AW_NODE_STRING,
    AW_NODE_LIST,
    AW_NODE_MAP,
};

struct aw_node {
    enum aw_node_kind kind;
    uint32_t line, column;         /* where the value begins; 1-based, column in bytes */
    uint32_t key_line, key_column; /* where its key begins; 0 for list items and documents */
    uint32_t text_len;
    const char *key;  /* NULL for list items and documents; never holds a NUL byte */
    const char *text; /* scalars: as written, without quotes and escapes; no NUL byte inside */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            struct aw_node *first, *last; /* in source order */
            struct aw_node **sorted;      /* maps: children by key */
            uint32_t count;
        };
    };
    struct aw_node *next;   /* sibling, or next document */
    struct aw_node *parent; /* NULL for documents */
};

struct aw_tree_block;

struct aw_tree {
    char file[AW_DIAG_FILE_MAX]; /* for diagnostics */
    struct aw_node *first;       /* documents, linked by next */
    struct aw_node *last;
    uint32_t doc_count;
    uint32_t node_count;
    uint32_t alias_node_count;
    struct aw_tree_block *blocks;
    const struct aw_alloc *alloc;
};

/* Reads a file: JSON for .json, YAML for .yaml and .yml; for other names JSON when the first
 * character is { or [, else YAML. "-" is standard input. AW_ERR_NOTFOUND, _IO, _LIMIT, or _FORMAT
 * (empty, not UTF-8, syntax), each with its place. On failure `tree` is left zeroed. */
AW_NODISCARD enum aw_err aw_tree_load_file(struct aw_tree *tree, const char *path,
                                           const struct aw_alloc *alloc, struct aw_diag *diag);
/* The same from bytes. `name` stands for the file in diagnostics and may be NULL. */
AW_NODISCARD enum aw_err aw_tree_load(struct aw_tree *tree, const char *name, const char *bytes,
                                      size_t len, const struct aw_alloc *alloc,
                                      struct aw_diag *diag);
void aw_tree_deinit(struct aw_tree *tree); /* a zeroed tree is a no-op */

/* The single document; AW_ERR_FORMAT when there are several, at the second. */
AW_NODISCARD enum aw_err aw_tree_only(const struct aw_tree *tree, const struct aw_node **ret_root,
                                      struct aw_diag *diag);

/* The value under `key`, in O(log n); NULL when `map` is NULL, not a map or without that key. */
const struct aw_node *aw_node_find(const struct aw_node *map, const char *key);
/* Children are walked by: for (n = node->first; n; n = n->next), once the kind is known. */

/* "goals.slo.target", "containers[2].name"; "" for a document. Returns `buf`. */
const char *aw_node_path(const struct aw_node *node, char *buf, size_t size);
/* "the string \"abc\"", "3.5", "null", "a list of 3", "a map". Returns `buf`. */
const char *aw_node_describe(const struct aw_node *node, char *buf, size_t size);

/* Typed getters: AW_ERR_CONFIG and a diagnostic with file, line, column, path, what was expected
 * and what was found. `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_tree_map(const struct aw_tree *tree, const struct aw_node *node,
                                     struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_tree_list(const struct aw_tree *tree, const struct aw_node *node,
                                      struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_tree_bool(const struct aw_tree *tree, const struct aw_node *node,
                                      bool *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_tree_string(const struct aw_tree *tree, const struct aw_node *node,
                                        const char **ret, struct aw_diag *diag);
/* Bounds are inclusive; INT64_MIN and INT64_MAX, -INFINITY and INFINITY for none. A real accepts a
 * whole number. */
AW_NODISCARD enum aw_err aw_tree_i64(const struct aw_tree *tree, const struct aw_node *node,
                                     int64_t min, int64_t max, int64_t *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_tree_real(const struct aw_tree *tree, const struct aw_node *node,
                                      double min, double max, double *ret, struct aw_diag *diag);
/* What was written, of a string or a number: for quantities such as 2 and 250m. */
AW_NODISCARD enum aw_err aw_tree_scalar(const struct aw_tree *tree, const struct aw_node *node,
                                        const char **ret, struct aw_diag *diag);

/* The value under `key`, or AW_ERR_CONFIG at the map: `missing key "target"`. */
AW_NODISCARD enum aw_err aw_tree_require(const struct aw_tree *tree, const struct aw_node *map,
                                         const char *key, const struct aw_node **ret,
                                         struct aw_diag *diag);
/* AW_ERR_CONFIG at the first key of `map` that is not in the NULL-ended `names`, naming the nearest
 * that is; also when `map` is not a map. */
AW_NODISCARD enum aw_err aw_tree_known(const struct aw_tree *tree, const struct aw_node *map,
                                       const char *const *names, struct aw_diag *diag);

/* Fails with "expected <expected>, found <description>" at the value. Returns `err`. */
enum aw_err aw_tree_expected(const struct aw_tree *tree, const struct aw_node *node,
                             enum aw_err err, struct aw_diag *diag, const char *expected);
/* Gives a diagnostic that has its text already the place and path of a value, or of its key.
 * Returns `err`, and does nothing for AW_OK: `err = aw_tree_place(tree, node, parse(...), diag)`.
 */
enum aw_err aw_tree_place(const struct aw_tree *tree, const struct aw_node *node, enum aw_err err,
                          struct aw_diag *diag);
enum aw_err aw_tree_place_key(const struct aw_tree *tree, const struct aw_node *node,
                              enum aw_err err, struct aw_diag *diag);

/* For the parsers (yaml.c, json.c) alone. All but init fail with AW_ERR_NOMEM or _LIMIT. */
struct aw__tree_place {
    uint32_t line, column;
};
void aw__tree_init(struct aw_tree *tree, const char *name, const struct aw_alloc *alloc);
/* Size and UTF-8. */
AW_NODISCARD enum aw_err aw__tree_check_bytes(const char *name, const char *bytes, size_t len,
                                              struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__tree_text(struct aw_tree *tree, const char *bytes, size_t len,
                                       const char **ret, struct aw_diag *diag);
/* A null at `place`, appended to `parent` (or, for NULL, as a new document). `key` is kept, not
 * copied; NULL for list items. */
AW_NODISCARD enum aw_err aw__tree_add(struct aw_tree *tree, struct aw_node *parent, const char *key,
                                      struct aw__tree_place key_place, struct aw__tree_place place,
                                      struct aw_node **ret, struct aw_diag *diag);
/* To be called when a map is complete: makes its index. AW_ERR_FORMAT at the second of two equal
 * keys. */
AW_NODISCARD enum aw_err aw__tree_close_map(struct aw_tree *tree, struct aw_node *map,
                                            struct aw_diag *diag);

#endif
