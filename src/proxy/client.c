/* client.c - a connection of a client: its request arrives, waits, is answered; then the next. */
#include "proxy/internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENDING_US   2000000 /* for a client to read an answer that came before its request ended */
#define ACCEPTS_MAX 256     /* in one turn, so that those who are here are served, too */

static void state_set(struct aw_proxy *proxy, struct aw__proxy_client *client,
                      enum aw__proxy_client_state state)
{
    client->state = state;
    client->since_us = client->moved_us = proxy->now_us;
}

void aw__proxy_client_accept(struct aw_proxy *proxy)
{
    const int one = 1;
    for (uint32_t n = 0; n < ACCEPTS_MAX; n++) {
        if (proxy->client_free == AW__PROXY_NONE)
            break; /* the rest waits in the socket's queue until one leaves */
        const int fd = accept4(proxy->listen.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno != EAGAIN)
                proxy->count.refused++; /* no descriptor: the next sweep tries again */
            proxy->accept_due = false;
            return;
        }
        struct aw__proxy_client *client = &proxy->client[proxy->client_free];
        client->handle.fd = fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (!aw__proxy_watch(proxy, &client->handle, AW__PROXY_CLIENT, proxy->client_free)) {
            aw__proxy_unwatch(&client->handle);
            continue;
        }
        proxy->client_free = client->next;
        client->link = client->large = client->page = AW__PROXY_NONE;
        client->in = client->buffer;
        client->in_size = AW__PROXY_BUFFER;
        client->in_len = 0;
        client->close_after = client->arriving = false;
        state_set(proxy, client, AW__PROXY_CLIENT_IDLE);
        proxy->clients++;
        proxy->count.accepted++;
    }
    proxy->accept_due = proxy->client_free != AW__PROXY_NONE;
    /* the loop comes back at once only where somebody may still wait */
    proxy->dispatch_due |= proxy->accept_due;
}

static void large_release(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->large == AW__PROXY_NONE)
        return;
    /* what one large request has touched goes back to the system */
    (void)madvise(proxy->large + client->large * proxy->large_bytes, proxy->large_bytes,
                  MADV_DONTNEED);
    proxy->large_free[proxy->large_free_count++] = client->large;
    client->large = AW__PROXY_NONE;
    client->in = client->buffer;
    client->in_size = AW__PROXY_BUFFER;
    aw__proxy_client_room(proxy);
}

static void page_release(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->page != AW__PROXY_NONE)
        proxy->page_busy[client->page] = false;
    client->page = AW__PROXY_NONE;
}

static void room_leave(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    const uint32_t index = aw__proxy_client_index(proxy, client);
    uint32_t before = AW__PROXY_NONE;
    for (uint32_t i = proxy->room_first; i != AW__PROXY_NONE;
         before = i, i = proxy->client[i].next) {
        if (i != index)
            continue;
        if (before == AW__PROXY_NONE)
            proxy->room_first = client->next;
        else
            proxy->client[before].next = client->next;
        if (proxy->room_last == index)
            proxy->room_last = before;
        return;
    }
}

void aw__proxy_client_drop(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->state == AW__PROXY_CLIENT_QUEUED)
        aw__proxy_dispatch_leave(proxy, client);
    if (client->state == AW__PROXY_CLIENT_ROOM)
        room_leave(proxy, client);
    if (client->state == AW__PROXY_CLIENT_QUEUED || client->state == AW__PROXY_CLIENT_LINKED) {
        proxy->count.aborted++;
        const struct aw__proxy_link *link =
            client->link == AW__PROXY_NONE ? NULL : &proxy->link[client->link];
        aw__proxy_dispatch_finish(proxy, client, link, false);
    }
    if (client->link != AW__PROXY_NONE) {
        struct aw__proxy_link *link = &proxy->link[client->link];
        client->link = AW__PROXY_NONE;
        aw__proxy_link_drop(proxy, link);
    }
    page_release(proxy, client);
    client->state = AW__PROXY_CLIENT_FREE; /* before a buffer that is free wakes another */
    large_release(proxy, client);
    aw__proxy_unwatch(&client->handle);
    client->next = proxy->client_free;
    proxy->client_free = aw__proxy_client_index(proxy, client);
    proxy->clients--;
    proxy->accept_due = true;
}

/* ---- answers of our own ---- */

