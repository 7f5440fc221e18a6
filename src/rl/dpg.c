/* dpg.c - deterministic policy gradient: one update does each pass once. */
#include "rl/dpg.h"

#include <math.h>
#include <string.h>

#include "nn/adam.h"
#include "nn/loss.h"
#include "nn/matmul.h"
#include "nn/mlp.h"
#include "rl/noise.h"
#include "rl/qnet.h"

#define PARAMS_CHECK_UPDATES 1000u /* updates from one look at every weight to the next */

struct dpg {
    const char *name;
    const struct aw_conf_field *fields;
    struct aw_dpg_settings settings;
    uint32_t critic_count;
    struct aw_offpolicy off;
    struct aw_noise noise; /* sigma 1: the schedule multiplies */

    struct aw_params actor, critic;
    struct aw_mlp actor_net; /* no output activation: the penalty needs what goes into the tanh */
    struct aw_qnet critic_net[AW_DPG_CRITICS_MAX];
    float *target_actor, *target_critic; /* laid out as actor.value, critic.value */
    struct aw_adam actor_adam, critic_adam;
    struct aw_mlp_cache actor_cache;
    struct aw_qnet_cache critic_cache;

    float *a;                  /* [batch][A]: the policy's actions */
    float *da;                 /* [batch][A] */
    float *tried;              /* [batch][A]: the batch's own actions, where they are imitated */
    float *next_sa;            /* [batch][S + A] */
    float *y;                  /* [batch]: targets */
    float *dq;                 /* [batch] */
    double actor_loss, q_mean; /* of the last update of the actor */
    const struct aw_alloc *alloc;
    void *block;
};

const char *const aw__dpg_pendulum[] = {
    "hidden=64,64",
    "actor_lr=1e-3",
    "critic_lr=1e-3",
    "gamma=0.98",
    "tau=0.005",
    "batch=64",
    "warmup_steps=500",
    "replay_capacity=200_000",
    "noise_sigma=0.2",
    "noise_sigma_end=0.05",
    "noise_decay_steps=15_000",
    NULL,
};

static void carve(struct dpg *dpg, struct aw_carve *take)
{
    size_t S = dpg->off.shape.obs_dim, A = dpg->off.shape.act_dim, B = dpg->settings.base.batch;
    dpg->target_actor = aw_carve_take(take, dpg->actor.count, sizeof(float));
    dpg->target_critic = aw_carve_take(take, dpg->critic.count, sizeof(float));
    dpg->a = aw_carve_take(take, B * A, sizeof(float));
    dpg->da = aw_carve_take(take, B * A, sizeof(float));
    dpg->tried = aw_carve_take(take, B * A, sizeof(float));
    dpg->next_sa = aw_carve_take(take, B * (S + A), sizeof(float));
    dpg->y = aw_carve_take(take, B, sizeof(float));
    dpg->dq = aw_carve_take(take, B, sizeof(float));
}

static void declare(struct dpg *dpg)
{
    const struct aw_dpg_settings *set = &dpg->settings;
    uint32_t S = dpg->off.shape.obs_dim, A = dpg->off.shape.act_dim, count = 0;
    uint32_t widths[AW_CONF_LIST_MAX + 2];
    widths[count++] = S;
    for (uint32_t i = 0; i < set->hidden.count; i++)
        widths[count++] = set->hidden.value[i];
    widths[count++] = A;
    aw_mlp_declare(&dpg->actor_net, &dpg->actor, "actor", widths, count, AW_ACT_RELU, AW_ACT_NONE);
    AW_ASSERT(dpg->critic_count >= 1 && dpg->critic_count <= AW_DPG_CRITICS_MAX);
    static const char *const twin[AW_DPG_CRITICS_MAX] = {"critic1", "critic2"};
    for (uint32_t k = 0; k < dpg->critic_count; k++)
        aw__qnet_declare(&dpg->critic_net[k], &dpg->critic,
                         dpg->critic_count == 1 ? "critic" : twin[k], S, A, &set->hidden,
                         set->critic_action_layer == 1);
}

