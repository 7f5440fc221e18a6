/*
 * hpa.h - the Kubernetes Horizontal Pod Autoscaler (autoscaling/v2) as a function of a snapshot.
 *
 * Call order: aw_hpa_controller_defaults and aw_hpa_spec_defaults, fill in, check both once; then
 *             every sync period aw_hpa_decide and, when the new count was really written to
 *             the target, aw_hpa_applied.
 * Memory:     nothing is allocated. The caller owns every struct and array; the state holds no
 *             pointers and may be saved and restored as bytes (aw_hpa_state_valid checks them).
 * Threads:    pure functions of their arguments; one state has one owner.
 *
 * All metric values are in thousandths (1500 is 1.5 cores, bytes or requests), times in us.
 *
 * The trap: the base of the arithmetic is the number of pods that are ready and have a sample, not
 * the number of replicas; and utilisation is cut to a whole percentage before it is used. Both are
 * visible from outside, and both are as upstream does it. See docs/mechanisms/hpa.md.
 */
#ifndef AW_FALLBACK_HPA_H
#define AW_FALLBACK_HPA_H

#include <aware/err.h>

#define AW_HPA_METRICS_MAX             16u    /* metrics of one autoscaler */
#define AW_HPA_POLICIES_MAX            8u     /* policies of one direction */
#define AW_HPA_PODS_MAX                16384u /* pods of one workload */
#define AW_HPA_NAME_MAX                64u    /* bytes of a metric's name, with its NUL */
#define AW_HPA_REPLICAS_MAX            1000000
#define AW_HPA_WINDOW_S_MAX            3600 /* as the API server checks */
#define AW_HPA_PERIOD_S_MAX            1800 /* likewise */
#define AW_HPA_RECOMMENDATIONS_MAX     256u /* the longest window, synced every 15 s */
#define AW_HPA_EVENTS_MAX              128u /* the longest period, scaled every 15 s */
#define AW_HPA_TIME_US_MAX             ((int64_t)1 << 60) /* in either direction */
#define AW_HPA_TOLERANCE_OF_CONTROLLER (-1.0)
#define AW_HPA_WINDOW_OF_CONTROLLER    (-1)

enum aw_hpa_metric_type {
    AW_HPA_RESOURCE,
    AW_HPA_CONTAINER_RESOURCE,
    AW_HPA_PODS,
    AW_HPA_OBJECT,
    AW_HPA_EXTERNAL,
};

enum aw_hpa_target_type {
    AW_HPA_UTILIZATION,   /* percent of the request; Resource and ContainerResource */
    AW_HPA_AVERAGE_VALUE, /* thousandths per pod; every type */
    AW_HPA_VALUE,         /* thousandths in all; Object and External */
};

struct aw_hpa_metric {
    enum aw_hpa_metric_type type;
    enum aw_hpa_target_type target_type;
    char name[AW_HPA_NAME_MAX]; /* "cpu" of a resource brings the rules for starting pods */
    int64_t target;             /* percent or thousandths; positive */
};

enum aw_hpa_policy_type {
    AW_HPA_POLICY_PODS,
    AW_HPA_POLICY_PERCENT,
};

struct aw_hpa_policy {
    enum aw_hpa_policy_type type;
    int32_t value;    /* pods or percent per period; positive */
    int32_t period_s; /* 1 to AW_HPA_PERIOD_S_MAX */
};

enum aw_hpa_select {
    AW_HPA_SELECT_MAX, /* the policy that allows the largest change */
    AW_HPA_SELECT_MIN,
    AW_HPA_SELECT_DISABLED, /* never in this direction */
};

struct aw_hpa_rules {
    enum aw_hpa_select select;
    int32_t window_s; /* stabilisation; AW_HPA_WINDOW_OF_CONTROLLER (down only), or 0 and more */
    double tolerance; /* AW_HPA_TOLERANCE_OF_CONTROLLER, or 0 and more */
    uint32_t policy_count; /* at least 1 */
    struct aw_hpa_policy policies[AW_HPA_POLICIES_MAX];
};

struct aw_hpa_spec {
    int32_t replicas_min; /* 0 needs a metric of type Object or External */
    int32_t replicas_max;
    uint32_t metric_count; /* at least 1 */
    struct aw_hpa_metric metrics[AW_HPA_METRICS_MAX];
    bool has_behavior; /* without it `up` and `down` are not used */
    struct aw_hpa_rules up, down;
};

