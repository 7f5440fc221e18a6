/* scan_objects.c - what the API server has: workloads, their pods, and who else scales them. */
#include "kube/scan_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "kube/watch.h"

#define ROWS_FIRST 256u

static const struct aw_kube_kind daemonsets = {"apps", "v1", "daemonsets", "DaemonSet", true};
static const struct aw_kube_kind services = {"", "v1", "services", "Service", true};

/* --- workloads --- */

/* Adds what a container says to the sum of its pod; -1 once somebody says nothing. A request that
 * is not said is the limit, as the API server fills it in. */
static void add_amount(double *sum, const json_t *resources, const char *name, bool limit)
{
    char path[32];
    int64_t amount;
    snprintf(path, sizeof path, "limits.%s", name);
    const char *text = aw_kube_text_at(resources, path);
    if (!limit) {
        snprintf(path, sizeof path, "requests.%s", name);
        const char *request = aw_kube_text_at(resources, path);
        text = request[0] ? request : text;
    }
    const bool cpu = !strcmp(name, "cpu");
    if (*sum < 0 || !text[0] ||
        aw_quantity_parse(text, cpu ? AW_QUANTITY_MILLI : AW_QUANTITY_WHOLE,
                          AW_QUANTITY_POSITIVE_OR_0, &amount, NULL))
        *sum = -1;
    else
        *sum += cpu ? 1e-3 * (double)amount : (double)amount;
}

enum aw_err aw__scan_read_workload(const json_t *object, const char *kind,
                                   struct aw_kube_scan_row *ret_row)
{
    const json_t *containers = aw_kube_at(object, "spec.template.spec.containers"), *container;
    const bool daemon = !strcmp(kind, "DaemonSet");
    const int64_t pods = daemon ? aw_kube_int_at(object, "status.desiredNumberScheduled", 0)
                                : aw_kube_int_at(object, "spec.replicas", 1);
    struct aw_kube_scan_row row = {.kind = kind, .throttled_share = -1};
    struct aw_kube_meta meta;
    size_t i;
    const enum aw_err err = aw_kube_meta_read(object, &meta, NULL);
    if (err || !meta.ns[0] || json_array_size(containers) == 0 || pods < 0 || pods > INT32_MAX)
        return AW_ERR_FORMAT;
    snprintf(row.ns, sizeof row.ns, "%s", meta.ns);
    snprintf(row.name, sizeof row.name, "%s", meta.name);
    row.pods = (uint32_t)pods;
    json_array_foreach(containers, i, container)
    {
        const json_t *resources = json_object_get(container, "resources");
        add_amount(&row.cpu_request, resources, "cpu", false);
        add_amount(&row.cpu_limit, resources, "cpu", true);
        add_amount(&row.memory_request, resources, "memory", false);
        add_amount(&row.memory_limit, resources, "memory", true);
    }
    *ret_row = row;
    return AW_OK;
}

struct lister {
    struct aw_kube_scan *scan;
    const char *kind;
    uint32_t before, capacity; /* rows of other kinds; of `row` */
};

static void workloads_begin(void *ctx)
{
    struct lister *lister = ctx;
    lister->scan->count = lister->before;
}

static enum aw_err add_workload(void *ctx, const json_t *object)
{
    struct lister *lister = ctx;
    struct aw_kube_scan *scan = lister->scan;
    if (scan->count == AW_KUBE_SCAN_ROWS_MAX) {
        scan->left_out++;
        return AW_OK;
    }
    if (scan->count == lister->capacity) {
        const uint32_t more = lister->capacity ? 2 * lister->capacity : ROWS_FIRST;
        struct aw_kube_scan_row *larger = aw_alloc_new(scan->alloc, more, sizeof *larger);
        if (!larger)
            return AW_ERR_NOMEM;
        if (scan->count)
            memcpy(larger, scan->row, scan->count * sizeof *larger);
        aw_alloc_free(scan->alloc, scan->row);
        scan->row = larger;
        lister->capacity = more;
    }
    if (aw__scan_read_workload(object, lister->kind, &scan->row[scan->count]) == AW_OK)
        scan->count++;
    return AW_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct aw_kube_scan_row *x = a, *y = b;
    int order = strcmp(x->ns, y->ns);
    order = order ? order : strcmp(x->kind, y->kind);
    return order ? order : strcmp(x->name, y->name);
}

static enum aw_err list_workloads(struct aw_kube_scan *scan,
                                  const struct aw_kube_scan_config *config, struct aw_diag *diag)
{
    const struct aw_kube_kind *const kinds[] = {&aw_kube_deployments, &aw_kube_statefulsets,
                                                &daemonsets};
    struct lister lister = {.scan = scan};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct aw_kube_query query = {.kind = kinds[i], .ns = config->ns};
        const struct aw_kube_visitor visitor = {workloads_begin, add_workload, &lister};
        lister.kind = kinds[i]->kind;
        lister.before = scan->count;
        const enum aw_err err = aw_kube_list(config->kube, &query, &visitor, diag);
        if (err)
            return err;
    }
    if (scan->count > 0)
        qsort(scan->row, scan->count, sizeof *scan->row, by_name);
    return AW_OK;
}

