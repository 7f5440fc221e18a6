/*
 * verbs.h - what is done to objects: read, create, patch, apply, scale, evict, resize.
 *
 * Memory:  bodies that are returned are jansson values, the caller's to decref; arguments are
 *          borrowed and never changed.
 * Threads: those of the client.
 *
 * Every function fails as aw_kube_send does; `ret_status` may be NULL. Retries of what is harmless
 * happen inside; a conflict (AW_ERR_CONFLICT) is the caller's, but for aw_kube_update.
 *
 * The trap: a patch of the scale without a resourceVersion overwrites what a person typed a second
 * ago. Pass the version that the decision was made from.
 */
#ifndef AW_KUBE_VERBS_H
#define AW_KUBE_VERBS_H

#include "kube/client.h"

#define AW_KUBE_MANAGER             "aware" /* our name in managedFields */
#define AW_KUBE_UPDATE_ATTEMPTS_MAX 5u
#define AW_KUBE_CONTAINERS_MAX      32u
#define AW_KUBE_SELECTOR_MAX        1024u /* of a scale, with the NUL */

AW_NODISCARD enum aw_err aw_kube_get(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                     json_t **ret_object, struct aw_kube_status *ret_status,
                                     struct aw_diag *diag);
/* `ref` names the collection, or the subresource of an object. `ret_object` may be NULL. */
AW_NODISCARD enum aw_err aw_kube_create(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                        const json_t *object, json_t **ret_object,
                                        struct aw_kube_status *ret_status, struct aw_diag *diag);
/* PUT: with a resourceVersion in it, a conflict if the object has changed since. */
AW_NODISCARD enum aw_err aw_kube_replace(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                         const json_t *object, json_t **ret_object,
                                         struct aw_kube_status *ret_status, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_kube_delete(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                        const char *uid, struct aw_kube_status *ret_status,
                                        struct aw_diag *diag);

enum aw_kube_patch {
    AW_KUBE_PATCH_MERGE,     /* RFC 7396; the only one that custom resources take */
    AW_KUBE_PATCH_STRATEGIC, /* lists of built-in kinds are merged by their keys */
    AW_KUBE_PATCH_JSON,      /* RFC 6902 */
    AW_KUBE_PATCH_APPLY,     /* server-side: we own the fields that we name, and only these */
    AW_KUBE_PATCH_APPLY_FORCE,
};
AW_NODISCARD enum aw_err aw_kube_patch(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                       enum aw_kube_patch kind, const json_t *patch,
                                       json_t **ret_object, struct aw_kube_status *ret_status,
                                       struct aw_diag *diag);

/* Reads, lets `change` edit the object, and puts it back; on a conflict reads again. `change`
 * returning AW_ERR_NODATA means that nothing is to be written: AW_OK. */
AW_NODISCARD enum aw_err aw_kube_update(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                        enum aw_err (*change)(void *ctx, json_t *object), void *ctx,
                                        struct aw_diag *diag);

/* The scale subresource (autoscaling/v1 Scale), of whatever has one. */
struct aw_kube_scale {
    int32_t replicas_wanted;
    int32_t replicas_seen;
    char resource_version[AW_KUBE_VERSION_MAX];
    char selector[AW_KUBE_SELECTOR_MAX]; /* of the pods */
};
/* `ref` names the object; the subresource is added. AW_ERR_NOTFOUND: no such object, or it cannot
 * be scaled. */
AW_NODISCARD enum aw_err aw_kube_scale_get(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                           struct aw_kube_scale *ret_scale, struct aw_diag *diag);
/* `resource_version` NULL: whatever is there now. AW_ERR_CONFLICT: another client wrote in
 * between. */
AW_NODISCARD enum aw_err aw_kube_scale_set(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                           int32_t replicas, const char *resource_version,
                                           struct aw_kube_scale *ret_scale, struct aw_diag *diag);

enum aw_kube_eviction {
    AW_KUBE_EVICTED,  /* accepted, or the pod is gone already */
    AW_KUBE_BLOCKED,  /* a PodDisruptionBudget says not now */
    AW_KUBE_REPLACED, /* another pod has that name now */
};
/* `policy_version` is the server's: "v1" or "v1beta1" (discovery.h). With a uid only that very pod
 * is evicted. A blocked eviction is an answer, not an error, and is not tried again. */
AW_NODISCARD enum aw_err aw_kube_evict(struct aw_kube *kube, const char *policy_version,
                                       const char *ns, const char *pod, const char *uid,
                                       enum aw_kube_eviction *ret_eviction, struct aw_diag *diag);

/* What a container should have; -1: leave unchanged. */
struct aw_kube_container_size {
    const char *name;
    int64_t cpu_request_millicores, cpu_limit_millicores;
    int64_t memory_request_bytes, memory_limit_bytes;
};
/* The resize subresource of a pod (Kubernetes 1.33 and later). AW_ERR_NOTFOUND: no such pod, or a
 * server without it; AW_ERR_RANGE: refused, e.g. because the QoS class would change. Whether the
 * node can do it shows later in the pod's conditions. */
AW_NODISCARD enum aw_err aw_kube_resize(struct aw_kube *kube, const char *ns, const char *pod,
                                        const struct aw_kube_container_size *sizes, uint32_t count,
                                        json_t **ret_pod, struct aw_kube_status *ret_status,
                                        struct aw_diag *diag);

/* What one would like to do. */
struct aw_kube_access {
    const char *verb, *group, *resource;
    const char *subresource; /* NULL: none */
    const char *ns;          /* NULL: everywhere */
    const char *name;        /* of one object alone; NULL: any */
};
/* Asks the server whether we may (SelfSubjectAccessReview); needs no right of its own. */
AW_NODISCARD enum aw_err aw_kube_may(struct aw_kube *kube, const struct aw_kube_access *access,
                                     bool *ret_allowed, struct aw_diag *diag);

/* Sends `body` to the address of `ref`; `query` ("fieldManager=x") may be NULL. */
AW_NODISCARD enum aw_err aw__kube_send_ref(struct aw_kube *kube, const struct aw_kube_ref *ref,
                                           const struct aw_kube_request *like, const char *query,
                                           json_t **ret_object, struct aw_kube_status *ret_status,
                                           struct aw_diag *diag);

#endif
