/*
 * memory.c - the store for sweeps: one block sized at open, nothing allocated after.
 *
 * Rows lie in slots of one size. A workload has a list of episodes in order, an episode a list of
 * rows in order; both are searched from their end, where a run appends. When no row or episode slot
 * is free, the whole episode that was created first goes, except the latest of any workload; when
 * nothing but latest episodes is left the append is refused (AW_ERR_LIMIT).
 *
 * Begin, commit and flush do nothing: nothing here outlives the process.
 */
#include <math.h>
#include <string.h>

#include "store/backend.h"

#define NONE            UINT32_MAX
#define ROWS_MAX_BOUND  (1u << 28)
#define WORKLOADS_BOUND (1u << 20)

struct row {
    uint32_t prev, next;     /* in its episode; of a free slot: next free */
    struct aw_store_row row; /* without pointers: they depend on the slot */
    bool has_shadow;
};

struct episode {
    uint32_t workload;
    uint32_t prev, next;         /* in its workload; of a free slot: next free */
    uint32_t older, newer;       /* by creation, over all workloads */
    uint32_t first, last;        /* rows */
    struct aw_store_episode sum; /* reward_mean is filled in when asked for */
};

struct workload {
    char name[AW_STORE_NAME_MAX];
    uint32_t first, last; /* episodes */
    uint32_t episode_count, row_count;
};

struct memory {
    const struct aw_alloc *alloc;
    uint32_t rows_max, episodes_max, workloads_max, obs_dim_max, act_dim_max;
    size_t floats; /* of one slot: obs, next_obs, action, shadow */
    struct row *rows;
    float *values;
    struct episode *episodes;
    struct workload *workloads;
    uint32_t *by_name; /* workloads in the order of their names */
    uint32_t workload_count, episode_count, row_count;
    uint32_t row_free, episode_free; /* heads of lists */
    uint32_t oldest, newest;         /* episodes by creation */
};

/* ---- slots ---- */

static struct memory *carve(struct aw_carve *carve, const struct memory *sizes)
{
    struct memory *m = aw_carve_take(carve, 1, sizeof *m);
    struct memory parts = *sizes;
    parts.rows = aw_carve_take(carve, sizes->rows_max, sizeof *parts.rows);
    parts.values = aw_carve_take(carve, sizes->rows_max, sizes->floats * sizeof *parts.values);
    parts.episodes = aw_carve_take(carve, sizes->episodes_max, sizeof *parts.episodes);
    parts.workloads = aw_carve_take(carve, sizes->workloads_max, sizeof *parts.workloads);
    parts.by_name = aw_carve_take(carve, sizes->workloads_max, sizeof *parts.by_name);
    if (carve->base)
        *m = parts;
    return m;
}

static float *values_of(const struct memory *m, uint32_t slot)
{
    return m->values + slot * m->floats;
}

/* The row as callers know it, pointing into the store. */
static struct aw_store_row view(const struct memory *m, uint32_t slot)
{
    float *values = values_of(m, slot);
    struct aw_store_row row = m->rows[slot].row;
    row.obs = values;
    row.next_obs = values + m->obs_dim_max;
    row.action = values + 2 * (size_t)m->obs_dim_max;
    row.shadow = m->rows[slot].has_shadow ? row.action + m->act_dim_max : NULL;
    return row;
}

static void fill(struct memory *m, uint32_t slot, const struct aw_store_row *row, const char *name)
{
    float *values = values_of(m, slot);
    struct row *to = &m->rows[slot];
    to->row = *row;
    to->row.workload = name;
    to->row.obs = to->row.next_obs = to->row.action = to->row.shadow = NULL;
    to->has_shadow = row->shadow;
    memcpy(values, row->obs, row->obs_dim * sizeof *values);
    memcpy(values + m->obs_dim_max, row->next_obs, row->obs_dim * sizeof *values);
    values += 2 * (size_t)m->obs_dim_max;
    memcpy(values, row->action, row->act_dim * sizeof *values);
    if (row->shadow)
        memcpy(values + m->act_dim_max, row->shadow, row->act_dim * sizeof *values);
}

