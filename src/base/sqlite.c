/* sqlite.c - SQLite files of our own. */
#include "base/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum aw_err aw_sqlite_fail(sqlite3 *db, const char *path, const char *doing, struct aw_diag *diag)
{
    const char *text = sqlite3_errmsg(db);
    switch (sqlite3_errcode(db) & 0xff) {
    case SQLITE_NOTADB:
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "not an SQLite database");
    case SQLITE_CORRUPT:
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "damaged: %s", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, path, 0, 0, NULL,
                          "in use by another process: cannot %s", doing);
    case SQLITE_NOMEM:
        return aw_fail_at(diag, AW_ERR_NOMEM, path, 0, 0, NULL, "out of memory");
    case SQLITE_READONLY:
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, path, 0, 0, NULL,
                          "cannot %s: open for reading only", doing);
    default:
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot %s: %s", doing, text);
    }
}

enum aw_err aw_sqlite_run(sqlite3 *db, const char *path, const char *statements, const char *doing,
                          struct aw_diag *diag)
{
    if (sqlite3_exec(db, statements, NULL, NULL, NULL) == SQLITE_OK)
        return AW_OK;
    const enum aw_err err = aw_sqlite_fail(db, path, doing, diag);
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

enum aw_err aw_sqlite_prepare(sqlite3 *db, const char *path, const char *const *statements,
                              uint32_t count, sqlite3_stmt **ret_statements, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < count; i++)
        if (sqlite3_prepare_v3(db, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &ret_statements[i],
                               NULL) != SQLITE_OK)
            return aw_sqlite_fail(db, path, "read its tables", diag);
    return AW_OK;
}

static enum aw_err ask(sqlite3 *db, const char *path, const char *question, int64_t *ret,
                       struct aw_diag *diag)
{
    sqlite3_stmt *statement = NULL;
    enum aw_err err = AW_OK;
    if (sqlite3_prepare_v2(db, question, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        *ret = sqlite3_column_int64(statement, 0);
    else
        err = aw_sqlite_fail(db, path, "read the file", diag);
    sqlite3_finalize(statement);
    return err;
}

/* Whose file it is, before anything of it is touched. */
static enum aw_err look(sqlite3 *db, const char *path, const struct aw_sqlite_kind *kind,
                        bool *ret_empty, struct aw_diag *diag)
{
    int64_t application = 0, version = 0, tables = 0;
    enum aw_err err = ask(db, path, "SELECT count(*) FROM sqlite_schema", &tables, diag);
    err = err ? err : ask(db, path, "PRAGMA application_id", &application, diag);
    err = err ? err : ask(db, path, "PRAGMA user_version", &version, diag);
    if (err)
        return err;
    *ret_empty = tables == 0 && application == 0 && version == 0;
    if (*ret_empty)
        return AW_OK;
    if (application != kind->application_id)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "an SQLite database, but not %s",
                          kind->name);
    if (version > kind->version)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, path, 0, 0, NULL,
                          "written by a newer version: format %jd, this one reads %jd",
                          (intmax_t)version, (intmax_t)kind->version);
    if (version != kind->version)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "format %jd is not known",
                          (intmax_t)version);
    return AW_OK;
}

static enum aw_err set_up(sqlite3 *db, const char *path, bool read_only,
                          const struct aw_sqlite_kind *kind, const char *settings, bool *ret_empty,
                          struct aw_diag *diag)
{
    static const char doing[] = "prepare the file";
    bool empty = false;
    sqlite3_busy_timeout(db, AW_SQLITE_BUSY_MS);
    enum aw_err err = look(db, path, kind, &empty, diag);
    if (!err && empty && read_only)
        err = aw_fail_at(diag, kind->empty, path, 0, 0, NULL, "empty: nothing was kept yet");
    if (!err && !read_only) {
        err = aw_sqlite_run(db, path, "PRAGMA journal_mode = WAL", doing, diag);
        if (!err && settings)
            err = aw_sqlite_run(db, path, settings, doing, diag);
        if (!err && empty)
            err = aw_sqlite_run(db, path, kind->schema, doing, diag);
    }
    if (!err && ret_empty)
        *ret_empty = empty;
    return err;
}

static enum aw_err fail_open(sqlite3 *db, const char *path, struct aw_diag *diag)
{
    char text[128];
    if (!db)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if ((sqlite3_errcode(db) & 0xff) != SQLITE_CANTOPEN)
        return aw_sqlite_fail(db, path, "open", diag);
    return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL, "cannot open: %s",
                      strerror_r(sqlite3_system_errno(db), text, sizeof text));
}

enum aw_err aw_sqlite_open(sqlite3 **ret_db, const char *path, bool read_only,
                           const struct aw_sqlite_kind *kind, const char *settings, bool *ret_empty,
                           struct aw_diag *diag)
{
    sqlite3 *db = NULL;
    const int flags = read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (!read_only && kind->owner_only) { /* SQLite would make it for everybody to read */
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    const int code =
        sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    const enum aw_err err = code == SQLITE_OK
                                ? set_up(db, path, read_only, kind, settings, ret_empty, diag)
                                : fail_open(db, path, diag);
    if (err)
        sqlite3_close(db);
    else
        *ret_db = db;
    return err;
}

static bool damaged(const char *path)
{
    struct stat st;
    sqlite3 *db = NULL;
    sqlite3_stmt *check = NULL;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return false;
    int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(db, AW_SQLITE_BUSY_MS);
        code = sqlite3_prepare_v2(db,
                                  st.st_size <= AW_SQLITE_CHECK_BYTES ? "PRAGMA quick_check(1)"
                                                                      : "PRAGMA schema_version",
                                  -1, &check, NULL);
    }
    bool found = false;
    if (code == SQLITE_OK && (code = sqlite3_step(check)) == SQLITE_ROW &&
        st.st_size <= AW_SQLITE_CHECK_BYTES) {
        const char *text = (const char *)sqlite3_column_text(check, 0);
        found = !text || strcmp(text, "ok") != 0;
    }
    found |= (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    sqlite3_finalize(check);
    sqlite3_close(db);
    return found;
}

void aw_sqlite_set_aside(const char *path, int64_t now_us, char *ret_aside, size_t size)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    const int len = snprintf(ret_aside, size, "%s.damaged-%" PRId64, path, now_us / 1000000);
    if (len < 0 || (size_t)len + 8 >= size || !damaged(path) || rename(path, ret_aside) != 0) {
        *ret_aside = '\0';
        return;
    }
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++) {
        char from[4096], to[4096];
        if (snprintf(from, sizeof from, "%s%s", path, parts[i]) < (int)sizeof from &&
            snprintf(to, sizeof to, "%s%s", ret_aside, parts[i]) < (int)sizeof to &&
            rename(from, to) != 0 && errno != ENOENT)
            unlink(from); /* the next one must not be mended with what belongs to this one */
    }
}
