/* reading.c - each figure is believed or not, once; limits are summed over what is placed. */
#include "task/reading.h"

#include <math.h>

#define VALUE_MAX 1e15 /* a pebibyte, thirty years: no figure of a workload can be beyond it */
#define LIMIT_MAX \
    ((int64_t)1 << 50) /* of a pod, in millicores or bytes: AW_CLUSTER_PODS_MAX add up */

uint32_t aw_latency_index(double quantile)
{
    if (!(quantile > 0) || quantile >= 0.97)
        return 2;
    return quantile < 0.9 ? 0 : 1;
}

/* The earliest time that is not stale at `at_us`. Never itself is always stale. */
static int64_t oldest_believed(int64_t at_us, int64_t stale_us)
{
    int64_t oldest;
    if (__builtin_sub_overflow(at_us, stale_us, &oldest) || oldest == AW_NEVER)
        return AW_NEVER + 1;
    return oldest;
}

static double value(const struct aw_figure *figure, int64_t oldest_us)
{
    bool usable = figure->at_us >= oldest_us && figure->value >= 0 && figure->value < VALUE_MAX;
    return usable ? figure->value : (double)NAN;
}

/* Of the oldest of those that everything hangs on; a clock that is ahead of ours makes it 0. */
static double age_s(const struct aw_sample *sample, const struct aw_reading *reading)
{
    if (isnan(reading->cpu_cores_used) || isnan(reading->memory_bytes_used) ||
        isnan(reading->arrivals_per_s))
        return INFINITY;
    int64_t oldest = sample->cpu_cores_used.at_us;
    if (sample->memory_bytes_used.at_us < oldest)
        oldest = sample->memory_bytes_used.at_us;
    if (sample->arrivals_per_s.at_us < oldest)
        oldest = sample->arrivals_per_s.at_us;
    /* in double: the difference of two times from outside may not fit */
    double age = ((double)sample->at_us - (double)oldest) * 1e-6;
    return age > 0 ? age : 0;
}

static double ratio(double used, double allocated)
{
    if (isnan(used) || !(allocated > 0))
        return NAN;
    return used < allocated ? used / allocated : 1;
}

static int64_t believed(int64_t limit)
{
    return limit > 0 && limit <= LIMIT_MAX ? limit : 0;
}

/* What is wanted stands for what is there. */
static double allocation_wanted(const struct aw_sample *sample, uint32_t resource)
{
    const double placed = (double)sample->replicas_ready + sample->replicas_starting;
    return (double)believed(sample->wanted[resource]) * placed;
}

static void allocation(const struct aw_sample *sample, struct aw_reading *reading)
{
    const uint32_t count =
        sample->pod_count < AW_CLUSTER_PODS_MAX ? sample->pod_count : AW_CLUSTER_PODS_MAX;
    int64_t sum[AW_RESOURCES] = {0};
    for (uint32_t i = 0; i < count && sample->pods; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        const bool placed = pod->phase == AW_POD_RUNNING || pod->phase == AW_POD_STARTING;
        for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
            sum[r] += placed ? believed(pod->size[r]) : 0;
    }
    /* a backend that shows no pods, or not this of them */
    const uint32_t shown = count > 0 && sample->pods ? AW_PLAN_COMMON : 0;
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        reading->allocated[r] =
            sum[r] > 0 || shown & AW_PLAN_BIT(r) ? (double)sum[r] : allocation_wanted(sample, r);
}

/* Everything but what is allocated, and what hangs on it. */
static void take(const struct aw_sample *sample, int64_t stale_us, double slo_quantile,
                 struct aw_reading *ret_reading)
{
    const struct aw_figure *const latency[] = {&sample->latency_us_p50, &sample->latency_us_p95,
                                               &sample->latency_us_p99};
    const int64_t oldest = oldest_believed(sample->at_us, stale_us);
#define FIGURE(name) .name = value(&sample->name, oldest)
    *ret_reading = (struct aw_reading){
        .at_us = sample->at_us,
#define X(id, member, ...) .member##_wanted = sample->member##_wanted,
        AW_RESOURCE_MAP(X)
#undef X
            .replicas_ready = sample->replicas_ready,
        .replicas_pending = sample->replicas_pending,
        .rollout = sample->rollout,
        FIGURE(cpu_cores_used),
        FIGURE(memory_bytes_used),
        FIGURE(memory_bytes_peak),
        FIGURE(throttled_share),
        FIGURE(disk_bytes_per_s),
        FIGURE(net_bytes_per_s),
        FIGURE(arrivals_per_s),
        FIGURE(completions_per_s),
        FIGURE(errors_per_s),
        FIGURE(in_flight),
        .latency_us_slo = value(latency[aw_latency_index(slo_quantile)], oldest),
        .oom_kills = sample->oom_kills,
    };
#undef FIGURE
}

static void relate(const struct aw_sample *sample, struct aw_reading *reading)
{
    reading->cpu_utilisation =
        ratio(reading->cpu_cores_used, 1e-3 * reading->allocated[AW_RESOURCE_CPU]);
    reading->memory_utilisation =
        ratio(reading->memory_bytes_used * (double)reading->replicas_ready,
              reading->allocated[AW_RESOURCE_MEMORY]);
    reading->age_s = age_s(sample, reading);
}

void aw_reading_take(const struct aw_sample *sample, int64_t stale_us, double slo_quantile,
                     struct aw_reading *ret_reading)
{
    take(sample, stale_us, slo_quantile, ret_reading);
    allocation(sample, ret_reading);
    relate(sample, ret_reading);
}

void aw_reading_take_placed(const struct aw_sample *sample, int64_t stale_us, double slo_quantile,
                            int64_t cpu_millicores, int64_t memory_bytes,
                            struct aw_reading *ret_reading)
{
    take(sample, stale_us, slo_quantile, ret_reading);
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        ret_reading->allocated[r] = allocation_wanted(sample, r);
    ret_reading->allocated[AW_RESOURCE_CPU] = (double)cpu_millicores;
    ret_reading->allocated[AW_RESOURCE_MEMORY] = (double)memory_bytes;
    relate(sample, ret_reading);
}
