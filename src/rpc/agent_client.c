/* agent_client.c - see agent_client.h. */
#include "rpc/agent_client.h"

#include <aware/v1/agent.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define FOR_EVER_US   INT64_C(31536000000000) /* a year */
#define SEND_BYTES    4096u
#define TEXT(pointer) ((char *)(uintptr_t)(pointer)) /* protobuf-c never writes to it */

struct aw_agent_client {
    struct aw_rpc_client *client;
    struct aw_rpc_talk *talk;
};

static enum aw_err send_message(struct aw_agent_client *client,
                                const Aware__V1__AgentMessage *message, struct aw_diag *diag)
{
    uint8_t bytes[SEND_BYTES];
    const size_t size = aware__v1__agent_message__get_packed_size(message);
    if (size > sizeof bytes)
        return aw_fail(diag, AW_ERR_LIMIT, "a message of %zu bytes; at most %u", size, SEND_BYTES);
    aware__v1__agent_message__pack(message, bytes);
    return aw_rpc_talk_send(client->talk, bytes, size, diag);
}

/* The caller frees the message. */
static enum aw_err receive(struct aw_agent_client *client, Aware__V1__DaemonMessage **ret,
                           struct aw_diag *diag)
{
    struct aw_rpc_answer answer = {0};
    const enum aw_err err = aw_rpc_talk_receive(client->talk, &answer, diag);
    if (err)
        return err;
    *ret = aware__v1__daemon_message__unpack(NULL, answer.size, answer.bytes);
    aw_rpc_answer_free(&answer);
    return *ret ? AW_OK : aw_fail(diag, AW_ERR_FORMAT, "the daemon sent what cannot be read");
}

static enum aw_err refused(const Aware__V1__Refused *message, struct aw_diag *diag)
{
    static const enum aw_err errs[] = {
        [AWARE__V1__REFUSED__REASON__REASON_NO_WORKLOAD] = AW_ERR_NOTFOUND,
        [AWARE__V1__REFUSED__REASON__REASON_TAKEN] = AW_ERR_EXISTS,
        [AWARE__V1__REFUSED__REASON__REASON_SHAPE] = AW_ERR_CONFIG,
        [AWARE__V1__REFUSED__REASON__REASON_LIMIT] = AW_ERR_LIMIT,
    };
    const size_t reason = (size_t)message->reason;
    const enum aw_err err = reason < sizeof errs / sizeof *errs ? errs[reason] : AW_OK;
    return aw_fail(diag, err ? err : AW_ERR_UNSUPPORTED, "%s", message->message);
}

static enum aw_err join(struct aw_agent_client *client, const struct aw_agent_client_config *config,
                        struct aw_agent_client_seat *ret_seat, struct aw_diag *diag)
{
    Aware__V1__Register hello;
    Aware__V1__AgentMessage message;
    Aware__V1__DaemonMessage *answer = NULL;
    aware__v1__register__init(&hello);
    hello.workload = TEXT(config->workload);
    hello.agent = TEXT(config->agent);
    hello.version = TEXT(config->version);
    hello.observation_dim = config->obs_dim;
    hello.action_dim = config->act_dim;
    hello.shadow = config->shadow;
    hello.take_over = config->take_over;
    hello.want_global = config->want_global;
    aware__v1__agent_message__init(&message);
    message.message_case = AWARE__V1__AGENT_MESSAGE__MESSAGE_REGISTER;
    message.register_ = &hello;
    enum aw_err err = send_message(client, &message, diag);
    err = err ? err : receive(client, &answer, diag);
    if (err)
        return err;
    const Aware__V1__Registered *told = answer->registered;
    if (answer->message_case == AWARE__V1__DAEMON_MESSAGE__MESSAGE_REFUSED) {
        err = refused(answer->refused, diag);
    } else if (answer->message_case != AWARE__V1__DAEMON_MESSAGE__MESSAGE_REGISTERED ||
               !told->observation || !told->action) {
        err = aw_fail(diag, AW_ERR_FORMAT, "the daemon did not say whether it registered");
    } else {
        *ret_seat = (struct aw_agent_client_seat){.obs_dim = (uint32_t)told->observation->n_axes,
                                                  .act_dim = (uint32_t)told->action->n_axes,
                                                  .deadline_s = 1e-3 * told->deadline_ms,
                                                  .period_s = 1e-3 * told->period_ms};
        snprintf(ret_seat->workload, sizeof ret_seat->workload, "%s", told->workload);
    }
    aware__v1__daemon_message__free_unpacked(answer, NULL);
    return err;
}

enum aw_err aw_agent_client_open(struct aw_agent_client **ret,
                                 const struct aw_agent_client_config *config,
                                 struct aw_agent_client_seat *ret_seat, struct aw_diag *diag)
{
    struct aw_rpc_client_config wire = config->wire;
    struct aw_agent_client *client = aw_alloc_new(NULL, 1, sizeof *client);
    if (!client)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an agent");
    if (wire.timeout_us == 0)
        wire.timeout_us = FOR_EVER_US;
    enum aw_err err = aw_rpc_client_open(&client->client, &wire, diag);
    if (!err)
        err = aw_rpc_talk_open(&client->talk, client->client, "/aware.v1.Agent/Serve", diag);
    err = err ? err : join(client, config, ret_seat, diag);
    if (err) {
        aw_agent_client_close(client);
        return err;
    }
    *ret = client;
    return AW_OK;
}

