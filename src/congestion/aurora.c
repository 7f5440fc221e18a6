/* aurora.c - see aurora.h. */
#include "congestion/aurora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "congestion/episode.h"
#include "congestion/learn.h"
#include "rl/ppo.h"

#define HISTORY      10u
#define STATE_DIM    (HISTORY * AW_AURORA_FEATURES)
#define STEP         0.025 /* d: a rate changes by this times the action */
#define ACTION_MAX   8.0f /* standard deviations of a fresh policy; the released one has no bound */
#define REWARD_SCALE 0.001
#define FEATURE_MAX  10.0f /* PCC-RL's features have ranges up to 10 000: what is beyond is noise */
#define NEAR         0.95

struct aurora {
    struct aw_agent agent;
    struct aw_flow flow;
    struct aw_latency_histogram rtts;
    struct aw_adaptive adaptive;
    uint64_t seed;
};

static enum aw_err make(struct aurora *aurora, uint64_t seed, struct aw_diag *diag)
{
    static const float low[1] = {-ACTION_MAX}, high[1] = {ACTION_MAX};
    struct aw_ppo_settings settings;
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = STATE_DIM,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = 1,
                                         .act_low = low,
                                         .act_high = high};
    const enum aw_err err = aw_agent_settings(&aw_ppo_factory, NULL, &settings, diag);
    if (err)
        return err;
    settings.total_steps = 0;
    settings.hidden.count = 2;
    settings.hidden.value[0] = 32;
    settings.hidden.value[1] = 16;
    settings.activation = 0; /* tanh */
    settings.lr = 3e-4f;
    settings.anneal_lr = false;
    settings.gamma = 0.99f;
    settings.gae_lambda = 0.95f;
    settings.rollout_steps = 2048;
    settings.minibatches = 64;
    settings.clip_range = 0.2f;
    settings.entropy_coef = 0.005f;
    settings.value_coef = 0.5f;
    settings.epochs = 4; /* PPO1's, which PCC-RL calls */
    aurora->seed = seed;
    return aw_ppo_factory.make(&shape, &settings, seed, NULL, &aurora->agent, diag);
}

static void push(float *state, const struct aw_monitor *mi, double *least)
{
    float features[AW_AURORA_FEATURES];
    aw_monitor_features(mi, least, features);
    memmove(state, state + AW_AURORA_FEATURES, (STATE_DIM - AW_AURORA_FEATURES) * sizeof *state);
    for (uint32_t i = 0; i < AW_AURORA_FEATURES; i++)
        state[STATE_DIM - AW_AURORA_FEATURES + i] =
            fminf(fmaxf(features[i], -FEATURE_MAX), FEATURE_MAX);
}

/* One episode of 400 intervals; the mean reward of a step, before the scale. */
static enum aw_err episode(struct aurora *aurora, const struct aw_link *link, uint64_t seed,
                           bool learn, double *ret_reward)
{
    struct aw_rng rng;
    struct aw_monitor mi;
    float state[STATE_DIM] = {0}, next[STATE_DIM], action;
    double least = 0, length_s = 3 * link->delay_s, sum = 0;
    enum aw_err err = AW_OK;
    aw_rng_init(&rng, seed, 0x73746172 /* "star" */);
    double rate = aw_rng_uniform(&rng, 0.3, 1.5) * link->rate;
    aw_flow_reset(&aurora->flow, link, rate, seed);
    for (uint32_t i = 0; i < 2; i++) {
        aw_flow_run(&aurora->flow, length_s, &mi);
        push(state, &mi, &least);
    }
    for (uint32_t s = 0; !err && s < AW_BOX_STEPS; s++) {
        err = aurora->agent.ops->act(aurora->agent.self, state, 1, learn, &action);
        if (err)
            break;
        const double change = STEP * fabs((double)action);
        rate = action >= 0 ? rate * (1 + change) : rate / (1 + change);
        rate = fmin(fmax(rate, AW_RATE_MIN), AW_RATE_MAX);
        aw_flow_rate(&aurora->flow, rate);
        length_s = aw_monitor_length(&mi, length_s);
        aw_flow_run(&aurora->flow, length_s, &mi);
        memcpy(next, state, sizeof next);
        push(next, &mi, &least);
        const double reward = aw_monitor_reward(&mi);
        sum += reward;
        if (learn) {
            const float scaled = (float)(REWARD_SCALE * reward);
            const bool terminated = false, truncated = s + 1 == AW_BOX_STEPS;
            const struct aw_transition transition = {.obs = state,
                                                     .action = &action,
                                                     .reward = &scaled,
                                                     .next_obs = next,
                                                     .terminated = &terminated,
                                                     .truncated = &truncated};
            err = aurora->agent.ops->observe(aurora->agent.self, &transition);
            if (!err)
                err = aurora->agent.ops->learn(aurora->agent.self, NULL);
        }
        memcpy(state, next, sizeof state);
    }
    *ret_reward = sum / AW_BOX_STEPS;
    return err;
}

static enum aw_err teach(struct aurora *aurora, const struct aw_link *link, uint32_t episodes,
                         double *curve)
{
    enum aw_err err = AW_OK;
    for (uint32_t e = 0; !err && e < episodes; e++) {
        double unused;
        err = episode(aurora, link, aurora->seed * 1000 + e, true, &unused);
        if (!err)
            err = episode(aurora, link, 77, false, &curve[e]);
    }
    return err;
}

