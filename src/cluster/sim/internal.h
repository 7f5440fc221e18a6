/*
 * internal.h - the simulated world as data: nodes, pods, workloads; and which file works on what.
 *
 *   world.c      pods come and go: placement, start, rollout, restart, scale-in, faults
 *   placing.c    which nodes get the pods
 *   together.c   pods that have shared everything so far, as one
 *   contention.c what the pods of a node leave each other where its limits exceed its cores
 *   reference.c  every request, between two changes of the world
 *   fast.c       a whole interval at once, between two changes of the world
 *   mixture.c    latencies of a step from those of its intervals
 *   metrics.c    what a monitoring pipeline makes of it
 *   sim.c        time, and the cluster contract
 *
 * Time is microseconds in double: exact to 2 nanoseconds for a hundred virtual days. Mutable state
 * is without pointers, one block and the pods of each workload, so a snapshot is a copy.
 */
#ifndef AW_CLUSTER_SIM_INTERNAL_H
#define AW_CLUSTER_SIM_INTERNAL_H

#include "cluster/sim.h"
#include "cluster/surrogate.h"

#include <math.h>
#include <string.h>

#define AW__NEVER_US  INFINITY
#define AW__NO_NODE   UINT32_MAX
#define AW__NO_INDEX  UINT32_MAX
#define AW__PERIOD_US 100000.0 /* cpu.cfs_period_us, the kernel's default */
/* Pods of so many workloads are one block, too small to ask for huge pages (base/alloc.c): only the
 * first places of each workload are used, and small pages that nobody touches cost nothing. */
#define AW__PIECE        32u
#define AW__PIECE_PLACES 256u

/* A snapshot is a copy of the state and is compared by bytes: nothing here may have padding, and
 * layout.c names every member. */

enum aw__phase {
    AW__POD_NONE,     /* a free place */
    AW__POD_PENDING,  /* no node has room */
    AW__POD_STARTING, /* on a node, serves from ready_us on */
    AW__POD_READY,
    AW__POD_DRAINING, /* gets nothing new, gone at until_us or when idle */
    AW__POD_BACKOFF,  /* killed, starts again at until_us */
    AW__POD_LOST,     /* its node is down, replaced at until_us */
    AW__PHASES
};

/* A pod, or `count` of them that were made together and have shared everything since: all figures
 * are those of each. They have the ids from `id` on, and part when their ways do (together.c). The
 * reference model has each pod by itself. */
struct aw__pod {
    uint32_t id;
    uint32_t count;
    uint32_t revision;
    enum aw__phase phase;
    double cores, memory_mib; /* its limits */
    /* Factor on the base memory of each very process: mean and most of them, from the first time on
     * that they serve. Of those that part to leave, still the one of all. */
    double memory_noise, memory_noise_high;
    double started_us, ready_us, until_us;
    double ready_change_us;
    double stable_since_us; /* of the restart back-off */
    uint32_t restarts, oom_kills;
    uint32_t crashes;                   /* in a row; what the back-off counts */
    uint32_t node;                      /* of the first of them; AW__NO_NODE while pending */
    uint16_t on_node[AW_SIM_NODES_MAX]; /* how many of them are on each */

    /* Measured since the last reading. */
    double cpu_core_us;
    double memory_mib_us; /* integral of use over time; mean of them */
    double running_us;

    /* Last reading, of the metrics pipeline. */
    double read_cpu_cores, read_memory_mib;
    double read_us;      /* AW__NEVER_US negated: none yet */
    uint64_t read_noise; /* key of what each one's reading is wrong by */

    double backlog; /* fast model: requests beyond the steady state */
};
_Static_assert(AW_CLUSTER_PODS_MAX <= UINT16_MAX, "of a workload on a node: sixteen bits");

/* Nodes, which are alike. Those beyond node_count have everything taken. */
struct aw__nodes {
    double cores_taken[AW_SIM_NODES_MAX], memory_taken_mib[AW_SIM_NODES_MAX]; /* by pods */
    double down_until_us[AW_SIM_NODES_MAX]; /* in the past: it is up */
};

/* Sums over an interval, from which both the truth and the metrics are made. */
struct aw__sums {
    double span_us;
    double arrivals, completions, failures;
    double cpu_core_us, cpu_limit_core_us;
    double memory_mib_us, memory_limit_mib_us;
    double throttled_us, running_us; /* of CFS periods, over ready replicas */
    double replica_us;
    double in_flight_peak;
    double memory_peak_mib;
    double disk_kib, net_kib;
    uint32_t oom_kills, restarts;
};

