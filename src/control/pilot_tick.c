/*
 * pilot_tick.c - a tick: see, score, decide, hand over.
 *
 * Who acts: in OFFLINE the fallback; in ONLINE and SERVING the agent, unless the watchdog holds it.
 * Both keep up with what happens, whoever acts, so that either can take over in any tick.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "control/pilot_internal.h"
#include "control/pilot_peek.h"
#include "policy/external.h"

#define LAMBDA_RATE    0.2  /* per episode; a weight that is five times too small takes a dozen */
#define SHARE_FADE     0.7  /* of the share of violations that lambda follows, per episode */
#define DRIFT_EPISODES 10u  /* that are still believed after the workload has drifted */
#define DOUBT          0.1  /* of what is known, that is still believed after a drift */
#define MISSED_WINDOW  240u /* loaded steps */
#define MISSED_MANY    12u  /* of them: it no longer fits */

/* --- seeing ----------------------------------------------------------------------------------- */

/* A cluster that did not answer leaves everything unknown but what was asked of it. */
static struct aw_sample nothing_known(const struct aw_reading *last, int64_t now_us)
{
    const struct aw_figure unknown = {.at_us = AW_NEVER};
    struct aw_sample sample = {
        .at_us = now_us,
        .cpu_cores_used = unknown,
        .memory_bytes_used = unknown,
        .memory_bytes_peak = unknown,
        .throttled_share = unknown,
        .disk_bytes_per_s = unknown,
        .net_bytes_per_s = unknown,
        .arrivals_per_s = unknown,
        .completions_per_s = unknown,
        .errors_per_s = unknown,
        .in_flight = unknown,
        .latency_us_p50 = unknown,
        .latency_us_p95 = unknown,
        .latency_us_p99 = unknown,
        .latency_us_mean = unknown,
        .inside_us_p50 = unknown,
        .inside_us_p99 = unknown,
    };
    memcpy(sample.wanted, last->wanted, sizeof sample.wanted);
    return sample;
}

static void see(struct aw_pilot *pilot, const struct aw_sample *sample, int64_t now_us)
{
    pilot->answered = sample != NULL;
    pilot->sample = sample ? *sample : nothing_known(&pilot->memory.reading, now_us);
    pilot->restarts = pilot->sample.restarts;
    /* what is old by our clock is old, whatever a reading from some cache says of its own time */
    if (pilot->sample.at_us < now_us)
        pilot->sample.at_us = now_us;
    pilot->sample.pod_count = aw__pilot_pods_room(pilot, pilot->sample.pod_count);
    if (pilot->sample.pod_count > 0) /* others are observed before this one decides */
        memcpy(pilot->pods, pilot->sample.pods, pilot->sample.pod_count * sizeof *pilot->pods);
    pilot->sample.pods = pilot->pods;
    aw_reading_take(&pilot->sample, pilot->rules.stale_us, pilot->config.slo.quantile,
                    &pilot->memory.reading);
}

struct aw_plan aw__pilot_whole(const struct aw_plan *plan, const struct aw_reading *reading)
{
    const struct aw_plan present = aw_plan_of(reading->wanted);
    return aw_plan_over(plan, &present);
}

/* $ per hour of what is wanted already with `plan` in its place. */
static double price(const struct aw_pilot *pilot, const struct aw_plan *plan)
{
    const struct aw_plan all = aw__pilot_whole(plan, &pilot->memory.reading);
    return aw_prices_per_hour(&pilot->config.prices, &all);
}

/* What counts as cost 1: what the workload was given when it came. */
static double reference_cost(const struct aw_pilot *pilot)
{
    const double cost = price(pilot, &(struct aw_plan){0});
    return cost > 0 ? cost : 1;
}

static enum aw_guard_slo slo_now(const struct aw_pilot *pilot)
{
    return aw_step_slo(&pilot->rules, &pilot->memory.reading, &pilot->score);
}

/* --- an episode has ended --------------------------------------------------------------------- */

static void follow_budget(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const double share = (double)memory->violation_count / memory->step_count;
    memory->violation_share = isnan(memory->violation_share)
                                  ? share
                                  : SHARE_FADE * memory->violation_share + (1 - SHARE_FADE) * share;
    memory->lambda = aw_lambda_next(memory->lambda, pilot->config.slo_budget,
                                    memory->violation_share, LAMBDA_RATE);
}

/* What the policy would earn now: what the fallback does of late, and what it is better by. */
static struct aw_lifecycle_estimate estimate_now(const struct aw__pilot_memory *memory)
{
    const struct aw_lifecycle_ring *ring = &memory->lifecycle.fallback;
    double past = ring->count ? 0 : NAN;
    for (uint32_t i = 0; i < ring->count; i++)
        past += ring->score[i] / ring->count;
    return (struct aw_lifecycle_estimate){past + memory->better_mean, past + memory->better_low,
                                          past + memory->better_high};
}

