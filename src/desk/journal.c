/*
 * journal.c - the journal in SQLite.
 *
 * An entry is one row: what is small in columns, account and moment deflated. Configs hardly ever
 * change, so each text is kept once and found by a hash; a hash that two texts share is told apart
 * by the text. Numbers in blobs are little-endian, as everywhere we run.
 *
 * What is kept is bounded twice: so many entries of each workload, and so many bytes in all, of
 * which the oldest give way. Both happen in the transaction that adds, so a journal is never larger
 * than it may be.
 */
#include "desk/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/sqlite.h"

#define APPLICATION_ID 0x41574a4e /* "AWJN" */
#define FORMAT_VERSION 1
#define INFLATED_MAX   (64u << 20) /* of one text or moment; a damaged row must not ask for more */
#define GIVE_WAY       16          /* one in so many entries goes when there is no more room */
#define CACHE_KIB      "2048"      /* of pages: entries are put at the end, and hardly ever read */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blobs are little-endian");

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE workload(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE config(id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    " text BLOB NOT NULL) STRICT;"
    "CREATE INDEX config_hash ON config(hash);"
    "CREATE TABLE entry(id INTEGER PRIMARY KEY, workload INTEGER NOT NULL REFERENCES workload(id), "
    " at_us INTEGER NOT NULL, config INTEGER NOT NULL REFERENCES config(id), orders BLOB, "
    " account_bytes INTEGER NOT NULL, account BLOB NOT NULL, "
    " moment_bytes INTEGER NOT NULL, moment BLOB) STRICT;"
    "CREATE INDEX entry_workload ON entry(workload, at_us, id);"
    "CREATE INDEX entry_at ON entry(at_us, id);"
    "PRAGMA application_id = 1096239694;" /* APPLICATION_ID */
    "PRAGMA user_version = 1;"            /* FORMAT_VERSION */
    "COMMIT;";
_Static_assert(APPLICATION_ID == 1096239694 && FORMAT_VERSION == 1, "as the schema says");

/* What runs here and how busy it is, is nobody else's business. */
static const struct aw_sqlite_kind kind = {.name = "a journal of decisions",
                                           .application_id = APPLICATION_ID,
                                           .version = FORMAT_VERSION,
                                           .schema = schema,
                                           .empty = AW_ERR_NOTFOUND,
                                           .owner_only = true};

/* clang-format off */
#define ENTRY_COLUMNS "e.id, w.name, e.at_us, e.orders, e.account_bytes, e.account"
#define ENTRY_WHOLE                                                                                \
    "SELECT " ENTRY_COLUMNS ", c.bytes, c.text, e.moment_bytes, e.moment FROM entry e "            \
    "JOIN workload w ON w.id = e.workload JOIN config c ON c.id = e.config "
#define ENTRY_LISTED                                                                               \
    "SELECT " ENTRY_COLUMNS " FROM entry e JOIN workload w ON w.id = e.workload "

/*     id             text  */
#define STATEMENT_MAP(X)                                                                           \
    X(BEGIN,          "BEGIN IMMEDIATE")                                                           \
    X(COMMIT,         "COMMIT")                                                                    \
    X(ROLLBACK,       "ROLLBACK")                                                                  \
    X(WORKLOAD_ID,    "SELECT id FROM workload WHERE name = ?1")                                   \
    X(WORKLOAD_NEW,   "INSERT INTO workload(name) VALUES (?1)")                                    \
    X(CONFIG_FIND,    "SELECT id, bytes, text FROM config WHERE hash = ?1")                        \
    X(CONFIG_NEW,     "INSERT INTO config(hash, bytes, text) VALUES (?1, ?2, ?3)")                 \
    X(ENTRY_PUT,      "INSERT OR REPLACE INTO entry(id, workload, at_us, config, orders, "         \
                      "account_bytes, account, moment_bytes, moment) "                             \
                      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")                               \
    X(FORGET,         "DELETE FROM entry WHERE id IN (SELECT id FROM entry WHERE workload = ?1 "   \
                      "ORDER BY at_us DESC, id DESC LIMIT -1 OFFSET ?2)")                          \
    X(MAKE_ROOM,      "DELETE FROM entry WHERE id IN (SELECT id FROM entry ORDER BY at_us, id "    \
                      "LIMIT 1 + (SELECT count(*) FROM entry) / ?1)")                              \
    X(PAGES,          "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, "  \
                      "pragma_freelist_count, pragma_page_size")                                   \
    X(GET,            ENTRY_WHOLE "WHERE e.id = ?1")                                               \
    X(LATEST,         ENTRY_WHOLE "WHERE w.name = ?1 AND e.at_us <= ?2 "                           \
                      "ORDER BY e.at_us DESC, e.id DESC LIMIT 1")                                  \
    X(LIST,           ENTRY_LISTED "WHERE w.name = ?1 AND e.at_us >= ?2 "                          \
                      "ORDER BY e.at_us DESC, e.id DESC LIMIT ?3")                                 \
    X(LIST_ALL,       ENTRY_LISTED "WHERE e.at_us >= ?2 ORDER BY e.at_us DESC, e.id DESC LIMIT ?3")
/* clang-format on */

enum statement {
#define X(id, text) id,
    STATEMENT_MAP(X)
#undef X
        STATEMENTS
};
static const char *const statement_text[] = {
#define X(id, text) text,
    STATEMENT_MAP(X)
#undef X
};

struct aw_journal {
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENTS];
    uint32_t per_workload;
    bool read_only;
    bool begun;
    bool lost;              /* a failure since begin has taken everything back */
    unsigned char *scratch; /* deflated bytes of what is being put */
    size_t scratch_bytes;
    char path[AW_FILE_PATH_MAX];
};

/* --- SQLite ------------------------------------------------------------------------------------
 */

static enum aw_err fail(const struct aw_journal *j, const char *doing, struct aw_diag *diag)
{
    return aw_sqlite_fail(j->db, j->path, doing, diag);
}

static enum aw_err damaged(const struct aw_journal *j, const char *what, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_FORMAT, j->path, 0, 0, NULL, "damaged: %s", what);
}

static sqlite3_stmt *fresh(struct aw_journal *j, enum statement id)
{
    sqlite3_reset(j->statement[id]);
    return j->statement[id];
}

/* Runs a bound statement that yields no row. */
static enum aw_err finish(struct aw_journal *j, enum statement id, const char *doing,
                          struct aw_diag *diag)
{
    const int code = sqlite3_step(j->statement[id]);
    const enum aw_err err = code == SQLITE_DONE ? AW_OK : fail(j, doing, diag);
    sqlite3_reset(j->statement[id]);
    return err;
}

/* The first column of the first row of a bound statement; 0: there is none. */
static enum aw_err number(struct aw_journal *j, enum statement id, int64_t *ret,
                          struct aw_diag *diag)
{
    const int code = sqlite3_step(j->statement[id]);
    enum aw_err err = AW_OK;
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_int64(j->statement[id], 0);
    else if (code == SQLITE_DONE)
        *ret = 0;
    else
        err = fail(j, "read", diag);
    sqlite3_reset(j->statement[id]);
    return err;
}

/* --- opened and closed ------------------------------------------------------------------------
 */

/* Configs that the last of their decisions has left; a run has few of them, so once is enough. */
#define TIDY "DELETE FROM config WHERE id NOT IN (SELECT config FROM entry)"

static enum aw_err prepare(struct aw_journal *j, struct aw_diag *diag)
{
    bool empty = false;
    enum aw_err err = aw_sqlite_open(&j->db, j->path, j->read_only, &kind,
                                     "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -" CACHE_KIB,
                                     &empty, diag);
    if (!err && !empty && !j->read_only)
        err = aw_sqlite_run(j->db, j->path, TIDY, "prepare the file", diag);
    return err ? err
               : aw_sqlite_prepare(j->db, j->path, statement_text, STATEMENTS, j->statement, diag);
}

enum aw_err aw_journal_open(struct aw_journal **ret, const char *path, bool read_only,
                            uint32_t per_workload, struct aw_diag *diag)
{
    struct aw_journal *j = calloc(1, sizeof *j);
    if (!j)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    j->read_only = read_only;
    j->per_workload = per_workload ? per_workload : AW_JOURNAL_PER_WORKLOAD;
    const int len = snprintf(j->path, sizeof j->path, "%s", path);
    enum aw_err err =
        len > 0 && (size_t)len < sizeof j->path
            ? prepare(j, diag)
            : aw_fail(diag, AW_ERR_RANGE, "expected a path of 1 to %u bytes", AW_FILE_PATH_MAX - 1);
    if (err) {
        aw_journal_close(j);
        return err;
    }
    *ret = j;
    return AW_OK;
}

static void roll_back(struct aw_journal *j)
{
    fresh(j, ROLLBACK);
    if (!sqlite3_get_autocommit(j->db) && finish(j, ROLLBACK, "take back", NULL))
        return; /* the failure that led here is the one to tell */
}

void aw_journal_close(struct aw_journal *j)
{
    if (!j)
        return;
    if (j->db && j->statement[ROLLBACK])
        roll_back(j);
    for (uint32_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(j->statement[i]);
    sqlite3_close(j->db);
    free(j->scratch);
    free(j);
}

/* --- put ---------------------------------------------------------------------------------------
 */

/* People's orders, then what the arbiter left; journals of before have none of that. */
enum { PLAN = 1 + AW_RESOURCES, GRANT = 8, PEOPLE = 6 + 2 * PLAN, ORDERS = PEOPLE + GRANT };

static void pack_plan(const struct aw_plan *plan, int64_t packed[PLAN])
{
    packed[0] = (int64_t)plan->set;
    memcpy(packed + 1, plan->amount, sizeof plan->amount);
}

static void unpack_plan(const int64_t packed[PLAN], struct aw_plan *ret)
{
    ret->set = (uint64_t)packed[0];
    memcpy(ret->amount, packed + 1, sizeof ret->amount);
}

/* False: nothing was ordered. */
static bool pack_orders(const struct aw_orders *o, int64_t packed[ORDERS])
{
    const int64_t head[] = {o->freeze, o->pin_kind, (int64_t)o->freeze_id, (int64_t)o->pin_id,
                            (int64_t)o->floor_id};
    bool any = false;
    memcpy(packed, head, sizeof head);
    pack_plan(&o->pin, packed + 5);
    pack_plan(&o->floor, packed + 5 + PLAN);
    packed[PEOPLE - 1] = o->urgent;
    const struct aw_order_grant *g = &o->grant;
    const int64_t grant[GRANT] = {g->reason,    g->asked,  g->got,  g->target,
                                  g->same_size, g->wait_s, g->rank, g->of};
    memcpy(packed + PEOPLE, grant, sizeof grant);
    for (uint32_t i = 0; i < ORDERS; i++)
        any |= packed[i] != 0;
    return any;
}

static void unpack_orders(const int64_t packed[ORDERS], struct aw_orders *ret)
{
    *ret = (struct aw_orders){.freeze = (uint32_t)packed[0],
                              .pin_kind = (uint32_t)packed[1],
                              .freeze_id = (uint64_t)packed[2],
                              .pin_id = (uint64_t)packed[3],
                              .floor_id = (uint64_t)packed[4],
                              .urgent = packed[PEOPLE - 1] != 0};
    const int64_t *g = packed + PEOPLE;
    ret->grant = (struct aw_order_grant){.reason = (uint32_t)g[0],
                                         .asked = (uint32_t)g[1],
                                         .got = (uint32_t)g[2],
                                         .target = (uint32_t)g[3],
                                         .same_size = (uint32_t)g[4],
                                         .wait_s = (uint32_t)g[5],
                                         .rank = (uint32_t)g[6],
                                         .of = (uint32_t)g[7]};
    unpack_plan(packed + 5, &ret->pin);
    unpack_plan(packed + 5 + PLAN, &ret->floor);
}

/* Deflates into the scratch behind `*used`, which moves on. Offsets, not addresses: it may move. */
static enum aw_err deflate_more(struct aw_journal *j, const void *bytes, size_t size, size_t *used,
                                struct aw_diag *diag)
{
    if (size > INFLATED_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected at most %u bytes, found %zu", INFLATED_MAX,
                       size);
    uLongf room = compressBound(size);
    if (*used + room > j->scratch_bytes) {
        unsigned char *more = realloc(j->scratch, *used + room);
        if (!more)
            return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
        j->scratch = more;
        j->scratch_bytes = *used + room;
    }
    /* fast: a moment of many workloads is put in every tick, and hardly any is ever asked for */
    if (compress2(j->scratch + *used, &room, bytes, size, Z_BEST_SPEED) != Z_OK)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    *used += room;
    return AW_OK;
}

/* One block with a NUL behind it. */
static enum aw_err inflate_all(const struct aw_journal *j, const void *bytes, int size,
                               int64_t into, void **ret, struct aw_diag *diag)
{
    if (!bytes || into < 0 || into > INFLATED_MAX)
        return damaged(j, "an entry lacks its account, config or moment", diag);
    unsigned char *block = malloc((size_t)into + 1);
    if (!block)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    uLongf room = (uLongf)into;
    const int code = uncompress(block, &room, bytes, (uLong)size);
    if (code != Z_OK || room != (uLongf)into) {
        free(block);
        return code == Z_MEM_ERROR ? aw_fail(diag, AW_ERR_NOMEM, "out of memory")
                                   : damaged(j, "an entry cannot be unpacked", diag);
    }
    block[into] = '\0';
    *ret = block;
    return AW_OK;
}

static enum aw_err workload_id(struct aw_journal *j, const char *name, int64_t *ret,
                               struct aw_diag *diag)
{
    sqlite3_bind_text(fresh(j, WORKLOAD_ID), 1, name, -1, SQLITE_STATIC);
    enum aw_err err = number(j, WORKLOAD_ID, ret, diag);
    if (err || *ret)
        return err;
    sqlite3_bind_text(fresh(j, WORKLOAD_NEW), 1, name, -1, SQLITE_STATIC);
    err = finish(j, WORKLOAD_NEW, "write", diag);
    *ret = sqlite3_last_insert_rowid(j->db);
    return err;
}

static enum aw_err config_id(struct aw_journal *j, const char *text, int64_t *ret,
                             struct aw_diag *diag)
{
    const int64_t hash = (int64_t)aw_hash_text(AW_HASH_BEGIN, text);
    sqlite3_stmt *find = fresh(j, CONFIG_FIND);
    enum aw_err err = AW_OK;
    int code = SQLITE_ROW;
    *ret = 0;
    sqlite3_bind_int64(find, 1, hash);
    while (!err && !*ret && (code = sqlite3_step(find)) == SQLITE_ROW) {
        void *kept = NULL;
        err = inflate_all(j, sqlite3_column_blob(find, 2), sqlite3_column_bytes(find, 2),
                          sqlite3_column_int64(find, 1), &kept, diag);
        if (!err && strcmp(kept, text) == 0)
            *ret = sqlite3_column_int64(find, 0);
        free(kept);
    }
    if (!err && code != SQLITE_ROW && code != SQLITE_DONE)
        err = fail(j, "read", diag);
    sqlite3_reset(find);
    if (err || *ret)
        return err;
    size_t used = 0;
    if ((err = deflate_more(j, text, strlen(text), &used, diag)))
        return err;
    sqlite3_stmt *put = fresh(j, CONFIG_NEW);
    sqlite3_bind_int64(put, 1, hash);
    sqlite3_bind_int64(put, 2, (int64_t)strlen(text));
    sqlite3_bind_blob(put, 3, j->scratch, (int)used, SQLITE_STATIC);
    err = finish(j, CONFIG_NEW, "write", diag);
    *ret = sqlite3_last_insert_rowid(j->db);
    return err;
}

struct putting {
    uint64_t id;
    const char *workload;
    int64_t at_us;
    const struct aw_orders *orders; /* NULL: none */
    const char *account;
    int64_t config;     /* its number */
    const void *moment; /* NULL: none */
    size_t moment_bytes;
};

static enum aw_err put(struct aw_journal *j, const struct putting *entry, struct aw_diag *diag)
{
    int64_t workload = 0, orders[ORDERS];
    size_t used = 0, account_end = 0;
    enum aw_err err = workload_id(j, entry->workload, &workload, diag);
    err = err ? err : deflate_more(j, entry->account, strlen(entry->account), &used, diag);
    account_end = used;
    if (!err && entry->moment)
        err = deflate_more(j, entry->moment, entry->moment_bytes, &used, diag);
    if (err)
        return err;
    sqlite3_stmt *to = fresh(j, ENTRY_PUT);
    sqlite3_bind_int64(to, 1, (int64_t)entry->id);
    sqlite3_bind_int64(to, 2, workload);
    sqlite3_bind_int64(to, 3, entry->at_us);
    sqlite3_bind_int64(to, 4, entry->config);
    if (entry->orders && pack_orders(entry->orders, orders))
        sqlite3_bind_blob(to, 5, orders, sizeof orders, SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(to, 5);
    sqlite3_bind_int64(to, 6, (int64_t)strlen(entry->account));
    sqlite3_bind_blob(to, 7, j->scratch, (int)account_end, SQLITE_STATIC);
    sqlite3_bind_int64(to, 8, (int64_t)entry->moment_bytes);
    if (entry->moment)
        sqlite3_bind_blob(to, 9, j->scratch + account_end, (int)(used - account_end),
                          SQLITE_STATIC);
    else
        sqlite3_bind_null(to, 9);
    if ((err = finish(j, ENTRY_PUT, "write", diag)))
        return err;
    sqlite3_stmt *forget = fresh(j, FORGET);
    sqlite3_bind_int64(forget, 1, workload);
    sqlite3_bind_int64(forget, 2, j->per_workload);
    return finish(j, FORGET, "forget the oldest", diag);
}

enum aw_err aw_journal_begin(struct aw_journal *j, struct aw_diag *diag)
{
    AW_ASSERT(!j->begun);
    if (j->read_only) /* SQLite itself would only say so at the first put */
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, j->path, 0, 0, NULL,
                          "cannot write: open for reading only");
    fresh(j, BEGIN);
    const enum aw_err err = finish(j, BEGIN, "begin to write", diag);
    j->begun = !err;
    j->lost = false;
    return err;
}

static enum aw_err fail_lost(const struct aw_journal *j, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_IO, j->path, 0, 0, NULL,
                      "an earlier failure has taken back these decisions");
}

/* What has failed has taken back all since begin. */
static enum aw_err undone(struct aw_journal *j, enum aw_err err)
{
    if (err) {
        roll_back(j);
        j->lost = true;
    }
    return err;
}

enum aw_err aw_journal_config(struct aw_journal *j, const char *config, int64_t *ret_number,
                              struct aw_diag *diag)
{
    AW_ASSERT(j->begun);
    return j->lost ? fail_lost(j, diag) : undone(j, config_id(j, config, ret_number, diag));
}

enum aw_err aw_journal_put(struct aw_journal *j, uint64_t id, const char *workload, int64_t at_us,
                           const struct aw_orders *orders, const char *account, const char *config,
                           const void *moment, size_t moment_bytes, struct aw_diag *diag)
{
    int64_t number = 0;
    const enum aw_err err = aw_journal_config(j, config, &number, diag);
    return err ? err
               : aw_journal_put_under(j, id, workload, at_us, orders, account, number, moment,
                                      moment_bytes, diag);
}

enum aw_err aw_journal_put_under(struct aw_journal *j, uint64_t id, const char *workload,
                                 int64_t at_us, const struct aw_orders *orders, const char *account,
                                 int64_t config, const void *moment, size_t moment_bytes,
                                 struct aw_diag *diag)
{
    AW_ASSERT(j->begun && id <= INT64_MAX);
    if (j->lost)
        return fail_lost(j, diag);
    const size_t len = strlen(workload);
    if (len == 0 || len >= AW_STORE_NAME_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected a workload's name of 1 to %u bytes",
                       AW_STORE_NAME_MAX - 1);
    const struct putting entry = {.id = id,
                                  .workload = workload,
                                  .at_us = at_us,
                                  .orders = orders,
                                  .account = account,
                                  .config = config,
                                  .moment = moment,
                                  .moment_bytes = moment ? moment_bytes : 0};
    return undone(j, put(j, &entry, diag));
}

static enum aw_err make_room(struct aw_journal *j, struct aw_diag *diag)
{
    int64_t bytes = 0;
    fresh(j, PAGES);
    const enum aw_err err = number(j, PAGES, &bytes, diag);
    if (err || bytes <= AW_JOURNAL_BYTES_MAX)
        return err;
    sqlite3_bind_int64(fresh(j, MAKE_ROOM), 1, GIVE_WAY);
    return finish(j, MAKE_ROOM, "make room", diag);
}

enum aw_err aw_journal_commit(struct aw_journal *j, struct aw_diag *diag)
{
    AW_ASSERT(j->begun);
    j->begun = false;
    if (j->lost)
        return fail_lost(j, diag);
    enum aw_err err = make_room(j, diag);
    fresh(j, COMMIT);
    err = err ? err : finish(j, COMMIT, "write", diag);
    if (err)
        roll_back(j);
    return err;
}

void aw_journal_abort(struct aw_journal *j)
{
    if (j->begun && !j->lost)
        roll_back(j);
    j->begun = false;
}

/* --- get ---------------------------------------------------------------------------------------
 */

void aw_journal_entry_deinit(struct aw_journal_entry *entry)
{
    free(entry->account);
    free(entry->config);
    free(entry->moment);
    *entry = (struct aw_journal_entry){0};
}

static enum aw_err read_text(const struct aw_journal *j, sqlite3_stmt *from, int column, char **ret,
                             struct aw_diag *diag)
{
    void *block = NULL;
    const enum aw_err err = inflate_all(j, sqlite3_column_blob(from, column + 1),
                                        sqlite3_column_bytes(from, column + 1),
                                        sqlite3_column_int64(from, column), &block, diag);
    if (!err)
        *ret = block;
    return err;
}

/* `from` stands on a row. On failure `ret` is zeroed. */
static enum aw_err read_entry(const struct aw_journal *j, sqlite3_stmt *from, bool whole,
                              struct aw_journal_entry *ret, struct aw_diag *diag)
{
    struct aw_journal_entry entry = {.id = (uint64_t)sqlite3_column_int64(from, 0),
                                     .at_us = sqlite3_column_int64(from, 2)};
    const char *name = (const char *)sqlite3_column_text(from, 1);
    snprintf(entry.workload, sizeof entry.workload, "%s", name ? name : "");
    enum aw_err err = AW_OK;
    if (sqlite3_column_type(from, 3) != SQLITE_NULL) {
        int64_t orders[ORDERS] = {0};
        const void *packed = sqlite3_column_blob(from, 3);
        const size_t bytes = (size_t)sqlite3_column_bytes(from, 3);
        if (!packed || (bytes != sizeof orders && bytes != PEOPLE * sizeof *orders)) {
            err = damaged(j, "the orders of an entry", diag);
        } else {
            memcpy(orders, packed, bytes);
            unpack_orders(orders, &entry.orders);
        }
    }
    err = err ? err : read_text(j, from, 4, &entry.account, diag);
    if (!err && whole) {
        err = read_text(j, from, 6, &entry.config, diag);
        if (!err && sqlite3_column_type(from, 9) != SQLITE_NULL) {
            entry.moment_bytes = (size_t)sqlite3_column_int64(from, 8);
            err = inflate_all(j, sqlite3_column_blob(from, 9), sqlite3_column_bytes(from, 9),
                              sqlite3_column_int64(from, 8), &entry.moment, diag);
        }
    }
    if (err)
        aw_journal_entry_deinit(&entry);
    *ret = entry;
    return err;
}

/* The one row that a bound statement yields. */
static enum aw_err read_one(struct aw_journal *j, enum statement id, struct aw_journal_entry *ret,
                            struct aw_diag *diag)
{
    struct aw_journal_entry entry = {0};
    const int code = sqlite3_step(j->statement[id]);
    enum aw_err err;
    if (code == SQLITE_ROW)
        err = read_entry(j, j->statement[id], true, &entry, diag);
    else if (code == SQLITE_DONE)
        err = aw_fail(diag, AW_ERR_NOTFOUND, "no such decision is kept");
    else
        err = fail(j, "read", diag);
    sqlite3_reset(j->statement[id]);
    if (!err)
        *ret = entry;
    return err;
}

enum aw_err aw_journal_get(struct aw_journal *j, uint64_t id, struct aw_journal_entry *ret,
                           struct aw_diag *diag)
{
    if (id > INT64_MAX)
        return aw_fail(diag, AW_ERR_NOTFOUND, "no such decision is kept");
    sqlite3_bind_int64(fresh(j, GET), 1, (int64_t)id);
    return read_one(j, GET, ret, diag);
}

enum aw_err aw_journal_latest(struct aw_journal *j, const char *workload, int64_t at_us,
                              struct aw_journal_entry *ret, struct aw_diag *diag)
{
    sqlite3_bind_text(fresh(j, LATEST), 1, workload, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(j->statement[LATEST], 2, at_us);
    return read_one(j, LATEST, ret, diag);
}

enum aw_err aw_journal_list(struct aw_journal *j, const char *workload, int64_t since_us,
                            uint32_t max, aw_journal_visit *visit, void *ctx, struct aw_diag *diag)
{
    const enum statement id = workload ? LIST : LIST_ALL;
    sqlite3_stmt *list = fresh(j, id);
    if (workload)
        sqlite3_bind_text(list, 1, workload, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(list, 2, since_us);
    sqlite3_bind_int64(list, 3, max);
    enum aw_err err = AW_OK;
    int code = SQLITE_ROW;
    while (!err && (code = sqlite3_step(list)) == SQLITE_ROW) {
        struct aw_journal_entry entry = {0};
        err = read_entry(j, list, false, &entry, diag);
        err = err ? err : visit(ctx, &entry);
        aw_journal_entry_deinit(&entry);
    }
    if (!err && code != SQLITE_DONE)
        err = fail(j, "read", diag);
    sqlite3_reset(list);
    return err;
}
