/*
 * guard.c - the rails, each a few lines, and the one walk through them.
 *
 * A rail never computes a plan. It narrows the room that an amount has; the walk moves the amount
 * into the room and notes whose narrowing moved it. Rooms only get smaller, so the result does not
 * depend on how often an amount is moved, and passing a result again moves nothing.
 */
#include "control/guard.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

#define RESTARTS_MAX   AW_GUARD_RESTARTS_MAX
#define PIECES         AW_GUARD_BUCKETS
#define US_PER_S       1e6
#define AMOUNT_CAP     1e15 /* before a double becomes a whole number */
#define MILLI_PER_CORE 1e3

/* What no workload has; beyond it a number is a mistake, not a wish: a million replicas, a million
 * cores, a pebibyte. A cast of NaN or infinity lands beyond it too. */
static const int64_t amount_max[AW_GUARD_AXES] = {1000000, 1000000000, (int64_t)1 << 50};

const char *const aw_guard_mode_names[] = {"Off", "Initial", "Auto", NULL};

#define FIELD(key, type, initial, min, max, choices, help)                                    \
    {                                                                                         \
#key, type, offsetof(struct aw_guard_settings, key), initial, min, max, choices, help \
    }
#define REAL(key, initial, min, max, help)  FIELD(key, AW_CONF_F64, initial, min, max, NULL, help)
#define WHOLE(key, initial, min, max, help) FIELD(key, AW_CONF_U32, initial, min, max, NULL, help)
#define DAY                                 86400

const struct aw_conf_field aw_guard_fields[] = {
    FIELD(mode, AW_CONF_CHOICE, "Off", 0, 0, aw_guard_mode_names,
          "Off only recommends, Initial sizes replicas once, Auto acts; users begin with Off"),
    REAL(replicas_up_factor, "4", 1, 1000,
         "most that a decision may multiply the replicas by; twice what the HPA adds in a period"),
    REAL(replicas_down_factor, "2", 1, 1000,
         "most that a decision may divide the replicas by; Knative's max-scale-down-rate"),
    REAL(cpu_up_factor, "4", 1, 1000, "most that a decision may multiply a replica's CPU by"),
    REAL(cpu_down_factor, "2", 1, 1000, "most that a decision may divide a replica's CPU by"),
    REAL(memory_up_factor, "4", 1, 1000, "most that a decision may multiply a replica's memory by"),
    REAL(memory_down_factor, "2", 1, 1000, "most that a decision may divide a replica's memory by"),
    WHOLE(replicas_up_least, "4", 0, 1000,
          "replicas that a decision may always add, however few there are; the HPA's default"),
    REAL(restart_window, "3600", 60, 7 * DAY, "seconds over which changes of size are counted"),
    WHOLE(restart_count, "12", 0, RESTARTS_MAX,
          "changes of size within that window, each of which restarts every replica; shrinking may "
          "use half of them, so that growing finds some left"),
    REAL(change_window, "600", 60, 7 * DAY, "seconds over which an amount's range is kept"),
    REAL(change_factor, "8", 1, 1000,
         "most that an amount's largest may be over its smallest within that window; growing under "
         "pressure is free of it"),
    REAL(replicas_up_cooldown, "0", 0, DAY,
         "seconds after a change of replicas before more are added; the HPA waits for nothing"),
    REAL(replicas_down_cooldown, "60", 0, DAY,
         "seconds after a change of replicas before some are removed"),
    REAL(size_up_cooldown, "60", 0, DAY, "seconds after a change of size before it grows again"),
    REAL(size_down_cooldown, "300", 0, DAY,
         "seconds after a change of size before it shrinks; the HPA's window for scaling in"),
    REAL(peak_window, "300", 30, 7 * DAY,
         "seconds for which a peak of use counts; the HPA's window for scaling in"),
    REAL(memory_margin, "0.05", 0, 10,
         "share of the recent peak of memory that stays free above it; less lets replicas be "
         "killed"),
    REAL(cpu_margin, "0.05", 0, 10,
         "share of the recent peak of CPU use that stays free above it, over all replicas"),
    REAL(oom_factor, "1.2", 1, 10,
         "times the size that was killed for want of memory; VPA's bump-up ratio"),
    REAL(oom_hold, "1800", 0, 30 * DAY, "seconds after a kill for which that floor holds"),
    REAL(deadband, "0.1", 0, 1,
         "relative change of both sizes that is not worth a restart; VPA's updater asks for 10 % "
         "too"),
    REAL(pressure, "0.7", 0, 1,
         "CPU utilisation beyond which growth waits for no cool-down, window or rollout, as when "
         "the SLO is missed"),
    REAL(crash_window, "600", 60, DAY, "seconds over which crashes are counted"),
    WHOLE(crash_count, "3", 1, 1000, "crashes within that window, at least, that make a loop"),
    REAL(crash_share, "0.5", 0, 100,
         "crashes per replica within that window, at least, that make a loop: one bad replica of "
         "many freezes nothing"),
    {0},
};

