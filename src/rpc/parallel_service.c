/* parallel_service.c - see parallel_service.h. */
#include "rpc/parallel_service.h"

#include <aware/parallel.h>
#include <aware/v1/parallel.pb-c.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rpc/env_internal.h"

#define LONG_US       200 /* a step that took longer is done by a worker the next time */
#define LONG_ALONE_US 20000
#define HEADERS_BYTES 128u /* of a message beyond its arrays */

struct aw_parallel_service {
    struct aw_rpc_service service;
    _Atomic uint32_t streams;
};

/* ---- what there is ---- */

static void not_readable(struct aw_rpc_reply *reply, const char *what)
{
    aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "the bytes are not a %s", what);
}

static void list(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    enum { ENTRIES_MAX = 16 };
    (void)ctx;
    Aware__V1__ListResponse__Entry entry[ENTRIES_MAX], *pointer[ENTRIES_MAX];
    Aware__V1__ListResponse response = AWARE__V1__LIST_RESPONSE__INIT;
    Aware__V1__ListRequest *request = aware__v1__list_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "ListRequest");
        return;
    }
    aware__v1__list_request__free_unpacked(request, NULL);
    response.environments = pointer;
    for (const struct aw_parallel_factory *const *f = aw_parallel_builtin(); *f; f++) {
        const size_t at = response.n_environments;
        if (at == ENTRIES_MAX)
            break;
        aware__v1__list_response__entry__init(&entry[at]);
        entry[at].name = aw__text((*f)->spec->name);
        entry[at].summary = aw__text((*f)->spec->summary);
        pointer[response.n_environments++] = &entry[at];
    }
    uint8_t *room = aw_rpc_reply_room(reply, aware__v1__list_response__get_packed_size(&response));
    if (room)
        aware__v1__list_response__pack(&response, room);
}

static enum aw_err tell(const char *name, const struct aw_parallel_spec *spec,
                        struct aw_rpc_reply *reply, struct aw_diag *diag)
{
    const struct aw_parallel_factory *factory = NULL;
    const struct aw_space *const spaces[] = {&spec->observation, &spec->context, &spec->action};
    Aware__V1__ParallelDescription response;
    struct aw__page page = {0};
    enum aw_err err = aw_parallel_find(name, &factory, diag);
    if (err || (err = aw__page_make(&page, spaces, 3, factory->fields, diag)))
        return err;
    aware__v1__parallel_description__init(&response);
    response.name = aw__text(spec->name);
    response.summary = aw__text(spec->summary);
    response.observation = page.space[0];
    response.context = page.space[1];
    response.action = page.space[2];
    response.agents_max = spec->agents_max;
    response.episode_steps_max = spec->episode_steps_max;
    response.reward_low = spec->reward_low;
    response.reward_high = spec->reward_high;
    response.n_options = page.option_count;
    response.options = page.options;
    uint8_t *room =
        aw_rpc_reply_room(reply, aware__v1__parallel_description__get_packed_size(&response));
    if (room)
        aware__v1__parallel_description__pack(&response, room);
    aw__page_free(&page);
    return AW_OK;
}

static void describe(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    (void)ctx;
    struct aw_parallel env = {0};
    struct aw_diag diag = {0};
    struct aw__pairs *pairs = NULL;
    if (aw_rpc_reply_defer(reply))
        return; /* an environment is made to be described */
    Aware__V1__DescribeRequest *request = aware__v1__describe_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "DescribeRequest");
        return;
    }
    enum aw_err err = AW_OK;
    if (!(pairs = aw_alloc_new(NULL, 1, sizeof *pairs)))
        err = aw_fail(&diag, AW_ERR_NOMEM, "no memory for options");
    for (size_t i = 0; !err && i < request->n_options; i++)
        err = aw__pairs_add(pairs, request->options[i]->key, request->options[i]->value, &diag);
    if (!err)
        err = aw_parallel_make(request->name, pairs->pair, pairs->count, NULL, &env, &diag);
    if (!err)
        err = tell(request->name, env.spec, reply, &diag);
    if (err)
        aw_rpc_reply_err(reply, err, &diag);
    aw_parallel_free(&env);
    aw_alloc_free(NULL, pairs);
    aware__v1__describe_request__free_unpacked(request, NULL);
}

