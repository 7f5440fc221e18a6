/*
 * simppo.h - SIMPPO (Qiu et al., SoCC 2022): PPO of many agents that learn together.
 *
 * The actor of an agent sees its own state; the critic sees that and the auxiliary state of all
 * others; what is learned from is a mixture of an agent's own reward and the team's (team.h). One
 * network serves all agents of a category (CPU, memory, I/O), or each has its own. Rows of one
 * network are learned from together.
 *
 * Call order: settings_init, new; then episode (which lives one and learns) or act; free.
 * Memory:     all at new, for the team's agents_max and `horizon` steps.
 * Threads:    single owner. Chance comes from `seed` alone.
 */
#ifndef AW_MULTI_SIMPPO_H
#define AW_MULTI_SIMPPO_H

#include "multi/team.h"
#include "rl/ppo_model.h"

enum aw_simppo_critic {
    AW_SIMPPO_LOCAL,  /* its own state: IPPO */
    AW_SIMPPO_AUX,    /* and leave-one-out means and deviations: SIMPPO */
    AW_SIMPPO_MEANS,  /* and the means alone */
    AW_SIMPPO_ALL,    /* and the mean of all local states: SIMPPO-All of section 4.8.2 */
    AW_SIMPPO_STATES, /* and each local state of all others: MAPPO; for 30 agents at the most */
};

struct aw_simppo_settings {
    uint32_t critic; /* enum aw_simppo_critic */
    bool shared;     /* one network for a category; else one for each agent */
    bool aux_in_actor;
    uint32_t turns;     /* in a step so many act, those with the lowest SLO preservation first, and
                           the others hold: CPQ-RL; 0: all */
    uint32_t horizon;   /* steps of an episode */
    uint32_t minibatch; /* rows */
    uint32_t epochs;
    double lr, gamma, lambda; /* lambda 1: plain discounted returns */
    bool bootstrap;           /* the end of an episode is no end: V is added */
    double clip, entropy, value_coef, grad_norm;
    bool relu;       /* in hidden layers, as what serves has it; else tanh */
    uint32_t hidden; /* units of each of two layers */
};
void aw_simppo_settings_init(struct aw_simppo_settings *settings, bool paper);

struct aw_simppo; /* opaque */

AW_NODISCARD enum aw_err aw_simppo_new(const struct aw_simppo_settings *settings,
                                       struct aw_team *team, uint64_t seed,
                                       const struct aw_alloc *alloc, struct aw_simppo **ret,
                                       struct aw_diag *diag);
void aw_simppo_free(struct aw_simppo *simppo); /* NULL is a no-op */

/* Actions of all agents that are there, for what the team has observed. `greedy`: the likeliest. */
void aw_simppo_act(struct aw_simppo *simppo, bool greedy, uint8_t *ret_action);
/* One episode of the team from where its world is now, and what is learned from it. Returns the sum
 * of the team's rewards. `learn` false: it is only lived. */
double aw_simppo_episode(struct aw_simppo *simppo, bool learn);
/* A newcomer without sharing begins with what `from` knows. */
void aw_simppo_inherit(struct aw_simppo *simppo, uint32_t agent, uint32_t from);
/* The networks of `from`, whose shapes are the same: for another team, larger perhaps. */
void aw_simppo_adopt(struct aw_simppo *simppo, const struct aw_simppo *from);
/* The actor of a network and its weights. */
const struct aw_mlp *aw_simppo_actor(const struct aw_simppo *simppo, uint32_t net,
                                     const float **ret_theta);
/* Of an agent: what acting and what learning keeps of it, networks not counted. */
size_t aw_simppo_bytes_serving(const struct aw_simppo *simppo);
size_t aw_simppo_bytes_training(const struct aw_simppo *simppo);
size_t aw_simppo_parameters(const struct aw_simppo *simppo); /* of one network */

#endif
