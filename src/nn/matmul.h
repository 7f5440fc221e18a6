/*
 * matmul.h - the three matrix products of a layer, and activations over arrays.
 *
 * The networks of this project are small (40 to 256 wide, batches of 64): there a general BLAS
 * spends more time finding out what to do than doing it. Small products run in our own kernels,
 * which fuse bias and activation and pack nothing but a transposed weight; larger ones go to
 * OpenBLAS. `aware-bench nn` measures both, and the border comes from there.
 *
 * Kernels use AVX2 and FMA where the processor has them, found at run time; plain C otherwise.
 *
 * Memory:  no allocation; packing scratch is on the stack and bounded.
 * Threads: pure functions. OpenBLAS is held to one thread: parallelism here is one model per
 *          thread, and one thread gives the same bits on every run.
 */
#ifndef AW_NN_MATMUL_H
#define AW_NN_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum aw_act {
    AW_ACT_NONE,
    AW_ACT_RELU,
    AW_ACT_TANH,
};

/* y [M][N] = act(x [M][K] w^T + bias), w [N][K], bias [N] or NULL. A layer forward. */
void aw_matmul_forward(const float *x, const float *w, const float *bias, enum aw_act act, float *y,
                       uint32_t M, uint32_t N, uint32_t K);

/* dx [M][N] = dy [M][K] w, w [K][ldw] of which columns 0..N-1 count. A layer backward, to its
 * input; pass w + offset and a smaller N for the gradient of some inputs only. */
void aw_matmul_backward_x(const float *dy, const float *w, size_t ldw, float *dx, uint32_t M,
                          uint32_t N, uint32_t K);

/* dw [M][N] += dy^T x, dy [K][M], x [K][N]. A layer backward, to its weights; K is the batch. */
void aw_matmul_backward_w(const float *dy, const float *x, float *dw, uint32_t M, uint32_t N,
                          uint32_t K);

/* y [N] = act(w x + bias), w [N][K]: one row, the path of acting. y must not overlap x. */
void aw_matvec(const float *x, const float *w, const float *bias, enum aw_act act, float *y,
               uint32_t N, uint32_t K);

/* In place over n floats. */
void aw_act_apply(enum aw_act act, float *y, size_t n);
/* dx = dy * act'(x) given y = act(x); dx may be dy. */
void aw_act_backward(enum aw_act act, const float *y, const float *dy, float *dx, size_t n);

/* db [N] += column sums of dy [B][N]. */
void aw_bias_backward(const float *dy, float *db, uint32_t B, uint32_t N);

/* Makes OpenBLAS use one thread; the products above see to it themselves. Idempotent. */
void aw_matmul_single_thread(void);

/* Whose kernels OpenBLAS has chosen, "Haswell". Those for another processor round otherwise, and
 * what was learned with them has other bits; the variable OPENBLAS_CORETYPE chooses them before a
 * start. */
const char *aw_matmul_kernels(void);

/* What the kernels run on: "avx2+fma" or "generic". */
const char *aw_matmul_kernel_name(void);

#endif
