/* server_trunk_test.c - many requests on one connection, and what a balancer may do wrong. */
#include "service/server_testing.h"

#include "base/mux_frame_testing.h"

#include <stdlib.h>
#include <time.h>

static const char upgrade[] = "GET /readyz HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\n"
                              "Upgrade: " AW_MUX_FRAME_UPGRADE "\r\n\r\n";
static struct testing_reply reply;

/* A new connection that asks to be one. Returns the status of the answer: 101 if it is. */
static int end_open(const struct echo *echo, struct trunk_end *end)
{
    *end = (struct trunk_end){.fd = echo_connect(echo)};
    testing_say(end->fd, upgrade);
    for (const char *behind = NULL; !behind;) {
        const ssize_t n = recv(end->fd, end->in + end->to, sizeof end->in - end->to, 0);
        assert_true(n > 0);
        end->to += (size_t)n;
        behind = memmem(end->in, end->to, "\r\n\r\n", 4);
        end->from = behind ? (size_t)(behind + 4 - end->in) : 0;
    }
    return (int)strtol(end->in + strlen("HTTP/1.1 "), NULL, 10);
}

static void ask(const struct trunk_end *end, uint32_t stream, const char *path)
{
    char text[128];
    const int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
    trunk_say(end, AW_MUX_FRAME_REQUEST, stream, text, (uint32_t)len, false);
}

static void expect_whole(struct trunk_end *end, uint32_t stream, const char *body)
{
    struct aw_mux_frame_frame frame;
    struct aw_http1_head head;
    assert_true(trunk_next(end, &frame));
    assert_int_equal(frame.kind, AW_MUX_FRAME_ANSWER);
    assert_int_equal(frame.stream, stream);
    assert_true(frame.last);
    assert_ok(aw_http1_response(frame.payload, frame.len, false, &head, NULL));
    assert_int_equal(head.status, 200);
    assert_true(head.keep_alive);
    assert_int_equal(head.length, strlen(body));
    assert_memory_equal(frame.payload + head.bytes, body, strlen(body));
}

static void wait_count(const _Atomic uint32_t *count, uint32_t value)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 20000 && *count != value; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(*count, value);
}

static void many_requests_at_once_are_answered_each_by_its_name(void **state)
{
    (void)state;
    static const char post[] = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello";
    struct echo echo;
    struct trunk_end end;
    echo_start(&echo, 60000000);
    assert_int_equal(end_open(&echo, &end), 101);
    for (uint32_t round = 0; round < 20; round++) {
        const uint32_t name = round << 16;
        ask(&end, name | 1, "/later");
        ask(&end, name | 2, "/");
        trunk_say(&end, AW_MUX_FRAME_REQUEST, name | 65535, post, sizeof post - 1, false);
        expect_whole(&end, name | 2, "0");
        expect_whole(&end, name | 65535, "5");
        wait_count(&echo.ended, 3 * round + 3);
        aw__server_notify(echo.server);
        expect_whole(&end, name | 1, "0");
    }
    wait_count(&echo.over_ok, 60);
    assert_int_equal(echo.over_gone, 0);
    (void)close(end.fd);
    echo_stop(&echo);
}

static void an_answer_waits_for_credit_and_holds_up_nobody(void **state)
{
    (void)state;
    struct echo echo;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    size_t got[2] = {0};
    echo_start(&echo, 60000000);
    assert_int_equal(end_open(&echo, &end), 101);
    ask(&end, 7, "/go");   /* a large one */
    ask(&end, 8, "/slow"); /* one of which a half comes later */
    while (got[0] < AW_MUX_FRAME_WINDOW || got[1] < AW_MUX_FRAME_WINDOW) {
        assert_true(trunk_next(&end, &frame));
        got[frame.stream - 7] += frame.len;
        assert_false(frame.last);
    }
    ask(&end, 9, "/");
    expect_whole(&end, 9, "0");
    bool last[2] = {false, false};
    size_t owed[2] = {AW_MUX_FRAME_WINDOW, AW_MUX_FRAME_WINDOW};
    while (!last[0] || !last[1]) {
        for (uint32_t i = 0; i < 2; i++) {
            if (owed[i] >= AW_MUX_FRAME_WINDOW / 2 && !last[i]) {
                trunk_say(&end, AW_MUX_FRAME_CREDIT, 7 + i, NULL, (uint32_t)owed[i], false);
                owed[i] = 0;
            }
        }
        assert_true(trunk_next(&end, &frame));
        const uint32_t i = frame.stream - 7;
        assert_true(i < 2);
        got[i] += frame.len;
        owed[i] += frame.len;
        assert_true(owed[i] <= AW_MUX_FRAME_WINDOW);
        if (frame.len)
            assert_int_equal(frame.payload[frame.len - 1], 'L');
        last[i] = frame.last;
    }
    assert_true(got[0] > LARGE && got[0] < LARGE + 512);
    assert_int_equal(got[0], got[1]);
    wait_count(&echo.over_ok, 3);
    (void)close(end.fd);
    echo_stop(&echo);
}

