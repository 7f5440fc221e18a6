#include "nn/params.h"

#include "base/testing.h"

#include <math.h>
#include <string.h>

/* 35, 7 and 16 floats: a gap after each of the first two, none after the third. */
static void declare_three(struct aw_params *params)
{
    *params = (struct aw_params){0};
    assert_int_equal(aw_params_add(params, "a.weight", 2, 5, 7), 0);
    assert_int_equal(aw_params_add(params, "a.bias", 1, 7, 1), 48);
    assert_int_equal(aw_params_add(params, "b.weight", 2, 2, 8), 64);
}

static void tensors_start_on_cache_lines_and_are_found_by_name(void **state)
{
    (void)state;
    struct aw_params params;
    declare_three(&params);
    assert_int_equal(params.count, 80);
    assert_ok(aw_params_alloc(&params, NULL));
    for (uint32_t i = 0; i < params.tensor_count; i++) {
        size_t offset = params.tensor[i].offset;
        assert_int_equal((uintptr_t)(params.value + offset) % AW_ALLOC_ALIGN, 0);
        assert_int_equal((uintptr_t)(params.grad + offset) % AW_ALLOC_ALIGN, 0);
        assert_int_equal((uintptr_t)(params.m + offset) % AW_ALLOC_ALIGN, 0);
        assert_int_equal((uintptr_t)(params.v + offset) % AW_ALLOC_ALIGN, 0);
    }
    const struct aw_param *bias = aw_params_find(&params, "a.bias");
    assert_non_null(bias);
    assert_int_equal(bias->rank, 1);
    assert_int_equal(aw_param_size(bias), 7);
    assert_null(aw_params_find(&params, "a"));
    assert_null(aw_params_find(&params, "a.bias2"));
    aw_params_deinit(&params);
    aw_params_deinit(&params);
    assert_null(params.value);
}

static void a_model_is_one_block_and_a_failed_one_can_be_deinited(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_params params;

    counting.fail_after = 0;
    declare_three(&params);
    assert_int_equal(aw_params_alloc(&params, &counting.alloc), AW_ERR_NOMEM);
    assert_null(params.value);
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_params_alloc(&params, &counting.alloc));
    for (size_t i = 0; i < params.count; i++)
        assert_true(params.value[i] == 0 && params.grad[i] == 0 && params.m[i] == 0 &&
                    params.v[i] == 0);
    aw_params_deinit(&params);
    assert_int_equal(counting.alloc_count, 1);
    assert_int_equal(counting.free_count, 1);
}

static void zero_grad_clears_gradients_and_nothing_else(void **state)
{
    (void)state;
    struct aw_params params;
    declare_three(&params);
    assert_ok(aw_params_alloc(&params, NULL));
    for (size_t i = 0; i < params.count; i++)
        params.value[i] = params.grad[i] = params.m[i] = params.v[i] = 1;
    aw_params_zero_grad(&params);
    for (size_t i = 0; i < params.count; i++) {
        assert_true(params.grad[i] == 0);
        assert_true(params.value[i] == 1 && params.m[i] == 1 && params.v[i] == 1);
    }
    aw_params_deinit(&params);
}

static void a_soft_update_moves_the_target_by_tau(void **state)
{
    (void)state;
    enum { N = 37 };
    float target[N], source[N];
    for (int i = 0; i < N; i++) {
        target[i] = (float)i;
        source[i] = (float)(2 * i - 9);
    }
    aw_params_soft_update(target, source, 0.25f, N);
    for (int i = 0; i < N; i++)
        assert_close((double)target[i], 0.75 * i + 0.25 * (2 * i - 9), 1e-6);
}

static void a_soft_update_with_tau_one_copies_even_over_nan(void **state)
{
    (void)state;
    float target[3] = {NAN, INFINITY, 5};
    const float source[3] = {1, 2, 3};
    aw_params_soft_update(target, source, 1, 3);
    assert_memory_equal(target, source, sizeof(source));
}

static void clipping_scales_to_the_norm_and_leaves_small_gradients_alone(void **state)
{
    (void)state;
    struct aw_params params;
    declare_three(&params);
    assert_ok(aw_params_alloc(&params, NULL));
    params.grad[0] = 3;
    params.grad[79] = -4;

    assert_close(aw_params_clip_grad_norm(&params, 10), 5, 1e-12);
    assert_true(params.grad[0] == 3 && params.grad[79] == -4);
    assert_close(aw_params_clip_grad_norm(&params, 1), 5, 1e-12);
    assert_close((double)params.grad[0], 3.0 / (5 + 1e-6), 1e-7);
    assert_close((double)params.grad[79], -4.0 / (5 + 1e-6), 1e-7);
    aw_params_deinit(&params);
}

static void the_norm_of_large_gradients_does_not_overflow(void **state)
{
    (void)state;
    struct aw_params params;
    declare_three(&params);
    assert_ok(aw_params_alloc(&params, NULL));
    params.grad[0] = params.grad[1] = 2e38f;
    assert_close(aw_params_clip_grad_norm(&params, 1) / 2e38, sqrt(2), 1e-6);
    assert_close((double)params.grad[0], sqrt(0.5), 1e-6);
    aw_params_deinit(&params);
}

static void a_norm_that_is_not_finite_is_told_and_scales_nothing(void **state)
{
    (void)state;
    const float poison[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof(poison) / sizeof(poison[0]); i++) {
        struct aw_params params;
        declare_three(&params);
        assert_ok(aw_params_alloc(&params, NULL));
        params.grad[0] = 7;
        params.grad[50] = poison[i];
        assert_false(isfinite(aw_params_clip_grad_norm(&params, 1)));
        assert_true(params.grad[0] == 7);
        aw_params_deinit(&params);
    }
}

static void one_nan_or_infinity_anywhere_is_seen(void **state)
{
    (void)state;
    enum { N = 67 };
    float value[N];
    const float poison[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < N; i++)
        value[i] = i % 2 ? 3.4e38f : -1e-42f; /* the largest and the denormal are finite */
    assert_true(aw_params_finite(value, N));
    assert_true(aw_params_finite(value, 0));
    for (int at = 0; at < N; at++) {
        for (size_t i = 0; i < sizeof(poison) / sizeof(poison[0]); i++) {
            float kept = value[at];
            value[at] = poison[i];
            assert_false(aw_params_finite(value, N));
            assert_true(aw_params_finite(value, (size_t)at));
            value[at] = kept;
        }
    }
}

AW_TEST_GROUP("params")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_start_on_cache_lines_and_are_found_by_name),
        cmocka_unit_test(a_model_is_one_block_and_a_failed_one_can_be_deinited),
        cmocka_unit_test(zero_grad_clears_gradients_and_nothing_else),
        cmocka_unit_test(a_soft_update_moves_the_target_by_tau),
        cmocka_unit_test(a_soft_update_with_tau_one_copies_even_over_nan),
        cmocka_unit_test(clipping_scales_to_the_norm_and_leaves_small_gradients_alone),
        cmocka_unit_test(the_norm_of_large_gradients_does_not_overflow),
        cmocka_unit_test(a_norm_that_is_not_finite_is_told_and_scales_nothing),
        cmocka_unit_test(one_nan_or_infinity_anywhere_is_seen),
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
