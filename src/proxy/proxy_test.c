/* proxy_test.c - bytes pass untouched, the order is kept, whatever goes wrong has a sentence. */
#include "proxy/proxy_testing.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/hash.h"
#include "device/devices.h"
#include "device/sim.h"

#define STREAM "{\"model\":\"m\",\"stream\":true,\"prompt\":\"tell me\"}"
#define WHOLE  "{\"model\":\"m\",\"prompt\":\"tell me\"}"

static const struct aw_standin_config fast[MODELS_MAX] = {{0}};

static void expect_stream(const struct answer *a, uint32_t seed, uint32_t tokens)
{
    char event[256];
    size_t at = 0;
    assert_int_equal(a->status, 200);
    assert_true(a->complete);
    for (uint32_t i = 0; i <= tokens; i++) {
        const size_t len = aw_standin_event(seed, i, tokens, event, sizeof event);
        assert_true(at + len <= a->body_len);
        assert_memory_equal(a->body + at, event, len);
        at += len;
    }
    assert_int_equal(at, a->body_len);
}

static void a_stream_passes_byte_for_byte_however_it_is_cut(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){0}, fast, 1);
    for (uint32_t seed = 1; seed <= 40; seed++) {
        char headers[128];
        struct answer a, direct;
        const uint32_t tokens = seed * 13 % 97 + 1;
        snprintf(headers, sizeof headers, "X-Seed: %u\r\nX-Tokens: %u\r\n%s", seed, tokens,
                 seed % 3 == 0   ? "X-Fault: split\r\n"
                 : seed % 3 == 1 ? "X-Fault: close\r\n"
                                 : "");
        ask_once(aw_proxy_port(s.proxy), headers, STREAM, &a);
        expect_stream(&a, seed, tokens);
        ask_once(aw_standin_port(s.model[0]), headers, STREAM, &direct);
        /* the chunks, too, are those of the upstream */
        assert_int_equal(a.raw_len - a.head.bytes, direct.raw_len - direct.head.bytes);
        assert_memory_equal(a.raw + a.head.bytes, direct.raw + direct.head.bytes,
                            a.raw_len - a.head.bytes);
        answer_free(&a);
        answer_free(&direct);
    }
    scene_end(&s);
}

static void requests_of_one_connection_are_answered_in_turn(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){0}, fast, 2);
    const int fd = client_connect(aw_proxy_port(s.proxy));
    for (uint32_t seed = 1; seed <= 20; seed++) {
        char headers[128];
        struct answer a;
        snprintf(headers, sizeof headers, "X-Seed: %u\r\nX-Tokens: 7\r\n", seed);
        client_ask(fd, headers, seed % 2 ? STREAM : WHOLE);
        client_read(fd, &a);
        if (seed % 2)
            expect_stream(&a, seed, 7);
        else
            assert_true(a.complete && a.status == 200);
        answer_free(&a);
    }
    close(fd);
    scene_end(&s);
}

static void pipelined_requests_and_refusals_are_answered_in_turn(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){0}, fast, 1);
    const int fd = client_connect(aw_proxy_port(s.proxy));
    static const char lines[] = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char all[400 * sizeof lines];
    size_t len = 0;
    for (int i = 0; i < 400; i++, len += sizeof lines - 1)
        memcpy(all + len, lines, sizeof lines - 1);
    client_send(fd, all, len);
    uint32_t answers = 0;
    char got[65536];
    size_t have = 0;
    while (answers < 400) {
        const ssize_t n = recv(fd, got + have, sizeof got - have, 0);
        assert_true(n > 0);
        have += (size_t)n;
        for (;;) {
            struct aw_http1_head head;
            if (aw_http1_response(got, have, false, &head, NULL) || have < head.bytes + head.length)
                break;
            assert_int_equal(head.status, 404);
            have -= head.bytes + (size_t)head.length;
            memmove(got, got + head.bytes + head.length, have);
            answers++;
        }
    }
    close(fd);
    scene_end(&s);
}

