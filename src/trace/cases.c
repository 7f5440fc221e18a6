/* cases.c - see cases.h: folders with a ground_truth.json; of metrics alone: cases_metrics.c. */
#include "trace/cases.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "trace/analysis.h"
#include "trace/cases_internal.h"
#include "trace/metrics.h"
#include "trace/read.h"

#define TRUTH_BYTES_MAX ((size_t)64 << 20)
#define MINUTES_USUAL   3  /* of a fault whose length is not said */
#define MINUTES_AFTER   3  /* until figures are those of before */
#define CLOCK_OFF       30 /* minutes: zones differ by multiples of it */

struct reading {
    struct aw_cases *cases;
    const char *folder;
    bool paper;
    struct aw_spans spans; /* its names are moved to the cases at the end */
    struct aw_analysis analysis;
    struct aw_window window, base_window;
    struct aw_span_profile base;
    char base_of[512]; /* day and file that the base was made for */
    struct aw_metrics metrics;
    struct aw_minutes *faulty; /* [faulty_count] */
    uint32_t faulty_count;
    bool clock_known;                  /* whether inject_time is that of the spans */
    char (*normal)[AW_CASES_FILE_MAX]; /* [normal_count]: files under traces/ */
    uint32_t normal_count;
    const struct aw_alloc *alloc;
    struct aw_diag *diag;
};

const char *aw_case_sort_name(enum aw_case_sort sort)
{
    static const char *const names[AW_CASE_SORTS] = {"resource", "code", "normal"};
    AW_ASSERT(sort < AW_CASE_SORTS);
    return names[sort];
}

bool aw_case_is(const struct aw_case *one, const char *service)
{
    return *service && (!strcmp(one->service, service) || !strcmp(one->also, service));
}

struct aw_case *aw__cases_add(struct aw_cases *cases)
{
    if (cases->count == cases->room) {
        const uint32_t room = cases->room ? cases->room * 2 : 64;
        struct aw_case *larger =
            room > AW_CASES_MAX ? NULL : aw_alloc_new(cases->alloc, room, sizeof *larger);
        if (!larger)
            return NULL;
        if (cases->count)
            memcpy(larger, cases->at, cases->count * sizeof *larger);
        aw_alloc_free(cases->alloc, cases->at);
        cases->at = larger;
        cases->room = room;
    }
    return &cases->at[cases->count++];
}

void aw_cases_deinit(struct aw_cases *cases)
{
    for (uint32_t i = 0; i < cases->count; i++)
        aw_localization_deinit(&cases->at[i].found);
    aw_alloc_free(cases->alloc, cases->at);
    aw_names_deinit(&cases->names);
    *cases = (struct aw_cases){0};
}

static enum aw_case_sort sort_of(const char *type)
{
    static const char *const code[] = {"return", "exception", "code", "error"};
    if (!*type || !strcmp(type, "normal") || !strcmp(type, "none") || !strcmp(type, "fault_free"))
        return AW_CASE_NORMAL;
    for (size_t i = 0; i < sizeof code / sizeof *code; i++) {
        if (strstr(type, code[i]))
            return AW_CASE_CODE;
    }
    return AW_CASE_RESOURCE;
}

/* ---- periods ---- */

/* "2023-01-29 08:43:04" as minutes since 1970; -1: no time. */
static int64_t minute_of(const char *text)
{
    struct tm tm = {0};
    const char *end = text ? strptime(text, "%Y-%m-%d %H:%M", &tm) : NULL;
    return end ? (int64_t)timegm(&tm) / 60 : -1;
}

