/* findings.c - what an experiment found, kept in the order in which it came. */
#include "study/findings.h"

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

enum aw_err aw_findings_new(const char *name, const char *title, const struct aw_alloc *alloc,
                            struct aw_findings **ret, struct aw_diag *diag)
{
    struct aw_findings *findings = aw_alloc_new(alloc, 1, sizeof *findings);
    if (!findings)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for findings");
    findings->alloc = alloc;
    text_put(findings->name, sizeof findings->name, name);
    text_put(findings->title, sizeof findings->title, title);
    *ret = findings;
    return AW_OK;
}

void aw_findings_free(struct aw_findings *findings)
{
    if (!findings)
        return;
    const struct aw_alloc *alloc = findings->alloc;
    for (uint32_t t = 0; t < findings->tables; t++) {
        aw_alloc_free(alloc, findings->table[t].label);
        aw_alloc_free(alloc, findings->table[t].value);
    }
    for (uint32_t p = 0; p < findings->plots; p++) {
        for (uint32_t s = 0; s < findings->plot[p].series_count; s++)
            aw_alloc_free(alloc, findings->plot[p].series[s].point);
    }
    aw_alloc_free(alloc, findings);
}

/* --- figures and notes ------------------------------------------------------------------------ */

struct aw_finding *aw_findings_figure(struct aw_findings *findings, enum aw_findings_unit unit,
                                      double value, const char *name_format, ...)
{
    if (findings->figures == AW_FINDINGS_FIGURES_MAX)
        return NULL;
    struct aw_finding *figure = &findings->figure[findings->figures++];
    *figure = (struct aw_finding){.unit = unit,
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

enum aw_finding_verdict aw_finding_verdict(const struct aw_finding *figure)
{
    if (isnan(figure->goal))
        return AW_FINDING_OPEN;
    const bool met = figure->lower ? figure->value <= figure->goal : figure->value >= figure->goal;
    return met ? AW_FINDING_MET : AW_FINDING_MISSED;
}

void aw_findings_note(struct aw_findings *findings, const char *format, ...)
{
    if (findings->notes == AW_FINDINGS_NOTES_MAX)
        return;
    char *note = findings->note[findings->notes++];
    va_list args;
    va_start(args, format);
    text_format(note, sizeof findings->note[0], format, args);
    va_end(args);
}

/* --- tables ----------------------------------------------------------------------------------- */

uint32_t aw_findings_table(struct aw_findings *findings, const char *title,
                           const char *const *columns, const enum aw_findings_unit *units)
{
    if (findings->tables == AW_FINDINGS_TABLES_MAX)
        return AW_FINDINGS_TABLES_MAX;
    struct aw_findings_table *table = &findings->table[findings->tables];
    *table = (struct aw_findings_table){0};
    text_put(table->title, sizeof table->title, title);
    for (; columns[table->columns]; table->columns++) {
        AW_ASSERT(table->columns < AW_FINDINGS_COLUMNS_MAX);
        text_put(table->column[table->columns], sizeof table->column[0], columns[table->columns]);
        table->unit[table->columns] = units[table->columns];
    }
    AW_ASSERT(table->columns > 0);
    return findings->tables++;
}

static bool table_grow(const struct aw_alloc *alloc, struct aw_findings_table *table, uint32_t room)
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

enum aw_err aw_findings_row(struct aw_findings *findings, uint32_t table, const double *values,
                            const char *label_format, ...)
{
    if (table >= findings->tables || findings->table[table].rows == AW_FINDINGS_ROWS_MAX)
        return AW_ERR_RANGE;
    struct aw_findings_table *into = &findings->table[table];
    const uint32_t room = room_next(into->rows, AW_FINDINGS_ROWS_MAX);
    if (room && !table_grow(findings->alloc, into, room))
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

uint32_t aw_findings_plot(struct aw_findings *findings, enum aw_findings_kind kind,
                          const char *title, const char *x, const char *y)
{
    if (findings->plots == AW_FINDINGS_PLOTS_MAX)
        return AW_FINDINGS_PLOTS_MAX;
    struct aw_findings_plot *plot = &findings->plot[findings->plots];
    *plot = (struct aw_findings_plot){.kind = kind};
    text_put(plot->title, sizeof plot->title, title);
    text_put(plot->x, sizeof plot->x, x);
    text_put(plot->y, sizeof plot->y, y);
    return findings->plots++;
}

uint32_t aw_findings_series(struct aw_findings *findings, uint32_t plot, const char *name)
{
    if (plot >= findings->plots || findings->plot[plot].series_count == AW_FINDINGS_SERIES_MAX)
        return AW_FINDINGS_SERIES_MAX;
    struct aw_findings_series *series =
        &findings->plot[plot].series[findings->plot[plot].series_count];
    *series = (struct aw_findings_series){0};
    text_put(series->name, sizeof series->name, name);
    return findings->plot[plot].series_count++;
}

enum aw_err aw_findings_point(struct aw_findings *findings, uint32_t plot, uint32_t series,
                              double x, double y, double low, double high)
{
    if (plot >= findings->plots || series >= findings->plot[plot].series_count)
        return AW_ERR_RANGE;
    struct aw_findings_series *into = &findings->plot[plot].series[series];
    if (into->points == AW_FINDINGS_POINTS_MAX)
        return AW_ERR_RANGE;
    const uint32_t room = room_next(into->points, AW_FINDINGS_POINTS_MAX);
    if (room) {
        struct aw_findings_point *grown = aw_alloc_new(findings->alloc, room, sizeof *grown);
        if (!grown)
            return AW_ERR_NOMEM;
        if (into->points)
            memcpy(grown, into->point, into->points * sizeof *grown);
        aw_alloc_free(findings->alloc, into->point);
        into->point = grown;
    }
    into->point[into->points++] =
        (struct aw_findings_point){.x = x, .y = y, .low = low, .high = high};
    return AW_OK;
}

enum aw_err aw_findings_label(struct aw_findings *findings, uint32_t plot, double x,
                              const char *text)
{
    if (plot >= findings->plots || findings->plot[plot].labels == AW_FINDINGS_LABELS_MAX)
        return AW_ERR_RANGE;
    struct aw_findings_plot *into = &findings->plot[plot];
    into->label[into->labels].x = x;
    text_put(into->label[into->labels].text, sizeof into->label[0].text, text);
    into->labels++;
    return AW_OK;
}
