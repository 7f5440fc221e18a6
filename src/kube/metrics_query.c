/* metrics_query.c - the questions that are asked where nobody gave others, and their placeholders.
 *
 * Usage is cAdvisor's, as kubelet exports it. A pod has a series per container and, with an empty
 * container label, one for the sum and one for its sandbox: these are left out. Within a container
 * the largest counts: kubelet's /metrics/resource has metrics of the same names, clusters scrape
 * one kubelet twice, and a restarted container leaves its old series behind for five minutes; a sum
 * would count such things double.
 *
 * Of request metrics the first family that a pod has is taken (`or on`). They are summed within a
 * job, and the largest job counts, for pods that are scraped twice.
 *
 * Rates are those between the last two samples (irate), however far apart scrapes are. rate() over
 * a window divides by the window even where a series is younger than it: a pod that has just
 * started would seem to serve next to nothing, and its workload less than it does. */
#include "kube/metrics_internal.h"

#include <string.h>

/* Questions are laid out as they are read. */
/* clang-format off */
#define CONTAINERS "{container!=\"\",container!=\"POD\",namespace=~\"$namespaces\"$selector}"
#define PODS       "pod!=\"\",namespace=~\"$namespaces\"$selector"
#define OR         " or on (namespace, pod) "

#define SUM_OF_CONTAINERS(what) \
    "sum by (namespace, pod) (max by (namespace, pod, container) (" what "))"
#define NEWEST(metric)  "max by (namespace, pod) (timestamp(" metric "))"
/* Of the time that passed, mean of the containers: a group that sleeps has no periods, so that a
 * share of those that it has would say that a pod which is asked once a second is always throttled.
 */
#define PERIOD_S "0.1" /* kubelet's default cpuCFSQuotaPeriod */
#define PERIODS(metric)        \
    "avg by (namespace, pod) (max by (namespace, pod, container) (" \
    "irate(" metric CONTAINERS "[$window])))"
#define RATE(metric, when)                                   \
    "max by (namespace, pod) (sum by (namespace, pod, job) " \
    "(irate(" metric "{" when PODS "}[$window])))"
#define BUCKETS(metric)                                              \
    "max by (namespace, pod, le) (sum by (namespace, pod, job, le) " \
    "(irate(" metric "_bucket{" PODS "}[$window])))"
#define GAUGE(metric) \
    "max by (namespace, pod) (sum by (namespace, pod, job) (" metric "{" PODS "}))"

/* Histograms of request durations in seconds: aware-workload's, the usual name of client libraries,
 * Micrometer's (Spring), OpenTelemetry's, go-grpc-prometheus'. */
#define H_AWARE  "aware_workload_request_duration_seconds"
#define H_PLAIN  "http_request_duration_seconds"
#define H_SPRING "http_server_requests_seconds"
#define H_OTEL   "http_server_request_duration_seconds"
#define H_GRPC   "grpc_server_handling_seconds"

#define REQUESTS \
       RATE("aware_workload_requests_total", "") \
    OR RATE("http_requests_total", "") \
    OR RATE(H_PLAIN "_count", "") \
    OR RATE(H_SPRING "_count", "") \
    OR RATE(H_OTEL "_count", "") \
    OR RATE("grpc_server_handled_total", "")

