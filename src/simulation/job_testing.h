/* job_testing.h - two workloads of different kinds, small enough that a test of hundreds of steps
 * takes a moment, learning included. */
#ifndef AW_SIMULATION_JOB_TESTING_H
#define AW_SIMULATION_JOB_TESTING_H

#include "simulation/job.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/testing.h"
#include "simulation/simulate.h"

#define WORKLOADS 2u
#define EPISODE   24u

struct bench {
    struct aw_job_workload workload[WORKLOADS];
    struct aw_load load[WORKLOADS];
    struct aw_job_config config;
    struct aw_store store;
    struct aw_job *job;
};

static inline void prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_job_workload *w = &b->workload[i];
        aw_app_generate(1, 3 + i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &w->app);
        assert_ok(
            aw_load_parse(i ? "bursts:mean=20,peak=3,period=600" : "diurnal:mean=20,period=900", 1,
                          NULL, &b->load[i], NULL));
        aw_load_scale_mean(&b->load[i], aw_app_rate_for(&w->app, 1.5));
        w->load = &b->load[i];
        aw_pilot_config_init(&w->pilot);
        snprintf(w->pilot.name, sizeof w->pilot.name, "test/app-%u", i);
        w->pilot.bounds =
            (struct aw_bounds){.min = {1, 100, 128 << 20}, .max = {10, 4000, (int64_t)4 << 30}};
        w->pilot.slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&w->app, 1, 0);
        w->pilot.seed = i + 1;
        w->pilot.episode_steps = EPISODE;
        w->pilot.thresholds.online = -1e9; /* whatever was learned may act */
        w->pilot.lifecycle.offline_least = 4;
        w->pilot.agent = i ? AW_POLICY_CAPACITY : AW_POLICY_NETWORK;
        w->pilot.slo_budget = 0.2; /* few tries find nothing better */
        w->pilot.rehearse.error_max = 100;
        w->pilot.rehearse.copies = 1;
        w->pilot.rehearse.tries = 4;
        w->pilot.rehearse.tries_near = 10;
        w->pilot.learner.episodes = 8;
        w->pilot.learner.hidden = 8;
        w->pilot.learner.updates = 6;
        w->pilot.learner.fit_updates = 6;
        w->pilot.learner.batch = 8;
        w->pilot.learner.ope.members = 2;
        w->pilot.learner.ope.hidden = 8;
        w->pilot.learner.ope.fqe_updates = 6;
        w->pilot.learner.ope.model_updates = 6;
        w->pilot.learner.ope.model_rollouts = 2;
        struct aw_plan start = {
            .replicas = 3, .cpu_millicores = 1000, .memory_bytes = (int64_t)2 << 30};
        w->task = (struct aw_fallback_task){.bounds = w->pilot.bounds,
                                            .slo_latency_us = w->pilot.slo.latency_us_p99,
                                            .replicas = start.replicas,
                                            .cpu_millicores = start.cpu_millicores,
                                            .memory_bytes = start.memory_bytes};
    }
    b->config = (struct aw_job_config){
        .workloads = b->workload, .count = WORKLOADS, .seed = 7, .twin = true, .thread_count = 1};
    aw_conf_defaults(aw_sim_fields, &b->config.sim);
}

static inline void begin(struct bench *b)
{
    assert_ok(aw_store_open(&b->store, "memory", &(struct aw_store_options){0}, NULL, NULL));
    b->config.store = &b->store;
    struct aw_diag diag = {0};
    if (aw_job_new(&b->config, NULL, &b->job, &diag))
        fail_msg("%s", diag.text);
}

static inline void end(struct bench *b)
{
    aw_job_free(b->job);
    aw_store_close(&b->store);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        aw_load_deinit(&b->load[i]);
}

/* One number for everything that was decided: any difference shows. */
static inline void listen(void *ctx, const struct aw_job_step *step)
{
    uint64_t *h = ctx;
    const struct aw_decision *d = step->decision;
    *h = aw_hash_bytes(*h, &d->at_us, sizeof d->at_us);
    *h = aw_hash_bytes(*h, &d->stage, sizeof d->stage);
    *h = aw_hash_bytes(*h, &d->actor, sizeof d->actor);
    *h = aw_hash_bytes(*h, &d->policy_id, sizeof d->policy_id);
    *h = aw_hash_bytes(*h, d->action, sizeof d->action);
    *h = aw_hash_bytes(*h, &d->guard.plan.replicas, sizeof d->guard.plan.replicas);
    *h = aw_hash_bytes(*h, &d->guard.plan.cpu_millicores, sizeof d->guard.plan.cpu_millicores);
    *h = aw_hash_bytes(*h, &d->guard.plan.memory_bytes, sizeof d->guard.plan.memory_bytes);
    *h = aw_hash_bytes(*h, &d->guard.clips, sizeof d->guard.clips);
    *h = aw_hash_bytes(*h, &step->truth[AW_JOB_AWARE].cost, sizeof(double));
}

static inline uint64_t run(struct bench *b, uint32_t steps)
{
    uint64_t h = AW_HASH_BEGIN;
    for (uint32_t i = 0; i < steps; i++) {
        struct aw_diag diag = {0};
        if (aw_job_step(b->job, listen, &h, &diag))
            fail_msg("step %u: %s", i, diag.text);
    }
    return h;
}

#endif
