/* fake_apiserver_store.c - the objects of the fake API server: versions, pages, conflicts, patches.
 */
#include "doubles/fake_apiserver_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *aw__fake_status(int code, const char *reason, const char *message)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "kind", "Status", "apiVersion", "v1",
                     "status", "Failure", "reason", reason, "message", message, "code", code);
}

static const char *text_at(const json_t *json, const char *a, const char *b)
{
    const char *text = json_string_value(json_object_get(json_object_get(json, a), b));
    return text ? text : "";
}

struct aw__fake_object *aw__fake_find(struct aw_fake_apiserver *twin, const char *collection,
                                      const char *ns, const char *name)
{
    for (uint32_t i = 0; i < twin->object_count; i++) {
        struct aw__fake_object *object = &twin->objects[i];
        if (!strcmp(object->collection, collection) && !strcmp(object->ns, ns) &&
            !strcmp(object->name, name))
            return object;
    }
    return NULL;
}

static void remember(struct aw_fake_apiserver *twin, const char *type,
                     const struct aw__fake_object *object)
{
    AW_ASSERT(twin->history_count < AW__FAKE_HISTORY_MAX);
    struct aw__fake_change *change = &twin->history[twin->history_count++];
    *change = (struct aw__fake_change){.version = twin->version, .type = type};
    snprintf(change->collection, sizeof change->collection, "%s", object->collection);
    snprintf(change->ns, sizeof change->ns, "%s", object->ns);
    change->json = json_dumps(object->json, JSON_COMPACT);
    pthread_cond_broadcast(&twin->moved);
}

static void stamp(struct aw_fake_apiserver *twin, json_t *json)
{
    char version[32];
    json_t *meta = json_object_get(json, "metadata");
    snprintf(version, sizeof version, "%llu", (unsigned long long)++twin->version);
    json_object_set_new(meta, "resourceVersion", json_string(version));
}

void aw__fake_store(struct aw_fake_apiserver *twin, const char *collection, json_t *json)
{
    const char *ns = text_at(json, "metadata", "namespace");
    const char *name = text_at(json, "metadata", "name");
    struct aw__fake_object *object = aw__fake_find(twin, collection, ns, name);
    const bool fresh = !object;
    if (fresh) {
        char uid[48];
        AW_ASSERT(twin->object_count < AW__FAKE_OBJECTS_MAX);
        object = &twin->objects[twin->object_count++];
        *object = (struct aw__fake_object){0};
        snprintf(object->collection, sizeof object->collection, "%s", collection);
        snprintf(object->ns, sizeof object->ns, "%s", ns);
        snprintf(object->name, sizeof object->name, "%s", name);
        snprintf(uid, sizeof uid, "uid-%llu", (unsigned long long)twin->version + 1);
        json_object_set_new(json_object_get(json, "metadata"), "uid", json_string(uid));
    } else {
        json_object_set(json_object_get(json, "metadata"), "uid",
                        json_object_get(json_object_get(object->json, "metadata"), "uid"));
        json_decref(object->json);
    }
    stamp(twin, json);
    object->json = json;
    remember(twin, fresh ? "ADDED" : "MODIFIED", object);
}

void aw__fake_erase(struct aw_fake_apiserver *twin, struct aw__fake_object *object)
{
    stamp(twin, object->json);
    remember(twin, "DELETED", object);
    json_decref(object->json);
    *object = twin->objects[--twin->object_count];
}

static int by_key(const void *a, const void *b)
{
    const struct aw__fake_object *const *x = a, *const *y = b;
    const int order = strcmp((*x)->ns, (*y)->ns);
    return order ? order : strcmp((*x)->name, (*y)->name);
}

/* A page, in the order of the keys: tokens are "version:namespace/name" of the last item, so what
 * is deleted meanwhile shifts nothing, and they go with the history. */
