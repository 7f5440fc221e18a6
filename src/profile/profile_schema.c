/*
 * profile_schema.c - every field that a file may say, once.
 *
 * The layout is that of upstream's proposal for a multidimensional pod autoscaler (AEP-5342 of
 * kubernetes/autoscaler), so that its manifests need only another apiVersion; `goals.slo`, `guard`
 * and `learning` are ours.
 */
#include "base/units.h"
#include "profile/profile_internal.h"
#include "profile/profile_table.h"

#include <math.h>

static const struct aw_schema_field profile_metadata[] = {
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     P(name),
     .help = "the name of this autoscaler, one of its kind in a namespace"},
    {.name = "namespace",
     .type = AW_SCHEMA_NAME,
     P(namespace),
     .initial = "default",
     .help = NAMESPACE_HELP},
    METADATA_OF_SERVER,
    {0},
};

/* --- MultidimPodAutoscaler --------------------------------------------------------------------
 */

static const struct aw_schema_field target_fields[] = {
    {.name = "apiVersion",
     .type = AW_SCHEMA_TEXT,
     P(target_api_version),
     .initial = "apps/v1",
     .help = "API group and version of the target"},
    {.name = "kind",
     .type = AW_SCHEMA_TEXT,
     P(target_kind),
     .initial = "Deployment",
     .help = "kind of the target, which must have a scale subresource"},
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     P(target_name),
     .help = "name of the target"},
    {0},
};

static const char *const metric_types[] = {"Resource", "ContainerResource", "Pods",
                                           "Object",   "External",          NULL};
static const char *const metric_targets[] = {"Utilization", "AverageValue", "Value", NULL};

#define M(member) AT(aw__metric, member)
static const struct aw_schema_field metric_target_fields[] = {
    {.name = "type",
     .type = AW_SCHEMA_CHOICE,
     M(target_type),
     .choices = metric_targets,
     .initial = "Utilization",
     .help = "how the target is meant; Utilization alone is used"},
    {.name = "averageUtilization",
     .type = AW_SCHEMA_U32,
     M(utilization),
     RANGE(1, 100),
     .help = "percent of the CPU request that the fallback's HPA aims at; as "
             "learning.fallback.hpaTarget"},
    IGNORED("averageValue", "of upstream; only Utilization is used"),
    IGNORED("value", "of upstream; only Utilization is used"),
    {0},
};
static const struct aw_schema_field metric_resource_fields[] = {
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     M(resource),
     .help = "the resource; cpu alone is used"},
    {.name = "target",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "what the HPA aims at",
     .fields = metric_target_fields},
    {0},
};
static const struct aw_schema_field metric_fields[] = {
    {.name = "type",
     .type = AW_SCHEMA_CHOICE,
     .flags = AW_SCHEMA_REQUIRED,
     M(type),
     .choices = metric_types,
     .help = "type of metric as in autoscaling/v2; Resource alone is used"},
    {.name = "resource",
     .type = AW_SCHEMA_OBJECT,
     .help = "for type Resource: utilization of the CPU",
     .fields = metric_resource_fields},
    IGNORED("containerResource", "of upstream; refused by its type"),
    IGNORED("pods", "of upstream; refused by its type"),
    IGNORED("object", "of upstream; refused by its type"),
    IGNORED("external", "of upstream; refused by its type"),
    {0},
};

static const struct aw_schema_field latency_fields[] = {
    {.name = "quantile",
     .type = AW_SCHEMA_QUANTILE,
     P(pilot.slo.quantile),
     .initial = "0.99",
     .help = "which quantile of the latency of requests must keep the target"},
    {.name = "target",
     .type = AW_SCHEMA_DURATION,
     .flags = AW_SCHEMA_REQUIRED,
     D(latency_us),
     RANGE(1, 3600 * SECOND),
     .help = "the latency that must not be exceeded"},
    {.name = "timeout",
     .type = AW_SCHEMA_DURATION,
     D(timeout_us),
     RANGE(1000, DAY),
     .initial = "30s",
     .help = "what a request counts that is never answered"},
    {0},
};

