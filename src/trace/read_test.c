/* read_test.c - the same trace out of every format; refusals say where; what is written is read. */
#include "trace/read.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/testing.h"
#include "trace/trace_testing.h"
#include "trace/write.h"

static const char *golden(const char *name)
{
    static char path[4096];
    const char *root = getenv("AW_TESTDATA");
    snprintf(path, sizeof path, "%s/golden/trace/%s", root ? root : "tests", name);
    return path;
}

static const struct aw_span *by_id(const struct aw_spans *spans, uint64_t id)
{
    for (uint32_t i = 0; i < spans->count; i++) {
        if (spans->at[i].id == id)
            return &spans->at[i];
    }
    fail_msg("no span %jx", (uintmax_t)id);
    return NULL;
}

#define NAME(field) aw_names_text(&spans.names, (field))

static void every_format_gives_the_same_trace(void **state)
{
    static const struct {
        const char *file;
        enum aw_span_format format;
    } cases[] = {{"otlp.bin", AW_SPANS_OTLP},
                 {"otlp.json", AW_SPANS_OTLP_JSON},
                 {"jaeger.json", AW_SPANS_JAEGER}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_spans spans;
        enum aw_span_format format = AW_SPANS_AUTO;
        struct aw_diag diag = {0};
        assert_ok(aw_spans_init(&spans, 100, NULL));
        assert_ok(aw_spans_read_file(&spans, golden(cases[i].file), AW_SPANS_AUTO, &format, &diag));
        assert_int_equal(format, cases[i].format);
        assert_int_equal(spans.count, 3);
        const struct aw_span *root = by_id(&spans, 0xeee19b7ec3c1b174);
        assert_true(root->trace_hi == 0x5b8efff798038103 && root->trace_lo == 0xd269b633813fc60c);
        assert_int_equal(root->parent, 0);
        assert_string_equal(NAME(root->service), "front");
        assert_string_equal(NAME(root->instance), "front-6f6cfc45b-h5m2n");
        assert_string_equal(NAME(root->operation), "GET /cart");
        assert_int_equal(root->kind, AW_SPAN_SERVER);
        assert_true(root->start_ns == T0 && root->end_ns == T0 + 100 * MS);
        const struct aw_span *client = by_id(&spans, 2);
        assert_true(client->parent == root->id && client->kind == AW_SPAN_CLIENT);
        assert_string_equal(NAME(client->peer), "orders");
        assert_int_equal(client->resend, 2);
        assert_int_equal(client->flags, 0);
        const struct aw_span *server = by_id(&spans, 3);
        assert_string_equal(NAME(server->instance), "orders-1");
        assert_int_equal(server->flags, AW_SPAN_ERROR);
        assert_true(server->start_ns == T0 + 20 * MS && server->end_ns == T0 + 80 * MS);
        aw_spans_deinit(&spans);
    }
}

static void halves_that_share_an_id_are_two_spans(void **state)
{
    struct aw_spans spans;
    struct aw_request_builder *builder = NULL;
    struct aw_request request;
    enum aw_span_format format;
    (void)state;
    assert_ok(aw_spans_init(&spans, 100, NULL));
    assert_ok(aw_spans_read_file(&spans, golden("zipkin.json"), AW_SPANS_AUTO, &format, NULL));
    assert_int_equal(format, AW_SPANS_ZIPKIN);
    assert_int_equal(spans.count, 4);
    assert_string_equal(NAME(spans.at[0].instance), "10.0.0.7:80");
    assert_ok(aw_request_builder_new(&builder, 16, NULL));
    assert_ok(aw_request_build(builder, spans.at, spans.count, NULL, &request));
    assert_int_equal(request.counts.duplicate, 0);
    assert_int_equal(request.nodes[2].parent, 1); /* the server's half below the client's */
    assert_int_equal(request.nodes[3].parent, 2); /* what it calls, below the server's */
    assert_int_equal(request.nodes[1].exclusive_ns, 20 * MS);
    aw_request_builder_free(builder);
    aw_spans_deinit(&spans);
}

