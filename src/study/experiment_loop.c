/*
 * experiment_loop.c - the experiments in which the whole control loop takes part: serving under
 * disturbances (AWARE Fig. 9), bootstrapping (Fig. 10 and Table 3), and both one after the other
 * (Fig. 1). The tables themselves are those of evaluate.h, on applications that no model knows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "study/evaluate_internal.h"
#include "study/experiment_internal.h"
#include "workload/app.h"
#include "workload/scenario.h"

#define MEAN_CORES 2.0
#define APPS_MAX   AW__TEST_COUNT

struct watch {
    const struct aw_experiment_config *config;
    const char *phase;
};

static bool tell(void *ctx, uint32_t done, uint32_t total)
{
    const struct watch *watch = ctx;
    const struct aw_experiment_config *config = watch->config;
    return !config->progress || config->progress(config->progress_ctx, watch->phase, done, total);
}

static uint32_t app_count(const struct aw_experiment_config *config, uint32_t full, uint32_t quick)
{
    if (config->apps)
        return config->apps < APPS_MAX ? config->apps : APPS_MAX;
    return config->scale == AW_EXPERIMENT_FULL ? full : quick;
}

static enum aw_err apps_make(const struct aw_experiment_config *config, uint32_t count,
                             const struct aw_alloc *alloc, struct aw_evaluate_app **ret,
                             struct aw_diag *diag)
{
    struct aw_evaluate_app *apps = aw_alloc_new(alloc, count, sizeof *apps);
    enum aw_err err = apps ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for applications");
    for (uint32_t i = 0; !err && i < count; i++) {
        apps[i].index = aw__test_first(config) + i;
        aw_app_generate(config->pool, apps[i].index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT,
                        &apps[i].app);
        err = aw__load_of(config, apps[i].index, alloc, &apps[i].day, diag);
        if (!err)
            aw_load_scale_cores(&apps[i].day, &apps[i].app, MEAN_CORES);
    }
    if (err && apps) {
        aw_evaluate_apps_deinit(apps, count);
        aw_alloc_free(alloc, apps);
    }
    if (!err)
        *ret = apps;
    return err;
}

static void settings(const struct aw_experiment_config *config, struct aw_evaluate_config *ret)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    aw_evaluate_config_init(ret);
    ret->simulate.seed = config->seed;
    ret->simulate.thread_count = config->threads;
    ret->simulate.tuning_budget = full ? 100 : 20;
    ret->seeds = config->seeds ? config->seeds : 1;
    ret->learn_halves = full ? 4 : 2;
    ret->after_halves = 2;
    ret->cores = MEAN_CORES;
    if (config->paper)
        aw_evaluate_config_paper(ret);
}

/* The model that lives begin at, as in `aware run`; NULL: none was given, or it is of no use to
 * them, which is noted. The caller closes it. */
static struct aw_pretrained *model_open(const struct aw_experiment_config *config,
                                        const struct aw_alloc *alloc,
                                        struct aw_evaluate_config *evaluate,
                                        struct aw_study_report *report)
{
    struct aw_pretrained *model = NULL;
    struct aw_diag why = {0};
    if (!config->model[0])
        return NULL;
    enum aw_err err = aw_pretrained_open(config->model, alloc, &model, &why);
    err = err ? err : aw_pilot_model_fits(&evaluate->pilot, model, &why);
    if (err) {
        aw_study_report_note(report, "lives begin at no model: %s", why.text);
        aw_pretrained_close(model);
        return NULL;
    }
    aw_study_report_note(report, "lives begin at the model %s", aw_pretrained_info(model)->name);
    evaluate->pilot.model = model;
    return model;
}

static enum aw_err totals_row(struct aw_study_report *report, uint32_t table,
                              const struct aw_totals *totals, double step_s, const char *label)
{
    const struct aw_evaluate_means mean = aw_evaluate_means(totals, step_s);
    const double values[] = {mean.reward, mean.violation_share, mean.cpu_utilization,
                             mean.memory_utilization, mean.cost_per_hour};
    return aw_study_report_row(report, table, values, "%s", label);
}

