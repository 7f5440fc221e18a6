/*
 * schema.c - opens, creates or refuses an SQLite file.
 *
 * Durability (https://www.sqlite.org/pragma.html#pragma_synchronous): in WAL mode with
 * synchronous=NORMAL a commit is written to the log file by write(2) and not synced. The kernel
 * has it then, so the death of the process loses nothing; a power cut may lose the latest commits
 * but leaves the file intact. `power_safe` asks for FULL: every commit is synced.
 *
 * A new file becomes a store in one transaction, marks included: killed at any moment it is either
 * empty, and made anew by the next open, or complete.
 */
#include <stdio.h>
#include <string.h>

#include "store/sqlite/sqlite.h"

#define APPLICATION_ID  0x41575354 /* "AWST" */
#define FORMAT_VERSION  1
#define BUSY_TIMEOUT_MS 5000 /* readers checkpointing, or a person with a shell */

/* A tick of many workloads touches a page or two of each: 16 MiB of pages are kept at hand, and the
 * log is moved into the file every 16 MiB instead of every 4 (docs/mechanisms/store.md has
 * figures).
 */
#define TUNING "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4096"

static const char *const schema =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE workload(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE episode(workload INTEGER NOT NULL REFERENCES workload(id), "
    " episode INTEGER NOT NULL, steps INTEGER NOT NULL, reward_sum REAL NOT NULL, "
    " violations INTEGER NOT NULL, first_us INTEGER NOT NULL, last_us INTEGER NOT NULL, "
    " ended INTEGER NOT NULL, PRIMARY KEY(workload, episode)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE step(workload INTEGER NOT NULL REFERENCES workload(id), "
    " episode INTEGER NOT NULL, step INTEGER NOT NULL, at_us INTEGER NOT NULL, "
    " stage INTEGER NOT NULL, actor INTEGER NOT NULL, model INTEGER NOT NULL, "
    " obs BLOB NOT NULL, next_obs BLOB NOT NULL, action BLOB NOT NULL, shadow BLOB, "
    " reward REAL NOT NULL, terminated INTEGER NOT NULL, truncated INTEGER NOT NULL, "
    " arrivals_per_s REAL, latency_us_p99 REAL, slo_preservation REAL, cpu_utilisation REAL, "
    " memory_utilisation REAL, cost REAL, paper_reward REAL, replicas INTEGER NOT NULL, "
    " violated INTEGER NOT NULL, cpu_millicores INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, "
    " UNIQUE(workload, episode, step)) STRICT;"
    "PRAGMA application_id = 1096242004;" /* APPLICATION_ID */
    "PRAGMA user_version = 1;"            /* FORMAT_VERSION */
    "COMMIT;";
_Static_assert(APPLICATION_ID == 1096242004 && FORMAT_VERSION == 1, "as the schema says");

static const char *const statement_text[] = {
#define X(id, text) text,
    AW__STATEMENT_MAP(X)
#undef X
};

enum aw_err aw__sqlite_fail(struct aw__sqlite *s, const char *doing, struct aw_diag *diag)
{
    int code = sqlite3_errcode(s->db);
    const char *text = sqlite3_errmsg(s->db);
    switch (code & 0xff) {
    case SQLITE_NOTADB:
        return aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL, "not an SQLite database");
    case SQLITE_CORRUPT:
        return aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL, "damaged: %s", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, s->path, 0, 0, NULL,
                          "in use by another process: cannot %s", doing);
    case SQLITE_NOMEM:
        return aw_fail_at(diag, AW_ERR_NOMEM, s->path, 0, 0, NULL, "out of memory");
    case SQLITE_READONLY:
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, s->path, 0, 0, NULL,
                          "cannot %s: open for reading only", doing);
    default:
        return aw_fail_at(diag, AW_ERR_IO, s->path, 0, 0, NULL, "cannot %s: %s", doing, text);
    }
}

static enum aw_err run(struct aw__sqlite *s, const char *text, struct aw_diag *diag)
{
    if (sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK)
        return AW_OK;
    enum aw_err err = aw__sqlite_fail(s, "prepare the file", diag);
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

static enum aw_err get_number(struct aw__sqlite *s, const char *text, int64_t *ret,
                              struct aw_diag *diag)
{
    sqlite3_stmt *statement = NULL;
    enum aw_err err = AW_OK;
    if (sqlite3_prepare_v2(s->db, text, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        *ret = sqlite3_column_int64(statement, 0);
    else
        err = aw__sqlite_fail(s, "read the file", diag);
    sqlite3_finalize(statement);
    return err;
}

/* Whose file it is, before anything of it is touched. */
static enum aw_err look(struct aw__sqlite *s, bool *ret_empty, struct aw_diag *diag)
{
    int64_t application = 0, version = 0, tables = 0;
    enum aw_err err = get_number(s, "SELECT count(*) FROM sqlite_schema", &tables, diag);
    if (err || (err = get_number(s, "PRAGMA application_id", &application, diag)) ||
        (err = get_number(s, "PRAGMA user_version", &version, diag)))
        return err;
    *ret_empty = tables == 0 && application == 0 && version == 0;
    if (*ret_empty)
        return AW_OK;
    if (application != APPLICATION_ID)
        return aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL,
                          "an SQLite database, but not a store of trajectories");
    if (version > FORMAT_VERSION)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, s->path, 0, 0, NULL,
                          "written by a newer version: format %jd, this one reads %d",
                          (intmax_t)version, FORMAT_VERSION);
    if (version != FORMAT_VERSION)
        return aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL, "format %jd is not known",
                          (intmax_t)version);
    return AW_OK;
}

enum aw_err aw__sqlite_open(struct aw__sqlite *s, const char *path,
                            const struct aw_store_options *options, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    bool empty = false;
    int flags =
        options->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int len = snprintf(s->path, sizeof s->path, "%s", path);
    if (len <= 0 || (size_t)len >= sizeof s->path)
        return aw_fail(diag, AW_ERR_RANGE, "expected a path of 1 to %u bytes",
                       AW_FILE_PATH_MAX - 1);
    if (!options->read_only && (err = aw__lock_take(&s->lock, path, diag)))
        return err;
    /* the owner is one thread at a time; SQLite's own mutexes would only cost */
    if (sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL) !=
        SQLITE_OK) {
        char text[128];
        if (!s->db)
            return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
        if ((sqlite3_errcode(s->db) & 0xff) != SQLITE_CANTOPEN)
            return aw__sqlite_fail(s, "open", diag);
        return aw_fail_at(diag, AW_ERR_NOTFOUND, s->path, 0, 0, NULL, "cannot open: %s",
                          strerror_r(sqlite3_system_errno(s->db), text, sizeof text));
    }
    sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    if ((err = look(s, &empty, diag)))
        return err;
    if (empty && options->read_only)
        return aw_fail_at(diag, AW_ERR_NODATA, s->path, 0, 0, NULL, "empty: nothing was kept yet");
    if (!options->read_only &&
        ((err = run(s, "PRAGMA journal_mode = WAL", diag)) || (err = run(s, TUNING, diag)) ||
         (err = run(
              s, options->power_safe ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
              diag)) ||
         (empty && (err = run(s, schema, diag)))))
        return err;
    for (uint32_t i = 0; i < AW__STATEMENT_COUNT; i++) {
        if (sqlite3_prepare_v3(s->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->statement[i], NULL) != SQLITE_OK)
            return aw__sqlite_fail(s, "read its tables", diag);
    }
    return AW_OK;
}
