/* ppo.c - the agent around the networks: act, observe, learn, save, load, and its settings. */
#include "rl/ppo.h"

#include "nn/adam.h"
#include "rl/noise.h"
#include "rl/normalise.h"
#include "rl/offpolicy.h"
#include "rl/persist.h"
#include "rl/ppo_model.h"
#include "rl/rollout.h"

#include <math.h>
#include <string.h>

struct ppo {
    struct aw_agent_shape shape; /* act_low and act_high point below */
    struct aw_ppo_settings settings;
    struct aw_ppo_model model;
    struct aw_rollout rollout;
    struct aw_normalise obs_norm;        /* used with settings.normalise_obs */
    struct aw_reward_scale reward_scale; /* used with settings.scale_reward */
    struct aw_rng rng;
    uint64_t step_count; /* environment steps observed, over all environments */
    uint64_t update_count;

    /* What the last exploring act saw and drew, kept for the observe that follows it. */
    uint64_t pending; /* its rows; 0: none */
    float *seen;      /* [N][obs_dim], normalised */
    float *drawn;     /* [N][act_dim], in the policy's units, not clipped */
    float *logp;      /* [N] */

    float *reward;    /* [N], scaled */
    float *bootstrap; /* [N] */
    uint32_t *order;  /* [T * N], the shuffle of an epoch */

    /* One minibatch, gathered; also the rows of an act and of a bootstrap. */
    float *obs;       /* [batch_max][obs_dim] */
    float *action;    /* [batch_max][act_dim] */
    float *old_logp;  /* [batch_max] */
    float *old_value; /* [batch_max] */
    float *advantage; /* [batch_max] */
    float *target;    /* [batch_max] */

    float *act_low, *act_high; /* [act_dim]: continuous */
    struct aw_persist persist;
    const struct aw_alloc *alloc;
    void *block;
};

/* ---- acting ---- */

/* `rows` of observations as the networks want them: normalised into `out`, or as they are. */
static const float *network_input(const struct ppo *ppo, const float *obs, uint32_t rows,
                                  float *out)
{
    if (!ppo->settings.normalise_obs)
        return obs;
    aw_normalise_apply(&ppo->obs_norm, obs, rows, out);
    return out;
}

/* The policy works in units in which every bound is -1 or 1; the world gets its own, clipped. */
static void to_world(const struct ppo *ppo, const float *drawn, uint32_t rows, float *action)
{
    uint32_t D = ppo->shape.act_dim;
    if (ppo->shape.action == AW_AGENT_DISCRETE) {
        memmove(action, drawn, rows * sizeof(float));
        return;
    }
    for (uint32_t b = 0; b < rows; b++)
        for (uint32_t i = 0; i < D; i++) {
            size_t at = (size_t)b * D + i;
            float low = ppo->act_low[i], high = ppo->act_high[i];
            float unit = fminf(fmaxf(drawn[at], -1), 1);
            float value = low + 0.5f * (unit + 1) * (high - low);
            action[at] = fminf(fmaxf(value, low), high); /* rounding must not pass a bound */
        }
}

static enum aw_err act_explore(struct ppo *ppo, const float *obs, uint32_t count, float *action)
{
    AW_ASSERT(count <= ppo->shape.env_count);
    ppo->pending = 0;
    if (ppo->settings.normalise_obs)
        aw_normalise_update(&ppo->obs_norm, obs, count);
    const float *input = network_input(ppo, obs, count, ppo->seen);
    if (input != ppo->seen)
        memcpy(ppo->seen, obs, (size_t)count * ppo->shape.obs_dim * sizeof(float));
    const float *head = aw_ppo_policy(&ppo->model, ppo->seen, count);
    if (!aw_params_finite(head, (size_t)count * ppo->model.head))
        return AW_ERR_DIVERGED;
    aw_ppo_sample(&ppo->model, head, count, &ppo->rng, ppo->drawn, ppo->logp);
    if (!aw_params_finite(ppo->drawn, (size_t)count * ppo->shape.act_dim))
        return AW_ERR_DIVERGED;
    to_world(ppo, ppo->drawn, count, action);
    ppo->pending = count;
    return AW_OK;
}

