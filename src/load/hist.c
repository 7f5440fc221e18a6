/* hist.c - a value's leading bits are its bucket. */
#include "load/hist.h"

#include <math.h>
#include <string.h>

/* The bucket of a value within range. From 256 on: the position of its highest bit chooses the
 * power of two, the seven bits behind it the bucket. */
static uint32_t bucket_of(uint64_t us)
{
    if (us < AW_HIST_LINEAR)
        return (uint32_t)us;
    const uint32_t shift = 63 - (uint32_t)__builtin_clzll(us) - 7;
    return AW_HIST_LINEAR + (shift - 1) * AW_HIST_HALF + (uint32_t)(us >> shift) - AW_HIST_HALF;
}

/* The largest value of a bucket. */
static int64_t bucket_last(uint32_t bucket)
{
    if (bucket < AW_HIST_LINEAR)
        return bucket;
    const uint32_t shift = (bucket - AW_HIST_LINEAR) / AW_HIST_HALF + 1;
    const uint64_t lead = AW_HIST_HALF + (bucket - AW_HIST_LINEAR) % AW_HIST_HALF;
    return (int64_t)(((lead + 1) << shift) - 1);
}

void aw_hist_record(struct aw_hist *hist, int64_t us)
{
    us = us < 0 ? 0 : us > AW_HIST_US_MAX ? AW_HIST_US_MAX : us;
    hist->bucket[bucket_of((uint64_t)us)]++;
    hist->min_us = hist->count && hist->min_us < us ? hist->min_us : us;
    hist->max_us = hist->count && hist->max_us > us ? hist->max_us : us;
    hist->sum_us += (double)us;
    hist->count++;
}

void aw_hist_merge(struct aw_hist *hist, const struct aw_hist *other)
{
    if (other->count == 0)
        return;
    for (uint32_t i = 0; i < AW_HIST_BUCKETS; i++)
        hist->bucket[i] += other->bucket[i];
    hist->min_us = hist->count && hist->min_us < other->min_us ? hist->min_us : other->min_us;
    hist->max_us = hist->count && hist->max_us > other->max_us ? hist->max_us : other->max_us;
    hist->sum_us += other->sum_us;
    hist->count += other->count;
}

void aw_hist_reset(struct aw_hist *hist)
{
    memset(hist, 0, sizeof *hist);
}

int64_t aw_hist_quantile(const struct aw_hist *hist, double q)
{
    AW_ASSERT(q >= 0 && q <= 1);
    if (hist->count == 0)
        return 0;
    uint64_t rank = (uint64_t)ceil(q * (double)hist->count), seen = 0;
    rank = rank < 1 ? 1 : rank > hist->count ? hist->count : rank;
    for (uint32_t i = 0; i < AW_HIST_BUCKETS; i++) {
        seen += hist->bucket[i];
        if (seen >= rank) {
            const int64_t last = bucket_last(i);
            return last < hist->max_us ? last : hist->max_us;
        }
    }
    return hist->max_us;
}

uint64_t aw_hist_above(const struct aw_hist *hist, int64_t us)
{
    uint64_t count = 0;
    if (us < 0)
        return hist->count;
    if (us >= AW_HIST_US_MAX)
        return 0;
    for (uint32_t i = bucket_of((uint64_t)us) + 1; i < AW_HIST_BUCKETS; i++)
        count += hist->bucket[i];
    return count;
}

double aw_hist_mean(const struct aw_hist *hist)
{
    return hist->count ? hist->sum_us / (double)hist->count : 0;
}
