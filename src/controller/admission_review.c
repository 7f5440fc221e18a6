/* admission_review.c - see admission_review.h. */
#include "controller/admission_review.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

#define RECORD_MAX     65536u /* of a pod, as it is kept in a cache */
#define POINTER_MAX    128u
#define HASH_LABEL     "metadata.labels[pod-template-hash]"
#define ANNOTATION_PTR "/metadata/annotations/autoscaling.aware.dev~1sized" /* RFC 6901 */

/* --- whose pod is it? --- */

/* The Deployment of a ReplicaSet that nobody has seen yet: the set is named after it and the hash
 * of its template, and its pods carry that hash. */
static bool deployment_by_hash(const json_t *pod, const char *set, char *buf, size_t size)
{
    const char *hash = aw_kube_text_at(pod, HASH_LABEL);
    const size_t set_len = strlen(set), hash_len = strlen(hash);
    if (hash_len == 0 || set_len <= hash_len + 1 || set[set_len - hash_len - 1] != '-' ||
        strcmp(set + set_len - hash_len, hash) != 0 || set_len - hash_len - 1 >= size)
        return false;
    snprintf(buf, size, "%.*s", (int)(set_len - hash_len - 1), set);
    return true;
}

/* The object that sizes a pod: by its owner, or by the owner's owner. */
static const struct aw__mpa_intent *find_intent(const struct aw__review_world *world,
                                                const char *ns, const json_t *pod,
                                                const char **ret_name)
{
    const json_t *owner = aw_kube_at(pod, "metadata.ownerReferences[controller=true]");
    const char *version = aw_kube_text_at(owner, "apiVersion");
    const char *kind = aw_kube_text_at(owner, "kind"), *name = aw_kube_text_at(owner, "name");
    char key[AW__TARGET_MAX], guess[AW_KUBE_NAME_MAX];
    const struct aw__mpa_intent *intent = NULL;
    if (!owner || !aw_kube_name_valid(name) || !aw_kube_name_valid(ns))
        return NULL;
    if (!strcmp(kind, aw_kube_replicasets.kind)) {
        const char *deployment = world->deployment(world->ctx, ns, name);
        if (!deployment && deployment_by_hash(pod, name, guess, sizeof guess))
            deployment = guess;
        if (deployment)
            intent = world->intent(
                world->ctx,
                aw__target_key(ns, version, aw_kube_deployments.kind, deployment, key, sizeof key),
                ret_name);
    }
    return intent
               ? intent
               : world->intent(world->ctx, aw__target_key(ns, version, kind, name, key, sizeof key),
                               ret_name);
}

static bool may_size(const struct aw__mpa_intent *intent)
{
    return aw__mpa_intent_admits(aw__mpa_intent_mode(intent)) && intent->time_us != 0 &&
           intent->generation_seen == intent->generation &&
           !(!strcmp(aw_kube_span_text(intent, intent->able), "False") &&
             !strcmp(aw_kube_span_text(intent, intent->able_reason), AW__MPA_INTENT_CONFLICT));
}

/* --- the patch --- */

/* Adds {"op":"add","path":..,"value":..}; takes `value`. */
static bool add(json_t *patch, const char *pointer, json_t *value)
{
    json_t *op =
        value ? json_pack("{s:s, s:s, s:o}", "op", "add", "path", pointer, "value", value) : NULL;
    return op && json_array_append_new(patch, op) == 0;
}

static const char *const names[AW__RESOURCES] = {"cpu", "memory"};

/* The amounts of one list, "requests" or "limits", that differ. Whole objects are added where there
 * are none: RFC 6902 adds only to what exists. */
