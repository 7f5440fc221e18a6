/*
 * watch.h - is the SLO of a graph of services missed, and who is to blame, and what does it lack?
 *
 * Every step it takes what has come since the last one: requests that ended, their spans, and what
 * is known of every service's groups. While SLOs hold it learns what is usual; when one is missed
 * it localizes (trace/localize.h) and says of each suspect what its groups are short of.
 *
 * A group is short of what it uses up. Of several, the cause comes first: who lacks cache needs
 * more bandwidth, who lacks bandwidth needs more CPU time, never the other way round. A suspect
 * that uses up nothing, and whose calls are slow outside of its spans, is behind a slow network.
 *
 * Call order: new; take once a step; the sight is good until the next take.
 * Memory:     maxima of trace/window.h; localization makes and frees blocks.
 * Threads:    single owner.
 */
#ifndef AW_FIRM_WATCH_H
#define AW_FIRM_WATCH_H

#include "graph/world.h"
#include "trace/analysis.h"
#include "trace/classifier.h"

#define AW_FIRM_MISSED     0.05 /* share of a step's requests over their SLO: it is missed */
#define AW_FIRM_SHORT      0.9  /* use of a limit from which a group is short of it */
#define AW_FIRM_JUDGED     5u   /* requests of a step; of fewer, nothing follows */
#define AW_FIRM_BASE_LEAST 200u /* requests that a baseline stands on */

struct aw_firm_suspect {
    uint32_t service;
    const struct aw_culprit *culprit; /* of its traces */
    double score;                     /* of the classifier, less its threshold */
    double rise[AW_GRAPH_RESOURCES];  /* of use and waiting, over what is usual */
    enum aw_graph_resource lacks;     /* AW_GRAPH_RESOURCES: none of them */
    bool more_load;                   /* it is called more often than usual */
    bool slow_network;                /* no limit mends it, another replica may */
};

struct aw_firm_sight {
    bool missed;             /* the SLO, in this step */
    double missed_share;     /* of requests that ended */
    double maintenance;      /* SM: SLO / latency of the slow ones (p95 of the ratio), at most 1 */
    double worst_latency_ms; /* of the type that is worst off: its p95, and .. */
    double worst_slo_ms;     /* .. its SLO */
    uint32_t worst_type;
    uint32_t requests;
    bool has_baseline;
    uint32_t suspect_count; /* all services that were seen, the likeliest first; 0: not missed */
    struct aw_firm_suspect suspect[AW_GRAPH_SERVICES_MAX];
    const struct aw_graph_reading *readings; /* [services] */
};

struct aw_firm_watch;

/* `names`: those of the spans' list. The classifier is copied. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_firm_watch_new(const struct aw_graph_app *app, struct aw_names *names,
                                           const struct aw_classifier *classifier,
                                           const struct aw_alloc *alloc,
                                           struct aw_firm_watch **ret);
void aw_firm_watch_free(struct aw_firm_watch *watch); /* NULL is a no-op */

/* Spans are sorted in place. `localize`: also where the SLO holds. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_firm_watch_take(struct aw_firm_watch *watch, struct aw_spans *spans,
                                            const struct aw_graph_done *done, uint32_t done_count,
                                            const struct aw_graph_reading *readings, bool localize,
                                            const struct aw_firm_sight **ret);
/* The same of a world: takes what it has, and empties it. */
AW_NODISCARD enum aw_err aw_firm_watch_world(struct aw_firm_watch *watch,
                                             struct aw_graph_world *world, bool localize,
                                             const struct aw_firm_sight **ret);
/* What the last localization found; its culprits are those of the sight. NULL: none. */
struct aw_localization *aw_firm_watch_found(struct aw_firm_watch *watch);
/* The paper's two features are computed too; slower. */
void aw_firm_watch_paper(struct aw_firm_watch *watch, bool on);
/* While it is on, steps in which the SLO holds change nothing of what is usual. */
void aw_firm_watch_freeze(struct aw_firm_watch *watch, bool on);

/* SM, at most 1, of requests that ended; the share of them that missed their SLO. */
double aw_firm_maintenance(const struct aw_graph_app *app, const struct aw_graph_done *done,
                           uint32_t count, double *ret_missed);

/* "disk at 100 % of its limit, waits 63 % of its time for it: needs disk". Returns `buf`. */
const char *aw_firm_suspect_text(const struct aw_firm_suspect *suspect,
                                 const struct aw_firm_sight *sight, char *buf, size_t size);

/* What ships with the program: learned on the train-ticket application alone. */
AW_NODISCARD enum aw_err aw_firm_localizer(struct aw_classifier *ret, struct aw_diag *diag);

#endif
