/*
 * logged.h - episodes on record, and a policy that did not act in them.
 *
 * What off-policy evaluation is given: transitions of whole episodes, one after the other, as a
 * store hands them out, and a policy as a function of the observation.
 *
 * Memory:  a view; every array is the caller's and outlives the call it is passed to.
 * Threads: read only.
 *
 * An episode that was cut by its time limit ends without `terminated`, and `next_obs` of its last
 * step is the observation seen before the reset: what follows it is still worth something.
 */
#ifndef AW_RL_LOGGED_H
#define AW_RL_LOGGED_H

#include <aware/agent.h>

struct aw_logged {
    uint32_t obs_dim, act_dim;
    uint32_t episode_count;
    const uint32_t *episode_begin;   /* [episode_count + 1]: first step of each, then their total */
    const float *obs;                /* [steps][obs_dim] */
    const float *action;             /* [steps][act_dim], carried out, in the environment's units */
    const float *reward;             /* [steps] */
    const float *next_obs;           /* [steps][obs_dim] */
    const bool *terminated;          /* [steps]; NULL: none was */
    const float *act_low, *act_high; /* [act_dim]: the environment's bounds, finite */
};

static inline uint32_t aw_logged_steps(const struct aw_logged *logged)
{
    return logged->episode_begin[logged->episode_count];
}

/* The policy to be judged. Deterministic; writes `count` rows of actions in the environment's units
 * (what is beyond the bounds is clipped to them). `count` is at most AW_AGENT_ACT_ROWS_MAX. */
struct aw_logged_policy {
    enum aw_err (*act)(void *ctx, const float *obs, uint32_t count, float *action);
    void *ctx;
};

#endif
