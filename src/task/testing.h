/* testing.h - samples and readings for the tests of this folder; included by tests alone. */
#ifndef AW_TASK_TESTING_H
#define AW_TASK_TESTING_H

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"
#include "base/units.h"
#include "task/bounds.h"
#include "task/reading.h"

static const struct aw_bounds aw_testing_bounds = {
    .replicas_min = 1,
    .replicas_max = 20,
    .cpu_millicores_min = 100,
    .cpu_millicores_max = 4000,
    .memory_bytes_min = 64 * AW_MIB,
    .memory_bytes_max = 8192 * AW_MIB,
};

/* A quiet minute of four replicas of 1 core and 512 MiB, half used. */
static inline struct aw_sample aw_testing_sample(int64_t at_us)
{
#define FIGURE(x) \
    {             \
        x, at_us  \
    }
    return (struct aw_sample){
        .at_us = at_us,
        .replicas_wanted = 4,
        .cpu_millicores_wanted = 1000,
        .memory_bytes_wanted = 512 * AW_MIB,
        .replicas_ready = 4,
        .cpu_cores_used = FIGURE(2),
        .memory_bytes_used = FIGURE(256 * (double)AW_MIB),
        .memory_bytes_peak = FIGURE(300 * (double)AW_MIB),
        .throttled_share = FIGURE(0.1),
        .disk_bytes_per_s = FIGURE(1e6),
        .net_bytes_per_s = FIGURE(2e6),
        .arrivals_per_s = FIGURE(100),
        .completions_per_s = FIGURE(100),
        .errors_per_s = FIGURE(0),
        .in_flight = FIGURE(8),
        .latency_us_p50 = FIGURE(2e4),
        .latency_us_p95 = FIGURE(6e4),
        .latency_us_p99 = FIGURE(9e4),
        .latency_us_mean = FIGURE(2.5e4),
        .inside_us_p50.at_us = AW_NEVER,
        .inside_us_p99.at_us = AW_NEVER,
    };
#undef FIGURE
}

static inline struct aw_reading aw_testing_reading(int64_t at_us)
{
    struct aw_sample sample = aw_testing_sample(at_us);
    struct aw_reading reading;
    aw_reading_take(&sample, INT64_MAX, 0.99, &reading);
    return reading;
}

/* Any bits at all, with the special values that random bits rarely are. */
static inline double aw_testing_garbage(struct aw_rng *rng)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0, -0.0, -1, 1e308, 1e-308, 1};
    const uint32_t count = sizeof special / sizeof special[0];
    uint64_t bits = aw_rng_u64(rng);
    uint32_t choice = aw_rng_below(rng, 2 * count);
    double value;
    memcpy(&value, &bits, sizeof value);
    return choice < count ? special[choice] : value;
}

/* A sample of garbage; its pods are `pods`. */
static inline struct aw_sample aw_testing_sample_garbage(struct aw_rng *rng, struct aw_pod *pods,
                                                         uint32_t pod_count)
{
    static const int64_t times[] = {AW_NEVER, AW_NEVER + 1, -1, 0, 1, 1000000, INT64_MAX};
    struct aw_sample sample;
    unsigned char *bytes = (unsigned char *)&sample;
    for (size_t i = 0; i < sizeof sample; i++)
        bytes[i] = (unsigned char)aw_rng_u64(rng);
    sample.rollout = aw_rng_below(rng, 2);
    struct aw_figure *figures = &sample.cpu_cores_used;
    for (uint32_t i = 0; i < 14; i++)
        figures[i] = (struct aw_figure){aw_testing_garbage(rng), times[aw_rng_below(rng, 7)]};
    if (aw_rng_below(rng, 2))
        sample.at_us = times[aw_rng_below(rng, 7)];
    for (uint32_t i = 0; i < pod_count; i++)
        pods[i] = (struct aw_pod){.phase = aw_rng_below(rng, 4),
                                  .cpu_millicores = (int64_t)aw_rng_u64(rng),
                                  .memory_bytes = (int64_t)aw_rng_u64(rng)};
    sample.pods = pods;
    sample.pod_count = aw_rng_below(rng, pod_count + 1);
    return sample;
}

#endif
