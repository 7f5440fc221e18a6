/*
 * updater.h - makes a cluster look as recommended: replicas by the scale subresource, sizes by
 * in-place resize or by eviction.
 *
 * It reads what the recommender wrote into the status of MultidimPodAutoscalers, and decides
 * nothing by itself: what may be done now, and why not, is updater_plan.h, which is pure. Objects
 * that only recommend cost nothing: pods and workloads are followed from the first object on that
 * asks to be acted for.
 *
 * Call order: new; in the owner's loop step, then aw_kube_wait until `due`; free before the client.
 * Memory:     informers (bounded), an index of pods and what is remembered of each object, all
 *             sized at new.
 * Threads:    those of the client. Give it a client and a thread of its own where other roles run
 *             in the same process: a request may take as long as its deadline.
 *
 * It writes: scale, pods/resize, pods/eviction, events, and the condition AbleToScale of its
 * objects. The recommender leaves that condition as it finds it.
 *
 * The trap: only the leader may step it. Two updaters would each keep to their own pace and evict
 * twice as fast as either allows.
 */
#ifndef AW_CONTROLLER_UPDATER_H
#define AW_CONTROLLER_UPDATER_H

#include "kube/client.h"
#include "kube/discovery.h"

#define AW_UPDATER_ROUND_US            10000000 /* between two looks at everything */
#define AW_UPDATER_PAUSE_US            60000000 /* between disruptions of a workload */
#define AW_UPDATER_OBJECTS_MAX         8192u
#define AW_UPDATER_PODS_MAX            65536u
#define AW_UPDATER_DISRUPTIONS_PER_MIN 12.0 /* of all workloads together */
#define AW_UPDATER_DISRUPTIONS_BURST   4u
#define AW_UPDATER_WRITES_MAX          64u /* of one round; the rest waits for the next */

/* Zeroed is all defaults. */
struct aw_updater_config {
    const char *ns;       /* only objects of this namespace; NULL: all. Borrowed */
    const char *instance; /* names this process in events; NULL: "aware". Borrowed */
    /* The Lease by which the admission webhook shows that it lives (admission.h); without it no pod
     * is evicted, because the new pod would have the old size. NULL: no pod is ever evicted. */
    const char *lease_ns, *lease_name;
    /* Asked before every change; NULL: always. */
    bool (*leads)(void *ctx);
    void *ctx;
    const struct aw_clock *clock; /* NULL: the real one */
    int64_t round_us;
    int64_t pause_us; /* between two disruptions of a workload; 0: AW_UPDATER_PAUSE_US */
    double disruptions_per_min;
    uint32_t objects_max, pods_max;
};

/* What it has done so far; for metrics. */
struct aw_updater_counts {
    uint64_t rounds;
    uint64_t scaled, resized, evicted;
    uint64_t blocked;   /* evictions that a PodDisruptionBudget refused */
    uint64_t conflicts; /* another client wrote first */
    uint64_t refused;   /* sizes that the server did not take */
    uint64_t failed;    /* other errors */
    uint64_t told;      /* conditions written */
    uint32_t objects;   /* seen in the last round */
    uint32_t acting;    /* of them, those that ask to be acted for */
    uint32_t waiting;   /* of these, not as recommended, and not now */
    int64_t round_us;   /* how long the last round took */
};

struct aw_updater;

/* Sends nothing yet. `server` is copied. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_updater_new(struct aw_updater **ret_updater, struct aw_kube *kube,
                                        const struct aw_kube_server *server,
                                        const struct aw_updater_config *config,
                                        const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_updater_free(struct aw_updater *updater); /* NULL is a no-op */

/* Does what is due. An error is for the log: it tries again by itself. AW_ERR_INTERRUPTED: the
 * client was told to stop. */
AW_NODISCARD enum aw_err aw_updater_step(struct aw_updater *updater, struct aw_diag *diag);
/* Monotonic time of the next step that is due even if nothing comes. */
int64_t aw_updater_due(const struct aw_updater *updater);
/* Whether everything that a decision needs has been seen once. */
bool aw_updater_synced(const struct aw_updater *updater);
const struct aw_updater_counts *aw_updater_counts(const struct aw_updater *updater);

#endif
