/* frame_test.c - framing of HTTP/1.1 against a simple twin. */
#include "cluster/local/frame.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void heads_are_read_as_the_standard_says(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool response, to_head;
        enum aw__frame_result result;
        uint32_t body;
        bool keep_alive;
        const char *why;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0, 0, AW__FRAME_OK, AW_HTTP1_EMPTY, true, "no body"},
        {"GET / HTTP/1.1\r\n", 0, 0, AW__FRAME_MORE, 0, false, "not complete"},
        {"GET / HTTP/1.0\r\n\r\n", 0, 0, AW__FRAME_OK, AW_HTTP1_EMPTY, false, "1.0 closes"},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 0, 0, AW__FRAME_OK, AW_HTTP1_EMPTY,
         true, "1.0 unless it says otherwise"},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: te, CLOSE\r\n\r\n", 0, 0, AW__FRAME_OK,
         AW_HTTP1_EMPTY, false, "a word in a list"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", 0, 0, AW__FRAME_OK,
         AW_HTTP1_LENGTH, true, "a length"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nContent-Length: 10\r\n\r\n", 0, 0,
         AW__FRAME_BAD, 0, false, "the same length twice"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nContent-Length: 11\r\n\r\n", 0, 0,
         AW__FRAME_BAD, 0, false, "two lengths"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false,
         "a sign"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false,
         "no digits"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 0, AW__FRAME_OK,
         AW_HTTP1_CHUNKED, true, "chunks"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 0, 0,
         AW__FRAME_OTHER, 0, false, "an encoding that is not ours to undo"},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false,
         "chunks before there were any"},
        {"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false,
         "folded"},
        {"GET / HTTP/1.1\nA: b\r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false, "a bare line feed"},
        {"GET  HTTP/1.1\r\nHost: x\r\n\r\n", 0, 0, AW__FRAME_OTHER, 0, false, "no path"},
        {"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 0, 0, AW__FRAME_OTHER, 0, false, "a tunnel"},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 0, 0, AW__FRAME_OTHER, 0, false, "a version"},
        {"GET / HTTP/1.1\r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false, "nobody's host"},
        {"GET\r\n\r\n", 0, 0, AW__FRAME_BAD, 0, false, "HTTP/0.9"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 1, 0, AW__FRAME_OK, AW_HTTP1_LENGTH, true,
         "a length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 1, 1, AW__FRAME_OK, AW_HTTP1_EMPTY, true,
         "to HEAD there is no body"},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 1, 0, AW__FRAME_OK,
         AW_HTTP1_EMPTY, true, "nor with 304"},
        {"HTTP/1.1 100 Continue\r\n\r\n", 1, 0, AW__FRAME_OK, AW_HTTP1_EMPTY, true, "interim"},
        {"HTTP/1.1 200 OK\r\n\r\n", 1, 0, AW__FRAME_OK, AW_HTTP1_UNTIL_CLOSE, false, "to the end"},
        {"HTTP/1.1 2x0 OK\r\n\r\n", 1, 0, AW__FRAME_BAD, 0, false, "no status"},
        {"ICY 200 OK......\r\n\r\n", 1, 0, AW__FRAME_BAD, 0, false, "another protocol"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw__frame_head head = {0};
        const size_t len = strlen(cases[i].text);
        const enum aw__frame_result result =
            cases[i].response ? aw__frame_response(cases[i].text, len, cases[i].to_head, &head)
                              : aw__frame_request(cases[i].text, len, &head);
        if (result != cases[i].result ||
            (result == AW__FRAME_OK && (head.body != cases[i].body || head.bytes != len ||
                                        head.keep_alive != cases[i].keep_alive)))
            fail_msg("%s", cases[i].why);
    }
}

static void a_head_has_a_largest_size(void **state)
{
    (void)state;
    static char text[2 * AW_HTTP1_HEAD_BYTES_MAX];
    struct aw__frame_head head = {0};
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    assert_int_equal(aw__frame_request(text, AW_HTTP1_HEAD_BYTES_MAX - 1, &head), AW__FRAME_MORE);
    assert_int_equal(aw__frame_request(text, sizeof text, &head), AW__FRAME_LARGE);
    assert_int_equal(aw__frame_response(text, sizeof text, false, &head), AW__FRAME_LARGE);
    assert_int_equal(head.bytes, 0);
}

/* However the bytes are cut into pieces, the body ends at the same place. */
static void chunks_end_where_they_end_however_they_arrive(void **state)
{
    (void)state;
    static const char body[] = "5\r\nhello\r\n10;ext=\"1\"\r\n0123456789abcdef\r\n0\r\nA: "
                               "b\r\nC: d\r\n\r\n";
    static const char text[] = "5\r\nhello\r\n10;ext=\"1\"\r\n0123456789abcdef\r\n0\r\nA: "
                               "b\r\nC: d\r\n\r\nGET / HTTP/1.1";
    const struct aw__frame_head head = {.body = AW_HTTP1_CHUNKED};
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    for (int round = 0; round < 2000; round++) {
        struct aw__frame frame;
        size_t at = 0;
        aw__frame_begin(&frame, &head);
        while (at < sizeof text - 1 && !frame.done) {
            size_t used, piece = 1 + (size_t)(aw_rng_double(&rng) * 9);
            piece = piece < sizeof text - 1 - at ? piece : sizeof text - 1 - at;
            assert_true(aw__frame_take(&frame, text + at, piece, &used));
            assert_true(used == piece || frame.done);
            at += used;
        }
        assert_true(frame.done);
        assert_int_equal(at, sizeof body - 1);
    }
}

static void mangled_chunks_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "g\r\n",          "\r\n",    "5\nhello", "5\r\nhelloX",
        "1\r\na\rX",      "0\r\n\n", "5;a\nb",   "fffffffffffffffff\r\n",
        "0\r\nA: b\n\r\n"};
    const struct aw__frame_head head = {.body = AW_HTTP1_CHUNKED};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct aw__frame frame;
        size_t used;
        aw__frame_begin(&frame, &head);
        if (aw__frame_take(&frame, texts[i], strlen(texts[i]), &used))
            fail_msg("taken: %zu", i);
    }
}

static void any_bytes_at_all_are_survived(void **state)
{
    (void)state;
    static const char letters[] = "GETPOS /HTP1.0\r\n:;,chunkedlengtha5f \t\0\xff";
    struct aw_rng rng;
    char text[256];
    aw_rng_init(&rng, 9, 0);
    for (int round = 0; round < 20000; round++) {
        struct aw__frame_head head = {0};
        const size_t len = (size_t)(aw_rng_double(&rng) * (sizeof text - 4));
        for (size_t i = 0; i < len; i++)
            text[i] = letters[(size_t)(aw_rng_double(&rng) * (sizeof letters - 1))];
        memcpy(text + len, "\r\n\r\n", 4);
        (void)aw__frame_request(text, len + 4, &head);
        assert_true(head.bytes <= len + 4);
        (void)aw__frame_response(text, len + 4, false, &head);
        struct aw__frame frame;
        size_t used = 0;
        aw__frame_begin(&frame, &(struct aw__frame_head){.body = AW_HTTP1_CHUNKED});
        if (aw__frame_take(&frame, text, len, &used))
            assert_true(used <= len);
    }
}

AW_TEST_GROUP("local-frame")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_read_as_the_standard_says),
        cmocka_unit_test(a_head_has_a_largest_size),
        cmocka_unit_test(chunks_end_where_they_end_however_they_arrive),
        cmocka_unit_test(mangled_chunks_are_refused),
        cmocka_unit_test(any_bytes_at_all_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
