/*
 * policy_kinds.h - inside a policy: its state, and what each kind adds to a plan.
 *
 * A kind proposes; policy.c clips, holds and drops what changes nothing. State has no pointers and
 * is saved as it is. Memory and threads: as policy.h.
 */
#ifndef AW_FALLBACK_POLICY_KINDS_H
#define AW_FALLBACK_POLICY_KINDS_H

#include "fallback/hpa.h"
#include "fallback/policy.h"
#include "fallback/vpa_update.h"

#define AW__POLICY_MIB 1048576.0

/* What the VPA remembers of one pod. */
struct aw__pod_track {
    uint32_t id;
    uint32_t oom_kill_count;
    int64_t started_us;
    int64_t oom_after_start_us; /* of its last kill; AW_NEVER: none yet */
    struct aw_vpa_container container;
};

struct aw__policy_state {
    int64_t hpa_next_us, vpa_next_us, aimd_next_us;
    int32_t hpa_from, hpa_to; /* asked for, not yet seen; both 0: nothing */
    struct aw_hpa_state hpa;
    struct aw_vpa_aggregate vpa;
    uint32_t track_count;
    struct aw__pod_track track[AW_CLUSTER_PODS_MAX]; /* in the order of the last sample */
    struct aw_action_memory anchor;
};

struct aw_policy {
    struct aw_policy_settings settings;
    struct aw_policy_task task;
    const struct aw_alloc *alloc;
    int64_t stale_us;

    struct aw_hpa_controller hpa_controller;
    struct aw_hpa_spec hpa_spec;
    struct aw_vpa_config vpa_config;
    struct aw_vpa_policy vpa_policy;
    struct aw_vpa_updater vpa_updater;
    bool vpa_controls[AW_VPA_RESOURCE_COUNT];

    struct aw_action action;

    /* For the length of a decision. */
    struct aw_reading reading;
    struct aw_hpa_pod hpa_pods[AW_CLUSTER_PODS_MAX];
    struct aw_hpa_sample hpa_samples[AW_CLUSTER_PODS_MAX];
    struct aw_hpa_snapshot hpa_snapshot;
    struct aw_hpa_decision hpa_decision;
    struct aw__pod_track track[AW_CLUSTER_PODS_MAX];

    struct aw__policy_state state;
};

/* Measured, and not too long ago. */
static inline bool aw__policy_fresh(const struct aw_policy *policy, struct aw_figure figure,
                                    int64_t now_us)
{
    return figure.at_us != AW_NEVER && now_us - figure.at_us <= policy->stale_us;
}

/* Each kind: `init` after settings and task are known, `decide` adds to the plan and the reason. */
AW_NODISCARD enum aw_err aw__policy_hpa_init(struct aw_policy *policy, struct aw_diag *diag);
void aw__policy_hpa_decide(struct aw_policy *policy, const struct aw_sample *sample, int64_t now_us,
                           struct aw_plan *plan, struct aw_policy_reason *reason);

AW_NODISCARD enum aw_err aw__policy_vpa_init(struct aw_policy *policy, struct aw_diag *diag);
void aw__policy_vpa_reset(struct aw_policy *policy);
void aw__policy_vpa_decide(struct aw_policy *policy, const struct aw_sample *sample, int64_t now_us,
                           struct aw_plan *plan, struct aw_policy_reason *reason);

AW_NODISCARD enum aw_err aw__policy_aimd_init(const struct aw_policy *policy, struct aw_diag *diag);
void aw__policy_aimd_decide(struct aw_policy *policy, const struct aw_sample *sample,
                            int64_t now_us, struct aw_plan *plan, struct aw_policy_reason *reason);

void aw__policy_constant_init(struct aw_policy *policy);
void aw__policy_constant_decide(struct aw_policy *policy, const struct aw_sample *sample,
                                int64_t now_us, struct aw_plan *plan,
                                struct aw_policy_reason *reason);

#endif