static enum aw_err allocate(struct dpg *dpg)
{
    uint32_t B = dpg->settings.base.batch;
    enum aw_err err = aw_params_alloc(&dpg->actor, dpg->alloc);
    err = err ? err : aw_params_alloc(&dpg->critic, dpg->alloc);
    err = err ? err : aw_mlp_cache_init(&dpg->actor_cache, &dpg->actor_net, B, dpg->alloc);
    /* the critics are shaped alike and take turns */
    err = err ? err : aw__qnet_cache_init(&dpg->critic_cache, &dpg->critic_net[0], B, dpg->alloc);
    if (err)
        return err;
    struct aw_carve take = {0};
    carve(dpg, &take);
    dpg->block = aw_alloc_new(dpg->alloc, take.used, 1);
    if (!dpg->block)
        return AW_ERR_NOMEM;
    take = (struct aw_carve){.base = dpg->block};
    carve(dpg, &take);
    return aw_noise_init(&dpg->noise,
                         &(struct aw_noise_config){
                             .kind = (enum aw_noise_kind)dpg->settings.noise,
                             .env_count = dpg->off.shape.env_count,
                             .act_dim = dpg->off.shape.act_dim,
                             .sigma = 1,
                             .theta = dpg->settings.noise_theta,
                             .dt = dpg->settings.noise_dt,
                         },
                         dpg->alloc);
}

enum aw_err aw__dpg_make(const struct aw_agent_ops *ops, const struct aw_conf_field *fields,
                         uint32_t critic_count, const struct aw_agent_shape *shape,
                         const struct aw_dpg_settings *settings, uint64_t seed,
                         const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                         struct aw_diag *diag)
{
    if (!settings->hidden.count || settings->hidden.count + 1 > AW_MLP_LAYERS_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "hidden",
                          "expected 1 to %u widths, found %u", AW_MLP_LAYERS_MAX - 1,
                          settings->hidden.count);
    struct dpg *dpg = aw_alloc_new(alloc, 1, sizeof *dpg);
    if (!dpg)
        return aw_fail(diag, AW_ERR_NOMEM, "%s: out of memory", ops->name);
    dpg->name = ops->name;
    dpg->fields = fields;
    dpg->settings = *settings;
    dpg->critic_count = critic_count;
    dpg->alloc = alloc;
    enum aw_err err =
        aw__offpolicy_init(&dpg->off, ops->name, shape, &settings->base, seed, alloc, diag);
    if (err)
        goto out;
    declare(dpg);
    err = allocate(dpg);
    if (err) {
        aw_fail(diag, err, "%s: no memory for its networks", ops->name);
        goto out;
    }
    struct aw_rng *rng = &dpg->off.rng;
    aw_mlp_init_fan_in(&dpg->actor_net, dpg->actor.value, settings->final_init, rng);
    for (uint32_t k = 0; k < critic_count; k++)
        aw__qnet_init(&dpg->critic_net[k], dpg->critic.value, settings->final_init, rng);
    memcpy(dpg->target_actor, dpg->actor.value, dpg->actor.count * sizeof(float));
    memcpy(dpg->target_critic, dpg->critic.value, dpg->critic.count * sizeof(float));
    dpg->actor_adam = aw_adam_default(settings->actor_lr);
    dpg->critic_adam = aw_adam_default(settings->critic_lr);
    dpg->critic_adam.weight_decay = settings->weight_decay;
    *ret_agent = (struct aw_agent){.ops = ops, .self = dpg};
out:
    if (err)
        aw__dpg_free(dpg);
    return err;
}

void aw__dpg_free(void *self)
{
    struct dpg *dpg = self;
    if (!dpg)
        return;
    const struct aw_alloc *alloc = dpg->alloc;
    aw_noise_deinit(&dpg->noise);
    aw__qnet_cache_deinit(&dpg->critic_cache);
    aw_mlp_cache_deinit(&dpg->actor_cache);
    aw_params_deinit(&dpg->critic);
    aw_params_deinit(&dpg->actor);
    aw__offpolicy_deinit(&dpg->off);
    aw_alloc_free(alloc, dpg->block);
    aw_alloc_free(alloc, dpg);
}

/* What the unit noise is multiplied with now. */
static float noise_scale(const struct dpg *dpg)
{
    const struct aw_dpg_settings *set = &dpg->settings;
    double sigma = (double)set->noise_sigma;
    if (set->noise_decay_steps)
        sigma = aw_schedule_linear(sigma, (double)set->noise_sigma_end, set->noise_decay_steps,
                                   (double)dpg->off.step_count);
    double epsilon = set->epsilon - set->epsilon_decay * (double)dpg->off.update_count;
    epsilon = epsilon > set->epsilon_end ? epsilon : set->epsilon_end;
    return (float)(sigma * epsilon);
}

