/*
 * stats.h - what is said about a set of numbers: moments, quantiles, confidence intervals.
 *
 * Every input must be finite: a NaN has no rank and would poison a mean silently, so it is a bug of
 * the caller (AW_ASSERT), which checks for finite numbers at its walls. So is an empty set, unless
 * said.
 *
 * Memory:  nothing is allocated; where a function needs room, the caller passes it as `scratch`.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_BASE_STATS_H
#define AW_BASE_STATS_H

#include <aware/err.h>

#include "base/rng.h"

double aw_stats_mean(const double *x, size_t n);
/* Sample standard deviation (divided by n - 1); 0 for a single number. */
double aw_stats_std(const double *x, size_t n);
double aw_stats_min(const double *x, size_t n);
double aw_stats_max(const double *x, size_t n);

/* Sorts in place, ascending. The three below want their input so. */
void aw_stats_sort(double *x, size_t n);
/* Linear interpolation between order statistics (type 7 of Hyndman and Fan 1996, numpy's default).
 * `q` in [0, 1]. */
double aw_stats_quantile(const double *sorted, size_t n, double q);
double aw_stats_median(const double *sorted, size_t n);

/* Everything one usually prints about a set. */
struct aw_stats {
    size_t count;
    double mean, std, min, max;
    double p25, median, p75, iqm;
};
/* `scratch` has room for n; the order of `x` is left alone. */
struct aw_stats aw_stats_of(const double *x, size_t n, double *scratch);

/* A percentile bootstrap (Efron 1979): the statistic over `resample_count` sets drawn from `x` with
 * replacement; the interval holds the middle `level` of them. `scratch` has room for
 * n + resample_count. Same generator state, same interval. */
struct aw_interval {
    double low, high;
};
struct aw_interval aw_stats_bootstrap_mean(const double *x, size_t n, double level,
                                           uint32_t resample_count, struct aw_rng *rng,
                                           double *scratch);

/* Mean and variance of a stream, one number at a time (Welford 1962). Zeroed is empty. */
struct aw_running {
    uint64_t count;
    double mean;
    double m2; /* sum of squared distances from the mean */
};
void aw_running_push(struct aw_running *running, double x);
double aw_running_std(const struct aw_running *running); /* n - 1; 0 below two numbers */

#endif
