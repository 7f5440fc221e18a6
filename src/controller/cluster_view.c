/* cluster_view.c - objects, targets, pods and metrics, from copies that are kept up to date. */
#include "controller/cluster_view.h"

#include "base/hash.h"
#include "base/hash_table.h"
#include "base/quantity.h"
#include "controller/selector.h"
#include "controller/status.h"
#include "kube/discovery.h"
#include "kube/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

enum { OBJECTS, PODS, DEPLOYMENTS, STATEFULSETS, FOLLOWED };

/* A kind that somebody targets and that is not followed. */
struct kind {
    struct aw_kube_found found; /* must not move */
    char api_version[AW_KUBE_NAME_MAX + AW_KUBE_WORD_MAX], name[AW_KUBE_NAME_MAX];
    bool there;
    int64_t asked_us;
};

/* A target, by its namespace and a label. */
struct labelled {
    uint64_t hash;
    uint64_t target; /* its place */
};

struct aw__cluster_view {
    struct aw__cluster_view_config config;
    struct aw_kube_informer *informer[FOLLOWED];
    struct kind *kinds; /* [AW__CLUSTER_VIEW_KINDS_MAX] */
    uint32_t kind_count;
    struct aw__cluster_view_target *const *targets; /* of this round */
    uint32_t target_count;
    struct aw_hash_table by_label;    /* of struct labelled */
    const struct aw_kube_item **pods; /* [pods_max] by target */
    uint32_t *owner;                  /* [pods_max] in the order of the walk */
    struct aw_kubecluster_pod view[AW__CLUSTER_VIEW_VIEW_PODS];
    const char *names[AW__CLUSTER_VIEW_VIEW_PODS];
    struct aw_kube_target *measured; /* [objects_max] */
    const struct aw_alloc *alloc;
};

/* --- opened and followed ---------------------------------------------------------------------- */

static enum aw_err follow(struct aw__cluster_view *scene, struct aw_diag *diag)
{
    const struct aw__cluster_view_config *config = &scene->config;
    const struct aw_kube_informer_config informers[FOLLOWED] = {
        [OBJECTS] = {.query = {.kind = &aw_mpa_kind, .ns = config->ns},
                     .project = aw__cluster_view_project_mpa,
                     .changed = config->changed,
                     .ctx = config->ctx,
                     .objects_max = config->objects_max},
        [PODS] = {.query = {.kind = &aw_kube_pods, .ns = config->ns},
                  .project = aw__cluster_view_project_pod,
                  .objects_max = config->pods_max,
                  .bytes_max = AW__CLUSTER_VIEW_POD_BYTES},
        [DEPLOYMENTS] = {.query = {.kind = &aw_kube_deployments, .ns = config->ns},
                         .project = aw__cluster_view_project_workload},
        [STATEFULSETS] = {.query = {.kind = &aw_kube_statefulsets, .ns = config->ns},
                          .project = aw__cluster_view_project_workload},
    };
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < FOLLOWED; i++)
        err = aw_kube_informer_open(&scene->informer[i], config->kube, &informers[i], diag);
    return err;
}

enum aw_err aw__cluster_view_open(struct aw__cluster_view **ret_scene,
                                  const struct aw__cluster_view_config *config,
                                  const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw__cluster_view *scene = aw_alloc_new(alloc, 1, sizeof *scene);
    if (!scene)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to look at a cluster");
    scene->config = *config;
    scene->alloc = alloc;
    scene->kinds = aw_alloc_new(alloc, AW__CLUSTER_VIEW_KINDS_MAX, sizeof *scene->kinds);
    scene->pods = aw_alloc_new(alloc, config->pods_max, sizeof(void *));
    scene->owner = aw_alloc_new(alloc, config->pods_max, sizeof *scene->owner);
    scene->measured = aw_alloc_new(alloc, config->objects_max, sizeof *scene->measured);
    enum aw_err err = aw_hash_table_init(&scene->by_label, sizeof(struct labelled),
                                         config->objects_max, config->objects_max, alloc);
    if (err || !scene->kinds || !scene->pods || !scene->owner || !scene->measured)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u pods", config->pods_max);
    err = err ? err : follow(scene, diag);
    if (err) {
        aw__cluster_view_close(scene);
        return err;
    }
    *ret_scene = scene;
    return AW_OK;
}