static bool patch_list(json_t *patch, const json_t *container, uint32_t index, const char *list,
                       const int64_t now[AW__RESOURCES], const int64_t size[AW__RESOURCES])
{
    const json_t *resources = json_object_get(container, "resources");
    bool there = json_is_object(json_object_get(resources, list));
    char pointer[POINTER_MAX], text[AW_QUANTITY_TEXT_MAX];
    for (int r = 0; r < AW__RESOURCES; r++) {
        if (size[r] < 0 || size[r] == now[r])
            continue;
        if (!there) {
            snprintf(pointer, sizeof pointer, "/spec/containers/%u/resources/%s", index, list);
            if (!add(patch, pointer, json_object()))
                return false;
            there = true;
        }
        if (r == AW__CPU)
            aw_quantity_print_cpu(size[r], AW_QUANTITY_MILLI, text, sizeof text);
        else
            aw_quantity_print_memory(size[r], text, sizeof text);
        snprintf(pointer, sizeof pointer, "/spec/containers/%u/resources/%s/%s", index, list,
                 names[r]);
        if (!add(patch, pointer, json_string(text)))
            return false;
    }
    return true;
}

static json_t *explanation(const struct aw__mpa_intent *intent, const char *name,
                           const char *container, const struct aw__resources *size)
{
    char text[512], cpu[AW_QUANTITY_TEXT_MAX] = "-", memory[AW_QUANTITY_TEXT_MAX] = "-";
    if (size->request[AW__CPU] >= 0)
        aw_quantity_print_cpu(size->request[AW__CPU], AW_QUANTITY_MILLI, cpu, sizeof cpu);
    if (size->request[AW__MEMORY] >= 0)
        aw_quantity_print_memory(size->request[AW__MEMORY], memory, sizeof memory);
    snprintf(text, sizeof text, "%.63s: cpu %s, memory %s; decision %.63s of %.200s", container,
             cpu, memory, aw_kube_span_text(intent, intent->decision), name);
    return json_string(text);
}

/* NULL: no memory. An empty patch: it fits already. */
static json_t *make_patch(const json_t *pod, uint32_t index, const struct aw__resources *now,
                          const struct aw__resources *size, const struct aw__mpa_intent *intent,
                          const char *name)
{
    const json_t *container = json_array_get(aw_kube_at(pod, "spec.containers"), index);
    json_t *patch = json_array();
    char pointer[POINTER_MAX];
    if (!patch || !memcmp(now, size, sizeof *now))
        return patch;
    bool fine = true;
    if (!json_is_object(json_object_get(container, "resources"))) {
        snprintf(pointer, sizeof pointer, "/spec/containers/%u/resources", index);
        fine = add(patch, pointer, json_object());
    }
    fine = fine && patch_list(patch, container, index, "requests", now->request, size->request) &&
           patch_list(patch, container, index, "limits", now->limit, size->limit);
    if (fine && !json_is_object(aw_kube_at(pod, "metadata.annotations")))
        fine = add(patch, "/metadata/annotations", json_object());
    fine = fine && add(patch, ANNOTATION_PTR,
                       explanation(intent, name, aw_kube_text_at(container, "name"), size));
    if (!fine) {
        json_decref(patch);
        return NULL;
    }
    return patch;
}

/* The patch of a pod; NULL with a verdict: nothing is to be done. */
static json_t *size_pod(const json_t *pod, const char *ns, const struct aw__review_world *world,
                        enum aw__review_verdict *ret_verdict, enum aw_err *ret_err)
{
    const char *name = "";
    const struct aw__mpa_intent *intent = find_intent(world, ns, pod, &name);
    const struct aw__limit_range *limits;
    struct aw__resources now, size, others;
    struct aw_kube_pod *record;
    json_t *patch = NULL;
    size_t len;
    *ret_verdict = AW__REVIEW_FOREIGN;
    if (!intent || !may_size(intent))
        return NULL;
    record = aligned_alloc(8, RECORD_MAX);
    if (!record) {
        *ret_err = AW_ERR_NOMEM;
        return NULL;
    }
    *ret_verdict = AW__REVIEW_UNREAD;
    if (aw_kube_project_pod(NULL, pod, record, RECORD_MAX, &len) != AW_OK)
        goto out;
    const int32_t index = aw__sized_container(intent, record);
    const int64_t wanted[AW__RESOURCES] = {
        intent->cpu_millicores > 0 ? intent->cpu_millicores : -1,
        intent->memory_bytes > 0 ? intent->memory_bytes : -1,
    };
    *ret_verdict = AW__REVIEW_FOREIGN;
    if (index < 0)
        goto out;
    now = aw__resources_of(aw_kube_span_item(record, record->containers,
                                             sizeof(struct aw_kube_container), (uint32_t)index));
    others = aw__sizing_others(record, (uint32_t)index);
    limits = world->limits(world->ctx, ns);
    aw__size(&now, wanted, limits ? limits : &aw__limit_range_none, &others, &size);
    *ret_verdict = AW__REVIEW_FITTING;
    for (int r = 0; r < AW__RESOURCES; r++)
        if (wanted[r] > 0 && size.request[r] <= 0)
            goto out; /* the namespace leaves no room at all: not ours to make it worse */
    patch = make_patch(pod, (uint32_t)index, &now, &size, intent, name);
    if (!patch) {
        *ret_err = AW_ERR_NOMEM;
    } else if (json_array_size(patch) == 0) {
        json_decref(patch);
        patch = NULL;
    } else {
        *ret_verdict = AW__REVIEW_SIZED;
    }
out:
    free(record);
    return patch;
}

