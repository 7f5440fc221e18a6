/*
 * json.h - JSON text to the object tree, and JSON values to text.
 *
 * Reading is strict (RFC 8259) and done by jansson; a second pass over the text, by then known to
 * be valid, gives every value its line and column. Refused: duplicate keys, whole numbers beyond 64
 * bits, reals beyond the finite ones, NUL in strings, anything after the value, and whatever
 * exceeds the limits of tree.h.
 *
 * Callers build output as jansson values; this file writes them.
 *
 * Memory and threads: as tree.h.
 */
#ifndef AW_BASE_JSON_H
#define AW_BASE_JSON_H

#include "base/tree.h"

#include <jansson.h>
#include <stdio.h>

/* `name` stands for the file in diagnostics and may be NULL. AW_ERR_FORMAT, AW_ERR_LIMIT or
 * AW_ERR_NOMEM; on failure `tree` is left zeroed. */
AW_NODISCARD enum aw_err aw_json_parse(struct aw_tree *tree, const char *name, const char *bytes,
                                       size_t len, const struct aw_alloc *alloc,
                                       struct aw_diag *diag);

/* The same value for jansson; the caller owns it. NULL: out of memory, or a number that JSON cannot
 * say (.inf, .nan). */
json_t *aw_json_from_node(const struct aw_node *node);

/* Writes a value and a newline: on one line for indent 0, else with so many spaces per level.
 * Numbers are the shortest that read back to the same bits (jansson itself writes 0.1 as
 * 0.10000000000000001). AW_ERR_IO: the stream refused; AW_ERR_LIMIT: deeper than
 * AW_TREE_DEPTH_MAX. The stream is not flushed. */
AW_NODISCARD enum aw_err aw_json_write(const json_t *value, FILE *stream, unsigned indent);

#endif
