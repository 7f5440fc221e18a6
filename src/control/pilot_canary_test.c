/* pilot_canary_test.c - a second policy beside the one in force, on a simulated cluster: what is
 * bad is taken back, what is good stays, and nothing is forgotten over a restart. */
#include <stdlib.h>

#include "base/hash.h"
#include "control/pilot_internal.h"
#include "control/pilot_testing.h"
#include "policy/capacity.h"

/* One number for everything that was decided: any difference shows. */
static uint64_t mix_decision(uint64_t h, const struct aw_decision *d)
{
    h = aw_hash_bytes(h, &d->at_us, sizeof d->at_us);
    h = aw_hash_bytes(h, &d->actor, sizeof d->actor);
    h = aw_hash_bytes(h, &d->policy_id, sizeof d->policy_id);
    h = aw_hash_bytes(h, d->action, sizeof d->action);
    h = aw_hash_bytes(h, &d->guard.plan.replicas, sizeof d->guard.plan.replicas);
    h = aw_hash_bytes(h, &d->guard.plan.cpu_millicores, sizeof d->guard.plan.cpu_millicores);
    h = aw_hash_bytes(h, &d->guard.plan.memory_bytes, sizeof d->guard.plan.memory_bytes);
    h = aw_hash_bytes(h, &d->guard.clips, sizeof d->guard.clips);
    h = aw_hash_bytes(h, &d->canary.state, sizeof d->canary.state);
    h = aw_hash_bytes(h, &d->canary.steps, sizeof d->canary.steps);
    return aw_hash_bytes(h, &d->canary.plan, sizeof d->canary.plan);
}

enum rule { SCANT, PLAIN, LAVISH, LARGE };

/* Numbers that can be read; no trims to speak of, no sleep. */
static struct aw_capacity_rule rule_of(enum rule kind)
{
    static const struct {
        double cpu, margin;
    } of[] = {
        [SCANT] = {0, 0},        /* a tenth of a core, four fifths of what is needed */
        [PLAIN] = {0.62, 0.35},  /* a core, twice the need */
        [LAVISH] = {0.62, 0.62}, /* a core, five times the need */
        [LARGE] = {1, 0.35},     /* four cores, twice the need */
    };
    struct aw_capacity_rule rule;
    aw_capacity_rule_plain(&rule);
    rule.x[AW_CAPACITY_RULE_CPU] = of[kind].cpu;
    rule.x[AW_CAPACITY_RULE_MARGIN] = of[kind].margin;
    rule.x[AW_CAPACITY_RULE_TRIM] = 0;
    rule.x[AW_CAPACITY_RULE_SLEEP] = 1;
    return rule;
}
#define ANY_STATE AW_CANARY_STATE_COUNT

/* A workload that is served by a known capacity rule, and searches for no other. */
static void serve(struct bench *b, enum rule kind)
{
    bench_prepare(b);
    aw_load_deinit(&b->load); /* so that an hour is as good as another */
    assert_ok(aw_load_parse("constant:mean=20", 1, NULL, &b->load, NULL));
    aw_load_scale_mean(&b->load, aw_app_rate_for(&b->app, 1.5));
    b->config.slo.latency_us_p99 *= 2;
    b->task.slo_latency_us *= 2;
    b->config.canary.shadow_steps = 10;
    b->config.watchdog.slack = 7;
    b->config.lifecycle.stage_least = 2;
    b->config.lifecycle.window = b->config.lifecycle.fill = 2;
    /* rails that would hide how bad a policy is */
    b->config.guard.cpu_margin = 0;
    b->config.guard.peak_window = 60;
    bench_begin(b);
    bench_until_it_acts(b, 1);
    struct aw__pilot_memory *memory = &b->pilot->memory;
    const struct aw_capacity_rule rule = rule_of(kind);
    aw_capacity_set(aw_capacity_of(&b->pilot->policy), &rule, aw_capacity_rule_id(&rule));
    memory->next_rows = UINT32_MAX;
    memory->violation_share = NAN; /* of what was there before */
    memory->loaded = memory->missed = 0;
    for (uint32_t t = 0; t < 6 * EPISODE || memory->step != 0; t++)
        bench_tick(b);
    assert_true(aw__pilot_policy_id(b->pilot) ==
                aw_capacity_rule_id(&aw_capacity_of(&b->pilot->policy)->memory.rule));
    assert_int_equal(memory->lifecycle.stage, AW_STAGE_SERVING);
    b->pilot->config.retrain = false; /* what comes is what is handed in */
}

