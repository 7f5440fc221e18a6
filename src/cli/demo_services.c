/*
 * demo_services.c - the demo `services`: one SLO for a graph of services. An anomaly is injected,
 * the waterfall shows where the time goes, the culprit is named and given what it lacks, the SLO is
 * back; then the same under HPA.
 */
#include "cli/demo_services.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/demos.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/stop.h"

#define WARM_S      12
#define PACE_US     200000 /* a step of half a second, on a terminal */
#define BAR_WIDTH   44u
#define MISS_WIDTH  20u
#define REPORT_PATH "report.html"

/* What goes wrong, and when after the warm-up. */
static const struct {
    const char *service;
    enum aw_anomaly_kind kind;
    double strength, at_s, for_s;
} faults[] = {
    {"reservation-db", AW_ANOMALY_DISK, 0.8, 3.3, 17},
    {"profile", AW_ANOMALY_CPU, 0.7, 24.2, 16},
};

struct show {
    const struct aw_call *call;
    struct aw__demo_services *demo;
    struct aw__demo_run *run;
    struct aw_analysis *analysis;
    bool paced, silent, was_missed;
    double missed_since_s;
    uint64_t orders_seen;
};

/* ---- the waterfall ---- */

static void bar_take(struct aw__demo_services *demo, const struct aw_request *request,
                     uint32_t node, const struct aw_names *names)
{
    const struct aw_span_node *root = &request->nodes[request->root];
    const struct aw_span_node *at = &request->nodes[node];
    if (demo->bar_count == AW__DEMO_SPANS)
        return;
    struct aw__demo_bar *bar = &demo->bar[demo->bar_count++];
    *bar = (struct aw__demo_bar){.depth = at->depth / 2u,
                                 .start_ms = (double)(at->start_ns - root->start_ns) / 1e6,
                                 .end_ms = (double)(at->end_ns - root->start_ns) / 1e6,
                                 .path_ms = (double)at->exclusive_ns / 1e6};
    snprintf(bar->service, sizeof bar->service, "%s",
             aw_names_text(names, request->spans[node].service));
    for (uint32_t i = 0; i < request->section_count && bar->section_count < 8; i++) {
        if (request->sections[i].node != node)
            continue;
        bar->section[bar->section_count][0] =
            (double)(request->sections[i].start_ns - root->start_ns) / 1e6;
        bar->section[bar->section_count++][1] =
            (double)(request->sections[i].end_ns - root->start_ns) / 1e6;
    }
}

/* Servers below a node, by their start. Children are kept by end, the last first. */
static void bars_below(struct aw__demo_services *demo, const struct aw_request *request,
                       uint32_t node, const struct aw_names *names, uint32_t depth)
{
    uint32_t child[64], count = 0;
    if (request->nodes[node].kind != AW_SPAN_CLIENT &&
        request->nodes[node].kind != AW_SPAN_PRODUCER)
        bar_take(demo, request, node, names);
    if (depth == 2 * AW_GRAPH_DEPTH_MAX)
        return;
    for (uint32_t i = request->nodes[node].first_child; i != AW_NODE_NONE && count < 64;
         i = request->nodes[i].next)
        child[count++] = i;
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i;
             k && request->nodes[child[k]].start_ns < request->nodes[child[k - 1]].start_ns; k--) {
            const uint32_t swap = child[k];
            child[k] = child[k - 1];
            child[k - 1] = swap;
        }
    for (uint32_t i = 0; i < count; i++)
        bars_below(demo, request, child[i], names, depth + 1);
}

struct pick {
    struct aw__demo_services *demo;
    const struct aw_names *names;
};

static bool pick_slowest(void *ctx, const struct aw_request *request)
{
    struct pick *pick = ctx;
    const double ms = (double)aw_request_latency_ns(request) / 1e6;
    if (ms <= pick->demo->request_ms)
        return true;
    pick->demo->request_ms = ms;
    pick->demo->bar_count = 0;
    bars_below(pick->demo, request, request->root, pick->names, 0);
    return true;
}

