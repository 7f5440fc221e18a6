/*
 * server_trunk.c - the trunk: many requests on the connection of a balancer (base/mux_frame.h).
 *
 * What streams say is gathered in `out` and goes out when the round of events ends, in one call for
 * all of them. Half of `out` is for answers. The rest is for the few words that must be said
 * whatever happens: that a stream has ended, once for each, and that one was refused, which only
 * happens while there is room for answers.
 */
#include "service/server_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ANSWER_BYTES (8 * AW_MUX_FRAME_PAYLOAD_MAX) /* of `out` */

size_t aw__server_trunk_out_bytes(uint32_t connections_max)
{
    return ANSWER_BYTES + (size_t)(connections_max + 2) * AW_MUX_FRAME_HEAD_BYTES;
}

bool aw__server_trunk_is_asked(const struct aw__server *server, const struct aw__conn *conn,
                               const struct aw_http1_head *head)
{
    const struct aw_http1_span upgrade = aw_http1_find(head, "upgrade");
    return upgrade.at && aw_http1_is(upgrade, AW_MUX_FRAME_UPGRADE) && conn->is_unix &&
           head->framing == AW_HTTP1_EMPTY && conn->in_from + head->bytes == conn->in_to &&
           server->trunk.place && !server->trunk.conn && !server->draining;
}

void aw__server_trunk_begin(struct aw__server *server, struct aw__conn *conn)
{
    static const char welcome[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                                  "Upgrade: " AW_MUX_FRAME_UPGRADE "\r\n\r\n";
    struct aw__server_trunk *trunk = &server->trunk;
    aw__conn_enter(server, conn, AW__CONN_TRUNK);
    trunk->conn = conn;
    trunk->in_from = trunk->in_to = trunk->out_from = trunk->out_to = 0;
    trunk->blocked = false;
    trunk->broken = send(conn->fd, welcome, sizeof welcome - 1, MSG_NOSIGNAL | MSG_DONTWAIT) !=
                    (ssize_t)sizeof welcome - 1;
}

void aw__server_trunk_end(struct aw__server *server)
{
    server->trunk.conn = NULL;
    for (uint32_t i = 0; i < server->config.connections_max; i++) {
        struct aw__conn *conn = &server->conn[i];
        if (conn->state != AW__CONN_CLOSED && aw__conn_is_stream(conn))
            aw__conn_close(server, conn);
    }
}

/* ---- out ---- */

static size_t waiting(const struct aw__server_trunk *trunk)
{
    return trunk->out_to - trunk->out_from;
}

/* Bytes that an answer may still have of it, with the head of its frame. */
static size_t room(const struct aw__server_trunk *trunk)
{
    const size_t used = waiting(trunk);
    return used < ANSWER_BYTES ? ANSWER_BYTES - used : 0;
}

/* `frame` without its payload, which goes behind it. */
static char *put(struct aw__server_trunk *trunk, const struct aw_mux_frame_frame *frame)
{
    const size_t bytes = AW_MUX_FRAME_HEAD_BYTES + frame->len;
    if (trunk->out_to + bytes > trunk->out_bytes) {
        memmove(trunk->out, trunk->out + trunk->out_from, waiting(trunk));
        trunk->out_to -= trunk->out_from;
        trunk->out_from = 0;
    }
    AW_ASSERT(trunk->out_to + bytes <= trunk->out_bytes);
    char *at = trunk->out + trunk->out_to;
    aw_mux_frame_put(at, frame);
    trunk->out_to += bytes;
    return at + AW_MUX_FRAME_HEAD_BYTES;
}

/* A failure is looked after when the round ends: whoever is in the midst of a step keeps it. */
static void send_out(struct aw__server *server)
{
    struct aw__server_trunk *trunk = &server->trunk;
    while (trunk->out_from < trunk->out_to && !trunk->broken) {
        const ssize_t n = send(trunk->conn->fd, trunk->out + trunk->out_from, waiting(trunk),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            trunk->out_from += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) &&
                 (trunk->conn->tells_writable ||
                  aw__conn_watch(server, trunk->conn, true, EPOLL_CTL_MOD)))
            return;
        else if (errno != EINTR)
            trunk->broken = true;
    }
    trunk->out_from = trunk->out_to = 0;
}

void aw__server_trunk_answer(struct aw__server *server, struct aw__conn *conn)
{
    struct aw__server_trunk *trunk = &server->trunk;
    for (;;) {
        const size_t of_head = conn->out_len - conn->out_sent;
        const size_t of_body = conn->body_ready - conn->body_sent;
        size_t count = of_head + of_body;
        if (count == 0 || conn->credit == 0)
            return;
        if (room(trunk) <= AW_MUX_FRAME_HEAD_BYTES)
            send_out(server);
        if (room(trunk) <= AW_MUX_FRAME_HEAD_BYTES) {
            trunk->blocked = true;
            return;
        }
        if (count > room(trunk) - AW_MUX_FRAME_HEAD_BYTES)
            count = room(trunk) - AW_MUX_FRAME_HEAD_BYTES;
        if (count > conn->credit)
            count = conn->credit;
        const size_t head = count < of_head ? count : of_head;
        conn->ended = count == of_head + of_body && conn->body_ready == conn->body_len;
        char *to = put(trunk, &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_ANSWER,
                                                           .last = conn->ended,
                                                           .stream = conn->stream,
                                                           .len = (uint32_t)count});
        memcpy(to, conn->out + conn->out_sent, head);
        if (count > head)
            memcpy(to + head, conn->body + conn->body_sent, count - head);
        conn->out_sent += head;
        conn->body_sent += count - head;
        conn->credit -= (uint32_t)count;
    }
}

