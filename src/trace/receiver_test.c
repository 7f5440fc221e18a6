/* receiver_test.c - spans over HTTP to a store and back; what is too much is told to come again. */
#include "trace/receiver.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/testing.h"
#include "trace/span_store.h"
#include "trace/trace_testing.h"
#include "trace/write.h"

struct rig {
    char folder[64], store[96];
    struct aw_collector *collector;
    struct aw_receiver *receiver;
    struct aw_spans spans;
};

static void set_up(struct rig *rig, uint32_t spans_max, const char *token)
{
    *rig = (struct rig){.folder = "/tmp/aw-receiver-XXXXXX"};
    assert_non_null(mkdtemp(rig->folder));
    snprintf(rig->store, sizeof rig->store, "%s/traces.db", rig->folder);
    assert_ok(aw_spans_init(&rig->spans, 100000, NULL));
    assert_ok(aw_collector_new(
        &rig->collector, &(struct aw_collector_config){.store = rig->store, .spans_max = spans_max},
        NULL));
    struct aw_receiver_config config = {
        .address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    snprintf(config.token, sizeof config.token, "%s", token);
    assert_ok(aw_receiver_open(&rig->receiver, &config, rig->collector, NULL));
}

static void tear_down(struct rig *rig)
{
    char path[160];
    static const char *const ends[] = {"", "-wal", "-shm"};
    aw_receiver_close(rig->receiver);
    aw_collector_free(rig->collector);
    aw_spans_deinit(&rig->spans);
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", rig->store, ends[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(rig->folder), 0);
}

/* Sends one request on a connection of its own; what came back is in `reply`. The status. */
static int post(const struct rig *rig, const char *path, const char *headers, const void *body,
                size_t size, char *reply, size_t reply_size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(aw_receiver_port(rig->receiver))};
    char text[512];
    size_t used = 0;
    int status = 0;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    const int len = snprintf(text, sizeof text,
                             "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
                             "Content-Length: %zu\r\n\r\n",
                             path, headers, size);
    assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
    for (size_t sent = 0; sent < size;) {
        const ssize_t more = send(fd, (const char *)body + sent, size - sent, MSG_NOSIGNAL);
        if (more <= 0)
            break; /* it has answered already */
        sent += (size_t)more;
    }
    for (ssize_t got;
         used + 1 < reply_size && (got = recv(fd, reply + used, reply_size - 1 - used, 0)) > 0;)
        used += (size_t)got;
    reply[used] = '\0';
    close(fd);
    assert_int_equal(sscanf(reply, "HTTP/1.1 %d", &status), 1);
    return status;
}

static void fill(struct rig *rig, uint32_t requests)
{
    aw_spans_reset(&rig->spans);
    for (uint32_t i = 0; i < requests; i++) {
        testing_span(&rig->spans, i + 1, 1, 0, "front", i, i + 50, AW_SPAN_SERVER);
        testing_span(&rig->spans, i + 1, 2, 1, "front", i + 5, i + 45, AW_SPAN_CLIENT);
        testing_span(&rig->spans, i + 1, 3, 2, "orders", i + 10, i + 40, AW_SPAN_SERVER);
    }
}

static uint64_t kept(const struct rig *rig)
{
    struct aw_span_store *store = NULL;
    uint64_t count = 0;
    assert_ok(aw_span_store_open(&store, rig->store, true, NULL));
    assert_ok(aw_span_store_count(store, &count, NULL));
    aw_span_store_close(store);
    return count;
}

#define PROTOBUF "Content-Type: application/x-protobuf\r\n"
#define JSON     "Content-Type: application/json; charset=utf-8\r\n"

static void what_is_sent_is_kept(void **state)
{
    struct rig rig;
    struct aw_bytes bytes = {0};
    struct aw_spans back;
    char reply[1024];
    (void)state;
    set_up(&rig, 0, "");
    fill(&rig, 20);
    assert_ok(aw_spans_write_otlp(rig.spans.at, rig.spans.count, &rig.spans.names, &bytes));
    assert_int_equal(
        post(&rig, "/v1/traces", PROTOBUF, bytes.bytes, bytes.size, reply, sizeof reply), 200);
    assert_ok(aw_collector_tick(rig.collector, 0, NULL));
    assert_int_equal(kept(&rig), 0); /* it has not been quiet yet */
    assert_ok(aw_collector_flush(rig.collector, NULL));
    assert_int_equal(kept(&rig), 20);
    /* all of it once more is nothing new: the spans are late */
    assert_int_equal(
        post(&rig, "/v1/traces", PROTOBUF, bytes.bytes, bytes.size, reply, sizeof reply), 200);
    assert_ok(aw_collector_flush(rig.collector, NULL));
    const struct aw_collector_counts counts = aw_collector_counts(rig.collector);
    assert_int_equal(counts.assembly.traces, 20);
    assert_int_equal(counts.assembly.late, 60);
    assert_int_equal(kept(&rig), 20);
    assert_ok(aw_spans_init(&back, 1000, NULL));
    assert_ok(aw_spans_read_file(&back, rig.store, AW_SPANS_AUTO, NULL, NULL));
    assert_int_equal(back.count, 60);
    assert_string_equal(aw_names_text(&back.names, back.at[0].service), "front");
    aw_spans_deinit(&back);
    aw_alloc_free(NULL, bytes.bytes);
    tear_down(&rig);
}

