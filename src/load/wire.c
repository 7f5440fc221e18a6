/*
 * wire.c - connections of one thread: edge-triggered, one request at a time each.
 *
 * Idle connections are a stack: the one used last is warm. What comes in is read into one buffer of
 * the thread; only a head that arrives in pieces is kept with its connection.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/drive_internal.h"

#define EVENTS_MAX 512

static bool request_begin(struct aw__driver *driver, struct aw__wire *wire);

static bool counted(const struct aw__driver *driver, int64_t due_us)
{
    return due_us - driver->start_us >= driver->config->warm_up_us;
}

/* A request ends without an answer. The time that it has cost counts as any other: a stall that is
 * longer than the time-out must not take its own victims out of the figures. One for which there
 * was no room to wait would have waited for at least that long. */
static void error_count(struct aw__driver *driver, int64_t due_us, enum aw_drive_error error)
{
    if (!counted(driver, due_us))
        return;
    const int64_t took_us = error == AW_DRIVE_BACKLOG ? driver->config->timeout_us
                                                      : aw_clock_monotonic_us(NULL) - due_us;
    driver->all.error[error]++;
    aw_latency_histogram_record(driver->latency, took_us);
    aw_latency_histogram_record(driver->interval, took_us);
}

/* ---- connections ---- */

static void wire_drop(struct aw__driver *driver, struct aw__wire *wire)
{
    (void)close(wire->fd); /* leaves epoll with it */
    wire->state = AW__WIRE_NONE;
    wire->next = driver->unused_first;
    driver->unused_first = (uint32_t)(wire - driver->wire) + 1;
    driver->wire_open--;
}

/* Takes an idle connection out of the stack wherever it is: its server has closed it. */
static void idle_remove(struct aw__driver *driver, struct aw__wire *wire)
{
    const uint32_t index = (uint32_t)(wire - driver->wire) + 1;
    uint32_t *at = &driver->idle_first;
    while (*at && *at != index)
        at = &driver->wire[*at - 1].next;
    AW_ASSERT(*at == index);
    *at = wire->next;
    driver->idle_count--;
}

/* A connection on its way; NULL: none can be made, and `ret_error` says why. */
static struct aw__wire *wire_connect(struct aw__driver *driver, enum aw_drive_error *ret_error)
{
    struct aw__wire *wire = &driver->wire[driver->unused_first - 1];
    const struct sockaddr_in *address = &driver->config->target.address;
    const int one = 1;
    *ret_error = AW_DRIVE_CONNECT;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u32 = driver->unused_first - 1};
    if ((connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
         errno != EINPROGRESS) ||
        epoll_ctl(driver->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        if (errno == ECONNREFUSED)
            *ret_error = AW_DRIVE_REFUSED;
        (void)close(fd);
        return NULL;
    }
    char *const head = wire->head;
    driver->unused_first = wire->next;
    driver->wire_open++;
    driver->all.connects++;
    *wire = (struct aw__wire){.fd = fd, .state = AW__WIRE_CONNECTING, .head = head};
    return wire;
}

/* ---- requests ---- */

/* Gives a request to a connection that is there or can be had. False: it has to wait. */
static bool request_place(struct aw__driver *driver, int64_t due_us, bool retry)
{
    struct aw__wire *wire = NULL;
    enum aw_drive_error error;
    if (driver->idle_first && !retry) {
        wire = &driver->wire[driver->idle_first - 1];
        driver->idle_first = wire->next;
        driver->idle_count--;
        wire->state = AW__WIRE_BUSY;
    } else if (driver->unused_first) {
        wire = wire_connect(driver, &error);
        if (!wire) {
            error_count(driver, due_us, error);
            return true;
        }
    } else {
        return false;
    }
    driver->busy_count++;
    wire->due_us = due_us;
    wire->retry = retry;
    wire->sent_us = 0;
    if (wire->state == AW__WIRE_BUSY)
        (void)request_begin(driver, wire);
    return true;
}

