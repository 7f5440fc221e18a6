/* metrics.c - see metrics.h. */
#include "trace/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "trace/read.h"

#define FIRST_ROOM     4096u
#define WINDOW_MAX     64u   /* minutes of a period that are looked at */
#define SPREAD_SHARE   0.001 /* of the median: the least spread; constant figures have none */
#define SPREAD_LEAST_M 1.0   /* millicores */

static const char *const heads[] = {"TimeStamp", "PodName", "CpuUsage(m)", "CpuUsageRate(%)"};
enum { TIME, POD, USAGE, RATE, HEADS };

static bool grow(struct aw_metrics *metrics)
{
    uint32_t room = metrics->room ? metrics->room * 2 : FIRST_ROOM;
    if (metrics->count < metrics->room)
        return true;
    if (room > AW_METRICS_ROWS_MAX)
        return false;
    struct aw_metric *larger = aw_alloc_new(metrics->alloc, room, sizeof *larger);
    if (!larger)
        return false;
    if (metrics->count)
        memcpy(larger, metrics->rows, metrics->count * sizeof *larger);
    aw_alloc_free(metrics->alloc, metrics->rows);
    metrics->rows = larger;
    metrics->room = room;
    return true;
}

void aw_metrics_deinit(struct aw_metrics *metrics)
{
    aw_alloc_free(metrics->alloc, metrics->rows);
    *metrics = (struct aw_metrics){0};
}

static int compare_rows(const void *left, const void *right)
{
    const struct aw_metric *a = left, *b = right;
    if (a->service != b->service)
        return a->service < b->service ? -1 : 1;
    if (a->minute != b->minute)
        return a->minute < b->minute ? -1 : 1;
    return (a->pod > b->pod) - (a->pod < b->pod);
}

/* Rows of a pod in one minute as one, their mean: scraping is often twice a minute, sometimes
 * thrice. Returns the first row behind them. */
static uint32_t join_rows(struct aw_metrics *metrics, uint32_t from, struct aw_metric *ret)
{
    double millicores = 0, use = 0;
    uint32_t i = from, uses = 0;
    *ret = metrics->rows[from];
    for (; i < metrics->count && !compare_rows(&metrics->rows[i], ret); i++) {
        millicores += metrics->rows[i].cpu_millicores;
        if (isnan(metrics->rows[i].cpu_use))
            continue;
        use += metrics->rows[i].cpu_use;
        uses++;
    }
    ret->cpu_millicores = millicores / (i - from);
    ret->cpu_use = uses ? use / uses : (double)NAN;
    return i;
}

/* Pods of a service in one minute as one: what they use together, the fullest of them. */
void aw_metrics_join(struct aw_metrics *metrics)
{
    uint32_t kept = 0;
    AW_ASSERT(!metrics->joined);
    metrics->joined = true;
    if (!metrics->count)
        return;
    qsort(metrics->rows, metrics->count, sizeof *metrics->rows, compare_rows);
    for (uint32_t i = 0; i < metrics->count;) {
        struct aw_metric *last = kept ? &metrics->rows[kept - 1] : NULL, row;
        i = join_rows(metrics, i, &row);
        if (last && last->service == row.service && last->minute == row.minute) {
            last->cpu_millicores += row.cpu_millicores;
            last->cpu_use = fmax(last->cpu_use, row.cpu_use);
        } else {
            metrics->rows[kept++] = row;
        }
    }
    metrics->count = kept;
}

/* Also of milliseconds, microseconds and nanoseconds. */
static double seconds_of(double time)
{
    while (time >= 1e11 && time < 1e22)
        time /= 1000;
    return time;
}

enum aw_err aw_metrics_read(struct aw_metrics *metrics, struct aw_names *names, const char *name,
                            const char *bytes, size_t size, struct aw_diag *diag)
{
    struct aw_csv_lines lines = {.at = bytes, .end = bytes + size};
    struct aw_csv_cell cells[AW_CSV_CELLS_MAX];
    uint32_t place[HEADS], count = aw_csv_next(&lines, cells), least = 0;
    const uint32_t before = metrics->count;
    AW_ASSERT(!metrics->joined);
    for (uint32_t i = 0; i < HEADS; i++) {
        place[i] = aw_csv_find(cells, count, heads[i]);
        if (place[i] == UINT32_MAX && i != RATE)
            return aw_fail_at(diag, AW_ERR_FORMAT, name, 1, 0, heads[i],
                              "expected a column of this name in the first line");
        least = place[i] != UINT32_MAX && place[i] + 1 > least ? place[i] + 1 : least;
    }
    while ((count = aw_csv_next(&lines, cells))) {
        const double time =
            count < least ? (double)NAN : seconds_of(aw_csv_real(&cells[place[TIME]]));
        if (!(time >= 0 && time < 1e11)) {
            metrics->count = before;
            return aw_fail_at(diag, AW_ERR_FORMAT, name, lines.line, 0, heads[TIME],
                              count < least ? "expected %u cells, found %u"
                                            : "expected seconds since 1970 in one of %u cells",
                              least, count);
        }
        const double usage = aw_csv_real(&cells[place[USAGE]]);
        const struct aw_csv_cell *pod = &cells[place[POD]];
        if (isnan(usage))
            continue;
        if (!grow(metrics)) {
            metrics->count = before;
            return aw_fail_at(diag, AW_ERR_LIMIT, name, lines.line, 0, NULL,
                              "more than %u rows, or no memory for them", metrics->count);
        }
        const double rate =
            place[RATE] == UINT32_MAX ? (double)NAN : aw_csv_real(&cells[place[RATE]]);
        metrics->rows[metrics->count++] = (struct aw_metric){
            .minute = (int64_t)time / 60,
            .service = aw_names_add(names, pod->at,
                                    aw_span_pod_service(pod->at, pod->len, names->pods_by_parts)),
            .pod = aw_names_add(names, pod->at, pod->len),
            .cpu_millicores = usage,
            .cpu_use = rate / 100,
        };
    }
    return AW_OK;
}

