/* validate_clocks.c - sweeps of clocks and of power limits: time and power of what is held out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/stats.h"
#include "serving/gpu.h"
#include "serving/gpu_profile.h"
#include "serving/table.h"
#include "serving/validate.h"

#define LEAVE_ONE_MAX 12u /* clocks; of more, a quarter predicts the rest */
#define POINTS_MAX    256u
#define KEY_MAX       200u
#define FOLD_NONE     UINT32_MAX /* nothing is held out */
#define CLOCK_SAME    1e-6       /* of the largest */
#define CLOCK_NEAR    0.12       /* within which what a law leaves over is alike */
#define ALIKE_MAX     400u       /* programs that one is compared with */

enum { TIME, POWER };

struct point {
    char key[KEY_MAX]; /* the program, its arguments and what else is fixed */
    double clock, time, power;
};
struct group {
    const char *key;
    uint32_t n;
    double x[POINTS_MAX], time[POINTS_MAX], power[POINTS_MAX];
    /* of TIME and of POWER, logarithms: a fold's law, what it leaves over, what was measured */
    double law[2][POINTS_MAX], rest[2][POINTS_MAX], level[2][POINTS_MAX];
};

/* What a format calls its columns; NULL: it has none. A file need not have all of them: the first
 * key, the clock, and time or power are enough. */
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

static bool column(const struct aw_serving_table *table, const char *name)
{
    return name && aw_serving_table_column(table, name) != AW_SERVING_TABLE_NONE;
}

static bool timed(const struct aw_serving_table *table, const struct format *format)
{
    return column(table, format->time);
}

static bool powered(const struct aw_serving_table *table, const struct format *format)
{
    return column(table, format->power) || (column(table, format->energy) && timed(table, format));
}

static bool has(const struct aw_serving_table *table, const struct format *format)
{
    return column(table, format->key[0]) && column(table, format->clock) &&
           (timed(table, format) || powered(table, format));
}

static double cell(const struct aw_serving_table *table, uint32_t row, const char *name)
{
    return aw_serving_table_real(table, row, aw_serving_table_column(table, name));
}

