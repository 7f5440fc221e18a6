/* ppo_model.c - actor and critic of PPO, sampling, and the loss with its gradient. */
#include "rl/ppo_model.h"

#include "nn/loss.h"

#include <math.h>
#include <string.h>

#define POLICY_GAIN 0.01f /* Andrychowicz et al., 2021, section 3.2: a head 100 times smaller */
#define VALUE_GAIN  1.0f

static void carve(struct aw_ppo_model *model, struct aw_carve *carve)
{
    size_t B = model->config.batch_max, head = model->head;
    model->logp_all = aw_carve_take(carve, B * head, sizeof(float));
    model->logp = aw_carve_take(carve, B, sizeof(float));
    model->advantage = aw_carve_take(carve, B, sizeof(float));
    model->entropy = aw_carve_take(carve, B, sizeof(float));
    model->dlogp = aw_carve_take(carve, B, sizeof(float));
    model->dentropy = aw_carve_take(carve, B, sizeof(float));
    model->dhead = aw_carve_take(carve, B * head, sizeof(float));
    model->dvalue = aw_carve_take(carve, B, sizeof(float));
    model->index = aw_carve_take(carve, B, sizeof(uint32_t));
}

static void declare(struct aw_ppo_model *model)
{
    const struct aw_ppo_model_config *config = &model->config;
    uint32_t widths[AW_CONF_LIST_MAX + 2] = {config->obs_dim};
    uint32_t count = 1;
    for (uint32_t i = 0; i < config->hidden.count; i++)
        widths[count++] = config->hidden.value[i];
    widths[count++] = model->head;
    aw_mlp_declare(&model->actor, &model->params, "actor", widths, count, config->activation,
                   AW_ACT_NONE);
    widths[0] = config->critic_dim ? config->critic_dim : config->obs_dim;
    widths[count - 1] = 1;
    aw_mlp_declare(&model->critic, &model->params, "critic", widths, count, config->activation,
                   AW_ACT_NONE);
    if (config->action == AW_AGENT_CONTINUOUS)
        model->log_std = aw_params_add(&model->params, "log_std", 1, config->act_dim, 1);
}

enum aw_err aw_ppo_model_init(struct aw_ppo_model *model, const struct aw_ppo_model_config *config,
                              struct aw_rng *rng, const struct aw_alloc *alloc)
{
    AW_ASSERT(config->hidden.count + 1 <= AW_MLP_LAYERS_MAX);
    *model = (struct aw_ppo_model){.config = *config, .alloc = alloc};
    model->head = config->action == AW_AGENT_DISCRETE ? config->act_n : config->act_dim;
    declare(model);

    enum aw_err err = aw_params_alloc(&model->params, alloc);
    if (err)
        goto out;
    float *theta = model->params.value;
    err = aw_mlp_init_orthogonal(&model->actor, theta, POLICY_GAIN, rng, alloc);
    if (err)
        goto out;
    err = aw_mlp_init_orthogonal(&model->critic, theta, VALUE_GAIN, rng, alloc);
    if (err)
        goto out;
    if (config->action == AW_AGENT_CONTINUOUS)
        for (uint32_t i = 0; i < config->act_dim; i++)
            theta[model->log_std + i] = config->log_std_init;

    err = aw_mlp_cache_init(&model->actor_cache, &model->actor, config->batch_max, alloc);
    if (err)
        goto out;
    err = aw_mlp_cache_init(&model->critic_cache, &model->critic, config->batch_max, alloc);
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
out:
    if (err)
        aw_ppo_model_deinit(model);
    return err;
}

void aw_ppo_model_deinit(struct aw_ppo_model *model)
{
    aw_alloc_free(model->alloc, model->block);
    aw_mlp_cache_deinit(&model->critic_cache);
    aw_mlp_cache_deinit(&model->actor_cache);
    aw_params_deinit(&model->params);
    *model = (struct aw_ppo_model){0};
}

const float *aw_ppo_policy(struct aw_ppo_model *model, const float *obs, uint32_t B)
{
    if (B > 1)
        return aw_mlp_forward(&model->actor, model->params.value, obs, B, &model->actor_cache);
    aw_mlp_infer(&model->actor, model->params.value, obs, model->dhead);
    return model->dhead; /* scratch outside a gradient */
}

/* Inversion: the first choice at which the cumulated probability passes u in [0, 1). Rounding may
 * leave the sum a little below 1; the last choice of any weight takes the rest. */
