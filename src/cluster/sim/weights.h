/* weights.h - the network of surrogate.c, as `aware simulate fit-surrogate` writes it. */
#ifndef AW_CLUSTER_SIM_WEIGHTS_H
#define AW_CLUSTER_SIM_WEIGHTS_H

#include "cluster/surrogate.h"

struct aw_weights {
    float shift[AW_SURROGATE_INPUTS], scale[AW_SURROGATE_INPUTS]; /* x = (x - shift) * scale */
    float w0[AW_SURROGATE_HIDDEN * AW_SURROGATE_INPUTS], b0[AW_SURROGATE_HIDDEN];
    float w1[AW_SURROGATE_HIDDEN * AW_SURROGATE_HIDDEN], b1[AW_SURROGATE_HIDDEN];
    float w2[AW_SURROGATE_OUTPUTS * AW_SURROGATE_HIDDEN], b2[AW_SURROGATE_OUTPUTS];
};
extern const struct aw_weights aw_weights; /* weights.c */

#endif
