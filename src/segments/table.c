/*
 * table.c - table scans in SQLite.
 *
 * The table is built once and kept as one image in memory, which every lane opens read-only
 * (sqlite3_deserialize): no file is left behind whatever ends the process, and no lane waits for
 * the lock of another. A piece scans a run of rows with a pattern that no index helps.
 */
#include "segments/kind.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define ROWS       1024.0 /* at payload 1: AWARE section 2.3 */
#define ROWS_MAX   200000u
#define PIECE_ROWS 64u
#define NOTE_BYTES 64u
#define CACHE_KIB  "256" /* of pages per lane */

struct lane {
    sqlite3 *db;
    sqlite3_stmt *scan;
};

struct table {
    const struct aw_alloc *alloc;
    uint32_t rows, lane_count;
    unsigned char *image; /* of sqlite3_malloc */
    sqlite3_int64 image_bytes;
    struct lane *lane;
};

static void table_close(void *state)
{
    struct table *table = state;
    if (!table)
        return;
    for (uint32_t i = 0; i < table->lane_count; i++) {
        (void)sqlite3_finalize(table->lane[i].scan);
        (void)sqlite3_close(table->lane[i].db);
    }
    sqlite3_free(table->image);
    aw_alloc_free(table->alloc, table);
}

static enum aw_err table_build(struct table *table, uint64_t seed, struct aw_diag *diag)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    char prose[4096], note[NOTE_BYTES];
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 5);
    aw__prose(seed, prose, sizeof prose);
    bool ok = sqlite3_open(":memory:", &db) == SQLITE_OK &&
              sqlite3_exec(db,
                           "CREATE TABLE orders(id INTEGER PRIMARY KEY, amount INTEGER NOT NULL,"
                           " note TEXT NOT NULL) STRICT; BEGIN",
                           NULL, NULL, NULL) == SQLITE_OK &&
              sqlite3_prepare_v2(db, "INSERT INTO orders VALUES(?1, ?2, ?3)", -1, &insert, NULL) ==
                  SQLITE_OK;
    for (uint32_t i = 0; ok && i < table->rows; i++) {
        memcpy(note, prose + aw_rng_below(&rng, sizeof prose - NOTE_BYTES), NOTE_BYTES);
        (void)sqlite3_bind_int64(insert, 1, i);
        (void)sqlite3_bind_int64(insert, 2, aw_rng_below(&rng, 10000));
        (void)sqlite3_bind_text(insert, 3, note, NOTE_BYTES, SQLITE_STATIC);
        ok = sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK;
    }
    ok = ok && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK &&
         (table->image = sqlite3_serialize(db, "main", &table->image_bytes, 0));
    enum aw_err err =
        ok ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "SQLite: no table of %u rows", table->rows);
    (void)sqlite3_finalize(insert);
    (void)sqlite3_close(db);
    return err;
}

static enum aw_err table_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    struct table *table =
        aw_alloc_new(setup->alloc, 1, sizeof *table + setup->lane_count * sizeof *table->lane);
    if (!table)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a table");
    *table = (struct table){.alloc = setup->alloc,
                            .rows = aw__sized(setup, ROWS, 1, PIECE_ROWS, ROWS_MAX),
                            .lane_count = setup->lane_count,
                            .lane = (struct lane *)(table + 1)};
    enum aw_err err = table_build(table, setup->seed, diag);
    if (err)
        table_close(table);
    else
        *ret_state = table;
    return err;
}

static enum aw_err lane_open(const struct table *table, struct lane *lane, struct aw_diag *diag)
{
    /* one lane, one connection: SQLite's own mutexes would be for nothing */
    if (!lane->db &&
        (sqlite3_open_v2(":memory:", &lane->db,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
                         NULL) != SQLITE_OK ||
         sqlite3_deserialize(lane->db, "main", table->image, table->image_bytes, table->image_bytes,
                             SQLITE_DESERIALIZE_READONLY) != SQLITE_OK))
        return aw_fail(diag, AW_ERR_NOMEM, "SQLite: no connection");
    if (sqlite3_exec(lane->db, "PRAGMA cache_size=-" CACHE_KIB, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(lane->db,
                           "SELECT count(*), sum(amount) FROM orders"
                           " WHERE id BETWEEN ?1 AND ?2 AND note LIKE '%cluster%budget%'",
                           -1, &lane->scan, NULL) != SQLITE_OK)
        return aw_fail(diag, AW_ERR_NOMEM, "SQLite: %s", sqlite3_errmsg(lane->db));
    return AW_OK;
}

static enum aw_err table_pieces(void *state, uint32_t lane_index, uint64_t first, uint64_t count,
                                struct aw_diag *diag)
{
    const struct table *table = state;
    struct lane *lane = &table->lane[lane_index];
    enum aw_err err;
    if (!lane->scan && (err = lane_open(table, lane, diag)))
        return err;
    const uint32_t runs = table->rows / PIECE_ROWS;
    for (uint64_t i = first; i < first + count; i++) {
        const sqlite3_int64 from = (sqlite3_int64)(i % runs) * PIECE_ROWS;
        (void)sqlite3_bind_int64(lane->scan, 1, from);
        (void)sqlite3_bind_int64(lane->scan, 2, from + PIECE_ROWS - 1);
        if (sqlite3_step(lane->scan) != SQLITE_ROW)
            return aw_fail(diag, AW_ERR_IO, "SQLite: %s", sqlite3_errmsg(lane->db));
        aw__keep((double)sqlite3_column_int64(lane->scan, 0));
        (void)sqlite3_reset(lane->scan);
    }
    return AW_OK;
}

const struct aw__segment_kind aw__kind_table_scan = {"table_scan", table_open, table_close,
                                                     table_pieces, aw__agent_exchange_none};
