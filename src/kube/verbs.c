/* verbs.c - see verbs.h. */
#include "kube/verbs.h"

#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "kube/client_internal.h"

#define CONFLICT_FIRST_US 10000
#define CONFLICT_MAX_US   1000000
#define MANAGER_QUERY     "fieldManager=" AW_KUBE_MANAGER

enum aw_err aw__kube_send_ref(struct aw_kube *kube, const struct aw_kube_ref *ref,
                              const struct aw_kube_request *like, const char *query,
                              json_t **ret_object, struct aw_kube_status *ret_status,
                              struct aw_diag *diag)
{
    char path[AW_KUBE_PATH_MAX];
    struct aw_text text;
    struct aw_kube_request request = *like;
    if (ret_status)
        *ret_status = (struct aw_kube_status){0};
    aw_text_init(&text, path, sizeof path);
    enum aw_err err = aw_kube_path(&text, ref, diag);
    if (err)
        return err;
    if (query)
        aw_text_add(&text, "?%s", query);
    request.path = path;
    return aw_kube_send(kube, &request, ret_object, ret_status, diag);
}

enum aw_err aw_kube_get(struct aw_kube *kube, const struct aw_kube_ref *ref, json_t **ret_object,
                        struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    const struct aw_kube_request request = {.method = "GET"};
    return aw__kube_send_ref(kube, ref, &request, NULL, ret_object, ret_status, diag);
}

enum aw_err aw_kube_create(struct aw_kube *kube, const struct aw_kube_ref *ref,
                           const json_t *object, json_t **ret_object,
                           struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    const struct aw_kube_request request = {.method = "POST", .body = object};
    return aw__kube_send_ref(kube, ref, &request, MANAGER_QUERY, ret_object, ret_status, diag);
}

enum aw_err aw_kube_replace(struct aw_kube *kube, const struct aw_kube_ref *ref,
                            const json_t *object, json_t **ret_object,
                            struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    const struct aw_kube_request request = {.method = "PUT", .body = object};
    return aw__kube_send_ref(kube, ref, &request, MANAGER_QUERY, ret_object, ret_status, diag);
}

enum aw_err aw_kube_delete(struct aw_kube *kube, const struct aw_kube_ref *ref, const char *uid,
                           struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    json_t *body = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", "DeleteOptions");
    if (body && uid &&
        json_object_set_new(body, "preconditions", json_pack("{s:s}", "uid", uid)) != 0) {
        json_decref(body);
        body = NULL;
    }
    if (!body)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
    const struct aw_kube_request request = {.method = "DELETE", .body = body};
    enum aw_err err = aw__kube_send_ref(kube, ref, &request, NULL, NULL, ret_status, diag);
    json_decref(body);
    return err;
}

enum aw_err aw_kube_patch(struct aw_kube *kube, const struct aw_kube_ref *ref,
                          enum aw_kube_patch kind, const json_t *patch, json_t **ret_object,
                          struct aw_kube_status *ret_status, struct aw_diag *diag)
{
    static const struct {
        const char *content_type, *query;
    } kinds[] = {
        [AW_KUBE_PATCH_MERGE] = {"application/merge-patch+json", MANAGER_QUERY},
        [AW_KUBE_PATCH_STRATEGIC] = {"application/strategic-merge-patch+json", MANAGER_QUERY},
        [AW_KUBE_PATCH_JSON] = {"application/json-patch+json", MANAGER_QUERY},
        /* JSON is YAML; every server takes this type, application/apply-patch+json few */
        [AW_KUBE_PATCH_APPLY] = {"application/apply-patch+yaml", MANAGER_QUERY},
        [AW_KUBE_PATCH_APPLY_FORCE] = {"application/apply-patch+yaml", MANAGER_QUERY "&force=true"},
    };
    const struct aw_kube_request request = {
        .method = "PATCH", .content_type = kinds[kind].content_type, .body = patch};
    return aw__kube_send_ref(kube, ref, &request, kinds[kind].query, ret_object, ret_status, diag);
}

