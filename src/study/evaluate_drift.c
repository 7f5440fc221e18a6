/* evaluate_drift.c - the world changes at noon: who learns again, who does not, who knew it all. */
#include "study/evaluate_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOUR_S       3600.0
#define GAP_LEAST    0.02 /* of log cost: below, there is nothing to close */
#define GOAL_CLOSED  0.7
#define GOAL_HOUR1   0.05
#define GOAL_DEAREST 1.05

#define X(id, name, text) name,
const char *const aw_evaluate_drift_names[] = {AW_EVALUATE_DRIFT_MAP(X) NULL};
#undef X
#define X(id, name, text) text,
const char *const aw_evaluate_drift_texts[] = {AW_EVALUATE_DRIFT_MAP(X) NULL};
#undef X
const char *const aw_evaluate_drifter_names[] = {"learns again", "frozen", "learned anew", NULL};

/* What becomes of the world, and of what is asked. */
struct drift {
    struct aw_effect effect;
    double slo, price_gib; /* times what it was */
};

static struct drift drift_of(uint32_t kind)
{
    struct drift drift = {.effect = aw_effect_none, .slo = 1, .price_gib = 1};
    switch ((enum aw_evaluate_drift_kind)kind) {
    case AW_EVALUATE_DRIFT_LESS:
        drift.effect.load_factor = 0.2;
        break;
    case AW_EVALUATE_DRIFT_MORE:
        drift.effect.load_factor = 5;
        break;
    case AW_EVALUATE_DRIFT_CPU:
        drift.effect.cpu_slowdown = 2;
        break;
    case AW_EVALUATE_DRIFT_SLO:
        drift.slo = 0.8;
        break;
    case AW_EVALUATE_DRIFT_PRICE:
        drift.price_gib = 4;
        break;
    case AW_EVALUATE_DRIFTS:
        break;
    }
    return drift;
}

/* One application with one seed under one change. */
struct unit {
    struct aw_totals hour1[AW_EVALUATE_DRIFTERS], later[AW_EVALUATE_DRIFTERS];
    struct aw_totals after[AW_EVALUATE_DRIFTERS];
};

struct work {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *apps;
    const struct aw_alloc *alloc;
    const struct aw_evaluate_drift *rows; /* kind, and which of `apps` as index */
    struct unit *unit;                    /* [rows * seeds] */
};

static enum aw_err live(const struct work *work, const struct aw__stage *stage,
                        const struct drift *drift, uint64_t seed, uint32_t who, struct unit *unit,
                        struct aw_diag *diag)
{
    struct aw_evaluate_config before = *work->config, after;
    const double step_s = before.simulate.settings.step_s;
    const bool anew = who == AW_EVALUATE_ANEW;
    before.simulate.settings.slo_ms = stage->slo_latency_us * 1e-3;
    after = before;
    after.simulate.settings.slo_ms *= drift->slo;
    after.simulate.settings.price_gib_hour *= drift->price_gib;
    const struct aw_evaluate_config *config = anew ? &after : &before;
    struct aw__day day;
    struct aw__rule rule;
    enum aw_err err = aw__day_first(config, &stage->app, &day, diag);
    err = err ? err
              : aw__rule_named(config, &stage->app, &day,
                               config->fallback ? config->fallback : AW__DAY_FALLBACK, &rule, diag);
    if (err)
        return err;
    const uint32_t hour = (uint32_t)(HOUR_S / step_s), noon = day.half_steps;
    const struct aw__life life = {
        .config = config,
        .app = &stage->app,
        .load = &day.whole,
        .rule = &rule,
        .scenarios = {.count = 1,
                      .event = {{.from_us = anew ? 0 : (int64_t)noon * llround(step_s * 1e6),
                                 .to_us = INT64_MAX,
                                 .name = "drift",
                                 .effect = drift->effect}}},
        .seed = seed,
        .bootstrap = true,
        .retrain = who != AW_EVALUATE_STAYS,
        .mark = {noon, noon + hour, noon + 2 * hour, 2 * noon},
        .mark_count = 4,
        .split = AW__LIFE_NEVER,
        .then = anew ? NULL : &after,
        .then_slo_latency_us = after.simulate.settings.slo_ms * 1e3,
        .then_step = noon,
        .told = who == AW_EVALUATE_RELEARNS && (drift->slo != 1 || drift->price_gib != 1),
    };
    struct aw__lived lived;
    if ((err = aw__life_run(&life, work->alloc, &lived, diag)))
        return err;
    unit->hour1[who] = lived.span[1][AW_JOB_AWARE];
    unit->later[who] = lived.span[3][AW_JOB_AWARE];
    for (uint32_t span = 1; span < 4; span++)
        aw_totals_add(&unit->after[who], &lived.span[span][AW_JOB_AWARE], 1);
    return AW_OK;
}

static enum aw_err run_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const uint32_t each = work->config->seeds * AW_EVALUATE_DRIFTERS;
    const struct aw_evaluate_drift *row = &work->rows[turn / each];
    const uint32_t who = turn % AW_EVALUATE_DRIFTERS, seed = turn % each / AW_EVALUATE_DRIFTERS;
    const struct drift drift = drift_of(row->kind);
    struct aw__stage stage = {0};
    enum aw_err err = aw__stage_set(work->config, &work->apps[row->index], &drift.effect,
                                    work->alloc, &stage, diag);
    if (err)
        return err;
    err = live(work, &stage, &drift, work->config->simulate.seed + seed, who,
               &work->unit[turn / AW_EVALUATE_DRIFTERS], diag);
    aw_load_deinit(&stage.app.day);
    return err;
}

