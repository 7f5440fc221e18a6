/* balancer_client.c - one request from its first byte to the last byte of its answer. */
#include "base/clock.h"
#include "cluster/local/balancer_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIES_MAX 32u     /* replicas that a request is offered to */
#define ENDING_US 1000000 /* for a client to take the last answer */
#define KEEP_IDLE 10      /* times config.idle_us: clients without a request */
#define RESET_US  10000   /* for what is still on its way: the reset of a link, its first bytes */
#define REST_US   1000000 /* for the next bytes of an answer whose replica was given up */

#define SAY(code, words)                                                                       \
    "HTTP/1.1 " code " " words "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-" \
    "Length: 0\r\n\r\n"
static const char say_bad[] = SAY("400", "Bad Request");
static const char say_large[] = SAY("431", "Request Header Fields Too Large");
static const char say_no[] = SAY("501", "Not Implemented");
static const char say_lost[] = SAY("502", "Bad Gateway");
static const char say_nobody[] = SAY("503", "Service Unavailable");
static const char say_late[] = SAY("504", "Gateway Timeout");

/* --- coming and going ------------------------------------------------------------------------- */

static void state_set(struct aw__balancer *b, struct aw__visitor *c, enum aw__visitor_state state)
{
    c->state = state;
    c->since_us = b->now_us;
}

void aw__visitor_accept(struct aw__balancer *b)
{
    while (b->listen.fd >= 0 && b->client_free) {
        const int fd = accept4(b->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            b->accept_due = errno != EAGAIN && errno != EWOULDBLOCK;
            return;
        }
        struct aw__visitor *c = b->client_free;
        const int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct aw__visitor *rest = c->next;
        *c = (struct aw__visitor){
            .handle = {.kind = AW__HANDLE_CLIENT, .fd = fd}, .in = c->in, .next = b->clients};
        b->client_free = rest;
        if (b->clients)
            b->clients->prev = c;
        b->clients = c;
        aw__bump(&b->books.clients, 1);
        state_set(b, c, AW__VISITOR_READING);
        if (!aw__balancer_watch(b, &c->handle))
            c->handle.broken = true; /* closed by the tick */
    }
}

static void client_close(struct aw__balancer *b, struct aw__visitor *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        b->clients = c->next;
    if (c->next)
        c->next->prev = c->prev;
    close(c->handle.fd);
    c->handle.fd = -1;
    c->state = AW__VISITOR_FREE;
    c->prev = NULL;
    c->next = b->client_released;
    b->client_released = c;
    aw__bump(&b->books.clients, (uint64_t)-1);
}

/* --- the books -------------------------------------------------------------------------------- */

static void request_end(struct aw__balancer *b, struct aw__visitor *c, _Atomic uint64_t *counter,
                        int64_t latency_us)
{
    if (!c->counted)
        return;
    c->counted = false;
    if (latency_us >= 0)
        aw_latency_histogram_record(&b->latency, latency_us);
    aw__bump(counter, 1); /* first: who sees nothing in flight finds it in the books */
    aw__bump(&b->books.in_flight, (uint64_t)-1);
}

/* A failure lasts as long as the client would have waited: dropping requests wins nothing. */
static void request_fail(struct aw__balancer *b, struct aw__visitor *c, _Atomic uint64_t *counter)
{
    request_end(b, c, counter, b->config.request_timeout_us);
}

static void link_leave(struct aw__balancer *b, struct aw__visitor *c, bool keep)
{
    struct aw__link *link = c->link;
    if (!link)
        return;
    c->link = NULL;
    if (!link->left_us)
        aw__backend_count(b, link->slot, -1);
    if (keep)
        aw__link_keep(b, link);
    else
        aw__link_close(b, link);
}

static void say(struct aw__balancer *b, struct aw__visitor *c, const char *text)
{
    c->say = text;
    c->say_left = (uint32_t)strlen(text);
    state_set(b, c, AW__VISITOR_SAYING);
}

/* The client has gone, or what it sends makes no sense any more. */
static void give_up(struct aw__balancer *b, struct aw__visitor *c)
{
    request_end(b, c, &b->books.aborted, -1);
    link_leave(b, c, false);
    client_close(b, c);
}

/* --- bytes ------------------------------------------------------------------------------------ */

enum got { GOT_BYTES, GOT_NOTHING, GOT_END };

