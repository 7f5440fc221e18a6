/* Products with packed panels, both builds, against sums in double. */
#include "nn/panels.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/testing.h"
#include "nn/kernels.h"

#include <string.h>

static const struct {
    const char *why;
    uint32_t M, N, K;
} cases[] = {
    {"one number", 1, 1, 1},
    {"a ragged vector", 3, 7, 5},
    {"one vector, one row too many for a tile", 7, 8, 3},
    {"two vectors, the second ragged", 8, 11, 9},
    {"a whole panel", 4, 24, 16},
    {"a panel and a ragged one", 5, 27, 13},
    {"four vectors are two and two", 11, 32, 6},
    {"five are three and two", 6, 40, 31},
    {"ten end in two and two", 9, 79, 12},
    {"a block of rows and a longer one", 96 + 97, 16, 4},
    {"two blocks of depth, the second short", 5, 24, 256 + 3},
    {"blocks of everything", 2 * 96 + 5, 50, 2 * 256 + 1},
};

#define PAD   5u /* rows of a, b and c are that much longer than they need to be */
#define GUARD 12345.0f

static struct {
    float a[200 * 520], b[520 * 90], w[90 * 520], panels[520 * 96 + 16], c[200 * 100];
    double want[200 * 100];
} f; /* too large for a stack */

static float *aligned_panels(void)
{
    uintptr_t at = ((uintptr_t)f.panels + AW_ALLOC_ALIGN - 1) / AW_ALLOC_ALIGN * AW_ALLOC_ALIGN;
    return (float *)at;
}

static void check(size_t n, bool transposed, bool accumulate,
                  void (*multiply)(const struct aw__panels_product *))
{
    const uint32_t M = cases[n].M, N = cases[n].N, K = cases[n].K;
    const size_t a_row = K + PAD, b_row = N + PAD, c_row = N + PAD;
    float *panels = aligned_panels();
    assert_true(M * a_row <= sizeof f.a / 4 && K * b_row <= sizeof f.b / 4);
    assert_true(M * c_row <= sizeof f.c / 4 && aw__panels_floats(N, K) + 16 <= sizeof f.panels / 4);
    struct aw_rng rng;
    aw_rng_init(&rng, n, accumulate);
    aw_rng_fill_normal(&rng, f.a, M * a_row);
    aw_rng_fill_normal(&rng, f.b, K * b_row);
    for (size_t i = 0; i < M * c_row; i++)
        f.c[i] = i % c_row < N ? (float)(i % 7) : GUARD;
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < N; j++) {
            double sum = accumulate ? (double)f.c[i * c_row + j] : 0;
            for (uint32_t k = 0; k < K; k++)
                sum += (double)f.a[i * a_row + k] * (double)f.b[k * b_row + j];
            f.want[i * c_row + j] = sum;
        }
    memset(f.panels, 0x7f, sizeof f.panels);
    if (transposed) {
        for (uint32_t j = 0; j < N; j++)
            for (uint32_t k = 0; k < K; k++)
                f.w[j * K + k] = f.b[k * b_row + j];
        aw__panels_pack_transposed(f.w, N, K, panels);
    } else {
        aw__panels_pack(f.b, b_row, N, K, panels);
    }
    float behind;
    memset(&behind, 0x7f, sizeof behind);
    assert_memory_equal(panels + aw__panels_floats(N, K), &behind, sizeof behind);
    multiply(&(struct aw__panels_product){.M = M,
                                          .N = N,
                                          .K = K,
                                          .a = f.a,
                                          .a_row = a_row,
                                          .panels = panels,
                                          .c = f.c,
                                          .c_row = c_row,
                                          .c_col = 1,
                                          .accumulate = accumulate});
    for (size_t i = 0; i < M * c_row; i++)
        if (i % c_row < N)
            assert_close((double)f.c[i], f.want[i], 3e-7 * (K + 8));
        else
            assert_true(f.c[i] == GUARD);
}

static void check_all(void (*multiply)(const struct aw__panels_product *))
{
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (int way = 0; way < 4; way++)
            check(n, way & 1, way & 2, multiply);
}

static void plain_products_match_sums_in_double(void **state)
{
    (void)state;
    check_all(aw__panels_multiply_generic);
}

static void products_of_this_processor_match_sums_in_double(void **state)
{
    (void)state;
    check_all(aw__panels_multiply);
}

static void each_panel_of_the_result_may_be_contiguous(void **state)
{
    (void)state;
    enum { M = 5, N = 3 * AW__PANEL_COLUMNS, K = 10 };
    static float row_by_row[M * N], panel_by_panel[M * N];
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    aw_rng_fill_normal(&rng, f.a, M * K);
    aw_rng_fill_normal(&rng, f.b, K * N);
    aw__panels_pack(f.b, N, N, K, aligned_panels());
    struct aw__panels_product p = {.M = M,
                                   .N = N,
                                   .K = K,
                                   .a = f.a,
                                   .a_row = K,
                                   .panels = aligned_panels(),
                                   .c = row_by_row,
                                   .c_row = N,
                                   .c_col = 1};
    aw__panels_multiply(&p);
    p.c = panel_by_panel;
    p.c_row = AW__PANEL_COLUMNS;
    p.c_col = M;
    aw__panels_multiply(&p);
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < N; j++) {
            uint32_t panel = j / AW__PANEL_COLUMNS, column = j % AW__PANEL_COLUMNS;
            assert_true(row_by_row[i * N + j] ==
                        panel_by_panel[(panel * M + i) * AW__PANEL_COLUMNS + column]);
        }
}

AW_TEST_GROUP("panels")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_products_match_sums_in_double),
        cmocka_unit_test(products_of_this_processor_match_sums_in_double),
        cmocka_unit_test(each_panel_of_the_result_may_be_contiguous),
    };
    return cmocka_run_group_tests_name("panels", tests, NULL, NULL);
}
