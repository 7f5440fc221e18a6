/*
 * sqlite.c - the store in one SQLite file: the default.
 *
 * A step is a row of `step`; `episode` keeps the sums of its rows, in the same transaction, so that
 * returns, counts, samples and retention read a hundredth of the rows. Vectors are blobs of floats
 * as the machine has them (little-endian everywhere we run).
 */
#include "store/sqlite/sqlite.h"

#include <math.h>
#include <string.h>

#define VICTIMS_MAX 256u /* episodes dropped between two looks at what is left */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blobs of floats are little-endian");

static sqlite3_stmt *fresh(struct aw__sqlite *s, enum aw__statement id)
{
    sqlite3_reset(s->statement[id]);
    return s->statement[id];
}

/* Runs a statement that yields no row. */
static enum aw_err finish(struct aw__sqlite *s, enum aw__statement id, const char *doing,
                          struct aw_diag *diag)
{
    int code = sqlite3_step(s->statement[id]);
    enum aw_err err = code == SQLITE_DONE ? AW_OK : aw__sqlite_fail(s, doing, diag);
    sqlite3_reset(s->statement[id]);
    return err;
}

static enum aw_err simple(struct aw__sqlite *s, enum aw__statement id, const char *doing,
                          struct aw_diag *diag)
{
    fresh(s, id);
    return finish(s, id, doing, diag);
}

