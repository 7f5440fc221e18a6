/*
 * names.h - texts that repeat (services, instances, operations), each kept once under a number.
 *
 * Call order: init; add, text and find in any order; deinit.
 * Memory:     grows up to the maxima below. What no longer fits becomes AW_NAME_OTHER: a sender who
 *             puts an id into every name costs a fixed amount and nothing else.
 * Threads:    single owner.
 *
 * The trap: a text is good until the next add, which may move all of them.
 */
#ifndef AW_TRACE_NAMES_H
#define AW_TRACE_NAMES_H

#include "base/alloc.h"
#include "base/hash_table.h"

#define AW_NAME_NONE      0u   /* "" */
#define AW_NAME_OTHER     1u   /* "(other)": the table is full */
#define AW_NAME_BYTES_MAX 512u /* of one text; longer ones are cut */
#define AW_NAMES_MAX      (1u << 18)
#define AW_NAMES_BYTES    ((size_t)32 << 20) /* of all texts */

struct aw_names {
    struct aw_hash_table table;
    uint32_t *offset; /* [room]: where a text begins in bytes */
    char *bytes;
    size_t bytes_used, bytes_room;
    uint32_t count, room;
    uint64_t refused;   /* texts that became AW_NAME_OTHER */
    bool pods_by_parts; /* how pods become services here: aw_span_pod_service */
    const struct aw_alloc *alloc;
};

/* AW_ERR_NOMEM: `names` is left zeroed. */
AW_NODISCARD enum aw_err aw_names_init(struct aw_names *names, const struct aw_alloc *alloc);
void aw_names_deinit(struct aw_names *names); /* zeroed is a no-op */

/* The number of a text; NUL ends it early, and bytes that a terminal or JSON cannot show become
 * '?'. Out of memory is as full. */
uint32_t aw_names_add(struct aw_names *names, const char *text, size_t len);
/* AW_NAME_NONE: nobody has added it. */
uint32_t aw_names_find(const struct aw_names *names, const char *text);
const char *aw_names_text(const struct aw_names *names, uint32_t name);

#endif
