/* peers.c - DQN of src/rl on single pairs; see study.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bayes_opt.h"
#include "base/conf.h"
#include "base/parallel_tasks.h"
#include "base/stats.h"
#include "base/threads.h"
#include "frequency/study.h"
#include "rl/dqn.h"

#define PEER_BASE     900000u
#define NEAR          0.95 /* of the converged agent's reward */
#define STATE_DIM     (AW_FREQUENCY_OBS + 1)
#define EXAMINE_SEEDS 2u
#define MANY          8u   /* pairs that the multi-task peer learns from, one after the other */
#define TAIL          10u  /* episodes whose mean is what a learner converged to */
#define LEAN          0.15 /* over which the values of a lean change */

struct peer {
    struct aw_agent agent;
    uint64_t seed;
};

static enum aw_err peer_make(struct peer *peer, uint64_t seed, uint32_t episodes,
                             struct aw_diag *diag)
{
    struct aw_dqn_settings settings;
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = STATE_DIM,
                                         .action = AW_AGENT_DISCRETE,
                                         .act_dim = 1,
                                         .act_n = AW_LEVELS};
    enum aw_err err = aw_agent_settings(&aw_dqn_factory, NULL, &settings, diag);
    if (err)
        return err;
    /* Table 10 warms up for 50 000 s, half a day of a live machine: here five minutes */
    settings.total_steps = (uint64_t)episodes * AW_MACHINE_SECONDS;
    settings.warmup_steps = AW_MACHINE_SECONDS;
    settings.replay_capacity = 30000;
    settings.gamma = 0.7f;
    settings.epsilon_fraction = 0.3f;
    settings.target_every = 200;
    peer->seed = seed;
    return aw_dqn_factory.make(&shape, &settings, seed, NULL, &peer->agent, diag);
}

static void see(const float *obs, uint32_t level, float *state)
{
    memcpy(state, obs, AW_FREQUENCY_OBS * sizeof *state);
    state[AW_FREQUENCY_OBS] = (float)level / (AW_LEVELS - 1);
}

/* One episode; its mean reward. */
static enum aw_err episode(struct peer *peer, const struct aw_frequency_pair *pair, uint64_t seed,
                           bool learn, double *ret_reward)
{
    struct aw_machine machine;
    struct aw_second second;
    float obs[AW_FREQUENCY_OBS], state[STATE_DIM], next[STATE_DIM], action;
    double sum = 0;
    enum aw_err err = AW_OK;
    aw_machine_reset(&machine, pair, AW_REWARD_ENERGY, seed, obs);
    see(obs, machine.level, state);
    for (uint32_t s = 0; !err && s < AW_MACHINE_SECONDS; s++) {
        err = peer->agent.ops->act(peer->agent.self, state, 1, learn, &action);
        if (err)
            break;
        aw_machine_step(&machine, (uint32_t)action, obs, &second);
        see(obs, machine.level, next);
        sum += second.reward;
        if (learn) {
            const float reward = (float)second.reward;
            const bool terminated = false, truncated = s + 1 == AW_MACHINE_SECONDS;
            const struct aw_transition transition = {.obs = state,
                                                     .action = &action,
                                                     .reward = &reward,
                                                     .next_obs = next,
                                                     .terminated = &terminated,
                                                     .truncated = &truncated};
            err = peer->agent.ops->observe(peer->agent.self, &transition);
            if (!err)
                err = peer->agent.ops->learn(peer->agent.self, NULL);
        }
        memcpy(state, next, sizeof state);
    }
    *ret_reward = sum / AW_MACHINE_SECONDS;
    return err;
}

static enum aw_err examine(struct peer *peer, const struct aw_frequency_pair *pair,
                           double *ret_reward)
{
    double sum = 0;
    for (uint32_t i = 0; i < EXAMINE_SEEDS; i++) {
        double reward;
        const enum aw_err err = episode(peer, pair, 77 + i, false, &reward);
        if (err)
            return err;
        sum += reward;
    }
    *ret_reward = sum / EXAMINE_SEEDS;
    return AW_OK;
}

