/* vpa_update.c - who, how, and how many at once. */
#include "fallback/vpa_update.h"

#include <math.h>

#define MINUTE_US (60 * (int64_t)1000000)
#define HOUR_US   (60 * MINUTE_US)

void aw_vpa_updater_init(struct aw_vpa_updater *updater)
{
    *updater = (struct aw_vpa_updater){
        .mode = AW_VPA_RECREATE,
        .replicas_min = 2,              /* --min-replicas */
        .eviction_tolerance = 0.5,      /* --eviction-tolerance */
        .lifetime_us = 12 * HOUR_US,    /* --pod-lifetime-update-threshold */
        .change_min = 0.1,              /* --pod-update-threshold */
        .quick_oom_us = 10 * MINUTE_US, /* --evict-after-oom-threshold */
        .deferred_us = 5 * MINUTE_US,   /* not a flag upstream */
        .in_progress_us = 1 * HOUR_US,  /* likewise */
    };
}

enum aw_err aw_vpa_updater_check(const struct aw_vpa_updater *updater, struct aw_diag *diag)
{
    if (!(updater->eviction_tolerance >= 0 && updater->eviction_tolerance <= 1))
        return aw_fail(diag, AW_ERR_CONFIG, "expected an eviction tolerance of 0 to 1, found %g",
                       updater->eviction_tolerance);
    if (!(updater->change_min >= 0 && isfinite(updater->change_min)))
        return aw_fail(diag, AW_ERR_CONFIG, "expected a smallest change of 0 or more, found %g",
                       updater->change_min);
    if (updater->lifetime_us < 0 || updater->quick_oom_us < 0 || updater->deferred_us < 0 ||
        updater->in_progress_us < 0 || updater->lifetime_us > AW_HISTOGRAM_TIME_US_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected times of 0 or more");
    if (updater->requirement_count > AW_VPA_REQUIREMENTS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected at most %u requirements, found %u",
                       AW_VPA_REQUIREMENTS_MAX, updater->requirement_count);
    return AW_OK;
}

struct aw_vpa_priority aw_vpa_pod_priority(const struct aw_vpa_pod *pod)
{
    struct aw_vpa_priority priority = {0};
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        double requests = 0, targets = 0;
        bool any = false;
        for (uint32_t i = 0; i < pod->container_count; i++) {
            const struct aw_vpa_pod_container *container = &pod->containers[i];
            const struct aw_vpa_recommendation *wanted = container->recommendation;
            if (!wanted || !container->controlled[r])
                continue;
            any = true;
            targets += (double)wanted->target[r];
            if (!container->has_request[r]) {
                priority.scale_up = true;
                priority.outside_range = true;
                continue;
            }
            requests += (double)container->request[r];
            priority.scale_up |= wanted->target[r] > container->request[r];
            priority.outside_range |=
                container->has_bounds && (container->request[r] < wanted->lower[r] ||
                                          container->request[r] > wanted->upper[r]);
        }
        if (!any)
            continue;
        /* Upstream compares thousandths of either unit, and takes no request for 1 of them. */
        double milli = r == AW_VPA_CPU ? 1 : 1000;
        double have = requests * milli < 1 ? 1 : requests * milli;
        priority.diff += fabs(have - targets * milli) / have;
    }
    return priority;
}

static bool requirement_holds(const struct aw_vpa_requirement *requirement,
                              const struct aw_vpa_pod_container *container)
{
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        if (!requirement->resource[r] || !container->controlled[r])
            continue;
        int64_t target = container->recommendation->target[r];
        int64_t request = container->has_request[r] ? container->request[r] : 0;
        if (requirement->change == AW_VPA_TARGET_HIGHER ? target > request : target < request)
            return true;
    }
    return false;
}

/* One container for which all requirements hold is enough. */
static bool requirements_hold(const struct aw_vpa_updater *updater, const struct aw_vpa_pod *pod)
{
    for (uint32_t i = 0; i < pod->container_count; i++) {
        bool all = pod->containers[i].recommendation != NULL;
        for (uint32_t k = 0; k < updater->requirement_count && all; k++)
            all = requirement_holds(&updater->requirements[k], &pod->containers[i]);
        if (all)
            return true;
    }
    return updater->requirement_count == 0;
}

