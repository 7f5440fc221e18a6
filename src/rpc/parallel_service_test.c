/* parallel_service_test.c - environments of many agents over a stream, with clients that are
 * wrong. */
#include "rpc/parallel_service.h"

#include <aware/parallel.h>
#include <aware/v1/parallel.pb-c.h>
#include <math.h>

#include "rpc/rpc_testing.h"

#define PATH(method) "/aware.v1.ParallelEnvironment/" method
#define AGENTS       20u

static struct aw_rpc_world world;
static struct aw_parallel_service *service;

static int set_up(void **state)
{
    (void)state;
    assert_ok(aw_parallel_service_new(&service, NULL));
    aw_rpc_world_open(&world, NULL, aw_parallel_service_service(service));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_rpc_world_close(&world);
    aw_parallel_service_free(service);
    return 0;
}

static Aware__V1__ParallelResponse *ask(struct aw_rpc_talk *talk,
                                        Aware__V1__ParallelRequest *request)
{
    static uint8_t packed[1 << 16];
    struct aw_rpc_answer answer = {0};
    request->id = 7;
    const size_t size = aware__v1__parallel_request__pack(request, packed);
    assert_true(size <= sizeof packed);
    assert_ok(aw_rpc_talk_exchange(talk, packed, size, &answer, NULL));
    Aware__V1__ParallelResponse *response =
        aware__v1__parallel_response__unpack(NULL, answer.size, answer.bytes);
    assert_non_null(response);
    assert_int_equal(response->id, 7);
    aw_rpc_answer_free(&answer);
    return response;
}

/* protobuf-c has no const texts; packing only reads them. */
static char *text(const char *value)
{
    char *same;
    memcpy(&same, &value, sizeof same);
    return same;
}

/* With the options of `pairs`, which are key, value, key, value, ... */
static Aware__V1__ParallelResponse *ask_init(struct aw_rpc_talk *talk, const char *name,
                                             const char *const *pairs, size_t count)
{
    Aware__V1__ParallelRequest request;
    Aware__V1__ParallelInit init;
    Aware__V1__ParallelInit__OptionsEntry entry[8], *pointer[8];
    aware__v1__parallel_request__init(&request);
    aware__v1__parallel_init__init(&init);
    for (size_t i = 0; i < count / 2; i++) {
        aware__v1__parallel_init__options_entry__init(&entry[i]);
        entry[i].key = text(pairs[2 * i]);
        entry[i].value = text(pairs[2 * i + 1]);
        pointer[i] = &entry[i];
    }
    init.name = text(name);
    init.context = true;
    init.n_options = count / 2;
    init.options = pointer;
    request.request_case = AWARE__V1__PARALLEL_REQUEST__REQUEST_INIT;
    request.init = &init;
    return ask(talk, &request);
}

static Aware__V1__ParallelResponse *ask_reset(struct aw_rpc_talk *talk, uint64_t seed)
{
    Aware__V1__ParallelRequest request;
    Aware__V1__ParallelReset reset;
    aware__v1__parallel_request__init(&request);
    aware__v1__parallel_reset__init(&reset);
    reset.seed = seed;
    request.request_case = AWARE__V1__PARALLEL_REQUEST__REQUEST_RESET;
    request.reset = &reset;
    return ask(talk, &request);
}

static Aware__V1__ParallelResponse *ask_step(struct aw_rpc_talk *talk, float *action, size_t count)
{
    Aware__V1__ParallelRequest request;
    Aware__V1__ParallelStep step;
    aware__v1__parallel_request__init(&request);
    aware__v1__parallel_step__init(&step);
    step.n_action = count;
    step.action = action;
    request.request_case = AWARE__V1__PARALLEL_REQUEST__REQUEST_STEP;
    request.step = &step;
    return ask(talk, &request);
}

static void free_answer(Aware__V1__ParallelResponse *response)
{
    aware__v1__parallel_response__free_unpacked(response, NULL);
}

