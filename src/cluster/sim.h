/*
 * sim.h - the simulated cluster: nodes, pods and requests in virtual time, behind cluster.h.
 *
 * Two models of the same world. The reference follows every request: arrivals, a queue and a set of
 * workers per replica, CPU shared under a CFS quota in 100 ms periods, waiting off the CPU, memory
 * per request in flight, OOM kills. The fast model takes a whole interval at once from a small
 * network that was fitted to the reference, and carries backlog between intervals. Everything else
 * (placement, image pull, readiness, rollout, restarts, metrics) is the same code in both.
 *
 * Call order: new, add workloads, then apply, advance and observe through `aw_sim_cluster`, free.
 *             add and remove at any time between advances.
 * Memory:     sized at new and add, used again after remove; advance, observe and apply do not
 *             allocate.
 * Threads:    single owner. Same seed, same bytes.
 *
 * A request that fails (no ready replica, lost in a kill, refused, timed out) counts with the
 * latency of its time-out: a controller cannot win by dropping requests.
 */
#ifndef AW_CLUSTER_SIM_H
#define AW_CLUSTER_SIM_H

#include <aware/cluster.h>

#include "base/alloc.h"
#include "base/conf.h"
#include "workload/app.h"
#include "workload/load.h"

#define AW_SIM_NODES_MAX     64u
#define AW_SIM_WORKLOADS_MAX 16384u

enum aw_sim_model { AW_SIM_FAST, AW_SIM_REFERENCE };
/* Which replica gets a request: any ready one, as kube-proxy chooses, or the one with the fewest in
 * flight, as the balancer of local.h does. */
enum aw_sim_routing { AW_SIM_RANDOM, AW_SIM_LEAST };

struct aw_sim_settings {
    uint32_t model; /* enum aw_sim_model */
    uint32_t node_count;
    double node_cores;
    double node_memory_gib;
    double image_pull_s;       /* first time on a node */
    double container_start_s;  /* every time */
    double readiness_period_s; /* a started replica is found ready at its next probe */
    double drain_s;            /* grace given to requests in flight on scale-in */
    double request_timeout_s;  /* what a client waits */
    double surge, unavailable; /* of a rollout, as shares of the replicas */
    bool in_place;             /* vertical changes need no restart */
    double backoff_s;          /* before the second restart; doubles up to backoff_max_s */
    double backoff_max_s;
    double scrape_s;       /* between readings of the metrics pipeline; 0: always fresh */
    double scrape_delay_s; /* age of a reading when it arrives */
    double metric_noise;   /* relative deviation of measured CPU use; memory is exact */
    double metric_gap;     /* share of readings that are lost */
    uint32_t routing;      /* enum aw_sim_routing */
    double overcommit_cpu; /* limits that a node takes, for each of its cores; above 1, pods share
                              cores by weight: a request is its limit over this */
    bool pending_by_priority; /* pods wait for nodes by priority, then by how long they wait, and
                                 are tried again as time passes; false: each workload for itself */
};
extern const struct aw_conf_field aw_sim_fields[];

struct aw_sim_workload {
    struct aw_app app;
    const struct aw_load *load; /* borrowed; must outlive the cluster */
    uint32_t replicas, replicas_max;
    int64_t cpu_millicores;
    int64_t memory_bytes;
};

/* What disturbs a workload from outside, until changed again. */
struct aw_sim_disturbance {
    double payload;         /* factor on the payload, 1: none */
    uint32_t families;      /* which payloads, see aw_app_demand */
    uint32_t unused;        /* 0: part of snapshots, so no byte is left to chance */
    double cpu_slowdown;    /* CPU time of a request times this: neighbours on caches and memory */
    double io_slowdown;     /* waiting times this: network or disk contention */
    double load_factor;     /* arrivals times this */
    double memory_leak_mib; /* more base memory per replica */
};
extern const struct aw_sim_disturbance aw_sim_undisturbed;

struct aw_sim; /* opaque */

AW_NODISCARD enum aw_err aw_sim_new(const struct aw_sim_settings *settings, uint64_t seed,
                                    uint32_t workloads_max, const struct aw_alloc *alloc,
                                    struct aw_sim **ret_sim, struct aw_diag *diag);
