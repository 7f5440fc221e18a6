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

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

void aw__gru_gates_generic(const struct aw__gru_gates *g)
{
    const uint32_t H = g->H, U = AW__GRU_UNITS;
    for (uint32_t b = 0; b < g->B; b++) {
        const float *gx = g->gx + (size_t)b * 3 * H;
        for (uint32_t unit = 0; unit < H; unit++) {
            const float *gh = g->gh + ((size_t)(unit / U) * g->B + b) * 3 * U + unit % U;
            float r = sigmoid(gx[unit] + gh[0]);
            float z = sigmoid(gx[H + unit] + gh[U]);
            float hn = gh[2 * U] + g->bias_n[unit];
            float n = tanhf(gx[2 * H + unit] + r * hn);
            g->h[b * g->h_row + unit] = (1 - z) * n + z * g->h_prev[b * g->h_row + unit];
            if (g->saved) {
                float *saved = g->saved + (size_t)b * 4 * H + unit;
                saved[0] = r;
                saved[H] = z;
                saved[2 * H] = n;
                saved[3 * H] = hn;
            }
        }
    }
}

void aw__gru_gates_backward_generic(const struct aw__gru_gates_backward *g)
{
    const uint32_t H = g->H;
    for (uint32_t b = 0; b < g->B; b++) {
        const float *r = g->saved + (size_t)b * 4 * H, *z = r + H, *n = z + H, *hn = n + H;
        float *dh = g->dh + (size_t)b * H, *dgx = g->dgx + (size_t)b * 3 * H;
        float *dhn = g->dhn + (size_t)b * H;
        for (uint32_t j = 0; j < H; j++) {
            float h_prev = g->h_prev ? g->h_prev[b * g->h_row + j] : 0;
            float dn = dh[j] * (1 - z[j]) * (1 - n[j] * n[j]);
            dgx[j] = dn * hn[j] * r[j] * (1 - r[j]);
            dgx[H + j] = dh[j] * (h_prev - n[j]) * z[j] * (1 - z[j]);
            dgx[2 * H + j] = dn;
            dhn[j] = dn * r[j];
            for (uint32_t k = 0; k < 3; k++)
                g->dbias[k * H + j] += dgx[k * H + j];
            g->dbias[3 * H + j] += dhn[j];
            dh[j] *= z[j];
        }
    }
}
