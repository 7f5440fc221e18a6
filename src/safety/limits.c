/* limits.c - what the guard and the watchdog still allow. */
#include "safety/limits.h"

#include <math.h>

#include "safety/guard_internal.h"

static double left_s(double for_s, int64_t since_us, int64_t now_us)
{
    const int64_t age = aw__since(now_us, since_us);
    return age < aw__us(for_s) ? 1e-6 * (double)(aw__us(for_s) - age) : 0;
}

static void change_range(const struct aw_guard_settings *s, const struct aw_guard_memory *m,
                         int64_t now_us, struct aw_limits *ret)
{
    const int64_t after = aw__guard_window_after(now_us, s->change_window);
    for (uint32_t piece = 0; piece < AW_GUARD_BUCKETS; piece++) {
        if (m->change_us[piece] <= after)
            continue;
        for (uint32_t i = 0; i < AW_RESOURCES; i++) {
            const int64_t low = m->change_low[piece][i], high = m->change_high[piece][i];
            if (low > 0 && (ret->change_low[i] == 0 || low < ret->change_low[i]))
                ret->change_low[i] = low;
            ret->change_high[i] = aw__larger(ret->change_high[i], high);
        }
    }
}

void aw_limits_of(const struct aw_guard *guard, const struct aw_guard_memory *m,
                  const struct aw_watchdog_settings *watchdog, const struct aw_watchdog_memory *w,
                  int64_t now_us, struct aw_limits *ret)
{
    const struct aw_guard_settings *s = &guard->settings;
    *ret = (struct aw_limits){
        .changed_us = aw__larger(m->replicas_change_us, m->size_change_us),
        .restarts_left_grow = aw_guard_restarts_left(guard, m, true, now_us),
        .restarts_left_shrink = aw_guard_restarts_left(guard, m, false, now_us),
        .restart_window_s = s->restart_window,
        .replicas_up_left_s = left_s(s->replicas_up_cooldown, m->replicas_change_us, now_us),
        .replicas_down_left_s =
            fmax(left_s(s->replicas_down_cooldown, m->replicas_change_us, now_us),
                 left_s(s->replicas_stabilisation, m->replicas_added_us, now_us)),
        .size_up_left_s = left_s(s->size_up_cooldown, m->size_change_us, now_us),
        .size_down_left_s = left_s(s->size_down_cooldown, m->size_change_us, now_us),
        .change_window_s = s->change_window,
        .change_factor = s->change_factor,
        .oom_left_s = left_s(s->oom_hold, m->oom_us, now_us),
        .slo_steps = w->step_count,
        .slo_missed = w->missed_count,
        .slo_left = aw_watchdog_allowed(watchdog, w),
        .trips = w->trips,
    };
    ret->oom_floor_bytes = ret->oom_left_s > 0 ? m->oom_floor_bytes : 0;
    change_range(s, m, now_us, ret);
}