/* 0: not known. */
static enum aw_err workload_id(struct aw__sqlite *s, const char *name, int64_t *ret_id,
                               struct aw_diag *diag)
{
    sqlite3_stmt *get = fresh(s, AW__WORKLOAD_ID);
    sqlite3_bind_text(get, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(get);
    enum aw_err err = AW_OK;
    if (code == SQLITE_ROW)
        *ret_id = sqlite3_column_int64(get, 0);
    else if (code == SQLITE_DONE)
        *ret_id = 0;
    else
        err = aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(get);
    return err;
}

/* ---- rows ---- */

static void bind_vector(sqlite3_stmt *to, int column, const float *x, uint32_t dim)
{
    if (x)
        sqlite3_bind_blob(to, column, x, (int)(dim * sizeof *x), SQLITE_STATIC);
    else
        sqlite3_bind_null(to, column);
}

static void bind_real(sqlite3_stmt *to, int column, double value)
{
    if (isnan(value))
        sqlite3_bind_null(to, column);
    else
        sqlite3_bind_double(to, column, value);
}

static void bind_row(sqlite3_stmt *to, int64_t workload, const struct aw_store_row *row)
{
    const struct aw_store_figures *f = &row->figures;
    int at = 0;
    sqlite3_bind_int64(to, ++at, workload);
    sqlite3_bind_int64(to, ++at, row->episode);
    sqlite3_bind_int64(to, ++at, row->step);
    sqlite3_bind_int64(to, ++at, row->at_us);
    sqlite3_bind_int64(to, ++at, row->stage);
    sqlite3_bind_int64(to, ++at, row->actor);
    sqlite3_bind_int64(to, ++at, (int64_t)row->policy_id);
    bind_vector(to, ++at, row->obs, row->obs_dim);
    bind_vector(to, ++at, row->next_obs, row->obs_dim);
    bind_vector(to, ++at, row->action, row->act_dim);
    bind_vector(to, ++at, row->shadow, row->act_dim);
    sqlite3_bind_double(to, ++at, (double)row->reward);
    sqlite3_bind_int64(to, ++at, row->terminated);
    sqlite3_bind_int64(to, ++at, row->truncated);
    bind_real(to, ++at, f->arrivals_per_s);
    bind_real(to, ++at, f->latency_us_p99);
    bind_real(to, ++at, f->slo_preservation);
    bind_real(to, ++at, f->cpu_utilisation);
    bind_real(to, ++at, f->memory_utilisation);
    bind_real(to, ++at, f->cost);
    bind_real(to, ++at, f->paper_reward);
    sqlite3_bind_int64(to, ++at, f->violated);
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        sqlite3_bind_int64(to, ++at, f->amount[r]);
}

/* Blobs of SQLite have no alignment that it promises. */
struct vectors {
    float obs[AW_STORE_OBS_MAX], next_obs[AW_STORE_OBS_MAX];
    float action[AW_STORE_ACT_MAX], shadow[AW_STORE_ACT_MAX];
};

/* False: not a vector of at most `max` floats. */
static bool read_vector(sqlite3_stmt *from, int column, float *to, uint32_t max, uint32_t *ret_dim)
{
    const void *bytes = sqlite3_column_blob(from, column);
    uint32_t len = (uint32_t)sqlite3_column_bytes(from, column);
    if (!bytes || len % sizeof *to || len > max * sizeof *to)
        return false;
    memcpy(to, bytes, len);
    *ret_dim = len / (uint32_t)sizeof *to;
    return true;
}

static double read_real(sqlite3_stmt *from, int column)
{
    return sqlite3_column_type(from, column) == SQLITE_NULL ? (double)NAN
                                                            : sqlite3_column_double(from, column);
}

/* `from` stands on a row; the result points into it and into `vectors`. */
static enum aw_err read_row(struct aw__sqlite *s, sqlite3_stmt *from, struct vectors *vectors,
                            struct aw_store_row *ret, struct aw_diag *diag)
{
    uint32_t next_dim = 0, shadow_dim;
    int at = -1;
    struct aw_store_row row = {
        .obs = vectors->obs, .next_obs = vectors->next_obs, .action = vectors->action};
    row.workload = (const char *)sqlite3_column_text(from, ++at);
    row.episode = (uint32_t)sqlite3_column_int64(from, ++at);
    row.step = (uint32_t)sqlite3_column_int64(from, ++at);
    row.at_us = sqlite3_column_int64(from, ++at);
    row.stage = (uint32_t)sqlite3_column_int64(from, ++at);
    row.actor = (uint32_t)sqlite3_column_int64(from, ++at);
    row.policy_id = (uint64_t)sqlite3_column_int64(from, ++at);
    bool fine = row.workload &&
                read_vector(from, ++at, vectors->obs, AW_STORE_OBS_MAX, &row.obs_dim) &&
                read_vector(from, ++at, vectors->next_obs, AW_STORE_OBS_MAX, &next_dim) &&
                read_vector(from, ++at, vectors->action, AW_STORE_ACT_MAX, &row.act_dim) &&
                next_dim == row.obs_dim;
    if (fine && sqlite3_column_type(from, ++at) != SQLITE_NULL) {
        row.shadow = vectors->shadow;
        fine = read_vector(from, at, vectors->shadow, AW_STORE_ACT_MAX, &shadow_dim) &&
               shadow_dim == row.act_dim;
    }
    if (!fine || row.stage >= AW_STAGE_COUNT || row.actor >= AW_ACTOR_COUNT)
        return aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL,
                          "damaged: episode %u, step %u of \"%s\" is not a row of this format",
                          row.episode, row.step, row.workload ? row.workload : "");
    row.reward = (float)sqlite3_column_double(from, ++at);
    row.terminated = sqlite3_column_int64(from, ++at);
    row.truncated = sqlite3_column_int64(from, ++at);
    row.figures.arrivals_per_s = read_real(from, ++at);
    row.figures.latency_us_p99 = read_real(from, ++at);
    row.figures.slo_preservation = read_real(from, ++at);
    row.figures.cpu_utilisation = read_real(from, ++at);
    row.figures.memory_utilisation = read_real(from, ++at);
    row.figures.cost = read_real(from, ++at);
    row.figures.paper_reward = read_real(from, ++at);
    row.figures.violated = (uint32_t)sqlite3_column_int64(from, ++at);
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        row.figures.amount[r] = sqlite3_column_int64(from, ++at);
    *ret = row;
    return AW_OK;
}

/* Visits the rows that a bound statement yields. */
static enum aw_err visit_rows(struct aw__sqlite *s, enum aw__statement id, aw_store_visit *visit,
                              void *ctx, uint64_t *ret_count, struct aw_diag *diag)
{
    struct vectors vectors;
    struct aw_store_row row;
    enum aw_err err = AW_OK;
    int code = SQLITE_ROW;
    while (!err && (code = sqlite3_step(s->statement[id])) == SQLITE_ROW) {
        err = read_row(s, s->statement[id], &vectors, &row, diag);
        if (!err) {
            ++*ret_count;
            err = visit(ctx, &row);
        }
    }
    if (!err && code != SQLITE_DONE)
        err = aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(s->statement[id]);
    return err;
}

/* ---- writing ---- */

struct comparing {
    const struct aw_store_row *row;
    bool same;
};

static enum aw_err compare(void *ctx, const struct aw_store_row *kept)
{
    struct comparing *comparing = ctx;
    comparing->same = aw__row_same(kept, comparing->row);
    return AW_OK;
}