static const struct aw_schema_field slo_fields[] = {
    {.name = "latency",
     .type = AW_SCHEMA_OBJECT,
     .help = "a quantile of latency to keep",
     .fields = latency_fields},
    {.name = "throughput",
     .type = AW_SCHEMA_RATE,
     D(throughput_per_s),
     RANGE(1 / 86400.0, 1e9),
     .help = "requests/s to serve; a load below that must be served whole"},
    {.name = "budget",
     .type = AW_SCHEMA_SHARE,
     P(pilot.slo_budget),
     RANGE(0, 1),
     .initial = "1%",
     .help = "share of steps that may miss the SLO"},
    {.name = "window",
     .type = AW_SCHEMA_DURATION,
     P(slo_window_us),
     RANGE(SECOND, 366 * DAY),
     .initial = "1h",
     .help = "the time over which the budget is counted; when it is spent, the fallback takes "
             "over"},
    {0},
};

static const struct aw_schema_field goals_fields[] = {
    {.name = "metrics",
     .type = AW_SCHEMA_LIST,
     .offset = offsetof(struct aw__profile_draft, metric),
     .size = sizeof(struct aw__metric),
     .count_offset = offsetof(struct aw__profile_draft, metric_count),
     .count_max = AW__PROFILE_METRICS_MAX,
     .help = "metrics as in autoscaling/v2; utilization of the CPU is the target of the "
             "fallback's HPA",
     .fields = metric_fields},
    {.name = "slo",
     .type = AW_SCHEMA_OBJECT,
     .help = "the service-level objective; without one nothing is learned and the fallback acts",
     .fields = slo_fields},
    {0},
};

/* How an amount is written, by its unit, and what nobody writes. */
#define AMOUNT_MILLICORES .type = AW_SCHEMA_CPU, RANGE(1, 1024000)
#define AMOUNT_BYTES      .type = AW_SCHEMA_MEMORY, RANGE(AW_MIB_REAL, TIB)
#define AMOUNT_COUNT      .type = AW_SCHEMA_U32, RANGE(1, UINT32_MAX)

