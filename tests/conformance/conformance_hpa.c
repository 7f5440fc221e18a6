/* conformance_hpa.c - the kinds of case that are about the HPA. */
#include "conformance_case.h"
#include "fallback/hpa_limits.h"
#include "fallback/hpa_replicas.h"

#include <string.h>

#define SECOND_US ((int64_t)1000000)
#define NOW_US    (1000000 * SECOND_US) /* any time, far from the ends */

/* One metric over the pods of a case, set up as upstream's table tests do. */
struct world {
    struct aw_hpa_controller controller;
    struct aw_hpa_spec spec;
    struct aw_hpa_snapshot snapshot;
    struct aw_hpa_pod pods[AW__CASE_LIST_MAX];
    struct aw_hpa_sample samples[AW__CASE_LIST_MAX];
};

static void world_init(struct aw__case *c, struct world *world, const char *name,
                       enum aw_hpa_metric_type type, enum aw_hpa_target_type target_type,
                       const char *target_key)
{
    memset(world, 0, sizeof *world);
    aw_hpa_controller_defaults(&world->controller);
    world->controller.cpu_initialization_us = 120 * SECOND_US; /* test_constants of the file */
    world->controller.initial_readiness_us = 10 * SECOND_US;
    aw_hpa_spec_defaults(&world->spec, AW_HPA_REPLICAS_MAX);
    world->spec.has_behavior = true;
    world->spec.down.tolerance = aw__case_real(c, c->in, "tolerance_down");
    world->spec.up.tolerance = aw__case_real(c, c->in, "tolerance_up");
    world->spec.metrics[0].type = type;
    world->spec.metrics[0].target_type = target_type;
    memcpy(world->spec.metrics[0].name, name, strlen(name) + 1);
    world->spec.metrics[0].target = aw__case_i64(c, c->in, target_key, 1, INT64_MAX);
    world->snapshot.now_us = NOW_US;
    world->snapshot.pods = world->pods;
    world->snapshot.readings[0].samples = world->samples;
    if (!c->err && aw_hpa_spec_check(&world->spec, &c->diag) != AW_OK)
        aw__case_fail(c, c->in, "the tolerances or the target are not valid");
}

static int32_t replicas_of(struct aw__case *c, const char *key)
{
    return (int32_t)aw__case_i64(c, c->in, key, 0, INT32_MAX);
}

/* Adds a pod that has been running for an hour, and a minute's sample of it. */
static struct aw_hpa_pod *add_pod(struct world *world)
{
    uint32_t i = world->snapshot.pod_count++;
    int64_t start_us = NOW_US - 3600 * SECOND_US;
    AW_ASSERT(i < AW__CASE_LIST_MAX);
    world->pods[i] = (struct aw_hpa_pod){.phase = AW_HPA_RUNNING,
                                         .ready = AW_HPA_READY_TRUE,
                                         .started = true,
                                         .start_us = start_us,
                                         .ready_change_us = start_us};
    world->samples[i].timestamp_us = NOW_US;
    world->samples[i].window_us = 60 * SECOND_US;
    return &world->pods[i];
}

static void set_pod_state(struct aw__case *c, const struct aw_node *node, struct aw_hpa_pod *pod)
{
    static const char *const keys[] = {"usage_m", "request_m", "state", NULL};
    const char *state = "";
    if (!c->err)
        c->err = aw_tree_known(c->tree, node, keys, &c->diag);
    if (!c->err)
        state = aw__case_text(c, node, "state");
    if (strcmp(state, "unready") == 0) {
        pod->ready = AW_HPA_READY_FALSE; /* since its start: it never was ready */
    } else if (strcmp(state, "hot") == 0) {
        /* ready, but younger than the initialisation period and than one window */
        pod->start_us = NOW_US - 30 * SECOND_US;
        pod->ready_change_us = pod->start_us;
    } else if (strcmp(state, "failed") == 0) {
        pod->phase = AW_HPA_FAILED;
    } else if (strcmp(state, "pending") == 0) {
        pod->phase = AW_HPA_PENDING;
        pod->ready = AW_HPA_READY_ABSENT;
    } else if (strcmp(state, "deleted") == 0 || strcmp(state, "deleting") == 0 ||
               strcmp(state, "deletion") == 0 || strcmp(state, "terminating") == 0) {
        pod->deleted = true;
    } else if (!c->err && strcmp(state, "ready") != 0) {
        aw__case_fail(c, node,
                      "state: expected one of ready, unready, hot, failed, pending, deleted");
    }
}

