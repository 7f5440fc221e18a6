/*
 * agent_service.c - see agent_service.h: a stream is a line between an agent and its seat.
 *
 * What the loop has for an agent is sent by one thread, the pump: the exchange wakes it with its
 * own lock held, so waking only marks the line. Locks are taken in this order: exchange, service;
 * nothing here calls the exchange with the service's lock held. A line that the pump is busy with
 * is not closed before it is done.
 */
#include "rpc/agent_service.h"

#include <aware/v1/agent.pb-c.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"

#define METHODS 3u /* with the one that ends the table */

struct line {
    struct aw_agent_service *service;
    struct aw_rpc_stream *stream;
    struct line *next, *prev;
    uint64_t ticket; /* 0: not registered */
    bool ready;      /* the pump may send: `registered` is on its way */
    bool dirty;      /* there is something to poll */
    bool busy;       /* the pump is at it */
    bool closing;
    bool wants_global;                   /* it is told of all others */
    bool ended;                          /* it was told that it has lost its seat */
    Aware__V1__Standing__State standing; /* as it was last told */
    char workload[AW_STORE_NAME_MAX], agent[AW_EXTERNAL_AGENT_NAME_MAX];
};

struct aw_agent_service {
    struct aw_rpc_service service;
    struct aw_rpc_method methods[METHODS];
    struct aw_agent_exchange *exchange;
    aw_agent_service_told *told;
    void *ctx;
    pthread_mutex_t lock; /* of the lines' list and flags */
    pthread_cond_t work, idle;
    pthread_t pump;
    struct line *lines;
    bool stop;
};

static void tell(const struct line *line, const char *what, const char *text)
{
    const struct aw_agent_service *service = line->service;
    if (service->told)
        service->told(service->ctx, what, line->workload, line->agent, text);
}

/* protobuf-c wants texts that it never writes to. */
static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* --- to an agent ------------------------------------------------------------------------------ */

/* AW_ERR_LIMIT: the agent does not read; what it misses is late. */
static enum aw_err send_message(struct line *line, const Aware__V1__DaemonMessage *message)
{
    const size_t size = aware__v1__daemon_message__get_packed_size(message);
    uint8_t *bytes = aw_alloc_new(NULL, size, 1);
    if (!bytes)
        return AW_ERR_NOMEM;
    aware__v1__daemon_message__pack(message, bytes);
    const enum aw_err err = aw_rpc_stream_send(line->stream, bytes, size);
    aw_alloc_free(NULL, bytes);
    return err;
}

static void send_question(struct line *line, const struct aw_agent_exchange_message *message)
{
    struct aw_external_agent_request question = message->question;
    Aware__V1__StateRequest state;
    aware__v1__state_request__init(&state);
    Aware__V1__DaemonMessage out;
    aware__v1__daemon_message__init(&out);
    state.id = question.id;
    state.observation = question.obs;
    state.n_observation = question.obs_dim;
    state.deadline_ms = (uint32_t)(message->left_s * 1e3);
    state.fallback_action = question.fallback;
    state.n_fallback_action = question.act_dim;
    state.episode_begins = question.step == 0;
    if (question.has_last) {
        state.before_case = AWARE__V1__STATE_REQUEST__BEFORE_REWARD;
        state.reward = question.reward;
        state.last_action = question.action;
        state.n_last_action = question.act_dim;
    }
    struct aw_others_view others = message->others;
    if (line->wants_global && others.epoch > 0) {
        state.global = others.global;
        state.n_global = AW_OTHERS_DIM;
        state.epoch = others.epoch;
        state.members = others.members;
        state.team_case = others.has_reward ? AWARE__V1__STATE_REQUEST__TEAM_TEAM_REWARD : 0;
        state.team_reward = others.team_reward;
    }
    out.message_case = AWARE__V1__DAEMON_MESSAGE__MESSAGE_STATE;
    out.state = &state;
    (void)!send_message(line, &out);
}

