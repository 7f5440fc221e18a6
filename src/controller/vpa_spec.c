/* vpa_spec.c - see vpa_spec.h. */
#include "controller/vpa_spec.h"

#include "base/quantity.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct aw_kube_kind aw__vpa_kind = {.group = "autoscaling.k8s.io",
                                          .version = "v1",
                                          .plural = "verticalpodautoscalers",
                                          .kind = "VerticalPodAutoscaler",
                                          .namespaced = true};

/* --- what it says ----------------------------------------------------------------------------- */

bool aw__vpa_is_for(const json_t *spec, const char *name)
{
    const json_t *recommenders = json_object_get(spec, "recommenders"), *one;
    size_t i;
    json_array_foreach(recommenders, i, one)
    {
        if (!strcmp(aw_kube_text_at(one, "name"), name))
            return true;
    }
    return false;
}

/* An amount is text or a number: both are quantities to the API. */
static enum aw_err amount_read(const json_t *amounts, enum aw_vpa_resource resource, int64_t *ret,
                               struct aw_diag *diag)
{
    const json_t *value = json_object_get(amounts, aw_vpa_resource_name(resource));
    char number[AW_QUANTITY_TEXT_MAX];
    const char *text = json_string_value(value);
    if (!value || json_is_null(value))
        return AW_OK;
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(number, sizeof number, "%.6f", json_number_value(value));
    if (!text && !json_is_number(value))
        return aw_fail(diag, AW_ERR_FORMAT, "expected an amount");
    text = text ? text : number;
    return resource == AW_VPA_CPU ? aw_quantity_parse_cpu(text, ret, diag)
                                  : aw_quantity_parse_memory(text, ret, diag);
}

static enum aw_err bounds_read(const json_t *policy, size_t which, struct aw_vpa_policy *ret,
                               struct aw_diag *diag)
{
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        const enum aw_vpa_resource resource = (enum aw_vpa_resource)r;
        struct aw_diag why = {0};
        enum aw_err err = amount_read(json_object_get(policy, "minAllowed"), resource,
                                      &ret->min_allowed[r], &why);
        err = err ? err
                  : amount_read(json_object_get(policy, "maxAllowed"), resource,
                                &ret->max_allowed[r], &why);
        if (err)
            return aw_fail(diag, AW_ERR_CONFIG,
                           "resourcePolicy.containerPolicies[%zu]: minAllowed or maxAllowed of %s: "
                           "%s",
                           which, aw_vpa_resource_name(resource), why.text);
    }
    return AW_OK;
}

/* Both where nothing is said; what is named and not known is somebody else's. */
static void controls_read(const json_t *policy, bool ret[AW_VPA_RESOURCE_COUNT])
{
    const json_t *named = json_object_get(policy, "controlledResources"), *one;
    size_t i;
    ret[AW_VPA_CPU] = ret[AW_VPA_MEMORY] = !json_is_array(named);
    json_array_foreach(named, i, one)
    {
        for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
            if (json_is_string(one) &&
                !strcmp(json_string_value(one), aw_vpa_resource_name((enum aw_vpa_resource)r)))
                ret[r] = true;
    }
}

enum aw_err aw__vpa_rules_read(const json_t *spec, struct aw__vpa_rules *ret, struct aw_diag *diag)
{
    const json_t *policies = aw_kube_at(spec, "resourcePolicy.containerPolicies"), *policy;
    enum aw_err err = AW_OK;
    size_t i;
    ret->count = 0;
    if (json_array_size(policies) > AW_VPA_CONTAINERS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "more than %u container policies",
                       AW_VPA_CONTAINERS_MAX);
    json_array_foreach(policies, i, policy)
    {
        struct aw__vpa_rule *rule = &ret->item[ret->count];
        const char *name = aw_kube_text_at(policy, "containerName");
        *rule = (struct aw__vpa_rule){.off = !strcmp(aw_kube_text_at(policy, "mode"), "Off")};
        snprintf(rule->container, sizeof rule->container, "%s", *name ? name : "*");
        controls_read(policy, rule->controls);
        err = bounds_read(policy, i, &rule->bounds, diag);
        if (err)
            break;
        ret->count++;
    }
    if (err)
        ret->count = 0;
    return err;
}

const struct aw__vpa_rule *aw__vpa_rule_of(const struct aw__vpa_rules *rules, const char *container)
{
    static const struct aw__vpa_rule nothing = {.controls = {true, true}};
    const struct aw__vpa_rule *others = &nothing;
    for (uint32_t i = 0; i < rules->count; i++) {
        if (!strcmp(rules->item[i].container, container))
            return &rules->item[i];
        if (!strcmp(rules->item[i].container, "*"))
            others = &rules->item[i];
    }
    return others;
}

/* --- what is recommended ---------------------------------------------------------------------- */

static const char *const figure_names[AW__VPA_FIGURES] = {"target", "lowerBound", "upperBound",
                                                          "uncappedTarget"};

