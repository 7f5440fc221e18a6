/* trace.c - the verbs `trace import` and `trace list`, and what the others of `trace` share. */
#include "operate/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "trace/window.h"
#include "trace/write.h"

#define LISTED_MAX 16000u

const char *const aw__trace_formats[] = {"auto",   "otlp", "otlp-json", "jaeger",
                                         "zipkin", "csv",  NULL};

static enum aw_span_format format_of(const struct aw_call *run)
{
    const char *word = aw_args_text(run->args, "format");
    for (enum aw_span_format format = 0; format < AW_SPAN_FORMATS; format++) {
        if (!strcmp(word, aw_span_format_name(format)))
            return format;
    }
    return AW_SPANS_AUTO;
}

enum aw_err aw__traces_read(struct aw__traces *traces, const struct aw_call *run,
                            char *const *files, uint32_t count, struct aw_diag *diag)
{
    *traces = (struct aw__traces){0};
    enum aw_err err = AW_OK;
    if (aw_spans_init(&traces->spans, AW_SPANS_MAX, NULL) ||
        aw_analysis_init(&traces->analysis, NULL))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < count && !err; i++)
        err = aw_spans_read_file(&traces->spans, files[i], format_of(run), NULL, diag);
    if (!err && !traces->spans.count)
        err = aw_fail(diag, AW_ERR_NODATA,
                      traces->spans.refused
                          ? "%s: %ju spans, and not one has a trace id, an id, and an end behind "
                            "its start"
                          : "%s: no spans%.0ju",
                      files[0], (uintmax_t)traces->spans.refused);
    if (!err && traces->spans.dropped)
        aw_log_warn(run->log, "spans were left out: there is room for 8 million",
                    AW_LOG_INT("spans", (int64_t)traces->spans.dropped));
    if (err)
        aw__traces_deinit(traces);
    else
        aw_analysis_learn(&traces->analysis, &traces->spans);
    return err;
}

void aw__traces_deinit(struct aw__traces *traces)
{
    aw_analysis_deinit(&traces->analysis);
    aw_spans_deinit(&traces->spans);
}

const char *aw__ms_show(int64_t ns, char *buf, size_t size)
{
    const double ms = (double)ns / 1e6;
    snprintf(buf, size, "%.*f ms", fabs(ms) < 9.95 ? 2 : fabs(ms) < 99.5 ? 1 : 0, ms);
    return buf;
}

/* ---- choosing ---- */

struct choice {
    const char *wanted; /* NULL: the slowest */
    uint64_t hi, lo;
    int64_t latency_ns;
    uint32_t matches;
};

static bool consider(void *ctx, const struct aw_request *request)
{
    struct choice *choice = ctx;
    const struct aw_span *span = &request->spans[0];
    char id[AW_SPAN_TRACE_HEX];
    if (choice->wanted) {
        aw_span_trace_text(span, id, sizeof id);
        /* ids of 64 bits are written without the zeros in front of them */
        if (strncasecmp(id, choice->wanted, strlen(choice->wanted)) != 0 &&
            (span->trace_hi || strncasecmp(id + 16, choice->wanted, strlen(choice->wanted)) != 0))
            return true;
        choice->matches++;
    } else if (aw_request_latency_ns(request) <= choice->latency_ns) {
        return true;
    }
    choice->hi = span->trace_hi;
    choice->lo = span->trace_lo;
    choice->latency_ns = aw_request_latency_ns(request);
    return true;
}

