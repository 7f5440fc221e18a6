/* task.c - congestion control behind the contract of tasks; see aware/task.h. */
#include "congestion/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "congestion/aurora.h"
#include "congestion/episode.h"
#include "congestion/evaluate.h"
#include "congestion/learn.h"

#define AURORA_BOXES    4u
#define AURORA_EPISODES 60u
#define ACTION_RANGE    1.3862943611198906 /* log 4: what a rate may change by in an interval */

/* What an observation holds beside Aurora's three features: the last interval as it was seen. */
enum {
    OBS_START = AW_AURORA_FEATURES,
    OBS_END,
    OBS_RATE,
    OBS_SENT,
    OBS_ACKED,
    OBS_LOST,
    OBS_RTT,
    OBS_RTT_FIRST,
    OBS_RTT_SECOND,
    OBS_RTT_LEAST,
    OBS_RTT_LAST,
    OBS_IN_FLIGHT,
    OBS_ACK_FIRST,
    OBS_ACK_LAST,
    OBS_BUSY_ACKS,
    OBS_BUSY,
    OBS_COUNT
};

struct world {
    struct aw_flow flow;
    struct aw_monitor mi;
    double length_s, rtt_least_mean_s, rate;
    uint32_t steps;
};

static void pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret_pair)
{
    uint32_t order[AW_BOX_COUNT];
    struct aw_link link;
    struct aw_rng rng;
    aw_box_order(order);
    aw_rng_init(&rng, seed, split);
    const uint32_t at =
        split == AW_TASK_LEARNED
            ? aw_rng_below(&rng, AW_BOXES_LEARNED)
            : AW_BOXES_LEARNED + aw_rng_below(&rng, AW_BOX_COUNT - AW_BOXES_LEARNED);
    aw_box_link(order[at], seed, &link);
    *ret_pair = (struct aw_task_pair){.seed = seed, .split = split};
    snprintf(ret_pair->application, sizeof ret_pair->application, "bulk transfer");
    snprintf(ret_pair->environment, sizeof ret_pair->environment, "box %u", order[at]);
    ret_pair->truth[0] = link.rate / 10667;
    ret_pair->truth[1] = link.delay_s / 0.512;
    ret_pair->truth[2] = link.loss / 0.1;
    ret_pair->truth[3] = link.queue / 10240;
    ret_pair->truth_count = 4;
}

static void pair_link(const struct aw_task_pair *pair, struct aw_link *ret_link)
{
    *ret_link = (struct aw_link){.rate = pair->truth[0] * 10667,
                                 .delay_s = pair->truth[1] * 0.512,
                                 .loss = pair->truth[2] * 0.1,
                                 .queue = pair->truth[3] * 10240};
}

static void observe(struct world *world, float *obs)
{
    const struct aw_monitor *mi = &world->mi;
    aw_monitor_features(mi, &world->rtt_least_mean_s, obs);
    obs[OBS_START] = (float)mi->start_s;
    obs[OBS_END] = (float)mi->end_s;
    obs[OBS_RATE] = (float)mi->rate;
    obs[OBS_SENT] = (float)mi->sent;
    obs[OBS_ACKED] = (float)mi->acked;
    obs[OBS_LOST] = (float)mi->lost;
    obs[OBS_RTT] = (float)mi->rtt_s;
    obs[OBS_RTT_FIRST] = (float)mi->rtt_first_s;
    obs[OBS_RTT_SECOND] = (float)mi->rtt_second_s;
    obs[OBS_RTT_LEAST] = (float)mi->rtt_least_s;
    obs[OBS_RTT_LAST] = (float)mi->rtt_last_s;
    obs[OBS_IN_FLIGHT] = (float)mi->in_flight;
    obs[OBS_ACK_FIRST] = (float)mi->ack_first_s;
    obs[OBS_ACK_LAST] = (float)mi->ack_last_s;
    obs[OBS_BUSY_ACKS] = (float)mi->busy_acks;
    obs[OBS_BUSY] = (float)mi->busy_s;
}