static enum got receive(struct aw__handle *handle, char *to, size_t room, uint32_t *ret_count)
{
    if (!handle->readable)
        return GOT_NOTHING;
    ssize_t count;
    do
        count = recv(handle->fd, to, room, MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count > 0) {
        /* a short read has emptied the socket: the next byte is a new edge (epoll(7)) */
        if ((size_t)count < room)
            handle->readable = handle->hung_up;
        *ret_count = (uint32_t)count;
        return GOT_BYTES;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        handle->readable = false;
        return GOT_NOTHING;
    }
    handle->broken = handle->broken || count < 0;
    return GOT_END;
}

static enum got client_receive(struct aw__visitor *c)
{
    uint32_t count = 0;
    if (c->begin == c->end) {
        c->begin = c->end = 0;
    } else if (c->end == AW__BUFFER && c->begin > 0) {
        memmove(c->in, c->in + c->begin, c->end - c->begin);
        c->end -= c->begin;
        c->begin = 0;
    }
    const enum got got = receive(&c->handle, c->in + c->end, AW__BUFFER - c->end, &count);
    c->end += count;
    return got;
}

/* Bytes taken, 0 when none can be taken now, -1 when none ever will. */
static ssize_t give(int fd, const char *bytes, size_t len)
{
    ssize_t sent;
    do
        sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : sent;
}

/* --- a request begins ------------------------------------------------------------------------- */

/* Each of these makes one step. True: there is more to do at once. */

static bool link_find(struct aw__balancer *b, struct aw__visitor *c)
{
    const enum aw__link_result result = aw__link_get(b, c);
    if (result == AW__LINK_NOBODY) {
        if (c->state != AW__VISITOR_WAITING)
            state_set(b, c, AW__VISITOR_WAITING);
        return false;
    }
    aw__backend_count(b, c->link->slot, +1);
    state_set(b, c, AW__VISITOR_LINKED);
    return result == AW__LINK_READY;
}

static bool request_begin(struct aw__balancer *b, struct aw__visitor *c)
{
    size_t used = 0;
    aw__frame_begin(&c->frame, &c->head);
    const uint32_t behind = c->begin + (uint32_t)c->head.bytes;
    if (!aw__frame_take(&c->frame, c->in + behind, c->end - behind, &used)) {
        say(b, c, say_bad);
        return true;
    }
    c->own = (uint32_t)c->head.bytes + (uint32_t)used;
    c->from = c->begin;
    c->size = c->head.is_safe && c->frame.done ? c->own : 0;
    c->tries = 0;
    c->counted = true;
    c->begun_us = aw_clock_monotonic_us(NULL);
    aw__bump(&b->books.arrivals, 1);
    aw__bump(&b->books.in_flight, 1);
    return link_find(b, c);
}

static bool reading(struct aw__balancer *b, struct aw__visitor *c)
{
    while (c->begin < c->end && (c->in[c->begin] == '\r' || c->in[c->begin] == '\n'))
        c->begin++; /* empty lines before a request are nobody's (RFC 9112 section 2.2) */
    if (c->begin < c->end) {
        switch (aw__frame_request(c->in + c->begin, c->end - c->begin, &c->head)) {
        case AW__FRAME_OK:
            return request_begin(b, c);
        case AW__FRAME_BAD:
            say(b, c, say_bad);
            return true;
        case AW__FRAME_LARGE:
            say(b, c, say_large);
            return true;
        case AW__FRAME_OTHER:
            say(b, c, say_no);
            return true;
        case AW__FRAME_MORE:
            break;
        }
        if (c->end == AW__BUFFER) { /* room at the end */
            memmove(c->in, c->in + c->begin, c->end - c->begin);
            c->end -= c->begin;
            c->begin = 0;
        }
    }
    switch (client_receive(c)) {
    case GOT_BYTES:
        return true;
    case GOT_NOTHING:
        return false;
    case GOT_END:
        break;
    }
    client_close(b, c);
    return false;
}

/* --- and passes through ----------------------------------------------------------------------- */

/* A kept connection may be closed just when a request is sent on it. It is reset then: nobody has
 * read the request (who reads it and ends, ends the stream instead). One that may be asked twice,
 * and is still here as a whole, goes to another replica (RFC 9110 section 9.2.2). */
static bool may_cross(const struct aw__visitor *c)
{
    return c->size > 0 && c->link->reused && c->link->end == 0;
}