static void try_rule(struct bench *b, enum rule kind)
{
    const struct aw_capacity_rule rule = rule_of(kind);
    const struct aw_canary_candidate candidate = {
        .id = aw_capacity_rule_id(&rule), .gain = NAN, .gain_error = NAN, .violation_share = NAN};
    struct aw_policy policy;
    assert_ok(aw_policy_new(&aw_capacity_ops, &b->pilot->policy_task, b->pilot->alloc, &policy));
    aw_capacity_set(aw_capacity_of(&policy), &rule, candidate.id);
    aw__pilot_try(b->pilot, &policy, NULL, &candidate, AW_CANARY_CAUSE_PROPOSED);
}

static void a_worse_policy_is_rolled_back_within_two_episodes(void **state)
{
    (void)state;
    struct bench b;
    serve(&b, PLAIN);
    b.pilot->config.canary.clipped = 1; /* rails cut it, too; here it is to be tried all the same */
    const uint64_t good = aw__pilot_policy_id(b.pilot);
    try_rule(&b, SCANT);
    const uint64_t bad = b.pilot->memory.canary.candidate.id;
    uint32_t acted = 0, missed = 0, back_at = 0, restored = 0;
    struct aw_plan allocation = {0};
    bool by_trial = false;
    for (uint32_t t = 0; t < 6 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        missed += by_trial && d->score.violated;
        by_trial = d->canary.acts;
        acted += by_trial;
        assert_true(d->canary.acts == (d->policy_id == bad));
        if (d->canary.moved) {
            char text[AW_CANARY_TEXT_MAX];
            assert_true(strlen(aw_canary_reason_format(&d->canary.reason, text, sizeof text)) > 20);
            if (getenv("AWARE_TEST_SAYS"))
                printf("step %u: %s\n", t, text);
        }
        if (d->canary.state == AW_CANARY_ROLLED_BACK && !back_at) {
            back_at = t;
            allocation = b.pilot->memory.canary.allocation;
            assert_true(d->canary.moved);
            assert_true(d->canary.reason.trial == bad && d->canary.reason.good == good);
        }
        if (back_at) {
            assert_false(d->canary.acts);
            assert_true(d->policy_id == good);
            restored += d->canary.restoring;
        }
    }
    assert_true(acted > 0); /* it got as far as that */
    assert_true(back_at > 0 && back_at < 2 * EPISODE);
    const struct aw_watchdog_settings *watchdog = &b.config.watchdog;
    assert_true(missed <= watchdog->window * b.config.slo_budget + watchdog->slack + 1);
    assert_true(restored <= b.config.canary.restore_steps);
    /* what was there before is there again: the load is that of any quarter of an hour */
    assert_int_equal(b.sample.cpu_millicores_wanted, allocation.cpu_millicores);
    assert_true(aw_canary_barred(&b.pilot->memory.canary, bad, b.pilot->memory.rows));
    assert_true(b.pilot->memory.next_rows > b.pilot->memory.rows);
    bench_end(&b);
}

static void a_better_policy_is_adopted_and_keeps_what_it_learned(void **state)
{
    (void)state;
    struct bench b;
    serve(&b, LAVISH);
    try_rule(&b, PLAIN);
    const uint64_t id = b.pilot->memory.canary.candidate.id;
    uint32_t acted = 0, at = 0;
    double before = 0, after = 0;
    for (uint32_t t = 0; t < 8 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        acted += d->canary.acts;
        before += t < EPISODE / 2 ? d->score.cost : 0;
        after += t >= 8 * EPISODE - EPISODE / 2 ? d->score.cost : 0;
        if (d->canary.state == AW_CANARY_ADOPTED && !at) {
            at = t;
            assert_int_equal(d->canary.reason.cause, AW_CANARY_CAUSE_PROVEN);
            assert_int_equal(d->canary.episodes, b.config.canary.episodes);
            assert_true(d->canary.observed_mean >= d->canary.predicted_low);
            assert_true(d->canary.good == id);
        }
        if (at) {
            assert_true(d->policy_id == id);
            assert_false(d->canary.acts);
        }
    }
    assert_true(at > 0 && at < 5 * EPISODE);
    assert_true(acted >= 2 * EPISODE);
    assert_true(after < before);
    assert_true(aw__pilot_policy_id(b.pilot) == id);
    bench_end(&b);
}

