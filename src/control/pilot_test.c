/* pilot_test.c - one workload's mind, tick by tick: who acts, what is applied, what is told. */
#include "control/pilot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "control/pilot_internal.h"
#include "control/pilot_peek.h"
#include "control/pilot_testing.h"
#include "policy/capacity.h"

static void mode_off_recommends_and_applies_nothing(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.guard.mode = AW_GUARD_OFF;
    bench_begin(&b);
    uint32_t recommended = 0, agent_steps = 0;
    for (uint32_t t = 0; t < 14 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        assert_int_equal(d->guard.plan.set, 0);
        assert_false(d->applied);
        agent_steps += d->actor == AW_ACTOR_AGENT;
        if (d->guard.recommended.set) {
            assert_true(d->guard.clips & AW_CLIP_BIT(AW_CLIP_MODE));
            recommended++;
        }
        assert_int_equal(b.sample.cpu_millicores_wanted, 1000);
        assert_int_equal(b.sample.memory_bytes_wanted, 2048 * AW_MIB);
        assert_int_equal(b.sample.replicas_wanted, 3);
    }
    assert_true(recommended > 10);
    assert_true(agent_steps > 0);
    bench_end(&b);
}

static void what_is_not_controlled_is_never_touched(void **state)
{
    (void)state;
    static const uint32_t mask[] = {AW_PLAN_REPLICAS, AW_PLAN_CPU | AW_PLAN_MEMORY, 0};
    for (size_t i = 0; i < sizeof mask / sizeof *mask; i++) {
        struct bench b;
        bench_prepare(&b);
        b.config.controlled = mask[i];
        b.config.fallback.kind = AW_FALLBACK_HPA_VPA; /* wants to change everything */
        b.config.lifecycle.bootstrap = false;         /* and so does a policy drawn by chance */
        bench_begin(&b);
        uint32_t changed = 0, agent_steps = 0;
        for (uint32_t t = 0; t < 12 * EPISODE; t++) {
            const struct aw_decision *d = bench_tick(&b);
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
            assert_int_equal(b.sample.memory_bytes_wanted, 2048 * AW_MIB);
        bench_end(&b);
    }
}

/* On copies too nothing changes that is not controlled: a policy that may change nothing does what
 * the fallback does, and no estimate of it can promise more. */
static void a_policy_earns_nothing_by_what_is_not_controlled(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.controlled = 0;
    bench_begin(&b);
    for (uint32_t t = 0; t < 12 * EPISODE; t++)
        assert_int_equal(bench_tick(&b)->actor, AW_ACTOR_FALLBACK);
    struct aw_pilot_peek seen;
    aw_pilot_peek(b.pilot, &seen);
    assert_true(aw_capacity_of(seen.policy)->memory.rehearsed_load > 0);
    assert_true(isnan(seen.better_mean) || fabs(seen.better_mean) < 1e-9);
    bench_end(&b);
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
        bench_prepare(&b);
        b.config.slo.quantile = row[i].quantile;
        b.config.slo.latency_us_p99 = row[i].slo_us;
        bench_begin(&b);
        bench_tick(&b);
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
        assert_close(aw_pilot_sample(b.pilot)->latency_us_p99.value, 3e5, 1e-12);
        bench_end(&b);
    }
}

static void a_hand_back_restores_the_size_that_the_fallback_knows(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.watchdog.quiet = b.config.watchdog.quiet_max = 36000;
    bench_begin(&b);
    bench_until_it_acts(&b, 2 * EPISODE);
    assert_true(b.sample.cpu_millicores_wanted != 1000); /* or there is nothing to restore */
    b.silent = true;
    const struct aw_decision *d = bench_tick(&b);
    assert_int_equal(d->verdict, AW_WATCHDOG_TRIPPED);
    assert_int_equal(d->watchdog.cause, AW_WATCHDOG_CAUSE_NO_FIGURES);
    assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
    b.silent = false;
    bool back = false;
    for (uint32_t t = 0; t < 8 * EPISODE; t++) {
        d = bench_tick(&b);
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_int_equal(d->verdict, AW_WATCHDOG_HELD);
        if (back) /* and it stays there: the fallback does not decide it */
            assert_int_equal(b.sample.cpu_millicores_wanted, 1000);
        back |= b.sample.cpu_millicores_wanted == 1000;
    }
    assert_true(back);
    bench_end(&b);
}