static void a_large_request_and_one_in_chunks_arrive_whole(void **state)
{
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){.bodies_max = 1}, fast, 1);
    const size_t size = 300000;
    char *body = malloc(size + 1);
    const int begun = snprintf(body, size, "{\"stream\":true,\"prompt\":\"");
    for (size_t i = (size_t)begun; i < size - 2; i++)
        body[i] = (char)('a' + i * 7 % 26);
    memcpy(body + size - 2, "\"}", 3);
    char expected[32];
    snprintf(expected, sizeof expected, "%016llx",
             (unsigned long long)aw_hash_bytes(AW_HASH_BEGIN, body, size));
    for (int chunked = 0; chunked < 2; chunked++) {
        struct answer a;
        const int fd = client_connect(aw_proxy_port(s.proxy));
        if (!chunked) {
            client_ask(fd, "X-Tokens: 3\r\n", body);
        } else {
            static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                       "X-Tokens: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
            client_send(fd, head, sizeof head - 1);
            for (size_t at = 0, n = 1; at < size; at += n) {
                char line[32];
                n = (n * 5 + 3) % 20000;
                n = n < size - at ? n : size - at;
                client_send(fd, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", n));
                client_send(fd, body + at, n);
                client_send(fd, "\r\n", 2);
            }
            client_send(fd, "0\r\n\r\n", 5);
        }
        client_read(fd, &a);
        expect_stream(&a, 1, 3);
        assert_true(aw_http1_is(aw_http1_find(&a.head, "x-body"), expected));
        answer_free(&a);
        close(fd);
    }
    free(body);
    scene_end(&s);
}

static void bad_requests_are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *request;
        int status;
        const char *says;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "/v1/"},
        {"GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n", 505, "HTTP/1.1"},
        {"lorem ipsum\r\n\r\n", 400, "METHOD"},
        {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{\"a\" ",
         400, "expected a colon"},
        {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
         413, "larger"},
        {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz",
         400, "chunked body"},
        {"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
         "Transfer-Encoding: chunked\r\n\r\n",
         400, "found both"},
        {"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "localhost"},
        {"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405, "GET"},
    };
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){0}, fast, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        const int fd = client_connect(aw_proxy_port(s.proxy));
        client_send(fd, cases[i].request, strlen(cases[i].request));
        client_read(fd, &a);
        assert_int_equal(a.status, cases[i].status);
        a.body[a.body_len] = '\0';
        if (!strstr(a.body, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", a.body, cases[i].says);
        answer_free(&a);
        close(fd);
    }
    char *head = calloc(1, 20001); /* a head without an end */
    memset(head, 'a', 20000);
    memcpy(head, "GET /v1/models HTTP/1.1\r\nX: ", 27);
    struct answer a;
    const int fd = client_connect(aw_proxy_port(s.proxy));
    client_send(fd, head, 12000);
    client_read(fd, &a);
    assert_int_equal(a.status, 431);
    answer_free(&a);
    close(fd);
    free(head);
    scene_end(&s);
}

static void an_upstream_that_dies_in_the_middle_ends_the_stream_with_an_error(void **state)
{
    struct scene s;
    struct answer a;
    char event[256];
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){0}, fast, 1);
    ask_once(aw_proxy_port(s.proxy), "X-Tokens: 20\r\nX-Fault: die=5\r\n", STREAM, &a);
    assert_int_equal(a.status, 200);
    assert_false(a.complete); /* no last chunk: nobody can take it for whole */
    size_t at = 0;
    for (uint32_t i = 0; i < 5; i++) {
        const size_t len = aw_standin_event(1, i, 20, event, sizeof event);
        assert_memory_equal(a.body + at, event, len);
        at += len;
    }
    a.body[a.body_len] = '\0';
    assert_memory_equal(a.body + at, "data: {\"error\":", 15);
    assert_non_null(strstr(a.body + at, "upstream_died"));
    assert_non_null(strstr(a.body + at, "in the middle of its answer"));
    answer_free(&a);
    /* the next request is served as if nothing had been */
    ask_once(aw_proxy_port(s.proxy), "X-Tokens: 4\r\n", STREAM, &a);
    expect_stream(&a, 1, 4);
    answer_free(&a);
    assert_true(page_figure(aw_proxy_port(s.proxy), "aware_proxy_cut_answers_total") == 1);
    scene_end(&s);
}