/* Lives of the same applications, one kind beside another: how many times as much, or how much
 * more, of a mean. */
struct beside {
    const struct aw_totals *one, *two; /* of the first application */
    size_t stride;                     /* bytes from there to the next */
    double step_s;
    size_t mean; /* where in struct aw_evaluate_means */
    bool more;
};
#define MEAN(name) offsetof(struct aw_evaluate_means, name)

static double beside_of(const void *ctx, const uint32_t *pick, uint32_t n)
{
    const struct beside *beside = ctx;
    struct aw_totals totals[2] = {0};
    double mean[2];
    for (uint32_t i = 0; i < n; i++) {
        struct aw_totals one, two;
        memcpy(&one, (const char *)beside->one + pick[i] * beside->stride, sizeof one);
        memcpy(&two, (const char *)beside->two + pick[i] * beside->stride, sizeof two);
        aw_totals_add(&totals[0], &one, 1);
        aw_totals_add(&totals[1], &two, 1);
    }
    for (uint32_t k = 0; k < 2; k++) {
        const struct aw_evaluate_means means = aw_evaluate_means(&totals[k], beside->step_s);
        memcpy(&mean[k], (const char *)&means + beside->mean, sizeof mean[k]);
    }
    const double times = mean[1] > 0 ? mean[0] / mean[1] : mean[0] > 0 ? (double)INFINITY : 1;
    return beside->more ? times - 1 : times;
}

/* Of all applications, with its interval over them. */
__attribute__((format(printf, 5, 6))) static struct aw_study_report_figure *
figure_beside(struct aw_study_report *report, const struct beside *beside, uint32_t n, double paper,
              const char *name_format, ...)
{
    char name[AW_STUDY_REPORT_TEXT_MAX];
    uint32_t each[APPS_MAX];
    va_list args;
    va_start(args, name_format);
    vsnprintf(name, sizeof name, name_format, args);
    va_end(args);
    for (uint32_t i = 0; i < n; i++)
        each[i] = i;
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, beside->more ? AW_UNIT_SHARE : AW_UNIT_TIMES,
                               beside_of(beside, each, n), "%s", name);
    if (!figure)
        return NULL;
    figure->interval = aw__resampled(1, n, beside_of, beside);
    figure->paper = paper;
    return figure;
}

/* --- pieces ----------------------------------------------------------------------------------- */

#define PIECE_BYTES_MAX (64u << 10)

struct shelf {
    const struct aw_experiment_config *config;
    const struct aw_evaluate_config *evaluate;
    const char *name;
    uint32_t apps; /* 0: a turn means the same however many there are */
    const struct aw_alloc *alloc;
    struct aw_evaluate_shelf doors;
};

static void shelf_path(const struct shelf *shelf, uint32_t turn, char *buf, size_t size)
{
    const struct aw_evaluate_config *evaluate = shelf->evaluate;
    struct aw__piece_key key;
    aw__piece_key_begin(&key, shelf->config);
    aw__piece_key_number(&key, (double)evaluate->simulate.seed);
    aw__piece_key_number(&key, evaluate->simulate.tuning_budget);
    char model[32] = "";
    if (evaluate->pilot.model)
        snprintf(model, sizeof model, "%016" PRIx64,
                 aw_pretrained_info(evaluate->pilot.model)->checksum);
    aw__piece_key_text(&key, model);
    aw__piece_key_number(&key, evaluate->seeds);
    aw__piece_key_number(&key, evaluate->learn_halves);
    aw__piece_key_number(&key, evaluate->after_halves);
    aw__piece_key_number(&key, evaluate->apps_each);
    aw__piece_key_number(&key, shelf->apps);
    aw__piece_key_number(&key, turn);
    aw__piece_key_path(&key, shelf->config, shelf->name, "piece", buf, size);
}