static void send_outcome(struct line *line, uint64_t id, Aware__V1__Outcome__Verdict verdict,
                         const char *text)
{
    Aware__V1__Outcome outcome;
    aware__v1__outcome__init(&outcome);
    Aware__V1__DaemonMessage out;
    aware__v1__daemon_message__init(&out);
    outcome.id = id;
    outcome.verdict = verdict;
    outcome.message = text_of(text);
    out.message_case = AWARE__V1__DAEMON_MESSAGE__MESSAGE_OUTCOME;
    out.outcome = &outcome;
    (void)!send_message(line, &out);
}

/* Only where it is another than before. */
static void send_standing(struct line *line, const struct aw_agent_exchange_outcome *told)
{
    const Aware__V1__Standing__State state =
        told->standing == AW_EXTERNAL_AGENT_ASIDE ? AWARE__V1__STANDING__STATE__STATE_SET_ASIDE
        : told->frozen                            ? AWARE__V1__STANDING__STATE__STATE_FROZEN
        : told->acts                              ? AWARE__V1__STANDING__STATE__STATE_ACTING
                                                  : AWARE__V1__STANDING__STATE__STATE_SHADOW;
    Aware__V1__Standing standing;
    aware__v1__standing__init(&standing);
    Aware__V1__DaemonMessage out;
    aware__v1__daemon_message__init(&out);
    if (state == line->standing)
        return;
    line->standing = state;
    standing.state = state;
    standing.message = text_of(told->text);
    out.message_case = AWARE__V1__DAEMON_MESSAGE__MESSAGE_STANDING;
    out.standing = &standing;
    (void)!send_message(line, &out);
}

static void send_end(struct line *line, enum aw_agent_exchange_end end)
{
    static const struct {
        Aware__V1__Replaced__Reason reason;
        const char *text;
    } ends[] = {
        [AW_AGENT_EXCHANGE_END_OTHER_AGENT] = {AWARE__V1__REPLACED__REASON__REASON_OTHER_AGENT,
                                               "another agent took over"},
        [AW_AGENT_EXCHANGE_END_WORKLOAD_GONE] =
            {AWARE__V1__REPLACED__REASON__REASON_WORKLOAD_GONE,
             "the workload is gone, or no longer admits an agent"},
        [AW_AGENT_EXCHANGE_END_FLOODING] = {AWARE__V1__REPLACED__REASON__REASON_FLOODING,
                                            "far more answers came than were asked for"},
    };
    Aware__V1__Replaced replaced;
    aware__v1__replaced__init(&replaced);
    Aware__V1__DaemonMessage out;
    aware__v1__daemon_message__init(&out);
    AW_ASSERT(end != AW_AGENT_EXCHANGE_END_NONE);
    replaced.reason = ends[end].reason;
    replaced.message = text_of(ends[end].text);
    out.message_case = AWARE__V1__DAEMON_MESSAGE__MESSAGE_REPLACED;
    out.replaced = &replaced;
    (void)!send_message(line, &out);
    line->ended = true;
    aw_rpc_stream_end(line->stream, AW_RPC_OK, ends[end].text);
    tell(line, "an agent has lost its seat", ends[end].text);
}

/* --- the pump --------------------------------------------------------------------------------- */

