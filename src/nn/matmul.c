/* matmul.c - chooses between our kernels and OpenBLAS, and between processors. */
#include "nn/matmul.h"

#include "nn/kernels.h"

#include <cblas.h>
#include <string.h>

#undef I /* cblas.h brings complex.h */

/*
 * Where our kernels end and OpenBLAS begins, as `aware-bench nn` measures it. Forward: as long as
 * the transposed weight fits the second-level cache, whatever the batch. Backward: multiply-adds up
 * to which reading the operands unpacked does not yet cost more than packing them.
 */
#define FORWARD_PACK_FLOATS_MAX 16384u /* 64 KiB, on the stack */
#define BACKWARD_X_MACS_MAX     ((uint64_t)1 << 20)
#define BACKWARD_W_MACS_MAX     ((uint64_t)1 << 19)

void aw__gemm(const struct aw__gemm *g)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__gemm_avx2(g);
        return;
    }
#endif
    aw__gemm_generic(g);
}

void aw__blas_gemm(bool a_transposed, bool b_transposed, size_t M, size_t N, size_t K,
                   const float *a, size_t a_row, const float *b, size_t b_row, float beta, float *c,
                   size_t c_row)
{
    /* Asked at every product, for it costs nothing: how OpenBLAS shares a product among its threads
     * changes the last bits, and a run must not depend on how many processors there are. */
    if (openblas_get_num_threads() != 1)
        aw_matmul_single_thread();
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
                b_transposed ? CblasTrans : CblasNoTrans, (int)M, (int)N, (int)K, 1, a, (int)a_row,
                b, (int)b_row, beta, c, (int)c_row);
}

void aw__transpose(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row, size_t width)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__transpose_avx2(w, N, K, out, out_row, width);
        return;
    }
#endif
    aw__transpose_generic(w, N, K, out, out_row, width);
}

void aw_matmul_forward(const float *x, const float *w, const float *bias, enum aw_act act, float *y,
                       uint32_t M, uint32_t N, uint32_t K)
{
    if (M == 1) {
        aw_matvec(x, w, bias, act, y, N, K);
        return;
    }
    size_t out_row = (N + 7u) / 8u * 8u;
    if (out_row * K <= FORWARD_PACK_FLOATS_MAX) {
        float packed[FORWARD_PACK_FLOATS_MAX] __attribute__((aligned(64)));
        aw__transpose(w, N, K, packed, out_row, out_row);
        aw__gemm(&(struct aw__gemm){.M = M,
                                    .N = N,
                                    .K = K,
                                    .a = x,
                                    .a_row = K,
                                    .a_col = 1,
                                    .b = packed,
                                    .b_row = out_row,
                                    .b_padded = true,
                                    .c = y,
                                    .c_row = N,
                                    .bias = bias,
                                    .act = act});
        return;
    }
    for (uint32_t i = 0; bias && i < M; i++)
        memcpy(y + (size_t)i * N, bias, N * sizeof *y);
    aw__blas_gemm(false, true, M, N, K, x, K, w, K, bias ? 1 : 0, y, N);
    aw_act_apply(act, y, (size_t)M * N);
}

void aw_matmul_backward_x(const float *dy, const float *w, size_t ldw, float *dx, uint32_t M,
                          uint32_t N, uint32_t K)
{
    if ((uint64_t)M * N * K <= BACKWARD_X_MACS_MAX) {
        aw__gemm(&(struct aw__gemm){.M = M,
                                    .N = N,
                                    .K = K,
                                    .a = dy,
                                    .a_row = K,
                                    .a_col = 1,
                                    .b = w,
                                    .b_row = ldw,
                                    .c = dx,
                                    .c_row = N});
        return;
    }
    aw__blas_gemm(false, false, M, N, K, dy, K, w, ldw, 0, dx, N);
}

void aw_matmul_backward_w(const float *dy, const float *x, float *dw, uint32_t M, uint32_t N,
                          uint32_t K)
{
    if ((uint64_t)M * N * K <= BACKWARD_W_MACS_MAX) {
        aw__gemm(&(struct aw__gemm){.M = M,
                                    .N = N,
                                    .K = K,
                                    .a = dy,
                                    .a_row = 1,
                                    .a_col = M,
                                    .b = x,
                                    .b_row = N,
                                    .c = dw,
                                    .c_row = N,
                                    .accumulate = true});
        return;
    }
    aw__blas_gemm(true, false, M, N, K, dy, M, x, N, 1, dw, N);
}

void aw_matvec(const float *x, const float *w, const float *bias, enum aw_act act, float *y,
               uint32_t N, uint32_t K)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2())
        aw__matvec_avx2(x, w, bias, y, N, K);
    else
#endif
        aw__matvec_generic(x, w, bias, y, N, K);
    aw_act_apply(act, y, N);
}

void aw_act_apply(enum aw_act act, float *y, size_t n)
{
    switch (act) {
    case AW_ACT_NONE:
        break;
    case AW_ACT_RELU:
        for (size_t i = 0; i < n; i++)
            y[i] = y[i] < 0 ? 0 : y[i]; /* a NaN stays one */
        break;
    case AW_ACT_TANH:
#if AW__HAVE_AVX2
        if (aw__cpu_avx2()) {
            aw__tanh_avx2(y, n);
            break;
        }
#endif
        aw__tanh_generic(y, n);
        break;
    }
}

void aw_act_backward(enum aw_act act, const float *y, const float *dy, float *dx, size_t n)
{
    switch (act) {
    case AW_ACT_NONE:
        if (dx != dy)
            memcpy(dx, dy, n * sizeof *dx);
        break;
    case AW_ACT_RELU:
        for (size_t i = 0; i < n; i++) {
            float g = dy[i]; /* read in any case, or the loop does not vectorise */
            dx[i] = y[i] > 0 ? g : 0;
        }
        break;
    case AW_ACT_TANH:
        for (size_t i = 0; i < n; i++)
            dx[i] = dy[i] * (1 - y[i] * y[i]);
        break;
    }
}

void aw_bias_backward(const float *dy, float *restrict db, uint32_t B, uint32_t N)
{
    for (uint32_t b = 0; b < B; b++) {
        const float *restrict row = dy + (size_t)b * N;
        for (uint32_t j = 0; j < N; j++)
            db[j] += row[j];
    }
}

const char *aw_matmul_kernels(void)
{
    return openblas_get_corename();
}

void aw_matmul_single_thread(void)
{
    openblas_set_num_threads(1);
}

const char *aw_matmul_kernel_name(void)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2())
        return "avx2+fma";
#endif
    return "generic";
}
