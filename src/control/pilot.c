/*
 * pilot.c - one workload's mind.
 *
 * Who acts: in OFFLINE the fallback; in ONLINE and SERVING the agent, unless the watchdog holds it.
 * Both keep up with what happens, whoever acts, so that either can take over in any tick.
 */
#include "control/pilot.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

#define S_MAX           AW_STATE_DIM_MAX
#define MAGIC           UINT32_C(0x50494c30) /* "PIL0" */
#define ESTIMATE_STREAM 1u
#define STRANGE_LOAD    2.0 /* times the highest load of a rehearsal */
#define NO_WORSE                                                                \
    0.05 /* of the fallback's score: an interval hardly ever shows a network to \
          * be better (docs/results/ope.md); no worse than this must do */
#define ESTIMATE_WIDTH   1.28 /* deviations of an 80 % interval */
#define ESTIMATE_DOUBT   0.2  /* of a difference, that copies may have wrong */
#define EXPLORE_STREAM   2u
#define UNTRAINED_STREAM 3u
#define LAMBDA_RATE      0.2 /* per episode; a weight that is five times too small takes a dozen */
#define SHARE_FADE       0.7 /* of the share of violations that lambda follows, per episode */
#define DRIFT_EPISODES   10u /* that are still believed after the workload has drifted */
#define GAIN_MAX         AW_COST_RATIO_MAX
#define SEARCH_ROWS      60u /* steps that tell something, before the first search */
#define SLACK                                                                                  \
    7                       /* violations a window may have beyond the budget: what trims mend \
                             * within minutes need not be mended by another hand-over */
#define MISSED_WINDOW  240u /* loaded steps */
#define MISSED_MANY    12u  /* of them: it no longer fits */
#define SEARCH_MINUTES 720u /* of the past that policies are tried on */
#define SEARCH_GAIN    0.01 /* of ln cost: less is not worth another policy */
#define SEARCH_MISSES  4    /* times the budget on copies: no policy to begin with */
#define DOUBT          0.1  /* of what is known, that is still believed after a drift */

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
/* Everything that outlives a tick, but for the fallback and the policy. No padding: it is copied
 * into snapshots. */
struct memory {
    struct aw_state_memory state;
    struct aw_action_memory action;
    struct aw_guard_memory guard;
    struct aw_watchdog_memory watchdog;
    struct aw_lifecycle_memory lifecycle;
    struct aw_familiar familiar;
    struct aw_reading reading;
    struct aw_formula formula;
    struct aw_formula_memory formula_memory;
    struct aw_model_record record;
    float load_per_s[AW_REHEARSE_MINUTES_MAX]; /* ring of minutes */

    double cost_reference_per_hour; /* $; 0: not known yet */
    double lambda;
    double violation_share;                      /* of the agent's episodes, faded; NAN: none yet */
    double better_mean, better_low, better_high; /* than the fallback, per episode; NAN: unknown */
    double rehearsed_load;                       /* requests/s, the highest; 0: none */

    /* of the episode so far */
    double gain_sum, cost_sum, need_sum;
    double minute_sum; /* of loads of the minute so far */
    uint32_t minute_steps, minute_count;
    uint32_t rows, next_rows; /* steps that told something; how many make the next search due */
    uint32_t loaded, missed;  /* since the last search: steps with load, of them violations */
    uint32_t step_count, violation_count, agent_steps;

    uint32_t episode, step;
    uint32_t learn_from; /* first episode that is still believed */
    uint32_t learn_due;

    /* the step in flight */
    uint32_t in_flight;
    uint32_t actor, stage;
    uint32_t has_shadow;
    uint32_t away; /* the agent has acted, and sizes are not back yet */
    int64_t at_us;
    uint64_t model;
    uint64_t formula_id; /* 0: there is no policy yet */

    /* sizes under the fallback, to go back to when it takes over again */
    int64_t home_cpu_millicores, home_memory_bytes;
    float obs[S_MAX + 1]; /* + 1: a multiple of 8 */
    float action_taken[AW_ACTION_DIM + 1];
    float shadow[AW_ACTION_DIM + 1];
};
#pragma GCC diagnostic pop

struct aw_pilot {
    struct aw_pilot_config config;
    struct aw_state state;
    struct aw_action action;
    struct aw_objective objective;
    struct aw_guard guard;
    struct aw_lifecycle lifecycle;
    int64_t step_us, stale_us;
    uint32_t obs_dim;

    struct memory memory;
    struct aw_formula_values formula; /* of memory.formula */
    struct aw_policy_task task;
    struct aw_policy *policy;
    struct aw_actnet actor;
    struct aw_learner *learner; /* NULL: nothing to learn now */

    /* of this tick */
    struct aw_sample sample; /* its pods are `pods` */
    struct aw_pod *pods;     /* [pods_max]; a cluster's own live only until its next call */
    uint32_t pods_max;
    bool answered; /* the cluster did */
    uint32_t restarts;
    float obs[S_MAX];      /* present */
    float obs_last[S_MAX]; /* of the finished step, for its row */
    float action_last[AW_ACTION_DIM], shadow_last[AW_ACTION_DIM];
    struct aw_score score;
    double gain;
    bool finished; /* a step was, in this tick */
    bool moved;
    struct aw_lifecycle_reason stay;
    struct aw_decision decision;
    const struct aw_alloc *alloc;
};

const char *const aw_pilot_agent_names[] = {"formula", "network", NULL};

/* --- made and ended --------------------------------------------------------------------------- */

