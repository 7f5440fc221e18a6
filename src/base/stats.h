/*
 * stats.h - what is said about a set of numbers: moments, quantiles, confidence intervals.
 *
 * Every input must be finite: a NaN has no rank and would poison a mean silently, so it is a bug of
 * the caller (AW_ASSERT), who has a finite check at each wall. So is an empty set, unless said.
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
/* Interquartile mean: the mean without the lowest and the highest quarter, floor(n / 4) numbers at
 * each end (Agarwal et al. 2021, who use a 25 % trimmed mean). Bad runs do not rule it as they rule
 * a mean, and it needs fewer runs than a median. */
double aw_stats_iqm(const double *sorted, size_t n);

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
struct aw_interval aw_stats_bootstrap_iqm(const double *x, size_t n, double level,
                                          uint32_t resample_count, struct aw_rng *rng,
                                          double *scratch);

/* Mean and variance of a stream, one number at a time (Welford 1962). Zeroed is empty. */
struct aw_running {
    uint64_t count;
    double mean;
    double m2; /* sum of squared distances from the mean */
};
void aw_running_push(struct aw_running *running, double x);
/* As if `other`'s numbers had been pushed too (Chan et al. 1979). */
void aw_running_merge(struct aw_running *running, const struct aw_running *other);
double aw_running_std(const struct aw_running *running); /* n - 1; 0 below two numbers */

/* The same for vectors, element by element, a batch of rows at a time: what an observation
 * normaliser keeps. The arrays are the caller's, `dim` doubles each, zeroed at first; they and the
 * count are all of the state, so saving them is an exact resume. */
struct aw_running_rows {
    uint32_t dim;
    uint64_t count; /* rows seen */
    double *mean;   /* [dim] */
    double *m2;     /* [dim], sum of squared distances from the mean */
};
/* Takes in `rows` rows of `dim` floats. */
void aw_running_rows_push(struct aw_running_rows *running, const float *x, size_t rows);
void aw_running_rows_merge(struct aw_running_rows *running, const struct aw_running_rows *other);
/* Variance of element `i` as a normaliser wants it: divided by n; 1 before the first row. */
double aw_running_rows_variance(const struct aw_running_rows *running, uint32_t i);

#endif
