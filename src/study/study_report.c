/* study_report.c - what an experiment found, kept in the order in which it came. */
#include "study/study_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ROOM_FIRST 16u /* rows or points of the first block; every later one is twice as large */

/* --- text and room ---------------------------------------------------------------------------- */

/* What was cut in the middle of a character ends before it: JSON takes no half characters. */
static void text_mend(char *text)
{
    text[aw_text_utf8_bad(text, strlen(text))] = '\0';
}

static void text_put(char *into, size_t size, const char *text)
{
    snprintf(into, size, "%s", text);
    text_mend(into);
}

AW_PRINTF(3, 0)
static void text_format(char *into, size_t size, const char *format, va_list args)
{
    vsnprintf(into, size, format, args);
    text_mend(into);
}

/* Room for one more after `count`: 0 where the block that is there has it, else the size of the
 * next. Blocks are powers of two, so the count tells how large the last one was. */
static uint32_t room_next(uint32_t count, uint32_t most)
{
    if (count && (count < ROOM_FIRST || (count & (count - 1))))
        return 0;
    const uint32_t next = count ? 2 * count : ROOM_FIRST;
    return next < most ? next : most;
}

/* --- life ------------------------------------------------------------------------------------- */

enum aw_err aw_study_report_new(const char *name, const char *title, const struct aw_alloc *alloc,
                                struct aw_study_report **ret, struct aw_diag *diag)
{
    struct aw_study_report *report = aw_alloc_new(alloc, 1, sizeof *report);
    if (!report)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a report");
    report->alloc = alloc;
    text_put(report->name, sizeof report->name, name);
    text_put(report->title, sizeof report->title, title);
    *ret = report;
    return AW_OK;
}

void aw_study_report_free(struct aw_study_report *report)
{
    if (!report)
        return;
    const struct aw_alloc *alloc = report->alloc;
    for (uint32_t t = 0; t < report->tables; t++) {
        aw_alloc_free(alloc, report->table[t].label);
        aw_alloc_free(alloc, report->table[t].value);
    }
    for (uint32_t p = 0; p < report->plots; p++) {
        for (uint32_t s = 0; s < report->plot[p].series_count; s++)
            aw_alloc_free(alloc, report->plot[p].series[s].point);
    }
    aw_alloc_free(alloc, report);
}

/* --- figures and notes ------------------------------------------------------------------------ */

struct aw_study_report_figure *aw_study_report_figure(struct aw_study_report *report,
                                                      enum aw_study_report_unit unit, double value,
                                                      const char *name_format, ...)
{
    if (report->figures == AW_STUDY_REPORT_FIGURES_MAX)
        return NULL;
    struct aw_study_report_figure *figure = &report->figure[report->figures++];
    *figure = (struct aw_study_report_figure){.unit = unit,
                                              .value = value,
                                              .interval = {.low = NAN, .high = NAN},
                                              .paper = NAN,
                                              .goal = NAN};
    va_list args;
    va_start(args, name_format);
    text_format(figure->name, sizeof figure->name, name_format, args);
    va_end(args);
    return figure;
}

enum aw_study_report_verdict aw_study_report_verdict(const struct aw_study_report_figure *figure)
{
    if (isnan(figure->goal))
        return AW_STUDY_REPORT_OPEN;
    const bool met = figure->lower ? figure->value <= figure->goal : figure->value >= figure->goal;
    return met ? AW_STUDY_REPORT_MET : AW_STUDY_REPORT_MISSED;
}

void aw_study_report_note(struct aw_study_report *report, const char *format, ...)
{
    if (report->notes == AW_STUDY_REPORT_NOTES_MAX)
        return;
    char *note = report->note[report->notes++];
    va_list args;
    va_start(args, format);
    text_format(note, sizeof report->note[0], format, args);
    va_end(args);
}

/* --- tables ----------------------------------------------------------------------------------- */

uint32_t aw_study_report_table(struct aw_study_report *report, const char *title,
                               const char *const *columns, const enum aw_study_report_unit *units)
{
    if (report->tables == AW_STUDY_REPORT_TABLES_MAX)
        return AW_STUDY_REPORT_TABLES_MAX;
    struct aw_study_report_table *table = &report->table[report->tables];
    *table = (struct aw_study_report_table){0};
    text_put(table->title, sizeof table->title, title);
    for (; columns[table->columns]; table->columns++) {
        AW_ASSERT(table->columns < AW_STUDY_REPORT_COLUMNS_MAX);
        text_put(table->column[table->columns], sizeof table->column[0], columns[table->columns]);
        table->unit[table->columns] = units[table->columns];
    }
    AW_ASSERT(table->columns > 0);
    return report->tables++;
}

