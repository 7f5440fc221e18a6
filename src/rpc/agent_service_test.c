/* agent_service_test.c - agents over real gRPC, good ones and chaotic ones, beside a control loop
 * on a simulated cluster. */
#include "rpc/agent_service.h"

#include <aware/v1/agent.pb-c.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "control/loop.h"
#include "control/pilot_testing.h"
#include "rpc/agent_client.h"
#include "rpc/client.h"
#include "rpc/rpc_testing.h"

#define ANSWER_US   INT64_C(60000000) /* that a client waits: a machine may be busy */
#define TICKS_MAX   2000u
#define GOOD_VALUE  0.125f /* of every answer that is meant to be followed */
#define WRONG_VALUE -0.75f /* of what is late, old, or a second answer */

/* --- a daemon --------------------------------------------------------------------------------- */

struct daemon {
    struct bench bench;
    struct aw_agent_exchange *exchange;
    struct aw_agent_service *service;
    struct aw_rpc_server *server;
    struct aw_loop *loop;
    char dir[64], address[96];
    uint32_t ticks, acted;
};

static void daemon_begin(struct daemon *d, double deadline_s)
{
    memset(d, 0, sizeof *d);
    bench_prepare(&d->bench);
    struct aw_pilot_config *config = &d->bench.config;
    config->agent = AW_POLICY_EXTERNAL;
    config->lifecycle.bootstrap = false;
    config->watchdog.slack = AW_WATCHDOG_WINDOW_MAX;
    config->external.deadline = deadline_s;
    config->external.probation = 3;
    bench_begin(&d->bench);
    snprintf(d->dir, sizeof d->dir, "/tmp/aware-agents-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    snprintf(d->address, sizeof d->address, "unix:%s/socket", d->dir);
    struct aw_diag diag = {0};
    assert_ok(
        aw_agent_exchange_new(&(struct aw_agent_exchange_config){.seats_max = 2, .agents_max = 16},
                              NULL, &d->exchange, NULL));
    assert_ok(aw_agent_service_new(&d->service, d->exchange, NULL, NULL, NULL));
    const struct aw_rpc_service *services[] = {aw_agent_service_service(d->service)};
    if (aw_rpc_server_open(&d->server, &(struct aw_rpc_config){.listen = d->address}, services, 1,
                           &diag))
        fail_msg("%s", diag.text);
    assert_ok(aw_loop_new(&(struct aw_loop_config){.cluster = d->bench.cluster,
                                                   .pilots = config,
                                                   .tasks = &d->bench.task,
                                                   .workload_count = 1,
                                                   .deadline_us = INT64_MAX,
                                                   .exchange = d->exchange},
                          NULL, &d->loop, NULL));
}

static void daemon_end(struct daemon *d)
{
    aw_rpc_server_close(d->server);
    aw_agent_service_free(d->service);
    aw_loop_free(d->loop);
    aw_agent_exchange_free(d->exchange);
    bench_end(&d->bench);
    char path[96];
    snprintf(path, sizeof path, "%s/socket", d->dir);
    unlink(path);
    assert_int_equal(rmdir(d->dir), 0);
}

static const struct aw_decision *daemon_tick(struct daemon *d)
{
    struct aw_diag diag = {0};
    if (aw_loop_tick(d->loop, NULL, NULL, &diag))
        fail_msg("%s", diag.text);
    const struct aw_decision *decision = aw_pilot_decision(aw_loop_pilot(d->loop, 0));
    d->ticks++;
    d->acted += decision->actor == AW_ACTOR_AGENT;
    assert_ok(
        d->bench.cluster.ops->advance(d->bench.cluster.self, (int64_t)(d->ticks + 1) * STEP_US));
    return decision;
}

static void *one_tick(void *ctx)
{
    (void)daemon_tick(ctx);
    return NULL;
}

/* --- an agent --------------------------------------------------------------------------------- */

struct wire {
    struct aw_rpc_client *client;
    struct aw_rpc_talk *talk;
};

static void wire_open(struct wire *w, const char *address)
{
    struct aw_diag diag = {0};
    if (aw_rpc_client_open(
            &w->client, &(struct aw_rpc_client_config){.address = address, .timeout_us = ANSWER_US},
            &diag) ||
        aw_rpc_talk_open(&w->talk, w->client, "/aware.v1.Agent/Serve", &diag))
        fail_msg("%s", diag.text);
}

static void wire_close(struct wire *w)
{
    aw_rpc_talk_close(w->talk);
    aw_rpc_client_close(w->client);
    *w = (struct wire){0};
}

static bool wire_send(struct wire *w, const Aware__V1__AgentMessage *message)
{
    uint8_t bytes[4096];
    const size_t size = aware__v1__agent_message__get_packed_size(message);
    assert_true(size <= sizeof bytes);
    aware__v1__agent_message__pack(message, bytes);
    return !aw_rpc_talk_send(w->talk, bytes, size, NULL);
}

/* NULL: the stream is over. The caller frees it. */
static Aware__V1__DaemonMessage *wire_receive(struct wire *w)
{
    struct aw_rpc_answer answer = {0};
    if (aw_rpc_talk_receive(w->talk, &answer, NULL))
        return NULL;
    Aware__V1__DaemonMessage *message =
        aware__v1__daemon_message__unpack(NULL, answer.size, answer.bytes);
    aw_rpc_answer_free(&answer);
    return message;
}

static void message_free(Aware__V1__DaemonMessage *message)
{
    if (message)
        aware__v1__daemon_message__free_unpacked(message, NULL);
}

static bool wire_register(struct wire *w, const char *workload, const char *agent, bool take_over,
                          uint32_t obs_dim)
{
    Aware__V1__Register hello;
    aware__v1__register__init(&hello);
    Aware__V1__AgentMessage message;
    aware__v1__agent_message__init(&message);
    hello.workload = (char *)(uintptr_t)workload;
    hello.agent = (char *)(uintptr_t)agent;
    hello.take_over = take_over;
    hello.observation_dim = obs_dim;
    message.message_case = AWARE__V1__AGENT_MESSAGE__MESSAGE_REGISTER;
    message.register_ = &hello;
    return wire_send(w, &message);
}

static bool wire_answer(struct wire *w, uint64_t id, float value, size_t count)
{
    float values[256];
    Aware__V1__Action action;
    aware__v1__action__init(&action);
    Aware__V1__AgentMessage message;
    aware__v1__agent_message__init(&message);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = value;
    action.id = id;
    action.values = values;
    action.n_values = count;
    message.message_case = AWARE__V1__AGENT_MESSAGE__MESSAGE_ACTION;
    message.action = &action;
    return wire_send(w, &message);
}

/* --- a good one ------------------------------------------------------------------------------- */

struct good {
    struct daemon *daemon;
    uint32_t states, outcomes, accepted;
    bool acting, replaced, named;
};

static void *good_agent(void *ctx)
{
    struct good *g = ctx;
    struct wire w = {0};
    wire_open(&w, g->daemon->address);
    assert_true(wire_register(&w, "test/app", "good", true, 0));
    for (;;) {
        Aware__V1__DaemonMessage *message = wire_receive(&w);
        if (!message)
            break;
        switch (message->message_case) {
        case AWARE__V1__DAEMON_MESSAGE__MESSAGE_REGISTERED:
            g->named = message->registered->action->n_axes == AW_ACTION_DIM &&
                       strcmp(message->registered->action->axes[0]->name, "cpu") == 0 &&
                       message->registered->deadline_ms > 0;
            break;
        case AWARE__V1__DAEMON_MESSAGE__MESSAGE_STATE:
            g->states++;
            assert_true(message->state->n_fallback_action == AW_ACTION_DIM);
            if (!wire_answer(&w, message->state->id, GOOD_VALUE, AW_ACTION_DIM))
                break;
            break;
        case AWARE__V1__DAEMON_MESSAGE__MESSAGE_OUTCOME:
            g->outcomes++;
            g->accepted +=
                message->outcome->verdict == AWARE__V1__OUTCOME__VERDICT__VERDICT_ACCEPTED ||
                message->outcome->verdict == AWARE__V1__OUTCOME__VERDICT__VERDICT_CLIPPED;
            break;
        case AWARE__V1__DAEMON_MESSAGE__MESSAGE_STANDING:
            g->acting |= message->standing->state == AWARE__V1__STANDING__STATE__STATE_ACTING;
            break;
        case AWARE__V1__DAEMON_MESSAGE__MESSAGE_REPLACED:
            g->replaced = true;
            break;
        default:
            break;
        }
        message_free(message);
    }
    wire_close(&w);
    return NULL;
}

static bool seated(struct daemon *d, const char *agent)
{
    struct aw_agent_exchange_seat seat;
    char name[AW_EXTERNAL_AGENT_NAME_MAX];
    uint32_t index = 0;
    return aw_agent_exchange_next(d->exchange, &index, &seat, name) && strcmp(name, agent) == 0;
}

static void wait_until_seated(struct daemon *d, const char *agent)
{
    const int64_t limit = aw_clock_monotonic_us(NULL) + ANSWER_US;
    while (!seated(d, agent)) {
        assert_true(aw_clock_monotonic_us(NULL) < limit);
        usleep(1000);
    }
}

static void an_agent_is_asked_followed_and_told(void **state)
{
    (void)state;
    struct daemon d;
    pthread_t thread;
    daemon_begin(&d, 60);
    struct good g = {.daemon = &d};
    assert_int_equal(pthread_create(&thread, NULL, good_agent, &g), 0);
    wait_until_seated(&d, "good");
    while (d.acted < 20) {
        const struct aw_decision *decision = daemon_tick(&d);
        if (decision->actor == AW_ACTOR_AGENT)
            for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
                assert_true(decision->action[a] == GOOD_VALUE);
        assert_true(d.ticks < TICKS_MAX);
    }
    assert_ok(aw_loop_remove(d.loop, 0)); /* which ends its stream */
    pthread_join(thread, NULL);
    assert_int_equal(g.states, d.ticks);
    assert_true(g.named && g.acting && g.replaced && g.accepted > 0);
    daemon_end(&d);
}

/* --- who is refused --------------------------------------------------------------------------- */

static void who_does_not_fit_is_told_why(void **state)
{
    (void)state;
    struct daemon d;
    daemon_begin(&d, 1);
    struct wire first = {0};
    wire_open(&first, d.address);
    assert_true(wire_register(&first, "test/app", "first", false, 0));
    Aware__V1__DaemonMessage *message = wire_receive(&first);
    assert_non_null(message);
    assert_int_equal(message->message_case, AWARE__V1__DAEMON_MESSAGE__MESSAGE_REGISTERED);
    message_free(message);
    static const struct {
        const char *workload, *agent;
        bool take_over;
        uint32_t obs_dim;
        Aware__V1__Refused__Reason reason;
    } cases[] = {
        {"no/such", "a", false, 0, AWARE__V1__REFUSED__REASON__REASON_NO_WORKLOAD},
        {"test/app", "a", false, 0, AWARE__V1__REFUSED__REASON__REASON_TAKEN},
        {"test/app", "a", true, 3, AWARE__V1__REFUSED__REASON__REASON_SHAPE},
        {"test/app", "a b", true, 0, AWARE__V1__REFUSED__REASON__REASON_PROTOCOL},
        {NULL, NULL, false, 0, AWARE__V1__REFUSED__REASON__REASON_PROTOCOL}, /* an action first */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wire w = {0};
        wire_open(&w, d.address);
        if (cases[i].workload)
            assert_true(wire_register(&w, cases[i].workload, cases[i].agent, cases[i].take_over,
                                      cases[i].obs_dim));
        else
            assert_true(wire_answer(&w, 1, 0, 3));
        message = wire_receive(&w);
        assert_non_null(message);
        assert_int_equal(message->message_case, AWARE__V1__DAEMON_MESSAGE__MESSAGE_REFUSED);
        assert_int_equal(message->refused->reason, cases[i].reason);
        assert_true(*message->refused->message);
        message_free(message);
        assert_null(wire_receive(&w)); /* that was the last one */
        wire_close(&w);
    }
    assert_true(seated(&d, "first"));
    struct aw_rpc_answer answer = {0};
    assert_ok(aw_rpc_client_call(first.client, "/aware.v1.Agent/Workloads", NULL, 0, &answer, NULL,
                                 NULL));
    Aware__V1__WorkloadsResponse *list =
        aware__v1__workloads_response__unpack(NULL, answer.size, answer.bytes);
    assert_non_null(list);
    assert_int_equal(list->n_workloads, 1);
    assert_string_equal(list->workloads[0]->name, "test/app");
    assert_string_equal(list->workloads[0]->agent, "first");
    aware__v1__workloads_response__free_unpacked(list, NULL);
    aw_rpc_answer_free(&answer);
    wire_close(&first);
    daemon_end(&d);
}

/* --- a chaotic one ---------------------------------------------------------------------------- */

struct chaotic {
    struct daemon *daemon;
    struct aw_rng rng;
    _Atomic bool stop, ended;
};

enum mood { WELL, WELL_TOO, SILENT, LATE, NAN_VALUE, SIZE, BOUNDS, OLD, TWICE, FLOOD, GONE, JUNK };
#define MOODS (JUNK + 1u)

/* False: this life is over. */
static bool chaotic_answer(struct chaotic *c, struct wire *w, uint64_t id)
{
    static const size_t sizes[] = {0, 1, 2, 4, 200};
    switch ((enum mood)aw_rng_below(&c->rng, MOODS)) {
    case WELL:
    case WELL_TOO:
        return wire_answer(w, id, GOOD_VALUE, AW_ACTION_DIM);
    case SILENT:
        return true;
    case LATE:
        usleep((useconds_t)(2e6 * c->daemon->bench.config.external.deadline));
        return wire_answer(w, id, WRONG_VALUE, AW_ACTION_DIM);
    case NAN_VALUE:
        return wire_answer(w, id, aw_rng_below(&c->rng, 2) ? NAN : INFINITY, AW_ACTION_DIM);
    case SIZE:
        return wire_answer(w, id, WRONG_VALUE, sizes[aw_rng_below(&c->rng, 5)]);
    case BOUNDS:
        return wire_answer(w, id, 17, AW_ACTION_DIM);
    case OLD:
        return wire_answer(w, id - 1, WRONG_VALUE, AW_ACTION_DIM);
    case TWICE:
        return wire_answer(w, id, GOOD_VALUE, AW_ACTION_DIM) &&
               wire_answer(w, id, WRONG_VALUE, AW_ACTION_DIM);
    case FLOOD:
        for (uint32_t i = 0; i < 300; i++)
            if (!wire_answer(w, i, WRONG_VALUE, AW_ACTION_DIM))
                return false;
        return true;
    case GONE:
        return false;
    case JUNK: {
        uint8_t bytes[64];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)aw_rng_below(&c->rng, 256);
        return !aw_rpc_talk_send(w->talk, bytes, sizeof bytes, NULL);
    }
    }
    return false;
}

