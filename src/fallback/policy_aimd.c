/*
 * policy_aimd.c - additive increase, multiplicative decrease of limits, driven by the SLO.
 *
 * FIRM (OSDI 2020, section 4) compares with AIMD control of each container's limits. Here: when the
 * step's p99 missed the SLO, CPU grows by a fixed step up to its bound, and beyond that replicas by
 * one; when p99 is well below the SLO, what was added last goes first, replicas and then CPU, by a
 * factor. Memory follows its own utilisation in the same manner. A change needs a period to show
 * before the next one is judged, and none is made while a rollout is under way.
 */
#include "fallback/policy_kinds.h"

#include <math.h>

enum aw_err aw__policy_aimd_init(const struct aw_policy *policy, struct aw_diag *diag)
{
    const struct aw_policy_settings *settings = &policy->settings;
    if (settings->kind == AW_POLICY_AIMD && !(policy->task.slo_latency_us > 0))
        return aw_fail(diag, AW_ERR_CONFIG, "aimd needs an SLO of latency: it has no other signal");
    if (!(settings->aimd_memory_low < settings->aimd_memory_high))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "aimd_memory_low (%g) must be below aimd_memory_high "
                       "(%g)",
                       settings->aimd_memory_low, settings->aimd_memory_high);
    return AW_OK;
}

static void grow(const struct aw_policy *policy, const struct aw_reading *reading,
                 struct aw_plan *plan)
{
    if (reading->cpu_millicores_wanted < policy->task.bounds.cpu_millicores_max) {
        plan->set |= AW_PLAN_CPU;
        plan->cpu_millicores =
            reading->cpu_millicores_wanted + (int64_t)(policy->settings.aimd_cpu_step * 1000);
    } else {
        plan->set |= AW_PLAN_REPLICAS;
        plan->replicas = reading->replicas_wanted + 1;
    }
}

static void shrink(const struct aw_policy *policy, const struct aw_reading *reading,
                   struct aw_plan *plan)
{
    const double factor = policy->settings.aimd_decrease;
    if (reading->replicas_wanted > policy->task.bounds.replicas_min) {
        plan->set |= AW_PLAN_REPLICAS;
        plan->replicas = (uint32_t)(reading->replicas_wanted * factor);
    } else {
        plan->set |= AW_PLAN_CPU;
        plan->cpu_millicores = (int64_t)((double)reading->cpu_millicores_wanted * factor);
    }
}

/* True when memory changes. */
static bool memory(const struct aw_policy *policy, const struct aw_reading *reading,
                   struct aw_plan *plan)
{
    const struct aw_policy_settings *settings = &policy->settings;
    const double limit = (double)reading->memory_bytes_wanted;
    const double used = reading->memory_bytes_peak / limit; /* NAN compares false below */
    double bytes = limit;
    if (reading->oom_kills > 0 || used > settings->aimd_memory_high)
        bytes = limit + settings->aimd_memory_step * AW__POLICY_MIB;
    else if (used < settings->aimd_memory_low)
        /* not so far down that the next look would call it short */
        bytes = fmax(limit * settings->aimd_decrease,
                     reading->memory_bytes_peak / settings->aimd_memory_high);
    if (bytes == limit)
        return false;
    plan->set |= AW_PLAN_MEMORY;
    plan->memory_bytes = (int64_t)bytes;
    return bytes > limit;
}

void aw__policy_aimd_decide(struct aw_policy *policy, const struct aw_sample *sample,
                            int64_t now_us, struct aw_plan *plan, struct aw_policy_reason *reason)
{
    const struct aw_reading *reading = &policy->reading;
    if (now_us < policy->state.aimd_next_us || (sample->rollout && reading->oom_kills == 0)) {
        reason->cause = AW_POLICY_CAUSE_NOT_YET;
        return;
    }
    const double slo = policy->task.slo_latency_us;
    reason->utilization = reading->cpu_utilisation;
    if (memory(policy, reading, plan))
        reason->cause = AW_POLICY_CAUSE_MEMORY_LOW;
    if (isnan(reading->latency_us_p99)) {
        /* no request, or no figure: neither is a reason to take anything away */
        if (plan->set == 0)
            reason->cause = AW_POLICY_CAUSE_NO_DATA;
    } else if (reading->latency_us_p99 > slo) {
        grow(policy, reading, plan);
        reason->cause = AW_POLICY_CAUSE_SLO_MISSED;
    } else if (reading->latency_us_p99 < policy->settings.aimd_slack * slo) {
        shrink(policy, reading, plan);
        if (reason->cause == AW_POLICY_CAUSE_NONE)
            reason->cause = AW_POLICY_CAUSE_SLO_EASY;
    }
    if (plan->set != 0)
        policy->state.aimd_next_us = now_us + (int64_t)(policy->settings.aimd_period * 1e6);
}
