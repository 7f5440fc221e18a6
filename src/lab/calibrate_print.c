/* calibrate_print.c - what a calibration found: for people, as JSON, and as rows. */
#include "lab/calibrate.h"

#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define SECONDS_PER_MINUTE 60
#define MIB_PER_GIB        1024.0

const char *aw__calibrate_size_text(const struct aw_calibrate_size *size, char *buf, size_t len)
{
    snprintf(buf, len, "%ux%lldm", size->replicas, (long long)size->cpu_millicores);
    return buf;
}

static const char *percent(double share, char *buf, size_t size)
{
    if (isnan(share))
        snprintf(buf, size, "-");
    else
        snprintf(buf, size, "%.1f %%", 100 * share);
    return buf;
}
#define PERCENT(share) percent((share), (char[24]){0}, 24)

static const char *figure(double value, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-");
    else
        snprintf(buf, size, value < 100 ? "%.3g" : "%.0f", value);
    return buf;
}
#define FIGURE(value) figure((value), (char[24]){0}, 24)

static enum aw_err print_values(const struct aw_call *run, const struct aw_calibrate_fit *fit,
                                struct aw_diag *diag)
{
    static const char *const heads[] = {"PARAMETER", ">DESCRIBED", ">FOUND", ">+-",
                                        "UNIT",      "WHAT IT IS", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < AW_CALIBRATE_VALUES; i++) {
        aw_table_add(&table, "%s", aw_calibrate_value_infos[i].key);
        aw_table_add(&table, "%s", FIGURE(fit->value[i].described));
        aw_table_add(&table, "%s", FIGURE(fit->value[i].found));
        aw_table_add(&table, "%s", FIGURE(fit->value[i].error));
        aw_table_add(&table, "%s", aw_calibrate_value_infos[i].unit);
        aw_table_add(&table, "%s", aw_calibrate_value_infos[i].text);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

/* Each figure as it was measured, as the reference says, as the fast model says. */
static enum aw_err print_points(const struct aw_call *run, const struct aw__calibrated *app,
                                struct aw_diag *diag)
{
    static const char *const heads[] = {"SIZE",    ">LOAD", ">RATE", ">P50 ms", ">REF", ">FAST",
                                        ">P99 ms", ">REF",  ">FAST", ">CPU %",  ">REF", ">FAST",
                                        ">DONE/s", ">REF",  ">FAST", NULL};
    struct aw_table table;
    char size[32];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < app->count; i++) {
        const struct aw_calibrate_point *p = &app->point[i];
        const struct aw_calibrate_figures *m = &p->measured, *r = &p->model[0], *f = &p->model[1];
        if (p->setting.size.seen)
            continue;
        aw_table_add(&table, "%s", aw__calibrate_size_text(&p->setting.size, size, sizeof size));
        aw_table_add(&table, "%.0f %%", 100 * p->setting.load);
        aw_table_add(&table, "%.1f", m->requests / p->setting.span_s);
        const double row[][3] = {{m->p50_ms, r->p50_ms, f->p50_ms},
                                 {m->p99_ms, r->p99_ms, f->p99_ms},
                                 {100 * m->utilisation, 100 * r->utilisation, 100 * f->utilisation},
                                 {m->throughput_per_s, r->throughput_per_s, f->throughput_per_s}};
        for (uint32_t k = 0; k < sizeof row / sizeof *row; k++)
            for (uint32_t j = 0; j < 3; j++)
                aw_table_add(&table, "%s", FIGURE(row[k][j]));
    }
    puts("\nUnseen settings: measured, reference model, fast model:");
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err print_knees(const struct aw_call *run, const struct aw_calibrate_verdict *v,
                               struct aw_diag *diag)
{
    static const char *const heads[] = {"SIZE",        ">KNEE/s", ">REF",  ">FAST",
                                        ">CAPACITY/s", ">REF",    ">FAST", NULL};
    struct aw_table table;
    char size[32];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < v->knee_count; i++) {
        const struct aw_calibrate_knee *k = &v->knee[i];
        aw_table_add(&table, "%s", aw__calibrate_size_text(&k->size, size, sizeof size));
        aw_table_add(&table, "%s", FIGURE(k->measured_per_s));
        for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++)
            aw_table_add(&table, "%s", FIGURE(k->model_per_s[m]));
        aw_table_add(&table, "%s", FIGURE(k->capacity_per_s));
        for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++)
            aw_table_add(&table, "%s", FIGURE(k->model_capacity_per_s[m]));
    }
    puts("\nKnees, where mean latency doubles, and the most that was answered:");
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static enum aw_err print_verdict(const struct aw_call *run, const struct aw_calibrate_verdict *v,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {"MODEL",     ">P50",  ">P99",  ">P99 90TH", ">CPU points",
                                        ">AT WORST", ">DONE", ">KNEE", ">AT WORST", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++) {
        aw_table_add(&table, "%s", aw_calibrate_model_names[m]);
        aw_table_add(&table, "%s", PERCENT(v->model[m].p50_median));
        aw_table_add(&table, "%s", PERCENT(v->model[m].p99_median));
        aw_table_add(&table, "%s", PERCENT(v->model[m].p99_p90));
        aw_table_add(&table, "%.1f", 100 * v->model[m].utilisation_median);
        aw_table_add(&table, "%.1f", 100 * v->model[m].utilisation_max);
        aw_table_add(&table, "%s", PERCENT(v->model[m].throughput_median));
        aw_table_add(&table, "%s", PERCENT(v->model[m].knee_median));
        aw_table_add(&table, "%s", PERCENT(v->model[m].knee_max));
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

enum aw_err aw__calibration_print(const struct aw_call *run, const struct aw__calibration *c,
                                  struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < c->app_count; i++) {
        const struct aw__calibrated *app = &c->app[i];
        printf("%s%s: %u settings measured, %s residual\n", i ? "\n" : "", app->text, app->count,
               FIGURE(sqrt(app->fit.loss)));
        if ((err = print_values(run, &app->fit, diag)) || (err = print_points(run, app, diag)) ||
            (err = print_knees(run, &app->verdict, diag)))
            break;
        printf("\nErrors, medians over %u unseen settings below saturation:\n",
               app->verdict.below_count);
        err = print_verdict(run, &app->verdict, diag);
    }
    if (err || c->app_count < 2)
        return err;
    printf("\nAll %u applications, %u unseen settings below saturation:\n", c->app_count,
           c->all.below_count);
    return print_verdict(run, &c->all, diag);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *figures_json(const struct aw_calibrate_figures *f)
{
    json_t *object = json_object();
    json_object_set_new(object, "requests", aw_json_real(f->requests));
    json_object_set_new(object, "p50_ms", aw_json_real(f->p50_ms));
    json_object_set_new(object, "p99_ms", aw_json_real(f->p99_ms));
    json_object_set_new(object, "mean_ms", aw_json_real(f->mean_ms));
    json_object_set_new(object, "cpu_utilisation", aw_json_real(f->utilisation));
    json_object_set_new(object, "throughput_per_s", aw_json_real(f->throughput_per_s));
    json_object_set_new(object, "memory_mib", aw_json_real(f->memory_mib));
    if (!isnan(f->others_cores))
        json_object_set_new(object, "others_cores", aw_json_real(f->others_cores));
    return object;
}

static json_t *point_json(const struct aw_calibrate_point *p)
{
    json_t *object = json_object();
    json_object_set_new(object, "replicas", json_integer(p->setting.size.replicas));
    json_object_set_new(object, "cpu_millicores", json_integer(p->setting.size.cpu_millicores));
    json_object_set_new(object, "seen", json_boolean(p->setting.size.seen));
    json_object_set_new(object, "rate_per_s", aw_json_real(p->setting.rate_per_s));
    json_object_set_new(object, "load", aw_json_real(p->setting.load));
    json_object_set_new(object, "span_s", aw_json_real(p->setting.span_s));
    json_object_set_new(object, "measured", figures_json(&p->measured));
    for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++)
        json_object_set_new(object, aw_calibrate_model_names[m], figures_json(&p->model[m]));
    return object;
}

static json_t *verdict_json(const struct aw_calibrate_verdict *v)
{
    json_t *object = json_object(), *knees = json_array();
    json_object_set_new(object, "settings", json_integer(v->below_count));
    for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++) {
        json_t *one = json_object();
        json_object_set_new(one, "p50_error_median", aw_json_real(v->model[m].p50_median));
        json_object_set_new(one, "p99_error_median", aw_json_real(v->model[m].p99_median));
        json_object_set_new(one, "p99_error_p90", aw_json_real(v->model[m].p99_p90));
        json_object_set_new(one, "cpu_error_median", aw_json_real(v->model[m].utilisation_median));
        json_object_set_new(one, "cpu_error_max", aw_json_real(v->model[m].utilisation_max));
        json_object_set_new(one, "throughput_error_median",
                            aw_json_real(v->model[m].throughput_median));
        json_object_set_new(one, "knee_error_median", aw_json_real(v->model[m].knee_median));
        json_object_set_new(one, "knee_error_max", aw_json_real(v->model[m].knee_max));
        json_object_set_new(object, aw_calibrate_model_names[m], one);
    }
    for (uint32_t i = 0; i < v->knee_count; i++) {
        const struct aw_calibrate_knee *k = &v->knee[i];
        json_t *one = json_object();
        json_object_set_new(one, "replicas", json_integer(k->size.replicas));
        json_object_set_new(one, "cpu_millicores", json_integer(k->size.cpu_millicores));
        json_object_set_new(one, "knee_per_s", aw_json_real(k->measured_per_s));
        json_object_set_new(one, "knee_per_s_reference", aw_json_real(k->model_per_s[0]));
        json_object_set_new(one, "knee_per_s_fast", aw_json_real(k->model_per_s[1]));
        json_object_set_new(one, "capacity_per_s", aw_json_real(k->capacity_per_s));
        json_object_set_new(one, "capacity_per_s_reference",
                            aw_json_real(k->model_capacity_per_s[0]));
        json_object_set_new(one, "capacity_per_s_fast", aw_json_real(k->model_capacity_per_s[1]));
        json_array_append_new(knees, one);
    }
    json_object_set_new(object, "knees", knees);
    return object;
}

