/*
 * updater_plan.h - what may be done for one object now, and why nothing more: pure.
 *
 * The rules, in the order in which they are asked:
 *   1. The object: acts at all, the recommender has read its current version, has a recommendation
 *      of the last AW__UPDATE_STALE_US, is not frozen, no other autoscaler scales its target, and
 *      the recommended replicas are within its bounds.
 *   2. The target: is there, wants more than 0 replicas (0: a person parked it), is not in a
 *      rollout, has no container in a crash loop.
 *   3. What grows goes first. More replicas come before smaller ones, larger ones before fewer:
 *      in between there is never less of the workload than before or after.
 *   4. Nothing with pods pending, but fewer replicas: that takes the pending ones away.
 *   5. Sizes within AW__UPDATE_TOLERANCE are left alone. In place where the server can, a quarter
 *      of the pods at a time; what restarts a container is a disruption, as is an eviction.
 *   6. A disruption: one at a time per workload, every pod ready, at least
 *      AW__UPDATE_REPLICAS_MIN of them (the least of the upstream updater; with half of them as its
 *      tolerance one of two or more may go), `pause_us` after the last one; an eviction
 *      only while the webhook lives, since without it the new pod has the old size; and not when
 *      the last one had no effect.
 *
 * Call order: plan; do the steps; note what became of each.
 * Memory:     plain structs; pods and intent are borrowed. Threads: pure functions of arguments.
 *
 * A size is asked within the LimitRanges of the namespace, as the webhook gives it. A resize that
 * hangs is given up for another size: one that is deferred for less, one at which the node fails
 * (less memory than is in use) for anything else. Nobody is evicted because a node fails to shrink
 * it, nor because of a quota: the new pod would fare no better.
 *
 * The trap: a resize that the node cannot do shows in the pod's conditions while its spec already
 * has the new size. Comparing specs alone would call it done.
 */
#ifndef AW_CONTROLLER_UPDATER_PLAN_H
#define AW_CONTROLLER_UPDATER_PLAN_H

#include "controller/sizing.h"

#define AW__UPDATE_STALE_US       300000000  /* older recommendations are not acted on */
#define AW__UPDATE_SKEW_US        60000000   /* from so far ahead, a clock is wrong */
#define AW__UPDATE_TOLERANCE      0.10       /* of a request; upstream's defaultUpdateThreshold */
#define AW__UPDATE_REPLICAS_MIN   2u         /* upstream's --min-replicas */
#define AW__UPDATE_DEFERRED_US    300000000  /* deferred for longer: as good as infeasible */
#define AW__UPDATE_IN_PROGRESS_US 3600000000 /* likewise; both are upstream's */
#define AW__UPDATE_ERROR_US       300000000  /* a node fails at it for longer: told */
#define AW__UPDATE_REFUSED_US     3600000000 /* what the server refused is not asked so long */
#define AW__UPDATE_QUOTA_US       300000000  /* what a quota refused: others may give room */
#define AW__UPDATE_FRUITLESS_MAX  2u         /* evictions whose new pods had the old size */
#define AW__UPDATE_FRUITLESS_US   3600000000 /* then another try is made */
#define AW__UPDATE_STEPS_MAX      16u
#define AW__UPDATE_REFUSALS_MAX   8u
#define AW__UPDATE_PODS_MAX       1024u /* of one workload; of larger ones nothing is sized */

/* clang-format off */
/* Why nothing (more) is done. `told` reasons become the condition AbleToScale=False: they last
 * until a person does something. The other reasons pass by themselves, or say that all is well.
 *     id              word                       told   sentence */
