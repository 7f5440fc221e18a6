/* episode.c - see episode.h. */
#include "congestion/episode.h"

#include <math.h>

static double part(uint32_t index, double low, double high, struct aw_rng *rng)
{
    const double width = (high - low) / 5;
    return low + width * (index + aw_rng_double(rng));
}

void aw_box_link(uint32_t box, uint64_t seed, struct aw_link *ret_link)
{
    AW_ASSERT(box < AW_BOX_COUNT);
    struct aw_rng rng;
    aw_rng_init(&rng, seed, box);
    *ret_link = (struct aw_link){
        .rate = part(box % 5, 0.1, 128, &rng) * 1e6 / AW_PACKET_BITS,
        .delay_s = part(box / 5 % 5, 0.001, 0.512, &rng),
        .loss = part(box / 25 % 5, 0, 0.1, &rng),
        .queue = floor(part(box / 125, 1, 10240, &rng)),
    };
}

void aw_original_link(uint64_t seed, struct aw_link *ret_link)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0x706363 /* "pcc" */);
    *ret_link = (struct aw_link){
        .rate = aw_rng_uniform(&rng, 100, 500),
        .delay_s = aw_rng_uniform(&rng, 0.05, 0.5),
        .queue = 1 + floor(exp(aw_rng_uniform(&rng, 0, 8))),
        .loss = aw_rng_uniform(&rng, 0, 0.05),
    };
}

double aw_link_best(const struct aw_link *link)
{
    return 10 * link->rate - 2000 * link->delay_s - 2000 * link->loss;
}

/* PCC-RL's `recv rate`: one packet less than arrived, so below 0 where none did. */
static double receive_rate(const struct aw_monitor *mi)
{
    const double dur_s = mi->end_s - mi->start_s;
    return dur_s > 0 ? ((double)mi->acked - 1) / dur_s : 0;
}

double aw_monitor_reward(const struct aw_monitor *mi)
{
    return 10 * receive_rate(mi) - 1000 * mi->rtt_s - 2000 * aw_monitor_loss(mi);
}

double aw_monitor_length(const struct aw_monitor *mi, double before_s)
{
    return mi->rtt_s > 0 ? fmax(0.5 * mi->rtt_s, AW_MONITOR_MIN_S) : before_s;
}

void aw_monitor_features(const struct aw_monitor *mi, double *rtt_least_mean_s,
                         float features[AW_AURORA_FEATURES])
{
    const double dur_s = mi->end_s - mi->start_s;
    const double received = receive_rate(mi);
    const double sent = dur_s > 0 ? (double)mi->sent / dur_s : 0;
    if (mi->rtt_s > 0 && (*rtt_least_mean_s <= 0 || mi->rtt_s < *rtt_least_mean_s))
        *rtt_least_mean_s = mi->rtt_s;
    const bool halves = mi->rtt_first_s > 0 && dur_s > 0;
    features[0] = halves ? (float)((mi->rtt_second_s - mi->rtt_first_s) / dur_s) : 0;
    features[1] = *rtt_least_mean_s > 0 ? (float)(mi->rtt_s / *rtt_least_mean_s) : 1;
    features[2] = received > 0 && sent < 1000 * received ? (float)(sent / received) : 1;
}

/* ---- an episode ---- */

struct tally {
    double reward_sum, reward_time, genet, latency_s, delivered, lost, rtt_sum;
    double recent[10], recent_s[10];
    uint32_t at;
};

