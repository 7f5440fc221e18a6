/* span_store.c - see span_store.h. */
#include "trace/span_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sqlite.h"
#include "trace/read.h"
#include "trace/write.h"

#define HOUR_NS INT64_C(3600000000000)

static const struct aw_sqlite_kind file_kind = {
    .name = "a store of traces",
    .application_id = 0x41775472, /* "AwTr" */
    .version = 1,
    .schema = "BEGIN;"
              "PRAGMA application_id = 1098339442;"
              "PRAGMA user_version = 1;"
              "CREATE TABLE trace (id BLOB NOT NULL UNIQUE, start_ns INTEGER NOT NULL,"
              " latency_ns INTEGER NOT NULL, type TEXT NOT NULL, spans INTEGER NOT NULL,"
              " errors INTEGER NOT NULL, otlp BLOB NOT NULL) STRICT;"
              "CREATE INDEX trace_start ON trace (start_ns);"
              "CREATE TABLE service (hour INTEGER NOT NULL, name TEXT NOT NULL,"
              " spans INTEGER NOT NULL, errors INTEGER NOT NULL, on_path_ns INTEGER NOT NULL,"
              " PRIMARY KEY (hour, name)) STRICT, WITHOUT ROWID;"
              "CREATE TABLE call (hour INTEGER NOT NULL, caller TEXT NOT NULL,"
              " callee TEXT NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL,"
              " gap_ns INTEGER NOT NULL, PRIMARY KEY (hour, caller, callee))"
              " STRICT, WITHOUT ROWID;"
              "COMMIT;",
    .empty = AW_ERR_NODATA,
    .owner_only = true,
};
_Static_assert(0x41775472 == 1098339442, "the schema has it in decimal");

enum { ADD_TRACE, ADD_SERVICE, ADD_CALL, DROP_OLD, DROP_MANY, DROP_SERVICE, DROP_CALL, STATEMENTS };
static const char *const statements[STATEMENTS] = {
    [ADD_TRACE] = ("INSERT OR IGNORE INTO trace VALUES (?, ?, ?, ?, ?, ?, ?)"),
    [ADD_SERVICE] = ("INSERT INTO service VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                     " spans = spans + excluded.spans, errors = errors + excluded.errors,"
                     " on_path_ns = on_path_ns + excluded.on_path_ns"),
    [ADD_CALL] = ("INSERT INTO call VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET"
                  " calls = calls + 1, errors = errors + excluded.errors,"
                  " gap_ns = gap_ns + excluded.gap_ns"),
    [DROP_OLD] = ("DELETE FROM trace WHERE start_ns < ?"),
    [DROP_MANY] = ("DELETE FROM trace WHERE start_ns < (SELECT start_ns FROM trace"
                   " ORDER BY start_ns DESC LIMIT 1 OFFSET ?)"),
    [DROP_SERVICE] = ("DELETE FROM service WHERE hour < ?"),
    [DROP_CALL] = ("DELETE FROM call WHERE hour < ?"),
};

struct aw_span_store {
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENTS];
    char path[AW_FILE_PATH_MAX];
    struct aw_bytes bytes;
};

bool aw_span_store_is(const char *path)
{
    char head[16] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t len = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return len == (ssize_t)sizeof head && !memcmp(head, "SQLite format 3", 16);
}

enum aw_err aw_span_store_open(struct aw_span_store **ret, const char *path, bool read_only,
                               struct aw_diag *diag)
{
    struct aw_span_store *store = aw_alloc_new(NULL, 1, sizeof *store);
    if (!store)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    snprintf(store->path, sizeof store->path, "%s", path);
    /* a power cut may cost the last second of traces, never the file */
    enum aw_err err = aw_sqlite_open(&store->db, path, read_only, &file_kind,
                                     "PRAGMA synchronous = NORMAL;", NULL, diag);
    if (!err && !read_only)
        err = aw_sqlite_prepare(store->db, path, statements, STATEMENTS, store->statement, diag);
    if (err) {
        aw_span_store_close(store);
        return err;
    }
    *ret = store;
    return AW_OK;
}

