/* trace_show.c - the verbs `trace show` and `trace path`: one request, where its time went. */
#include "operate/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "trace/window.h"

#define LABEL_LEAST 24u
#define LABEL_MOST  56u
#define DEPTH_SHOWN 12u /* deeper levels are not indented further */
#define ROWS_MAX    400u

/* A node of the tree, its children by start. */
struct line {
    uint32_t node;
    int64_t start_ns;
};

struct view {
    const struct aw_request *request;
    const struct aw_names *names;
    const struct aw_call *run;
    uint32_t *order; /* [count]: nodes as they are shown */
    uint32_t shown;
};

static int by_start(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* Parents before their children, children by start. */
static enum aw_err lay_out(struct view *view)
{
    const struct aw_request *request = view->request;
    struct line *stack = aw_alloc_new(NULL, request->count + 1, sizeof *stack);
    uint32_t depth = 0;
    view->order = aw_alloc_new(NULL, request->count + 1, sizeof *view->order);
    if (!stack || !view->order) {
        aw_alloc_free(NULL, stack);
        return AW_ERR_NOMEM;
    }
    stack[depth++].node = request->root;
    while (depth) {
        const uint32_t node = stack[--depth].node;
        const uint32_t first = depth;
        view->order[view->shown++] = node;
        for (uint32_t child = request->nodes[node].first_child; child != AW_NODE_NONE;
             child = request->nodes[child].next)
            stack[depth++] = (struct line){child, -request->nodes[child].start_ns};
        qsort(stack + first, depth - first, sizeof *stack, by_start); /* the last is next */
    }
    aw_alloc_free(NULL, stack);
    return AW_OK;
}

/* ---- the waterfall ---- */

/* Cells of a bar: '#' where the span is on the critical path, '-' where it only runs. */
static void draw_bar(const struct view *view, uint32_t node, unsigned width, char *bar)
{
    const struct aw_request *request = view->request;
    const struct aw_span_node *root = &request->nodes[request->root], *at = &request->nodes[node];
    const double length = (double)(root->end_ns - root->start_ns);
    memset(bar, ' ', width);
    for (unsigned i = 0; i < width; i++) {
        const double from = (double)root->start_ns + length * i / width;
        const double until = (double)root->start_ns + length * (i + 1) / width;
        if ((double)at->start_ns < until && (double)at->end_ns >= from)
            bar[i] = at->flags & AW_NODE_BACKGROUND ? '~' : '-';
    }
    for (uint32_t i = 0; i < request->section_count; i++) {
        const struct aw_section *section = &request->sections[i];
        if (section->node != node)
            continue;
        const double from = (double)(section->start_ns - root->start_ns) / length * width;
        const double until = (double)(section->end_ns - root->start_ns) / length * width;
        for (unsigned k = (unsigned)from; k < width && (k < until || k == (unsigned)from); k++)
            bar[k] = '#';
    }
    while (width && bar[width - 1] == ' ')
        width--;
    bar[width] = '\0';
}

static void flags_text(const struct view *view, uint32_t node, char *buf, size_t size)
{
    static const struct {
        unsigned flag;
        const char *text;
    } texts[] = {
        {AW_NODE_SKEWED, "clock moved"},   {AW_NODE_CLIPPED, "cut"},
        {AW_NODE_OUTSIDE, "outside"},      {AW_NODE_BACKGROUND, "background"},
        {AW_NODE_ADOPTED, "caller found"}, {AW_NODE_RETRY, "retry"},
    };
    struct aw_text text;
    aw_text_init(&text, buf, size);
    if (view->request->spans[node].flags & AW_SPAN_ERROR)
        aw_text_add(&text, "error");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (view->request->nodes[node].flags & texts[i].flag)
            aw_text_add(&text, "%s%s", text.len ? ", " : "", texts[i].text);
    }
}

static void label_text(const struct view *view, uint32_t node, char *buf, size_t size)
{
    const struct aw_request *request = view->request;
    const struct aw_span *span = &request->spans[node];
    const uint32_t parent = request->nodes[node].parent;
    const unsigned depth = request->nodes[node].depth;
    const bool same = parent != AW_NODE_NONE && request->spans[parent].service == span->service;
    snprintf(buf, size, "%*s%.60s%s%.80s", (int)(depth < DEPTH_SHOWN ? depth : DEPTH_SHOWN), "",
             same ? "" : aw_names_text(view->names, span->service), same ? "" : " ",
             aw_names_text(view->names, span->operation));
}

