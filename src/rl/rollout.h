/*
 * rollout.h - what an on-policy learner did since its last update, and GAE over it.
 *
 * Arrays are [T][N]: T steps of N environments in lockstep, step after step, so that the rows of a
 * step and all rows of the rollout are each one contiguous matrix.
 *
 * Call order: init, then push until full; fill `value`; gae; read; clear; push again ...; deinit.
 * Memory:     one block, sized at init. Nothing else allocates.
 * Threads:    single owner.
 *
 * The trap: an episode that its time limit cut has a future. Its last step bootstraps from the
 * value of the observation that this step showed, never from the first observation of the episode
 * that came next in the same column, and no advantage flows back over either kind of end.
 */
#ifndef AW_RL_ROLLOUT_H
#define AW_RL_ROLLOUT_H

#include "base/alloc.h"

#define AW_ROLLOUT_ROWS_MAX (1u << 24) /* transitions of one rollout, T * N */

enum aw_rollout_end {
    AW_ROLLOUT_RUNNING,    /* the next row of this column is the same episode */
    AW_ROLLOUT_TERMINATED, /* nothing follows: the value of what comes after is 0 */
    AW_ROLLOUT_TRUNCATED,  /* cut by a clock: `bootstrap` is the value of what would have come */
    AW_ROLLOUT_END_COUNT
};

struct aw_rollout_config {
    uint32_t step_count; /* T */
    uint32_t env_count;  /* N */
    uint32_t obs_dim;
    uint32_t act_dim;
};

/* One step of all N environments, as the caller holds it. */
struct aw_rollout_step {
    const float *obs;       /* [N][obs_dim], as the policy saw it */
    const float *action;    /* [N][act_dim], as the policy drew it */
    const float *logp;      /* [N], its log-probability when drawn */
    const float *reward;    /* [N] */
    const bool *terminated; /* [N]; wins where both are set */
    const bool *truncated;  /* [N] */
    const float *bootstrap; /* [N], V(observation the step showed); read where it matters only:
                               at a truncation, and in the last step of the rollout */
};

struct aw_rollout {
    struct aw_rollout_config config;
    uint32_t used;    /* steps pushed since the last clear; full at T */
    float *obs;       /* [T][N][obs_dim] */
    float *action;    /* [T][N][act_dim] */
    float *logp;      /* [T][N] */
    float *reward;    /* [T][N] */
    float *bootstrap; /* [T][N]; 0 where it does not matter */
    uint8_t *end;     /* [T][N], enum aw_rollout_end */
    float *value;     /* [T][N], V(obs): the owner fills it before gae */
    float *advantage; /* [T][N], written by gae */
    float *target;    /* [T][N], written by gae: advantage + value, what V should become */
    const struct aw_alloc *alloc;
    void *block;
};

/* On failure `rollout` is zeroed. AW_ERR_RANGE: a dimension is 0. AW_ERR_LIMIT: too many rows. */
AW_NODISCARD enum aw_err aw_rollout_init(struct aw_rollout *rollout,
                                         const struct aw_rollout_config *config,
                                         const struct aw_alloc *alloc);
void aw_rollout_deinit(struct aw_rollout *rollout); /* zeroes it; a zeroed one is a no-op */

static inline bool aw_rollout_full(const struct aw_rollout *rollout)
{
    return rollout->used == rollout->config.step_count;
}
static inline uint32_t aw_rollout_rows(const struct aw_rollout *rollout) /* T * N */
{
    return rollout->config.step_count * rollout->config.env_count;
}

/* Copies. Pushing to a full rollout is a bug. AW_ERR_DIVERGED: a number is not finite; nothing was
 * stored. */
AW_NODISCARD enum aw_err aw_rollout_push(struct aw_rollout *rollout,
                                         const struct aw_rollout_step *step);

/* Generalised advantage estimation (Schulman et al., 2016, equations 11 and 16) of a full rollout:
 *   delta_t = r_t + gamma * V_{t+1} - V_t
 *   A_t     = delta_t + gamma * lambda * A_{t+1}
 * with V_{t+1} = 0 after a termination and `bootstrap` after a truncation and after the last step,
 * and with A_{t+1} = 0 after any of the three. */
void aw_rollout_gae(struct aw_rollout *rollout, double gamma, double lambda);

void aw_rollout_clear(struct aw_rollout *rollout);

/* 1 - Var(target - value) / Var(target) over all rows: how much of the returns the values explain.
 * 1 is perfect, 0 no better than a constant, below 0 worse; NAN when the targets do not vary. */
double aw_rollout_explained_variance(const struct aw_rollout *rollout);

#endif