static void a_resource_may_stand_behind_its_spans(void **state)
{
    struct aw_spans spans;
    struct aw_bytes bytes = {0};
    struct aw_spans turned;
    (void)state;
    assert_ok(aw_spans_init(&spans, 10, NULL));
    assert_ok(aw_spans_init(&turned, 10, NULL));
    testing_span(&spans, 1, 1, 0, "front", 0, 5, AW_SPAN_SERVER);
    assert_ok(aw_spans_write_otlp(spans.at, spans.count, &spans.names, &bytes));
    /* 1 + 5 bytes of head; then resource and scope_spans, whose heads are 1 + 5 each */
    uint8_t *at = bytes.bytes + 6;
    size_t resource = 6 + (size_t)(at[1] & 0x7f), rest = bytes.size - 6 - resource;
    uint8_t *copy = malloc(bytes.size);
    memcpy(copy, bytes.bytes, 6);
    memcpy(copy + 6, at + resource, rest);
    memcpy(copy + 6 + rest, at, resource);
    assert_ok(aw_spans_read_otlp(&turned, "turned", copy, bytes.size, NULL));
    assert_int_equal(turned.count, 1);
    assert_string_equal(aw_names_text(&turned.names, turned.at[0].service), "front");
    free(copy);
    aw_alloc_free(NULL, bytes.bytes);
    aw_spans_deinit(&spans);
    aw_spans_deinit(&turned);
}

static void csv_is_read_packed_and_by_its_heads(void **state)
{
    static const char text[] =
        "Extra,ParentID,TraceID,SpanID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano\n"
        "x,root,b0103bb0161ad7fa352fe1828eeb643a,520b067330e3ede5,ts-a-service-6f6cfc45b-h5m2n,/*,"
        "1674981768697000000,1674981769015316530\r\n"
        "x,520b067330e3ede5,b0103bb0161ad7fa352fe1828eeb643a,1,db,\"get, one\","
        "1674981768697763387,1674981769015072039\n";
    struct aw_spans spans;
    char path[] = "/tmp/aw-trace-XXXXXX";
    const int fd = mkstemp(path);
    gzFile file = gzdopen(fd, "wb");
    (void)state;
    assert_true(gzwrite(file, text, sizeof text - 1) > 0);
    gzclose(file);
    assert_ok(aw_spans_init(&spans, 100, NULL));
    assert_ok(aw_spans_read_file(&spans, path, AW_SPANS_AUTO, NULL, NULL));
    unlink(path);
    assert_int_equal(spans.count, 2);
    assert_string_equal(NAME(spans.at[0].service), "ts-a-service");
    assert_string_equal(NAME(spans.at[0].instance), "ts-a-service-6f6cfc45b-h5m2n");
    assert_int_equal(spans.at[0].parent, 0);
    assert_string_equal(NAME(spans.at[1].service), "db");
    assert_string_equal(NAME(spans.at[1].operation), "get, one");
    assert_true(spans.at[1].parent == 0x520b067330e3ede5);
    aw_spans_deinit(&spans);
}

static void a_refusal_says_where_and_leaves_the_list_alone(void **state)
{
    static const struct {
        const char *text, *key, *found;
        uint32_t line;
    } cases[] = {
        {"{\"resourceSpans\":[]}\n{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":"
         "\"xyz\"}]}]}]}",
         "resourceSpans[0].scopeSpans[0].spans[0].traceId", "found \"xyz\"", 2},
        {"{\"resourceSpans\": [1, }", "", "expected JSON", 1},
        {"{\"resourceSpans\": 3}", "resourceSpans", "expected a list, found 3", 1},
        {"{\"data\":[{\"traceID\":\"1\",\"spans\":[{\"traceID\":\"1\",\"spanID\":\"1\","
         "\"startTime\":\"soon\"}]}]}",
         "data[0].spans[0].startTime", "found \"soon\"", 1},
        {"[{\"traceId\":\"1\",\"id\":\"1\",\"duration\":-5}]", "[0].duration", "found -5", 1},
        {"TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano\n"
         "1,2,root,p,o,now,1\n",
         "StartTimeUnixNano", "found \"now\"", 2},
        {"TraceID,SpanID\n", "ParentID", "expected a column of this name", 1},
        {"TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano\n1,2\n",
         "", "expected 7 cells, found 2", 2},
        {"hello", "", "found none of them", 1},
        {"\n\xff\xff", "", "expected", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_spans spans;
        struct aw_diag diag = {0};
        assert_ok(aw_spans_init(&spans, 100, NULL));
        testing_span(&spans, 1, 1, 0, "a", 0, 1, 0);
        const enum aw_err err = aw_spans_read(&spans, "in", cases[i].text, strlen(cases[i].text),
                                              AW_SPANS_AUTO, NULL, &diag);
        assert_int_equal(err, AW_ERR_FORMAT);
        assert_string_equal(diag.key, cases[i].key);
        if (!strstr(diag.text, cases[i].found))
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, diag.text, cases[i].found);
        if (cases[i].line)
            assert_int_equal(diag.line, cases[i].line);
        assert_int_equal(spans.count, 1);
        aw_spans_deinit(&spans);
    }
}

