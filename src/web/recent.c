/* recent.c - rings of what lately happened, filled after every tick. */
#include "web/recent.h"

#include "base/alloc.h"
#include "control/pilot.h"
#include "safety/limits.h"

#include <math.h>
#include <string.h>

#define HOUR_S 3600.0

const char *const aw_recent_outcome_names[] = {
#define X(id, name) name,
    AW_RECENT_OUTCOME_MAP(X)
#undef X
};

/* --- made and ended --------------------------------------------------------------------------- */

enum aw_err aw_recent_init(struct aw_recent *watch, double step_s, const struct aw_alloc *alloc)
{
    *watch = (struct aw_recent){.alloc = alloc, .step_s = step_s};
    watch->fleet = aw_alloc_new(alloc, AW_RECENT_FLEET_MAX, sizeof *watch->fleet);
    if (!watch->fleet)
        return AW_ERR_NOMEM;
    if (pthread_mutex_init(&watch->lock, NULL)) {
        aw_alloc_free(alloc, watch->fleet);
        *watch = (struct aw_recent){0};
        return AW_ERR_NOMEM;
    }
    watch->made = true;
    return AW_OK;
}

void aw_recent_deinit(struct aw_recent *watch)
{
    if (!watch->made)
        return;
    aw_alloc_free(watch->alloc, watch->episode);
    aw_alloc_free(watch->alloc, watch->point);
    aw_alloc_free(watch->alloc, watch->one);
    aw_alloc_free(watch->alloc, watch->fleet);
    pthread_mutex_destroy(&watch->lock);
    *watch = (struct aw_recent){0};
}

static uint32_t clamp(size_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : (uint32_t)value;
}

/* The newest that fit, into another ring. A ring keeps entry i of all time at i % max. */
static void ring_copy(void *to, uint32_t to_max, const void *from, uint32_t from_max,
                      uint64_t count, size_t size)
{
    const uint64_t kept = count < from_max ? count : from_max;
    const uint64_t copied = kept < to_max ? kept : to_max;
    for (uint64_t i = count - copied; i < count; i++)
        memcpy((char *)to + (i % to_max) * size, (const char *)from + (i % from_max) * size, size);
}

bool aw__recent_room(struct aw_recent *watch, uint32_t slots)
{
    if (slots <= watch->max)
        return true;
    /* a quarter of the bytes is for episodes */
    const uint32_t points = clamp(AW_RECENT_BYTES_MAX / 4 * 3 / slots / sizeof *watch->point,
                                  AW_RECENT_POINTS_MIN, AW_RECENT_POINTS_MAX);
    const uint32_t episodes = clamp(AW_RECENT_BYTES_MAX / 4 / slots / sizeof *watch->episode,
                                    AW_RECENT_EPISODES_MIN, AW_RECENT_EPISODES_MAX);
    struct aw_recent_one *one = aw_alloc_new(watch->alloc, slots, sizeof *one);
    struct aw_recent_point *point =
        aw_alloc_new(watch->alloc, (size_t)slots * points, sizeof *point);
    struct aw_recent_episode *episode =
        aw_alloc_new(watch->alloc, (size_t)slots * episodes, sizeof *episode);
    if (!one || !point || !episode) {
        aw_alloc_free(watch->alloc, episode);
        aw_alloc_free(watch->alloc, point);
        aw_alloc_free(watch->alloc, one);
        return false;
    }
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct aw_recent_one *old = &watch->one[i];
        one[i] = *old;
        ring_copy(&point[(size_t)old->ring * points], points,
                  &watch->point[(size_t)old->ring * watch->points_max], watch->points_max,
                  old->point_count, sizeof *point);
        ring_copy(&episode[(size_t)old->ring * episodes], episodes,
                  &watch->episode[(size_t)old->ring * watch->episodes_max], watch->episodes_max,
                  old->episode_count, sizeof *episode);
    }
    aw_alloc_free(watch->alloc, watch->episode);
    aw_alloc_free(watch->alloc, watch->point);
    aw_alloc_free(watch->alloc, watch->one);
    watch->one = one;
    watch->point = point;
    watch->episode = episode;
    watch->max = slots;
    watch->points_max = points;
    watch->episodes_max = episodes;
    for (uint32_t i = watch->count; i < slots; i++)
        one[i].ring = i;
    watch->count = slots;
    return true;
}

/* Slots follow the desk's. After a reload a name may have moved: its past moves with it, and
 * whoever was in its place goes where it came from, to be found there in turn. */