void aw_agent_client_close(struct aw_agent_client *client)
{
    if (!client)
        return;
    aw_rpc_talk_close(client->talk);
    aw_rpc_client_close(client->client);
    aw_alloc_free(NULL, client);
}

static enum aw_err take_state(const Aware__V1__StateRequest *state,
                              struct aw_agent_client_event *event, struct aw_diag *diag)
{
    if (state->n_observation > AW_STATE_DIM_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "%zu observations; at most %u", state->n_observation,
                       (unsigned)AW_STATE_DIM_MAX);
    if (state->n_fallback_action == 0 || state->n_fallback_action > AW_ACTION_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "%zu actions; expected 1 to %u",
                       state->n_fallback_action, (unsigned)AW_ACTION_MAX);
    event->kind = AW_AGENT_CLIENT_STATE;
    event->id = state->id;
    event->obs_dim = (uint32_t)state->n_observation;
    if (state->n_observation)
        memcpy(event->obs, state->observation, state->n_observation * sizeof *event->obs);
    event->act_dim = (uint32_t)state->n_fallback_action;
    memcpy(event->fallback, state->fallback_action, event->act_dim * sizeof *event->fallback);
    if (state->n_global == AW_OTHERS_DIM) {
        event->others = (struct aw_others_view){
            .epoch = state->epoch,
            .members = state->members,
            .has_reward = state->team_case == AWARE__V1__STATE_REQUEST__TEAM_TEAM_REWARD,
            .team_reward = state->team_reward};
        memcpy(event->others.global, state->global, sizeof event->others.global);
    }
    event->has_last = state->before_case == AWARE__V1__STATE_REQUEST__BEFORE_REWARD &&
                      state->n_last_action == event->act_dim;
    if (event->has_last) {
        event->reward = state->reward;
        memcpy(event->last_action, state->last_action, event->act_dim * sizeof *event->last_action);
    }
    return AW_OK;
}

enum aw_err aw_agent_client_next(struct aw_agent_client *client, struct aw_agent_client_event *ret,
                                 struct aw_diag *diag)
{
    struct aw_agent_client_event event = {0};
    Aware__V1__DaemonMessage *message = NULL;
    enum aw_err err = receive(client, &message, diag);
    if (err)
        return err;
    switch (message->message_case) {
    case AWARE__V1__DAEMON_MESSAGE__MESSAGE_STATE:
        err = take_state(message->state, &event, diag);
        break;
    case AWARE__V1__DAEMON_MESSAGE__MESSAGE_OUTCOME:
        event.kind = AW_AGENT_CLIENT_OUTCOME;
        event.id = message->outcome->id;
        event.followed =
            message->outcome->verdict == AWARE__V1__OUTCOME__VERDICT__VERDICT_ACCEPTED ||
            message->outcome->verdict == AWARE__V1__OUTCOME__VERDICT__VERDICT_CLIPPED;
        snprintf(event.text, sizeof event.text, "%s", message->outcome->message);
        break;
    case AWARE__V1__DAEMON_MESSAGE__MESSAGE_STANDING:
        event.kind = AW_AGENT_CLIENT_STANDING;
        event.followed = message->standing->state == AWARE__V1__STANDING__STATE__STATE_ACTING;
        snprintf(event.text, sizeof event.text, "%s", message->standing->message);
        break;
    case AWARE__V1__DAEMON_MESSAGE__MESSAGE_REPLACED:
        err = aw_fail(diag, AW_ERR_CONFLICT, "%s", message->replaced->message);
        break;
    case AWARE__V1__DAEMON_MESSAGE__MESSAGE_REFUSED:
        err = refused(message->refused, diag);
        break;
    default:
        err = aw_fail(diag, AW_ERR_FORMAT, "the daemon sent what is not known here");
        break;
    }
    aware__v1__daemon_message__free_unpacked(message, NULL);
    if (!err)
        *ret = event;
    return err;
}

enum aw_err aw_agent_client_answer(struct aw_agent_client *client, uint64_t id, const float *action,
                                   size_t count, const char *explanation, struct aw_diag *diag)
{
    Aware__V1__Action answer;
    Aware__V1__AgentMessage message;
    aware__v1__action__init(&answer);
    answer.id = id;
    answer.values = (float *)(uintptr_t)action;
    answer.n_values = count;
    if (explanation)
        answer.explanation = (char *)(uintptr_t)explanation;
    aware__v1__agent_message__init(&message);
    message.message_case = AWARE__V1__AGENT_MESSAGE__MESSAGE_ACTION;
    message.action = &answer;
    return send_message(client, &message, diag);
}
