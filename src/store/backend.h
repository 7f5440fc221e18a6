/*
 * backend.h - what the backends of the store share: how each is opened, and what a row may be.
 *
 * Memory and threads: as aware/store.h.
 */
#ifndef AW_STORE_BACKEND_H
#define AW_STORE_BACKEND_H

#include <aware/store.h>

#include "base/alloc.h"

/* Each fills `store` or leaves it zeroed. `options` is never NULL. */
AW_NODISCARD enum aw_err aw__store_memory_open(struct aw_store *store,
                                               const struct aw_store_options *options,
                                               const struct aw_alloc *alloc, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__store_sqlite_open(struct aw_store *store, const char *path,
                                               const struct aw_store_options *options,
                                               const struct aw_alloc *alloc, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__store_influx_open(struct aw_store *store, const char *url,
                                               const struct aw_store_options *options,
                                               const struct aw_alloc *alloc, struct aw_diag *diag);

/* What aw_store_append promises to refuse. */
AW_NODISCARD enum aw_err aw__row_check(const struct aw_store_row *row, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__name_check(const char *workload, struct aw_diag *diag);
/* Zeroes without a sign, one NAN: two rows are the same when their bits are. */
void aw__row_canonical(struct aw_store_row *row);
bool aw__row_same(const struct aw_store_row *a, const struct aw_store_row *b);
/* AW_ERR_CONFLICT with the key. */
enum aw_err aw__row_conflict(const struct aw_store_row *row, struct aw_diag *diag);

/* Takes `sum`, coming from the newest episode to the oldest, into the `max` that are wanted. */
void aw__episodes_insert(struct aw_store_episode *episodes, uint32_t *count, uint32_t max,
                         enum aw_store_order order, const struct aw_store_episode *sum);

/* Within the bounds of episode, step and time; the workload is not looked at. */
bool aw__query_takes(const struct aw_store_query *query, uint32_t episode, uint32_t step,
                     int64_t at_us);

/* (episode, step) as one number that orders as the pair does. */
static inline uint64_t aw__key(uint32_t episode, uint32_t step)
{
    return (uint64_t)episode << 32 | step;
}

#endif