enum aw_err aw_evaluate_drift(const struct aw_evaluate_config *config,
                              const struct aw_evaluate_app *apps, uint32_t count, uint32_t kind,
                              aw_evaluate_progress *progress, void *ctx,
                              const struct aw_alloc *alloc, struct aw_evaluate_drift *ret,
                              struct aw_diag *diag)
{
    const uint32_t rows = count * (kind == AW_EVALUATE_DRIFTS ? AW_EVALUATE_DRIFTS : 1),
                   units = rows * config->seeds;
    for (uint32_t i = 0; i < rows; i++)
        ret[i] = (struct aw_evaluate_drift){.kind = kind == AW_EVALUATE_DRIFTS ? i / count : kind,
                                            .index = i % count};
    struct work work = {config, apps, alloc, ret, aw_alloc_new(alloc, units, sizeof(struct unit))};
    if (!work.unit)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u lives", units);
    enum aw_err err = aw_parallel_tasks(config->simulate.thread_count, units * AW_EVALUATE_DRIFTERS,
                                        run_unit, &work, progress, ctx, alloc, diag);
    for (uint32_t i = 0; !err && i < rows; i++) {
        const struct aw_evaluate_app *app = &apps[ret[i].index];
        ret[i].index = app->index;
        snprintf(ret[i].app, sizeof ret[i].app, "%s", app->app.name);
        for (uint32_t k = 0; k < config->seeds * AW_EVALUATE_DRIFTERS; k++) {
            const struct unit *unit = &work.unit[i * config->seeds + k / AW_EVALUATE_DRIFTERS];
            const uint32_t who = k % AW_EVALUATE_DRIFTERS;
            aw_totals_add(&ret[i].hour1[who], &unit->hour1[who], 1);
            aw_totals_add(&ret[i].later[who], &unit->later[who], 1);
            aw_totals_add(&ret[i].after[who], &unit->after[who], 1);
        }
    }
    aw_alloc_free(alloc, work.unit);
    return err;
}

/* --- the summary ------------------------------------------------------------------------------ */

static double log_cost(const struct aw_totals *totals, double budget)
{
    const struct aw_evaluate_means means = aw_evaluate_means(totals, 1);
    return log(aw_evaluate_priced(&means, budget));
}

static void goals(struct aw_evaluate_drift_sum *sum, uint32_t kind, double step_s)
{
    char name[96];
    const char *drift = aw_evaluate_drift_names[kind];
    if (!isnan(sum->by[kind].closed)) {
        snprintf(name, sizeof name, "%s: of the gap in cost closed within two hours", drift);
        aw__goal_add(sum->goal, &sum->goal_count, name, sum->by[kind].closed, GOAL_CLOSED, false);
    }
    snprintf(name, sizeof name, "%s: missed in the first hour", drift);
    aw__goal_add(
        sum->goal, &sum->goal_count, name,
        aw_evaluate_means(&sum->by[kind].hour1[AW_EVALUATE_RELEARNS], step_s).violation_share,
        GOAL_HOUR1, true);
    snprintf(name, sizeof name, "%s: cost over the frozen one's, worst application", drift);
    aw__goal_add(sum->goal, &sum->goal_count, name, sum->by[kind].dearest, GOAL_DEAREST, true);
}

void aw_evaluate_drift_sum(const struct aw_evaluate_config *config,
                           const struct aw_evaluate_drift *rows, uint32_t count,
                           struct aw_evaluate_drift_sum *ret)
{
    const double budget = config->simulate.settings.slo_budget;
    *ret = (struct aw_evaluate_drift_sum){0};
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_evaluate_drift *row = &rows[i];
        const double anew = log_cost(&row->later[AW_EVALUATE_ANEW], budget);
        ret->by[row->kind].apps++;
        for (uint32_t who = 0; who < AW_EVALUATE_DRIFTERS; who++) {
            aw_totals_add(&ret->by[row->kind].hour1[who], &row->hour1[who], 1);
            aw_totals_add(&ret->by[row->kind].later[who], &row->later[who], 1);
            ret->by[row->kind].cost[who] += log_cost(&row->later[who], budget) - anew;
        }
        ret->by[row->kind].dearest = fmax(ret->by[row->kind].dearest,
                                          exp(log_cost(&row->after[AW_EVALUATE_RELEARNS], budget) -
                                              log_cost(&row->after[AW_EVALUATE_STAYS], budget)));
    }
    for (uint32_t kind = 0; kind < AW_EVALUATE_DRIFTS; kind++) {
        if (ret->by[kind].apps == 0)
            continue;
        double *cost = ret->by[kind].cost;
        for (uint32_t who = 0; who < AW_EVALUATE_DRIFTERS; who++)
            cost[who] /= ret->by[kind].apps;
        const double gap = cost[AW_EVALUATE_STAYS];
        ret->by[kind].closed =
            gap > GAP_LEAST ? (gap - cost[AW_EVALUATE_RELEARNS]) / gap : (double)NAN;
        for (uint32_t who = 0; who < AW_EVALUATE_DRIFTERS; who++)
            cost[who] = exp(cost[who]);
        goals(ret, kind, config->simulate.settings.step_s);
    }
}
