/* pages.c - what the proxy tells of itself: probes, metrics, why this order, how it stands. */
#include "proxy/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_ROOM   256u
#define QUEUE_SHOWN 20u
#define PAST_SHOWN  50u
#define SORTED_MAX  1024u

static void metric(struct aw_text *t, const char *name, const char *kind, const char *help)
{
    aw_text_add(t, "# HELP aware_proxy_%s %s\n# TYPE aware_proxy_%s %s\n", name, help, name, kind);
}

static void counter(struct aw_text *t, const char *name, const char *help, double value)
{
    char real[AW_TEXT_REAL_MAX];
    metric(t, name, "counter", help);
    aw_text_add(t, "aware_proxy_%s %s\n", name, aw_text_real(value, real, sizeof real));
}

/* Bounds in microseconds, of a token and of an answer alike. */
static void histogram(struct aw_text *t, const char *name, const char *help,
                      const struct aw_latency_histogram *h)
{
    static const int64_t bounds[] = {1000,    2500,    5000,     10000,    25000,
                                     50000,   100000,  250000,   500000,   1000000,
                                     2500000, 5000000, 10000000, 30000000, 60000000};
    char real[AW_TEXT_REAL_MAX];
    metric(t, name, "histogram", help);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        aw_text_add(t, "aware_proxy_%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
                    aw_text_real((double)bounds[i] / 1e6, real, sizeof real),
                    h->count - aw_latency_histogram_above(h, bounds[i]));
    aw_text_add(t, "aware_proxy_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->count);
    aw_text_add(t, "aware_proxy_%s_sum %s\naware_proxy_%s_count %" PRIu64 "\n", name,
                aw_text_real(h->sum_us / 1e6, real, sizeof real), name, h->count);
}

static void metrics(const struct aw_proxy *proxy, struct aw_text *t)
{
    const struct aw__proxy_counters *c = &proxy->count;
    counter(t, "requests_total", "Requests that were taken in.", (double)c->requests);
    counter(t, "answered_total", "Answers that passed whole.", (double)c->answered);
    counter(t, "aborted_total", "Requests whose client left.", (double)c->aborted);
    counter(t, "upstream_failures_total", "Requests that an upstream failed.",
            (double)c->upstream_failed);
    counter(t, "cut_answers_total", "Answers that an upstream left unfinished.",
            (double)c->errors_mid_stream);
    counter(t, "retries_total", "Requests sent again before any byte of an answer.",
            (double)c->retried);
    counter(t, "refused_full_total", "Requests refused because the queue was full.",
            (double)c->rejected_full);
    counter(t, "refused_late_total", "Requests refused because they waited too long.",
            (double)c->rejected_time);
    counter(t, "bad_requests_total", "Requests that were refused as they are.",
            (double)c->bad_requests);
    counter(t, "connections_total", "Connections that were accepted.", (double)c->accepted);
    counter(t, "tokens_total", "Tokens, or events of streams, that passed.", (double)c->tokens);
    counter(t, "answer_bytes_total", "Bytes of answers that passed.", (double)c->bytes_out);
    counter(t, "lengths_learned_total", "Answers that the predictor has learned from.",
            (double)c->learned);
    metric(t, "connections", "gauge", "Connections that are open.");
    aw_text_add(t, "aware_proxy_connections %u\n", proxy->clients);
    metric(t, "waiting", "gauge", "Requests that wait for a slot.");
    for (uint32_t p = 0; p < proxy->pool_count; p++)
        aw_text_add(t, "aware_proxy_waiting{pool=\"%u\"} %u\n", p, proxy->pool[p].queue.count);
    metric(t, "in_flight", "gauge", "Requests that an upstream has.");
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        aw_text_add(t, "aware_proxy_in_flight{upstream=\"%s\"} %u\n", proxy->upstream[i].text,
                    proxy->upstream[i].in_flight);
    metric(t, "upstream_up", "gauge", "1: its last health check was good.");
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        aw_text_add(t, "aware_proxy_upstream_up{upstream=\"%s\"} %d\n", proxy->upstream[i].text,
                    proxy->upstream[i].healthy);
    histogram(t, "ttft_seconds", "From a whole request to the first byte of its answer's body.",
              &proxy->ttft);
    histogram(t, "tpot_seconds", "Between two tokens of an answer, mean of each.", &proxy->tpot);
    histogram(t, "latency_seconds", "From a whole request to the end of its answer.",
              &proxy->latency);
    histogram(t, "queue_seconds", "In the queue.", &proxy->wait);
    if (proxy->config.devices) {
        char real[AW_TEXT_REAL_MAX];
        metric(t, "joules_total", "counter", "Energy of the devices, while requests ran and not.");
        aw_text_add(t, "aware_proxy_joules_total{kind=\"busy\"} %s\n",
                    aw_text_real(proxy->busy_j, real, sizeof real));
        aw_text_add(t, "aware_proxy_joules_total{kind=\"idle\"} %s\n",
                    aw_text_real(proxy->idle_j, real, sizeof real));
    }
    if (proxy->power)
        aw__power_metrics(proxy->power, t);
}

static void quoted(struct aw_text *t, const char *text)
{
    aw_text_add_bytes(t, "\"", 1);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\')
            aw_text_add(t, "\\u%04x", (unsigned char)*text);
        else
            aw_text_add_bytes(t, text, 1);
    }
    aw_text_add_bytes(t, "\"", 1);
}

