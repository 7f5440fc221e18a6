/* balancer_link_test.c - the ways to a replica: links that end, sockets that come and go. */
#include "cluster/local/balancer_testing.h"

#include <poll.h>

/* --- links that end --------------------------------------------------------------------------- */

static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
static const char fine[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

/* A client whose first request has been answered by our own replica in slot 0. Returns our end of
 * the link, which is kept. */
static int kept_link(struct world *world, int listener, int client)
{
    char in[512];
    int link;
    assert_int_equal(send(client, get, sizeof get - 1, MSG_NOSIGNAL), (ssize_t)sizeof get - 1);
    do { /* a health check says nothing: accepting is enough */
        link = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(link >= 0);
    } while (recv(link, in, sizeof in, 0) <= 0 && close(link) == 0);
    assert_int_equal(send(link, fine, sizeof fine - 1, MSG_NOSIGNAL), (ssize_t)sizeof fine - 1);
    assert_true(recv(client, in, sizeof in, 0) > 0);
    wait_for(counts_of(world).completions == 1);
    return link;
}

static void own_replica_begin(struct world *world, void **state, int *ret_listener)
{
    struct aw__balancer_config config;
    config_init(&config);
    config.health_path[0] = '\0';
    config.health_period_us = 60000000; /* once */
    world_begin(world, &config, 0, state);
    *ret_listener = listener_open(world, 0);
    slot_on(world, 0);
    wait_for(view_ready(world, 0));
}

static void a_request_that_was_read_is_never_asked_again(void **state)
{
    struct world world;
    char in[512];
    int listener;
    own_replica_begin(&world, state, &listener);
    const int client = standin_connect(world.port);
    const int link = kept_link(&world, listener, client);
    assert_int_equal(send(client, get, sizeof get - 1, MSG_NOSIGNAL), (ssize_t)sizeof get - 1);
    assert_true(recv(link, in, sizeof in, 0) > 0);
    close(link); /* in order: everything was read */
    const ssize_t got = recv(client, in, sizeof in - 1, 0);
    assert_true(got > 12);
    assert_memory_equal(in, "HTTP/1.1 502", 12);
    books_close(&world);
    assert_lost(&world, 1);
    assert_int_equal(counts_of(&world).retries, 0);
    close(client);
    close(listener);
    world_end(&world);
}

static void a_request_that_nobody_read_goes_to_another(void **state)
{
    struct world world;
    char in[512];
    int listener;
    own_replica_begin(&world, state, &listener);
    const int client = standin_connect(world.port);
    const int link = kept_link(&world, listener, client);
    assert_int_equal(send(client, get, sizeof get - 1, MSG_NOSIGNAL), (ssize_t)sizeof get - 1);
    struct pollfd come = {.fd = link, .events = POLLIN};
    assert_int_equal(poll(&come, 1, 20000), 1);
    server_start(&world, 1, NULL, NULL);
    slot_on(&world, 1);
    wait_for(view_ready(&world, 1));
    close(listener);
    close(link); /* with a request in it: the balancer's end is reset */
    const ssize_t got = recv(client, in, sizeof in - 1, 0);
    assert_true(got > 12);
    in[got] = '\0';
    assert_memory_equal(in, "HTTP/1.1 200", 12);
    assert_non_null(strstr(in, "\r\n\r\nok"));
    books_close(&world);
    assert_lost(&world, 0);
    assert_true(counts_of(&world).retries > 0);
    close(client);
    world_end(&world);
}

static void a_kept_link_that_its_replica_closes_loses_nothing(void **state)
{
    struct world world;
    char in[512];
    int listener;
    own_replica_begin(&world, state, &listener);
    const pid_t rude = fork();
    if (rude == 0) { /* answers once on each connection and then closes it, without a word of it */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            const int fd = accept(listener, NULL, NULL);
            if (recv(fd, in, sizeof in, 0) > 0)
                (void)!send(fd, fine, sizeof fine - 1, MSG_NOSIGNAL);
            close(fd);
        }
    }
    close(listener);
    const int client = standin_connect(world.port);
    for (int i = 0; i < 300; i++)
        assert_int_equal(standin_get(client, "/", in, sizeof in), 200);
    books_close(&world);
    assert_int_equal(counts_of(&world).completions, 300);
    close(client);
    server_end(rude, SIGKILL);
    world_end(&world);
}

