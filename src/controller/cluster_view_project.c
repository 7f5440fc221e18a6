/* cluster_view_project.c - what is kept of objects, pods and workloads. */
#include "controller/cluster_view.h"

#include "controller/selector.h"
#include "controller/status.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 8u

/* Bytes behind a record that is there already. AW_ERR_LIMIT: no room. */
static enum aw_err put(void *buf, size_t size, size_t *len, const char *bytes, size_t count,
                       struct aw_kube_span *ret)
{
    const size_t at = (*len + ALIGN - 1) / ALIGN * ALIGN;
    if (count == 0)
        return AW_OK;
    if (at + count + 1 > size || at + count + 1 > UINT32_MAX)
        return AW_ERR_LIMIT;
    memset((char *)buf + *len, 0, at - *len);
    memcpy((char *)buf + at, bytes, count);
    ((char *)buf)[at + count] = '\0';
    *len = at + count + 1;
    *ret = (struct aw_kube_span){(uint32_t)at, (uint32_t)count};
    return AW_OK;
}

static enum aw_err put_json(void *buf, size_t size, size_t *len, const json_t *value,
                            struct aw_kube_span *ret)
{
    if (!value || json_is_null(value))
        return AW_OK;
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (!text)
        return AW_ERR_NOMEM;
    const enum aw_err err = put(buf, size, len, text, strlen(text), ret);
    free(text);
    return err;
}

static int64_t time_at(const json_t *object, const char *path)
{
    int64_t us = 0;
    const enum aw_err err = aw_kube_time_parse(aw_kube_text_at(object, path), &us);
    return err ? 0 : us;
}

/* All but the status. */
static enum aw_err project_object(const json_t *object, void *buf, size_t size, size_t *ret_len)
{
    struct aw__cluster_view_object *record = buf;
    size_t len = sizeof *record;
    if (size < len)
        return AW_ERR_LIMIT;
    memset(record, 0, len);
    record->generation = aw_kube_int_at(object, "metadata.generation", 0);
    record->created_us = time_at(object, "metadata.creationTimestamp");
    record->deleting = aw_kube_at(object, "metadata.deletionTimestamp") != NULL;
    const enum aw_err err =
        put_json(buf, size, &len, json_object_get(object, "spec"), &record->spec);
    if (!err)
        *ret_len = len;
    return err;
}

enum aw_err aw__cluster_view_project_object(void *ctx, const json_t *object, void *buf, size_t size,
                                            size_t *ret_len)
{
    struct aw__cluster_view_object *record = buf;
    size_t len = 0;
    (void)ctx;
    enum aw_err err = project_object(object, buf, size, &len);
    err = err ? err : put_json(buf, size, &len, json_object_get(object, "status"), &record->status);
    if (!err)
        *ret_len = len;
    return err;
}

enum aw_err aw__cluster_view_project_mpa(void *ctx, const json_t *object, void *buf, size_t size,
                                         size_t *ret_len)
{
    struct aw__cluster_view_object *record = buf;
    struct aw_mpa_status status;
    char packed[AW_MPA_PACKED_MAX];
    size_t len = 0;
    (void)ctx;
    enum aw_err err = project_object(object, buf, size, &len);
    if (!err && json_object_get(object, "status")) {
        aw_mpa_status_read(object, &status);
        const size_t bytes = aw_mpa_status_pack(&status, packed, sizeof packed);
        err = put(buf, size, &len, packed, bytes, &record->status);
    }
    if (!err)
        *ret_len = len;
    return err;
}

enum aw_err aw__cluster_view_project_pod(void *ctx, const json_t *object, void *buf, size_t size,
                                         size_t *ret_len)
{
    struct aw__cluster_view_pod *record = buf;
    char labels[AW__LABEL_BYTES_MAX * 8];
    size_t len = 0, labels_len = 0;
    (void)ctx;
    enum aw_err err = aw_kube_project(aw_kube_pod_fields, sizeof *record, object, buf, size, &len);
    if (err)
        return err;
    record->started_us = time_at(object, "status.startTime");
    record->ready_change_us = time_at(object, "status.conditions[type=Ready].lastTransitionTime");
    err =
        aw__labels_pack(aw_kube_at(object, "metadata.labels"), labels, sizeof labels, &labels_len);
    err = err ? err : put(buf, size, &len, labels, labels_len, &record->labels);
    if (!err)
        *ret_len = len;
    return err;
}

enum aw_err aw__cluster_view_project_workload(void *ctx, const json_t *object, void *buf,
                                              size_t size, size_t *ret_len)
{
    struct aw__cluster_view_workload *record = buf;
    char selector[AW_KUBE_SELECTOR_MAX];
    size_t len = 0;
    (void)ctx;
    enum aw_err err =
        aw_kube_project(aw_kube_workload_fields, sizeof *record, object, buf, size, &len);
    err = err ? err
              : aw__selector_print(aw_kube_at(object, "spec.selector"), selector, sizeof selector);
    err = err ? err : put(buf, size, &len, selector, strlen(selector), &record->selector);
    if (!err)
        *ret_len = len;
    return err;
}
