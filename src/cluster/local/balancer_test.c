/* balancer_test.c - requests through the balancer, against servers that misbehave on purpose. */
#include "cluster/local/balancer_testing.h"

/* --- tests ------------------------------------------------------------------------------------ */

static void requests_of_every_form_pass_through(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int status;
        const char *body, *why;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200, "ok", "the plain case"},
        {"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 200, "ok", "empty lines before it"},
        {"GET / HTTP/1.0\r\n\r\n", 200, "ok", "an old client"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 200, "ok", "a body"},
        {"GET /chunked HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200, NULL,
         "an answer in chunks"},
        {"GET /500 HTTP/1.1\r\nHost: x\r\n\r\n", 500, "", "the replica's own failure"},
        {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "", "a space before the colon"},
        {"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "",
         "two lengths"},
        {"GET / HTTP/2.0\r\n\r\n", 501, "", "another version"},
        {"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 501, "", "no tunnels"},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: aware-trunk\r\n\r\n", 501,
         "", "trunks are not for clients"},
    };
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    world_begin(&world, &config, 2, state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[64];
        const int fd = standin_connect(world.port);
        const int status =
            standin_exchange(fd, cases[i].bytes, strlen(cases[i].bytes), body, sizeof body);
        if (status != cases[i].status || (cases[i].body && strcmp(body, cases[i].body) != 0))
            fail_msg("%s: %d \"%s\"", cases[i].why, status, body);
        close(fd);
    }
    books_close(&world);
    assert_int_equal(counts_of(&world).failed, 1);
    world_end(&world);
}

