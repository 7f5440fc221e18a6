/* env_service_test.c - environments over single calls, with clients that are wrong. */
#include "rpc/env_service.h"

#include <aware/env.h>
#include <aware/v1/environment.pb-c.h>
#include <math.h>
#include <stdio.h>

#include "rpc/rpc_testing.h"

#define PATH(method) "/aware.v1.Environment/" method

static struct aw_rpc_world world;

static int set_up(void **state)
{
    (void)state;
    aw_rpc_world_open(&world, NULL, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_rpc_world_close(&world);
    return 0;
}

static uint8_t packed[1 << 16];

#define PACK(type, message)                                                       \
    (assert_true(aware__v1__##type##__get_packed_size(message) <= sizeof packed), \
     aware__v1__##type##__pack(message, packed))

static enum aw_rpc_status call(const char *path, size_t size, struct aw_rpc_answer *ret)
{
    struct aw_rpc_answer answer = {0};
    enum aw_rpc_status status = AW_RPC_UNKNOWN;
    const enum aw_err err =
        aw_rpc_client_call(world.client, path, packed, size, &answer, &status, NULL);
    if (!err && ret)
        *ret = answer;
    else
        aw_rpc_answer_free(&answer);
    return status;
}

static enum aw_rpc_status init(const char *name, uint32_t count, char session[64])
{
    char copy[64];
    struct aw_rpc_answer answer = {0};
    Aware__V1__InitRequest request;
    aware__v1__init_request__init(&request);
    snprintf(copy, sizeof copy, "%s", name);
    request.name = copy;
    request.count = count;
    const enum aw_rpc_status status = call(PATH("Init"), PACK(init_request, &request), &answer);
    if (status)
        return status;
    Aware__V1__InitResponse *response =
        aware__v1__init_response__unpack(NULL, answer.size, answer.bytes);
    assert_non_null(response);
    assert_int_equal(response->count, count ? count : 1);
    assert_int_equal(strlen(response->session), 32);
    snprintf(session, 64, "%s", response->session);
    aware__v1__init_response__free_unpacked(response, NULL);
    aw_rpc_answer_free(&answer);
    return AW_RPC_OK;
}

static enum aw_rpc_status reset(char *session, uint64_t seed)
{
    Aware__V1__ResetRequest request;
    aware__v1__reset_request__init(&request);
    request.session = session;
    request.seed = seed;
    return call(PATH("Reset"), PACK(reset_request, &request), NULL);
}

static enum aw_rpc_status step(char *session, float *action, size_t count,
                               Aware__V1__StepResponse **ret)
{
    struct aw_rpc_answer answer = {0};
    Aware__V1__StepRequest request;
    aware__v1__step_request__init(&request);
    request.session = session;
    request.action = action;
    request.n_action = count;
    const enum aw_rpc_status status = call(PATH("Step"), PACK(step_request, &request), &answer);
    if (!status && ret) {
        *ret = aware__v1__step_response__unpack(NULL, answer.size, answer.bytes);
        assert_non_null(*ret);
    }
    aw_rpc_answer_free(&answer);
    return status;
}

static enum aw_rpc_status end(char *session)
{
    Aware__V1__CloseRequest request;
    aware__v1__close_request__init(&request);
    request.session = session;
    return call(PATH("Close"), PACK(close_request, &request), NULL);
}

static void every_environment_is_listed_and_described(void **state)
{
    struct aw_rpc_answer answer = {0};
    size_t count = 0;
    (void)state;
    assert_int_equal(call(PATH("List"), 0, &answer), AW_RPC_OK);
    Aware__V1__ListResponse *list =
        aware__v1__list_response__unpack(NULL, answer.size, answer.bytes);
    assert_non_null(list);
    aw_rpc_answer_free(&answer);
    for (const struct aw_env_factory *const *f = aw_env_builtin(); *f; f++) {
        const struct aw_env_spec *spec = (*f)->spec;
        Aware__V1__DescribeRequest request;
        assert_string_equal(list->environments[count]->name, spec->name);
        aware__v1__describe_request__init(&request);
        request.name = list->environments[count++]->name;
        assert_int_equal(call(PATH("Describe"), PACK(describe_request, &request), &answer),
                         AW_RPC_OK);
        Aware__V1__DescribeResponse *told =
            aware__v1__describe_response__unpack(NULL, answer.size, answer.bytes);
        assert_non_null(told);
        const bool discrete = spec->action.kind == AW_SPACE_DISCRETE;
        assert_int_equal(told->observation->n_axes, spec->observation.dim);
        assert_int_equal(told->action->n_axes, discrete ? spec->action.n : spec->action.dim);
        assert_string_equal(told->observation->axes[0]->name, spec->observation.axes[0].name);
        assert_true(told->observation->axes[0]->low == spec->observation.axes[0].low);
        assert_int_equal(told->episode_steps_max, spec->episode_steps_max);
        aware__v1__describe_response__free_unpacked(told, NULL);
        aw_rpc_answer_free(&answer);
    }
    assert_int_equal(list->n_environments, count);
    aware__v1__list_response__free_unpacked(list, NULL);
}

static void an_episode_ends_and_its_last_observation_is_kept(void **state)
{
    char session[64];
    float action[2] = {1, -1};
    (void)state;
    assert_int_equal(init("pendulum-v1", 2, session), AW_RPC_OK);
    assert_int_equal(step(session, action, 2, NULL), AW_RPC_FAILED_PRECONDITION);
    assert_int_equal(reset(session, 5), AW_RPC_OK);
    for (uint32_t k = 1; k <= 200; k++) {
        Aware__V1__StepResponse *told = NULL;
        assert_int_equal(step(session, action, 2, &told), AW_RPC_OK);
        assert_int_equal(told->n_observation, 6);
        assert_int_equal(told->n_reward, 2);
        assert_int_equal(told->n_terminated, 0);
        assert_int_equal(told->n_truncated, k == 200 ? 2 : 0);
        assert_int_equal(told->n_final_observation, k == 200 ? 6 : 0);
        aware__v1__step_response__free_unpacked(told, NULL);
    }
    assert_int_equal(end(session), AW_RPC_OK);
    assert_int_equal(step(session, action, 2, NULL), AW_RPC_NOT_FOUND);
    assert_int_equal(end(session), AW_RPC_OK);
}

static void what_is_wrong_is_said_and_the_session_goes_on(void **state)
{
    char session[64], other[64] = "0123456789abcdef0123456789abcdef", none[64] = "";
    float action[2] = {0, NAN};
    (void)state;
    assert_int_equal(init("pendulum-v1", 1, session), AW_RPC_OK);
    assert_int_equal(reset(session, 1), AW_RPC_OK);
    assert_int_equal(step(session, action, 2, NULL), AW_RPC_INVALID_ARGUMENT);
    assert_int_equal(step(session, action, 0, NULL), AW_RPC_INVALID_ARGUMENT);
    assert_int_equal(step(session, action + 1, 1, NULL), AW_RPC_OUT_OF_RANGE);
    assert_int_equal(step(other, action, 1, NULL), AW_RPC_NOT_FOUND);
    assert_int_equal(step(none, action, 1, NULL), AW_RPC_NOT_FOUND);
    assert_int_equal(step(session, action, 1, NULL), AW_RPC_OK);
    assert_int_equal(init("nothing-v1", 1, session), AW_RPC_NOT_FOUND);
    assert_int_equal(init("grpc://127.0.0.1:1/x", 1, session), AW_RPC_NOT_FOUND);
    assert_int_equal(init("pendulum-v1", 1000000, session), AW_RPC_RESOURCE_EXHAUSTED);
}

static void bytes_that_are_no_message_are_refused_by_every_method(void **state)
{
    static const char *const paths[] = {PATH("List"),  PATH("Describe"), PATH("Init"),
                                        PATH("Reset"), PATH("Step"),     PATH("Close")};
    struct aw_rpc_talk *talk = NULL;
    struct aw_rpc_answer answer = {0};
    (void)state;
    memset(packed, 0xff, 64);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(call(paths[i], 64, NULL), AW_RPC_INVALID_ARGUMENT);
    assert_ok(aw_rpc_talk_open(&talk, world.client, PATH("Stream"), NULL));
    assert_int_equal(aw_rpc_talk_exchange(talk, packed, 64, &answer, NULL), AW_ERR_CONFIG);
    aw_rpc_talk_close(talk);
}

static void sessions_are_bounded_and_given_back(void **state)
{
    static char session[AW_ENV_SERVICE_SESSIONS][64];
    struct aw_env_service_stats stats;
    char one_more[64];
    (void)state;
    for (uint32_t i = 0; i < AW_ENV_SERVICE_SESSIONS; i++)
        assert_int_equal(init("cartpole-v1", 1, session[i]), AW_RPC_OK);
    assert_int_equal(init("cartpole-v1", 1, one_more), AW_RPC_RESOURCE_EXHAUSTED);
    assert_int_equal(end(session[17]), AW_RPC_OK);
    assert_int_equal(init("cartpole-v1", 1, session[17]), AW_RPC_OK);
    for (uint32_t i = 0; i < AW_ENV_SERVICE_SESSIONS; i++)
        assert_int_equal(end(session[i]), AW_RPC_OK);
    aw_env_service_stats(world.envs, &stats);
    assert_int_equal(stats.sessions, 0);
    assert_int_equal(stats.copies, 0);
}

static void a_stream_that_breaks_off_gives_its_session_back(void **state)
{
    struct aw_rpc_talk *talk = NULL;
    struct aw_rpc_answer answer = {0};
    struct aw_env_service_stats stats;
    Aware__V1__StreamRequest request;
    Aware__V1__InitRequest made;
    char name[] = "pendulum-v1";
    (void)state;
    aware__v1__stream_request__init(&request);
    aware__v1__init_request__init(&made);
    made.name = name;
    made.count = 100;
    request.request_case = AWARE__V1__STREAM_REQUEST__REQUEST_INIT;
    request.init = &made;
    assert_ok(aw_rpc_talk_open(&talk, world.client, PATH("Stream"), NULL));
    assert_ok(aw_rpc_talk_exchange(talk, packed, PACK(stream_request, &request), &answer, NULL));
    aw_rpc_answer_free(&answer);
    aw_env_service_stats(world.envs, &stats);
    assert_int_equal(stats.copies, 100);
    aw_rpc_talk_close(talk);
    aw_testing_until((aw_env_service_stats(world.envs, &stats), stats.copies == 0));
    assert_int_equal(stats.sessions, 0);
}

static void only_one_environment_is_served_where_one_is_named(void **state)
{
    struct aw_env_service *one = NULL;
    struct aw_diag diag = {0};
    (void)state;
    assert_int_equal(aw_env_service_new(&one, "nothing", &diag), AW_ERR_NOTFOUND);
    assert_ok(aw_env_service_new(&one, "cartpole-v1", NULL));
    aw_env_service_free(one);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

AW_TEST_GROUP("rpc-env")
{
    const struct CMUnitTest tests[] = {
        TEST(every_environment_is_listed_and_described),
        TEST(an_episode_ends_and_its_last_observation_is_kept),
        TEST(what_is_wrong_is_said_and_the_session_goes_on),
        TEST(bytes_that_are_no_message_are_refused_by_every_method),
        TEST(sessions_are_bounded_and_given_back),
        TEST(a_stream_that_breaks_off_gives_its_session_back),
        TEST(only_one_environment_is_served_where_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