static void explore_row(struct dpg *dpg, uint32_t env, float *a)
{
    uint32_t A = dpg->off.shape.act_dim;
    if (aw__offpolicy_warming_up(&dpg->off)) {
        aw_rng_fill_uniform(&dpg->off.rng, a, A, -1, 1);
        return;
    }
    float scale = noise_scale(dpg), *noise = dpg->da; /* free between updates */
    aw_noise_sample(&dpg->noise, env, &dpg->off.rng, noise);
    for (uint32_t j = 0; j < A; j++) {
        float value = a[j] + scale * noise[j];
        value = value > 1 ? 1 : value;
        a[j] = value < -1 ? -1 : value;
    }
}

enum aw_err aw__dpg_act(void *self, const float *obs, uint32_t count, bool explore, float *action)
{
    struct dpg *dpg = self;
    size_t S = dpg->off.shape.obs_dim, A = dpg->off.shape.act_dim;
    AW_ASSERT(count <= (explore ? dpg->off.shape.env_count : AW_AGENT_ACT_ROWS_MAX));
    if (!aw_params_finite(obs, count * S)) /* before anything random moves */
        return AW_ERR_DIVERGED;
    for (uint32_t i = 0; i < count; i++) {
        const float *x = aw__offpolicy_enter(&dpg->off, obs + i * S);
        float *a = dpg->a;
        aw_mlp_infer(&dpg->actor_net, dpg->actor.value, x, a);
        aw_act_apply(AW_ACT_TANH, a, A);
        if (!aw_params_finite(a, A))
            return AW_ERR_DIVERGED;
        if (explore)
            explore_row(dpg, i, a);
        aw__offpolicy_leave(&dpg->off, a, action + i * A);
    }
    return AW_OK;
}

enum aw_err aw__dpg_observe(void *self, const struct aw_transition *transition)
{
    struct dpg *dpg = self;
    enum aw_err err = aw__offpolicy_observe(&dpg->off, transition);
    if (err)
        return err;
    for (uint32_t e = 0; e < dpg->off.shape.env_count; e++)
        if (transition->terminated[e] || transition->truncated[e])
            aw_noise_reset(&dpg->noise, e);
    return AW_OK;
}

/* y = r + gamma (1 - terminal) min_k Q'_k(s', mu'(s') + clipped noise) */
static void targets(struct dpg *dpg)
{
    const struct aw_dpg_settings *set = &dpg->settings;
    struct aw_offpolicy *off = &dpg->off;
    uint32_t B = set->base.batch, S = off->shape.obs_dim, A = off->shape.act_dim;
    const float *z =
        aw_mlp_forward(&dpg->actor_net, dpg->target_actor, off->next_obs, B, &dpg->actor_cache);
    memcpy(dpg->a, z, (size_t)B * A * sizeof *z);
    aw_act_apply(AW_ACT_TANH, dpg->a, (size_t)B * A);
    if (set->target_noise > 0) {
        aw_rng_fill_normal(&off->rng, dpg->da, (size_t)B * A);
        float clip = set->target_noise_clip;
        for (size_t i = 0; i < (size_t)B * A; i++) {
            float noise = set->target_noise * dpg->da[i];
            noise = noise > clip ? clip : noise;
            noise = noise < -clip ? -clip : noise;
            float value = dpg->a[i] + noise;
            value = value > 1 ? 1 : value;
            dpg->a[i] = value < -1 ? -1 : value;
        }
    }
    aw__join(dpg->next_sa, off->next_obs, dpg->a, B, S, A);
    for (uint32_t k = 0; k < dpg->critic_count; k++) {
        const float *q = aw__qnet_forward(&dpg->critic_net[k], dpg->target_critic, off->next_obs,
                                          dpg->next_sa, B, &dpg->critic_cache);
        for (uint32_t b = 0; b < B; b++)
            dpg->y[b] = k == 0 || q[b] < dpg->y[b] ? q[b] : dpg->y[b];
    }
    for (uint32_t b = 0; b < B; b++)
        dpg->y[b] = off->reward[b] + set->base.gamma * (1 - off->terminal[b]) * dpg->y[b];
}

