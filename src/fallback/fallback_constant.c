/*
 * fallback_constant.c - the same anchored action in every step: the baseline that a learner must
 * beat.
 *
 * A good one found per application came as close to the best as a converged learner did, because
 * the anchors do the following. What it cannot do is look ahead.
 */
#include "fallback/fallback_kinds.h"
#include "task/action.h"
#include "task/reading.h"

/* For which a kill is remembered: as long as an episode of the paper. */
#define OOM_STEPS 100u
/* A change of size by less restarts replicas for nothing; the updater of the VPA says the same. */
#define DEADBAND 0.1

void aw__fallback_constant_init(struct aw_fallback *policy)
{
    const struct aw_action_config config = {
        .mapping = AW_ACTION_ANCHORED,
        .bounds = policy->task.bounds,
        .window = policy->settings.anchor_window,
        .oom_steps = OOM_STEPS,
        .deadband = DEADBAND,
        .guard = true,
    };
    aw_action_init(policy->action, &config);
}

void aw__fallback_constant_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                                  const struct aw_reading *reading, struct aw_plan *plan,
                                  struct aw_fallback_reason *reason)
{
    const struct aw_fallback_settings *settings = &policy->settings;
    const float values[AW_ACTION_MAX] = {
        [AW_ACTION_CPU] = (float)settings->constant_cpu,
        [AW_ACTION_MEMORY] = (float)settings->constant_memory,
        [AW_ACTION_REPLICAS] = (float)settings->constant_replicas,
    };
    aw_action_observe(policy->action, policy->anchor, reading);
    aw_action_plan(policy->action, policy->anchor, reading, values, plan);
    plan->set &= AW_PLAN_COMMON; /* it has no number for anything else */
    /* A rollout that is overtaken by the next one never ends. */
    if (sample->rollout && reading->oom_kills == 0)
        plan->set = AW_PLAN_REPLICAS;
    reason->cause = AW_FALLBACK_CAUSE_ANCHORED;
    reason->utilization = reading->cpu_utilisation;
}
