/*
 * session.h - a run that goes on: its job, and what is kept of it.
 *
 * Call order: the caller sets config, log, stop, and lock_fd to -1; open, begin, then steps of the
 *             job, each followed by wait; save where it is due. close ends any state of it.
 * Memory:     sized by the config.
 * Threads:    single owner; other threads and handlers write `stop` and `hangup`.
 *
 * The cluster is simulated, or consists of processes of this machine; everything else is the same.
 * A simulation that is resumed goes on as if it had never ended. Real processes begin anew, as many
 * and as large as they were, and nothing changes before they were seen.
 */
#ifndef AW_DAEMON_SESSION_H
#define AW_DAEMON_SESSION_H

#include "daemon/history.h"
#include "daemon/local_run.h"
#include "desk/desk.h"
#include "web/tick_timing.h"

struct aw_session {
    struct aw_daemon_config config; /* the session's: close deinits it */
    struct aw_log *log;             /* borrowed */
    const _Atomic int *stop;        /* not 0: waiting ends; borrowed */
    struct aw_job *job;
    struct aw_local_run *local; /* NULL: the cluster is simulated */
    struct aw_store store;
    struct aw_history history;
    struct aw_desk *desk;          /* NULL: no audit log */
    struct aw_tick_timing *timing; /* borrowed; NULL: not measured */
    struct aw__agents *agents;     /* their door (agents.h); NULL: none */
    bool resumed;
    uint64_t steps_before;      /* of earlier sessions */
    int64_t begin_us, saved_us; /* real */
    int64_t due_us;             /* real, of the next step */
    uint64_t save_every, saved_steps;
    int lock_fd;     /* -1: none */
    bool state_made; /* its folder was not there before */
    bool begun;      /* set by the owner: the start has succeeded, and what it made stays */
};

/* A store for what these workloads look back on; `where` as aw_store_open takes it. */
AW_NODISCARD enum aw_err aw_daemon_store_open(const struct aw_daemon_config *config,
                                              const char *where, struct aw_store *ret_store,
                                              struct aw_diag *diag);
/* Replicas of real processes are started, and not waited for. */
AW_NODISCARD enum aw_err aw_session_open(struct aw_session *session, struct aw_diag *diag);
/* Waits until every workload has a replica that answers, and for agents of other processes if the
 * config says so; then the load and the time of the first step begin. AW_OK too when stopped. */
AW_NODISCARD enum aw_err aw_session_begin(struct aw_session *session, struct aw_diag *diag);
/* After a step: until the next one is due, stop or `hangup` (may be NULL) is not 0. */
void aw_session_wait(struct aw_session *session, const _Atomic int *hangup);
/* Nothing where the run keeps no state. */
AW_NODISCARD enum aw_err aw_session_save(struct aw_session *session, struct aw_diag *diag);
void aw_session_close(struct aw_session *session);

#endif
