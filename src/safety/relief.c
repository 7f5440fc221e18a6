/* relief.c - more of everything while the SLO is missed. */
#include "safety/relief.h"

#include <math.h>
#include <string.h>

#define PEAK_FADE    0.998 /* a step: a peak counts half after an hour and a half */
#define SETTLED      2u    /* steps after a raise before the next, once all replicas are ready */
#define SETTLED_MOST 12u   /* and where they never are */

#define AW_CONF_OF struct aw_relief_settings
const struct aw_conf_field aw_relief_fields[] = {
    AW_CONF_PLAIN(enabled, "true", "Give the fallback more while the SLO is missed."),
    AW_CONF_NUMBER(misses, "2", 1, 32, "Missed steps, of the last `of`, that raise the floor."),
    AW_CONF_NUMBER(of, "4", 1, 32, "Steps that are looked at."),
    AW_CONF_NUMBER(replicas_factor, "1.5", 1, 10, "Factor of one raise of replicas."),
    AW_CONF_NUMBER(size_factor, "1.6", 1, 10, "Factor of one raise of a replica's CPU."),
    AW_CONF_NUMBER(factor_max, "8", 1, 100, "Factor of all raises together."),
    AW_CONF_NUMBER(utilisation, "0.8", 0.05, 1, "Utilisation at the peak, before any raise."),
    AW_CONF_NUMBER(give_back, "240", 1, 100000, "Met steps in which a raise is given back."),
    {0},
};

void aw_relief_begin(struct aw_relief_memory *memory)
{
    memset(memory, 0, sizeof *memory);
}

/* Of what is not ours, or at its bound, there is no more. */
static void raise(const struct aw_relief_settings *settings, struct aw_relief_memory *memory,
                  const struct aw_bounds *bounds, uint32_t controlled,
                  const struct aw_reading *reading)
{
    const double most = log(settings->factor_max);
    const bool more_replicas =
        (controlled & AW_PLAN_REPLICAS) && reading->replicas_wanted < bounds->replicas_max;
    const bool larger =
        (controlled & AW_PLAN_CPU) && reading->cpu_millicores_wanted < bounds->cpu_millicores_max;
    if (!more_replicas && !larger)
        return;
    if (larger && (memory->size_next || !more_replicas)) {
        if (memory->size_ln <= 0)
            memory->size_millicores = reading->cpu_millicores_wanted;
        memory->size_ln = fmin(most, memory->size_ln + log(settings->size_factor));
        memory->size_next = 0;
    } else {
        memory->replicas_ln = fmin(most, memory->replicas_ln + log(settings->replicas_factor));
        memory->size_next = 1;
    }
    memory->recent = memory->since = 0;
    memory->raises++;
}

void aw_relief_observe(const struct aw_relief_settings *settings, struct aw_relief_memory *memory,
                       const struct aw_bounds *bounds, uint32_t controlled,
                       const struct aw_reading *reading, enum aw_guard_slo slo, bool acted)
{
    memory->peak_cores *= PEAK_FADE;
    if (reading->cpu_cores_used > memory->peak_cores) /* NAN is not */
        memory->peak_cores = reading->cpu_cores_used;
    memory->since += memory->since < UINT32_MAX;
    if (!settings->enabled || slo == AW_GUARD_SLO_UNKNOWN)
        return;
    if (slo == AW_GUARD_SLO_MET) {
        const double step = log(settings->replicas_factor) / settings->give_back;
        memory->replicas_ln = fmax(0, memory->replicas_ln - step);
        memory->size_ln = fmax(0, memory->size_ln - step);
    }
    memory->recent = (memory->recent << 1) | (slo == AW_GUARD_SLO_MISSED);
    const uint32_t window = settings->of < 32 ? (1u << settings->of) - 1 : UINT32_MAX;
    struct aw_plan asked = {0}; /* by the raises so far; what is not there yet is under way */
    const bool moving = reading->rollout || reading->replicas_ready < reading->replicas_wanted ||
                        aw_relief_floor(settings, memory, bounds, controlled, reading, &asked) != 0;
    const bool settled = memory->since > (moving ? SETTLED_MOST : SETTLED);
    if (acted && settled &&
        (uint32_t)__builtin_popcount(memory->recent & window) >= settings->misses)
        raise(settings, memory, bounds, controlled, reading);
}

uint32_t aw_relief_floor(const struct aw_relief_settings *settings,
                         const struct aw_relief_memory *memory, const struct aw_bounds *bounds,
                         uint32_t controlled, const struct aw_reading *reading,
                         struct aw_plan *plan)
{
    struct aw_plan all = aw_plan_of(reading->wanted);
    all = aw_plan_over(plan, &all);
    uint32_t raised = 0;
    if (!settings->enabled)
        return 0;
    if (memory->size_ln > 0 && (controlled & AW_PLAN_CPU)) {
        const double size = (double)memory->size_millicores * exp(memory->size_ln);
        const int64_t least =
            (int64_t)fmin((double)bounds->cpu_millicores_max, ceil(size / 10) * 10);
        if (all.cpu_millicores < least) {
            all.cpu_millicores = least;
            raised |= AW_PLAN_CPU;
        }
    }
    /* a size that is asked for carries nothing until it is there */
    int64_t there = reading->cpu_millicores_wanted;
    there = there > 0 && there < all.cpu_millicores ? there : all.cpu_millicores;
    if (memory->replicas_ln > 0 && there > 0 && (controlled & AW_PLAN_REPLICAS)) {
        const double cores = memory->peak_cores / settings->utilisation * exp(memory->replicas_ln);
        const double replicas = ceil(1e3 * cores / (double)there);
        const int64_t least = (int64_t)fmin((double)bounds->replicas_max, replicas);
        if (all.replicas < least) {
            all.replicas = least;
            raised |= AW_PLAN_REPLICAS;
        }
    }
    all.set = plan->set | raised;
    *plan = all;
    return raised;
}
