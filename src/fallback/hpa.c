/* hpa.c - one pass of the controller: read, propose, stabilise, limit, and say why. */
#include "fallback/hpa.h"

#include "base/text.h"
#include "fallback/hpa_limits.h"
#include "fallback/hpa_replicas.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SECOND_US ((int64_t)1000000)

void aw_hpa_controller_defaults(struct aw_hpa_controller *controller)
{
    *controller = (struct aw_hpa_controller){
        .tolerance = 0.1,                              /* --horizontal-pod-autoscaler-tolerance */
        .downscale_stabilization_us = 300 * SECOND_US, /* ...-downscale-stabilization */
        .cpu_initialization_us = 300 * SECOND_US,      /* ...-cpu-initialization-period */
        .initial_readiness_us = 30 * SECOND_US,        /* ...-initial-readiness-delay */
    };
}

void aw_hpa_spec_defaults(struct aw_hpa_spec *spec, int32_t replicas_max)
{
    *spec = (struct aw_hpa_spec){
        .replicas_min = 1,
        .replicas_max = replicas_max,
        .metric_count = 1,
        .metrics = {{.type = AW_HPA_RESOURCE,
                     .target_type = AW_HPA_UTILIZATION,
                     .name = "cpu",
                     .target = 80}},
        .up = {.select = AW_HPA_SELECT_MAX,
               .window_s = 0,
               .tolerance = AW_HPA_TOLERANCE_OF_CONTROLLER,
               .policy_count = 2,
               .policies = {{AW_HPA_POLICY_PODS, 4, 15}, {AW_HPA_POLICY_PERCENT, 100, 15}}},
        .down = {.select = AW_HPA_SELECT_MAX,
                 .window_s = AW_HPA_WINDOW_OF_CONTROLLER,
                 .tolerance = AW_HPA_TOLERANCE_OF_CONTROLLER,
                 .policy_count = 1,
                 .policies = {{AW_HPA_POLICY_PERCENT, 100, 15}}},
    };
}

static enum aw_err check_metric(const struct aw_hpa_metric *metric, uint32_t index,
                                struct aw_diag *diag)
{
    bool is_resource = metric->type == AW_HPA_RESOURCE || metric->type == AW_HPA_CONTAINER_RESOURCE;
    bool is_one_value = metric->type == AW_HPA_OBJECT || metric->type == AW_HPA_EXTERNAL;
    char key[AW_DIAG_KEY_MAX];
    struct aw_text path;
    aw_text_init(&path, key, sizeof key);
    aw_text_add(&path, "metrics[%" PRIu32 "]", index);

    if (memchr(metric->name, 0, sizeof metric->name) == NULL || metric->name[0] == 0)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key, "expected a name of 1 to %u bytes",
                          AW_HPA_NAME_MAX - 1);
    if (metric->target <= 0)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "%s: expected a positive target, found %" PRId64, metric->name,
                          metric->target);
    if (metric->target_type == AW_HPA_UTILIZATION && !is_resource)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "%s: only a resource has a utilization", metric->name);
    if (metric->target_type == AW_HPA_UTILIZATION && metric->target > INT32_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "%s: expected at most %d percent, found %" PRId64, metric->name,
                          INT32_MAX, metric->target);
    if (metric->target_type == AW_HPA_VALUE && !is_one_value)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "%s: only an object or external metric has a target of type Value",
                          metric->name);
    return AW_OK;
}

static enum aw_err check_rules(const struct aw_hpa_rules *rules, bool is_up, struct aw_diag *diag)
{
    const char *key = is_up ? "behavior.scaleUp" : "behavior.scaleDown";
    int32_t window_min = is_up ? 0 : AW_HPA_WINDOW_OF_CONTROLLER;

    if (rules->window_s < window_min || rules->window_s > AW_HPA_WINDOW_S_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "expected a window of 0 to %d seconds, found %" PRId32,
                          AW_HPA_WINDOW_S_MAX, rules->window_s);
    if (!isfinite(rules->tolerance) ||
        (rules->tolerance < 0 && rules->tolerance > AW_HPA_TOLERANCE_OF_CONTROLLER))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "expected a tolerance of 0 or more, found %g", rules->tolerance);
    if (rules->policy_count < 1 || rules->policy_count > AW_HPA_POLICIES_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "expected 1 to %u policies, found %" PRIu32, AW_HPA_POLICIES_MAX,
                          rules->policy_count);
    for (uint32_t i = 0; i < rules->policy_count; i++) {
        const struct aw_hpa_policy *policy = &rules->policies[i];
        if (policy->value <= 0)
            return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                              "policy %" PRIu32 ": expected a positive value, found %" PRId32, i,
                              policy->value);
        if (policy->period_s < 1 || policy->period_s > AW_HPA_PERIOD_S_MAX)
            return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                              "policy %" PRIu32 ": expected a period of 1 to %d seconds, found "
                              "%" PRId32,
                              i, AW_HPA_PERIOD_S_MAX, policy->period_s);
    }
    return AW_OK;
}

