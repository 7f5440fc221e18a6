/*
 * state.h - what an agent sees of a workload: a reading as a vector of small numbers.
 *
 * Preset `paper` is AWARE's Table 1: limits and replicas, utilisations, SLO preservation, change of
 * load. Preset `default` adds what was found missing there (docs/mechanisms/autoscale-env.md): how
 * much load, how far from the SLO, how much CPU, requests in flight, and how far to trust it all.
 * Behind either stand the limits of resources that not every cluster has, where they are bounded: a
 * policy that knows nothing of them sees what it always saw.
 *
 * Call order: aw_state_begin at the start of an episode, then aw_state_encode once per reading, in
 *             the order of time. `memory` carries what a state needs of the readings before it.
 * Memory:     plain structs; the caller's vector.
 * Threads:    pure functions of their arguments.
 *
 * Every element is finite and within the bounds of its axis, whatever the reading holds. A missing
 * figure takes a neutral value, written beside its axis in state.c; in preset `default` the axes
 * `missing` and `age` tell it from a measured one.
 */
#ifndef AW_TASK_STATE_H
#define AW_TASK_STATE_H

#include <aware/space.h>

#include "task/bounds.h"
#include "task/objective.h"
#include "task/reading.h"

#define AW_STATE_PAPER_DIM   10u
#define AW_STATE_DEFAULT_DIM 19u
/* Room for all; odd, so that MAX + 1 is even. */
#define AW_STATE_DIM_MAX     ((AW_STATE_DEFAULT_DIM + AW_RESOURCES - 1 - AW_RESOURCE_MEMORY) | 1u)
#define AW_STATE_HISTORY_MAX 16u /* past states behind the present one */

enum aw_state_preset { AW_STATE_DEFAULT, AW_STATE_PAPER };

struct aw_state_config {
    uint32_t preset; /* enum aw_state_preset */
    struct aw_bounds bounds;
    struct aw_slo slo;
    double disk_bytes_per_s_max; /* of one replica: what counts as I/O utilisation 1 */
    double net_bytes_per_s_max;
};

/* A config, and what is computed from it once. */
struct aw_state {
    struct aw_state_config config;
    struct aw_log_range replicas, cpu_millicores, memory_bytes, cores_used;
    float load_scale, in_flight_scale; /* 1 / log(1 + most) */
    uint32_t more, dim;                /* see aw_action_more; elements of a vector */
};

/* What a state needs of the past. No padding: it is part of snapshots. */
struct aw_state_memory {
    double arrivals_per_s; /* the last known; NAN: none yet */
    int64_t changed_us;    /* when the wanted sizes or count were last seen to change */
    int64_t cpu_millicores, memory_bytes; /* the wanted ones, seen last */
    uint32_t replicas;
    uint32_t begun;  /* 0: nothing seen yet */
    float wanted[4]; /* the three of them on their axes; the last is a hash of the others, or 0 */
};
#define AW_STATE_MEMORY(at)                                                                      \
    at arrivals_per_s, at changed_us, at cpu_millicores, at memory_bytes, at replicas, at begun, \
        at wanted

void aw_state_init(struct aw_state *state, const struct aw_state_config *config);
/* The axes of one state; those of the paper's are the first of them. */
extern const struct aw_space_axis aw_state_axes[AW_STATE_DEFAULT_DIM];
uint32_t aw_state_dim(uint32_t preset);
/* With the limits of `more` behind it, in the order of their table. */
uint32_t aw_state_dim_with(uint32_t preset, uint32_t more);
/* Of an element of `dim`, the last of which are those of `more`. */
const struct aw_space_axis *aw_state_axis(uint32_t dim, uint32_t more, uint32_t element);

void aw_state_begin(struct aw_state_memory *memory);
/* Writes state->dim floats; `score` is that of the same reading. */
void aw_state_encode(const struct aw_state *state, struct aw_state_memory *memory,
                     const struct aw_reading *reading, const struct aw_score *score, float *out);

#endif
