/* evaluate_converged.c - AWARE on the half that it has not seen, beside tuned baselines. */
#include "study/evaluate_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GOAL_WIN_SHARE 0.8

/* One application with one seed. */
struct unit {
    struct aw_totals learned[AW_EVALUATE_WHO_COUNT];
    struct aw_totals quarter[AW_EVALUATE_WHO_COUNT][AW_EVALUATE_QUARTERS];
    bool served;
    uint32_t serving_step;
};

struct work {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *apps;
    const struct aw_alloc *alloc;
    struct unit *unit; /* [count * seeds] */
};

static bool is_tuned(uint32_t who)
{
    return who != AW_EVALUATE_AWARE && who != AW_EVALUATE_ORACLE;
}

static uint32_t best_of(const struct aw_totals *totals, double budget)
{
    _Static_assert(AW_EVALUATE_AWARE == 0 && AW_EVALUATE_ORACLE == AW_EVALUATE_WHO_COUNT - 1,
                   "tuned baselines lie in between");
    return 1 + aw__best_of(&totals[1], AW_EVALUATE_WHO_COUNT - 2, budget);
}

static enum aw_err live(const struct work *work, const struct aw_evaluate_app *app,
                        const struct aw__day *day, uint64_t seed, const struct aw__rule *fallback,
                        struct unit *unit, struct aw_diag *diag)
{
    const struct aw_evaluate_config *config = work->config;
    struct aw_load load;
    enum aw_err err = aw__day_repeat(day, config->learn_halves, 1, work->alloc, &load, diag);
    if (err)
        return err;
    struct aw__life life = {.config = config,
                            .app = app,
                            .load = &load,
                            .rule = fallback,
                            .seed = seed,
                            .bootstrap = true,
                            .retrain = true,
                            .split = AW__LIFE_NEVER};
    const uint32_t begin = config->learn_halves * day->half_steps;
    for (uint32_t q = 0; q <= AW_EVALUATE_QUARTERS; q++)
        life.mark[life.mark_count++] = begin + q * day->half_steps / AW_EVALUATE_QUARTERS;
    struct aw__lived lived;
    err = aw__life_run(&life, work->alloc, &lived, diag);
    aw_load_deinit(&load);
    if (err)
        return err;
    for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
        unit->quarter[AW_EVALUATE_AWARE][q] = lived.span[q + 1][AW_JOB_AWARE];
    unit->served = lived.stage[0] == AW_STAGE_SERVING;
    unit->serving_step = lived.serving_step;
    return AW_OK;
}

static enum aw_err run_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const struct aw_evaluate_config *config = work->config;
    const struct aw_evaluate_app *app = &work->apps[turn / config->seeds];
    const uint64_t seed = config->simulate.seed + turn % config->seeds;
    struct unit *unit = &work->unit[turn];
    const uint32_t fallback = config->pilot.objective == AW_OBJECTIVE_PAPER
                                  ? AW_EVALUATE_HPA_VPA /* as the paper has it */
                                  : AW_EVALUATE_HPA_VPA_MEM;
    struct aw__day day;
    enum aw_err err = aw__day_of(app, config->simulate.settings.step_s, &day, diag);
    for (uint32_t who = 0; !err && who < AW_EVALUATE_WHO_COUNT; who++) {
        struct aw__rule rule;
        if (who == AW_EVALUATE_AWARE || (who == AW_EVALUATE_ORACLE && !config->ceiling))
            continue;
        err = aw__rule_tune(config, app, &day, seed, aw_evaluate_who_names[who], work->alloc, &rule,
                            diag);
        if (!err && is_tuned(who))
            err = aw__rule_learned(config, app, &day, seed, &rule, work->alloc, &unit->learned[who],
                                   diag);
        if (!err)
            err = aw__rule_report(config, app, &day, seed, &rule, work->alloc, unit->quarter[who],
                                  diag);
        if (!err && who == fallback)
            err = live(work, app, &day, seed, &rule, unit, diag);
    }
    return err;
}

static bool cheaper(const struct aw_evaluate_converged *row, uint32_t who)
{
    return aw_evaluate_means(&row->reported[AW_EVALUATE_AWARE], 1).cost_per_hour <
           aw_evaluate_means(&row->reported[who], 1).cost_per_hour;
}

static bool no_worse_slo(const struct aw_evaluate_converged *row, uint32_t who, double budget)
{
    return aw_evaluate_means(&row->reported[AW_EVALUATE_AWARE], 1).violation_share <=
           fmax(budget, aw_evaluate_means(&row->reported[who], 1).violation_share);
}

/* All seeds of one application together. */
static void merge(const struct aw_evaluate_config *config, const struct aw_evaluate_app *app,
                  const struct unit *units, struct aw_evaluate_converged *ret)
{
    double episodes = 0;
    *ret = (struct aw_evaluate_converged){.index = app->index};
    snprintf(ret->app, sizeof ret->app, "%s", app->app.name);
    for (uint32_t s = 0; s < config->seeds; s++) {
        const struct unit *unit = &units[s];
        ret->served += unit->served;
        if (unit->serving_step != AW__LIFE_NEVER) {
            ret->reached++;
            episodes += (double)unit->serving_step / config->pilot.episode_steps;
        }
        for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++) {
            aw_totals_add(&ret->learned[who], &unit->learned[who], 1);
            for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++) {
                aw_totals_add(&ret->quarter[who][q], &unit->quarter[who][q], 1);
                aw_totals_add(&ret->reported[who], &unit->quarter[who][q], 1);
            }
        }
    }
    ret->serving_episode = ret->reached ? episodes / ret->reached : (double)NAN;
    const double budget = config->simulate.settings.slo_budget;
    ret->best = best_of(ret->learned, budget);
    ret->hindsight = best_of(ret->reported, budget);
    ret->cheaper = cheaper(ret, ret->best);
    ret->no_worse_slo = no_worse_slo(ret, ret->best, budget);
}