static bool shelf_take(void *ctx, uint32_t turn, void *piece, size_t size)
{
    const struct shelf *shelf = ctx;
    char path[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX];
    double words[PIECE_BYTES_MAX / sizeof(double)];
    AW_ASSERT(size <= sizeof words);
    shelf_path(shelf, turn, path, sizeof path);
    if (aw__piece_load(path, words, (size + sizeof *words - 1) / sizeof *words, shelf->alloc))
        return false;
    memcpy(piece, words, size);
    return true;
}

static enum aw_err shelf_keep(void *ctx, uint32_t turn, const void *piece, size_t size,
                              struct aw_diag *diag)
{
    const struct shelf *shelf = ctx;
    char path[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX];
    double words[PIECE_BYTES_MAX / sizeof(double)];
    const size_t count = (size + sizeof *words - 1) / sizeof *words;
    AW_ASSERT(size <= sizeof words);
    memset(words, 0, count * sizeof *words);
    memcpy(words, piece, size);
    shelf_path(shelf, turn, path, sizeof path);
    return aw__piece_save(path, words, count, shelf->alloc, diag);
}

/* `evaluate` gets it; both stay where they are. */
static void shelf_make(struct shelf *shelf, const struct aw_experiment_config *config,
                       struct aw_evaluate_config *evaluate, const char *name, uint32_t apps,
                       const struct aw_alloc *alloc)
{
    *shelf = (struct shelf){.config = config,
                            .evaluate = evaluate,
                            .name = name,
                            .apps = apps,
                            .alloc = alloc,
                            .doors = {shelf_take, shelf_keep, shelf}};
    evaluate->shelf = &shelf->doors;
}

static uint32_t totals_table(struct aw_study_report *report, const char *title)
{
    static const char *const columns[] = {"reward", "missed", "CPU", "memory", "$/h", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE, AW_UNIT_PLAIN};
    return aw_study_report_table(report, title, columns, units);
}

static void at_most(struct aw_study_report_figure *figure, double goal)
{
    if (!figure)
        return;
    figure->goal = goal;
    figure->lower = true;
}

/* --- serving ---------------------------------------------------------------------------------- */

/* Who retrains beside who does not, from the disturbance on: what AWARE Fig. 9 compares. */
static void retraining(const struct aw_evaluate_disturbed *row, uint32_t rows, double step_s,
                       struct aw_study_report *report)
{
    if (rows == 0 || rows > APPS_MAX)
        return;
    struct beside beside = {.one = &row->after[AW_EVALUATE_RETRAINED],
                            .two = &row->after[AW_EVALUATE_FROZEN],
                            .stride = sizeof *row,
                            .step_s = step_s,
                            .mean = MEAN(cpu_utilization),
                            .more = true};
    figure_beside(report, &beside, rows, 0.096, "CPU utilization above no retraining");
    beside.mean = MEAN(memory_utilization);
    figure_beside(report, &beside, rows, 0.148, "memory utilization above no retraining");
    beside.mean = MEAN(reward);
    figure_beside(report, &beside, rows, 0.086, "reward above no retraining");
    beside = (struct beside){.one = beside.two,
                             .two = beside.one,
                             .stride = sizeof *row,
                             .step_s = step_s,
                             .mean = MEAN(violation_share)};
    figure_beside(report, &beside, rows, 3.1, "violations without retraining over with it");
    aw_study_report_note(report, "Above no retraining: from the disturbance on, to the end; AWARE "
                                 "Fig. 9 is until its agent has converged again.");
}

