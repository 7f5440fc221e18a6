/*
 * shared_table.h - bytes by name, for threads that only look them up.
 *
 * Call order: init; put and drop by the owner; find by any thread between enter and leave; deinit
 *             when no thread is inside.
 * Memory:     places at init, a block per name; at most `max` names.
 * Threads:    find, enter and leave from any; the rest by one owner. Readers never wait for more
 *             than one put.
 *
 * The trap: what find returns lives until leave.
 */
#ifndef AW_CONTROLLER_SHARED_TABLE_H
#define AW_CONTROLLER_SHARED_TABLE_H

#include "base/hash_table.h"

#include <pthread.h>

struct aw__shared_table {
    struct aw_hash_table by_name;
    pthread_rwlock_t lock;
    uint64_t left_out; /* puts for which there was no room */
};

/* AW_ERR_NOMEM; then `table` is zeroed. */
AW_NODISCARD enum aw_err aw__shared_table_init(struct aw__shared_table *table, uint32_t max,
                                               const struct aw_alloc *alloc);
void aw__shared_table_deinit(struct aw__shared_table *table); /* zeroed is a no-op */

/* Copies. What was there under that name is replaced. AW_ERR_LIMIT, AW_ERR_NOMEM: it is not in. */
AW_NODISCARD enum aw_err aw__shared_table_put(struct aw__shared_table *table, const char *name,
                                              const void *bytes, size_t len);
void aw__shared_table_drop(struct aw__shared_table *table, const char *name);

void aw__shared_table_enter(struct aw__shared_table *table);
void aw__shared_table_leave(struct aw__shared_table *table);
/* Aligned to 8; NULL: not there. */
const void *aw__shared_table_find(const struct aw__shared_table *table, const char *name);

#endif