static void observed(const float *obs, struct aw_monitor *ret)
{
    *ret = (struct aw_monitor){.start_s = (double)obs[OBS_START],
                               .end_s = (double)obs[OBS_END],
                               .rate = (double)obs[OBS_RATE],
                               .sent = (uint64_t)obs[OBS_SENT],
                               .acked = (uint64_t)obs[OBS_ACKED],
                               .lost = (uint64_t)obs[OBS_LOST],
                               .rtt_s = (double)obs[OBS_RTT],
                               .rtt_first_s = (double)obs[OBS_RTT_FIRST],
                               .rtt_second_s = (double)obs[OBS_RTT_SECOND],
                               .rtt_least_s = (double)obs[OBS_RTT_LEAST],
                               .rtt_last_s = (double)obs[OBS_RTT_LAST],
                               .in_flight = (double)obs[OBS_IN_FLIGHT],
                               .ack_first_s = (double)obs[OBS_ACK_FIRST],
                               .ack_last_s = (double)obs[OBS_ACK_LAST],
                               .busy_acks = (uint64_t)obs[OBS_BUSY_ACKS],
                               .busy_s = (double)obs[OBS_BUSY]};
}

static void reset(void *self, const struct aw_task_pair *pair, uint64_t seed, float *obs)
{
    struct world *world = self;
    struct aw_link link;
    pair_link(pair, &link);
    world->length_s = 3 * link.delay_s;
    world->rtt_least_mean_s = 0;
    world->rate = fmin(fmax(AW_START_PACKETS / (2 * link.delay_s), AW_RATE_MIN), AW_RATE_MAX);
    world->steps = 0;
    aw_flow_reset(&world->flow, &link, world->rate, seed);
    aw_flow_run(&world->flow, world->length_s, &world->mi);
    aw_flow_run(&world->flow, world->length_s, &world->mi);
    observe(world, obs);
}

static void step(void *self, const float *action, float *obs, struct aw_task_step *ret_step)
{
    struct world *world = self;
    AW_ASSERT(world->steps < AW_BOX_STEPS);
    const double a = fmin(fmax((double)action[0], -1), 1);
    world->rate = fmin(fmax(world->rate * exp(ACTION_RANGE * a), AW_RATE_MIN), AW_RATE_MAX);
    aw_flow_rate(&world->flow, world->rate);
    world->length_s = aw_monitor_length(&world->mi, world->length_s);
    aw_flow_run(&world->flow, world->length_s, &world->mi);
    observe(world, obs);
    *ret_step = (struct aw_task_step){.reward = 0.001 * aw_monitor_reward(&world->mi),
                                      .done = ++world->steps >= AW_BOX_STEPS};
}

static double best(const struct aw_task_pair *pair)
{
    struct aw_link link;
    pair_link(pair, &link);
    return 0.001 * aw_link_best(&link);
}

static bool validate(const float *obs)
{
    for (uint32_t i = 0; i < OBS_COUNT; i++) {
        if (!isfinite(obs[i]))
            return false;
    }
    return obs[OBS_END] >= obs[OBS_START] && obs[OBS_RATE] > 0 && obs[OBS_ACKED] >= 0 &&
           obs[OBS_LOST] >= 0 && obs[OBS_RTT] >= 0 && obs[OBS_RTT_LEAST] >= 0;
}

/* ---- controllers as baselines ---- */

struct memory {
    bool begun;
    double rate;
    _Alignas(16) char self[512];
};

static void act(const struct aw_controller *controller, void *memory_, const float *obs,
                float *action)
{
    struct memory *memory = memory_;
    struct aw_monitor mi;
    observed(obs, &mi);
    AW_ASSERT(controller->bytes <= sizeof memory->self);
    if (!memory->begun) {
        const struct aw_connection connection = {
            .rate = mi.rate, .rate_min = AW_RATE_MIN, .rate_max = AW_RATE_MAX};
        controller->reset(memory->self, &connection);
        memory->rate = mi.rate;
        memory->begun = true;
    }
    const double rate = controller->next(memory->self, &mi);
    const double change = fmin(fmax(log(rate / memory->rate) / ACTION_RANGE, -1), 1);
    memory->rate *= exp(ACTION_RANGE * change);
    action[0] = (float)change;
}