/* Leaves the state in which the client goes on. */
static void link_failed(struct aw__balancer *b, struct aw__visitor *c)
{
    const bool sent = c->link->any_sent, passed = c->link->any_passed;
    const bool crossed = may_cross(c) && c->link->handle.broken;
    const uint32_t unasked = c->link->is_stream && !sent ? c->link->asked : 0;
    link_leave(b, c, false);
    if (crossed || unasked) {
        c->begin = c->from;
        c->own = unasked ? unasked : c->size;
    }
    if (!sent || crossed) { /* no replica has seen a byte of it, or none will answer it */
        aw__bump(&b->books.retries, 1);
        state_set(b, c, AW__VISITOR_WAITING);
        if (++c->tries >= TRIES_MAX) {
            request_fail(b, c, &b->books.refused);
            say(b, c, say_nobody);
        } else {
            link_find(b, c);
        }
        return;
    }
    request_fail(b, c, &b->books.lost);
    if (passed)
        client_close(b, c); /* half an answer: the cut is all that can be told */
    else
        say(b, c, say_lost);
}

void aw__visitor_link_failed(struct aw__balancer *b, struct aw__visitor *c)
{
    link_failed(b, c);
    aw__visitor_pump(b, c);
}

static void request_done(struct aw__balancer *b, struct aw__visitor *c)
{
    const struct aw__link *link = c->link;
    const bool whole = c->frame.done && c->own == 0;
    const bool keep = whole && c->head.keep_alive && link->head.keep_alive;
    if (link->head.status >= 500)
        request_fail(b, c, &b->books.failed);
    else
        request_end(b, c, &b->books.completions, aw_clock_monotonic_us(NULL) - c->begun_us);
    link_leave(b, c, keep && !link->surplus);
    if (keep) {
        state_set(b, c, AW__VISITOR_READING);
    } else {
        shutdown(c->handle.fd, SHUT_WR);
        state_set(b, c, AW__VISITOR_ENDING);
    }
}

/* False: the client or the link is no longer there for this. */
static bool upload(struct aw__balancer *b, struct aw__visitor *c, bool *progress)
{
    struct aw__link *link = c->link;
    if (link->is_stream) { /* it is here as a whole, and there is room for it */
        if (c->own > 0) {
            aw__mux_frame_ask(b, link, c->in + c->begin, c->own);
            link->any_sent = *progress = true;
            link->asked = c->own;
            c->begin += c->own;
            aw__bump(&b->books.bytes, c->own);
            c->own = 0;
        }
        return true;
    }
    for (;;) {
        while (c->own > 0) {
            const uint32_t may =
                aw__meter_allows(b, link->slot, AW__METER_IN, link->metered, c->own);
            if (may == 0)
                return true; /* the tick comes back to it */
            const ssize_t sent = give(link->handle.fd, c->in + c->begin, may);
            if (sent == 0 && aw__balancer_watch_writable(b, &link->handle, true))
                return true;
            if (sent <= 0) {
                /* an answer may have come before the rest of the request was refused */
                if (link->handle.readable && link->any_sent)
                    return true;
                link_failed(b, c);
                return false;
            }
            link->any_sent = *progress = true;
            c->begin += (uint32_t)sent;
            c->own -= (uint32_t)sent;
            aw__meter_take(b, link->slot, AW__METER_IN, link->metered, (uint32_t)sent);
            aw__bump(&b->books.bytes, (uint64_t)sent);
        }
        if (c->frame.done)
            return true;
        switch (client_receive(c)) {
        case GOT_NOTHING:
            return true;
        case GOT_END:
            give_up(b, c);
            return false;
        case GOT_BYTES:
            break;
        }
        size_t used = 0;
        if (!aw__frame_take(&c->frame, c->in + c->begin, c->end - c->begin, &used)) {
            give_up(b, c);
            return false;
        }
        c->own = (uint32_t)used;
    }
}

