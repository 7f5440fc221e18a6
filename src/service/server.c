/*
 * server.c - connections and their states.
 *
 *     HEAD -> BODY -> WAIT -> SEND -> HEAD ... and from anywhere, after a refusal, LINGER -> gone
 *
 * A stream of the trunk goes through them once, and a connection that becomes the trunk stays it.
 *
 * Sockets are registered once, edge-triggered, so a request costs one recv and one send and no
 * epoll_ctl. A read that did not fill the buffer has emptied the socket (epoll(7), question 9).
 */
#include "service/server_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define EVENTS_MAX      256
#define ACCEPTS_AT_ONCE 64
#define SWEEP_US        250000   /* between two looks for connections that have been idle */
#define LINGER_US       1000000  /* how long a refused client may go on talking */
#define LINGER_BYTES    1048576u /* and how much */
#define HEAD_US         10000000 /* a head that has begun gets so much longer than an idle wait */
#define STALL_US        60000000 /* a body that does not arrive, an answer that is not taken */

/* What epoll hands back: an index, or one of these. */
enum { TAG_LISTEN = UINT32_MAX - 8, TAG_LISTEN_UNIX, TAG_EVENT, TAG_TIMER, TAG_SIGNAL };

static aw__token token_of(const struct aw__server *server, const struct aw__conn *conn)
{
    return (aw__token)conn->generation << 32 | (uint32_t)(conn - server->conn);
}

/* The connection of a request that is still going on; NULL: it is over. */
static struct aw__conn *conn_of(struct aw__server *server, aw__token token)
{
    const uint32_t index = (uint32_t)token;
    AW_ASSERT(index < server->config.connections_max);
    struct aw__conn *conn = &server->conn[index];
    const bool alive = conn->generation == token >> 32 &&
                       (conn->state == AW__CONN_BODY || conn->state == AW__CONN_WAIT ||
                        conn->state == AW__CONN_SEND);
    return alive ? conn : NULL;
}

void aw__conn_enter(struct aw__server *server, struct aw__conn *conn, enum aw__conn_state state)
{
    conn->state = state;
    conn->since_us = server->now_us;
}

/* ---- new and free ---- */

static bool watch(struct aw__server *server, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event event = {.events = events, .data.u64 = tag};
    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool listeners_watch(struct aw__server *server)
{
    const struct aw__server_config *config = &server->config;
    return watch(server, config->listen_fd, EPOLLIN, TAG_LISTEN) &&
           (config->unix_fd < 0 || watch(server, config->unix_fd, EPOLLIN, TAG_LISTEN_UNIX));
}

static void listeners_close(struct aw__server *server)
{
    if (server->config.listen_fd >= 0)
        (void)close(server->config.listen_fd);
    if (server->config.unix_fd >= 0)
        (void)close(server->config.unix_fd);
    server->config.listen_fd = server->config.unix_fd = -1;
}

/* A Unix socket becomes writable, for epoll, whenever its peer has read anything, so that each
 * request would wake us twice: that is asked for when it is wanted. TCP only tells who ran out of
 * room. */
bool aw__conn_watch(struct aw__server *server, struct aw__conn *conn, bool writable, int how)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLRDHUP | EPOLLET | (writable ? EPOLLOUT : 0),
        .data.u64 = (uint64_t)conn->serial << 32 | (uint32_t)(conn - server->conn)};
    conn->tells_writable = writable;
    return epoll_ctl(server->epoll_fd, how, conn->fd, &event) == 0;
}