/* Where `name` is in by_name, or would be. */
static uint32_t place_of(const struct memory *m, const char *name, bool *ret_found)
{
    uint32_t low = 0, high = m->workload_count;
    *ret_found = false;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = strcmp(m->workloads[m->by_name[mid]].name, name);
        if (order == 0) {
            *ret_found = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct workload *find_workload(const struct memory *m, const char *name)
{
    bool found;
    uint32_t place = place_of(m, name, &found);
    return found ? &m->workloads[m->by_name[place]] : NULL;
}

/* The last episode of `w` that is not above `episode`; NONE: all are. */
static uint32_t episode_at_most(const struct memory *m, const struct workload *w, uint32_t episode)
{
    uint32_t at = w->last;
    while (at != NONE && m->episodes[at].sum.episode > episode)
        at = m->episodes[at].prev;
    return at;
}

static uint32_t row_at_most(const struct memory *m, const struct episode *e, uint32_t step)
{
    uint32_t at = e->last;
    while (at != NONE && m->rows[at].row.step > step)
        at = m->rows[at].prev;
    return at;
}

static void drop_episode(struct memory *m, uint32_t at)
{
    struct episode *e = &m->episodes[at];
    struct workload *w = &m->workloads[e->workload];
    m->rows[e->last].next = m->row_free;
    m->row_free = e->first;
    m->row_count -= e->sum.step_count;
    w->row_count -= e->sum.step_count;
    *(e->prev == NONE ? &w->first : &m->episodes[e->prev].next) = e->next;
    *(e->next == NONE ? &w->last : &m->episodes[e->next].prev) = e->prev;
    *(e->older == NONE ? &m->oldest : &m->episodes[e->older].newer) = e->newer;
    *(e->newer == NONE ? &m->newest : &m->episodes[e->newer].older) = e->older;
    w->episode_count--;
    m->episode_count--;
    e->next = m->episode_free;
    m->episode_free = at;
}

/* Room for one row, and for one episode where `keep`, the one that the row goes into, is NONE; at
 * the cost of the oldest. `overtaken`: the episode that is about to be the latest no more; NONE. */
static bool make_room(struct memory *m, uint32_t keep, uint32_t overtaken)
{
    uint32_t at = m->oldest;
    while (m->row_free == NONE || (keep == NONE && m->episode_free == NONE)) {
        while (at != NONE && (at == keep || (m->episodes[at].next == NONE && at != overtaken)))
            at = m->episodes[at].newer;
        if (at == NONE)
            return false;
        uint32_t newer = m->episodes[at].newer;
        drop_episode(m, at);
        at = newer;
    }
    return true;
}

static uint32_t new_episode(struct memory *m, struct workload *w, uint32_t after, uint32_t episode)
{
    uint32_t at = m->episode_free;
    struct episode *e = &m->episodes[at];
    m->episode_free = e->next;
    *e = (struct episode){
        .workload = (uint32_t)(w - m->workloads),
        .prev = after,
        .next = after == NONE ? w->first : m->episodes[after].next,
        .older = m->newest,
        .newer = NONE,
        .first = NONE,
        .last = NONE,
        .sum = {.episode = episode, .first_us = INT64_MAX, .last_us = INT64_MIN},
    };
    *(e->prev == NONE ? &w->first : &m->episodes[e->prev].next) = at;
    *(e->next == NONE ? &w->last : &m->episodes[e->next].prev) = at;
    *(e->older == NONE ? &m->oldest : &m->episodes[e->older].newer) = at;
    m->newest = at;
    w->episode_count++;
    m->episode_count++;
    return at;
}

static void new_row(struct memory *m, struct workload *w, uint32_t episode, uint32_t after,
                    const struct aw_store_row *row)
{
    struct episode *e = &m->episodes[episode];
    uint32_t at = m->row_free;
    struct row *r = &m->rows[at];
    m->row_free = r->next;
    fill(m, at, row, w->name);
    r->prev = after;
    r->next = after == NONE ? e->first : m->rows[after].next;
    *(r->prev == NONE ? &e->first : &m->rows[r->prev].next) = at;
    *(r->next == NONE ? &e->last : &m->rows[r->next].prev) = at;
    e->sum.step_count++;
    e->sum.reward_sum += (double)row->reward;
    e->sum.violation_count += row->figures.violated;
    e->sum.first_us = row->at_us < e->sum.first_us ? row->at_us : e->sum.first_us;
    e->sum.last_us = row->at_us > e->sum.last_us ? row->at_us : e->sum.last_us;
    e->sum.ended |= row->terminated || row->truncated;
    w->row_count++;
    m->row_count++;
}

/* ---- the contract ---- */

static enum aw_err memory_append(void *self, const struct aw_store_row *row, struct aw_diag *diag)
{
    struct memory *m = self;
    bool known;
    uint32_t place = place_of(m, row->workload, &known), before = NONE, episode = NONE,
             after = NONE;
    struct workload *w = known ? &m->workloads[m->by_name[place]] : NULL;
    if (row->obs_dim > m->obs_dim_max || row->act_dim > m->act_dim_max)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "this store was made for %u observed and %u acted numbers a step, found %u "
                       "and %u",
                       m->obs_dim_max, m->act_dim_max, row->obs_dim, row->act_dim);
    if (w) {
        before = episode_at_most(m, w, row->episode);
        if (before != NONE && m->episodes[before].sum.episode == row->episode)
            episode = before;
    }
    if (episode != NONE) {
        after = row_at_most(m, &m->episodes[episode], row->step);
        if (after != NONE && m->rows[after].row.step == row->step) {
            struct aw_store_row kept = view(m, after);
            return aw__row_same(&kept, row) ? AW_OK : aw__row_conflict(row, diag);
        }
    }
    if (!w && m->workload_count == m->workloads_max)
        return aw_fail(diag, AW_ERR_LIMIT, "this store was made for %u workloads",
                       m->workloads_max);
    /* a new episode at the end makes the one before it an old one */
    if (!make_room(m, episode, w && episode == NONE && before == w->last ? before : NONE))
        return aw_fail(diag, AW_ERR_LIMIT,
                       "full: %u rows and %u episodes, with nothing left but the latest episode "
                       "of each workload",
                       m->row_count, m->episode_count);
    if (!w) {
        memmove(&m->by_name[place + 1], &m->by_name[place],
                (m->workload_count - place) * sizeof *m->by_name);
        m->by_name[place] = m->workload_count;
        w = &m->workloads[m->workload_count++];
        *w = (struct workload){.first = NONE, .last = NONE};
        memcpy(w->name, row->workload, strlen(row->workload) + 1);
    }
    if (episode == NONE) /* what was dropped may have been the neighbour: look again */
        episode = new_episode(m, w, episode_at_most(m, w, row->episode), row->episode);
    new_row(m, w, episode, after, row);
    return AW_OK;
}

static enum aw_err memory_nothing(void *self, struct aw_diag *diag)
{
    (void)self;
    (void)diag;
    return AW_OK;
}

static enum aw_err memory_episodes(void *self, const char *workload, enum aw_store_order order,
                                   uint32_t max, struct aw_store_episode *ret, uint32_t *ret_count,
                                   struct aw_diag *diag)
{
    const struct memory *m = self;
    const struct workload *w = find_workload(m, workload);
    uint32_t count = 0;
    (void)diag;
    const bool newest = order == AW_STORE_NEWEST;
    for (uint32_t at = w && max ? w->last : NONE; at != NONE; at = m->episodes[at].prev) {
        if (newest && count == max)
            break;
        struct aw_store_episode sum = m->episodes[at].sum;
        sum.reward_mean = sum.reward_sum / sum.step_count;
        aw__episodes_insert(ret, &count, max, order, &sum);
    }
    *ret_count = count;
    return AW_OK;
}

static enum aw_err memory_pick(void *self, const char *workload, const struct aw_store_pick *picks,
                               uint32_t count, aw_store_visit *visit, void *ctx,
                               struct aw_diag *diag)
{
    const struct memory *m = self;
    const struct workload *w = find_workload(m, workload);
    uint32_t before = 0, done = 0; /* rows of earlier episodes; picks visited */
    (void)diag;
    for (uint32_t e = w ? w->first : NONE; e != NONE && done < count; e = m->episodes[e].next) {
        const struct episode *episode = &m->episodes[e];
        uint32_t at = episode->first, rank = before;
        while (done < count && picks[done].rank < before + episode->sum.step_count) {
            for (; rank < picks[done].rank; rank++)
                at = m->rows[at].next;
            struct aw_store_row row = view(m, at);
            enum aw_err err = visit(ctx, &row);
            if (err)
                return err;
            done++;
        }
        before += episode->sum.step_count;
    }
    return AW_OK;
}

static enum aw_err scan_workload(const struct memory *m, const struct workload *w,
                                 const struct aw_store_query *query, aw_store_visit *visit,
                                 void *ctx)
{
    uint32_t e = episode_at_most(m, w, query->episode_first);
    for (e = e == NONE ? w->first : e; e != NONE; e = m->episodes[e].next) {
        if (m->episodes[e].sum.episode > query->episode_last)
            break;
        for (uint32_t at = m->episodes[e].first; at != NONE; at = m->rows[at].next) {
            struct aw_store_row row = view(m, at);
            enum aw_err err = AW_OK;
            if (aw__query_takes(query, row.episode, row.step, row.at_us))
                err = visit(ctx, &row);
            if (err)
                return err;
        }
    }
    return AW_OK;
}

static enum aw_err memory_scan(void *self, const struct aw_store_query *query,
                               aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    const struct memory *m = self;
    enum aw_err err = AW_OK;
    (void)diag;
    if (query->workload) {
        const struct workload *w = find_workload(m, query->workload);
        return w ? scan_workload(m, w, query, visit, ctx) : AW_OK;
    }
    for (uint32_t i = 0; i < m->workload_count && !err; i++)
        err = scan_workload(m, &m->workloads[m->by_name[i]], query, visit, ctx);
    return err;
}

static enum aw_err memory_last(void *self, const char *workload, struct aw_store_last *ret,
                               struct aw_diag *diag)
{
    const struct memory *m = self;
    const struct workload *w = find_workload(m, workload);
    if (!w)
        return aw_fail(diag, AW_ERR_NODATA, "no row of \"%s\" is kept", workload);
    const struct aw_store_row *row = &m->rows[m->episodes[w->last].last].row;
    *ret = (struct aw_store_last){row->episode, row->step, row->terminated || row->truncated};
    return AW_OK;
}

static enum aw_err memory_counts(void *self, const char *workload, struct aw_store_counts *ret,
                                 struct aw_diag *diag)
{
    const struct memory *m = self;
    const struct workload *w = workload ? find_workload(m, workload) : NULL;
    (void)diag;
    *ret = (struct aw_store_counts){0};
    if (!workload)
        *ret = (struct aw_store_counts){m->workload_count, m->episode_count, m->row_count};
    else if (w)
        *ret = (struct aw_store_counts){1, w->episode_count, w->row_count};
    return AW_OK;
}

static enum aw_err memory_workloads(void *self, aw_store_visit_name *visit, void *ctx,
                                    struct aw_diag *diag)
{
    const struct memory *m = self;
    enum aw_err err = AW_OK;
    (void)diag;
    for (uint32_t i = 0; i < m->workload_count && !err; i++) {
        const struct workload *w = &m->workloads[m->by_name[i]];
        err = visit(ctx, w->name, &(struct aw_store_counts){1, w->episode_count, w->row_count});
    }
    return err;
}

/* The episode that began first and is not the latest of its workload; of several, the first by
 * name. */
static uint32_t first_begun(const struct memory *m)
{
    uint32_t best = NONE;
    for (uint32_t i = 0; i < m->workload_count; i++) {
        const struct workload *w = &m->workloads[m->by_name[i]];
        for (uint32_t e = w->first; e != w->last; e = m->episodes[e].next) {
            if (best == NONE || m->episodes[e].sum.first_us < m->episodes[best].sum.first_us)
                best = e;
        }
    }
    return best;
}

static enum aw_err memory_retain(void *self, const struct aw_store_retention *retention,
                                 uint64_t *ret_rows_dropped, struct aw_diag *diag)
{
    struct memory *m = self;
    const uint32_t rows = m->row_count;
    (void)diag;
    for (uint32_t i = 0; i < m->workload_count; i++) {
        struct workload *w = &m->workloads[i];
        for (uint32_t e = w->first, next; e != w->last; e = next) {
            next = m->episodes[e].next;
            if ((retention->episodes_max && w->episode_count > retention->episodes_max) ||
                m->episodes[e].sum.last_us < retention->before_us)
                drop_episode(m, e);
        }
    }
    uint32_t e;
    while (retention->rows_max && m->row_count > retention->rows_max &&
           (e = first_begun(m)) != NONE)
        drop_episode(m, e);
    *ret_rows_dropped = rows - m->row_count;
    return AW_OK;
}

/* The lists agree with the counts and with the order that they promise. */
static enum aw_err memory_check(void *self, struct aw_diag *diag)
{
    const struct memory *m = self;
    uint32_t rows = 0, episodes = 0, free_rows = 0;
    bool fine = true;
    for (uint32_t i = 0; i < m->workload_count; i++) {
        const struct workload *w = &m->workloads[m->by_name[i]];
        uint32_t rows_before = rows, episodes_before = episodes;
        for (uint32_t e = w->first; e != NONE; e = m->episodes[e].next, episodes++) {
            uint32_t count = 0, next = m->episodes[e].next;
            fine &= next == NONE ? w->last == e
                                 : m->episodes[next].prev == e &&
                                       m->episodes[next].sum.episode > m->episodes[e].sum.episode;
            for (uint32_t at = m->episodes[e].first; at != NONE; at = m->rows[at].next, count++) {
                uint32_t after = m->rows[at].next;
                fine &= after == NONE ? m->episodes[e].last == at
                                      : m->rows[after].prev == at &&
                                            m->rows[after].row.step > m->rows[at].row.step;
            }
            fine &= count == m->episodes[e].sum.step_count;
            rows += count;
        }
        fine &= rows - rows_before == w->row_count;
        fine &= episodes - episodes_before == w->episode_count;
    }
    for (uint32_t at = m->row_free; at != NONE; at = m->rows[at].next)
        free_rows++;
    fine &= rows == m->row_count && episodes == m->episode_count;
    fine &= rows + free_rows == m->rows_max;
    return fine ? AW_OK : aw_fail(diag, AW_ERR_FORMAT, "the lists of the store are broken");
}

static void memory_close(void *self)
{
    struct memory *m = self;
    if (m)
        aw_alloc_free(m->alloc, m);
}

static const struct aw_store_ops memory_ops = {
    .name = "memory",
    .append = memory_append,
    .begin = memory_nothing,
    .commit = memory_nothing,
    .episodes = memory_episodes,
    .pick = memory_pick,
    .scan = memory_scan,
    .last = memory_last,
    .counts = memory_counts,
    .workloads = memory_workloads,
    .retain = memory_retain,
    .flush = memory_nothing,
    .check = memory_check,
    .close = memory_close,
};

static uint32_t or_default(uint32_t value, uint32_t initial)
{
    return value ? value : initial;
}

enum aw_err aw__store_memory_open(struct aw_store *store, const struct aw_store_options *options,
                                  const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct memory sizes = {
        .alloc = alloc,
        .rows_max = or_default(options->rows_max, AW_STORE_MEM_ROWS),
        .episodes_max = or_default(options->episodes_max, AW_STORE_MEM_EPISODES),
        .workloads_max = or_default(options->workloads_max, AW_STORE_MEM_WORKLOADS),
        .obs_dim_max = or_default(options->obs_dim_max, AW_STORE_MEM_OBS_DIM),
        .act_dim_max = or_default(options->act_dim_max, AW_STORE_MEM_ACT_DIM),
        .oldest = NONE,
        .newest = NONE,
    };
    struct aw_carve sizing = {0};
    if (sizes.rows_max > ROWS_MAX_BOUND || sizes.episodes_max > ROWS_MAX_BOUND ||
        sizes.workloads_max > WORKLOADS_BOUND || sizes.obs_dim_max > AW_STORE_OBS_MAX ||
        sizes.act_dim_max > AW_STORE_ACT_MAX)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "expected at most %u rows and episodes, %u workloads, %u observed and %u "
                       "acted numbers",
                       ROWS_MAX_BOUND, WORKLOADS_BOUND, AW_STORE_OBS_MAX, AW_STORE_ACT_MAX);
    sizes.floats = 2 * ((size_t)sizes.obs_dim_max + sizes.act_dim_max);
    carve(&sizing, &sizes);
    struct aw_carve carving = {.base = aw_alloc_new(alloc, sizing.used, 1)};
    if (!carving.base)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a store of %zu bytes", sizing.used);
    struct memory *m = carve(&carving, &sizes);
    for (uint32_t i = 0; i < m->rows_max; i++)
        m->rows[i].next = i + 1 < m->rows_max ? i + 1 : NONE;
    for (uint32_t i = 0; i < m->episodes_max; i++)
        m->episodes[i].next = i + 1 < m->episodes_max ? i + 1 : NONE;
    *store = (struct aw_store){.ops = &memory_ops, .self = m};
    return AW_OK;
}
