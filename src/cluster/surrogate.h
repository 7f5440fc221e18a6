/*
 * surrogate.h - what one replica does in steady state, from a small network fitted to the
 * reference.
 *
 * Input is what decides the queue of a replica: its demand, its cores, the rate of requests. Output
 * are latency quantiles and a few figures more, each relative to a plain formula, so the network
 * only learns what the formula misses. It is fitted by `aware simulate fit-surrogate` on random
 * applications and settings run through the reference, and shipped inside the program.
 *
 * Memory:  a surrogate is one block of weights, read-only after load.
 * Threads: eval is pure.
 */
#ifndef AW_CLUSTER_SURROGATE_H
#define AW_CLUSTER_SURROGATE_H

#include "base/alloc.h"
#include "workload/app.h"

#define AW_SURROGATE_INPUTS  13u
#define AW_SURROGATE_OUTPUTS 7u
#define AW_SURROGATE_HIDDEN  32u
#define AW_SURROGATE_WIDTH   8u /* the outputs, padded to a whole vector */
/* Beyond this share of the capacity there is no steady state worth the name: backlog takes over. */
#define AW_SURROGATE_LOAD_MAX 0.97
/* A window over which peaks and spreads are meant. */
#define AW_SURROGATE_WINDOW_S 15.0

/* One replica's conditions. */
struct aw_replica {
    struct aw_demand demand;
    double cores;
    double rate_per_s;
};

/* Milliseconds that a request needs when it is alone, on average. */
double aw_replica_alone_ms(const struct aw_demand *demand, double cores);
/* Requests/s that a replica can finish at most: its quota or its workers, whichever ends first. */
double aw_replica_capacity(const struct aw_demand *demand, double cores);

/* Its steady state. */
struct aw_steady {
    double mean_us, p50_us, p95_us, p99_us;
    double throttled_share;
    double in_flight;      /* mean */
    double in_flight_peak; /* highest in a window, expected */
    double p99_spread;     /* deviation of ln p99 from window to window, this replica alone */
};

/* The network's view of a replica, and its answer turned into figures and back; used by eval and by
 * calibration, so the two cannot disagree. */
void aw_surrogate_inputs(const struct aw_replica *replica, float *inputs);
void aw_surrogate_decode(const struct aw_replica *replica, const float *outputs,
                         struct aw_steady *ret_steady);
void aw_surrogate_encode(const struct aw_replica *replica, const struct aw_steady *steady,
                         float *outputs);

/* What the network makes of a demand, before it knows cores and rate: to be found once where many
 * settings of one demand are asked for. No padding: it is part of snapshots. */
struct aw_surrogate_known {
    double io_ms, cpu_ms, parallelism;
    double threads;
    double capacity_threads, capacity_core; /* requests/s of the workers, and of a core */
    float sum[AW_SURROGATE_HIDDEN];         /* of the first layer, so far */
    float log_cpu;                          /* an input that another one takes part in */
    float unused;                           /* 0 */
};
void aw_surrogate_know(const struct aw_demand *demand, struct aw_surrogate_known *ret_known);
double aw_surrogate_capacity(const struct aw_surrogate_known *known, double cores);
void aw_surrogate_eval_known(const struct aw_surrogate_known *known, double cores,
                             double rate_per_s, struct aw_steady *ret_steady);

/* The steady state at a rate of at most AW_SURROGATE_LOAD_MAX of the capacity. */
void aw_surrogate_eval(const struct aw_replica *replica, struct aw_steady *ret_steady);

/* One calibration sample: a random application, payload, size and rate, measured by following
 * `request_count` requests after a warm-up. Same seed and index, same sample. */
AW_NODISCARD enum aw_err aw_surrogate_sample(uint64_t seed, uint32_t index, uint32_t request_count,
                                             struct aw_replica *ret_replica,
                                             struct aw_steady *ret_steady, struct aw_diag *diag);

#endif
