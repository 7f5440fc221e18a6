/* validate_clocks.c - sweeps of clocks and of power limits: time and power of what is held out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "serving/gpu.h"
#include "serving/gpu_profile.h"
#include "serving/table.h"
#include "serving/validate.h"

#define LEAVE_ONE_MAX 12u /* clocks; of more, a quarter predicts the rest */
#define POINTS_MAX    256u
#define KEY_MAX       200u
#define FOLD_NONE     UINT32_MAX /* nothing is held out */

struct point {
    char key[KEY_MAX]; /* the program, its arguments and what else is fixed */
    double clock, time, power;
};
struct group {
    const char *key;
    uint32_t n;
    double x[POINTS_MAX], time[POINTS_MAX], power[POINTS_MAX];
    double guess[POINTS_MAX]; /* power by the law, of what was held out */
};

/* What a format calls its columns; NULL: it has none. */
struct format {
    const char *key[6];
    const char *clock, *time, *power, *energy;
    bool limit; /* the "clock" is a power limit */
};
static const struct format formats[] = {
    {{"stage", "instruction", NULL}, "frequency", "time", NULL, "energy", false},
    {{"appName", "memF", "argNo", "kernel", NULL}, "coreF", "time/ms", "power/W", NULL, false},
    {{"benchmark", "kernel", "argNo", "memory_frequency", NULL},
     "core_frequency",
     NULL,
     "average_power",
     NULL,
     false},
    {{"dataset", "network", "batch_size", "optimizer", NULL},
     "power_limit",
     "time_per_epoch",
     "average_power",
     NULL,
     true},
};

static int by_key(const void *left, const void *right)
{
    const struct point *a = left, *b = right;
    const int order = strcmp(a->key, b->key);
    return order ? order : (a->clock > b->clock) - (a->clock < b->clock);
}

static bool has(const struct aw_serving_table *table, const struct format *format)
{
    const char *rest[] = {format->clock, format->time ? format->time : format->clock,
                          format->power ? format->power : format->clock,
                          format->energy ? format->energy : format->clock, NULL};
    return aw_serving_table_has(table, format->key) && aw_serving_table_has(table, rest);
}

/* The rows as points, sorted; rows without a figure are left out. */
static uint32_t points_take(const struct aw_serving_table *table, const struct format *format,
                            struct point *points)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < table->rows; r++) {
        struct point *point = &points[n];
        size_t used = 0;
        for (uint32_t k = 0; format->key[k] && used < KEY_MAX; k++)
            used += (size_t)snprintf(
                point->key + used, KEY_MAX - used, "%s|",
                aw_serving_table_text(table, r, aw_serving_table_column(table, format->key[k])));
        point->clock =
            aw_serving_table_real(table, r, aw_serving_table_column(table, format->clock));
        point->time =
            format->time
                ? aw_serving_table_real(table, r, aw_serving_table_column(table, format->time))
                : 1;
        point->power =
            format->energy
                ? aw_serving_table_real(table, r, aw_serving_table_column(table, format->energy)) /
                      point->time
                : aw_serving_table_real(table, r, aw_serving_table_column(table, format->power));
        n += point->clock > 0 && point->time > 0 && point->power > 0;
    }
    qsort(points, n, sizeof *points, by_key);
    return n;
}

/* Runs of the same program at the same clock count as one: their mean. */
static uint32_t groups_make(const struct point *points, uint32_t n, double clock_max,
                            struct group *groups)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n;) {
        struct group *group = &groups[count];
        uint32_t end = i;
        group->n = 0;
        group->key = points[i].key;
        while (end < n && !strcmp(points[end].key, points[i].key)) {
            uint32_t same = end;
            double time = 0, power = 0;
            for (; same < n && !by_key(&points[same], &points[end]); same++) {
                time += points[same].time;
                power += points[same].power;
            }
            if (group->n < POINTS_MAX) {
                group->x[group->n] = points[end].clock / clock_max;
                group->time[group->n] = time / (same - end);
                group->power[group->n++] = power / (same - end);
            }
            end = same;
        }
        i = end;
        count += group->n >= 3;
    }
    return count;
}

static bool held(uint32_t i, uint32_t n, uint32_t fold)
{
    if (fold == FOLD_NONE)
        return false;
    return n <= LEAVE_ONE_MAX ? i % LEAVE_ONE_MAX == fold : i % 4 != fold;
}

/* What a fold learns from. */
static uint32_t seen_take(const struct group *group, uint32_t fold, double *x, double *t, double *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < group->n; i++) {
        if (held(i, group->n, fold))
            continue;
        x[n] = group->x[i];
        t[n] = group->time[i];
        p[n++] = group->power[i];
    }
    return n;
}

