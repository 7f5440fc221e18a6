/*
 * placement.h - which models on which GPUs: AlpaServe's search, and placement by sensitivity.
 *
 * AlpaServe (Li et al., OSDI 2023; alpa-projects/mms): GPUs are cut into groups of one shape
 * (op-way tensor parallel, pp stages); models are added greedily where a fast simulation of a
 * training load says that most requests are unserved; the best shape wins.
 *
 * Alg. 6.1 joins neighbouring operators of like sensitivity (2 (1 - m)); Alg. 6.2 puts partitions
 * of like sensitivity on the same devices. Both have errors in print
 * (docs/algorithms/placement.md); here is the corrected form, and of 6.1 the printed one beside it.
 *
 * Call order: none. Memory: search allocates and frees; results are the caller's. Threads: pure.
 */
#ifndef AW_SERVING_PLACEMENT_H
#define AW_SERVING_PLACEMENT_H

#include "serving/fleet.h"

#define AW_PLACE_GROUPS_MAX AW_FLEET_DEVICES_MAX
#define AW_PLACE_STAGES_MAX 8u /* pp */
#define AW_PLACE_OP_MAX     4u

/* Alg. 6.1: `cluster` [n] is the number of the cluster of each operator; returns how many. */
uint32_t aw_cluster(const double *score, uint32_t n, double threshold, uint32_t *cluster);
/* As printed. Its last cluster is never returned: those operators have UINT32_MAX. */
uint32_t aw_cluster_printed(const double *score, uint32_t n, double threshold, uint32_t *cluster);

struct aw_place_problem {
    const struct aw_gpu_kind *kind;
    uint32_t devices, models;
    double weights_gb[AW_FLEET_MODELS_MAX], latency_s[AW_FLEET_MODELS_MAX];
    double slo_s[AW_FLEET_MODELS_MAX], memory[AW_FLEET_MODELS_MAX];
    /* the training load: arrivals sorted by time, and who is asked */
    uint32_t count;
    const double *arrival_s;
    const uint16_t *model;
    const float *work_s;
};
struct aw_place {
    uint32_t op, pp, groups;              /* groups of op x pp devices each */
    uint64_t models[AW_PLACE_GROUPS_MAX]; /* bits: which models a group holds */
    double attainment, latency_s, score;
    uint32_t replicas, shapes, simulations;
};
/* Time of one request on a group: op-way parallel with what communication costs, pp stages with
 * 0.9 % for each (mms), and 11 ms around it. */
double aw_place_stage_s(double latency_s, uint32_t op, uint32_t pp);
/* The fast simulation: a request that cannot end in time is refused at once. `ret_unserved`
 * [models], `ret_handled` [groups]; either may be NULL. */
void aw_place_simulate(const struct aw_place_problem *problem, struct aw_place *place,
                       uint64_t *ret_unserved, uint64_t *ret_handled);
/* `pp_max` 1: whole models alone. AW_ERR_RANGE: no shape holds every model. */
AW_NODISCARD enum aw_err aw_place_search(const struct aw_place_problem *problem, uint32_t pp_max,
                                         struct aw_place *ret, struct aw_diag *diag);

/* Alg. 6.2 corrected, for whole models with the same numbers of replicas as `world` has: sorted by
 * sensitivity, each to the device with room whose mean sensitivity is most like its own. `spread`
 * in [0, 1] weighs likeness (0) against equal load (1). `share` [models] of all work. */
AW_NODISCARD enum aw_err aw_place_by_sensitivity(struct aw_fleet_world *world, const double *share,
                                                 double spread, struct aw_diag *diag);
/* The same by latency: short models leave the queues of long ones. */
AW_NODISCARD enum aw_err aw_place_by_latency(struct aw_fleet_world *world, const double *share,
                                             double spread, struct aw_diag *diag);

#endif