static enum aw_err act_best(struct ppo *ppo, const float *obs, uint32_t count, float *action)
{
    AW_ASSERT(count <= AW_AGENT_ACT_ROWS_MAX);
    uint32_t most = ppo->model.config.batch_max;
    for (uint32_t row = 0; row < count;) {
        uint32_t B = count - row < most ? count - row : most;
        const float *rows = obs + (size_t)row * ppo->shape.obs_dim;
        float *out = action + (size_t)row * ppo->shape.act_dim;
        const float *head = aw_ppo_policy(&ppo->model, network_input(ppo, rows, B, ppo->obs), B);
        if (!aw_params_finite(head, (size_t)B * ppo->model.head))
            return AW_ERR_DIVERGED;
        aw_ppo_mode(&ppo->model, head, B, ppo->action);
        to_world(ppo, ppo->action, B, out);
        row += B;
    }
    return AW_OK;
}

static enum aw_err ppo_act(void *self, const float *obs, uint32_t count, bool explore,
                           float *action)
{
    struct ppo *ppo = self;
    if (!aw_params_finite(obs, (size_t)count * ppo->shape.obs_dim))
        return AW_ERR_DIVERGED;
    if (!count)
        return AW_OK;
    return explore ? act_explore(ppo, obs, count, action) : act_best(ppo, obs, count, action);
}

/* ---- observing ---- */

/* V of what this step showed, where the rollout will read it: at a truncation, and in its last
 * step. The critic does not change within a rollout, so now is as good as at its end, and the
 * observation need not be kept. */
static void bootstrap_values(struct ppo *ppo, const struct aw_transition *transition)
{
    uint32_t N = ppo->shape.env_count, dim = ppo->shape.obs_dim, rows = 0;
    bool last = ppo->rollout.used + 1 == ppo->rollout.config.step_count;
    for (uint32_t n = 0; n < N; n++)
        if (!transition->terminated[n] && (last || transition->truncated[n]))
            memcpy(ppo->obs + (size_t)rows++ * dim, transition->next_obs + (size_t)n * dim,
                   dim * sizeof(float));
    aw_ppo_values(&ppo->model, network_input(ppo, ppo->obs, rows, ppo->obs), rows, ppo->target);
    for (uint32_t n = 0, row = 0; n < N; n++) {
        bool wanted = !transition->terminated[n] && (last || transition->truncated[n]);
        ppo->bootstrap[n] = wanted ? ppo->target[row++] : 0;
    }
}

static enum aw_err ppo_observe(void *self, const struct aw_transition *transition)
{
    struct ppo *ppo = self;
    size_t N = ppo->shape.env_count, obs_dim = ppo->shape.obs_dim, act_dim = ppo->shape.act_dim;
    if (ppo->pending != N || aw_rollout_full(&ppo->rollout))
        return AW_ERR_USAGE;
    if (!aw_params_finite(transition->obs, N * obs_dim) ||
        !aw_params_finite(transition->action, N * act_dim) ||
        !aw_params_finite(transition->reward, N) ||
        !aw_params_finite(transition->next_obs, N * obs_dim))
        return AW_ERR_DIVERGED;

    bootstrap_values(ppo, transition);
    const float *reward = transition->reward;
    if (ppo->settings.scale_reward) {
        aw_reward_scale_apply(&ppo->reward_scale, reward, transition->terminated,
                              transition->truncated, ppo->reward);
        reward = ppo->reward;
    }
    enum aw_err err = aw_rollout_push(&ppo->rollout, &(struct aw_rollout_step){
                                                         .obs = ppo->seen,
                                                         .action = ppo->drawn,
                                                         .logp = ppo->logp,
                                                         .reward = reward,
                                                         .terminated = transition->terminated,
                                                         .truncated = transition->truncated,
                                                         .bootstrap = ppo->bootstrap,
                                                     });
    if (err)
        return err;
    ppo->pending = 0;
    ppo->step_count += N;
    return AW_OK;
}

/* ---- learning ---- */

