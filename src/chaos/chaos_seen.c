/* chaos_seen.c - the history of a workload as the loop was shown it, and what must hold of every
 * decision, whether it changes something or not. */
#include <math.h>
#include <string.h>

#include "chaos/chaos_internal.h"
#include "control/pilot_peek.h"
#include "policy/capacity.h"

#define BELIEVED_MAX         1e15   /* beyond it no figure can be meant */
#define STRANGE_LOAD         2.0    /* times the highest load that a capacity rule was tried on */
#define FALLBACK_STEPS       4000.0 /* over which its violations fade */
#define FALLBACK_STEPS_LEAST 100.0

/* --- what was shown --------------------------------------------------------------------------- */

static struct aw_pilot_peek peek(const struct aw__chaos *world, uint32_t i)
{
    struct aw_pilot_peek seen;
    aw_pilot_peek(aw_loop_pilot(world->loop, i), &seen);
    return seen;
}

static double believed(const struct aw_figure *figure, int64_t now_us, double stale_s)
{
    const double age_s = 1e-6 * ((double)now_us - (double)figure->at_us);
    const bool usable = figure->at_us != AW_NEVER && age_s <= stale_s && isfinite(figure->value) &&
                        figure->value >= 0 && figure->value < BELIEVED_MAX;
    return usable ? figure->value : (double)NAN;
}

static double age_of(const struct aw_figure *figure, int64_t now_us)
{
    return figure->at_us == AW_NEVER ? (double)INFINITY
                                     : 1e-6 * ((double)now_us - (double)figure->at_us);
}

void aw__chaos_note_shown(struct aw__chaos *world, uint32_t i, const struct aw_sample *sample)
{
    struct aw__chaos_workload *w = &world->workload[i];
    if (w->seen_count > world->steps)
        return;
    struct aw__chaos_seen *seen = &w->seen[w->seen_count++];
    const double none = (double)NAN;
    *seen = (struct aw__chaos_seen){.tick = world->tick,
                                    .cores = none,
                                    .bytes = none,
                                    .arrivals = none,
                                    .oldest_age_s = (double)INFINITY};
    if (!sample)
        return;
    const int64_t now = w->asked_us;
    const double stale = w->pilot.stale_s;
    seen->answered = true;
    w->met = true;
    seen->rollout = sample->rollout;
    seen->kills = sample->oom_kills;
    seen->restarts = sample->restarts;
    seen->ready = sample->replicas_ready;
    memcpy(seen->wanted, sample->wanted, sizeof seen->wanted);
    seen->cores = believed(&sample->cpu_cores_used, now, stale);
    seen->bytes = fmax(believed(&sample->memory_bytes_used, now, stale),
                       believed(&sample->memory_bytes_peak, now, stale));
    seen->arrivals = believed(&sample->arrivals_per_s, now, stale);
    const double memory = believed(&sample->memory_bytes_used, now, stale);
    if (!isnan(seen->cores) && !isnan(memory) && !isnan(seen->arrivals))
        seen->oldest_age_s =
            fmax(age_of(&sample->cpu_cores_used, now), fmax(age_of(&sample->memory_bytes_used, now),
                                                            age_of(&sample->arrivals_per_s, now)));
}

/* --- what was decided on it ------------------------------------------------------------------- */

static void note_change(struct aw__chaos_workload *w, uint32_t tick, bool replicas, bool size)
{
    if ((!replicas && !size) || w->change_count == AW__CHAOS_CHANGES_MAX)
        return;
    w->change[w->change_count++] = (struct aw__chaos_change){
        .t_us = w->t_us, .tick = tick, .replicas = replicas, .size = size};
}

/* Amounts are `next` from now on as far as the loop knows; 0: it does not say. */
static void believe(struct aw__chaos *world, struct aw__chaos_workload *w, const int64_t *next)
{
    uint32_t changed = 0;
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        if (next[a] > 0 && w->belief[a] > 0 && next[a] != w->belief[a])
            changed |= AW_PLAN_BIT(a);
        w->belief[a] = next[a] > 0 ? next[a] : w->belief[a];
    }
    note_change(w, world->tick, changed & AW_PLAN_REPLICAS, changed & AW_PLAN_SIZES);
}

