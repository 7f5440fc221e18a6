/*
 * cluster_view.h - what a recommender sees of a cluster: the objects, their targets, the pods of
 * each, and what the metrics say, all from copies that are kept up to date.
 *
 * Objects (MultidimPodAutoscalers), pods, Deployments and StatefulSets are followed by informers.
 * Any other target is asked for its scale now and then. Which pods belong to a target is decided by
 * its selector and by their owner, for all targets in one walk over all pods (gather).
 *
 * Call order: open; step until aw__cluster_view_synced; then per round: step, gather with the
 *             targets, read of the metrics, view of any target; close.
 * Memory:     informers, bounded; lists of pods and an index, sized at open.
 * Threads:    those of the client.
 *
 * The trap: what gather found points into the informers. It is good until the next step.
 */
#ifndef AW_CONTROLLER_CLUSTER_VIEW_H
#define AW_CONTROLLER_CLUSTER_VIEW_H

#include "controller/kube_cluster.h"
#include "kube/informer.h"
#include "kube/verbs.h"

#define AW__CLUSTER_VIEW_POD_BYTES  ((size_t)128 << 20)        /* of all pods, as they are kept */
#define AW__CLUSTER_VIEW_VIEW_PODS  (2u * AW_CLUSTER_PODS_MAX) /* a rollout may double them */
#define AW__CLUSTER_VIEW_STALE_US   180000000 /* a server that was not heard for so long is gone */
#define AW__CLUSTER_VIEW_SCALE_US   60000000  /* between two looks at the scale of other kinds */
#define AW__CLUSTER_VIEW_SCALES_MAX 64u       /* such looks of one round */
#define AW__CLUSTER_VIEW_KINDS_MAX  32u       /* other kinds that are remembered */
#define AW__CLUSTER_VIEW_KIND_AGAIN_US \
    300000000 /* before a kind that was not there is asked for again \
               */

/* --- what is kept of an object --------------------------------------------------------------- */

struct aw__cluster_view_object {
    int64_t generation, created_us;
    bool deleting;
    struct aw_kube_span spec, status; /* JSON texts, see below of the status; empty: none */
};
struct aw__cluster_view_pod {
    struct aw_kube_pod pod; /* first: its spans count from here */
    int64_t started_us, ready_change_us;
    struct aw_kube_span labels; /* for selector.h; count: bytes */
};
struct aw__cluster_view_workload {
    struct aw_kube_workload workload; /* first, as above */
    struct aw_kube_span selector;
};
/* For aw_kube_informer_config.project. */
/* The status as JSON; of an autoscaler, packed (status.h): of thousands, that is a third. */
AW_NODISCARD enum aw_err aw__cluster_view_project_object(void *ctx, const json_t *object, void *buf,
                                                         size_t size, size_t *ret_len);
AW_NODISCARD enum aw_err aw__cluster_view_project_mpa(void *ctx, const json_t *object, void *buf,
                                                      size_t size, size_t *ret_len);
AW_NODISCARD enum aw_err aw__cluster_view_project_pod(void *ctx, const json_t *object, void *buf,
                                                      size_t size, size_t *ret_len);
AW_NODISCARD enum aw_err aw__cluster_view_project_workload(void *ctx, const json_t *object,
                                                           void *buf, size_t size, size_t *ret_len);

/* --- targets --------------------------------------------------------------------------------- */

enum aw__cluster_view_found {
    AW__CLUSTER_VIEW_UNKNOWN, /* the server could not be asked yet */
    AW__CLUSTER_VIEW_FOUND,
    AW__CLUSTER_VIEW_NO_TARGET,
    AW__CLUSTER_VIEW_NO_KIND,  /* the server has no such kind */
    AW__CLUSTER_VIEW_NO_SCALE, /* the kind exists, but cannot be scaled */
};

