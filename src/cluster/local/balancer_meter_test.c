/* balancer_meter_test.c - bytes per second of a replica: as many as it may have, shared, no
 * turning. */
#include "base/units.h"
#include "cluster/local/balancer_testing.h"

#include <poll.h>

/* --- the bucket by itself --------------------------------------------------------------------- */

static void what_is_there_is_shared_by_those_who_went_without(void **state)
{
    (void)state;
    struct aw__backend backend = {0};
    struct aw__balancer b = {.config = {.network_bytes_per_s = {1000000, 0}}, .backend = &backend};
    struct aw__metered first[AW__METER_WAYS] = {0}, second[AW__METER_WAYS] = {0};
    uint64_t got[2] = {0};
    aw__meter_reset(&b, 0);
    for (int tick = 0; tick < 100; tick++) {
        for (uint32_t may; (may = aw__meter_allows(&b, 0, AW__METER_IN, first, 5000)) > 0;
             got[0] += may)
            aw__meter_take(&b, 0, AW__METER_IN, first, may);
        for (uint32_t may; (may = aw__meter_allows(&b, 0, AW__METER_IN, second, 5000)) > 0;
             got[1] += may)
            aw__meter_take(&b, 0, AW__METER_IN, second, may);
        b.now_us += 20000;
        aw__meter_fill(&b, 0);
    }
    assert_in_range(got[0] + got[1], 2080000, 2130000); /* two seconds, and the first burst */
    assert_in_range(got[1], 950000, 1010000);           /* the first alone had the burst */
    /* the other way has no limit; after a long rest there is no more than a burst */
    assert_int_equal(aw__meter_allows(&b, 0, AW__METER_OUT, first, 1 << 30), 1 << 30);
    b.now_us += 3600000000;
    aw__meter_fill(&b, 0);
    assert_int_equal(aw__meter_allows(&b, 0, AW__METER_IN, first, 1 << 30), 125000);
}

/* --- real sockets ----------------------------------------------------------------------------- */

