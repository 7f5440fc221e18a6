/* standin.c - one thread, one epoll, one batch. */
#include "proxy/standin.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/http1.h"
#include "base/net.h"
#include "base/text.h"
#include "base/threads.h"

#define IN         (2u << 20) /* pages are had when they are used */
#define OUT        (64u << 10)
#define SERVED_MAX 4096u
#define TAG_LISTEN UINT32_MAX
#define TAG_WAKE   (UINT32_MAX - 1)

enum fault { NONE, DIE, STALL, BADCHUNK, EARLY, SILENT, GARBAGE, CLOSE, SURPLUS, SPLIT, BUSY };

struct conn {
    int fd; /* -1: free */
    bool waiting, running, stream, ending;
    enum fault fault;
    uint32_t fault_at, tokens, given, seed;
    uint64_t number; /* of arrival */
    uint64_t body_left, prompt_bytes, hash;
    char *in, *out;
    size_t in_len, out_at, out_len;
};

struct aw_standin {
    struct aw_standin_config config;
    int listen, epoll, wake;
    uint16_t port;
    pthread_t thread;
    struct conn *conn;
    uint32_t running;
    int64_t step_us; /* when the step under way ends; 0: none is */
    uint64_t numbers;
    _Atomic bool stop;
    _Atomic uint64_t begun, ended;
    _Atomic uint32_t most;
    _Atomic uint32_t served[SERVED_MAX];
};

size_t aw_standin_event(uint32_t seed, uint32_t i, uint32_t tokens, char *buf, size_t size)
{
    if (i == tokens)
        return (size_t)snprintf(buf, size, "data: [DONE]\n\n");
    const uint32_t word = (seed * 2654435761u + i * 40503u) >> 7;
    return (size_t)snprintf(
        buf, size,
        "data: {\"id\":\"cmpl-%u\",\"choices\":[{\"index\":0,\"text\":\" w%x%.*s\","
        "\"finish_reason\":%s}]}\n\n",
        seed, word, (int)(word % 24), "abcdefghijklmnopqrstuvwx",
        i + 1 == tokens ? "\"stop\"" : "null");
}

static void conn_close(struct aw_standin *m, struct conn *c, bool reset)
{
    if (c->fd < 0)
        return;
    if (reset) {
        const struct linger now = {.l_onoff = 1};
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    (void)close(c->fd);
    c->fd = -1;
    m->running -= c->running;
    c->waiting = c->running = false;
}

static void flush(struct aw_standin *m, struct conn *c)
{
    while (c->fd >= 0 && c->out_at < c->out_len) {
        const ssize_t put = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0) {
            conn_close(m, c, false);
            return;
        }
        c->out_at += (size_t)put;
    }
    c->out_at = c->out_len = 0;
    if (c->fd >= 0 && c->ending)
        conn_close(m, c, false);
}

static void say(struct conn *c, const char *bytes, size_t len)
{
    if (c->out_len + len > OUT && c->out_at) {
        memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
        c->out_len -= c->out_at;
        c->out_at = 0;
    }
    if (c->out_len + len > OUT)
        return;
    memcpy(c->out + c->out_len, bytes, len);
    c->out_len += len;
}

