/* http_test.c - the client against a server of canned answers, polite and rude. */
#include "base/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/testing.h"

/* One connection: reads a request, says `answer`, closes. */
struct server {
    int listener;
    pthread_t thread;
    const char *answer; /* NULL: says nothing until the client is gone */
    char seen[4096];
    char url[64];
};

static void *serve(void *ctx)
{
    struct server *server = ctx;
    int fd = accept(server->listener, NULL, NULL);
    size_t len = 0;
    ssize_t n;
    while (fd >= 0 && len + 1 < sizeof server->seen &&
           (n = read(fd, server->seen + len, sizeof server->seen - 1 - len)) > 0) {
        len += (size_t)n;
        server->seen[len] = '\0';
        const char *body = strstr(server->seen, "\r\n\r\n");
        const char *length = strstr(server->seen, "Content-Length: ");
        size_t wanted = length ? strtoul(length + 16, NULL, 10) : 0;
        if (server->answer && body && len >= (size_t)(body + 4 - server->seen) + wanted)
            break;
    }
    if (fd >= 0 && server->answer)
        n = write(fd, server->answer, strlen(server->answer));
    close(fd);
    return NULL;
}

static void start(struct server *server, const char *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *server = (struct server){.answer = answer};
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(server->listener >= 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->listener, 1), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u/path?a=1",
             ntohs(address.sin_port));
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop(struct server *server)
{
    pthread_join(server->thread, NULL);
    close(server->listener);
}

static void a_request_says_what_it_was_given_and_brings_the_answer(void **state)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    struct server server;
    struct aw_http *http = NULL;
    struct aw_http_answer answer = {0};
    (void)state;
    assert_ok(aw_http_open(&http, NULL, NULL, NULL));
    start(&server, "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello");
    struct aw_http_request request = {.method = "PUT",
                                      .url = server.url,
                                      .name = "here",
                                      .content_type = "text/plain",
                                      .headers = headers,
                                      .body = "a\0b",
                                      .body_len = 3};
    assert_ok(aw_http_send(http, &request, &answer, NULL));
    stop(&server);
    assert_int_equal(answer.status, 201);
    assert_string_equal(answer.body, "hello");
    assert_int_equal(answer.len, 5);
    assert_ptr_equal(strstr(server.seen, "PUT /path?a=1 HTTP/1.1\r\n"), server.seen);
    assert_non_null(strstr(server.seen, "Content-Type: text/plain\r\n"));
    assert_non_null(strstr(server.seen, "Accept: application/json\r\n"));
    assert_non_null(strstr(server.seen, "Content-Length: 3\r\n"));
    assert_null(strstr(server.seen, "Expect"));
    /* the next request carries nothing of this one */
    start(&server, "HTTP/1.1 204 No Content\r\n\r\n");
    request = (struct aw_http_request){.url = server.url, .name = "here"};
    assert_ok(aw_http_send(http, &request, &answer, NULL));
    stop(&server);
    assert_int_equal(answer.status, 204);
    assert_string_equal(answer.body, "");
    assert_ptr_equal(strstr(server.seen, "GET /path"), server.seen);
    assert_null(strstr(server.seen, "Content-"));
    assert_null(strstr(server.seen, "json"));
    aw_http_close(http);
}

static void a_socket_of_this_machine_takes_the_place_of_the_host(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct server server = {.answer = "HTTP/1.1 200 OK\r\naware-next:  7/1 \r\n"
                                      "Content-Length: 2\r\n\r\nhi"};
    struct aw_http *http = NULL;
    struct aw_http_answer answer = {0};
    char folder[] = "/tmp/aw-http-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    server.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server.listener, 1), 0);
    assert_int_equal(pthread_create(&server.thread, NULL, serve, &server), 0);
    const struct aw_http_config config = {.unix_socket = address.sun_path};
    assert_ok(aw_http_open(&http, &config, NULL, NULL));
    const struct aw_http_request request = {
        .url = "http://localhost/v1/x", .name = "here", .header_wanted = "Aware-Next"};
    assert_ok(aw_http_send(http, &request, &answer, NULL));
    stop(&server);
    assert_string_equal(answer.body, "hi");
    assert_string_equal(answer.header, "7/1");
    assert_ptr_equal(strstr(server.seen, "GET /v1/x HTTP/1.1\r\n"), server.seen);
    aw_http_close(http);
    /* nobody listens any more: the path is there, and nothing behind it */
    assert_ok(aw_http_open(&http, &config, NULL, NULL));
    assert_int_equal(aw_http_send(http, &request, &answer, NULL), AW_ERR_UNAVAILABLE);
    aw_http_close(http);
    unlink(address.sun_path);
    rmdir(folder);
}