static void gather(struct ppo *ppo, const uint32_t *index, uint32_t B)
{
    const struct aw_rollout *rollout = &ppo->rollout;
    size_t obs_dim = ppo->shape.obs_dim, act_dim = ppo->shape.act_dim;
    for (uint32_t b = 0; b < B; b++) {
        size_t i = index[b];
        memcpy(ppo->obs + b * obs_dim, rollout->obs + i * obs_dim, obs_dim * sizeof(float));
        memcpy(ppo->action + b * act_dim, rollout->action + i * act_dim, act_dim * sizeof(float));
        ppo->old_logp[b] = rollout->logp[i];
        ppo->old_value[b] = rollout->value[i];
        ppo->advantage[b] = rollout->advantage[i];
        ppo->target[b] = rollout->target[i];
    }
}

/* How much of the run was done when this rollout began: 0 to 1. */
static double progress(const struct ppo *ppo)
{
    uint64_t begun = ppo->step_count - aw_rollout_rows(&ppo->rollout);
    return aw_schedule_linear(0, 1, (double)ppo->settings.total_steps, (double)begun);
}

struct sums {
    struct aw_ppo_loss_stats loss;
    double grad_norm;
    uint64_t minibatch_count; /* looked at, the one that stopped the updates included */
    uint64_t update_count;
};

static void add_sums(struct sums *sums, const struct aw_ppo_loss_stats *loss)
{
    sums->minibatch_count++;
    sums->loss.policy_loss += loss->policy_loss;
    sums->loss.value_loss += loss->value_loss;
    sums->loss.entropy += loss->entropy;
    sums->loss.approx_kl += loss->approx_kl;
    sums->loss.clip_fraction += loss->clip_fraction;
}

/* One minibatch. `ret_stop`: the policy has moved past target_kl and this update was not made. */
static enum aw_err update(struct ppo *ppo, const struct aw_ppo_loss *loss,
                          const struct aw_adam *adam, uint32_t B, struct sums *sums, bool *ret_stop)
{
    struct aw_ppo_loss_stats stats;
    const struct aw_ppo_batch batch = {.count = B,
                                       .obs = ppo->obs,
                                       .action = ppo->action,
                                       .logp = ppo->old_logp,
                                       .value = ppo->old_value,
                                       .advantage = ppo->advantage,
                                       .target = ppo->target};
    aw_ppo_gradient(&ppo->model, loss, &batch, &stats);
    if (!isfinite(stats.loss))
        return AW_ERR_DIVERGED;
    add_sums(sums, &stats);
    /* 1.5: the slack of OpenAI's Spinning Up, which Stable-Baselines3 kept */
    double target_kl = (double)ppo->settings.target_kl;
    *ret_stop = target_kl > 0 && stats.approx_kl > 1.5 * target_kl;
    if (*ret_stop)
        return AW_OK;
    double limit = ppo->settings.grad_clip > 0 ? (double)ppo->settings.grad_clip : INFINITY;
    double norm = aw_params_clip_grad_norm(&ppo->model.params, limit);
    if (!isfinite(norm))
        return AW_ERR_DIVERGED;
    sums->grad_norm += norm;
    aw_adam_step(adam, &ppo->model.params);
    sums->update_count++;
    ppo->update_count++;
    return AW_OK;
}

static enum aw_err run_epochs(struct ppo *ppo, const struct aw_ppo_loss *loss,
                              const struct aw_adam *adam, struct sums *sums)
{
    uint64_t rows = aw_rollout_rows(&ppo->rollout), count = ppo->settings.minibatches;
    for (uint32_t i = 0; i < rows; i++)
        ppo->order[i] = i;
    for (uint32_t epoch = 0; epoch < ppo->settings.epochs; epoch++) {
        aw_rng_shuffle(&ppo->rng, ppo->order, rows);
        for (uint64_t k = 0; k < count; k++) {
            /* every row once per epoch; sizes differ by one at most */
            uint64_t first = rows * k / count, end = rows * (k + 1) / count;
            uint32_t B = (uint32_t)(end - first);
            bool stop = false;
            gather(ppo, ppo->order + first, B);
            enum aw_err err = update(ppo, loss, adam, B, sums, &stop);
            if (err || stop)
                return err;
        }
    }
    return AW_OK;
}