void aw__cluster_view_close(struct aw__cluster_view *scene)
{
    if (!scene)
        return;
    for (uint32_t i = 0; i < FOLLOWED; i++)
        aw_kube_informer_close(scene->informer[i]);
    aw_alloc_free(scene->alloc, scene->measured);
    aw_alloc_free(scene->alloc, scene->owner);
    aw_alloc_free(scene->alloc, scene->pods);
    aw_hash_table_deinit(&scene->by_label);
    aw_alloc_free(scene->alloc, scene->kinds);
    aw_alloc_free(scene->alloc, scene);
}

enum aw_err aw__cluster_view_step(struct aw__cluster_view *scene, struct aw_diag *diag)
{
    enum aw_err first = AW_OK;
    for (uint32_t i = 0; i < FOLLOWED; i++) {
        struct aw_diag why = {0};
        const enum aw_err err = aw_kube_informer_step(scene->informer[i], &why);
        if (err == AW_ERR_INTERRUPTED || (err && !first)) {
            first = err;
            if (diag)
                *diag = why;
        }
        if (err == AW_ERR_INTERRUPTED)
            break;
    }
    return first;
}

int64_t aw__cluster_view_due(const struct aw__cluster_view *scene)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < FOLLOWED; i++) {
        const int64_t one = aw_kube_informer_due(scene->informer[i]);
        due = one < due ? one : due;
    }
    return due;
}

bool aw__cluster_view_synced(const struct aw__cluster_view *scene)
{
    bool synced = true;
    for (uint32_t i = 0; i < FOLLOWED; i++)
        synced = synced && aw_kube_informer_state(scene->informer[i])->synced;
    return synced;
}

_Static_assert(AW_KUBE_WATCH_MAX_S * 1000000ull + AW_KUBE_WATCH_GRACE_US <
                   AW__CLUSTER_VIEW_STALE_US,
               "a server that has nothing to tell is heard when a watch ends");

bool aw__cluster_view_believed(const struct aw__cluster_view *scene)
{
    const int64_t now_us = aw_clock_monotonic_us(scene->config.clock);
    for (uint32_t i = PODS; i < FOLLOWED; i++) {
        const struct aw_kube_informer_state *state = aw_kube_informer_state(scene->informer[i]);
        if (!state->synced || !state->complete ||
            now_us - state->in_touch_us > AW__CLUSTER_VIEW_STALE_US)
            return false;
    }
    return true;
}

const struct aw_kube_item *aw__cluster_view_object_find(const struct aw__cluster_view *scene,
                                                        const char *key)
{
    return aw_kube_informer_find(scene->informer[OBJECTS], key);
}

const struct aw_kube_item *aw__cluster_view_pod_walk(const struct aw__cluster_view *scene,
                                                     uint32_t *at)
{
    return aw_kube_informer_walk(scene->informer[PODS], at);
}

const struct aw_kube_informer_state *aw__cluster_view_state(const struct aw__cluster_view *scene,
                                                            uint32_t which, const char **ret_name)
{
    static const char *const names[FOLLOWED] = {"autoscalers", "pods", "deployments",
                                                "statefulsets"};
    if (which >= FOLLOWED)
        return NULL;
    *ret_name = names[which];
    return aw_kube_informer_state(scene->informer[which]);
}

/* --- whom a target is ------------------------------------------------------------------------- */

/* Which informer has it; FOLLOWED: none. "apps/v1beta2" and "apps/v1" are one thing. */
static uint32_t followed(const struct aw__cluster_view_target *target)
{
    const bool apps = !*target->api_version || !strncmp(target->api_version, "apps/", 5);
    return apps && !strcmp(target->kind, "Deployment")    ? DEPLOYMENTS
           : apps && !strcmp(target->kind, "StatefulSet") ? STATEFULSETS
                                                          : FOLLOWED;
}

