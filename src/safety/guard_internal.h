/*
 * guard_internal.h - what the files of the guard share: guard.c walks, guard_rails.c narrows,
 * guard_memory.c remembers.
 */
#ifndef AW_SAFETY_GUARD_INTERNAL_H
#define AW_SAFETY_GUARD_INTERNAL_H

#include <math.h>

#include "safety/guard.h"

#define AW__GUARD_AMOUNT_CAP 1e15 /* before a double becomes a whole number */

/* --- numbers and times that may be anything ---------------------------------------------------
 */

static inline int64_t aw__smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t aw__larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rounded up; what does not fit is the most that does, what is no number is 0. */
static inline int64_t aw__whole_up(double amount)
{
    if (!(amount > 0))
        return 0;
    return (int64_t)ceil(amount < AW__GUARD_AMOUNT_CAP ? amount : AW__GUARD_AMOUNT_CAP);
}

static inline int64_t aw__whole_down(double amount)
{
    if (!(amount > 0))
        return 0;
    return (int64_t)(amount < AW__GUARD_AMOUNT_CAP ? amount : AW__GUARD_AMOUNT_CAP);
}

static inline int64_t aw__us(double seconds)
{
    return (int64_t)(seconds * 1e6);
}

/* Never is very long ago. A time to come is now. */
static inline int64_t aw__since(int64_t now_us, int64_t then_us)
{
    int64_t elapsed;
    if (then_us == AW_NEVER || __builtin_sub_overflow(now_us, then_us, &elapsed))
        return then_us == AW_NEVER || now_us > then_us ? INT64_MAX : 0;
    return aw__larger(elapsed, 0);
}

static inline bool aw__guard_usable(double figure)
{
    return isfinite(figure) && figure >= 0 && figure < AW__GUARD_AMOUNT_CAP;
}

static inline double aw__guard_cores_used(const struct aw_reading *reading)
{
    return aw__guard_usable(reading->cpu_cores_used) ? reading->cpu_cores_used : (double)NAN;
}

static inline double aw__guard_memory_used(const struct aw_reading *reading)
{
    const double peak = reading->memory_bytes_peak, mean = reading->memory_bytes_used;
    if (!aw__guard_usable(peak))
        return aw__guard_usable(mean) ? mean : (double)NAN;
    return aw__guard_usable(mean) && mean > peak ? mean : peak;
}

static inline double aw__guard_used(const struct aw_reading *reading, enum aw_use use)
{
    return use == AW_USE_CPU ? aw__guard_cores_used(reading) : aw__guard_memory_used(reading);
}

/* An amount that a workload can have. NaN and infinity are not. */
static inline bool aw__guard_sane(uint32_t resource, int64_t amount)
{
    return amount > 0 && amount <= aw_resource_table[resource].most;
}

static inline int64_t aw__guard_wanted_of(const struct aw_reading *reading, uint32_t resource)
{
    return aw__guard_sane(resource, reading->wanted[resource]) ? reading->wanted[resource] : 0;
}

/* --- sliding windows in pieces ----------------------------------------------------------------
 *
 * A window is kept in pieces that are known by when they began. A piece is forgotten when all of it
 * is older than the window, so what is remembered is the window and up to one piece more. One piece
 * fewer than there are spans the window: that one is being filled.
 */

static inline int64_t aw__guard_piece_us(double window)
{
    return aw__larger(aw__us(window) / (AW_GUARD_BUCKETS - 1), 1);
}

/* What is later than this is less than `span_us`, which is above 0, ago, as aw__since counts: never
 * is not, a time to come is. One subtraction for a whole ring of times. */
static inline int64_t aw__guard_after(int64_t now_us, int64_t span_us)
{
    int64_t after;
    return __builtin_sub_overflow(now_us, span_us, &after) ? AW_NEVER : after;
}

/* Pieces that began later than this count. */
static inline int64_t aw__guard_window_after(int64_t now_us, double window)
{
    return aw__guard_after(now_us, aw__us(window) + aw__guard_piece_us(window));
}

/* Changes of size within the window that there have been, and that there may be. */
uint32_t aw__guard_restarts_used(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                                 int64_t now_us);
static inline uint32_t aw__guard_restarts_allowed(const struct aw_guard *guard, bool growing)
{
    const uint32_t count = guard->settings.restart_count;
    return growing ? count : (count + 1) / 2;
}

/* --- one passing through the rails -------------------------------------------------------------
 */

struct aw__room {
    int64_t low, high;
};

/* One passing through the rails. */
struct aw__pass {
    const struct aw_guard *guard;
    const struct aw_guard_memory *memory;
    const struct aw_guard_input *input;
    int64_t now_us;

    int64_t present[AW_RESOURCES]; /* wanted until now; 0: unknown */
    int64_t home[AW_RESOURCES];    /* the present within what hard rails left */
    int64_t amount[AW_RESOURCES];  /* on its way from proposed to allowed; 0: unknown */
    struct aw__room room[AW_RESOURCES];
    uint32_t uncontrolled;          /* AW_PLAN_*: not ours, or not in this cluster */
    uint32_t dropped;               /* AW_PLAN_*: not touched at all */
    struct aw_guard_result *result; /* gets the clips and cuts on the way */
};

struct aw__rail {
    enum aw_clip clip;
    void (*run)(struct aw__pass *pass);
};
#define AW__GUARD_HARD 3u
#define AW__GUARD_SOFT 10u
extern const struct aw__rail aw__guard_hard[AW__GUARD_HARD];
extern const struct aw__rail aw__guard_soft[AW__GUARD_SOFT];

#endif