static void say_go(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    struct iovec part = {(void *)(uintptr_t)client->say, client->say_len};
    const ssize_t put = aw__proxy_write(&client->handle, &part, 1);
    if (put < 0) {
        aw__proxy_client_drop(proxy, client);
        return;
    }
    client->say += put;
    client->say_len -= (size_t)put;
    client->moved_us = put ? proxy->now_us : client->moved_us;
    if (client->say_len)
        return;
    page_release(proxy, client);
    if (!client->close_after) {
        aw__proxy_client_next(proxy, client);
        return;
    }
    (void)shutdown(client->handle.fd, SHUT_WR);
    large_release(proxy, client);
    state_set(proxy, client, AW__PROXY_CLIENT_ENDING);
    aw__proxy_client_event(proxy, client);
}

static const char *reason(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 413:
        return "Content Too Large";
    case 431:
        return "Request Header Fields Too Large";
    case 502:
        return "Bad Gateway";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Error";
    }
}

void aw__proxy_client_refuse(struct aw_proxy *proxy, struct aw__proxy_client *client, int status,
                             const char *code, const char *fmt, ...)
{
    char words[320], body[640];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    struct aw_text text;
    aw_text_init(&text, body, sizeof body);
    aw_text_add(&text, "{\"error\":{\"message\":\"");
    for (const char *c = words; *c; c++) {
        if (*c == '"' || *c == '\\')
            aw_text_add(&text, "\\%c", *c);
        else if ((unsigned char)*c >= ' ')
            aw_text_add_bytes(&text, c, 1);
    }
    aw_text_add(&text, "\",\"type\":\"%s\",\"code\":\"%s\"}}\n",
                status >= 500 ? "server_error" : "invalid_request_error", code);
    client->close_after |= status == 413 || status == 431 || status == 505;
    const int len = snprintf(
        client->own, sizeof client->own,
        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s%s\r\n%s",
        status, reason(status), text.len, status == 503 ? "Retry-After: 1\r\n" : "",
        client->close_after ? "Connection: close\r\n" : "", body);
    AW_ASSERT(len > 0 && (size_t)len < sizeof client->own);
    proxy->count.bad_requests += status < 500;
    client->say = client->own;
    client->say_len = (size_t)len;
    state_set(proxy, client, AW__PROXY_CLIENT_SAYING);
    say_go(proxy, client);
}

static void unread(struct aw_proxy *proxy, struct aw__proxy_client *client, int status,
                   const char *code, const char *words)
{
    client->close_after = true; /* what follows cannot be told from the request */
    aw__proxy_client_refuse(proxy, client, status, code, "%s", words);
}

/* ---- a request that is complete ---- */

static const char *copied(struct aw_http1_span span, char *buf, size_t size)
{
    if (!span.at || span.len >= size)
        return NULL;
    memcpy(buf, span.at, span.len);
    buf[span.len] = '\0';
    return buf;
}

static bool is_probe(const struct aw__proxy_client *client)
{
    return aw_http1_is(client->head.path, "/healthz") || aw_http1_is(client->head.path, "/readyz");
}

/* Whether the door lets it in. With a token it is wanted for everything but the probes. */
static bool allowed(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    char host[300], authorization[AW_TOKEN_MAX + 16];
    const struct aw_listen_auth *door = &proxy->config.door;
    if (is_probe(client))
        return true;
    const struct aw_listen_auth_request request = {
        .method = "GET",
        .path = "/v1",
        .host = copied(aw_http1_find(&client->head, "host"), host, sizeof host),
        .authorization = copied(aw_http1_find(&client->head, "authorization"), authorization,
                                sizeof authorization)};
    const enum aw_listen_auth_verdict verdict = aw_listen_auth_judge(door, &request);
    if (verdict == AW_LISTEN_AUTH_NO_HOST || verdict == AW_LISTEN_AUTH_WRONG_HOST) {
        aw__proxy_client_refuse(proxy, client, 403, "wrong_host",
                                "this address answers to localhost and to numeric addresses alone");
        return false;
    }
    if (verdict != AW_LISTEN_AUTH_OPEN ||
        (door->token[0] && !aw_listen_auth_knows(door, request.authorization))) {
        aw__proxy_client_refuse(proxy, client, 401, "no_token",
                                "expected this proxy's token: Authorization: Bearer TOKEN");
        return false;
    }
    return true;
}

/* The pool that serves the model; AW__PROXY_NONE: none does. */
static uint32_t pool_find(const struct aw_proxy *proxy, const char *model)
{
    uint32_t any = AW__PROXY_NONE;
    for (uint32_t p = 0; p < proxy->pool_count; p++) {
        if (*model && !strcmp(proxy->pool[p].model, model))
            return p;
        if (!*proxy->pool[p].model)
            any = p;
    }
    return any != AW__PROXY_NONE || *model ? any : 0;
}