#define ACT(name)                                                         \
    static void name##_act(void *memory, const float *obs, float *action) \
    {                                                                     \
        act(&aw_##name, memory, obs, action);                             \
    }
ACT(bbr_like)
ACT(cubic_like)
ACT(vivace)
ACT(aimd)

static const struct aw_task_baseline baselines[] = {
    {"bbr-like", "the largest delivery rate, probed in cycles", sizeof(struct memory), bbr_like_act,
     NULL},
    {"cubic-like", "a window that grows by a cubic and is cut on loss", sizeof(struct memory),
     cubic_like_act, NULL},
    {"vivace", "gradient ascent on a utility", sizeof(struct memory), vivace_act, NULL},
    {"aimd", "a packet more per round trip, half on loss", sizeof(struct memory), aimd_act, NULL},
};

/* ---- the verbs ---- */

static bool train_progress(void *ctx, double share, double loss)
{
    const struct aw_task_sink *sink = *(const struct aw_task_sink *const *)ctx;
    char what[64];
    snprintf(what, sizeof what, "loss %.4f", loss);
    return sink->progress(sink->self, share, what);
}

static enum aw_err train(const struct aw_task *task, const struct aw_task_ask *ask,
                         const struct aw_task_sink *sink, struct aw_diag *diag)
{
    (void)task;
    struct aw_congestion_lesson lesson = aw_congestion_lesson_default();
    struct aw_adaptive_policy policy;
    double loss, law[AW_LAW_COUNT];
    char how[128];
    lesson.seed = ask->seed;
    lesson.threads = ask->threads;
    if (!ask->model)
        return aw_fail(diag, AW_ERR_USAGE, "expected --model FILE to write the policy to");
    enum aw_err err =
        aw_congestion_learn(&lesson, NULL, train_progress, &sink, &policy, &loss, diag);
    if (err)
        return err;
    snprintf(how, sizeof how, "aware task train congestion --seed %llu; loss %.4f",
             (unsigned long long)ask->seed, loss);
    err = aw_adaptive_write(&policy, ask->model, how, diag);
    const double none[AW_TRAIT_COUNT] = {0};
    aw_adaptive_law(&policy, none, law);
    static const char *const names[] = {
#define X(name, low, high, log, first, what) #name,
        AW_LAW_MAP(X)
#undef X
    };
    for (uint32_t i = 0; !err && i < AW_LAW_COUNT; i++) {
        sink->text(sink->self, "law", names[i]);
        sink->figure(sink->self, "value", law[i]);
        sink->row(sink->self);
    }
    return err;
}

static enum aw_err policy_of(const struct aw_task_ask *ask, struct aw_adaptive_policy *ret,
                             struct aw_diag *diag)
{
    return ask->model ? aw_adaptive_read(ask->model, ret, diag) : aw_adaptive_shipped(ret, diag);
}

static enum aw_err evaluate(const struct aw_task *task, const struct aw_task_ask *ask,
                            const struct aw_task_sink *sink, struct aw_diag *diag)
{
    (void)task;
    struct aw_adaptive_policy policy;
    const enum aw_err err = policy_of(ask, &policy, diag);
    if (err)
        return err;
    return ask->data ? aw_congestion_traces(&policy, ask, sink, diag)
                     : aw_congestion_boxes(&policy, ask, 1, sink, diag);
}

static enum aw_err compare(const struct aw_task *task, const struct aw_task_ask *ask,
                           const struct aw_task_sink *sink, struct aw_diag *diag)
{
    (void)task;
    struct aw_adaptive_policy policy;
    const enum aw_err err = policy_of(ask, &policy, diag);
    return err ? err : aw_aurora_compare(&policy, ask, AURORA_BOXES, AURORA_EPISODES, sink, diag);
}

/* One unseen link: who has found its bandwidth after how many intervals. */
struct path {
    double delivered[AW_BOX_STEPS], rtt_s[AW_BOX_STEPS];
    uint32_t at;
};

static void path_step(void *ctx, const struct aw_monitor *mi, double rate)
{
    struct path *path = ctx;
    (void)rate;
    path->delivered[path->at] = aw_monitor_delivery(mi);
    path->rtt_s[path->at++] = mi->rtt_s;
}

static enum aw_err meet(const struct aw_task *task, const struct aw_task_ask *ask,
                        const struct aw_task_sink *sink, struct aw_diag *diag)
{
    static const struct aw_controller *const who[] = {&aw_cubic_like, &aw_bbr_like,
                                                      &aw_adaptive_controller};
    static const uint32_t shown[] = {5, 10, 20, 50, 100, 399};
    (void)task;
    struct aw_adaptive_policy policy;
    struct aw_task_pair met;
    struct aw_episode_plan plan = {.steps = AW_BOX_STEPS, .seed = ask->seed};
    struct aw_episode episode;
    enum aw_err err = policy_of(ask, &policy, diag);
    if (err)
        return err;
    struct {
        struct aw_flow flow;
        struct aw_latency_histogram rtts;
        struct aw_adaptive adaptive;
        _Alignas(16) char self[512];
        struct path path[3];
    } *room = aw_alloc_new(NULL, 1, sizeof *room);
    if (!room)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a link");
    pair(ask->seed, AW_TASK_UNSEEN, &met);
    pair_link(&met, &plan.link);
    for (uint32_t i = 0; i < 3; i++) {
        room->adaptive.policy = &policy;
        aw_episode_run(&plan, who[i], &room->flow,
                       who[i] == &aw_adaptive_controller ? (void *)&room->adaptive : room->self,
                       &room->rtts, path_step, &room->path[i], &episode);
        sink->text(sink->self, "controller", who[i]->name);
        for (uint32_t k = 0; k < sizeof shown / sizeof *shown; k++) {
            char key[32];
            snprintf(key, sizeof key, "used_at_%u", shown[k]);
            sink->figure(sink->self, key, room->path[i].delivered[shown[k]] / plan.link.rate);
        }
        sink->figure(sink->self, "regret", episode.regret);
        sink->figure(sink->self, "rtt_ratio", episode.rtt_ratio);
        sink->row(sink->self);
    }
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "An unseen link: %.1f Mbit/s, %.0f ms one way, %.1f %% random loss, a queue of %.0f "
             "packets.",
             plan.link.rate * AW_PACKET_BITS / 1e6, plan.link.delay_s * 1e3, plan.link.loss * 100,
             plan.link.queue);
    sink->note(sink->self, sentence);
    sink->note(sink->self, "used_at_N: the share of the link's bandwidth that arrives after N "
                           "intervals of half a round trip, from 10 packets per round trip.");
    aw_alloc_free(NULL, room);
    return AW_OK;
}

