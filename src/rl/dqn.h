/*
 * dqn.h - deep Q-learning (Mnih et al., 2015) with double Q-learning and a Huber loss, for discrete
 * actions.
 *
 * Acts epsilon-greedily, keeps transitions in a replay ring, and in rounds draws batches from it.
 * docs/algorithms/dqn.md has the equations and every detail.
 *
 * Call order: as <aware/agent.h> says. It learns from whatever was carried out, its own choice or
 *             not. An action that is no whole number below act_n is AW_ERR_RANGE.
 * Memory:     sized at make. act, observe and learn never allocate.
 * Threads:    single owner.
 */
#ifndef AW_RL_DQN_H
#define AW_RL_DQN_H

#include "rl/agents.h"

#define AW_DQN_N_STEPS_MAX 32u

struct aw_dqn_settings {
    uint64_t total_steps; /* environment steps of the whole run; 0: not known */
    struct aw_conf_u32_list hidden;
    float lr;
    bool anneal_lr;
    float gamma;
    uint32_t batch;
    uint32_t replay_capacity;
    uint32_t warmup_steps;
    uint32_t update_every;
    uint32_t updates_per_step;
    bool normalise_obs;
    float reward_scale;
    uint32_t target_every;
    float tau;
    uint32_t n_steps; /* rewards summed before the value of what follows */
    bool double_q;
    float huber_delta;
    float grad_clip; /* 0: off */
    float epsilon_start;
    float epsilon_end;
    float epsilon_fraction; /* 0: epsilon_steps counts */
    uint64_t epsilon_steps;
};

extern const struct aw_agent_factory aw_dqn_factory;

#endif
