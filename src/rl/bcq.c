/* bcq.c - batch-constrained Q-learning. */
#include "rl/bcq.h"

#include <math.h>
#include <string.h>

#include "nn/adam.h"
#include "nn/loss.h"
#include "nn/matmul.h"
#include "nn/mlp.h"
#include "rl/qnet.h"

#define PARAMS_CHECK_UPDATES 1000u /* updates from one look at every weight to the next */

/* The authors' code: latent twice the action, z of a sample cut at half a deviation, and bounds
 * on the encoder's log-deviation "for numerical stability". */
#define LATENT_PER_ACTION 2u
#define LATENT_CLIP       0.5f
#define LOG_STD_MIN       (-4.0f)
#define LOG_STD_MAX       15.0f
#define SAMPLES_MAX       1000u /* candidate actions of one state */
#define CRITICS           2u
#define ROWS_MAX          262144u /* candidate actions of one batch */

struct bcq {
    struct aw_bcq_settings settings;
    struct aw_offpolicy off;
    uint32_t L;    /* latent numbers */
    uint32_t rows; /* largest batch: max(batch * next_samples, act_samples) */

    struct aw_params vae, actor, critic;
    struct aw_mlp encoder; /* [s | a] -> [mean | log_std] */
    struct aw_mlp decoder; /* [s | z] -> a before the tanh */
    struct aw_mlp perturb; /* [s | a] -> push before the tanh */
    struct aw_qnet critic_net[CRITICS];
    float *target_actor, *target_critic;
    struct aw_adam vae_adam, actor_adam, critic_adam;
    struct aw_mlp_cache encoder_cache, decoder_cache, perturb_cache;
    struct aw_qnet_cache critic_cache;

    float *latents; /* [act_samples][L]: drawn once, so that acting is a function of the state */
    float *states;  /* [rows][S]: each state repeated */
    float *sz;      /* [rows][S + L] */
    float *sa;      /* [rows][S + A] */
    float *a, *da;  /* [rows][A] */
    float *push;    /* [rows][A]: tanh of the perturbation */
    float *z;       /* [rows][L] */
    float *q;       /* [rows] */
    float *y, *dq;  /* [batch] */
    float *mean, *log_std, *dmean, *dlog_std, *noise, *dz; /* [batch][L] */
    float *dcode; /* [batch][2 L]: gradient of the encoder's output */
    float *dsz;   /* [batch][S + L] */
    float *act;   /* [batch][A]: the batch's actions */
    const struct aw_alloc *alloc;
    void *block;
};

static void carve(struct bcq *bcq, struct aw_carve *take)
{
    size_t S = bcq->off.shape.obs_dim, A = bcq->off.shape.act_dim, L = bcq->L;
    size_t B = bcq->settings.base.batch, R = bcq->rows;
    bcq->target_actor = aw_carve_take(take, bcq->actor.count, sizeof(float));
    bcq->target_critic = aw_carve_take(take, bcq->critic.count, sizeof(float));
    bcq->latents = aw_carve_take(take, bcq->settings.act_samples * L, sizeof(float));
    bcq->states = aw_carve_take(take, R * S, sizeof(float));
    bcq->sz = aw_carve_take(take, R * (S + L), sizeof(float));
    bcq->sa = aw_carve_take(take, R * (S + A), sizeof(float));
    bcq->a = aw_carve_take(take, R * A, sizeof(float));
    bcq->da = aw_carve_take(take, R * A, sizeof(float));
    bcq->push = aw_carve_take(take, R * A, sizeof(float));
    bcq->z = aw_carve_take(take, R * L, sizeof(float));
    bcq->q = aw_carve_take(take, R, sizeof(float));
    bcq->y = aw_carve_take(take, B, sizeof(float));
    bcq->dq = aw_carve_take(take, B, sizeof(float));
    bcq->mean = aw_carve_take(take, B * L, sizeof(float));
    bcq->log_std = aw_carve_take(take, B * L, sizeof(float));
    bcq->dmean = aw_carve_take(take, B * L, sizeof(float));
    bcq->dlog_std = aw_carve_take(take, B * L, sizeof(float));
    bcq->noise = aw_carve_take(take, B * L, sizeof(float));
    bcq->dz = aw_carve_take(take, B * L, sizeof(float));
    bcq->dcode = aw_carve_take(take, B * 2 * L, sizeof(float));
    bcq->dsz = aw_carve_take(take, B * (S + L), sizeof(float));
    bcq->act = aw_carve_take(take, B * A, sizeof(float));
}