static enum aw_err read_faulty(struct reading *reading, const json_t *truth)
{
    const json_t *fault;
    size_t i;
    reading->faulty =
        aw_alloc_new(reading->alloc, json_array_size(truth) + 1, sizeof *reading->faulty);
    if (!reading->faulty)
        return aw_fail(reading->diag, AW_ERR_NOMEM, "out of memory");
    json_array_foreach(truth, i, fault)
    {
        const char *type = json_string_value(json_object_get(fault, "type"));
        const int64_t from = minute_of(json_string_value(json_object_get(fault, "inject_time")));
        const json_t *length = json_object_get(fault, "minutes");
        const json_int_t minutes = json_is_integer(length) ? json_integer_value(length)
                                                           : (json_int_t)json_array_size(length);
        if (from >= 0 && type && sort_of(type) != AW_CASE_NORMAL)
            reading->faulty[reading->faulty_count++] = (struct aw_minutes){
                from, from + (minutes > 0 && minutes < 100000 ? minutes : MINUTES_USUAL) - 1 +
                          MINUTES_AFTER};
    }
    return AW_OK;
}

/* ---- spans ---- */

static bool add_request(void *ctx, const struct aw_request *request)
{
    return aw_window_add(ctx, request) || true;
}

static enum aw_err read_window(struct reading *reading, const char *path, struct aw_window *window)
{
    aw_spans_reset(&reading->spans);
    const enum aw_err err =
        aw_spans_read_file(&reading->spans, path, AW_SPANS_AUTO, NULL, reading->diag);
    if (err)
        return err;
    aw_analysis_learn(&reading->analysis, &reading->spans);
    aw_analysis_each(&reading->analysis, &reading->spans, add_request, window);
    return AW_OK;
}

static struct aw_minutes period_of(const struct aw_window *window)
{
    struct aw_minutes period = {INT64_MAX, 0};
    const int64_t minute_ns = INT64_C(60000000000);
    for (uint32_t i = 0; i < window->request_count; i++) {
        const int64_t at = window->requests[i].start_ns / minute_ns;
        period.from = at < period.from ? at : period.from;
        period.until = at > period.until ? at : period.until;
    }
    return period;
}

/* Fault-free files of a day, but for one; where there are none, those of other days. */
static bool is_base(const struct reading *reading, uint32_t i, const char *day, const char *but)
{
    bool of_day = false;
    const size_t len = strlen(day);
    if (but && !strcmp(reading->normal[i], but))
        return false;
    for (uint32_t k = 0; k < reading->normal_count; k++)
        of_day = of_day || (!strncmp(reading->normal[k], day, len) &&
                            (!but || strcmp(reading->normal[k], but) != 0));
    return !of_day || !strncmp(reading->normal[i], day, len);
}

static enum aw_err make_base(struct reading *reading, const char *day, const char *but)
{
    char key[sizeof reading->base_of], path[AW_FILE_PATH_MAX];
    enum aw_err err = AW_OK;
    snprintf(key, sizeof key, "%.63s but %.255s", day, but ? but : "none");
    if (!strcmp(key, reading->base_of))
        return AW_OK;
    aw_profile_deinit(&reading->base);
    reading->base_of[0] = '\0';
    aw_window_reset(&reading->base_window);
    for (uint32_t i = 0; i < reading->normal_count && !err; i++) {
        snprintf(path, sizeof path, "%s/traces/%s", reading->folder, reading->normal[i]);
        if (is_base(reading, i, day, but))
            err = read_window(reading, path, &reading->base_window);
    }
    if (!err && !reading->base_window.request_count)
        return AW_ERR_NODATA;
    if (!err && aw_profile_make(&reading->base, &reading->base_window, 0, 1, reading->alloc))
        err = aw_fail(reading->diag, AW_ERR_NOMEM, "out of memory");
    if (!err)
        snprintf(reading->base_of, sizeof reading->base_of, "%s", key);
    return err;
}

/* ---- metrics ---- */

/* All days as one: a fault may go past midnight. */
static enum aw_err read_metrics(struct reading *reading)
{
    char path[AW_FILE_PATH_MAX], folder[AW_FILE_PATH_MAX], (*files)[AW_CASES_FILE_MAX];
    uint32_t count;
    snprintf(folder, sizeof folder, "%s/metrics", reading->folder);
    enum aw_err err = aw__cases_list(folder, "pods", reading->alloc, &files, &count);
    reading->metrics.alloc = reading->alloc;
    for (uint32_t i = 0; i < count && !err; i++) {
        snprintf(path, sizeof path, "%.3800s/%.127s", folder, files[i]);
        err = aw_metrics_read_file(&reading->metrics, &reading->spans.names, path, reading->diag);
    }
    aw_metrics_join(&reading->metrics);
    aw_alloc_free(reading->alloc, files);
    if (err == AW_ERR_NOMEM)
        return aw_fail(reading->diag, err, "out of memory");
    return err == AW_ERR_NOTFOUND ? AW_OK : err; /* traces alone, then */
}