const char *aw_clip_name(enum aw_clip clip)
{
    static const char *const names[] = {
#define X(id, name, sentence) name,
        AW_CLIP_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)clip < AW_CLIP_COUNT);
    return names[clip];
}

const char *aw_clip_sentence(enum aw_clip clip)
{
    static const char *const sentences[] = {
#define X(id, name, sentence) sentence,
        AW_CLIP_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)clip < AW_CLIP_COUNT);
    return sentences[clip];
}

enum aw_err aw_guard_init(struct aw_guard *guard, const struct aw_guard_settings *settings,
                          const struct aw_bounds *bounds, struct aw_diag *diag)
{
    enum aw_err err = aw_bounds_check(bounds, diag);
    if (err)
        return err;
    AW_ASSERT(settings->mode <= AW_GUARD_AUTO && settings->restart_count <= RESTARTS_MAX);
    *guard = (struct aw_guard){.settings = *settings, .bounds = *bounds};
    return AW_OK;
}

/* --- numbers and times that may be anything ---------------------------------------------------
 */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rounded up; what does not fit is the most that does, what is no number is 0. */
static int64_t whole_up(double amount)
{
    if (!(amount > 0))
        return 0;
    return (int64_t)ceil(amount < AMOUNT_CAP ? amount : AMOUNT_CAP);
}

static int64_t whole_down(double amount)
{
    if (!(amount > 0))
        return 0;
    return (int64_t)(amount < AMOUNT_CAP ? amount : AMOUNT_CAP);
}

static int64_t us(double seconds)
{
    return (int64_t)(seconds * US_PER_S);
}

/* Never is very long ago. A time to come is now. */
static int64_t since(int64_t now_us, int64_t then_us)
{
    int64_t elapsed;
    if (then_us == AW_NEVER || __builtin_sub_overflow(now_us, then_us, &elapsed))
        return then_us == AW_NEVER || now_us > then_us ? INT64_MAX : 0;
    return larger(elapsed, 0);
}

static int64_t shifted(int64_t time, int64_t by)
{
    int64_t result;
    if (time == AW_NEVER)
        return time;
    if (__builtin_add_overflow(time, by, &result) || result == AW_NEVER)
        return AW_NEVER + 1;
    return result;
}

static bool usable(double figure)
{
    return isfinite(figure) && figure >= 0 && figure < AMOUNT_CAP;
}

/* --- sliding windows in pieces ----------------------------------------------------------------
 *
 * A window is kept in pieces that are known by when they began. A piece is forgotten when all of it
 * is older than the window, so what is remembered is the window and up to one piece more. One piece
 * fewer than there are spans the window: that one is being filled.
 */

static int64_t piece_us(double window)
{
    return larger(us(window) / (PIECES - 1), 1);
}

static bool piece_counts(int64_t begun_us, double window, int64_t now_us)
{
    return begun_us != AW_NEVER && since(now_us, begun_us) < us(window) + piece_us(window);
}

/* The slot of the piece that is being filled; `ret_new` says that it has just begun and must be
 * emptied. The oldest makes room. */
