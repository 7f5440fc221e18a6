/* serving_placement.c - what placement by sensitivity is worth, and energy over clocks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serving/placement.h"
#include "serving/requests.h"
#include "study/experiment_internal.h"

#define ATTAINED 0.005

enum placement { BALANCED, SENSITIVE, SENSITIVE_SPREAD, BY_LATENCY, BY_LATENCY_SPREAD, PLACEMENTS };
static const char *const names[PLACEMENTS] = {
    "balanced (AlpaServe's goal)", "by sensitivity (Alg. 6.2 corrected)",
    "by sensitivity, half by load", "by latency", "by latency, half by load"};

static enum aw_err place(struct aw_fleet_world *world, enum placement how, struct aw_diag *diag)
{
    double share[AW_FLEET_MODELS_MAX];
    for (uint32_t m = 0; m < world->models; m++)
        share[m] = aw_serving_work(&aw_serving_models[m], 140);
    switch (how) {
    case SENSITIVE:
        return aw_place_by_sensitivity(world, share, 0.2, diag);
    case SENSITIVE_SPREAD:
        return aw_place_by_sensitivity(world, share, 0.5, diag);
    case BY_LATENCY:
        return aw_place_by_latency(world, share, 0.2, diag);
    case BY_LATENCY_SPREAD:
        return aw_place_by_latency(world, share, 0.5, diag);
    default:
        return AW_OK;
    }
}

struct outcome {
    double watts, attainment;
};

static enum aw_err one_run(const struct aw_requests *requests, uint32_t devices, double load,
                           double scale, uint64_t seed, enum placement how, uint32_t rule,
                           struct outcome *ret, struct aw_diag *diag)
{
    struct aw_fleet_world world;
    struct aw_fleet_load arrivals = {0};
    struct aw_fleet *fleet = NULL;
    struct aw_fleet_result result;
    const struct aw_requests_plan plan = {.load = load,
                                          .from = 0.5,
                                          .to = 1,
                                          .slo_scale = scale,
                                          .guess_sigma = 0.55,
                                          .repeat_s = 3600,
                                          .seed = seed};
    enum aw_err err = aw_fleet_world_table(&world, aw_gpu_kind_find("v100"), devices, diag);
    err = err ? err : aw_requests_load(requests, &plan, &world, &arrivals, diag);
    err = err ? err : place(&world, how, diag);
    err = err ? err : aw_fleet_new(&world, arrivals.count, &fleet, diag);
    struct aw_fleet_settings settings = {.order = {AW_SERVING_SSJF, AW_SERVING_ALPHA_ALONE},
                                         .power = aw_power_defaults,
                                         .switch_s = 0.02,
                                         .seed = seed};
    settings.power.rule = rule;
    if (rule == AW_POWER_MIAD)
        settings.power.floor_x = 1087.0 / 1380;
    err = err ? err : aw_fleet_run(fleet, &arrivals, &settings, &result);
    if (!err)
        *ret = (struct outcome){result.mean_w, result.attainment};
    aw_fleet_free(fleet);
    aw_requests_load_deinit(&arrivals);
    return err;
}

enum aw_err aw__experiment_placement(const struct aw_experiment_config *config,
                                     const struct aw_alloc *alloc, struct aw_study_report *report,
                                     struct aw_diag *diag)
{
    static const double loads[] = {0.1, 0.2, 0.3, 0.5}, scales[] = {2, 5, 10};
    static const uint32_t rules[] = {AW_POWER_MIAD, AW_POWER_PREDICTIVE};
    static const char *const columns[] = {"MIAD: gain", "points", "predictive: gain", "points ",
                                          NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_TIMES, AW_UNIT_SHARE, AW_UNIT_TIMES,
                                                      AW_UNIT_SHARE};
    (void)alloc;
    struct aw_requests requests;
    const uint32_t seeds = config->seeds ? config->seeds : 3;
    double gains = 0, best = 0;
    uint32_t cases = 0, fair = 0, done = 0;
    report->seeds = seeds;
    enum aw_err err = aw_requests_read(config->load, config->seed, 0, &requests, diag);
    if (err)
        return err;
    for (uint32_t big = 0; !err && big < 2; big++)
        for (uint32_t s = 0; !err && s < 3; s++) {
            char title[AW_STUDY_REPORT_TEXT_MAX];
            snprintf(title, sizeof title, "%u GPUs, SLO scale %g: power of balanced over power",
                     big ? 16 : 8, scales[s]);
            const uint32_t table = aw_study_report_table(report, title, columns, units);
            for (uint32_t l = 0; !err && l < 4; l++) {
                double value[PLACEMENTS][4] = {{0}};
                for (uint32_t r = 0; !err && r < 2; r++)
                    for (uint32_t seed = 0; !err && seed < seeds; seed++) {
                        struct outcome base = {0}, own = {0};
                        for (uint32_t how = 0; !err && how < PLACEMENTS; how++) {
                            err = one_run(&requests, big ? 16 : 8, loads[l], scales[s],
                                          config->seed + seed, (enum placement)how, rules[r], &own,
                                          diag);
                            base = how == BALANCED ? own : base;
                            value[how][2 * r] += base.watts / own.watts / seeds;
                            value[how][2 * r + 1] += (own.attainment - base.attainment) / seeds;
                        }
                    }
                for (uint32_t how = SENSITIVE; !err && how < PLACEMENTS; how++)
                    err = aw_study_report_row(report, table, value[how], "load %.0f %%, %s",
                                              100 * loads[l], names[how]);
                for (uint32_t how = SENSITIVE; how <= SENSITIVE_SPREAD; how++) {
                    cases++;
                    if (value[how][3] < -ATTAINED)
                        continue;
                    fair++;
                    gains += value[how][2];
                    best = fmax(best, value[how][2]);
                }
                if (!err && config->progress &&
                    !config->progress(config->progress_ctx, "placements", ++done, 24))
                    err = AW_ERR_INTERRUPTED;
            }
        }
    struct aw_study_report_figure *figure =
        err ? NULL
            : aw_study_report_figure(report, AW_UNIT_TIMES, fair ? gains / fair : NAN,
                                     "mean gain by sensitivity alone, at attainment within 0.5 "
                                     "points");
    if (figure)
        figure->paper = 1.4;
    if (!err) {
        (void)aw_study_report_figure(report, AW_UNIT_TIMES, best, "the best of these");
        (void)aw_study_report_figure(report, AW_UNIT_SHARE, cases ? (double)fair / cases : NAN,
                                     "settings in which attainment held");
    }
    aw_study_report_note(report, "Whole models, the same controller and load for every placement. "
                                 "Points are attainment over that of the balanced placement.");
    aw_requests_deinit(&requests);
    return err;
}

/* --- one GPU over its clocks ------------------------------------------------------------------ */

