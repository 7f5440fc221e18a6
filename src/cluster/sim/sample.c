/* sample.c - calibration samples: one replica on a large node, followed request by request. */
#include "cluster/sim.h"
#include "cluster/surrogate.h"

#include "base/stats.h"

#include <math.h>

#define WINDOW_US   15e6
#define WARM_SHARE  0.2 /* of the requests */
#define WINDOWS_MIN 60.0
#define WINDOWS_MAX 20000.0

static void draw_replica(uint64_t seed, uint32_t index, struct aw_app *ret_app,
                         struct aw_sim_disturbance *ret_disturbance, struct aw_replica *ret)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, (1ull << 32) + index);
    aw_app_generate(seed, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, ret_app);
    /* Users' own applications have other numbers of workers than the built-in kinds, one included.
     */
    if (aw_rng_double(&rng) < 0.4) {
        const uint32_t threads = (uint32_t)exp(aw_rng_uniform(&rng, 0, log(64)));
        for (uint32_t i = 0; i < ret_app->segment_count; i++)
            ret_app->segment[i].threads = threads;
    }
    *ret_disturbance = aw_sim_undisturbed;
    if (aw_rng_double(&rng) < 0.5) {
        ret_disturbance->payload = exp(aw_rng_uniform(&rng, log(0.3), log(12)));
        ret_disturbance->cpu_slowdown = exp(aw_rng_uniform(&rng, 0, log(2)));
        ret_disturbance->io_slowdown = exp(aw_rng_uniform(&rng, 0, log(3)));
    }
    aw_app_demand(ret_app, ret_disturbance->payload, 0, &ret->demand);
    ret->demand.cpu_ms *= ret_disturbance->cpu_slowdown;
    ret->demand.io_ms *= ret_disturbance->io_slowdown;
    ret->cores = floor(1e3 * exp(aw_rng_uniform(&rng, log(0.1), log(8)))) * 1e-3;
    double load = aw_rng_uniform(&rng, 0.01, AW_SURROGATE_LOAD_MAX);
    ret->rate_per_s = load * aw_replica_capacity(&ret->demand, ret->cores);
}

/* Figures of many windows folded into one steady state. The histogram of a step is reset each step,
 * so quantiles over the whole run come from one long step; spreads from the windows. */
struct fold {
    struct aw_running log_p99, peak;
};

static enum aw_err follow(struct aw_sim *sim, double span_us, double *now_us)
{
    struct aw_cluster cluster = aw_sim_cluster(sim);
    *now_us += span_us;
    return cluster.ops->advance(cluster.self, (int64_t)*now_us);
}

enum aw_err aw_surrogate_sample(uint64_t seed, uint32_t index, uint32_t request_count,
                                struct aw_replica *ret_replica, struct aw_steady *ret_steady,
                                struct aw_diag *diag)
{
    struct aw_app app;
    struct aw_sim_disturbance disturbance;
    struct aw_replica replica;
    draw_replica(seed, index, &app, &disturbance, &replica);

    struct aw_sim_settings settings;
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = AW_SIM_REFERENCE;
    settings.node_count = 1;
    settings.node_cores = 512; /* the quota alone limits */
    settings.node_memory_gib = 65536;
    settings.request_timeout_s = 3600;
    float rate = (float)replica.rate_per_s;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &rate};
    const struct aw_sim_workload workload = {.app = app,
                                             .load = &load,
                                             .replicas = 1,
                                             .replicas_max = 1,
                                             .cpu_millicores = (int64_t)(replica.cores * 1e3 + 0.5),
                                             .memory_bytes = (int64_t)1 << 45};
    struct aw_sim *sim = NULL;
    uint32_t w;
    double now_us = 0;
    struct fold fold = {0};
    enum aw_err err = aw_sim_new(&settings, seed + index, 1, NULL, &sim, diag);
    if (!err)
        err = aw_sim_add(sim, &workload, &w, diag);
    if (err)
        goto out;
    aw_sim_disturb(sim, 0, &disturbance);
    const double span_us = request_count / replica.rate_per_s * 1e6;
    double windows = fmin(fmax(span_us / 3 / WINDOW_US, WINDOWS_MIN), WINDOWS_MAX);
    err = follow(sim, WARM_SHARE * span_us, &now_us);
    for (double i = 0; !err && i < windows; i++) {
        err = follow(sim, WINDOW_US, &now_us);
        const struct aw_sim_truth *truth = aw_sim_truth(sim, 0);
        if (truth->completions > 0)
            aw_running_push(&fold.log_p99, log(truth->latency_us_p99));
        aw_running_push(&fold.peak, truth->in_flight_peak);
    }
    if (!err)
        err = follow(sim, span_us, &now_us);
    if (err)
        goto out;
    const struct aw_sim_truth *truth = aw_sim_truth(sim, 0);
    *ret_replica = replica;
    *ret_steady = (struct aw_steady){
        .mean_us = truth->latency_us_mean,
        .p50_us = truth->latency_us_p50,
        .p95_us = truth->latency_us_p95,
        .p99_us = truth->latency_us_p99,
        .throttled_share = truth->throttled_share,
        .in_flight = replica.rate_per_s * truth->latency_us_mean * 1e-6,
        .in_flight_peak = fold.peak.mean,
        .p99_spread = fmax(aw_running_std(&fold.log_p99), 1e-3),
    };
out:
    aw_sim_free(sim);
    return err;
}