static uint32_t piece_slot(int64_t *begun_us, double window, int64_t now_us, bool *ret_new)
{
    uint32_t oldest = 0;
    *ret_new = false;
    for (uint32_t i = 0; i < PIECES; i++) {
        if (begun_us[i] != AW_NEVER && since(now_us, begun_us[i]) < piece_us(window))
            return i;
        if (begun_us[i] < begun_us[oldest])
            oldest = i;
    }
    begun_us[oldest] = now_us;
    *ret_new = true;
    return oldest;
}

/* --- memory -----------------------------------------------------------------------------------
 */

void aw_guard_begin(struct aw_guard_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->seen_us = AW_NEVER;
    for (uint32_t i = 0; i < 2; i++)
        memory->known_us[i] = memory->known_since_us[i] = AW_NEVER;
    memory->replicas_change_us = memory->size_change_us = memory->oom_us = AW_NEVER;
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
    for (uint32_t i = 0; i < 2; i++) {
        memory->known_us[i] = shifted(memory->known_us[i], by);
        memory->known_since_us[i] = shifted(memory->known_since_us[i], by);
    }
    memory->replicas_change_us = shifted(memory->replicas_change_us, by);
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

static int64_t wanted_of(const struct aw_reading *reading, uint32_t axis)
{
    const int64_t wanted[AW_GUARD_AXES] = {reading->replicas_wanted, reading->cpu_millicores_wanted,
                                           reading->memory_bytes_wanted};
    return wanted[axis] > 0 && wanted[axis] <= amount_max[axis] ? wanted[axis] : 0;
}

static int64_t plan_amount(const struct aw_plan *plan, uint32_t axis)
{
    const int64_t amount[AW_GUARD_AXES] = {plan->replicas, plan->cpu_millicores,
                                           plan->memory_bytes};
    return amount[axis];
}

/* The amounts are `next` from now on, whoever made them so. 0: unknown, stays as it was. */
static void note_change(struct aw_guard_memory *memory, const int64_t *next, int64_t now_us)
{
    bool changed[AW_GUARD_AXES];
    const int64_t memory_before = memory->wanted[AW_GUARD_MEMORY];
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        changed[i] = next[i] > 0 && memory->wanted[i] > 0 && next[i] != memory->wanted[i];
        memory->wanted[i] = next[i] > 0 ? next[i] : memory->wanted[i];
    }
    if (changed[AW_GUARD_REPLICAS])
        memory->replicas_change_us = now_us;
    if (changed[AW_GUARD_CPU] || changed[AW_GUARD_MEMORY]) {
        memory->memory_before = memory_before;
        memory->size_change_us = now_us;
        memory->restart_us[memory->restart_next] = now_us;
        memory->restart_next = (memory->restart_next + 1) % RESTARTS_MAX;
    }
}

static void note_range(const struct aw_guard *guard, struct aw_guard_memory *memory, int64_t now_us)
{
    bool new;
    const uint32_t slot =
        piece_slot(memory->change_us, guard->settings.change_window, now_us, &new);
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        int64_t *low = &memory->change_low[slot][i], *high = &memory->change_high[slot][i];
        const int64_t amount = memory->wanted[i];
        if (new)
            *low = *high = 0;
        if (amount > 0) {
            *low = *low > 0 ? smaller(*low, amount) : amount;
            *high = larger(*high, amount);
        }
    }
}

static double memory_used(const struct aw_reading *reading)
{
    const double peak = reading->memory_bytes_peak, mean = reading->memory_bytes_used;
    if (!usable(peak))
        return usable(mean) ? mean : (double)NAN;
    return usable(mean) && mean > peak ? mean : peak;
}

static double cores_used(const struct aw_reading *reading)
{
    return usable(reading->cpu_cores_used) ? reading->cpu_cores_used : (double)NAN;
}

static void note_known(const struct aw_guard *guard, struct aw_guard_memory *memory, uint32_t which,
                       double figure, int64_t now_us)
{
    if (isnan(figure))
        return;
    if (since(now_us, memory->known_us[which]) > us(guard->settings.peak_window))
        memory->known_since_us[which] = now_us;
    memory->known_us[which] = now_us;
}

