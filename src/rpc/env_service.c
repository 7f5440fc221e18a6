/* env_service.c - see env_service.h: sessions of single calls, and those of streams. */
#include "rpc/env_service.h"

#include <aware/v1/environment.pb-c.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rpc/env_internal.h"

/* A step that took longer than this is done by a worker the next time. To hand it over costs some
 * tens of microseconds, on a busy machine far more, which must not be much of it; and where nobody
 * else is there, all that it could hold up is somebody who comes. */
#define LONG_US       200
#define LONG_ALONE_US 20000

/* ---- the places of sessions ---- */

static enum aw_err place_take(struct aw_env_service *service, uint32_t count, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    pthread_mutex_lock(&service->lock);
    if (service->sessions == AW_ENV_SERVICE_SESSIONS)
        err = aw_fail(diag, AW_ERR_LIMIT, "%u sessions are open already; close one",
                      AW_ENV_SERVICE_SESSIONS);
    else if (count > AW_ENV_SERVICE_COPIES - service->copies)
        err = aw_fail(diag, AW_ERR_LIMIT, "%u environments are made already, of at most %u",
                      service->copies, AW_ENV_SERVICE_COPIES);
    if (!err) {
        service->sessions++;
        service->copies += count;
    }
    pthread_mutex_unlock(&service->lock);
    return err;
}

static void place_give(struct aw_env_service *service, uint32_t count)
{
    pthread_mutex_lock(&service->lock);
    service->sessions--;
    service->copies -= count;
    pthread_mutex_unlock(&service->lock);
}