static void *chaotic_agent(void *ctx)
{
    struct chaotic *c = ctx;
    while (!atomic_load(&c->stop)) {
        struct wire w = {0};
        wire_open(&w, c->daemon->address);
        bool alive = wire_register(&w, "test/app", "chaotic", aw_rng_below(&c->rng, 2), 0);
        while (alive && !atomic_load(&c->stop)) {
            Aware__V1__DaemonMessage *message = wire_receive(&w);
            alive = message != NULL;
            if (alive && message->message_case == AWARE__V1__DAEMON_MESSAGE__MESSAGE_STATE)
                alive = chaotic_answer(c, &w, message->state->id);
            message_free(message);
        }
        wire_close(&w);
    }
    atomic_store(&c->ended, true);
    return NULL;
}

/* What an agent is told of all others, where it asks for it. */
static void who_wants_to_is_told_of_all_others(void **state)
{
    (void)state;
    struct daemon d;
    struct aw_agent_client *client[2];
    struct aw_agent_client_seat seat;
    struct aw_agent_client_event event;
    struct aw_diag diag = {0};
    daemon_begin(&d, 5);
    for (uint32_t k = 0; k < 2; k++) {
        const struct aw_agent_client_config config = {
            .wire = {.address = d.address, .timeout_us = ANSWER_US},
            .workload = "test/app",
            .agent = "a",
            .version = "",
            .take_over = k > 0,
            .want_global = k > 0};
        if (aw_agent_client_open(&client[k], &config, &seat, &diag))
            fail_msg("%s", diag.text);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, one_tick, &d), 0);
        do
            assert_ok(aw_agent_client_next(client[k], &event, &diag));
        while (event.kind != AW_AGENT_CLIENT_STATE);
        const float action[AW_ACTION_DIM] = {GOOD_VALUE, GOOD_VALUE, GOOD_VALUE};
        assert_ok(aw_agent_client_answer(client[k], event.id, action, AW_ACTION_DIM, NULL, &diag));
        pthread_join(thread, NULL);
        assert_true(k == 0 ? event.others.epoch == 0 : event.others.epoch > 0);
        assert_int_equal(event.others.members, k);
        for (uint32_t i = 0; i < AW_OTHERS_DIM; i++)
            assert_true(event.others.global[i] == 0); /* it is alone */
    }
    for (uint32_t k = 0; k < 2; k++)
        aw_agent_client_close(client[k]);
    daemon_end(&d);
}