/* ---- streams ---- */

struct stream {
    struct aw_parallel_service *service;
    struct aw_parallel env;
    size_t agents, choices; /* rows of all arrays; of a discrete action */
    bool context;           /* is sent */
    bool begun;             /* reset, and it has not failed since */
    struct aw_parallel_rows rows, sent;
    float *action;
    int64_t step_us;
    void *block;
};

static void stream_open(void *ctx, struct aw_rpc_stream *call, void **ret_self,
                        struct aw_rpc_reply *reply)
{
    (void)call;
    struct aw_parallel_service *service = ctx;
    struct stream *stream = NULL;
    if (atomic_fetch_add(&service->streams, 1) >= AW_PARALLEL_SERVICE_STREAMS)
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "%u streams are open already",
                          AW_PARALLEL_SERVICE_STREAMS);
    else if (!(stream = aw_alloc_new(NULL, 1, sizeof *stream)))
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED, "no memory for a stream");
    if (stream)
        stream->service = service;
    else
        atomic_fetch_sub(&service->streams, 1);
    *ret_self = stream;
}

static void stream_close(void *self)
{
    struct stream *s = self;
    atomic_fetch_sub(&s->service->streams, 1);
    aw_parallel_free(&s->env);
    aw_alloc_free(NULL, s->block);
    aw_alloc_free(NULL, s);
}

static void carve_rows(struct stream *s, struct aw_parallel_rows *rows, struct aw_carve *block)
{
    const struct aw_parallel_spec *spec = s->env.spec;
    rows->flags = aw_carve_take(block, s->agents, 1);
    rows->obs = aw_carve_take(block, s->agents * spec->observation.dim, sizeof(float));
    rows->context = aw_carve_take(block, s->agents * spec->context.dim, sizeof(float));
    rows->allowed = aw_carve_take(block, s->agents * s->choices, 1);
    rows->reward = aw_carve_take(block, s->agents, sizeof(float));
}

static void carve(struct stream *s, struct aw_carve *block)
{
    carve_rows(s, &s->rows, block);
    carve_rows(s, &s->sent, block);
    s->action = aw_carve_take(block, s->agents * s->env.spec->action.dim, sizeof(float));
}

static size_t message_bytes(const struct stream *s)
{
    const struct aw_parallel_spec *spec = s->env.spec;
    const size_t floats = spec->observation.dim + 1 + (s->context ? spec->context.dim : 0);
    const size_t row = 1 + s->choices + floats * sizeof(float);
    const size_t action = spec->action.dim * sizeof(float);
    return s->agents * (row > action ? row : action) + HEADERS_BYTES;
}

