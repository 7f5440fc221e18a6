#include "base/alloc.h"
#include "base/rng.h"
#include "base/testing.h"
#include "nn/kernels.h"
#include "nn/matmul.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#undef I /* cblas.h brings complex.h */

/* Sizes around every edge of the kernels: vectors of 8, bands of 16 and 24, tiles of 4 and 6 rows,
 * and beyond the border to OpenBLAS. */
static const uint32_t sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  15,
                                 16, 17, 23, 24, 25, 31, 33, 40, 64, 73};
#define SIZES (sizeof sizes / sizeof *sizes)

enum { CAPACITY = 300 * 300 };

struct arrays {
    float a[CAPACITY], b[CAPACITY], c[CAPACITY], bias[300];
    double want[CAPACITY];
};

static int set_up(void **state)
{
    struct arrays *arrays = aw_alloc_new(NULL, 1, sizeof *arrays);
    struct aw_rng rng;
    aw_rng_init(&rng, 9, 0);
    aw_rng_fill_normal(&rng, arrays->a, CAPACITY);
    aw_rng_fill_normal(&rng, arrays->b, CAPACITY);
    aw_rng_fill_normal(&rng, arrays->bias, 300);
    *state = arrays;
    return 0;
}

static int tear_down(void **state)
{
    aw_alloc_free(NULL, *state);
    return 0;
}

#define GUARD 12345.0f /* what must still stand behind the last element */

static void compare(const struct arrays *s, uint32_t M, uint32_t N, uint32_t K)
{
    for (size_t i = 0; i < (size_t)M * N; i++)
        assert_close((double)s->c[i], s->want[i], 3e-7 * (K + 8));
    assert_true(s->c[(size_t)M * N] == GUARD);
}

static void forward_case(struct arrays *s, uint32_t M, uint32_t N, uint32_t K, enum aw_act act)
{
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < N; j++) {
            double sum = (double)s->bias[j];
            for (uint32_t k = 0; k < K; k++)
                sum += (double)s->a[i * K + k] * (double)s->b[j * K + k];
            if (act == AW_ACT_RELU)
                sum = sum > 0 ? sum : 0;
            if (act == AW_ACT_TANH)
                sum = tanh(sum);
            s->want[i * N + j] = sum;
        }
    s->c[(size_t)M * N] = GUARD;
    aw_matmul_forward(s->a, s->b, s->bias, act, s->c, M, N, K);
    compare(s, M, N, K);
}

static void forward_equals_its_definition(void **state)
{
    for (size_t m = 0; m < SIZES; m++)
        for (size_t n = 0; n < SIZES; n++)
            for (size_t k = 0; k < SIZES; k += 3)
                forward_case(*state, sizes[m], sizes[n], sizes[k], (enum aw_act)((m + n + k) % 3));
    forward_case(*state, 150, 200, 250, AW_ACT_TANH);
    forward_case(*state, 2, 280, 290, AW_ACT_RELU);
}

static void backward_x_equals_its_definition(void **state)
{
    struct arrays *s = *state;
    for (size_t m = 0; m < SIZES; m++)
        for (size_t n = 0; n < SIZES; n++)
            for (size_t k = 0; k < SIZES; k += 4) {
                uint32_t M = sizes[m], N = sizes[n], K = sizes[k];
                size_t ldw = N + (n % 3);
                for (uint32_t i = 0; i < M; i++)
                    for (uint32_t j = 0; j < N; j++) {
                        double sum = 0;
                        for (uint32_t l = 0; l < K; l++)
                            sum += (double)s->a[i * K + l] * (double)s->b[l * ldw + j];
                        s->want[i * N + j] = sum;
                    }
                s->c[(size_t)M * N] = GUARD;
                aw_matmul_backward_x(s->a, s->b, ldw, s->c, M, N, K);
                compare(s, M, N, K);
            }
}

static void backward_w_adds_to_what_is_there(void **state)
{
    struct arrays *s = *state;
    for (size_t m = 0; m < SIZES; m++)
        for (size_t n = 0; n < SIZES; n++)
            for (size_t k = 0; k < SIZES; k += 4) {
                uint32_t M = sizes[m], N = sizes[n], K = sizes[k];
                for (uint32_t i = 0; i < M; i++)
                    for (uint32_t j = 0; j < N; j++) {
                        double sum = 0.5;
                        for (uint32_t l = 0; l < K; l++)
                            sum += (double)s->a[l * M + i] * (double)s->b[l * N + j];
                        s->want[i * N + j] = sum;
                        s->c[i * N + j] = 0.5f;
                    }
                s->c[(size_t)M * N] = GUARD;
                aw_matmul_backward_w(s->a, s->b, s->c, M, N, K);
                compare(s, M, N, K);
            }
}

