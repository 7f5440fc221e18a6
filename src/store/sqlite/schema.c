/*
 * schema.c - opens, creates or refuses an SQLite file.
 *
 * Durability (https://www.sqlite.org/pragma.html#pragma_synchronous): in WAL mode with
 * synchronous=NORMAL a commit is written to the log file by write(2) and not synced. The kernel
 * has it then, so the death of the process loses nothing; a power cut may lose the latest commits
 * but leaves the file intact. `power_safe` asks for FULL: every commit is synced.
 */
#include <stdio.h>
#include <string.h>

#include "base/sqlite.h"
#include "base/text.h"
#include "store/sqlite/sqlite.h"

#define APPLICATION_ID 0x41575354 /* "AWST" */
#define FORMAT_VERSION 1

/* A tick touches a page or two of each workload: 4 MiB keep those of a thousand at hand. Of more,
 * the kernel has them, a microsecond away. The log is moved into the file every 16 MiB instead of
 * every 4 (docs/mechanisms/store.md has figures).
 */
#define TUNING "PRAGMA cache_size = -4096; PRAGMA wal_autocheckpoint = 4096"

#define AMOUNT_COLUMN " INTEGER NOT NULL DEFAULT 0" /* 0: not known */

static const char schema[] =
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
    " memory_utilisation REAL, cost REAL, paper_reward REAL, violated INTEGER NOT NULL, "
#define X(id, member, ...) #member AMOUNT_COLUMN ", "
    AW_RESOURCE_MAP(X)
#undef X
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

static const struct aw_sqlite_kind kind = {.name = "a store of trajectories",
                                           .application_id = APPLICATION_ID,
                                           .version = FORMAT_VERSION,
                                           .schema = schema,
                                           .empty = AW_ERR_NODATA};

enum aw_err aw__sqlite_fail(struct aw__sqlite *s, const char *doing, struct aw_diag *diag)
{
    return aw_sqlite_fail(s->db, s->path, doing, diag);
}

/* The columns of resources, as statements name them: ", replicas, cpu_millicores, ...". A file of
 * a build that did not know a resource gets its column; one that is only read has a 0 for it. */
static enum aw_err amounts_open(struct aw__sqlite *s, bool read_only, struct aw_text *names,
                                struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t r = 0; r < AW_RESOURCES && !err; r++) {
        const char *member = aw_resource_table[r].member;
        const bool there = AW_PLAN_COMMON & AW_PLAN_BIT(r) ||
                           sqlite3_table_column_metadata(s->db, NULL, "step", member, NULL, NULL,
                                                         NULL, NULL, NULL) == SQLITE_OK;
        char add[128];
        snprintf(add, sizeof add, "ALTER TABLE step ADD COLUMN %s" AMOUNT_COLUMN, member);
        if (!there && !read_only)
            err = aw_sqlite_run(s->db, s->path, add, "add a column", diag);
        aw_text_add(names, ", %s", there || !read_only ? member : "0");
    }
    return err;
}

static enum aw_err prepare(struct aw__sqlite *s, bool read_only, struct aw_diag *diag)
{
    char names_buf[1024], buf[2048];
    struct aw_text names, text;
    aw_text_init(&names, names_buf, sizeof names_buf);
    enum aw_err err = amounts_open(s, read_only, &names, diag);
    for (uint32_t i = 0; i < AW__STATEMENT_COUNT && !err; i++) {
        /* who only reads may lack columns of this INSERT, and is refused any */
        const bool other = read_only && i == AW__STEP_NEW;
        const char *from = statement_text[other ? (uint32_t)AW__WORKLOAD_NEW : i];
        const size_t head = strcspn(from, AW__AMOUNTS);
        aw_text_init(&text, buf, sizeof buf);
        aw_text_add_bytes(&text, from, head);
        if (from[head])
            aw_text_add(&text, "%s%s", names_buf, from + head + 1);
        AW_ASSERT(!names.cut && !text.cut);
        err = aw_sqlite_prepare(s->db, s->path, (const char *[]){buf}, 1, &s->statement[i], diag);
    }
    return err;
}

enum aw_err aw__sqlite_open(struct aw__sqlite *s, const char *path,
                            const struct aw_store_options *options, struct aw_diag *diag)
{
    const int len = snprintf(s->path, sizeof s->path, "%s", path);
    enum aw_err err = AW_OK;
    if (len <= 0 || (size_t)len >= sizeof s->path)
        return aw_fail(diag, AW_ERR_RANGE, "expected a path of 1 to %u bytes",
                       AW_FILE_PATH_MAX - 1);
    if (!options->read_only)
        err = aw__lock_take(&s->lock, path, diag);
    err = err ? err
              : aw_sqlite_open(&s->db, s->path, options->read_only, &kind,
                               options->power_safe ? TUNING "; PRAGMA synchronous = FULL"
                                                   : TUNING "; PRAGMA synchronous = NORMAL",
                               NULL, diag);
    return err ? err : prepare(s, options->read_only, diag);
}