static void large_bodies_arrive_whole_in_both_directions(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    world_begin(&world, &config, 0, state);
    /* a server that sends back what it got, and a client that reads slowly */
    const int listener = listener_open(&world, 0);
    const pid_t echo = fork();
    if (echo == 0) {
        static char bytes[SIZE + 4096];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            const int fd = accept(listener, NULL, NULL);
            size_t have = 0;
            ssize_t got;
            const char *end = NULL;
            while (have < sizeof bytes &&
                   (got = recv(fd, bytes + have, sizeof bytes - have, 0)) > 0) {
                have += (size_t)got;
                end = memmem(bytes, have, "\r\n\r\n", 4);
                if (end &&
                    (strncmp(bytes, "GET", 3) == 0 || have >= (size_t)(end - bytes) + 4 + SIZE))
                    break;
            }
            char head[128];
            const size_t size = end && strncmp(bytes, "GET", 3) != 0 ? SIZE : 0;
            const int n = snprintf(head, sizeof head,
                                   "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: "
                                   "close\r\n\r\n",
                                   size);
            (void)!send(fd, head, (size_t)n, MSG_NOSIGNAL);
            for (size_t at = 0; end && at < size;) {
                const ssize_t sent = send(fd, end + 4 + at, size - at, MSG_NOSIGNAL);
                if (sent <= 0)
                    break;
                at += (size_t)sent;
            }
            close(fd);
        }
    }
    close(listener);
    slot_on(&world, 0);
    wait_for(view_ready(&world, 0));

    static char out[SIZE], in[SIZE + 4096];
    for (size_t i = 0; i < SIZE; i++)
        out[i] = (char)(i * 31 + i / 251);
    const int fd = standin_connect(world.port);
    char head[128];
    const int n = snprintf(head, sizeof head,
                           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", SIZE);
    assert_int_equal(send(fd, head, (size_t)n, 0), n);
    for (size_t at = 0; at < SIZE;) {
        const ssize_t sent = send(fd, out + at, SIZE - at, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
    size_t have = 0;
    for (ssize_t got = 1; got > 0 && have<sizeof in; have += got> 0 ? (size_t)got : 0)
        got = recv(fd, in + have, sizeof in - have < 7000 ? sizeof in - have : 7000, 0);
    const char *end = memmem(in, have, "\r\n\r\n", 4);
    assert_non_null(end);
    assert_int_equal(have - (size_t)(end + 4 - in), SIZE);
    assert_memory_equal(end + 4, out, SIZE);
    close(fd);
    books_close(&world);
    server_end(echo, SIGKILL);
    world_end(&world);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    static const char three[] = "GET /sleep/30 HTTP/1.1\r\nHost: x\r\n\r\n"
                                "GET /500 HTTP/1.1\r\nHost: x\r\n\r\n"
                                "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char in[2048];
    size_t have = 0;
    config_init(&config);
    world_begin(&world, &config, 2, state);
    const int fd = standin_connect(world.port);
    assert_int_equal(send(fd, three, sizeof three - 1, 0), (ssize_t)sizeof three - 1);
    for (ssize_t got; (got = recv(fd, in + have, sizeof in - 1 - have, 0)) > 0;)
        have += (size_t)got;
    in[have] = '\0';
    const char *first = strstr(in, "slept"), *second = strstr(in, "500 Oops");
    const char *third = strstr(in, "\r\n\r\nok");
    assert_true(first && second && third && first < second && second < third);
    close(fd);
    books_close(&world);
    assert_int_equal(counts_of(&world).arrivals, 3);
    world_end(&world);
}

static void the_replica_with_the_fewest_in_flight_is_chosen(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    char body[32];
    int held[3];
    config_init(&config);
    world_begin(&world, &config, 4, state);
    /* three requests that last are spread over three replicas; all others go to the fourth */
    for (int i = 0; i < 3; i++) {
        static const char text[] = "GET /sleep/600 HTTP/1.1\r\nHost: x\r\n\r\n";
        held[i] = standin_connect(world.port);
        assert_int_equal(send(held[i], text, sizeof text - 1, 0), (ssize_t)sizeof text - 1);
    }
    wait_for(counts_of(&world).in_flight == 3);
    assert_int_equal(standin_ask(world.port, "/pid", body, sizeof body), 200);
    const long only = strtol(body, NULL, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(standin_ask(world.port, "/pid", body, sizeof body), 200);
        assert_int_equal(strtol(body, NULL, 10), only);
    }
    for (int i = 0; i < 3; i++)
        close(held[i]);
    world_end(&world);
}

static void a_replica_gets_requests_only_once_it_is_healthy(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    world_begin(&world, &config, 0, state);
    server_start(&world, 0, "mute", "0.4");
    const int64_t begin = aw_clock_monotonic_us(NULL);
    slot_on(&world, 0);
    /* a request that comes before waits, and is answered */
    assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    assert_true(aw_clock_monotonic_us(NULL) - begin > 300000);
    books_close(&world);
    assert_int_equal(counts_of(&world).completions, 1);
    world_end(&world);
}

static void nobody_ready_is_a_503_after_a_while(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    config.wait_us = 200000;
    world_begin(&world, &config, 0, state);
    assert_int_equal(standin_ask(world.port, "/", NULL, 0), 503);
    books_close(&world);
    assert_int_equal(counts_of(&world).refused, 1);
    world_end(&world);
}

static void an_answer_that_never_comes_is_a_504_and_counts_as_long(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    struct aw_latency_histogram reading;
    config_init(&config);
    config.request_timeout_us = 300000;
    world_begin(&world, &config, 1, state);
    assert_int_equal(standin_ask(world.port, "/hang", NULL, 0), 504);
    assert_int_equal(standin_ask(world.port, "/500", NULL, 0), 500);
    books_close(&world);
    aw__balancer_latency(world.balancer, &reading);
    assert_int_equal(reading.count, 2);
    assert_close(aw_latency_histogram_estimate(&reading, 0.01), 300000, 0.03);
    assert_int_equal(counts_of(&world).timed_out, 1);
    world_end(&world);
}

static void a_replica_that_dies_loses_what_it_had_and_nothing_else(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    struct standin_load load = {.path = "/spin/200", .clients = 8};
    config_init(&config);
    world_begin(&world, &config, 4, state);
    load.port = world.port;
    standin_load_begin(&load);
    uint64_t had = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct aw__backend_view view;
        standin_wait_ms(150);
        if (i < 2) { /* what it has when it stops, it will never answer; it gets no more */
            kill(world.server[i], SIGSTOP);
            standin_wait_ms(5);
            aw__balancer_set(world.balancer, i, AW__BACKEND_DRAIN, 0, NULL);
            do
                aw__balancer_view(world.balancer, i, &view);
            while (!view.seen);
            had += view.in_flight;
        }
        server_end(world.server[i], SIGKILL);
        world.server[i] = 0;
        if (i == 1) { /* what it had not read yet is asked elsewhere, the rest is lost */
            wait_for(counts_of(&world).lost + counts_of(&world).retries >= had);
            assert_true(counts_of(&world).lost <= had);
        }
    }
    standin_wait_ms(150);
    standin_load_end(&load);
    books_close(&world);
    const struct aw__balancer_counts counts = counts_of(&world);
    assert_true(load.ok > 100);
    assert_int_equal(counts.refused + counts.timed_out + counts.failed, 0);
    assert_true(counts.lost <= had + load.clients); /* the third had no more than all of them */
    assert_int_equal(load.failed + load.cut, counts.lost);
    world_end(&world);
}

static void a_drained_replica_loses_nothing(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    struct standin_load load = {.path = "/sleep/3", .clients = 16};
    config_init(&config);
    world_begin(&world, &config, 4, state);
    load.port = world.port;
    standin_load_begin(&load);
    for (uint32_t round = 0; round < 12; round++) {
        const uint32_t slot = round % 3;
        struct aw__backend_view view;
        aw__balancer_set(world.balancer, slot, AW__BACKEND_DRAIN, 0, NULL);
        wait_for((aw__balancer_view(world.balancer, slot, &view), view.seen && !view.in_flight));
        server_end(world.server[slot], SIGTERM);
        aw__balancer_set(world.balancer, slot, AW__BACKEND_OFF, 0, NULL);
        server_start(&world, slot, NULL, NULL);
        slot_on(&world, slot);
        wait_for(view_ready(&world, slot));
    }
    standin_load_end(&load);
    books_close(&world);
    const struct aw__balancer_counts counts = counts_of(&world);
    assert_true(load.ok > 50);
    assert_int_equal(load.failed, 0);
    assert_int_equal(load.cut, 0);
    assert_int_equal(counts.completions, counts.arrivals);
    world_end(&world);
}

static void a_connection_that_is_refused_is_tried_elsewhere(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    config.health_period_us = 60000000; /* so that nobody notices the death but requests */
    world_begin(&world, &config, 2, state);
    server_end(world.server[0], SIGKILL);
    world.server[0] = 0;
    for (int i = 0; i < 50; i++)
        assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    books_close(&world);
    assert_true(counts_of(&world).retries > 0);
    assert_int_equal(counts_of(&world).completions, 50);
    world_end(&world);
}

static void an_ill_replica_is_left_out_and_comes_back(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    config.health_timeout_us = 100000;
    world_begin(&world, &config, 2, state);
    kill(world.server[0], SIGSTOP);
    wait_for(!view_ready(&world, 0));
    for (int i = 0; i < 20; i++)
        assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    kill(world.server[0], SIGCONT);
    wait_for(view_ready(&world, 0));
    world_end(&world);
}

static void clients_that_go_away_leave_the_books_in_order(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    config_init(&config);
    config.request_timeout_us = 500000;
    world_begin(&world, &config, 2, state);
    for (int i = 0; i < 60; i++) {
        static const char *const texts[] = {
            "GET /sleep/20 HTTP/1.1\r\nHost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", "GET / HT"};
        const int fd = standin_connect(world.port);
        const struct linger reset = {.l_onoff = 1};
        (void)!send(fd, texts[i % 3], strlen(texts[i % 3]), MSG_NOSIGNAL);
        if (i % 2) /* a reset instead of an orderly end */
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (i % 5 == 0)
            standin_wait_ms(2);
        close(fd);
    }
    books_close(&world);
    wait_for(counts_of(&world).clients == 0);
    assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    world_end(&world);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void more_clients_than_places_wait_in_the_queue_of_the_socket(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    struct standin_load load = {.path = "/sleep/2", .clients = 24};
    config_init(&config);
    config.clients = 4;
    config.idle_us = 5000; /* so that places are given back */
    world_begin(&world, &config, 2, state);
    load.port = world.port;
    load.pause_us = 80000;
    standin_load_begin(&load);
    wait_for(load.ok >= 48); /* places are few, and go round */
    standin_load_end(&load);
    assert_int_equal(load.failed, 0);
    world_end(&world);
}

static void every_allocation_that_fails_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    config_init(&config);
    for (uint64_t n = 0;; n++) {
        struct aw_alloc_counting counting;
        struct aw__balancer *balancer = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err = aw__balancer_new(&config, &counting.alloc, &balancer, NULL);
        aw__balancer_free(balancer);
        assert_int_equal(counting.alloc_count, counting.free_count);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
    }
}

static void a_port_in_use_is_told(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    struct aw__balancer *second = NULL;
    struct aw_diag diag = {0};
    config_init(&config);
    world_begin(&world, &config, 0, state);
    config.port = world.port;
    assert_int_equal(aw__balancer_new(&config, NULL, &second, &diag), AW_ERR_EXISTS);
    assert_non_null(strstr(diag.text, "in use"));
    world_end(&world);
}

AW_TEST_GROUP("local-balancer")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        EVERY_WAY(requests_of_every_form_pass_through),
        BOTH(large_bodies_arrive_whole_in_both_directions),
        EVERY_WAY(pipelined_requests_are_answered_in_order),
        EVERY_WAY(the_replica_with_the_fewest_in_flight_is_chosen),
        EVERY_WAY(a_replica_gets_requests_only_once_it_is_healthy),
        cmocka_unit_test(nobody_ready_is_a_503_after_a_while),
        EVERY_WAY(an_answer_that_never_comes_is_a_504_and_counts_as_long),
        EVERY_WAY(a_replica_that_dies_loses_what_it_had_and_nothing_else),
        EVERY_WAY(a_drained_replica_loses_nothing),
        EVERY_WAY(a_connection_that_is_refused_is_tried_elsewhere),
        EVERY_WAY(an_ill_replica_is_left_out_and_comes_back),
        EVERY_WAY(clients_that_go_away_leave_the_books_in_order),
        EVERY_WAY(more_clients_than_places_wait_in_the_queue_of_the_socket),
        cmocka_unit_test(every_allocation_that_fails_is_an_error_and_leaks_nothing),
        cmocka_unit_test(a_port_in_use_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
