/* service_test.c - an application behind HTTP: its life from start to drain, and its figures. */
#include "service/service.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>

#include "service/metrics.h"
#include "service/pages.h"
#include "service/service_testing.h"

struct place {
    struct aw_service_config config;
    struct sockaddr_in address;
    pthread_t thread;
    enum aw_err err;
    struct aw_diag diag;
};

static int signal_fd;
static struct testing_reply reply;

static void *serve(void *arg)
{
    struct place *place = arg;
    place->err = aw_service_run(&place->config, &place->diag);
    return NULL;
}

static void place_init(struct place *place, double io_ms, uint32_t threads)
{
    *place = (struct place){.config = {.runner = {.app = {.name = "test", .segment_count = 1},
                                                  .payload = 1,
                                                  .work_scale = 1,
                                                  .temp_dir = "/tmp",
                                                  .seed = 1},
                                       .unix_fd = -1,
                                       .signal_fd = signal_fd,
                                       .connections_max = 64,
                                       .queue_max = 8,
                                       .start_us = 0,
                                       .measure_us = 2000,
                                       .answer_bytes = -1,
                                       .drain_us = 20000000}};
    place->config.runner.app.segment[0] = (struct aw_segment){
        .name = "sleep", .io_ms = io_ms, .send_kib = 3, .parallelism = 1, .threads = threads};
    place->config.listen_fd = testing_listen(&place->address);
}

static void place_start(struct place *place)
{
    assert_int_equal(pthread_create(&place->thread, NULL, serve, place), 0);
}

static void wait_ready(const struct place *place)
{
    for (uint32_t i = 0; i < 5000; i++) {
        testing_get(&place->address, "/readyz", &reply);
        if (reply.status == 200)
            return;
        testing_nap(2000);
    }
    fail_msg("never ready");
}

static void place_stop(struct place *place)
{
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    (void)pthread_join(place->thread, NULL);
}

static double metric(const char *name)
{
    reply.text[reply.body - reply.text + (ptrdiff_t)reply.body_len] = '\0';
    for (const char *line = reply.body; line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const size_t len = strlen(name);
        if (!strncmp(line, name, len) && line[len] == ' ')
            return strtod(line + len + 1, NULL);
    }
    fail_msg("no metric %s", name);
    return 0;
}

/* Returns when `count` requests are being worked on or waiting. */
static void wait_in_flight(const struct place *place, uint32_t count)
{
    do {
        testing_nap(1000);
        testing_get(&place->address, "/metrics", &reply);
    } while (metric("aware_workload_in_flight") < count);
}

static void it_answers_its_health_at_once_and_is_ready_when_started(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, 1, 4);
    place.config.start_us = 400000;
    const int64_t before_us = aw_clock_monotonic_us(NULL);
    place_start(&place);
    testing_get(&place.address, "/healthz", &reply);
    assert_int_equal(reply.status, 200);
    testing_get(&place.address, "/readyz", &reply);
    assert_int_equal(reply.status, 503);
    testing_get(&place.address, "/", &reply);
    assert_int_equal(reply.status, 503);
    wait_ready(&place);
    assert_true(aw_clock_monotonic_us(NULL) - before_us >= 400000);
    testing_get(&place.address, "/", &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, 3 * 1024); /* as much as the description sends */
    assert_non_null(strstr(reply.text, "Server-Timing: queue;dur="));
    testing_get(&place.address, "/metrics", &reply);
    assert_true(metric("aware_workload_requests_total{outcome=\"ok\"}") == 1);
    assert_true(metric("aware_workload_requests_total{outcome=\"not_ready\"}") == 1);
    assert_true(metric("aware_workload_errors_total") == 1);
    assert_true(metric("aware_workload_request_duration_seconds_count") == 1);
    assert_true(metric("aware_workload_request_duration_seconds_bucket{le=\"+Inf\"}") == 1);
    assert_true(metric("aware_workload_segment_runs_total{kind=\"sleep\"}") == 1);
    assert_true(metric("aware_workload_segment_wait_seconds_total{kind=\"sleep\"}") >= 0.001);
    assert_true(metric("aware_workload_in_flight") == 0);
    assert_true(metric("aware_workload_workers") == 4);
    assert_true(metric("process_resident_memory_bytes") > 1e6);
    place_stop(&place);
    assert_ok(place.err);
}