enum aw_err aw__traces_choose(struct aw__traces *traces, const struct aw_call *run,
                              struct aw_request *ret, struct aw_diag *diag)
{
    struct choice choice = {.wanted = aw_args_text(run->args, "trace"), .latency_ns = -1};
    aw_analysis_each(&traces->analysis, &traces->spans, consider, &choice);
    if (choice.wanted && choice.matches != 1)
        return aw_fail(diag, choice.matches ? AW_ERR_USAGE : AW_ERR_NOTFOUND,
                       choice.matches ? "%u traces begin with %s; give more digits"
                                      : "%.0uno trace begins with %s; aware trace list shows them",
                       choice.matches, AW_QUOTE(choice.wanted));
    uint32_t from = 0, until = 0;
    for (uint32_t i = 0; i < traces->spans.count; i++) {
        if (traces->spans.at[i].trace_hi != choice.hi || traces->spans.at[i].trace_lo != choice.lo)
            continue;
        from = until ? from : i;
        until = i + 1;
    }
    const enum aw_err err =
        until ? aw_request_build(traces->analysis.builder, traces->spans.at + from, until - from,
                                 traces->analysis.relations, ret)
              : AW_ERR_NODATA;
    return err ? aw_fail(diag, err, "no trace has a span with a length") : AW_OK;
}

json_t *aw__counts_json(const struct aw_request_counts *counts)
{
    return json_pack("{sI sI sI sI sI sI sI sI sI}", "duplicate", (json_int_t)counts->duplicate,
                     "orphaned", (json_int_t)counts->orphaned, "adopted",
                     (json_int_t)counts->adopted, "skewed", (json_int_t)counts->skewed, "clipped",
                     (json_int_t)counts->clipped, "outside", (json_int_t)counts->outside,
                     "background", (json_int_t)counts->background, "retried",
                     (json_int_t)counts->retried, "rootless", (json_int_t)counts->rootless);
}

/* ---- import ---- */

struct import {
    const struct aw_names *names;
    FILE *json; /* one of the two, or none */
    struct aw_bytes *bytes;
    enum aw_err err;
};

static bool export_one(void *ctx, const struct aw_request *request)
{
    struct import *import = ctx;
    if (import->json)
        import->err =
            aw_spans_write_json(request->spans, request->count, import->names, import->json);
    else if (import->bytes)
        import->err =
            aw_spans_write_otlp(request->spans, request->count, import->names, import->bytes);
    return !import->err;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && !strcmp(text + len - end_len, end);
}

static enum aw_err import_write(struct aw__traces *traces, const char *path, struct aw_diag *diag)
{
    struct aw_bytes bytes = {0};
    char *text = NULL;
    size_t size = 0;
    const bool binary = path && (ends_with(path, ".pb") || ends_with(path, ".bin"));
    struct import import = {.names = &traces->spans.names, .bytes = binary ? &bytes : NULL};
    if (path && !binary && !(import.json = open_memstream(&text, &size)))
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    aw_analysis_each(&traces->analysis, &traces->spans, export_one, &import);
    enum aw_err err = import.err;
    if (import.json && fclose(import.json) != 0 && !err)
        err = AW_ERR_NOMEM;
    if (err)
        err = aw_fail(diag, err, "cannot write the spans: %s", aw_err_text(err));
    else if (path)
        err = aw_file_replace(path, binary ? (const void *)bytes.bytes : text,
                              binary ? bytes.size : size, NULL, diag);
    free(text);
    aw_alloc_free(NULL, bytes.bytes);
    return err;
}

static void import_say(const struct aw__traces *traces)
{
    const struct aw_request_counts *counts = &traces->analysis.counts;
    static const char *const texts[] = {
        "had an id that was there already: the first counts",
        "have a parent that is missing, and are left out",
        "have a parent that is missing, and were given the caller they usually have",
        "were moved in time: their clock did not fit their caller's",
        "were cut to their parent",
        "lie outside of their parent, and are not on any path",
        "are in the background: nobody waits for them",
        "are attempts after one that had failed",
    };
    const uint64_t values[] = {counts->duplicate,  counts->orphaned, counts->adopted,
                               counts->skewed,     counts->clipped,  counts->outside,
                               counts->background, counts->retried};
    printf("%u spans, %ju requests\n", traces->spans.count, (uintmax_t)traces->analysis.traces);
    if (traces->spans.refused)
        printf("  %ju spans were refused: no id, or an end before their start\n",
               (uintmax_t)traces->spans.refused);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i])
            printf("  %ju spans %s\n", (uintmax_t)values[i], texts[i]);
    }
    if (counts->rootless)
        printf("  %ju requests lack their root: their longest span stands for it\n",
               (uintmax_t)counts->rootless);
}