/* All zero. To begin anew with a copy of it is quicker than with {0}: compilers clear structs of
 * this size by an instruction that takes longer to begin than the copy. */
extern const struct aw__sums aw__sums_none;

/* Fast model: the step's latencies as a few parts, each with its own spread. */
#define AW__MIXTURE_PARTS 8u
struct aw__mixture {
    uint32_t count, unused;
    double failures;
    double weight_sum, mean_sum_us;  /* requests, and their latencies */
    double spread;                   /* of ln p99 of one replica's window */
    float weight[AW__MIXTURE_PARTS]; /* requests */
    float p50_us[AW__MIXTURE_PARTS], p95_us[AW__MIXTURE_PARTS], p99_us[AW__MIXTURE_PARTS];
};

struct aw__workload {
    /* wanted; no replicas: the index is free */
    uint32_t replicas, revision;
    double cores, memory_mib;

    uint32_t place_end; /* places beyond it are free; a pod keeps its place for life */
    uint32_t next_id;
    double next_event_us; /* of its pods: ready, until */
    double load_offset_us;
    struct aw_rng rng;
    uint64_t memory_key; /* of what is particular to each process */
    struct aw_sim_disturbance disturbance;
    struct aw_demand demand;         /* at the present payload, slowdowns included */
    struct aw_surrogate_known known; /* of it */
    struct aw__sums sums;            /* since the last reading */
    struct aw__sums step;            /* since advance began */
    struct aw_sim_truth truth;
    struct aw__mixture mixture; /* fast model: latencies of the step */
    struct aw__sums reading;    /* the last one */
    struct aw_sim_truth reading_truth;
    double reading_us;
    uint32_t oom_seen, restarts_seen; /* told by the last observe */
    uint32_t oom_total, restarts_total;
    double in_flight;
    uint64_t reported; /* true from the first reading on */
    uint64_t images;   /* a bit for each node that has its image */
};
_Static_assert(AW_SIM_NODES_MAX <= 64, "nodes are the bits of a word");

/* Everything that decides the future. Followed in the same block by nodes and workloads. */
struct aw__world {
    double now_us;
    struct aw_rng rng; /* placement, readings */
    double neighbour_cpu, neighbour_memory;
    double metrics_down_until_us, api_down_until_us;
    double last_reading_us;
};

struct aw__reference;  /* requests and events, reference.c */
struct aw__contention; /* where nodes are overcommitted, contention.c */
struct aw_latency_histogram;

/* An application, and how many workloads are it: thousands of them are a few applications. */
struct aw__app {
    struct aw_app app;
    uint32_t users;
    uint32_t place; /* in `apps` */
};

/* What does not change as time passes. */
struct aw__profile {
    struct aw__app *app;
    const struct aw_load *load;
    struct aw__pod *pods; /* [pods_max]; NULL: the index is free */
    uint32_t pods_max;
    uint32_t first_pod; /* reference model: in the world's array of pods */
    uint32_t life;      /* how many had this index before */
    uint32_t touched;   /* places beyond it are zero: nobody has used them */
    uint32_t next_free; /* of the free indices */
    int64_t priority;   /* of its pending pods */
    uint32_t replicas, replicas_max;
    double cores, memory_mib;
};

/* Has pods that wait for a node. */
struct aw__waiting {
    int64_t priority;
    double since_us;
    uint64_t lot; /* between equals */
    uint32_t workload, unused;
};

struct aw_sim {
    struct aw_sim_settings settings;
    const struct aw_alloc *alloc;
    uint64_t seed;
    uint32_t workload_count, workloads_max; /* indices below the count have been given out */
    uint32_t first_free;                    /* the index that was given back last; AW__NO_INDEX */
    struct aw__profile *profile;            /* [workloads_max] */
    struct aw__app **apps;                  /* [workloads_max]; NULL: a free place */
    uint32_t app_count;                     /* places that have been used */

    unsigned char *state; /* one block: world, nodes, workloads */
    size_t state_bytes;   /* of it */
    struct aw__world *world;
    struct aw__nodes *nodes;
    struct aw__workload *workload; /* [workloads_max] */
    struct aw__pod *pod;           /* [pods_max]: of all workloads; reference model alone */
    uint32_t pods_used, pods_max;
    struct aw__pod **piece; /* the same for the fast model, of AW__PIECE workloads each; NULL: of
                               none yet */