/* --- replicas that end ------------------------------------------------------------------------ */

static int asking(const struct world *world)
{
    const int fd = standin_connect(world->port);
    assert_int_equal(send(fd, get, sizeof get - 1, MSG_NOSIGNAL), (ssize_t)sizeof get - 1);
    return fd;
}

/* Our end of the link that a request has come on, which has been read. */
static int asked(int listener)
{
    char in[512];
    for (;;) {
        const int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(link >= 0);
        if (recv(link, in, sizeof in, 0) > 0)
            return link;
        close(link);
    }
}

static void what_was_said_before_the_end_is_passed_on(void **state)
{
    static const char whole[] = "HTTP/1.1 200 OK\r\n\r\nuntil it closes";
    static const char half[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    static const struct {
        const char *says, *passed;
    } cases[] = {{fine, fine}, {whole, whole}, {half, half}, {"", "HTTP/1.1 502"}};
    for (int unseen = 0; unseen < 2; unseen++) {
        struct world world;
        char in[4][512] = {""};
        int listener, client[4], link[4];
        own_replica_begin(&world, state, &listener);
        for (int i = 0; i < 4; i++) {
            client[i] = asking(&world);
            link[i] = asked(listener);
        }
        if (unseen)
            thread_hold(&world);
        for (int i = 0; i < 4; i++) {
            const size_t len = strlen(cases[i].says);
            assert_int_equal(send(link[i], cases[i].says, len, MSG_NOSIGNAL), (ssize_t)len);
            close(link[i]);
        }
        close(listener);
        if (unseen)
            thread_release(&world, 0);
        else
            aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
        for (int i = 0; i < 4; i++) {
            size_t have = 0;
            const size_t len = strlen(cases[i].passed);
            for (ssize_t got = 1; got > 0 && have<len; have += got> 0 ? (size_t)got : 0)
                got = recv(client[i], in[i] + have, sizeof in[i] - 1 - have, 0);
            assert_memory_equal(in[i], cases[i].passed, len);
            close(client[i]);
        }
        books_close(&world);
        assert_int_equal(counts_of(&world).completions, 2);
        assert_lost(&world, 2);
        world_end(&world);
    }
}

static void what_a_slow_client_has_not_taken_outlives_the_replica(void **state)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
    static char much[1 << 16];
    struct world world;
    struct aw__backend_view view;
    size_t said = sizeof head - 1, taken = 0;
    int listener;
    own_replica_begin(&world, state, &listener);
    const int client = asking(&world), link = asked(listener);
    assert_int_equal(send(link, head, said, MSG_NOSIGNAL), (ssize_t)said);
    struct pollfd room = {.fd = link, .events = POLLOUT};
    while (poll(&room, 1, 200) == 1) { /* all sockets on the way are full behind it */
        const ssize_t sent = send(link, much, sizeof much, MSG_NOSIGNAL | MSG_DONTWAIT);
        said += sent > 0 ? (size_t)sent : 0;
    }
    close(link);
    close(listener);
    aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
    wait_for((aw__balancer_view(world.balancer, 0, &view), view.seen));
    assert_int_equal(view.in_flight, 0);
    server_start(&world, 0, NULL, NULL); /* its place is another's by now */
    slot_on(&world, 0);
    wait_for(view_ready(&world, 0));
    assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    for (ssize_t got; (got = recv(client, much, sizeof much, 0)) > 0;)
        taken += (size_t)got;
    assert_int_equal(taken, said);
    close(client);
    books_close(&world);
    assert_int_equal(counts_of(&world).completions, 2);
    aw__balancer_view(world.balancer, 0, &view);
    assert_int_equal(view.in_flight, 0);
    world_end(&world);
}

/* A kernel sends what a dead replica left in its buffers as the client takes it, and not at once.
 */
