/* scan_usage.c - what pods have used: a history from Prometheus, or one look at metrics.k8s.io. */
#include <stdio.h>
#include <string.h>

#include "kube/metrics_internal.h"
#include "kube/scan_internal.h"

/* Questions are laid out as they are read; metrics_query.c tells of the labels. */
/* clang-format off */
#define CONTAINERS    "{container!=\"\",container!=\"POD\",namespace=~\"$namespaces\"}"
#define OF_PODS(what) "sum by (namespace, pod) (max by (namespace, pod, container) (" what "))"
#define DURING(metric) OF_PODS("increase(" metric CONTAINERS "[$window])")

enum question { ASK_CPU, ASK_MEMORY, ASK_THROTTLED, ASK_OOM, QUESTIONS };
static const struct {
    const char *name;
    bool range;
    const char *query;
} questions[QUESTIONS] = {
    /* between two scrapes: rate() would make pods idle that are younger than its window */
    [ASK_CPU] = {"CPU", true,
        OF_PODS("irate(container_cpu_usage_seconds_total" CONTAINERS "[5m])")},
    /* the peak since the moment before: nothing is missed between two of them */
    [ASK_MEMORY] = {"memory", true,
        OF_PODS("max_over_time(container_memory_working_set_bytes" CONTAINERS "[$window])")},
    [ASK_THROTTLED] = {"throttling", false,
        DURING("container_cpu_cfs_throttled_periods_total") " / "
        DURING("container_cpu_cfs_periods_total")},
    [ASK_OOM] = {"kills", false,
        "sum by (namespace, pod) (increase(container_oom_events_total" CONTAINERS "[$window]))"},
};
/* clang-format on */

struct asker {
    struct aw_kube_scan *scan;
    const struct aw_kube_scan_config *config;
    struct aw__scan_work *work;
    struct aw_kube_prom_range range;
    enum question question;
    uint32_t owned; /* series of workloads that are there */
};

static void take_series(void *ctx, const struct aw_kube_labels *labels,
                        const struct aw_kube_prom_point *points, uint32_t count)
{
    struct asker *asker = ctx;
    const char *ns = aw_kube_label(labels, "namespace");
    const char *pod = aw_kube_label(labels, "pod");
    const struct aw_kube_scan_row *row = ns && pod ? aw__scan_owner(asker->scan, ns, pod) : NULL;
    if (!row)
        return;
    struct aw__scan_work *work = &asker->work[row - asker->scan->row];
    const double value = points[count - 1].value;
    asker->owned++;
    switch (asker->question) {
    case ASK_CPU:
        for (uint32_t i = 0; i < count; i++)
            aw__scan_push(&work->cpu, AW__SCAN_CPU_FIRST, points[i].value);
        break;
    case ASK_MEMORY:
        for (uint32_t i = 0; i < count; i++)
            aw__scan_push(&work->memory, AW__SCAN_MEMORY_FIRST, points[i].value);
        break;
    case ASK_THROTTLED:
        if (value >= 0) {
            work->throttled_sum += value < 1 ? value : 1;
            work->throttled_count++;
        }
        break;
    default:
        work->oom_sum += value > 0 ? value : 0;
    }
}

/* Namespaces from `at` on, of which one answer is small enough; returns where the next begin. */
static uint32_t take_spaces(const struct asker *asker, uint32_t at, struct aw_text *text)
{
    const struct aw_kube_scan *scan = asker->scan;
    const uint64_t steps = questions[asker->question].range ? AW_KUBE_SCAN_STEPS : 1;
    uint64_t points = 0;
    uint32_t end = at;
    while (end < scan->count) {
        const char *ns = scan->row[end].ns;
        uint32_t next = end;
        uint64_t more = 0;
        for (; next < scan->count && !strcmp(scan->row[next].ns, ns); next++)
            more += steps * (scan->row[next].pods ? scan->row[next].pods : 1);
        if (end > at && (points + more > AW_KUBE_SCAN_POINTS ||
                         text->len + strlen(ns) + 2 > AW_KUBE_PROM_PROXY_MAX / 4))
            break; /* a quarter: some questions say it twice, and it is escaped */
        aw_text_add(text, "%s%s", end > at ? "|" : "", ns);
        points += more;
        end = next;
    }
    return end;
}

