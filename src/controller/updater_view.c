/* updater_view.c - see updater_view.h. */
#include "controller/updater_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "controller/status.h"

/* Another autoscaler: whom it scales, and whether it does. */
struct rival {
    struct aw_kube_span version, kind, name, mode;
};

/* clang-format off */
#define FIELD(member, path) \
    {path, AW_KUBE_FIELD_TEXT, offsetof(struct rival, member), 0, NULL, 0}
#define END {NULL, AW_KUBE_FIELD_TEXT, 0, 0, NULL, 0}

static const struct aw_kube_field by_scale_target[] = {
    FIELD(version, "spec.scaleTargetRef.apiVersion"),
    FIELD(kind,    "spec.scaleTargetRef.kind"),
    FIELD(name,    "spec.scaleTargetRef.name"),
    END,
};
static const struct aw_kube_field by_target[] = {
    FIELD(version, "spec.targetRef.apiVersion"),
    FIELD(kind,    "spec.targetRef.kind"),
    FIELD(name,    "spec.targetRef.name"),
    FIELD(mode,    "spec.updatePolicy.updateMode"),
    END,
};
/* clang-format on */

static enum aw_err project_rival(void *ctx, const json_t *object, void *buf, size_t size,
                                 size_t *ret_len)
{
    (void)ctx;
    return aw_kube_project(by_scale_target, sizeof(struct rival), object, buf, size, ret_len);
}

static enum aw_err project_vpa(void *ctx, const json_t *object, void *buf, size_t size,
                               size_t *ret_len)
{
    (void)ctx;
    return aw_kube_project(by_target, sizeof(struct rival), object, buf, size, ret_len);
}

const char *aw__key_ns(const char *key, char *buf, size_t size)
{
    const char *slash = strchr(key, '/');
    snprintf(buf, size, "%.*s", slash ? (int)(slash - key) : 0, key);
    return buf;
}

const char *aw__key_name(const char *key)
{
    const char *slash = strchr(key, '/');
    return slash ? slash + 1 : key;
}

/* --- following --- */

static void set_kind(struct aw__view *view, enum aw__view_kind i, const char *group,
                     const char *version, const char *plural, const char *kind)
{
    snprintf(view->versions[i], sizeof view->versions[i], "%s", version);
    view->kinds[i] = (struct aw_kube_kind){
        .group = group,
        .version = view->versions[i][0] ? view->versions[i] : NULL,
        .plural = plural,
        .kind = kind,
        .namespaced = true,
    };
}

enum aw_err aw__view_open(struct aw__view *view, struct aw_kube *kube,
                          const struct aw_kube_server *server, const char *ns, uint32_t objects_max,
                          uint32_t pods_max, const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *view = (struct aw__view){
        .kube = kube, .alloc = alloc, .ns = ns, .objects_max = objects_max, .pods_max = pods_max};
    view->kinds[AW__VIEW_MANDATES] = aw_mpa_kind;
    view->kinds[AW__VIEW_PODS] = aw_kube_pods;
    view->kinds[AW__VIEW_DEPLOYMENTS] = aw_kube_deployments;
    view->kinds[AW__VIEW_STATEFULSETS] = aw_kube_statefulsets;
    view->kinds[AW__VIEW_REPLICASETS] = aw_kube_replicasets;
    view->kinds[AW__VIEW_LIMIT_RANGES] = aw__limit_ranges;
    set_kind(view, AW__VIEW_HPAS, "autoscaling", server->autoscaling, "horizontalpodautoscalers",
             "HorizontalPodAutoscaler");
    set_kind(view, AW__VIEW_VPAS, "autoscaling.k8s.io", server->vpa, "verticalpodautoscalers",
             "VerticalPodAutoscaler");
    set_kind(view, AW__VIEW_SCALED_OBJECTS, "keda.sh", server->keda, "scaledobjects",
             "ScaledObject");
    view->pods = aw_alloc_new(alloc, pods_max, sizeof *view->pods);
    view->rivals = aw_alloc_new(alloc, AW__VIEW_RIVALS_MAX, sizeof *view->rivals);
    if (!view->pods || !view->rivals) {
        aw__view_close(view);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for what the updater sees");
    }
    return AW_OK;
}

void aw__view_close(struct aw__view *view)
{
    for (int i = 0; i < AW__VIEW_KINDS; i++)
        aw_kube_informer_close(view->informers[i]);
    aw_alloc_free(view->alloc, view->pods);
    aw_alloc_free(view->alloc, view->rivals);
    *view = (struct aw__view){0};
}