enum aw_err aw_kube_update(struct aw_kube *kube, const struct aw_kube_ref *ref,
                           enum aw_err (*change)(void *ctx, json_t *object), void *ctx,
                           struct aw_diag *diag)
{
    const struct aw_clock *clock = kube->options.clock;
    struct aw_kube_backoff backoff = {CONFLICT_FIRST_US, CONFLICT_MAX_US, 0};
    enum aw_err err = AW_OK;
    for (uint32_t tries = 1; tries <= AW_KUBE_UPDATE_ATTEMPTS_MAX; tries++) {
        json_t *object = NULL;
        err = aw_kube_get(kube, ref, &object, NULL, diag);
        if (err)
            return err;
        err = change(ctx, object);
        if (err == AW_ERR_NODATA) {
            json_decref(object);
            return AW_OK;
        }
        err = err ? err : aw_kube_replace(kube, ref, object, NULL, NULL, diag);
        json_decref(object);
        if (err != AW_ERR_CONFLICT)
            return err;
        const int64_t wait_us = aw_kube_backoff_next(&backoff, 0, &kube->rng);
        if (aw_clock_sleep_until(clock, aw_clock_monotonic_us(clock) + wait_us) != AW_OK &&
            kube->stop)
            return aw_fail(diag, AW_ERR_INTERRUPTED, "the client was told to stop");
    }
    return err;
}

static enum aw_err read_scale(json_t *body, struct aw_kube_scale *ret_scale, struct aw_diag *diag)
{
    const char *version = aw_kube_text_at(body, "metadata.resourceVersion");
    const char *selector = aw_kube_text_at(body, "status.selector");
    /* zero is left out by the server's encoder */
    const int64_t wanted = aw_kube_int_at(body, "spec.replicas", 0);
    const int64_t seen = aw_kube_int_at(body, "status.replicas", 0);
    const bool fine = !strcmp(aw_kube_text_at(body, "kind"), "Scale") && wanted >= 0 &&
                      wanted <= INT32_MAX && seen >= 0 && seen <= INT32_MAX &&
                      strlen(version) < AW_KUBE_VERSION_MAX;
    if (fine && ret_scale) {
        ret_scale->replicas_wanted = (int32_t)wanted;
        ret_scale->replicas_seen = (int32_t)seen;
        snprintf(ret_scale->resource_version, sizeof ret_scale->resource_version, "%s", version);
        /* a selector that was cut would select others: rather none */
        snprintf(ret_scale->selector, sizeof ret_scale->selector, "%s",
                 strlen(selector) < sizeof ret_scale->selector ? selector : "");
    }
    json_decref(body);
    return fine ? AW_OK : aw_fail(diag, AW_ERR_FORMAT, "expected a Scale, found something else");
}

enum aw_err aw_kube_scale_get(struct aw_kube *kube, const struct aw_kube_ref *ref,
                              struct aw_kube_scale *ret_scale, struct aw_diag *diag)
{
    struct aw_kube_ref scale = *ref;
    json_t *body = NULL;
    scale.sub = "scale";
    enum aw_err err = aw_kube_get(kube, &scale, &body, NULL, diag);
    return err ? err : read_scale(body, ret_scale, diag);
}

