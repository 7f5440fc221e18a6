/*
 * fake_apiserver_resize.c - pods/resize of the fake, as Kubernetes 1.36 does it.
 *
 * 422, by validation: resources other than cpu and memory; taking an amount away; a request above
 * its limit; another class of quality of service; a mirror pod; containers that are not there; a
 * node that does not know resizes (a container that runs, and whose status names no resources).
 * 403, by admission: more than the node can ever give; what breaks a LimitRange.
 * Other fields of a patch are dropped without a word. Less memory is taken, below what is used too:
 * the node then fails at it (1.33 refused a lower memory limit; that is no longer so).
 *
 * Accepted sizes stand in the spec at once. What the node says of them is the test's to choose:
 * done (the status has them), in progress, failing, deferred or infeasible (a condition has that).
 * Quotas are not counted here: a test that wants their word has a fault say it.
 */
#include "doubles/fake_apiserver_internal.h"

#include <stdio.h>
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

/* Whether a patch of a container leaves alone what cannot change. */
static const char *bad_patch(const json_t *wanted)
{
    const char *list, *resource;
    json_t *amounts, *each;
    json_object_foreach(json_object_get(wanted, "resources"), list, amounts)
    {
        json_object_foreach(amounts, resource, each)
        {
            if (strcmp(resource, "cpu") != 0 && strcmp(resource, "memory") != 0)
                return "only cpu and memory resources are mutable";
            if (json_is_null(each))
                return "resource limits cannot be removed";
        }
    }
    return NULL;
}

static const char *bad_result(const json_t *after)
{
    for (int r = 0; r < 2; r++) {
        const int64_t limit = amount(after, "limits", resources[r]);
        const int64_t request = amount(after, "requests", resources[r]);
        if (limit == -2 || request == -2)
            return "quantities must match the regular expression";
        if (limit >= 0 && request > limit)
            return "must be less than or equal to the limit";
    }
    return NULL;
}

static json_t *forbidden(const json_t *pod, const char *why)
{
    char text[AW__FAKE_TEXT_MAX];
    const char *name = json_string_value(in(pod, "metadata", "name"));
    snprintf(text, sizeof text, "pods \"%s\" is forbidden: %s", name ? name : "", why);
    return aw__fake_status(403, "Forbidden", text);
}

static json_t *invalid(const char *why)
{
    return aw__fake_status(422, "Invalid", why);
}

/* The admission plugin PodResize: whether the node could ever hold all of the pod. */
static json_t *beyond_node(const struct aw_fake_apiserver *twin, const json_t *pod)
{
    char why[192];
    size_t i;
    const json_t *container;
    for (int r = 0; r < 2; r++) {
        int64_t sum = 0;
        json_array_foreach(in(pod, "spec", "containers"), i, container)
        {
            const int64_t request = amount(container, "requests", resources[r]);
            sum += request > 0 ? request : 0;
        }
        const int64_t there = twin->allocatable_milli[r], unit = r == 0 ? 1 : 1000;
        if (there < 0 || sum <= there)
            continue;
        snprintf(why, sizeof why,
                 "node didn't have enough allocatable resources: %s, requested: %lld, allocatable: "
                 "%lld",
                 resources[r], (long long)(sum / unit), (long long)(there / unit));
        return forbidden(pod, why);
    }
    return NULL;
}

/* LimitRanger, as far as bounds of a container go: `max` of limits, `min` of requests. */
static json_t *beyond_range(struct aw_fake_apiserver *twin, const json_t *pod)
{
    const char *ns = json_string_value(in(pod, "metadata", "namespace"));
    size_t i, j;
    const json_t *item, *container;
    char why[128];
    for (uint32_t o = 0; ns && o < twin->object_count; o++) {
        const struct aw__fake_object *object = &twin->objects[o];
        if (strcmp(object->collection, "/api/v1/limitranges") != 0 || strcmp(object->ns, ns) != 0)
            continue;
        json_array_foreach(in(object->json, "spec", "limits"), i, item)
        {
            const char *type = json_string_value(json_object_get(item, "type"));
            json_t *as_container = json_pack("{s:O}", "resources", item);
            json_array_foreach(in(pod, "spec", "containers"), j, container)
            {
                for (int r = 0; type && !strcmp(type, "Container") && r < 2; r++) {
                    const int64_t max = amount(as_container, "max", resources[r]);
                    const int64_t min = amount(as_container, "min", resources[r]);
                    const int64_t limit = amount(container, "limits", resources[r]);
                    const int64_t request = amount(container, "requests", resources[r]);
                    const bool over = max >= 0 && limit > max;
                    if (!over && (min < 0 || request >= min))
                        continue;
                    snprintf(why, sizeof why, "%s %s usage per Container is another",
                             over ? "maximum" : "minimum", resources[r]);
                    json_decref(as_container);
                    return forbidden(pod, why);
                }
            }
            json_decref(as_container);
        }
    }
    return NULL;
}

/* A node from before resizes: its kubelet names no resources in the status. */
static bool old_node(const json_t *pod)
{
    size_t i;
    const json_t *status;
    json_array_foreach(in(pod, "status", "containerStatuses"), i, status)
    {
        if (in(status, "state", "running"))
            return !json_object_get(status, "resources");
    }
    return false;
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
        [AW_FAKE_RESIZE_ERROR] = {"PodResizeInProgress", "Error"},
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

json_t *aw__fake_resize(struct aw_fake_apiserver *twin, json_t *pod, const json_t *patch)
{
    const char *class_before = qos(pod), *refusal;
    size_t i, j;
    json_t *wanted, *container, *status;
    if (in(json_object_get(pod, "metadata"), "annotations", "kubernetes.io/config.mirror"))
        return invalid("static pods cannot be resized");
    if (old_node(pod))
        return invalid("Pod running on node without support for resize");
    json_array_foreach(in(patch, "spec", "containers"), i, wanted)
    {
        bool found = false;
        refusal = bad_patch(wanted);
        json_array_foreach(in(pod, "spec", "containers"), j, container)
        {
            if (refusal ||
                !json_equal(json_object_get(container, "name"), json_object_get(wanted, "name")))
                continue;
            json_t *only = json_pack("{s:O?}", "resources", json_object_get(wanted, "resources"));
            found = true;
            if (json_object_get(wanted, "resources"))
                aw__fake_merge(container, only);
            json_decref(only);
            refusal = bad_result(container);
        }
        if (refusal || !found)
            return invalid(refusal ? refusal : "containers may not be added or removed on resize");
    }
    if (strcmp(class_before, qos(pod)) != 0)
        return invalid("Pod QOS Class may not change as a result of resizing");
    status = beyond_range(twin, pod);
    status = status ? status : beyond_node(twin, pod);
    if (!status)
        let_node_answer(twin, pod);
    return status;
}
