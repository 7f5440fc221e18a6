/* aurora.c - see aurora.h. */
#include "congestion/aurora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_tasks.h"
#include "base/stats.h"
#include "base/threads.h"
#include "congestion/episode.h"
#include "congestion/learn.h"
#include "rl/ppo.h"

#define HISTORY      10u
#define STATE_DIM    (HISTORY * AW_AURORA_FEATURES)
#define STEP         0.025 /* d: a rate changes by this times the action */
#define ACTION_MAX   8.0f /* standard deviations of a fresh policy; the released one has no bound */
#define REWARD_SCALE 0.001
#define FEATURE_MAX  10.0f /* PCC-RL's features have ranges up to 10 000: what is beyond is noise */
#define NEAR         0.05  /* of the converged reward: what may be missing */
#define TAIL         10u   /* episodes whose mean is what a learner converged to */
#define MANY         6u    /* boxes that the multi-task peer learns from, one after the other */
#define EXAMINE_SEED 77u

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
            err = episode(aurora, link, EXAMINE_SEED, false, &curve[e]);
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

static double regret(const struct aw_link *link, double reward)
{
    return (aw_link_best(link) - reward) / (10 * link->rate);
}

static double wanted(double best)
{
    return best - NEAR * fabs(best);
}

static double drop(double best, double reward)
{
    return (best - reward) / fabs(best);
}

/* clang-format off */
#define PEERS(X)                                                    \
    X(CONVERGED, "Aurora, converged here")                          \
    X(VANILLA,   "Aurora of another box (vanilla)")                 \
    X(TRANSFER,  "Aurora of another box, trained on (transfer)")    \
    X(MANY,      "Aurora of six boxes in turn, trained on (multi-task)") \
    X(FIRST,     "adaptive, first connection, blind start")         \
    X(AGAIN,     "adaptive, with the bandwidth of the connection before")
/* clang-format on */
enum peers {
#define X(id, name) P_##id,
    PEERS(X)
#undef X
        PEER_COUNT
};
static const char *const peer_names[] = {
#define X(id, name) name,
    PEERS(X)
#undef X
};

struct outcome {
    double regret, drop, episodes; /* episodes: NAN where it does not learn here */
};

struct contest {
    const struct aw_adaptive_policy *policy;
    const struct aw_task_sink *sink;
    uint64_t seed;
    uint32_t boxes, episodes;
    struct outcome (*outcome)[PEER_COUNT]; /* [seeds * boxes] */
};

/* A box of a seed: of those that are not learned from, or of those that are. */
static void box(uint64_t seed, uint32_t at, bool unseen, struct aw_link *ret)
{
    uint32_t order[AW_BOX_COUNT];
    struct aw_rng rng;
    uint32_t *pool = unseen ? order + AW_BOXES_LEARNED : order;
    aw_box_order(order);
    aw_rng_init(&rng, seed, unseen);
    aw_rng_shuffle(&rng, pool, unseen ? AW_BOX_COUNT - AW_BOXES_LEARNED : AW_BOXES_LEARNED);
    aw_box_link(pool[at], seed, ret);
}

static enum aw_err transfer(const struct contest *contest, struct aurora *aurora, uint64_t seed,
                            uint32_t at, bool many, const struct aw_link *here, double best,
                            double *curve, struct outcome *out, struct aw_diag *diag)
{
    const uint32_t lessons = many ? MANY : 1, each = contest->episodes / lessons;
    double before = 0;
    enum aw_err err = make(aurora, seed * 101 + at + (many ? 9000 : 7000), diag);
    for (uint32_t i = 0; !err && i < lessons; i++) {
        struct aw_link there;
        box(seed, at + 17 * i, false, &there);
        err = teach(aurora, &there, each, curve);
    }
    if (!err)
        err = episode(aurora, here, EXAMINE_SEED, false, &before);
    if (!err && !many)
        out[P_VANILLA] = (struct outcome){regret(here, before), drop(best, before), (double)NAN};
    if (!err)
        err = teach(aurora, here, contest->episodes, curve);
    const double last = err ? 0 : curve[contest->episodes - 1];
    out[many ? P_MANY : P_TRANSFER] =
        (struct outcome){regret(here, last), drop(best, last),
                         err ? 0 : reached(curve, contest->episodes, wanted(best))};
    aw_agent_free(&aurora->agent);
    return err;
}

/* The first connection begins blind; the next with what the one before found. */
static void ours(const struct contest *contest, struct aurora *aurora, const struct aw_link *here,
                 double best, struct outcome *out)
{
    struct aw_episode_plan plan = {.link = *here, .steps = AW_BOX_STEPS, .seed = EXAMINE_SEED};
    struct aw_episode met, again;
    aurora->adaptive = (struct aw_adaptive){.policy = contest->policy};
    aw_episode_run(&plan, &aw_adaptive_controller, &aurora->flow, &aurora->adaptive, &aurora->rtts,
                   NULL, NULL, &met);
    plan.start_rate = met.best_delivery;
    aurora->adaptive = (struct aw_adaptive){.policy = contest->policy};
    aw_episode_run(&plan, &aw_adaptive_controller, &aurora->flow, &aurora->adaptive, &aurora->rtts,
                   NULL, NULL, &again);
    const double never = contest->episodes + 1.0;
    const bool at_once = met.reward_step >= wanted(best), then = again.reward_step >= wanted(best);
    out[P_FIRST] = (struct outcome){met.regret, drop(best, met.reward_step), at_once ? 1 : never};
    out[P_AGAIN] = (struct outcome){again.regret, drop(best, again.reward_step),
                                    !then     ? never
                                    : at_once ? 1
                                              : 2};
}

