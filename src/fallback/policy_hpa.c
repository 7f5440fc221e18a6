/* policy_hpa.c - the HPA fed from a sample: what its metrics client and its informers would see. */
#include "fallback/policy_kinds.h"

#include <math.h>

/* Over which a usage figure is a mean: the resolution of metrics-server. */
#define METRIC_WINDOW_US 15000000

enum aw_err aw__policy_hpa_init(struct aw_policy *policy, struct aw_diag *diag)
{
    const struct aw_policy_settings *settings = &policy->settings;
    aw_hpa_controller_defaults(&policy->hpa_controller);
    policy->hpa_controller.tolerance = settings->hpa_tolerance;
    policy->hpa_controller.downscale_stabilization_us =
        (int64_t)settings->hpa_down_window * 1000000;
    aw_hpa_spec_defaults(&policy->hpa_spec, (int32_t)policy->task.bounds.replicas_max);
    policy->hpa_spec.replicas_min = (int32_t)policy->task.bounds.replicas_min;
    policy->hpa_spec.metrics[0].target = settings->hpa_target;
    return aw_hpa_spec_check(&policy->hpa_spec, diag);
}

static void look(struct aw_policy *policy, const struct aw_sample *sample, int64_t now_us)
{
    static const enum aw_hpa_phase phases[] = {
        [AW_POD_PENDING] = AW_HPA_PENDING,
        [AW_POD_STARTING] = AW_HPA_RUNNING,
        [AW_POD_RUNNING] = AW_HPA_RUNNING,
        [AW_POD_FAILED] = AW_HPA_FAILED,
    };
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        bool started = pod->started_us != AW_NEVER;
        policy->hpa_pods[i] = (struct aw_hpa_pod){
            .phase = phases[pod->phase],
            .ready = pod->ready ? AW_HPA_READY_TRUE : AW_HPA_READY_FALSE,
            .started = started,
            .start_us = started ? pod->started_us : 0,
            .ready_change_us = pod->ready_change_us,
        };
        bool present = aw__policy_fresh(policy, pod->cpu_cores_used, now_us);
        policy->hpa_samples[i] = (struct aw_hpa_sample){
            .present = present,
            .has_request = true,
            .value = present ? llround(pod->cpu_cores_used.value * 1000) : 0,
            .request = pod->cpu_millicores,
            .timestamp_us = present ? pod->cpu_cores_used.at_us : 0,
            .window_us = METRIC_WINDOW_US,
        };
    }
    policy->hpa_snapshot = (struct aw_hpa_snapshot){
        .now_us = now_us,
        .spec_replicas = (int32_t)sample->replicas_wanted,
        .status_replicas = (int32_t)sample->pod_count,
        .pod_count = sample->pod_count,
        .pods = policy->hpa_pods,
        .readings = {{.samples = policy->hpa_samples}},
    };
}

void aw__policy_hpa_decide(struct aw_policy *policy, const struct aw_sample *sample, int64_t now_us,
                           struct aw_plan *plan, struct aw_policy_reason *reason)
{
    struct aw__policy_state *state = &policy->state;
    /* A change counts against the rates once the cluster shows it, not when it was asked for. */
    if (state->hpa_to != 0 && (int32_t)sample->replicas_wanted == state->hpa_to)
        aw_hpa_applied(&policy->hpa_spec, &state->hpa, now_us, state->hpa_from, state->hpa_to);
    state->hpa_from = state->hpa_to = 0;
    if (now_us < state->hpa_next_us) {
        reason->cause = AW_POLICY_CAUSE_NOT_YET;
        return;
    }
    state->hpa_next_us = now_us + (int64_t)(policy->settings.hpa_period * 1e6);

    look(policy, sample, now_us);
    struct aw_hpa_decision *decision = &policy->hpa_decision;
    aw_hpa_decide(&policy->hpa_controller, &policy->hpa_spec, &policy->hpa_snapshot, &state->hpa,
                  decision);
    if (decision->has_proposal) {
        reason->replicas_proposed = (uint32_t)decision->proposed;
        reason->utilization = decision->proposals[0].utilization_pct / 100.0;
    } else if (!decision->rescale) {
        reason->cause = AW_POLICY_CAUSE_NO_DATA;
    }
    if (!decision->rescale) {
        if (decision->has_proposal && decision->proposed < decision->current)
            reason->cause = AW_POLICY_CAUSE_STABILIZED;
        return;
    }
    plan->set |= AW_PLAN_REPLICAS;
    plan->replicas = (uint32_t)decision->replicas;
    reason->cause =
        decision->replicas > decision->current ? AW_POLICY_CAUSE_UP : AW_POLICY_CAUSE_DOWN;
    state->hpa_from = decision->current;
    state->hpa_to = decision->replicas;
}
