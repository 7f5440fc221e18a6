/*
 * influx.c - the store in an InfluxDB 1.x database.
 *
 * A row is a point of the measurement aware_step, in one series per workload. Its time is its key:
 * episode * 2^32 + step, in nanoseconds. So a point is known by what a row is known by, and writing
 * it twice is writing it once; rows come back in the order of their keys; and an episode is exactly
 * a window of 2^32 ns, over which the server itself sums up (GROUP BY time). What the clock said is
 * the field at_us.
 *
 * Other fields: `row`, everything, packed (see pack.h); `reward`, `violated`, `ended`, for the
 * sums. A workload's name is percent-encoded in its tag: line protocol cannot carry a backslash at
 * the end of a tag, nor every other name that people choose.
 *
 * Whether the key of an append is new is known without asking, when it lies beyond the latest row
 * of its workload; else the server is asked. Two writers at once are not noticed.
 */
#include "store/influx/influx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EPISODE_NS    "4294967296ns"                              /* 2^32 */
#define TIMES         "time >= 0 AND time <= 9223372032559808511" /* EPISODE_MAX, UINT32_MAX */
#define EPISODES_PAGE 1000u
#define ROWS_PAGE     256u /* of at most 12 KB each: within the largest answer */
#define PICKS_PAGE    64u  /* statements of one question */
#define DROPS_PAGE    64u
#define SUMS                                                                             \
    "SELECT count(reward) AS n, sum(reward) AS r, sum(violated) AS v, min(at_us) AS a, " \
    "max(at_us) AS b, max(ended) AS e FROM aware_step WHERE workload = '%s' AND " TIMES  \
    " GROUP BY time(" EPISODE_NS ") fill(none) ORDER BY time %s LIMIT %u OFFSET %u"
_Static_assert(((uint64_t)AW_STORE_EPISODE_MAX << 32 | UINT32_MAX) == 9223372032559808511u,
               "TIMES");

static void start_query(struct aw__influx *s)
{
    aw_text_init(&s->query, s->query.buf, s->query.size);
}

/* ---- names ---- */