    struct aw__waiting *waiting;       /* [workloads_max], on the way */
    struct aw_pod *shown;              /* [largest pods_max]: what observe hands out */
    struct aw__reference *reference;   /* NULL with the fast model */
    struct aw__contention *contention; /* NULL with the reference, or without overcommitment */
    struct aw_latency_histogram
        *histogram; /* [workloads_max]: latencies of the step; reference only */
};

/* libm's fmin and fmax are calls because of NaN, which does not occur here. */
static inline double aw__min(double a, double b)
{
    return a < b ? a : b;
}
static inline double aw__max(double a, double b)
{
    return a > b ? a : b;
}

/* Nearly normal (the sum of four uniform draws, never beyond 3.5 deviations), at the price of one
 * draw: for noise that no result hangs on. */
static inline double aw__noise_of(uint64_t bits)
{
    const uint64_t pairs = (bits & 0x0000ffff0000ffff) + (bits >> 16 & 0x0000ffff0000ffff);
    const double sum = (int32_t)((uint32_t)pairs + (uint32_t)(pairs >> 32));
    return (sum * (1.0 / 65536) - 1.99996948242) * 1.7320508075688772;
}
static inline double aw__noise(struct aw_rng *rng)
{
    return aw__noise_of(aw_rng_u64(rng));
}

/* What is particular to pod `id` under `key`, without keeping it: a step of splitmix64. */
static inline double aw__noise_at(uint64_t key, uint32_t id)
{
    uint64_t z = key + id * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return aw__noise_of(z ^ (z >> 31));
}

static inline struct aw__pod *aw__pods(const struct aw_sim *sim, uint32_t w)
{
    return sim->profile[w].pods;
}
static inline bool aw__present(const struct aw_sim *sim, uint32_t w)
{
    return sim->workload[w].replicas > 0;
}
static inline bool aw__pod_running(const struct aw__pod *pod)
{
    return pod->phase == AW__POD_READY || pod->phase == AW__POD_DRAINING;
}

/* Of a process with nothing to do, before what is particular to it. */
static inline double aw__base_memory_mib(const struct aw__workload *workload)
{
    return workload->demand.memory_base_mib + workload->disturbance.memory_leak_mib;
}
static inline double aw__pod_memory_mib(const struct aw__workload *workload,
                                        const struct aw__pod *pod, double in_flight)
{
    return aw__base_memory_mib(workload) * pod->memory_noise +
           workload->demand.memory_flight_mib * in_flight;
}
/* Relative spread of base memory between processes of one application. */
#define AW__MEMORY_SPREAD 0.02
static inline double aw__memory_noise(const struct aw__workload *workload, uint32_t id)
{
    return 1 + AW__MEMORY_SPREAD * aw__noise_at(workload->memory_key, id);
}

/* world.c */
void aw__world_reset(struct aw_sim *sim, uint64_t seed, double now_us);
void aw__workload_reset(struct aw_sim *sim, uint32_t w);
/* Takes its pods off their nodes, and forgets it. */
void aw__workload_clear(struct aw_sim *sim, uint32_t w);
/* Recomputes the demand after a change of payload or slowdown. */
void aw__workload_demand(struct aw_sim *sim, uint32_t w);
/* Brings pods towards what is wanted, at the present time. */
void aw__world_reconcile(struct aw_sim *sim, uint32_t w);
/* Finds nodes for pods that wait, of all workloads, by priority and time. */
void aw__world_place_pending(struct aw_sim *sim);
/* Fires what is due at the present time: starts, restarts, ends of draining. */
void aw__world_fire(struct aw_sim *sim, uint32_t w);
void aw__world_kill(struct aw_sim *sim, uint32_t w, struct aw__pod *pod); /* out of memory */
void aw__world_drained(struct aw_sim *sim, uint32_t w, struct aw__pod *pod);
void aw__world_fail_node(struct aw_sim *sim, uint32_t node, double until_us);

/* placing.c */
/* What may be missing of a node for a pod to fit: sums that are rounded. */
#define AW__CORES_SLACK      1e-9
#define AW__MEMORY_SLACK_MIB 1e-6
/* Takes room on nodes for up to `count` pods of one size; returns for how many, and in ret_on_node
 * [AW_SIM_NODES_MAX] how many are on each, of those that are there. */
uint32_t aw__nodes_take(struct aw_sim *sim, double cores, double memory_mib, uint32_t count,
                        uint16_t *ret_on_node);
