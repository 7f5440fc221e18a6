/*
 * kube.h - workloads of a Kubernetes cluster behind cluster.h: read from copies of what the API
 * server and the metrics say, and never changed here.
 *
 * observe makes a sample of a view: the pods of a workload as they are kept by informers, what they
 * use, how its requests fare. The caller follows the collections and hands views out (struct
 * aw_kubecluster_source). apply only remembers what was asked: it becomes the recommendation in the
 * status of an object, and other processes carry it out or do not.
 *
 * Call order: new; bind each workload of the loop to its slot, loose it when it goes; per tick
 *             observe, apply, and then meant tells what should be; tidy now and then; free.
 * Memory:     slots and a directory of pods at new; nothing afterwards.
 * Threads:    single owner, the one of the views.
 *
 * What is wanted. Other processes carry plans out, at their own pace or never. So what was asked
 * counts as wanted as long as it is under way: until it is there; until the cluster's own wish has
 * become a third thing, which is a person's or another controller's; or until nothing has moved for
 * `patience_us`. From then on what is there is what is wanted, and the loop decides anew.
 *
 * The trap: a ready pod that does not report makes a sum too small. A young one (metrics come a
 * minute late) is taken for as busy as the other pods; an old one makes the figure missing.
 */
#ifndef AW_CONTROLLER_KUBE_CLUSTER_H
#define AW_CONTROLLER_KUBE_CLUSTER_H

#include <aware/cluster.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kube/metrics.h"
#include "kube/project.h"

#define AW_KUBECLUSTER_PODS 65536u /* followed, of all workloads together */
#define AW_KUBECLUSTER_PATIENCE_US \
    300000000                              /* as long as the updater believes a recommendation \
                                            */
#define AW_KUBECLUSTER_AHEAD_US  60000000  /* a start of a later future: our clock is behind */
#define AW_KUBECLUSTER_YOUNG_US  120000000 /* ready for less: its metrics may not be there yet */
#define AW_KUBECLUSTER_FORGET_US 600000000 /* a pod not seen for so long counts as new */

/* A pod of a workload. */
struct aw_kubecluster_pod {
    const char *uid;
    const struct aw_kube_pod *pod;
    int64_t started_us;      /* wall; 0: not yet */
    int64_t ready_change_us; /* wall; 0: never */
    struct aw_kube_pod_metrics used;
};

/* What is known of a workload now. */
struct aw_kubecluster_view {
    int64_t replicas_wanted; /* of its scale */
    bool rolling;            /* its controller replaces pods */
    uint32_t pod_count;
    const struct aw_kubecluster_pod *pods; /* [pod_count], the source's until its next call */
    struct aw_kube_workload_metrics service;
};

struct aw_kubecluster_source {
    void *ctx;
    /* AW_ERR_UNAVAILABLE: the copies are too old to be believed. AW_ERR_NODATA: the target is not
     * there. `ret_view` is zeroed. Never waits. */
    enum aw_err (*look)(void *ctx, uint32_t workload, struct aw_kubecluster_view *ret_view);
};

struct aw_kubecluster_config {
    struct aw_kubecluster_source source; /* borrowed */
    const struct aw_clock *clock;        /* NULL: the real one */
    uint32_t workloads_max;
    uint32_t pods_max;   /* 0: AW_KUBECLUSTER_PODS */
    int64_t patience_us; /* 0: AW_KUBECLUSTER_PATIENCE_US */
    bool in_place;       /* the server can resize pods */
};

/* What is to be known of a workload beforehand. */
struct aw_kubecluster_place {
    char container[AW_CLUSTER_NAME_MAX]; /* that is sized; "" and "*": the first */
    int64_t cpu_millicores;              /* of a container that says none: as much as it may have */
    int64_t memory_bytes;                /* the same */
    bool new_pods_only;                  /* sizes are for pods to come: running ones keep theirs */
};

/* How a workload should stand, and how far it is. */
struct aw_kubecluster_meant {
    struct aw_plan plan;   /* all three amounts; `set`: those that are still under way */
    int64_t at_us;         /* of the last apply; AW_NEVER: there was none */
    uint32_t replicas;     /* that there are, ready or not */
    const char *container; /* that is sized; "": no pod was seen yet */
};

struct aw_kubecluster; /* opaque */

AW_NODISCARD enum aw_err aw_kubecluster_new(const struct aw_kubecluster_config *config,
                                            const struct aw_alloc *alloc,
                                            struct aw_kubecluster **ret, struct aw_diag *diag);
void aw_kubecluster_free(struct aw_kubecluster *cluster); /* NULL is a no-op */
struct aw_cluster aw_kubecluster_cluster(struct aw_kubecluster *cluster);

/* A slot gets a workload; what was asked of the one before is forgotten. `workload` is below
 * workloads_max. Binding again with another place keeps what was asked. */
void aw_kubecluster_bind(struct aw_kubecluster *cluster, uint32_t workload,
                         const struct aw_kubecluster_place *place);
void aw_kubecluster_loose(struct aw_kubecluster *cluster, uint32_t workload);
/* From the last observe. AW_ERR_NODATA: it has not been seen yet, or has no size. */
AW_NODISCARD enum aw_err aw_kubecluster_meant(const struct aw_kubecluster *cluster,
                                              uint32_t workload, struct aw_kubecluster_meant *ret);
/* Takes up again what was asked before a restart. */
void aw_kubecluster_remind(struct aw_kubecluster *cluster, uint32_t workload,
                           const struct aw_plan *plan, int64_t at_us);
/* Forgets pods that are gone. Between ticks; not in each. */
void aw_kubecluster_tidy(struct aw_kubecluster *cluster);

#endif
