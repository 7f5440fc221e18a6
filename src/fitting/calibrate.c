/* calibrate.c - what to measure, and how near the models came. */
#include "fitting/calibrate.h"

#include "base/stats.h"

#include <math.h>

#define SATURATE   1.3  /* of what a size can do as far as is known */
#define FULL       0.95 /* utilisation from where on more load would not be answered */
#define KEPT_UP    0.97 /* of what came was answered: that was not too much */
#define KNEE_RATIO 2.0
#define SEEN_SPAN  0.4 /* of what an unseen setting is watched for: a fit has many of them */
#define KNEE_SPAN  0.5 /* where only the mean is asked for */

const struct aw_calibrate_value_info aw_calibrate_value_infos[AW_CALIBRATE_VALUES] = {
#define X(name, key, unit, text) {key, unit, text},
    AW_CALIBRATE_VALUE_MAP(X)
#undef X
};

/* Seen sizes tell of an idle replica, of one that is often throttled, and of one that is nearly
 * full; unseen ones are walked up evenly, the last step being there for the knee alone. */
static const double seen_loads[] = {0.2, 0.5, 0.75};
static const double unseen_loads[] = {0.15, 0.3, 0.45, 0.6, 0.75, 0.9};
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
_Static_assert(COUNT(unseen_loads) <= AW_CALIBRATE_LOADS_MAX, "loads");

static double cores_of(const struct aw_calibrate_size *size)
{
    return 1e-3 * (double)size->cpu_millicores * size->replicas;
}

struct aw_calibrate_setting aw_calibrate_saturate(const struct aw_calibrate_size *size,
                                                  uint32_t size_index, double cpu_ms, double span_s)
{
    return (struct aw_calibrate_setting){
        .size = *size,
        .size_index = size_index,
        .rate_per_s = SATURATE * 1e3 * cores_of(size) / cpu_ms,
        .load = SATURATE,
        .span_s = span_s,
    };
}

double aw_calibrate_capacity(const struct aw_calibrate_point *saturated)
{
    const struct aw_calibrate_figures *m = &saturated->measured;
    const double came_per_s = m->requests / saturated->setting.span_s;
    /* cheaper requests than thought: as far as can be told from what they used */
    if (m->throughput_per_s >= KEPT_UP * came_per_s && m->utilisation < FULL)
        return m->throughput_per_s / fmax(m->utilisation, 0.1);
    return m->throughput_per_s;
}

uint32_t aw_calibrate_ladder(const struct aw_calibrate_size *size, uint32_t size_index,
                             double capacity_per_s, double span_s, struct aw_calibrate_setting *ret)
{
    const double *loads = size->seen ? seen_loads : unseen_loads;
    const uint32_t count = size->seen ? COUNT(seen_loads) : COUNT(unseen_loads);
    for (uint32_t i = 0; i < count; i++) {
        const double part = size->seen ? SEEN_SPAN : loads[i] > AW_CALIBRATE_BELOW ? KNEE_SPAN : 1;
        ret[i] = (struct aw_calibrate_setting){
            .size = *size,
            .size_index = size_index,
            .rate_per_s = loads[i] * capacity_per_s,
            .load = loads[i],
            .span_s = part * span_s,
        };
    }
    return count;
}

/* --- the comparison --------------------------------------------------------------------------- */

static double relative(double said, double seen)
{
    return fabs(said / seen - 1);
}

/* Errors of one figure, NAN left out. */
struct errors {
    double value[AW_CALIBRATE_POINTS_MAX];
    uint32_t count;
};

static void errors_add(struct errors *errors, double error)
{
    if (isfinite(error) && errors->count < AW_CALIBRATE_POINTS_MAX)
        errors->value[errors->count++] = error;
}

static double errors_quantile(struct errors *errors, double q)
{
    if (errors->count == 0)
        return NAN;
    aw_stats_sort(errors->value, errors->count);
    return aw_stats_quantile(errors->value, errors->count, q);
}

static bool is_below(const struct aw_calibrate_point *point)
{
    return !point->setting.size.seen && point->setting.load <= AW_CALIBRATE_BELOW;
}

