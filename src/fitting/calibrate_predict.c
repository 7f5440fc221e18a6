/* calibrate_predict.c - a setting of real processes, put to the simulated cluster. */
#include "fitting/calibrate.h"

#include "base/stats.h"
#include "cluster/sim.h"

#include <math.h>

#define WARM_UP_US        1000000.0
#define SATURATED         0.95 /* load from where on backlog grows: each span begins anew */
#define SATURATED_WINDOWS 3u   /* and differ little */
#define TIMEOUT_S         20
#define MEMORY_GIB        65536
#define MIB_PER_GIB       1024.0

const char *const aw_calibrate_model_names[] = {"reference", "fast", NULL};

static enum aw_err sim_make(enum aw_calibrate_model model, const struct aw_app *app,
                            const struct aw_calibrate_world *world,
                            const struct aw_calibrate_setting *setting, const struct aw_load *load,
                            struct aw_sim **ret, struct aw_diag *diag)
{
    struct aw_sim_settings settings;
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model == AW_CALIBRATE_FAST ? AW_SIM_FAST : AW_SIM_REFERENCE;
    settings.node_count = 1;
    settings.node_cores = world->node_cores;
    settings.node_memory_gib = MEMORY_GIB;
    settings.request_timeout_s = TIMEOUT_S;
    settings.routing = AW_SIM_LEAST;
    const struct aw_sim_workload workload = {
        .app = *app,
        .load = load,
        .replicas = setting->size.replicas,
        .replicas_max = setting->size.replicas,
        .cpu_millicores = setting->size.cpu_millicores,
        .memory_bytes = (int64_t)1 << 40,
    };
    struct aw_sim *sim = NULL;
    uint32_t index;
    enum aw_err err = aw_sim_new(&settings, world->seed, 1, NULL, &sim, diag);
    if (!err)
        err = aw_sim_add(sim, &workload, &index, diag);
    if (err)
        aw_sim_free(sim);
    else
        *ret = sim;
    return err;
}

struct windows {
    double p50[AW_CALIBRATE_WINDOWS_MAX], p99[AW_CALIBRATE_WINDOWS_MAX],
        mean[AW_CALIBRATE_WINDOWS_MAX];
    uint32_t count;
    double span_s, requests, cpu_core_s, limit_core_s, completions, memory_gib_s, replica_s;
};

static void window_add(struct windows *w, const struct aw_sim_truth *truth, double span_s)
{
    w->span_s += span_s;
    w->cpu_core_s += truth->cpu_core_s;
    w->limit_core_s += truth->cpu_limit_core_s;
    w->completions += truth->completions;
    w->requests += truth->arrivals;
    w->memory_gib_s += truth->memory_gib_s;
    w->replica_s += truth->replica_s;
    if (!isfinite(truth->latency_us_p99))
        return; /* nobody came */
    w->p50[w->count] = 1e-3 * truth->latency_us_p50;
    w->p99[w->count] = 1e-3 * truth->latency_us_p99;
    w->mean[w->count] = 1e-3 * truth->latency_us_mean;
    w->count++;
}

static double median(double *value, uint32_t count)
{
    if (count == 0)
        return NAN;
    aw_stats_sort(value, count);
    return aw_stats_median(value, count);
}

static enum aw_err follow(struct aw_sim *sim, double span_us, double *now_us)
{
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    *now_us += span_us;
    return cluster.ops->advance(cluster.self, (int64_t)*now_us);
}

enum aw_err aw_calibrate_predict(enum aw_calibrate_model model, const struct aw_app *app,
                                 const struct aw_calibrate_world *world,
                                 const struct aw_calibrate_setting *setting,
                                 const struct aw_calibrate_figures *measured,
                                 struct aw_calibrate_figures *ret, struct aw_diag *diag)
{
    float rate = (float)(measured ? measured->requests / setting->span_s : setting->rate_per_s);
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &rate};
    struct windows w = {0};
    struct aw_sim *sim = NULL;
    double now_us = 0;
    const bool saturated = setting->load >= SATURATED;
    const uint32_t windows =
        saturated && world->windows > SATURATED_WINDOWS ? SATURATED_WINDOWS : world->windows;
    if (setting->size.replicas * 1e-3 * (double)setting->size.cpu_millicores > world->node_cores)
        return aw_fail(diag, AW_ERR_RANGE, "%u replicas of %lld millicores on %g cores",
                       setting->size.replicas, (long long)setting->size.cpu_millicores,
                       world->node_cores);
    AW_ASSERT(world->windows > 0 && world->windows <= AW_CALIBRATE_WINDOWS_MAX);
    enum aw_err err = sim_make(model, app, world, setting, &load, &sim, diag);
    for (uint32_t i = 0; !err && i < windows; i++) {
        if (i > 0 && saturated) {
            err = aw_sim_reset(sim, world->seed + i);
            now_us = 0;
        }
        if (!err && now_us == 0)
            err = follow(sim, WARM_UP_US, &now_us);
        if (!err)
            err = follow(sim, 1e6 * setting->span_s, &now_us);
        if (!err)
            window_add(&w, aw_sim_truth(sim, 0), setting->span_s);
    }
    if (err) {
        aw_sim_free(sim);
        return err;
    }
    *ret = (struct aw_calibrate_figures){
        .requests = w.requests / windows,
        .p50_ms = median(w.p50, w.count),
        .p99_ms = median(w.p99, w.count),
        .mean_ms = median(w.mean, w.count),
        .utilisation = w.cpu_core_s / w.limit_core_s,
        .throughput_per_s = w.completions / w.span_s,
        .memory_mib = w.memory_gib_s / w.replica_s * MIB_PER_GIB,
        .others_cores = NAN,
    };
    aw_sim_free(sim);
    return AW_OK;
}
