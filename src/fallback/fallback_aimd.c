/*
 * fallback_aimd.c - additive increase, multiplicative decrease of CPU and memory, by the SLO.
 *
 * FIRM (OSDI 2020, section 4) compares with AIMD control of each container's limits. Here: when the
 * step's p99 missed the SLO, the cores of all replicas together grow by a fixed step; when p99 is
 * well below the SLO, they shrink by a factor. Vertically first: the count changes only when the
 * size would leave its bounds, or when one replica less leaves the others room to grow. Memory
 * follows its own utilisation in the same manner. A change needs a period to show before the next
 * one is judged, and none is made while a rollout is under way.
 */
#include "base/units.h"
#include "fallback/fallback_kinds.h"
#include "task/bounds.h"
#include "task/reading.h"

#include <math.h>

enum aw_err aw__fallback_aimd_check(const struct aw_fallback *policy, struct aw_diag *diag)
{
    const struct aw_fallback_settings *settings = &policy->settings;
    if (settings->kind == AW_FALLBACK_AIMD && !(policy->task.slo_latency_us > 0))
        return aw_fail(diag, AW_ERR_CONFIG, "aimd needs an SLO of latency: it has no other signal");
    if (!(settings->aimd_memory_low < settings->aimd_memory_high))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "aimd_memory_low (%g) must be below aimd_memory_high "
                       "(%g)",
                       settings->aimd_memory_low, settings->aimd_memory_high);
    return AW_OK;
}

/* A replica less is worth it when the size of the others then stays below this share of its bound:
 * else the next increase would bring the replica back. */
#define ROOM_TO_GROW 0.75

static double millicores_of(const struct aw_reading *reading)
{
    return (double)reading->cpu_millicores_wanted * reading->replicas_wanted;
}

/* So many cores in all, as sizes of the present replicas as long as that is possible. */
static void set_cores(const struct aw_fallback *policy, const struct aw_reading *reading,
                      double millicores, struct aw_plan *plan)
{
    const struct aw_bounds *bounds = &policy->task.bounds;
    const double most = (double)bounds->cpu_millicores_max;
    uint32_t replicas = reading->replicas_wanted;
    if (millicores / replicas > most)
        replicas++;
    else if (millicores < millicores_of(reading) && replicas > bounds->replicas_min &&
             millicores / (replicas - 1) < ROOM_TO_GROW * most)
        replicas--;
    plan->set |= AW_PLAN_CPU | AW_PLAN_REPLICAS;
    plan->replicas = replicas;
    plan->cpu_millicores = (int64_t)(millicores / replicas);
}

/* True when memory changes. */
static bool memory(const struct aw_fallback *policy, const struct aw_reading *reading,
                   struct aw_plan *plan)
{
    const struct aw_fallback_settings *settings = &policy->settings;
    const double limit = (double)reading->memory_bytes_wanted;
    const double used = reading->memory_bytes_peak / limit; /* NAN compares false below */
    double bytes = limit;
    if (reading->oom_kills > 0 || used > settings->aimd_memory_high)
        bytes = limit + settings->aimd_memory_step * AW_MIB_REAL;
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

void aw__fallback_aimd_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                              const struct aw_reading *reading, int64_t now_us,
                              struct aw_plan *plan, struct aw_fallback_reason *reason)
{
    if (!aw__fallback_due(policy->state->aimd_next_us, now_us, policy->settings.aimd_period) ||
        (sample->rollout && reading->oom_kills == 0)) {
        reason->cause = AW_FALLBACK_CAUSE_NOT_YET;
        return;
    }
    const double slo = policy->task.slo_latency_us;
    reason->utilization = reading->cpu_utilisation;
    if (memory(policy, reading, plan))
        reason->cause = AW_FALLBACK_CAUSE_MEMORY_LOW;
    if (isnan(reading->latency_us_slo)) {
        /* no request, or no figure: neither is a reason to take anything away */
        if (plan->set == 0)
            reason->cause = AW_FALLBACK_CAUSE_NO_DATA;
    } else if (reading->latency_us_slo > slo) {
        set_cores(policy, reading, millicores_of(reading) + policy->settings.aimd_cpu_step * 1000,
                  plan);
        reason->cause = AW_FALLBACK_CAUSE_SLO_MISSED;
    } else if (reading->latency_us_slo < policy->settings.aimd_slack * slo) {
        set_cores(policy, reading, millicores_of(reading) * policy->settings.aimd_decrease, plan);
        if (reason->cause == AW_FALLBACK_CAUSE_NONE)
            reason->cause = AW_FALLBACK_CAUSE_SLO_EASY;
    }
    if (plan->set != 0)
        policy->state->aimd_next_us = now_us + (int64_t)(policy->settings.aimd_period * 1e6);
}