static enum aw_err session_make(struct aw_env_service *service,
                                const Aware__V1__InitRequest *request, struct aw__session *session,
                                struct aw_diag *diag)
{
    const uint32_t count = request->count ? request->count : 1;
    struct aw__pairs *pairs = NULL;
    enum aw_err err = aw__service_has(service, request->name, diag);
    if (err || (err = place_take(service, count, diag)))
        return err;
    if (!(pairs = aw_alloc_new(NULL, 1, sizeof *pairs)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for options");
    for (size_t i = 0; !err && i < request->n_options; i++)
        err = aw__pairs_add(pairs, request->options[i]->key, request->options[i]->value, diag);
    if (!err)
        err = aw__session_open(session, request->name, pairs->pair, pairs->count, count,
                               AW_RPC_MESSAGE_BYTES_MAX, NULL, diag);
    if (err)
        place_give(service, count);
    aw_alloc_free(NULL, pairs);
    return err;
}

static void session_end(struct aw_env_service *service, struct aw__session *session)
{
    const uint32_t count = session->count;
    aw__session_close(session);
    place_give(service, count);
}

/* ---- messages ---- */

static void init_response(const struct aw__session *session, Aware__V1__InitResponse *response)
{
    aware__v1__init_response__init(response);
    response->count = session->count;
    response->observation_dim = session->spec->observation.dim;
    response->action_dim = session->spec->action.dim;
}

static enum aw_err reset(struct aw__session *session, const Aware__V1__ResetRequest *request,
                         Aware__V1__ResetResponse *response, struct aw_diag *diag)
{
    const struct aw__session_reset how = {
        .seed = request->seed,
        .exact = request->exact,
        .manual = request->autoreset == AWARE__V1__AUTORESET__AUTORESET_MANUAL,
        .next_step = request->autoreset == AWARE__V1__AUTORESET__AUTORESET_NEXT_STEP,
        .only = request->n_only ? request->only : NULL,
        .only_count = request->n_only,
    };
    if (!how.manual && !how.next_step &&
        request->autoreset != AWARE__V1__AUTORESET__AUTORESET_SAME_STEP)
        return aw_fail(diag, AW_ERR_FORMAT, "no such kind of autoreset: %d",
                       (int)request->autoreset);
    enum aw_err err = aw__session_reset(session, &how, diag);
    if (err)
        return err;
    const size_t dim = session->spec->observation.dim;
    aware__v1__reset_response__init(response);
    response->observation = session->obs;
    response->n_observation = session->count * dim;
    if (how.only) {
        for (size_t i = 0; i < how.only_count; i++)
            memcpy(session->final_obs + i * dim, session->obs + how.only[i] * dim,
                   dim * sizeof(float));
        response->observation = session->final_obs;
        response->n_observation = how.only_count * dim;
    }
    return AW_OK;
}

static enum aw_err step(struct aw_env_service *service, struct aw__session *session,
                        const Aware__V1__StepRequest *request, Aware__V1__StepResponse *response,
                        struct aw_diag *diag)
{
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = aw__session_step(session, request->action, request->n_action, diag);
    session->step_us = aw_clock_monotonic_us(NULL) - begin_us;
    if (err)
        return err;
    const size_t dim = session->spec->observation.dim;
    atomic_fetch_add_explicit(&service->steps, session->count, memory_order_relaxed);
    aware__v1__step_response__init(response);
    response->observation = session->obs;
    response->n_observation = session->count * dim;
    response->reward = session->reward;
    response->n_reward = session->count;
    response->terminated = session->terminated;
    response->n_terminated = session->terminated_count;
    response->truncated = session->truncated;
    response->n_truncated = session->truncated_count;
    response->final_observation = session->final_obs;
    response->n_final_observation = session->final_count * dim;
    return AW_OK;
}

static bool takes_long(const struct aw__session *session, const struct aw_rpc_reply *reply)
{
    return session->step_us > (reply->alone ? LONG_ALONE_US : LONG_US);
}

/* ---- single calls ---- */

static void slot_free(struct aw_env_service *service, struct aw__slot *slot)
{
    session_end(service, &slot->session);
    pthread_mutex_destroy(&slot->lock);
    pthread_mutex_lock(&service->lock);
    *slot = (struct aw__slot){.taken = false};
    pthread_mutex_unlock(&service->lock);
}

static void slot_leave(struct aw_env_service *service, struct aw__slot *slot, bool locked)
{
    if (locked)
        pthread_mutex_unlock(&slot->lock);
    pthread_mutex_lock(&service->lock);
    slot->used_us = aw_clock_monotonic_us(NULL);
    const bool last = --slot->users == 0 && slot->doomed;
    pthread_mutex_unlock(&service->lock);
    if (last)
        slot_free(service, slot);
}

/* The session, locked. NULL: there is none, and the reply says so; or it is put off, because
 * somebody else is in it, or because it takes long. */
static struct aw__slot *slot_enter(struct aw_env_service *service, const char *id,
                                   struct aw_rpc_reply *reply)
{
    struct aw__slot *found = NULL;
    pthread_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < AW_ENV_SERVICE_SESSIONS && !found; i++) {
        struct aw__slot *slot = &service->slot[i];
        if (slot->taken && !slot->doomed && *slot->id && !strcmp(slot->id, id))
            found = slot;
    }
    if (found)
        found->users++;
    pthread_mutex_unlock(&service->lock);
    if (!found) {
        aw_rpc_reply_fail(reply, AW_RPC_NOT_FOUND,
                          "no such session: it was closed, or not used for %d s",
                          AW_ENV_SERVICE_IDLE_US / 1000000);
        return NULL;
    }
    const bool locked = pthread_mutex_trylock(&found->lock) == 0;
    if ((!locked || takes_long(&found->session, reply)) && aw_rpc_reply_defer(reply)) {
        slot_leave(service, found, locked);
        return NULL;
    }
    if (!locked)
        pthread_mutex_lock(&found->lock);
    return found;
}

static enum aw_err slot_new(struct aw_env_service *service, struct aw__session *session,
                            char ret_id[static AW__SESSION_ID_MAX], struct aw_diag *diag)
{
    unsigned char random[AW__SESSION_ID_MAX / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return aw_fail(diag, AW_ERR_IO, "the system gives no random numbers");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(ret_id + 2 * i, 3, "%02x", random[i]);
    pthread_mutex_lock(&service->lock);
    struct aw__slot *slot = service->slot;
    while (slot->taken) /* as many as sessions may be: one is free */
        slot++;
    *slot = (struct aw__slot){
        .taken = true, .session = *session, .used_us = aw_clock_monotonic_us(NULL)};
    pthread_mutex_init(&slot->lock, NULL);
    memcpy(slot->id, ret_id, AW__SESSION_ID_MAX);
    pthread_mutex_unlock(&service->lock);
    return AW_OK;
}

static void not_readable(struct aw_rpc_reply *reply, const char *what)
{
    aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "the bytes are not a %s", what);
}

static void env_init(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw_env_service *service = ctx;
    struct aw__session session;
    struct aw_diag diag = {0};
    char id[AW__SESSION_ID_MAX];
    Aware__V1__InitResponse response;
    if (aw_rpc_reply_defer(reply))
        return;
    Aware__V1__InitRequest *request = aware__v1__init_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "InitRequest");
        return;
    }
    enum aw_err err = session_make(service, request, &session, &diag);
    if (!err) {
        init_response(&session, &response);
        if ((err = slot_new(service, &session, id, &diag)))
            session_end(service, &session);
    }
    if (err) {
        aw_rpc_reply_err(reply, err, &diag);
    } else {
        response.session = id;
        uint8_t *room =
            aw_rpc_reply_room(reply, aware__v1__init_response__get_packed_size(&response));
        if (room)
            aware__v1__init_response__pack(&response, room);
    }
    aware__v1__init_request__free_unpacked(request, NULL);
}

