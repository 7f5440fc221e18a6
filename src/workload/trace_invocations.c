/*
 * trace_invocations.c - Azure Functions 2021: a row per invocation, with the time of its end.
 *
 * A request arrives when it begins: end_timestamp - duration. Arrivals are counted in slots of a
 * minute unless told otherwise; the slots of all functions begin at the first arrival of the file.
 */
#include "workload/trace_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/hash_table.h"
#include "base/text.h"

#define SLOT_S  60.0
#define NOTHING UINT32_MAX

struct invocation {
    double arrival_s;
    uint32_t function;
};

/* Where the function of a name is. */
struct named {
    uint64_t hash;
    uint32_t function;
};

struct invocations {
    uint32_t column_count, func, end, duration; /* columns */
    struct invocation *invocation;
    uint32_t count, capacity;
    struct aw_trace_function *function; /* in order of first appearance */
    uint32_t function_count, function_capacity;
    struct aw_hash_table names; /* of struct named */
    double first_s, slot_s, slots;
};

static void invocations_deinit(struct aw__trace *trace, struct invocations *v)
{
    aw_alloc_free(trace->alloc, v->invocation);
    aw_alloc_free(trace->alloc, v->function);
    aw_hash_table_deinit(&v->names);
}

static enum aw_err function_of(struct aw__trace *trace, struct invocations *v, const char *name,
                               uint32_t *ret, struct aw_diag *diag)
{
    struct aw_trace_function function = {.row = v->function_count + 1};
    aw__trace_name(function.name, sizeof function.name, name);
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, function.name);
    struct named *named = aw_hash_table_find(&v->names, hash);
    while (named && strcmp(v->function[named->function].name, function.name) != 0)
        named = aw_hash_table_next(&v->names, named);
    if (!named) {
        enum aw_err err =
            aw__trace_grow(trace, (void **)&v->function, v->function_count, &v->function_capacity,
                           AW_TRACE_FUNCTIONS_MAX, sizeof *v->function, "functions", diag);
        if (err)
            return err;
        if (!(named = aw_hash_table_add(&v->names, hash)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u functions", v->function_count);
        v->function[v->function_count] = function;
        named->function = v->function_count++;
    }
    *ret = named->function;
    return AW_OK;
}

static enum aw_err header_read(struct aw__trace *trace, struct invocations *v, struct aw_diag *diag)
{
    static const char *const names[] = {"func", "end_timestamp", "duration"};
    uint32_t *const columns[] = {&v->func, &v->end, &v->duration};
    bool first = aw__trace_next(trace);
    AW_ASSERT(first); /* it was looked at to tell the format */
    v->column_count = trace->cell_count;
    for (uint32_t i = 0; i < 3; i++) {
        *columns[i] = NOTHING;
        for (uint32_t k = 0; k < trace->cell_count; k++) {
            if (!strcasecmp(trace->cell[k].text, names[i]))
                *columns[i] = k;
        }
        if (*columns[i] == NOTHING)
            return aw_fail_at(diag, AW_ERR_FORMAT, trace->name, trace->line_number, 1, NULL,
                              "expected a column %s in the header", names[i]);
    }
    return AW_OK;
}

static bool row_read(struct aw__trace *trace, const struct invocations *v, double *ret_arrival_s)
{
    double end_s, duration_s;
    while (aw__trace_next(trace)) {
        trace->report->row_count++;
        if (trace->cell_count != v->column_count)
            aw__trace_bad(trace, trace->cell[trace->cell_count - 1].column,
                          "expected %u columns, found %u", v->column_count, trace->cell_count);
        else if (!trace->cell[v->func].text[0])
            aw__trace_bad(trace, trace->cell[v->func].column,
                          "expected the hash of a function, found nothing");
        else if (aw__trace_amount(trace, &trace->cell[v->end], "seconds", &end_s) &&
                 aw__trace_amount(trace, &trace->cell[v->duration], "seconds", &duration_s)) {
            *ret_arrival_s = end_s - duration_s;
            return true;
        }
    }
    return false;
}

static int by_function_and_time(const void *a, const void *b)
{
    const struct invocation *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return (x->arrival_s > y->arrival_s) - (x->arrival_s < y->arrival_s);
}

/* All of the file, sorted by function and time. */
static enum aw_err collect(struct aw__trace *trace, struct invocations *v, struct aw_diag *diag)
{
    double arrival_s, last_s = -INFINITY;
    enum aw_err err = aw_hash_table_init(&v->names, sizeof(struct named), 512,
                                         AW_TRACE_FUNCTIONS_MAX, trace->alloc);
    err = err ? aw_fail(diag, err, "no memory for functions") : header_read(trace, v, diag);
    v->first_s = INFINITY;
    while (!err && row_read(trace, v, &arrival_s)) {
        uint32_t function = 0;
        if ((err = aw__trace_grow(trace, (void **)&v->invocation, v->count, &v->capacity,
                                  AW_TRACE_ROWS_MAX, sizeof *v->invocation, "invocations", diag)) ||
            (err = function_of(trace, v, trace->cell[v->func].text, &function, diag)))
            break;
        v->invocation[v->count++] =
            (struct invocation){.arrival_s = arrival_s, .function = function};
        v->first_s = fmin(v->first_s, arrival_s);
        last_s = fmax(last_s, arrival_s);
    }
    if (err || v->count == 0)
        return err;
    v->slot_s = trace->settings->slot_s > 0 ? trace->settings->slot_s : SLOT_S;
    v->slots = floor((last_s - v->first_s) / v->slot_s) + 1;
    qsort(v->invocation, v->count, sizeof *v->invocation, by_function_and_time);
    return AW_OK;
}

static double slot_of(const struct invocations *v, const struct invocation *invocation)
{
    return floor((invocation->arrival_s - v->first_s) / v->slot_s);
}

static enum aw_err invocations_list(struct aw__trace *trace, struct aw_trace_list *list,
                                    struct aw_diag *diag)
{
    struct invocations v = {0};
    enum aw_err err = collect(trace, &v, diag);
    for (uint32_t i = 0; !err && i < v.count;) {
        uint32_t function = v.invocation[i].function;
        double total = 0, squares = 0, peak = 0;
        while (i < v.count && v.invocation[i].function == function) {
            double slot = slot_of(&v, &v.invocation[i]), count = 0;
            for (; i < v.count && v.invocation[i].function == function &&
                   slot_of(&v, &v.invocation[i]) == slot;
                 i++)
                count++;
            total += count;
            squares += count * count;
            peak = fmax(peak, count);
        }
        aw__trace_function_set(&v.function[function], total, squares, peak, v.slots, v.slot_s);
    }
    if (!err) {
        list->function = v.function;
        list->count = v.function_count;
        list->length_s = v.slots * v.slot_s;
        v.function = NULL;
    }
    invocations_deinit(trace, &v);
    return err;
}

static enum aw_err invocations_read(struct aw__trace *trace, uint32_t row, struct aw_load *load,
                                    struct aw_diag *diag)
{
    const struct aw_trace_settings *s = trace->settings;
    const bool all = !row && !s->row && !s->func[0];
    uint32_t wanted = (row ? row : s->row) - 1, matches = 0;
    struct invocations v = {0};
    enum aw_err err = collect(trace, &v, diag);
    if (err || v.count == 0)
        goto out;
    for (uint32_t i = 0; s->func[0] && i < v.function_count; i++) {
        if (strncmp(v.function[i].name, s->func, strlen(s->func)) == 0) {
            wanted = i;
            matches++;
        }
    }
    if (!all && (matches > 1 || wanted >= v.function_count)) {
        err = aw__trace_no_function(trace, matches, diag);
        goto out;
    }
    if ((err = aw_load_init(load, all ? "all" : v.function[wanted].name, v.slots,
                            llround(v.slot_s * 1e6), trace->alloc, diag)))
        goto out;
    for (uint32_t i = 0; i < v.count; i++) {
        if (all || v.invocation[i].function == wanted)
            load->rate_per_s[(uint32_t)slot_of(&v, &v.invocation[i])] += (float)(1 / v.slot_s);
    }
out:
    invocations_deinit(trace, &v);
    return err;
}

const struct aw__trace_format_ops aw__trace_azure_2021 = {
    .list = invocations_list, .read = invocations_read, .read_many = aw__trace_read_each};