static void note_peaks(const struct aw_guard *guard, struct aw_guard_memory *memory,
                       const struct aw_reading *reading, int64_t now_us)
{
    bool new;
    const double cores = cores_used(reading), bytes = memory_used(reading);
    const uint32_t slot = piece_slot(memory->peak_us, guard->settings.peak_window, now_us, &new);
    if (new)
        memory->peak_cores[slot] = memory->peak_bytes[slot] = 0;
    memory->peak_cores[slot] = fmax(memory->peak_cores[slot], cores); /* NAN loses */
    memory->peak_bytes[slot] = fmax(memory->peak_bytes[slot], bytes);
    note_known(guard, memory, 0, cores, now_us);
    note_known(guard, memory, 1, bytes, now_us);
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
    if (since(now_us, memory->oom_us) > us(s->oom_hold))
        memory->oom_floor_bytes = 0;
    int64_t killed = memory->wanted[AW_GUARD_MEMORY];
    if (reading->oom_kills == 0 || killed == 0)
        return;
    if (reading->rollout && memory->memory_before > 0)
        killed = smaller(killed, memory->memory_before);
    const int64_t floor = whole_up((double)killed * s->oom_factor);
    memory->oom_floor_bytes = larger(memory->oom_floor_bytes, floor);
    memory->oom_us = now_us;
}

void aw_guard_observe(const struct aw_guard *guard, struct aw_guard_memory *memory,
                      const struct aw_guard_input *input, int64_t now_us)
{
    const struct aw_reading *reading = input->reading;
    int64_t wanted[AW_GUARD_AXES];
    clock_back(memory, now_us);
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        wanted[i] = wanted_of(reading, i);
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
    int64_t next[AW_GUARD_AXES];
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        next[i] = plan->set & (1u << i) ? plan_amount(plan, i) : 0;
    note_range(guard, memory, now_us); /* what was in force until now */
    note_change(memory, next, now_us);
    if (plan->set & (AW_PLAN_CPU | AW_PLAN_MEMORY))
        memory->sized = 1;
    note_range(guard, memory, now_us);
}

uint32_t aw_guard_restarts_left(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                                bool growing, int64_t now_us)
{
    const struct aw_guard_settings *s = &guard->settings;
    const uint32_t allowed = growing ? s->restart_count : (s->restart_count + 1) / 2;
    uint32_t used = 0;
    for (uint32_t i = 0; i < RESTARTS_MAX; i++)
        used += since(now_us, memory->restart_us[i]) < us(s->restart_window);
    return used < allowed ? allowed - used : 0;
}

/* --- rails ------------------------------------------------------------------------------------
 */

struct room {
    int64_t low, high;
};

/* One passing through the rails. */
struct pass {
    const struct aw_guard *guard;
    const struct aw_guard_memory *memory;
    const struct aw_guard_input *input;
    int64_t now_us;

    int64_t present[AW_GUARD_AXES]; /* wanted until now; 0: unknown */
    int64_t home[AW_GUARD_AXES];    /* the present within what hard rails left */
    int64_t amount[AW_GUARD_AXES];  /* on its way from proposed to allowed; 0: unknown */
    struct room room[AW_GUARD_AXES];
    uint32_t dropped; /* AW_PLAN_*: not touched at all */
    uint32_t clips[AW_GUARD_AXES];
};

/* Never to nothing: beyond an end, the end. */
static void narrow(struct room *room, int64_t low, int64_t high)
{
    room->high = larger(smaller(room->high, high), room->low);
    room->low = smaller(larger(room->low, low), room->high);
}

/* Soft rails: the room always keeps home. An amount whose present nobody knows cannot be held, only
 * left alone. */
static void at_least(struct pass *pass, uint32_t axis, int64_t low)
{
    if (pass->present[axis] == 0)
        return;
    narrow(&pass->room[axis], smaller(low, pass->home[axis]), INT64_MAX);
}

static void at_most(struct pass *pass, uint32_t axis, int64_t high)
{
    if (pass->present[axis] == 0)
        return;
    narrow(&pass->room[axis], INT64_MIN, larger(high, pass->home[axis]));
}

static void hold_down(struct pass *pass, uint32_t axis)
{
    if (pass->present[axis] == 0)
        pass->dropped |= 1u << axis;
    at_least(pass, axis, pass->home[axis]);
}

