/*
 * sim.c - the simulated cluster: how fast it is and, with --fidelity, how true.
 *
 * Fidelity runs random settings (application, rate, cores, replicas) through both models and
 * compares. The applications come from another seed than those the fast model was fitted to.
 */
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/stats.h"
#include "base/threads.h"
#include "cluster/sim.h"
#include "cluster/surrogate.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define STEP_US       15000000
#define FIDELITY_SEED 2024u /* calibration uses 1 */
#define SETTINGS      500u
#define REQUESTS      40000.0 /* followed in each setting below saturation */
#define OVERLOAD      1.1     /* from here on a setting counts as overloaded */
#define OVERLOAD_GROW 1200.0  /* requests by which a replica's queue shall grow then */
#define OVERLOAD_RUNS 4u      /* averaged: a queue's growth is the difference of two noisy rates */
#define BUSY          0.95    /* below it a setting has a steady state to compare */

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct setting {
    struct aw_app app;
    double cores, rate_per_s, load; /* load: share of the capacity */
    uint32_t replicas;
};

struct outcome {
    bool overload;
    double p99_error, p50_error, utilization_error, throughput_error, backlog_error;
};

static void setting_draw(uint32_t index, struct setting *ret)
{
    struct aw_rng rng;
    struct aw_demand demand;
    aw_rng_init(&rng, FIDELITY_SEED, index);
    aw_app_generate(FIDELITY_SEED, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                    &ret->app);
    aw_app_demand(&ret->app, 1, 0, &demand);
    ret->cores = floor(1e3 * exp(aw_rng_uniform(&rng, log(0.1), log(4)))) * 1e-3;
    ret->replicas = 1 + aw_rng_below(&rng, 8);
    ret->load = aw_rng_uniform(&rng, 0.05, 1.5);
    ret->rate_per_s = ret->load * ret->replicas * aw_replica_capacity(&demand, ret->cores);
}

static enum aw_err setting_run(const struct setting *setting, enum aw_sim_model model,
                               uint64_t seed, double warm_s, double span_s,
                               struct aw_sim_truth *ret_truth)
{
    struct aw_sim_settings settings;
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    settings.node_cores = 64;
    settings.node_memory_gib = 4096;
    settings.request_timeout_s = 600; /* a queue may grow as long as it is watched */
    float rate = (float)setting->rate_per_s;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000, .rate_per_s = &rate};
    const struct aw_sim_workload workload = {.app = setting->app,
                                             .load = &load,
                                             .replicas = setting->replicas,
                                             .replicas_max = 8,
                                             .cpu_millicores =
                                                 (int64_t)(setting->cores * 1e3 + 0.5),
                                             .memory_bytes = (int64_t)256 << 30};
    struct aw_sim *sim = NULL;
    uint32_t index;
    enum aw_err err = aw_sim_new(&settings, seed, 1, NULL, &sim, NULL);
    if (!err)
        err = aw_sim_add(sim, &workload, &index, NULL);
    if (!err) {
        struct aw_cluster cluster = aw_sim_cluster(sim);
        if (warm_s > 0)
            err = cluster.ops->advance(cluster.self, (int64_t)(warm_s * 1e6));
        if (!err)
            err = cluster.ops->advance(cluster.self, (int64_t)((warm_s + span_s) * 1e6));
        *ret_truth = *aw_sim_truth(sim, 0);
    }
    aw_sim_free(sim);
    return err;
}

struct fidelity {
    struct outcome outcome[SETTINGS];
    _Atomic uint32_t failures;
};

/* Sums of what is compared; latencies of the last run. */
static void truth_add(struct aw_sim_truth *sum, const struct aw_sim_truth *one)
{
    sum->latency_us_p99 = one->latency_us_p99;
    sum->latency_us_p50 = one->latency_us_p50;
    sum->cpu_core_s += one->cpu_core_s;
    sum->cpu_limit_core_s += one->cpu_limit_core_s;
    sum->completions += one->completions;
    sum->in_flight += one->in_flight;
}

static void compare(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    struct fidelity *fidelity = ctx;
    struct outcome *outcome = &fidelity->outcome[index];
    struct setting setting;
    struct aw_sim_truth want = {0}, got = {0};
    setting_draw(index, &setting);
    outcome->overload = setting.load >= OVERLOAD;
    const double requests =
        outcome->overload ? OVERLOAD_GROW / (1 - 1 / setting.load) * setting.replicas : REQUESTS;
    const double span_s = requests / setting.rate_per_s;
    const double warm_s = outcome->overload ? 0 : span_s * 0.25;
    for (uint64_t run = 1; run <= (outcome->overload ? OVERLOAD_RUNS : 1); run++) {
        struct aw_sim_truth one[2];
        if (setting_run(&setting, AW_SIM_REFERENCE, run, warm_s, span_s, &one[0]) ||
            setting_run(&setting, AW_SIM_FAST, run, warm_s, span_s, &one[1])) {
            fidelity->failures++;
            return;
        }
        truth_add(&want, &one[0]);
        truth_add(&got, &one[1]);
    }
    outcome->p99_error = fabs(got.latency_us_p99 / want.latency_us_p99 - 1);
    outcome->p50_error = fabs(got.latency_us_p50 / want.latency_us_p50 - 1);
    outcome->utilization_error = fabs(got.cpu_core_s - want.cpu_core_s) / want.cpu_limit_core_s;
    outcome->throughput_error = fabs(got.completions / want.completions - 1);
    outcome->backlog_error = fabs(got.in_flight / fmax(want.in_flight, 1) - 1);
    if (!outcome->overload && setting.load >= BUSY)
        outcome->p99_error = NAN; /* neither a steady state nor an overload */
}

