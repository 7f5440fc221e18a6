/*
 * vpa_update.h - the updater of the VPA: which pods are worth disturbing, and how, and how many.
 *
 * Call order: aw_vpa_updater_init, fill in, check; then aw_vpa_update_plan once per loop and group.
 *             The parts it is made of can be called alone. The caller does what the plan says.
 * Memory:     nothing is allocated; the caller owns all arrays.
 * Threads:    pure functions of their arguments.
 *
 * The trap: a plan counts against its own disruption budget as it goes. Carry out the actions in
 * the order given, or not at all.
 *
 * Source: kubernetes/autoscaler vertical-pod-autoscaler/pkg/updater at 55c37cd5, restated.
 */
#ifndef AW_FALLBACK_VPA_UPDATE_H
#define AW_FALLBACK_VPA_UPDATE_H

#include "fallback/vpa.h"

#define AW_VPA_REQUIREMENTS_MAX 8u     /* eviction requirements of one autoscaler */
#define AW_VPA_PODS_MAX         16384u /* pods of one group */

enum aw_vpa_mode {
    AW_VPA_OFF,     /* recommend, touch nothing */
    AW_VPA_INITIAL, /* only pods that are created anyway */
    AW_VPA_RECREATE,
    AW_VPA_IN_PLACE_OR_RECREATE,
    AW_VPA_IN_PLACE, /* never evicts */
};

enum aw_vpa_change {
    AW_VPA_TARGET_HIGHER, /* than the request */
    AW_VPA_TARGET_LOWER,
};

/* Holds when any of its resources changes in that direction. */
struct aw_vpa_requirement {
    bool resource[AW_VPA_RESOURCE_COUNT];
    enum aw_vpa_change change;
};

struct aw_vpa_updater {
    enum aw_vpa_mode mode;
    uint32_t replicas_min;       /* fewer live pods than this are left alone */
    double eviction_tolerance;   /* fraction of the group that may be away at once */
    int64_t lifetime_us;         /* a pod within its bounds must be at least so old ... */
    double change_min;           /* ... and this far off, summed over resources */
    int64_t quick_oom_us;        /* killed so soon after its start: do not wait */
    int64_t deferred_us;         /* a resize that the node puts off so long becomes an eviction */
    int64_t in_progress_us;      /* and one that is under way so long */
    bool skip_disruption_budget; /* for resizes that restart nothing */
    uint32_t requirement_count;  /* all must hold */
    struct aw_vpa_requirement requirements[AW_VPA_REQUIREMENTS_MAX];
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

enum aw_vpa_resize {
    AW_VPA_RESIZE_NONE,
    AW_VPA_RESIZE_DEFERRED,
    AW_VPA_RESIZE_IN_PROGRESS,
    AW_VPA_RESIZE_INFEASIBLE,
    AW_VPA_RESIZE_ERROR,
};

struct aw_vpa_pod {
    const struct aw_vpa_pod_container *containers;
    uint32_t container_count;
    bool pending;
    bool started; /* start_us is known */
    int64_t start_us;
    enum aw_vpa_resize resize;  /* what the kubelet says of the last resize */
    int64_t resize_since_us;    /* when that resize was asked for */
    bool restarts_on_resize;    /* some resizePolicy says RestartContainer */
    bool infeasible_before;     /* IN_PLACE: a target was refused on this node ... */
    bool lower_than_infeasible; /* ... and some resource of the new one is lower */
};

/* Pods under one controller. evicted and resized are of this loop. */
struct aw_vpa_group {
    uint32_t configured; /* replicas asked for */
    uint32_t running;    /* live pods, without pending ones */
    uint32_t evicted;
    uint32_t resized;
};

struct aw_vpa_priority {
    bool outside_range;
    bool scale_up; /* some container wants more */
    double diff;   /* sum over resources of |request - target| / request */
};

enum aw_vpa_verdict {
    AW_VPA_KEEP_YOUNG,    /* within bounds, and too young for anything less */
    AW_VPA_KEEP_CLOSE,    /* within bounds, and too close to the target */
    AW_VPA_KEEP_SAME,     /* killed for memory, but the target is what it has */
    AW_VPA_KEEP_REQUIRED, /* an eviction requirement does not hold */
    AW_VPA_UPDATE_RANGE,  /* outside its bounds */
    AW_VPA_UPDATE_OOM,    /* killed for memory soon after its start */
    AW_VPA_UPDATE_DIFF,   /* old enough and far enough off */
};

enum aw_vpa_action {
    AW_VPA_NOTHING, /* no reason, or not allowed now */
    AW_VPA_EVICT,
    AW_VPA_RESIZE,
    AW_VPA_WAIT,       /* a resize is under way, or the budget is spent */
    AW_VPA_INFEASIBLE, /* remember this target; try again only when one is lower */
};

struct aw_vpa_step {
    uint32_t pod; /* index */
    enum aw_vpa_verdict verdict;
    enum aw_vpa_action action;
    struct aw_vpa_priority priority;
};

/* The defaults of vpa-updater, in mode Recreate. */
void aw_vpa_updater_init(struct aw_vpa_updater *updater);

/* AW_ERR_CONFIG: a tolerance outside 0 to 1, a negative threshold, too many requirements. */
AW_NODISCARD enum aw_err aw_vpa_updater_check(const struct aw_vpa_updater *updater,
                                              struct aw_diag *diag);

struct aw_vpa_priority aw_vpa_pod_priority(const struct aw_vpa_pod *pod);
enum aw_vpa_verdict aw_vpa_pod_verdict(const struct aw_vpa_updater *updater,
                                       const struct aw_vpa_pod *pod, int64_t now_us,
                                       struct aw_vpa_priority *ret_priority);
bool aw_vpa_verdict_updates(enum aw_vpa_verdict verdict);
const char *aw_vpa_verdict_text(enum aw_vpa_verdict verdict);
const char *aw_vpa_action_name(enum aw_vpa_action action); /* "evict", "resize", ... */

/* Whether one more running pod of the group may be disturbed. */
bool aw_vpa_group_disruptable(const struct aw_vpa_updater *updater,
                              const struct aw_vpa_group *group);
/* What may be done with a pod that is worth updating. */
enum aw_vpa_action aw_vpa_pod_action(const struct aw_vpa_updater *updater,
                                     const struct aw_vpa_group *group, const struct aw_vpa_pod *pod,
                                     int64_t now_us);

/* Judges all pods, and puts those worth updating into `steps` (room for pod_count), those that want
 * to grow first, then by diff, then by index; counts what it does in `group`. Returns their number,
 * 0 for groups too small and modes that touch nothing. */
uint32_t aw_vpa_update_plan(const struct aw_vpa_updater *updater, struct aw_vpa_group *group,
                            const struct aw_vpa_pod *pods, uint32_t pod_count, int64_t now_us,
                            struct aw_vpa_step *steps);

#endif
