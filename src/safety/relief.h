/*
 * relief.h - more of everything while the SLO is missed: the safe direction needs no model.
 *
 * A fallback that was never tuned may miss the SLO for hours and see nothing wrong: utilisation is
 * at its target. While steps are missed relief raises a floor under what the fallback asks for:
 * first replicas, next the size of one, in turns, and the size at once where no more replicas are
 * allowed. Each raise must have come into effect before the next. Met steps lower the floor again,
 * by so little that one raise is given back in about as many steps as the budget has per miss.
 *
 * Call order: begin; per tick observe, then floor.
 * Memory:     plain structs. A memory has no padding: it is part of snapshots.
 * Threads:    pure functions of their arguments.
 *
 * The floor stands on a fading peak of use and not on what the workload has now, so that it does
 * not climb on itself. What is missing lowers nothing.
 */
#ifndef AW_SAFETY_RELIEF_H
#define AW_SAFETY_RELIEF_H

#include "base/conf.h"
#include "safety/guard.h"

struct aw_relief_settings {
    bool enabled;
    uint32_t misses;        /* of the last `of` steps, for a raise */
    uint32_t of;            /* at most 32 */
    double replicas_factor; /* of one raise */
    double size_factor;
    double factor_max;  /* of all raises together, each of the two */
    double utilisation; /* of the peak of use that the floor stands on */
    double give_back;   /* met steps in which a raise is given back */
};
extern const struct aw_conf_field aw_relief_fields[];

struct aw_relief_memory {
    double replicas_ln, size_ln; /* raises in force; 0: none */
    double peak_cores;           /* of use, fading */
    int64_t size_millicores;     /* of a replica, before its first raise */
    uint32_t recent;             /* bits of missed steps, the latest lowest */
    uint32_t since;              /* steps since the last raise */
    uint32_t size_next;          /* 1: the next raise is of the size */
    uint32_t raises;             /* in all */
};
#define AW_RELIEF_MEMORY(at)                                                            \
    at replicas_ln, at size_ln, at peak_cores, at size_millicores, at recent, at since, \
        at size_next, at raises

void aw_relief_begin(struct aw_relief_memory *memory);
/* Takes in the step that has ended. `controlled`: AW_PLAN_*, what may be changed at all. `acted`:
 * the fallback has brought it about; else nothing is raised. */
void aw_relief_observe(const struct aw_relief_settings *settings, struct aw_relief_memory *memory,
                       const struct aw_bounds *bounds, uint32_t controlled,
                       const struct aw_reading *reading, enum aw_guard_slo slo, bool acted);
/* Raises `plan`, what the fallback asks for, to the floor. Returns AW_PLAN_* of what it raised. */
uint32_t aw_relief_floor(const struct aw_relief_settings *settings,
                         const struct aw_relief_memory *memory, const struct aw_bounds *bounds,
                         uint32_t controlled, const struct aw_reading *reading,
                         struct aw_plan *plan);

#endif