static void report(const struct ppo *ppo, const struct sums *sums, const struct aw_adam *adam,
                   double explained, struct aw_learn_stats *stats)
{
    double n = (double)sums->minibatch_count;
    stats->update_count = sums->update_count;
    aw__learn_stat(stats, "policy_loss", sums->loss.policy_loss / n);
    aw__learn_stat(stats, "value_loss", sums->loss.value_loss / n);
    aw__learn_stat(stats, "entropy", sums->loss.entropy / n);
    aw__learn_stat(stats, "approx_kl", sums->loss.approx_kl / n);
    aw__learn_stat(stats, "clip_fraction", sums->loss.clip_fraction / n);
    if (isfinite(explained))
        aw__learn_stat(stats, "explained_variance", explained);
    if (sums->update_count)
        aw__learn_stat(stats, "grad_norm", sums->grad_norm / (double)sums->update_count);
    aw__learn_stat(stats, "learning_rate", (double)adam->lr);
    if (ppo->shape.action == AW_AGENT_CONTINUOUS) {
        double std = 0;
        for (uint32_t i = 0; i < ppo->shape.act_dim; i++)
            std += exp((double)ppo->model.params.value[ppo->model.log_std + i]);
        aw__learn_stat(stats, "action_std", std / ppo->shape.act_dim);
    }
}

static enum aw_err ppo_learn(void *self, struct aw_learn_stats *stats)
{
    struct ppo *ppo = self;
    const struct aw_ppo_settings *settings = &ppo->settings;
    struct aw_rollout *rollout = &ppo->rollout;
    if (stats)
        *stats = (struct aw_learn_stats){0};
    if (!aw_rollout_full(rollout))
        return AW_OK;

    aw_ppo_values(&ppo->model, rollout->obs, aw_rollout_rows(rollout), rollout->value);
    if (!aw_params_finite(rollout->value, aw_rollout_rows(rollout)))
        return AW_ERR_DIVERGED;
    aw_rollout_gae(rollout, (double)settings->gamma, (double)settings->gae_lambda);
    double explained = aw_rollout_explained_variance(rollout);

    float left = settings->total_steps ? (float)(1 - progress(ppo)) : 1;
    struct aw_adam adam = aw_adam_default(settings->lr * (settings->anneal_lr ? left : 1));
    adam.eps = settings->adam_eps;
    const struct aw_ppo_loss loss = {
        .clip_range = settings->clip_range * (settings->anneal_clip ? left : 1),
        .value_clip_range = settings->value_clip_range,
        .value_coef = settings->value_coef,
        .entropy_coef = settings->entropy_coef,
        .normalise_advantage = settings->normalise_advantage,
    };
    struct sums sums = {0};
    enum aw_err err = run_epochs(ppo, &loss, &adam, &sums);
    if (err)
        return err;
    if (!aw_params_finite(ppo->model.params.value, ppo->model.params.count))
        return AW_ERR_DIVERGED;
    aw_rollout_clear(rollout);
    if (stats)
        report(ppo, &sums, &adam, explained, stats);
    return AW_OK;
}

/* ---- saving and loading ---- */

