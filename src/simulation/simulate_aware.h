/*
 * simulate_aware.h - the control loop as one of the controllers of a comparison.
 *
 * It has no numbers to tune. Instead it lives for a while before anything is scored, on the load
 * that others are tuned on, and then goes on with what all meet.
 *
 * Call order: new; begin, then tick before every step; begin again as often as a run does; free.
 * Memory:     a loop and its load at begin.
 * Threads:    single owner.
 */
#ifndef AW_SIMULATION_SIMULATE_AWARE_H
#define AW_SIMULATION_SIMULATE_AWARE_H

#include "simulation/simulate.h"

struct aw__simulate_life; /* opaque */

/* All but `ret` and `diag` is borrowed. AW_ERR_UNSUPPORTED: the config has no pilot. */
AW_NODISCARD enum aw_err
aw__simulate_life_new(const struct aw_simulate_config *config, const struct aw_simulate_case *c,
                      const struct aw_simulate_policy *policy, const struct aw_fallback_task *task,
                      const struct aw_cluster *cluster, const struct aw_alloc *alloc,
                      struct aw__simulate_life **ret_life, struct aw_diag *diag);
void aw__simulate_life_free(struct aw__simulate_life *life); /* NULL is a no-op */
/* A new workload, which has learned nothing. `ret_load` is what it meets from its first second on:
 * `ret_steps` of the load that others are tuned on, then the case's from `offset_us` on. */
AW_NODISCARD enum aw_err aw__simulate_life_begin(struct aw__simulate_life *life, int64_t offset_us,
                                                 uint64_t seed, const struct aw_load **ret_load,
                                                 uint32_t *ret_steps);
/* Observes, decides, applies, learns. `plan`, `applied` and `reason` of the step are set. */
AW_NODISCARD enum aw_err aw__simulate_life_tick(struct aw__simulate_life *life,
                                                struct aw_simulate_step *step);

#endif