static struct aw_recent_one *seat_of(struct aw_recent *watch, uint32_t index, const char *name)
{
    struct aw_recent_one *one = &watch->one[index];
    if (strcmp(one->name, name) == 0)
        return one;
    uint32_t from = index + 1;
    while (from < watch->named && strcmp(watch->one[from].name, name) != 0)
        from++;
    const bool found = from < watch->named;
    if (!found)
        from = watch->named; /* an empty one, where there is one left */
    if (found || (from < watch->count && *one->name)) {
        const struct aw_recent_one other = watch->one[from];
        watch->one[from] = *one;
        *one = other;
        watch->named += !found;
    }
    if (found)
        return one;
    *one = (struct aw_recent_one){.ring = one->ring};
    snprintf(one->name, sizeof one->name, "%s", name);
    if (index >= watch->named)
        watch->named = index + 1;
    return one;
}

/* --- a tick ----------------------------------------------------------------------------------- */

void aw_recent_twin(struct aw_recent *watch, uint32_t index, const struct aw_recent_twin *twin)
{
    aw_recent_lock(watch);
    if (index < watch->count) {
        watch->one[index].twin_next = *twin;
        watch->one[index].twin_next.there = true;
    }
    aw_recent_unlock(watch);
}

static enum aw_recent_outcome outcome_of(const struct aw_decision *d)
{
    static const uint32_t none = AW_CLIP_BIT(AW_CLIP_DEADBAND);
    const struct aw_guard_result *guard = &d->guard;
    if (guard->plan.set)
        return d->applied ? AW_RECENT_APPLIED : AW_RECENT_FAILED;
    if (guard->clips & AW_CLIP_BIT(AW_CLIP_UNRECORDED))
        return AW_RECENT_UNRECORDED;
    if (guard->recommended.set)
        return AW_RECENT_RECOMMENDED;
    return guard->clips & ~none ? AW_RECENT_HELD : AW_RECENT_UNCHANGED;
}

static float f32(double value)
{
    return (float)value;
}

static double cost_of(const struct aw_pilot_config *config, struct aw_plan plan, int64_t most)
{
    plan.replicas = plan.replicas < most ? plan.replicas : most;
    return aw_prices_per_hour(&config->prices, &plan);
}

void aw_recent_costs(const struct aw_pilot_config *config, const struct aw_decision *decision,
                     const struct aw_plan *present, double *ret_cost, double *ret_fallback)
{
    /* a pod without a node costs nothing; where some wait, more of them would wait too */
    const struct aw_reading *reading = &decision->reading;
    const int64_t waits = decision->answered ? reading->replicas_pending : 0;
    const int64_t there = reading->replicas_wanted - waits, most = waits > 0 ? there : INT64_MAX;
    *ret_cost = cost_of(config, *present, most);
    *ret_fallback = cost_of(config, aw_plan_over(&decision->by_fallback, present), most);
}

static uint16_t u16(int64_t value)
{
    return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}

static void point_fill(struct aw_recent_point *p, const struct aw_desk_view *view,
                       const struct aw_recent_one *one)
{
    const struct aw_decision *d = view->decision;
    const struct aw_recent_twin *twin = &one->twin;
    struct aw_plan present = aw_explanation_before(d);
    if (d->applied)
        present = aw_plan_over(&d->guard.plan, &present);
    const struct aw_plan fallback = aw_plan_over(&d->by_fallback, &present);
    double cost, fallback_cost;
    aw_recent_costs(view->config, d, &present, &cost, &fallback_cost);
    *p = (struct aw_recent_point){
        .at_us = d->at_us,
        .arrivals_per_s = f32(d->reading.arrivals_per_s),
        .latency_us = f32(d->score.latency_us_slo),
        .cpu_used = f32(d->reading.cpu_utilisation),
        .memory_used = f32(d->reading.memory_utilisation),
        .cpu_millicores = f32((double)present.cpu_millicores),
        .memory_bytes = f32((double)present.memory_bytes),
        .cost_per_hour = f32(cost),
        .fallback_cost_per_hour = f32(fallback_cost),
        .reward = d->answered ? f32(d->score.paper_reward) : NAN,
        .twin_cost_per_hour = twin->there ? f32(twin->cost_per_hour) : NAN,
        .twin_latency_us = twin->there ? f32(twin->latency_us) : NAN,
        .twin_reward = twin->there ? f32(twin->reward) : NAN,
        .clips = d->guard.clips,
        .ready = u16(d->reading.replicas_ready),
        .wanted = u16(present.replicas),
        .fallback_replicas = u16(fallback.replicas),
        .twin_replicas = u16(twin->replicas),
        .stage = (uint8_t)d->stage,
        .actor = (uint8_t)d->actor,
        .outcome = (uint8_t)outcome_of(d),
    };
    p->flags =
        (uint8_t)((d->score.violated ? AW_RECENT_MISSED : 0) | (twin->there ? AW_RECENT_TWIN : 0) |
                  (twin->there && twin->missed ? AW_RECENT_TWIN_MISSED : 0) |
                  (d->orders.freeze == AW_GUARD_FREEZE_DOWN ? AW_RECENT_FROZEN_DOWN : 0) |
                  (d->orders.freeze == AW_GUARD_FREEZE_ALL ? AW_RECENT_FROZEN_ALL : 0) |
                  (d->answered ? 0 : AW_RECENT_UNANSWERED) |
                  (d->verdict == AW_WATCHDOG_TRIPPED ? AW_RECENT_TRIPPED : 0) |
                  (d->verdict != AW_WATCHDOG_PASS ? AW_RECENT_WATCHED : 0));
}