static void the_rest_of_an_answer_comes_when_it_comes(void **state)
{
    static const char *const says[] = {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n1", "23",
                                       "456"};
    struct world world;
    struct aw__backend_view view;
    char in[512];
    size_t have = 0;
    int listener;
    own_replica_begin(&world, state, &listener);
    const int client = asking(&world), link = asked(listener);
    for (int i = 0; i < 3; i++) {
        const size_t len = strlen(says[i]);
        assert_int_equal(send(link, says[i], len, MSG_NOSIGNAL), (ssize_t)len);
        standin_wait_ms(50);
        if (i > 0)
            continue;
        aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
        wait_for((aw__balancer_view(world.balancer, 0, &view), view.seen));
    }
    close(link);
    close(listener);
    for (ssize_t got; (got = recv(client, in + have, sizeof in - have, MSG_DONTWAIT)) > 0;)
        have += (size_t)got;
    assert_true(have > 6);
    assert_memory_equal(in + have - 6, "123456", 6);
    close(client);
    books_close(&world);
    assert_lost(&world, 0);
    world_end(&world);
}

static void who_lives_on_and_is_given_up_loses_what_it_has(void **state)
{
    struct world world;
    char in[512];
    int listener;
    own_replica_begin(&world, state, &listener);
    const int client = asking(&world), link = asked(listener);
    aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
    assert_true(recv(client, in, sizeof in, 0) > 12);
    assert_memory_equal(in, "HTTP/1.1 502", 12);
    assert_int_equal(recv(link, in, sizeof in, 0), 0);
    close(client);
    close(link);
    close(listener);
    books_close(&world);
    assert_lost(&world, 1);
    world_end(&world);
}

/* --- one way or the other --------------------------------------------------------------------- */

static void a_replica_without_a_socket_is_asked_on_its_port(void **state)
{
    struct aw__balancer_config config;
    struct world world;
    char path[128];
    int fd = -1;
    config_init(&config);
    world_begin(&world, &config, 0, state);
    server_start(&world, 0, NULL, NULL); /* nothing at all is there */
    server_start(&world, 1, NULL, NULL); /* and here what a dead one has left */
    assert_ok(aw_net_listen_unix(path_of(&world, world.server_port[1], path), 8, &fd, NULL));
    close(fd);
    for (uint32_t i = 0; i < 2; i++) {
        slot_on(&world, i);
        wait_for(view_ready(&world, i));
        assert_false(view_is_unix(&world, i));
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    /* a path that is too long for a socket */
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    aw__balancer_set(world.balancer, 0, AW__BACKEND_ON, world.server_port[0], path);
    wait_for(view_ready(&world, 0));
    assert_false(view_is_unix(&world, 0));
    books_close(&world);
    assert_int_equal(counts_of(&world).retries, 0);
    world_end(&world);
}

static void a_socket_that_goes_or_comes_changes_the_way_and_loses_nothing(void **state)
{
    struct aw__balancer_config config;
    struct world world;
    struct standin_load load = {.path = "/sleep/1", .clients = 4};
    char path[128], aside[128];
    config_init(&config);
    world_begin(&world, &config, 1, state);
    load.port = world.port;
    standin_load_begin(&load);
    path_of(&world, world.server_port[0], path);
    path_of(&world, 0, aside);
    for (int round = 0; round < 2; round++) {
        uint64_t before = load.ok;
        wait_for(load.ok > before + 20);
        assert_int_equal(rename(path, aside), 0);
        wait_for(!view_is_unix(&world, 0));
        before = load.ok;
        wait_for(load.ok > before + 20);
        assert_int_equal(rename(aside, path), 0);
        wait_for(view_is_unix(&world, 0));
    }
    standin_load_end(&load);
    books_close(&world);
    assert_int_equal(load.failed + load.cut, 0);
    assert_int_equal(counts_of(&world).completions, counts_of(&world).arrivals);
    world_end(&world);
}

AW_TEST_GROUP("local-balancer-link")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        BOTH(a_request_that_was_read_is_never_asked_again),
        BOTH(a_request_that_nobody_read_goes_to_another),
        BOTH(a_kept_link_that_its_replica_closes_loses_nothing),
        BOTH(what_was_said_before_the_end_is_passed_on),
        BOTH(what_a_slow_client_has_not_taken_outlives_the_replica),
        BOTH(the_rest_of_an_answer_comes_when_it_comes),
        BOTH(who_lives_on_and_is_given_up_loses_what_it_has),
        cmocka_unit_test(a_replica_without_a_socket_is_asked_on_its_port),
        OVER_TRUNK(a_socket_that_goes_or_comes_changes_the_way_and_loses_nothing),
        OVER_UNIX(a_socket_that_goes_or_comes_changes_the_way_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