static void pump_line(struct line *line)
{
    static const Aware__V1__Outcome__Verdict verdicts[] = {
        [AW_AGENT_EXCHANGE_FOLLOWED] = AWARE__V1__OUTCOME__VERDICT__VERDICT_ACCEPTED,
        [AW_AGENT_EXCHANGE_CLIPPED] = AWARE__V1__OUTCOME__VERDICT__VERDICT_CLIPPED,
        [AW_AGENT_EXCHANGE_SHADOW] = AWARE__V1__OUTCOME__VERDICT__VERDICT_SHADOW,
        [AW_AGENT_EXCHANGE_LATE] = AWARE__V1__OUTCOME__VERDICT__VERDICT_LATE,
        [AW_AGENT_EXCHANGE_INVALID] = AWARE__V1__OUTCOME__VERDICT__VERDICT_INVALID,
    };
    struct aw_agent_exchange_message message;
    while (!line->ended &&
           aw_agent_exchange_poll(line->service->exchange, line->ticket, &message)) {
        switch (message.kind) {
        case AW_AGENT_EXCHANGE_OUTCOME:
            send_outcome(line, message.outcome.id, verdicts[message.outcome.verdict],
                         message.outcome.text);
            send_standing(line, &message.outcome);
            break;
        case AW_AGENT_EXCHANGE_QUESTION:
            send_question(line, &message);
            break;
        case AW_AGENT_EXCHANGE_END:
            send_end(line, message.end);
            break;
        }
    }
}

static struct line *next_dirty(struct aw_agent_service *service)
{
    for (struct line *line = service->lines; line; line = line->next)
        if (line->dirty && line->ready && !line->closing)
            return line;
    return NULL;
}

