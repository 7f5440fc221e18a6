/*
 * cluster.h - what a control loop may ask of a cluster, simulated, local or Kubernetes.
 *
 * Call order: open a backend, then per tick and workload: observe, decide elsewhere, apply.
 * Memory:     everything is the caller's. observe and apply never allocate.
 * Threads:    one owner per cluster.
 *
 * Missing is missing, never zero: a figure that was not measured has `at_us` AW_NEVER and value 0,
 * and no code may read the value without looking at the time. A decision that shrinks something on
 * missing or stale figures is a bug.
 */
#ifndef AWARE_CLUSTER_H
#define AWARE_CLUSTER_H

#include <aware/err.h>
#include <aware/resource.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_NEVER            INT64_MIN
#define AW_CLUSTER_PODS_MAX 1024u /* replicas of one workload */
#define AW_CLUSTER_NAME_MAX 64u
#define AW_WORKLOADS_MAX    16384u

/* One measured figure and when it was true. */
struct aw_figure {
    double value;
    int64_t at_us; /* AW_NEVER: not measured */
};

enum aw_pod_phase { AW_POD_PENDING, AW_POD_STARTING, AW_POD_RUNNING, AW_POD_FAILED };

/* One replica as the API shows it; what HPA and VPA decide on. */
struct aw_pod {
    uint32_t id; /* stable over a pod's life, never reused */
    enum aw_pod_phase phase;
    bool ready;
    int64_t started_us;      /* container start; AW_NEVER: not yet */
    int64_t ready_change_us; /* when `ready` last changed */
    AW_AMOUNTS(size, );      /* its limits, which are its requests too; no replicas; 0: unknown */
    struct aw_figure cpu_cores_used; /* mean over the scrape window */
    struct aw_figure memory_bytes_used;
    uint32_t oom_kill_count; /* since it was made */
    uint32_t restart_count;
};

/* One consistent reading of a workload. */
struct aw_sample {
    int64_t at_us;

    AW_AMOUNTS(wanted, _wanted); /* what the last apply asked for; 0: unknown */

    /* There: what the API shows. */
    uint32_t replicas_ready;
    uint32_t replicas_pending;  /* no node has room */
    uint32_t replicas_starting; /* placed, not ready */
    bool rollout;               /* a vertical change is being rolled out */

    /* Measured, over the last step, over all ready replicas. */
    struct aw_figure cpu_cores_used;    /* sum */
    struct aw_figure memory_bytes_used; /* mean per replica */
    struct aw_figure memory_bytes_peak; /* highest replica, highest moment */
    struct aw_figure throttled_share;   /* of CFS periods, 0..1 */
    struct aw_figure disk_bytes_per_s;  /* sum */
    struct aw_figure net_bytes_per_s;   /* sum */
    struct aw_figure arrivals_per_s;
    struct aw_figure completions_per_s;
    struct aw_figure errors_per_s; /* refused, lost in a kill, timed out */
    struct aw_figure in_flight;    /* requests in the system at the end, queued or served */
    struct aw_figure latency_us_p50;
    struct aw_figure latency_us_p95;
    struct aw_figure latency_us_p99;
    struct aw_figure latency_us_mean;
    /* Of that, inside replicas by their own metrics; for people. No controller decides on it: what
     * clients feel has the waiting before a replica in it. */
    struct aw_figure inside_us_p50;
    struct aw_figure inside_us_p99;

    /* Counted since the previous observe. */
    uint32_t oom_kills;
    uint32_t restarts;

    uint32_t pod_count;
    const struct aw_pod *pods; /* [pod_count]; the backend's, until its next call */
};

/* What is asked for. Only what `set` names changes. No padding: it is part of snapshots. */
struct aw_plan {
    uint64_t set;         /* AW_PLAN_* or-ed */
    AW_AMOUNTS(amount, ); /* all but replicas: of each replica */
};

/* All of what is wanted, as far as it is known. */
static inline struct aw_plan aw_plan_of(const int64_t wanted[AW_RESOURCES])
{
    struct aw_plan plan;
    plan.set = AW_PLAN_COMMON;
    for (uint32_t r = 0; r < AW_RESOURCES; r++) {
        plan.amount[r] = wanted[r];
        plan.set |= wanted[r] ? AW_PLAN_BIT(r) : 0;
    }
    return plan;
}

/* `present` with what `plan` sets in its place. */
static inline struct aw_plan aw_plan_over(const struct aw_plan *plan, const struct aw_plan *present)
{
    struct aw_plan both = *present;
    both.set |= plan->set;
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        both.amount[r] = plan->set & AW_PLAN_BIT(r) ? plan->amount[r] : both.amount[r];
    return both;
}

/* AW_PLAN_* of the amounts that are not the same, whatever `set` names. */
static inline uint32_t aw_plan_differs(const int64_t a[AW_RESOURCES], const int64_t b[AW_RESOURCES])
{
    uint32_t set = 0;
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        set |= a[r] != b[r] ? AW_PLAN_BIT(r) : 0;
    return set;
}

enum aw_cluster_capability { AW_CLUSTER_IN_PLACE_RESIZE = 1, AW_CLUSTER_VIRTUAL_TIME = 2 };
/* Of resources (AW_PLAN_*) that are not common: those that `apply` can set. */
#define AW_CLUSTER_SETS(plan_set) ((uint32_t)(plan_set) << 8)

struct aw_cluster_ops {
    const char *name;

    uint32_t (*capabilities)(const void *self); /* AW_CLUSTER_* and AW_CLUSTER_SETS or-ed */

    /* AW_ERR_NODATA: the workload exists but has not reported yet; `ret_sample` is untouched.
     * AW_ERR_UNAVAILABLE: the cluster did not answer. Never blocks past the deadline. */
    enum aw_err (*observe)(void *self, uint32_t workload, int64_t deadline_us,
                           struct aw_sample *ret_sample);

    /* Idempotent. The plan has already passed the guard; a backend checks it again and asserts.
     * AW_ERR_CONFLICT: someone else scaled it; observe again before retrying. */
    enum aw_err (*apply)(void *self, uint32_t workload, const struct aw_plan *plan,
                         int64_t deadline_us);

    /* Lets time pass until `until_us`: virtual clusters compute, real ones sleep. */
    enum aw_err (*advance)(void *self, int64_t until_us);
    int64_t (*now_us)(const void *self);

    void (*free)(void *self); /* NULL is a no-op */
};

struct aw_cluster {
    const struct aw_cluster_ops *ops; /* no slot is ever NULL */
    void *self;
};

/* AW_PLAN_* that a cluster can set. */
static inline uint32_t aw_cluster_sets(const struct aw_cluster *cluster)
{
    return AW_PLAN_COMMON | cluster->ops->capabilities(cluster->self) >> 8;
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
