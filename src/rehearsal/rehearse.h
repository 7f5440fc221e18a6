/*
 * rehearse.h - policies tried on copies of a workload before the workload sees them.
 *
 * Several copies (copy_fit.h) are fitted, each believing the record a little differently, and put
 * on a small simulated cluster each under the load of the past, behind the same guard rails that
 * the workload has. A policy's worth is what it costs and misses there. The search for better
 * numbers of a policy (capacity_rule.h) runs on all copies at once: what is good on one alone is
 * luck.
 *
 * Call order: new; play and search in any order; free.
 * Memory:     all at new: the copies, their clusters, the load.
 * Threads:    single owner. Same record, load and seed, same bytes.
 */
#ifndef AW_REHEARSAL_REHEARSE_H
#define AW_REHEARSAL_REHEARSE_H

#include "base/alloc.h"
#include "fallback/fallback.h"
#include "policy/capacity_rule.h"
#include "rehearsal/copy_fit.h"
#include "rl/actnet.h"
#include "safety/step.h"
#include "task/action.h"
#include "task/bounds.h"
#include "task/objective.h"
#include "task/reading.h"
#include "task/state.h"

#define AW_REHEARSE_COPIES_MAX  8u
#define AW_REHEARSE_MINUTES_MAX 1440u
#define AW_REHEARSE_MINUTES_MIN 30u
#define AW_REHEARSE_LIVED_MAX   128u

struct aw_rehearse_settings {
    uint32_t copies;
    uint32_t tries;      /* of random numbers, before the search proper */
    uint32_t tries_near; /* of the search */
    double target;       /* share of the budget that the search aims at */
    double error_max;    /* of a copy; a worse one is no copy */
};
extern const struct aw_conf_field aw_rehearse_fields[];

struct aw_rehearse_config {
    struct aw_rehearse_settings settings;
    struct aw_bounds bounds;
    struct aw_slo slo;
    struct aw_prices prices;
    double budget;
    double step_s, stale_s;
    uint32_t episode_steps; /* by which costs are compared with needs */
    uint32_t controlled;    /* AW_PLAN_*: what may be changed at all */
    struct aw_guard_settings guard;
    struct aw_amounts node;
    bool in_place;
    struct aw_plan start; /* how the workload stands */
    const struct aw_copy_record *record;
    const float *load_per_s; /* [minutes], oldest first */
    uint32_t minutes;
    uint32_t minutes_seen; /* in all: how well its load is known */
    bool tried;            /* what is found goes on trial before it acts alone: less care will do */
    uint64_t seed;
    double slo_weight; /* of the paper's reward */
    /* True: plays give up, with AW_ERR_INTERRUPTED. Any thread writes it; NULL: they never do. */
    const _Atomic bool *stop;
};

/* The result of a policy on one copy. */
struct aw_rehearsed {
    double cost_per_hour;
    double cost_ratio; /* of an episode, to what its load needs (see below); mean over episodes */
    double violation_share;
    double paper_reward; /* of a step */
    double cores;        /* of a replica, as they were wanted; the mean over steps */
    double margin;       /* all cores that were wanted, over those that were used */
};

/* How much busier than the past a copy should be, the more so the less of the load is known. */
double aw_rehearse_busier(uint32_t minutes_seen);

struct aw_rehearsal; /* opaque */

/* AW_ERR_NODATA: too little was seen to make a copy worth the name. */
AW_NODISCARD enum aw_err aw_rehearsal_new(const struct aw_rehearse_config *config,
                                          const struct aw_alloc *alloc,
                                          struct aw_rehearsal **ret_rehearsal,
                                          struct aw_diag *diag);
void aw_rehearsal_free(struct aw_rehearsal *rehearsal); /* NULL is a no-op */
uint32_t aw_rehearsal_copies(const struct aw_rehearsal *rehearsal);
double aw_rehearsal_error(const struct aw_rehearsal *rehearsal); /* mean, of the copies */