static void add_finite(float *sum, float value)
{
    if (isfinite(value))
        *sum += value;
}

/* A step counts for the episode of the decision that ended it, which the store does too but for
 * the first step of each. */
static void episode_add(struct aw_recent *watch, struct aw_recent_one *one,
                        const struct aw_recent_point *p, const struct aw_decision *d)
{
    struct aw_recent_episode *e = &one->open;
    const float hours = f32(watch->step_s / HOUR_S);
    if (e->steps && e->number != d->episode) {
        watch->episode[(size_t)one->ring * watch->episodes_max +
                       one->episode_count++ % watch->episodes_max] = *e;
        *e = (struct aw_recent_episode){0};
    }
    e->number = d->episode;
    e->steps++;
    e->end_us = d->at_us;
    e->policy_id = d->policy_id;
    e->missed += (p->flags & AW_RECENT_MISSED) != 0;
    e->agent_steps += d->actor == AW_ACTOR_AGENT || d->actor == AW_ACTOR_EXPLORING;
    e->twin_steps += (p->flags & AW_RECENT_TWIN) != 0;
    e->twin_missed += (p->flags & AW_RECENT_TWIN_MISSED) != 0;
    add_finite(&e->reward, p->reward);
    add_finite(&e->twin_reward, p->twin_reward);
    add_finite(&e->cost, f32(d->score.cost));
    add_finite(&e->twin_cost, p->twin_cost_per_hour * hours);
    e->estimate = f32(d->estimate.mean);
    e->low = f32(d->estimate.low);
    e->high = f32(d->estimate.high);
    e->judged = f32(d->stay.mean);
    e->judged_deviation = f32(d->stay.std);
    e->threshold = f32(d->stay.threshold);
    e->lambda = f32(d->lambda);
    e->critic_loss = f32(one->learned.critic_loss);
    e->imitation_loss = f32(one->learned.imitation_loss);
    e->copy_error = f32(one->learned.copy_error);
    e->rounds = one->learned.rounds;
    e->stage = d->stage;
}

static void sum_add(double *sum, double value)
{
    if (isfinite(value))
        *sum += value;
}

static void one_count(struct aw_recent *watch, struct aw_recent_one *one,
                      const struct aw_recent_point *p, const struct aw_decision *d)
{
    const double hours = watch->step_s / HOUR_S;
    one->steps++;
    one->missed += (p->flags & AW_RECENT_MISSED) != 0;
    const uint32_t turn =
        p->wanted ? aw_replica_track_step(&one->track, p->wanted, p->at_us) : AW_TURN_NONE;
    one->replica_changes += (turn & AW_TURN_CHANGE) != 0;
    one->taken_back += (turn & AW_TURN_REMOVED) != 0;
    one->outcomes[p->outcome]++;
    one->model_changes += one->policy_id != d->policy_id && one->steps > 1;
    one->stage_changes += d->moved;
    one->policy_id = d->policy_id;
    one->estimate = d->estimate;
    one->lambda = d->lambda;
    sum_add(&one->reward, p->reward);
    sum_add(&one->cost, d->score.cost);
    if (p->flags & AW_RECENT_TWIN) {
        struct aw_recent_beside *beside = &one->beside;
        beside->steps++;
        beside->missed += (p->flags & AW_RECENT_MISSED) != 0;
        beside->twin_missed += (p->flags & AW_RECENT_TWIN_MISSED) != 0;
        sum_add(&beside->reward, p->reward);
        sum_add(&beside->cost, d->score.cost);
        sum_add(&beside->twin_reward, p->twin_reward);
        sum_add(&beside->twin_cost, p->twin_cost_per_hour * hours);
    }
    watch->decisions[d->actor][p->outcome]++;
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++)
        watch->clips[c] += (p->clips & AW_CLIP_BIT(c)) != 0;
    if (d->verdict == AW_WATCHDOG_TRIPPED)
        watch->trips[d->watchdog.cause]++;
    if (d->moved)
        watch->stages[d->stage]++;
}

