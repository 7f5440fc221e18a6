/*
 * real.h - workloads as real processes under real load, for the verbs that have them controlled.
 *
 * Replicas run in control groups of this machine behind balancers (cluster/local.h); the load that
 * the files describe is sent for real (load/drive.h), from a thread per workload; one control loop
 * scales them all. Time may run faster for the loop and for the load (cluster/pace.h).
 *
 * Call order: open, ready, load_begin, steps, load_end, close. After any failure: close.
 * Memory:     all at open. close accepts a zeroed struct.
 * Threads:    single owner, beside those that send and those of the cluster.
 */
#ifndef AW_CLI_REAL_H
#define AW_CLI_REAL_H

#include "cli/run.h"
#include "cluster/local.h"
#include "cluster/pace.h"
#include "load/drive.h"

#include <pthread.h>
#include <stdatomic.h>

/* The load of one workload. */
struct aw__real_load {
    const _Atomic bool *stop;
    struct aw_load part; /* borrowed rates, from some moment of the load on */
    struct aw_drive_config config;
    struct aw_drive_result result; /* after load_end */
    enum aw_err err;
    struct aw_diag diag;
    pthread_t thread;
    bool made;
};

/* What replicas of one workload have measured their work by (`aware-workload --costs`): handed on
 * from close to the next open, so that who is compared has done the same work. Zeroed: nothing. */
#define AW__REAL_COSTS_MAX 4096u /* bytes */
struct aw_real_costs {
    char bytes[AW__REAL_COSTS_MAX];
    size_t len;
};

struct aw_real_config {
    const struct aw_runask *ask; /* borrowed: workloads, loads and the cluster's settings */
    const struct aw_pilot_config *pilots; /* [ask->count] in place of those in `ask`; NULL: those */
    struct aw_store *store;               /* borrowed */
    double speed;                         /* of the loop's time over real time */
    int64_t begin_us;                     /* the loop's time to begin with */
    const _Atomic int *stop;              /* not 0: everything ends soon; borrowed */
    struct aw_exchange *exchange;         /* for agents of other processes; NULL: none; borrowed */
    struct aw_real_costs *costs; /* [ask->count] of the last one, and then of this; NULL: none */
};

struct aw_real {
    struct aw_real_config config;
    struct aw_local *local;
    struct aw_pace pace;
    struct aw_cluster cluster; /* as the loop sees it */
    struct aw_loop *loop;
    struct aw__real_load *load; /* [count] */
    _Atomic bool load_stop;
};

/* A store for what these workloads look back on; `where` as aw_store_open takes it. */
AW_NODISCARD enum aw_err aw_real_store_open(const struct aw_runask *ask, const char *where,
                                            struct aw_store *ret_store, struct aw_diag *diag);
/* Replicas are started. AW_ERR_UNSUPPORTED: control groups cannot be written here. */
AW_NODISCARD enum aw_err aw_real_open(struct aw_real *real, const struct aw_real_config *config,
                                      struct aw_diag *diag);
/* Waits until every workload has a replica that answers; AW_OK too when it is stopped. */
AW_NODISCARD enum aw_err aw_real_ready(struct aw_real *real, struct aw_diag *diag);
/* Sends the load from `from_us` of its own time on until load_end, for steps that may take longer
 * than they should. Same seed, same moments. */
AW_NODISCARD enum aw_err aw_real_load_begin(struct aw_real *real, int64_t from_us, uint64_t steps,
                                            uint64_t seed, struct aw_diag *diag);
/* What is under way is dropped. A no-op where there is none. */
AW_NODISCARD enum aw_err aw_real_load_end(struct aw_real *real, struct aw_diag *diag);

/* Ticks until `steps` have ended; `told` is called at the end of each, from 1 on, when the loop's
 * last decisions tell what became of it. */
typedef void aw_real_told(void *ctx, uint64_t step);
AW_NODISCARD enum aw_err aw_real_steps(struct aw_real *real, uint64_t steps, aw_real_told *told,
                                       void *ctx, struct aw_diag *diag);
void aw_real_close(struct aw_real *real);

/* The step that ended with the decision; `step_s` is its length in real seconds. */
void aw_real_tally(struct aw_job_tally *tally, const struct aw_decision *decision, double step_s);
/* Requests that were not answered well. */
uint64_t aw_real_failed(const struct aw_drive_totals *all);

#endif
