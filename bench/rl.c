/*
 * rl.c - steps per second of whole training loops: act, step, observe, learn.
 *
 * Each learner trains on a built-in environment with its own settings for it, warm-up excluded, so
 * the figure is what `aware train` reaches once it learns.
 */
#include "bench/bench.h"

#include "base/clock.h"
#include "train/train.h"

#include <stdio.h>
#include <string.h>

#define WARM_STEPS    5000u
#define MEASURE_US    1000000
#define STEPS_A_SLICE 256u

static const struct {
    const char *agent, *env;
} pairs[] = {
    {"ddpg", "pendulum-v1"}, {"td3", "pendulum-v1"}, {"ppo", "cartpole-v1"},
    {"ppo", "pendulum-v1"},  {"dqn", "cartpole-v1"},
};

static enum aw_err measure(const char *agent, const char *env, struct aw__bench *bench,
                           struct aw_diag *diag)
{
    struct aw_train_config config = {.steps = AW_TRAIN_STEPS_MAX, .seed = 1};
    struct aw_train *train = NULL;
    const struct aw_agent_factory *factory;
    snprintf(config.env, sizeof config.env, "%s", env);
    snprintf(config.agent, sizeof config.agent, "%s", agent);
    snprintf(config.preset, sizeof config.preset, "%s", env);
    enum aw_err err = aw_agent_factory_find(agent, &factory, diag);
    if (!err)
        err = aw_agent_settings(factory, env, config.settings, diag);
    config.env_count = factory && factory->on_policy ? 8 : 1;
    if (!err)
        err = aw_train_new(&config, NULL, &train, diag);
    if (!err)
        err = aw_train_step(train, WARM_STEPS, NULL, NULL, diag);
    if (err)
        goto out;
    const uint64_t steps = aw_train_progress(train)->step;
    const uint64_t updates = aw_train_progress(train)->update_count;
    int64_t begin_us = aw_clock_monotonic_us(NULL), now_us;
    do {
        err = aw_train_step(train, STEPS_A_SLICE, NULL, NULL, diag);
        now_us = aw_clock_monotonic_us(NULL);
    } while (!err && now_us - begin_us < MEASURE_US);
    if (!err) {
        const double seconds = (double)(now_us - begin_us) * 1e-6;
        aw__bench_add(bench, "steps/s", "%s on %s", agent, env)->value =
            (double)(aw_train_progress(train)->step - steps) / seconds;
        aw__bench_add(bench, "updates/s", "%s on %s, updates", agent, env)->value =
            (double)(aw_train_progress(train)->update_count - updates) / seconds;
    }
out:
    aw_train_free(train);
    return err;
}

enum aw_err aw__bench_rl(struct aw__bench *bench, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (size_t i = 0; !err && i < sizeof pairs / sizeof *pairs; i++)
        err = measure(pairs[i].agent, pairs[i].env, bench, diag);
    return err;
}