static void say_chunk(struct conn *c, const char *bytes, size_t len)
{
    char size[16];
    if (c->fault != CLOSE)
        say(c, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", len));
    say(c, bytes, len);
    if (c->fault != CLOSE)
        say(c, "\r\n", 2);
}

static void head_say(struct conn *c)
{
    char head[256];
    if (!c->stream)
        return;
    say(c, head,
        (size_t)snprintf(
            head, sizeof head,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Body: %016llx\r\n%s",
            (unsigned long long)c->hash,
            c->fault == CLOSE ? "Connection: close\r\n\r\n"
                              : "Transfer-Encoding: chunked\r\n\r\n"));
}

static void whole_say(struct conn *c)
{
    char body[8192], head[256];
    struct aw_text text;
    aw_text_init(&text, body, sizeof body);
    aw_text_add(&text,
                "{\"id\":\"cmpl-%u\",\"choices\":[{\"text\":\"%.*s\",\"finish_reason\":\"stop\"}],"
                "\"usage\":{\"completion_tokens\":%u}}\n",
                c->seed, (int)(c->tokens < 1000 ? c->tokens : 1000), "", c->tokens);
    say(c, head,
        (size_t)snprintf(head, sizeof head,
                         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Body: %016llx\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         (unsigned long long)c->hash, text.len));
    say(c, body, text.len);
}

static void done(struct aw_standin *m, struct conn *c)
{
    if (!c->stream)
        whole_say(c);
    else if (c->fault != CLOSE)
        say(c, "0\r\n\r\n", 5);
    if (c->fault == SURPLUS)
        say(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 42);
    c->ending = c->fault == CLOSE;
    c->running = false;
    m->running--;
    m->ended++;
}

/* One token of one answer. */
static void token(struct aw_standin *m, struct conn *c)
{
    char event[256];
    if (!c->given)
        head_say(c);
    if (c->given == c->fault_at && (c->fault == DIE || c->fault == STALL || c->fault == BADCHUNK)) {
        if (c->fault == BADCHUNK)
            say(c, "zz\r\n", 4);
        flush(m, c);
        if (c->fault == DIE)
            conn_close(m, c, false);
        return;
    }
    if (c->stream) {
        const size_t len = aw_standin_event(c->seed, c->given, c->tokens, event, sizeof event);
        if (c->fault == SPLIT) {
            say_chunk(c, event, len / 3);
            flush(m, c);
            say_chunk(c, event + len / 3, len - len / 3);
        } else {
            say_chunk(c, event, len);
        }
    }
    if (c->given++ == c->tokens) /* the last was [DONE] */
        done(m, c);
    flush(m, c);
}

static void refuse(struct aw_standin *m, struct conn *c)
{
    static const char busy[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nbusy\n";
    c->waiting = false;
    if (c->fault == BUSY)
        say(c, busy, sizeof busy - 1);
    else if (c->fault == GARBAGE)
        say(c, "lorem ipsum dolor\r\n\r\n", 21);
    flush(m, c);
    if (c->fault == EARLY)
        conn_close(m, c, false);
}

/* Who has waited longest joins the batch; returns the bytes of new prompts. */
static uint64_t admit(struct aw_standin *m)
{
    const uint32_t slots = m->config.slots;
    uint64_t bytes = 0;
    while (m->running < slots) {
        struct conn *next = NULL;
        for (uint32_t i = 0; i < m->config.connections_max; i++) {
            struct conn *c = &m->conn[i];
            if (c->fd >= 0 && c->waiting && (!next || c->number < next->number))
                next = c;
        }
        if (!next)
            break;
        if (next->fault >= EARLY && next->fault != CLOSE && next->fault != SURPLUS &&
            next->fault != SPLIT) {
            refuse(m, next);
            continue;
        }
        next->waiting = false;
        next->running = true;
        m->running++;
        bytes += next->prompt_bytes;
        if (m->begun < SERVED_MAX)
            m->served[m->begun] = next->seed;
        m->begun++;
        if (m->running > m->most)
            m->most = m->running;
    }
    return bytes;
}

static void step(struct aw_standin *m)
{
    const struct aw_standin_config *k = &m->config;
    const bool instant = !k->decode_us && !k->batch_us && !k->prefill_us;
    for (uint32_t i = 0; i < k->connections_max; i++) {
        struct conn *c = &m->conn[i];
        while (c->fd >= 0 && c->running && OUT - c->out_len > 1024 &&
               !(c->given == c->fault_at && c->given && c->fault == STALL)) {
            token(m, c);
            if (!instant)
                break;
        }
    }
}

/* The step that has ended gives its tokens; the next begins. Returns microseconds until its end;
 * -1: nothing is to be done. */
static int64_t advance(struct aw_standin *m)
{
    const struct aw_standin_config *k = &m->config;
    const int64_t now = aw_clock_monotonic_us(NULL);
    if (m->step_us && now < m->step_us)
        return m->step_us - now;
    if (m->step_us)
        step(m);
    m->step_us = 0;
    const uint64_t bytes = admit(m);
    if (!m->running)
        return -1;
    int64_t us = (int64_t)(k->decode_us + (uint64_t)k->batch_us * m->running +
                           (uint64_t)k->prefill_us * bytes / 1000);
    const uint32_t clock = k->clock_permille ? *k->clock_permille : 1000;
    us = us / 2 + us * 500 / (clock > 50 ? clock : 50); /* a + b/x, a = b */
    m->step_us = now + (us ? us : 1);
    if (!us) {
        step(m);
        m->step_us = 0;
        return admit(m) || m->running ? 1000 : -1;
    }
    return us;
}

static uint32_t number_of(struct aw_http1_span span, const char *key, uint32_t otherwise)
{
    const char *at = span.at ? memmem(span.at, span.len, key, strlen(key)) : NULL;
    if (!at)
        return otherwise;
    uint32_t value = 0;
    for (at += strlen(key); at < span.at + span.len && *at >= '0' && *at <= '9'; at++)
        value = 10 * value + (uint32_t)(*at - '0');
    return value;
}

static void request_begin(struct aw_standin *m, struct conn *c, const struct aw_http1_head *head,
                          const char *body, size_t len)
{
    static const char *const names[] = {
        "",        "die=",  "stall=",  "badchunk=", "early", "silent",
        "garbage", "close", "surplus", "split",     "busy"};
    const struct aw_http1_span fault = aw_http1_find(head, "x-fault");
    const struct aw_http1_span whole = {body, len};
    c->fault = NONE;
    c->fault_at = 0;
    for (uint32_t i = 1; fault.at && i < sizeof names / sizeof *names; i++) {
        if (fault.len >= strlen(names[i]) && !memcmp(fault.at, names[i], strlen(names[i]))) {
            c->fault = i;
            c->fault_at = number_of(fault, "=", 0);
        }
    }
    c->tokens =
        number_of(aw_http1_find(head, "x-tokens"), "", number_of(whole, "\"max_tokens\":", 16));
    c->seed = number_of(aw_http1_find(head, "x-seed"), "", 1);
    c->stream = !!memmem(body, len, "\"stream\":true", 13);
    c->given = 0;
    c->prompt_bytes = len;
    c->hash = aw_hash_bytes(AW_HASH_BEGIN, body, len);
    c->number = ++m->numbers;
    c->waiting = true;
}

/* What has arrived: health checks at once, completions into the batch. */
static void arrive(struct aw_standin *m, struct conn *c)
{
    while (c->fd >= 0 && !c->waiting && !c->running && c->in_len) {
        struct aw_http1_head head;
        const enum aw_err err = aw_http1_request(c->in, c->in_len, &head, NULL);
        if (err == AW_ERR_NODATA || (!err && head.bytes + head.length > c->in_len))
            return;
        if (err) {
            conn_close(m, c, false);
            return;
        }
        const size_t all = head.bytes + (size_t)head.length;
        if (aw_http1_is(head.method, "GET")) {
            static const char fine[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
            say(c, fine, sizeof fine - 1);
            flush(m, c);
        } else {
            request_begin(m, c, &head, c->in + head.bytes, (size_t)head.length);
        }
        memmove(c->in, c->in + all, c->in_len - all);
        c->in_len -= all;
    }
}

static void conn_read(struct aw_standin *m, struct conn *c)
{
    for (;;) {
        char *into = c->in + c->in_len;
        const ssize_t got = recv(c->fd, into, IN - c->in_len, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            conn_close(m, c, false);
            return;
        }
        c->in_len += (size_t)got;
        if (c->in_len == IN)
            break;
    }
    arrive(m, c);
}

static void accept_all(struct aw_standin *m)
{
    const int one = 1;
    for (;;) {
        const int fd = accept4(m->listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        uint32_t i = 0;
        if (fd < 0)
            return;
        while (i < m->config.connections_max && m->conn[i].fd >= 0)
            i++;
        if (i == m->config.connections_max) {
            (void)close(fd);
            continue;
        }
        struct conn *c = &m->conn[i];
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        *c = (struct conn){.fd = fd, .in = c->in, .out = c->out};
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                    .data.u32 = i};
        if ((!c->in && !(c->in = malloc(IN))) || (!c->out && !(c->out = malloc(OUT))) ||
            epoll_ctl(m->epoll, EPOLL_CTL_ADD, fd, &event))
            conn_close(m, c, false);
    }
}

static void *model_main(void *ctx)
{
    struct aw_standin *m = ctx;
    struct epoll_event event[256];
    while (!m->stop) {
        const int64_t us = advance(m);
        struct timespec wait = {us / 1000000, us % 1000000 * 1000};
        const int count = epoll_pwait2(m->epoll, event, 256, us < 0 ? NULL : &wait, NULL);
        for (int i = 0; i < count; i++) {
            if (event[i].data.u32 == TAG_LISTEN) {
                accept_all(m);
            } else if (event[i].data.u32 != TAG_WAKE) {
                struct conn *c = &m->conn[event[i].data.u32];
                if (c->fd >= 0 && event[i].events & EPOLLOUT)
                    flush(m, c);
                if (c->fd >= 0 && event[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                    conn_read(m, c);
            }
        }
        /* answers that have ended may have the next request behind them */
        for (uint32_t i = 0; i < m->config.connections_max; i++) {
            if (m->conn[i].fd >= 0 && m->conn[i].in_len)
                arrive(m, &m->conn[i]);
        }
    }
    return NULL;
}

struct aw_standin *aw_standin_start(const struct aw_standin_config *config)
{
    struct aw_standin *m = calloc(1, sizeof *m);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(config->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                       bound;
    if (!m)
        return NULL;
    m->config = *config;
    m->config.slots = config->slots ? config->slots : 64;
    m->config.connections_max = config->connections_max ? config->connections_max : 2048;
    m->conn = calloc(m->config.connections_max, sizeof *m->conn);
    if (!m->conn || aw_net_listen(&address, 1024, &m->listen, &bound, NULL)) {
        free(m->conn);
        free(m);
        return NULL;
    }
    for (uint32_t i = 0; i < m->config.connections_max; i++)
        m->conn[i].fd = -1;
    m->port = ntohs(bound.sin_port);
    m->epoll = epoll_create1(EPOLL_CLOEXEC);
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = TAG_LISTEN};
    (void)epoll_ctl(m->epoll, EPOLL_CTL_ADD, m->listen, &event);
    event.data.u32 = TAG_WAKE;
    (void)epoll_ctl(m->epoll, EPOLL_CTL_ADD, m->wake, &event);
    if (aw_thread_begin(&m->thread, model_main, m)) {
        free(m->conn);
        free(m);
        return NULL;
    }
    return m;
}

void aw_standin_stop(struct aw_standin *m)
{
    const uint64_t one = 1;
    if (!m)
        return;
    m->stop = true;
    if (write(m->wake, &one, sizeof one) != sizeof one)
        abort();
    pthread_join(m->thread, NULL);
    for (uint32_t i = 0; i < m->config.connections_max; i++) {
        conn_close(m, &m->conn[i], false);
        free(m->conn[i].in);
        free(m->conn[i].out);
    }
    close(m->listen);
    close(m->epoll);
    close(m->wake);
    free(m->conn);
    free(m);
}

uint16_t aw_standin_port(const struct aw_standin *m)
{
    return m->port;
}

uint64_t aw_standin_begun(const struct aw_standin *m)
{
    return m->begun;
}

uint64_t aw_standin_ended(const struct aw_standin *m)
{
    return m->ended;
}

uint32_t aw_standin_most(const struct aw_standin *m)
{
    return m->most;
}

uint32_t aw_standin_served(const struct aw_standin *m, uint32_t index)
{
    return m->served[index];
}
