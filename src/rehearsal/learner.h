/*
 * learner.h - what a workload has lived through, and rounds of learning from it.
 *
 * A learner holds the latest episodes of one workload. A round takes a policy and that record, and
 * gives a better policy; it carries nothing else from round to round, so another process with the
 * record and the policy goes on exactly where this one stopped. Rounds happen between episodes:
 * within one, the policy that acts does not change.
 *
 * Call order: new; add per finished step and end per finished episode; round and estimate between
 *             episodes, as often as wanted; free.
 * Memory:     the record is one block, sized at new. A round allocates what it needs and frees it.
 * Threads:    single owner. Same record, policy and seed, same bytes.
 *
 * The reward is made anew in every round, from cost and violation and the weight of the SLO in
 * force, so that a weight that moves does not make the past mean something else.
 */
#ifndef AW_REHEARSAL_LEARNER_H
#define AW_REHEARSAL_LEARNER_H

#include "base/alloc.h"
#include "base/conf.h"
#include "meta/bundle.h"
#include "rehearsal/copyenv.h"
#include "rl/actnet.h"
#include "rl/ope.h"

#define AW_LEARNER_STEPS_MAX AW_OPE_STEPS_MAX

#define AW_LEARNER_COPIES         2u /* that one round learns on */
#define AW_LEARNER_COPY_STEPS_MIN 64u

/* How a round learns. */
enum aw_learner_method {
    AW_LEARNER_BCQ, /* from the record, near what was done (aw_learner_round) */
    AW_LEARNER_PPO, /* this and the next ones by acting, on copies of the workload */
    AW_LEARNER_TD3, /* (aw_learner_round_on_copies) */
    AW_LEARNER_DDPG,
};
extern const char *const aw_learner_method_names[]; /* "bcq", ..., NULL: names of rl/agents.h */

struct aw_learner_settings {
    uint32_t method;      /* enum aw_learner_method */
    uint32_t copy_steps;  /* on copies, in one round */
    uint32_t episodes;    /* kept; the oldest go first */
    uint32_t hidden;      /* units of the policy's two layers */
    uint32_t updates;     /* of one round */
    uint32_t fit_updates; /* that turn what was learned into the policy that serves */
    uint32_t batch;
    double gamma;
    double learning_rate;
    double
        reach_offline; /* how far a policy learned from the fallback may depart from its actions */
    double reach_online; /* and one learned from its own as well */
    struct aw_ope_settings ope;
};
extern const struct aw_conf_field aw_learner_fields[];

struct aw_learner_shape {
    uint32_t obs_dim, act_dim;
    uint32_t episode_steps;
};

/* One finished step. */
struct aw_learner_step {
    const float *obs;      /* [obs_dim] */
    const float *action;   /* [act_dim] in [-1, 1], as carried out */
    const float *next_obs; /* [obs_dim] */
    double gain;           /* what the objective counts for the step before the SLO is weighed */
    bool violated;
    bool by_fallback; /* else the agent acted */
    double read;      /* its reward as a shared model reads it (pretrained.h); 0: no model */
};

enum aw_learner_round {
    AW_LEARNER_OFFLINE, /* stay near what was done */
    AW_LEARNER_ONLINE,  /* go on from what the policy itself did */
};

struct aw_learner_stats {
    uint32_t steps, episodes;     /* on record */
    double imitation;             /* mean square of the policy against what it was taught */
    double critic_loss;           /* of the last update; ppo: of its values */
    uint32_t copies;              /* learned on; 0: none */
    double copy_first, copy_last; /* mean reward of a step in the first and last quarter there */
};

struct aw_learner; /* opaque */

AW_NODISCARD enum aw_err aw_learner_new(const struct aw_learner_shape *shape,
                                        const struct aw_learner_settings *settings,
                                        const struct aw_alloc *alloc,
                                        struct aw_learner **ret_learner, struct aw_diag *diag);
void aw_learner_free(struct aw_learner *learner); /* NULL is a no-op */

/* Copies. AW_ERR_DIVERGED: a number is not finite; nothing was taken. */
AW_NODISCARD enum aw_err aw_learner_add(struct aw_learner *learner,
                                        const struct aw_learner_step *step);
/* The episode is over; one without steps is a no-op. */
void aw_learner_end(struct aw_learner *learner);
uint32_t aw_learner_episodes(const struct aw_learner *learner); /* ended ones */
size_t aw_learner_bytes(const struct aw_learner *learner);
/* The episodes on record that the fallback lived alone, oldest first, into `bundle`, whose steps
 * are of this shape. Returns how many it kept. */
uint32_t aw_learner_bundle(const struct aw_learner *learner, struct aw_bundle *bundle);
/* Drops what is on record but for the last `episodes`: what came before a change of the workload.
 */
void aw_learner_forget(struct aw_learner *learner, uint32_t episodes);

/* Makes `actor` better. `lambda`: weight of the SLO. AW_ERR_NODATA: fewer than
 * AW_OPE_EPISODES_MIN episodes. On failure `actor` is as it was. */
AW_NODISCARD enum aw_err aw_learner_round(struct aw_learner *learner, enum aw_learner_round kind,
                                          double lambda, uint64_t seed, struct aw_actnet *actor,
                                          struct aw_learner_stats *ret_stats, struct aw_diag *diag);

/* The same by a learner of the settings' method, which is not BCQ: made anew, it acts for
 * copy_steps on copies of the workload, and what it would do in the states it came through and in
 * those on record is taught to `actor`. `copy` describes one of them, lambda included; its seed is
 * replaced. AW_ERR_NODATA: fewer episodes than AW_OPE_EPISODES_MIN, or no copy can be made. */
AW_NODISCARD enum aw_err aw_learner_round_on_copies(struct aw_learner *learner,
                                                    const struct aw_copyenv_config *copy,
                                                    uint64_t seed, struct aw_actnet *actor,
                                                    struct aw_learner_stats *ret_stats,
                                                    struct aw_diag *diag);

/* What `actor` would earn per episode, with an interval of `level`, judged from the record. */
AW_NODISCARD enum aw_err aw_learner_estimate(struct aw_learner *learner,
                                             const struct aw_actnet *actor, double lambda,
                                             double level, uint64_t seed,
                                             struct aw_ope_estimate *ret, struct aw_diag *diag);

#endif