static uint32_t categorical_draw(const float *logp, uint32_t N, double u)
{
    double sum = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < N; i++) {
        double p = exp((double)logp[i]);
        sum += p;
        if (u < sum)
            return i;
        last = p > 0 ? i : last;
    }
    return last;
}

void aw_ppo_sample(struct aw_ppo_model *model, const float *head, uint32_t B, struct aw_rng *rng,
                   float *action, float *logp)
{
    uint32_t N = model->head;
    if (model->config.action == AW_AGENT_DISCRETE) {
        aw_categorical_log_softmax(head, B, N, model->logp_all);
        for (uint32_t b = 0; b < B; b++) {
            const float *row = model->logp_all + (size_t)b * N;
            uint32_t choice = categorical_draw(row, N, aw_rng_double(rng));
            action[b] = (float)choice;
            logp[b] = row[choice];
        }
        return;
    }
    const float *log_std = model->params.value + model->log_std;
    for (uint32_t b = 0; b < B; b++)
        for (uint32_t i = 0; i < N; i++) {
            size_t at = (size_t)b * N + i;
            action[at] = head[at] + expf(log_std[i]) * (float)aw_rng_normal(rng);
        }
    aw_gaussian_log_prob(action, head, log_std, 0, B, N, logp);
}

void aw_ppo_mode(const struct aw_ppo_model *model, const float *head, uint32_t B, float *action)
{
    uint32_t N = model->head;
    if (model->config.action == AW_AGENT_CONTINUOUS) {
        memcpy(action, head, (size_t)B * N * sizeof(float));
        return;
    }
    for (uint32_t b = 0; b < B; b++) {
        const float *row = head + (size_t)b * N;
        uint32_t best = 0;
        for (uint32_t i = 1; i < N; i++)
            best = row[i] > row[best] ? i : best;
        action[b] = (float)best;
    }
}

void aw_ppo_values(struct aw_ppo_model *model, const float *obs, size_t rows, float *value)
{
    for (size_t row = 0; row < rows;) {
        size_t left = rows - row, most = model->config.batch_max;
        uint32_t B = (uint32_t)(left < most ? left : most);
        const float *y =
            aw_mlp_forward(&model->critic, model->params.value,
                           obs + row * model->critic.layer[0].in, B, &model->critic_cache);
        memcpy(value + row, y, B * sizeof(float));
        row += B;
    }
}

/* Mean 0 and (sample) deviation 1 within the minibatch; 1e-8 keeps equal advantages at 0. */
static void normalise_advantage(const float *advantage, uint32_t B, float *out)
{
    double mean = 0, square = 0;
    for (uint32_t b = 0; b < B; b++)
        mean += (double)advantage[b];
    mean /= B;
    for (uint32_t b = 0; b < B; b++) {
        double centred = (double)advantage[b] - mean;
        square += centred * centred;
    }
    double std = B > 1 ? sqrt(square / (B - 1)) : 0;
    for (uint32_t b = 0; b < B; b++)
        out[b] = (float)(((double)advantage[b] - mean) / (std + 1e-8));
}

/* mean(max(-A r, -A clip(r, 1 - c, 1 + c))), r = exp(logp - logp_old): Schulman et al., 2017,
 * equation 7, negated. dlogp is zero where the clipped branch is the larger: it is constant. */
static void policy_loss(const float *logp, const float *logp_old, const float *advantage,
                        uint32_t B, double clip, float *dlogp, struct aw_ppo_loss_stats *stats)
{
    double loss = 0, kl = 0;
    uint32_t clipped_count = 0;
    for (uint32_t b = 0; b < B; b++) {
        double A = (double)advantage[b];
        double log_ratio = (double)logp[b] - (double)logp_old[b];
        double ratio = exp(log_ratio);
        double bounded = fmin(fmax(ratio, 1 - clip), 1 + clip);
        bool active = -A * ratio >= -A * bounded;
        loss += active ? -A * ratio : -A * bounded;
        dlogp[b] = active ? (float)(-A * ratio / B) : 0;
        kl += (ratio - 1) - log_ratio;
        clipped_count += fabs(ratio - 1) > clip;
    }
    stats->policy_loss = loss / B;
    stats->approx_kl = kl / B;
    stats->clip_fraction = (double)clipped_count / B;
}

/* Half the mean of (v - target)^2 or, when clipped, of the larger of that and the same error of v
 * held within +-clip of what it was at the rollout. dvalue is of coef times the loss. */
