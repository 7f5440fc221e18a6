/* guard_rails.c - the rails, each a few lines. A rail never computes a plan: it narrows the room
 * that an amount has. */
#include "safety/guard_internal.h"

#define PIECES         AW_GUARD_BUCKETS
#define MILLI_PER_CORE 1e3

/* Never to nothing: beyond an end, the end. */
static void narrow(struct aw__room *room, int64_t low, int64_t high)
{
    room->high = aw__larger(aw__smaller(room->high, high), room->low);
    room->low = aw__smaller(aw__larger(room->low, low), room->high);
}

/* Soft rails: the room always keeps home. An amount whose present nobody knows cannot be held, only
 * left alone. */
static void at_least(struct aw__pass *pass, uint32_t axis, int64_t low)
{
    if (pass->present[axis] == 0)
        return;
    narrow(&pass->room[axis], aw__smaller(low, pass->home[axis]), INT64_MAX);
}

static void at_most(struct aw__pass *pass, uint32_t axis, int64_t high)
{
    if (pass->present[axis] == 0)
        return;
    narrow(&pass->room[axis], INT64_MIN, aw__larger(high, pass->home[axis]));
}

static void hold_down(struct aw__pass *pass, uint32_t axis)
{
    if (pass->present[axis] == 0)
        pass->dropped |= 1u << axis;
    at_least(pass, axis, pass->home[axis]);
}

static void hold_up(struct aw__pass *pass, uint32_t axis)
{
    if (pass->present[axis] == 0)
        pass->dropped |= 1u << axis;
    at_most(pass, axis, pass->home[axis]);
}

static void hold_all_down(struct aw__pass *pass)
{
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        hold_down(pass, i);
}

/* The workload needs more of it, by what everybody can see: growth then waits for nothing that only
 * keeps things calm. */
static bool pressed(const struct aw__pass *pass, uint32_t axis)
{
    const struct aw_reading *reading = pass->input->reading;
    const struct aw_guard_settings *s = &pass->guard->settings;
    if (pass->input->slo == AW_GUARD_SLO_MISSED)
        return true;
    if (aw_resource_table[axis].use == AW_USE_MEMORY)
        return reading->oom_kills > 0 || aw__guard_memory_used(reading) * (1 + s->memory_margin) >
                                             (double)pass->present[AW_RESOURCE_MEMORY];
    return reading->cpu_utilisation > s->pressure;
}

static void rail_bounds(struct aw__pass *pass)
{
    const struct aw_bounds *b = &pass->guard->bounds;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        pass->room[i] = (struct aw__room){b->min[i], b->max[i] > 0 ? b->max[i] : INT64_MAX};
}

/* A replica that no node can hold stays pending for ever. */
static void rail_node(struct aw__pass *pass)
{
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (pass->input->node.amount[i] > 0)
            narrow(&pass->room[i], INT64_MIN, pass->input->node.amount[i]);
}

static void rail_oom_floor(struct aw__pass *pass)
{
    const struct aw_guard_memory *m = pass->memory;
    if (m->oom_floor_bytes > 0 &&
        aw__since(pass->now_us, m->oom_us) <= aw__us(pass->guard->settings.oom_hold))
        narrow(&pass->room[AW_RESOURCE_MEMORY], m->oom_floor_bytes, INT64_MAX);
}

/* Whose figure of use is missing; with the SLO unknown nobody knows whether less would do. */
static void rail_no_data(struct aw__pass *pass)
{
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (isnan(aw__guard_used(pass->input->reading, aw_resource_table[i].use)) ||
            pass->input->slo == AW_GUARD_SLO_UNKNOWN)
            hold_down(pass, i);
}

/* A restart of ours or an outage of the metrics has forgotten the peaks; as the HPA, which counts
 * the replicas it first sees as a recommendation. */
static void rail_young(struct aw__pass *pass)
{
    const int64_t window = aw__us(pass->guard->settings.peak_window);
    const struct aw_guard_memory *m = pass->memory;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const enum aw_use use = aw_resource_table[i].use;
        if (m->known_us[use] == AW_NEVER ||
            aw__since(pass->now_us, m->known_since_us[use]) < window)
            hold_down(pass, i);
    }
}