static bool table_grow(const struct aw_alloc *alloc, struct aw_study_report_table *table,
                       uint32_t room)
{
    char(*label)[64] = aw_alloc_new(alloc, room, sizeof *label);
    double *value = aw_alloc_new(alloc, (size_t)room * table->columns, sizeof *value);
    if (!label || !value) {
        aw_alloc_free(alloc, label);
        aw_alloc_free(alloc, value);
        return false;
    }
    if (table->rows) {
        memcpy(label, table->label, table->rows * sizeof *label);
        memcpy(value, table->value, (size_t)table->rows * table->columns * sizeof *value);
    }
    aw_alloc_free(alloc, table->label);
    aw_alloc_free(alloc, table->value);
    table->label = label;
    table->value = value;
    return true;
}

enum aw_err aw_study_report_row(struct aw_study_report *report, uint32_t table,
                                const double *values, const char *label_format, ...)
{
    if (table >= report->tables || report->table[table].rows == AW_STUDY_REPORT_ROWS_MAX)
        return AW_ERR_RANGE;
    struct aw_study_report_table *into = &report->table[table];
    const uint32_t room = room_next(into->rows, AW_STUDY_REPORT_ROWS_MAX);
    if (room && !table_grow(report->alloc, into, room))
        return AW_ERR_NOMEM;
    va_list args;
    va_start(args, label_format);
    text_format(into->label[into->rows], sizeof into->label[0], label_format, args);
    va_end(args);
    memcpy(&into->value[(size_t)into->rows * into->columns], values,
           into->columns * sizeof *values);
    into->rows++;
    return AW_OK;
}

/* --- plots ------------------------------------------------------------------------------------ */

uint32_t aw_study_report_plot(struct aw_study_report *report, enum aw_study_report_kind kind,
                              const char *title, const char *x, const char *y)
{
    if (report->plots == AW_STUDY_REPORT_PLOTS_MAX)
        return AW_STUDY_REPORT_PLOTS_MAX;
    struct aw_study_report_plot *plot = &report->plot[report->plots];
    *plot = (struct aw_study_report_plot){.kind = kind};
    text_put(plot->title, sizeof plot->title, title);
    text_put(plot->x, sizeof plot->x, x);
    text_put(plot->y, sizeof plot->y, y);
    return report->plots++;
}

uint32_t aw_study_report_series(struct aw_study_report *report, uint32_t plot, const char *name)
{
    if (plot >= report->plots || report->plot[plot].series_count == AW_STUDY_REPORT_SERIES_MAX)
        return AW_STUDY_REPORT_SERIES_MAX;
    struct aw_study_report_series *series =
        &report->plot[plot].series[report->plot[plot].series_count];
    *series = (struct aw_study_report_series){0};
    text_put(series->name, sizeof series->name, name);
    return report->plot[plot].series_count++;
}

enum aw_err aw_study_report_point(struct aw_study_report *report, uint32_t plot, uint32_t series,
                                  double x, double y, double low, double high)
{
    if (plot >= report->plots || series >= report->plot[plot].series_count)
        return AW_ERR_RANGE;
    struct aw_study_report_series *into = &report->plot[plot].series[series];
    if (into->points == AW_STUDY_REPORT_POINTS_MAX)
        return AW_ERR_RANGE;
    const uint32_t room = room_next(into->points, AW_STUDY_REPORT_POINTS_MAX);
    if (room) {
        struct aw_study_report_point *grown = aw_alloc_new(report->alloc, room, sizeof *grown);
        if (!grown)
            return AW_ERR_NOMEM;
        if (into->points)
            memcpy(grown, into->point, into->points * sizeof *grown);
        aw_alloc_free(report->alloc, into->point);
        into->point = grown;
    }
    into->point[into->points++] =
        (struct aw_study_report_point){.x = x, .y = y, .low = low, .high = high};
    return AW_OK;
}

enum aw_err aw_study_report_label(struct aw_study_report *report, uint32_t plot, double x,
                                  const char *text)
{
    if (plot >= report->plots || report->plot[plot].labels == AW_STUDY_REPORT_LABELS_MAX)
        return AW_ERR_RANGE;
    struct aw_study_report_plot *into = &report->plot[plot];
    into->label[into->labels].x = x;
    text_put(into->label[into->labels].text, sizeof into->label[0].text, text);
    into->labels++;
    return AW_OK;
}