static void hold_up(struct pass *pass, uint32_t axis)
{
    if (pass->present[axis] == 0)
        pass->dropped |= 1u << axis;
    at_most(pass, axis, pass->home[axis]);
}

static void hold_all_down(struct pass *pass)
{
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        hold_down(pass, i);
}

/* The workload needs more of it, by what everybody can see: growth then waits for nothing that only
 * keeps things calm. */
static bool pressed(const struct pass *pass, uint32_t axis)
{
    const struct aw_reading *reading = pass->input->reading;
    const struct aw_guard_settings *s = &pass->guard->settings;
    if (pass->input->slo == AW_GUARD_SLO_MISSED)
        return true;
    if (axis == AW_GUARD_MEMORY)
        return reading->oom_kills > 0 || memory_used(reading) * (1 + s->memory_margin) >
                                             (double)pass->present[AW_GUARD_MEMORY];
    return reading->cpu_utilisation > s->pressure;
}

static void rail_bounds(struct pass *pass)
{
    const struct aw_bounds *b = &pass->guard->bounds;
    pass->room[AW_GUARD_REPLICAS] = (struct room){b->replicas_min, b->replicas_max};
    pass->room[AW_GUARD_CPU] = (struct room){b->cpu_millicores_min, b->cpu_millicores_max};
    pass->room[AW_GUARD_MEMORY] = (struct room){b->memory_bytes_min, b->memory_bytes_max};
}

/* A replica that no node can hold stays pending for ever. */
static void rail_node(struct pass *pass)
{
    if (pass->input->node_cpu_millicores > 0)
        narrow(&pass->room[AW_GUARD_CPU], INT64_MIN, pass->input->node_cpu_millicores);
    if (pass->input->node_memory_bytes > 0)
        narrow(&pass->room[AW_GUARD_MEMORY], INT64_MIN, pass->input->node_memory_bytes);
}

static void rail_oom_floor(struct pass *pass)
{
    const struct aw_guard_memory *m = pass->memory;
    if (m->oom_floor_bytes > 0 &&
        since(pass->now_us, m->oom_us) <= us(pass->guard->settings.oom_hold))
        narrow(&pass->room[AW_GUARD_MEMORY], m->oom_floor_bytes, INT64_MAX);
}

/* Replicas and their CPU hang on the use of CPU, memory on its own; with the SLO unknown nobody
 * knows whether less would do. */
static void rail_no_data(struct pass *pass)
{
    const struct aw_reading *reading = pass->input->reading;
    if (isnan(cores_used(reading))) {
        hold_down(pass, AW_GUARD_REPLICAS);
        hold_down(pass, AW_GUARD_CPU);
    }
    if (isnan(memory_used(reading)))
        hold_down(pass, AW_GUARD_MEMORY);
    if (pass->input->slo == AW_GUARD_SLO_UNKNOWN)
        hold_all_down(pass);
}

/* A restart of ours or an outage of the metrics has forgotten the peaks; as the HPA, which counts
 * the replicas it first sees as a recommendation. */
static void rail_young(struct pass *pass)
{
    const int64_t window = us(pass->guard->settings.peak_window);
    const struct aw_guard_memory *m = pass->memory;
    if (m->known_us[0] == AW_NEVER || since(pass->now_us, m->known_since_us[0]) < window) {
        hold_down(pass, AW_GUARD_REPLICAS);
        hold_down(pass, AW_GUARD_CPU);
    }
    if (m->known_us[1] == AW_NEVER || since(pass->now_us, m->known_since_us[1]) < window)
        hold_down(pass, AW_GUARD_MEMORY);
}

/* Nothing shrinks. What can end a loop of OOM kills may grow: memory itself, and replicas, over
 * which the requests in flight are spread. Other crashes are no want of resources; more replicas of
 * a broken program are more crashes (tortoise#405). */