static void a_trip_hands_over_in_the_same_tick_and_says_why(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_until_it_acts(&b, 10);
    b.latency_more = 100;
    const struct aw_decision *d = NULL;
    for (uint32_t t = 0;; t++) {
        assert_true(t < 110); /* the window, and the slack is in it */
        d = bench_tick(&b);
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
        d = bench_tick(&b);
        if (d->at_us >= quiet_until)
            break;
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_int_equal(d->verdict, AW_WATCHDOG_HELD);
    }
    bench_end(&b);
}

static void every_change_of_stage_has_its_reason(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
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
        const struct aw_decision *d = bench_tick(&b);
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
    bench_end(&b);
}

static void without_learning_the_fallback_acts_for_ever(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.learning = false;
    bench_begin(&b);
    for (uint32_t t = 0; t < 8 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_true(d->policy_id == 0);
        assert_false(aw_pilot_learn_due(b.pilot));
    }
    bench_end(&b);
}

static void a_stored_step_is_what_was_decided(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    struct aw_decision last = *bench_tick(&b);
    assert_false(b.finished);
    float next_obs[AW_STATE_DIM_MAX] = {0};
    bool has_next = false;
    uint32_t plain = 0, agent_rows = 0;
    for (uint32_t t = 1; t < 12 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        const struct aw_store_row *row = &b.row;
        assert_true(b.finished);
        assert_string_equal(row->workload, "test/app");
        assert_int_equal(row->episode, last.episode);
        assert_int_equal(row->step, last.step);
        assert_int_equal(row->episode * EPISODE + row->step, t - 1);
        assert_int_equal(row->at_us, last.at_us);
        assert_int_equal(row->stage, last.stage);
        assert_int_equal(row->actor, last.actor);
        assert_true(row->policy_id == last.policy_id);
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
    bench_end(&b);
}

static void a_cluster_that_does_not_answer_shrinks_nothing(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_until_it_acts(&b, EPISODE);
    b.silent = true;
    for (uint32_t t = 0; t < 40; t++) {
        const struct aw_sample before = b.sample;
        const struct aw_decision *d = bench_tick(&b);
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
    bench_end(&b);
}

static void foreign_bytes_are_refused(void **state)
{
    (void)state;
    struct bench b, network;
    bench_prepare(&b);
    bench_begin(&b);
    for (uint32_t t = 0; t < 3 * EPISODE; t++)
        bench_tick(&b);
    const size_t size = aw_pilot_state_bytes(b.pilot);
    unsigned char *bytes = calloc(1, size), *again = calloc(1, size);
    assert_non_null(bytes);
    assert_non_null(again);
    assert_int_equal(aw_pilot_state_load(b.pilot, bytes), AW_ERR_FORMAT); /* zeros */
    aw_pilot_state_save(b.pilot, bytes);
    for (size_t i = 0; i < size; i += 7) { /* wherever it is damaged */
        bytes[i] ^= 1;
        assert_int_equal(aw_pilot_state_load(b.pilot, bytes), AW_ERR_FORMAT);
        bytes[i] ^= 1;
    }
    aw_pilot_state_save(b.pilot, again);
    assert_memory_equal(bytes, again, size); /* what is refused leaves no trace */

    bench_prepare(&network);
    network.config.agent = AW_POLICY_NETWORK;
    bench_begin(&network);
    assert_true(aw_pilot_state_bytes(network.pilot) != size);
    assert_int_equal(aw_pilot_state_load(network.pilot, bytes), AW_ERR_FORMAT);
    bench_end(&network);

    for (uint32_t t = 0; t < 5; t++)
        bench_tick(&b);
    assert_ok(aw_pilot_state_load(b.pilot, bytes)); /* its own are taken */
    aw_pilot_state_save(b.pilot, again);
    assert_memory_equal(bytes, again, size);
    free(bytes);
    free(again);
    bench_end(&b);
}

/* Two rules that four applications have lived. */
static void lived(struct aw_library *library)
{
    assert_ok(aw_library_alloc(library, 2, 4, NULL));
    for (uint32_t r = 0; r < 2; r++) {
        aw_capacity_rule_plain(&library->rule[r]);
        library->rule[r].x[AW_CAPACITY_RULE_MARGIN] += 0.1 * r;
    }
    for (uint32_t i = 0; i < 8; i++)
        library->lived[i] = (struct aw_library_lived){1 + (float)(i % 2), 1, 0.001f};
    for (uint32_t app = 0; app < 4; app++)
        for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
            library->context[app][i] = (float)app;
    aw_library_prepare(library);
}

static void a_policy_that_others_have_lived_acts_after_ten_minutes(void **state)
{
    (void)state;
    struct bench b;
    struct aw_library library;
    lived(&library);
    bench_prepare(&b);
    b.config.library = &library;
    bench_begin(&b);
    const struct aw_decision *d = bench_tick(&b);
    uint32_t ticks = 1;
    for (; d->actor == AW_ACTOR_FALLBACK && ticks < 100; ticks++)
        d = bench_tick(&b);
    assert_in_range(ticks, 40, 42);
    assert_int_equal(d->actor, AW_ACTOR_AGENT);
    assert_int_equal(d->stage, AW_STAGE_SERVING);
    assert_true(d->policy_id != 0);
    assert_string_equal(d->origin.name, "library");
    assert_true(d->origin.checksum == library.checksum);
    assert_true(d->guard.proposed.set & AW_PLAN_REPLICAS);
    bench_end(&b);
    aw_library_deinit(&library);
}

/* Elsewhere a rule of twelve times the need was the cheaper one, and was taken; after an hour
 * copies show that here it is not. The other one takes its place without a trial: others have
 * lived it. */
static void what_was_chosen_is_chosen_anew_by_what_was_seen_since(void **state)
{
    (void)state;
    struct bench b;
    struct aw_library library;
    lived(&library);
    library.rule[0].x[AW_CAPACITY_RULE_MARGIN] = 0.9;
    library.rule[1].x[AW_CAPACITY_RULE_MARGIN] = 0.5;
    for (uint32_t i = 0; i < 8; i++)
        library.lived[i].cores = 1 + 0.05f * (float)(i % 2);
    aw_library_prepare(&library);
    bench_prepare(&b);
    b.config.library = &library;
    b.config.slo.latency_us_p99 *= 2;
    b.task.slo_latency_us *= 2;
    b.config.rehearse.tries_near = 10;
    bench_begin(&b);
    for (uint32_t t = 0; t < 100; t++)
        bench_tick(&b);
    const struct aw_capacity *mine = aw_capacity_of(&b.pilot->policy);
    const struct aw_capacity_rule of[] = {aw_capacity_lived(mine, 0), aw_capacity_lived(mine, 1)};
    const uint64_t first = aw_capacity_rule_id(&of[0]);
    assert_true(aw__pilot_policy_id(b.pilot) == first);
    for (uint32_t t = 0; t < 600 && aw__pilot_policy_id(b.pilot) == first; t++)
        bench_tick(&b);
    assert_true(b.pilot->memory.minute_count < 180);
    assert_true(aw__pilot_policy_id(b.pilot) == aw_capacity_rule_id(&of[1]));
    const struct aw_decision *d = bench_tick(&b);
    assert_int_equal(d->actor, AW_ACTOR_AGENT);
    assert_string_equal(d->origin.name, "library");
    assert_true(b.pilot->policy.ops->known(b.pilot->policy.self) != NULL);
    assert_int_equal(d->canary.state, AW_CANARY_NONE);
    bench_end(&b);
    aw_library_deinit(&library);
}

static void a_fallback_that_misses_gets_more(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.relief.enabled = true;
    b.config.learning = false;
    b.config.slo.latency_us_p99 /= 100; /* nobody can keep it */
    bench_begin(&b);
    uint32_t relieved = 0;
    for (uint32_t t = 0; t < 40; t++)
        relieved |= bench_tick(&b)->relieved;
    assert_true(relieved & AW_PLAN_REPLICAS);
    assert_true(relieved & AW_PLAN_CPU);
    bench_end(&b);
}

AW_TEST_GROUP("pilot")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mode_off_recommends_and_applies_nothing),
        cmocka_unit_test(what_is_not_controlled_is_never_touched),
        cmocka_unit_test(a_policy_earns_nothing_by_what_is_not_controlled),
        cmocka_unit_test(the_slo_speaks_of_its_own_quantile),
        cmocka_unit_test(a_hand_back_restores_the_size_that_the_fallback_knows),
        cmocka_unit_test(a_trip_hands_over_in_the_same_tick_and_says_why),
        cmocka_unit_test(every_change_of_stage_has_its_reason),
        cmocka_unit_test(without_learning_the_fallback_acts_for_ever),
        cmocka_unit_test(a_stored_step_is_what_was_decided),
        cmocka_unit_test(a_cluster_that_does_not_answer_shrinks_nothing),
        cmocka_unit_test(foreign_bytes_are_refused),
        cmocka_unit_test(a_policy_that_others_have_lived_acts_after_ten_minutes),
        cmocka_unit_test(what_was_chosen_is_chosen_anew_by_what_was_seen_since),
        cmocka_unit_test(a_fallback_that_misses_gets_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
