/*
 * hist.h - a histogram of durations that is small, exact enough and mergeable: log-linear.
 *
 * Values are whole microseconds. Below 256 each has a bucket of its own; above, each power of two
 * is divided into 128 buckets of equal width, so a bucket is never wider than 1/128 of its values
 * (0.8 %), from a microsecond to 19 hours in 30 KiB. This is the layout that HdrHistogram made
 * known (Tene); Debian 12 has no package of it for C.
 *
 * Quantiles are the upper edge of the bucket in which they fall, never beyond the largest value
 * that was recorded: a latency is not reported lower than it was.
 *
 * Memory:  plain struct; zeroed is empty.
 * Threads: single owner.
 */
#ifndef AW_LOAD_HIST_H
#define AW_LOAD_HIST_H

#include <aware/err.h>

#define AW_HIST_LINEAR  256u /* values with a bucket of their own */
#define AW_HIST_HALF    128u /* buckets of each further power of two */
#define AW_HIST_BITS    36u  /* of the largest value */
#define AW_HIST_BUCKETS (AW_HIST_LINEAR + (AW_HIST_BITS - 8u) * AW_HIST_HALF)
#define AW_HIST_US_MAX  (((int64_t)1 << AW_HIST_BITS) - 1)

struct aw_hist {
    uint64_t count;
    int64_t min_us, max_us; /* exact, within AW_HIST_US_MAX */
    double sum_us;
    uint64_t bucket[AW_HIST_BUCKETS];
};

/* A negative value counts as 0, one beyond AW_HIST_US_MAX as that. */
void aw_hist_record(struct aw_hist *hist, int64_t us);
/* As if everything in `other` had been recorded here too. */
void aw_hist_merge(struct aw_hist *hist, const struct aw_hist *other);
void aw_hist_reset(struct aw_hist *hist);

/* The value that a share `q` in [0, 1] of all values does not exceed: the ceil(q * count)-th
 * smallest, to within its bucket. 0 when empty. */
int64_t aw_hist_quantile(const struct aw_hist *hist, double q);
/* Values above `us`; those that share its bucket count as not above, so at most 0.8 % are amiss. */
uint64_t aw_hist_above(const struct aw_hist *hist, int64_t us);
double aw_hist_mean(const struct aw_hist *hist); /* exact; 0 when empty */

#endif
