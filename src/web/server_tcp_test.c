/* server_tcp_test.c - the door by TCP under clients that are slow, rude, foreign or very many; the
 * page's files, the event stream, and memory that stays bounded. */
#include "web/server.h"

#include "base/clock.h"
#include "base/testing.h"
#include "web/api_testing.h"
#include "web/events.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define ANSWER_MAX (1u << 18)
#define WAIT_MS    20000
#define TOKEN      "0123456789abcdef-right"
#define CROWD      1000u

struct fixture {
    struct aw_api_world world;
    struct aw_server_config config;
    struct aw_server *server;
    pthread_t ticker;
    _Atomic bool stop;
};
static struct fixture fix;
static char answer[ANSWER_MAX];

static void *tick_now_and_then(void *ctx)
{
    (void)ctx;
    while (!fix.stop) {
        aw_api_world_run(&fix.world, 1);
        usleep(20000);
    }
    return NULL;
}

static int open_with(const char *token, uint32_t idle_s)
{
    struct aw_diag diag = {0};
    memset(&fix, 0, sizeof fix);
    aw_api_world_open_with(&fix.world, AW_GUARD_AUTO, false);
    aw_api_world_run(&fix.world, 20);
    snprintf(fix.world.api.config.reports, sizeof fix.world.api.config.reports, "%s",
             fix.world.folder);
    fix.config.idle_s = idle_s;
    snprintf(fix.config.door.token, sizeof fix.config.door.token, "%s", token);
    if (aw_listen_auth_parse(&fix.config.door, "127.0.0.1:0", &diag) ||
        aw_server_open(&fix.server, &fix.config, &fix.world.api, &diag))
        fail_msg("%s", diag.text);
    pthread_create(&fix.ticker, NULL, tick_now_and_then, NULL);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return open_with("", 2);
}

static int set_up_with_token(void **state)
{
    (void)state;
    return open_with(TOKEN, 2);
}

/* Who is many takes longer to ask. */
static int set_up_patient(void **state)
{
    (void)state;
    return open_with("", 60);
}

static int tear_down(void **state)
{
    (void)state;
    aw_server_close(fix.server);
    fix.stop = true;
    pthread_join(fix.ticker, NULL);
    aw_api_world_close(&fix.world);
    return 0;
}

/* --- clients ---------------------------------------------------------------------------------- */

