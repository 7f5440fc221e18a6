/* drive_test.c - the generator against servers that behave, and against those that do not. */
#include "load/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "base/testing.h"

#define PEERS_MAX 128
#define SECOND    1000000

enum manner {
    GOOD,
    CHUNKED,     /* in chunks, sent in two halves */
    UNTIL_CLOSE, /* no length: the end of the connection ends the answer */
    CLOSES_EACH, /* says so, then closes */
    CLOSES_IDLE, /* closes without a word after each answer */
    INTERIM,     /* 103 Early Hints before the answer */
    GARBAGE,
    TALKS_FIRST,
    SILENT,
    HALF_BODY,
    RESETS,
    UNHAPPY, /* 503 */
    STALLS,  /* once, for a second, everything */
};

struct server {
    enum manner manner;
    int listen_fd;
    struct sockaddr_in bound;
    pthread_t thread;
    _Atomic bool stop;
    _Atomic uint32_t asked; /* requests seen */
    uint32_t stall_at;
};

static void say(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void nap(int64_t us)
{
    const int64_t until_us = aw_clock_monotonic_us(NULL) + us;
    while (aw_clock_sleep_until(NULL, until_us))
        ;
}

/* Answers one request. False: the connection is closed. */
static bool answer(struct server *server, int fd)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    const uint32_t asked = ++server->asked;
    switch (server->manner) {
    case STALLS:
        if (asked == server->stall_at)
            nap(SECOND);
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        return true;
    case GOOD:
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        return true;
    case CHUNKED:
        say(fd, "HTTP/1.1 200 OK\r\nTransfer-En");
        nap(2000);
        say(fd, "coding: chunked\r\n\r\n2\r\no");
        nap(2000);
        say(fd, "k\r\n0\r\n\r\n");
        return true;
    case UNTIL_CLOSE:
        say(fd, "HTTP/1.0 200 OK\r\n\r\nas much as there is");
        return false;
    case CLOSES_EACH:
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        return false;
    case CLOSES_IDLE:
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        return false;
    case INTERIM:
        say(fd, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
                "Content-Length: 0\r\n\r\n");
        return true;
    case GARBAGE:
    case TALKS_FIRST:
        say(fd, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n");
        return true;
    case SILENT:
        return true;
    case HALF_BODY:
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        return false;
    case RESETS:
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        return false;
    case UNHAPPY:
        say(fd, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        return true;
    }
    return false;
}

static void *serve(void *arg)
{
    struct server *server = arg;
    struct pollfd peer[PEERS_MAX] = {{.fd = server->listen_fd, .events = POLLIN}};
    nfds_t count = 1;
    while (!server->stop) {
        if (poll(peer, count, 20) <= 0)
            continue;
        if (peer[0].revents && count < PEERS_MAX) {
            const int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0) {
                if (server->manner == TALKS_FIRST)
                    say(fd, "220 mail.example ESMTP\r\n\r\n");
                peer[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
            }
        }
        for (nfds_t i = 1; i < count; i++) {
            char buf[4096];
            if (!peer[i].revents)
                continue;
            const ssize_t n = recv(peer[i].fd, buf, sizeof buf, MSG_DONTWAIT);
            if ((n < 0 && errno == EAGAIN) || (n > 0 && answer(server, peer[i].fd)))
                continue;
            (void)close(peer[i].fd);
            peer[i--] = peer[--count];
        }
    }
    for (nfds_t i = 1; i < count; i++)
        (void)close(peer[i].fd);
    return NULL;
}

static void server_start(struct server *server, enum manner manner)
{
    struct sockaddr_in any;
    *server = (struct server){.manner = manner, .stall_at = 100};
    assert_ok(aw_net_parse("127.0.0.1:0", &any, NULL));
    assert_ok(aw_net_listen(&any, 128, &server->listen_fd, &server->bound, NULL));
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
    server->stop = true;
    (void)pthread_join(server->thread, NULL);
    (void)close(server->listen_fd);
}

static struct aw_drive_config config_of(const struct server *server, double rate, double seconds)
{
    struct aw_drive_config config = {
        .timetable = {.rate_per_s = rate,
                      .speed = 1,
                      .arrivals = AW_ARRIVALS_EVEN,
                      .duration_us = (int64_t)(seconds * SECOND)},
        .connections_max = 8,
        .threads = 1,
        .timeout_us = 5 * SECOND,
    };
    char url[64];
    (void)aw_net_print(&server->bound, url, sizeof url);
    assert_ok(aw_target_parse(url, false, &config.target, NULL));
    return config;
}

/* Every request that was due ended once: answered, or as one kind of error. */
static void assert_all_accounted(const struct aw_drive_result *result)
{
    uint64_t ended = result->all.answered;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        ended += i == AW_DRIVE_STATUS ? 0 : result->all.error[i];
    assert_int_equal(ended, result->all.due);
    assert_int_equal(result->latency.count, result->all.due);
    assert_int_equal(result->service.count, result->all.answered);
}

static struct aw_drive_result result;

static void servers_that_behave_lose_no_request(void **state)
{
    (void)state;
    static const struct {
        enum manner manner;
        const char *why;
    } cases[] = {
        {GOOD, "plain"},
        {CHUNKED, "chunks whose head comes in pieces"},
        {UNTIL_CLOSE, "answers that end with the connection"},
        {CLOSES_EACH, "a new connection each time, announced"},
        {CLOSES_IDLE, "a new connection each time, not announced"},
        {INTERIM, "an interim answer first"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server server;
        server_start(&server, cases[i].manner);
        const struct aw_drive_config config = config_of(&server, 100, 0.3);
        assert_ok(aw_drive_run(&config, &result, NULL));
        server_stop(&server);
        assert_all_accounted(&result);
        assert_int_equal(result.all.due, 30);
        if (result.all.ok != 30)
            fail_msg("%s: %llu of 30", cases[i].why, (unsigned long long)result.all.ok);
        assert_int_equal(result.all.status[2], 30);
        const bool closes = cases[i].manner == UNTIL_CLOSE || cases[i].manner == CLOSES_EACH ||
                            cases[i].manner == CLOSES_IDLE;
        assert_true(closes ? result.all.connects >= 30 : result.all.connects <= 8);
    }
}

static void servers_that_misbehave_are_errors_of_their_kind(void **state)
{
    (void)state;
    static const struct {
        enum manner manner;
        enum aw_drive_error error;
        const char *why;
    } cases[] = {
        {GARBAGE, AW_DRIVE_MALFORMED, "an answer that is not HTTP"},
        {TALKS_FIRST, AW_DRIVE_MALFORMED, "an answer before the question"},
        {SILENT, AW_DRIVE_TIMEOUT, "no answer"},
        {HALF_BODY, AW_DRIVE_CLOSED, "half an answer"},
        {RESETS, AW_DRIVE_RESET, "a reset"},
        {UNHAPPY, AW_DRIVE_STATUS, "an answer that says no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server server;
        server_start(&server, cases[i].manner);
        struct aw_drive_config config = config_of(&server, 100, 0.2);
        config.timeout_us = cases[i].manner == SILENT ? SECOND / 4 : 5 * SECOND;
        assert_ok(aw_drive_run(&config, &result, NULL));
        server_stop(&server);
        assert_all_accounted(&result);
        assert_int_equal(result.all.due, 20);
        assert_int_equal(result.all.ok, 0);
        if (result.all.error[cases[i].error] != 20)
            fail_msg("%s: %llu of 20", cases[i].why,
                     (unsigned long long)result.all.error[cases[i].error]);
    }
}

static void nobody_there_is_a_refusal_of_every_request(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, GOOD);
    const struct aw_drive_config config = config_of(&server, 200, 0.2);
    server_stop(&server);
    assert_ok(aw_drive_run(&config, &result, NULL));
    assert_all_accounted(&result);
    assert_int_equal(result.all.error[AW_DRIVE_REFUSED], 40);
}

/* With one connection, the generator cannot even send while the server stalls. A closed loop would
 * report one slow request of 400; the truth is that half of them were due in that second, and had
 * to wait half a second on average. */
static void a_stall_counts_for_every_request_that_was_due_in_it(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, STALLS);
    struct aw_drive_config config = config_of(&server, 200, 2);
    config.connections_max = 1;
    assert_ok(aw_drive_run(&config, &result, NULL));
    server_stop(&server);
    assert_all_accounted(&result);
    assert_int_equal(result.all.ok, 400);
    assert_true(result.latency.max_us >= SECOND);
    assert_true(aw_latency_histogram_quantile(&result.latency, 0.90) >= 700000);
    assert_true(aw_latency_histogram_quantile(&result.latency, 0.75) >= 400000);
    assert_true(aw_latency_histogram_mean(&result.latency) >= 200000);
    assert_true(result.service.max_us >= SECOND);
    assert_true(aw_latency_histogram_quantile(&result.service, 0.99) < 400000);
    assert_true(result.backlog_max >= 150);
}

/* Those that wait for longer than the time-out are not answered: they are the worst, and count. */
static void a_stall_beyond_the_time_out_counts_for_those_that_it_cost(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, STALLS);
    struct aw_drive_config config = config_of(&server, 200, 2);
    config.connections_max = 1;
    config.timeout_us = 2 * SECOND / 5;
    assert_ok(aw_drive_run(&config, &result, NULL));
    server_stop(&server);
    assert_all_accounted(&result);
    const uint64_t late = result.all.error[AW_DRIVE_TIMEOUT];
    assert_true(late >= 80); /* of the 120 that were due in the first three fifths */
    assert_int_equal(result.all.ok, 400 - late);
    assert_true(aw_latency_histogram_quantile(&result.latency, 0.81) >= config.timeout_us);
    assert_true(aw_latency_histogram_above(&result.latency, config.timeout_us * 98 / 100) >= late);
    assert_int_equal(result.service.count, 400 - late);
}

static void a_kept_connection_that_is_closed_meanwhile_is_tried_again_once(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, CLOSES_IDLE);
    struct aw_drive_config config = config_of(&server, 1000, 0.5);
    assert_ok(aw_drive_run(&config, &result, NULL));
    assert_all_accounted(&result);
    assert_int_equal(result.all.ok, result.all.due);
    config.no_retry = true;
    assert_ok(aw_drive_run(&config, &result, NULL));
    assert_int_equal(result.all.retried, 0);
    assert_all_accounted(&result);
    config.no_retry = false;
    config.method = "POST"; /* must not be repeated */
    assert_ok(aw_drive_run(&config, &result, NULL));
    assert_int_equal(result.all.retried, 0);
    server_stop(&server);
}

