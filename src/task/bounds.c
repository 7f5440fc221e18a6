/* bounds.c - checks, clips, and the log scale between two amounts. */
#include "task/bounds.h"

#include <math.h>

#define RANGE_TEXT "%s: the smallest (%lld) must be above 0 and not above the largest (%lld)"

static enum aw_err check(const char *what, int64_t low, int64_t high, struct aw_diag *diag)
{
    if (low > 0 && low <= high)
        return AW_OK;
    return aw_fail(diag, AW_ERR_CONFIG, RANGE_TEXT, what, (long long)low, (long long)high);
}

enum aw_err aw_bounds_check(const struct aw_bounds *bounds, struct aw_diag *diag)
{
    enum aw_err err = check("replicas", bounds->replicas_min, bounds->replicas_max, diag);
    if (!err)
        err = check("CPU of a replica in millicores", bounds->cpu_millicores_min,
                    bounds->cpu_millicores_max, diag);
    if (!err)
        err = check("memory of a replica in bytes", bounds->memory_bytes_min,
                    bounds->memory_bytes_max, diag);
    return err;
}

static int64_t clip(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

void aw_bounds_clip(const struct aw_bounds *bounds, struct aw_plan *plan)
{
    plan->replicas = (uint32_t)clip(plan->replicas, bounds->replicas_min, bounds->replicas_max);
    plan->cpu_millicores =
        clip(plan->cpu_millicores, bounds->cpu_millicores_min, bounds->cpu_millicores_max);
    plan->memory_bytes =
        clip(plan->memory_bytes, bounds->memory_bytes_min, bounds->memory_bytes_max);
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
