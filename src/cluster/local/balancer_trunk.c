/*
 * balancer_trunk.c - trunks: many requests on one connection to a replica (base/mux_frame.h).
 *
 * A replica that was found healthy on its Unix socket is asked for a trunk there, once. While it
 * has one, every request that is here as a whole is a stream: a link without a descriptor. What is
 * said to a replica in a batch of events goes out when the batch ends, in one call.
 *
 * The front of `out` is for requests, and for telling that more of an answer may come, which waits
 * if it must. Behind it is room for what is said whatever happens: of each link, that it is given
 * up.
 */
#include "cluster/local/balancer_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_BYTES      (4 * AW_MUX_FRAME_PAYLOAD_MAX)
#define REQUEST_BYTES (4 * AW_MUX_FRAME_PAYLOAD_MAX) /* of `out` */
#define READS_MAX     16                             /* at a time: there are others */
#define LAST_READS    16                             /* so many times: a socket holds far less */

size_t aw__mux_frame_bytes(uint32_t links)
{
    return IN_BYTES + REQUEST_BYTES + (size_t)links * AW_MUX_FRAME_HEAD_BYTES;
}

void aw__mux_frame_init(struct aw__mux_frame *trunk, uint32_t slot, uint32_t links, char *buffer)
{
    *trunk = (struct aw__mux_frame){.handle = {.kind = AW__HANDLE_TRUNK, .fd = -1},
                                    .slot = slot,
                                    .in = buffer,
                                    .out = buffer + IN_BYTES,
                                    .out_bytes = (uint32_t)(aw__mux_frame_bytes(links) - IN_BYTES)};
}

static void state_set(struct aw__balancer *b, struct aw__mux_frame *trunk,
                      enum aw__mux_frame_state state)
{
    trunk->state = state;
    atomic_store(&b->order[trunk->slot].has_trunk, state == AW__MUX_FRAME_ON);
}

static void fd_close(struct aw__mux_frame *trunk)
{
    if (trunk->handle.fd >= 0)
        close(trunk->handle.fd);
    trunk->handle.fd = -1;
}

/* There is none, and none is asked for before the next order. */
static void decline(struct aw__balancer *b, struct aw__mux_frame *trunk)
{
    fd_close(trunk);
    state_set(b, trunk, AW__MUX_FRAME_DECLINED);
}

void aw__mux_frame_ask_for(struct aw__balancer *b, uint32_t slot)
{
    struct aw__mux_frame *trunk = &b->backend[slot].trunk;
    if (trunk->state != AW__MUX_FRAME_NONE || !b->upgrade_len)
        return;
    trunk->leaving = trunk->owes = trunk->handle.readable = trunk->handle.hung_up =
        trunk->handle.broken = false;
    trunk->in_from = trunk->in_to = trunk->out_from = trunk->out_to = 0;
    trunk->put = trunk->gone = 0;
    trunk->deadline_us = b->now_us + b->config.health_timeout_us;
    if (!aw__backend_connect_unix(b, slot, &trunk->handle))
        return; /* the next health check asks again */
    state_set(b, trunk, AW__MUX_FRAME_ASKING);
    if (send(trunk->handle.fd, b->upgrade_text, b->upgrade_len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)b->upgrade_len)
        decline(b, trunk);
}

/* Something is to be sent on it at the end of the batch. */
static void trunk_mark(struct aw__balancer *b, struct aw__mux_frame *trunk)
{
    if (trunk->marked)
        return;
    trunk->marked = true;
    trunk->next_marked = b->trunk_marked;
    b->trunk_marked = trunk;
}

void aw__mux_frame_tick(struct aw__balancer *b, uint32_t slot)
{
    struct aw__mux_frame *trunk = &b->backend[slot].trunk;
    if (trunk->state == AW__MUX_FRAME_ASKING && b->now_us >= trunk->deadline_us)
        decline(b, trunk);
    if (trunk->state == AW__MUX_FRAME_ON && trunk->out_from < trunk->out_to)
        trunk_mark(b, trunk); /* there may be bytes for it again */
    if (trunk->state == AW__MUX_FRAME_ON && trunk->handle.readable)
        aw__mux_frame_event(b, trunk);
}

/* What is in flight on it fails, unless its answer is here; what had not gone out is tried
 * elsewhere. */
