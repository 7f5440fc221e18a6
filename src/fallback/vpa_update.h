/*
 * vpa_update.h - the updater of the VPA: which pods are worth disturbing. How, and how many at
 * once, is up to the code that carries it out (controller/updater_plan.h on a cluster).
 *
 * Call order: aw_vpa_updater_init, fill in; then aw_vpa_pod_verdict for each pod.
 * Memory:     nothing is allocated; the caller owns all arrays.
 * Threads:    pure functions of their arguments.
 *
 * Source: kubernetes/autoscaler vertical-pod-autoscaler/pkg/updater at 55c37cd5, restated.
 */
#ifndef AW_FALLBACK_VPA_UPDATE_H
#define AW_FALLBACK_VPA_UPDATE_H

#include "fallback/vpa.h"

struct aw_vpa_updater {
    uint32_t replicas_min; /* fewer live pods than this are left alone, by the caller */
    int64_t lifetime_us;   /* a pod within its bounds must be at least so old ... */
    double change_min;     /* ... and this far off, summed over resources */
    int64_t quick_oom_us;  /* killed so soon after its start: do not wait */
};

/* One container of a pod, as it runs. */
struct aw_vpa_pod_container {
    const struct aw_vpa_recommendation *recommendation; /* NULL: none, or its mode is Off */
    bool has_bounds; /* false: only the target of the recommendation counts */
    bool controlled[AW_VPA_RESOURCE_COUNT];
    bool has_request[AW_VPA_RESOURCE_COUNT];
    int64_t request[AW_VPA_RESOURCE_COUNT];
    bool oom_killed;            /* its last termination was OOMKilled */
    int64_t oom_after_start_us; /* and so long after its start */
};

struct aw_vpa_pod {
    const struct aw_vpa_pod_container *containers;
    uint32_t container_count;
    bool started; /* start_us is known */
    int64_t start_us;
};

struct aw_vpa_priority {
    bool outside_range;
    bool scale_up; /* some container wants more */
    double diff;   /* sum over resources of |request - target| / request */
};

enum aw_vpa_verdict {
    AW_VPA_KEEP_YOUNG,   /* within bounds, and too young for anything less */
    AW_VPA_KEEP_CLOSE,   /* within bounds, and too close to the target */
    AW_VPA_KEEP_SAME,    /* killed for memory, but the target is what it has */
    AW_VPA_UPDATE_RANGE, /* outside its bounds */
    AW_VPA_UPDATE_OOM,   /* killed for memory soon after its start */
    AW_VPA_UPDATE_DIFF,  /* old enough and far enough off */
};

/* The defaults of vpa-updater. */
void aw_vpa_updater_init(struct aw_vpa_updater *updater);

struct aw_vpa_priority aw_vpa_pod_priority(const struct aw_vpa_pod *pod);
enum aw_vpa_verdict aw_vpa_pod_verdict(const struct aw_vpa_updater *updater,
                                       const struct aw_vpa_pod *pod, int64_t now_us,
                                       struct aw_vpa_priority *ret_priority);
bool aw_vpa_verdict_updates(enum aw_vpa_verdict verdict);

#endif
