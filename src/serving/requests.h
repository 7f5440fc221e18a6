/*
 * requests.h - what arrives at a fleet: times and lengths from public traces, or made up.
 *
 * Formats, told by their columns: the Azure LLM traces (TIMESTAMP, ContextTokens, GeneratedTokens),
 * Mooncake ({"timestamp", "input_length", "output_length"} a line), lists of lengths alone
 * (num_prefill_tokens, num_decode_tokens: times are then Poisson), and everything that
 * workload/load.h knows (Azure Functions, patterns such as diurnal:...), with lengths made up after
 * LMSYS: the logarithm normal, median 140, mean 177, cut at 512.
 *
 * Memory:  the caller's to deinit. Threads: no shared state.
 */
#ifndef AW_SERVING_REQUESTS_H
#define AW_SERVING_REQUESTS_H

#include "serving/fleet.h"

#define AW_REQUESTS_MAX        (4u << 20)
#define AW_REQUESTS_TOKENS_MAX 1024.0 /* of an answer that a model of Table 6.1 gives */

struct aw_requests {
    uint32_t count;
    double length_s;
    double *arrival_s; /* from 0, sorted */
    float *prompt, *answer;
};
/* `text`: a file or a pattern. `count_max` 0: all. */
AW_NODISCARD enum aw_err aw_requests_read(const char *text, uint64_t seed, uint32_t count_max,
                                          struct aw_requests *ret, struct aw_diag *diag);
void aw_requests_deinit(struct aw_requests *requests);

/* How a trace becomes the load of a fleet. */
struct aw_requests_plan {
    double load;        /* utilisation of all devices at the largest clock; time is stretched */
    double from, to;    /* the part of the trace, 0 to 1 */
    double slo_scale;   /* SLO = scale x latency of one request alone (Table 6.1) */
    double guess_sigma; /* of the logarithm of predicted lengths; .55 has tau .6 */
    double wrong;       /* each model's true work is off by a factor of up to 1 +- so much */
    double repeat_s;    /* the load goes on at least so long, by repetition; 0: once */
    uint64_t seed;      /* who asks which model, predictions, errors */
};
/* Fills in SLOs of `world` (devices, models and memory shares are set), and the arrays of `ret`,
 * which the caller releases with aw_requests_load_deinit. */
AW_NODISCARD enum aw_err aw_requests_load(const struct aw_requests *requests,
                                          const struct aw_requests_plan *plan,
                                          struct aw_fleet_world *world, struct aw_fleet_load *ret,
                                          struct aw_diag *diag);
void aw_requests_load_deinit(struct aw_fleet_load *load);

/* Whole models on devices: each once by size, then again where there is room, the busiest first.
 * `share` [models] of all work. Devices from the first on hold every model once. */
AW_NODISCARD enum aw_err aw_fleet_place(struct aw_fleet_world *world, const double *share,
                                        struct aw_diag *diag);
/* The fifteen models of Table 6.1 on `devices` of a kind, equally asked for. */
AW_NODISCARD enum aw_err aw_fleet_world_table(struct aw_fleet_world *world,
                                              const struct aw_gpu_kind *kind, uint32_t devices,
                                              struct aw_diag *diag);

#endif
