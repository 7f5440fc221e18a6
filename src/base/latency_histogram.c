/* latency_histogram.c - a value's leading bits are its bucket. */
#include "base/latency_histogram.h"

#include <math.h>
#include <string.h>

#define LINEAR  AW_LATENCY_HISTOGRAM_LINEAR
#define HALF    AW_LATENCY_HISTOGRAM_HALF
#define BUCKETS AW_LATENCY_HISTOGRAM_BUCKETS
#define US_MAX  AW_LATENCY_HISTOGRAM_US_MAX

/* One thread writes: what others read needs no read-modify-write, and no order. */
#define PUT(to, value)                                 \
    do {                                               \
        __typeof__(to) now = (value);                  \
        __atomic_store(&(to), &now, __ATOMIC_RELAXED); \
    } while (0)
#define GET(ret, from) __atomic_load(&(from), &(ret), __ATOMIC_RELAXED)

/* The bucket of a value within range. From 256 on: the position of its highest bit chooses the
 * power of two, the seven bits behind it the bucket. */
static uint32_t bucket_of(int64_t us)
{
    if (us < LINEAR)
        return (uint32_t)us;
    const uint32_t shift = 63 - (uint32_t)__builtin_clzll((uint64_t)us) - 7;
    return LINEAR + (shift - 1) * HALF + (uint32_t)((uint64_t)us >> shift) - HALF;
}

/* The smallest value of a bucket, or of the one after the last. */
static int64_t bucket_first(uint32_t bucket)
{
    if (bucket < LINEAR)
        return bucket;
    const uint32_t shift = (bucket - LINEAR) / HALF + 1;
    return (int64_t)(HALF + (bucket - LINEAR) % HALF) << shift;
}

void aw_latency_histogram_record(struct aw_latency_histogram *hist, int64_t us)
{
    us = us < 0 ? 0 : us > US_MAX ? US_MAX : us;
    uint64_t *const bucket = &hist->bucket[bucket_of(us)];
    PUT(hist->min_us, hist->count && hist->min_us < us ? hist->min_us : us);
    PUT(hist->max_us, hist->count && hist->max_us > us ? hist->max_us : us);
    PUT(hist->sum_us, hist->sum_us + (double)us);
    PUT(*bucket, *bucket + 1);
    hist->count++; /* the writer's own: a reading counts its buckets */
}

void aw_latency_histogram_merge(struct aw_latency_histogram *hist,
                                const struct aw_latency_histogram *other)
{
    if (other->count == 0)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        hist->bucket[i] += other->bucket[i];
    hist->min_us = hist->count && hist->min_us < other->min_us ? hist->min_us : other->min_us;
    hist->max_us = hist->count && hist->max_us > other->max_us ? hist->max_us : other->max_us;
    hist->sum_us += other->sum_us;
    hist->count += other->count;
}

void aw_latency_histogram_reset(struct aw_latency_histogram *hist)
{
    memset(hist, 0, sizeof *hist);
}

void aw_latency_histogram_read(const struct aw_latency_histogram *hist,
                               struct aw_latency_histogram *ret)
{
    ret->count = 0;
    GET(ret->min_us, hist->min_us);
    GET(ret->max_us, hist->max_us);
    GET(ret->sum_us, hist->sum_us);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        GET(ret->bucket[i], hist->bucket[i]);
        ret->count += ret->bucket[i];
    }
}

void aw_latency_histogram_since(struct aw_latency_histogram *later,
                                const struct aw_latency_histogram *earlier)
{
    later->count -= earlier->count;
    later->sum_us -= earlier->sum_us;
    for (uint32_t i = 0; i < BUCKETS; i++)
        later->bucket[i] -= earlier->bucket[i];
}

/* The bucket in which the value of a rank from 1 to count lies, and its rank there. */
static uint32_t bucket_at(const struct aw_latency_histogram *hist, double rank, double *ret_within)
{
    const uint32_t last = bucket_of(hist->max_us);
    for (uint32_t i = bucket_of(hist->min_us); i < last; i++) {
        if (hist->bucket[i] > 0 && rank <= (double)hist->bucket[i]) {
            *ret_within = rank;
            return i;
        }
        rank -= (double)hist->bucket[i];
    }
    *ret_within = rank;
    return last;
}

int64_t aw_latency_histogram_quantile(const struct aw_latency_histogram *hist, double q)
{
    AW_ASSERT(q >= 0 && q <= 1);
    if (hist->count == 0)
        return 0;
    double within;
    const uint32_t i = bucket_at(hist, fmax(1, ceil(q * (double)hist->count)), &within);
    const int64_t edge = bucket_first(i + 1) - 1;
    return edge < hist->max_us ? edge : hist->max_us;
}

double aw_latency_histogram_estimate(const struct aw_latency_histogram *hist, double q)
{
    AW_ASSERT(q >= 0 && q <= 1);
    if (hist->count == 0)
        return NAN;
    double within;
    const uint32_t i = bucket_at(hist, q * (double)hist->count, &within);
    const double first = (double)bucket_first(i), last = (double)(bucket_first(i + 1) - 1);
    return first + (last - first) * fmin(1, within / fmax(1, (double)hist->bucket[i]));
}

uint64_t aw_latency_histogram_above(const struct aw_latency_histogram *hist, int64_t us)
{
    uint64_t count = 0;
    if (us < 0)
        return hist->count;
    if (us >= US_MAX)
        return 0;
    for (uint32_t i = bucket_of(us) + 1; i < BUCKETS; i++)
        count += hist->bucket[i];
    return count;
}

double aw_latency_histogram_mean(const struct aw_latency_histogram *hist)
{
    return hist->count ? hist->sum_us / (double)hist->count : 0;
}