static void declare_stack(struct aw_mlp *mlp, struct aw_params *params, const char *prefix,
                          uint32_t in, const struct aw_conf_u32_list *hidden, uint32_t out)
{
    uint32_t widths[AW_CONF_LIST_MAX + 2], count = 0;
    widths[count++] = in;
    for (uint32_t i = 0; i < hidden->count; i++)
        widths[count++] = hidden->value[i];
    widths[count++] = out;
    aw_mlp_declare(mlp, params, prefix, widths, count, AW_ACT_RELU, AW_ACT_NONE);
}

static void declare(struct bcq *bcq)
{
    const struct aw_bcq_settings *set = &bcq->settings;
    uint32_t S = bcq->off.shape.obs_dim, A = bcq->off.shape.act_dim, L = bcq->L;
    declare_stack(&bcq->encoder, &bcq->vae, "vae.encoder", S + A, &set->vae_hidden, 2 * L);
    declare_stack(&bcq->decoder, &bcq->vae, "vae.decoder", S + L, &set->vae_hidden, A);
    declare_stack(&bcq->perturb, &bcq->actor, "actor", S + A, &set->hidden, A);
    static const char *const names[CRITICS] = {"critic1", "critic2"};
    for (uint32_t k = 0; k < CRITICS; k++)
        aw__qnet_declare(&bcq->critic_net[k], &bcq->critic, names[k], S, A, &set->hidden, false);
}

static enum aw_err allocate(struct bcq *bcq)
{
    const struct aw_alloc *alloc = bcq->alloc;
    uint32_t B = bcq->settings.base.batch, R = bcq->rows;
    enum aw_err err = aw_params_alloc(&bcq->vae, alloc);
    err = err ? err : aw_params_alloc(&bcq->actor, alloc);
    err = err ? err : aw_params_alloc(&bcq->critic, alloc);
    err = err ? err : aw_mlp_cache_init(&bcq->encoder_cache, &bcq->encoder, B, alloc);
    err = err ? err : aw_mlp_cache_init(&bcq->decoder_cache, &bcq->decoder, R, alloc);
    err = err ? err : aw_mlp_cache_init(&bcq->perturb_cache, &bcq->perturb, R, alloc);
    err = err ? err : aw__qnet_cache_init(&bcq->critic_cache, &bcq->critic_net[0], R, alloc);
    if (err)
        return err;
    struct aw_carve take = {0};
    carve(bcq, &take);
    bcq->block = aw_alloc_new(alloc, take.used, 1);
    if (!bcq->block)
        return AW_ERR_NOMEM;
    take = (struct aw_carve){.base = bcq->block};
    carve(bcq, &take);
    return AW_OK;
}

static void draw_latents(struct aw_rng *rng, float *z, size_t count)
{
    aw_rng_fill_normal(rng, z, count);
    for (size_t i = 0; i < count; i++) {
        z[i] = z[i] > LATENT_CLIP ? LATENT_CLIP : z[i];
        z[i] = z[i] < -LATENT_CLIP ? -LATENT_CLIP : z[i];
    }
}