static enum aw_err append_repeated(struct aw__sqlite *s, int64_t id, const struct aw_store_row *row,
                                   struct aw_diag *diag)
{
    struct comparing comparing = {.row = row};
    uint64_t found = 0;
    sqlite3_stmt *get = fresh(s, AW__STEP_GET);
    sqlite3_bind_int64(get, 1, id);
    sqlite3_bind_int64(get, 2, row->episode);
    sqlite3_bind_int64(get, 3, row->step);
    sqlite3_bind_text(get, 4, row->workload, -1, SQLITE_STATIC);
    enum aw_err err = visit_rows(s, AW__STEP_GET, compare, &comparing, &found, diag);
    if (!err && !comparing.same)
        err = aw__row_conflict(row, diag);
    return err;
}

/* Inside a transaction. */
static enum aw_err append_row(struct aw__sqlite *s, const struct aw_store_row *row,
                              struct aw_diag *diag)
{
    int64_t id = 0;
    enum aw_err err = workload_id(s, row->workload, &id, diag);
    if (err)
        return err;
    if (!id) {
        sqlite3_bind_text(fresh(s, AW__WORKLOAD_NEW), 1, row->workload, -1, SQLITE_STATIC);
        if ((err = finish(s, AW__WORKLOAD_NEW, "write", diag)))
            return err;
        id = sqlite3_last_insert_rowid(s->db);
    }
    bind_row(fresh(s, AW__STEP_NEW), id, row);
    if ((err = finish(s, AW__STEP_NEW, "write", diag)))
        return err;
    if (sqlite3_changes(s->db) == 0)
        return append_repeated(s, id, row, diag);
    sqlite3_stmt *add = fresh(s, AW__EPISODE_ADD);
    sqlite3_bind_int64(add, 1, id);
    sqlite3_bind_int64(add, 2, row->episode);
    sqlite3_bind_double(add, 3, (double)row->reward);
    sqlite3_bind_int64(add, 4, row->figures.violated);
    sqlite3_bind_int64(add, 5, row->at_us);
    sqlite3_bind_int64(add, 6, row->terminated || row->truncated);
    return finish(s, AW__EPISODE_ADD, "write", diag);
}

static void roll_back(struct aw__sqlite *s)
{
    struct aw_diag ignored; /* the failure that led here is the one to tell */
    if (!sqlite3_get_autocommit(s->db) && simple(s, AW__ROLLBACK, "roll back", &ignored))
        return;
}

static enum aw_err fail_lost(struct aw__sqlite *s, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_IO, s->path, 0, 0, NULL,
                      "an earlier failure has undone this group of appends");
}

static enum aw_err sqlite_begin(void *self, struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    enum aw_err err = simple(s, AW__BEGIN, "begin to write", diag);
    s->grouped = !err;
    s->group_lost = false;
    return err;
}

static enum aw_err sqlite_commit(void *self, struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    s->grouped = false;
    if (s->group_lost)
        return fail_lost(s, diag);
    enum aw_err err = simple(s, AW__COMMIT, "write", diag);
    if (err)
        roll_back(s);
    return err;
}

static enum aw_err sqlite_append(void *self, const struct aw_store_row *row, struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    if (s->grouped) {
        if (s->group_lost)
            return fail_lost(s, diag);
        enum aw_err err = append_row(s, row, diag);
        if (err && err != AW_ERR_CONFLICT) {
            roll_back(s);
            s->group_lost = true;
        }
        return err;
    }
    enum aw_err err = simple(s, AW__BEGIN, "begin to write", diag);
    if (err)
        return err;
    err = append_row(s, row, diag);
    if (!err)
        err = simple(s, AW__COMMIT, "write", diag);
    if (err)
        roll_back(s);
    return err;
}

/* ---- reading ---- */