enum aw_err aw__experiment_frequency(const struct aw_experiment_config *config,
                                     const struct aw_alloc *alloc, struct aw_study_report *report,
                                     struct aw_diag *diag)
{
    static const double clocks[] = {405, 600, 800, 945, 1087, 1237, 1300, 1380};
    static const double shares[] = {0.12, 0.5, 0.6, 0.75, 0.9};
    static const char *const columns[] = {
        "time", "busy power, W", "energy", "energy, idle after", "sensitivity", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_TIMES, AW_UNIT_PLAIN, AW_UNIT_TIMES,
                                                      AW_UNIT_TIMES, AW_UNIT_PLAIN};
    const struct aw_gpu_kind *kind = aw_gpu_kind_find("v100");
    enum aw_err err = AW_OK;
    (void)config;
    (void)alloc;
    (void)diag;
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Energy of a request over the clock",
                             "MHz", "of that at 1,380 MHz");
    for (uint32_t s = 0; !err && s < sizeof shares / sizeof *shares; s++) {
        char title[AW_STUDY_REPORT_TEXT_MAX], name[64];
        snprintf(title, sizeof title, "V100, memory share %.2f", shares[s]);
        snprintf(name, sizeof name, "m = %.2f", shares[s]);
        const uint32_t table = aw_study_report_table(report, title, columns, units),
                       series = aw_study_report_series(report, plot, name);
        const double full = aw_gpu_busy_w(kind, shares[s], 1);
        for (uint32_t c = 0; !err && c < sizeof clocks / sizeof *clocks; c++) {
            const double x = clocks[c] / kind->clock_max, time = shares[s] + (1 - shares[s]) / x,
                         watts = aw_gpu_busy_w(kind, shares[s], x),
                         slowest = shares[s] + (1 - shares[s]) / aw_gpu_x_min(kind);
            /* the same window for all: who is done early idles at the smallest clock */
            const double window = watts * time + kind->idle_min_w * (slowest - time),
                         window_full = full + kind->idle_min_w * (slowest - 1);
            const double values[] = {time, watts, watts * time / full, window / window_full,
                                     2 * (1 - shares[s])};
            err = aw_study_report_row(report, table, values, "%.0f MHz", clocks[c]);
            err = err ? err
                      : aw_study_report_point(report, plot, series, clocks[c], watts * time / full,
                                              NAN, NAN);
        }
    }
    const double half =
        aw_gpu_busy_w(kind, 0.5, 800.0 / 1380) / aw_gpu_busy_w(kind, 0.5, 1300.0 / 1380);
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_TIMES, half, "gpt2-large, 1,300 -> 800 MHz: power of it");
    if (figure)
        figure->paper = 120.0 / 214;
    aw_study_report_note(report, "No public file has LLM decoding under swept clocks: the memory "
                                 "share of decoding is a stated parameter, here .5 to .9.");
    return err;
}
