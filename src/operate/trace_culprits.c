/* trace_culprits.c - the verbs `trace culprits`, `trace evaluate` and `trace learn`. */
#include "operate/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/show.h"
#include "frame/status_line.h"
#include "frame/verbs.h"
#include "trace/evaluate.h"
#include "trace/metrics.h"

#define MODEL_BYTES_MAX ((size_t)1 << 20)

static const char *const features_choices[] = {"ours", "paper", NULL};

static enum aw_features features_of(const struct aw_call *run)
{
    return strcmp(aw_args_text(run->args, "features"), "paper") ? AW_FEATURES_OURS
                                                                : AW_FEATURES_PAPER;
}

/* --model, or what ships. */
static enum aw_err read_model(const struct aw_call *run, struct aw_classifier *ret,
                              struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "model");
    char *bytes = NULL;
    size_t size = 0;
    if (!path)
        return aw_classifier_shipped(ret, diag);
    enum aw_err err = aw_file_read(path, MODEL_BYTES_MAX, NULL, &bytes, &size, diag);
    if (!err)
        err = aw_classifier_read(ret, path, bytes, size, diag);
    aw_alloc_free(NULL, bytes);
    return err;
}

/* ---- culprits ---- */

struct hunt {
    struct aw__traces traces;
    struct aw_window window;
    struct aw_span_profile base;
    struct aw_metrics metrics;
    struct aw_localization found;
};

static bool add_request(void *ctx, const struct aw_request *request)
{
    return aw_window_add(ctx, request) || true;
}

/* Requests of one list on both sides of a moment. */
struct divide {
    struct hunt *hunt;
    struct aw_window *before;
    int64_t latest_ns, from_ns;
};

static bool find_latest(void *ctx, const struct aw_request *request)
{
    struct divide *divide = ctx;
    const int64_t start_ns = request->spans[request->root].start_ns;
    divide->latest_ns = start_ns > divide->latest_ns ? start_ns : divide->latest_ns;
    return true;
}

static bool divide_one(void *ctx, const struct aw_request *request)
{
    struct divide *divide = ctx;
    const bool late = request->spans[request->root].start_ns >= divide->from_ns;
    return aw_window_add(late ? &divide->hunt->window : divide->before, request) || true;
}

/* --last: the latest requests of all files are judged, those before them are the baseline. */
static enum aw_err hunt_divide(struct hunt *hunt, int64_t last_us, struct aw_diag *diag)
{
    struct aw_window before;
    struct divide divide = {.hunt = hunt, .before = &before};
    enum aw_err err = AW_OK;
    if (aw_window_init(&before, &hunt->traces.spans.names, NULL))
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    aw_analysis_each(&hunt->traces.analysis, &hunt->traces.spans, find_latest, &divide);
    divide.from_ns = divide.latest_ns - last_us * 1000;
    aw_analysis_each(&hunt->traces.analysis, &hunt->traces.spans, divide_one, &divide);
    if (!before.request_count)
        err = aw_fail(diag, AW_ERR_NODATA, "no request is older than --last: give a shorter time");
    else if (aw_profile_make(&hunt->base, &before, 0, 1, NULL))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    aw_window_deinit(&before);
    return err;
}

/* The baseline's spans first, then those of the window, with the same names. */
static enum aw_err hunt_compare(struct hunt *hunt, const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_spans *spans = &hunt->traces.spans;
    enum aw_err err = AW_OK;
    aw_analysis_each(&hunt->traces.analysis, spans, add_request, &hunt->window);
    if (aw_profile_make(&hunt->base, &hunt->window, 0, 1, NULL))
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    aw_window_reset(&hunt->window);
    aw_spans_reset(spans);
    for (uint32_t i = 0; i < run->args->word_count && !err; i++)
        err = aw_spans_read_file(spans, run->args->words[i], AW_SPANS_AUTO, NULL, diag);
    if (err)
        return err;
    aw_analysis_learn(&hunt->traces.analysis, spans);
    aw_analysis_each(&hunt->traces.analysis, spans, add_request, &hunt->window);
    return AW_OK;
}