static void trunk_close(struct aw__balancer *b, uint32_t slot)
{
    struct aw__backend *backend = &b->backend[slot];
    struct aw__mux_frame *trunk = &backend->trunk;
    fd_close(trunk);
    state_set(b, trunk, AW__MUX_FRAME_NONE);
    for (struct aw__link *link = backend->links, *next; link; link = next) {
        next = link->next;
        if (!link->is_stream)
            continue;
        if (link->has_head && link->frame.done) { /* all of its answer is here */
            link->ended = true;
            continue;
        }
        link->any_sent = link->any_sent && link->at < trunk->gone;
        aw__visitor_link_failed(b, link->client);
        next = backend->links; /* it may have taken or closed any of them */
    }
}

/* --- out -------------------------------------------------------------------------------------- */

static uint32_t waiting(const struct aw__mux_frame *trunk)
{
    return trunk->out_to - trunk->out_from;
}

static void put(struct aw__balancer *b, struct aw__mux_frame *trunk,
                const struct aw_mux_frame_frame *frame, const char *payload)
{
    const uint32_t len = payload ? frame->len : 0;
    if (trunk->out_to + AW_MUX_FRAME_HEAD_BYTES + len > trunk->out_bytes) {
        memmove(trunk->out, trunk->out + trunk->out_from, waiting(trunk));
        trunk->out_to -= trunk->out_from;
        trunk->out_from = 0;
    }
    AW_ASSERT(trunk->out_to + AW_MUX_FRAME_HEAD_BYTES + len <= trunk->out_bytes);
    aw_mux_frame_put(trunk->out + trunk->out_to, frame);
    if (len)
        memcpy(trunk->out + trunk->out_to + AW_MUX_FRAME_HEAD_BYTES, payload, len);
    trunk->out_to += AW_MUX_FRAME_HEAD_BYTES + len;
    trunk->put += AW_MUX_FRAME_HEAD_BYTES + len;
    trunk_mark(b, trunk);
}

bool aw__mux_frame_takes(const struct aw__balancer *b, uint32_t slot, const struct aw__visitor *c)
{
    const struct aw__backend *backend = &b->backend[slot];
    const struct aw__mux_frame *trunk = &backend->trunk;
    return trunk->state == AW__MUX_FRAME_ON && !trunk->leaving && backend->is_unix &&
           c->frame.done && c->own <= AW_MUX_FRAME_PAYLOAD_MAX &&
           waiting(trunk) + AW_MUX_FRAME_HEAD_BYTES + c->own <= REQUEST_BYTES;
}

static uint32_t name_of(const struct aw__balancer *b, const struct aw__link *link)
{
    return (uint32_t)link->generation << 16 | (uint32_t)(link - b->link_block);
}

void aw__mux_frame_begin(struct aw__link *link)
{
    link->is_stream = true;
    link->ended = false;
    link->asked = link->owed = 0;
    link->generation++;
}

void aw__mux_frame_ask(struct aw__balancer *b, struct aw__link *link, const char *bytes,
                       uint32_t len)
{
    struct aw__mux_frame *trunk = &b->backend[link->slot].trunk;
    link->at = trunk->put;
    put(b, trunk,
        &(struct aw_mux_frame_frame){
            .kind = AW_MUX_FRAME_REQUEST, .stream = name_of(b, link), .len = len},
        bytes);
}

/* Tells the replica what it is owed, or leaves it for later where there is no room. */
static void credit(struct aw__balancer *b, struct aw__mux_frame *trunk, struct aw__link *link)
{
    if (link->ended || link->owed < AW_MUX_FRAME_WINDOW / 2 || trunk->state != AW__MUX_FRAME_ON)
        return;
    if (waiting(trunk) + AW_MUX_FRAME_HEAD_BYTES > REQUEST_BYTES) {
        trunk->owes = true;
        return;
    }
    put(b, trunk,
        &(struct aw_mux_frame_frame){
            .kind = AW_MUX_FRAME_CREDIT, .stream = name_of(b, link), .len = link->owed},
        NULL);
    link->owed = 0;
}

void aw__mux_frame_passed(struct aw__balancer *b, struct aw__link *link, uint32_t bytes)
{
    link->owed += bytes;
    credit(b, &b->backend[link->slot].trunk, link);
}

