/*
 * limits.h - what is left to a workload now: restarts, cool-downs, its change window, its SLO
 * budget.
 *
 * Call order: at any time between ticks.
 * Memory:     plain struct.
 * Threads:    reads what ticks write, and nothing that learning does.
 */
#ifndef AW_SAFETY_LIMITS_H
#define AW_SAFETY_LIMITS_H

#include "safety/guard.h"
#include "safety/watchdog.h"

struct aw_limits {
    int64_t changed_us; /* when an amount last changed, by us or not; AW_NEVER */
    uint32_t restarts_left_grow, restarts_left_shrink; /* vertical changes in the window */
    double restart_window_s;
    /* seconds until the cool-down is over; 0: it is */
    double replicas_up_left_s, replicas_down_left_s;
    double size_up_left_s, size_down_left_s;

    double change_window_s, change_factor;
    int64_t change_low[AW_RESOURCES], change_high[AW_RESOURCES]; /* wanted in it; 0: unknown */

    int64_t oom_floor_bytes; /* 0: none */
    double oom_left_s;       /* for which it stands */

    /* steps of the agent in the watchdog's window, those that missed the SLO, and how many
     * more may before it trips */
    uint32_t slo_steps, slo_missed;
    double slo_left;
    uint32_t trips; /* of the watchdog, in all */
};

void aw_limits_of(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                  const struct aw_watchdog_settings *watchdog,
                  const struct aw_watchdog_memory *watched, int64_t now_us, struct aw_limits *ret);

#endif