enum aw_err aw_kube_scale_set(struct aw_kube *kube, const struct aw_kube_ref *ref, int32_t replicas,
                              const char *resource_version, struct aw_kube_scale *ret_scale,
                              struct aw_diag *diag)
{
    struct aw_kube_ref scale = *ref;
    json_t *body = NULL, *patch = json_pack("{s:{s:i}}", "spec", "replicas", (int)replicas);
    scale.sub = "scale";
    if (patch && resource_version &&
        json_object_set_new(patch, "metadata",
                            json_pack("{s:s}", "resourceVersion", resource_version)) != 0) {
        json_decref(patch);
        patch = NULL;
    }
    if (!patch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
    enum aw_err err = aw_kube_patch(kube, &scale, AW_KUBE_PATCH_MERGE, patch, &body, NULL, diag);
    json_decref(patch);
    return err ? err : read_scale(body, ret_scale, diag);
}

enum aw_err aw_kube_evict(struct aw_kube *kube, const char *policy_version, const char *ns,
                          const char *pod, const char *uid, enum aw_kube_eviction *ret_eviction,
                          struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {
        .kind = &aw_kube_pods, .ns = ns, .name = pod, .sub = "eviction"};
    struct aw_kube_status status;
    char version[AW_KUBE_NAME_MAX];
    snprintf(version, sizeof version, "policy/%s", policy_version);
    json_t *options = uid && uid[0] ? json_pack("{s:{s:s}}", "preconditions", "uid", uid) : NULL;
    json_t *body =
        json_pack("{s:s, s:s, s:{s:s, s:s}, s:o*}", "apiVersion", version, "kind", "Eviction",
                  "metadata", "name", pod, "namespace", ns, "deleteOptions", options);
    if (!body)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
    const struct aw_kube_request request = {.method = "POST", .body = body, .once = true};
    enum aw_err err = aw__kube_send_ref(kube, &ref, &request, NULL, NULL, &status, diag);
    json_decref(body);
    if (!err || status.code == 404)
        *ret_eviction = AW_KUBE_EVICTED;
    else if (status.code == 429) /* the server also limits rates so; later is right for both */
        *ret_eviction = AW_KUBE_BLOCKED;
    else if (status.code == 409 && uid && uid[0])
        *ret_eviction = AW_KUBE_REPLACED;
    else
        return err;
    return AW_OK;
}

/* Adds "cpu": "250m" and so on, for what is not -1. */
static bool add_amounts(json_t *resources, const char *key, int64_t millicores, int64_t bytes)
{
    char text[AW_QUANTITY_TEXT_MAX];
    json_t *amounts = json_object();
    if (!amounts)
        return false;
    bool fine = true;
    if (millicores >= 0)
        fine = json_object_set_new(amounts, "cpu",
                                   json_string(aw_quantity_print_cpu(millicores, AW_QUANTITY_MILLI,
                                                                     text, sizeof text))) == 0;
    if (fine && bytes >= 0)
        fine = json_object_set_new(
                   amounts, "memory",
                   json_string(aw_quantity_print_memory(bytes, text, sizeof text))) == 0;
    if (!fine || json_object_size(amounts) == 0) {
        json_decref(amounts);
        return fine;
    }
    return json_object_set_new(resources, key, amounts) == 0;
}

enum aw_err aw_kube_resize(struct aw_kube *kube, const char *ns, const char *pod,
                           const struct aw_kube_container_size *sizes, uint32_t count,
                           json_t **ret_pod, struct aw_kube_status *ret_status,
                           struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {.kind = &aw_kube_pods, .ns = ns, .name = pod, .sub = "resize"};
    json_t *containers = json_array();
    bool fine = containers && count <= AW_KUBE_CONTAINERS_MAX;
    for (uint32_t i = 0; fine && i < count; i++) {
        json_t *resources = json_object();
        fine = resources &&
               add_amounts(resources, "requests", sizes[i].cpu_request_millicores,
                           sizes[i].memory_request_bytes) &&
               add_amounts(resources, "limits", sizes[i].cpu_limit_millicores,
                           sizes[i].memory_limit_bytes) &&
               json_array_append_new(containers, json_pack("{s:s, s:O}", "name", sizes[i].name,
                                                           "resources", resources)) == 0;
        json_decref(resources);
    }
    json_t *patch = fine ? json_pack("{s:{s:O}}", "spec", "containers", containers) : NULL;
    json_decref(containers);
    if (!patch)
        return count > AW_KUBE_CONTAINERS_MAX
                   ? aw_fail(diag, AW_ERR_LIMIT, "more than %u containers", AW_KUBE_CONTAINERS_MAX)
                   : aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
    enum aw_err err =
        aw_kube_patch(kube, &ref, AW_KUBE_PATCH_STRATEGIC, patch, ret_pod, ret_status, diag);
    json_decref(patch);
    return err;
}

enum aw_err aw_kube_may(struct aw_kube *kube, const struct aw_kube_access *access,
                        bool *ret_allowed, struct aw_diag *diag)
{
    const struct aw_kube_ref ref = {.kind = &aw_kube_access_reviews};
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s*, s:s*, s:s*}}}", "apiVersion",
                             "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
                             "resourceAttributes", "verb", access->verb, "group", access->group,
                             "resource", access->resource, "subresource", access->subresource,
                             "namespace", access->ns, "name", access->name);
    if (!body)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
    enum aw_err err = aw_kube_create(kube, &ref, body, &answer, NULL, diag);
    json_decref(body);
    if (err)
        return err;
    const json_t *allowed = aw_kube_at(answer, "status.allowed");
    if (json_is_boolean(allowed))
        *ret_allowed = json_is_true(allowed);
    else
        err = aw_fail(diag, AW_ERR_FORMAT, "expected a SelfSubjectAccessReview with a status");
    json_decref(answer);
    return err;
}
