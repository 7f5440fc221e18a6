/*
 * serving_demo.c - `aware run --demo serving`: fifteen models on eight simulated GPUs through an
 * hour of requests, with clocks that follow the slack of SLOs, beside fixed clocks.
 */
#include "lab/serving_demo.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/stop.h"
#include "frame/version.h"
#include "lab/experiment.h"
#include "serving/requests.h"

#define DEVICES 8u
#define LOAD    0.25
#define HOUR_S  3600.0
#define TRACK_S 10.0 /* of simulated time between two looks */
#define TRACKS  512u
#define LIVE_S  45.0 /* that the hour takes on a terminal */
#define REPORT  "report.html"
#define TRACE   "llm_traces/azure_llm_2023_conv.csv.gz" /* below AWARE_DATA_DIR */
/* Without it: bursts to three times the mean, two minutes of every ten, which is about what the
 * busiest minutes of the Azure traces are. */
#define PATTERN "bursts:peak=3,period=10m,duration=2m,length=1h"
#define BAR     20u

/* What was seen over time. */
struct record {
    uint32_t count;
    double at_s[TRACKS], watts[TRACKS], clock[TRACKS], attained[TRACKS], energy_j[TRACKS];
};

struct show {
    struct record fixed, own;
    struct record *into;
    bool live; /* redraw on the terminal */
    bool drawn, color;
    double per_s; /* simulated seconds in one of ours */
    int64_t begin_us;
    double last_j;
    const struct aw_gpu_kind *kind;
    double slo_requests;
};

static double clock_mean(const struct aw_fleet_now *now)
{
    double sum = 0;
    for (uint32_t d = 0; d < now->devices; d++)
        sum += now->clock_mhz[d];
    return sum / now->devices;
}