json_t *aw__fake_list(struct aw_fake_apiserver *twin, const struct aw__fake_route *route,
                      uint64_t limit, const char *token, int *ret_status)
{
    static const struct aw__fake_object *found[AW__FAKE_OBJECTS_MAX]; /* under the lock */
    uint64_t version = twin->version, count = 0, taken = 0;
    const char *after = "";
    char text[256];
    if (token) {
        char *colon;
        version = strtoull(token, &colon, 10);
        after = *colon == ':' ? colon + 1 : "";
        if (version < twin->compacted) {
            *ret_status = 410;
            return aw__fake_status(410, "Expired", "The provided continue parameter is too old");
        }
    }
    for (uint32_t i = 0; i < twin->object_count; i++) {
        const struct aw__fake_object *object = &twin->objects[i];
        snprintf(text, sizeof text, "%s/%s", object->ns, object->name);
        if (!strcmp(object->collection, route->collection) &&
            (!route->ns[0] || !strcmp(object->ns, route->ns)) && strcmp(text, after) > 0)
            found[count++] = object;
    }
    qsort(found, count, sizeof *found, by_key);
    json_t *items = json_array(), *meta = json_object();
    for (; taken < count && (!limit || taken < limit); taken++)
        json_array_append_new(items, json_deep_copy(found[taken]->json));
    snprintf(text, sizeof text, "%llu", (unsigned long long)version);
    json_object_set_new(meta, "resourceVersion", json_string(text));
    if (taken < count) {
        snprintf(text, sizeof text, "%llu:%s/%s", (unsigned long long)version, found[taken - 1]->ns,
                 found[taken - 1]->name);
        json_object_set_new(meta, "continue", json_string(text));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "kind", "List", "apiVersion", "v1", "metadata", meta,
                     "items", items);
}

/* RFC 7396. */
void aw__fake_merge(json_t *target, const json_t *patch)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        if (json_is_null(value)) {
            json_object_del(target, key);
        } else if (json_is_object(value)) {
            if (!json_is_object(json_object_get(target, key)))
                json_object_set_new(target, key, json_object());
            aw__fake_merge(json_object_get(target, key), value);
        } else {
            json_object_set(target, key, value);
        }
    }
}

static json_t *scale_of(const struct aw__fake_object *object)
{
    const json_t *meta = json_object_get(object->json, "metadata");
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:O}, s:{s:O?}, s:{s:O?, s:s}}", "kind", "Scale", "apiVersion",
        "autoscaling/v1", "metadata", "namespace", object->ns, "name", object->name,
        "resourceVersion", json_object_get(meta, "resourceVersion"), "spec", "replicas",
        json_object_get(json_object_get(object->json, "spec"), "replicas"), "status", "replicas",
        json_object_get(json_object_get(object->json, "status"), "replicas"), "selector", "app=x");
}

static json_t *conflict(int *ret_status)
{
    *ret_status = 409;
    return aw__fake_status(409, "Conflict", "the object has been modified");
}

/* A body that names another version than the object's comes too late. */
static bool too_late(const struct aw__fake_object *object, const json_t *body)
{
    const char *version = text_at(body, "metadata", "resourceVersion");
    return version[0] && strcmp(version, text_at(object->json, "metadata", "resourceVersion")) != 0;
}

static json_t *patch_object(struct aw_fake_apiserver *twin, const struct aw__fake_route *route,
                            struct aw__fake_object *object, const json_t *body, int *ret_status)
{
    if (too_late(object, body))
        return conflict(ret_status);
    json_t *copy = json_deep_copy(object->json);
    if (!strcmp(route->sub, "resize")) {
        json_t *refusal = aw__fake_resize(twin, copy, body);
        if (refusal) {
            json_decref(copy);
            *ret_status = (int)json_integer_value(json_object_get(refusal, "code"));
            return refusal;
        }
    } else if (!strcmp(route->sub, "scale")) {
        aw__fake_merge(json_object_get(copy, "spec"), json_object_get(body, "spec"));
    } else if (!strcmp(route->sub, "status")) {
        json_t *only = json_pack("{s:O?}", "status", json_object_get(body, "status"));
        aw__fake_merge(copy, only);
        json_decref(only);
    } else {
        aw__fake_merge(copy, body);
    }
    if (json_equal(copy, object->json)) { /* nothing changes: no new version, as etcd does */
        json_decref(copy);
    } else {
        aw__fake_store(twin, route->collection, copy);
    }
    object = aw__fake_find(twin, route->collection, route->ns, route->name);
    return !strcmp(route->sub, "scale") ? scale_of(object) : json_deep_copy(object->json);
}