static enum aw_err hunt_read(struct hunt *hunt, const struct aw_call *run, struct aw_diag *diag)
{
    const char *baseline = aw_args_text(run->args, "baseline");
    const char *last = aw_args_text(run->args, "last");
    char path[AW_TEXT_MAX] = "", *files[1] = {path};
    int64_t last_us = 0;
    snprintf(path, sizeof path, "%s", baseline ? baseline : "");
    if (baseline && last)
        return aw_fail(diag, AW_ERR_USAGE, "--baseline and --last are two ways to say one thing");
    enum aw_err err =
        last ? aw_duration_parse(last, AW_QUANTITY_POSITIVE_OR_0, &last_us, diag) : AW_OK;
    if (!err)
        err = baseline ? aw__traces_read(&hunt->traces, run, files, 1, diag)
                       : aw__traces_read(&hunt->traces, run, run->args->words,
                                         run->args->word_count, diag);
    if (err)
        return err;
    if (aw_window_init(&hunt->window, &hunt->traces.spans.names, NULL))
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (baseline)
        err = hunt_compare(hunt, run, diag);
    else if (last)
        err = hunt_divide(hunt, last_us, diag);
    else
        aw_analysis_each(&hunt->traces.analysis, &hunt->traces.spans, add_request, &hunt->window);
    if (!err && aw_args_text(run->args, "metrics"))
        err = aw_metrics_read_file(&hunt->metrics, &hunt->traces.spans.names,
                                   aw_args_text(run->args, "metrics"), diag);
    aw_metrics_join(&hunt->metrics);
    return err;
}

static enum aw_err hunt_localize(struct hunt *hunt, const struct aw_classifier *classifier,
                                 bool baseline, struct aw_diag *diag)
{
    const int64_t minute_ns = INT64_C(60000000000);
    struct aw_minutes period = {INT64_MAX, 0};
    for (uint32_t i = 0; i < hunt->window.request_count; i++) {
        const int64_t at = hunt->window.requests[i].start_ns / minute_ns;
        period.from = at < period.from ? at : period.from;
        period.until = at > period.until ? at : period.until;
    }
    struct aw_evidence *evidence = aw_alloc_new(NULL, AW_LOCALIZE_SERVICES_MAX, sizeof *evidence);
    if (!evidence)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    const uint32_t count =
        aw_metrics_evidence(&hunt->metrics, period, NULL, 0, evidence, AW_LOCALIZE_SERVICES_MAX);
    enum aw_err err = aw_localize(&hunt->found, &hunt->window, baseline ? &hunt->base : NULL,
                                  evidence, count, NULL);
    aw_alloc_free(NULL, evidence);
    if (!err && classifier->features == AW_FEATURES_PAPER)
        err = aw_localize_paper(&hunt->found, &hunt->window);
    if (err)
        return aw_fail(diag, err, "cannot localize: %s", aw_err_text(err));
    aw_classifier_judge(classifier, &hunt->found);
    return AW_OK;
}

static const char *verdict_of(const struct hunt *hunt, bool baseline)
{
    if (hunt->found.requests < AW_LOCALIZE_REQUESTS_MIN)
        return "not enough requests";
    if (!baseline)
        return "no baseline";
    return hunt->found.confident ? "culprit found" : "not a resource problem, or too small to tell";
}

static enum aw_err culprits_json(const struct hunt *hunt, bool baseline, uint32_t shown,
                                 struct aw_diag *diag)
{
    static const char *const names[AW_FEATURES] = {"excess_share", "covariance_share", "growth",
                                                   "cpu_rise", "cpu_z"};
    json_t *list = json_array();
    char text[AW_CULPRIT_TEXT];
    for (uint32_t i = 0; i < shown; i++) {
        const struct aw_culprit *culprit = &hunt->found.culprits[i];
        json_t *features = json_object();
        for (uint32_t k = 0; k < AW_FEATURES; k++)
            json_object_set_new(features, names[k], aw_json_real(culprit->feature[k]));
        json_array_append_new(
            list,
            json_pack("{ss sf sf sf sf sf ss so ss}", "service",
                      aw_names_text(&hunt->traces.spans.names, culprit->service), "score",
                      culprit->score, "excess_ms", culprit->excess_ns / 1e6, "own_ms",
                      culprit->own_ns / 1e6, "called_ms", culprit->called_ns / 1e6, "calling_ms",
                      culprit->calling_ns / 1e6, "needs", aw_lacks_name(culprit->lacks), "features",
                      features, "evidence", aw_culprit_text(culprit, text, sizeof text)));
    }
    return aw_json_print(json_pack("{si si sb ss sf sf so}", "requests", (int)hunt->found.requests,
                                   "requests_compared", (int)hunt->found.requests_matched,
                                   "confident", (int)hunt->found.confident, "verdict",
                                   verdict_of(hunt, baseline), "latency_ms",
                                   hunt->found.latency_ns / 1e6, "baseline_ms",
                                   hunt->found.latency_base_ns / 1e6, "culprits", list),
                         diag);
}