static double value_loss(const float *value, const float *value_old, const float *target,
                         uint32_t B, double clip, double coef, float *dvalue)
{
    double loss = 0;
    for (uint32_t b = 0; b < B; b++) {
        double v = (double)value[b], old = (double)value_old[b], want = (double)target[b];
        double error = v - want, slope = error;
        if (clip > 0) {
            double held = old + fmin(fmax(v - old, -clip), clip) - want;
            if (held * held > error * error) {
                error = held;
                slope = fabs(v - old) < clip ? held : 0;
            }
        }
        loss += error * error;
        dvalue[b] = (float)(coef * slope / B);
    }
    return 0.5 * loss / B;
}

static void discrete_gradient(struct aw_ppo_model *model, const struct aw_ppo_loss *loss,
                              const struct aw_ppo_batch *batch, const float *head,
                              struct aw_ppo_loss_stats *stats)
{
    uint32_t B = batch->count, N = model->head;
    for (size_t i = 0; batch->mask && i < (size_t)B * N; i++)
        model->dhead[i] = head[i] + batch->mask[i]; /* scratch until the backward pass writes it */
    aw_categorical_log_softmax(batch->mask ? model->dhead : head, B, N, model->logp_all);
    aw_categorical_entropy(model->logp_all, B, N, model->entropy);
    double entropy = 0;
    for (uint32_t b = 0; b < B; b++) {
        model->index[b] = (uint32_t)batch->action[b];
        model->logp[b] = model->logp_all[(size_t)b * N + model->index[b]];
        model->dentropy[b] = -loss->entropy_coef / (float)B;
        entropy += (double)model->entropy[b];
    }
    stats->entropy = entropy / B;
    policy_loss(model->logp, batch->logp, model->advantage, B, (double)loss->clip_range,
                model->dlogp, stats);
    aw_categorical_backward(model->logp_all, model->index, model->dlogp, model->entropy,
                            model->dentropy, B, N, model->dhead);
}

static void continuous_gradient(struct aw_ppo_model *model, const struct aw_ppo_loss *loss,
                                const struct aw_ppo_batch *batch, const float *head,
                                struct aw_ppo_loss_stats *stats)
{
    uint32_t B = batch->count, D = model->head;
    const float *log_std = model->params.value + model->log_std;
    float *dlog_std = model->params.grad + model->log_std;
    aw_gaussian_log_prob(batch->action, head, log_std, 0, B, D, model->logp);
    policy_loss(model->logp, batch->logp, model->advantage, B, (double)loss->clip_range,
                model->dlogp, stats);
    aw_gaussian_log_prob_backward(batch->action, head, log_std, 0, model->dlogp, B, D, model->dhead,
                                  dlog_std);
    stats->entropy = aw_gaussian_entropy(log_std, D);
    for (uint32_t i = 0; i < D; i++)
        dlog_std[i] -= loss->entropy_coef; /* d entropy / d log_std = 1 */
}

void aw_ppo_gradient(struct aw_ppo_model *model, const struct aw_ppo_loss *loss,
                     const struct aw_ppo_batch *batch, struct aw_ppo_loss_stats *ret_stats)
{
    uint32_t B = batch->count;
    AW_ASSERT(B > 0 && B <= model->config.batch_max);
    const float *theta = model->params.value;
    float *grad = model->params.grad;
    struct aw_ppo_loss_stats stats = {0};
    aw_params_zero_grad(&model->params);

    if (loss->normalise_advantage)
        normalise_advantage(batch->advantage, B, model->advantage);
    else
        memcpy(model->advantage, batch->advantage, B * sizeof(float));

    const float *head = aw_mlp_forward(&model->actor, theta, batch->obs, B, &model->actor_cache);
    if (model->config.action == AW_AGENT_DISCRETE)
        discrete_gradient(model, loss, batch, head, &stats);
    else
        continuous_gradient(model, loss, batch, head, &stats);
    aw_mlp_backward(&model->actor, theta, batch->obs, B, &model->actor_cache, model->dhead, grad,
                    NULL);

    const float *seen = batch->critic_obs ? batch->critic_obs : batch->obs;
    const float *value = aw_mlp_forward(&model->critic, theta, seen, B, &model->critic_cache);
    stats.value_loss =
        value_loss(value, batch->value, batch->target, B, (double)loss->value_clip_range,
                   (double)loss->value_coef, model->dvalue);
    aw_mlp_backward(&model->critic, theta, seen, B, &model->critic_cache, model->dvalue, grad,
                    NULL);

    stats.loss = stats.policy_loss - (double)loss->entropy_coef * stats.entropy +
                 (double)loss->value_coef * stats.value_loss;
    *ret_stats = stats;
}