/* The flags of the controller, the same for all workloads. */
struct aw_hpa_controller {
    double tolerance;
    int64_t downscale_stabilization_us;
    int64_t cpu_initialization_us; /* a pod this young may still burn CPU only to start */
    int64_t initial_readiness_us;  /* unready since before this age: never was ready */
};

enum aw_hpa_phase {
    AW_HPA_PENDING,
    AW_HPA_RUNNING,
    AW_HPA_SUCCEEDED,
    AW_HPA_FAILED,
};

enum aw_hpa_ready {
    AW_HPA_READY_ABSENT, /* the pod has no such condition yet */
    AW_HPA_READY_TRUE,
    AW_HPA_READY_FALSE,
};

struct aw_hpa_pod {
    enum aw_hpa_phase phase;
    enum aw_hpa_ready ready;
    bool deleted; /* has a deletion timestamp */
    bool started; /* start_us is known */
    int64_t start_us;
    int64_t ready_change_us; /* when `ready` last changed */
};

/* What one metric says about one pod, its containers summed. */
struct aw_hpa_sample {
    bool present;
    bool has_request; /* Utilization alone; one container without a request: false */
    int64_t value;
    int64_t request;
    int64_t timestamp_us; /* end of the window */
    int64_t window_us;
};

/* What one metric says. A reading that could not be had is `failed`, never zero. */
struct aw_hpa_reading {
    bool failed;
    const struct aw_hpa_sample *samples; /* [pod_count]; Resource, ContainerResource and Pods */
    uint32_t stray_count; /* samples of pods that the selector does not list (any more) ... */
    int64_t stray_sum;    /* ... and their sum */
    int64_t value;        /* Object: the value; External: the sum of all */
};

struct aw_hpa_snapshot {
    int64_t now_us;
    int32_t spec_replicas;   /* scale.spec.replicas: what is asked for now */
    int32_t status_replicas; /* scale.status.replicas: what exists */
    uint32_t pod_count;
    const struct aw_hpa_pod *pods; /* [pod_count]: all that the target's selector matches */
    struct aw_hpa_reading readings[AW_HPA_METRICS_MAX]; /* one for each metric of the spec */
};

/* clang-format off */
/*    id                    as in status.conditions[].reason */
#define AW_HPA_REASON_MAP(X)                                   \
    X(NONE,                "")                                 \
    X(SUCCEEDED_GET_SCALE, "SucceededGetScale")                \
    X(READY,               "ReadyForNewScale")                 \
    X(UP_STABILIZED,       "ScaleUpStabilized")                \
    X(DOWN_STABILIZED,     "ScaleDownStabilized")              \
    X(VALID_METRIC,        "ValidMetricFound")                 \
    X(FAILED_RESOURCE,     "FailedGetResourceMetric")          \
    X(FAILED_CONTAINER,    "FailedGetContainerResourceMetric") \
    X(FAILED_PODS,         "FailedGetPodsMetric")              \
    X(FAILED_OBJECT,       "FailedGetObjectMetric")            \
    X(FAILED_EXTERNAL,     "FailedGetExternalMetric")          \
    X(DISABLED,            "ScalingDisabled")                  \
    X(WITHIN_RANGE,        "DesiredWithinRange")               \
    X(TOO_FEW,             "TooFewReplicas")                   \
    X(TOO_MANY,            "TooManyReplicas")                  \
    X(UP_LIMIT,            "ScaleUpLimit")                     \
    X(DOWN_LIMIT,          "ScaleDownLimit")                   \
    X(ABOVE_MAX,           "AboveMaxReplicas")                 \
    X(BELOW_MIN,           "BelowMinReplicas")

#define AW_HPA_FAILURE_MAP(X)                                                                   \
    X(NONE,       "no failure")                                                                 \
    X(UNREADABLE, "the metric could not be read")                                               \
    X(NO_PODS,    "no pod matches the selector of the target")                                  \
    X(NO_SAMPLES, "no pod that counts has a sample (they may be unready)")                      \
    X(NO_REQUEST, "a container has no request for the resource")                                \
    X(DISJOINT,   "no sample belongs to a pod with a request")
/* clang-format on */

enum aw_hpa_reason {
#define X(id, name) AW_HPA_REASON_##id,
    AW_HPA_REASON_MAP(X)
#undef X
        AW_HPA_REASON_COUNT
};

enum aw_hpa_failure {
#define X(id, text) AW_HPA_FAILURE_##id,
    AW_HPA_FAILURE_MAP(X)
#undef X
        AW_HPA_FAILURE_COUNT
};