static int by_key(const void *a, const void *b)
{
    const struct aw_serving_waiting *x = a, *y = b;
    return x->key < y->key   ? -1
           : x->key > y->key ? 1
                             : (x->number > y->number) - (x->number < y->number);
}

static void waiting_add(const struct aw_proxy *proxy, struct aw_text *t)
{
    static struct aw_serving_waiting sorted[SORTED_MAX]; /* the loop has one thread */
    uint32_t shown = 0;
    for (uint32_t p = 0; p < proxy->pool_count; p++) {
        const struct aw_serving_queue *queue = &proxy->pool[p].queue;
        const uint32_t count = queue->count < SORTED_MAX ? queue->count : SORTED_MAX;
        memcpy(sorted, queue->heap, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_key);
        for (uint32_t i = 0; i < count && i < QUEUE_SHOWN; i++) {
            const struct aw__proxy_request *r = &proxy->client[sorted[i].id].request;
            aw_text_add(t, "%s{\"request\":%" PRIu64 ",\"model\":", shown++ ? "," : "", r->number);
            quoted(t, r->model);
            aw_text_add(t, ",\"waited_ms\":%.1f,\"predicted_tokens\":",
                        (double)(proxy->now_us - r->arrived_us) / 1e3);
            if (r->guessed)
                aw_text_add(t, "%u", r->tokens_guess);
            else
                aw_text_add(t, "null");
            aw_text_add(t, ",\"key_s\":%.6f}", r->key - (double)proxy->now_us / 1e6);
        }
    }
}

static void past_add(const struct aw_proxy *proxy, struct aw_text *t,
                     const struct aw__proxy_request *r)
{
    const double ms = 1e-3;
    aw_text_add(t, "{\"request\":%" PRIu64 ",\"model\":", r->number);
    quoted(t, r->model);
    aw_text_add(t, ",\"upstream\":");
    quoted(t, r->upstream == AW__PROXY_NONE ? "" : proxy->upstream[r->upstream].text);
    aw_text_add(t, ",\"status\":%d,\"complete\":%s,\"stream\":%s", r->status,
                r->failed ? "false" : "true", r->stream ? "true" : "false");
    if (r->guessed)
        aw_text_add(t, ",\"predicted_tokens\":%u,\"class\":%u,\"seen_before\":%s", r->tokens_guess,
                    r->class, r->cached ? "true" : "false");
    aw_text_add(t, ",\"tokens\":%u,\"bytes\":%" PRIu64, r->tokens, r->bytes);
    aw_text_add(t, ",\"latency_ms\":%.2f", (double)(r->last_us - r->arrived_us) * ms);
    if (r->sent_us)
        aw_text_add(t, ",\"queue_ms\":%.2f", (double)(r->sent_us - r->arrived_us) * ms);
    if (r->streamed)
        aw_text_add(t, ",\"ttft_ms\":%.2f", (double)(r->first_us - r->arrived_us) * ms);
    if (r->streamed && r->tokens > 1)
        aw_text_add(t, ",\"tpot_ms\":%.3f",
                    (double)(r->last_us - r->first_us) * ms / (r->tokens - 1));
    if (proxy->config.devices)
        aw_text_add(t, ",\"joules\":%.3f", r->joules);
    aw_text_add(t, ",\"why\":\"");
    if (!r->sent_us)
        aw_text_add(t, "never sent to an upstream");
    else if (!r->waiting)
        aw_text_add(t, "nobody else waited");
    else if (r->passed)
        aw_text_add(t,
                    "served before %u that came earlier: %u tokens were predicted, which is %.2f s "
                    "of work",
                    r->passed, r->tokens_guess, r->tokens_guess * proxy->token_s);
    else
        aw_text_add(t, "the first to come of %u that waited", r->waiting + 1);
    aw_text_add(t, "\"}");
}

static void explain(const struct aw_proxy *proxy, struct aw_text *t)
{
    aw_text_add(t,
                "{\"order\":\"%s\",\"alpha\":%g,\"seconds_per_token\":%.5f,"
                "\"lengths_learned\":%" PRIu64 ",\"waiting\":[",
                aw_serving_order_name(proxy->config.order.kind), proxy->config.order.alpha,
                proxy->token_s, proxy->count.learned);
    waiting_add(proxy, t);
    aw_text_add(t, "],\"finished\":[");
    const uint64_t kept = proxy->past_count < AW__PROXY_PAST ? proxy->past_count : AW__PROXY_PAST;
    for (uint64_t i = 0; i < kept && i < PAST_SHOWN; i++) {
        aw_text_add(t, "%s", i ? "," : "");
        past_add(proxy, t, &proxy->past[(proxy->past_count - 1 - i) % AW__PROXY_PAST]);
    }
    aw_text_add(t, "]}\n");
}