enum aw_err aw__server_new(const struct aw__server_config *config, const struct aw_alloc *alloc,
                           struct aw__server **ret_server, struct aw_diag *diag)
{
    const uint32_t n = config->connections_max;
    AW_ASSERT(n >= 1 && n <= AW__SERVER_CONNECTIONS_MAX);
    struct aw__server *server = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)server}) {
        struct aw__server *self = aw_carve_take(&carve, 1, sizeof *self);
        struct aw__conn *conn = aw_carve_take(&carve, n, sizeof *conn);
        struct aw__timer *timer = aw_carve_take(&carve, 2 * (size_t)n, sizeof *timer);
        char *in = aw_carve_take(&carve, n, AW__CONN_IN_BYTES);
        char *out = aw_carve_take(&carve, n, AW__SERVER_COPY_BYTES_MAX);
        const bool is_unix = config->unix_fd >= 0; /* only there a trunk is asked for */
        const size_t trunk_bytes = is_unix ? aw__server_trunk_out_bytes(n) : 0;
        uint32_t *place =
            aw_carve_take(&carve, is_unix ? AW_MUX_FRAME_STREAMS_MAX : 0, sizeof *place);
        char *trunk_in = aw_carve_take(&carve, is_unix ? AW__MUX_FRAME_IN_BYTES : 0, 1);
        char *trunk_out = aw_carve_take(&carve, trunk_bytes, 1);
        if (server) {
            *self = (struct aw__server){.alloc = alloc,
                                        .config = *config,
                                        .conn = conn,
                                        .timer = timer,
                                        .timer_max = 2 * n,
                                        .trunk = {.place = is_unix ? place : NULL,
                                                  .in = trunk_in,
                                                  .out = trunk_out,
                                                  .out_bytes = trunk_bytes}};
            for (uint32_t i = n; i-- > 0;) {
                conn[i].in = in + (size_t)i * AW__CONN_IN_BYTES;
                conn[i].out = out + (size_t)i * AW__SERVER_COPY_BYTES_MAX;
                conn[i].next_free = self->free_first;
                self->free_first = i + 1;
            }
            break;
        }
        if (!(server = aw_alloc_new(alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u connections", n);
    }
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (server->epoll_fd < 0 || server->event_fd < 0 || server->timer_fd < 0 ||
        !listeners_watch(server) || !watch(server, server->event_fd, EPOLLIN, TAG_EVENT) ||
        !watch(server, server->timer_fd, EPOLLIN, TAG_TIMER) ||
        (config->signal_fd >= 0 && !watch(server, config->signal_fd, EPOLLIN, TAG_SIGNAL))) {
        const int failed = errno;
        server->config.listen_fd = server->config.unix_fd = -1;
        aw__server_free(server);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "epoll: %s", strerror(failed));
    }
    server->listening = true;
    *ret_server = server;
    return AW_OK;
}

struct aw__conn *aw__conn_open(struct aw__server *server, int fd)
{
    AW_ASSERT(server->free_first);
    struct aw__conn *conn = &server->conn[server->free_first - 1];
    server->free_first = conn->next_free;
    server->conn_count++;
    conn->fd = fd;
    conn->serial++;
    conn->readable = conn->writable = true;
    conn->hung_up = conn->closing = conn->is_unix = conn->ended = false;
    conn->in_from = conn->in_to = 0;
    aw__conn_enter(server, conn, AW__CONN_HEAD);
    return conn;
}

/* The descriptor leaves epoll with close(2): nobody else has it. */
void aw__conn_close(struct aw__server *server, struct aw__conn *conn)
{
    const aw__token token = token_of(server, conn);
    /* a refused request has been over since it was refused */
    if ((conn->state == AW__CONN_BODY || conn->state == AW__CONN_WAIT ||
         conn->state == AW__CONN_SEND) &&
        !conn->closing)
        server->config.handler->over(server->config.self, token, false);
    if (conn == server->trunk.conn)
        aw__server_trunk_end(server);
    if (aw__conn_is_stream(conn))
        aw__server_trunk_leave(server, conn);
    else
        (void)close(conn->fd);
    conn->state = AW__CONN_CLOSED;
    conn->generation++;
    conn->next_free = server->free_first;
    server->free_first = (uint32_t)(conn - server->conn) + 1;
    server->conn_count--;
}

void aw__server_free(struct aw__server *server)
{
    if (!server)
        return;
    for (uint32_t i = 0; i < server->config.connections_max; i++) {
        if (server->conn[i].state != AW__CONN_CLOSED)
            aw__conn_close(server, &server->conn[i]);
    }
    listeners_close(server);
    if (server->epoll_fd >= 0)
        (void)close(server->epoll_fd);
    if (server->event_fd >= 0)
        (void)close(server->event_fd);
    if (server->timer_fd >= 0)
        (void)close(server->timer_fd);
    aw_alloc_free(server->alloc, server);
}

/* ---- out ---- */

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {201, "Created"},
                   {400, "Bad Request"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

/* RFC 9110 section 5.6.7, made anew once a second. */
static const char *date_now(struct aw__server *server)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const time_t now = (time_t)(aw_clock_now_us(NULL) / 1000000);
    struct tm tm;
    if (now != server->date_at && gmtime_r(&now, &tm)) {
        server->date_at = now;
        snprintf(server->date, sizeof server->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
                 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
                 (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    return server->date;
}

static void answer_put(struct aw__server *server, struct aw__conn *conn,
                       const struct aw__answer *answer)
{
    const char *extra = answer->extra ? answer->extra : "";
    conn->keep_alive =
        conn->keep_alive && !conn->closing && (!server->draining || aw__conn_is_stream(conn));
    int len = snprintf(conn->out, AW__SERVER_COPY_BYTES_MAX,
                       "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n"
                       "Content-Length: %zu\r\n%s%s\r\n",
                       answer->status, reason(answer->status), date_now(server), answer->type,
                       answer->len, conn->keep_alive ? "" : "Connection: close\r\n", extra);
    AW_ASSERT(len > 0 && (size_t)len < AW__SERVER_COPY_BYTES_MAX);
    conn->out_len = (size_t)len;
    conn->out_sent = 0;
    conn->body = NULL;
    conn->body_len = conn->body_ready = conn->body_sent = 0;
    if (conn->is_head) {
        /* as a GET would be answered, without its body */
    } else if (answer->borrowed) {
        conn->body = answer->body;
        conn->body_len = answer->len;
        conn->body_ready = answer->ready < answer->len ? answer->ready : answer->len;
    } else {
        AW_ASSERT(answer->len <= AW__SERVER_COPY_BYTES_MAX - conn->out_len);
        memcpy(conn->out + conn->out_len, answer->body, answer->len);
        conn->out_len += answer->len;
    }
    aw__conn_enter(server, conn, AW__CONN_SEND);
}

/* For requests that no handler has seen, or that it refused: say why, then hang up. */
static void refuse(struct aw__server *server, struct aw__conn *conn, enum aw_err err)
{
    char body[128];
    const int len = snprintf(body, sizeof body, "%s\n", aw_err_text(err));
    const struct aw__answer answer = {
        .status = aw_err_http_status(err), .type = "text/plain", .body = body, .len = (size_t)len};
    conn->closing = true;
    conn->is_head = false;
    answer_put(server, conn, &answer);
}

/* Sends what may be sent. False: the connection is gone. */
static bool conn_flush(struct aw__server *server, struct aw__conn *conn)
{
    if (aw__conn_is_stream(conn))
        aw__server_trunk_answer(server, conn);
    while (conn->writable &&
           (conn->out_sent < conn->out_len || conn->body_sent < conn->body_ready)) {
        struct iovec part[2] = {
            {.iov_base = conn->out + conn->out_sent, .iov_len = conn->out_len - conn->out_sent}};
        int count = 1;
        if (conn->body_sent < conn->body_ready) {
            const char *rest = conn->body + conn->body_sent;
            /* sendmsg only reads; an iovec, which is for both ways, has no const */
            memcpy(&part[1].iov_base, &rest, sizeof rest);
            part[1].iov_len = conn->body_ready - conn->body_sent;
            count = 2;
        }
        const struct msghdr message = {.msg_iov = part, .msg_iovlen = (size_t)count};
        const ssize_t n = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            conn->writable = false;
            if (conn->tells_writable || aw__conn_watch(server, conn, true, EPOLL_CTL_MOD))
                break;
        }
        if (n < 0) {
            aw__conn_close(server, conn);
            return false;
        }
        const size_t of_head = (size_t)n < part[0].iov_len ? (size_t)n : part[0].iov_len;
        conn->out_sent += of_head;
        conn->body_sent += (size_t)n - of_head;
    }
    return true;
}

void aw__server_answer(struct aw__server *server, aw__token token, const struct aw__answer *answer)
{
    struct aw__conn *conn = conn_of(server, token);
    if (!conn)
        return;
    AW_ASSERT(conn->state == AW__CONN_WAIT);
    answer_put(server, conn, answer);
    aw__conn_step(server, conn);
}

void aw__server_ready(struct aw__server *server, aw__token token, size_t ready)
{
    struct aw__conn *conn = conn_of(server, token);
    if (!conn || conn->state != AW__CONN_SEND || !conn->body)
        return;
    conn->body_ready = ready < conn->body_len ? ready : conn->body_len;
    aw__conn_step(server, conn);
}

void *aw__server_user(struct aw__server *server, aw__token token)
{
    struct aw__conn *conn = conn_of(server, token);
    return conn ? conn->user : NULL;
}

uint32_t aw__server_connections(const struct aw__server *server)
{
    return server->conn_count;
}

/* ---- in ---- */

/* Fills the buffer. False: the connection is gone. */
static bool conn_fill(struct aw__server *server, struct aw__conn *conn)
{
    if (conn->in_from == conn->in_to) {
        conn->in_from = conn->in_to = 0;
    } else if (conn->in_from > 0 && conn->in_to == AW__CONN_IN_BYTES) {
        memmove(conn->in, conn->in + conn->in_from, conn->in_to - conn->in_from);
        conn->in_to -= conn->in_from;
        conn->in_from = 0;
    }
    while (conn->readable && conn->in_to < AW__CONN_IN_BYTES) {
        const size_t room = AW__CONN_IN_BYTES - conn->in_to;
        const ssize_t n = recv(conn->fd, conn->in + conn->in_to, room, 0);
        if (n > 0) {
            conn->in_to += (uint32_t)n;
            if ((size_t)n < room)
                conn->readable = conn->hung_up; /* read on to the end that was announced */
            break;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            conn->readable = false;
            break;
        }
        aw__conn_close(server, conn); /* the peer has closed, or worse */
        return false;
    }
    return true;
}

/* Takes a head from the buffer. False: there is none yet. */
static bool head_take(struct aw__server *server, struct aw__conn *conn)
{
    struct aw_http1_head head;
    const size_t have = conn->in_to - conn->in_from;
    if (have == 0)
        return false;
    enum aw_err err = aw_http1_request(conn->in + conn->in_from, have, &head, NULL);
    if (err == AW_ERR_NODATA)
        return false;
    if (err) {
        conn->in_from = conn->in_to;
        refuse(server, conn, err);
        return true;
    }
    if (aw__server_trunk_is_asked(server, conn, &head)) {
        aw__server_trunk_begin(server, conn);
        return true;
    }
    conn->in_from += (uint32_t)head.bytes;
    conn->keep_alive = head.keep_alive;
    conn->is_head = aw_http1_is(head.method, "HEAD");
    conn->framing = head.framing;
    conn->body_left = head.length;
    conn->chunks = (struct aw_http1_chunks){0};
    memset(conn->user, 0, sizeof conn->user);
    aw__conn_enter(server, conn, AW__CONN_BODY);
    const aw__token token = token_of(server, conn);
    if ((err = server->config.handler->begin(server->config.self, server, token, &head))) {
        server->config.handler->over(server->config.self, token, false);
        conn->generation++;
        refuse(server, conn, err);
    } else if (head.expect_continue && head.framing != AW_HTTP1_EMPTY &&
               !aw__conn_is_stream(conn)) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        (void)send(conn->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return true;
}

/* Hands on what is there of a body. True: it is complete, or was refused. */
static bool body_take(struct aw__server *server, struct aw__conn *conn)
{
    const aw__token token = token_of(server, conn);
    enum aw_err err = AW_OK;
    bool done = conn->framing == AW_HTTP1_EMPTY;
    while (!err && !done) {
        const char *at = conn->in + conn->in_from;
        size_t have = conn->in_to - conn->in_from, used = 0;
        struct aw_http1_span data = {at, 0};
        if (conn->framing == AW_HTTP1_CHUNKED) {
            if (!have)
                return false;
            err = aw_http1_chunks_take(&conn->chunks, at, have, &used, &data);
            done = conn->chunks.done;
        } else {
            data.len = used = conn->body_left < have ? (size_t)conn->body_left : have;
            conn->body_left -= used;
            done = conn->body_left == 0;
            if (!done && !used)
                return false;
        }
        conn->in_from += (uint32_t)used;
        if (!err && data.len)
            err = server->config.handler->body(server->config.self, token, data.at, data.len);
    }
    if (err) {
        server->config.handler->over(server->config.self, token, false);
        conn->generation++;
        conn->in_from = conn->in_to;
        refuse(server, conn, err);
    } else {
        aw__conn_enter(server, conn, AW__CONN_WAIT);
        server->config.handler->end(server->config.self, server, token);
    }
    return true;
}

/* An answer is out: the next request, or the end. False: the connection is gone. */
static bool answer_finish(struct aw__server *server, struct aw__conn *conn)
{
    const aw__token token = token_of(server, conn);
    if (!conn->closing)
        server->config.handler->over(server->config.self, token, true);
    conn->generation++;
    const bool is_stream = aw__conn_is_stream(conn);
    if (conn->keep_alive && !is_stream) {
        aw__conn_enter(server, conn, AW__CONN_HEAD);
        return true;
    }
    if (conn->closing && !is_stream) {
        /* unread bytes would turn our answer into a reset: RFC 9112, 9.6 */
        (void)shutdown(conn->fd, SHUT_WR);
        conn->linger_bytes = 0;
        aw__conn_enter(server, conn, AW__CONN_LINGER);
        return true;
    }
    conn->state = AW__CONN_HEAD; /* the handler has been told */
    aw__conn_close(server, conn);
    return false;
}

/* Does whatever can be done without waiting. */
void aw__conn_step(struct aw__server *server, struct aw__conn *conn)
{
    if (server->stepping == conn)
        return; /* answered from inside of `end`: the loop that called it goes on */
    struct aw__conn *const outer = server->stepping;
    server->stepping = conn;
    for (;;) {
        if (conn->state == AW__CONN_SEND) {
            if (!conn_flush(server, conn) || conn->out_sent < conn->out_len ||
                conn->body_sent < conn->body_len || !answer_finish(server, conn))
                break;
        }
        if (conn->state == AW__CONN_HEAD && head_take(server, conn))
            continue;
        if (conn->state == AW__CONN_BODY && body_take(server, conn))
            continue;
        if (conn->state == AW__CONN_TRUNK)
            break; /* what comes now is for its streams */
        if (conn->state == AW__CONN_LINGER) {
            conn->linger_bytes += conn->in_to - conn->in_from;
            conn->in_from = conn->in_to;
        }
        if ((conn->state == AW__CONN_LINGER && conn->linger_bytes > LINGER_BYTES) ||
            (conn->state == AW__CONN_HEAD && conn->in_from == conn->in_to && !conn->readable &&
             server->draining)) {
            aw__conn_close(server, conn);
            break;
        }
        /* a client that sends ahead waits until its request has been answered */
        if (conn->state == AW__CONN_WAIT || !conn->readable || !conn_fill(server, conn))
            break;
    }
    server->stepping = outer;
}

static void connections_accept(struct aw__server *server, int listen_fd)
{
    const bool is_unix = listen_fd == server->config.unix_fd;
    for (int i = 0; i < ACCEPTS_AT_ONCE && server->free_first; i++) {
        const int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) { /* none; or no descriptor is left, and those who wait stay in the backlog */
            server->no_files = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
            return;
        }
        const int one = 1;
        if (!is_unix)
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct aw__conn *conn = aw__conn_open(server, fd);
        conn->is_unix = is_unix;
        if (aw__conn_watch(server, conn, !is_unix, EPOLL_CTL_ADD))
            aw__conn_step(server, conn);
        else
            aw__conn_close(server, conn);
    }
}

/* The listening sockets are watched while there is room for another connection: left alone while
 * there is none, they would wake us again and again. */
static void listening_set(struct aw__server *server)
{
    const bool wanted = !server->draining && server->free_first && !server->no_files;
    if (wanted == server->listening || server->config.listen_fd < 0)
        return;
    if (wanted)
        (void)listeners_watch(server);
    else
        (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->config.listen_fd, NULL);
    if (!wanted && server->config.unix_fd >= 0)
        (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->config.unix_fd, NULL);
    server->listening = wanted;
}

/* ---- time ---- */

static void timer_push(struct aw__server *server, struct aw__timer timer)
{
    uint32_t i = server->timer_count++;
    for (; i > 0 && server->timer[(i - 1) / 2].at_us > timer.at_us; i = (i - 1) / 2)
        server->timer[i] = server->timer[(i - 1) / 2];
    server->timer[i] = timer;
}

/* Drops the timers of requests that are over: clients that came, asked for a long delay and went.
 */
static void timers_prune(struct aw__server *server)
{
    const uint32_t count = server->timer_count;
    server->timer_count = 0;
    for (uint32_t i = 0; i < count; i++) { /* the heap grows behind what is read */
        if (conn_of(server, server->timer[i].token))
            timer_push(server, server->timer[i]);
    }
}

void aw__server_timer(struct aw__server *server, aw__token token, int64_t at_us)
{
    if (!conn_of(server, token))
        return;
    if (server->timer_count == server->timer_max)
        timers_prune(server);
    AW_ASSERT(server->timer_count <
              server->timer_max); /* one per request is what the header says */
    timer_push(server, (struct aw__timer){at_us, token});
}

static struct aw__timer timer_pop(struct aw__server *server)
{
    const struct aw__timer first = server->timer[0], last = server->timer[--server->timer_count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < server->timer_count; i = child) {
        if (child + 1 < server->timer_count &&
            server->timer[child + 1].at_us < server->timer[child].at_us)
            child++;
        if (server->timer[child].at_us >= last.at_us)
            break;
        server->timer[i] = server->timer[child];
    }
    server->timer[i] = last;
    return first;
}

static void timers_run(struct aw__server *server)
{
    while (server->timer_count && server->timer[0].at_us <= server->now_us) {
        const struct aw__timer due = timer_pop(server);
        if (conn_of(server, due.token))
            server->config.handler->timer(server->config.self, server, due.token);
    }
}

/* The next moment at which something has to be done, on the timer's descriptor: epoll_wait counts
 * in milliseconds, too coarse for a store that answers in two. */
static void timer_set(struct aw__server *server)
{
    int64_t at_us = server->ticked_us + server->config.tick_us;
    if (server->swept_us + SWEEP_US < at_us)
        at_us = server->swept_us + SWEEP_US;
    if (server->timer_count && server->timer[0].at_us < at_us)
        at_us = server->timer[0].at_us;
    if (at_us == server->timer_set_us)
        return;
    server->timer_set_us = at_us;
    const struct itimerspec spec = {
        .it_value = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000 + 1}};
    (void)timerfd_settime(server->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Closes connections that have been silent for too long. */
static void sweep(struct aw__server *server)
{
    server->swept_us = server->now_us;
    server->no_files = false;
    for (uint32_t i = 0; i < server->config.connections_max; i++) {
        struct aw__conn *conn = &server->conn[i];
        const int64_t age_us = server->now_us - conn->since_us;
        const bool idle = conn->state == AW__CONN_HEAD && conn->in_from == conn->in_to;
        if ((idle && (age_us > server->config.idle_us || server->draining)) ||
            (conn->state == AW__CONN_HEAD && !idle && age_us > server->config.idle_us + HEAD_US) ||
            (conn->state == AW__CONN_LINGER && age_us > LINGER_US) ||
            ((conn->state == AW__CONN_BODY || conn->state == AW__CONN_SEND) && age_us > STALL_US))
            aw__conn_close(server, conn);
    }
}

/* ---- running ---- */

void aw__server_notify(struct aw__server *server)
{
    const uint64_t one = 1;
    /* a full counter means that it is already readable */
    const ssize_t n = write(server->event_fd, &one, sizeof one);
    (void)n;
}

void aw__server_stop(struct aw__server *server)
{
    server->stop = true;
}

void aw__server_drain(struct aw__server *server)
{
    if (server->draining)
        return;
    connections_accept(server, server->config.listen_fd); /* those who have connected already */
    if (server->config.unix_fd >= 0)
        connections_accept(server, server->config.unix_fd);
    server->draining = true;
    listening_set(server);
    listeners_close(server);
    aw__server_trunk_farewell(server);
    for (uint32_t i = 0; i < server->config.connections_max; i++) {
        struct aw__conn *conn = &server->conn[i];
        if (conn->state != AW__CONN_HEAD)
            continue;
        conn->readable = true; /* a request may have come that epoll has not told us of yet */
        aw__conn_step(server, conn);
    }
}

static void drop_count(int fd)
{
    uint64_t count;
    const ssize_t n = read(fd, &count, sizeof count);
    (void)n; /* nothing there: somebody else was woken for it */
}

static void event_handle(struct aw__server *server, const struct epoll_event *event)
{
    struct signalfd_siginfo info;
    struct aw__conn *conn;
    switch ((uint32_t)event->data.u64) {
    case TAG_LISTEN:
        connections_accept(server, server->config.listen_fd);
        return;
    case TAG_LISTEN_UNIX:
        connections_accept(server, server->config.unix_fd);
        return;
    case TAG_EVENT:
        drop_count(server->event_fd);
        server->config.handler->wake(server->config.self, server);
        return;
    case TAG_TIMER:
        drop_count(server->timer_fd);
        server->timer_set_us = 0;
        return;
    case TAG_SIGNAL:
        if (read(server->config.signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            server->config.handler->tick(server->config.self, server, (int)info.ssi_signo);
        return;
    }
    conn = &server->conn[(uint32_t)event->data.u64];
    if (conn->state == AW__CONN_CLOSED || conn->serial != event->data.u64 >> 32)
        return; /* closed while an earlier event of this round was handled */
    if (event->events & (EPOLLHUP | EPOLLERR)) {
        aw__conn_close(server, conn);
        return;
    }
    conn->readable |= (event->events & (EPOLLIN | EPOLLRDHUP)) != 0;
    conn->hung_up |= (event->events & EPOLLRDHUP) != 0;
    conn->writable |= (event->events & EPOLLOUT) != 0;
    if (conn == server->trunk.conn)
        aw__server_trunk_step(server);
    else
        aw__conn_step(server, conn);
}

enum aw_err aw__server_run(struct aw__server *server, struct aw_diag *diag)
{
    struct epoll_event event[EVENTS_MAX];
    server->now_us = server->ticked_us = server->swept_us = aw_clock_monotonic_us(NULL);
    while (!server->stop && !(server->draining && server->conn_count == 0)) {
        listening_set(server);
        timer_set(server);
        const int count = epoll_wait(server->epoll_fd, event, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR)
            return aw_fail(diag, AW_ERR_IO, "epoll: %s", strerror(errno));
        server->now_us = aw_clock_monotonic_us(NULL);
        for (int i = 0; i < count; i++)
            event_handle(server, &event[i]);
        timers_run(server);
        if (server->now_us - server->swept_us >= SWEEP_US)
            sweep(server);
        if (server->now_us - server->ticked_us >= server->config.tick_us) {
            server->ticked_us = server->now_us;
            server->config.handler->tick(server->config.self, server, 0);
        }
        aw__server_trunk_settle(server);
    }
    return server->stop ? aw_fail(diag, AW_ERR_INTERRUPTED, "told to stop") : AW_OK;
}