static void other_faults_of_upstreams_become_answers_with_a_sentence(void **state)
{
    static const struct {
        const char *fault;
        int status;
        bool complete;
        const char *says;
    } cases[] = {
        {"X-Fault: early\r\n", 502, true, "without an answer"},
        {"X-Fault: garbage\r\n", 502, true, "not HTTP/1.1"},
        {"X-Fault: silent\r\n", 504, true, "did not answer in time"},
        {"X-Fault: busy\r\n", 503, true, "busy"},
        {"X-Tokens: 9\r\nX-Fault: badchunk=3\r\n", 200, false, "chunks are malformed"},
        {"X-Tokens: 9\r\nX-Fault: stall=3\r\n", 200, false, "stalled"},
        {"X-Tokens: 3\r\nX-Fault: surplus\r\n", 200, true, "[DONE]"},
    };
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){.first_us = 300000, .stall_us = 300000}, fast, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a;
        ask_once(aw_proxy_port(s.proxy), cases[i].fault, STREAM, &a);
        a.body[a.body_len] = '\0';
        if (a.status != cases[i].status || a.complete != cases[i].complete ||
            !strstr(a.body, cases[i].says))
            fail_msg("%s: %d, complete %d: %s", cases[i].fault, a.status, a.complete, a.body);
        assert_null(strstr(a.body, "evil"));
        answer_free(&a);
        ask_once(aw_proxy_port(s.proxy), "X-Tokens: 4\r\n", STREAM, &a); /* it goes on */
        expect_stream(&a, 1, 4);
        answer_free(&a);
    }
    scene_end(&s);
}

static void a_client_that_leaves_frees_its_slot(void **state)
{
    struct scene s;
    struct answer a;
    const struct aw_standin_config slow = {.decode_us = 2000};
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){.slots = 1}, &slow, 1);
    int fd = client_connect(aw_proxy_port(s.proxy));
    client_ask(fd, "X-Tokens: 100000\r\n", STREAM);
    char some[64];
    assert_true(recv(fd, some, sizeof some, 0) > 0); /* it has the slot */
    close(fd);
    fd = client_connect(aw_proxy_port(s.proxy)); /* waits behind nobody, then leaves unserved */
    client_ask(fd, "X-Tokens: 100000\r\n", STREAM);
    close(fd);
    ask_once(aw_proxy_port(s.proxy), "X-Tokens: 5\r\n", STREAM, &a);
    expect_stream(&a, 1, 5);
    answer_free(&a);
    scene_end(&s);
}

static void no_more_are_in_flight_than_slots_and_no_more_wait_than_allowed(void **state)
{
    struct scene s;
    const struct aw_standin_config slow = {.decode_us = 3000};
    int fd[30];
    uint32_t served = 0, refused = 0;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){.slots = 3, .queue_max = 10}, &slow, 1);
    for (int i = 0; i < 30; i++) {
        fd[i] = client_connect(aw_proxy_port(s.proxy));
        client_ask(fd[i], "X-Tokens: 20\r\n", STREAM);
    }
    for (int i = 0; i < 30; i++) {
        struct answer a;
        client_read(fd[i], &a);
        assert_true(a.complete);
        served += a.status == 200;
        refused += a.status == 503;
        answer_free(&a);
        close(fd[i]);
    }
    assert_int_equal(served + refused, 30);
    assert_true(served >= 13 && refused >= 1);
    assert_int_equal(aw_standin_most(s.model[0]), 3);
    scene_end(&s);
}

/* Teaches two prompts with short and long answers, fills the one slot, lets `count` of each wait
 * and says how many of the short ones were served among the first half. */
