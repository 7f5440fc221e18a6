/*
 * metrics.h - what the pods of a cluster use and how their requests fare, for many workloads at
 * once.
 *
 * Two sources. A Prometheus answers a fixed batch of questions (below), each for all namespaces of
 * a round and grouped by namespace and pod; the caller knows which pods belong to a workload and
 * asks for their sum, and quantiles are taken from the merged buckets. metrics.k8s.io is the second
 * source, for CPU and memory alone, asked when the first has none of them.
 *
 * Call order: open; each round read, then pod and workload for as many as you like; close, before
 *             the client of the API server.
 * Memory:     all at open for `pods_max` entries, their names and buckets; answers are
 *             texts in the memory of the client, of which one series at a time is decoded. A
 *             question is split by namespaces so that no answer is expected to have more than
 *             AW_KUBE_ANSWER_SERIES.
 * Threads:    single owner, that of the client. read waits for the network until its deadline.
 *
 * Missing is missing, never zero: NaN, infinities, negative amounts, series that appear twice, and
 * what is older than `age_max_us` are not figures. A figure says when it was true: the time of its
 * newest sample, of several pods that of the oldest, moved to our clock by the server's own idea of
 * now, so clocks that disagree do no harm. When a question fails, what an earlier round brought
 * stays, growing old; when it is answered without a pod, that pod has none.
 *
 * The trap: a sum over pods of which one did not report is too small. `pods` of a figure says how
 * many did; compare it with how many should have.
 */
#ifndef AW_KUBE_METRICS_H
#define AW_KUBE_METRICS_H

#include "kube/prom.h"

#define AW_KUBE_NEVER         INT64_MIN
#define AW_KUBE_METRICS_PODS  16384u /* `pods_max` where none is said */
#define AW_KUBE_TARGETS_MAX   16384u
#define AW_KUBE_BUCKETS_MAX   64u       /* bounds of histograms, over all that are read */
#define AW_KUBE_ANSWER_SERIES 20000u    /* expected of one answer: 3 MiB of text */
#define AW_KUBE_ASKS_MAX      2000u     /* requests of one round */
#define AW_KUBE_WINDOW_US     300000000 /* as long as Prometheus itself looks back */
#define AW_KUBE_AGE_MAX_US    300000000 /* and so old a figure may be */
#define AW_KUBE_AHEAD_MAX_US  10000000  /* a sample of the future: that much is a clock's error */

/* What is asked. Each may be replaced by another question of the same meaning, or by "": not asked.
 * A question may have placeholders:
 *   $window      "300s", how far to look back for the two samples of a rate
 *   $namespaces  "shop|web": for =~, the namespaces of the round
 *   $selector    ",cluster=\"a\"": further matchers of the configuration, or nothing
 * and groups its answer by namespace and pod, or by namespace and workload (and le, for latency).
 * One with $namespace, $workload or $pods ("web-.+", for =~) is asked once for each workload, and
 * its answer, a single series (or one per le), is that workload's: for meshes and ingresses that
 * know nothing of pods. The times are in seconds, as timestamp() gives them; a figure whose
 * question was replaced and whose time was not is as old as the answer. */
/* clang-format off */
/*     name          in files         unit                                         */
#define AW_KUBE_QUERY_MAP(X)                                                          \
    X(CPU,           "cpu",           "cores, mean between two scrapes")              \
    X(CPU_TIME,      "cpuTime",       "when that was")                                \
    X(MEMORY,        "memory",        "bytes, working set")                           \
    X(MEMORY_TIME,   "memoryTime",    "when that was")                                \
    X(THROTTLED,     "throttled",     "share of CFS periods, 0 to 1")                 \
    X(REQUESTS,      "requests",      "answered per second, errors included")         \
    X(REQUESTS_TIME, "requestsTime",  "when that, errors and latencies were")         \
    X(ERRORS,        "errors",        "answered with an error, per second")           \
    X(IN_FLIGHT,     "inFlight",      "requests being worked on or waiting")          \
    X(LATENCY,       "latency",       "rates of a histogram's buckets, with their le") \
    X(LATENCY_SUM,   "latencySum",    "rate of the histogram's sum")
/* clang-format on */

