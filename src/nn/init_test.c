#include "nn/init.h"

#include "base/testing.h"

#include <math.h>

enum { LARGEST = 128 * 128 };

static void fan_in_stays_inside_its_bound_and_fills_it(void **state)
{
    (void)state;
    const uint32_t fan_in[] = {1, 3, 73, 400};
    static float value[10000];
    for (size_t n = 0; n < sizeof(fan_in) / sizeof(fan_in[0]); n++) {
        struct aw_rng rng;
        aw_rng_init(&rng, n, 0);
        aw_init_fan_in(value, 10000, fan_in[n], &rng);
        double limit = 1 / sqrt((double)fan_in[n]), low = 0, high = 0, square = 0;
        for (int i = 0; i < 10000; i++) {
            double x = (double)value[i];
            assert_true(fabs(x) <= limit * (1 + 1e-6));
            low = fmin(low, x);
            high = fmax(high, x);
            square += x * x;
        }
        assert_true(low < -0.99 * limit && high > 0.99 * limit);
        /* the variance of U(-a, a) is a^2 / 3 */
        assert_true(fabs(square / 10000 / (limit * limit / 3) - 1) < 0.05);
    }
}

static void the_shorter_side_is_orthonormal_times_the_gain(void **state)
{
    (void)state;
    const struct {
        uint32_t rows, columns;
        float gain;
    } cases[] = {{1, 1, 1},   {5, 5, 1},      {4, 9, 1},     {9, 4, 1},    {40, 73, 1.41421356f},
                 {64, 64, 1}, {3, 40, 0.01f}, {128, 128, 1}, {100, 13, 2}, {1, 17, 1}};
    static float value[LARGEST];
    static double work[LARGEST];
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        uint32_t R = cases[n].rows, C = cases[n].columns;
        struct aw_rng rng;
        aw_rng_init(&rng, 3, n);
        aw_init_orthogonal(value, R, C, cases[n].gain, work, &rng);
        double gain = (double)cases[n].gain;
        bool wide = R <= C;
        uint32_t count = wide ? R : C, length = wide ? C : R;
        for (uint32_t a = 0; a < count; a++) {
            for (uint32_t b = 0; b <= a; b++) {
                double dot = 0;
                for (uint32_t i = 0; i < length; i++)
                    dot += (double)(wide ? value[a * C + i] : value[i * C + a]) *
                           (double)(wide ? value[b * C + i] : value[i * C + b]);
                assert_true(fabs(dot / (gain * gain) - (a == b)) < 1e-6);
            }
        }
    }
}

static void orthogonal_matrices_are_not_biased_to_a_side(void **state)
{
    (void)state;
    /* Over all orthogonal matrices every element has mean 0 and variance 1 / n. */
    enum { N = 4, DRAWS = 4000 };
    float value[N * N];
    double work[N * N], sum[N * N] = {0}, square[N * N] = {0};
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    for (int n = 0; n < DRAWS; n++) {
        aw_init_orthogonal(value, N, N, 1, work, &rng);
        for (int i = 0; i < N * N; i++) {
            sum[i] += (double)value[i];
            square[i] += (double)value[i] * (double)value[i];
        }
    }
    for (int i = 0; i < N * N; i++) {
        assert_true(fabs(sum[i] / DRAWS) < 5 * 0.5 / sqrt(DRAWS));
        assert_true(fabs(square[i] / DRAWS - 0.25) < 0.025);
    }
}

static void the_same_seed_gives_the_same_weights(void **state)
{
    (void)state;
    float a[60], b[60];
    double work[60];
    struct aw_rng x, y;
    aw_rng_init(&x, 5, 1);
    aw_rng_init(&y, 5, 1);
    aw_init_orthogonal(a, 6, 10, 1, work, &x);
    aw_init_orthogonal(b, 6, 10, 1, work, &y);
    assert_memory_equal(a, b, sizeof(a));
    aw_init_fan_in(a, 60, 10, &x);
    aw_init_fan_in(b, 60, 10, &y);
    assert_memory_equal(a, b, sizeof(a));
    aw_init_fan_in(b, 60, 10, &y);
    assert_memory_not_equal(a, b, sizeof(a));
}

AW_TEST_GROUP("init")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fan_in_stays_inside_its_bound_and_fills_it),
        cmocka_unit_test(the_shorter_side_is_orthonormal_times_the_gain),
        cmocka_unit_test(orthogonal_matrices_are_not_biased_to_a_side),
        cmocka_unit_test(the_same_seed_gives_the_same_weights),
    };
    return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
