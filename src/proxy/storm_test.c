/* storm_test.c - clients and upstreams that do whatever goes wrong, many at once: whole answers are
 * right, and nothing is left behind. */
#include "proxy/proxy_testing.h"

#include "base/rng.h"

#define CLIENTS  8u
#define REQUESTS 60u

struct storm {
    uint16_t port;
    uint32_t index;
    uint32_t whole, cut, refused, left;
    bool wrong;
    pthread_t thread;
};

/* True: what is there of it is what the server sends; whole or not. */
static bool stream_right(const struct answer *a, uint32_t seed, uint32_t tokens)
{
    char event[256];
    size_t at = 0;
    for (uint32_t i = 0; i <= tokens; i++) {
        const size_t len = aw_standin_event(seed, i, tokens, event, sizeof event);
        if (at + len > a->body_len || memcmp(a->body + at, event, len) != 0)
            return !a->complete && (a->body_len == at || !memcmp(a->body + at, "data: {\"err", 11));
        at += len;
    }
    return at == a->body_len;
}

static void *storm_main(void *ctx)
{
    static const char *const faults[] = {
        "",        "",       "",        "",      "die=%u",      "stall=%u",
        "early",   "silent", "garbage", "close", "badchunk=%u", "split",
        "surplus", "busy",   "leave"};
    struct storm *s = ctx;
    struct aw_rng rng;
    aw_rng_init(&rng, 7, s->index);
    for (uint32_t n = 0; n < REQUESTS && !s->wrong; n++) {
        const uint32_t tokens = (uint32_t)aw_rng_below(&rng, 60) + 1;
        const uint32_t seed = s->index * REQUESTS + n;
        const char *fault = faults[aw_rng_below(&rng, sizeof faults / sizeof *faults)];
        char word[32], headers[160];
        struct answer a;
        snprintf(word, sizeof word, fault, (unsigned)aw_rng_below(&rng, tokens));
        snprintf(headers, sizeof headers, "X-Seed: %u\r\nX-Tokens: %u\r\nX-Fault: %s\r\n", seed,
                 tokens, word);
        const int fd = client_connect(s->port);
        client_ask(fd, headers, "{\"stream\":true,\"prompt\":\"storm\"}");
        if (!strcmp(fault, "leave")) { /* sooner or later */
            (void)poll(NULL, 0, (int)aw_rng_below(&rng, 5));
            close(fd);
            s->left++;
            continue;
        }
        client_read(fd, &a);
        close(fd);
        s->wrong |= a.status == 200 ? !stream_right(&a, seed, tokens) : !a.complete;
        s->whole += a.status == 200 && a.complete;
        s->cut += a.status == 200 && !a.complete;
        s->refused += a.status != 200;
        answer_free(&a);
    }
    return NULL;
}

static void a_storm_of_faults_leaves_nothing_behind(void **state)
{
    const struct aw_standin_config models[2] = {{.decode_us = 200}, {0}};
    struct storm storm[CLIENTS] = {{0}};
    uint32_t whole = 0, cut = 0, refused = 0, left = 0;
    struct scene s;
    (void)state;
    scene_make(&s, &(struct aw_proxy_config){.slots = 3, .first_us = 200000, .stall_us = 200000},
               models, 2);
    const uint16_t port = aw_proxy_port(s.proxy);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        storm[i].port = port;
        storm[i].index = i;
        assert_int_equal(aw_thread_begin(&storm[i].thread, storm_main, &storm[i]), 0);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        pthread_join(storm[i].thread, NULL);
        assert_false(storm[i].wrong);
        whole += storm[i].whole;
        cut += storm[i].cut;
        refused += storm[i].refused;
        left += storm[i].left;
    }
    assert_int_equal(whole + cut + refused + left, CLIENTS * REQUESTS);
    assert_true(whole > CLIENTS * REQUESTS / 4 && cut > 0 && refused > 0 && left > 0);
    char *page = NULL;
    for (int i = 0; i < 200; i++) { /* those who left are seen to have left */
        free(page);
        page = page_get(port, "/aware/status");
        if (strstr(page, "{\"connections\":1,"))
            break;
        (void)poll(NULL, 0, 20);
    }
    assert_non_null(strstr(page, "{\"connections\":1,")); /* this one */
    uint32_t quiet = 0;
    for (const char *at = page; (at = strstr(at, "\"in_flight\":0,")); at++)
        quiet++;
    assert_int_equal(quiet, 2);
    free(page);
    assert_true(page_figure(port, "aware_proxy_waiting{pool=\"0\"}") == 0);
    scene_end(&s);
}

AW_TEST_GROUP("proxy-storm")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_of_faults_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