/* Three replicas of a core are to become one of four. The rails want the size before they let
 * replicas go, which says nothing against the policy. */
static void fewer_and_larger_replicas_are_no_reason_to_refuse(void **state)
{
    (void)state;
    struct bench b;
    serve(&b, PLAIN);
    assert_true(b.sample.replicas_wanted > 1 && b.sample.cpu_millicores_wanted < 1500);
    struct aw_guard_settings *rails = &b.pilot->rules.guard.settings; /* the others would hide it */
    rails->replicas_down_cooldown = rails->replicas_stabilisation = 0;
    rails->replicas_down_factor = rails->change_factor = 100;
    try_rule(&b, LARGE);
    const struct aw_decision *d;
    do
        d = bench_tick(&b);
    while (d->canary.state == AW_CANARY_SHADOW);
    assert_int_equal(d->canary.state, AW_CANARY_TRIAL);
    int64_t fewest = b.sample.replicas_wanted;
    while (d->canary.state == AW_CANARY_TRIAL) { /* dearer than predicted, it does not stay */
        d = bench_tick(&b);
        fewest = b.sample.replicas_wanted < fewest ? b.sample.replicas_wanted : fewest;
    }
    assert_int_equal(fewest, 1);
    bench_end(&b);
}

static void in_the_shadow_it_is_asked_and_changes_nothing(void **state)
{
    (void)state;
    struct bench b, twin;
    serve(&b, PLAIN);
    serve(&twin, PLAIN);
    try_rule(&b, LAVISH);
    uint32_t asked = 0, differs = 0;
    while (aw_pilot_decision(b.pilot)->canary.state != AW_CANARY_TRIAL) {
        const struct aw_decision *d = bench_tick(&b), *same = bench_tick(&twin);
        assert_memory_equal(&d->guard, &same->guard, sizeof d->guard);
        assert_memory_equal(d->action, same->action, sizeof d->action);
        asked += d->canary.plan.set != 0;
        differs += d->canary.plan.replicas != d->by_agent.replicas;
    }
    assert_int_equal(asked, b.config.canary.shadow_steps);
    assert_true(differs > 0); /* or nothing was asked */
    bench_end(&b);
    bench_end(&twin);
}

static void
a_trip_of_the_watchdog_rolls_back_at_once_and_is_not_held_against_the_stage(void **state)
{
    (void)state;
    struct bench b;
    serve(&b, PLAIN);
    b.pilot->config.canary.chance = 0; /* leaves them to the watchdog */
    b.pilot->config.canary.width = 100;
    try_rule(&b, LAVISH);
    while (!bench_tick(&b)->canary.acts)
        ;
    b.latency_more = 100;
    const struct aw_decision *d;
    do {
        d = bench_tick(&b);
        char text[AW_CANARY_TEXT_MAX];
        if (d->verdict == AW_WATCHDOG_PASS && !d->canary.acts)
            fail_msg("%s", aw_canary_reason_format(&d->canary.reason, text, sizeof text));
    } while (d->verdict == AW_WATCHDOG_PASS);
    assert_int_equal(d->verdict, AW_WATCHDOG_TRIPPED);
    assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
    assert_int_equal(d->canary.state, AW_CANARY_ROLLED_BACK);
    assert_int_equal(d->canary.reason.cause, AW_CANARY_CAUSE_TRIPPED);
    assert_true(d->canary.moved);
    for (uint32_t i = 0; i < AW_LIFECYCLE_TRIPS_MAX; i++)
        assert_true(b.pilot->memory.lifecycle.trip_us[i] == INT64_MIN);
    bench_end(&b);
}

