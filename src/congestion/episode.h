/*
 * episode.h - one connection from its first packet to its last: a controller, a link, a score.
 *
 * Boxes are FLASH's appendix A.6: bandwidth 0.1 to 128 Mbit/s, one-way latency 1 to 512 ms, loss 0
 * to 10 %, queue 1 to 10 240 packets, each range in five parts; a box is one part of each, a link
 * is drawn within it. Scores: PCC-RL's reward of a step, and Genet's of a second.
 *
 * Memory:  the flow and the controller's state are the caller's. Nothing allocates.
 * Threads: pure functions of their arguments.
 *
 * The trap: PCC-RL starts at 0.3 to 1.5 times the bandwidth, which tells a policy the answer. Here
 * a connection starts at 10 packets per round trip, and knows its limits alone.
 */
#ifndef AW_CONGESTION_EPISODE_H
#define AW_CONGESTION_EPISODE_H

#include "base/latency_histogram.h"
#include "congestion/controller.h"

#define AW_BOX_COUNT     625u
#define AW_BOX_STEPS     400u    /* monitor intervals of an episode, PCC-RL's */
#define AW_START_PACKETS 10.0    /* per round trip, blind */
#define AW_RATE_MIN      2.0     /* packets/s */
#define AW_RATE_MAX      20000.0 /* packets/s: 240 Mbit/s, above every box */
#define AW_MONITOR_MIN_S 0.0005
#define AW_TRACE_SECONDS 30.0

void aw_box_link(uint32_t box, uint64_t seed, struct aw_link *ret_link);
/* PCC-RL's own ranges: 100..500 packets/s, 50..500 ms, 0..5 %, 1 + exp(U(0, 8)) packets. */
void aw_original_link(uint64_t seed, struct aw_link *ret_link);
/* Reward of a step of the best constant rate: 10 B - 2000 D - 2000 L. */
double aw_link_best(const struct aw_link *link);

/* PCC-RL's reward of an interval, before its scale of 0.001. */
double aw_monitor_reward(const struct aw_monitor *mi);
/* How long the next interval is: half the mean latency of the last that had acks. */
double aw_monitor_length(const struct aw_monitor *mi, double before_s);

/* Aurora's three features: sent latency inflation, latency ratio, send ratio. `rtt_least_mean_s` is
 * the least mean RTT of an interval so far, 0 at first, and is kept here. */
#define AW_AURORA_FEATURES 3u
void aw_monitor_features(const struct aw_monitor *mi, double *rtt_least_mean_s,
                         float features[AW_AURORA_FEATURES]);

struct aw_episode_plan {
    struct aw_link link;
    double start_rate; /* packets/s; 0: AW_START_PACKETS per round trip */
    double seconds;    /* of the episode; 0: `steps` decide */
    uint32_t steps;
    double remembered;
    uint64_t seed;
};

struct aw_episode {
    uint32_t steps;
    double seconds;
    double reward_step; /* PCC-RL's, mean of steps */
    double reward_time; /* PCC-RL's, mean of time */
    double regret;      /* (best - reward_step)/(10 B); constant links alone */
    double genet;       /* 500 throughput/capacity - 1000 latency - 2000 loss, mean of time */
    double utilisation; /* delivered/capacity */
    double rtt_ratio;   /* mean RTT of packets/least */
    double rtt_p95_s;
    double loss;
    double best_delivery; /* packets/s, over any 10 intervals */
    uint64_t packets;
};
/* `on_step` may be NULL: told each interval and the rate chosen after it. */
typedef void aw_episode_step(void *ctx, const struct aw_monitor *mi, double rate);
void aw_episode_run(const struct aw_episode_plan *plan, const struct aw_controller *controller,
                    struct aw_flow *flow, void *self, struct aw_latency_histogram *rtts,
                    aw_episode_step *on_step, void *ctx, struct aw_episode *ret);

#endif
