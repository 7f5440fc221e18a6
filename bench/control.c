/*
 * control.c - one decision for one workload that serves: how long it takes, what it
 * allocates, and what the workload keeps in memory.
 *
 * A pilot is brought to SERVING on the simulated cluster with thresholds that everybody passes and
 * very little learning: what is measured does not depend on how good the policy is. Time is that of
 * the thread, so that other work on the machine does not count.
 */
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/stats.h"
#include "cluster/sim.h"
#include "control/pilot.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#define REPLICAS      5u
#define DECISIONS     20000u
#define WARM_STEPS    20000u /* at most, until it serves */
#define EPISODE_STEPS 100u
#define RATE_PER_S    200.0
#define ANYTHING      1e12 /* a threshold that everybody passes, or nobody reaches */
#define GOAL_US       20.0
#define GOAL_KIB      64.0

struct rig {
    struct aw_alloc_counting counting;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_store store;
    struct aw_pilot *pilot;
    float rate;
    struct aw_load load;
    int64_t step_us;
};

static double thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static void easy(struct aw_pilot_config *config)
{
    config->thresholds = (struct aw_lifecycle_thresholds){-ANYTHING, -ANYTHING, ANYTHING};
    config->lifecycle.fill = config->lifecycle.window = 2;
    config->lifecycle.offline_least = config->lifecycle.stage_least = 1;
    config->lifecycle.drift = 0;
    config->lifecycle.trip_count = AW_LIFECYCLE_TRIPS_MAX;
    config->watchdog.strange = config->watchdog.slack = ANYTHING;
    config->explore_sigma = 0;
    config->learner.updates = config->learner.fit_updates = 50;
    config->retrain = false; /* learning is not what is measured */
}

static enum aw_err rig_open(struct rig *rig, struct aw_diag *diag)
{
    struct aw_sim_settings settings;
    struct aw_sim_workload workload = {.load = &rig->load,
                                       .replicas = REPLICAS,
                                       .replicas_max = 2 * REPLICAS,
                                       .cpu_millicores = 1000,
                                       .memory_bytes = (int64_t)512 << 20};
    uint32_t index;
    aw_alloc_counting_init(&rig->counting);
    aw_conf_defaults(aw_sim_fields, &settings);
    aw_app_generate(1, 39, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &workload.app);
    rig->rate = (float)RATE_PER_S;
    rig->load =
        (struct aw_load){.slot_count = 1, .slot_us = (int64_t)1 << 40, .rate_per_s = &rig->rate};
    enum aw_err err = aw_sim_new(&settings, 1, 1, NULL, &rig->sim, diag);
    err = err ? err : aw_sim_add(rig->sim, &workload, &index, diag);
    err = err ? err : aw_store_open(&rig->store, "memory", NULL, NULL, diag);
    if (err)
        return err;
    rig->cluster = aw_sim_cluster(rig->sim);

    struct aw_pilot_config config;
    aw_pilot_config_init(&config);
    snprintf(config.name, sizeof config.name, "bench");
    config.bounds = (struct aw_bounds){.replicas_min = REPLICAS,
                                       .replicas_max = REPLICAS,
                                       .cpu_millicores_min = 100,
                                       .cpu_millicores_max = 4000,
                                       .memory_bytes_min = (int64_t)64 << 20,
                                       .memory_bytes_max = (int64_t)4 << 30};
    config.slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&workload.app, 1, 0);
    config.episode_steps = EPISODE_STEPS;
    config.in_place = true; /* always so many pods */
    easy(&config);
    rig->step_us = llround(config.step_s * 1e6);
    const struct aw_fallback_task task = {.bounds = config.bounds,
                                          .slo_latency_us = config.slo.latency_us_p99,
                                          .replicas = workload.replicas,
                                          .cpu_millicores = workload.cpu_millicores,
                                          .memory_bytes = workload.memory_bytes};
    return aw_pilot_new(&config, &task, rig->cluster.ops->now_us(rig->cluster.self),
                        &rig->counting.alloc, &rig->pilot, diag);
}

static void rig_close(struct rig *rig)
{
    aw_pilot_free(rig->pilot);
    aw_store_close(&rig->store);
    aw_sim_free(rig->sim);
}