static void chaotic_agents_harm_nothing_and_a_good_one_is_followed_again(void **state)
{
    (void)state;
    struct daemon d;
    pthread_t threads[2], good_thread;
    daemon_begin(&d, 0.02);
    /* seconds of the simulated cluster: four ticks */
    d.bench.config.external.backoff_max = d.bench.config.external.backoff;
    assert_ok(aw_loop_update(d.loop, 0, &d.bench.config, NULL));
    struct chaotic c[2] = {{.daemon = &d}, {.daemon = &d}};
    for (uint32_t i = 0; i < 2; i++) {
        aw_rng_init(&c[i].rng, 7, i);
        assert_int_equal(pthread_create(&threads[i], NULL, chaotic_agent, &c[i]), 0);
    }
    const struct aw_bounds *bounds = &d.bench.config.bounds;
    struct aw_agent_exchange_counts counts;
    do {
        const struct aw_decision *decision = daemon_tick(&d);
        const struct aw_plan *plan = &decision->guard.plan;
        if (decision->actor == AW_ACTOR_AGENT)
            for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
                assert_true(decision->action[a] == GOOD_VALUE);
        assert_true(plan->replicas >= bounds->replicas_min &&
                    plan->replicas <= bounds->replicas_max);
        assert_true(plan->cpu_millicores >= bounds->cpu_millicores_min &&
                    plan->cpu_millicores <= bounds->cpu_millicores_max);
        assert_true(plan->memory_bytes >= bounds->memory_bytes_min &&
                    plan->memory_bytes <= bounds->memory_bytes_max);
        aw_agent_exchange_counts(d.exchange, &counts);
        usleep(1000); /* so that they have a chance to come back */
        assert_true(d.ticks < 100 * TICKS_MAX);
    } while (counts.asked < 40 || counts.left < 8);

    for (uint32_t i = 0; i < 2; i++)
        atomic_store(&c[i].stop, true);
    while (!atomic_load(&c[0].ended) || !atomic_load(&c[1].ended)) { /* they wait for a question */
        (void)daemon_tick(&d);
        usleep(1000); /* who is set aside is asked no more often for ticks that hurry */
    }
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    struct good g = {.daemon = &d};
    assert_int_equal(pthread_create(&good_thread, NULL, good_agent, &g), 0);
    wait_until_seated(&d, "good");
    d.bench.config.external.deadline = 60; /* whatever else the machine does */
    assert_ok(aw_loop_update(d.loop, 0, &d.bench.config, NULL));
    const uint32_t before = d.acted, from = d.ticks;
    while (d.acted < before + 5) {
        (void)daemon_tick(&d);
        assert_true(d.ticks - from < 100 * TICKS_MAX);
    }
    assert_ok(aw_loop_remove(d.loop, 0));
    pthread_join(good_thread, NULL);
    assert_true(g.replaced);
    daemon_end(&d);
}

AW_TEST_GROUP("agent-service")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_is_asked_followed_and_told),
        cmocka_unit_test(who_does_not_fit_is_told_why),
        cmocka_unit_test(who_wants_to_is_told_of_all_others),
        cmocka_unit_test(chaotic_agents_harm_nothing_and_a_good_one_is_followed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
