/*
 * pilot_canary.c - a pilot with two policies: the one in force, which is the last known good one,
 * and one that is watched or tried beside it (canary.h).
 *
 * Both are asked in every tick. The one on trial shares what the other has seen of the workload.
 */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "control/pilot_internal.h"

#define BACKOFF_MAX 4u /* doublings of the steps before the next search */
/* Rails that hold whatever anybody wants; the others only keep things calm. */
#define HARD                                                                                    \
    (AW_CLIP_BIT(AW_CLIP_BOUNDS) | AW_CLIP_BIT(AW_CLIP_NODE) | AW_CLIP_BIT(AW_CLIP_OOM_FLOOR) | \
     AW_CLIP_BIT(AW_CLIP_WORKING_SET))

uint64_t aw__pilot_policy_id(const struct aw_pilot *pilot)
{
    const struct aw_policy *policy = &pilot->policy;
    return policy->ops->elsewhere && !pilot->config.learning ? 0
                                                             : policy->ops->learned(policy->self);
}

/* --- a policy comes, and goes ----------------------------------------------------------------- */

/* How the policy in force does: by its own episodes, or as it was estimated. */
static struct aw_canary_standing standing_of(const struct aw_pilot *pilot)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_lifecycle_ring *ring = &memory->lifecycle.agent;
    const struct aw_lifecycle_ring *other = &memory->lifecycle.fallback;
    struct aw_canary_standing standing = {.id = aw__pilot_policy_id(pilot),
                                          .score_mean = NAN,
                                          .score_std = NAN,
                                          .violation_share = memory->violation_share,
                                          .budget = pilot->config.slo_budget};
    if (ring->count >= 2) {
        standing.score_mean = aw_stats_mean(ring->score, ring->count);
        standing.score_std = aw_stats_std(ring->score, ring->count);
        standing.episodes = ring->count;
    } else if (other->count >= 2) {
        standing.score_mean = aw_stats_mean(other->score, other->count) + memory->better_mean;
        standing.score_std = aw_stats_std(other->score, other->count);
        standing.episodes = other->count;
    }
    return standing;
}

void aw__pilot_try(struct aw_pilot *pilot, struct aw_policy *policy,
                   const struct aw_policy_origin *origin,
                   const struct aw_canary_candidate *candidate, enum aw_canary_cause cause)
{
    const struct aw_canary_standing standing = standing_of(pilot);
    aw_policy_free(&pilot->trial);
    pilot->trial = *policy;
    policy->self = NULL;
    pilot->memory.trial_origin = origin ? *origin : (struct aw_policy_origin){0};
    aw_canary_propose(&pilot->memory.canary, candidate, &standing, cause);
    pilot->canary_moved = true;
}

/* The last known good one is another now; what it has learned of the workload stays. */
static void adopt(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const double gain = memory->canary.candidate.gain;
    if (isfinite(gain)) {
        memory->better_mean += gain;
        memory->better_low += gain;
        memory->better_high += gain;
    }
    memory->origin = memory->trial_origin;
    pilot->policy.ops->adopt(pilot->policy.self, pilot->trial.self);
}

/* It is not tried again, and nothing else is searched for, before there is more to know. */
static void give_up(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const uint32_t seen = memory->rows - memory->rows_first;
    const uint32_t rows = seen > AW__PILOT_SEARCH_ROWS ? seen : AW__PILOT_SEARCH_ROWS;
    const uint32_t failures =
        memory->canary.failures < BACKOFF_MAX ? memory->canary.failures : BACKOFF_MAX;
    const uint64_t next = memory->rows + ((uint64_t)rows / 2 << failures);
    aw_canary_bar(&memory->canary, next);
    memory->next_rows = next < UINT32_MAX ? (uint32_t)next : UINT32_MAX;
}

/* The canary took a step; what follows from it. */
static void follow_step(struct aw_pilot *pilot)
{
    const struct aw_canary_memory *canary = &pilot->memory.canary;
    if (canary->state == AW_CANARY_ADOPTED)
        adopt(pilot);
    else if (!aw_canary_busy(canary) && canary->reason.cause != AW_CANARY_CAUSE_STAGE &&
             canary->reason.cause != AW_CANARY_CAUSE_CHANGED)
        give_up(pilot);
    pilot->canary_moved = true;
}

/* --- a tick ----------------------------------------------------------------------------------- */

void aw__pilot_canary_observe(struct aw_pilot *pilot, enum aw_guard_slo slo)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    if (memory->by_trial && slo != AW_GUARD_SLO_UNKNOWN &&
        aw_canary_judge(&pilot->config.canary, &memory->canary, slo == AW_GUARD_SLO_MISSED))
        follow_step(pilot);
}

bool aw__pilot_canary_episode(struct aw_pilot *pilot, double score)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const bool acted = memory->canary.acted_episode > 0;
    if (aw_canary_episode(&pilot->config.canary, &memory->canary, score,
                          pilot->config.episode_steps))
        follow_step(pilot);
    return acted && memory->canary.state == AW_CANARY_ROLLED_BACK;
}

void aw__pilot_canary_stage(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    if (!aw_lifecycle_agent_acts(&memory->lifecycle) &&
        aw_canary_withdraw(&memory->canary, AW_CANARY_CAUSE_STAGE))
        follow_step(pilot);
}

void aw__pilot_canary_changed(struct aw_pilot *pilot)
{
    if (aw_canary_withdraw(&pilot->memory.canary, AW_CANARY_CAUSE_CHANGED))
        follow_step(pilot);
}