/* Resource lists: a name, and its bound. */
#define BOUND(at, name_, unit, noun, end) \
    {.name = #name_, AMOUNT_##unit, at, .help = noun ", at " end},
#define CONTAINER_LEAST(id, member, name, unit, most, common, restarts, use, words, noun, ...) \
    BOUND(AT(aw__container, limits.member##_min), name, unit, noun, "least")
#define CONTAINER_MOST(id, member, name, unit, most, common, restarts, use, words, noun, ...) \
    BOUND(AT(aw__container, limits.member##_max), name, unit, noun, "most")
#define POD_LEAST(id, member, name, unit, most, common, restarts, use, words, noun, ...) \
    BOUND(D(pod.member##_min), name, unit, noun, "least")
#define POD_MOST(id, member, name, unit, most, common, restarts, use, words, noun, ...) \
    BOUND(D(pod.member##_max), name, unit, noun, "most")
static const struct aw_schema_field container_least[] = {AW_SIZE_MAP(CONTAINER_LEAST){0}};
static const struct aw_schema_field container_most[] = {AW_SIZE_MAP(CONTAINER_MOST){0}};
static const struct aw_schema_field pod_least[] = {AW_SIZE_MAP(POD_LEAST){0}};
static const struct aw_schema_field pod_most[] = {AW_SIZE_MAP(POD_MOST){0}};

#define ALLOWED(least, most)                                                                    \
    {.name = "minAllowed",                                                                      \
     .type = AW_SCHEMA_OBJECT,                                                                  \
     .help = "never less than this; 100m and 64Mi where nothing is said",                       \
     .fields = (least)},                                                                        \
    {                                                                                           \
        .name = "maxAllowed", .type = AW_SCHEMA_OBJECT,                                         \
        .help = "never more than this; 4 cores and 8Gi where nothing is said", .fields = (most) \
    }

static const struct aw_schema_field container_requests[] = {
    ALLOWED(container_least, container_most), {0}};
static const struct aw_schema_field pod_requests[] = {ALLOWED(pod_least, pod_most), {0}};

static const char *const container_modes[] = {"Auto", "Off", NULL};
static const char *const resource_names[] = {
#define X(id, member, name, ...) #name,
    AW_SIZE_MAP(X)
#undef X
        NULL};
static const char *const controlled_values[] = {"RequestsAndLimits", "RequestsOnly", NULL};

#define K(member) AT(aw__container, member)
static const struct aw_schema_field container_fields[] = {
    {.name = "name",
     .type = AW_SCHEMA_TEXT,
     .flags = AW_SCHEMA_REQUIRED,
     K(name),
     .help = "name of a container, or \"*\" for those that are not named"},
    {.name = "mode",
     .type = AW_SCHEMA_CHOICE,
     K(mode),
     .choices = container_modes,
     .initial = "Auto",
     .help = "Off leaves the container's size alone; one container can be Auto"},
    {.name = "requests",
     .type = AW_SCHEMA_OBJECT,
     .help = "bounds of its size",
     .fields = container_requests},
    {0},
};
static const struct aw_schema_field policy_fields[] = {
    {.name = "containerName",
     .type = AW_SCHEMA_TEXT,
     .flags = AW_SCHEMA_REQUIRED,
     K(name),
     .help = "name of a container, or \"*\" for those that are not named"},
    {.name = "mode",
     .type = AW_SCHEMA_CHOICE,
     K(mode),
     .choices = container_modes,
     .initial = "Auto",
     .help = "Off leaves the container's size alone; one container can be Auto"},
    ALLOWED(container_least, container_most),
    {.name = "controlledResources",
     .type = AW_SCHEMA_SET,
     K(controlled),
     .choices = resource_names,
     .initial = "cpu,memory",
     .help = "resources whose size may change; as constraints.containerControlledResources"},
    {.name = "controlledValues",
     .type = AW_SCHEMA_CHOICE,
     K(controlled_values),
     .choices = controlled_values,
     .initial = "RequestsAndLimits",
     .help = "whether limits follow the requests"},
    {0},
};

static const struct aw_schema_field scale_down_fields[] = {
    {.name = "stabilizationWindowSeconds",
     .type = AW_SCHEMA_U32,
     D(down_window_s),
     RANGE(0, 3600),
     .initial = "300",
     .help = "stabilization before the fallback's HPA removes replicas; as "
             "learning.fallback.hpaDownWindow"},
    {.name = "policies",
     .type = AW_SCHEMA_ANY,
     .flags = AW_SCHEMA_REFUSED,
     .help = "rates are limited by spec.guard, no matter who decides"},
    {.name = "selectPolicy",
     .type = AW_SCHEMA_ANY,
     .flags = AW_SCHEMA_REFUSED,
     .help = "rates are limited by spec.guard, no matter who decides"},
    {.name = "tolerance",
     .type = AW_SCHEMA_ANY,
     .flags = AW_SCHEMA_REFUSED,
     .help = "say learning.fallback.hpaTolerance, which holds both ways"},
    {0},
};
static const struct aw_schema_field behavior_fields[] = {
    {.name = "scaleDown",
     .type = AW_SCHEMA_OBJECT,
     .help = "how the fallback's HPA removes replicas",
     .fields = scale_down_fields},
    {.name = "scaleUp",
     .type = AW_SCHEMA_ANY,
     .flags = AW_SCHEMA_REFUSED,
     .help = "rates are limited by spec.guard, no matter who decides"},
    {0},
};
static const struct aw_schema_field global_fields[] = {
    {.name = "minReplicas",
     .type = AW_SCHEMA_U32,
     P(pilot.bounds.replicas_min),
     RANGE(1, AW_CLUSTER_PODS_MAX),
     .initial = "1",
     .help = "fewest replicas"},
    {.name = "maxReplicas",
     .type = AW_SCHEMA_U32,
     .flags = AW_SCHEMA_REQUIRED,
     P(pilot.bounds.replicas_max),
     RANGE(1, AW_CLUSTER_PODS_MAX),
     .help = "most replicas"},
    {.name = "behavior",
     .type = AW_SCHEMA_OBJECT,
     .help = "as in autoscaling/v2, of which one setting is used",
     .fields = behavior_fields},
    {.name = "requests",
     .type = AW_SCHEMA_ANY,
     .flags = AW_SCHEMA_REFUSED,
     .help = "nothing here bounds all replicas together; bound a replica and their number"},
    {0},
};
static const struct aw_schema_field pod_fields[] = {
    {.name = "requests",
     .type = AW_SCHEMA_OBJECT,
     .help = "bounds of a replica; with those of its container, the narrower holds",
     .fields = pod_requests},
    {0},
};
static const struct aw_schema_field constraints_fields[] = {
    {.name = "global",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "bounds of the number of replicas",
     .fields = global_fields},
    {.name = "containerControlledResources",
     .type = AW_SCHEMA_SET,
     D(controlled),
     .choices = resource_names,
     .initial = "cpu,memory",
     .help = "resources whose size may change; none for replicas alone"},
    {.name = "container",
     .type = AW_SCHEMA_LIST,
     .offset = offsetof(struct aw__profile_draft, container),
     .size = sizeof(struct aw__container),
     .count_offset = offsetof(struct aw__profile_draft, container_count),
     .count_max = AW__PROFILE_CONTAINERS_MAX,
     .help = "bounds by container; one is sized, others are left alone",
     .fields = container_fields},
    {.name = "pod", .type = AW_SCHEMA_OBJECT, .help = "bounds by replica", .fields = pod_fields},
    {0},
};

static const char *const update_modes[] = {
    "Off", "Initial", "Auto", "Recreate", "InPlaceOrRecreate", "Approve", NULL};
static const struct aw_schema_field update_fields[] = {
    {.name = "updateMode",
     .type = AW_SCHEMA_CHOICE,
     P(update_mode),
     .choices = update_modes,
     .initial = "Off",
     .help = "Off recommends only; Initial sizes new replicas; Auto acts; Recreate acts and "
             "restarts replicas for a new size; InPlaceOrRecreate resizes where the cluster can; "
             "Approve waits for a person's approval of every change. "
             "On the simulated cluster a profile that says nothing acts"},
    {0},
};

static const struct aw_schema_field recommender_fields[] = {
    {.name = "name",
     .type = AW_SCHEMA_NAME,
     .flags = AW_SCHEMA_REQUIRED,
     .size = AW_CLUSTER_NAME_MAX,
     .help = "aware or default for this one; others are left alone"},
    {0},
};

static const struct aw_schema_field resource_policy_fields[] = {
    {.name = "containerPolicies",
     .type = AW_SCHEMA_LIST,
     .offset = offsetof(struct aw__profile_draft, policy),
     .size = sizeof(struct aw__container),
     .count_offset = offsetof(struct aw__profile_draft, policy_count),
     .count_max = AW__PROFILE_CONTAINERS_MAX,
     .help = "bounds by container, as in a VerticalPodAutoscaler; a container is named here or "
             "in constraints.container, not in both",
     .fields = policy_fields},
    {0},
};

static const struct aw_schema_field threshold_fields[] = {
    {.name = "online",
     .type = AW_SCHEMA_AUTO_REAL,
     P(pilot.thresholds.online),
     .initial = "auto",
     .help = "reward per episode that the agent must be estimated to reach before it acts (T "
             "online of AWARE); auto: the fallback's own mean"},
    {.name = "serving",
     .type = AW_SCHEMA_AUTO_REAL,
     P(pilot.thresholds.serving),
     .initial = "auto",
     .help = "mean reward per episode from which it serves without exploring; auto: the "
             "fallback's own mean"},
    {.name = "variance",
     .type = AW_SCHEMA_AUTO_REAL,
     P(pilot.thresholds.deviation),
     .initial = "auto",
     .help = "highest deviation of the reward of episodes while it serves; auto: from the "
             "fallback's own"},
    {0},
};

static const char *const retraining_modes[] = {"online", "offline", NULL};
static const struct aw_schema_field retraining_fields[] = {
    {.name = "mode",
     .type = AW_SCHEMA_CHOICE,
     P(retraining),
     .choices = retraining_modes,
     .initial = "online",
     .help = "after drift: online, the agent acting and exploring; offline, the fallback acting"},
    {.name = "highStakes",
     .type = AW_SCHEMA_BOOL,
     P(high_stakes),
     .initial = "false",
     .help = "never retrain on the live workload: mode offline, and no other"},
    {0},
};

static const char *const objective_kinds[] = {"constrained", "paper", NULL};
static const struct aw_schema_field objective_fields[] = {
    {.name = "kind",
     .type = AW_SCHEMA_CHOICE,
     P(pilot.objective),
     .choices = objective_kinds,
     .initial = "constrained",
     .help = "constrained: the least cost within the SLO's budget; paper: the reward of AWARE "
             "section 2.2"},
    {.name = "sloWeight",
     .type = AW_SCHEMA_REAL,
     P(pilot.slo_weight),
     RANGE(0, 1),
     .initial = "0.5",
     .help = "weight of the SLO in the paper's reward"},
    {.name = "prices",
     .type = AW_SCHEMA_OBJECT,
     .offset = offsetof(struct aw__profile_draft, profile.pilot.prices),
     .help = "what resources cost; only their ratio matters to decisions",
     .conf = aw_price_fields},
    {0},
};

static const struct aw_schema_field agent_fields[] = {
    {.name = "name",
     .type = AW_SCHEMA_CHOICE,
     P(pilot.agent),
     .initial = "formula",
     .choices = aw_policy_names,
     .help = "formula: a policy of nine numbers, searched for on copies of the workload; network: "
             "a network, taught from the record or on copies; external: an agent of another "
             "process, which registers over gRPC; multi: agents that learned together, with one "
             "network for all workloads of a category"},
    {.name = "settings",
     .type = AW_SCHEMA_ANY_OBJECT,
     .help = "settings of that kind of agent: copies, tries, triesNear, target, errorMax; or "
             "episodes, hidden, updates, fitUpdates, batch, gamma, learningRate, reachOffline, "
             "reachOnline, method, copySteps; or deadline, strikes, forgive, probation, backoff, "
             "backoffMax"},
    {0},
};

static const char *const tasks[] = {"default", "paper", NULL};
static const struct aw_schema_field learning_fields[] = {
    {.name = "bootstrap",
     .type = AW_SCHEMA_BOOL,
     P(pilot.lifecycle.bootstrap),
     .initial = "true",
     .help = "learn from the fallback before acting (AWARE section 3.3)"},
    {.name = "thresholds",
     .type = AW_SCHEMA_OBJECT,
     .help = "when the agent may act, and when it is trusted (AWARE Alg. 1)",
     .fields = threshold_fields},
    {.name = "windowEpisodes",
     .type = AW_SCHEMA_U32,
     P(pilot.lifecycle.window),
     RANGE(2, 1000),
     .initial = "10",
     .help = "episodes over which mean and deviation are taken"},
    {.name = "retraining",
     .type = AW_SCHEMA_OBJECT,
     .help = "what happens after drift",
     .fields = retraining_fields},
    {.name = "objective",
     .type = AW_SCHEMA_OBJECT,
     .help = "what is learned for",
     .fields = objective_fields},
    {.name = "explorationBudget",
     .type = AW_SCHEMA_SHARE,
     P(pilot.watchdog.explore_violation),
     RANGE(0, 1),
     .initial = "50%",
     .help = "share of the SLO's budget that exploring may spend within its window"},
    {.name = "task",
     .type = AW_SCHEMA_CHOICE,
     P(task),
     .choices = tasks,
     .initial = "default",
     .help = "what the agent sees and does: default, or paper as in AWARE Table 1"},
    {.name = "fallback",
     .type = AW_SCHEMA_OBJECT,
     .offset = offsetof(struct aw__profile_draft, profile.pilot.fallback),
     .help = "the controller to learn from and to fall back on",
     .conf = aw_fallback_fields},
    {.name = "canary",
     .type = AW_SCHEMA_OBJECT,
     .offset = offsetof(struct aw__profile_draft, profile.pilot.canary),
     .help = "how a new policy is watched and tried beside the one in force, and rolled back",
     .conf = aw_canary_fields},
    {.name = "agent",
     .type = AW_SCHEMA_OBJECT,
     .help = "the learner and its settings",
     .fields = agent_fields},
    {.name = "model",
     .type = AW_SCHEMA_TEXT,
     P(model),
     .initial = AW_MODEL_SHELF_SHIPPED,
     .help = "what learning begins at: shipped, the model that comes with the program where there "
             "is one; none; or the path of a model that 'aware pretrain' wrote"},
    {.name = "stepSeconds",
     .type = AW_SCHEMA_REAL,
     P(pilot.step_s),
     RANGE(1, 3600),
     .initial = "15",
     .help = "time between decisions; HPA's sync period"},
    {.name = "episodeSteps",
     .type = AW_SCHEMA_U32,
     P(pilot.episode_steps),
     RANGE(2, 100000),
     .initial = "100",
     .help = "steps of an episode, which is only a boundary for counting"},
    {.name = "seed",
     .type = AW_SCHEMA_U64,
     P(seed),
     .initial = "1",
     .help = "seed of all that is left to chance"},
    {0},
};

static const struct aw_schema_field guard_fields[] = {
    {.name = "mode",
     .type = AW_SCHEMA_ANY,
     .flags = AW_SCHEMA_REFUSED,
     .help = "say it with spec.policy.updateMode"},
    {0},
};

static const struct aw_schema_field spec_fields[] = {
    {.name = "scaleTargetRef",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "what is scaled",
     .fields = target_fields},
    {.name = "goals",
     .type = AW_SCHEMA_OBJECT,
     .help = "what is wanted of it",
     .fields = goals_fields},
    {.name = "constraints",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "how far it may be scaled",
     .fields = constraints_fields},
    {.name = "policy",
     .type = AW_SCHEMA_OBJECT,
     .help = "whether and how changes are made",
     .fields = update_fields},
    {.name = "recommenders",
     .type = AW_SCHEMA_LIST,
     .offset = offsetof(struct aw__profile_draft, recommender),
     .size = AW_CLUSTER_NAME_MAX,
     .count_offset = offsetof(struct aw__profile_draft, recommender_count),
     .count_max = 1,
     .help = "who decides; none is this one",
     .fields = recommender_fields},
    {.name = "resourcePolicy",
     .type = AW_SCHEMA_OBJECT,
     .help = "bounds in the words of a VerticalPodAutoscaler",
     .fields = resource_policy_fields},
    {.name = "guard",
     .type = AW_SCHEMA_OBJECT,
     .offset = offsetof(struct aw__profile_draft, profile.pilot.guard),
     .help = "rails around every decision, no matter who takes it",
     .fields = guard_fields,
     .conf = aw_guard_fields,
     .conf_without = "mode"},
    {.name = "tenancy",
     .type = AW_SCHEMA_OBJECT,
     .help = "what it is promised of a cluster that it shares with others; on Kubernetes it has no "
             "effect yet",
     .fields = aw__tenancy_fields},
    {.name = "learning",
     .type = AW_SCHEMA_OBJECT,
     .help = "how the agent learns and when it acts",
     .fields = learning_fields},
    {0},
};

const struct aw_schema_field aw__profile_fields[] = {
    TYPE_META,
    {.name = "metadata",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "name and namespace",
     .fields = profile_metadata},
    {.name = "spec",
     .type = AW_SCHEMA_OBJECT,
     .flags = AW_SCHEMA_REQUIRED,
     .help = "target, goals, constraints and how it is learned",
     .fields = spec_fields},
    IGNORED("status", "of the cluster; not read"),
    {0},
};

const struct aw_profile_kind aw_profile_kinds[] = {
    [AW_PROFILE_KIND_MPA] = {"MultidimPodAutoscaler", "mpa",
                             "The autoscaler of a workload: its target, SLO and bounds, and how it "
                             "is learned.",
                             aw__profile_fields},
    [AW_PROFILE_KIND_APP] = {"SimulatedApplication", "app",
                             "What runs as the target of that name on the simulated cluster.",
                             aw__app_fields},
    [AW_PROFILE_KIND_CLUSTER] = {"SimulatedCluster", "cluster",
                                 "The simulated cluster itself; at most one, and none is fine.",
                                 aw__cluster_fields},
    [AW_PROFILE_KIND_TENANT] = {"Tenant", "tenant",
                                "What several workloads together are promised of a shared "
                                "cluster.",
                                aw__tenant_fields},
    {0},
};