static void keep_uid(struct aw__cluster_view_target *target, const char *uid)
{
    snprintf(target->uid, sizeof target->uid, "%s", uid);
}

static void look_followed(struct aw__cluster_view *scene, struct aw__cluster_view_target *target,
                          uint32_t which)
{
    char key[AW_KUBE_KEY_MAX];
    snprintf(key, sizeof key, "%s/%s", target->ns, target->name);
    const struct aw_kube_item *item = aw_kube_informer_find(scene->informer[which], key);
    target->selector = NULL;
    if (!item) {
        target->found = aw_kube_informer_state(scene->informer[which])->synced
                            ? AW__CLUSTER_VIEW_NO_TARGET
                            : AW__CLUSTER_VIEW_UNKNOWN;
        return;
    }
    const struct aw__cluster_view_workload *record = item->data;
    target->found = AW__CLUSTER_VIEW_FOUND;
    target->replicas_wanted = record->workload.replicas_wanted;
    target->replicas = record->workload.replicas;
    target->rolling = aw_kube_workload_rolling(&record->workload);
    target->selector = aw_kube_span_text(record, record->selector);
    keep_uid(target, item->uid);
}

/* NULL: there is none, or nobody could be asked; `ret_err` says which. */
static struct kind *kind_of(struct aw__cluster_view *scene,
                            const struct aw__cluster_view_target *target, enum aw_err *ret_err,
                            struct aw_diag *diag)
{
    const int64_t now_us = aw_clock_monotonic_us(scene->config.clock);
    struct kind *kind = NULL;
    for (uint32_t i = 0; !kind && i < scene->kind_count; i++)
        if (!strcmp(scene->kinds[i].api_version, target->api_version) &&
            !strcmp(scene->kinds[i].name, target->kind))
            kind = &scene->kinds[i];
    *ret_err = AW_ERR_NOTFOUND;
    if (kind && (kind->there || now_us - kind->asked_us < AW__CLUSTER_VIEW_KIND_AGAIN_US))
        return kind->there ? kind : NULL;
    if (!kind) { /* the last one makes room: nobody has that many kinds */
        scene->kind_count += scene->kind_count < AW__CLUSTER_VIEW_KINDS_MAX;
        kind = &scene->kinds[scene->kind_count - 1];
        *kind = (struct kind){0};
        snprintf(kind->api_version, sizeof kind->api_version, "%s", target->api_version);
        snprintf(kind->name, sizeof kind->name, "%s", target->kind);
    }
    *ret_err = aw_kube_find_kind(scene->config.kube, target->api_version, target->kind,
                                 &kind->found, diag);
    kind->there = *ret_err == AW_OK;
    kind->asked_us = now_us;
    return kind->there ? kind : NULL;
}

static enum aw_err look_asked(struct aw__cluster_view *scene,
                              struct aw__cluster_view_target *target, struct aw_diag *diag)
{
    struct aw_kube_scale scale;
    enum aw_err err = AW_OK;
    const struct kind *kind = kind_of(scene, target, &err, diag);
    if (!kind) {
        const bool none = err == AW_ERR_NOTFOUND || err == AW_ERR_CONFIG;
        target->found = none ? AW__CLUSTER_VIEW_NO_KIND : target->found;
        return none ? AW_OK : err;
    }
    if (!kind->found.scalable) {
        target->found = AW__CLUSTER_VIEW_NO_SCALE;
        return AW_OK;
    }
    const struct aw_kube_ref ref = {
        .kind = &kind->found.kind, .ns = target->ns, .name = target->name};
    err = aw_kube_scale_get(scene->config.kube, &ref, &scale, diag);
    if (err == AW_ERR_NOTFOUND) {
        target->found = AW__CLUSTER_VIEW_NO_TARGET;
        return AW_OK;
    }
    if (err) /* as it was last seen */
        return err;
    free(target->selector_kept);
    target->selector_kept = strdup(scale.selector);
    target->found = AW__CLUSTER_VIEW_FOUND;
    target->replicas_wanted = scale.replicas_wanted;
    target->replicas = scale.replicas_seen;
    target->rolling = false;
    return AW_OK;
}

