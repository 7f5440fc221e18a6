/* agent_exchange_test.c - questions, answers, deadlines, seats; in virtual time but for one that
 * uses threads. */
#include "control/agent_exchange.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/testing.h"

#define SEATS 4u

/* Somebody who does something while the loop waits. */
struct bench {
    struct aw_clock_virtual virt;
    struct aw_alloc_counting counting;
    struct aw_agent_exchange *exchange;
    void (*meanwhile)(struct bench *b);
    uint64_t ticket;
    uint32_t woken, pauses;
    struct aw_agent_exchange_message message;
};

static void note_wake(void *ctx)
{
    ((struct bench *)ctx)->woken++;
}

static void pause_until(void *ctx, int64_t until_us)
{
    struct bench *b = ctx;
    const int64_t now = aw_clock_monotonic_us(&b->virt.clock);
    b->pauses++;
    if (b->meanwhile) {
        void (*act)(struct bench *) = b->meanwhile;
        b->meanwhile = NULL;
        act(b);
    } else {
        aw_clock_virtual_advance(&b->virt, until_us - now);
    }
}

static void begin(struct bench *b)
{
    memset(b, 0, sizeof *b);
    aw_clock_virtual_init(&b->virt, 0);
    aw_clock_virtual_advance(&b->virt, 1000000);
    aw_alloc_counting_init(&b->counting);
    assert_ok(aw_agent_exchange_new(
        &(struct aw_agent_exchange_config){
            .clock = &b->virt.clock, .seats_max = SEATS, .pause = pause_until, .ctx = b},
        &b->counting.alloc, &b->exchange, NULL));
    struct aw_agent_exchange_seat seat = {.obs_dim = 12, .step_s = 15, .deadline_s = 1};
    snprintf(seat.name, sizeof seat.name, "default/cart");
    assert_ok(aw_agent_exchange_open(b->exchange, 1, &seat, NULL));
}

static void end(struct bench *b)
{
    if (b->ticket)
        aw_agent_exchange_leave(b->exchange, b->ticket);
    aw_agent_exchange_free(b->exchange);
    assert_int_equal(b->counting.alloc_count, b->counting.free_count);
}

static struct aw_agent_exchange_hello hello_of(struct bench *b, const char *workload,
                                               const char *agent)
{
    return (struct aw_agent_exchange_hello){
        .workload = workload, .agent = agent, .version = "1", .wake = note_wake, .ctx = b};
}

static void register_agent(struct bench *b)
{
    struct aw_agent_exchange_seat seat;
    const struct aw_agent_exchange_hello hello = hello_of(b, "cart", "td3");
    assert_ok(aw_agent_exchange_register(b->exchange, &hello, &b->ticket, &seat, NULL));
    assert_string_equal(seat.name, "default/cart");
    assert_int_equal(seat.obs_dim, 12);
}

static const struct aw_external_agent_request question = {.obs_dim = 12, .obs = {0.5f}, .step = 3};
static const float good[AW_ACTION_DIM] = {0.25f, -0.5f, 1};

static struct aw_external_agent_answer ask(struct bench *b)
{
    struct aw_external_agent_answer answer;
    const uint64_t before = b->counting.alloc_count;
    aw_agent_exchange_ask(b->exchange, 1, &question, NULL);
    aw_agent_exchange_wait(b->exchange);
    aw_agent_exchange_hear(b->exchange, 1, &answer);
    assert_int_equal(b->counting.alloc_count, before); /* a tick takes nothing */
    return answer;
}

static bool poll_one(struct bench *b)
{
    return aw_agent_exchange_poll(b->exchange, b->ticket, &b->message);
}

/* --- what agents do meanwhile ----------------------------------------------------------------- */

static void answers_well(struct bench *b)
{
    assert_true(poll_one(b));
    assert_int_equal(b->message.kind, AW_AGENT_EXCHANGE_QUESTION);
    assert_true(b->message.question.obs[0] == 0.5f);
    aw_clock_virtual_advance(&b->virt, 200000);
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id, good, 3),
        AW_EXTERNAL_AGENT_FAULT_NONE);
}

static void answers_twice(struct bench *b)
{
    static const float other[AW_ACTION_DIM] = {-1, -1, -1};
    answers_well(b);
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id, other, 3),
        AW_EXTERNAL_AGENT_FAULT_OLD);
}

static void answers_nonsense(struct bench *b)
{
    static const float bad[AW_ACTION_DIM] = {NAN, 0, 0};
    assert_true(poll_one(b));
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id, bad, 3),
        AW_EXTERNAL_AGENT_FAULT_NOT_FINITE);
    /* the first answer counts; a better one after it does not */
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id, good, 3),
        AW_EXTERNAL_AGENT_FAULT_OLD);
}

