/*
 * calibrate.c - the verb `calibrate`: real processes measured, the simulator fitted to them, and
 * the two compared where the fit has not looked.
 *
 * For each application replicas of aware-workload are started once and then resized in place from
 * size to size. A measurement during which others used the machine is done again, and the quieter
 * one is kept.
 */
#include "lab/calibrate.h"

#include "base/clock.h"
#include "base/quantity.h"
#include "base/threads.h"
#include "base/units.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "lab/calibrate_testbed.h"
#include "service/service.h"
#include "workload/apps.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define SATURATE_S   3.0  /* that a size is given too much for */
#define OVERHEAD_S   1.3  /* of each measurement: warm-up, resizing */
#define DRAIN_S      1.2  /* after too much */
#define FIT_S        12.0 /* of the fit and the models, about */
#define PROBE_CORES  0.15 /* that the first requests are to keep busy */
#define PROBE_LIMIT  1000 /* millicores, or half of the machine */
#define PROBE_S      4.0
#define BAR          24
#define MEMORY_SPARE (256 * AW_MIB_REAL)
#define IN_FLIGHT    256.0 /* requests that memory is there for */
#define DIGITS       4     /* of figures written: more would be noise */

struct session {
    const struct aw_call *run;
    struct aw_calibrate_world world;
    struct aw_calibrate_size size[AW_CALIBRATE_SIZES_MAX];
    uint32_t size_count;
    double span_s;
    uint32_t repeats;
    struct aw__calibration out;
    /* progress */
    struct aw_status_line line;
    int64_t begin_us;
    double planned_s, done_s, current_s;
    char what[96];
};

/* --- progress --------------------------------------------------------------------------------- */

static void progress_draw(struct session *s, double share)
{
    const double done = s->done_s + share * s->current_s;
    const double way = fmin(1, done / s->planned_s);
    char bar[BAR + 1], left[32];
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(way * BAR) ? '#' : '.';
    bar[BAR] = '\0';
    aw_seconds_format(fmax(0, s->planned_s - done), left, sizeof left);
    aw_status_line_draw(&s->line, false, aw_clock_monotonic_us(NULL), "[%s] %3.0f %%  %s left  %s",
                        bar, 100 * way, left, s->what);
}

static bool goes_on(void *ctx, double share)
{
    progress_draw(ctx, share);
    return !aw_stop_signal;
}

static void progress_next(struct session *s, double seconds)
{
    s->done_s += s->current_s;
    s->current_s = seconds;
}

/* --- what was asked --------------------------------------------------------------------------- */

/* "kind:gzip,sleep" as aware-workload has it: one segment of each kind, as described. */
static enum aw_err app_of_kinds(const char *list, struct aw_app *ret, struct aw_diag *diag)
{
    struct aw_app app = {0};
    const struct aw_segment *kinds = aw_segment_builtin();
    uint32_t used = 0;
    for (const char *at = list;; at++) {
        const size_t len = strcspn(at, ",");
        uint32_t i = 0;
        while (i < AW_SEGMENT_BUILTIN_COUNT &&
               (strlen(kinds[i].name) != len || memcmp(kinds[i].name, at, len) != 0))
            i++;
        if (i == AW_SEGMENT_BUILTIN_COUNT || app.segment_count == AW_APP_SEGMENTS_MAX)
            return aw_fail(diag, AW_ERR_USAGE,
                           "expected 1 to %u segment kinds with commas between, found %s",
                           AW_APP_SEGMENTS_MAX, AW_QUOTE(list));
        app.segment[app.segment_count++] = kinds[i];
        used +=
            (uint32_t)snprintf(app.name + used, used < sizeof app.name ? sizeof app.name - used : 0,
                               "%s%s", used ? "-" : "", kinds[i].name);
        used = used < sizeof app.name ? used : sizeof app.name - 1;
        at += len;
        if (!*at)
            break;
    }
    *ret = app;
    return AW_OK;
}

