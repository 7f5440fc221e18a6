/*
 * network.h - the surrogate's forward pass.
 *
 * In two parts: what a demand alone decides is summed up once, and each question about it adds
 * what cores and rate decide. Pure functions, the same bits on every processor.
 */
#ifndef AW_CLUSTER_SIM_NETWORK_H
#define AW_CLUSTER_SIM_NETWORK_H

#include "cluster/sim/weights.h"

#define AW__OFFLINE_FLOOR 1e-3f /* of what a load leaves, before the logarithm */
#define AW__RATIO_LIMIT   12.0f /* of decoded logarithms: e^12, far beyond any steady state */

/* Inputs, in the order of aw_surrogate_inputs; those not named are the demand's alone. */
enum aw__input {
    AW__INPUT_ON_CPU,
    AW__INPUT_CPU_LEFT,
    AW__INPUT_ON_THREADS,
    AW__INPUT_THREADS_LEFT,
    AW__INPUT_CORES,
    AW__INPUT_CPU,
    AW__INPUT_CPU_BY_CORES,
    AW__INPUT_REQUESTS = 12,
};

struct aw__network_asked {
    float on_cpu, on_threads; /* loads */
    float cores;
    float requests; /* in a window, at least 1 */
    float log_cpu;  /* input AW__INPUT_CPU */
};

/* sum [AW_SURROGATE_HIDDEN]: the first layer over those of x [AW_SURROGATE_INPUTS] that neither
 * cores nor rate change. */
void aw__network_begin(const float *x, float *sum);
/* e [AW_SURROGATE_WIDTH]: exponentials of the outputs. */
void aw__network_end(const float *sum, const struct aw__network_asked *asked, float *e);

#endif
