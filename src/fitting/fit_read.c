/* fit_read.c - rows of measurements from a CSV file whose first line names its columns. */
#include "fitting/fit.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LINE_BYTES_MAX   65536u
#define COLUMNS_MAX      256u
#define LAMBDA_CORE_MIB  1792.0 /* AWS Lambda: at this size a function has one whole core */
#define GIB_IN_MIB       1024.0
#define SECONDS_A_MINUTE 60.0

enum field { REQUESTS, LATENCY, PODS, CORES, SIZE, LIMIT, USED_GIB, USED_MIB, USED_CORES, GROUP };
#define FIELD_COUNT ((uint32_t)GROUP + 1)

static const struct {
    const char *name; /* compared without regard to case */
    enum field field;
} columns[] = {
    {"requests", REQUESTS},              /* per minute, of all replicas */
    {"requests_duration_mean", LATENCY}, /* in milliseconds */
    {"latency_ms", LATENCY},
    {"duration", LATENCY}, /* of one run */
    {"num_pods", PODS},    /* 1 where there is no such column */
    {"replicas", PODS},
    {"pod_cpu_limit", CORES}, /* of a replica */
    {"cores", CORES},
    {"memory size", SIZE},    /* MiB of AWS Lambda, which is CPU too: one core at 1792 */
    {"pod_mem_limit", LIMIT}, /* of a replica, GiB */
    {"pod_util_mem_avg", USED_GIB},
    {"max memory used", USED_MIB},
    {"pod_util_cpu_avg", USED_CORES},
    {"function", GROUP}, /* rows of each are fitted apart */
};

struct reader {
    FILE *in;
    const char *path;
    uint32_t line;
    uint32_t column_of[FIELD_COUNT]; /* 1-based; 0: there is none */
    uint32_t capacity;
    struct aw_fit_rows rows;
};

static void finding(struct reader *r, uint32_t column, const char *fmt, ...) AW_PRINTF(3, 4);
static void finding(struct reader *r, uint32_t column, const char *fmt, ...)
{
    struct aw_trace_report *report = &r->rows.report;
    report->bad_count++;
    if (report->finding_count == AW_TRACE_FINDINGS_MAX)
        return;
    struct aw_trace_finding *f = &report->finding[report->finding_count++];
    f->line = r->line;
    f->column = column;
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
}

/* Cuts a line at its commas; a field in quotes loses them. Returns how many there were. */
static uint32_t split(char *line, char **cell)
{
    uint32_t count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *p = line; count < COLUMNS_MAX; count++) {
        char *comma = strchr(p, ',');
        cell[count] = p;
        if (comma)
            *comma = '\0';
        size_t len = strlen(p);
        if (len >= 2 && p[0] == '"' && p[len - 1] == '"') {
            p[len - 1] = '\0';
            cell[count]++;
        }
        if (!comma)
            return count + 1;
        p = comma + 1;
    }
    return COLUMNS_MAX + 1;
}

static enum aw_err header_read(struct reader *r, char *line, struct aw_diag *diag)
{
    char *cell[COLUMNS_MAX];
    const uint32_t count = split(line, cell);
    if (count > COLUMNS_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, r->path, 1, 0, NULL, "more than %u columns",
                          COLUMNS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            if (!strcasecmp(cell[i], columns[k].name) && !r->column_of[columns[k].field])
                r->column_of[columns[k].field] = i + 1;
        }
    }
    if (!r->column_of[LATENCY])
        return aw_fail_at(diag, AW_ERR_FORMAT, r->path, 1, 0, NULL,
                          "no column of mean latency: expected requests_duration_mean, latency_ms "
                          "or Duration");
    if (!r->column_of[CORES] && !r->column_of[SIZE])
        return aw_fail_at(diag, AW_ERR_FORMAT, r->path, 1, 0, NULL,
                          "no column of CPU: expected pod_cpu_limit, cores or Memory Size");
    return AW_OK;
}

