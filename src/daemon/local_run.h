/*
 * local_run.h - the workloads of a run as real processes under real load: a cluster for a job.
 *
 * Replicas run in control groups of this machine behind balancers (cluster/local.h); the load that
 * the files describe is sent for real (load/drive.h), from a thread per workload. Time may run
 * faster for controllers and for the load (cluster/time_scale.h).
 *
 * Call order: open, ready, load_begin, steps of a job over `cluster`, load_end, close. After any
 *             failure: close.
 * Memory:     all at open. close accepts a zeroed struct.
 * Threads:    single owner, beside those that send and those of the cluster.
 */
#ifndef AW_DAEMON_LOCAL_RUN_H
#define AW_DAEMON_LOCAL_RUN_H

#include "cluster/local.h"
#include "cluster/time_scale.h"
#include "daemon/config.h"
#include "load/drive.h"

#include <pthread.h>
#include <stdatomic.h>

/* The load of one workload. */
struct aw__local_load {
    const _Atomic bool *stop;
    struct aw_load part; /* borrowed rates, from some moment of the load on */
    struct aw_drive_config config;
    struct aw_drive_result result; /* after load_end */
    enum aw_err err;
    struct aw_diag diag;
    pthread_t thread;
    bool made;
};

/* What replicas of one workload have measured their work by (`aware-workload --costs`): passed from
 * close to the next open, so that compared runs do the same work. Zeroed: nothing. */
#define AW__LOCAL_COSTS_MAX 4096u /* bytes */
struct aw_local_costs {
    char bytes[AW__LOCAL_COSTS_MAX];
    size_t len;
};

struct aw_local_run_config {
    const struct aw_daemon_config *ask; /* borrowed: workloads, loads, speed, the settings */
    int64_t begin_us;                   /* the controllers' time to begin with */
    const _Atomic int *stop;            /* not 0: everything ends soon; borrowed */
    struct aw_local_costs *costs; /* [ask->count] of the last one, and then of this; NULL: none */
};

struct aw_local_run {
    struct aw_local_run_config config;
    struct aw_local *local;
    uint32_t count; /* workloads that it has */
    uint32_t made;  /* that it ever had: their files are numbered */
    char name[AW_LOCAL_WORKLOADS_MAX][AW_STORE_NAME_MAX];
    struct aw_time_scale pace;
    struct aw_cluster cluster;   /* as a loop sees it */
    struct aw__local_load *load; /* [AW_LOCAL_WORKLOADS_MAX] */
    _Atomic bool load_stop;
};

/* AW_ERR_RANGE: more replicas of a workload than one machine may have. Also asked before other
 * settings are taken over while processes run. */
AW_NODISCARD enum aw_err aw_local_run_check(const struct aw_daemon_config *ask,
                                            struct aw_diag *diag);
/* Other workloads while it runs, those that stay undisturbed. First grow, which starts those that
 * `next` has and this has not, behind all others, or fails and leaves everything as it was; then,
 * without a load and with `next` in the place of config.ask, settle: what `next` has not is ended,
 * and the rest stands in its order. */
AW_NODISCARD enum aw_err aw_local_run_grow(struct aw_local_run *run,
                                           const struct aw_daemon_config *next,
                                           struct aw_diag *diag);
void aw_local_run_settle(struct aw_local_run *run, const struct aw_daemon_config *next);
/* Replicas are started. AW_ERR_UNSUPPORTED: control groups cannot be written here. */
AW_NODISCARD enum aw_err aw_local_run_open(struct aw_local_run *run,
                                           const struct aw_local_run_config *config,
                                           struct aw_diag *diag);
/* Waits until every workload has a replica that answers; AW_OK too when it is stopped. */
AW_NODISCARD enum aw_err aw_local_run_ready(struct aw_local_run *run, struct aw_diag *diag);
/* Sends the load from `from_us` of its own time on until load_end, for steps that may take longer
 * than they should. Same seed, same moments. */
AW_NODISCARD enum aw_err aw_local_run_load_begin(struct aw_local_run *run, int64_t from_us,
                                                 uint64_t steps, uint64_t seed,
                                                 struct aw_diag *diag);
/* Drops requests under way. A no-op without a load. */
AW_NODISCARD enum aw_err aw_local_run_load_end(struct aw_local_run *run, struct aw_diag *diag);

/* Ticks of the job until `steps` have ended or it is stopped; `sink` is called for each. A step
 * that took too long is not made up for. */
AW_NODISCARD enum aw_err aw_local_run_steps(struct aw_local_run *run, struct aw_job *job,
                                            uint64_t steps, aw_job_sink *sink, void *ctx,
                                            struct aw_diag *diag);
/* After a restart, with what a job was loaded from: the clock goes on from there, and replicas that
 * have begun anew become as many and as large as they were. */
AW_NODISCARD enum aw_err aw_local_run_restore(struct aw_local_run *run, const struct aw_job *job,
                                              struct aw_diag *diag);
void aw_local_run_close(struct aw_local_run *run);

/* Requests that were not answered well. */
uint64_t aw_local_run_failed(const struct aw_drive_totals *all);

#endif
