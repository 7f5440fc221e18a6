/* step.c - one step of any loop. */
#include "safety/step.h"

#include <math.h>

void aw_step_times(struct aw_step_rules *rules, double step_s, double stale_s)
{
    rules->step_s = step_s;
    rules->step_us = (int64_t)llround(step_s * 1e6);
    rules->stale_us = (int64_t)llround(stale_s * 1e6);
}

void aw_step_score(const struct aw_step_rules *rules, const struct aw_reading *reading,
                   struct aw_score *ret)
{
    const struct aw_outcome outcome = aw_outcome_of(reading);
    aw_objective_score(&rules->objective, &outcome, rules->step_s, ret);
}

enum aw_err aw_step_look(const struct aw_step_rules *rules, const struct aw_cluster *cluster,
                         uint32_t workload, struct aw_step_seen *ret)
{
    const enum aw_err err = cluster->ops->observe(cluster->self, workload, INT64_MAX, &ret->sample);
    if (err)
        return err;
    aw_reading_take(&ret->sample, rules->stale_us, rules->objective.slo.quantile, &ret->reading);
    aw_step_score(rules, &ret->reading, &ret->score);
    return AW_OK;
}

/* Without requests there is nothing to miss; with some, each figure of the SLO counts. */
static bool slo_known(const struct aw_slo *slo, const struct aw_reading *reading)
{
    if (!(reading->arrivals_per_s > 0))
        return !isnan(reading->arrivals_per_s);
    return !(slo->latency_us_p99 > 0 && isnan(reading->latency_us_slo)) &&
           !(slo->throughput_per_s > 0 && isnan(reading->completions_per_s));
}

enum aw_guard_slo aw_step_slo(const struct aw_step_rules *rules, const struct aw_reading *reading,
                              const struct aw_score *score)
{
    const struct aw_slo *slo = &rules->objective.slo;
    if (slo->latency_us_p99 <= 0 && slo->throughput_per_s <= 0)
        return AW_GUARD_SLO_MET;
    if (score->violated)
        return AW_GUARD_SLO_MISSED;
    return slo_known(slo, reading) ? AW_GUARD_SLO_MET : AW_GUARD_SLO_UNKNOWN;
}

struct aw_guard_input aw_step_input(const struct aw_step_rules *rules,
                                    const struct aw_reading *reading, enum aw_guard_slo slo,
                                    uint32_t restarts)
{
    return (struct aw_guard_input){.reading = reading,
                                   .restarts = restarts,
                                   .uncontrolled = AW_PLAN_ALL & ~rules->controlled,
                                   .slo = slo,
                                   .in_place = rules->in_place,
                                   .node = rules->node};
}

void aw_step_pass(const struct aw_step_rules *rules, const struct aw_guard_memory *memory,
                  const struct aw_guard_input *input, const struct aw_plan *proposed,
                  int64_t now_us, struct aw_guard_result *ret)
{
    struct aw_plan ours = *proposed;
    ours.set &= rules->controlled;
    aw_guard_pass(&rules->guard, memory, input, &ours, now_us, ret);
}

enum aw_err aw_step_act(const struct aw_step_rules *rules, struct aw_guard_memory *memory,
                        const struct aw_cluster *cluster, uint32_t workload,
                        const struct aw_guard_input *input, const struct aw_plan *proposed,
                        struct aw_guard_result *ret)
{
    const int64_t now_us = cluster->ops->now_us(cluster->self);
    if (memory) {
        aw_guard_observe(&rules->guard, memory, input, now_us);
        aw_step_pass(rules, memory, input, proposed, now_us, ret);
    } else {
        *ret = (struct aw_guard_result){.proposed = *proposed, .plan = *proposed};
    }
    if (!ret->plan.set)
        return AW_OK;
    const enum aw_err err = cluster->ops->apply(cluster->self, workload, &ret->plan, INT64_MAX);
    if (!err && memory)
        aw_guard_applied(&rules->guard, memory, &ret->plan, now_us);
    return err && aw_err_transient(err) ? AW_OK : err;
}

enum aw_err aw_step_advance(const struct aw_step_rules *rules, const struct aw_cluster *cluster)
{
    return cluster->ops->advance(cluster->self,
                                 cluster->ops->now_us(cluster->self) + rules->step_us);
}
