/* pilot_internal.h - what the files of a pilot share: its insides. */
#ifndef AW_CONTROL_PILOT_INTERNAL_H
#define AW_CONTROL_PILOT_INTERNAL_H

#include "control/pilot.h"

/* Of the pilot's seed: each use of chance has its own. */
#define AW__PILOT_ESTIMATE_STREAM  1u
#define AW__PILOT_EXPLORE_STREAM   2u
#define AW__PILOT_UNTRAINED_STREAM 3u
/* Steps that tell something, before the first search on copies. */
#define AW__PILOT_SEARCH_ROWS 60u

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
/* Everything that outlives a tick, but for the fallback and the policy. No padding: it is copied
 * into snapshots. */
struct aw__pilot_memory {
    struct aw_state_memory state;
    struct aw_action_memory action;
    struct aw_guard_memory guard;
    struct aw_watchdog_memory watchdog;
    struct aw_lifecycle_memory lifecycle;
    struct aw_familiar familiar;
    struct aw_reading reading;
    struct aw_formula formula;
    struct aw_formula_memory formula_memory;
    struct aw_model_record record;
    float load_per_s[AW_REHEARSE_MINUTES_MAX]; /* ring of minutes */

    double cost_reference_per_hour; /* $; 0: not known yet */
    double lambda;
    double violation_share;                      /* of the agent's episodes, faded; NAN: none yet */
    double better_mean, better_low, better_high; /* than the fallback, per episode; NAN: unknown */
    double rehearsed_load;                       /* requests/s, the highest; 0: none */
    double extra_cost; /* of exploring in the step in flight, over the fallback; NAN: none */
    struct aw_lifecycle_reason stay;

    /* of the episode so far */
    double gain_sum, cost_sum, need_sum;
    double minute_sum; /* of loads of the minute so far */
    uint32_t minute_steps, minute_count;
    uint32_t rows, next_rows; /* steps that told something; how many make the next search due */
    uint32_t loaded, missed;  /* since the last search: steps with load, of them violations */
    uint32_t step_count, violation_count, agent_steps;

    uint32_t episode, step;
    uint32_t learn_from; /* first episode that is still believed */
    uint32_t learn_due;

    /* the step in flight */
    uint32_t in_flight;
    uint32_t actor, stage;
    uint32_t has_shadow;
    uint32_t away; /* the agent has acted, and sizes are not back yet */
    int64_t at_us;
    uint64_t model;
    uint64_t formula_id; /* 0: there is no policy yet */

    /* sizes under the fallback, to go back to when it takes over again */
    int64_t home_cpu_millicores, home_memory_bytes;
    float obs[AW_STATE_DIM_MAX + 1]; /* + 1: a multiple of 8 */
    float action_taken[AW_ACTION_DIM + 1];
    float shadow[AW_ACTION_DIM + 1];
};
#pragma GCC diagnostic pop

struct aw_pilot {
    struct aw_pilot_config config;
    struct aw_state state;
    struct aw_action action;
    struct aw_objective objective;
    struct aw_guard guard;
    struct aw_lifecycle lifecycle;
    int64_t step_us, stale_us;
    uint32_t obs_dim;

    struct aw__pilot_memory memory;
    struct aw_formula_values formula; /* of memory.formula */
    struct aw_policy_task task;
    struct aw_policy *policy;
    struct aw_actnet actor;
    struct aw_learner *learner; /* NULL: nothing to learn now */

    /* of this tick */
    struct aw_sample sample; /* its pods are `pods` */
    struct aw_pod *pods;     /* [pods_max]; a cluster's own live only until its next call */
    uint32_t pods_max;
    bool answered; /* the cluster did */
    uint32_t restarts;
    float obs[AW_STATE_DIM_MAX];      /* present */
    float obs_last[AW_STATE_DIM_MAX]; /* of the finished step, for its row */
    float action_last[AW_ACTION_DIM], shadow_last[AW_ACTION_DIM];
    struct aw_score score;
    double gain;
    bool finished; /* a step was, in this tick */
    bool moved;
    struct aw_decision decision;
    const struct aw_alloc *alloc;
};

/* Whether what is learned is learned on copies of the workload. */
bool aw__pilot_makes_copies(const struct aw_pilot *pilot);
/* The objective without the SLO, from what a store keeps: so that what is recalled from there is
 * what was seen. */
double aw__pilot_gain(const struct aw_pilot *pilot, double cost, double paper_reward);
/* `lambda`, or 0 where the objective has no such weight. */
double aw__pilot_weight(const struct aw_pilot *pilot, double lambda);
/* What an episode was worth, at one weight of the SLO for ever: its cost over what its load needed,
 * so that a busy hour can be compared with a quiet one. */
double aw__pilot_episode_score(const struct aw_pilot *pilot, double cost, double need,
                               double violation_share);

/* Between moment_load and decide: as if this figure had been measured `factor` times as large, all
 * else as it was. What a step before this one left behind stays. */
void aw__pilot_nudge(struct aw_pilot *pilot, enum aw_input input, double factor);

#endif
