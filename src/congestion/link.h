/*
 * link.h - one bottleneck link and one paced sender over it, packet by packet.
 *
 * Two links behind one contract. A constant one is PCC-RL's simulator (Jay et al., ICML 2019),
 * event for event: a packet at t waits q = max(0, q - (t - t_last)) seconds, is lost with
 * probability `loss`, else dropped if q + 1/B > Q/B, else q += 1/B; its latency is D + q (its own
 * 1/B is not counted), D more for the way back; acks and losses are known after that. One with a
 * trace serves packets at the bandwidth of the moment, and counts their own service.
 *
 * Call order: reset (once per episode), then run for one interval after another; rate may be set
 *             between any two.
 * Memory:     the caller's; a flow has 5 MiB, so not on a stack. Nothing allocates.
 * Threads:    single owner. Same link, seed and rates, same bytes.
 *
 * The trap: as in PCC-RL an interval ends with the first event at or beyond its end, which still
 * belongs to it; so `end_s - start_s` is a little longer than what was asked for.
 */
#ifndef AW_CONGESTION_LINK_H
#define AW_CONGESTION_LINK_H

#include <aware/err.h>

#include "base/rng.h"

#define AW_PACKET_BITS      12000.0    /* 1500 bytes */
#define AW_IN_FLIGHT_MAX    (1u << 18) /* packets; a sender that has as many on the way pauses */
#define AW_RTT_SAMPLES_MAX  (1u << 17) /* of one interval; the mean counts all, the halves these */
#define AW_TRACE_POINTS_MAX 100000u

/* Bandwidth over time: rate[i] holds from time_s[i] to the next; the whole repeats after period_s.
 */
struct aw_bandwidth {
    uint32_t count;
    double period_s;
    const double *time_s; /* [count], the first is 0, rising */
    const double *rate;   /* [count], packets/s, above 0 */
    const double
        *served; /* [count + 1], packets served from 0 to time_s[i]; the last: of a period */
};
double aw_bandwidth_at(const struct aw_bandwidth *trace, double time_s);
double aw_bandwidth_mean(const struct aw_bandwidth *trace);
/* Seconds after time_s at which the rate changes next. */
double aw_bandwidth_lasts(const struct aw_bandwidth *trace, double time_s);
/* Packets that can be served from 0 to time_s, and the time by which as many can be served: inverse
 * functions of each other. */
double aw_bandwidth_served(const struct aw_bandwidth *trace, double time_s);
double aw_bandwidth_when(const struct aw_bandwidth *trace, double packets);

struct aw_link {
    double rate;                      /* packets/s; of a link with a trace not used */
    double delay_s;                   /* one way */
    double loss;                      /* probability, [0, 1) */
    double queue;                     /* packets that fit */
    const struct aw_bandwidth *trace; /* NULL: constant; else outlives the flow's episode */
};

/* What a sender saw during one monitor interval (MI). */
struct aw_monitor {
    double start_s, end_s;
    double rate;                      /* packets/s, asked for */
    uint64_t sent, acked, lost;       /* packets of which these became known in the interval */
    double rtt_s;                     /* mean of the acked; 0: none */
    double rtt_first_s, rtt_second_s; /* of the first and second half of them; 0: fewer than 2 */
    double rtt_least_s;               /* of one packet, of the connection so far; 0: none yet */
    double in_flight;                 /* packets on their way at the end, lost ones included */
    double rtt_last_s;                /* of the last acked packet; 0: none */
    double ack_first_s, ack_last_s;   /* when the first and the last ack came; 0: none */
    /* Acks that came after a gap shorter than their packet had waited beyond the least RTT: the
     * link was busy all the while, so busy_acks/busy_s is its bandwidth, whatever was sent. */
    uint64_t busy_acks;
    double busy_s;
};

struct aw_packet_slot {
    double far_s; /* when it is at the far end; a lost one would have been */
    double rtt_s; /* below 0: lost */
};

/* A connection. Open so that a world may hold one; the members are link.c's alone. */
struct aw_flow {
    struct aw_link link;
    struct aw_rng rng;
    double now_s, send_s, rate;
    double queue_s, queue_at_s, queue_max_s, service_s; /* constant link */
    double backlog_end; /* traced link: packets served when the last one in the queue has gone */
    uint32_t segment;   /* traced link: the piece of the trace of the last send, */
    double segment_base_s, segment_base; /* and what the periods before it add */
    uint32_t out_segment;                /* the same of the queue's end */
    double out_base_s, out_base;
    uint32_t head, far, tail; /* ring: oldest unacked, next at the far end, next free */
    double rtt_least_s, ack_s;
    uint32_t sample_count;
    uint64_t packets;
    double sample[AW_RTT_SAMPLES_MAX];
    struct aw_packet_slot ring[AW_IN_FLIGHT_MAX];
};

/* A new connection over `link` (copied) at time 0. */
void aw_flow_reset(struct aw_flow *flow, const struct aw_link *link, double rate, uint64_t seed);
void aw_flow_rate(struct aw_flow *flow, double rate); /* packets/s, above 0 */
void aw_flow_run(struct aw_flow *flow, double duration_s, struct aw_monitor *ret);
double aw_flow_time(const struct aw_flow *flow);
uint64_t aw_flow_packets(const struct aw_flow *flow); /* sent since the reset */
/* RTTs of the acked packets of the last interval, in order, at most AW_RTT_SAMPLES_MAX. */
const double *aw_flow_samples(const struct aw_flow *flow, uint32_t *ret_count);

#endif
