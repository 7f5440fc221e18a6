/* guard_memory.c - what the guard remembers of a workload: peaks, kills, crashes, and what was
 * changed, by us or by somebody else. */
#include "safety/guard_internal.h"

#include <string.h>

#define RESTARTS_MAX AW_GUARD_RESTARTS_MAX
#define PIECES       AW_GUARD_BUCKETS

static int64_t shifted(int64_t time, int64_t by)
{
    int64_t result;
    if (time == AW_NEVER)
        return time;
    if (__builtin_add_overflow(time, by, &result) || result == AW_NEVER)
        return AW_NEVER + 1;
    return result;
}

/* The slot of the piece that is being filled; `ret_new` says that it has just begun and must be
 * emptied. The oldest makes room. */
static uint32_t piece_slot(int64_t *begun_us, double window, int64_t now_us, bool *ret_new)
{
    const int64_t after = aw__guard_after(now_us, aw__guard_piece_us(window));
    uint32_t oldest = 0;
    *ret_new = false;
    for (uint32_t i = 0; i < PIECES; i++) {
        if (begun_us[i] > after)
            return i;
        if (begun_us[i] < begun_us[oldest])
            oldest = i;
    }
    begun_us[oldest] = now_us;
    *ret_new = true;
    return oldest;
}

void aw_guard_begin(struct aw_guard_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->seen_us = AW_NEVER;
    for (uint32_t i = 0; i < AW_USES; i++)
        memory->known_us[i] = memory->known_since_us[i] = AW_NEVER;
    memory->replicas_change_us = memory->size_change_us = memory->oom_us = AW_NEVER;
    memory->replicas_added_us = AW_NEVER;
    for (uint32_t i = 0; i < RESTARTS_MAX; i++)
        memory->restart_us[i] = AW_NEVER;
    for (uint32_t i = 0; i < PIECES; i++)
        memory->peak_us[i] = memory->change_us[i] = memory->crash_us[i] = AW_NEVER;
}

/* The clock went back: everything remembered goes back with it, so that what was a minute ago is
 * still a minute ago. */
static void clock_back(struct aw_guard_memory *memory, int64_t now_us)
{
    const int64_t seen = memory->seen_us;
    int64_t by;
    if (seen == AW_NEVER || now_us >= seen)
        return;
    if (__builtin_sub_overflow(now_us, seen, &by))
        by = AW_NEVER + 1;
    for (uint32_t i = 0; i < AW_USES; i++) {
        memory->known_us[i] = shifted(memory->known_us[i], by);
        memory->known_since_us[i] = shifted(memory->known_since_us[i], by);
    }
    memory->replicas_change_us = shifted(memory->replicas_change_us, by);
    memory->replicas_added_us = shifted(memory->replicas_added_us, by);
    memory->size_change_us = shifted(memory->size_change_us, by);
    memory->oom_us = shifted(memory->oom_us, by);
    for (uint32_t i = 0; i < RESTARTS_MAX; i++)
        memory->restart_us[i] = shifted(memory->restart_us[i], by);
    for (uint32_t i = 0; i < PIECES; i++) {
        memory->peak_us[i] = shifted(memory->peak_us[i], by);
        memory->change_us[i] = shifted(memory->change_us[i], by);
        memory->crash_us[i] = shifted(memory->crash_us[i], by);
    }
}

/* The amounts are `next` from now on, whoever made them so. 0: unknown, stays as it was. */
static void note_change(struct aw_guard_memory *memory, const int64_t *next, int64_t now_us)
{
    uint32_t changed = 0;
    const int64_t memory_before = memory->wanted[AW_RESOURCE_MEMORY];
    const int64_t replicas_before = memory->wanted[AW_RESOURCE_REPLICAS];
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        if (next[i] > 0 && memory->wanted[i] > 0 && next[i] != memory->wanted[i])
            changed |= AW_PLAN_BIT(i);
        memory->wanted[i] = next[i] > 0 ? next[i] : memory->wanted[i];
    }
    if (changed & AW_PLAN_REPLICAS)
        memory->replicas_change_us = now_us;
    if (changed & AW_PLAN_REPLICAS && next[AW_RESOURCE_REPLICAS] > replicas_before)
        memory->replicas_added_us = now_us;
    if (changed & AW_PLAN_SIZES)
        memory->size_change_us = now_us;
    if (changed & AW_PLAN_RESTARTS) {
        memory->memory_before = memory_before;
        memory->restart_us[memory->restart_next] = now_us;
        memory->restart_next = (memory->restart_next + 1) % RESTARTS_MAX;
    }
}

static void note_range(const struct aw_guard *guard, struct aw_guard_memory *memory, int64_t now_us)
{
    bool new;
    const uint32_t slot =
        piece_slot(memory->change_us, guard->settings.change_window, now_us, &new);
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        int64_t *low = &memory->change_low[slot][i], *high = &memory->change_high[slot][i];
        const int64_t amount = memory->wanted[i];
        if (new)
            *low = *high = 0;
        if (amount > 0) {
            *low = *low > 0 ? aw__smaller(*low, amount) : amount;
            *high = aw__larger(*high, amount);
        }
    }
}

