/*
 * standin_testing.h - a small HTTP server and a small client, for tests of the local cluster alone.
 *
 * A test program that is started as "PROGRAM serve PORT ..." is a replica: one thread, epoll,
 * keep-alive. What a request does is its path:
 *
 *   /            200 at once             /spin/US   burns US microseconds of CPU
 *   /sleep/MS    200 after a while       /500       a failure
 *   /chunked     a chunked answer        /die       ends by itself
 *   /pid         its process number      /hang      never answers
 *   /leave       200, and ends at once
 *   /metrics     how long the sleeping ones took
 *
 * Further words: "touch MIB" keeps memory; "child" leaves a grandchild that ignores SIGTERM and
 * outlives its parent; "mute SECONDS" answers no health check before; "deaf" ignores SIGTERM.
 * It listens on the Unix socket that it is offered ($AWARE_SOCKET or "trunk PATH"; with "socket
 * PATH" it takes no trunks there), and leaves it behind when it ends; with "tcp" it does not.
 */
#ifndef AW_CLUSTER_LOCAL_STANDIN_TESTING_H
#define AW_CLUSTER_LOCAL_STANDIN_TESTING_H

#include "base/clock.h"
#include "base/mux_frame.h"
#include "base/net.h"
#include "base/testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the server ------------------------------------------------------------------------------- */

#define STANDIN_CONNECTIONS 4096
#define STANDIN_BYTES       8192

struct standin_connection {
    int fd;
    bool is_trunk, is_stream; /* a stream has the descriptor of its trunk */
    uint32_t stream;
    uint32_t len;
    int64_t answer_us; /* of a request that sleeps; 0: none */
    int64_t asked_us;
    char in[STANDIN_BYTES];
};

static int64_t standin_mute_until;
static const char *standin_socket;
static bool standin_trunks;
static struct standin_connection standin_all[STANDIN_CONNECTIONS];

static void standin_say(struct standin_connection *c, const char *text, size_t len)
{
    char out[AW_MUX_FRAME_HEAD_BYTES + 1024];
    if (c->is_stream) { /* all of an answer is one frame here */
        aw_mux_frame_put(out, &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_ANSWER,
                                                           .last = true,
                                                           .stream = c->stream,
                                                           .len = (uint32_t)len});
        memcpy(out + AW_MUX_FRAME_HEAD_BYTES, text, len);
        text = out;
        len += AW_MUX_FRAME_HEAD_BYTES;
    }
    const ssize_t sent = send(c->fd, text, len, MSG_NOSIGNAL);
    (void)sent;
    if (c->is_stream)
        c->fd = -1;
}

static void standin_answer(struct standin_connection *c, const char *status, const char *body)
{
    char text[512];
    const int len = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s",
                             status, strlen(body), body);
    standin_say(c, text, (size_t)len);
}

static long standin_number(const char *path, const char *name)
{
    const size_t len = strlen(name);
    return strncmp(path, name, len) == 0 ? strtol(path + len, NULL, 10) : -1;
}

/* Of requests that slept. One that took longer than the last bound is told as that bound, and one
 * within as half of it: quantiles are never more than what a long enough sleep really took. */
#define STANDIN_HISTOGRAM "standin_seconds"
#define STANDIN_BOUND_US  200000
static uint64_t standin_slept, standin_slept_short;

static void standin_metrics(struct standin_connection *c)
{
    char body[256];
    snprintf(body, sizeof body,
             "# TYPE " STANDIN_HISTOGRAM " histogram\n" STANDIN_HISTOGRAM
             "_bucket{le=\"0.2\"} %llu\n" STANDIN_HISTOGRAM "_bucket{le=\"+Inf\"} %llu\n",
             (unsigned long long)standin_slept_short, (unsigned long long)standin_slept);
    standin_answer(c, "200 OK", body);
}

/* True: answered. */
static bool standin_request(struct standin_connection *c, const char *path)
{
    static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrail: er\r\n\r\n";
    const int64_t now = aw_clock_monotonic_us(NULL);
    long number;
    if (strncmp(path, "/health", 7) == 0 && now < standin_mute_until) {
        standin_answer(c, "503 Not Yet", "");
    } else if (strncmp(path, "/die", 4) == 0) {
        _exit(3);
    } else if (strncmp(path, "/leave", 6) == 0) {
        standin_answer(c, "200 OK", "bye");
        _exit(0);
    } else if (strncmp(path, "/hang", 5) == 0) {
        c->answer_us = INT64_MAX;
        return false;
    } else if (strncmp(path, "/500", 4) == 0) {
        standin_answer(c, "500 Oops", "");
    } else if (strncmp(path, "/chunked", 8) == 0) {
        standin_say(c, chunked, sizeof chunked - 1);
    } else if (strncmp(path, "/pid", 4) == 0) {
        char body[32];
        snprintf(body, sizeof body, "%ld", (long)getpid());
        standin_answer(c, "200 OK", body);
    } else if (strncmp(path, "/metrics", 8) == 0) {
        standin_metrics(c);
    } else if ((number = standin_number(path, "/sleep/")) >= 0) {
        c->asked_us = now;
        c->answer_us = now + 1000 * number;
        return false;
    } else if ((number = standin_number(path, "/spin/")) >= 0) {
        while (aw_clock_monotonic_us(NULL) < now + number)
            ;
        standin_answer(c, "200 OK", "spun");
    } else {
        standin_answer(c, "200 OK", "ok");
    }
    return true;
}

