/* run_graph.c - see run_graph.h. */
#include "cli/run_graph.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/tree.h"
#include "daemon/config.h"
#include "daemon/doors.h"
#include "daemon/graph_run.h"
#include "firm/score.h"
#include "frame/grid.h"
#include "frame/layout.h"
#include "frame/stop.h"
#include "frame/version.h"
#include "mesh/calibrate.h"

#define CALIBRATION_SEED 77u
#define DURATION         "10m"
#define STATE            "aware-state"
#define SAVE_STEPS       120u /* a minute of the graph's time */
#define SPAN_LOSS        0.001
#define SKEW_US          500.0
#define SPEED_MAX        1e6

struct graph {
    const struct aw_call *call;
    struct aw_graph_app app;
    struct aw_campaign campaign;
    struct aw_calibration calibration;
    bool has_campaign, served, silent, was_missed;
    double missed_since_s, until_s, speed;
    uint64_t given, taken, doubts;
    bool was_doubt;
    uint32_t blamed; /* who was told of last; AW_GRAPH_NONE */
    const char *path;
    bool real; /* processes of this machine */
    struct aw_mesh *mesh;
    struct aw_firm_score score;
};

/* --- files ---------------------------------------------------------------------------------- */

/* "ServiceGraph", "AnomalyCampaign"; "" for anything else. */
static void kind_of(const char *path, char *buf, size_t size)
{
    struct stat st;
    struct aw_tree tree;
    const struct aw_node *root, *kind;
    const char *text;
    buf[0] = '\0';
    if (stat(path, &st) || !S_ISREG(st.st_mode) || aw_tree_load_file(&tree, path, NULL, NULL))
        return;
    if (!aw_tree_only(&tree, &root, NULL) && (kind = aw_node_find(root, "kind")) &&
        !aw_tree_string(&tree, kind, &text, NULL))
        snprintf(buf, size, "%s", text);
    aw_tree_deinit(&tree);
}

bool aw__run_graph_asked(const struct aw_call *run)
{
    char kind[64];
    for (uint32_t i = 0; i < run->args->repeat_count; i++) {
        kind_of(run->args->repeat[i], kind, sizeof kind);
        if (!strcmp(kind, "ServiceGraph"))
            return true;
    }
    return false;
}

static enum aw_err campaign_ready(struct graph *graph, const char *path, struct aw_diag *diag)
{
    enum aw_err err = aw_campaign_read(path, &graph->campaign, &graph->app, diag);
    if (err)
        return err;
    graph->has_campaign = true;
    if (graph->real) /* once they run */
        return AW_OK;
    if (graph->campaign.rate > 0)
        err = aw_calibrate_graph(&graph->app, CALIBRATION_SEED, NULL, &graph->calibration);
    for (uint32_t i = 0; i < graph->campaign.count && !err && !(graph->campaign.rate > 0); i++)
        err = aw_calibrate_pair(&graph->app, CALIBRATION_SEED, graph->campaign.anomaly[i].service,
                                graph->campaign.anomaly[i].kind, NULL, &graph->calibration);
    if (err)
        return aw_fail(diag, err, "no memory to calibrate %s", graph->app.name);
    for (uint32_t i = 0; i < graph->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &graph->campaign.anomaly[i];
        if (!aw_calibration_has(&graph->calibration, anomaly->service, anomaly->kind))
            return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                              "%s into %s: no request misses its SLO by it, however strong",
                              aw_anomaly_kind_names[anomaly->kind],
                              graph->app.services[anomaly->service].name);
    }
    aw_campaign_draw(&graph->campaign, &graph->app, &graph->calibration);
    return AW_OK;
}

/* --- real processes ------------------------------------------------------------------------- */

static void real_say(const struct graph *graph, const char *format, ...) AW_PRINTF(2, 3);
static void real_say(const struct graph *graph, const char *format, ...)
{
    va_list args;
    if (graph->silent)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fflush(stdout);
}