static void bcq_free(void *self)
{
    struct bcq *bcq = self;
    if (!bcq)
        return;
    const struct aw_alloc *alloc = bcq->alloc;
    aw__qnet_cache_deinit(&bcq->critic_cache);
    aw_mlp_cache_deinit(&bcq->perturb_cache);
    aw_mlp_cache_deinit(&bcq->decoder_cache);
    aw_mlp_cache_deinit(&bcq->encoder_cache);
    aw_params_deinit(&bcq->critic);
    aw_params_deinit(&bcq->actor);
    aw_params_deinit(&bcq->vae);
    aw__offpolicy_deinit(&bcq->off);
    aw_alloc_free(alloc, bcq->block);
    aw_alloc_free(alloc, bcq);
}

/* `candidates` rows of s' or s in bcq->states and latents in bcq->z: the decoder's actions, pushed
 * by the perturbation `theta`, joined in bcq->sa. clip(a + phi tanh(xi(s, a)), -1, 1) */
static void propose(struct bcq *bcq, const float *theta, uint32_t rows)
{
    uint32_t S = bcq->off.shape.obs_dim, A = bcq->off.shape.act_dim, L = bcq->L;
    size_t count = (size_t)rows * A;
    aw__join(bcq->sz, bcq->states, bcq->z, rows, S, L);
    const float *decoded =
        aw_mlp_forward(&bcq->decoder, bcq->vae.value, bcq->sz, rows, &bcq->decoder_cache);
    memcpy(bcq->a, decoded, count * sizeof(float));
    aw_act_apply(AW_ACT_TANH, bcq->a, count);
    aw__join(bcq->sa, bcq->states, bcq->a, rows, S, A);
    const float *raw = aw_mlp_forward(&bcq->perturb, theta, bcq->sa, rows, &bcq->perturb_cache);
    memcpy(bcq->push, raw, count * sizeof(float));
    aw_act_apply(AW_ACT_TANH, bcq->push, count);
}

/* Adds the push to the proposed actions; they stay within [-1, 1]. */
static void apply_push(struct bcq *bcq, uint32_t rows)
{
    uint32_t S = bcq->off.shape.obs_dim, A = bcq->off.shape.act_dim;
    for (size_t i = 0; i < (size_t)rows * A; i++) {
        float value = bcq->a[i] + bcq->settings.phi * bcq->push[i];
        value = value > 1 ? 1 : value;
        bcq->a[i] = value < -1 ? -1 : value;
    }
    aw__join_actions(bcq->sa, bcq->a, rows, S, A);
}

static void repeat(const float *s, uint32_t count, uint32_t times, size_t S, float *out)
{
    for (uint32_t b = 0; b < count; b++)
        for (uint32_t i = 0; i < times; i++)
            memcpy(out + ((size_t)b * times + i) * S, s + b * S, S * sizeof *s);
}

static enum aw_err bcq_act(void *self, const float *obs, uint32_t count, bool explore,
                           float *action)
{
    struct bcq *bcq = self;
    struct aw_offpolicy *off = &bcq->off;
    size_t S = off->shape.obs_dim, A = off->shape.act_dim;
    uint32_t N = bcq->settings.act_samples;
    AW_ASSERT(count <= (explore ? off->shape.env_count : AW_AGENT_ACT_ROWS_MAX));
    if (!aw_params_finite(obs, count * S)) /* before anything random moves */
        return AW_ERR_DIVERGED;
    for (uint32_t i = 0; i < count; i++) {
        repeat(aw__offpolicy_enter(off, obs + i * S), 1, N, S, bcq->states);
        if (explore)
            draw_latents(&off->rng, bcq->z, (size_t)N * bcq->L);
        else
            memcpy(bcq->z, bcq->latents, (size_t)N * bcq->L * sizeof(float));
        propose(bcq, bcq->actor.value, N);
        apply_push(bcq, N);
        const float *q = aw__qnet_forward(&bcq->critic_net[0], bcq->critic.value, bcq->states,
                                          bcq->sa, N, &bcq->critic_cache);
        uint32_t best = 0;
        for (uint32_t n = 1; n < N; n++)
            best = q[n] > q[best] ? n : best;
        const float *a = bcq->a + best * A;
        if (!isfinite(q[best]) || !aw_params_finite(a, A))
            return AW_ERR_DIVERGED;
        aw__offpolicy_leave(off, a, action + i * A);
    }
    return AW_OK;
}

