/*
 * lock.h - one writer per file, across processes.
 *
 * A file FILE-lock beside the store is locked with flock(2) and holds the process id, for messages.
 * The kernel drops the lock when the process ends in whatever way; a file left behind by kill -9 is
 * simply taken. The database file itself is not locked so: closing any descriptor of it would drop
 * the POSIX locks that SQLite holds (https://www.sqlite.org/howtocorrupt.html, section 2.2).
 */
#ifndef AW_STORE_SQLITE_LOCK_H
#define AW_STORE_SQLITE_LOCK_H

#include "base/file.h"

struct aw__lock {
    int fd_plus_1; /* 0: not held */
    char path[AW_FILE_PATH_MAX];
};
/* AW_ERR_UNAVAILABLE: another process, or another store of this one, has it. */
AW_NODISCARD enum aw_err aw__lock_take(struct aw__lock *lock, const char *file,
                                       struct aw_diag *diag);
void aw__lock_drop(struct aw__lock *lock); /* a zeroed one is a no-op */

#endif
