/* tally.c - logarithmic buckets with linear parts. */
#include "cluster/local/tally.h"

#include <math.h>

#define SUBS (1u << AW__TALLY_SUB_BITS)

/* Below SUBS a bucket is one microsecond; above, an octave has SUBS buckets. */
static uint32_t bucket_of(uint64_t us)
{
    if (us < SUBS)
        return (uint32_t)us;
    const uint32_t octave = 63u - (uint32_t)__builtin_clzll(us) - AW__TALLY_SUB_BITS;
    if (octave >= AW__TALLY_OCTAVES)
        return AW__TALLY_BUCKETS - 1;
    return (octave + 1) * SUBS + (uint32_t)((us >> octave) & (SUBS - 1));
}

static double lowest_us(uint32_t bucket)
{
    if (bucket < SUBS)
        return bucket;
    const uint32_t octave = bucket / SUBS - 1;
    return ldexp(SUBS + bucket % SUBS, (int)octave);
}

/* One writer: no read-modify-write is needed. */
static void bump(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

void aw__tally_add(struct aw__tally *tally, int64_t latency_us)
{
    const uint64_t us = latency_us > 0 ? (uint64_t)latency_us : 0;
    bump(&tally->bucket[bucket_of(us)], 1);
    bump(&tally->sum_us, us);
}

void aw__tally_read(const struct aw__tally *tally, struct aw__tally_reading *ret)
{
    ret->count = 0;
    ret->sum_us = atomic_load_explicit(&tally->sum_us, memory_order_relaxed);
    for (uint32_t i = 0; i < AW__TALLY_BUCKETS; i++) {
        ret->bucket[i] = atomic_load_explicit(&tally->bucket[i], memory_order_relaxed);
        ret->count += ret->bucket[i];
    }
}

void aw__tally_since(struct aw__tally_reading *later, const struct aw__tally_reading *earlier)
{
    later->count -= earlier->count;
    later->sum_us -= earlier->sum_us;
    for (uint32_t i = 0; i < AW__TALLY_BUCKETS; i++)
        later->bucket[i] -= earlier->bucket[i];
}

double aw__tally_quantile(const struct aw__tally_reading *reading, double q)
{
    double left = q * (double)reading->count;
    if (reading->count == 0)
        return NAN;
    for (uint32_t i = 0; i < AW__TALLY_BUCKETS; i++) {
        const double here = (double)reading->bucket[i];
        if (here > 0 && left <= here) {
            const double low = lowest_us(i), high = lowest_us(i + 1);
            return low + (high - low) * left / here;
        }
        left -= here;
    }
    return lowest_us(AW__TALLY_BUCKETS);
}

double aw__tally_mean(const struct aw__tally_reading *reading)
{
    return reading->count ? (double)reading->sum_us / (double)reading->count : NAN;
}