static enum aw_err bcq_observe(void *self, const struct aw_transition *transition)
{
    return aw__offpolicy_observe(&((struct bcq *)self)->off, transition);
}

/* One step of the generative model of the actions seen: mean squared error of the reconstruction
 * plus kl_weight times the divergence from N(0, 1). Returns the loss. */
static double update_vae(struct bcq *bcq)
{
    struct aw_offpolicy *off = &bcq->off;
    uint32_t B = bcq->settings.base.batch, S = off->shape.obs_dim, A = off->shape.act_dim;
    uint32_t L = bcq->L;
    size_t n = (size_t)B * L;
    const float *code =
        aw_mlp_forward(&bcq->encoder, bcq->vae.value, off->obs_act, B, &bcq->encoder_cache);
    for (size_t b = 0; b < B; b++) {
        for (size_t l = 0; l < L; l++) {
            float log_std = code[b * 2 * L + L + l];
            log_std = log_std > LOG_STD_MAX ? LOG_STD_MAX : log_std;
            bcq->mean[b * L + l] = code[b * 2 * L + l];
            bcq->log_std[b * L + l] = log_std < LOG_STD_MIN ? LOG_STD_MIN : log_std;
        }
    }
    aw_rng_fill_normal(&off->rng, bcq->noise, n);
    aw_vae_sample(bcq->mean, bcq->log_std, bcq->noise, n, bcq->z);
    aw__join(bcq->sz, off->obs, bcq->z, B, S, L);
    const float *decoded =
        aw_mlp_forward(&bcq->decoder, bcq->vae.value, bcq->sz, B, &bcq->decoder_cache);
    memcpy(bcq->a, decoded, (size_t)B * A * sizeof(float));
    aw_act_apply(AW_ACT_TANH, bcq->a, (size_t)B * A);
    double loss = aw_loss_mse(bcq->a, bcq->act, (size_t)B * A, bcq->da);
    double kl = aw_loss_vae_kl(bcq->mean, bcq->log_std, n, bcq->dmean, bcq->dlog_std);
    loss += (double)bcq->settings.kl_weight * kl;

    aw_params_zero_grad(&bcq->vae);
    aw_act_backward(AW_ACT_TANH, bcq->a, bcq->da, bcq->da, (size_t)B * A);
    aw_mlp_backward(&bcq->decoder, bcq->vae.value, bcq->sz, B, &bcq->decoder_cache, bcq->da,
                    bcq->vae.grad, bcq->dsz);
    for (size_t b = 0; b < B; b++)
        memcpy(bcq->dz + b * L, bcq->dsz + b * (S + L) + S, L * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        bcq->dmean[i] *= bcq->settings.kl_weight;
        bcq->dlog_std[i] *= bcq->settings.kl_weight;
    }
    aw_vae_sample_backward(bcq->log_std, bcq->noise, bcq->dz, n, bcq->dmean, bcq->dlog_std);
    for (size_t b = 0; b < B; b++) {
        for (size_t l = 0; l < L; l++) {
            float raw = code[b * 2 * L + L + l];
            bool inside = raw >= LOG_STD_MIN && raw <= LOG_STD_MAX;
            bcq->dcode[b * 2 * L + l] = bcq->dmean[b * L + l];
            bcq->dcode[b * 2 * L + L + l] = inside ? bcq->dlog_std[b * L + l] : 0;
        }
    }
    aw_mlp_backward(&bcq->encoder, bcq->vae.value, off->obs_act, B, &bcq->encoder_cache, bcq->dcode,
                    bcq->vae.grad, NULL);
    if (bcq->settings.base.grad_clip > 0)
        aw_params_clip_grad_norm(&bcq->vae, (double)bcq->settings.base.grad_clip);
    aw_adam_step(&bcq->vae_adam, &bcq->vae);
    return loss;
}

