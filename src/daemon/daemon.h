/*
 * daemon.h - `aware run --daemon`: a run without end, with people in it.
 *
 * Memory:  the daemon's own, until it ends.
 * Threads: steps on one, the API on other threads; the caller's thread takes signals.
 */
#ifndef AW_DAEMON_DAEMON_H
#define AW_DAEMON_DAEMON_H

#include "daemon/config.h"

struct aw_daemon_life {
    /* What is to run: asked once at the beginning, and again at each hangup. Nothing is left on
     * failure. */
    enum aw_err (*read)(void *ctx, struct aw_daemon_config *ret, struct aw_diag *diag);
    void *ctx;
    struct aw_log *log;      /* borrowed */
    const char *version;     /* that the API tells */
    const _Atomic int *stop; /* the signal that ends it; 0: none yet */
    _Atomic int *hangup;     /* not 0: settings are to be read anew; set to 0 once they are */
};

/* Returns when it was stopped, or has come to the end of its steps. */
AW_NODISCARD enum aw_err aw_daemon_run(const struct aw_daemon_life *life, struct aw_diag *diag);

#endif