static enum aw_err localize(struct reading *reading, struct aw_case *one,
                            const struct aw_span_profile *base)
{
    static const uint32_t most = AW_LOCALIZE_SERVICES_MAX;
    enum aw_err err = AW_OK;
    struct aw_evidence *evidence = aw_alloc_new(reading->alloc, most, sizeof *evidence);
    if (!evidence)
        err = aw_fail(reading->diag, AW_ERR_NOMEM, "out of memory");
    if (!err) {
        const uint32_t count =
            aw_metrics_evidence(&reading->metrics, period_of(&reading->window), reading->faulty,
                                reading->faulty_count, evidence, most);
        reading->cases->without_metrics += !count;
        reading->cases->without_baseline += !base;
        err = aw_localize(&one->found, &reading->window, base, evidence, count, reading->alloc);
        if (!err && reading->paper)
            err = aw_localize_paper(&one->found, &reading->window);
        if (err == AW_ERR_NODATA) /* a file without a request finds nothing, and says so */
            err = AW_OK;
        else if (err)
            aw_fail_at(reading->diag, err, one->name, 0, 0, NULL, "cannot localize: %s",
                       aw_err_text(err));
    }
    aw_alloc_free(reading->alloc, evidence);
    return err;
}

/* ---- one case ---- */

/* Pods whose ends have no form that is known: ground_truth.json may say what their services are. */
static void learn_pods(struct reading *reading, const json_t *truth)
{
    const json_t *fault;
    uint32_t by_form = 0, by_parts = 0;
    size_t i;
    json_array_foreach(truth, i, fault)
    {
        const char *service = json_string_value(json_object_get(fault, "service"));
        const char *pod = json_string_value(json_object_get(fault, "pod"));
        const size_t len = pod ? strlen(pod) : 0, its = service ? strlen(service) : 0;
        if (!its || its > len || memcmp(service, pod, its) != 0)
            continue;
        by_form += aw_span_pod_service(pod, len, false) == its;
        by_parts += aw_span_pod_service(pod, len, true) == its;
    }
    reading->spans.names.pods_by_parts = by_parts > by_form;
}

static void name_culprit(const struct reading *reading, const json_t *fault, struct aw_case *one)
{
    const char *service = json_string_value(json_object_get(fault, "service"));
    const char *pod = json_string_value(json_object_get(fault, "pod"));
    if (pod)
        snprintf(one->also, sizeof one->also, "%.*s",
                 (int)aw_span_pod_service(pod, strnlen(pod, sizeof one->also - 1),
                                          reading->spans.names.pods_by_parts),
                 pod);
    snprintf(one->service, sizeof one->service, "%.127s", service ? service : one->also);
}

/* Where inject_time is of another zone than the spans, faults are moved to the clock of the spans,
 * which is that of the metrics too. */
static void set_clock(struct reading *reading, const json_t *fault)
{
    const int64_t said = minute_of(json_string_value(json_object_get(fault, "inject_time")));
    if (reading->clock_known || said < 0 || !reading->window.request_count)
        return;
    reading->clock_known = true;
    const int64_t off = period_of(&reading->window).from - said;
    const int64_t zones = (off + (off < 0 ? -CLOCK_OFF : CLOCK_OFF) / 2) / CLOCK_OFF * CLOCK_OFF;
    for (uint32_t i = 0; i < reading->faulty_count; i++) {
        reading->faulty[i].from += zones;
        reading->faulty[i].until += zones;
    }
}

