/*
 * adapt.h - how a policy gets used to an application, episode by episode, and what that costs.
 *
 * Definitions, used wherever adaptation is reported (docs/results/definitions.md):
 *
 *   judged        the paper's reward R of the policy without noise, on episodes that are the same
 *                 for all and after every episode; judging teaches nothing and costs nothing
 *   converged     the mean of the last AW_ADAPT_TAIL judged rewards of a learner; of an
 *                 application: the best of all learners that were tried on it with the same seed,
 *                 as with another seed other episodes are judged
 *   drop          1 - judged before the first episode / converged of the application
 *   to converge   episodes lived before the first AW_ADAPT_WINDOW judged rewards in a row whose
 *                 mean is within `share` of the application's converged reward; never: censored at
 *                 the end
 *   violations    steps that missed their SLO in the episodes lived until then, with all their
 *                 exploration
 *   deficit       how far below converged the utilisation of those episodes was, on average,
 *                 relative to it
 *   on the way    the same over the first `way` episodes, for all learners alike: who converges at
 *                 once has no episodes to sum over
 *
 * Memory:  the caller's array of points.
 * Threads: pure functions but for run, which owns what it makes.
 */
#ifndef AW_PRETRAIN_ADAPT_H
#define AW_PRETRAIN_ADAPT_H

#include "pretrain/pretrain.h"

#define AW_ADAPT_EPISODES_MAX 1000u
#define AW_ADAPT_TAIL         10u
#define AW_ADAPT_WINDOW       3u

/* After so many episodes as its index says. */
struct aw_adapt_point {
    struct aw_pretrain_score judged;
    struct aw_pretrain_score lived; /* the last episode itself; zeroed in the first point */
    double cpu_s;                   /* of acting and learning, up to here; without judging */
};

/* `config` has one application to learn from. `ret` [episodes + 1]. `ret_fallback` (may be NULL):
 * the fallback, judged. */
AW_NODISCARD enum aw_err aw_adapt_run(const struct aw_pretrain_config *config, uint32_t episodes,
                                      const struct aw_alloc *alloc, struct aw_adapt_point *ret,
                                      struct aw_pretrain_score *ret_fallback, struct aw_diag *diag);

/* Mean of the last points, whatever is judged of them. */
struct aw_pretrain_score aw_adapt_converged(const struct aw_adapt_point *point, uint32_t episodes);
/* `best` becomes what this learner converged to, where that is better; zeroed: of no learner yet.
 * All learners of one application and one seed make its converged. */
void aw_adapt_best(struct aw_pretrain_score *best, const struct aw_adapt_point *point,
                   uint32_t episodes);

/* Of some episodes as they were lived, exploration and all. */
struct aw_adapt_lived {
    double violations; /* steps that missed their SLO */
    double violation_share;
    double cpu_deficit, memory_deficit; /* 0 where there were no episodes */
};
struct aw_adapt_measure {
    double drop;       /* before the first episode; below 0: better than converged */
    uint32_t episodes; /* to converge; `never`: as many as there were */
    bool never;
    struct aw_adapt_lived until, way;
    double cpu_s; /* until converged */
};
struct aw_adapt_measure aw_adapt_measure(const struct aw_adapt_point *point, uint32_t episodes,
                                         const struct aw_pretrain_score *converged, double share,
                                         uint32_t way, uint32_t episode_steps);

#endif
