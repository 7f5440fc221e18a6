/* evaluate_day.c - one day from the first second on, with the fallback that users have. */
#include "study/evaluate_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOUR_S       3600.0
#define DAY_S        86400.0
#define JUMP         1.3  /* times the arrivals of the step before */
#define TOLERANCE    1.05 /* of the budget, where keeping it comes first */
#define BEST         5u   /* applications that a mean is to stand without */
#define GOAL_ACTING  0.95
#define GOAL_HOUR1   0.08
#define GOAL_TWICE   0.9
#define GOAL_WORST   0.05
#define GOAL_COST1   1.10
#define GOAL_FOREIGN 1.25
#define GOAL_COST2   0.90
#define GOAL_MEDIAN  1.00
#define GOAL_WITHIN  0.9
#define GOAL_FIRST   0.75
#define GOAL_STRICT  0.5
#define GOAL_CHANGES 1.5

#define X(id, key, text) key,
const char *const aw_evaluate_span_keys[] = {AW_EVALUATE_SPAN_MAP(X) NULL};
const char *const aw_evaluate_miss_keys[] = {AW_EVALUATE_MISS_MAP(X) NULL};
#undef X
#define X(id, key, text) text,
const char *const aw_evaluate_span_texts[] = {AW_EVALUATE_SPAN_MAP(X) NULL};
const char *const aw_evaluate_miss_texts[] = {AW_EVALUATE_MISS_MAP(X) NULL};
#undef X
#define X(id, name) name,
const char *const aw_evaluate_rule_names[] = {AW_EVALUATE_RULE_MAP(X) NULL};
#undef X

/* --- what is counted -------------------------------------------------------------------------- */

enum aw_evaluate_miss aw_evaluate_miss_of(const struct aw_evaluate_moment *m)
{
    if (m->replicas_wanted >= m->replicas_max)
        return AW_EVALUATE_MISS_BOUND;
    if (m->replicas_ready < m->replicas_wanted)
        return AW_EVALUATE_MISS_STARTING;
    if (m->arrivals >= JUMP * m->arrivals_before)
        return AW_EVALUATE_MISS_JUMP;
    return m->by_agent ? AW_EVALUATE_MISS_STEADY : AW_EVALUATE_MISS_FALLBACK;
}

double aw_evaluate_worst(const bool *missed, uint32_t count, uint32_t window)
{
    window = window < count ? window : count;
    uint32_t now = 0, worst = 0;
    for (uint32_t i = 0; i < count; i++) {
        now += missed[i];
        now -= i >= window && missed[i - window];
        worst = now > worst ? now : worst;
    }
    return window ? (double)worst / window : (double)NAN;
}

bool aw_evaluate_won_strict(const struct aw_evaluate_means *aware,
                            const struct aw_evaluate_means *other, double budget)
{
    return aware->cost_per_hour < other->cost_per_hour &&
           aware->violation_share <= fmax(budget, other->violation_share);
}

bool aw_evaluate_won_budget_first(const struct aw_evaluate_means *aware,
                                  const struct aw_evaluate_means *other, double budget)
{
    const bool keeps = aware->violation_share <= TOLERANCE * budget;
    const bool other_keeps = other->violation_share <= TOLERANCE * budget;
    if (keeps != other_keeps)
        return keeps;
    return aware->cost_per_hour < other->cost_per_hour &&
           (keeps || aware->violation_share <= other->violation_share);
}

/* Steps at which the parts of a day begin and end. */
struct times {
    uint32_t acting, hour, noon, midnight;
};

static struct times times_of(const struct aw__day *day, double step_s)
{
    return (struct times){.acting = (uint32_t)(AW_EVALUATE_ACTING_S / step_s),
                          .hour = (uint32_t)(HOUR_S / step_s),
                          .noon = day->half_steps,
                          .midnight = 2 * day->half_steps};
}

static void spans_add(struct aw_totals *spans, const struct times *times, uint32_t step,
                      const struct aw_totals *one)
{
    const bool in[AW_EVALUATE_SPANS] = {
        [AW_EVALUATE_SPAN_HOUR1] = step < times->hour,
        [AW_EVALUATE_SPAN_REST1] = step >= times->hour && step < times->noon,
        [AW_EVALUATE_SPAN_DAY1] = step >= times->acting && step < times->noon,
        [AW_EVALUATE_SPAN_DAY2] = step >= times->noon,
        [AW_EVALUATE_SPAN_WHOLE] = true,
    };
    for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++)
        if (in[s])
            aw_totals_add(&spans[s], one, 1);
}

/* --- lives and baselines ---------------------------------------------------------------------- */

