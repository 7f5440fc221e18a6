/* objects_test.c - objects kept, given back, delayed, limited; and the segments that use them. */
#include "service/objects.h"

#include <math.h>
#include <stdlib.h>

#include "segments/runner.h"
#include "service/service_testing.h"

struct place {
    struct aw_objects *objects;
    struct sockaddr_in address;
    int listen_fd;
    struct aw_alloc_counting counting;
};

static void place_open(struct place *place)
{
    *place = (struct place){0};
    aw_alloc_counting_init(&place->counting);
    place->listen_fd = testing_listen(&place->address);
    const struct aw_objects_config config = {.listen_fd = place->listen_fd,
                                             .signal_fd = -1,
                                             .connections_max = 64,
                                             .alloc = &place->counting.alloc};
    assert_ok(aw_objects_start(&config, &place->objects, NULL));
}

static void place_close(struct place *place)
{
    aw_objects_stop(place->objects);
    assert_int_equal(place->counting.alloc_count, place->counting.free_count);
}

static struct testing_reply reply;

static void put(int fd, const char *name, const char *content)
{
    char request[256];
    snprintf(request, sizeof request,
             "PUT /%s HTTP/1.1\r\nHost: o\r\nContent-Length: %zu\r\n\r\n%s", name, strlen(content),
             content);
    testing_ask(fd, request, &reply);
}

static void get(int fd, const char *target)
{
    char request[256];
    snprintf(request, sizeof request, "GET /%s HTTP/1.1\r\nHost: o\r\n\r\n", target);
    testing_ask(fd, request, &reply);
}

static void what_is_put_is_got_back_and_may_be_replaced(void **state)
{
    (void)state;
    struct place place;
    place_open(&place);
    const int fd = testing_connect(&place.address);
    get(fd, "a");
    assert_int_equal(reply.status, 404);
    put(fd, "a", "first");
    assert_int_equal(reply.status, 201);
    put(fd, "b", "other");
    put(fd, "a", "second, and longer");
    get(fd, "a");
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, 18);
    assert_memory_equal(reply.body, "second, and longer", 18);
    get(fd, "b");
    assert_memory_equal(reply.body, "other", 5);
    put(fd, "empty", "");
    get(fd, "empty");
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, 0);
    get(fd, "healthz");
    assert_int_equal(reply.status, 200);
    (void)close(fd);
    place_close(&place);
}

static void a_delay_is_waited_for_and_parts_come_meanwhile(void **state)
{
    (void)state;
    struct place place;
    place_open(&place);
    const int fd = testing_connect(&place.address);
    put(fd, "a", "0123456789");
    int64_t before_us = aw_clock_monotonic_us(NULL);
    get(fd, "a?delay_us=60000");
    assert_true(aw_clock_monotonic_us(NULL) - before_us >= 60000);
    assert_memory_equal(reply.body, "0123456789", 10);
    before_us = aw_clock_monotonic_us(NULL);
    testing_say(fd, "GET /a?delay_us=400000&parts=5 HTTP/1.1\r\nHost: o\r\n\r\n");
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    const int64_t first_us = aw_clock_monotonic_us(NULL) - before_us;
    char rest[512] = "H";
    size_t have = 1;
    while (!strstr(rest, "0123456789")) {
        const ssize_t n = recv(fd, rest + have, sizeof rest - 1 - have, 0);
        assert_true(n > 0);
        have += (size_t)n;
    }
    const int64_t last_us = aw_clock_monotonic_us(NULL) - before_us;
    assert_true(first_us >= 80000 && first_us < last_us);
    assert_true(last_us >= 400000);
    (void)close(fd);
    place_close(&place);
}

static void what_goes_beyond_a_limit_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
        const char *why;
    } cases[] = {
        {"PUT /a HTTP/1.1\r\nHost: o\r\nContent-Length: 8388609\r\n\r\n", 413, "too large"},
        {"PUT /a HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n", 501, "no length"},
        {"DELETE /a HTTP/1.1\r\nHost: o\r\n\r\n", 501, "no such method"},
        {"GET /a?delay_us=25000001 HTTP/1.1\r\nHost: o\r\n\r\n", 400, "too long a delay"},
        {"GET /a?delay_us=-1 HTTP/1.1\r\nHost: o\r\n\r\n", 400, "not a delay"},
        {"GET /a?parts=65 HTTP/1.1\r\nHost: o\r\n\r\n", 400, "too many parts"},
        {"PUT /0123456789012345678901234567890123456789012345678901234567890123 HTTP/1.1\r\n"
         "Host: o\r\nContent-Length: 1\r\n\r\n",
         413, "too long a name"},
    };
    struct place place;
    place_open(&place);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int fd = testing_connect(&place.address);
        testing_ask(fd, cases[i].request, &reply);
        if (reply.status != cases[i].status)
            fail_msg("%s: %d", cases[i].why, reply.status);
        (void)close(fd);
    }
    place_close(&place);
}

