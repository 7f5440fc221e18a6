/*
 * space.h - what is done with a space beyond what <aware/space.h> promises.
 *
 * Memory:  nothing is allocated.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_BASE_SPACE_H
#define AW_BASE_SPACE_H

#include <aware/space.h>

#include "base/rng.h"

/* A value drawn uniformly from `space`: the random policy. An element without finite bounds is
 * drawn from the standard normal, clipped to the bound it has. */
void aw_space_sample(const struct aw_space *space, struct aw_rng *rng, float *value);

#endif
