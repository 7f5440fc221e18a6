/* mlp.c - stacks of fully connected layers. */
#include "nn/mlp.h"

#include "nn/init.h"

#include <math.h>
#include <stdio.h>

void aw_mlp_declare(struct aw_mlp *mlp, struct aw_params *params, const char *prefix,
                    const uint32_t *widths, uint32_t width_count, enum aw_act hidden,
                    enum aw_act output)
{
    AW_ASSERT(width_count >= 2 && width_count - 1 <= AW_MLP_LAYERS_MAX);
    *mlp = (struct aw_mlp){.layer_count = width_count - 1, .hidden = hidden, .output = output};
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        struct aw_linear *layer = &mlp->layer[l];
        AW_ASSERT(widths[l] > 0 && widths[l] <= AW_MLP_WIDTH_MAX);
        AW_ASSERT(widths[l + 1] > 0 && widths[l + 1] <= AW_MLP_WIDTH_MAX);
        layer->in = widths[l];
        layer->out = widths[l + 1];
        /* nn.Sequential counts activations too, so linear layers have even numbers */
        char name[AW_PARAMS_NAME_MAX];
        snprintf(name, sizeof name, "%s.%u.weight", prefix, 2 * l);
        layer->weight = aw_params_add(params, name, 2, layer->out, layer->in);
        snprintf(name, sizeof name, "%s.%u.bias", prefix, 2 * l);
        layer->bias = aw_params_add(params, name, 1, layer->out, 1);
    }
}

void aw_mlp_init_fan_in(const struct aw_mlp *mlp, float *theta, float final_limit,
                        struct aw_rng *rng)
{
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        const struct aw_linear *layer = &mlp->layer[l];
        const size_t size = (size_t)layer->out * layer->in;
        if (final_limit > 0 && l + 1 == mlp->layer_count) {
            aw_init_uniform(theta + layer->weight, size, final_limit, rng);
            aw_init_uniform(theta + layer->bias, layer->out, final_limit, rng);
        } else {
            aw_init_fan_in(theta + layer->weight, size, layer->in, rng);
            aw_init_fan_in(theta + layer->bias, layer->out, layer->in, rng);
        }
    }
}

enum aw_err aw_mlp_init_orthogonal(const struct aw_mlp *mlp, float *theta, float final_gain,
                                   struct aw_rng *rng, const struct aw_alloc *alloc)
{
    size_t largest = 0;
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        size_t size = (size_t)mlp->layer[l].out * mlp->layer[l].in;
        largest = size > largest ? size : largest;
    }
    double *work = aw_alloc_new(alloc, largest, sizeof *work);
    if (!work)
        return AW_ERR_NOMEM;
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        const struct aw_linear *layer = &mlp->layer[l];
        float gain = l + 1 == mlp->layer_count ? final_gain : sqrtf(2);
        aw_init_orthogonal(theta + layer->weight, layer->out, layer->in, gain, work, rng);
        for (uint32_t i = 0; i < layer->out; i++)
            theta[layer->bias + i] = 0;
    }
    aw_alloc_free(alloc, work);
    return AW_OK;
}

static uint32_t widest(const struct aw_mlp *mlp)
{
    uint32_t width = 0;
    for (uint32_t l = 0; l < mlp->layer_count; l++)
        width = mlp->layer[l].out > width ? mlp->layer[l].out : width;
    return width;
}

static void cache_carve(struct aw_mlp_cache *cache, const struct aw_mlp *mlp, uint32_t batch_max,
                        struct aw_carve *carve)
{
    for (uint32_t l = 0; l < mlp->layer_count; l++)
        cache->out[l] = aw_carve_take(carve, (size_t)batch_max * mlp->layer[l].out, sizeof(float));
    for (int i = 0; i < 2; i++)
        cache->dout[i] = aw_carve_take(carve, (size_t)batch_max * widest(mlp), sizeof(float));
}

enum aw_err aw_mlp_cache_init(struct aw_mlp_cache *cache, const struct aw_mlp *mlp,
                              uint32_t batch_max, const struct aw_alloc *alloc)
{
    *cache = (struct aw_mlp_cache){0};
    struct aw_carve carve = {0};
    cache_carve(cache, mlp, batch_max, &carve);
    void *block = aw_alloc_new(alloc, carve.used, 1);
    if (!block)
        return AW_ERR_NOMEM;
    carve = (struct aw_carve){.base = block};
    cache_carve(cache, mlp, batch_max, &carve);
    cache->batch_max = batch_max;
    cache->alloc = alloc;
    cache->block = block;
    return AW_OK;
}

void aw_mlp_cache_deinit(struct aw_mlp_cache *cache)
{
    aw_alloc_free(cache->alloc, cache->block);
    *cache = (struct aw_mlp_cache){0};
}

static enum aw_act activation(const struct aw_mlp *mlp, uint32_t l)
{
    return l + 1 == mlp->layer_count ? mlp->output : mlp->hidden;
}

const float *aw_mlp_forward(const struct aw_mlp *mlp, const float *theta, const float *x,
                            uint32_t B, struct aw_mlp_cache *cache)
{
    AW_ASSERT(B <= cache->batch_max);
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        const struct aw_linear *layer = &mlp->layer[l];
        aw_matmul_forward(x, theta + layer->weight, theta + layer->bias, activation(mlp, l),
                          cache->out[l], B, layer->out, layer->in);
        x = cache->out[l];
    }
    return x;
}

void aw_mlp_backward(const struct aw_mlp *mlp, const float *theta, const float *x, uint32_t B,
                     struct aw_mlp_cache *cache, const float *dy, float *grad, float *dx)
{
    AW_ASSERT(B <= cache->batch_max);
    for (uint32_t l = mlp->layer_count; l-- > 0;) {
        const struct aw_linear *layer = &mlp->layer[l];
        float *here = cache->dout[l & 1], *below = cache->dout[~l & 1];
        const float *dpre = dy;
        if (activation(mlp, l) != AW_ACT_NONE) {
            aw_act_backward(activation(mlp, l), cache->out[l], dy, here, (size_t)B * layer->out);
            dpre = here;
        }
        if (grad) {
            const float *input = l > 0 ? cache->out[l - 1] : x;
            aw_matmul_backward_w(dpre, input, grad + layer->weight, layer->out, layer->in, B);
            aw_bias_backward(dpre, grad + layer->bias, B, layer->out);
        }
        float *dinput = l > 0 ? below : dx;
        if (dinput)
            aw_matmul_backward_x(dpre, theta + layer->weight, layer->in, dinput, B, layer->in,
                                 layer->out);
        dy = below;
    }
}

void aw_mlp_infer(const struct aw_mlp *mlp, const float *theta, const float *x, float *y)
{
    float scratch[2][AW_MLP_WIDTH_MAX];
    for (uint32_t l = 0; l < mlp->layer_count; l++) {
        const struct aw_linear *layer = &mlp->layer[l];
        float *out = l + 1 == mlp->layer_count ? y : scratch[l & 1];
        aw_matvec(x, theta + layer->weight, theta + layer->bias, activation(mlp, l), out,
                  layer->out, layer->in);
        x = out;
    }
}