/* Mean squared error of every critic against y, one step of Adam. Returns the sum of losses. */
static double update_critics(struct dpg *dpg)
{
    struct aw_offpolicy *off = &dpg->off;
    uint32_t B = dpg->settings.base.batch;
    double loss = 0;
    aw_params_zero_grad(&dpg->critic);
    for (uint32_t k = 0; k < dpg->critic_count; k++) {
        const struct aw_qnet *net = &dpg->critic_net[k];
        const float *q =
            aw__qnet_forward(net, dpg->critic.value, off->obs, off->obs_act, B, &dpg->critic_cache);
        loss += aw_loss_mse(q, dpg->y, B, dpg->dq);
        aw__qnet_backward(net, dpg->critic.value, off->obs, off->obs_act, B, &dpg->critic_cache,
                          dpg->dq, dpg->critic.grad, NULL);
    }
    if (dpg->settings.base.grad_clip > 0)
        aw_params_clip_grad_norm(&dpg->critic, (double)dpg->settings.base.grad_clip);
    aw_adam_step(&dpg->critic_adam, &dpg->critic);
    return loss;
}

/* What is left of the weight of imitation at this step. */
static float imitation(const struct dpg *dpg)
{
    const struct aw_dpg_settings *set = &dpg->settings;
    const double over = set->imitate_steps;
    const double left = over > 0 ? 1 - (double)dpg->off.step_count / over : 1;
    return left > 0 ? set->imitate * (float)left : 0;
}

/* Adds w mean (a - a_tried)^2 to the actor's loss, and its slope to `da`. Returns the addend. */
static double imitate(struct dpg *dpg, double weight)
{
    const size_t n = (size_t)dpg->settings.base.batch * dpg->off.shape.act_dim;
    const float slope = (float)(2 * weight / (double)n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const float off = dpg->a[i] - dpg->tried[i];
        sum += (double)off * (double)off;
        dpg->da[i] += slope * off;
    }
    return weight * sum / (double)n;
}

/* L = -mean Q_1(s, tanh z) + penalty * mean over rows of |z|^2, with z the actor's raw output; and,
 * where actions are imitated, + w mean (tanh z - a)^2 with w = imitate * mean |Q_1|, which passes
 * no gradient: TD3+BC (Fujimoto and Gu, 2021) times mean |Q_1| / alpha, imitate = 1 / alpha. */
static double update_actor(struct dpg *dpg)
{
    const struct aw_dpg_settings *set = &dpg->settings;
    struct aw_offpolicy *off = &dpg->off;
    uint32_t B = set->base.batch, S = off->shape.obs_dim, A = off->shape.act_dim;
    const float *z =
        aw_mlp_forward(&dpg->actor_net, dpg->actor.value, off->obs, B, &dpg->actor_cache);
    memcpy(dpg->a, z, (size_t)B * A * sizeof *z);
    aw_act_apply(AW_ACT_TANH, dpg->a, (size_t)B * A);
    const float copying = imitation(dpg);
    for (uint32_t b = 0; copying > 0 && b < B; b++)
        memcpy(dpg->tried + (size_t)b * A, off->obs_act + (size_t)b * (S + A) + S,
               A * sizeof(float));
    aw__join_actions(off->obs_act, dpg->a, B, S, A); /* the batch's own actions are used up */
    const float *q = aw__qnet_forward(&dpg->critic_net[0], dpg->critic.value, off->obs,
                                      off->obs_act, B, &dpg->critic_cache);
    double q_sum = 0, q_size = 0, z_squared = 0, copied = 0;
    for (uint32_t b = 0; b < B; b++) {
        q_sum += (double)q[b];
        q_size += fabs((double)q[b]);
        dpg->dq[b] = -1.0f / (float)B;
    }
    aw__qnet_backward(&dpg->critic_net[0], dpg->critic.value, off->obs, off->obs_act, B,
                      &dpg->critic_cache, dpg->dq, NULL, dpg->da);
    if (copying > 0)
        copied = imitate(dpg, (double)copying * q_size / B);
    float pull = 2 * set->actor_pretanh_penalty / (float)B;
    for (size_t i = 0; i < (size_t)B * A; i++) {
        z_squared += (double)z[i] * (double)z[i];
        dpg->da[i] = dpg->da[i] * (1 - dpg->a[i] * dpg->a[i]) + pull * z[i];
    }
    aw_params_zero_grad(&dpg->actor);
    aw_mlp_backward(&dpg->actor_net, dpg->actor.value, off->obs, B, &dpg->actor_cache, dpg->da,
                    dpg->actor.grad, NULL);
    if (set->base.grad_clip > 0)
        aw_params_clip_grad_norm(&dpg->actor, (double)set->base.grad_clip);
    aw_adam_step(&dpg->actor_adam, &dpg->actor);
    dpg->q_mean = q_sum / B;
    return -dpg->q_mean + (double)set->actor_pretanh_penalty * z_squared / B + copied;
}

