/*
 * cases_metrics.c - see cases.h: folders of metrics alone.
 *
 * Every column SERVICE_METRIC of the anomalous file is scored by how far its median lies above that
 * of the normal file, in spreads of the latter. The spread is the interquartile range, but at least
 * 0.1 % of the median: a counter that never moves (bytes of memory) would win with any other rule.
 * A service has the score of its best metric.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/stats.h"
#include "base/text.h"
#include "trace/cases_internal.h"
#include "trace/read.h"

#define SPREAD_SHARE 0.001
#define SPREAD_LEAST 1e-9
#define SERVICES_MAX AW_CSV_CELLS_MAX
#define ROWS_MAX     65536u
#define SCORE_SURE   10.0 /* spreads that are no accident */

struct table {
    char *bytes;
    struct aw_csv_cell heads[AW_CSV_CELLS_MAX];
    uint32_t columns, rows;
    double *values; /* [columns][ROWS_MAX] */
};

struct service {
    char name[128];
    char metric[64];
    double score;
};

static void table_deinit(struct table *table, const struct aw_alloc *alloc)
{
    aw_alloc_free(alloc, table->bytes);
    aw_alloc_free(alloc, table->values);
    *table = (struct table){0};
}

static enum aw_err table_read(struct table *table, const char *folder, const char *file,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct aw_csv_cell cells[AW_CSV_CELLS_MAX];
    struct stat stat;
    size_t size = 0;
    uint32_t count;
    snprintf(path, sizeof path, "%s/%s.csv.gz", folder, file);
    if (lstat(path, &stat) != 0)
        snprintf(path, sizeof path, "%s/%s.csv", folder, file);
    enum aw_err err = aw_packed_read(path, AW_SPANS_FILE_MAX, alloc, &table->bytes, &size, diag);
    if (err)
        return err;
    struct aw_csv_lines lines = {.at = table->bytes, .end = table->bytes + size};
    table->columns = aw_csv_next(&lines, table->heads);
    if (table->columns < 2)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL,
                          "expected a first line with the names of columns");
    table->values = aw_alloc_new(alloc, (size_t)table->columns * ROWS_MAX, sizeof *table->values);
    if (!table->values)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    while ((count = aw_csv_next(&lines, cells)) && table->rows < ROWS_MAX) {
        if (count < table->columns)
            return aw_fail_at(diag, AW_ERR_FORMAT, path, lines.line, 0, NULL,
                              "expected %u cells, found %u", table->columns, count);
        for (uint32_t i = 0; i < table->columns; i++)
            table->values[(size_t)i * ROWS_MAX + table->rows] = aw_csv_real(&cells[i]);
        table->rows++;
    }
    return AW_OK;
}

/* The numbers of a column, sorted; how many there are. */
static uint32_t column(const struct table *table, uint32_t index, double *ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->rows; i++) {
        const double value = table->values[(size_t)index * ROWS_MAX + i];
        if (isfinite(value))
            ret[count++] = value;
    }
    aw_stats_sort(ret, count);
    return count;
}

static double score_of(const struct table *normal, const struct table *odd, uint32_t a, uint32_t b,
                       double *scratch)
{
    uint32_t count = column(normal, a, scratch);
    if (!count)
        return 0;
    const double median = aw_stats_median(scratch, count);
    double spread =
        aw_stats_quantile(scratch, count, 0.75) - aw_stats_quantile(scratch, count, 0.25);
    spread = fmax(fmax(spread, SPREAD_SHARE * fabs(median)), SPREAD_LEAST);
    count = column(odd, b, scratch);
    return count ? (aw_stats_median(scratch, count) - median) / spread : 0;
}

static uint32_t rank_services(const struct table *normal, const struct table *odd,
                              struct service *services, double *scratch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < odd->columns; i++) {
        const struct aw_csv_cell *head = &odd->heads[i];
        const char *mark = memchr(head->at, '_', head->len);
        uint32_t a = 0, k = 0;
        while (a < normal->columns && (normal->heads[a].len != head->len ||
                                       memcmp(normal->heads[a].at, head->at, head->len) != 0))
            a++;
        if (!mark || a == normal->columns)
            continue;
        const double score = score_of(normal, odd, a, i, scratch);
        const size_t len = (size_t)(mark - head->at);
        while (k < count &&
               (strlen(services[k].name) != len || memcmp(services[k].name, head->at, len) != 0))
            k++;
        if (k == count) {
            snprintf(services[count].name, sizeof services->name, "%.*s",
                     (int)(len < 127 ? len : 127), head->at);
            services[count++].score = -INFINITY;
        }
        if (score > services[k].score) {
            services[k].score = score;
            snprintf(services[k].metric, sizeof services->metric, "%.*s",
                     (int)(head->len - len - 1 < 63 ? head->len - len - 1 : 63), mark + 1);
        }
    }
    return count;
}

