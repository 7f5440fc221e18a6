/*
 * local.h - a cluster of one machine: replicas are processes in control groups, behind cluster.h.
 *
 * Each replica is a process of its own in a control group of its own, with a CPU quota and a memory
 * limit; in front of the replicas of a workload a balancer listens on one port of 127.0.0.1 and
 * measures what clients see. A thread of the cluster's own starts replicas, finds them ready,
 * drains them, ends them, and starts those again that ended by themselves, with a growing pause.
 *
 * Call order: new, add workloads, then observe, apply and advance through aw_local_cluster, free;
 *             add, retire and swap between two of these.
 * Memory:     all at new and add; nothing afterwards.
 * Threads:    single owner, beside threads of the cluster's own.
 *
 * Whatever becomes of this process, what it started is written down in a directory before it is
 * started: aw_local_clean, and every new, ends what dead ones have left, and nothing else.
 *
 * The trap: real time. advance sleeps, and what was applied happens a little later.
 */
#ifndef AW_CLUSTER_LOCAL_H
#define AW_CLUSTER_LOCAL_H

#include <aware/cluster.h>

#include "base/alloc.h"
#include "base/conf.h"

#define AW_LOCAL_WORKLOADS_MAX 16u
#define AW_LOCAL_REPLICAS_MAX  128u /* of one workload */
#define AW_LOCAL_ARGS_MAX      48u
#define AW_LOCAL_ARG_MAX       256u /* bytes of one, with its NUL */
#define AW_LOCAL_FILE_MAX      32u  /* bytes of a name in aw_local_dir: a temporary one has more */

struct aw_local_settings {
    char run_dir[AW_CONF_TEXT_MAX]; /* where runs are written down; "": aw_local_run_dir */
    char cgroup_root[AW_CONF_TEXT_MAX];
    char cgroup_parent[AW_CONF_TEXT_MAX]; /* "": the top, or where this process is */
    char log_dir[AW_CONF_TEXT_MAX];       /* output of replicas; "": nowhere */
    double cores, memory_gib;             /* that replicas may have together; 0: the machine's */
    double readiness_period_s, readiness_timeout_s;
    uint32_t readiness_failures;
    double drain_s;           /* for requests in flight on scale-in */
    double stop_s;            /* between SIGTERM and SIGKILL */
    double wait_s;            /* of a request for a ready replica */
    double request_timeout_s; /* what a client waits */
    double keep_s;            /* of an idle connection to a replica */
    double backoff_s;         /* before the second restart in a row; doubles */
    double backoff_max_s;
    uint32_t connections;                               /* of clients */
    char io_device[AW_CONF_TEXT_MAX];                   /* "8:0"; "": I/O is not limited */
    double io_read_mib_per_s, io_write_mib_per_s;       /* of a replica; 0: no limit */
    double network_in_mib_per_s, network_out_mib_per_s; /* likewise, through the balancer */
};
extern const struct aw_conf_field aw_local_fields[];

struct aw_local_workload {
    const char *const *command; /* ends with NULL; "{port}" is replaced. Also as PORT=. Copied */
    uint32_t uid, gid;          /* as whom they run; uid 0: as this process */
    const char *health_path;    /* "/healthz"; "": a connection is enough */
    const char *metrics_path;   /* "/metrics", as Prometheus reads them; NULL or "": none. Copied */
    const char *metrics_histogram; /* there, of durations in seconds, without "_bucket". Copied */
    uint16_t port;                 /* of the balancer; 0: any */
    uint32_t replicas, replicas_max;
    int64_t cpu_millicores;
    int64_t memory_bytes;
    /* Of one replica, in place of what settings say; 0: as they say. */
    int64_t disk_bytes_per_s;    /* each of reading and writing, of settings' io_device */
    int64_t network_bytes_per_s; /* each way, through the balancer */
};

struct aw_local; /* opaque */

/* AW_ERR_UNSUPPORTED: control groups cannot be written here; the text says what is needed, and
 * nothing was made. */
AW_NODISCARD enum aw_err aw_local_new(const struct aw_local_settings *settings,
                                      uint32_t workloads_max, const struct aw_alloc *alloc,
                                      struct aw_local **ret_local, struct aw_diag *diag);
/* Drains, ends and removes everything; takes as long as settings allow. NULL is a no-op. */
void aw_local_free(struct aw_local *local);
/* Replicas are started at once; they are ready when they answer. */
/* What all replicas may have together: as settings say, or of the machine. */
void aw_local_capacity(const struct aw_local *local, int64_t *ret_cpu_millicores,
                       int64_t *ret_memory_bytes);
