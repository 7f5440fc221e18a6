/* app_read.c - an application as a file of YAML, kind ServiceGraph: see docs/mechanisms/firm.md. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/tree.h"
#include "graph/app.h"

#define KIND "ServiceGraph"

/* A duration that has to be there, in milliseconds. */
static enum aw_err read_ms(const struct aw_tree *tree, const struct aw_node *map, const char *key,
                           double *ret, struct aw_diag *diag)
{
    const struct aw_node *node;
    const char *text;
    int64_t us;
    enum aw_err err = aw_tree_require(tree, map, key, &node, diag);
    if (!err)
        err = aw_tree_scalar(tree, node, &text, diag);
    if (!err)
        err = aw_tree_place(tree, node,
                            aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &us, diag), diag);
    if (!err)
        *ret = (double)us / 1e3;
    return err;
}

/* A text; `fallback` where it may be missing, NULL where not. */
static enum aw_err read_text(const struct aw_tree *tree, const struct aw_node *map, const char *key,
                             const char *fallback, const char **ret, struct aw_diag *diag)
{
    const struct aw_node *node = aw_node_find(map, key);
    *ret = fallback;
    if (!node && fallback)
        return AW_OK;
    const enum aw_err err = node ? AW_OK : aw_tree_require(tree, map, key, &node, diag);
    return err ? err : aw_tree_string(tree, node, ret, diag);
}

/* {cpu: 500m, disk: 8M, network: 4M}: of one replica, CPU as Kubernetes writes it, the others in
 * bytes a second. What is not given is made for the load. */
static enum aw_err read_limits(const struct aw_tree *tree, const struct aw_node *map, double *limit,
                               struct aw_diag *diag)
{
    enum aw_err err = aw_tree_known(tree, map, aw_graph_resource_names, diag);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES && !err; r++) {
        const struct aw_node *node = aw_node_find(map, aw_graph_resource_names[r]);
        const char *text;
        int64_t amount = 0;
        if (!node || (err = aw_tree_scalar(tree, node, &text, diag)))
            continue;
        err = aw_tree_place(tree, node,
                            r == AW_GRAPH_CPU ? aw_quantity_parse_cpu(text, &amount, diag)
                                              : aw_quantity_parse_memory(text, &amount, diag),
                            diag);
        if (!err && amount <= 0)
            err = aw_tree_expected(tree, node, AW_ERR_CONFIG, diag, "a limit above 0");
        limit[r] = r == AW_GRAPH_CPU ? 1e-3 * (double)amount : (double)amount;
    }
    return err;
}

static enum aw_err read_service(const struct aw_tree *tree, const struct aw_node *map,
                                struct aw_graph_app *app, struct aw_diag *diag)
{
    static const char *const known[] = {"name",     "class", "operation", "cpu", "calls",
                                        "replicas", "fixed", "limits",    NULL};
    const struct aw_node *node;
    const char *name, *sort_name, *op, *calls;
    uint32_t sort = 0, service;
    double cpu_ms = 0;
    int64_t replicas = 1;
    bool fixed = false;
    enum aw_err err = aw_tree_known(tree, map, known, diag);
    err = err ? err : read_text(tree, map, "name", NULL, &name, diag);
    err = err ? err : read_text(tree, map, "class", "logic", &sort_name, diag);
    err = err ? err : read_text(tree, map, "operation", "", &op, diag);
    err = err ? err : read_text(tree, map, "calls", "", &calls, diag);
    err = err ? err : read_ms(tree, map, "cpu", &cpu_ms, diag);
    if (!err && (node = aw_node_find(map, "replicas")))
        err = aw_tree_i64(tree, node, 1, 8, &replicas, diag);
    if (!err && (node = aw_node_find(map, "fixed")))
        err = aw_tree_bool(tree, node, &fixed, diag);
    if (err)
        return err;
    while (aw_graph_class_names[sort] && strcmp(aw_graph_class_names[sort], sort_name) != 0)
        sort++;
    if (!aw_graph_class_names[sort])
        return aw_tree_expected(tree, aw_node_find(map, "class"), AW_ERR_CONFIG, diag,
                                "one of logic, web, cache and store");
    service = aw_graph_service_find(app, name); /* another operation of it */
    if (service == AW_GRAPH_NONE) {
        err = aw_graph_app_service(app, name, (enum aw_graph_class)sort, &service, diag);
        if (err)
            return aw_tree_place(tree, map, err, diag);
        app->services[service].replicas = (uint32_t)replicas;
        app->services[service].fixed = fixed;
    }
    if ((node = aw_node_find(map, "limits")) &&
        (err = read_limits(tree, node, app->services[service].limit, diag)))
        return err;
    return aw_tree_place(tree, map, aw_graph_app_op(app, service, op, cpu_ms, calls, diag), diag);
}

