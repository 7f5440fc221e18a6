/*
 * chaos_check.c - the rules of a change, written a second time: over the whole history as it was
 * shown, with nothing remembered in pieces.
 *
 * Every rule of pace allows an interval; a workload that somebody has put outside its bounds is
 * brought back into them whatever the pace. So `home` is where an amount may always be: the present
 * moved into bounds, node, and above what was killed.
 */
#include <math.h>

#include "chaos/chaos_internal.h"

/* One plan on its way to the cluster. */
struct change {
    struct aw__chaos *world;
    struct aw__chaos_workload *w;
    uint32_t i;
    const struct aw_guard_settings *guard;
    const struct aw__chaos_seen *seen; /* of this tick */
    const struct aw_decision *decision;
    bool ordered; /* by a person: no rule of pace */
    uint32_t set;
    int64_t from[AW_RESOURCES], to[AW_RESOURCES];
    int64_t low[AW_RESOURCES], high[AW_RESOURCES]; /* bounds and node */
    int64_t home_low[AW_RESOURCES], home_high[AW_RESOURCES];
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of something that was seen, in seconds. */
static double age_s(const struct change *c, int64_t t_us)
{
    return 1e-6 * (double)(c->w->t_us - t_us);
}

static void at_least(const struct change *c, uint32_t a, int64_t low, enum aw_invariant invariant,
                     const char *why)
{
    if ((c->set & AW_PLAN_BIT(a)) && c->to[a] < c->from[a])
        aw__chaos_must(c->world, c->to[a] >= least(low, c->home_low[a]), invariant, c->i,
                       "%s goes from %lld to %lld, below %lld: %s", aw_resource_table[a].name,
                       (long long)c->from[a], (long long)c->to[a], (long long)low, why);
}

static void at_most(const struct change *c, uint32_t a, int64_t high, enum aw_invariant invariant,
                    const char *why)
{
    if ((c->set & AW_PLAN_BIT(a)) && c->to[a] > c->from[a])
        aw__chaos_must(c->world, c->to[a] <= most(high, c->home_high[a]), invariant, c->i,
                       "%s goes from %lld to %lld, above %lld: %s", aw_resource_table[a].name,
                       (long long)c->from[a], (long long)c->to[a], (long long)high, why);
}

static void no_less(const struct change *c, uint32_t a, enum aw_invariant invariant,
                    const char *why)
{
    at_least(c, a, c->from[a], invariant, why);
}

static void no_more(const struct change *c, uint32_t a, enum aw_invariant invariant,
                    const char *why)
{
    at_most(c, a, c->from[a], invariant, why);
}

/* --- what is always so ------------------------------------------------------------------------ */

static void check_bounds(const struct change *c)
{
    const struct aw_pilot_config *pilot = &c->w->pilot;
    const struct aw_bounds *b = &pilot->bounds;
    const int64_t *low = b->min, *high = b->max;
    const int64_t node[AW_RESOURCES] = {INT64_MAX, pilot->node.cpu_millicores,
                                        pilot->node.memory_bytes};
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        if (!(c->set & AW_PLAN_BIT(a)))
            continue;
        aw__chaos_must(c->world, c->to[a] >= low[a] && c->to[a] <= high[a], AW_INVARIANT_BOUNDS,
                       c->i, "%s is to be %lld, the bounds are %lld to %lld",
                       aw_resource_table[a].name, (long long)c->to[a], (long long)low[a],
                       (long long)high[a]);
        if (high[a] > node[a])
            aw__chaos_must(c->world, c->to[a] <= most(node[a], low[a]), AW_INVARIANT_NODE, c->i,
                           "%s is to be %lld, the largest node has %lld", aw_resource_table[a].name,
                           (long long)c->to[a], (long long)node[a]);
    }
}

static void check_data(const struct change *c)
{
    const struct aw__chaos_seen *seen = c->seen;
    const bool slo = c->w->pilot.slo.latency_us_p99 > 0;
    const bool blind = slo && isnan(seen->arrivals) && !c->decision->score.violated;
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        const double figure = a == AW_RESOURCE_MEMORY ? seen->bytes : seen->cores;
        if (isnan(figure))
            no_less(c, a, AW_INVARIANT_NO_DATA,
                    a == AW_RESOURCE_MEMORY ? "the use of memory is not known"
                                            : "the use of CPU is not known");
        if (blind)
            no_less(c, a, AW_INVARIANT_NO_DATA, "the load is not known");
    }
}

