/* balancer_backend.c - replicas: which is best, connections to them, whether they are well. */
#include "cluster/local/balancer_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* After a connection that failed others are asked first. */
#define AVOID_US 50000
/* While it starts a replica is asked often: its first request waits for the answer. */
#define STARTING_PERIOD_US 20000

/* Made at once or not at all: where the queue of the socket is full, which is EAGAIN, as where
 * nobody listens. */
static int connect_unix(const char *path)
{
    struct sockaddr_un address;
    if (aw_net_unix(path, &address, NULL))
        return -1;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_tcp(uint16_t port, bool *ret_pending)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int yes = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    *ret_pending = errno == EINPROGRESS;
    if (*ret_pending)
        return fd;
    close(fd);
    return -1;
}

/* Opens and watches a handle. False: nobody can be reached there. */
static bool handle_connect(struct aw__balancer *b, uint32_t slot, bool is_unix,
                           struct aw__handle *handle, bool *ret_pending)
{
    const struct aw__backend *backend = &b->backend[slot];
    *ret_pending = false;
    handle->is_unix = is_unix;
    handle->fd = is_unix ? connect_unix(backend->path) : connect_tcp(backend->port, ret_pending);
    if (handle->fd >= 0 && aw__balancer_watch(b, handle))
        return true;
    if (handle->fd >= 0)
        close(handle->fd);
    handle->fd = -1;
    return false;
}

bool aw__backend_connect_unix(struct aw__balancer *b, uint32_t slot, struct aw__handle *handle)
{
    bool pending;
    return handle_connect(b, slot, true, handle, &pending);
}

void aw__backend_count(struct aw__balancer *b, uint32_t slot, int by)
{
    struct aw__backend *backend = &b->backend[slot];
    backend->in_flight += (uint32_t)by;
    atomic_store(&b->order[slot].in_flight, backend->in_flight);
}

static void ready_set(struct aw__balancer *b, uint32_t slot, bool ready)
{
    b->backend[slot].ready = ready;
    atomic_store(&b->order[slot].ready, ready);
}

/* --- links ------------------------------------------------------------------------------------ */

