/* histogram.c - geometric buckets. */
#include "cluster/sim/histogram.h"

#include <math.h>
#include <string.h>

#define FIRST_US 10.0
#define LOG_STEP 0.00995033085316809 /* ln 1.01 */

void aw__histogram_reset(struct aw__histogram *histogram)
{
    if (histogram->low < histogram->high)
        memset(histogram->bucket + histogram->low, 0,
               (histogram->high - histogram->low) * sizeof *histogram->bucket);
    histogram->count = histogram->sum_us = 0;
    histogram->low = AW__HISTOGRAM_BUCKETS;
    histogram->high = 0;
}

void aw__histogram_add(struct aw__histogram *histogram, double latency_us)
{
    double place = latency_us > FIRST_US ? log(latency_us / FIRST_US) / LOG_STEP : 0;
    uint32_t i = place < AW__HISTOGRAM_BUCKETS - 1 ? (uint32_t)place : AW__HISTOGRAM_BUCKETS - 1;
    histogram->bucket[i]++;
    histogram->count++;
    histogram->sum_us += latency_us;
    histogram->low = i < histogram->low ? i : histogram->low;
    histogram->high = i + 1 > histogram->high ? i + 1 : histogram->high;
}

double aw__histogram_quantile(const struct aw__histogram *histogram, double q)
{
    if (!(histogram->count > 0))
        return NAN;
    double left = q * histogram->count;
    for (uint32_t i = histogram->low; i < histogram->high; i++) {
        if (left <= histogram->bucket[i] && histogram->bucket[i] > 0)
            return FIRST_US * exp((i + left / histogram->bucket[i]) * LOG_STEP);
        left -= histogram->bucket[i];
    }
    return FIRST_US * exp(histogram->high * LOG_STEP);
}