static void check_working_set(const struct change *c)
{
    const struct aw__chaos_workload *w = c->w;
    double cores = 0, bytes = 0;
    for (uint32_t k = 0; k < w->seen_count; k++) {
        const struct aw__chaos_seen *seen = &w->seen[k];
        if (!seen->forgotten && age_s(c, seen->t_us) < c->guard->peak_window) {
            cores = fmax(cores, seen->cores); /* NAN loses */
            bytes = fmax(bytes, seen->bytes);
        }
    }
    const double need = 1e3 * cores * (1 + c->guard->cpu_margin) * (1 - 1e-9);
    const int64_t memory =
        (int64_t)ceil(fmin(bytes, 1e15) * (1 + c->guard->memory_margin) * (1 - 1e-9));
    at_least(c, AW_RESOURCE_MEMORY, memory, AW_INVARIANT_WORKING_SET,
             "the peak of use and its margin");
    const int64_t cpu = least(c->to[AW_RESOURCE_CPU], c->from[AW_RESOURCE_CPU]);
    at_least(c, AW_RESOURCE_REPLICAS, (int64_t)ceil(fmin(need / (double)cpu, 1e15)),
             AW_INVARIANT_WORKING_SET, "CPU for the peak of use and its margin");
    const int64_t there = least(most(c->seen->ready, 1),
                                least(c->to[AW_RESOURCE_REPLICAS], c->from[AW_RESOURCE_REPLICAS]));
    at_least(c, AW_RESOURCE_CPU, (int64_t)ceil(fmin(need / (double)most(there, 1), 1e15)),
             AW_INVARIANT_WORKING_SET, "CPU for the peak of use and its margin");
}

/* What a kill asks for at least: of kills while a new size was rolled out nobody knows the size. */
static int64_t killed(const struct change *c, bool certain)
{
    const struct aw__chaos_workload *w = c->w;
    int64_t floor = 0;
    for (uint32_t k = 0; k < w->seen_count; k++) {
        const struct aw__chaos_seen *seen = &w->seen[k];
        if (seen->kills == 0 || (certain && (seen->rollout || seen->forgotten)) ||
            (certain && age_s(c, seen->t_us) > c->guard->oom_hold))
            continue;
        const double asked = c->guard->oom_factor * (double)seen->wanted[AW_RESOURCE_MEMORY];
        floor = most(floor, (int64_t)ceil(asked));
    }
    return floor;
}

static void check_killed(const struct change *c)
{
    const int64_t floor = least(killed(c, true), c->high[AW_RESOURCE_MEMORY]);
    if (floor > 0 && (c->set & AW_PLAN_MEMORY))
        aw__chaos_must(c->world, c->to[AW_RESOURCE_MEMORY] >= floor, AW_INVARIANT_OOM_FLOOR, c->i,
                       "memory goes from %lld to %lld, a kill asks for %lld",
                       (long long)c->from[AW_RESOURCE_MEMORY], (long long)c->to[AW_RESOURCE_MEMORY],
                       (long long)floor);
}

/* --- pace ------------------------------------------------------------------------------------- */

static bool pressed(const struct change *c, uint32_t a)
{
    const struct aw_reading *reading = &c->decision->reading;
    if (c->w->pilot.slo.latency_us_p99 > 0 && c->decision->score.violated)
        return true;
    if (a != AW_RESOURCE_MEMORY)
        return reading->cpu_utilisation > c->guard->pressure;
    return c->seen->kills > 0 ||
           c->seen->bytes * (1 + c->guard->memory_margin) > (double)c->from[AW_RESOURCE_MEMORY];
}

static void check_step(const struct change *c)
{
    const struct aw_guard_settings *g = c->guard;
    const double *up = g->up_factor, *down = g->down_factor;
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        int64_t high = (int64_t)floor((double)c->from[a] * up[a] * (1 + 1e-12));
        if (a == AW_RESOURCE_REPLICAS)
            high = most(high, c->from[a] + g->replicas_up_least);
        at_most(c, a, high, AW_INVARIANT_STEP, "the most of one step");
        at_least(c, a, (int64_t)ceil((double)c->from[a] / down[a] * (1 - 1e-12)), AW_INVARIANT_STEP,
                 "the least of one step");
    }
}

static void check_change_budget(const struct change *c)
{
    const struct aw__chaos_workload *w = c->w;
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        int64_t low = c->from[a], high = c->from[a];
        for (uint32_t k = 0; k < w->seen_count; k++) {
            const struct aw__chaos_seen *seen = &w->seen[k];
            if (seen->forgotten || age_s(c, seen->t_us) >= c->guard->change_window)
                continue;
            const int64_t both[] = {seen->wanted[a], seen->after[a]};
            for (uint32_t m = 0; m < 2; m++) {
                low = both[m] > 0 ? least(low, both[m]) : low;
                high = most(high, both[m]);
            }
        }
        at_least(c, a, (int64_t)ceil((double)high / c->guard->change_factor * (1 - 1e-12)),
                 AW_INVARIANT_CHANGE_BUDGET, "the budget of the window");
        int64_t up = (int64_t)floor((double)low * c->guard->change_factor * (1 + 1e-12));
        if (a == AW_RESOURCE_REPLICAS)
            up = most(up, low + c->guard->replicas_up_least);
        if (!pressed(c, a))
            at_most(c, a, up, AW_INVARIANT_CHANGE_BUDGET, "the budget of the window");
    }
}

