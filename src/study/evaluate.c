/* evaluate.c - days and their halves, tuned rules, lives. */
#include "base/units.h"
#include "study/evaluate_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEVEL          0.95
#define INTERVAL_SEED  0xe7a1u
#define TUNING_BUDGET  150u /* evaluations; a constant's three numbers take about as many */
#define SLACK_NO_BOUND 1e12
#define HOUR_S         3600.0
#define DAY_S          86400.0
#define EPISODE_STEPS  100.0 /* of the paper, whatever a pilot calls an episode */

const char *const aw_evaluate_who_names[] = {
#define X(id, name) name,
    AW_EVALUATE_WHO_MAP(X)
#undef X
        NULL};

void aw_evaluate_config_init(struct aw_evaluate_config *config)
{
    *config = (struct aw_evaluate_config){.seeds = 3,
                                          .learn_halves = 4,
                                          .after_halves = 4,
                                          .apps_each = 5,
                                          .cores = 2,
                                          .ceiling = true};
    aw_simulate_config_init(&config->simulate);
    config->simulate.tuning_budget = TUNING_BUDGET;
    config->simulate.tuning_whole = true;
    config->simulate.tuning_episodes = 1;
    aw_pilot_config_init(&config->pilot);
}

void aw_evaluate_config_paper(struct aw_evaluate_config *config)
{
    config->pilot.objective = AW_OBJECTIVE_PAPER;
    config->pilot.state = AW_STATE_PAPER;
    config->pilot.mapping = AW_ACTION_ABSOLUTE;
    config->pilot.agent = AW_POLICY_NETWORK;
}

void aw_evaluate_apps_deinit(struct aw_evaluate_app *apps, uint32_t count)
{
    for (uint32_t i = 0; apps && i < count; i++)
        aw_load_deinit(&apps[i].day);
}

/* --- totals ----------------------------------------------------------------------------------- */

/* What happened between two looks at one running sum. */
static struct aw_totals between(const struct aw_totals *from, const struct aw_totals *to)
{
    struct aw_totals span = *to;
    aw_totals_add(&span, from, -1);
    return span;
}

struct aw_evaluate_means aw_evaluate_means(const struct aw_totals *totals, double step_s)
{
    if (totals->steps == 0)
        return (struct aw_evaluate_means){NAN, NAN, NAN, NAN, NAN};
    const double steps = (double)totals->steps;
    return (struct aw_evaluate_means){
        .cost_per_hour = totals->cost * 3600 / (steps * step_s),
        .violation_share = (double)totals->violations / steps,
        .reward = totals->reward * EPISODE_STEPS / steps,
        .cpu_utilization = totals->cpu_utilisation / steps,
        .memory_utilization = totals->memory_utilisation / steps,
    };
}

bool aw_evaluate_met(const struct aw_evaluate_goal *goal)
{
    return goal->lower_is_better ? goal->value <= goal->goal : goal->value >= goal->goal;
}

uint32_t aw__best_of(const struct aw_totals *totals, uint32_t count, double budget)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        const struct aw_evaluate_means kept = aw_evaluate_means(&totals[best], 1);
        const struct aw_evaluate_means means = aw_evaluate_means(&totals[i], 1);
        const bool keeps = means.violation_share <= budget;
        const bool kept_keeps = kept.violation_share <= budget;
        if ((keeps && !kept_keeps) ||
            (keeps && kept_keeps && means.cost_per_hour < kept.cost_per_hour) ||
            (!keeps && !kept_keeps && means.violation_share < kept.violation_share))
            best = i;
    }
    return best;
}

double aw_evaluate_priced(const struct aw_evaluate_means *means, double budget)
{
    return means->cost_per_hour * fmax(1, means->violation_share / budget);
}

void aw__goal_add(struct aw_evaluate_goal *goals, uint32_t *count, const char *name, double value,
                  double goal, bool lower)
{
    AW_ASSERT(*count < AW_EVALUATE_GOALS_MAX);
    struct aw_evaluate_goal *to = &goals[(*count)++];
    *to = (struct aw_evaluate_goal){.value = value, .goal = goal, .lower_is_better = lower};
    snprintf(to->name, sizeof to->name, "%s", name);
}

/* --- days ------------------------------------------------------------------------------------- */

