/* balancer.c - the thread: events, timers, orders from other threads. */
#include "cluster/local/balancer.h"

#include "base/clock.h"
#include "base/threads.h"
#include "cluster/local/balancer_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH   256
#define TICK_US 20000
#define BACKLOG 4096

/* --- events ----------------------------------------------------------------------------------- */

static bool watch(struct aw__balancer *b, struct aw__handle *handle, int how, bool writable)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLRDHUP | EPOLLET | (writable ? EPOLLOUT : 0), .data.ptr = handle};
    handle->tells_writable = writable;
    return epoll_ctl(b->epoll, how, handle->fd, &event) == 0;
}

/* Edge-triggered, one call per connection and none per request. For both directions over TCP, where
 * the second is only told to who ran out of room. A Unix socket tells it whenever the peer has read
 * anything (unix_write_space of the kernel): every request would wake this thread once more. */
bool aw__balancer_watch(struct aw__balancer *b, struct aw__handle *handle)
{
    const bool writable = !handle->is_unix || handle->kind == AW__HANDLE_PROBE;
    return watch(b, handle, EPOLL_CTL_ADD, writable);
}

bool aw__balancer_watch_writable(struct aw__balancer *b, struct aw__handle *handle, bool tell)
{
    if (!handle->is_unix || handle->tells_writable == tell)
        return true;
    return watch(b, handle, EPOLL_CTL_MOD, tell);
}

static void note(struct aw__handle *handle, uint32_t events)
{
    /* A Unix socket hangs up at the orderly end as well; only a reset is an error to it. */
    const uint32_t broken = handle->is_unix ? EPOLLERR : EPOLLHUP | EPOLLERR;
    handle->hung_up = handle->hung_up || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    handle->broken = handle->broken || (events & broken);
    handle->readable = handle->readable || (events & EPOLLIN) || handle->hung_up;
}

static void link_event(struct aw__balancer *b, struct aw__link *link, uint32_t events)
{
    note(&link->handle, events);
    switch ((enum aw__link_state)link->state) {
    case AW__LINK_CONNECTING:
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            aw__link_connected(b, link);
        break;
    case AW__LINK_BUSY:
        aw__visitor_pump(b, link->client);
        break;
    case AW__LINK_IDLE:
        /* whatever an idle replica says, it is not an answer */
        if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            aw__link_close(b, link);
        break;
    case AW__LINK_FREE:
        break;
    }
}

static void wake_event(struct aw__balancer *b)
{
    uint64_t count;
    const ssize_t got = read(b->wake.fd, &count, sizeof count);
    (void)got; /* what matters is looked at in any case */
}

/* Links first: an idle one that has just been closed must not be given a request. */
static void batch(struct aw__balancer *b, struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        struct aw__handle *handle = events[i].data.ptr;
        if (handle->fd < 0)
            continue;
        if (handle->kind == AW__HANDLE_LINK) {
            link_event(b, (struct aw__link *)handle, events[i].events);
        } else if (handle->kind == AW__HANDLE_TRUNK) {
            note(handle, events[i].events);
            aw__mux_frame_event(b, (struct aw__mux_frame *)handle);
        }
    }
    for (int i = 0; i < count; i++) {
        struct aw__handle *handle = events[i].data.ptr;
        if (handle->fd < 0)
            continue;
        switch ((enum aw__handle_kind)handle->kind) {
        case AW__HANDLE_LISTEN:
            b->accept_due = true;
            break;
        case AW__HANDLE_WAKE:
            wake_event(b);
            break;
        case AW__HANDLE_CLIENT:
            note(handle, events[i].events);
            aw__visitor_pump(b, (struct aw__visitor *)handle);
            break;
        case AW__HANDLE_PROBE:
            aw__probe_event(b, (struct aw__probe *)handle, events[i].events);
            break;
        case AW__HANDLE_LINK:
        case AW__HANDLE_TRUNK:
            break;
        }
    }
    if (b->accept_due)
        aw__visitor_accept(b);
    if (b->waiting_due) {
        b->waiting_due = false;
        for (struct aw__visitor *c = b->clients, *next; c; c = next) {
            next = c->next;
            if (c->state == AW__VISITOR_WAITING)
                aw__visitor_tick(b, c);
        }
    }
}