/* As aware-workload --app takes it, which is handed the same text. */
static enum aw_err app_find(const char *text, struct aw_app *ret, struct aw_diag *diag)
{
    char seed_text[24] = "";
    uint64_t seed, index;
    const size_t len = strcspn(text, ":");
    if (!strncmp(text, "kind:", 5))
        return app_of_kinds(text + 5, ret, diag);
    if (len < sizeof seed_text && text[len])
        memcpy(seed_text, text, len);
    if (!aw_text_parse_u64(seed_text, &seed) && !aw_text_parse_u64(text + len + 1, &index) &&
        index <= UINT32_MAX) {
        aw_app_generate(seed, (uint32_t)index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, ret);
        return AW_OK;
    }
    return aw_apps_read_one(text, ret, diag);
}

/* A description without a limit is served by as many workers as the program has then: what comes on
 * top of them waits its turn instead of sharing the processor with all. */
static void as_served(struct aw_app *app)
{
    struct aw_demand demand;
    aw_app_demand(app, 1, 0, &demand);
    if (!demand.threads)
        app->segment[0].threads = AW_SERVICE_WORKERS_UNLIMITED;
}

/* "2x250m", "300m" or "0.3". */
static enum aw_err size_parse(const struct session *s, const char *word, size_t len, bool seen,
                              struct aw_calibrate_size *ret, struct aw_diag *diag)
{
    char text[48], count[16] = "1";
    uint64_t replicas = 0;
    snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), word);
    const char *x = strchr(text, 'x'), *limit = x ? x + 1 : text;
    if (x)
        snprintf(count, sizeof count, "%.*s", (int)(x - text), text);
    struct aw_calibrate_size size = {.seen = seen};
    if (len >= sizeof text || aw_text_parse_u64(count, &replicas) || replicas < 1 ||
        replicas > 16 || aw_quantity_parse_cpu(limit, &size.cpu_millicores, NULL) ||
        size.cpu_millicores < 10)
        return aw_fail(diag, AW_ERR_USAGE,
                       "expected sizes such as 300m or 2x250m with commas between, found %s",
                       AW_QUOTE(text));
    size.replicas = (uint32_t)replicas;
    if (1e-3 * (double)size.cpu_millicores * size.replicas > s->world.node_cores)
        return aw_fail(diag, AW_ERR_USAGE, "%s is more than the %g cores of this machine", text,
                       s->world.node_cores);
    *ret = size;
    return AW_OK;
}

static enum aw_err sizes_parse(struct session *s, const char *option, bool seen,
                               struct aw_diag *diag)
{
    const char *list = aw_args_text(s->run->args, option);
    for (const char *at = list;; at++) {
        const size_t len = strcspn(at, ",");
        if (s->size_count == AW_CALIBRATE_SIZES_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "at most %u sizes", AW_CALIBRATE_SIZES_MAX);
        enum aw_err err = size_parse(s, at, len, seen, &s->size[s->size_count], diag);
        if (err)
            return err;
        s->size_count++;
        at += len;
        if (!*at)
            return AW_OK;
    }
}

static enum aw_err ask_read(struct session *s, struct aw_diag *diag)
{
    const struct aw_args *args = s->run->args;
    int64_t span_us;
    s->world = (struct aw_calibrate_world){.node_cores = aw_threads_cpu_count(),
                                           .seed = aw_args_number(args, "seed"),
                                           .windows = AW_CALIBRATE_WINDOWS};
    s->repeats = (uint32_t)aw_args_number(args, "repeats");
    enum aw_err err =
        aw_duration_parse(aw_args_text(args, "span"), AW_QUANTITY_POSITIVE_OR_0, &span_us, diag);
    if (err)
        return err;
    s->span_s = 1e-6 * (double)span_us;
    if (s->span_s < 0.5 || s->span_s > 600)
        return aw_fail(diag, AW_ERR_USAGE, "--span: expected 500ms to 10m");
    if ((err = sizes_parse(s, "sizes", true, diag)) ||
        (err = sizes_parse(s, "unseen", false, diag)))
        return err;
    if (args->word_count > AW__CALIBRATE_APPS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u applications", AW__CALIBRATE_APPS_MAX);
    s->out.app = aw_alloc_new(NULL, args->word_count, sizeof *s->out.app);
    if (!s->out.app)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " applications",
                       args->word_count);
    s->out.app_count = args->word_count;
    s->out.span_s = s->span_s;
    s->out.node_cores = s->world.node_cores;
    s->out.seed = s->world.seed;
    for (uint32_t i = 0; i < s->out.app_count; i++) {
        s->out.app[i].text = args->words[i];
        if ((err = app_find(args->words[i], &s->out.app[i].described, diag)))
            return err;
        as_served(&s->out.app[i].described);
    }
    return AW_OK;
}

