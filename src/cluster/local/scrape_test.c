/* scrape_test.c - what replicas say of themselves: read, left out, and never waited for. */
#include "base/units.h"
#include "cluster/local/local_testing.h"

#include <math.h>

/* --- answers ---------------------------------------------------------------------------------- */

#define SIZE 256u

static void answers_are_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bool ended;
        enum aw_err err;
        const char *body, *why;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na 1", false, AW_OK, "a 1", "a length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na ", false, AW_ERR_NODATA, NULL, "cut"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na ", true, AW_ERR_FORMAT, NULL, "for good"},
        {"HTTP/1.1 200 OK\r\n\r\na 1", true, AW_OK, "a 1", "until the end"},
        {"HTTP/1.1 200 OK\r\n\r\na 1", false, AW_ERR_NODATA, NULL, "which is not here yet"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n1\r\n1\r\n0\r\n\r\n",
         false, AW_OK, "a 1", "chunks"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n1\r\n1\r\n0\r\n", false,
         AW_ERR_NODATA, NULL, "that have no end yet"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", false, AW_ERR_FORMAT, NULL,
         "that are none"},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\na 1", false, AW_ERR_UNAVAILABLE, NULL,
         "not there"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\na", false, AW_ERR_LIMIT, NULL, "large"},
        {"HTTP/1.1 200 OK\r\nConte", false, AW_ERR_NODATA, NULL, "a head that is on its way"},
        {"HTTP/1.1 200 OK\r\nConte", true, AW_ERR_FORMAT, NULL, "and does not come"},
        {"", true, AW_ERR_FORMAT, NULL, "nothing"},
        {"220 mail.example.org\r\n\r\n", false, AW_ERR_FORMAT, NULL, "another language"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[SIZE];
        const char *body = NULL;
        size_t len = 0;
        memcpy(bytes, cases[i].bytes, strlen(cases[i].bytes));
        const enum aw_err err =
            aw__scrape_answer(bytes, strlen(cases[i].bytes), SIZE, cases[i].ended, &body, &len);
        if (err != cases[i].err ||
            (!err && (len != strlen(cases[i].body) || memcmp(body, cases[i].body, len) != 0)))
            fail_msg("%s: found %d", cases[i].why, err);
    }
}

static void an_answer_without_end_is_given_up_where_its_room_ends(void **state)
{
    (void)state;
    char bytes[SIZE];
    const char *body;
    size_t len;
    const int head = snprintf(bytes, sizeof bytes, "HTTP/1.1 200 OK\r\n\r\n");
    memset(bytes + head, 'a', sizeof bytes - (size_t)head);
    assert_int_equal(aw__scrape_answer(bytes, SIZE - 1, SIZE, false, &body, &len), AW_ERR_NODATA);
    assert_int_equal(aw__scrape_answer(bytes, SIZE, SIZE, false, &body, &len), AW_ERR_LIMIT);
}

/* --- replicas --------------------------------------------------------------------------------- */

static enum aw_err add(struct yard *yard, const char *const *words, uint32_t replicas,
                       const char *path, const char *histogram, struct aw_diag *diag)
{
    const char *command[8] = {"/proc/self/exe", aw_test_group_name, "serve", "{port}"};
    for (uint32_t i = 0; words && words[i]; i++)
        command[4 + i] = words[i];
    const struct aw_local_workload workload = {.command = command,
                                               .health_path = "/healthz",
                                               .metrics_path = path,
                                               .metrics_histogram = histogram,
                                               .replicas = replicas,
                                               .replicas_max = 4,
                                               .cpu_millicores = 500,
                                               .memory_bytes = 256 * AW_MIB};
    return aw_local_add(yard->local, &workload, &yard->workload, diag);
}

static bool begin(struct yard *yard, const char *const *words, uint32_t replicas, const char *path)
{
    struct aw_diag diag = {0};
    yard_settings(yard);
    if (!yard_new(yard))
        return false;
    if (add(yard, words, replicas, path, STANDIN_HISTOGRAM, &diag))
        fail_msg("%s", diag.text);
    wait_until(5, yard_is(yard, replicas));
    return true;
}

/* Requests that replicas have told of. */
static double told(struct yard *yard)
{
    pthread_mutex_lock(&yard->local->lock);
    const struct aw_promtext_histogram *h = &yard->local->workload[yard->workload]->scrape.total;
    const double count = h->buckets ? h->count[h->buckets - 1] : 0;
    pthread_mutex_unlock(&yard->local->lock);
    return count;
}

#define SLEEP "/sleep/120" /* more than half of STANDIN_BOUND_US, less than all of it */

static struct standin_load load_begin(struct yard *yard)
{
    return (struct standin_load){
        .path = SLEEP, .clients = 8, .port = aw_local_port(yard->local, yard->workload)};
}