/* Trains for `episodes`; the reward after each, greedy, in `curve`. */
static enum aw_err teach(struct peer *peer, const struct aw_frequency_pair *pair, uint32_t episodes,
                         double *curve)
{
    for (uint32_t e = 0; e < episodes; e++) {
        double unused;
        enum aw_err err = episode(peer, pair, peer->seed * 1000 + e, true, &unused);
        if (!err)
            err = examine(peer, pair, &curve[e]);
        if (err)
            return err;
    }
    return AW_OK;
}

/* ---- the learner of ours ---- */

/* The reward of an episode; the driver goes on with what it knows of the pair. */
static double drive(struct aw_frequency_driver *driver, const struct aw_frequency_pair *pair,
                    uint64_t seed)
{
    struct aw_machine machine;
    struct aw_second second = {0};
    float obs[AW_FREQUENCY_OBS];
    double sum = 0;
    aw_machine_reset(&machine, pair, AW_REWARD_ENERGY, seed, obs);
    for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
        aw_machine_step(&machine, aw_frequency_decide(driver, obs, second.reward), obs, &second);
        sum += second.reward / AW_MACHINE_SECONDS;
    }
    return sum;
}

/* Meets the pair for the first time, in each of the episodes for examination. */
static enum aw_err meet(struct aw_frequency_learner *learner, const struct aw_frequency_pair *pair,
                        double *ret_reward)
{
    double sum = 0;
    for (uint32_t i = 0; i < EXAMINE_SEEDS; i++) {
        struct aw_frequency_driver driver;
        const enum aw_err err =
            aw_frequency_begin(&driver, learner, &pair->processor, AW_FREQUENCY_EMBEDDED, "peer");
        if (err)
            return err;
        sum += drive(&driver, pair, 77 + i);
        aw_frequency_end(&driver);
    }
    *ret_reward = sum / EXAMINE_SEEDS;
    return AW_OK;
}

/* The reward now, in the episodes for examination; nothing is learned in them. */
static double examine_driver(const struct aw_frequency_driver *driver, double lean,
                             const struct aw_frequency_pair *pair)
{
    double sum = 0;
    for (uint32_t i = 0; i < EXAMINE_SEEDS; i++) {
        struct aw_frequency_driver copy = *driver;
        copy.deaf = true; /* copy and driver share the learner, which knows them as one pair */
        copy.lean = lean;
        aw_frequency_again(&copy);
        sum += drive(&copy, pair, 77 + i);
    }
    return sum / EXAMINE_SEEDS;
}

/* Lives `episodes` of the pair. Encoder and values stay as they are; the lean is sought by what
 * episodes earn, as `aware adapt` does (base/bayes_opt.h). */
static enum aw_err adapt(struct aw_frequency_learner *learner, const struct aw_frequency_pair *pair,
                         uint64_t seed, uint32_t episodes, double *curve)
{
    struct aw_bayes_opt seek = {0};
    struct aw_frequency_driver driver;
    const struct aw_bayes_opt_config config = {
        .dim = 1, .seed = seed, .length = LEAN, .spread = 0.02, .noise = 0.015};
    enum aw_err err = aw_bayes_opt_init(&seek, &config, NULL);
    if (!err)
        err = aw_frequency_begin(&driver, learner, &pair->processor, AW_FREQUENCY_EMBEDDED, "peer");
    for (uint32_t e = 0; !err && e < episodes; e++) {
        double best;
        if (e > 0) {
            aw_frequency_again(&driver);
            aw_bayes_opt_next(&seek, &driver.lean);
        }
        const double reward = drive(&driver, pair, seed * 1000 + e);
        if (e > 0) /* the first began with the sweep: it says nothing of its lean */
            aw_bayes_opt_tell(&seek, &driver.lean, reward);
        aw_bayes_opt_best(&seek, &best);
        curve[e] = examine_driver(&driver, best, pair);
    }
    if (!err)
        aw_frequency_end(&driver);
    aw_bayes_opt_deinit(&seek);
    return err;
}

