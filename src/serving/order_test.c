/* order_test.c - the heap against a naive twin; keys; ageing. */
#include "serving/order.h"

#include <math.h>

#include "base/rng.h"
#include "base/testing.h"

static void the_heap_serves_as_a_sorted_list_would(void **state)
{
    (void)state;
    enum { N = 64, STEPS = 20000 };
    struct aw_serving_queue queue;
    struct aw_rng rng;
    double key[N];
    uint64_t number[N], next = 0;
    bool in[N] = {false};
    aw_rng_init(&rng, 7, 0);
    assert_ok(aw_serving_queue_init(&queue, N, NULL));
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t id = aw_rng_below(&rng, N), what = aw_rng_below(&rng, 5);
        if (what < 3) {
            const double k = aw_rng_below(&rng, 8); /* many equal keys */
            assert_int_equal(aw_serving_queue_push(&queue, id, k), !in[id]);
            if (!in[id]) {
                key[id] = k;
                number[id] = next++;
                in[id] = true;
            }
        } else if (what == 3) {
            assert_int_equal(aw_serving_queue_remove(&queue, id), in[id]);
            in[id] = false;
        } else {
            uint32_t best = N, got = N;
            for (uint32_t i = 0; i < N; i++)
                if (in[i] && (best == N || key[i] < key[best] ||
                              (key[i] == key[best] && number[i] < number[best])))
                    best = i;
            assert_int_equal(aw_serving_queue_pop(&queue, &got), best != N);
            assert_int_equal(got, best);
            if (best != N)
                in[best] = false;
        }
    }
    aw_serving_queue_deinit(&queue);
}

static void ageing_bounds_who_may_overtake(void **state)
{
    (void)state;
    const struct aw_serving_order ssjf = {.kind = AW_SERVING_SSJF, .alpha = 10};
    const struct aw_serving_order fcfs = {.kind = AW_SERVING_FCFS, .alpha = 10};
    const struct aw_serving_order pure = {.kind = AW_SERVING_SSJF, .alpha = INFINITY};
    /* 3 s of work, arrived at 0: overtaken by 1 s of work within 20 s and never later */
    assert_true(aw_serving_key(&ssjf, 19.9, 1) < aw_serving_key(&ssjf, 0, 3));
    assert_true(aw_serving_key(&ssjf, 20.1, 1) > aw_serving_key(&ssjf, 0, 3));
    assert_true(aw_serving_key(&fcfs, 0.1, 1) > aw_serving_key(&fcfs, 0, 3));
    assert_true(aw_serving_key(&pure, 1e9, 1) < aw_serving_key(&pure, 0, 3));
    /* what a broken predictor says counts as nothing */
    assert_true(aw_serving_key(&ssjf, 5, NAN) == 5 && aw_serving_key(&ssjf, 5, -1) == 5);
}

static void init_fails_cleanly_without_memory(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_serving_queue queue;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_serving_queue_init(&queue, 8, &counting.alloc), AW_ERR_NOMEM);
    aw_serving_queue_deinit(&queue);
    assert_int_equal(aw_serving_queue_init(&queue, 0, NULL), AW_ERR_RANGE);
}

AW_TEST_GROUP("serving-order")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heap_serves_as_a_sorted_list_would),
        cmocka_unit_test(ageing_bounds_who_may_overtake),
        cmocka_unit_test(init_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