/* Adds what `pod` has on its nodes to what is taken of them; `sign` -1: gives it back. */
void aw__nodes_add(struct aw_sim *sim, const struct aw__pod *pod, double sign);
/* A bit for each node that has one of them. */
static inline uint64_t aw__nodes_of(const struct aw_sim *sim, const uint16_t *on_node)
{
    uint64_t nodes = 0;
    for (uint32_t n = sim->settings.node_count; n-- > 0;)
        nodes = nodes << 1 | (on_node[n] > 0);
    return nodes;
}
/* Limits that a node takes: more than its cores where they are overcommitted. */
static inline double aw__node_limits(const struct aw_sim *sim)
{
    return sim->settings.node_cores * aw__max(1, sim->settings.overcommit_cpu);
}
static inline bool aw__overcommitted(const struct aw_sim *sim)
{
    return sim->settings.overcommit_cpu > 1;
}
/* The first node that has one; there is one. */
static inline uint32_t aw__first_node(const uint16_t *on_node)
{
    uint64_t word = 0;
    uint32_t n = 0;
    for (memcpy(&word, on_node, sizeof word); word == 0; memcpy(&word, on_node + n, sizeof word))
        n += 4;
    return n + (uint32_t)__builtin_ctzll(word) / 16;
}
static inline double aw__node_memory_mib(const struct aw_sim *sim)
{
    return sim->settings.node_memory_gib * 1024;
}

/* together.c */
/* The lowest free place. There is one as long as the workload has fewer pods than places. */
struct aw__pod *aw__pod_place(struct aw_sim *sim, uint32_t w);
/* Finds what is particular to the processes `id` .. `id + count - 1`. */
void aw__pod_noise(const struct aw__workload *workload, struct aw__pod *pod);
/* Parts `count` of `pod`, fewer than all, into a place of their own: those on `node` if there is
 * one given, else from the nodes that have most. `pod` keeps the lower ids. */
struct aw__pod *aw__pod_part(struct aw_sim *sim, uint32_t w, struct aw__pod *pod, uint32_t count,
                             uint32_t node);
/* The same of pods whose part is about to leave. */
struct aw__pod *aw__pod_part_leaving(struct aw_sim *sim, uint32_t w, struct aw__pod *pod,
                                     uint32_t count);
/* Parts all of them from each other; `pod` is the first. */
void aw__pod_part_all(struct aw_sim *sim, uint32_t w, struct aw__pod *pod);
/* Parts those with the ids `id` .. `id + count - 1` from the pod that has them all. */
struct aw__pod *aw__pod_only(struct aw_sim *sim, uint32_t w, uint32_t id, uint32_t count);
/* Pods must be apart where what a node has left decides. */
static inline bool aw__pods_apart(const struct aw_sim *sim)
{
    return sim->reference || sim->contention || sim->world->neighbour_cpu > 0;
}

/* reference.c */
AW_NODISCARD enum aw_err aw__reference_new(struct aw_sim *sim);
void aw__reference_free(struct aw_sim *sim);
void aw__reference_reset(struct aw_sim *sim);
/* Follows requests until `until_us` or until a pod's end changes the world, whichever is first;
 * returns the time reached. */
double aw__reference_run(struct aw_sim *sim, double until_us);
/* The pod in this place has gone, begun or changed its limits. */
void aw__reference_pod_changed(struct aw_sim *sim, uint32_t w, struct aw__pod *pod);
double aw__reference_in_flight(const struct aw_sim *sim, uint32_t w);

/* fast.c */
/* Requests/s that come on average between the two times. */
double aw__fast_rate(const struct aw_sim *sim, uint32_t w, double from_us, double until_us);
void aw__fast_run(struct aw_sim *sim, uint32_t w, double from_us, double until_us);

/* mixture.c */
void aw__mixture_begin(struct aw__mixture *mixture);
/* Requests that a replica in a steady state answered, after waiting in a queue. */
void aw__mixture_add(struct aw__mixture *mixture, double weight, const struct aw_steady *steady,
                     double wait_mean_us, double wait_high_us, double timeout_us);
/* Latencies of the step: its mean and quantiles, NAN without a request. */
void aw__mixture_latency(struct aw_sim *sim, uint32_t w, double *ret_mean, double *ret_p50,
                         double *ret_p95, double *ret_p99);

/* metrics.c */
void aw__metrics_read(struct aw_sim *sim);

#endif