static void what_is_sent_while_warming_up_is_not_counted(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, GOOD);
    struct aw_drive_config config = config_of(&server, 100, 0.4);
    config.warm_up_us = 3 * SECOND / 10;
    assert_ok(aw_drive_run(&config, &result, NULL));
    server_stop(&server);
    assert_all_accounted(&result);
    assert_int_equal(result.all.due, 10);
    assert_int_equal(server.asked, 40);
    assert_int_equal(result.span_us, SECOND / 10);
}

struct seen {
    uint32_t reports;
    uint64_t answered;
};

static bool look(void *ctx, const struct aw_drive_report *report)
{
    struct seen *seen = ctx;
    seen->reports++;
    seen->answered += report->answered;
    assert_true(report->connections <= 8);
    assert_int_equal(report->latency->count, report->answered);
    return seen->reports < 3;
}

static void reports_add_up_and_can_end_it(void **state)
{
    (void)state;
    struct server server;
    struct seen seen = {0};
    server_start(&server, GOOD);
    struct aw_drive_config config = config_of(&server, 100, 60);
    config.report_us = SECOND / 5;
    config.report = look;
    config.ctx = &seen;
    const int64_t before_us = aw_clock_monotonic_us(NULL);
    assert_ok(aw_drive_run(&config, &result, NULL));
    server_stop(&server);
    assert_true(aw_clock_monotonic_us(NULL) - before_us < 10 * SECOND);
    assert_true(result.stopped);
    assert_int_equal(seen.reports, 3);
    assert_true(seen.answered > 20 && seen.answered <= result.all.answered);
}

