/*
 * trace_series.c - one load per file: a number a line, or a time and a value a row.
 *
 * Points are sorted by time and laid on a grid of their usual distance. Where the grid has no point
 * (a gap, or a row that could not be read) the one before holds; where it has several, their mean.
 */
#include "workload/trace_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define RATES_SLOT_S  1.0
#define SINGLE_SLOT_S 60.0 /* of a file with one time only */
#define TIME_MAX_S    1e12

struct point {
    double at_s, value;
};

struct series {
    struct point *point;
    uint32_t count, capacity;
    double slot_s;
    char name[64];
};

/* Days from 1970-01-01 in the Gregorian calendar. March begins the year, so that the day which leap
 * years add is its last; 400 years have 146097 days. */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int month_days(int64_t year, int64_t month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* `count` digits at *at, as a number. */
static bool digits(const char **at, int count, int64_t *ret)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        value = value * 10 + (**at - '0');
    }
    *ret = value;
    return true;
}

static bool skip_char(const char **at, const char *any)
{
    if (!**at || !strchr(any, **at))
        return false;
    (*at)++;
    return true;
}

/* "2014-04-10 00:04[:00[.5]][Z|+01:00]", or seconds since any moment. */
static bool time_parse(const char *text, double *ret_s)
{
    const char *at = text;
    int64_t year, month, day, hour, minute, second = 0, zone_hour = 0, zone_minute = 0;
    double fraction = 0, sign = 1;
    if (!digits(&at, 4, &year) || !skip_char(&at, "-"))
        return aw_text_parse_real(text, ret_s) == AW_OK && fabs(*ret_s) <= TIME_MAX_S;
    if (!digits(&at, 2, &month) || !skip_char(&at, "-") || !digits(&at, 2, &day) ||
        !skip_char(&at, " T") || !digits(&at, 2, &hour) || !skip_char(&at, ":") ||
        !digits(&at, 2, &minute))
        return false;
    if (skip_char(&at, ":") && !digits(&at, 2, &second))
        return false;
    if (skip_char(&at, ".")) {
        double unit = 0.1;
        for (; *at >= '0' && *at <= '9'; at++, unit /= 10)
            fraction += unit * (*at - '0');
    }
    if (*at == '+' || *at == '-') {
        sign = *at++ == '-' ? -1 : 1;
        if (!digits(&at, 2, &zone_hour))
            return false;
        (void)skip_char(&at, ":");
        if (!digits(&at, 2, &zone_minute))
            return false;
    } else {
        (void)skip_char(&at, "Z");
    }
    if (*at || month < 1 || month > 12 || day < 1 || day > month_days(year, month) || hour > 23 ||
        minute > 59 || second > 60 || zone_hour > 23 || zone_minute > 59)
        return false;
    *ret_s =
        (double)(days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second) +
        fraction - sign * (double)(zone_hour * 3600 + zone_minute * 60);
    return true;
}

static enum aw_err point_add(struct aw__trace *trace, struct series *s, double at_s, double value,
                             struct aw_diag *diag)
{
    enum aw_err err = aw__trace_grow(trace, (void **)&s->point, s->count, &s->capacity,
                                     AW_TRACE_ROWS_MAX, sizeof *s->point, "rows", diag);
    if (!err)
        s->point[s->count++] = (struct point){.at_s = at_s, .value = value};
    return err;
}

static enum aw_err rates_collect(struct aw__trace *trace, struct series *s, struct aw_diag *diag)
{
    double slot_s = trace->settings->slot_s > 0 ? trace->settings->slot_s : RATES_SLOT_S;
    enum aw_err err = AW_OK;
    s->slot_s = slot_s;
    snprintf(s->name, sizeof s->name, "rates");
    while (!err && aw__trace_next(trace)) {
        /* also when bad, so that what follows keeps its time */
        double at_s = slot_s * (double)trace->report->row_count++, value;
        if (trace->cell_count != 1)
            aw__trace_bad(trace, trace->cell[1].column, "expected one number, found %u cells",
                          trace->cell_count);
        else if (aw__trace_amount(trace, &trace->cell[0], "requests per second", &value))
            err = point_add(trace, s, at_s, value, diag);
    }
    return err;
}

/* The column of the values, and whether the first row is a header. */
static enum aw_err header_read(struct aw__trace *trace, struct series *s, uint32_t *ret_column,
                               struct aw_diag *diag)
{
    const char *wanted = trace->settings->column;
    char quoted[AW_TEXT_QUOTE_MAX];
    double ignored;
    bool first = aw__trace_next(trace);
    AW_ASSERT(first); /* it was looked at to tell the format */
    bool header = !time_parse(trace->cell[0].text, &ignored);
    *ret_column = 1;
    snprintf(s->name, sizeof s->name, "values");
    if (!header)
        trace->buffered = true;
    if (header && trace->cell_count > 1)
        aw__trace_name(s->name, sizeof s->name, *wanted ? wanted : trace->cell[1].text);
    if (!*wanted)
        return AW_OK;
    for (uint32_t i = 0; header && i < trace->cell_count; i++) {
        if (!strcasecmp(trace->cell[i].text, wanted)) {
            *ret_column = i;
            return AW_OK;
        }
    }
    return aw_fail_at(diag, AW_ERR_CONFIG, trace->name, trace->line_number, 1, NULL,
                      "expected a column %s in the header",
                      aw_text_quote(wanted, strlen(wanted), quoted, sizeof quoted));
}