/* -1: nobody takes it. */
static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(aw_server_port(fix.server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool say(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool say_text(int fd, const char *text)
{
    return say(fd, text, strlen(text));
}

/* Everything until the other side closes, or `enough` is in it. */
static size_t hear(int fd, const char *enough)
{
    size_t len = 0;
    answer[0] = '\0';
    while (len + 1 < sizeof answer && !(enough && strstr(answer, enough))) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (poll(&poller, 1, WAIT_MS) <= 0)
            fail_msg("no answer after %d ms, so far: %.300s", WAIT_MS, answer);
        const ssize_t got = recv(fd, answer + len, sizeof answer - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        answer[len] = '\0';
    }
    return len;
}

/* One request on a connection of its own; returns the status, the text is in `answer`. */
static int ask(const char *method, const char *path, const char *headers, const char *body)
{
    char request[2048];
    int status = 0;
    const int fd = dial();
    assert_true(fd >= 0);
    const int len =
        snprintf(request, sizeof request,
                 "%s %s HTTP/1.1\r\n%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s", method,
                 path, headers, strlen(body), body);
    assert_true(len > 0 && (size_t)len < sizeof request);
    assert_true(say(fd, request, (size_t)len));
    hear(fd, NULL);
    close(fd);
    if (sscanf(answer, "HTTP/1.1 %d", &status) != 1)
        fail_msg("%s: %.200s", path, answer);
    return status;
}

#define HOST "Host: localhost\r\n"

static void still_answers(void)
{
    assert_int_equal(ask("GET", "/healthz", HOST, ""), 200);
    assert_non_null(strstr(answer, "{\"ok\":true}"));
}

/* A sanitizer keeps what was freed: its figures say nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED false
#elif defined(__has_feature)
#define MEASURED (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define MEASURED true
#endif

static double resident_mib(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu", &size, &resident), 2);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

/* --- who is let in ---------------------------------------------------------------------------- */

static void other_sites_and_orders_are_turned_away(void **state)
{
    static const struct {
        const char *method, *path, *headers, *body;
        int status;
        const char *why;
    } cases[] = {
        {"GET", "/v1/status", HOST, "", 200, "a reader"},
        {"GET", "/v1/status", "Host: evil.example\r\n", "", 403, "DNS rebinding"},
        {"GET", "/metrics", "", "", 400, "no Host"},
        {"POST", "/v1/orders", HOST, "{}", 403, "read-only"},
        {"POST", "/v1/orders", HOST "Authorization: Bearer " TOKEN "\r\n", "{}", 403,
         "there is no token to know"},
        {"PUT", "/v1/status", HOST, "", 403, "nor any other way"},
        {"OPTIONS", "/v1/status", HOST "Origin: http://evil.example\r\n", "", 403,
         "no preflight succeeds"},
        {"GET", "/v1/nothing", HOST, "", 404, "as by the socket"},
        {"GET", "/v1/workloads/%00", HOST, "", 400, "as by the socket"},
        {"GET", "/../../etc/passwd", HOST, "", 404, "no file is read by its path"},
        {"GET", "/page.css?x", HOST, "", 200, "a query does not matter to a file"},
        {"POST", "/main.js", HOST, "", 403, "files are not written"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int found = ask(cases[i].method, cases[i].path, cases[i].headers, cases[i].body);
        if (found != cases[i].status)
            fail_msg("%s: %d instead of %d: %.300s", cases[i].why, found, cases[i].status, answer);
        if (strcasestr(answer, "access-control-allow"))
            fail_msg("%s: lets other sites read", cases[i].why);
    }
}

static void the_token_lets_orders_in_and_is_written_down_as_who(void **state)
{
    static const char freeze[] = "{\"kind\":\"freeze\",\"scope\":\"all\",\"reason\":\"a test\"}";
    (void)state;
    assert_int_equal(ask("POST", "/v1/orders", HOST, freeze), 401);
    assert_non_null(strstr(answer, "WWW-Authenticate: Bearer"));
    assert_int_equal(ask("POST", "/v1/orders", HOST "Authorization: Bearer wrong\r\n", freeze),
                     401);
    assert_int_equal(ask("POST", "/v1/orders", HOST "Authorization: Bearer " TOKEN "\r\n", freeze),
                     201);
    assert_non_null(strstr(answer, "\"by\":\"token\""));
    assert_int_equal(ask("GET", "/v1/freezes", HOST, ""), 200);
    assert_non_null(strstr(answer, "a test"));
}

/* --- what is served --------------------------------------------------------------------------- */

static void the_page_is_whole_and_asks_nobody_else(void **state)
{
    static const char *const files[] = {
        "/",           "/page.css",    "/icon.svg",    "/uPlot.js",    "/uPlot.css",
        "/main.js",    "/dom.js",      "/data.js",     "/format.js",   "/plot.js",
        "/table.js",   "/overview.js", "/workload.js", "/training.js", "/map.js",
        "/reports.js", "/orders.js"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (ask("GET", files[i], HOST, "") != 200)
            fail_msg("%s: %.200s", files[i], answer);
        assert_non_null(strstr(answer, "Content-Security-Policy: default-src 'none'; script-src "
                                       "'self'; style-src 'self'"));
        assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff"));
        const char *body = strstr(answer, "\r\n\r\n");
        assert_non_null(body);
        assert_true(strlen(body) > 40);
        if (!strcmp(files[i], "/"))
            for (const char *at = body; (at = strstr(at, "=\"")); at += 2) /* src, href */
                assert_null(strncmp(at, "=\"http", 6) == 0 ? at : NULL);
    }
}

static void reports_run_in_a_sandbox(void **state)
{
    char path[256];
    (void)state;
    snprintf(path, sizeof path, "%s/run.html", fix.world.folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("<script>fetch('/v1/status')</script>", file);
    fclose(file);
    assert_int_equal(ask("GET", "/reports/run.html", HOST, ""), 200);
    assert_non_null(strstr(answer, "Content-Security-Policy: sandbox allow-scripts; default-src "
                                   "'none'"));
    assert_non_null(strstr(answer, "<script>fetch"));
    assert_int_equal(ask("GET", "/reports/audit/../run.html", HOST, ""), 404);
    assert_int_equal(ask("GET", "/reports/%2e%2e/run.html", HOST, ""), 404);
    assert_int_equal(ask("GET", "/v1/reports", HOST, ""), 200);
    assert_non_null(strstr(answer, "\"run.html\""));
}

static void metrics_come_in_the_format_that_was_asked_for(void **state)
{
    (void)state;
    assert_int_equal(ask("GET", "/metrics", HOST, ""), 200);
    assert_non_null(strstr(answer, "Content-Type: text/plain; version=0.0.4"));
    assert_non_null(strstr(answer, "# TYPE aware_ticks_total counter"));
    assert_int_equal(
        ask("GET", "/metrics", HOST "Accept: application/openmetrics-text;version=1.0.0\r\n", ""),
        200);
    assert_non_null(strstr(answer, "Content-Type: application/openmetrics-text"));
    assert_non_null(strstr(answer, "\n# EOF\n"));
    assert_non_null(strstr(answer, "aware_workload_stage{namespace=\"shop\",workload=\"cart\","
                                   "stage=\"offline\"}"));
}

/* --- the event stream ------------------------------------------------------------------------- */

static int listen_to_events(void)
{
    static const char request[] = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const int fd = dial();
    assert_true(fd >= 0);
    assert_true(say(fd, request, sizeof request - 1));
    return fd;
}

static void news_come_again_and_again_and_say_what_the_status_says(void **state)
{
    (void)state;
    const int fd = listen_to_events();
    hear(fd, "\"ticks\"");
    assert_non_null(strstr(answer, "Content-Type: text/event-stream"));
    assert_non_null(strstr(answer, "event: tick\ndata: {\"version\""));
    hear(fd, "event: tick"); /* and another one */
    assert_non_null(strstr(answer, "event: tick"));
    close(fd);
    still_answers();
}

static void listeners_have_a_maximum_and_make_room_when_they_go(void **state)
{
    int fds[AW_EVENTS_STREAMS_MAX];
    (void)state;
    for (uint32_t i = 0; i < AW_EVENTS_STREAMS_MAX; i++) {
        fds[i] = listen_to_events();
        hear(fds[i], "event: tick");
    }
    const int more = listen_to_events();
    hear(more, "event stream");
    assert_non_null(strstr(answer, "HTTP/1.1 503"));
    close(more);
    for (uint32_t i = 0; i < AW_EVENTS_STREAMS_MAX; i++)
        close(fds[i]);
    /* who is gone is noticed by the next news that cannot be sent */
    for (int tries = 0;; tries++) {
        const int fd = listen_to_events();
        hear(fd, "\"");
        const bool taken = strstr(answer, "HTTP/1.1 200") != NULL;
        close(fd);
        if (taken)
            break;
        assert_true(tries < 50);
        usleep(200000);
    }
}

static void a_server_ends_although_somebody_listens(void **state)
{
    (void)state;
    const int fd = listen_to_events();
    hear(fd, "event: tick");
    const int64_t begin = aw_clock_monotonic_us(NULL);
    aw_server_close(fix.server);
    fix.server = NULL;
    assert_true(aw_clock_monotonic_us(NULL) - begin < INT64_C(10) * 1000000);
    hear(fd, NULL); /* until it is closed */
    close(fd);
}

/* --- clients that are slow, rude or many ------------------------------------------------------ */

static void who_says_half_a_request_is_hung_up_on(void **state)
{
    int fds[32];
    (void)state;
    for (size_t i = 0; i < 32; i++) {
        fds[i] = dial();
        assert_true(say_text(fds[i], "GET /v1/status HTTP/1.1\r\nHost: lo"));
    }
    still_answers();
    for (size_t i = 0; i < 32; i++) {
        hear(fds[i], NULL); /* closed after idle_s, or 408 */
        close(fds[i]);
    }
    still_answers();
}

/* A byte a second is never silent, and is hung up on all the same; the others are answered. */
static void dripping_connections_do_not_exhaust_the_server(void **state)
{
    enum { DRIPS = 40 };
    static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-A: ";
    int fd[DRIPS], gone = 0;
    (void)state;
    for (int i = 0; i < DRIPS; i++) {
        fd[i] = dial();
        assert_true(fd[i] >= 0 && say_text(fd[i], request));
    }
    for (int s = 0; s < 20 && gone < DRIPS; s++) {
        still_answers();
        usleep(500000);
        gone = 0;
        for (int i = 0; i < DRIPS; i++)
            gone += !say_text(fd[i], "a");
    }
    assert_int_equal(gone, DRIPS);
    for (int i = 0; i < DRIPS; i++)
        close(fd[i]);
    still_answers();
}

/* Connects from an address of this machine other than the usual. */
static int dial_from(const char *from)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(aw_server_port(fix.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, from, &own.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void one_address_has_its_share_of_the_connections(void **state)
{
    enum { MORE = AW_SERVER_CONNECTIONS + 8 };
    struct aw_diag diag = {0};
    int fd[MORE];
    (void)state;
    aw_server_close(fix.server); /* one that others can reach */
    fix.config.connections_max = AW_SERVER_CONNECTIONS;
    fix.config.idle_s = 60;
    if (aw_listen_auth_parse(&fix.config.door, "0.0.0.0:0", &diag) ||
        aw_server_open(&fix.server, &fix.config, &fix.world.api, &diag))
        fail_msg("%s", diag.text);
    for (int i = 0; i < MORE; i++)
        fd[i] = dial_from("127.0.0.2");
    const int other = dial_from("127.0.0.3");
    assert_true(say_text(other, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    assert_true(hear(other, NULL) > 0);
    assert_non_null(strstr(answer, "200"));
    close(other);
    for (int i = 0; i < MORE; i++)
        close(fd[i]);
}

static void requests_that_cannot_be_meant_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        const char *why;
    } cases[] = {
        {"\r\n\r\n\r\n", "empty lines"},
        {"GET\r\n\r\n", "a method alone"},
        {"GET /v1/status\r\n\r\n", "no version"},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS"},
        {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", "below 0"},
        {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6"
         "\r\n\r\nhello!",
         "two lengths"},
        {"GET /v1/status HTTP/9.9\r\nHost: localhost\r\n\r\n", "another HTTP"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"},
        {"GET /v1/status HTTP/1.1\r\n: \r\n\r\n", "a header without a name"},
        {"POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
         "ZZZZ\r\n",
         "a chunk of no size"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int fd = dial();
        assert_true(fd >= 0);
        say(fd, cases[i].bytes, strlen(cases[i].bytes));
        shutdown(fd, SHUT_WR);
        hear(fd, NULL);
        if (strstr(answer, "HTTP/1.1 200") && i != 5)
            fail_msg("%s: %.100s", cases[i].why, answer);
        close(fd);
    }
    still_answers();
}

static void what_is_too_large_is_refused_and_not_kept(void **state)
{
    static char header[AW_SERVER_TCP_BYTES * 2];
    (void)state;
    memset(header, 'x', sizeof header);
    int fd = dial();
    assert_true(say_text(fd, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: "));
    say(fd, header, sizeof header);
    hear(fd, NULL);
    assert_null(strstr(answer, "HTTP/1.1 200"));
    close(fd);
    fd = dial();
    assert_true(say_text(fd, "GET /"));
    say(fd, header, sizeof header);
    hear(fd, NULL);
    assert_null(strstr(answer, "HTTP/1.1 200"));
    close(fd);
    still_answers();
}

/* Bodies of many at once are refused together long before they fill the memory. */
static void bodies_of_many_are_bounded_together(void **state)
{
    static const char head[] =
        "POST /v1/diff HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " TOKEN
        "\r\nContent-Length: 1000000\r\n\r\n";
    static char body[500000];
    int fds[64];
    uint32_t refused = 0;
    (void)state;
    memset(body, 'x', sizeof body);
    const double before = resident_mib();
    for (size_t i = 0; i < 64; i++) {
        fds[i] = dial();
        assert_true(fds[i] >= 0);
        assert_true(say(fds[i], head, sizeof head - 1));
        say(fds[i], body, sizeof body);
    }
    still_answers();
    const double grown = resident_mib() - before;
    if (MEASURED && grown > 64)
        fail_msg("64 bodies of half a MiB, and half a MiB each to come: %.0f MiB more", grown);
    for (size_t i = 0; i < 64; i++) {
        say(fds[i], body, sizeof body);
        hear(fds[i], "\r\n\r\n");
        refused += strstr(answer, "HTTP/1.1 503") != NULL;
        close(fds[i]);
    }
    assert_true(refused > 0);
    still_answers();
}

/* Who asks for much and reads nothing is hung up on, and holds no more than its share. */
static void who_never_reads_costs_no_more_than_its_share(void **state)
{
    static const char request[] = "GET /uPlot.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                  "GET /v1/table HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fds[100];
    (void)state;
    const double before = resident_mib();
    for (size_t i = 0; i < 100; i++) {
        const int size = 4096;
        fds[i] = dial();
        assert_true(fds[i] >= 0);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        for (int k = 0; k < 20; k++)
            say(fds[i], request, sizeof request - 1);
    }
    still_answers();
    const double grown = resident_mib() - before;
    if (MEASURED && grown > 64)
        fail_msg("%.0f MiB more", grown);
    for (size_t i = 0; i < 100; i++)
        close(fds[i]);
    still_answers();
}

static void a_thousand_at_once_are_all_answered(void **state)
{
    static int fds[CROWD];
    struct rlimit limit, raised;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    raised = limit;
    raised.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &raised);
    if (raised.rlim_cur < 2 * CROWD + 256) {
        print_message("skipped: %llu files may be open, both sides of %u connections need more\n",
                      (unsigned long long)raised.rlim_cur, CROWD);
        skip();
    }
    const double before = resident_mib();
    for (uint32_t i = 0; i < CROWD; i++) {
        fds[i] = dial();
        assert_true(fds[i] >= 0);
    }
    /* all of them are there: each asks, and every one is answered on the same connection */
    static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (uint32_t i = 0; i < CROWD; i++)
        assert_true(say(fds[i], request, sizeof request - 1));
    for (uint32_t i = 0; i < CROWD; i++) {
        hear(fds[i], "\"audit\":{");
        assert_non_null(strstr(answer, "HTTP/1.1 200"));
    }
    const double grown = resident_mib() - before;
    if (MEASURED && grown > 96)
        fail_msg("a thousand connections: %.0f MiB more", grown);
    for (uint32_t i = 0; i < CROWD; i++)
        close(fds[i]);
    still_answers();
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Connections that were opened and forgotten: the peer is gone without a word. */
static void connections_of_the_dead_are_let_go(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        int fds[50];
        for (size_t i = 0; i < 50; i++) {
            const struct linger abort = {.l_onoff = 1, .l_linger = 0};
            fds[i] = dial();
            assert_true(fds[i] >= 0);
            if (i % 2)
                say_text(fds[i], "GET /v1/table HTTP/1.1\r\nHost: localhost\r\n\r\n");
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
        }
        for (size_t i = 0; i < 50; i++)
            close(fds[i]); /* a reset, not an end */
    }
    still_answers();
}

static void a_port_that_is_taken_is_said(void **state)
{
    struct aw_server_config config = fix.config;
    struct aw_server *second = NULL;
    struct aw_diag diag = {0};
    (void)state;
    config.door.port = aw_server_port(fix.server);
    assert_int_equal(aw_server_open(&second, &config, &fix.world.api, &diag), AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "another port"));
    still_answers();
}

#define PLAIN(test)      cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define WITH_TOKEN(test) cmocka_unit_test_setup_teardown(test, set_up_with_token, tear_down)

AW_TEST_GROUP("server-tcp")
{
    const struct CMUnitTest tests[] = {
        PLAIN(other_sites_and_orders_are_turned_away),
        WITH_TOKEN(the_token_lets_orders_in_and_is_written_down_as_who),
        PLAIN(the_page_is_whole_and_asks_nobody_else),
        PLAIN(reports_run_in_a_sandbox),
        PLAIN(metrics_come_in_the_format_that_was_asked_for),
        PLAIN(news_come_again_and_again_and_say_what_the_status_says),
        PLAIN(listeners_have_a_maximum_and_make_room_when_they_go),
        PLAIN(a_server_ends_although_somebody_listens),
        PLAIN(who_says_half_a_request_is_hung_up_on),
        PLAIN(dripping_connections_do_not_exhaust_the_server),
        WITH_TOKEN(one_address_has_its_share_of_the_connections),
        PLAIN(requests_that_cannot_be_meant_are_refused),
        PLAIN(what_is_too_large_is_refused_and_not_kept),
        WITH_TOKEN(bodies_of_many_are_bounded_together),
        PLAIN(who_never_reads_costs_no_more_than_its_share),
        cmocka_unit_test_setup_teardown(a_thousand_at_once_are_all_answered, set_up_patient,
                                        tear_down),
        PLAIN(connections_of_the_dead_are_let_go),
        PLAIN(a_port_that_is_taken_is_said),
    };
    return cmocka_run_group_tests_name("server-tcp", tests, NULL, NULL);
}
