/*
 * measure.c - what the clocks are told of each upstream: who is there, how long each still has
 * until its SLO is missed, and how much work that is at the largest clock.
 *
 * Times are measured at the clock that the devices have then; a + b/x with m = a/(a + b) takes them
 * to the largest one. What was never measured is not known, and the clocks stay up.
 */
#include "proxy/internal.h"

#include <math.h>

#define GAIN        0.1  /* of means over answers */
#define RATE_GAIN   0.05 /* of means over ticks of 100 ms: two seconds */
#define MEMORY      0.5  /* m of decoding on a V100 (serving/catalog.h); lower is more careful */
#define KNOWN_AFTER 8u   /* answers until their times are believed */

enum { LATENCY, TTFT, TPOT };

static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

static double memory_of(const struct aw_proxy *proxy)
{
    return proxy->config.power.memory > 0 ? proxy->config.power.memory : MEMORY;
}

/* How much longer something takes at this clock than at the largest. */
static double slower(const struct aw_proxy *proxy, uint32_t upstream)
{
    const double m = memory_of(proxy);
    return m + (1 - m) / aw__power_clock(proxy->power, upstream);
}

static double slo_of(const struct aw_proxy *proxy, uint32_t goal)
{
    const struct aw_proxy_power *p = &proxy->config.power;
    return goal == LATENCY ? p->latency_s : goal == TTFT ? p->ttft_s : p->tpot_s;
}

static void worst_note(struct aw_proxy *proxy, struct aw__proxy_speed *speed, uint32_t goal,
                       double value_s)
{
    const int64_t second = proxy->now_us / 1000000;
    for (int64_t s = speed->second + 1; s <= second; s++) {
        if (s + AW__PROXY_WINDOW < second)
            s = second - AW__PROXY_WINDOW;
        for (uint32_t g = 0; g < AW_CLOCKS_GOALS; g++)
            speed->worst_s[g][s % AW__PROXY_WINDOW] = 0;
    }
    speed->second = second;
    double *worst = &speed->worst_s[goal][second % AW__PROXY_WINDOW];
    *worst = fmax(*worst, value_s);
    if (slo_of(proxy, goal) > 0 && value_s > slo_of(proxy, goal))
        speed->missed_s = seconds(proxy->now_us);
}

static void blend(double *mean, double value, uint64_t count)
{
    *mean += fmax(GAIN, 1.0 / (double)(count + 1)) * (value - *mean);
}

void aw__proxy_measure_init(struct aw_proxy *proxy)
{
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        proxy->upstream[i].speed = (struct aw__proxy_speed){.missed_s = -INFINITY};
}

void aw__proxy_measure_finish(struct aw_proxy *proxy, const struct aw__proxy_request *r)
{
    struct aw__proxy_speed *speed = &proxy->upstream[r->upstream].speed;
    speed->begun++;
    if (r->failed || !r->ordered || r->status >= 300 || !r->sent_us)
        return;
    const double factor = slower(proxy, r->upstream);
    const double latency_s = seconds(r->last_us - r->arrived_us);
    const double service_s = seconds(r->last_us - r->sent_us);
    worst_note(proxy, speed, LATENCY, latency_s);
    if (r->streamed && r->first_us) {
        worst_note(proxy, speed, TTFT, seconds(r->first_us - r->arrived_us));
        blend(&speed->first_s, seconds(r->first_us - r->sent_us) / factor, speed->firsts);
        if (r->tokens > 1) {
            const double token_s = seconds(r->last_us - r->first_us) / (r->tokens - 1);
            worst_note(proxy, speed, TPOT, token_s);
            blend(&speed->token_s, token_s / factor, speed->firsts);
        }
        speed->firsts++;
    } else if (r->tokens) {
        blend(&speed->token_s, service_s / factor / r->tokens, speed->firsts);
        speed->firsts++;
    }
    blend(&speed->service_s, service_s / factor, speed->answers);
    speed->answers++;
    const double slo_s = proxy->config.power.latency_s;
    const bool late = slo_s > 0 && latency_s > slo_s;
    const bool blamed = late && latency_s - service_s + service_s / factor <= slo_s;
    speed->caution = aw_power_learn(&proxy->config.power.rule, speed->caution, blamed);
}

/* What is left to do of a request, at the largest clock. False: it is not known. */
static bool work_left(const struct aw__proxy_speed *speed, const struct aw__proxy_request *r,
                      uint32_t tokens, double *ret_s)
{
    uint32_t all = r->tokens_p90;
    if (r->tokens_max && (!all || all > r->tokens_max || tokens >= all))
        all = r->tokens_max;
    if (!all || tokens > all) /* longer than nine of ten are: nobody knows */
        return false;
    *ret_s = (all - tokens) * speed->token_s + (r->first_us ? 0 : speed->first_s);
    return true;
}

static void item_add(struct aw_power_item *item, uint32_t *count, double left_s, double work_s,
                     double memory)
{
    if (*count < AW_POWER_ITEMS_MAX)
        item[(*count)++] = (struct aw_power_item){left_s, work_s, memory};
}