/* GET /BYTES answers so many; a POST is read to its end. One process for each connection. */
static void serve_one(int fd)
{
    static char bytes[1 << 16];
    size_t have = 0;
    ssize_t got;
    char *end = NULL;
    while (!end && (got = recv(fd, bytes + have, 4096, 0)) > 0) {
        have += (size_t)got;
        bytes[have] = '\0';
        end = strstr(bytes, "\r\n\r\n");
    }
    if (!end)
        _exit(0);
    const bool post = strncmp(bytes, "POST", 4) == 0;
    const char *length = strstr(bytes, "Content-Length: ");
    const long answer = post ? 0 : strtol(strchr(bytes, '/') + 1, NULL, 10);
    long body = (post && length ? strtol(length + 16, NULL, 10) : 0) -
                (long)(have - (size_t)(end + 4 - bytes));
    while (body > 0 && (got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        body -= got;
    const int len = snprintf(bytes, 256, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", answer);
    (void)!send(fd, bytes, (size_t)len, MSG_NOSIGNAL);
    for (long left = answer; left > 0;) {
        const ssize_t sent =
            send(fd, bytes, left < (long)sizeof bytes ? (size_t)left : sizeof bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            break;
        left -= sent;
    }
    _exit(0);
}

static void big_server_start(struct world *world, uint32_t slot)
{
    const int listener = listener_open(world, slot);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_IGN);
        for (;;) {
            const int fd = accept(listener, NULL, NULL);
            if (fork() == 0)
                serve_one(fd);
            close(fd);
        }
    }
    close(listener);
    world->server[slot] = pid;
    slot_on(world, slot);
    wait_for(view_ready(world, slot));
}

static void limited_begin(struct world *world, enum aw__meter_way way, uint32_t servers,
                          void **state)
{
    struct aw__balancer_config config;
    config_init(&config);
    config.health_path[0] = '\0';
    config.request_timeout_us = 60000000;
    config.network_bytes_per_s[way] = AW_MIB;
    world_begin(world, &config, 0, state);
    for (uint32_t i = 0; i < servers; i++)
        big_server_start(world, i);
}

struct download {
    uint16_t port;
    long bytes, got;
    int64_t took_us;
    pthread_t thread;
    _Atomic bool done;
};

static void *download_run(void *ctx)
{
    struct download *d = ctx;
    static _Thread_local char in[1 << 16];
    char text[64];
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    const int fd = standin_connect(d->port);
    const int len = snprintf(text, sizeof text, "GET /%ld HTTP/1.1\r\nHost: x\r\n\r\n", d->bytes);
    (void)!send(fd, text, (size_t)len, MSG_NOSIGNAL);
    for (ssize_t got; d->got < d->bytes && (got = recv(fd, in, sizeof in, 0)) > 0;)
        d->got += got;
    close(fd);
    d->took_us = aw_clock_monotonic_us(NULL) - begin_us;
    d->done = true;
    return NULL;
}

static void download_begin(struct download *d, const struct world *world, long bytes)
{
    *d = (struct download){.port = world->port, .bytes = bytes};
    assert_int_equal(pthread_create(&d->thread, NULL, download_run, d), 0);
}

static void download_end(struct download *d)
{
    assert_int_equal(pthread_join(d->thread, NULL), 0);
    assert_true(d->got >= d->bytes);
}

static void a_limited_replica_takes_its_time_and_holds_up_nobody(void **state)
{
    struct world world;
    struct download large;
    uint32_t asked = 0, quick = 0;
    limited_begin(&world, AW__METER_OUT, 2, state);
    const int64_t cpu_us = own_cpu_us();
    download_begin(&large, &world, 3 * AW_MIB);
    wait_for(counts_of(&world).in_flight == 1);
    while (!large.done) { /* the other one has the fewest in flight */
        const int64_t begin_us = aw_clock_monotonic_us(NULL);
        assert_int_equal(standin_ask(world.port, "/10", NULL, 0), 200);
        asked++;
        quick += aw_clock_monotonic_us(NULL) - begin_us < 200000;
        standin_wait_ms(50);
    }
    download_end(&large);
    assert_in_range(large.took_us, 2500000, 10000000);
    assert_true(own_cpu_us() - cpu_us < large.took_us / 2);
    /* Some 55 are answered one after the other meanwhile, and on a machine that stands still for a
     * second 35. Held up by the large one, each would wait for it. */
    assert_in_range(quick, 20, asked);
    books_close(&world);
    assert_int_equal(counts_of(&world).completions, counts_of(&world).arrivals);
    world_end(&world);
}

static void answers_of_one_replica_share_what_it_has(void **state)
{
    struct world world;
    struct download one, two;
    limited_begin(&world, AW__METER_OUT, 1, state);
    download_begin(&one, &world, AW_MIB);
    download_begin(&two, &world, AW_MIB);
    download_end(&one);
    download_end(&two);
    const int64_t first_us = one.took_us < two.took_us ? one.took_us : two.took_us;
    const int64_t last_us = one.took_us < two.took_us ? two.took_us : one.took_us;
    assert_in_range(last_us, 1500000, 10000000);
    assert_true(first_us > last_us * 3 / 4); /* not one after the other */
    books_close(&world);
    world_end(&world);
}

static void requests_have_a_limit_of_their_own(void **state)
{
    static char body[2 * AW_MIB];
    struct world world;
    char text[128], in[512];
    limited_begin(&world, AW__METER_IN, 1, state);
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    const int fd = standin_connect(world.port);
    const int len =
        snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 sizeof body);
    assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
    for (size_t at = 0; at < sizeof body;) {
        const ssize_t sent = send(fd, body + at, sizeof body - at, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
    assert_true(recv(fd, in, sizeof in, 0) > 12);
    assert_memory_equal(in, "HTTP/1.1 200", 12);
    assert_in_range(aw_clock_monotonic_us(NULL) - begin_us, 1600000, 10000000);
    close(fd);
    /* answers are not held back */
    struct download quick;
    download_begin(&quick, &world, 4 * AW_MIB);
    download_end(&quick);
    assert_true(quick.took_us < 2000000);
    books_close(&world);
    world_end(&world);
}

/* The bytes were said before it ended: there is nobody left whom a limit could hold. */
static void what_a_limited_replica_has_said_outlives_it(void **state)
{
    struct world world;
    struct download large;
    limited_begin(&world, AW__METER_OUT, 1, state);
    download_begin(&large, &world, 300000); /* more than the first burst; sockets have room */
    wait_for(counts_of(&world).in_flight == 1 || large.done);
    standin_wait_ms(100);
    server_end(world.server[0], SIGKILL);
    world.server[0] = 0;
    aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
    download_end(&large);
    books_close(&world);
    assert_lost(&world, 0);
    world_end(&world);
}

AW_TEST_GROUP("local-balancer-meter")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_shared_by_those_who_went_without),
        BOTH(a_limited_replica_takes_its_time_and_holds_up_nobody),
        BOTH(answers_of_one_replica_share_what_it_has),
        BOTH(requests_have_a_limit_of_their_own),
        BOTH(what_a_limited_replica_has_said_outlives_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
