/* pilot_forget_test.c - a person wants what was learned to be forgotten. */
#include <stdlib.h>

#include "control/pilot_internal.h"
#include "control/pilot_testing.h"
#include "policy/capacity.h"

static void what_was_learned_is_gone_and_the_workload_goes_on(void **state)
{
    struct bench b;
    (void)state;
    bench_prepare(&b);
    bench_begin(&b);
    bench_until_it_acts(&b, 3);
    const struct aw__pilot_memory *memory = &b.pilot->memory;
    const struct aw__pilot_memory before = *memory;
    const uint64_t learned = aw__pilot_policy_id(b.pilot);
    const int64_t now = b.cluster.ops->now_us(b.cluster.self);
    assert_true(learned != 0 && before.record.steps > 0);
    assert_ok(aw_pilot_forget(b.pilot, now, NULL));
    assert_int_equal(aw__pilot_policy_id(b.pilot), 0);
    assert_int_equal(memory->record.steps, 0);
    assert_int_equal(memory->minute_count, 0);
    assert_int_equal(memory->canary.state, AW_CANARY_NONE);
    assert_int_equal(memory->learn_from, before.episode + 1);
    /* what it has, and what rails remember, is as it was */
    assert_memory_equal(&memory->guard, &before.guard, sizeof before.guard);
    assert_memory_equal(&memory->reading, &before.reading, sizeof before.reading);
    assert_int_equal(memory->episode, before.episode);
    assert_int_equal(memory->step, before.step);

    const uint32_t episode = before.episode, step = before.step;
    const struct aw_decision *decision = bench_tick(&b);
    assert_int_equal(decision->actor, AW_ACTOR_FALLBACK);
    assert_int_equal(decision->policy_id, 0);
    assert_true(decision->stage == AW_STAGE_OFFLINE || decision->stage == AW_STAGE_INITIALIZED);
    assert_true(decision->moved); /* worth an entry */
    assert_true(b.finished);      /* the step in flight is kept under its own number */
    assert_true(b.row.episode > episode || (b.row.episode == episode && b.row.step + 1 >= step));
    bench_until_it_acts(&b, 3); /* and it learns anew */
    assert_true(aw__pilot_policy_id(b.pilot) != 0);
    bench_end(&b);
}

/* After a restart the log brings every order again; a state that was saved since has it behind it,
 * one of before has not. */
static void an_order_is_carried_out_once_whatever_is_lived_again(void **state)
{
    struct bench b;
    (void)state;
    bench_prepare(&b);
    bench_begin(&b);
    bench_until_it_acts(&b, 1);
    const size_t size = aw_pilot_state_bytes(b.pilot);
    void *before = malloc(size), *after = malloc(size);
    assert_non_null(before);
    assert_non_null(after);
    const int64_t now = b.cluster.ops->now_us(b.cluster.self);
    aw_pilot_state_save(b.pilot, before);
    assert_ok(aw_pilot_forget(b.pilot, now, NULL));
    bench_tick(&b);
    aw_capacity_of(&b.pilot->policy)->memory.id = 77; /* as if something had been learned since */
    aw_pilot_state_save(b.pilot, after);
    assert_ok(aw_pilot_forget(b.pilot, now, NULL));
    assert_int_equal(aw__pilot_policy_id(b.pilot), 77);
    assert_ok(aw_pilot_state_load(b.pilot, before));
    assert_true(aw__pilot_policy_id(b.pilot) != 0);
    assert_ok(aw_pilot_forget(b.pilot, now, NULL));
    assert_int_equal(aw__pilot_policy_id(b.pilot), 0);
    free(before);
    free(after);
    bench_end(&b);
}

static void without_memory_nothing_is_forgotten(void **state)
{
    struct bench b;
    (void)state;
    bench_prepare(&b);
    bench_begin(&b);
    bench_until_it_acts(&b, 1);
    const uint64_t id = aw__pilot_policy_id(b.pilot);
    for (uint64_t n = 0;; n++) {
        b.counting.fail_after = b.counting.alloc_count + n;
        const enum aw_err err = aw_pilot_forget(b.pilot, 1000000 * INT64_C(1000000), NULL);
        b.counting.fail_after = UINT64_MAX;
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_int_equal(aw__pilot_policy_id(b.pilot), id);
        assert_true(n < 50);
    }
    assert_int_equal(aw__pilot_policy_id(b.pilot), 0);
    bench_tick(&b);
    bench_end(&b);
}

AW_TEST_GROUP("pilot-forget")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_learned_is_gone_and_the_workload_goes_on),
        cmocka_unit_test(an_order_is_carried_out_once_whatever_is_lived_again),
        cmocka_unit_test(without_memory_nothing_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