enum aw_vpa_verdict aw_vpa_pod_verdict(const struct aw_vpa_updater *updater,
                                       const struct aw_vpa_pod *pod, int64_t now_us,
                                       struct aw_vpa_priority *ret_priority)
{
    struct aw_vpa_priority priority = aw_vpa_pod_priority(pod);
    bool quick_oom = false;
    for (uint32_t i = 0; i < pod->container_count; i++) {
        const struct aw_vpa_pod_container *container = &pod->containers[i];
        quick_oom |= container->recommendation && container->oom_killed &&
                     container->oom_after_start_us < updater->quick_oom_us;
    }
    *ret_priority = priority;
    if (!priority.outside_range && !quick_oom) {
        if (!pod->started || now_us < pod->start_us + updater->lifetime_us)
            return AW_VPA_KEEP_YOUNG;
        if (priority.diff < updater->change_min)
            return AW_VPA_KEEP_CLOSE;
    }
    if (quick_oom && priority.diff == 0)
        return AW_VPA_KEEP_SAME;
    if (!requirements_hold(updater, pod))
        return AW_VPA_KEEP_REQUIRED;
    return priority.outside_range ? AW_VPA_UPDATE_RANGE
           : quick_oom            ? AW_VPA_UPDATE_OOM
                                  : AW_VPA_UPDATE_DIFF;
}

bool aw_vpa_verdict_updates(enum aw_vpa_verdict verdict)
{
    return verdict == AW_VPA_UPDATE_RANGE || verdict == AW_VPA_UPDATE_OOM ||
           verdict == AW_VPA_UPDATE_DIFF;
}

const char *aw_vpa_verdict_text(enum aw_vpa_verdict verdict)
{
    switch (verdict) {
    case AW_VPA_KEEP_YOUNG:
        return "within its bounds and not old enough for a smaller correction";
    case AW_VPA_KEEP_CLOSE:
        return "within its bounds and close to the target";
    case AW_VPA_KEEP_SAME:
        return "killed for memory, but the target is what it has";
    case AW_VPA_KEEP_REQUIRED:
        return "an eviction requirement does not hold";
    case AW_VPA_UPDATE_RANGE:
        return "a request is outside its bounds";
    case AW_VPA_UPDATE_OOM:
        return "killed for memory soon after its start";
    case AW_VPA_UPDATE_DIFF:
        break;
    }
    return "old enough and far enough from the target";
}

const char *aw_vpa_action_name(enum aw_vpa_action action)
{
    static const char *const names[] = {
        [AW_VPA_NOTHING] = "nothing",       [AW_VPA_EVICT] = "evict",
        [AW_VPA_RESIZE] = "resize",         [AW_VPA_WAIT] = "wait",
        [AW_VPA_INFEASIBLE] = "infeasible",
    };
    AW_ASSERT((unsigned)action < sizeof names / sizeof *names);
    return names[action];
}

bool aw_vpa_group_disruptable(const struct aw_vpa_updater *updater,
                              const struct aw_vpa_group *group)
{
    uint32_t tolerance = (uint32_t)((double)group->configured * updater->eviction_tolerance);
    int64_t disturbed = (int64_t)group->evicted + group->resized;
    int64_t alive = (int64_t)group->running - disturbed;
    if (alive > (int64_t)group->configured - tolerance)
        return true;
    /* A tolerance that comes to nothing still lets a complete group change one by one. */
    return tolerance == 0 && group->running == group->configured && disturbed == 0;
}

static enum aw_vpa_action evict_if_allowed(const struct aw_vpa_updater *updater,
                                           const struct aw_vpa_group *group,
                                           const struct aw_vpa_pod *pod)
{
    return pod->pending || aw_vpa_group_disruptable(updater, group) ? AW_VPA_EVICT : AW_VPA_NOTHING;
}

