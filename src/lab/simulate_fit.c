/* simulate_fit.c - the verb `simulate fit`: an application from measured rows. */
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"
#include "lab/load.h"

#include "base/quantity.h"
#include "fitting/fit.h"
#include "workload/apps.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define STARTS        4u
#define FITTED_DIGITS 4 /* of figures written: more would be noise, and YAML stays short */

struct fits {
    struct aw_fit_rows rows;
    struct aw_fit *fit; /* [group_count] */
    struct aw_app *apps;
    struct aw_segment *kinds;
};

static double digits(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", FITTED_DIGITS, value);
    double rounded = value;
    return aw_text_parse_real(text, &rounded) ? value : rounded;
}

/* A name for the application: the file's without its folder and ending, then the group's. */
static void name_make(const char *path, const char *group, char *buf, size_t size)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const int len = (int)strcspn(base, ".");
    snprintf(buf, size, "%.*s%s%s", len < 24 ? len : 24, base, *group ? "_" : "", group);
    for (char *p = buf; *p; p++) {
        const bool plain = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
                           (*p >= 'A' && *p <= 'Z') || *p == '_' || *p == '-';
        *p = plain ? *p : '_';
    }
}

static void app_make(struct fits *fits, uint32_t i)
{
    struct aw_segment *s = &fits->fit[i].segment;
    double *const value[] = {&s->cpu_ms,     &s->cpu_cv,          &s->io_ms,
                             &s->io_cv,      &s->memory_base_mib, &s->memory_flight_mib,
                             &s->parallelism};
    for (size_t k = 0; k < sizeof value / sizeof *value; k++)
        *value[k] = digits(*value[k]);
    fits->kinds[i] = *s;
    fits->apps[i] = (struct aw_app){.segment_count = 1, .segment[0] = *s};
    memcpy(fits->apps[i].name, s->name, sizeof s->name);
}

static const char *percent(double share, char *buf, size_t size)
{
    if (isnan(share))
        snprintf(buf, size, "-");
    else
        snprintf(buf, size, "%.1f %%", 100 * share);
    return buf;
}

#define PERCENT(share) percent((share), (char[16]){0}, 16)

