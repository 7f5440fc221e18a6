/*
 * cma.h - CMA-ES: the best of a few numbers in [0, 1] by trying, without a gradient.
 *
 * A normal distribution is drawn from, moved towards the better half of its draws, and stretched
 * along the directions in which that went well (Hansen, "The CMA Evolution Strategy: A Tutorial",
 * 2016, with its defaults). It bears noise and does not mind scales; a dozen numbers take a few
 * hundred tries.
 *
 * Call order: init; then ask, judge every row of `x` (lower is better), tell; again. The best so
 *             far and the mean may be read at any time.
 * Memory:     a plain struct.
 * Threads:    single owner; init copies the random generator.
 *
 * Beyond the box a draw is folded back at the wall, so that nothing outside is ever judged.
 */
#ifndef AW_BASE_CMA_H
#define AW_BASE_CMA_H

#include <aware/err.h>

#include "base/rng.h"

#define AW_CMA_DIM_MAX   16u
#define AW_CMA_DRAWS_MAX 32u

struct aw_cma {
    uint32_t dim, draws, parents, generation;
    struct aw_rng rng;
    double step; /* global deviation */
    double mean[AW_CMA_DIM_MAX];
    double best[AW_CMA_DIM_MAX];
    double best_value;                          /* INFINITY: nothing judged yet */
    double x[AW_CMA_DRAWS_MAX][AW_CMA_DIM_MAX]; /* to be judged, each in [0, 1] */

    /* the strategy's own */
    double covariance[AW_CMA_DIM_MAX][AW_CMA_DIM_MAX];
    double axes[AW_CMA_DIM_MAX][AW_CMA_DIM_MAX]; /* columns: eigenvectors */
    double length[AW_CMA_DIM_MAX];               /* roots of the eigenvalues */
    double path[AW_CMA_DIM_MAX], path_step[AW_CMA_DIM_MAX];
    double weight[AW_CMA_DRAWS_MAX];
    double mass, c_path, c_step, c_one, c_many, damping, expected;
};

/* `start` in [0, 1]; `deviation` of the first draws; `draws` of a generation, 4 or more. */
void aw_cma_init(struct aw_cma *cma, uint32_t dim, const double *start, double deviation,
                 uint32_t draws, uint64_t seed);
/* Fills x[0 .. draws). The first generation's first row is `start` itself. */
void aw_cma_ask(struct aw_cma *cma);
/* One value per row; one that is not finite counts as worst. */
void aw_cma_tell(struct aw_cma *cma, const double *value);

#endif
