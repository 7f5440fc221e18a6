/*
 * parallel_tasks.h - pieces of work that may fail, over threads, with someone watching.
 *
 * Call order: spread; it returns when every piece has run or one has failed or it was stopped.
 * Memory:     a pool of threads while it runs; `alloc` must be safe in all threads.
 * Threads:    as many as asked for; what pieces compute must not depend on how many.
 */
#ifndef AW_BASE_PARALLEL_TASKS_H
#define AW_BASE_PARALLEL_TASKS_H

#include "base/alloc.h"

typedef enum aw_err aw_parallel_tasks_turn(void *ctx, uint32_t turn, struct aw_diag *diag);
/* Called as pieces finish, never from two threads at once. False stops the rest. */
typedef bool aw_parallel_tasks_progress(void *ctx, uint32_t done, uint32_t total);

/* Calls `fn` once for every turn. The failure of the lowest turn is returned, whichever came
 * first. AW_ERR_INTERRUPTED: `progress` (may be NULL) said stop. */
AW_NODISCARD enum aw_err aw_parallel_tasks(uint32_t threads, uint32_t turns,
                                           aw_parallel_tasks_turn *fn, void *ctx,
                                           aw_parallel_tasks_progress *progress, void *progress_ctx,
                                           const struct aw_alloc *alloc, struct aw_diag *diag);

#endif
