/*
 * explanation_testing.h - a control loop on the simulated cluster on many bad days, with somebody
 * at the desk who takes every decision again. Included by tests alone.
 */
#ifndef AW_DESK_EXPLANATION_TESTING_H
#define AW_DESK_EXPLANATION_TESTING_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "control/loop.h"
#include "desk/explanation.h"
#include "simulation/simulate.h"

#define AW_BENCH_WORKLOADS 4u
#define AW_BENCH_EPISODE   24u
#define AW_BENCH_STEP_US   INT64_C(15000000)

/* What a run has come through: a test that never saw a freeze proves nothing about freezes. */
struct aw_bench_seen {
    uint32_t stages, actors, verdicts, clips; /* bits */
    uint32_t decisions, changes, silent, missing, homing, moved, frozen, pinned, floored, canaries;
    uint32_t notable;
};

struct aw_bench;
typedef void aw_bench_decided(struct aw_bench *b, uint32_t workload,
                              const struct aw_decision *decision, const void *moment,
                              size_t moment_bytes);

struct aw_bench {
    struct aw_pilot_config config[AW_BENCH_WORKLOADS];
    struct aw_fallback_task task[AW_BENCH_WORKLOADS];
    struct aw_app app[AW_BENCH_WORKLOADS];
    struct aw_load load[AW_BENCH_WORKLOADS];
    struct aw_sim *sim;
    struct aw_cluster inner, outer;
    struct aw_cluster_ops ops;
    struct aw_store store;
    struct aw_loop_hooks hooks;
    struct aw_loop *loop;
    const struct aw_clock *clock; /* that agents are timed by; NULL: none */
    uint32_t ticks;
    bool calm; /* no bad days and no orders */
    aw_bench_decided *decided;
    void *ctx;
    struct aw_bench_seen seen;
    struct aw_explanation_noted before[AW_BENCH_WORKLOADS];
};

/* --- a cluster with bad days -------------------------------------------------------------------
 */

static inline enum aw_err aw_bench_observe(void *self, uint32_t workload, int64_t deadline_us,
                                           struct aw_sample *ret)
{
    struct aw_bench *b = self;
    const enum aw_err err = b->inner.ops->observe(b->inner.self, workload, deadline_us, ret);
    const uint32_t day = b->ticks % 97;
    if (err || b->calm)
        return err;
    if (day >= 60 && day < 63)
        return AW_ERR_UNAVAILABLE;
    if (day == 66 || day == 67)
        ret->cpu_cores_used.at_us = AW_NEVER;
    if (day == 69)
        ret->arrivals_per_s.value = NAN;
    if (day == 71)
        ret->memory_bytes_used.value = -1;
    if (day == 73)
        ret->latency_us_p99.value = 1e308;
    if (day >= 75 && day < 79)
        ret->arrivals_per_s.at_us = ret->cpu_cores_used.at_us -= 1000 * AW_BENCH_STEP_US;
    if (day == 81)
        ret->oom_kills = ret->restarts = 2;
    if (day == 84)
        ret->restarts = 40;
    return AW_OK;
}

static inline enum aw_err aw_bench_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                                         int64_t deadline_us)
{
    struct aw_bench *b = self;
    if (!b->calm && b->ticks % 31 == 7)
        return AW_ERR_CONFLICT;
    return b->inner.ops->apply(b->inner.self, workload, plan, deadline_us);
}

static inline int64_t aw_bench_now_us(const void *self)
{
    const struct aw_bench *b = self;
    return b->inner.ops->now_us(b->inner.self);
}

/* --- somebody at the desk ----------------------------------------------------------------------
 */

static inline void aw_bench_nothing(void *ctx)
{
    (void)ctx;
}

static inline void aw_bench_orders(void *ctx, uint32_t workload, int64_t now_us,
                                   struct aw_orders *ret)
{
    struct aw_bench *b = ctx;
    const uint32_t day = (b->ticks + 7 * workload) % 53;
    (void)now_us;
    if (b->calm)
        return;
    if (day >= 10 && day < 16) {
        ret->freeze = day < 13 ? AW_GUARD_FREEZE_ALL : AW_GUARD_FREEZE_DOWN;
        ret->freeze_id = 1000 + b->ticks / 53;
    }
    if (day == 22 || day == 23) {
        ret->pin_kind = day == 22 ? AW_ORDER_UNDO : AW_ORDER_APPROVE;
        ret->pin_id = 2000 + b->ticks;
        ret->pin = (struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_CPU,
                                    .replicas = 2 + day % 3,
                                    .cpu_millicores = 700 + 10 * (int64_t)day};
    }
    if (day >= 30 && day < 36) {
        ret->floor_id = 3000 + b->ticks / 53;
        ret->urgent = day < 33;
        ret->floor = (struct aw_plan){
            .set = AW_PLAN_REPLICAS | AW_PLAN_MEMORY, .replicas = 5, .memory_bytes = 3000 * AW_MIB};
    }
}

