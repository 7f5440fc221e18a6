/*
 * bounds.h - how far a workload may be scaled, and the log scale between the two ends.
 *
 * Sizes are compared by their ratio: from 100m to 200m is as far as from 2 cores to 4. So every
 * amount is carried on a log scale, 0 at its lower bound and 1 at its upper one.
 *
 * Memory:  plain structs.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_TASK_BOUNDS_H
#define AW_TASK_BOUNDS_H

#include <aware/cluster.h>

/* All but replicas: of each replica. 0 and 0: a resource that is not common is not here. */
struct aw_bounds {
    AW_AMOUNTS(min, _min);
    AW_AMOUNTS(max, _max);
};

/* Rows of a conf table (base/conf.h) for a struct that has them as `bounds`. */
#define AW_BOUNDS_FIELDS AW_RESOURCE_MAP(AW__BOUNDS_FIELDS)
#define AW__BOUNDS_FIELDS(id, member, name, unit, most, common, restarts, use, words, ...) \
    AW_CONF_NUMBER(bounds.member##_min, "0", 0, AW_AMOUNT_MAX(unit), "fewest " words),     \
        AW_CONF_NUMBER(bounds.member##_max, "0", 0, AW_AMOUNT_MAX(unit), "most " words),
#define AW_AMOUNT_MAX(unit) (AW_AMOUNT_##unit == AW_AMOUNT_COUNT ? UINT32_MAX : 0x1p62)

/* AW_ERR_CONFIG: a lower bound above its upper one, or not above 0. */
AW_NODISCARD enum aw_err aw_bounds_check(const struct aw_bounds *bounds, struct aw_diag *diag);
/* Moves all amounts into the bounds, whatever `set` names. */
void aw_bounds_clip(const struct aw_bounds *bounds, struct aw_plan *plan);

/* One amount on its log scale, with what would otherwise be computed again and again. */
struct aw_log_range {
    double low, high;
    float log_low, log_span, log_span_inverse; /* inverse 0: the range is a point */
};
struct aw_log_range aw_log_range(double low, double high); /* 0 < low <= high */
struct aw_log_range aw_bounds_range(const struct aw_bounds *bounds, enum aw_resource resource);
/* Into [0, 1]; below the range (also 0 and NaN) is 0, above it 1. A point is 0. */
float aw_log_range_unit(const struct aw_log_range *range, double amount);
/* Back from [0, 1], ends exact. */
double aw_log_range_amount(const struct aw_log_range *range, double unit);

#endif