static void *pump(void *ctx)
{
    struct aw_agent_service *service = ctx;
    pthread_setname_np(pthread_self(), "aware-agents");
    pthread_mutex_lock(&service->lock);
    while (!service->stop) {
        struct line *line = next_dirty(service);
        if (!line) {
            pthread_cond_wait(&service->work, &service->lock);
            continue;
        }
        line->dirty = false;
        line->busy = true;
        pthread_mutex_unlock(&service->lock);
        pump_line(line);
        pthread_mutex_lock(&service->lock);
        line->busy = false;
        pthread_cond_broadcast(&service->idle);
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

/* The exchange's lock is held. */
static void wake(void *ctx)
{
    struct line *line = ctx;
    pthread_mutex_lock(&line->service->lock);
    line->dirty = true;
    pthread_cond_signal(&line->service->work);
    pthread_mutex_unlock(&line->service->lock);
}

/* --- from an agent ---------------------------------------------------------------------------- */

static void serve_open(void *ctx, struct aw_rpc_stream *stream, void **ret_self,
                       struct aw_rpc_reply *reply)
{
    struct aw_agent_service *service = ctx;
    struct line *line = aw_alloc_new(NULL, 1, sizeof *line);
    if (!line) {
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "no memory for an agent");
        return;
    }
    line->service = service;
    line->stream = stream;
    pthread_mutex_lock(&service->lock);
    line->next = service->lines;
    if (line->next)
        line->next->prev = line;
    service->lines = line;
    pthread_mutex_unlock(&service->lock);
    *ret_self = line;
}

static void serve_close(void *self)
{
    struct line *line = self;
    struct aw_agent_service *service = line->service;
    pthread_mutex_lock(&service->lock);
    line->closing = true;
    while (line->busy)
        pthread_cond_wait(&service->idle, &service->lock);
    pthread_mutex_unlock(&service->lock);
    if (line->ticket) {
        aw_agent_exchange_leave(service->exchange, line->ticket); /* from here on nobody wakes it */
        tell(line, "an agent has left", "");
    }
    pthread_mutex_lock(&service->lock);
    if (line->prev)
        line->prev->next = line->next;
    else
        service->lines = line->next;
    if (line->next)
        line->next->prev = line->prev;
    pthread_mutex_unlock(&service->lock);
    aw_alloc_free(NULL, line);
}

/* The last message of the stream. */
static void refuse(struct line *line, Aware__V1__Refused__Reason reason, const char *text,
                   struct aw_rpc_reply *reply)
{
    Aware__V1__Refused refused;
    aware__v1__refused__init(&refused);
    Aware__V1__DaemonMessage out;
    aware__v1__daemon_message__init(&out);
    refused.reason = reason;
    refused.message = text_of(text);
    out.message_case = AWARE__V1__DAEMON_MESSAGE__MESSAGE_REFUSED;
    out.refused = &refused;
    (void)!send_message(line, &out);
    reply->end = true;
    tell(line, "an agent was refused", text);
}

static void space_put(const struct aw_space_axis *axes, uint32_t dim, Aware__V1__Space *space,
                      Aware__V1__Axis *axis, Aware__V1__Axis **pointer)
{
    aware__v1__space__init(space);
    space->kind = AWARE__V1__SPACE__KIND__KIND_BOX;
    space->n_axes = dim;
    space->axes = pointer;
    for (uint32_t i = 0; i < dim; i++) {
        aware__v1__axis__init(&axis[i]);
        axis[i].name = text_of(axes[i].name);
        axis[i].unit = text_of(axes[i].unit ? axes[i].unit : "");
        axis[i].low = axes[i].low;
        axis[i].high = axes[i].high;
        pointer[i] = &axis[i];
    }
}

static enum aw_err send_registered(struct line *line, const struct aw_agent_exchange_seat *seat,
                                   bool shadow)
{
    Aware__V1__Axis axis[AW_STATE_DIM_MAX + AW_ACTION_MAX], global_axis[AW_OTHERS_DIM];
    Aware__V1__Axis *pointer[AW_STATE_DIM_MAX + AW_ACTION_MAX], *global_pointer[AW_OTHERS_DIM];
    Aware__V1__Space observation, action, global;
    Aware__V1__Registered registered;
    aware__v1__registered__init(&registered);
    Aware__V1__DaemonMessage out;
    aware__v1__daemon_message__init(&out);
    struct aw_space_axis state_axes[AW_STATE_DIM_MAX], action_axes[AW_ACTION_MAX];
    for (uint32_t i = 0; i < seat->obs_dim; i++)
        state_axes[i] = *aw_state_axis(seat->obs_dim, seat->more, i);
    space_put(state_axes, seat->obs_dim, &observation, axis, pointer);
    const uint32_t act_dim = aw_action_dim(seat->more);
    for (uint32_t i = 0; i < act_dim; i++)
        action_axes[i] = aw_action_axis(seat->more, i);
    space_put(action_axes, act_dim, &action, axis + seat->obs_dim, pointer + seat->obs_dim);
    struct aw_space_axis global_axes[AW_OTHERS_DIM];
    for (uint32_t i = 0; i < AW_OTHERS_DIM; i++)
        global_axes[i] =
            (struct aw_space_axis){.name = aw_others_names[i], .low = -INFINITY, .high = INFINITY};
    space_put(global_axes, AW_OTHERS_DIM, &global, global_axis, global_pointer);
    registered.global = line->wants_global ? &global : NULL;
    registered.workload = line->workload;
    registered.observation = &observation;
    registered.action = &action;
    registered.deadline_ms = (uint32_t)(seat->deadline_s * 1e3);
    registered.period_ms = (uint32_t)(seat->step_s * 1e3);
    registered.shadow = shadow;
    out.message_case = AWARE__V1__DAEMON_MESSAGE__MESSAGE_REGISTERED;
    out.registered = &registered;
    return send_message(line, &out);
}

static void take_register(struct line *line, const Aware__V1__Register *message,
                          struct aw_rpc_reply *reply)
{
    struct aw_agent_service *service = line->service;
    struct aw_agent_exchange_seat seat;
    struct aw_diag diag = {0};
    if (line->ticket) {
        refuse(line, AWARE__V1__REFUSED__REASON__REASON_PROTOCOL, "registered twice", reply);
        return;
    }
    const struct aw_agent_exchange_hello hello = {.workload = message->workload,
                                                  .agent = message->agent,
                                                  .version = message->version,
                                                  .obs_dim = message->observation_dim,
                                                  .act_dim = message->action_dim,
                                                  .shadow = message->shadow,
                                                  .take_over = message->take_over,
                                                  .wake = wake,
                                                  .ctx = line};
    const enum aw_err err =
        aw_agent_exchange_register(service->exchange, &hello, &line->ticket, &seat, &diag);
    if (err) {
        refuse(line,
               err == AW_ERR_NOTFOUND ? AWARE__V1__REFUSED__REASON__REASON_NO_WORKLOAD
               : err == AW_ERR_EXISTS ? AWARE__V1__REFUSED__REASON__REASON_TAKEN
               : err == AW_ERR_CONFIG ? AWARE__V1__REFUSED__REASON__REASON_SHAPE
               : err == AW_ERR_LIMIT  ? AWARE__V1__REFUSED__REASON__REASON_LIMIT
                                      : AWARE__V1__REFUSED__REASON__REASON_PROTOCOL,
               diag.text, reply);
        return;
    }
    line->wants_global = message->want_global;
    memcpy(line->workload, seat.name, sizeof line->workload);
    snprintf(line->agent, sizeof line->agent, "%s%s%s", message->agent,
             *message->version ? "@" : "", message->version);
    if (send_registered(line, &seat, message->shadow)) {
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "no memory for an agent");
        return;
    }
    tell(line, "an agent has registered", aw_rpc_stream_peer(line->stream));
    pthread_mutex_lock(&service->lock);
    line->ready = true; /* what was asked meanwhile comes behind `registered` */
    pthread_cond_signal(&service->work);
    pthread_mutex_unlock(&service->lock);
}

