/* calibrate_read.c - measured points from what --output json printed: measured once, fitted again.
 */
#include "lab/calibrate.h"

#include <jansson.h>
#include <math.h>

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* False: a figure that is needed is missing or impossible. */
static bool point_read(const json_t *object, uint32_t size_index, struct aw_calibrate_point *ret)
{
    const json_t *measured = json_object_get(object, "measured");
    const double replicas = real_of(object, "replicas"),
                 millicores = real_of(object, "cpu_millicores");
    if (!(replicas >= 1 && replicas <= 1000) || !(millicores >= 1 && millicores <= 1e6))
        return false;
    *ret = (struct aw_calibrate_point){
        .setting = {.size = {.replicas = (uint32_t)replicas,
                             .cpu_millicores = (int64_t)millicores,
                             .seen = json_is_true(json_object_get(object, "seen"))},
                    .size_index = size_index,
                    .rate_per_s = real_of(object, "rate_per_s"),
                    .load = real_of(object, "load"),
                    .span_s = real_of(object, "span_s")},
        .measured = {.requests = real_of(measured, "requests"),
                     .p50_ms = real_of(measured, "p50_ms"),
                     .p99_ms = real_of(measured, "p99_ms"),
                     .mean_ms = real_of(measured, "mean_ms"),
                     .utilisation = real_of(measured, "cpu_utilisation"),
                     .throughput_per_s = real_of(measured, "throughput_per_s"),
                     .memory_mib = real_of(measured, "memory_mib"),
                     .others_cores = real_of(measured, "others_cores")},
    };
    const struct aw_calibrate_figures *m = &ret->measured;
    return ret->setting.load > 0 && ret->setting.span_s > 0 && m->requests > 0 && m->mean_ms > 0 &&
           m->p50_ms > 0 && m->p99_ms > 0 && m->utilisation >= 0 && m->throughput_per_s > 0;
}

/* Settings of equal size have equal indices, in the order in which sizes first come. */
static uint32_t size_index_of(const struct aw__calibrated *app, const json_t *object)
{
    const double replicas = real_of(object, "replicas"),
                 millicores = real_of(object, "cpu_millicores");
    uint32_t next = 0;
    for (uint32_t i = 0; i < app->count; i++) {
        const struct aw_calibrate_setting *s = &app->point[i].setting;
        if ((double)s->size.replicas == replicas && (double)s->size.cpu_millicores == millicores)
            return s->size_index;
        next = next > s->size_index + 1 ? next : s->size_index + 1;
    }
    return next;
}

enum aw_err aw__calibrated_read(const char *path, struct aw__calibrated *app, struct aw_diag *diag)
{
    json_error_t where;
    json_t *root = json_load_file(path, 0, &where);
    const json_t *list = json_object_get(root, "apps");
    enum aw_err err = AW_ERR_NOTFOUND;
    if (!root)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, (uint32_t)(where.line > 0 ? where.line : 0), 0,
                          NULL, "%s", where.text);
    for (size_t i = 0; err == AW_ERR_NOTFOUND && i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i), *points = json_object_get(entry, "points");
        const char *text = json_string_value(json_object_get(entry, "app"));
        if (!text || strcmp(text, app->text) != 0)
            continue;
        err = AW_OK;
        for (size_t k = 0; !err && k < json_array_size(points); k++) {
            const json_t *object = json_array_get(points, k);
            if (app->count == AW_CALIBRATE_POINTS_MAX ||
                !point_read(object, size_index_of(app, object), &app->point[app->count]))
                err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, app->text,
                                 "point %zu is not what 'aware calibrate' writes", k);
            else
                app->count++;
        }
    }
    if (err == AW_ERR_NOTFOUND)
        err =
            aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, app->text, "has not been measured there");
    json_decref(root);
    return err;
}