static void answers_late(struct bench *b)
{
    assert_true(poll_one(b));
    aw_clock_virtual_advance(&b->virt, 1000001);
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id, good, 3),
        AW_EXTERNAL_AGENT_FAULT_LATE);
}

static void answers_something_old(struct bench *b)
{
    assert_true(poll_one(b));
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id - 1, good, 3),
        AW_EXTERNAL_AGENT_FAULT_OLD);
    assert_int_equal(
        aw_agent_exchange_answer(b->exchange, b->ticket, b->message.question.id + 1, good, 3),
        AW_EXTERNAL_AGENT_FAULT_OLD);
}

static void goes(struct bench *b)
{
    aw_agent_exchange_leave(b->exchange, b->ticket);
    b->ticket = 0;
}

static void goes_and_comes_back(struct bench *b)
{
    goes(b);
    register_agent(b);
    assert_false(poll_one(b)); /* the question was for the one before, of whatever name */
}

static void floods(struct bench *b)
{
    for (uint32_t i = 0; i < 100000; i++)
        (void)aw_agent_exchange_answer(b->exchange, b->ticket, i, good, 3);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void an_answer_in_time_is_heard(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    register_agent(&b);
    b.meanwhile = answers_well;
    const struct aw_external_agent_answer answer = ask(&b);
    assert_int_equal(answer.fault, AW_EXTERNAL_AGENT_FAULT_NONE);
    assert_memory_equal(answer.action, good, sizeof good);
    assert_string_equal(answer.name, "td3@1");
    assert_true(fabs(answer.took_s - 0.2) < 1e-9);
    assert_true(b.woken > 0);
    end(&b);
}

static void nobody_waits_for_nobody(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    const struct aw_external_agent_answer answer = ask(&b);
    assert_int_equal(answer.agent, 0);
    assert_int_equal(b.pauses, 0);
    end(&b);
}

static void who_does_not_answer_is_waited_for_until_the_deadline_and_no_longer(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    register_agent(&b);
    const int64_t before = aw_clock_monotonic_us(&b.virt.clock);
    assert_int_equal(ask(&b).fault, AW_EXTERNAL_AGENT_FAULT_LATE);
    assert_int_equal(aw_clock_monotonic_us(&b.virt.clock) - before, 1000000);
    end(&b);
}

static void bad_answers_are_named(void **state)
{
    (void)state;
    static const struct {
        void (*act)(struct bench *b);
        enum aw_external_agent_fault fault;
    } cases[] = {
        {answers_twice, AW_EXTERNAL_AGENT_FAULT_NONE},
        {answers_nonsense, AW_EXTERNAL_AGENT_FAULT_NOT_FINITE},
        {answers_late, AW_EXTERNAL_AGENT_FAULT_LATE},
        {answers_something_old, AW_EXTERNAL_AGENT_FAULT_LATE},
        {goes, AW_EXTERNAL_AGENT_FAULT_GONE},
        {goes_and_comes_back, AW_EXTERNAL_AGENT_FAULT_GONE},
        {floods, AW_EXTERNAL_AGENT_FAULT_FLOOD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b;
        struct aw_agent_exchange_counts counts;
        begin(&b);
        register_agent(&b);
        b.meanwhile = cases[i].act;
        const struct aw_external_agent_answer answer = ask(&b);
        if (answer.fault != cases[i].fault)
            fail_msg("case %zu: %s", i, aw_external_agent_fault_name(answer.fault));
        assert_true(answer.agent != 0);
        if (answer.fault == AW_EXTERNAL_AGENT_FAULT_NONE)
            assert_memory_equal(answer.action, good, sizeof good);
        aw_agent_exchange_counts(b.exchange, &counts);
        assert_true(counts.faults[answer.fault] > 0 ||
                    answer.fault == AW_EXTERNAL_AGENT_FAULT_NONE);
        end(&b);
    }
}

static void a_flood_between_ticks_costs_the_seat_and_is_heard_of(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    register_agent(&b);
    floods(&b);
    assert_true(poll_one(&b));
    assert_int_equal(b.message.kind, AW_AGENT_EXCHANGE_END);
    assert_int_equal(b.message.end, AW_AGENT_EXCHANGE_END_FLOODING);
    assert_false(poll_one(&b)); /* nothing follows */
    aw_agent_exchange_leave(b.exchange, b.ticket);
    register_agent(&b); /* as if nothing had been */
    assert_int_equal(ask(&b).fault, AW_EXTERNAL_AGENT_FAULT_FLOOD);
    b.meanwhile = answers_well;
    assert_int_equal(ask(&b).fault, AW_EXTERNAL_AGENT_FAULT_NONE);
    end(&b);
}

static void one_late_answer_to_each_question_is_no_flood(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    register_agent(&b);
    for (uint32_t i = 0; i < 20 * AW_AGENT_EXCHANGE_STRAY_MAX; i++) {
        b.meanwhile = answers_late;
        assert_int_equal(ask(&b).fault, AW_EXTERNAL_AGENT_FAULT_LATE);
    }
    end(&b);
}

static void a_seat_is_for_one_agent(void **state)
{
    (void)state;
    struct bench b;
    struct aw_agent_exchange_seat seat;
    struct aw_diag diag = {0};
    uint64_t second = 0;
    begin(&b);
    register_agent(&b);
    struct aw_agent_exchange_hello hello = hello_of(&b, "default/cart", "other");
    assert_int_equal(aw_agent_exchange_register(b.exchange, &hello, &second, &seat, &diag),
                     AW_ERR_EXISTS);
    assert_string_equal(diag.text, "agent td3@1 serves workload default/cart already");
    hello.take_over = true;
    assert_ok(aw_agent_exchange_register(b.exchange, &hello, &second, &seat, NULL));
    assert_true(poll_one(&b));
    assert_int_equal(b.message.end, AW_AGENT_EXCHANGE_END_OTHER_AGENT);
    assert_int_equal(aw_agent_exchange_answer(b.exchange, b.ticket, 1, good, 3),
                     AW_EXTERNAL_AGENT_FAULT_GONE);
    aw_agent_exchange_leave(b.exchange, b.ticket); /* which takes nothing from the other */
    b.ticket = second;
    b.meanwhile = answers_well;
    assert_string_equal(ask(&b).name, "other@1");
    end(&b);
}

static void who_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123";
    struct bench b;
    begin(&b);
    const struct {
        const char *workload, *agent;
        uint32_t obs_dim, act_dim;
        enum aw_err err;
    } cases[] = {
        {"shop", "a", 0, 0, AW_ERR_NOTFOUND},     {"", "a", 0, 0, AW_ERR_NOTFOUND},
        {"cart", "", 0, 0, AW_ERR_FORMAT},        {"cart", "a b", 0, 0, AW_ERR_FORMAT},
        {"cart", "a\n", 0, 0, AW_ERR_FORMAT},     {"cart", "a@b", 0, 0, AW_ERR_FORMAT},
        {"cart", long_name, 0, 0, AW_ERR_FORMAT}, {"cart", "\x1b[2J", 0, 0, AW_ERR_FORMAT},
        {"cart", "a", 13, 0, AW_ERR_CONFIG},      {"cart", "a", 12, 4, AW_ERR_CONFIG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_agent_exchange_hello hello = hello_of(&b, cases[i].workload, cases[i].agent);
        struct aw_agent_exchange_seat seat;
        struct aw_diag diag = {0};
        uint64_t ticket = 77;
        hello.obs_dim = cases[i].obs_dim;
        hello.act_dim = cases[i].act_dim;
        if (aw_agent_exchange_register(b.exchange, &hello, &ticket, &seat, &diag) != cases[i].err)
            fail_msg("case %zu", i);
        assert_int_equal(ticket, 77);
        assert_true(*diag.text);
    }
    end(&b);
}

static void there_are_only_so_many_agents(void **state)
{
    (void)state;
    struct bench b;
    uint64_t tickets[SEATS + 1];
    struct aw_agent_exchange_seat seat;
    begin(&b);
    for (uint32_t i = 0; i < SEATS; i++) { /* each takes over from the one before, who stays */
        struct aw_agent_exchange_hello hello = hello_of(&b, "cart", "x");
        hello.take_over = true;
        assert_ok(aw_agent_exchange_register(b.exchange, &hello, &tickets[i], &seat, NULL));
    }
    struct aw_agent_exchange_hello hello = hello_of(&b, "cart", "x");
    hello.take_over = true;
    assert_int_equal(aw_agent_exchange_register(b.exchange, &hello, &tickets[SEATS], &seat, NULL),
                     AW_ERR_LIMIT);
    for (uint32_t i = 0; i < SEATS; i++)
        aw_agent_exchange_leave(b.exchange, tickets[i]);
    end(&b);
}

static void a_workload_that_goes_takes_its_agent_along(void **state)
{
    (void)state;
    struct bench b;
    struct aw_agent_exchange_seat seat = {.obs_dim = 12, .deadline_s = 1};
    begin(&b);
    register_agent(&b);
    snprintf(seat.name, sizeof seat.name, "default/cart");
    assert_ok(
        aw_agent_exchange_open(b.exchange, 1, &seat, NULL)); /* the same, of a loop made anew */
    assert_false(poll_one(&b));
    aw_agent_exchange_close_from(b.exchange, 0);
    assert_true(poll_one(&b));
    assert_int_equal(b.message.end, AW_AGENT_EXCHANGE_END_WORKLOAD_GONE);
    char agent[AW_EXTERNAL_AGENT_NAME_MAX];
    uint32_t index = 0;
    assert_false(aw_agent_exchange_next(b.exchange, &index, &seat, agent));
    end(&b);
}

static void outcomes_come_before_the_next_question(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    register_agent(&b);
    b.meanwhile = answers_well;
    (void)ask(&b);
    const uint64_t id = b.message.question.id;
    aw_agent_exchange_tell(
        b.exchange, 1,
        &(struct aw_agent_exchange_outcome){.verdict = AW_AGENT_EXCHANGE_CLIPPED, .text = "step"});
    aw_agent_exchange_ask(b.exchange, 1, &question, NULL);
    assert_true(poll_one(&b));
    assert_int_equal(b.message.kind, AW_AGENT_EXCHANGE_OUTCOME);
    assert_int_equal(b.message.outcome.id, id);
    assert_string_equal(b.message.outcome.text, "step");
    assert_true(poll_one(&b));
    assert_int_equal(b.message.kind, AW_AGENT_EXCHANGE_QUESTION);
    assert_true(b.message.question.id > id);
    assert_false(poll_one(&b));
    end(&b);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    for (uint64_t n = 0;; n++) {
        struct aw_agent_exchange *exchange = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        struct aw_agent_exchange_seat seat = {.obs_dim = 12, .deadline_s = 1};
        enum aw_err err = aw_agent_exchange_new(&(struct aw_agent_exchange_config){.seats_max = 2},
                                                &counting.alloc, &exchange, NULL);
        err = err ? err : aw_agent_exchange_open(exchange, 0, &seat, NULL);
        aw_agent_exchange_free(exchange);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_true(n < 10);
    }
}

/* --- threads ---------------------------------------------------------------------------------- */

struct worker {
    struct aw_agent_exchange *exchange;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool work, stop;
    uint64_t ticket, answered;
};

static void signal_worker(void *ctx)
{
    struct worker *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->work = true;
    pthread_cond_signal(&w->woken);
    pthread_mutex_unlock(&w->lock);
}

static void *serve(void *ctx)
{
    struct worker *w = ctx;
    struct aw_agent_exchange_message message;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (!w->work && !w->stop)
            pthread_cond_wait(&w->woken, &w->lock);
        const bool stop = w->stop;
        w->work = false;
        pthread_mutex_unlock(&w->lock);
        if (stop)
            return NULL;
        while (aw_agent_exchange_poll(w->exchange, w->ticket, &message))
            if (message.kind == AW_AGENT_EXCHANGE_QUESTION)
                w->answered += !aw_agent_exchange_answer(w->exchange, w->ticket,
                                                         message.question.id, good, AW_ACTION_DIM);
    }
}

static void agents_on_threads_of_their_own_are_heard(void **state)
{
    (void)state;
    struct worker w = {.lock = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER};
    struct aw_agent_exchange_seat seat = {.obs_dim = 12, .deadline_s = 60};
    pthread_t thread;
    snprintf(seat.name, sizeof seat.name, "a/b");
    assert_ok(aw_agent_exchange_new(&(struct aw_agent_exchange_config){.seats_max = 1}, NULL,
                                    &w.exchange, NULL));
    assert_ok(aw_agent_exchange_open(w.exchange, 0, &seat, NULL));
    const struct aw_agent_exchange_hello hello = {
        .workload = "a/b", .agent = "t", .version = "", .wake = signal_worker, .ctx = &w};
    assert_ok(aw_agent_exchange_register(w.exchange, &hello, &w.ticket, &seat, NULL));
    assert_int_equal(pthread_create(&thread, NULL, serve, &w), 0);
    for (uint32_t i = 0; i < 2000; i++) {
        struct aw_external_agent_answer answer;
        aw_agent_exchange_ask(w.exchange, 0, &question, NULL);
        aw_agent_exchange_wait(w.exchange);
        aw_agent_exchange_hear(w.exchange, 0, &answer);
        assert_int_equal(answer.fault, AW_EXTERNAL_AGENT_FAULT_NONE);
        assert_memory_equal(answer.action, good, sizeof good);
        aw_agent_exchange_tell(w.exchange, 0, &(struct aw_agent_exchange_outcome){0});
    }
    pthread_mutex_lock(&w.lock);
    w.stop = true;
    pthread_cond_signal(&w.woken);
    pthread_mutex_unlock(&w.lock);
    pthread_join(thread, NULL);
    assert_int_equal(w.answered, 2000);
    aw_agent_exchange_leave(w.exchange, w.ticket);
    aw_agent_exchange_free(w.exchange);
}

static void answers_saying(struct bench *b)
{
    static const float sure = 0.5f;
    struct aw_external_agent_words words;
    aw_external_agent_words_take(&words, &sure, "enough for the night");
    assert_true(poll_one(b));
    aw_clock_virtual_advance(&b->virt, 300000);
    assert_int_equal(aw_agent_exchange_answer_saying(b->exchange, b->ticket, b->message.question.id,
                                                     good, 3, &words),
                     AW_EXTERNAL_AGENT_FAULT_NONE);
}

static void what_an_agent_says_comes_with_its_answer_and_not_with_the_next(void **state)
{
    struct bench b;
    (void)state;
    begin(&b);
    register_agent(&b);
    b.meanwhile = answers_saying;
    struct aw_external_agent_answer answer = ask(&b);
    assert_string_equal(answer.words.explanation, "enough for the night");
    assert_true(answer.words.has_confidence && answer.words.confidence == 0.5f);
    b.meanwhile = answers_well;
    answer = ask(&b);
    assert_string_equal(answer.words.explanation, "");
    assert_false(answer.words.has_confidence);
    end(&b);
}

static void how_long_answers_take_and_how_agents_stand_is_counted(void **state)
{
    struct bench b;
    struct aw_agent_exchange_counts counts;
    (void)state;
    begin(&b);
    aw_agent_exchange_counts(b.exchange, &counts);
    assert_int_equal(counts.standing[AW_EXTERNAL_AGENT_ABSENT], 1);
    register_agent(&b);
    b.meanwhile = answers_well; /* after 0.2 s of 1 s */
    (void)ask(&b);
    aw_agent_exchange_tell(
        b.exchange, 1,
        &(struct aw_agent_exchange_outcome){.standing = AW_EXTERNAL_AGENT_TRUSTED, .acts = true});
    assert_true(poll_one(&b)); /* what became of it */
    b.meanwhile = answers_late;
    (void)ask(&b);
    aw_agent_exchange_counts(b.exchange, &counts);
    assert_int_equal(counts.asked, 2);
    assert_int_equal(counts.answered, 1);
    assert_int_equal(counts.faults[AW_EXTERNAL_AGENT_FAULT_LATE], 1);
    assert_int_equal(counts.standing[AW_EXTERNAL_AGENT_TRUSTED], 1);
    assert_int_equal(counts.standing[AW_EXTERNAL_AGENT_ABSENT], 0);
    assert_int_equal(counts.acting, 1);
    assert_true(fabs(counts.took_s.sum - 0.2) < 1e-9); /* a late one takes no time: it is none */
    assert_true(fabs(counts.deadline_share.sum - 0.2) < 1e-9);
    end(&b);
}

AW_TEST_GROUP("agent-exchange")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_agent_says_comes_with_its_answer_and_not_with_the_next),
        cmocka_unit_test(how_long_answers_take_and_how_agents_stand_is_counted),
        cmocka_unit_test(an_answer_in_time_is_heard),
        cmocka_unit_test(nobody_waits_for_nobody),
        cmocka_unit_test(who_does_not_answer_is_waited_for_until_the_deadline_and_no_longer),
        cmocka_unit_test(bad_answers_are_named),
        cmocka_unit_test(a_flood_between_ticks_costs_the_seat_and_is_heard_of),
        cmocka_unit_test(one_late_answer_to_each_question_is_no_flood),
        cmocka_unit_test(a_seat_is_for_one_agent),
        cmocka_unit_test(who_does_not_fit_is_refused),
        cmocka_unit_test(there_are_only_so_many_agents),
        cmocka_unit_test(a_workload_that_goes_takes_its_agent_along),
        cmocka_unit_test(outcomes_come_before_the_next_question),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
        cmocka_unit_test(agents_on_threads_of_their_own_are_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