static uint32_t place_of(const struct aw__influx *s, const char *name, bool *ret_found)
{
    uint32_t low = 0, high = s->name_count;
    *ret_found = false;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = strcmp(s->names[s->order[mid]].name, name);
        if (order == 0)
            *ret_found = true;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* NULL: there is no room for one more. */
static struct aw__influx_name *add_name(struct aw__influx *s, const char *name)
{
    bool found;
    uint32_t place = place_of(s, name, &found);
    struct aw_text tag;
    if (found)
        return &s->names[s->order[place]];
    if (s->name_count == AW__INFLUX_NAMES_MAX)
        return NULL;
    memmove(&s->order[place + 1], &s->order[place], (s->name_count - place) * sizeof *s->order);
    s->order[place] = s->name_count;
    struct aw__influx_name *n = &s->names[s->name_count++];
    *n = (struct aw__influx_name){0};
    memcpy(n->name, name, strnlen(name, AW_STORE_NAME_MAX - 1));
    aw_text_init(&tag, n->tag, sizeof n->tag);
    aw_http_escape(&tag, n->name, strlen(n->name));
    return n;
}

/* The name that a tag stands for; false: none that we write. */
static bool name_of_tag(const char *tag, char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (; *tag && len < AW_STORE_NAME_MAX - 1; tag++) {
        const char *high = *tag == '%' && tag[1] ? strchr(digits, tag[1]) : NULL;
        const char *low = high && tag[2] ? strchr(digits, tag[2]) : NULL;
        if (*tag == '%' && !low)
            return false;
        name[len++] = low ? (char)((high - digits) * 16 + (low - digits)) : *tag;
        tag += low ? 2 : 0;
    }
    name[len] = '\0';
    return !*tag && !aw__name_check(name, NULL);
}

/* Adds the workload of a series and returns it; NULL: an odd one. */
static struct aw__influx_name *name_of_series(struct aw__influx *s, json_t *series)
{
    const char *tag =
        json_string_value(json_object_get(json_object_get(series, "tags"), "workload"));
    char name[AW_STORE_NAME_MAX];
    return tag && name_of_tag(tag, name) ? add_name(s, name) : NULL;
}

static enum aw_err load_names(struct aw__influx *s, struct aw_diag *diag)
{
    json_t *root = NULL, *results, *series;
    size_t i;
    start_query(s);
    aw_text_add(&s->query,
                "SELECT last(ended) AS ended FROM aware_step WHERE " TIMES " GROUP BY workload");
    enum aw_err err = aw__influx_ask(s, &root, &results, diag);
    if (err)
        return err;
    s->name_count = 0;
    json_array_foreach(json_object_get(json_array_get(results, 0), "series"), i, series)
    {
        json_t *value = json_array_get(json_object_get(series, "values"), 0);
        struct aw__influx_name *n = name_of_series(s, series);
        if (!n || !json_is_integer(json_array_get(value, 0))) {
            err = aw__influx_odd(s, diag);
            break;
        }
        n->last = (uint64_t)json_integer_value(json_array_get(value, 0));
        n->last_ended = json_integer_value(json_array_get(value, 1)) != 0;
    }
    json_decref(root);
    s->names_stale = err;
    return err;
}

/* NULL in `*ret` for a workload that is not known. */
static enum aw_err find_name(struct aw__influx *s, const char *name, struct aw__influx_name **ret,
                             struct aw_diag *diag)
{
    bool found;
    enum aw_err err = s->names_stale ? load_names(s, diag) : AW_OK;
    if (err)
        return err;
    uint32_t place = place_of(s, name, &found);
    *ret = found ? &s->names[s->order[place]] : NULL;
    return AW_OK;
}

/* ---- rows ---- */

/* A value is [time, "packed row"]. */
static enum aw_err visit_value(struct aw__influx *s, const char *workload, json_t *value,
                               aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    json_t *time = json_array_get(value, 0), *packed = json_array_get(value, 1);
    uint64_t key = (uint64_t)json_integer_value(time);
    struct aw_store_row row = {
        .workload = workload, .episode = (uint32_t)(key >> 32), .step = (uint32_t)key};
    if (!json_is_integer(time) || !json_is_string(packed))
        return aw__influx_odd(s, diag);
    if (!aw__unpack(json_string_value(packed), json_string_length(packed), &s->packed, &row))
        return aw_fail_at(diag, AW_ERR_FORMAT, s->shown, 0, 0, NULL,
                          "damaged: episode %u, step %u of \"%s\" is not a row of this format",
                          row.episode, row.step, workload);
    return visit(ctx, &row);
}

static void add_line(struct aw__influx *s, const char *tag, const struct aw_store_row *row)
{
    char real[AW_TEXT_REAL_MAX];
    aw_text_add(&s->pending, "aware_step,workload=%s row=\"", tag);
    aw__pack(row, &s->packed, &s->pending);
    aw_text_add(&s->pending, "\",reward=%s,violated=%ui,ended=%ui,at_us=%" PRId64 "i %" PRIu64 "\n",
                aw_text_real((double)row->reward, real, sizeof real), row->figures.violated,
                row->terminated || row->truncated, row->at_us, aw__key(row->episode, row->step));
}

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

/* What the server has under the key of `row`. */
static enum aw_err look_up(struct aw__influx *s, const struct aw__influx_name *n,
                           const struct aw_store_row *row, bool *ret_found, struct aw_diag *diag)
{
    json_t *root = NULL, *results;
    struct comparing comparing = {.row = row};
    start_query(s);
    aw_text_add(&s->query,
                "SELECT \"row\" FROM aware_step WHERE workload = '%s' AND time = %" PRIu64, n->tag,
                aw__key(row->episode, row->step));
    enum aw_err err = aw__influx_ask(s, &root, &results, diag);
    if (err)
        return err;
    json_t *values = aw__influx_values(results, 0);
    *ret_found = values;
    if (values)
        err = visit_value(s, row->workload, json_array_get(values, 0), compare, &comparing, diag);
    if (!err && values && !comparing.same)
        err = aw__row_conflict(row, diag);
    json_decref(root);
    return err;
}

static enum aw_err influx_append(void *self, const struct aw_store_row *row, struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw__influx_name *n;
    const uint64_t key = aw__key(row->episode, row->step);
    bool found = false;
    if (s->read_only)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, s->shown, 0, 0, NULL, "open for reading only");
    if (s->group_lost)
        return aw_fail_at(diag, AW_ERR_IO, s->shown, 0, 0, NULL,
                          "an earlier failure has undone this group of appends");
    enum aw_err err = find_name(s, row->workload, &n, diag);
    if (err)
        return err;
    if (n && key <= n->last && ((err = look_up(s, n, row, &found, diag)) || found))
        return err;
    if (!n) {
        if (!(n = add_name(s, row->workload)))
            return aw_fail(diag, AW_ERR_LIMIT, "more than %u workloads", AW__INFLUX_NAMES_MAX);
        n->last = key;
    }
    if (key >= n->last) {
        n->last = key;
        n->last_ended = row->terminated || row->truncated;
    }
    add_line(s, n->tag, row);
    if (!s->grouped || s->pending.len >= AW__INFLUX_PENDING_BYTES)
        err = aw__influx_send(s, diag);
    return err;
}