static void culprits_print(const struct aw_call *run, const struct hunt *hunt, bool baseline,
                           uint32_t shown)
{
    char text[AW_CULPRIT_TEXT], now[32], before[32];
    const char *bold = run->color_out ? "\033[1m" : "", *plain = run->color_out ? "\033[0m" : "";
    if (baseline)
        printf("%u requests, %u of a type that the baseline knows: %s, %s before\n",
               hunt->found.requests, hunt->found.requests_matched,
               aw__ms_show((int64_t)hunt->found.latency_ns, now, sizeof now),
               aw__ms_show((int64_t)hunt->found.latency_base_ns, before, sizeof before));
    else
        printf("%u requests; without --baseline or --last, by their part in the latency's variance "
               "alone\n",
               hunt->found.requests);
    printf("%s%s%s\n\n", bold, verdict_of(hunt, baseline), plain);
    for (uint32_t i = 0; i < shown; i++) {
        const struct aw_culprit *culprit = &hunt->found.culprits[i];
        printf("%s%s%s: %s\n", i ? "" : bold,
               aw_names_text(&hunt->traces.spans.names, culprit->service), plain,
               aw_culprit_text(culprit, text, sizeof text));
    }
}

static enum aw_err culprits_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct hunt hunt = {0};
    struct aw_classifier classifier;
    const bool baseline =
        aw_args_text(run->args, "baseline") != NULL || aw_args_text(run->args, "last") != NULL;
    enum aw_err err = read_model(run, &classifier, diag);
    if (!err)
        err = hunt_read(&hunt, run, diag);
    if (!err)
        err = hunt_localize(&hunt, &classifier, baseline, diag);
    if (!err) {
        const uint64_t limit = aw_args_number(run->args, "limit");
        const uint32_t shown =
            limit && limit < hunt.found.count ? (uint32_t)limit : hunt.found.count;
        if (run->json)
            err = culprits_json(&hunt, baseline, shown, diag);
        else
            culprits_print(run, &hunt, baseline, shown);
    }
    aw_localization_deinit(&hunt.found);
    aw_metrics_deinit(&hunt.metrics);
    aw_profile_deinit(&hunt.base);
    aw_window_deinit(&hunt.window);
    aw__traces_deinit(&hunt.traces);
    return err;
}