/* --- measuring -------------------------------------------------------------------------------- */

static double planned_s(const struct session *s)
{
    struct aw_calibrate_setting ladder[AW_CALIBRATE_LOADS_MAX];
    double seconds = PROBE_S + OVERHEAD_S + FIT_S;
    for (uint32_t i = 0; i < s->size_count; i++) {
        const uint32_t loads = aw_calibrate_ladder(&s->size[i], i, 1, s->span_s, ladder);
        seconds += SATURATE_S + OVERHEAD_S + DRAIN_S;
        for (uint32_t k = 0; k < loads; k++)
            seconds += ladder[k].span_s + OVERHEAD_S;
    }
    return seconds * s->out.app_count;
}

/* Measures a setting, again where others disturbed it. */
static enum aw_err measure(struct session *s, struct aw__testbed *bed, struct aw__calibrated *app,
                           const struct aw_calibrate_setting *setting, struct aw_diag *diag)
{
    struct aw_calibrate_point *point = &app->point[app->count];
    char size[32];
    AW_ASSERT(app->count < AW_CALIBRATE_POINTS_MAX);
    *point = (struct aw_calibrate_point){.setting = *setting};
    snprintf(s->what, sizeof s->what, "%.24s  %s  %.0f %% load", app->text,
             aw__calibrate_size_text(&setting->size, size, sizeof size), 100 * setting->load);
    for (uint32_t i = 0; i <= s->repeats; i++) {
        struct aw_calibrate_figures seen;
        progress_next(s, i ? 0 : setting->span_s + OVERHEAD_S + (setting->load > 1 ? DRAIN_S : 0));
        const enum aw_err err = aw__testbed_measure(bed, setting, &seen, diag);
        if (err)
            return err;
        if (i == 0 || seen.others_cores < point->measured.others_cores)
            point->measured = seen;
        if (!(point->measured.others_cores > AW__CALIBRATE_QUIET))
            break;
    }
    s->out.disturbed += point->measured.others_cores > AW__CALIBRATE_QUIET;
    app->count++;
    return AW_OK;
}

static double cpu_ms_of(const struct aw_calibrate_point *point)
{
    const struct aw_calibrate_size *size = &point->setting.size;
    return point->measured.utilisation * size->replicas * (double)size->cpu_millicores /
           point->measured.throughput_per_s;
}

/* A replica that nothing holds back tells what a request costs and how long it takes. */
static enum aw_err probe(struct session *s, struct aw__testbed *bed, struct aw__calibrated *app,
                         double *ret_cpu_ms, struct aw_diag *diag)
{
    struct aw_demand demand;
    aw_app_demand(&app->described, 1, 0, &demand);
    const double limit = fmin(PROBE_LIMIT, 500 * s->world.node_cores);
    struct aw_calibrate_setting setting = {
        .size = {.replicas = 1, .cpu_millicores = llround(limit), .seen = true},
        .size_index = s->size_count,
        .rate_per_s = 1e3 * PROBE_CORES / demand.cpu_ms,
        .load = PROBE_CORES / (1e-3 * limit),
        .span_s = PROBE_S,
    };
    const enum aw_err err = measure(s, bed, app, &setting, diag);
    if (!err)
        *ret_cpu_ms = cpu_ms_of(&app->point[app->count - 1]);
    return err;
}

