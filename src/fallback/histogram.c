/* histogram.c - see histogram.h; the arithmetic keeps upstream's order of operations. */
#include "fallback/histogram.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Midnight of January 1st of year 1, in Unix time: the zero from which Go rounds times. The first
 * reference is there too, far enough back that the first sample moves it. */
#define YEAR_1_US (-62135596800 * (int64_t)1000000)

static enum aw_err check_shape(double max, double first, double epsilon, int64_t half_life_us,
                               struct aw_diag *diag)
{
    if (!(isfinite(max) && max > 0 && isfinite(first) && first > 0))
        return aw_fail(diag, AW_ERR_RANGE,
                       "expected a positive maximum and bucket size, found %g and %g", max, first);
    if (!(isfinite(epsilon) && epsilon > 0))
        return aw_fail(diag, AW_ERR_RANGE, "expected a positive epsilon, found %g", epsilon);
    if (half_life_us < 0)
        return aw_fail(diag, AW_ERR_RANGE, "expected a half-life of 0 or more, found %" PRId64,
                       half_life_us);
    return AW_OK;
}

static enum aw_err check_count(double count, struct aw_diag *diag)
{
    if (!(count >= 2 && count <= AW_HISTOGRAM_BUCKETS_MAX))
        return aw_fail(diag, AW_ERR_RANGE, "expected 2 to %u buckets, found %.0f",
                       AW_HISTOGRAM_BUCKETS_MAX, count);
    return AW_OK;
}

enum aw_err aw_histogram_shape_linear(struct aw_histogram_shape *ret, double max,
                                      double bucket_size, double epsilon, int64_t half_life_us,
                                      struct aw_diag *diag)
{
    enum aw_err err = check_shape(max, bucket_size, epsilon, half_life_us, diag);
    if (err)
        return err;
    double count = ceil(max / bucket_size) + 1;
    err = check_count(count, diag);
    if (err)
        return err;
    *ret = (struct aw_histogram_shape){.epsilon = epsilon,
                                       .half_life_us = half_life_us,
                                       .bucket_count = (uint32_t)count,
                                       .first = bucket_size,
                                       .ratio = 1};
    for (uint32_t i = 0; i <= ret->bucket_count; i++)
        ret->start[i] = bucket_size * (double)i;
    return AW_OK;
}

enum aw_err aw_histogram_shape_exponential(struct aw_histogram_shape *ret, double max, double first,
                                           double ratio, double epsilon, int64_t half_life_us,
                                           struct aw_diag *diag)
{
    enum aw_err err = check_shape(max, first, epsilon, half_life_us, diag);
    if (err)
        return err;
    if (!(isfinite(ratio) && ratio > 1))
        return aw_fail(diag, AW_ERR_RANGE, "expected a ratio above 1, found %g", ratio);
    double count = ceil(log(max * (ratio - 1) / first + 1) / log(ratio)) + 1;
    err = check_count(count, diag);
    if (err)
        return err;
    *ret = (struct aw_histogram_shape){.epsilon = epsilon,
                                       .half_life_us = half_life_us,
                                       .bucket_count = (uint32_t)count,
                                       .exponential = true,
                                       .first = first,
                                       .ratio = ratio};
    for (uint32_t i = 0; i <= ret->bucket_count; i++)
        ret->start[i] = first * (pow(ratio, (double)i) - 1) / (ratio - 1);
    return AW_OK;
}

uint32_t aw_histogram_find(const struct aw_histogram_shape *shape, double value)
{
    uint32_t last = shape->bucket_count - 1;
    double guess;
    if (value < shape->first)
        return 0;
    if (!shape->exponential)
        guess = value / shape->first;
    else
        guess = log(value * (shape->ratio - 1) / shape->first + 1) / log(shape->ratio);
    uint32_t bucket = guess < (double)last ? (uint32_t)guess : last;
    /* A logarithm may miss an edge by its last bit, and which way depends on the C library. Where
     * the buckets start decides. Linear buckets keep the quotient, which upstream has as well. */
    if (shape->exponential) {
        while (bucket < last && value >= shape->start[bucket + 1])
            bucket++;
        while (bucket > 0 && value < shape->start[bucket])
            bucket--;
    }
    return bucket;
}

