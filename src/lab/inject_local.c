/* inject_local.c - the verb `inject` among real processes; see inject.h. */
#include <math.h>
#include <string.h>

#include "frame/stop.h"
#include "lab/inject.h"
#include "mesh/calibrate.h"
#include "trace/write.h"

static enum aw_err calibrate(struct aw_mesh *mesh, struct aw__injection *at, const char *file,
                             struct aw_diag *diag)
{
    const struct aw_campaign *campaign = &at->campaign;
    struct aw_calibration *calibration = &at->calibration;
    enum aw_err err = AW_OK;
    if (campaign->rate > 0)
        return aw_fail(
            diag, AW_ERR_UNSUPPORTED,
            "anomalies are drawn at random among simulated services alone: every pair of "
            "service and kind would have to be calibrated; list them");
    aw_calibration_none(calibration);
    if (file) {
        err = aw_calibration_read(file, &at->app, calibration, diag);
        err = err == AW_ERR_NOTFOUND ? AW_OK : err;
    }
    for (uint32_t i = 0; i < campaign->count && !err; i++) /* before any of them takes its time */
        err = aw_mesh_can(mesh, campaign->anomaly[i].kind, diag);
    for (uint32_t i = 0; i < campaign->count && !err; i++) {
        const struct aw_anomaly *anomaly = &campaign->anomaly[i];
        if (aw_calibration_has(calibration, anomaly->service, anomaly->kind))
            continue;
        err = aw_mesh_calibrate(mesh, anomaly->service, anomaly->kind, &aw_stop_signal, calibration,
                                diag);
        if (!err && !aw_calibration_has(calibration, anomaly->service, anomaly->kind))
            err = aw_fail(diag, AW_ERR_CONFIG,
                          "%s into %s: no request misses its SLO by it, however strong; there is "
                          "nothing to be found",
                          aw_anomaly_kind_names[anomaly->kind],
                          at->app.services[anomaly->service].name);
    }
    return err || !file ? err : aw_calibration_write(file, &at->app, calibration, diag);
}

/* What has come in since the last time. */
static enum aw_err collect(struct aw_mesh *mesh, struct aw__injection *at, int64_t now_ns,
                           FILE *spans_out)
{
    const int64_t second = now_ns / AW_GRAPH_S_NS;
    struct aw_mesh_spans spans;
    uint32_t requests, missed;
    aw_mesh_count(mesh, &requests, &missed);
    aw_mesh_spans(mesh, &spans);
    at->requests += requests;
    at->missed += missed;
    if (second < at->second_count) {
        at->seconds[second].requests += requests;
        at->seconds[second].missed += missed;
    }
    if (!spans_out || !spans.count)
        return AW_OK;
    const enum aw_err err =
        aw_spans_write_json(spans.at, spans.count, aw_mesh_names(mesh), spans_out);
    return err || fputc('\n', spans_out) == EOF ? AW_ERR_IO : AW_OK;
}

static enum aw_err campaign_run(struct aw_mesh *mesh, struct aw__injection *at, FILE *spans_out,
                                struct aw_diag *diag)
{
    const struct aw_graph_plant plant = aw_mesh_plant(mesh);
    struct aw_injector injector;
    int64_t now_ns = 0, next;
    enum aw_err err = AW_OK;
    aw_injector_init(&injector, &at->app, &at->calibration, &at->campaign);
    while (now_ns < at->campaign.duration_ns && !err && !aw_stop_signal) {
        if ((err = aw_injector_step(&injector, plant, &next))) {
            err = aw_fail(diag, err, "%.400s", aw_mesh_trouble(mesh));
            break;
        }
        const int64_t due_ns = (now_ns / AW_GRAPH_S_NS + 1) * AW_GRAPH_S_NS;
        aw_mesh_wait(mesh, next < due_ns ? next : due_ns);
        now_ns = plant.ops->now(plant.self);
        if (collect(mesh, at, now_ns - 1, spans_out))
            err = aw_fail(diag, AW_ERR_IO, "spans cannot be written");
    }
    aw_injector_clean(&injector, plant);
    if (!err && aw_stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
    return err;
}

enum aw_err aw__inject_local(const struct aw_call *run, struct aw__injection *at, FILE *spans_out,
                             struct aw_diag *diag)
{
    const char *graph = aw_args_text(run->args, "graph");
    struct aw_local_settings cluster;
    struct aw_mesh *mesh = NULL;
    struct aw_mesh_config config = {.app = &at->app,
                                    .graph = graph ? graph : at->app.name,
                                    .cluster = &cluster,
                                    .seed = at->campaign.seed};
    aw_conf_defaults(aw_local_fields, &cluster);
    cluster.drain_s = 2;
    aw_mesh_fit(&at->app);
    aw_stop_catch(&(struct aw_stop_config){.twice = true});
    enum aw_err err = aw_mesh_open(&mesh, &config, diag);
    err = err ? err : aw_mesh_ready(mesh, &aw_stop_signal, diag);
    err = err ? err : aw_mesh_load_begin(mesh, diag);
    err = err ? err : calibrate(mesh, at, aw_args_text(run->args, "calibration"), diag);
    err = err ? err : aw_mesh_load_end(mesh, diag); /* time begins anew with the campaign */
    err = err ? err : aw_mesh_load_begin(mesh, diag);
    err = err ? err : campaign_run(mesh, at, spans_out, diag);
    aw_mesh_close(mesh);
    return err;
}
