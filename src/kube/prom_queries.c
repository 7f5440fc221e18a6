/* prom_queries.c - see prom_queries.h. */
#include "kube/prom_queries.h"

#include <string.h>

#include "base/quantity.h"

struct preset {
    const char *name;
    double latency_unit_s;
    const char *query[AW_KUBE_QUERIES];
};

/* Questions are laid out as they are read. */
/* clang-format off */

/* Istio counts at the proxy of whoever is asked, by workload. Its labels become ours; "$1" is
 * label_replace's own. */
#define ISTIO(metric, by, when) \
    "sum by (namespace, workload" by ") (label_replace(label_replace(" \
    "irate(" metric "{reporter=\"destination\"," when \
    "destination_workload_namespace=~\"$namespaces\"$selector}[$window]), " \
    "\"namespace\", \"$1\", \"destination_workload_namespace\", \"(.+)\"), " \
    "\"workload\", \"$1\", \"destination_workload\", \"(.+)\"))"

/* Linkerd's proxy counts in the pod. */
#define LINKERD(metric, by, when) \
    "sum by (namespace, pod" by ") (irate(" metric "{direction=\"inbound\"," when \
    "pod!=\"\",namespace=~\"$namespaces\"$selector}[$window]))"

static const struct preset presets[] = {
    {"istio", 1e-3, {
        [AW_KUBE_QUERY_REQUESTS] = ISTIO("istio_requests_total", "", ""),
        [AW_KUBE_QUERY_REQUESTS_TIME] = "",
        [AW_KUBE_QUERY_ERRORS] = ISTIO("istio_requests_total", "", "response_code=~\"5.*\",")
            " or on (namespace, workload) 0 * " ISTIO("istio_requests_total", "", ""),
        [AW_KUBE_QUERY_IN_FLIGHT] = "",
        [AW_KUBE_QUERY_LATENCY] = ISTIO("istio_request_duration_milliseconds_bucket", ", le", ""),
        [AW_KUBE_QUERY_LATENCY_SUM] = ISTIO("istio_request_duration_milliseconds_sum", "", ""),
    }},
    {"linkerd", 1e-3, {
        [AW_KUBE_QUERY_REQUESTS] = LINKERD("response_total", "", ""),
        [AW_KUBE_QUERY_REQUESTS_TIME] = "max by (namespace, pod) (timestamp(response_total"
            "{direction=\"inbound\",pod!=\"\",namespace=~\"$namespaces\"$selector}))",
        [AW_KUBE_QUERY_ERRORS] = LINKERD("response_total", "", "classification=\"failure\",")
            " or on (namespace, pod) 0 * " LINKERD("response_total", "", ""),
        [AW_KUBE_QUERY_IN_FLIGHT] = "",
        [AW_KUBE_QUERY_LATENCY] = LINKERD("response_latency_ms_bucket", ", le", ""),
        [AW_KUBE_QUERY_LATENCY_SUM] = LINKERD("response_latency_ms_sum", "", ""),
    }},
};
/* clang-format on */

static enum aw_err read_preset(struct aw_kube_prom_queries *questions, const struct aw_node *node,
                               struct aw_diag *diag)
{
    const char *name = NULL;
    if (!node)
        return AW_OK;
    const enum aw_err err = aw_tree_string(&questions->tree, node, &name, diag);
    if (err)
        return err;
    for (uint32_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(name, presets[i].name) != 0)
            continue;
        memcpy(questions->query, presets[i].query, sizeof questions->query);
        questions->latency_unit_s = presets[i].latency_unit_s;
        return AW_OK;
    }
    return aw_tree_expected(&questions->tree, node, AW_ERR_CONFIG, diag, "istio or linkerd");
}

/* Of a duration within [min, max]; `ret_us` is left alone where none is written. */
static enum aw_err read_duration(struct aw_kube_prom_queries *questions, const struct aw_node *node,
                                 int64_t min_us, int64_t max_us, int64_t *ret_us,
                                 struct aw_diag *diag)
{
    const char *text = NULL;
    int64_t us = 0;
    if (!node)
        return AW_OK;
    enum aw_err err = aw_tree_scalar(&questions->tree, node, &text, diag);
    if (!err)
        err = aw_tree_place(&questions->tree, node,
                            aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &us, diag), diag);
    if (!err && (us < min_us || us > max_us))
        err = aw_tree_expected(&questions->tree, node, AW_ERR_CONFIG, diag,
                               "a duration within its bounds");
    if (!err)
        *ret_us = us;
    return err;
}