static enum aw_err real_pair(struct graph *graph, uint32_t s, uint32_t kind, struct aw_diag *diag)
{
    const double start = graph->calibration.start[s][kind];
    if (isfinite(start))
        return AW_OK;
    const enum aw_err err = aw_mesh_calibrate(graph->mesh, s, (enum aw_anomaly_kind)kind,
                                              &aw_stop_signal, &graph->calibration, diag);
    if (!err && isfinite(graph->calibration.start[s][kind]))
        real_say(graph, "calibrated: %s into %s, from %.2f to %.2f of the most\n",
                 aw_anomaly_kind_names[kind], graph->app.services[s].name,
                 graph->calibration.start[s][kind], graph->calibration.end[s][kind]);
    return err;
}

/* A pair is tried once; with --calibration FILE, once for all runs. */
static enum aw_err real_calibrate(struct graph *graph, struct aw_diag *diag)
{
    const struct aw_campaign *campaign = &graph->campaign;
    const char *file = aw_args_text(graph->call->args, "calibration");
    enum aw_err err = AW_OK;
    if (campaign->rate > 0)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "anomalies are drawn at random on the simulated cluster alone: every pair "
                       "of service and kind would have to be calibrated; list them");
    aw_calibration_none(&graph->calibration);
    if (file) {
        err = aw_calibration_read(file, &graph->app, &graph->calibration, diag);
        err = err == AW_ERR_NOTFOUND ? AW_OK : err;
    }
    for (uint32_t i = 0; i < campaign->count && !err; i++) /* before any of them takes its time */
        err = aw_mesh_can(graph->mesh, campaign->anomaly[i].kind, diag);
    for (uint32_t i = 0; i < campaign->count && !err; i++) {
        const struct aw_anomaly *anomaly = &campaign->anomaly[i];
        err = real_pair(graph, anomaly->service, anomaly->kind, diag);
        if (!err && !aw_calibration_has(&graph->calibration, anomaly->service, anomaly->kind))
            err = aw_fail(
                diag, AW_ERR_CONFIG, "%s into %s: no request misses its SLO by it, however strong",
                aw_anomaly_kind_names[anomaly->kind], graph->app.services[anomaly->service].name);
    }
    return err || !file ? err : aw_calibration_write(file, &graph->app, &graph->calibration, diag);
}

