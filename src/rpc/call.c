/* call.c - see call.h. */
#include "rpc/call.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rpc/server_internal.h"

#define BEARER "Bearer "

static void tag_init(struct aw_rpc_stream *call, struct aw__tag *tag, enum aw__call_tag kind)
{
    tag->owner = call;
    tag->kind = kind;
}

/* ---- the end ---- */

static bool queue_push(struct aw_rpc_stream *call, grpc_byte_buffer *message)
{
    const size_t size = grpc_byte_buffer_length(message);
    if (call->queue_count == AW_RPC_QUEUE ||
        (call->queue_count && call->queue_bytes + size > AW_RPC_QUEUE_BYTES))
        return false;
    call->queue[(call->queue_head + call->queue_count++) % AW_RPC_QUEUE] = message;
    call->queue_bytes += size;
    return true;
}

/* The oldest; NULL: none. */
static grpc_byte_buffer *queue_pop(struct aw_rpc_stream *call)
{
    if (!call->queue_count)
        return NULL;
    grpc_byte_buffer *message = call->queue[call->queue_head];
    call->queue_head = (call->queue_head + 1) % AW_RPC_QUEUE;
    call->queue_count--;
    call->queue_bytes -= grpc_byte_buffer_length(message);
    return message;
}

static void end_mark(struct aw_rpc_stream *call, enum aw_rpc_status status, const char *text)
{
    if (call->ending)
        return;
    call->ending = true;
    call->ending_us = aw_clock_monotonic_us(NULL);
    call->status = status;
    snprintf(call->text, sizeof call->text, "%s", text ? text : "");
}

static void call_free(struct aw_rpc_stream *call)
{
    struct aw_rpc_server *server = call->server;
    pthread_mutex_lock(&call->lock);
    call->gone = true;
    pthread_mutex_unlock(&call->lock);
    if (call->opened)
        call->method->close(call->self);
    if (call->admitted)
        aw__server_leave(server, call);
    for (grpc_byte_buffer *left = queue_pop(call); left; left = queue_pop(call))
        grpc_byte_buffer_destroy(left);
    grpc_byte_buffer_destroy(call->incoming);
    grpc_byte_buffer_destroy(call->answer);
    grpc_byte_buffer_destroy(call->sending);
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    if (call->call)
        grpc_call_unref(call->call);
    pthread_mutex_destroy(&call->lock);
    aw_alloc_free(NULL, call);
    pthread_mutex_lock(&server->lock);
    server->made--;
    if (!server->made)
        pthread_cond_broadcast(&server->empty);
    pthread_mutex_unlock(&server->lock);
}

/* One tag of it came back, and is dealt with. */
static void settle(struct aw_rpc_stream *call)
{
    pthread_mutex_lock(&call->lock);
    const bool last = --call->pending == 0;
    if (last) /* and only then: a worker that has the next message may be looking at it */
        call->over = true;
    pthread_mutex_unlock(&call->lock);
    if (last && call->opened)
        aw__server_job(call->server, call); /* to close a service's own things may take long */
    else if (last)
        call_free(call);
}

void aw__call_expect(struct aw_rpc_server *server)
{
    struct aw_rpc_stream *call = aw_alloc_new(NULL, 1, sizeof *call);
    if (!call)
        return; /* tried again at the next tick */
    call->server = server;
    call->pending = 1;
    tag_init(call, &call->begun, AW__CALL_BEGUN);
    tag_init(call, &call->received, AW__CALL_RECEIVED);
    tag_init(call, &call->sent, AW__CALL_SENT);
    tag_init(call, &call->ended, AW__CALL_ENDED);
    tag_init(call, &call->done, AW__CALL_DONE);
    pthread_mutex_init(&call->lock, NULL);
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    pthread_mutex_lock(&server->lock);
    const bool stopping = atomic_load(&server->stopping);
    server->made++;
    pthread_mutex_unlock(&server->lock);
    if (stopping) {
        call_free(call);
        return;
    }
    server->expecting = true;
    aw__tag_hand(&call->begun);
    grpc_call_error error =
        grpc_server_request_call(server->grpc, &call->call, &call->details, &call->metadata,
                                 server->queue, server->queue, &call->begun);
    AW_ASSERT(error == GRPC_CALL_OK);
}