static void expect_error(Aware__V1__ParallelResponse *response, enum aw_rpc_status code,
                         const char *says)
{
    assert_int_equal(response->response_case, AWARE__V1__PARALLEL_RESPONSE__RESPONSE_ERROR);
    assert_int_equal(response->error->code, code);
    if (!strstr(response->error->message, says))
        fail_msg("%s", response->error->message);
    free_answer(response);
}

/* What came is what the environment itself shows. */
static size_t compare(const Aware__V1__ParallelRows *rows, const struct aw_parallel *env,
                      const struct aw_parallel_rows *own)
{
    const size_t obs = env->spec->observation.dim, context = env->spec->context.dim;
    const size_t choices = env->spec->action.n;
    size_t at = 0, live = 0;
    assert_int_equal(rows->flags.len, AGENTS);
    assert_memory_equal(rows->flags.data, own->flags, AGENTS);
    for (size_t i = 0; i < AGENTS; i++) {
        if (!own->flags[i])
            continue;
        live += own->flags[i] & AW_PARALLEL_LIVE;
        assert_true((at + 1) * obs <= rows->n_observation && at < rows->n_reward &&
                    (at + 1) * context <= rows->n_context &&
                    (at + 1) * choices <= rows->allowed.len);
        assert_memory_equal(rows->observation + at * obs, own->obs + i * obs, obs * sizeof(float));
        assert_memory_equal(rows->context + at * context, own->context + i * context,
                            context * sizeof(float));
        assert_memory_equal(rows->allowed.data + at * choices, own->allowed + i * choices, choices);
        assert_memory_equal(&rows->reward[at++], &own->reward[i], sizeof(float));
    }
    assert_int_equal(rows->n_reward, at);
    return live;
}

static void an_episode_over_the_wire_is_the_episode_here(void **state)
{
    (void)state;
    static const char *const options[] = {"agents", "6",   "agents_max", "20",
                                          "joins",  "0.5", "leaves",     "0.05"};
    static const char *const pairs[] = {"agents=6", "agents_max=20", "joins=0.5", "leaves=0.05"};
    static float obs[AGENTS * 12], context[AGENTS * 12], reward[AGENTS], action[AGENTS];
    static uint8_t flags[AGENTS], allowed[AGENTS * 8];
    struct aw_parallel_rows own = {flags, obs, context, allowed, reward};
    struct aw_parallel env = {0};
    struct aw_rpc_talk *talk = NULL;
    float sent[AGENTS];
    uint32_t steps = 0;
    assert_ok(aw_parallel_make("tenants-v0", pairs, 4, NULL, &env, NULL));
    assert_int_equal(env.spec->observation.dim, 12);
    assert_ok(aw_rpc_talk_open(&talk, world.client, PATH("StreamParallel"), NULL));
    Aware__V1__ParallelResponse *response = ask_init(talk, "tenants-v0", options, 8);
    assert_int_equal(response->response_case, AWARE__V1__PARALLEL_RESPONSE__RESPONSE_INIT);
    assert_int_equal(response->init->agents_max, AGENTS);
    assert_int_equal(response->init->choices, 8);
    free_answer(response);
    response = ask_reset(talk, 9);
    assert_ok(env.ops->reset(env.self, 9, &own));
    size_t live = compare(response->rows, &env, &own);
    free_answer(response);
    while (live) {
        size_t at = 0;
        for (uint32_t i = 0; i < AGENTS; i++)
            if (flags[i] & AW_PARALLEL_LIVE)
                sent[at++] = action[i] = (float)((i + steps) % 8);
        response = ask_step(talk, sent, at);
        assert_int_equal(response->response_case, AWARE__V1__PARALLEL_RESPONSE__RESPONSE_ROWS);
        assert_ok(env.ops->step(env.self, action, &own));
        live = compare(response->rows, &env, &own);
        free_answer(response);
        steps++;
    }
    assert_int_equal(steps, 50);
    expect_error(ask_step(talk, sent, 1), AW_RPC_FAILED_PRECONDITION, "nobody is live");
    aw_rpc_talk_close(talk);
    aw_parallel_free(&env);
}

