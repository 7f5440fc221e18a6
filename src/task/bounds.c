/* bounds.c - checks, clips, and the log scale between two amounts. */
#include "task/bounds.h"

#include <math.h>

#define RANGE_TEXT "%s: the smallest (%lld) must be above 0 and not above the largest (%lld)"

enum aw_err aw_bounds_check(const struct aw_bounds *bounds, struct aw_diag *diag)
{
    for (uint32_t r = 0; r < AW_RESOURCES; r++) {
        const int64_t low = bounds->min[r], high = bounds->max[r];
        const bool none = low == 0 && high == 0 && !(AW_PLAN_COMMON & AW_PLAN_BIT(r));
        if (!none && (low <= 0 || low > high))
            return aw_fail(diag, AW_ERR_CONFIG, RANGE_TEXT, aw_resource_table[r].words,
                           (long long)low, (long long)high);
    }
    return AW_OK;
}

void aw_bounds_clip(const struct aw_bounds *bounds, struct aw_plan *plan)
{
    for (uint32_t r = 0; r < AW_RESOURCES; r++) {
        const int64_t x = plan->amount[r], low = bounds->min[r], high = bounds->max[r];
        plan->amount[r] = x < low ? low : x > high && high > 0 ? high : x;
    }
}

struct aw_log_range aw_log_range(double low, double high)
{
    AW_ASSERT(low > 0 && low <= high);
    float span = (float)log(high / low);
    return (struct aw_log_range){.low = low,
                                 .high = high,
                                 .log_low = (float)log(low),
                                 .log_span = span,
                                 .log_span_inverse = span > 0 ? 1 / span : 0};
}

struct aw_log_range aw_bounds_range(const struct aw_bounds *bounds, enum aw_resource resource)
{
    return aw_log_range((double)bounds->min[resource], (double)bounds->max[resource]);
}

float aw_log_range_unit(const struct aw_log_range *range, double amount)
{
    if (!(amount > range->low))
        return 0;
    if (amount >= range->high)
        return 1;
    float unit = (logf((float)amount) - range->log_low) * range->log_span_inverse;
    return unit < 0 ? 0 : unit > 1 ? 1 : unit;
}

double aw_log_range_amount(const struct aw_log_range *range, double unit)
{
    if (!(unit > 0))
        return range->low;
    return unit >= 1 ? range->high : range->low * (double)expf((float)unit * range->log_span);
}