static enum aw_err serving(const struct aw_experiment_config *config,
                           const struct aw_evaluate_config *evaluate,
                           const struct aw_evaluate_app *apps, uint32_t count,
                           const struct aw_alloc *alloc, struct aw_study_report *report,
                           struct aw_diag *diag)
{
    struct watch watch = {config, "serving"};
    const uint32_t rows = aw_evaluate_disturbed_count(evaluate, apps, count);
    struct aw_evaluate_disturbed *row = aw_alloc_new(alloc, rows ? rows : 1, sizeof *row);
    struct aw_evaluate_disturbed_sum sum;
    if (!row)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u lives", rows);
    enum aw_err err = aw_evaluate_disturbed(evaluate, apps, count, tell, &watch, alloc, row, diag);
    err = err ? err : aw_evaluate_disturbed_sum(evaluate, row, rows, alloc, &sum, diag);
    if (err) {
        aw_alloc_free(alloc, row);
        return err;
    }
    struct aw_study_report_figure *drop =
        aw_study_report_figure(report, AW_UNIT_SHARE, sum.drop[AW_EVALUATE_RETRAINED],
                               "reward below one that has known nothing else, with retraining");
    at_most(drop, 0.015);
    if (drop) {
        drop->paper = 0.036;
        drop->interval = sum.drop_interval;
    }
    aw_study_report_figure(report, AW_UNIT_SHARE, sum.drop[AW_EVALUATE_FROZEN],
                           "the same without retraining");
    aw_study_report_figure(report, AW_UNIT_SHARE, sum.drop[AW_EVALUATE_FALLBACK],
                           "the same of the fallback alone");
    const double step_s = evaluate->simulate.settings.step_s;
    retraining(row, rows, step_s, report);
    aw_alloc_free(alloc, row);
    const uint32_t table = totals_table(report, "Half a day, after the disturbance");
    for (uint32_t k = 0; !err && k < AW_EVALUATE_KINDS; k++) {
        struct aw_totals all = {0};
        for (uint32_t s = 0; aw_evaluate_scenarios[s]; s++)
            aw_totals_add(&all, &sum.by[s].last[k], 1);
        err = totals_row(report, table, &all, step_s, aw_evaluate_kind_names[k]);
    }
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_BARS, "Reward below native", "", "share");
    for (uint32_t k = 0; !err && k < AW_EVALUATE_KINDS; k++) {
        if (k == AW_EVALUATE_NATIVE)
            continue;
        const uint32_t series = aw_study_report_series(report, plot, aw_evaluate_kind_names[k]);
        for (uint32_t s = 0; !err && aw_evaluate_scenarios[s]; s++)
            err = aw_study_report_point(report, plot, series, s, sum.by[s].drop[k], (double)NAN,
                                        (double)NAN);
    }
    for (uint32_t s = 0; !err && aw_evaluate_scenarios[s]; s++) {
        err = aw_study_report_label(report, plot, s, aw_evaluate_scenarios[s]);
        aw_study_report_note(report, "%s: %u applications", aw_evaluate_scenarios[s],
                             sum.by[s].apps);
    }
    return err;
}

/* Makes the applications, and opens the model that they are met with. */
static enum aw_err
with_apps(const struct aw_experiment_config *config, struct aw_evaluate_config *evaluate,
          uint32_t count,
          enum aw_err (*study)(const struct aw_experiment_config *config,
                               const struct aw_evaluate_config *evaluate,
                               const struct aw_evaluate_app *apps, uint32_t count,
                               const struct aw_alloc *alloc, struct aw_study_report *report,
                               struct aw_diag *diag),
          const struct aw_alloc *alloc, struct aw_study_report *report, struct aw_diag *diag)
{
    struct aw_evaluate_app *apps = NULL;
    report->apps = count;
    report->seeds = evaluate->seeds;
    enum aw_err err = apps_make(config, count, alloc, &apps, diag);
    if (err)
        return err;
    struct aw_pretrained *model = model_open(config, alloc, evaluate, report);
    err = study(config, evaluate, apps, count, alloc, report, diag);
    aw_pretrained_close(model);
    aw_evaluate_apps_deinit(apps, count);
    aw_alloc_free(alloc, apps);
    return err;
}

enum aw_err aw__experiment_serving(const struct aw_experiment_config *config,
                                   const struct aw_alloc *alloc, struct aw_study_report *report,
                                   struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    const uint32_t count = app_count(config, 30, 12);
    struct aw_evaluate_config evaluate;
    struct shelf shelf;
    settings(config, &evaluate);
    evaluate.apps_each = full ? 3 : 1;
    shelf_make(&shelf, config, &evaluate, "serving", count, alloc);
    return with_apps(config, &evaluate, count, serving, alloc, report, diag);
}

/* --- bootstrapping ---------------------------------------------------------------------------- */

