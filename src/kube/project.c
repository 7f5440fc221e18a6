/* project.c - see project.h. */
#include "kube/project.h"

#include <string.h>

#include "base/quantity.h"

#define ALIGN 8u

/* The bytes that are being filled. */
struct sink {
    char *buf;
    size_t size, len;
};

/* Room behind what is there, zeroed and aligned; false: none. */
static bool take(struct sink *sink, size_t bytes, size_t *ret_at)
{
    const size_t at = (sink->len + ALIGN - 1) / ALIGN * ALIGN;
    if (at > sink->size || bytes > sink->size - at)
        return false;
    memset(sink->buf + sink->len, 0, at - sink->len + bytes);
    sink->len = at + bytes;
    *ret_at = at;
    return true;
}

static enum aw_err fill(struct sink *sink, const struct aw_kube_field *table, size_t record,
                        const json_t *object);

static enum aw_err put_text(struct sink *sink, const json_t *value, struct aw_kube_span *ret)
{
    const size_t len = json_string_length(value);
    size_t at;
    if (!value || json_is_null(value))
        return AW_OK;
    if (!json_is_string(value))
        return AW_ERR_FORMAT;
    if (len == 0)
        return AW_OK;
    if (!take(sink, len + 1, &at))
        return AW_ERR_LIMIT;
    memcpy(sink->buf + at, json_string_value(value), len);
    *ret = (struct aw_kube_span){(uint32_t)at, (uint32_t)len};
    return AW_OK;
}

/* The API writes amounts as text; a person's YAML may have had a whole number. */
static enum aw_err put_amount(const json_t *value, enum aw_quantity_scale scale, int64_t *ret)
{
    if (!value || json_is_null(value))
        return AW_OK;
    if (json_is_string(value))
        return aw_quantity_parse(json_string_value(value), scale, AW_QUANTITY_POSITIVE_OR_0, ret,
                                 NULL) == AW_OK
                   ? AW_OK
                   : AW_ERR_FORMAT;
    const json_int_t whole = json_integer_value(value);
    const int64_t unit = scale == AW_QUANTITY_MILLI ? 1000 : 1;
    if (!json_is_integer(value) || whole < 0 || whole > INT64_MAX / unit)
        return AW_ERR_FORMAT;
    *ret = (int64_t)whole * unit;
    return AW_OK;
}

