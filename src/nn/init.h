/*
 * init.h - how weights begin. All draw from the caller's generator: same seed, same weights.
 */
#ifndef AW_NN_INIT_H
#define AW_NN_INIT_H

#include "base/rng.h"
#include "nn/params.h"

/* U(-limit, limit). */
void aw_init_uniform(float *value, size_t count, float limit, struct aw_rng *rng);
/* PyTorch's default of nn.Linear: U(+-1/sqrt(fan_in)), for a weight and for its bias. */
void aw_init_fan_in(float *value, size_t count, uint32_t fan_in, struct aw_rng *rng);
/* gain times a matrix with orthonormal rows or columns, whichever are fewer (Saxe et al., 2014);
 * the sign of R's diagonal is made positive, so the result is uniform over such matrices.
 * `work` holds rows * columns doubles and is the caller's. */
void aw_init_orthogonal(float *value, uint32_t rows, uint32_t columns, float gain, double *work,
                        struct aw_rng *rng);

#endif
