/*
 * energy.c - joules per request. What the devices used in a second is idle energy for the part of
 * the second in which nothing was in flight; the rest is shared out to the requests of that second
 * by their tokens, each with one more for being there (its prompt). Both sum to the counters. A
 * device draws more while it works, so where a second has both parts the idle one is told too high.
 */
#include "proxy/internal.h"

static double used_joules(struct aw_proxy *proxy)
{
    const struct aw_devices *d = proxy->config.devices;
    const uint32_t count = proxy->device_count;
    double joules = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct aw_device_reading r;
        /* the thread of the clocks owns the devices, where there is one */
        const bool read = proxy->power ? aw__power_reading(proxy->power, i, &r)
                                       : !d->ops->read(d->self, i, proxy->now_us, &r, NULL);
        if (!read || !(r.known & AW_DEVICE_ENERGY)) {
            proxy->energy_known[i] = false; /* a device that was lost begins anew */
            continue;
        }
        if (proxy->energy_known[i] && r.energy_uj >= proxy->energy_last_uj[i])
            joules += (double)(r.energy_uj - proxy->energy_last_uj[i]) / 1e6;
        proxy->energy_known[i] = true;
        proxy->energy_last_uj[i] = r.energy_uj;
    }
    return joules;
}

void aw__proxy_energy_tick(struct aw_proxy *proxy)
{
    const double joules = used_joules(proxy);
    double weight = (double)proxy->energy_tokens;
    const int64_t span_us = proxy->now_us - proxy->energy_us;
    proxy->energy_us = proxy->now_us;
    for (uint32_t i = 0; i < proxy->link_count; i++) {
        const struct aw__proxy_link *link = &proxy->link[i];
        if (link->client == AW__PROXY_NONE ||
            (link->state != AW__PROXY_LINK_BUSY && link->state != AW__PROXY_LINK_CONNECTING))
            continue;
        weight += aw_openai_answer_tokens(&link->answer) -
                  proxy->client[link->client].request.energy_tokens + 1.0;
    }
    if (proxy->in_flight) {
        proxy->busy_us += proxy->now_us - proxy->busy_since_us;
        proxy->busy_since_us = proxy->now_us;
    }
    const double share = span_us > 0 && weight > 0 ? (double)proxy->busy_us / (double)span_us : 0;
    const double busy = joules * (share < 1 ? share : 1);
    proxy->busy_us = 0;
    proxy->busy_j += busy;
    proxy->idle_j += joules - busy;
    const double each = weight > 0 ? busy / weight : 0;
    for (uint32_t i = 0; i < proxy->link_count; i++) {
        const struct aw__proxy_link *link = &proxy->link[i];
        if (link->client == AW__PROXY_NONE ||
            (link->state != AW__PROXY_LINK_BUSY && link->state != AW__PROXY_LINK_CONNECTING))
            continue;
        struct aw__proxy_request *r = &proxy->client[link->client].request;
        const uint32_t tokens = aw_openai_answer_tokens(&link->answer);
        r->joules += each * (tokens - r->energy_tokens + 1.0);
        r->energy_tokens = tokens;
    }
    if (proxy->past_count - proxy->past_settled > AW__PROXY_PAST)
        proxy->past_settled = proxy->past_count - AW__PROXY_PAST;
    for (; proxy->past_settled < proxy->past_count; proxy->past_settled++) {
        struct aw__proxy_request *r = &proxy->past[proxy->past_settled % AW__PROXY_PAST];
        r->joules += each * (r->tokens - r->energy_tokens + 1.0);
        r->energy_tokens = r->tokens;
    }
    proxy->energy_tokens = 0;
}