static enum aw_err real_open(struct graph *graph, struct aw_graph_run_config *config,
                             struct aw_diag *diag)
{
    struct aw_local_settings cluster;
    char store[AW_FILE_PATH_MAX + 32];
    struct aw_mesh_config mesh = {.app = &graph->app,
                                  .graph = graph->path,
                                  .cluster = &cluster,
                                  .store = *config->state ? store : NULL,
                                  .seed = config->seed};
    snprintf(store, sizeof store, "%s/" AW_DAEMON_TRACES, config->state);
    aw_conf_defaults(aw_local_fields, &cluster);
    cluster.drain_s = 2;
    aw_mesh_fit(&graph->app);
    enum aw_err err = *config->state ? aw_file_mkdirs(config->state, diag) : AW_OK;
    err = err ? err : aw_mesh_open(&graph->mesh, &mesh, diag);
    if (err)
        return err;
    const struct aw_mesh_actuators *can = aw_mesh_actuators(graph->mesh);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        if (*can->why[r])
            real_say(graph, "%s cannot be given here: %s\n", aw_graph_resource_names[r],
                     can->why[r]);
    err = aw_mesh_ready(graph->mesh, &aw_stop_signal, diag);
    if (!err && aw_stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
    err = err ? err : aw_mesh_load_begin(graph->mesh, diag);
    err = err || !graph->has_campaign ? err : real_calibrate(graph, diag);
    if (!err && graph->has_campaign) { /* the run's time begins anew */
        err = aw_mesh_load_end(graph->mesh, diag);
        err = err ? err : aw_mesh_load_begin(graph->mesh, diag);
    }
    config->mesh = graph->mesh;
    return err;
}

static enum aw_err files_read(struct graph *graph, struct aw_diag *diag)
{
    const struct aw_args *args = graph->call->args;
    const char *campaign = NULL;
    char kind[64];
    for (uint32_t i = 0; i < args->repeat_count; i++) {
        kind_of(args->repeat[i], kind, sizeof kind);
        if (!strcmp(kind, "ServiceGraph") && !graph->path)
            graph->path = args->repeat[i];
        else if (!strcmp(kind, "AnomalyCampaign") && !campaign)
            campaign = args->repeat[i];
        else
            return aw_fail_at(diag, AW_ERR_USAGE, args->repeat[i], 0, 0, NULL,
                              "expected one ServiceGraph, and at most one AnomalyCampaign beside "
                              "it, found %s",
                              *kind ? kind : "something else");
    }
    const enum aw_err err = aw_graph_app_read(graph->path, &graph->app, diag);
    return err || !campaign ? err : campaign_ready(graph, campaign, diag);
}

static enum aw_err options_read(struct graph *graph, struct aw_graph_run_config *config,
                                struct aw_diag *diag)
{
    /* what speaks of autoscalers, or of a door that a graph has not yet */
    static const char *const others[] = {"report", "listen",      "traces",  "agents",
                                         "store",  "traces-grpc", "reports", "probes"};
    const struct aw_args *args = graph->call->args;
    const char *duration = aw_args_text(args, "duration"), *speed = aw_args_text(args, "speed");
    const char *state = aw_args_text(args, "state");
    int64_t us;
    struct aw_diag why;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (aw_args_given(args, others[i]))
            return aw_fail(diag, AW_ERR_USAGE, "--%s: not for a ServiceGraph yet", others[i]);
    if (!strcmp(aw_args_text(args, "output"), "csv"))
        return aw_fail(diag, AW_ERR_USAGE, "--output csv: not for a ServiceGraph; json is");
    if (!strcmp(aw_args_text(args, "cluster"), "kubernetes"))
        return aw_fail(diag, AW_ERR_USAGE,
                       "a ServiceGraph is served on the simulated cluster and on "
                       "real processes of this machine so far");
    if (graph->real && speed)
        return aw_fail(diag, AW_ERR_USAGE, "--speed: real processes have their own");
    if (aw_duration_parse(duration ? duration : DURATION, AW_QUANTITY_POSITIVE_OR_0, &us, &why))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--duration", "%s", why.text);
    const bool served = aw_args_given(args, "daemon");
    graph->until_s = served && !duration ? INFINITY : 1e-6 * (double)us;
    graph->speed = served && !graph->real ? 1 : INFINITY;
    graph->served = served;
    if (served && state && !strcmp(state, "none"))
        return aw_fail(diag, AW_ERR_USAGE, "--daemon: a daemon keeps its state; give --state DIR");
    if (speed && !strcmp(speed, "max"))
        graph->speed = INFINITY;
    else if (speed && (aw_text_parse_real(speed, &graph->speed) || !(graph->speed > 0) ||
                       graph->speed > SPEED_MAX))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed",
                          "expected max, or simulated over real time up to %g, found %s", SPEED_MAX,
                          AW_QUOTE(speed));
    *config =
        (struct aw_graph_run_config){.app = &graph->app,
                                     .campaign = graph->has_campaign ? &graph->campaign : NULL,
                                     .calibration = &graph->calibration,
                                     .seed = aw_args_number(args, "seed"),
                                     .span_loss = SPAN_LOSS,
                                     .skew_us = SKEW_US,
                                     .kind = AW_FIRM_RULE,
                                     .durable = served,
                                     .fresh = aw_args_given(args, "fresh"),
                                     .version = AW_VERSION_NUMBER};
    state = state ? state : STATE;
    if (strcmp(state, "none") != 0)
        snprintf(config->state, sizeof config->state, "%s", state);
    return AW_OK;
}

/* --- while it runs -------------------------------------------------------------------------- */

static void event(const struct graph *graph, double at_s, enum aw_tone tone, const char *format,
                  ...) AW_PRINTF(4, 5);
static void event(const struct graph *graph, double at_s, enum aw_tone tone, const char *format,
                  ...)
{
    char text[512];
    va_list args;
    if (graph->silent)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("%8.1f s  %s%s%s\n", at_s, aw_tone_on(tone, graph->call->color_out), text,
           aw_tone_off(graph->call->color_out));
}

/* Takes `value` over. */
static enum aw_err line_print(json_t *value, struct aw_diag *diag)
{
    enum aw_err err = value ? aw_json_write(value, stdout, 0) : AW_ERR_NOMEM;
    json_decref(value);
    if (!err && fputc('\n', stdout) == EOF)
        err = AW_ERR_IO;
    return err ? aw_fail(diag, err, "standard output: %s", aw_err_text(err)) : AW_OK;
}