enum aw_err aw__day_of(const struct aw_evaluate_app *app, double step_s, struct aw__day *ret,
                       struct aw_diag *diag)
{
    const uint32_t half = app->day.slot_count / 2;
    const int64_t step_us = llround(step_s * 1e6);
    struct aw__day day = {.learn = app->day, .report = app->day, .whole = app->day};
    day.learn.slot_count = day.report.slot_count = half;
    day.whole.slot_count = 2 * half;
    day.report.rate_per_s += half;
    day.half_steps = (uint32_t)(half * app->day.slot_us / step_us);
    if (day.half_steps < AW_EVALUATE_QUARTERS)
        return aw_fail(diag, AW_ERR_NODATA,
                       "a load of %" PRIu32 " slots of %g s is too short to be halved: expected "
                       "halves of at least %u steps of %g s",
                       app->day.slot_count, (double)app->day.slot_us * 1e-6, AW_EVALUATE_QUARTERS,
                       step_s);
    *ret = day;
    return AW_OK;
}

enum aw_err aw__day_first(const struct aw_evaluate_config *config,
                          const struct aw_evaluate_app *app, struct aw__day *ret,
                          struct aw_diag *diag)
{
    const double step_s = config->simulate.settings.step_s;
    struct aw_evaluate_app own = *app;
    const double slots = DAY_S * 1e6 / (double)own.day.slot_us;
    if (own.day.slot_count > slots)
        own.day.slot_count = (uint32_t)slots;
    enum aw_err err = aw__day_of(&own, step_s, ret, diag);
    if (!err && ret->half_steps * step_s <= HOUR_S)
        err = aw_fail(diag, AW_ERR_NODATA,
                      "a load of %g s is too short for a day: its first half must be longer than "
                      "an hour",
                      2 * ret->half_steps * step_s);
    return err;
}

enum aw_err aw__day_repeat(const struct aw__day *day, uint32_t learn, uint32_t report,
                           const struct aw_alloc *alloc, struct aw_load *ret, struct aw_diag *diag)
{
    const uint32_t half = day->learn.slot_count;
    if (learn + report == 0 || learn + report > AW_EVALUATE_HALVES_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "a life has 1 to %u halves of a day, not %" PRIu32,
                       AW_EVALUATE_HALVES_MAX, learn + report);
    enum aw_err err = aw_load_init(ret, day->learn.name, (double)half * (learn + report),
                                   day->learn.slot_us, alloc, diag);
    for (uint32_t i = 0; !err && i < learn + report; i++)
        memcpy(ret->rate_per_s + (size_t)i * half,
               i < learn ? day->learn.rate_per_s : day->report.rate_per_s,
               half * sizeof *ret->rate_per_s);
    return err;
}

enum aw_err aw__stage_set(const struct aw_evaluate_config *config,
                          const struct aw_evaluate_app *app, const struct aw_effect *effect,
                          const struct aw_alloc *alloc, struct aw__stage *ret, struct aw_diag *diag)
{
    struct aw_demand before, after;
    aw_app_demand(&app->app, 1, 0, &before);
    aw_app_demand(&app->app, effect->payload, effect->families, &after);
    *ret = (struct aw__stage){.app = *app};
    enum aw_err err = aw_load_init(&ret->app.day, app->day.name, app->day.slot_count,
                                   app->day.slot_us, alloc, diag);
    if (err)
        return err;
    memcpy(ret->app.day.rate_per_s, app->day.rate_per_s,
           app->day.slot_count * sizeof *app->day.rate_per_s);
    const double heavier =
        fmax(1, effect->load_factor * after.cpu_ms * effect->cpu_slowdown / before.cpu_ms);
    aw_load_scale_cores(&ret->app.day, &app->app, config->cores / heavier);
    struct aw_app slow = app->app;
    for (uint32_t i = 0; i < slow.segment_count; i++)
        slow.segment[i].cpu_ms *= effect->cpu_slowdown;
    const struct aw_simulate_settings *s = &config->simulate.settings;
    ret->slo_latency_us =
        s->slo_ms > 0 ? 1e3 * s->slo_ms
                      : s->slo_factor *
                            fmax(aw_app_unloaded_p99_us(&app->app, 1, 0),
                                 aw_app_unloaded_p99_us(&slow, effect->payload, effect->families));
    return AW_OK;
}