static void add_quantiles(struct aw__bench *bench, const struct fidelity *fidelity, bool overload,
                          size_t offset, const char *name, double median_goal, double high_goal)
{
    double value[SETTINGS];
    size_t count = 0;
    for (uint32_t i = 0; i < SETTINGS; i++) {
        const struct outcome *outcome = &fidelity->outcome[i];
        double x = *(const double *)(const void *)((const char *)outcome + offset);
        if (outcome->overload == overload && !isnan(x) && !isnan(outcome->p99_error))
            value[count++] = 100 * x;
    }
    if (count == 0)
        return;
    aw_stats_sort(value, count);
    const double levels[] = {0.5, 0.9}, goals[] = {median_goal, high_goal};
    for (int i = 0; i < 2; i++) {
        struct aw__bench_figure *figure = aw__bench_add(bench, "%", "%s, %s of %zu", name,
                                                        i ? "90th percentile" : "median", count);
        figure->value = aw_stats_quantile(value, count, levels[i]);
        figure->goal = goals[i];
        figure->lower_is_better = true;
    }
}

static enum aw_err fidelity_run(struct aw__bench *bench, struct aw_diag *diag)
{
    struct aw_threads pool;
    struct fidelity *fidelity = aw_alloc_new(NULL, 1, sizeof *fidelity);
    if (!fidelity)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u settings", SETTINGS);
    enum aw_err err = aw_threads_init(&pool, aw_threads_cpu_count(), NULL);
    if (err) {
        aw_alloc_free(NULL, fidelity);
        return aw_fail(diag, err, "no threads for the settings");
    }
    aw_threads_parallel_for(&pool, SETTINGS, 1, compare, fidelity);
    aw_threads_deinit(&pool);
    if (fidelity->failures)
        err = aw_fail(diag, AW_ERR_CHECK, "%u settings could not be run", fidelity->failures);
#define ADD(overload, member, name, median, high) \
    add_quantiles(bench, fidelity, overload, offsetof(struct outcome, member), name, median, high)
    ADD(false, p99_error, "error of p99", 10, 25);
    ADD(false, p50_error, "error of p50", NAN, NAN);
    ADD(false, utilization_error, "error of utilization (points)", 3, 3);
    ADD(true, throughput_error, "overload: error of throughput", 5, 5);
    ADD(true, backlog_error, "overload: error of backlog growth", 10, 10);
#undef ADD
    aw_alloc_free(NULL, fidelity);
    return err ? err : aw__bench_together(bench, diag);
}

/* Workload steps per second of the fast model with `count` workloads on one cluster. */
static enum aw_err speed(struct aw__bench *bench, uint32_t count, struct aw_diag *diag)
{
    struct aw_sim_settings settings;
    struct aw_load_settings load_settings;
    struct aw_load load = {0};
    struct aw_sim *sim = NULL;
    aw_conf_defaults(aw_sim_fields, &settings);
    aw_conf_defaults(aw_load_fields, &load_settings);
    settings.node_count = AW_SIM_NODES_MAX;
    settings.node_cores = 256;
    settings.node_memory_gib = 4096;
    enum aw_err err = aw_load_generate(&load_settings, 1, NULL, &load, diag);
    if (!err)
        err = aw_sim_new(&settings, 1, count, NULL, &sim, diag);
    for (uint32_t w = 0, index; !err && w < count; w++) {
        struct aw_sim_workload workload = {.load = &load,
                                           .replicas = 4,
                                           .replicas_max = 20,
                                           .cpu_millicores = 1000,
                                           .memory_bytes = (int64_t)2 << 30};
        aw_app_generate(1, w, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &workload.app);
        err = aw_sim_add(sim, &workload, &index, diag);
    }
    if (!err) {
        struct aw_cluster cluster = aw_sim_cluster(sim);
        const uint32_t steps = 300000 / count + 10;
        double begin = cpu_seconds();
        for (uint32_t i = 1; !err && i <= steps; i++) {
            struct aw_sample sample;
            err = cluster.ops->advance(cluster.self, (int64_t)i * STEP_US);
            for (uint32_t w = 0; !err && w < count; w++)
                err = cluster.ops->observe(cluster.self, w, 0, &sample);
        }
        struct aw__bench_figure *figure = aw__bench_add(
            bench, "steps/s", "fast model, %u workload%s", count, count == 1 ? "" : "s");
        figure->value = (double)steps * count / (cpu_seconds() - begin);
        figure->goal = 1e6;
    }
    aw_sim_free(sim);
    aw_load_deinit(&load);
    return err;
}

enum aw_err aw__bench_sim(struct aw__bench *bench, struct aw_diag *diag)
{
    if (bench->fidelity)
        return fidelity_run(bench, diag);
    static const uint32_t counts[] = {1, 10, 100, 1000};
    enum aw_err err = AW_OK;
    for (size_t i = 0; !err && i < sizeof counts / sizeof *counts; i++)
        err = speed(bench, counts[i], diag);
    if (err)
        return err;
    struct setting setting;
    struct aw_sim_truth truth;
    setting_draw(0, &setting);
    double begin = cpu_seconds();
    err = setting_run(&setting, AW_SIM_REFERENCE, 1, 0, 200000 / setting.rate_per_s, &truth);
    aw__bench_add(bench, "requests/s", "reference model")->value =
        truth.arrivals / (cpu_seconds() - begin);
    begin = cpu_seconds();
    for (uint32_t i = 0; i < 10000; i++) {
        struct aw_app app;
        aw_app_generate(1, i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
    }
    aw__bench_add(bench, "/s", "applications generated")->value = 10000 / (cpu_seconds() - begin);
    return err;
}