static enum aw_err put_list(struct sink *sink, const struct aw_kube_field *field,
                            const json_t *value, struct aw_kube_span *ret)
{
    const size_t count = json_array_size(value);
    size_t at;
    if (!value || json_is_null(value))
        return AW_OK;
    if (!json_is_array(value))
        return AW_ERR_FORMAT;
    if (count == 0)
        return AW_OK;
    if (count > AW_KUBE_ITEMS_MAX || !take(sink, count * field->item_size, &at))
        return AW_ERR_LIMIT;
    *ret = (struct aw_kube_span){(uint32_t)at, (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        enum aw_err err =
            fill(sink, field->items, at + i * field->item_size, json_array_get(value, i));
        if (err)
            return err;
    }
    return AW_OK;
}

static enum aw_err put_number(const struct aw_kube_field *field, const json_t *value, int64_t *ret)
{
    *ret = field->absent;
    switch (field->type) {
    case AW_KUBE_FIELD_CPU:
        return put_amount(value, AW_QUANTITY_MILLI, ret);
    case AW_KUBE_FIELD_BYTES:
        return put_amount(value, AW_QUANTITY_WHOLE, ret);
    case AW_KUBE_FIELD_TIME:
        if (json_is_string(value))
            return aw_kube_time_parse(json_string_value(value), ret);
        break;
    default:
        if (json_is_integer(value)) {
            *ret = (int64_t)json_integer_value(value);
            return AW_OK;
        }
    }
    return !value || json_is_null(value) ? AW_OK : AW_ERR_FORMAT;
}

static enum aw_err fill(struct sink *sink, const struct aw_kube_field *table, size_t record,
                        const json_t *object)
{
    for (const struct aw_kube_field *field = table; field->path; field++) {
        const json_t *value = aw_kube_at(object, field->path);
        const size_t at = record + field->offset;
        struct aw_kube_span span = {0};
        int64_t number = 0;
        bool flag;
        enum aw_err err = AW_OK;
        switch (field->type) {
        case AW_KUBE_FIELD_TEXT:
            err = put_text(sink, value, &span);
            memcpy(sink->buf + at, &span, sizeof span);
            break;
        case AW_KUBE_FIELD_LIST:
            err = put_list(sink, field, value, &span);
            memcpy(sink->buf + at, &span, sizeof span);
            break;
        case AW_KUBE_FIELD_FLAG:
            flag = json_is_true(value) ||
                   (json_is_string(value) && !strcmp(json_string_value(value), "True"));
            memcpy(sink->buf + at, &flag, sizeof flag);
            break;
        default:
            err = put_number(field, value, &number);
            memcpy(sink->buf + at, &number, sizeof number);
        }
        if (err)
            return err;
    }
    return AW_OK;
}

enum aw_err aw_kube_project(const struct aw_kube_field *table, size_t record_size,
                            const json_t *object, void *buf, size_t size, size_t *ret_len)
{
    struct sink sink = {.buf = buf, .size = size < UINT32_MAX ? size : UINT32_MAX};
    size_t at;
    if (!take(&sink, record_size, &at))
        return AW_ERR_LIMIT;
    enum aw_err err = fill(&sink, table, at, object);
    if (!err)
        *ret_len = sink.len;
    return err;
}

const char *aw_kube_span_text(const void *record, struct aw_kube_span span)
{
    return span.at ? (const char *)record + span.at : "";
}

const void *aw_kube_span_item(const void *record, struct aw_kube_span span, size_t item_size,
                              uint32_t i)
{
    AW_ASSERT(i < span.count);
    return (const char *)record + span.at + i * item_size;
}

/* clang-format off */
#define FIELD(kind, type, member, path, absent) \
    {path, AW_KUBE_FIELD_##kind, offsetof(type, member), absent, NULL, 0}
#define TEXT(type, member, path)        FIELD(TEXT, type, member, path, 0)
#define INTEGER(type, member, path, or) FIELD(INTEGER, type, member, path, or)
#define FLAG(type, member, path)        FIELD(FLAG, type, member, path, 0)
#define CPU(type, member, path)         FIELD(CPU, type, member, path, -1)
#define BYTES(type, member, path)       FIELD(BYTES, type, member, path, -1)
#define TIME(type, member, path)        FIELD(TIME, type, member, path, 0)
#define LIST(type, member, path, table, item) \
    {path, AW_KUBE_FIELD_LIST, offsetof(type, member), 0, table, sizeof(item)}
#define END                             {NULL, AW_KUBE_FIELD_TEXT, 0, 0, NULL, 0}

#define OWNER "metadata.ownerReferences[controller=true]"

#define C struct aw_kube_container
static const struct aw_kube_field container_fields[] = {
    TEXT(C, name, "name"),
    CPU(C, cpu_request_millicores, "resources.requests.cpu"),
    CPU(C, cpu_limit_millicores, "resources.limits.cpu"),
    BYTES(C, memory_request_bytes, "resources.requests.memory"),
    BYTES(C, memory_limit_bytes, "resources.limits.memory"),
    TEXT(C, cpu_policy, "resizePolicy[resourceName=cpu].restartPolicy"),
    TEXT(C, memory_policy, "resizePolicy[resourceName=memory].restartPolicy"),
    END,
};
#undef C

#define C struct aw_kube_container_status
static const struct aw_kube_field status_fields[] = {
    TEXT(C, name, "name"),
    INTEGER(C, restarts, "restartCount", 0),
    FLAG(C, ready, "ready"),
    TEXT(C, waiting, "state.waiting.reason"),
    TEXT(C, ended, "lastState.terminated.reason"),
    TIME(C, ended_us, "lastState.terminated.finishedAt"),
    CPU(C, cpu_limit_millicores, "resources.limits.cpu"),
    BYTES(C, memory_limit_bytes, "resources.limits.memory"),
    END,
};
#undef C

#define P struct aw_kube_pod
const struct aw_kube_field aw_kube_pod_fields[] = {
    TEXT(P, owner_kind, OWNER ".kind"),
    TEXT(P, owner_name, OWNER ".name"),
    TEXT(P, node, "spec.nodeName"),
    TEXT(P, phase, "status.phase"),
    TEXT(P, qos, "status.qosClass"),
    FLAG(P, ready, "status.conditions[type=Ready].status"),
    TIME(P, created_us, "metadata.creationTimestamp"),
    TEXT(P, resize_pending, "status.conditions[type=PodResizePending].reason"),
    FLAG(P, resizing, "status.conditions[type=PodResizeInProgress].status"),
    TEXT(P, resize_error, "status.conditions[type=PodResizeInProgress].reason"),
    TIME(P, resize_pending_us, "status.conditions[type=PodResizePending].lastTransitionTime"),
    TIME(P, resizing_us, "status.conditions[type=PodResizeInProgress].lastTransitionTime"),
    LIST(P, containers, "spec.containers", container_fields, struct aw_kube_container),
    LIST(P, statuses, "status.containerStatuses", status_fields, struct aw_kube_container_status),
    END,
};
#undef P

#define W struct aw_kube_workload
const struct aw_kube_field aw_kube_workload_fields[] = {
    TEXT(W, owner_kind, OWNER ".kind"),
    TEXT(W, owner_name, OWNER ".name"),
    INTEGER(W, replicas_wanted, "spec.replicas", 1),
    INTEGER(W, replicas, "status.replicas", 0),
    INTEGER(W, replicas_ready, "status.readyReplicas", 0),
    INTEGER(W, replicas_updated, "status.updatedReplicas", 0),
    INTEGER(W, generation, "metadata.generation", 0),
    INTEGER(W, generation_seen, "status.observedGeneration", 0),
    FLAG(W, paused, "spec.paused"),
    END,
};
#undef W
/* clang-format on */

bool aw_kube_workload_rolling(const struct aw_kube_workload *workload)
{
    return workload->generation_seen < workload->generation ||
           workload->replicas_updated < workload->replicas;
}

enum aw_err aw_kube_project_pod(void *ctx, const json_t *object, void *buf, size_t size,
                                size_t *ret_len)
{
    (void)ctx;
    enum aw_err err =
        aw_kube_project(aw_kube_pod_fields, sizeof(struct aw_kube_pod), object, buf, size, ret_len);
    if (!err) { /* two things that are said by being there at all, and what two autoscalers of
                 * nodes have made the words for "leave it alone" */
        struct aw_kube_pod *pod = buf;
        pod->keep =
            !strcmp(aw_kube_text_at(object, "metadata.annotations"
                                            "[cluster-autoscaler.kubernetes.io/safe-to-evict]"),
                    "false") ||
            !strcmp(aw_kube_text_at(object, "metadata.annotations[karpenter.sh/do-not-disrupt]"),
                    "true");
        pod->deleting = json_is_string(aw_kube_at(object, "metadata.deletionTimestamp"));
        pod->static_pod =
            aw_kube_at(object, "metadata.annotations[kubernetes.io/config.mirror]") != NULL;
    }
    return err;
}

enum aw_err aw_kube_project_workload(void *ctx, const json_t *object, void *buf, size_t size,
                                     size_t *ret_len)
{
    (void)ctx;
    return aw_kube_project(aw_kube_workload_fields, sizeof(struct aw_kube_workload), object, buf,
                           size, ret_len);
}
