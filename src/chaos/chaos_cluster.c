/*
 * chaos_cluster.c - a cluster that lies: the simulated one behind a table of functions that loses,
 * delays, repeats and bends what it shows, and refuses or half does what it is told.
 *
 * One thing it never gets wrong, because no API server does: a plan that was made for another
 * version of the workload than the present one is a conflict.
 */
#include <math.h>
#include <string.h>

#include "chaos/chaos_internal.h"

#define SLOW_US_AT_MOST 4000000u
#define FIGURES         14u

/* --- what may be bent ------------------------------------------------------------------------- */

static struct aw_figure *figure(struct aw_sample *sample, uint32_t i)
{
    struct aw_figure *const all[FIGURES] = {
        &sample->cpu_cores_used,  &sample->memory_bytes_used, &sample->memory_bytes_peak,
        &sample->throttled_share, &sample->disk_bytes_per_s,  &sample->net_bytes_per_s,
        &sample->arrivals_per_s,  &sample->completions_per_s, &sample->errors_per_s,
        &sample->in_flight,       &sample->latency_us_p50,    &sample->latency_us_p95,
        &sample->latency_us_p99,  &sample->latency_us_mean,
    };
    return all[i];
}

static void shift(int64_t *time_us, int64_t by)
{
    if (*time_us != AW_NEVER)
        *time_us += by;
}

/* Every time in a sample, by so much. */
static void shift_all(struct aw_sample *sample, struct aw_pod *pods, int64_t by)
{
    sample->at_us += by;
    for (uint32_t i = 0; i < FIGURES; i++)
        shift(&figure(sample, i)->at_us, by);
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        shift(&pods[i].started_us, by);
        shift(&pods[i].ready_change_us, by);
        shift(&pods[i].cpu_cores_used.at_us, by);
        shift(&pods[i].memory_bytes_used.at_us, by);
    }
}

static void bend(struct aw__chaos *world, struct aw_sample *sample, struct aw_pod *pods,
                 uint32_t fault)
{
    static const double not_finite[] = {NAN, INFINITY, -INFINITY};
    static const double impossible[] = {1e30, 1e300, 1e9, 50};
    struct aw_rng *rng = &world->rng;
    double value = 0;
    if (fault == AW_CHAOS_NOT_FINITE)
        value = not_finite[aw_rng_below(rng, 3)];
    else if (fault == AW_CHAOS_NEGATIVE)
        value = -aw_rng_uniform(rng, 1e-6, 1e6);
    else if (fault == AW_CHAOS_IMPOSSIBLE)
        value = impossible[aw_rng_below(rng, 4)];
    const double share = aw_rng_uniform(rng, 0.1, 1);
    for (uint32_t i = 0; i < FIGURES; i++) {
        if (!aw__chaos_chance(world, share))
            continue;
        if (fault == AW_CHAOS_FIGURES_LOST)
            *figure(sample, i) = (struct aw_figure){.at_us = AW_NEVER};
        else
            figure(sample, i)->value = value;
    }
    for (uint32_t i = 0; i < sample->pod_count; i++)
        if (fault != AW_CHAOS_FIGURES_LOST && aw__chaos_chance(world, share))
            pods[i].cpu_cores_used.value = pods[i].memory_bytes_used.value = value;
}

static void lose_pods(struct aw__chaos *world, struct aw_sample *sample, struct aw_pod *pods)
{
    if (aw__chaos_chance(world, 0.3)) {
        sample->pod_count = 0;
        return;
    }
    for (uint32_t i = 0; i < sample->pod_count; i++)
        if (aw__chaos_chance(world, 0.5))
            pods[i].cpu_cores_used.at_us = pods[i].memory_bytes_used.at_us = AW_NEVER;
    if (aw__chaos_chance(world, 0.3))
        sample->pod_count = aw_rng_below(&world->rng, sample->pod_count + 1);
}

/* Figures stopped some time ago, and say so; what the API knows is of now. */
static void stop_figures(struct aw__chaos_workload *w, struct aw_sample *sample,
                         struct aw_pod *pods)
{
    if (w->frozen_figures_us == AW_NEVER)
        w->frozen_figures_us = sample->at_us;
    for (uint32_t i = 0; i < FIGURES; i++)
        if (figure(sample, i)->at_us > w->frozen_figures_us)
            figure(sample, i)->at_us = w->frozen_figures_us;
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        if (pods[i].cpu_cores_used.at_us > w->frozen_figures_us)
            pods[i].cpu_cores_used.at_us = w->frozen_figures_us;
        if (pods[i].memory_bytes_used.at_us > w->frozen_figures_us)
            pods[i].memory_bytes_used.at_us = w->frozen_figures_us;
    }
}