static enum aw_err box_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct contest *contest = ctx;
    const uint64_t seed = contest->seed + turn / contest->boxes;
    const uint32_t at = turn % contest->boxes;
    struct outcome *out = contest->outcome[turn];
    struct aurora *aurora = aw_alloc_new(NULL, 1, sizeof *aurora);
    double *curve = aw_alloc_new(NULL, contest->episodes, sizeof *curve), best = 0;
    struct aw_link here;
    enum aw_err err = aurora && curve ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a link");
    if (!err) {
        box(seed, at, true, &here);
        err = make(aurora, seed * 101 + at, diag);
        if (!err)
            err = teach(aurora, &here, contest->episodes, curve);
        aw_agent_free(&aurora->agent);
    }
    for (uint32_t e = contest->episodes - TAIL; !err && e < contest->episodes; e++)
        best += curve[e] / TAIL;
    if (!err) {
        out[P_CONVERGED] = (struct outcome){regret(&here, best), 0,
                                            reached(curve, contest->episodes, wanted(best))};
        err = transfer(contest, aurora, seed, at, false, &here, best, curve, out, diag);
    }
    if (!err)
        err = transfer(contest, aurora, seed, at, true, &here, best, curve, out, diag);
    if (!err)
        ours(contest, aurora, &here, best, out);
    aw_alloc_free(NULL, aurora);
    aw_alloc_free(NULL, curve);
    return err;
}

static void row(const struct contest *contest, uint32_t seeds, uint32_t who, double *scratch)
{
    const struct aw_task_sink *sink = contest->sink;
    const uint32_t all = seeds * contest->boxes;
    double lost = 0, dropped = 0, never = 0, low = INFINITY, high = -INFINITY, sum = 0;
    for (uint32_t s = 0; s < seeds; s++) {
        double of_seed = 0;
        for (uint32_t i = 0; i < contest->boxes; i++) {
            const struct outcome *out = &contest->outcome[s * contest->boxes + i][who];
            lost += out->regret / all;
            dropped += out->drop / all;
            never += out->episodes > contest->episodes;
            of_seed += out->episodes / contest->boxes;
            scratch[s * contest->boxes + i] = out->episodes;
        }
        sum += of_seed / seeds;
        low = fmin(low, of_seed);
        high = fmax(high, of_seed);
    }
    const bool learns = !isnan(sum);
    if (learns)
        aw_stats_sort(scratch, all);
    sink->text(sink->self, "method", peer_names[who]);
    sink->figure(sink->self, "boxes", all);
    sink->figure(sink->self, "regret", lost);
    sink->figure(sink->self, "drop", dropped);
    sink->figure(sink->self, "episodes", sum);
    sink->figure(sink->self, "episodes_median",
                 learns ? aw_stats_median(scratch, all) : (double)NAN);
    sink->figure(sink->self, "episodes_low", learns ? low : (double)NAN);
    sink->figure(sink->self, "episodes_high", learns ? high : (double)NAN);
    sink->figure(sink->self, "never", learns ? never : (double)NAN);
    sink->row(sink->self);
}

static bool watch(void *ctx, uint32_t done, uint32_t total)
{
    const struct contest *contest = ctx;
    return contest->sink->progress(contest->sink->self, (double)done / total,
                                   "Aurora on single boxes");
}

enum aw_err aw_aurora_compare(const struct aw_adaptive_policy *policy,
                              const struct aw_task_ask *ask, uint32_t boxes, uint32_t episodes,
                              const struct aw_task_sink *sink, struct aw_diag *diag)
{
    const uint32_t all = ask->seeds * boxes;
    struct contest contest = {.policy = policy,
                              .sink = sink,
                              .seed = ask->seed,
                              .boxes = boxes,
                              .episodes = episodes,
                              .outcome = aw_alloc_new(NULL, all, sizeof *contest.outcome)};
    double *scratch = aw_alloc_new(NULL, all, sizeof *scratch);
    enum aw_err err = scratch && contest.outcome
                          ? AW_OK
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory for %u boxes", all);
    if (!err)
        err = aw_parallel_tasks(ask->threads ? ask->threads : aw_threads_cpu_count(), all, box_turn,
                                &contest, watch, &contest, NULL, diag);
    for (uint32_t who = 0; !err && who < PEER_COUNT; who++)
        row(&contest, ask->seeds, who, scratch);
    if (!err) {
        sink->note(sink->self, "Aurora starts at 0.3 to 1.5 times the bandwidth, as PCC-RL has it; "
                               "adaptive starts blind, with 10 packets per round trip.");
        sink->note(sink->self, "Converged is the mean of the last ten episodes of Aurora on that "
                               "box. Episodes are until 95 % of it, for good; where that never "
                               "comes, all of them and one. Low and high: of seeds.");
    }
    aw_alloc_free(NULL, contest.outcome);
    aw_alloc_free(NULL, scratch);
    return err;
}