void aw__chaos_note_decided(struct aw__chaos *world, uint32_t i, const struct aw_decision *decision)
{
    struct aw__chaos_workload *w = &world->workload[i];
    const int64_t now = decision->at_us;
    w->decided++;
    w->decision = *decision;
    w->has_decision = true;
    if (w->last_now_us != AW_NEVER && now > w->last_now_us)
        w->t_us += now - w->last_now_us;
    w->last_now_us = now;
    if (now > world->now_max_us)
        world->now_max_us = now;
    struct aw__chaos_seen *seen = &w->seen[w->seen_count - 1];
    seen->t_us = w->t_us;
    believe(world, w, seen->wanted);
    memcpy(seen->after, w->belief, sizeof seen->after);
}

void aw__chaos_note_applied(struct aw__chaos *world, uint32_t i, const struct aw_plan *plan)
{
    struct aw__chaos_workload *w = &world->workload[i];
    int64_t next[AW_RESOURCES];
    for (uint32_t a = 0; a < AW_RESOURCES; a++)
        next[a] = plan->set & AW_PLAN_BIT(a) ? plan->amount[a] : 0;
    believe(world, w, next);
    w->sized = w->sized || (plan->set & AW_PLAN_SIZES);
    memcpy(w->seen[w->seen_count - 1].after, w->belief, sizeof w->belief);
}

void aw__chaos_note_restart(struct aw__chaos *world, bool state_kept)
{
    for (uint32_t i = 0; i < world->count; i++) {
        struct aw__chaos_workload *w = &world->workload[i];
        for (uint32_t k = 0; k < w->seen_count; k++)
            w->seen[k].forgotten |= !state_kept || w->seen[k].tick >= world->save_tick;
        for (uint32_t k = 0; k < w->change_count; k++)
            w->change[k].forgotten |= !state_kept || w->change[k].tick >= world->save_tick;
        memset(w->belief, 0, sizeof w->belief);
        w->sized = state_kept && w->sized_saved;
        if (state_kept)
            w->promise = w->promise_saved;
        else
            w->promise = (struct aw__chaos_promise){.actor = AW_ACTOR_NOBODY};
        w->promise.actor = AW_ACTOR_NOBODY; /* what was in flight is nobody's step */
        w->has_decision = w->met = false;
    }
}

/* --- what must hold of every decision --------------------------------------------------------- */

static bool is_agent(uint32_t actor)
{
    return actor == AW_ACTOR_AGENT || actor == AW_ACTOR_EXPLORING;
}

static void check_clips(struct aw__chaos *world, uint32_t i, const struct aw_decision *decision)
{
    const struct aw_guard_result *guard = &decision->guard;
    const struct aw_plan wanted = aw_plan_of(decision->reading.wanted);
    const struct aw_plan proposed = aw_plan_over(&guard->proposed, &wanted);
    const struct aw_plan plan = aw_plan_over(&guard->plan, &wanted);
    for (uint32_t a = 0; a < AW_RESOURCES; a++) {
        const int64_t asked = proposed.amount[a], got = plan.amount[a];
        if (asked != got)
            aw__chaos_must(world, guard->axis_clips[a] != 0, AW_INVARIANT_CLIP_NAMED, i,
                           "%s: %lld was proposed, %lld came out, and no rail has its name on it",
                           aw_resource_table[a].name, (long long)asked, (long long)got);
    }
}