/* A resize of before is not finished. Only IN_PLACE_OR_RECREATE loses patience. */
static enum aw_vpa_action while_resizing(const struct aw_vpa_updater *updater,
                                         const struct aw_vpa_group *group,
                                         const struct aw_vpa_pod *pod, int64_t now_us)
{
    int64_t age_us = now_us - pod->resize_since_us;
    bool failed = pod->resize == AW_VPA_RESIZE_INFEASIBLE || pod->resize == AW_VPA_RESIZE_ERROR;
    if (updater->mode == AW_VPA_IN_PLACE)
        return failed ? AW_VPA_INFEASIBLE : AW_VPA_WAIT;
    failed |= pod->resize == AW_VPA_RESIZE_DEFERRED && age_us > updater->deferred_us;
    failed |= pod->resize == AW_VPA_RESIZE_IN_PROGRESS && age_us > updater->in_progress_us;
    return failed && aw_vpa_group_disruptable(updater, group) ? AW_VPA_EVICT : AW_VPA_WAIT;
}

enum aw_vpa_action aw_vpa_pod_action(const struct aw_vpa_updater *updater,
                                     const struct aw_vpa_group *group, const struct aw_vpa_pod *pod,
                                     int64_t now_us)
{
    switch (updater->mode) {
    case AW_VPA_OFF:
    case AW_VPA_INITIAL:
        return AW_VPA_NOTHING;
    case AW_VPA_RECREATE:
        return evict_if_allowed(updater, group, pod);
    case AW_VPA_IN_PLACE_OR_RECREATE:
    case AW_VPA_IN_PLACE:
        break;
    }
    if (pod->pending)
        return AW_VPA_WAIT;
    if (updater->mode == AW_VPA_IN_PLACE && pod->infeasible_before && !pod->lower_than_infeasible)
        return AW_VPA_NOTHING;
    if (pod->resize != AW_VPA_RESIZE_NONE)
        return while_resizing(updater, group, pod, now_us);
    if (updater->skip_disruption_budget && !pod->restarts_on_resize)
        return AW_VPA_RESIZE;
    return aw_vpa_group_disruptable(updater, group) ? AW_VPA_RESIZE : AW_VPA_WAIT;
}

/* Whether a comes after b. */
static bool after(const struct aw_vpa_step *a, const struct aw_vpa_step *b)
{
    if (a->priority.scale_up != b->priority.scale_up)
        return b->priority.scale_up;
    if (a->priority.diff < b->priority.diff || a->priority.diff > b->priority.diff)
        return a->priority.diff < b->priority.diff;
    return a->pod > b->pod;
}

/* Heapsort: in place and the same for everyone; qsort may allocate. */
static void sift_down(struct aw_vpa_step *steps, uint32_t root, uint32_t count)
{
    while (2 * root + 1 < count) {
        uint32_t child = 2 * root + 1;
        if (child + 1 < count && after(&steps[child + 1], &steps[child]))
            child++;
        if (!after(&steps[child], &steps[root]))
            return;
        struct aw_vpa_step swap = steps[root];
        steps[root] = steps[child];
        steps[child] = swap;
        root = child;
    }
}

static void sort(struct aw_vpa_step *steps, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(steps, i, count);
    for (uint32_t end = count; end-- > 1;) {
        struct aw_vpa_step swap = steps[0];
        steps[0] = steps[end];
        steps[end] = swap;
        sift_down(steps, 0, end);
    }
}

uint32_t aw_vpa_update_plan(const struct aw_vpa_updater *updater, struct aw_vpa_group *group,
                            const struct aw_vpa_pod *pods, uint32_t pod_count, int64_t now_us,
                            struct aw_vpa_step *steps)
{
    uint32_t count = 0;
    AW_ASSERT(pod_count <= AW_VPA_PODS_MAX);
    if (updater->mode == AW_VPA_OFF || updater->mode == AW_VPA_INITIAL ||
        pod_count < updater->replicas_min)
        return 0;
    for (uint32_t i = 0; i < pod_count; i++) {
        struct aw_vpa_priority priority;
        enum aw_vpa_verdict verdict = aw_vpa_pod_verdict(updater, &pods[i], now_us, &priority);
        if (aw_vpa_verdict_updates(verdict))
            steps[count++] =
                (struct aw_vpa_step){.pod = i, .verdict = verdict, .priority = priority};
    }
    sort(steps, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_vpa_pod *pod = &pods[steps[i].pod];
        steps[i].action = aw_vpa_pod_action(updater, group, pod, now_us);
        group->evicted += steps[i].action == AW_VPA_EVICT && !pod->pending;
        group->resized += steps[i].action == AW_VPA_RESIZE;
    }
    return count;
}