/* ---- all of them on one pair ---- */

/* Episodes until a curve is as good as wanted, and stays so; `episodes` + 1: never. */
static double reached(const double *curve, uint32_t episodes, double wanted)
{
    uint32_t e = episodes;
    while (e && curve[e - 1] >= wanted)
        e--;
    return e + 1;
}

/* clang-format off */
#define PEERS(X)                                                                \
    X(CONVERGED, "DQN, converged here")                                         \
    X(VANILLA,   "DQN of another pair (vanilla)")                               \
    X(TRANSFER,  "DQN of another pair, trained on (transfer)")                  \
    X(MANY,      "DQN of eight pairs in turn, trained on (multi-task)")         \
    X(FIRST,     "learned, first episode")                                      \
    X(ADAPTED,   "learned, adapting")
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
    double reward, drop, episodes; /* episodes: NAN where it does not learn here */
};

struct contest {
    uint64_t seed;
    uint32_t pairs, episodes;
    const struct aw_task_sink *sink;
    struct outcome (*outcome)[PEER_COUNT]; /* [seeds * pairs] */
};

static enum aw_err transfer(const struct contest *contest, uint64_t seed, bool many,
                            const struct aw_frequency_pair *here, double best, double *curve,
                            struct outcome *out, struct aw_diag *diag)
{
    struct peer peer = {0};
    double before = 0;
    const uint32_t lessons = many ? MANY : 1, each = contest->episodes / lessons;
    enum aw_err err = peer_make(&peer, seed + (many ? 7000 : 5000), 2 * contest->episodes, diag);
    for (uint32_t i = 0; !err && i < lessons; i++) {
        struct aw_frequency_pair there;
        aw_frequency_pair_draw(PEER_BASE + seed + 31 * i, false, (seed + i) % 2, &there);
        err = teach(&peer, &there, each, curve);
    }
    if (!err)
        err = examine(&peer, here, &before);
    if (!err && !many)
        out[P_VANILLA] = (struct outcome){before, (best - before) / fabs(best), (double)NAN};
    if (!err)
        err = teach(&peer, here, contest->episodes, curve);
    const double last = err ? 0 : curve[contest->episodes - 1];
    out[many ? P_MANY : P_TRANSFER] = (struct outcome){
        last, (best - last) / fabs(best), err ? 0 : reached(curve, contest->episodes, NEAR * best)};
    aw_agent_free(&peer.agent);
    return err;
}

static void pair_of(const struct contest *contest, uint32_t turn, uint64_t *ret_seed,
                    struct aw_frequency_pair *ret)
{
    *ret_seed = (contest->seed + turn / contest->pairs) * 101 + turn % contest->pairs;
    aw_frequency_pair_draw(PEER_BASE + *ret_seed, true, *ret_seed % 2, ret);
}

static enum aw_err dqn_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct contest *contest = ctx;
    struct outcome *out = contest->outcome[turn];
    struct aw_frequency_pair here;
    struct peer fresh = {0};
    uint64_t seed;
    double best = 0;
    double *curve = aw_alloc_new(NULL, contest->episodes, sizeof *curve);
    if (!curve)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a curve");
    pair_of(contest, turn, &seed, &here);
    enum aw_err err = peer_make(&fresh, seed, contest->episodes, diag);
    if (!err)
        err = teach(&fresh, &here, contest->episodes, curve);
    for (uint32_t e = contest->episodes - TAIL; !err && e < contest->episodes; e++)
        best += curve[e] / TAIL;
    if (!err) {
        out[P_CONVERGED] =
            (struct outcome){best, 0, reached(curve, contest->episodes, NEAR * best)};
        err = transfer(contest, seed, false, &here, best, curve, out, diag);
    }
    if (!err)
        err = transfer(contest, seed, true, &here, best, curve, out, diag);
    aw_agent_free(&fresh.agent);
    aw_alloc_free(NULL, curve);
    return err;
}

