/* qnet.c - Q(s, a), with the action joining early or late. */
#include "rl/qnet.h"

#include <stdio.h>
#include <string.h>

void aw__qnet_declare(struct aw_qnet *net, struct aw_params *params, const char *prefix, uint32_t S,
                      uint32_t A, const struct aw_conf_u32_list *hidden, bool late)
{
    *net = (struct aw_qnet){.S = S, .A = A, .late = late};
    uint32_t widths[AW_CONF_LIST_MAX + 2], count = 0;
    if (!late) {
        widths[count++] = S + A;
        for (uint32_t i = 0; i < hidden->count; i++)
            widths[count++] = hidden->value[i];
        widths[count++] = 1;
        aw_mlp_declare(&net->head, params, prefix, widths, count, AW_ACT_RELU, AW_ACT_NONE);
        return;
    }
    char name[AW_PARAMS_NAME_MAX];
    snprintf(name, sizeof name, "%s.state", prefix);
    const uint32_t first[] = {S, hidden->value[0]};
    aw_mlp_declare(&net->state, params, name, first, 2, AW_ACT_RELU, AW_ACT_RELU);
    snprintf(name, sizeof name, "%s.head", prefix);
    widths[count++] = hidden->value[0] + A;
    for (uint32_t i = 1; i < hidden->count; i++)
        widths[count++] = hidden->value[i];
    widths[count++] = 1;
    aw_mlp_declare(&net->head, params, name, widths, count, AW_ACT_RELU, AW_ACT_NONE);
}

void aw__qnet_init(const struct aw_qnet *net, float *theta, float final_limit, struct aw_rng *rng)
{
    if (net->late)
        aw_mlp_init_fan_in(&net->state, theta, 0, rng);
    aw_mlp_init_fan_in(&net->head, theta, final_limit, rng);
}

enum aw_err aw__qnet_cache_init(struct aw_qnet_cache *cache, const struct aw_qnet *net,
                                uint32_t batch_max, const struct aw_alloc *alloc)
{
    *cache = (struct aw_qnet_cache){.alloc = alloc};
    size_t B = batch_max, in = net->head.layer[0].in, first = net->late ? in - net->A : 0;
    enum aw_err err = aw_mlp_cache_init(&cache->head, &net->head, batch_max, alloc);
    if (!err && net->late)
        err = aw_mlp_cache_init(&cache->state, &net->state, batch_max, alloc);
    if (err)
        goto out;
    struct aw_carve carve = {0};
    for (int pass = 0; pass < 2; pass++) {
        cache->dx = aw_carve_take(&carve, B * in, sizeof(float));
        cache->joined = aw_carve_take(&carve, net->late ? B * in : 0, sizeof(float));
        cache->dstate = aw_carve_take(&carve, B * first, sizeof(float));
        if (pass > 0)
            break;
        cache->block = aw_alloc_new(alloc, carve.used, 1);
        if (!cache->block) {
            err = AW_ERR_NOMEM;
            goto out;
        }
        carve = (struct aw_carve){.base = cache->block};
    }
out:
    if (err)
        aw__qnet_cache_deinit(cache);
    return err;
}

void aw__qnet_cache_deinit(struct aw_qnet_cache *cache)
{
    aw_mlp_cache_deinit(&cache->state);
    aw_mlp_cache_deinit(&cache->head);
    aw_alloc_free(cache->alloc, cache->block);
    *cache = (struct aw_qnet_cache){0};
}

const float *aw__qnet_forward(const struct aw_qnet *net, const float *theta, const float *s,
                              const float *sa, uint32_t B, struct aw_qnet_cache *cache)
{
    if (!net->late)
        return aw_mlp_forward(&net->head, theta, sa, B, &cache->head);
    const float *h = aw_mlp_forward(&net->state, theta, s, B, &cache->state);
    size_t H = net->state.layer[0].out, S = net->S, A = net->A;
    for (size_t b = 0; b < B; b++) {
        memcpy(cache->joined + b * (H + A), h + b * H, H * sizeof *h);
        memcpy(cache->joined + b * (H + A) + H, sa + b * (S + A) + S, A * sizeof *sa);
    }
    return aw_mlp_forward(&net->head, theta, cache->joined, B, &cache->head);
}

void aw__qnet_backward(const struct aw_qnet *net, const float *theta, const float *s,
                       const float *sa, uint32_t B, struct aw_qnet_cache *cache, const float *dq,
                       float *grad, float *da)
{
    const float *x = net->late ? cache->joined : sa;
    size_t in = net->head.layer[0].in, A = net->A, H = in - A;
    bool down = net->late && grad; /* the state branch has weights to learn */
    aw_mlp_backward(&net->head, theta, x, B, &cache->head, dq, grad, da || down ? cache->dx : NULL);
    for (size_t b = 0; b < B && da; b++)
        memcpy(da + b * A, cache->dx + b * in + H, A * sizeof *da);
    if (!down)
        return;
    for (size_t b = 0; b < B; b++)
        memcpy(cache->dstate + b * H, cache->dx + b * in, H * sizeof *cache->dx);
    aw_mlp_backward(&net->state, theta, s, B, &cache->state, cache->dstate, grad, NULL);
}

void aw__join_actions(float *sa, const float *a, uint32_t B, uint32_t S, uint32_t A)
{
    for (size_t b = 0; b < B; b++)
        memcpy(sa + b * (S + A) + S, a + b * A, A * sizeof *sa);
}

void aw__join(float *sa, const float *s, const float *a, uint32_t B, uint32_t S, uint32_t A)
{
    for (size_t b = 0; b < B; b++)
        memcpy(sa + b * (S + A), s + b * S, S * sizeof *sa);
    aw__join_actions(sa, a, B, S, A);
}
