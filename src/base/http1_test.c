/* http1_test.c - heads and chunks: what is read, what is refused, whatever the pieces. */
#include "base/http1.h"

#include <stdio.h>
#include <string.h>

#include "base/testing.h"

#define HOST "Host: a\r\n"

static void a_request_is_taken_apart_without_copying(void **state)
{
    (void)state;
    static const char text[] = "POST /a/b?x=1&payload=2.5&y HTTP/1.1\r\nHost: here\r\n"
                               "Content-Length: 12\r\nX-One:  two words \t\r\n\r\nbody";
    struct aw_http1_head head;
    assert_ok(aw_http1_request(text, strlen(text), &head, NULL));
    assert_true(aw_http1_is(head.method, "POST"));
    assert_true(aw_http1_is(head.path, "/a/b"));
    assert_true(aw_http1_is(head.query, "x=1&payload=2.5&y"));
    assert_true(aw_http1_is(aw_http1_query(head.query, "payload"), "2.5"));
    assert_null(aw_http1_query(head.query, "pay").at);
    assert_null(aw_http1_query(head.query, "y").at);
    assert_true(head.keep_alive);
    assert_int_equal(head.framing, AW_HTTP1_LENGTH);
    assert_int_equal(head.length, 12);
    assert_memory_equal(text + head.bytes, "body", 4);
    assert_true(aw_http1_is(aw_http1_find(&head, "x-one"), "two words"));
    assert_null(aw_http1_find(&head, "x-two").at);
    assert_ptr_equal(head.method.at, text);
}

static void every_beginning_of_a_head_asks_for_more(void **state)
{
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct aw_http1_head head;
    for (size_t len = 0; len < sizeof request - 1; len++)
        assert_int_equal(aw_http1_request(request, len, &head, NULL), AW_ERR_NODATA);
    for (size_t len = 0; len < sizeof response - 1; len++)
        assert_int_equal(aw_http1_response(response, len, false, &head, NULL), AW_ERR_NODATA);
}

static void requests_that_two_readers_could_read_differently_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {"GET / HTTP/1.1\r\n" HOST "\r\n", AW_OK, "the plainest"},
        {"GET / HTTP/1.0\r\n\r\n", AW_OK, "HTTP/1.0 knows no Host"},
        {"GET / HTTP/1.1\r\n\r\n", AW_ERR_FORMAT, "no Host"},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", AW_ERR_FORMAT, "two Hosts"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", AW_ERR_UNSUPPORTED, "another version"},
        {"GET / FTP/1.1\r\n" HOST "\r\n", AW_ERR_FORMAT, "another protocol"},
        {"GET /\r\n" HOST "\r\n", AW_ERR_FORMAT, "HTTP/0.9"},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", AW_ERR_FORMAT, "two spaces"},
        {"G(T / HTTP/1.1\r\n" HOST "\r\n", AW_ERR_FORMAT, "a method that is no token"},
        {"GET /a\tb HTTP/1.1\r\n" HOST "\r\n", AW_ERR_FORMAT, "a tab in the path"},
        {"GET http://a/ HTTP/1.1\r\n" HOST "\r\n", AW_ERR_UNSUPPORTED, "absolute form"},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", AW_ERR_UNSUPPORTED, "asterisk form"},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", AW_ERR_FORMAT, "space before the colon"},
        {"GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", AW_ERR_FORMAT, "a folded line"},
        {"GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", AW_ERR_FORMAT, "no name"},
        {"GET / HTTP/1.1\r\n" HOST "A: b\nC: d\r\n\r\n", AW_ERR_FORMAT, "a bare line feed"},
        {"GET / HTTP/1.1\r\n" HOST "A: b\rC: d\r\n\r\n", AW_ERR_FORMAT, "a bare return"},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", AW_ERR_FORMAT,
         "two lengths"},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", AW_ERR_FORMAT, "a signed length"},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", AW_ERR_FORMAT, "an empty length"},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", AW_ERR_LIMIT,
         "a length beyond 64 bits"},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
         AW_ERR_FORMAT, "both: request smuggling"},
        {"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", AW_ERR_UNSUPPORTED,
         "another coding"},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", AW_ERR_FORMAT,
         "chunks in HTTP/1.0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_http1_head head = {.status = -7};
        struct aw_diag diag = {0};
        if (aw_http1_request(cases[i].text, strlen(cases[i].text), &head, &diag) != cases[i].err)
            fail_msg("%s: %s", cases[i].why, diag.text);
        if (cases[i].err) {
            assert_true(*diag.text);
            assert_int_equal(head.status, -7);
        }
    }
}

