/*
 * object.h - names of things in the Kubernetes API: kinds, paths, metadata, times.
 *
 * Memory:  nothing is allocated; metadata points into the JSON value that it was read from.
 * Threads: pure functions of their arguments.
 *
 * The trap: a name from a user's file goes into the path of a request. "../../secrets" would be
 * another request; names that the API itself would not take as a path segment are refused.
 */
#ifndef AW_KUBE_OBJECT_H
#define AW_KUBE_OBJECT_H

#include "base/text.h"

#include <jansson.h>

#define AW_KUBE_NAME_MAX 254u /* bytes with the NUL: a DNS subdomain (RFC 1123) */
#define AW_KUBE_KEY_MAX  512u /* "namespace/name" with the NUL */
#define AW_KUBE_UID_MAX  64u  /* with the NUL; the API makes 36 characters */
#define AW_KUBE_VERSION_MAX \
    64u                        /* of a resourceVersion, with the NUL; opaque, in practice a u64 \
                                */
#define AW_KUBE_PATH_MAX 8192u /* of a request with its query; continue tokens are the longest */
#define AW_KUBE_TIME_MAX 32u   /* of a printed time, with the NUL */

/* What kind of object, as the address has it. */
struct aw_kube_kind {
    const char *group;   /* "apps"; "" is the core group */
    const char *version; /* "v1" */
    const char *plural;  /* "deployments" */
    const char *kind;    /* "Deployment" */
    bool namespaced;
};

extern const struct aw_kube_kind aw_kube_pods, aw_kube_nodes, aw_kube_deployments,
    aw_kube_statefulsets, aw_kube_replicasets, aw_kube_leases, aw_kube_events_core,
    aw_kube_events_v1, aw_kube_access_reviews;

/* One object, or with name NULL the collection. */
struct aw_kube_ref {
    const struct aw_kube_kind *kind;
    const char *ns;   /* NULL: all namespaces, or the kind has none */
    const char *name; /* NULL: the collection */
    const char *sub;  /* "status", "scale", "eviction", "resize"; NULL: the object itself */
};

/* Whether the API would take it as one segment of a path: not empty, not "." or "..", no slash, no
 * percent, printable, shorter than AW_KUBE_NAME_MAX. */
bool aw_kube_name_valid(const char *name);

/* Adds "/apis/apps/v1/namespaces/default/deployments/web/scale". AW_ERR_CONFIG: a name that is
 * none, or a namespace that is missing though the kind has one and an object is named. */
AW_NODISCARD enum aw_err aw_kube_path(struct aw_text *text, const struct aw_kube_ref *ref,
                                      struct aw_diag *diag);
/* Adds "?key=value" or "&key=value", escaped; nothing for a NULL or empty value. */
void aw_kube_path_query(struct aw_text *text, const char *key, const char *value);

/* "apps/v1", or "v1" for the core group. Returns `buf`. */
const char *aw_kube_api_version(const struct aw_kube_kind *kind, char *buf, size_t size);

struct aw_kube_meta {
    const char *ns; /* "": the kind has none */
    const char *name;
    const char *uid;              /* "" where it is missing */
    const char *resource_version; /* "" where it is missing */
    int64_t generation;           /* 0 where it is missing */
    bool deleting;                /* has a deletionTimestamp */
};
/* AW_ERR_FORMAT: no metadata, no name, or one that cannot be an object's. */
AW_NODISCARD enum aw_err aw_kube_meta_read(const json_t *object, struct aw_kube_meta *ret_meta,
                                           struct aw_diag *diag);
/* "namespace/name", or "name". Returns `buf`, of at least AW_KUBE_KEY_MAX bytes. */
const char *aw_kube_meta_key(const struct aw_kube_meta *meta, char *buf, size_t size);

/* The value at "spec.replicas", "metadata.labels[app.kubernetes.io/name]" (a key in brackets) or
 * "status.conditions[type=Ready].status" (the first item of a list with that text, or with true for
 * [controller=true]); NULL when any part is missing or of another kind. */
const json_t *aw_kube_at(const json_t *value, const char *path);
/* The same for text; "" when it is not there or not text. */
const char *aw_kube_text_at(const json_t *value, const char *path);
/* The same for a whole number; `fallback` when it is not there or not a whole number. */
int64_t aw_kube_int_at(const json_t *value, const char *path, int64_t fallback);

/* RFC 3339: "2026-01-31T12:00:00Z", with a fraction or an offset too; microseconds since 1970.
 * AW_ERR_FORMAT. */
AW_NODISCARD enum aw_err aw_kube_time_parse(const char *text, int64_t *ret_us);
/* "2026-01-31T12:00:00.123456Z" (metav1.MicroTime). Returns `buf`, of AW_KUBE_TIME_MAX bytes. */
const char *aw_kube_time_print(int64_t us, char *buf, size_t size);

#endif
