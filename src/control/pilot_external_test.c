/* pilot_external_test.c - a workload whose agent lives in another process: who acts, what is told,
 * and that it is all the same when it is taken again. */
#include <stdlib.h>

#include "control/loop.h"
#include "control/pilot_internal.h"
#include "control/pilot_testing.h"
#include "desk/explanation.h"
#include "policy/external.h"

/* An agent that keeps the workload well supplied. */
static struct aw_external_agent_answer good_answer(void)
{
    struct aw_external_agent_answer answer = {
        .agent = aw_external_agent_id("steady@1"), .took_s = 0.01, .name = "steady@1"};
    answer.action[AW_ACTION_CPU] = 0.4f;
    answer.action[AW_ACTION_MEMORY] = 0.4f;
    answer.action[AW_ACTION_REPLICAS] = 0.2f;
    return answer;
}

static struct aw_external_agent_answer bad_answer(enum aw_external_agent_fault fault)
{
    struct aw_external_agent_answer answer = good_answer();
    answer.fault = fault;
    return answer;
}

struct told {
    struct aw_external_agent_request request;
    bool asked;
};

/* One tick in which the agent says `answer`, as a loop makes it. */
static const struct aw_decision *
tick(struct bench *b, const struct aw_external_agent_answer *answer, struct told *told)
{
    const struct aw_cluster *cluster = &b->cluster;
    const int64_t now = cluster->ops->now_us(cluster->self);
    const bool answered = !cluster->ops->observe(cluster->self, 0, INT64_MAX, &b->sample);
    const uint64_t before = b->counting.alloc_count;
    b->finished =
        aw_pilot_observe(b->pilot, answered && !b->silent ? &b->sample : NULL, now, &b->row);
    told->asked = aw_pilot_asks(b->pilot, now, &told->request);
    struct aw_external_agent_answer came = *answer;
    if (came.agent && !told->asked)
        came.fault = AW_EXTERNAL_AGENT_FAULT_UNASKED;
    aw_pilot_hear(b->pilot, &came);
    const struct aw_decision *decision = aw_pilot_decide(b->pilot, &b->orders, now);
    const struct aw_plan *plan = &decision->guard.plan;
    aw_pilot_applied(b->pilot, plan->set && !cluster->ops->apply(cluster->self, 0, plan, INT64_MAX),
                     now);
    assert_int_equal(b->counting.alloc_count, before);
    assert_false(aw_pilot_learn_due(b->pilot)); /* there is nothing here to teach */
    assert_ok(cluster->ops->advance(cluster->self, now + STEP_US));
    return decision;
}

static void prepare(struct bench *b)
{
    bench_prepare(b);
    b->config.agent = AW_POLICY_EXTERNAL;
    b->config.watchdog.slack = AW_WATCHDOG_WINDOW_MAX;
}

static void until_it_acts(struct bench *b)
{
    const struct aw_external_agent_answer answer = good_answer();
    struct told told;
    for (uint32_t t = 0; tick(b, &answer, &told)->actor != AW_ACTOR_AGENT; t++)
        assert_true(t < 20 * EPISODE);
}

static void it_acts_once_the_fallback_has_been_seen_and_it_is_trusted(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    bench_begin(&b);
    const struct aw_external_agent_answer answer = good_answer();
    uint32_t ticks = 0, admitted = 0;
    const struct aw_decision *decision;
    do {
        decision = tick(&b, &answer, &told);
        assert_true(decision->actor == AW_ACTOR_AGENT || decision->stage == AW_STAGE_OFFLINE);
        admitted += decision->moved && decision->stay.cause == AW_LIFECYCLE_CAUSE_ADMITTED;
        assert_true(++ticks < 20 * EPISODE);
    } while (decision->actor != AW_ACTOR_AGENT);
    assert_int_equal(admitted, 1);
    assert_true(ticks > b.config.lifecycle.offline_least * EPISODE);
    assert_int_equal(decision->policy_id, aw_external_agent_id("steady@1"));
    assert_memory_equal(decision->action, answer.action, sizeof answer.action);
    assert_true(decision->external.follow);
    bench_end(&b);
}

static void without_bootstrapping_it_acts_after_its_probation(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    const struct aw_external_agent_answer answer = good_answer();
    for (uint32_t t = 1; t < b.config.external.probation; t++)
        assert_int_equal(tick(&b, &answer, &told)->actor, AW_ACTOR_FALLBACK);
    assert_int_equal(tick(&b, &answer, &told)->actor, AW_ACTOR_AGENT);
    bench_end(&b);
}

