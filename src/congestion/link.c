/* link.c - see link.h. */
#include "congestion/link.h"

#include <math.h>

#define RING_MASK (AW_IN_FLIGHT_MAX - 1u)

/* ---- traces ---- */

static uint32_t segment_of(const struct aw_bandwidth *trace, double in_period_s)
{
    uint32_t low = 0, high = trace->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (trace->time_s[middle] <= in_period_s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double aw_bandwidth_at(const struct aw_bandwidth *trace, double time_s)
{
    return trace->rate[segment_of(trace, fmod(time_s, trace->period_s))];
}

double aw_bandwidth_mean(const struct aw_bandwidth *trace)
{
    return trace->served[trace->count] / trace->period_s;
}

double aw_bandwidth_lasts(const struct aw_bandwidth *trace, double time_s)
{
    const double in = fmod(time_s, trace->period_s);
    const uint32_t segment = segment_of(trace, in);
    const double end = segment + 1 < trace->count ? trace->time_s[segment + 1] : trace->period_s;
    return end - in;
}

double aw_bandwidth_served(const struct aw_bandwidth *trace, double time_s)
{
    const double periods = floor(time_s / trace->period_s);
    const double in = time_s - periods * trace->period_s;
    const uint32_t segment = segment_of(trace, in);
    return periods * trace->served[trace->count] + trace->served[segment] +
           (in - trace->time_s[segment]) * trace->rate[segment];
}

double aw_bandwidth_when(const struct aw_bandwidth *trace, double packets)
{
    const double periods = floor(packets / trace->served[trace->count]);
    const double in = packets - periods * trace->served[trace->count];
    uint32_t low = 0, high = trace->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (trace->served[middle] <= in)
            low = middle;
        else
            high = middle;
    }
    return periods * trace->period_s + trace->time_s[low] +
           (in - trace->served[low]) / trace->rate[low];
}

/* Packets that the link could have served until `time_s`, which never falls between calls. */
static double served_until(struct aw_flow *flow, double time_s)
{
    const struct aw_bandwidth *trace = flow->link.trace;
    double in = time_s - flow->segment_base_s;
    while (in >= trace->period_s) {
        in -= trace->period_s;
        flow->segment_base_s += trace->period_s;
        flow->segment_base += trace->served[trace->count];
        flow->segment = 0;
    }
    while (flow->segment + 1 < trace->count && trace->time_s[flow->segment + 1] <= in)
        flow->segment++;
    return flow->segment_base + trace->served[flow->segment] +
           (in - trace->time_s[flow->segment]) * trace->rate[flow->segment];
}

/* The time at which the link has served `packets`, which never falls between calls. */
static double time_served(struct aw_flow *flow, double packets)
{
    const struct aw_bandwidth *trace = flow->link.trace;
    double in = packets - flow->out_base;
    while (in > trace->served[trace->count]) {
        in -= trace->served[trace->count];
        flow->out_base += trace->served[trace->count];
        flow->out_base_s += trace->period_s;
        flow->out_segment = 0;
    }
    while (flow->out_segment + 1 < trace->count && trace->served[flow->out_segment + 1] < in)
        flow->out_segment++;
    return flow->out_base_s + trace->time_s[flow->out_segment] +
           (in - trace->served[flow->out_segment]) / trace->rate[flow->out_segment];
}

/* ---- one packet enters ---- */

/* The latency to the far end; `*ret_lost` as the words in link.h say. */
static double enter_constant(struct aw_flow *flow, double time_s, bool *ret_lost)
{
    double queue_s = flow->queue_s - (time_s - flow->queue_at_s);
    queue_s = queue_s > 0 ? queue_s : 0;
    const double latency_s = flow->link.delay_s + queue_s;
    if (aw_rng_double(&flow->rng) < flow->link.loss) {
        *ret_lost = true;
        return latency_s;
    }
    flow->queue_s = queue_s;
    flow->queue_at_s = time_s;
    *ret_lost = flow->service_s + queue_s > flow->queue_max_s;
    if (!*ret_lost)
        flow->queue_s += flow->service_s;
    return latency_s;
}

static double enter_traced(struct aw_flow *flow, double time_s, bool *ret_lost)
{
    const double served = served_until(flow, time_s);
    const double from = flow->backlog_end > served ? flow->backlog_end : served;
    const bool lost = flow->link.loss > 0 && aw_rng_double(&flow->rng) < flow->link.loss;
    if (lost || from - served + 1 > flow->link.queue + 1) {
        /* known when the packet before it has gone: the gap is seen then */
        *ret_lost = true;
        return flow->link.delay_s + fmax(time_served(flow, from) - time_s, 0);
    }
    *ret_lost = false;
    flow->backlog_end = from + 1;
    return flow->link.delay_s + time_served(flow, from + 1) - time_s;
}

static void send(struct aw_flow *flow)
{
    const double time_s = flow->send_s;
    flow->send_s = time_s + 1.0 / flow->rate;
    if (flow->tail - flow->head >= AW_IN_FLIGHT_MAX)
        return;
    bool lost;
    const double latency_s =
        flow->link.trace ? enter_traced(flow, time_s, &lost) : enter_constant(flow, time_s, &lost);
    struct aw_packet_slot *packet = &flow->ring[flow->tail++ & RING_MASK];
    packet->far_s = time_s + latency_s;
    packet->rtt_s = lost ? -1 : latency_s + flow->link.delay_s;
    flow->packets++;
}

/* ---- the flow ---- */

void aw_flow_reset(struct aw_flow *flow, const struct aw_link *link, double rate, uint64_t seed)
{
    AW_ASSERT(rate > 0 && link->delay_s >= 0 && link->queue > 0);
    AW_ASSERT(link->trace || link->rate > 0);
    flow->link = *link;
    aw_rng_init(&flow->rng, seed, 0x6c696e6b /* "link" */);
    flow->rate = rate;
    flow->now_s = 0;
    flow->send_s = 1.0 / rate;
    flow->queue_s = flow->queue_at_s = 0;
    flow->service_s = link->trace ? 0 : 1.0 / link->rate;
    flow->queue_max_s = link->trace ? 0 : link->queue / link->rate;
    flow->backlog_end = 0;
    flow->segment = flow->out_segment = 0;
    flow->segment_base_s = flow->segment_base = flow->out_base_s = flow->out_base = 0;
    flow->head = flow->far = flow->tail = 0;
    flow->rtt_least_s = 0;
    flow->ack_s = -INFINITY;
    flow->sample_count = 0;
    flow->packets = 0;
}

void aw_flow_rate(struct aw_flow *flow, double rate)
{
    AW_ASSERT(rate > 0 && isfinite(rate));
    flow->rate = rate;
}

double aw_flow_time(const struct aw_flow *flow)
{
    return flow->now_s;
}

uint64_t aw_flow_packets(const struct aw_flow *flow)
{
    return flow->packets;
}

const double *aw_flow_samples(const struct aw_flow *flow, uint32_t *ret_count)
{
    *ret_count = flow->sample_count;
    return flow->sample;
}

static void halves(const struct aw_flow *flow, struct aw_monitor *mi)
{
    const uint32_t half = flow->sample_count / 2;
    if (!half)
        return;
    double first = 0, second = 0;
    for (uint32_t i = 0; i < half; i++)
        first += flow->sample[i];
    for (uint32_t i = half; i < flow->sample_count; i++)
        second += flow->sample[i];
    mi->rtt_first_s = first / half;
    mi->rtt_second_s = second / (flow->sample_count - half);
}

void aw_flow_run(struct aw_flow *flow, double duration_s, struct aw_monitor *ret)
{
    struct aw_monitor mi = {.start_s = flow->now_s, .rate = flow->rate};
    const double end_s = flow->now_s + duration_s;
    const double back_s = flow->link.delay_s;
    double rtt_sum = 0, least = flow->rtt_least_s > 0 ? flow->rtt_least_s : INFINITY;
    double now_s = flow->now_s, ack_last_s = flow->ack_s;
    uint32_t samples = 0;
    while (now_s < end_s) {
        /* PCC-RL has an event at each hop; at equal times acks before sends, near hops first */
        const double far_s =
            flow->far != flow->tail ? flow->ring[flow->far & RING_MASK].far_s : INFINITY;
        const double ack_s =
            flow->head != flow->far ? flow->ring[flow->head & RING_MASK].far_s + back_s : INFINITY;
        if (far_s <= ack_s && far_s <= flow->send_s) {
            flow->far++;
            now_s = far_s;
        } else if (ack_s <= flow->send_s) {
            const double rtt_s = flow->ring[flow->head++ & RING_MASK].rtt_s;
            now_s = ack_s;
            if (rtt_s < 0) {
                mi.lost++;
                continue;
            }
            const double gap_s = now_s - ack_last_s;
            if (gap_s < rtt_s - least) {
                mi.busy_acks++;
                mi.busy_s += gap_s;
            }
            ack_last_s = now_s;
            mi.ack_first_s = mi.acked++ ? mi.ack_first_s : now_s;
            mi.rtt_last_s = rtt_s;
            rtt_sum += rtt_s;
            least = rtt_s < least ? rtt_s : least;
            if (samples < AW_RTT_SAMPLES_MAX)
                flow->sample[samples++] = rtt_s;
        } else {
            now_s = flow->send_s;
            const uint32_t tail = flow->tail;
            send(flow);
            mi.sent += flow->tail != tail;
        }
    }
    flow->now_s = mi.end_s = now_s;
    flow->sample_count = samples;
    flow->ack_s = ack_last_s;
    mi.ack_last_s = mi.acked ? ack_last_s : 0;
    flow->rtt_least_s = isfinite(least) ? least : 0;
    mi.rtt_least_s = flow->rtt_least_s;
    mi.in_flight = (double)(flow->tail - flow->head);
    mi.rtt_s = mi.acked ? rtt_sum / (double)mi.acked : 0;
    halves(flow, &mi);
    *ret = mi;
}