void aw__cluster_view_target_deinit(struct aw__cluster_view_target *target)
{
    free(target->selector_kept);
    *target = (struct aw__cluster_view_target){0};
}

static enum aw_err look_all(struct aw__cluster_view *scene, struct aw_diag *diag)
{
    const int64_t now_us = aw_clock_monotonic_us(scene->config.clock);
    uint32_t asked = 0;
    bool silent = false; /* a server that does not answer is asked once in a round */
    enum aw_err result = AW_OK;
    for (uint32_t i = 0; i < scene->target_count; i++) {
        struct aw__cluster_view_target *target = scene->targets[i];
        if (!target)
            continue;
        const uint32_t which = followed(target);
        if (which < FOLLOWED) {
            look_followed(scene, target, which);
            continue;
        }
        const bool due =
            !target->looked_us || now_us - target->looked_us >= AW__CLUSTER_VIEW_SCALE_US;
        if (due && !silent && asked < AW__CLUSTER_VIEW_SCALES_MAX) {
            struct aw_diag why = {0};
            const enum aw_err err = look_asked(scene, target, &why);
            asked++;
            target->looked_us = err ? 0 : now_us > 0 ? now_us : 1;
            silent = err == AW_ERR_UNAVAILABLE || err == AW_ERR_DEADLINE;
            if (err == AW_ERR_INTERRUPTED)
                return err;
            if (err && !result) {
                result = err;
                if (diag)
                    *diag = why;
            }
        }
        target->selector = target->selector_kept;
    }
    return result;
}

/* --- whose a pod is --------------------------------------------------------------------------- */

static uint64_t hash_of(const char *ns, size_t ns_len, const char *pair, size_t pair_len)
{
    return aw_hash_bytes(aw_hash_bytes(AW_HASH_BEGIN, ns, ns_len) * 31, pair, pair_len);
}

/* Targets by namespace and one label that all of their pods have; those that demand no such label,
 * by namespace alone. */
static void index_targets(struct aw__cluster_view *scene)
{
    aw_hash_table_clear(&scene->by_label);
    for (uint32_t i = 0; i < scene->target_count; i++) {
        struct aw__cluster_view_target *target = scene->targets[i];
        char pair[AW__LABEL_BYTES_MAX] = "";
        if (!target)
            continue;
        target->first = target->count = 0;
        if (!target->selector || !*target->selector)
            continue;
        if (!aw__selector_pair(target->selector, pair, sizeof pair))
            *pair = '\0';
        struct labelled *labelled = aw_hash_table_add(
            &scene->by_label, hash_of(target->ns, strlen(target->ns), pair, strlen(pair)));
        labelled->target = i;
    }
}

/* A pod of another controller may have the same labels by accident; HPA counts those, and is wrong.
 * A Deployment's pods belong to a ReplicaSet that is named after it. */
static bool owned(const struct aw__cluster_view_target *target,
                  const struct aw__cluster_view_pod *pod)
{
    const char *kind = aw_kube_span_text(pod, pod->pod.owner_kind);
    const char *name = aw_kube_span_text(pod, pod->pod.owner_name);
    const size_t len = strlen(target->name);
    if (!strcmp(target->kind, "Deployment"))
        return !strcmp(kind, "ReplicaSet") && !strncmp(name, target->name, len) && name[len] == '-';
    if (!strcmp(target->kind, "StatefulSet") || !strcmp(target->kind, "ReplicaSet"))
        return !strcmp(kind, target->kind) && !strcmp(name, target->name);
    return true; /* who knows how others do it */
}

