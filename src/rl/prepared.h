/*
 * prepared.h - a record as the networks of off-policy evaluation want it: centred, scaled, with the
 * judged policy's action beside each recorded one.
 *
 * Call order: init, then fill as often as wanted, each time with a record of the same shape.
 * Memory:     one block at init; fill does not allocate.
 * Threads:    single owner.
 *
 * An element of an action that was never varied has no scale of its own; it gets a tenth
 * of half the range between its bounds, so that a policy that departs from it shows as a departure,
 * though not as an infinite one.
 */
#ifndef AW_RL_PREPARED_H
#define AW_RL_PREPARED_H

#include "base/alloc.h"
#include "base/rng.h"
#include "rl/logged.h"

struct aw__prepared {
    uint32_t S, A, steps_max;
    uint32_t steps, episodes;  /* of the record in hand */
    const uint32_t *begin;     /* [episodes + 1], the caller's */
    bool terminates;           /* some episode does */
    float *x;                  /* [steps][S + A]: what was seen and done */
    float *next;               /* [steps][S + A]: what was seen next, and the policy's answer */
    float *policy;             /* [steps][S + A]: what was seen, and the policy's answer */
    float *reward;             /* [steps] */
    float *alive;              /* [steps]: 0 where the step terminated, else 1 */
    float *mean, *scale;       /* [S + A] of the record */
    float *low, *high;         /* [S] of what was seen, scaled */
    float *act_low, *act_high; /* [A], the environment's units */
    float reward_mean, reward_scale;
    float reward_low, reward_high; /* of what was earned, scaled */
    float *raw_obs, *raw_act; /* [AW_AGENT_ACT_ROWS_MAX][S], [..][A]: on the way to the policy */
    const struct aw_alloc *alloc;
    void *block;
};

/* On failure `prepared` is left zeroed. */
AW_NODISCARD enum aw_err aw__prepared_init(struct aw__prepared *prepared, uint32_t S, uint32_t A,
                                           uint32_t steps_max, const struct aw_alloc *alloc);
void aw__prepared_deinit(struct aw__prepared *prepared); /* a zeroed one is a no-op */

/* AW_ERR_DIVERGED: a number of the record or of the policy is not finite; fill again before use. */
AW_NODISCARD enum aw_err aw__prepared_fill(struct aw__prepared *prepared,
                                           const struct aw_logged *logged,
                                           const struct aw_logged_policy *policy);

/* Writes the policy's answers to the states that `count` rows of sa [count][S + A] begin with
 * behind them. */
AW_NODISCARD enum aw_err aw__prepared_act(struct aw__prepared *prepared,
                                          const struct aw_logged_policy *policy, float *sa,
                                          uint32_t count);

/* A resample of the episodes, with replacement: slot [episodes], and which of them it left out. */
void aw__resample(struct aw_rng *rng, uint32_t episodes, uint32_t *slot, bool *left_out);
/* A random step of a random episode of the resample. */
uint32_t aw__resample_step(struct aw_rng *rng, const struct aw__prepared *prepared,
                           const uint32_t *slot);

#endif