/* y = r + gamma (1 - terminal) max_i [lambda min_k Q'_k + (1 - lambda) max_k Q'_k](s', a'_i) */
static void targets(struct bcq *bcq)
{
    const struct aw_bcq_settings *set = &bcq->settings;
    struct aw_offpolicy *off = &bcq->off;
    uint32_t B = set->base.batch, N = set->next_samples, R = B * N;
    repeat(off->next_obs, B, N, off->shape.obs_dim, bcq->states);
    draw_latents(&off->rng, bcq->z, (size_t)R * bcq->L);
    propose(bcq, bcq->target_actor, R);
    apply_push(bcq, R);
    const float *q = aw__qnet_forward(&bcq->critic_net[0], bcq->target_critic, bcq->states, bcq->sa,
                                      R, &bcq->critic_cache);
    memcpy(bcq->q, q, R * sizeof *q);
    q = aw__qnet_forward(&bcq->critic_net[1], bcq->target_critic, bcq->states, bcq->sa, R,
                         &bcq->critic_cache);
    for (uint32_t b = 0; b < B; b++) {
        float best = -INFINITY;
        for (size_t i = (size_t)b * N; i < (size_t)(b + 1) * N; i++) {
            float low = q[i] < bcq->q[i] ? q[i] : bcq->q[i];
            float high = q[i] < bcq->q[i] ? bcq->q[i] : q[i];
            float value = set->lambda * low + (1 - set->lambda) * high;
            best = value > best ? value : best;
        }
        bcq->y[b] = off->reward[b] + set->base.gamma * (1 - off->terminal[b]) * best;
    }
}

static double update_critics(struct bcq *bcq)
{
    struct aw_offpolicy *off = &bcq->off;
    uint32_t B = bcq->settings.base.batch;
    double loss = 0;
    aw_params_zero_grad(&bcq->critic);
    for (uint32_t k = 0; k < CRITICS; k++) {
        const struct aw_qnet *net = &bcq->critic_net[k];
        const float *q =
            aw__qnet_forward(net, bcq->critic.value, off->obs, off->obs_act, B, &bcq->critic_cache);
        loss += aw_loss_mse(q, bcq->y, B, bcq->dq);
        aw__qnet_backward(net, bcq->critic.value, off->obs, off->obs_act, B, &bcq->critic_cache,
                          bcq->dq, bcq->critic.grad, NULL);
    }
    if (bcq->settings.base.grad_clip > 0)
        aw_params_clip_grad_norm(&bcq->critic, (double)bcq->settings.base.grad_clip);
    aw_adam_step(&bcq->critic_adam, &bcq->critic);
    return loss;
}