static void answers_are_those_of_the_specification(void **state)
{
    static const char span[] =
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"1\",\"spanId\":\"1\","
        "\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"5\"},{\"traceId\":\"2\"}]}]}]}";
    static const char zipkin[] =
        "[{\"traceId\":\"1\",\"id\":\"2\",\"timestamp\":1,\"duration\":2}]";
    static const struct {
        const char *path, *headers, *body;
        int status;
        const char *says;
    } cases[] = {
        {"/v1/traces", PROTOBUF, "", 200, ""}, /* an empty request is a good one */
        {"/v1/traces", JSON, "{}", 200, "{}"},
        {"/v1/traces", JSON, span, 200, "\"rejectedSpans\":\"1\""},
        {"/v1/traces", JSON, "{\"resourceSpans\":3}", 400, "resourceSpans: expected a list"},
        {"/v1/traces", PROTOBUF, "\xff\xff", 400, "expected OTLP's protobuf"},
        {"/v1/traces", "Content-Type: text/plain\r\n", "x", 415, ""},
        {"/v1/traces", "", "x", 415, ""},
        {"/v1/traces", JSON "Content-Encoding: br\r\n", "x", 415, "gzip or none"},
        {"/v1/traces", JSON "Content-Encoding: gzip\r\n", "{}", 400, "gzip"},
        {"/api/v2/spans", JSON, zipkin, 202, ""},
        {"/api/v2/spans", PROTOBUF, zipkin, 415, ""},
        {"/v1/metrics", JSON, "{}", 404, "/v1/traces"},
    };
    struct rig rig;
    char reply[1024];
    (void)state;
    set_up(&rig, 0, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int status = post(&rig, cases[i].path, cases[i].headers, cases[i].body,
                                strlen(cases[i].body), reply, sizeof reply);
        if (status != cases[i].status || !strstr(reply, cases[i].says))
            fail_msg("case %zu: %s", i, reply);
    }
    const size_t size = AW_RECEIVER_BODY_MAX + 1;
    char *large = calloc(1, size);
    assert_int_equal(post(&rig, "/v1/traces", PROTOBUF, large, size, reply, sizeof reply), 413);
    free(large);
    tear_down(&rig);
}

static void who_has_no_token_is_turned_away(void **state)
{
    struct rig rig;
    char reply[1024];
    struct aw_receiver *receiver = NULL;
    struct aw_diag diag = {0};
    (void)state;
    set_up(&rig, 0, "a token of some length");
    assert_int_equal(post(&rig, "/v1/traces", JSON, "{}", 2, reply, sizeof reply), 401);
    assert_int_equal(post(&rig, "/v1/traces",
                          JSON "Authorization: Bearer a token of some lengtH\r\n", "{}", 2, reply,
                          sizeof reply),
                     401);
    assert_int_equal(post(&rig, "/v1/traces",
                          JSON "Authorization: Bearer a token of some length\r\n", "{}", 2, reply,
                          sizeof reply),
                     200);
    struct aw_receiver_config open = {
        .address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)}};
    assert_int_equal(aw_receiver_open(&receiver, &open, rig.collector, &diag), AW_ERR_USAGE);
    assert_non_null(strstr(diag.text, "--token-file is required"));
    tear_down(&rig);
}

