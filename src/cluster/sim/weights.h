/* weights.h - the network of surrogate.c, as `aware simulate calibrate` writes it. */
#ifndef AW_CLUSTER_SIM_WEIGHTS_H
#define AW_CLUSTER_SIM_WEIGHTS_H

#include "cluster/surrogate.h"

_Static_assert(AW_SURROGATE_OUTPUTS <= AW_SURROGATE_WIDTH, "the outputs are one vector");

/* Weights lie by input, so that a layer is a sum of rows, each times one input. */
struct aw__weights {
    float w0[AW_SURROGATE_INPUTS][AW_SURROGATE_HIDDEN] __attribute__((aligned(32)));
    float b0[AW_SURROGATE_HIDDEN];
    float w1[AW_SURROGATE_HIDDEN][AW_SURROGATE_HIDDEN], b1[AW_SURROGATE_HIDDEN];
    float w2[AW_SURROGATE_HIDDEN][AW_SURROGATE_WIDTH], b2[AW_SURROGATE_WIDTH];
    float shift[AW_SURROGATE_INPUTS], scale[AW_SURROGATE_INPUTS]; /* x = (x - shift) * scale */
};
extern const struct aw__weights aw__weights; /* weights.c */

#endif