static void what_it_says_of_its_answer_is_kept_in_the_account(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    char text[AW_EXPLANATION_SENTENCE_MAX];
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    until_it_acts(&b);
    struct aw_external_agent_answer answer = good_answer();
    aw_external_agent_words_take(&answer.words, &(float){0.9f}, "load doubles at nine");
    const struct aw_decision *decision = tick(&b, &answer, &told);
    aw_explanation_sentence(&b.config, decision, text, sizeof text);
    assert_non_null(strstr(text, "; it says: load doubles at nine; it is sure to 90 %"));
    json_t *account = aw_explanation_json(&b.config, decision);
    const json_t *external = json_object_get(json_object_get(account, "agent"), "external");
    assert_string_equal(json_string_value(json_object_get(external, "explanation")),
                        "load doubles at nine");
    assert_true(fabs(json_real_value(json_object_get(external, "confidence")) - 0.9) < 1e-6);
    json_decref(account);
    answer = good_answer();
    decision = tick(&b, &answer, &told);
    aw_explanation_sentence(&b.config, decision, text, sizeof text);
    assert_null(strstr(text, "it says"));
    bench_end(&b);
}

static void while_it_is_bad_the_fallback_decides_and_says_why(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    until_it_acts(&b);
    for (uint32_t f = AW_EXTERNAL_AGENT_FAULT_LATE; f < AW_EXTERNAL_AGENT_FAULT_COUNT; f++) {
        const struct aw_external_agent_answer bad = bad_answer((enum aw_external_agent_fault)f);
        const struct aw_decision *decision = tick(&b, &bad, &told);
        char text[AW_EXPLANATION_SENTENCE_MAX];
        assert_int_equal(decision->actor, AW_ACTOR_FALLBACK);
        assert_int_equal(decision->verdict, AW_WATCHDOG_PASS); /* it is not the watchdog's affair */
        assert_false(decision->has_shadow);
        aw_explanation_sentence(&b.config, decision, text, sizeof text);
        if (!strstr(text, "agent steady@1 is not followed: "))
            fail_msg("%s: %s", aw_external_agent_fault_name((enum aw_external_agent_fault)f), text);
        until_it_acts(&b);
    }
    bench_end(&b);
}

static void nobody_there_is_the_fallback_alone(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    const struct aw_external_agent_answer nobody = {0};
    for (uint32_t t = 0; t < 3 * EPISODE; t++) {
        const struct aw_decision *decision = tick(&b, &nobody, &told);
        assert_int_equal(decision->actor, AW_ACTOR_FALLBACK);
        assert_int_equal(decision->policy_id, 0);
        assert_int_equal(decision->external.standing, AW_EXTERNAL_AGENT_ABSENT);
    }
    bench_end(&b);
}

static void an_agent_that_ruins_the_slo_is_stopped_like_any_other(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    b.config.watchdog.slack = 3;
    bench_begin(&b);
    until_it_acts(&b);
    b.latency_more = 0;
    struct aw_external_agent_answer least = good_answer();
    for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
        least.action[a] = -1;
    uint32_t acted = 0, tripped = 0;
    for (uint32_t t = 0; t < 20 * EPISODE; t++) {
        const struct aw_decision *decision = tick(&b, &least, &told);
        acted += decision->actor == AW_ACTOR_AGENT;
        tripped += decision->verdict == AW_WATCHDOG_TRIPPED;
        const struct aw_bounds *bounds = &b.config.bounds;
        assert_true(decision->guard.plan.replicas >= bounds->replicas_min);
        assert_true(decision->guard.plan.cpu_millicores >= bounds->cpu_millicores_min);
    }
    assert_true(tripped > 0);
    assert_true(acted < 10 * EPISODE);
    bench_end(&b);
}

static void a_frozen_workload_stays_as_it_is_whatever_it_answers(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    until_it_acts(&b);
    b.orders.freeze = AW_GUARD_FREEZE_ALL;
    struct aw_external_agent_answer most = good_answer();
    for (uint32_t t = 0; t < EPISODE; t++) {
        for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
            most.action[a] = t % 2 ? 1 : -1;
        assert_int_equal(tick(&b, &most, &told)->guard.plan.set, 0);
    }
    bench_end(&b);
}