static enum aw_err sqlite_episodes(void *self, const char *workload, enum aw_store_order order,
                                   uint32_t max, struct aw_store_episode *ret, uint32_t *ret_count,
                                   struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int64_t id = 0;
    uint32_t count = 0;
    int code = SQLITE_DONE;
    enum aw_err err = workload_id(s, workload, &id, diag);
    if (err)
        return err;
    sqlite3_stmt *get = fresh(s, order == AW_STORE_BEST ? AW__EPISODES_BEST : AW__EPISODES_NEWEST);
    sqlite3_bind_int64(get, 1, id);
    sqlite3_bind_int64(get, 2, max);
    while (count < max && (code = sqlite3_step(get)) == SQLITE_ROW) {
        struct aw_store_episode *e = &ret[count++];
        *e = (struct aw_store_episode){
            .episode = (uint32_t)sqlite3_column_int64(get, 0),
            .step_count = (uint32_t)sqlite3_column_int64(get, 1),
            .reward_sum = sqlite3_column_double(get, 2),
            .violation_count = (uint64_t)sqlite3_column_int64(get, 3),
            .first_us = sqlite3_column_int64(get, 4),
            .last_us = sqlite3_column_int64(get, 5),
            .ended = sqlite3_column_int64(get, 6),
        };
        e->reward_mean = e->reward_sum / e->step_count;
    }
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        err = aw__sqlite_fail(s, "read", diag);
    else
        *ret_count = count;
    sqlite3_reset(get);
    return err;
}

static enum aw_err sqlite_pick(void *self, const char *workload, const struct aw_store_pick *picks,
                               uint32_t count, aw_store_visit *visit, void *ctx,
                               struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int64_t id = 0;
    uint64_t before = 0, found = 0; /* rows of earlier episodes; rows visited */
    int code = SQLITE_ROW;
    enum aw_err err = workload_id(s, workload, &id, diag);
    sqlite3_stmt *episodes = fresh(s, AW__EPISODE_STEPS);
    sqlite3_bind_int64(episodes, 1, id);
    while (!err && found < count && (code = sqlite3_step(episodes)) == SQLITE_ROW) {
        int64_t episode = sqlite3_column_int64(episodes, 0);
        uint64_t steps = (uint64_t)sqlite3_column_int64(episodes, 1);
        while (!err && found < count && picks[found].rank < before + steps) {
            sqlite3_stmt *get = fresh(s, AW__STEP_AT);
            uint64_t wanted = found + 1;
            sqlite3_bind_int64(get, 1, id);
            sqlite3_bind_int64(get, 2, episode);
            sqlite3_bind_int64(get, 3, (int64_t)(picks[found].rank - before));
            sqlite3_bind_text(get, 4, workload, -1, SQLITE_STATIC);
            err = visit_rows(s, AW__STEP_AT, visit, ctx, &found, diag);
            if (!err && found != wanted)
                err = aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL,
                                 "damaged: episode %jd of \"%s\" lacks steps", (intmax_t)episode,
                                 workload);
        }
        before += steps;
    }
    if (!err && found < count)
        err = code == SQLITE_DONE ? aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL,
                                               "damaged: \"%s\" lacks rows", workload)
                                  : aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(episodes);
    return err;
}