/* What one metric proposes, and from what. */
struct aw_hpa_proposal {
    enum aw_hpa_failure failure; /* not NONE: nothing else is set */
    int32_t replicas;
    int32_t utilization_pct; /* Utilization alone */
    int64_t usage;           /* thousandths: average per pod, or the value for Value */
    double ratio;            /* usage over target, of the samples alone */
    uint32_t ready_count, unready_count, missing_count, ignored_count;
};

struct aw_hpa_condition {
    enum aw_hpa_reason reason; /* NONE: this decision does not say */
    bool status;
};

/* Why and what. `replicas` is the current count when nothing is to be done. */
struct aw_hpa_decision {
    int32_t replicas;
    int32_t current;
    bool rescale;       /* replicas differs from current */
    bool has_proposal;  /* metrics were read, and enough of them */
    int32_t proposed;   /* the largest proposal, before stabilisation */
    int32_t stabilized; /* after stabilisation, before limits */
    uint32_t metric;    /* index of the metric that proposed most */
    uint32_t metric_count;
    struct aw_hpa_proposal proposals[AW_HPA_METRICS_MAX];
    struct aw_hpa_condition able_to_scale;
    struct aw_hpa_condition scaling_active;
    struct aw_hpa_condition scaling_limited;
    bool scaled_to_zero;              /* upstream's fourth condition */
    enum aw_hpa_reason rescale_cause; /* ABOVE_MAX, BELOW_MIN, or NONE: the metrics */
};

/* A recommendation, or several of a short time merged: see aw_hpa_decide. */
struct aw_hpa_recommendation {
    int64_t time_us;  /* of the last */
    uint64_t span_us; /* from the first to the last */
    int32_t low, high;
};

/* A change of scale, or several of a short time merged. */
struct aw_hpa_event {
    int64_t time_us;
    uint32_t span_us;
    int32_t change; /* replicas added or removed; positive */
};

struct aw_hpa_events {
    uint64_t count;
    struct aw_hpa_event items[AW_HPA_EVENTS_MAX]; /* in no order */
};

/* All that outlives a decision. Zeroed is a fresh start. */
struct aw_hpa_state {
    uint64_t recommendation_count;
    struct aw_hpa_recommendation recommendations[AW_HPA_RECOMMENDATIONS_MAX]; /* in no order */
    struct aw_hpa_events up, down;
    uint64_t scaled_to_zero; /* 0 or 1: the present zero is of our own making */
};

/* The defaults of kube-controller-manager: 10 %, 300 s, 300 s, 30 s. */
void aw_hpa_controller_defaults(struct aw_hpa_controller *controller);
/* One replica at least, `replicas_max` at most, CPU at 80 % of the request, no behavior, and the
 * rules that upstream fills in where a behavior is present but silent. */
void aw_hpa_spec_defaults(struct aw_hpa_spec *spec, int32_t replicas_max);
/* What the API server would refuse: AW_ERR_CONFIG, `key` in the terms of the manifest. */
AW_NODISCARD enum aw_err aw_hpa_spec_check(const struct aw_hpa_spec *spec, struct aw_diag *diag);

/* Decides, and adds the raw recommendation to the state. `spec` has passed the check, and
 * `snapshot` has at most AW_HPA_PODS_MAX pods.
 *
 * Recommendations closer together than a 254th of the longest window (14.2 s for an hour, 1.2 s for
 * five minutes) share an entry, and so do changes of scale for the longest period: it counts until
 * its last member is old, so it holds back a little longer than without merging, never less. At
 * the usual sync period of 15 s nothing is ever merged. */
void aw_hpa_decide(const struct aw_hpa_controller *controller, const struct aw_hpa_spec *spec,
                   const struct aw_hpa_snapshot *snapshot, struct aw_hpa_state *state,
                   struct aw_hpa_decision *ret);
/* The target was really scaled: counts against the policies of `spec` from now on. */
void aw_hpa_applied(const struct aw_hpa_spec *spec, struct aw_hpa_state *state, int64_t now_us,
                    int32_t from, int32_t to);

/* Whether restored bytes can be a state: counts within their arrays, changes positive. */
bool aw_hpa_state_valid(const struct aw_hpa_state *state);

const char *aw_hpa_reason_name(enum aw_hpa_reason reason); /* as in status.conditions[].reason */
const char *aw_hpa_failure_text(enum aw_hpa_failure failure);

#endif