/* One that an upstream has. */
static void running_add(struct aw_proxy *proxy, struct aw_clocks_server *s,
                        const struct aw__proxy_link *link)
{
    const struct aw_proxy_power *p = &proxy->config.power;
    struct aw__proxy_speed *speed = &proxy->upstream[link->upstream].speed;
    const struct aw__proxy_request *r = &proxy->client[link->client].request;
    const uint32_t tokens = aw_openai_answer_tokens(&link->answer);
    const double age_s = seconds(proxy->now_us - r->arrived_us);
    double work_s = 0;
    if (!r->ordered)
        return;
    worst_note(proxy, speed, LATENCY, age_s);
    if (r->stream && !r->first_us) {
        worst_note(proxy, speed, TTFT, age_s);
        if (p->ttft_s > 0)
            item_add(s->run, &s->runs, p->ttft_s - age_s, speed->first_s, s->memory);
    } else if (tokens > 1) {
        worst_note(proxy, speed, TPOT, seconds(proxy->now_us - r->first_us) / tokens);
    }
    if (p->tpot_s > 0)
        item_add(s->run, &s->runs, p->tpot_s, speed->token_s, s->memory);
    if (p->latency_s > 0) {
        s->known &= work_left(speed, r, tokens, &work_s);
        item_add(s->run, &s->runs, p->latency_s - age_s, work_s, s->memory);
    }
    if (s->runs == AW_POWER_ITEMS_MAX) /* more than are looked at: the rest may be tighter */
        s->known = false;
}

/* One that waits: behind what runs and what is before it, each by its share of a slot. */
static void waiting_add(struct aw_proxy *proxy, struct aw_clocks_server *s, uint32_t upstream,
                        const struct aw__proxy_request *r)
{
    const struct aw_proxy_power *p = &proxy->config.power;
    struct aw__proxy_speed *speed = &proxy->upstream[upstream].speed;
    const double age_s = seconds(proxy->now_us - r->arrived_us);
    double work_s = 0, left_s = INFINITY;
    worst_note(proxy, speed, LATENCY, age_s);
    if (r->stream)
        worst_note(proxy, speed, TTFT, age_s);
    s->known &= work_left(speed, r, 0, &work_s);
    if (p->latency_s > 0)
        left_s = p->latency_s - age_s - work_s * (1 - 1.0 / s->slots);
    if (p->ttft_s > 0 && r->stream)
        left_s = fmin(left_s, p->ttft_s - age_s + work_s / s->slots);
    item_add(s->wait, &s->waits, left_s, work_s / s->slots, s->memory);
}

static void queue_add(struct aw_proxy *proxy, struct aw_clocks_server *s, uint32_t upstream)
{
    const struct aw_serving_queue *queue = &proxy->pool[proxy->upstream[upstream].pool].queue;
    s->waiting = queue->count;
    if (!queue->count)
        return;
    double ahead_s = 0;
    for (uint32_t i = 0; i < s->runs; i++)
        ahead_s += s->run[i].work_s;
    item_add(s->wait, &s->waits, INFINITY, ahead_s / s->slots, s->memory);
    for (uint32_t i = 0; i < queue->count && i < AW_POWER_ITEMS_MAX; i++)
        waiting_add(proxy, s, upstream, &proxy->client[queue->heap[i].id].request);
    if (s->waits == AW_POWER_ITEMS_MAX)
        s->known = false;
}

static void server_begin(struct aw_proxy *proxy, uint32_t i, double span_s)
{
    const struct aw__proxy_upstream *up = &proxy->upstream[i];
    struct aw__proxy_speed *speed = &proxy->upstream[i].speed;
    struct aw_clocks_server *s = &proxy->measured[i];
    const double use = (double)up->in_flight / proxy->config.slots / slower(proxy, i);
    speed->load += RATE_GAIN * (use - speed->load);
    if (span_s > 0)
        speed->rate_per_s += RATE_GAIN * ((double)speed->begun / span_s - speed->rate_per_s);
    speed->begun = 0;
    *s = (struct aw_clocks_server){.at_s = seconds(proxy->now_us),
                                   .memory = memory_of(proxy),
                                   .load = speed->load,
                                   .rate_per_s = speed->rate_per_s,
                                   .slack_s = proxy->config.power.latency_s - speed->service_s,
                                   .caution = speed->caution,
                                   .healthy = up->healthy,
                                   .known = speed->firsts >= KNOWN_AFTER,
                                   .slots = proxy->config.slots,
                                   .in_flight = up->in_flight};
}

static void server_end(struct aw_proxy *proxy, uint32_t i)
{
    struct aw__proxy_speed *speed = &proxy->upstream[i].speed;
    struct aw_clocks_server *s = &proxy->measured[i];
    worst_note(proxy, speed, LATENCY, 0); /* what is older than the window goes */
    for (uint32_t g = 0; g < AW_CLOCKS_GOALS; g++) {
        s->goal[g] = (struct aw_miad_seen){.slo_s = slo_of(proxy, g), .memory = s->memory};
        for (uint32_t k = 0; k < AW__PROXY_WINDOW; k++)
            s->goal[g].worst_s = fmax(s->goal[g].worst_s, speed->worst_s[g][k]);
        s->goal[g].latency_s = s->goal[g].worst_s;
    }
    s->missed_s = speed->missed_s;
}

void aw__proxy_measure_tick(struct aw_proxy *proxy)
{
    const double span_s = proxy->measured_us ? seconds(proxy->now_us - proxy->measured_us) : 0;
    proxy->measured_us = proxy->now_us;
    for (uint32_t i = 0; i < proxy->upstream_count; i++)
        server_begin(proxy, i, span_s);
    for (uint32_t i = 0; i < proxy->link_count; i++) {
        const struct aw__proxy_link *link = &proxy->link[i];
        if (link->client != AW__PROXY_NONE &&
            (link->state == AW__PROXY_LINK_BUSY || link->state == AW__PROXY_LINK_CONNECTING))
            running_add(proxy, &proxy->measured[link->upstream], link);
    }
    for (uint32_t i = 0; i < proxy->upstream_count; i++) {
        queue_add(proxy, &proxy->measured[i], i);
        server_end(proxy, i);
    }
    aw__power_publish(proxy->power, proxy->measured, proxy->upstream_count);
}