enum aw_err aw_hpa_spec_check(const struct aw_hpa_spec *spec, struct aw_diag *diag)
{
    bool has_one_value = false;
    enum aw_err err = AW_OK;

    if (spec->replicas_min < 0)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "minReplicas",
                          "expected 0 or more, found %" PRId32, spec->replicas_min);
    if (spec->replicas_max < 1 || spec->replicas_max > AW_HPA_REPLICAS_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "maxReplicas",
                          "expected 1 to %d, found %" PRId32, AW_HPA_REPLICAS_MAX,
                          spec->replicas_max);
    if (spec->replicas_min > spec->replicas_max)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "minReplicas",
                          "expected at most maxReplicas %" PRId32 ", found %" PRId32,
                          spec->replicas_max, spec->replicas_min);
    if (spec->metric_count < 1 || spec->metric_count > AW_HPA_METRICS_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "metrics",
                          "expected 1 to %u, found %" PRIu32, AW_HPA_METRICS_MAX,
                          spec->metric_count);
    for (uint32_t i = 0; i < spec->metric_count && !err; i++) {
        err = check_metric(&spec->metrics[i], i, diag);
        has_one_value |=
            spec->metrics[i].type == AW_HPA_OBJECT || spec->metrics[i].type == AW_HPA_EXTERNAL;
    }
    if (!err && spec->replicas_min == 0 && !has_one_value)
        err = aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "minReplicas",
                         "0 needs a metric of type Object or External: pods that do not exist "
                         "have no metrics");
    if (!err && spec->has_behavior)
        err = check_rules(&spec->up, true, diag);
    if (!err && spec->has_behavior)
        err = check_rules(&spec->down, false, diag);
    return err;
}

static enum aw_hpa_reason failed_reason(enum aw_hpa_metric_type type)
{
    switch (type) {
    case AW_HPA_RESOURCE:
        return AW_HPA_REASON_FAILED_RESOURCE;
    case AW_HPA_CONTAINER_RESOURCE:
        return AW_HPA_REASON_FAILED_CONTAINER;
    case AW_HPA_PODS:
        return AW_HPA_REASON_FAILED_PODS;
    case AW_HPA_OBJECT:
        return AW_HPA_REASON_FAILED_OBJECT;
    case AW_HPA_EXTERNAL:
        break;
    }
    return AW_HPA_REASON_FAILED_EXTERNAL;
}

/* The largest proposal. When metrics are missing, those that are left may ask for more, never for
 * less; the first one that failed is the one that is named. */
static void propose(const struct aw_hpa_controller *controller, const struct aw_hpa_spec *spec,
                    const struct aw_hpa_snapshot *snapshot, struct aw_hpa_decision *decision)
{
    uint32_t failed = 0, first_failed = 0;
    bool found = false;

    decision->metric_count = spec->metric_count;
    for (uint32_t i = 0; i < spec->metric_count; i++) {
        decision->proposals[i] = aw__hpa_propose(controller, spec, i, snapshot);
        if (decision->proposals[i].failure) {
            first_failed = failed == 0 ? i : first_failed;
            failed++;
        } else if (!found || decision->proposals[i].replicas > decision->proposed) {
            found = true;
            decision->proposed = decision->proposals[i].replicas;
            decision->metric = i;
        }
    }
    /* a negative metric may ask for less than nothing */
    decision->proposed = decision->proposed < 0 ? 0 : decision->proposed;
    decision->has_proposal = found && !(failed > 0 && decision->proposed < decision->current);
    decision->scaling_active =
        decision->has_proposal
            ? (struct aw_hpa_condition){AW_HPA_REASON_VALID_METRIC, true}
            : (struct aw_hpa_condition){failed_reason(spec->metrics[first_failed].type), false};
}

/* From the proposal to the count, within what the recent past and the bounds allow. */
static void normalize(const struct aw_hpa_controller *controller, const struct aw_hpa_spec *spec,
                      int64_t now_us, struct aw_hpa_state *state, struct aw_hpa_decision *decision)
{
    int32_t current = decision->current, proposed = decision->proposed;
    enum aw_hpa_reason held = AW_HPA_REASON_DOWN_STABILIZED;
    struct aw__hpa_limited limited;

    if (spec->has_behavior) {
        int64_t down_us = spec->down.window_s < 0 ? controller->downscale_stabilization_us
                                                  : spec->down.window_s * SECOND_US;
        decision->stabilized = aw__hpa_stabilize_by_rules(
            state, now_us, spec->up.window_s * SECOND_US, down_us, current, proposed);
        held = proposed >= current ? AW_HPA_REASON_UP_STABILIZED : AW_HPA_REASON_DOWN_STABILIZED;
        limited = aw__hpa_limit_rate(spec, state, now_us, current, decision->stabilized);
    } else {
        decision->stabilized =
            aw__hpa_stabilize(state, now_us, controller->downscale_stabilization_us, proposed);
        limited =
            aw__hpa_clamp(current, decision->stabilized, spec->replicas_min, spec->replicas_max);
    }
    decision->able_to_scale = (struct aw_hpa_condition){
        decision->stabilized == proposed ? AW_HPA_REASON_READY : held, true};
    decision->scaling_limited =
        (struct aw_hpa_condition){limited.reason, limited.replicas != decision->stabilized};
    decision->replicas = limited.replicas;
}

