/* server_test.c - what clients may do to the server, and what it does to them. */
#include "service/server_testing.h"

#include <sys/resource.h>
#include <time.h>

static struct testing_reply reply;

static void a_connection_carries_many_requests(void **state)
{
    (void)state;
    struct echo echo;
    echo_start(&echo, 60000000);
    const int fd = echo_connect(&echo);
    for (uint32_t i = 0; i < 50; i++) {
        testing_ask(fd, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello", &reply);
        assert_int_equal(reply.status, 200);
        assert_memory_equal(reply.body, "5", 1);
    }
    /* several at once are answered in their order */
    testing_ask(fd,
                "GET / HTTP/1.1\r\nHost: t\r\n\r\n"
                "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n."
                "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
                &reply);
    assert_memory_equal(reply.body, "0", 1);
    testing_receive(fd, &reply);
    assert_memory_equal(reply.body, "1", 1);
    testing_receive(fd, &reply);
    assert_false(reply.keep_alive);
    assert_true(testing_closed(fd));
    (void)close(fd);
    echo_stop(&echo);
    assert_int_equal(echo.begun, 53);
    assert_int_equal(echo.over_ok, 53);
    assert_int_equal(echo.over_gone, 0);
}

static void a_body_arrives_whole_however_it_is_sent(void **state)
{
    (void)state;
    struct echo echo;
    static char bulk[200000];
    echo_start(&echo, 60000000);
    const int fd = echo_connect(&echo);
    const char *chunked = "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    for (const char *c = chunked; *c; c++) /* a byte at a time */
        testing_send(fd, c, 1);
    testing_receive(fd, &reply);
    assert_memory_equal(reply.body, "11", 2);
    memset(bulk, 'b', sizeof bulk);
    testing_say(fd, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n");
    testing_send(fd, bulk, sizeof bulk);
    testing_receive(fd, &reply);
    assert_int_equal(reply.body_len, 6);
    assert_memory_equal(reply.body, "200000", 6);
    /* one that waits to be told is told */
    const char *waits =
        "POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    char go_on[26] = "";
    testing_say(fd, waits);
    assert_int_equal(recv(fd, go_on, 25, MSG_WAITALL), 25);
    assert_string_equal(go_on, "HTTP/1.1 100 Continue\r\n\r\n");
    testing_ask(fd, "ok", &reply);
    assert_memory_equal(reply.body, "2", 1);
    (void)close(fd);
    echo_stop(&echo);
}

static void what_is_not_http_is_told_so_and_hung_up_on(void **state)
{
    (void)state;
    static char long_head[AW_HTTP1_HEAD_BYTES_MAX + 10];
    snprintf(long_head, sizeof long_head, "GET /");
    memset(long_head + 5, 'a', sizeof long_head - 6);
    const struct {
        const char *text;
        int status;
        const char *why;
    } cases[] = {
        {"hello\r\n\r\n", 400, "not HTTP"},
        {"GET / HTTP/1.1\r\n\r\n", 400, "no Host"},
        {"GET / HTTP/9.9\r\nHost: t\r\n\r\n", 501, "a version of its own"},
        {"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         400, "two lengths"},
        {"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400,
         "chunks that are none"},
        {long_head, 413, "a head without end"},
        {"GET /no HTTP/1.1\r\nHost: t\r\n\r\n", 501, "refused by the handler at its head"},
        {"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nno! never", 413,
         "refused by the handler in its body"},
    };
    struct echo echo;
    echo_start(&echo, 60000000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int fd = echo_connect(&echo);
        testing_ask(fd, cases[i].text, &reply);
        if (reply.status != cases[i].status || reply.keep_alive)
            fail_msg("%s: %d", cases[i].why, reply.status);
        assert_true(testing_closed(fd));
        (void)close(fd);
    }
    testing_get(&echo.address, "/", &reply); /* and the next one is served as ever */
    assert_int_equal(reply.status, 200);
    echo_stop(&echo);
    assert_int_equal(echo.over_ok + echo.over_gone, echo.begun);
}

static void large_answers_and_answers_in_parts_arrive_whole(void **state)
{
    (void)state;
    struct echo echo;
    static char all[LARGE + 4096];
    echo_start(&echo, 60000000);
    static const char *const paths[] = {"/great", "/slow"};
    for (uint32_t i = 0; i < 2; i++) {
        char request[128];
        size_t have = 0;
        const int fd = echo_connect(&echo);
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
                 paths[i]);
        testing_say(fd, request);
        testing_nap(10000); /* longer than its socket takes */
        for (ssize_t n; (n = recv(fd, all + have, sizeof all - have, 0)) > 0;)
            have += (size_t)n;
        struct aw_http1_head head;
        assert_ok(aw_http1_response(all, have, false, &head, NULL));
        assert_int_equal(head.length, LARGE);
        assert_int_equal(have, head.bytes + LARGE);
        assert_true(all[head.bytes] == 'L' && all[have - 1] == 'L');
        (void)close(fd);
    }
    /* HEAD is answered alike, without the body */
    const int fd = echo_connect(&echo);
    testing_say(fd, "HEAD / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    ssize_t n = recv(fd, all, sizeof all, MSG_WAITALL);
    assert_true(n > 4 && !memcmp(all + n - 4, "\r\n\r\n", 4));
    (void)close(fd);
    echo_stop(&echo);
}

static void answers_may_come_later_and_for_clients_that_have_gone(void **state)
{
    (void)state;
    struct echo echo;
    echo_start(&echo, 60000000);
    int fd = echo_connect(&echo);
    testing_say(fd, "GET /later HTTP/1.1\r\nHost: t\r\n\r\n");
    while (!echo.has_later)
        testing_nap(1000);
    aw__server_notify(echo.server);
    testing_receive(fd, &reply);
    assert_int_equal(reply.status, 200);
    testing_say(fd, "GET /later HTTP/1.1\r\nHost: t\r\n\r\n");
    while (!echo.has_later)
        testing_nap(1000);
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    (void)close(fd); /* a reset */
    while (echo.over_gone == 0)
        testing_nap(1000);
    aw__server_notify(echo.server);
    testing_get(&echo.address, "/", &reply);
    assert_int_equal(reply.status, 200);
    echo_stop(&echo);
    assert_int_equal(echo.over_gone, 1);
}

static void more_connections_than_there_is_room_for_wait_their_turn(void **state)
{
    (void)state;
    struct echo echo;
    int fd[2 * CONNECTIONS];
    echo_start(&echo, 60000000);
    for (uint32_t i = 0; i < 2 * CONNECTIONS; i++)
        fd[i] = echo_connect(&echo); /* the later ones into the backlog */
    for (uint32_t i = 0; i < 2 * CONNECTIONS; i++) {
        testing_ask(fd[i], "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", &reply);
        assert_int_equal(reply.status, 200);
        (void)close(fd[i]);
    }
    echo_stop(&echo);
    assert_int_equal(echo.over_ok, 2 * CONNECTIONS);
}

static void without_descriptors_clients_wait_and_the_thread_sleeps(void **state)
{
    (void)state;
    struct echo echo;
    struct rlimit old, few;
    int spare[64];
    uint32_t count = 0;
    echo_start(&echo, 60000000);
    const int fd = echo_connect(&echo);
    testing_ask(fd, "GET / HTTP/1.1\r\nHost: t\r\n\r\n", &reply);
    const int waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = (rlim_t)waiting + 32;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (count < 64 && (spare[count] = dup(fd)) >= 0)
        count++;
    assert_true(count > 0 && count < 64);
    assert_int_equal(connect(waiting, (const struct sockaddr *)&echo.address, sizeof echo.address),
                     0);
    testing_say(waiting, "GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    const clock_t before = clock();
    testing_nap(600000);
    const double busy_s = (double)(clock() - before) / CLOCKS_PER_SEC;
    assert_int_equal(echo.begun, 1);
    for (uint32_t i = 0; i < count; i++)
        (void)close(spare[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    testing_receive(waiting, &reply);
    assert_int_equal(reply.status, 200);
    assert_true(busy_s < 0.3); /* it did not ask again and again meanwhile */
    (void)close(waiting);
    (void)close(fd);
    echo_stop(&echo);
}

static void connections_that_say_nothing_are_closed(void **state)
{
    (void)state;
    struct echo echo;
    echo_start(&echo, 100000);
    const int64_t before_us = aw_clock_monotonic_us(NULL);
    const int fd = echo_connect(&echo);
    assert_true(testing_closed(fd));
    assert_true(aw_clock_monotonic_us(NULL) - before_us >= 100000);
    (void)close(fd);
    echo_stop(&echo);
}

static void draining_answers_what_is_in_flight_and_ends(void **state)
{
    (void)state;
    struct echo echo;
    echo_start(&echo, 60000000);
    const int idle = echo_connect(&echo), busy = echo_connect(&echo);
    testing_ask(idle, "GET / HTTP/1.1\r\nHost: t\r\n\r\n", &reply);
    testing_say(busy, "GET /later HTTP/1.1\r\nHost: t\r\n\r\n");
    while (!echo.has_later)
        testing_nap(1000);
    echo.has_later = false;
    echo.drain = true;
    aw__server_notify(echo.server);
    assert_true(testing_closed(idle));
    const int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(late, (const struct sockaddr *)&echo.address, sizeof echo.address),
                     -1);
    assert_int_equal(errno, ECONNREFUSED);
    (void)close(late);
    echo.has_later = true;
    aw__server_notify(echo.server);
    testing_receive(busy, &reply);
    assert_int_equal(reply.status, 200);
    assert_false(reply.keep_alive);
    (void)pthread_join(echo.thread, NULL);
    assert_ok(echo.err);
    aw__server_free(echo.server);
    (void)close(idle);
    (void)close(busy);
    test_free(echo.large);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw__server *server = NULL;
    struct sockaddr_in address;
    const struct aw__server_config config = {.listen_fd = testing_listen(&address),
                                             .unix_fd = -1,
                                             .signal_fd = -1,
                                             .connections_max = 4,
                                             .idle_us = 1,
                                             .tick_us = 1,
                                             .handler = &handler};
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw__server_new(&config, &counting.alloc, &server, NULL), AW_ERR_NOMEM);
    counting.fail_after = 1;
    assert_ok(aw__server_new(&config, &counting.alloc, &server, NULL));
    aw__server_free(server);
    aw__server_free(NULL);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

#define BOTH(test)                                                         \
    cmocka_unit_test(test),                                                \
    {                                                                      \
#test " (Unix socket)", test, over_unix_begin, over_unix_end, NULL \
    }

AW_TEST_GROUP("service-server")
{
    const struct CMUnitTest tests[] = {
        BOTH(a_connection_carries_many_requests),
        BOTH(a_body_arrives_whole_however_it_is_sent),
        BOTH(what_is_not_http_is_told_so_and_hung_up_on),
        BOTH(large_answers_and_answers_in_parts_arrive_whole),
        BOTH(answers_may_come_later_and_for_clients_that_have_gone),
        BOTH(more_connections_than_there_is_room_for_wait_their_turn),
        BOTH(without_descriptors_clients_wait_and_the_thread_sleeps),
        BOTH(connections_that_say_nothing_are_closed),
        BOTH(draining_answers_what_is_in_flight_and_ends),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
