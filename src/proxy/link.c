/* link.c - a connection to an upstream: a request goes out, its answer passes through. */
#include "proxy/internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define TRIES_MAX 3u

static struct aw__proxy_client *client_of(struct aw_proxy *proxy, const struct aw__proxy_link *link)
{
    return link->client == AW__PROXY_NONE ? NULL : &proxy->client[link->client];
}

static uint32_t index_of(const struct aw_proxy *proxy, const struct aw__proxy_link *link)
{
    return (uint32_t)(link - proxy->link);
}

/* Its request, if it had one, is no longer in flight. */
static void release(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    if (link->client == AW__PROXY_NONE)
        return;
    link->client = AW__PROXY_NONE;
    if (!--proxy->in_flight)
        proxy->busy_us += proxy->now_us - proxy->busy_since_us;
    AW_ASSERT(proxy->upstream[link->upstream].in_flight > 0);
    proxy->upstream[link->upstream].in_flight--;
    proxy->dispatch_due = true;
}

void aw__proxy_link_drop(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    if (link->state == AW__PROXY_LINK_IDLE) {
        uint32_t *at = &proxy->upstream[link->upstream].idle;
        while (*at != index_of(proxy, link))
            at = &proxy->link[*at].next;
        *at = link->next;
    }
    release(proxy, link);
    aw__proxy_unwatch(&link->handle);
    link->state = AW__PROXY_LINK_FREE;
    link->next = proxy->link_free;
    proxy->link_free = index_of(proxy, link);
    proxy->links--;
}

/* ---- heads ---- */

/* What belongs to one connection and not to the message (RFC 9110 section 7.6.1). */
static bool hop_by_hop(struct aw_http1_span name)
{
    static const char *const names[] = {
        "connection",          "keep-alive", "te",     "proxy-connection",
        "proxy-authorization", "upgrade",    "expect", "trailer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (name.len == strlen(names[i]) && !strncasecmp(name.at, names[i], name.len))
            return true;
    }
    return false;
}

static bool is(struct aw_http1_span name, const char *word)
{
    return name.len == strlen(word) && !strncasecmp(name.at, word, name.len);
}

/* Whether Connection names it among what belongs to the connection. */
static bool connection_names(const struct aw_http1_head *head, struct aw_http1_span name)
{
    const struct aw_http1_span said = aw_http1_find(head, "connection");
    for (size_t i = 0; said.at && i + name.len <= said.len; i++) {
        if (!strncasecmp(said.at + i, name.at, name.len) &&
            (i + name.len == said.len || said.at[i + name.len] == ',' ||
             said.at[i + name.len] == ' ') &&
            (!i || said.at[i - 1] == ',' || said.at[i - 1] == ' '))
            return true;
    }
    return false;
}

static void header_add(struct aw_text *text, const struct aw_http1_header *header)
{
    aw_text_add_bytes(text, header->name.at, header->name.len);
    aw_text_add_bytes(text, ": ", 2);
    aw_text_add_bytes(text, header->value.at, header->value.len);
    aw_text_add_bytes(text, "\r\n", 2);
}

static void request_head(const struct aw_proxy *proxy, const struct aw__proxy_client *client,
                         struct aw__proxy_link *link)
{
    const struct aw_http1_head *head = &client->head;
    const bool own_token = proxy->config.door.token[0];
    const char *other = proxy->config.upstream_token;
    struct aw_text text;
    aw_text_init(&text, link->head, sizeof link->head);
    aw_text_add_bytes(&text, head->method.at, head->method.len);
    aw_text_add_bytes(&text, " ", 1);
    aw_text_add_bytes(&text, head->path.at, head->path.len);
    if (head->query.len) {
        aw_text_add_bytes(&text, "?", 1);
        aw_text_add_bytes(&text, head->query.at, head->query.len);
    }
    aw_text_add(&text, " HTTP/1.1\r\nHost: %s\r\n", proxy->upstream[link->upstream].text);
    for (uint32_t i = 0; i < head->header_count; i++) {
        const struct aw_http1_span name = head->header[i].name;
        if (hop_by_hop(name) || is(name, "host") || is(name, "content-length") ||
            is(name, "transfer-encoding") || connection_names(head, name) ||
            (is(name, "authorization") && (own_token || *other)))
            continue; /* the token of this door is for this door */
        header_add(&text, &head->header[i]);
    }
    if (*other)
        aw_text_add(&text, "Authorization: Bearer %s\r\n", other);
    if (head->framing != AW_HTTP1_EMPTY)
        aw_text_add(&text, "Content-Length: %zu\r\n", client->body_len);
    aw_text_add_bytes(&text, "\r\n", 2);
    AW_ASSERT(!text.cut);
    link->head_at = 0;
    link->head_len = text.len;
}