static void check_restart_budget(const struct change *c)
{
    if (c->w->pilot.in_place)
        return;
    uint32_t used = 0;
    for (uint32_t k = 0; k < c->w->change_count; k++) {
        const struct aw__chaos_change *change = &c->w->change[k];
        used +=
            change->size && !change->forgotten && age_s(c, change->t_us) < c->guard->restart_window;
    }
    for (uint32_t a = AW_RESOURCE_CPU; a <= AW_RESOURCE_MEMORY; a++) {
        if (used >= c->guard->restart_count)
            no_more(c, a, AW_INVARIANT_RESTART_BUDGET, "the changes of size are used up");
        if (used >= (c->guard->restart_count + 1) / 2)
            no_less(c, a, AW_INVARIANT_RESTART_BUDGET, "half of the changes of size are used up");
    }
}

static void check_cool_down(const struct change *c)
{
    const struct aw_guard_settings *g = c->guard;
    double since[2] = {INFINITY, INFINITY}; /* replicas, size */
    for (uint32_t k = 0; k < c->w->change_count; k++) {
        const struct aw__chaos_change *change = &c->w->change[k];
        if (change->forgotten)
            continue;
        if (change->replicas)
            since[0] = fmin(since[0], age_s(c, change->t_us));
        if (change->size)
            since[1] = fmin(since[1], age_s(c, change->t_us));
    }
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        const bool replicas = a == AW_RESOURCE_REPLICAS;
        const double age = since[replicas ? 0 : 1];
        if (age < (replicas ? g->replicas_down_cooldown : g->size_down_cooldown))
            no_less(c, a, AW_INVARIANT_COOL_DOWN, "too soon after the last change");
        if (age < (replicas ? g->replicas_up_cooldown : g->size_up_cooldown) && !pressed(c, a))
            no_more(c, a, AW_INVARIANT_COOL_DOWN, "too soon after the last change");
    }
}

static void check_crash_loop(const struct change *c)
{
    const struct aw_guard_settings *g = c->guard;
    uint64_t kills = 0, kills_more = 0, restarts = 0;
    for (uint32_t k = 0; k < c->w->seen_count; k++) {
        const struct aw__chaos_seen *seen = &c->w->seen[k];
        if (seen->forgotten)
            continue;
        const double age = age_s(c, seen->t_us);
        if (age < g->crash_window) {
            kills += seen->kills;
            restarts += seen->restarts;
        }
        if (age < 1.2 * g->crash_window)
            kills_more += seen->kills;
    }
    const uint64_t crashes = kills > restarts ? kills : restarts;
    if (crashes < g->crash_count ||
        (double)crashes < g->crash_share * (double)c->from[AW_RESOURCE_REPLICAS])
        return;
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        no_less(c, a, AW_INVARIANT_CRASH_LOOP, "it is in a crash loop");
        if (a == AW_RESOURCE_CPU || 2 * kills_more < crashes)
            no_more(c, a, AW_INVARIANT_CRASH_LOOP, "it is in a crash loop");
    }
}

static void check_rollout(const struct change *c)
{
    if (!c->seen->rollout)
        return;
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        no_less(c, a, AW_INVARIANT_ROLLOUT, "a rollout is under way");
        if (a != AW_RESOURCE_REPLICAS || !pressed(c, a))
            no_more(c, a, AW_INVARIANT_ROLLOUT, "a rollout is under way");
    }
}

/* --- people, and the desk --------------------------------------------------------------------- */

