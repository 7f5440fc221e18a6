/* kernels_generic.c - the same products for any processor; the compiler vectorises what it can. */
#include "nn/kernels.h"

#include <math.h>
#include <string.h>

void aw__gemm_generic(const struct aw__gemm *g)
{
    for (uint32_t i = 0; i < g->M; i++) {
        float *restrict c = g->c + i * g->c_row;
        if (!g->accumulate)
            memset(c, 0, g->N * sizeof *c);
        for (uint32_t k = 0; k < g->K; k++) {
            float a = g->a[i * g->a_row + k * g->a_col];
            const float *restrict b = g->b + k * g->b_row;
            for (uint32_t j = 0; j < g->N; j++)
                c[j] += a * b[j];
        }
        if (g->accumulate)
            continue;
        for (uint32_t j = 0; g->bias && j < g->N; j++)
            c[j] += g->bias[j];
        for (uint32_t j = 0; g->act == AW_ACT_RELU && j < g->N; j++)
            c[j] = c[j] < 0 ? 0 : c[j]; /* a NaN stays one */
        if (g->act == AW_ACT_TANH)
            aw__tanh_generic(c, g->N);
    }
}

void aw__matvec_generic(const float *x, const float *w, const float *bias, float *y, uint32_t N,
                        uint32_t K)
{
    for (uint32_t i = 0; i < N; i++) {
        const float *row = w + (size_t)i * K;
        float sum = bias ? bias[i] : 0;
        for (uint32_t k = 0; k < K; k++)
            sum += row[k] * x[k];
        y[i] = sum;
    }
}

void aw__transpose_generic(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row,
                           size_t width)
{
    for (uint32_t k = 0; k < K; k++) {
        for (uint32_t i = 0; i < N; i++)
            out[k * out_row + i] = w[(size_t)i * K + k];
        for (size_t i = N; i < width; i++)
            out[k * out_row + i] = 0;
    }
}

void aw__tanh_generic(float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tanhf(y[i]);
}
