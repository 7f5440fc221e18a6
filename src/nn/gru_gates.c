/* gru_gates.c - the choice of a build, and the plain one. */
#include "nn/gru_gates.h"

#include "nn/kernels.h"

#include <math.h>

void aw__gru_gates(const struct aw__gru_gates *g)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__gru_gates_avx2(g);
        return;
    }
#endif
    aw__gru_gates_generic(g, 0);
}

void aw__gru_gates_backward(const struct aw__gru_gates_backward *g)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__gru_gates_backward_avx2(g);
        return;
    }
#endif
    aw__gru_gates_backward_generic(g, 0);
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

void aw__gru_gates_generic(const struct aw__gru_gates *g, uint32_t first)
{
    static const float zero[3 * AW__GRU_UNITS];
    const uint32_t H = g->H, U = AW__GRU_UNITS;
    for (uint32_t b = 0; b < g->B; b++)
        for (uint32_t j = first; j < H; j++) {
            float *gates = g->gates + b * g->gates_row + j;
            const float *gh =
                g->h_prev ? g->gh + ((size_t)(j / U) * g->B + b) * 3 * U + j % U : zero;
            const float *bias = g->bias + j;
            float r = sigmoid(gates[0] + bias[0] + gh[0]);
            float z = sigmoid(gates[H] + bias[H] + gh[U]);
            float hn = gh[2 * U] + bias[3 * H];
            float n = tanhf(gates[2 * H] + bias[2 * H] + r * hn);
            float h_prev = g->h_prev ? g->h_prev[b * g->h_row + j] : 0;
            g->h[b * g->h_row + j] = (1 - z) * n + z * h_prev;
            if (g->keep) {
                gates[0] = r;
                gates[H] = z;
                gates[2 * H] = n;
                gates[3 * H] = hn;
            }
        }
}

void aw__gru_gates_backward_generic(const struct aw__gru_gates_backward *g, uint32_t first)
{
    const uint32_t H = g->H;
    for (uint32_t b = 0; b < g->B; b++)
        for (uint32_t j = first; j < H; j++) {
            float *gates = g->gates + b * g->gates_row + j, *dh_at = g->dh + (size_t)b * H + j;
            float r = gates[0], z = gates[H], n = gates[2 * H], hn = gates[3 * H];
            float h_prev = g->h_prev ? g->h_prev[b * g->h_row + j] : 0;
            float dh = *dh_at + (g->dy ? g->dy[b * g->h_row + j] : 0);
            float dn = dh * (1 - z) * (1 - n * n);
            gates[0] = dn * hn * r * (1 - r);
            gates[H] = dh * (h_prev - n) * z * (1 - z);
            gates[2 * H] = dn;
            gates[3 * H] = dn * r;
            for (uint32_t slot = 0; slot < 4; slot++)
                g->dbias[slot * H + j] += gates[slot * H];
            *dh_at = dh * z;
        }
}