static void protobuf_that_is_cut_anywhere_is_refused_or_shorter(void **state)
{
    char *bytes = NULL;
    size_t size = 0;
    struct aw_spans spans;
    (void)state;
    assert_ok(aw_file_read(golden("otlp.bin"), 1 << 20, NULL, &bytes, &size, NULL));
    assert_ok(aw_spans_init(&spans, 100, NULL));
    for (size_t cut = 0; cut < size; cut++) {
        char *exact = malloc(cut + !cut); /* of the very size: a sanitizer sees a step beyond */
        memcpy(exact, bytes, cut);
        const enum aw_err err = aw_spans_read_otlp(&spans, "cut", exact, cut, NULL);
        assert_true(err == AW_ERR_FORMAT ? spans.count == 0 : spans.count < 3);
        aw_spans_reset(&spans);
        free(exact);
    }
    aw_alloc_free(NULL, bytes);
    aw_spans_deinit(&spans);
}

static void what_is_written_is_read(void **state)
{
    struct aw_rng rng;
    (void)state;
    aw_rng_init(&rng, 3, 0);
    for (uint32_t round = 0; round < 50; round++) {
        struct aw_spans spans, back, text;
        struct aw_bytes bytes = {0};
        char *json = NULL;
        size_t json_size = 0;
        assert_ok(aw_spans_init(&spans, 1000, NULL));
        assert_ok(aw_spans_init(&back, 1000, NULL));
        assert_ok(aw_spans_init(&text, 1000, NULL));
        testing_random_trace(&spans, &rng, round + 1, 1 + aw_rng_below(&rng, 60));
        for (uint32_t i = 0; i < spans.count; i++) {
            spans.at[i].flags &= AW_SPAN_ERROR;
            spans.at[i].id = i + 1;
            spans.at[i].parent = spans.at[i].parent == i + 1 ? 0 : spans.at[i].parent;
            spans.at[i].peer = aw_rng_below(&rng, 2) ? spans.at[0].service : 0;
            spans.at[i].resend = (uint16_t)aw_rng_below(&rng, 3);
        }
        assert_ok(aw_spans_write_otlp(spans.at, spans.count, &spans.names, &bytes));
        assert_ok(aw_spans_read_otlp(&back, "back", bytes.bytes, bytes.size, NULL));
        FILE *out = open_memstream(&json, &json_size);
        assert_ok(aw_spans_write_json(spans.at, spans.count, &spans.names, out));
        fclose(out);
        assert_ok(aw_spans_read(&text, "text", json, json_size, AW_SPANS_AUTO, NULL, NULL));
        assert_int_equal(back.count, spans.count);
        assert_int_equal(text.count, spans.count);
        for (uint32_t i = 0; i < spans.count; i++) {
            struct aw_span want = spans.at[i], got[2] = {back.at[i], text.at[i]};
            const struct aw_names *names[2] = {&back.names, &text.names};
            for (uint32_t k = 0; k < 2; k++) {
                assert_string_equal(aw_names_text(names[k], got[k].service),
                                    aw_names_text(&spans.names, want.service));
                assert_string_equal(aw_names_text(names[k], got[k].instance),
                                    aw_names_text(&spans.names, want.instance));
                assert_string_equal(aw_names_text(names[k], got[k].peer),
                                    aw_names_text(&spans.names, want.peer));
                got[k].service = got[k].instance = got[k].operation = got[k].peer = 0;
            }
            want.service = want.instance = want.operation = want.peer = 0;
            assert_memory_equal(&want, &got[0], sizeof want);
            assert_memory_equal(&want, &got[1], sizeof want);
        }
        free(json);
        aw_alloc_free(NULL, bytes.bytes);
        aw_spans_deinit(&spans);
        aw_spans_deinit(&back);
        aw_spans_deinit(&text);
    }
}