/* New figures, or a policy that no longer fits. */
static bool search_due(const struct aw_pilot *pilot)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    if (pilot->policy.ops->known(pilot->policy.self) &&
        memory->lifecycle.stage == AW_STAGE_OFFLINE) /* it comes back with time */
        return false;
    if (aw__pilot_young(pilot))
        return pilot->teacher->looks && memory->minute_count >= AW_REHEARSE_MINUTES_MIN &&
               memory->rows >= memory->next_rows;
    return memory->rows >= memory->next_rows ||
           (memory->loaded >= MISSED_WINDOW && aw__pilot_policy_id(pilot) &&
            (uint64_t)memory->missed * MISSED_WINDOW >= (uint64_t)MISSED_MANY * memory->loaded);
}

/* The workload is another. Searches come as often as at the beginning again, the first of them
 * after `rows`. */
static void begin_anew(struct aw_pilot *pilot, uint32_t rows)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    memory->rows_first = memory->rows;
    memory->next_rows = memory->rows + rows;
    memory->anew = 1;
    aw__pilot_canary_changed(pilot);
}

static void end_episode(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const enum aw_stage before = (enum aw_stage)memory->lifecycle.stage;
    const double violations = (double)memory->violation_count / memory->step_count;
    const struct aw_external *external = aw_external_of(&pilot->policy);
    struct aw_lifecycle_episode episode = {
        .score = pilot->config.objective == AW_OBJECTIVE_PAPER
                     ? memory->gain_sum * pilot->config.episode_steps / memory->step_count
                     : aw_episode_score(pilot->config.episode_steps, pilot->config.lambda,
                                        memory->cost_sum, memory->need_sum, violations),
        .agent_share = (double)memory->agent_steps / memory->step_count,
        .admitted = external && !external->memory.agent.shadow &&
                    external->memory.agent.standing == AW_EXTERNAL_AGENT_TRUSTED,
    };
    const struct aw_lifecycle_estimate estimate = estimate_now(memory);
    /* what was rolled back is the canary's to judge; the policy in force has no part in it */
    if (aw__pilot_canary_episode(pilot, episode.score))
        episode.score = NAN;
    else if (episode.agent_share >= AW_LIFECYCLE_AGENT_SHARE)
        follow_budget(pilot);
    if (pilot->config.learning && (pilot->config.retrain || before != AW_STAGE_SERVING)) {
        if (aw_lifecycle_episode(&pilot->lifecycle, &memory->lifecycle, &episode, &estimate,
                                 &memory->stay))
            pilot->moved = true;
        const enum aw_stage now = (enum aw_stage)memory->lifecycle.stage;
        if (before == AW_STAGE_SERVING && now != AW_STAGE_SERVING) { /* it drifted */
            memory->learn_from =
                memory->episode + 1 > DRIFT_EPISODES ? memory->episode + 1 - DRIFT_EPISODES : 0;
            aw_copy_doubt(&memory->record, DOUBT);
            begin_anew(pilot, 0);
        }
        /* a network learns while the stage says so; a search explores nothing, so it goes on, more
         * and more rarely, while the policy serves */
        aw__pilot_canary_stage(pilot);
        memory->learn_due =
            !aw_canary_busy(&memory->canary) && pilot->teacher->learns &&
            (pilot->teacher->from_record ? aw_lifecycle_agent_learns(&memory->lifecycle)
                                         : search_due(pilot));
        if (!memory->learn_due) { /* what serves needs no learner */
            aw_learner_free(pilot->learner);
            pilot->learner = NULL;
        }
    }
    aw__pilot_canary_tidy(pilot);
    if (pilot->learner)
        aw_learner_end(pilot->learner);
    memory->gain_sum = memory->cost_sum = memory->need_sum = 0;
    memory->step_count = memory->violation_count = memory->agent_steps = 0;
    memory->episode++;
    memory->step = 0;
}

static void end_minute(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    memory->load_per_s[memory->minute_count++ % AW__PILOT_SEARCH_MINUTES] =
        aw_pack16(memory->minute_sum / memory->minute_steps);
    memory->minute_sum = 0;
    memory->minute_steps = 0;
    if (!aw__pilot_load_jumped(memory))
        return;
    memory->minute_first = memory->minute_count - AW_REHEARSE_MINUTES_MIN;
    pilot->policy.ops->changed(pilot->policy.self, true);
    begin_anew(pilot, 0);
}