static void a_head_without_end_is_given_up_at_its_limit(void **state)
{
    (void)state;
    static char text[AW_HTTP1_HEAD_BYTES_MAX + 64];
    struct aw_http1_head head;
    (void)snprintf(text, sizeof text, "GET /");
    memset(text + 5, 'a', sizeof text - 5);
    assert_int_equal(aw_http1_request(text, AW_HTTP1_HEAD_BYTES_MAX - 1, &head, NULL),
                     AW_ERR_NODATA);
    assert_int_equal(aw_http1_request(text, AW_HTTP1_HEAD_BYTES_MAX, &head, NULL), AW_ERR_LIMIT);
    size_t len = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\n" HOST);
    for (uint32_t i = 1; i < AW_HTTP1_HEADERS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "A: b\r\n");
    (void)snprintf(text + len, sizeof text - len, "\r\n");
    assert_ok(aw_http1_request(text, strlen(text), &head, NULL));
    assert_int_equal(head.header_count, AW_HTTP1_HEADERS_MAX);
    (void)snprintf(text + len, sizeof text - len, "A: b\r\n\r\n");
    assert_int_equal(aw_http1_request(text, strlen(text), &head, NULL), AW_ERR_LIMIT);
}

static void keeping_a_connection_follows_version_and_header(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep;
        const char *why;
    } cases[] = {
        {"GET / HTTP/1.1\r\n" HOST "\r\n", true, "the default of 1.1"},
        {"GET / HTTP/1.0\r\n" HOST "\r\n", false, "the default of 1.0"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", false, "closed on request"},
        {"GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n", true, "kept on request"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n", false, "a list, any case"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\nConnection: keep-alive\r\n\r\n", false,
         "a close said once stays said"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_http1_head head;
        assert_ok(aw_http1_request(cases[i].text, strlen(cases[i].text), &head, NULL));
        if (head.keep_alive != cases[i].keep)
            fail_msg("%s", cases[i].why);
    }
}

static void responses_say_how_their_body_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool to_head;
        enum aw_err err;
        enum aw_http1_framing framing;
        bool keep;
        const char *why;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, AW_OK, AW_HTTP1_LENGTH, true,
         "a length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, AW_OK, AW_HTTP1_EMPTY, true,
         "the answer to HEAD has none, whatever it says"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, AW_OK, AW_HTTP1_CHUNKED,
         true, "chunks"},
        {"HTTP/1.1 200 OK\r\n\r\n", false, AW_OK, AW_HTTP1_UNTIL_CLOSE, false, "until the end"},
        {"HTTP/1.1 204 No Content\r\n\r\n", false, AW_OK, AW_HTTP1_EMPTY, true, "204 has none"},
        {"HTTP/1.1 304 \r\n\r\n", false, AW_OK, AW_HTTP1_EMPTY, true, "nor has 304"},
        {"HTTP/1.1 100 Continue\r\n\r\n", false, AW_OK, AW_HTTP1_EMPTY, true, "nor an interim one"},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, AW_OK, AW_HTTP1_LENGTH, true,
         "no reason"},
        {"HTTP/1.1 2000 OK\r\n\r\n", false, AW_ERR_FORMAT, 0, 0, "four digits"},
        {"HTTP/1.1 099 x\r\n\r\n", false, AW_ERR_FORMAT, 0, 0, "below 100"},
        {"HTTP/1.1 600 x\r\n\r\n", false, AW_ERR_FORMAT, 0, 0, "above 599"},
        {"HTTP/1.1 2x0 OK\r\n\r\n", false, AW_ERR_FORMAT, 0, 0, "not digits"},
        {"HTTP/3.0 200 OK\r\n\r\n", false, AW_ERR_UNSUPPORTED, 0, 0, "another version"},
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", false, AW_ERR_FORMAT, 0, 0, "somebody else's port"},
        {"\r\n\r\n", false, AW_ERR_FORMAT, 0, 0, "nothing at all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_http1_head head = {0};
        if (aw_http1_response(cases[i].text, strlen(cases[i].text), cases[i].to_head, &head,
                              NULL) != cases[i].err ||
            (!cases[i].err &&
             (head.framing != cases[i].framing || head.keep_alive != cases[i].keep)))
            fail_msg("%s", cases[i].why);
    }
}