static inline void aw_bench_tell(void *ctx, uint32_t workload, const struct aw_decision *d,
                                 const void *moment, size_t moment_bytes)
{
    struct aw_bench *b = ctx;
    struct aw_bench_seen *seen = &b->seen;
    seen->stages |= 1u << d->stage;
    seen->actors |= 1u << d->actor;
    seen->verdicts |= 1u << d->verdict;
    seen->clips |= d->guard.clips;
    seen->decisions++;
    seen->changes += d->guard.plan.set != 0;
    seen->silent += !d->answered;
    seen->missing += !isfinite(d->reading.age_s);
    seen->homing += d->homing != 0;
    seen->moved += d->moved;
    seen->frozen += d->orders.freeze != 0;
    seen->pinned += d->orders.pin.set != 0;
    seen->floored += d->orders.floor.set != 0;
    seen->canaries += d->canary.moved;
    seen->notable += aw_explanation_notable(b->ticks > 0 ? &b->before[workload] : NULL, d);
    aw_explanation_note(&b->before[workload], d);
    if (b->decided)
        b->decided(b, workload, d, moment, moment_bytes);
}

static inline enum aw_err aw_bench_record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    const struct aw_bench *b = ctx;
    (void)now_us;
    return !b->calm && b->ticks % 89 == 88 ? aw_fail(diag, AW_ERR_IO, "the disk is full") : AW_OK;
}

static inline void aw_bench_applied(void *ctx, uint32_t workload, const struct aw_decision *d,
                                    enum aw_err err)
{
    (void)ctx, (void)workload, (void)d, (void)err;
}

static inline void aw_bench_learned(void *ctx, uint32_t workload, enum aw_err err, double took_s)
{
    (void)took_s;
    (void)ctx, (void)workload, (void)err;
}

/* --- made, run and ended -----------------------------------------------------------------------
 */

/* Two capacity rules and two networks, each with a fallback of its own; small enough to learn in a
 * moment. What a test wants to be different it changes between prepare and begin. */
static inline void aw_bench_prepare(struct aw_bench *b)
{
    static const uint32_t fallback[AW_BENCH_WORKLOADS] = {AW_FALLBACK_HPA_VPA_MEM, AW_FALLBACK_HPA,
                                                          AW_FALLBACK_AIMD, AW_FALLBACK_VPA};
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < AW_BENCH_WORKLOADS; i++) {
        struct aw_pilot_config *config = &b->config[i];
        aw_app_generate(1, 3 + i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &b->app[i]);
        assert_ok(
            aw_load_parse(i % 2 ? "bursts:mean=20,peak=3,period=600" : "diurnal:mean=20,period=900",
                          1, NULL, &b->load[i], NULL));
        aw_load_scale_mean(&b->load[i], aw_app_rate_for(&b->app[i], 1.5));
        aw_pilot_config_init(config);
        config->relief.enabled = false; /* what these tests see is the rules alone */
        snprintf(config->name, sizeof config->name, "test/app-%u", i);
        config->bounds =
            (struct aw_bounds){.min = {1, 100, 128 * AW_MIB}, .max = {10, 4000, 4096 * AW_MIB}};
        config->slo.latency_us_p99 = 2 * aw_app_unloaded_p99_us(&b->app[i], 1, 0);
        config->slo.quantile = i == 3 ? 0.95 : 0.99;
        config->seed = i ? UINT64_MAX - i : 1;
        config->guard.mode = AW_GUARD_AUTO;
        config->episode_steps = AW_BENCH_EPISODE;
        config->thresholds = (struct aw_lifecycle_thresholds){-1e9, -1e9, 1e9};
        config->lifecycle.offline_least = 4;
        config->lifecycle.stage_least = 2;
        config->lifecycle.fill = config->lifecycle.window = 2;
        config->watchdog.slack = 12;
        config->agent = i < 2 ? AW_POLICY_CAPACITY : AW_POLICY_NETWORK;
        config->slo_budget = 0.2;
        config->rehearse.error_max = 100;
        config->rehearse.copies = 1;
        config->rehearse.tries = 4;
        config->rehearse.tries_near = 10;
        config->learner.episodes = 8;
        config->learner.hidden = 8;
        config->learner.updates = config->learner.fit_updates = 6;
        config->learner.batch = 8;
        config->learner.ope.members = 2;
        config->learner.ope.hidden = 8;
        config->learner.ope.fqe_updates = config->learner.ope.model_updates = 6;
        config->learner.ope.model_rollouts = 2;
        config->fallback.kind = fallback[i];
        config->in_place = i == 1;
        b->task[i] = (struct aw_fallback_task){.bounds = config->bounds,
                                               .slo_latency_us = config->slo.latency_us_p99,
                                               .replicas = 3,
                                               .cpu_millicores = 1000,
                                               .memory_bytes = 2048 * AW_MIB};
    }
}