static void env_reset(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw_env_service *service = ctx;
    struct aw_diag diag = {0};
    Aware__V1__ResetResponse response;
    if (aw_rpc_reply_defer(reply))
        return;
    Aware__V1__ResetRequest *request = aware__v1__reset_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "ResetRequest");
        return;
    }
    struct aw__slot *slot = slot_enter(service, request->session, reply);
    if (slot) {
        const enum aw_err err = reset(&slot->session, request, &response, &diag);
        if (err) {
            aw_rpc_reply_err(reply, err, &diag);
        } else {
            uint8_t *room =
                aw_rpc_reply_room(reply, aware__v1__reset_response__get_packed_size(&response));
            if (room)
                aware__v1__reset_response__pack(&response, room);
        }
        slot_leave(service, slot, true);
    }
    aware__v1__reset_request__free_unpacked(request, NULL);
}

static void env_step(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw_env_service *service = ctx;
    struct aw_diag diag = {0};
    Aware__V1__StepResponse response;
    Aware__V1__StepRequest *request = aware__v1__step_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "StepRequest");
        return;
    }
    struct aw__slot *slot = slot_enter(service, request->session, reply);
    if (slot) {
        const enum aw_err err = step(service, &slot->session, request, &response, &diag);
        if (err) {
            aw_rpc_reply_err(reply, err, &diag);
        } else {
            uint8_t *room =
                aw_rpc_reply_room(reply, aware__v1__step_response__get_packed_size(&response));
            if (room)
                aware__v1__step_response__pack(&response, room);
        }
        slot_leave(service, slot, true);
    }
    aware__v1__step_request__free_unpacked(request, NULL);
}

static void slot_doom(struct aw_env_service *service, struct aw__slot *slot)
{
    pthread_mutex_lock(&service->lock);
    slot->doomed = true;
    pthread_mutex_unlock(&service->lock);
}

static void env_close(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw_env_service *service = ctx;
    struct aw_rpc_reply none = {0}; /* closing what is not there is no error */
    if (aw_rpc_reply_defer(reply))
        return;
    Aware__V1__CloseRequest *request = aware__v1__close_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "CloseRequest");
        return;
    }
    struct aw__slot *slot = slot_enter(service, request->session, &none);
    if (slot) {
        slot_doom(service, slot);
        slot_leave(service, slot, true);
    }
    const Aware__V1__CloseResponse response = AWARE__V1__CLOSE_RESPONSE__INIT;
    uint8_t *room = aw_rpc_reply_room(reply, aware__v1__close_response__get_packed_size(&response));
    if (room)
        aware__v1__close_response__pack(&response, room);
    aware__v1__close_request__free_unpacked(request, NULL);
}

static void tick(void *ctx, int64_t monotonic_us)
{
    struct aw_env_service *service = ctx;
    for (uint32_t i = 0; i < AW_ENV_SERVICE_SESSIONS; i++) {
        struct aw__slot *slot = &service->slot[i];
        pthread_mutex_lock(&service->lock);
        const bool idle = slot->taken && !slot->users && !slot->doomed &&
                          monotonic_us - slot->used_us > AW_ENV_SERVICE_IDLE_US;
        if (idle)
            slot->doomed = true;
        pthread_mutex_unlock(&service->lock);
        if (idle)
            slot_free(service, slot);
    }
}

/* ---- streams ---- */

struct stream {
    struct aw_env_service *service;
    struct aw__session session;
    bool made;
};

static void stream_open(void *ctx, struct aw_rpc_stream *call, void **ret_self,
                        struct aw_rpc_reply *reply)
{
    (void)call;
    struct stream *stream = aw_alloc_new(NULL, 1, sizeof *stream);
    if (stream)
        stream->service = ctx;
    else
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "no memory for a stream");
    *ret_self = stream;
}

static void stream_close(void *self)
{
    struct stream *stream = self;
    if (stream->made)
        session_end(stream->service, &stream->session);
    aw_alloc_free(NULL, stream);
}

static enum aw_err stream_handle(struct stream *stream, const Aware__V1__StreamRequest *request,
                                 Aware__V1__StreamResponse *response,
                                 Aware__V1__InitResponse *init_room,
                                 Aware__V1__ResetResponse *reset_room,
                                 Aware__V1__StepResponse *step_room, struct aw_diag *diag)
{
    enum aw_err err;
    if (stream->made != (request->request_case != AWARE__V1__STREAM_REQUEST__REQUEST_INIT))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       stream->made ? "a stream has one init" : "a stream begins with init");
    switch (request->request_case) {
    case AWARE__V1__STREAM_REQUEST__REQUEST_INIT:
        if ((err = session_make(stream->service, request->init, &stream->session, diag)))
            return err;
        stream->made = true;
        init_response(&stream->session, init_room);
        response->response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_INIT;
        response->init = init_room;
        return AW_OK;
    case AWARE__V1__STREAM_REQUEST__REQUEST_RESET:
        if ((err = reset(&stream->session, request->reset, reset_room, diag)))
            return err;
        response->response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_RESET;
        response->reset = reset_room;
        return AW_OK;
    case AWARE__V1__STREAM_REQUEST__REQUEST_STEP:
        if ((err = step(stream->service, &stream->session, request->step, step_room, diag)))
            return err;
        response->response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_STEP;
        response->step = step_room;
        return AW_OK;
    default:
        return aw_fail(diag, AW_ERR_FORMAT, "a request that asks nothing known here");
    }
}