static void who_does_not_read_is_not_read_from_and_loses_nothing(void **state)
{
    (void)state;
    enum { ALL = 40000 };
    static bool answered[ALL];
    struct echo echo;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    static const char get[] = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    char bytes[AW_MUX_FRAME_HEAD_BYTES + sizeof get - 1];
    uint32_t asked = 0, got = 0, stops = 0;
    memset(answered, 0, sizeof answered);
    memcpy(bytes + AW_MUX_FRAME_HEAD_BYTES, get, sizeof get - 1);
    echo_start(&echo, 60000000);
    assert_int_equal(end_open(&echo, &end), 101);
    while (got < ALL) {
        const struct aw_mux_frame_frame put = {
            .kind = AW_MUX_FRAME_REQUEST, .stream = asked, .len = sizeof get - 1};
        aw_mux_frame_put(bytes, &put);
        ssize_t n = -1;
        if (asked < ALL && (n = send(end.fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
            testing_send(end.fd, bytes + n, sizeof bytes - (size_t)n);
            asked++;
            continue;
        }
        stops++;
        const uint32_t until = asked == ALL ? ALL : got + (asked - got + 1) / 2;
        while (got < until) {
            assert_true(trunk_next(&end, &frame));
            assert_int_equal(frame.kind, AW_MUX_FRAME_ANSWER);
            assert_true(frame.stream < asked && !answered[frame.stream]);
            answered[frame.stream] = frame.last; /* one may come in two parts */
            got += frame.last;
        }
    }
    assert_true(stops > 1); /* both sides had to wait */
    (void)close(end.fd);
    echo_stop(&echo);
    assert_int_equal(echo.over_ok, ALL);
}

static void a_request_nobody_waits_for_is_given_up(void **state)
{
    (void)state;
    struct echo echo;
    struct trunk_end end;
    echo_start(&echo, 60000000);
    assert_int_equal(end_open(&echo, &end), 101);
    ask(&end, 3, "/later");
    ask(&end, 4, "/go");
    trunk_say(&end, AW_MUX_FRAME_CANCEL, 3, NULL, 0, false);
    trunk_say(&end, AW_MUX_FRAME_CANCEL, 3, NULL, 0,
              false); /* there is none any more, which is no fault */
    trunk_say(&end, AW_MUX_FRAME_CREDIT, 3, NULL, 1, false);
    trunk_say(&end, AW_MUX_FRAME_CANCEL, 4, NULL, 0, false);
    wait_count(&echo.over_gone, 2);
    ask(&end, 3, "/"); /* the name is free again */
    struct aw_mux_frame_frame frame;
    do /* what had been said of the other before */
        assert_true(trunk_next(&end, &frame));
    while (frame.stream == 4);
    assert_int_equal(frame.stream, 3);
    assert_true(frame.last);
    (void)close(end.fd);
    echo_stop(&echo);
}

static void more_than_there_is_room_for_is_refused_without_a_look(void **state)
{
    (void)state;
    struct echo echo;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    echo_start(&echo, 60000000);
    assert_int_equal(end_open(&echo, &end), 101);
    for (uint32_t i = 0; i < CONNECTIONS; i++) /* the trunk itself has a place */
        ask(&end, i, "/later");
    assert_true(trunk_next(&end, &frame));
    assert_int_equal(frame.kind, AW_MUX_FRAME_REFUSED);
    assert_int_equal(frame.stream, CONNECTIONS - 1);
    assert_int_equal(echo.begun, CONNECTIONS - 1);
    (void)close(end.fd);
    wait_count(&echo.over_gone, CONNECTIONS - 1);
    echo_stop(&echo);
}

static void what_no_balancer_says_ends_the_trunk_and_its_streams_alone(void **state)
{
    (void)state;
    static const char half[] = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nhalf";
    static const struct {
        enum aw_mux_frame_kind kind;
        uint32_t stream, len;
        const char *payload, *why;
    } cases[] = {
        {AW_MUX_FRAME_ANSWER, 1, 0, NULL, "an answer to nothing"},
        {AW_MUX_FRAME_REFUSED, 1, 0, NULL, "a refusal of nothing"},
        {AW_MUX_FRAME_FAREWELL, 0, 0, NULL, "a farewell from who asks"},
        {AW_MUX_FRAME_CREDIT, 5, AW_MUX_FRAME_WINDOW, NULL, "more credit than there is to give"},
        {AW_MUX_FRAME_REQUEST, 5, 4, "GET ", "a name that is in use"},
        {AW_MUX_FRAME_KIND_END, 0, 0, NULL, "no frame"},
    };
    struct echo echo;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    echo_start(&echo, 60000000);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(end_open(&echo, &end), 101);
        ask(&end, 5, "/later");
        wait_count(&echo.begun, i + 1);
        trunk_say(&end, cases[i].kind, cases[i].stream, cases[i].payload, cases[i].len, false);
        if (trunk_next(&end, &frame))
            fail_msg("%s: still there", cases[i].why);
        wait_count(&echo.over_gone, i + 1);
        (void)close(end.fd);
    }
    /* of a request that is not whole or none at all its stream alone hears */
    assert_int_equal(end_open(&echo, &end), 101);
    trunk_say(&end, AW_MUX_FRAME_REQUEST, 1, half, sizeof half - 1, false);
    assert_true(trunk_next(&end, &frame));
    assert_true(frame.kind == AW_MUX_FRAME_ANSWER && frame.stream == 1 && frame.last && !frame.len);
    trunk_say(&end, AW_MUX_FRAME_REQUEST, 2, "rubbish\r\n\r\n", 11, false);
    assert_true(trunk_next(&end, &frame));
    assert_true(frame.stream == 2 && frame.last && frame.len > 12);
    assert_memory_equal(frame.payload, "HTTP/1.1 400", 12);
    ask(&end, 3, "/");
    expect_whole(&end, 3, "0");
    (void)close(end.fd);
    echo_stop(&echo);
}

static void there_is_one_trunk_and_only_on_the_unix_socket(void **state)
{
    (void)state;
    struct echo echo;
    struct trunk_end end, second;
    echo_start(&echo, 60000000);
    const int tcp = testing_connect(&echo.address);
    testing_ask(tcp, upgrade, &reply);
    assert_int_equal(reply.status, 200);
    (void)close(tcp);
    assert_int_equal(end_open(&echo, &end), 101);
    assert_int_equal(end_open(&echo, &second), 200);
    ask(&end, 1, "/");
    expect_whole(&end, 1, "0");
    (void)close(end.fd);
    (void)close(second.fd);
    for (int status = 0; status != 101; (void)close(second.fd)) /* once the first is gone */
        status = end_open(&echo, &second);
    echo_stop(&echo);
}

static void draining_says_farewell_and_answers_what_is_there(void **state)
{
    (void)state;
    struct echo echo;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    echo_start(&echo, 60000000);
    assert_int_equal(end_open(&echo, &end), 101);
    ask(&end, 1, "/later");
    wait_count(&echo.ended, 1);
    echo.has_later = false;
    echo.drain = true;
    aw__server_notify(echo.server);
    assert_true(trunk_next(&end, &frame));
    assert_int_equal(frame.kind, AW_MUX_FRAME_FAREWELL);
    ask(&end, 2, "/"); /* this has crossed with it */
    expect_whole(&end, 2, "0");
    echo.has_later = true;
    aw__server_notify(echo.server);
    expect_whole(&end, 1, "0");
    (void)close(end.fd);
    (void)pthread_join(echo.thread, NULL);
    assert_ok(echo.err);
    aw__server_free(echo.server);
    test_free(echo.large);
}

#define OVER_UNIX(test) cmocka_unit_test_setup_teardown(test, over_unix_begin, over_unix_end)

AW_TEST_GROUP("service-server-trunk")
{
    const struct CMUnitTest tests[] = {
        OVER_UNIX(many_requests_at_once_are_answered_each_by_its_name),
        OVER_UNIX(an_answer_waits_for_credit_and_holds_up_nobody),
        OVER_UNIX(who_does_not_read_is_not_read_from_and_loses_nothing),
        OVER_UNIX(a_request_nobody_waits_for_is_given_up),
        OVER_UNIX(more_than_there_is_room_for_is_refused_without_a_look),
        OVER_UNIX(what_no_balancer_says_ends_the_trunk_and_its_streams_alone),
        OVER_UNIX(there_is_one_trunk_and_only_on_the_unix_socket),
        OVER_UNIX(draining_says_farewell_and_answers_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
