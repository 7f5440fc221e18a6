/* experiment_figures.c - means, ratios and rank correlations, with their intervals. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "study/experiment_internal.h"

#define RESAMPLES 2000u
#define N_MAX     8000u
#define BEYOND    1e9 /* a ratio to nothing */

struct aw_interval aw__resampled(uint32_t groups, uint32_t count, aw__statistic *fn,
                                 const void *ctx)
{
    uint32_t pick[N_MAX];
    double statistic[RESAMPLES];
    struct aw_rng rng;
    const uint32_t n = groups * count;
    if (n < 2 || n > N_MAX)
        return (struct aw_interval){(double)NAN, (double)NAN};
    aw_rng_init(&rng, 2, 0);
    for (uint32_t r = 0; r < RESAMPLES; r++) {
        for (uint32_t g = 0; g < groups; g++) {
            const uint32_t from = groups > 1 ? (uint32_t)aw_rng_below(&rng, groups) : 0;
            for (uint32_t i = 0; i < count; i++)
                pick[g * count + i] = from * count + (uint32_t)aw_rng_below(&rng, count);
        }
        statistic[r] = fmin(BEYOND, fn(ctx, pick, n));
    }
    aw_stats_sort(statistic, RESAMPLES);
    struct aw_interval ret = {aw_stats_quantile(statistic, RESAMPLES, 0.025),
                              aw_stats_quantile(statistic, RESAMPLES, 0.975)};
    if (ret.high >= BEYOND)
        ret.high = (double)INFINITY;
    return ret;
}

static double mean_of(const void *ctx, const uint32_t *pick, uint32_t n)
{
    const double *x = ctx;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[pick[i]];
    return sum / n;
}

struct aw_interval aw__resampled_mean(uint32_t groups, uint32_t count, const double *x)
{
    return aw__resampled(groups, count, mean_of, x);
}

struct aw_study_report_figure *aw__figure_mean(struct aw_study_report *report,
                                               enum aw_study_report_unit unit, const double *x,
                                               uint32_t n, double paper, const char *name)
{
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, unit, n ? aw_stats_mean(x, n) : (double)NAN, "%s", name);
    if (!figure)
        return NULL;
    figure->paper = paper;
    if (n == 0 || n > N_MAX)
        return figure;
    double scratch[N_MAX + RESAMPLES];
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    figure->interval = aw_stats_bootstrap_mean(x, n, 0.95, RESAMPLES, &rng, scratch);
    return figure;
}

struct two {
    const double *a, *b;
};

static double ratio_of(const void *ctx, const uint32_t *pick, uint32_t n)
{
    const struct two *two = ctx;
    double up = 0, down = 0;
    for (uint32_t i = 0; i < n; i++) { /* the same applications above and below */
        up += two->a[pick[i]];
        down += two->b[pick[i]];
    }
    return down > 0 ? up / down : (double)INFINITY;
}

struct aw_interval aw__resampled_ratio(uint32_t groups, uint32_t count, const double *a,
                                       const double *b)
{
    const struct two two = {a, b};
    return aw__resampled(groups, count, ratio_of, &two);
}

struct aw_study_report_figure *aw__figure_ratio(struct aw_study_report *report, const double *a,
                                                const double *b, uint32_t n, double paper,
                                                const char *name)
{
    const double above = n ? aw_stats_mean(a, n) : 0, over = n ? aw_stats_mean(b, n) : 0;
    const double ratio = over > 0 ? above / over : above > 0 ? (double)INFINITY : (double)NAN;
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, AW_UNIT_TIMES, ratio, "%s", name);
    if (!figure)
        return NULL;
    figure->paper = paper;
    if (over > 0)
        figure->interval = aw__resampled_ratio(1, n, a, b);
    return figure;
}

/* How many of `sorted` are below `x`, or not above it. */
static uint32_t below(const double *sorted, uint32_t n, double x, bool or_same)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (sorted[mid] < x || (or_same && sorted[mid] == x))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Mean rank of each, ties shared. */
static void ranks(const double *x, uint32_t n, double *sorted, double *rank)
{
    memcpy(sorted, x, n * sizeof *x);
    aw_stats_sort(sorted, n);
    for (uint32_t i = 0; i < n; i++)
        rank[i] = (below(sorted, n, x[i], false) + below(sorted, n, x[i], true) - 1) / 2.0;
}

double aw__rank_correlation(const double *a, const double *b, uint32_t n, double *scratch)
{
    double *ra = scratch, *rb = scratch + n;
    double top = 0, aa = 0, bb = 0;
    const double mean = (n - 1) / 2.0;
    ranks(a, n, scratch + 2 * (size_t)n, ra);
    ranks(b, n, scratch + 2 * (size_t)n, rb);
    for (uint32_t i = 0; i < n; i++) {
        top += (ra[i] - mean) * (rb[i] - mean);
        aa += (ra[i] - mean) * (ra[i] - mean);
        bb += (rb[i] - mean) * (rb[i] - mean);
    }
    return aa > 0 && bb > 0 ? top / sqrt(aa * bb) : 0;
}

static double rank_of(const void *ctx, const uint32_t *pick, uint32_t n)
{
    const struct two *two = ctx;
    double scratch[3 * N_MAX], x[N_MAX], y[N_MAX];
    for (uint32_t i = 0; i < n; i++) {
        x[i] = two->a[pick[i]];
        y[i] = two->b[pick[i]];
    }
    return aw__rank_correlation(x, y, n, scratch);
}

struct aw_study_report_figure *aw__figure_rank(struct aw_study_report *report, const double *a,
                                               const double *b, uint32_t groups, uint32_t count,
                                               const char *name)
{
    const uint32_t n = groups * count;
    const struct two two = {a, b};
    double scratch[3 * N_MAX];
    if (n < 3 || n > N_MAX)
        return aw_study_report_figure(report, AW_UNIT_PLAIN, (double)NAN, "%s", name);
    struct aw_study_report_figure *figure = aw_study_report_figure(
        report, AW_UNIT_PLAIN, aw__rank_correlation(a, b, n, scratch), "%s", name);
    if (figure)
        figure->interval = aw__resampled(groups, count, rank_of, &two);
    return figure;
}