static enum aw_err stream_init(struct stream *s, const Aware__V1__ParallelInit *request,
                               Aware__V1__ParallelInited *response, struct aw_diag *diag)
{
    struct aw_carve block = {0};
    struct aw__pairs *pairs = aw_alloc_new(NULL, 1, sizeof *pairs);
    enum aw_err err = pairs ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for options");
    for (size_t i = 0; !err && i < request->n_options; i++)
        err = aw__pairs_add(pairs, request->options[i]->key, request->options[i]->value, diag);
    if (!err)
        err = aw_parallel_make(request->name, pairs->pair, pairs->count, NULL, &s->env, diag);
    aw_alloc_free(NULL, pairs);
    if (err)
        return err;
    const struct aw_parallel_spec *spec = s->env.spec;
    s->agents = spec->agents_max;
    s->choices = spec->action.kind == AW_SPACE_DISCRETE ? spec->action.n : 0;
    s->context = request->context;
    if (message_bytes(s) > AW_RPC_MESSAGE_BYTES_MAX)
        err = aw_fail(diag, AW_ERR_LIMIT, "a step of %zu agents does not fit into %u bytes",
                      s->agents, AW_RPC_MESSAGE_BYTES_MAX);
    if (!err) {
        carve(s, &block);
        block = (struct aw_carve){.base = s->block = aw_alloc_new(NULL, block.used, 1)};
        if (!s->block)
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %zu agents", s->agents);
    }
    if (err) {
        aw_parallel_free(&s->env);
        return err;
    }
    carve(s, &block);
    aware__v1__parallel_inited__init(response);
    response->agents_max = spec->agents_max;
    response->observation_dim = spec->observation.dim;
    response->context_dim = spec->context.dim;
    response->action_dim = spec->action.dim;
    response->choices = (uint32_t)s->choices;
    return AW_OK;
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

/* Rows of those who are there, one behind the other, as a message. */
static enum aw_err put_rows(struct stream *s, Aware__V1__ParallelRows *response,
                            struct aw_diag *diag)
{
    const struct aw_parallel_spec *spec = s->env.spec;
    const size_t obs = spec->observation.dim, context = spec->context.dim;
    size_t at = 0;
    for (size_t i = 0; i < s->agents; i++) {
        if (!s->rows.flags[i])
            continue;
        memcpy(s->sent.obs + at * obs, s->rows.obs + i * obs, obs * sizeof(float));
        if (s->context)
            memcpy(s->sent.context + at * context, s->rows.context + i * context,
                   context * sizeof(float));
        memcpy(s->sent.allowed + at * s->choices, s->rows.allowed + i * s->choices, s->choices);
        s->sent.reward[at++] = s->rows.reward[i];
    }
    if (!all_finite(s->sent.obs, at * obs) || !all_finite(s->sent.reward, at) ||
        (s->context && !all_finite(s->sent.context, at * context))) {
        s->begun = false;
        return aw_fail(diag, AW_ERR_DIVERGED, "%s showed a number that is not finite", spec->name);
    }
    aware__v1__parallel_rows__init(response);
    response->flags = (ProtobufCBinaryData){s->agents, s->rows.flags};
    response->n_observation = at * obs;
    response->observation = s->sent.obs;
    response->n_reward = at;
    response->reward = s->sent.reward;
    response->allowed = (ProtobufCBinaryData){at * s->choices, s->sent.allowed};
    response->n_context = s->context ? at * context : 0;
    response->context = s->sent.context;
    return AW_OK;
}

static enum aw_err stream_reset(struct stream *s, const Aware__V1__ParallelReset *request,
                                Aware__V1__ParallelRows *response, struct aw_diag *diag)
{
    const enum aw_err err = s->env.ops->reset(s->env.self, request->seed, &s->rows);
    s->begun = !err;
    if (err)
        return aw_fail(diag, AW_ERR_DIVERGED, "%s failed to reset: %s", s->env.spec->name,
                       aw_err_text(err));
    return put_rows(s, response, diag);
}

static enum aw_err stream_step(struct stream *s, const Aware__V1__ParallelStep *request,
                               Aware__V1__ParallelRows *response, struct aw_diag *diag)
{
    const struct aw_space *space = &s->env.spec->action;
    size_t live = 0;
    for (size_t i = 0; s->begun && i < s->agents; i++)
        live += (s->rows.flags[i] & AW_PARALLEL_LIVE) != 0;
    if (!live)
        return aw_fail(diag, AW_ERR_CONFLICT,
                       s->begun ? "the episode has ended: nobody is live"
                                : "a step before a reset");
    if (request->n_action != live * space->dim)
        return aw_fail(diag, AW_ERR_FORMAT, "expected %zu times %u floats of action, found %zu",
                       live, space->dim, request->n_action);
    for (size_t i = 0, at = 0; i < s->agents; i++) {
        if (!(s->rows.flags[i] & AW_PARALLEL_LIVE))
            continue;
        const float *action = request->action + at++ * space->dim;
        if (!aw_space_accepts(space, action))
            return aw_fail(diag, AW_ERR_RANGE,
                           "the action of agent %zu (first element %g) is not one it takes", i,
                           (double)action[0]);
        memcpy(s->action + i * space->dim, action, space->dim * sizeof(float));
    }
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    const enum aw_err err = s->env.ops->step(s->env.self, s->action, &s->rows);
    s->step_us = aw_clock_monotonic_us(NULL) - begin_us;
    s->begun = !err;
    if (err)
        return aw_fail(diag, AW_ERR_DIVERGED, "%s failed to step: %s", s->env.spec->name,
                       aw_err_text(err));
    return put_rows(s, response, diag);
}

static enum aw_err handle(struct stream *s, const Aware__V1__ParallelRequest *request,
                          Aware__V1__ParallelResponse *response, Aware__V1__ParallelInited *inited,
                          Aware__V1__ParallelRows *rows, struct aw_diag *diag)
{
    const bool made = s->env.self;
    enum aw_err err;
    if (made == (request->request_case == AWARE__V1__PARALLEL_REQUEST__REQUEST_INIT))
        return aw_fail(diag, AW_ERR_CONFLICT,
                       made ? "a stream has one init" : "a stream begins with init");
    switch (request->request_case) {
    case AWARE__V1__PARALLEL_REQUEST__REQUEST_INIT:
        response->response_case = AWARE__V1__PARALLEL_RESPONSE__RESPONSE_INIT;
        response->init = inited;
        return stream_init(s, request->init, inited, diag);
    case AWARE__V1__PARALLEL_REQUEST__REQUEST_RESET:
        err = stream_reset(s, request->reset, rows, diag);
        break;
    case AWARE__V1__PARALLEL_REQUEST__REQUEST_STEP:
        err = stream_step(s, request->step, rows, diag);
        break;
    default:
        return aw_fail(diag, AW_ERR_FORMAT, "a request that asks nothing known here");
    }
    response->response_case = AWARE__V1__PARALLEL_RESPONSE__RESPONSE_ROWS;
    response->rows = rows;
    return err;
}

static void stream_message(void *self, const uint8_t *bytes, size_t size,
                           struct aw_rpc_reply *reply)
{
    struct stream *s = self;
    Aware__V1__ParallelInited inited;
    Aware__V1__ParallelRows rows;
    Aware__V1__ParallelResponse response;
    Aware__V1__Error error;
    struct aw_diag diag = {0};
    char line[AW_RPC_TEXT_MAX];
    const bool takes_long = s->step_us > (reply->alone ? LONG_ALONE_US : LONG_US);
    if ((!s->env.self || takes_long) && aw_rpc_reply_defer(reply))
        return;
    Aware__V1__ParallelRequest *request = aware__v1__parallel_request__unpack(NULL, size, bytes);
    if (!request) {
        not_readable(reply, "ParallelRequest");
        return;
    }
    aware__v1__parallel_response__init(&response);
    const enum aw_err err = handle(s, request, &response, &inited, &rows, &diag);
    if (err) {
        aware__v1__parallel_response__init(&response);
        aware__v1__error__init(&error);
        aw_diag_format(&diag, err, line, sizeof line);
        error.code = aw_rpc_status_of(err);
        error.message = line;
        response.response_case = AWARE__V1__PARALLEL_RESPONSE__RESPONSE_ERROR;
        response.error = &error;
    }
    response.id = request->id;
    uint8_t *room =
        aw_rpc_reply_room(reply, aware__v1__parallel_response__get_packed_size(&response));
    if (room)
        aware__v1__parallel_response__pack(&response, room);
    aware__v1__parallel_request__free_unpacked(request, NULL);
}

/* ---- the service ---- */

#define PATH(method) "/aware.v1.ParallelEnvironment/" method

static const struct aw_rpc_method methods[] = {
    {.path = PATH("StreamParallel"),
     .kind = AW_RPC_LOCKSTEP,
     .open = stream_open,
     .message = stream_message,
     .close = stream_close},
    {.path = PATH("ListParallel"), .kind = AW_RPC_UNARY, .unary = list},
    {.path = PATH("DescribeParallel"), .kind = AW_RPC_UNARY, .unary = describe},
    {.path = NULL},
};

enum aw_err aw_parallel_service_new(struct aw_parallel_service **ret, struct aw_diag *diag)
{
    struct aw_parallel_service *service = aw_alloc_new(NULL, 1, sizeof *service);
    if (!service)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the service of many agents");
    service->service = (struct aw_rpc_service){
        .name = "aware.v1.ParallelEnvironment", .methods = methods, .ctx = service};
    *ret = service;
    return AW_OK;
}

void aw_parallel_service_free(struct aw_parallel_service *service)
{
    aw_alloc_free(NULL, service);
}

const struct aw_rpc_service *aw_parallel_service_service(struct aw_parallel_service *service)
{
    return &service->service;
}