static enum aw_err open_one(struct aw__view *view, enum aw__view_kind i, struct aw_diag *diag)
{
    struct aw_kube_informer_config config = {
        .query = {.kind = &view->kinds[i], .ns = view->ns},
        .objects_max =
            i == AW__VIEW_PODS || i == AW__VIEW_REPLICASETS ? view->pods_max : view->objects_max,
    };
    switch (i) {
    case AW__VIEW_MANDATES:
        config.project = aw__mpa_intent_project;
        break;
    case AW__VIEW_PODS:
        config.project = aw_kube_project_pod;
        break;
    case AW__VIEW_DEPLOYMENTS:
    case AW__VIEW_STATEFULSETS:
    case AW__VIEW_REPLICASETS:
        config.project = aw_kube_project_workload;
        break;
    case AW__VIEW_LIMIT_RANGES:
        config.project = aw__limit_range_project;
        break;
    default:
        config.project = i == AW__VIEW_VPAS ? project_vpa : project_rival;
    }
    return aw_kube_informer_open(&view->informers[i], view->kube, &config, diag);
}

enum aw_err aw__view_step(struct aw__view *view, bool follow, struct aw_diag *diag)
{
    enum aw_err first = AW_OK;
    for (int i = 0; i < AW__VIEW_KINDS; i++) {
        const bool wanted = view->kinds[i].version && (i == AW__VIEW_MANDATES || follow);
        enum aw_err err = AW_OK;
        if (!wanted) {
            aw_kube_informer_close(view->informers[i]);
            view->informers[i] = NULL;
            continue;
        }
        if (!view->informers[i])
            err = open_one(view, (enum aw__view_kind)i, first ? NULL : diag);
        if (!err)
            err = aw_kube_informer_step(view->informers[i], first ? NULL : diag);
        first = first ? first : err;
        if (err == AW_ERR_INTERRUPTED)
            return err;
    }
    return first;
}

int64_t aw__view_due(const struct aw__view *view, bool follow)
{
    int64_t due_us = INT64_MAX; /* all of them watch: nothing is due until something comes */
    for (int i = 0; i < AW__VIEW_KINDS; i++) {
        if (!view->kinds[i].version || (i != AW__VIEW_MANDATES && !follow))
            continue;
        const int64_t one_us = view->informers[i] ? aw_kube_informer_due(view->informers[i]) : 0;
        due_us = one_us < due_us ? one_us : due_us;
    }
    return due_us;
}

bool aw__view_ready(const struct aw__view *view, bool all)
{
    for (int i = 0; i < (all ? AW__VIEW_KINDS : AW__VIEW_MANDATES + 1); i++) {
        if (!view->kinds[i].version)
            continue;
        if (!view->informers[i] || !aw_kube_informer_state(view->informers[i])->synced ||
            !aw_kube_informer_state(view->informers[i])->complete)
            return false;
    }
    return true;
}

/* --- indices --- */

static uint64_t hash_add(uint64_t hash, const char *text, size_t len) /* FNV-1a, 64 bits */
{
    hash = aw_hash_bytes(hash, text, len);
    return aw_hash_byte(hash, '/');
}

static uint64_t hash_of(const char *text)
{
    return hash_add(AW_HASH_BEGIN, text, strlen(text));
}

