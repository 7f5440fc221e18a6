/*
 * daemon_internal.h - what files of this room share: daemon.c lives, reload.c puts other settings
 * in the place of these, session.c has the parts of a session that both need.
 *
 * Memory:  a daemon is one block.
 * Threads: once it runs, `kept` and the counts belong to the thread that steps; `done` and
 *          `ticked_us` are read by the one that waits.
 */
#ifndef AW_DAEMON_DAEMON_INTERNAL_H
#define AW_DAEMON_DAEMON_INTERNAL_H

#include "daemon/daemon.h"
#include "daemon/doors.h"
#include "daemon/session.h"
#include "daemon/span_door.h"
#include "web/api.h"

#define AW__DAEMON_VIEWS  "views.json" /* of what is kept, beside those of config.h */
#define AW__DAEMON_RECENT "recent"

struct aw__daemon {
    struct aw_session kept;
    const struct aw_daemon_life *life;
    struct aw_log *log;
    struct aw_api api;
    struct aw_doors doors;
    struct aw_tick_timing timing;
    struct aw__map *map;         /* NULL: none */
    struct aw__span_door *spans; /* NULL: none */

    uint32_t stages[AW_STAGE_COUNT]; /* workloads in each, after the last step */
    uint64_t store_failures;         /* after the last step */
    uint64_t orders, saved_orders;   /* taken; at the last save */
    int64_t status_us;               /* when systemd was last told */
    bool audit_ails, store_ails, save_ails;

    _Atomic int64_t ticked_us; /* real */
    enum aw_err err;
    struct aw_diag diag;
    _Atomic bool done;
};

/* The parts of aw_session_open, for a reload of the settings: a job of the config, beside a desk or
 * NULL; its state from the last save; a new desk; the two brought together; the load of real
 * processes from where the job is; store and history, where there are other workloads. */
AW_NODISCARD enum aw_err aw__session_job(struct aw_session *session, struct aw_desk *desk,
                                         struct aw_job **ret_job, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__session_reload(struct aw_session *session, struct aw_job *job,
                                            struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__session_resize(struct aw_session *session, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__session_steward(struct aw_session *session, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__session_attach(struct aw_session *session, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__session_load(struct aw_session *session, struct aw_diag *diag);

/* Adds the real length of a step to `*due_us` and waits until then, in pieces that notice that
 * `stop` or `hangup` (either may be NULL) is not 0. */
void aw__due_wait(int64_t *due_us, const struct aw_daemon_config *config, const _Atomic int *stop,
                  const _Atomic int *hangup);

/* After aw_session_wait was broken off by `hangup`: the rest of it, to the moment at which the next
 * step was due. */
void aw__session_wait_on(const struct aw_session *session, const _Atomic int *hangup);

/* State and views. A failure is logged. */
enum aw_err aw__daemon_save(struct aw__daemon *daemon, struct aw_diag *diag);

/* Reads the files anew and takes over what they say, between two steps. What cannot be taken over
 * is refused as a whole with one line, and everything goes on as it was: AW_OK. An error means that
 * the old settings are gone and the new ones do not work: the daemon is to end. */
AW_NODISCARD enum aw_err aw__daemon_reload(struct aw__daemon *daemon, struct aw_diag *diag);

/* Forgets what an earlier run left in a state directory; its audit log is put aside. */
AW_NODISCARD enum aw_err aw__session_forget(const char *state, struct aw_diag *diag);

#endif
