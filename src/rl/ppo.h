/*
 * ppo.h - proximal policy optimisation (Schulman et al., 2017) for box and discrete actions.
 *
 * Collects a rollout under its own policy, estimates advantages (rollout.h), makes several epochs
 * of clipped minibatch updates (ppo_model.h), throws the rollout away. docs/algorithms/ppo.md has
 * the equations and every detail.
 *
 * Call order: as <aware/agent.h> says. act with `explore` remembers what it drew, and the following
 *             observe uses that, not the action handed in: the ratio of probabilities is about the
 *             draw, and the world may have clipped it. So observe without an act of all
 *             environments before it is AW_ERR_USAGE, and so is observe when a full rollout waits
 *             for learn.
 * Memory:     sized at make. act, observe and learn never allocate.
 * Threads:    single owner.
 */
#ifndef AW_RL_PPO_H
#define AW_RL_PPO_H

#include "rl/agents.h"

struct aw_ppo_settings {
    uint64_t total_steps; /* environment steps of the whole run; 0: nothing is annealed */
    struct aw_conf_u32_list hidden;
    uint32_t activation; /* index: tanh, relu */
    float lr;
    bool anneal_lr;
    float adam_eps;
    float gamma;
    float gae_lambda;
    uint32_t rollout_steps; /* transitions of one rollout, over all environments */
    uint32_t minibatches;
    uint32_t epochs;
    float clip_range;
    bool anneal_clip;
    float value_clip_range; /* 0: off */
    float value_coef;
    float entropy_coef;
    float grad_clip; /* 0: off */
    float target_kl; /* 0: off */
    bool normalise_advantage;
    bool normalise_obs;
    bool scale_reward;
    float log_std_init;
};

extern const struct aw_agent_factory aw_ppo_factory;

#endif
