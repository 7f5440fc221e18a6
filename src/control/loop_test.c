/* loop_test.c - many workloads in one loop: who comes, changes and goes, and whose turn it is. */
#include "control/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"

#define STEP_US  15000000
#define EPISODE  20u
#define SLOTS    1024u
#define CHURNED  1000u
#define DAY_RATE 40.0f

/* A world in which every workload is the same application under the same load. */
struct world {
    struct aw_sim_settings settings;
    struct aw_alloc_counting counting; /* of the loop */
    float rate;
    struct aw_load load;
    struct aw_app app;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_loop *loop;
    struct aw_store store;
    uint32_t made;
    bool easy;
    bool served; /* agents act from the first tick on */
};

/* Of the loops to come; NULL: agents take no time. */
static const struct aw_clock *stopwatch;

static void world_config(const struct world *world, uint32_t number, struct aw_pilot_config *ret)
{
    aw_pilot_config_init(ret);
    ret->relief.enabled = false;
    if (world->easy) { /* thresholds that everybody passes */
        ret->thresholds = (struct aw_lifecycle_thresholds){-1e12, -1e12, 1e12};
        ret->lifecycle.fill = ret->lifecycle.window = 2;
        ret->lifecycle.offline_least = ret->lifecycle.stage_least = 1;
        ret->lifecycle.drift = 0;
    }
    ret->lifecycle.bootstrap = !world->served;
    snprintf(ret->name, sizeof ret->name, "default/w%u", number);
    ret->bounds = (struct aw_bounds){.replicas_min = 1,
                                     .replicas_max = 4 + number % 5,
                                     .cpu_millicores_min = 100,
                                     .cpu_millicores_max = 4000,
                                     .memory_bytes_min = 64 * AW_MIB,
                                     .memory_bytes_max = (int64_t)4096 * AW_MIB};
    ret->slo.latency_us_p99 = 2e5;
    ret->seed = number;
    ret->episode_steps = EPISODE;
    ret->rehearse.copies = 1;
    ret->rehearse.tries = ret->rehearse.tries_near = 1;
}

static struct aw_fallback_task world_task(const struct aw_pilot_config *config)
{
    return (struct aw_fallback_task){.bounds = config->bounds,
                                     .slo_latency_us = config->slo.latency_us_p99,
                                     .replicas = 2,
                                     .cpu_millicores = 1000,
                                     .memory_bytes = 1024 * AW_MIB};
}

static uint32_t world_add(struct world *world)
{
    struct aw_pilot_config config;
    world_config(world, world->made++, &config);
    const struct aw_fallback_task task = world_task(&config);
    const struct aw_sim_workload placed = {.app = world->app,
                                           .load = &world->load,
                                           .replicas = task.replicas,
                                           .replicas_max = config.bounds.replicas_max,
                                           .cpu_millicores = task.cpu_millicores,
                                           .memory_bytes = task.memory_bytes};
    uint32_t there, here;
    assert_ok(aw_sim_add(world->sim, &placed, &there, NULL));
    assert_ok(aw_loop_add(world->loop, &config, &task, &here, NULL));
    assert_int_equal(here, there);
    return here;
}

static void world_remove(struct world *world, uint32_t index)
{
    assert_ok(aw_loop_remove(world->loop, index));
    assert_ok(aw_sim_remove(world->sim, index));
}

static void world_begin(struct world *world, uint32_t slots, uint32_t learn_max, bool store)
{
    memset(world, 0, sizeof *world);
    aw_conf_defaults(aw_sim_fields, &world->settings);
    world->settings.node_count = 64;
    world->settings.node_cores = 512;
    world->settings.node_memory_gib = 4096;
    world->rate = DAY_RATE;
    world->load =
        (struct aw_load){.slot_count = 1, .slot_us = (int64_t)1 << 40, .rate_per_s = &world->rate};
    world->app.segment_count = 1;
    world->app.segment[0] = (struct aw_segment){.name = "test",
                                                .cpu_ms = 10,
                                                .memory_base_mib = 100,
                                                .memory_flight_mib = 1,
                                                .parallelism = 1,
                                                .cold_start_ms = 1000};
    aw_alloc_counting_init(&world->counting);
    if (store)
        assert_ok(aw_store_open(&world->store, "memory", NULL, NULL, NULL));
    assert_ok(aw_sim_new(&world->settings, 1, slots, NULL, &world->sim, NULL));
    world->cluster = aw_sim_cluster(world->sim);
    assert_ok(aw_loop_new(&(struct aw_loop_config){.cluster = world->cluster,
                                                   .store = store ? &world->store : NULL,
                                                   .workloads_max = slots,
                                                   .learn_max = learn_max,
                                                   .deadline_us = INT64_MAX,
                                                   .clock = stopwatch},
                          &world->counting.alloc, &world->loop, NULL));
}