static void reuse(struct aw__balancer *b)
{
    for (struct aw__visitor *c; (c = b->client_released);) {
        b->client_released = c->next;
        c->next = b->client_free;
        b->client_free = c;
        c->state = AW__VISITOR_FREE;
    }
    if (b->link_due && b->link_released) {
        b->link_due = false;
        b->waiting_due = true;
    }
    for (struct aw__link *link; (link = b->link_released);) {
        b->link_released = link->next;
        link->next = b->link_free;
        b->link_free = link;
        link->state = AW__LINK_FREE;
    }
}

static void tick(struct aw__balancer *b)
{
    for (int way = 0; way < AW__METER_WAYS; way++)
        b->config.network_bytes_per_s[way] = b->network[way];
    for (uint32_t slot = 0; slot < b->config.slots; slot++)
        aw__backend_tick(b, slot);
    for (struct aw__visitor *c = b->clients, *next; c; c = next) {
        next = c->next;
        aw__visitor_tick(b, c);
    }
}

static void shut_listen(struct aw__balancer *b)
{
    if (b->listen.fd < 0)
        return;
    close(b->listen.fd);
    b->listen.fd = -1;
    b->accept_due = false;
}

static void *live(void *ctx)
{
    struct aw__balancer *b = ctx;
    struct epoll_event events[BATCH];
    int64_t tick_us = 0;
    while (!b->stop) {
        const int64_t left_us = tick_us + TICK_US - b->now_us;
        const bool at_once = left_us <= 0 || b->waiting_due || b->trunk_unread;
        const int wait_ms = at_once ? 0 : (int)((left_us + 999) / 1000);
        const int count = epoll_wait(b->epoll, events, BATCH, wait_ms);
        b->now_us = aw_clock_monotonic_us(NULL);
        if (b->orders != b->orders_seen)
            aw__backend_orders(b);
        if (b->shut)
            shut_listen(b);
        if (b->trunk_unread)
            aw__trunks_read(b);
        batch(b, events, count > 0 ? count : 0);
        if (b->now_us - tick_us >= TICK_US) {
            tick_us = b->now_us;
            tick(b);
        }
        aw__trunks_send(b);
        reuse(b);
    }
    return NULL;
}

/* --- made and ended --------------------------------------------------------------------------- */

static enum aw_err listen_open(struct aw__balancer *b, struct aw_diag *diag)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(b->config.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    const int yes = 1;
    b->listen.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->listen.fd < 0)
        return aw_fail(diag, AW_ERR_IO, "no socket: %s", strerror(errno));
    setsockopt(b->listen.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(b->listen.fd, (struct sockaddr *)&address, len) || listen(b->listen.fd, BACKLOG) ||
        getsockname(b->listen.fd, (struct sockaddr *)&address, &len))
        return aw_fail(diag, errno == EADDRINUSE ? AW_ERR_EXISTS : AW_ERR_IO, "127.0.0.1:%u: %s",
                       (unsigned)b->config.port, strerror(errno));
    b->port = ntohs(address.sin_port);
    return AW_OK;
}

/* One connection of a replica for each client, and as many again that idle. */
static uint32_t links_of(const struct aw__balancer_config *config)
{
    _Static_assert(2 * AW__BALANCER_CLIENTS_MAX <= AW_MUX_FRAME_STREAMS_MAX, "each has a name");
    return 2 * config->clients;
}

