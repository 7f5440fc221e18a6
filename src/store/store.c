/* store.c - the neutral front: which backend, what may pass, and what all of them do alike. */
#include <string.h>

#include "base/rng.h"
#include "store/backend.h"

enum aw_err aw_store_open(struct aw_store *store, const char *url,
                          const struct aw_store_options *options, const struct aw_alloc *alloc,
                          struct aw_diag *diag)
{
    static const struct aw_store_options defaults = {0};
    *store = (struct aw_store){0};
    options = options ? options : &defaults;
    if (!strcmp(url, "memory"))
        return aw__store_memory_open(store, options, alloc, diag);
    if (!strncmp(url, "influx+http://", 14) || !strncmp(url, "influx+https://", 15))
        return aw__store_influx_open(store, url, options, alloc, diag);
    if (strstr(url, "://"))
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "expected \"memory\", a path or influx+http://HOST:PORT/DATABASE");
    return aw__store_sqlite_open(store, url, options, alloc, diag);
}

void aw_store_close(struct aw_store *store)
{
    if (store->ops)
        store->ops->close(store->self);
    *store = (struct aw_store){0};
}

enum aw_err aw_store_append(struct aw_store *store, const struct aw_store_row *row,
                            struct aw_diag *diag)
{
    struct aw_store_row canonical = *row;
    enum aw_err err = aw__row_check(row, diag);
    if (err)
        return err;
    aw__row_canonical(&canonical);
    return store->ops->append(store->self, &canonical, diag);
}

enum aw_err aw_store_begin(struct aw_store *store, struct aw_diag *diag)
{
    AW_ASSERT(!store->grouped);
    enum aw_err err = store->ops->begin(store->self, diag);
    store->grouped = !err;
    return err;
}

enum aw_err aw_store_commit(struct aw_store *store, struct aw_diag *diag)
{
    AW_ASSERT(store->grouped);
    store->grouped = false;
    return store->ops->commit(store->self, diag);
}

enum aw_err aw_store_recent_returns(struct aw_store *store, const char *workload, uint32_t n,
                                    struct aw_store_episode *ret, uint32_t *ret_count,
                                    struct aw_diag *diag)
{
    uint32_t count = 0;
    enum aw_err err =
        store->ops->episodes(store->self, workload, AW_STORE_NEWEST, n, ret, &count, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < count / 2; i++) {
        struct aw_store_episode swap = ret[i];
        ret[i] = ret[count - 1 - i];
        ret[count - 1 - i] = swap;
    }
    *ret_count = count;
    return AW_OK;
}

enum aw_err aw_store_top_episodes(struct aw_store *store, const char *workload, uint32_t m,
                                  struct aw_store_episode *ret, uint32_t *ret_count,
                                  struct aw_diag *diag)
{
    return store->ops->episodes(store->self, workload, AW_STORE_BEST, m, ret, ret_count, diag);
}

/* ---- rows into slices ---- */

/* Where the next row that a backend visits goes. */
struct filling {
    const struct aw_store_batch *batch;
    const struct aw_store_pick *picks; /* NULL: one after the other */
    uint32_t count, max;
    struct aw_diag *diag;
};

static void put(float *to, const float *from, uint32_t slot, uint32_t dim)
{
    if (to)
        memcpy(to + (size_t)slot * dim, from, dim * sizeof *to);
}

static enum aw_err fill(void *ctx, const struct aw_store_row *row)
{
    struct filling *filling = ctx;
    const struct aw_store_batch *batch = filling->batch;
    if (filling->count == filling->max)
        return aw_fail(filling->diag, AW_ERR_LIMIT,
                       "episode %u of \"%s\" has more than the %u steps that there is room for",
                       row->episode, row->workload, filling->max);
    if (row->obs_dim != batch->obs_dim || row->act_dim != batch->act_dim)
        return aw_fail(filling->diag, AW_ERR_FORMAT,
                       "episode %u, step %u of \"%s\": expected %u observed and %u acted numbers, "
                       "found %u and %u",
                       row->episode, row->step, row->workload, batch->obs_dim, batch->act_dim,
                       row->obs_dim, row->act_dim);
    uint32_t slot = filling->picks ? filling->picks[filling->count].slot : filling->count;
    filling->count++;
    put(batch->obs, row->obs, slot, row->obs_dim);
    put(batch->action, row->action, slot, row->act_dim);
    put(batch->reward, &row->reward, slot, 1);
    put(batch->next_obs, row->next_obs, slot, row->obs_dim);
    if (batch->terminated)
        batch->terminated[slot] = row->terminated;
    return AW_OK;
}

