/* pilot_test.c - one workload's mind, tick by tick: who acts, what is applied, what is told. */
#include "control/pilot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "cluster/sim.h"
#include "control/simulate.h"

#define MIB     ((int64_t)1 << 20)
#define EPISODE 24u
#define STEP_US INT64_C(15000000)

/* One workload on its own cluster; what a test wants to change is changed between prepare and
 * begin. */
struct bench {
    struct aw_pilot_config config;
    struct aw_policy_task task;
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
};

static void prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    aw_app_generate(1, 4, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &b->app);
    assert_ok(aw_load_parse("diurnal:mean=20,period=900", 1, NULL, &b->load, NULL));
    aw_load_scale_mean(&b->load, aw_simulate_rate_for(&b->app, 1.5));
    struct aw_pilot_config *config = &b->config;
    aw_pilot_config_init(config);
    snprintf(config->name, sizeof config->name, "test/app");
    config->bounds = (struct aw_bounds){1, 10, 100, 4000, 128 * MIB, 4096 * MIB};
    config->slo.latency_us_p99 = 4 * aw_app_unloaded_p99_us(&b->app, 1, 0);
    config->seed = 3;
    config->episode_steps = EPISODE;
    config->thresholds = (struct aw_lifecycle_thresholds){-1e9, -1e9, 1e9}; /* anything will do */
    config->lifecycle.offline_least = 4;
    config->rehearse.copies = 1;
    config->rehearse.tries = 4;
    config->rehearse.tries_near = 10;
    config->watchdog.slack = 30; /* a policy of fourteen tries is no good one */
    b->task = (struct aw_policy_task){.bounds = config->bounds,
                                      .slo_latency_us = config->slo.latency_us_p99,
                                      .replicas = 3,
                                      .cpu_millicores = 1000,
                                      .memory_bytes = 2048 * MIB};
}

static void begin(struct bench *b)
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

static void end(struct bench *b)
{
    aw_pilot_free(b->pilot);
    assert_int_equal(b->counting.alloc_count, b->counting.free_count);
    aw_sim_free(b->sim);
    aw_load_deinit(&b->load);
}

static void slow_down(struct aw_sample *sample, double factor)
{
    sample->latency_us_p50.value *= factor;
    sample->latency_us_p95.value *= factor;
    sample->latency_us_p99.value *= factor;
    sample->latency_us_mean.value *= factor;
}