/* What copies of the workload are made from, and the load they are tried on. */
static void remember(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    if (!aw__pilot_makes_copies(pilot))
        return;
    const struct aw_reading *reading = &memory->reading;
    if (pilot->answered && aw_copy_add(&memory->record, &pilot->sample, reading)) {
        pilot->policy.ops->changed(pilot->policy.self, false);
        begin_anew(pilot, AW__PILOT_SEARCH_ROWS);
    }
    if (reading->arrivals_per_s > 0) {
        const bool settled =
            !reading->rollout && reading->replicas_ready >= reading->replicas_wanted;
        const double limit = 3 * pilot->config.slo.latency_us_p99;
        memory->rows += settled && (limit <= 0 || pilot->score.latency_us_slo < limit);
        memory->loaded++;
        memory->missed += pilot->score.violated;
    }
    if (isnan(memory->reading.arrivals_per_s))
        return;
    memory->minute_sum += memory->reading.arrivals_per_s;
    memory->minute_steps++;
    if (memory->minute_steps * pilot->config.step_s >= 60)
        end_minute(pilot);
}

/* A policy that others have lived acts as soon as it is there. */
static void begin_with_known(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_policy *policy = &pilot->policy;
    if (!pilot->config.learning || !pilot->answered)
        return;
    const struct aw_policy_seen seen =
        aw__pilot_shown(pilot, memory->actor == AW_ACTOR_AGENT && !memory->by_trial);
    const uint64_t before = policy->ops->learned(policy->self);
    policy->ops->observe(policy->self, &seen);
    const struct aw_policy_known *known = policy->ops->known(policy->self);
    if (!known)
        return;
    if (policy->ops->learned(policy->self) != before) {
        memory->origin = (struct aw_policy_origin){.checksum = known->checksum};
        snprintf(memory->origin.name, sizeof memory->origin.name, "%s",
                 pilot->teacher->shares ? "multi" : "library");
        memory->next_rows = memory->rows + AW__PILOT_SEARCH_ROWS;
        aw__pilot_canary_changed(pilot);
    }
    if (aw_lifecycle_known(&pilot->lifecycle, &memory->lifecycle, &memory->stay))
        pilot->moved = true;
}

/* --- a tick ----------------------------------------------------------------------------------- */

bool aw_pilot_observe(struct aw_pilot *pilot, const struct aw_sample *sample, int64_t now_us,
                      struct aw_store_row *ret_row)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    see(pilot, sample, now_us);
    if (memory->cost_reference_per_hour <= 0)
        memory->cost_reference_per_hour = reference_cost(pilot);
    pilot->rules.objective.cost_reference_per_hour = memory->cost_reference_per_hour;
    aw_step_score(&pilot->rules, &memory->reading, &pilot->score);
    pilot->gain = aw__pilot_gain(pilot, pilot->score.cost, pilot->score.paper_reward);
    aw_action_observe(&pilot->action, &memory->action, &memory->reading);
    remember(pilot);
    aw_state_encode(&pilot->state, &memory->state, &memory->reading, &pilot->score, pilot->obs);
    pilot->finished = memory->in_flight;
    begin_with_known(pilot);
    if (!memory->in_flight)
        return false;
    memory->in_flight = 0;
    aw__pilot_canary_observe(pilot, slo_now(pilot));

    memcpy(pilot->obs_last, memory->obs, sizeof pilot->obs_last);
    memcpy(pilot->action_last, memory->action_taken, sizeof pilot->action_last);
    memcpy(pilot->shadow_last, memory->shadow, sizeof pilot->shadow_last);
    pilot->reward =
        (float)(pilot->gain - aw__pilot_weight(pilot, memory->lambda) * pilot->score.violated);
    memory->gain_sum += pilot->gain;
    memory->cost_sum += pilot->score.cost;
    memory->need_sum +=
        aw_need_per_hour(&pilot->config.prices, &pilot->config.bounds, &memory->reading) *
        pilot->config.step_s / 3600;
    memory->step_count++;
    memory->violation_count += pilot->score.violated;
    memory->agent_steps += memory->actor == AW_ACTOR_AGENT || memory->actor == AW_ACTOR_EXPLORING;
    const bool last = memory->step + 1 >= pilot->config.episode_steps;
    *ret_row = (struct aw_store_row){
        .workload = pilot->config.name,
        .episode = memory->episode,
        .step = memory->step,
        .at_us = memory->at_us,
        .stage = memory->stage,
        .actor = memory->actor,
        .policy_id = memory->policy_id,
        .obs_dim = pilot->obs_dim,
        .act_dim = pilot->action.dim,
        .obs = pilot->obs_last,
        .action = pilot->action_last,
        .shadow = memory->has_shadow ? pilot->shadow_last : NULL,
        .reward = pilot->reward,
        .next_obs = pilot->obs,
        .truncated = last,
        .figures = {.arrivals_per_s = memory->reading.arrivals_per_s,
                    .latency_us_p99 = pilot->score.latency_us_slo,
                    .slo_preservation = pilot->score.sp,
                    .cpu_utilisation = pilot->score.cpu_utilisation,
                    .memory_utilisation = pilot->score.memory_utilisation,
                    .cost = pilot->score.cost,
                    .paper_reward = pilot->score.paper_reward,
                    .violated = pilot->score.violated},
    };
    memcpy(ret_row->figures.amount, memory->reading.wanted, sizeof ret_row->figures.amount);
    if (pilot->learner) {
        const enum aw_err err = aw_learner_add(
            pilot->learner,
            &(struct aw_learner_step){
                .obs = pilot->obs_last,
                .action = pilot->action_last,
                .next_obs = pilot->obs,
                .gain = pilot->gain,
                .violated = pilot->score.violated,
                .by_fallback = memory->actor == AW_ACTOR_FALLBACK,
                .read = aw__pilot_read(pilot, pilot->score.sp, pilot->score.cpu_utilisation,
                                       pilot->score.memory_utilisation, pilot->score.violated)});
        AW_ASSERT(!err); /* the wall of reading and state lets nothing else through */
    }
    memory->step++;
    if (last)
        end_episode(pilot);
    return true;
}

