/*
 * copy_fit.h - a simulated copy of a workload, fitted to what the workload did.
 *
 * From the figures of its steps comes what a request costs: CPU time from use over arrivals,
 * waiting, variability, parallelism and workers from how latency, requests in flight and throttling
 * went with load and size, memory from use and requests in flight, the cold start from how long new
 * replicas took. The copy then runs on the simulated cluster under the recorded load, a day in a
 * few milliseconds, so that policies can be tried on it first (AWARE section 7).
 *
 * Call order: begin, add per step, fit; the result is a plain struct.
 * Memory:     a record of fixed size; fit allocates nothing.
 * Threads:    pure functions of their arguments. Same record and seed, same copy.
 *
 * The trap: figures of one size say little of another. A copy is good near what was tried, and a
 * policy that leaves it must be watched; what it then sees makes the next copy better.
 */
#ifndef AW_REHEARSAL_COPY_FIT_H
#define AW_REHEARSAL_COPY_FIT_H

#include "base/rng.h"
#include "task/reading.h"
#include "workload/app.h"

#define AW_COPY_BINS_MAX 64u
#define AW_COPY_BINS_MIN 1u /* with latencies; below it there is nothing to fit to */

/* Steps of about one size of a replica and about one load of it. In float: thousands of workloads
 * have one, and what is measured has three digits. */
struct aw_copy_bin {
    float cores;      /* of a replica */
    float rate_per_s; /* of a replica, mean */
    float weight;     /* steps, faded */
    float log_slo;    /* mean of ln(us), of the latency that the SLO speaks of */
    float log_p50;
    float mean_us;
    float throttled;      /* share of periods, mean */
    float requests_per_s; /* of all replicas, mean: a tail of a few requests says little */
    float latency_rows;   /* weight of those that had a latency */
};

/* What has been seen, in bins that fade. No padding: it is part of snapshots. */
struct aw_copy_record {
    struct aw_copy_bin bin[AW_COPY_BINS_MAX];
    double cores_used, arrivals, cpu_steps; /* sums that fade */
    double memory_n, memory_x, memory_y, memory_xx,
        memory_xy;                /* bytes against in flight, likewise */
    double memory_low;            /* lowest mean seen, bytes; 0: none */
    double start_us, start_count; /* from container start to ready, sums */
    double last_cores;            /* of a replica, when last a latency was taken in */
    double unsettled;             /* steps until a backlog is believed to be gone */
    /* sums of how far steps are off what was known, beyond what chance is allowed; see
     * copy_fit.c */
    double cpu_above, cpu_below, latency_above, latency_below;
    int64_t seen_us; /* time of the last sample */
    uint32_t bin_count;
    uint32_t steps;
};

void aw_copy_begin(struct aw_copy_record *record);
/* One sample after another, with its reading. Steps in a rollout, after a change or with missing
 * figures teach what they can and no more. True: requests are no longer what they were, and all
 * that was known has been forgotten. */
bool aw_copy_add(struct aw_copy_record *record, const struct aw_sample *sample,
                 const struct aw_reading *reading);

/* The workload has changed: what was seen counts `share` of what it did. */
void aw_copy_doubt(struct aw_copy_record *record, double share);

struct aw_copy_fit {
    struct aw_app app;        /* one segment */
    double quantile;          /* of the SLO */
    double bias;              /* mean ln of measured over the copy's, at it and at recent sizes */
    double error;             /* weighted mean of |ln copy - ln measured| of latencies; 0: none */
    double capacity_per_core; /* requests/s */
};
/* `slo_quantile` is the one that the readings of the record were taken at. AW_ERR_NODATA: too
 * little was seen; `ret` is untouched then. Different seeds give copies that agree where the record
 * speaks and differ where it does not. */
AW_NODISCARD enum aw_err aw_copy_fit(const struct aw_copy_record *record, double slo_quantile,
                                     uint64_t seed, struct aw_copy_fit *ret);
/* The latency, at the fit's quantile, that the copy would show with `plan` in force; INFINITY: it
 * is overloaded. */
double aw_copy_latency_us(const struct aw_copy_fit *fit, const struct aw_plan *plan,
                          double arrivals_per_s);

#endif
