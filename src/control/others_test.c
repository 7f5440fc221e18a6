/* others_test.c - what agents are told of all other workloads, and in which epoch. */
#include "control/others.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "control/loop.h"

#define STEP_US   INT64_C(15000000)
#define WORKLOADS 4u

struct scene {
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_loop *loop;
    struct aw_agent_exchange *exchange;
    struct aw_clock_virtual virt;
    struct aw_alloc_counting counting;
    float rate;
    struct aw_load load;
    uint64_t ticket[2];
    bool gone[2];
    struct aw_others_view others[2]; /* as agents 0 and 1 were told last */
    uint32_t ticks, questions[2];
};

static void nothing(void *ctx)
{
    (void)ctx;
}

static void agents_answer(void *ctx, int64_t until_us)
{
    struct scene *s = ctx;
    struct aw_agent_exchange_message message;
    bool answered = false;
    for (uint32_t a = 0; a < 2; a++)
        while (!s->gone[a] && aw_agent_exchange_poll(s->exchange, s->ticket[a], &message)) {
            if (message.kind != AW_AGENT_EXCHANGE_QUESTION)
                continue;
            static const float values[AW_ACTION_DIM] = {0.2f, 0.1f, 0};
            s->others[a] = message.others;
            s->questions[a]++;
            answered |= !aw_agent_exchange_answer(s->exchange, s->ticket[a], message.question.id,
                                                  values, AW_ACTION_DIM);
        }
    if (!answered)
        aw_clock_virtual_advance(&s->virt, until_us - aw_clock_monotonic_us(&s->virt.clock));
}

/* "app0" and "app1" are agents' of other processes, all others are not. */
static void add(struct scene *s, uint32_t number)
{
    struct aw_pilot_config config;
    struct aw_sim_workload placed = {.load = &s->load,
                                     .replicas = 1 + number,
                                     .replicas_max = 10,
                                     .cpu_millicores = 1000,
                                     .memory_bytes = 1024 * AW_MIB};
    uint32_t index;
    aw_pilot_config_init(&config);
    snprintf(config.name, sizeof config.name, "test/app%u", (unsigned)number);
    config.bounds =
        (struct aw_bounds){.min = {1, 100, 128 * AW_MIB}, .max = {10, 4000, 4096 * AW_MIB}};
    config.slo.latency_us_p99 = 2e5;
    config.agent = number < 2 ? AW_POLICY_EXTERNAL : config.agent;
    config.lifecycle.bootstrap = false;
    config.episode_steps = 40;
    const struct aw_fallback_task task = {.bounds = config.bounds,
                                          .slo_latency_us = config.slo.latency_us_p99,
                                          .replicas = placed.replicas,
                                          .cpu_millicores = placed.cpu_millicores,
                                          .memory_bytes = placed.memory_bytes};
    aw_app_generate(1, 4, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &placed.app);
    assert_ok(aw_sim_add(s->sim, &placed, &index, NULL));
    assert_ok(aw_loop_add(s->loop, &config, &task, &index, NULL));
}

static void make_loop(struct scene *s)
{
    assert_ok(aw_loop_new(&(struct aw_loop_config){.cluster = s->cluster,
                                                   .workloads_max = WORKLOADS,
                                                   .deadline_us = INT64_MAX,
                                                   .exchange = s->exchange},
                          &s->counting.alloc, &s->loop, NULL));
}

static void begin(struct scene *s)
{
    struct aw_sim_settings settings;
    memset(s, 0, sizeof *s);
    aw_conf_defaults(aw_sim_fields, &settings);
    s->rate = 20;
    s->load =
        (struct aw_load){.slot_count = 1, .slot_us = (int64_t)1 << 40, .rate_per_s = &s->rate};
    aw_clock_virtual_init(&s->virt, INT64_C(1700000000000000));
    aw_alloc_counting_init(&s->counting);
    assert_ok(aw_sim_new(&settings, 1, WORKLOADS, NULL, &s->sim, NULL));
    s->cluster = aw_sim_cluster(s->sim);
    assert_ok(aw_agent_exchange_new(
        &(struct aw_agent_exchange_config){
            .clock = &s->virt.clock, .seats_max = WORKLOADS, .pause = agents_answer, .ctx = s},
        NULL, &s->exchange, NULL));
    make_loop(s);
    for (uint32_t i = 0; i < 3; i++)
        add(s, i);
    for (uint32_t a = 0; a < 2; a++) {
        struct aw_agent_exchange_seat seat;
        const struct aw_agent_exchange_hello hello = {.workload = a ? "test/app1" : "test/app0",
                                                      .agent = "a",
                                                      .version = "",
                                                      .wake = nothing};
        assert_ok(aw_agent_exchange_register(s->exchange, &hello, &s->ticket[a], &seat, NULL));
    }
}

