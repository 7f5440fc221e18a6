/*
 * mlp.h - fully connected layers: y = act(x W^T + b), W as PyTorch has it, [out][in].
 *
 * A layer stack holds dimensions and offsets; weights, activations and gradients are arguments. So
 * one stack runs on online weights and on target weights, and a cache serves any of them.
 *
 * Call order: declare (before aw_params_alloc), init_*, then forward; backward right after the
 *             forward of the same x and cache.
 * Memory:     a cache is one block, sized at init for a largest batch. Nothing else allocates.
 * Threads:    a stack is read-only after declare; a cache has one owner.
 */
#ifndef AW_NN_MLP_H
#define AW_NN_MLP_H

#include "base/rng.h"
#include "nn/matmul.h"
#include "nn/params.h"

#define AW_MLP_LAYERS_MAX 8u
#define AW_MLP_WIDTH_MAX  4096u /* units of one layer */

struct aw_linear {
    uint32_t in, out;
    size_t weight, bias; /* offsets of [out][in] and [out] */
};

struct aw_mlp {
    uint32_t layer_count;
    struct aw_linear layer[AW_MLP_LAYERS_MAX];
    enum aw_act hidden, output;
};

/* Activations of the last forward, kept for backward, and scratch for it. */
struct aw_mlp_cache {
    uint32_t batch_max;
    float *out[AW_MLP_LAYERS_MAX]; /* [batch_max][layer.out], after the activation */
    float *dout[2];                /* [batch_max][widest]: gradients on their way down */
    const struct aw_alloc *alloc;
    void *block;
};

/* Declares `width_count - 1` layers named as nn.Sequential would: prefix.0.weight, prefix.0.bias,
 * prefix.2.weight, ... widths[0] is the input. */
void aw_mlp_declare(struct aw_mlp *mlp, struct aw_params *params, const char *prefix,
                    const uint32_t *widths, uint32_t width_count, enum aw_act hidden,
                    enum aw_act output);

/* PyTorch's default for every layer; then, when final_limit > 0, the last layer U(+-final_limit)
 * (Lillicrap et al., 2016, section 7). */
void aw_mlp_init_fan_in(const struct aw_mlp *mlp, float *theta, float final_limit,
                        struct aw_rng *rng);
/* Orthogonal with gain sqrt(2) (hidden) and `final_gain`, biases 0. AW_ERR_NOMEM for its scratch.
 */
AW_NODISCARD enum aw_err aw_mlp_init_orthogonal(const struct aw_mlp *mlp, float *theta,
                                                float final_gain, struct aw_rng *rng,
                                                const struct aw_alloc *alloc);

AW_NODISCARD enum aw_err aw_mlp_cache_init(struct aw_mlp_cache *cache, const struct aw_mlp *mlp,
                                           uint32_t batch_max, const struct aw_alloc *alloc);
void aw_mlp_cache_deinit(struct aw_mlp_cache *cache);

/* x [B][in]; returns y [B][out], which lives in the cache until its next forward. B <= batch_max.
 */
const float *aw_mlp_forward(const struct aw_mlp *mlp, const float *theta, const float *x,
                            uint32_t B, struct aw_mlp_cache *cache);

/* dy [B][out] is the gradient of y and is left as it was. Adds to `grad` (laid out as theta; NULL:
 * weight gradients are not wanted); writes dx [B][in] (NULL: not wanted). */
void aw_mlp_backward(const struct aw_mlp *mlp, const float *theta, const float *x, uint32_t B,
                     struct aw_mlp_cache *cache, const float *dy, float *grad, float *dx);

/* One row, its own path: no cache, no batch; scratch on the stack. Same result as a forward of one
 * row to within rounding. */
void aw_mlp_infer(const struct aw_mlp *mlp, const float *theta, const float *x, float *y);

#endif