static enum aw_err import_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__traces traces;
    enum aw_err err = aw__traces_read(&traces, run, run->args->words, run->args->word_count, diag);
    if (err)
        return err;
    err = import_write(&traces, aw_args_text(run->args, "out"), diag);
    if (!err && run->json)
        err = aw_json_print(json_pack("{sI sI sI so}", "spans", (json_int_t)traces.spans.count,
                                      "requests", (json_int_t)traces.analysis.traces, "refused",
                                      (json_int_t)traces.spans.refused, "counts",
                                      aw__counts_json(&traces.analysis.counts)),
                            diag);
    else if (!err)
        import_say(&traces);
    aw__traces_deinit(&traces);
    return err;
}

static const struct aw_positional file_positionals[] = {AW__TRACE_FILES, {.name = NULL}};
static const struct aw_option import_options[] = {
    AW_OPTION(FILE, "out", 0, "FILE", NULL,
              "write them as OTLP: protobuf where it ends with .pb or .bin, else a line of JSON a "
              "request"),
    AW__TRACE_FORMAT,
    {.name = NULL},
};
static const struct aw_example import_examples[] = {
    {"aware trace import jaeger.json", "can it be read, and what is odd about it?"},
    {"aware trace import spans.csv.gz --out spans.jsonl", "any format to OTLP's JSON"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_import = {
    .name = "trace import",
    .summary = "Read spans of any format, count what is odd, write them as OTLP",
    .text = "Times are never changed: what a clock has to be moved by is kept beside them.",
    .options = import_options,
    .positionals = file_positionals,
    .examples = import_examples,
    .json = true,
    .run = import_run,
};

/* ---- list ---- */

struct row {
    char id[AW_SPAN_TRACE_HEX];
    uint32_t type, spans, services, errors;
    int64_t start_ns, latency_ns;
};

struct list {
    struct row *rows; /* [LISTED_MAX] */
    uint32_t count;
    uint64_t all;
    struct aw_names *names;
    const char *type; /* NULL: any */
};

static bool list_one(void *ctx, const struct aw_request *request)
{
    struct list *list = ctx;
    const uint32_t type = aw_window_type(list->names, request);
    if (list->type && !strstr(aw_names_text(list->names, type), list->type))
        return true;
    list->all++;
    if (list->count == LISTED_MAX)
        return true;
    struct row *row = &list->rows[list->count++];
    *row = (struct row){.type = type,
                        .spans = request->count,
                        .start_ns = request->spans[request->root].start_ns,
                        .latency_ns = aw_request_latency_ns(request)};
    aw_span_trace_text(&request->spans[0], row->id, sizeof row->id);
    for (uint32_t i = 0; i < request->count; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i && first; k++)
            first = request->spans[k].service != request->spans[i].service;
        row->services += first;
        row->errors += (request->spans[i].flags & AW_SPAN_ERROR) != 0;
    }
    return true;
}

static int by_latency(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    return (a->latency_ns < b->latency_ns) - (a->latency_ns > b->latency_ns);
}

static int by_start(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static enum aw_err list_json(const struct list *list, uint32_t shown, struct aw_diag *diag)
{
    json_t *rows = json_array();
    char time[AW_SHOW_MAX];
    for (uint32_t i = 0; i < shown; i++) {
        const struct row *row = &list->rows[i];
        json_array_append_new(
            rows, json_pack("{ss ss ss sf si si si}", "trace", row->id, "type",
                            aw_names_text(list->names, row->type), "start",
                            aw_time_write(row->start_ns / 1000, time, sizeof time), "latency_ms",
                            (double)row->latency_ns / 1e6, "spans", (int)row->spans, "services",
                            (int)row->services, "errors", (int)row->errors));
    }
    return aw_json_print(json_pack("{sI so}", "count", (json_int_t)list->all, "requests", rows),
                         diag);
}

static enum aw_err list_table(const struct aw_call *run, const struct list *list, uint32_t shown,
                              struct aw_diag *diag)
{
    static const struct aw_grid_column columns[] = {
        {.head = "TRACE"},
        {.head = "START", .rank = 2},
        {.head = "LATENCY", .right = true},
        {.head = "SPANS", .right = true, .rank = 1},
        {.head = "SERVICES", .right = true, .rank = 3},
        {.head = "ERRORS", .right = true, .rank = 1},
        {.head = "TYPE", .least = 12},
        {.head = NULL},
    };
    struct aw_grid grid;
    char time[AW_SHOW_MAX], ms[32];
    aw_grid_init(&grid, columns);
    for (uint32_t i = 0; i < shown; i++) {
        const struct row *row = &list->rows[i];
        aw_grid_add(&grid, AW_TONE_PLAIN, "%.16s", row->id);
        aw_grid_add(&grid, AW_TONE_FAINT, "%s",
                    aw_time_show_us(row->start_ns / 1000, time, sizeof time));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw__ms_show(row->latency_ns, ms, sizeof ms));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%u", row->spans);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%u", row->services);
        aw_grid_add(&grid, row->errors ? AW_TONE_BAD : AW_TONE_FAINT, "%u", row->errors);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw_names_text(list->names, row->type));
    }
    const struct aw_grid_look look = {
        .width = aw_columns(stdout), .heads = true, .color = run->color_out, .end = "\n"};
    const enum aw_err err = aw_grid_print(&grid, stdout, &look, diag);
    if (!err && shown < list->all)
        printf("\n%u of %ju requests; --limit 0 shows all\n", shown, (uintmax_t)list->all);
    return err;
}

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__traces traces;
    enum aw_err err = aw__traces_read(&traces, run, run->args->words, run->args->word_count, diag);
    if (err)
        return err;
    struct list list = {.names = &traces.spans.names, .type = aw_args_text(run->args, "type")};
    list.rows = aw_alloc_new(NULL, LISTED_MAX, sizeof *list.rows);
    if (!list.rows) {
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
        goto out;
    }
    aw_analysis_each(&traces.analysis, &traces.spans, list_one, &list);
    qsort(list.rows, list.count, sizeof *list.rows,
          strcmp(aw_args_text(run->args, "sort"), "time") ? by_latency : by_start);
    const uint64_t limit = aw_args_number(run->args, "limit");
    const uint32_t shown = limit && limit < list.count ? (uint32_t)limit : list.count;
    err = run->json ? list_json(&list, shown, diag) : list_table(run, &list, shown, diag);
out:
    aw_alloc_free(NULL, list.rows);
    aw__traces_deinit(&traces);
    return err;
}

static const char *const sorts[] = {"latency", "time", NULL};
static const struct aw_option list_options[] = {
    AW_OPTION(CHOICE, "sort", 0, "KEY", "latency", "latency: the slowest first; time: as they came",
              .choices = sorts),
    AW_OPTION(TEXT, "type", 0, "TEXT", NULL, "only requests whose type has this in it"),
    AW_NUMBER("limit", 'n', "N", "20", 0, LISTED_MAX, "so many at most; 0: all"),
    AW__TRACE_FORMAT,
    {.name = NULL},
};
static const struct aw_example list_examples[] = {
    {"aware trace list spans.csv.gz", "the slowest requests"},
    {"aware trace list a.json b.json --sort time --type /cart", "of one type, as they came"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_list = {
    .name = "trace list",
    .summary = "List the requests in files of spans, the slowest first",
    .text = "TYPE is the service and operation of a request's root; where that is a gateway which "
            "only passes on, what it calls is beside it.",
    .options = list_options,
    .positionals = file_positionals,
    .examples = list_examples,
    .json = true,
    .run = list_run,
};