/* One application with one seed. */
struct life_unit {
    struct aw_totals span[AW_EVALUATE_SPANS];
    uint64_t missed[2][AW_EVALUATE_MISSES];
    bool acting;
    uint32_t acting_step; /* the first; AW__LIFE_NEVER */
    double worst;
};

/* One application, all seeds together. */
struct rule_unit {
    struct aw_totals learned[AW_EVALUATE_RULES];
    struct aw_totals span[AW_EVALUATE_RULES][AW_EVALUATE_SPANS];
};

struct work {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *apps;
    const struct aw_alloc *alloc;
    struct life_unit *life; /* [count * seeds] */
    struct rule_unit *rule; /* [count] */
};

struct life_watch {
    struct life_unit *unit;
    struct times times;
    uint32_t step, replicas_max;
    double arrivals_before;
    bool *missed; /* [midnight] */
};

static void life_step(void *ctx, const struct aw_job_step *step)
{
    struct life_watch *watch = ctx;
    struct life_unit *unit = watch->unit;
    const struct aw_totals *own = &step->own[AW_JOB_AWARE];
    const struct aw_evaluate_moment moment = {
        .replicas_wanted = (uint32_t)step->plan[AW_JOB_AWARE].replicas,
        .replicas_ready = step->replicas_ready[AW_JOB_AWARE],
        .replicas_max = watch->replicas_max,
        .arrivals = step->arrivals_per_s,
        .arrivals_before = watch->arrivals_before,
        .by_agent = own->agent_steps,
    };
    spans_add(unit->span, &watch->times, watch->step, own);
    watch->missed[watch->step] = own->violations;
    if (own->violations)
        unit->missed[watch->step >= watch->times.hour][aw_evaluate_miss_of(&moment)]++;
    if (watch->step == watch->times.acting)
        unit->acting = own->agent_steps;
    if (own->agent_steps && unit->acting_step == AW__LIFE_NEVER)
        unit->acting_step = watch->step;
    watch->arrivals_before = step->arrivals_per_s;
    watch->step++;
}