void aw_pilot_config_init(struct aw_pilot_config *config)
{
    memset(config, 0, sizeof *config);
    config->controlled = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY;
    config->slo.timeout_us = 30e6;
    config->slo_quantile = 0.99;
    config->slo_budget = 0.01;
    config->slo_weight = 0.5;
    config->prices = (struct aw_prices){.core_hour = 0.04, .gib_hour = 0.005};
    config->step_s = 15;
    config->stale_s = 120;
    config->episode_steps = 100;
    config->learning = config->retrain = true;
    config->explore_sigma = 0.1;
    config->explore_hold = 4;
    config->lambda = 10;
    config->level = 0.8;
    config->thresholds = (struct aw_lifecycle_thresholds){NAN, NAN, NAN};
    aw_conf_defaults(aw_policy_fields, &config->fallback);
    aw_conf_defaults(aw_guard_fields, &config->guard);
    aw_conf_defaults(aw_watchdog_fields, &config->watchdog);
    aw_conf_defaults(aw_lifecycle_fields, &config->lifecycle);
    aw_conf_defaults(aw_learner_fields, &config->learner);
    aw_conf_defaults(aw_ope_fields, &config->learner.ope);
    aw_conf_defaults(aw_rehearse_fields, &config->rehearse);
    config->watchdog.slack = SLACK;
    config->fallback.kind = AW_POLICY_HPA_VPA_MEM;
    config->guard.mode = AW_GUARD_AUTO;
}

/* Without bootstrapping a policy acts from the first tick on that has learned nothing: numbers, or
 * weights, drawn from the seed. */
static enum aw_err begin_untrained(struct aw_pilot *pilot)
{
    struct aw_rng rng;
    aw_rng_init(&rng, pilot->config.seed, UNTRAINED_STREAM);
    for (uint32_t i = 0; i < AW_FORMULA_DIM; i++)
        pilot->memory.formula.x[i] = aw_rng_double(&rng);
    pilot->memory.formula_id = aw_formula_id(&pilot->memory.formula);
    aw_formula_decode(&pilot->memory.formula, &pilot->formula);
    aw_actnet_init_weights(&pilot->actor, 0, &rng);
    return aw_actnet_seal(&pilot->actor);
}