static void threads_share_one_timetable(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, GOOD);
    struct aw_drive_config config = config_of(&server, 500, 0.5);
    config.threads = 3;
    config.timetable.arrivals = AW_ARRIVALS_POISSON;
    config.timetable.seed = 5;
    assert_ok(aw_drive_run(&config, &result, NULL));
    assert_all_accounted(&result);
    const uint64_t due = result.all.due;
    config.threads = 1;
    assert_ok(aw_drive_run(&config, &result, NULL));
    server_stop(&server);
    assert_int_equal(result.all.due, due);
    assert_int_equal(result.all.ok, due);
}

static void a_body_larger_than_the_sockets_is_sent_whole(void **state)
{
    (void)state;
    static char body[6 << 20];
    struct server server;
    server_start(&server, GOOD);
    struct aw_drive_config config = config_of(&server, 20, 0.1);
    config.method = "POST";
    config.body = body;
    config.body_len = sizeof body;
    assert_ok(aw_drive_run(&config, &result, NULL));
    server_stop(&server);
    /* this server answers at the first bytes; a connection with half a request is not kept */
    assert_all_accounted(&result);
    assert_int_equal(result.all.ok, 2);
}

static void what_cannot_be_is_refused_and_memory_is_given_back(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, GOOD);
    struct aw_drive_config config = config_of(&server, 10, 0.1);
    config.threads = 0;
    assert_int_equal(aw_drive_run(&config, &result, NULL), AW_ERR_CONFIG);
    config.threads = 16;
    assert_int_equal(aw_drive_run(&config, &result, NULL), AW_ERR_CONFIG); /* 8 connections */
    config.threads = 1;
    config.timeout_us = 0;
    assert_int_equal(aw_drive_run(&config, &result, NULL), AW_ERR_CONFIG);
    config.timeout_us = SECOND;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    config.alloc = &counting.alloc;
    counting.fail_after = 0;
    assert_int_equal(aw_drive_run(&config, &result, NULL), AW_ERR_NOMEM);
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_drive_run(&config, &result, NULL));
    assert_int_equal(counting.alloc_count, 1);
    assert_int_equal(counting.free_count, 1);
    server_stop(&server);
}

AW_TEST_GROUP("load-drive")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_that_behave_lose_no_request),
        cmocka_unit_test(servers_that_misbehave_are_errors_of_their_kind),
        cmocka_unit_test(nobody_there_is_a_refusal_of_every_request),
        cmocka_unit_test(a_stall_counts_for_every_request_that_was_due_in_it),
        cmocka_unit_test(a_stall_beyond_the_time_out_counts_for_those_that_it_cost),
        cmocka_unit_test(a_kept_connection_that_is_closed_meanwhile_is_tried_again_once),
        cmocka_unit_test(what_is_sent_while_warming_up_is_not_counted),
        cmocka_unit_test(reports_add_up_and_can_end_it),
        cmocka_unit_test(threads_share_one_timetable),
        cmocka_unit_test(a_body_larger_than_the_sockets_is_sent_whole),
        cmocka_unit_test(what_cannot_be_is_refused_and_memory_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