static void request_take(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    struct aw_openai_request said = {0};
    struct aw_diag diag = {0};
    const bool post = aw_http1_is(client->head.method, "POST");
    const bool ordered = post && (aw_http1_is(client->head.path, "/v1/completions") ||
                                  aw_http1_is(client->head.path, "/v1/chat/completions"));
    client->head_method = aw_http1_is(client->head.method, "HEAD");
    client->tries = 0;
    client->request = (struct aw__proxy_request){.number = ++proxy->numbers,
                                                 .arrived_us = proxy->now_us,
                                                 .upstream = AW__PROXY_NONE,
                                                 .ordered = ordered};
    if (client->head.path.len < 4 || memcmp(client->head.path.at, "/v1/", 4) != 0) {
        aw__proxy_client_refuse(
            proxy, client, 404, "no_such_path",
            "expected /v1/..., /metrics, /aware/explain, /aware/status or /healthz");
        return;
    }
    const enum aw_err err = aw_openai_request_read(client->in + client->body_from, client->body_len,
                                                   proxy->text, proxy->large_bytes, &said, &diag);
    if (err && ordered) {
        aw__proxy_client_refuse(proxy, client, 400, "not_json", "%s", diag.text);
        return;
    }
    client->pool = pool_find(proxy, said.model);
    if (client->pool == AW__PROXY_NONE) {
        aw__proxy_client_refuse(proxy, client, 404, "model_not_found",
                                "no upstream serves the model \"%.100s\"", said.model);
        return;
    }
    proxy->count.requests++;
    client->request.stream = said.stream;
    client->request.tokens_max = said.tokens_max;
    snprintf(client->request.model, sizeof client->request.model, "%.39s", said.model);
    if (ordered && proxy->length) {
        struct aw_length_guess guess;
        aw_prompt_read(&client->prompt, proxy->text, said.text_len, said.model, said.tokens_max);
        aw_length_predict(proxy->length, &client->prompt, &guess);
        double tokens = guess.tokens;
        if (said.tokens_max && tokens > said.tokens_max)
            tokens = said.tokens_max;
        client->request.guessed = guess.known;
        client->request.cached = guess.cached;
        client->request.class = guess.class;
        client->request.tokens_guess = guess.known ? (uint32_t)(tokens + 0.5) : 0;
        client->request.tokens_p90 = guess.known ? (uint32_t)(guess.tokens_p90 + 0.5) : 0;
    }
    state_set(proxy, client, AW__PROXY_CLIENT_QUEUED);
    aw__proxy_dispatch_queue(proxy, client);
}

static void request_complete(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    client->close_after = !client->head.keep_alive;
    if (!allowed(proxy, client) || aw__proxy_pages_answer(proxy, client))
        return;
    request_take(proxy, client);
}

void aw__proxy_client_say(struct aw_proxy *proxy, struct aw__proxy_client *client,
                          const char *bytes, size_t len)
{
    client->say = bytes;
    client->say_len = len;
    state_set(proxy, client, AW__PROXY_CLIENT_SAYING);
    say_go(proxy, client);
}

/* ---- a request that arrives ---- */

/* Whether there is room for what still comes; if not, it waits for it. */
static bool large_get(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->large != AW__PROXY_NONE)
        return true;
    if (!proxy->large_free_count) {
        state_set(proxy, client, AW__PROXY_CLIENT_ROOM);
        client->next = AW__PROXY_NONE;
        if (proxy->room_last == AW__PROXY_NONE)
            proxy->room_first = aw__proxy_client_index(proxy, client);
        else
            proxy->client[proxy->room_last].next = aw__proxy_client_index(proxy, client);
        proxy->room_last = aw__proxy_client_index(proxy, client);
        return false;
    }
    client->large = proxy->large_free[--proxy->large_free_count];
    char *large = proxy->large + client->large * proxy->large_bytes;
    memcpy(large, client->in, client->in_len);
    client->in = large;
    client->in_size = proxy->large_bytes;
    /* the head points into the bytes that have moved: the same bytes are the same head */
    AW_ASSERT(aw_http1_request(client->in, client->in_len, &client->head, NULL) == AW_OK);
    return true;
}