static const struct aw_positional file_positionals[] = {AW__TRACE_FILES, {.name = NULL}};
static const struct aw_option culprits_options[] = {
    AW_OPTION(FILE, "baseline", 'b', "FILE", NULL,
              "spans of a time when all was well, a minute of them or more"),
    AW_OPTION(TEXT, "last", 0, "TIME", NULL,
              "judge the latest requests, so long, and compare with those before them"),
    AW_OPTION(FILE, "metrics", 'm', "FILE", NULL,
              "CSV of what pods used: TimeStamp, PodName, CpuUsage(m), CpuUsageRate(%)"),
    AW_OPTION(FILE, "model", 0, "FILE", NULL, "what aware trace learn wrote, instead of our own"),
    AW_NUMBER("limit", 'n', "N", "3", 0, AW_LOCALIZE_SERVICES_MAX, "so many services; 0: all"),
    AW__TRACE_FORMAT,
    {.name = NULL},
};
static const struct aw_example culprits_examples[] = {
    {"aware trace culprits slow.csv.gz --baseline normal.csv.gz", "who is to blame?"},
    {"aware trace culprits slow.json -b normal.json -m pods.csv", "and is it short of CPU?"},
    {"aware trace culprits traces.db --last 3m", "of what aware trace collect keeps, now"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_culprits = {
    .name = "trace culprits",
    .summary = "Name the service that makes requests slow, with the evidence",
    .text =
        "Compares with a baseline, by type of request. A service's excess is its exclusive time "
        "on the critical path beyond the baseline's, with its part of the time of calls outside "
        "of their servers. A culprit is named only where what was learned from known faults is "
        "sure of it; faults of code are none that a resource mends.",
    .options = culprits_options,
    .positionals = file_positionals,
    .examples = culprits_examples,
    .json = true,
    .run = culprits_run,
};

/* ---- evaluate ---- */

static void show_progress(void *ctx, uint32_t done, uint32_t all)
{
    aw_status_line_draw(ctx, done == all, aw_clock_monotonic_us(NULL), "%u of %u cases", done, all);
}

static double share_of(uint32_t part, uint32_t all)
{
    return all ? (double)part / all : 0;
}

static json_t *case_json(const struct aw_case *one)
{
    return json_pack("{ss ss ss ss si sb s[sss] ss}", "case", one->name, "sort",
                     aw_case_sort_name(one->sort), "type", one->type, "service", one->service,
                     "rank", (int)one->rank, "confident", (int)one->confident, "named", one->first,
                     one->second, one->third, "evidence", one->text);
}

static enum aw_err evaluate_json(const struct aw_cases *cases, const struct aw_evaluation *got,
                                 const char *learned, struct aw_diag *diag)
{
    const struct aw_evaluation_part *resource = &got->part[AW_CASE_RESOURCE];
    const struct aw_evaluation_part *code = &got->part[AW_CASE_CODE];
    const struct aw_evaluation_part *normal = &got->part[AW_CASE_NORMAL];
    json_t *list = json_array();
    for (uint32_t i = 0; i < cases->count; i++)
        json_array_append_new(list, case_json(&cases->at[i]));
    return aw_json_print(
        json_pack("{ss s{si sf sf sf} s{si sf} s{si sf} so si si si}", "learned", learned,
                  "resource", "cases", (int)resource->cases, "top1",
                  share_of(resource->top1, resource->cases), "top3",
                  share_of(resource->top3, resource->cases), "confident",
                  share_of(resource->confident, resource->cases), "code", "cases", (int)code->cases,
                  "confident", share_of(code->confident, code->cases), "normal", "cases",
                  (int)normal->cases, "confident", share_of(normal->confident, normal->cases),
                  "cases", list, "left_out", (int)cases->missing, "without_metrics",
                  (int)cases->without_metrics, "without_baseline", (int)cases->without_baseline),
        diag);
}

static enum aw_err evaluate_print(const struct aw_call *run, const struct aw_cases *cases,
                                  const struct aw_evaluation *got, const char *learned,
                                  struct aw_diag *diag)
{
    static const char *const heads[] = {"CASE", "TYPE",        "CULPRIT", ">RANK",
                                        "SURE", "NAMED FIRST", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < cases->count; i++) {
        const struct aw_case *one = &cases->at[i];
        aw_table_add(&table, "%s", one->name);
        aw_table_add(&table, "%s", one->type);
        aw_table_add(&table, "%s", *one->service ? one->service : "-");
        if (one->rank)
            aw_table_add(&table, "%u", one->rank);
        else
            aw_table_add(&table, "-");
        aw_table_add(&table, "%s", one->confident ? "yes" : "no");
        aw_table_add(&table, "%s", one->first);
    }
    const enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (err)
        return err;
    const struct aw_evaluation_part *resource = &got->part[AW_CASE_RESOURCE];
    printf("\n%s\n", learned);
    printf("resource faults: %u, the culprit first in %.2f, among three in %.2f, sure in %.2f\n",
           resource->cases, share_of(resource->top1, resource->cases),
           share_of(resource->top3, resource->cases),
           share_of(resource->confident, resource->cases));
    for (enum aw_case_sort sort = AW_CASE_CODE; sort < AW_CASE_SORTS; sort++)
        printf("%s: %u, a culprit named for sure in %.2f\n",
               sort == AW_CASE_CODE ? "faults of code" : "fault-free windows",
               got->part[sort].cases, share_of(got->part[sort].confident, got->part[sort].cases));
    if (cases->missing)
        printf("left out: %u of ground_truth.json whose files are not there; the first is %s\n",
               cases->missing, cases->missing_first);
    if (cases->without_metrics)
        printf("judged by traces alone: %u windows that metrics/ says nothing of\n",
               cases->without_metrics);
    if (cases->without_baseline)
        printf("compared with nothing: %u windows, since no fault-free file is there\n",
               cases->without_baseline);
    return AW_OK;
}

static enum aw_err read_cases(const struct aw_call *run, struct aw_cases *cases, bool paper,
                              struct aw_diag *diag)
{
    struct aw_status_line line;
    aw_status_line_init(&line, stderr, run->json);
    const enum aw_err err =
        aw_cases_read(cases, run->args->positional[0], paper, show_progress, &line, NULL, diag);
    aw_status_line_clear(&line);
    return err;
}

static enum aw_err evaluate_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_cases cases;
    struct aw_evaluation got;
    struct aw_classifier classifier;
    const bool held_out = aw_args_given(run->args, "hold-out");
    const enum aw_features features = features_of(run);
    const uint64_t seed = aw_args_number(run->args, "seed");
    const char *learned = aw_args_text(run->args, "model") ? aw_args_text(run->args, "model")
                                                           : "what ships with the program";
    if (features == AW_FEATURES_PAPER && !held_out && !aw_args_text(run->args, "model"))
        return aw_fail(diag, AW_ERR_USAGE,
                       "--features paper needs --hold-out or a --model that was learned with them");
    enum aw_err err = read_model(run, &classifier, diag);
    if (!err)
        err = read_cases(run, &cases, features == AW_FEATURES_PAPER, diag);
    if (err)
        return err;
    if (cases.metrics_alone) {
        learned = "nothing is learned: robust scores of metrics alone";
        aw_evaluate(&cases, NULL, &got);
    } else if (held_out) {
        learned = "learned, for each service, on the faults of all others";
        err = aw_evaluate_held_out(&cases, features, seed, &got, diag);
    } else {
        aw_evaluate(&cases, &classifier, &got);
    }
    if (!err)
        err = run->json ? evaluate_json(&cases, &got, learned, diag)
                        : evaluate_print(run, &cases, &got, learned, diag);
    aw_cases_deinit(&cases);
    return err;
}

static const struct aw_positional folder_positionals[] = {
    {.name = "DIR",
     .kind = AW_ARG_DIR,
     .help = "a folder with ground_truth.json, or SERVICE-FAULT/REP/ of metrics"},
    {.name = NULL},
};
static const struct aw_option evaluate_options[] = {
    AW_FLAG("hold-out", 0,
            "learn here, for each service on the faults of all others, instead of judging with "
            "what ships"),
    AW_OPTION(FILE, "model", 0, "FILE", NULL, "what aware trace learn wrote, instead of our own"),
    AW_OPTION(CHOICE, "features", 0, "WHICH", "ours",
              "paper: those of FIRM's text, with --hold-out, to compare with",
              .choices = features_choices),
    AW_OPTION_SEED("1", "of the random features, with --hold-out"),
    {.name = NULL},
};
static const struct aw_example evaluate_examples[] = {
    {"aware trace evaluate faults --output json", "with what ships"},
    {"aware trace evaluate faults --hold-out --features paper", "FIRM's own features"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_evaluate = {
    .name = "trace evaluate",
    .summary = "Find the culprits of known faults, and count how often it is right",
    .text =
        "Reads every fault of a folder, localizes it, and reports by sort: faults of a resource "
        "(how often the culprit comes first, and among the first three), faults of code and "
        "fault-free windows (how often a culprit is named for sure, which is wrong there). "
        "Traces are compared with DAY_normal files of the same day; gzip is read as it is. A "
        "folder of metrics alone is ranked by robust scores.",
    .options = evaluate_options,
    .positionals = folder_positionals,
    .examples = evaluate_examples,
    .json = true,
    .run = evaluate_run,
};

/* ---- learn ---- */

static enum aw_err learn_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_cases cases;
    struct aw_classifier classifier;
    char *text = NULL;
    size_t size = 0;
    const enum aw_features features = features_of(run);
    const char *path = aw_args_text(run->args, "out");
    enum aw_err err = read_cases(run, &cases, features == AW_FEATURES_PAPER, diag);
    if (err)
        return err;
    err = aw_evaluate_learn(&classifier, &cases, NULL, features, aw_args_number(run->args, "seed"),
                            diag);
    FILE *out = err ? NULL : open_memstream(&text, &size);
    if (!err && (!out || aw_classifier_write(&classifier, out) || fclose(out) != 0))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (!err)
        err = aw_file_replace(path, text, size, NULL, diag);
    if (!err)
        printf("%s: learned from %u windows\n", path, cases.count);
    free(text);
    aw_cases_deinit(&cases);
    return err;
}

static const struct aw_option learn_options[] = {
    AW_OPTION(FILE, "out", 0, "FILE", NULL, "where to write what was learned", .required = true),
    AW_OPTION(CHOICE, "features", 0, "WHICH", "ours", "paper: those of FIRM's text",
              .choices = features_choices),
    AW_OPTION_SEED("1", "of the random features, and of the order of examples"),
    {.name = NULL},
};
static const struct aw_example learn_examples[] = {
    {"aware trace learn faults --out localizer.json", "from known faults with traces"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_trace_learn = {
    .name = "trace learn",
    .summary = "Learn from known faults which service is to blame",
    .text = "Random Fourier features and a hinge loss, as in FIRM. The same folder and seed give "
            "the same bytes. Use the result with --model of trace culprits and trace evaluate.",
    .options = learn_options,
    .positionals = folder_positionals,
    .examples = learn_examples,
    .run = learn_run,
};
