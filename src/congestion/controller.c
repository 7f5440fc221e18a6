/* controller.c - congestion controllers without learning; see controller.h. */
#include "congestion/controller.h"

#include "congestion/internal.h"

#include <math.h>
#include <string.h>

double aw_monitor_delivery(const struct aw_monitor *mi)
{
    const double dur_s = mi->end_s - mi->start_s;
    return dur_s > 0 ? (double)mi->acked / dur_s : 0;
}

double aw_monitor_loss(const struct aw_monitor *mi)
{
    const double known = (double)(mi->acked + mi->lost);
    return known > 0 ? (double)mi->lost / known : 0;
}

static double within(const struct aw_connection *connection, double rate)
{
    return fmin(fmax(rate, connection->rate_min), connection->rate_max);
}

/* ---- BBR-like: BBR v1's ideas on monitor intervals (Cardwell et al., 2016) ---- */

#define BBR_FILTER  10u  /* intervals of the largest delivery rate */
#define BBR_GROWTH  2.89 /* 2/ln 2: doubles delivery in every round trip */
#define BBR_WINDOW  2.0  /* bandwidth-delay products that may be on the way */
#define BBR_MEASURE 2u   /* acks that a delivery rate needs at least */

struct bbr {
    struct aw_connection connection;
    uint32_t intervals; /* of the filter */
    double window;      /* bandwidth-delay products that may be on the way */
    struct aw__delivery delivery;
    bool full;      /* the pipe: delivery has stopped growing */
    uint32_t stale; /* intervals without a quarter more delivery */
    double best;
    double filter[BBR_FILTER], filter_s[BBR_FILTER];
    uint32_t at, cycle;
    double rate;
};

/* Acks between the first of them and the last, over as many intervals as have a few: what an
 * interval of half a round trip has on a slow link is one packet or two. */
double aw__delivery_next(struct aw__delivery *delivery, const struct aw_monitor *mi,
                         uint32_t acks_min)
{
    if (mi->acked) {
        if (!delivery->acks)
            delivery->from_s = mi->ack_first_s;
        delivery->acks += mi->acked;
        delivery->until_s = mi->ack_last_s;
    }
    if (delivery->acks >= acks_min && delivery->until_s > delivery->from_s) {
        /* the last ack begins the next measurement */
        delivery->rate = (double)(delivery->acks - 1) / (delivery->until_s - delivery->from_s);
        delivery->from_s = delivery->until_s;
        delivery->acks = 1;
        delivery->fresh = true;
    } else {
        delivery->fresh = false;
    }
    return delivery->rate;
}

static void bbr_reset(void *self, const struct aw_connection *connection)
{
    *(struct bbr *)self = (struct bbr){.connection = *connection,
                                       .intervals = BBR_FILTER,
                                       .window = BBR_WINDOW,
                                       .rate = connection->rate};
}

static double bbr_next(void *self, const struct aw_monitor *mi)
{
    static const double gains[8] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};
    struct bbr *bbr = self;
    const double delivery = aw__delivery_next(&bbr->delivery, mi, BBR_MEASURE);
    if (bbr->delivery.fresh) {
        bbr->filter_s[bbr->at % BBR_FILTER] = mi->end_s;
        bbr->filter[bbr->at++ % BBR_FILTER] = delivery;
    }
    if (!bbr->full) {
        if (delivery > 1.25 * bbr->best) {
            bbr->best = delivery;
            bbr->stale = 0;
        } else if (bbr->delivery.fresh) {
            bbr->full = ++bbr->stale >= 4; /* two round trips: feedback is one of them late */
        }
        if (!bbr->full) {
            /* of what came back, not of what was sent: never blind */
            bbr->rate =
                bbr->best > 0 ? within(&bbr->connection, BBR_GROWTH * bbr->best) : bbr->rate;
            return bbr->rate;
        }
    }
    double most = bbr->delivery.rate; /* the newest counts however old it is */
    for (uint32_t i = 0; i < BBR_FILTER; i++) {
        if (bbr->filter_s[i] > mi->end_s - bbr->intervals * (mi->end_s - mi->start_s))
            most = fmax(most, bbr->filter[i]);
    }
    double gain = gains[bbr->cycle++ % 8];
    const double window = fmax(4, bbr->window * most * mi->rtt_least_s);
    if (mi->in_flight > window) /* only what leaves may be replaced */
        gain = fmin(gain, 0.5 * window / mi->in_flight);
    bbr->rate = within(&bbr->connection, most * gain);
    return bbr->rate;
}

const struct aw_controller aw_bbr_like = {
    .name = "bbr-like",
    .summary = "grows until delivery stops to, then the largest delivery rate, probed in cycles",
    .bytes = sizeof(struct bbr),
    .reset = bbr_reset,
    .next = bbr_next,
};