static int by_score(const void *left, const void *right)
{
    const struct service *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

static enum aw_err read_case(struct aw_cases *cases, const char *folder, const char *fault,
                             const char *repetition, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct table normal = {0}, odd = {0};
    struct service *services = aw_alloc_new(cases->alloc, SERVICES_MAX, sizeof *services);
    double *scratch = aw_alloc_new(cases->alloc, ROWS_MAX, sizeof *scratch);
    struct aw_case *one = services && scratch ? aw__cases_add(cases) : NULL;
    enum aw_err err = AW_OK;
    if (!one) {
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory, or more than %u cases", AW_CASES_MAX);
        goto out;
    }
    const char *mark = strrchr(fault, '-');
    snprintf(one->name, sizeof one->name, "%.90s/%.32s", fault, repetition);
    snprintf(one->service, sizeof one->service, "%.*s", (int)(mark - fault), fault);
    snprintf(one->type, sizeof one->type, "%.47s", mark + 1);
    one->sort = AW_CASE_RESOURCE;
    snprintf(path, sizeof path, "%s/%s/%s", folder, fault, repetition);
    if ((err = table_read(&normal, path, "normal", cases->alloc, diag)) ||
        (err = table_read(&odd, path, "anomalous", cases->alloc, diag)))
        goto out;
    const uint32_t count = rank_services(&normal, &odd, services, scratch);
    qsort(services, count, sizeof *services, by_score);
    char *const names[3] = {one->first, one->second, one->third};
    for (uint32_t i = 0; i < count; i++) {
        if (i < 3)
            snprintf(names[i], sizeof one->first, "%s", services[i].name);
        if (!one->rank && !strcmp(services[i].name, one->service))
            one->rank = i + 1;
    }
    one->confident = count && services[0].score > SCORE_SURE;
    if (count)
        snprintf(one->text, sizeof one->text, "%s is %.0f spreads above its normal median",
                 services[0].metric, services[0].score);
out:
    table_deinit(&normal, cases->alloc);
    table_deinit(&odd, cases->alloc);
    aw_alloc_free(cases->alloc, services);
    aw_alloc_free(cases->alloc, scratch);
    return err;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strlen(entry->d_name) < 100;
}

static bool has_normal(const char *folder, const char *fault, const char *repetition)
{
    char path[AW_FILE_PATH_MAX];
    struct stat stat;
    snprintf(path, sizeof path, "%s/%s/%s/normal.csv.gz", folder, fault, repetition);
    if (lstat(path, &stat) == 0)
        return true;
    snprintf(path, sizeof path, "%s/%s/%s/normal.csv", folder, fault, repetition);
    return lstat(path, &stat) == 0;
}

enum aw_err aw__cases_read_metrics(struct aw_cases *cases, const char *folder,
                                   aw_cases_fn *progress, void *ctx, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct dirent **faults = NULL, **repetitions = NULL;
    enum aw_err err = AW_OK;
    cases->metrics_alone = true;
    const int fault_count = scandir(folder, &faults, is_shown, alphasort);
    if (fault_count < 0)
        return aw_fail_at(diag, AW_ERR_NOTFOUND, folder, 0, 0, NULL,
                          "expected a folder with ground_truth.json or SERVICE-FAULT/REP/ in it");
    for (int i = 0; i < fault_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, faults[i]->d_name);
        const bool named = strrchr(faults[i]->d_name, '-') != NULL;
        const int count = named && !err ? scandir(path, &repetitions, is_shown, alphasort) : -1;
        for (int k = 0; k < count; k++) {
            if (!err && has_normal(folder, faults[i]->d_name, repetitions[k]->d_name))
                err = read_case(cases, folder, faults[i]->d_name, repetitions[k]->d_name, diag);
            free(repetitions[k]);
        }
        if (count >= 0)
            free(repetitions);
        if (progress && !err)
            progress(ctx, (uint32_t)i + 1, (uint32_t)fault_count);
        free(faults[i]);
    }
    free(faults);
    if (!err && !cases->count)
        err = aw_fail_at(diag, AW_ERR_NOTFOUND, folder, 0, 0, NULL,
                         "expected ground_truth.json, or folders SERVICE-FAULT/REP with "
                         "normal.csv.gz and anomalous.csv.gz, found neither");
    return err;
}
