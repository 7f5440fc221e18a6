/*
 * threads.h - a fixed pool of threads for one kind of work: a loop whose turns are independent.
 *
 * Call order: init, then parallel_for as often as you like from the thread that owns the pool, then
 *             deinit. parallel_for inside parallel_for is a bug (AW_ASSERT), as are two owners at
 *             the same time.
 * Memory:     one block at init; the pool must not move after init. parallel_for never allocates.
 * Threads:    that is the point. The caller takes part as worker 0; signals stay with the caller.
 *
 * The result does not depend on the number of threads as long as turn `index` reads nothing that
 * another turn writes. Which worker runs a turn does depend on it: `worker` is for scratch memory
 * only, never for a generator or for anything that reaches the result.
 */
#ifndef AW_BASE_THREADS_H
#define AW_BASE_THREADS_H

#include <aware/err.h>

#include <pthread.h>

#include "base/alloc.h"

#define AW_THREADS_MAX 256u /* threads of one pool, with the caller */

struct aw_threads_worker; /* internal */

struct aw_threads {
    uint32_t count; /* threads with the caller; 1: everything runs on the caller */

    /* the rest is the pool's own business */
    struct aw_threads_worker *workers; /* [count - 1] */
    const struct aw_alloc *alloc;
    pthread_mutex_t lock; /* only for falling asleep and waking */
    pthread_cond_t work, finished;
    _Atomic bool busy, stop, caller_sleeps;
    _Atomic uint32_t sleeping; /* workers that wait on `work` */
    _Atomic uint64_t claim;    /* high half: number of the loop; low half: chunks not taken */
    _Atomic uint32_t chunks_done;
    /* of the running loop; valid for a thread that holds a chunk of it */
    void (*fn)(void *ctx, uint32_t index, uint32_t worker);
    void *ctx;
    uint32_t turns, chunk, chunks;
};

/* A thread of one's own that hears no signal: those are for the thread that knows what to do about
 * them. 0, or the error of pthread_create. */
int aw_thread_begin(pthread_t *ret_thread, void *(*main)(void *), void *ctx);

/* Processors this process may run on. */
uint32_t aw_threads_cpu_count(void);

/* `count` threads in all, at most AW_THREADS_MAX; 0 and 1 start none. On failure (AW_ERR_NOMEM,
 * AW_ERR_LIMIT, or AW_ERR_UNAVAILABLE when the system gives no more threads) the pool is zeroed. */
AW_NODISCARD enum aw_err aw_threads_init(struct aw_threads *pool, uint32_t count,
                                         const struct aw_alloc *alloc);
/* Joins all threads. A zeroed pool is a no-op. */
void aw_threads_deinit(struct aw_threads *pool);

/* Calls fn(ctx, index, worker) once for every index below `turns` and returns when all have
 * returned; what they wrote is then visible to the caller. `worker` < pool->count. Workers take
 * `chunk` consecutive turns at a time: small ones balance uneven work, large ones cost less. 0
 * splits the loop evenly, one chunk per thread. A NULL pool runs everything on the caller. */
void aw_threads_parallel_for(struct aw_threads *pool, uint32_t turns, uint32_t chunk,
                             void (*fn)(void *ctx, uint32_t index, uint32_t worker), void *ctx);

#endif