static enum aw_err read_queries(struct aw_kube_prom_queries *questions, const struct aw_node *map,
                                struct aw_diag *diag)
{
    const char *names[AW_KUBE_QUERIES + 1] = {NULL};
    for (uint32_t id = 0; id < AW_KUBE_QUERIES; id++)
        names[id] = aw_kube_query_name((enum aw_kube_query_id)id);
    enum aw_err err = map ? aw_tree_known(&questions->tree, map, names, diag) : AW_OK;
    for (uint32_t id = 0; !err && map && id < AW_KUBE_QUERIES; id++) {
        const struct aw_node *node = aw_node_find(map, names[id]);
        if (!node)
            continue;
        err = aw_tree_string(&questions->tree, node, &questions->query[id], diag);
        if (!err && strlen(questions->query[id]) >= AW_KUBE_PROM_PROXY_MAX)
            err = aw_tree_expected(&questions->tree, node, AW_ERR_CONFIG, diag, "less text");
    }
    return err;
}

/* The tree is there. */
static enum aw_err read_all(struct aw_kube_prom_queries *questions, struct aw_diag *diag)
{
    static const char *const keys[] = {"preset",      "selector", "window",
                                       "latencyUnit", "queries",  NULL};
    const struct aw_tree *tree = &questions->tree;
    const struct aw_node *root = NULL;
    int64_t unit_us = 0;
    enum aw_err err = aw_tree_only(tree, &root, diag);
    err = err ? err : aw_tree_known(tree, root, keys, diag);
    err = err ? err : read_preset(questions, aw_node_find(root, "preset"), diag);
    if (!err && aw_node_find(root, "selector"))
        err = aw_tree_string(tree, aw_node_find(root, "selector"), &questions->selector, diag);
    err = err ? err
              : read_duration(questions, aw_node_find(root, "window"), AW_KUBE_WINDOW_MIN_US,
                              AW_KUBE_WINDOW_MAX_US, &questions->window_us, diag);
    err = err ? err
              : read_duration(questions, aw_node_find(root, "latencyUnit"), 1, 60000000, &unit_us,
                              diag);
    if (!err && unit_us)
        questions->latency_unit_s = 1e-6 * (double)unit_us;
    return err ? err : read_queries(questions, aw_node_find(root, "queries"), diag);
}

static enum aw_err finish(struct aw_kube_prom_queries *questions, enum aw_err err,
                          struct aw_diag *diag)
{
    err = err ? err : read_all(questions, diag);
    if (err)
        aw_kube_prom_queries_deinit(questions);
    return err;
}

enum aw_err aw_kube_prom_queries_load(struct aw_kube_prom_queries *questions, const char *path,
                                      struct aw_diag *diag)
{
    *questions = (struct aw_kube_prom_queries){0};
    return finish(questions, aw_tree_load_file(&questions->tree, path, NULL, diag), diag);
}

enum aw_err aw_kube_prom_queries_parse(struct aw_kube_prom_queries *questions, const char *name,
                                       const char *bytes, size_t len, struct aw_diag *diag)
{
    *questions = (struct aw_kube_prom_queries){0};
    return finish(questions, aw_tree_load(&questions->tree, name, bytes, len, NULL, diag), diag);
}

void aw_kube_prom_queries_deinit(struct aw_kube_prom_queries *questions)
{
    aw_tree_deinit(&questions->tree);
    *questions = (struct aw_kube_prom_queries){0};
}

void aw_kube_prom_queries_apply(const struct aw_kube_prom_queries *questions,
                                struct aw_kube_metrics_config *config)
{
    for (uint32_t id = 0; id < AW_KUBE_QUERIES; id++)
        config->query[id] = questions->query[id] ? questions->query[id] : config->query[id];
    config->selector = questions->selector ? questions->selector : config->selector;
    if (questions->latency_unit_s > 0)
        config->latency_unit_s = questions->latency_unit_s;
    if (questions->window_us > 0)
        config->window_us = questions->window_us;
}