void aw_pilot_resume(struct aw_pilot *pilot, const struct aw_store_last *last)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    pilot->first = true;
    if (last && last->episode >= memory->episode)
        memory->episode = last->episode + 1;
    memory->step = memory->in_flight = 0;
    memory->gain_sum = memory->cost_sum = memory->need_sum = 0;
    memory->step_count = memory->violation_count = memory->agent_steps = 0;
}

/* What a kind of fallback decides itself. */
static uint32_t decides(uint32_t kind)
{
    switch (kind) {
    case AW_FALLBACK_STATIC:
        return 0;
    case AW_FALLBACK_HPA:
        return AW_PLAN_REPLICAS;
    case AW_FALLBACK_VPA:
        return AW_PLAN_CPU | AW_PLAN_MEMORY;
    case AW_FALLBACK_HPA_VPA_MEM:
        return AW_PLAN_REPLICAS | AW_PLAN_MEMORY;
    default:
        return AW_PLAN_COMMON;
    }
}

/* The fallback takes over a workload of another size than it left. What it does not decide itself
 * goes back to what it was: an HPA tuned for pods of one core does not know pods of a tenth.
 * Returns what is on its way there. */
static uint32_t go_home(struct aw_pilot *pilot, struct aw_plan *plan)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_reading *reading = &memory->reading;
    const uint32_t own = decides(pilot->config.fallback.kind);
    if (memory->home[AW_RESOURCE_CPU] <= 0 || !memory->away) {
        for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
            memory->home[r] = reading->wanted[r];
        return 0;
    }
    uint32_t homing = 0;
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++) {
        const bool there = r == AW_RESOURCE_MEMORY ? reading->wanted[r] >= memory->home[r]
                                                   : reading->wanted[r] == memory->home[r];
        if (own & AW_PLAN_BIT(r) || there || memory->home[r] <= 0)
            continue;
        plan->amount[r] = memory->home[r];
        homing |= AW_PLAN_BIT(r);
    }
    plan->set |= homing;
    memory->away = homing != 0;
    return homing;
}

/* A departure from the policy that lasts `explore_hold` steps; a function of where we are in time,
 * so that nothing need be remembered. */
static void explore(const struct aw_pilot *pilot, float *action)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const uint32_t hold = pilot->config.explore_hold ? pilot->config.explore_hold : 1;
    const uint64_t when = ((uint64_t)memory->episode << 32) | (memory->step / hold);
    struct aw_rng rng;
    aw_rng_init(&rng, pilot->config.seed ^ (when * 0x9e3779b97f4a7c15u), AW__PILOT_EXPLORE_STREAM);
    for (uint32_t i = 0; i < pilot->action.dim; i++) {
        const double a = (double)action[i] + pilot->config.explore_sigma * aw_rng_normal(&rng);
        action[i] = (float)fmin(1, fmax(-1, a));
    }
}

/* What a person ordered takes the place of what was proposed; an emergency raises it. Returns
 * whether it passes as a person's order: letting an emergency down keeps to the pace of all. */
