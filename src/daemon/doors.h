/*
 * doors.h - what every daemon of this program does alike: its log, its state directory and what is
 * recorded there, the doors by which people and programs come in.
 *
 * Call order: log, door_read, lock, record_open; doors_open once an API is there, doors_close
 *             before it goes.
 * Memory:     plain structs.
 * Threads:    single owner.
 */
#ifndef AW_DAEMON_DOORS_H
#define AW_DAEMON_DOORS_H

#include "base/log.h"
#include "desk/desk.h"
#include "web/server.h"

/* Real seconds without a tick that are too many: learning for many workloads takes minutes. */
#define AW__DAEMON_STUCK_S 900.0

/* What an operator wants to see of normal life, unless they have said which level; in journald's
 * form where stderr is its, unless they have said which format. */
void aw_daemon_log(struct aw_log *log, bool level_given, bool format_given);

/* Makes the directory, for its owner alone where `private` and it is new, and takes it for this
 * process until `*ret_fd` is closed. AW_ERR_UNAVAILABLE: another one has it. After a failure
 * `*ret_fd` is to be closed unless it is -1, as which it was handed in. */
AW_NODISCARD enum aw_err aw_daemon_lock(const char *dir, bool private, int *ret_fd,
                                        struct aw_diag *diag);

/* A damaged file of a state directory is put aside and told of: the daemon goes on without it. */
void aw_daemon_mend(const char *path, struct aw_log *log);

/* The audit log and the journal of a state directory. What a crash has left of an entry is cut off,
 * and that is logged. */
struct aw_daemon_record {
    const char *state;
    bool virtual_time; /* as aw_desk_config has it */
    bool no_sync;
};
AW_NODISCARD enum aw_err aw_daemon_record_open(const struct aw_daemon_record *record,
                                               struct aw_log *log, struct aw_desk **ret_steward,
                                               struct aw_diag *diag);

/* What --listen and --token-file say, NULL where they do not. `door` is untouched where nothing is
 * listened on. */
AW_NODISCARD enum aw_err aw_daemon_door_read(const char *listen, const char *token,
                                             struct aw_listen_auth *door, struct aw_diag *diag);

/* What --probes says; NULL: nothing. */
AW_NODISCARD enum aw_err aw_daemon_probes_read(const char *listen, struct aw_listen_auth *probes,
                                               struct aw_diag *diag);

struct aw_doors {
    struct aw_server *server, *page, *probes; /* on the Unix socket; by TCP, or NULL */
};
/* `door` and `probes` with host "": none of them. */
AW_NODISCARD enum aw_err aw_doors_open(struct aw_doors *doors, struct aw_api *api,
                                       const char *socket, const struct aw_listen_auth *door,
                                       const struct aw_listen_auth *probes, struct aw_diag *diag);
void aw_doors_close(struct aw_doors *doors); /* a zeroed one is a no-op */
/* One line with the page's address; nothing without a page. */
void aw_doors_tell(const struct aw_doors *doors, const struct aw_listen_auth *door,
                   struct aw_log *log);

#endif