static enum aw_err ours(const struct contest *contest, uint32_t turn,
                        struct aw_frequency_learner *learner, double *curve)
{
    struct outcome *out = contest->outcome[turn];
    struct aw_frequency_pair here;
    uint64_t seed;
    double first = 0;
    const double best = out[P_CONVERGED].reward;
    pair_of(contest, turn, &seed, &here);
    enum aw_err err = meet(learner, &here, &first);
    if (!err)
        err = adapt(learner, &here, seed, contest->episodes, curve);
    if (err)
        return err;
    const double last = curve[contest->episodes - 1];
    out[P_FIRST] = (struct outcome){first, (best - first) / fabs(best), (double)NAN};
    out[P_ADAPTED] = (struct outcome){last, (best - last) / fabs(best),
                                      reached(curve, contest->episodes, NEAR * best)};
    /* an episode is lived before the curve begins: the meeting itself */
    if (first >= NEAR * best && out[P_ADAPTED].episodes <= 1)
        out[P_ADAPTED].episodes = 1;
    return AW_OK;
}

/* ---- rows ---- */

static void row(const struct contest *contest, uint32_t seeds, uint32_t who, double *scratch)
{
    const struct aw_task_sink *sink = contest->sink;
    const uint32_t all = seeds * contest->pairs;
    double reward = 0, drop = 0, never = 0, sum = 0, low = INFINITY, high = -INFINITY;
    for (uint32_t s = 0; s < seeds; s++) {
        double of_seed = 0;
        for (uint32_t i = 0; i < contest->pairs; i++) {
            const struct outcome *out = &contest->outcome[s * contest->pairs + i][who];
            reward += out->reward / all;
            drop += out->drop / all;
            never += out->episodes > contest->episodes;
            of_seed += out->episodes / contest->pairs;
            scratch[s * contest->pairs + i] = out->episodes;
        }
        sum += of_seed / seeds;
        low = fmin(low, of_seed);
        high = fmax(high, of_seed);
    }
    const bool learns = !isnan(sum);
    if (learns)
        aw_stats_sort(scratch, all);
    sink->text(sink->self, "method", peer_names[who]);
    sink->figure(sink->self, "pairs", all);
    sink->figure(sink->self, "reward", reward);
    sink->figure(sink->self, "drop", drop);
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
                                   "DQN on single pairs");
}

enum aw_err aw_frequency_peers(struct aw_frequency_learner *learner, const struct aw_task_ask *ask,
                               uint32_t pairs, uint32_t episodes, const struct aw_task_sink *sink,
                               struct aw_diag *diag)
{
    const uint32_t all = ask->seeds * pairs;
    struct contest contest = {
        .seed = ask->seed, .pairs = pairs, .episodes = episodes, .sink = sink};
    double *scratch = aw_alloc_new(NULL, (size_t)all + episodes, sizeof *scratch);
    contest.outcome = aw_alloc_new(NULL, all, sizeof *contest.outcome);
    enum aw_err err = scratch && contest.outcome
                          ? AW_OK
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory for %u pairs", all);
    if (!err)
        err = aw_parallel_tasks(ask->threads ? ask->threads : aw_threads_cpu_count(), all, dqn_turn,
                                &contest, watch, &contest, NULL, diag);
    for (uint32_t i = 0; !err && i < all; i++)
        err = ours(&contest, i, learner, scratch + all);
    for (uint32_t who = 0; !err && who < PEER_COUNT; who++)
        row(&contest, ask->seeds, who, scratch);
    if (!err)
        sink->note(
            sink->self,
            "Converged is the mean of the last ten episodes of DQN on that pair, examined without "
            "exploration. Episodes are until 95 % of it, for good; a pair "
            "where that never comes counts as all episodes and one. Low and high: of seeds.");
    aw_alloc_free(NULL, contest.outcome);
    aw_alloc_free(NULL, scratch);
    return err;
}