static bool obey(const struct aw_orders *orders, const struct aw_reading *reading,
                 struct aw_plan *proposed)
{
    if (orders->pin.set)
        *proposed = orders->pin;
    if (!orders->floor.set)
        return orders->pin.set != 0;
    struct aw_plan all = aw__pilot_whole(proposed, reading);
    for (uint32_t r = 0; r < AW_RESOURCES; r++) {
        if (orders->urgent && all.amount[r] < reading->wanted[r]) /* nothing shrinks meanwhile */
            all.amount[r] = reading->wanted[r];
        if ((orders->floor.set & AW_PLAN_BIT(r)) && all.amount[r] < orders->floor.amount[r])
            all.amount[r] = orders->floor.amount[r];
    }
    all.set |= orders->floor.set;
    *proposed = all;
    return orders->urgent || orders->pin.set;
}

struct aw_policy_seen aw__pilot_shown(const struct aw_pilot *pilot, bool acted)
{
    return (struct aw_policy_seen){.reading = &pilot->memory.reading,
                                   .action = &pilot->memory.action,
                                   .obs = pilot->obs,
                                   .latency_us_p50 = pilot->sample.latency_us_p50.at_us == AW_NEVER
                                                         ? (double)NAN
                                                         : pilot->sample.latency_us_p50.value,
                                   .violated = pilot->score.violated,
                                   .acted = pilot->finished && acted,
                                   .set_aside = pilot->memory.lifecycle.stage == AW_STAGE_OFFLINE};
}

struct aw_figure *aw__pilot_figure(struct aw_pilot *pilot, enum aw_input input)
{
    struct aw_sample *sample = &pilot->sample;
    struct aw_figure *const latency[] = {&sample->latency_us_p50, &sample->latency_us_p95,
                                         &sample->latency_us_p99};
    struct aw_figure *const figure[] = {
        [AW_INPUT_ARRIVALS_PER_S] = &sample->arrivals_per_s,
        [AW_INPUT_COMPLETIONS_PER_S] = &sample->completions_per_s,
        [AW_INPUT_ERRORS_PER_S] = &sample->errors_per_s,
        [AW_INPUT_LATENCY_US_SLO] = latency[aw_latency_index(pilot->config.slo.quantile)],
        [AW_INPUT_IN_FLIGHT] = &sample->in_flight,
        [AW_INPUT_CPU_CORES_USED] = &sample->cpu_cores_used,
        [AW_INPUT_THROTTLED_SHARE] = &sample->throttled_share,
        [AW_INPUT_MEMORY_BYTES_USED] = &sample->memory_bytes_used,
        [AW_INPUT_MEMORY_BYTES_PEAK] = &sample->memory_bytes_peak,
        [AW_INPUT_DISK_BYTES_PER_S] = &sample->disk_bytes_per_s,
        [AW_INPUT_NET_BYTES_PER_S] = &sample->net_bytes_per_s,
    };
    _Static_assert(sizeof figure / sizeof *figure == AW_INPUT_COUNT, "every input has a figure");
    return figure[input];
}

/* How old each figure is. In double: the difference of two times from outside may not fit. */
static void ages_of(struct aw_pilot *pilot, int64_t now_us, float *age_s)
{
    for (uint32_t i = 0; i < AW_INPUT_COUNT; i++) {
        const int64_t at_us = aw__pilot_figure(pilot, (enum aw_input)i)->at_us;
        age_s[i] =
            at_us == AW_NEVER ? NAN : (float)fmax(0, 1e-6 * ((double)now_us - (double)at_us));
    }
}

void aw_pilot_clock(struct aw_pilot *pilot, const struct aw_clock *clock)
{
    pilot->clock = clock;
}

/* A decision that is taken again took as long as it took. */
static double took_since(const struct aw_pilot *pilot, int64_t asked_us)
{
    return pilot->clock ? 1e-6 * (double)(aw_clock_monotonic_us(pilot->clock) - asked_us)
                        : pilot->took_s;
}

/* --- deciding --------------------------------------------------------------------------------- */

/* A decision in the making. */
struct deciding {
    const struct aw_orders *orders;
    int64_t now_us;
    enum aw_guard_slo slo;
    struct aw_guard_input rails;
    struct aw_plan by_fallback, by_agent, proposed;
    float fallback[AW_ACTION_MAX], agent[AW_ACTION_MAX];
    struct aw__pilot_trial trial;
    struct aw_policy_seen shown;
    bool finite;     /* the policy in force has an answer */
    bool wanted;     /* an agent is to act, if the watchdog lets it */
    bool agent_acts; /* it does, ... */
    bool trial_acts; /* ... and it is the one on trial */
};