static enum aw_err influx_begin(void *self, struct aw_diag *diag)
{
    struct aw__influx *s = self;
    (void)diag;
    s->grouped = true;
    return AW_OK;
}

static enum aw_err influx_commit(void *self, struct aw_diag *diag)
{
    struct aw__influx *s = self;
    bool lost = s->group_lost;
    s->grouped = s->group_lost = false;
    if (lost)
        return aw_fail_at(diag, AW_ERR_IO, s->shown, 0, 0, NULL,
                          "an earlier failure has undone this group of appends");
    return aw__influx_send(s, diag);
}

static enum aw_err influx_flush(void *self, struct aw_diag *diag)
{
    return aw__influx_send(self, diag);
}

/* ---- episodes ---- */

/* A page of sums: rows of [time, n, r, v, a, b, e]; NULL in `*ret_values` past the last. */
static enum aw_err ask_sums(struct aw__influx *s, const char *tag, bool newest_first,
                            uint32_t offset, json_t **ret_root, json_t **ret_values,
                            struct aw_diag *diag)
{
    json_t *results;
    start_query(s);
    aw_text_add(&s->query, SUMS, tag, newest_first ? "DESC" : "ASC", EPISODES_PAGE, offset);
    enum aw_err err = aw__influx_ask(s, ret_root, &results, diag);
    if (!err)
        *ret_values = aw__influx_values(results, 0);
    return err;
}

static struct aw_store_episode sum_of(json_t *value)
{
    struct aw_store_episode e = {
        .episode = (uint32_t)((uint64_t)json_integer_value(json_array_get(value, 0)) >> 32),
        .step_count = (uint32_t)json_integer_value(json_array_get(value, 1)),
        .reward_sum = json_number_value(json_array_get(value, 2)),
        .violation_count = (uint64_t)json_integer_value(json_array_get(value, 3)),
        .first_us = json_integer_value(json_array_get(value, 4)),
        .last_us = json_integer_value(json_array_get(value, 5)),
        .ended = json_integer_value(json_array_get(value, 6)) != 0,
    };
    e.reward_mean = e.reward_sum / (e.step_count ? e.step_count : 1);
    return e;
}

static enum aw_err influx_episodes(void *self, const char *workload, enum aw_store_order order,
                                   uint32_t max, struct aw_store_episode *ret, uint32_t *ret_count,
                                   struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw__influx_name *n;
    uint32_t count = 0, page = EPISODES_PAGE;
    enum aw_err err = find_name(s, workload, &n, diag);
    for (uint32_t offset = 0; !err && n && max && page == EPISODES_PAGE; offset += page) {
        json_t *root = NULL, *values, *value;
        size_t i;
        if ((err = ask_sums(s, n->tag, true, offset, &root, &values, diag)))
            break;
        json_array_foreach(values, i, value)
        {
            struct aw_store_episode sum = sum_of(value);
            aw__episodes_insert(ret, &count, max, order, &sum);
        }
        page = order == AW_STORE_NEWEST && count == max ? 0 : (uint32_t)json_array_size(values);
        json_decref(root);
    }
    if (!err)
        *ret_count = count;
    return err;
}

