/*
 * bench.h - one workload on its own simulated cluster, whose readings a test may tamper with.
 *
 * Call order: bench_prepare, change what the test is about, bench_begin, bench_tick, bench_end.
 */
#ifndef AW_COMPLAINTS_BENCH_H
#define AW_COMPLAINTS_BENCH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "control/pilot.h"
#include "simulation/simulate.h"

struct bench {
    struct aw_pilot_config config;
    struct aw_fallback_task task;
    struct aw_sim_settings settings;
    const char *load_text; /* NULL: `cores` by half hours */
    double cores[2];       /* that the load keeps busy, first and then; 0: as the first */
    float rate[2];
    struct aw_app app;
    struct aw_load load;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_pilot *pilot;
    struct aw_sample sample; /* of the last tick, as it was seen */
    struct aw_pod pods[AW_CLUSTER_PODS_MAX];
    int64_t step_us;
    struct aw_orders orders;

    bool silent;             /* the cluster does not answer */
    enum aw_err apply_fails; /* what apply says, without doing anything; AW_OK: as it is */
    void (*tamper)(struct bench *b, struct aw_sample *sample); /* NULL: as it is */
    uint32_t applied;                                          /* plans that were taken */
};

static inline void bench_prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->cores[0] = 2;
    b->step_us = INT64_C(15000000);
    aw_app_generate(1, 4, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &b->app);
    aw_conf_defaults(aw_sim_fields, &b->settings);
    struct aw_pilot_config *config = &b->config;
    aw_pilot_config_init(config);
    snprintf(config->name, sizeof config->name, "shop/cart");
    config->bounds =
        (struct aw_bounds){.min = {1, 100, 128 * AW_MIB}, .max = {20, 4000, 4096 * AW_MIB}};
    config->slo.latency_us_p99 = 4 * aw_app_unloaded_p99_us(&b->app, 1, 0);
    config->seed = 3;
    config->learning = false;
    b->task = (struct aw_fallback_task){
        .replicas = 4, .cpu_millicores = 1000, .memory_bytes = 2048 * AW_MIB};
}

static inline void bench_begin(struct bench *b)
{
    struct aw_diag diag = {0};
    if (b->load_text) {
        assert_ok(aw_load_parse(b->load_text, 1, NULL, &b->load, NULL));
        aw_load_scale_mean(&b->load, aw_app_rate_for(&b->app, b->cores[0]));
    } else {
        for (uint32_t i = 0; i < 2; i++)
            b->rate[i] = (float)aw_app_rate_for(&b->app, b->cores[b->cores[i] > 0 ? i : 0]);
        b->load = (struct aw_load){
            .slot_count = 2, .slot_us = INT64_C(1800000000), .rate_per_s = b->rate};
    }
    b->task.bounds = b->config.bounds;
    b->task.slo_latency_us = b->config.slo.latency_us_p99;
    assert_ok(aw_sim_new(&b->settings, 7, 1, NULL, &b->sim, NULL));
    const struct aw_sim_workload workload = {.app = b->app,
                                             .load = &b->load,
                                             .replicas = b->task.replicas,
                                             .replicas_max = b->config.bounds.replicas_max,
                                             .cpu_millicores = b->task.cpu_millicores,
                                             .memory_bytes = b->task.memory_bytes};
    uint32_t at;
    assert_ok(aw_sim_add(b->sim, &workload, &at, NULL));
    b->cluster = aw_sim_cluster(b->sim);
    if (aw_pilot_new(&b->config, &b->task, 0, NULL, &b->pilot, &diag))
        fail_msg("%s", diag.text);
    assert_ok(b->cluster.ops->advance(b->cluster.self, b->step_us));
}

static inline void bench_end(struct bench *b)
{
    aw_pilot_free(b->pilot);
    aw_sim_free(b->sim);
    if (b->load_text)
        aw_load_deinit(&b->load);
}

/* The controller ends and begins anew; `keep` NULL: it has lost its state. The cluster lives on. */
static inline void bench_restart(struct bench *b, bool keep)
{
    void *state = NULL;
    if (keep) {
        state = malloc(aw_pilot_state_bytes(b->pilot));
        assert_non_null(state);
        aw_pilot_state_save(b->pilot, state);
    }
    aw_pilot_free(b->pilot);
    b->task.replicas = b->sample.replicas_wanted;
    b->task.cpu_millicores = b->sample.cpu_millicores_wanted;
    b->task.memory_bytes = b->sample.memory_bytes_wanted;
    assert_ok(aw_pilot_new(&b->config, &b->task, b->cluster.ops->now_us(b->cluster.self), NULL,
                           &b->pilot, NULL));
    if (keep)
        assert_ok(aw_pilot_state_load(b->pilot, state));
    free(state);
}

static inline const struct aw_decision *bench_tick(struct bench *b)
{
    const struct aw_cluster *cluster = &b->cluster;
    const int64_t now = cluster->ops->now_us(cluster->self);
    const bool answered = !cluster->ops->observe(cluster->self, 0, INT64_MAX, &b->sample);
    if (answered) {
        memcpy(b->pods, b->sample.pods, b->sample.pod_count * sizeof *b->pods);
        b->sample.pods = b->pods;
        if (b->tamper)
            b->tamper(b, &b->sample);
    }
    struct aw_store_row row;
    (void)aw_pilot_observe(b->pilot, answered && !b->silent ? &b->sample : NULL, now, &row);
    const struct aw_decision *decision = aw_pilot_decide(b->pilot, &b->orders, now);
    const struct aw_plan *plan = &decision->guard.plan;
    if (plan->set) {
        const enum aw_err err = b->apply_fails
                                    ? b->apply_fails
                                    : cluster->ops->apply(cluster->self, 0, plan, INT64_MAX);
        aw_pilot_applied(b->pilot, !err, now);
        b->applied += !err;
    }
    if (aw_pilot_learn_due(b->pilot)) {
        assert_ok(aw_pilot_recall(b->pilot, NULL, NULL));
        const enum aw_err err = aw_pilot_learn(b->pilot, NULL);
        assert_true(!err || err == AW_ERR_NODATA);
    }
    assert_ok(cluster->ops->advance(cluster->self, now + b->step_us));
    return decision;
}

static inline void bench_run(struct bench *b, uint32_t ticks)
{
    for (uint32_t i = 0; i < ticks; i++)
        bench_tick(b);
}

/* Ticks in which something shrank. */
static inline uint32_t bench_shrinks(struct bench *b, uint32_t ticks)
{
    uint32_t shrinks = 0;
    for (uint32_t i = 0; i < ticks; i++) {
        const struct aw_decision *d = bench_tick(b);
        const struct aw_plan *plan = &d->guard.plan;
        shrinks +=
            ((plan->set & AW_PLAN_REPLICAS) && plan->replicas < d->reading.replicas_wanted) ||
            ((plan->set & AW_PLAN_CPU) &&
             plan->cpu_millicores < d->reading.cpu_millicores_wanted) ||
            ((plan->set & AW_PLAN_MEMORY) && plan->memory_bytes < d->reading.memory_bytes_wanted);
    }
    return shrinks;
}

#endif
