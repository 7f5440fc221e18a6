/* proxy.c - opening, the loop, timers, and the two calls that touch bytes. */
#include "proxy/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define EVENTS_MAX 256
#define SWEEP_US   100000
#define ENERGY_US  1000000
#define TOKEN_S    0.02 /* of service until it was measured */

bool aw__proxy_watch(struct aw_proxy *proxy, struct aw__proxy_handle *handle, uint32_t kind,
                     uint32_t index)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                                .data.u64 = (uint64_t)kind << 60 |
                                            (uint64_t)(handle->generation & 0xfffffffu) << 32 |
                                            index};
    if (kind != AW__PROXY_LISTEN && kind != AW__PROXY_WAKE)
        event.events |= EPOLLOUT;
    return epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, handle->fd, &event) == 0;
}

void aw__proxy_unwatch(struct aw__proxy_handle *handle)
{
    if (handle->fd >= 0)
        (void)close(handle->fd); /* leaves epoll with it: nobody else has it */
    handle->fd = -1;
    handle->generation++;
    handle->readable = handle->writable = handle->ended = false;
}

ssize_t aw__proxy_read(struct aw__proxy_handle *handle, char *at, size_t room)
{
    if (!handle->readable || !room)
        return 0;
    ssize_t got;
    do {
        got = recv(handle->fd, at, room, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        handle->readable = false;
        return errno == EAGAIN ? 0 : -1;
    }
    if (got == 0) {
        handle->ended = true;
        handle->readable = false;
    } else if ((size_t)got < room && !handle->ended) {
        handle->readable = false; /* a short read has emptied the socket: epoll(7), question 9 */
    }
    return got;
}

ssize_t aw__proxy_write(struct aw__proxy_handle *handle, struct iovec *parts, int count)
{
    if (!handle->writable)
        return 0;
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t put;
    do {
        put = sendmsg(handle->fd, &message, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0) {
        handle->writable = false;
        return errno == EAGAIN ? 0 : -1;
    }
    return put;
}

/* ---- opening ---- */

static void defaults(struct aw_proxy_config *c)
{
#define OR(member, value) c->member = c->member ? c->member : (value)
    OR(slots, 16);
    OR(connections_max, 10240);
    OR(queue_max, c->connections_max);
    OR(body_bytes_max, (size_t)4 << 20);
    OR(bodies_max, 64);
    OR(arrive_us, 30000000);
    OR(idle_us, 75000000);
    OR(queue_us, 300000000);
    OR(first_us, 600000000);
    OR(stall_us, 60000000);
    OR(connect_us, 2000000);
    OR(health_us, 2000000);
#undef OR
    if (!c->health[0])
        snprintf(c->health, sizeof c->health, "/health");
}

static enum aw_err config_check(const struct aw_proxy_config *c, struct aw_diag *diag)
{
    if (!c->upstream_count || c->upstream_count > AW_PROXY_UPSTREAMS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u upstreams, found %u",
                       AW_PROXY_UPSTREAMS_MAX, c->upstream_count);
    if (c->slots > AW_PROXY_SLOTS_MAX || c->connections_max > AW_PROXY_CONNECTIONS_MAX ||
        c->body_bytes_max > AW_PROXY_BODY_MAX || c->bodies_max > 4096)
        return aw_fail(diag, AW_ERR_LIMIT, "slots, connections or bodies beyond their limits");
    if (!c->door.loopback && !c->door.token[0])
        return aw_fail(diag, AW_ERR_CONFIG,
                       "beyond loopback a token is needed: --token-file; and something that speaks "
                       "TLS in front, or the token can be read on the way");
    return AW_OK;
}

static void pools_make(struct aw_proxy *proxy)
{
    for (uint32_t i = 0; i < proxy->upstream_count; i++) {
        struct aw__proxy_upstream *up = &proxy->upstream[i];
        up->config = proxy->config.upstream[i];
        up->idle = AW__PROXY_NONE;
        up->probe.handle.fd = -1;
        up->healthy = true; /* until somebody has found otherwise */
        aw_net_print(&up->config.address, up->text, sizeof up->text);
        uint32_t p = 0;
        while (p < proxy->pool_count && strcmp(proxy->pool[p].model, up->config.model) != 0)
            p++;
        if (p == proxy->pool_count)
            memcpy(proxy->pool[proxy->pool_count++].model, up->config.model,
                   sizeof up->config.model);
        up->pool = p;
    }
}

static enum aw_err memory_make(struct aw_proxy *proxy, struct aw_diag *diag)
{
    const struct aw_proxy_config *c = &proxy->config;
    proxy->link_count = 2 * c->slots * proxy->upstream_count; /* busy ones, and idle ones */
    proxy->client = aw_alloc_new(proxy->alloc, c->connections_max, sizeof *proxy->client);
    proxy->link = aw_alloc_new(proxy->alloc, proxy->link_count, sizeof *proxy->link);
    proxy->large_free = aw_alloc_new(proxy->alloc, c->bodies_max, sizeof *proxy->large_free);
    if (!proxy->client || !proxy->link || !proxy->large_free)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u connections", c->connections_max);
    /* pages of a mapping are had when they are first used: connections that are idle from the
     * beginning cost none */
    proxy->large_bytes = c->body_bytes_max + AW_HTTP1_HEAD_BYTES_MAX + AW__PROXY_BUFFER;
    const size_t small = ((size_t)c->connections_max + proxy->link_count) * AW__PROXY_BUFFER;
    proxy->map_bytes = small + c->bodies_max * proxy->large_bytes + proxy->large_bytes +
                       AW__PROXY_PAGES * AW__PROXY_PAGE;
    void *map = mmap(NULL, proxy->map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return aw_fail(diag, AW_ERR_NOMEM, "no address space for %zu MiB of buffers",
                       proxy->map_bytes >> 20);
    proxy->map = map;
    char *at = map;
    proxy->client_free = proxy->link_free = AW__PROXY_NONE;
    for (uint32_t i = c->connections_max; i-- > 0; at += AW__PROXY_BUFFER) {
        proxy->client[i].buffer = proxy->client[i].in = at;
        proxy->client[i].handle.fd = -1;
        proxy->client[i].next = proxy->client_free;
        proxy->client_free = i;
    }
    for (uint32_t i = proxy->link_count; i-- > 0; at += AW__PROXY_BUFFER) {
        proxy->link[i].buffer = at;
        proxy->link[i].handle.fd = -1;
        proxy->link[i].next = proxy->link_free;
        proxy->link_free = i;
    }
    proxy->large = at;
    proxy->text = proxy->large + c->bodies_max * proxy->large_bytes;
    proxy->pages = proxy->text + proxy->large_bytes;
    while (proxy->large_free_count < c->bodies_max) {
        proxy->large_free[proxy->large_free_count] = proxy->large_free_count;
        proxy->large_free_count++;
    }
    return AW_OK;
}

static enum aw_err sockets_make(struct aw_proxy *proxy, struct aw_diag *diag)
{
    struct sockaddr_storage address;
    socklen_t len;
    const int one = 1;
    aw_listen_auth_address(&proxy->config.door, &address, &len);
    proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
    proxy->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->listen.fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (proxy->listen.fd >= 0)
        (void)setsockopt(proxy->listen.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (proxy->epoll < 0 || proxy->wake.fd < 0 || proxy->listen.fd < 0 ||
        bind(proxy->listen.fd, (const struct sockaddr *)&address, len) != 0 ||
        listen(proxy->listen.fd, 4096) != 0 ||
        getsockname(proxy->listen.fd, (struct sockaddr *)&address, &len) != 0 ||
        !aw__proxy_watch(proxy, &proxy->listen, AW__PROXY_LISTEN, 0) ||
        !aw__proxy_watch(proxy, &proxy->wake, AW__PROXY_WAKE, 0))
        return aw_fail(diag, errno == EADDRINUSE ? AW_ERR_CONFLICT : AW_ERR_UNAVAILABLE,
                       "cannot listen on %s:%u: %s", proxy->config.door.host,
                       proxy->config.door.port, strerror(errno));
    proxy->port = ntohs(address.ss_family == AF_INET6
                            ? ((const struct sockaddr_in6 *)(const void *)&address)->sin6_port
                            : ((const struct sockaddr_in *)(const void *)&address)->sin_port);
    return AW_OK;
}

static enum aw_err power_make(struct aw_proxy *proxy, struct aw_diag *diag)
{
    const struct aw_proxy_config *c = &proxy->config;
    uint64_t bits[AW_PROXY_UPSTREAMS_MAX];
    if (!c->devices)
        return aw_fail(diag, AW_ERR_CONFIG, "clocks need devices: --device BACKEND");
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        bits[i] = c->upstream[i].devices;
    aw__proxy_measure_init(proxy);
    return aw__power_start(&proxy->power, &c->power, c->devices, bits, proxy->upstream_count,
                           c->log, proxy->alloc, diag);
}

enum aw_err aw_proxy_open(struct aw_proxy **ret_proxy, const struct aw_proxy_config *config,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_proxy *proxy = aw_alloc_new(alloc, 1, sizeof *proxy);
    if (!proxy)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the proxy");
    proxy->config = *config;
    proxy->alloc = alloc;
    proxy->epoll = proxy->wake.fd = proxy->listen.fd = -1;
    proxy->room_first = proxy->room_last = AW__PROXY_NONE;
    proxy->token_s = TOKEN_S;
    proxy->upstream_count = config->upstream_count;
    defaults(&proxy->config);
    enum aw_err err = config_check(&proxy->config, diag);
    if (err)
        proxy->upstream_count = 0;
    if (!err) {
        pools_make(proxy);
        err = memory_make(proxy, diag);
    }
    for (uint32_t p = 0; p < proxy->pool_count && !err; p++) {
        if (aw_serving_queue_init(&proxy->pool[p].queue, proxy->config.connections_max, alloc))
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a queue");
    }
    if (!err && !config->no_learning && aw_length_new(&aw_length_defaults, alloc, &proxy->length))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the predictor of lengths");
    if (!err)
        err = sockets_make(proxy, diag);
    if (!err && config->devices)
        proxy->device_count = config->devices->ops->count(config->devices->self);
    if (!err && config->power.on)
        err = power_make(proxy, diag);
    if (err) {
        aw_proxy_close(proxy);
        return err;
    }
    *ret_proxy = proxy;
    return AW_OK;
}

void aw_proxy_close(struct aw_proxy *proxy)
{
    if (!proxy)
        return;
    aw__power_stop(proxy->power);
    for (uint32_t i = 0; proxy->client && i < proxy->config.connections_max; i++)
        aw__proxy_unwatch(&proxy->client[i].handle);
    for (uint32_t i = 0; proxy->link && i < proxy->link_count; i++)
        aw__proxy_unwatch(&proxy->link[i].handle);
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        aw__proxy_unwatch(&proxy->upstream[i].probe.handle);
    for (uint32_t p = 0; p < proxy->pool_count; p++)
        aw_serving_queue_deinit(&proxy->pool[p].queue);
    aw_length_free(proxy->length);
    if (proxy->map)
        (void)munmap(proxy->map, proxy->map_bytes);
    aw__proxy_unwatch(&proxy->listen);
    aw__proxy_unwatch(&proxy->wake);
    if (proxy->epoll >= 0)
        (void)close(proxy->epoll);
    aw_alloc_free(proxy->alloc, proxy->client);
    aw_alloc_free(proxy->alloc, proxy->link);
    aw_alloc_free(proxy->alloc, proxy->large_free);
    aw_alloc_free(proxy->alloc, proxy);
}

uint16_t aw_proxy_port(const struct aw_proxy *proxy)
{
    return proxy->port;
}

void aw_proxy_stop(struct aw_proxy *proxy)
{
    const uint64_t one = 1;
    proxy->stop = 1;
    if (write(proxy->wake.fd, &one, sizeof one) < 0)
        return; /* it is being woken already */
}

/* ---- the loop ---- */

static void event_take(struct aw_proxy *proxy, const struct epoll_event *event)
{
    const uint32_t kind = (uint32_t)(event->data.u64 >> 60), index = (uint32_t)event->data.u64;
    const uint32_t generation = (uint32_t)(event->data.u64 >> 32) & 0xfffffffu;
    struct aw__proxy_handle *handle = kind == AW__PROXY_CLIENT ? &proxy->client[index].handle
                                      : kind == AW__PROXY_LINK ? &proxy->link[index].handle
                                      : kind == AW__PROXY_PROBE
                                          ? &proxy->upstream[index].probe.handle
                                      : kind == AW__PROXY_WAKE ? &proxy->wake
                                                               : &proxy->listen;
    if (handle->fd < 0 || (handle->generation & 0xfffffffu) != generation)
        return;
    handle->readable |= !!(event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    handle->writable |= !!(event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR));
    handle->ended |= !!(event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    if (kind == AW__PROXY_CLIENT)
        aw__proxy_client_event(proxy, &proxy->client[index]);
    else if (kind == AW__PROXY_LINK)
        aw__proxy_link_event(proxy, &proxy->link[index]);
    else if (kind == AW__PROXY_PROBE)
        aw__proxy_health_event(proxy, &proxy->upstream[index]);
    else if (kind == AW__PROXY_LISTEN)
        proxy->accept_due = true;
}

static void sweep(struct aw_proxy *proxy)
{
    proxy->swept_us = proxy->now_us;
    for (uint32_t i = 0; i < proxy->config.connections_max; i++) {
        if (proxy->client[i].state != AW__PROXY_CLIENT_FREE)
            aw__proxy_client_sweep(proxy, &proxy->client[i]);
    }
    for (uint32_t i = 0; i < proxy->link_count; i++) {
        if (proxy->link[i].state != AW__PROXY_LINK_FREE)
            aw__proxy_link_sweep(proxy, &proxy->link[i]);
    }
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        aw__proxy_health_sweep(proxy, &proxy->upstream[i]);
    if (proxy->config.devices && proxy->now_us - proxy->energy_us >= ENERGY_US)
        aw__proxy_energy_tick(proxy);
    if (proxy->power)
        aw__proxy_measure_tick(proxy);
    proxy->accept_due = true; /* descriptors may have become free */
    proxy->dispatch_due = true;
}

enum aw_err aw_proxy_run(struct aw_proxy *proxy, struct aw_diag *diag)
{
    struct epoll_event event[EVENTS_MAX];
    proxy->now_us = aw_clock_monotonic_us(NULL);
    sweep(proxy);
    while (!proxy->stop) {
        const int64_t due_ms = (proxy->swept_us + SWEEP_US - proxy->now_us) / 1000 + 1;
        const int count = epoll_wait(proxy->epoll, event, EVENTS_MAX,
                                     proxy->dispatch_due || due_ms < 0 ? 0 : (int)due_ms);
        if (count < 0 && errno != EINTR)
            return aw_fail(diag, AW_ERR_IO, "epoll: %s", strerror(errno));
        proxy->now_us = aw_clock_monotonic_us(NULL);
        for (int i = 0; i < count; i++)
            event_take(proxy, &event[i]);
        if (proxy->accept_due)
            aw__proxy_client_accept(proxy);
        if (proxy->dispatch_due)
            aw__proxy_dispatch_run(proxy);
        if (proxy->now_us - proxy->swept_us >= SWEEP_US)
            sweep(proxy);
    }
    return AW_OK;
}
