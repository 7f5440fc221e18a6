/* remote_test.c - an environment over the wire is the same environment, and one that lies is told.
 */
#include "rpc/remote.h"

#include <aware/v1/environment.pb-c.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/rng.h"
#include "base/space.h"
#include "rpc/rpc_testing.h"

/* ---- a server that lies on request ---- */

enum lie {
    NO_LIE,
    OBS_NAN,
    OBS_SHORT,
    REWARD_INF,
    TWO_REWARDS,
    OTHER_COPY,
    WRONG_ID,
    WRONG_KIND,
    AN_ERROR,
    NO_MESSAGE,
    RESETS_ITSELF,
    LIES
};
static _Atomic enum lie lie;

static void put(struct aw_rpc_reply *reply, const Aware__V1__StreamResponse *response)
{
    uint8_t *room = aw_rpc_reply_room(reply, aware__v1__stream_response__get_packed_size(response));
    assert_non_null(room);
    aware__v1__stream_response__pack(response, room);
}

static void liar_describe(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    (void)ctx, (void)bytes, (void)size;
    char x[] = "x", fallback[] = "hold-still";
    Aware__V1__DescribeResponse response;
    Aware__V1__Space seen, done;
    Aware__V1__Axis any, unit, *seen_axes[] = {&any, &any}, *done_axes[] = {&unit};
    aware__v1__describe_response__init(&response);
    aware__v1__space__init(&seen);
    aware__v1__space__init(&done);
    aware__v1__axis__init(&any);
    aware__v1__axis__init(&unit);
    any.name = unit.name = x;
    unit.low = -1;
    unit.high = 1;
    seen.kind = done.kind = AWARE__V1__SPACE__KIND__KIND_BOX;
    seen.n_axes = 2;
    seen.axes = seen_axes;
    done.n_axes = 1;
    done.axes = done_axes;
    response.observation = &seen;
    response.action = &done;
    response.fallback_agent = fallback;
    uint8_t *room =
        aw_rpc_reply_room(reply, aware__v1__describe_response__get_packed_size(&response));
    assert_non_null(room);
    aware__v1__describe_response__pack(&response, room);
}

static void liar_open(void *ctx, struct aw_rpc_stream *stream, void **ret_self,
                      struct aw_rpc_reply *reply)
{
    (void)stream, (void)reply;
    *ret_self = ctx;
}

static void liar_close(void *self)
{
    (void)self;
}

static void liar_step(struct aw_rpc_reply *reply, Aware__V1__StreamResponse *response)
{
    const enum lie now = atomic_load(&lie);
    float obs[2] = {1, now == OBS_NAN ? NAN : 2}, final[2] = {8, 9}, fallback = 0.25f;
    float reward[2] = {now == REWARD_INF ? INFINITY : 0.5f, 0};
    uint32_t ended = now == OTHER_COPY ? 3 : 0;
    char text[] = "out of coal";
    Aware__V1__StepResponse step;
    Aware__V1__Error error;
    aware__v1__step_response__init(&step);
    aware__v1__error__init(&error);
    step.observation = obs;
    step.n_observation = now == OBS_SHORT ? 1 : 2;
    step.reward = reward;
    step.n_reward = now == TWO_REWARDS ? 2 : 1;
    step.terminated = &ended;
    step.n_terminated = now == OTHER_COPY || now == RESETS_ITSELF;
    step.final_observation = final;
    step.n_final_observation = now == RESETS_ITSELF ? 2 : 0;
    step.fallback_action = &fallback;
    step.n_fallback_action = 1;
    response->response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_STEP;
    response->step = &step;
    response->id += now == WRONG_ID;
    error.code = AW_RPC_INTERNAL;
    error.message = text;
    if (now == WRONG_KIND)
        response->response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE__NOT_SET;
    if (now == AN_ERROR) {
        response->response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_ERROR;
        response->error = &error;
    }
    if (now == NO_MESSAGE)
        memset(aw_rpc_reply_room(reply, 8), 0xff, 8);
    else
        put(reply, response);
}