/* The GPU's voltage curve: the one under which all programs' powers fit best. */
static void volt_fit(const struct group *groups, uint32_t count, uint32_t fold,
                     struct aw_gpu_volt *ret)
{
    double x[POINTS_MAX], t[POINTS_MAX], p[POINTS_MAX], best = INFINITY;
    const uint32_t step = count > 60 ? count / 60 : 1;
    for (int k = 0; k <= 12; k++)
        for (int f = 0; f <= 9; f++) {
            const struct aw_gpu_volt volt = {0.1 * k, 0.5 + 0.05 * f};
            double error = 0;
            for (uint32_t g = 0; g < count && error < best; g += step) {
                struct aw_gpu_power law;
                const uint32_t n = seen_take(&groups[g], fold, x, t, p);
                aw_gpu_power_fit(x, p, n, &volt, &law);
                for (uint32_t i = 0; i < n; i++)
                    error += fabs(aw_gpu_power_at(&law, &volt, x[i]) / p[i] - 1);
            }
            if (error < best) {
                best = error;
                *ret = volt;
            }
        }
}

/* What other programs of the GPU draw at this clock beyond their own laws: clocks at which the
 * voltage jumps do so for all. The same program with other arguments does not count. */
static double others(const struct group *groups, uint32_t count, const struct group *own, double x)
{
    const size_t name = strcspn(own->key, "|");
    double sum = 1;
    uint32_t n = 1;
    for (uint32_t g = 0; g < count; g++) {
        const struct group *group = &groups[g];
        if (group->n > LEAVE_ONE_MAX ||
            (!strncmp(group->key, own->key, name) && group->key[name] == '|'))
            continue;
        for (uint32_t i = 0; i < group->n; i++)
            if (fabs(group->x[i] - x) < 1e-6) {
                sum += group->power[i] / group->guess[i];
                n++;
            }
    }
    return sum / n;
}

static void clocks_try(struct aw_validate *validate, struct group *groups, uint32_t count,
                       bool timed)
{
    double x[POINTS_MAX], t[POINTS_MAX], p[POINTS_MAX];
    uint32_t longest = 0;
    for (uint32_t g = 0; g < count; g++)
        longest = groups[g].n > longest ? groups[g].n : longest;
    const uint32_t folds = longest <= LEAVE_ONE_MAX ? longest : LEAVE_ONE_MAX;
    for (uint32_t fold = 0; fold < folds; fold++) {
        struct aw_gpu_volt volt = {0.8, 0.8};
        volt_fit(groups, count, fold, &volt);
        for (uint32_t g = 0; g < count; g++) {
            struct group *group = &groups[g];
            struct aw_gpu_time time;
            struct aw_gpu_power power;
            if (group->n > LEAVE_ONE_MAX && fold >= 4)
                continue;
            aw_gpu_capped_fit(x, t, p, seen_take(group, fold, x, t, p), &volt, &time, &power);
            for (uint32_t i = 0; i < group->n; i++) {
                if (!held(i, group->n, fold))
                    continue;
                if (timed)
                    aw__validate_error(validate, "time", aw_gpu_time_at(&time, group->x[i]),
                                       group->time[i]);
                group->guess[i] = aw_gpu_power_at(&power, &volt, group->x[i]);
                if (group->n > LEAVE_ONE_MAX)
                    aw__validate_error(validate, "power", group->guess[i], group->power[i]);
            }
        }
    }
    for (uint32_t g = 0; g < count; g++)
        for (uint32_t i = 0; i < groups[g].n && groups[g].n <= LEAVE_ONE_MAX; i++)
            aw__validate_error(validate, "power",
                               groups[g].guess[i] *
                                   others(groups, count, &groups[g], groups[g].x[i]),
                               groups[g].power[i]);
}

/* Between limits a straight line of 1 / time and of power; beyond them, that of the nearest two. */
static double limit_predict(const struct group *group, const double *y, uint32_t out, bool inverse)
{
    uint32_t a = UINT32_MAX, b = UINT32_MAX; /* the two nearest that are not held out */
    for (uint32_t i = 0; i < group->n; i++) {
        if (i == out)
            continue;
        if (a == UINT32_MAX ||
            fabs(group->x[i] - group->x[out]) < fabs(group->x[a] - group->x[out])) {
            b = a;
            a = i;
        } else if (b == UINT32_MAX ||
                   fabs(group->x[i] - group->x[out]) < fabs(group->x[b] - group->x[out])) {
            b = i;
        }
    }
    const double ya = inverse ? 1 / y[a] : y[a], yb = inverse ? 1 / y[b] : y[b];
    const double line =
        ya + (yb - ya) * (group->x[out] - group->x[a]) / (group->x[b] - group->x[a]);
    return inverse ? 1 / fmax(line, 0.2 * ya) : line;
}

