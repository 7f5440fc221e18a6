/*
 * similarity.h - how alike two embeddings are, and whether one lies outside of those known.
 *
 *   S(a, b) = (1 - ED(a, b) + CS(a, b)) / 2          (FLASH section 5.5)
 *
 * CS is the cosine. ED is the Euclidean distance over the largest that two embeddings of these
 * lengths can have, |a| + |b|: so it lies in [0, 1], and S in [-1, 1]; S(a, a) = 1. The paper says
 * "normalized" without saying by what.
 *
 * Memory:  none. Threads: pure functions.
 */
#ifndef AW_META_SIMILARITY_H
#define AW_META_SIMILARITY_H

#include <aware/err.h>

/* Two zero vectors are alike; a zero vector and another one have cosine 0. */
double aw_similarity(const float *a, const float *b, uint32_t dim);

/* Indices of the `max` of `count` rows of `known` [count][dim] that are most like `a`, the nearest
 * first; fewer where there are fewer. `ret_similarity` (may be NULL) has theirs. */
uint32_t aw_similarity_nearest(const float *a, const float *known, uint32_t count, uint32_t dim,
                               uint32_t max, uint32_t *ret_index, double *ret_similarity);

/* Where an embedding lies among those known: its similarity to the nearest, as a quantile of what
 * each known one has to its own nearest. Below `0.01` it is out of the distribution. */
double aw_similarity_quantile(double nearest, const double *known_nearest, uint32_t count);

#endif