/* Who may act. */
static void check_actor(struct aw__chaos *world, uint32_t i, const struct aw_decision *decision)
{
    const struct aw__chaos_workload *w = &world->workload[i];
    const struct aw__chaos_seen *seen = &w->seen[w->seen_count - 1];
    const bool agent = is_agent(decision->actor);
    if (w->poisoned && decision->stage >= AW_STAGE_ONLINE)
        aw__chaos_must(world, !agent, AW_INVARIANT_NOT_FINITE, i,
                       "its policy is not a number, and it acts");
    if (!(seen->oldest_age_s <= w->pilot.stale_s) && decision->stage >= AW_STAGE_ONLINE)
        aw__chaos_must(world, !agent, AW_INVARIANT_STRANGE, i,
                       "the agent acts on figures that are %g s old, %g s are allowed",
                       seen->oldest_age_s, w->pilot.stale_s);
    const double took_s = 1e-6 * (double)w->answer_us;
    if (!aw_policy_ops_of(w->pilot.agent)->elsewhere && took_s > w->pilot.watchdog.deadline &&
        decision->stage >= AW_STAGE_ONLINE)
        aw__chaos_must(world, !agent, AW_INVARIANT_STRANGE, i,
                       "the agent acts on an answer that took %g s, %g s are allowed", took_s,
                       w->pilot.watchdog.deadline);
    const struct aw_capacity *capacity =
        aw_capacity_of(aw_pilot_in_force(aw_loop_pilot(world->loop, i)));
    const double known = capacity ? capacity->memory.rehearsed_load : 0;
    if (known > 0 && seen->arrivals > STRANGE_LOAD * known * 1.000001)
        aw__chaos_must(world, !agent, AW_INVARIANT_STRANGE, i,
                       "the agent acts on a load of %g/s and has been tried on %g/s at most",
                       seen->arrivals, known);
}

/* Over any window of its steps the agent misses the SLO no more often than was promised. */
static void check_promise(struct aw__chaos *world, uint32_t i, const struct aw_decision *decision)
{
    struct aw__chaos_workload *w = &world->workload[i];
    struct aw__chaos_promise *promise = &w->promise;
    const struct aw_watchdog_settings *dog = &w->pilot.watchdog;
    const struct aw__chaos_seen *seen = &w->seen[w->seen_count - 1];
    const bool slo = w->pilot.slo.latency_us_p99 > 0;
    const bool missed = slo && decision->score.violated;
    const bool known = missed || !slo || !isnan(seen->arrivals);
    if (!peek(world, i).finished) /* nobody knows what came of it */
        promise->actor = AW_ACTOR_NOBODY;
    if (is_agent(promise->actor)) {
        promise->acted++;
        if (promise->acted > dog->grace && known)
            promise->missed[promise->count++] = missed;
    } else if (promise->actor != AW_ACTOR_NOBODY && promise->actor != AW_ACTOR_PERSON) {
        promise->acted = 0;
        if (known) {
            const double fade = 1 - 1 / FALLBACK_STEPS;
            promise->fallback_steps = fade * promise->fallback_steps + 1;
            promise->fallback_missed = fade * promise->fallback_missed + missed;
        }
    }
    const bool held = decision->verdict != AW_WATCHDOG_PASS;
    if (promise->held && !held)
        promise->count = promise->acted = 0;
    promise->held = held;
    promise->actor = decision->actor;
    double share = w->pilot.slo_budget;
    if (promise->fallback_steps >= FALLBACK_STEPS_LEAST)
        share =
            fmax(share, dog->fallback_factor * promise->fallback_missed / promise->fallback_steps);
    const double limit = share * dog->window + dog->slack;
    uint32_t sum = 0;
    for (uint32_t k = promise->count > dog->window ? promise->count - dog->window : 0;
         k < promise->count; k++)
        sum += promise->missed[k];
    if (is_agent(decision->actor) && sum > 0)
        aw__chaos_must(world, sum <= limit, AW_INVARIANT_WATCHDOG, i,
                       "the agent acts after %u missed steps of its last %u, %g are allowed", sum,
                       promise->count < dog->window ? promise->count : dog->window, limit);
}

void aw__chaos_check_decision(struct aw__chaos *world, uint32_t i,
                              const struct aw_decision *decision)
{
    check_clips(world, i, decision);
    check_actor(world, i, decision);
    if (world->exchange)
        aw__chaos_external_check(world, i, decision);
    check_promise(world, i, decision);
}
