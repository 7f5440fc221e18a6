/*
 * action.h - numbers in [-1, 1] as a plan, and a plan as numbers.
 *
 * The first three are CPU, memory and replicas, which every cluster has. Resources beyond them have
 * a number each where they are bounded, in the order of the table (aware/resource.h), log-scaled
 * onto their bounds.
 *
 * Mapping `absolute` (the paper's): CPU, memory and replicas, each log-scaled onto its bounds.
 * Mapping `anchored`: CPU per replica absolute; memory as a multiple of the recent peak of one
 * replica; replicas so that the recent peak of CPU use, times a margin, fits. The same action then
 * means the same comfort for every workload, which learned ten times faster and carries over.
 *
 * Call order: aw_action_begin, then per step: aw_action_observe with the reading, aw_action_plan.
 * Memory:     plain structs.
 * Threads:    pure functions of their arguments.
 *
 * A plan is always within the bounds. With missing figures nothing shrinks. The deadband keeps a
 * size that is near enough: a change of CPU or memory restarts replicas, a change of the count does
 * not. The guard holds memory above the recent peak and, after an OOM kill, well above the limit
 * that was too small; without it a learner rides the edge.
 */
#ifndef AW_TASK_ACTION_H
#define AW_TASK_ACTION_H

#include <aware/space.h>

#include "task/bounds.h"
#include "task/reading.h"

#define AW_ACTION_DIM        3u                  /* of what every cluster has */
#define AW_ACTION_MAX        (AW_RESOURCES | 1u) /* room for all; odd, so that MAX + 1 is even */
#define AW_ACTION_WINDOW_MAX 40u                 /* steps over which a peak is recent */

enum aw_action_mapping { AW_ACTION_ANCHORED, AW_ACTION_ABSOLUTE };
enum aw_action_axis { AW_ACTION_CPU, AW_ACTION_MEMORY, AW_ACTION_REPLICAS };

extern const struct aw_space_axis aw_action_axes[AW_ACTION_DIM];
/* Anchored: over the recent peaks. What aw_log_range makes of their ends, written down. */
extern const struct aw_log_range aw_action_memory_margin, aw_action_cpu_margin;
/* Resources beyond the first three that are bounded, as AW_PLAN_*; with them so many numbers. */
uint32_t aw_action_more(const struct aw_bounds *bounds);
uint32_t aw_action_dim(uint32_t more);
/* Whose number it is. */
enum aw_resource aw_action_resource(uint32_t more, uint32_t axis);
struct aw_space_axis aw_action_axis(uint32_t more, uint32_t axis);

struct aw_action_config {
    uint32_t mapping; /* enum aw_action_mapping */
    struct aw_bounds bounds;
    uint32_t window;    /* steps, 1 .. AW_ACTION_WINDOW_MAX */
    uint32_t oom_steps; /* for which a kill is remembered */
    double deadband;    /* relative change of a size that is not worth a restart */
    bool guard;
};

/* A config, and what is computed from it once. */
struct aw_action {
    struct aw_action_config config;
    struct aw_log_range cpu_millicores, memory_bytes, replicas;
    uint32_t more, dim; /* see aw_action_more, aw_action_dim */
};

/* The recent past. No padding: it is part of snapshots. */
struct aw_action_memory {
    double cpu_cores[AW_ACTION_WINDOW_MAX]; /* rings; 0: not known */
    double memory_bytes[AW_ACTION_WINDOW_MAX];
    double cpu_cores_peak, memory_bytes_peak; /* over the window; 0: nothing known yet */
    double oom_floor_bytes;                   /* 0: none */
    uint32_t next, oom_steps_left;
};
#define AW_ACTION_MEMORY(at)                                                                    \
    at cpu_cores, at memory_bytes, at cpu_cores_peak, at memory_bytes_peak, at oom_floor_bytes, \
        at next, at oom_steps_left

void aw_action_init(struct aw_action *action, const struct aw_action_config *config);
void aw_action_begin(struct aw_action_memory *memory);
void aw_action_observe(const struct aw_action *action, struct aw_action_memory *memory,
                       const struct aw_reading *reading);

/* `values` beyond [-1, 1] count as the end they are beyond; they must be finite. All that the
 * numbers are of is set. `reading` is the latest, whose wanted sizes the deadband keeps. */
void aw_action_plan(const struct aw_action *action, const struct aw_action_memory *memory,
                    const struct aw_reading *reading, const float *values,
                    struct aw_plan *ret_plan);

/* The action that asks for `plan`, or, where none does, the nearest: what an imitator learns from.
 * Without deadband and guard, aw_action_plan of it gives the plan back if any action does. */
void aw_action_from_plan(const struct aw_action *action, const struct aw_action_memory *memory,
                         const struct aw_plan *plan, float *values);

#endif
