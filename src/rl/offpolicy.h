/*
 * offpolicy.h - what DDPG, TD3 and BCQ have in common: the wall, the memory and the clock of
 * updates.
 *
 * The wall: outside, actions are in the environment's units; inside, each lies in [-1, 1]. Nothing
 * that is not finite comes in. The memory: a replay ring of raw observations, normalised (where
 * asked for) as they are drawn, with the statistics of that moment. The clock: how many gradient
 * updates are due.
 *
 * Call order: init, then observe, due, sample, done in the learner's own calls; deinit.
 * Memory:     one block and the ring, sized at init.
 * Threads:    single owner.
 */
#ifndef AW_RL_OFFPOLICY_H
#define AW_RL_OFFPOLICY_H

#include <aware/agent.h>

#include "base/conf.h"
#include "rl/normalise.h"
#include "rl/replay.h"

struct aw_offpolicy_settings {
    uint32_t batch;
    uint32_t replay_capacity;
    uint32_t warmup_steps;
    uint32_t update_every;
    uint32_t updates_per_step;
    bool offline;
    bool normalise_obs;
    float gamma;
    float tau;
    float reward_scale;
    float grad_clip;
};

/* The rows of a settings table for member `base` of struct T; the defaults that differ are given.
 */
/* clang-format off */
#define AW__OFFPOLICY_FIELDS(T, BATCH, WARMUP, OFFLINE)                                           \
    AW_CONF_ROW(T, "batch", base.batch, BATCH, 1, AW_REPLAY_BATCH_MAX,                            \
        "Transitions in one gradient update."),                                                   \
    AW_CONF_ROW(T, "replay_capacity", base.replay_capacity, "1_000_000", 1,                       \
        AW_REPLAY_CAPACITY_MAX,                                                                   \
        "Transitions kept; the oldest is overwritten. Memory: 4 * (2 * observations + "           \
        "actions + 2) bytes each."),                                                              \
    AW_CONF_ROW(T, "warmup_steps", base.warmup_steps, WARMUP, 0, 1e9,                             \
        "Environment steps with uniformly random actions and no updates at the start."),          \
    AW_CONF_ROW(T, "update_every", base.update_every, "1", 1, 1e6,                                \
        "Environment steps from one round of updates to the next."),                              \
    AW_CONF_ROW(T, "updates_per_step", base.updates_per_step, "1", 1, 1e6,                        \
        "Gradient updates in one round; offline: in one call of learn."),                         \
    AW_CONF_ROW(T, "offline", base.offline, OFFLINE, 0, 0,                                        \
        "Learn from what was observed without asking for new steps: every call of learn "         \
        "makes updates_per_step updates."),                                                       \
    AW_CONF_ROW(T, "normalise_obs", base.normalise_obs, "false", 0, 0,                            \
        "Divide observations by their running deviation, after subtracting the running mean; "    \
        "clipped at 10."),                                                                        \
    AW_CONF_ROW(T, "gamma", base.gamma, "0.99", 0, 1, "Discount of the reward one step later."),  \
    AW_CONF_ROW(T, "tau", base.tau, "0.005", 0, 1,                                                \
        "Share of the online weights that moves into the target networks at an update "           \
        "(Fujimoto et al., 2018)."),                                                              \
    AW_CONF_ROW(T, "reward_scale", base.reward_scale, "1", 0, 1e6,                                \
        "Factor on rewards before learning; 1 - gamma keeps values near the size of a reward."),  \
    AW_CONF_ROW(T, "grad_clip", base.grad_clip, "0", 0, 1e6,                                      \
        "Largest global norm of a gradient; 0: no limit.")
/* clang-format on */

struct aw_offpolicy {
    struct aw_agent_shape shape; /* bounds are copies in the block */
    struct aw_offpolicy_settings settings;
    uint64_t seed;
    struct aw_rng rng;
    uint64_t step_count;   /* transitions taken in */
    uint64_t update_count; /* gradient updates made */
    uint64_t pending;      /* transitions since the last round of updates */
    struct aw_replay replay;
    struct aw_normalise norm; /* dim 0: off */

    /* the batch in hand */
    float *obs;      /* [batch][S] */
    float *obs_act;  /* [batch][S + A] */
    float *reward;   /* [batch], scaled */
    float *terminal; /* [batch] */
    float *next_obs; /* [batch][S] */

    float *low, *high, *mid, *half; /* [A] each */
    float *scaled;                  /* [env_count][A] actions in [-1, 1] */
    float *row;                     /* [S] one normalised observation */
    const struct aw_alloc *alloc;
    void *block;
};

/* AW_ERR_UNSUPPORTED for discrete actions, AW_ERR_CONFIG for impossible shapes or settings. On
 * failure `off` is left zeroed. */
AW_NODISCARD enum aw_err aw__offpolicy_init(struct aw_offpolicy *off, const char *algorithm,
                                            const struct aw_agent_shape *shape,
                                            const struct aw_offpolicy_settings *settings,
                                            uint64_t seed, const struct aw_alloc *alloc,
                                            struct aw_diag *diag);
void aw__offpolicy_deinit(struct aw_offpolicy *off);

/* A finite observation as the networks see it: itself, or normalised in off->row. */
const float *aw__offpolicy_enter(struct aw_offpolicy *off, const float *obs);
/* a [A] in [-1, 1] to the environment's units, never beyond its bounds. */
void aw__offpolicy_leave(const struct aw_offpolicy *off, const float *a, float *action);

/* Random actions are due instead of the policy's. */
bool aw__offpolicy_warming_up(const struct aw_offpolicy *off);

/* Checks everything, then stores everything: AW_ERR_DIVERGED stores nothing. */
AW_NODISCARD enum aw_err aw__offpolicy_observe(struct aw_offpolicy *off,
                                               const struct aw_transition *transition);
/* Gradient updates to make now. */
uint64_t aw__offpolicy_due(struct aw_offpolicy *off);
/* Draws a batch into the arrays above. */
void aw__offpolicy_sample(struct aw_offpolicy *off);

/* STATE parts: ring, counters, generator; MODEL: the normaliser. */
void aw__offpolicy_persist(struct aw_offpolicy *off, struct aw_persist *persist);
/* For an aw_persist_valid; `off` is the context. */
enum aw_err aw__offpolicy_valid(void *off, const struct aw_persist_found *found,
                                struct aw_diag *diag);
/* After a load. */
void aw__offpolicy_refresh(struct aw_offpolicy *off);

/* Adds one named figure; a NULL or full list takes nothing. */
void aw__learn_stat(struct aw_learn_stats *stats, const char *name, double value);

#endif