/* L = -mean Q_1(s, a + phi tanh(xi(s, a))), a from the decoder, which stays as it is. */
static double update_actor(struct bcq *bcq)
{
    struct aw_offpolicy *off = &bcq->off;
    uint32_t B = bcq->settings.base.batch, S = off->shape.obs_dim, A = off->shape.act_dim;
    memcpy(bcq->states, off->obs, (size_t)B * S * sizeof(float));
    draw_latents(&off->rng, bcq->z, (size_t)B * bcq->L);
    propose(bcq, bcq->actor.value, B);
    /* backward needs the input of the forward: [s | a] before the push */
    memcpy(off->obs_act, bcq->sa, (size_t)B * (S + A) * sizeof(float));
    apply_push(bcq, B);
    const float *q = aw__qnet_forward(&bcq->critic_net[0], bcq->critic.value, bcq->states, bcq->sa,
                                      B, &bcq->critic_cache);
    double q_sum = 0;
    for (uint32_t b = 0; b < B; b++) {
        q_sum += (double)q[b];
        bcq->dq[b] = -1.0f / (float)B;
    }
    aw__qnet_backward(&bcq->critic_net[0], bcq->critic.value, bcq->states, bcq->sa, B,
                      &bcq->critic_cache, bcq->dq, NULL, bcq->da);
    for (size_t i = 0; i < (size_t)B * A; i++) {
        bool inside = bcq->a[i] > -1 && bcq->a[i] < 1; /* a cut action passes no gradient */
        float slope = bcq->settings.phi * (1 - bcq->push[i] * bcq->push[i]);
        bcq->da[i] = inside ? bcq->da[i] * slope : 0;
    }
    aw_params_zero_grad(&bcq->actor);
    aw_mlp_backward(&bcq->perturb, bcq->actor.value, off->obs_act, B, &bcq->perturb_cache, bcq->da,
                    bcq->actor.grad, NULL);
    if (bcq->settings.base.grad_clip > 0)
        aw_params_clip_grad_norm(&bcq->actor, (double)bcq->settings.base.grad_clip);
    aw_adam_step(&bcq->actor_adam, &bcq->actor);
    return -q_sum / B;
}

struct losses {
    double vae, critic, actor;
};

static enum aw_err update(struct bcq *bcq, struct losses *ret_losses)
{
    struct aw_offpolicy *off = &bcq->off;
    size_t B = bcq->settings.base.batch, S = off->shape.obs_dim, A = off->shape.act_dim;
    aw__offpolicy_sample(off);
    for (size_t b = 0; b < B; b++)
        memcpy(bcq->act + b * A, off->obs_act + b * (S + A) + S, A * sizeof(float));
    struct losses losses;
    losses.vae = update_vae(bcq);
    targets(bcq);
    losses.critic = update_critics(bcq);
    losses.actor = update_actor(bcq);
    float tau = bcq->settings.base.tau;
    aw_params_soft_update(bcq->target_critic, bcq->critic.value, tau, bcq->critic.count);
    aw_params_soft_update(bcq->target_actor, bcq->actor.value, tau, bcq->actor.count);
    off->update_count++;
    *ret_losses = losses;
    if (!isfinite(losses.vae) || !isfinite(losses.critic) || !isfinite(losses.actor))
        return AW_ERR_DIVERGED;
    if (off->update_count % PARAMS_CHECK_UPDATES == 0 &&
        (!aw_params_finite(bcq->vae.value, bcq->vae.count) ||
         !aw_params_finite(bcq->actor.value, bcq->actor.count) ||
         !aw_params_finite(bcq->critic.value, bcq->critic.count)))
        return AW_ERR_DIVERGED;
    return AW_OK;
}

static enum aw_err bcq_learn(void *self, struct aw_learn_stats *stats)
{
    struct bcq *bcq = self;
    uint64_t due = aw__offpolicy_due(&bcq->off);
    if (stats)
        *stats = (struct aw_learn_stats){.update_count = due};
    struct losses losses = {0};
    for (uint64_t i = 0; i < due; i++) {
        enum aw_err err = update(bcq, &losses);
        if (err)
            return err;
    }
    if (!due)
        return AW_OK;
    aw__learn_stat(stats, "vae_loss", losses.vae);
    aw__learn_stat(stats, "critic_loss", losses.critic);
    aw__learn_stat(stats, "actor_loss", losses.actor);
    aw__learn_stat(stats, "replay_count", bcq->off.replay.count);
    return AW_OK;
}