static void it_is_told_what_came_of_the_step_before(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    const struct aw_external_agent_answer answer = good_answer();
    const struct aw_decision *decision = tick(&b, &answer, &told);
    assert_true(told.asked);
    assert_false(told.request.has_last);
    assert_memory_equal(told.request.fallback, decision->action, sizeof told.request.fallback);
    assert_int_equal(told.request.obs_dim, aw_state_dim(b.config.state));
    for (uint32_t t = 0; t < 2 * EPISODE; t++) {
        decision = tick(&b, &answer, &told);
        if (!told.asked)
            continue;
        assert_memory_equal(told.request.fallback,
                            decision->actor == AW_ACTOR_AGENT ? decision->shadow : decision->action,
                            sizeof told.request.fallback);
        assert_true(told.request.has_last);
        assert_true(told.request.reward == b.row.reward);
        assert_memory_equal(told.request.action, b.row.action, sizeof told.request.action);
        assert_int_equal(told.request.followed, b.row.actor == AW_ACTOR_AGENT);
        assert_memory_equal(told.request.obs, b.row.next_obs, told.request.obs_dim * sizeof(float));
    }
    bench_end(&b);
}

static void a_decision_of_it_can_be_taken_again(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    until_it_acts(&b);
    unsigned char *moment = malloc(aw_pilot_snapshot_bytes_max(b.pilot));
    assert_non_null(moment);
    for (uint32_t t = 0; t < 12; t++) {
        const struct aw_external_agent_answer answer =
            t % 4 == 1 ? bad_answer(AW_EXTERNAL_AGENT_FAULT_BOUNDS) : good_answer();
        const int64_t now = b.cluster.ops->now_us(b.cluster.self);
        assert_ok(b.cluster.ops->observe(b.cluster.self, 0, INT64_MAX, &b.sample));
        (void)aw_pilot_observe(b.pilot, &b.sample, now, &b.row);
        aw_pilot_hear(b.pilot, &answer);
        const size_t size = aw_pilot_snapshot_save(b.pilot, moment);
        const struct aw_decision *decision = aw_pilot_decide(b.pilot, NULL, now);
        aw_pilot_snapshot_took(moment, decision->took_s);
        char *text = aw_explanation_text(&b.config, decision), *again = NULL;
        const struct aw_explanation_snapshot kept = {
            .config = &b.config, .task = &b.task, .bytes = moment, .size = size, .at_us = now};
        assert_ok(aw_explanation_replay(&kept, NULL, &again, NULL));
        assert_string_equal(text, again);
        assert_non_null(strstr(text, "\"external\":{"));
        free(again);
        free(text);
        aw_pilot_applied(b.pilot, false, now);
        assert_ok(b.cluster.ops->advance(b.cluster.self, now + STEP_US));
    }
    free(moment);
    bench_end(&b);
}

static void it_goes_on_as_it_was_after_a_restart(void **state)
{
    (void)state;
    struct bench b;
    struct told told;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    until_it_acts(&b);
    const struct aw_external_agent_answer bad = bad_answer(AW_EXTERNAL_AGENT_FAULT_LATE);
    (void)tick(&b, &bad, &told);
    unsigned char *state_bytes = malloc(aw_pilot_state_bytes(b.pilot));
    assert_non_null(state_bytes);
    aw_pilot_state_save(b.pilot, state_bytes);
    struct aw_pilot *second = NULL;
    assert_ok(aw_pilot_new(&b.config, &b.task, 0, &b.counting.alloc, &second, NULL));
    assert_ok(aw_pilot_state_load(second, state_bytes));
    const struct aw_external_memory *kept = &aw_external_of(&second->policy)->memory;
    assert_memory_equal(kept, &aw_external_of(&b.pilot->policy)->memory, sizeof *kept);
    assert_int_equal(kept->agent.strikes, 1);
    aw_pilot_free(second);
    free(state_bytes);
    bench_end(&b);
}

static void its_policy_is_its_own(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag = {0};
    char *text = NULL;
    prepare(&b);
    bench_begin(&b);
    until_it_acts(&b);
    assert_int_equal(aw_pilot_policy_text(b.pilot, &text, &diag), AW_ERR_UNSUPPORTED);
    static const char file[] = "{\"format\":\"aware-policy\",\"kind\":\"external\"}";
    assert_int_equal(aw_pilot_propose(b.pilot, file, sizeof file - 1, &diag), AW_ERR_CONFIG);
    bench_end(&b);
}

/* --- in a loop -------------------------------------------------------------------------------- */

struct partner {
    struct aw_agent_exchange *exchange;
    struct aw_clock_virtual virt;
    uint64_t ticket;
    uint32_t outcomes, questions;
    bool silent;
    struct aw_others_view others; /* of the last question */
};

static void nothing(void *ctx)
{
    (void)ctx;
}

