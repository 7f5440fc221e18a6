/* calibrate.c - see calibrate.h. */
#include "mesh/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/tree.h"

#define SETTLE_NS  (AW_GRAPH_S_NS * 3 / 4)
#define SEEN_NS    (AW_GRAPH_S_NS * 3 / 2)
#define LOOK_NS    (AW_GRAPH_S_NS / 2)
#define LOOKS      20u /* half seconds in which everything has to be well again */
#define TRIES      4u
#define FAILED     0.8
#define QUIET_MOST 0.03
#define FILE_MAX   ((size_t)1 << 20)

enum aw_err aw_mesh_can(const struct aw_mesh *mesh, enum aw_anomaly_kind kind, struct aw_diag *diag)
{
    const enum aw_graph_resource resource = aw_anomaly_resource(kind);
    if (kind == AW_ANOMALY_DELAY)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "%s: packets between services pass through this host's loopback, which "
                       "everybody shares, and netem is not asked to delay it",
                       aw_anomaly_kind_names[kind]);
    const char *why = aw_mesh_actuators(mesh)->why[resource];
    return *why ? aw_fail(diag, AW_ERR_UNSUPPORTED, "%s: %.400s", aw_anomaly_kind_names[kind], why)
                : AW_OK;
}

static double missed_share(struct aw_mesh *mesh, struct aw_graph_plant plant, int64_t span_ns)
{
    uint32_t requests, missed;
    aw_mesh_count(mesh, &requests, &missed);
    aw_mesh_wait(mesh, plant.ops->now(plant.self) + span_ns);
    aw_mesh_count(mesh, &requests, &missed);
    return requests ? (double)missed / requests : 1;
}

/* Waits until SLOs hold twice in a row. */
static enum aw_err calm(struct aw_mesh *mesh, struct aw_graph_plant plant, const _Atomic int *stop,
                        struct aw_diag *diag)
{
    uint32_t well = 0;
    for (uint32_t i = 0; i < LOOKS && well < 2; i++) {
        if (stop && *stop)
            return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
        well = missed_share(mesh, plant, LOOK_NS) <= QUIET_MOST ? well + 1 : 0;
    }
    return well == 2 ? AW_OK
                     : aw_fail(diag, AW_ERR_UNAVAILABLE,
                               "requests miss their SLO while nothing is injected: more than %.0f "
                               "%% of them for %u s; give the graph a longer SLO or less load",
                               100 * QUIET_MOST, LOOKS / 2);
}

static enum aw_err try_strength(struct aw_mesh *mesh, const struct aw_graph_app *app, uint32_t s,
                                enum aw_anomaly_kind kind, double strength, const _Atomic int *stop,
                                double *ret, struct aw_diag *diag)
{
    const struct aw_graph_plant plant = aw_mesh_plant(mesh);
    const struct aw_graph_stress none = {{0}, 0, 0};
    struct aw_graph_stress stress = {{0}, 0, 0};
    enum aw_err err = calm(mesh, plant, stop, diag);
    if (err)
        return err;
    aw_anomaly_add(app, s, kind, strength, &stress);
    if ((err = plant.ops->stress(plant.self, s, &stress)))
        aw_fail(diag, err, "%.400s", aw_mesh_trouble(mesh));
    if (!err) {
        (void)missed_share(mesh, plant, SETTLE_NS);
        *ret = missed_share(mesh, plant, SEEN_NS);
    }
    (void)!plant.ops->stress(plant.self, s, &none); /* an end refuses nothing */
    return err;
}

enum aw_err aw_mesh_calibrate(struct aw_mesh *mesh, uint32_t s, enum aw_anomaly_kind kind,
                              const _Atomic int *stop, struct aw_calibration *ret,
                              struct aw_diag *diag)
{
    const struct aw_graph_app *app = aw_mesh_app(mesh);
    double low = 0, start = 1, most = 0, share = 0;
    enum aw_err err = aw_mesh_can(mesh, kind, diag);
    err = err ? err : try_strength(mesh, app, s, kind, 1, stop, &most, diag);
    if (err)
        return err;
    ret->start[s][kind] = ret->end[s][kind] = NAN;
    if (most < AW_ANOMALY_MISSED)
        return AW_OK;
    double end = 1, below = 0;
    for (uint32_t i = 0; i < TRIES && !err; i++) {
        const double middle = 0.5 * (low + start);
        err = try_strength(mesh, app, s, kind, middle, stop, &share, diag);
        if (share >= FAILED && middle < end)
            end = middle;
        else if (share < FAILED && middle > below)
            below = middle;
        *(share >= AW_ANOMALY_MISSED ? &start : &low) = middle;
    }
    below = fmax(below, start);
    for (uint32_t i = 0; i < TRIES && most >= FAILED && end - below > 1.0 / 16 && !err; i++) {
        const double middle = 0.5 * (below + end);
        err = try_strength(mesh, app, s, kind, middle, stop, &share, diag);
        *(share >= FAILED ? &end : &below) = middle;
    }
    if (err)
        return err;
    ret->start[s][kind] = start;
    ret->end[s][kind] = fmax(end, start);
    return AW_OK;
}