static void bend_all(struct aw__chaos *world, uint32_t i, struct aw_sample *sample)
{
    struct aw__chaos_workload *w = &world->workload[i];
    static const uint32_t bends[] = {AW_CHAOS_FIGURES_LOST, AW_CHAOS_NOT_FINITE, AW_CHAOS_NEGATIVE,
                                     AW_CHAOS_IMPOSSIBLE};
    for (uint32_t k = 0; k < 4; k++)
        if (aw__chaos_on(world, bends[k], i))
            bend(world, sample, w->shown_pods, bends[k]);
    if (aw__chaos_on(world, AW_CHAOS_PODS_MISSING, i))
        lose_pods(world, sample, w->shown_pods);
    if (aw__chaos_on(world, AW_CHAOS_METRICS_STALE, i))
        stop_figures(w, sample, w->shown_pods);
    else
        w->frozen_figures_us = AW_NEVER;
    if (aw__chaos_on(world, AW_CHAOS_CRASH_LOOP, i))
        sample->restarts += 1 + aw_rng_below(&world->rng, 4);
    if (aw__chaos_on(world, AW_CHAOS_ROLLOUT, i))
        sample->rollout = true;
    if (aw__chaos_on(world, AW_CHAOS_PAUSED, i))
        sample->replicas_wanted = 0;
}

/* --- observing -------------------------------------------------------------------------------- */

static void pass_time(struct aw__chaos *world)
{
    if (aw__chaos_any(world, AW_CHAOS_SLOW_API))
        world->ahead_us += aw_rng_below(&world->rng, SLOW_US_AT_MOST);
}

/* Keeps a true sample: it may come again. */
static uint32_t keep(struct aw__chaos_workload *w, const struct aw_sample *sample)
{
    const uint32_t slot = w->past_count++ % AW__CHAOS_PAST;
    w->past[slot] = *sample;
    w->past[slot].pod_count =
        sample->pod_count < AW__CHAOS_PODS_MAX ? sample->pod_count : AW__CHAOS_PODS_MAX;
    if (w->past[slot].pod_count)
        memcpy(w->past_pods[slot], sample->pods,
               w->past[slot].pod_count * sizeof *w->past_pods[slot]);
    w->past_version[slot] = w->version;
    return slot;
}

static enum aw_err observe(void *self, uint32_t i, int64_t deadline_us, struct aw_sample *ret)
{
    static const enum aw_err errors[] = {AW_ERR_UNAVAILABLE, AW_ERR_NODATA,   AW_ERR_DEADLINE,
                                         AW_ERR_IO,          AW_ERR_CONFLICT, AW_ERR_FORMAT,
                                         AW_ERR_NOTFOUND,    AW_ERR_LIMIT,    AW_ERR_INTERRUPTED};
    struct aw__chaos *world = self;
    struct aw__chaos_workload *w = &world->workload[i];
    w->observed++;
    w->asked_us = aw__chaos_now_us(world);
    aw__chaos_seam(world);
    pass_time(world);
    struct aw_sample sample;
    enum aw_err err = world->cluster.ops->observe(world->cluster.self, i, deadline_us, &sample);
    uint32_t slot = 0;
    if (!err)
        slot = keep(w, &sample);
    if (aw__chaos_on(world, AW_CHAOS_METRICS_LOST, i))
        err = AW_ERR_NODATA;
    if (aw__chaos_on(world, AW_CHAOS_OBSERVE_ERROR, i) && aw__chaos_chance(world, 0.7))
        err = errors[aw_rng_below(&world->rng, 9)];
    if (world->dead)
        err = AW_ERR_UNAVAILABLE;
    if (err) {
        aw__chaos_note_shown(world, i, NULL);
        return err;
    }
    const uint32_t kept = w->past_count < AW__CHAOS_PAST ? w->past_count : AW__CHAOS_PAST;
    uint32_t back = 0;
    if (aw__chaos_on(world, AW_CHAOS_METRICS_DELAYED, i))
        back = aw_rng_below(&world->rng, kept);
    else if (aw__chaos_on(world, AW_CHAOS_METRICS_TWICE, i) && kept > 1)
        back = 1;
    slot = (slot + AW__CHAOS_PAST - back) % AW__CHAOS_PAST;
    w->shown = w->past[slot];
    memcpy(w->shown_pods, w->past_pods[slot], w->shown.pod_count * sizeof *w->shown_pods);
    w->known_version = w->past_version[slot];
    shift_all(&w->shown, w->shown_pods, AW__CHAOS_EPOCH_US + world->figures_us);
    if (aw__chaos_on(world, AW_CHAOS_SKEW, i)) {
        const int64_t off = (int64_t)aw_rng_uniform(&world->rng, -3e8, 3e8);
        for (uint32_t k = 0; k < FIGURES; k++)
            shift(&figure(&w->shown, k)->at_us, off);
    }
    bend_all(world, i, &w->shown);
    w->shown.pods = w->shown_pods;
    aw__chaos_note_shown(world, i, &w->shown);
    *ret = w->shown;
    return AW_OK;
}