static void world_tick(struct world *world)
{
    const struct aw_cluster *cluster = &world->cluster;
    assert_ok(aw_loop_tick(world->loop, NULL, NULL, NULL));
    assert_ok(cluster->ops->advance(cluster->self, cluster->ops->now_us(cluster->self) + STEP_US));
}

static void world_end(struct world *world)
{
    aw_loop_free(world->loop);
    aw_sim_free(world->sim);
    if (world->store.ops)
        aw_store_close(&world->store);
    assert_int_equal(world->counting.alloc_count, world->counting.free_count);
}

/* --- coming and going ------------------------------------------------------------------------- */

static void slots_are_given_again_and_holes_are_passed_over(void **state)
{
    (void)state;
    struct world world;
    struct aw_pilot_config config;
    uint32_t index;
    world_begin(&world, 4, 0, true);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(world_add(&world), i);
    world_config(&world, 9, &config);
    const struct aw_fallback_task task = world_task(&config);
    assert_int_equal(aw_loop_add(world.loop, &config, &task, &index, NULL), AW_ERR_LIMIT);
    world_tick(&world);
    world_remove(&world, 1);
    world_remove(&world, 2);
    assert_false(aw_loop_has(world.loop, 1));
    assert_true(aw_loop_has(world.loop, 3));
    assert_int_equal(aw_loop_count(world.loop), 4);
    assert_int_equal(aw_loop_remove(world.loop, 1), AW_ERR_NOTFOUND);
    assert_int_equal(aw_loop_remove(world.loop, 4), AW_ERR_NOTFOUND);
    assert_int_equal(aw_loop_update(world.loop, 2, &config, NULL), AW_ERR_NOTFOUND);
    const uint64_t before = aw_loop_counts(world.loop)->decisions;
    world_tick(&world);
    assert_int_equal(aw_loop_counts(world.loop)->decisions - before, 2);
    assert_int_equal(world_add(&world), 2); /* the last that went */
    assert_int_equal(world_add(&world), 1);
    world_tick(&world);
    assert_int_equal(aw_loop_counts(world.loop)->observe_failures, 0);
    world_end(&world);
}

/* Rows have the name, the episode and the step for a key. */
static void a_workload_that_comes_back_does_not_contradict_its_former_life(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 1, 0, true);
    for (uint32_t life = 0; life < 3; life++) {
        world.made = 7;
        world_add(&world);
        for (uint32_t t = 0; t < EPISODE + 5; t++)
            world_tick(&world);
        world_remove(&world, 0);
    }
    struct aw_store_last last;
    assert_ok(aw_store_last(&world.store, "default/w7", &last, NULL));
    assert_true(last.episode >= 4);
    world_end(&world);
}

static void a_thousand_workloads_come_change_and_go_in_the_same_memory(void **state)
{
    (void)state;
    struct world world;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    world_begin(&world, SLOTS, 1, false);
    for (uint32_t i = 0; i < CHURNED; i++)
        world_add(&world);
    world_tick(&world);
    const uint64_t held = world.counting.alloc_count - world.counting.free_count;
    for (uint32_t t = 0; t < 200; t++) {
        for (uint32_t i = 0; i < 5; i++) {
            world_remove(&world, aw_rng_below(&rng, CHURNED));
            world_add(&world);
        }
        const uint32_t other = aw_rng_below(&rng, CHURNED);
        struct aw_pilot_config config = *aw_pilot_config(aw_loop_pilot(world.loop, other));
        config.slo.latency_us_p99 *= 1.1;
        assert_ok(aw_loop_update(world.loop, other, &config, NULL));
        world_tick(&world);
        assert_int_equal(world.counting.alloc_count - world.counting.free_count, held);
    }
    const struct aw_loop_counts *counts = aw_loop_counts(world.loop);
    assert_int_equal(counts->decisions, 201 * CHURNED);
    assert_true(counts->learn_rounds > 10); /* and what learning took is back too */
    world_end(&world);
}

