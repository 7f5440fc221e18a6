/* balancer_trunk_test.c - trunks, with the test as the replica that keeps or breaks its word. */
#include "base/mux_frame_testing.h"
#include "cluster/local/balancer_testing.h"

static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
static const char fine[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

/* Answers health checks until a trunk is asked for, and is made. */
static void end_meet(struct trunk_end *end, int listener)
{
    static const char well[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    static const char yes[] = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    for (;;) {
        *end = (struct trunk_end){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
        assert_true(end->fd >= 0);
        const ssize_t got = recv(end->fd, end->in, sizeof end->in - 1, 0);
        const bool asked = got > 0 && strstr(end->in, "\r\nUpgrade: " AW_MUX_FRAME_UPGRADE "\r\n");
        (void)!send(end->fd, asked ? yes : well, strlen(asked ? yes : well), MSG_NOSIGNAL);
        if (asked)
            return;
        close(end->fd);
    }
}

static void answer(const struct trunk_end *end, uint32_t stream)
{
    trunk_say(end, AW_MUX_FRAME_ANSWER, stream, fine, sizeof fine - 1, true);
}

/* The next request; its stream. */
static uint32_t request_next(struct trunk_end *end, const char *bytes)
{
    struct aw_mux_frame_frame frame;
    assert_true(trunk_next(end, &frame));
    assert_int_equal(frame.kind, AW_MUX_FRAME_REQUEST);
    assert_int_equal(frame.len, strlen(bytes));
    assert_memory_equal(frame.payload, bytes, frame.len);
    return frame.stream;
}

static int client_ask(const struct world *world, const char *bytes)
{
    const int fd = standin_connect(world->port);
    assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
    return fd;
}

/* The status of what comes, all of which is in `in`. */
static int client_answer(int fd, char *in, size_t size)
{
    const ssize_t got = recv(fd, in, size - 1, 0);
    in[got > 0 ? got : 0] = '\0';
    return got > 12 ? (int)strtol(in + 9, NULL, 10) : 0;
}

static void meet_as(struct world *world, struct trunk_end *end, int *ret_listener,
                    const struct aw__balancer_config *config)
{
    void *state = &ways[WAY_UNIX];
    world_begin(world, config, 0, &state);
    *ret_listener = listener_open(world, 0);
    slot_on(world, 0);
    end_meet(end, *ret_listener);
    wait_for(view_has_trunk(world, 0));
}

static void meet(struct world *world, struct trunk_end *end, int *ret_listener, int64_t health_us)
{
    struct aw__balancer_config config;
    config_init(&config);
    config.health_period_us = health_us;
    meet_as(world, end, ret_listener, &config);
}

static void leave(struct world *world, const struct trunk_end *end, int listener)
{
    books_close(world);
    if (end->fd >= 0)
        close(end->fd);
    close(listener);
    world_end(world);
}

#define ONCE_US 60000000 /* between health checks: there is but one */

static void requests_go_together_and_are_answered_in_any_order(void **state)
{
    (void)state;
    static const char post[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    struct world world;
    struct trunk_end end;
    char in[512];
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const int first = client_ask(&world, get);
    const uint32_t one = request_next(&end, get);
    const int second = client_ask(&world, post);
    const uint32_t two = request_next(&end, post);
    assert_int_not_equal(one, two);
    answer(&end, 0xabcd0001); /* to nobody: he has gone */
    answer(&end, two);
    assert_int_equal(client_answer(second, in, sizeof in), 200);
    assert_non_null(strstr(in, "\r\n\r\nfine"));
    /* one that comes in parts, its head as well */
    trunk_say(&end, AW_MUX_FRAME_ANSWER, one, fine, 20, false);
    trunk_say(&end, AW_MUX_FRAME_ANSWER, one, fine + 20, sizeof fine - 3 - 20, false);
    trunk_say(&end, AW_MUX_FRAME_ANSWER, one, fine + sizeof fine - 3, 2, true);
    size_t have = 0;
    while (have < sizeof fine - 1) {
        const ssize_t got = recv(first, in + have, sizeof in - have, 0);
        assert_true(got > 0);
        have += (size_t)got;
    }
    assert_int_equal(have, sizeof fine - 1);
    assert_memory_equal(in, fine, sizeof fine - 1);
    close(first);
    close(second);
    wait_for(counts_of(&world).completions == 2);
    leave(&world, &end, listener);
}

static void a_refused_request_is_asked_elsewhere(void **state)
{
    (void)state;
    static const char post[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    struct world world;
    struct trunk_end end;
    char in[512];
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const int client = client_ask(&world, post);
    const uint32_t stream = request_next(&end, post);
    server_start(&world, 1, NULL, NULL);
    slot_on(&world, 1);
    wait_for(view_ready(&world, 1));
    trunk_say(&end, AW_MUX_FRAME_FAREWELL, 0, NULL, 0, false);
    trunk_say(&end, AW_MUX_FRAME_REFUSED, stream, NULL, 0, false);
    /* as a whole, though it is one that must not be asked twice: nobody has looked at it */
    assert_int_equal(client_answer(client, in, sizeof in), 200);
    assert_non_null(strstr(in, "\r\n\r\nok"));
    assert_lost(&world, 0);
    assert_true(counts_of(&world).retries > 0);
    close(client);
    leave(&world, &end, listener);
}

static void after_a_farewell_the_trunk_ends_with_its_last_answer(void **state)
{
    (void)state;
    struct world world;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    char in[512];
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const int client = client_ask(&world, get);
    const uint32_t stream = request_next(&end, get);
    trunk_say(&end, AW_MUX_FRAME_FAREWELL, 0, NULL, 0, false);
    answer(&end, stream);
    assert_int_equal(client_answer(client, in, sizeof in), 200);
    assert_false(trunk_next(&end, &frame));
    wait_for(!view_has_trunk(&world, 0));
    close(client);
    leave(&world, &end, listener);
}

static void a_trunk_that_breaks_loses_what_it_had_and_is_made_anew(void **state)
{
    (void)state;
    struct world world;
    struct trunk_end end;
    char in[512];
    int listener, client[4];
    meet(&world, &end, &listener, 20000);
    for (int i = 0; i < 4; i++)
        client[i] = client_ask(&world, get);
    for (int i = 0; i < 4; i++)
        (void)request_next(&end, get);
    close(end.fd);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(client_answer(client[i], in, sizeof in), 502);
        close(client[i]);
    }
    assert_lost(&world, 4);
    end_meet(&end, listener);
    wait_for(view_has_trunk(&world, 0));
    client[0] = client_ask(&world, get);
    answer(&end, request_next(&end, get));
    assert_int_equal(client_answer(client[0], in, sizeof in), 200);
    close(client[0]);
    leave(&world, &end, listener);
}

static void what_was_said_before_the_end_is_passed_on(void **state)
{
    (void)state;
    for (int unseen = 0; unseen < 2; unseen++) {
        struct world world;
        struct trunk_end end;
        char in[512];
        int listener, client[4];
        uint32_t stream[4];
        meet(&world, &end, &listener, ONCE_US);
        for (int i = 0; i < 4; i++) {
            client[i] = client_ask(&world, get);
            stream[i] = request_next(&end, get);
        }
        if (unseen)
            thread_hold(&world);
        for (int i = 0; i < 3; i++) /* and one that it does not answer */
            answer(&end, stream[i]);
        close(end.fd);
        end.fd = -1;
        if (unseen)
            thread_release(&world, 0);
        else
            aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(client_answer(client[i], in, sizeof in), i < 3 ? 200 : 502);
            close(client[i]);
        }
        wait_for(counts_of(&world).completions == 3);
        assert_lost(&world, 1);
        leave(&world, &end, listener);
    }
}

static void what_no_replica_says_costs_it_its_trunk(void **state)
{
    (void)state;
    static const struct {
        enum aw_mux_frame_kind kind;
        uint32_t len;
        bool last, ends;
        const char *payload, *why;
    } cases[] = {
        {AW_MUX_FRAME_REQUEST, 4, false, true, "GET ", "a request from who is asked"},
        {AW_MUX_FRAME_CANCEL, 0, false, true, NULL, "a cancellation from who is asked"},
        {AW_MUX_FRAME_ANSWER, 7, true, false, "rubbish", "no answer at all"},
        {AW_MUX_FRAME_ANSWER, 0, true, false, NULL, "the end of an answer that never began"},
        {AW_MUX_FRAME_ANSWER, sizeof fine - 3, true, false, fine, "half an answer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        struct trunk_end end;
        struct aw_mux_frame_frame frame;
        int listener;
        meet(&world, &end, &listener, ONCE_US);
        const int client = client_ask(&world, get);
        const uint32_t stream = request_next(&end, get);
        trunk_say(&end, cases[i].kind, stream, cases[i].payload, cases[i].len, cases[i].last);
        wait_for(counts_of(&world).lost == 1);
        if (cases[i].ends && view_has_trunk(&world, 0))
            fail_msg("%s: still there", cases[i].why);
        if (cases[i].ends)
            while (trunk_next(&end, &frame))
                ;
        close(client);
        leave(&world, &end, listener);
    }
}

/* --- slow clients ----------------------------------------------------------------------------- */

#define SLOW_BYTES (8u << 20)

/* An answer that is longer than sockets have room for, to a client that does not read yet. */
struct slow {
    int client;
    uint32_t stream, credit;
    size_t sent; /* of the body */
    size_t got;  /* by the client, head and all */
};

static const char until_close[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

static void slow_begin(struct slow *slow, const struct world *world, struct trunk_end *end)
{
    *slow = (struct slow){.client = client_ask(world, get), .credit = AW_MUX_FRAME_WINDOW};
    slow->stream = request_next(end, get);
    trunk_say(end, AW_MUX_FRAME_ANSWER, slow->stream, until_close, sizeof until_close - 1, false);
    slow->credit -= (uint32_t)sizeof until_close - 1;
}

/* Says what may be said of it. False: nothing more for now, while the client does not read. */
static bool slow_say(struct slow *slow, struct trunk_end *end)
{
    static char part[AW_MUX_FRAME_PAYLOAD_MAX];
    const struct timeval soon = {.tv_usec = 200000}, long_time = {.tv_sec = 20};
    struct aw_mux_frame_frame frame;
    while (slow->sent < SLOW_BYTES) {
        const size_t left = SLOW_BYTES - slow->sent;
        const uint32_t count = left < slow->credit ? (uint32_t)left : slow->credit;
        if (count > 0) {
            memset(part, 'p', count);
            trunk_say(end, AW_MUX_FRAME_ANSWER, slow->stream, part, count, count == left);
            slow->sent += count;
            slow->credit -= count;
            continue;
        }
        setsockopt(end->fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
        const bool more = trunk_next(end, &frame);
        setsockopt(end->fd, SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
        if (!more)
            return false;
        assert_true(frame.kind == AW_MUX_FRAME_CREDIT && frame.stream == slow->stream);
        slow->credit += frame.len;
        assert_true(slow->credit <= AW_MUX_FRAME_WINDOW);
    }
    return true;
}

static bool slow_read(struct slow *slow)
{
    static char much[1 << 16];
    ssize_t got = recv(slow->client, much, sizeof much, 0);
    const bool any = got > 0;
    for (; got > 0; got = recv(slow->client, much, sizeof much, MSG_DONTWAIT))
        slow->got += (size_t)got;
    return any;
}

static void a_slow_client_holds_up_nobody(void **state)
{
    (void)state;
    struct world world;
    struct trunk_end end;
    struct slow slow;
    char in[512];
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    slow_begin(&slow, &world, &end);
    assert_false(slow_say(&slow, &end)); /* the sockets to the client are full */
    const int other = client_ask(&world, get);
    answer(&end, request_next(&end, get));
    assert_int_equal(client_answer(other, in, sizeof in), 200);
    close(other);
    while (!slow_say(&slow, &end))
        assert_true(slow_read(&slow));
    while (slow_read(&slow))
        ;
    assert_int_equal(slow.got, sizeof until_close - 1 + SLOW_BYTES);
    close(slow.client);
    wait_for(counts_of(&world).completions == 2);
    leave(&world, &end, listener);
}

static void a_trunk_has_the_bytes_per_second_that_its_replica_may_have(void **state)
{
    (void)state;
    struct aw__balancer_config config;
    struct world world;
    struct trunk_end end;
    struct slow slow;
    int listener;
    config_init(&config);
    config.health_period_us = ONCE_US;
    config.request_timeout_us = 60000000;
    config.network_bytes_per_s[AW__METER_OUT] = 6 << 20;
    meet_as(&world, &end, &listener, &config);
    const int64_t begin_us = aw_clock_monotonic_us(NULL), cpu_us = own_cpu_us();
    slow_begin(&slow, &world, &end);
    while (!slow_say(&slow, &end))
        assert_true(slow_read(&slow));
    while (slow_read(&slow))
        ;
    const int64_t took_us = aw_clock_monotonic_us(NULL) - begin_us;
    assert_int_equal(slow.got, sizeof until_close - 1 + SLOW_BYTES);
    assert_in_range(took_us, 1100000, 10000000); /* 1.33 s, less an eighth for the first burst */
    assert_true(own_cpu_us() - cpu_us < took_us / 2); /* nobody turns round and round meanwhile */
    close(slow.client);
    wait_for(counts_of(&world).completions == 1);
    leave(&world, &end, listener);
}

/* Requests are held back as well: they wait on the trunk, and none is lost. */
static void a_trunk_takes_requests_as_fast_as_its_replica_may_be_asked(void **state)
{
    (void)state;
    enum { REQUESTS = 8, BYTES = 8000 };
    struct aw__balancer_config config;
    struct world world;
    struct trunk_end end;
    char text[BYTES + 1] = "GET / HTTP/1.1\r\nHost: x\r\nX: ", in[512];
    int listener, client[REQUESTS];
    memset(text + strlen(text), 'x', BYTES - strlen(text));
    memcpy(text + BYTES - 4, "\r\n\r\n", 5);
    config_init(&config);
    config.health_period_us = ONCE_US;
    config.request_timeout_us = 60000000;
    config.network_bytes_per_s[AW__METER_IN] = 48000; /* and 16 KiB at once */
    meet_as(&world, &end, &listener, &config);
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    for (int i = 0; i < REQUESTS; i++)
        client[i] = client_ask(&world, text);
    for (int i = 0; i < REQUESTS; i++)
        answer(&end, request_next(&end, text));
    assert_in_range(aw_clock_monotonic_us(NULL) - begin_us, 800000, 10000000); /* 0.99 s */
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(client_answer(client[i], in, sizeof in), 200);
        close(client[i]);
    }
    leave(&world, &end, listener);
}

/* What is here needs nobody any more: the trunk may end by a farewell, by a death, or because the
 * replica is given up. */
static void an_answer_that_is_here_outlives_its_trunk(void **state)
{
    (void)state;
    enum { DEATH, FAREWELL, ORDER, WAYS };
    for (int way = DEATH; way < WAYS; way++) {
        struct world world;
        struct trunk_end end;
        struct slow slow;
        struct aw_mux_frame_frame frame;
        int listener;
        meet(&world, &end, &listener, ONCE_US);
        slow_begin(&slow, &world, &end);
        assert_false(slow_say(&slow, &end)); /* sockets are full, and a window of it is here */
        trunk_say(&end, AW_MUX_FRAME_ANSWER, slow.stream, NULL, 0, true);
        if (way == FAREWELL) {
            trunk_say(&end, AW_MUX_FRAME_FAREWELL, 0, NULL, 0, false);
            while (trunk_next(&end, &frame)) /* until it is closed there */
                assert_int_equal(frame.kind, AW_MUX_FRAME_CREDIT);
        }
        if (way == ORDER)
            aw__balancer_set(world.balancer, 0, AW__BACKEND_OFF, 0, NULL);
        close(end.fd);
        wait_for(!view_has_trunk(&world, 0));
        while (slow_read(&slow))
            ;
        assert_int_equal(slow.got, sizeof until_close - 1 + slow.sent);
        close(slow.client);
        wait_for(counts_of(&world).completions == 1);
        assert_lost(&world, 0);
        end.fd = -1;
        leave(&world, &end, listener);
    }
}

/* --- replicas that break their word ----------------------------------------------------------- */

static void who_answers_beyond_its_credit_loses_its_trunk(void **state)
{
    (void)state;
    static char much[AW_MUX_FRAME_PAYLOAD_MAX];
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";
    struct world world;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    char in[AW_MUX_FRAME_PAYLOAD_MAX];
    int listener;
    memset(much, 'x', sizeof much);
    memcpy(much, head, sizeof head - 1);
    meet(&world, &end, &listener, ONCE_US);
    const int client = client_ask(&world, get);
    const uint32_t stream = request_next(&end, get);
    trunk_say(&end, AW_MUX_FRAME_ANSWER, stream, much, 8000, false); /* not enough for a credit */
    for (size_t have = 0; have < 8000;) {
        const ssize_t got = recv(client, in, sizeof in, 0);
        assert_true(got > 0);
        have += (size_t)got;
    }
    trunk_say(&end, AW_MUX_FRAME_ANSWER, stream, much, AW_MUX_FRAME_WINDOW - 7999, false);
    wait_for(counts_of(&world).lost == 1);
    assert_false(view_has_trunk(&world, 0));
    while (trunk_next(&end, &frame))
        ;
    close(client);
    leave(&world, &end, listener);
}

static void a_request_that_is_being_answered_cannot_be_refused(void **state)
{
    (void)state;
    static const char post[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    struct world world;
    struct trunk_end end;
    char in[512];
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const int client = client_ask(&world, post);
    const uint32_t stream = request_next(&end, post);
    trunk_say(&end, AW_MUX_FRAME_ANSWER, stream, fine, sizeof fine - 3, false);
    trunk_say(&end, AW_MUX_FRAME_REFUSED, stream, NULL, 0, false);
    wait_for(counts_of(&world).lost == 1);
    assert_int_equal(counts_of(&world).retries, 0);
    assert_false(view_has_trunk(&world, 0));
    while (recv(client, in, sizeof in, 0) > 0)
        ;
    close(client);
    leave(&world, &end, listener);
}

static void a_replica_that_is_full_is_asked_again_later(void **state)
{
    (void)state;
    struct world world;
    struct trunk_end end;
    char in[512];
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const int client = client_ask(&world, get);
    for (int i = 0; i < 3; i++) {
        const int64_t before_us = aw_clock_monotonic_us(NULL);
        trunk_say(&end, AW_MUX_FRAME_REFUSED, request_next(&end, get), NULL, 0, false);
        if (i > 0)
            assert_true(aw_clock_monotonic_us(NULL) - before_us > 10000); /* not at once */
    }
    answer(&end, request_next(&end, get));
    assert_int_equal(client_answer(client, in, sizeof in), 200);
    close(client);
    leave(&world, &end, listener);
}

static void who_never_stops_talking_holds_up_nobody(void **state)
{
    (void)state;
    struct world world;
    struct trunk_end end;
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const pid_t talker = fork();
    if (talker == 0) {              /* answers to nobody, as fast as they are taken */
        static char bytes[1 << 16]; /* of so many words that reading them takes longer */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t at = 0; at < sizeof bytes; at += AW_MUX_FRAME_HEAD_BYTES)
            aw_mux_frame_put(bytes + at, &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_ANSWER,
                                                                      .stream = 0xffff0000});
        for (size_t cut = 0;;) { /* without a wait: who waits lets the queue get short */
            const ssize_t sent =
                send(end.fd, bytes + cut, sizeof bytes - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && errno != EAGAIN)
                break;
            cut = sent > 0 ? (cut + (size_t)sent) % AW_MUX_FRAME_HEAD_BYTES : cut;
        }
        _exit(0);
    }
    server_start(&world, 1, NULL, NULL);
    slot_on(&world, 1);
    wait_for(view_ready(&world, 1));
    aw__balancer_set(world.balancer, 0, AW__BACKEND_DRAIN, 0, NULL);
    for (int i = 0; i < 20; i++)
        assert_int_equal(standin_ask(world.port, "/", NULL, 0), 200);
    server_end(talker, SIGKILL);
    leave(&world, &end, listener);
}

static void a_client_that_goes_away_is_told(void **state)
{
    (void)state;
    struct world world;
    struct trunk_end end;
    struct aw_mux_frame_frame frame;
    int listener;
    meet(&world, &end, &listener, ONCE_US);
    const struct linger reset = {.l_onoff = 1};
    const int client = client_ask(&world, get);
    const uint32_t stream = request_next(&end, get);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(client);
    assert_true(trunk_next(&end, &frame));
    assert_int_equal(frame.kind, AW_MUX_FRAME_CANCEL);
    assert_int_equal(frame.stream, stream);
    answer(&end, stream); /* they have crossed */
    wait_for(counts_of(&world).aborted == 1);
    leave(&world, &end, listener);
}

AW_TEST_GROUP("local-balancer-trunk")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_together_and_are_answered_in_any_order),
        cmocka_unit_test(a_refused_request_is_asked_elsewhere),
        cmocka_unit_test(after_a_farewell_the_trunk_ends_with_its_last_answer),
        cmocka_unit_test(a_trunk_that_breaks_loses_what_it_had_and_is_made_anew),
        cmocka_unit_test(what_was_said_before_the_end_is_passed_on),
        cmocka_unit_test(what_no_replica_says_costs_it_its_trunk),
        cmocka_unit_test(a_slow_client_holds_up_nobody),
        cmocka_unit_test(a_trunk_has_the_bytes_per_second_that_its_replica_may_have),
        cmocka_unit_test(a_trunk_takes_requests_as_fast_as_its_replica_may_be_asked),
        cmocka_unit_test(an_answer_that_is_here_outlives_its_trunk),
        cmocka_unit_test(who_answers_beyond_its_credit_loses_its_trunk),
        cmocka_unit_test(a_request_that_is_being_answered_cannot_be_refused),
        cmocka_unit_test(a_replica_that_is_full_is_asked_again_later),
        cmocka_unit_test(who_never_stops_talking_holds_up_nobody),
        cmocka_unit_test(a_client_that_goes_away_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
