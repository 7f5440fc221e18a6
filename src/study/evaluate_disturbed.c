/* evaluate_disturbed.c - after a disturbance: who learns again, who does not, who knew it all. */
#include "study/evaluate_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GOAL_DROP 0.015 /* of the reward of one that knew nothing else; the paper has 0.036 */
#define AFFECTED  0.1   /* of CPU time, waiting, memory or arrivals: less is no disturbance */
#define LIVES     3u    /* RETRAINED, FROZEN, NATIVE; the fallback is the first one's twin */

const char *const aw_evaluate_scenarios[] = {"file-size",        "table-size",       "float-ops",
                                             "image-size",       "text-size",        "model-size",
                                             "load-high-to-low", "load-low-to-high", NULL};
_Static_assert(sizeof aw_evaluate_scenarios / sizeof *aw_evaluate_scenarios ==
                   AW_EVALUATE_SCENARIOS_MAX + 1,
               "every scenario has a row");
const char *const aw_evaluate_kind_names[] = {"retrained", "not retrained", "knew nothing else",
                                              "fallback alone", NULL};

static struct aw_effect effect_of(uint32_t scenario)
{
    const struct aw_scenario *found = NULL;
    const enum aw_err err = aw_scenario_find(aw_evaluate_scenarios[scenario], &found, NULL);
    AW_ASSERT(!err); /* the table names scenarios that there are */
    return found->effect;
}

static bool differs(double a, double b)
{
    return fabs(a - b) > AFFECTED * fmax(a, b);
}

bool aw_evaluate_affected(const struct aw_app *app, const struct aw_effect *effect)
{
    struct aw_demand before, after;
    aw_app_demand(app, 1, 0, &before);
    aw_app_demand(app, effect->payload, effect->families, &after);
    return differs(effect->load_factor, 1) || differs(before.cpu_ms, after.cpu_ms) ||
           differs(before.io_ms, after.io_ms) ||
           differs(before.memory_base_mib + before.memory_flight_mib,
                   after.memory_base_mib + after.memory_flight_mib);
}

/* Which application row `row` of scenario `scenario` is; UINT32_MAX: there is none. */
static uint32_t app_of(const struct aw_evaluate_config *config, const struct aw_evaluate_app *apps,
                       uint32_t count, uint32_t scenario, uint32_t row)
{
    const struct aw_effect effect = effect_of(scenario);
    for (uint32_t i = 0; i < count && row < config->apps_each; i++)
        if (aw_evaluate_affected(&apps[i].app, &effect) && row-- == 0)
            return i;
    return UINT32_MAX;
}

uint32_t aw_evaluate_disturbed_count(const struct aw_evaluate_config *config,
                                     const struct aw_evaluate_app *apps, uint32_t count)
{
    uint32_t rows = 0;
    for (uint32_t s = 0; aw_evaluate_scenarios[s]; s++)
        for (uint32_t row = 0; app_of(config, apps, count, s, row) != UINT32_MAX; row++)
            rows++;
    return rows;
}

struct unit {
    struct aw_totals after[AW_EVALUATE_KINDS], last[AW_EVALUATE_KINDS];
    bool served;
    uint32_t moves;
};

struct work {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *apps;
    const struct aw_evaluate_disturbed *rows; /* scenario and index into `apps` */
    const struct aw_alloc *alloc;
    struct unit *unit; /* [rows * seeds] */
};

static void take(const struct aw__lived *lived, enum aw_job_world world, uint32_t kind,
                 struct unit *unit)
{
    unit->after[kind] = unit->last[kind] = lived->span[2][world];
    aw_totals_add(&unit->after[kind], &lived->span[1][world], 1);
}

static enum aw_err live_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const struct aw_evaluate_config *config = work->config;
    const struct aw_evaluate_disturbed *row = &work->rows[turn / config->seeds];
    const uint64_t seed = config->simulate.seed + turn % config->seeds;
    const struct aw_effect effect = effect_of(row->scenario);
    struct unit *unit = &work->unit[turn];
    struct aw_evaluate_config own = *config;
    struct aw__stage stage = {0};
    struct aw__day day;
    struct aw__rule rule;
    struct aw_load load = {0};
    enum aw_err err =
        aw__stage_set(config, &work->apps[row->index], &effect, work->alloc, &stage, diag);
    if (err)
        return err;
    own.simulate.settings.slo_ms = stage.slo_latency_us * 1e-3;
    err = aw__day_of(&stage.app, config->simulate.settings.step_s, &day, diag);
    err =
        err ? err
            : aw__rule_tune(&own, &stage.app, &day, seed, "hpa+vpa-mem", work->alloc, &rule, diag);
    err = err ? err
              : aw__day_repeat(&day, config->learn_halves, config->after_halves, work->alloc, &load,
                               diag);
    const uint32_t came = config->learn_halves * day.half_steps,
                   end = came + config->after_halves * day.half_steps;
    for (uint32_t kind = 0; !err && kind < LIVES; kind++) {
        struct aw__life life = {
            .config = &own,
            .app = &stage.app,
            .load = &load,
            .rule = &rule,
            .seed = seed,
            .twin = kind == AW_EVALUATE_RETRAINED,
            .bootstrap = true,
            .retrain = kind != AW_EVALUATE_FROZEN,
            .mark = {came, end - day.half_steps, end},
            .mark_count = 3,
            .split = AW__LIFE_NEVER,
        };
        struct aw_event *event = &life.scenarios.event[life.scenarios.count++];
        *event = (struct aw_event){
            .from_us = kind == AW_EVALUATE_NATIVE
                           ? 0
                           : (int64_t)came * llround(config->simulate.settings.step_s * 1e6),
            .to_us = INT64_MAX,
            .effect = effect};
        snprintf(event->name, sizeof event->name, "%s", aw_evaluate_scenarios[row->scenario]);
        struct aw__lived lived;
        if ((err = aw__life_run(&life, work->alloc, &lived, diag)))
            break;
        take(&lived, AW_JOB_AWARE, kind, unit);
        if (kind != AW_EVALUATE_RETRAINED)
            continue;
        take(&lived, AW_JOB_TWIN, AW_EVALUATE_FALLBACK, unit);
        unit->served = lived.stage[0] == AW_STAGE_SERVING;
        unit->moves = lived.transitions[2] - lived.transitions[0];
    }
    aw_load_deinit(&load);
    aw_load_deinit(&stage.app.day);
    return err;
}