static void list_parts(struct ppo *ppo, uint64_t seed)
{
    struct aw_persist *persist = &ppo->persist;
    struct aw_rollout *rollout = &ppo->rollout;
    uint32_t T = rollout->config.step_count, N = rollout->config.env_count;
    uint32_t obs_dim = ppo->shape.obs_dim, act_dim = ppo->shape.act_dim;
    aw_persist_begin(persist, &(struct aw_persist_about){
                                  .algorithm = aw_ppo_factory.name,
                                  .shape = &ppo->shape,
                                  .fields = aw_ppo_factory.fields,
                                  .settings = &ppo->settings,
                                  .seed = seed,
                                  .update_count = &ppo->update_count,
                              });
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", &ppo->model.params,
                          ppo->model.params.value);
    if (ppo->settings.normalise_obs)
        aw_normalise_persist(&ppo->obs_norm, persist, "obs_norm");
    if (ppo->settings.scale_reward)
        aw_reward_scale_persist(&ppo->reward_scale, persist, "reward_scale");
    aw_persist_add_moments(persist, "", &ppo->model.params);
    aw_persist_add_rng(persist, "rng", &ppo->rng);
    aw_persist_add_u64(persist, "step_count", &ppo->step_count);
    aw_persist_add_u64(persist, "update_count", &ppo->update_count);

    aw_persist_add_u64(persist, "pending.rows", &ppo->pending);
    aw_persist_add(persist, AW_PERSIST_STATE, "pending.obs", AW_DTYPE_F32, (uint64_t)N * obs_dim,
                   ppo->seen);
    aw_persist_add(persist, AW_PERSIST_STATE, "pending.action", AW_DTYPE_F32, (uint64_t)N * act_dim,
                   ppo->drawn);
    aw_persist_add(persist, AW_PERSIST_STATE, "pending.logp", AW_DTYPE_F32, N, ppo->logp);

    const struct {
        const char *name;
        enum aw_dtype dtype;
        uint32_t columns;
        void *data;
    } column[] = {
        {"rollout.obs", AW_DTYPE_F32, N * obs_dim, rollout->obs},
        {"rollout.action", AW_DTYPE_F32, N * act_dim, rollout->action},
        {"rollout.logp", AW_DTYPE_F32, N, rollout->logp},
        {"rollout.reward", AW_DTYPE_F32, N, rollout->reward},
        {"rollout.bootstrap", AW_DTYPE_F32, N, rollout->bootstrap},
        {"rollout.end", AW_DTYPE_U8, N, rollout->end},
    };
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        aw_persist_add_rows(persist, AW_PERSIST_STATE, column[i].name, column[i].dtype,
                            &rollout->used, T, column[i].columns, column[i].data);
}

static bool choices_valid(const float *action, size_t count, uint32_t n)
{
    for (size_t i = 0; i < count; i++)
        if (!(action[i] >= 0 && action[i] < (float)n && action[i] == floorf(action[i])))
            return false;
    return true;
}

/* What the file checks cannot know: that the parts of the rollout belong together, and that no
 * number would later be used as an index that it is not. */
static enum aw_err state_valid(void *ctx, const struct aw_persist_found *found,
                               struct aw_diag *diag)
{
    const struct ppo *ppo = ctx;
    const void *pending = aw_persist_peek(found, "pending.rows");
    if (!pending)
        return AW_OK; /* a model without its state */
    uint64_t N = ppo->shape.env_count, pending_rows;
    memcpy(&pending_rows, pending, sizeof pending_rows);
    if (pending_rows > N)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "pending.rows: expected at most %llu environments, found %llu",
                       (unsigned long long)N, (unsigned long long)pending_rows);
    static const char *const column[] = {"rollout.action", "rollout.logp", "rollout.reward",
                                         "rollout.bootstrap", "rollout.end"};
    uint32_t rows = aw_persist_peek_rows(found, "rollout.obs");
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        if (aw_persist_peek_rows(found, column[i]) != rows)
            return aw_fail(diag, AW_ERR_FORMAT, "%s: expected %u rows as rollout.obs has, found %u",
                           column[i], rows, aw_persist_peek_rows(found, column[i]));
    const uint8_t *end = aw_persist_peek(found, "rollout.end");
    for (size_t i = 0; i < rows * N; i++)
        if (end[i] >= AW_ROLLOUT_END_COUNT)
            return aw_fail(diag, AW_ERR_FORMAT, "rollout.end: expected at most %d, found %u",
                           AW_ROLLOUT_END_COUNT - 1, end[i]);
    if (ppo->shape.action == AW_AGENT_DISCRETE &&
        (!choices_valid(aw_persist_peek(found, "rollout.action"), rows * N, ppo->shape.act_n) ||
         !choices_valid(aw_persist_peek(found, "pending.action"), pending_rows, ppo->shape.act_n)))
        return aw_fail(diag, AW_ERR_FORMAT, "an action: expected a whole number below %u",
                       ppo->shape.act_n);
    return AW_OK;
}

static enum aw_err ppo_save(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct ppo *ppo = self;
    return aw_persist_save(&ppo->persist, dir, resumable, ppo->alloc, diag);
}

static enum aw_err ppo_load(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct ppo *ppo = self;
    enum aw_err err =
        aw_persist_load(&ppo->persist, dir, resumable, state_valid, ppo, ppo->alloc, diag);
    if (err)
        return err;
    if (ppo->settings.normalise_obs)
        aw_normalise_refresh(&ppo->obs_norm);
    if (ppo->settings.scale_reward)
        aw_reward_scale_refresh(&ppo->reward_scale);
    if (!resumable) {
        /* what another policy drew, and moments of other weights, are of no use to this one */
        aw_rollout_clear(&ppo->rollout);
        ppo->pending = 0;
        aw_params_zero_moments(&ppo->model.params);
    }
    return AW_OK;
}