static void the_large_products_of_openblas_agree_too(void **state)
{
    struct arrays *s = *state;
    const uint32_t M = 140, N = 150, K = 160;
    s->c[M * N] = GUARD;
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < N; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < K; k++)
                sum += (double)s->a[i * K + k] * (double)s->b[k * N + j];
            s->want[i * N + j] = sum;
        }
    aw_matmul_backward_x(s->a, s->b, N, s->c, M, N, K);
    compare(s, M, N, K);
    memset(s->c, 0, M * N * sizeof *s->c);
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < N; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < K; k++)
                sum += (double)s->a[k * M + i] * (double)s->b[k * N + j];
            s->want[i * N + j] = sum;
        }
    aw_matmul_backward_w(s->a, s->b, s->c, M, N, K);
    compare(s, M, N, K);
}

static void the_generic_kernels_agree_with_the_definition(void **state)
{
    struct arrays *s = *state;
    const uint32_t M = 7, N = 13, K = 9;
    float transposed[9 * 16];
    aw__transpose_generic(s->b, N, K, transposed, 16, 16);
    for (int act = AW_ACT_NONE; act <= AW_ACT_TANH; act++) {
        forward_case(s, M, N, K, (enum aw_act)act);
        aw__gemm_generic(&(struct aw__gemm){.M = M,
                                            .N = N,
                                            .K = K,
                                            .a = s->a,
                                            .a_row = K,
                                            .a_col = 1,
                                            .b = transposed,
                                            .b_row = 16,
                                            .c = s->c,
                                            .c_row = N,
                                            .bias = s->bias,
                                            .act = (enum aw_act)act});
        compare(s, M, N, K);
    }
    forward_case(s, 1, N, K, AW_ACT_NONE);
    aw__matvec_generic(s->a, s->b, s->bias, s->c, N, K);
    compare(s, 1, N, K);
}

static void a_large_product_runs_on_one_thread_whatever_openblas_was_told(void **state)
{
    struct arrays *s = *state;
    openblas_set_num_threads(2);
    aw_matmul_forward(s->a, s->b, s->bias, AW_ACT_NONE, s->c, 256, 256, 256);
    assert_int_equal(openblas_get_num_threads(), 1);
    openblas_set_num_threads(2);
    aw_matmul_backward_x(s->a, s->b, 256, s->c, 256, 256, 256);
    assert_int_equal(openblas_get_num_threads(), 1);
    openblas_set_num_threads(2);
    aw_matmul_backward_w(s->a, s->b, s->c, 256, 256, 256);
    assert_int_equal(openblas_get_num_threads(), 1);
}

static void an_activation_and_its_slope_agree(void **state)
{
    (void)state;
    float x[19], y[19], dy[19], dx[19];
    for (int i = 0; i < 19; i++) {
        x[i] = 0.7f * (float)(i - 9) + 0.1f;
        dy[i] = 1 + (float)i;
    }
    for (int act = AW_ACT_NONE; act <= AW_ACT_TANH; act++) {
        memcpy(y, x, sizeof x);
        aw_act_apply((enum aw_act)act, y, 19);
        aw_act_backward((enum aw_act)act, y, dy, dx, 19);
        for (int i = 0; i < 19; i++) {
            double t = tanh((double)x[i]);
            double want = act == AW_ACT_NONE ? 1 : act == AW_ACT_RELU ? x[i] > 0 : 1 - t * t;
            assert_close((double)dx[i], want * (double)dy[i], 1e-5);
        }
    }
    float db[3] = {1, 1, 1};
    aw_bias_backward(dy, db, 4, 3);
    assert_close((double)db[1], 1 + 2 + 5 + 8 + 11, 1e-6);
}

AW_TEST_GROUP("matmul")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_equals_its_definition),
        cmocka_unit_test(backward_x_equals_its_definition),
        cmocka_unit_test(backward_w_adds_to_what_is_there),
        cmocka_unit_test(the_large_products_of_openblas_agree_too),
        cmocka_unit_test(a_large_product_runs_on_one_thread_whatever_openblas_was_told),
        cmocka_unit_test(the_generic_kernels_agree_with_the_definition),
        cmocka_unit_test(an_activation_and_its_slope_agree),
    };
    return cmocka_run_group_tests_name("matmul", tests, set_up, tear_down);
}
