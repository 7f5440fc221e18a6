/*
 * updater_view.h - what the updater sees: objects, workloads, pods, and other autoscalers of them.
 *
 * Call order: open; step in the owner's loop; before a round, `ready` and then `index`; the other
 *             questions until the next step; close before the client.
 * Memory:     informers (bounded); two indices sized at open.
 * Threads:    those of the client.
 *
 * All but the objects themselves is followed only while some object asks for changes (`follow`): a
 * cluster where everything is Off has one watch.
 *
 * The trap: everything that is returned lives until the next step.
 */
#ifndef AW_CONTROLLER_UPDATER_VIEW_H
#define AW_CONTROLLER_UPDATER_VIEW_H

#include "controller/updater_plan.h"
#include "kube/discovery.h"
#include "kube/informer.h"

#define AW__VIEW_RIVALS_MAX 16384u

enum aw__view_kind {
    AW__VIEW_MANDATES,
    AW__VIEW_PODS,
    AW__VIEW_DEPLOYMENTS,
    AW__VIEW_STATEFULSETS,
    AW__VIEW_REPLICASETS,
    AW__VIEW_LIMIT_RANGES,
    AW__VIEW_HPAS, /* where the server has them, as the two below */
    AW__VIEW_VPAS,
    AW__VIEW_SCALED_OBJECTS, /* of KEDA */
    AW__VIEW_KINDS,
};

struct aw__view_entry {
    uint64_t hash; /* of the key that it is found by */
    const struct aw_kube_item *item;
    enum aw__view_kind kind;
};

struct aw__view {
    struct aw_kube *kube;
    const struct aw_alloc *alloc;
    const char *ns;                            /* NULL: all */
    struct aw_kube_kind kinds[AW__VIEW_KINDS]; /* no version: the server has none of that kind */
    char versions[AW__VIEW_KINDS][AW_KUBE_WORD_MAX];
    struct aw_kube_informer *informers[AW__VIEW_KINDS];
    uint32_t objects_max, pods_max;
    struct aw__view_entry *pods, *rivals;
    uint32_t pod_count, rival_count;
    bool whole; /* the indices have everything */
    struct aw__update_pod list[AW__UPDATE_PODS_MAX];
};

/* On failure `view` is zeroed. Not to be moved. */
AW_NODISCARD enum aw_err aw__view_open(struct aw__view *view, struct aw_kube *kube,
                                       const struct aw_kube_server *server, const char *ns,
                                       uint32_t objects_max, uint32_t pods_max,
                                       const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__view_close(struct aw__view *view); /* zeroed is a no-op */

/* Steps what is followed, all of it, and returns the first error: for the log. */
AW_NODISCARD enum aw_err aw__view_step(struct aw__view *view, bool follow, struct aw_diag *diag);
/* INT64_MAX: when something comes. */
int64_t aw__view_due(const struct aw__view *view, bool follow);
/* Whether objects alone, or everything that is followed, has been seen whole. */
bool aw__view_ready(const struct aw__view *view, bool all);

/* Before a round. */
void aw__view_index(struct aw__view *view);
/* The workload that an intent in `ns` is about, with its item; NULL: not there, or not of a kind
 * that is followed (`ret_known` false). */
const struct aw_kube_item *aw__view_target(const struct aw__view *view,
                                           const struct aw__mpa_intent *intent, const char *ns,
                                           bool *ret_known);
/* Its pods, in view->list; false: more than fit, or not all pods of the cluster are known. */
bool aw__view_pods(struct aw__view *view, const struct aw__mpa_intent *intent, const char *ns,
                   uint32_t *ret_count);
/* Another autoscaler of the same target: "HorizontalPodAutoscaler web"; NULL: none. Returns
 * `buf`. */
const char *aw__view_rival(const struct aw__view *view, const struct aw_kube_item *self,
                           const char *ns, char *buf, size_t size);

/* What the LimitRanges of a namespace say together: a resize that breaks them is refused. */
struct aw__limit_range aw__view_limits(const struct aw__view *view, const char *ns);

/* The namespace of a key "namespace/name"; returns `buf`. And the name, within the key. */
const char *aw__key_ns(const char *key, char *buf, size_t size);
const char *aw__key_name(const char *key);

#endif