/* ---- making ---- */

static void ppo_free(void *self)
{
    struct ppo *ppo = self;
    if (!ppo)
        return;
    aw_reward_scale_deinit(&ppo->reward_scale);
    aw_normalise_deinit(&ppo->obs_norm);
    aw_rollout_deinit(&ppo->rollout);
    aw_ppo_model_deinit(&ppo->model);
    aw_alloc_free(ppo->alloc, ppo->block);
    aw_alloc_free(ppo->alloc, ppo);
}

static void carve(struct ppo *ppo, struct aw_carve *carve)
{
    size_t N = ppo->shape.env_count, obs_dim = ppo->shape.obs_dim, act_dim = ppo->shape.act_dim;
    size_t B = ppo->model.config.batch_max;
    ppo->seen = aw_carve_take(carve, N * obs_dim, sizeof(float));
    ppo->drawn = aw_carve_take(carve, N * act_dim, sizeof(float));
    ppo->logp = aw_carve_take(carve, N, sizeof(float));
    ppo->reward = aw_carve_take(carve, N, sizeof(float));
    ppo->bootstrap = aw_carve_take(carve, N, sizeof(float));
    ppo->order = aw_carve_take(carve, aw_rollout_rows(&ppo->rollout), sizeof(uint32_t));
    ppo->obs = aw_carve_take(carve, B * obs_dim, sizeof(float));
    ppo->action = aw_carve_take(carve, B * act_dim, sizeof(float));
    ppo->old_logp = aw_carve_take(carve, B, sizeof(float));
    ppo->old_value = aw_carve_take(carve, B, sizeof(float));
    ppo->advantage = aw_carve_take(carve, B, sizeof(float));
    ppo->target = aw_carve_take(carve, B, sizeof(float));
    ppo->act_low = aw_carve_take(carve, act_dim, sizeof(float));
    ppo->act_high = aw_carve_take(carve, act_dim, sizeof(float));
}

static enum aw_err make_parts(struct ppo *ppo, uint32_t step_count, uint64_t seed)
{
    const struct aw_agent_shape *shape = &ppo->shape;
    const struct aw_ppo_settings *settings = &ppo->settings;
    uint32_t N = shape->env_count, rows = step_count * N;
    uint32_t minibatch = (rows + settings->minibatches - 1) / settings->minibatches;
    const struct aw_ppo_model_config model = {
        .action = shape->action,
        .obs_dim = shape->obs_dim,
        .act_dim = shape->act_dim,
        .act_n = shape->act_n,
        .hidden = settings->hidden,
        .activation = settings->activation == 0 ? AW_ACT_TANH : AW_ACT_RELU,
        .log_std_init = settings->log_std_init,
        .batch_max = minibatch > N ? minibatch : N,
    };
    aw_rng_init(&ppo->rng, seed, 0);
    enum aw_err err = aw_ppo_model_init(&ppo->model, &model, &ppo->rng, ppo->alloc);
    if (err)
        return err;
    err = aw_rollout_init(
        &ppo->rollout, &(struct aw_rollout_config){step_count, N, shape->obs_dim, shape->act_dim},
        ppo->alloc);
    if (err)
        return err;
    if (settings->normalise_obs) {
        err = aw_normalise_init(&ppo->obs_norm, shape->obs_dim, AW_NORMALISE_CLIP, ppo->alloc);
        if (err)
            return err;
    }
    if (settings->scale_reward) {
        err = aw_reward_scale_init(&ppo->reward_scale, N, settings->gamma, AW_NORMALISE_CLIP,
                                   ppo->alloc);
        if (err)
            return err;
    }
    struct aw_carve sizing = {0};
    carve(ppo, &sizing);
    ppo->block = aw_alloc_new(ppo->alloc, sizing.used, 1);
    if (!ppo->block)
        return AW_ERR_NOMEM;
    carve(ppo, &(struct aw_carve){.base = ppo->block});
    if (shape->action == AW_AGENT_CONTINUOUS) {
        memcpy(ppo->act_low, shape->act_low, shape->act_dim * sizeof(float));
        memcpy(ppo->act_high, shape->act_high, shape->act_dim * sizeof(float));
        ppo->shape.act_low = ppo->act_low;
        ppo->shape.act_high = ppo->act_high;
    }
    list_parts(ppo, seed);
    return AW_OK;
}