static void judge_model(const struct aw_calibrate_point *points, uint32_t count,
                        enum aw_calibrate_model m, struct aw_calibrate_verdict *ret)
{
    struct errors p50 = {.count = 0}, p99 = {.count = 0}, used = {.count = 0}, done = {.count = 0},
                  knee = {.count = 0};
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_calibrate_figures *seen = &points[i].measured, *said = &points[i].model[m];
        if (!is_below(&points[i]))
            continue;
        errors_add(&p50, relative(said->p50_ms, seen->p50_ms));
        errors_add(&p99, relative(said->p99_ms, seen->p99_ms));
        errors_add(&used, fabs(said->utilisation - seen->utilisation));
        errors_add(&done, relative(said->throughput_per_s, seen->throughput_per_s));
    }
    for (uint32_t k = 0; k < ret->knee_count; k++)
        errors_add(&knee, relative(ret->knee[k].model_per_s[m], ret->knee[k].measured_per_s));
    ret->model[m].p50_median = errors_quantile(&p50, 0.5);
    ret->model[m].p99_median = errors_quantile(&p99, 0.5);
    ret->model[m].p99_p90 = errors_quantile(&p99, 0.9);
    ret->model[m].utilisation_median = errors_quantile(&used, 0.5);
    ret->model[m].utilisation_max = errors_quantile(&used, 1);
    ret->model[m].throughput_median = errors_quantile(&done, 0.5);
    ret->model[m].knee_median = errors_quantile(&knee, 0.5);
    ret->model[m].knee_max = errors_quantile(&knee, 1);
}

/* A curve of one size, by rate: what came, and how long it took. */
struct curve {
    uint32_t count;
    const struct aw_calibrate_point *point[AW_CALIBRATE_LOADS_MAX + 1];
};

static double rate_of(const struct aw_calibrate_point *point)
{
    return point->measured.requests / point->setting.span_s;
}

static void curve_add(struct curve *curve, const struct aw_calibrate_point *point)
{
    if (curve->count > AW_CALIBRATE_LOADS_MAX)
        return;
    uint32_t at = curve->count++;
    for (; at > 0 && rate_of(curve->point[at - 1]) > rate_of(point); at--)
        curve->point[at] = curve->point[at - 1];
    curve->point[at] = point;
}

/* `which` AW_CALIBRATE_MODELS: what was measured. */
static double mean_of(const struct aw_calibrate_point *point, uint32_t which)
{
    return which < AW_CALIBRATE_MODELS ? point->model[which].mean_ms : point->measured.mean_ms;
}

static double knee_of(const struct curve *curve, uint32_t which)
{
    if (curve->count < 2)
        return NAN;
    const double limit = log(KNEE_RATIO * mean_of(curve->point[0], which));
    for (uint32_t i = 1; i < curve->count; i++) {
        const double before = log(mean_of(curve->point[i - 1], which)),
                     after = log(mean_of(curve->point[i], which));
        const double low = rate_of(curve->point[i - 1]), high = rate_of(curve->point[i]);
        if (after >= limit)
            return after > before ? low + (high - low) * (limit - before) / (after - before) : low;
    }
    return NAN;
}

static void knees_find(const struct aw_calibrate_point *points, uint32_t count,
                       struct aw_calibrate_verdict *ret)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_calibrate_setting *s = &points[i].setting;
        struct curve curve = {0};
        /* the saturated point of a size leads it: capacities are read off that */
        if (s->size.seen || s->load <= 1 || ret->knee_count == AW_CALIBRATE_SIZES_MAX)
            continue;
        for (uint32_t k = 0; k < count; k++)
            if (points[k].setting.size_index == s->size_index)
                curve_add(&curve, &points[k]);
        struct aw_calibrate_knee *knee = &ret->knee[ret->knee_count++];
        *knee = (struct aw_calibrate_knee){
            .size = s->size,
            .capacity_per_s = aw_calibrate_capacity(&points[i]),
            .measured_per_s = knee_of(&curve, AW_CALIBRATE_MODELS),
        };
        for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++) {
            knee->model_per_s[m] = knee_of(&curve, m);
            knee->model_capacity_per_s[m] = points[i].model[m].throughput_per_s;
        }
    }
}

void aw_calibrate_judge(const struct aw_calibrate_point *points, uint32_t count,
                        struct aw_calibrate_verdict *ret)
{
    *ret = (struct aw_calibrate_verdict){0};
    knees_find(points, count, ret);
    for (uint32_t i = 0; i < count; i++)
        ret->below_count += is_below(&points[i]);
    for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++)
        judge_model(points, count, (enum aw_calibrate_model)m, ret);
}
