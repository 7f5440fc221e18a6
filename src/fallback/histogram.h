/*
 * histogram.h - decaying histograms of usage: what the VPA knows about the past.
 *
 * A sample's weight doubles with every half-life of its age towards the present, which is the same
 * as letting old ones fade, without ever touching them. Buckets are of equal size, or grow by a
 * ratio. A percentile is the end of the bucket that holds it: no interpolation.
 *
 * Call order: aw_histogram_shape_linear or _exponential once; aw_histogram_reset; then any.
 * Memory:     fixed size, no pointers; may be copied and saved as bytes. The shape is shared by
 *             all histograms of its kind, and is passed to every call.
 * Threads:    pure functions of their arguments; one histogram has one owner.
 *
 * The trap: a bucket lighter than the shape's epsilon counts as empty, so subtracting what was
 * added leaves nothing behind, and so does subtracting more.
 *
 * Source: kubernetes/autoscaler vertical-pod-autoscaler/pkg/recommender/util at 55c37cd5, restated.
 */
#ifndef AW_FALLBACK_HISTOGRAM_H
#define AW_FALLBACK_HISTOGRAM_H

#include <aware/err.h>

#define AW_HISTOGRAM_BUCKETS_MAX 192u
/* Beyond so many half-lives after the reference, weights are rescaled and the reference moves. */
#define AW_HISTOGRAM_HALF_LIVES_MAX 100
/* Times lie between year 1 and this, some 36000 years from 1970. */
#define AW_HISTOGRAM_TIME_US_MAX ((int64_t)1 << 60)
/* The heaviest bucket of a checkpoint weighs this much, and the other buckets in proportion. */
#define AW_HISTOGRAM_CHECKPOINT_WEIGHT_MAX 10000u

struct aw_histogram_shape {
    double epsilon;       /* positive */
    int64_t half_life_us; /* 0: nothing decays */
    uint32_t bucket_count;
    bool exponential;
    double first;                               /* size of the first bucket; linear: of all */
    double ratio;                               /* of a bucket's size to the one before */
    double start[AW_HISTOGRAM_BUCKETS_MAX + 1]; /* where each begins; start[0] is 0 */
};

struct aw_histogram {
    double weight[AW_HISTOGRAM_BUCKETS_MAX];
    double total;
    int64_t reference_us;     /* a weight of 1 at this time is stored as 1 */
    uint32_t lowest, highest; /* buckets that are not empty lie between them, both included */
};

/* What survives a restart: relative weights in 1/10000 of the heaviest bucket. */
struct aw_histogram_checkpoint {
    double total;
    int64_t reference_us;
    uint32_t count;
    struct {
        uint32_t bucket;
        uint32_t weight;
    } items[AW_HISTOGRAM_BUCKETS_MAX]; /* by bucket */
};

/* AW_ERR_RANGE: sizes that are not positive and finite, a ratio of 1 or less, a negative half-life,
 * or more than AW_HISTOGRAM_BUCKETS_MAX buckets. `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_histogram_shape_linear(struct aw_histogram_shape *ret, double max,
                                                   double bucket_size, double epsilon,
                                                   int64_t half_life_us, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_histogram_shape_exponential(struct aw_histogram_shape *ret, double max,
                                                        double first, double ratio, double epsilon,
                                                        int64_t half_life_us, struct aw_diag *diag);
/* Values below 0 are in the first bucket, those beyond the end (and NaN) in the last. */
uint32_t aw_histogram_find(const struct aw_histogram_shape *shape, double value);

void aw_histogram_reset(struct aw_histogram *histogram, const struct aw_histogram_shape *shape);
/* `weight` is finite and not negative. */
void aw_histogram_add(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                      double value, double weight, int64_t time_us);
void aw_histogram_subtract(struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                           double value, double weight, int64_t time_us);
bool aw_histogram_empty(const struct aw_histogram *histogram,
                        const struct aw_histogram_shape *shape);
/* The end of the bucket that holds fraction `p` of the weight; the start of the last. 0: empty. */
double aw_histogram_percentile(const struct aw_histogram *histogram,
                               const struct aw_histogram_shape *shape, double p);

void aw_histogram_save(const struct aw_histogram *histogram, const struct aw_histogram_shape *shape,
                       struct aw_histogram_checkpoint *ret);
/* AW_ERR_FORMAT: a bucket that the shape lacks, or one twice; a weight of 0 or above the maximum; a
 * total that is negative or not finite; a reference time out of range. On failure `ret` is
 * untouched. */
AW_NODISCARD enum aw_err aw_histogram_load(struct aw_histogram *ret,
                                           const struct aw_histogram_shape *shape,
                                           const struct aw_histogram_checkpoint *checkpoint,
                                           struct aw_diag *diag);

#endif
