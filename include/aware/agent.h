/*
 * agent.h - what a training or control loop may ask of a learner.
 *
 * Call order: new, then per time step: act, (the world moves), observe, learn. save at any time
 * between calls; load into an agent made with the same configuration.
 * Memory:     sized at new. act, observe and learn never allocate.
 * Threads:    single owner.
 *
 * An agent serves `env_count` environments in lockstep: arrays are [env_count][dim], row after row.
 * A box action is in the environment's own units; a discrete action is its index in one float.
 * Every number that crosses this wall is checked: a non-finite observation, reward or action is
 * AW_ERR_DIVERGED, and nothing was learned from it.
 */
#ifndef AWARE_AGENT_H
#define AWARE_AGENT_H

#include <aware/err.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

enum aw_agent_action {
    AW_AGENT_CONTINUOUS, /* act_dim floats, each within [act_low, act_high] */
    AW_AGENT_DISCRETE,   /* one float: an index below act_n */
};

/* The shapes an agent is made for. */
struct aw_agent_shape {
    uint32_t env_count; /* environments in lockstep, at least 1 */
    uint32_t obs_dim;
    enum aw_agent_action action;
    uint32_t act_dim;                /* 1 for discrete */
    uint32_t act_n;                  /* discrete: choices; continuous: 0 */
    const float *act_low, *act_high; /* continuous: act_dim each, finite; copied by new */
};

/* One finished step of every environment. `next_obs` is what the step itself showed, before any
 * reset: the final observation of an episode, never the first of the next one. */
struct aw_transition {
    const float *obs;       /* [env_count][obs_dim], what act saw */
    const float *action;    /* [env_count][act_dim], what was carried out */
    const float *reward;    /* [env_count] */
    const float *next_obs;  /* [env_count][obs_dim] */
    const bool *terminated; /* [env_count] */
    const bool *truncated;  /* [env_count] */
};

#define AW_LEARN_STATS_MAX 16u

/* Named figures of the last learn that did something, e.g. "critic_loss". */
struct aw_learn_stats {
    uint64_t update_count; /* gradient updates made by this call; 0: nothing was due */
    uint32_t count;
    struct {
        const char *name; /* static text, lower case with underscores */
        double value;
    } stat[AW_LEARN_STATS_MAX];
};

struct aw_agent_ops {
    const char *name; /* "ddpg" */

    /* Chooses an action for each of `count` rows of `obs` (count <= env_count with explore set,
     * any count up to AW_AGENT_ACT_ROWS_MAX without). With `explore`, adds the learner's own
     * exploration and remembers what the following observe needs; without, it is deterministic and
     * leaves the agent unchanged. */
    enum aw_err (*act)(void *self, const float *obs, uint32_t count, bool explore, float *action);

    /* Takes in one step of every environment. Copies. */
    enum aw_err (*observe)(void *self, const struct aw_transition *transition);

    /* Makes the updates that are due; `stats` may be NULL. AW_ERR_DIVERGED: a loss or parameter is
     * not finite any more; the agent must be thrown away or loaded anew. */
    enum aw_err (*learn)(void *self, struct aw_learn_stats *stats);

    /* Writes DIR/model.safetensors (the networks under PyTorch's names, with metadata) and, with
     * `resumable`, DIR/state.safetensors (moments, replay, normalisers, generator): everything that
     * an exact resume needs. Files are replaced atomically. */
    enum aw_err (*save)(void *self, const char *dir, bool resumable, struct aw_diag *diag);

    /* Reads what save wrote. Without `resumable` only the networks and normalisers: enough to act.
     * On failure the agent is unchanged. */
    enum aw_err (*load)(void *self, const char *dir, bool resumable, struct aw_diag *diag);

    void (*free)(void *self); /* NULL is a no-op */
};

#define AW_AGENT_ACT_ROWS_MAX 1024u

struct aw_agent {
    const struct aw_agent_ops *ops; /* no slot is ever NULL */
    void *self;
};

void aw_agent_free(struct aw_agent *agent); /* zeroes it; a zeroed one is a no-op */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
