/*
 * daemon.h - what every daemon of this program does alike: its log, its state directory, the doors
 * by which others come in.
 *
 * Call order: log, door_read, lock; doors_open once an API is there, doors_close before it goes.
 * Memory:     plain structs.
 * Threads:    single owner.
 */
#ifndef AW_CLI_DAEMON_H
#define AW_CLI_DAEMON_H

#include "frame/verb.h"
#include "web/server.h"

/* Real seconds without a tick that are too many: learning for many workloads takes minutes. */
#define AW__DAEMON_STUCK_S 900.0

/* What an operator wants to see of normal life, unless they said otherwise; in journald's form
 * where stderr is its. */
void aw__daemon_log(const struct aw_call *run, struct aw_log *ret);

/* Makes the directory, for its owner alone where `private` and it is new, and takes it for this
 * process until `*ret_fd` is closed. AW_ERR_UNAVAILABLE: another one has it. After a failure
 * `*ret_fd` is to be closed unless it is -1, as which it was handed in. */
AW_NODISCARD enum aw_err aw__daemon_lock(const char *dir, bool private, int *ret_fd,
                                         struct aw_diag *diag);

/* --listen and --token-file. `door` is untouched where nothing is listened on. */
AW_NODISCARD enum aw_err aw__daemon_door_read(const struct aw_args *args, struct aw_door *door,
                                              struct aw_diag *diag);

struct aw__doors {
    struct aw_server *server, *page; /* on the Unix socket; by TCP, or NULL */
};
/* `door` with host "": the socket alone. */
AW_NODISCARD enum aw_err aw__doors_open(struct aw__doors *doors, struct aw_api *api,
                                        const char *socket, const struct aw_door *door,
                                        struct aw_diag *diag);
void aw__doors_close(struct aw__doors *doors); /* a zeroed one is a no-op */
/* One line with the page's address; nothing where there is none. */
void aw__doors_tell(const struct aw__doors *doors, const struct aw_door *door, struct aw_log *log);

#endif