static void other_paths_and_methods_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"GET /nowhere HTTP/1.1\r\nHost: t\r\n\r\n", 404},
        {"DELETE / HTTP/1.1\r\nHost: t\r\n\r\n", 405},
        {"POST /metrics HTTP/1.1\r\nHost: t\r\n\r\n", 405},
        {"GET /?payload=0 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /?payload=1e9 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /?payload=x HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /?payload=2 HTTP/1.1\r\nHost: t\r\n\r\n", 200},
        {"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody", 200},
    };
    struct place place;
    place_init(&place, 1, 4);
    place_start(&place);
    wait_ready(&place);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int fd = testing_connect(&place.address);
        testing_ask(fd, cases[i].request, &reply);
        if (reply.status != cases[i].status)
            fail_msg("%s: %d", cases[i].request, reply.status);
        (void)close(fd);
    }
    place_stop(&place);
    assert_ok(place.err);
}

static void requests_beyond_threads_wait_and_beyond_the_queue_are_refused(void **state)
{
    (void)state;
    struct place place;
    int fd[14];
    place_init(&place, 800, 2);
    place_start(&place);
    wait_ready(&place);
    /* 2 at work, 8 waiting, 4 too many; what a slow thread has not taken yet waits too */
    for (uint32_t i = 0; i < 14; i++) {
        fd[i] = testing_connect(&place.address);
        testing_say(fd[i], "GET / HTTP/1.1\r\nHost: t\r\n\r\n");
        if (i < 2)
            wait_in_flight(&place, i + 1);
    }
    wait_in_flight(&place, 8);
    assert_true(metric("aware_workload_queued") <= 8);
    uint32_t ok = 0, refused = 0;
    for (uint32_t i = 0; i < 14; i++) {
        testing_receive(fd[i], &reply);
        ok += reply.status == 200;
        refused += reply.status == 503;
        (void)close(fd[i]);
    }
    assert_int_equal(ok + refused, 14);
    assert_in_range(refused, 1, 14 - 8);
    testing_get(&place.address, "/metrics", &reply);
    assert_true(metric("aware_workload_requests_total{outcome=\"queue_full\"}") == refused);
    assert_true(metric("aware_workload_in_flight") == 0);
    place_stop(&place);
    assert_ok(place.err);
}

static void after_sigterm_what_is_in_flight_is_answered(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, 1500, 4);
    place_start(&place);
    wait_ready(&place);
    const int fd = testing_connect(&place.address);
    testing_say(fd, "GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    wait_in_flight(&place, 1);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    testing_receive(fd, &reply);
    assert_int_equal(reply.status, 200);
    assert_false(reply.keep_alive);
    (void)close(fd);
    (void)pthread_join(place.thread, NULL);
    assert_ok(place.err);
}

static void what_does_not_end_in_time_is_cut_off_and_said_so(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, 2500, 4);
    place.config.drain_us = 200000;
    place_start(&place);
    wait_ready(&place);
    const int fd = testing_connect(&place.address);
    testing_say(fd, "GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    wait_in_flight(&place, 1);
    place_stop(&place);
    assert_int_equal(place.err, AW_ERR_DEADLINE);
    assert_non_null(strstr(place.diag.text, "1 requests"));
    (void)close(fd);
}

static void it_lingers_not_ready_but_serving_when_asked_to(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, 1, 4);
    place.config.linger_us = 2500000;
    place_start(&place);
    wait_ready(&place);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    do
        testing_get(&place.address, "/readyz", &reply);
    while (reply.status == 200);
    assert_int_equal(reply.status, 503);
    testing_get(&place.address, "/", &reply);
    assert_int_equal(reply.status, 200);
    (void)pthread_join(place.thread, NULL);
    assert_ok(place.err);
}

