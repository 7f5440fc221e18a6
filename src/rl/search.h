/*
 * search.h - the lowest of a noisy function of a few numbers in [0, 1], without its gradient.
 *
 * CMA-ES (Hansen, The CMA Evolution Strategy: A Tutorial, 2016): points are drawn from a normal
 * distribution, ranked by their loss, and the distribution moves and stretches towards the better
 * half. Only the ranks count, so a loss may have cliffs and flats, as a policy's cost under a
 * budget of violations has. For some ten numbers and some hundred evaluations; a network's weights
 * are for gradients.
 *
 * Call order: init, then ask and tell in turn, then deinit; best and mean at any time between.
 * Memory:     one block, sized at init.
 * Threads:    single owner. Same config, start and losses, same points.
 *
 * The trap: with chance in the loss the best point is the luckiest too. Evaluate it and the mean
 * again, with other chance, before one of them is trusted.
 */
#ifndef AW_RL_SEARCH_H
#define AW_RL_SEARCH_H

#include "base/alloc.h"
#include "base/rng.h"

#define AW_SEARCH_DIM_MAX        32u
#define AW_SEARCH_POPULATION_MAX 64u

struct aw_search_config {
    uint32_t dim;        /* 1 .. AW_SEARCH_DIM_MAX */
    uint32_t population; /* points of one ask, 4 .. AW_SEARCH_POPULATION_MAX */
    double deviation;    /* of the first points around the start, (0, 1] */
    uint64_t seed;
};

struct aw_search {
    struct aw_search_config config;
    struct aw_rng rng;
    uint32_t round; /* tells so far */
    double step;    /* overall scale; the covariance has the shape */
    double best_loss;

    double *points;                 /* [population][dim], of the last ask */
    double *mean;                   /* [dim] */
    double *best;                   /* [dim] */
    double *covariance;             /* [dim][dim] */
    double *factor;                 /* [dim][dim], lower triangle: covariance = factor factor^T */
    double *shape_path, *step_path; /* [dim] */
    double *moved, *scratch;        /* [dim] */
    double *weight;                 /* [population / 2], of the better half, by rank */
    uint32_t *rank;                 /* [population] */
    double weight_effective;
    double shape_rate, rank_one_rate, rank_half_rate, step_rate, step_damping, length_expected;
    const struct aw_alloc *alloc;
};

/* `start` is [dim] in [0, 1]. On failure `search` is zeroed. AW_ERR_RANGE: a config or start out of
 * its range; AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_search_init(struct aw_search *search,
                                        const struct aw_search_config *config, const double *start,
                                        const struct aw_alloc *alloc);
void aw_search_deinit(struct aw_search *search); /* a zeroed one is a no-op */

/* [population][dim], each in [0, 1], the start first of all; valid until the next ask. */
const double *aw_search_ask(struct aw_search *search);
/* `loss` is [population], of the points of the last ask; INFINITY is a loss like any other, the
 * worst. AW_ERR_DIVERGED: one is NaN, or all are infinite; nothing moved. */
AW_NODISCARD enum aw_err aw_search_tell(struct aw_search *search, const double *loss);

/* The point of the lowest loss told so far; before the first tell the start, with INFINITY. */
const double *aw_search_best(const struct aw_search *search, double *ret_loss);
/* The centre of what will be asked next, in [0, 1]. */
const double *aw_search_mean(const struct aw_search *search);

#endif
