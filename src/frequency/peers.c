/* peers.c - DQN of src/rl on single pairs; see study.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/conf.h"
#include "frequency/study.h"
#include "rl/dqn.h"

#define PEER_BASE     900000u
#define NEAR          0.95 /* of the converged agent's reward */
#define STATE_DIM     (AW_FREQUENCY_OBS + 1)
#define EXAMINE_SEEDS 2u

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

static enum aw_err learned(struct aw_frequency_learner *learner,
                           const struct aw_frequency_pair *pair, double *ret_reward)
{
    double sum = 0;
    for (uint32_t i = 0; i < EXAMINE_SEEDS; i++) {
        struct aw_machine machine;
        struct aw_frequency_driver driver;
        struct aw_second second = {0};
        float obs[AW_FREQUENCY_OBS];
        aw_machine_reset(&machine, pair, AW_REWARD_ENERGY, 77 + i, obs);
        const enum aw_err err =
            aw_frequency_begin(&driver, learner, &pair->processor, AW_FREQUENCY_EMBEDDED, "peer");
        if (err)
            return err;
        for (uint32_t s = 0; s < AW_MACHINE_SECONDS; s++) {
            aw_machine_step(&machine, aw_frequency_decide(&driver, obs, second.reward), obs,
                            &second);
            sum += second.reward / AW_MACHINE_SECONDS;
        }
        aw_frequency_end(&driver);
    }
    *ret_reward = sum / EXAMINE_SEEDS;
    return AW_OK;
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
    double converged, vanilla, transfer, learned;
    double vanilla_drop, learned_drop, converged_episodes, transfer_episodes, learned_episodes;
};

static enum aw_err one(struct aw_frequency_learner *learner, uint64_t seed, uint32_t episodes,
                       double *curve, struct tally *tally, struct aw_diag *diag)
{
    struct aw_frequency_pair here, there;
    struct peer fresh = {0}, moved = {0};
    double vanilla = 0, ours = 0;
    aw_frequency_pair_draw(PEER_BASE + seed, true, seed % 2, &here);
    aw_frequency_pair_draw(PEER_BASE + seed, false, seed % 2, &there);
    enum aw_err err = peer_make(&fresh, seed, episodes, diag);
    if (!err)
        err = peer_make(&moved, seed + 5000, episodes, diag);
    if (!err)
        err = teach(&fresh, &here, episodes, curve);
    double best = -INFINITY;
    for (uint32_t e = 0; !err && e < episodes; e++)
        best = fmax(best, curve[e]);
    if (!err) {
        tally->converged += best;
        tally->converged_episodes += reached(curve, episodes, NEAR * best);
        err = teach(&moved, &there, episodes, curve);
    }
    if (!err)
        err = examine(&moved, &here, &vanilla);
    if (!err)
        err = teach(&moved, &here, episodes, curve);
    if (!err)
        err = learned(learner, &here, &ours);
    if (!err) {
        tally->vanilla += vanilla;
        tally->vanilla_drop += (best - vanilla) / fabs(best);
        tally->transfer += curve[episodes - 1];
        tally->transfer_episodes += reached(curve, episodes, NEAR * best);
        tally->learned += ours;
        tally->learned_drop += (best - ours) / fabs(best);
        /* it does not learn here: the first episode is all that it needs, or it never gets there */
        tally->learned_episodes += ours >= NEAR * best ? 1 : episodes + 1.0;
    }
    aw_agent_free(&fresh.agent);
    aw_agent_free(&moved.agent);
    return err;
}

static void row(const struct aw_task_sink *sink, const char *method, uint32_t pairs, double reward,
                double drop, double episodes)
{
    sink->text(sink->self, "method", method);
    sink->figure(sink->self, "pairs", pairs);
    sink->figure(sink->self, "reward", reward / pairs);
    sink->figure(sink->self, "drop", drop / pairs);
    sink->figure(sink->self, "episodes", episodes / pairs);
    sink->row(sink->self);
}

enum aw_err aw_frequency_peers(struct aw_frequency_learner *learner, const struct aw_task_ask *ask,
                               uint32_t pairs, uint32_t episodes, const struct aw_task_sink *sink,
                               struct aw_diag *diag)
{
    struct tally tally = {0};
    double *curve = aw_alloc_new(NULL, episodes, sizeof *curve);
    enum aw_err err = curve ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a curve");
    for (uint32_t i = 0; !err && i < pairs; i++) {
        err = one(learner, ask->seed * 101 + i, episodes, curve, &tally, diag);
        if (!err && !sink->progress(sink->self, (i + 1.0) / pairs, "DQN on single pairs"))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "the comparison was stopped");
    }
    if (!err) {
        row(sink, "DQN, converged here", pairs, tally.converged, 0, tally.converged_episodes);
        row(sink, "DQN of another pair (vanilla)", pairs, tally.vanilla, tally.vanilla_drop,
            (double)NAN);
        row(sink, "DQN of another pair, trained on (transfer)", pairs, tally.transfer,
            pairs * (1 - tally.transfer / tally.converged), tally.transfer_episodes);
        row(sink, "learned, first episode", pairs, tally.learned, tally.learned_drop,
            tally.learned_episodes);
    }
    aw_alloc_free(NULL, curve);
    return err;
}