static enum aw_err order_line(const struct graph *graph, const struct aw_firm_order *order,
                              const struct aw_firm_desk *desk, double at_s, struct aw_diag *diag)
{
    char what[160];
    static const char *const kinds[] = {"limit", "scale", "replace"};
    return line_print(
        json_pack("{s:f, s:s, s:s, s:s, s:f, s:f, s:b, s:s, s:s}", "at_s", at_s, "service",
                  graph->app.services[order->service].name, "order", kinds[order->kind], "resource",
                  order->kind == AW_FIRM_LIMIT ? aw_graph_resource_names[order->resource]
                                               : "replicas",
                  "from", order->from, "to", order->to, "shrinks", aw_firm_order_shrinks(order),
                  "what", aw_firm_order_text(desk, order, what, sizeof what), "why", order->reason),
        diag);
}

static enum aw_err show(struct graph *graph, const struct aw_graph_run_step *step,
                        struct aw_diag *diag)
{
    const struct aw_firm_sight *sight = step->sight;
    enum aw_err err = AW_OK;
    char text[240], what[160];
    if (sight->missed && !graph->was_missed) {
        graph->missed_since_s = step->at_s;
        event(graph, step->at_s, AW_TONE_BAD, "SLO missed: %s p95 %.0f of %.0f ms, %.0f %% over it",
              graph->app.types[sight->worst_type].name, sight->worst_latency_ms,
              sight->worst_slo_ms, 100 * sight->missed_share);
        graph->blamed = AW_GRAPH_NONE;
    }
    if (sight->missed && sight->suspect_count && sight->suspect[0].score > 0 &&
        sight->suspect[0].service != graph->blamed) {
        graph->blamed = sight->suspect[0].service;
        event(graph, step->at_s, AW_TONE_ODD, "to blame: %s: %s",
              graph->app.services[graph->blamed].name,
              aw_firm_suspect_text(&sight->suspect[0], sight, text, sizeof text));
    }
    for (uint64_t i = step->orders_before; i < step->desk->order_count && !err; i++) {
        const struct aw_firm_order *order = &step->desk->order[i % AW_FIRM_ORDERS_MAX];
        const bool shrinks = aw_firm_order_shrinks(order);
        graph->given += !shrinks;
        graph->taken += shrinks;
        if (graph->call->json)
            err = order_line(graph, order, step->desk, step->at_s, diag);
        else
            event(graph, step->at_s, shrinks ? AW_TONE_FAINT : AW_TONE_GOOD, "%s: %s",
                  shrinks ? "taken back" : "given",
                  aw_firm_order_text(step->desk, order, what, sizeof what));
    }
    if (step->doubt != graph->was_doubt) {
        graph->doubts += step->doubt;
        if (graph->real)
            event(graph, step->at_s, AW_TONE_FAINT, step->doubt ? "in doubt: %s" : "no doubt%s",
                  step->doubt ? step->why : " any more");
    }
    graph->was_doubt = step->doubt;
    if (!sight->missed && graph->was_missed)
        event(graph, step->at_s, AW_TONE_GOOD, "the SLO is back, %.1f s after it was missed",
              step->at_s - graph->missed_since_s);
    graph->was_missed = sight->missed;
    return err;
}

static enum aw_err steps(struct graph *graph, struct aw_graph_run *run, struct aw_diag *diag)
{
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = AW_OK;
    double at_s = 0;
    for (uint64_t n = 1; !err && !aw_stop_signal && at_s < graph->until_s; n++) {
        struct aw_graph_run_step step;
        err = aw_graph_run_step(run, &step, diag);
        if (err)
            break;
        at_s = step.at_s;
        if (graph->has_campaign)
            aw_firm_score_step(&graph->score, step.sight, step.desk, (int64_t)(1e9 * at_s));
        err = show(graph, &step, diag);
        if (!err && n % SAVE_STEPS == 0)
            err = aw_graph_run_save(run, diag);
        if (graph->real)
            fflush(stdout);
        if (isfinite(graph->speed)) {
            fflush(stdout);
            /* a signal ends the wait, and the loop */
            (void)!aw_clock_sleep_until(NULL, begin_us + (int64_t)(1e6 * at_s / graph->speed));
        }
    }
    return err ? err : aw_graph_run_save(run, diag);
}

