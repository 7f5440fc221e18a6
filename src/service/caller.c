/* caller.c - see caller.h. */
#include "service/caller.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/http1.h"
#include "base/net.h"

#define HEAD_MAX 2048u
#define IN_BYTES (AW_HTTP1_HEAD_BYTES_MAX + 16384u)

void aw__caller_init(struct aw__caller *caller, const struct sockaddr_in *address,
                     int64_t timeout_us)
{
    *caller = (struct aw__caller){.address = *address, .timeout_us = timeout_us};
    (void)pthread_mutex_init(&caller->lock, NULL);
}

void aw__caller_deinit(struct aw__caller *caller)
{
    for (uint32_t i = 0; i < caller->kept_count; i++)
        close(caller->kept[i]);
    (void)pthread_mutex_destroy(&caller->lock);
    *caller = (struct aw__caller){0};
}

static int connect_new(const struct aw__caller *caller)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    const struct timeval limit = {.tv_sec = (time_t)(caller->timeout_us / 1000000),
                                  .tv_usec = (suseconds_t)(caller->timeout_us % 1000000)};
    const int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)&caller->address, sizeof caller->address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int take(struct aw__caller *caller, bool *ret_kept)
{
    int fd = -1;
    pthread_mutex_lock(&caller->lock);
    if (caller->kept_count)
        fd = caller->kept[--caller->kept_count];
    pthread_mutex_unlock(&caller->lock);
    *ret_kept = fd >= 0;
    return fd >= 0 ? fd : connect_new(caller);
}

static void give_back(struct aw__caller *caller, int fd, bool alive)
{
    pthread_mutex_lock(&caller->lock);
    const bool keep = alive && caller->kept_count < AW__CALLER_KEPT;
    if (keep)
        caller->kept[caller->kept_count++] = fd;
    pthread_mutex_unlock(&caller->lock);
    if (!keep)
        close(fd);
}

/* `ret_any`: a byte of the answer was seen, so that the request must not be sent again. */
static enum aw_err answer_read(int fd, struct aw_http1_head *head, bool *ret_any,
                               uint64_t *ret_bytes)
{
    char in[IN_BYTES];
    size_t have = 0;
    enum aw_err err;
    while ((err = aw_http1_response(in, have, false, head, NULL)) == AW_ERR_NODATA) {
        const ssize_t n = aw_net_receive(fd, in + have, sizeof in - have);
        if (n <= 0)
            return AW_ERR_UNAVAILABLE;
        *ret_any = true;
        have += (size_t)n;
    }
    if (err)
        return err;
    if (head->framing != AW_HTTP1_LENGTH && head->framing != AW_HTTP1_EMPTY)
        return AW_ERR_UNSUPPORTED; /* nobody whom we call answers so */
    const uint64_t length = head->framing == AW_HTTP1_LENGTH ? head->length : 0;
    *ret_bytes = length;
    uint64_t come = have - head->bytes;
    while (come < length) {
        const uint64_t left = length - come;
        const ssize_t n = aw_net_receive(fd, in, left < sizeof in ? (size_t)left : sizeof in);
        if (n <= 0)
            return AW_ERR_UNAVAILABLE;
        come += (uint64_t)n;
    }
    return come == length ? AW_OK : AW_ERR_FORMAT;
}

enum aw_err aw__caller_call(struct aw__caller *caller, const struct aw__caller_request *request,
                            int *ret_status, uint64_t *ret_bytes)
{
    char text[HEAD_MAX];
    const int len = snprintf(
        text, sizeof text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: %zu\r\n%s\r\n",
        request->method, request->path, (unsigned)ntohs(caller->address.sin_port), request->len,
        request->headers ? request->headers : "");
    if (len < 0 || (size_t)len >= sizeof text)
        return AW_ERR_LIMIT;
    for (bool again = true;;) {
        struct aw_http1_head head;
        bool any = false, kept = false;
        uint64_t bytes = 0;
        const int fd = take(caller, &kept);
        if (fd < 0)
            return AW_ERR_UNAVAILABLE;
        enum aw_err err = aw_net_send_all(fd, text, (size_t)len, request->len ? MSG_MORE : 0) &&
                                  aw_net_send_all(fd, request->body, request->len, 0)
                              ? answer_read(fd, &head, &any, &bytes)
                              : AW_ERR_UNAVAILABLE;
        give_back(caller, fd, !err && head.keep_alive);
        if (err == AW_ERR_UNAVAILABLE && kept && !any && again) {
            again = false;
            continue;
        }
        if (err)
            return err;
        *ret_status = head.status;
        if (ret_bytes)
            *ret_bytes = bytes;
        return AW_OK;
    }
}
