/* inject.c - the verb `inject`: a campaign of anomalies on a simulated application, or on real
 * processes of this machine. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/local.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "graph/campaign.h"
#include "lab/inject.h"
#include "trace/write.h"

#define CALIBRATION_SEED 77u
#define STEP_NS          AW_GRAPH_S_NS

static void count(struct aw__injection *at, const struct aw_graph_done *done, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++) {
        const int64_t second = done[i].arrival_ns / AW_GRAPH_S_NS;
        const bool missed =
            done[i].failed || (double)done[i].latency_ns > 1e6 * at->app.types[done[i].type].slo_ms;
        at->requests++;
        at->missed += missed;
        if (second < at->second_count) {
            at->seconds[second].requests++;
            at->seconds[second].missed += missed;
        }
    }
}

/* NAN: nobody came. */
static double missed_between(const struct aw__injection *at, int64_t from_ns, int64_t until_ns)
{
    uint32_t requests = 0, missed = 0;
    for (int64_t s = from_ns / AW_GRAPH_S_NS; s < until_ns / AW_GRAPH_S_NS; s++) {
        if (s < 0 || s >= at->second_count)
            continue;
        requests += at->seconds[s].requests;
        missed += at->seconds[s].missed;
    }
    return requests ? (double)missed / requests : (double)NAN;
}

static enum aw_err prepare(const struct aw_call *run, struct aw__injection *at,
                           struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "file");
    const char *graph = aw_args_text(run->args, "graph");
    enum aw_err err = graph ? aw_graph_app_read(graph, &at->app, diag) : AW_OK;
    err = err ? err : aw_campaign_read(path, &at->campaign, &at->app, diag);
    at->second_count = (uint32_t)(at->campaign.duration_ns / AW_GRAPH_S_NS) + 1;
    if (!err && !(at->seconds = aw_alloc_new(NULL, at->second_count, sizeof *at->seconds)))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (err || at->real) /* real ones are calibrated once they run */
        return err;
    if (at->campaign.rate > 0) /* anything may be drawn */
        err = aw_calibrate_graph(&at->app, CALIBRATION_SEED, NULL, &at->calibration);
    for (uint32_t i = 0; i < at->campaign.count && !err && !(at->campaign.rate > 0); i++)
        err = aw_calibrate_pair(&at->app, CALIBRATION_SEED, at->campaign.anomaly[i].service,
                                at->campaign.anomaly[i].kind, NULL, &at->calibration);
    if (err)
        return aw_fail(diag, err, "no memory to calibrate %s", at->app.name);
    for (uint32_t i = 0; i < at->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &at->campaign.anomaly[i];
        if (!aw_calibration_has(&at->calibration, anomaly->service, anomaly->kind))
            return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                              "%s into %s: no request misses its SLO by it, however strong; there "
                              "is nothing to be found",
                              aw_anomaly_kind_names[anomaly->kind],
                              at->app.services[anomaly->service].name);
    }
    aw_campaign_draw(&at->campaign, &at->app, &at->calibration);
    return AW_OK;
}

static enum aw_err live(const struct aw_call *run, struct aw__injection *at, FILE *spans_out,
                        struct aw_diag *diag)
{
    struct aw_graph_world *world = NULL;
    struct aw_injector injector;
    const struct aw_graph_config config = {.seed = at->campaign.seed, .traced = spans_out ? 1 : 0};
    enum aw_err err = aw_graph_world_new(&at->app, &config, NULL, &world);
    (void)run;
    if (err)
        return aw_fail(diag, err, "out of memory");
    aw_injector_init(&injector, &at->app, &at->calibration, &at->campaign);
    for (int64_t now = STEP_NS; now < at->campaign.duration_ns + STEP_NS && !err; now += STEP_NS) {
        struct aw_spans *spans = aw_graph_world_spans(world);
        uint32_t number;
        aw_injector_run(&injector, world,
                        now < at->campaign.duration_ns ? now : at->campaign.duration_ns);
        const struct aw_graph_done *done = aw_graph_world_done(world, &number);
        count(at, done, number);
        if (spans_out && spans->count)
            err = aw_spans_write_json(spans->at, spans->count, &spans->names, spans_out);
        if (spans_out && !err && fputc('\n', spans_out) == EOF)
            err = AW_ERR_IO;
        aw_spans_reset(spans);
    }
    aw_injector_clean(&injector, aw_graph_world_plant(world));
    aw_graph_world_free(world);
    return err ? aw_fail(diag, err, "spans cannot be written") : AW_OK;
}