static json_t *app_json(const struct aw__calibrated *app)
{
    json_t *object = json_object(), *values = json_object(), *points = json_array();
    for (uint32_t i = 0; i < AW_CALIBRATE_VALUES; i++) {
        json_t *one = json_object();
        json_object_set_new(one, "described", aw_json_real(app->fit.value[i].described));
        json_object_set_new(one, "found", aw_json_real(app->fit.value[i].found));
        json_object_set_new(one, "standard_error", aw_json_real(app->fit.value[i].error));
        json_object_set_new(one, "unit", json_string(aw_calibrate_value_infos[i].unit));
        json_object_set_new(values, aw_calibrate_value_infos[i].key, one);
    }
    for (uint32_t i = 0; i < app->count; i++)
        json_array_append_new(points, point_json(&app->point[i]));
    json_object_set_new(object, "app", json_string(app->text));
    json_object_set_new(object, "name", json_string(app->described.name));
    json_object_set_new(object, "parameters", values);
    json_object_set_new(object, "loss", aw_json_real(app->fit.loss));
    json_object_set_new(object, "evaluations", json_integer(app->fit.evaluations));
    json_object_set_new(object, "points", points);
    json_object_set_new(object, "errors", verdict_json(&app->verdict));
    return object;
}

enum aw_err aw__calibration_print_json(const struct aw__calibration *c, struct aw_diag *diag)
{
    json_t *object = json_object(), *list = json_array();
    json_object_set_new(object, "seed", json_integer((json_int_t)c->seed));
    json_object_set_new(object, "cores", aw_json_real(c->node_cores));
    json_object_set_new(object, "span_s", aw_json_real(c->span_s));
    json_object_set_new(object, "seconds", aw_json_real(c->seconds));
    json_object_set_new(object, "disturbed", json_integer(c->disturbed));
    for (uint32_t i = 0; i < c->app_count; i++)
        json_array_append_new(list, app_json(&c->app[i]));
    json_object_set_new(object, "apps", list);
    json_object_set_new(object, "errors", verdict_json(&c->all));
    json_object_set_new(object, "within_goals", json_boolean(c->kept));
    return aw_json_print(object, diag);
}

enum aw_err aw__calibration_write_rows(const struct aw__calibration *c, const char *path,
                                       struct aw_diag *diag)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    fputs("function,requests,latency_ms,replicas,cores,pod_util_cpu_avg,pod_util_mem_avg,p50_ms,"
          "p99_ms,seen\n",
          out);
    for (uint32_t i = 0; i < c->app_count; i++)
        for (uint32_t k = 0; k < c->app[i].count; k++) {
            const struct aw_calibrate_point *p = &c->app[i].point[k];
            const double cores = 1e-3 * (double)p->setting.size.cpu_millicores;
            fprintf(out, "%s,%.6g,%.6g,%u,%.6g,%.6g,%.6g,%.6g,%.6g,%d\n", c->app[i].described.name,
                    SECONDS_PER_MINUTE * p->measured.requests / p->setting.span_s,
                    p->measured.mean_ms, p->setting.size.replicas, cores,
                    p->measured.utilisation * cores, p->measured.memory_mib / MIB_PER_GIB,
                    p->measured.p50_ms, p->measured.p99_ms, p->setting.size.seen);
        }
    const bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be written");
    return AW_OK;
}