static double share_ms(const struct aw_latency_histogram *h, double q)
{
    return (double)aw_latency_histogram_quantile(h, q) / 1e3;
}

static void status(const struct aw_proxy *proxy, struct aw_text *t)
{
    static const char *const names[] = {"queue", "ttft", "tpot", "latency"};
    const struct aw_latency_histogram *const all[] = {&proxy->wait, &proxy->ttft, &proxy->tpot,
                                                      &proxy->latency};
    aw_text_add(t,
                "{\"connections\":%u,\"requests\":%" PRIu64 ",\"answered\":%" PRIu64
                ",\"tokens\":%" PRIu64 ",\"milliseconds\":{",
                proxy->clients, proxy->count.requests, proxy->count.answered, proxy->count.tokens);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        aw_text_add(t, "%s\"%s\":{\"p50\":%.3f,\"p95\":%.3f,\"p99\":%.3f}", i ? "," : "", names[i],
                    share_ms(all[i], .5), share_ms(all[i], .95), share_ms(all[i], .99));
    aw_text_add(t, "},");
    if (proxy->config.devices)
        aw_text_add(t, "\"joules\":{\"busy\":%.3f,\"idle\":%.3f,\"per_token\":%.4f},",
                    proxy->busy_j, proxy->idle_j,
                    proxy->count.tokens ? proxy->busy_j / (double)proxy->count.tokens : 0);
    aw_text_add(t, "\"upstreams\":[");
    for (uint32_t i = 0; i < proxy->upstream_count; i++) {
        const struct aw__proxy_upstream *up = &proxy->upstream[i];
        aw_text_add(t, "%s{\"address\":\"%s\",\"model\":", i ? "," : "", up->text);
        quoted(t, up->config.model);
        aw_text_add(t, ",\"healthy\":%s,\"why\":", up->healthy ? "true" : "false");
        quoted(t, up->why);
        aw_text_add(t,
                    ",\"in_flight\":%u,\"slots\":%u,\"served\":%" PRIu64 ",\"failed\":%" PRIu64
                    ",\"tokens\":%" PRIu64 ",\"waiting\":%u}",
                    up->in_flight, proxy->config.slots, up->served, up->failed, up->tokens,
                    proxy->pool[up->pool].queue.count);
    }
    aw_text_add(t, "]}\n");
}

/* Why is the clock of a device where it is? */
static void clocks(const struct aw_proxy *proxy, struct aw_text *t)
{
    aw_text_add(t, "{\"clocks\":");
    if (proxy->power)
        aw__power_explain(proxy->power, t);
    else
        aw_text_add(t, "[]");
    aw_text_add(t, "}\n");
}

static void ready(const struct aw_proxy *proxy, struct aw_text *t)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        up += proxy->upstream[i].healthy;
    aw_text_add(t, "%s: %u of %u upstreams are up\n", up ? "ready" : "not ready", up,
                proxy->upstream_count);
}

static void healthy(const struct aw_proxy *proxy, struct aw_text *t)
{
    (void)proxy;
    aw_text_add(t, "ok\n");
}

bool aw__proxy_pages_answer(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    static const struct {
        const char *path, *type;
        void (*make)(const struct aw_proxy *proxy, struct aw_text *text);
    } pages[] = {
        {"/healthz", "text/plain", healthy},
        {"/readyz", "text/plain", ready},
        {"/metrics", "text/plain; version=0.0.4", metrics},
        {"/aware/explain", "application/json", explain},
        {"/aware/status", "application/json", status},
        {"/aware/clocks", "application/json", clocks},
    };
    uint32_t page = 0, i = 0;
    while (i < sizeof pages / sizeof *pages && !aw_http1_is(client->head.path, pages[i].path))
        i++;
    if (i == sizeof pages / sizeof *pages)
        return false;
    if (!aw_http1_is(client->head.method, "GET")) {
        aw__proxy_client_refuse(proxy, client, 405, "method", "expected GET");
        return true;
    }
    while (page < AW__PROXY_PAGES && proxy->page_busy[page])
        page++;
    if (page == AW__PROXY_PAGES) {
        aw__proxy_client_refuse(proxy, client, 503, "busy",
                                "too many pages are being read at once");
        return true;
    }
    proxy->page_busy[page] = true;
    client->page = page;
    char *at = proxy->pages + page * AW__PROXY_PAGE;
    struct aw_text text;
    aw_text_init(&text, at + HEAD_ROOM, AW__PROXY_PAGE - HEAD_ROOM);
    pages[i].make(proxy, &text);
    const bool fine = strncmp(at + HEAD_ROOM, "not ready", 9) != 0;
    char head[HEAD_ROOM];
    const int len = snprintf(head, sizeof head,
                             "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                             fine ? "200 OK" : "503 Service Unavailable", pages[i].type, text.len,
                             client->close_after ? "Connection: close\r\n" : "");
    memcpy(at + HEAD_ROOM - len, head, (size_t)len);
    aw__proxy_client_say(proxy, client, at + HEAD_ROOM - len, (size_t)len + text.len);
    return true;
}
