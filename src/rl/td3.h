/*
 * td3.h - twin delayed DDPG (Fujimoto et al., 2018). The learner itself is dpg.c; settings are
 * struct aw_dpg_settings. docs/algorithms/td3.md
 */
#ifndef AW_RL_TD3_H
#define AW_RL_TD3_H

#include "rl/agents.h"

extern const struct aw_agent_factory aw_td3_factory;

#endif