static struct aw_hpa_proposal propose(struct aw__case *c, struct world *world)
{
    struct aw_hpa_proposal proposal = {0};
    if (c->err)
        return proposal;
    proposal = aw__hpa_propose(&world->controller, &world->spec, 0, &world->snapshot);
    if (proposal.failure)
        aw__case_fail(c, c->in, aw_hpa_failure_text(proposal.failure));
    return proposal;
}

static void resource_utilization(struct aw__case *c)
{
    struct world world;
    world_init(c, &world, "cpu", AW_HPA_RESOURCE, AW_HPA_UTILIZATION, "target_utilization_pct");
    struct aw_hpa_reading *reading = &world.snapshot.readings[0];
    world.snapshot.spec_replicas = replicas_of(c, "current_replicas");
    for (const struct aw_node *node = aw__case_list(c, c->in, "pods"); node; node = node->next) {
        struct aw_hpa_pod *pod = add_pod(&world);
        struct aw_hpa_sample *sample = &world.samples[pod - world.pods];
        set_pod_state(c, node, pod);
        sample->present = aw__case_has(node, "usage_m");
        if (sample->present)
            sample->value = aw__case_i64(c, node, "usage_m", 0, INT64_MAX);
        sample->has_request = aw__case_has(node, "request_m");
        if (sample->has_request)
            sample->request = aw__case_i64(c, node, "request_m", 0, INT64_MAX);
    }
    if (aw_node_find(c->in, "extra_metrics_for_unknown_pods_m"))
        for (const struct aw_node *node =
                 aw__case_list(c, c->in, "extra_metrics_for_unknown_pods_m");
             node; node = node->next) {
            reading->stray_count++;
            reading->stray_sum += aw__case_whole(c, node, 0, INT32_MAX);
        }
    struct aw_hpa_proposal proposal = propose(c, &world);
    aw__case_same(c, "replicas", proposal.replicas);
    aw__case_same(c, "utilization_pct", proposal.utilization_pct);
}

static void pods_average_value(struct aw__case *c)
{
    struct world world;
    world_init(c, &world, "qps", AW_HPA_PODS, AW_HPA_AVERAGE_VALUE, "target_average_m");
    world.snapshot.spec_replicas = replicas_of(c, "current_replicas");
    for (const struct aw_node *node = aw__case_list(c, c->in, "pod_values_m"); node;
         node = node->next) {
        struct aw_hpa_sample *sample = &world.samples[add_pod(&world) - world.pods];
        sample->present = node->kind != AW_NODE_NULL;
        if (sample->present)
            sample->value = aw__case_whole(c, node, INT32_MIN, INT64_MAX);
    }
    int64_t silent = aw__case_i64(c, c->in, "running_pods_without_metric", 0,
                                  AW__CASE_LIST_MAX - world.snapshot.pod_count);
    while (silent-- > 0)
        add_pod(&world);
    struct aw_hpa_proposal proposal = propose(c, &world);
    aw__case_same(c, "replicas", proposal.replicas);
    aw__case_same(c, "usage_m", proposal.usage);
}

static void one_value(struct aw__case *c, enum aw_hpa_metric_type type)
{
    struct world world;
    world_init(c, &world, "qps", type, AW_HPA_VALUE, "target_value_m");
    world.snapshot.spec_replicas = replicas_of(c, "current_replicas");
    world.snapshot.readings[0].value = aw__case_i64(c, c->in, "metric_m", INT32_MIN, INT64_MAX);
    int64_t ready = aw__case_i64(c, c->in, "ready_running_pods", 0, AW__CASE_LIST_MAX / 2);
    for (int64_t i = 0; i < ready; i++)
        add_pod(&world);
    /* what is asked for and not ready is there all the same */
    for (int64_t i = ready; i < world.snapshot.spec_replicas && i < AW__CASE_LIST_MAX; i++)
        add_pod(&world)->ready = AW_HPA_READY_FALSE;
    struct aw_hpa_proposal proposal = propose(c, &world);
    aw__case_same(c, "replicas", proposal.replicas);
    aw__case_same(c, "usage_m", proposal.usage);
}