AW_NODISCARD enum aw_err aw_local_add(struct aw_local *local,
                                      const struct aw_local_workload *workload, uint32_t *ret_index,
                                      struct aw_diag *diag);
/* Ends one: its door takes no new connection, its replicas drain and are ended while time goes on.
 * Those behind it move one down. AW_ERR_LIMIT: too many were ended in this cluster's life. */
AW_NODISCARD enum aw_err aw_local_retire(struct aw_local *local, uint32_t workload);
/* Two of them change their numbers; nothing else happens to them. */
void aw_local_swap(struct aw_local *local, uint32_t a, uint32_t b);
/* Other limits of every replica, those that come included. They hold after the supervisor's next
 * look, a few milliseconds from now. AW_ERR_UNSUPPORTED: settings name no io_device. */
AW_NODISCARD enum aw_err aw_local_limit_disk(struct aw_local *local, uint32_t workload,
                                             int64_t bytes_per_s);
void aw_local_limit_network(struct aw_local *local, uint32_t workload, int64_t bytes_per_s);
/* What is set in the group of the nth replica that runs: CPU in millicores, writing in bytes/s; -1:
 * no limit. AW_ERR_NOTFOUND: there are not so many. */
AW_NODISCARD enum aw_err aw_local_limits(struct aw_local *local, uint32_t workload, uint32_t nth,
                                         int64_t *ret_cpu_millicores,
                                         int64_t *ret_disk_bytes_per_s);
/* Sets a limit of a group of its own, reads it back and removes the group. AW_ERR_UNSUPPORTED: it
 * cannot be set, or does not stay; the text says which file. */
AW_NODISCARD enum aw_err aw_local_probe_disk(struct aw_local *local, struct aw_diag *diag);
/* Of a file's disk, as settings' io_device wants it: the whole disk of a partition. False: none
 * that has a number, as in memory or over a network. */
bool aw_local_device(const char *path, char *buf, size_t size);
#define AW_LOCAL_OUTSIDE UINT32_MAX /* in no replica's group, but where this process is */
/* Starts a program inside the control group of a replica that runs, the nth of them: what it takes,
 * the replica does without. The caller's thread is its parent, and it dies with that thread. It is
 * ended, and waited for, by aw_local_leave. AW_ERR_NOTFOUND: there are not so many replicas. */
AW_NODISCARD enum aw_err aw_local_join(struct aw_local *local, uint32_t workload, uint32_t nth,
                                       const char *const *command, int *ret_pid,
                                       struct aw_diag *diag);
/* Ends it, if it has not ended, and takes leave. */
void aw_local_leave(int pid);
/* True: it has ended by itself; then it is gone, and `leave` must not be called. */
bool aw_local_left(int pid, int *ret_status);
struct aw_cluster aw_local_cluster(struct aw_local *local);
/* Where clients connect. */
uint16_t aw_local_port(const struct aw_local *local, uint32_t workload);

/* A directory of this run, for its owner alone: files in it go with the run, or with
 * aw_local_clean. Their names have at most AW_LOCAL_FILE_MAX bytes and begin with no dot. */
const char *aw_local_dir(const struct aw_local *local);

/* Where ready replicas listen, for measuring without the balancer; returns how many.
 */
uint32_t aw_local_replica_ports(struct aw_local *local, uint32_t workload, uint16_t *ret_ports,
                                uint32_t max);

/* What became of requests since the workload was added, as the balancer saw it. */
struct aw_local_requests {
    uint64_t arrivals, completions;
    uint64_t refused, lost, timed_out, failed; /* no replica ready; by a crash; too late; 5xx */
    uint64_t aborted;                          /* by clients */
    uint64_t retries;
    uint64_t in_flight;
};
void aw_local_requests(const struct aw_local *local, uint32_t workload,
                       struct aw_local_requests *ret);
/* A quantile of how long requests took inside replicas since the workload was added, by the metrics
 * that replicas have themselves; a second behind. NAN: not known. */
double aw_local_inside_us(struct aw_local *local, uint32_t workload, double quantile);
/* Why a replica last could not be started, or ended by itself; "" where none has. */
void aw_local_trouble(struct aw_local *local, uint32_t workload, char *buf, size_t size);

/* --- after a crash ---------------------------------------------------------------------------- */

/* Where runs are written down unless settings say otherwise. Returns `buf`. */
const char *aw_local_run_dir(char *buf, size_t size);
struct aw_local_cleaned {
    uint32_t alive;   /* runs whose process lives: untouched */
    uint32_t cleared; /* dead runs of which nothing is left now */
};
AW_NODISCARD enum aw_err aw_local_clean(const char *run_dir, struct aw_local_cleaned *ret,
                                        struct aw_diag *diag);

#endif