static void what_cannot_start_says_why(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, 1, 4);
    snprintf(place.config.runner.app.segment[0].name, AW_APP_NAME_MAX, "nonsense");
    place_start(&place);
    (void)pthread_join(place.thread, NULL);
    assert_int_equal(place.err, AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(place.diag.text, "nonsense"));
}

static void the_base_of_the_description_is_held(void **state)
{
    (void)state;
    struct place place;
    place_init(&place, 1, 2);
    place.config.runner.app.segment[0].memory_base_mib = 100; /* and 48 of a runtime */
    place.config.hold_memory = true;
    place_start(&place);
    wait_ready(&place);
    testing_get(&place.address, "/metrics", &reply);
    assert_true(metric("process_resident_memory_bytes") >= 147.0 * (1 << 20));
    place_stop(&place);
    assert_ok(place.err);
}

static void a_block_of_pages_is_zeroed_and_only_what_is_touched_is_there(void **state)
{
    (void)state;
    const size_t bytes = (size_t)256 << 20;
    const double before = aw__service_resident_bytes();
    unsigned char *block = aw_alloc_new(&aw_pages_alloc, bytes, 1);
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i += (size_t)1 << 20) {
        assert_int_equal(block[i], 0);
        block[i] = 1;
    }
    assert_true(aw__service_resident_bytes() - before < 32.0 * (1 << 20));
    aw_alloc_free(&aw_pages_alloc, block);
    aw_alloc_free(&aw_pages_alloc, NULL);
    assert_null(aw_alloc_new(&aw_pages_alloc, SIZE_MAX / 2, 1));
    assert_null(aw_alloc_new(&aw_pages_alloc, AW_ALLOC_BYTES_MAX, 1 << 10));
}

static void figures_fit_with_every_kind_at_work(void **state)
{
    (void)state;
    static char text[AW__SERVICE_METRICS_BYTES_MAX];
    struct aw__service_metrics metrics;
    const struct aw__service_gauges now = {.app = "all", .ready = true};
    size_t len = 0;
    aw__service_metrics_init(&metrics);
    for (uint32_t i = 0; i < AW_RUNNER_KINDS; i++) {
        struct aw_app app = {.segment_count = 2};
        struct aw_run run = {.cpu_us = {1e15, 1e15}, .wait_us = {1e15, 1e15}};
        snprintf(app.segment[0].name, AW_APP_NAME_MAX, "%s", aw_runner_kind_name(i));
        snprintf(app.segment[1].name, AW_APP_NAME_MAX, "%s", aw_runner_kind_name(i));
        aw__service_metrics_run(&metrics, &app, &run, true); /* the second was not reached */
        assert_int_equal(metrics.kind_runs[i], 1);
        assert_int_equal(metrics.kind_errors[i], 1);
    }
    for (uint32_t openmetrics = 0; openmetrics < 2; openmetrics++) {
        assert_ok(aw__service_metrics_print(&metrics, &now, openmetrics, text, &len));
        assert_true(len > 4000 && len < AW__SERVICE_METRICS_BYTES_MAX);
    }
}

AW_TEST_GROUP("service")
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_answers_its_health_at_once_and_is_ready_when_started),
        cmocka_unit_test(other_paths_and_methods_are_refused),
        cmocka_unit_test(requests_beyond_threads_wait_and_beyond_the_queue_are_refused),
        cmocka_unit_test(after_sigterm_what_is_in_flight_is_answered),
        cmocka_unit_test(what_does_not_end_in_time_is_cut_off_and_said_so),
        cmocka_unit_test(it_lingers_not_ready_but_serving_when_asked_to),
        cmocka_unit_test(what_cannot_start_says_why),
        cmocka_unit_test(the_base_of_the_description_is_held),
        cmocka_unit_test(a_block_of_pages_is_zeroed_and_only_what_is_touched_is_there),
        cmocka_unit_test(figures_fit_with_every_kind_at_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