static enum aw_err run_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    struct unit *unit = &work->unit[turn];
    return aw__model_shelf_use(work->config->shelf, turn, unit, sizeof *unit, live_unit, ctx, diag);
}

enum aw_err aw_evaluate_disturbed(const struct aw_evaluate_config *config,
                                  const struct aw_evaluate_app *apps, uint32_t count,
                                  aw_evaluate_progress *progress, void *ctx,
                                  const struct aw_alloc *alloc, struct aw_evaluate_disturbed *ret,
                                  struct aw_diag *diag)
{
    uint32_t rows = 0;
    if (config->after_halves < 2)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected at least 2 halves of a day after a disturbance, found %u",
                       config->after_halves);
    for (uint32_t s = 0; aw_evaluate_scenarios[s]; s++) {
        uint32_t app;
        for (uint32_t k = 0; (app = app_of(config, apps, count, s, k)) != UINT32_MAX; k++)
            ret[rows++] = (struct aw_evaluate_disturbed){.scenario = s, .index = app};
    }
    const uint32_t units = rows * config->seeds;
    struct work work = {config, apps, ret, alloc, aw_alloc_new(alloc, units, sizeof(struct unit))};
    if (!work.unit)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u runs", units);
    enum aw_err err = aw_parallel_tasks(config->simulate.thread_count, units, run_unit, &work,
                                        progress, ctx, alloc, diag);
    for (uint32_t i = 0; !err && i < rows; i++) {
        for (uint32_t s = 0; s < config->seeds; s++) {
            const struct unit *unit = &work.unit[(size_t)i * config->seeds + s];
            ret[i].served += unit->served;
            ret[i].moves += (double)unit->moves / config->seeds;
            for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++) {
                aw_totals_add(&ret[i].after[k], &unit->after[k], 1);
                aw_totals_add(&ret[i].last[k], &unit->last[k], 1);
            }
        }
        snprintf(ret[i].app, sizeof ret[i].app, "%s", apps[ret[i].index].app.name);
        ret[i].index = apps[ret[i].index].index;
    }
    aw_alloc_free(alloc, work.unit);
    return err;
}

/* Reward below that of the one that knew nothing else, as a share of it. */
static double drop(const struct aw_totals *totals, uint32_t kind)
{
    const double native = aw_evaluate_means(&totals[AW_EVALUATE_NATIVE], 1).reward;
    return (native - aw_evaluate_means(&totals[kind], 1).reward) / native;
}

enum aw_err aw_evaluate_disturbed_sum(const struct aw_evaluate_config *config,
                                      const struct aw_evaluate_disturbed *rows, uint32_t count,
                                      const struct aw_alloc *alloc,
                                      struct aw_evaluate_disturbed_sum *ret, struct aw_diag *diag)
{
    struct aw_evaluate_disturbed_sum sum = {0};
    uint32_t scenarios = 0;
    (void)config;
    AW_ASSERT(count > 0);
    double *drops = aw_alloc_new(alloc, count, sizeof *drops);
    if (!drops)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u figures", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_evaluate_disturbed *row = &rows[i];
        sum.by[row->scenario].apps++;
        drops[i] = drop(row->last, AW_EVALUATE_RETRAINED);
        for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++) {
            aw_totals_add(&sum.by[row->scenario].after[k], &row->after[k], 1);
            aw_totals_add(&sum.by[row->scenario].last[k], &row->last[k], 1);
        }
    }
    enum aw_err err = aw__interval(drops, count, alloc, &sum.drop_interval, diag);
    aw_alloc_free(alloc, drops);
    if (err)
        return err;
    for (uint32_t s = 0; s < AW_EVALUATE_SCENARIOS_MAX; s++)
        scenarios += sum.by[s].apps > 0;
    for (uint32_t s = 0; s < AW_EVALUATE_SCENARIOS_MAX; s++) {
        for (uint32_t k = 0; sum.by[s].apps > 0 && k < AW_EVALUATE_KINDS; k++) {
            sum.by[s].drop[k] = drop(sum.by[s].last, k);
            sum.drop[k] += sum.by[s].drop[k] / scenarios;
            sum.drop_after[k] += drop(sum.by[s].after, k) / scenarios;
        }
    }
    sum.goal[0] = (struct aw_evaluate_goal){
        .name = "reward below one that knew nothing else, mean over scenarios",
        .value = sum.drop[AW_EVALUATE_RETRAINED],
        .goal = GOAL_DROP,
        .lower_is_better = true};
    sum.goal[1] =
        (struct aw_evaluate_goal){.name = "the same without retraining, no less than with it",
                                  .value = sum.drop[AW_EVALUATE_FROZEN],
                                  .goal = sum.drop[AW_EVALUATE_RETRAINED],
                                  .lower_is_better = false};
    sum.goal_count = 2;
    *ret = sum;
    return AW_OK;
}
