/* vpa_update.c - which pods are worth a disruption. */
#include "fallback/vpa_update.h"

#include <math.h>

#define MINUTE_US (60 * (int64_t)1000000)
#define HOUR_US   (60 * MINUTE_US)

void aw_vpa_updater_init(struct aw_vpa_updater *updater)
{
    *updater = (struct aw_vpa_updater){
        .replicas_min = 2,              /* --min-replicas */
        .lifetime_us = 12 * HOUR_US,    /* --pod-lifetime-update-threshold */
        .change_min = 0.1,              /* --pod-update-threshold */
        .quick_oom_us = 10 * MINUTE_US, /* --evict-after-oom-threshold */
    };
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
    return priority.outside_range ? AW_VPA_UPDATE_RANGE
           : quick_oom            ? AW_VPA_UPDATE_OOM
                                  : AW_VPA_UPDATE_DIFF;
}

bool aw_vpa_verdict_updates(enum aw_vpa_verdict verdict)
{
    return verdict == AW_VPA_UPDATE_RANGE || verdict == AW_VPA_UPDATE_OOM ||
           verdict == AW_VPA_UPDATE_DIFF;
}