#define AW_CONF_OF struct aw_bcq_settings
static const struct aw_conf_field fields[] = {
    AW_CONF_NUMBER(hidden, "64,64", 1, AW_MLP_WIDTH_MAX,
                   "Widths of the hidden layers of critics and perturbation."),
    AW_CONF_NUMBER(vae_hidden, "64,64", 1, AW_MLP_WIDTH_MAX,
                   "Widths of the hidden layers of encoder and decoder."),
    AW_CONF_NUMBER(actor_lr, "1e-3", 0, 1, "Adam's learning rate of the perturbation."),
    AW_CONF_NUMBER(critic_lr, "1e-3", 0, 1, "Adam's learning rate of the critics."),
    AW_CONF_NUMBER(vae_lr, "1e-3", 0, 1, "Adam's learning rate of the generative model."),
    AW_CONF_NUMBER(
        phi, "0.05", 0, 1,
        "Farthest that the perturbation moves an action, of [-1, 1] (Fujimoto et al., 2019)."),
    AW_CONF_NUMBER(lambda, "0.75", 0, 1,
                   "Weight of the lower critic in the target (Fujimoto et al., 2019)."),
    AW_CONF_NUMBER(kl_weight, "0.5", 0, 100,
                   "Weight of the divergence in the generative model's loss (the authors' code)."),
    AW_CONF_NUMBER(next_samples, "10", 1, SAMPLES_MAX,
                   "Candidate actions for a next state (Fujimoto et al., 2019)."),
    AW_CONF_NUMBER(act_samples, "100", 1, SAMPLES_MAX,
                   "Candidate actions when acting (the authors' code)."),
    AW__OFFPOLICY_FIELDS(struct aw_bcq_settings, "100", "0", "true"),
    {.key = NULL},
};

static const char *const paper[] = {
    "hidden=400,300",
    "vae_hidden=750,750",
    "batch=100",
    NULL,
};

static const char *const pendulum[] = {"gamma=0.98", NULL};

static const struct aw_agent_preset presets[] = {
    {"pendulum-v1", "discounts as the other learners do there", pendulum},
    {"paper", "the authors' sizes: 400-300 and 750-750", paper},
    {NULL, NULL, NULL},
};

static void list_parts(struct bcq *bcq, struct aw_persist *persist)
{
    aw_persist_begin(persist, &(struct aw_persist_about){
                                  .algorithm = "bcq",
                                  .shape = &bcq->off.shape,
                                  .fields = fields,
                                  .settings = &bcq->settings,
                                  .seed = bcq->off.seed,
                                  .update_count = &bcq->off.update_count,
                              });
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", &bcq->vae, bcq->vae.value);
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", &bcq->actor, bcq->actor.value);
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", &bcq->critic, bcq->critic.value);
    aw_persist_add(persist, AW_PERSIST_MODEL, "latents", AW_DTYPE_F32,
                   (uint64_t)bcq->settings.act_samples * bcq->L, bcq->latents);
    aw_persist_add_params(persist, AW_PERSIST_STATE, "target.", &bcq->actor, bcq->target_actor);
    aw_persist_add_params(persist, AW_PERSIST_STATE, "target.", &bcq->critic, bcq->target_critic);
    aw_persist_add_moments(persist, "vae.", &bcq->vae);
    aw_persist_add_moments(persist, "actor.", &bcq->actor);
    aw_persist_add_moments(persist, "critic.", &bcq->critic);
    aw__offpolicy_persist(&bcq->off, persist);
}

static enum aw_err bcq_save(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct bcq *bcq = self;
    struct aw_persist persist;
    list_parts(bcq, &persist);
    return aw_persist_save(&persist, dir, resumable, bcq->alloc, diag);
}

static void copy_targets(struct bcq *bcq)
{
    memcpy(bcq->target_actor, bcq->actor.value, bcq->actor.count * sizeof(float));
    memcpy(bcq->target_critic, bcq->critic.value, bcq->critic.count * sizeof(float));
}

static enum aw_err bcq_load(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct bcq *bcq = self;
    struct aw_persist persist;
    list_parts(bcq, &persist);
    enum aw_err err =
        aw_persist_load(&persist, dir, resumable, aw__offpolicy_valid, &bcq->off, bcq->alloc, diag);
    if (err)
        return err;
    if (!resumable) { /* learning may go on from here, with targets and moments that fit */
        copy_targets(bcq);
        aw_params_zero_moments(&bcq->vae);
        aw_params_zero_moments(&bcq->actor);
        aw_params_zero_moments(&bcq->critic);
    }
    aw__offpolicy_refresh(&bcq->off);
    return AW_OK;
}

