/*
 * gru.h - gated recurrent units with PyTorch's equations and weight layout.
 *
 *   r  = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
 *   z  = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
 *   n  = tanh(W_in x + b_in + r * (W_hn h + b_hn))
 *   h' = (1 - z) * n + z * h
 *
 * Weights are packed r|z|n: weight_ih_l{k}[_reverse] [3H][in], weight_hh [3H][H], two biases [3H].
 * Layer k > 0 reads the directions of layer k - 1 side by side. Sequences are time-major,
 * x [T][B][in], and begin from h = 0.
 *
 * Call order: declare (before aw_params_alloc), init_uniform, forward, then backward of the same x.
 *             Backward comes once: it turns what forward kept into gradients where it lies.
 * Memory:     a cache is one block sized for the largest T and B. Nothing else allocates.
 * Threads:    read-only after declare; a cache has one owner.
 */
#ifndef AW_NN_GRU_H
#define AW_NN_GRU_H

#include "base/rng.h"
#include "nn/params.h"

#define AW_GRU_LAYERS_MAX 4u

struct aw_gru_cell { /* one layer, one direction */
    uint32_t in;
    size_t weight_ih, weight_hh, bias_ih, bias_hh;
};

struct aw_gru {
    uint32_t in, hidden;
    uint32_t layer_count;
    uint32_t direction_count; /* 1, or 2: bidirectional */
    struct aw_gru_cell cell[AW_GRU_LAYERS_MAX][2];
};

struct aw_gru_cache; /* opaque */

void aw_gru_declare(struct aw_gru *gru, struct aw_params *params, const char *prefix, uint32_t in,
                    uint32_t hidden, uint32_t layer_count, bool bidirectional);
/* PyTorch's default: everything U(+-1/sqrt(hidden)). */
void aw_gru_init_uniform(const struct aw_gru *gru, float *theta, struct aw_rng *rng);

/* `training` false keeps nothing for backward and needs a fraction of the memory. */
AW_NODISCARD enum aw_err aw_gru_cache_new(const struct aw_gru *gru, uint32_t T_max, uint32_t B_max,
                                          bool training, const struct aw_alloc *alloc,
                                          struct aw_gru_cache **ret_cache);
void aw_gru_cache_free(struct aw_gru_cache *cache);

/* Runs the whole sequence. Returns the last layer's output [T][B][directions * H]; when `h_n` is
 * not NULL writes the final states [layers * directions][B][H], l0 forward, l0 backward, l1 ... */
const float *aw_gru_forward(const struct aw_gru *gru, const float *theta, const float *x,
                            uint32_t T, uint32_t B, struct aw_gru_cache *cache, float *h_n);

/* dy [T][B][directions * H] and dh_n (as h_n), either may be NULL. Adds to `grad`; writes dx
 * [T][B][in] (NULL: not wanted). */
void aw_gru_backward(const struct aw_gru *gru, const float *theta, const float *x, uint32_t T,
                     uint32_t B, struct aw_gru_cache *cache, const float *dy, const float *dh_n,
                     float *grad, float *dx);

#endif