static enum aw_err read_type(const struct aw_tree *tree, const struct aw_node *map,
                             struct aw_graph_app *app, struct aw_diag *diag)
{
    static const char *const known[] = {"name", "entry", "share", "slo", NULL};
    const struct aw_node *node;
    const char *name, *entry;
    double slo_ms = 0, share = 1;
    enum aw_err err = aw_tree_known(tree, map, known, diag);
    err = err ? err : read_text(tree, map, "name", NULL, &name, diag);
    err = err ? err : read_text(tree, map, "entry", NULL, &entry, diag);
    err = err ? err : read_ms(tree, map, "slo", &slo_ms, diag);
    if (!err && (node = aw_node_find(map, "share")))
        err = aw_tree_real(tree, node, 0, 1e6, &share, diag);
    return err ? err
               : aw_tree_place(tree, map, aw_graph_app_type(app, name, entry, share, slo_ms, diag),
                               diag);
}

static enum aw_err read_root(const struct aw_tree *tree, const struct aw_node *root,
                             struct aw_graph_app *ret, struct aw_diag *diag)
{
    static const char *const known[] = {"kind",     "name",     "rate", "lend",
                                        "services", "requests", NULL};
    const struct aw_node *node;
    const char *text, *name;
    double rate = 0;
    enum aw_err err = aw_tree_known(tree, root, known, diag);
    err = err ? err : read_text(tree, root, "kind", NULL, &text, diag);
    if (!err && strcmp(text, KIND) != 0)
        err = aw_tree_expected(tree, aw_node_find(root, "kind"), AW_ERR_CONFIG, diag, KIND);
    err = err ? err : read_text(tree, root, "name", NULL, &name, diag);
    if (!err && !(err = aw_tree_require(tree, root, "rate", &node, diag)) &&
        !(err = aw_tree_scalar(tree, node, &text, diag)))
        err = aw_tree_place(tree, node, aw_rate_parse(text, &rate, diag), diag);
    if (err)
        return err;
    aw_graph_app_init(ret, name, rate);
    if ((node = aw_node_find(root, "lend")) &&
        (err = aw_tree_real(tree, node, 1, 8, &ret->lent, diag)))
        return err;
    if (!(err = aw_tree_require(tree, root, "services", &node, diag)))
        err = aw_tree_list(tree, node, diag);
    for (node = err ? NULL : node->first; node && !err; node = node->next)
        err = read_service(tree, node, ret, diag);
    if (!err && !(err = aw_tree_require(tree, root, "requests", &node, diag)))
        err = aw_tree_list(tree, node, diag);
    for (node = err ? NULL : node->first; node && !err; node = node->next)
        err = read_type(tree, node, ret, diag);
    return err ? err : aw_tree_place(tree, root, aw_graph_app_finish(ret, diag), diag);
}

enum aw_err aw_graph_app_read(const char *path, struct aw_graph_app *ret, struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root;
    enum aw_err err = aw_tree_load_file(&tree, path, NULL, diag);
    if (err)
        return err;
    err = aw_tree_only(&tree, &root, diag);
    if (!err)
        err = read_root(&tree, root, ret, diag);
    aw_tree_deinit(&tree);
    return err;
}
