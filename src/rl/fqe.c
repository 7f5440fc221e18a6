/* fqe.c - fitted Q evaluation. */
#include "rl/fqe.h"

#include <math.h>
#include <string.h>

#include "nn/adam.h"
#include "nn/loss.h"

#define EVALUATE_ROWS 512u /* of one forward over the record */

static void carve(struct aw__fqe *fqe, struct aw_carve *take)
{
    size_t row = (size_t)fqe->S + fqe->A, B = fqe->config.batch;
    fqe->target = aw_carve_take(take, fqe->params.count, sizeof(float));
    fqe->x = aw_carve_take(take, B * row, sizeof(float));
    fqe->next = aw_carve_take(take, B * row, sizeof(float));
    fqe->y = aw_carve_take(take, B, sizeof(float));
    fqe->alive = aw_carve_take(take, B, sizeof(float));
    fqe->dq = aw_carve_take(take, B, sizeof(float));
}

enum aw_err aw__fqe_init(struct aw__fqe *fqe, uint32_t S, uint32_t A,
                         const struct aw__fqe_config *config, const struct aw_alloc *alloc)
{
    const uint32_t widths[] = {S + A, config->hidden, config->hidden, 1};
    *fqe = (struct aw__fqe){.config = *config, .S = S, .A = A, .alloc = alloc};
    fqe->rows_max = config->batch > EVALUATE_ROWS ? config->batch : EVALUATE_ROWS;
    aw_mlp_declare(&fqe->q, &fqe->params, "q", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&fqe->params, alloc);
    err = err ? err : aw_mlp_cache_init(&fqe->cache, &fqe->q, fqe->rows_max, alloc);
    if (!err) {
        struct aw_carve take = {0};
        carve(fqe, &take);
        fqe->block = aw_alloc_new(alloc, take.used, 1);
        take = (struct aw_carve){.base = fqe->block};
        if (fqe->block)
            carve(fqe, &take);
        else
            err = AW_ERR_NOMEM;
    }
    if (err)
        aw__fqe_deinit(fqe);
    return err;
}

void aw__fqe_deinit(struct aw__fqe *fqe)
{
    aw_alloc_free(fqe->alloc, fqe->block);
    aw_mlp_cache_deinit(&fqe->cache);
    aw_params_deinit(&fqe->params);
    *fqe = (struct aw__fqe){0};
}

static void draw(struct aw__fqe *fqe, const struct aw__prepared *p, const uint32_t *slot,
                 struct aw_rng *rng)
{
    size_t row = (size_t)fqe->S + fqe->A;
    for (size_t b = 0; b < fqe->config.batch; b++) {
        size_t i = aw__resample_step(rng, p, slot);
        memcpy(fqe->x + b * row, p->x + i * row, row * sizeof(float));
        memcpy(fqe->next + b * row, p->next + i * row, row * sizeof(float));
        fqe->y[b] = p->reward[i];
        fqe->alive[b] = p->alive[i];
    }
}

enum aw_err aw__fqe_train(struct aw__fqe *fqe, const struct aw__prepared *prepared,
                          const uint32_t *slot, struct aw_rng *rng)
{
    const struct aw__fqe_config *config = &fqe->config;
    const uint32_t B = config->batch;
    const float gamma = (float)config->gamma;
    struct aw_adam adam = aw_adam_default(config->lr);
    double loss = 0;
    aw_params_zero_moments(&fqe->params);
    aw_mlp_init_fan_in(&fqe->q, fqe->params.value, 0, rng);
    memcpy(fqe->target, fqe->params.value, fqe->params.count * sizeof(float));
    for (uint32_t n = 0; n < config->updates; n++) {
        draw(fqe, prepared, slot, rng);
        const float *q = aw_mlp_forward(&fqe->q, fqe->target, fqe->next, B, &fqe->cache);
        for (uint32_t b = 0; b < B; b++)
            fqe->y[b] = (1 - gamma) * fqe->y[b] + gamma * fqe->alive[b] * q[b];
        q = aw_mlp_forward(&fqe->q, fqe->params.value, fqe->x, B, &fqe->cache);
        loss = aw_loss_mse(q, fqe->y, B, fqe->dq);
        aw_params_zero_grad(&fqe->params);
        aw_mlp_backward(&fqe->q, fqe->params.value, fqe->x, B, &fqe->cache, fqe->dq,
                        fqe->params.grad, NULL);
        /* down to a tenth at the end: what is judged is where it settles */
        adam.lr = config->lr * (1 - 0.9 * n / config->updates);
        aw_adam_step(&adam, &fqe->params);
        aw_params_soft_update(fqe->target, fqe->params.value, (float)config->tau,
                              fqe->params.count);
    }
    return isfinite(loss) && aw_params_finite(fqe->target, fqe->params.count) ? AW_OK
                                                                              : AW_ERR_DIVERGED;
}

void aw__fqe_advantage(struct aw__fqe *fqe, const struct aw__prepared *prepared, float *out)
{
    size_t row = (size_t)fqe->S + fqe->A;
    /* from values of (1 - gamma) r back to sums of r */
    const float unit = prepared->reward_scale / (float)(1 - fqe->config.gamma);
    for (uint32_t done = 0; done < prepared->steps;) {
        uint32_t part = prepared->steps - done;
        part = part < fqe->rows_max ? part : fqe->rows_max;
        /* the target is an average over the last updates, and quieter than the last of them */
        const float *q =
            aw_mlp_forward(&fqe->q, fqe->target, prepared->policy + done * row, part, &fqe->cache);
        for (uint32_t i = 0; i < part; i++)
            out[done + i] = q[i];
        q = aw_mlp_forward(&fqe->q, fqe->target, prepared->x + done * row, part, &fqe->cache);
        for (uint32_t i = 0; i < part; i++)
            out[done + i] = (out[done + i] - q[i]) * unit;
        done += part;
    }
}