static void tally_step(struct tally *tally, const struct aw_monitor *mi, double capacity,
                       struct aw_episode *episode)
{
    const double dur_s = mi->end_s - mi->start_s;
    const double reward = aw_monitor_reward(mi);
    tally->reward_sum += reward;
    tally->reward_time += reward * dur_s;
    /* an interval without acks says nothing of latency: the last one's is charged */
    tally->latency_s = mi->rtt_s > 0 ? mi->rtt_s : tally->latency_s;
    tally->genet += (500 * aw_monitor_delivery(mi) / capacity - 1000 * tally->latency_s -
                     2000 * aw_monitor_loss(mi)) *
                    dur_s;
    tally->delivered += (double)mi->acked;
    tally->lost += (double)mi->lost;
    tally->rtt_sum += mi->rtt_s * (double)mi->acked;
    const uint32_t at = tally->at++ % 10;
    tally->recent[at] = (double)mi->acked;
    tally->recent_s[at] = dur_s;
    if (tally->at >= 10) {
        double acked = 0, seconds = 0;
        for (uint32_t i = 0; i < 10; i++) {
            acked += tally->recent[i];
            seconds += tally->recent_s[i];
        }
        episode->best_delivery = fmax(episode->best_delivery, acked / seconds);
    }
}

void aw_episode_run(const struct aw_episode_plan *plan, const struct aw_controller *controller,
                    struct aw_flow *flow, void *self, struct aw_latency_histogram *rtts,
                    aw_episode_step *on_step, void *ctx, struct aw_episode *ret)
{
    const struct aw_link *link = &plan->link;
    const double capacity = link->trace ? aw_bandwidth_mean(link->trace) : link->rate;
    const double trip_s = 2 * link->delay_s;
    const double start = plan->start_rate > 0 ? plan->start_rate : AW_START_PACKETS / trip_s;
    const struct aw_connection connection = {.rate = fmin(fmax(start, AW_RATE_MIN), AW_RATE_MAX),
                                             .rate_min = AW_RATE_MIN,
                                             .rate_max = AW_RATE_MAX,
                                             .truth = link,
                                             .remembered = plan->remembered};
    struct aw_episode episode = {0};
    struct tally tally = {.latency_s = trip_s};
    struct aw_monitor mi;
    double length_s = 3 * link->delay_s; /* PCC-RL's first interval; two are not observed */
    aw_flow_reset(flow, link, connection.rate, plan->seed);
    controller->reset(self, &connection);
    aw_latency_histogram_reset(rtts);
    aw_flow_run(flow, length_s, &mi);
    aw_flow_run(flow, length_s, &mi);
    while (plan->seconds > 0 ? aw_flow_time(flow) < plan->seconds : episode.steps < plan->steps) {
        const double rate = controller->next(self, &mi);
        aw_flow_rate(flow, rate);
        double run_s = length_s = aw_monitor_length(&mi, length_s);
        /* the oracle sees a change of bandwidth coming */
        if (link->trace && controller->knows)
            run_s = fmin(length_s, aw_bandwidth_lasts(link->trace, aw_flow_time(flow)) + 1e-6);
        aw_flow_run(flow, run_s, &mi);
        uint32_t count;
        const double *sample = aw_flow_samples(flow, &count);
        for (uint32_t i = 0; i < count; i++)
            aw_latency_histogram_record(rtts, (int64_t)(sample[i] * 1e6));
        tally_step(&tally, &mi, capacity, &episode);
        if (on_step)
            on_step(ctx, &mi, rate);
        episode.steps++;
        episode.seconds += mi.end_s - mi.start_s;
    }
    const double known = tally.delivered + tally.lost;
    episode.reward_step = tally.reward_sum / episode.steps;
    episode.reward_time = tally.reward_time / episode.seconds;
    episode.genet = tally.genet / episode.seconds;
    episode.utilisation = tally.delivered / (capacity * episode.seconds);
    episode.rtt_ratio = tally.delivered > 0 ? tally.rtt_sum / tally.delivered / trip_s : 1;
    episode.rtt_p95_s = (double)aw_latency_histogram_quantile(rtts, 0.95) * 1e-6;
    episode.loss = known > 0 ? tally.lost / known : 0;
    episode.packets = aw_flow_packets(flow);
    if (!link->trace)
        episode.regret = (aw_link_best(link) - episode.reward_step) / (10 * link->rate);
    *ret = episode;
}
