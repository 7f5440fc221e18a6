/*
 * dqn_model.h - the action-value network of DQN, its target copy, and the gradient on one batch.
 *
 * Q(s, .) for all choices at once. The loop around it is dqn.c; this file is apart so that its
 * gradient can be checked on a small net.
 *
 * Call order: init; then values, best, gradient, sync_target in any order; deinit.
 * Memory:     everything is sized at init for `batch_max` rows. Nothing else allocates.
 * Threads:    single owner.
 */
#ifndef AW_RL_DQN_MODEL_H
#define AW_RL_DQN_MODEL_H

#include "base/conf.h"
#include "base/rng.h"
#include "nn/mlp.h"

struct aw_dqn_model_config {
    uint32_t obs_dim;
    uint32_t act_n; /* choices */
    struct aw_conf_u32_list hidden;
    uint32_t batch_max; /* rows of the largest batch */
};

struct aw_dqn_model {
    struct aw_dqn_model_config config;
    struct aw_params params;
    struct aw_mlp q;
    float *target;                   /* [params.count]: the weights that targets are made with */
    struct aw_mlp_cache cache, next; /* of obs, kept for backward; of next_obs */
    float *row;                      /* [act_n]: values of a single row */
    float *picked;                   /* [batch_max]: Q(s, a) */
    float *want;                     /* [batch_max]: what it should be */
    float *dpicked;                  /* [batch_max] */
    float *dq;                       /* [batch_max][act_n] */
    uint32_t *choice;                /* [batch_max] */
    const struct aw_alloc *alloc;
    void *block;
};

/* PyTorch's default weights, the target equal to them. On failure `model` is zeroed. */
AW_NODISCARD enum aw_err aw__dqn_model_init(struct aw_dqn_model *model,
                                            const struct aw_dqn_model_config *config,
                                            struct aw_rng *rng, const struct aw_alloc *alloc);
void aw__dqn_model_deinit(struct aw_dqn_model *model); /* a zeroed one is a no-op */

/* Q of the online weights for obs [B][obs_dim], B <= batch_max: [B][act_n], until the next call. */
const float *aw__dqn_values(struct aw_dqn_model *model, const float *obs, uint32_t B);
/* The first of the largest of N values. */
uint32_t aw__dqn_best(const float *q, uint32_t N);

struct aw_dqn_loss {
    float gamma;
    float huber_delta; /* errors beyond it count linearly */
    bool double_q;     /* the online weights choose the next action, the target weights value it */
};

struct aw_dqn_batch {
    uint32_t count; /* B <= batch_max */
    const float *obs;
    const float *action;   /* [B], whole numbers below act_n */
    const float *reward;   /* [B] */
    const float *terminal; /* [B]: 1 where nothing follows, else 0 */
    const float *next_obs; /* [B][obs_dim] */
};

struct aw_dqn_loss_stats {
    double loss;   /* mean Huber error */
    double q_mean; /* of the actions taken */
};

/* Writes params.grad (zeroed first) with the gradient of `loss`; targets are constants. */
void aw__dqn_gradient(struct aw_dqn_model *model, const struct aw_dqn_loss *loss,
                      const struct aw_dqn_batch *batch, struct aw_dqn_loss_stats *ret_stats);

/* target = (1 - tau) * target + tau * online; tau 1 copies. */
void aw__dqn_sync_target(struct aw_dqn_model *model, float tau);

#endif