enum aw_err aw_evaluate_converged(const struct aw_evaluate_config *config,
                                  const struct aw_evaluate_app *apps, uint32_t count,
                                  aw_evaluate_progress *progress, void *ctx,
                                  const struct aw_alloc *alloc, struct aw_evaluate_converged *ret,
                                  struct aw_diag *diag)
{
    const uint32_t units = count * config->seeds;
    struct work work = {config, apps, alloc, aw_alloc_new(alloc, units, sizeof(struct unit))};
    if (!work.unit)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u runs", units);
    enum aw_err err = aw_parallel_tasks(config->simulate.thread_count, units, run_unit, &work,
                                        progress, ctx, alloc, diag);
    for (uint32_t i = 0; !err && i < count; i++)
        merge(config, &apps[i], &work.unit[(size_t)i * config->seeds], &ret[i]);
    aw_alloc_free(alloc, work.unit);
    return err;
}

static void goals(const struct aw_evaluate_config *config, struct aw_evaluate_converged_sum *sum)
{
    if (config->pilot.objective == AW_OBJECTIVE_PAPER)
        return; /* its figures stand beside the paper's; nothing is promised of them */
    const double step_s = config->simulate.settings.step_s;
    const struct aw_evaluate_means all = aw_evaluate_means(&sum->total[AW_EVALUATE_AWARE], step_s);
    const double first =
        aw_evaluate_means(&sum->quarter[AW_EVALUATE_AWARE][0], step_s).violation_share;
    const double last =
        aw_evaluate_means(&sum->quarter[AW_EVALUATE_AWARE][AW_EVALUATE_QUARTERS - 1], step_s)
            .violation_share;
    aw__goal_add(sum->goal, &sum->goal_count, "share of applications cheaper at no more violations",
                 sum->win_share, GOAL_WIN_SHARE, false);
    aw__goal_add(sum->goal, &sum->goal_count,
                 "cost ratio to the best tuned baseline, upper end of its 95 % interval",
                 sum->ratio_interval.high, 1, true);
    aw__goal_add(sum->goal, &sum->goal_count,
                 "share of steps that missed the SLO, all applications", all.violation_share,
                 config->simulate.settings.slo_budget, true);
    aw__goal_add(sum->goal, &sum->goal_count,
                 "share missed in the last quarter, no more than in the first or the budget", last,
                 fmax(first, config->simulate.settings.slo_budget), true);
}

enum aw_err aw_evaluate_converged_sum(const struct aw_evaluate_config *config,
                                      const struct aw_evaluate_converged *rows, uint32_t count,
                                      const struct aw_alloc *alloc,
                                      struct aw_evaluate_converged_sum *ret, struct aw_diag *diag)
{
    const double budget = config->simulate.settings.slo_budget;
    struct aw_evaluate_converged_sum sum = {.gap_closed = NAN};
    uint32_t wins = 0, hindsight_wins = 0, served = 0, reached = 0;
    AW_ASSERT(count > 0);
    double *ratio = aw_alloc_new(alloc, 2 * (size_t)count, sizeof *ratio);
    if (!ratio)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u ratios", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_evaluate_converged *row = &rows[i];
        const struct aw_totals *best = &row->reported[row->best];
        const double best_cost = aw_evaluate_means(best, 1).cost_per_hour;
        wins += row->cheaper && row->no_worse_slo;
        hindsight_wins += cheaper(row, row->hindsight) && no_worse_slo(row, row->hindsight, budget);
        served += row->served;
        reached += row->reached;
        sum.chosen[row->best]++;
        sum.best_within += aw_evaluate_means(best, 1).violation_share <= budget;
        aw_totals_add(&sum.best, best, 1);
        for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
            aw_totals_add(&sum.best_quarter[q], &row->quarter[row->best][q], 1);
        for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++) {
            const struct aw_evaluate_means means = aw_evaluate_means(&row->reported[who], 1);
            aw_totals_add(&sum.total[who], &row->reported[who], 1);
            sum.within[who] += means.violation_share <= budget;
            sum.cost_ratio[who] += log(means.cost_per_hour / best_cost) / count;
            for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
                aw_totals_add(&sum.quarter[who][q], &row->quarter[who][q], 1);
        }
        const double cost = aw_evaluate_means(&row->reported[AW_EVALUATE_AWARE], 1).cost_per_hour;
        ratio[i] = log(cost / best_cost);
        ratio[count + i] =
            log(cost / aw_evaluate_means(&row->reported[row->hindsight], 1).cost_per_hour);
    }
    enum aw_err err = aw__interval_exp(ratio, count, alloc, &sum.ratio_interval, diag);
    err = err ? err : aw__interval_exp(ratio + count, count, alloc, &sum.hindsight_interval, diag);
    sum.hindsight_ratio = exp(aw_stats_mean(ratio + count, count));
    aw_alloc_free(alloc, ratio);
    if (err)
        return err;
    if (config->ceiling)
        sum.gap_closed = sum.cost_ratio[AW_EVALUATE_AWARE] / sum.cost_ratio[AW_EVALUATE_ORACLE];
    for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++)
        sum.cost_ratio[who] = exp(sum.cost_ratio[who]);
    sum.win_share = (double)wins / count;
    sum.hindsight_share = (double)hindsight_wins / count;
    sum.served_share = (double)served / ((double)count * config->seeds);
    sum.reached_share = (double)reached / ((double)count * config->seeds);
    goals(config, &sum);
    *ret = sum;
    return AW_OK;
}