static void draw(struct show *show, double now_s, const struct aw_fleet_now *now, double watts,
                 double attained)
{
    static const char *const cells[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    const uint32_t at = show->into->count - 1;
    const double fixed = at < show->fixed.count ? show->fixed.watts[at] : NAN;
    const double fixed_j = at < show->fixed.count ? show->fixed.energy_j[at] : NAN;
    if (show->drawn)
        fprintf(stderr, "\033[%uA", DEVICES + 4);
    show->drawn = true;
    fprintf(stderr, "\033[K  %02d:%02d  fifteen models on eight simulated V100s, SLO scale 5\n",
            (int)now_s / 60, (int)now_s % 60);
    fprintf(stderr,
            "\033[K  %sclocks that follow the SLO %6.0f W%s   fixed clocks %6.0f W   saved so far "
            "%.2fx\n",
            show->color ? "\033[32m" : "", watts, show->color ? "\033[0m" : "", fixed,
            fixed_j / fmax(now->energy_j, 1));
    fprintf(stderr, "\033[K  in time %.2f %%   %" PRIu64 " requests   %.2f J a token\n\033[K\n",
            100 * attained, now->done, now->energy_j / fmax((double)now->tokens, 1));
    for (uint32_t d = 0; d < now->devices; d++) {
        const double x = now->clock_mhz[d] / show->kind->clock_max * BAR;
        fprintf(stderr, "\033[K  GPU %u %5.0f MHz ", d, now->clock_mhz[d]);
        for (uint32_t b = 0; b < BAR; b++)
            fputs(cells[(uint32_t)(fmin(fmax(x - b, 0), 1) * 8)], stderr);
        fprintf(stderr, " %4.0f W  %s\n", now->power_w[d],
                now->busy[d] ? now->waiting[d] ? "busy, others wait" : "busy" : "idle");
    }
    fflush(stderr);
}

static bool track(void *ctx, double now_s, const struct aw_fleet_now *now)
{
    struct show *show = ctx;
    struct record *record = show->into;
    if (record->count == TRACKS || now_s > HOUR_S)
        return !aw_stop_signal;
    const uint32_t at = record->count++;
    const double watts = (now->energy_j - show->last_j) / TRACK_S;
    show->last_j = now->energy_j;
    record->at_s[at] = now_s;
    record->watts[at] = watts;
    record->clock[at] = clock_mean(now);
    record->energy_j[at] = now->energy_j;
    record->attained[at] =
        1 - (double)now->missed / fmax((double)now->done, 1); /* of what has ended */
    if (show->live && record == &show->own) {
        draw(show, now_s, now, watts, record->attained[at]);
        const int64_t due_us = show->begin_us + (int64_t)(1e6 * now_s / show->per_s),
                      wait_us = due_us - aw_clock_monotonic_us(NULL);
        if (wait_us > 0)
            nanosleep(&(struct timespec){wait_us / 1000000, wait_us % 1000000 * 1000}, NULL);
    }
    return !aw_stop_signal;
}

/* --- what it came to -------------------------------------------------------------------------- */

static enum aw_err series_add(struct aw_study_report *report, uint32_t plot, const char *name,
                              const struct record *record, const double *value)
{
    enum aw_err err = AW_OK;
    const uint32_t series = aw_study_report_series(report, plot, name);
    for (uint32_t i = 0; !err && i < record->count; i++)
        err = aw_study_report_point(report, plot, series, record->at_s[i] / 60, value[i], NAN, NAN);
    return err;
}

static enum aw_err report_fill(struct aw_study_report *report, const struct show *show,
                               const struct aw_fleet_result *fixed,
                               const struct aw_fleet_result *own)
{
    static const char *const columns[] = {"watts",      "in time", "J/request",  "J/token",
                                          "idle share", "p99",     "switches/h", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_PLAIN,
                                                      AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_SECONDS,
                                                      AW_UNIT_COUNT};
    static const char *const names[] = {"fixed clocks", "clocks that follow the SLO"};
    const struct aw_fleet_result *result[] = {fixed, own};
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_TIMES, fixed->mean_w / own->mean_w, "power of fixed clocks over ours");
    if (figure)
        figure->paper = 1.9;
    (void)aw_study_report_figure(report, AW_UNIT_SHARE, own->attainment - fixed->attainment,
                                 "attainment against fixed clocks");
    char run[48];
    snprintf(run, sizeof run, "The whole run, %.1f hours", own->length_s / 3600);
    const uint32_t table = aw_study_report_table(report, run, columns, units);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < 2; i++) {
        const double values[] = {result[i]->mean_w,
                                 result[i]->attainment,
                                 result[i]->energy_j / (double)result[i]->requests,
                                 result[i]->energy_j / fmax(result[i]->tokens, 1),
                                 result[i]->idle_j / result[i]->energy_j,
                                 result[i]->latency_p99_s,
                                 result[i]->switches / result[i]->length_s * 3600};
        err = aw_study_report_row(report, table, values, "%s", names[i]);
    }
    const struct record *records[] = {&show->fixed, &show->own};
    const uint32_t watts =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Power of eight GPUs", "minutes", "W");
    const uint32_t clocks =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Mean clock", "minutes", "MHz");
    const uint32_t attained = aw_study_report_plot(report, AW_STUDY_REPORT_LINES,
                                                   "Requests in time so far", "minutes", "share");
    for (uint32_t i = 0; !err && i < 2; i++) {
        err = series_add(report, watts, names[i], records[i], records[i]->watts);
        err = err ? err : series_add(report, clocks, names[i], records[i], records[i]->clock);
        err = err ? err : series_add(report, attained, names[i], records[i], records[i]->attained);
    }
    static const char *const model_columns[] = {"J/request", "idle apart: busy kJ", "requests",
                                                "in time", NULL};
    static const enum aw_study_report_unit model_units[] = {AW_UNIT_PLAIN, AW_UNIT_PLAIN,
                                                            AW_UNIT_COUNT, AW_UNIT_SHARE};
    const uint32_t models = aw_study_report_table(
        report, "Who used the energy (clocks that follow the SLO)", model_columns, model_units);
    for (uint32_t m = 0; !err && m < AW_SERVING_MODELS; m++) {
        const double done = fmax((double)own->model_done[m], 1),
                     values[] = {own->model_j[m] / done, own->model_j[m] / 1e3, done,
                                 1 - (double)own->model_missed[m] / done};
        err = aw_study_report_row(report, models, values, "%s", aw_serving_models[m].name);
    }
    const double idle[] = {NAN, own->idle_j / 1e3, NAN, NAN};
    err = err ? err : aw_study_report_row(report, models, idle, "%s", "(idle)");
    aw_study_report_note(report, "GPUs are simulated from public measurements of a V100; 'aware "
                                 "serving validate' says how wrong they are. Busy energy is booked "
                                 "to requests, idle energy apart; together they are the counter.");
    return err;
}

