/*
 * project.h - what is kept of an object: a plain struct filled from JSON by a table.
 *
 * A record is a C struct whose members the table names by their JSON path; texts and lists lie
 * behind it in the same bytes, found by offsets. So a record has no pointers: it can be copied,
 * kept in a cache (informer.h) and compared byte by byte to see whether anything that we use has
 * changed.
 *
 * Memory:  the caller's buffer. Threads: pure functions of their arguments.
 *
 * The trap: offsets count from the beginning of the outermost record, also in the items of a list.
 */
#ifndef AW_KUBE_PROJECT_H
#define AW_KUBE_PROJECT_H

#include "kube/object.h"

#define AW_KUBE_ITEMS_MAX 64u /* of one list; pods have fewer containers than that */

/* Bytes behind the record. */
struct aw_kube_span {
    uint32_t at;    /* from the beginning of the record; 0: nothing */
    uint32_t count; /* of a text: bytes without its NUL; of a list: items */
};

enum aw_kube_field_type {
    AW_KUBE_FIELD_TEXT,    /* struct aw_kube_span */
    AW_KUBE_FIELD_INTEGER, /* int64_t */
    AW_KUBE_FIELD_FLAG,    /* bool: true, or the text "True" of a condition; else false */
    AW_KUBE_FIELD_CPU,     /* int64_t, millicores */
    AW_KUBE_FIELD_BYTES,   /* int64_t */
    AW_KUBE_FIELD_TIME,    /* int64_t, microseconds since 1970 */
    AW_KUBE_FIELD_LIST,    /* struct aw_kube_span of structs of `item_size` bytes */
};

struct aw_kube_field {
    const char *path; /* as for aw_kube_at; NULL ends the table */
    enum aw_kube_field_type type;
    size_t offset;
    int64_t absent; /* of a number that is not there */
    const struct aw_kube_field *items;
    size_t item_size;
};

/* Fills `buf`, aligned to 8, with a record of `record_size` bytes and what lies behind it; padding
 * is zero. AW_ERR_FORMAT: a value of another kind, e.g. an amount that cannot be read;
 * AW_ERR_LIMIT: `buf` is too small, or a list too long. */
AW_NODISCARD enum aw_err aw_kube_project(const struct aw_kube_field *table, size_t record_size,
                                         const json_t *object, void *buf, size_t size,
                                         size_t *ret_len);
/* "" for nothing. */
const char *aw_kube_span_text(const void *record, struct aw_kube_span span);
/* The item of a list; `i` < span.count. */
const void *aw_kube_span_item(const void *record, struct aw_kube_span span, size_t item_size,
                              uint32_t i);

/* What a controller needs to know of a pod. */
struct aw_kube_container {
    struct aw_kube_span name;
    int64_t cpu_request_millicores, cpu_limit_millicores; /* -1: none */
    int64_t memory_request_bytes, memory_limit_bytes;     /* -1: none */
    struct aw_kube_span cpu_policy, memory_policy;        /* resizePolicy; "": NotRequired */
};

struct aw_kube_container_status {
    struct aw_kube_span name;
    int64_t restarts;
    bool ready;
    struct aw_kube_span waiting;  /* why: "CrashLoopBackOff"; "": it runs */
    struct aw_kube_span ended;    /* why it ended last: "OOMKilled"; "": it never did */
    int64_t ended_us;             /* 0: never */
    int64_t cpu_limit_millicores; /* what it really has (1.33 and later); -1: not said */
    int64_t memory_limit_bytes;   /* likewise */
};

struct aw_kube_pod {
    struct aw_kube_span owner_kind, owner_name; /* its controller; "": none */
    struct aw_kube_span node, phase, qos;
    bool ready, deleting, static_pod;
    int64_t created_us;
    struct aw_kube_span resize_pending;     /* "Deferred", "Infeasible"; "": not pending */
    bool resizing;                          /* in progress */
    struct aw_kube_span resize_error;       /* reason of PodResizeInProgress, e.g. "Error" */
    int64_t resize_pending_us, resizing_us; /* since when; 0: not said */
    bool keep; /* an annotation forbids to disturb it: safe-to-evict=false, do-not-disrupt=true */
    struct aw_kube_span containers; /* struct aw_kube_container */
    struct aw_kube_span statuses;   /* struct aw_kube_container_status */
};
extern const struct aw_kube_field aw_kube_pod_fields[];

/* What a controller needs to know of a Deployment, StatefulSet or ReplicaSet. */
struct aw_kube_workload {
    struct aw_kube_span owner_kind, owner_name;
    int64_t replicas_wanted; /* 1 where it is not said: the API's default */
    int64_t replicas, replicas_ready, replicas_updated;
    int64_t generation, generation_seen;
    bool paused;
};
extern const struct aw_kube_field aw_kube_workload_fields[];
/* Whether old and new pods stand side by side, or the controller has yet to act. */
bool aw_kube_workload_rolling(const struct aw_kube_workload *workload);

/* For aw_kube_informer_config.project: the two records above. `ctx` is not used. */
AW_NODISCARD enum aw_err aw_kube_project_pod(void *ctx, const json_t *object, void *buf,
                                             size_t size, size_t *ret_len);
AW_NODISCARD enum aw_err aw_kube_project_workload(void *ctx, const json_t *object, void *buf,
                                                  size_t size, size_t *ret_len);

#endif