static enum aw_err live(const struct work *work, const struct aw_evaluate_app *app,
                        const struct aw__day *day, uint64_t seed, struct life_unit *unit,
                        struct aw_diag *diag)
{
    const struct aw_evaluate_config *config = work->config;
    const double step_s = config->simulate.settings.step_s;
    const struct times times = times_of(day, step_s);
    struct aw__rule rule;
    enum aw_err err = aw__rule_named(
        config, app, day, config->fallback ? config->fallback : AW__DAY_FALLBACK, &rule, diag);
    if (err)
        return err;
    struct life_watch watch = {
        .unit = unit, .times = times, .replicas_max = (uint32_t)rule.task.bounds.replicas_max};
    if (!(watch.missed = aw_alloc_new(work->alloc, times.midnight, sizeof *watch.missed)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u steps", times.midnight);
    const struct aw__life life = {.config = config,
                                  .app = app,
                                  .load = &day->whole,
                                  .rule = &rule,
                                  .seed = seed,
                                  .bootstrap = true,
                                  .retrain = true,
                                  .mark = {times.midnight},
                                  .mark_count = 1,
                                  .split = AW__LIFE_NEVER,
                                  .sink = life_step,
                                  .ctx = &watch};
    struct aw__lived lived;
    unit->acting_step = AW__LIFE_NEVER;
    err = aw__life_run(&life, work->alloc, &lived, diag);
    if (!err)
        unit->worst = aw_evaluate_worst(watch.missed + times.hour, times.midnight - times.hour,
                                        (uint32_t)(AW_EVALUATE_WORST_S / step_s));
    aw_alloc_free(work->alloc, watch.missed);
    return err;
}

struct rule_watch {
    struct aw_totals *span; /* [AW_EVALUATE_SPANS] */
    struct times times;
    struct aw_replica_track track;
};

static bool rule_step(void *ctx, const struct aw_simulate_step *step)
{
    struct rule_watch *watch = ctx;
    struct aw_totals one;
    aw__rule_step(step, &watch->track, &one);
    spans_add(watch->span, &watch->times, step->step, &one);
    return true;
}

/* Each baseline is tuned once, as an application's owner would, and then run with every seed. */
static enum aw_err run_rules(void *ctx, uint32_t i, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const struct aw_evaluate_config *config = work->config;
    const struct aw_evaluate_app *app = &work->apps[i];
    struct rule_unit *unit = &work->rule[i];
    const uint64_t first = config->simulate.seed;
    struct aw__day day;
    enum aw_err err = aw__day_first(config, app, &day, diag);
    for (uint32_t r = 0; !err && r < AW_EVALUATE_RULES; r++) {
        struct aw__rule rule;
        err = aw__rule_tune(config, app, &day, first, aw_evaluate_rule_names[r], work->alloc, &rule,
                            diag);
        err = err ? err
                  : aw__rule_learned(config, app, &day, first, &rule, work->alloc,
                                     &unit->learned[r], diag);
        for (uint32_t s = 0; !err && s < config->seeds; s++) {
            struct rule_watch watch = {.span = unit->span[r],
                                       .times = times_of(&day, config->simulate.settings.step_s)};
            err = aw__rule_day(config, app, &day, first + s, &rule, rule_step, &watch, work->alloc,
                               diag);
        }
    }
    return err;
}

static enum aw_err run_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const uint32_t seeds = work->config->seeds, each = seeds + 1, i = turn / each, k = turn % each;
    const struct aw_evaluate_app *app = &work->apps[i];
    struct aw__day day;
    enum aw_err err = aw__day_first(work->config, app, &day, diag);
    if (err)
        return err;
    if (k == seeds)
        return aw__model_shelf_use(work->config->shelf, i, &work->rule[i], sizeof work->rule[i],
                                   run_rules, ctx, diag);
    return live(work, app, &day, work->config->simulate.seed + k, &work->life[i * seeds + k], diag);
}

/* All seeds of one application together. */
static void merge(const struct aw_evaluate_config *config, const struct aw_evaluate_app *app,
                  const struct life_unit *lives, const struct rule_unit *rules,
                  struct aw_evaluate_day *ret)
{
    const double budget = config->simulate.settings.slo_budget;
    uint32_t acted = 0;
    double minutes = 0;
    *ret = (struct aw_evaluate_day){.index = app->index};
    snprintf(ret->app, sizeof ret->app, "%s", app->app.name);
    for (uint32_t s = 0; s < config->seeds; s++) {
        const struct life_unit *life = &lives[s];
        ret->acting += life->acting;
        ret->worst_six_hours = fmax(ret->worst_six_hours, life->worst);
        if (life->acting_step != AW__LIFE_NEVER) {
            acted++;
            minutes += life->acting_step * config->simulate.settings.step_s / 60;
        }
        for (uint32_t i = 0; i < AW_EVALUATE_SPANS; i++)
            aw_totals_add(&ret->life[i], &life->span[i], 1);
        for (uint32_t i = 0; i < 2 * AW_EVALUATE_MISSES; i++)
            ret->missed[i / AW_EVALUATE_MISSES][i % AW_EVALUATE_MISSES] +=
                life->missed[i / AW_EVALUATE_MISSES][i % AW_EVALUATE_MISSES];
    }
    memcpy(ret->learned, rules->learned, sizeof ret->learned);
    memcpy(ret->rule, rules->span, sizeof ret->rule);
    ret->acting_minute = acted ? minutes / acted : (double)NAN;
    ret->best = aw__best_of(ret->learned, AW_EVALUATE_RULES, budget);
    struct aw_evaluate_means own[AW_EVALUATE_SPANS], best[AW_EVALUATE_SPANS];
    for (uint32_t i = 0; i < AW_EVALUATE_SPANS; i++) {
        own[i] = aw_evaluate_means(&ret->life[i], 1);
        best[i] = aw_evaluate_means(&ret->rule[ret->best][i], 1);
    }
    const struct aw_evaluate_means *aware = &own[AW_EVALUATE_SPAN_DAY2],
                                   *other = &best[AW_EVALUATE_SPAN_DAY2];
    ret->cost_day1 =
        own[AW_EVALUATE_SPAN_DAY1].cost_per_hour / best[AW_EVALUATE_SPAN_DAY1].cost_per_hour;
    ret->cost_day2 = aware->cost_per_hour / other->cost_per_hour;
    ret->priced_day1 = aw_evaluate_priced(&own[AW_EVALUATE_SPAN_DAY1], budget) /
                       aw_evaluate_priced(&best[AW_EVALUATE_SPAN_DAY1], budget);
    ret->priced_day2 = aw_evaluate_priced(aware, budget) / aw_evaluate_priced(other, budget);
    double least = INFINITY;
    for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++)
        least = fmin(least, aw_evaluate_means(&ret->learned[r], 1).violation_share);
    ret->hopeless = least > AW_EVALUATE_HOPELESS * budget;
    ret->within_budget = aware->violation_share <= budget;
    ret->won_budget_first = aw_evaluate_won_budget_first(aware, other, budget);
    ret->won_strict = aw_evaluate_won_strict(aware, other, budget);
}