/* Starts a batch with the call's lock held. One that the library does not take ends the call. */
static void batch(struct aw_rpc_stream *call, const grpc_op *ops, size_t count, struct aw__tag *tag)
{
    aw__tag_hand(tag);
    call->pending++;
    if (grpc_call_start_batch(call->call, ops, count, tag, NULL) != GRPC_CALL_OK) {
        call->pending--;
        call->gone = true;
        grpc_call_cancel(call->call, NULL);
    }
}

void aw__call_cancel(struct aw_rpc_stream *call, enum aw_rpc_status status, const char *text)
{
    grpc_call_cancel_with_status(call->call, (grpc_status_code)status, text, NULL);
}

/* ---- what goes out ---- */

/* With the call's lock held: the next message, or after the last one the status. */
static void flush(struct aw_rpc_stream *call)
{
    if (call->gone || call->sending || call->finishing)
        return;
    if ((call->sending = queue_pop(call))) {
        grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
        op.data.send_message.send_message = call->sending;
        batch(call, &op, 1, &call->sent);
    } else if (call->ending) {
        grpc_slice text = grpc_slice_from_copied_string(call->text);
        grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
        op.data.send_status_from_server.status = (grpc_status_code)call->status;
        op.data.send_status_from_server.status_details = &text;
        call->finishing = true;
        batch(call, &op, 1, &call->done);
        grpc_slice_unref(text);
    }
}