static enum aw_err size_measure(struct session *s, struct aw__testbed *bed,
                                struct aw__calibrated *app, uint32_t i, double *cpu_ms,
                                struct aw_diag *diag)
{
    const struct aw_calibrate_size *size = &s->size[i];
    struct aw_calibrate_setting ladder[AW_CALIBRATE_LOADS_MAX];
    const struct aw_calibrate_setting most = aw_calibrate_saturate(size, i, *cpu_ms, SATURATE_S);
    enum aw_err err = measure(s, bed, app, &most, diag);
    if (err)
        return err;
    const double capacity = aw_calibrate_capacity(&app->point[app->count - 1]);
    /* the next size is not given more than it can bear: what a request costs where it is crowded */
    *cpu_ms = (double)size->cpu_millicores * size->replicas / capacity;
    const uint32_t loads = aw_calibrate_ladder(size, i, capacity, s->span_s, ladder);
    for (uint32_t k = 0; !err && k < loads; k++)
        err = measure(s, bed, app, &ladder[k], diag);
    return err;
}

/* From files of an earlier run. */
static enum aw_err app_read(const struct session *s, struct aw__calibrated *app,
                            struct aw_diag *diag)
{
    const struct aw_args *args = s->run->args;
    enum aw_err err = AW_ERR_NOTFOUND;
    for (uint32_t i = 0; err == AW_ERR_NOTFOUND && i < args->repeat_count; i++)
        err = aw__calibrated_read(args->repeat[i], app, diag);
    return err;
}

static enum aw_err app_measure(struct session *s, struct aw__calibrated *app, struct aw_diag *diag)
{
    struct aw__testbed *bed = NULL;
    struct aw_demand demand;
    uint32_t replicas_max = 1;
    double cpu_ms = 0;
    for (uint32_t i = 0; i < s->size_count; i++)
        replicas_max = replicas_max > s->size[i].replicas ? replicas_max : s->size[i].replicas;
    aw_app_demand(&app->described, 1, 0, &demand);
    const struct aw__testbed_config config = {
        .app = app->text,
        .replicas_max = replicas_max,
        .cpu_millicores = PROBE_LIMIT,
        .memory_bytes =
            (int64_t)(MEMORY_SPARE + AW_MIB_REAL * (demand.memory_base_mib +
                                                    IN_FLIGHT * demand.memory_flight_mib)),
        .seed = s->world.seed,
        .goes_on = goes_on,
        .ctx = s,
    };
    snprintf(s->what, sizeof s->what, "%.24s  starts", app->text);
    enum aw_err err = aw__testbed_open(&config, &bed, diag);
    if (err)
        return err;
    err = probe(s, bed, app, &cpu_ms, diag);
    for (uint32_t i = 0; !err && i < s->size_count; i++)
        err = size_measure(s, bed, app, i, &cpu_ms, diag);
    aw__testbed_close(bed);
    return err;
}

/* --- models ----------------------------------------------------------------------------------- */

static double digits(double value)
{
    char text[32];
    double rounded = value;
    snprintf(text, sizeof text, "%.*g", DIGITS, value);
    return aw_text_parse_real(text, &rounded) ? value : rounded;
}

/* What is written is what is asked: figures are rounded before models see them. */
static void app_round(struct aw_app *app)
{
    for (uint32_t i = 0; i < app->segment_count; i++) {
        struct aw_segment *segment = &app->segment[i];
        double *const value[] = {&segment->cpu_ms,          &segment->cpu_cv,
                                 &segment->io_ms,           &segment->io_cv,
                                 &segment->memory_base_mib, &segment->memory_flight_mib,
                                 &segment->crowding,        &segment->fast_tail};
        for (size_t k = 0; k < sizeof value / sizeof *value; k++)
            *value[k] = digits(*value[k]);
    }
}