void aw_sim_free(struct aw_sim *sim);
/* Replicas start placed and ready, so that an episode does not begin with a cold start. The index
 * is that of the workload removed last, or the lowest unused one. */
AW_NODISCARD enum aw_err aw_sim_add(struct aw_sim *sim, const struct aw_sim_workload *workload,
                                    uint32_t *ret_index, struct aw_diag *diag);
/* At once and without a trace: what it had on nodes is free. Its index is free until the next add.
 * AW_ERR_NOTFOUND: no such workload; AW_ERR_UNSUPPORTED: the reference model removes nothing. */
AW_NODISCARD enum aw_err aw_sim_remove(struct aw_sim *sim, uint32_t index);
/* Of its pods that wait for a node, beside those of others; 0 until said. Survives a reset. */
void aw_sim_priority(struct aw_sim *sim, uint32_t index, int64_t priority);
struct aw_cluster aw_sim_cluster(struct aw_sim *sim);

/* Limits of all pods that are placed and not draining, summed. */
struct aw_sim_placed {
    int64_t cpu_millicores, memory_bytes;
};
/* As observe, for a million steps a second: without pods, whose limits are in `ret_placed`.
 * aw_sim_observe_pods adds them to that sample, until time passes. */
AW_NODISCARD enum aw_err aw_sim_observe(struct aw_sim *sim, uint32_t workload,
                                        struct aw_sample *ret_sample,
                                        struct aw_sim_placed *ret_placed);
void aw_sim_observe_pods(struct aw_sim *sim, uint32_t workload, struct aw_sample *sample);

/* Back to time 0 with a new seed; workload `index` gets a new application, load and start. Nothing
 * is allocated as long as replicas_max does not grow and no other workload is the same application.
 */
AW_NODISCARD enum aw_err aw_sim_reset(struct aw_sim *sim, uint64_t seed);
/* The same, but to a later time: a run whose settings changed goes on there. */
void aw_sim_reset_at(struct aw_sim *sim, uint64_t seed, int64_t now_us);
AW_NODISCARD enum aw_err aw_sim_replace(struct aw_sim *sim, uint32_t index,
                                        const struct aw_sim_workload *workload,
                                        int64_t load_offset_us);

void aw_sim_disturb(struct aw_sim *sim, uint32_t workload, const struct aw_sim_disturbance *d);
/* Share of every node's cores and memory that neighbours take. */
void aw_sim_neighbours(struct aw_sim *sim, double cpu_share, double memory_share);

/* What all nodes have that are up now: cores for limits, where they are overcommitted. */
void aw_sim_capacity(const struct aw_sim *sim, int64_t *ret_cpu_millicores,
                     int64_t *ret_memory_bytes);

/* Faults: a node goes down until `until_us`; metrics or the API fail until then. */
void aw_sim_fail_node(struct aw_sim *sim, uint32_t node, int64_t until_us);
void aw_sim_fail_metrics(struct aw_sim *sim, int64_t until_us);
void aw_sim_fail_api(struct aw_sim *sim, int64_t until_us);

/* Everything that decides the future, for oracles and exact resume: fast model only. Adding and
 * removing workloads changes their number. */
size_t aw_sim_state_bytes(const struct aw_sim *sim);
void aw_sim_state_save(const struct aw_sim *sim, void *bytes);
/* AW_ERR_FORMAT: saved with other workloads; nothing changed. */
AW_NODISCARD enum aw_err aw_sim_state_load(struct aw_sim *sim, const void *bytes);
/* For the format of a file that keeps these bytes (base/envelope.h). */
uint64_t aw_sim_layout(uint64_t hash);

/* The truth that no metric shows, for scoring: what really happened in the last advance. */
struct aw_sim_truth {
    double arrivals, completions, failures;
    double latency_us_p50, latency_us_p95, latency_us_p99, latency_us_mean; /* NAN: no request */
    double cpu_core_s, cpu_limit_core_s;     /* used, and allocated to running replicas */
    double memory_gib_s, memory_limit_gib_s; /* the same for memory */
    double throttled_share;
    double in_flight, in_flight_peak; /* at the end; highest of one replica */
    double replica_s;
    uint32_t oom_kills, restarts;
};
const struct aw_sim_truth *aw_sim_truth(const struct aw_sim *sim, uint32_t workload);

#endif