/* The same with what is better on moving links: a shorter memory and a smaller window. */
static void bbr_tuned_reset(void *self, const struct aw_connection *connection)
{
    bbr_reset(self, connection);
    ((struct bbr *)self)->intervals = 6;
    ((struct bbr *)self)->window = 1.25;
}

const struct aw_controller aw_bbr_tuned = {
    .name = "bbr-tuned",
    .summary = "bbr-like with a filter of 6 intervals and a window of 1.25 bandwidth x round trip",
    .bytes = sizeof(struct bbr),
    .reset = bbr_tuned_reset,
    .next = bbr_next,
};

/* ---- CUBIC-like: RFC 9438 on monitor intervals, as Genet has it (no TCP friendliness) ---- */

#define CUBIC_BETA 0.7
#define CUBIC_C    0.4

struct cubic {
    struct aw_connection connection;
    double window, threshold, most, epoch_s, k_s, cut_s, rtt_s;
};

static void cubic_reset(void *self, const struct aw_connection *connection)
{
    *(struct cubic *)self = (struct cubic){
        .connection = *connection, .threshold = INFINITY, .epoch_s = -1, .cut_s = -1e9};
}

static double cubic_next(void *self, const struct aw_monitor *mi)
{
    struct cubic *cubic = self;
    if (mi->rtt_s > 0)
        cubic->rtt_s = mi->rtt_s;
    if (cubic->rtt_s <= 0)
        return cubic->connection.rate;
    if (cubic->window <= 0)
        cubic->window = fmax(2, cubic->connection.rate * cubic->rtt_s);
    if (mi->lost && mi->end_s - cubic->cut_s > cubic->rtt_s) { /* once per round trip */
        const double before = cubic->window;
        cubic->most = before < cubic->most ? before * (1 + CUBIC_BETA) / 2 : before;
        cubic->window = cubic->threshold = fmax(2, before * CUBIC_BETA);
        cubic->epoch_s = -1;
        cubic->cut_s = mi->end_s;
    } else if (!mi->lost && cubic->window < cubic->threshold) {
        cubic->window += (double)mi->acked;
    } else if (!mi->lost && mi->acked) {
        if (cubic->epoch_s < 0) {
            cubic->epoch_s = mi->end_s;
            cubic->most = fmax(cubic->most, cubic->window);
            cubic->k_s = cbrt((cubic->most - cubic->window) / CUBIC_C);
        }
        const double t = mi->end_s - cubic->epoch_s + cubic->rtt_s - cubic->k_s;
        const double target = cubic->most + CUBIC_C * t * t * t;
        cubic->window += fmax(0, fmin(target, 1.5 * cubic->window) - cubic->window) *
                         fmin(1, (double)mi->acked / cubic->window);
    }
    return within(&cubic->connection, cubic->window / cubic->rtt_s);
}

const struct aw_controller aw_cubic_like = {
    .name = "cubic-like",
    .summary = "a window that grows by CUBIC's cubic and is cut to 0.7 on loss",
    .bytes = sizeof(struct cubic),
    .reset = cubic_reset,
    .next = cubic_next,
};

/* ---- Vivace (Dong et al., NSDI 2018): gradient ascent on a utility, by probing ---- */

#define VIVACE_STEP    0.05 /* probes are 5 % up and down */
#define VIVACE_SETTLE  3u   /* intervals until what comes back was sent at the probe's rate */
#define VIVACE_SCALE   1.0  /* Mbit/s per unit of gradient, before amplification */
#define VIVACE_CHANGE  0.05 /* of the rate, a first step's most; grows while the sign stays */
#define VIVACE_STARTUP 1.5

struct vivace {
    struct aw_connection connection;
    double base, utility[2], last_utility;
    uint32_t wait, probe; /* probe 0: up, 1: down */
    bool started;
    int sign;
    uint32_t same; /* steps in one direction */
};

static void vivace_reset(void *self, const struct aw_connection *connection)
{
    *(struct vivace *)self = (struct vivace){.connection = *connection,
                                             .base = connection->rate,
                                             .last_utility = -INFINITY,
                                             .wait = VIVACE_SETTLE};
}

/* u = x^0.9 - 900 x dRTT/dt - 11.35 x L, x in Mbit/s of what was sent. */
static double vivace_utility(const struct aw_monitor *mi)
{
    const double dur_s = mi->end_s - mi->start_s;
    const double x = (double)(mi->acked + mi->lost) / dur_s * AW_PACKET_BITS / 1e6;
    const double slope = mi->rtt_first_s > 0 ? (mi->rtt_second_s - mi->rtt_first_s) / dur_s : 0;
    /* below 1 % the slope is noise of the measurement, as PCC's implementations have it */
    return pow(x, 0.9) - 900 * x * (fabs(slope) < 0.01 ? 0 : slope) -
           11.35 * x * aw_monitor_loss(mi);
}

