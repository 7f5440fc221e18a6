/* remote.c - see remote.h: one environment, its stream and its answers. */
#include "rpc/remote.h"

#include <aware/v1/environment.pb-c.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/envelope.h"
#include "rpc/client.h"
#include "rpc/remote_spec.h"

#define PATH_STREAM "/aware.v1.Environment/Stream"

struct remote_env {
    struct aw__remote *remote;
    const struct aw_alloc *alloc;
    struct aw_rpc_talk *talk; /* NULL: not connected, or not any more */
    uint64_t request_id;
    uint64_t moves;  /* resets and steps so far: what a snapshot says */
    uint8_t *buffer; /* [buffer_size], of a request */
    size_t buffer_size;
    float *fallback; /* [action.dim] */
    bool has_fallback, running;
};

/* The owner is the environment: nobody else can be put where it was. */
struct snapshot {
    struct aw_envelope head;
    uint64_t moves;
};
AW_LAYOUT(layout, struct snapshot, 0, AW_ENVELOPE(head.), moves);
static struct aw_format format = {
    .kind = "remote", .what = "where an environment was", .version = 1, .layout = {layout}};

static enum aw_err trouble(enum aw_err err, const char *fmt, ...) AW_PRINTF(2, 3);
static enum aw_err trouble(enum aw_err err, const char *fmt, ...)
{
    char text[AW_DIAG_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    aw__remote_trouble_set(text);
    return err;
}

static void disconnect(struct remote_env *env)
{
    aw_rpc_talk_close(env->talk);
    env->talk = NULL;
    env->running = false;
}

/* ---- one question, one answer ---- */

static enum aw_err ask(struct remote_env *env, Aware__V1__StreamRequest *request,
                       Aware__V1__StreamResponse__ResponseCase wanted,
                       Aware__V1__StreamResponse **ret)
{
    struct aw_rpc_answer answer = {0};
    struct aw_diag diag = {0};
    const char *where = env->remote->spec.name;
    request->id = ++env->request_id;
    const size_t size = aware__v1__stream_request__get_packed_size(request);
    AW_ASSERT(size <= env->buffer_size);
    aware__v1__stream_request__pack(request, env->buffer);
    enum aw_err err = aw_rpc_talk_exchange(env->talk, env->buffer, size, &answer, &diag);
    if (err) {
        disconnect(env);
        return trouble(err, "%s", diag.text);
    }
    Aware__V1__StreamResponse *response =
        aware__v1__stream_response__unpack(NULL, answer.size, answer.bytes);
    aw_rpc_answer_free(&answer);
    if (response && response->id == request->id && response->response_case == wanted) {
        *ret = response;
        return AW_OK;
    }
    if (response && response->response_case == AWARE__V1__STREAM_RESPONSE__RESPONSE_ERROR) {
        err = aw_rpc_status_err((enum aw_rpc_status)response->error->code);
        err =
            trouble(err ? err : AW_ERR_FORMAT, "%s says: %.200s", where, response->error->message);
    } else {
        err = trouble(AW_ERR_FORMAT, "%s answered something else than was asked", where);
    }
    if (response)
        aware__v1__stream_response__free_unpacked(response, NULL);
    disconnect(env);
    return err;
}

static void fallback_take(struct remote_env *env, const float *action, size_t count)
{
    const struct aw_space *space = &env->remote->spec.action;
    env->has_fallback = count == space->dim && aw_space_accepts(space, action);
    if (env->has_fallback)
        memcpy(env->fallback, action, count * sizeof *action);
}

/* What comes from outside becomes an observation only when it is one. */
static enum aw_err obs_take(struct remote_env *env, const float *from, size_t count, float *obs)
{
    const uint32_t dim = env->remote->spec.observation.dim;
    if (count != dim) {
        disconnect(env);
        return trouble(AW_ERR_FORMAT, "%s: expected an observation of %u numbers, found %zu",
                       env->remote->spec.name, dim, count);
    }
    for (uint32_t i = 0; i < dim; i++)
        if (!isfinite(from[i])) {
            disconnect(env);
            return trouble(AW_ERR_DIVERGED, "%s: element %u of an observation (%s) is not finite",
                           env->remote->spec.name, i, env->remote->spec.observation.axes[i].name);
        }
    memcpy(obs, from, dim * sizeof *obs);
    return AW_OK;
}

static enum aw_err connect_and_init(struct remote_env *env)
{
    const struct aw_env_spec *spec = &env->remote->spec;
    struct aw_diag diag = {0};
    Aware__V1__StreamRequest request;
    Aware__V1__InitRequest init;
    Aware__V1__InitRequest__OptionsEntry entry[AW_RPC_TARGET_OPTIONS],
        *options[AW_RPC_TARGET_OPTIONS];
    struct aw_rpc_target *target = &env->remote->target;
    Aware__V1__StreamResponse *response = NULL;
    enum aw_err err = aw_rpc_talk_open(&env->talk, env->remote->client, PATH_STREAM, &diag);
    if (err)
        return trouble(err, "%s", diag.text);
    aware__v1__stream_request__init(&request);
    aware__v1__init_request__init(&init);
    init.name = target->env;
    init.count = 1;
    for (uint32_t i = 0; i < target->option_count; i++) {
        aware__v1__init_request__options_entry__init(&entry[i]);
        entry[i].key = target->option[i].key;
        entry[i].value = target->option[i].value;
        options[i] = &entry[i];
    }
    init.n_options = target->option_count;
    init.options = options;
    request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_INIT;
    request.init = &init;
    if ((err = ask(env, &request, AWARE__V1__STREAM_RESPONSE__RESPONSE_INIT, &response)))
        return err;
    if (response->init->count != 1 || response->init->observation_dim != spec->observation.dim ||
        response->init->action_dim != spec->action.dim) {
        disconnect(env);
        err = trouble(AW_ERR_FORMAT, "%s: made with other sizes than it was described with",
                      spec->name);
    }
    aware__v1__stream_response__free_unpacked(response, NULL);
    return err;
}

/* ---- aw_env ---- */

static enum aw_err env_reset(void *self, uint64_t seed, float *obs)
{
    struct remote_env *env = self;
    Aware__V1__StreamRequest request;
    Aware__V1__ResetRequest reset;
    Aware__V1__StreamResponse *response = NULL;
    enum aw_err err;
    if (!env->talk && (err = connect_and_init(env)))
        return err;
    aware__v1__stream_request__init(&request);
    aware__v1__reset_request__init(&reset);
    reset.seed = seed;
    reset.exact = true;
    reset.autoreset = AWARE__V1__AUTORESET__AUTORESET_MANUAL;
    request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_RESET;
    request.reset = &reset;
    if ((err = ask(env, &request, AWARE__V1__STREAM_RESPONSE__RESPONSE_RESET, &response)))
        return err;
    env->moves++;
    err = obs_take(env, response->reset->observation, response->reset->n_observation, obs);
    fallback_take(env, response->reset->fallback_action, response->reset->n_fallback_action);
    env->running = !err;
    aware__v1__stream_response__free_unpacked(response, NULL);
    return err;
}

/* A list that names copies: nobody, or copy 0 once. */
static bool names_copy(const uint32_t *list, size_t count, bool *ret_named)
{
    *ret_named = count > 0;
    return count == 0 || (count == 1 && list[0] == 0);
}

static enum aw_err step_take(struct remote_env *env, const Aware__V1__StepResponse *step,
                             float *obs, struct aw_step *ret)
{
    const struct aw_env_spec *spec = &env->remote->spec;
    struct aw_step made = {0};
    if (step->n_reward != 1 ||
        !names_copy(step->terminated, step->n_terminated, &made.terminated) ||
        !names_copy(step->truncated, step->n_truncated, &made.truncated)) {
        disconnect(env);
        return trouble(AW_ERR_FORMAT,
                       "%s: expected one reward and whether copy 0 ended, found %zu rewards, %zu "
                       "and %zu ends",
                       spec->name, step->n_reward, step->n_terminated, step->n_truncated);
    }
    if (!isfinite(step->reward[0])) {
        disconnect(env);
        return trouble(AW_ERR_DIVERGED, "%s: a reward is not finite", spec->name);
    }
    made.reward = step->reward[0];
    /* A server that resets by itself, though it was asked not to, still says what the step showed.
     */
    const bool final = step->n_final_observation > 0 && (made.terminated || made.truncated);
    const enum aw_err err =
        final ? obs_take(env, step->final_observation, step->n_final_observation, obs)
              : obs_take(env, step->observation, step->n_observation, obs);
    if (err)
        return err;
    fallback_take(env, step->fallback_action, step->n_fallback_action);
    env->running = !made.terminated && !made.truncated;
    *ret = made;
    return AW_OK;
}

static enum aw_err env_step(void *self, const float *action, float *obs, struct aw_step *ret)
{
    struct remote_env *env = self;
    const struct aw_space *space = &env->remote->spec.action;
    Aware__V1__StreamRequest request;
    Aware__V1__StepRequest step;
    Aware__V1__StreamResponse *response = NULL;
    enum aw_err err;
    if (!aw_space_accepts(space, action))
        return AW_ERR_RANGE;
    if (!env->talk)
        return AW_ERR_UNAVAILABLE; /* why is told already */
    AW_ASSERT(env->running);
    aware__v1__stream_request__init(&request);
    aware__v1__step_request__init(&step);
    memcpy(&step.action, &action, sizeof step.action); /* packing only reads it */
    step.n_action = space->dim;
    request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_STEP;
    request.step = &step;
    if ((err = ask(env, &request, AWARE__V1__STREAM_RESPONSE__RESPONSE_STEP, &response)))
        return err;
    env->moves++;
    err = step_take(env, response->step, obs, ret);
    aware__v1__stream_response__free_unpacked(response, NULL);
    return err;
}

static void env_state_save(const void *self, void *bytes)
{
    const struct remote_env *env = self;
    struct snapshot snapshot = {.moves = env->moves};
    aw_envelope_seal(&format, (uintptr_t)self, &snapshot, sizeof snapshot);
    memcpy(bytes, &snapshot, sizeof snapshot);
}

static enum aw_err env_state_load(void *self, const void *bytes)
{
    const struct remote_env *env = self;
    struct snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    if (aw_envelope_open(&format, (uintptr_t)self, &snapshot, sizeof snapshot, NULL))
        return trouble(AW_ERR_FORMAT, "%s: no snapshot of this one", env->remote->spec.name);
    if (snapshot.moves == env->moves)
        return AW_OK;
    return trouble(AW_ERR_UNAVAILABLE, "%s: cannot be put back to where it was",
                   env->remote->spec.name);
}

static void env_free(void *self)
{
    struct remote_env *env = self;
    if (!env)
        return;
    aw_rpc_talk_close(env->talk);
    aw_alloc_free(env->alloc, env);
}

static const struct aw_env_ops ops = {
    .reset = env_reset,
    .step = env_step,
    .state_save = env_state_save,
    .state_load = env_state_load,
    .free = env_free,
};

const uint32_t aw__remote_state_bytes = sizeof(struct snapshot);

enum aw_err aw__remote_make(struct aw__remote *remote, const struct aw_alloc *alloc,
                            struct aw_env *ret_env, struct aw_diag *diag)
{
    const uint32_t dim = remote->spec.action.dim;
    const size_t buffer_size = AW__REMOTE_REQUEST_BYTES + dim * sizeof(float);
    struct aw_carve block = {0};
    struct remote_env *env = NULL;
    for (int pass = 0; pass < 2; pass++) {
        struct remote_env *at = aw_carve_take(&block, 1, sizeof *at);
        float *fallback = aw_carve_take(&block, dim, sizeof *fallback);
        uint8_t *buffer = aw_carve_take(&block, buffer_size, 1);
        if (pass == 1)
            *at = (struct remote_env){.remote = remote,
                                      .alloc = alloc,
                                      .buffer = buffer,
                                      .buffer_size = buffer_size,
                                      .fallback = fallback};
        else if (!(env = aw_alloc_new(alloc, block.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", remote->spec.name);
        block = (struct aw_carve){.base = (unsigned char *)env};
    }
    *ret_env = (struct aw_env){.spec = &remote->spec, .ops = &ops, .self = env};
    return AW_OK;
}

const char *aw__remote_fallback_name(const struct aw_env *env)
{
    return env->ops == &ops ? ((const struct remote_env *)env->self)->remote->fallback : "";
}

bool aw__remote_fallback(const struct aw_env *env, float *action)
{
    if (env->ops != &ops)
        return false;
    const struct remote_env *remote = env->self;
    if (remote->has_fallback)
        memcpy(action, remote->fallback, remote->remote->spec.action.dim * sizeof *action);
    return remote->has_fallback;
}