static void object_value(struct aw__case *c)
{
    one_value(c, AW_HPA_OBJECT);
}

static void external_value(struct aw__case *c)
{
    one_value(c, AW_HPA_EXTERNAL);
}

static void one_average(struct aw__case *c, enum aw_hpa_metric_type type)
{
    struct world world;
    world_init(c, &world, "qps", type, AW_HPA_AVERAGE_VALUE, "target_average_m");
    world.snapshot.status_replicas = replicas_of(c, "status_replicas");
    world.snapshot.readings[0].value =
        aw__case_i64(c, c->in, "metric_total_m", INT32_MIN, INT64_MAX);
    struct aw_hpa_proposal proposal = propose(c, &world);
    aw__case_same(c, "replicas", proposal.replicas);
    aw__case_same(c, "usage_per_pod_m", proposal.usage);
}

static void object_average_value(struct aw__case *c)
{
    one_average(c, AW_HPA_OBJECT);
}

static void external_average_value(struct aw__case *c)
{
    one_average(c, AW_HPA_EXTERNAL);
}

static void clamp_no_behavior(struct aw__case *c)
{
    struct aw__hpa_limited limited =
        aw__hpa_clamp(replicas_of(c, "current"), replicas_of(c, "desired"), replicas_of(c, "min"),
                      replicas_of(c, "max"));
    aw__case_same(c, "replicas", limited.replicas);
    aw__case_same_text(c, "scaling_limited_reason", aw_hpa_reason_name(limited.reason));
}

/* ["Pods", 4, 15]: a type, a value, a period in seconds. */
static void read_policies(struct aw__case *c, const char *key, struct aw_hpa_rules *rules)
{
    rules->policy_count = 0;
    for (const struct aw_node *node = aw__case_list(c, c->in, key); node && !c->err;
         node = node->next) {
        struct aw_hpa_policy policy = {0};
        c->err = aw_tree_list(c->tree, node, &c->diag);
        if (c->err)
            return;
        if (node->count != 3 || rules->policy_count == AW_HPA_POLICIES_MAX) {
            aw__case_fail(c, node, "expected a few of [\"Pods\" or \"Percent\", value, seconds]");
            return;
        }
        const struct aw_node *type = node->first;
        if (type->kind == AW_NODE_STRING && strcmp(type->text, "Percent") == 0)
            policy.type = AW_HPA_POLICY_PERCENT;
        else if (type->kind == AW_NODE_STRING && strcmp(type->text, "Pods") == 0)
            policy.type = AW_HPA_POLICY_PODS;
        else
            aw__case_fail(c, type, "expected \"Pods\" or \"Percent\"");
        policy.value = (int32_t)aw__case_whole(c, type->next, 0, INT32_MAX);
        policy.period_s = (int32_t)aw__case_whole(c, type->next->next, 1, AW_HPA_PERIOD_S_MAX);
        rules->policies[rules->policy_count++] = policy;
    }
}

static void read_events(struct aw__case *c, const char *key, struct aw_hpa_events *events)
{
    for (const struct aw_node *node = aw__case_list(c, c->in, key); node; node = node->next) {
        double pair[2];
        aw__case_numbers(c, node, pair, 2, AW_HPA_REPLICAS_MAX);
        if (events->count == AW_HPA_EVENTS_MAX)
            aw__case_fail(c, node, "more events than a state can hold");
        else
            events->items[events->count++] =
                (struct aw_hpa_event){.time_us = NOW_US - (int64_t)(pair[1] * (double)SECOND_US),
                                      .change = (int64_t)pair[0]};
    }
}