void aw__wire_dispatch(struct aw__driver *driver, int64_t due_us)
{
    if (counted(driver, due_us))
        driver->all.due++;
    if (driver->backlog_count == 0 && request_place(driver, due_us, false))
        return;
    if (driver->backlog_count == driver->backlog_max) {
        error_count(driver, due_us, AW_DRIVE_BACKLOG);
        return;
    }
    driver->backlog[(driver->backlog_first + driver->backlog_count++) % driver->backlog_max] =
        due_us;
    if (driver->backlog_count > driver->backlog_seen_max)
        driver->backlog_seen_max = driver->backlog_count;
}

/* Those who waited, as long as there are connections for them. One that fails at once comes back
 * here; the loop that is already going on takes it from there. */
static void backlog_serve(struct aw__driver *driver)
{
    if (driver->serving)
        return;
    driver->serving = true;
    while (driver->backlog_count && (driver->idle_first || driver->unused_first)) {
        const int64_t due_us = driver->backlog[driver->backlog_first];
        driver->backlog_first = (driver->backlog_first + 1) % driver->backlog_max;
        driver->backlog_count--;
        const bool placed = request_place(driver, due_us, false);
        AW_ASSERT(placed);
    }
    driver->serving = false;
}

/* The request on a connection has failed, and the connection with it. */
static void request_fail(struct aw__driver *driver, struct aw__wire *wire,
                         enum aw_drive_error error)
{
    const int64_t due_us = wire->due_us;
    const bool again = wire->used && !wire->touched && !wire->retry && driver->repeatable &&
                       !driver->config->no_retry &&
                       (error == AW_DRIVE_CLOSED || error == AW_DRIVE_RESET);
    wire_drop(driver, wire);
    driver->busy_count--;
    if (again) {
        driver->all.retried += counted(driver, due_us);
        const bool placed = request_place(driver, due_us, true);
        AW_ASSERT(placed); /* its own connection has just become free */
    } else {
        error_count(driver, due_us, error);
    }
    backlog_serve(driver);
}

/* Sends what is left of the request. False: the connection is gone. */
static bool request_send(struct aw__driver *driver, struct aw__wire *wire)
{
    while (wire->out_sent < driver->request_len) {
        const ssize_t n = send(wire->fd, driver->request + wire->out_sent,
                               driver->request_len - wire->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (n < 0) {
            request_fail(driver, wire, errno == EPIPE ? AW_DRIVE_CLOSED : AW_DRIVE_RESET);
            return false;
        }
        wire->out_sent += (size_t)n;
        driver->all.bytes_out += (uint64_t)n;
    }
    return true;
}

/* False: the connection is gone. */
static bool request_begin(struct aw__driver *driver, struct aw__wire *wire)
{
    wire->state = AW__WIRE_BUSY;
    wire->touched = wire->has_head = false;
    wire->head_len = 0;
    wire->out_sent = 0;
    wire->sent_us = aw_clock_monotonic_us(NULL);
    if (counted(driver, wire->due_us) && wire->used)
        aw_latency_histogram_record(driver->behind, wire->sent_us - wire->due_us);
    return request_send(driver, wire);
}

static void answer_finish(struct aw__driver *driver, struct aw__wire *wire, bool reusable)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    const int64_t due_us = wire->due_us;
    driver->busy_count--;
    if (counted(driver, due_us)) {
        driver->all.answered++;
        driver->all.ok += wire->status < 400;
        driver->all.status[wire->status / 100]++;
        if (wire->status >= 400)
            driver->all.error[AW_DRIVE_STATUS]++;
        aw_latency_histogram_record(driver->latency, now_us - due_us);
        aw_latency_histogram_record(driver->interval, now_us - due_us);
        aw_latency_histogram_record(driver->service, now_us - wire->sent_us);
    }
    if (reusable && wire->keep_alive && wire->out_sent == driver->request_len) {
        wire->used = true;
        wire->state = AW__WIRE_IDLE;
        wire->next = driver->idle_first;
        driver->idle_first = (uint32_t)(wire - driver->wire) + 1;
        driver->idle_count++;
    } else {
        wire_drop(driver, wire);
    }
    backlog_serve(driver);
}