/* --- being told ------------------------------------------------------------------------------- */

/* Really, in the simulator: what it cannot take is not handed on, the invariants have seen it. */
static enum aw_err do_it(struct aw__chaos *world, uint32_t i, const struct aw_plan *plan)
{
    struct aw__chaos_workload *w = &world->workload[i];
    const int64_t most = 2 * w->pilot.bounds.replicas_max;
    if (plan->set == 0)
        return AW_OK;
    if ((plan->set & AW_PLAN_REPLICAS) && plan->replicas > most)
        return AW_ERR_RANGE;
    for (uint32_t a = 0; a < AW_RESOURCES; a++)
        if ((plan->set & AW_PLAN_BIT(a)) && plan->amount[a] <= 0)
            return AW_ERR_RANGE;
    const enum aw_err err = world->cluster.ops->apply(world->cluster.self, i, plan, INT64_MAX);
    if (err)
        return err;
    bool changed = false;
    for (uint32_t a = 0; a < AW_RESOURCES; a++)
        if (plan->set & AW_PLAN_BIT(a)) {
            changed |= w->real[a] != plan->amount[a];
            w->real[a] = plan->amount[a];
        }
    w->version += changed;
    return AW_OK;
}

void aw__chaos_interfere(struct aw__chaos *world, uint32_t i, const int64_t *amount)
{
    struct aw_plan plan = {0};
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        plan.amount[a] = amount[a];
        plan.set |= amount[a] > 0 ? AW_PLAN_BIT(a) : 0;
    }
    const enum aw_err err = do_it(world, i, &plan);
    aw__chaos_say(world, "  %s: someone asks for %lld x %lld m, %lld MiB: %s",
                  world->workload[i].pilot.name, (long long)plan.replicas,
                  (long long)plan.cpu_millicores, (long long)(plan.memory_bytes >> 20),
                  aw_err_name(err));
}

static enum aw_err apply(void *self, uint32_t i, const struct aw_plan *plan, int64_t deadline_us)
{
    static const enum aw_err errors[] = {AW_ERR_UNAVAILABLE, AW_ERR_DEADLINE, AW_ERR_IO,
                                         AW_ERR_CONFLICT,    AW_ERR_LIMIT,    AW_ERR_NOTFOUND};
    struct aw__chaos *world = self;
    struct aw__chaos_workload *w = &world->workload[i];
    (void)deadline_us;
    w->applied++;
    aw__chaos_digest(world, &plan->set, sizeof plan->set);
    aw__chaos_seam(world);
    if (world->dead)
        return AW_ERR_UNAVAILABLE;
    pass_time(world);
    if (aw__chaos_on(world, AW_CHAOS_SOMEBODY, i) && aw__chaos_chance(world, 0.5))
        w->version++; /* in the last moment */
    if (w->known_version != w->version)
        return AW_ERR_CONFLICT;
    aw__chaos_check_apply(world, i, plan);
    world->result->changes++;
    if (aw__chaos_on(world, AW_CHAOS_APPLY_ERROR, i))
        return errors[aw_rng_below(&world->rng, 6)];
    if (aw__chaos_on(world, AW_CHAOS_APPLY_LATE, i)) {
        const enum aw_err err = do_it(world, i, plan);
        return err ? err : AW_ERR_DEADLINE;
    }
    if (aw__chaos_on(world, AW_CHAOS_APPLY_PARTIAL, i)) {
        struct aw_plan part = *plan;
        part.set &= 1 + aw_rng_below(&world->rng, 7);
        const enum aw_err err = do_it(world, i, &part);
        /* half of the time nobody says so */
        if (err || aw__chaos_chance(world, 0.5))
            return err ? err : AW_ERR_UNAVAILABLE;
        aw__chaos_note_applied(world, i, plan);
        return AW_OK;
    }
    const enum aw_err err = do_it(world, i, plan);
    if (!err) {
        w->known_version = w->version;
        aw__chaos_note_applied(world, i, plan);
    }
    return err;
}

static uint32_t capabilities(const void *self)
{
    const struct aw__chaos *world = self;
    return world->cluster.ops->capabilities(world->cluster.self);
}

static enum aw_err advance(void *self, int64_t until_us)
{
    (void)self;
    (void)until_us;
    return AW_ERR_UNSUPPORTED; /* time is the world's, not the loop's */
}

static int64_t now_us(const void *self)
{
    return aw__chaos_now_us(self);
}

static void free_nothing(void *self)
{
    (void)self;
}

struct aw_cluster aw__chaos_cluster(struct aw__chaos *world)
{
    static const struct aw_cluster_ops ops = {
        .name = "chaos",
        .capabilities = capabilities,
        .observe = observe,
        .apply = apply,
        .advance = advance,
        .now_us = now_us,
        .free = free_nothing,
    };
    return (struct aw_cluster){.ops = &ops, .self = world};
}
