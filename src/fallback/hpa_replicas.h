/*
 * hpa_replicas.h - how many replicas one metric asks for: the replica calculator of the HPA.
 *
 * Source: kubernetes pkg/controller/podautoscaler/replica_calculator.go at e81f39c0, restated.
 *
 * Memory and threads: as hpa.h.
 */
#ifndef AW_FALLBACK_HPA_REPLICAS_H
#define AW_FALLBACK_HPA_REPLICAS_H

#include "fallback/hpa.h"

/* Both ends are inclusive: [1 - down, 1 + up] means "leave it". */
struct aw__hpa_tolerance {
    double down, up;
};

enum aw__hpa_group {
    AW__HPA_READY,
    AW__HPA_UNREADY,
    AW__HPA_MISSING,
    AW__HPA_IGNORED,
};

/* Where a pod counts for one metric. `is_cpu`: the rules for pods that are still starting apply. */
enum aw__hpa_group aw__hpa_group_of(const struct aw_hpa_controller *controller,
                                    const struct aw_hpa_pod *pod,
                                    const struct aw_hpa_sample *sample, bool is_cpu,
                                    int64_t now_us);

/* The proposal of metric `index` of the spec. */
struct aw_hpa_proposal aw__hpa_propose(const struct aw_hpa_controller *controller,
                                       const struct aw_hpa_spec *spec, uint32_t index,
                                       const struct aw_hpa_snapshot *snapshot);

/* ceil(x) as int32: NaN is 0, what is beyond the range is its end. */
int32_t aw__hpa_ceil(double x);

#endif