/* Far enough from the ends that differences of times stay within them. */
static bool time_valid(int64_t time_us)
{
    return time_us >= -AW_HPA_TIME_US_MAX && time_us <= AW_HPA_TIME_US_MAX;
}

void aw_hpa_decide(const struct aw_hpa_controller *controller, const struct aw_hpa_spec *spec,
                   const struct aw_hpa_snapshot *snapshot, struct aw_hpa_state *state,
                   struct aw_hpa_decision *ret)
{
    int32_t current = snapshot->spec_replicas;

    AW_ASSERT(spec->metric_count >= 1 && spec->metric_count <= AW_HPA_METRICS_MAX);
    AW_ASSERT(snapshot->pod_count <= AW_HPA_PODS_MAX);
    AW_ASSERT(current >= 0 && snapshot->status_replicas >= 0);
    AW_ASSERT(time_valid(snapshot->now_us));

    *ret = (struct aw_hpa_decision){
        .current = current,
        .replicas = current,
        .able_to_scale = {AW_HPA_REASON_SUCCEEDED_GET_SCALE, true},
    };
    if (state->recommendation_count == 0)
        state->recommendations[state->recommendation_count++] = (struct aw_hpa_recommendation){
            .time_us = snapshot->now_us, .low = current, .high = current};
    if (current != 0)
        state->scaled_to_zero = 0;
    ret->scaled_to_zero = state->scaled_to_zero != 0;

    if (current == 0 && !state->scaled_to_zero) {
        /* somebody else's zero is a pause, and waking up is theirs to do */
        ret->scaling_active = (struct aw_hpa_condition){AW_HPA_REASON_DISABLED, false};
    } else if (current > spec->replicas_max) {
        ret->replicas = spec->replicas_max;
        ret->rescale_cause = AW_HPA_REASON_ABOVE_MAX;
    } else if (current < spec->replicas_min) {
        ret->replicas = spec->replicas_min;
        ret->rescale_cause = AW_HPA_REASON_BELOW_MIN;
    } else {
        propose(controller, spec, snapshot, ret);
        if (ret->has_proposal)
            normalize(controller, spec, snapshot->now_us, state, ret);
    }
    ret->rescale = ret->replicas != current;
}

void aw_hpa_applied(const struct aw_hpa_spec *spec, struct aw_hpa_state *state, int64_t now_us,
                    int32_t from, int32_t to)
{
    state->scaled_to_zero = to == 0;
    if (!spec->has_behavior)
        return;
    if (to > from)
        aw__hpa_events_add(&state->up, &spec->up, now_us, to - from);
    else if (to < from)
        aw__hpa_events_add(&state->down, &spec->down, now_us, from - to);
}

static bool events_valid(const struct aw_hpa_events *events)
{
    if (events->count > AW_HPA_EVENTS_MAX)
        return false;
    for (uint64_t i = 0; i < events->count; i++)
        if (events->items[i].change <= 0 || !time_valid(events->items[i].time_us))
            return false;
    return true;
}

bool aw_hpa_state_valid(const struct aw_hpa_state *state)
{
    if (state->recommendation_count > AW_HPA_RECOMMENDATIONS_MAX || state->scaled_to_zero > 1)
        return false;
    for (uint64_t i = 0; i < state->recommendation_count; i++)
        if (state->recommendations[i].low < 0 ||
            state->recommendations[i].low > state->recommendations[i].high ||
            state->recommendations[i].span_us > (uint64_t)AW_HPA_TIME_US_MAX ||
            !time_valid(state->recommendations[i].time_us))
            return false;
    return events_valid(&state->up) && events_valid(&state->down);
}

const char *aw_hpa_reason_name(enum aw_hpa_reason reason)
{
    static const char *const names[] = {
#define X(id, name) name,
        AW_HPA_REASON_MAP(X)
#undef X
    };
    AW_ASSERT((unsigned)reason < AW_HPA_REASON_COUNT);
    return names[reason];
}

const char *aw_hpa_failure_text(enum aw_hpa_failure failure)
{
    static const char *const texts[] = {
#define X(id, text) text,
        AW_HPA_FAILURE_MAP(X)
#undef X
    };
    AW_ASSERT((unsigned)failure < AW_HPA_FAILURE_COUNT);
    return texts[failure];
}
