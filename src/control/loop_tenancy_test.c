/* loop_tenancy_test.c - workloads of one cluster: what they ask for, and what is left of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "control/loop_internal.h"

#define COUNT   4u
#define STEP_US 15000000
#define CORES   8

struct world {
    float rate;
    struct aw_load load;
    struct aw_sim *sim;
    struct aw_loop *loop;
    struct aw_cluster cluster;
    struct aw_alloc_counting counting;
    uint32_t told, told_tenancy;
};

static void hook_pass(void *ctx)
{
    (void)ctx;
}
static void hook_orders(void *ctx, uint32_t workload, int64_t now_us, struct aw_orders *ret)
{
    (void)ctx, (void)workload, (void)now_us, (void)ret;
}
static void hook_applied(void *ctx, uint32_t workload, const struct aw_decision *decision,
                         enum aw_err err)
{
    (void)ctx, (void)workload, (void)decision, (void)err;
}
static void hook_learned(void *ctx, uint32_t workload, enum aw_err err, double took_s)
{
    (void)ctx, (void)workload, (void)err, (void)took_s;
}
static enum aw_err hook_record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    (void)ctx, (void)now_us, (void)diag;
    return AW_OK;
}

/* What is told is what was left of it, and its moment with the same grant decides the same. */
static void hook_decided(void *ctx, uint32_t workload, const struct aw_decision *decision,
                         const void *moment, size_t moment_bytes)
{
    struct world *w = ctx;
    const struct aw_pilot *pilot = aw_loop_pilot(w->loop, workload);
    w->told++;
    if (!(decision->guard.clips & AW_CLIP_BIT(AW_CLIP_TENANCY)))
        return;
    w->told_tenancy++;
    assert_true(decision->orders.grant.reason != AW_ARBITER_GRANTED);
    assert_int_equal(decision->guard.plan.replicas, decision->orders.grant.got);
    assert_true(decision->orders.grant.got < decision->orders.grant.asked);
    if (w->told_tenancy > 20)
        return;
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    const struct aw_fallback_task task = {.bounds = config->bounds,
                                          .slo_latency_us = config->slo.latency_us_p99,
                                          .replicas = 1,
                                          .cpu_millicores = 1000,
                                          .memory_bytes = AW_GIB};
    struct aw_pilot *again;
    assert_ok(aw_pilot_new(config, &task, decision->at_us, NULL, &again, NULL));
    assert_ok(aw_pilot_snapshot_load(again, moment, moment_bytes));
    const struct aw_decision *same = aw_pilot_decide(again, &decision->orders, decision->at_us);
    assert_memory_equal(&same->guard.plan, &decision->guard.plan, sizeof same->guard.plan);
    assert_int_equal(same->guard.clips, decision->guard.clips);
    aw_pilot_free(again);
}

static void world_begin(struct world *w, const struct aw_loop_hooks *hooks, bool shared)
{
    static struct aw_loop_place places[COUNT];
    static const struct aw_loop_tenant tenants[1] = {
        {.name = "two", .terms = {.weight = 1, .borrow_limit = {INT64_MAX, INT64_MAX}}}};
    struct aw_sim_settings settings;
    struct aw_arbiter_settings arbiter;
    struct aw_pilot_config config[COUNT];
    struct aw_fallback_task task[COUNT];
    w->rate = 300;
    w->load =
        (struct aw_load){.slot_count = 1, .slot_us = (int64_t)1 << 40, .rate_per_s = &w->rate};
    struct aw_app app = {.segment_count = 1};
    app.segment[0] = (struct aw_segment){.name = "test",
                                         .cpu_ms = 10,
                                         .memory_base_mib = 100,
                                         .memory_flight_mib = 1,
                                         .parallelism = 1,
                                         .cold_start_ms = 1000};
    aw_conf_defaults(aw_sim_fields, &settings);
    aw_conf_defaults(aw_arbiter_fields, &arbiter);
    settings.node_count = 1;
    settings.node_cores = CORES;
    aw_alloc_counting_init(&w->counting);
    assert_ok(aw_sim_new(&settings, 1, COUNT, NULL, &w->sim, NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        aw_pilot_config_init(&config[i]);
        snprintf(config[i].name, sizeof config[i].name, "default/w%u", i);
        config[i].bounds =
            (struct aw_bounds){.min = {1, 100, 64 * AW_MIB}, .max = {10, 1000, 4096 * AW_MIB}};
        config[i].slo.latency_us_p99 = 1e5;
        config[i].learning = false;
        task[i] = (struct aw_fallback_task){.bounds = config[i].bounds,
                                            .slo_latency_us = 1e5,
                                            .replicas = 1,
                                            .cpu_millicores = 1000,
                                            .memory_bytes = AW_GIB};
        const struct aw_sim_workload placed = {.app = app,
                                               .load = &w->load,
                                               .replicas = 1,
                                               .replicas_max = 10,
                                               .cpu_millicores = 1000,
                                               .memory_bytes = AW_GIB};
        uint32_t index;
        assert_ok(aw_sim_add(w->sim, &placed, &index, NULL));
        places[i].tenant = i < 2 ? 0 : AW_ARBITER_ALONE;
        aw_tenancy_terms_init(&places[i].terms);
    }
    w->cluster = aw_sim_cluster(w->sim);
    assert_ok(aw_loop_new(&(struct aw_loop_config){.cluster = w->cluster,
                                                   .pilots = config,
                                                   .tasks = task,
                                                   .workload_count = COUNT,
                                                   .deadline_us = INT64_MAX,
                                                   .hooks = hooks,
                                                   .tenancy = {.settings = arbiter,
                                                               .places = shared ? places : NULL,
                                                               .tenants = tenants,
                                                               .tenant_count = 1}},
                          &w->counting.alloc, &w->loop, NULL));
}

static void world_tick(struct world *w)
{
    int64_t capacity[AW_POOLS];
    aw_sim_capacity(w->sim, &capacity[AW_POOL_CPU], &capacity[AW_POOL_MEMORY]);
    assert_int_equal(capacity[AW_POOL_CPU], CORES * 1000);
    aw_loop_capacity(w->loop, capacity);
    assert_ok(aw_loop_tick(w->loop, NULL, NULL, NULL));
    const int64_t now = w->cluster.ops->now_us(w->cluster.self);
    assert_ok(w->cluster.ops->advance(w->cluster.self, now + STEP_US));
}

static int64_t asked_of_cluster(const struct world *w)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct aw_plan *plan = &aw_pilot_decision(aw_loop_pilot(w->loop, i))->guard.plan;
        sum += plan->replicas * plan->cpu_millicores;
    }
    return sum;
}

