/* dqn_model.c - Q-network, target network, and the temporal-difference loss with its gradient. */
#include "rl/dqn_model.h"

#include "nn/loss.h"

#include <string.h>

static void carve(struct aw_dqn_model *model, struct aw_carve *carve)
{
    size_t B = model->config.batch_max, N = model->config.act_n;
    model->target = aw_carve_take(carve, model->params.count, sizeof(float));
    model->row = aw_carve_take(carve, N, sizeof(float));
    model->picked = aw_carve_take(carve, B, sizeof(float));
    model->want = aw_carve_take(carve, B, sizeof(float));
    model->dpicked = aw_carve_take(carve, B, sizeof(float));
    model->dq = aw_carve_take(carve, B * N, sizeof(float));
    model->choice = aw_carve_take(carve, B, sizeof(uint32_t));
}

enum aw_err aw__dqn_model_init(struct aw_dqn_model *model, const struct aw_dqn_model_config *config,
                               struct aw_rng *rng, const struct aw_alloc *alloc)
{
    AW_ASSERT(config->hidden.count + 1 <= AW_MLP_LAYERS_MAX);
    *model = (struct aw_dqn_model){.config = *config, .alloc = alloc};
    uint32_t widths[AW_CONF_LIST_MAX + 2] = {config->obs_dim};
    uint32_t count = 1;
    for (uint32_t i = 0; i < config->hidden.count; i++)
        widths[count++] = config->hidden.value[i];
    widths[count++] = config->act_n;
    aw_mlp_declare(&model->q, &model->params, "q", widths, count, AW_ACT_RELU, AW_ACT_NONE);

    enum aw_err err = aw_params_alloc(&model->params, alloc);
    if (err)
        goto out;
    err = aw_mlp_cache_init(&model->cache, &model->q, config->batch_max, alloc);
    if (err)
        goto out;
    err = aw_mlp_cache_init(&model->next, &model->q, config->batch_max, alloc);
    if (err)
        goto out;
    struct aw_carve sizing = {0};
    carve(model, &sizing);
    model->block = aw_alloc_new(alloc, sizing.used, 1);
    if (!model->block) {
        err = AW_ERR_NOMEM;
        goto out;
    }
    carve(model, &(struct aw_carve){.base = model->block});
    aw_mlp_init_fan_in(&model->q, model->params.value, 0, rng);
    aw__dqn_sync_target(model, 1);
out:
    if (err)
        aw__dqn_model_deinit(model);
    return err;
}

void aw__dqn_model_deinit(struct aw_dqn_model *model)
{
    aw_alloc_free(model->alloc, model->block);
    aw_mlp_cache_deinit(&model->next);
    aw_mlp_cache_deinit(&model->cache);
    aw_params_deinit(&model->params);
    *model = (struct aw_dqn_model){0};
}

const float *aw__dqn_values(struct aw_dqn_model *model, const float *obs, uint32_t B)
{
    if (B > 1)
        return aw_mlp_forward(&model->q, model->params.value, obs, B, &model->next);
    aw_mlp_infer(&model->q, model->params.value, obs, model->row);
    return model->row;
}

uint32_t aw__dqn_best(const float *q, uint32_t N)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < N; i++)
        best = q[i] > q[best] ? i : best;
    return best;
}

/* y = r + gamma * Q'(s', a'), nothing after a termination. a' is the online network's choice with
 * double_q (van Hasselt et al., 2016, equation 4), else the target network's own. */
static void targets(struct aw_dqn_model *model, const struct aw_dqn_loss *loss,
                    const struct aw_dqn_batch *batch)
{
    uint32_t B = batch->count, N = model->config.act_n;
    if (loss->double_q) {
        const float *q =
            aw_mlp_forward(&model->q, model->params.value, batch->next_obs, B, &model->next);
        for (uint32_t b = 0; b < B; b++)
            model->choice[b] = aw__dqn_best(q + (size_t)b * N, N);
    }
    const float *q = aw_mlp_forward(&model->q, model->target, batch->next_obs, B, &model->next);
    for (uint32_t b = 0; b < B; b++) {
        const float *row = q + (size_t)b * N;
        float next = row[loss->double_q ? model->choice[b] : aw__dqn_best(row, N)];
        model->want[b] = batch->reward[b] + loss->gamma * (1 - batch->terminal[b]) * next;
    }
}

void aw__dqn_gradient(struct aw_dqn_model *model, const struct aw_dqn_loss *loss,
                      const struct aw_dqn_batch *batch, struct aw_dqn_loss_stats *ret_stats)
{
    uint32_t B = batch->count, N = model->config.act_n;
    AW_ASSERT(B > 0 && B <= model->config.batch_max);
    const float *theta = model->params.value;
    targets(model, loss, batch);

    const float *q = aw_mlp_forward(&model->q, theta, batch->obs, B, &model->cache);
    double sum = 0;
    for (uint32_t b = 0; b < B; b++) {
        model->choice[b] = (uint32_t)batch->action[b];
        model->picked[b] = q[(size_t)b * N + model->choice[b]];
        sum += (double)model->picked[b];
    }
    *ret_stats = (struct aw_dqn_loss_stats){
        .loss = aw_loss_huber(model->picked, model->want, B, loss->huber_delta, model->dpicked),
        .q_mean = sum / B,
    };
    memset(model->dq, 0, (size_t)B * N * sizeof(float));
    for (uint32_t b = 0; b < B; b++)
        model->dq[(size_t)b * N + model->choice[b]] = model->dpicked[b];
    aw_params_zero_grad(&model->params);
    aw_mlp_backward(&model->q, theta, batch->obs, B, &model->cache, model->dq, model->params.grad,
                    NULL);
}

void aw__dqn_sync_target(struct aw_dqn_model *model, float tau)
{
    aw_params_soft_update(model->target, model->params.value, tau, model->params.count);
}
