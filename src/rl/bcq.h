/*
 * bcq.h - batch-constrained Q-learning (Fujimoto, Meger and Precup, 2019): learns from a fixed set
 * of transitions and stays near the actions in it.
 *
 * Fill it through observe, one call per stored step; then call learn, which makes
 * `updates_per_step` updates each time. docs/algorithms/bcq.md
 */
#ifndef AW_RL_BCQ_H
#define AW_RL_BCQ_H

#include "rl/agents.h"
#include "rl/offpolicy.h"

struct aw_bcq_settings {
    struct aw_offpolicy_settings base;
    struct aw_conf_u32_list hidden;     /* critics and perturbation */
    struct aw_conf_u32_list vae_hidden; /* encoder and decoder */
    float actor_lr, critic_lr, vae_lr;
    float phi;
    float lambda;
    float kl_weight;
    uint32_t next_samples;
    uint32_t act_samples;
};

extern const struct aw_agent_factory aw_bcq_factory;

#endif