static void waterfall_print(const struct aw__demo_services *demo, bool color)
{
    printf("\n  its slowest request, %.0f ms; # is the critical path\n", demo->request_ms);
    for (uint32_t i = 0; i < demo->bar_count; i++) {
        const struct aw__demo_bar *bar = &demo->bar[i];
        char line[BAR_WIDTH + 1];
        const double per = demo->request_ms / BAR_WIDTH;
        const bool much = bar->path_ms > 0.3 * demo->request_ms;
        for (uint32_t k = 0; k < BAR_WIDTH; k++)
            line[k] = (k + 1) * per > bar->start_ms && k * per < bar->end_ms ? '-' : ' ';
        for (uint32_t s = 0; s < bar->section_count; s++)
            for (uint32_t k = 0; k < BAR_WIDTH; k++)
                if ((k + 1) * per > bar->section[s][0] && k * per < bar->section[s][1])
                    line[k] = '#';
        line[BAR_WIDTH] = '\0';
        printf("  %*s%-*s %7.1f ms %s%s%s\n", (int)bar->depth, "",
               (int)(24 - (bar->depth < 12 ? bar->depth : 12)), bar->service, bar->path_ms,
               aw_tone_on(much ? AW_TONE_BAD : AW_TONE_FAINT, color), line, aw_tone_off(color));
    }
    printf("\n");
}

/* ---- while it runs ---- */

static void event_add(struct show *show, double at_s, enum aw_tone tone, const char *format, ...)
    AW_PRINTF(4, 5);
static void event_add(struct show *show, double at_s, enum aw_tone tone, const char *format, ...)
{
    struct aw__demo_run *run = show->run;
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (run->event_count < AW__DEMO_LINES) {
        run->event[run->event_count].at_s = at_s;
        snprintf(run->event[run->event_count++].text, sizeof run->event[0].text, "%s", text);
    }
    if (!show->silent)
        printf("  %5.1f s  %s%s%s\n", at_s, aw_tone_on(tone, show->call->color_out), text,
               aw_tone_off(show->call->color_out));
}