static uint32_t short_ones_first(uint32_t kind)
{
    struct scene s;
    struct aw_proxy_config config = {.slots = 1, .order = {.kind = kind, .alpha = 1000}};
    const struct aw_standin_config slow = {.decode_us = 400};
    const char *body[2] = {
        "{\"model\":\"m\",\"stream\":true,\"prompt\":\"say yes or no\"}",
        "{\"model\":\"m\",\"stream\":true,\"prompt\":\"write a long essay of 900 words "
        "about bridges\"}"};
    int fd[17];
    scene_make(&s, &config, &slow, 1);
    for (int i = 0; i < 60; i++) {
        struct answer a;
        ask_once(aw_proxy_port(s.proxy), i % 2 ? "X-Tokens: 60\r\n" : "X-Tokens: 2\r\n",
                 body[i % 2], &a);
        assert_true(a.complete);
        answer_free(&a);
    }
    const uint64_t before = aw_standin_begun(s.model[0]);
    for (int i = 0; i < 17; i++) { /* the first takes the slot for long; long and short in turn */
        char headers[64];
        fd[i] = client_connect(aw_proxy_port(s.proxy));
        snprintf(headers, sizeof headers, "X-Tokens: %d\r\nX-Seed: %d\r\n",
                 i == 0  ? 1500
                 : i % 2 ? 60
                         : 2,
                 1000 + i);
        client_ask(fd[i], headers, body[i % 2 || !i]);
        while (!i && aw_standin_begun(s.model[0]) == before)
            (void)poll(NULL, 0, 2);
    }
    for (int i = 0; i < 17; i++) {
        struct answer a;
        client_read(fd[i], &a);
        assert_true(a.complete && a.status == 200);
        answer_free(&a);
        close(fd[i]);
    }
    uint32_t first = 0;
    for (uint32_t i = 1; i <= 8; i++)
        first += aw_standin_served(s.model[0], (uint32_t)before + i) % 2 == 0;
    char *page = page_get(aw_proxy_port(s.proxy), "/aware/explain");
    if (kind == AW_SERVING_SSJF)
        assert_non_null(strstr(page, "that came earlier"));
    assert_null(strstr(page, "essay")); /* no prompt is kept */
    free(page);
    scene_end(&s);
    return first;
}

static void short_answers_go_first_once_their_lengths_are_learned(void **state)
{
    (void)state;
    assert_int_equal(short_ones_first(AW_SERVING_SSJF), 8);
    assert_int_equal(short_ones_first(AW_SERVING_FCFS), 4);
}