static void rail_crash_loop(struct pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    uint64_t kills = 0, restarts = 0;
    for (uint32_t i = 0; i < PIECES; i++) {
        if (piece_counts(m->crash_us[i], s->crash_window, pass->now_us)) {
            kills += m->crash_kills[i];
            restarts += m->crash_restarts[i];
        }
    }
    const uint64_t crashes = kills > restarts ? kills : restarts;
    if (crashes < s->crash_count ||
        (double)crashes < s->crash_share * (double)pass->present[AW_GUARD_REPLICAS])
        return;
    hold_all_down(pass);
    hold_up(pass, AW_GUARD_CPU);
    if (2 * kills < crashes) {
        hold_up(pass, AW_GUARD_REPLICAS);
        hold_up(pass, AW_GUARD_MEMORY);
    }
}

/* A new size would begin the rollout anew, and replicas that are starting use CPU that is not load
 * (kubernetes#72775). More replicas are let through when there is something to see for it. */
static void rail_rollout(struct pass *pass)
{
    if (!pass->input->reading->rollout)
        return;
    hold_all_down(pass);
    hold_up(pass, AW_GUARD_CPU);
    hold_up(pass, AW_GUARD_MEMORY);
    if (!pressed(pass, AW_GUARD_REPLICAS))
        hold_up(pass, AW_GUARD_REPLICAS);
}

static void rail_step(struct pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const double up[AW_GUARD_AXES] = {s->replicas_up_factor, s->cpu_up_factor, s->memory_up_factor};
    const double down[AW_GUARD_AXES] = {s->replicas_down_factor, s->cpu_down_factor,
                                        s->memory_down_factor};
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        const int64_t present = pass->present[i];
        const int64_t least = i == AW_GUARD_REPLICAS ? present + s->replicas_up_least : 0;
        at_most(pass, i, larger(whole_down((double)present * up[i]), least));
        at_least(pass, i, whole_up((double)present / down[i]));
    }
}

/* Not even pressure: replicas are another way to grow. A kill is: its floor is a hard rail. */
static void rail_restart_budget(struct pass *pass)
{
    if (pass->input->in_place)
        return;
    for (uint32_t i = AW_GUARD_CPU; i <= AW_GUARD_MEMORY; i++) {
        if (aw_guard_restarts_left(pass->guard, pass->memory, false, pass->now_us) == 0)
            hold_down(pass, i);
        if (aw_guard_restarts_left(pass->guard, pass->memory, true, pass->now_us) == 0)
            hold_up(pass, i);
    }
}

static void rail_change_budget(struct pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        int64_t low = pass->present[i], high = pass->present[i];
        for (uint32_t k = 0; k < PIECES; k++) {
            if (!piece_counts(m->change_us[k], s->change_window, pass->now_us) ||
                m->change_low[k][i] == 0)
                continue;
            low = smaller(low, m->change_low[k][i]);
            high = larger(high, m->change_high[k][i]);
        }
        const int64_t least = i == AW_GUARD_REPLICAS ? low + s->replicas_up_least : 0;
        at_least(pass, i, whole_up((double)high / s->change_factor));
        if (!pressed(pass, i))
            at_most(pass, i, larger(whole_down((double)low * s->change_factor), least));
    }
}

static void rail_cool_down(struct pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        const bool replicas = i == AW_GUARD_REPLICAS;
        const int64_t age =
            since(pass->now_us, replicas ? m->replicas_change_us : m->size_change_us);
        if (age < us(replicas ? s->replicas_down_cooldown : s->size_down_cooldown))
            hold_down(pass, i);
        if (age < us(replicas ? s->replicas_up_cooldown : s->size_up_cooldown) && !pressed(pass, i))
            hold_up(pass, i);
    }
}

/* Memory of each replica, and CPU over all of them. The two halves of a trade, such as half the
 * replicas of twice the size, do not arrive together: each is judged as if the other had not come
 * yet, and what is not ready carries nothing. */