/* One tick; what observe, decide and applied take from the heap is nothing. */
static const struct aw_decision *tick(struct bench *b)
{
    const struct aw_cluster *cluster = &b->cluster;
    const int64_t now = cluster->ops->now_us(cluster->self);
    const bool answered = !cluster->ops->observe(cluster->self, 0, INT64_MAX, &b->sample);
    if (answered && b->latency_more > 0)
        slow_down(&b->sample, b->latency_more);
    const uint64_t before = b->counting.alloc_count;
    b->finished =
        aw_pilot_observe(b->pilot, answered && !b->silent ? &b->sample : NULL, now, &b->row);
    const struct aw_decision *decision = aw_pilot_decide(b->pilot, NULL, now);
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
static void until_it_acts(struct bench *b, uint32_t steps)
{
    uint32_t in_a_row = 0;
    for (uint32_t t = 0; in_a_row < steps; t++) {
        assert_true(t < 30 * EPISODE);
        in_a_row = tick(b)->actor == AW_ACTOR_AGENT ? in_a_row + 1 : 0;
    }
}

static void mode_off_recommends_and_applies_nothing(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    b.config.guard.mode = AW_GUARD_OFF;
    begin(&b);
    uint32_t recommended = 0, agent_steps = 0;
    for (uint32_t t = 0; t < 14 * EPISODE; t++) {
        const struct aw_decision *d = tick(&b);
        assert_int_equal(d->guard.plan.set, 0);
        assert_false(d->applied);
        agent_steps += d->actor == AW_ACTOR_AGENT;
        if (d->guard.recommended.set) {
            assert_true(d->guard.clips & AW_CLIP_BIT(AW_CLIP_MODE));
            recommended++;
        }
        assert_int_equal(b.sample.cpu_millicores_wanted, 1000);
        assert_int_equal(b.sample.memory_bytes_wanted, 2048 * MIB);
        assert_int_equal(b.sample.replicas_wanted, 3);
    }
    assert_true(recommended > 10);
    assert_true(agent_steps > 0);
    end(&b);
}

static void what_is_not_controlled_is_never_touched(void **state)
{
    (void)state;
    static const uint32_t mask[] = {AW_PLAN_REPLICAS, AW_PLAN_CPU | AW_PLAN_MEMORY, 0};
    for (size_t i = 0; i < sizeof mask / sizeof *mask; i++) {
        struct bench b;
        prepare(&b);
        b.config.controlled = mask[i];
        b.config.fallback.kind = AW_POLICY_HPA_VPA; /* wants to change everything */
        begin(&b);
        uint32_t changed = 0, agent_steps = 0;
        for (uint32_t t = 0; t < 12 * EPISODE; t++) {
            const struct aw_decision *d = tick(&b);
            assert_int_equal(d->guard.plan.set & ~mask[i], 0);
            changed += d->guard.plan.set != 0;
            agent_steps += d->actor == AW_ACTOR_AGENT;
        }
        assert_true(agent_steps > 0);
        assert_true((changed > 0) == (mask[i] != 0));
        if (!(mask[i] & AW_PLAN_REPLICAS))
            assert_int_equal(b.sample.replicas_wanted, 3);
        if (!(mask[i] & AW_PLAN_CPU))
            assert_int_equal(b.sample.cpu_millicores_wanted, 1000);
        if (!(mask[i] & AW_PLAN_MEMORY))
            assert_int_equal(b.sample.memory_bytes_wanted, 2048 * MIB);
        end(&b);
    }
}

static void the_slo_speaks_of_its_own_quantile(void **state)
{
    (void)state;
    static const struct {
        double quantile, slo_us, latency_us;
        bool violated;
    } row[] = {
        {0.50, 1.5e5, 1e5, false}, {0.50, 0.9e5, 1e5, true},  {0.95, 2.5e5, 2e5, false},
        {0.95, 1.5e5, 2e5, true},  {0.99, 3.5e5, 3e5, false}, {0.99, 2.5e5, 3e5, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct bench b;
        prepare(&b);
        b.config.slo_quantile = row[i].quantile;
        b.config.slo.latency_us_p99 = row[i].slo_us;
        begin(&b);
        tick(&b);
        assert_ok(b.cluster.ops->observe(b.cluster.self, 0, INT64_MAX, &b.sample));
        b.sample.latency_us_p50.value = 1e5;
        b.sample.latency_us_p95.value = 2e5;
        b.sample.latency_us_p99.value = 3e5;
        const int64_t now = b.cluster.ops->now_us(b.cluster.self);
        assert_true(aw_pilot_observe(b.pilot, &b.sample, now, &b.row));
        const struct aw_decision *d = aw_pilot_decide(b.pilot, NULL, now);
        assert_true(d->score.violated == row[i].violated);
        assert_int_equal(b.row.figures.violated, row[i].violated);
        assert_close(b.row.figures.latency_us_p99, row[i].latency_us, 1e-12);
        end(&b);
    }
}

static void a_hand_back_restores_the_size_that_the_fallback_knows(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    b.config.watchdog.quiet = b.config.watchdog.quiet_max = 36000;
    begin(&b);
    until_it_acts(&b, 2 * EPISODE);
    assert_true(b.sample.cpu_millicores_wanted != 1000); /* or there is nothing to restore */
    b.silent = true;
    const struct aw_decision *d = tick(&b);
    assert_int_equal(d->verdict, AW_WATCHDOG_TRIPPED);
    assert_int_equal(d->watchdog.cause, AW_WATCHDOG_CAUSE_NO_FIGURES);
    assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
    b.silent = false;
    bool back = false;
    for (uint32_t t = 0; t < 8 * EPISODE; t++) {
        d = tick(&b);
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_int_equal(d->verdict, AW_WATCHDOG_HELD);
        if (back) /* and it stays there: the fallback does not decide it */
            assert_int_equal(b.sample.cpu_millicores_wanted, 1000);
        back |= b.sample.cpu_millicores_wanted == 1000;
    }
    assert_true(back);
    end(&b);
}

static void a_trip_hands_over_in_the_same_tick_and_says_why(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    until_it_acts(&b, 10);
    b.latency_more = 100;
    const struct aw_decision *d = NULL;
    for (uint32_t t = 0;; t++) {
        assert_true(t < 110); /* the window, and the slack is in it */
        d = tick(&b);
        if (d->verdict == AW_WATCHDOG_TRIPPED)
            break;
        assert_int_equal(d->actor, AW_ACTOR_AGENT);
    }
    assert_int_equal(d->watchdog.cause, AW_WATCHDOG_CAUSE_SLO_BUDGET);
    assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
    assert_true(d->watchdog.value > d->watchdog.limit);
    assert_true(d->watchdog.quiet_s > 0);
    char text[AW_WATCHDOG_TEXT_MAX];
    assert_non_null(strstr(aw_watchdog_reason_format(&d->watchdog, text, sizeof text), "budget"));
    assert_true(d->has_shadow); /* the agent is still asked */
    const int64_t quiet_until = d->at_us + (int64_t)(1e6 * d->watchdog.quiet_s);
    for (;;) {
        d = tick(&b);
        if (d->at_us >= quiet_until)
            break;
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_int_equal(d->verdict, AW_WATCHDOG_HELD);
    }
    end(&b);
}

static void every_change_of_stage_has_its_reason(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    static const struct {
        enum aw_lifecycle_cause cause;
        enum aw_stage from, to;
    } expected[] = {
        {AW_LIFECYCLE_CAUSE_BOOTSTRAP, AW_STAGE_INITIALIZED, AW_STAGE_OFFLINE},
        {AW_LIFECYCLE_CAUSE_ESTIMATE_GOOD, AW_STAGE_OFFLINE, AW_STAGE_ONLINE},
        {AW_LIFECYCLE_CAUSE_PROVEN, AW_STAGE_ONLINE, AW_STAGE_SERVING},
    };
    const uint32_t count = sizeof expected / sizeof *expected;
    uint32_t moves = 0;
    enum aw_stage stage = AW_STAGE_INITIALIZED;
    for (uint32_t t = 0; t < 30 * EPISODE && moves < count; t++) {
        const struct aw_decision *d = tick(&b);
        assert_true(d->moved == (d->stage != stage));
        if (d->moved) {
            char text[AW_LIFECYCLE_TEXT_MAX];
            assert_int_equal(d->stay.cause, expected[moves].cause);
            assert_int_equal(d->stay.from, expected[moves].from);
            assert_int_equal(d->stay.to, expected[moves].to);
            assert_int_equal(d->stage, expected[moves].to);
            assert_non_null(strstr(aw_lifecycle_reason_format(&d->stay, text, sizeof text),
                                   aw_stage_name(d->stage)));
            moves++;
        }
        stage = d->stage;
        if (stage == AW_STAGE_OFFLINE)
            assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
    }
    assert_int_equal(moves, count);
    assert_int_equal(aw_pilot_stage(b.pilot), AW_STAGE_SERVING);
    end(&b);
}

static void without_learning_the_fallback_acts_for_ever(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    b.config.learning = false;
    begin(&b);
    for (uint32_t t = 0; t < 8 * EPISODE; t++) {
        const struct aw_decision *d = tick(&b);
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_true(d->model == 0);
        assert_false(aw_pilot_learn_due(b.pilot));
    }
    end(&b);
}

static void a_stored_step_is_what_was_decided(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    struct aw_decision last = *tick(&b);
    assert_false(b.finished);
    float next_obs[AW_STATE_DIM_MAX] = {0};
    bool has_next = false;
    uint32_t plain = 0, agent_rows = 0;
    for (uint32_t t = 1; t < 12 * EPISODE; t++) {
        const struct aw_decision *d = tick(&b);
        const struct aw_store_row *row = &b.row;
        assert_true(b.finished);
        assert_string_equal(row->workload, "test/app");
        assert_int_equal(row->episode, last.episode);
        assert_int_equal(row->step, last.step);
        assert_int_equal(row->episode * EPISODE + row->step, t - 1);
        assert_int_equal(row->at_us, last.at_us);
        assert_int_equal(row->stage, last.stage);
        assert_int_equal(row->actor, last.actor);
        assert_true(row->model == last.model);
        assert_false(row->terminated);
        assert_true(row->truncated == (row->step == EPISODE - 1));
        assert_int_equal(row->act_dim, AW_ACTION_DIM);
        if (!last.guard.clips) {
            assert_memory_equal(row->action, last.action, sizeof last.action);
            plain++;
        }
        for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
            assert_true(row->action[a] >= -1 && row->action[a] <= 1);
        assert_true((row->shadow != NULL) == last.has_shadow);
        if (row->shadow)
            assert_memory_equal(row->shadow, last.shadow, sizeof last.shadow);
        if (has_next) /* also over the end of an episode */
            assert_memory_equal(row->obs, next_obs, row->obs_dim * sizeof *next_obs);
        memcpy(next_obs, row->next_obs, row->obs_dim * sizeof *next_obs);
        has_next = true;
        /* the figures are those of the step that ended, which is the one that d speaks of */
        assert_true(row->figures.violated == d->score.violated);
        assert_memory_equal(&row->figures.cost, &d->score.cost, sizeof d->score.cost);
        assert_int_equal(row->figures.replicas, d->reading.replicas_wanted);
        agent_rows += row->actor == AW_ACTOR_AGENT;
        last = *d;
    }
    assert_true(plain > 10);
    assert_true(agent_rows > 10);
    end(&b);
}

static void a_cluster_that_does_not_answer_shrinks_nothing(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    until_it_acts(&b, EPISODE);
    b.silent = true;
    for (uint32_t t = 0; t < 40; t++) {
        const struct aw_sample before = b.sample;
        const struct aw_decision *d = tick(&b);
        const struct aw_plan *plan = &d->guard.plan;
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        if (plan->set & AW_PLAN_REPLICAS)
            assert_true(plan->replicas >= before.replicas_wanted);
        if (plan->set & AW_PLAN_CPU)
            assert_true(plan->cpu_millicores >= before.cpu_millicores_wanted);
        if (plan->set & AW_PLAN_MEMORY)
            assert_true(plan->memory_bytes >= before.memory_bytes_wanted);
        assert_true(isnan(d->reading.arrivals_per_s));
    }
    end(&b);
}

static void foreign_bytes_are_refused(void **state)
{
    (void)state;
    struct bench b, network;
    prepare(&b);
    begin(&b);
    for (uint32_t t = 0; t < 3 * EPISODE; t++)
        tick(&b);
    const size_t size = aw_pilot_state_bytes(b.pilot);
    unsigned char *bytes = calloc(1, size), *again = calloc(1, size);
    assert_non_null(bytes);
    assert_non_null(again);
    assert_int_equal(aw_pilot_state_load(b.pilot, bytes), AW_ERR_FORMAT); /* zeros */
    aw_pilot_state_save(b.pilot, bytes);
    bytes[0] ^= 1;
    assert_int_equal(aw_pilot_state_load(b.pilot, bytes), AW_ERR_FORMAT);
    bytes[0] ^= 1;
    bytes[4] ^= 1; /* another length */
    assert_int_equal(aw_pilot_state_load(b.pilot, bytes), AW_ERR_FORMAT);
    bytes[4] ^= 1;
    aw_pilot_state_save(b.pilot, again);
    assert_memory_equal(bytes, again, size); /* what is refused leaves no trace */

    prepare(&network);
    network.config.agent = AW_PILOT_NETWORK;
    begin(&network);
    assert_true(aw_pilot_state_bytes(network.pilot) != size);
    assert_int_equal(aw_pilot_state_load(network.pilot, bytes), AW_ERR_FORMAT);
    end(&network);

    for (uint32_t t = 0; t < 5; t++)
        tick(&b);
    assert_ok(aw_pilot_state_load(b.pilot, bytes)); /* its own are taken */
    aw_pilot_state_save(b.pilot, again);
    assert_memory_equal(bytes, again, size);
    free(bytes);
    free(again);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mode_off_recommends_and_applies_nothing),
        cmocka_unit_test(what_is_not_controlled_is_never_touched),
        cmocka_unit_test(the_slo_speaks_of_its_own_quantile),
        cmocka_unit_test(a_hand_back_restores_the_size_that_the_fallback_knows),
        cmocka_unit_test(a_trip_hands_over_in_the_same_tick_and_says_why),
        cmocka_unit_test(every_change_of_stage_has_its_reason),
        cmocka_unit_test(without_learning_the_fallback_acts_for_ever),
        cmocka_unit_test(a_stored_step_is_what_was_decided),
        cmocka_unit_test(a_cluster_that_does_not_answer_shrinks_nothing),
        cmocka_unit_test(foreign_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