static void every_allocation_that_fails_leaves_the_loop_as_it_was(void **state)
{
    (void)state;
    struct world world;
    struct aw_pilot_config config;
    world_begin(&world, 3, 0, false);
    world_add(&world);
    for (uint32_t t = 0; t < 3; t++)
        world_tick(&world);
    world_config(&world, 0, &config);
    config.bounds.replicas_max = 50;
    const uint64_t held = world.counting.alloc_count - world.counting.free_count;
    enum aw_err err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        world.counting.fail_after = world.counting.alloc_count + n;
        err = aw_loop_update(world.loop, 0, &config, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(world.counting.alloc_count - world.counting.free_count, held);
        assert_int_equal(aw_pilot_config(aw_loop_pilot(world.loop, 0))->bounds.replicas_max,
                         err ? 4 : 50);
    }
    world_config(&world, 1, &config);
    const struct aw_fallback_task task = world_task(&config);
    uint32_t index = 99;
    err = AW_ERR_NOMEM;
    for (uint64_t n = 0; err; n++) {
        world.counting.fail_after = world.counting.alloc_count + n;
        err = aw_loop_add(world.loop, &config, &task, &index, NULL);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(index, err ? 99 : 1);
        assert_int_equal(aw_loop_count(world.loop), err ? 1 : 2);
    }
    world.counting.fail_after = UINT64_MAX;
    world_end(&world);
}

/* --- another config --------------------------------------------------------------------------- */

static void a_change_keeps_what_still_holds(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 1, 0, false);
    world.easy = true;
    world_add(&world);
    for (uint32_t t = 0; t < 12 * EPISODE; t++)
        world_tick(&world);
    const struct aw_pilot *pilot = aw_loop_pilot(world.loop, 0);
    const enum aw_stage stage = aw_pilot_stage(pilot);
    const uint64_t learned = aw_pilot_decision(pilot)->policy_id;
    const uint32_t episode = aw_pilot_decision(pilot)->episode;
    assert_true(learned != 0 && stage != AW_STAGE_OFFLINE);

    struct aw_pilot_config config = *aw_pilot_config(pilot);
    config.bounds.cpu_millicores_max = 3000; /* the same question, within other bounds */
    assert_ok(aw_loop_update(world.loop, 0, &config, NULL));
    pilot = aw_loop_pilot(world.loop, 0);
    assert_int_equal(aw_pilot_stage(pilot), stage);
    world_tick(&world);
    assert_true(aw_pilot_decision(pilot)->policy_id == learned);
    assert_true(aw_pilot_decision(pilot)->episode >= episode);
    assert_true(aw_pilot_decision(pilot)->guard.plan.cpu_millicores <= 3000);

    config.slo.latency_us_p99 *= 0.5; /* another question: who decides is to be found out anew */
    assert_ok(aw_loop_update(world.loop, 0, &config, NULL));
    pilot = aw_loop_pilot(world.loop, 0);
    assert_int_equal(aw_pilot_stage(pilot), AW_STAGE_OFFLINE);
    world_tick(&world);
    assert_int_equal(aw_pilot_decision(pilot)->actor, AW_ACTOR_FALLBACK);
    assert_true(aw_pilot_decision(pilot)->policy_id == learned); /* to begin the next search with */

    struct aw_diag diag;
    snprintf(config.name, sizeof config.name, "default/other");
    assert_int_equal(aw_loop_update(world.loop, 0, &config, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "a name does not change"));
    world_end(&world);
}

static void a_change_opens_no_way_around_a_cool_down(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 1, 0, false);
    world_add(&world);
    const struct aw_pilot *pilot = aw_loop_pilot(world.loop, 0);
    uint32_t t = 0;
    while (!(aw_pilot_decision(pilot)->guard.plan.set & AW_PLAN_MEMORY)) {
        assert_true(t++ < 40 * EPISODE);
        world_tick(&world);
    }
    struct aw_pilot_config config = *aw_pilot_config(pilot);
    config.bounds.memory_bytes_min = 4 * AW_MIB;
    assert_ok(aw_loop_update(world.loop, 0, &config, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        world_tick(&world);
        assert_false(aw_pilot_decision(aw_loop_pilot(world.loop, 0))->guard.plan.set &
                     (AW_PLAN_MEMORY | AW_PLAN_CPU));
    }
    world_end(&world);
}

/* --- learning --------------------------------------------------------------------------------- */

