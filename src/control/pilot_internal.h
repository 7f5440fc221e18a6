/* pilot_internal.h - what the files of a pilot share: its insides. */
#ifndef AW_CONTROL_PILOT_INTERNAL_H
#define AW_CONTROL_PILOT_INTERNAL_H

#include "base/clock.h"
#include "base/envelope.h"
#include "base/pack16.h"
#include "control/pilot.h"

/* Of the pilot's seed: each use of chance has its own (1: AW_LESSON_ESTIMATE_STREAM). */
#define AW__PILOT_EXPLORE_STREAM   2u
#define AW__PILOT_UNTRAINED_STREAM 3u
/* Steps that tell something, before the first search on copies. */
#define AW__PILOT_SEARCH_ROWS 60u
/* Minutes of the past that policies are tried on. */
#define AW__PILOT_SEARCH_MINUTES 720u

/* Everything that outlives a tick, but for the fallback and the policy. No padding: it is copied
 * into snapshots, and pilot_layout.c names every member. */
struct aw__pilot_memory {
    struct aw_state_memory state;
    struct aw_action_memory action;
    struct aw_guard_memory guard;
    struct aw_watchdog_memory watchdog;
    struct aw_lifecycle_memory lifecycle;
    struct aw_reading reading;
    struct aw_canary_memory canary;
    struct aw_relief_memory relief;
    struct aw_policy_origin trial_origin;
    struct aw_copy_record record;
    uint16_t load_per_s[AW__PILOT_SEARCH_MINUTES]; /* ring of minutes; aw_pack16 */

    double cost_reference_per_hour; /* $; 0: not known yet */
    double lambda;
    double violation_share;                      /* of the agent's episodes, faded; NAN: none yet */
    double better_mean, better_low, better_high; /* than the fallback, per episode; NAN: unknown */
    double extra_cost; /* of exploring in the step in flight, over the fallback; NAN: none */
    struct aw_lifecycle_reason stay;

    /* of the episode so far */
    double gain_sum, cost_sum, need_sum;
    double minute_sum; /* of loads of the minute so far */
    uint32_t minute_steps, minute_count;
    uint32_t minute_first, rows_first; /* of those that are still believed */
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
    uint32_t away;     /* the agent has acted, and sizes are not back yet */
    uint32_t by_trial; /* the policy on trial has decided it */
    uint32_t anew;     /* the workload has changed since the last search */
    int64_t at_us;
    int64_t forgotten_us; /* when it was last ordered to forget; 0: never */
    uint64_t policy_id;
    uint64_t policy_order; /* about policies, that was carried out last; 0: none */

    /* sizes under the fallback, to go back to when it takes over again */
    int64_t home[AW_RESOURCES];      /* of sizes */
    struct aw_policy_origin origin;  /* of the policy in force */
    float obs[AW_STATE_DIM_MAX + 1]; /* + 1: a multiple of 8 */
    float action_taken[AW_ACTION_MAX + 1];
    float shadow[AW_ACTION_MAX + 1];
};

/* What a tick has seen, as a moment has it. No padding but in the score: bytes of it are compared.
 */
struct aw__pilot_seen {
    struct aw_envelope head;
    struct aw_score score;
    double gain;
    double took_s; /* of the decision that followed */
    uint32_t answered, restarts, finished, moved, pod_count, canary_moved, first, unused_;
    float obs[AW_STATE_DIM_MAX + 1];
};

struct aw_pilot {
    struct aw_pilot_config config;
    struct aw_state state;
    struct aw_action action;
    struct aw_step_rules rules;
    struct aw_lifecycle lifecycle;
    uint32_t obs_dim;

    struct aw__pilot_memory memory;
    struct aw_fallback_task task;
    struct aw_fallback *fallback;
    struct aw_policy_task policy_task;
    struct aw_policy policy; /* in force */
    struct aw_policy trial;  /* in SHADOW or TRIAL beside it; empty: none is */
    void *peek; /* the fallback's state, while it is asked before its time; NULL: it never is */
    const struct aw_teacher_ops *teacher;
    struct aw_learner *learner; /* NULL: nothing to learn now */
    struct aw_learned learned;

    /* of this tick */
    struct aw_sample sample;     /* its pods are `pods` */
    struct aw_pod *pods;         /* [pods_max]; a cluster's own live only until its next call */
    struct aw_pilot_pods *among; /* where they are; NULL: a block of its own */
    uint32_t pods_max;
    bool answered; /* the cluster did */
    uint32_t restarts;
    float obs[AW_STATE_DIM_MAX];      /* present */
    float obs_last[AW_STATE_DIM_MAX]; /* of the finished step, for its row */
    float action_last[AW_ACTION_MAX], shadow_last[AW_ACTION_MAX];
    struct aw_score score;
    double gain;
    float reward;                 /* of the finished step, as its row has it */
    const struct aw_clock *clock; /* that its answers are timed by; NULL: they take no time */
    double took_s;                /* without a clock: as the moment has it */
    bool finished;                /* a step was, in this tick */
    bool moved;
    bool canary_moved;
    bool first; /* look after a restart */
    struct aw_decision decision;
    const struct aw_alloc *alloc;
};

/* Of struct aw__pilot_memory, behind that of what its arrays are made of. */
uint64_t aw__pilot_memory_layout(uint64_t hash);
/* Of what a snapshot has beyond a state (aw_pilot_layout). */
uint64_t aw__pilot_seen_layout(uint64_t hash);

