/* service_testing.h - a client on a plain socket, and servers to talk to; included by tests alone.
 */
#ifndef AW_SERVICE_SERVICE_TESTING_H
#define AW_SERVICE_SERVICE_TESTING_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/http1.h"
#include "base/net.h"
#include "base/testing.h"

#define TESTING_REPLY_MAX (1u << 20)

struct testing_reply {
    int status; /* 0: the server closed without one */
    bool keep_alive;
    size_t body_len;
    char text[TESTING_REPLY_MAX]; /* head and body */
    const char *body;
};

static inline int testing_listen(struct sockaddr_in *ret_bound)
{
    struct sockaddr_in any;
    int fd = -1;
    assert_ok(aw_net_parse("127.0.0.1:0", &any, NULL));
    assert_ok(aw_net_listen(&any, 64, &fd, ret_bound, NULL));
    return fd;
}

static inline int testing_connect(const struct sockaddr_in *address)
{
    const struct timeval limit = {.tv_sec = 20};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
    return fd;
}

static inline void testing_send(int fd, const char *bytes, size_t len)
{
    while (len) {
        const ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* it has hung up: what it said before is there to be read */
        bytes += n;
        len -= (size_t)n;
    }
}

static inline void testing_say(int fd, const char *text)
{
    testing_send(fd, text, strlen(text));
}

/* One answer. */
static inline void testing_receive(int fd, struct testing_reply *reply)
{
    struct aw_http1_head head;
    size_t have = 0;
    reply->status = 0;
    for (;;) {
        const enum aw_err err = aw_http1_response(reply->text, have, false, &head, NULL);
        if (!err && have >= head.bytes + head.length)
            break;
        assert_true(err == AW_OK || err == AW_ERR_NODATA);
        assert_true(have < TESTING_REPLY_MAX);
        /* a byte at a time up to the head's end, so that nothing of a next answer is taken */
        const size_t want = err ? 1 : (size_t)(head.bytes + head.length - have);
        const ssize_t n = recv(fd, reply->text + have, want, 0);
        if (n < 0 && errno == ECONNRESET)
            return;
        assert_true(n >= 0);
        if (n == 0)
            return;
        have += (size_t)n;
    }
    assert_int_equal(head.framing, AW_HTTP1_LENGTH);
    reply->status = head.status;
    reply->keep_alive = head.keep_alive;
    reply->body = reply->text + head.bytes;
    reply->body_len = (size_t)head.length;
}

static inline void testing_ask(int fd, const char *request, struct testing_reply *reply)
{
    testing_say(fd, request);
    testing_receive(fd, reply);
}

/* One request on a connection of its own. */
static inline void testing_get(const struct sockaddr_in *address, const char *path,
                               struct testing_reply *reply)
{
    char request[512];
    const int fd = testing_connect(address);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
             path);
    testing_ask(fd, request, reply);
    (void)close(fd);
}

static inline bool testing_closed(int fd)
{
    char byte;
    const ssize_t n = recv(fd, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static inline void testing_nap(int64_t us)
{
    const int64_t until_us = aw_clock_monotonic_us(NULL) + us;
    while (aw_clock_sleep_until(NULL, until_us))
        ;
}

#endif