static enum aw_err app_fit(struct session *s, struct aw__calibrated *app, struct aw_diag *diag)
{
    snprintf(s->what, sizeof s->what, "%.24s  fit", app->text);
    progress_next(s, FIT_S);
    enum aw_err err = aw_calibrate_fit(&app->described, app->point, app->count, &s->world, goes_on,
                                       s, &app->fit, diag);
    if (err)
        return err;
    app_round(&app->fit.app);
    for (uint32_t i = 0; !err && i < app->count; i++)
        for (uint32_t m = 0; !err && m < AW_CALIBRATE_MODELS; m++)
            err = aw_calibrate_predict((enum aw_calibrate_model)m, &app->fit.app, &s->world,
                                       &app->point[i].setting, &app->point[i].measured,
                                       &app->point[i].model[m], diag);
    if (!err)
        aw_calibrate_judge(app->point, app->count, &app->verdict);
    return err;
}

/* The verdict over all applications: sizes of different ones are different. */
static enum aw_err judge_all(struct session *s, struct aw_diag *diag)
{
    struct aw__calibration *out = &s->out;
    uint32_t count = 0;
    struct aw_calibrate_point *all =
        aw_alloc_new(NULL, (size_t)out->app_count * AW_CALIBRATE_POINTS_MAX, sizeof *all);
    if (!all)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for all points");
    for (uint32_t i = 0; i < out->app_count; i++)
        for (uint32_t k = 0; k < out->app[i].count; k++) {
            all[count] = out->app[i].point[k];
            all[count++].setting.size_index += i * (AW_CALIBRATE_SIZES_MAX + 1);
        }
    aw_calibrate_judge(all, count, &out->all);
    aw_alloc_free(NULL, all);
    const struct aw_calibrate_verdict *v = &out->all;
    out->kept = v->model[AW_CALIBRATE_REFERENCE].p99_median <= AW__CALIBRATE_P99_GOAL &&
                v->model[AW_CALIBRATE_FAST].p99_median <= AW__CALIBRATE_P99_FAST_GOAL &&
                v->model[AW_CALIBRATE_REFERENCE].knee_median <= AW__CALIBRATE_KNEE_GOAL &&
                v->model[AW_CALIBRATE_REFERENCE].utilisation_median <= AW__CALIBRATE_CPU_GOAL;
    return AW_OK;
}

static enum aw_err apps_write(const struct aw__calibration *out, const char *path,
                              struct aw_diag *diag)
{
    struct aw_app *apps = aw_alloc_new(NULL, out->app_count, sizeof *apps);
    if (!apps)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the file");
    for (uint32_t i = 0; i < out->app_count; i++)
        apps[i] = out->app[i].fit.app;
    FILE *file = fopen(path, "we");
    enum aw_err err = file ? aw_apps_write(file, apps, out->app_count, aw_segment_builtin(),
                                           AW_SEGMENT_BUILTIN_COUNT, diag)
                           : aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    if (file && fclose(file) != 0 && !err)
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    aw_alloc_free(NULL, apps);
    return err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static enum aw_err session_run(struct session *s, struct aw_diag *diag)
{
    struct aw__calibration *out = &s->out;
    enum aw_err err = AW_OK;
    s->planned_s = planned_s(s);
    s->begin_us = aw_clock_monotonic_us(NULL);
    for (uint32_t i = 0; !err && i < out->app_count; i++) {
        err = s->run->args->repeat_count ? app_read(s, &out->app[i], diag)
                                         : app_measure(s, &out->app[i], diag);
        if (!err)
            err = app_fit(s, &out->app[i], diag);
    }
    aw_status_line_clear(&s->line);
    if (aw_stop_signal)
        return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted; everything was ended");
    out->seconds = 1e-6 * (double)(aw_clock_monotonic_us(NULL) - s->begin_us);
    return err ? err : judge_all(s, diag);
}

static enum aw_err calibrate_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct session s = {.run = run};
    aw_status_line_init(&s.line, stderr, run->json);
    const char *path = aw_args_text(run->args, "out"), *rows = aw_args_text(run->args, "rows");
    enum aw_err err = ask_read(&s, diag);
    if (err)
        goto out;
    aw_stop_catch(&(struct aw_stop_config){.twice = false});
    signal(SIGPIPE, SIG_IGN);
    if ((err = session_run(&s, diag)))
        goto out;
    if (s.out.disturbed)
        aw_log_warn(run->log, "others used this machine meanwhile: figures are disturbed",
                    AW_LOG_INT("measurements", s.out.disturbed));
    if ((path && (err = apps_write(&s.out, path, diag))) ||
        (rows && (err = aw__calibration_write_rows(&s.out, rows, diag))))
        goto out;
    err = run->json ? aw__calibration_print_json(&s.out, diag)
                    : aw__calibration_print(run, &s.out, diag);
    if (!err && path && !run->json)
        printf("\nwritten: %s\n", path);
    if (!err && aw_args_given(run->args, "check") && !s.out.kept)
        err = aw_fail(diag, AW_ERR_CHECK, "the simulator is further away than it is to be");
out:
    aw_alloc_free(NULL, s.out.app);
    return err;
}