static void time_inside_is_known_beside_what_clients_feel(const char *const *words)
{
    struct yard yard;
    if (!begin(&yard, words, 2, "/metrics"))
        skip();
    struct standin_load load = load_begin(&yard);
    standin_load_begin(&load);
    struct aw_sample sample;
    for (uint32_t i = 0; i < 3; i++) {
        wait_until(5, told(&yard) > 8 * (i + 1));
        standin_wait_ms(1500);
        sample = yard_observe(&yard);
        assert_true(sample.inside_us_p50.at_us != AW_NEVER);
        assert_true(sample.inside_us_p50.at_us <= sample.at_us);
        assert_true(sample.inside_us_p50.value > 0);
        assert_true(sample.inside_us_p50.value <= sample.latency_us_p99.value);
        assert_true(sample.inside_us_p50.value <= sample.inside_us_p99.value);
        assert_true(sample.inside_us_p99.value <= STANDIN_BOUND_US);
    }
    standin_load_end(&load);
    /* all of it is told of, once; nothing happens any more, and nothing is told of any more */
    wait_until(5, told(&yard) >= (double)load.ok);
    standin_wait_ms(1100);
    assert_true(told(&yard) == (double)load.ok);
    yard_observe(&yard);
    standin_wait_ms(1100);
    sample = yard_observe(&yard);
    assert_true(sample.inside_us_p50.at_us == AW_NEVER && sample.inside_us_p50.value == 0);
    const double p50 = aw_local_inside_us(yard.local, yard.workload, 0.5);
    assert_true(p50 > 0 && p50 <= STANDIN_BOUND_US);
    yard_end(&yard);
}

static void time_inside_is_known_over_unix_sockets(void **state)
{
    (void)state;
    time_inside_is_known_beside_what_clients_feel(NULL);
}

static void time_inside_is_known_over_tcp(void **state)
{
    (void)state;
    static const char *const words[] = {"tcp", NULL};
    time_inside_is_known_beside_what_clients_feel(words);
}

static void a_restart_takes_nothing_away(void **state)
{
    (void)state;
    struct yard yard;
    if (!begin(&yard, NULL, 1, "/metrics"))
        skip();
    struct standin_load load = load_begin(&yard);
    standin_load_begin(&load);
    double before = 0;
    for (uint32_t round = 0; round < 3; round++) {
        wait_until(5, told(&yard) > before + 8);
        before = told(&yard);
        uint32_t restarts = 0;
        assert_true(signal_replica(yard.local, yard.workload, 0, SIGKILL));
        wait_until(5, (restarts += yard_observe(&yard).restarts, restarts == 1));
        assert_true(told(&yard) >= before);
    }
    wait_until(5, told(&yard) > before + 8);
    standin_load_end(&load);
    standin_wait_ms(1100);
    assert_true(told(&yard) <= (double)load.ok); /* the last half second of a life is not told */
    yard_end(&yard);
}

/* Metrics that are not there, are others or never come: all else is as it was. */
static void without_metrics_all_else_is_as_it_was(void **state)
{
    (void)state;
    static const char *const paths[] = {NULL, "", "/500", "/", "/chunked", "/hang", "/sleep/5000"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct yard yard;
        if (!begin(&yard, NULL, 2, paths[i]))
            skip();
        assert_int_equal(yard.local->scrape != NULL, paths[i] && *paths[i]);
        struct standin_load load = load_begin(&yard);
        standin_load_begin(&load);
        yard_observe(&yard);
        wait_until(5, load.ok > 20);
        int64_t observed_us = 0;
        for (uint32_t n = 0; n < 20; n++) { /* a round of questions is under way in most of them */
            const int64_t from = aw_clock_monotonic_us(NULL);
            const struct aw_sample sample = yard_observe(&yard);
            observed_us += aw_clock_monotonic_us(NULL) - from;
            assert_true(sample.inside_us_p50.at_us == AW_NEVER && sample.inside_us_p50.value == 0);
            assert_true(sample.inside_us_p99.at_us == AW_NEVER && sample.inside_us_p99.value == 0);
            assert_int_equal(sample.replicas_ready, 2);
            standin_wait_ms(50);
        }
        assert_true(observed_us < 20 * 100000); /* nobody waits for who does not answer */
        standin_wait_ms(300);
        assert_true(yard_observe(&yard).latency_us_p50.value >= 120000);
        assert_true(isnan(aw_local_inside_us(yard.local, yard.workload, 0.5)));
        standin_load_end(&load);
        assert_int_equal(load.failed + load.cut, 0);
        yard_end(&yard);
    }
}

static void paths_and_names_that_cannot_be_are_refused(void **state)
{
    (void)state;
    char long_path[200] = "/";
    memset(long_path + 1, 'a', sizeof long_path - 2);
    static const char *const bad[][2] = {{"metrics", "a"}, {"/a b", "a"}, {"/a\r\nX: y", "a"},
                                         {"/m", ""},       {"/m", NULL},  {"/m", "a-b"}};
    struct yard yard;
    struct aw_diag diag;
    yard_settings(&yard);
    if (!yard_new(&yard))
        skip();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        diag = (struct aw_diag){0};
        assert_int_equal(add(&yard, NULL, 1, bad[i][0], bad[i][1], &diag), AW_ERR_CONFIG);
        assert_true(diag.text[0]);
    }
    assert_int_equal(add(&yard, NULL, 1, long_path, "a", &diag), AW_ERR_LIMIT);
    yard_end(&yard);
}

AW_TEST_GROUP("local-scrape")
{
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_taken_whole_or_not_at_all),
        cmocka_unit_test(an_answer_without_end_is_given_up_where_its_room_ends),
        cmocka_unit_test(time_inside_is_known_over_unix_sockets),
        cmocka_unit_test(time_inside_is_known_over_tcp),
        cmocka_unit_test(a_restart_takes_nothing_away),
        cmocka_unit_test(without_metrics_all_else_is_as_it_was),
        cmocka_unit_test(paths_and_names_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
