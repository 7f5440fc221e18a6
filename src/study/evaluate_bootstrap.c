/* evaluate_bootstrap.c - from the first second to SERVING, with bootstrapping and without. */
#include "study/evaluate_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GOAL_VIOLATIONS 1.10 /* of the fallback's alone */

const char *const aw_evaluate_fallback_names[] = {"hpa+vpa", "hpa+vpa-mem", NULL};

/* One application with one seed and one fallback. */
struct unit {
    struct aw__lived lived[AW_EVALUATE_STARTS];
};

struct work {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *apps;
    const struct aw_alloc *alloc;
    struct unit *unit; /* [count * seeds * AW_EVALUATE_FALLBACKS] */
};

static enum aw_err live_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const struct aw_evaluate_config *config = work->config;
    const uint32_t pair = turn / AW_EVALUATE_FALLBACKS;
    const struct aw_evaluate_app *app = &work->apps[pair / config->seeds];
    const uint64_t seed = config->simulate.seed + pair % config->seeds;
    struct unit *unit = &work->unit[turn];
    struct aw__day day;
    struct aw__rule rule;
    struct aw_load load = {0};
    enum aw_err err = aw__day_of(app, config->simulate.settings.step_s, &day, diag);
    err = err ? err
              : aw__rule_tune(config, app, &day, seed,
                              aw_evaluate_fallback_names[turn % AW_EVALUATE_FALLBACKS], work->alloc,
                              &rule, diag);
    err = err ? err : aw__day_repeat(&day, config->learn_halves, 0, work->alloc, &load, diag);
    if (err)
        return err;
    const uint32_t steps = config->learn_halves * day.half_steps;
    struct aw__life life = {.config = config,
                            .app = app,
                            .load = &load,
                            .rule = &rule,
                            .seed = seed,
                            .twin = true,
                            .bootstrap = true,
                            .retrain = true,
                            .split = AW__LIFE_NEVER};
    for (uint32_t q = 1; q <= AW_EVALUATE_QUARTERS; q++)
        life.mark[life.mark_count++] = (uint32_t)((uint64_t)steps * q / AW_EVALUATE_QUARTERS);
    struct aw__lived *with = &unit->lived[AW_EVALUATE_WITH];
    err = aw__life_run(&life, work->alloc, with, diag);
    if (!err) { /* as long as that took, and the twin is the same */
        life.bootstrap = life.twin = false;
        life.split = with->serving_step == AW__LIFE_NEVER ? steps : with->serving_step;
        err = aw__life_run(&life, work->alloc, &unit->lived[AW_EVALUATE_WITHOUT], diag);
    }
    aw_load_deinit(&load);
    return err;
}

static enum aw_err run_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    struct unit *unit = &work->unit[turn];
    return aw__model_shelf_use(work->config->shelf, turn, unit, sizeof *unit, live_unit, ctx, diag);
}

static void merge(const struct aw_evaluate_config *config, const struct aw_evaluate_app *app,
                  const struct unit *units, struct aw_evaluate_bootstrap *ret)
{
    *ret = (struct aw_evaluate_bootstrap){.index = app->index};
    snprintf(ret->app, sizeof ret->app, "%s", app->app.name);
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        double episodes = 0;
        for (uint32_t s = 0; s < config->seeds; s++) {
            const struct unit *unit = &units[s * AW_EVALUATE_FALLBACKS + f];
            const struct aw__lived *with = &unit->lived[AW_EVALUATE_WITH];
            if (with->serving_step != AW__LIFE_NEVER) {
                ret->by[f].reached++;
                episodes += (double)with->serving_step / config->pilot.episode_steps;
            }
            aw_totals_add(&ret->by[f].twin, &with->before[AW_JOB_TWIN], 1);
            for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
                aw_totals_add(&ret->by[f].twin_quarter[q], &with->span[q][AW_JOB_TWIN], 1);
            for (uint32_t k = 0; k < AW_EVALUATE_STARTS; k++) {
                aw_totals_add(&ret->by[f].before[k], &unit->lived[k].before[AW_JOB_AWARE], 1);
                for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
                    aw_totals_add(&ret->by[f].quarter[k][q], &unit->lived[k].span[q][AW_JOB_AWARE],
                                  1);
            }
        }
        ret->by[f].serving_episode =
            ret->by[f].reached ? episodes / ret->by[f].reached : (double)NAN;
    }
}

enum aw_err aw_evaluate_bootstrap(const struct aw_evaluate_config *config,
                                  const struct aw_evaluate_app *apps, uint32_t count,
                                  aw_evaluate_progress *progress, void *ctx,
                                  const struct aw_alloc *alloc, struct aw_evaluate_bootstrap *ret,
                                  struct aw_diag *diag)
{
    const uint32_t each = config->seeds * AW_EVALUATE_FALLBACKS, units = count * each;
    struct work work = {config, apps, alloc, aw_alloc_new(alloc, units, sizeof(struct unit))};
    if (!work.unit)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u runs", units);
    enum aw_err err = aw_parallel_tasks(config->simulate.thread_count, units, run_unit, &work,
                                        progress, ctx, alloc, diag);
    for (uint32_t i = 0; !err && i < count; i++)
        merge(config, &apps[i], &work.unit[(size_t)i * each], &ret[i]);
    aw_alloc_free(alloc, work.unit);
    return err;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : part > 0 ? (double)INFINITY : 1;
}

void aw_evaluate_bootstrap_sum(const struct aw_evaluate_config *config,
                               const struct aw_evaluate_bootstrap *rows, uint32_t count,
                               struct aw_evaluate_bootstrap_sum *ret)
{
    *ret = (struct aw_evaluate_bootstrap_sum){0};
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        uint32_t reached = 0;
        double episodes = 0;
        for (uint32_t i = 0; i < count; i++) {
            reached += rows[i].by[f].reached;
            if (rows[i].by[f].reached)
                episodes += rows[i].by[f].serving_episode * rows[i].by[f].reached;
            aw_totals_add(&ret->by[f].twin, &rows[i].by[f].twin, 1);
            for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
                aw_totals_add(&ret->by[f].twin_quarter[q], &rows[i].by[f].twin_quarter[q], 1);
            for (uint32_t k = 0; k < AW_EVALUATE_STARTS; k++) {
                aw_totals_add(&ret->by[f].before[k], &rows[i].by[f].before[k], 1);
                for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
                    aw_totals_add(&ret->by[f].quarter[k][q], &rows[i].by[f].quarter[k][q], 1);
            }
        }
        for (uint32_t k = 0; k < AW_EVALUATE_STARTS; k++)
            ret->by[f].violation_ratio[k] =
                ratio(ret->by[f].before[k].violations, ret->by[f].twin.violations);
        ret->by[f].without_ratio = ratio(ret->by[f].before[AW_EVALUATE_WITHOUT].violations,
                                         ret->by[f].before[AW_EVALUATE_WITH].violations);
        ret->by[f].reached_share = (double)reached / ((double)count * config->seeds);
        ret->by[f].serving_episode = reached ? episodes / reached : (double)NAN;
        struct aw_evaluate_goal *goal = &ret->goal[ret->goal_count++];
        *goal = (struct aw_evaluate_goal){.value = ret->by[f].violation_ratio[AW_EVALUATE_WITH],
                                          .goal = GOAL_VIOLATIONS,
                                          .lower_is_better = true};
        snprintf(goal->name, sizeof goal->name,
                 "violations up to SERVING over those of %s on the same load",
                 aw_evaluate_fallback_names[f]);
    }
}