/* Heapsort: in place, and qsort of the C library may allocate. */
static void sort_picks(struct aw_store_pick *picks, uint32_t count)
{
    for (uint32_t built = 0, left = count; left > 1;) {
        uint32_t at;
        struct aw_store_pick moving;
        if (built < count / 2) {
            at = count / 2 - ++built;
            moving = picks[at];
        } else {
            moving = picks[--left];
            picks[left] = picks[0];
            at = 0;
        }
        for (uint32_t child; (child = 2 * at + 1) < left; at = child) {
            child += child + 1 < left && picks[child + 1].rank > picks[child].rank;
            if (picks[child].rank <= moving.rank)
                break;
            picks[at] = picks[child];
        }
        picks[at] = moving;
    }
}

enum aw_err aw_store_sample(struct aw_store *store, const char *workload, uint32_t count,
                            struct aw_rng *rng, const struct aw_store_batch *batch,
                            struct aw_diag *diag)
{
    struct aw_store_pick picks[AW_STORE_BATCH_MAX];
    struct aw_store_counts counts;
    if (count > AW_STORE_BATCH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected at most %u rows a sample, found %u",
                       AW_STORE_BATCH_MAX, count);
    enum aw_err err = store->ops->counts(store->self, workload, &counts, diag);
    if (err)
        return err;
    if (counts.rows == 0)
        return aw_fail(diag, AW_ERR_NODATA, "no row of \"%s\" is kept", workload);
    uint32_t rows = counts.rows < UINT32_MAX ? (uint32_t)counts.rows : UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        picks[i] = (struct aw_store_pick){aw_rng_below(rng, rows), i};
    sort_picks(picks, count);
    struct filling filling = {.batch = batch, .picks = picks, .max = count, .diag = diag};
    err = store->ops->pick(store->self, workload, picks, count, fill, &filling, diag);
    AW_ASSERT(err || filling.count == count);
    return err;
}

enum aw_err aw_store_read_episode(struct aw_store *store, const char *workload, uint32_t episode,
                                  uint32_t max, const struct aw_store_batch *batch,
                                  uint32_t *ret_count, struct aw_diag *diag)
{
    struct filling filling = {.batch = batch, .max = max, .diag = diag};
    struct aw_store_query query = AW_STORE_EVERY;
    query.workload = workload;
    query.episode_first = query.episode_last = episode;
    enum aw_err err = store->ops->scan(store->self, &query, fill, &filling, diag);
    if (err)
        return err;
    if (filling.count == 0)
        return aw_fail(diag, AW_ERR_NODATA, "episode %u of \"%s\" is not kept", episode, workload);
    *ret_count = filling.count;
    return AW_OK;
}

/* ---- what needs nothing but a backend ---- */

enum aw_err aw_store_scan(struct aw_store *store, const struct aw_store_query *query,
                          aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    return store->ops->scan(store->self, query, visit, ctx, diag);
}

enum aw_err aw_store_last(struct aw_store *store, const char *workload, struct aw_store_last *ret,
                          struct aw_diag *diag)
{
    return store->ops->last(store->self, workload, ret, diag);
}

enum aw_err aw_store_counts(struct aw_store *store, const char *workload,
                            struct aw_store_counts *ret, struct aw_diag *diag)
{
    return store->ops->counts(store->self, workload, ret, diag);
}

enum aw_err aw_store_workloads(struct aw_store *store, aw_store_visit_name *visit, void *ctx,
                               struct aw_diag *diag)
{
    return store->ops->workloads(store->self, visit, ctx, diag);
}

enum aw_err aw_store_retain(struct aw_store *store, const struct aw_store_retention *retention,
                            uint64_t *ret_rows_dropped, struct aw_diag *diag)
{
    uint64_t dropped = 0;
    AW_ASSERT(!store->grouped);
    enum aw_err err = store->ops->retain(store->self, retention, &dropped, diag);
    if (!err && ret_rows_dropped)
        *ret_rows_dropped = dropped;
    return err;
}

enum aw_err aw_store_flush(struct aw_store *store, struct aw_diag *diag)
{
    return store->ops->flush(store->self, diag);
}

enum aw_err aw_store_check(struct aw_store *store, struct aw_diag *diag)
{
    return store->ops->check(store->self, diag);
}
