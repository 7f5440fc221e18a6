/*
 * helpers.h - helpers for requests that can use more than one core at once.
 *
 * Several workers share the helpers. A worker that asks for help does parts itself and never waits
 * for a helper to become free, so with no helper left a request is slower, never stuck.
 *
 * Call order: new, run from any thread that owns its lane, free when all runs have returned.
 * Memory:     one block at new; run allocates nothing.
 * Threads:    that is the point. Helpers run with all signals blocked.
 */
#ifndef AW_SEGMENTS_HELPERS_H
#define AW_SEGMENTS_HELPERS_H

#include "base/alloc.h"

#define AW__HELPERS_HELPERS_MAX 64u
#define AW__HELPERS_PARTS_MAX   16u

struct aw__helpers;

/* Helpers get the lanes from `lane_first` on. No helpers: everything runs on the caller.
 * AW_ERR_NOMEM, or AW_ERR_UNAVAILABLE when the system gives no more threads. */
AW_NODISCARD enum aw_err aw__helpers_new(uint32_t helper_count, uint32_t lane_first,
                                         const struct aw_alloc *alloc,
                                         struct aw__helpers **ret_gang);
void aw__helpers_free(struct aw__helpers *gang); /* NULL is a no-op */

/* Calls part(ctx, index, lane) once for each index below `part_count` and returns when all have
 * returned. */
void aw__helpers_run(struct aw__helpers *gang, uint32_t lane, uint32_t part_count,
                     void (*part)(void *ctx, uint32_t index, uint32_t lane), void *ctx);

#endif
