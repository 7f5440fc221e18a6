/*
 * oracle.h - the ceiling: the best action by search, knowing the load.
 *
 * Looks into the simulated cluster: saves its state, tries a plan, lets time pass, scores what
 * happened, puts the state back, and tries the next. A candidate is a size of a replica, a
 * headroom over the CPU that the coming load needs, and how far ahead to look for that load; it is
 * followed over a horizon with the replica count following the known load. The search goes
 * coordinate by coordinate from the last choice, and now and then over a grid of sizes and
 * headrooms. A size is judged over a long horizon, because a rollout must pay for itself; a count
 * over a short one, because it can change again in the next step.
 *
 * It knows the load, and, because the generator is part of the state, the chance of the steps that
 * it tries; nothing of accidents to come (disturbances, faults). So it is somewhat better than any
 * controller can be, and a bound only up to its horizon and its steps: a ceiling to measure regret
 * from, not a proof.
 *
 * Cost within the SLO budget: what steps without a violation save up is a bank of violations that
 * may be spent. One that is covered costs PRICE_COVERED steps' cost, one that is not PRICE_BARE.
 *
 * Call order: new, then per step decide and, when the step is over, learn; reset between runs;
 *             free.
 * Memory:     one block at new, with room for one state of the cluster; decide does not allocate.
 * Threads:    single owner, which also owns the cluster.
 */
#ifndef AW_FALLBACK_ORACLE_H
#define AW_FALLBACK_ORACLE_H

#include "cluster/sim.h"
#include "fallback/fallback.h"
#include "task/objective.h"

enum aw_oracle_goal {
    AW_ORACLE_REWARD, /* the paper's reward */
    AW_ORACLE_COST,   /* cost, with SLO violations within their budget */
};

struct aw_oracle_settings {
    uint32_t goal;          /* enum aw_oracle_goal */
    uint32_t size_horizon;  /* steps over which a size of a replica is judged */
    uint32_t count_horizon; /* steps over which a number of replicas is judged */
    uint32_t hold;          /* steps between searches for a size */
    uint32_t refresh;       /* of those searches, after which the whole grid is tried again */
};
extern const struct aw_conf_field aw_oracle_fields[];

struct aw_oracle; /* opaque */

AW_NODISCARD enum aw_err aw_oracle_new(const struct aw_oracle_settings *settings,
                                       const struct aw_fallback_task *task,
                                       const struct aw_objective *objective, double slo_budget,
                                       double step_s, const struct aw_sim *sim,
                                       const struct aw_alloc *alloc, struct aw_oracle **ret_oracle,
                                       struct aw_diag *diag);
void aw_oracle_free(struct aw_oracle *oracle); /* NULL is a no-op */
void aw_oracle_reset(struct aw_oracle *oracle);

/* The plan for the coming step of `workload`, whose load is `load` shifted by `load_offset_us`. The
 * cluster is as it was. AW_ERR_UNSUPPORTED: its model has no states to save. */
AW_NODISCARD enum aw_err aw_oracle_decide(struct aw_oracle *oracle, struct aw_sim *sim,
                                          uint32_t workload, const struct aw_load *load,
                                          int64_t load_offset_us, struct aw_plan *ret_plan,
                                          struct aw_fallback_reason *ret_reason);
/* Tells what the step that was decided really did. */
void aw_oracle_learn(struct aw_oracle *oracle, const struct aw_sim_truth *truth,
                     const struct aw_score *score);

/* What really happened, in the terms of an objective. */
struct aw_outcome aw_outcome_of_truth(const struct aw_sim_truth *truth, double step_s);

#endif