/* Of the targets of that label, the first that the pod is of. */
static uint32_t owner_in(const struct aw__cluster_view *scene, uint64_t hash, const char *ns,
                         size_t ns_len, const struct aw__cluster_view_pod *pod, const char *labels)
{
    const struct labelled *at = aw_hash_table_find(&scene->by_label, hash);
    for (; at; at = aw_hash_table_next(&scene->by_label, at)) {
        const struct aw__cluster_view_target *target = scene->targets[at->target];
        if (strlen(target->ns) == ns_len && !memcmp(target->ns, ns, ns_len) && owned(target, pod) &&
            aw__selector_matches(target->selector, labels, pod->labels.count))
            return (uint32_t)at->target;
    }
    return NOBODY;
}

static uint32_t owner_of(const struct aw__cluster_view *scene, const struct aw_kube_item *item)
{
    const struct aw__cluster_view_pod *pod = item->data;
    const char *slash = strchr(item->key, '/');
    const char *labels = aw_kube_span_text(pod, pod->labels);
    if (!slash || pod->labels.count == 0)
        return NOBODY;
    const size_t ns_len = (size_t)(slash - item->key);
    uint32_t owner = NOBODY;
    for (size_t at = 0; owner == NOBODY && at < pod->labels.count;) {
        const size_t len = strlen(labels + at);
        owner = owner_in(scene, hash_of(item->key, ns_len, labels + at, len), item->key, ns_len,
                         pod, labels);
        at += len + 1;
    }
    if (owner == NOBODY)
        owner = owner_in(scene, hash_of(item->key, ns_len, "", 0), item->key, ns_len, pod, labels);
    return owner;
}

/* Two walks: how many has each, then which. */
static void find_pods(struct aw__cluster_view *scene)
{
    const struct aw_kube_informer *informer = scene->informer[PODS];
    const struct aw_kube_item *item;
    uint32_t at = 0, i = 0, sum = 0;
    while ((item = aw_kube_informer_walk(informer, &at)) && i < scene->config.pods_max) {
        const uint32_t owner = owner_of(scene, item);
        scene->owner[i++] = owner;
        if (owner != NOBODY)
            scene->targets[owner]->count++;
    }
    for (uint32_t t = 0; t < scene->target_count; t++)
        if (scene->targets[t]) {
            scene->targets[t]->first = sum;
            sum += scene->targets[t]->count;
            scene->targets[t]->count = 0;
        }
    at = i = 0;
    while ((item = aw_kube_informer_walk(informer, &at)) && i < scene->config.pods_max) {
        const uint32_t owner = scene->owner[i++];
        if (owner != NOBODY)
            scene->pods[scene->targets[owner]->first + scene->targets[owner]->count++] = item;
    }
}

enum aw_err aw__cluster_view_gather(struct aw__cluster_view *scene,
                                    struct aw__cluster_view_target *const *targets, uint32_t count,
                                    struct aw_diag *diag)
{
    AW_ASSERT(count <= scene->config.objects_max);
    scene->targets = targets;
    scene->target_count = count;
    const enum aw_err err = look_all(scene, diag);
    if (err == AW_ERR_INTERRUPTED)
        return err;
    index_targets(scene);
    find_pods(scene);
    return err;
}