static enum aw_err quarters(struct aw_study_report *report, uint32_t plot, const char *name,
                            const struct aw_totals *quarter, double step_s)
{
    const uint32_t series = aw_study_report_series(report, plot, name);
    enum aw_err err = AW_OK;
    for (uint32_t q = 0; !err && q < AW_EVALUATE_QUARTERS; q++)
        err = aw_study_report_point(report, plot, series, q + 1,
                                    aw_evaluate_means(&quarter[q], step_s).reward, (double)NAN,
                                    (double)NAN);
    return err;
}

static enum aw_err bootstrapping(const struct aw_experiment_config *config,
                                 const struct aw_evaluate_config *evaluate,
                                 const struct aw_evaluate_app *apps, uint32_t count,
                                 const struct aw_alloc *alloc, struct aw_study_report *report,
                                 struct aw_diag *diag)
{
    struct watch watch = {config, "bootstrapping"};
    struct aw_evaluate_bootstrap *row = aw_alloc_new(alloc, count, sizeof *row);
    struct aw_evaluate_bootstrap_sum *sum = aw_alloc_new(alloc, 1, sizeof *sum);
    enum aw_err err = row && sum ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for lives");
    err = err ? err : aw_evaluate_bootstrap(evaluate, apps, count, tell, &watch, alloc, row, diag);
    if (!err)
        aw_evaluate_bootstrap_sum(evaluate, row, count, sum);
    const double step_s = evaluate->simulate.settings.step_s;
    for (uint32_t f = 0; !err && f < AW_EVALUATE_FALLBACKS; f++) {
        const char *name = aw_evaluate_fallback_names[f];
        char title[AW_STUDY_REPORT_TEXT_MAX];
        const struct aw_totals *with = &row->by[f].before[AW_EVALUATE_WITH];
        const struct aw_totals *without = &row->by[f].before[AW_EVALUATE_WITHOUT];
        struct beside beside = {with,   &row->by[f].twin,      sizeof *row,
                                step_s, MEAN(violation_share), false};
        at_most(figure_beside(report, &beside, count, (double)NAN,
                              "violations up to SERVING over %s alone", name),
                1.1);
        beside.one = without;
        beside.two = with;
        figure_beside(report, &beside, count, 16.9,
                      "violations without bootstrapping over with it, %s", name);
        beside = (struct beside){with, without, sizeof *row, step_s, MEAN(cpu_utilization), true};
        figure_beside(report, &beside, count, 0.475, "CPU utilization above no bootstrapping, %s",
                      name);
        beside.mean = MEAN(memory_utilization);
        figure_beside(report, &beside, count, 0.392,
                      "memory utilization above no bootstrapping, %s", name);
        beside.mean = MEAN(reward);
        figure_beside(report, &beside, count, 0.473, "reward above no bootstrapping, %s", name);
        snprintf(title, sizeof title, "Up to SERVING, from %s", name);
        const uint32_t table = totals_table(report, title);
        err = totals_row(report, table, &sum->by[f].before[AW_EVALUATE_WITH], step_s, "AWARE");
        err = err ? err
                  : totals_row(report, table, &sum->by[f].before[AW_EVALUATE_WITHOUT], step_s,
                               "without bootstrapping");
        err = err ? err : totals_row(report, table, &sum->by[f].twin, step_s, name);
        snprintf(title, sizeof title, "Reward while learning, from %s", name);
        const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_LINES, title,
                                                   "quarter of the time", "R per episode");
        err = err ? err
                  : quarters(report, plot, "AWARE", sum->by[f].quarter[AW_EVALUATE_WITH], step_s);
        err = err ? err
                  : quarters(report, plot, "without bootstrapping",
                             sum->by[f].quarter[AW_EVALUATE_WITHOUT], step_s);
        err = err ? err : quarters(report, plot, name, sum->by[f].twin_quarter, step_s);
    }
    aw_alloc_free(alloc, sum);
    aw_alloc_free(alloc, row);
    return err;
}