/* --- pods --- */

/* A ReplicaSet of a Deployment is called after it, with a hash behind. */
static struct aw_kube_scan_row *owner_of(const struct aw_kube_scan *scan, const char *ns,
                                         const json_t *pod)
{
    const char *kind = aw_kube_text_at(pod, "metadata.ownerReferences[controller=true].kind");
    const char *owner = aw_kube_text_at(pod, "metadata.ownerReferences[controller=true].name");
    char name[AW_KUBE_NAME_MAX];
    if (strcmp(kind, "ReplicaSet") != 0)
        return aw__scan_find(scan, ns, kind, owner);
    snprintf(name, sizeof name, "%s", owner);
    char *hash = strrchr(name, '-');
    if (!hash)
        return NULL;
    *hash = '\0';
    return aw__scan_find(scan, ns, "Deployment", name);
}

static bool was_oom(const json_t *status, const char *path)
{
    return !strcmp(aw_kube_text_at(status, path), "OOMKilled");
}

void aw__scan_read_pod(const struct aw_kube_scan *scan, const json_t *pod)
{
    const json_t *statuses = aw_kube_at(pod, "status.containerStatuses"), *status;
    struct aw_kube_meta meta;
    size_t i;
    struct aw_kube_scan_row *row =
        aw_kube_meta_read(pod, &meta, NULL) ? NULL : owner_of(scan, meta.ns, pod);
    if (!row)
        return;
    json_array_foreach(statuses, i, status)
    {
        const int64_t restarts = aw_kube_int_at(status, "restartCount", 0);
        row->restarts += restarts > 0 && restarts < INT32_MAX ? (uint32_t)restarts : 0;
        row->oom_kills += was_oom(status, "lastState.terminated.reason");
        row->oom_kills += was_oom(status, "state.terminated.reason");
        if (!strcmp(aw_kube_text_at(status, "state.waiting.reason"), "CrashLoopBackOff"))
            row->crash_loop = true;
    }
}

static void pods_begin(void *ctx)
{
    const struct aw_kube_scan *scan = ctx;
    for (uint32_t i = 0; i < scan->count; i++) {
        scan->row[i].restarts = scan->row[i].oom_kills = 0;
        scan->row[i].crash_loop = false;
    }
}

static enum aw_err add_pod(void *ctx, const json_t *object)
{
    aw__scan_read_pod(ctx, object);
    return AW_OK;
}

/* --- who else scales --- */

enum other { OTHER_HPA, OTHER_VPA, OTHER_KEDA, OTHERS };

struct others {
    const struct aw_kube_scan *scan;
    enum other other;
};

static void others_begin(void *ctx)
{
    const struct others *others = ctx;
    for (uint32_t i = 0; i < others->scan->count; i++) {
        struct aw_kube_scan_row *row = &others->scan->row[i];
        if (others->other == OTHER_HPA) {
            row->hpa_count = 0;
            row->hpa_on_usage = false;
        } else if (others->other == OTHER_VPA) {
            row->vpa = row->vpa_acts = false;
        } else {
            row->keda = false;
        }
    }
}

/* Whether it scales by what the VPA changes; one that names no metric scales by CPU. */
static bool is_on_usage(const json_t *hpa)
{
    const json_t *metrics = aw_kube_at(hpa, "spec.metrics"), *metric;
    size_t i;
    if (json_array_size(metrics) == 0)
        return true;
    json_array_foreach(metrics, i, metric)
    {
        const char *type = aw_kube_text_at(metric, "type");
        if (!strcmp(type, "Resource") || !strcmp(type, "ContainerResource"))
            return true;
    }
    return false;
}

static enum aw_err add_other(void *ctx, const json_t *object)
{
    const struct others *others = ctx;
    const bool vpa = others->other == OTHER_VPA;
    const char *kind =
        aw_kube_text_at(object, vpa ? "spec.targetRef.kind" : "spec.scaleTargetRef.kind");
    const char *name =
        aw_kube_text_at(object, vpa ? "spec.targetRef.name" : "spec.scaleTargetRef.name");
    struct aw_kube_meta meta;
    if (aw_kube_meta_read(object, &meta, NULL))
        return AW_OK;
    struct aw_kube_scan_row *row = /* a ScaledObject that names no kind means a Deployment */
        aw__scan_find(others->scan, meta.ns, kind[0] ? kind : "Deployment", name);
    if (!row)
        return AW_OK;
    switch (others->other) {
    case OTHER_HPA:
        if (!strcmp(aw_kube_text_at(object, "metadata.ownerReferences[controller=true].kind"),
                    "ScaledObject"))
            break; /* KEDA's own means */
        row->hpa_count++;
        row->hpa_on_usage = row->hpa_on_usage || is_on_usage(object);
        break;
    case OTHER_VPA:
        row->vpa = true;
        if (strcmp(aw_kube_text_at(object, "spec.updatePolicy.updateMode"), "Off") != 0)
            row->vpa_acts = true;
        break;
    default:
        row->keda = true;
    }
    return AW_OK;
}

