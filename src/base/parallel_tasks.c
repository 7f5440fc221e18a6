/* parallel_tasks.c - turns over threads: the lowest failure wins, and whoever watches may stop it.
 * */
#include "base/parallel_tasks.h"

#include <inttypes.h>
#include <pthread.h>

#include "base/threads.h"

struct spread {
    aw_parallel_tasks_turn *fn;
    void *ctx;
    aw_parallel_tasks_progress *progress;
    void *progress_ctx;
    uint32_t turns, done, failed_turn;
    bool stopped;
    enum aw_err err;
    struct aw_diag diag;
    pthread_mutex_t lock; /* of all that changes */
};

static void spread_turn(void *ctx, uint32_t turn, uint32_t worker)
{
    struct spread *spread = ctx;
    struct aw_diag diag = {0};
    (void)worker;
    pthread_mutex_lock(&spread->lock);
    /* turns below one that failed still run: the lowest failure is the one that is told */
    const bool skip = spread->stopped || (spread->err && turn > spread->failed_turn);
    pthread_mutex_unlock(&spread->lock);
    if (skip)
        return;
    const enum aw_err err = spread->fn(spread->ctx, turn, &diag);
    pthread_mutex_lock(&spread->lock);
    if (err && (!spread->err || turn < spread->failed_turn)) {
        spread->err = err;
        spread->failed_turn = turn;
        spread->diag = diag;
    }
    spread->done++;
    if (spread->progress && !spread->progress(spread->progress_ctx, spread->done, spread->turns))
        spread->stopped = true;
    pthread_mutex_unlock(&spread->lock);
}

enum aw_err aw_parallel_tasks(uint32_t threads, uint32_t turns, aw_parallel_tasks_turn *fn,
                              void *ctx, aw_parallel_tasks_progress *progress, void *progress_ctx,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct spread spread = {.fn = fn,
                            .ctx = ctx,
                            .progress = progress,
                            .progress_ctx = progress_ctx,
                            .turns = turns,
                            .lock = PTHREAD_MUTEX_INITIALIZER};
    struct aw_threads pool;
    const uint32_t wanted = threads < turns ? threads : turns;
    enum aw_err err = aw_threads_init(&pool, wanted, alloc);
    if (err)
        return aw_fail(diag, err, "no pool of %" PRIu32 " threads", wanted);
    aw_threads_parallel_for(&pool, turns, 1, spread_turn, &spread);
    aw_threads_deinit(&pool);
    pthread_mutex_destroy(&spread.lock);
    if (spread.err && diag)
        *diag = spread.diag;
    if (!spread.err && spread.stopped)
        return aw_fail(diag, AW_ERR_INTERRUPTED, "stopped after %" PRIu32 " of %" PRIu32 " pieces",
                       spread.done, turns);
    return spread.err;
}