/* --- the door of a daemon -------------------------------------------------------------------- */

struct door {
    struct aw_api api;
    struct aw_doors doors;
};

static enum aw_err door_open(struct door *door, const struct graph *graph,
                             const struct aw_graph_run_config *config, struct aw_graph_run *run,
                             struct aw_diag *diag)
{
    struct aw_api_config *api = aw_alloc_new(NULL, 1, sizeof *api);
    const struct aw_listen_auth none = {0};
    const char *asked = aw_args_text(graph->call->args, "socket");
    char socket[AW_FILE_PATH_MAX + 16];
    if (!api)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the API");
    api->services = aw_graph_run_desk(run);
    api->virtual_time = !graph->real;
    api->speed = graph->real ? 1 : graph->speed;
    api->step_s = 1e-9 * (double)AW_FIRM_STEP_NS;
    snprintf(api->version, sizeof api->version, "%s", config->version);
    snprintf(api->audit, sizeof api->audit, "%.*s/" AW_DAEMON_AUDIT,
             (int)(sizeof api->audit - sizeof AW_DAEMON_AUDIT - 1), config->state);
    snprintf(socket, sizeof socket, "%s/" AW_DAEMON_SOCKET, config->state);
    enum aw_err err = aw_api_init(&door->api, api);
    if (err)
        aw_fail(diag, err, "no memory for the API");
    err = err ? err
              : aw_doors_open(&door->doors, &door->api, asked ? asked : socket, &none, &none, diag);
    aw_alloc_free(NULL, api);
    return err;
}

static void door_close(struct door *door)
{
    aw_doors_close(&door->doors);
    aw_api_deinit(&door->api);
}

/* --- the end -------------------------------------------------------------------------------- */

static json_t *found_json(const struct graph *graph)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < graph->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &graph->campaign.anomaly[i];
        const struct aw_firm_found *found = &graph->score.found[i];
        const char *resource = found->resource == AW_GRAPH_RESOURCES
                                   ? "replicas"
                                   : aw_graph_resource_names[found->resource];
        const double seen_s = 1e-9 * (double)found->seen_ns;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:f, s:b, s:f, s:s, s:s, s:b, s:b, s:b, s:f}",
                            "target", graph->app.services[anomaly->service].name, "kind",
                            aw_anomaly_kind_names[anomaly->kind], "intensity", anomaly->intensity,
                            "at_s", 1e-9 * (double)anomaly->at_ns, "seen", found->seen, "seen_s",
                            found->seen ? seen_s : 0, "given_to",
                            found->given ? graph->app.services[found->service].name : "", "given",
                            found->given ? resource : "", "right_service", found->right_service,
                            "right_resource", found->right_resource, "mended", found->mended,
                            "mended_after_s",
                            found->mended ? 1e-9 * (double)found->mended_ns - seen_s : 0));
    }
    return list;
}

static void found_print(const struct graph *graph)
{
    struct aw_firm_tally t;
    for (uint32_t k = 0; k <= AW_ANOMALY_KINDS; k++) {
        uint32_t of = 0;
        for (uint32_t i = 0; i < graph->campaign.count; i++)
            of += k == AW_ANOMALY_KINDS || graph->campaign.anomaly[i].kind == k;
        aw_firm_score_tally(&graph->score, (enum aw_anomaly_kind)k, &t);
        if (!of)
            continue;
        printf("  %-14s %u injected, %u missed the SLO; right service %u, right resource %u, both "
               "%u; mended %u",
               k == AW_ANOMALY_KINDS ? "all" : aw_anomaly_kind_names[k], of, t.seen,
               t.right_service, t.right_resource, t.right_both, t.mended);
        if (isfinite(t.median_s))
            printf(", median %.1f s after the miss, %.1f s after it began", t.median_s,
                   t.median_begin_s);
        printf("\n");
    }
}

