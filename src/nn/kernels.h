/*
 * kernels.h - one small matrix product with strides, in two builds: AVX2+FMA and plain C.
 *
 * Internal to nn/. c [M][N] = epilogue(a b), where a(i, k) is at a[i * a_row + k * a_col] and the
 * rows of b are contiguous. The caller has made sure that it is small.
 */
#ifndef AW_NN_KERNELS_H
#define AW_NN_KERNELS_H

#include "nn/matmul.h"

struct aw__gemm {
    uint32_t M, N, K;
    const float *a;
    size_t a_row, a_col;
    const float *b;
    size_t b_row;
    bool b_padded; /* rows of b may be read up to the next multiple of 8 columns */
    float *c;
    size_t c_row;
    bool accumulate;   /* c += a b; then bias and act do not apply */
    const float *bias; /* [N], or NULL */
    enum aw_act act;
};

/* The best build for this processor. */
void aw__gemm(const struct aw__gemm *g);
void aw__transpose(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row,
                   size_t width);
void aw__gemm_generic(const struct aw__gemm *g);

/* c [M][N] = op(a) op(b) + beta c by OpenBLAS on one thread, for what is not small. Rows of what is
 * stored lie a_row, b_row and c_row apart. */
void aw__blas_gemm(bool a_transposed, bool b_transposed, size_t M, size_t N, size_t K,
                   const float *a, size_t a_row, const float *b, size_t b_row, float beta, float *c,
                   size_t c_row);

void aw__matvec_generic(const float *x, const float *w, const float *bias, float *y, uint32_t N,
                        uint32_t K);
/* out [K] rows out_row apart = w [N][K] transposed; columns N..width-1 are zeroed. */
void aw__transpose_generic(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row,
                           size_t width);
void aw__tanh_generic(float *y, size_t n);

#if defined(__x86_64__)
#define AW__HAVE_AVX2 1
void aw__gemm_avx2(const struct aw__gemm *g);
void aw__matvec_avx2(const float *x, const float *w, const float *bias, float *y, uint32_t N,
                     uint32_t K);
void aw__transpose_avx2(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row,
                        size_t width);
void aw__tanh_avx2(float *y, size_t n);

static inline bool aw__cpu_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define AW__HAVE_AVX2 0
#endif

#endif