/* The number in a field; `otherwise` where there is no such column. False: a finding was noted. */
static bool number(struct reader *r, enum field field, char *const *cell, double min,
                   double otherwise, double *ret)
{
    const uint32_t column = r->column_of[field];
    char quoted[AW_TEXT_QUOTE_MAX];
    if (!column) {
        *ret = otherwise;
        return true;
    }
    const char *text = cell[column - 1];
    if (aw_text_parse_real(text, ret) == AW_OK && *ret >= min)
        return true;
    finding(r, (uint32_t)(text - cell[0]) + 1, "expected a number from %g on, found %s", min,
            aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    return false;
}

static bool group_find(struct reader *r, const char *name, uint32_t *ret)
{
    struct aw_fit_rows *rows = &r->rows;
    char cut[AW_FIT_NAME_MAX];
    snprintf(cut, sizeof cut, "%s", name);
    for (uint32_t i = 0; i < rows->group_count; i++) {
        if (!strcmp(rows->group[i], cut)) {
            *ret = i;
            return true;
        }
    }
    if (rows->group_count == AW_FIT_GROUPS_MAX)
        return false;
    memcpy(rows->group[rows->group_count], cut, sizeof cut);
    *ret = rows->group_count++;
    return true;
}

static bool setting_same(const struct aw_fit_row *a, const struct aw_fit_row *b)
{
    /* Limits are printed with noise in their last digits: 0.976 and 0.978 GiB are one setting. */
    const bool memory =
        isnan(a->memory_limit_mib) ||
        fabs(a->memory_limit_mib - b->memory_limit_mib) <= 0.02 * a->memory_limit_mib;
    return a->replicas == b->replicas && a->cores == b->cores && memory;
}

/* Rows of the same size get the same number. `first` holds a row of each setting seen. */
static bool setting_find(struct reader *r, struct aw_fit_row *first, struct aw_fit_row *row)
{
    for (row->setting = 0; row->setting < r->rows.setting_count; row->setting++)
        if (setting_same(&first[row->setting], row))
            return true;
    if (r->rows.setting_count == AW_FIT_SETTINGS_MAX)
        return false;
    first[r->rows.setting_count++] = *row;
    return true;
}

static enum aw_err row_store(struct reader *r, const struct aw_fit_row *row, struct aw_diag *diag)
{
    struct aw_fit_rows *rows = &r->rows;
    if (rows->row_count == AW_FIT_ROWS_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, r->path, r->line, 0, NULL, "more than %u rows",
                          AW_FIT_ROWS_MAX);
    if (rows->row_count == r->capacity) {
        const uint32_t capacity = r->capacity ? 2 * r->capacity : 1024;
        struct aw_fit_row *more = aw_alloc_new(rows->alloc, capacity, sizeof *more);
        if (!more)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u rows", capacity);
        if (rows->row_count)
            memcpy(more, rows->row, rows->row_count * sizeof *more);
        aw_alloc_free(rows->alloc, rows->row);
        rows->row = more;
        r->capacity = capacity;
    }
    rows->row[rows->row_count++] = *row;
    return AW_OK;
}

static enum aw_err row_read(struct reader *r, char *line, struct aw_fit_row *first,
                            struct aw_diag *diag)
{
    char *cell[COLUMNS_MAX];
    struct aw_fit_row row;
    double requests, size, limit, used_gib, used_mib;
    const uint32_t count = split(line, cell);
    r->rows.report.row_count++;
    for (uint32_t f = 0; f < FIELD_COUNT; f++) {
        if (r->column_of[f] > count) {
            finding(r, 1, "expected at least %u columns, found %u", r->column_of[f], count);
            return AW_OK;
        }
    }
    if (!number(r, LATENCY, cell, 1e-6, NAN, &row.latency_ms) ||
        !number(r, PODS, cell, 1, 1, &row.replicas) || !number(r, SIZE, cell, 1, NAN, &size) ||
        !number(r, CORES, cell, 1e-3, size / LAMBDA_CORE_MIB, &row.cores) ||
        !number(r, REQUESTS, cell, 0, 0, &requests) ||
        !number(r, LIMIT, cell, 0, size / GIB_IN_MIB, &limit) ||
        !number(r, USED_GIB, cell, 0, NAN, &used_gib) ||
        !number(r, USED_MIB, cell, 0, used_gib * GIB_IN_MIB, &used_mib) ||
        !number(r, USED_CORES, cell, 0, NAN, &row.cores_used))
        return AW_OK;
    if (r->column_of[REQUESTS] && requests == 0) {
        finding(r, (uint32_t)(cell[r->column_of[REQUESTS] - 1] - cell[0]) + 1,
                "a latency without requests");
        return AW_OK;
    }
    row.rate_per_s = requests / SECONDS_A_MINUTE / row.replicas;
    row.memory_limit_mib = limit * GIB_IN_MIB;
    row.memory_used_mib = used_mib;
    if (!group_find(r, r->column_of[GROUP] ? cell[r->column_of[GROUP] - 1] : "", &row.group))
        return aw_fail_at(diag, AW_ERR_LIMIT, r->path, r->line, 0, NULL, "more than %u functions",
                          AW_FIT_GROUPS_MAX);
    if (!setting_find(r, first, &row))
        return aw_fail_at(diag, AW_ERR_LIMIT, r->path, r->line, 0, NULL, "more than %u settings",
                          AW_FIT_SETTINGS_MAX);
    return row_store(r, &row, diag);
}

/* Runs of one request each, averaged by group and setting: a mean latency is what is fitted. */
static void average(struct aw_fit_rows *rows)
{
    uint32_t kept = 0;
    for (uint32_t g = 0; g < rows->group_count; g++) {
        for (uint32_t s = 0; s < rows->setting_count; s++) {
            struct aw_fit_row mean = {0};
            double n = 0, sum = 0, used = 0;
            for (uint32_t i = kept; i < rows->row_count; i++) {
                if (rows->row[i].group != g || rows->row[i].setting != s)
                    continue;
                mean = rows->row[i];
                n++, sum += mean.latency_ms, used += mean.memory_used_mib;
                /* those already folded move behind the kept ones, out of the way */
                rows->row[i] = rows->row[kept + (uint32_t)n - 1];
                rows->row[kept + (uint32_t)n - 1] = mean;
            }
            if (n == 0)
                continue;
            mean.latency_ms = sum / n;
            mean.memory_used_mib = used / n;
            const uint32_t folded = (uint32_t)n - 1;
            rows->row[kept++] = mean;
            memmove(rows->row + kept, rows->row + kept + folded,
                    (rows->row_count - kept - folded) * sizeof *rows->row);
            rows->row_count -= folded;
        }
    }
}

enum aw_err aw_fit_read(const char *path, const struct aw_alloc *alloc, struct aw_fit_rows *ret,
                        struct aw_diag *diag)
{
    struct reader *r = aw_alloc_new(alloc, 1, sizeof *r);
    struct aw_fit_row *first = aw_alloc_new(alloc, AW_FIT_SETTINGS_MAX, sizeof *first);
    char *line = aw_alloc_new(alloc, LINE_BYTES_MAX, 1);
    enum aw_err err = AW_OK;
    if (!r || !first || !line) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory to read %s", path);
        goto out;
    }
    r->path = path;
    r->rows.alloc = alloc;
    int fd = -1;
    if ((err = aw_file_open(path, AW_FILE_WAIT_MS, &fd, diag)))
        goto out;
    if (!(r->in = fdopen(fd, "r"))) {
        close(fd);
        err = aw_fail_at(diag, AW_ERR_NOMEM, path, 0, 0, NULL, "out of memory");
        goto out;
    }
    while (!err && fgets(line, LINE_BYTES_MAX, r->in)) {
        r->line++;
        if (strlen(line) == LINE_BYTES_MAX - 1)
            err = aw_fail_at(diag, AW_ERR_LIMIT, path, r->line, 0, NULL,
                             "a line longer than %u bytes", LINE_BYTES_MAX - 2);
        else if (r->line == 1)
            err = header_read(r, line, diag);
        else if (line[strspn(line, " \r\n")])
            err = row_read(r, line, first, diag);
    }
    if (!err && ferror(r->in))
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    if (!err)
        err = aw_trace_judge(&r->rows.report, path, diag);
    if (!err && r->rows.row_count == 0)
        err = aw_fail_at(diag, AW_ERR_NODATA, path, 0, 0, NULL, "not a single row");
    if (err)
        goto out;
    if (!r->column_of[REQUESTS])
        average(&r->rows);
    *ret = r->rows;
    r->rows = (struct aw_fit_rows){0};
out:
    if (r) {
        aw_fit_rows_deinit(&r->rows);
        if (r->in)
            fclose(r->in);
    }
    aw_alloc_free(alloc, line);
    aw_alloc_free(alloc, first);
    aw_alloc_free(alloc, r);
    return err;
}

void aw_fit_rows_deinit(struct aw_fit_rows *rows)
{
    aw_alloc_free(rows->alloc, rows->row);
    *rows = (struct aw_fit_rows){0};
}