enum aw_err aw__experiment_bootstrapping(const struct aw_experiment_config *config,
                                         const struct aw_alloc *alloc,
                                         struct aw_study_report *report, struct aw_diag *diag)
{
    const uint32_t count = app_count(config, 30, 4);
    struct aw_evaluate_config evaluate;
    struct shelf shelf;
    settings(config, &evaluate);
    shelf_make(&shelf, config, &evaluate, "bootstrapping", 0, alloc);
    return with_apps(config, &evaluate, count, bootstrapping, alloc, report, diag);
}

/* --- end to end ------------------------------------------------------------------------------- */

#define SPANS AW__LIFE_MARKS_MAX

/* Two days in eight spans; from the fifth on there is twice the floating-point work
 * or, where that changes nothing, ten times the requests. */
struct whole {
    const struct aw_experiment_config *config;
    struct aw_evaluate_config evaluate;
    struct aw_evaluate_app *apps;
    uint32_t app_count;
    struct aw__lived *lived;                  /* [app_count][seeds] */
    struct aw_totals (*total)[AW_JOB_WORLDS]; /* [app_count] */
    const struct aw_alloc *alloc;
};

static enum aw_err live_whole(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct whole *w = ctx;
    const struct aw_evaluate_config *config = &w->evaluate;
    const struct aw_evaluate_app *app = &w->apps[turn / config->seeds];
    const uint64_t seed = config->simulate.seed + turn % config->seeds;
    struct aw__day day;
    struct aw__rule rule;
    struct aw_load load = {0};
    const struct aw_scenario *scenario = NULL;
    enum aw_err err = aw_scenario_find("float-ops", &scenario, diag);
    if (!err && !aw_evaluate_affected(&app->app, &scenario->effect))
        err = aw_scenario_find("load-low-to-high", &scenario, diag);
    err = err ? err : aw__day_of(app, config->simulate.settings.step_s, &day, diag);
    err = err ? err : aw__rule_tune(config, app, &day, seed, "hpa+vpa-mem", w->alloc, &rule, diag);
    err = err ? err : aw__day_repeat(&day, 2, 2, w->alloc, &load, diag);
    if (err)
        return err;
    const uint32_t steps = 4 * day.half_steps, came = steps / 2;
    struct aw__life life = {.config = config,
                            .app = app,
                            .load = &load,
                            .rule = &rule,
                            .seed = seed,
                            .twin = true,
                            .bootstrap = true,
                            .retrain = true,
                            .mark_count = SPANS,
                            .split = AW__LIFE_NEVER};
    for (uint32_t i = 0; i < SPANS; i++)
        life.mark[i] = (i + 1) * (steps / SPANS);
    struct aw_event *event = &life.scenarios.event[life.scenarios.count++];
    *event = (struct aw_event){.from_us =
                                   (int64_t)came * llround(config->simulate.settings.step_s * 1e6),
                               .to_us = INT64_MAX,
                               .effect = scenario->effect};
    snprintf(event->name, sizeof event->name, "%s", scenario->name);
    err = aw__life_run(&life, w->alloc, &w->lived[turn], diag);
    aw_load_deinit(&load);
    return err;
}

static enum aw_err live(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct whole *w = ctx;
    return aw__model_shelf_use(w->evaluate.shelf, turn, &w->lived[turn], sizeof *w->lived,
                               live_whole, w, diag);
}

/* AWARE beside the fallback, of each application's two days. */
static void compare_whole(const struct whole *w, struct aw_study_report *report)
{
    const uint32_t seeds = w->evaluate.seeds;
    for (uint32_t life = 0; life < w->app_count * seeds; life++)
        for (uint32_t i = 0; i < SPANS; i++)
            for (uint32_t world = 0; world < AW_JOB_WORLDS; world++)
                aw_totals_add(&w->total[life / seeds][world], &w->lived[life].span[i][world], 1);
    struct beside beside = {.one = &w->total[0][AW_JOB_AWARE],
                            .two = &w->total[0][AW_JOB_TWIN],
                            .stride = sizeof *w->total,
                            .step_s = w->evaluate.simulate.settings.step_s,
                            .mean = MEAN(reward),
                            .more = true};
    figure_beside(report, &beside, w->app_count, (double)NAN, "reward above the fallback alone");
    beside.mean = MEAN(cost_per_hour);
    figure_beside(report, &beside, w->app_count, (double)NAN, "spent above the fallback alone");
    beside.mean = MEAN(violation_share);
    beside.more = false;
    figure_beside(report, &beside, w->app_count, (double)NAN, "violations over the fallback alone");
}