static void a_tick_learns_no_more_rounds_than_its_budget(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 30, 4, false);
    for (uint32_t i = 0; i < 30; i++)
        world_add(&world);
    uint64_t most = 0, waiting = 0, before = 0;
    for (uint32_t t = 0; t < 8 * EPISODE; t++) {
        world_tick(&world);
        const struct aw_loop_counts *counts = aw_loop_counts(world.loop);
        const uint64_t rounds = counts->learn_rounds + counts->learn_failures;
        most = rounds - before > most ? rounds - before : most;
        before = rounds;
        waiting = counts->learn_waiting > waiting ? counts->learn_waiting : waiting;
    }
    assert_int_equal(most, 4);
    assert_true(waiting > 20); /* they all wanted to learn at once */
    const struct aw_loop_counts *counts = aw_loop_counts(world.loop);
    assert_int_equal(counts->learn_waiting, 0); /* and all of them did */
    assert_true(counts->learn_rounds >= 30 && counts->learn_waited > counts->learn_rounds);
    world_end(&world);
}

struct told {
    uint32_t order[64];
    uint32_t count;
};

static void no_orders(void *ctx, uint32_t workload, int64_t now_us, struct aw_orders *ret)
{
    (void)ctx, (void)workload, (void)now_us, (void)ret;
}
static void nothing(void *ctx)
{
    (void)ctx;
}
static void no_decision(void *ctx, uint32_t workload, const struct aw_decision *decision,
                        const void *moment, size_t bytes)
{
    (void)ctx, (void)workload, (void)decision, (void)moment, (void)bytes;
}
static enum aw_err no_record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    (void)ctx, (void)now_us, (void)diag;
    return AW_OK;
}
static void no_outcome(void *ctx, uint32_t workload, const struct aw_decision *decision,
                       enum aw_err err)
{
    (void)ctx, (void)workload, (void)decision, (void)err;
}
static void who_learned(void *ctx, uint32_t workload, enum aw_err err, double took_s)
{
    (void)took_s;
    struct told *told = ctx;
    (void)err;
    if (told->count < 64)
        told->order[told->count++] = workload;
}