static void rail_working_set(struct pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    double cores = 0, bytes = 0;
    for (uint32_t i = 0; i < PIECES; i++) {
        if (piece_counts(m->peak_us[i], s->peak_window, pass->now_us)) {
            cores = fmax(cores, m->peak_cores[i]);
            bytes = fmax(bytes, m->peak_bytes[i]);
        }
    }
    int64_t floor[AW_GUARD_AXES] = {0, 0, whole_up(bytes * (1 + s->memory_margin))};
    const double need = MILLI_PER_CORE * cores * (1 + s->cpu_margin);
    const int64_t *present = pass->present;
    int64_t *amount = pass->amount;
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        /* of the other half: what is there already, if that is less */
        if (i == AW_GUARD_REPLICAS) {
            int64_t cpu = amount[AW_GUARD_CPU];
            cpu = present[AW_GUARD_CPU] > 0 ? smaller(cpu, present[AW_GUARD_CPU]) : cpu;
            floor[i] = cpu > 0 ? whole_up(need / (double)cpu) : INT64_MAX;
        } else if (i == AW_GUARD_CPU) {
            int64_t there = larger(pass->input->reading->replicas_ready, 1);
            there = smaller(there, smaller(amount[AW_GUARD_REPLICAS], present[AW_GUARD_REPLICAS]));
            floor[i] = whole_up(need / (double)larger(there, 1));
        }
        const int64_t home = present[i] > 0 ? pass->home[i] : pass->room[i].high;
        if (amount[i] > 0 && amount[i] < home)
            amount[i] = larger(amount[i], smaller(floor[i], home));
    }
}

/* Unless replicas restart anyway. */
static void rail_deadband(struct pass *pass)
{
    if (pass->input->in_place)
        return;
    for (uint32_t i = AW_GUARD_CPU; i <= AW_GUARD_MEMORY; i++) {
        const double home = (double)pass->home[i], away = (double)pass->amount[i] - home;
        if (pass->home[i] != pass->present[i] || fabs(away) > pass->guard->settings.deadband * home)
            return;
    }
    for (uint32_t i = AW_GUARD_CPU; i <= AW_GUARD_MEMORY; i++)
        pass->amount[i] = pass->home[i];
}

/* --- the walk ---------------------------------------------------------------------------------
 */

struct rail {
    enum aw_clip clip;
    void (*run)(struct pass *pass);
};

/* Where two contradict, the earlier stands: a person's bounds over what a node holds, that over
 * what was killed. */
static const struct rail hard_rails[] = {
    {AW_CLIP_BOUNDS, rail_bounds},
    {AW_CLIP_NODE, rail_node},
    {AW_CLIP_OOM_FLOOR, rail_oom_floor},
};
/* Their order decides whose name is noted, not what comes out: intervals that all contain home
 * intersect in any order. Those about the workload's health come first, habits of pace last. */
static const struct rail soft_rails[] = {
    {AW_CLIP_NO_DATA, rail_no_data},
    {AW_CLIP_YOUNG, rail_young},
    {AW_CLIP_CRASH_LOOP, rail_crash_loop},
    {AW_CLIP_ROLLOUT, rail_rollout},
    {AW_CLIP_STEP, rail_step},
    {AW_CLIP_RESTART_BUDGET, rail_restart_budget},
    {AW_CLIP_CHANGE_BUDGET, rail_change_budget},
    {AW_CLIP_COOL_DOWN, rail_cool_down},
    {AW_CLIP_WORKING_SET, rail_working_set},
    {AW_CLIP_DEADBAND, rail_deadband},
};

static void walk(struct pass *pass, const struct rail *rails, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        int64_t before[AW_GUARD_AXES];
        const uint32_t dropped = pass->dropped;
        memcpy(before, pass->amount, sizeof before);
        rails[r].run(pass);
        for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
            int64_t *amount = &pass->amount[i];
            if (*amount == 0)
                continue;
            *amount = larger(pass->room[i].low, smaller(*amount, pass->room[i].high));
            if (*amount != before[i] || (pass->dropped & ~dropped & (1u << i)))
                pass->clips[i] |= AW_CLIP_BIT(rails[r].clip);
        }
    }
}

/* What is proposed, as far as it can be meant; else the present. */
static void begin(struct pass *pass, const struct aw_plan *proposed)
{
    const uint32_t all = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY;
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        const bool named = proposed->set & (1u << i);
        const int64_t amount = plan_amount(proposed, i);
        const bool absurd = amount <= 0 || amount > amount_max[i];
        pass->present[i] = wanted_of(pass->input->reading, i);
        pass->amount[i] = named && !absurd ? amount : pass->present[i];
        if ((named && absurd) || (proposed->set & ~all))
            pass->clips[i] |= AW_CLIP_BIT(AW_CLIP_ABSURD);
    }
}

