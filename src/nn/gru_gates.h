/*
 * gru_gates.h - the element-wise half of a GRU, one time step, in two builds.
 *
 * Internal to nn/. Each row of `gates` has four slots of H: W_i x for r, z and n on entry; r, z, n
 * and W_hn h + b_hn after forward; the gradients of those four sums after backward. So what forward
 * needs, what it keeps and what backward makes of it share the same cache lines.
 *
 * Rows are walked from end to end: the rows of a wide layer are a power of two apart, and walking
 * down a column would hit the same few cache sets.
 */
#ifndef AW_NN_GRU_GATES_H
#define AW_NN_GRU_GATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AW__GRU_UNITS 8u /* hidden units of a panel of `gh` */

struct aw__gru_gates {
    uint32_t B, H;
    const float *gh; /* [panel][B][3 * AW__GRU_UNITS]: W_h h_prev, r|z|n of eight units together */
    float *gates;    /* [B], rows gates_row apart, three slots, four with `keep` */
    size_t gates_row;
    const float *bias;   /* [4][H]: b_i + b_h of r and z, b_in, b_hn, which r multiplies */
    const float *h_prev; /* [B], rows h_row apart; NULL: zero, and then `gh` is not read */
    float *h;            /* [B], rows h_row apart */
    size_t h_row;
    bool keep; /* leave in `gates` what backward needs */
};

struct aw__gru_gates_backward {
    uint32_t B, H;
    float *gates; /* [B][4][H], rows gates_row apart: as forward kept it, then the gradients */
    size_t gates_row;
    const float *h_prev; /* [B], rows h_row apart; NULL: zero */
    const float *dy;     /* [B], rows h_row apart, added to dh; NULL: zero */
    size_t h_row;
    float *dh;    /* [B][H]: gradient of h on entry, of h_prev through z alone on return */
    float *dbias; /* [4][H]: column sums of the gradients are added, while they are at hand */
};

/* The best build for this processor. */
void aw__gru_gates(const struct aw__gru_gates *g);
void aw__gru_gates_backward(const struct aw__gru_gates_backward *g);

/* Units `first` and on. */
void aw__gru_gates_generic(const struct aw__gru_gates *g, uint32_t first);
void aw__gru_gates_backward_generic(const struct aw__gru_gates_backward *g, uint32_t first);
#if defined(__x86_64__)
void aw__gru_gates_avx2(const struct aw__gru_gates *g);
void aw__gru_gates_backward_avx2(const struct aw__gru_gates_backward *g);
#endif

#endif