static float plus(float sum, float value)
{
    return isnan(value) ? sum : isnan(sum) ? value : sum + value;
}

/* Sums of what is known; a mean is made of its sum when all are counted. */
static void fleet_add(struct aw_recent_fleet *f, const struct aw_recent_point *p, uint32_t *used)
{
    f->at_us = p->at_us > f->at_us || !f->total ? p->at_us : f->at_us;
    f->total++;
    f->stage[p->stage]++;
    f->missing += (p->flags & AW_RECENT_MISSED) != 0;
    f->twin_missing += (p->flags & AW_RECENT_TWIN_MISSED) != 0;
    f->with_twin += (p->flags & AW_RECENT_TWIN) != 0;
    f->frozen += (p->flags & (AW_RECENT_FROZEN_DOWN | AW_RECENT_FROZEN_ALL)) != 0;
    f->held += (p->flags & AW_RECENT_WATCHED) != 0;
    f->changes += p->outcome == AW_RECENT_APPLIED;
    f->cost_per_hour = plus(f->cost_per_hour, p->cost_per_hour);
    f->fallback_cost_per_hour = plus(f->fallback_cost_per_hour, p->fallback_cost_per_hour);
    f->twin_cost_per_hour = plus(f->twin_cost_per_hour, p->twin_cost_per_hour);
    f->arrivals_per_s = plus(f->arrivals_per_s, p->arrivals_per_s);
    if (isfinite(p->cpu_used) && isfinite(p->memory_used)) {
        f->cpu_used = plus(f->cpu_used, p->cpu_used);
        f->memory_used = plus(f->memory_used, p->memory_used);
        ++*used;
    }
}

static void one_tick(struct aw_recent *watch, struct aw_recent_one *one,
                     const struct aw_desk_view *view, struct aw_recent_fleet *fleet, uint32_t *used)
{
    const struct aw_pilot_config *config = view->config;
    const struct aw_decision *d = view->decision;
    struct aw_limits limits;
    one->seen = true;
    one->mode = config->guard.mode;
    one->agent = config->agent;
    one->learning = config->learning;
    one->replica_count_max = (uint32_t)config->bounds.replicas_max;
    one->slo_latency_us = config->slo.latency_us_p99 > 0 ? config->slo.latency_us_p99 : NAN;
    one->slo_budget = config->slo_budget;
    one->has_slo = config->slo.latency_us_p99 > 0 || config->slo.throughput_per_s > 0;
    if (d->at_us == AW_NEVER)
        return;
    one->pending = d->answered ? aw_pilot_sample(view->pilot)->replicas_pending : 0;
    fleet->pending += one->pending;
    aw_pilot_limits(view->pilot, d->at_us, &limits);
    one->recent_steps = limits.slo_steps;
    one->recent_missed = limits.slo_missed;
    one->learned = *aw_pilot_learned(view->pilot);
    struct aw_recent_point *p = &watch->point[(size_t)one->ring * watch->points_max +
                                              one->point_count++ % watch->points_max];
    point_fill(p, view, one);
    one_count(watch, one, p, d);
    episode_add(watch, one, p, d);
    fleet_add(fleet, p, used);
    one->twin = one->twin_next; /* that ends with the next tick */
    one->twin_next = (struct aw_recent_twin){0};
}

void aw_recent_tick(struct aw_recent *watch, struct aw_desk *desk)
{
    struct aw_recent_fleet fleet = {.cost_per_hour = NAN,
                                    .fallback_cost_per_hour = NAN,
                                    .twin_cost_per_hour = NAN,
                                    .arrivals_per_s = NAN,
                                    .cpu_used = NAN,
                                    .memory_used = NAN};
    uint32_t used = 0;
    aw_desk_lock(desk);
    aw_recent_lock(watch);
    const uint32_t slots = aw_desk_count(desk);
    const bool room = aw__recent_room(watch, slots);
    watch->ticks++;
    watch->dropped += !room;
    for (uint32_t i = 0; i < watch->count; i++)
        watch->one[i].seen = watch->one[i].loaded = false;
    for (uint32_t i = 0; room && i < slots; i++) {
        struct aw_desk_view view;
        if (!aw_desk_has(desk, i))
            continue;
        aw_desk_peek(desk, i, &view);
        struct aw_recent_one *one = seat_of(watch, i, view.name);
        one->learns_now = aw_desk_loop(desk) && aw_loop_learns(aw_desk_loop(desk), i);
        one_tick(watch, one, &view, &fleet, &used);
    }
    aw_desk_unlock(desk);
    if (fleet.total) {
        fleet.cpu_used /= (float)used;
        fleet.memory_used /= (float)used;
        watch->fleet[watch->fleet_count++ % AW_RECENT_FLEET_MAX] = fleet;
    }
    aw_recent_unlock(watch);
}