/* What is known so far, and what an agent elsewhere has answered. */
static void hear(struct aw_pilot *pilot, struct deciding *d)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_decision *out = &pilot->decision;
    *out = (struct aw_decision){.at_us = d->now_us,
                                .orders = *d->orders,
                                .episode = memory->episode,
                                .step = memory->step,
                                .answered = pilot->answered,
                                .state_dim = pilot->obs_dim,
                                .act_dim = pilot->action.dim,
                                .reading = memory->reading,
                                .score = pilot->score,
                                .gain = pilot->gain,
                                .lambda = memory->lambda,
                                .stay = memory->stay,
                                .moved = pilot->moved,
                                .estimate = estimate_now(memory)};
    struct aw_external *external = aw_external_of(&pilot->policy);
    if (external)
        out->took_s =
            aw_external_step(external, &pilot->config.external, d->now_us, &out->external);
    out->policy_id = aw__pilot_policy_id(pilot);
    out->origin = memory->origin;
    pilot->moved = false;
    ages_of(pilot, d->now_us, out->age_s);
    memcpy(out->state, pilot->obs, pilot->obs_dim * sizeof *out->state);
    d->slo = slo_now(pilot);
    d->rails = aw_step_input(&pilot->rules, &memory->reading, d->slo, pilot->restarts);
    d->rails.freeze = (enum aw_guard_freeze)d->orders->freeze;
    d->rails.blind = !pilot->answered;
    d->rails.first = pilot->first;
    pilot->first = pilot->first && !pilot->answered;
    aw_guard_observe(&pilot->rules.guard, &pilot->memory.guard, &d->rails, d->now_us);
    aw_relief_observe(&pilot->config.relief, &pilot->memory.relief, &pilot->config.bounds,
                      pilot->config.controlled, &memory->reading, d->slo,
                      pilot->finished && memory->actor == AW_ACTOR_FALLBACK);
}

static void ask_fallback(struct aw_pilot *pilot, struct deciding *d)
{
    aw_fallback_decide(pilot->fallback, &pilot->sample, d->now_us, &d->by_fallback,
                       &pilot->decision.fallback);
    const struct aw_plan all = aw__pilot_whole(&d->by_fallback, &pilot->memory.reading);
    aw_action_from_plan(&pilot->action, &pilot->memory.action, &all, d->fallback);
}

/* The policy on trial first: both see the same past. */
static void ask_policy(struct aw_pilot *pilot, struct deciding *d)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_policy *policy = &pilot->policy;
    const int64_t asked_us = pilot->clock ? aw_clock_monotonic_us(pilot->clock) : 0;
    aw__pilot_canary_ask(pilot, &d->trial);
    d->shown = aw__pilot_shown(pilot, memory->actor == AW_ACTOR_AGENT && !memory->by_trial);
    struct aw_policy_answer answer = {0};
    d->finite = policy->ops->act(policy->self, &d->shown, &answer);
    memcpy(d->agent, answer.action, sizeof d->agent);
    d->by_agent = answer.plan;
    if (!policy->ops->elsewhere)
        pilot->decision.took_s = took_since(pilot, asked_us);
    pilot->took_s = 0;
}

static void watch(struct aw_pilot *pilot, struct deciding *d)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_decision *out = &pilot->decision;
    d->wanted = out->policy_id != 0 && aw_lifecycle_agent_acts(&memory->lifecycle) &&
                (!pilot->policy.ops->elsewhere || out->external.follow);
    const struct aw_watchdog_input input = {
        .last_actor = pilot->finished && memory->actor != AW_ACTOR_PERSON
                          ? (enum aw_actor)memory->actor
                          : AW_ACTOR_NOBODY,
        .last_slo = (enum aw_watchdog_slo)d->slo,
        .last_extra_cost = memory->extra_cost,
        .wanted = d->wanted,
        .finite = d->trial.turn ? d->trial.finite : d->finite,
        .age_s = memory->reading.age_s,
        .distance = pilot->policy.ops->distance(pilot->policy.self, &d->shown),
        /* who is elsewhere had a deadline of its own */
        .took_s = pilot->policy.ops->elsewhere ? 0 : out->took_s,
    };
    out->verdict = aw_watchdog_step(&pilot->config.watchdog, &memory->watchdog, &input, d->now_us,
                                    &out->watchdog);
    if (out->verdict != AW_WATCHDOG_TRIPPED)
        return;
    if (out->watchdog.cause == AW_WATCHDOG_CAUSE_STRANGE)
        memory->next_rows = memory->rows; /* to be tried on what is there now */
    if (aw_watchdog_cause_fault(out->watchdog.cause) && !aw__pilot_canary_trip(pilot, &d->trial) &&
        aw_lifecycle_trip(&pilot->lifecycle, &memory->lifecycle, d->now_us, &out->stay)) {
        out->moved = true;
        aw__pilot_canary_stage(pilot);
    }
}