/* Asks for the rows at picks [first, last), all in the query already, and visits them. */
static enum aw_err visit_picks(struct aw__influx *s, const char *workload, uint32_t count,
                               aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    json_t *root = NULL, *results;
    enum aw_err err = count ? aw__influx_ask(s, &root, &results, diag) : AW_OK;
    for (uint32_t i = 0; i < count && !err; i++) {
        json_t *value = json_array_get(aw__influx_values(results, i), 0);
        err = value ? visit_value(s, workload, value, visit, ctx, diag) : aw__influx_odd(s, diag);
    }
    json_decref(root);
    start_query(s);
    return err;
}

/* Of one page of sums: adds a statement per pick to the query and asks when it is full. */
struct picking {
    const struct aw_store_pick *picks;
    uint32_t count, done, asked; /* done: put into questions; asked: answered too */
    uint64_t before;             /* rows of earlier episodes */
};

static enum aw_err pick_page(struct aw__influx *s, const struct aw__influx_name *n,
                             struct picking *picking, json_t *values, aw_store_visit *visit,
                             void *ctx, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    json_t *value;
    size_t i;
    start_query(s);
    json_array_foreach(values, i, value)
    {
        struct aw_store_episode sum = sum_of(value);
        uint64_t key = aw__key(sum.episode, 0);
        while (!err && picking->done < picking->count &&
               picking->picks[picking->done].rank < picking->before + sum.step_count) {
            aw_text_add(&s->query,
                        "SELECT \"row\" FROM aware_step WHERE workload = '%s' AND time >= %" PRIu64
                        " AND time <= %" PRIu64 " LIMIT 1 OFFSET %" PRIu64 ";",
                        n->tag, key, key | UINT32_MAX,
                        picking->picks[picking->done].rank - picking->before);
            if (++picking->done - picking->asked == PICKS_PAGE) {
                err = visit_picks(s, n->name, PICKS_PAGE, visit, ctx, diag);
                picking->asked = picking->done;
            }
        }
        picking->before += sum.step_count;
    }
    if (!err)
        err = visit_picks(s, n->name, picking->done - picking->asked, visit, ctx, diag);
    picking->asked = picking->done;
    return err;
}

static enum aw_err influx_pick(void *self, const char *workload, const struct aw_store_pick *picks,
                               uint32_t count, aw_store_visit *visit, void *ctx,
                               struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw__influx_name *n;
    struct picking picking = {.picks = picks, .count = count};
    enum aw_err err = find_name(s, workload, &n, diag);
    for (uint32_t offset = 0; !err && n && picking.done < count; offset += EPISODES_PAGE) {
        json_t *root = NULL, *values;
        if ((err = ask_sums(s, n->tag, false, offset, &root, &values, diag)))
            break;
        err = values ? pick_page(s, n, &picking, values, visit, ctx, diag)
                     : aw__influx_odd(s, diag); /* rows vanished under us */
        json_decref(root);
    }
    return err;
}

/* ---- scans ---- */

