/* dispatch.c - who is next, and what came of it. */
#include "proxy/internal.h"

#define SEEN_MAX 512u /* waiting requests that are compared for the explanation */

static uint32_t upstream_choose(const struct aw_proxy *proxy, uint32_t pool)
{
    uint32_t best = AW__PROXY_NONE;
    for (uint32_t i = 0; i < proxy->upstream_count; i++) {
        const struct aw__proxy_upstream *up = &proxy->upstream[i];
        if (up->pool == pool && up->healthy && up->in_flight < proxy->config.slots &&
            (best == AW__PROXY_NONE || up->in_flight < proxy->upstream[best].in_flight))
            best = i;
    }
    return best;
}

void aw__proxy_dispatch_queue(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    struct aw__proxy_pool *pool = &proxy->pool[client->pool];
    struct aw__proxy_request *request = &client->request;
    /* seconds of work, as the key wants it: nothing is known, nothing is preferred */
    const double work_s = request->guessed ? request->tokens_guess * proxy->token_s : 0;
    request->key = aw_serving_key(&proxy->config.order, (double)request->arrived_us / 1e6, work_s);
    if (pool->queue.count >= proxy->config.queue_max)
        aw__proxy_dispatch_run(proxy); /* of those who came in the same moment some have slots */
    if (pool->queue.count >= proxy->config.queue_max ||
        !aw_serving_queue_push(&pool->queue, aw__proxy_client_index(proxy, client), request->key)) {
        proxy->count.rejected_full++;
        aw__proxy_client_refuse(proxy, client, 503, "queue_full", "%u requests are waiting already",
                                pool->queue.count);
        return;
    }
    proxy->dispatch_due = true;
}

void aw__proxy_dispatch_leave(struct aw_proxy *proxy, struct aw__proxy_client *client)
{
    (void)aw_serving_queue_remove(&proxy->pool[client->pool].queue,
                                  aw__proxy_client_index(proxy, client));
}

/* How many that came earlier go on waiting: what the order did for this one. */
static uint32_t passed_count(const struct aw_proxy *proxy, const struct aw__proxy_pool *pool,
                             uint64_t number)
{
    const uint32_t count = pool->queue.count < SEEN_MAX ? pool->queue.count : SEEN_MAX;
    uint32_t passed = 0;
    for (uint32_t i = 0; i < count; i++)
        passed += proxy->client[pool->queue.heap[i].id].request.number < number;
    return passed;
}

void aw__proxy_dispatch_run(struct aw_proxy *proxy)
{
    proxy->dispatch_due = false;
    for (uint32_t p = 0; p < proxy->pool_count; p++) {
        struct aw__proxy_pool *pool = &proxy->pool[p];
        while (pool->queue.count) {
            const uint32_t up = upstream_choose(proxy, p);
            uint32_t index = 0;
            if (up == AW__PROXY_NONE || !aw_serving_queue_pop(&pool->queue, &index))
                break;
            struct aw__proxy_client *client = &proxy->client[index];
            client->request.waiting = pool->queue.count;
            client->request.passed = passed_count(proxy, pool, client->request.number);
            if (!aw__proxy_link_begin(proxy, client, up)) { /* that upstream is down now: another */
                (void)aw_serving_queue_push(&pool->queue, index, client->request.key);
                if (proxy->upstream[up].healthy)
                    break; /* no descriptor or no link: later */
            }
        }
    }
}

static void learn(struct aw_proxy *proxy, struct aw__proxy_client *client,
                  const struct aw__proxy_link *link)
{
    const struct aw__proxy_request *r = &client->request;
    const double service_s = (double)(r->last_us - r->sent_us) / 1e6;
    if (!r->tokens)
        return;
    proxy->token_s += 0.02 * (service_s / r->tokens - proxy->token_s);
    /* an answer that a limit cut off does not tell how long it would have been */
    if (!proxy->length || !r->ordered || link->answer.cut ||
        (r->tokens_max && r->tokens >= r->tokens_max))
        return;
    aw_length_learn(proxy->length, &client->prompt, r->tokens);
    proxy->count.learned++;
}

void aw__proxy_dispatch_finish(struct aw_proxy *proxy, struct aw__proxy_client *client,
                               const struct aw__proxy_link *link, bool well)
{
    struct aw__proxy_request *r = &client->request;
    if (!r->last_us)
        r->last_us = proxy->now_us;
    if (link) {
        r->streamed = link->sse && r->first_us; /* of others the first byte says nothing */
        r->tokens = aw_openai_answer_tokens(&link->answer);
        proxy->count.tokens += r->tokens;
        if (r->upstream != AW__PROXY_NONE)
            proxy->upstream[r->upstream].tokens += r->tokens;
    }
    r->failed = !well;
    proxy->energy_tokens += r->tokens - r->energy_tokens + 1;
    if (well) {
        proxy->count.answered++;
        aw_latency_histogram_record(&proxy->latency, r->last_us - r->arrived_us);
        aw_latency_histogram_record(&proxy->wait, r->sent_us - r->arrived_us);
        if (r->streamed)
            aw_latency_histogram_record(&proxy->ttft, r->first_us - r->arrived_us);
        if (r->tokens > 1 && r->streamed)
            aw_latency_histogram_record(&proxy->tpot, (r->last_us - r->first_us) / (r->tokens - 1));
        if (link && r->status < 300)
            learn(proxy, client, link);
    }
    if (proxy->power && r->upstream != AW__PROXY_NONE)
        aw__proxy_measure_finish(proxy, r);
    proxy->past[proxy->past_count++ % AW__PROXY_PAST] = *r;
}