static void who_acts(struct aw_pilot *pilot, struct deciding *d)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_decision *out = &pilot->decision;
    out->stage = (enum aw_stage)memory->lifecycle.stage;
    out->actor = AW_ACTOR_FALLBACK;
    if (d->wanted && out->verdict == AW_WATCHDOG_PASS &&
        aw_lifecycle_agent_acts(&memory->lifecycle)) {
        out->actor = AW_ACTOR_AGENT;
        if (!d->trial.turn && pilot->policy.ops->explores && out->stage == AW_STAGE_ONLINE &&
            pilot->config.explore_sigma > 0 &&
            aw_explore_allowed(&pilot->config.watchdog, &memory->watchdog)) {
            out->actor = AW_ACTOR_EXPLORING;
            explore(pilot, d->agent);
            aw_action_plan(&pilot->action, &memory->action, &memory->reading, d->agent,
                           &d->by_agent);
        }
    }
    d->agent_acts = out->actor != AW_ACTOR_FALLBACK;
    d->trial_acts = d->agent_acts && d->trial.turn;
    if (out->stage != AW_STAGE_SERVING)
        pilot->policy.ops->sees(pilot->policy.self, pilot->obs);
}

/* What either of them would do, and what comes of it when people have spoken. */
static void propose(struct aw_pilot *pilot, struct deciding *d)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_decision *out = &pilot->decision;
    if (d->trial_acts) {
        d->finite = true;
        d->by_agent = d->trial.plan;
        memcpy(d->agent, d->trial.action, sizeof d->agent);
        out->policy_id = memory->canary.candidate.id;
        out->origin = memory->trial_origin;
    }
    memory->extra_cost = out->actor == AW_ACTOR_EXPLORING
                             ? (price(pilot, &d->by_agent) - price(pilot, &d->by_fallback)) /
                                   memory->cost_reference_per_hour
                             : NAN;
    if (d->agent_acts) {
        memory->away = 1;
    } else {
        out->homing = go_home(pilot, &d->by_fallback);
        out->relieved =
            aw_relief_floor(&pilot->config.relief, &memory->relief, &pilot->config.bounds,
                            pilot->config.controlled, &memory->reading, &d->by_fallback);
        if (out->homing | out->relieved) { /* a learner is told what is really asked for */
            const struct aw_plan all = aw__pilot_whole(&d->by_fallback, &memory->reading);
            aw_action_from_plan(&pilot->action, &memory->action, &all, d->fallback);
        }
    }
    out->by_fallback = d->by_fallback;
    if (d->finite)
        out->by_agent = d->by_agent;
    d->proposed = d->agent_acts ? d->by_agent : d->by_fallback;
    aw__pilot_canary_propose(pilot, d->agent_acts, d->trial_acts && !d->orders->pin.set,
                             &d->proposed);
    /* who has not seen the workload yet cannot tell more from less, whoever orders it */
    d->rails.ordered = obey(d->orders, &memory->reading, &d->proposed) && !pilot->first;
    out->in_charge = out->actor;
    if (d->orders->pin.set)
        out->actor = AW_ACTOR_PERSON;
}

static void pass_rails(struct aw_pilot *pilot, struct deciding *d)
{
    struct aw_decision *out = &pilot->decision;
    aw_step_pass(&pilot->rules, &pilot->memory.guard, &d->rails, &d->proposed, d->now_us,
                 &out->guard);
    aw__pilot_canary_decided(pilot, &d->trial, &d->rails, d->now_us);
    memcpy(out->action, d->agent_acts ? d->agent : d->fallback, sizeof out->action);
    memcpy(out->shadow, d->agent_acts ? d->fallback : d->agent, sizeof out->shadow);
    out->has_shadow = d->agent_acts || d->finite;
}

/* The step that begins. A learner is told the action as it came through, or the nearest to it. */
static void begin_step(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_decision *out = &pilot->decision;
    float taken[AW_ACTION_MAX];
    memcpy(taken, out->action, sizeof taken);
    if (out->guard.clips) {
        const struct aw_plan carried = aw__pilot_whole(&out->guard.plan, &memory->reading);
        aw_action_from_plan(&pilot->action, &memory->action, &carried, taken);
    }
    memory->in_flight = 1;
    memory->actor = out->actor;
    memory->stage = out->stage;
    memory->has_shadow = out->has_shadow;
    memory->at_us = out->at_us;
    memory->policy_id = out->policy_id;
    memcpy(memory->obs, pilot->obs, pilot->obs_dim * sizeof *memory->obs);
    memcpy(memory->action_taken, taken, sizeof taken);
    memcpy(memory->shadow, out->shadow, sizeof out->shadow);
}