static void answer_head(struct aw__proxy_link *link, const struct aw_http1_head *head, bool closes)
{
    struct aw_text text;
    const char *line_end = memchr(link->buffer, '\r', head->bytes);
    aw_text_init(&text, link->head, sizeof link->head);
    aw_text_add(&text, "HTTP/1.1");
    aw_text_add_bytes(&text, link->buffer + 8, (size_t)(line_end - link->buffer) - 8);
    aw_text_add_bytes(&text, "\r\n", 2);
    for (uint32_t i = 0; i < head->header_count; i++) {
        const struct aw_http1_span name = head->header[i].name;
        if (!hop_by_hop(name) && !connection_names(head, name))
            header_add(&text, &head->header[i]);
    }
    if (closes)
        aw_text_add(&text, "Connection: close\r\n");
    aw_text_add_bytes(&text, "\r\n", 2);
    AW_ASSERT(!text.cut);
    link->head_at = 0;
    link->head_len = text.len;
}

/* ---- beginning ---- */

static void send_go(struct aw_proxy *proxy, struct aw__proxy_link *link);

static bool connect_go(struct aw_proxy *proxy, struct aw__proxy_link *link,
                       struct aw__proxy_upstream *up)
{
    const int one = 1;
    link->handle.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->handle.fd < 0)
        return false;
    (void)setsockopt(link->handle.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(link->handle.fd, (const struct sockaddr *)&up->config.address,
                sizeof up->config.address) != 0 &&
        errno != EINPROGRESS) {
        aw__proxy_health_down(proxy, up, strerror(errno));
        return false;
    }
    return aw__proxy_watch(proxy, &link->handle, AW__PROXY_LINK, index_of(proxy, link));
}

/* Whether a kept connection is still there, and silent: bytes that nobody asked for would be taken
 * for the next answer. */
