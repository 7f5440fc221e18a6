/*
 * balancer_meter.c - how many bytes per second go to a replica, and come from it.
 *
 * A token bucket for each replica and way. It is filled by the tick, which also takes up again what
 * waits for it: until then whoever finds it empty is not read from, or not written to, so that its
 * peer is held up by its own socket, and nobody else is.
 *
 * Among the connections of one replica whoever comes first would take all of it, each time. So what
 * is there at a tick is shared by those who went without before it.
 */
#include "cluster/local/balancer_internal.h"

#include <math.h>

/* What may go at once after a rest: an eighth of a second of the rate, but a buffer at least. */
#define BURST_S 0.125

static double burst(int64_t bytes_per_s)
{
    return fmax((double)bytes_per_s * BURST_S, AW__BUFFER);
}

void aw__meter_reset(struct aw__balancer *b, uint32_t slot)
{
    for (int way = 0; way < AW__METER_WAYS; way++) {
        struct aw__meter *meter = &b->backend[slot].meter[way];
        meter->left = meter->share = burst(b->config.network_bytes_per_s[way]);
        meter->filled_us = b->now_us;
        meter->without = 0;
        meter->round++;
    }
}

void aw__meter_fill(struct aw__balancer *b, uint32_t slot)
{
    for (int way = 0; way < AW__METER_WAYS; way++) {
        struct aw__meter *meter = &b->backend[slot].meter[way];
        const int64_t rate = b->config.network_bytes_per_s[way];
        if (rate == 0)
            continue;
        const double come = 1e-6 * (double)(b->now_us - meter->filled_us) * (double)rate;
        meter->left = fmin(meter->left + come, burst(rate));
        meter->share = meter->left / (meter->without > 0 ? meter->without : 1);
        meter->filled_us = b->now_us;
        meter->without = 0;
        meter->round++;
    }
}

uint32_t aw__meter_look(struct aw__meter *meter, struct aw__metered *who, uint32_t wanted)
{
    if (who->round != meter->round)
        *who = (struct aw__metered){.round = meter->round};
    const double may = fmin(meter->left, fmax(meter->share, 1) - who->taken);
    if (may >= 1)
        return may < wanted ? (uint32_t)may : wanted;
    meter->without += !who->without;
    who->without = true;
    return 0;
}