static void end(struct scene *s)
{
    for (uint32_t a = 0; a < 2; a++)
        if (!s->gone[a])
            aw_agent_exchange_leave(s->exchange, s->ticket[a]);
    aw_loop_free(s->loop);
    aw_agent_exchange_free(s->exchange);
    aw_sim_free(s->sim);
    assert_int_equal(s->counting.alloc_count, s->counting.free_count);
}

static void tick(struct scene *s)
{
    assert_ok(s->cluster.ops->advance(s->cluster.self, ++s->ticks * STEP_US));
    assert_ok(aw_loop_tick(s->loop, NULL, NULL, NULL));
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t k = 0; k < AW_OTHERS_DIM; k++)
            assert_true(isfinite(s->others[a].global[k]));
}

static void a_dead_agents_workload_is_counted_and_an_epoch_is_who_is_there(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    tick(&s);
    const uint64_t first = s.others[0].epoch;
    assert_true(first > UINT64_C(1700000000000000)); /* above all of a process before */
    assert_false(s.others[0].has_reward);            /* no step has ended */
    for (uint32_t t = 0; t < 5; t++)
        tick(&s);
    assert_int_equal(s.others[0].members, 3);
    assert_true(s.others[0].epoch == first && s.others[1].epoch == first);
    assert_true(s.others[0].has_reward && isfinite(s.others[0].team_reward));
    /* the others of app0 hold more than those of app1: app1 has two replicas, app0 one */
    assert_true(s.others[0].global[AW_OTHERS_CPU] > s.others[1].global[AW_OTHERS_CPU]);

    aw_agent_exchange_leave(s.exchange, s.ticket[1]); /* its agent dies: the workload stays */
    s.gone[1] = true;
    const uint32_t asked = s.questions[1];
    for (uint32_t t = 0; t < 3; t++)
        tick(&s);
    assert_int_equal(s.others[0].members, 3);
    assert_true(s.others[0].epoch == first);
    assert_int_equal(s.questions[1], asked);
    assert_int_equal(aw_pilot_decision(aw_loop_pilot(s.loop, 1))->actor, AW_ACTOR_FALLBACK);

    assert_ok(aw_loop_remove(s.loop, 2)); /* a workload goes */
    assert_ok(aw_sim_remove(s.sim, 2));
    tick(&s);
    const uint64_t second = s.others[0].epoch;
    assert_int_equal(s.others[0].members, 2);
    assert_true(second > first);
    add(&s, 3); /* another one comes, in the same slot */
    tick(&s);
    assert_int_equal(s.others[0].members, 3);
    assert_true(s.others[0].epoch > second);
    end(&s);
}

static void no_epoch_is_used_twice_and_a_tick_takes_nothing(void **state)
{
    (void)state;
    struct scene s;
    uint64_t last = 0;
    begin(&s);
    for (uint32_t turn = 0; turn < 20; turn++) { /* members that flap between all ticks */
        tick(&s);
        assert_true(s.others[0].epoch > last);
        last = s.others[0].epoch;
        assert_ok(aw_loop_remove(s.loop, 2));
        assert_ok(aw_sim_remove(s.sim, 2));
        add(&s, 2); /* the same name, and another life */
    }
    tick(&s);
    const uint64_t allocations = s.counting.alloc_count;
    for (uint32_t t = 0; t < 5; t++)
        tick(&s);
    assert_int_equal(s.counting.alloc_count, allocations);
    end(&s);
}

AW_TEST_GROUP("others")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_agents_workload_is_counted_and_an_epoch_is_who_is_there),
        cmocka_unit_test(no_epoch_is_used_twice_and_a_tick_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