void aw_span_store_close(struct aw_span_store *store)
{
    if (!store)
        return;
    for (uint32_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statement[i]);
    sqlite3_close(store->db);
    aw_alloc_free(NULL, store->bytes.bytes);
    aw_alloc_free(NULL, store);
}

enum aw_err aw_span_store_begin(struct aw_span_store *store, struct aw_diag *diag)
{
    return aw_sqlite_run(store->db, store->path, "BEGIN IMMEDIATE", "write", diag);
}

enum aw_err aw_span_store_commit(struct aw_span_store *store, struct aw_diag *diag)
{
    return aw_sqlite_run(store->db, store->path, "COMMIT", "write", diag);
}

void aw_span_store_rollback(struct aw_span_store *store)
{
    sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

/* Runs a statement whose values are bound. */
static enum aw_err step(struct aw_span_store *store, uint32_t which, struct aw_diag *diag)
{
    sqlite3_stmt *statement = store->statement[which];
    const int status = sqlite3_step(statement);
    const enum aw_err err = status == SQLITE_DONE || status == SQLITE_ROW
                                ? AW_OK
                                : aw_sqlite_fail(store->db, store->path, "write", diag);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return err;
}

static void bind_text(sqlite3_stmt *statement, int place, const char *text)
{
    sqlite3_bind_text(statement, place, text, -1, SQLITE_STATIC);
}

static enum aw_err add_trace(struct aw_span_store *store, const struct aw_request *request,
                             uint32_t type, const struct aw_names *names, bool *ret_new,
                             struct aw_diag *diag)
{
    sqlite3_stmt *statement = store->statement[ADD_TRACE];
    const uint64_t id[2] = {__builtin_bswap64(request->spans[0].trace_hi),
                            __builtin_bswap64(request->spans[0].trace_lo)};
    int64_t errors = 0;
    store->bytes.size = 0;
    if (aw_spans_write_otlp(request->spans, request->count, names, &store->bytes))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the spans of a request");
    for (uint32_t i = 0; i < request->count; i++)
        errors += (request->spans[i].flags & AW_SPAN_ERROR) != 0;
    sqlite3_bind_blob(statement, 1, id, sizeof id, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, request->spans[request->root].start_ns);
    sqlite3_bind_int64(statement, 3, aw_request_latency_ns(request));
    bind_text(statement, 4, aw_names_text(names, type));
    sqlite3_bind_int64(statement, 5, request->count);
    sqlite3_bind_int64(statement, 6, errors);
    sqlite3_bind_blob64(statement, 7, store->bytes.bytes, store->bytes.size, SQLITE_STATIC);
    const enum aw_err err = step(store, ADD_TRACE, diag);
    *ret_new = sqlite3_changes(store->db) > 0;
    return err;
}

/* Spans of one service, one after the other, as one row: they mostly stand together. */
static enum aw_err add_services(struct aw_span_store *store, const struct aw_request *request,
                                const struct aw_names *names, int64_t hour, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t from = 0, until; from < request->count && !err; from = until) {
        int64_t errors = 0, on_path_ns = 0;
        for (until = from; until < request->count &&
                           request->spans[until].service == request->spans[from].service;
             until++) {
            errors += (request->spans[until].flags & AW_SPAN_ERROR) != 0;
            on_path_ns += request->nodes[until].exclusive_ns;
        }
        sqlite3_stmt *statement = store->statement[ADD_SERVICE];
        sqlite3_bind_int64(statement, 1, hour);
        bind_text(statement, 2, aw_names_text(names, request->spans[from].service));
        sqlite3_bind_int64(statement, 3, until - from);
        sqlite3_bind_int64(statement, 4, errors);
        sqlite3_bind_int64(statement, 5, on_path_ns);
        err = step(store, ADD_SERVICE, diag);
    }
    return err;
}