static enum aw_err read_fault(struct reading *reading, const json_t *fault, size_t index)
{
    char path[AW_FILE_PATH_MAX], key[64];
    const char *file = json_string_value(json_object_get(fault, "file"));
    const char *type = json_string_value(json_object_get(fault, "type"));
    const char *day = json_string_value(json_object_get(fault, "day"));
    char of_time[32] = "";
    const char *time = json_string_value(json_object_get(fault, "inject_time"));
    if (!day && time)
        snprintf(of_time, sizeof of_time, "%.10s", time);
    day = day ? day : of_time;
    snprintf(key, sizeof key, "[%zu].%s", index, file ? "type" : "file");
    if (!file || !type)
        return aw_fail_at(reading->diag, AW_ERR_FORMAT, "ground_truth.json", 0, 0, key,
                          "expected a text, found none");
    if (!aw__cases_path(reading->folder, file, path, sizeof path)) {
        if (!reading->cases->missing++)
            snprintf(reading->cases->missing_first, sizeof reading->cases->missing_first, "%.127s",
                     file);
        return AW_OK;
    }
    struct aw_case *one = aw__cases_add(reading->cases);
    if (!one)
        return aw_fail(reading->diag, AW_ERR_LIMIT, "more than %u cases, or no memory for them",
                       AW_CASES_MAX);
    snprintf(one->name, sizeof one->name, "%.127s", file);
    snprintf(one->type, sizeof one->type, "%.47s", type);
    one->sort = sort_of(type);
    if (one->sort != AW_CASE_NORMAL)
        name_culprit(reading, fault, one);
    const char *base_name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    enum aw_err err = make_base(reading, day, base_name);
    if (err && err != AW_ERR_NODATA)
        return err;
    const bool no_base = err == AW_ERR_NODATA;
    aw_window_reset(&reading->window);
    err = read_window(reading, path, &reading->window);
    if (err)
        return err;
    set_clock(reading, fault);
    return localize(reading, one, no_base ? NULL : &reading->base);
}

/* A fault-free file as a case of its own: beside other such files, or halves of itself. */
static enum aw_err read_normal(struct reading *reading, uint32_t index)
{
    char path[AW_FILE_PATH_MAX], day[32];
    const char *file = reading->normal[index];
    struct aw_span_profile half = {0};
    snprintf(day, sizeof day, "%.*s", (int)(strstr(file, "_normal") - file), file);
    for (uint32_t i = 0; i < reading->cases->count; i++) { /* ground_truth.json has it already */
        const char *name = reading->cases->at[i].name, *last = strrchr(name, '/');
        if (!strcmp(last ? last + 1 : name, file))
            return AW_OK;
    }
    struct aw_case *one = aw__cases_add(reading->cases);
    if (!one)
        return aw_fail(reading->diag, AW_ERR_LIMIT, "more than %u cases, or no memory for them",
                       AW_CASES_MAX);
    snprintf(one->name, sizeof one->name, "traces/%.100s", file);
    snprintf(one->type, sizeof one->type, "normal");
    one->sort = AW_CASE_NORMAL;
    enum aw_err err = make_base(reading, day, file);
    const bool alone = err == AW_ERR_NODATA;
    if (err && !alone)
        return err;
    aw_window_reset(&reading->window);
    snprintf(path, sizeof path, "%s/traces/%s", reading->folder, file);
    err = read_window(reading, path, &reading->window);
    if (!err && alone && aw_profile_make(&half, &reading->window, 0, 2, reading->alloc))
        err = aw_fail(reading->diag, AW_ERR_NOMEM, "out of memory");
    if (!err)
        err = localize(reading, one, alone ? &half : &reading->base);
    aw_profile_deinit(&half);
    return err;
}

/* ---- the folder ---- */

static enum aw_err list_normal(struct reading *reading)
{
    char path[AW_FILE_PATH_MAX];
    snprintf(path, sizeof path, "%s/traces", reading->folder);
    const enum aw_err err =
        aw__cases_list(path, "_normal", reading->alloc, &reading->normal, &reading->normal_count);
    if (err == AW_ERR_NOTFOUND)
        return aw_fail_at(reading->diag, err, path, 0, 0, NULL,
                          "expected a folder of traces beside ground_truth.json");
    return err ? aw_fail(reading->diag, err, "out of memory") : AW_OK;
}