static struct standin_connection *standin_take(int fd)
{
    int at = 0;
    while (at < STANDIN_CONNECTIONS - 1 && standin_all[at].fd >= 0)
        at++;
    struct standin_connection *c = &standin_all[at];
    c->fd = fd;
    c->len = 0;
    c->answer_us = 0;
    c->is_trunk = c->is_stream = false;
    return c;
}

static void standin_serve(struct standin_connection *c);

static void standin_frames(struct standin_connection *trunk)
{
    struct aw_mux_frame_frame frame;
    uint32_t from = 0;
    while (!aw_mux_frame_take(trunk->in + from, trunk->len - from, &frame)) {
        from += (uint32_t)frame.bytes;
        for (int i = 0; i < STANDIN_CONNECTIONS && frame.kind == AW_MUX_FRAME_CANCEL; i++) {
            struct standin_connection *c = &standin_all[i];
            if (c->fd == trunk->fd && c->is_stream && c->stream == frame.stream)
                c->fd = -1;
        }
        if (frame.kind == AW_MUX_FRAME_REQUEST) {
            struct standin_connection *c = standin_take(trunk->fd);
            c->is_stream = true;
            c->stream = frame.stream;
            c->len = frame.len;
            memcpy(c->in, frame.payload, frame.len);
            standin_serve(c);
        }
    }
    memmove(trunk->in, trunk->in + from, trunk->len - from);
    trunk->len -= from;
}

static bool standin_is_upgrade(struct standin_connection *c)
{
    static const char yes[] = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    if (!standin_trunks || c->is_stream || !strstr(c->in, "Upgrade: " AW_MUX_FRAME_UPGRADE))
        return false;
    standin_say(c, yes, sizeof yes - 1);
    c->is_trunk = true;
    c->len = 0;
    return true;
}

/* Requests in the buffer, one after the other; bodies are told by Content-Length alone. */
static void standin_serve(struct standin_connection *c)
{
    while (c->answer_us == 0 && c->fd >= 0) {
        c->in[c->len] = '\0';
        char *end = strstr(c->in, "\r\n\r\n");
        const char *path = strchr(c->in, ' ');
        if (!end || !path)
            return;
        const char *length = strcasestr(c->in, "content-length:");
        size_t size = (size_t)(end + 4 - c->in);
        if (length && length < end)
            size += (size_t)strtol(length + 15, NULL, 10);
        if (c->len < size || standin_is_upgrade(c))
            return;
        standin_request(c, path + 1);
        memmove(c->in, c->in + size, c->len - size);
        c->len -= (uint32_t)size;
    }
}

static void standin_readable(struct standin_connection *c)
{
    for (;;) {
        const ssize_t got = recv(c->fd, c->in + c->len, STANDIN_BYTES - 1 - c->len, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            const int fd = c->fd;
            close(fd);
            for (int i = 0; i < STANDIN_CONNECTIONS; i++)
                if (standin_all[i].fd == fd)
                    standin_all[i].fd = -1;
            return;
        }
        c->len += (uint32_t)got;
        if (c->is_trunk)
            standin_frames(c);
        else
            standin_serve(c);
        if (c->len < STANDIN_BYTES - 1)
            return; /* level-triggered: what is left comes again */
    }
}

static void standin_words(int argc, char **argv)
{
    standin_socket = getenv(AW_NET_UNIX_ENV);
    standin_trunks = standin_socket;
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "tcp"))
            standin_socket = NULL;
        else if ((!strcmp(argv[i], "socket") || !strcmp(argv[i], "trunk")) && i + 1 < argc) {
            standin_trunks = !strcmp(argv[i], "trunk");
            standin_socket = argv[++i];
        }
        if (!strcmp(argv[i], "touch") && i + 1 < argc) {
            const size_t bytes = (size_t)strtol(argv[++i], NULL, 10) << 20;
            char *block = malloc(bytes);
            for (size_t at = 0; block && at < bytes; at += 4096)
                block[at] = 1;
        } else if (!strcmp(argv[i], "mute") && i + 1 < argc) {
            standin_mute_until =
                aw_clock_monotonic_us(NULL) + (int64_t)(1e6 * strtod(argv[++i], NULL));
        } else if (!strcmp(argv[i], "deaf")) {
            signal(SIGTERM, SIG_IGN);
        } else if (!strcmp(argv[i], "child") && fork() == 0) {
            signal(SIGTERM, SIG_IGN);
            prctl(PR_SET_PDEATHSIG, 0);
            setsid();
            for (;;)
                pause();
        }
    }
}