static enum aw_err tell_whole(const struct whole *w, struct aw_study_report *report)
{
    const uint32_t lives = w->app_count * w->evaluate.seeds;
    static const char *const names[AW_JOB_WORLDS] = {"AWARE", "HPA and VPA on memory, tuned"};
    const double step_s = w->evaluate.simulate.settings.step_s;
    const uint32_t reward =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES,
                             "Bootstrapping, serving, a disturbance at the middle, retraining",
                             "quarter of a day", "R per episode");
    const uint32_t missed = aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "SLO missed",
                                                 "quarter of a day", "share of steps");
    const uint32_t table = totals_table(report, "Two days");
    enum aw_err err = AW_OK;
    for (uint32_t world = 0; !err && world < AW_JOB_WORLDS; world++) {
        const uint32_t r = aw_study_report_series(report, reward, names[world]);
        const uint32_t m = aw_study_report_series(report, missed, names[world]);
        struct aw_totals all = {0};
        for (uint32_t i = 0; !err && i < SPANS; i++) {
            struct aw_totals span = {0};
            for (uint32_t a = 0; a < lives; a++)
                aw_totals_add(&span, &w->lived[a].span[i][world], 1);
            aw_totals_add(&all, &span, 1);
            const struct aw_evaluate_means mean = aw_evaluate_means(&span, step_s);
            err = aw_study_report_point(report, reward, r, i + 1, mean.reward, (double)NAN,
                                        (double)NAN);
            err = err ? err
                      : aw_study_report_point(report, missed, m, i + 1, mean.violation_share,
                                              (double)NAN, (double)NAN);
        }
        err = err ? err : totals_row(report, table, &all, step_s, names[world]);
    }
    uint32_t served = 0;
    for (uint32_t a = 0; a < lives; a++)
        served += w->lived[a].serving_step != AW__LIFE_NEVER;
    aw_study_report_figure(report, AW_UNIT_SHARE, (double)served / lives,
                           "lives that came to SERVING");
    compare_whole(w, report);
    aw_study_report_note(report, "AWARE Fig. 1 is a picture: the paper gives no figures of it.");
    return err;
}

enum aw_err aw__experiment_end_to_end(const struct aw_experiment_config *config,
                                      const struct aw_alloc *alloc, struct aw_study_report *report,
                                      struct aw_diag *diag)
{
    const uint32_t count = app_count(config, 20, 4);
    struct whole w = {.config = config, .alloc = alloc, .app_count = count};
    struct shelf shelf;
    settings(config, &w.evaluate);
    shelf_make(&shelf, config, &w.evaluate, "end-to-end", 0, alloc);
    report->apps = count;
    report->seeds = w.evaluate.seeds;
    enum aw_err err = apps_make(config, count, alloc, &w.apps, diag);
    if (err)
        return err;
    struct aw_pretrained *model = model_open(config, alloc, &w.evaluate, report);
    const uint32_t lives = count * w.evaluate.seeds;
    w.lived = aw_alloc_new(alloc, lives, sizeof *w.lived);
    w.total = aw_alloc_new(alloc, count, sizeof *w.total);
    if (!w.lived || !w.total)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u lives", lives);
    err = err ? err : aw__turns(config, lives, "two days", live, &w, alloc, diag);
    err = err ? err : tell_whole(&w, report);
    aw_pretrained_close(model);
    aw_alloc_free(alloc, w.total);
    aw_alloc_free(alloc, w.lived);
    aw_evaluate_apps_deinit(w.apps, count);
    aw_alloc_free(alloc, w.apps);
    return err;
}
