/*
 * copyenv.h - a fitted copy of a workload as an environment, for learners that need to act.
 *
 * A learner on its own policy's steps (PPO) cannot learn from what a fallback did. It can learn in
 * a simulator that was fitted to that (AWARE section 7): a copy (copy_fit.h) on a small simulated
 * cluster under the load of the past, behind the workload's guard rails. State, action and reward
 * are those of the pilot, from the same functions.
 *
 *   action -> plan -> guard -> apply; a step passes; sample -> reading -> score, state, reward
 *
 * Call order: make, then as <aware/env.h> says; aw_env_free.
 * Memory:     the copy, its cluster and its load, all at make. reset and step never allocate.
 * Threads:    one owner per environment. Same config and seeds, same bytes.
 *
 * An episode begins at a random minute of the past, in the plan that the workload has now, and is
 * watched there until the guard knows its peaks: else the rail for young workloads would forbid
 * every shrinking that a learner tries.
 *
 * The trap: what goes through the rails may be less than the action asked for. The reward is for
 * what came through.
 */
#ifndef AW_REHEARSAL_COPYENV_H
#define AW_REHEARSAL_COPYENV_H

#include <aware/env.h>

#include "base/alloc.h"
#include "rehearsal/copy_fit.h"
#include "safety/step.h"
#include "task/action.h"
#include "task/objective.h"
#include "task/state.h"

#define AW_COPYENV_MINUTES_MIN 30u /* of load: with less there is no copy */
#define AW_COPYENV_MINUTES_MAX 10080u
#define AW_COPYENV_STEPS_MAX   100000u /* of one episode */

struct aw_copyenv_config {
    struct aw_state_config state;   /* the workload's; its SLO becomes as strict for the copy */
    struct aw_action_config action; /* likewise; its bounds are the workload's */
    struct aw_objective objective;  /* with what counts as cost 1 */
    double lambda;                  /* weight of the SLO, at most AW_LAMBDA_MAX */
    double step_s, stale_s;
    uint32_t episode_steps;
    uint32_t controlled; /* AW_PLAN_*: what may be changed at all */

    bool guarded; /* false: whatever the action asks for is applied */
    struct aw_guard_settings guard;
    struct aw_amounts node; /* largest node; 0: unknown */
    bool in_place;

    struct aw_plan start; /* how the workload stands; moved into its bounds */

    const struct aw_copy_record *record; /* read by make alone */
    const float *load_per_s;             /* [minutes], oldest first; copied */
    uint32_t minutes;
    double busier;    /* an episode's load is up to this many times the past's; >= 1 */
    double error_max; /* of a copy; a worse one is no copy */
    uint64_t seed;    /* of the copy; 0: believes the record exactly */
};

/* AW_ERR_NODATA: too little was seen to make a copy worth the name. AW_ERR_LIMIT: more minutes or
 * steps than can be. On failure `ret_env` is untouched. */
AW_NODISCARD enum aw_err aw_copyenv_make(const struct aw_copyenv_config *config,
                                         const struct aw_alloc *alloc, struct aw_env *ret_env,
                                         struct aw_diag *diag);

/* What the last step or reset was scored by; for tests and figures. */
const struct aw_score *aw_copyenv_score(const struct aw_env *env);

#endif