void aw__server_trunk_leave(struct aw__server *server, struct aw__conn *conn)
{
    server->trunk.place[conn->stream % AW_MUX_FRAME_STREAMS_MAX] = 0;
    if (server->trunk.conn && !conn->ended)
        (void)put(&server->trunk, &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_ANSWER,
                                                               .last = true,
                                                               .stream = conn->stream});
}

void aw__server_trunk_farewell(struct aw__server *server)
{
    if (server->trunk.conn)
        (void)put(&server->trunk, &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_FAREWELL});
}

/* ---- in ---- */

/* The connection of a stream; NULL: it is over. */
static struct aw__conn *find(struct aw__server *server, uint32_t stream)
{
    const uint32_t place = server->trunk.place[stream % AW_MUX_FRAME_STREAMS_MAX];
    struct aw__conn *conn = place ? &server->conn[place - 1] : NULL;
    return conn && conn->stream == stream ? conn : NULL;
}

static bool request_take(struct aw__server *server, const struct aw_mux_frame_frame *frame)
{
    uint32_t *place = &server->trunk.place[frame->stream % AW_MUX_FRAME_STREAMS_MAX];
    if (*place)
        return false; /* nobody has two of that name */
    if (!server->free_first) {
        (void)put(&server->trunk, &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_REFUSED,
                                                               .stream = frame->stream});
        return true;
    }
    struct aw__conn *conn = aw__conn_open(server, -1);
    conn->readable = conn->writable = false;
    conn->stream = frame->stream;
    conn->credit = AW_MUX_FRAME_WINDOW;
    *place = (uint32_t)(conn - server->conn) + 1;
    memcpy(conn->in, frame->payload, frame->len);
    conn->in_to = frame->len;
    aw__conn_step(server, conn);
    if (conn->state == AW__CONN_HEAD || conn->state == AW__CONN_BODY)
        aw__conn_close(server, conn); /* it was not whole: what is missing never comes */
    return true;
}

/* False: this is not what a balancer says. */
static bool frame_take(struct aw__server *server, const struct aw_mux_frame_frame *frame)
{
    struct aw__conn *conn = find(server, frame->stream);
    switch (frame->kind) {
    case AW_MUX_FRAME_REQUEST:
        return request_take(server, frame);
    case AW_MUX_FRAME_CREDIT:
        if (conn) {
            if (frame->len > AW_MUX_FRAME_WINDOW - conn->credit)
                return false;
            conn->credit += frame->len;
            aw__conn_step(server, conn);
        }
        return true;
    case AW_MUX_FRAME_CANCEL:
        if (conn) {
            conn->ended = true;
            aw__conn_close(server, conn);
        }
        return true;
    case AW_MUX_FRAME_ANSWER:
    case AW_MUX_FRAME_REFUSED:
    case AW_MUX_FRAME_FAREWELL:
    case AW_MUX_FRAME_KIND_END:
        break;
    }
    return false;
}

/* Everything that has come, as far as there is room for what it may lead to. */
static void read_in(struct aw__server *server)
{
    struct aw__server_trunk *trunk = &server->trunk;
    struct aw__conn *conn = trunk->conn;
    while (!trunk->broken) {
        struct aw_mux_frame_frame frame;
        enum aw_err err = AW_ERR_NODATA;
        while (room(trunk) > 0 && !trunk->broken &&
               !(err = aw_mux_frame_take(trunk->in + trunk->in_from, trunk->in_to - trunk->in_from,
                                         &frame))) {
            trunk->in_from += frame.bytes;
            trunk->broken = !frame_take(server, &frame);
        }
        trunk->broken = trunk->broken || err == AW_ERR_FORMAT;
        if (room(trunk) == 0)
            send_out(server);
        if (room(trunk) == 0) {
            trunk->blocked = true;
            return;
        }
        memmove(trunk->in, trunk->in + trunk->in_from, trunk->in_to - trunk->in_from);
        trunk->in_to -= trunk->in_from;
        trunk->in_from = 0;
        if (!conn->readable || trunk->broken)
            return;
        const size_t free_bytes = AW__MUX_FRAME_IN_BYTES - trunk->in_to;
        const ssize_t n = recv(conn->fd, trunk->in + trunk->in_to, free_bytes, MSG_DONTWAIT);
        if (n > 0) {
            trunk->in_to += (size_t)n;
            if ((size_t)n < free_bytes)
                conn->readable = conn->hung_up;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            conn->readable = false;
        } else if (n == 0 || errno != EINTR) {
            trunk->broken = true;
        }
    }
}

void aw__server_trunk_step(struct aw__server *server)
{
    struct aw__server_trunk *trunk = &server->trunk;
    if (trunk->conn->tells_writable) {
        send_out(server);
        if (waiting(trunk) > 0)
            return;
        (void)aw__conn_watch(server, trunk->conn, false, EPOLL_CTL_MOD);
    }
    if (trunk->blocked) {
        trunk->blocked = false;
        for (uint32_t i = 0; i < server->config.connections_max; i++) {
            struct aw__conn *conn = &server->conn[i];
            if (conn->state == AW__CONN_SEND && aw__conn_is_stream(conn))
                aw__conn_step(server, conn);
        }
    }
    read_in(server);
}

void aw__server_trunk_settle(struct aw__server *server)
{
    struct aw__server_trunk *trunk = &server->trunk;
    if (!trunk->conn)
        return;
    send_out(server);
    if (trunk->broken)
        aw__conn_close(server, trunk->conn);
}
