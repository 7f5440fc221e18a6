/*
 * peers_teach.h - teaches agents of one cluster together (policy/peers.h), by SIMPPO.
 *
 * Towns are made of applications of a pool: some of them on one simulated cluster that has room for
 * a good deal more than the mean load, or not much. In every episode all agents of a town live
 * through the same hours, behind the rails that production has, and one network for each category
 * is learned from all of them (multi/simppo.h): state of its own to the actor, leave-one-out means
 * and deviations of all others to the critic, a reward that is partly the team's. Other towns
 * choose the best networks, and others again say what they are worth.
 *
 * Call order: config_init, changes; teach; aw_peers_model_save.
 * Memory:     the towns; the model is the caller's.
 * Threads:    single owner. Same seed, same bytes.
 *
 * The trap: what is taught or chosen on is not to be reported on, neither applications nor loads.
 */
#ifndef AW_PRETRAIN_PEERS_TEACH_H
#define AW_PRETRAIN_PEERS_TEACH_H

#include "policy/peers.h"
#include "pretrain/pretrain.h"
#include "simulation/simulate.h"

#define AW_PEERS_TOWN_MAX 32u /* agents of a town */

struct aw_peers_teach_config {
    struct aw_pretrain_pool learn, choose, report; /* applications */
    /* The load of each, a day of it. */
    enum aw_err (*load_make)(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                             struct aw_load *ret_load, struct aw_diag *diag);
    void *load_ctx;
    double cores;                       /* that the mean load of an application needs */
    struct aw_simulate_config simulate; /* bounds, SLO, prices, cluster, seed */
    const struct aw_library *library;   /* of rules, which are corrected; NULL: the plain one */
    uint32_t towns, towns_checked;      /* to learn in; to choose, and as many to report */
    uint32_t agents_min, agents_max;    /* of a town */
    double room_min, room_max;          /* cores of a town, over what its mean loads need */
    uint32_t episodes;
    double miss;        /* what a missed step costs in an agent's reward, in ln of cost */
    double team_weight; /* of the team's mean in the reward */
};
/* Defaults; pools and loads are the caller's to fill in. */
void aw_peers_teach_config_init(struct aw_peers_teach_config *config);

/* What a way to choose came to, in the towns to report. */
struct aw_peers_lived {
    double missed; /* share of steps */
    double cost;   /* over what the load needs (aw_need_per_hour) */
    double value;  /* ln of the cost, misses priced in; lower is better */
};
struct aw_peers_taught {
    struct aw_peers_lived learned, fixed[AW_PEERS_CHOICES]; /* and always the same choice */
    uint32_t agents[AW_PEERS_CATEGORIES];                   /* reported on */
    uint32_t episodes;                                      /* of the networks that were chosen */
};

/* Called as episodes finish. False: AW_ERR_INTERRUPTED. */
typedef bool aw_peers_teach_progress(void *ctx, uint32_t done, uint32_t total);

/* On failure `ret_model` is untouched. */
AW_NODISCARD enum aw_err aw_peers_teach(const struct aw_peers_teach_config *config,
                                        aw_peers_teach_progress *progress, void *ctx,
                                        const struct aw_alloc *alloc,
                                        struct aw_peers_model *ret_model,
                                        struct aw_peers_taught *ret_taught, struct aw_diag *diag);

#endif
