/*
 * fuzz_scene.c - any bytes as what a controller follows: an object, a pod, a Deployment, a status,
 * a VerticalPodAutoscaler, usage; and as a selector with the labels of a pod, a line each.
 */
#include "fuzz.h"

#include "controller/cluster_view.h"
#include "controller/selector.h"
#include "controller/status.h"
#include "controller/vpa_spec.h"
#include "controller/vpa_usage.h"

#include <stdlib.h>
#include <string.h>

#define SELECTOR_MAX 2048u

static void check_span(const char *buf, size_t len, struct aw_kube_span span)
{
    AW_ASSERT(span.at == 0 || (span.at + span.count < len && buf[span.at + span.count] == '\0'));
}

static void check_records(const json_t *json)
{
    static _Alignas(8) char buf[AW_KUBE_PROJECTION_MAX];
    size_t len = 0;
    if (aw__cluster_view_project_object(NULL, json, buf, sizeof buf, &len) == AW_OK) {
        const struct aw__cluster_view_object *object = (const void *)buf;
        check_span(buf, len, object->spec);
        check_span(buf, len, object->status);
    }
    if (aw__cluster_view_project_pod(NULL, json, buf, sizeof buf, &len) == AW_OK)
        check_span(buf, len, ((const struct aw__cluster_view_pod *)(const void *)buf)->labels);
    if (aw__cluster_view_project_workload(NULL, json, buf, sizeof buf, &len) == AW_OK) {
        const struct aw__cluster_view_workload *workload = (const void *)buf;
        char pair[AW__LABEL_BYTES_MAX];
        check_span(buf, len, workload->selector);
        (void)aw__selector_pair(aw_kube_span_text(buf, workload->selector), pair, sizeof pair);
    }
}

/* What was read can be written, and is then the same. */
static void check_status(const json_t *json)
{
    struct aw_mpa_status status, back;
    aw_mpa_status_read(json, &status);
    json_t *value = aw_mpa_status_json(&status);
    AW_ASSERT(value);
    aw_mpa_status_read(value, &back);
    AW_ASSERT(aw_mpa_status_differs(&status, &back, 0) == AW_MPA_SAME);
    json_decref(value);
}

/* A VerticalPodAutoscaler, or a list of what pods use: what is recommended reads back the same. */
static void check_vpa(const json_t *json)
{
    static struct aw__vpa_rules rules;
    static struct aw__vpa_advices advices, back;
    static struct aw__usage usage;
    const struct aw__vpa_conditions conditions = {.provided = true, .low_confidence = true};
    (void)aw__vpa_is_for(json_object_get(json, "spec"), "aware");
    if (aw__vpa_rules_read(json_object_get(json, "spec"), &rules, NULL) == AW_OK)
        (void)aw__vpa_rule_of(&rules, "web");
    aw__vpa_advices_read(json_object_get(json, "status"), &advices);
    json_t *list = aw__vpa_conditions_json(json_object_get(json, "status"), &conditions, 0);
    AW_ASSERT(list);
    json_t *status = aw__vpa_status_json(&advices, list, 1);
    AW_ASSERT(status);
    aw__vpa_advices_read(status, &back);
    AW_ASSERT(aw__vpa_advices_differ(&advices, &back, 0) == AW__VPA_SAME);
    json_decref(status);
    if (aw__usage_init(&usage, 16, NULL) == AW_OK)
        (void)!aw__usage_decode(&usage, json, INT64_C(1769860800000000), NULL);
    aw__usage_deinit(&usage);
}

/* Whatever a selector selects has the pair that it is found by. */
static void check_selector(const char *bytes, size_t size)
{
    char selector[SELECTOR_MAX], labels[SELECTOR_MAX], pair[AW__LABEL_BYTES_MAX];
    const char *line = memchr(bytes, '\n', size);
    const size_t first = line ? (size_t)(line - bytes) : size;
    size_t len = line ? size - first - 1 : 0;
    if (first >= sizeof selector || len + 1 >= sizeof labels)
        return;
    memcpy(selector, bytes, first);
    selector[first] = '\0';
    if (len > 0)
        memcpy(labels, line + 1, len);
    for (size_t i = 0; i < len; i++)
        labels[i] = labels[i] == '\n' ? '\0' : labels[i];
    labels[len++] = '\0';
    if (!aw__selector_matches(selector, labels, len) ||
        !aw__selector_pair(selector, pair, sizeof pair))
        return;
    bool has = false;
    for (size_t at = 0; at < len; at += strlen(labels + at) + 1)
        has = has || !strcmp(labels + at, pair);
    AW_ASSERT(has);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    json_t *json = json_loadb(bytes, size, JSON_DECODE_ANY, NULL);
    if (json) {
        check_records(json);
        check_status(json);
        check_vpa(json);
    }
    json_decref(json);
    check_selector(bytes, size);
    return 0;
}
