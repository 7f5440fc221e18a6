/* fallback_hpa.c - the HPA fed from a sample: what its metrics client and informers would see. */
#include "fallback/fallback_kinds.h"

#include <math.h>
#include <string.h>

/* Over which a usage figure is a mean: the resolution of metrics-server. */
#define METRIC_WINDOW_US 15000000

/* The controller's flags and the autoscaler's spec, which follow from settings and task. */
struct rules {
    struct aw_hpa_controller controller;
    struct aw_hpa_spec spec;
};

static int64_t window_us(const struct aw_fallback_settings *settings)
{
    return (int64_t)settings->hpa_down_window * 1000000;
}

static void rules_of(const struct aw_fallback *policy, struct rules *ret)
{
    const struct aw_fallback_settings *settings = &policy->settings;
    aw_hpa_controller_defaults(&ret->controller);
    ret->controller.tolerance = settings->hpa_tolerance;
    ret->controller.downscale_stabilization_us = window_us(settings);
    aw_hpa_spec_defaults(&ret->spec, (int32_t)policy->task.bounds.replicas_max);
    ret->spec.replicas_min = (int32_t)policy->task.bounds.replicas_min;
    ret->spec.metrics[0].target = settings->hpa_target;
}

enum aw_err aw__fallback_hpa_check(const struct aw_fallback *policy, struct aw_diag *diag)
{
    struct rules rules;
    rules_of(policy, &rules);
    return aw_hpa_spec_check(&rules.spec, diag);
}

/* A new one is added only when all others are within the window, and they are a period apart; but
 * the first comes with the count that was found, at the same time. */
uint32_t aw__fallback_hpa_recommendation_max(const struct aw_fallback_settings *settings)
{
    const int64_t apart_us = (int64_t)(settings->hpa_period * 1e6);
    const int64_t most = apart_us > 0 ? window_us(settings) / apart_us + 2 : INT64_MAX;
    return most < AW_HPA_RECOMMENDATIONS_MAX ? (uint32_t)most : AW_HPA_RECOMMENDATIONS_MAX;
}

/* The HPA's own state, from what is kept of it and back. Its events are those of a behavior, which
 * the spec does not have. */
static void state_open(const struct aw_fallback *policy, struct aw_hpa_state *ret)
{
    ret->recommendation_count = policy->state->recommendation_count;
    memcpy(ret->recommendations, policy->recommendations,
           policy->state->recommendation_count * sizeof *policy->recommendations);
    ret->up.count = ret->down.count = 0;
    ret->scaled_to_zero = policy->state->scaled_to_zero;
}

static void state_close(struct aw_fallback *policy, const struct aw_hpa_state *hpa)
{
    AW_ASSERT(hpa->recommendation_count <= policy->recommendation_max);
    AW_ASSERT(hpa->up.count == 0 && hpa->down.count == 0);
    policy->state->recommendation_count = (uint32_t)hpa->recommendation_count;
    memcpy(policy->recommendations, hpa->recommendations,
           hpa->recommendation_count * sizeof *policy->recommendations);
    policy->state->scaled_to_zero = (uint32_t)hpa->scaled_to_zero;
}

/* What the controller would find out about the pods. */
struct view {
    struct aw_hpa_pod pods[AW_CLUSTER_PODS_MAX];
    struct aw_hpa_sample samples[AW_CLUSTER_PODS_MAX];
    struct aw_hpa_snapshot snapshot;
};

static void look(const struct aw_fallback *policy, const struct aw_sample *sample, int64_t now_us,
                 struct view *ret)
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
        ret->pods[i] = (struct aw_hpa_pod){
            .phase = phases[pod->phase],
            .ready = pod->ready ? AW_HPA_READY_TRUE : AW_HPA_READY_FALSE,
            .started = started,
            .start_us = started ? pod->started_us : 0,
            .ready_change_us = pod->ready_change_us,
        };
        bool present = aw__fallback_fresh(policy, pod->cpu_cores_used, now_us);
        ret->samples[i] = (struct aw_hpa_sample){
            .present = present,
            .has_request = true,
            .value = present ? llround(pod->cpu_cores_used.value * 1000) : 0,
            .request = pod->cpu_millicores,
            .timestamp_us = present ? pod->cpu_cores_used.at_us : 0,
            .window_us = METRIC_WINDOW_US,
        };
    }
    ret->snapshot = (struct aw_hpa_snapshot){
        .now_us = now_us,
        .spec_replicas = (int32_t)sample->replicas_wanted,
        .status_replicas = (int32_t)sample->pod_count,
        .pod_count = sample->pod_count,
        .pods = ret->pods,
        .readings = {{.samples = ret->samples}},
    };
}

/* One sync of the controller. */
static void sync(struct aw_fallback *policy, const struct rules *rules,
                 const struct aw_sample *sample, int64_t now_us, struct aw_hpa_state *hpa,
                 struct aw_plan *plan, struct aw_fallback_reason *reason)
{
    struct view view;
    struct aw_hpa_decision decision;
    look(policy, sample, now_us, &view);
    aw_hpa_decide(&rules->controller, &rules->spec, &view.snapshot, hpa, &decision);
    if (decision.has_proposal) {
        reason->replicas_proposed = (uint32_t)decision.proposed;
        reason->utilization = decision.proposals[0].utilization_pct / 100.0;
    } else if (!decision.rescale) {
        reason->cause = AW_FALLBACK_CAUSE_NO_DATA;
    }
    if (!decision.rescale) {
        if (decision.has_proposal && decision.proposed < decision.current)
            reason->cause = AW_FALLBACK_CAUSE_STABILIZED;
        return;
    }
    plan->set |= AW_PLAN_REPLICAS;
    plan->replicas = (uint32_t)decision.replicas;
    reason->cause =
        decision.replicas > decision.current ? AW_FALLBACK_CAUSE_UP : AW_FALLBACK_CAUSE_DOWN;
    policy->state->hpa_from = decision.current;
    policy->state->hpa_to = decision.replicas;
}

void aw__fallback_hpa_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                             int64_t now_us, struct aw_plan *plan,
                             struct aw_fallback_reason *reason)
{
    struct aw__fallback_state *state = policy->state;
    const int32_t from = state->hpa_from, to = state->hpa_to;
    /* A change counts against the rates once the cluster shows it, not when it was asked for. */
    const bool shown = to != 0 && (int32_t)sample->replicas_wanted == to;
    const bool due = aw__fallback_due(state->hpa_next_us, now_us, policy->settings.hpa_period);
    state->hpa_from = state->hpa_to = 0;
    if (!due) {
        reason->cause = AW_FALLBACK_CAUSE_NOT_YET;
        reason->waiting |= AW_PLAN_REPLICAS;
    }
    if (!due && !shown)
        return;

    struct rules rules;
    struct aw_hpa_state hpa;
    rules_of(policy, &rules);
    state_open(policy, &hpa);
    if (shown)
        aw_hpa_applied(&rules.spec, &hpa, now_us, from, to);
    if (due) {
        state->hpa_next_us =
            aw__fallback_next_us(state->hpa_next_us, now_us, policy->settings.hpa_period);
        sync(policy, &rules, sample, now_us, &hpa, plan, reason);
    }
    state_close(policy, &hpa);
}