/* ---- answers ---- */

enum progress { MORE, COMPLETE, BROKEN };

/* Takes a head from bytes that may hold it, or keeps them until it is whole. */
static enum progress head_take(struct aw__driver *driver, struct aw__wire *wire, const char **bytes,
                               size_t *len)
{
    struct aw_http1_head head;
    const char *from = *bytes;
    size_t have = *len, kept = wire->head_len;
    const bool to_head = driver->config->method && !strcmp(driver->config->method, "HEAD");
    if (kept) {
        const size_t room = AW_HTTP1_HEAD_BYTES_MAX - kept, take = have < room ? have : room;
        memcpy(wire->head + kept, from, take);
        from = wire->head;
        have = kept + take;
    }
    const enum aw_err err = aw_http1_response(from, have, to_head, &head, NULL);
    if (err == AW_ERR_NODATA) {
        if (!kept)
            memcpy(wire->head, from, have);
        wire->head_len = (uint32_t)have;
        *bytes += *len;
        *len = 0;
        return MORE;
    }
    if (err)
        return BROKEN;
    const size_t used = head.bytes - kept; /* of the new bytes: the head ends among them */
    *bytes += used;
    *len -= used;
    wire->head_len = 0;
    if (head.status < 200)
        return MORE; /* an interim answer: the final one follows */
    wire->has_head = true;
    wire->status = head.status;
    wire->keep_alive = head.keep_alive;
    wire->framing = head.framing;
    wire->left = head.length;
    wire->chunks = (struct aw_http1_chunks){0};
    return COMPLETE;
}

/* Takes what belongs to the answer from `len` bytes; how many are left over goes to `ret_left`. */
static enum progress answer_take(struct aw__driver *driver, struct aw__wire *wire,
                                 const char *bytes, size_t len, size_t *ret_left)
{
    *ret_left = 0;
    while (!wire->has_head) {
        if (len == 0)
            return MORE;
        const enum progress progress = head_take(driver, wire, &bytes, &len);
        if (progress == BROKEN)
            return BROKEN;
    }
    switch (wire->framing) {
    case AW_HTTP1_EMPTY:
        *ret_left = len;
        return COMPLETE;
    case AW_HTTP1_LENGTH: {
        const size_t take = wire->left < len ? (size_t)wire->left : len;
        wire->left -= take;
        *ret_left = len - take;
        return wire->left ? MORE : COMPLETE;
    }
    case AW_HTTP1_CHUNKED:
        while (len && !wire->chunks.done) {
            struct aw_http1_span data;
            size_t used;
            if (aw_http1_chunks_take(&wire->chunks, bytes, len, &used, &data))
                return BROKEN;
            bytes += used;
            len -= used;
        }
        *ret_left = len;
        return wire->chunks.done ? COMPLETE : MORE;
    case AW_HTTP1_UNTIL_CLOSE:
        return MORE;
    }
    return BROKEN;
}

/* The server has closed, or the connection broke with `failed` (0: closed in order). */
static void wire_ended(struct aw__driver *driver, struct aw__wire *wire, int failed)
{
    if (wire->state == AW__WIRE_IDLE) {
        idle_remove(driver, wire);
        wire_drop(driver, wire);
    } else if (!failed && wire->has_head && wire->framing == AW_HTTP1_UNTIL_CLOSE) {
        answer_finish(driver, wire, false);
    } else {
        request_fail(driver, wire, failed ? AW_DRIVE_RESET : AW_DRIVE_CLOSED);
    }
}