static json_t *evict(struct aw_fake_apiserver *twin, const struct aw__fake_route *route,
                     const json_t *body, int *ret_status)
{
    struct aw__fake_object *object = aw__fake_find(twin, route->collection, route->ns, route->name);
    const char *version = json_string_value(json_object_get(body, "apiVersion"));
    const json_t *uid = json_object_get(
        json_object_get(json_object_get(body, "deleteOptions"), "preconditions"), "uid");
    if (!version || strcmp(version, "policy/v1") != 0) {
        *ret_status = 400;
        return aw__fake_status(400, "BadRequest", "expected policy/v1");
    }
    if (uid && strcmp(json_string_value(uid), text_at(object->json, "metadata", "uid")) != 0)
        return conflict(ret_status);
    aw__fake_erase(twin, object);
    *ret_status = 201;
    return json_pack("{s:s, s:s}", "kind", "Status", "status", "Success");
}

json_t *aw__fake_write(struct aw_fake_apiserver *twin, const char *method,
                       const struct aw__fake_route *route, const json_t *body, int *ret_status)
{
    struct aw__fake_object *object = aw__fake_find(twin, route->collection, route->ns, route->name);
    const bool create = !strcmp(method, "POST") && !route->sub[0];
    *ret_status = 200;
    if (create) {
        const char *name = text_at(body, "metadata", "name");
        if (strstr(route->collection, "selfsubjectaccessreviews")) {
            const json_t *wanted =
                json_object_get(json_object_get(body, "spec"), "resourceAttributes");
            const char *resource = json_string_value(json_object_get(wanted, "resource"));
            *ret_status = 201;
            return json_pack("{s:{s:b}}", "status", "allowed",
                             resource && strcmp(resource, "secrets") != 0 &&
                                 strcmp(resource, twin->denied) != 0);
        }
        if (aw__fake_find(twin, route->collection, route->ns, name)) {
            *ret_status = 409;
            return aw__fake_status(409, "AlreadyExists", "already exists");
        }
        if (!name[0] || text_at(body, "metadata", "resourceVersion")[0] ||
            strcmp(text_at(body, "metadata", "namespace"), route->ns) != 0) {
            *ret_status = 400;
            return aw__fake_status(400, "BadRequest", "metadata does not fit a new object");
        }
        aw__fake_store(twin, route->collection, json_deep_copy(body));
        *ret_status = 201;
        return json_deep_copy(aw__fake_find(twin, route->collection, route->ns, name)->json);
    }
    if (!object) {
        *ret_status = 404;
        return aw__fake_status(404, "NotFound", "not found");
    }
    if (!strcmp(route->sub, "eviction") && !strcmp(method, "POST"))
        return evict(twin, route, body, ret_status);
    if (!strcmp(method, "PATCH"))
        return patch_object(twin, route, object, body, ret_status);
    if (!strcmp(method, "DELETE")) {
        aw__fake_erase(twin, object);
        return json_pack("{s:s, s:s}", "kind", "Status", "status", "Success");
    }
    if (strcmp(text_at(body, "metadata", "name"), route->name) != 0) {
        *ret_status = 400;
        return aw__fake_status(400, "BadRequest", "the name is not the path's");
    }
    if (too_late(object, body))
        return conflict(ret_status);
    json_t *copy = json_deep_copy(!strcmp(route->sub, "status") ? object->json : body);
    if (!strcmp(route->sub, "status")) /* a status is only a status */
        json_object_set(copy, "status", json_object_get(body, "status"));
    aw__fake_store(twin, route->collection, copy);
    return json_deep_copy(aw__fake_find(twin, route->collection, route->ns, route->name)->json);
}

json_t *aw__fake_read(struct aw_fake_apiserver *twin, const struct aw__fake_route *route,
                      int *ret_status)
{
    const struct aw__fake_object *object =
        aw__fake_find(twin, route->collection, route->ns, route->name);
    *ret_status = object ? 200 : 404;
    if (!object)
        return aw__fake_status(404, "NotFound", "not found");
    return !strcmp(route->sub, "scale") ? scale_of(object) : json_deep_copy(object->json);
}