static void cut_to(struct aw_guard_result *guard, uint32_t axis, int64_t to)
{
    guard->axis_clips[axis] |= AW_CLIP_BIT(AW_CLIP_TENANCY);
    guard->clips |= AW_CLIP_BIT(AW_CLIP_TENANCY);
    if (guard->cut_count < AW_GUARD_CUTS_MAX)
        guard->cut[guard->cut_count++] =
            (struct aw_guard_cut){.to = to, .clip = AW_CLIP_TENANCY, .axis = axis};
}

void aw_pilot_grant(struct aw_pilot *pilot, const struct aw_order_grant *grant)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_guard_result *guard = &pilot->decision.guard;
    const int64_t *present = memory->reading.wanted;
    struct aw_plan left = guard->plan;
    pilot->decision.orders.grant = *grant;
    for (uint32_t i = AW_SIZE_FIRST; grant->same_size && i < AW_RESOURCES; i++)
        if ((left.set & AW_PLAN_BIT(i)) && left.amount[i] > present[i]) {
            left.set &= ~(uint64_t)AW_PLAN_BIT(i);
            cut_to(guard, i, present[i]);
        }
    const struct aw_plan whole = aw__pilot_whole(&left, &memory->reading);
    if (whole.replicas != grant->got) {
        left.replicas = grant->got;
        left.set |= AW_PLAN_REPLICAS;
        cut_to(guard, AW_RESOURCE_REPLICAS, grant->got);
    }
    if (left.replicas == present[AW_RESOURCE_REPLICAS])
        left.set &= ~(uint64_t)AW_PLAN_REPLICAS;
    guard->plan = aw__pilot_whole(&left, &memory->reading);
    guard->plan.set = left.set;
    aw_action_from_plan(&pilot->action, &memory->action, &guard->plan, memory->action_taken);
}

const struct aw_decision *aw_pilot_decide(struct aw_pilot *pilot, const struct aw_orders *orders,
                                          int64_t now_us)
{
    static const struct aw_orders none = {0};
    struct deciding d = {.orders = orders ? orders : &none, .now_us = now_us};
    hear(pilot, &d);
    ask_fallback(pilot, &d);
    ask_policy(pilot, &d);
    watch(pilot, &d);
    who_acts(pilot, &d);
    propose(pilot, &d);
    pass_rails(pilot, &d);
    begin_step(pilot);
    if (d.orders->grant.reason) /* taken again: it was told then */
        aw_pilot_grant(pilot, &d.orders->grant);
    return &pilot->decision;
}

bool aw_pilot_unrecorded(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    struct aw_guard_result *guard = &pilot->decision.guard;
    const bool pressed = pilot->decision.score.violated || pilot->decision.orders.urgent;
    struct aw_plan left = guard->plan;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const uint32_t bit = left.set & AW_PLAN_BIT(i);
        if (!bit || (pressed && left.amount[i] > memory->reading.wanted[i]))
            continue;
        left.set &= ~bit;
        guard->axis_clips[i] |= AW_CLIP_BIT(AW_CLIP_UNRECORDED);
        guard->clips |= AW_CLIP_BIT(AW_CLIP_UNRECORDED);
    }
    guard->plan = aw__pilot_whole(&left, &memory->reading);
    guard->plan.set = left.set;
    if (left.set)
        aw_action_from_plan(&pilot->action, &memory->action, &guard->plan, memory->action_taken);
    else
        aw_pilot_applied(pilot, false, pilot->decision.at_us);
    return left.set != 0;
}

void aw_pilot_applied(struct aw_pilot *pilot, bool taken, int64_t now_us)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    pilot->decision.applied = taken;
    if (taken) {
        const struct aw_plan *plan = &pilot->decision.guard.plan;
        const struct aw_plan now = aw__pilot_whole(plan, &memory->reading);
        aw_guard_applied(&pilot->rules.guard, &memory->guard, plan, now_us);
        /* this is what was asked of the cluster, should it not answer in the next tick */
        memcpy(memory->reading.wanted, now.amount, sizeof now.amount);
        return;
    }
    /* nothing came of it: what a learner is told is that all stayed */
    const struct aw_plan stays = aw__pilot_whole(&(struct aw_plan){0}, &memory->reading);
    aw_action_from_plan(&pilot->action, &memory->action, &stays, memory->action_taken);
}
