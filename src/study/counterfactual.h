/*
 * counterfactual.h - what another policy would have done with a workload's recorded days.
 *
 * The rows of a store tell load, latency, use and sizes of every step. From them comes a copy of
 * the workload (copy_fit.h) on a small simulated cluster under the recorded load, behind the guard
 * rails that the workload has. On that copy every player is played alike: what was recorded, amount
 * by amount, and the policies asked about. Both scores are the copy's, so that its errors are
 * common to both; playing what was recorded shows how large they are.
 *
 * Call order: step_of for every row, in order of time; new; play as often as wanted; free.
 * Memory:     the copies, their clusters and the load at new; play allocates a policy.
 * Threads:    single owner. Same rows and seed, same bytes.
 *
 * The trap: a copy is good near sizes that were tried. A policy that goes to other sizes is scored
 * by a guess, and `beyond` says in how many steps.
 */
#ifndef AW_STUDY_COUNTERFACTUAL_H
#define AW_STUDY_COUNTERFACTUAL_H

#include <aware/store.h>

#include "control/pilot.h"

#define AW_COUNTERFACTUAL_COPIES_MAX 8u
#define AW_COUNTERFACTUAL_STEPS_MIN  120u /* half an hour of 15 s: less is no history */
#define AW_COUNTERFACTUAL_STEPS_MAX  (1u << 20)

/* One recorded step. NAN: not known. */
struct aw_counterfactual_step {
    int64_t at_us;
    double arrivals_per_s;
    double latency_us_p99; /* at the SLO's quantile, as rows have it */
    double cpu_utilisation, memory_utilisation;
    double in_flight; /* of all replicas, at its end */
    double throttled_share;
    double ready_share; /* of the wanted replicas, at its end */
    double cost;        /* $ */
    int64_t cpu_millicores, memory_bytes;
    uint32_t replicas;
    uint32_t actor, stage; /* enum aw_actor, enum aw_stage */
    bool violated;
};
void aw_counterfactual_step_of(const struct aw_pilot_config *config, const struct aw_store_row *row,
                               struct aw_counterfactual_step *ret);

struct aw_counterfactual_config {
    const struct aw_pilot_config *pilot; /* bounds, SLO, prices, rails; read at new */
    uint32_t copies;                     /* 1 .. AW_COUNTERFACTUAL_COPIES_MAX */
    uint32_t score_from;                 /* steps before it are played, and not scored */
    uint64_t seed;
};

struct aw_counterfactual; /* opaque */

/* AW_ERR_NODATA: too little is recorded, or no copy answers as the workload did. AW_ERR_LIMIT: more
 * steps than can be. */
AW_NODISCARD enum aw_err aw_counterfactual_new(const struct aw_counterfactual_config *config,
                                               const struct aw_counterfactual_step *steps,
                                               uint32_t count, const struct aw_alloc *alloc,
                                               struct aw_counterfactual **ret,
                                               struct aw_diag *diag);
void aw_counterfactual_free(struct aw_counterfactual *counterfactual); /* NULL is a no-op */

/* What decides in a play. */
enum aw_counterfactual_kind {
    AW_COUNTERFACTUAL_RECORDED, /* what was in force then */
    AW_COUNTERFACTUAL_POLICY,   /* a rule-based one */
    AW_COUNTERFACTUAL_CAPACITY_RULE,
};
struct aw_counterfactual_player {
    uint32_t kind;                             /* enum aw_counterfactual_kind */
    const struct aw_fallback_settings *policy; /* POLICY */
    const struct aw_capacity_rule *rule;       /* CAPACITY_RULE */
    const struct aw_guard_settings *guard;     /* rails of its own; NULL: those of the workload */
};

/* One step of a play, of the first copy. */
struct aw_counterfactual_point {
    uint32_t replicas; /* wanted */
    int64_t cpu_millicores, memory_bytes;
    double latency_us_p99; /* at the SLO's quantile; NAN: no request */
    double cost_per_hour;
    uint32_t clips; /* AW_CLIP_BIT: rails that made a difference */
    bool violated;
    bool changed; /* something was asked of the cluster */
};

struct aw_counterfactual_result {
    double cost_per_hour, cost_low, cost_high;     /* mean, lowest and highest of the copies */
    double violation_share, share_low, share_high; /* likewise */
    double replicas, cores, gib;                   /* in force, mean over steps; of all replicas */
    uint32_t replica_changes, size_changes;        /* of the first copy */
    uint32_t oom_kills;                            /* likewise */
    uint32_t beyond; /* scored steps at sizes a quarter away from any recorded one */
    uint32_t scored; /* steps */
    double off;      /* RECORDED: median |ln latency of the copies / recorded|; else NAN */
};

/* `points` has room for one per step, or is NULL. AW_ERR_CONFIG: a policy whose settings cannot
 * work together. */
AW_NODISCARD enum aw_err aw_counterfactual_play(struct aw_counterfactual *counterfactual,
                                                const struct aw_counterfactual_player *player,
                                                struct aw_counterfactual_point *points,
                                                struct aw_counterfactual_result *ret,
                                                struct aw_diag *diag);

/* Nine numbers sought on copies of the steps before `score_from`, as a workload seeks its own. */
AW_NODISCARD enum aw_err aw_counterfactual_search(struct aw_counterfactual *counterfactual,
                                                  struct aw_capacity_rule *ret_rule,
                                                  struct aw_diag *diag);

#endif