/* From now on every copy meets the load that was, none a busier one. To find a policy is to prepare
 * for what may come; to tell what it is worth, what is likely counts. */
void aw_rehearsal_as_it_was(struct aw_rehearsal *rehearsal);

/* `ret` has one entry per copy. `seed`: chance of the cluster. */
AW_NODISCARD enum aw_err aw_rehearsal_play(struct aw_rehearsal *rehearsal,
                                           const struct aw_capacity_rule *rule, uint64_t seed,
                                           struct aw_rehearsed *ret);
AW_NODISCARD enum aw_err aw_rehearsal_play_fallback(struct aw_rehearsal *rehearsal,
                                                    struct aw_fallback *policy, uint64_t seed,
                                                    struct aw_rehearsed *ret);
/* A network, and how its workload is seen and acted on (all borrowed). */
struct aw_rehearse_network {
    const struct aw_actnet *actor;
    const struct aw_state_config *state; /* its SLO becomes as strict for each copy */
    const struct aw_action_config *action;
};
/* AW_ERR_DIVERGED: the network gave an answer that is no number. */
AW_NODISCARD enum aw_err aw_rehearsal_play_network(struct aw_rehearsal *rehearsal,
                                                   const struct aw_rehearse_network *network,
                                                   uint64_t seed, struct aw_rehearsed *ret);
/* An agent of those that learned together, as it leans (policy/peers.h). */
struct aw_peers;
AW_NODISCARD enum aw_err aw_rehearsal_play_peers(struct aw_rehearsal *rehearsal,
                                                 const struct aw_peers *peers, uint64_t seed,
                                                 struct aw_rehearsed *ret);
/* One number to compare by, lower is better: ln of the cost, and a price on missing the target. */
double aw_rehearsal_value(const struct aw_rehearsal *rehearsal, const struct aw_rehearsed *each);

/* A capacity rule to begin a search with, from what `network` does on the copies: replicas of about
 * its size and with as much to spare or less, and a way of reading a load; of these what is worth
 * most. AW_ERR_DIVERGED as play_network. */
AW_NODISCARD enum aw_err aw_rehearsal_translate(struct aw_rehearsal *rehearsal,
                                                const struct aw_rehearse_network *network,
                                                uint64_t seed, struct aw_capacity_rule *ret_rule);

/* Rules that others have lived (all borrowed), and what became of them there: `expected` is their
 * ln cost and the price of their misses; NULL: nobody knows. */
struct aw_rehearse_lived {
    const struct aw_capacity_rule *rule; /* [count] */
    const double *expected;              /* [count] */
    uint32_t count;
};
/* What each would be worth here: what copies say, the more so the longer the record is, and what is
 * expected. Half an hour of load shows what a rule costs, and little of what it may miss. `ret` has
 * room for all. */
AW_NODISCARD enum aw_err aw_rehearsal_rank(struct aw_rehearsal *rehearsal,
                                           const struct aw_rehearse_lived *lived, uint64_t seed,
                                           double *ret);

/* Where a search begins beside its own draws (borrowed; NULL: none). */
struct aw_rehearse_starts {
    const struct aw_capacity_rule *known;  /* what is in force */
    const struct aw_capacity_rule *taught; /* what another policy does (aw_rehearsal_translate) */
    struct aw_rehearse_lived lived;        /* in the place of draws */
};
enum aw_rehearse_from { AW_REHEARSE_DRAWN, AW_REHEARSE_KNOWN, AW_REHEARSE_TAUGHT };
struct aw_rehearse_found {
    struct aw_capacity_rule rule;
    double value;               /* on chance that the search has not seen */
    enum aw_rehearse_from from; /* the start that it came out of */
};
/* The best numbers found. */
AW_NODISCARD enum aw_err aw_rehearsal_search(struct aw_rehearsal *rehearsal,
                                             const struct aw_rehearse_starts *starts, uint64_t seed,
                                             struct aw_rehearse_found *ret_found);

#endif