static void find_conflicts(const struct aw_kube_scan *scan)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        struct aw_kube_scan_row *row = &scan->row[i];
        if (row->hpa_count > 1)
            snprintf(row->conflict, sizeof row->conflict, "%u HPAs", row->hpa_count);
        else if (row->keda && row->hpa_count)
            snprintf(row->conflict, sizeof row->conflict, "KEDA and an HPA");
        else if (row->vpa_acts && row->hpa_on_usage)
            snprintf(row->conflict, sizeof row->conflict, "VPA and an HPA on CPU or memory");
    }
}

static void say(const struct aw_kube_scan_config *config, const char *what,
                const struct aw_diag *diag)
{
    char text[sizeof diag->text + 64];
    snprintf(text, sizeof text, "cannot list %s: %s", what, diag->text);
    if (config->told)
        config->told(config->ctx, text);
}

static void list_others(const struct aw_kube_scan *scan, const struct aw_kube_scan_config *config)
{
    const struct aw_kube_kind kinds[OTHERS] = {
        {"autoscaling", config->server->autoscaling, "horizontalpodautoscalers",
         "HorizontalPodAutoscaler", true},
        {"autoscaling.k8s.io", config->server->vpa, "verticalpodautoscalers",
         "VerticalPodAutoscaler", true},
        {"keda.sh", config->server->keda, "scaledobjects", "ScaledObject", true},
    };
    for (uint32_t i = 0; i < OTHERS; i++) {
        struct others others = {scan, (enum other)i};
        const struct aw_kube_query query = {.kind = &kinds[i], .ns = config->ns};
        const struct aw_kube_visitor visitor = {others_begin, add_other, &others};
        struct aw_diag said = {0};
        if (kinds[i].version[0] && aw_kube_list(config->kube, &query, &visitor, &said) != AW_OK)
            say(config, kinds[i].plural, &said);
    }
    find_conflicts(scan);
}

enum aw_err aw__scan_objects(struct aw_kube_scan *scan, const struct aw_kube_scan_config *config,
                             struct aw_diag *diag)
{
    const struct aw_kube_query query = {.kind = &aw_kube_pods, .ns = config->ns};
    const struct aw_kube_visitor visitor = {pods_begin, add_pod, scan};
    struct aw_diag said = {0};
    const enum aw_err err = list_workloads(scan, config, diag);
    if (err || scan->count == 0)
        return err;
    if (aw_kube_list(config->kube, &query, &visitor, &said) != AW_OK)
        say(config, "pods", &said);
    list_others(scan, config);
    return AW_OK;
}

/* --- a Prometheus --- */

struct finder {
    char *buf;
    size_t size;
    bool found;
};

static void finder_begin(void *ctx)
{
    struct finder *finder = ctx;
    finder->found = false;
}

/* The port that is called web or http, or the usual one; of several Services the first by name. */
static enum aw_err look_at_service(void *ctx, const json_t *object)
{
    struct finder *finder = ctx;
    const json_t *ports = aw_kube_at(object, "spec.ports"), *port;
    struct aw_kube_meta meta;
    size_t i;
    if (finder->found || aw_kube_meta_read(object, &meta, NULL))
        return AW_OK;
    json_array_foreach(ports, i, port)
    {
        const char *name = aw_kube_text_at(port, "name");
        const int64_t number = aw_kube_int_at(port, "port", 0);
        if (number != 9090 && strcmp(name, "web") != 0 && strcmp(name, "http") != 0 &&
            strcmp(name, "http-web") != 0)
            continue;
        const int len = snprintf(finder->buf, finder->size, "%s/%s:%lld", meta.ns, meta.name,
                                 (long long)number);
        finder->found = len > 0 && (size_t)len < finder->size && number > 0;
        break;
    }
    return AW_OK;
}

enum aw_err aw_kube_find_prometheus(struct aw_kube *kube, char *buf, size_t size,
                                    struct aw_diag *diag)
{
    /* the operator and its stack, the community chart, and older manifests */
    static const char *const labels[] = {
        "app.kubernetes.io/name=prometheus",
        "app=kube-prometheus-stack-prometheus",
        "app=prometheus,component=server",
        "app=prometheus",
        "k8s-app=prometheus",
    };
    struct finder finder = {buf, size, false};
    const struct aw_kube_visitor visitor = {finder_begin, look_at_service, &finder};
    for (uint32_t i = 0; i < sizeof labels / sizeof *labels && !finder.found; i++) {
        const struct aw_kube_query query = {.kind = &services, .labels = labels[i]};
        if (aw_kube_list(kube, &query, &visitor, diag) != AW_OK)
            return AW_ERR_NOTFOUND;
    }
    return finder.found ? AW_OK
                        : aw_fail(diag, AW_ERR_NOTFOUND, "no Service says that it is a Prometheus");
}