static void stream_message(void *self, const uint8_t *bytes, size_t size,
                           struct aw_rpc_reply *reply)
{
    Aware__V1__InitResponse init_room;
    Aware__V1__ResetResponse reset_room;
    Aware__V1__StepResponse step_room;
    Aware__V1__StreamResponse response;
    Aware__V1__Error error;
    struct aw_diag diag = {0};
    char line[AW_RPC_TEXT_MAX];
    const struct stream *stream = self;
    if (stream->made && takes_long(&stream->session, reply) && aw_rpc_reply_defer(reply))
        return;
    Aware__V1__StreamRequest *request = aware__v1__stream_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "StreamRequest");
        return;
    }
    if (request->request_case != AWARE__V1__STREAM_REQUEST__REQUEST_STEP &&
        aw_rpc_reply_defer(reply)) {
        aware__v1__stream_request__free_unpacked(request, NULL);
        return;
    }
    aware__v1__stream_response__init(&response);
    response.id = request->id;
    const enum aw_err err =
        stream_handle(self, request, &response, &init_room, &reset_room, &step_room, &diag);
    if (err) {
        aware__v1__error__init(&error);
        aw_diag_format(&diag, err, line, sizeof line);
        error.code = aw_rpc_status_of(err);
        error.message = line;
        response.response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_ERROR;
        response.error = &error;
    }
    uint8_t *room =
        aw_rpc_reply_room(reply, aware__v1__stream_response__get_packed_size(&response));
    if (room)
        aware__v1__stream_response__pack(&response, room);
    aware__v1__stream_request__free_unpacked(request, NULL);
}

/* ---- the service ---- */

#define PATH(method) "/aware.v1.Environment/" method

static const struct aw_rpc_method methods[] = {
    {.path = PATH("Stream"),
     .kind = AW_RPC_LOCKSTEP,
     .open = stream_open,
     .message = stream_message,
     .close = stream_close},
    {.path = PATH("Step"), .kind = AW_RPC_UNARY, .unary = env_step},
    {.path = PATH("Reset"), .kind = AW_RPC_UNARY, .unary = env_reset},
    {.path = PATH("Init"), .kind = AW_RPC_UNARY, .unary = env_init},
    {.path = PATH("Close"), .kind = AW_RPC_UNARY, .unary = env_close},
    {.path = PATH("List"), .kind = AW_RPC_UNARY, .unary = aw__env_list},
    {.path = PATH("Describe"), .kind = AW_RPC_UNARY, .unary = aw__env_describe},
    {.path = NULL},
};

enum aw_err aw_env_service_new(struct aw_env_service **ret, const char *only, struct aw_diag *diag)
{
    const struct aw_env_factory *factory;
    if (only) {
        enum aw_err err = aw_env_find(only, &factory, diag);
        if (err)
            return err;
    }
    struct aw_env_service *service = aw_alloc_new(NULL, 1, sizeof *service);
    if (!service)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the service of environments");
    pthread_mutex_init(&service->lock, NULL);
    snprintf(service->only, sizeof service->only, "%s", only ? only : "");
    service->service = (struct aw_rpc_service){
        .name = "aware.v1.Environment", .methods = methods, .ctx = service, .tick = tick};
    *ret = service;
    return AW_OK;
}

void aw_env_service_free(struct aw_env_service *service)
{
    if (!service)
        return;
    for (uint32_t i = 0; i < AW_ENV_SERVICE_SESSIONS; i++)
        if (service->slot[i].taken)
            slot_free(service, &service->slot[i]);
    pthread_mutex_destroy(&service->lock);
    aw_alloc_free(NULL, service);
}

const struct aw_rpc_service *aw_env_service_service(struct aw_env_service *service)
{
    return &service->service;
}

void aw_env_service_stats(struct aw_env_service *service, struct aw_env_service_stats *ret)
{
    pthread_mutex_lock(&service->lock);
    *ret = (struct aw_env_service_stats){.sessions = service->sessions,
                                         .copies = service->copies,
                                         .steps = atomic_load(&service->steps)};
    pthread_mutex_unlock(&service->lock);
}
