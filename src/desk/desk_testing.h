/* desk_testing.h - two simulated workloads, a loop and a desk over a disk in memory; included
 * by tests alone. */
#ifndef AW_DESK_DESK_TESTING_H
#define AW_DESK_DESK_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk_sim.h"
#include "base/hash.h"
#include "base/testing.h"
#include "desk/desk.h"
#include "simulation/job.h"
#include "simulation/simulate.h"

#define WORKLOADS 2u
#define FOLDER    "/state/audit"

struct bench {
    struct aw_job_workload workload[WORKLOADS];
    struct aw_fallback_task task[WORKLOADS];
    struct aw_load load[WORKLOADS];
    struct aw_job_config config;
    struct aw_disk_sim disk;
    struct aw_desk_config steward_config;
    struct aw_desk *desk;
    struct aw_job *job;
    uint64_t applied[WORKLOADS]; /* plans, told by the job */
    struct aw_plan plan[WORKLOADS];
    uint64_t hash;
};

static inline void prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    assert_ok(aw_disk_sim_init(&b->disk, 1, NULL));
    for (uint32_t i = 0; i < WORKLOADS; i++) {
        struct aw_job_workload *w = &b->workload[i];
        aw_app_generate(1, 3 + i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &w->app);
        assert_ok(aw_load_parse("bursts:mean=20,peak=4,period=1800", 1, NULL, &b->load[i], NULL));
        aw_load_scale_mean(&b->load[i], aw_app_rate_for(&w->app, 1.5));
        w->load = &b->load[i];
        aw_pilot_config_init(&w->pilot);
        w->pilot.relief.enabled = false; /* what these tests see is the rules alone */
        snprintf(w->pilot.name, sizeof w->pilot.name, i ? "bank/cart" : "shop/cart-%u", i);
        w->pilot.bounds =
            (struct aw_bounds){.min = {1, 100, 128 << 20}, .max = {12, 4000, (int64_t)4 << 30}};
        w->pilot.slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&w->app, 1, 0);
        w->pilot.seed = i + 1;
        w->pilot.learning = false;
        w->task = (struct aw_fallback_task){.bounds = w->pilot.bounds,
                                            .slo_latency_us = w->pilot.slo.latency_us_p99,
                                            .replicas = 3,
                                            .cpu_millicores = 1000,
                                            .memory_bytes = (int64_t)2 << 30};
        b->task[i] = w->task;
    }
    b->config = (struct aw_job_config){
        .workloads = b->workload, .count = WORKLOADS, .seed = 7, .thread_count = 1};
    aw_conf_defaults(aw_sim_fields, &b->config.sim);
    b->steward_config.disk = &b->disk.disk;
    snprintf(b->steward_config.folder, sizeof b->steward_config.folder, FOLDER);
}

static inline void begin(struct bench *b)
{
    struct aw_diag diag = {0};
    if (aw_desk_new(&b->steward_config, NULL, &b->desk, NULL, &diag))
        fail_msg("%s", diag.text);
    b->config.hooks = aw_desk_hooks(b->desk);
    b->config.steadfast = true;
    if (aw_job_new(&b->config, NULL, &b->job, &diag))
        fail_msg("%s", diag.text);
}

static inline void attach(struct bench *b)
{
    struct aw_diag diag = {0};
    if (aw_desk_attach(b->desk, aw_job_loop(b->job), b->task, aw_job_now_us(b->job), &diag))
        fail_msg("%s", diag.text);
}

static inline void stop(struct bench *b)
{
    if (b->desk)
        aw_desk_detach(b->desk, aw_job_now_us(b->job), "the test is over");
    aw_job_free(b->job);
    aw_desk_free(b->desk);
    b->job = NULL;
    b->desk = NULL;
}

static inline void end(struct bench *b)
{
    stop(b);
    aw_disk_sim_deinit(&b->disk);
    for (uint32_t i = 0; i < WORKLOADS; i++)
        aw_load_deinit(&b->load[i]);
}

static inline void watch(void *ctx, const struct aw_job_step *step)
{
    struct bench *b = ctx;
    const struct aw_plan *plan = &step->decision->guard.plan;
    if (plan->set && step->decision->applied)
        b->applied[step->workload]++;
    b->plan[step->workload] = *plan;
    const uint64_t word[] = {plan->replicas, (uint64_t)plan->cpu_millicores,
                             (uint64_t)plan->memory_bytes, step->decision->guard.clips};
    b->hash = aw_hash_bytes(b->hash, word, sizeof word);
}

static inline void run(struct bench *b, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        struct aw_diag diag = {0};
        if (aw_job_step(b->job, watch, b, &diag))
            fail_msg("step %u: %s", i, diag.text);
    }
}

static inline struct aw_order order_of(uint32_t kind, uint32_t scope, const char *name)
{
    struct aw_order order = {.kind = kind,
                             .scope = scope,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER,
                             .reason = "a test"};
    snprintf(order.name, sizeof order.name, "%s", name);
    return order;
}

static inline uint64_t give(struct bench *b, const struct aw_order *order)
{
    struct aw_diag diag = {0};
    uint64_t id = 0;
    if (aw_desk_order(b->desk, order, aw_job_now_us(b->job), &id, &diag))
        fail_msg("%s", diag.text);
    return id;
}

static inline enum aw_err refused(struct bench *b, const struct aw_order *order,
                                  struct aw_diag *diag)
{
    *diag = (struct aw_diag){0};
    return aw_desk_order(b->desk, order, aw_job_now_us(b->job), NULL, diag);
}

#endif