static int by_time(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median distance of neighbours that differ: gaps and repeated rows do not move it. */
static enum aw_err usual_distance(const struct aw__trace *trace, struct series *s,
                                  struct aw_diag *diag)
{
    uint32_t gap_count = 0;
    double *gaps = aw_alloc_new(trace->alloc, s->count, sizeof *gaps);
    if (!gaps)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u rows", s->count);
    for (uint32_t i = 1; i < s->count; i++) {
        double gap = s->point[i].at_s - s->point[i - 1].at_s;
        if (gap > 0)
            gaps[gap_count++] = gap;
    }
    qsort(gaps, gap_count, sizeof *gaps, by_size);
    s->slot_s = gap_count ? gaps[gap_count / 2] : SINGLE_SLOT_S;
    aw_alloc_free(trace->alloc, gaps);
    return AW_OK;
}

static enum aw_err timestamps_collect(struct aw__trace *trace, struct series *s,
                                      struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    uint32_t column = 1;
    enum aw_err err = header_read(trace, s, &column, diag);
    while (!err && aw__trace_next(trace)) {
        double at_s, value;
        const struct aw__cell *cell = trace->cell;
        trace->report->row_count++;
        if (trace->cell_count <= column)
            aw__trace_bad(trace, cell[trace->cell_count - 1].column,
                          "expected at least %u columns, found %u", column + 1, trace->cell_count);
        else if (!time_parse(cell[0].text, &at_s))
            aw__trace_bad(trace, cell[0].column,
                          "expected a time such as 2014-04-10 00:04:00, or seconds, found %s",
                          aw_text_quote(cell[0].text, strlen(cell[0].text), quoted, sizeof quoted));
        else if (aw__trace_amount(trace, &cell[column], "a number of requests", &value))
            err = point_add(trace, s, at_s, value, diag);
    }
    if (err || s->count == 0)
        return err;
    qsort(s->point, s->count, sizeof *s->point, by_time);
    s->slot_s = trace->settings->slot_s;
    return s->slot_s > 0 ? AW_OK : usual_distance(trace, s, diag);
}

static uint32_t slot_of(const struct series *s, uint32_t i)
{
    return (uint32_t)floor((s->point[i].at_s - s->point[0].at_s) / s->slot_s + 0.5);
}

static enum aw_err lay_out(struct aw__trace *trace, struct series *s, struct aw_load *load,
                           struct aw_diag *diag)
{
    bool counts =
        trace->report->format == AW_TRACE_TIMESTAMPS && trace->settings->unit == AW_TRACE_COUNT;
    double span_s = s->point[s->count - 1].at_s - s->point[0].at_s;
    int64_t slot_us = llround(s->slot_s * 1e6);
    if (slot_us < 1)
        return aw_fail_at(diag, AW_ERR_FORMAT, trace->name, 0, 0, NULL,
                          "expected times at least a microsecond apart");
    enum aw_err err = aw_load_init(load, s->name, floor(span_s / s->slot_s + 0.5) + 1, slot_us,
                                   trace->alloc, diag);
    if (err)
        return err;
    uint32_t next = 0;
    for (uint32_t i = 0; i < load->slot_count; i++) {
        double sum = 0;
        uint32_t count = 0;
        for (; next < s->count && slot_of(s, next) == i; next++, count++)
            sum += s->point[next].value;
        if (count)
            load->rate_per_s[i] = (float)(sum / count / (counts ? s->slot_s : 1));
        else
            load->rate_per_s[i] = load->rate_per_s[i - 1]; /* slot 0 has the first point */
    }
    return AW_OK;
}

static enum aw_err series_read(struct aw__trace *trace, uint32_t row, struct aw_load *load,
                               struct aw_diag *diag)
{
    (void)row;
    struct series s = {0};
    enum aw_err err = trace->report->format == AW_TRACE_RATES ? rates_collect(trace, &s, diag)
                                                              : timestamps_collect(trace, &s, diag);
    if (!err && s.count)
        err = lay_out(trace, &s, load, diag);
    aw_alloc_free(trace->alloc, s.point);
    return err;
}

static enum aw_err series_list(struct aw__trace *trace, struct aw_trace_list *list,
                               struct aw_diag *diag)
{
    struct aw_load load = {0};
    enum aw_err err = series_read(trace, 0, &load, diag);
    if (err || !load.rate_per_s)
        return err;
    list->function = aw_alloc_new(trace->alloc, 1, sizeof *list->function);
    if (!list->function) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a list");
        goto out;
    }
    struct aw_load_figures f = aw_load_figures(&load);
    list->count = 1;
    list->length_s = load.slot_count * ((double)load.slot_us / 1e6);
    *list->function = (struct aw_trace_function){.row = 1,
                                                 .total = f.mean_per_s * list->length_s,
                                                 .per_day = f.mean_per_s * 86400,
                                                 .mean_per_s = f.mean_per_s,
                                                 .peak_per_s = f.peak_per_s,
                                                 .burstiness = f.burstiness};
    snprintf(list->function->name, sizeof list->function->name, "%s", load.name);
out:
    aw_load_deinit(&load);
    return err;
}

const struct aw__trace_format_ops aw__trace_series = {
    .list = series_list, .read = series_read, .read_many = aw__trace_read_each};
