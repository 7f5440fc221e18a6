/* span_service_test.c - spans over gRPC: taken, rejected in part, refused, told to come again. */
#include "rpc/span_service.h"

#include "rpc/rpc_testing.h"
#include "trace/write.h"

struct spans_world {
    struct aw_rpc_world rpc;
    struct aw_collector *collector;
    struct aw_rpc_service service;
    struct aw_spans spans;
    struct aw_bytes bytes;
};

static void set_up(struct spans_world *world, uint32_t spans_max)
{
    *world = (struct spans_world){0};
    assert_ok(aw_collector_new(&world->collector,
                               &(struct aw_collector_config){.spans_max = spans_max}, NULL));
    aw_span_service_init(&world->service, world->collector);
    aw_rpc_world_open(&world->rpc, NULL, &world->service);
    assert_ok(aw_spans_init(&world->spans, 1000, NULL));
}

static void tear_down(struct spans_world *world)
{
    aw_rpc_world_close(&world->rpc);
    aw_collector_free(world->collector);
    aw_spans_deinit(&world->spans);
    aw_alloc_free(NULL, world->bytes.bytes);
}

static void fill(struct spans_world *world, uint64_t trace, uint32_t count)
{
    aw_spans_reset(&world->spans);
    world->bytes.size = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct aw_span *span = aw_spans_push(&world->spans);
        span->trace_lo = trace;
        span->id = i + 1;
        span->parent = i;
        span->start_ns = 1000 + i;
        span->end_ns = 5000 - i;
    }
    assert_ok(aw_spans_write_otlp(world->spans.at, world->spans.count, &world->spans.names,
                                  &world->bytes));
}

static enum aw_rpc_status ask(struct spans_world *world, struct aw_rpc_answer *answer)
{
    enum aw_rpc_status status = AW_RPC_OK;
    struct aw_diag diag = {0};
    const enum aw_err err =
        aw_rpc_client_call(world->rpc.client, AW_SPAN_SERVICE_PATH, world->bytes.bytes,
                           world->bytes.size, answer, &status, &diag);
    assert_int_equal(err == AW_OK, status == AW_RPC_OK);
    return status;
}

static void spans_are_taken_and_what_is_wrong_is_told(void **state)
{
    struct spans_world world;
    struct aw_rpc_answer answer = {0};
    (void)state;
    set_up(&world, 0);
    fill(&world, 7, 5);
    assert_int_equal(ask(&world, &answer), AW_RPC_OK);
    assert_int_equal(answer.size, 0); /* nothing was rejected */
    aw_rpc_answer_free(&answer);
    answer = (struct aw_rpc_answer){0};
    fill(&world, 0, 3); /* no trace id */
    assert_int_equal(ask(&world, &answer), AW_RPC_OK);
    assert_true(answer.size > 4 && answer.bytes[0] == (1 << 3 | 2) && answer.bytes[2] == 1 << 3);
    assert_int_equal(answer.bytes[3], 3); /* rejected_spans */
    aw_rpc_answer_free(&answer);
    answer = (struct aw_rpc_answer){0};
    memset(world.bytes.bytes, 0xff, world.bytes.size);
    assert_int_equal(ask(&world, &answer), AW_RPC_INVALID_ARGUMENT);
    world.bytes.size = 0; /* an empty request is a good one */
    assert_int_equal(ask(&world, &answer), AW_RPC_OK);
    aw_rpc_answer_free(&answer);
    assert_ok(aw_collector_flush(world.collector, NULL));
    const struct aw_collector_counts counts = aw_collector_counts(world.collector);
    assert_true(counts.assembly.spans == 5 && counts.assembly.traces == 1 && counts.refused == 3);
    tear_down(&world);
}

static void a_full_collector_is_unavailable(void **state)
{
    struct spans_world world;
    struct aw_rpc_answer answer = {0};
    (void)state;
    set_up(&world, 100);
    for (uint32_t i = 0; i < 20; i++) {
        fill(&world, i + 1, 10);
        const enum aw_rpc_status status = ask(&world, &answer);
        assert_int_equal(status, i < 10 ? AW_RPC_OK : AW_RPC_UNAVAILABLE);
        if (!status)
            aw_rpc_answer_free(&answer);
        answer = (struct aw_rpc_answer){0};
    }
    assert_int_equal(aw_collector_counts(world.collector).turned_away, 10);
    tear_down(&world);
}

AW_TEST_GROUP("rpc-spans")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_taken_and_what_is_wrong_is_told),
        cmocka_unit_test(a_full_collector_is_unavailable),
    };
    return cmocka_run_group_tests_name("rpc-spans", tests, NULL, NULL);
}
