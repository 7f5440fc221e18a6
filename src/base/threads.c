/*
 * threads.c - workers claim chunks of a loop from one atomic word.
 *
 * The word holds the number of the loop and how many of its chunks are not yet taken. A worker
 * takes one by decrementing it. Because the count lives in the same word as the loop's number, a
 * worker that slept through a loop cannot take a chunk of a loop that is over; and because a loop
 * is over only when all its chunks are done, whoever holds a chunk may read the loop's fields
 * without a lock. The caller therefore never waits for a worker that took nothing: a pool whose
 * workers are slow to wake costs no more than running the loop alone.
 *
 * Idle workers spin for a short time, for loops follow each other closely in training, and then
 * sleep. Falling asleep is the usual two-flag handshake: the sleeper raises its flag and looks for
 * work, the waker publishes work and looks at the flag; with sequentially consistent accesses one
 * of them sees the other.
 */
#include "base/threads.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define SPINS_MAX \
    2000u /* tries before sleeping: some tens of microseconds, the cost of a wake-up */

struct aw_threads_worker {
    struct aw_threads *pool;
    uint32_t number; /* 1 and up; the caller is 0 */
    pthread_t thread;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint32_t aw_threads_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count > AW_THREADS_MAX ? AW_THREADS_MAX : (uint32_t)count;
}

static uint32_t chunks_left(uint64_t claim)
{
    return (uint32_t)claim;
}

/* Takes and runs chunks until none is left. */
static void run_chunks(struct aw_threads *pool, uint32_t worker)
{
    uint64_t claim = atomic_load(&pool->claim);
    while (chunks_left(claim) > 0) {
        if (!atomic_compare_exchange_weak(&pool->claim, &claim, claim - 1))
            continue;
        uint32_t number = pool->chunks - chunks_left(claim);
        uint32_t first = number * pool->chunk;
        uint32_t end = pool->turns - first > pool->chunk ? first + pool->chunk : pool->turns;
        uint32_t chunks = pool->chunks; /* not to be read once our chunk is done */
        for (uint32_t i = first; i < end; i++)
            pool->fn(pool->ctx, i, worker);
        if (atomic_fetch_add(&pool->chunks_done, 1) + 1 == chunks &&
            atomic_load(&pool->caller_sleeps)) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->finished);
            pthread_mutex_unlock(&pool->lock);
        }
        claim = atomic_load(&pool->claim);
    }
}

static bool has_work(struct aw_threads *pool)
{
    return chunks_left(atomic_load(&pool->claim)) > 0 || atomic_load(&pool->stop);
}

static void *worker_main(void *arg)
{
    struct aw_threads_worker *self = arg;
    struct aw_threads *pool = self->pool;
    while (!atomic_load(&pool->stop)) {
        for (uint32_t spin = 0; spin < SPINS_MAX && !has_work(pool); spin++)
            relax();
        if (!has_work(pool)) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->sleeping, 1);
            while (!has_work(pool))
                pthread_cond_wait(&pool->work, &pool->lock);
            atomic_fetch_sub(&pool->sleeping, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        run_chunks(pool, self->number);
    }
    return NULL;
}

static void wake_workers(struct aw_threads *pool)
{
    if (atomic_load(&pool->sleeping) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

/* Joins the first `started` workers. */
static void stop_workers(struct aw_threads *pool, uint32_t started)
{
    atomic_store(&pool->stop, true);
    wake_workers(pool);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    aw_alloc_free(pool->alloc, pool->workers);
}

int aw_thread_begin(pthread_t *ret_thread, void *(*main)(void *), void *ctx)
{
    sigset_t all, before; /* threads inherit the mask */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(ret_thread, NULL, main, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

enum aw_err aw_threads_init(struct aw_threads *pool, uint32_t count, const struct aw_alloc *alloc)
{
    *pool = (struct aw_threads){0};
    if (count > AW_THREADS_MAX)
        return AW_ERR_LIMIT;
    pool->count = count ? count : 1;
    if (pool->count == 1)
        return AW_OK;
    pool->alloc = alloc;
    pool->workers = aw_alloc_new(alloc, pool->count - 1, sizeof *pool->workers);
    if (!pool->workers) {
        *pool = (struct aw_threads){0};
        return AW_ERR_NOMEM;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->finished, NULL);

    uint32_t started = 0;
    for (; started < pool->count - 1; started++) {
        struct aw_threads_worker *worker = &pool->workers[started];
        worker->pool = pool;
        worker->number = started + 1;
        if (aw_thread_begin(&worker->thread, worker_main, worker) != 0)
            break;
    }
    if (started < pool->count - 1) {
        stop_workers(pool, started);
        *pool = (struct aw_threads){0};
        return AW_ERR_UNAVAILABLE;
    }
    return AW_OK;
}

void aw_threads_deinit(struct aw_threads *pool)
{
    AW_ASSERT(!atomic_load(&pool->busy));
    if (pool->workers)
        stop_workers(pool, pool->count - 1);
    *pool = (struct aw_threads){0};
}

static void wait_until_finished(struct aw_threads *pool)
{
    for (uint32_t spin = 0; spin < SPINS_MAX; spin++) {
        if (atomic_load(&pool->chunks_done) == pool->chunks)
            return;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->chunks_done) != pool->chunks)
        pthread_cond_wait(&pool->finished, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

void aw_threads_parallel_for(struct aw_threads *pool, uint32_t turns, uint32_t chunk,
                             void (*fn)(void *ctx, uint32_t index, uint32_t worker), void *ctx)
{
    if (pool)
        AW_ASSERT(!atomic_exchange(&pool->busy, true));
    uint32_t threads = pool ? pool->count : 1;
    if (chunk == 0)
        chunk = turns / threads + (turns % threads != 0);
    if (threads <= 1 || turns <= chunk) {
        for (uint32_t i = 0; i < turns; i++)
            fn(ctx, i, 0);
    } else {
        pool->fn = fn;
        pool->ctx = ctx;
        pool->turns = turns;
        pool->chunk = chunk;
        pool->chunks = turns / chunk + (turns % chunk != 0);
        atomic_store(&pool->chunks_done, 0);
        uint64_t loop = (atomic_load(&pool->claim) >> 32) + 1;
        atomic_store(&pool->claim, loop << 32 | pool->chunks);
        wake_workers(pool);
        run_chunks(pool, 0);
        wait_until_finished(pool);
    }
    if (pool)
        atomic_store(&pool->busy, false);
}
