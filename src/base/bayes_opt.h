/*
 * bayes_opt.h - the best of a few numbers near 0, by trying, where every try is dear and what comes
 * of it is noisy.
 *
 * What was tried is a Gaussian process (Rasmussen and Williams, "Gaussian Processes for Machine
 * Learning", 2006): near what went well things go well, and how near and how noisy that is, is what
 * makes the tries most likely. The next try is where most improvement is to be expected (Jones et
 * al., 1998), not far from the best; where none is worth it, the best is tried again. The best, 0
 * at first, is left only for a try that is better beyond doubt.
 *
 * Call order: init; then next, judge it (higher is better), tell; again. The best at any time.
 * Memory:     sized at init. Beyond AW_BAYES_OPT_TRIES_MAX the oldest tries are forgotten.
 * Threads:    single owner; chance is an argument of init and kept.
 */
#ifndef AW_BASE_BAYES_OPT_H
#define AW_BASE_BAYES_OPT_H

#include <aware/err.h>

#include "base/alloc.h"
#include "base/rng.h"

#define AW_BAYES_OPT_DIM_MAX   16u
#define AW_BAYES_OPT_TRIES_MAX 256u

struct aw_bayes_opt_config {
    uint32_t dim;
    uint64_t seed;
    /* What to expect before anything is known; tries correct it by a factor of a few. */
    double length; /* over which values change, and how far from the best a try may be */
    double spread; /* of values */
    double noise;  /* of one try */
};

struct aw_bayes_opt {
    struct aw_bayes_opt_config config;
    struct aw_rng rng;
    uint32_t count, told;              /* tries: remembered, and in all */
    double (*x)[AW_BAYES_OPT_DIM_MAX]; /* [AW_BAYES_OPT_TRIES_MAX] tries, and .. */
    double *value;                     /* .. their values */
    double best[AW_BAYES_OPT_DIM_MAX];

    /* the process */
    double length, spread, noise, mean; /* as the tries have them */
    double *factor;                     /* lower triangle L of the covariance, L L' */
    double *weight;                     /* covariance^-1 (value - mean) */
    double *seen;                       /* values; outliers far below are raised */
    double *near;                       /* covariance of each with the best */
    double *scratch;
    const struct aw_alloc *alloc;
};

AW_NODISCARD enum aw_err aw_bayes_opt_init(struct aw_bayes_opt *seek,
                                           const struct aw_bayes_opt_config *config,
                                           const struct aw_alloc *alloc);
void aw_bayes_opt_deinit(struct aw_bayes_opt *seek); /* zeroed is a no-op */

void aw_bayes_opt_next(struct aw_bayes_opt *seek, double *ret);
/* A value that is not finite is as bad as anything can be. */
void aw_bayes_opt_tell(struct aw_bayes_opt *seek, const double *x, double value);
void aw_bayes_opt_best(const struct aw_bayes_opt *seek,
                       double *ret); /* zeros while there are no tries */

#endif