static int by_hash(const void *a, const void *b)
{
    const struct aw__view_entry *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static uint32_t first_of(const struct aw__view_entry *entries, uint32_t count, uint64_t hash)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (entries[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Who owns a pod in the end: a ReplicaSet stands for its Deployment. "ns/Kind/name" into `buf`. */
static const char *owner_of(const struct aw__view *view, const struct aw_kube_item *item, char *buf,
                            size_t size)
{
    const struct aw_kube_pod *pod = item->data;
    const char *kind = aw_kube_span_text(pod, pod->owner_kind);
    const char *name = aw_kube_span_text(pod, pod->owner_name);
    char ns[AW_KUBE_NAME_MAX], key[AW_KUBE_KEY_MAX];
    aw__key_ns(item->key, ns, sizeof ns);
    if (!strcmp(kind, aw_kube_replicasets.kind)) {
        snprintf(key, sizeof key, "%s/%s", ns, name);
        const struct aw_kube_item *set =
            aw_kube_informer_find(view->informers[AW__VIEW_REPLICASETS], key);
        const struct aw_kube_workload *workload = set ? set->data : NULL;
        if (workload && workload->owner_name.count) {
            kind = aw_kube_span_text(workload, workload->owner_kind);
            name = aw_kube_span_text(workload, workload->owner_name);
        }
    }
    snprintf(buf, size, "%s/%s/%s", ns, kind, name);
    return buf;
}

static void index_rivals(struct aw__view *view, enum aw__view_kind kind)
{
    const struct aw_kube_item *item;
    uint32_t at = 0;
    char key[AW__TARGET_MAX], ns[AW_KUBE_NAME_MAX];
    if (!view->informers[kind])
        return;
    while ((item = aw_kube_informer_walk(view->informers[kind], &at))) {
        aw__key_ns(item->key, ns, sizeof ns);
        if (kind == AW__VIEW_MANDATES) {
            const struct aw__mpa_intent *intent = item->data;
            /* of two of ours the younger has no recommendation: the recommender sees to that */
            if (!aw__mpa_intent_updates(aw__mpa_intent_mode(intent)) || intent->time_us == 0 ||
                intent->generation_seen != intent->generation)
                continue;
            aw__mpa_intent_target(intent, ns, key, sizeof key);
        } else {
            const struct rival *rival = item->data;
            const char *other = aw_kube_span_text(rival, rival->kind);
            if (!strcmp(aw_kube_span_text(rival, rival->mode), "Off"))
                continue; /* it only recommends */
            aw__target_key(ns, aw_kube_span_text(rival, rival->version),
                           other[0] ? other : aw_kube_deployments.kind,
                           aw_kube_span_text(rival, rival->name), key, sizeof key);
        }
        if (view->rival_count == AW__VIEW_RIVALS_MAX) {
            view->whole = false;
            return;
        }
        view->rivals[view->rival_count++] = (struct aw__view_entry){hash_of(key), item, kind};
    }
}

void aw__view_index(struct aw__view *view)
{
    const struct aw_kube_item *item;
    uint32_t at = 0;
    char key[AW__TARGET_MAX];
    view->whole = true;
    view->pod_count = view->rival_count = 0;
    while ((item = aw_kube_informer_walk(view->informers[AW__VIEW_PODS], &at))) {
        const struct aw_kube_pod *pod = item->data;
        if (!pod->owner_name.count)
            continue;
        AW_ASSERT(view->pod_count < view->pods_max); /* the informer keeps no more */
        view->pods[view->pod_count++] = (struct aw__view_entry){
            hash_of(owner_of(view, item, key, sizeof key)), item, AW__VIEW_PODS};
    }
    qsort(view->pods, view->pod_count, sizeof *view->pods, by_hash);
    index_rivals(view, AW__VIEW_MANDATES);
    for (int i = AW__VIEW_HPAS; i < AW__VIEW_KINDS; i++)
        index_rivals(view, (enum aw__view_kind)i);
    qsort(view->rivals, view->rival_count, sizeof *view->rivals, by_hash);
}

/* --- questions --- */

const struct aw_kube_item *aw__view_target(const struct aw__view *view,
                                           const struct aw__mpa_intent *intent, const char *ns,
                                           bool *ret_known)
{
    const char *version = aw_kube_span_text(intent, intent->target_version);
    const char *kind = aw__mpa_intent_target_kind(intent);
    char key[AW_KUBE_KEY_MAX];
    snprintf(key, sizeof key, "%s/%s", ns, aw_kube_span_text(intent, intent->target_name));
    for (int i = AW__VIEW_DEPLOYMENTS; i <= AW__VIEW_REPLICASETS; i++) {
        if (strcmp(kind, view->kinds[i].kind) != 0 ||
            (version[0] && strncmp(version, "apps/", 5) != 0))
            continue;
        *ret_known = true;
        return aw_kube_informer_find(view->informers[i], key);
    }
    *ret_known = false;
    return NULL;
}

bool aw__view_pods(struct aw__view *view, const struct aw__mpa_intent *intent, const char *ns,
                   uint32_t *ret_count)
{
    char key[AW__TARGET_MAX], other[AW__TARGET_MAX];
    uint32_t count = 0;
    snprintf(key, sizeof key, "%s/%s/%s", ns, aw__mpa_intent_target_kind(intent),
             aw_kube_span_text(intent, intent->target_name));
    const uint64_t hash = hash_of(key);
    for (uint32_t i = first_of(view->pods, view->pod_count, hash);
         i < view->pod_count && view->pods[i].hash == hash; i++) {
        const struct aw_kube_item *item = view->pods[i].item;
        if (strcmp(owner_of(view, item, other, sizeof other), key) != 0)
            continue;
        if (count == AW__UPDATE_PODS_MAX)
            return false;
        view->list[count++] =
            (struct aw__update_pod){aw__key_name(item->key), item->uid, item->data};
    }
    *ret_count = count;
    return view->whole;
}

struct aw__limit_range aw__view_limits(const struct aw__view *view, const char *ns)
{
    struct aw__limit_range all = aw__limit_range_none;
    const size_t len = strlen(ns);
    const struct aw_kube_item *item;
    uint32_t at = 0;
    while ((item = aw_kube_informer_walk(view->informers[AW__VIEW_LIMIT_RANGES], &at)))
        if (!strncmp(item->key, ns, len) && item->key[len] == '/')
            aw__limit_range_narrow(&all, item->data);
    /* what runs without a limit goes on without: a default is for those that are being made */
    for (int r = 0; r < AW__RESOURCES; r++)
        all.default_limit[r] = -1;
    return all;
}

const char *aw__view_rival(const struct aw__view *view, const struct aw_kube_item *self,
                           const char *ns, char *buf, size_t size)
{
    char key[AW__TARGET_MAX];
    const uint64_t hash = hash_of(aw__mpa_intent_target(self->data, ns, key, sizeof key));
    for (uint32_t i = first_of(view->rivals, view->rival_count, hash);
         i < view->rival_count && view->rivals[i].hash == hash; i++) {
        const struct aw__view_entry *rival = &view->rivals[i];
        if (rival->item == self)
            continue;
        snprintf(buf, size, "%s %s", view->kinds[rival->kind].kind, aw__key_name(rival->item->key));
        return buf;
    }
    return NULL;
}