enum aw_err aw_evaluate_day(const struct aw_evaluate_config *config,
                            const struct aw_evaluate_app *apps, uint32_t count,
                            aw_evaluate_progress *progress, void *ctx, const struct aw_alloc *alloc,
                            struct aw_evaluate_day *ret, struct aw_diag *diag)
{
    const uint32_t lives = count * config->seeds;
    struct work work = {config, apps, alloc, aw_alloc_new(alloc, lives, sizeof(struct life_unit)),
                        aw_alloc_new(alloc, count, sizeof(struct rule_unit))};
    enum aw_err err = work.life && work.rule
                          ? aw_parallel_tasks(config->simulate.thread_count, lives + count,
                                              run_unit, &work, progress, ctx, alloc, diag)
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory for %u lives", lives);
    for (uint32_t i = 0; !err && i < count; i++)
        merge(config, &apps[i], &work.life[(size_t)i * config->seeds], &work.rule[i], &ret[i]);
    aw_alloc_free(alloc, work.rule);
    aw_alloc_free(alloc, work.life);
    return err;
}

/* --- the summary ------------------------------------------------------------------------------ */

static double per_day(uint64_t events, const struct aw_totals *over, double step_s)
{
    return (double)events * DAY_S / ((double)over->steps * step_s);
}

static void goals(const struct aw_evaluate_config *config, struct aw_evaluate_day_sum *sum)
{
    const double budget = config->simulate.settings.slo_budget;
    const double changes =
        sum->changes_per_day > 0 ? sum->changes_per_day / sum->changes_per_day_hpa : 0;
    const struct {
        const char *name;
        double value, goal;
        bool lower;
    } table[] = {
        {"policy acts at minute 15, share of lives", sum->acting_share, GOAL_ACTING, false},
        {"missed in the first hour", sum->missed_share[AW_EVALUATE_SPAN_HOUR1], GOAL_HOUR1, true},
        {"missed from the second hour to noon", sum->missed_share[AW_EVALUATE_SPAN_REST1], budget,
         true},
        {"applications that miss at most twice the budget then", sum->twice_share, GOAL_TWICE,
         false},
        {"missed in the worst six hours after the first, worst application", sum->worst_six_hours,
         GOAL_WORST, true},
        {"cost from minute 15 to noon over the best baseline's, geometric mean", sum->cost_day1,
         config->foreign ? GOAL_FOREIGN : GOAL_COST1, true},
        {"cost from noon on over the best baseline's, geometric mean", sum->cost_day2, GOAL_COST2,
         true},
        {"the same, median", sum->cost_day2_median, GOAL_MEDIAN, true},
        {"missed from noon on", sum->missed_share[AW_EVALUATE_SPAN_DAY2], budget, true},
        {"applications within the budget from noon on", sum->within_share, GOAL_WITHIN, false},
        {"won from noon on, budget first", sum->won_budget_first, GOAL_FIRST, false},
        {"won from noon on, cheaper at no more violations", sum->won_strict, GOAL_STRICT, false},
        {"changes of replicas over those of the tuned HPA", changes, GOAL_CHANGES, true},
        {"replicas removed within 300 s after one was added, per day", sum->reversals_per_day, 0,
         true},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        aw__goal_add(sum->goal, &sum->goal_count, table[i].name, table[i].value, table[i].goal,
                     table[i].lower);
}

/* Everything that is a sum over applications; `ratio` gets the logarithms of their costs. */
static void sum_up(const struct aw_evaluate_config *config, const struct aw_evaluate_day *rows,
                   uint32_t count, double *ratio, struct aw_evaluate_day_sum *sum)
{
    const double budget = config->simulate.settings.slo_budget;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_evaluate_day *row = &rows[i];
        const double best =
            aw_evaluate_means(&row->rule[row->best][AW_EVALUATE_SPAN_DAY2], 1).cost_per_hour;
        for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++) {
            aw_totals_add(&sum->life[s], &row->life[s], 1);
            aw_totals_add(&sum->best[s], &row->rule[row->best][s], 1);
            for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++)
                aw_totals_add(&sum->rule[r][s], &row->rule[r][s], 1);
        }
        for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++) {
            const struct aw_evaluate_means means =
                aw_evaluate_means(&row->rule[r][AW_EVALUATE_SPAN_DAY2], 1);
            sum->within[r] += means.violation_share <= budget;
            sum->best_within += r == row->best && means.violation_share <= budget;
            sum->cost[r] += log(means.cost_per_hour / best) / count;
        }
        for (uint32_t m = 0; m < AW_EVALUATE_MISSES; m++) {
            sum->missed[0][m] += row->missed[0][m];
            sum->missed[1][m] += row->missed[1][m];
        }
        sum->chosen[row->best]++;
        sum->acting_share += row->acting / ((double)count * config->seeds);
        sum->twice_share +=
            aw_evaluate_means(&row->life[AW_EVALUATE_SPAN_REST1], 1).violation_share <= 2 * budget;
        sum->worst_six_hours = fmax(sum->worst_six_hours, row->worst_six_hours);
        sum->within_share += row->within_budget;
        sum->won_budget_first += row->won_budget_first;
        sum->won_strict += row->won_strict;
        sum->priced_day1 += log(row->priced_day1) / count;
        sum->priced_day2 += log(row->priced_day2) / count;
        ratio[i] = log(row->cost_day1);
        ratio[count + i] = log(row->cost_day2);
    }
    for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++)
        sum->cost[r] = exp(sum->cost[r]);
    sum->priced_day1 = exp(sum->priced_day1);
    sum->priced_day2 = exp(sum->priced_day2);
    sum->twice_share /= count;
    sum->within_share /= count;
    sum->won_budget_first /= count;
    sum->won_strict /= count;
}

