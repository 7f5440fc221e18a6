/* params.c - declaring, allocating and walking the flat block of a model's weights. */
#include "nn/params.h"

#include <math.h>
#include <string.h>

/* A tensor starts where a vector load and a cache line do. */
#define TENSOR_ALIGN (AW_ALLOC_ALIGN / sizeof(float))

size_t aw_params_add(struct aw_params *params, const char *name, uint32_t rank, uint32_t rows,
                     uint32_t columns)
{
    size_t name_len = strlen(name);
    AW_ASSERT(!params->value);
    AW_ASSERT(params->tensor_count < AW_PARAMS_TENSORS_MAX);
    AW_ASSERT(name_len > 0 && name_len < AW_PARAMS_NAME_MAX);
    AW_ASSERT(!aw_params_find(params, name));
    AW_ASSERT(rank == 2 || (rank == 1 && columns == 1));
    AW_ASSERT(rows > 0 && columns > 0);

    struct aw_param *param = &params->tensor[params->tensor_count++];
    *param = (struct aw_param){.rank = rank, .shape = {rows, columns}, .offset = params->count};
    memcpy(param->name, name, name_len + 1);

    size_t size = aw_param_size(param);
    AW_ASSERT(size <= AW_PARAMS_COUNT_MAX - params->count);
    params->count += (size + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    return param->offset;
}

enum aw_err aw_params_alloc(struct aw_params *params, const struct aw_alloc *alloc)
{
    AW_ASSERT(!params->value);
    float *block = aw_alloc_new(alloc, params->count, 4 * sizeof(float));
    if (!block)
        return AW_ERR_NOMEM;
    params->value = block;
    params->grad = block + params->count;
    params->m = block + 2 * params->count;
    params->v = block + 3 * params->count;
    params->step = 0;
    params->alloc = alloc;
    return AW_OK;
}

void aw_params_deinit(struct aw_params *params)
{
    aw_alloc_free(params->alloc, params->value);
    *params = (struct aw_params){0};
}

const struct aw_param *aw_params_find(const struct aw_params *params, const char *name)
{
    for (uint32_t i = 0; i < params->tensor_count; i++)
        if (strcmp(params->tensor[i].name, name) == 0)
            return &params->tensor[i];
    return NULL;
}

void aw_params_zero_grad(struct aw_params *params)
{
    memset(params->grad, 0, params->count * sizeof(float));
}

void aw_params_zero_moments(struct aw_params *params)
{
    memset(params->m, 0, params->count * sizeof(float));
    memset(params->v, 0, params->count * sizeof(float));
    params->step = 0;
}

void aw_params_soft_update(float *restrict target, const float *restrict source, float tau,
                           size_t count)
{
    /* A copy, not 0 * target + source: a target that left the finite numbers must not stay so. */
    if (tau == 1) {
        memcpy(target, source, count * sizeof(float));
        return;
    }
    float keep = 1 - tau;
    for (size_t i = 0; i < count; i++)
        target[i] = keep * target[i] + tau * source[i];
}

double aw_params_clip_grad_norm(struct aw_params *params, double norm_max)
{
    /* Lanes, because a single sum may not be reordered and would run at one addition's latency. */
    enum { LANES = 8 };
    double lane[LANES] = {0};
    float *grad = params->grad;
    for (size_t i = 0; i < params->count; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += (double)grad[i + k] * (double)grad[i + k];
    double square = 0;
    for (size_t k = 0; k < LANES; k++)
        square += lane[k];

    double norm = sqrt(square);
    double factor = norm_max / (norm + 1e-6);
    if (isfinite(norm) && factor < 1) {
        float scale = (float)factor;
        for (size_t i = 0; i < params->count; i++)
            grad[i] *= scale;
    }
    return norm;
}

bool aw_params_finite(const float *value, size_t count)
{
    /* Exponent bits, so that the loop is integer and branch-free: all ones is NaN or infinity. */
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &value[i], sizeof(bits));
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}