/* --- rules ------------------------------------------------------------------------------------ */

static uint32_t quarter_of(uint32_t step, uint32_t steps)
{
    return (uint32_t)((uint64_t)step * AW_EVALUATE_QUARTERS / steps);
}

struct watch {
    struct aw_totals *quarter; /* [AW_EVALUATE_QUARTERS], or [1] of all of it */
    uint32_t steps;            /* of the run; 0: all into one */
    struct aw_replica_track track;
};

void aw__rule_step(const struct aw_simulate_step *step, struct aw_replica_track *track,
                   struct aw_totals *ret)
{
    const struct aw_sim_truth *truth = &step->truth;
    *ret = (struct aw_totals){
        .steps = 1,
        .violations = step->violated,
        .cost = step->cost,
        .reward = step->reward,
        .cpu_utilisation = step->cpu_utilization,
        .memory_utilisation = step->memory_utilization,
        .requests = truth->arrivals,
        .failed = truth->failures,
        .core_s = truth->cpu_limit_core_s,
        .gib_s = truth->memory_limit_gib_s,
        .replica_s = truth->replica_s,
        .oom_kills = truth->oom_kills,
        .restarts = truth->restarts,
    };
    aw_totals_turn(ret, aw_replica_track_step(track, step->replicas_wanted, step->at_us));
}

static bool watch_step(void *ctx, const struct aw_simulate_step *step)
{
    struct watch *watch = ctx;
    struct aw_totals one;
    aw__rule_step(step, &watch->track, &one);
    const uint32_t at = watch->steps ? quarter_of(step->step, watch->steps) : 0;
    aw_totals_add(&watch->quarter[at], &one, 1);
    return true;
}

/* One run of a half in a row: an "episode" of the simulator is only a boundary. */
static struct aw_simulate_config half_config(const struct aw_evaluate_config *config,
                                             const struct aw__day *day, uint64_t seed)
{
    struct aw_simulate_config half = config->simulate;
    half.seed = seed;
    half.thread_count = 1;
    half.settings.episodes = 1;
    half.settings.episode_steps = day->half_steps;
    half.settings.continuous = true;
    half.settings.shift = false;
    return half;
}

enum aw_err aw__rule_named(const struct aw_evaluate_config *config,
                           const struct aw_evaluate_app *app, const struct aw__day *day,
                           const char *name, struct aw__rule *ret, struct aw_diag *diag)
{
    const struct aw_simulate_case c = {.app = app->app, .load = &day->learn};
    ret->task = aw_simulate_task(&config->simulate.settings, &c);
    return aw_simulate_policy_named(name, &ret->policy, diag);
}

enum aw_err aw__rule_tune(const struct aw_evaluate_config *config,
                          const struct aw_evaluate_app *app, const struct aw__day *day,
                          uint64_t seed, const char *name, const struct aw_alloc *alloc,
                          struct aw__rule *ret, struct aw_diag *diag)
{
    const struct aw_simulate_config half = half_config(config, day, seed);
    const struct aw_simulate_case c = {
        .app = app->app, .load = &day->learn, .tuning_load = &day->learn};
    struct aw__rule rule;
    bool kept;
    enum aw_err err = aw__rule_named(config, app, day, name, &rule, diag);
    if (!err && !rule.policy.is_oracle) /* whether or not a comparison of rules would */
        rule.policy.tuning = AW_SIMULATE_TUNE_SLO;
    err =
        err ? err
            : aw_simulate_tune(&half, &c, app->index, &rule.policy, &rule.task, alloc, &kept, diag);
    if (!err)
        *ret = rule;
    return err;
}

enum aw_err aw__rule_learned(const struct aw_evaluate_config *config,
                             const struct aw_evaluate_app *app, const struct aw__day *day,
                             uint64_t seed, const struct aw__rule *rule,
                             const struct aw_alloc *alloc, struct aw_totals *ret,
                             struct aw_diag *diag)
{
    const struct aw_simulate_config half = half_config(config, day, seed ^ AW_SIMULATE_TUNING_SEED);
    const struct aw_simulate_case c = {.app = app->app, .load = &day->learn};
    struct aw_totals all = {0};
    struct watch watch = {.quarter = &all};
    struct aw_simulate_summary summary;
    enum aw_err err = aw_simulate_run(&half, &c, app->index, &rule->policy, &rule->task, watch_step,
                                      &watch, alloc, &summary, NULL, diag);
    if (!err)
        *ret = all;
    return err;
}