static void behavior_rate_limit(struct aw__case *c)
{
    struct aw_hpa_spec spec;
    struct aw_hpa_state state = {0};
    const char *select = aw__case_text(c, c->in, "select_policy");
    aw_hpa_spec_defaults(&spec, replicas_of(c, "max"));
    spec.replicas_min = replicas_of(c, "min");
    if (strcmp(select, "Min") == 0)
        spec.up.select = AW_HPA_SELECT_MIN;
    else if (strcmp(select, "Disabled") == 0)
        spec.up.select = AW_HPA_SELECT_DISABLED;
    else if (strcmp(select, "Max") != 0)
        aw__case_fail(c, c->in, "select_policy: expected one of Max, Min, Disabled");
    spec.down.select = spec.up.select;
    read_policies(c, "scale_up_policies", &spec.up);
    read_policies(c, "scale_down_policies", &spec.down);
    read_events(c, "scale_up_events_[change,age_s]", &state.up);
    read_events(c, "scale_down_events_[change,age_s]", &state.down);
    struct aw__hpa_limited limited = aw__hpa_limit_rate(
        &spec, &state, NOW_US, replicas_of(c, "current"), replicas_of(c, "desired"));
    aw__case_same(c, "replicas", limited.replicas);
    aw__case_same_text(c, "scaling_limited_reason", aw_hpa_reason_name(limited.reason));
}

static void read_past(struct aw__case *c, struct aw_hpa_state *state)
{
    for (const struct aw_node *node =
             aw__case_list(c, c->in, "past_recommendations_[replicas,age_s]");
         node; node = node->next) {
        double pair[2];
        aw__case_numbers(c, node, pair, 2, AW_HPA_REPLICAS_MAX);
        state->recommendations[state->recommendation_count++] = (struct aw_hpa_recommendation){
            .time_us = NOW_US - (int64_t)(pair[1] * (double)SECOND_US),
            .low = (int32_t)pair[0],
            .high = (int32_t)pair[0]};
    }
}

static void stabilization_with_behavior(struct aw__case *c)
{
    struct aw_hpa_state state = {0};
    read_past(c, &state);
    int64_t up_s = aw__case_i64(c, c->in, "scale_up_window_s", 0, AW_HPA_WINDOW_S_MAX);
    int64_t down_s = aw__case_i64(c, c->in, "scale_down_window_s", 0, AW_HPA_WINDOW_S_MAX);
    aw__case_same(c, "replicas",
                  aw__hpa_stabilize_by_rules(&state, NOW_US, up_s * SECOND_US, down_s * SECOND_US,
                                             replicas_of(c, "current"), replicas_of(c, "desired")));
}

static void stabilization_no_behavior(struct aw__case *c)
{
    struct aw_hpa_state state = {0};
    read_past(c, &state);
    aw__case_same(c, "replicas",
                  aw__hpa_stabilize(&state, NOW_US, 300 * SECOND_US, replicas_of(c, "desired")));
}

_Static_assert(AW__CASE_LIST_MAX <= AW_HPA_RECOMMENDATIONS_MAX, "a case must fit a state");

const struct aw__case_kind aw__case_kinds_hpa[] = {
    {"resource_utilization",
     resource_utilization,
     {"current_replicas", "target_utilization_pct", "tolerance_down", "tolerance_up", "pods",
      "extra_metrics_for_unknown_pods_m"}},
    {"pods_average_value",
     pods_average_value,
     {"current_replicas", "target_average_m", "tolerance_down", "tolerance_up", "pod_values_m",
      "running_pods_without_metric"}},
    {"object_value",
     object_value,
     {"current_replicas", "target_value_m", "metric_m", "ready_running_pods", "tolerance_down",
      "tolerance_up"}},
    {"external_value",
     external_value,
     {"current_replicas", "target_value_m", "metric_m", "ready_running_pods", "tolerance_down",
      "tolerance_up"}},
    {"object_average_value",
     object_average_value,
     {"status_replicas", "target_average_m", "metric_total_m", "tolerance_down", "tolerance_up"}},
    {"external_average_value",
     external_average_value,
     {"status_replicas", "target_average_m", "metric_total_m", "tolerance_down", "tolerance_up"}},
    {"clamp_no_behavior", clamp_no_behavior, {"current", "desired", "min", "max"}},
    {"behavior_rate_limit",
     behavior_rate_limit,
     {"current", "desired", "min", "max", "scale_up_policies", "scale_down_policies",
      "select_policy", "scale_up_events_[change,age_s]", "scale_down_events_[change,age_s]"}},
    {"stabilization_with_behavior",
     stabilization_with_behavior,
     {"current", "desired", "scale_up_window_s", "scale_down_window_s",
      "past_recommendations_[replicas,age_s]"}},
    {"stabilization_no_behavior_300s",
     stabilization_no_behavior,
     {"desired", "past_recommendations_[replicas,age_s]"}},
    {0},
};