static void a_dead_upstream_is_left_out_and_comes_back(void **state)
{
    struct scene s;
    (void)state;
    struct aw_standin *gone = aw_standin_start(&fast[0]);
    assert_non_null(gone);
    const uint16_t port = aw_standin_port(gone);
    aw_standin_stop(gone);
    struct aw_proxy_config config = {.health_us = 50000};
    scene_make(&s, &config, fast, 1);
    scene_end(&s); /* only to know how a scene is made: now with a dead second upstream */
    config.upstream[1].address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    config.upstream_count = 2;
    s = (struct scene){.config = config};
    assert_ok(aw_listen_auth_parse(&s.config.door, "127.0.0.1:0", NULL));
    s.model[0] = aw_standin_start(&fast[0]);
    s.config.upstream[0].address =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_port = htons(aw_standin_port(s.model[0])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_ok(aw_proxy_open(&s.proxy, &s.config, NULL, NULL));
    assert_int_equal(aw_thread_begin(&s.thread, scene_main, &s), 0);
    for (uint32_t i = 0; i < 10; i++) {
        struct answer a;
        ask_once(aw_proxy_port(s.proxy), "X-Tokens: 4\r\n", STREAM, &a);
        expect_stream(&a, 1, 4);
        answer_free(&a);
    }
    char *page = page_get(aw_proxy_port(s.proxy), "/aware/status");
    assert_non_null(strstr(page, "\"healthy\":false,\"why\":\"Connection refused\""));
    free(page);
    const struct aw_standin_config back = {.port = port};
    s.model[1] = aw_standin_start(&back);
    if (s.model[1]) { /* nobody else has taken the port */
        for (int i = 0; i < 400 && !aw_standin_begun(s.model[1]); i++) {
            struct answer a;
            const int busy = client_connect(aw_proxy_port(s.proxy));
            client_ask(busy, "X-Tokens: 4\r\nX-Fault: stall=1\r\n", STREAM); /* holds the first */
            ask_once(aw_proxy_port(s.proxy), "X-Tokens: 4\r\n", STREAM, &a);
            expect_stream(&a, 1, 4);
            answer_free(&a);
            close(busy);
            (void)poll(NULL, 0, 5);
        }
        assert_true(aw_standin_begun(s.model[1]) > 0);
    }
    scene_end(&s);
}

static void without_any_upstream_it_is_not_ready_and_requests_wait_their_time(void **state)
{
    struct scene s;
    struct answer a;
    (void)state;
    struct aw_standin *gone = aw_standin_start(&fast[0]);
    const uint16_t port = aw_standin_port(gone);
    aw_standin_stop(gone);
    struct aw_proxy_config config = {.upstream_count = 1, .queue_us = 300000};
    config.upstream[0].address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    scene_make(&s, &config, fast, 0);
    ask_once(aw_proxy_port(s.proxy), "", STREAM, &a);
    assert_int_equal(a.status, 503);
    a.body[a.body_len] = '\0';
    assert_non_null(strstr(a.body, "no upstream had a slot"));
    assert_non_null(aw_http1_find(&a.head, "retry-after").at);
    answer_free(&a);
    char *page = page_get(aw_proxy_port(s.proxy), "/readyz");
    assert_string_equal(page, "not ready: 0 of 1 upstreams are up\n");
    free(page);
    scene_end(&s);
}

static void a_model_goes_to_the_upstream_that_serves_it(void **state)
{
    struct scene s;
    struct answer a;
    struct aw_proxy_config config = {0};
    (void)state;
    snprintf(config.upstream[0].model, sizeof config.upstream[0].model, "small");
    snprintf(config.upstream[1].model, sizeof config.upstream[1].model, "large");
    scene_make(&s, &config, fast, 2);
    ask_once(aw_proxy_port(s.proxy), "", "{\"model\":\"large\",\"prompt\":\"a\"}", &a);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    assert_int_equal(aw_standin_begun(s.model[0]), 0);
    assert_int_equal(aw_standin_begun(s.model[1]), 1);
    ask_once(aw_proxy_port(s.proxy), "", "{\"model\":\"other\",\"prompt\":\"a\"}", &a);
    assert_int_equal(a.status, 404);
    answer_free(&a);
    scene_end(&s);
}

static void beyond_loopback_a_token_is_needed_and_it_stays_here(void **state)
{
    struct aw_proxy_config config = {.upstream_count = 1};
    struct aw_proxy *proxy;
    struct aw_diag diag = {0};
    struct scene s;
    struct answer a;
    (void)state;
    assert_ok(aw_listen_auth_parse(&config.door, "0.0.0.0:0", NULL));
    assert_int_equal(aw_proxy_open(&proxy, &config, NULL, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "--token-file"));
    snprintf(config.door.token, sizeof config.door.token, "sixteen-bytes-at-least");
    scene_make(&s, &config, fast, 1);
    ask_once(aw_proxy_port(s.proxy), "", STREAM, &a);
    assert_int_equal(a.status, 401);
    answer_free(&a);
    ask_once(aw_proxy_port(s.proxy), "Authorization: Bearer sixteen-bytes-at-leasT\r\n", STREAM,
             &a);
    assert_int_equal(a.status, 401);
    answer_free(&a);
    ask_once(aw_proxy_port(s.proxy),
             "Authorization: Bearer sixteen-bytes-at-least\r\nX-Tokens: 2\r\n", STREAM, &a);
    expect_stream(&a, 1, 2);
    answer_free(&a);
    char *page = page_get(aw_proxy_port(s.proxy), "/healthz");
    assert_string_equal(page, "ok\n");
    free(page);
    scene_end(&s);
}

static void slow_clients_are_ended_and_hold_nobody_up(void **state)
{
    struct scene s;
    struct answer a;
    (void)state;
    scene_make(&s,
               &(struct aw_proxy_config){
                   .arrive_us = 300000, .idle_us = 300000, .stall_us = 400000, .slots = 2},
               fast, 1);
    const int dripping = client_connect(aw_proxy_port(s.proxy));
    client_send(dripping, "POST /v1/comp", 13);
    const int idle = client_connect(aw_proxy_port(s.proxy));
    const int small = 4096, deaf = client_connect(aw_proxy_port(s.proxy));
    (void)setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_ask(deaf, "X-Tokens: 200000\r\n", STREAM); /* and reads nothing of it */
    ask_once(aw_proxy_port(s.proxy), "X-Tokens: 50\r\n", STREAM, &a);
    expect_stream(&a, 1, 50);
    answer_free(&a);
    client_read(dripping, &a);
    assert_int_equal(a.status, 400);
    answer_free(&a);
    char byte;
    assert_int_equal(recv(idle, &byte, 1, 0), 0);
    for (int i = 0; i < 400 && page_figure(aw_proxy_port(s.proxy), "aware_proxy_aborted_total") < 1;
         i++)
        (void)poll(NULL, 0, 10);
    assert_true(page_figure(aw_proxy_port(s.proxy), "aware_proxy_aborted_total") == 1);
    close(dripping);
    close(idle);
    close(deaf);
    scene_end(&s);
}

static void joules_of_requests_and_idle_ones_sum_to_the_counter(void **state)
{
    struct aw_device_sim *sim;
    struct scene s;
    (void)state;
    assert_ok(aw_device_sim_new(&(struct aw_device_sim_config){.count = 2}, NULL, &sim));
    struct aw_devices devices = aw_device_sim_devices(sim);
    aw_device_sim_busy(sim, 0, 500, aw_clock_monotonic_us(NULL));
    const struct aw_standin_config slow = {.decode_us = 1000};
    scene_make(&s, &(struct aw_proxy_config){.devices = &devices}, &slow, 1);
    for (int i = 0; i < 3; i++) {
        struct answer a;
        ask_once(aw_proxy_port(s.proxy), "X-Tokens: 700\r\n", STREAM, &a);
        assert_true(a.complete);
        answer_free(&a);
    }
    (void)poll(NULL, 0, 1300);
    char *page = page_get(aw_proxy_port(s.proxy), "/aware/explain");
    double joules = 0;
    for (const char *at = page; (at = strstr(at, "\"joules\":")); at += 9)
        joules += strtod(at + 9, NULL);
    free(page);
    const double busy =
        page_figure(aw_proxy_port(s.proxy), "aware_proxy_joules_total{kind=\"busy\"}");
    assert_true(busy > 50); /* two devices of 45 W and more, for two seconds and more */
    assert_close(joules, busy, 0.01);
    scene_end(&s);
    aw_devices_close(&devices);
}

static void nothing_is_allocated_after_open(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_proxy_config config = {.upstream_count = 1};
    struct aw_proxy *proxy = NULL;
    (void)state;
    assert_ok(aw_listen_auth_parse(&config.door, "127.0.0.1:0", NULL));
    config.upstream[0].address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    aw_alloc_counting_init(&counting);
    for (uint64_t n = 0;; n++) { /* every allocation of open may fail */
        counting.fail_after = n + counting.alloc_count;
        const enum aw_err err = aw_proxy_open(&proxy, &config, &counting.alloc, NULL);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
    }
    aw_proxy_close(proxy);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("proxy")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_passes_byte_for_byte_however_it_is_cut),
        cmocka_unit_test(requests_of_one_connection_are_answered_in_turn),
        cmocka_unit_test(pipelined_requests_and_refusals_are_answered_in_turn),
        cmocka_unit_test(a_large_request_and_one_in_chunks_arrive_whole),
        cmocka_unit_test(bad_requests_are_refused_with_a_sentence),
        cmocka_unit_test(an_upstream_that_dies_in_the_middle_ends_the_stream_with_an_error),
        cmocka_unit_test(other_faults_of_upstreams_become_answers_with_a_sentence),
        cmocka_unit_test(a_client_that_leaves_frees_its_slot),
        cmocka_unit_test(no_more_are_in_flight_than_slots_and_no_more_wait_than_allowed),
        cmocka_unit_test(short_answers_go_first_once_their_lengths_are_learned),
        cmocka_unit_test(a_dead_upstream_is_left_out_and_comes_back),
        cmocka_unit_test(without_any_upstream_it_is_not_ready_and_requests_wait_their_time),
        cmocka_unit_test(a_model_goes_to_the_upstream_that_serves_it),
        cmocka_unit_test(beyond_loopback_a_token_is_needed_and_it_stays_here),
        cmocka_unit_test(slow_clients_are_ended_and_hold_nobody_up),
        cmocka_unit_test(joules_of_requests_and_idle_ones_sum_to_the_counter),
        cmocka_unit_test(nothing_is_allocated_after_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