static const struct aw_agent_ops ops = {
    .name = "bcq",
    .act = bcq_act,
    .observe = bcq_observe,
    .learn = bcq_learn,
    .save = bcq_save,
    .load = bcq_load,
    .free = bcq_free,
};

static enum aw_err check_stack(const char *key, const struct aw_conf_u32_list *hidden,
                               struct aw_diag *diag)
{
    if (!hidden->count || hidden->count + 1 > AW_MLP_LAYERS_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key, "expected 1 to %u widths, found %u",
                          AW_MLP_LAYERS_MAX - 1, hidden->count);
    return AW_OK;
}

static enum aw_err make(const struct aw_agent_shape *shape, const void *settings, uint64_t seed,
                        const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                        struct aw_diag *diag)
{
    const struct aw_bcq_settings *set = settings;
    enum aw_err err = check_stack("hidden", &set->hidden, diag);
    err = err ? err : check_stack("vae_hidden", &set->vae_hidden, diag);
    if (err)
        return err;
    struct bcq *bcq = aw_alloc_new(alloc, 1, sizeof *bcq);
    if (!bcq)
        return aw_fail(diag, AW_ERR_NOMEM, "bcq: out of memory");
    bcq->settings = *set;
    bcq->alloc = alloc;
    err = aw__offpolicy_init(&bcq->off, "bcq", shape, &set->base, seed, alloc, diag);
    if (err)
        goto out;
    bcq->L = LATENT_PER_ACTION * shape->act_dim;
    if (shape->obs_dim + bcq->L > AW_MLP_WIDTH_MAX || 2 * bcq->L > AW_MLP_WIDTH_MAX) {
        err = aw_fail(diag, AW_ERR_LIMIT, "bcq: %u actions are too many for its latent space",
                      shape->act_dim);
        goto out;
    }
    bcq->rows = set->base.batch * set->next_samples;
    bcq->rows = bcq->rows > set->act_samples ? bcq->rows : set->act_samples;
    if (bcq->rows > ROWS_MAX) {
        err = aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "next_samples",
                         "expected batch * next_samples of at most %u, found %u", ROWS_MAX,
                         bcq->rows);
        goto out;
    }
    declare(bcq);
    err = allocate(bcq);
    if (err) {
        aw_fail(diag, err, "bcq: no memory for its networks");
        goto out;
    }
    struct aw_rng *rng = &bcq->off.rng;
    aw_mlp_init_fan_in(&bcq->encoder, bcq->vae.value, 0, rng);
    aw_mlp_init_fan_in(&bcq->decoder, bcq->vae.value, 0, rng);
    aw_mlp_init_fan_in(&bcq->perturb, bcq->actor.value, 0, rng);
    for (uint32_t k = 0; k < CRITICS; k++)
        aw__qnet_init(&bcq->critic_net[k], bcq->critic.value, 0, rng);
    copy_targets(bcq);
    draw_latents(rng, bcq->latents, (size_t)set->act_samples * bcq->L);
    bcq->vae_adam = aw_adam_default(set->vae_lr);
    bcq->actor_adam = aw_adam_default(set->actor_lr);
    bcq->critic_adam = aw_adam_default(set->critic_lr);
    *ret_agent = (struct aw_agent){.ops = &ops, .self = bcq};
out:
    if (err)
        bcq_free(bcq);
    return err;
}

const struct aw_agent_factory aw_bcq_factory = {
    .name = "bcq",
    .summary = "learns offline, near the actions it has seen (Fujimoto et al., 2019)",
    .fields = fields,
    .settings_bytes = sizeof(struct aw_bcq_settings),
    .presets = presets,
    .continuous = true,
    .make = make,
};