static enum aw_err scan_workload(struct aw__sqlite *s, int64_t id, const char *name,
                                 const struct aw_store_query *query, aw_store_visit *visit,
                                 void *ctx, struct aw_diag *diag)
{
    uint64_t found = 0;
    sqlite3_stmt *scan = fresh(s, AW__SCAN);
    sqlite3_bind_text(scan, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(scan, 2, id);
    sqlite3_bind_int64(scan, 3, query->episode_first);
    sqlite3_bind_int64(scan, 4, query->step_first);
    sqlite3_bind_int64(scan, 5, query->episode_last);
    sqlite3_bind_int64(scan, 6, query->step_last);
    sqlite3_bind_int64(scan, 7, query->from_us);
    sqlite3_bind_int64(scan, 8, query->until_us);
    return visit_rows(s, AW__SCAN, visit, ctx, &found, diag);
}

static enum aw_err sqlite_scan(void *self, const struct aw_store_query *query,
                               aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int64_t id = 0;
    int code = SQLITE_ROW;
    enum aw_err err = AW_OK;
    if (query->workload) {
        err = workload_id(s, query->workload, &id, diag);
        return err ? err : scan_workload(s, id, query->workload, query, visit, ctx, diag);
    }
    sqlite3_stmt *names = fresh(s, AW__WORKLOADS);
    while (!err && (code = sqlite3_step(names)) == SQLITE_ROW)
        err = scan_workload(s, sqlite3_column_int64(names, 1),
                            (const char *)sqlite3_column_text(names, 0), query, visit, ctx, diag);
    if (!err && code != SQLITE_DONE)
        err = aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(names);
    return err;
}

static enum aw_err sqlite_last(void *self, const char *workload, struct aw_store_last *ret,
                               struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int64_t id = 0;
    enum aw_err err = workload_id(s, workload, &id, diag);
    if (err)
        return err;
    sqlite3_stmt *get = fresh(s, AW__STEP_LAST);
    sqlite3_bind_int64(get, 1, id);
    int code = sqlite3_step(get);
    if (code == SQLITE_ROW)
        *ret = (struct aw_store_last){
            .episode = (uint32_t)sqlite3_column_int64(get, 0),
            .step = (uint32_t)sqlite3_column_int64(get, 1),
            .ended = sqlite3_column_int64(get, 2),
        };
    else if (code == SQLITE_DONE)
        err = aw_fail(diag, AW_ERR_NODATA, "no row of \"%s\" is kept", workload);
    else
        err = aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(get);
    return err;
}

static enum aw_err sqlite_counts(void *self, const char *workload, struct aw_store_counts *ret,
                                 struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int64_t id = 0;
    enum aw_err err = workload ? workload_id(s, workload, &id, diag) : AW_OK;
    if (err)
        return err;
    sqlite3_stmt *get = fresh(s, workload ? AW__COUNTS : AW__COUNTS_ALL);
    if (workload)
        sqlite3_bind_int64(get, 1, id);
    if (sqlite3_step(get) == SQLITE_ROW)
        *ret = (struct aw_store_counts){
            .workloads = (uint64_t)sqlite3_column_int64(get, 0),
            .episodes = (uint64_t)sqlite3_column_int64(get, 1),
            .rows = (uint64_t)sqlite3_column_int64(get, 2),
        };
    else
        err = aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(get);
    return err;
}

static enum aw_err sqlite_workloads(void *self, aw_store_visit_name *visit, void *ctx,
                                    struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int code = SQLITE_ROW;
    enum aw_err err = AW_OK;
    sqlite3_stmt *names = fresh(s, AW__WORKLOADS);
    while (!err && (code = sqlite3_step(names)) == SQLITE_ROW) {
        struct aw_store_counts counts = {1, (uint64_t)sqlite3_column_int64(names, 2),
                                         (uint64_t)sqlite3_column_int64(names, 3)};
        err = visit(ctx, (const char *)sqlite3_column_text(names, 0), &counts);
    }
    if (!err && code != SQLITE_DONE)
        err = aw__sqlite_fail(s, "read", diag);
    sqlite3_reset(names);
    return err;
}

/* ---- keeping house ---- */

struct victim {
    int64_t workload, episode;
    uint64_t steps;
};

static enum aw_err drop_victim(struct aw__sqlite *s, const struct victim *victim,
                               struct aw_diag *diag)
{
    enum aw__statement ids[] = {AW__DROP_STEPS, AW__DROP_EPISODE};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < 2 && !err; i++) {
        sqlite3_stmt *drop = fresh(s, ids[i]);
        sqlite3_bind_int64(drop, 1, victim->workload);
        sqlite3_bind_int64(drop, 2, victim->episode);
        err = finish(s, ids[i], "drop episodes", diag);
    }
    return err;
}

/* Drops what a statement names, until it names nothing or `excess` rows are gone. */
static enum aw_err drop_all(struct aw__sqlite *s, enum aw__statement id, int64_t bound,
                            uint64_t excess, uint64_t *dropped, struct aw_diag *diag)
{
    struct victim victims[VICTIMS_MAX];
    enum aw_err err = AW_OK;
    uint64_t gone = 0;
    uint32_t count = VICTIMS_MAX;
    while (!err && count == VICTIMS_MAX && gone < excess) {
        sqlite3_stmt *get = fresh(s, id);
        int code = SQLITE_DONE;
        count = 0;
        sqlite3_bind_int64(get, 1, bound);
        sqlite3_bind_int64(get, 2, VICTIMS_MAX);
        while (count < VICTIMS_MAX && (code = sqlite3_step(get)) == SQLITE_ROW)
            victims[count++] =
                (struct victim){sqlite3_column_int64(get, 0), sqlite3_column_int64(get, 1),
                                (uint64_t)sqlite3_column_int64(get, 2)};
        if (code != SQLITE_DONE && code != SQLITE_ROW)
            err = aw__sqlite_fail(s, "read", diag);
        sqlite3_reset(get);
        for (uint32_t i = 0; i < count && gone < excess && !err; i++) {
            err = drop_victim(s, &victims[i], diag);
            gone += victims[i].steps;
        }
    }
    *dropped += gone;
    return err;
}

