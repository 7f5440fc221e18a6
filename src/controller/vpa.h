/*
 * vpa.h - recommends for the stock VerticalPodAutoscalers that name us (spec.recommenders), and
 * writes it into their status. It changes nothing else, and leaves all other objects alone.
 *
 * The kind is followed where the server has it; a server that gets it later is asked once a minute.
 * Usage of containers goes into decaying histograms (fallback/vpa.h), one per container name of an
 * object; once a minute, as in the stock recommender, the leader recommends from them. The stock
 * updater and webhook act on it.
 *
 * Call order: new; in the owner's loop step, until `due`; free before scene and client. Between
 *             steps: save.
 * Memory:     places for `objects_max` at new; some 2 KB for each object that names us and 3.3 KB
 *             for each of its containers; the informer's copy, bounded.
 * Threads:    those of the client.
 *
 * Nothing shrinks on missing figures: histograms stay as they are, and what stands in a status
 * stays there until there is something to take its place. A recommender that begins without memory
 * recommends no less than what stands for a day.
 *
 * The trap: a round gathers targets of its own in the scene. Other users of the cluster view gather
 * again before they look.
 */
#ifndef AW_CONTROLLER_VPA_H
#define AW_CONTROLLER_VPA_H

#include "base/log.h"
#include "controller/cluster_view.h"
#include "controller/vpa_usage.h"

#define AW__VPA_ROUND_US   60000000  /* as the stock recommender */
#define AW__VPA_ASK_US     60000000  /* between two looks whether the server has the kind */
#define AW__VPA_MEASURE_US 8000000   /* the most that usage may take of a round */
#define AW__VPA_WORDS_US   600000000 /* between writes of bounds that moved a little */
#define AW__VPA_WRITES_MAX 400u      /* of one round; the rest waits for the next */
#define AW__VPA_WRITE_US   5000000   /* the most that one write may take */
#define AW__VPA_WRITING_US 4000000   /* after which no other one of a round begins */
#define AW__VPA_DEADBAND   0.1       /* relative change of a bound that is no news */
#define AW__VPA_TRACKS_MAX 4096u     /* running containers of one object */
#define AW__VPA_FLOOR_US   INT64_C(86400000000) /* for which what stood is not undercut */
#define AW__VPA_GAP_US     INT64_C(600000000)   /* without samples that memory may have */
#define AW__VPA_MEMORY_MAX ((size_t)256 << 20)
#define AW__VPA_NAME       "aware" /* in spec.recommenders, where nothing else is said */

struct aw__vpas_config {
    struct aw_kube *kube;           /* borrowed, as all below */
    struct aw__cluster_view *scene; /* stepped by its owner */
    struct aw__usage_sources usage;
    const char *ns;           /* only objects of this namespace; NULL: all */
    const char *name;         /* by which objects mean us; NULL: AW__VPA_NAME */
    const char *memory;       /* file of what was learned, read at new; NULL: none */
    bool (*leads)(void *ctx); /* asked before each write; NULL: always */
    void *ctx;
    struct aw_log *log;
    const struct aw_clock *clock;
    uint32_t objects_max, pods_max;
};

struct aw__vpas_counts {
    uint64_t rounds, writes, conflicts, failures;
    uint64_t reads_failed; /* rounds without usage */
    uint32_t objects;      /* that name us */
    uint32_t provided;     /* of them, those with a recommendation */
};

struct aw__vpas; /* opaque */

/* Sends nothing yet. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw__vpas_new(struct aw__vpas **ret_vpas,
                                      const struct aw__vpas_config *config,
                                      const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__vpas_free(struct aw__vpas *vpas); /* NULL is a no-op */

/* Does what is due; a round only where `leads`. Trouble goes to the log, once, and does not stop
 * decisions for other objects. AW_ERR_INTERRUPTED alone is returned. */
AW_NODISCARD enum aw_err aw__vpas_step(struct aw__vpas *vpas, bool leads);
int64_t aw__vpas_due(const struct aw__vpas *vpas, bool leads); /* monotonic; 0: now */
const struct aw__vpas_counts *aw__vpas_counts(const struct aw__vpas *vpas);

/* Writes what was learned to `path`. */
AW_NODISCARD enum aw_err aw__vpas_save(const struct aw__vpas *vpas, const char *path,
                                       struct aw_diag *diag);

#endif
