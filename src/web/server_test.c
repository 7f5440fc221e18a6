/* server_test.c - the API over a real socket: clients that are slow, rude, many or at the wrong
 * place, and a loop that goes on beside them. */
#include "web/server.h"

#include "base/testing.h"
#include "web/api_testing.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ANSWER_MAX  65536u
#define WAIT_MS     20000
#define CONNECTIONS 200u

struct fixture {
    struct aw_api_world world;
    struct aw_server_config config;
    struct aw_server *server;
};
static struct fixture fix;

static int set_up(void **state)
{
    struct aw_diag diag = {0};
    (void)state;
    memset(&fix, 0, sizeof fix);
    aw_api_world_open(&fix.world, AW_GUARD_AUTO);
    aw_api_world_run(&fix.world, 20);
    snprintf(fix.config.path, sizeof fix.config.path, "%s/sub/socket", fix.world.folder);
    fix.config.idle_s = 1;
    if (aw_server_open(&fix.server, &fix.config, &fix.world.api, &diag))
        fail_msg("%s", diag.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_server_close(fix.server);
    aw_api_world_close(&fix.world);
    return 0;
}

/* --- clients ---------------------------------------------------------------------------------- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.107s", fix.config.path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* True: all of it was taken; false: the other side has gone. */
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

/* Everything until the other side closes, or `enough` is in it. */
static size_t hear(int fd, const char *enough, char *buf, size_t size)
{
    size_t len = 0;
    buf[0] = '\0';
    while (len + 1 < size && !(enough && strstr(buf, enough))) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        if (poll(&poller, 1, WAIT_MS) <= 0)
            fail_msg("no answer after %d ms, so far: %s", WAIT_MS, buf);
        const ssize_t got = recv(fd, buf + len, size - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        buf[len] = '\0';
    }
    return len;
}

struct heard {
    char text[ANSWER_MAX];
    size_t len;
};

static size_t take(char *bytes, size_t size, size_t count, void *ctx)
{
    struct heard *heard = ctx;
    const size_t len = size * count;
    if (len >= sizeof heard->text - heard->len)
        return 0;
    memcpy(heard->text + heard->len, bytes, len);
    heard->len += len;
    heard->text[heard->len] = '\0';
    return len;
}

/* As the command does it. Returns the status. */
static long fetch(const char *path, const char *body, struct heard *ret)
{
    CURL *curl = curl_easy_init();
    char url[512];
    long status = 0;
    assert_non_null(curl);
    ret->len = 0;
    ret->text[0] = '\0';
    snprintf(url, sizeof url, "http://localhost%s", path);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, fix.config.path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)WAIT_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret);
    if (body)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    const CURLcode code = curl_easy_perform(curl);
    if (code)
        fail_msg("%s: %s", path, curl_easy_strerror(code));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    return status;
}

static void still_answers(void)
{
    static struct heard heard;
    assert_int_equal(fetch("/v1/healthz", NULL, &heard), 200);
    assert_string_equal(heard.text, "{\"ok\":true}\n");
}

/* --- the socket ------------------------------------------------------------------------------- */

