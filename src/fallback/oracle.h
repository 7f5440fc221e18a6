/*
 * oracle.h - the ceiling: the best action by search, knowing the load.
 *
 * Looks into the simulated cluster: saves its state, tries a plan, lets time pass, scores what
 * happened, puts the state back, and tries the next. What is tried are sizes of a replica and a
 * headroom over the CPU that the coming load needs, by coordinate search from the last choice and
 * from a grid; each is held over the horizon, with replicas following the known load. All
 * candidates see the same chance (the generator is part of the state), so noise cannot choose
 * between them.
 *
 * It knows the load, and nothing of accidents to come (disturbances, faults). It is a bound for
 * controllers up to its horizon and its grid, not a proof of optimality.
 *
 * Call order: new, then decide once per step, reset between runs, free.
 * Memory:     one block at new, with room for one state of the cluster; decide does not allocate.
 * Threads:    single owner, which also owns the cluster.
 */
#ifndef AW_FALLBACK_ORACLE_H
#define AW_FALLBACK_ORACLE_H

#include "cluster/sim.h"
#include "fallback/policy.h"

enum aw_oracle_goal {
    AW_ORACLE_REWARD, /* the paper's reward */
    AW_ORACLE_COST,   /* cost, with SLO violations within their budget */
};

struct aw_oracle_settings {
    uint32_t goal;    /* enum aw_oracle_goal */
    uint32_t horizon; /* steps that a candidate is followed */
    uint32_t hold;    /* steps between searches; in between replicas follow the load */
    uint32_t rounds;  /* of coordinate search */
    uint32_t refresh; /* searches after which the whole grid is tried again */
};
extern const struct aw_conf_field aw_oracle_fields[];

/* What a step is worth; the same numbers by which a run is scored. */
struct aw_oracle_objective {
    double step_us;
    double reward_weight;   /* a of the paper's reward */
    double slo_latency_us;  /* of p99; 0: none */
    double slo_budget;      /* share of steps that may miss it */
    double price_core_hour; /* cost of a core, and of a GiB, for an hour */
    double price_gib_hour;
};

struct aw_oracle; /* opaque */

AW_NODISCARD enum aw_err aw_oracle_new(const struct aw_oracle_settings *settings,
                                       const struct aw_policy_task *task,
                                       const struct aw_oracle_objective *objective,
                                       const struct aw_sim *sim, const struct aw_alloc *alloc,
                                       struct aw_oracle **ret_oracle, struct aw_diag *diag);
void aw_oracle_free(struct aw_oracle *oracle); /* NULL is a no-op */
void aw_oracle_reset(struct aw_oracle *oracle);

/* The plan for the coming step of `workload`, whose load is `load` shifted by `load_offset_us`. The
 * cluster is as it was. AW_ERR_UNSUPPORTED: its model has no states to save. */
AW_NODISCARD enum aw_err aw_oracle_decide(struct aw_oracle *oracle, struct aw_sim *sim,
                                          uint32_t workload, const struct aw_load *load,
                                          int64_t load_offset_us, struct aw_plan *ret_plan,
                                          struct aw_policy_reason *ret_reason);
/* Tells what the step that was decided really did, for the budget. */
void aw_oracle_learn(struct aw_oracle *oracle, bool violated);

#endif