/* The target of an object; at first zeroed but for the names. The caller owns the texts. */
struct aw__cluster_view_target {
    const char *ns, *api_version, *kind, *name;
    enum aw__cluster_view_found found;
    int64_t replicas_wanted, replicas;
    bool rolling;
    char uid[AW_KUBE_UID_MAX];
    int64_t looked_us;     /* monotonic: of kinds that are asked; 0: never */
    char *selector_kept;   /* of kinds that are asked; NULL: none. aw__cluster_view_target_deinit */
    const char *selector;  /* in this round; NULL: none */
    uint32_t first, count; /* its pods in this round */
};

struct aw__cluster_view_config {
    struct aw_kube *kube;            /* borrowed */
    const char *ns;                  /* NULL: all */
    const struct aw_clock *clock;    /* NULL: the real one */
    struct aw_kube_metrics *metrics; /* NULL: no metrics; borrowed */
    uint32_t objects_max, pods_max;
    /* Told of objects, as informer.h does. */
    void (*changed)(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                    const struct aw_kube_item *after);
    void *ctx;
};

struct aw__cluster_view; /* opaque */

AW_NODISCARD enum aw_err aw__cluster_view_open(struct aw__cluster_view **ret_scene,
                                               const struct aw__cluster_view_config *config,
                                               const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__cluster_view_close(struct aw__cluster_view *scene); /* NULL is a no-op */
/* Steps every informer once. Returns the first error; the other informers go on all the same. */
AW_NODISCARD enum aw_err aw__cluster_view_step(struct aw__cluster_view *scene,
                                               struct aw_diag *diag);
int64_t aw__cluster_view_due(const struct aw__cluster_view *scene); /* monotonic; 0: now */
bool aw__cluster_view_synced(const struct aw__cluster_view *scene);
/* Whether what is kept can be believed: heard of lately, and all of it is there. */
bool aw__cluster_view_believed(const struct aw__cluster_view *scene);
const struct aw_kube_item *aw__cluster_view_object_find(const struct aw__cluster_view *scene,
                                                        const char *key);
const struct aw_kube_item *aw__cluster_view_pod_walk(const struct aw__cluster_view *scene,
                                                     uint32_t *at);

/* Looks every target up and finds its pods. `targets[i]` NULL: skipped. AW_ERR_INTERRUPTED: told to
 * stop. */
AW_NODISCARD enum aw_err aw__cluster_view_gather(struct aw__cluster_view *scene,
                                                 struct aw__cluster_view_target *const *targets,
                                                 uint32_t count, struct aw_diag *diag);
/* Reads the metrics of those targets, until `deadline_us` (monotonic) at the latest. */
AW_NODISCARD enum aw_err aw__cluster_view_measure(struct aw__cluster_view *scene,
                                                  struct aw__cluster_view_target *const *targets,
                                                  uint32_t count, int64_t deadline_us,
                                                  struct aw_diag *diag);
/* The target as the backend wants it; pods are good until the next call. AW_ERR_NODATA: it is not
 * there; AW_ERR_UNAVAILABLE: what is kept cannot be believed; AW_ERR_LIMIT: too many pods. */
AW_NODISCARD enum aw_err aw__cluster_view_view(struct aw__cluster_view *scene,
                                               const struct aw__cluster_view_target *target,
                                               struct aw_kubecluster_view *ret_view);
void aw__cluster_view_target_deinit(struct aw__cluster_view_target *target); /* zeroed is a no-op */
/* One of the pods that gather found for a target of that call; `i` < target->count. */
const struct aw_kube_item *aw__cluster_view_pod_of(const struct aw__cluster_view *scene,
                                                   const struct aw__cluster_view_target *target,
                                                   uint32_t i);

/* What the largest node can hold, CPU and memory each by itself; nodes that take no new pods do not
 * count. Asks the server. 0: no such nodes. */
struct aw__cluster_view_node {
    int64_t cpu_millicores, memory_bytes;
};
AW_NODISCARD enum aw_err aw__cluster_view_largest_node(struct aw__cluster_view *scene,
                                                       struct aw__cluster_view_node *ret,
                                                       struct aw_diag *diag);

/* How the informers fare; `which` counts from 0, NULL: there are no more. */
const struct aw_kube_informer_state *aw__cluster_view_state(const struct aw__cluster_view *scene,
                                                            uint32_t which, const char **ret_name);

#endif