static bool quiet(const struct aw__proxy_link *link)
{
    char byte;
    return recv(link->handle.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

bool aw__proxy_link_begin(struct aw_proxy *proxy, struct aw__proxy_client *client,
                          uint32_t upstream)
{
    struct aw__proxy_upstream *up = &proxy->upstream[upstream];
    struct aw__proxy_link *link;
    while (up->idle != AW__PROXY_NONE && !quiet(&proxy->link[up->idle]))
        aw__proxy_link_drop(proxy, &proxy->link[up->idle]);
    const bool reused = up->idle != AW__PROXY_NONE;
    if (reused) {
        link = &proxy->link[up->idle];
        up->idle = link->next;
    } else {
        if (proxy->link_free == AW__PROXY_NONE)
            return false;
        link = &proxy->link[proxy->link_free];
        link->upstream = upstream;
        if (!connect_go(proxy, link, up)) {
            aw__proxy_unwatch(&link->handle);
            return false;
        }
        proxy->link_free = link->next;
        proxy->links++;
    }
    link->state = reused ? AW__PROXY_LINK_BUSY : AW__PROXY_LINK_CONNECTING;
    link->reused = reused;
    link->has_head = link->complete = link->surplus = link->request_gone = link->broken = false;
    link->sse = link->keeps = false;
    link->begin = link->end = link->framed = link->body_sent = 0;
    link->since_us = proxy->now_us;
    link->answer = (struct aw_openai_answer){0};
    link->client = aw__proxy_client_index(proxy, client);
    up->in_flight++;
    if (!proxy->in_flight++)
        proxy->busy_since_us = proxy->now_us;
    client->state = AW__PROXY_CLIENT_LINKED;
    client->since_us = client->moved_us = proxy->now_us;
    client->link = index_of(proxy, link);
    client->request.upstream = upstream;
    client->request.sent_us = proxy->now_us;
    request_head(proxy, client, link);
    if (reused)
        send_go(proxy, link);
    return true;
}

/* ---- ends ---- */

/* The request goes back to its queue, with the key it had. */
static void again(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    struct aw__proxy_client *client = client_of(proxy, link);
    aw__proxy_link_drop(proxy, link);
    client->link = AW__PROXY_NONE;
    client->tries++;
    proxy->count.retried++;
    client->state = AW__PROXY_CLIENT_QUEUED;
    client->since_us = client->moved_us = proxy->now_us;
    aw__proxy_dispatch_queue(proxy, client);
}

/* Words at the end of a stream that was cut, where they can be put between two chunks. */
static void last_words(struct aw__proxy_link *link, const char *upstream, const char *why)
{
    char event[320], chunk[400];
    const bool chunked = link->framing == AW_HTTP1_CHUNKED;
    const int event_len =
        snprintf(event, sizeof event,
                 "data: {\"error\":{\"message\":\"upstream %s: %s; the answer is not "
                 "complete\",\"type\":\"upstream_error\",\"code\":\"upstream_died\"}}\n\n",
                 upstream, why);
    const int len = chunked
                        ? snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", (unsigned)event_len, event)
                        : snprintf(chunk, sizeof chunk, "%s", event);
    const bool between = !chunked || (!link->chunks.state && !link->chunks.line_bytes);
    if (!link->sse || !between || link->framing == AW_HTTP1_LENGTH)
        return;
    if (link->begin && link->end + (size_t)len > AW__PROXY_BUFFER) {
        memmove(link->buffer, link->buffer + link->begin, link->end - link->begin);
        link->end -= link->begin;
        link->begin = 0;
    }
    if (link->end + (size_t)len > AW__PROXY_BUFFER)
        return;
    memcpy(link->buffer + link->end, chunk, (size_t)len);
    link->end += (size_t)len;
}

/* The upstream has failed this request. */
static void died(struct aw_proxy *proxy, struct aw__proxy_link *link, const char *why)
{
    struct aw__proxy_client *client = client_of(proxy, link);
    struct aw__proxy_upstream *up = &proxy->upstream[link->upstream];
    up->probe.next_us = 0; /* ask it now */
    if (!client) {
        aw__proxy_link_drop(proxy, link);
        return;
    }
    /* a kept connection that the upstream closes just as it is used again is no failure */
    const bool unheard = !link->has_head && !link->end;
    if (unheard && (link->reused || link->state == AW__PROXY_LINK_CONNECTING) &&
        client->tries < TRIES_MAX) {
        again(proxy, link);
        return;
    }
    up->failed++;
    proxy->count.upstream_failed++;
    aw_log_warn(proxy->config.log, "an upstream failed a request", AW_LOG_STR("upstream", up->text),
                AW_LOG_STR("why", why), AW_LOG_INT("bytes", (int64_t)client->request.bytes));
    if (link->has_head) {
        proxy->count.errors_mid_stream++;
        link->broken = true;
        link->end = link->framed; /* what came behind it is no part of an answer */
        last_words(link, up->text, why);
        aw__proxy_unwatch(&link->handle);
        aw__proxy_link_pump(proxy, link);
        return;
    }
    const int status = !strcmp(why, "it did not answer in time") ? 504 : 502;
    client->request.status = status;
    aw__proxy_dispatch_finish(proxy, client, link, false);
    aw__proxy_link_drop(proxy, link);
    client->link = AW__PROXY_NONE;
    aw__proxy_client_refuse(proxy, client, status, "upstream_failed", "upstream %s: %s", up->text,
                            why);
}

/* Everything has been passed on. */
static void finish(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    struct aw__proxy_client *client = client_of(proxy, link);
    const bool well = !link->broken;
    client->request.last_us = proxy->now_us;
    aw__proxy_dispatch_finish(proxy, client, link, well);
    client->link = AW__PROXY_NONE;
    if (well && link->keeps && !link->surplus && link->request_gone && !link->handle.ended) {
        proxy->upstream[link->upstream].served++;
        release(proxy, link);
        link->state = AW__PROXY_LINK_IDLE;
        link->since_us = proxy->now_us;
        link->next = proxy->upstream[link->upstream].idle;
        proxy->upstream[link->upstream].idle = index_of(proxy, link);
    } else {
        proxy->upstream[link->upstream].served += well;
        aw__proxy_link_drop(proxy, link);
    }
    if (!well) { /* cut, and seen to be cut: the last chunk never comes */
        client->state = AW__PROXY_CLIENT_SAYING;
        client->close_after = true;
        aw__proxy_client_next(proxy, client);
        return;
    }
    aw__proxy_client_next(proxy, client);
}

/* ---- bytes ---- */

static void send_go(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    struct aw__proxy_client *client = client_of(proxy, link);
    while (!link->request_gone) {
        struct iovec parts[2] = {
            {link->head + link->head_at, link->head_len - link->head_at},
            {client->in + client->body_from + link->body_sent, client->body_len - link->body_sent}};
        const size_t all = parts[0].iov_len + parts[1].iov_len;
        const ssize_t put = aw__proxy_write(&link->handle, parts, 2);
        if (put < 0) { /* it may have said why before it closed: reading tells */
            link->handle.readable = true;
            link->request_gone = true;
            link->surplus = true;
            return;
        }
        if (!put)
            return;
        client->moved_us = proxy->now_us;
        const size_t of_head = (size_t)put < parts[0].iov_len ? (size_t)put : parts[0].iov_len;
        link->head_at += of_head;
        link->body_sent += (size_t)put - of_head;
        link->request_gone = (size_t)put == all;
        if (link->request_gone)
            link->head_at = link->head_len = 0;
    }
}

/* The bytes before the one that is malformed are part of the answer: what follows them is to begin
 * where a chunk may. */
static void good_bytes(struct aw__proxy_link *link)
{
    struct aw_http1_chunks next = link->chunks;
    struct aw_http1_span data;
    size_t used;
    while (!aw_http1_chunks_take(&next, link->buffer + link->framed, 1, &used, &data)) {
        link->chunks = next;
        link->framed++;
    }
}

/* What of the new bytes belongs to the answer. False: malformed. */
static bool frame(struct aw_proxy *proxy, struct aw__proxy_link *link,
                  struct aw__proxy_client *client)
{
    const size_t before = link->framed;
    while (link->framed < link->end && !link->complete) {
        struct aw_http1_span data = {link->buffer + link->framed, link->end - link->framed};
        size_t used = data.len;
        if (link->framing == AW_HTTP1_LENGTH) {
            used = data.len = link->left < data.len ? (size_t)link->left : data.len;
            link->left -= used;
            link->complete = !link->left;
        } else if (link->framing == AW_HTTP1_CHUNKED) {
            const struct aw_http1_chunks before_it = link->chunks;
            if (aw_http1_chunks_take(&link->chunks, data.at, data.len, &used, &data)) {
                link->chunks = before_it;
                good_bytes(link);
                return false;
            }
            link->complete = link->chunks.done;
        }
        link->framed += used;
        if (data.len && !client->request.first_us)
            client->request.first_us = proxy->now_us;
        aw_openai_answer_take(&link->answer, data.at, data.len);
    }
    if (link->complete && link->framed < link->end) { /* bytes that belong to no answer */
        link->surplus = true;
        link->end = link->framed;
    }
    client->request.bytes += link->framed - before;
    proxy->count.bytes_out += link->framed - before;
    return true;
}

/* The head of the answer, if it is here. NULL or what is wrong with it. */
static const char *head_take(struct aw__proxy_link *link, struct aw__proxy_client *client)
{
    struct aw_http1_head head;
    for (;;) {
        const enum aw_err err =
            aw_http1_response(link->buffer, link->end, client->head_method, &head, NULL);
        if (err == AW_ERR_NODATA)
            return NULL;
        if (err || head.status == 101)
            return "its answer is not HTTP/1.1";
        if (head.status >= 200)
            break;
        memmove(link->buffer, link->buffer + head.bytes, link->end - head.bytes); /* 100 Continue */
        link->end -= head.bytes;
    }
    const struct aw_http1_span type = aw_http1_find(&head, "content-type");
    link->sse = type.len >= 17 && !strncasecmp(type.at, "text/event-stream", 17);
    link->has_head = true;
    link->framing = head.framing;
    link->left = head.length;
    link->chunks = (struct aw_http1_chunks){0};
    link->keeps = head.keep_alive;
    link->complete =
        head.framing == AW_HTTP1_EMPTY || (head.framing == AW_HTTP1_LENGTH && !head.length);
    client->request.status = head.status;
    client->close_after |= head.framing == AW_HTTP1_UNTIL_CLOSE;
    answer_head(link, &head, client->close_after);
    link->begin = link->framed = head.bytes;
    return NULL;
}

/* False: the client is gone. */
static bool flush(struct aw_proxy *proxy, struct aw__proxy_link *link,
                  struct aw__proxy_client *client)
{
    while (link->has_head && (link->head_at < link->head_len || link->begin < link->framed ||
                              (link->broken && link->begin < link->end))) {
        const size_t until = link->broken ? link->end : link->framed;
        struct iovec parts[2] = {{link->head + link->head_at, link->head_len - link->head_at},
                                 {link->buffer + link->begin, until - link->begin}};
        const ssize_t put = aw__proxy_write(&client->handle, parts, 2);
        if (put < 0)
            return false;
        if (!put)
            return true;
        const size_t of_head = (size_t)put < parts[0].iov_len ? (size_t)put : parts[0].iov_len;
        link->head_at += of_head;
        link->begin += (size_t)put - of_head;
        client->moved_us = proxy->now_us;
    }
    if (link->has_head && link->begin == link->end)
        link->begin = link->end = link->framed = 0;
    return true;
}

void aw__proxy_link_pump(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    struct aw__proxy_client *client = client_of(proxy, link);
    for (;;) {
        if (!flush(proxy, link, client)) {
            aw__proxy_client_drop(proxy, client);
            return;
        }
        const bool flushed = link->head_at == link->head_len && link->begin == link->end;
        if (link->has_head && flushed && (link->complete || link->broken)) {
            finish(proxy, link);
            return;
        }
        if (link->complete || link->broken)
            return; /* the client has to take what is here */
        const size_t room = AW__PROXY_BUFFER - link->end;
        if (!room || !link->handle.readable)
            return;
        const ssize_t got = aw__proxy_read(&link->handle, link->buffer + link->end, room);
        if (got < 0) {
            died(proxy, link, "the connection broke");
            return;
        }
        if (!got) {
            if (!link->handle.ended || link->handle.readable)
                return;
            if (link->has_head && link->framing == AW_HTTP1_UNTIL_CLOSE &&
                (!link->sse || link->answer.done)) {
                link->complete = true;
                continue;
            }
            died(proxy, link,
                 link->has_head ? "it closed the connection in the middle of its answer"
                                : "it closed the connection without an answer");
            return;
        }
        link->end += (size_t)got;
        link->since_us = proxy->now_us;
        const char *wrong = link->has_head ? NULL : head_take(link, client);
        if (wrong || (link->has_head && !frame(proxy, link, client))) {
            died(proxy, link, wrong ? wrong : "its chunks are malformed");
            return;
        }
    }
}

void aw__proxy_link_event(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    if (link->state == AW__PROXY_LINK_IDLE) {
        if (!quiet(link))
            aw__proxy_link_drop(proxy, link);
        return;
    }
    if (link->state == AW__PROXY_LINK_CONNECTING) {
        int failed = 0;
        socklen_t len = sizeof failed;
        if (!link->handle.writable)
            return;
        (void)getsockopt(link->handle.fd, SOL_SOCKET, SO_ERROR, &failed, &len);
        if (failed) {
            aw__proxy_health_down(proxy, &proxy->upstream[link->upstream], strerror(failed));
            died(proxy, link, strerror(failed));
            return;
        }
        link->state = AW__PROXY_LINK_BUSY;
        link->since_us = proxy->now_us;
    }
    if (!link->request_gone && link->handle.writable)
        send_go(proxy, link);
    if (link->handle.readable)
        aw__proxy_link_pump(proxy, link);
}

void aw__proxy_link_sweep(struct aw_proxy *proxy, struct aw__proxy_link *link)
{
    const struct aw_proxy_config *c = &proxy->config;
    const int64_t since = proxy->now_us - link->since_us;
    struct aw__proxy_upstream *up = &proxy->upstream[link->upstream];
    if (link->state == AW__PROXY_LINK_IDLE && since > c->idle_us) {
        aw__proxy_link_drop(proxy, link);
    } else if (link->state == AW__PROXY_LINK_CONNECTING && since > c->connect_us) {
        aw__proxy_health_down(proxy, up, "no connection in time");
        died(proxy, link, "no connection in time");
    } else if (link->state == AW__PROXY_LINK_BUSY && !link->complete && !link->broken) {
        const struct aw__proxy_client *client = client_of(proxy, link);
        const bool waits_for_client = link->end == AW__PROXY_BUFFER && !client->handle.writable;
        if (!link->has_head && since > c->first_us)
            died(proxy, link, "it did not answer in time");
        else if (link->has_head && since > c->stall_us && !waits_for_client)
            died(proxy, link, "its answer stalled");
    }
}