/* --- kept ------------------------------------------------------------------------------------- */

void aw_calibration_none(struct aw_calibration *ret)
{
    for (uint32_t s = 0; s < AW_GRAPH_SERVICES_MAX; s++)
        for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
            ret->start[s][k] = ret->end[s][k] = NAN;
}

enum aw_err aw_calibration_write(const char *path, const struct aw_graph_app *app,
                                 const struct aw_calibration *calibration, struct aw_diag *diag)
{
    json_t *pairs = json_array();
    for (uint32_t s = 0; s < app->service_count; s++)
        for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
            if (isfinite(calibration->start[s][k]))
                json_array_append_new(
                    pairs, json_pack("{s:s, s:s, s:f, s:f}", "target", app->services[s].name,
                                     "kind", aw_anomaly_kind_names[k], "start",
                                     calibration->start[s][k], "end", calibration->end[s][k]));
    json_t *document = json_pack("{s:s, s:o}", "application", app->name, "pairs", pairs);
    char *text = document ? json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(document);
    if (!text)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for what was calibrated");
    const enum aw_err err = aw_file_replace(path, text, strlen(text), NULL, diag);
    free(text);
    return err;
}

static enum aw_err pair_read(const struct aw_tree *tree, const struct aw_node *map,
                             const struct aw_graph_app *app, struct aw_calibration *ret,
                             struct aw_diag *diag)
{
    const struct aw_node *target, *kind, *start, *end;
    const char *name, *word;
    double from = 0, to = 0;
    uint32_t k = 0;
    enum aw_err err = aw_tree_require(tree, map, "target", &target, diag);
    err = err ? err : aw_tree_string(tree, target, &name, diag);
    err = err ? err : aw_tree_require(tree, map, "kind", &kind, diag);
    err = err ? err : aw_tree_string(tree, kind, &word, diag);
    err = err ? err : aw_tree_require(tree, map, "start", &start, diag);
    err = err ? err : aw_tree_real(tree, start, 0, 1, &from, diag);
    err = err ? err : aw_tree_require(tree, map, "end", &end, diag);
    err = err ? err : aw_tree_real(tree, end, from, 1, &to, diag);
    if (err)
        return err;
    const uint32_t s = aw_graph_service_find(app, name);
    while (aw_anomaly_kind_names[k] && strcmp(aw_anomaly_kind_names[k], word) != 0)
        k++;
    if (s == AW_GRAPH_NONE)
        return aw_tree_expected(tree, target, AW_ERR_CONFIG, diag, "a service of the graph");
    if (k == AW_ANOMALY_KINDS)
        return aw_tree_expected(tree, kind, AW_ERR_CONFIG, diag, "a kind of anomaly");
    ret->start[s][k] = from;
    ret->end[s][k] = to;
    return AW_OK;
}

enum aw_err aw_calibration_read(const char *path, const struct aw_graph_app *app,
                                struct aw_calibration *ret, struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root, *node;
    if (access(path, F_OK))
        return AW_ERR_NOTFOUND;
    enum aw_err err = aw_tree_load_file(&tree, path, NULL, diag);
    if (err)
        return err;
    err = aw_tree_only(&tree, &root, diag);
    err = err ? err : aw_tree_require(&tree, root, "pairs", &node, diag);
    err = err ? err : aw_tree_list(&tree, node, diag);
    for (node = err ? NULL : node->first; node && !err; node = node->next)
        err = pair_read(&tree, node, app, ret, diag);
    aw_tree_deinit(&tree);
    return err;
}