static enum aw_err read_all(struct reading *reading, const json_t *truth, aw_cases_fn *progress,
                            void *ctx)
{
    const uint32_t all = (uint32_t)json_array_size(truth) + reading->normal_count;
    const json_t *fault;
    uint32_t done = 0;
    size_t i;
    enum aw_err err = AW_OK;
    json_array_foreach(truth, i, fault)
    {
        if ((err = read_fault(reading, fault, i)))
            return err;
        if (progress)
            progress(ctx, ++done, all);
    }
    for (uint32_t k = 0; k < reading->normal_count && !err; k++) {
        err = read_normal(reading, k);
        if (progress && !err)
            progress(ctx, ++done, all);
    }
    if (!err && !reading->cases->count)
        return aw_fail_at(reading->diag, AW_ERR_NOTFOUND, "ground_truth.json", 0, 0, NULL,
                          reading->cases->missing
                              ? "none of its %u files of traces is there; the first is %s"
                              : "expected faults, found %u of them%s",
                          reading->cases->missing, reading->cases->missing_first);
    return err;
}

static enum aw_err read_truth(const char *path, json_t **ret, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    json_error_t error;
    const enum aw_err err = aw_file_read(path, TRUTH_BYTES_MAX, NULL, &bytes, &size, diag);
    if (err)
        return err;
    *ret = json_loadb(bytes, size, 0, &error);
    aw_alloc_free(NULL, bytes);
    if (!*ret)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, error.line > 0 ? (uint32_t)error.line : 0, 0,
                          NULL, "expected JSON");
    if (json_is_array(*ret))
        return AW_OK;
    json_decref(*ret);
    return aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL, "expected a list of faults");
}

static enum aw_err read_traced(struct aw_cases *cases, const char *folder, const char *truth_path,
                               bool paper, aw_cases_fn *progress, void *ctx, struct aw_diag *diag)
{
    struct reading reading = {
        .cases = cases, .folder = folder, .paper = paper, .alloc = cases->alloc, .diag = diag};
    json_t *truth = NULL;
    enum aw_err err = read_truth(truth_path, &truth, diag);
    if (err)
        return err;
    if (aw_spans_init(&reading.spans, AW_SPANS_MAX, cases->alloc) ||
        aw_analysis_init(&reading.analysis, cases->alloc) ||
        aw_window_init(&reading.window, &reading.spans.names, cases->alloc) ||
        aw_window_init(&reading.base_window, &reading.spans.names, cases->alloc))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (!err)
        err = list_normal(&reading);
    if (!err)
        learn_pods(&reading, truth);
    if (!err)
        err = read_faulty(&reading, truth);
    if (!err)
        err = read_metrics(&reading);
    if (!err)
        err = read_all(&reading, truth, progress, ctx);
    json_decref(truth);
    cases->names = reading.spans.names;
    reading.spans.names = (struct aw_names){0};
    aw_profile_deinit(&reading.base);
    aw_window_deinit(&reading.window);
    aw_window_deinit(&reading.base_window);
    aw_metrics_deinit(&reading.metrics);
    aw_analysis_deinit(&reading.analysis);
    aw_spans_deinit(&reading.spans);
    aw_alloc_free(cases->alloc, reading.faulty);
    aw_alloc_free(cases->alloc, reading.normal);
    return err;
}

enum aw_err aw_cases_read(struct aw_cases *cases, const char *folder, bool paper,
                          aw_cases_fn *progress, void *ctx, const struct aw_alloc *alloc,
                          struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    *cases = (struct aw_cases){.alloc = alloc};
    if (strlen(folder) > AW_FILE_PATH_MAX / 2)
        return aw_fail(diag, AW_ERR_LIMIT, "the name of the folder is too long");
    snprintf(path, sizeof path, "%s/ground_truth.json", folder);
    const enum aw_err err = aw__cases_is_there(path)
                                ? read_traced(cases, folder, path, paper, progress, ctx, diag)
                                : aw__cases_read_metrics(cases, folder, progress, ctx, diag);
    if (err)
        aw_cases_deinit(cases);
    return err;
}
