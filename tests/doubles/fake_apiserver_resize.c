/*
 * fake_apiserver_resize.c - pods/resize of the fake, as the documentation of Kubernetes 1.33 has
 * it.
 *
 * Refused: anything in the patch but names and resources of containers that are there; resources
 * other than cpu and memory; taking an amount away; a request above its limit; another class of
 * quality of service; a mirror pod; a lower memory limit unless the container restarts for it.
 * Accepted sizes stand in the spec at once. What the node says of them is the test's to choose:
 * done (the status has them), in progress, deferred or infeasible (a condition has that).
 */
#include "doubles/fake_apiserver_internal.h"

#include <string.h>

#include "base/quantity.h"

static const json_t *in(const json_t *json, const char *a, const char *b)
{
    return json_object_get(json_object_get(json, a), b);
}

/* An amount in thousandths; -1: none; -2: not an amount. */
static int64_t amount(const json_t *container, const char *list, const char *resource)
{
    const json_t *value = json_object_get(in(container, "resources", list), resource);
    int64_t milli;
    if (!value)
        return -1;
    if (json_is_integer(value))
        return (int64_t)json_integer_value(value) * 1000;
    return json_is_string(value) &&
                   aw_quantity_parse(json_string_value(value), AW_QUANTITY_MILLI,
                                     AW_QUANTITY_POSITIVE_OR_0, &milli, NULL) == AW_OK
               ? milli
               : -2;
}

static const char *const resources[] = {"cpu", "memory"};

/* The class of a pod by its containers. */
static const char *qos(const json_t *pod)
{
    bool any = false, all = true;
    size_t i;
    const json_t *container;
    json_array_foreach(in(pod, "spec", "containers"), i, container)
    {
        for (int r = 0; r < 2; r++) {
            const int64_t limit = amount(container, "limits", resources[r]);
            int64_t request = amount(container, "requests", resources[r]);
            request = request < 0 ? limit : request; /* the API's default */
            any = any || request > 0 || limit > 0;
            all = all && limit > 0 && request == limit;
        }
    }
    return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

/* Whether a patch of a container says nothing but a name and amounts of cpu and memory. */
static const char *bad_patch(const json_t *wanted)
{
    const char *key, *list, *resource;
    json_t *value, *amounts, *each;
    json_object_foreach((json_t *)(uintptr_t)wanted, key, value)
    {
        if (!strcmp(key, "name"))
            continue;
        if (strcmp(key, "resources") != 0)
            return "only the resources of containers are mutable";
        json_object_foreach(value, list, amounts)
        {
            json_object_foreach(amounts, resource, each)
            {
                if (strcmp(resource, "cpu") != 0 && strcmp(resource, "memory") != 0)
                    return "only cpu and memory resources are mutable";
                if (json_is_null(each))
                    return "resource amounts cannot be removed";
            }
        }
    }
    return NULL;
}

static const char *bad_result(const json_t *before, const json_t *after)
{
    const json_t *policies = json_object_get(after, "resizePolicy"), *policy;
    bool restarts = false;
    size_t i;
    json_array_foreach(policies, i, policy)
    {
        const char *name = json_string_value(json_object_get(policy, "resourceName"));
        const char *what = json_string_value(json_object_get(policy, "restartPolicy"));
        restarts = restarts ||
                   (name && what && !strcmp(name, "memory") && !strcmp(what, "RestartContainer"));
    }
    for (int r = 0; r < 2; r++) {
        const int64_t limit = amount(after, "limits", resources[r]);
        const int64_t request = amount(after, "requests", resources[r]);
        if (limit == -2 || request == -2)
            return "quantities must match the regular expression";
        if (limit >= 0 && request > limit)
            return "must be less than or equal to the limit";
        if (r == 1 && !restarts && limit < amount(before, "limits", resources[r]))
            return "memory limits cannot be decreased";
    }
    return NULL;
}

/* The kubelet, as far as it shows. */
static void let_node_answer(struct aw_fake_apiserver *twin, json_t *pod)
{
    static const struct {
        const char *type, *reason;
    } conditions[] = {
        [AW_FAKE_RESIZE_IN_PROGRESS] = {"PodResizeInProgress", ""},
        [AW_FAKE_RESIZE_DEFERRED] = {"PodResizePending", "Deferred"},
        [AW_FAKE_RESIZE_INFEASIBLE] = {"PodResizePending", "Infeasible"},
    };
    json_t *status = json_object_get(pod, "status"), *kept = json_array(), *condition;
    size_t i;
    if (!json_is_object(status)) {
        status = json_object();
        json_object_set_new(pod, "status", status);
    }
    json_array_foreach(json_object_get(status, "conditions"), i, condition)
    {
        const char *type = json_string_value(json_object_get(condition, "type"));
        if (type && strncmp(type, "PodResize", 9) != 0)
            json_array_append(kept, condition);
    }
    if (twin->resize != AW_FAKE_RESIZE_DONE) {
        json_array_append_new(kept, json_pack("{s:s, s:s, s:s}", "type",
                                              conditions[twin->resize].type, "status", "True",
                                              "reason", conditions[twin->resize].reason));
    } else {
        json_t *statuses = json_array(), *container;
        json_array_foreach((json_t *)(uintptr_t)in(pod, "spec", "containers"), i, container)
        {
            json_array_append_new(statuses,
                                  json_pack("{s:O, s:b, s:O?}", "name",
                                            json_object_get(container, "name"), "ready", 1,
                                            "resources", json_object_get(container, "resources")));
        }
        json_object_set_new(status, "containerStatuses", statuses);
    }
    json_object_set_new(status, "conditions", kept);
}

const char *aw__fake_resize(struct aw_fake_apiserver *twin, json_t *pod, const json_t *patch)
{
    const char *class_before = qos(pod), *refusal;
    const char *key;
    size_t i, j;
    json_t *wanted, *container, *value;
    if (in(json_object_get(pod, "metadata"), "annotations", "kubernetes.io/config.mirror"))
        return "static pods may not be resized";
    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        if (strcmp(key, "metadata") != 0 && strcmp(key, "spec") != 0)
            return "only the resources of containers are mutable";
    }
    if (json_object_size(json_object_get(patch, "spec")) != 1)
        return "only the resources of containers are mutable";
    json_array_foreach(in(patch, "spec", "containers"), i, wanted)
    {
        bool found = false;
        refusal = bad_patch(wanted);
        json_array_foreach(in(pod, "spec", "containers"), j, container)
        {
            if (refusal ||
                !json_equal(json_object_get(container, "name"), json_object_get(wanted, "name")))
                continue;
            json_t *before = json_deep_copy(container);
            found = true;
            aw__fake_merge(container, wanted);
            refusal = bad_result(before, container);
            json_decref(before);
        }
        if (refusal || !found)
            return refusal ? refusal : "containers may not be added";
    }
    if (strcmp(class_before, qos(pod)) != 0)
        return "Pod QOS Class may not change as a result of resizing";
    let_node_answer(twin, pod);
    return NULL;
}
