/*
 * kernels.h - one small matrix product with strides, in two builds: AVX2+FMA and plain C.
 *
 * Internal to nn/. c [M][N] = epilogue(a b), where a(i, k) is at a[i * a_row + k * a_col] and the
 * rows of b are contiguous. Whoever calls has already made sure that it is small.
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

/*
 * The gates of a GRU, one time step. `gh` has the products of the recurrent weights with h in
 * panels of AW__GRU_UNITS hidden units, [panel][B][3 * AW__GRU_UNITS], r|z|n. Rows are walked from
 * end to end: their lengths are powers of two, and walking down a column would hit the same few
 * cache sets.
 */
#define AW__GRU_UNITS 8u
struct aw__gru_gates {
    uint32_t B, H;
    const float *gh;
    const float *gx;     /* [B][3H]: W_i x + b_i, and b_h of r and z */
    const float *bias_n; /* [H]: b_hn, which r multiplies */
    const float *h_prev; /* [B], rows h_row apart */
    float *h;            /* [B], rows h_row apart */
    size_t h_row;
    float *saved; /* [B][4][H]: r, z, n, W_hn h + b_hn for backward; NULL: not wanted */
};
void aw__gru_gates_generic(const struct aw__gru_gates *g);

/* Backward of all gates, one time step. dh [B][H] is the gradient of h on entry and its direct part
 * for h_prev on return; dgx [B][3H] and dhn [B][H] are written, and their column sums added to
 * dbias [4][H], r|z|n and W_hn h, while they are at hand. */
struct aw__gru_gates_backward {
    uint32_t B, H;
    const float *saved;  /* [B][4][H] */
    const float *h_prev; /* [B], rows h_row apart; NULL: zero */
    size_t h_row;
    float *dh;
    float *dgx;
    float *dhn;
    float *dbias;
};
void aw__gru_gates_backward_generic(const struct aw__gru_gates_backward *g);

#if defined(__x86_64__)
#define AW__HAVE_AVX2 1
void aw__gemm_avx2(const struct aw__gemm *g);
void aw__matvec_avx2(const float *x, const float *w, const float *bias, float *y, uint32_t N,
                     uint32_t K);
void aw__transpose_avx2(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row,
                        size_t width);
void aw__tanh_avx2(float *y, size_t n);
void aw__gru_gates_avx2(const struct aw__gru_gates *g);
void aw__gru_gates_backward_avx2(const struct aw__gru_gates_backward *g);

static inline bool aw__cpu_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define AW__HAVE_AVX2 0
#endif

#endif
