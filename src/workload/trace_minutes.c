/*
 * trace_minutes.c - Azure Functions 2019: a row per function, a column per minute.
 *
 * The columns of both publications of the trace are understood: minutes 1..1440 of a day (or any
 * part of it, such as 480..959) named by their number, or minute_1 and so on; the hashes stand in
 * any order. One row is in memory at a time, whatever the size of the file.
 */
#include "workload/trace_internal.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

#define MINUTE_S 60.0
#define NOTHING  UINT32_MAX

struct minutes {
    uint32_t column_count;
    uint32_t function, trigger; /* columns; NOTHING: none */
    uint32_t first;             /* minute */
    uint32_t slot_count;
    uint32_t *source; /* [slot_count] column of a slot; a minute left out has its neighbour's */
    double *count;    /* [column_count] of the present row */
};

/* The minute that a column is, or NOTHING. */
static uint32_t minute_of(const char *name)
{
    uint64_t minute;
    if (!strncasecmp(name, "minute_", 7))
        name += 7;
    if (aw_text_parse_u64(name, &minute) || minute > AW_TRACE_MINUTES_MAX)
        return NOTHING;
    return (uint32_t)minute;
}

static enum aw_err header_roles(struct aw__trace *trace, struct minutes *m, struct aw_diag *diag)
{
    uint32_t last = 0;
    *m = (struct minutes){.column_count = trace->cell_count,
                          .function = NOTHING,
                          .trigger = NOTHING,
                          .first = NOTHING};
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        const char *name = trace->cell[i].text;
        uint32_t minute = minute_of(name);
        if (!strcasecmp(name, "HashFunction"))
            m->function = i;
        else if (!strcasecmp(name, "Trigger"))
            m->trigger = i;
        if (minute == NOTHING)
            continue;
        m->first = minute < m->first ? minute : m->first;
        last = minute > last ? minute : last;
    }
    if (m->function == NOTHING)
        return aw_fail_at(diag, AW_ERR_FORMAT, trace->name, trace->line_number, 1, NULL,
                          "expected a column HashFunction in the header");
    if (m->first == NOTHING)
        return aw_fail_at(diag, AW_ERR_FORMAT, trace->name, trace->line_number, 1, NULL,
                          "expected columns for minutes (480 or minute_480), found none: durations "
                          "and memory are other files of this data set");
    m->slot_count = last - m->first + 1;
    return AW_OK;
}

static enum aw_err header_read(struct aw__trace *trace, struct minutes *m, struct aw_diag *diag)
{
    bool first = aw__trace_next(trace);
    AW_ASSERT(first); /* it was looked at to tell the format */
    enum aw_err err = header_roles(trace, m, diag);
    if (err)
        return err;
    struct aw_carve size = {0};
    aw_carve_take(&size, m->slot_count, sizeof *m->source);
    aw_carve_take(&size, m->column_count, sizeof *m->count);
    struct aw_carve carve = {.base = aw_alloc_new(trace->alloc, 1, size.used)};
    if (!carve.base)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u minutes", m->slot_count);
    m->source = aw_carve_take(&carve, m->slot_count, sizeof *m->source);
    m->count = aw_carve_take(&carve, m->column_count, sizeof *m->count);
    memset(m->source, 0xff, m->slot_count * sizeof *m->source);
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        uint32_t minute = minute_of(trace->cell[i].text);
        if (minute == NOTHING)
            continue;
        if (m->source[minute - m->first] != NOTHING) {
            aw_alloc_free(trace->alloc, m->source);
            m->source = NULL;
            return aw_fail_at(diag, AW_ERR_FORMAT, trace->name, trace->line_number,
                              trace->cell[i].column, NULL, "minute %u has two columns", minute);
        }
        m->source[minute - m->first] = i;
    }
    for (uint32_t i = 1; i < m->slot_count; i++) {
        if (m->source[i] == NOTHING)
            m->source[i] = m->source[i - 1];
    }
    return AW_OK;
}

/* The next good row into m->count. */
static bool row_read(struct aw__trace *trace, struct minutes *m)
{
    while (aw__trace_next(trace)) {
        trace->report->row_count++;
        if (trace->cell_count != m->column_count) {
            uint32_t last =
                trace->cell_count < m->column_count ? trace->cell_count - 1 : m->column_count;
            aw__trace_bad(trace, trace->cell[last].column, "expected %u columns, found %u",
                          m->column_count, trace->cell_count);
            continue;
        }
        if (!trace->cell[m->function].text[0]) {
            aw__trace_bad(trace, trace->cell[m->function].column,
                          "expected the hash of a function, found nothing");
            continue;
        }
        uint32_t good = 0;
        for (uint32_t i = 0; i < m->slot_count; i++, good++) {
            uint32_t column = m->source[i];
            bool repeated = i && m->source[i - 1] == column;
            if (!repeated && !aw__trace_amount(trace, &trace->cell[column], "a count of requests",
                                               &m->count[column]))
                break;
        }
        if (good == m->slot_count)
            return true;
    }
    return false;
}

