/*
 * vpa_spec.h - what a stock VerticalPodAutoscaler says, and what is written into it: its container
 * policies, the figures of its status, its conditions.
 *
 * Call order: any.
 * Memory:     plain structs without pointers; JSON is jansson's, the caller must decref it.
 * Threads:    pure functions of their arguments.
 *
 * The trap: other controllers also write a status (FetchingHistory, ConfigDeprecated). Conditions
 * of types that are not ours are copied unchanged.
 *
 * Source: the types of autoscaling.k8s.io/v1 (kubernetes/autoscaler, vertical-pod-autoscaler).
 */
#ifndef AW_CONTROLLER_VPA_SPEC_H
#define AW_CONTROLLER_VPA_SPEC_H

#include <aware/cluster.h>

#include "fallback/vpa.h"
#include "kube/object.h"

extern const struct aw_kube_kind aw__vpa_kind; /* autoscaling.k8s.io/v1 */

#define AW__VPA_WHY_MAX 200u /* of a sentence in a condition, with its NUL */

/* One of containerPolicies. */
struct aw__vpa_rule {
    char container[AW_CLUSTER_NAME_MAX]; /* "*": of containers that have none of their own */
    bool off;                            /* mode */
    bool controls[AW_VPA_RESOURCE_COUNT];
    struct aw_vpa_policy bounds;
};
struct aw__vpa_rules {
    uint32_t count;
    struct aw__vpa_rule item[AW_VPA_CONTAINERS_MAX];
};

/* Whether spec.recommenders names `name`; an object without any name is for the stock
 * recommender. */
bool aw__vpa_is_for(const json_t *spec, const char *name);
/* AW_ERR_CONFIG with the path of what cannot be taken; AW_ERR_LIMIT. On failure zeroed. */
AW_NODISCARD enum aw_err aw__vpa_rules_read(const json_t *spec, struct aw__vpa_rules *ret,
                                            struct aw_diag *diag);
/* The rule of a container, that of "*", or one that says nothing; never NULL. */
const struct aw__vpa_rule *aw__vpa_rule_of(const struct aw__vpa_rules *rules,
                                           const char *container);

enum aw__vpa_figure {
    AW__VPA_TARGET,
    AW__VPA_LOWER,
    AW__VPA_UPPER,
    AW__VPA_UNCAPPED,
    AW__VPA_FIGURES,
};

/* One of containerRecommendations. */
struct aw__vpa_advice {
    char container[AW_CLUSTER_NAME_MAX];
    int64_t amount[AW__VPA_FIGURES][AW_VPA_RESOURCE_COUNT]; /* -1: not said */
};
struct aw__vpa_advices {
    uint32_t count;
    struct aw__vpa_advice item[AW_VPA_CONTAINERS_MAX]; /* by container */
};

/* Of a status; what cannot be understood counts as missing. */
void aw__vpa_advices_read(const json_t *status, struct aw__vpa_advices *ret);
/* NULL: none of that name. */
const struct aw__vpa_advice *aw__vpa_advice_of(const struct aw__vpa_advices *advices,
                                               const char *container);
/* Puts one in its place; one of the same name is replaced. False: there is no room. */
bool aw__vpa_advices_put(struct aw__vpa_advices *advices, const struct aw__vpa_advice *advice);
/* Within the bounds and resources of a rule. `floor` (-1: none) is what the target is not below
 * unless the rule says so. */
void aw__vpa_advice_make(const struct aw_vpa_recommendation *from, const struct aw__vpa_rule *rule,
                         const int64_t floor[AW_VPA_RESOURCE_COUNT],
                         struct aw__vpa_advice *ret_advice);
/* A figure that stands, under a rule that may have changed since. False: the rule takes it away. */
bool aw__vpa_advice_keep(const struct aw__vpa_advice *was, const struct aw__vpa_rule *rule,
                         struct aw__vpa_advice *ret_advice);

/* How much of a difference there is: the target or the containers, a bound by more than
 * `deadband`, any figure at all. */
enum aw__vpa_difference { AW__VPA_SAME, AW__VPA_WORDS, AW__VPA_NEWS };
enum aw__vpa_difference aw__vpa_advices_differ(const struct aw__vpa_advices *written,
                                               const struct aw__vpa_advices *now, double deadband);

/* The conditions that are ours to set; each True or gone, but for RecommendationProvided. */
struct aw__vpa_conditions {
    bool provided, low_confidence, no_pods, unsupported;
    const char *provided_reason; /* why not; "" where it is */
    char why[AW__VPA_WHY_MAX];   /* of what is unsupported, or not provided */
};
/* The list of conditions by type: those of `status` that are not ours, and ours with the times of
 * their last change. NULL: no memory. */
json_t *aw__vpa_conditions_json(const json_t *status, const struct aw__vpa_conditions *conditions,
                                int64_t now_us);
/* The value of `status` for a merge patch. Takes `conditions`. NULL: no memory. */
json_t *aw__vpa_status_json(const struct aw__vpa_advices *advices, json_t *conditions,
                            int64_t generation);

#endif