static void step_print(const struct show *show, double at_s, const struct aw_firm_sight *sight)
{
    char bar[MISS_WIDTH + 1];
    const uint32_t full = (uint32_t)lround(sight->missed_share * MISS_WIDTH);
    /* while all is well, a row every two seconds says so */
    if (show->silent || (sight->missed_share < 0.01 && fmod(at_s, 2) > 0.1))
        return;
    for (uint32_t i = 0; i < MISS_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[MISS_WIDTH] = '\0';
    printf("  %5.1f s  %s  %3.0f %% miss  %s p95 %.0f of %.0f ms\n", at_s, bar,
           100 * sight->missed_share, show->demo->app.types[sight->worst_type].name,
           sight->worst_latency_ms, sight->worst_slo_ms);
}

static void orders_take(struct show *show, const struct aw_firm_desk *desk)
{
    for (; show->orders_seen < desk->order_count; show->orders_seen++) {
        const struct aw_firm_order *order = &desk->order[show->orders_seen % AW_FIRM_ORDERS_MAX];
        char what[128];
        const double at_s = (double)order->at_ns * 1e-9 - WARM_S;
        if (order->undo || at_s < 0)
            continue; /* what is taken back, little by little */
        event_add(show, at_s, AW_TONE_GOOD, "given: %s",
                  aw_firm_order_text(desk, order, what, sizeof what));
    }
}

static void look(void *ctx, const struct aw_firm_sight *sight, const struct aw_firm_desk *desk,
                 int64_t now_ns)
{
    struct show *show = ctx;
    struct aw__demo_services *demo = show->demo;
    struct aw__demo_run *run = show->run;
    const double at_s = (double)now_ns * 1e-9 - WARM_S;
    const bool ours = run == &demo->run[0];
    orders_take(show, desk);
    if (at_s <= 0 || at_s > (double)demo->campaign.duration_ns * 1e-9 ||
        run->steps == AW__DEMO_STEPS)
        return;
    for (uint32_t i = 0; i < demo->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &demo->campaign.anomaly[i];
        const double begin = (double)anomaly->at_ns * 1e-9;
        if (begin <= at_s && begin > at_s - 0.5)
            event_add(show, begin, AW_TONE_ODD, "injected: %s into %s",
                      aw_anomaly_kind_names[anomaly->kind],
                      demo->app.services[anomaly->service].name);
    }
    run->at_s[run->steps] = at_s;
    run->missed[run->steps] = sight->missed_share;
    run->latency_of_slo[run->steps] =
        sight->worst_slo_ms > 0 ? sight->worst_latency_ms / sight->worst_slo_ms : 0;
    run->culprit[run->steps] = sight->suspect_count && sight->suspect[0].score > 0
                                   ? sight->suspect[0].service
                                   : AW_GRAPH_NONE;
    step_print(show, at_s, sight);
    if (sight->missed && !show->was_missed) {
        show->missed_since_s = at_s;
        if (ours && !demo->bar_count) {
            struct aw_spans *spans = aw_graph_world_spans(desk->plant.self); /* a simulated one */
            struct pick pick = {demo, &spans->names};
            aw_analysis_each(show->analysis, spans, pick_slowest, &pick);
            demo->bar_type = sight->worst_type;
            demo->bar_at_s = at_s;
            if (sight->suspect_count)
                demo->culprit = sight->suspect[0].service;
            if (!show->silent)
                waterfall_print(demo, show->call->color_out);
        }
    }
    if (sight->missed && ours && sight->suspect_count && sight->suspect[0].score > 0 &&
        (sight->suspect[0].lacks != AW_GRAPH_RESOURCES || sight->suspect[0].slow_network)) {
        char text[240];
        event_add(show, at_s, AW_TONE_BAD, "to blame: %s, %s",
                  demo->app.services[sight->suspect[0].service].name,
                  aw_firm_suspect_text(&sight->suspect[0], sight, text, sizeof text));
    }
    if (!sight->missed && show->was_missed)
        event_add(show, at_s, AW_TONE_GOOD, "the SLO is back, %.1f s after it was missed",
                  at_s - show->missed_since_s);
    show->was_missed = sight->missed;
    run->steps++;
    fflush(stdout);
    if (show->paced && !aw_stop_signal)
        usleep(PACE_US);
}

/* ---- the story ---- */

static enum aw_err demo_make(struct aw__demo_services *demo, struct aw_diag *diag)
{
    enum aw_err err = aw_graph_builtin("hotel", &demo->app, diag);
    if (err)
        return err;
    for (uint32_t s = 0; s < demo->app.service_count; s++)
        for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
            demo->calibration.end[s][k] = 1; /* from 0: strengths are told as they are */
    demo->culprit = AW_GRAPH_NONE;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        demo->campaign.anomaly[demo->campaign.count++] =
            (struct aw_anomaly){.service = aw_graph_service_find(&demo->app, faults[i].service),
                                .kind = faults[i].kind,
                                .intensity = faults[i].strength,
                                .at_ns = (int64_t)(1e9 * faults[i].at_s),
                                .for_ns = (int64_t)(1e9 * faults[i].for_s)};
        demo->campaign.duration_ns = (int64_t)(1e9 * (faults[i].at_s + faults[i].for_s + 4));
    }
    return AW_OK;
}

static enum aw_err run_one(const struct aw_call *call, struct aw__demo_services *demo,
                           uint32_t index, struct aw_diag *diag)
{
    static const enum aw_firm_kind kinds[] = {AW_FIRM_RULE, AW_FIRM_HPA};
    struct aw_analysis analysis;
    struct aw_classifier classifier;
    struct show show = {.call = call, .demo = demo, .run = &demo->run[index]};
    show.silent = call->json || aw_args_given(call->args, "quiet");
    show.paced = !show.silent && aw_is_terminal(stdout);
    show.analysis = &analysis;
    demo->run[index].name = index ? "hpa" : "firm";
    const struct aw_firm_trial_config config = {.seed = aw_args_number(call->args, "seed"),
                                                .kind = kinds[index],
                                                .traced = 1,
                                                .span_loss = 0.002,
                                                .skew_us = 500,
                                                .warm_ns = WARM_S * AW_GRAPH_S_NS};
    enum aw_err err = aw_analysis_init(&analysis, NULL);
    if (err)
        return aw_fail(diag, err, "no memory for the demo");
    err = aw_firm_localizer(&classifier, diag);
    if (!err)
        err = aw_firm_trial(&demo->app, &demo->calibration, &demo->campaign, &classifier, &config,
                            look, &show, NULL, &demo->run[index].outcome);
    aw_analysis_deinit(&analysis);
    return err;
}

