/* proxy_testing.h - a proxy on a thread of its own, stand-in servers behind it, and a client that
 * sends bytes and reads an answer to its end. */
#ifndef AW_PROXY_PROXY_TESTING_H
#define AW_PROXY_PROXY_TESTING_H

#include "base/testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/http1.h"
#include "base/threads.h"
#include "proxy/proxy.h"
#include "proxy/standin.h"

#define MODELS_MAX  4u
#define ANSWER_MAX  (1u << 20)
#define PATIENCE_MS 20000

struct scene {
    struct aw_proxy_config config;
    struct aw_proxy *proxy;
    pthread_t thread;
    struct aw_standin *model[MODELS_MAX];
};

static void *scene_main(void *ctx)
{
    struct scene *s = ctx;
    assert_ok(aw_proxy_run(s->proxy, NULL));
    return NULL;
}

/* `config` may have anything but door and upstreams, which are made here. */
static inline void scene_make(struct scene *s, const struct aw_proxy_config *config,
                              const struct aw_standin_config *models, uint32_t count)
{
    struct aw_diag diag = {0};
    *s = (struct scene){.config = *config};
    if (!s->config.door.host[0])
        assert_ok(aw_listen_auth_parse(&s->config.door, "127.0.0.1:0", NULL));
    for (uint32_t i = 0; i < count; i++) {
        s->model[i] = aw_standin_start(&models[i]);
        assert_non_null(s->model[i]);
        s->config.upstream[i].address =
            (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_port = htons(aw_standin_port(s->model[i])),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    }
    s->config.upstream_count = count ? count : s->config.upstream_count;
    if (aw_proxy_open(&s->proxy, &s->config, NULL, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(aw_thread_begin(&s->thread, scene_main, s), 0);
}

static inline void scene_end(struct scene *s)
{
    aw_proxy_stop(s->proxy);
    pthread_join(s->thread, NULL);
    aw_proxy_close(s->proxy);
    for (uint32_t i = 0; i < MODELS_MAX; i++)
        aw_standin_stop(s->model[i]);
}

static inline int client_connect(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static inline void client_send(int fd, const char *bytes, size_t len)
{
    while (len) {
        const ssize_t put = send(fd, bytes, len, MSG_NOSIGNAL);
        assert_true(put > 0);
        bytes += put;
        len -= (size_t)put;
    }
}

/* What came of a request. */
struct answer {
    int status;
    bool complete; /* to the end that its framing promises */
    bool keep_alive;
    char *raw; /* [ANSWER_MAX]: all bytes */
    size_t raw_len;
    char *body; /* [ANSWER_MAX]: without the transfer coding */
    size_t body_len;
    struct aw_http1_head head; /* points into raw */
};

static inline void answer_free(struct answer *a)
{
    free(a->raw);
    free(a->body);
}

/* Reads until the answer is complete, or the connection has ended. */
static inline void client_read(int fd, struct answer *a)
{
    struct aw_http1_chunks chunks = {0};
    bool has_head = false;
    size_t framed = 0;
    *a = (struct answer){.raw = malloc(ANSWER_MAX), .body = malloc(ANSWER_MAX)};
    while (!a->complete) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
        const ssize_t got = recv(fd, a->raw + a->raw_len, ANSWER_MAX - a->raw_len, 0);
        if (got <= 0) {
            a->complete = got == 0 && has_head && a->head.framing == AW_HTTP1_UNTIL_CLOSE;
            return;
        }
        a->raw_len += (size_t)got;
        if (!has_head) {
            const enum aw_err err = aw_http1_response(a->raw, a->raw_len, false, &a->head, NULL);
            if (err == AW_ERR_NODATA)
                continue;
            assert_ok(err);
            has_head = true;
            a->status = a->head.status;
            a->keep_alive = a->head.keep_alive;
            framed = a->head.bytes;
            a->complete = a->head.framing == AW_HTTP1_EMPTY;
        }
        while (framed < a->raw_len && !a->complete) {
            struct aw_http1_span data = {a->raw + framed, a->raw_len - framed};
            size_t used = data.len;
            if (a->head.framing == AW_HTTP1_CHUNKED) {
                if (aw_http1_chunks_take(&chunks, data.at, data.len, &used, &data))
                    return;
            }
            memcpy(a->body + a->body_len, data.at, data.len);
            a->body_len += data.len;
            framed += used;
            a->complete = chunks.done;
        }
        if (a->head.framing == AW_HTTP1_LENGTH && a->body_len >= a->head.length)
            a->complete = true;
    }
}

/* A completion; `headers` are further lines, each with its CRLF. */
static inline void client_ask(int fd, const char *headers, const char *body)
{
    char head[1024];
    const int len =
        snprintf(head, sizeof head,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: "
                 "%zu\r\n\r\n",
                 headers, strlen(body));
    client_send(fd, head, (size_t)len);
    client_send(fd, body, strlen(body));
}

static inline void ask_once(uint16_t port, const char *headers, const char *body, struct answer *a)
{
    const int fd = client_connect(port);
    client_ask(fd, headers, body);
    client_read(fd, a);
    close(fd);
}

/* The page at a path, as text that the caller frees. */
static inline char *page_get(uint16_t port, const char *path)
{
    char head[256];
    struct answer a;
    const int fd = client_connect(port);
    const int len = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    client_send(fd, head, (size_t)len);
    client_read(fd, &a);
    close(fd);
    assert_true(a.complete);
    a.body[a.body_len] = '\0';
    free(a.raw);
    return a.body;
}

static inline double page_figure(uint16_t port, const char *name)
{
    char *page = page_get(port, "/metrics"), key[128];
    snprintf(key, sizeof key, "\n%s ", name);
    const char *at = strstr(page, key);
    assert_non_null(at);
    const double value = strtod(at + strlen(key), NULL);
    free(page);
    return value;
}

#endif
