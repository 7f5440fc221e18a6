/* server_testing.h - a server with a handler that does as it is told; included by tests alone. */
#ifndef AW_SERVICE_SERVER_TESTING_H
#define AW_SERVICE_SERVER_TESTING_H

#include "service/server.h"
#include "service/service_testing.h"

#include <pthread.h>
#include <stdatomic.h>

#define CONNECTIONS 8u
#define LARGE       (4u << 20)

/* Echoes how many bytes of body came; "/later" answers when notified, "/large" with a borrowed
 * body, "/slow" in two parts, "/no" is refused at its head. */
struct echo {
    struct aw__server *server;
    int listen_fd;
    struct sockaddr_in address;
    pthread_t thread;
    enum aw_err err;
    char *large;
    aw__token later;
    _Atomic bool stop, drain, has_later;
    _Atomic uint32_t begun, ended, over_ok, over_gone;
};

struct about {
    uint64_t bytes;
    char kind;
    bool part;
};

static inline enum aw_err begin(void *self, struct aw__server *server, aw__token token,
                                const struct aw_http1_head *head)
{
    struct echo *echo = self;
    struct about *about = aw__server_user(server, token);
    assert_non_null(about);
    about->kind = head->path.at[1];
    echo->begun++;
    return aw_http1_is(head->path, "/no") ? AW_ERR_UNSUPPORTED : AW_OK;
}

static inline enum aw_err body(void *self, aw__token token, const char *bytes, size_t len)
{
    struct echo *echo = self;
    struct about *about = aw__server_user(echo->server, token);
    about->bytes += len;
    return memchr(bytes, '!', len) ? AW_ERR_LIMIT : AW_OK;
}

static inline void answer_count(struct echo *echo, aw__token token)
{
    const struct about *about = aw__server_user(echo->server, token);
    char text[32];
    if (!about)
        return;
    const int len = snprintf(text, sizeof text, "%llu", (unsigned long long)about->bytes);
    const struct aw__answer answer = {
        .status = 200, .type = "text/plain", .body = text, .len = (size_t)len};
    aw__server_answer(echo->server, token, &answer);
}

static inline void end(void *self, struct aw__server *server, aw__token token)
{
    struct echo *echo = self;
    const struct about *about = aw__server_user(server, token);
    const struct aw__answer large = {.status = 200,
                                     .type = "application/octet-stream",
                                     .body = echo->large,
                                     .len = LARGE,
                                     .ready = about->kind == 's' ? LARGE / 2 : LARGE,
                                     .borrowed = true};
    echo->ended++;
    if (about->kind == 's')
        aw__server_timer(server, token, aw_clock_monotonic_us(NULL) + 30000);
    if (about->kind == 's' || about->kind == 'g') {
        aw__server_answer(server, token, &large);
    } else if (about->kind == 'l') {
        echo->later = token;
        echo->has_later = true;
    } else {
        answer_count(echo, token);
    }
}

static inline void over(void *self, aw__token token, bool answered)
{
    struct echo *echo = self;
    assert_non_null(aw__server_user(echo->server, token));
    if (answered)
        echo->over_ok++;
    else
        echo->over_gone++;
}

static inline void timer(void *self, struct aw__server *server, aw__token token)
{
    (void)self;
    aw__server_ready(server, token, LARGE);
}

static inline void wake(void *self, struct aw__server *server)
{
    struct echo *echo = self;
    if (atomic_exchange(&echo->has_later, false)) {
        answer_count(echo, echo->later);
        answer_count(echo, echo->later); /* the second finds a stale token, or a done one */
    }
    if (echo->drain)
        aw__server_drain(server);
    if (echo->stop)
        aw__server_stop(server);
}

static inline void tick(void *self, struct aw__server *server, int signal)
{
    (void)self;
    (void)server;
    (void)signal;
}

static const struct aw__handler handler = {begin, body, end, over, timer, wake, tick};

static inline void *serve(void *arg)
{
    struct echo *echo = arg;
    echo->err = aw__server_run(echo->server, NULL);
    return NULL;
}

/* What happens to a connection is tested twice: over TCP, and over a Unix socket. */
static bool over_unix;
static char socket_path[] = "/tmp/aware-server-test-00000000.sock";

static inline int over_unix_begin(void **state)
{
    (void)state;
    snprintf(socket_path, sizeof socket_path, "/tmp/aware-server-test-%08x.sock",
             (unsigned)getpid());
    over_unix = true;
    return 0;
}

static inline int over_unix_end(void **state)
{
    (void)state;
    over_unix = false;
    return unlink(socket_path);
}

static inline int echo_connect(const struct echo *echo)
{
    const struct timeval limit = {.tv_sec = 20};
    struct sockaddr_un address;
    if (!over_unix)
        return testing_connect(&echo->address);
    assert_ok(aw_net_unix(socket_path, &address, NULL));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline void echo_start(struct echo *echo, int64_t idle_us)
{
    int unix_fd = -1;
    *echo = (struct echo){.large = test_malloc(LARGE)};
    memset(echo->large, 'L', LARGE);
    echo->listen_fd = testing_listen(&echo->address);
    if (over_unix)
        assert_ok(aw_net_listen_unix(socket_path, 64, &unix_fd, NULL));
    const struct aw__server_config config = {.listen_fd = echo->listen_fd,
                                             .unix_fd = unix_fd,
                                             .signal_fd = -1,
                                             .connections_max = CONNECTIONS,
                                             .idle_us = idle_us,
                                             .tick_us = 100000,
                                             .handler = &handler,
                                             .self = echo};
    assert_ok(aw__server_new(&config, NULL, &echo->server, NULL));
    assert_int_equal(pthread_create(&echo->thread, NULL, serve, echo), 0);
}

static inline void echo_stop(struct echo *echo)
{
    echo->stop = true;
    aw__server_notify(echo->server);
    (void)pthread_join(echo->thread, NULL);
    assert_int_equal(echo->err, AW_ERR_INTERRUPTED);
    aw__server_free(echo->server);
    test_free(echo->large);
}

#endif