static void a_bomb_is_refused_at_its_limit(void **state)
{
    static char zeros[1 << 20];
    unsigned char packed[8192];
    z_stream stream = {.next_in = (unsigned char *)zeros,
                       .avail_in = sizeof zeros,
                       .next_out = packed,
                       .avail_out = sizeof packed};
    char *out = NULL;
    size_t size = 0;
    struct aw_diag diag = {0};
    (void)state;
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const size_t packed_size = sizeof packed - stream.avail_out;
    deflateEnd(&stream);
    assert_int_equal(
        aw_packed_inflate("bomb", packed, packed_size, 100000, NULL, &out, &size, &diag),
        AW_ERR_LIMIT);
    assert_ok(
        aw_packed_inflate("bomb", packed, packed_size, sizeof zeros, NULL, &out, &size, &diag));
    assert_int_equal(size, sizeof zeros);
    aw_alloc_free(NULL, out);
    assert_int_equal(
        aw_packed_inflate("cut", packed, packed_size / 2, sizeof zeros, NULL, &out, &size, &diag),
        AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "cut"));
}

static void names_are_kept_once_and_made_showable(void **state)
{
    struct aw_names names;
    char text[AW_NAME_BYTES_MAX * 2];
    (void)state;
    assert_ok(aw_names_init(&names, NULL));
    const uint32_t a = aw_names_add(&names, "orders", 6), b = aw_names_add(&names, "order", 5);
    assert_int_equal(aw_names_add(&names, "orders and more", 6), a);
    assert_int_not_equal(a, b);
    assert_int_equal(aw_names_find(&names, "orders"), a);
    assert_int_equal(aw_names_find(&names, "nobody"), AW_NAME_NONE);
    assert_string_equal(aw_names_text(&names, aw_names_add(&names, "a\x1b[2J\xff\xc3\xa4", 8)),
                        "a?[2J?\xc3\xa4");
    memset(text, 'x', sizeof text);
    assert_int_equal(strlen(aw_names_text(&names, aw_names_add(&names, text, sizeof text))),
                     AW_NAME_BYTES_MAX - 1);
    for (uint32_t i = 0; i < AW_NAMES_MAX + 10; i++) {
        const int len = snprintf(text, sizeof text, "name %u", i);
        aw_names_add(&names, text, (size_t)len);
    }
    assert_int_equal(aw_names_add(&names, "one more", 8), AW_NAME_OTHER);
    assert_string_equal(aw_names_text(&names, AW_NAME_OTHER), "(other)");
    assert_int_equal(aw_names_add(&names, "orders", 6), a);
    assert_true(names.refused > 0);
    aw_names_deinit(&names);
}

static void a_full_list_drops_and_counts(void **state)
{
    struct aw_spans spans;
    (void)state;
    assert_ok(aw_spans_init(&spans, 3, NULL));
    for (uint32_t i = 0; i < 5; i++) {
        struct aw_span *span = aw_spans_push(&spans);
        assert_int_equal(span != NULL, i < 3);
    }
    assert_int_equal(spans.dropped, 2);
    aw_spans_judge(&spans); /* it has no ids */
    assert_int_equal(spans.count, 2);
    assert_int_equal(spans.refused, 1);
    aw_spans_deinit(&spans);
}

AW_TEST_GROUP("trace-read")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_same_trace),
        cmocka_unit_test(halves_that_share_an_id_are_two_spans),
        cmocka_unit_test(a_resource_may_stand_behind_its_spans),
        cmocka_unit_test(csv_is_read_packed_and_by_its_heads),
        cmocka_unit_test(a_refusal_says_where_and_leaves_the_list_alone),
        cmocka_unit_test(protobuf_that_is_cut_anywhere_is_refused_or_shorter),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_bomb_is_refused_at_its_limit),
        cmocka_unit_test(names_are_kept_once_and_made_showable),
        cmocka_unit_test(a_full_list_drops_and_counts),
    };
    return cmocka_run_group_tests_name("trace-read", tests, NULL, NULL);
}
