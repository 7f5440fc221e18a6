#include "base/rng.h"
#include "base/testing.h"
#include "base/threads.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 1000 };

struct work {
    uint32_t worker_count;
    uint64_t result[TURNS];
    _Atomic uint32_t calls[TURNS];
    _Atomic uint32_t wrong_worker;
};

/* A pure function of the index, and some work. */
static void turn(void *ctx, uint32_t index, uint32_t worker)
{
    struct work *work = ctx;
    struct aw_rng rng;
    aw_rng_init(&rng, 9, index);
    for (uint32_t i = 0; i < index % 50; i++)
        work->result[index] ^= aw_rng_u64(&rng);
    atomic_fetch_add(&work->calls[index], 1);
    if (worker >= work->worker_count)
        atomic_fetch_add(&work->wrong_worker, 1);
}

static void every_turn_runs_once_and_the_result_is_that_of_one_thread(void **state)
{
    (void)state;
    static struct work alone, work;
    memset(&alone, 0, sizeof alone);
    alone.worker_count = 1;
    aw_threads_parallel_for(NULL, TURNS, 0, turn, &alone);
    const uint32_t chunks[] = {0, 1, 3, 64, 999, 1000, UINT32_MAX};
    for (uint32_t threads = 0; threads <= 5; threads++) {
        struct aw_threads pool;
        assert_ok(aw_threads_init(&pool, threads, NULL));
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++)
            for (uint32_t turns = 0; turns <= TURNS; turns = turns ? turns * 10 : 1) {
                memset(&work, 0, sizeof work);
                work.worker_count = pool.count;
                aw_threads_parallel_for(&pool, turns, chunks[c], turn, &work);
                for (uint32_t i = 0; i < TURNS; i++) {
                    assert_int_equal(work.calls[i], i < turns);
                    assert_int_equal(work.result[i], i < turns ? alone.result[i] : 0);
                }
                assert_int_equal(work.wrong_worker, 0);
            }
        aw_threads_deinit(&pool);
        aw_threads_deinit(&pool);
    }
}

static void add(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    ((uint32_t *)ctx)[index]++;
}

static void many_short_loops_lose_nothing_whether_workers_spin_or_sleep(void **state)
{
    (void)state;
    struct aw_threads pool;
    assert_ok(aw_threads_init(&pool, 4, NULL));
    uint32_t sums[16] = {0}; /* plain memory: the loop must order what its turns wrote */
    uint32_t loops = 3000;
    for (uint32_t i = 0; i < loops; i++) {
        if (i % 300 == 0)
            usleep(2000); /* long enough for the workers to fall asleep */
        aw_threads_parallel_for(&pool, 16, 1, add, sums);
    }
    for (int i = 0; i < 16; i++)
        assert_int_equal(sums[i], loops);
    aw_threads_deinit(&pool);
}

static void a_loop_allocates_nothing_and_init_failures_leave_nothing(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_threads pool;
    assert_ok(aw_threads_init(&pool, 3, &counting.alloc));
    uint32_t sums[16] = {0};
    for (int i = 0; i < 50; i++)
        aw_threads_parallel_for(&pool, 16, 0, add, sums);
    assert_int_equal(counting.alloc_count, 1);
    aw_threads_deinit(&pool);
    assert_int_equal(counting.free_count, 1);
    counting.fail_after = 0;
    assert_int_equal(aw_threads_init(&pool, 3, &counting.alloc), AW_ERR_NOMEM);
    aw_threads_deinit(&pool);
    assert_int_equal(aw_threads_init(&pool, AW_THREADS_MAX + 1, NULL), AW_ERR_LIMIT);
    aw_threads_deinit(&pool);
    assert_in_range(aw_threads_cpu_count(), 1, AW_THREADS_MAX);
}

static void nest(void *ctx, uint32_t index, uint32_t worker)
{
    (void)index, (void)worker;
    uint32_t sums[16] = {0};
    aw_threads_parallel_for(ctx, 16, 0, add, sums);
}

static void a_loop_inside_a_loop_is_a_bug(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* the message of the assertion, and the abort, are the child's own */
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        struct aw_threads pool;
        if (aw_threads_init(&pool, 1, NULL) == AW_OK)
            aw_threads_parallel_for(&pool, 1, 0, nest, &pool);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

AW_TEST_GROUP("threads")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_inside_a_loop_is_a_bug),
        cmocka_unit_test(every_turn_runs_once_and_the_result_is_that_of_one_thread),
        cmocka_unit_test(many_short_loops_lose_nothing_whether_workers_spin_or_sleep),
        cmocka_unit_test(a_loop_allocates_nothing_and_init_failures_leave_nothing),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