void aw__proxy_client_room(struct aw_proxy *proxy)
{
    if (proxy->room_first == AW__PROXY_NONE || !proxy->large_free_count)
        return;
    struct aw__proxy_client *client = &proxy->client[proxy->room_first];
    proxy->room_first = client->next;
    if (proxy->room_first == AW__PROXY_NONE)
        proxy->room_last = AW__PROXY_NONE;
    state_set(proxy, client, AW__PROXY_CLIENT_BODY);
    aw__proxy_client_event(proxy, client);
}

/* Takes the chunks apart in place. False: refused. */
static bool chunks_take(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    while (client->chunk_at < client->in_len && !client->chunks.done) {
        struct aw_http1_span data;
        size_t used = 0;
        if (aw_http1_chunks_take(&client->chunks, client->in + client->chunk_at,
                                 client->in_len - client->chunk_at, &used, &data)) {
            unread(proxy, client, 400, "bad_chunks", "the chunked body is malformed");
            return false;
        }
        if (client->body_len + data.len > proxy->config.body_bytes_max) {
            unread(proxy, client, 413, "too_large", "the request is larger than this proxy takes");
            return false;
        }
        memmove(client->in + client->body_from + client->body_len, data.at, data.len);
        client->body_len += data.len;
        client->chunk_at += used;
    }
    if (!client->chunks.done) { /* everything was taken: the room is free again */
        client->in_len = client->body_from + client->body_len;
        client->chunk_at = client->in_len;
    }
    return true;
}

/* False: more has to come, or it was refused. */
static bool body_complete(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->head.framing == AW_HTTP1_CHUNKED) {
        if (!chunks_take(proxy, client))
            return false;
        if (!client->chunks.done) {
            if (client->in_len == client->in_size)
                (void)large_get(proxy, client);
            return false;
        }
        client->request_bytes = client->chunk_at;
        return true;
    }
    const size_t all = client->head.bytes + (size_t)client->head.length;
    client->body_len = (size_t)client->head.length;
    client->request_bytes = all;
    if (client->in_len >= all)
        return true;
    if (all > client->in_size)
        (void)large_get(proxy, client);
    return false;
}

static void head_take(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    struct aw_diag diag = {0};
    const enum aw_err err = aw_http1_request(client->in, client->in_len, &client->head, &diag);
    if (err == AW_ERR_NODATA)
        return;
    if (err) {
        unread(proxy, client,
               err == AW_ERR_LIMIT         ? 431
               : err == AW_ERR_UNSUPPORTED ? 505
                                           : 400,
               "bad_request", diag.text);
        return;
    }
    const char *line_end = memchr(client->in, '\r', client->head.bytes);
    if (line_end[-1] == '0') { /* an answer in chunks is none to HTTP/1.0 */
        unread(proxy, client, 505, "http_version", "expected HTTP/1.1, found HTTP/1.0");
        return;
    }
    if (client->head.framing == AW_HTTP1_LENGTH &&
        client->head.length > proxy->config.body_bytes_max) {
        unread(proxy, client, 413, "too_large", "the request is larger than this proxy takes");
        return;
    }
    client->body_from = client->head.bytes;
    client->body_len = 0;
    client->chunk_at = client->head.bytes;
    client->chunks = (struct aw_http1_chunks){0};
    client->state = AW__PROXY_CLIENT_BODY; /* the time for all of it runs from the first byte */
    if (client->head.expect_continue) {
        struct iovec part = {(void *)(uintptr_t) "HTTP/1.1 100 Continue\r\n\r\n", 25};
        (void)aw__proxy_write(&client->handle, &part, 1);
    }
}

/* Reads until there is nothing, or a request is complete. False: the client is gone, or no longer
 * reading. */
static bool arrive(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->state == AW__PROXY_CLIENT_HEAD && client->in_len)
        head_take(proxy, client);
    if (client->state == AW__PROXY_CLIENT_BODY && body_complete(proxy, client)) {
        request_complete(proxy, client);
        return client->state ==
               AW__PROXY_CLIENT_HEAD; /* answered, and the next has begun to arrive */
    }
    if (client->state != AW__PROXY_CLIENT_IDLE && client->state != AW__PROXY_CLIENT_HEAD &&
        client->state != AW__PROXY_CLIENT_BODY)
        return false;
    size_t room = client->in_size - client->in_len;
    room = room < AW__PROXY_BUFFER ? room : AW__PROXY_BUFFER;
    if (client->large != AW__PROXY_NONE && client->head.framing == AW_HTTP1_LENGTH &&
        room > client->request_bytes - client->in_len)
        room = client->request_bytes - client->in_len;
    const ssize_t got = aw__proxy_read(&client->handle, client->in + client->in_len, room);
    if (got < 0 || (!got && client->handle.ended && !client->handle.readable)) {
        aw__proxy_client_drop(proxy, client);
        return false;
    }
    if (!got)
        return false;
    if (client->state == AW__PROXY_CLIENT_IDLE)
        state_set(proxy, client, AW__PROXY_CLIENT_HEAD);
    client->in_len += (size_t)got;
    client->moved_us = proxy->now_us;
    return true;
}

