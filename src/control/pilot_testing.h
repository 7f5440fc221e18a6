/* pilot_testing.h - one workload's pilot on a simulated cluster of its own, tick by tick. */
#ifndef AW_CONTROL_PILOT_TESTING_H
#define AW_CONTROL_PILOT_TESTING_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "control/pilot.h"
#include "simulation/simulate.h"

#define EPISODE 24u
#define STEP_US INT64_C(15000000)

/* One workload on its own cluster; what a test wants to change is changed between prepare and
 * begin, or between ticks. */
struct bench {
    struct aw_pilot_config config;
    struct aw_fallback_task task;
    struct aw_app app;
    struct aw_load load;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_pilot *pilot;
    struct aw_alloc_counting counting;
    /* of the last tick */
    struct aw_store_row row;
    bool finished;
    struct aw_sample sample;
    /* what the cluster is made to show */
    bool silent;         /* it does not answer */
    double latency_more; /* factor on every latency; 0: as it is */
    /* what people order; zeroed: nothing */
    struct aw_orders orders;
};

static inline void bench_prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    aw_app_generate(1, 4, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &b->app);
    assert_ok(aw_load_parse("diurnal:mean=20,period=900", 1, NULL, &b->load, NULL));
    aw_load_scale_mean(&b->load, aw_app_rate_for(&b->app, 1.5));
    struct aw_pilot_config *config = &b->config;
    aw_pilot_config_init(config);
    config->relief.enabled = false; /* what these tests see is the rules alone */
    snprintf(config->name, sizeof config->name, "test/app");
    config->bounds =
        (struct aw_bounds){.min = {1, 100, 128 * AW_MIB}, .max = {10, 4000, 4096 * AW_MIB}};
    config->slo.latency_us_p99 = 4 * aw_app_unloaded_p99_us(&b->app, 1, 0);
    config->seed = 3;
    config->episode_steps = EPISODE;
    config->thresholds = (struct aw_lifecycle_thresholds){-1e9, -1e9, 1e9}; /* anything will do */
    config->lifecycle.offline_least = 4;
    config->rehearse.copies = 1;
    config->rehearse.tries = 4;
    config->rehearse.tries_near = 10;
    config->watchdog.slack = 30; /* a policy of fourteen tries is no good one */
    b->task = (struct aw_fallback_task){.bounds = config->bounds,
                                        .slo_latency_us = config->slo.latency_us_p99,
                                        .replicas = 3,
                                        .cpu_millicores = 1000,
                                        .memory_bytes = 2048 * AW_MIB};
}

static inline void bench_begin(struct bench *b)
{
    struct aw_sim_settings settings;
    struct aw_diag diag = {0};
    aw_conf_defaults(aw_sim_fields, &settings);
    assert_ok(aw_sim_new(&settings, 7, 1, NULL, &b->sim, NULL));
    const struct aw_sim_workload workload = {.app = b->app,
                                             .load = &b->load,
                                             .replicas = b->task.replicas,
                                             .replicas_max = b->config.bounds.replicas_max,
                                             .cpu_millicores = b->task.cpu_millicores,
                                             .memory_bytes = b->task.memory_bytes};
    uint32_t at;
    assert_ok(aw_sim_add(b->sim, &workload, &at, NULL));
    b->cluster = aw_sim_cluster(b->sim);
    aw_alloc_counting_init(&b->counting);
    if (aw_pilot_new(&b->config, &b->task, 0, &b->counting.alloc, &b->pilot, &diag))
        fail_msg("%s", diag.text);
    assert_ok(b->cluster.ops->advance(b->cluster.self, STEP_US));
}

static inline void bench_end(struct bench *b)
{
    aw_pilot_free(b->pilot);
    assert_int_equal(b->counting.alloc_count, b->counting.free_count);
    aw_sim_free(b->sim);
    aw_load_deinit(&b->load);
}

static inline void bench_slow_down(struct aw_sample *sample, double factor)
{
    sample->latency_us_p50.value *= factor;
    sample->latency_us_p95.value *= factor;
    sample->latency_us_p99.value *= factor;
    sample->latency_us_mean.value *= factor;
}

/* One tick; what observe, decide and applied take from the heap is nothing. */
static inline const struct aw_decision *bench_tick(struct bench *b)
{
    const struct aw_cluster *cluster = &b->cluster;
    const int64_t now = cluster->ops->now_us(cluster->self);
    const bool answered = !cluster->ops->observe(cluster->self, 0, INT64_MAX, &b->sample);
    if (answered && b->latency_more > 0)
        bench_slow_down(&b->sample, b->latency_more);
    const uint64_t before = b->counting.alloc_count;
    b->finished =
        aw_pilot_observe(b->pilot, answered && !b->silent ? &b->sample : NULL, now, &b->row);
    const struct aw_decision *decision = aw_pilot_decide(b->pilot, &b->orders, now);
    const struct aw_plan *plan = &decision->guard.plan;
    aw_pilot_applied(b->pilot, plan->set && !cluster->ops->apply(cluster->self, 0, plan, INT64_MAX),
                     now);
    assert_int_equal(b->counting.alloc_count, before);
    if (aw_pilot_learn_due(b->pilot)) {
        struct aw_diag diag = {0};
        assert_ok(aw_pilot_recall(b->pilot, NULL, &diag));
        const enum aw_err err = aw_pilot_learn(b->pilot, &diag);
        if (err && err != AW_ERR_NODATA)
            fail_msg("%s", diag.text);
    }
    assert_ok(cluster->ops->advance(cluster->self, now + STEP_US));
    return decision;
}

/* Until the agent has acted for `steps` ticks in a row. */
static inline void bench_until_it_acts(struct bench *b, uint32_t steps)
{
    uint32_t in_a_row = 0;
    for (uint32_t t = 0; in_a_row < steps; t++) {
        assert_true(t < 30 * EPISODE);
        in_a_row = bench_tick(b)->actor == AW_ACTOR_AGENT ? in_a_row + 1 : 0;
    }
}

#endif