static void world_end(struct world *w)
{
    aw_loop_free(w->loop);
    aw_sim_free(w->sim);
    assert_int_equal(w->counting.alloc_count, w->counting.free_count);
}

/* Each wants five cores of eight: without an arbiter more is asked for than there is. */
static void what_is_asked_of_the_cluster_is_what_it_has(void **state)
{
    (void)state;
    struct world w = {0};
    const struct aw_loop_hooks hooks = {.ctx = &w,
                                        .moments = true,
                                        .enter = hook_pass,
                                        .leave = hook_pass,
                                        .orders = hook_orders,
                                        .decided = hook_decided,
                                        .record = hook_record,
                                        .applied = hook_applied,
                                        .learned = hook_learned};
    for (uint32_t shared = 0; shared < 2; shared++) {
        int64_t most = 0;
        memset(&w, 0, sizeof w);
        world_begin(&w, shared ? &hooks : NULL, shared);
        for (uint32_t tick = 0; tick < 80; tick++) {
            world_tick(&w);
            const int64_t now = asked_of_cluster(&w);
            most = now > most ? now : most;
        }
        if (shared) {
            struct aw_loop_tenancy_view view;
            assert_true(aw_loop_tenancy_view(w.loop, &view));
            assert_true(most <= CORES * 1000);
            assert_int_equal(w.told, 80 * COUNT);
            assert_true(w.told_tenancy > 40);
            /* three lots of equal weight; the two of one tenant share theirs */
            assert_true(view.standings[1 + 2].gets[AW_POOL_CPU] >= 2000);
            assert_string_equal(view.names[0].text, "two");
        } else {
            assert_true(most > CORES * 1000);
        }
        world_end(&w);
    }
}

static void a_tick_that_arbitrates_allocates_nothing(void **state)
{
    (void)state;
    struct world w = {0};
    world_begin(&w, NULL, true);
    for (uint32_t tick = 0; tick < 20; tick++)
        world_tick(&w);
    const uint64_t before = w.counting.alloc_count;
    for (uint32_t tick = 0; tick < 20; tick++)
        world_tick(&w);
    assert_int_equal(w.counting.alloc_count, before);
    world_end(&w);
}

/* What the arbiter remembers of tenants and workloads. */
static void remembered(const struct world *w, double *to)
{
    const struct aw__loop_tenancy *t = w->loop->tenancy;
    *to++ = (double)t->last_us;
    for (uint32_t i = 0; i < t->tenant_count; i++)
        *to++ = t->tenant[i].credit.credit;
    for (uint32_t i = 0; i < COUNT; i++) {
        *to++ = t->since[i].waits_s;
        *to++ = t->since[i].over_s;
    }
}

static void forget(struct world *w)
{
    struct aw__loop_tenancy *t = w->loop->tenancy;
    t->last_us = AW_NEVER;
    for (uint32_t i = 0; i < t->tenant_count; i++)
        t->tenant[i].credit = (struct aw_arbiter_credit){0};
    memset(t->since, 0, COUNT * sizeof *t->since);
}

/* Else a run that was stopped and goes on would share otherwise than one that was not. */
static void credits_and_waiting_times_are_kept(void **state)
{
    (void)state;
    struct world w = {0};
    double before[64] = {0}, after[64] = {0}, none[64] = {0};
    char path[] = "/tmp/aware-tenancy-XXXXXX";
    world_begin(&w, NULL, true);
    for (uint32_t tick = 0; tick < 40; tick++)
        world_tick(&w);
    remembered(&w, before);
    void *bytes = calloc(1, aw_loop_state_bytes(w.loop));
    aw_loop_state_save(w.loop, bytes);
    struct aw_archive_writer to;
    struct aw_archive from;
    assert_true(close(mkstemp(path)) == 0);
    assert_ok(aw_archive_create(&to, path, "test", NULL, NULL));
    aw_loop_keep(w.loop, "here", &to);
    assert_ok(aw_archive_commit(&to, NULL));
    forget(&w);
    remembered(&w, none);
    assert_memory_not_equal(none, before, sizeof before);
    assert_ok(aw_loop_state_load(w.loop, bytes));
    remembered(&w, after);
    assert_memory_equal(after, before, sizeof before);
    forget(&w);
    bool same = false;
    assert_ok(aw_archive_read(&from, path, "test", "a loop", NULL, NULL));
    assert_ok(aw_loop_recover(w.loop, &from, "here", NULL, NULL, &same, NULL));
    remembered(&w, after);
    assert_true(same);
    assert_memory_equal(after, before, sizeof before);
    aw_archive_close(&from);
    unlink(path);
    free(bytes);
    world_end(&w);
}

AW_TEST_GROUP("loop-tenancy")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_of_the_cluster_is_what_it_has),
        cmocka_unit_test(a_tick_that_arbitrates_allocates_nothing),
        cmocka_unit_test(credits_and_waiting_times_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