static enum aw_err minutes_list(struct aw__trace *trace, struct aw_trace_list *list,
                                struct aw_diag *diag)
{
    struct minutes m;
    uint32_t capacity = 0;
    enum aw_err err = header_read(trace, &m, diag);
    if (err)
        return err;
    while (row_read(trace, &m)) {
        if ((err =
                 aw__trace_grow(trace, (void **)&list->function, list->count, &capacity,
                                AW_TRACE_FUNCTIONS_MAX, sizeof *list->function, "functions", diag)))
            break;
        struct aw_trace_function *function = &list->function[list->count++];
        double total = 0, squares = 0, peak = 0;
        for (uint32_t i = 0; i < m.slot_count; i++) {
            double count = m.count[m.source[i]];
            total += count;
            squares += count * count;
            peak = count > peak ? count : peak;
        }
        *function = (struct aw_trace_function){.row = (uint32_t)trace->report->row_count};
        aw__trace_name(function->name, sizeof function->name, trace->cell[m.function].text);
        if (m.trigger != NOTHING)
            aw__trace_name(function->trigger, sizeof function->trigger,
                           trace->cell[m.trigger].text);
        aw__trace_function_set(function, total, squares, peak, m.slot_count, MINUTE_S);
    }
    list->length_s = m.slot_count * MINUTE_S;
    aw_alloc_free(trace->alloc, m.source);
    return err;
}

/* True when the settings, or the row chosen by top, mean the present row. */
static bool chosen(const struct aw__trace *trace, const struct minutes *m, uint32_t row)
{
    const struct aw_trace_settings *s = trace->settings;
    row = row ? row : s->row;
    if (row)
        return trace->report->row_count == row;
    return !strncmp(trace->cell[m->function].text, s->func, strlen(s->func));
}

static enum aw_err minutes_read(struct aw__trace *trace, uint32_t row, struct aw_load *load,
                                struct aw_diag *diag)
{
    const bool all = !row && !trace->settings->row && !trace->settings->func[0];
    uint32_t matches = 0, good = 0;
    struct minutes m;
    enum aw_err err = header_read(trace, &m, diag);
    if (err ||
        (err = aw_load_init(load, "", m.slot_count, (int64_t)(MINUTE_S * 1e6), trace->alloc, diag)))
        goto out;
    while (row_read(trace, &m)) {
        good++;
        if (!all && !chosen(trace, &m, row))
            continue;
        if (matches++ && !all)
            continue; /* counted, so that the message can say how many */
        aw__trace_name(load->name, sizeof load->name, all ? "all" : trace->cell[m.function].text);
        for (uint32_t i = 0; i < m.slot_count; i++)
            load->rate_per_s[i] += (float)(m.count[m.source[i]] / MINUTE_S);
    }
    if (good == 0)
        aw_load_deinit(load);
    else if (matches == 0 || (!all && matches > 1))
        err = aw__trace_no_function(trace, matches, diag);
out:
    aw_alloc_free(trace->alloc, m.source);
    return err;
}

static enum aw_err minutes_read_many(struct aw__trace *trace,
                                     const struct aw_trace_function *functions, uint32_t count,
                                     struct aw_load *loads, struct aw_diag *diag)
{
    struct minutes m;
    uint32_t highest = 0, *index = NULL;
    enum aw_err err = header_read(trace, &m, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < count; i++)
        highest = functions[i].row > highest ? functions[i].row : highest;
    if (!(index = aw_alloc_new(trace->alloc, (size_t)highest + 1, sizeof *index)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u functions", highest);
    for (uint32_t i = 0; !err && i < count; i++)
        index[functions[i].row] = i + 1;
    while (!err && row_read(trace, &m)) {
        const uint64_t row = trace->report->row_count;
        if (row > highest || index[row] == 0)
            continue;
        struct aw_load *load = &loads[index[row] - 1];
        if ((err = aw_load_init(load, functions[index[row] - 1].name, m.slot_count,
                                (int64_t)(MINUTE_S * 1e6), trace->alloc, diag)))
            break;
        for (uint32_t i = 0; i < m.slot_count; i++)
            load->rate_per_s[i] = (float)(m.count[m.source[i]] / MINUTE_S);
    }
    aw_alloc_free(trace->alloc, index);
    aw_alloc_free(trace->alloc, m.source);
    return err;
}

const struct aw__trace_format_ops aw__trace_azure_2019 = {
    .list = minutes_list, .read = minutes_read, .read_many = minutes_read_many};