void aw_histogram_reset(struct aw_histogram *histogram, const struct aw_histogram_shape *shape)
{
    memset(histogram, 0, sizeof *histogram);
    histogram->reference_us = YEAR_1_US;
    histogram->lowest = shape->bucket_count - 1;
}

/* Moves the ends inwards over buckets that have become empty. */
static void tighten(struct aw_histogram *histogram, const struct aw_histogram_shape *shape)
{
    uint32_t last = shape->bucket_count - 1;
    while (histogram->lowest < last && histogram->weight[histogram->lowest] < shape->epsilon)
        histogram->lowest++;
    while (histogram->highest > 0 && histogram->weight[histogram->highest] < shape->epsilon)
        histogram->highest--;
}

static void widen(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                  uint32_t bucket)
{
    if (histogram->weight[bucket] < shape->epsilon)
        return;
    if (bucket < histogram->lowest)
        histogram->lowest = bucket;
    if (bucket > histogram->highest)
        histogram->highest = bucket;
}

/* The nearest multiple of the half-life since year 1, halves going up. */
static int64_t round_time(int64_t time_us, int64_t half_life_us)
{
    int64_t since = time_us - YEAR_1_US;
    int64_t rest = since % half_life_us;
    if (rest < 0)
        rest += half_life_us;
    since -= rest;
    if (rest >= half_life_us - rest)
        since += half_life_us;
    return since + YEAR_1_US;
}

static void move_reference(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                           int64_t time_us)
{
    int64_t reference_us = round_time(time_us, shape->half_life_us);
    double half_lives =
        round((double)(histogram->reference_us - reference_us) / (double)shape->half_life_us);
    /* past the exponents of a double it makes no difference */
    double factor = ldexp(1, half_lives < -5000  ? -5000
                             : half_lives > 1000 ? 1000
                                                 : (int)half_lives);
    for (uint32_t i = 0; i < shape->bucket_count; i++)
        histogram->weight[i] *= factor;
    histogram->total *= factor;
    histogram->reference_us = reference_us;
    tighten(histogram, shape);
}

/* What a weight of 1 at that time is worth; moves the reference when it would grow too large. */
static double worth(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                    int64_t time_us)
{
    if (shape->half_life_us == 0)
        return 1;
    double half_life = (double)shape->half_life_us;
    if ((double)(time_us - histogram->reference_us) > AW_HISTOGRAM_HALF_LIVES_MAX * half_life)
        move_reference(histogram, shape, time_us);
    return exp2((double)(time_us - histogram->reference_us) / half_life);
}

void aw_histogram_add(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                      double value, double weight, int64_t time_us)
{
    uint32_t bucket = aw_histogram_find(shape, value);
    AW_ASSERT(isfinite(weight) && weight >= 0);
    weight *= worth(histogram, shape, time_us);
    histogram->weight[bucket] += weight;
    histogram->total += weight;
    widen(histogram, shape, bucket);
}

static double less(const struct aw_histogram_shape *shape, double from, double weight)
{
    double rest = from - weight;
    return rest < shape->epsilon ? 0 : rest;
}

void aw_histogram_subtract(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                           double value, double weight, int64_t time_us)
{
    uint32_t bucket = aw_histogram_find(shape, value);
    AW_ASSERT(isfinite(weight) && weight >= 0);
    weight *= worth(histogram, shape, time_us);
    histogram->weight[bucket] = less(shape, histogram->weight[bucket], weight);
    histogram->total = less(shape, histogram->total, weight);
    tighten(histogram, shape);
}

bool aw_histogram_empty(const struct aw_histogram *histogram,
                        const struct aw_histogram_shape *shape)
{
    return histogram->weight[histogram->lowest] < shape->epsilon;
}

