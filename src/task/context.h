/*
 * context.h - what kind of workload this is, as a few numbers, from the first steps of anybody's
 * control.
 *
 * Ratios and logarithms alone, so that workloads of different sizes can be compared: what a request
 * costs beside its SLO, how even the load is, how latency grows with utilisation. Sums are kept, no
 * steps; numbers that nothing tells of are NAN, and comparing leaves them out.
 *
 * Call order: begin; add once per step, in order of time; read whenever enough was seen.
 * Memory:     a plain struct without padding: it is part of snapshots.
 * Threads:    pure functions of their arguments.
 */
#ifndef AW_TASK_CONTEXT_H
#define AW_TASK_CONTEXT_H

#include "task/objective.h"
#include "task/reading.h"

/* clang-format off */
/*     id              meaning */
#define AW_CONTEXT_MAP(X)                                                                          \
    X(REQUEST_CPU,    "CPU of a request over the SLO's latency, ln")                               \
    X(CORES,          "cores that the mean load needs, ln")                                        \
    X(SPREAD,         "deviation of the load over its mean, ln")                                   \
    X(PEAK,           "highest load over the mean, ln")                                            \
    X(SWING,          "change of the load from minute to minute, of its mean")                     \
    X(IDLE,           "share of steps without load")                                               \
    X(USED,           "CPU utilisation")                                                           \
    X(USED_SPREAD,    "its deviation")                                                             \
    X(THROTTLED,      "share of periods that were throttled")                                      \
    X(MEDIAN,         "median latency over the SLO's, ln")                                         \
    X(LATENCY,        "latency at the SLO's quantile over the SLO, ln")                            \
    X(LATENCY_SPREAD, "its deviation")                                                             \
    X(LATENCY_BEST,   "the lowest of it")                                                          \
    X(LATENCY_SLOPE,  "its rise with utilisation")                                                 \
    X(MISSED,         "share of steps that missed the SLO")                                        \
    X(FLIGHT,         "requests in flight per core in use, ln")                                    \
    X(MEMORY,         "memory of a replica in GiB, ln")                                            \
    X(MEMORY_PEAK,    "its peak over its mean, ln")                                                \
    X(SIZE,           "cores of a replica, ln")                                                    \
    X(ERRORS,         "share of requests that failed")
/* clang-format on */
enum aw_context_number {
#define X(id, meaning) AW_CONTEXT_##id,
    AW_CONTEXT_MAP(X)
#undef X
        AW_CONTEXT_DIM
};
extern const char *const aw_context_meaning[AW_CONTEXT_DIM];

struct aw_context_memory {
    double cores, completions, arrivals, arrivals_square, arrivals_high;
    double swing, swing_last, swing_sum; /* of whole minutes */
    double utilisation, utilisation_square, throttled;
    double median, latency, latency_square, latency_low, latency_utilisation;
    double fit_utilisation, fit_utilisation_square; /* of the steps that have a latency */
    double flight, memory, memory_peak, size, errors;
    uint32_t steps, loaded, minutes, swings, idle, missed;
    uint32_t used, throttles, medians, latencies, memories, flights, replies, unused_;
};
#define AW_CONTEXT_MEMORY(at)                                                                 \
    at cores, at completions, at arrivals, at arrivals_square, at arrivals_high, at swing,    \
        at swing_last, at swing_sum, at utilisation, at utilisation_square, at throttled,     \
        at median, at latency, at latency_square, at latency_low, at latency_utilisation,     \
        at fit_utilisation, at fit_utilisation_square, at flight, at memory, at memory_peak,  \
        at size, at errors, at steps, at loaded, at minutes, at swings, at idle, at missed,   \
        at used, at throttles, at medians, at latencies, at memories, at flights, at replies, \
        at unused_

void aw_context_begin(struct aw_context_memory *memory);
/* `latency_us_p50` may be NAN. A step whose load nobody knows tells nothing. */
void aw_context_add(struct aw_context_memory *memory, const struct aw_reading *reading,
                    double latency_us_p50, const struct aw_slo *slo, bool violated, double step_s);
/* False: nothing was served yet, and `ret` is untouched. */
bool aw_context_read(const struct aw_context_memory *memory, const struct aw_slo *slo,
                     float ret[AW_CONTEXT_DIM]);

#endif