static void check_leave(const struct change *c)
{
    struct aw__chaos *world = c->world;
    const struct aw_orders *orders = &c->decision->orders;
    const uint32_t mode = c->guard->mode;
    bool grows = c->decision->score.violated || orders->urgent;
    for (uint32_t a = 0; a < AW_RESOURCES; a++)
        grows &= !(c->set & AW_PLAN_BIT(a)) || c->to[a] > c->from[a];
    aw__chaos_must(world,
                   world->dry || grows || (world->record_asked && !world->recorded && world->kept),
                   AW_INVARIANT_UNRECORDED, c->i, "it is carried out, and %s",
                   !world->record_asked ? "nobody wrote it down"
                   : world->recorded    ? "it could not be written down"
                                        : "the store did not take what happened before");
    aw__chaos_must(world, c->w->met, AW_INVARIANT_RESTART, c->i,
                   "it has not been seen since the last start, and is changed");
    if (c->seen->answered)
        aw__chaos_must(world, c->seen->wanted[AW_RESOURCE_REPLICAS] > 0, AW_INVARIANT_PAUSED, c->i,
                       "it was scaled to zero, and is changed");
    if (c->ordered) {
        if (orders->pin.set)
            aw__chaos_must(
                world, aw__chaos_order_stands(world, orders->pin_id, orders->pin_kind, c->i),
                AW_INVARIANT_APPROVAL, c->i, "order %llu is carried out, and nobody gave it",
                (unsigned long long)orders->pin_id);
        if (orders->floor.set && orders->urgent)
            aw__chaos_must(
                world, aw__chaos_order_stands(world, orders->floor_id, AW_ORDER_EMERGENCY, c->i),
                AW_INVARIANT_APPROVAL, c->i,
                "emergency %llu is carried out, and nobody declared it",
                (unsigned long long)orders->floor_id);
        return;
    }
    aw__chaos_must(world, !world->fresh, AW_INVARIANT_RESTART, c->i,
                   "the first tick after a restart changes it");
    if (mode == AW_GUARD_OFF)
        aw__chaos_must(world, false, AW_INVARIANT_RECOMMEND_ONLY, c->i,
                       "its mode is Off, nobody ordered it, and it is changed");
    if (mode == AW_GUARD_INITIAL && c->w->sized)
        aw__chaos_must(world, !(c->set & AW_PLAN_SIZES), AW_INVARIANT_RECOMMEND_ONLY, c->i,
                       "its mode is Initial, it has been sized, and its size is changed");
    if (mode == AW_GUARD_APPROVE)
        aw__chaos_must(world, false, AW_INVARIANT_APPROVAL, c->i,
                       "it waits for approval, nobody approved, and it is changed");
    const uint32_t frozen = aw__chaos_frozen(world, c->i, c->decision->at_us);
    for (uint32_t a = 0; frozen != AW_GUARD_FREEZE_NONE && a < AW_RESOURCES; a++)
        if (c->set & AW_PLAN_BIT(a))
            aw__chaos_must(world, frozen == AW_GUARD_FREEZE_DOWN && c->to[a] >= c->from[a],
                           AW_INVARIANT_FROZEN, c->i, "%s goes from %lld to %lld, and it is frozen",
                           aw_resource_table[a].name, (long long)c->from[a], (long long)c->to[a]);
}

/* Where an amount may always be. */
static void find_home(struct change *c)
{
    const struct aw_pilot_config *pilot = &c->w->pilot;
    const struct aw_bounds *b = &pilot->bounds;
    const int64_t *low = b->min, *high = b->max;
    const int64_t node[AW_RESOURCES] = {INT64_MAX, pilot->node.cpu_millicores,
                                        pilot->node.memory_bytes};
    const int64_t floor[AW_RESOURCES] = {[AW_RESOURCE_MEMORY] = killed(c, false)};
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        c->low[a] = low[a];
        c->high[a] = most(low[a], least(high[a], node[a]));
        c->home_low[a] = least(c->high[a], most(c->low[a], c->from[a]));
        c->home_high[a] = least(c->high[a], most(c->low[a], most(c->from[a], floor[a])));
    }
}

static void check(struct aw__chaos *world, uint32_t i, const struct aw_plan *plan)
{
    struct aw__chaos_workload *w = &world->workload[i];
    const struct aw_orders *orders = &w->decision.orders;
    struct change c = {
        .world = world,
        .w = w,
        .i = i,
        .guard = &w->pilot.guard,
        .seen = &w->seen[w->seen_count - 1],
        .decision = &w->decision,
        .ordered = orders->pin.set || (orders->floor.set && orders->urgent),
        .set = plan->set,
    };
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        c.from[a] = w->real[a];
        c.to[a] = plan->set & AW_PLAN_BIT(a) ? plan->amount[a] : w->real[a];
    }
    find_home(&c);
    check_bounds(&c);
    check_leave(&c);
    check_data(&c);
    check_working_set(&c);
    check_killed(&c);
    if (!c.ordered) {
        check_step(&c);
        check_change_budget(&c);
        check_restart_budget(&c);
        check_cool_down(&c);
        check_crash_loop(&c);
        check_rollout(&c);
    }
}

void aw__chaos_check_apply(struct aw__chaos *world, uint32_t i, const struct aw_plan *plan)
{
    world->applying = true;
    check(world, i, plan);
    world->applying = false;
    if (world->recorded == AW_OK) /* else it is growth on a missed SLO, and entered later */
        aw__chaos_check_recorded(world, i, plan);
}

void aw__chaos_check_proposal(struct aw__chaos *world, uint32_t i, const struct aw_plan *plan)
{
    const struct aw__chaos_workload *w = &world->workload[i];
    struct aw_plan change = *plan;
    change.set &= aw_plan_differs(plan->amount, w->real);
    if (change.set == 0)
        return;
    world->dry = true;
    check(world, i, &change);
    world->dry = false;
}