static enum aw_err summary(const struct graph *graph, struct aw_graph_run *run,
                           struct aw_diag *diag)
{
    struct aw_graph_run_totals t;
    aw_graph_run_totals(run, &t);
    const double seconds = 1e-9 * (double)AW_FIRM_STEP_NS * (double)t.steps;
    const double share = t.requests ? (double)t.missed / (double)t.requests : 0;
    if (graph->call->json) {
        json_t *found =
            json_pack("{s:s, s:o}", "kind", "anomalies", "anomalies", found_json(graph));
        const enum aw_err err = graph->has_campaign ? line_print(found, diag) : AW_OK;
        if (!graph->has_campaign)
            json_decref(found);
        return err ? err
                   : line_print(json_pack("{s:s, s:s, s:f, s:I, s:f, s:I, s:f, s:I, s:I, s:f, s:f, "
                                          "s:f, s:I, s:I}",
                                          "kind", "summary", "graph", graph->app.name, "seconds",
                                          seconds, "requests", (json_int_t)t.requests,
                                          "missed_share", share, "violations",
                                          (json_int_t)t.violations, "violated_s", t.violated_s,
                                          "given", (json_int_t)graph->given, "taken_back",
                                          (json_int_t)graph->taken, "cpu_cores", t.cores,
                                          "cpu_cores_at_start", t.cores_at_start, "doubt_s",
                                          1e-9 * (double)AW_FIRM_STEP_NS * (double)t.doubt_steps,
                                          "spans", (json_int_t)t.spans.spans, "spans_late",
                                          (json_int_t)t.spans.late),
                                diag);
    }
    printf("\n%s, %.0f s: %" PRIu64 " requests, %.2f %% over their SLO\n", graph->app.name, seconds,
           t.requests, 100 * share);
    printf("  SLO missed     %" PRIu64 " time%s, %.1f s in all\n", t.violations,
           t.violations == 1 ? "" : "s", t.violated_s);
    printf("  orders         %" PRIu64 " given, %" PRIu64 " taken back\n", graph->given,
           graph->taken);
    printf("  CPU limits     %.1f cores on average, %.1f at the start\n", t.cores,
           t.cores_at_start);
    printf("  spans          %" PRIu64 ", %" PRIu64 " late; in doubt for %.1f s, when nothing may "
           "shrink\n",
           t.spans.spans, t.spans.late, 1e-9 * (double)AW_FIRM_STEP_NS * (double)t.doubt_steps);
    if (graph->has_campaign)
        found_print(graph);
    if (aw_graph_run_desk(run))
        printf("\nEvery change is in the audit log: aware history, aware explain SERVICE, aware "
               "freeze SERVICE.\n");
    return AW_OK;
}

enum aw_err aw__run_graph(const struct aw_call *call, struct aw_diag *diag)
{
    struct graph *graph = aw_alloc_new(NULL, 1, sizeof *graph);
    struct aw_graph_run_config config = {0};
    struct aw_graph_run *run = NULL;
    static struct door door; /* large, and there is one */
    if (!graph)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a graph");
    graph->call = call;
    graph->blamed = AW_GRAPH_NONE;
    graph->silent = call->json || aw_args_given(call->args, "quiet");
    graph->real = !strcmp(aw_args_text(call->args, "cluster"), "local");
    enum aw_err err = files_read(graph, diag);
    err = err ? err : options_read(graph, &config, diag);
    if (!err) {
        signal(SIGPIPE, SIG_IGN); /* a client that went away is no reason to end */
        aw_stop_catch(&(struct aw_stop_config){.twice = true});
    }
    if (!err && graph->real)
        err = real_open(graph, &config, diag);
    aw_firm_score_init(&graph->score, &graph->campaign);
    err = err ? err : aw_graph_run_open(&run, &config, diag);
    if (!err && graph->served)
        err = door_open(&door, graph, &config, run, diag);
    if (!err) {
        if (!graph->silent)
            printf("%s: %u services, %.0f requests/s, %u request type%s; a step every half "
                   "second\n\n",
                   graph->app.name, graph->app.service_count, graph->app.rate,
                   graph->app.type_count, graph->app.type_count == 1 ? "" : "s");
        err = steps(graph, run, diag);
    }
    door_close(&door);
    err = err ? err : summary(graph, run, diag);
    aw_graph_run_close(run, aw_stop_signal ? "interrupted"
                            : err          ? "an error"
                                           : "the end of the run");
    aw_mesh_close(graph->mesh);
    if (!err && aw_stop_signal && !graph->served)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
    aw_alloc_free(NULL, graph);
    return err;
}