/* While the loop waits its agent answers, or time passes. */
static void partner_acts(void *ctx, int64_t until_us)
{
    struct partner *p = ctx;
    struct aw_agent_exchange_message message;
    bool answered = false;
    while (!p->silent && aw_agent_exchange_poll(p->exchange, p->ticket, &message)) {
        p->outcomes += message.kind == AW_AGENT_EXCHANGE_OUTCOME;
        if (message.kind != AW_AGENT_EXCHANGE_QUESTION)
            continue;
        p->questions++;
        p->others = message.others;
        const float values[AW_ACTION_DIM] = {0.4f, 0.4f, 0.2f};
        answered =
            !aw_agent_exchange_answer(p->exchange, p->ticket, message.question.id, values, 3);
    }
    if (!answered)
        aw_clock_virtual_advance(&p->virt, until_us - aw_clock_monotonic_us(&p->virt.clock));
}

static void a_loop_asks_follows_and_tells_it(void **state)
{
    (void)state;
    struct bench b;
    struct partner p = {0};
    struct aw_loop *loop = NULL;
    struct aw_agent_exchange_seat seat;
    prepare(&b);
    b.config.lifecycle.bootstrap = false;
    bench_begin(&b);
    aw_clock_virtual_init(&p.virt, 0);
    assert_ok(aw_agent_exchange_new(
        &(struct aw_agent_exchange_config){
            .clock = &p.virt.clock, .seats_max = 4, .pause = partner_acts, .ctx = &p},
        NULL, &p.exchange, NULL));
    assert_ok(aw_loop_new(&(struct aw_loop_config){.cluster = b.cluster,
                                                   .pilots = &b.config,
                                                   .tasks = &b.task,
                                                   .workload_count = 1,
                                                   .deadline_us = INT64_MAX,
                                                   .exchange = p.exchange},
                          NULL, &loop, NULL));
    const struct aw_agent_exchange_hello hello = {
        .workload = "test/app", .agent = "a", .version = "", .wake = nothing};
    assert_ok(aw_agent_exchange_register(p.exchange, &hello, &p.ticket, &seat, NULL));
    uint32_t acted = 0;
    for (uint32_t t = 0; t < 2 * EPISODE; t++) {
        assert_ok(aw_loop_tick(loop, NULL, NULL, NULL));
        acted += aw_pilot_decision(aw_loop_pilot(loop, 0))->actor == AW_ACTOR_AGENT;
        assert_ok(b.cluster.ops->advance(b.cluster.self, (t + 2) * STEP_US));
    }
    assert_int_equal(p.questions, 2 * EPISODE);
    assert_int_equal(p.outcomes, 2 * EPISODE - 1); /* the last waits for the next question */
    assert_true(acted > EPISODE);
    const int64_t before = aw_clock_monotonic_us(&p.virt.clock);
    p.silent = true;
    for (uint32_t t = 0; t < 3; t++) {
        assert_ok(aw_loop_tick(loop, NULL, NULL, NULL));
        assert_int_equal(aw_pilot_decision(aw_loop_pilot(loop, 0))->actor, AW_ACTOR_FALLBACK);
    }
    assert_int_equal(aw_clock_monotonic_us(&p.virt.clock) - before, 3 * 1000000);
    assert_ok(aw_loop_tick(loop, NULL, NULL, NULL)); /* set aside: nobody waits for it any more */
    assert_int_equal(aw_clock_monotonic_us(&p.virt.clock) - before, 3 * 1000000);
    assert_ok(aw_loop_remove(loop, 0));
    struct aw_agent_exchange_message message;
    do
        assert_true(aw_agent_exchange_poll(p.exchange, p.ticket, &message));
    while (message.kind != AW_AGENT_EXCHANGE_END);
    aw_agent_exchange_leave(p.exchange, p.ticket);
    aw_loop_free(loop);
    aw_agent_exchange_free(p.exchange);
    bench_end(&b);
}

AW_TEST_GROUP("pilot-external")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_acts_once_the_fallback_has_been_seen_and_it_is_trusted),
        cmocka_unit_test(without_bootstrapping_it_acts_after_its_probation),
        cmocka_unit_test(what_it_says_of_its_answer_is_kept_in_the_account),
        cmocka_unit_test(while_it_is_bad_the_fallback_decides_and_says_why),
        cmocka_unit_test(nobody_there_is_the_fallback_alone),
        cmocka_unit_test(an_agent_that_ruins_the_slo_is_stopped_like_any_other),
        cmocka_unit_test(a_frozen_workload_stays_as_it_is_whatever_it_answers),
        cmocka_unit_test(it_is_told_what_came_of_the_step_before),
        cmocka_unit_test(a_decision_of_it_can_be_taken_again),
        cmocka_unit_test(it_goes_on_as_it_was_after_a_restart),
        cmocka_unit_test(its_policy_is_its_own),
        cmocka_unit_test(a_loop_asks_follows_and_tells_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