static void wire_read(struct aw__driver *driver, struct aw__wire *wire, bool to_the_end)
{
    for (;;) {
        const ssize_t n = recv(wire->fd, driver->in, AW__DRIVE_IN_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            wire_ended(driver, wire, n ? errno : 0);
            return;
        }
        driver->all.bytes_in += (uint64_t)n;
        if (wire->state != AW__WIRE_BUSY) { /* nobody asked */
            idle_remove(driver, wire);
            wire_drop(driver, wire);
            return;
        }
        wire->touched = true;
        size_t left;
        const enum progress progress = answer_take(driver, wire, driver->in, (size_t)n, &left);
        if (progress == BROKEN) {
            request_fail(driver, wire, AW_DRIVE_MALFORMED);
            return;
        }
        if (progress == COMPLETE) {
            answer_finish(driver, wire, left == 0 && !to_the_end);
            return;
        }
        if ((size_t)n < AW__DRIVE_IN_BYTES && !to_the_end)
            return; /* a read that is not full has emptied the socket: epoll(7) */
    }
}

static void wire_event(struct aw__driver *driver, const struct epoll_event *event)
{
    struct aw__wire *wire = &driver->wire[event->data.u32];
    if (wire->state == AW__WIRE_NONE)
        return;
    if (wire->state == AW__WIRE_CONNECTING) {
        int failed = 0;
        socklen_t len = sizeof failed;
        if (!(event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
            return;
        (void)getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &failed, &len);
        if (failed || event->events & EPOLLERR) {
            request_fail(driver, wire,
                         failed == ECONNREFUSED ? AW_DRIVE_REFUSED : AW_DRIVE_CONNECT);
            return;
        }
        if (!request_begin(driver, wire))
            return;
    } else if (wire->state == AW__WIRE_BUSY && event->events & EPOLLOUT &&
               wire->out_sent < driver->request_len && !request_send(driver, wire)) {
        return;
    }
    if (event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        wire_read(driver, wire, (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
}

/* Gives up on what has not been answered in time. */
void aw__wire_expire(struct aw__driver *driver)
{
    const int64_t before_us = driver->now_us - driver->config->timeout_us;
    for (uint32_t i = 0; i < driver->wire_max; i++) {
        struct aw__wire *wire = &driver->wire[i];
        if ((wire->state == AW__WIRE_BUSY || wire->state == AW__WIRE_CONNECTING) &&
            wire->due_us < before_us)
            request_fail(driver, wire, AW_DRIVE_TIMEOUT);
    }
    while (driver->backlog_count && driver->backlog[driver->backlog_first] < before_us) {
        error_count(driver, driver->backlog[driver->backlog_first], AW_DRIVE_TIMEOUT);
        driver->backlog_first = (driver->backlog_first + 1) % driver->backlog_max;
        driver->backlog_count--;
    }
}

/* ---- epoll ---- */

enum aw_err aw__wire_open(struct aw__driver *driver, struct aw_diag *diag)
{
    driver->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (driver->epoll_fd < 0)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "epoll: %s", strerror(errno));
    for (uint32_t i = driver->wire_max; i-- > 0;) {
        driver->wire[i].next = driver->unused_first;
        driver->unused_first = i + 1;
    }
    return AW_OK;
}

void aw__wire_close(struct aw__driver *driver)
{
    for (uint32_t i = 0; i < driver->wire_max; i++) {
        if (driver->wire[i].state != AW__WIRE_NONE)
            (void)close(driver->wire[i].fd);
    }
    if (driver->epoll_fd >= 0)
        (void)close(driver->epoll_fd);
}

enum aw_err aw__wire_wait(struct aw__driver *driver, int64_t until_us, struct aw_diag *diag)
{
    struct epoll_event event[EVENTS_MAX];
    const int64_t left_us = until_us - driver->now_us;
    /* epoll_wait counts in milliseconds: too coarse for requests that are due in between */
    const struct timespec wait = {.tv_sec = left_us > 0 ? left_us / 1000000 : 0,
                                  .tv_nsec = left_us > 0 ? left_us % 1000000 * 1000 : 0};
    const int count = epoll_pwait2(driver->epoll_fd, event, EVENTS_MAX, &wait, NULL);
    if (count < 0 && errno != EINTR)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "epoll_pwait2: %s", strerror(errno));
    for (int i = 0; i < count; i++)
        wire_event(driver, &event[i]);
    return AW_OK;
}