/* Takes `text` in pieces of at most `step` bytes; the body goes to `body`. */
static enum aw_err chunks_all(const char *text, size_t step, char *body, size_t *ret_len,
                              size_t *ret_used)
{
    struct aw_http1_chunks chunks = {0};
    size_t at = 0, len = 0;
    const size_t all = strlen(text);
    while (at < all && !chunks.done) {
        const size_t have = all - at < step ? all - at : step;
        struct aw_http1_span data;
        size_t used = 0;
        enum aw_err err = aw_http1_chunks_take(&chunks, text + at, have, &used, &data);
        if (err)
            return err;
        assert_true(used > 0 && used <= have);
        memcpy(body + len, data.at, data.len);
        len += data.len;
        at += used;
    }
    *ret_len = len;
    *ret_used = at;
    return chunks.done ? AW_OK : AW_ERR_NODATA;
}

static void a_chunked_body_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const char text[] = "5\r\nhello\r\n1;ext=\"x\"\r\n \r\nA\r\n0123456789\r\n0\r\n"
                               "Trailer: x\r\n\r\nGET /";
    for (size_t step = 1; step < sizeof text; step++) {
        char body[64];
        size_t len = 0, used = 0;
        assert_ok(chunks_all(text, step, body, &len, &used));
        assert_int_equal(len, 16);
        assert_memory_equal(body, "hello 0123456789", 16);
        assert_int_equal(used, strlen(text) - 5); /* the next request is left alone */
    }
}

static void broken_chunks_are_refused(void **state)
{
    (void)state;
    static char line[2 * AW_HTTP1_CHUNK_LINE_MAX], trailers[2 * AW_HTTP1_TRAILER_MAX];
    memset(line, '0', sizeof line - 1);
    (void)snprintf(trailers, sizeof trailers, "0\r\nA:");
    memset(trailers + 5, 'a', sizeof trailers - 6);
    const struct {
        const char *text;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {"\r\n", AW_ERR_FORMAT, "no size"},
        {"x\r\n", AW_ERR_FORMAT, "not hexadecimal"},
        {"5\nhello", AW_ERR_FORMAT, "a bare line feed"},
        {"5\r\nhelloX\r\n", AW_ERR_FORMAT, "longer than it said"},
        {"1\r\na\rX", AW_ERR_FORMAT, "half a line end"},
        {"0\r\n bad: x\r\n\r\n", AW_ERR_FORMAT, "a folded trailer"},
        {"fffffffffffffffff\r\n", AW_ERR_LIMIT, "a size beyond 64 bits"},
        {line, AW_ERR_LIMIT, "a size line without end"},
        {trailers, AW_ERR_LIMIT, "trailers without end"},
        {"5\r\nhel", AW_ERR_NODATA, "cut off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char body[2 * AW_HTTP1_TRAILER_MAX];
        size_t len, used;
        if (chunks_all(cases[i].text, 7, body, &len, &used) != cases[i].err)
            fail_msg("%s", cases[i].why);
    }
}

AW_TEST_GROUP("http1")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_taken_apart_without_copying),
        cmocka_unit_test(every_beginning_of_a_head_asks_for_more),
        cmocka_unit_test(requests_that_two_readers_could_read_differently_are_refused),
        cmocka_unit_test(a_head_without_end_is_given_up_at_its_limit),
        cmocka_unit_test(keeping_a_connection_follows_version_and_header),
        cmocka_unit_test(responses_say_how_their_body_ends),
        cmocka_unit_test(a_chunked_body_is_the_same_however_it_is_cut),
        cmocka_unit_test(broken_chunks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
