/*
 * run_daemon.h - what the two files of a daemon share: run_daemon.c lives, run_reload.c puts other
 * settings in the place of these.
 *
 * Threads: `kept` and what is told belong to the thread that steps once it runs; `done` and
 *          `ticked_us` are read by the one that waits.
 */
#ifndef AW_CLI_RUN_DAEMON_H
#define AW_CLI_RUN_DAEMON_H

#include "cli/daemon.h"
#include "cli/run.h"

struct aw__daemon {
    struct aw__runsession kept;
    struct aw_call run; /* as it was handed in, but for the log */
    struct aw_log log;
    struct aw_api api;
    struct aw__doors doors;
    struct aw_timing timing;
    struct aw__runmap *map; /* NULL: none */

    uint64_t paced_steps;            /* steps at kept.begin_us */
    uint32_t stages[AW_STAGE_COUNT]; /* workloads in each, as of the last step */
    uint64_t store_failures;         /* as of the last step */
    uint64_t orders, saved_orders;   /* taken; as of the last save */
    int64_t status_us;               /* when systemd was last told */
    bool audit_ails, store_ails, save_ails;

    _Atomic int64_t ticked_us; /* real */
    enum aw_err err;
    struct aw_diag diag;
    _Atomic bool done;
};

/* State and views. A failure is told in the log. */
enum aw_err aw__daemon_save(struct aw__daemon *daemon, struct aw_diag *diag);

/* Reads the files anew and takes over what they say, between two steps. What cannot be taken over
 * is refused as a whole with one line, and everything goes on as it was: AW_OK. An error means that
 * the old settings are gone and the new ones do not work: the daemon is to end. */
AW_NODISCARD enum aw_err aw__daemon_reload(struct aw__daemon *daemon, struct aw_diag *diag);

#endif
