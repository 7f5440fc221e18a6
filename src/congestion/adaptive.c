/* adaptive.c - see adaptive.h. */
#include "congestion/adaptive.h"

#include <math.h>
#include <string.h>

#define LOSS_MAX         0.3  /* of random loss; what is beyond is a queue that overflows */
#define LOSS_WEIGHT      0.05 /* of an interval in the mean */
#define MOVED_WEIGHT     0.1
#define MOVED_USUAL      0.05 /* |log change| in the middle of the embedding's range */
#define PACKETS_USUAL    4.0  /* log of packets in a round trip, likewise */
#define BUSY_ACKS_MIN    3u   /* that a bandwidth is measured with */
#define OVERFLOW_LOSS    0.3
#define AW_BLIND_PACKETS 32.0
#define RATE_SHARE_MIN   0.1 /* of the bandwidth: less would starve the measurement */
#define IDLE_TRIPS       2.0 /* round trips without an ack until the rate is halved */

static const struct {
    double low, high, first;
    bool log;
} laws[AW_LAW_COUNT] = {
#define X(name, low_, high_, log_, first_, what) \
    [AW_LAW_##name] = {.low = low_, .high = high_, .first = first_, .log = log_},
    AW_LAW_MAP(X)
#undef X
};

struct aw_adaptive_policy aw_adaptive_first(void)
{
    struct aw_adaptive_policy policy = {0};
    for (uint32_t i = 0; i < AW_LAW_COUNT; i++) {
        const double low = laws[i].log ? log(laws[i].low) : laws[i].low;
        const double high = laws[i].log ? log(laws[i].high) : laws[i].high;
        const double first = laws[i].log ? log(laws[i].first) : laws[i].first;
        policy.base[i] = (first - low) / (high - low);
    }
    return policy;
}

void aw_adaptive_law(const struct aw_adaptive_policy *policy, const double trait[AW_TRAIT_COUNT],
                     double law[AW_LAW_COUNT])
{
    for (uint32_t i = 0; i < AW_LAW_COUNT; i++) {
        double x = policy->base[i];
        for (uint32_t t = 0; t < AW_TRAIT_COUNT; t++)
            x += policy->weight[i][t] * trait[t];
        x = fmin(fmax(x, 0), 1);
        law[i] = laws[i].log ? laws[i].low * pow(laws[i].high / laws[i].low, x)
                             : laws[i].low + (laws[i].high - laws[i].low) * x;
    }
}

static double bounded(double x)
{
    return fmin(fmax(x, -1), 1);
}

static void traits(double moved, double packets, double loss, double trait[AW_TRAIT_COUNT])
{
    trait[AW_TRAIT_STEADY] = bounded(0.5 * log(MOVED_USUAL / fmax(moved, 1e-4)));
    trait[AW_TRAIT_PACKETS] = bounded((log(fmax(packets, 1)) - PACKETS_USUAL) / 4);
    trait[AW_TRAIT_LOSS] = bounded(loss / 0.05 - 1);
}

void aw_adaptive_truth(const struct aw_link *link, double trait[AW_TRAIT_COUNT])
{
    double moved = 0;
    if (link->trace) {
        for (uint32_t i = 1; i < link->trace->count; i++)
            moved += fabs(log(link->trace->rate[i] / link->trace->rate[i - 1]));
        moved /= link->trace->count;
        moved *= fmin(1, link->delay_s / 0.5); /* per interval, not per half second */
    }
    traits(moved, link->rate * 2 * link->delay_s, link->loss, trait);
}

void aw_adaptive_reset(struct aw_adaptive *adaptive, const struct aw_connection *connection)
{
    struct aw_adaptive fresh = {.policy = adaptive->policy,
                                .mode = adaptive->mode,
                                .connection = *connection,
                                .rate = connection->rate,
                                .moved = MOVED_USUAL};
    memcpy(fresh.given, adaptive->given, sizeof fresh.given);
    *adaptive = fresh;
}

static void embed(struct aw_adaptive *adaptive, const struct aw_monitor *mi)
{
    if (adaptive->mode == AW_ADAPTIVE_ZEROED)
        memset(adaptive->trait, 0, sizeof adaptive->trait);
    else if (adaptive->mode == AW_ADAPTIVE_GIVEN)
        memcpy(adaptive->trait, adaptive->given, sizeof adaptive->trait);
    else
        traits(adaptive->moved, fmax(adaptive->bandwidth, adaptive->rate) * mi->rtt_least_s,
               adaptive->loss, adaptive->trait);
}

static double within(const struct aw_adaptive *adaptive, double rate)
{
    return fmin(fmax(rate, adaptive->connection.rate_min), adaptive->connection.rate_max);
}

/* The start: grow until a queue shows, which says what the bandwidth is. 0: it is over. */
static double start(struct aw_adaptive *adaptive, const struct aw_monitor *mi, double measured,
                    const double *law)
{
    const double delivered = aw_monitor_delivery(mi);
    if (mi->busy_acks >= BUSY_ACKS_MIN) {
        adaptive->started = true;
        adaptive->bandwidth = measured;
        return 0;
    }
    if (mi->lost > 8 && aw_monitor_loss(mi) > OVERFLOW_LOSS) { /* a queue too short to measure */
        adaptive->started = true;
        adaptive->bandwidth = delivered;
        return 0;
    }
    /* no more is sent blindly than start_limit round trips of what has come back so far */
    const double limit = delivered * mi->rtt_least_s * (1 + law[AW_LAW_start_limit]);
    if (mi->in_flight < fmax(limit, AW_BLIND_PACKETS))
        adaptive->rate = within(adaptive, adaptive->rate * law[AW_LAW_start_growth]);
    return adaptive->rate;
}

double aw_adaptive_next(struct aw_adaptive *adaptive, const struct aw_monitor *mi)
{
    double law[AW_LAW_COUNT];
    const double dur_s = mi->end_s - mi->start_s;
    const double measured = mi->busy_s > 0 ? (double)mi->busy_acks / mi->busy_s : 0;
    embed(adaptive, mi);
    aw_adaptive_law(adaptive->policy, adaptive->trait, law);
    if (!mi->acked) { /* nothing is known: after two round trips send less, then less again */
        adaptive->idle_s += dur_s;
        const double trip_s = mi->rtt_least_s > 0 ? mi->rtt_least_s : 2 * dur_s;
        if (adaptive->idle_s > IDLE_TRIPS * trip_s && adaptive->idle_s > 4 / adaptive->rate) {
            adaptive->rate = within(adaptive, 0.5 * adaptive->rate);
            adaptive->idle_s = 0;
        }
        return adaptive->rate;
    }
    adaptive->idle_s = 0;
    if (!adaptive->started) {
        const double rate = start(adaptive, mi, measured, law);
        if (rate > 0)
            return rate;
    }
    const double trip_s = mi->rtt_least_s;
    const double loss = fmin(aw_monitor_loss(mi), LOSS_MAX);
    const bool busy =
        mi->busy_acks > 0 && (mi->rtt_last_s - trip_s) * adaptive->bandwidth > law[AW_LAW_empty];
    if (measured > 0) {
        const double weight = law[measured < adaptive->bandwidth ? AW_LAW_down : AW_LAW_up] *
                              fmin(1, (double)mi->busy_acks / BUSY_ACKS_MIN);
        const double change = weight * log(measured / adaptive->bandwidth);
        adaptive->bandwidth *= exp(change);
        adaptive->moved += MOVED_WEIGHT * (fabs(change) - adaptive->moved);
    } else {
        adaptive->moved *= 1 - MOVED_WEIGHT;
    }
    adaptive->loss += LOSS_WEIGHT * (loss - adaptive->loss);
    /* what will lie in the queue when all on its way has arrived (Smith's predictor) */
    const double fit = adaptive->bandwidth * trip_s;
    const double queue = mi->in_flight * (1 - adaptive->loss) - fit;
    const double keep = law[AW_LAW_queue_share] * fit + law[AW_LAW_queue_packets];
    double rate = adaptive->bandwidth * law[AW_LAW_hold];
    if (!busy) {
        adaptive->bandwidth *= law[AW_LAW_growth]; /* perhaps there is more */
        rate = adaptive->bandwidth * law[AW_LAW_hold];
    }
    rate += law[AW_LAW_drain] * (keep - queue) / trip_s;
    rate = fmax(rate, RATE_SHARE_MIN * adaptive->bandwidth);
    adaptive->rate = within(adaptive, rate / (1 - adaptive->loss));
    return adaptive->rate;
}

static void controller_reset(void *self, const struct aw_connection *connection)
{
    aw_adaptive_reset(self, connection);
}

static double controller_next(void *self, const struct aw_monitor *mi)
{
    return aw_adaptive_next(self, mi);
}

const struct aw_controller aw_adaptive_controller = {
    .name = "adaptive",
    .summary = "an estimate of the link, and the control law that was learned for such links",
    .bytes = sizeof(struct aw_adaptive),
    .reset = controller_reset,
    .next = controller_next,
};
