/*
 * learn.h - FIRM's agent learns how much to give: episodes in which one service of a simulated
 * graph is short of something (thesis, 3.2.4, 3.3.3).
 *
 * One for all services, one for each (learned on one service alone), or transferred: the one for
 * all goes on with one service.
 *
 * Call order: agent_new; teach any number of times; hand the agent to a manager; aw_agent_free.
 */
#ifndef AW_FIRM_LEARN_H
#define AW_FIRM_LEARN_H

#include "firm/manager.h"
#include "graph/campaign.h"

struct aw_firm_learn {
    uint64_t seed;
    uint32_t episodes;
    uint32_t only; /* a service; AW_GRAPH_NONE: all of them */
    bool absolute; /* the paper's actions */
    /* Called after each episode with its mean reward, 0 to 5; false stops. NULL: nobody looks. */
    bool (*episode)(void *ctx, uint32_t number, double reward);
    void *ctx;
};

#define AW_FIRM_EPISODE_STEPS 12u

/* `learner` "ddpg" or "td3"; `paper`: Table 3.3 as it stands. AW_ERR_NOTFOUND, AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_firm_agent_new(const char *learner, bool paper, uint64_t seed,
                                           const struct aw_alloc *alloc, struct aw_agent *ret,
                                           struct aw_diag *diag);
/* AW_ERR_DIVERGED: the agent must be thrown away. AW_ERR_INTERRUPTED. */
AW_NODISCARD enum aw_err aw_firm_teach(const struct aw_graph_app *app,
                                       const struct aw_calibration *calibration,
                                       const struct aw_firm_learn *learn, struct aw_agent *agent,
                                       const struct aw_alloc *alloc);

#endif