static void liar_message(void *self, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    (void)self;
    float obs[2] = {0, 0};
    Aware__V1__StreamRequest *request = aware__v1__stream_request__unpack(NULL, size, bytes);
    Aware__V1__StreamResponse response;
    Aware__V1__InitResponse init;
    Aware__V1__ResetResponse reset;
    assert_non_null(request);
    aware__v1__stream_response__init(&response);
    aware__v1__init_response__init(&init);
    aware__v1__reset_response__init(&reset);
    init.count = init.action_dim = 1;
    init.observation_dim = 2;
    reset.observation = obs;
    reset.n_observation = 2;
    response.id = request->id;
    if (request->request_case == AWARE__V1__STREAM_REQUEST__REQUEST_STEP) {
        liar_step(reply, &response);
    } else if (request->request_case == AWARE__V1__STREAM_REQUEST__REQUEST_INIT) {
        response.response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_INIT;
        response.init = &init;
        put(reply, &response);
    } else {
        response.response_case = AWARE__V1__STREAM_RESPONSE__RESPONSE_RESET;
        response.reset = &reset;
        put(reply, &response);
    }
    aware__v1__stream_request__free_unpacked(request, NULL);
}

static const struct aw_rpc_method liar_methods[] = {
    {.path = "/aware.v1.Environment/Describe", .kind = AW_RPC_UNARY, .unary = liar_describe},
    {.path = "/aware.v1.Environment/Stream",
     .kind = AW_RPC_LOCKSTEP,
     .open = liar_open,
     .message = liar_message,
     .close = liar_close},
    {.path = NULL},
};
static const struct aw_rpc_service liar = {.name = "aware.v1.Environment", .methods = liar_methods};

/* ---- */

static struct aw_rpc_world world; /* that serves what is built in */
static struct aw_rpc_server *liar_server;
static char honest_address[160], liar_address[160];

static int all_open(void **state)
{
    static char listen[160];
    const struct aw_rpc_service *services[] = {&liar};
    (void)state;
    aw_env_elsewhere_set(&aw_rpc_elsewhere);
    aw_rpc_world_open(&world, NULL, NULL);
    snprintf(listen, sizeof listen, "unix:%s-liar", world.socket);
    assert_ok(aw_rpc_server_open(&liar_server, &(struct aw_rpc_config){.listen = listen}, services,
                                 1, NULL));
    snprintf(honest_address, sizeof honest_address, "grpc+unix://%s?env=pendulum-v1", world.socket);
    snprintf(liar_address, sizeof liar_address, "grpc+unix://%s-liar?env=x", world.socket);
    return 0;
}

static int all_close(void **state)
{
    (void)state;
    aw_rpc_server_close(liar_server);
    aw_rpc_world_close(&world);
    return 0;
}

static void over_the_wire_it_is_the_same_environment(void **state)
{
    struct aw_env here, there;
    struct aw_rng rng;
    struct aw_diag diag = {0};
    float a[3], b[3], action;
    (void)state;
    assert_ok(aw_env_make("pendulum-v1", &here, NULL));
    if (aw_env_make(honest_address, &there, &diag))
        fail_msg("%s", diag.text);
    assert_string_equal(there.spec->name, honest_address);
    assert_int_equal(there.spec->episode_steps_max, 200);
    assert_string_equal(there.spec->observation.axes[2].name, here.spec->observation.axes[2].name);
    assert_string_equal(aw_env_fallback_name(&there), "");
    assert_string_equal(aw_env_fallback_name(&here), "");
    aw_rng_init(&rng, 4, 4);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct aw_step x = {0}, y = {0};
        assert_ok(here.ops->reset(here.self, seed, a));
        assert_ok(there.ops->reset(there.self, seed, b));
        while (!x.truncated) {
            assert_memory_equal(a, b, sizeof a);
            aw_space_sample(&here.spec->action, &rng, &action);
            assert_ok(here.ops->step(here.self, &action, a, &x));
            assert_ok(there.ops->step(there.self, &action, b, &y));
            assert_true(x.reward == y.reward);
            assert_int_equal(x.terminated, y.terminated);
            assert_int_equal(x.truncated, y.truncated);
        }
        assert_memory_equal(a, b, sizeof a); /* the last one is the episode's own */
    }
    action = NAN;
    assert_ok(there.ops->reset(there.self, 1, b));
    struct aw_step step;
    assert_int_equal(there.ops->step(there.self, &action, b, &step), AW_ERR_RANGE);
    aw_env_free(&here);
    aw_env_free(&there);
}

