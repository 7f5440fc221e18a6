/* relay.c - see relay.h. */
#include "congestion/relay.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define RING_MASK (AW_RELAY_PACKETS_MAX - 1u)

static double served(const struct aw_link *link, double time_s)
{
    return link->trace ? aw_bandwidth_served(link->trace, time_s) : link->rate * time_s;
}

static double when(const struct aw_link *link, double packets)
{
    return link->trace ? aw_bandwidth_when(link->trace, packets) : packets / link->rate;
}

double aw_link_capacity(const struct aw_link *link, double from_s, double until_s)
{
    return served(link, until_s) - served(link, from_s);
}

enum aw_err aw_relay_open(struct aw_relay *relay, const struct aw_link *link, uint64_t seed,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *relay = (struct aw_relay){.link = *link, .alloc = alloc};
    aw_rng_init(&relay->rng, seed, 0x77697265 /* "wire" */);
    relay->slot = aw_alloc_new(alloc, AW_RELAY_PACKETS_MAX, sizeof *relay->slot);
    return relay->slot ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a link's packets");
}

void aw_relay_close(struct aw_relay *relay)
{
    aw_alloc_free(relay->alloc, relay->slot);
    *relay = (struct aw_relay){0};
}

enum aw_relay_fate aw_relay_put(struct aw_relay *relay, const void *data, uint32_t bytes,
                                uint16_t tag, double now_s, double *ret_due_s)
{
    const struct aw_link *link = &relay->link;
    double out_s = now_s;
    AW_ASSERT(bytes <= AW_RELAY_BYTES_MAX);
    if (link->loss > 0 && aw_rng_double(&relay->rng) < link->loss)
        return AW_RELAY_LOST;
    if (relay->tail - relay->head >= AW_RELAY_PACKETS_MAX)
        return AW_RELAY_DROPPED;
    if (link->queue > 0) {
        const double done = served(link, now_s);
        const double from = fmax(relay->backlog_end, done);
        if (from - done > link->queue)
            return AW_RELAY_DROPPED;
        relay->backlog_end = from + bytes * 8 / AW_PACKET_BITS;
        out_s = fmax(when(link, relay->backlog_end), now_s);
    }
    struct aw_relay_slot *slot = &relay->slot[relay->tail++ & RING_MASK];
    *ret_due_s = slot->due_s = out_s + link->delay_s;
    slot->bytes = (uint16_t)bytes;
    slot->tag = tag;
    memcpy(slot->data, data, bytes);
    return AW_RELAY_TAKEN;
}

double aw_relay_due(const struct aw_relay *relay)
{
    return relay->head == relay->tail ? (double)INFINITY
                                      : relay->slot[relay->head & RING_MASK].due_s;
}

const struct aw_relay_slot *aw_relay_take(struct aw_relay *relay, double now_s)
{
    if (aw_relay_due(relay) > now_s)
        return NULL;
    return &relay->slot[relay->head++ & RING_MASK];
}
