/*
 * object.c - objects read, written and streamed over HTTP, as from a store on the network.
 *
 * Each lane keeps one connection to the object server open. The object is put there once, at open;
 * the time that a remote store would think is asked of the server ("delay_us"), so a lane really
 * waits in recv(2). A stream arrives in parts over that time. The pieces sum what has arrived.
 */
#include "segments/kind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/http1.h"
#include "base/net.h"

#define OBJECT_BYTES     262144.0 /* at payload 1: the middle of AWARE section 2.3 */
#define OBJECT_BYTES_MAX (4u << 20)
#define PIECE_BYTES      16384u
#define STREAM_PARTS     8u
#define TIMEOUT_S        30 /* beyond the longest delay that is ever asked for */
#define TRIES            2  /* a kept connection may have been closed meanwhile */

enum action { READ, WRITE, STREAM };

struct lane {
    int fd_plus_1; /* 0: not connected */
    bool answered; /* the server had begun to answer the last request */
};

struct object {
    const struct aw_alloc *alloc;
    enum action action;
    struct sockaddr_in server;
    uint32_t lane_count, bytes;
    uint64_t seed;
    char *content; /* [bytes] */
    char *in;      /* [lane][AW_HTTP1_HEAD_BYTES_MAX + PIECE_BYTES] */
    struct lane *lane;
};

#define IN_BYTES (AW_HTTP1_HEAD_BYTES_MAX + PIECE_BYTES)

static void lane_drop(struct lane *lane)
{
    if (lane->fd_plus_1)
        (void)close(lane->fd_plus_1 - 1);
    lane->fd_plus_1 = 0;
}

static void object_close(void *state)
{
    struct object *object = state;
    if (!object)
        return;
    for (uint32_t i = 0; i < object->lane_count; i++)
        lane_drop(&object->lane[i]);
    aw_alloc_free(object->alloc, object);
}

static enum aw_err lane_connect(const struct object *object, struct lane *lane,
                                struct aw_diag *diag)
{
    if (lane->fd_plus_1)
        return AW_OK;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "object server: no socket: %s", strerror(errno));
    const struct timeval limit = {.tv_sec = TIMEOUT_S};
    const int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)&object->server, sizeof object->server) != 0) {
        const int failed = errno;
        (void)close(fd);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "object server: %s", strerror(failed));
    }
    lane->fd_plus_1 = fd + 1;
    return AW_OK;
}

/* Reads an answer and its body, which is dropped. `ret_err` of the world's doing. */
static enum aw_err answer_read(struct lane *lane, char *in, struct aw_diag *diag)
{
    struct aw_http1_head head;
    size_t have = 0;
    enum aw_err err;
    const int fd = lane->fd_plus_1 - 1;
    while ((err = aw_http1_response(in, have, false, &head, diag)) == AW_ERR_NODATA) {
        ssize_t n = aw_net_receive(fd, in + have, IN_BYTES - have);
        if (n <= 0)
            return aw_fail(diag, AW_ERR_UNAVAILABLE, "object server: %s",
                           n ? strerror(errno) : "closed the connection");
        lane->answered = true;
        have += (size_t)n;
    }
    if (err)
        return err;
    if (head.status >= 300 || head.framing != AW_HTTP1_LENGTH)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "object server: status %d", head.status);
    for (uint64_t left = head.length - (have - head.bytes); left;) {
        ssize_t n = aw_net_receive(fd, in, left < IN_BYTES ? (size_t)left : IN_BYTES);
        if (n <= 0)
            return aw_fail(diag, AW_ERR_UNAVAILABLE, "object server: the body broke off");
        left -= (uint64_t)n;
    }
    if (!head.keep_alive)
        lane_drop(lane);
    return AW_OK;
}

static enum aw_err request_once(const struct object *object, uint32_t index, bool put,
                                int64_t delay_us, uint32_t parts, struct aw_diag *diag)
{
    struct lane *lane = &object->lane[index];
    char head[256];
    const int len = snprintf(head, sizeof head,
                             "%s /object-%016llx-%u?delay_us=%lld&parts=%u HTTP/1.1\r\n"
                             "Host: object\r\nContent-Length: %u\r\n\r\n",
                             put ? "PUT" : "GET", (unsigned long long)object->seed, object->bytes,
                             (long long)delay_us, parts, put ? object->bytes : 0);
    enum aw_err err = lane_connect(object, lane, diag);
    if (err)
        return err;
    lane->answered = false;
    const int fd = lane->fd_plus_1 - 1;
    if (!aw_net_send_all(fd, head, (size_t)len, put ? MSG_MORE : 0) ||
        (put && !aw_net_send_all(fd, object->content, object->bytes, 0)))
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "object server: %s", strerror(errno));
    else
        err = answer_read(lane, object->in + (size_t)index * IN_BYTES, diag);
    if (err)
        lane_drop(lane);
    return err;
}