static void after_a_rollback_at_least_the_last_known_good_allocation_is_asked_for(void **state)
{
    (void)state;
    struct bench b;
    serve(&b, LAVISH);
    b.pilot->config.canary.chance = 0;
    b.pilot->config.canary.clipped = 1;
    b.pilot->config.watchdog.slack = 1e9;
    try_rule(&b, PLAIN);
    while (!bench_tick(&b)->canary.acts)
        ;
    const struct aw_plan good = b.pilot->memory.canary.allocation;
    for (uint32_t t = 0; t < 5; t++) /* it shrinks */
        bench_tick(&b);
    assert_true(b.sample.replicas_wanted < good.replicas);
    b.pilot->config.canary.chance = 1; /* any missed step is one too many */
    b.latency_more = 100;
    const struct aw_decision *d;
    do
        d = bench_tick(&b);
    while (d->canary.state == AW_CANARY_TRIAL);
    assert_int_equal(d->canary.state, AW_CANARY_ROLLED_BACK);
    assert_true(d->canary.restoring);
    assert_true(d->guard.proposed.replicas >= good.replicas);
    assert_true(d->guard.proposed.cpu_millicores >= good.cpu_millicores);
    assert_true(d->guard.proposed.memory_bytes >= good.memory_bytes);
    while (d->canary.restoring)
        d = bench_tick(&b);
    assert_true(d->reading.replicas_wanted >= good.replicas);
    bench_end(&b);
}

static uint64_t life(uint64_t *ret_seen)
{
    struct bench b;
    uint64_t h = AW_HASH_BEGIN, seen = 0;
    serve(&b, LAVISH);
    try_rule(&b, PLAIN);
    for (uint32_t t = 0; t < 5 * EPISODE; t++) {
        const struct aw_decision *d = bench_tick(&b);
        h = mix_decision(h, d);
        seen |= UINT64_C(1) << d->canary.state;
    }
    *ret_seen = seen;
    bench_end(&b);
    return h;
}

static void same_seed_same_decisions(void **state)
{
    (void)state;
    uint64_t seen[2];
    assert_true(life(&seen[0]) == life(&seen[1]));
    assert_true(seen[0] & (1 << AW_CANARY_SHADOW));
    assert_true(seen[0] & (1 << AW_CANARY_TRIAL));
    assert_true(seen[0] & (1 << AW_CANARY_ADOPTED));
}