/* --- the review --- */

/* A patch as the answer has it: JSON in base64. NULL: no memory. */
static json_t *encode(const json_t *patch)
{
    char *text = json_dumps(patch, JSON_COMPACT);
    const size_t len = text ? strlen(text) : 0;
    char *encoded = text ? malloc((len + 2) / 3 * 4 + 1) : NULL;
    json_t *value = NULL;
    if (encoded) {
        EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)text, (int)len);
        value = json_string(encoded);
    }
    free(encoded);
    free(text);
    return value;
}

/* Whether a pod is being created, and not something of a pod. */
static bool new_pod(const json_t *request)
{
    return !strcmp(aw_kube_text_at(request, "operation"), "CREATE") &&
           !strcmp(aw_kube_text_at(request, "resource.resource"), aw_kube_pods.plural) &&
           !aw_kube_text_at(request, "resource.group")[0] &&
           !aw_kube_text_at(request, "subResource")[0] &&
           json_is_object(json_object_get(request, "object"));
}

enum aw_err aw__review(const char *bytes, size_t len, const struct aw__review_world *world,
                       json_t **ret_answer, enum aw__review_verdict *ret_verdict,
                       struct aw_diag *diag)
{
    json_error_t error;
    json_t *review = json_loadb(bytes, len, 0, &error), *patch = NULL;
    const json_t *request = json_object_get(review, "request");
    const char *version = aw_kube_text_at(review, "apiVersion");
    const char *uid = aw_kube_text_at(request, "uid");
    enum aw__review_verdict verdict = AW__REVIEW_FOREIGN;
    enum aw_err err = AW_OK;
    json_t *response = NULL, *answer = NULL;
    if (!review) {
        err = aw_fail(diag, AW_ERR_FORMAT, "not JSON, from line %d on", error.line);
        goto out;
    }
    if (strcmp(aw_kube_text_at(review, "kind"), "AdmissionReview") != 0 ||
        (strcmp(version, "admission.k8s.io/v1") != 0 &&
         strcmp(version, "admission.k8s.io/v1beta1") != 0) ||
        !uid[0] || strlen(uid) >= AW__REVIEW_UID_MAX) {
        err = aw_fail(diag, AW_ERR_FORMAT, "expected an AdmissionReview with a uid");
        goto out;
    }
    if (new_pod(request))
        patch = size_pod(json_object_get(request, "object"), aw_kube_text_at(request, "namespace"),
                         world, &verdict, &err);
    if (err)
        goto out;
    response = json_pack("{s:s, s:b}", "uid", uid, "allowed", 1);
    answer = response ? json_pack("{s:s, s:s, s:O}", "apiVersion", version, "kind",
                                  "AdmissionReview", "response", response)
                      : NULL;
    if (!answer ||
        (patch && (json_object_set_new(response, "patch", encode(patch)) != 0 ||
                   json_object_set_new(response, "patchType", json_string("JSONPatch")) != 0))) {
        json_decref(answer);
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for an answer");
        goto out;
    }
    *ret_answer = answer;
    *ret_verdict = verdict;
out:
    json_decref(response);
    json_decref(patch);
    json_decref(review);
    return err;
}