static json_t *run_json(const struct aw__demo_services *demo, const struct aw__demo_run *run)
{
    json_t *events = json_array(), *mended = json_array();
    for (uint32_t i = 0; i < run->event_count; i++)
        json_array_append_new(events, json_pack("{s:f, s:s}", "at_s", run->event[i].at_s, "text",
                                                run->event[i].text));
    for (uint32_t i = 0; i < run->outcome.mitigation_count; i++) {
        const struct aw_firm_mitigation *one = &run->outcome.mitigation[i];
        const struct aw_anomaly *anomaly = &demo->campaign.anomaly[one->anomaly];
        json_array_append_new(mended, json_pack("{s:s, s:s, s:f, s:b}", "service",
                                                demo->app.services[anomaly->service].name, "kind",
                                                aw_anomaly_kind_names[anomaly->kind], "seconds",
                                                one->seconds, "mended", one->mended));
    }
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:o, s:o}", "manager", run->name, "requests",
                     (json_int_t)run->outcome.requests, "missed_share",
                     (double)run->outcome.missed / run->outcome.requests, "cpu_cores",
                     run->outcome.cores, "cpu_cores_at_start", run->outcome.cores_at_start,
                     "violations", mended, "events", events);
}

static enum aw_err summary_print(const struct aw_call *call, const struct aw__demo_services *demo,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {
        "", ">OVER THEIR SLO", ">TO MEND DISK", ">TO MEND CPU", ">CPU LIMITS", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < AW__DEMO_RUNS; i++) {
        const struct aw__demo_run *run = &demo->run[i];
        aw_table_add(&table, "%s", i ? "under HPA" : "under FIRM");
        aw_table_add(&table, "%.1f %%", 100.0 * run->outcome.missed / run->outcome.requests);
        for (uint32_t k = 0; k < 2; k++) {
            const struct aw_firm_mitigation *found = NULL;
            for (uint32_t m = 0; m < run->outcome.mitigation_count; m++)
                if (run->outcome.mitigation[m].anomaly == k)
                    found = &run->outcome.mitigation[m];
            if (!found)
                aw_table_add(&table, "not missed");
            else
                aw_table_add(&table, "%.1f s%s", found->seconds,
                             found->mended ? "" : ", by its end");
        }
        aw_table_add(&table, "%.1f cores", run->outcome.cores);
    }
    printf("\n");
    return aw_table_print(&table, stdout, call->color_out, diag);
}

enum aw_err aw__demo_services(const struct aw_call *call, struct aw_diag *diag)
{
    struct aw__demo_services *demo = aw_alloc_new(NULL, 1, sizeof *demo);
    const char *path = aw_args_text(call->args, "report");
    const bool silent = call->json || aw_args_given(call->args, "quiet");
    if (!demo)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the demo");
    if (!path)
        path = call->json ? "" : REPORT_PATH;
    enum aw_err err = demo_make(demo, diag);
    aw_stop_catch(&(struct aw_stop_config){.twice = true});
    for (uint32_t i = 0; i < AW__DEMO_RUNS && !err && !aw_stop_signal; i++) {
        if (!silent && i == 0)
            printf("A hotel site of %u services, %.0f requests/s, an SLO for each request type. "
                   "Traces come in;\naware watches every half second.\n\n",
                   demo->app.service_count, demo->app.rate);
        if (!silent && i == 1)
            printf("\nThe same again under Kubernetes' autoscaler (HPA, CPU at 50 %%)\n\n");
        err = run_one(call, demo, i, diag);
    }
    if (!err && aw_stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
    if (!err && call->json) {
        json_t *runs = json_array();
        for (uint32_t i = 0; i < AW__DEMO_RUNS; i++)
            json_array_append_new(runs, run_json(demo, &demo->run[i]));
        err = aw_json_print(json_pack("{s:s, s:o}", "application", demo->app.name, "runs", runs),
                            diag);
    } else if (!err) {
        err = summary_print(call, demo, diag);
    }
    if (!err && *path)
        err = aw__demo_services_page(demo, path, diag);
    if (!err && *path && !call->json)
        printf("\nThe page is %s.\n", path);
    aw_alloc_free(NULL, demo);
    return err;
}