static inline void aw_bench_begin(struct aw_bench *b)
{
    struct aw_sim_settings settings;
    struct aw_diag diag = {0};
    aw_conf_defaults(aw_sim_fields, &settings);
    assert_ok(aw_sim_new(&settings, 7, AW_BENCH_WORKLOADS, NULL, &b->sim, NULL));
    for (uint32_t i = 0; i < AW_BENCH_WORKLOADS; i++) {
        const struct aw_sim_workload workload = {.app = b->app[i],
                                                 .load = &b->load[i],
                                                 .replicas = b->task[i].replicas,
                                                 .replicas_max = b->config[i].bounds.replicas_max,
                                                 .cpu_millicores = b->task[i].cpu_millicores,
                                                 .memory_bytes = b->task[i].memory_bytes};
        uint32_t at;
        assert_ok(aw_sim_add(b->sim, &workload, &at, NULL));
    }
    b->inner = aw_sim_cluster(b->sim);
    b->ops = *b->inner.ops;
    b->ops.observe = aw_bench_observe;
    b->ops.apply = aw_bench_apply;
    b->ops.now_us = aw_bench_now_us;
    b->outer = (struct aw_cluster){.ops = &b->ops, .self = b};
    b->hooks = (struct aw_loop_hooks){.ctx = b,
                                      .moments = true,
                                      .enter = aw_bench_nothing,
                                      .leave = aw_bench_nothing,
                                      .orders = aw_bench_orders,
                                      .decided = aw_bench_tell,
                                      .record = aw_bench_record,
                                      .applied = aw_bench_applied,
                                      .learned = aw_bench_learned};
    assert_ok(aw_store_open(&b->store, "memory", &(struct aw_store_options){0}, NULL, NULL));
    const struct aw_loop_config config = {.cluster = b->outer,
                                          .store = &b->store,
                                          .pilots = b->config,
                                          .tasks = b->task,
                                          .workload_count = AW_BENCH_WORKLOADS,
                                          .thread_count = 1,
                                          .deadline_us = INT64_MAX,
                                          .hooks = &b->hooks,
                                          .clock = b->clock};
    if (aw_loop_new(&config, NULL, &b->loop, &diag))
        fail_msg("%s", diag.text);
    assert_ok(b->inner.ops->advance(b->inner.self, AW_BENCH_STEP_US));
}

static inline void aw_bench_run(struct aw_bench *b, uint32_t ticks)
{
    for (uint32_t i = 0; i < ticks; i++, b->ticks++) {
        struct aw_diag diag = {0};
        if (aw_loop_tick(b->loop, NULL, NULL, &diag))
            fail_msg("tick %u: %s", b->ticks, diag.text);
        const int64_t now = aw_bench_now_us(b);
        assert_ok(b->inner.ops->advance(b->inner.self, now + AW_BENCH_STEP_US));
    }
}

static inline void aw_bench_end(struct aw_bench *b)
{
    aw_loop_free(b->loop);
    aw_store_close(&b->store);
    aw_sim_free(b->sim);
    for (uint32_t i = 0; i < AW_BENCH_WORKLOADS; i++)
        aw_load_deinit(&b->load[i]);
}

#endif