static enum aw_err print_fits(const struct aw_call *run, const struct fits *fits,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {"APPLICATION", ">CPU ms",  ">VARIES", ">WAIT ms",
                                        ">PARALLEL",   ">THREADS", ">MEMORY", ">PER REQUEST",
                                        ">BURSTY",     NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < fits->rows.group_count; i++) {
        const struct aw_segment *s = &fits->fit[i].segment;
        aw_table_add(&table, "%s", s->name);
        aw_table_add(&table, "%.3g", s->cpu_ms);
        aw_table_add(&table, "%.2f", s->cpu_cv);
        aw_table_add(&table, "%.3g", s->io_ms);
        aw_table_add(&table, "%.2f", s->parallelism);
        if (s->threads)
            aw_table_add(&table, "%u", s->threads);
        else
            aw_table_add(&table, "any");
        aw_table_add(&table, "%.3gMi", s->memory_base_mib);
        aw_table_add(&table, "%.3gMi", s->memory_flight_mib);
        if (isnan(fits->fit[i].saturated_ms))
            aw_table_add(&table, "-");
        else
            aw_table_add(&table, "%.2f", fits->fit[i].burstiness);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err print_errors(const struct aw_call *run, const struct fits *fits,
                                struct aw_diag *diag)
{
    static const char *const heads[] = {"APPLICATION", ">SEEN",   ">UNSEEN",     ">BELOW KNEE",
                                        ">MEDIAN",     ">90TH",   ">A CONSTANT", ">SIDE",
                                        ">CPU USE",    ">MEMORY", ">KNEES",      NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < fits->rows.group_count; i++) {
        const struct aw_fit *f = &fits->fit[i];
        aw_table_add(&table, "%s", f->segment.name);
        aw_table_add(&table, "%u", f->train_count);
        aw_table_add(&table, "%u", f->test_count);
        aw_table_add(&table, "%u", f->below_count);
        aw_table_add(&table, "%s", PERCENT(f->below_median));
        aw_table_add(&table, "%s", PERCENT(f->below_p90));
        aw_table_add(&table, "%s", PERCENT(f->constant_median));
        aw_table_add(&table, "%s", PERCENT(isnan(f->saturated_ms) ? NAN : f->told_apart));
        aw_table_add(&table, "%s", PERCENT(f->cpu_median));
        aw_table_add(&table, "%s", PERCENT(f->memory_median));
        if (f->knee_count)
            aw_table_add(&table, "%u of %u", f->knee_near_count, f->knee_count);
        else
            aw_table_add(&table, "-");
    }
    puts("\nErrors of rows that were not learned from; mean latency below saturation:");
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err print_knees(const struct aw_call *run, const struct fits *fits,
                               struct aw_diag *diag)
{
    static const char *const heads[] = {"APPLICATION", ">REPLICAS", ">CPU", ">MEMORY", ">ROWS",
                                        ">MEASURED",   ">MODEL",    ">OFF", NULL};
    struct aw_table table;
    bool any = false;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < fits->rows.group_count; i++) {
        for (uint32_t k = 0; k < fits->fit[i].knee_count; k++) {
            const struct aw_fit_knee *knee = &fits->fit[i].knee[k];
            char a[AW_QUANTITY_TEXT_MAX], b[AW_QUANTITY_TEXT_MAX];
            any = true;
            aw_table_add(&table, "%s", fits->fit[i].segment.name);
            aw_table_add(&table, "%g", knee->replicas);
            aw_table_add(&table, "%g", knee->cores);
            if (isnan(knee->memory_limit_mib))
                aw_table_add(&table, "-");
            else
                aw_table_add(&table, "%.0fMi", knee->memory_limit_mib);
            aw_table_add(&table, "%u", knee->row_count);
            aw_table_add(&table, "%s", aw_rate_round(knee->measured_per_s, a, sizeof a));
            aw_table_add(&table, "%s", aw_rate_round(knee->model_per_s, b, sizeof b));
            aw_table_add(&table, "%+.0f %%", 100 * (knee->model_per_s / knee->measured_per_s - 1));
        }
    }
    if (!any) {
        aw_table_deinit(&table);
        return AW_OK;
    }
    puts("\nKnees: requests per second and replica at which latency doubles:");
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static json_t *knee_json(const struct aw_fit_knee *knee)
{
    json_t *object = json_object();
    json_object_set_new(object, "replicas", aw_json_real(knee->replicas));
    json_object_set_new(object, "cores", aw_json_real(knee->cores));
    json_object_set_new(object, "memory_limit_mib", aw_json_real(knee->memory_limit_mib));
    json_object_set_new(object, "rows", json_integer(knee->row_count));
    json_object_set_new(object, "measured_per_s", aw_json_real(knee->measured_per_s));
    json_object_set_new(object, "model_per_s", aw_json_real(knee->model_per_s));
    return object;
}

static json_t *fit_json(const struct aw_fit *f)
{
    const struct aw_segment *s = &f->segment;
    json_t *object = json_object(), *knees = json_array();
    json_object_set_new(object, "app", json_string(s->name));
    json_object_set_new(object, "cpu_ms", aw_json_real(s->cpu_ms));
    json_object_set_new(object, "cpu_cv", aw_json_real(s->cpu_cv));
    json_object_set_new(object, "io_ms", aw_json_real(s->io_ms));
    json_object_set_new(object, "parallelism", aw_json_real(s->parallelism));
    json_object_set_new(object, "threads", json_integer(s->threads));
    json_object_set_new(object, "memory_base_mib", aw_json_real(s->memory_base_mib));
    json_object_set_new(object, "memory_flight_mib", aw_json_real(s->memory_flight_mib));
    json_object_set_new(object, "burstiness",
                        aw_json_real(isnan(f->saturated_ms) ? NAN : f->burstiness));
    json_object_set_new(object, "saturated_ms", aw_json_real(f->saturated_ms));
    json_object_set_new(object, "rows_seen", json_integer(f->train_count));
    json_object_set_new(object, "rows_unseen", json_integer(f->test_count));
    json_object_set_new(object, "rows_below", json_integer(f->below_count));
    json_object_set_new(object, "error_median", aw_json_real(f->below_median));
    json_object_set_new(object, "error_p90", aw_json_real(f->below_p90));
    json_object_set_new(object, "error_median_seen", aw_json_real(f->train_median));
    json_object_set_new(object, "error_median_of_constant", aw_json_real(f->constant_median));
    json_object_set_new(object, "right_side_share", aw_json_real(f->told_apart));
    json_object_set_new(object, "error_cpu_median", aw_json_real(f->cpu_median));
    json_object_set_new(object, "error_memory_median", aw_json_real(f->memory_median));
    json_object_set_new(object, "knees_near", json_integer(f->knee_near_count));
    for (uint32_t k = 0; k < f->knee_count; k++)
        json_array_append_new(knees, knee_json(&f->knee[k]));
    json_object_set_new(object, "knees", knees);
    return object;
}

static enum aw_err print_json(const struct fits *fits, const char *path, uint64_t seed,
                              struct aw_diag *diag)
{
    json_t *object = json_object(), *list = json_array();
    json_object_set_new(object, "file", json_string(path));
    json_object_set_new(object, "seed", json_integer((json_int_t)seed));
    json_object_set_new(object, "rows", json_integer(fits->rows.row_count));
    json_object_set_new(object, "settings", json_integer(fits->rows.setting_count));
    json_object_set_new(object, "rows_bad", json_integer((json_int_t)fits->rows.report.bad_count));
    for (uint32_t i = 0; i < fits->rows.group_count; i++)
        json_array_append_new(list, fit_json(&fits->fit[i]));
    json_object_set_new(object, "fits", list);
    return aw_json_print(object, diag);
}

static enum aw_err write_apps(const struct fits *fits, const char *path, struct aw_diag *diag)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    enum aw_err err = aw_apps_write(out, fits->apps, fits->rows.group_count, fits->kinds,
                                    fits->rows.group_count, diag);
    if (fclose(out) != 0 && !err)
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    return err;
}

static enum aw_err fit_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = run->args->positional[0], *out = aw_args_text(run->args, "out");
    const struct aw_fit_config config = {
        .seed = aw_args_number(run->args, "seed"),
        .train_share = 0.01 * (double)aw_args_number(run->args, "learn"),
        .starts = STARTS,
    };
    struct fits fits = {0};
    enum aw_err err = aw_fit_read(path, NULL, &fits.rows, diag);
    if (err)
        return err;
    const uint32_t count = fits.rows.group_count;
    fits.fit = aw_alloc_new(NULL, count, sizeof *fits.fit);
    fits.apps = aw_alloc_new(NULL, count, sizeof *fits.apps);
    fits.kinds = aw_alloc_new(NULL, count, sizeof *fits.kinds);
    if (!fits.fit || !fits.apps || !fits.kinds)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u fits", count);
    aw__load_warn(run, path, &fits.rows.report);
    for (uint32_t i = 0; !err && i < count; i++) {
        char name[AW_APP_NAME_MAX];
        name_make(path, fits.rows.group[i], name, sizeof name);
        err = aw_fit_run(&config, &fits.rows, i, name, NULL, &fits.fit[i], diag);
        if (!err)
            app_make(&fits, i);
    }
    if (!err && out)
        err = write_apps(&fits, out, diag);
    if (!err && run->json) {
        err = print_json(&fits, path, config.seed, diag);
    } else if (!err) {
        if (!(err = print_fits(run, &fits, diag)) && !(err = print_errors(run, &fits, diag)))
            err = print_knees(run, &fits, diag);
        if (!err && out)
            printf("\nwritten: %s\n", out);
    }
    aw_alloc_free(NULL, fits.fit);
    aw_alloc_free(NULL, fits.apps);
    aw_alloc_free(NULL, fits.kinds);
    aw_fit_rows_deinit(&fits.rows);
    return err;
}

static const struct aw_option fit_options[] = {
    AW_OPTION(FILE, "out", 'o', "FILE", NULL,
              "write what was fitted as a pool of applications, for 'aware simulate --app'"),
    AW_NUMBER("learn", 0, "PERCENT", "70", 10, 90,
              "share of the rows to learn from; errors are reported on the others"),
    AW_OPTION_SEED("1", "chance of the split and of the search"),
    {.name = NULL},
};
static const struct aw_positional fit_positionals[] = {
    {.name = "FILE", .kind = AW_ARG_FILE, .help = "measured rows as CSV with named columns"},
    {.name = NULL},
};
static const struct aw_example fit_examples[] = {
    {"aware simulate fit measured.csv -o app.yaml", "fit, and keep the application"},
    {"aware simulate --app app.yaml --load diurnal", "then see how controllers treat it"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_simulate_fit = {
    .name = "simulate fit",
    .summary = "Fit an application to measured latencies",
    .text = "Seeks CPU time per request, its variability, waiting, parallelism, threads and memory "
            "such that the fast model answers as the rows say, and reports the error on rows that "
            "it did not see. Columns are found by name: requests (per minute, of all replicas), "
            "requests_duration_mean or latency_ms, num_pods or replicas, pod_cpu_limit or cores, "
            "pod_mem_limit (GiB), pod_util_cpu_avg, pod_util_mem_avg; or, of AWS Lambda, Function, "
            "Memory Size, Duration, Max Memory Used, where rows of one size are averaged.\n\n"
            "SIDE is the share of rows on the right side of saturation; BURSTY tells how uneven "
            "the arrivals must have been, from 0 (paced) to 1 (Poisson); KNEES how many of the "
            "loads at which latency doubles are within 20 %.",
    .options = fit_options,
    .positionals = fit_positionals,
    .examples = fit_examples,
    .json = true,
    .run = fit_run,
};
