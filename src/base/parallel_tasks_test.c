/* parallel_tasks_test.c - turns over threads: every one once, the lowest failure, a stop. */
#include "base/parallel_tasks.h"

#include <stdatomic.h>

#include "base/testing.h"

#define TURNS 40u

struct work {
    _Atomic uint32_t ran[TURNS];
    uint32_t fail_from; /* turns from here on fail */
    uint32_t told, stop_after;
};

static enum aw_err turn(void *ctx, uint32_t index, struct aw_diag *diag)
{
    struct work *work = ctx;
    atomic_fetch_add(&work->ran[index], 1);
    return index < work->fail_from ? AW_OK : aw_fail(diag, AW_ERR_CHECK, "turn %u", index);
}

static bool watch(void *ctx, uint32_t done, uint32_t total)
{
    struct work *work = ctx;
    assert_int_equal(total, TURNS);
    assert_int_equal(done, ++work->told);
    return work->stop_after == 0 || done < work->stop_after;
}

static void every_turn_runs_once_and_is_told_of(void **state)
{
    (void)state;
    for (uint32_t threads = 0; threads < 4; threads++) {
        struct work work = {.fail_from = TURNS};
        assert_ok(aw_parallel_tasks(threads, TURNS, turn, &work, watch, &work, NULL, NULL));
        for (uint32_t i = 0; i < TURNS; i++)
            assert_int_equal(work.ran[i], 1);
        assert_int_equal(work.told, TURNS);
    }
}

static void the_lowest_failure_is_the_one_that_is_told(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads < 4; threads++) {
        struct work work = {.fail_from = 17};
        struct aw_diag diag = {0};
        assert_int_equal(aw_parallel_tasks(threads, TURNS, turn, &work, NULL, NULL, NULL, &diag),
                         AW_ERR_CHECK);
        assert_string_equal(diag.text, "turn 17");
    }
}

static void who_watches_may_stop_it(void **state)
{
    (void)state;
    struct work work = {.fail_from = TURNS, .stop_after = 5};
    struct aw_diag diag = {0};
    assert_int_equal(aw_parallel_tasks(1, TURNS, turn, &work, watch, &work, NULL, &diag),
                     AW_ERR_INTERRUPTED);
    assert_int_equal(work.told, 5);
    assert_string_equal(diag.text, "stopped after 5 of 40 pieces");
}

AW_TEST_GROUP("parallel-tasks")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_turn_runs_once_and_is_told_of),
        cmocka_unit_test(the_lowest_failure_is_the_one_that_is_told),
        cmocka_unit_test(who_watches_may_stop_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
