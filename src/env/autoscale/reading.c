/* reading.c - each figure is believed or not, once; limits are summed over what is placed. */
#include "env/autoscale/reading.h"

#include <math.h>

/* The difference of two times from outside may not fit; what does not is as good as never. */
static int64_t age_us(const struct aw_figure *figure, int64_t at_us)
{
    int64_t age;
    if (figure->at_us == AW_NEVER || __builtin_sub_overflow(at_us, figure->at_us, &age))
        return INT64_MAX;
    return age > 0 ? age : 0; /* clocks of two machines may differ a little */
}

static double value(const struct aw_figure *figure, int64_t at_us, int64_t stale_us)
{
    bool usable = age_us(figure, at_us) <= stale_us && figure->value >= 0 && figure->value < 1e300;
    return usable ? figure->value : (double)NAN;
}

static double age_s(const struct aw_figure *figure, double value, int64_t at_us)
{
    return isnan(value) ? (double)INFINITY : (double)age_us(figure, at_us) * 1e-6;
}

static double ratio(double used, double allocated)
{
    if (isnan(used) || !(allocated > 0))
        return NAN;
    return used < allocated ? used / allocated : 1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* A backend that shows no pods: what is wanted stands for what is there. */
static void allocation_wanted(const struct aw_sample *sample, struct aw_reading *reading)
{
    uint32_t placed = sample->replicas_ready + sample->replicas_starting;
    reading->cores_allocated = 1e-3 * (double)reading->cpu_millicores_wanted * placed;
    reading->memory_bytes_allocated = (double)reading->memory_bytes_wanted * placed;
}

static void allocation(const struct aw_sample *sample, struct aw_reading *reading)
{
    if (sample->pod_count == 0 || !sample->pods) {
        allocation_wanted(sample, reading);
        return;
    }
    double millicores = 0, bytes = 0;
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        bool placed = pod->phase == AW_POD_RUNNING || pod->phase == AW_POD_STARTING;
        millicores += placed && pod->cpu_millicores > 0 ? (double)pod->cpu_millicores : 0;
        bytes += placed && pod->memory_bytes > 0 ? (double)pod->memory_bytes : 0;
    }
    reading->cores_allocated = 1e-3 * millicores;
    reading->memory_bytes_allocated = bytes;
}

void aw_reading_take(const struct aw_sample *sample, int64_t stale_us,
                     struct aw_reading *ret_reading)
{
    const int64_t at = sample->at_us;
#define FIGURE(name) .name = value(&sample->name, at, stale_us)
    struct aw_reading reading = {
        .at_us = at,
        .replicas_wanted = sample->replicas_wanted,
        .cpu_millicores_wanted = sample->cpu_millicores_wanted,
        .memory_bytes_wanted = sample->memory_bytes_wanted,
        .replicas_ready = sample->replicas_ready,
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
        FIGURE(latency_us_p99),
        .oom_kills = sample->oom_kills,
    };
#undef FIGURE
    allocation(sample, &reading);
    reading.cpu_utilisation = ratio(reading.cpu_cores_used, reading.cores_allocated);
    reading.memory_utilisation =
        ratio(reading.memory_bytes_used * reading.replicas_ready, reading.memory_bytes_allocated);
    reading.age_s = larger(age_s(&sample->cpu_cores_used, reading.cpu_cores_used, at),
                           age_s(&sample->memory_bytes_used, reading.memory_bytes_used, at));
    reading.age_s =
        larger(reading.age_s, age_s(&sample->arrivals_per_s, reading.arrivals_per_s, at));
    *ret_reading = reading;
}
