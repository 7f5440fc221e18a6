/*
 * ddpg.h - deep deterministic policy gradient (Lillicrap et al., 2016), the learner of FIRM and
 * AWARE. The learner itself is dpg.c; settings are struct aw_dpg_settings. docs/algorithms/ddpg.md
 */
#ifndef AW_RL_DDPG_H
#define AW_RL_DDPG_H

#include "rl/agents.h"

extern const struct aw_agent_factory aw_ddpg_factory;

#endif