enum aw_kube_query_id {
#define X(name, text, unit) AW_KUBE_QUERY_##name,
    AW_KUBE_QUERY_MAP(X)
#undef X
        AW_KUBE_QUERIES
};
const char *aw_kube_query_name(enum aw_kube_query_id id);
/* The question where none is given: cAdvisor for usage; for requests the histograms and counters
 * that aware-workload, Prometheus' client libraries, Spring and OpenTelemetry export. */
const char *aw_kube_query_default(enum aw_kube_query_id id);

/* Everything is borrowed until close; zeroed is all defaults. */
struct aw_kube_metrics_config {
    struct aw_kube_prom *prom;   /* NULL: none */
    struct aw_kube *kube;        /* for metrics.k8s.io; NULL: not asked */
    const char *metrics_version; /* "v1beta1", from discovery.h; NULL or "": it is not there */
    const char *query[AW_KUBE_QUERIES]; /* NULL: the default; "": not asked */
    const char *selector;               /* "cluster=\"a\""; NULL: none */
    double latency_unit_s;              /* of le and sum; 0: seconds (Istio: 0.001) */
    int64_t window_us;                  /* 0: AW_KUBE_WINDOW_US */
    int64_t age_max_us;                 /* 0: AW_KUBE_AGE_MAX_US */
    uint32_t pods_max;                  /* 0: AW_KUBE_METRICS_PODS */
    /* Told when a question begins to fail, with why, and when it works again (AW_OK); also of a
     * warning of the server, once. `source` is the name of a question or "metrics.k8s.io". May be
     * NULL. */
    void (*told)(void *ctx, const char *source, enum aw_err err, const char *text);
    void *ctx;
    const struct aw_clock *clock; /* NULL: the real one */
};

/* A workload of a round. */
struct aw_kube_target {
    const char *ns, *name;
    uint32_t pods; /* about as many, so that answers can be bounded; 0: not known */
};

struct aw_kube_figure {
    double value;
    int64_t at_us; /* wall time; AW_KUBE_NEVER: missing */
    uint32_t pods; /* that it was made from */
};

struct aw_kube_pod_metrics {
    struct aw_kube_figure cpu_cores, memory_bytes, throttled_share;
};

struct aw_kube_workload_metrics {
    struct aw_kube_figure requests_per_s, errors_per_s, in_flight;
    struct aw_kube_figure latency_us_mean, latency_us_p50, latency_us_p95, latency_us_p99;
};

/* How it goes; for metrics and for people. */
struct aw_kube_metrics_state {
    uint64_t rounds;          /* begun */
    uint64_t asked;           /* requests */
    uint64_t failed;          /* of them */
    uint64_t dropped;         /* series that were no figures: NaN, negative, twice, no such label */
    uint64_t left_out;        /* pods for which there was no room */
    bool from_prom, from_api; /* sources of usage in the last round */
};

struct aw_kube_metrics;

/* AW_ERR_CONFIG: a question that is too long, or no source at all; AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_kube_metrics_open(struct aw_kube_metrics **ret_metrics,
                                              const struct aw_kube_metrics_config *config,
                                              const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_kube_metrics_close(struct aw_kube_metrics *metrics); /* NULL is a no-op */

/* One round, until `deadline_us` (monotonic) at the latest: what was not asked by then counts as
 * failed. AW_OK: at least one question was answered. A workload whose name no object can have is
 * left out. AW_ERR_INTERRUPTED: the client was told to stop. */
AW_NODISCARD enum aw_err aw_kube_metrics_read(struct aw_kube_metrics *metrics,
                                              const struct aw_kube_target *targets, uint32_t count,
                                              int64_t deadline_us, struct aw_diag *diag);

/* What is known at `now_us` (wall) of a pod. All missing when it has never been heard of. */
void aw_kube_metrics_pod(const struct aw_kube_metrics *metrics, const char *ns, const char *pod,
                         int64_t now_us, struct aw_kube_pod_metrics *ret_pod);
/* And of a workload: its own series where there are such, else the sum of those of its pods. */
void aw_kube_metrics_workload(const struct aw_kube_metrics *metrics, const char *ns,
                              const char *name, const char *const *pods, uint32_t pod_count,
                              int64_t now_us, struct aw_kube_workload_metrics *ret_workload);

const struct aw_kube_metrics_state *aw_kube_metrics_state(const struct aw_kube_metrics *metrics);

#endif