static enum aw_err tell(const struct aw_call *call, struct show *show,
                        const struct aw_fleet_result *fixed, const struct aw_fleet_result *own,
                        const char *load, struct aw_diag *diag)
{
    static const struct aw_experiment_entry entry = {
        .name = "demo-serving",
        .shows = "mu-Serve",
        .title = "Fifteen models on eight simulated GPUs, an hour: clocks that follow the SLO"};
    const char *asked = aw_args_text(call->args, "report");
    const char *path = asked ? asked : REPORT;
    struct aw_study_report *report = NULL;
    struct aw__experiment *ask = aw_alloc_new(NULL, 1, sizeof *ask);
    enum aw_err err = ask ? aw_study_report_new(entry.name, entry.title, NULL, &report, diag)
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory for the demo");
    if (!err) {
        ask->entry = &entry;
        aw_experiment_config_init(&ask->config);
        snprintf(ask->load, sizeof ask->load, "%s", load);
        snprintf(report->command, sizeof report->command, "aware run --demo serving");
        snprintf(report->source, sizeof report->source, "%s", AW_VERSION_SOURCE);
        err = report_fill(report, show, fixed, own);
    }
    json_t *document = err ? NULL : aw__experiment_json(ask, report);
    if (!err && !document)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the JSON document");
    if (!err && call->json)
        err = aw_json_print(json_incref(document), diag);
    else if (!err)
        printf("In %.1f hours, the first of which is drawn: %.0f %% less power (%.2fx), %.0f W "
               "instead of %.0f W;\n%.2f %% of requests in time (fixed clocks: %.2f %%); %.2f J a "
               "token instead of %.2f; %.0f %% of the\nenergy was used by idle GPUs.\n",
               own->length_s / 3600, 100 * (1 - own->mean_w / fixed->mean_w),
               fixed->mean_w / own->mean_w, own->mean_w, fixed->mean_w, 100 * own->attainment,
               100 * fixed->attainment, own->energy_j / fmax(own->tokens, 1),
               fixed->energy_j / fmax(fixed->tokens, 1), 100 * own->idle_j / own->energy_j);
    if (!err && (asked || !call->json)) {
        err = aw__experiment_page_write(document, path, diag);
        if (!err && !call->json)
            printf("The page is %s. Next: aware serving plan, aware experiment power.\n", path);
    }
    json_decref(document);
    aw_study_report_free(report);
    aw_alloc_free(NULL, ask);
    return err;
}

enum aw_err aw_serving_demo(const struct aw_call *call, struct aw_diag *diag)
{
    const char *data = getenv("AWARE_DATA_DIR");
    char path[AW_EXPERIMENT_PATH_MAX];
    const uint64_t seed = aw_args_number(call->args, "seed");
    struct aw_requests requests = {0};
    struct aw_fleet_world world;
    struct aw_fleet_load load = {0};
    struct aw_fleet *fleet = NULL;
    struct aw_fleet_result fixed, own;
    const struct aw_requests_plan plan = {.load = LOAD,
                                          .to = 1,
                                          .slo_scale = 5,
                                          .guess_sigma = 0.55,
                                          .repeat_s = HOUR_S,
                                          .seed = seed};
    struct show *show = aw_alloc_new(NULL, 1, sizeof *show);
    if (!show)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the demo");
    snprintf(path, sizeof path, "%s/" TRACE, data ? data : "");
    bool traced = data && !aw_requests_read(path, seed, 0, &requests, NULL);
    enum aw_err err = traced ? AW_OK : aw_requests_read(PATTERN, seed, 0, &requests, diag);
    err = err ? err : aw_fleet_world_table(&world, aw_gpu_kind_find("v100"), DEVICES, diag);
    err = err ? err : aw_requests_load(&requests, &plan, &world, &load, diag);
    err = err ? err : aw_fleet_new(&world, load.count, &fleet, diag);
    struct aw_fleet_settings settings = {.order = {AW_SERVING_SSJF, AW_SERVING_ALPHA_ALONE},
                                         .power = aw_power_defaults,
                                         .switch_s = 0.02,
                                         .seed = seed,
                                         .track_s = TRACK_S,
                                         .track = track,
                                         .track_ctx = show};
    show->kind = world.kind;
    show->color = call->color_err;
    show->live = !call->json && !aw_args_given(call->args, "quiet") && aw_is_terminal(stderr);
    show->per_s = HOUR_S / LIVE_S;
    show->into = &show->fixed;
    settings.power.rule = AW_POWER_FIXED;
    err = err ? err : aw_fleet_run(fleet, &load, &settings, &fixed);
    show->into = &show->own;
    show->last_j = 0;
    show->begin_us = aw_clock_monotonic_us(NULL);
    settings.power.rule = AW_POWER_PREDICTIVE;
    err = err ? err : aw_fleet_run(fleet, &load, &settings, &own);
    if (err == AW_ERR_INTERRUPTED)
        aw_fail(diag, err, "interrupted");
    err =
        err ? err
            : tell(call, show, &fixed, &own, traced ? "azure_llm_2023_conv.csv.gz" : PATTERN, diag);
    aw_fleet_free(fleet);
    aw_requests_load_deinit(&load);
    aw_requests_deinit(&requests);
    aw_alloc_free(NULL, show);
    return err;
}
