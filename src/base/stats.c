/*
 * stats.c - two-pass moments, order statistics, percentile bootstrap, running moments.
 *
 * Sums run in index order and in double, so that the same numbers give the same bits.
 */
#include "base/stats.h"

#include <math.h>
#include <string.h>

static void check_input(const double *x, size_t n)
{
    AW_ASSERT(x && n > 0);
    for (size_t i = 0; i < n; i++)
        AW_ASSERT(isfinite(x[i]));
}

static double sum(const double *x, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += x[i];
    return total;
}

double aw_stats_mean(const double *x, size_t n)
{
    check_input(x, n);
    return sum(x, n) / (double)n;
}

double aw_stats_std(const double *x, size_t n)
{
    double mean = aw_stats_mean(x, n), square = 0;
    for (size_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(square / (double)(n - 1)) : 0;
}

double aw_stats_min(const double *x, size_t n)
{
    check_input(x, n);
    double least = x[0];
    for (size_t i = 1; i < n; i++)
        least = x[i] < least ? x[i] : least;
    return least;
}

double aw_stats_max(const double *x, size_t n)
{
    check_input(x, n);
    double most = x[0];
    for (size_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* A heap sort: in place, and n log n on every input. libc's qsort may allocate. */
static void sift_down(double *x, size_t root, size_t n)
{
    double moving = x[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && x[child] < x[child + 1])
            child++;
        if (x[child] <= moving)
            break;
        x[root] = x[child];
    }
    x[root] = moving;
}

void aw_stats_sort(double *x, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(x, i, n);
    for (size_t end = n; end-- > 1;) {
        double top = x[0];
        x[0] = x[end];
        x[end] = top;
        sift_down(x, 0, end);
    }
}

static void check_sorted(const double *sorted, size_t n)
{
    check_input(sorted, n);
    for (size_t i = 1; i < n; i++)
        AW_ASSERT(sorted[i - 1] <= sorted[i]);
}

static double quantile(const double *sorted, size_t n, double q)
{
    double place = q * (double)(n - 1);
    size_t below = (size_t)place;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

double aw_stats_quantile(const double *sorted, size_t n, double q)
{
    check_sorted(sorted, n);
    AW_ASSERT(q >= 0 && q <= 1);
    return quantile(sorted, n, q);
}

double aw_stats_median(const double *sorted, size_t n)
{
    return aw_stats_quantile(sorted, n, 0.5);
}

static double iqm(const double *sorted, size_t n)
{
    size_t cut = n / 4;
    return sum(sorted + cut, n - 2 * cut) / (double)(n - 2 * cut);
}

struct aw_stats aw_stats_of(const double *x, size_t n, double *scratch)
{
    check_input(x, n);
    memcpy(scratch, x, n * sizeof *x);
    aw_stats_sort(scratch, n);
    return (struct aw_stats){
        .count = n,
        .mean = aw_stats_mean(x, n),
        .std = aw_stats_std(x, n),
        .min = scratch[0],
        .max = scratch[n - 1],
        .p25 = quantile(scratch, n, 0.25),
        .median = quantile(scratch, n, 0.5),
        .p75 = quantile(scratch, n, 0.75),
        .iqm = iqm(scratch, n),
    };
}

struct aw_interval aw_stats_bootstrap_mean(const double *x, size_t n, double level,
                                           uint32_t resample_count, struct aw_rng *rng,
                                           double *scratch)
{
    check_input(x, n);
    AW_ASSERT(n <= UINT32_MAX && level > 0 && level < 1 && resample_count > 0);
    double *drawn = scratch, *found = scratch + n;
    for (uint32_t b = 0; b < resample_count; b++) {
        for (size_t i = 0; i < n; i++)
            drawn[i] = x[aw_rng_below(rng, (uint32_t)n)];
        found[b] = sum(drawn, n) / (double)n;
    }
    aw_stats_sort(found, resample_count);
    double tail = (1 - level) / 2;
    return (struct aw_interval){quantile(found, resample_count, tail),
                                quantile(found, resample_count, 1 - tail)};
}

void aw_running_push(struct aw_running *running, double x)
{
    AW_ASSERT(isfinite(x));
    double delta = x - running->mean;
    running->count++;
    running->mean += delta / (double)running->count;
    running->m2 += delta * (x - running->mean);
}

double aw_running_std(const struct aw_running *running)
{
    return running->count > 1 ? sqrt(running->m2 / (double)(running->count - 1)) : 0;
}