/* Half of all misses may be those of one application that nothing can serve. */
static void sum_served(const struct aw_evaluate_day *rows, uint32_t count,
                       struct aw_evaluate_day_sum *sum)
{
    struct aw_totals span[AW_EVALUATE_SPANS] = {0};
    double worst = 0, within = 0, cost1 = 0, cost2 = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_evaluate_day *row = &rows[i];
        sum->hopeless += row->hopeless;
        if (row->hopeless)
            continue;
        for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++)
            aw_totals_add(&span[s], &row->life[s], 1);
        worst = fmax(worst, row->worst_six_hours);
        within += row->within_budget;
        cost1 += log(row->cost_day1);
        cost2 += log(row->cost_day2);
    }
    const double others = count - sum->hopeless; /* 0: NAN */
    for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++)
        sum->served.missed_share[s] = aw_evaluate_means(&span[s], 1).violation_share;
    sum->served.worst_six_hours = others > 0 ? worst : (double)NAN;
    sum->served.within_share = within / others;
    sum->served.cost_day1 = exp(cost1 / others);
    sum->served.cost_day2 = exp(cost2 / others);
}

enum aw_err aw_evaluate_day_sum(const struct aw_evaluate_config *config,
                                const struct aw_evaluate_day *rows, uint32_t count,
                                const struct aw_alloc *alloc, struct aw_evaluate_day_sum *ret,
                                struct aw_diag *diag)
{
    const double step_s = config->simulate.settings.step_s;
    struct aw_evaluate_day_sum sum = {.cost_day2_without_best5 = NAN};
    AW_ASSERT(count > 0);
    double *ratio = aw_alloc_new(alloc, 2 * (size_t)count, sizeof *ratio);
    if (!ratio)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u ratios", count);
    sum_up(config, rows, count, ratio, &sum);
    sum_served(rows, count, &sum);
    double *second = ratio + count;
    enum aw_err err = aw__interval_exp(ratio, count, alloc, &sum.cost_day1_interval, diag);
    err = err ? err : aw__interval_exp(second, count, alloc, &sum.cost_day2_interval, diag);
    sum.cost_day1 = exp(aw_stats_mean(ratio, count));
    sum.cost_day2 = exp(aw_stats_mean(second, count));
    aw_stats_sort(second, count);
    sum.cost_day2_median = exp(aw_stats_median(second, count));
    if (count > BEST)
        sum.cost_day2_without_best5 = exp(aw_stats_mean(second + BEST, count - BEST));
    aw_alloc_free(alloc, ratio);
    if (err)
        return err;
    for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++)
        sum.missed_share[s] = aw_evaluate_means(&sum.life[s], step_s).violation_share;
    const struct aw_totals *own = &sum.life[AW_EVALUATE_SPAN_WHOLE],
                           *hpa = &sum.rule[AW_EVALUATE_RULE_HPA][AW_EVALUATE_SPAN_WHOLE];
    sum.changes_per_day = per_day(own->replica_changes, own, step_s);
    sum.changes_per_day_hpa = per_day(hpa->replica_changes, hpa, step_s);
    sum.reversals_per_day = per_day(own->reversals_down, own, step_s);
    sum.reversals_per_day_hpa = per_day(hpa->reversals_down, hpa, step_s);
    sum.regrets_per_day = per_day(own->reversals_up, own, step_s);
    sum.regrets_per_day_hpa = per_day(hpa->reversals_up, hpa, step_s);
    goals(config, &sum);
    *ret = sum;
    return AW_OK;
}