static void take_action(struct line *line, const Aware__V1__Action *message,
                        struct aw_rpc_reply *reply)
{
    if (!line->ticket) {
        refuse(line, AWARE__V1__REFUSED__REASON__REASON_PROTOCOL,
               "an action came before the agent has registered", reply);
        return;
    }
    struct aw_external_agent_words words;
    const bool sure = message->sureness_case == AWARE__V1__ACTION__SURENESS_CONFIDENCE;
    aw_external_agent_words_take(&words, sure ? &message->confidence : NULL, message->explanation);
    /* the outcome of what was asked is told when it is decided; of this nobody would tell */
    if (aw_agent_exchange_answer_saying(line->service->exchange, line->ticket, message->id,
                                        message->values, message->n_values,
                                        &words) == AW_EXTERNAL_AGENT_FAULT_OLD)
        send_outcome(line, message->id, AWARE__V1__OUTCOME__VERDICT__VERDICT_INVALID,
                     "nobody asks this, or it has been answered");
}

static void serve_message(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct line *line = self;
    Aware__V1__AgentMessage *message = size <= AW_AGENT_SERVICE_BYTES_MAX
                                           ? aware__v1__agent_message__unpack(NULL, size, bytes)
                                           : NULL;
    if (!message) {
        refuse(line, AWARE__V1__REFUSED__REASON__REASON_PROTOCOL,
               "a message that cannot be read, or is too large", reply);
        return;
    }
    switch (message->message_case) {
    case AWARE__V1__AGENT_MESSAGE__MESSAGE_REGISTER:
        take_register(line, message->register_, reply);
        break;
    case AWARE__V1__AGENT_MESSAGE__MESSAGE_ACTION:
        take_action(line, message->action, reply);
        break;
    case AWARE__V1__AGENT_MESSAGE__MESSAGE_LEAVE:
        reply->end = true;
        break;
    default:
        refuse(line, AWARE__V1__REFUSED__REASON__REASON_PROTOCOL, "an empty message", reply);
        break;
    }
    aware__v1__agent_message__free_unpacked(message, NULL);
}

static void serve_half_closed(void *self, struct aw_rpc_reply *reply)
{
    (void)self;
    reply->end = true;
}

/* --- looking ---------------------------------------------------------------------------------- */

/* Who has which seat. A list that would be larger than a message is cut. */
#define LISTED_MAX 10000u
struct listed {
    Aware__V1__WorkloadsResponse__Entry entry;
    struct aw_agent_exchange_seat seat;
    char agent[AW_EXTERNAL_AGENT_NAME_MAX];
};