const struct aw_task aw_congestion_task = {
    .name = "congestion",
    .summary = "Congestion control: the rate of a sender over a link that it does not know",
    .text = "A pair is a transfer over a link: bandwidth, delay, random loss and queue, drawn from "
            "FLASH's 625 boxes. A step is a monitor interval of half a round trip; the action is "
            "how the rate changes, by a factor of 4 at most. The reward is Aurora's: 10 times the "
            "packets per second that arrive, less 1000 times the latency in seconds, less 2000 "
            "times the share lost, all by 0.001. A connection starts blind, with 10 packets per "
            "round trip.\n\nevaluate --data FILE runs every controller over recorded paths: a CSV "
            "run_id,time_s,bandwidth_mbps, with a table runs.csv beside it that says each run's "
            "delay_ms.",
    .kind = AW_TASK_BOX,
    .feature_dim = OBS_COUNT,
    .action_dim = 1,
    .steps_max = AW_BOX_STEPS,
    .world_bytes = sizeof(struct world),
    .pair_count = 85,
    .pair = pair,
    .reset = reset,
    .step = step,
    .best = best,
    .baseline = baselines,
    .baseline_count = sizeof baselines / sizeof *baselines,
    .validate = validate,
    .fallback = 0,
    .verb = {[AW_TASK_TRAIN] = train,
             [AW_TASK_MEET] = meet,
             [AW_TASK_COMPARE] = compare,
             [AW_TASK_EVALUATE] = evaluate},
};