/* The task has changed, or the policy is lost: stages, scores and the watchdog begin again; the
 * record of the workload stays. */
void aw__pilot_ask_anew(struct aw_pilot *pilot);
/* Whether what `old` has learned answers the question that `pilot` is asked. */
bool aw__pilot_same_question(const struct aw_pilot *old, const struct aw_pilot *pilot);
/* Whether it learns, and makes copies of the workload. */
bool aw__pilot_makes_copies(const struct aw_pilot *pilot);
/* The objective without the SLO, from what a store keeps: so that what is recalled from there is
 * what was seen. */
double aw__pilot_gain(const struct aw_pilot *pilot, double cost, double paper_reward);
/* `lambda`, or 0 where the objective has no such weight. */
double aw__pilot_weight(const struct aw_pilot *pilot, double lambda);
/* The reward of a step as a shared model reads it; 0: no shared model. */
double aw__pilot_read(const struct aw_pilot *pilot, double slo_preservation, double cpu_utilisation,
                      double memory_utilisation, bool violated);

/* The figure of the present sample that an input is read from. */
struct aw_figure *aw__pilot_figure(struct aw_pilot *pilot, enum aw_input input);
/* Room for `count` pods in `pilot->pods`, until the next tick. Returns for how many there is. */
uint32_t aw__pilot_pods_room(struct aw_pilot *pilot, uint32_t count);
/* All three amounts: what the plan sets, and what is wanted already. */
struct aw_plan aw__pilot_whole(const struct aw_plan *plan, const struct aw_reading *reading);
/* What a policy acts on in this tick; `acted`: it has brought about the step that ended. */
struct aw_policy_seen aw__pilot_shown(const struct aw_pilot *pilot, bool acted);
/* All that `from` knows into `to`, of the same shape. AW_ERR_NOMEM: nothing changed. */
AW_NODISCARD enum aw_err aw__pilot_copy_policy(const struct aw_pilot *pilot,
                                               const struct aw_policy *from,
                                               const struct aw_policy *to);
/* Id of the policy in force; 0: none. */
uint64_t aw__pilot_policy_id(const struct aw_pilot *pilot);

/* --- pilot_canary.c: the policy beside the one in force ----------------------------------------
 */

/* Between episodes, not while another one is tried. `policy` is taken over. `origin` NULL: it is of
 * no model. */
void aw__pilot_try(struct aw_pilot *pilot, struct aw_policy *policy,
                   const struct aw_policy_origin *origin,
                   const struct aw_canary_candidate *candidate, enum aw_canary_cause cause);
/* A step has ended. */
void aw__pilot_canary_observe(struct aw_pilot *pilot, enum aw_guard_slo slo);
/* An episode has. True: its score is that of a policy which was rolled back. */
bool aw__pilot_canary_episode(struct aw_pilot *pilot, double score);
/* The stage may be another. */
void aw__pilot_canary_stage(struct aw_pilot *pilot);
/* The workload changed: what was predicted of the policy no longer holds. */
void aw__pilot_canary_changed(struct aw_pilot *pilot);
/* A person wants the policy on trial taken back. */
void aw__pilot_canary_ordered(struct aw_pilot *pilot);
/* Frees what only a trial needs. */
void aw__pilot_canary_tidy(struct aw_pilot *pilot);

struct aw__pilot_trial {
    bool asked;  /* a policy is on trial */
    bool finite; /* its answer is */
    bool turn;   /* it decides, if an agent does */
    struct aw_plan plan;
    float action[AW_ACTION_MAX];
};
/* Before the policy in force is asked: both see the same past. */
void aw__pilot_canary_ask(struct aw_pilot *pilot, struct aw__pilot_trial *ret);
/* The watchdog tripped by an agent's fault. True: it was that of the policy on trial. */
bool aw__pilot_canary_trip(struct aw_pilot *pilot, const struct aw__pilot_trial *trial);
/* Called once the actor is known. After a rollback `proposed` is raised to the last known good
 * allocation. */
void aw__pilot_canary_propose(struct aw_pilot *pilot, bool agent_acts, bool trial_acts,
                              struct aw_plan *proposed);
/* The guard has spoken: watches a policy in SHADOW, and fills in decision.canary. */
void aw__pilot_canary_decided(struct aw_pilot *pilot, const struct aw__pilot_trial *trial,
                              const struct aw_guard_input *rails, int64_t now_us);

/* --- pilot_learn.c: a round of learning, in its parts ----------------------------------------- */

void aw__pilot_learn_begins(struct aw_pilot *pilot);
/* `load` has room for AW__PILOT_SEARCH_MINUTES; `lesson` has the result, whether it failed or not.
 */
AW_NODISCARD enum aw_err aw__pilot_teach(struct aw_pilot *pilot, float *load,
                                         const _Atomic bool *stop, struct aw_lesson *lesson,
                                         struct aw_diag *diag);
/* All that a lesson says but for its policies. */
void aw__pilot_lesson_take(struct aw_pilot *pilot, const struct aw_lesson *lesson);
void aw__pilot_learn_ends(struct aw_pilot *pilot, enum aw_err err);

/* Whether the load of the last half hour is far from all that was seen before. */
/* It acts by what others have lived, and has seen too little to search beyond that. */
bool aw__pilot_young(const struct aw_pilot *pilot);
bool aw__pilot_load_jumped(const struct aw__pilot_memory *memory);

#endif