static int standin_main(int argc, char **argv)
{
    struct epoll_event events[64];
    const int yes = 1, epoll = epoll_create1(EPOLL_CLOEXEC);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtol(argv[2], NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener[2] = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), -1};
    standin_words(argc, argv);
    if (standin_socket && aw_net_listen_unix(standin_socket, 1024, &listener[1], NULL))
        return 2;
    setsockopt(listener[0], SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener[0], (const struct sockaddr *)&address, sizeof address) ||
        listen(listener[0], 1024))
        return 2;
    for (int i = 0; i < STANDIN_CONNECTIONS; i++)
        standin_all[i].fd = -1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    for (int i = 0; i < 2; i++)
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener[i], &event);
    for (bool sleepers = false;;) {
        const int count = epoll_wait(epoll, events, 64, sleepers ? 1 : -1);
        for (int i = 0; i < count; i++) {
            struct standin_connection *c = events[i].data.ptr;
            if (c && c->fd >= 0)
                standin_readable(c);
            int fd;
            while (!c && ((fd = accept4(listener[0], NULL, NULL, SOCK_CLOEXEC)) >= 0 ||
                          (fd = accept4(listener[1], NULL, NULL, SOCK_CLOEXEC)) >= 0)) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                event = (struct epoll_event){.events = EPOLLIN, .data.ptr = standin_take(fd)};
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            }
        }
        sleepers = false;
        const int64_t now = aw_clock_monotonic_us(NULL);
        for (int i = 0; i < STANDIN_CONNECTIONS; i++) {
            struct standin_connection *c = &standin_all[i];
            if (c->fd >= 0 && c->answer_us > 0 && c->answer_us <= now) {
                c->answer_us = 0;
                standin_slept++;
                standin_slept_short += now - c->asked_us <= STANDIN_BOUND_US;
                standin_answer(c, "200 OK", "slept");
                standin_serve(c);
            }
            sleepers = sleepers || (c->fd >= 0 && c->answer_us > 0 && c->answer_us != INT64_MAX);
        }
    }
}

/* --- the client ------------------------------------------------------------------------------- */

static inline int standin_connect(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 20};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Writes bytes and reads one answer with a Content-Length, or to the end. Returns its status; 0:
 * none. `body` may be NULL. */
static inline int standin_exchange(int fd, const char *bytes, size_t len, char *body, size_t size)
{
    char in[16384];
    size_t have = 0;
    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        return 0;
    for (;;) {
        const ssize_t got = recv(fd, in + have, sizeof in - 1 - have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        have += got > 0 ? (size_t)got : 0;
        in[have] = '\0';
        const char *end = strstr(in, "\r\n\r\n");
        const char *length = end ? strcasestr(in, "content-length:") : NULL;
        const size_t whole = length && length < end
                                 ? (size_t)(end + 4 - in) + (size_t)strtol(length + 15, NULL, 10)
                                 : SIZE_MAX;
        if (end && (have >= whole || got <= 0 || strstr(end, "\r\n0\r\n"))) {
            if (body)
                snprintf(body, size, "%s", end + 4);
            return (int)strtol(in + 9, NULL, 10);
        }
        if (got <= 0 || have == sizeof in - 1)
            return 0;
    }
}

static inline int standin_get(int fd, const char *path, char *body, size_t size)
{
    char text[256];
    const int len = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    return standin_exchange(fd, text, (size_t)len, body, size);
}

/* One request on a connection of its own. */
static inline int standin_ask(uint16_t port, const char *path, char *body, size_t size)
{
    const int fd = standin_connect(port);
    if (fd < 0)
        return 0;
    const int status = standin_get(fd, path, body, size);
    close(fd);
    return status;
}

/* Clients that ask one thing after the other, each on a connection that it keeps. */
#define STANDIN_CLIENTS_MAX 32
struct standin_load {
    uint16_t port;
    const char *path;
    uint32_t clients;
    int64_t pause_us;
    _Atomic bool stop;
    _Atomic uint64_t asked, ok, failed, cut; /* cut: no whole answer */
    pthread_t thread[STANDIN_CLIENTS_MAX];
};

static inline void *standin_client(void *ctx)
{
    struct standin_load *load = ctx;
    int fd = -1;
    while (!load->stop) {
        if (fd < 0 && (fd = standin_connect(load->port)) < 0) {
            usleep(1000);
            continue;
        }
        atomic_fetch_add(&load->asked, 1);
        const int status = standin_get(fd, load->path, NULL, 0);
        atomic_fetch_add(status == 200 ? &load->ok : status ? &load->failed : &load->cut, 1);
        if (status != 200) {
            close(fd);
            fd = -1;
        }
        if (load->pause_us)
            usleep((useconds_t)load->pause_us);
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static inline void standin_load_begin(struct standin_load *load)
{
    for (uint32_t i = 0; i < load->clients; i++)
        assert_int_equal(pthread_create(&load->thread[i], NULL, standin_client, load), 0);
}

static inline void standin_load_end(struct standin_load *load)
{
    load->stop = true;
    for (uint32_t i = 0; i < load->clients; i++)
        pthread_join(load->thread[i], NULL);
}

static inline void standin_wait_ms(int64_t ms)
{
    while (aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 1000 * ms))
        ;
}

#endif
