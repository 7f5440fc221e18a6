/* helpers_test.c - parts run once each, on lanes that nobody shares, with and without helpers. */
#include "segments/helpers.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/testing.h"

#define OWNERS  4u
#define HELPERS 3u
#define ROUNDS  300u

struct shared {
    struct aw__helpers *gang;
    _Atomic bool lane_busy[OWNERS + HELPERS];
    _Atomic uint32_t clashes, done;
};

struct job {
    struct shared *shared;
    _Atomic uint32_t times[AW__HELPERS_PARTS_MAX];
};

static void part(void *ctx, uint32_t index, uint32_t lane)
{
    struct job *job = ctx;
    if (atomic_exchange(&job->shared->lane_busy[lane], true))
        job->shared->clashes++;
    for (volatile uint32_t i = 0; i < 500; i++)
        ;
    job->times[index]++;
    job->shared->lane_busy[lane] = false;
    job->shared->done++;
}

struct owner {
    struct shared *shared;
    pthread_t thread;
    uint32_t lane, wrong;
};

static void *own(void *arg)
{
    struct owner *owner = arg;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t parts = 1 + (round + owner->lane) % AW__HELPERS_PARTS_MAX;
        struct job job = {.shared = owner->shared};
        aw__helpers_run(owner->shared->gang, owner->lane, parts, part, &job);
        for (uint32_t i = 0; i < AW__HELPERS_PARTS_MAX; i++)
            owner->wrong += job.times[i] != (i < parts);
    }
    return NULL;
}

static void every_part_runs_once_whoever_asks_at_the_same_time(void **state)
{
    (void)state;
    for (uint32_t helpers = 0; helpers <= HELPERS; helpers += HELPERS) {
        struct shared shared = {0};
        struct owner owner[OWNERS];
        assert_ok(aw__helpers_new(helpers, OWNERS, NULL, &shared.gang));
        for (uint32_t i = 0; i < OWNERS; i++) {
            owner[i] = (struct owner){.shared = &shared, .lane = i};
            assert_int_equal(pthread_create(&owner[i].thread, NULL, own, &owner[i]), 0);
        }
        for (uint32_t i = 0; i < OWNERS; i++) {
            (void)pthread_join(owner[i].thread, NULL);
            assert_int_equal(owner[i].wrong, 0);
        }
        assert_int_equal(shared.clashes, 0);
        aw__helpers_free(shared.gang);
    }
}

static void no_parts_are_no_work_and_none_is_freed(void **state)
{
    (void)state;
    struct shared shared = {0};
    struct job job = {.shared = &shared};
    assert_ok(aw__helpers_new(1, 1, NULL, &shared.gang));
    aw__helpers_run(shared.gang, 0, 0, part, &job);
    assert_int_equal(shared.done, 0);
    aw__helpers_free(shared.gang);
    aw__helpers_free(NULL);
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw__helpers *gang = NULL;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw__helpers_new(2, 1, &counting.alloc, &gang), AW_ERR_NOMEM);
    assert_null(gang);
}

AW_TEST_GROUP("segments-helpers")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once_whoever_asks_at_the_same_time),
        cmocka_unit_test(no_parts_are_no_work_and_none_is_freed),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