void aw__proxy_client_next(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    if (client->close_after) {
        (void)shutdown(client->handle.fd, SHUT_WR);
        large_release(proxy, client);
        state_set(proxy, client, AW__PROXY_CLIENT_ENDING);
        aw__proxy_client_event(proxy, client);
        return;
    }
    const size_t left = client->in_len - client->request_bytes;
    char *from = client->in + client->request_bytes;
    AW_ASSERT(left <= AW__PROXY_BUFFER);
    memmove(client->buffer, from, left);
    client->in_len = left;
    client->request_bytes = 0;
    state_set(proxy, client, left ? AW__PROXY_CLIENT_HEAD : AW__PROXY_CLIENT_IDLE);
    large_release(proxy, client);
    aw__proxy_client_event(proxy, client);
}

void aw__proxy_client_event(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    switch (client->state) {
    case AW__PROXY_CLIENT_IDLE:
    case AW__PROXY_CLIENT_HEAD:
    case AW__PROXY_CLIENT_BODY:
        if (client->arriving)
            return;
        client->arriving = true;
        while (arrive(proxy, client))
            ;
        client->arriving = false;
        return;
    case AW__PROXY_CLIENT_QUEUED:
        if (client->handle.ended)
            aw__proxy_client_drop(proxy, client);
        return;
    case AW__PROXY_CLIENT_LINKED:
        if (client->handle.ended)
            aw__proxy_client_drop(proxy, client);
        else if (client->handle.writable)
            aw__proxy_link_pump(proxy, &proxy->link[client->link]);
        return;
    case AW__PROXY_CLIENT_SAYING:
        say_go(proxy, client);
        return;
    case AW__PROXY_CLIENT_ENDING: {
        char waste[4096];
        ssize_t got;
        while ((got = aw__proxy_read(&client->handle, waste, sizeof waste)) > 0)
            ;
        if (got < 0 || client->handle.ended)
            aw__proxy_client_drop(proxy, client);
        return;
    }
    default:
        return;
    }
}

void aw__proxy_client_sweep(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    const struct aw_proxy_config *c = &proxy->config;
    const int64_t since = proxy->now_us - client->since_us,
                  moved = proxy->now_us - client->moved_us;
    switch (client->state) {
    case AW__PROXY_CLIENT_IDLE:
        if (since > c->idle_us)
            aw__proxy_client_drop(proxy, client);
        return;
    case AW__PROXY_CLIENT_HEAD:
    case AW__PROXY_CLIENT_BODY:
        if (since > c->arrive_us)
            unread(proxy, client, 400, "too_slow", "the request did not arrive in time");
        return;
    case AW__PROXY_CLIENT_ROOM:
        if (since > c->arrive_us) {
            room_leave(proxy, client);
            unread(proxy, client, 503, "full", "too many large requests at once");
        }
        return;
    case AW__PROXY_CLIENT_QUEUED:
        if (since > c->queue_us) {
            aw__proxy_dispatch_leave(proxy, client);
            proxy->count.rejected_time++;
            aw__proxy_dispatch_finish(proxy, client, NULL, false);
            aw__proxy_client_refuse(proxy, client, 503, "waited_too_long",
                                    "no upstream had a slot within %lld s",
                                    (long long)(c->queue_us / 1000000));
        }
        return;
    case AW__PROXY_CLIENT_LINKED: { /* an answer that the client does not take */
        const struct aw__proxy_link *link = &proxy->link[client->link];
        if (!client->handle.writable && link->end > link->begin && moved > c->stall_us)
            aw__proxy_client_drop(proxy, client);
        return;
    }
    case AW__PROXY_CLIENT_SAYING:
        if (moved > c->stall_us)
            aw__proxy_client_drop(proxy, client);
        return;
    case AW__PROXY_CLIENT_ENDING:
        if (since > ENDING_US)
            aw__proxy_client_drop(proxy, client);
        return;
    default:
        return;
    }
}