enum aw_err aw__rule_day(const struct aw_evaluate_config *config, const struct aw_evaluate_app *app,
                         const struct aw__day *day, uint64_t seed, const struct aw__rule *rule,
                         aw_simulate_sink *sink, void *ctx, const struct aw_alloc *alloc,
                         struct aw_diag *diag)
{
    struct aw_simulate_config whole = half_config(config, day, seed);
    whole.settings.warmup_steps = 0;
    whole.settings.episode_steps = 2 * day->half_steps;
    const struct aw_simulate_case c = {.app = app->app, .load = &day->whole};
    struct aw_simulate_summary summary;
    return aw_simulate_run(&whole, &c, app->index, &rule->policy, &rule->task, sink, ctx, alloc,
                           &summary, NULL, diag);
}

enum aw_err aw__rule_report(const struct aw_evaluate_config *config,
                            const struct aw_evaluate_app *app, const struct aw__day *day,
                            uint64_t seed, const struct aw__rule *rule,
                            const struct aw_alloc *alloc, struct aw_totals *ret_quarters,
                            struct aw_diag *diag)
{
    struct aw_simulate_config half = half_config(config, day, seed);
    struct aw_load load = day->whole;
    half.settings.warmup_steps = day->half_steps;
    if (rule->policy.is_oracle) { /* it needs no past, and half a day of search is long */
        const int64_t warmup_us =
            (int64_t)config->simulate.settings.warmup_steps * llround(half.settings.step_s * 1e6);
        const uint32_t slots = (uint32_t)((warmup_us + load.slot_us - 1) / load.slot_us);
        if (slots < day->learn.slot_count) {
            load.rate_per_s += day->learn.slot_count - slots;
            load.slot_count = day->report.slot_count + slots;
            half.settings.warmup_steps =
                (uint32_t)(slots * load.slot_us / llround(half.settings.step_s * 1e6));
        }
    }
    const struct aw_simulate_case c = {.app = app->app, .load = &load};
    struct aw_totals quarter[AW_EVALUATE_QUARTERS] = {0};
    struct watch watch = {.quarter = quarter, .steps = day->half_steps};
    struct aw_simulate_summary summary;
    enum aw_err err = aw_simulate_run(&half, &c, app->index, &rule->policy, &rule->task, watch_step,
                                      &watch, alloc, &summary, NULL, diag);
    if (!err)
        memcpy(ret_quarters, quarter, sizeof quarter);
    return err;
}

/* --- lives ------------------------------------------------------------------------------------ */

static uint64_t life_seed(uint64_t seed, uint32_t index)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, index);
    return aw_rng_u64(&rng);
}

void aw__life_pilot(const struct aw__life *life, struct aw_pilot_config *pilot)
{
    const struct aw_evaluate_config *config = life->config;
    *pilot = config->pilot;
    aw_simulate_pilot(&config->simulate, &life->rule->task, &life->rule->policy.policy, pilot);
    snprintf(pilot->name, sizeof pilot->name, "evaluate/app-%" PRIu32, life->app->index);
    if (life->slo_latency_us > 0)
        pilot->slo.latency_us_p99 = life->slo_latency_us;
    pilot->seed = life_seed(life->seed, life->app->index);
    pilot->retrain = life->retrain;
    if (config->leave_out && pilot->library && life->app->index < pilot->library->distinct)
        pilot->unknown = life->app->index + 1;
    pilot->lifecycle.bootstrap = life->bootstrap;
    if (!life->bootstrap) { /* nobody takes control away from it */
        pilot->watchdog.slack = SLACK_NO_BOUND;
        pilot->watchdog.strange = SLACK_NO_BOUND;
        pilot->lifecycle.patience = 0;
    }
}

