/*
 * params.h - the weights of a model: one flat block with named views.
 *
 * Values, gradients and Adam's two moments are each one array of `count` floats, so an optimiser
 * step, a soft update, clipping and a checkpoint are one loop each. A layer keeps offsets, not
 * pointers: the same layer runs on the online weights and on a target copy.
 *
 * Call order: zero the struct, declare layers (each calls add), alloc, initialise, use, deinit.
 * Memory:     one block, sized at alloc. Tensors start on 64-byte boundaries; the gaps stay zero.
 * Threads:    single owner.
 */
#ifndef AW_NN_PARAMS_H
#define AW_NN_PARAMS_H

#include "base/alloc.h"

#define AW_PARAMS_TENSORS_MAX 64u
#define AW_PARAMS_NAME_MAX    64u               /* bytes, with the NUL */
#define AW_PARAMS_COUNT_MAX   ((size_t)1 << 28) /* floats in one model: 1 GiB */

struct aw_param {
    char name[AW_PARAMS_NAME_MAX]; /* PyTorch's: "actor.0.weight" */
    uint32_t rank;                 /* 1 or 2 */
    uint32_t shape[2];             /* rows, columns; rank 1: length, 1 */
    size_t offset;                 /* floats from the start of the block */
};

struct aw_params {
    uint32_t tensor_count;
    struct aw_param tensor[AW_PARAMS_TENSORS_MAX];
    size_t count;  /* floats, gaps included */
    float *value;  /* [count] */
    float *grad;   /* [count] */
    float *m, *v;  /* [count] each: Adam's first and second moments */
    uint64_t step; /* Adam's t: optimiser steps made so far */
    const struct aw_alloc *alloc;
};

/* Declares a tensor before alloc and returns its offset. Running out of places or names is a bug.
 */
size_t aw_params_add(struct aw_params *params, const char *name, uint32_t rank, uint32_t rows,
                     uint32_t columns);

/* All four arrays zeroed. On failure the declarations are kept, and deinit is still a no-op. */
AW_NODISCARD enum aw_err aw_params_alloc(struct aw_params *params, const struct aw_alloc *alloc);
void aw_params_deinit(struct aw_params *params); /* zeroes it; a zeroed one is a no-op */

const struct aw_param *aw_params_find(const struct aw_params *params, const char *name);
static inline size_t aw_param_size(const struct aw_param *param)
{
    return (size_t)param->shape[0] * param->shape[1];
}

void aw_params_zero_grad(struct aw_params *params);
/* As before the first step of Adam: for weights that the moments do not belong to. */
void aw_params_zero_moments(struct aw_params *params);
/* target = (1 - tau) * target + tau * source, over `count` floats that do not overlap; tau 1
 * copies. */
void aw_params_soft_update(float *target, const float *source, float tau, size_t count);
/* Scales all gradients so that their global L2 norm is at most `norm_max` (PyTorch's
 * clip_grad_norm_: factor = norm_max / (norm + 1e-6), at most 1). Returns the norm before; when
 * that is not finite, nothing was scaled and nothing should be learned from it. */
double aw_params_clip_grad_norm(struct aw_params *params, double norm_max);
/* False when any of `count` floats is NaN or infinite. */
bool aw_params_finite(const float *value, size_t count);

#endif