static enum aw_err sqlite_retain(void *self, const struct aw_store_retention *retention,
                                 uint64_t *ret_rows_dropped, struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    struct aw_store_counts counts = {0};
    uint64_t dropped = 0;
    enum aw_err err = simple(s, AW__BEGIN, "begin to write", diag);
    if (err)
        return err;
    if (!err && retention->episodes_max)
        err = drop_all(s, AW__VICTIMS_COUNT, retention->episodes_max, UINT64_MAX, &dropped, diag);
    if (!err)
        err = drop_all(s, AW__VICTIMS_TIME, retention->before_us, UINT64_MAX, &dropped, diag);
    if (!err && retention->rows_max && !(err = sqlite_counts(s, NULL, &counts, diag)) &&
        counts.rows > retention->rows_max)
        err = drop_all(s, AW__VICTIMS_OLDEST, 0, counts.rows - retention->rows_max, &dropped, diag);
    if (!err)
        err = simple(s, AW__COMMIT, "write", diag);
    if (err)
        roll_back(s);
    else
        *ret_rows_dropped = dropped;
    return err;
}

/* Moves the log into the file and syncs both. A reader at work may keep a part of the log in
 * place, which is then synced where it is. */
static enum aw_err sqlite_flush(void *self, struct aw_diag *diag)
{
    struct aw__sqlite *s = self;
    int code = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return code == SQLITE_OK || code == SQLITE_BUSY ? AW_OK : aw__sqlite_fail(s, "sync", diag);
}

static enum aw_err sqlite_check(void *self, struct aw_diag *diag)
{
    static const char sums[] =
        "SELECT CASE WHEN count(*) THEN 'sums of an episode are not those of its steps' "
        "ELSE 'ok' END FROM (SELECT workload, episode, count(*), sum(violated), min(at_us), "
        "max(at_us), max(terminated OR truncated) FROM step GROUP BY workload, episode EXCEPT "
        "SELECT workload, episode, steps, violations, first_us, last_us, ended FROM episode)";
    static const char steps[] =
        "SELECT CASE WHEN (SELECT count(*) FROM step) = (SELECT coalesce(sum(steps), 0) FROM "
        "episode) THEN 'ok' ELSE 'an episode lacks its steps' END";
    static const char *const questions[] = {"PRAGMA integrity_check(1)", sums, steps};
    struct aw__sqlite *s = self;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < 3 && !err; i++) {
        sqlite3_stmt *ask = NULL;
        if (sqlite3_prepare_v2(s->db, questions[i], -1, &ask, NULL) != SQLITE_OK ||
            sqlite3_step(ask) != SQLITE_ROW)
            err = aw__sqlite_fail(s, "check", diag);
        else if (strcmp((const char *)sqlite3_column_text(ask, 0), "ok") != 0)
            err = aw_fail_at(diag, AW_ERR_FORMAT, s->path, 0, 0, NULL, "damaged: %s",
                             (const char *)sqlite3_column_text(ask, 0));
        sqlite3_finalize(ask);
    }
    return err;
}

static void sqlite_close(void *self)
{
    struct aw__sqlite *s = self;
    if (!s)
        return;
    for (uint32_t i = 0; i < AW__STATEMENT_COUNT; i++)
        sqlite3_finalize(s->statement[i]);
    sqlite3_close(s->db); /* rolls back an open group */
    aw__lock_drop(&s->lock);
    aw_alloc_free(s->alloc, s);
}

static const struct aw_store_ops sqlite_ops = {
    .name = "sqlite",
    .append = sqlite_append,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .episodes = sqlite_episodes,
    .pick = sqlite_pick,
    .scan = sqlite_scan,
    .last = sqlite_last,
    .counts = sqlite_counts,
    .workloads = sqlite_workloads,
    .retain = sqlite_retain,
    .flush = sqlite_flush,
    .check = sqlite_check,
    .close = sqlite_close,
};

enum aw_err aw__store_sqlite_open(struct aw_store *store, const char *path,
                                  const struct aw_store_options *options,
                                  const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw__sqlite *s = aw_alloc_new(alloc, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    s->alloc = alloc;
    enum aw_err err = aw__sqlite_open(s, path, options, diag);
    if (err) {
        sqlite_close(s);
        return err;
    }
    *store = (struct aw_store){.ops = &sqlite_ops, .self = s};
    return AW_OK;
}
