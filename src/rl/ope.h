/*
 * ope.h - off-policy evaluation: what a policy would earn, judged from episodes of another one.
 *
 * Two judges that fail in different ways: fitted Q evaluation (fqe.h) and a learned model of the
 * workload, rolled out (dynamics.h). Both answer for the DIFFERENCE to the policy that acted, whose
 * return is on record: a policy that does what was done is judged exactly, and an error grows with
 * the distance from it. The interval is made of what is known of that error: chance of the episodes
 * on record, disagreement of the members of each ensemble, disagreement of the judges, size of the
 * difference (docs/algorithms/ope.md).
 *
 * Call order: aw_conf_defaults(aw_ope_fields, &settings), new; estimate as often as wanted; free.
 * Memory:     one object for a largest number of steps and episodes, all of it at new. estimate
 *             does not allocate, whatever the policy does.
 * Threads:    single owner. Same data, policy and seed, same bytes.
 *
 * The trap: no data speaks for actions that are nowhere near them. The interval widens there, but
 * it was calibrated on policies that mostly stay near (docs/results/ope.md); `novelty` tells how
 * far this one goes. And a policy that was chosen because its own estimate was the best of many is
 * worse than it looks: the bounds are for one policy, not for the best of many.
 */
#ifndef AW_RL_OPE_H
#define AW_RL_OPE_H

#include "base/alloc.h"
#include "base/conf.h"
#include "rl/logged.h"

#define AW_OPE_STEPS_MAX    100000u /* on record */
#define AW_OPE_EPISODES_MAX 4096u
#define AW_OPE_EPISODES_MIN 4u /* below it nothing can be held out or resampled: AW_ERR_NODATA */
#define AW_OPE_MEMBERS_MAX  16u

struct aw_ope_settings {
    uint32_t members; /* of each ensemble */
    uint32_t hidden;  /* units of each of two layers */
    uint32_t batch;

    uint32_t fqe_updates;
    float fqe_gamma;
    float fqe_tau;
    float fqe_lr;

    uint32_t model_updates; /* at most; hold-out decides */
    float model_lr;
    uint32_t model_rollouts; /* episodes that each member plays, at most */
};
extern const struct aw_conf_field aw_ope_fields[];

struct aw_ope_shape {
    uint32_t obs_dim, act_dim;
    uint32_t steps_max, episodes_max; /* of one record */
};

/* All of returns per episode of `episode_steps` steps, without discount. */
struct aw_ope_estimate {
    double mean;
    double low, high; /* holds the truth with probability `level` */
    double level;

    double behaviour_mean; /* of the record: what the policy that acted earned */
    double fqe_mean;       /* by fitted Q evaluation alone */
    double model_mean;     /* by the learned model alone; NAN where episodes terminate */

    /* what the interval is made of */
    double episode_error; /* standard error from the chance of the episodes on record */
    double fqe_spread;    /* standard deviation over the members */
    double model_spread;
    double model_fit; /* share of a step's variance that the model explains on hold-out, <= 1 */
    double novelty;   /* mean distance of the policy's action from the recorded one, in deviations
                         of the recorded actions; below 1: within what was tried */
    double edge;      /* share of recorded actions that lie on a bound: they may stand for something
                         beyond it that the policy cannot ask for */
};

struct aw_ope; /* opaque */

/* AW_ERR_CONFIG: shapes or settings beyond their limits. `ret_ope` is untouched on failure. */
AW_NODISCARD enum aw_err aw_ope_new(const struct aw_ope_shape *shape,
                                    const struct aw_ope_settings *settings,
                                    const struct aw_alloc *alloc, struct aw_ope **ret_ope,
                                    struct aw_diag *diag);
void aw_ope_free(struct aw_ope *ope); /* NULL is a no-op */

/* `level` in (0, 1): 0.8 gives the interval between the 10 % and 90 % points, so that `low` is a
 * lower bound that holds in 90 % of cases. AW_ERR_NODATA: too few episodes. AW_ERR_RANGE: more of
 * them than the object was made for. AW_ERR_DIVERGED: a number on record, of the policy or of the
 * training is not finite. Errors of the policy are passed on. On failure `ret` is untouched, and
 * the object is as good as before. */
AW_NODISCARD enum aw_err aw_ope_estimate(struct aw_ope *ope, const struct aw_logged *logged,
                                         const struct aw_logged_policy *policy,
                                         uint32_t episode_steps, double level, uint64_t seed,
                                         struct aw_ope_estimate *ret, struct aw_diag *diag);

#endif