/* --- looking ---------------------------------------------------------------------------------- */

void aw_recent_lock(struct aw_recent *watch)
{
    pthread_mutex_lock(&watch->lock);
}

void aw_recent_unlock(struct aw_recent *watch)
{
    pthread_mutex_unlock(&watch->lock);
}

static uint32_t kept(uint64_t count, uint32_t max)
{
    return count < max ? (uint32_t)count : max;
}

uint32_t aw_recent_points(const struct aw_recent *watch, const struct aw_recent_one *one)
{
    return kept(one->point_count, watch->points_max);
}

const struct aw_recent_point *aw_recent_point(const struct aw_recent *watch,
                                              const struct aw_recent_one *one, uint32_t nth)
{
    const uint64_t index = one->point_count - aw_recent_points(watch, one) + nth;
    AW_ASSERT(index < one->point_count);
    return &watch->point[(size_t)one->ring * watch->points_max + index % watch->points_max];
}

uint32_t aw_recent_episodes(const struct aw_recent *watch, const struct aw_recent_one *one)
{
    return kept(one->episode_count, watch->episodes_max);
}

const struct aw_recent_episode *aw_recent_episode(const struct aw_recent *watch,
                                                  const struct aw_recent_one *one, uint32_t nth)
{
    const uint64_t index = one->episode_count - aw_recent_episodes(watch, one) + nth;
    AW_ASSERT(index < one->episode_count);
    return &watch->episode[(size_t)one->ring * watch->episodes_max + index % watch->episodes_max];
}

uint32_t aw_recent_fleets(const struct aw_recent *watch)
{
    return kept(watch->fleet_count, AW_RECENT_FLEET_MAX);
}

const struct aw_recent_fleet *aw_recent_fleet(const struct aw_recent *watch, uint32_t nth)
{
    const uint64_t index = watch->fleet_count - aw_recent_fleets(watch) + nth;
    AW_ASSERT(index < watch->fleet_count);
    return &watch->fleet[index % AW_RECENT_FLEET_MAX];
}

const struct aw_recent_one *aw_recent_find(const struct aw_recent *watch, const char *name)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->one[i].seen && strcmp(watch->one[i].name, name) == 0)
            return &watch->one[i];
    return NULL;
}

double aw_recent_saved(const struct aw_recent_beside *beside, double cost_per_hour,
                       double fallback_cost_per_hour)
{
    if (beside && beside->twin_cost > 0)
        return 1 - beside->cost / beside->twin_cost;
    return fallback_cost_per_hour > 0 ? 1 - cost_per_hour / fallback_cost_per_hour : NAN;
}

double aw_recent_changes(const struct aw_recent *watch, const struct aw_recent_one *one,
                         uint64_t *ret_back)
{
    uint64_t changes = 0, steps = 0;
    const uint32_t from = one ? (uint32_t)(one - watch->one) : 0;
    *ret_back = 0;
    for (uint32_t i = from; i < (one ? from + 1 : watch->count); i++) {
        const struct aw_recent_one *each = &watch->one[i];
        if (!each->seen)
            continue;
        changes += each->replica_changes;
        *ret_back += each->taken_back;
        steps += each->steps;
    }
    return steps ? 24 * HOUR_S * (double)changes / ((double)steps * watch->step_s) : NAN;
}

void aw_recent_beside(const struct aw_recent *watch, struct aw_recent_beside *ret)
{
    *ret = (struct aw_recent_beside){0};
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct aw_recent_one *one = &watch->one[i];
        if (!one->seen)
            continue;
        ret->steps += one->beside.steps;
        ret->missed += one->beside.missed;
        ret->twin_missed += one->beside.twin_missed;
        ret->reward += one->beside.reward;
        ret->cost += one->beside.cost;
        ret->twin_reward += one->beside.twin_reward;
        ret->twin_cost += one->beside.twin_cost;
    }
}