static const struct aw_agent_ops ppo_ops = {
    .name = "ppo",
    .act = ppo_act,
    .observe = ppo_observe,
    .learn = ppo_learn,
    .save = ppo_save,
    .load = ppo_load,
    .free = ppo_free,
};

static enum aw_err shape_check(const struct aw_agent_shape *shape, struct aw_diag *diag)
{
    bool discrete = shape->action == AW_AGENT_DISCRETE;
    if (!shape->env_count || !shape->obs_dim || shape->obs_dim > AW_MLP_WIDTH_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected an environment and 1 to %u observations, found %u and %u",
                       AW_MLP_WIDTH_MAX, shape->env_count, shape->obs_dim);
    uint32_t head = discrete ? shape->act_n : shape->act_dim;
    if (!head || head > AW_MLP_WIDTH_MAX || (discrete && shape->act_dim != 1))
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u %s, found %u", AW_MLP_WIDTH_MAX,
                       discrete ? "choices in one number" : "numbers in an action", head);
    for (uint32_t i = 0; !discrete && i < shape->act_dim; i++) {
        float low = shape->act_low[i], high = shape->act_high[i];
        if (!isfinite(low) || !isfinite(high) || !isfinite(high - low) || !(low < high))
            return aw_fail(diag, AW_ERR_CONFIG,
                           "action %u: expected finite bounds, low below high, found %g to %g", i,
                           (double)low, (double)high);
    }
    return AW_OK;
}

static enum aw_err ppo_make(const struct aw_agent_shape *shape, const void *settings_,
                            uint64_t seed, const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                            struct aw_diag *diag)
{
    const struct aw_ppo_settings *settings = settings_;
    enum aw_err err = shape_check(shape, diag);
    if (err)
        return err;
    if (settings->hidden.count >= AW_MLP_LAYERS_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "hidden",
                          "expected at most %u hidden layers, found %u", AW_MLP_LAYERS_MAX - 1,
                          settings->hidden.count);
    uint64_t N = shape->env_count;
    uint64_t step_count = (settings->rollout_steps + N - 1) / N, rows = step_count * N;
    if (rows > AW_ROLLOUT_ROWS_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "rollout_steps",
                          "expected at most %u transitions, found %llu", AW_ROLLOUT_ROWS_MAX,
                          (unsigned long long)rows);
    if (settings->minibatches > rows)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "minibatches",
                          "expected at most the %llu transitions of a rollout, found %u",
                          (unsigned long long)rows, settings->minibatches);
    struct ppo *ppo = aw_alloc_new(alloc, 1, sizeof *ppo);
    if (!ppo)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory while making a PPO agent");
    ppo->shape = *shape;
    ppo->settings = *settings;
    ppo->alloc = alloc;
    err = make_parts(ppo, (uint32_t)step_count, seed);
    if (err) {
        ppo_free(ppo);
        return aw_fail(diag, err, "cannot make a PPO agent: %s", aw_err_text(err));
    }
    *ret_agent = (struct aw_agent){&ppo_ops, ppo};
    return AW_OK;
}

/* ---- settings ---- */

static const char *const activations[] = {"tanh", "relu", NULL};