/* There is room again for what was left for later. */
static void credit_all(struct aw__balancer *b, struct aw__mux_frame *trunk)
{
    trunk->owes = false;
    for (struct aw__link *link = b->backend[trunk->slot].links; link; link = link->next)
        if (link->is_stream)
            credit(b, trunk, link);
}

void aw__mux_frame_leave(struct aw__balancer *b, struct aw__link *link)
{
    struct aw__mux_frame *trunk = &b->backend[link->slot].trunk;
    link->is_stream = false;
    if (trunk->state != AW__MUX_FRAME_ON)
        return;
    if (!link->ended && link->any_sent)
        put(b, trunk,
            &(struct aw_mux_frame_frame){.kind = AW_MUX_FRAME_CANCEL, .stream = name_of(b, link)},
            NULL);
    else if (trunk->leaving)
        trunk_mark(b, trunk); /* perhaps this was the last */
}

/* False: it is broken. */
static bool send_out(struct aw__balancer *b, struct aw__mux_frame *trunk)
{
    while (waiting(trunk) > 0) {
        const uint32_t may =
            aw__meter_allows(b, trunk->slot, AW__METER_IN, trunk->metered, waiting(trunk));
        if (may == 0)
            return true; /* the tick comes back to it */
        const ssize_t n =
            send(trunk->handle.fd, trunk->out + trunk->out_from, may, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            aw__meter_take(b, trunk->slot, AW__METER_IN, trunk->metered, (uint32_t)n);
            trunk->out_from += (uint32_t)n;
            trunk->gone += (uint64_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return aw__balancer_watch_writable(b, &trunk->handle, true);
        } else if (errno != EINTR) {
            return false;
        }
    }
    trunk->out_from = trunk->out_to = 0;
    return aw__balancer_watch_writable(b, &trunk->handle, false);
}

/* Whether anything is still to come on it. */
static bool has_streams(const struct aw__backend *backend)
{
    const struct aw__link *link = backend->links;
    while (link && (!link->is_stream || link->ended))
        link = link->next;
    return link;
}

/* --- in --------------------------------------------------------------------------------------- */

/* The link of a stream; NULL: it was given up. */
static struct aw__link *find(struct aw__balancer *b, const struct aw__mux_frame *trunk,
                             uint32_t stream)
{
    const uint32_t index = stream % AW_MUX_FRAME_STREAMS_MAX;
    struct aw__link *link = index < b->links ? &b->link_block[index] : NULL;
    return link && link->is_stream && link->slot == trunk->slot &&
                   link->generation == stream >> 16 && link->client
               ? link
               : NULL;
}

/* False: this is not what a replica says. */
static bool frame_take(struct aw__balancer *b, struct aw__mux_frame *trunk,
                       const struct aw_mux_frame_frame *frame)
{
    struct aw__link *link = find(b, trunk, frame->stream);
    switch (frame->kind) {
    case AW_MUX_FRAME_ANSWER:
        return !link ||
               aw__visitor_answer(b, link->client, frame->payload, frame->len, frame->last);
    case AW_MUX_FRAME_REFUSED:
        if (!link)
            return true;
        if (link->any_passed || link->end > 0)
            return false; /* it has answered, or begun to */
        aw__backend_avoid(b, trunk->slot);
        link->any_sent = false;
        aw__visitor_link_failed(b, link->client);
        return true;
    case AW_MUX_FRAME_FAREWELL:
        trunk->leaving = true;
        trunk_mark(b, trunk);
        return true;
    case AW_MUX_FRAME_REQUEST:
    case AW_MUX_FRAME_CREDIT:
    case AW_MUX_FRAME_CANCEL:
    case AW_MUX_FRAME_KIND_END:
        break;
    }
    return false;
}

/* The answer to the request for a trunk. False: no. */
static bool welcome_take(struct aw__balancer *b, struct aw__mux_frame *trunk)
{
    static const char yes[] = "HTTP/1.1 101";
    const uint32_t have = trunk->in_to < sizeof yes - 1 ? trunk->in_to : sizeof yes - 1;
    if (memcmp(trunk->in, yes, have) != 0)
        return false;
    const char *end = memmem(trunk->in, trunk->in_to, "\r\n\r\n", 4);
    if (end) {
        trunk->in_from = (uint32_t)(end + 4 - trunk->in);
        state_set(b, trunk, AW__MUX_FRAME_ON);
    }
    return true;
}

/* `is_last`: whatever it has said is taken now, all the bytes that it has left. False: it is
 * broken. */
static bool read_in(struct aw__balancer *b, struct aw__mux_frame *trunk, bool is_last)
{
    for (int reads = 0; trunk->handle.readable && reads < READS_MAX; reads++) {
        uint32_t room = IN_BYTES - trunk->in_to;
        if (!is_last && trunk->state == AW__MUX_FRAME_ON)
            room = aw__meter_allows(b, trunk->slot, AW__METER_OUT, trunk->metered, room);
        if (room == 0)
            return true;
        const ssize_t n = recv(trunk->handle.fd, trunk->in + trunk->in_to, room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            trunk->handle.readable = false;
        else if (n <= 0)
            return false;
        else if ((uint32_t)n < room)
            trunk->handle.readable = trunk->handle.hung_up;
        trunk->in_to += n > 0 ? (uint32_t)n : 0;
        aw__meter_take(b, trunk->slot, AW__METER_OUT, trunk->metered, n > 0 ? (uint32_t)n : 0);
        if (trunk->state == AW__MUX_FRAME_ASKING && !welcome_take(b, trunk))
            return false;
        struct aw_mux_frame_frame frame;
        enum aw_err err = AW_ERR_NODATA;
        while (trunk->state == AW__MUX_FRAME_ON &&
               !(err = aw_mux_frame_take(trunk->in + trunk->in_from, trunk->in_to - trunk->in_from,
                                         &frame))) {
            trunk->in_from += (uint32_t)frame.bytes;
            if (!frame_take(b, trunk, &frame))
                return false;
        }
        memmove(trunk->in, trunk->in + trunk->in_from, trunk->in_to - trunk->in_from);
        trunk->in_to -= trunk->in_from;
        trunk->in_from = 0;
        if (err == AW_ERR_FORMAT || trunk->in_to == IN_BYTES)
            return false;
    }
    return true;
}

/* Whether there are no bytes for it before the next tick. */
static bool is_without(const struct aw__balancer *b, const struct aw__mux_frame *trunk)
{
    const struct aw__metered *who = &trunk->metered[AW__METER_OUT];
    return who->without && who->round == b->backend[trunk->slot].meter[AW__METER_OUT].round;
}

void aw__mux_frame_event(struct aw__balancer *b, struct aw__mux_frame *trunk)
{
    if (read_in(b, trunk, false)) {
        trunk_mark(b, trunk); /* there may be room for what waits */
        b->trunk_unread = b->trunk_unread || (trunk->handle.readable && !is_without(b, trunk));
    } else if (trunk->state == AW__MUX_FRAME_ASKING) {
        decline(b, trunk);
    } else {
        trunk_close(b, trunk->slot);
    }
}

void aw__mux_frame_give_up(struct aw__balancer *b, uint32_t slot)
{
    struct aw__mux_frame *trunk = &b->backend[slot].trunk;
    trunk->handle.readable = trunk->handle.hung_up = trunk->state == AW__MUX_FRAME_ON;
    for (int i = 0; i < LAST_READS && trunk->handle.readable && read_in(b, trunk, true); i++)
        ;
    trunk_close(b, slot);
}

void aw__trunks_read(struct aw__balancer *b)
{
    b->trunk_unread = false;
    for (uint32_t slot = 0; slot < b->config.slots; slot++) {
        struct aw__mux_frame *trunk = &b->backend[slot].trunk;
        if (trunk->handle.fd >= 0 && trunk->handle.readable)
            aw__mux_frame_event(b, trunk);
    }
}

/* --- the end of a batch ----------------------------------------------------------------------- */

void aw__trunks_send(struct aw__balancer *b)
{
    for (struct aw__mux_frame *trunk; (trunk = b->trunk_marked);) {
        b->trunk_marked = trunk->next_marked;
        trunk->marked = false;
        if (trunk->state != AW__MUX_FRAME_ON)
            continue;
        if (!send_out(b, trunk)) {
            trunk->leaving = true;
            trunk->handle.readable = true; /* what it said before it ended counts */
            (void)read_in(b, trunk, true);
            trunk_close(b, trunk->slot);
        } else if (trunk->leaving && !has_streams(&b->backend[trunk->slot])) {
            decline(b, trunk);
        } else if (trunk->owes && waiting(trunk) == 0) {
            credit_all(b, trunk); /* which marks it again */
        }
    }
}