void aw__pilot_canary_ordered(struct aw_pilot *pilot)
{
    if (aw_canary_order_back(&pilot->config.canary, &pilot->memory.canary))
        follow_step(pilot);
}

void aw__pilot_canary_tidy(struct aw_pilot *pilot)
{
    if (!aw_canary_busy(&pilot->memory.canary))
        aw_policy_free(&pilot->trial);
}

void aw__pilot_canary_ask(struct aw_pilot *pilot, struct aw__pilot_trial *ret)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    memset(ret, 0, sizeof *ret);
    if (!aw_canary_busy(&memory->canary))
        return;
    ret->asked = true;
    const struct aw_policy *trial = &pilot->trial;
    const struct aw_policy_seen shown = aw__pilot_shown(pilot, memory->by_trial);
    struct aw_policy_answer answer = {0};
    trial->ops->follow(trial->self, pilot->policy.self);
    ret->finite = trial->ops->act(trial->self, &shown, &answer);
    ret->plan = answer.plan;
    memcpy(ret->action, answer.action, sizeof ret->action);
    ret->turn = aw_canary_turn(&pilot->config.canary, &memory->canary, memory->step,
                               pilot->config.episode_steps);
}

bool aw__pilot_canary_trip(struct aw_pilot *pilot, const struct aw__pilot_trial *trial)
{
    if (!aw_canary_trip(&pilot->config.canary, &pilot->memory.canary,
                        trial->turn && !trial->finite))
        return false;
    follow_step(pilot);
    return true;
}

/* At least what stood before the trial. The fallback has sizes of its own to go back to, and is
 * given as many cores in all. */
static void restore(const struct aw_pilot *pilot, bool agent_acts, struct aw_plan *proposed)
{
    const struct aw_plan *good = &pilot->memory.canary.allocation;
    struct aw_plan all = aw__pilot_whole(proposed, &pilot->memory.reading);
    if (agent_acts) {
        all.cpu_millicores =
            all.cpu_millicores > good->cpu_millicores ? all.cpu_millicores : good->cpu_millicores;
        all.memory_bytes =
            all.memory_bytes > good->memory_bytes ? all.memory_bytes : good->memory_bytes;
    }
    const double cores = (double)good->cpu_millicores * good->replicas;
    const double replicas =
        agent_acts || all.cpu_millicores <= 0
            ? good->replicas
            : fmin(pilot->config.bounds.replicas_max, ceil(cores / (double)all.cpu_millicores));
    if (replicas > all.replicas)
        all.replicas = (uint32_t)replicas;
    *proposed = all;
}

void aw__pilot_canary_propose(struct aw_pilot *pilot, bool agent_acts, bool trial_acts,
                              struct aw_plan *proposed)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_plan present = aw__pilot_whole(&(struct aw_plan){0}, &memory->reading);
    if (trial_acts)
        aw_canary_acts(&memory->canary, &present);
    else
        aw_canary_rests(&memory->canary);
    memory->by_trial = trial_acts;
    pilot->decision.canary.restoring = aw_canary_restore(&memory->canary, &present);
    if (pilot->decision.canary.restoring)
        restore(pilot, agent_acts, proposed);
}

/* As if all that it wants more of were there already: the rails let sizes and replicas change one
 * after the other, and what only waits for the other half is not cut. */
static struct aw_reading with_more(const struct aw_reading *reading, const struct aw_plan *plan)
{
    struct aw_reading more = *reading;
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        if ((plan->set & AW_PLAN_BIT(r)) && plan->amount[r] > more.wanted[r])
            more.wanted[r] = plan->amount[r];
    if (more.replicas_ready < more.replicas_wanted)
        more.replicas_ready = (uint32_t)more.replicas_wanted;
    return more;
}

void aw__pilot_canary_decided(struct aw_pilot *pilot, const struct aw__pilot_trial *trial,
                              const struct aw_guard_input *rails, int64_t now_us)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_decision *out = &pilot->decision;
    if (trial->asked && memory->canary.state == AW_CANARY_SHADOW && pilot->answered &&
        !isnan(memory->reading.arrivals_per_s)) {
        struct aw_guard_input free_rails = *rails; /* what a person ordered is not its doing */
        struct aw_guard_result hypothetical = {0};
        const struct aw_reading more = with_more(&memory->reading, &trial->plan);
        free_rails.ordered = false;
        free_rails.reading = &more;
        aw_step_pass(&pilot->rules, &memory->guard, &free_rails, &trial->plan, now_us,
                     &hypothetical);
        const struct aw_canary_watched watched = {
            .finite = trial->finite,
            .absurd = hypothetical.clips & AW_CLIP_BIT(AW_CLIP_ABSURD),
            .clipped = hypothetical.clips & HARD,
            .clipped_good = (out->actor == AW_ACTOR_AGENT) && (out->guard.clips & HARD)};
        if (aw_canary_watch(&pilot->config.canary, &memory->canary, &watched))
            follow_step(pilot);
    }
    const bool restoring = out->canary.restoring;
    aw_canary_report(&pilot->config.canary, &memory->canary, &out->canary);
    out->canary.good = aw__pilot_policy_id(pilot);
    out->canary.restoring = restoring;
    out->canary.acts = memory->by_trial;
    out->canary.moved = pilot->canary_moved;
    if (trial->asked && trial->finite)
        out->canary.plan = trial->plan;
    pilot->canary_moved = false;
}
