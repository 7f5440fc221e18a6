/*
 * catalog.h - GPUs and models that the program knows by itself, each constant with its source.
 *
 * A model's request takes first + each x tokens seconds at the largest clock; encoders and image
 * models have no tokens. `memory` is the share of time that does not depend on the clock (m of
 * gpu.h): of products in encoders .12, of decoding .5 to .7 on the V100; measured are kernels
 * (matrixMul .05, streaming .82), not these models, so experiments vary it.
 */
#ifndef AW_SERVING_CATALOG_H
#define AW_SERVING_CATALOG_H

#include "serving/gpu.h"

struct aw_gpu_kind {
    const char *name;
    double clock_max, clock_min, clock_step; /* MHz */
    double memory_gb;                        /* for weights */
    double idle_min_w, idle_max_w;           /* with a model loaded, at the clocks' ends */
    double parked_w;                         /* without one, at the smallest clock */
    double limit_w;                          /* the board's power limit */
    struct aw_gpu_volt volt;
    struct aw_gpu_power core, stream; /* of what the core and what the memory bounds */
    struct aw_gpu_roof roof;          /* of operators in half precision */
    const char *source;
    double error; /* of power, mean, held out */
};
extern const struct aw_gpu_kind aw_gpu_kinds[];               /* ends with name NULL */
const struct aw_gpu_kind *aw_gpu_kind_find(const char *name); /* NULL: none */
/* Up to the next clock of the grid; x in [min, 1]. */
double aw_gpu_grid(const struct aw_gpu_kind *kind, double x);
double aw_gpu_x_min(const struct aw_gpu_kind *kind);
double aw_gpu_idle_w(const struct aw_gpu_kind *kind, double x);
/* What serving a model of memory share `m` draws. */
double aw_gpu_busy_w(const struct aw_gpu_kind *kind, double m, double x);

struct aw_serving_model {
    const char *name;
    double weights_gb;
    double latency_s; /* of one request at 512 tokens, alone, at the largest clock */
    bool autoregressive;
    double memory; /* m */
};
#define AW_SERVING_MODELS 15u
extern const struct aw_serving_model aw_serving_models[AW_SERVING_MODELS]; /* Table 6.1 */
/* Seconds at the largest clock of a request with so many tokens of answer. */
double aw_serving_work(const struct aw_serving_model *model, double tokens);

#endif
