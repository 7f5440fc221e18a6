/*
 * context_testing.h - a family of tasks that no policy can do without knowing which one it is in.
 *
 * In task w the best action in state x is (x + c_w) / 2, with a hidden c_w in [-1, 1] that no state
 * shows; the reward is minus the squared distance. Episodes of random actions show c_w to who looks
 * at which actions were rewarded. Without context the best that one policy can do is c = 0.
 */
#ifndef AW_META_CONTEXT_TESTING_H
#define AW_META_CONTEXT_TESTING_H

#include "meta/context.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

#define TASKS 48u
#define HELD  16u /* tasks that are never learned from */
#define STEPS 20u

struct toy {
    struct aw_context *context;
    double c[TASKS + HELD];
    struct aw_rng rng;
};

static inline double reward_of(double c, float x, float a)
{
    const double off = (double)a - ((double)x + c) / 2;
    return -off * off;
}

static inline void live(struct toy *toy, uint32_t task, bool learn)
{
    float obs[STEPS], action[STEPS], reward[STEPS];
    for (uint32_t t = 0; t < STEPS; t++) {
        obs[t] = (float)aw_rng_uniform(&toy->rng, -1, 1);
        action[t] = (float)aw_rng_uniform(&toy->rng, -1, 1);
        reward[t] = (float)reward_of(toy->c[task], obs[t], action[t]);
    }
    aw_context_episode(toy->context, task, obs, action, reward, STEPS);
    for (uint32_t t = 0; learn && t + 1 < STEPS; t++)
        assert_ok(aw_context_push(toy->context, task, &obs[t], &action[t], reward[t], &obs[t + 1],
                                  false));
}

static inline void toy_config(struct aw_context_config *config, uint32_t kind, uint64_t seed)
{
    aw_context_config_init(config);
    config->obs_dim = config->act_dim = 1;
    config->steps = STEPS;
    config->workloads = TASKS + HELD;
    config->seed = seed;
    config->settings.encoder = kind;
    config->settings.encoder_hidden = kind == AW_ENCODER_GRU ? 16 : 32;
    config->settings.encoder_dense = 32;
    config->settings.reads = kind == AW_ENCODER_GRU ? 4 : 0;
    config->settings.embedding = 8;
    config->settings.hidden = 32;
    config->settings.episodes = 3;
    config->settings.choice = AW_BUNDLE_LATEST;
    config->settings.gamma = 0;
    config->settings.replay = 64;
    config->settings.rows = 8;
    config->settings.encoder_lr = config->settings.actor_lr = 2e-3;
}

static inline void begin_with(struct toy *toy, const struct aw_context_config *config)
{
    struct aw_diag diag = {0};
    if (aw_context_new(config, NULL, &toy->context, &diag))
        fail_msg("%s", diag.text);
    aw_rng_init(&toy->rng, config->seed, 7);
    for (uint32_t w = 0; w < TASKS + HELD; w++) {
        toy->c[w] = aw_rng_uniform(&toy->rng, -1, 1);
        for (uint32_t e = 0; e < 3; e++)
            live(toy, w, w < TASKS);
    }
    assert_ok(aw_context_normalise(toy->context));
}

static inline void begin(struct toy *toy, uint32_t kind, uint64_t seed)
{
    struct aw_context_config config;
    toy_config(&config, kind, seed);
    begin_with(toy, &config);
}

#endif