static void advice_clear(struct aw__vpa_advice *advice, const char *container)
{
    memset(advice, 0xff, sizeof *advice);
    snprintf(advice->container, sizeof advice->container, "%s", container);
}

void aw__vpa_advices_read(const json_t *status, struct aw__vpa_advices *ret)
{
    const json_t *list = aw_kube_at(status, "recommendation.containerRecommendations"), *item;
    size_t i;
    ret->count = 0;
    json_array_foreach(list, i, item)
    {
        struct aw__vpa_advice advice;
        const char *name = aw_kube_text_at(item, "containerName");
        if (!*name || strlen(name) >= sizeof advice.container)
            continue;
        advice_clear(&advice, name);
        for (int f = 0; f < AW__VPA_FIGURES; f++)
            for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
                (void)!amount_read(json_object_get(item, figure_names[f]), (enum aw_vpa_resource)r,
                                   &advice.amount[f][r], NULL);
        (void)!aw__vpa_advices_put(ret, &advice);
    }
}

const struct aw__vpa_advice *aw__vpa_advice_of(const struct aw__vpa_advices *advices,
                                               const char *container)
{
    for (uint32_t i = 0; i < advices->count; i++)
        if (!strcmp(advices->item[i].container, container))
            return &advices->item[i];
    return NULL;
}

bool aw__vpa_advices_put(struct aw__vpa_advices *advices, const struct aw__vpa_advice *advice)
{
    uint32_t at = 0;
    while (at < advices->count && strcmp(advices->item[at].container, advice->container) < 0)
        at++;
    const bool same =
        at < advices->count && !strcmp(advices->item[at].container, advice->container);
    if (!same && advices->count == AW_VPA_CONTAINERS_MAX)
        return false;
    if (!same) {
        memmove(&advices->item[at + 1], &advices->item[at],
                (advices->count - at) * sizeof *advices->item);
        advices->count++;
    }
    advices->item[at] = *advice;
    return true;
}

/* The maximum has the last word, as in vpa.c. */
static int64_t within(const struct aw_vpa_policy *bounds, int r, int64_t amount)
{
    if (amount < bounds->min_allowed[r])
        amount = bounds->min_allowed[r];
    return bounds->max_allowed[r] > 0 && amount > bounds->max_allowed[r] ? bounds->max_allowed[r]
                                                                         : amount;
}

void aw__vpa_advice_make(const struct aw_vpa_recommendation *from, const struct aw__vpa_rule *rule,
                         const int64_t floor[AW_VPA_RESOURCE_COUNT],
                         struct aw__vpa_advice *ret_advice)
{
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        int64_t uncapped = from->uncapped_target[r], target = from->target[r];
        if (!rule->controls[r]) {
            for (int f = 0; f < AW__VPA_FIGURES; f++)
                ret_advice->amount[f][r] = -1;
            continue;
        }
        if (floor[r] > uncapped) {
            uncapped = floor[r];
            target = within(&rule->bounds, r, uncapped);
        }
        ret_advice->amount[AW__VPA_TARGET][r] = target;
        ret_advice->amount[AW__VPA_UNCAPPED][r] = uncapped;
        ret_advice->amount[AW__VPA_LOWER][r] = from->lower[r];
        ret_advice->amount[AW__VPA_UPPER][r] = from->upper[r] > target ? from->upper[r] : target;
    }
}

bool aw__vpa_advice_keep(const struct aw__vpa_advice *was, const struct aw__vpa_rule *rule,
                         struct aw__vpa_advice *ret_advice)
{
    bool any = false;
    *ret_advice = *was;
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        for (int f = 0; f < AW__VPA_FIGURES; f++) {
            int64_t *amount = &ret_advice->amount[f][r];
            if (!rule->controls[r])
                *amount = -1;
            else if (*amount >= 0 && f != AW__VPA_UNCAPPED)
                *amount = within(&rule->bounds, r, *amount);
            any = any || *amount >= 0;
        }
    return any && !rule->off;
}

enum aw__vpa_difference aw__vpa_advices_differ(const struct aw__vpa_advices *written,
                                               const struct aw__vpa_advices *now, double deadband)
{
    enum aw__vpa_difference difference = AW__VPA_SAME;
    if (written->count != now->count)
        return AW__VPA_NEWS;
    for (uint32_t i = 0; i < now->count; i++) {
        const struct aw__vpa_advice *a = &written->item[i], *b = &now->item[i];
        if (strcmp(a->container, b->container) != 0)
            return AW__VPA_NEWS;
        for (int f = 0; f < AW__VPA_FIGURES; f++)
            for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
                const int64_t from = a->amount[f][r], to = b->amount[f][r];
                if (from == to)
                    continue;
                if (f == AW__VPA_TARGET || from < 0 || to < 0 ||
                    fabs((double)to - (double)from) > deadband * (double)from)
                    return AW__VPA_NEWS;
                difference = AW__VPA_WORDS;
            }
    }
    return difference;
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static json_t *advice_json(const struct aw__vpa_advice *advice)
{
    json_t *value = json_pack("{s:s}", "containerName", advice->container);
    for (int f = 0; f < AW__VPA_FIGURES; f++) {
        json_t *amounts = json_object();
        for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
            const int64_t amount = advice->amount[f][r];
            char text[AW_QUANTITY_TEXT_MAX];
            if (amount < 0)
                continue;
            if (r == AW_VPA_CPU)
                aw_quantity_print_cpu(amount, AW_QUANTITY_MILLI, text, sizeof text);
            else
                snprintf(text, sizeof text, "%" PRId64, amount);
            json_object_set_new(amounts, aw_vpa_resource_name((enum aw_vpa_resource)r),
                                json_string(text));
        }
        if (json_object_size(amounts) > 0)
            json_object_set(value, figure_names[f], amounts);
        json_decref(amounts);
    }
    return value;
}