static json_t *log_json(const struct aw__injection *at)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < at->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &at->campaign.anomaly[i];
        const int64_t end = anomaly->at_ns + anomaly->for_ns;
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:o, s:o}", "target",
                      at->app.services[anomaly->service].name, "kind",
                      aw_anomaly_kind_names[anomaly->kind], "pattern",
                      aw_anomaly_pattern_names[anomaly->pattern], "intensity", anomaly->intensity,
                      "begin_s", (double)anomaly->at_ns * 1e-9, "end_s",
                      (double)(end < at->campaign.duration_ns ? end : at->campaign.duration_ns) *
                          1e-9,
                      "missed_share", aw_json_real(missed_between(at, anomaly->at_ns, end)),
                      "missed_share_before",
                      aw_json_real(
                          missed_between(at, anomaly->at_ns - 5 * AW_GRAPH_S_NS, anomaly->at_ns))));
    }
    return json_pack("{s:s, s:I, s:f, s:I, s:I, s:o}", "application", at->app.name, "seed",
                     (json_int_t)at->campaign.seed, "duration_s",
                     (double)at->campaign.duration_ns * 1e-9, "requests", (json_int_t)at->requests,
                     "missed", (json_int_t)at->missed, "anomalies", list);
}

static enum aw_err log_print(const struct aw_call *run, const struct aw__injection *at,
                             struct aw_diag *diag)
{
    static const char *const heads[] = {">BEGIN",  ">END",       "TARGET",  "KIND",
                                        "PATTERN", ">INTENSITY", ">BEFORE", ">OVER THEIR SLO",
                                        NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < at->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &at->campaign.anomaly[i];
        const int64_t end = anomaly->at_ns + anomaly->for_ns;
        const double before =
            missed_between(at, anomaly->at_ns - 5 * AW_GRAPH_S_NS, anomaly->at_ns);
        const double during = missed_between(at, anomaly->at_ns, end);
        aw_table_add(&table, "%.1f s", (double)anomaly->at_ns * 1e-9);
        aw_table_add(&table, "%.1f s", (double)end * 1e-9);
        aw_table_add(&table, "%s", at->app.services[anomaly->service].name);
        aw_table_add(&table, "%s", aw_anomaly_kind_names[anomaly->kind]);
        aw_table_add(&table, "%s", aw_anomaly_pattern_names[anomaly->pattern]);
        aw_table_add(&table, "%.2f", anomaly->intensity);
        aw_table_add(&table, isfinite(before) ? "%.1f %%" : "-", 100 * before);
        aw_table_add(&table, isfinite(during) ? "%.1f %%" : "-", 100 * during);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err file_close(FILE *file, const char *path, enum aw_err err, struct aw_diag *diag)
{
    if (file && fclose(file) != 0 && !err)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be written");
    return err;
}

/* What dead runs have left: groups, with stressors in them, and directories. */
static enum aw_err clean(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_local_cleaned cleaned = {0};
    const enum aw_err err = aw_local_clean("", &cleaned, diag); /* the usual folder */
    if (err)
        return err;
    if (run->json)
        return aw_json_print(json_pack("{s:I, s:I}", "cleared", (json_int_t)cleaned.cleared,
                                       "alive", (json_int_t)cleaned.alive),
                             diag);
    printf("%u dead run%s cleared; %u alive, untouched: stressors end with the run that has begun "
           "them\n",
           cleaned.cleared, cleaned.cleared == 1 ? "" : "s", cleaned.alive);
    return AW_OK;
}

static enum aw_err inject_run(const struct aw_call *run, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    const char *spans = aw_args_text(run->args, "spans"), *log = aw_args_text(run->args, "events");
    if (run->args->positional[0])
        return clean(run, diag);
    if (!aw_args_text(run->args, "file"))
        return aw_fail(diag, AW_ERR_USAGE, "--file is missing: the campaign");
    struct aw__injection *at = aw_alloc_new(NULL, 1, sizeof *at);
    FILE *spans_out = NULL, *log_out = NULL;
    if (!at)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    at->real = !strcmp(aw_args_text(run->args, "cluster"), "local");
    if (!at->real && aw_args_given(run->args, "calibration"))
        err = aw_fail(diag, AW_ERR_USAGE, "--calibration: of real processes; add --cluster local");
    err = err ? err : prepare(run, at, diag);
    if (!err && spans && !(spans_out = fopen(spans, "we")))
        err = aw_fail_at(diag, AW_ERR_IO, spans, 0, 0, NULL, "cannot be written");
    if (!err && log && !(log_out = fopen(log, "we")))
        err = aw_fail_at(diag, AW_ERR_IO, log, 0, 0, NULL, "cannot be written");
    if (!err)
        err =
            at->real ? aw__inject_local(run, at, spans_out, diag) : live(run, at, spans_out, diag);
    if (!err && log_out) {
        json_t *document = log_json(at);
        if (json_dumpf(document, log_out, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0)
            err = aw_fail_at(diag, AW_ERR_IO, log, 0, 0, NULL, "cannot be written");
        json_decref(document);
    }
    err = file_close(spans_out, spans, err, diag);
    err = file_close(log_out, log, err, diag);
    if (!err)
        err = run->json ? aw_json_print(log_json(at), diag) : log_print(run, at, diag);
    aw_alloc_free(NULL, at->seconds);
    aw_alloc_free(NULL, at);
    return err;
}

static const char *const what_names[] = {"clean", NULL};
static const struct aw_positional inject_positionals[] = {
    {.name = "clean",
     .kind = AW_ARG_CHOICE,
     .choices = what_names,
     .help = "instead: end what a killed run has left in control groups",
     .optional = true},
    {.name = NULL},
};
static const char *const clusters[] = {"sim", "local", NULL};
static const struct aw_option inject_options[] = {
    AW_OPTION(FILE, "file", 'f', "FILE", NULL, "the campaign: a file of YAML (AnomalyCampaign)"),
    AW_OPTION(CHOICE, "cluster", 'c', "NAME", "sim",
              "where the application runs: sim, simulated; local, as processes of this machine, "
              "started for it, without anybody who mends anything",
              .choices = clusters),
    AW_OPTION(
        FILE, "calibration", 0, "FILE", NULL,
        "with --cluster local: how strong anomalies have to be, read from here, and kept here "
        "once it was found by trying"),
    AW_OPTION(FILE, "graph", 'g', "FILE", NULL,
              "an application of your own: a file of YAML (ServiceGraph); without it, the one that "
              "the campaign names"),
    AW_OPTION(FILE, "events", 0, "FILE", NULL,
              "write what was injected when as JSON: the labels for localization"),
    AW_OPTION(FILE, "spans", 0, "FILE", NULL,
              "write the spans of all requests as OTLP, for the verbs of trace"),
    {.name = NULL},
};
static const struct aw_example inject_examples[] = {
    {"aware inject -f examples/services/anomalies.yaml", "what each anomaly did to the SLO"},
    {"aware inject -f examples/services/anomalies.yaml --spans spans.json --events events.json",
     "spans to look for the culprit in, and who it was"},
    {"aware inject -f examples/services/shop-anomalies.yaml -g examples/services/shop.yaml",
     "the same in a graph of your own"},
    {"aware inject --cluster local -g examples/services/shop-local.yaml \\\n"
     "    -f examples/services/shop-local-anomalies.yaml",
     "the same among real processes of this machine"},
    {"aware inject clean", "end what a run has left that was killed"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_inject = {
    .name = "inject",
    .summary = "Put anomalies into an application that is a graph of services",
    .positionals = inject_positionals,
    .text = "Runs an application under a campaign of anomalies of seven kinds: workload, "
            "network-delay, cpu, llc, memory-bandwidth, disk and network-bandwidth. Intensity is "
            "between 0, where requests first miss their SLO, and 1, where four fifths of them fail "
            "or nothing more can be taken; both ends are found by trying first. What began and "
            "ended when is known exactly.\n\n"
            "With --cluster local the services are processes of this machine, in control groups of "
            "their own, and stressors work inside of the victim's. What this machine cannot do is "
            "refused with the reason. A stressor ends by itself when its time is over or the run "
            "dies; clean ends what else a killed run has left.",
    .options = inject_options,
    .examples = inject_examples,
    .json = true,
    .run = inject_run,
};
