/*
 * prom_queries.h - a file that says what to ask a Prometheus instead of, or in addition to, the
 * defaults.
 *
 *     preset: istio                  # or linkerd; none: the defaults of metrics.h
 *     selector: cluster="a"          # further matchers for questions that have $selector
 *     window: 5m
 *     latencyUnit: 1ms               # of le and of the sum
 *     queries:
 *       latency: sum by (namespace, pod, le) (irate(my_seconds_bucket{pod!=""}[$window]))
 *       inFlight: ""                 # not asked
 *
 * Call order: load, apply to a configuration, aw_kube_metrics_open with it, deinit after close.
 * Memory:     the texts are the tree's, borrowed by the configuration.
 * Threads:    read-only after load.
 */
#ifndef AW_KUBE_PROM_QUERIES_H
#define AW_KUBE_PROM_QUERIES_H

#include "base/tree.h"
#include "kube/metrics.h"

#define AW_KUBE_WINDOW_MIN_US 1000000
#define AW_KUBE_WINDOW_MAX_US 3600000000

/* Zeroed is empty: the defaults. */
struct aw_kube_prom_queries {
    struct aw_tree tree;
    const char *query[AW_KUBE_QUERIES]; /* NULL: the default */
    const char *selector;               /* NULL: none */
    double latency_unit_s;              /* 0: seconds */
    int64_t window_us;                  /* 0: the default */
};

/* AW_ERR_NOTFOUND, AW_ERR_FORMAT, AW_ERR_CONFIG with its place: no such key, preset or unit, a
 * question that is too long. On failure zeroed. */
AW_NODISCARD enum aw_err aw_kube_prom_queries_load(struct aw_kube_prom_queries *questions,
                                                   const char *path, struct aw_diag *diag);
/* The same from bytes; `name` stands for the file. */
AW_NODISCARD enum aw_err aw_kube_prom_queries_parse(struct aw_kube_prom_queries *questions,
                                                    const char *name, const char *bytes, size_t len,
                                                    struct aw_diag *diag);
void aw_kube_prom_queries_deinit(struct aw_kube_prom_queries *questions); /* zeroed is a no-op */

void aw_kube_prom_queries_apply(const struct aw_kube_prom_queries *questions,
                                struct aw_kube_metrics_config *config);

#endif