/* Finds out where in what has come the response ends. False: it is no response. */
static bool response_frame(struct aw__link *link, bool to_head)
{
    while (link->unframed > 0) {
        const char *at = link->out + link->end - link->unframed;
        size_t used = 0;
        if (!link->has_head) {
            const enum aw__frame_result result =
                aw__frame_response(at, link->unframed, to_head, &link->head);
            if (result == AW__FRAME_MORE)
                return true;
            if (result != AW__FRAME_OK || link->head.status == 101)
                return false; /* nothing is upgraded here */
            link->has_head = link->head.status >= 200;
            used = link->head.bytes;
            if (link->has_head)
                aw__frame_begin(&link->frame, &link->head);
        } else if (link->frame.done) {
            link->surplus = true;
            link->end -= link->unframed;
            used = link->unframed;
        } else if (!aw__frame_take(&link->frame, at, link->unframed, &used)) {
            return false;
        }
        link->unframed -= (uint32_t)used;
    }
    return true;
}

static bool response_receive(struct aw__balancer *b, struct aw__visitor *c, bool *progress)
{
    struct aw__link *link = c->link;
    uint32_t count = 0;
    if (link->is_stream)
        return true; /* aw__visitor_answer brings it */
    if (link->begin == link->end)
        link->begin = link->end = 0;
    const bool waits = link->end - link->unframed > link->begin; /* for the client to take it */
    if (waits || (link->has_head && link->frame.done) || link->end == AW__BUFFER)
        return true;
    const bool metered = !link->left_us; /* who has ended says no more than is there */
    uint32_t room = AW__BUFFER - link->end;
    if (metered && link->handle.readable)
        room = aw__meter_allows(b, link->slot, AW__METER_OUT, link->metered, room);
    /* before anything was sent for want of bytes there is no answer, and the link may have ended:
     * then sending shows it, and the request goes elsewhere */
    const bool waits_to_send = b->config.network_bytes_per_s[AW__METER_IN] && !link->any_sent;
    if (room == 0 || waits_to_send)
        return true;
    switch (receive(&link->handle, link->out + link->end, room, &count)) {
    case GOT_NOTHING:
        return true;
    case GOT_BYTES:
        link->end += count;
        link->unframed += count;
        if (metered)
            aw__meter_take(b, link->slot, AW__METER_OUT, link->metered, count);
        aw__bump(&b->books.bytes, count);
        link->heard_us = b->now_us;
        *progress = true;
        if (response_frame(link, c->head.is_head))
            return true;
        break;
    case GOT_END:
        if (link->has_head && link->frame.body == AW_HTTP1_UNTIL_CLOSE) {
            link->frame.done = *progress = true;
            return true;
        }
        /* Over TCP the end may overtake the reset: who closes does not look at what comes until it
         * is done. Only without one has somebody read the request. */
        if (may_cross(c) && !link->handle.broken && !link->handle.is_unix) {
            link->ended_us = link->ended_us ? link->ended_us : b->now_us;
            link->handle.readable = false;
            return true;
        }
        break;
    }
    link->any_sent = true; /* it was there, whatever it did */
    link_failed(b, c);
    return false;
}

static bool linked(struct aw__balancer *b, struct aw__visitor *c)
{
    bool progress = false;
    if (c->link->state == AW__LINK_CONNECTING)
        return false;
    if (!upload(b, c, &progress) || !response_receive(b, c, &progress))
        return true;
    struct aw__link *link = c->link;
    const uint32_t ready = link->end - link->unframed - link->begin;
    if (ready > 0) {
        const ssize_t sent = give(c->handle.fd, link->out + link->begin, ready);
        if (sent < 0) {
            give_up(b, c);
            return false;
        }
        link->begin += (uint32_t)sent;
        link->any_passed = link->any_passed || sent > 0;
        progress = progress || sent > 0;
        if (link->is_stream)
            aw__mux_frame_passed(b, link, (uint32_t)sent);
    }
    if (link->has_head && link->frame.done && link->begin == link->end) {
        request_done(b, c);
        return true;
    }
    return progress;
}

bool aw__visitor_answer(struct aw__balancer *b, struct aw__visitor *c, const char *bytes,
                        uint32_t len, bool last)
{
    struct aw__link *link = c->link;
    if (link->ended || len > AW_MUX_FRAME_WINDOW - (link->end - link->begin) - link->owed)
        return false;
    if (len > AW__BUFFER - link->end) {
        memmove(link->out, link->out + link->begin, link->end - link->begin);
        link->end -= link->begin;
        link->begin = 0;
    }
    if (len)
        memcpy(link->out + link->end, bytes, len);
    link->end += len;
    link->unframed += len;
    link->ended = last;
    aw__bump(&b->books.bytes, len);
    const bool sound = response_frame(link, c->head.is_head);
    if (sound && last && link->has_head && link->frame.body == AW_HTTP1_UNTIL_CLOSE)
        link->frame.done = true;
    if (!sound || (last && !(link->has_head && link->frame.done)))
        link_failed(b, c);
    aw__visitor_pump(b, c);
    return true;
}