static void the_socket_is_its_owners_alone(void **state)
{
    char folder[128];
    struct stat st;
    (void)state;
    assert_int_equal(stat(fix.config.path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(folder, sizeof folder, "%s/sub", fix.world.folder);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    still_answers();
    aw_server_close(fix.server);
    fix.server = NULL;
    assert_int_equal(stat(fix.config.path, &st), -1);
}

static void a_socket_that_somebody_listens_on_is_left_alone(void **state)
{
    struct aw_server *second = NULL;
    struct aw_diag diag = {0};
    (void)state;
    assert_int_equal(aw_server_open(&second, &fix.config, &fix.world.api, &diag),
                     AW_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, "listens"));
    still_answers();
}

static void a_socket_of_a_dead_process_makes_room(void **state)
{
    struct aw_server *second = NULL;
    struct aw_server_config config = fix.config;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct aw_diag diag = {0};
    (void)state;
    snprintf(config.path, sizeof config.path, "%s/dead", fix.world.folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/dead", fix.world.folder);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd); /* the name stays */
    assert_ok(aw_server_open(&second, &config, &fix.world.api, &diag));
    aw_server_close(second);
}

static void what_is_no_socket_or_too_long_is_refused(void **state)
{
    struct aw_server *second = NULL;
    struct aw_server_config config = fix.config;
    struct aw_diag diag = {0};
    (void)state;
    snprintf(config.path, sizeof config.path, "%s/file", fix.world.folder);
    FILE *file = fopen(config.path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(aw_server_open(&second, &config, &fix.world.api, &diag), AW_ERR_EXISTS);
    assert_int_equal(access(config.path, F_OK), 0);
    memset(config.path, 'x', 200);
    config.path[200] = '\0';
    assert_int_equal(aw_server_open(&second, &config, &fix.world.api, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "107"));
    snprintf(config.path, sizeof config.path, "%s/file/socket", fix.world.folder);
    assert_true(aw_server_open(&second, &config, &fix.world.api, &diag) != AW_OK);
}

/* --- requests --------------------------------------------------------------------------------- */

static void an_order_is_signed_by_the_peer_of_the_socket(void **state)
{
    static struct heard heard;
    char expected[64];
    (void)state;
    assert_int_equal(fetch("/v1/orders",
                           "{\"kind\":\"freeze\",\"scope\":\"all\",\"reason\":\"the test\"}",
                           &heard),
                     201);
    json_t *json = json_loads(heard.text, 0, NULL);
    const char *by = json_string_value(json_object_get(json_object_get(json, "order"), "by"));
    snprintf(expected, sizeof expected, "uid:%lu", (unsigned long)getuid());
    assert_int_equal(strncmp(by, expected, strlen(expected)), 0);
    snprintf(expected, sizeof expected, "pid %ld", (long)getpid());
    assert_non_null(strstr(by, expected));
    json_decref(json);
    assert_int_equal(fetch("/v1/nothing", NULL, &heard), 404);
    assert_int_equal(fetch("/v1/orders?x=%zz", "{}", &heard), 400);
}

static void requests_in_one_breath_are_answered_in_order(void **state)
{
    static char text[ANSWER_MAX];
    static const char asked[] =
        "GET /v1/healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"
        "HEAD /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"
        "DELETE /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    (void)state;
    const int fd = dial();
    assert_true(say(fd, asked, sizeof asked - 1));
    hear(fd, NULL, text, sizeof text);
    close(fd);
    const char *first = strstr(text, "200 OK"), *second = strstr(text, "404 Not Found");
    const char *last = strstr(text, "405 Method Not Allowed");
    assert_true(first && second && last && first < second && second < last);
    assert_non_null(strstr(last, "Allow: GET, HEAD"));
    assert_null(strstr(text, "\"version\"")); /* HEAD has no body */
}

static void a_client_that_comes_byte_by_byte_is_served(void **state)
{
    static char text[ANSWER_MAX];
    static const char asked[] =
        "POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    (void)state;
    const int fd = dial();
    for (size_t i = 0; i < sizeof asked - 1; i++) {
        assert_true(say(fd, &asked[i], 1));
        if (i % 20 == 0) {
            usleep(2000);
            still_answers(); /* nobody waits for the slow one */
        }
    }
    hear(fd, NULL, text, sizeof text);
    assert_non_null(strstr(text, "400 Bad Request"));
    close(fd);
}

/* The library turns these away before it tells us of them (api.md, "What is no HTTP"). */
static void what_is_no_http_is_turned_away_and_hurts_nobody(void **state)
{
    (void)state;
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t len;
        const char *answer; /* how it begins; "": the connection is closed without one */
        const char *why;
    } rows[] = {
        {BYTES("hello\r\n\r\n"), "", "a word"},
        {BYTES("GET\r\n\r\n"), "", "a method alone"},
        {BYTES("\n\n\n\n"), "", "empty lines"},
        {BYTES("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), "", "TLS"},
        {BYTES("\0\0\0\0\0\0\0\0"), "", "zeros"},
        {BYTES("GET /v1/status\r\n\r\n"), "HTTP/1.1 400 ", "HTTP/0.9"},
        {BYTES("GET /v1/status HTTP/9.9\r\n\r\n"), "HTTP/1.1 505 ", "a version to come"},
        {BYTES("GET /v1/status HTTP/1.1\r\nHost\r\n\r\n"), "HTTP/1.1 400 ", "half a header"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char buf[2048];
        const int fd = dial();
        say(fd, rows[i].bytes, rows[i].len);
        shutdown(fd, SHUT_WR);
        hear(fd, NULL, buf, sizeof buf);
        close(fd);
        const bool as_said =
            *rows[i].answer ? strncmp(buf, rows[i].answer, strlen(rows[i].answer)) == 0 : !*buf;
        if (!as_said)
            fail_msg("%s: %s", rows[i].why, buf);
    }
    still_answers();
}

static void a_client_that_falls_silent_is_let_go(void **state)
{
    static char text[ANSWER_MAX];
    (void)state;
    const int half = dial(), nothing = dial();
    assert_true(say(half, "GET /v1/status HT", 17));
    still_answers();
    hear(half, NULL, text, sizeof text); /* returns when the server closes: idle_s is 1 */
    hear(nothing, NULL, text, sizeof text);
    close(half);
    close(nothing);
    const int gone = dial(); /* and one that hangs up in the middle of a body */
    static const char begun[] =
        "POST /v1/diff HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nabc";
    assert_true(say(gone, begun, sizeof begun - 1));
    close(gone);
    still_answers();
}

static void too_much_of_anything_is_refused(void **state)
{
    static char text[ANSWER_MAX], many[2 * AW_SERVER_CONNECTION_BYTES];
    (void)state;
    static const struct {
        const char *head;
        size_t filler;
        const char *says;
        const char *why;
    } rows[] = {
        {"POST /v1/diff HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 0, "413 ",
         "a body that says it is too large"},
        {"POST /v1/diff HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", 0,
         "4", "a length that is none"},
        {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-Long: ", sizeof many, "4", "a header"},
        {"GET /v1/", sizeof many, "4", "an address"},
        {"\r\n\r\nthis is not HTTP\r\n\r\n", 0, NULL, "something else"},
        {"GET /v1/status HTTP/9.9\r\n\r\n", 0, NULL, "a version to come"},
    };
    memset(many, 'a', sizeof many);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int fd = dial();
        (void)say(fd, rows[i].head, strlen(rows[i].head));
        (void)say(fd, many, rows[i].filler); /* it may hang up in the middle of it */
        hear(fd, NULL, text, sizeof text);
        if (rows[i].says && *text &&
            (strncmp(text, "HTTP/1.1 ", 9) != 0 ||
             strncmp(text + 9, rows[i].says, strlen(rows[i].says)) != 0))
            fail_msg("%s: %.60s", rows[i].why, text);
        close(fd);
        still_answers();
    }
}

static void a_body_in_pieces_beyond_the_limit_is_refused(void **state)
{
    static char text[ANSWER_MAX], piece[65536];
    static const char head[] =
        "POST /v1/diff HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    (void)state;
    const int fd = dial();
    assert_true(say(fd, head, sizeof head - 1));
    memset(piece, 'a', sizeof piece);
    bool taken = true;
    for (uint32_t i = 0; taken && i < AW_API_BODY_MAX / sizeof piece + 2; i++)
        taken = say(fd, "10000\r\n", 7) && say(fd, piece, sizeof piece) && say(fd, "\r\n", 2);
    (void)(taken && say(fd, "0\r\n\r\n", 5));
    hear(fd, "\n", text, sizeof text);
    assert_non_null(strstr(text, " 413 "));
    close(fd);
    still_answers();
}

static void many_connections_are_all_answered(void **state)
{
    static char text[ANSWER_MAX];
    static const char asked[] =
        "GET /v1/workloads HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd[CONNECTIONS];
    (void)state;
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        fd[i] = dial();
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        assert_true(say(fd[i], asked, sizeof asked - 1));
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        hear(fd[i], NULL, text, sizeof text);
        if (!strstr(text, "200 OK") || !strstr(text, "\"total\":3"))
            fail_msg("connection %u: %.100s", i, text);
        close(fd[i]);
    }
}

/* --- beside the loop -------------------------------------------------------------------------- */

static _Atomic bool stop_ticking;

static void *ticking(void *ctx)
{
    (void)ctx;
    while (!stop_ticking)
        aw_api_world_run(&fix.world, 1);
    return NULL;
}

static void the_loop_goes_on_while_everybody_asks(void **state)
{
    static const char *const paths[] = {
        "/v1/status",
        "/v1/workloads?sort=cost",
        "/v1/workloads/shop/cart",
        "/v1/workloads/shop/web/explain",
        "/v1/workloads/bank/cart/history?limit=5",
        "/v1/freezes",
        "/v1/proposals",
        "/v1/audit?limit=3",
        "/v1/readyz",
        "/v1/export?what=decisions&limit=5",
    };
    static struct heard heard;
    pthread_t thread;
    (void)state;
    stop_ticking = false;
    const uint64_t before = aw_job_steps(fix.world.job);
    assert_int_equal(pthread_create(&thread, NULL, ticking, NULL), 0);
    for (uint32_t turn = 0; turn < 10; turn++) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            const long status = fetch(paths[i], NULL, &heard);
            if (status != 200)
                fail_msg("%s: %ld %s", paths[i], status, heard.text);
        }
        assert_int_equal(fetch("/v1/orders",
                               turn % 2
                                   ? "{\"kind\":\"unfreeze\",\"scope\":\"all\"}"
                                   : "{\"kind\":\"freeze\",\"scope\":\"all\",\"reason\":\"x\"}",
                               &heard),
                         201);
    }
    stop_ticking = true;
    pthread_join(thread, NULL);
    assert_true(aw_job_steps(fix.world.job) > before);
}

#define EACH(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

AW_TEST_GROUP("server")
{
    const struct CMUnitTest tests[] = {
        EACH(the_socket_is_its_owners_alone),
        EACH(a_socket_that_somebody_listens_on_is_left_alone),
        EACH(a_socket_of_a_dead_process_makes_room),
        EACH(what_is_no_socket_or_too_long_is_refused),
        EACH(an_order_is_signed_by_the_peer_of_the_socket),
        EACH(requests_in_one_breath_are_answered_in_order),
        EACH(a_client_that_comes_byte_by_byte_is_served),
        EACH(what_is_no_http_is_turned_away_and_hurts_nobody),
        EACH(a_client_that_falls_silent_is_let_go),
        EACH(too_much_of_anything_is_refused),
        EACH(a_body_in_pieces_beyond_the_limit_is_refused),
        EACH(many_connections_are_all_answered),
        EACH(the_loop_goes_on_while_everybody_asks),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