/* One tick; `ret_ns` (may be NULL) is what observing and deciding took. */
static enum aw_err tick(struct rig *rig, double *ret_ns, struct aw_diag *diag)
{
    const struct aw_cluster *cluster = &rig->cluster;
    const int64_t now = cluster->ops->now_us(cluster->self);
    struct aw_sample sample;
    struct aw_store_row row;
    enum aw_err err = cluster->ops->observe(cluster->self, 0, INT64_MAX, &sample);
    if (err && err != AW_ERR_NODATA)
        return aw_fail(diag, err, "the simulated cluster does not answer");
    const double begin = thread_ns();
    const bool finished = aw_pilot_observe(rig->pilot, err ? NULL : &sample, now, &row);
    double ns = thread_ns() - begin;
    if (finished && (err = aw_store_append(&rig->store, &row, diag)))
        return err;
    const double again = thread_ns();
    const struct aw_decision *decision = aw_pilot_decide(rig->pilot, NULL, now);
    ns += thread_ns() - again;
    if (decision->guard.plan.set) {
        err = cluster->ops->apply(cluster->self, 0, &decision->guard.plan, INT64_MAX);
        aw_pilot_applied(rig->pilot, !err, now);
    }
    if (aw_pilot_learn_due(rig->pilot)) {
        err = aw_pilot_recall(rig->pilot, &rig->store, diag);
        err = err ? err : aw_pilot_learn(rig->pilot, diag);
        if (err && err != AW_ERR_NODATA)
            return err;
    }
    if (ret_ns)
        *ret_ns = ns;
    err = cluster->ops->advance(cluster->self, now + rig->step_us);
    return err ? aw_fail(diag, err, "the simulated cluster stopped") : AW_OK;
}

static void figure(struct aw__bench *bench, const char *unit, const char *name, double value,
                   double goal)
{
    struct aw__bench_figure *added = aw__bench_add(bench, unit, "%s", name);
    added->value = value;
    added->goal = goal;
    added->lower_is_better = true;
}

enum aw_err aw__bench_control(struct aw__bench *bench, struct aw_diag *diag)
{
    if (bench->workload_count)
        return aw__bench_fleet(bench, diag);
    struct rig rig = {0};
    double *ns = aw_alloc_new(NULL, DECISIONS, sizeof *ns);
    enum aw_err err = ns ? rig_open(&rig, diag) : aw_fail(diag, AW_ERR_NOMEM, "no memory");
    for (uint32_t i = 0; !err && aw_pilot_stage(rig.pilot) != AW_STAGE_SERVING; i++) {
        err = i < WARM_STEPS ? tick(&rig, NULL, diag)
                             : aw_fail(diag, AW_ERR_CHECK, "the pilot never came to serve");
    }
    const uint64_t before = rig.counting.alloc_count;
    uint32_t by_agent = 0;
    for (uint32_t i = 0; !err && i < DECISIONS; i++) {
        err = tick(&rig, &ns[i], diag);
        by_agent += aw_pilot_decision(rig.pilot)->actor == AW_ACTOR_AGENT;
    }
    if (!err && (aw_pilot_stage(rig.pilot) != AW_STAGE_SERVING || by_agent < DECISIONS / 2))
        err = aw_fail(diag, AW_ERR_CHECK, "the agent took %u of %u decisions only", by_agent,
                      DECISIONS);
    if (!err) {
        aw_stats_sort(ns, DECISIONS);
        figure(bench, "us", "decision in SERVING, median",
               1e-3 * aw_stats_quantile(ns, DECISIONS, 0.5), GOAL_US);
        figure(bench, "us", "decision in SERVING, p99",
               1e-3 * aw_stats_quantile(ns, DECISIONS, 0.99), GOAL_US);
        figure(bench, "", "allocations in 20 000 decisions",
               (double)(rig.counting.alloc_count - before), 0);
        figure(bench, "KiB", "state of a workload in SERVING",
               (double)aw_pilot_bytes(rig.pilot, false) / 1024, GOAL_KIB);
    }
    rig_close(&rig);
    aw_alloc_free(NULL, ns);
    return err;
}