static void a_snapshot_is_good_until_something_happens(void **state)
{
    struct aw_env env;
    unsigned char bytes[64];
    float obs[3], action = 0;
    struct aw_step step;
    (void)state;
    assert_ok(aw_env_make(honest_address, &env, NULL));
    assert_true(env.spec->state_bytes <= sizeof bytes);
    assert_ok(env.ops->reset(env.self, 1, obs));
    env.ops->state_save(env.self, bytes);
    assert_ok(env.ops->state_load(env.self, bytes));
    assert_ok(env.ops->step(env.self, &action, obs, &step));
    assert_int_equal(env.ops->state_load(env.self, bytes), AW_ERR_UNAVAILABLE);
    bytes[sizeof(uint64_t)] ^= 1;
    assert_int_equal(env.ops->state_load(env.self, bytes), AW_ERR_FORMAT);
    aw_env_free(&env);
}

static void a_lie_is_told_and_a_reset_begins_anew(void **state)
{
    static const struct {
        enum aw_err err;
        const char *why;
    } cases[LIES] = {
        [OBS_NAN] = {AW_ERR_DIVERGED, "not finite"},
        [OBS_SHORT] = {AW_ERR_FORMAT, "expected an observation of 2 numbers, found 1"},
        [REWARD_INF] = {AW_ERR_DIVERGED, "a reward is not finite"},
        [TWO_REWARDS] = {AW_ERR_FORMAT, "expected one reward"},
        [OTHER_COPY] = {AW_ERR_FORMAT, "expected one reward and whether copy 0"},
        [WRONG_ID] = {AW_ERR_FORMAT, "something else than was asked"},
        [WRONG_KIND] = {AW_ERR_FORMAT, "something else than was asked"},
        [AN_ERROR] = {AW_ERR_IO, "out of coal"},
        [NO_MESSAGE] = {AW_ERR_FORMAT, "something else than was asked"},
    };
    struct aw_env env;
    struct aw_diag diag = {0};
    struct aw_step step;
    char text[AW_DIAG_TEXT_MAX];
    float obs[2], action = 0, fallback = 0;
    (void)state;
    if (aw_env_make(liar_address, &env, &diag))
        fail_msg("%s", diag.text);
    assert_string_equal(aw_env_fallback_name(&env), "hold-still");
    for (int i = 0; i < LIES; i++) {
        atomic_store(&lie, (enum lie)i);
        assert_ok(env.ops->reset(env.self, 1, obs));
        assert_false(aw_env_fallback(&env, &fallback));
        const float before = obs[0];
        const enum aw_err err = env.ops->step(env.self, &action, obs, &step);
        if (err != cases[i].err)
            fail_msg("lie %d: %s", i, aw_err_name(err));
        if (!err) {
            assert_true(aw_env_fallback(&env, &fallback) && fallback == 0.25f);
            assert_true(step.reward == 0.5f);
            assert_true(obs[0] == (i == RESETS_ITSELF ? 8.0f : 1.0f));
            continue;
        }
        assert_true(obs[0] == before);
        if (!strstr(aw_remote_trouble(text, sizeof text), cases[i].why))
            fail_msg("lie %d: %s", i, text);
        assert_int_equal(env.ops->step(env.self, &action, obs, &step), AW_ERR_UNAVAILABLE);
    }
    aw_env_free(&env);
}

static void nobody_there_is_said_at_once_and_by_name(void **state)
{
    struct aw_env env;
    struct aw_diag diag = {0};
    (void)state;
    assert_int_equal(aw_env_make("grpc+unix:///nowhere/at.all?env=x", &env, &diag),
                     AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "/nowhere/at.all"));
    assert_int_equal(aw_env_make("grpc://127.0.0.1:1/x", &env, &diag), AW_ERR_UNAVAILABLE);
    assert_int_equal(aw_env_make("ftp://x/y", &env, &diag), AW_ERR_USAGE);
    char wrong[200];
    snprintf(wrong, sizeof wrong, "grpc+unix://%s?env=nothing-v3", world.socket);
    assert_int_equal(aw_env_make(wrong, &env, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "nothing-v3"));
}

