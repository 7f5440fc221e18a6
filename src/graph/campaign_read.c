/* campaign_read.c - a campaign of anomalies as a file of YAML: see docs/mechanisms/firm.md. */
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/quantity.h"
#include "graph/campaign.h"

#define KIND "AnomalyCampaign"

struct reading {
    const struct aw_tree *tree;
    struct aw_diag *diag;
    const struct aw_graph_app *app;
};

/* A value that may be missing: then `ret` stays. */
static enum aw_err read_duration(const struct reading *reading, const struct aw_node *map,
                                 const char *key, int64_t *ret_ns)
{
    const struct aw_node *node = aw_node_find(map, key);
    const char *text;
    int64_t us;
    if (!node)
        return AW_OK;
    enum aw_err err = aw_tree_scalar(reading->tree, node, &text, reading->diag);
    if (!err)
        err = aw_tree_place(reading->tree, node,
                            aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &us, reading->diag),
                            reading->diag);
    if (!err && us > INT64_C(86400) * 1000000)
        err = aw_tree_expected(reading->tree, node, AW_ERR_CONFIG, reading->diag,
                               "a duration of at most a day");
    if (!err)
        *ret_ns = us * 1000;
    return err;
}

static enum aw_err read_choice(const struct reading *reading, const struct aw_node *node,
                               const char *const *names, const char *what, uint32_t *ret)
{
    const char *text;
    enum aw_err err = aw_tree_string(reading->tree, node, &text, reading->diag);
    if (err)
        return err;
    for (uint32_t i = 0; names[i]; i++) {
        if (!strcmp(text, names[i])) {
            *ret = i;
            return AW_OK;
        }
    }
    const char *nearest = aw_conf_nearest(text, names);
    aw_fail(reading->diag, AW_ERR_CONFIG, "no %s is called \"%.60s\"%s%s%s", what, text,
            nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return aw_tree_place(reading->tree, node, AW_ERR_CONFIG, reading->diag);
}

static enum aw_err read_service(const struct reading *reading, const struct aw_node *node,
                                uint32_t *ret)
{
    const char *names[AW_GRAPH_SERVICES_MAX + 1] = {0};
    for (uint32_t i = 0; i < reading->app->service_count; i++)
        names[i] = reading->app->services[i].name;
    return read_choice(reading, node, names, "service", ret);
}

static enum aw_err read_anomaly(const struct reading *reading, const struct aw_node *map,
                                struct aw_anomaly *ret)
{
    static const char *const known[] = {"target", "kind",    "intensity", "at",
                                        "for",    "pattern", NULL};
    const struct aw_node *node, *pattern = aw_node_find(map, "pattern");
    uint32_t kind = 0, shape = AW_ANOMALY_CONSTANT;
    enum aw_err err = aw_tree_known(reading->tree, map, known, reading->diag);
    *ret = (struct aw_anomaly){.intensity = 0.5, .for_ns = 10 * AW_GRAPH_S_NS};
    if (!err && !(err = aw_tree_require(reading->tree, map, "target", &node, reading->diag)))
        err = read_service(reading, node, &ret->service);
    if (!err && !(err = aw_tree_require(reading->tree, map, "kind", &node, reading->diag)))
        err = read_choice(reading, node, aw_anomaly_kind_names, "kind of anomaly", &kind);
    if (!err && pattern)
        err = read_choice(reading, pattern, aw_anomaly_pattern_names, "pattern", &shape);
    if (!err && (node = aw_node_find(map, "intensity")))
        err = aw_tree_real(reading->tree, node, 0, 1, &ret->intensity, reading->diag);
    if (!err && !(err = aw_tree_require(reading->tree, map, "at", &node, reading->diag)))
        err = read_duration(reading, map, "at", &ret->at_ns);
    if (!err)
        err = read_duration(reading, map, "for", &ret->for_ns);
    ret->kind = (enum aw_anomaly_kind)kind;
    ret->pattern = (enum aw_anomaly_pattern)shape;
    return err;
}

static enum aw_err read_random(const struct reading *reading, const struct aw_node *map,
                               struct aw_campaign *ret)
{
    static const char *const known[] = {"rate", "kinds", "targets", "intensity", "for", NULL};
    const struct aw_node *node;
    const char *text;
    enum aw_err err = aw_tree_known(reading->tree, map, known, reading->diag);
    if (!err && !(err = aw_tree_require(reading->tree, map, "rate", &node, reading->diag)) &&
        !(err = aw_tree_scalar(reading->tree, node, &text, reading->diag)))
        err = aw_tree_place(reading->tree, node, aw_rate_parse(text, &ret->rate, reading->diag),
                            reading->diag);
    if (!err && (node = aw_node_find(map, "kinds")))
        err = aw_tree_list(reading->tree, node, reading->diag);
    for (node = !err && node ? node->first : NULL; node && !err; node = node->next) {
        uint32_t kind = 0;
        err = read_choice(reading, node, aw_anomaly_kind_names, "kind of anomaly", &kind);
        ret->kinds |= 1u << kind;
    }
    if (!err && (node = aw_node_find(map, "targets")))
        err = aw_tree_list(reading->tree, node, reading->diag);
    for (node = !err && node ? node->first : NULL; node && !err; node = node->next) {
        uint32_t service = 0;
        err = read_service(reading, node, &service);
        ret->targets |= UINT64_C(1) << service;
    }
    if (!err && (node = aw_node_find(map, "intensity"))) {
        err = aw_tree_list(reading->tree, node, reading->diag);
        if (!err && node->count != 2)
            err = aw_tree_expected(reading->tree, node, AW_ERR_CONFIG, reading->diag,
                                   "two numbers, the least and the most");
        if (!err)
            err = aw_tree_real(reading->tree, node->first, 0, 1, &ret->low, reading->diag);
        if (!err)
            err = aw_tree_real(reading->tree, node->last, ret->low, 1, &ret->high, reading->diag);
    }
    return err ? err : read_duration(reading, map, "for", &ret->for_ns);
}

static enum aw_err read_head(const struct reading *reading, const struct aw_node *root,
                             struct aw_campaign *ret, struct aw_graph_app *app)
{
    static const char *const known[] = {"kind",      "application", "seed", "duration",
                                        "anomalies", "random",      NULL};
    const struct aw_node *node;
    const char *text = NULL;
    int64_t seed = 1;
    enum aw_err err = aw_tree_known(reading->tree, root, known, reading->diag);
    if (!err && !(err = aw_tree_require(reading->tree, root, "kind", &node, reading->diag)) &&
        !(err = aw_tree_string(reading->tree, node, &text, reading->diag)) && strcmp(text, KIND))
        err = aw_tree_expected(reading->tree, node, AW_ERR_CONFIG, reading->diag, KIND);
    if (!err && (node = aw_node_find(root, "seed")))
        err = aw_tree_i64(reading->tree, node, 0, INT64_MAX, &seed, reading->diag);
    if (!err && !app->service_count &&
        !(err = aw_tree_require(reading->tree, root, "application", &node, reading->diag)) &&
        !(err = aw_tree_string(reading->tree, node, &text, reading->diag)))
        err = aw_tree_place(reading->tree, node, aw_graph_builtin(text, app, reading->diag),
                            reading->diag);
    ret->seed = (uint64_t)seed;
    snprintf(ret->application, sizeof ret->application, "%s", app->name);
    ret->duration_ns = 60 * AW_GRAPH_S_NS;
    return err ? err : read_duration(reading, root, "duration", &ret->duration_ns);
}

enum aw_err aw_campaign_read(const char *path, struct aw_campaign *ret, struct aw_graph_app *app,
                             struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root, *node;
    const struct reading reading = {&tree, diag, app};
    memset(ret, 0, sizeof *ret);
    ret->high = 1;
    ret->for_ns = 10 * AW_GRAPH_S_NS;
    enum aw_err err = aw_tree_load_file(&tree, path, NULL, diag);
    if (err)
        return err;
    err = aw_tree_only(&tree, &root, diag);
    if (!err)
        err = read_head(&reading, root, ret, app);
    if (!err && (node = aw_node_find(root, "anomalies"))) {
        err = aw_tree_list(&tree, node, diag);
        if (!err && node->count > AW_CAMPAIGN_MAX)
            err = aw_tree_expected(&tree, node, AW_ERR_LIMIT, diag, "at most 1024 anomalies");
        for (node = err ? NULL : node->first; node && !err; node = node->next)
            err = read_anomaly(&reading, node, &ret->anomaly[ret->count++]);
    }
    if (!err && (node = aw_node_find(root, "random")))
        err = read_random(&reading, node, ret);
    aw_tree_deinit(&tree);
    return err;
}