static enum aw_err life_change(const struct aw__life *life, struct aw_job *job,
                               struct aw_diag *diag)
{
    struct aw__life after = *life;
    struct aw_pilot_config pilot;
    after.config = life->then;
    if (life->then_slo_latency_us > 0)
        after.slo_latency_us = life->then_slo_latency_us;
    aw__life_pilot(&after, &pilot);
    return aw_job_update(job, 0, &pilot, life->told, diag);
}

static enum aw_err life_steps(const struct aw__life *life, struct aw_job *job,
                              struct aw__lived *lived, struct aw_diag *diag)
{
    struct aw_totals last[AW_JOB_WORLDS] = {0};
    uint32_t mark = 0;
    lived->serving_step = AW__LIFE_NEVER;
    for (uint32_t step = 1; mark < life->mark_count; step++) {
        enum aw_err err =
            life->then && step == life->then_step + 1 ? life_change(life, job, diag) : AW_OK;
        err = err ? err : aw_job_step(job, life->sink, life->ctx, diag);
        if (err)
            return err;
        struct aw_job_view view;
        aw_job_view(job, 0, &view);
        if (lived->serving_step == AW__LIFE_NEVER && view.serving_us != AW_NEVER)
            lived->serving_step = step - 1;
        if (step == life->split)
            memcpy(lived->before, view.total, sizeof lived->before);
        while (mark < life->mark_count && step == life->mark[mark]) {
            for (uint32_t w = 0; w < AW_JOB_WORLDS; w++)
                lived->span[mark][w] = between(&last[w], &view.total[w]);
            memcpy(last, view.total, sizeof last);
            lived->stage[mark] = view.decision->stage;
            lived->transitions[mark++] = view.transitions;
        }
        if (life->split == AW__LIFE_NEVER && mark == life->mark_count)
            memcpy(lived->before, view.before_serving, sizeof lived->before);
    }
    return AW_OK;
}

enum aw_err aw__life_run(const struct aw__life *life, const struct aw_alloc *alloc,
                         struct aw__lived *ret, struct aw_diag *diag)
{
    AW_ASSERT(life->mark_count >= 1 && life->mark_count <= AW__LIFE_MARKS_MAX);
    struct aw_job_workload workload = {.task = life->rule->task,
                                       .app = life->app->app,
                                       .load = life->load,
                                       .scenarios = life->scenarios};
    aw__life_pilot(life, &workload.pilot);
    workload.task.slo_latency_us = workload.pilot.slo.latency_us_p99;
    struct aw_store store = {0};
    struct aw_job *job = NULL;
    struct aw__lived lived = {0};
    enum aw_err err = aw_store_open(&store, "memory", &(struct aw_store_options){0}, alloc, diag);
    if (err)
        return err;
    const struct aw_job_config config = {.workloads = &workload,
                                         .count = 1,
                                         .sim = life->config->simulate.sim,
                                         .seed = life_seed(life->seed, life->app->index),
                                         .store = &store,
                                         .twin = life->twin,
                                         .thread_count = 1};
    err = aw_job_new(&config, alloc, &job, diag);
    err = err ? err : life_steps(life, job, &lived, diag);
    if (!err)
        *ret = lived;
    aw_job_free(job);
    aw_store_close(&store);
    return err;
}

/* --- figures ------------------------------------------------------------------------------- */

enum aw_err aw__interval(const double *x, uint32_t n, const struct aw_alloc *alloc,
                         struct aw_interval *ret, struct aw_diag *diag)
{
    double *scratch = aw_alloc_new(alloc, n + (size_t)AW_EVALUATE_BOOTSTRAP_N, sizeof *scratch);
    if (!scratch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an interval of %" PRIu32 " numbers", n);
    struct aw_rng rng;
    aw_rng_init(&rng, INTERVAL_SEED, 0);
    *ret = aw_stats_bootstrap_mean(x, n, LEVEL, AW_EVALUATE_BOOTSTRAP_N, &rng, scratch);
    aw_alloc_free(alloc, scratch);
    return AW_OK;
}

enum aw_err aw__interval_exp(const double *x, uint32_t n, const struct aw_alloc *alloc,
                             struct aw_interval *ret, struct aw_diag *diag)
{
    enum aw_err err = aw__interval(x, n, alloc, ret, diag);
    if (!err)
        *ret = (struct aw_interval){exp(ret->low), exp(ret->high)};
    return err;
}