static enum aw_err scan_name(struct aw__influx *s, const struct aw__influx_name *n,
                             const struct aw_store_query *query, aw_store_visit *visit, void *ctx,
                             struct aw_diag *diag)
{
    const uint64_t end = aw__key(AW_STORE_EPISODE_MAX, UINT32_MAX);
    uint64_t from = aw__key(query->episode_first, query->step_first);
    uint64_t until = aw__key(query->episode_last, query->step_last);
    size_t page = ROWS_PAGE;
    enum aw_err err = AW_OK;
    until = until < end ? until : end;
    while (!err && page == ROWS_PAGE && from <= until) {
        json_t *root = NULL, *results, *values, *value;
        size_t i;
        start_query(s);
        aw_text_add(&s->query,
                    "SELECT \"row\" FROM aware_step WHERE workload = '%s' AND time >= %" PRIu64
                    " AND time <= %" PRIu64,
                    n->tag, from, until);
        if (query->from_us != INT64_MIN)
            aw_text_add(&s->query, " AND at_us >= %" PRId64, query->from_us);
        if (query->until_us != INT64_MAX)
            aw_text_add(&s->query, " AND at_us <= %" PRId64, query->until_us);
        aw_text_add(&s->query, " LIMIT %u", ROWS_PAGE);
        if ((err = aw__influx_ask(s, &root, &results, diag)))
            break;
        values = aw__influx_values(results, 0);
        page = json_array_size(values);
        json_array_foreach(values, i, value)
        {
            if ((err = visit_value(s, n->name, value, visit, ctx, diag)))
                break;
            from = (uint64_t)json_integer_value(json_array_get(value, 0)) + 1;
        }
        json_decref(root);
    }
    return err;
}

static enum aw_err influx_scan(void *self, const struct aw_store_query *query,
                               aw_store_visit *visit, void *ctx, struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw__influx_name *n;
    enum aw_err err = find_name(s, query->workload ? query->workload : "", &n, diag);
    if (err || query->workload)
        return err || !n ? err : scan_name(s, n, query, visit, ctx, diag);
    for (uint32_t i = 0; i < s->name_count && !err; i++)
        err = scan_name(s, &s->names[s->order[i]], query, visit, ctx, diag);
    return err;
}

static enum aw_err influx_last(void *self, const char *workload, struct aw_store_last *ret,
                               struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw__influx_name *n;
    enum aw_err err = find_name(s, workload, &n, diag);
    if (err)
        return err;
    if (!n)
        return aw_fail(diag, AW_ERR_NODATA, "no row of \"%s\" is kept", workload);
    *ret = (struct aw_store_last){(uint32_t)(n->last >> 32), (uint32_t)n->last, n->last_ended};
    return AW_OK;
}

/* Sets the counts of every name, or of one. */
static enum aw_err load_counts(struct aw__influx *s, struct aw__influx_name *only,
                               struct aw_diag *diag)
{
    json_t *root = NULL, *results, *series;
    size_t i;
    start_query(s);
    aw_text_add(&s->query,
                "SELECT count(n), sum(n) FROM (SELECT count(reward) AS n FROM aware_step WHERE ");
    if (only)
        aw_text_add(&s->query, "workload = '%s' AND ", only->tag);
    aw_text_add(&s->query, TIMES " GROUP BY workload, time(" EPISODE_NS ") fill(none)) WHERE " TIMES
                                 " GROUP BY workload");
    enum aw_err err = aw__influx_ask(s, &root, &results, diag);
    if (err)
        return err;
    for (uint32_t k = 0; k < s->name_count; k++)
        s->names[k].counts = (struct aw_store_counts){.workloads = 1};
    json_array_foreach(json_object_get(json_array_get(results, 0), "series"), i, series)
    {
        json_t *value = json_array_get(json_object_get(series, "values"), 0);
        struct aw__influx_name *n = name_of_series(s, series);
        if (!n) {
            err = aw__influx_odd(s, diag);
            break;
        }
        n->counts =
            (struct aw_store_counts){1, (uint64_t)json_integer_value(json_array_get(value, 1)),
                                     (uint64_t)json_integer_value(json_array_get(value, 2))};
    }
    json_decref(root);
    return err;
}

static enum aw_err influx_counts(void *self, const char *workload, struct aw_store_counts *ret,
                                 struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw__influx_name *n;
    struct aw_store_counts counts = {0};
    enum aw_err err = find_name(s, workload ? workload : "", &n, diag);
    if (!err && (!workload || n))
        err = load_counts(s, n, diag);
    if (err)
        return err;
    if (workload && n)
        counts = n->counts;
    for (uint32_t i = 0; i < s->name_count && !workload; i++) {
        counts.workloads++;
        counts.episodes += s->names[i].counts.episodes;
        counts.rows += s->names[i].counts.rows;
    }
    *ret = counts;
    return AW_OK;
}