static void a_client_that_goes_away_half_way_leaves_nothing(void **state)
{
    (void)state;
    struct place place;
    place_open(&place);
    int fd = testing_connect(&place.address);
    put(fd, "a", "whole");
    (void)close(fd);
    fd = testing_connect(&place.address);
    testing_say(fd, "PUT /a HTTP/1.1\r\nHost: o\r\nContent-Length: 100\r\n\r\nhalf");
    (void)close(fd);
    fd = testing_connect(&place.address);
    testing_say(fd, "GET /a?delay_us=5000000 HTTP/1.1\r\nHost: o\r\n\r\n");
    (void)close(fd);
    fd = testing_connect(&place.address);
    get(fd, "a");
    assert_memory_equal(reply.body, "whole", 5);
    (void)close(fd);
    place_close(&place); /* counts blocks */
}

/* More delays than there is room for at once, all of clients that do not wait for them. */
static void delays_that_nobody_waits_for_do_not_pile_up(void **state)
{
    (void)state;
    struct place place;
    place_open(&place);
    int fd = testing_connect(&place.address);
    put(fd, "a", "whole");
    (void)close(fd);
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    for (uint32_t i = 0; i < 400; i++) { /* 64 connections, so 128 timers */
        fd = testing_connect(&place.address);
        testing_say(fd, "GET /a?delay_us=20000000 HTTP/1.1\r\nHost: o\r\n\r\n");
        if (i % 20 == 0)
            testing_nap(5000);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        (void)close(fd);
    }
    fd = testing_connect(&place.address);
    get(fd, "a?delay_us=1000");
    assert_int_equal(reply.status, 200);
    (void)close(fd);
    place_close(&place);
}

/* The three segments that talk to an object server, with one. */
static void segments_wait_for_their_objects_in_the_socket(void **state)
{
    (void)state;
    struct place place;
    char address[AW_NET_TEXT_MAX];
    place_open(&place);
    static const char *const kinds[] = {"object_read", "object_write", "object_stream"};
    for (uint32_t k = 0; k < 3; k++) {
        struct aw_runner_config config = {
            .app = {.name = "objects", .segment_count = 1},
            .payload = 1,
            .work_scale = 1,
            .worker_count = 2,
            .temp_dir = "/tmp",
            .object_server = aw_net_print(&place.address, address, sizeof address)};
        const int kind = aw_runner_kind(kinds[k]);
        config.app.segment[0] = aw_segment_builtin()[kind];
        config.app.segment[0].io_ms = 40;
        config.app.segment[0].io_cv = config.app.segment[0].cpu_cv = 0;
        config.app.segment[0].cpu_ms = 8;
        struct aw_runner *runner = NULL;
        assert_ok(aw_runner_new(&config, NULL, &runner, NULL));
        assert_ok(aw_runner_measure(runner, 10000, NULL));
        double cpu_us = 0;
        for (uint32_t i = 0; i < 8; i++) {
            struct aw_run run;
            assert_ok(aw_runner_run(runner, i % 2, 1, &run, NULL));
            assert_true(run.wait_us[0] >= 40000);
            cpu_us += run.cpu_us[0] / 8;
        }
        /* unless sockets alone cost more than that, as under a sanitizer they may */
        if (aw_runner_costs(runner)->fixed_us < 3000 && fabs(log2(cpu_us / 8000)) > 1)
            fail_msg("%s: %g us for 8000", kinds[k], cpu_us);
        aw_runner_free(runner);
    }
    place_close(&place);
}

/* A server that goes away makes requests fail; one that comes back makes them work again. */
static void a_store_that_restarts_is_found_again(void **state)
{
    (void)state;
    struct place place;
    char address[AW_NET_TEXT_MAX];
    struct aw_diag diag = {0};
    struct aw_run run;
    place_open(&place);
    struct aw_runner_config config = {.app = {.name = "objects", .segment_count = 1},
                                      .payload = 1,
                                      .work_scale = 0,
                                      .worker_count = 1,
                                      .waits = AW_RUNNER_WAITS_REAL,
                                      .temp_dir = "/tmp",
                                      .object_server =
                                          aw_net_print(&place.address, address, sizeof address)};
    config.app.segment[0] = aw_segment_builtin()[aw_runner_kind("object_write")];
    struct aw_runner *runner = NULL;
    const struct aw_runner_cost cost = {.piece_us = 1};
    assert_ok(aw_runner_new(&config, NULL, &runner, NULL));
    aw_runner_costs_set(runner, &cost);
    assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
    aw_objects_stop(place.objects);
    assert_int_equal(aw_runner_run(runner, 0, 1, &run, &diag), AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "object server"));
    struct sockaddr_in bound;
    assert_ok(aw_net_listen(&place.address, 16, &place.listen_fd, &bound, NULL));
    const struct aw_objects_config again = {.listen_fd = place.listen_fd,
                                            .signal_fd = -1,
                                            .connections_max = 64,
                                            .alloc = &place.counting.alloc};
    assert_ok(aw_objects_start(&again, &place.objects, NULL));
    assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
    aw_runner_free(runner);
    place_close(&place);
}

AW_TEST_GROUP("service-objects")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_got_back_and_may_be_replaced),
        cmocka_unit_test(a_delay_is_waited_for_and_parts_come_meanwhile),
        cmocka_unit_test(what_goes_beyond_a_limit_is_refused),
        cmocka_unit_test(a_client_that_goes_away_half_way_leaves_nothing),
        cmocka_unit_test(delays_that_nobody_waits_for_do_not_pile_up),
        cmocka_unit_test(segments_wait_for_their_objects_in_the_socket),
        cmocka_unit_test(a_store_that_restarts_is_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
