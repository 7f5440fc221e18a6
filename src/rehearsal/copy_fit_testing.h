/* copy_fit_testing.h - the life of a generated application under a rule-based controller, as a
 * record that copies are made from. Included by tests alone. */
#ifndef AW_REHEARSAL_COPY_FIT_TESTING_H
#define AW_REHEARSAL_COPY_FIT_TESTING_H

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "fallback/fallback.h"
#include "rehearsal/copy_fit.h"

#define STEP_US  INT64_C(15000000)
#define STALE_US INT64_C(120000000)
#define HOURS    3u
#define MINUTES  (60 * HOURS)

/* An application as it is, and what was recorded of it while a rule-based controller scaled it. */
struct life {
    struct aw_app app;
    struct aw_demand demand;
    struct aw_copy_record record;
    float load_per_s[MINUTES];
    int64_t memory_bytes; /* that a replica began with */
};

/* Half of the time replicas have one size, half of it another: what a fit has to go by. The SLO
 * speaks of `quantile`. */
static inline void live_at(uint32_t index, uint64_t seed, double quantile, struct life *life)
{
    aw_app_generate(1, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &life->app);
    aw_app_demand(&life->app, 1, 0, &life->demand);
    struct aw_load load;
    assert_ok(aw_load_parse("diurnal:mean=20,peak=3,period=3600", seed, NULL, &load, NULL));
    aw_load_scale_mean(&load, aw_app_rate_for(&life->app, 2));
    for (uint32_t m = 0; m < MINUTES; m++)
        life->load_per_s[m] = (float)aw_load_mean(&load, m * 4 * STEP_US, (m + 1) * 4 * STEP_US);
    struct aw_sim_settings settings;
    aw_conf_defaults(aw_sim_fields, &settings);
    struct aw_sim *sim = NULL;
    assert_ok(aw_sim_new(&settings, seed, 1, NULL, &sim, NULL));
    const double mib = 1.5 * (life->demand.memory_base_mib + 16 * life->demand.memory_flight_mib);
    const struct aw_sim_workload workload = {.app = life->app,
                                             .load = &load,
                                             .replicas = 4,
                                             .replicas_max = 20,
                                             .cpu_millicores = 1000,
                                             .memory_bytes = (int64_t)mib * AW_MIB};
    life->memory_bytes = workload.memory_bytes;
    uint32_t at;
    assert_ok(aw_sim_add(sim, &workload, &at, NULL));
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    struct aw_fallback_settings hpa;
    aw_conf_defaults(aw_fallback_fields, &hpa);
    hpa.kind = AW_FALLBACK_HPA_VPA_MEM;
    hpa.hpa_target = 50;
    const struct aw_fallback_task task = {
        .bounds = {.min = {1, 100, 32 * AW_MIB}, .max = {20, 4000, 32768 * AW_MIB}},
        .slo_latency_us = 1e9,
        .replicas = 4,
        .cpu_millicores = 1000,
        .memory_bytes = workload.memory_bytes};
    struct aw_fallback *policy = NULL;
    assert_ok(aw_fallback_new(&hpa, &task, NULL, &policy, NULL));
    aw_copy_begin(&life->record);
    const uint32_t steps = HOURS * 240;
    for (uint32_t t = 0; t < steps; t++) {
        struct aw_sample sample;
        if (!cluster.ops->observe(cluster.self, at, INT64_MAX, &sample)) {
            struct aw_reading reading;
            struct aw_plan plan;
            aw_reading_take(&sample, STALE_US, quantile, &reading);
            aw_copy_add(&life->record, &sample, &reading);
            aw_fallback_decide(policy, &sample, sample.at_us, &plan, NULL);
            if (t == steps / 2) {
                plan.set |= AW_PLAN_CPU;
                plan.cpu_millicores = 2000;
            }
            if (plan.set)
                (void)!cluster.ops->apply(cluster.self, at, &plan, INT64_MAX);
        }
        assert_ok(cluster.ops->advance(cluster.self, (t + 1) * STEP_US));
    }
    aw_fallback_free(policy);
    aw_sim_free(sim);
    aw_load_deinit(&load);
}

static inline void live(uint32_t index, uint64_t seed, struct life *life)
{
    live_at(index, seed, 0.99, life);
}

#endif