static void a_server_that_goes_is_told_and_found_again(void **state)
{
    struct aw_env env;
    struct aw_step step;
    char text[AW_DIAG_TEXT_MAX], address[200], listen[160];
    float obs[2], action = 0;
    const struct aw_rpc_service *services[] = {&liar};
    struct aw_rpc_server *server = NULL;
    (void)state;
    atomic_store(&lie, NO_LIE);
    snprintf(listen, sizeof listen, "unix:%s-going", world.socket);
    snprintf(address, sizeof address, "grpc+unix://%s-going?env=x", world.socket);
    const struct aw_rpc_config config = {.listen = listen};
    assert_ok(aw_rpc_server_open(&server, &config, services, 1, NULL));
    assert_ok(aw_env_make(address, &env, NULL));
    assert_ok(env.ops->reset(env.self, 1, obs));
    assert_ok(env.ops->step(env.self, &action, obs, &step));
    aw_rpc_server_close(server);
    assert_int_equal(env.ops->step(env.self, &action, obs, &step), AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(aw_remote_trouble(text, sizeof text), "UNAVAILABLE"));
    assert_int_not_equal(env.ops->reset(env.self, 1, obs), AW_OK);
    assert_ok(aw_rpc_server_open(&server, &config, services, 1, NULL));
    aw_testing_until(env.ops->reset(env.self, 1, obs) == AW_OK);
    assert_ok(env.ops->step(env.self, &action, obs, &step));
    aw_env_free(&env);
    aw_rpc_server_close(server);
}

static void options_travel_in_the_address_and_are_told(void **state)
{
    static const char *const pairs[] = {"history=1", "episode_steps=7"};
    const struct aw_env_factory *factory = NULL;
    const struct aw_remote_option *options = NULL;
    struct aw_env here = {0}, there = {0};
    struct aw_diag diag = {0};
    char address[AW_ENV_ADDRESS_MAX];
    float seen[2][AW_ENV_DIM_MAX];
    (void)state;
    snprintf(address, sizeof address, "grpc+unix://%s?env=autoscale-v0&set.hysteria=1",
             world.socket);
    assert_int_equal(aw_env_find(address, &factory, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "hysteria"));
    snprintf(address, sizeof address,
             "grpc+unix://%s?env=autoscale-v0&set.history=1&set.episode_steps=7", world.socket);
    assert_ok(aw_env_find(address, &factory, &diag));
    assert_ok(factory->make(NULL, &there, NULL));
    assert_ok(aw_env_make_with("autoscale-v0", pairs, 2, NULL, &here, NULL));
    assert_int_equal(there.spec->observation.dim, here.spec->observation.dim);
    assert_int_equal(there.spec->episode_steps_max, 7);
    assert_ok(there.ops->reset(there.self, 5, seen[0]));
    assert_ok(here.ops->reset(here.self, 5, seen[1]));
    assert_memory_equal(seen[0], seen[1], here.spec->observation.dim * sizeof(float));
    const uint32_t count = aw_remote_options(factory, &options);
    assert_true(count > 10);
    assert_string_equal(options[0].key, "app");
    aw_env_free(&there);
    aw_env_free(&here);
}

AW_TEST_GROUP("rpc-remote")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_the_wire_it_is_the_same_environment),
        cmocka_unit_test(options_travel_in_the_address_and_are_told),
        cmocka_unit_test(a_snapshot_is_good_until_something_happens),
        cmocka_unit_test(a_lie_is_told_and_a_reset_begins_anew),
        cmocka_unit_test(nobody_there_is_said_at_once_and_by_name),
        cmocka_unit_test(a_server_that_goes_is_told_and_found_again),
    };
    return cmocka_run_group_tests(tests, all_open, all_close);
}