static void a_broken_answer_is_an_error_that_names_the_peer(void **state)
{
    static const struct {
        const char *why, *answer;
        enum aw_err err;
    } cases[] = {
        {"silence", NULL, AW_ERR_DEADLINE},
        {"nothing at all", "", AW_ERR_UNAVAILABLE},
        {"not HTTP", "SSH-2.0-x\r\n\r\n", AW_ERR_FORMAT},
        {"cut short", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf", AW_ERR_UNAVAILABLE},
        {"too large", "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n12345678901234567",
         AW_ERR_LIMIT},
        {"too large, in chunks",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "a\r\n1234567890\r\na\r\n1234567890\r\n0\r\n\r\n",
         AW_ERR_LIMIT},
        {"just fits", "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n1234567890123456", AW_OK},
        {"elsewhere is not followed",
         "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", AW_OK},
    };
    struct aw_http_config config = {.timeout_us = 300000, .body_bytes_max = 16};
    struct aw_http *http = NULL;
    (void)state;
    assert_ok(aw_http_open(&http, &config, NULL, NULL));
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server server;
        struct aw_http_answer answer = {.status = -1};
        struct aw_diag diag = {0};
        start(&server, cases[i].answer);
        struct aw_http_request request = {.url = server.url, .name = "the peer"};
        enum aw_err err = aw_http_send(http, &request, &answer, &diag);
        if (err != cases[i].err)
            fail_msg("%s: %s: %s", cases[i].why, aw_err_name(err), diag.text);
        if (err) {
            assert_int_equal(answer.status, err == AW_ERR_LIMIT ? 200 : -1);
            assert_string_equal(diag.file, "the peer");
            assert_true(diag.text[0]);
        }
        stop(&server);
    }
    aw_http_close(http);
}

static void *hurry(void *ctx)
{
    _Atomic int64_t *until_us = ctx;
    usleep(100000);
    *until_us = 0;
    return NULL;
}

static void a_deadline_comes_forward(void **state)
{
    _Atomic int64_t until_us = INT64_MAX;
    struct server server;
    struct aw_http *http = NULL;
    struct aw_http_answer answer;
    pthread_t thread;
    (void)state;
    assert_ok(aw_http_open(&http, NULL, NULL, NULL));
    start(&server, NULL);
    const struct aw_http_request request = {
        .url = server.url, .name = "the peer", .until_us = &until_us};
    const int64_t begin_us = aw_clock_monotonic_us(NULL);
    assert_int_equal(pthread_create(&thread, NULL, hurry, &until_us), 0);
    assert_int_equal(aw_http_send(http, &request, &answer, NULL), AW_ERR_DEADLINE);
    assert_true(aw_clock_monotonic_us(NULL) - begin_us < 4000000);
    pthread_join(thread, NULL);
    stop(&server);
    aw_http_close(http);
}

static void what_cannot_be_asked_is_refused(void **state)
{
    static const struct {
        const char *why, *url;
        enum aw_err err;
    } cases[] = {
        {"nobody listens", "http://127.0.0.1:1/", AW_ERR_UNAVAILABLE},
        {"a file is not for us", "file:///etc/hostname", AW_ERR_FORMAT},
        {"no URL", "http://", AW_ERR_FORMAT},
        {"a password stays secret", "http://user:hunter2@127.0.0.1:1/", AW_ERR_UNAVAILABLE},
    };
    struct aw_http *http = NULL;
    (void)state;
    assert_ok(aw_http_open(&http, NULL, NULL, NULL));
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_http_answer answer;
        struct aw_diag diag = {0};
        struct aw_http_request request = {.url = cases[i].url, .name = "x"};
        if (aw_http_send(http, &request, &answer, &diag) != cases[i].err)
            fail_msg("%s: %s", cases[i].why, diag.text);
        assert_null(strstr(diag.text, "hunter2"));
    }
    aw_http_close(http);
}

static void statuses_become_errors(void **state)
{
    static const struct {
        int status;
        enum aw_err err;
    } cases[] = {{200, AW_OK},
                 {204, AW_OK},
                 {301, AW_ERR_FORMAT},
                 {400, AW_ERR_FORMAT},
                 {401, AW_ERR_CONFIG},
                 {404, AW_ERR_NOTFOUND},
                 {409, AW_ERR_CONFLICT},
                 {413, AW_ERR_LIMIT},
                 {429, AW_ERR_UNAVAILABLE},
                 {503, AW_ERR_UNAVAILABLE}};
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(aw_http_status_err(cases[i].status), cases[i].err);
}

static void escaping_leaves_only_what_is_unreserved(void **state)
{
    char buf[64];
    struct aw_text text;
    (void)state;
    aw_text_init(&text, buf, sizeof buf);
    aw_http_escape(&text, "aZ09-._~ /%\xc3", 12);
    assert_string_equal(buf, "aZ09-._~%20%2F%25%C3");
}

static void without_memory_there_is_no_client(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_http *http = NULL;
    (void)state;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_http_open(&http, NULL, &counting.alloc, NULL), AW_ERR_NOMEM);
    assert_null(http);
    aw_http_close(http);
}

AW_TEST_GROUP("http")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_says_what_it_was_given_and_brings_the_answer),
        cmocka_unit_test(a_socket_of_this_machine_takes_the_place_of_the_host),
        cmocka_unit_test(a_broken_answer_is_an_error_that_names_the_peer),
        cmocka_unit_test(a_deadline_comes_forward),
        cmocka_unit_test(what_cannot_be_asked_is_refused),
        cmocka_unit_test(statuses_become_errors),
        cmocka_unit_test(escaping_leaves_only_what_is_unreserved),
        cmocka_unit_test(without_memory_there_is_no_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