static void clients_that_are_wrong_are_told_and_nothing_moves(void **state)
{
    (void)state;
    static const char *const unknown[] = {"agent", "6"}, *const large[] = {"agents", "65536"};
    struct aw_rpc_talk *talk = NULL;
    float action[12] = {0};
    assert_ok(aw_rpc_talk_open(&talk, world.client, PATH("StreamParallel"), NULL));
    expect_error(ask_reset(talk, 1), AW_RPC_FAILED_PRECONDITION, "begins with init");
    expect_error(ask_init(talk, "tenant-v0", NULL, 0), AW_RPC_NOT_FOUND, "tenants-v0");
    expect_error(ask_init(talk, "tenants-v0", unknown, 2), AW_RPC_INVALID_ARGUMENT, "agents");
    expect_error(ask_init(talk, "tenants-v0", large, 2), AW_RPC_RESOURCE_EXHAUSTED, "does not fit");
    free_answer(ask_init(talk, "tenants-v0", NULL, 0));
    expect_error(ask_init(talk, "tenants-v0", NULL, 0), AW_RPC_FAILED_PRECONDITION, "one init");
    expect_error(ask_step(talk, action, 12), AW_RPC_FAILED_PRECONDITION, "before a reset");
    free_answer(ask_reset(talk, 1));
    expect_error(ask_step(talk, action, 11), AW_RPC_INVALID_ARGUMENT, "12 times 1");
    action[3] = 8;
    expect_error(ask_step(talk, action, 12), AW_RPC_OUT_OF_RANGE, "agent 3");
    action[3] = NAN;
    expect_error(ask_step(talk, action, 12), AW_RPC_OUT_OF_RANGE, "agent 3");
    action[3] = 0;
    Aware__V1__ParallelResponse *after = ask_step(talk, action, 12);
    const float reward = after->rows->reward[3];
    free_answer(after);
    free_answer(ask_reset(talk, 1));
    after = ask_step(talk, action, 12); /* without any mistake before it */
    assert_close((double)after->rows->reward[3], (double)reward, 0);
    free_answer(after);
    aw_rpc_talk_close(talk);
}

static void what_there_is_is_told(void **state)
{
    (void)state;
    static uint8_t packed[64];
    struct aw_rpc_answer answer = {0};
    Aware__V1__ListRequest list;
    Aware__V1__DescribeRequest describe;
    aware__v1__list_request__init(&list);
    aware__v1__describe_request__init(&describe);
    assert_ok(aw_rpc_client_call(world.client, PATH("ListParallel"), packed,
                                 aware__v1__list_request__pack(&list, packed), &answer, NULL,
                                 NULL));
    Aware__V1__ListResponse *listed =
        aware__v1__list_response__unpack(NULL, answer.size, answer.bytes);
    assert_int_equal(listed->n_environments, 1);
    assert_string_equal(listed->environments[0]->name, "tenants-v0");
    describe.name = listed->environments[0]->name;
    aw_rpc_answer_free(&answer);
    assert_ok(aw_rpc_client_call(world.client, PATH("DescribeParallel"), packed,
                                 aware__v1__describe_request__pack(&describe, packed), &answer,
                                 NULL, NULL));
    Aware__V1__ParallelDescription *told =
        aware__v1__parallel_description__unpack(NULL, answer.size, answer.bytes);
    assert_int_equal(told->agents_max, 12);
    assert_int_equal(told->observation->n_axes, 12);
    assert_string_equal(told->observation->axes[0]->name, "slo_preserved");
    assert_string_equal(told->action->axes[7]->name, "staffing_4.5_at_1024");
    assert_string_equal(told->options[0]->key, "agents");
    aware__v1__parallel_description__free_unpacked(told, NULL);
    aware__v1__list_response__free_unpacked(listed, NULL);
    aw_rpc_answer_free(&answer);
}

AW_TEST_GROUP("rpc-parallel")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_episode_over_the_wire_is_the_episode_here),
        cmocka_unit_test(clients_that_are_wrong_are_told_and_nothing_moves),
        cmocka_unit_test(what_there_is_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