static void row_print(const struct view *view, uint32_t node, unsigned label, unsigned width)
{
    char text[256], bar[512], flags[96], ms[32], own[32];
    const struct aw_span_node *at = &view->request->nodes[node];
    const bool color = view->run->color_out;
    const bool error = view->request->spans[node].flags & AW_SPAN_ERROR;
    label_text(view, node, text, sizeof text);
    draw_bar(view, node, width, bar);
    flags_text(view, node, flags, sizeof flags);
    const struct aw_span *span = &view->request->spans[node];
    aw__ms_show(span->end_ns - span->start_ns, ms, sizeof ms);
    aw__ms_show(at->exclusive_ns, own, sizeof own);
    const enum aw_tone tone = error                  ? AW_TONE_BAD
                              : at->exclusive_ns > 0 ? AW_TONE_ODD
                                                     : AW_TONE_FAINT;
    printf("%-*.*s %10s %10s %s%s%s%s%s\n", (int)label, (int)label, text, ms,
           at->exclusive_ns > 0 ? own : "", aw_tone_on(tone, color), bar, aw_tone_off(color),
           *flags ? " " : "", flags);
}

static void waterfall_print(const struct view *view)
{
    const unsigned columns = aw_columns(stdout);
    unsigned label = columns / 3;
    char ms[32], id[AW_SPAN_TRACE_HEX];
    label = label < LABEL_LEAST ? LABEL_LEAST : label > LABEL_MOST ? LABEL_MOST : label;
    unsigned width = columns > label + 26 + 20 ? columns - label - 26 : 20;
    width = width < 500 ? width : 500;
    printf("trace %s: %s, %u spans\n\n", aw_span_trace_text(view->request->spans, id, sizeof id),
           aw__ms_show(aw_request_latency_ns(view->request), ms, sizeof ms), view->request->count);
    printf("%-*s %10s %10s # on the critical path, - beside it, ~ in the background\n", (int)label,
           "SPAN", "TOOK", "ON PATH");
    for (uint32_t i = 0; i < view->shown && i < ROWS_MAX; i++)
        row_print(view, view->order[i], label, width);
    if (view->shown > ROWS_MAX)
        printf("... and %u spans more; --output json has all\n", view->shown - ROWS_MAX);
    const struct aw_request_counts *counts = &view->request->counts;
    if (counts->orphaned || counts->duplicate)
        printf("\nnot shown: %ju spans whose parent is missing, %ju duplicates\n",
               (uintmax_t)counts->orphaned, (uintmax_t)counts->duplicate);
}

static json_t *span_json(const struct view *view, uint32_t node)
{
    const struct aw_span *span = &view->request->spans[node];
    const struct aw_span_node *at = &view->request->nodes[node];
    const struct aw_span_node *root = &view->request->nodes[view->request->root];
    char id[20], parent[20] = "", flags[96];
    snprintf(id, sizeof id, "%016" PRIx64, span->id);
    if (span->parent)
        snprintf(parent, sizeof parent, "%016" PRIx64, span->parent);
    flags_text(view, node, flags, sizeof flags);
    return json_pack(
        "{ss ss ss ss ss ss si sf sf sf sb ss}", "span", id, "parent", parent, "service",
        aw_names_text(view->names, span->service), "instance",
        aw_names_text(view->names, span->instance), "operation",
        aw_names_text(view->names, span->operation), "kind", aw_span_kind_name(at->kind), "depth",
        (int)at->depth, "start_ms", (double)(at->start_ns - root->start_ns) / 1e6, "duration_ms",
        (double)(span->end_ns - span->start_ns) / 1e6, "on_path_ms", (double)at->exclusive_ns / 1e6,
        "error", span->flags & AW_SPAN_ERROR, "note", flags);
}

static enum aw_err show_json(const struct view *view, struct aw_diag *diag)
{
    json_t *spans = json_array();
    char id[AW_SPAN_TRACE_HEX];
    for (uint32_t i = 0; i < view->shown; i++)
        json_array_append_new(spans, span_json(view, view->order[i]));
    return aw_json_print(
        json_pack("{ss sf so so}", "trace", aw_span_trace_text(view->request->spans, id, sizeof id),
                  "latency_ms", (double)aw_request_latency_ns(view->request) / 1e6, "counts",
                  aw__counts_json(&view->request->counts), "spans", spans),
        diag);
}

static enum aw_err show_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__traces traces;
    struct aw_request request;
    enum aw_err err = aw__traces_read(&traces, run, run->args->words, run->args->word_count, diag);
    if (err)
        return err;
    struct view view = {.request = &request, .names = &traces.spans.names, .run = run};
    err = aw__traces_choose(&traces, run, &request, diag);
    if (!err && lay_out(&view))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (!err && run->json)
        err = show_json(&view, diag);
    else if (!err)
        waterfall_print(&view);
    aw_alloc_free(NULL, view.order);
    aw__traces_deinit(&traces);
    return err;
}