/* Whole seconds, as metav1.Time has them. */
static json_t *time_json(int64_t us)
{
    char text[AW_KUBE_TIME_MAX];
    aw_kube_time_print(us - us % 1000000, text, sizeof text);
    char *dot = strchr(text, '.');
    if (dot)
        memcpy(dot, "Z", 2);
    return json_string(text);
}

static const char *const our_types[] = {"ConfigUnsupported", "LowConfidence", "NoPodsMatched",
                                        "RecommendationProvided"};
#define OUR_TYPES   (sizeof our_types / sizeof *our_types)
#define FOREIGN_MAX 16u /* conditions of others that are carried over; there are three types */

static bool is_ours(const char *type)
{
    for (size_t i = 0; i < OUR_TYPES; i++)
        if (!strcmp(type, our_types[i]))
            return true;
    return false;
}

static json_t *condition_json(const json_t *list, const char *type, bool holds, const char *reason,
                              const char *message, int64_t now_us)
{
    const char *status = holds ? "True" : "False";
    const json_t *was, *since = NULL;
    size_t i;
    json_array_foreach(list, i, was)
    {
        if (!strcmp(aw_kube_text_at(was, "type"), type) &&
            !strcmp(aw_kube_text_at(was, "status"), status))
            since = json_object_get(was, "lastTransitionTime");
    }
    json_t *value = json_pack("{s:s,s:s,s:o}", "type", type, "status", status, "lastTransitionTime",
                              json_is_string(since) ? json_deep_copy(since) : time_json(now_us));
    if (*reason)
        json_object_set_new(value, "reason", json_string(reason));
    if (*message)
        json_object_set_new(value, "message", json_string(message));
    return value;
}

static int by_type(const void *a, const void *b)
{
    const json_t *const *one = a, *const *other = b;
    return strcmp(aw_kube_text_at(*one, "type"), aw_kube_text_at(*other, "type"));
}

json_t *aw__vpa_conditions_json(const json_t *status, const struct aw__vpa_conditions *conditions,
                                int64_t now_us)
{
    const struct {
        bool there, holds;
        const char *reason, *message;
    } ours[OUR_TYPES] = {
        {conditions->unsupported, true, "Unsupported", conditions->why},
        {conditions->low_confidence, true, "ShortHistory",
         "some containers have been seen for less than a day"},
        {conditions->no_pods, true, "NoPodsMatched", "No pods match this VPA object"},
        {true, conditions->provided, conditions->provided ? "" : conditions->provided_reason,
         conditions->provided ? "" : conditions->why},
    };
    const json_t *list = json_object_get(status, "conditions");
    json_t *sorted[FOREIGN_MAX + OUR_TYPES], *result = json_array();
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list) && count < FOREIGN_MAX; i++) {
        json_t *one = json_array_get(list, i);
        if (!is_ours(aw_kube_text_at(one, "type")))
            sorted[count++] = json_incref(one);
    }
    for (size_t i = 0; i < OUR_TYPES; i++)
        if (ours[i].there)
            sorted[count++] = condition_json(list, our_types[i], ours[i].holds, ours[i].reason,
                                             ours[i].message, now_us);
    qsort(sorted, count, sizeof(json_t *), by_type);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(result, sorted[i]);
    if (json_array_size(result) == count)
        return result;
    json_decref(result);
    return NULL;
}

json_t *aw__vpa_status_json(const struct aw__vpa_advices *advices, json_t *conditions,
                            int64_t generation)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < advices->count; i++)
        json_array_append_new(list, advice_json(&advices->item[i]));
    if (json_array_size(list) != advices->count || !conditions) {
        json_decref(list);
        json_decref(conditions);
        return NULL;
    }
    json_t *recommendation =
        advices->count > 0 ? json_pack("{s:o}", "containerRecommendations", list) : json_null();
    if (advices->count == 0)
        json_decref(list);
    json_t *status =
        json_pack("{s:o,s:o}", "recommendation", recommendation, "conditions", conditions);
    if (status && generation > 0)
        json_object_set_new(status, "observedGeneration", json_integer(generation));
    return status;
}
