/*
 * yaml.h - YAML text to the object tree, through libyaml's events.
 *
 * Plain scalars follow the core schema of YAML 1.2 (section 10.3.2): null ~ and nothing; true and
 * false; whole numbers, 0x and 0o; reals, .inf and .nan. "yes", "no", "on" and "off" are strings.
 * A stream may hold several documents. Anchors and aliases work within a budget; the values that
 * an alias brings keep the place where they were written.
 *
 * Refused, each with its place: duplicate keys, keys that are lists or maps, merge keys (<<), tags
 * beyond the core ones, whole numbers beyond 64 bits, NUL in strings, aliases to a value that
 * contains them, and whatever exceeds the limits of tree.h.
 *
 * Memory and threads: as tree.h.
 */
#ifndef AW_BASE_YAML_H
#define AW_BASE_YAML_H

#include "base/tree.h"

/* Parses all documents; an empty stream has none. `name` stands for the file in diagnostics and may
 * be NULL. AW_ERR_FORMAT, AW_ERR_LIMIT or AW_ERR_NOMEM; on failure `tree` is left zeroed. */
AW_NODISCARD enum aw_err aw_yaml_parse(struct aw_tree *tree, const char *name, const char *bytes,
                                       size_t len, const struct aw_alloc *alloc,
                                       struct aw_diag *diag);

#endif