static enum aw_err ask(struct asker *asker, struct aw_diag *diag)
{
    const struct aw_kube_prom_visitor visitor = {take_series, asker};
    const bool range = questions[asker->question].range;
    const int64_t length_s = asker->range.to_s - asker->range.from_s;
    char window[32], spaces[AW_KUBE_PROM_PROXY_MAX], query[AW_KUBE_PROM_PROXY_MAX];
    struct aw_kube_prom_answer answer;
    enum aw_err err = AW_OK;
    snprintf(window, sizeof window, "%llds", (long long)(range ? asker->range.step_s : length_s));
    for (uint32_t at = 0; !err && at < asker->scan->count;) {
        const struct aw__fill fill = {.window = window, .selector = "", .namespaces = spaces};
        struct aw_text text;
        aw_text_init(&text, spaces, sizeof spaces);
        at = take_spaces(asker, at, &text);
        aw_text_init(&text, query, sizeof query);
        aw__query_fill(questions[asker->question].query, &fill, &text);
        if (text.cut)
            return aw_fail(diag, AW_ERR_LIMIT, "a question is too long");
        err = range ? aw_kube_prom_ask_range(asker->config->prom, query, &asker->range,
                                             AW_KUBE_SCAN_ASK_US, &visitor, &answer, diag)
                    : aw_kube_prom_ask(asker->config->prom, query, AW_KUBE_SCAN_ASK_US, &visitor,
                                       &answer, diag);
    }
    return err;
}

enum aw_err aw__scan_history(struct aw_kube_scan *scan, const struct aw_kube_scan_config *config,
                             struct aw__scan_work *work, struct aw_diag *diag)
{
    const int64_t history_us = config->history_us ? config->history_us : AW_KUBE_SCAN_HISTORY_US;
    const int64_t to_s = aw_clock_now_us(config->clock) / 1000000;
    int64_t step_s = history_us / 1000000 / AW_KUBE_SCAN_STEPS;
    step_s = step_s < 60 ? 60 : step_s;
    struct asker asker = {.scan = scan,
                          .config = config,
                          .work = work,
                          .range = {to_s - history_us / 1000000, to_s, step_s}};
    for (uint32_t i = 0; i < QUESTIONS && scan->count > 0; i++) {
        struct aw_diag said = {0};
        char text[sizeof said.text + 64];
        asker.question = (enum question)i;
        const enum aw_err err = ask(&asker, &said);
        if (err && i <= ASK_MEMORY)
            return aw_fail(diag, err, "Prometheus has no history of %s: %s", questions[i].name,
                           said.text);
        if (err && config->told) { /* a scan without these is one all the same */
            snprintf(text, sizeof text, "Prometheus has no history of %s: %s", questions[i].name,
                     said.text);
            config->told(config->ctx, text);
        }
        if (i == ASK_MEMORY && asker.owned == 0)
            return aw_fail(diag, AW_ERR_NODATA,
                           "Prometheus knows nothing of these pods: does it scrape kubelet's "
                           "/metrics/cadvisor?");
    }
    scan->source = AW_KUBE_SCAN_HISTORY;
    return AW_OK;
}

/* --- one look --- */

static void take_pod(void *ctx, const char *ns, const char *name, double cores, double bytes,
                     int64_t at_us)
{
    const struct asker *asker = ctx;
    const struct aw_kube_scan_row *row = aw__scan_owner(asker->scan, ns, name);
    (void)at_us;
    if (!row)
        return;
    aw__scan_push(&asker->work[row - asker->scan->row].cpu, AW__SCAN_CPU_FIRST, cores);
    aw__scan_push(&asker->work[row - asker->scan->row].memory, AW__SCAN_MEMORY_FIRST, bytes);
}

enum aw_err aw__scan_snapshot(struct aw_kube_scan *scan, const struct aw_kube_scan_config *config,
                              struct aw__scan_work *work, struct aw_diag *diag)
{
    struct asker asker = {.scan = scan, .config = config, .work = work};
    const struct aw__api_visitor visitor = {take_pod, &asker};
    char path[AW_KUBE_NAME_MAX + 128];
    struct aw_diag said = {0};
    uint64_t dropped = 0;
    json_t *body = NULL;
    if (!config->server->metrics[0])
        return aw_fail(diag, AW_ERR_NOTFOUND,
                       "nothing is known of usage: neither a Prometheus nor metrics.k8s.io");
    snprintf(path, sizeof path, "/apis/metrics.k8s.io/%s%s%s/pods", config->server->metrics,
             config->ns ? "/namespaces/" : "", config->ns ? config->ns : "");
    struct aw_kube_slices items = {0};
    const struct aw_kube_request request = {
        .path = path, .timeout_us = AW_KUBE_SCAN_ASK_US, .split = "items", .slices = &items};
    enum aw_err err = aw_kube_send(config->kube, &request, &body, NULL, &said);
    err = err ? err : aw__metrics_api_decode(body, &items, &visitor, &dropped, &said);
    json_decref(body);
    if (err)
        return aw_fail(diag, err, "nothing is known of usage: metrics.k8s.io: %s", said.text);
    scan->source = AW_KUBE_SCAN_SNAPSHOT;
    return AW_OK;
}
