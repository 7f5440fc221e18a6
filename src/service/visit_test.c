/* visit_test.c - a visit of a service of a graph: headers, calls, spans that nobody takes. */
#include "service/visit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "base/testing.h"

static void a_traceparent_is_read_strictly(void **state)
{
    static const struct {
        const char *text;
        bool good;
        const char *why;
    } cases[] = {
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true, "the standard's own"},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true, "not sampled"},
        {"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", true, "a later version"},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", false, "too much for 00"},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false, "no version"},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false, "upper case"},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false, "no trace"},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false, "no parent"},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false, "cut"},
        {"", false, "empty"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw__traceparent read = {0};
        char text[AW__TRACEPARENT_MAX];
        if (aw__traceparent_read(cases[i].text, strlen(cases[i].text), &read) != cases[i].good)
            fail_msg("%s: %s", cases[i].why, cases[i].text);
        if (!cases[i].good) /* untouched */
            assert_true(read.trace_hi == 0 && read.parent == 0);
        else
            assert_int_equal(strncmp(aw__traceparent_print(&read, text) + 3, cases[i].text + 3, 52),
                             0);
    }
}

static struct aw_graph_app app;

static void app_make(const char *calls, double disk_bytes)
{
    uint32_t service;
    aw_graph_app_init(&app, "pair", 10);
    assert_ok(aw_graph_app_service(&app, "front", AW_GRAPH_LOGIC, &service, NULL));
    assert_ok(aw_graph_app_op(&app, 0, "", 1, calls, NULL));
    assert_ok(aw_graph_app_service(&app, "back", AW_GRAPH_LOGIC, &service, NULL));
    assert_ok(aw_graph_app_op(&app, 1, "", 1, "", NULL));
    assert_ok(aw_graph_app_type(&app, "order", "front", 1, 40, NULL));
    assert_ok(aw_graph_app_finish(&app, NULL));
    app.ops[0].disk_bytes = disk_bytes;
}

/* A port of loopback where nobody listens. */
static struct sockaddr_in nobody(void)
{
    struct sockaddr_in address, bound;
    int fd;
    assert_ok(aw_net_parse("127.0.0.1:0", &address, NULL));
    assert_ok(aw_net_listen(&address, 1, &fd, &bound, NULL));
    close(fd);
    return bound;
}

static void peers_make(char path[64], uint16_t port)
{
    snprintf(path, 64, "/tmp/aware-peers-XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "back %u\n", (unsigned)port) > 0);
    close(fd);
}

static void spans_that_no_receiver_takes_are_counted_and_visits_go_on(void **state)
{
    struct aw__visits *visits;
    struct aw__visits_counts counts;
    char peers[64];
    (void)state;
    app_make("", 0);
    peers_make(peers, 1);
    const struct aw__visits_config config = {.app = &app,
                                             .peers = peers,
                                             .temp_dir = "/tmp",
                                             .traces = nobody(),
                                             .helpers = 2,
                                             .call_timeout_us = 1000000,
                                             .seed = 1};
    assert_ok(aw__visits_new(&visits, &config, NULL));
    for (int i = 0; i < 20; i++)
        assert_true(aw__visits_run(visits, 0, &(struct aw__traceparent){0}, 1, false));
    for (int i = 0; i < 1000; i++) {
        aw__visits_counts(visits, &counts);
        if (counts.spans.refused == 20)
            break;
        (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 10000);
    }
    assert_int_equal(counts.spans.refused, 20);
    assert_int_equal(counts.spans.sent, 0);
    /* a receiver that takes connections and says nothing: more than there is room for, meanwhile */
    struct aw__exporter *exporter;
    struct sockaddr_in any, silent;
    int fd;
    assert_ok(aw_net_parse("127.0.0.1:0", &any, NULL));
    assert_ok(aw_net_listen(&any, 8, &fd, &silent, NULL));
    struct aw__exporter_counts sent;
    assert_ok(aw__exporter_new(&exporter, &silent, NULL));
    const struct aw_span span = {.trace_lo = 1, .id = 1};
    for (uint32_t i = 0; i < 3 * AW__EXPORTER_SPANS; i++)
        aw__exporter_put(exporter, &span);
    aw__exporter_counts(exporter, &sent);
    assert_true(sent.full > 0);
    close(fd); /* it is told so, and ends at once */
    aw__exporter_free(exporter);
    /* who said not to be sampled leaves no span */
    assert_true(
        aw__visits_run(visits, 0, &(struct aw__traceparent){.trace_lo = 1, .parent = 1}, 1, false));
    aw__visits_free(visits);
    unlink(peers);
}

static void a_call_to_nobody_fails_the_visit_and_what_is_not_waited_for_does_not(void **state)
{
    static const struct {
        const char *calls;
        bool alone, well;
        uint32_t failed;
    } cases[] = {
        {"back", false, false, 1},       {"par(back, back, back)", false, false, 3},
        {"back, back", false, false, 1}, /* the second is not begun */
        {"3*back", false, false, 1},     {"async(back)", false, true, 1},
        {"back", true, true, 0},
    };
    char peers[64];
    (void)state;
    peers_make(peers, ntohs(nobody().sin_port));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw__visits *visits;
        struct aw__visits_counts counts;
        app_make(cases[i].calls, 65536);
        const struct aw__visits_config config = {.app = &app,
                                                 .peers = peers,
                                                 .temp_dir = "/var/tmp",
                                                 .helpers = 2,
                                                 .call_timeout_us = 1000000,
                                                 .seed = i};
        struct aw_diag diag = {0};
        const enum aw_err err = aw__visits_new(&visits, &config, &diag);
        if (err == AW_ERR_UNSUPPORTED) {
            print_message("skipped: %s\n", diag.text);
            skip();
        }
        assert_ok(err);
        assert_int_equal(aw__visits_run(visits, 0, &(struct aw__traceparent){0}, 1, cases[i].alone),
                         cases[i].well);
        for (int n = 0; n < 500; n++) { /* the background takes its time */
            aw__visits_counts(visits, &counts);
            if (counts.calls_failed == cases[i].failed)
                break;
            (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 10000);
        }
        assert_int_equal(counts.calls_failed, cases[i].failed);
        assert_int_equal(counts.disk_bytes, 65536);
        aw__visits_free(visits);
    }
    unlink(peers);
}

static void a_peer_that_is_called_has_to_be_known(void **state)
{
    struct aw__visits *visits = NULL;
    struct aw_diag diag = {0};
    char peers[64];
    (void)state;
    app_make("back", 0);
    snprintf(peers, sizeof peers, "/tmp/aware-peers-XXXXXX");
    const int fd = mkstemp(peers);
    assert_true(fd >= 0);
    const struct aw__visits_config config = {
        .app = &app, .peers = peers, .temp_dir = "/tmp", .helpers = 1, .call_timeout_us = 1};
    assert_int_equal(aw__visits_new(&visits, &config, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "no port of back, which front calls"));
    assert_true(dprintf(fd, "back 99999\n") > 0);
    close(fd);
    assert_int_equal(aw__visits_new(&visits, &config, &diag), AW_ERR_FORMAT);
    unlink(peers);
}

AW_TEST_GROUP("service-visit")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_read_strictly),
        cmocka_unit_test(spans_that_no_receiver_takes_are_counted_and_visits_go_on),
        cmocka_unit_test(a_call_to_nobody_fails_the_visit_and_what_is_not_waited_for_does_not),
        cmocka_unit_test(a_peer_that_is_called_has_to_be_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