static enum aw_err add_calls(struct aw_span_store *store, const struct aw_request *request,
                             const struct aw_names *names, int64_t hour, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < request->count && !err; i++) {
        const uint32_t parent = request->nodes[i].parent;
        const struct aw_span *span = &request->spans[i];
        if (parent == AW_NODE_NONE || request->spans[parent].service == span->service)
            continue;
        const struct aw_span *caller = &request->spans[parent];
        const int64_t gap = (caller->end_ns - caller->start_ns) - (span->end_ns - span->start_ns);
        sqlite3_stmt *statement = store->statement[ADD_CALL];
        sqlite3_bind_int64(statement, 1, hour);
        bind_text(statement, 2, aw_names_text(names, caller->service));
        bind_text(statement, 3, aw_names_text(names, span->service));
        sqlite3_bind_int64(statement, 4, (span->flags & AW_SPAN_ERROR) != 0);
        sqlite3_bind_int64(statement, 5,
                           request->nodes[parent].kind == AW_SPAN_CLIENT && gap > 0 ? gap : 0);
        err = step(store, ADD_CALL, diag);
    }
    return err;
}

enum aw_err aw_span_store_add(struct aw_span_store *store, const struct aw_request *request,
                              uint32_t type, const struct aw_names *names, struct aw_diag *diag)
{
    const int64_t hour = request->spans[request->root].start_ns / HOUR_NS;
    bool is_new = false;
    enum aw_err err = add_trace(store, request, type, names, &is_new, diag);
    if (!err && is_new)
        err = add_services(store, request, names, hour, diag);
    if (!err && is_new)
        err = add_calls(store, request, names, hour, diag);
    return err;
}

enum aw_err aw_span_store_retain(struct aw_span_store *store, int64_t before_ns,
                                 uint64_t traces_max, struct aw_diag *diag)
{
    static const uint32_t by_hour[] = {DROP_SERVICE, DROP_CALL};
    enum aw_err err = aw_span_store_begin(store, diag);
    if (err)
        return err;
    sqlite3_bind_int64(store->statement[DROP_OLD], 1, before_ns);
    err = step(store, DROP_OLD, diag);
    if (!err && traces_max) {
        sqlite3_bind_int64(store->statement[DROP_MANY], 1, (int64_t)traces_max - 1);
        err = step(store, DROP_MANY, diag);
    }
    for (uint32_t i = 0; i < 2 && !err; i++) {
        sqlite3_bind_int64(store->statement[by_hour[i]], 1, before_ns / HOUR_NS);
        err = step(store, by_hour[i], diag);
    }
    if (!err)
        return aw_span_store_commit(store, diag);
    aw_span_store_rollback(store);
    return err;
}

enum aw_err aw_span_store_count(struct aw_span_store *store, uint64_t *ret_traces,
                                struct aw_diag *diag)
{
    sqlite3_stmt *statement = NULL;
    enum aw_err err = AW_OK;
    if (sqlite3_prepare_v2(store->db, "SELECT count(*) FROM trace", -1, &statement, NULL) ||
        sqlite3_step(statement) != SQLITE_ROW)
        err = aw_sqlite_fail(store->db, store->path, "read", diag);
    else
        *ret_traces = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return err;
}

enum aw_err aw_span_store_read(struct aw_span_store *store, struct aw_spans *spans,
                               struct aw_diag *diag)
{
    sqlite3_stmt *statement = NULL;
    enum aw_err err = AW_OK;
    int status = SQLITE_ROW;
    if (sqlite3_prepare_v2(store->db, "SELECT otlp FROM trace ORDER BY start_ns DESC", -1,
                           &statement, NULL))
        err = aw_sqlite_fail(store->db, store->path, "read", diag);
    while (!err && spans->count < spans->max && (status = sqlite3_step(statement)) == SQLITE_ROW) {
        const void *bytes = sqlite3_column_blob(statement, 0);
        const int size = sqlite3_column_bytes(statement, 0);
        err = aw_spans_read_otlp(spans, store->path, bytes, (size_t)size, diag);
    }
    if (!err && status != SQLITE_ROW && status != SQLITE_DONE)
        err = aw_sqlite_fail(store->db, store->path, "read", diag);
    sqlite3_finalize(statement);
    return err;
}