static void who_misses_its_slo_learns_first_then_who_waited_longest(void **state)
{
    (void)state;
    struct world world;
    struct told told = {.count = 0};
    const struct aw_loop_hooks hooks = {.ctx = &told,
                                        .enter = nothing,
                                        .leave = nothing,
                                        .orders = no_orders,
                                        .decided = no_decision,
                                        .record = no_record,
                                        .applied = no_outcome,
                                        .learned = who_learned};
    world_begin(&world, 8, 1, false);
    aw_loop_free(world.loop);
    assert_ok(aw_loop_new(&(struct aw_loop_config){.cluster = world.cluster,
                                                   .workloads_max = 8,
                                                   .learn_max = 1,
                                                   .deadline_us = INT64_MAX,
                                                   .hooks = &hooks},
                          &world.counting.alloc, &world.loop, NULL));
    for (uint32_t i = 0; i < 8; i++)
        world_add(&world);
    struct aw_pilot_config config = *aw_pilot_config(aw_loop_pilot(world.loop, 5));
    config.slo.latency_us_p99 = 8000; /* a request takes ten milliseconds alone */
    assert_ok(aw_loop_update(world.loop, 5, &config, NULL));
    while (told.count < 8)
        world_tick(&world);
    uint32_t expected[] = {5, 0, 1, 2, 3, 4, 6, 7};
    /* the one that misses may well come again before the others are through */
    uint32_t at = 0;
    for (uint32_t i = 0; i < told.count; i++) {
        if (i > 0 && told.order[i] == 5)
            continue;
        assert_int_equal(told.order[i], expected[at++]);
    }
    assert_true(at >= 4);
    world_end(&world);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Time goes on by as much with every look. */
struct ticking {
    struct aw_clock clock;
    int64_t now_us, step_us;
};

static int64_t ticking_us(void *self)
{
    struct ticking *ticking = self;
    return ticking->now_us += ticking->step_us;
}

static void an_agent_that_is_too_slow_gives_way_to_the_fallback(void **state)
{
    (void)state;
    struct world world;
    struct ticking ticking = {.step_us = 100};
    ticking.clock =
        (struct aw_clock){.now_us = ticking_us, .monotonic_us = ticking_us, .self = &ticking};
    stopwatch = &ticking.clock;
    world_begin(&world, 1, 0, false);
    world.served = true;
    const uint32_t one = world_add(&world);
    const struct aw_pilot *pilot = aw_loop_pilot(world.loop, one);
    for (uint32_t i = 0; aw_pilot_decision(pilot)->actor != AW_ACTOR_AGENT; i++) {
        assert_true(i < 100);
        world_tick(&world);
    }
    assert_float_equal(aw_pilot_decision(pilot)->took_s, 100e-6, 1e-12);
    const double deadline = aw_pilot_config(pilot)->watchdog.deadline;
    ticking.step_us = (int64_t)(1e6 * deadline); /* just in time */
    world_tick(&world);
    assert_int_equal(aw_pilot_decision(pilot)->actor, AW_ACTOR_AGENT);
    ticking.step_us++;
    world_tick(&world);
    const struct aw_decision *late = aw_pilot_decision(pilot);
    assert_int_equal(late->actor, AW_ACTOR_FALLBACK);
    assert_int_equal(late->verdict, AW_WATCHDOG_TRIPPED);
    assert_int_equal(late->watchdog.cause, AW_WATCHDOG_CAUSE_DEADLINE);
    assert_true(late->watchdog.value > late->watchdog.limit);
    assert_int_equal(late->stage, AW_STAGE_ONLINE); /* nobody's fault */

    /* a change of settings does not lose the clock, and who is quick again acts again */
    struct aw_pilot_config config = *aw_pilot_config(pilot);
    config.bounds.replicas_max++;
    assert_ok(aw_loop_update(world.loop, one, &config, NULL));
    pilot = aw_loop_pilot(world.loop, one);
    ticking.step_us = 100;
    for (uint32_t i = 0; i == 0 || aw_pilot_decision(pilot)->actor != AW_ACTOR_AGENT; i++) {
        assert_true(i < 100);
        world_tick(&world);
        assert_float_equal(aw_pilot_decision(pilot)->took_s, 100e-6, 1e-12);
    }
    stopwatch = NULL;
    world_end(&world);
}

static void a_state_with_holes_and_a_queue_goes_on_exactly(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world, 12, 1, false);
    for (uint32_t i = 0; i < 12; i++)
        world_add(&world);
    for (uint32_t t = 0; t < 3 * EPISODE + 4; t++)
        world_tick(&world);
    assert_true(aw_loop_counts(world.loop)->learn_waiting > 0);
    world_remove(&world, 4);
    world_remove(&world, 9);
    const size_t bytes = aw_loop_state_bytes(world.loop);
    const size_t sim_bytes = aw_sim_state_bytes(world.sim);
    unsigned char *saved = aw_alloc_new(NULL, bytes + sim_bytes, 1);
    unsigned char *after[2];
    aw_loop_state_save(world.loop, saved);
    aw_sim_state_save(world.sim, saved + bytes);
    for (uint32_t run = 0; run < 2; run++) {
        after[run] = aw_alloc_new(NULL, bytes, 1);
        for (uint32_t t = 0; t < 2 * EPISODE; t++)
            world_tick(&world);
        aw_loop_state_save(world.loop, after[run]);
        assert_ok(aw_loop_state_load(world.loop, saved));
        assert_ok(aw_sim_state_load(world.sim, saved + bytes));
    }
    assert_memory_equal(after[0], after[1], bytes);
    world_add(&world);
    assert_int_equal(aw_loop_state_load(world.loop, saved), AW_ERR_FORMAT); /* there were ten */
    aw_alloc_free(NULL, after[0]);
    aw_alloc_free(NULL, after[1]);
    aw_alloc_free(NULL, saved);
    world_end(&world);
}

AW_TEST_GROUP("loop")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_given_again_and_holes_are_passed_over),
        cmocka_unit_test(a_workload_that_comes_back_does_not_contradict_its_former_life),
        cmocka_unit_test(a_thousand_workloads_come_change_and_go_in_the_same_memory),
        cmocka_unit_test(every_allocation_that_fails_leaves_the_loop_as_it_was),
        cmocka_unit_test(a_change_keeps_what_still_holds),
        cmocka_unit_test(a_change_opens_no_way_around_a_cool_down),
        cmocka_unit_test(a_tick_learns_no_more_rounds_than_its_budget),
        cmocka_unit_test(who_misses_its_slo_learns_first_then_who_waited_longest),
        cmocka_unit_test(an_agent_that_is_too_slow_gives_way_to_the_fallback),
        cmocka_unit_test(a_state_with_holes_and_a_queue_goes_on_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