/* A kept connection that turns out to be gone is worth a second try; both methods may be repeated
 * (RFC 9110 section 9.2.2). */
static enum aw_err request(const struct object *object, uint32_t index, bool put, int64_t delay_us,
                           uint32_t parts, struct aw_diag *diag)
{
    enum aw_err err = AW_ERR_UNAVAILABLE;
    for (uint32_t i = 0; i < TRIES && err == AW_ERR_UNAVAILABLE; i++) {
        err = request_once(object, index, put, delay_us, parts, diag);
        if (object->lane[index].answered)
            break;
    }
    return err;
}

static enum aw_err object_open(const struct aw__setup *setup, enum action action, void **ret_state,
                               struct aw_diag *diag)
{
    const uint32_t bytes = aw__sized(setup, OBJECT_BYTES, setup->segment->bytes_exponent,
                                     PIECE_BYTES, OBJECT_BYTES_MAX);
    struct sockaddr_in server;
    if (!setup->object_server)
        return aw_fail(diag, AW_ERR_CONFIG, "%s: expected an object server, found none",
                       setup->segment->name);
    enum aw_err err = aw_net_parse(setup->object_server, &server, diag);
    if (err)
        return err;
    struct object *object = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)object}) {
        struct object *self = aw_carve_take(&carve, 1, sizeof *self);
        char *content = aw_carve_take(&carve, bytes, 1);
        char *in = aw_carve_take(&carve, setup->lane_count, IN_BYTES);
        struct lane *lane = aw_carve_take(&carve, setup->lane_count, sizeof *lane);
        if (object) {
            *self = (struct object){.alloc = setup->alloc,
                                    .action = action,
                                    .server = server,
                                    .lane_count = setup->lane_count,
                                    .bytes = bytes,
                                    .seed = setup->seed,
                                    .content = content,
                                    .in = in,
                                    .lane = lane};
            break;
        }
        if (!(object = aw_alloc_new(setup->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for an object of %u bytes", bytes);
    }
    aw__prose(setup->seed, object->content, bytes);
    if ((err = request(object, 0, true, 0, 1, diag)))
        object_close(object);
    else
        *ret_state = object;
    return err;
}

static enum aw_err read_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    return object_open(setup, READ, ret_state, diag);
}

static enum aw_err write_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    return object_open(setup, WRITE, ret_state, diag);
}

static enum aw_err stream_open(const struct aw__setup *setup, void **ret_state,
                               struct aw_diag *diag)
{
    return object_open(setup, STREAM, ret_state, diag);
}

static enum aw_err object_exchange(void *state, uint32_t lane, int64_t delay_us,
                                   struct aw_diag *diag)
{
    const struct object *object = state;
    return request(object, lane, object->action == WRITE, delay_us,
                   object->action == STREAM ? STREAM_PARTS : 1, diag);
}

static enum aw_err object_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                 struct aw_diag *diag)
{
    (void)lane;
    (void)diag;
    const struct object *object = state;
    const uint64_t pieces = object->bytes / PIECE_BYTES;
    uLong sum = crc32(0, NULL, 0);
    for (uint64_t i = first; i < first + count; i++)
        sum = crc32(sum, (const Bytef *)object->content + i % pieces * PIECE_BYTES, PIECE_BYTES);
    aw__keep((double)sum);
    return AW_OK;
}

const struct aw__segment_kind aw__kind_object_read = {"object_read", read_open, object_close,
                                                      object_pieces, object_exchange};
const struct aw__segment_kind aw__kind_object_write = {"object_write", write_open, object_close,
                                                       object_pieces, object_exchange};
const struct aw__segment_kind aw__kind_object_stream = {"object_stream", stream_open, object_close,
                                                        object_pieces, object_exchange};