/* Nothing shrinks. What can end a loop of OOM kills may grow: memory itself, and replicas, over
 * which the requests in flight are spread. Other crashes are no want of resources; more replicas of
 * a broken program are more crashes (tortoise#405). */
static void rail_crash_loop(struct aw__pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    const int64_t after = aw__guard_window_after(pass->now_us, s->crash_window);
    uint64_t kills = 0, restarts = 0;
    for (uint32_t i = 0; i < PIECES; i++) {
        if (m->crash_us[i] > after) {
            kills += m->crash_kills[i];
            restarts += m->crash_restarts[i];
        }
    }
    const uint64_t crashes = kills > restarts ? kills : restarts;
    if (crashes < s->crash_count ||
        (double)crashes < s->crash_share * (double)pass->present[AW_RESOURCE_REPLICAS])
        return;
    hold_all_down(pass);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (2 * kills < crashes || (i != AW_RESOURCE_REPLICAS && i != AW_RESOURCE_MEMORY))
            hold_up(pass, i);
}

/* A new size would begin the rollout anew, and replicas that are starting use CPU that is not load
 * (kubernetes#72775). More replicas are let through when there is something to see for it. */
static void rail_rollout(struct aw__pass *pass)
{
    if (!pass->input->reading->rollout)
        return;
    hold_all_down(pass);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if ((AW_PLAN_RESTARTS & AW_PLAN_BIT(i)) || !pressed(pass, i))
            hold_up(pass, i);
}

static void rail_step(struct aw__pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const double *up = s->up_factor, *down = s->down_factor;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const int64_t present = pass->present[i];
        const int64_t least = i == AW_RESOURCE_REPLICAS ? present + s->replicas_up_least : 0;
        at_most(pass, i, aw__larger(aw__whole_down((double)present * up[i]), least));
        at_least(pass, i, aw__whole_up((double)present / down[i]));
        /* A cluster that took a change and has not been seen since may have done half of it: the
         * next step counts from what was seen. What is asked for already is not taken back. */
        const int64_t seen = pass->input->blind ? pass->memory->seen[i] : 0;
        if (seen == 0)
            continue;
        const int64_t high = i == AW_RESOURCE_REPLICAS ? seen + s->replicas_up_least : 0;
        const int64_t most = aw__larger(aw__whole_down((double)seen * up[i]), high);
        const int64_t least_of_all = aw__whole_up((double)seen / down[i]);
        at_most(pass, i, aw__larger(most, present));
        at_least(pass, i, least_of_all < present ? least_of_all : present);
    }
}

/* Not even pressure: replicas are another way to grow. Only what a hard rail forces goes
 * beyond the budget: a kill's floor, a person's new bounds. */
static void rail_restart_budget(struct aw__pass *pass)
{
    if (pass->input->in_place)
        return;
    const uint32_t used = aw__guard_restarts_used(pass->guard, pass->memory, pass->now_us);
    const bool down = used < aw__guard_restarts_allowed(pass->guard, false);
    const bool up = used < aw__guard_restarts_allowed(pass->guard, true);
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        if (!down && (AW_PLAN_RESTARTS & AW_PLAN_BIT(i)))
            hold_down(pass, i);
        if (!up && (AW_PLAN_RESTARTS & AW_PLAN_BIT(i)))
            hold_up(pass, i);
    }
}

static void rail_change_budget(struct aw__pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    int64_t low[AW_RESOURCES], high[AW_RESOURCES];
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        low[i] = high[i] = pass->present[i];
    const int64_t after = aw__guard_window_after(pass->now_us, s->change_window);
    for (uint32_t k = 0; k < PIECES; k++) {
        if (m->change_us[k] <= after)
            continue;
        for (uint32_t i = 0; i < AW_RESOURCES; i++) {
            if (m->change_low[k][i] > 0)
                low[i] = aw__smaller(low[i], m->change_low[k][i]);
            high[i] = aw__larger(high[i], m->change_high[k][i]);
        }
    }
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const int64_t least = i == AW_RESOURCE_REPLICAS ? low[i] + s->replicas_up_least : 0;
        at_least(pass, i, aw__whole_up((double)high[i] / s->change_factor));
        if (!pressed(pass, i))
            at_most(pass, i, aw__larger(aw__whole_down((double)low[i] * s->change_factor), least));
    }
}