#define AW__UPDATE_REASON_MAP(X)                                                                   \
    X(DONE,           "AsRecommended",            false, "the target is as recommended")           \
    X(GO,             "Updating",                 false, "the target becomes as recommended")      \
    X(OFF,            "Off",                      false, "the object only recommends")             \
    X(NOT_OBSERVED,   "NotObserved",              false, "the object is newer than its status")    \
    X(NONE_GIVEN,     "NoRecommendation",         false, "there is no recommendation yet")         \
    X(STALE,          "StaleRecommendation",      false, "the recommendation is too old")          \
    X(SKEW,           "ClockSkew",                true,  "the recommendation is from the future")  \
    X(FROZEN,         "Frozen",                   false, "a person ordered that nothing changes")  \
    X(CONFLICT,       AW__MPA_INTENT_CONFLICT,    true,  "another autoscaler has the same target") \
    X(OUT_OF_BOUNDS,  "OutOfBounds",              true,  "the recommendation breaks the bounds")   \
    X(NO_TARGET,      "TargetNotFound",           true,  "the target is not there")                \
    X(PARKED,         "ScaledToZero",             true,  "someone scaled the target to 0")        \
    X(ROLLOUT,        "Rollout",                  false, "the target is being rolled out")         \
    X(CRASH_LOOP,     "CrashLoop",                false, "a container of the target crash-loops")  \
    X(PENDING,        "PodsPending",              false, "pods of the target are pending")         \
    X(UNSEEN,         "PodsNotSeen",              false, "not all pods of the target are known")   \
    X(NO_CONTAINER,   "ContainerNotFound",        true,  "the container to size is not there")     \
    X(RESIZING,       "ResizeInProgress",         false, "a resize is in progress")                \
    X(DEFERRED,       "ResizeDeferred",           false, "the node has no room for it yet")        \
    X(INFEASIBLE,     "ResizeInfeasible",         true,  "the node can never hold that size")      \
    X(REFUSED,        "ResizeRefused",            true,  "the server refused that size")           \
    X(QUOTA,          "QuotaExceeded",            true,  "a ResourceQuota has no room for it")     \
    X(RESIZE_ERROR,   "ResizeError",              true,  "the node fails to do the resize")        \
    X(QOS,            "QoSClassWouldChange",      true,  "the class of the pod would change")      \
    X(NO_WEBHOOK,     "NoAdmissionWebhook",       true,  "new pods would have the old size")       \
    X(TOO_FEW,        "TooFewReplicas",           true,  "an eviction would leave no replica")     \
    X(NOT_READY,      "PodsNotReady",             false, "not all pods of the target are ready")   \
    X(SETTLING,       "Settling",                 false, "the last disruption was a moment ago")   \
    X(KEPT,           "PodsNotDisruptable",       true,  "annotations forbid to disturb its pods") \
    X(FRUITLESS,      "EvictionHadNoEffect",      true,  "replaced pods came with the old size")   \
    X(PACE,           "RateLimited",              false, "other workloads come first")             \
    X(FORBIDDEN,      "Forbidden",                true,  "the updater lacks a right")              \
    X(FAILED,         "UpdateFailed",             true,  "the server would not do it")
/* clang-format on */

enum aw__update_reason {
#define X(id, word, told, sentence) AW__UPDATE_##id,
    AW__UPDATE_REASON_MAP(X)
#undef X
        AW__UPDATE_REASONS
};
const char *aw__update_word(enum aw__update_reason reason);
const char *aw__update_sentence(enum aw__update_reason reason);
bool aw__update_told(enum aw__update_reason reason);

struct aw__update_pod {
    const char *name, *uid;
    const struct aw_kube_pod *pod;
};

/* What is remembered of an object between rounds. Zeroed is nothing. Forgetting it does no harm but
 * a pause. */
struct aw__update_memory {
    int64_t disrupted_us;               /* wall: the last eviction or restart by us; 0: never */
    int64_t evicted_for[AW__RESOURCES]; /* the size it was done for */
    uint32_t fruitless;                 /* evictions in a row for that size, without effect */
    bool judged;                        /* the last one has been looked at */
    struct {
        uint64_t pod; /* hash of its uid; 0: free */
        int64_t size[AW__RESOURCES];
        int64_t at_us;
        enum aw__update_reason reason; /* INFEASIBLE, REFUSED or QUOTA */
    } refused[AW__UPDATE_REFUSALS_MAX];
};

/* Everything that a plan is made from. */
struct aw__update_facts {
    const struct aw__mpa_intent *intent;
    const struct aw_kube_workload *target; /* NULL: not there */
    const char *conflict;                  /* another autoscaler of the target; NULL: none */
    const struct aw__update_pod *pods;     /* of the target, those that are going too */
    uint32_t pod_count;
    const struct aw__limit_range *limits; /* of the namespace; NULL: none */
    bool can_resize;                      /* the server has pods/resize */
    bool webhook_lives;                   /* new pods will be sized */
    int64_t pause_us;                     /* between two disruptions */
    int64_t now_us;                       /* wall */
};

enum aw__update_action {
    AW__UPDATE_SCALE,
    AW__UPDATE_RESIZE,         /* in place, without a restart */
    AW__UPDATE_RESIZE_RESTART, /* in place, and the container restarts: a disruption */
    AW__UPDATE_EVICT,
};

struct aw__update_step {
    enum aw__update_action action;
    uint32_t pod;                  /* in facts.pods; not for a scale */
    uint32_t container;            /* of the pod */
    int32_t replicas;              /* for a scale */
    struct aw__resources size;     /* for other steps: what the container should have */
    int64_t wanted[AW__RESOURCES]; /* and what was recommended */
};

struct aw__update_plan {
    enum aw__update_reason reason; /* GO with steps; else why there are no steps */
    uint32_t step_count;
    struct aw__update_step steps[AW__UPDATE_STEPS_MAX];
};

/* `memory` is changed: whether the last eviction helped is judged here. */
void aw__update_plan(const struct aw__update_facts *facts, struct aw__update_memory *memory,
                     struct aw__update_plan *ret_plan);

/* A step was done. */
void aw__update_done(struct aw__update_memory *memory, const struct aw__update_step *step,
                     int64_t now_us);
/* The server refused the size of a step for that pod: INFEASIBLE (its node can never hold it),
 * QUOTA, or REFUSED. */
void aw__update_refused(struct aw__update_memory *memory, const struct aw__update_step *step,
                        const char *pod_uid, enum aw__update_reason reason, int64_t now_us);

#endif