enum aw_err aw_metrics_read_file(struct aw_metrics *metrics, struct aw_names *names,
                                 const char *path, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    enum aw_err err = aw_packed_read(path, AW_SPANS_FILE_MAX, metrics->alloc, &bytes, &size, diag);
    if (!err)
        err = aw_metrics_read(metrics, names, path, bytes, size, diag);
    aw_alloc_free(metrics->alloc, bytes);
    return err;
}

static bool is_faulty(int64_t minute, const struct aw_minutes *faulty, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (minute >= faulty[i].from && minute <= faulty[i].until)
            return true;
    }
    return false;
}

struct history {
    double millicores[AW_METRICS_HISTORY], use[AW_METRICS_HISTORY];
    uint32_t count, use_count;
};

static void note(struct history *history, const struct aw_metric *row)
{
    history->millicores[history->count++] = row->cpu_millicores;
    if (!isnan(row->cpu_use))
        history->use[history->use_count++] = row->cpu_use;
}

/* The latest fault-free minutes before the period; where there are too few, the first after it. */
static void take_history(struct history *history, const struct aw_metric *rows, uint32_t count,
                         struct aw_minutes period, const struct aw_minutes *faulty,
                         uint32_t faulty_count)
{
    *history = (struct history){0};
    for (uint32_t i = count; i-- > 0 && history->count < AW_METRICS_HISTORY;) {
        if (rows[i].minute < period.from && rows[i].minute >= period.from - AW_METRICS_OLDEST &&
            !is_faulty(rows[i].minute, faulty, faulty_count))
            note(history, &rows[i]);
    }
    if (history->count >= AW_METRICS_LEAST)
        return;
    for (uint32_t i = 0; i < count && history->count < AW_METRICS_HISTORY; i++) {
        if (rows[i].minute - 1 > period.until &&
            rows[i].minute <= period.from + AW_METRICS_OLDEST &&
            !is_faulty(rows[i].minute, faulty, faulty_count))
            note(history, &rows[i]);
    }
}

/* A figure is of the minute before its time: the one after a period is of its last minute, unless
 * another fault begins there. */
static int64_t last_minute(struct aw_minutes period, const struct aw_minutes *faulty,
                           uint32_t faulty_count)
{
    if (period.until == INT64_MAX)
        return period.until;
    for (uint32_t i = 0; i < faulty_count; i++) {
        if (faulty[i].from == period.until + 1)
            return period.until;
    }
    return period.until + 1;
}

static bool evidence_of(const struct aw_metric *rows, uint32_t count, struct aw_minutes period,
                        const struct aw_minutes *faulty, uint32_t faulty_count,
                        struct aw_evidence *ret)
{
    struct history history;
    double most = -1, use = (double)NAN;
    const int64_t last = last_minute(period, faulty, faulty_count);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].minute < period.from || rows[i].minute > last)
            continue;
        most = fmax(most, rows[i].cpu_millicores);
        use = fmax(use, rows[i].cpu_use);
    }
    if (most < 0)
        return false;
    take_history(&history, rows, count, period, faulty, faulty_count);
    *ret = (struct aw_evidence){.service = rows[0].service,
                                .cpu_use = use,
                                .cpu_rise = (double)NAN,
                                .cpu_z = (double)NAN,
                                .throttled = (double)NAN};
    if (history.count < AW_METRICS_LEAST)
        return true;
    aw_stats_sort(history.millicores, history.count);
    const double median = aw_stats_median(history.millicores, history.count);
    double spread = aw_stats_quantile(history.millicores, history.count, 0.75) -
                    aw_stats_quantile(history.millicores, history.count, 0.25);
    spread = fmax(fmax(spread, SPREAD_SHARE * median), SPREAD_LEAST_M);
    ret->cpu_z = (most - median) / spread;
    if (history.use_count >= AW_METRICS_LEAST) {
        aw_stats_sort(history.use, history.use_count);
        ret->cpu_rise = use - aw_stats_median(history.use, history.use_count);
    }
    return true;
}

uint32_t aw_metrics_evidence(const struct aw_metrics *metrics, struct aw_minutes period,
                             const struct aw_minutes *faulty, uint32_t faulty_count,
                             struct aw_evidence *ret, uint32_t max)
{
    uint32_t found = 0;
    AW_ASSERT(metrics->joined || !metrics->count);
    for (uint32_t from = 0, until; from < metrics->count && found < max; from = until) {
        until = from;
        while (until < metrics->count &&
               metrics->rows[until].service == metrics->rows[from].service)
            until++;
        found += evidence_of(metrics->rows + from, until - from, period, faulty, faulty_count,
                             &ret[found]);
    }
    return found;
}