/* Episodes until a curve is as good as wanted, and stays so; `episodes` + 1: never. */
static double reached(const double *curve, uint32_t episodes, double wanted)
{
    uint32_t e = episodes;
    while (e && curve[e - 1] >= wanted)
        e--;
    return e + 1;
}

struct tally {
    double converged, vanilla, transfer, ours; /* regret, sums */
    double vanilla_drop, transfer_drop, ours_drop;
    double converged_episodes, transfer_episodes, ours_episodes;
};

static double regret(const struct aw_link *link, double reward)
{
    return (aw_link_best(link) - reward) / (10 * link->rate);
}

static double drop(double best, double reward)
{
    return (best - reward) / fabs(best);
}

static enum aw_err one(struct aurora *aurora, const struct aw_adaptive_policy *policy,
                       const struct aw_link *here, const struct aw_link *there, uint64_t seed,
                       uint32_t episodes, double *curve, struct tally *tally, struct aw_diag *diag)
{
    struct aw_episode ours;
    double vanilla = 0, best = -INFINITY;
    enum aw_err err = make(aurora, seed, diag);
    if (!err)
        err = teach(aurora, here, episodes, curve);
    for (uint32_t e = 0; !err && e < episodes; e++)
        best = fmax(best, curve[e]);
    if (!err) {
        tally->converged += regret(here, best);
        tally->converged_episodes += reached(curve, episodes, NEAR * best);
    }
    aw_agent_free(&aurora->agent);
    if (!err)
        err = make(aurora, seed + 7000, diag);
    if (!err)
        err = teach(aurora, there, episodes, curve);
    if (!err)
        err = episode(aurora, here, 77, false, &vanilla);
    if (!err)
        err = teach(aurora, here, episodes, curve);
    if (!err) {
        const struct aw_episode_plan plan = {.link = *here, .steps = AW_BOX_STEPS, .seed = 77};
        const double last = curve[episodes - 1];
        aurora->adaptive = (struct aw_adaptive){.policy = policy};
        aw_episode_run(&plan, &aw_adaptive_controller, &aurora->flow, &aurora->adaptive,
                       &aurora->rtts, NULL, NULL, &ours);
        tally->vanilla += regret(here, vanilla);
        tally->vanilla_drop += drop(best, vanilla);
        tally->transfer += regret(here, last);
        tally->transfer_drop += drop(best, last);
        tally->transfer_episodes += reached(curve, episodes, NEAR * best);
        tally->ours += ours.regret;
        tally->ours_drop += drop(best, ours.reward_step);
        /* it does not learn here: its first episode is good enough, or it never is */
        tally->ours_episodes += ours.reward_step >= NEAR * best ? 1 : episodes + 1.0;
    }
    aw_agent_free(&aurora->agent);
    return err;
}

static void row(const struct aw_task_sink *sink, const char *method, uint32_t boxes, double lost,
                double dropped, double episodes)
{
    sink->text(sink->self, "method", method);
    sink->figure(sink->self, "boxes", boxes);
    sink->figure(sink->self, "regret", lost / boxes);
    sink->figure(sink->self, "drop", dropped / boxes);
    sink->figure(sink->self, "episodes", episodes / boxes);
    sink->row(sink->self);
}

enum aw_err aw_aurora_compare(const struct aw_adaptive_policy *policy,
                              const struct aw_task_ask *ask, uint32_t boxes, uint32_t episodes,
                              const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct tally tally = {0};
    uint32_t order[AW_BOX_COUNT];
    struct aurora *aurora = aw_alloc_new(NULL, 1, sizeof *aurora);
    double *curve = aw_alloc_new(NULL, episodes, sizeof *curve);
    enum aw_err err = aurora && curve ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a link");
    aw_box_order(ask->seed, order);
    for (uint32_t i = 0; !err && i < boxes; i++) {
        struct aw_link here, there;
        aw_box_link(order[AW_BOX_COUNT - 1 - i], ask->seed, &here); /* unseen */
        aw_box_link(order[i], ask->seed, &there);                   /* learned from */
        err =
            one(aurora, policy, &here, &there, ask->seed * 101 + i, episodes, curve, &tally, diag);
        if (!err && !sink->progress(sink->self, (i + 1.0) / boxes, "Aurora on single boxes"))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "the comparison was stopped");
    }
    if (!err) {
        row(sink, "Aurora, converged here", boxes, tally.converged, 0, tally.converged_episodes);
        row(sink, "Aurora of another box (vanilla)", boxes, tally.vanilla, tally.vanilla_drop,
            (double)NAN);
        row(sink, "Aurora of another box, trained on (transfer)", boxes, tally.transfer,
            tally.transfer_drop, tally.transfer_episodes);
        row(sink, "adaptive, first episode, blind start", boxes, tally.ours, tally.ours_drop,
            tally.ours_episodes);
        sink->note(sink->self, "Aurora starts at 0.3 to 1.5 times the bandwidth, as PCC-RL has it; "
                               "adaptive starts blind, with 10 packets per round trip.");
    }
    aw_alloc_free(NULL, aurora);
    aw_alloc_free(NULL, curve);
    return err;
}