static void chain_out(struct aw__backend *backend, struct aw__link *link)
{
    if (link->prev)
        link->prev->next = link->next;
    else
        backend->links = link->next;
    if (link->next)
        link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

static void chain_in_front(struct aw__backend *backend, struct aw__link *link)
{
    link->prev = NULL;
    link->next = backend->links;
    if (backend->links)
        backend->links->prev = link;
    backend->links = link;
}

/* Behind the idle ones, which stay in front. */
static void chain_in_behind(struct aw__backend *backend, struct aw__link *link)
{
    struct aw__link *before = NULL;
    for (struct aw__link *at = backend->links; at && at->state == AW__LINK_IDLE; at = at->next)
        before = at;
    if (!before) {
        chain_in_front(backend, link);
        return;
    }
    link->prev = before;
    link->next = before->next;
    if (before->next)
        before->next->prev = link;
    before->next = link;
}

void aw__link_close(struct aw__balancer *b, struct aw__link *link)
{
    chain_out(&b->backend[link->slot], link);
    if (link->is_stream)
        aw__mux_frame_leave(b, link);
    else
        close(link->handle.fd);
    link->handle.fd = -1;
    link->client = NULL;
    link->next = b->link_released;
    b->link_released = link;
    b->link_count--;
}

void aw__link_keep(struct aw__balancer *b, struct aw__link *link)
{
    struct aw__backend *backend = &b->backend[link->slot];
    link->client = NULL;
    /* a stream is for one request; nor is one kept of which the end was announced with the answer,
     * nor one over TCP where the replica has been found on its Unix socket since */
    if (link->is_stream || link->left_us || backend->mode != AW__BACKEND_ON ||
        link->handle.hung_up || link->handle.is_unix != backend->is_unix ||
        !aw__balancer_watch_writable(b, &link->handle, false)) {
        aw__link_close(b, link);
        return;
    }
    link->state = AW__LINK_IDLE;
    link->since_us = b->now_us;
    chain_out(backend, link);
    chain_in_front(backend, link);
}

/* Whether the replica has neither closed it nor spoken out of turn. An event may still be on its
 * way: this looks at the socket itself, so that no request is given to a replica that has ended
 * which could not be given to another one after that. */
static bool still_open(const struct aw__link *link)
{
    char byte;
    return recv(link->handle.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

static void link_begin(struct aw__link *link, struct aw__visitor *c)
{
    link->client = c;
    link->any_sent = link->any_passed = link->has_head = link->surplus = false;
    link->begin = link->end = link->unframed = 0;
    link->ended_us = link->left_us = link->heard_us = 0;
    c->link = link;
}

/* The oldest idle one of whoever has any: links are fewer than anybody could keep. */
static void make_room(struct aw__balancer *b)
{
    for (uint32_t slot = 0; slot < b->config.slots; slot++) {
        struct aw__link *link = b->backend[slot].links;
        if (link && link->state == AW__LINK_IDLE) {
            aw__link_close(b, link);
            return;
        }
    }
}

void aw__backend_avoid(struct aw__balancer *b, uint32_t slot)
{
    b->backend[slot].avoid_until_us = b->now_us + AVOID_US;
}

static void connect_failed(struct aw__balancer *b, uint32_t slot)
{
    aw__backend_avoid(b, slot);
    aw__bump(&b->order[slot].connect_failures, 1);
}

/* The ready replica with the fewest in flight; among equals the next in turn. */
static uint32_t choose(struct aw__balancer *b)
{
    uint32_t best = UINT32_MAX, fewest = UINT32_MAX;
    for (uint32_t i = 0; i < b->config.slots; i++) {
        uint32_t slot = b->turn + i;
        slot -= slot >= b->config.slots ? b->config.slots : 0;
        const struct aw__backend *backend = &b->backend[slot];
        if (backend->mode != AW__BACKEND_ON || !backend->ready ||
            backend->avoid_until_us > b->now_us || backend->in_flight >= fewest)
            continue;
        fewest = backend->in_flight;
        best = slot;
        if (fewest == 0)
            break;
    }
    if (best != UINT32_MAX)
        b->turn = best + 1 < b->config.slots ? best + 1 : 0;
    return best;
}

/* A link that is free; NULL: what was just closed is free after this batch. */
static struct aw__link *link_free(struct aw__balancer *b)
{
    if (!b->link_free)
        make_room(b);
    b->link_due = b->link_due || !b->link_free;
    if (b->link_free)
        b->link_free->handle = (struct aw__handle){.kind = AW__HANDLE_LINK, .fd = -1};
    return b->link_free;
}

/* It has been found free, and is taken. */
static void link_take(struct aw__balancer *b, struct aw__link *link, uint32_t slot,
                      struct aw__visitor *c, enum aw__link_state state)
{
    b->link_free = link->next;
    b->link_count++;
    link->slot = slot;
    link->state = state;
    link->reused = false;
    link->since_us = b->now_us;
    chain_in_behind(&b->backend[slot], link);
    link_begin(link, c);
}

enum aw__link_result aw__link_get(struct aw__balancer *b, struct aw__visitor *c)
{
    for (uint32_t slot; (slot = choose(b)) != UINT32_MAX;) {
        struct aw__backend *backend = &b->backend[slot];
        struct aw__link *link;
        if (aw__mux_frame_takes(b, slot, c)) {
            if (!(link = link_free(b)))
                return AW__LINK_NOBODY;
            link_take(b, link, slot, c, AW__LINK_BUSY);
            aw__mux_frame_begin(link);
            return AW__LINK_READY;
        }
        while ((link = backend->links) && link->state == AW__LINK_IDLE) {
            if (c->size > 0 || still_open(link)) {
                link->handle.readable = false;
                link->reused = true;
                link->state = AW__LINK_BUSY;
                chain_out(backend, link);
                chain_in_behind(backend, link);
                link_begin(link, c);
                return AW__LINK_READY;
            }
            aw__link_close(b, link);
        }
        if (!(link = link_free(b)))
            return AW__LINK_NOBODY;
        bool pending = false;
        if (!handle_connect(b, slot, backend->is_unix, &link->handle, &pending)) {
            connect_failed(b, slot);
            aw__bump(&b->books.retries, 1);
            continue;
        }
        link_take(b, link, slot, c, pending ? AW__LINK_CONNECTING : AW__LINK_BUSY);
        return pending ? AW__LINK_WAIT : AW__LINK_READY;
    }
    return AW__LINK_NOBODY;
}

void aw__link_connected(struct aw__balancer *b, struct aw__link *link)
{
    int why = 0;
    socklen_t len = sizeof why;
    struct aw__visitor *c = link->client;
    if (getsockopt(link->handle.fd, SOL_SOCKET, SO_ERROR, &why, &len) || why) {
        connect_failed(b, link->slot);
        aw__visitor_link_failed(b, c);
        return;
    }
    link->state = AW__LINK_BUSY;
    aw__visitor_pump(b, c);
}

/* --- orders ----------------------------------------------------------------------------------- */

static void probe_close(struct aw__probe *probe)
{
    if (probe->handle.fd >= 0)
        close(probe->handle.fd);
    probe->handle.fd = -1;
    probe->got = 0;
}

static void links_close_idle(struct aw__balancer *b, uint32_t slot)
{
    struct aw__backend *backend = &b->backend[slot];
    while (backend->links && backend->links->state == AW__LINK_IDLE)
        aw__link_close(b, backend->links);
}

/* The replica is left at once, as a rule because it has ended. What it said before lies in sockets
 * that nobody may have looked at yet: it is passed on, as fast as clients take it. A link of which
 * nothing more comes fails (aw__visitor_tick). */
static void links_give_up(struct aw__balancer *b, uint32_t slot)
{
    links_close_idle(b, slot);
    /* none of them is kept and nothing is asked here again: only its own client closes a link */
    for (struct aw__link *link = b->backend[slot].links, *next; link; link = next) {
        next = link->next;
        if (link->left_us)
            continue;          /* of an earlier life */
        if (!link->any_sent) { /* the connection is not made, or there were no bytes for it yet */
            aw__visitor_link_failed(b, link->client);
            continue;
        }
        aw__backend_count(b, slot, -1);
        link->left_us = b->now_us;
        link->handle.readable = true;
        aw__visitor_pump(b, link->client);
    }
}

static void order_follow(struct aw__balancer *b, uint32_t slot, uint32_t mode, uint16_t port,
                         const char *path)
{
    struct aw__backend *backend = &b->backend[slot];
    backend->mode = mode;
    if (mode == AW__BACKEND_DRAIN) {
        ready_set(b, slot, false);
        links_close_idle(b, slot);
        probe_close(&backend->probe);
        return;
    }
    ready_set(b, slot, false);
    backend->mode = AW__BACKEND_OFF; /* what fails now is not sent here again */
    aw__mux_frame_give_up(b, slot);
    links_give_up(b, slot);
    probe_close(&backend->probe);
    backend->mode = mode;
    backend->port = port;
    snprintf(backend->path, sizeof backend->path, "%s", path);
    backend->avoid_until_us = 0;
    aw__meter_reset(b, slot);
    backend->probe.failures = 0;
    backend->probe.next_us = b->now_us;
}

void aw__backend_orders(struct aw__balancer *b)
{
    b->orders_seen = b->orders;
    for (uint32_t slot = 0; slot < b->config.slots; slot++) {
        struct aw__order *order = &b->order[slot];
        pthread_mutex_lock(&b->lock);
        const uint32_t mode = order->mode;
        const uint16_t port = order->port;
        const uint64_t number = order->number;
        char path[AW_NET_UNIX_PATH_MAX];
        snprintf(path, sizeof path, "%s", order->path);
        pthread_mutex_unlock(&b->lock);
        if (number == b->backend[slot].order)
            continue;
        order_follow(b, slot, mode, port, path);
        b->backend[slot].order = number;
        atomic_store(&order->seen, number);
    }
}

/* --- health ----------------------------------------------------------------------------------- */

static void probe_done(struct aw__balancer *b, struct aw__probe *probe, bool healthy)
{
    struct aw__backend *backend = &b->backend[probe->slot];
    probe_close(probe);
    probe->failures = healthy ? 0 : probe->failures + 1;
    if (healthy && !backend->ready) {
        backend->avoid_until_us = 0;
        b->waiting_due = true;
    }
    if (healthy) {
        backend->is_unix = probe->handle.is_unix;
        atomic_store(&b->order[probe->slot].is_unix, backend->is_unix);
        ready_set(b, probe->slot, true);
        if (backend->is_unix)
            aw__mux_frame_ask_for(b, probe->slot);
    }
    if (probe->failures >= b->config.health_failures)
        ready_set(b, probe->slot, false);
    int64_t period = b->config.health_period_us;
    if (!backend->ready && period > STARTING_PERIOD_US)
        period = STARTING_PERIOD_US;
    probe->next_us = b->now_us + period;
}

static void probe_begin(struct aw__balancer *b, struct aw__probe *probe)
{
    bool pending = false;
    probe->got = 0;
    probe->asked = false;
    probe->deadline_us = b->now_us + b->config.health_timeout_us;
    /* its Unix socket first, where it has been offered one; without one there, its port */
    const bool offered = b->backend[probe->slot].path[0];
    if (!(offered && handle_connect(b, probe->slot, true, &probe->handle, &pending)) &&
        !handle_connect(b, probe->slot, false, &probe->handle, &pending))
        probe_done(b, probe, false);
    /* the question goes out when the socket is found writable */
}

void aw__probe_event(struct aw__balancer *b, struct aw__probe *probe, uint32_t events)
{
    int why = 0;
    socklen_t len = sizeof why;
    if (getsockopt(probe->handle.fd, SOL_SOCKET, SO_ERROR, &why, &len) || why) {
        probe_done(b, probe, false);
        return;
    }
    if (!b->config.health_path[0]) {
        probe_done(b, probe, true);
        return;
    }
    if ((events & EPOLLOUT) && !probe->asked) {
        const ssize_t sent =
            send(probe->handle.fd, b->probe_text, b->probe_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent != (ssize_t)b->probe_len) {
            probe_done(b, probe, false);
            return;
        }
        probe->asked = true;
    }
    while (probe->got < sizeof probe->answer) {
        const ssize_t got = recv(probe->handle.fd, probe->answer + probe->got,
                                 sizeof probe->answer - probe->got, MSG_DONTWAIT);
        if (got > 0) {
            probe->got += (uint32_t)got;
            continue;
        }
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        probe_done(b, probe, false);
        return;
    }
    probe_done(b, probe,
               memcmp(probe->answer, "HTTP/1.", 7) == 0 &&
                   (probe->answer[9] == '2' || probe->answer[9] == '3'));
}

void aw__backend_tick(struct aw__balancer *b, uint32_t slot)
{
    struct aw__backend *backend = &b->backend[slot];
    struct aw__probe *probe = &backend->probe;
    aw__meter_fill(b, slot);
    for (struct aw__link *link = backend->links, *next; link; link = next) {
        next = link->next;
        const int64_t age_us = b->now_us - link->since_us;
        if (link->state == AW__LINK_IDLE && age_us > b->config.idle_us) {
            aw__link_close(b, link);
        } else if (link->state == AW__LINK_CONNECTING && age_us > b->config.connect_timeout_us) {
            connect_failed(b, slot);
            aw__visitor_link_failed(b, link->client);
            next = backend->links; /* it may have taken or closed any of them */
        }
    }
    aw__mux_frame_tick(b, slot);
    if (backend->mode != AW__BACKEND_ON)
        return;
    if (probe->handle.fd < 0 && b->now_us >= probe->next_us)
        probe_begin(b, probe);
    else if (probe->handle.fd >= 0 && b->now_us >= probe->deadline_us)
        probe_done(b, probe, false);
}