/* --- answers of our own ----------------------------------------------------------------------- */

static bool saying(struct aw__balancer *b, struct aw__visitor *c)
{
    const ssize_t sent = give(c->handle.fd, c->say, c->say_left);
    if (sent < 0) {
        client_close(b, c);
        return false;
    }
    c->say += sent;
    c->say_left -= (uint32_t)sent;
    if (c->say_left > 0)
        return false;
    shutdown(c->handle.fd, SHUT_WR);
    state_set(b, c, AW__VISITOR_ENDING);
    return true;
}

/* Closing a socket with unread bytes resets it, and the client may lose what it was told. */
static bool ending(struct aw__balancer *b, struct aw__visitor *c)
{
    c->begin = c->end = 0;
    switch (client_receive(c)) {
    case GOT_BYTES:
        return true;
    case GOT_NOTHING:
        return false;
    case GOT_END:
        break;
    }
    client_close(b, c);
    return false;
}

void aw__visitor_pump(struct aw__balancer *b, struct aw__visitor *c)
{
    for (bool more = true; more;) {
        if (c->state != AW__VISITOR_FREE && c->handle.broken) {
            give_up(b, c);
            return;
        }
        switch ((enum aw__visitor_state)c->state) {
        case AW__VISITOR_READING:
            more = reading(b, c);
            break;
        case AW__VISITOR_LINKED:
            more = linked(b, c);
            break;
        case AW__VISITOR_SAYING:
            more = saying(b, c);
            break;
        case AW__VISITOR_ENDING:
            more = ending(b, c);
            break;
        case AW__VISITOR_WAITING:
        case AW__VISITOR_FREE:
            more = false;
            break;
        }
    }
}

/* --- time limits ------------------------------------------------------------------------------ */

static void request_late(struct aw__balancer *b, struct aw__visitor *c)
{
    const bool passed = c->link && c->link->any_passed;
    request_fail(b, c, &b->books.timed_out);
    link_leave(b, c, false);
    if (passed)
        client_close(b, c);
    else
        say(b, c, say_late);
}

/* Whether nothing more comes on a link that has ended, or whose replica was given up. Of an answer
 * that was begun the rest may be in the buffers of a kernel that sends it only as the client takes
 * what came before, so that the wait begins anew with every byte. */
static bool link_over(const struct aw__balancer *b, const struct aw__link *link)
{
    const int64_t now_us = b->now_us;
    if (link->handle.readable || link->end - link->unframed > link->begin)
        return false; /* there is more, or the client has still to take what there was */
    if (link->ended_us)
        return now_us - link->ended_us > RESET_US;
    if (!link->left_us)
        return false;
    return now_us - link->left_us > RESET_US &&
           (!link->heard_us || now_us - link->heard_us > REST_US);
}

void aw__visitor_tick(struct aw__balancer *b, struct aw__visitor *c)
{
    const int64_t age_us = b->now_us - c->since_us;
    switch ((enum aw__visitor_state)c->state) {
    case AW__VISITOR_READING:
        if (c->begin == c->end ? b->shut || age_us > KEEP_IDLE * b->config.idle_us
                               : age_us > b->config.request_timeout_us) {
            client_close(b, c);
            return;
        }
        break;
    case AW__VISITOR_WAITING:
        link_find(b, c);
        if (c->state == AW__VISITOR_WAITING && age_us > b->config.wait_us) {
            request_fail(b, c, &b->books.refused);
            say(b, c, say_nobody);
        }
        break;
    case AW__VISITOR_LINKED:
        if (b->now_us - c->begun_us > b->config.request_timeout_us)
            request_late(b, c);
        else if (link_over(b, c->link))
            link_failed(b, c);
        break;
    case AW__VISITOR_SAYING:
    case AW__VISITOR_ENDING:
        if (age_us > ENDING_US) {
            client_close(b, c);
            return;
        }
        break;
    case AW__VISITOR_FREE:
        return;
    }
    aw__visitor_pump(b, c);
}
