/*
 * ppo_model.h - the networks of PPO, and the gradient of its loss on one minibatch.
 *
 * Two separate stacks in one parameter block: the actor (logits of a categorical, or the mean of a
 * diagonal Gaussian whose log_std is one free parameter per action) and the critic. The loop around
 * them is ppo.c; this file is apart so that its gradient can be checked on a small net.
 *
 * Call order: init; then policy, sample, mode, values, gradient in any order; deinit.
 * Memory:     everything is sized at init for `batch_max` rows. Nothing else allocates.
 * Threads:    single owner.
 *
 * A critic may see more than the actor (`critic_dim`): what others do, for agents that learn
 * together. Actions that are not allowed have a large negative number in `mask`.
 *
 * The trap: what policy returns lives in the actor's cache until the next policy or gradient.
 */
#ifndef AW_RL_PPO_MODEL_H
#define AW_RL_PPO_MODEL_H

#include <aware/agent.h>

#include "base/conf.h"
#include "base/rng.h"
#include "nn/mlp.h"

struct aw_ppo_model_config {
    enum aw_agent_action action;
    uint32_t obs_dim;
    uint32_t
        critic_dim;   /* that the critic sees, of rows of its own; 0: it sees what the actor does */
    uint32_t act_dim; /* floats of one action; 1 for discrete */
    uint32_t act_n;   /* discrete: choices */
    struct aw_conf_u32_list hidden;
    enum aw_act activation;
    float log_std_init;
    uint32_t batch_max; /* rows of the largest batch */
};

struct aw_ppo_model {
    struct aw_ppo_model_config config;
    uint32_t head; /* outputs of the actor: act_dim, or act_n */
    struct aw_params params;
    struct aw_mlp actor, critic;
    size_t log_std; /* continuous: its offset in the block */
    struct aw_mlp_cache actor_cache, critic_cache;

    float *logp_all;  /* [batch_max][head]: log-softmax, discrete */
    float *logp;      /* [batch_max] */
    float *advantage; /* [batch_max], normalised */
    float *entropy;   /* [batch_max] */
    float *dlogp;     /* [batch_max] */
    float *dentropy;  /* [batch_max] */
    float *dhead;     /* [batch_max][head] */
    float *dvalue;    /* [batch_max] */
    uint32_t *index;  /* [batch_max]: discrete actions as whole numbers */
    const struct aw_alloc *alloc;
    void *block;
};

/* Orthogonal weights: gain sqrt(2) in hidden layers, 0.01 for the policy's head (so that the first
 * policy is near uniform, or of mean near 0), 1 for the value's. On failure `model` is zeroed. */
AW_NODISCARD enum aw_err aw_ppo_model_init(struct aw_ppo_model *model,
                                           const struct aw_ppo_model_config *config,
                                           struct aw_rng *rng, const struct aw_alloc *alloc);
void aw_ppo_model_deinit(struct aw_ppo_model *model); /* a zeroed one is a no-op */

/* The actor's output for obs [B][obs_dim], B <= batch_max: logits or means, [B][head]. */
const float *aw_ppo_policy(struct aw_ppo_model *model, const float *obs, uint32_t B);

/* Draws an action per row from the actor's output, and its log-probability. */
void aw_ppo_sample(struct aw_ppo_model *model, const float *head, uint32_t B, struct aw_rng *rng,
                   float *action, float *logp);
/* The most likely action per row: mean, or first largest logit. */
void aw_ppo_mode(const struct aw_ppo_model *model, const float *head, uint32_t B, float *action);

/* V(obs) for any number of rows (of what the critic sees), in batches of batch_max. */
void aw_ppo_values(struct aw_ppo_model *model, const float *obs, size_t rows, float *value);

struct aw_ppo_loss {
    float clip_range;       /* of the probability ratio */
    float value_clip_range; /* of the value's move since the rollout; 0: not clipped */
    float value_coef;
    float entropy_coef;
    bool normalise_advantage; /* to mean 0 and deviation 1 within the minibatch */
};

struct aw_ppo_batch {
    uint32_t count;          /* B <= batch_max */
    const float *obs;        /* [B][obs_dim] */
    const float *critic_obs; /* [B][critic_dim]; NULL: obs */
    const float *mask;       /* [B][act_n], added to the logits of a discrete policy; NULL: none */
    const float *action;     /* [B][act_dim], as drawn */
    const float *logp;       /* [B], when drawn */
    const float *value;      /* [B], at the end of the rollout */
    const float *advantage;  /* [B] */
    const float *target;     /* [B], of the value */
};

struct aw_ppo_loss_stats {
    double loss; /* policy_loss - entropy_coef * entropy + value_coef * value_loss */
    double policy_loss;
    double value_loss; /* half the mean square */
    double entropy;
    double approx_kl;     /* mean((ratio - 1) - log ratio): Schulman's k3, never negative */
    double clip_fraction; /* share of rows whose ratio left the clip range */
};

/* Writes params.grad (zeroed first) with the gradient of `loss`. */
void aw_ppo_gradient(struct aw_ppo_model *model, const struct aw_ppo_loss *loss,
                     const struct aw_ppo_batch *batch, struct aw_ppo_loss_stats *ret_stats);

#endif