static void plan_set(struct aw_plan *plan, const struct pass *pass, uint32_t set)
{
    int64_t amount[AW_GUARD_AXES];
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        amount[i] = set & (1u << i) ? pass->amount[i] : pass->present[i];
    *plan = (struct aw_plan){.set = set,
                             .replicas = (uint32_t)amount[AW_GUARD_REPLICAS],
                             .cpu_millicores = amount[AW_GUARD_CPU],
                             .memory_bytes = amount[AW_GUARD_MEMORY]};
}

static uint32_t strike(struct pass *pass, uint32_t set, uint32_t out, enum aw_clip clip)
{
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        if (set & out & (1u << i))
            pass->clips[i] |= AW_CLIP_BIT(clip);
    return set & ~out;
}

/* What only strikes out, strongest last, so that a plan which nobody let through names them all. */
static uint32_t struck(struct pass *pass, uint32_t set)
{
    const uint32_t all = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY;
    const struct aw_guard_settings *s = &pass->guard->settings;
    uint32_t smaller_set = 0, left = set;
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        smaller_set |= pass->amount[i] < pass->present[i] ? 1u << i : 0;
    if (pass->input->freeze == AW_GUARD_FREEZE_DOWN)
        left &= strike(pass, set, smaller_set, AW_CLIP_FREEZE);
    else if (pass->input->freeze != AW_GUARD_FREEZE_NONE)
        left &= strike(pass, set, all, AW_CLIP_FREEZE);
    if (s->mode == AW_GUARD_INITIAL && pass->memory->sized)
        left &= strike(pass, set, AW_PLAN_CPU | AW_PLAN_MEMORY, AW_CLIP_MODE);
    else if (s->mode == AW_GUARD_OFF)
        left &= strike(pass, set, all, AW_CLIP_MODE);
    return left;
}

void aw_guard_pass(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                   const struct aw_guard_input *input, const struct aw_plan *proposed,
                   int64_t now_us, struct aw_guard_result *ret_result)
{
    struct pass pass = {.guard = guard, .memory = memory, .input = input, .now_us = now_us};
    struct aw_guard_result result = {.proposed = *proposed};
    begin(&pass, proposed);
    walk(&pass, hard_rails, sizeof hard_rails / sizeof *hard_rails);
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        const int64_t at = pass.present[i] > 0 ? pass.present[i] : pass.amount[i];
        pass.home[i] = larger(pass.room[i].low, smaller(at, pass.room[i].high));
    }
    walk(&pass, soft_rails, sizeof soft_rails / sizeof *soft_rails);

    uint32_t set = 0;
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        set |= pass.amount[i] != pass.present[i] ? 1u << i : 0;
    set &= ~pass.dropped;
    if (pass.present[AW_GUARD_REPLICAS] == 0) /* as the HPA: zero replicas switch scaling off */
        set = strike(&pass, set, set, AW_CLIP_ZERO);
    plan_set(&result.recommended, &pass, set);
    plan_set(&result.plan, &pass, struck(&pass, set));
    memcpy(result.axis_clips, pass.clips, sizeof result.axis_clips);
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++)
        result.clips |= pass.clips[i];
    *ret_result = result;
}

const char *aw_guard_clips_format(const struct aw_guard_result *result, char *buf, size_t size)
{
    static const char *const axes[AW_GUARD_AXES] = {"replicas", "cpu", "memory"};
    struct aw_text text;
    aw_text_init(&text, buf, size);
    for (uint32_t i = 0; i < AW_GUARD_AXES; i++) {
        const char *before = text.len > 0 ? "; " : "";
        if (result->axis_clips[i] == 0)
            continue;
        aw_text_add(&text, "%s%s:", before, axes[i]);
        for (uint32_t clip = 0, more = 0; clip < AW_CLIP_COUNT; clip++)
            if (result->axis_clips[i] & AW_CLIP_BIT(clip))
                aw_text_add(&text, "%s %s", more++ ? "," : "", aw_clip_name(clip));
    }
    return buf;
}
