/*
 * step.h - one step of any loop: look, score, propose, rails, apply, advance.
 *
 * The pilot of a workload, rehearsals on copies of it, environments for learners and
 * counterfactuals all take the same step. It is written here once, so that what is tried on a copy
 * is treated as production treats it: the same rails, the same SLO, and nothing changed that is not
 * controlled.
 *
 *   look -> reading, score -> (the caller proposes) -> input -> rails -> apply -> advance
 *
 * Call order: fill in the rules; per step look, act, advance. A caller with a sample or a clock of
 *             its own uses the parts: aw_step_score, aw_step_input, aw_guard_observe, aw_step_pass.
 * Memory:     plain structs.
 * Threads:    pure functions of their arguments; look, act and advance ask the cluster, too.
 *
 * The trap: restarts and kills of a sample count since the look before. Looking twice in a step
 * hides them from the rails.
 */
#ifndef AW_SAFETY_STEP_H
#define AW_SAFETY_STEP_H

#include <aware/cluster.h>

#include "safety/guard.h"
#include "task/objective.h"

/* What stays the same from step to step. */
struct aw_step_rules {
    struct aw_objective objective; /* its SLO says which latency a reading has */
    struct aw_guard guard;
    double step_s;
    int64_t step_us, stale_us;
    struct aw_amounts node; /* largest node; 0: unknown */
    uint32_t controlled;    /* AW_PLAN_*: what may be changed at all */
    bool in_place;          /* sizes change without a restart */
};
/* Times in microseconds from times in seconds. */
void aw_step_times(struct aw_step_rules *rules, double step_s, double stale_s);

/* What was seen. */
struct aw_step_seen {
    struct aw_sample sample; /* its pods are the cluster's, until it is next asked */
    struct aw_reading reading;
    struct aw_score score;
};
/* After a failure `ret` is untouched. AW_ERR_NODATA: nothing was measured yet. */
AW_NODISCARD enum aw_err aw_step_look(const struct aw_step_rules *rules,
                                      const struct aw_cluster *cluster, uint32_t workload,
                                      struct aw_step_seen *ret);
/* What a step was worth, by what was read of it. */
void aw_step_score(const struct aw_step_rules *rules, const struct aw_reading *reading,
                   struct aw_score *ret);
/* Missed, met, or unknown: there is an SLO, but the load is unknown, or its figure is while there
 * is load. */
enum aw_guard_slo aw_step_slo(const struct aw_step_rules *rules, const struct aw_reading *reading,
                              const struct aw_score *score);

/* What the rails are to know. Orders, a restart and a silent cluster are the caller's to add. */
struct aw_guard_input aw_step_input(const struct aw_step_rules *rules,
                                    const struct aw_reading *reading, enum aw_guard_slo slo,
                                    uint32_t restarts);
/* What the rails leave of `proposed`. */
void aw_step_pass(const struct aw_step_rules *rules, const struct aw_guard_memory *memory,
                  const struct aw_guard_input *input, const struct aw_plan *proposed,
                  int64_t now_us, struct aw_guard_result *ret);

/* Observe, pass, apply. `memory` NULL: no rails, and what is proposed is applied. A change that the
 * cluster does not take now (aw_err_transient) is no failure: the next step asks again. */
AW_NODISCARD enum aw_err aw_step_act(const struct aw_step_rules *rules,
                                     struct aw_guard_memory *memory,
                                     const struct aw_cluster *cluster, uint32_t workload,
                                     const struct aw_guard_input *input,
                                     const struct aw_plan *proposed, struct aw_guard_result *ret);
/* A step passes. */
AW_NODISCARD enum aw_err aw_step_advance(const struct aw_step_rules *rules,
                                         const struct aw_cluster *cluster);

#endif