enum aw_err aw_rpc_stream_send(struct aw_rpc_stream *stream, const uint8_t *bytes, size_t size)
{
    AW_ASSERT(stream->method->kind == AW_RPC_DUPLEX);
    if (size > AW_RPC_MESSAGE_BYTES_MAX)
        return AW_ERR_LIMIT;
    enum aw_err err = AW_OK;
    pthread_mutex_lock(&stream->lock);
    if (stream->gone || stream->ending) {
        err = AW_ERR_UNAVAILABLE;
    } else {
        grpc_byte_buffer *message = aw__message_copy(bytes, size);
        if (!queue_push(stream, message)) {
            grpc_byte_buffer_destroy(message);
            err = AW_ERR_LIMIT;
        } else if (stream->opened) {
            flush(stream);
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return err;
}

void aw_rpc_stream_end(struct aw_rpc_stream *stream, enum aw_rpc_status status, const char *text)
{
    AW_ASSERT(stream->method->kind == AW_RPC_DUPLEX);
    pthread_mutex_lock(&stream->lock);
    end_mark(stream, status, text);
    if (stream->opened)
        flush(stream);
    pthread_mutex_unlock(&stream->lock);
}

const char *aw_rpc_stream_peer(const struct aw_rpc_stream *stream)
{
    return stream->peer;
}

/* The whole answer of a call that has sent nothing yet: message, if any, and status. */
static void answer_all(struct aw_rpc_stream *call, struct aw_rpc_reply *reply)
{
    grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
                      {.op = GRPC_OP_RECV_CLOSE_ON_SERVER},
                      {.op = GRPC_OP_SEND_MESSAGE}};
    size_t count = 3;
    grpc_slice text = grpc_slice_from_copied_string(reply->text);
    ops[1].data.send_status_from_server.status = (grpc_status_code)reply->status;
    ops[1].data.send_status_from_server.status_details = &text;
    ops[2].data.recv_close_on_server.cancelled = &call->cancelled;
    if (reply->filled && reply->status == AW_RPC_OK) {
        grpc_slice slice = aw__reply_slice(reply);
        call->answer = grpc_raw_byte_buffer_create(&slice, 1);
        ops[3].data.send_message.send_message = call->answer;
        count = 4;
    }
    aw__reply_drop(reply);
    pthread_mutex_lock(&call->lock);
    call->finishing = true;
    batch(call, ops, count, &call->done);
    pthread_mutex_unlock(&call->lock);
    grpc_slice_unref(text);
}

static void refuse(struct aw_rpc_stream *call, enum aw_rpc_status status, const char *text)
{
    struct aw_rpc_reply reply = {.status = status};
    snprintf(reply.text, sizeof reply.text, "%s", text);
    atomic_fetch_add(&call->server->refused, 1);
    answer_all(call, &reply);
}

/* ---- how it begins ---- */

static bool token_known(const struct aw_rpc_stream *call)
{
    const char *token = call->server->token;
    const size_t len = strlen(token), prefix = strlen(BEARER);
    bool known = !*token;
    for (size_t i = 0; i < call->metadata.count && !known; i++) {
        const grpc_slice value = call->metadata.metadata[i].value;
        const uint8_t *bytes = GRPC_SLICE_START_PTR(value);
        if (grpc_slice_str_cmp(call->metadata.metadata[i].key, "authorization") != 0)
            continue;
        known = GRPC_SLICE_LENGTH(value) == prefix + len && !memcmp(bytes, BEARER, prefix) &&
                !CRYPTO_memcmp(bytes + prefix, token, len);
    }
    return known;
}

static void method_find(struct aw_rpc_stream *call)
{
    const struct aw_rpc_server *server = call->server;
    for (uint32_t i = 0; i < server->service_count; i++)
        for (const struct aw_rpc_method *m = server->services[i]->methods; m->path; m++)
            if (grpc_slice_str_cmp(call->details.method, m->path) == 0) {
                call->service = server->services[i];
                call->method = m;
                return;
            }
}

static void receive_first(struct aw_rpc_stream *call)
{
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    grpc_op ops[2] = {{.op = GRPC_OP_RECV_MESSAGE}, {.op = GRPC_OP_SEND_INITIAL_METADATA}};
    ops[0].data.recv_message.recv_message = &call->incoming;
    close.data.recv_close_on_server.cancelled = &call->cancelled;
    pthread_mutex_lock(&call->lock);
    call->opened = call->method->kind != AW_RPC_UNARY;
    if (call->opened)
        batch(call, &close, 1, &call->ended);
    batch(call, ops, call->method->kind == AW_RPC_UNARY ? 1 : 2, &call->received);
    if (call->method->kind == AW_RPC_DUPLEX)
        flush(call); /* what open has sent */
    pthread_mutex_unlock(&call->lock);
}

static void begun(struct aw_rpc_stream *call)
{
    struct aw_rpc_server *server = call->server;
    struct aw_rpc_reply reply = {0};
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    char *peer = grpc_call_get_peer(call->call);
    snprintf(call->peer, sizeof call->peer, "%s", peer ? peer : "");
    gpr_free(peer);
    atomic_fetch_add(&server->calls, 1);
    atomic_store(&call->heard_us, now_us);
    method_find(call);
    if (!token_known(call) && !(call->method && call->method->anyone)) {
        refuse(call, AW_RPC_UNAUTHENTICATED,
               "expected the metadata \"authorization: Bearer TOKEN\" with this server's token");
    } else if (!call->method) {
        refuse(call, AW_RPC_UNIMPLEMENTED, "this server has no such method");
    } else if (!aw__server_rate_allows(server, now_us)) {
        refuse(call, AW_RPC_RESOURCE_EXHAUSTED, "too many calls in one second; use a stream");
    } else if (!(call->admitted = aw__server_enter(server, call))) {
        refuse(call, AW_RPC_RESOURCE_EXHAUSTED, "too many calls at once; try again later");
    } else if (call->method->kind == AW_RPC_UNARY) {
        receive_first(call);
    } else {
        call->method->open(call->service->ctx, call, &call->self, &reply);
        if (reply.status != AW_RPC_OK) {
            answer_all(call, &reply);
            return;
        }
        AW_ASSERT(!reply.filled);
        receive_first(call);
    }
}

/* ---- what comes in ---- */

static void lockstep_answer(struct aw_rpc_stream *call, struct aw_rpc_reply *reply)
{
    grpc_slice slice = aw__reply_slice(reply);
    grpc_byte_buffer_destroy(call->answer);
    call->answer = grpc_raw_byte_buffer_create(&slice, 1);
    aw__reply_drop(reply);
    /* One batch, and one wake-up, for the answer and the next question. */
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_MESSAGE}, {.op = GRPC_OP_RECV_MESSAGE}};
    ops[0].data.send_message.send_message = call->answer;
    ops[1].data.recv_message.recv_message = &call->incoming;
    pthread_mutex_lock(&call->lock);
    batch(call, ops, 2, &call->received);
    pthread_mutex_unlock(&call->lock);
}

/* What a handler of a stream answered. */
static void stream_answer(struct aw_rpc_stream *call, struct aw_rpc_reply *reply, bool more)
{
    const bool ends = reply->end || reply->status != AW_RPC_OK;
    if (call->method->kind == AW_RPC_LOCKSTEP && more && !ends && reply->filled) {
        lockstep_answer(call, reply);
        return;
    }
    pthread_mutex_lock(&call->lock);
    bool fits = true;
    if (reply->filled && !call->ending) {
        grpc_slice slice = aw__reply_slice(reply);
        grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
        if (!(fits = queue_push(call, message)))
            grpc_byte_buffer_destroy(message);
    }
    if (!fits)
        end_mark(call, AW_RPC_RESOURCE_EXHAUSTED, "what was sent is not read");
    if (ends)
        end_mark(call, reply->status, reply->text);
    flush(call);
    if (more && !call->gone && !call->ending) {
        grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
        op.data.recv_message.recv_message = &call->incoming;
        batch(call, &op, 1, &call->received);
    }
    pthread_mutex_unlock(&call->lock);
    aw__reply_drop(reply);
}