static const char *const defaults[AW_KUBE_QUERIES] = {
    [AW_KUBE_QUERY_CPU] =
        SUM_OF_CONTAINERS("irate(container_cpu_usage_seconds_total" CONTAINERS "[$window])"),
    [AW_KUBE_QUERY_CPU_TIME] = NEWEST("container_cpu_usage_seconds_total" CONTAINERS),
    [AW_KUBE_QUERY_MEMORY] = SUM_OF_CONTAINERS("container_memory_working_set_bytes" CONTAINERS),
    [AW_KUBE_QUERY_MEMORY_TIME] = NEWEST("container_memory_working_set_bytes" CONTAINERS),
    [AW_KUBE_QUERY_THROTTLED] =
        PERIODS("container_cpu_cfs_throttled_periods_total") " * " PERIOD_S,
    [AW_KUBE_QUERY_REQUESTS] = REQUESTS,
    [AW_KUBE_QUERY_REQUESTS_TIME] =
           NEWEST("aware_workload_requests_total{" PODS "}")
        OR NEWEST("http_requests_total{" PODS "}")
        OR NEWEST(H_PLAIN "_count{" PODS "}")
        OR NEWEST(H_SPRING "_count{" PODS "}")
        OR NEWEST(H_OTEL "_count{" PODS "}")
        OR NEWEST("grpc_server_handled_total{" PODS "}"),
    /* A counter of errors is often born with the first of them: where requests are counted and no
     * error is, there was none. */
    [AW_KUBE_QUERY_ERRORS] =
           RATE("aware_workload_errors_total", "")
        OR RATE("http_requests_total", "code=~\"5.*\",")
        OR RATE("http_requests_total", "status=~\"5.*\",")
        OR RATE(H_SPRING "_count", "status=~\"5.*\",")
        OR RATE(H_OTEL "_count", "http_response_status_code=~\"5.*\",")
        OR RATE("grpc_server_handled_total",
                "grpc_code=~\"Unknown|Internal|Unavailable|DataLoss\",")
        OR "0 * (" REQUESTS ")",
    [AW_KUBE_QUERY_IN_FLIGHT] =
           GAUGE("aware_workload_in_flight")
        OR GAUGE("http_requests_in_flight")
        OR GAUGE("http_server_active_requests"),
    [AW_KUBE_QUERY_LATENCY] =
           BUCKETS(H_AWARE)
        OR BUCKETS(H_PLAIN)
        OR BUCKETS(H_SPRING)
        OR BUCKETS(H_OTEL)
        OR BUCKETS(H_GRPC),
    [AW_KUBE_QUERY_LATENCY_SUM] =
           RATE(H_AWARE "_sum", "")
        OR RATE(H_PLAIN "_sum", "")
        OR RATE(H_SPRING "_sum", "")
        OR RATE(H_OTEL "_sum", "")
        OR RATE(H_GRPC "_sum", ""),
};
/* clang-format on */

static const char *const names[AW_KUBE_QUERIES] = {
#define X(id, text, unit) [AW_KUBE_QUERY_##id] = text,
    AW_KUBE_QUERY_MAP(X)
#undef X
};

const char *aw_kube_query_name(enum aw_kube_query_id id)
{
    return names[id];
}

const char *aw_kube_query_default(enum aw_kube_query_id id)
{
    return defaults[id];
}

/* What stands at `at`, and how long its name is; NULL: nothing that we know. The longest name
 * counts: $namespaces is not $namespace and an s. */
static const char *placeholder(const char *at, const struct aw__fill *fill, size_t *ret_len)
{
    const struct {
        const char *name, *value;
    } known[] = {
        {"$namespaces", fill->namespaces}, {"$namespace", fill->ns},      {"$window", fill->window},
        {"$selector", fill->selector},     {"$workload", fill->workload}, {"$pods", fill->pods},
    };
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t len = strlen(known[i].name);
        if (!strncmp(at, known[i].name, len)) {
            *ret_len = len;
            return known[i].value;
        }
    }
    return NULL;
}

enum aw__ask aw__query_kind(const char *query)
{
    static const struct aw__fill kinds = {"", "", "s", "w", "w", "w"};
    enum aw__ask kind = query[0] ? AW__ASK_ONCE : AW__ASK_NEVER;
    size_t len;
    for (const char *at = strchr(query, '$'); at; at = strchr(at + 1, '$')) {
        const char *what = placeholder(at, &kinds, &len);
        if (what && *what == 'w')
            return AW__ASK_WORKLOADS;
        if (what && *what == 's')
            kind = AW__ASK_SPACES;
    }
    return kind;
}

void aw__query_fill(const char *query, const struct aw__fill *fill, struct aw_text *text)
{
    size_t len;
    while (*query) {
        const size_t plain = strcspn(query + 1, "$") + 1;
        const char *what = *query == '$' ? placeholder(query, fill, &len) : NULL;
        if (what) {
            aw_text_add(text, "%s", what);
            query += len;
        } else {
            aw_text_add_bytes(text, query, plain);
            query += plain;
        }
    }
}

size_t aw__query_bytes(const char *query, const struct aw__fill *fill, uint32_t *ret_spaces)
{
    struct aw__fill empty = *fill;
    uint32_t spaces = 0;
    size_t bytes = 0, len;
    empty.namespaces = "";
    for (const char *at = query; *at; at++) {
        const char *what = *at == '$' ? placeholder(at, &empty, &len) : NULL;
        if (!what) {
            bytes++;
            continue;
        }
        spaces += what == empty.namespaces;
        bytes += strlen(what);
        at += len - 1;
    }
    *ret_spaces = spaces;
    return bytes;
}
