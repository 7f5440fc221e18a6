/*
 * latency_histogram.h - durations counted in log-linear buckets: small, exact enough, mergeable.
 *
 * Values are whole microseconds. Below 256 each has a bucket of its own; above, each power of two
 * is divided into 128 buckets of equal width, so a bucket is never wider than 1/128 of its values
 * (0.8 %), from a microsecond to 19 hours in 30 KiB. This is the layout that HdrHistogram made
 * known (Tene); Debian 12 has no package of it for C.
 *
 * Call order: zeroed or reset is empty; then everything in any order.
 * Memory:     plain struct.
 * Threads:    one thread records; any other may call read meanwhile, which may miss what is being
 *             recorded. All other calls are for the owner, while no thread records into it.
 *
 * The trap: reset is not for a histogram that another thread reads. For windows, never reset it:
 * read it at both ends, and take since of the two readings.
 */
#ifndef AW_BASE_LATENCY_HISTOGRAM_H
#define AW_BASE_LATENCY_HISTOGRAM_H

#include <aware/err.h>

#define AW_LATENCY_HISTOGRAM_LINEAR 256u /* values with a bucket of their own */
#define AW_LATENCY_HISTOGRAM_HALF   128u /* buckets of each further power of two */
#define AW_LATENCY_HISTOGRAM_BITS   36u  /* of the largest value */
#define AW_LATENCY_HISTOGRAM_BUCKETS \
    (AW_LATENCY_HISTOGRAM_LINEAR + (AW_LATENCY_HISTOGRAM_BITS - 8u) * AW_LATENCY_HISTOGRAM_HALF)
#define AW_LATENCY_HISTOGRAM_US_MAX (((int64_t)1 << AW_LATENCY_HISTOGRAM_BITS) - 1)

struct aw_latency_histogram {
    uint64_t count;
    int64_t min_us, max_us; /* exact; after since: bounds, of all that was ever recorded */
    double sum_us;
    uint64_t bucket[AW_LATENCY_HISTOGRAM_BUCKETS];
};

/* A negative value counts as 0, one beyond AW_LATENCY_HISTOGRAM_US_MAX as that. */
void aw_latency_histogram_record(struct aw_latency_histogram *hist, int64_t us);
/* As if everything in `other` had been recorded here too. */
void aw_latency_histogram_merge(struct aw_latency_histogram *hist,
                                const struct aw_latency_histogram *other);
void aw_latency_histogram_reset(struct aw_latency_histogram *hist);

/* Copies one into which another thread may be recording. */
void aw_latency_histogram_read(const struct aw_latency_histogram *hist,
                               struct aw_latency_histogram *ret);
/* What was recorded between two readings of one histogram, into `later`. */
void aw_latency_histogram_since(struct aw_latency_histogram *later,
                                const struct aw_latency_histogram *earlier);

/* The value that a share `q` in [0, 1] of all values does not exceed: the ceil(q * count)-th
 * smallest. The upper edge of its bucket, but no more than the largest value: a latency is never
 * reported lower than it was. 0 when empty. */
int64_t aw_latency_histogram_quantile(const struct aw_latency_histogram *hist, double q);
/* The same, interpolated within the bucket: no bias either way. NAN when empty. */
double aw_latency_histogram_estimate(const struct aw_latency_histogram *hist, double q);
/* Values above `us`; those that share its bucket count as not above, so at most 0.8 % are amiss. */
uint64_t aw_latency_histogram_above(const struct aw_latency_histogram *hist, int64_t us);
double aw_latency_histogram_mean(const struct aw_latency_histogram *hist); /* 0 when empty */

#endif
