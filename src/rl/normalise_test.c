#include "rl/normalise.h"

#include <math.h>

#include "base/testing.h"

#define DIM  3u
#define ROWS 500u

static void fill(float *x, struct aw_rng *rng)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        x[r * DIM] = (float)(5 + 2 * aw_rng_normal(rng));
        x[r * DIM + 1] = (float)(1e4 + 1e-1 * aw_rng_normal(rng)); /* far from 0 and narrow */
        x[r * DIM + 2] = 7;                                        /* never changes */
    }
}

static void batches_of_any_size_give_the_moments_of_the_whole(void **state)
{
    (void)state;
    float x[ROWS * DIM];
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    fill(x, &rng);
    struct aw_normalise norm;
    assert_ok(aw_normalise_init(&norm, DIM, AW_NORMALISE_CLIP, NULL));
    for (uint32_t r = 0, n = 1; r < ROWS; r += n, n = n * 2 % 37 + 1) {
        n = n > ROWS - r ? ROWS - r : n;
        aw_normalise_update(&norm, x + r * DIM, n);
    }
    /* the twin: two passes over everything, with the prior of weight 1e-4, mean 0, variance 1 */
    for (uint32_t i = 0; i < DIM; i++) {
        double total = ROWS + 1e-4, mean = 0, var = 0;
        for (uint32_t r = 0; r < ROWS; r++)
            mean += (double)x[r * DIM + i] / total;
        for (uint32_t r = 0; r < ROWS; r++) {
            double e = (double)x[r * DIM + i] - mean;
            var += e * e / total;
        }
        var += 1e-4 / total * (1 + mean * mean);
        assert_close(norm.mean[i], mean, 1e-9);
        assert_close(norm.var[i], var, 1e-6);
    }
    aw_normalise_deinit(&norm);
    aw_normalise_deinit(&norm);
}

static void what_is_applied_is_centred_scaled_and_clipped(void **state)
{
    (void)state;
    struct aw_normalise norm;
    assert_ok(aw_normalise_init(&norm, 1, 2, NULL));
    norm.mean[0] = 3;
    norm.var[0] = 4;
    aw_normalise_refresh(&norm);
    float x[] = {3, 5, -1e30f, 1e30f}, y[4];
    aw_normalise_apply(&norm, x, 4, y);
    assert_close((double)y[0], 0, 1e-7);
    assert_close((double)y[1], 1, 1e-7);
    assert_true(y[2] == -2 && y[3] == 2);
    aw_normalise_apply(&norm, x, 4, x); /* in place */
    assert_memory_equal(x, y, sizeof y);
    aw_normalise_deinit(&norm);
}

static void a_frozen_normaliser_does_not_move(void **state)
{
    (void)state;
    struct aw_normalise norm;
    assert_ok(aw_normalise_init(&norm, 1, 10, NULL));
    norm.frozen = true;
    aw_normalise_update(&norm, &(float){9}, 1);
    assert_true(norm.mean[0] == 0 && norm.var[0] == 1);
    norm.frozen = false;
    aw_normalise_update(&norm, &(float){9}, 1);
    assert_true(norm.mean[0] > 8.9);
    aw_normalise_deinit(&norm);
}

static void rewards_are_divided_by_the_deviation_of_the_return(void **state)
{
    (void)state;
    struct aw_reward_scale scale;
    assert_ok(aw_reward_scale_init(&scale, 2, 0.5f, 10, NULL));
    const bool no[2] = {false, false}, first_ends[2] = {true, false};
    float scaled[2];
    aw_reward_scale_apply(&scale, (float[]){4, 8}, no, no, scaled);
    aw_reward_scale_apply(&scale, (float[]){2, 2}, no, first_ends, scaled);
    /* returns seen: 4, 8, then 0.5 * 4 + 2 = 4 and 0.5 * 8 + 2 = 6 */
    assert_close(scale.moments.mean[0], 5.5, 1e-3);
    assert_close(scale.moments.var[0], 2.75, 1e-2);
    assert_close((double)scaled[0], 2 / sqrt(scale.moments.var[0] + 1e-8), 1e-6);
    assert_true(scale.ret[0] == 0 && scale.ret[1] == 6);
    aw_reward_scale_deinit(&scale);
    aw_reward_scale_deinit(&scale);
}

static void missing_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    for (uint64_t budget = 0;; budget++) {
        struct aw_reward_scale scale;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = aw_reward_scale_init(&scale, 3, 0.99f, 10, &counting.alloc);
        if (err == AW_OK) {
            aw_reward_scale_deinit(&scale);
            assert_true(budget > 0);
            assert_int_equal(counting.alloc_count, counting.free_count);
            return;
        }
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

AW_TEST_GROUP("normalise")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_any_size_give_the_moments_of_the_whole),
        cmocka_unit_test(what_is_applied_is_centred_scaled_and_clipped),
        cmocka_unit_test(a_frozen_normaliser_does_not_move),
        cmocka_unit_test(rewards_are_divided_by_the_deviation_of_the_return),
        cmocka_unit_test(missing_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("normalise", tests, NULL, NULL);
}