/* Asks the service about `call->message` and answers. False: it is a worker's now. */
static bool handle(struct aw_rpc_stream *call, bool can_defer)
{
    struct aw_rpc_reply reply = {
        .can_defer = can_defer,
        .alone = atomic_load_explicit(&call->server->live, memory_order_relaxed) == 1,
    };
    const struct aw_rpc_method *method = call->method;
    const uint8_t *bytes = GRPC_SLICE_START_PTR(call->message);
    const size_t size = GRPC_SLICE_LENGTH(call->message);
    if (method->kind == AW_RPC_UNARY)
        method->unary(call->service->ctx, bytes, size, &reply);
    else
        method->message(call->self, bytes, size, &reply);
    if (reply.deferred) {
        aw__server_job(call->server, call);
        return false;
    }
    grpc_slice_unref(call->message);
    if (method->kind == AW_RPC_UNARY)
        answer_all(call, &reply);
    else
        stream_answer(call, &reply, true);
    return true;
}

void aw__call_work(struct aw_rpc_stream *call)
{
    if (call->over) {
        call_free(call);
        return;
    }
    const bool done = handle(call, false);
    AW_ASSERT(done);
    settle(call);
}

static void unreadable(struct aw_rpc_stream *call)
{
    struct aw_rpc_reply reply = {0};
    aw_rpc_reply_fail(&reply, AW_RPC_INTERNAL, "the message cannot be read");
    if (call->method->kind == AW_RPC_UNARY)
        answer_all(call, &reply);
    else
        stream_answer(call, &reply, true);
}

/* False: it is a worker's now, with its tag. */
static bool received(struct aw_rpc_stream *call, bool ok)
{
    struct aw_rpc_reply reply = {0};
    const struct aw_rpc_method *method = call->method;
    grpc_byte_buffer *incoming = call->incoming;
    call->incoming = NULL;
    if (!ok || !incoming) {
        grpc_byte_buffer_destroy(incoming);
        atomic_store(&call->half_closed, true);
        if (method->kind == AW_RPC_UNARY) {
            refuse(call, AW_RPC_INVALID_ARGUMENT, "no request came, or it is too large");
        } else if (ok) {
            reply.end = true;
            if (method->half_closed) {
                reply.end = false;
                method->half_closed(call->self, &reply);
            }
            stream_answer(call, &reply, false);
        }
        return true;
    }
    atomic_fetch_add_explicit(&call->server->messages, 1, memory_order_relaxed);
    atomic_store_explicit(&call->heard_us, aw_clock_monotonic_us(NULL), memory_order_relaxed);
    atomic_store_explicit(&call->heard, true, memory_order_relaxed);
    const bool readable = aw__message_flatten(incoming, &call->message);
    grpc_byte_buffer_destroy(incoming);
    if (readable)
        return handle(call, true);
    unreadable(call);
    return true;
}

void aw__call_event(struct aw__tag *tag, bool ok)
{
    struct aw_rpc_stream *call = tag->owner;
    aw__tag_take(tag);
    switch ((enum aw__call_tag)tag->kind) {
    case AW__CALL_BEGUN:
        call->server->expecting = false;
        if (ok) {
            if (!atomic_load(&call->server->stopping))
                aw__call_expect(call->server);
            begun(call);
        }
        break;
    case AW__CALL_RECEIVED:
        if (!received(call, ok))
            return;
        break;
    case AW__CALL_SENT:
        pthread_mutex_lock(&call->lock);
        grpc_byte_buffer_destroy(call->sending);
        call->sending = NULL;
        if (!ok)
            call->gone = true;
        flush(call);
        pthread_mutex_unlock(&call->lock);
        break;
    case AW__CALL_ENDED:
        pthread_mutex_lock(&call->lock);
        call->gone = true;
        pthread_mutex_unlock(&call->lock);
        break;
    case AW__CALL_DONE:
        break;
    }
    settle(call);
}