static enum aw_err update(struct dpg *dpg, double *ret_critic_loss)
{
    const struct aw_dpg_settings *set = &dpg->settings;
    aw__offpolicy_sample(&dpg->off);
    targets(dpg);
    double critic_loss = update_critics(dpg);
    dpg->off.update_count++;
    if (dpg->off.update_count % set->policy_delay == 0) {
        dpg->actor_loss = update_actor(dpg);
        aw_params_soft_update(dpg->target_actor, dpg->actor.value, set->base.tau, dpg->actor.count);
        aw_params_soft_update(dpg->target_critic, dpg->critic.value, set->base.tau,
                              dpg->critic.count);
    }
    *ret_critic_loss = critic_loss;
    if (!isfinite(critic_loss) || !isfinite(dpg->actor_loss))
        return AW_ERR_DIVERGED;
    if (dpg->off.update_count % PARAMS_CHECK_UPDATES == 0 &&
        (!aw_params_finite(dpg->actor.value, dpg->actor.count) ||
         !aw_params_finite(dpg->critic.value, dpg->critic.count)))
        return AW_ERR_DIVERGED;
    return AW_OK;
}

enum aw_err aw__dpg_learn(void *self, struct aw_learn_stats *stats)
{
    struct dpg *dpg = self;
    uint64_t due = aw__offpolicy_due(&dpg->off);
    if (stats)
        *stats = (struct aw_learn_stats){.update_count = due};
    double critic_loss = 0;
    for (uint64_t i = 0; i < due; i++) {
        enum aw_err err = update(dpg, &critic_loss);
        if (err)
            return err;
    }
    if (!due)
        return AW_OK;
    aw__learn_stat(stats, "critic_loss", critic_loss);
    aw__learn_stat(stats, "actor_loss", dpg->actor_loss);
    aw__learn_stat(stats, "q_mean", dpg->q_mean);
    aw__learn_stat(stats, "noise_scale", (double)noise_scale(dpg));
    aw__learn_stat(stats, "replay_count", dpg->off.replay.count);
    return AW_OK;
}

static void list_parts(struct dpg *dpg, struct aw_persist *persist)
{
    aw_persist_begin(persist, &(struct aw_persist_about){
                                  .algorithm = dpg->name,
                                  .shape = &dpg->off.shape,
                                  .fields = dpg->fields,
                                  .settings = &dpg->settings,
                                  .seed = dpg->off.seed,
                                  .update_count = &dpg->off.update_count,
                              });
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", &dpg->actor, dpg->actor.value);
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", &dpg->critic, dpg->critic.value);
    aw_persist_add_params(persist, AW_PERSIST_STATE, "target.", &dpg->actor, dpg->target_actor);
    aw_persist_add_params(persist, AW_PERSIST_STATE, "target.", &dpg->critic, dpg->target_critic);
    aw_persist_add_moments(persist, "actor.", &dpg->actor);
    aw_persist_add_moments(persist, "critic.", &dpg->critic);
    aw__offpolicy_persist(&dpg->off, persist);
    aw_noise_persist(&dpg->noise, persist, "noise");
    aw_persist_add(persist, AW_PERSIST_STATE, "actor_loss", AW_DTYPE_F64, 1, &dpg->actor_loss);
    aw_persist_add(persist, AW_PERSIST_STATE, "q_mean", AW_DTYPE_F64, 1, &dpg->q_mean);
}

enum aw_err aw__dpg_save(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct dpg *dpg = self;
    struct aw_persist persist;
    list_parts(dpg, &persist);
    return aw_persist_save(&persist, dir, resumable, dpg->alloc, diag);
}

enum aw_err aw__dpg_load(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct dpg *dpg = self;
    struct aw_persist persist;
    list_parts(dpg, &persist);
    enum aw_err err =
        aw_persist_load(&persist, dir, resumable, aw__offpolicy_valid, &dpg->off, dpg->alloc, diag);
    if (err)
        return err;
    if (!resumable) { /* learning may go on from here, with targets and moments that fit */
        memcpy(dpg->target_actor, dpg->actor.value, dpg->actor.count * sizeof(float));
        memcpy(dpg->target_critic, dpg->critic.value, dpg->critic.count * sizeof(float));
        aw_params_zero_moments(&dpg->actor);
        aw_params_zero_moments(&dpg->critic);
    }
    aw__offpolicy_refresh(&dpg->off);
    return AW_OK;
}
