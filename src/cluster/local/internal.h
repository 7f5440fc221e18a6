/*
 * internal.h - what the files of the local cluster share.
 *
 * local.c makes, ends and answers; replica.c leads the lives of replicas; observe.c reads them.
 * Everything behind `lock`. The supervisor's thread alone forks, so that it is the parent whose end
 * the kernel tells replicas of.
 */
#ifndef AW_CLUSTER_LOCAL_INTERNAL_H
#define AW_CLUSTER_LOCAL_INTERNAL_H

#include "base/net.h"
#include "cluster/local.h"
#include "cluster/local/balancer.h"
#include "cluster/local/rundir.h"
#include "cluster/local/scrape.h"

#include <pthread.h>

enum aw__replica_phase {
    AW__REPLICA_NONE,
    AW__REPLICA_PENDING, /* no room on the machine */
    AW__REPLICA_BACKOFF, /* to be started at `until_us` */
    AW__REPLICA_RUNS,    /* ready or not */
    AW__REPLICA_DRAINS,
    AW__REPLICA_STOPS, /* was sent SIGTERM; SIGKILL at `until_us` */
    AW__REPLICA_GONE,  /* its process has ended; its group is to be removed */
};

struct aw__replica {
    uint32_t phase; /* enum aw__replica_phase */
    uint32_t id;
    char group[AW__CGROUP_NAME_MAX];
    bool has_group;
    int pid; /* 0: none */
    uint16_t port;
    bool ready, was_ready;
    int64_t until_us, started_us, ready_change_us;
    int64_t cpu_millicores, memory_bytes, disk_bytes_per_s; /* as they are set */
    uint32_t restart_count, oom_kill_count;
    uint32_t oom_kills_before; /* this life: a kill may be counted before its end is seen */
    double backoff_s;          /* before the next restart; 0: none yet */
    int64_t oom_seen;          /* of the kernel's counter */

    /* since the last observe */
    struct aw__cgroup_usage usage; /* then */
    int64_t usage_us;
    struct aw_figure cpu_cores_used, memory_bytes_used;
};

/* What replicas that have ended since the last observe had used in it. */
struct aw__ended {
    int64_t cpu_us, span_us, throttled, io_bytes; /* span: that they were there for */
};

struct aw__local_workload {
    uint32_t index;
    char args[AW_LOCAL_ARGS_MAX][AW_LOCAL_ARG_MAX];
    uint32_t arg_count;
    uint32_t uid, gid; /* 0: as we are */
    uint32_t wanted, replicas_max;
    int64_t cpu_millicores, memory_bytes, disk_bytes_per_s; /* wanted; disk 0: as settings say */
    uint32_t slots;
    struct aw__replica *replica;   /* [slots], as the balancer numbers them */
    struct aw__balancer *balancer; /* NULL: retired, and nothing is left of it */
    struct aw_pod *shown;          /* [slots] */
    char trouble[AW_DIAG_TEXT_MAX];

    uint32_t oom_kills, restarts; /* since the last observe */
    struct aw__ended ended;
    double memory_peak;
    int64_t observed_us;
    struct aw__balancer_counts counts;   /* then */
    struct aw_latency_histogram latency; /* then */
    struct aw_latency_histogram window;  /* scratch */
    struct aw_sample figures;            /* of the last window */
    struct aw__scrape_part scrape;
};

#define AW__LOCAL_RETIRED_MAX 64u /* workloads that were removed, of a cluster's life */

struct aw_local {
    struct aw_local_settings settings;
    const struct aw_alloc *alloc;
    int64_t begin_us; /* monotonic */
    int64_t capacity_millicores, capacity_bytes;
    struct aw__cgroup_tree tree;
    bool tree_made;
    struct aw__rundir rundir;
    pthread_mutex_t lock;
    pthread_cond_t kick;
    pthread_t thread;
    bool thread_made;
    bool stop;    /* the thread is to end */
    bool closing; /* nothing is wanted any more */
    uint32_t next_id, workloads_max, workload_count;
    uint32_t made_count, retired_count;
    /* [workloads_max + AW__LOCAL_RETIRED_MAX]: those in use, then those that end or have ended */
    struct aw__local_workload **workload;
    int64_t sampled_us;
    struct aw__scrape *scrape; /* NULL: no workload has metrics */
    char doors[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX];
};

int64_t aw__local_now_us(const struct aw_local *local);

/* --- replica.c -------------------------------------------------------------------------------- */

/* One look at everything; with the lock held, by the supervisor. */
void aw__replica_reconcile(struct aw_local *local, struct aw__local_workload *workload);
/* Where it may listen beside its port; "": the run's directory has too long a name for that. */
const char *aw__replica_socket(const struct aw_local *local, const struct aw__replica *replica,
                               char buf[AW_NET_UNIX_PATH_MAX]);
/* Whether anything is left of it. */
bool aw__replica_any(const struct aw__local_workload *workload);
/* When supervision has ended: waits for processes that were killed last. `ended`: all of them have
 * been; else who still runs is left. NULL is a no-op. */
void aw__replica_reap(struct aw__local_workload *workload, bool ended);

/* --- observe.c -------------------------------------------------------------------------------- */

/* Kills in memory since it was last asked; with the lock held. */
uint32_t aw__observe_oom(struct aw_local *local, struct aw__local_workload *workload,
                         struct aw__replica *replica);
/* Its part of the running window, before its group goes. */
void aw__observe_last(struct aw_local *local, struct aw__local_workload *workload,
                      struct aw__replica *replica);
/* Between observes, for peaks. */
void aw__observe_peaks(struct aw_local *local, struct aw__local_workload *workload);
void aw__observe(struct aw_local *local, struct aw__local_workload *workload,
                 struct aw_sample *ret);

#endif