static enum aw_err influx_workloads(void *self, aw_store_visit_name *visit, void *ctx,
                                    struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw_store_counts counts;
    enum aw_err err = influx_counts(s, NULL, &counts, diag);
    for (uint32_t i = 0; i < s->name_count && !err; i++)
        err = visit(ctx, s->names[s->order[i]].name, &s->names[s->order[i]].counts);
    return err;
}

/* ---- retention ---- */

struct kept {
    uint32_t place; /* of the workload, by name */
    uint32_t episode, rows;
    int64_t first_us, last_us;
    bool latest, drop;
};

static int by_age(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    if (x->first_us != y->first_us)
        return x->first_us < y->first_us ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->episode < y->episode ? -1 : x->episode > y->episode;
}

/* Every episode of the store, the newest of each workload first. */
static enum aw_err list_kept(struct aw__influx *s, struct kept *kept, uint64_t max,
                             uint64_t *ret_count, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->name_count && !err; i++) {
        size_t page = EPISODES_PAGE;
        for (uint32_t offset = 0; page == EPISODES_PAGE; offset += EPISODES_PAGE) {
            json_t *root = NULL, *values, *value;
            size_t k;
            if ((err = ask_sums(s, s->names[s->order[i]].tag, true, offset, &root, &values, diag)))
                break;
            page = json_array_size(values);
            json_array_foreach(values, k, value)
            {
                struct aw_store_episode e = sum_of(value);
                if (count < max)
                    kept[count++] = (struct kept){.place = i,
                                                  .episode = e.episode,
                                                  .rows = e.step_count,
                                                  .first_us = e.first_us,
                                                  .last_us = e.last_us,
                                                  .latest = offset + k == 0};
            }
            json_decref(root);
        }
    }
    *ret_count = count;
    return err;
}

static void choose(struct kept *kept, uint64_t count, const struct aw_store_retention *retention)
{
    uint64_t rows = 0;
    uint32_t rank = 0;
    for (uint64_t i = 0; i < count; i++) { /* the newest of each workload come first */
        rank = kept[i].latest ? 1 : rank + 1;
        kept[i].drop =
            !kept[i].latest && ((retention->episodes_max && rank > retention->episodes_max) ||
                                kept[i].last_us < retention->before_us);
        rows += kept[i].drop ? 0 : kept[i].rows;
    }
    qsort(kept, count, sizeof *kept, by_age);
    for (uint64_t i = 0; i < count && retention->rows_max && rows > retention->rows_max; i++) {
        if (!kept[i].drop && !kept[i].latest) {
            kept[i].drop = true;
            rows -= kept[i].rows;
        }
    }
}

static enum aw_err drop_chosen(struct aw__influx *s, const struct kept *kept, uint64_t count,
                               uint64_t *ret_rows, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    uint64_t rows = 0;
    uint32_t statements = 0;
    start_query(s);
    for (uint64_t i = 0; i <= count && !err; i++) {
        if (i < count && kept[i].drop) {
            uint64_t key = aw__key(kept[i].episode, 0);
            aw_text_add(&s->query,
                        "DELETE FROM aware_step WHERE workload = '%s' AND time >= %" PRIu64
                        " AND time <= %" PRIu64 ";",
                        s->names[s->order[kept[i].place]].tag, key, key | UINT32_MAX);
            rows += kept[i].rows;
            statements++;
        }
        if (statements == DROPS_PAGE || (i == count && statements)) {
            json_t *root = NULL, *results;
            err = aw__influx_ask(s, &root, &results, diag);
            json_decref(root);
            start_query(s);
            statements = 0;
        }
    }
    if (!err)
        *ret_rows = rows;
    return err;
}