static void a_flood_is_told_to_come_again_and_costs_nobody_else(void **state)
{
    struct rig rig;
    struct aw_bytes bytes = {0};
    char reply[1024];
    uint32_t turned_away = 0;
    (void)state;
    set_up(&rig, 100, "");
    fill(&rig, 1);
    assert_ok(aw_spans_write_otlp(rig.spans.at, rig.spans.count, &rig.spans.names, &bytes));
    assert_int_equal(
        post(&rig, "/v1/traces", PROTOBUF, bytes.bytes, bytes.size, reply, sizeof reply), 200);
    for (uint32_t i = 0; i < 100; i++) {
        aw_spans_reset(&rig.spans);
        bytes.size = 0;
        for (uint32_t k = 0; k < 10; k++)
            testing_span(&rig.spans, 1000 + i, k + 1, 0, "noise", 0, 1, AW_SPAN_SERVER);
        assert_ok(aw_spans_write_otlp(rig.spans.at, rig.spans.count, &rig.spans.names, &bytes));
        const int status =
            post(&rig, "/v1/traces", PROTOBUF, bytes.bytes, bytes.size, reply, sizeof reply);
        assert_true(status == 200 || status == 429);
        turned_away += status == 429;
        if (status == 429)
            assert_non_null(strcasestr(reply, "Retry-After: 1"));
    }
    assert_true(turned_away > 80);
    assert_ok(aw_collector_flush(rig.collector, NULL));
    const struct aw_collector_counts counts = aw_collector_counts(rig.collector);
    assert_int_equal(counts.turned_away, turned_away);
    assert_int_equal(counts.waiting, 0);
    struct aw_spans back;
    uint32_t whole = 0;
    assert_ok(aw_spans_init(&back, 1000, NULL));
    assert_ok(aw_spans_read_file(&back, rig.store, AW_SPANS_AUTO, NULL, NULL));
    for (uint32_t i = 0; i < back.count; i++)
        whole += back.at[i].trace_lo == 1;
    assert_int_equal(whole, 3);
    aw_spans_deinit(&back);
    aw_alloc_free(NULL, bytes.bytes);
    tear_down(&rig);
}

static void old_requests_go_and_the_graph_stays_right(void **state)
{
    struct rig rig;
    struct aw_request_builder *builder = NULL;
    struct aw_span_store *store = NULL;
    struct aw_request request;
    uint64_t count = 0;
    (void)state;
    set_up(&rig, 0, "");
    fill(&rig, 30);
    aw_receiver_close(rig.receiver);
    aw_collector_free(rig.collector);
    rig.receiver = NULL;
    rig.collector = NULL;
    assert_ok(aw_request_builder_new(&builder, 16, NULL));
    assert_ok(aw_span_store_open(&store, rig.store, false, NULL));
    for (uint32_t twice = 0; twice < 2; twice++) {
        assert_ok(aw_span_store_begin(store, NULL));
        for (uint32_t i = 0; i < 30; i++) {
            assert_ok(aw_request_build(builder, rig.spans.at + 3 * (size_t)i, 3, NULL, &request));
            assert_ok(aw_span_store_add(store, &request, rig.spans.at[0].service, &rig.spans.names,
                                        NULL));
        }
        assert_ok(aw_span_store_commit(store, NULL));
    }
    assert_ok(aw_span_store_count(store, &count, NULL));
    assert_int_equal(count, 30); /* the second time is nothing new */
    assert_ok(aw_span_store_retain(store, T0 + 10 * MS, 0, NULL));
    assert_ok(aw_span_store_count(store, &count, NULL));
    assert_int_equal(count, 20);
    assert_ok(aw_span_store_retain(store, 0, 5, NULL));
    assert_ok(aw_span_store_count(store, &count, NULL));
    assert_int_equal(count, 5);
    aw_span_store_close(store);
    aw_request_builder_free(builder);
    tear_down(&rig);
}

static void *sender(void *ctx)
{
    const struct rig *rig = ctx;
    char reply[1024];
    for (uint32_t i = 0; i < 50; i++) {
        char body[256];
        const int len = snprintf(body, sizeof body,
                                 "[{\"traceId\":\"%lx%x\",\"id\":\"1\",\"timestamp\":5,"
                                 "\"duration\":9}]",
                                 (unsigned long)(uintptr_t)reply & 0xffffff, i + 1);
        if (post(rig, "/api/v2/spans", JSON, body, (size_t)len, reply, sizeof reply) != 202)
            return ctx;
    }
    return NULL;
}

static void many_senders_at_once_lose_nothing(void **state)
{
    struct rig rig;
    pthread_t threads[4];
    (void)state;
    set_up(&rig, 0, "");
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sender, &rig), 0);
    for (uint32_t i = 0; i < 4; i++) {
        void *failed = NULL;
        assert_ok(aw_collector_tick(rig.collector, 0, NULL));
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(aw_collector_counts(rig.collector).assembly.spans, 200);
    tear_down(&rig);
}

AW_TEST_GROUP("trace-receiver")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_is_kept),
        cmocka_unit_test(answers_are_those_of_the_specification),
        cmocka_unit_test(who_has_no_token_is_turned_away),
        cmocka_unit_test(a_flood_is_told_to_come_again_and_costs_nobody_else),
        cmocka_unit_test(old_requests_go_and_the_graph_stays_right),
        cmocka_unit_test(many_senders_at_once_lose_nothing),
    };
    return cmocka_run_group_tests_name("trace-receiver", tests, NULL, NULL);
}
