/*
 * recommender.h - follows MultidimPodAutoscalers, decides for each, and writes what it recommends
 * into their status. It changes nothing else.
 *
 * A round: the targets of all objects are looked up and their pods found; metrics are read; objects
 * that came, changed or went are taken over; the control loop (control/loop.h) ticks; what is new
 * is written into statuses, and what people should hear becomes an event.
 *
 * Call order: new; in the owner's loop step, then aw_kube_wait until `due`; free before the client.
 *             Between steps: save.
 * Memory:     slots at new for `objects_max`; a pilot and some 3 KB for each object; the informers'
 *             copies, bounded.
 * Threads:    those of the client. People's orders and looks go through the desk, which has a
 *             lock of its own.
 *
 * Stock VerticalPodAutoscalers that name us are served beside (vpa.h).
 *
 * A process that does not lead only watches. When it becomes the leader it reads every status again
 * and decides nothing in its first tick: the cluster ran on meanwhile.
 *
 * A status is written when the updater or the webhook would act on the change, at once where the
 * object's mode acts, and once a minute where it only recommends; figures and sentences for people
 * alone every five minutes at most. When nothing changes nothing is written.
 *
 * Time: with a `speed` above 1 the loop and everything that it counts by (steps, windows,
 * half-lives) run faster than the cluster, for trials; its clock then shows `speed` times the
 * seconds since 1970, so that a restart goes on where it was. What is written into objects is real
 * time.
 *
 * The trap: a status is written with the version that it was read with. If another client wrote in
 * between, it is not written but made anew in the next round.
 */
#ifndef AW_CONTROLLER_RECOMMENDER_H
#define AW_CONTROLLER_RECOMMENDER_H

#include "base/log.h"
#include "desk/desk.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/metrics.h"
#include "policy/pretrained.h"

#define AW_RECOMMENDER_OBJECTS_MAX 8192u
#define AW_RECOMMENDER_PODS_MAX    65536u
#define AW_RECOMMENDER_STEP_S      15.0      /* HPA's sync period */
#define AW_RECOMMENDER_MEASURE_US  8000000   /* the most that metrics may take of a round */
#define AW_RECOMMENDER_QUIET_US    60000000  /* between writes of an object that only recommends */
#define AW_RECOMMENDER_WORDS_US    300000000 /* between writes of what is for people alone */
#define AW_RECOMMENDER_WRITES_MAX  400u      /* of one round; the rest waits for the next */
#define AW_RECOMMENDER_EVENTS_MAX  20u       /* likewise */
#define AW_RECOMMENDER_WRITE_US    5000000   /* the most that one write may take */
#define AW_RECOMMENDER_WRITE_SHARE 0.8       /* of a step: by then a round begins no more writes */

/* Zeroed but for the client is all defaults. */
struct aw_recommender_config {
    struct aw_kube *kube;              /* borrowed */
    struct aw_kube_server server;      /* what it is (discovery.h) */
    const char *ns;                    /* only objects of this namespace; NULL: all. Borrowed */
    const char *instance;              /* names this process in events; NULL: "aware". Borrowed */
    struct aw_kube_metrics *metrics;   /* NULL: no metrics; borrowed */
    struct aw_store *store;            /* NULL: nothing is kept; borrowed */
    struct aw_desk *desk;              /* NULL: no audit, no orders; borrowed */
    const struct aw_loop_hooks *hooks; /* in the place of the desk's own; NULL: that one */
    struct aw_model_shelf *shelf;      /* of models that learning begins at; NULL: none */
    struct aw_log *log;                /* NULL: no log; borrowed */
    const struct aw_clock *clock;      /* NULL: the real one */
    const char *memory;                /* file of what pilots learned, read at new; NULL: none */
    const char *vpa_memory;            /* the same for VerticalPodAutoscalers (vpa.h) */
    const char *vpa_name;              /* by which they mean us; NULL: "aware" */
    struct aw_kube_prom *prom;         /* for the usage of containers; NULL: metrics.k8s.io alone */
    const char *prom_selector;         /* further matchers of its questions; NULL: none */
    /* Whether we lead at this moment; NULL: always. */
    bool (*leads)(void *ctx);
    /* A tick is over. `store_trouble` NULL: the store took what had happened. May be NULL. */
    void (*ticked)(void *ctx, const struct aw_loop_counts *counts, const char *store_trouble);
    void *ctx;
    double step_s;
    double speed; /* so many seconds of the loop's time pass in a real one; 0: 1 */
    uint32_t objects_max, pods_max;
    uint32_t thread_count; /* that learn; 0 and 1: the caller alone */
    bool learns_beside;    /* rounds of learning run beside the ticks (control/loop.h) */
};

/* What it has done so far; for metrics. */
struct aw_recommender_counts {
    uint64_t rounds;
    uint64_t writes, conflicts, failures; /* of statuses */
    uint64_t events;
    uint64_t reads_failed;          /* rounds whose metrics could not be read */
    uint32_t objects;               /* there are */
    uint32_t active;                /* of them, those that are decided for */
    uint32_t invalid;               /* of them, those that cannot be taken */
    uint32_t waiting;               /* whose status should be written, and was not */
    uint32_t vpas;                  /* VerticalPodAutoscalers that name us */
    uint64_t vpa_writes;            /* of their statuses */
    int64_t round_us;               /* how long the last round took, learning included */
    int64_t round_cpu_us;           /* of it, what this thread worked */
    size_t pilot_bytes, copy_bytes; /* that pilots and what is kept of the cluster take */
    bool leads;
};

struct aw_recommender;

/* Sends nothing yet. AW_ERR_NOMEM, AW_ERR_CONFIG. */
AW_NODISCARD enum aw_err aw_recommender_new(struct aw_recommender **ret_recommender,
                                            const struct aw_recommender_config *config,
                                            const struct aw_alloc *alloc, struct aw_diag *diag);
/* Detaches the desk. NULL is a no-op. */
void aw_recommender_free(struct aw_recommender *recommender);

/* Does what is due. An error is for the log: it tries again by itself. AW_ERR_INTERRUPTED: the
 * client was told to stop. */
AW_NODISCARD enum aw_err aw_recommender_step(struct aw_recommender *recommender,
                                             struct aw_diag *diag);
int64_t aw_recommender_due(const struct aw_recommender *recommender); /* monotonic; 0: now */
/* Whether everything has been seen once. */
bool aw_recommender_synced(const struct aw_recommender *recommender);
const struct aw_recommender_counts *aw_recommender_counts(const struct aw_recommender *recommender);

/* Writes what pilots learned to `path`, for the next process, and what is known for
 * VerticalPodAutoscalers to `vpa_memory`. */
AW_NODISCARD enum aw_err aw_recommender_save(struct aw_recommender *recommender, const char *path,
                                             struct aw_diag *diag);

#endif