static void limits_try(struct aw_validate *validate, const struct group *groups, uint32_t count)
{
    for (uint32_t g = 0; g < count; g++)
        for (uint32_t i = 0; i < groups[g].n; i++) {
            aw__validate_error(validate, "limit_time",
                               limit_predict(&groups[g], groups[g].time, i, true),
                               groups[g].time[i]);
            aw__validate_error(validate, "limit_power",
                               limit_predict(&groups[g], groups[g].power, i, false),
                               groups[g].power[i]);
        }
}

/* The sweeps of a table; `ret_format` NULL: it has none. The caller frees both arrays, whatever the
 * outcome. */
static enum aw_err sweeps_take(const char *path, const struct aw_serving_table *table,
                               const struct format **ret_format, struct point **ret_points,
                               struct group **ret_groups, uint32_t *ret_count, double *ret_max,
                               struct aw_diag *diag)
{
    *ret_format = NULL;
    for (size_t f = 0; f < sizeof formats / sizeof *formats && !*ret_format; f++)
        *ret_format = has(table, &formats[f]) ? &formats[f] : NULL;
    if (!*ret_format)
        return AW_OK;
    *ret_points = aw_alloc_new(NULL, table->rows, sizeof **ret_points);
    *ret_groups = aw_alloc_new(NULL, table->rows / 3 + 1, sizeof **ret_groups);
    if (!*ret_points || !*ret_groups)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    const uint32_t n = points_take(table, *ret_format, *ret_points);
    *ret_max = 0;
    for (uint32_t i = 0; i < n; i++)
        *ret_max = fmax(*ret_max, (*ret_points)[i].clock);
    *ret_count = groups_make(*ret_points, n, *ret_max, *ret_groups);
    if (*ret_count == 0)
        return aw_fail_at(diag, AW_ERR_NODATA, path, 0, 0, NULL,
                          "expected a program at three clocks or more, found none");
    return AW_OK;
}

enum aw_err aw__validate_clocks(struct aw_validate *validate, const char *path,
                                const struct aw_serving_table *table, bool *ret_mine,
                                struct aw_diag *diag)
{
    const struct format *format;
    struct point *points = NULL;
    struct group *groups = NULL;
    uint32_t count = 0;
    double clock_max;
    enum aw_err err = sweeps_take(path, table, &format, &points, &groups, &count, &clock_max, diag);
    *ret_mine = format != NULL;
    if (!err && format && format->limit)
        limits_try(validate, groups, count);
    else if (!err && format)
        clocks_try(validate, groups, count, format->time != NULL);
    aw_alloc_free(NULL, points);
    aw_alloc_free(NULL, groups);
    return err;
}

/* --- profiles --------------------------------------------------------------------------------- */

static void program_fit(const struct group *group, const struct aw_gpu_volt *volt,
                        struct aw_gpu_program *ret)
{
    size_t len = strlen(group->key);
    *ret = (struct aw_gpu_program){.clocks = group->n};
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)(len ? len - 1 : 0), group->key);
    for (char *at = ret->name; *at; at++)
        *at = *at == '|' ? '/' : *at;
    aw_gpu_capped_fit(group->x, group->time, group->power, group->n, volt, &ret->time, &ret->power);
    for (uint32_t i = 0; i < group->n; i++) {
        ret->error_time +=
            fabs(aw_gpu_time_at(&ret->time, group->x[i]) / group->time[i] - 1) / group->n;
        ret->error_power +=
            fabs(aw_gpu_power_at(&ret->power, volt, group->x[i]) / group->power[i] - 1) / group->n;
    }
}

enum aw_err aw_gpu_profile_read(const char *path, struct aw_gpu_profile *ret, struct aw_diag *diag)
{
    struct aw_serving_table table;
    const struct format *format = NULL;
    struct point *points = NULL;
    struct group *groups = NULL;
    uint32_t count = 0;
    memset(ret, 0, sizeof *ret);
    enum aw_err err = aw_serving_table_read(path, &table, diag);
    if (err)
        return err;
    err = sweeps_take(path, &table, &format, &points, &groups, &count, &ret->clock_max, diag);
    if (!err && (!format || format->limit))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL,
                         "expected programs over clocks, with time or power");
    ret->program = err ? NULL : aw_alloc_new(NULL, count, sizeof *ret->program);
    if (!err && !ret->program)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u programs", count);
    if (!err) {
        ret->timed = format->time != NULL;
        ret->programs = count;
        volt_fit(groups, count, FOLD_NONE, &ret->volt);
        for (uint32_t g = 0; g < count; g++)
            program_fit(&groups[g], &ret->volt, &ret->program[g]);
    }
    aw_alloc_free(NULL, points);
    aw_alloc_free(NULL, groups);
    aw_serving_table_deinit(&table);
    return err;
}

void aw_gpu_profile_deinit(struct aw_gpu_profile *profile)
{
    aw_alloc_free(NULL, profile->program);
    memset(profile, 0, sizeof *profile);
}