/* The rows as points, sorted; rows without a figure are left out. What is not measured is 1. */
static uint32_t points_take(const struct aw_serving_table *table, const struct format *format,
                            struct point *points)
{
    const bool time = timed(table, format), power = powered(table, format),
               direct = column(table, format->power);
    uint32_t n = 0;
    for (uint32_t r = 0; r < table->rows; r++) {
        struct point *point = &points[n];
        size_t used = 0;
        for (uint32_t k = 0; format->key[k] && used < KEY_MAX; k++)
            used += (size_t)snprintf(
                point->key + used, KEY_MAX - used, "%s|",
                aw_serving_table_text(table, r, aw_serving_table_column(table, format->key[k])));
        point->clock = cell(table, r, format->clock);
        point->time = time ? cell(table, r, format->time) : 1;
        point->power = !power   ? 1
                       : direct ? cell(table, r, format->power)
                                : cell(table, r, format->energy) / point->time;
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

/* What a fold's laws leave over at every clock of a program. */
static void rest_take(struct group *group, uint32_t fold, const struct aw_gpu_volt *volt,
                      double ratio, double weight)
{
    double x[POINTS_MAX] = {0}, t[POINTS_MAX] = {0}, p[POINTS_MAX] = {0};
    struct aw_gpu_time time;
    struct aw_gpu_power power;
    const uint32_t n = seen_take(group, fold, x, t, p);
    aw_gpu_capped_fit(x, t, p, n, volt, &time, &power);
    if (weight > 0)
        aw_gpu_power_near(x, p, n, volt, ratio, weight, &power);
    for (uint32_t i = 0; i < group->n; i++) {
        group->law[TIME][i] = log(fmax(aw_gpu_time_at(&time, group->x[i]), 1e-300));
        group->law[POWER][i] = log(fmax(aw_gpu_power_at(&power, volt, group->x[i]), 1e-300));
        group->level[TIME][i] = log(group->time[i]);
        group->level[POWER][i] = log(group->power[i]);
        for (int y = TIME; y <= POWER; y++)
            group->rest[y][i] = group->level[y][i] - group->law[y][i];
    }
}

/* How much two programs differ over the clocks that the fold sees of the first: the variance of the
 * ratio's logarithm; INFINITY: fewer than two in common. */
static double unlike(const struct group *a, const struct group *b, uint32_t fold, int y)
{
    double sum = 0, square = 0;
    uint32_t n = 0;
    for (uint32_t i = 0, k = 0; i < a->n; i++) {
        while (k < b->n && b->x[k] < a->x[i] - CLOCK_SAME)
            k++;
        if (held(i, a->n, fold) || k == b->n || b->x[k] > a->x[i] + CLOCK_SAME)
            continue;
        const double d = a->level[y][i] - b->level[y][k];
        sum += d;
        square += d * d;
        n++;
    }
    return n < 2 ? INFINITY : fmax(square / n - sum / n * (sum / n), 0);
}

/* Are they one program, with other arguments? `names`: how many parts of a key are its name. */
static bool same_name(const struct group *a, const struct group *b, uint32_t names)
{
    size_t len = 0;
    for (; names; names--)
        len += strcspn(a->key + len, "|") + 1;
    return !strncmp(a->key, b->key, len);
}

/* What programs that slow alike leave over at this clock: a voltage that jumps, or a memory that
 * starves, does so for all of them. The same program with other arguments does not count. */
static double rest_alike(const struct group *groups, uint32_t count, const struct group *own,
                         uint32_t names, uint32_t i, uint32_t fold, int y)
{
    static const double width[] = {[TIME] = 0.02, [POWER] = 0.04};
    const uint32_t step = count / ALIKE_MAX + 1;
    double sum = 0, total = 0.5; /* half a program that fits its law */
    for (uint32_t g = 0; g < count; g += step) {
        const struct group *group = &groups[g];
        uint32_t k = 0;
        if (group->n > LEAVE_ONE_MAX || same_name(own, group, names))
            continue;
        while (k < group->n && group->x[k] < own->x[i] - CLOCK_SAME)
            k++;
        if (k == group->n || group->x[k] > own->x[i] + CLOCK_SAME)
            continue;
        const double w = exp(-unlike(own, group, fold, y) / (width[y] * width[y]));
        sum += w * group->rest[y][k];
        total += w;
    }
    return sum / total;
}

/* What its own law leaves over at the clocks around. */
static double rest_near(const struct group *group, uint32_t i, uint32_t fold, int y)
{
    double sum = 0, total = 0.5;
    for (uint32_t k = 0; k < group->n; k++) {
        if (held(k, group->n, fold))
            continue;
        const double d = (group->x[k] - group->x[i]) / CLOCK_NEAR, w = exp(-d * d);
        sum += w * group->rest[y][k];
        total += w;
    }
    return sum / total;
}

/* How far a program's ratio of still to switching power is to be trusted against that of all: the
 * weight under which each clock that the fold sees is predicted best from the others it sees. */
static double weight_choose(const struct group *groups, uint32_t count, uint32_t fold,
                            const struct aw_gpu_volt *volt, double ratio)
{
    static const double weights[] = {0, 0.01, 0.03, 0.1, 0.3};
    const uint32_t step = count / 100 + 1;
    double best = INFINITY, chosen = 0;
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
        double error = 0, x[POINTS_MAX], t[POINTS_MAX], p[POINTS_MAX];
        for (uint32_t g = 0; g < count; g += step) {
            const uint32_t n = seen_take(&groups[g], fold, x, t, p);
            for (uint32_t out = 0; n > 2 && n <= LEAVE_ONE_MAX && out < n; out++) {
                const double at = x[out], is = p[out];
                struct aw_gpu_power law = {.cap = 1};
                x[out] = x[n - 1];
                p[out] = p[n - 1];
                aw_gpu_power_near(x, p, n - 1, volt, ratio, weights[w], &law);
                x[out] = at;
                p[out] = is;
                error += fabs(aw_gpu_power_at(&law, volt, at) / is - 1);
            }
        }
        if (error < best) {
            best = error;
            chosen = weights[w];
        }
    }
    return chosen;
}

/* The median of programs' s / c, as the fold sees them. */
static double ratio_of(struct group *groups, uint32_t count, uint32_t fold,
                       const struct aw_gpu_volt *volt)
{
    double ratio[ALIKE_MAX], x[POINTS_MAX], t[POINTS_MAX], p[POINTS_MAX];
    const uint32_t step = count / ALIKE_MAX + 1;
    size_t n = 0;
    for (uint32_t g = 0; g < count; g += step) {
        struct aw_gpu_power law;
        aw_gpu_power_fit(x, p, seen_take(&groups[g], fold, x, t, p), volt, &law);
        if (law.c > 0)
            ratio[n++] = law.s / law.c;
    }
    aw_stats_sort(ratio, n);
    return n ? aw_stats_median(ratio, n) : 0;
}

static void clocks_try(struct aw_validate *validate, struct group *groups, uint32_t count,
                       bool time, bool power)
{
    uint32_t longest = 0;
    for (uint32_t g = 0; g < count; g++)
        longest = groups[g].n > longest ? groups[g].n : longest;
    const uint32_t folds = longest <= LEAVE_ONE_MAX ? longest : LEAVE_ONE_MAX;
    for (uint32_t fold = 0; fold < folds; fold++) {
        struct aw_gpu_volt volt = {0.8, 0.8};
        volt_fit(groups, count, fold, &volt);
        const double ratio = ratio_of(groups, count, fold, &volt),
                     weight = weight_choose(groups, count, fold, &volt, ratio);
        for (uint32_t g = 0; g < count; g++)
            rest_take(&groups[g], fold, &volt, ratio, groups[g].n <= LEAVE_ONE_MAX ? weight : 0);
        for (uint32_t g = 0; g < count; g++) {
            const struct group *group = &groups[g];
            const bool few = group->n <= LEAVE_ONE_MAX;
            for (uint32_t i = 0; i < group->n && (few || fold < 4); i++) {
                if (!held(i, group->n, fold))
                    continue;
                for (int y = time ? TIME : POWER; y <= (power ? POWER : TIME); y++)
                    aw__validate_error(
                        validate, y == TIME ? "time" : "power",
                        exp(group->law[y][i] + rest_near(group, i, fold, y) +
                            (few ? rest_alike(groups, count, group, 1, i, fold, y) : 0)),
                        y == TIME ? group->time[i] : group->power[i]);
            }
        }
    }
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

static void limits_try(struct aw_validate *validate, struct group *groups, uint32_t count,
                       bool time, bool power)
{
    for (uint32_t g = 0; g < count; g++) {
        struct group *group = &groups[g];
        for (uint32_t i = 0; i < group->n; i++)
            for (int y = TIME; y <= POWER; y++) {
                const double *is = y == TIME ? group->time : group->power;
                group->law[y][i] = log(fmax(limit_predict(group, is, i, y == TIME), 1e-300));
                group->level[y][i] = log(is[i]);
                group->rest[y][i] = group->level[y][i] - group->law[y][i];
            }
    }
    for (uint32_t g = 0; g < count; g++)
        for (uint32_t i = 0; i < groups[g].n; i++)
            for (int y = time ? TIME : POWER; y <= (power ? POWER : TIME); y++) {
                const bool few = groups[g].n <= LEAVE_ONE_MAX;
                aw__validate_error(
                    validate, y == TIME ? "limit_time" : "limit_power",
                    exp(groups[g].law[y][i] +
                        (few ? rest_alike(groups, count, &groups[g], 2, i, i, y) : 0)),
                    y == TIME ? groups[g].time[i] : groups[g].power[i]);
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
        limits_try(validate, groups, count, timed(table, format), powered(table, format));
    else if (!err && format)
        clocks_try(validate, groups, count, timed(table, format), powered(table, format));
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
    if (!err && (!format || format->limit || !powered(&table, format)))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL,
                         "expected programs over clocks, with power or energy");
    ret->program = err ? NULL : aw_alloc_new(NULL, count, sizeof *ret->program);
    if (!err && !ret->program)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u programs", count);
    if (!err) {
        ret->timed = timed(&table, format);
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