static void a_pilot_that_was_killed_in_a_trial_goes_on_as_if_it_had_not_been(void **state)
{
    (void)state;
    static const struct {
        enum rule good, tried;
        uint32_t at; /* ticks after it was handed in */
        enum aw_canary_state in;
        const char *why;
    } row[] = {
        {LAVISH, PLAIN, 4, AW_CANARY_SHADOW, "while it is watched"},
        {LAVISH, PLAIN, 14, AW_CANARY_TRIAL, "before its part of an episode"},
        {LAVISH, PLAIN, 21, AW_CANARY_TRIAL, "within its part"},
        {LAVISH, PLAIN, EPISODE + 7, AW_CANARY_TRIAL, "within a whole episode"},
        {PLAIN, SCANT, EPISODE + 1, ANY_STATE, "while what is bad is taken back"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        uint64_t h[2];
        for (uint32_t killed = 0; killed < 2; killed++) {
            struct bench b;
            serve(&b, row[k].good);
            try_rule(&b, row[k].tried);
            for (uint32_t t = 0; t < row[k].at; t++)
                bench_tick(&b);
            if (row[k].in != ANY_STATE)
                assert_int_equal(b.pilot->memory.canary.state, row[k].in);
            if (killed) {
                unsigned char *bytes = malloc(aw_pilot_state_bytes(b.pilot));
                assert_non_null(bytes);
                aw_pilot_state_save(b.pilot, bytes);
                const struct aw_pilot_config config = *aw_pilot_config(b.pilot);
                struct aw_pilot *again = NULL;
                assert_ok(aw_pilot_new(&config, &b.task, 0, &b.counting.alloc, &again, NULL));
                assert_ok(aw_pilot_state_load(again, bytes));
                aw_pilot_free(b.pilot);
                b.pilot = again;
                free(bytes);
            }
            h[killed] = AW_HASH_BEGIN;
            for (uint32_t t = 0; t < 4 * EPISODE; t++)
                h[killed] = mix_decision(h[killed], bench_tick(&b));
            bench_end(&b);
        }
        if (h[0] != h[1])
            fail_msg("%s: other decisions", row[k].why);
    }
}

static void a_moment_of_a_trial_decides_the_same_again(void **state)
{
    (void)state;
    struct bench b;
    serve(&b, LAVISH);
    try_rule(&b, PLAIN);
    unsigned char *moment = malloc(aw_pilot_snapshot_bytes_max(b.pilot));
    assert_non_null(moment);
    struct aw_pilot *again = NULL;
    assert_ok(aw_pilot_new(aw_pilot_config(b.pilot), &b.task, 0, &b.counting.alloc, &again, NULL));
    for (uint32_t t = 0; t < 3 * EPISODE; t++) {
        const struct aw_cluster *cluster = &b.cluster;
        const int64_t now = cluster->ops->now_us(cluster->self);
        assert_ok(cluster->ops->observe(cluster->self, 0, INT64_MAX, &b.sample));
        (void)aw_pilot_observe(b.pilot, &b.sample, now, &b.row);
        const size_t size = aw_pilot_snapshot_save(b.pilot, moment);
        const struct aw_decision d = *aw_pilot_decide(b.pilot, NULL, now);
        assert_ok(aw_pilot_snapshot_load(again, moment, size));
        const struct aw_decision *other = aw_pilot_decide(again, NULL, now);
        assert_true(mix_decision(1, &d) == mix_decision(1, other));
        assert_true(d.canary.moved == other->canary.moved);
        const struct aw_plan *plan = &d.guard.plan;
        aw_pilot_applied(b.pilot,
                         plan->set && !cluster->ops->apply(cluster->self, 0, plan, INT64_MAX), now);
        assert_ok(cluster->ops->advance(cluster->self, now + STEP_US));
    }
    free(moment);
    aw_pilot_free(again);
    bench_end(&b);
}

static void
a_policy_that_is_found_while_one_acts_is_tried_and_without_a_canary_acts_at_once(void **state)
{
    (void)state;
    for (uint32_t enabled = 0; enabled < 2; enabled++) {
        struct bench b;
        serve(&b, LAVISH); /* anything that is searched for is cheaper */
        const uint64_t before = aw__pilot_policy_id(b.pilot);
        b.pilot->config.canary.enabled = enabled;
        b.pilot->config.retrain = true;
        b.pilot->memory.next_rows = 0;
        for (uint32_t t = 0; t < 2 * EPISODE && b.pilot->memory.canary.state == AW_CANARY_NONE &&
                             aw__pilot_policy_id(b.pilot) == before;
             t++)
            bench_tick(&b);
        if (enabled) {
            const struct aw_decision *d = bench_tick(&b);
            assert_int_equal(d->canary.state, AW_CANARY_SHADOW);
            assert_int_equal(d->canary.reason.cause, AW_CANARY_CAUSE_FOUND);
            assert_true(d->policy_id == before && d->canary.trial != before);
            assert_true(isfinite(d->canary.predicted_mean));
            assert_true(d->canary.predicted_low < d->canary.predicted_mean);
            assert_false(aw_pilot_learn_due(b.pilot)); /* one at a time */
        } else {
            assert_int_equal(b.pilot->memory.canary.state, AW_CANARY_NONE);
            assert_true(aw__pilot_policy_id(b.pilot) != before);
        }
        bench_end(&b);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static void a_policy_goes_from_one_workload_to_another_as_text(void **state)
{
    (void)state;
    struct bench from, to;
    struct aw_diag diag = {0};
    char *text = NULL;
    serve(&from, PLAIN);
    serve(&to, LAVISH);
    assert_ok(aw_pilot_policy_text(from.pilot, &text, &diag));
    if (aw_pilot_propose(to.pilot, text, strlen(text), &diag))
        fail_msg("%s", diag.text);
    assert_true(to.pilot->memory.canary.candidate.id == aw__pilot_policy_id(from.pilot));
    assert_memory_equal(&aw_capacity_of(&to.pilot->trial)->memory.rule,
                        &aw_capacity_of(&from.pilot->policy)->memory.rule,
                        sizeof(struct aw_capacity_rule));
    assert_int_equal(bench_tick(&to)->canary.state, AW_CANARY_SHADOW);
    /* one at a time */
    assert_int_equal(aw_pilot_propose(to.pilot, text, strlen(text), &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "one at a time"));
    /* and not what is there already */
    assert_int_equal(aw_pilot_propose(from.pilot, text, strlen(text), &diag), AW_ERR_EXISTS);
    free(text);
    bench_end(&from);
    bench_end(&to);
}

static void a_file_that_is_damaged_or_foreign_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct bench from, to;
    struct aw_diag diag = {0};
    char *text = NULL;
    serve(&from, PLAIN);
    serve(&to, LAVISH);
    assert_ok(aw_pilot_policy_text(from.pilot, &text, &diag));
    const size_t size = strlen(text), bytes = aw_pilot_state_bytes(to.pilot);
    unsigned char *before = malloc(bytes), *after = malloc(bytes);
    assert_non_null(before);
    assert_non_null(after);
    aw_pilot_state_save(to.pilot, before);
    uint32_t refused = 0;
    for (size_t i = 0; i < size; i++) { /* any byte, and any length */
        text[i] ^= 1;
        diag.text[0] = '\0';
        const enum aw_err err = aw_pilot_propose(to.pilot, text, size, &diag);
        assert_true(!err || strlen(diag.text) > 10);
        refused += err != AW_OK;
        if (!err) { /* the last of seventeen digits: the same number */
            assert_true(to.pilot->memory.canary.candidate.id == aw__pilot_policy_id(from.pilot));
            assert_ok(aw_pilot_state_load(to.pilot, before));
        }
        text[i] ^= 1;
        assert_int_equal(aw_pilot_propose(to.pilot, text, i, &diag), AW_ERR_FORMAT);
    }
    assert_true(refused >= size - 10);
    static const struct {
        const char *text;
        enum aw_err err;
        const char *says, *why;
    } row[] = {
        {"", AW_ERR_FORMAT, "not a policy", "nothing"},
        {"[]", AW_ERR_FORMAT, "expected an object", "JSON, and no object"},
        {"{}", AW_ERR_FORMAT, "aware-policy", "an object of something else"},
        {"{\"format\":\"aware-policy\",\"version\":9}", AW_ERR_FORMAT, "another version", "newer"},
        {"{\"format\":\"aware-policy\",\"version\":1}", AW_ERR_FORMAT, "checksum", "without one"},
        {"{\"format\":\"aware-policy\",\"version\":1,\"version\":1}", AW_ERR_FORMAT, "no JSON",
         "said twice"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const enum aw_err err = aw_pilot_propose(to.pilot, row[k].text, strlen(row[k].text), &diag);
        if (err != row[k].err || !strstr(diag.text, row[k].says))
            fail_msg("%s: %s", row[k].why, diag.text);
    }
    aw_pilot_state_save(to.pilot, after);
    assert_memory_equal(before, after, bytes);
    free(before);
    free(after);
    free(text);
    bench_end(&from);
    bench_end(&to);
}

static void a_policy_is_not_tried_where_the_fallback_acts_nor_again_after_a_rollback(void **state)
{
    (void)state;
    struct bench from, to;
    struct aw_diag diag = {0};
    char *text = NULL;
    serve(&from, SCANT);
    assert_ok(aw_pilot_policy_text(from.pilot, &text, &diag));
    bench_prepare(&to);
    bench_begin(&to);
    bench_tick(&to);
    assert_int_equal(aw_pilot_propose(to.pilot, text, strlen(text), &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "fallback"));
    bench_end(&to);
    serve(&to, PLAIN);
    assert_ok(aw_pilot_propose(to.pilot, text, strlen(text), &diag));
    while (aw_canary_busy(&to.pilot->memory.canary))
        bench_tick(&to);
    assert_int_not_equal(to.pilot->memory.canary.state, AW_CANARY_ADOPTED);
    assert_int_equal(aw_pilot_propose(to.pilot, text, strlen(text), &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "rolled back"));
    to.pilot->memory.rows = to.pilot->memory.next_rows; /* much was seen since */
    assert_ok(aw_pilot_propose(to.pilot, text, strlen(text), &diag));
    free(text);
    bench_end(&from);
    bench_end(&to);
}

static void network(struct bench *b, uint64_t seed)
{
    bench_prepare(b);
    b->config.agent = AW_POLICY_NETWORK;
    b->config.lifecycle.bootstrap = false; /* acts at once, untrained */
    b->config.learner.hidden = 8;
    b->config.watchdog.slack = 1e9;
    b->config.watchdog.strange = 1e6;
    b->config.canary.shadow_steps = 5;
    b->config.canary.clipped = 1;
    b->config.canary.chance = 0;
    b->config.canary.width = 100;
    b->config.explore_sigma = 0;
    b->config.retrain = false;
    b->config.seed = seed;
    bench_begin(b);
    b->pilot->config.learning = true;
    b->pilot->memory.lifecycle.stage = AW_STAGE_SERVING;
    for (uint32_t t = 0; t < EPISODE; t++)
        bench_tick(b);
}

static void a_network_is_tried_too_and_takes_memory_only_meanwhile(void **state)
{
    (void)state;
    struct bench from, b, rule;
    struct aw_diag diag = {0};
    char *text = NULL;
    network(&from, 11);
    network(&b, 12);
    const uint64_t id = aw__pilot_policy_id(from.pilot);
    assert_true(id != aw__pilot_policy_id(b.pilot));
    assert_ok(aw_pilot_policy_text(from.pilot, &text, &diag));
    const size_t small = aw_pilot_bytes(b.pilot, true);
    if (aw_pilot_propose(b.pilot, text, strlen(text), &diag))
        fail_msg("%s", diag.text);
    assert_true(aw_pilot_bytes(b.pilot, true) > small);
    uint32_t acted = 0;
    for (uint32_t t = 0; t < 6 * EPISODE && aw_canary_busy(&b.pilot->memory.canary); t++) {
        if (t == 4 || t == EPISODE + 3) { /* and lives on through a restart */
            unsigned char *bytes = malloc(aw_pilot_state_bytes(b.pilot));
            assert_non_null(bytes);
            aw_pilot_state_save(b.pilot, bytes);
            aw_pilot_free(b.pilot);
            assert_ok(aw_pilot_new(&b.config, &b.task, 0, &b.counting.alloc, &b.pilot, NULL));
            assert_ok(aw_pilot_state_load(b.pilot, bytes));
            free(bytes);
        }
        acted += bench_tick(&b)->canary.acts;
    }
    assert_true(acted >= 2 * EPISODE);
    assert_int_equal(b.pilot->memory.canary.state, AW_CANARY_ADOPTED);
    assert_true(aw__pilot_policy_id(b.pilot) == id);
    assert_int_equal(aw_pilot_bytes(b.pilot, true), small);

    serve(&rule, PLAIN); /* the kinds do not mix */
    assert_int_equal(aw_pilot_propose(rule.pilot, text, strlen(text), &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "expected formula"));
    free(text);
    bench_end(&rule);
    bench_end(&from);
    bench_end(&b);
}

static void lack_of_memory_for_a_trial_is_told_and_changes_nothing(void **state)
{
    (void)state;
    struct bench from, b;
    char *text = NULL;
    network(&from, 11);
    network(&b, 12);
    assert_ok(aw_pilot_policy_text(from.pilot, &text, NULL));
    for (uint64_t n = 0;; n++) {
        b.counting.fail_after = b.counting.alloc_count + n;
        const enum aw_err err = aw_pilot_propose(b.pilot, text, strlen(text), NULL);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_false(aw_canary_busy(&b.pilot->memory.canary));
        assert_true(n < 10);
    }
    assert_true(aw_canary_busy(&b.pilot->memory.canary));
    b.counting.fail_after = UINT64_MAX;
    free(text);
    bench_end(&from);
    bench_end(&b);
}

AW_TEST_GROUP("pilot-canary")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worse_policy_is_rolled_back_within_two_episodes),
        cmocka_unit_test(a_better_policy_is_adopted_and_keeps_what_it_learned),
        cmocka_unit_test(fewer_and_larger_replicas_are_no_reason_to_refuse),
        cmocka_unit_test(in_the_shadow_it_is_asked_and_changes_nothing),
        cmocka_unit_test(
            a_trip_of_the_watchdog_rolls_back_at_once_and_is_not_held_against_the_stage),
        cmocka_unit_test(after_a_rollback_at_least_the_last_known_good_allocation_is_asked_for),
        cmocka_unit_test(same_seed_same_decisions),
        cmocka_unit_test(a_pilot_that_was_killed_in_a_trial_goes_on_as_if_it_had_not_been),
        cmocka_unit_test(a_moment_of_a_trial_decides_the_same_again),
        cmocka_unit_test(
            a_policy_that_is_found_while_one_acts_is_tried_and_without_a_canary_acts_at_once),
        cmocka_unit_test(a_policy_goes_from_one_workload_to_another_as_text),
        cmocka_unit_test(a_file_that_is_damaged_or_foreign_is_refused_and_changes_nothing),
        cmocka_unit_test(a_policy_is_not_tried_where_the_fallback_acts_nor_again_after_a_rollback),
        cmocka_unit_test(a_network_is_tried_too_and_takes_memory_only_meanwhile),
        cmocka_unit_test(lack_of_memory_for_a_trial_is_told_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