/* clang-format off */
#define AW_CONF_OF struct aw_ppo_settings
static const struct aw_conf_field fields[] = {
    AW_CONF_NUMBER(total_steps, "0", 0, 1e12,
        "Environment steps of the whole run, over which rates are annealed; 0: nothing is "
        "annealed."),
    AW_CONF_NUMBER(hidden, "64,64", 1, AW_MLP_WIDTH_MAX,
        "Units of each hidden layer, of actor and critic alike (Schulman et al., 2017)."),
    AW_CONF_ONE_OF(activation, "tanh", activations,
        "Of the hidden layers; tanh as in Schulman et al., 2017."),
    AW_CONF_NUMBER(lr, "3e-4", 0, 1, "Learning rate of Adam (Schulman et al., 2017, table 3)."),
    AW_CONF_PLAIN(anneal_lr, "true",
        "Let lr fall linearly to 0 at total_steps (openai/baselines)."),
    AW_CONF_NUMBER(adam_eps, "1e-5", 1e-12, 1,
        "Adam's epsilon; 1e-5 as openai/baselines, not the usual 1e-8"),
    AW_CONF_NUMBER(gamma, "0.99", 0, 1, "Discount of a step."),
    AW_CONF_NUMBER(gae_lambda, "0.95", 0, 1,
        "Decay of generalised advantage estimation: 0 one-step errors, 1 whole returns."),
    AW_CONF_NUMBER(rollout_steps, "2048", 1, AW_ROLLOUT_ROWS_MAX,
        "Transitions between updates, over all environments; rounded up to full steps of all."),
    AW_CONF_NUMBER(minibatches, "32", 1, AW_ROLLOUT_ROWS_MAX,
        "Parts into which every epoch divides the shuffled rollout: 64 transitions each by "
        "default."),
    AW_CONF_NUMBER(epochs, "10", 1, 1000,
        "Passes over a rollout (Schulman et al., 2017, table 3)."),
    AW_CONF_NUMBER(clip_range, "0.2", 0, 10,
        "How far the probability ratio may leave 1 before its gradient is cut."),
    AW_CONF_PLAIN(anneal_clip, "false", "Let clip_range fall linearly to 0 at total_steps."),
    AW_CONF_NUMBER(value_clip_range, "0", 0, 1e6,
        "How far a value may move from that of the rollout before its gradient is cut; 0: not "
        "cut."),
    AW_CONF_NUMBER(value_coef, "0.5", 0, 100, "Weight of the value loss."),
    AW_CONF_NUMBER(entropy_coef, "0", 0, 100, "Weight of the entropy bonus."),
    AW_CONF_NUMBER(grad_clip, "0.5", 0, 1e6,
        "Largest global norm of a gradient, 0.5 as openai/baselines; 0: no limit."),
    AW_CONF_NUMBER(target_kl, "0", 0, 100,
        "End the epochs when approx_kl passes 1.5 times this; 0: never."),
    AW_CONF_PLAIN(normalise_advantage, "true", "Mean 0 and deviation 1 within each minibatch."),
    AW_CONF_PLAIN(normalise_obs, "false",
        "Divide observations by their running deviation about their running mean, clipped at 10."),
    AW_CONF_PLAIN(scale_reward, "false",
        "Divide rewards by the running deviation of the discounted return, clipped at 10."),
    AW_CONF_NUMBER(log_std_init, "0", -20, 2,
        "Box actions: first log deviation, in units in which the bounds are -1 and 1."),
    {0},
};

static const char *const cartpole[] = {
    "lr=1e-3", "anneal_clip=true", "gamma=0.98", "gae_lambda=0.9", "rollout_steps=512",
    "minibatches=4", "epochs=10", NULL,
};
static const char *const identity_box[] = {
    "lr=3e-3", "gamma=0", "gae_lambda=0", "rollout_steps=256", "minibatches=4", NULL,
};
static const char *const pendulum[] = {
    "lr=1e-3", "gamma=0.9", "rollout_steps=4096", "minibatches=64", "epochs=10", NULL,
};
/* clang-format on */

static const struct aw_agent_preset presets[] = {
    {"cartpole-v1",
     "rl-baselines3-zoo's settings for CartPole-v1, longer rollouts for one environment", cartpole},
    {"identity-box-v0", "nothing has consequences: no discount, short rollouts", identity_box},
    {"pendulum-v1", "rl-baselines3-zoo's settings for Pendulum-v1, without gSDE", pendulum},
    {0},
};

const struct aw_agent_factory aw_ppo_factory = {
    .name = "ppo",
    .summary = "proximal policy optimisation: on-policy, box or discrete actions",
    .fields = fields,
    .settings_bytes = sizeof(struct aw_ppo_settings),
    .presets = presets,
    .continuous = true,
    .discrete = true,
    .on_policy = true,
    .make = ppo_make,
};