enum aw_err aw_pilot_new(const struct aw_pilot_config *config, const struct aw_policy_task *task,
                         int64_t now_us, const struct aw_alloc *alloc, struct aw_pilot **ret_pilot,
                         struct aw_diag *diag)
{
    struct aw_pilot *pilot = aw_alloc_new(alloc, 1, sizeof *pilot);
    if (!pilot)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for workload %s", config->name);
    pilot->config = *config;
    pilot->alloc = alloc;
    pilot->step_us = (int64_t)llround(config->step_s * 1e6);
    pilot->stale_us = (int64_t)llround(config->stale_s * 1e6);
    pilot->obs_dim = aw_state_dim(config->state);
    aw_state_init(&pilot->state, &(struct aw_state_config){.preset = config->state,
                                                           .bounds = config->bounds,
                                                           .slo = config->slo,
                                                           .disk_bytes_per_s_max = 200 * 1048576.0,
                                                           .net_bytes_per_s_max = 125 * 1048576.0});
    const bool network = config->agent == AW_PILOT_NETWORK;
    aw_action_init(&pilot->action, &(struct aw_action_config){.mapping = config->mapping,
                                                              .bounds = config->bounds,
                                                              .window = 20,
                                                              .oom_steps = 100,
                                                              .deadband = config->guard.deadband,
                                                              .guard = true});
    pilot->objective = (struct aw_objective){.kind = config->objective,
                                             .slo_weight = config->slo_weight,
                                             .slo = config->slo,
                                             .prices = config->prices,
                                             .cost_reference_per_hour = 1};
    pilot->config.watchdog.slo_budget = config->slo_budget;
    pilot->config.watchdog.stale = config->stale_s;
    enum aw_err err = aw_guard_init(&pilot->guard, &config->guard, &config->bounds, diag);
    err = err ? err
              : aw_lifecycle_init(&pilot->lifecycle, &config->lifecycle, &config->thresholds, diag);
    err = err ? err : aw_policy_new(&config->fallback, task, alloc, &pilot->policy, diag);
    /* a rollout may have as many again beside those that it replaces */
    pilot->pods_max = config->bounds.replicas_max < AW_CLUSTER_PODS_MAX / 2
                          ? 2 * config->bounds.replicas_max
                          : AW_CLUSTER_PODS_MAX;
    if (!err && !(pilot->pods = aw_alloc_new(alloc, pilot->pods_max, sizeof *pilot->pods)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for workload %s", config->name);
    if (!err)
        err = aw_actnet_init(
            &pilot->actor,
            &(struct aw_actnet_shape){.obs_dim = pilot->obs_dim,
                                      .act_dim = AW_ACTION_DIM,
                                      .hidden = network ? config->learner.hidden : 1},
            alloc);
    if (err) {
        aw_pilot_free(pilot);
        return err;
    }
    struct memory *memory = &pilot->memory;
    pilot->task = *task;
    aw_formula_plain(&memory->formula);
    aw_formula_decode(&memory->formula, &pilot->formula);
    aw_formula_begin(&memory->formula_memory);
    aw_model_begin(&memory->record);
    memory->next_rows = SEARCH_ROWS;
    aw_state_begin(&memory->state);
    aw_action_begin(&memory->action);
    aw_guard_begin(&memory->guard);
    aw_watchdog_begin(&memory->watchdog, now_us);
    aw_familiar_begin(&memory->familiar, pilot->obs_dim);
    aw_lifecycle_begin(&pilot->lifecycle, &memory->lifecycle, &pilot->stay);
    pilot->moved = true;
    memory->lambda = config->lambda;
    memory->violation_share = NAN;
    memory->better_mean = memory->better_low = memory->better_high = NAN;
    memory->reading.replicas_wanted = task->replicas;
    memory->reading.cpu_millicores_wanted = task->cpu_millicores;
    memory->reading.memory_bytes_wanted = task->memory_bytes;
    if (config->learning && !config->lifecycle.bootstrap && (err = begin_untrained(pilot))) {
        aw_pilot_free(pilot);
        return aw_fail(diag, err, "no first policy for workload %s", config->name);
    }
    *ret_pilot = pilot;
    return AW_OK;
}

void aw_pilot_free(struct aw_pilot *pilot)
{
    if (!pilot)
        return;
    aw_learner_free(pilot->learner);
    aw_actnet_deinit(&pilot->actor);
    aw_policy_free(pilot->policy);
    aw_alloc_free(pilot->alloc, pilot->pods);
    aw_alloc_free(pilot->alloc, pilot);
}

/* --- seeing ----------------------------------------------------------------------------------- */

/* A cluster that did not answer leaves everything unknown but what was asked of it. */
static struct aw_sample nothing_known(const struct aw_reading *last, int64_t now_us)
{
    const struct aw_figure unknown = {.at_us = AW_NEVER};
    return (struct aw_sample){
        .at_us = now_us,
        .replicas_wanted = last->replicas_wanted,
        .cpu_millicores_wanted = last->cpu_millicores_wanted,
        .memory_bytes_wanted = last->memory_bytes_wanted,
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
    };
}

static void see(struct aw_pilot *pilot, const struct aw_sample *sample, int64_t now_us)
{
    pilot->answered = sample != NULL;
    pilot->sample = sample ? *sample : nothing_known(&pilot->memory.reading, now_us);
    pilot->restarts = pilot->sample.restarts;
    if (pilot->sample.pod_count > pilot->pods_max)
        pilot->sample.pod_count = pilot->pods_max;
    if (pilot->sample.pod_count > 0) /* others are observed before this one decides */
        memcpy(pilot->pods, pilot->sample.pods, pilot->sample.pod_count * sizeof *pilot->pods);
    pilot->sample.pods = pilot->pods;
    /* whichever quantile the SLO speaks of takes the place of the 99th behind the wall */
    if (pilot->config.slo_quantile < 0.9)
        pilot->sample.latency_us_p99 = pilot->sample.latency_us_p50;
    else if (pilot->config.slo_quantile < 0.97)
        pilot->sample.latency_us_p99 = pilot->sample.latency_us_p95;
    aw_reading_take(&pilot->sample, pilot->stale_us, &pilot->memory.reading);
}

/* What counts as cost 1: what the workload was given when it came. */
static double reference_cost(const struct aw_pilot *pilot)
{
    const struct aw_reading *reading = &pilot->memory.reading;
    const double cores = 1e-3 * (double)reading->cpu_millicores_wanted * reading->replicas_wanted;
    const double gib =
        (double)reading->memory_bytes_wanted * reading->replicas_wanted / 1073741824.0;
    const double cost =
        cores * pilot->config.prices.core_hour + gib * pilot->config.prices.gib_hour;
    return cost > 0 ? cost : 1;
}

/* The objective without the SLO, from what a store keeps: so that what is recalled from there is
 * what was seen. */
static double gain_of(const struct aw_pilot *pilot, double cost, double paper_reward)
{
    if (pilot->config.objective == AW_OBJECTIVE_PAPER)
        return paper_reward;
    const double reference = pilot->memory.cost_reference_per_hour * pilot->config.step_s / 3600;
    return -fmin(GAIN_MAX, cost / reference);
}

static double weight(const struct aw_pilot *pilot, double lambda)
{
    return pilot->config.objective == AW_OBJECTIVE_PAPER ? 0 : lambda;
}

/* --- an episode has ended --------------------------------------------------------------------- */

static void follow_budget(struct aw_pilot *pilot)
{
    struct memory *memory = &pilot->memory;
    const double share = (double)memory->violation_count / memory->step_count;
    memory->violation_share = isnan(memory->violation_share)
                                  ? share
                                  : SHARE_FADE * memory->violation_share + (1 - SHARE_FADE) * share;
    memory->lambda = aw_lambda_next(memory->lambda, pilot->config.slo_budget,
                                    memory->violation_share, LAMBDA_RATE);
}

/* What the policy would earn now: what the fallback does of late, and what it is better by. */
static struct aw_lifecycle_estimate estimate_now(const struct memory *memory)
{
    const struct aw_lifecycle_ring *ring = &memory->lifecycle.fallback;
    double past = ring->count ? 0 : NAN;
    for (uint32_t i = 0; i < ring->count; i++)
        past += ring->score[i] / ring->count;
    return (struct aw_lifecycle_estimate){past + memory->better_mean, past + memory->better_low,
                                          past + memory->better_high};
}

/* What an episode was worth, at one weight of the SLO for ever: its cost over what its load needed,
 * so that a busy hour can be compared with a quiet one. */
static double episode_score(const struct aw_pilot *pilot, double cost, double need,
                            double violation_share)
{
    const double ratio = need > 0 ? fmin(GAIN_MAX, cost / need) : 0;
    return -(double)pilot->config.episode_steps * (ratio + pilot->config.lambda * violation_share);
}

/* New figures, or a policy that no longer fits. */
static bool search_due(const struct memory *memory)
{
    return memory->rows >= memory->next_rows ||
           (memory->loaded >= MISSED_WINDOW && memory->formula_id &&
            (uint64_t)memory->missed * MISSED_WINDOW >= (uint64_t)MISSED_MANY * memory->loaded);
}

static void end_episode(struct aw_pilot *pilot)
{
    struct memory *memory = &pilot->memory;
    const enum aw_stage before = (enum aw_stage)memory->lifecycle.stage;
    const double violations = (double)memory->violation_count / memory->step_count;
    const struct aw_lifecycle_episode episode = {
        .score = pilot->config.objective == AW_OBJECTIVE_PAPER
                     ? memory->gain_sum * pilot->config.episode_steps / memory->step_count
                     : episode_score(pilot, memory->cost_sum, memory->need_sum, violations),
        .agent_share = (double)memory->agent_steps / memory->step_count,
    };
    const struct aw_lifecycle_estimate estimate = estimate_now(memory);
    if (episode.agent_share >= AW_LIFECYCLE_AGENT_SHARE)
        follow_budget(pilot);
    if (pilot->config.learning && (pilot->config.retrain || before != AW_STAGE_SERVING)) {
        if (aw_lifecycle_episode(&pilot->lifecycle, &memory->lifecycle, &episode, &estimate,
                                 &pilot->stay))
            pilot->moved = true;
        const enum aw_stage now = (enum aw_stage)memory->lifecycle.stage;
        if (before == AW_STAGE_SERVING && now != AW_STAGE_SERVING) { /* it drifted */
            memory->learn_from =
                memory->episode + 1 > DRIFT_EPISODES ? memory->episode + 1 - DRIFT_EPISODES : 0;
            aw_model_doubt(&memory->record, DOUBT);
            memory->next_rows = memory->rows;
        }
        /* a network learns while the stage says so; a search explores nothing, so it goes on, more
         * and more rarely, while the policy serves */
        memory->learn_due = pilot->config.agent == AW_PILOT_NETWORK
                                ? aw_lifecycle_agent_learns(&memory->lifecycle)
                                : search_due(memory);
        if (!memory->learn_due) { /* what serves needs no learner */
            aw_learner_free(pilot->learner);
            pilot->learner = NULL;
        }
    }
    if (pilot->learner)
        aw_learner_end(pilot->learner);
    memory->gain_sum = memory->cost_sum = memory->need_sum = 0;
    memory->step_count = memory->violation_count = memory->agent_steps = 0;
    memory->episode++;
    memory->step = 0;
}

/* What copies of the workload are made from, and the load they are tried on. */
static void remember(struct aw_pilot *pilot)
{
    struct memory *memory = &pilot->memory;
    if (!pilot->config.learning || pilot->config.agent != AW_PILOT_FORMULA)
        return;
    const struct aw_reading *reading = &memory->reading;
    if (pilot->answered)
        aw_model_add(&memory->record, &pilot->sample, reading);
    if (reading->arrivals_per_s > 0) {
        const bool settled =
            !reading->rollout && reading->replicas_ready >= reading->replicas_wanted;
        const double limit = 3 * pilot->config.slo.latency_us_p99;
        memory->rows += settled && (limit <= 0 || pilot->score.latency_us_p99 < limit);
        memory->loaded++;
        memory->missed += pilot->score.violated;
    }
    if (isnan(memory->reading.arrivals_per_s))
        return;
    memory->minute_sum += memory->reading.arrivals_per_s;
    memory->minute_steps++;
    if (memory->minute_steps * pilot->config.step_s >= 60) {
        memory->load_per_s[memory->minute_count++ % AW_REHEARSE_MINUTES_MAX] =
            (float)(memory->minute_sum / memory->minute_steps);
        memory->minute_sum = 0;
        memory->minute_steps = 0;
    }
}

/* --- a tick ----------------------------------------------------------------------------------- */

bool aw_pilot_observe(struct aw_pilot *pilot, const struct aw_sample *sample, int64_t now_us,
                      struct aw_store_row *ret_row)
{
    struct memory *memory = &pilot->memory;
    see(pilot, sample, now_us);
    if (memory->cost_reference_per_hour <= 0)
        memory->cost_reference_per_hour = reference_cost(pilot);
    pilot->objective.cost_reference_per_hour = memory->cost_reference_per_hour;

    const struct aw_outcome outcome = aw_outcome_of(&memory->reading);
    aw_objective_score(&pilot->objective, &outcome, pilot->config.step_s, &pilot->score);
    pilot->gain = gain_of(pilot, pilot->score.cost, pilot->score.paper_reward);
    aw_action_observe(&pilot->action, &memory->action, &memory->reading);
    remember(pilot);
    aw_state_encode(&pilot->state, &memory->state, &memory->reading, &pilot->score, pilot->obs);
    pilot->finished = memory->in_flight;
    if (!memory->in_flight)
        return false;
    memory->in_flight = 0;

    memcpy(pilot->obs_last, memory->obs, sizeof pilot->obs_last);
    memcpy(pilot->action_last, memory->action_taken, sizeof pilot->action_last);
    memcpy(pilot->shadow_last, memory->shadow, sizeof pilot->shadow_last);
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
        .model = memory->model,
        .obs_dim = pilot->obs_dim,
        .act_dim = AW_ACTION_DIM,
        .obs = pilot->obs_last,
        .action = pilot->action_last,
        .shadow = memory->has_shadow ? pilot->shadow_last : NULL,
        .reward = (float)(pilot->gain - weight(pilot, memory->lambda) * pilot->score.violated),
        .next_obs = pilot->obs,
        .truncated = last,
        .figures = {.arrivals_per_s = memory->reading.arrivals_per_s,
                    .latency_us_p99 = pilot->score.latency_us_p99,
                    .slo_preservation = pilot->score.sp,
                    .cpu_utilisation = pilot->score.cpu_utilisation,
                    .memory_utilisation = pilot->score.memory_utilisation,
                    .cost = pilot->score.cost,
                    .paper_reward = pilot->score.paper_reward,
                    .replicas = memory->reading.replicas_wanted,
                    .violated = pilot->score.violated,
                    .cpu_millicores = memory->reading.cpu_millicores_wanted,
                    .memory_bytes = memory->reading.memory_bytes_wanted},
    };
    if (pilot->learner) {
        const enum aw_err err = aw_learner_add(
            pilot->learner, &(struct aw_learner_step){.obs = pilot->obs_last,
                                                      .action = pilot->action_last,
                                                      .next_obs = pilot->obs,
                                                      .gain = pilot->gain,
                                                      .violated = pilot->score.violated});
        AW_ASSERT(!err); /* the wall of reading and state lets nothing else through */
    }
    memory->step++;
    if (last)
        end_episode(pilot);
    return true;
}

/* All three amounts: what the plan sets, and what is wanted already. */
static struct aw_plan whole(const struct aw_plan *plan, const struct aw_reading *reading)
{
    return (struct aw_plan){
        .set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
        .replicas = plan->set & AW_PLAN_REPLICAS ? plan->replicas : reading->replicas_wanted,
        .cpu_millicores =
            plan->set & AW_PLAN_CPU ? plan->cpu_millicores : reading->cpu_millicores_wanted,
        .memory_bytes =
            plan->set & AW_PLAN_MEMORY ? plan->memory_bytes : reading->memory_bytes_wanted,
    };
}

/* What a kind of fallback decides itself. */
static uint32_t decides(uint32_t kind)
{
    switch (kind) {
    case AW_POLICY_STATIC:
        return 0;
    case AW_POLICY_HPA:
        return AW_PLAN_REPLICAS;
    case AW_POLICY_VPA:
        return AW_PLAN_CPU | AW_PLAN_MEMORY;
    case AW_POLICY_HPA_VPA_MEM:
        return AW_PLAN_REPLICAS | AW_PLAN_MEMORY;
    default:
        return AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY;
    }
}

/* The fallback takes over a workload of another size than it left. What it does not decide itself
 * goes back to what it was: an HPA tuned for pods of one core does not know pods of a tenth. */
static void go_home(struct aw_pilot *pilot, struct aw_plan *plan)
{
    struct memory *memory = &pilot->memory;
    const struct aw_reading *reading = &memory->reading;
    const uint32_t own = decides(pilot->config.fallback.kind);
    if (memory->home_cpu_millicores <= 0 || !memory->away) {
        memory->home_cpu_millicores = reading->cpu_millicores_wanted;
        memory->home_memory_bytes = reading->memory_bytes_wanted;
        return;
    }
    bool there = true;
    if (!(own & AW_PLAN_CPU) && reading->cpu_millicores_wanted != memory->home_cpu_millicores) {
        plan->set |= AW_PLAN_CPU;
        plan->cpu_millicores = memory->home_cpu_millicores;
        there = false;
    }
    if (!(own & AW_PLAN_MEMORY) && reading->memory_bytes_wanted < memory->home_memory_bytes) {
        plan->set |= AW_PLAN_MEMORY;
        plan->memory_bytes = memory->home_memory_bytes;
        there = false;
    }
    memory->away = !there;
}

/* A departure from the policy that lasts `explore_hold` steps; a function of where we are in time,
 * so that nothing need be remembered. */
static void explore(const struct aw_pilot *pilot, float *action)
{
    const struct memory *memory = &pilot->memory;
    const uint32_t hold = pilot->config.explore_hold ? pilot->config.explore_hold : 1;
    const uint64_t when = ((uint64_t)memory->episode << 32) | (memory->step / hold);
    struct aw_rng rng;
    aw_rng_init(&rng, pilot->config.seed ^ (when * 0x9e3779b97f4a7c15u), EXPLORE_STREAM);
    for (uint32_t i = 0; i < AW_ACTION_DIM; i++) {
        const double a = (double)action[i] + pilot->config.explore_sigma * aw_rng_normal(&rng);
        action[i] = (float)fmin(1, fmax(-1, a));
    }
}

/* How far the state is from what was learned on. A network knows the states it has seen. A formula
 * scales with the load; strange to it is a load far beyond any that it was tried on. */
static double distance(const struct aw_pilot *pilot)
{
    const struct memory *memory = &pilot->memory;
    if (pilot->config.agent != AW_PILOT_FORMULA)
        return aw_familiar_distance(&memory->familiar, pilot->obs);
    if (memory->rehearsed_load <= 0 || isnan(memory->reading.arrivals_per_s))
        return NAN;
    return pilot->config.watchdog.strange * memory->reading.arrivals_per_s /
           (STRANGE_LOAD * memory->rehearsed_load);
}

static enum aw_guard_slo slo_now(const struct aw_pilot *pilot)
{
    const struct aw_slo *slo = &pilot->config.slo;
    const struct aw_reading *reading = &pilot->memory.reading;
    if (slo->latency_us_p99 <= 0 && slo->throughput_per_s <= 0)
        return AW_GUARD_SLO_MET;
    if (pilot->score.violated)
        return AW_GUARD_SLO_MISSED;
    return isnan(reading->arrivals_per_s) ? AW_GUARD_SLO_UNKNOWN : AW_GUARD_SLO_MET;
}

const struct aw_decision *aw_pilot_decide(struct aw_pilot *pilot, int64_t now_us)
{
    struct memory *memory = &pilot->memory;
    const struct aw_reading *reading = &memory->reading;
    struct aw_decision *out = &pilot->decision;
    *out = (struct aw_decision){
        .at_us = now_us,
        .episode = memory->episode,
        .step = memory->step,
        .model = pilot->config.agent == AW_PILOT_FORMULA ? memory->formula_id : pilot->actor.id,
        .reading = *reading,
        .score = pilot->score,
        .gain = pilot->gain,
        .lambda = memory->lambda,
        .stay = pilot->stay,
        .moved = pilot->moved,
        .estimate = estimate_now(memory)};
    pilot->moved = false;
    const enum aw_guard_slo slo = slo_now(pilot);
    const struct aw_guard_input rails = {.reading = reading,
                                         .restarts = pilot->restarts,
                                         .slo = slo,
                                         .in_place = pilot->config.in_place,
                                         .uncontrolled =
                                             (AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY) &
                                             ~pilot->config.controlled,
                                         .node_cpu_millicores = pilot->config.node_cpu_millicores,
                                         .node_memory_bytes = pilot->config.node_memory_bytes};
    aw_guard_observe(&pilot->guard, &memory->guard, &rails, now_us);

    struct aw_plan by_fallback, by_agent;
    float fallback[AW_ACTION_DIM], agent[AW_ACTION_DIM] = {0};
    aw_policy_decide(pilot->policy, &pilot->sample, now_us, &by_fallback, &out->fallback);
    const struct aw_plan all = whole(&by_fallback, reading);
    aw_action_from_plan(&pilot->action, &memory->action, &all, fallback);

    const bool formula = pilot->config.agent == AW_PILOT_FORMULA;
    const bool has_agent = (formula ? memory->formula_id : pilot->actor.id) != 0;
    bool finite = has_agent;
    if (formula) {
        const struct aw_formula_task task = {pilot->config.bounds, pilot->config.slo_budget};
        aw_formula_decide(&pilot->formula, &task, &memory->formula_memory, reading,
                          pilot->score.violated, pilot->finished && memory->actor == AW_ACTOR_AGENT,
                          &by_agent);
        aw_action_from_plan(&pilot->action, &memory->action, &by_agent, agent);
    } else {
        finite = has_agent && !aw_actnet_act(&pilot->actor, pilot->obs, agent);
    }
    const struct aw_watchdog_input watch = {
        .last_actor = pilot->finished ? (enum aw_actor)memory->actor : AW_ACTOR_NOBODY,
        .last_slo = (enum aw_watchdog_slo)slo,
        .last_extra_cost = NAN,
        .wanted = has_agent && aw_lifecycle_agent_acts(&memory->lifecycle),
        .finite = finite,
        .age_s = reading->age_s,
        .distance = distance(pilot),
        .took_s = 0,
    };
    out->verdict = aw_watchdog_step(&pilot->config.watchdog, &memory->watchdog, &watch, now_us,
                                    &out->watchdog);
    if (out->verdict == AW_WATCHDOG_TRIPPED && out->watchdog.cause == AW_WATCHDOG_CAUSE_STRANGE)
        memory->next_rows = memory->rows; /* to be tried on what is there now */
    if (out->verdict == AW_WATCHDOG_TRIPPED && aw_watchdog_cause_fault(out->watchdog.cause) &&
        aw_lifecycle_trip(&pilot->lifecycle, &memory->lifecycle, now_us, &out->stay))
        out->moved = true;

    out->stage = (enum aw_stage)memory->lifecycle.stage;
    out->actor = AW_ACTOR_FALLBACK;
    if (watch.wanted && out->verdict == AW_WATCHDOG_PASS &&
        aw_lifecycle_agent_acts(&memory->lifecycle)) {
        out->actor = AW_ACTOR_AGENT;
        if (!formula && out->stage == AW_STAGE_ONLINE && pilot->config.explore_sigma > 0 &&
            aw_explore_allowed(&pilot->config.watchdog, &memory->watchdog)) {
            out->actor = AW_ACTOR_EXPLORING;
            explore(pilot, agent);
        }
    }
    const bool agent_acts = out->actor != AW_ACTOR_FALLBACK;
    if (out->stage != AW_STAGE_SERVING) /* what it sees while it learns is what it knows */
        aw_familiar_push(&memory->familiar, pilot->obs);
    if (finite && !formula)
        aw_action_plan(&pilot->action, &memory->action, reading, agent, &by_agent);

    if (agent_acts)
        memory->away = 1;
    else
        go_home(pilot, &by_fallback);
    struct aw_plan proposed = agent_acts ? by_agent : by_fallback;
    proposed.set &= pilot->config.controlled;
    aw_guard_pass(&pilot->guard, &memory->guard, &rails, &proposed, now_us, &out->guard);
    memcpy(out->action, agent_acts ? agent : fallback, sizeof out->action);
    memcpy(out->shadow, agent_acts ? fallback : agent, sizeof out->shadow);
    out->has_shadow = agent_acts || finite;

    /* what a learner is told: the action as it came through, or what comes nearest to it */
    float taken[AW_ACTION_DIM];
    memcpy(taken, out->action, sizeof taken);
    if (out->guard.clips) {
        const struct aw_plan carried = whole(&out->guard.plan, reading);
        aw_action_from_plan(&pilot->action, &memory->action, &carried, taken);
    }
    memory->in_flight = 1;
    memory->actor = out->actor;
    memory->stage = out->stage;
    memory->has_shadow = out->has_shadow;
    memory->at_us = now_us;
    memory->model = out->model;
    memcpy(memory->obs, pilot->obs, pilot->obs_dim * sizeof *memory->obs);
    memcpy(memory->action_taken, taken, sizeof taken);
    memcpy(memory->shadow, out->shadow, sizeof out->shadow);
    return out;
}

void aw_pilot_applied(struct aw_pilot *pilot, bool taken, int64_t now_us)
{
    pilot->decision.applied = taken;
    if (taken)
        aw_guard_applied(&pilot->guard, &pilot->memory.guard, &pilot->decision.guard.plan, now_us);
}

/* --- learning --------------------------------------------------------------------------------- */

bool aw_pilot_learn_due(const struct aw_pilot *pilot)
{
    return pilot->memory.learn_due;
}

static enum aw_err recall_row(void *ctx, const struct aw_store_row *row)
{
    struct aw_pilot *pilot = ctx;
    if (row->obs_dim != pilot->obs_dim || row->act_dim != AW_ACTION_DIM)
        return AW_OK; /* of another task; it says nothing to this one */
    enum aw_err err = aw_learner_add(
        pilot->learner, &(struct aw_learner_step){
                            .obs = row->obs,
                            .action = row->action,
                            .next_obs = row->next_obs,
                            .gain = gain_of(pilot, row->figures.cost, row->figures.paper_reward),
                            .violated = row->figures.violated,
                        });
    if (!err && (row->truncated || row->terminated))
        aw_learner_end(pilot->learner);
    return err;
}

enum aw_err aw_pilot_recall(struct aw_pilot *pilot, struct aw_store *store, struct aw_diag *diag)
{
    if (pilot->learner)
        return AW_OK;
    enum aw_err err =
        aw_learner_new(&(struct aw_learner_shape){.obs_dim = pilot->obs_dim,
                                                  .act_dim = AW_ACTION_DIM,
                                                  .episode_steps = pilot->config.episode_steps},
                       &pilot->config.learner, pilot->alloc, &pilot->learner, diag);
    if (err || !store)
        return err;
    const uint32_t now = pilot->memory.episode, keep = pilot->config.learner.episodes;
    uint32_t first = now > keep ? now - keep : 0;
    first = first > pilot->memory.learn_from ? first : pilot->memory.learn_from;
    struct aw_store_query query = AW_STORE_EVERY;
    query.workload = pilot->config.name;
    query.episode_first = first;
    /* rows of a life that was killed and is being lived again lie ahead; they are not the past yet
     */
    query.episode_last = now ? now - 1 : 0;
    if (now == 0)
        return AW_OK;
    err = aw_store_scan(store, &query, recall_row, pilot, diag);
    if (err) {
        aw_learner_free(pilot->learner);
        pilot->learner = NULL;
    }
    return err;
}

/* The latest minutes of load, oldest first. Returns how many. */
static uint32_t past_load(const struct memory *memory, float *ret)
{
    uint32_t minutes = memory->minute_count;
    minutes = minutes < SEARCH_MINUTES ? minutes : SEARCH_MINUTES;
    for (uint32_t i = 0; i < minutes; i++)
        ret[i] = memory->load_per_s[(memory->minute_count - minutes + i) % AW_REHEARSE_MINUTES_MAX];
    return minutes;
}

static double score_of(const struct aw_pilot *pilot, const struct aw_rehearsed *rehearsed)
{
    return episode_score(pilot, rehearsed->cost_per_hour, rehearsed->need_per_hour,
                         rehearsed->violation_share);
}

/* What the policy would earn per episode. The copies are asked for the difference to the fallback
 * alone, whose own episodes are on record: what they get wrong of both is wrong of neither. */
static enum aw_err estimate_formula(struct aw_pilot *pilot, struct aw_rehearsal *rehearsal,
                                    uint64_t seed, struct aw_diag *diag)
{
    struct memory *memory = &pilot->memory;
    struct aw_rehearsed by_formula[AW_REHEARSE_COPIES_MAX], by_fallback[AW_REHEARSE_COPIES_MAX];
    struct aw_policy *policy = NULL;
    struct aw_policy_task task = pilot->task;
    task.replicas = memory->reading.replicas_wanted;
    task.cpu_millicores = memory->reading.cpu_millicores_wanted;
    task.memory_bytes = memory->reading.memory_bytes_wanted;
    enum aw_err err = aw_policy_new(&pilot->config.fallback, &task, pilot->alloc, &policy, diag);
    err = err ? err : aw_rehearsal_play(rehearsal, &memory->formula, seed, by_formula);
    err = err ? err : aw_rehearsal_play_fallback(rehearsal, policy, seed, by_fallback);
    aw_policy_free(policy);
    if (err)
        return err;
    const uint32_t copies = aw_rehearsal_copies(rehearsal);
    double mean = 0, square = 0;
    for (uint32_t i = 0; i < copies; i++)
        mean += (score_of(pilot, &by_formula[i]) - score_of(pilot, &by_fallback[i])) / copies;
    for (uint32_t i = 0; i < copies; i++) {
        const double off =
            score_of(pilot, &by_formula[i]) - score_of(pilot, &by_fallback[i]) - mean;
        square += off * off / copies;
    }
    const double error = sqrt(square + ESTIMATE_DOUBT * ESTIMATE_DOUBT * mean * mean);
    memory->better_mean = mean;
    memory->better_low = mean - ESTIMATE_WIDTH * error;
    memory->better_high = mean + ESTIMATE_WIDTH * error;
    return AW_OK;
}

static enum aw_err learn_formula(struct aw_pilot *pilot, struct aw_diag *diag)
{
    struct memory *memory = &pilot->memory;
    const struct aw_pilot_config *config = &pilot->config;
    memory->loaded = memory->missed = 0;
    /* half as many again: every new policy costs a rollout */
    memory->next_rows =
        memory->rows + (memory->rows > SEARCH_ROWS ? memory->rows : SEARCH_ROWS) / 2;
    float load[SEARCH_MINUTES];
    const uint64_t seed = config->seed ^ ((uint64_t)memory->episode << 32);
    const struct aw_reading *reading = &memory->reading;
    const struct aw_rehearse_config rehearse = {
        .settings = config->rehearse,
        .bounds = config->bounds,
        .slo = config->slo,
        .prices = config->prices,
        .budget = config->slo_budget,
        .step_s = config->step_s,
        .stale_s = config->stale_s,
        .guard = config->guard,
        .node_cpu_millicores = config->node_cpu_millicores,
        .node_memory_bytes = config->node_memory_bytes,
        .in_place = config->in_place,
        .start = {.replicas = reading->replicas_wanted,
                  .cpu_millicores = reading->cpu_millicores_wanted,
                  .memory_bytes = reading->memory_bytes_wanted},
        .record = &memory->record,
        .load_per_s = load,
        .minutes = past_load(memory, load),
        .minutes_seen = memory->minute_count,
        .seed = seed,
    };
    memory->rehearsed_load = 0;
    for (uint32_t i = 0; i < rehearse.minutes; i++)
        memory->rehearsed_load = fmax(memory->rehearsed_load, (double)load[i]);
    struct aw_rehearsal *rehearsal = NULL;
    enum aw_err err = aw_rehearsal_new(&rehearse, pilot->alloc, &rehearsal, diag);
    if (err == AW_ERR_NODATA) { /* the next episode may tell more */
        memory->next_rows = memory->rows + SEARCH_ROWS / 2;
    }
    if (err)
        return err;
    const struct aw_formula *known = memory->formula_id ? &memory->formula : NULL;
    struct aw_formula found;
    struct aw_rehearsed each[AW_REHEARSE_COPIES_MAX];
    double value = 0, before = INFINITY;
    err = aw_rehearsal_search(rehearsal, known, seed, &found, &value);
    if (!err && known) {
        err = aw_rehearsal_play(rehearsal, known, seed + ESTIMATE_STREAM, each);
        if (!err)
            before = aw_rehearsal_value(rehearsal, each);
    }
    double misses = 0;
    err = err ? err : aw_rehearsal_play(rehearsal, &found, seed + ESTIMATE_STREAM, each);
    for (uint32_t i = 0; !err && i < aw_rehearsal_copies(rehearsal); i++)
        misses = fmax(misses, each[i].violation_share);
    if (!err && value < before - SEARCH_GAIN && misses < SEARCH_MISSES * config->slo_budget) {
        memory->formula = found;
        memory->formula_id = aw_formula_id(&found);
        aw_formula_decode(&found, &pilot->formula);
        aw_formula_changed(&memory->formula_memory);
    }
    if (!err && memory->formula_id)
        err = estimate_formula(pilot, rehearsal, seed + ESTIMATE_STREAM, diag);
    aw_rehearsal_free(rehearsal);
    return err;
}

enum aw_err aw_pilot_learn(struct aw_pilot *pilot, struct aw_diag *diag)
{
    struct memory *memory = &pilot->memory;
    memory->learn_due = 0;
    if (pilot->config.agent == AW_PILOT_FORMULA)
        return learn_formula(pilot, diag);
    AW_ASSERT(pilot->learner);
    const uint32_t believed = memory->episode - memory->learn_from;
    aw_learner_forget(pilot->learner, believed);
    const uint64_t seed = pilot->config.seed ^ ((uint64_t)memory->episode << 32);
    const enum aw_learner_round kind =
        memory->lifecycle.stage == AW_STAGE_OFFLINE ? AW_LEARNER_OFFLINE : AW_LEARNER_ONLINE;
    enum aw_err err = aw_learner_round(pilot->learner, kind, weight(pilot, memory->lambda), seed,
                                       &pilot->actor, NULL, diag);
    if (err || kind == AW_LEARNER_ONLINE)
        return err;
    struct aw_ope_estimate estimate;
    err = aw_learner_estimate(pilot->learner, &pilot->actor, weight(pilot, pilot->config.lambda),
                              pilot->config.level, seed + ESTIMATE_STREAM, &estimate, diag);
    if (err)
        return err;
    const double past = estimate.behaviour_mean, margin = NO_WORSE * fabs(past);
    memory->better_mean = estimate.mean - past;
    memory->better_low = estimate.low - past + margin;
    memory->better_high = estimate.high - past;
    return AW_OK;
}

/* --- looking in ------------------------------------------------------------------------------- */

const struct aw_pilot_config *aw_pilot_config(const struct aw_pilot *pilot)
{
    return &pilot->config;
}

const struct aw_decision *aw_pilot_decision(const struct aw_pilot *pilot)
{
    return &pilot->decision;
}

enum aw_stage aw_pilot_stage(const struct aw_pilot *pilot)
{
    return (enum aw_stage)pilot->memory.lifecycle.stage;
}

const struct aw_formula *aw_pilot_formula(const struct aw_pilot *pilot)
{
    return &pilot->memory.formula;
}

const struct aw_actnet *aw_pilot_network(const struct aw_pilot *pilot)
{
    return &pilot->actor;
}

size_t aw_pilot_bytes(const struct aw_pilot *pilot, bool learning)
{
    size_t bytes = sizeof *pilot - sizeof pilot->actor + aw_actnet_bytes(&pilot->actor) +
                   aw_policy_bytes(pilot->policy) + pilot->pods_max * sizeof *pilot->pods;
    if (learning && pilot->learner)
        bytes += aw_learner_bytes(pilot->learner);
    return bytes;
}

/* --- bytes ------------------------------------------------------------------------------------ */

struct head {
    uint32_t magic, bytes;
};

size_t aw_pilot_state_bytes(const struct aw_pilot *pilot)
{
    return sizeof(struct head) + sizeof pilot->memory + aw_policy_state_bytes(pilot->policy) +
           aw_actnet_state_bytes(&pilot->actor);
}

void aw_pilot_state_save(const struct aw_pilot *pilot, void *bytes)
{
    unsigned char *to = bytes;
    const struct head head = {MAGIC, (uint32_t)aw_pilot_state_bytes(pilot)};
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    memcpy(to, &pilot->memory, sizeof pilot->memory);
    to += sizeof pilot->memory;
    aw_policy_state_save(pilot->policy, to);
    aw_actnet_state_save(&pilot->actor, to + aw_policy_state_bytes(pilot->policy));
}

enum aw_err aw_pilot_state_load(struct aw_pilot *pilot, const void *bytes)
{
    const unsigned char *from = bytes;
    struct head head;
    memcpy(&head, from, sizeof head);
    if (head.magic != MAGIC || head.bytes != aw_pilot_state_bytes(pilot))
        return AW_ERR_FORMAT;
    from += sizeof head;
    const unsigned char *memory = from;
    from += sizeof pilot->memory;
    enum aw_err err = aw_policy_state_load(pilot->policy, from);
    err = err ? err
              : aw_actnet_state_load(&pilot->actor, from + aw_policy_state_bytes(pilot->policy));
    if (err)
        return err;
    memcpy(&pilot->memory, memory, sizeof pilot->memory);
    aw_formula_decode(&pilot->memory.formula, &pilot->formula);
    pilot->moved = false;
    memset(&pilot->decision, 0, sizeof pilot->decision);
    aw_learner_free(pilot->learner); /* it is filled from the store when it is needed */
    pilot->learner = NULL;
    return AW_OK;
}
