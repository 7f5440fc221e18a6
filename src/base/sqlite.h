/*
 * sqlite.h - opens our SQLite files, refuses those of other programs, and says what went wrong.
 *
 * A kind of file is known by SQLite's application_id and user_version. A new file becomes one of
 * its kind in one transaction, marks included: killed at any moment it is either empty, and made
 * anew by the next open, or complete.
 *
 * Writers use the write-ahead log (https://www.sqlite.org/wal.html): one may read beside them.
 * Opening a locked file waits for AW_SQLITE_BUSY_MS.
 *
 * Call order: open, prepare, then SQLite's own functions; sqlite3_close.
 * Memory:     SQLite's.
 * Threads:    one owner at a time: SQLite's own mutexes are off.
 */
#ifndef AW_BASE_SQLITE_H
#define AW_BASE_SQLITE_H

#include <sqlite3.h>

#include <aware/err.h>

#define AW_SQLITE_BUSY_MS 5000 /* readers checkpointing, or a person with a shell */

/* What a kind of file is. */
struct aw_sqlite_kind {
    const char *name; /* "a store of trajectories": in "..., but not NAME" */
    int64_t application_id;
    int64_t version;    /* the only one that is read */
    const char *schema; /* makes an empty file one of these: BEGIN, both marks, COMMIT */
    enum aw_err empty;  /* what it is to find an empty file, read only */
    bool owner_only;    /* made with mode 0600 */
};

/* `settings`: statements that a writer begins with; may be NULL. `ret_empty` (may be NULL): it has
 * just been made. AW_ERR_NOTFOUND: cannot be opened. AW_ERR_FORMAT: not SQLite, damaged, of
 * another kind, or of a version that never was. AW_ERR_UNSUPPORTED: of a newer version.
 * AW_ERR_UNAVAILABLE: in use for too long. AW_ERR_IO, AW_ERR_NOMEM. On failure nothing is open. */
AW_NODISCARD enum aw_err aw_sqlite_open(sqlite3 **ret_db, const char *path, bool read_only,
                                        const struct aw_sqlite_kind *kind, const char *settings,
                                        bool *ret_empty, struct aw_diag *diag);
/* Statements that are used again and again. On failure some of `ret_statements` are there:
 * sqlite3_finalize takes NULL too. */
AW_NODISCARD enum aw_err aw_sqlite_prepare(sqlite3 *db, const char *path,
                                           const char *const *statements, uint32_t count,
                                           sqlite3_stmt **ret_statements, struct aw_diag *diag);
/* Statements without rows; a transaction that they leave open is rolled back on failure. */
AW_NODISCARD enum aw_err aw_sqlite_run(sqlite3 *db, const char *path, const char *statements,
                                       const char *doing, struct aw_diag *diag);

/* Where the file is damaged, puts it and what belongs to it aside, under a name with ".damaged" and
 * the time: what is made anew in its place begins empty. Files of up to AW_SQLITE_CHECK_BYTES are
 * read through, of larger ones the beginning. `ret_aside` of `size` bytes is "" where nothing was
 * done. A file that is busy, missing or another's is left alone. */
#define AW_SQLITE_CHECK_BYTES ((int64_t)256 << 20)
void aw_sqlite_set_aside(const char *path, int64_t now_us, char *ret_aside, size_t size);

/* What SQLite said last, for people: the file, what was tried ("read", "prepare the file") and why
 * it failed. */
enum aw_err aw_sqlite_fail(sqlite3 *db, const char *path, const char *doing, struct aw_diag *diag);

#endif