static const struct aw_option calibrate_options[] = {
    AW_OPTION(FILE, "out", 'o', "FILE", NULL,
              "write what was fitted as a pool of applications, for 'aware simulate --app'"),
    AW_OPTION(TEXT, "sizes", 0, "LIST", "200m,400m,700m",
              "replicas and CPU limits to learn from, such as 300m,2x250m"),
    AW_OPTION(TEXT, "unseen", 0, "LIST", "300m,2x350m", "those to compare on"),
    AW_OPTION(
        TEXT, "span", 0, "DURATION", "10s",
        "how long settings are watched that are compared; the longer, the less chance is in a p99"),
    AW_NUMBER("repeats", 0, "N", "1", 0, 10,
              "how often a measurement is done again that others disturbed"),
    AW_OPTION(FILE, "rows", 0, "FILE", NULL,
              "write what was measured as CSV, for 'aware simulate fit'"),
    AW_OPTION(FILE, "from", 0, "FILE", NULL,
              "measure nothing: take what was measured from a file of --output json",
              .repeated = true),
    AW_OPTION_SEED("1", "chance of arrivals and models"),
    AW_FLAG("check", 0, "fail unless the models are as near as they are to be"),
    {.name = NULL},
};
static const struct aw_positional calibrate_positionals[] = {
    {.name = "APP",
     .kind = AW_ARG_TEXT,
     .help = "SEED:INDEX, FILE or FILE:NAME of applications, or kind:KIND[,KIND]...",
     .repeated = true},
    {.name = NULL},
};
static const struct aw_example calibrate_examples[] = {
    {"aware calibrate kind:web_serving -o app.yaml", "about three minutes on a quiet machine"},
    {"aware simulate --app app.yaml --load diurnal", "then see how controllers treat it"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_calibrate = {
    .name = "calibrate",
    .summary = "Fit the simulator to an application that really runs on this machine",
    .text = "Runs the application as real processes under real CPU limits (aware-workload in "
            "control groups, see 'aware run --cluster local'), measures service time, memory and "
            "saturation under several limits, replicas and loads, and fits the parameters of the "
            "simulated application to that, with their standard errors. Then it compares latency, "
            "CPU and throughput with what both models say, on sizes that the fit has not seen.\n\n"
            "The machine should have nothing else to do: a measurement that others disturbed is "
            "repeated, and what remains disturbed is told. Interrupted, it ends everything that it "
            "started.",
    .options = calibrate_options,
    .positionals = calibrate_positionals,
    .examples = calibrate_examples,
    .json = true,
    .run = calibrate_run,
};