static void rail_cool_down(struct aw__pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const bool replicas = i == AW_RESOURCE_REPLICAS;
        const int64_t age =
            aw__since(pass->now_us, replicas ? m->replicas_change_us : m->size_change_us);
        if (age < aw__us(replicas ? s->replicas_down_cooldown : s->size_down_cooldown))
            hold_down(pass, i);
        if (replicas &&
            aw__since(pass->now_us, m->replicas_added_us) < aw__us(s->replicas_stabilisation))
            hold_down(pass, i);
        if (age < aw__us(replicas ? s->replicas_up_cooldown : s->size_up_cooldown) &&
            !pressed(pass, i))
            hold_up(pass, i);
    }
}

/* Memory of each replica, and CPU over all of them. The two halves of a trade, such as half the
 * replicas of twice the size, do not arrive together: each is judged as if the other had not come
 * yet, and what is not ready carries nothing. */
static void rail_working_set(struct aw__pass *pass)
{
    const struct aw_guard_settings *s = &pass->guard->settings;
    const struct aw_guard_memory *m = pass->memory;
    const int64_t after = aw__guard_window_after(pass->now_us, s->peak_window);
    double cores = 0, bytes = 0;
    for (uint32_t i = 0; i < PIECES; i++) { /* peaks are numbers: note_peaks */
        const bool counts = m->peak_us[i] > after;
        cores = counts && m->peak_cores[i] > cores ? m->peak_cores[i] : cores;
        bytes = counts && m->peak_bytes[i] > bytes ? m->peak_bytes[i] : bytes;
    }
    int64_t floor[AW_RESOURCES] = {[AW_RESOURCE_MEMORY] =
                                       aw__whole_up(bytes * (1 + s->memory_margin))};
    const double need = MILLI_PER_CORE * cores * (1 + s->cpu_margin);
    const int64_t *present = pass->present;
    int64_t *amount = pass->amount;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        /* of the other half: what is there already, if that is less */
        if (i == AW_RESOURCE_REPLICAS) {
            int64_t cpu = amount[AW_RESOURCE_CPU];
            cpu = present[AW_RESOURCE_CPU] > 0 ? aw__smaller(cpu, present[AW_RESOURCE_CPU]) : cpu;
            floor[i] = cpu > 0 ? aw__whole_up(need / (double)cpu) : INT64_MAX;
        } else if (i == AW_RESOURCE_CPU) {
            int64_t there = aw__larger(pass->input->reading->replicas_ready, 1);
            there = aw__smaller(
                there, aw__smaller(amount[AW_RESOURCE_REPLICAS], present[AW_RESOURCE_REPLICAS]));
            floor[i] = aw__whole_up(need / (double)aw__larger(there, 1));
        }
        const int64_t home = present[i] > 0 ? pass->home[i] : pass->room[i].high;
        if (amount[i] > 0 && amount[i] < home)
            amount[i] = aw__larger(amount[i], aw__smaller(floor[i], home));
    }
}

/* A change of it restarts replicas; what the cluster does not have changes nothing. */
static bool settles(const struct aw__pass *pass, uint32_t resource)
{
    return (AW_PLAN_RESTARTS & AW_PLAN_BIT(resource)) && pass->guard->bounds.max[resource] > 0;
}

/* Unless replicas restart anyway. */
static void rail_deadband(struct aw__pass *pass)
{
    if (pass->input->in_place)
        return;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const double home = (double)pass->home[i], away = (double)pass->amount[i] - home;
        if (!settles(pass, i))
            continue;
        if (pass->home[i] != pass->present[i] || fabs(away) > pass->guard->settings.deadband * home)
            return;
    }
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (settles(pass, i))
            pass->amount[i] = pass->home[i];
}

/* Where two contradict, the earlier stands: a person's bounds over what a node holds, that over
 * what was killed. */
const struct aw__rail aw__guard_hard[AW__GUARD_HARD] = {
    {AW_CLIP_BOUNDS, rail_bounds},
    {AW_CLIP_NODE, rail_node},
    {AW_CLIP_OOM_FLOOR, rail_oom_floor},
};
/* Their order decides whose name is noted, not what comes out: intervals that all contain home
 * intersect in any order. Those about the workload's health come first, habits of pace later. The
 * last two move amounts themselves and have to see what the others left. */
const struct aw__rail aw__guard_soft[AW__GUARD_SOFT] = {
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