const struct aw_kube_item *aw__cluster_view_pod_of(const struct aw__cluster_view *scene,
                                                   const struct aw__cluster_view_target *target,
                                                   uint32_t i)
{
    AW_ASSERT(i < target->count);
    return scene->pods[target->first + i];
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void nodes_begin(void *ctx)
{
    *(struct aw__cluster_view_node *)ctx = (struct aw__cluster_view_node){0};
}

static enum aw_err node_take(void *ctx, const json_t *object)
{
    struct aw__cluster_view_node *largest = ctx;
    int64_t millicores = 0, bytes = 0;
    if (json_is_true(aw_kube_at(object, "spec.unschedulable")) ||
        aw_quantity_parse_cpu(aw_kube_text_at(object, "status.allocatable.cpu"), &millicores,
                              NULL) ||
        aw_quantity_parse_memory(aw_kube_text_at(object, "status.allocatable.memory"), &bytes,
                                 NULL))
        return AW_OK;
    if (millicores > largest->cpu_millicores)
        largest->cpu_millicores = millicores;
    if (bytes > largest->memory_bytes)
        largest->memory_bytes = bytes;
    return AW_OK;
}

enum aw_err aw__cluster_view_largest_node(struct aw__cluster_view *scene,
                                          struct aw__cluster_view_node *ret, struct aw_diag *diag)
{
    struct aw__cluster_view_node largest = {0};
    const struct aw_kube_query query = {.kind = &aw_kube_nodes};
    const struct aw_kube_visitor visitor = {nodes_begin, node_take, &largest};
    const enum aw_err err = aw_kube_list(scene->config.kube, &query, &visitor, diag);
    if (!err)
        *ret = largest;
    return err;
}

/* --- what is measured, and the view of all ---------------------------------------------------- */

enum aw_err aw__cluster_view_measure(struct aw__cluster_view *scene,
                                     struct aw__cluster_view_target *const *targets, uint32_t count,
                                     int64_t deadline_us, struct aw_diag *diag)
{
    uint32_t measured = 0;
    if (!scene->config.metrics)
        return AW_OK;
    for (uint32_t i = 0; i < count; i++)
        if (targets[i] && targets[i]->found == AW__CLUSTER_VIEW_FOUND)
            scene->measured[measured++] = (struct aw_kube_target){
                .ns = targets[i]->ns, .name = targets[i]->name, .pods = targets[i]->count};
    if (measured == 0)
        return AW_OK;
    return aw_kube_metrics_read(scene->config.metrics, scene->measured, measured, deadline_us,
                                diag);
}

static void no_figures(struct aw_kube_workload_metrics *ret)
{
    const struct aw_kube_figure none = {.at_us = AW_KUBE_NEVER};
    ret->requests_per_s = ret->errors_per_s = ret->in_flight = none;
    ret->latency_us_mean = ret->latency_us_p50 = ret->latency_us_p95 = ret->latency_us_p99 = none;
}

enum aw_err aw__cluster_view_view(struct aw__cluster_view *scene,
                                  const struct aw__cluster_view_target *target,
                                  struct aw_kubecluster_view *ret_view)
{
    const struct aw_kube_metrics *metrics = scene->config.metrics;
    const int64_t now_us = aw_clock_now_us(scene->config.clock);
    if (!aw__cluster_view_believed(scene) || target->found == AW__CLUSTER_VIEW_UNKNOWN)
        return AW_ERR_UNAVAILABLE;
    if (target->found != AW__CLUSTER_VIEW_FOUND)
        return AW_ERR_NODATA;
    if (target->count > AW__CLUSTER_VIEW_VIEW_PODS)
        return AW_ERR_LIMIT;
    for (uint32_t i = 0; i < target->count; i++) {
        const struct aw_kube_item *item = scene->pods[target->first + i];
        const struct aw__cluster_view_pod *pod = item->data;
        const struct aw_kube_figure none = {.at_us = AW_KUBE_NEVER};
        scene->names[i] = strchr(item->key, '/') + 1;
        scene->view[i] = (struct aw_kubecluster_pod){.uid = item->uid,
                                                     .pod = &pod->pod,
                                                     .started_us = pod->started_us,
                                                     .ready_change_us = pod->ready_change_us,
                                                     .used = {none, none, none}};
        if (metrics)
            aw_kube_metrics_pod(metrics, target->ns, scene->names[i], now_us, &scene->view[i].used);
    }
    *ret_view = (struct aw_kubecluster_view){.replicas_wanted = target->replicas_wanted,
                                             .rolling = target->rolling,
                                             .pod_count = target->count,
                                             .pods = scene->view};
    no_figures(&ret_view->service);
    if (metrics)
        aw_kube_metrics_workload(metrics, target->ns, target->name, scene->names, target->count,
                                 now_us, &ret_view->service);
    return AW_OK;
}
