/*
 * scan.h - looks at the workloads that are there and says what they waste and what they risk.
 *
 * Needs no object of ours and writes nothing: it lists Deployments, StatefulSets, DaemonSets, pods
 * and other autoscalers, asks a Prometheus what the pods have used over the last days, and compares
 * that with what they request. Without a Prometheus it takes one look at metrics.k8s.io and says
 * so; without either it still finds what is missing, killed or in conflict.
 *
 * Call order: scan, read the rows, deinit.
 * Memory:     a row per workload, at most AW_KUBE_SCAN_ROWS_MAX; answers of Prometheus are split by
 *             namespaces so that one has about AW_KUBE_SCAN_POINTS points.
 * Threads:    those of the client.
 *
 * The trap: usage is judged by the pods that ran, and a workload that was throttled or killed used
 * less than it wanted. Look at `risk` before believing in `waste`.
 */
#ifndef AW_KUBE_SCAN_H
#define AW_KUBE_SCAN_H

#include "kube/discovery.h"
#include "kube/prom.h"

#define AW_KUBE_SCAN_ROWS_MAX   16384u
#define AW_KUBE_SCAN_STEPS      168u /* moments of the history that are looked at: a week's hours */
#define AW_KUBE_SCAN_POINTS     200000u /* of one answer: 40 MiB while it is decoded */
#define AW_KUBE_SCAN_HISTORY_US 604800000000
#define AW_KUBE_SCAN_ASK_US     60000000

/* What a container should need, from what was used. */
#define AW_KUBE_SCAN_MARGIN       0.15       /* as VPA's recommendation-margin-fraction */
#define AW_KUBE_SCAN_CPU_MIN      0.010      /* cores; less is not worth a discussion */
#define AW_KUBE_SCAN_MEMORY_MIN   33554432.0 /* bytes */
#define AW_KUBE_SCAN_GIB_PER_CORE 7.5 /* that cost as much as a core; as clouds sell machines */

/* clang-format off */
/*     name            weight  for people                              */
#define AW_KUBE_RISK_MAP(X)                                               \
    X(OOM,             40,     "killed for memory")                       \
    X(CRASH_LOOP,      30,     "crash loop")                              \
    X(CONFLICT,        20,     "autoscalers in conflict")                 \
    X(MEMORY_NEAR,     20,     "memory near its limit")                   \
    X(THROTTLED,       15,     "throttled")                               \
    X(CPU_OVER,        10,     "uses more CPU than it requests")          \
    X(MEMORY_OVER,     10,     "uses more memory than it requests")       \
    X(NO_MEMORY,       10,     "no memory request")                       \
    X(NO_CPU,           5,     "no CPU request")                          \
    X(NO_LIMIT,         5,     "no memory limit")
/* clang-format on */
enum aw_kube_risk {
#define X(name, weight, text) AW_KUBE_RISK_##name,
    AW_KUBE_RISK_MAP(X)
#undef X
        AW_KUBE_RISKS
};
const char *aw_kube_risk_text(enum aw_kube_risk risk);

#define AW_KUBE_SCAN_THROTTLED_MIN 0.25 /* share of periods from which it is a risk */
#define AW_KUBE_SCAN_NEAR_MIN      0.90 /* of a memory limit */

/* Per pod: cores or bytes. */
struct aw_kube_scan_usage {
    double p50, p95, max;
    uint32_t samples; /* 0: not measured, and the other members are 0 */
};

struct aw_kube_scan_row {
    char ns[AW_KUBE_NAME_MAX], name[AW_KUBE_NAME_MAX];
    const char *kind;                      /* "Deployment", "StatefulSet", "DaemonSet" */
    uint32_t pods;                         /* wanted */
    double cpu_request, memory_request;    /* per pod; < 0: some container has none */
    double cpu_limit, memory_limit;        /* likewise */
    struct aw_kube_scan_usage cpu, memory; /* per pod */
    double throttled_share;                /* < 0: not measured */
    uint32_t oom_kills, restarts;          /* that are known of */
    bool crash_loop;
    bool keda, vpa;              /* other autoscalers of it */
    bool vpa_acts, hpa_on_usage; /* not only told; by CPU or memory */
    uint32_t hpa_count;          /* KEDA's own are not counted */
    char conflict[128];          /* "": none */
    /* what follows from it */
    double cpu_need, memory_need;   /* per pod; < 0: not known */
    double cpu_waste, memory_waste; /* of all pods together: requested and not needed */
    uint32_t risks;                 /* 1 << enum aw_kube_risk, or-ed */
    uint32_t risk;                  /* sum of their weights */
};

enum aw_kube_scan_source { AW_KUBE_SCAN_HISTORY, AW_KUBE_SCAN_SNAPSHOT, AW_KUBE_SCAN_NOTHING };

struct aw_kube_scan_config {
    struct aw_kube *kube;
    const struct aw_kube_server *server; /* what it has */
    struct aw_kube_prom *prom;           /* NULL: none */
    const char *ns;                      /* NULL: all */
    int64_t history_us;                  /* 0: AW_KUBE_SCAN_HISTORY_US */
    const struct aw_clock *clock;        /* NULL: the real one */
    /* What could not be read and what was done instead, one sentence each. May be NULL. */
    void (*told)(void *ctx, const char *text);
    void *ctx;
};

struct aw_kube_scan {
    struct aw_kube_scan_row *row; /* [count], by namespace, kind and name */
    uint32_t count, left_out;     /* workloads for which there was no room */
    enum aw_kube_scan_source source;
    const struct aw_alloc *alloc;
};

/* AW_ERR_CONFIG: no right to list workloads; else as aw_kube_send. Anything but the list of
 * workloads may be missing: that is reported. On failure `scan` is zeroed. */
AW_NODISCARD enum aw_err aw_kube_scan(struct aw_kube_scan *scan,
                                      const struct aw_kube_scan_config *config,
                                      const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_kube_scan_deinit(struct aw_kube_scan *scan); /* zeroed is a no-op */

/* Fills what follows from the rest of a row. */
void aw_kube_scan_judge(struct aw_kube_scan_row *row);
/* Waste as one number, in cores. */
double aw_kube_scan_waste(const struct aw_kube_scan_row *row);

/* "monitoring/prometheus:9090": a Service that says it is one. AW_ERR_NOTFOUND: none, or we may not
 * look. Returns the first by name; `buf` has at least 2 * AW_KUBE_NAME_MAX bytes. */
AW_NODISCARD enum aw_err aw_kube_find_prometheus(struct aw_kube *kube, char *buf, size_t size,
                                                 struct aw_diag *diag);

#endif
