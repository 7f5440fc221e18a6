/*
 * histogram.h - latencies of one step, in buckets that grow by 1 %.
 *
 * Quantiles are interpolated within a bucket, so they are off by less than half a percent. Fixed
 * size, from 10 microseconds to 3 hours; what lies outside counts at the edge.
 */
#ifndef AW_CLUSTER_SIM_HISTOGRAM_H
#define AW_CLUSTER_SIM_HISTOGRAM_H

#include <stdint.h>

#define AW__HISTOGRAM_BUCKETS 2100u

struct aw__histogram {
    double count, sum_us;
    uint32_t low, high; /* touched buckets: [low, high) */
    double bucket[AW__HISTOGRAM_BUCKETS];
};

void aw__histogram_reset(struct aw__histogram *histogram);
void aw__histogram_add(struct aw__histogram *histogram, double latency_us);
/* NAN when empty. */
double aw__histogram_quantile(const struct aw__histogram *histogram, double q);

#endif
