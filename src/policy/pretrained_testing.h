/* pretrained_testing.h - small models as files, for tests. */
#ifndef AW_POLICY_PRETRAINED_TESTING_H
#define AW_POLICY_PRETRAINED_TESTING_H

#include <stdio.h>
#include <string.h>

#include "base/testing.h"
#include "meta/context.h"
#include "policy/pretrained.h"
#include "task/action.h"
#include "task/state.h"

#define MODEL_STEPS 20u

/* Metadata as `aware pretrain` writes it. */
static const char *const model_meta[] = {
    "env", "autoscale-v0",          "env.options", "objective=paper",      "pretrain.reward_shift",
    "-1",  "pretrain.reward_scale", "0.1",         "pretrain.reward_miss", "0.3",
};
#define MODEL_PAIRS (sizeof model_meta / sizeof *model_meta / 2)

static inline struct aw_context_config model_config(uint32_t encoder, uint32_t hidden)
{
    struct aw_context_config config;
    aw_context_config_init(&config);
    config.obs_dim = AW_STATE_DEFAULT_DIM;
    config.act_dim = AW_ACTION_DIM;
    config.steps = MODEL_STEPS;
    config.workloads = 1;
    config.seed = 5;
    config.settings.encoder = encoder;
    config.settings.encoder_hidden = config.settings.encoder_dense = 8;
    config.settings.embedding = 6;
    config.settings.hidden = hidden;
    config.settings.episodes = 3;
    config.settings.choice = AW_BUNDLE_LATEST;
    config.settings.replay = 64;
    return config;
}

static inline struct aw_context *model_new(uint32_t encoder, uint32_t hidden)
{
    const struct aw_context_config config = model_config(encoder, hidden);
    struct aw_context *context = NULL;
    struct aw_diag diag = {0};
    if (aw_context_new(&config, NULL, &context, &diag))
        fail_msg("%s", diag.text);
    return context;
}

static inline void model_write(const struct aw_context *context, const char *path)
{
    struct aw_diag diag = {0};
    if (aw_context_save(context, path, model_meta, MODEL_PAIRS, &diag))
        fail_msg("%s", diag.text);
}

#endif