static void workloads(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw_agent_service *service = ctx;
    (void)bytes;
    (void)size; /* the request has no fields */
    Aware__V1__WorkloadsResponse response;
    aware__v1__workloads_response__init(&response);
    struct aw_agent_exchange_seat seat;
    char agent[AW_EXTERNAL_AGENT_NAME_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0;
         count < LISTED_MAX && aw_agent_exchange_next(service->exchange, &i, &seat, agent); i++)
        count++;
    struct listed *listed = aw_alloc_new(NULL, count + 1, sizeof *listed);
    Aware__V1__WorkloadsResponse__Entry **pointer =
        aw_alloc_new(NULL, count + 1, sizeof(Aware__V1__WorkloadsResponse__Entry *));
    if (!listed || !pointer) {
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "no memory for a list");
        goto out;
    }
    for (uint32_t i = 0, n = 0;
         n < count &&
         aw_agent_exchange_next(service->exchange, &i, &listed[n].seat, listed[n].agent);
         i++, n++) {
        struct listed *one = &listed[n];
        aware__v1__workloads_response__entry__init(&one->entry);
        one->entry.name = one->seat.name;
        one->entry.agent = one->agent;
        one->entry.observation_dim = one->seat.obs_dim;
        one->entry.action_dim = aw_action_dim(one->seat.more);
        pointer[response.n_workloads++] = &one->entry;
    }
    response.workloads = pointer;
    uint8_t *room =
        aw_rpc_reply_room(reply, aware__v1__workloads_response__get_packed_size(&response));
    if (room)
        aware__v1__workloads_response__pack(&response, room);
out:
    aw_alloc_free(NULL, pointer);
    aw_alloc_free(NULL, listed);
}

/* --- made and ended --------------------------------------------------------------------------- */

enum aw_err aw_agent_service_new(struct aw_agent_service **ret, struct aw_agent_exchange *exchange,
                                 aw_agent_service_told *told, void *ctx, struct aw_diag *diag)
{
    struct aw_agent_service *service = aw_alloc_new(NULL, 1, sizeof *service);
    if (!service)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the service of agents");
    service->exchange = exchange;
    service->told = told;
    service->ctx = ctx;
    service->methods[0] = (struct aw_rpc_method){.path = "/aware.v1.Agent/Serve",
                                                 .kind = AW_RPC_DUPLEX,
                                                 .open = serve_open,
                                                 .message = serve_message,
                                                 .half_closed = serve_half_closed,
                                                 .close = serve_close};
    service->methods[1] = (struct aw_rpc_method){
        .path = "/aware.v1.Agent/Workloads", .kind = AW_RPC_UNARY, .unary = workloads};
    service->service = (struct aw_rpc_service){
        .name = "aware.v1.Agent", .methods = service->methods, .ctx = service};
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->work, NULL);
    pthread_cond_init(&service->idle, NULL);
    const int failed = aw_thread_begin(&service->pump, pump, service);
    if (failed) {
        pthread_cond_destroy(&service->idle);
        pthread_cond_destroy(&service->work);
        pthread_mutex_destroy(&service->lock);
        aw_alloc_free(NULL, service);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the service of agents");
    }
    *ret = service;
    return AW_OK;
}

void aw_agent_service_free(struct aw_agent_service *service)
{
    if (!service)
        return;
    pthread_mutex_lock(&service->lock);
    AW_ASSERT(!service->lines);
    service->stop = true;
    pthread_cond_signal(&service->work);
    pthread_mutex_unlock(&service->lock);
    pthread_join(service->pump, NULL);
    pthread_cond_destroy(&service->idle);
    pthread_cond_destroy(&service->work);
    pthread_mutex_destroy(&service->lock);
    aw_alloc_free(NULL, service);
}

const struct aw_rpc_service *aw_agent_service_service(struct aw_agent_service *service)
{
    return &service->service;
}
