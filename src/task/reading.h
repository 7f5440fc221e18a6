/*
 * reading.h - a cluster's sample as plain numbers that have passed the wall.
 *
 * What comes from a cluster may be missing, stale, negative or not a number. Here each figure is
 * looked at once: what cannot be believed is NAN from then on, and no code behind this wall reads a
 * figure's time again. State, action and objective all work on a reading.
 *
 * Memory:  plain structs.
 * Threads: pure functions of their arguments.
 *
 * The trap: NAN means that a figure is unknown. Compare so that it falls on the side that shrinks
 * nothing and counts no violation.
 */
#ifndef AW_TASK_READING_H
#define AW_TASK_READING_H

#include <aware/cluster.h>

/* No padding: it is part of snapshots. */
struct aw_reading {
    int64_t at_us;

    AW_AMOUNTS(wanted, _wanted); /* the last plan; 0: unknown */

    /* there */
    int64_t replicas_ready;
    int64_t replicas_pending; /* that no node has room for: they serve nobody and cost nothing */
    double allocated[AW_RESOURCES]; /* sums of the sizes of all that is placed, ready or not */

    /* measured over the last step; NAN: missing, stale or absurd */
    double cpu_cores_used; /* sum */
    double memory_bytes_used, memory_bytes_peak;
    double throttled_share;
    double disk_bytes_per_s, net_bytes_per_s;
    double arrivals_per_s, completions_per_s, errors_per_s;
    double in_flight;
    double latency_us_slo;                      /* at the quantile that the SLO speaks of */
    double cpu_utilisation, memory_utilisation; /* used / allocated, in [0, 1] */
    double age_s; /* of the oldest of CPU, memory and arrivals; INFINITY: one is missing */

    uint32_t oom_kills; /* since the reading before */
    uint32_t rollout;   /* 1: a vertical change is being rolled out */
};
#define AW_READING(at)                                                                            \
    at at_us, at wanted, at replicas_ready, at replicas_pending, at allocated, at cpu_cores_used, \
        at memory_bytes_used, at memory_bytes_peak, at throttled_share, at disk_bytes_per_s,      \
        at net_bytes_per_s, at arrivals_per_s, at completions_per_s, at errors_per_s,             \
        at in_flight, at latency_us_slo, at cpu_utilisation, at memory_utilisation, at age_s,     \
        at oom_kills, at rollout

/* Which of the latencies that there are a quantile means: 0 the median, 1 the 95th percentile, 2
 * the 99th, which 0 stands for too. */
uint32_t aw_latency_index(double quantile);

/* `stale_us`: a figure older than this at the time of the sample is missing. `slo_quantile`: of the
 * latencies, which one is read. */
void aw_reading_take(const struct aw_sample *sample, int64_t stale_us, double slo_quantile,
                     struct aw_reading *ret_reading);
/* The same where the limits of all that is placed have been summed already, and the sample's pods
 * do not count. */
void aw_reading_take_placed(const struct aw_sample *sample, int64_t stale_us, double slo_quantile,
                            int64_t cpu_millicores, int64_t memory_bytes,
                            struct aw_reading *ret_reading);

#endif