/* Allocates a list of the episodes while it works. */
static enum aw_err influx_retain(void *self, const struct aw_store_retention *retention,
                                 uint64_t *ret_rows_dropped, struct aw_diag *diag)
{
    struct aw__influx *s = self;
    struct aw_store_counts counts;
    uint64_t count;
    if (s->read_only)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, s->shown, 0, 0, NULL, "open for reading only");
    enum aw_err err = influx_counts(s, NULL, &counts, diag);
    if (err)
        return err;
    struct kept *kept = aw_alloc_new(s->alloc, counts.episodes, sizeof *kept);
    if (!kept)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a list of %" PRIu64 " episodes",
                       counts.episodes);
    err = list_kept(s, kept, counts.episodes, &count, diag);
    if (!err) {
        choose(kept, count, retention);
        err = drop_chosen(s, kept, count, ret_rows_dropped, diag);
    }
    aw_alloc_free(s->alloc, kept);
    return err;
}

static enum aw_err check_one(void *ctx, const struct aw_store_row *row)
{
    return aw__row_check(row, ctx);
}

static enum aw_err influx_check(void *self, struct aw_diag *diag)
{
    enum aw_err err = influx_scan(self, &AW_STORE_EVERY, check_one, diag, diag);
    return err == AW_ERR_RANGE || err == AW_ERR_DIVERGED ? AW_ERR_FORMAT : err;
}

static void influx_close(void *self)
{
    struct aw__influx *s = self;
    if (!s)
        return;
    aw_http_close(s->http);
    aw_alloc_free(s->alloc, s);
}

static const struct aw_store_ops influx_ops = {
    .name = "influx",
    .append = influx_append,
    .begin = influx_begin,
    .commit = influx_commit,
    .episodes = influx_episodes,
    .pick = influx_pick,
    .scan = influx_scan,
    .last = influx_last,
    .counts = influx_counts,
    .workloads = influx_workloads,
    .retain = influx_retain,
    .flush = influx_flush,
    .check = influx_check,
    .close = influx_close,
};

static struct aw__influx *carve(struct aw_carve *carve)
{
    struct aw__influx *s = aw_carve_take(carve, 1, sizeof *s);
    const size_t form = 3 * AW__INFLUX_QUERY_BYTES + 8;
    const size_t pending = AW__INFLUX_PENDING_BYTES + AW__INFLUX_LINE_MAX;
    char *parts[] = {aw_carve_take(carve, pending, 1),
                     aw_carve_take(carve, AW__INFLUX_QUERY_BYTES, 1),
                     aw_carve_take(carve, form, 1)};
    void *names = aw_carve_take(carve, AW__INFLUX_NAMES_MAX, sizeof *s->names);
    void *order = aw_carve_take(carve, AW__INFLUX_NAMES_MAX, sizeof *s->order);
    if (!carve->base)
        return NULL;
    aw_text_init(&s->pending, parts[0], pending);
    aw_text_init(&s->query, parts[1], AW__INFLUX_QUERY_BYTES);
    aw_text_init(&s->form, parts[2], form);
    s->names = names;
    s->order = order;
    return s;
}

enum aw_err aw__store_influx_open(struct aw_store *store, const char *url,
                                  const struct aw_store_options *options,
                                  const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_carve sizing = {0};
    json_t *root = NULL, *results;
    carve(&sizing);
    struct aw_carve carving = {.base = aw_alloc_new(alloc, sizing.used, 1)};
    if (!carving.base)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    struct aw__influx *s = carve(&carving);
    s->alloc = alloc;
    enum aw_err err = aw__influx_connect(s, url, options, diag);
    if (!err && !options->read_only) {
        aw_text_add(&s->query, "CREATE DATABASE \"%s\"", s->database); /* or it is there already */
        err = aw__influx_ask(s, &root, &results, diag);
        json_decref(root);
    }
    if (!err)
        err = load_names(s, diag);
    if (err) {
        influx_close(s);
        return err;
    }
    *store = (struct aw_store){.ops = &influx_ops, .self = s};
    return AW_OK;
}