static const struct aw_positional file_positionals[] = {AW__TRACE_FILES, {.name = NULL}};
static const struct aw_option show_options[] = {AW__TRACE_ID, AW__TRACE_FORMAT, {.name = NULL}};
static const struct aw_example show_examples[] = {
    {"aware trace show spans.csv.gz", "the slowest request"},
    {"aware trace show spans.json --trace 5b8e", "one by the first digits of its id"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_show = {
    .name = "trace show",
    .summary = "Show one request as a waterfall, with its critical path",
    .text =
        "TOOK is what a span's sender said; ON PATH is its exclusive time on the critical path. "
        "These sum to the request's latency: every instant belongs to one span.",
    .options = show_options,
    .positionals = file_positionals,
    .examples = show_examples,
    .json = true,
    .run = show_run,
};

/* ---- path ---- */

/* What a section is: a span's own time, or what lies between it and whom it calls. */
static const char *section_text(const struct aw_request *request, const struct aw_section *section)
{
    const struct aw_span_node *node = &request->nodes[section->node];
    const bool client = node->kind == AW_SPAN_CLIENT || node->kind == AW_SPAN_PRODUCER;
    if (client && section->before != AW_NODE_NONE && section->after == AW_NODE_NONE)
        return "on the way there";
    if (client && section->after != AW_NODE_NONE && section->before == AW_NODE_NONE)
        return "on the way back";
    return client && section->after == AW_NODE_NONE ? "waiting for what has no spans" : "own work";
}

static json_t *sections_json(const struct view *view)
{
    json_t *list = json_array();
    const struct aw_request *request = view->request;
    const int64_t zero = request->nodes[request->root].start_ns;
    for (uint32_t i = request->section_count; i-- > 0;) {
        const struct aw_section *section = &request->sections[i];
        const struct aw_span *span = &request->spans[section->node];
        json_array_append_new(list,
                              json_pack("{sf sf ss ss ss}", "start_ms",
                                        (double)(section->start_ns - zero) / 1e6, "ms",
                                        (double)(section->end_ns - section->start_ns) / 1e6,
                                        "service", aw_names_text(view->names, span->service),
                                        "operation", aw_names_text(view->names, span->operation),
                                        "what", section_text(request, section)));
    }
    return list;
}

static enum aw_err path_table(const struct view *view, struct aw_diag *diag)
{
    static const char *const heads[] = {">AT",  ">TOOK",     ">SHARE", "SERVICE",
                                        "WHAT", "OPERATION", NULL};
    const struct aw_request *request = view->request;
    const double latency = (double)aw_request_latency_ns(request);
    const int64_t zero = request->nodes[request->root].start_ns;
    char at[32], ms[32], share[AW_SHOW_MAX], id[AW_SPAN_TRACE_HEX];
    struct aw_table table;
    printf("trace %s: %s on the critical path, in %u sections\n\n",
           aw_span_trace_text(request->spans, id, sizeof id),
           aw__ms_show(aw_request_latency_ns(request), ms, sizeof ms), request->section_count);
    aw_table_init(&table, heads);
    for (uint32_t i = request->section_count; i-- > 0;) {
        const struct aw_section *section = &request->sections[i];
        const struct aw_span *span = &request->spans[section->node];
        const int64_t ns = section->end_ns - section->start_ns;
        aw_table_add(&table, "%s", aw__ms_show(section->start_ns - zero, at, sizeof at));
        aw_table_add(&table, "%s", aw__ms_show(ns, ms, sizeof ms));
        aw_table_add(&table, "%s", aw_show_percent((double)ns / latency, share, sizeof share));
        aw_table_add(&table, "%s", aw_names_text(view->names, span->service));
        aw_table_add(&table, "%s", section_text(request, section));
        aw_table_add(&table, "%s", aw_names_text(view->names, span->operation));
    }
    return aw_table_print(&table, stdout, view->run->color_out, diag);
}

static enum aw_err path_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__traces traces;
    struct aw_request request;
    enum aw_err err = aw__traces_read(&traces, run, run->args->words, run->args->word_count, diag);
    if (err)
        return err;
    struct view view = {.request = &request, .names = &traces.spans.names, .run = run};
    char id[AW_SPAN_TRACE_HEX];
    err = aw__traces_choose(&traces, run, &request, diag);
    if (!err && run->json)
        err = aw_json_print(json_pack("{ss sf so}", "trace",
                                      aw_span_trace_text(request.spans, id, sizeof id),
                                      "latency_ms", (double)aw_request_latency_ns(&request) / 1e6,
                                      "sections", sections_json(&view)),
                            diag);
    else if (!err)
        err = path_table(&view, diag);
    aw__traces_deinit(&traces);
    return err;
}

static const struct aw_example path_examples[] = {
    {"aware trace path spans.csv.gz", "of the slowest request"},
    {"aware trace path spans.json --trace 5b8e --output json", "for a program"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_path = {
    .name = "trace path",
    .summary = "Print the critical path of one request, section by section",
    .text = "The sections sum to the latency. Time of a call outside of its server is on the way "
            "there or on the way back: the network's, or of an end that was late.",
    .options = show_options,
    .positionals = file_positionals,
    .examples = path_examples,
    .json = true,
    .run = path_run,
};