static void note_known(const struct aw_guard *guard, struct aw_guard_memory *memory,
                       enum aw_use use, double figure, int64_t now_us)
{
    if (isnan(figure))
        return;
    if (aw__since(now_us, memory->known_us[use]) > aw__us(guard->settings.peak_window))
        memory->known_since_us[use] = now_us;
    memory->known_us[use] = now_us;
}

static void note_peaks(const struct aw_guard *guard, struct aw_guard_memory *memory,
                       const struct aw_reading *reading, int64_t now_us)
{
    bool new;
    const double cores = aw__guard_cores_used(reading), bytes = aw__guard_memory_used(reading);
    const uint32_t slot = piece_slot(memory->peak_us, guard->settings.peak_window, now_us, &new);
    if (new)
        memory->peak_cores[slot] = memory->peak_bytes[slot] = 0;
    memory->peak_cores[slot] = fmax(memory->peak_cores[slot], cores); /* NAN loses */
    memory->peak_bytes[slot] = fmax(memory->peak_bytes[slot], bytes);
    note_known(guard, memory, AW_USE_CPU, cores, now_us);
    note_known(guard, memory, AW_USE_MEMORY, bytes, now_us);
}

static uint32_t add_capped(uint32_t a, uint32_t b)
{
    uint32_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT32_MAX : sum;
}

static void note_crashes(const struct aw_guard *guard, struct aw_guard_memory *memory,
                         const struct aw_guard_input *input, int64_t now_us)
{
    bool new;
    const uint32_t slot = piece_slot(memory->crash_us, guard->settings.crash_window, now_us, &new);
    if (new)
        memory->crash_kills[slot] = memory->crash_restarts[slot] = 0;
    memory->crash_kills[slot] = add_capped(memory->crash_kills[slot], input->reading->oom_kills);
    memory->crash_restarts[slot] = add_capped(memory->crash_restarts[slot], input->restarts);
}

/* While a new size is rolled out nobody says which size was killed: it was the smaller one. Were it
 * the wanted one, kills of old replicas would raise the floor again and again (autoscaler#9521). */
static void note_kills(const struct aw_guard *guard, struct aw_guard_memory *memory,
                       const struct aw_reading *reading, int64_t now_us)
{
    const struct aw_guard_settings *s = &guard->settings;
    if (aw__since(now_us, memory->oom_us) > aw__us(s->oom_hold))
        memory->oom_floor_bytes = 0;
    int64_t killed = memory->wanted[AW_RESOURCE_MEMORY];
    if (reading->oom_kills == 0 || killed == 0)
        return;
    if (reading->rollout && memory->memory_before > 0)
        killed = aw__smaller(killed, memory->memory_before);
    const int64_t floor = aw__whole_up((double)killed * s->oom_factor);
    memory->oom_floor_bytes = aw__larger(memory->oom_floor_bytes, floor);
    memory->oom_us = now_us;
}

void aw_guard_observe(const struct aw_guard *guard, struct aw_guard_memory *memory,
                      const struct aw_guard_input *input, int64_t now_us)
{
    const struct aw_reading *reading = input->reading;
    int64_t wanted[AW_RESOURCES];
    clock_back(memory, now_us);
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        wanted[i] = aw__guard_wanted_of(reading, i);
        memory->seen[i] = input->blind ? memory->seen[i] : wanted[i];
    }
    note_change(memory, wanted, now_us);
    note_range(guard, memory, now_us);
    note_peaks(guard, memory, reading, now_us);
    note_crashes(guard, memory, input, now_us);
    note_kills(guard, memory, reading, now_us);
    memory->seen_us = now_us;
}

void aw_guard_applied(const struct aw_guard *guard, struct aw_guard_memory *memory,
                      const struct aw_plan *plan, int64_t now_us)
{
    int64_t next[AW_RESOURCES];
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        next[i] = plan->set & AW_PLAN_BIT(i) ? plan->amount[i] : 0;
    note_range(guard, memory, now_us); /* what was in force until now */
    note_change(memory, next, now_us);
    if (plan->set & AW_PLAN_SIZES)
        memory->sized = 1;
    note_range(guard, memory, now_us);
}

uint32_t aw__guard_restarts_used(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                                 int64_t now_us)
{
    const int64_t after = aw__guard_after(now_us, aw__us(guard->settings.restart_window));
    uint32_t used = 0;
    for (uint32_t i = 0; i < RESTARTS_MAX; i++)
        used += memory->restart_us[i] > after;
    return used;
}

uint32_t aw_guard_restarts_left(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                                bool growing, int64_t now_us)
{
    const uint32_t allowed = aw__guard_restarts_allowed(guard, growing);
    const uint32_t used = aw__guard_restarts_used(guard, memory, now_us);
    return used < allowed ? allowed - used : 0;
}