static void vivace_move(struct vivace *vivace)
{
    const double mbps = vivace->base * AW_PACKET_BITS / 1e6;
    const double gradient =
        (vivace->utility[0] - vivace->utility[1]) / (2 * VIVACE_STEP * fmax(mbps, 1e-3));
    const int sign = gradient >= 0 ? 1 : -1;
    vivace->same = sign == vivace->sign ? vivace->same + 1 : 1;
    vivace->sign = sign;
    const double amplified = gradient * VIVACE_SCALE * vivace->same;
    const double most = VIVACE_CHANGE * vivace->same * mbps;
    const double moved = mbps + fmax(-most, fmin(amplified, most));
    vivace->base = within(&vivace->connection, fmax(moved, 0.5 * mbps) * 1e6 / AW_PACKET_BITS);
}

static double vivace_next(void *self, const struct aw_monitor *mi)
{
    struct vivace *vivace = self;
    if (--vivace->wait) {
        return within(&vivace->connection,
                      vivace->started ? vivace->base * (1 + (vivace->probe ? -1 : 1) * VIVACE_STEP)
                                      : vivace->base);
    }
    vivace->wait = VIVACE_SETTLE;
    const double utility = vivace_utility(mi);
    if (!vivace->started) {
        if (mi->acked && utility > vivace->last_utility) {
            vivace->last_utility = utility;
            vivace->base =
                within(&vivace->connection, vivace->base * pow(VIVACE_STARTUP, VIVACE_SETTLE));
            return vivace->base;
        }
        vivace->base = within(&vivace->connection,
                              vivace->base / pow(VIVACE_STARTUP, mi->acked ? VIVACE_SETTLE : 1));
        vivace->started = mi->acked > 0;
        vivace->probe = 0;
    } else {
        vivace->utility[vivace->probe] = utility;
        if (vivace->probe)
            vivace_move(vivace);
        vivace->probe = !vivace->probe;
    }
    return within(&vivace->connection, vivace->base * (1 + (vivace->probe ? -1 : 1) * VIVACE_STEP));
}

const struct aw_controller aw_vivace = {
    .name = "vivace",
    .summary = "gradient ascent on x^0.9 - 900 x dRTT/dt - 11.35 x loss, by probes of 5 %",
    .bytes = sizeof(struct vivace),
    .reset = vivace_reset,
    .next = vivace_next,
};

/* ---- the simplest ones ---- */

struct simple {
    struct aw_connection connection;
    double rate;
};

static void simple_reset(void *self, const struct aw_connection *connection)
{
    *(struct simple *)self = (struct simple){.connection = *connection, .rate = connection->rate};
}

static double aimd_next(void *self, const struct aw_monitor *mi)
{
    struct simple *simple = self;
    if (mi->lost)
        simple->rate *= 0.5;
    else if (mi->acked && mi->rtt_s > 0)
        simple->rate += 0.5 / mi->rtt_s; /* one packet per round trip, two intervals each */
    return simple->rate = within(&simple->connection, simple->rate);
}

static double hold_next(void *self, const struct aw_monitor *mi)
{
    (void)mi;
    return ((struct simple *)self)->rate;
}

static double best_next(void *self, const struct aw_monitor *mi)
{
    const struct simple *simple = self;
    (void)mi;
    return within(&simple->connection, simple->connection.remembered > 0
                                           ? simple->connection.remembered
                                           : simple->connection.rate);
}

/* 0.995 B/(1 - L): below B the reward rises with the rate, above it queue and loss do. On a trace
 * 0.95 of the bandwidth of the moment, with room for what is in the queue already. */
static double oracle_next(void *self, const struct aw_monitor *mi)
{
    const struct simple *simple = self;
    const struct aw_link *link = simple->connection.truth;
    AW_ASSERT(link);
    if (link->trace)
        return within(&simple->connection,
                      0.95 * aw_bandwidth_at(link->trace, mi->end_s) / (1 - link->loss));
    return within(&simple->connection, 0.995 * link->rate / (1 - link->loss));
}

const struct aw_controller aw_aimd = {
    .name = "aimd",
    .summary = "a packet more per round trip, half on any loss",
    .bytes = sizeof(struct simple),
    .reset = simple_reset,
    .next = aimd_next,
};

const struct aw_controller aw_hold_start = {
    .name = "hold-start",
    .summary = "keeps the rate it began with",
    .bytes = sizeof(struct simple),
    .reset = simple_reset,
    .next = hold_next,
};

const struct aw_controller aw_hold_best = {
    .name = "hold-best",
    .summary = "holds the best delivery rate over 10 intervals of an earlier BBR-like connection",
    .bytes = sizeof(struct simple),
    .knows = true,
    .reset = simple_reset,
    .next = best_next,
};

const struct aw_controller aw_rate_oracle = {
    .name = "oracle",
    .summary = "knows the link: 0.995 B/(1 - L), or 0.95 of the bandwidth of the moment",
    .bytes = sizeof(struct simple),
    .knows = true,
    .reset = simple_reset,
    .next = oracle_next,
};
