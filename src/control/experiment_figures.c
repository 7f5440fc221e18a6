/* experiment_figures.c - means, ratios and rank correlations, with their intervals. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "control/experiment_internal.h"

#define RESAMPLES 2000u
#define N_MAX     1000u
#define BEYOND    1e9 /* a ratio to nothing */

static struct aw_interval interval_of(double *statistic)
{
    aw_stats_sort(statistic, RESAMPLES);
    return (struct aw_interval){aw_stats_quantile(statistic, RESAMPLES, 0.025),
                                aw_stats_quantile(statistic, RESAMPLES, 0.975)};
}

struct aw_finding *aw__figure_mean(struct aw_findings *findings, enum aw_findings_unit unit,
                                   const double *x, uint32_t n, double paper, const char *name)
{
    struct aw_finding *figure =
        aw_findings_figure(findings, unit, n ? aw_stats_mean(x, n) : (double)NAN, "%s", name);
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

struct aw_finding *aw__figure_ratio(struct aw_findings *findings, const double *a, const double *b,
                                    uint32_t n, double paper, const char *name)
{
    const double above = n ? aw_stats_mean(a, n) : 0, over = n ? aw_stats_mean(b, n) : 0;
    const double ratio = over > 0 ? above / over : above > 0 ? (double)INFINITY : (double)NAN;
    struct aw_finding *figure = aw_findings_figure(findings, AW_UNIT_TIMES, ratio, "%s", name);
    if (!figure)
        return NULL;
    figure->paper = paper;
    double statistic[RESAMPLES];
    struct aw_rng rng;
    aw_rng_init(&rng, 2, 0);
    for (uint32_t r = 0; n && r < RESAMPLES; r++) {
        double up = 0, down = 0;
        for (uint32_t i = 0; i < n; i++) { /* the same applications above and below */
            const uint32_t k = (uint32_t)aw_rng_below(&rng, n);
            up += a[k];
            down += b[k];
        }
        statistic[r] = down > 0 ? fmin(BEYOND, up / down) : BEYOND;
    }
    if (n && over > 0)
        figure->interval = interval_of(statistic);
    if (figure->interval.high >= BEYOND)
        figure->interval.high = (double)INFINITY;
    return figure;
}

/* Mean rank of each, ties shared. */
static void ranks(const double *x, uint32_t n, double *rank)
{
    for (uint32_t i = 0; i < n; i++) {
        double below = 0, same = 0;
        for (uint32_t k = 0; k < n; k++) {
            below += x[k] < x[i];
            same += x[k] == x[i];
        }
        rank[i] = below + (same - 1) / 2;
    }
}

double aw__rank_correlation(const double *a, const double *b, uint32_t n, double *scratch)
{
    double *ra = scratch, *rb = scratch + n;
    double top = 0, aa = 0, bb = 0;
    const double mean = (n - 1) / 2.0;
    ranks(a, n, ra);
    ranks(b, n, rb);
    for (uint32_t i = 0; i < n; i++) {
        top += (ra[i] - mean) * (rb[i] - mean);
        aa += (ra[i] - mean) * (ra[i] - mean);
        bb += (rb[i] - mean) * (rb[i] - mean);
    }
    return aa > 0 && bb > 0 ? top / sqrt(aa * bb) : 0;
}

struct aw_finding *aw__figure_rank(struct aw_findings *findings, const double *a, const double *b,
                                   uint32_t n, const char *name)
{
    static const uint32_t few = 200; /* ranks are quadratic */
    double scratch[2 * N_MAX], x[N_MAX], y[N_MAX], statistic[RESAMPLES];
    if (n < 3 || n > N_MAX)
        return aw_findings_figure(findings, AW_UNIT_PLAIN, (double)NAN, "%s", name);
    struct aw_finding *figure = aw_findings_figure(
        findings, AW_UNIT_PLAIN, aw__rank_correlation(a, b, n, scratch), "%s", name);
    if (!figure)
        return NULL;
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    for (uint32_t r = 0; r < few; r++) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t k = (uint32_t)aw_rng_below(&rng, n);
            x[i] = a[k];
            y[i] = b[k];
        }
        statistic[r] = aw__rank_correlation(x, y, n, scratch);
    }
    aw_stats_sort(statistic, few);
    figure->interval = (struct aw_interval){aw_stats_quantile(statistic, few, 0.025),
                                            aw_stats_quantile(statistic, few, 0.975)};
    return figure;
}