double aw_histogram_percentile(const struct aw_histogram *histogram,
                               const struct aw_histogram_shape *shape, double p)
{
    if (aw_histogram_empty(histogram, shape))
        return 0;
    double threshold = p * histogram->total, sum = 0;
    uint32_t bucket = histogram->lowest;
    for (; bucket < histogram->highest; bucket++) {
        sum += histogram->weight[bucket];
        if (sum >= threshold)
            break;
    }
    return bucket < shape->bucket_count - 1 ? shape->start[bucket + 1] : shape->start[bucket];
}

void aw_histogram_save(const struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                       struct aw_histogram_checkpoint *ret)
{
    double heaviest = 0;
    *ret = (struct aw_histogram_checkpoint){.total = histogram->total,
                                            .reference_us = histogram->reference_us};
    if (aw_histogram_empty(histogram, shape))
        return;
    for (uint32_t i = histogram->lowest; i <= histogram->highest; i++)
        heaviest = histogram->weight[i] > heaviest ? histogram->weight[i] : heaviest;
    double scale = AW_HISTOGRAM_CHECKPOINT_WEIGHT_MAX / heaviest;
    for (uint32_t i = histogram->lowest; i <= histogram->highest; i++) {
        uint32_t weight = (uint32_t)round(histogram->weight[i] * scale);
        if (weight == 0)
            continue;
        ret->items[ret->count].bucket = i;
        ret->items[ret->count].weight = weight;
        ret->count++;
    }
}

enum aw_err aw_histogram_load(struct aw_histogram *ret, const struct aw_histogram_shape *shape,
                              const struct aw_histogram_checkpoint *checkpoint,
                              struct aw_diag *diag)
{
    uint64_t sum = 0;
    if (!(isfinite(checkpoint->total) && checkpoint->total >= 0))
        return aw_fail(diag, AW_ERR_FORMAT, "expected a total weight of 0 or more, found %g",
                       checkpoint->total);
    if (checkpoint->reference_us < YEAR_1_US || checkpoint->reference_us > AW_HISTOGRAM_TIME_US_MAX)
        return aw_fail(diag, AW_ERR_FORMAT, "the reference time %" PRId64 " us is out of range",
                       checkpoint->reference_us);
    if (checkpoint->count > shape->bucket_count)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "expected at most %" PRIu32 " bucket weights, found %" PRIu32,
                       shape->bucket_count, checkpoint->count);
    for (uint32_t i = 0; i < checkpoint->count; i++) {
        uint32_t bucket = checkpoint->items[i].bucket, weight = checkpoint->items[i].weight;
        if (bucket >= shape->bucket_count)
            return aw_fail(diag, AW_ERR_FORMAT,
                           "expected buckets below %" PRIu32 ", found %" PRIu32,
                           shape->bucket_count, bucket);
        if (i > 0 && bucket <= checkpoint->items[i - 1].bucket)
            return aw_fail(diag, AW_ERR_FORMAT,
                           "expected buckets in order, found %" PRIu32 " after %" PRIu32, bucket,
                           checkpoint->items[i - 1].bucket);
        if (weight == 0 || weight > AW_HISTOGRAM_CHECKPOINT_WEIGHT_MAX)
            return aw_fail(diag, AW_ERR_FORMAT,
                           "expected bucket weights from 1 to %u, found %" PRIu32,
                           AW_HISTOGRAM_CHECKPOINT_WEIGHT_MAX, weight);
        sum += weight;
    }
    aw_histogram_reset(ret, shape);
    ret->reference_us = checkpoint->reference_us;
    if (sum == 0)
        return AW_OK;
    double scale = checkpoint->total / (double)sum;
    for (uint32_t i = 0; i < checkpoint->count; i++) {
        uint32_t bucket = checkpoint->items[i].bucket;
        ret->weight[bucket] = (double)checkpoint->items[i].weight * scale;
        /* by weight, not by presence: what is below epsilon must not become an end */
        widen(ret, shape, bucket);
    }
    ret->total = checkpoint->total;
    return AW_OK;
}
