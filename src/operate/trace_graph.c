/* trace_graph.c - the verb `trace graph`: which services call which, and what it costs. */
#include "operate/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "trace/profile.h"

struct service {
    uint32_t name;
    uint64_t spans, errors;
    int64_t on_path_ns;
};

struct graph {
    struct aw_window window;
    struct service *services; /* by name; [room] */
    uint32_t count, room;
    int64_t latency_ns; /* of all requests */
    bool full;
};

static struct service *service_of(struct graph *graph, uint32_t name)
{
    uint32_t i = 0;
    while (i < graph->count && graph->services[i].name != name)
        i++;
    if (i == graph->room) {
        graph->full = true;
        return &graph->services[0];
    }
    if (i == graph->count)
        graph->services[graph->count++] = (struct service){.name = name};
    return &graph->services[i];
}

static bool graph_one(void *ctx, const struct aw_request *request)
{
    struct graph *graph = ctx;
    struct service *service = NULL;
    for (uint32_t i = 0; i < request->count; i++) {
        const struct aw_span *span = &request->spans[i];
        if (!service || service->name != span->service)
            service = service_of(graph, span->service);
        service->spans++;
        service->errors += (span->flags & AW_SPAN_ERROR) != 0;
        service->on_path_ns += request->nodes[i].exclusive_ns;
    }
    graph->latency_ns += aw_request_latency_ns(request);
    return aw_window_add(&graph->window, request) || true;
}

static int by_path(const void *left, const void *right)
{
    const struct service *a = left, *b = right;
    return (a->on_path_ns < b->on_path_ns) - (a->on_path_ns > b->on_path_ns);
}

static enum aw_err graph_json(const struct graph *graph, const struct aw_span_profile *profile,
                              const struct aw_names *names, struct aw_diag *diag)
{
    json_t *services = json_array(), *calls = json_array();
    const double requests = graph->window.request_count ? graph->window.request_count : 1;
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct service *service = &graph->services[i];
        json_array_append_new(
            services,
            json_pack("{ss sI sI sf sf}", "service", aw_names_text(names, service->name), "spans",
                      (json_int_t)service->spans, "errors", (json_int_t)service->errors,
                      "on_path_ms", (double)service->on_path_ns / 1e6 / requests, "on_path_share",
                      graph->latency_ns ? (double)service->on_path_ns / (double)graph->latency_ns
                                        : 0));
    }
    for (uint32_t i = 0; i < profile->edge_count; i++) {
        const struct aw_profile_edge *edge = &profile->edges[i];
        json_array_append_new(calls, json_pack("{ss ss si sf sf}", "caller",
                                               aw_names_text(names, edge->caller), "callee",
                                               aw_names_text(names, edge->service), "calls",
                                               (int)edge->calls, "there_ms", edge->side_ns[0] / 1e6,
                                               "back_ms", edge->side_ns[1] / 1e6));
    }
    return aw_json_print(json_pack("{si so so}", "requests", (int)graph->window.request_count,
                                   "services", services, "calls", calls),
                         diag);
}

static enum aw_err graph_print(const struct aw_call *run, const struct graph *graph,
                               const struct aw_span_profile *profile, const struct aw_names *names,
                               struct aw_diag *diag)
{
    static const char *const service_heads[] = {"SERVICE",  ">SPANS", ">ERRORS",
                                                ">ON PATH", ">SHARE", NULL};
    static const char *const call_heads[] = {"CALLER", "CALLEE", ">CALLS", ">THERE", ">BACK", NULL};
    const double requests = graph->window.request_count ? graph->window.request_count : 1;
    char ms[32], share[AW_SHOW_MAX];
    struct aw_table table;
    aw_table_init(&table, service_heads);
    for (uint32_t i = 0; i < graph->count; i++) {
        const struct service *service = &graph->services[i];
        aw_table_add(&table, "%s", aw_names_text(names, service->name));
        aw_table_add(&table, "%ju", (uintmax_t)service->spans);
        aw_table_add(&table, "%ju", (uintmax_t)service->errors);
        aw_table_add(&table, "%s",
                     aw__ms_show((int64_t)((double)service->on_path_ns / requests), ms, sizeof ms));
        aw_table_add(&table, "%s",
                     aw_show_percent((double)service->on_path_ns / (double)graph->latency_ns, share,
                                     sizeof share));
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (err)
        return err;
    printf("\n");
    aw_table_init(&table, call_heads);
    for (uint32_t i = 0; i < profile->edge_count; i++) {
        const struct aw_profile_edge *edge = &profile->edges[i];
        aw_table_add(&table, "%s", aw_names_text(names, edge->caller));
        aw_table_add(&table, "%s", aw_names_text(names, edge->service));
        aw_table_add(&table, "%u", edge->calls);
        aw_table_add(&table, "%s", aw__ms_show((int64_t)edge->side_ns[0], ms, sizeof ms));
        aw_table_add(&table, "%s", aw__ms_show((int64_t)edge->side_ns[1], ms, sizeof ms));
    }
    err = aw_table_print(&table, stdout, run->color_out, diag);
    if (!err)
        printf("\n%u requests, %u services, %u edges\n", graph->window.request_count, graph->count,
               profile->edge_count);
    return err;
}

static enum aw_err graph_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw__traces traces;
    struct graph graph = {.room = 4096};
    struct aw_span_profile profile = {0};
    enum aw_err err = aw__traces_read(&traces, run, run->args->words, run->args->word_count, diag);
    if (err)
        return err;
    graph.services = aw_alloc_new(NULL, graph.room, sizeof *graph.services);
    if (!graph.services || aw_window_init(&graph.window, &traces.spans.names, NULL)) {
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
        goto out;
    }
    aw_analysis_each(&traces.analysis, &traces.spans, graph_one, &graph);
    if (graph.full)
        aw_log_warn(run->log, "more services than are shown", AW_LOG_INT("shown", graph.room));
    qsort(graph.services, graph.count, sizeof *graph.services, by_path);
    if (aw_profile_make(&profile, &graph.window, 0, 1, NULL))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    else
        err = run->json ? graph_json(&graph, &profile, &traces.spans.names, diag)
                        : graph_print(run, &graph, &profile, &traces.spans.names, diag);
out:
    aw_profile_deinit(&profile);
    aw_window_deinit(&graph.window);
    aw_alloc_free(NULL, graph.services);
    aw__traces_deinit(&traces);
    return err;
}

static const struct aw_positional file_positionals[] = {AW__TRACE_FILES, {.name = NULL}};
static const struct aw_option graph_options[] = {AW__TRACE_FORMAT, {.name = NULL}};
static const struct aw_example graph_examples[] = {
    {"aware trace graph spans.csv.gz", "services by their part of the latency, and their calls"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_graph = {
    .name = "trace graph",
    .summary = "Print the graph of services: who calls whom, and where requests spend their time",
    .text =
        "ON PATH is the exclusive time on the critical path, a request. THERE and BACK are what "
        "a call takes outside of its server, before it begins and after it has ended; both are "
        "winsorised means.",
    .options = graph_options,
    .positionals = file_positionals,
    .examples = graph_examples,
    .json = true,
    .run = graph_run,
};