static enum aw_err make(struct aw__balancer *b, struct aw_diag *diag)
{
    const struct aw__balancer_config *config = &b->config;
    const uint32_t links = links_of(config);
    const size_t trunk_bytes = aw__mux_frame_bytes(links);
    b->order = aw_alloc_new(b->alloc, config->slots, sizeof *b->order);
    b->backend = aw_alloc_new(b->alloc, config->slots, sizeof *b->backend);
    b->client_block = aw_alloc_new(b->alloc, config->clients, sizeof *b->client_block);
    b->link_block = aw_alloc_new(b->alloc, links, sizeof *b->link_block);
    b->buffers = aw_alloc_new(b->alloc, (size_t)config->clients + links, AW__BUFFER);
    b->trunk_buffers = aw_alloc_new(b->alloc, config->slots, trunk_bytes);
    if (!b->order || !b->backend || !b->client_block || !b->link_block || !b->buffers ||
        !b->trunk_buffers)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a balancer");
    for (uint32_t i = config->clients; i-- > 0;) {
        struct aw__visitor *c = &b->client_block[i];
        *c = (struct aw__visitor){.handle = {.kind = AW__HANDLE_CLIENT, .fd = -1},
                                  .next = b->client_free,
                                  .in = b->buffers + (size_t)i * AW__BUFFER};
        b->client_free = c;
    }
    b->links = links;
    for (uint32_t i = links; i-- > 0;) {
        struct aw__link *link = &b->link_block[i];
        *link = (struct aw__link){.handle = {.kind = AW__HANDLE_LINK, .fd = -1},
                                  .next = b->link_free,
                                  .out = b->buffers + ((size_t)config->clients + i) * AW__BUFFER};
        b->link_free = link;
    }
    for (uint32_t i = 0; i < config->slots; i++) {
        b->backend[i].probe.handle = (struct aw__handle){.kind = AW__HANDLE_PROBE, .fd = -1};
        b->backend[i].probe.slot = i;
        aw__mux_frame_init(&b->backend[i].trunk, i, links, b->trunk_buffers + i * trunk_bytes);
    }
    b->probe_len = (uint32_t)snprintf(b->probe_text, sizeof b->probe_text,
                                      "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                                      "User-Agent: aware-health\r\n\r\n",
                                      config->health_path);
    if (config->health_path[0]) /* who is only connected to is not talked to */
        b->upgrade_len = (uint32_t)snprintf(
            b->upgrade_text, sizeof b->upgrade_text,
            "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
            "Upgrade: " AW_MUX_FRAME_UPGRADE "\r\nUser-Agent: aware-health\r\n\r\n",
            config->health_path);
    b->wake =
        (struct aw__handle){.kind = AW__HANDLE_WAKE, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    enum aw_err err = listen_open(b, diag);
    if (!err && (b->wake.fd < 0 || b->epoll < 0 || !aw__balancer_watch(b, &b->listen) ||
                 !aw__balancer_watch(b, &b->wake)))
        err = aw_fail(diag, AW_ERR_IO, "no events: %s", strerror(errno));
    return err;
}

enum aw_err aw__balancer_new(const struct aw__balancer_config *config, const struct aw_alloc *alloc,
                             struct aw__balancer **ret_balancer, struct aw_diag *diag)
{
    if (config->slots == 0 || config->slots > AW__BALANCER_SLOTS_MAX || config->clients == 0 ||
        config->clients > AW__BALANCER_CLIENTS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u replicas and 1 to %u connections",
                       AW__BALANCER_SLOTS_MAX, AW__BALANCER_CLIENTS_MAX);
    struct aw__balancer *b = aw_alloc_new(alloc, 1, sizeof *b);
    if (!b)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a balancer");
    b->config = *config;
    for (int way = 0; way < AW__METER_WAYS; way++)
        b->network[way] = config->network_bytes_per_s[way];
    b->alloc = alloc;
    b->listen = (struct aw__handle){.kind = AW__HANDLE_LISTEN, .fd = -1};
    b->wake.fd = b->epoll = -1;
    pthread_mutex_init(&b->lock, NULL);
    enum aw_err err = make(b, diag);
    if (!err) {
        const int failed = aw_thread_begin(&b->thread, live, b);
        b->thread_made = failed == 0;
        if (failed)
            err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
    }
    if (err) {
        aw__balancer_free(b);
        return err;
    }
    *ret_balancer = b;
    return AW_OK;
}

static void wake(struct aw__balancer *b)
{
    const uint64_t one = 1;
    const ssize_t written = write(b->wake.fd, &one, sizeof one);
    (void)written; /* full: it is awake already */
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void aw__balancer_free(struct aw__balancer *b)
{
    if (!b)
        return;
    if (b->thread_made) {
        b->stop = true;
        wake(b);
        pthread_join(b->thread, NULL);
    }
    for (uint32_t i = 0; b->client_block && i < b->config.clients; i++)
        close_fd(b->client_block[i].handle.fd);
    for (uint32_t i = 0; b->link_block && b->buffers && i < links_of(&b->config); i++)
        close_fd(b->link_block[i].handle.fd);
    for (uint32_t i = 0; b->backend && b->buffers && i < b->config.slots; i++)
        close_fd(b->backend[i].probe.handle.fd);
    for (uint32_t i = 0; b->backend && b->trunk_buffers && i < b->config.slots; i++)
        close_fd(b->backend[i].trunk.handle.fd);
    close_fd(b->listen.fd);
    close_fd(b->wake.fd);
    close_fd(b->epoll);
    pthread_mutex_destroy(&b->lock);
    aw_alloc_free(b->alloc, b->trunk_buffers);
    aw_alloc_free(b->alloc, b->buffers);
    aw_alloc_free(b->alloc, b->link_block);
    aw_alloc_free(b->alloc, b->client_block);
    aw_alloc_free(b->alloc, b->backend);
    aw_alloc_free(b->alloc, b->order);
    aw_alloc_free(b->alloc, b);
}

/* --- for other threads ------------------------------------------------------------------------ */

uint16_t aw__balancer_port(const struct aw__balancer *b)
{
    return b->port;
}

void aw__balancer_set(struct aw__balancer *b, uint32_t slot, enum aw__backend_mode mode,
                      uint16_t port, const char *path)
{
    AW_ASSERT(slot < b->config.slots);
    const bool usable = path && strlen(path) < AW_NET_UNIX_PATH_MAX;
    pthread_mutex_lock(&b->lock);
    struct aw__order *order = &b->order[slot];
    order->mode = mode;
    order->port = port;
    snprintf(order->path, sizeof order->path, "%s", usable ? path : "");
    order->number++;
    pthread_mutex_unlock(&b->lock);
    atomic_fetch_add(&b->orders, 1);
    wake(b);
}

void aw__balancer_network(struct aw__balancer *b, enum aw__meter_way way, int64_t bytes_per_s)
{
    b->network[way] = bytes_per_s;
}

void aw__balancer_view(const struct aw__balancer *b, uint32_t slot, struct aw__backend_view *ret)
{
    AW_ASSERT(slot < b->config.slots);
    const struct aw__order *order = &b->order[slot];
    /* `seen` first: what is read behind it is at least as new */
    const uint64_t number = atomic_load(&order->number);
    const bool seen = atomic_load(&order->seen) == number;
    *ret = (struct aw__backend_view){.seen = seen,
                                     .ready = seen && atomic_load(&order->ready),
                                     .is_unix = atomic_load(&order->is_unix),
                                     .has_trunk = atomic_load(&order->has_trunk),
                                     .in_flight = atomic_load(&order->in_flight),
                                     .connect_failures = atomic_load(&order->connect_failures)};
}

void aw__balancer_counts(const struct aw__balancer *b, struct aw__balancer_counts *ret)
{
    const struct aw__books *books = &b->books;
    *ret = (struct aw__balancer_counts){
        .completions = books->completions,
        .refused = books->refused,
        .lost = books->lost,
        .timed_out = books->timed_out,
        .failed = books->failed,
        .aborted = books->aborted,
        .retries = books->retries,
        .bytes = books->bytes,
        .in_flight = books->in_flight,
        .clients = books->clients,
    };
    ret->arrivals = books->arrivals; /* last: whatever has ended has also arrived */
}

void aw__balancer_latency(const struct aw__balancer *b, struct aw_latency_histogram *ret)
{
    aw_latency_histogram_read(&b->latency, ret);
}

void aw__balancer_shut(struct aw__balancer *b)
{
    b->shut = true;
    wake(b);
}
