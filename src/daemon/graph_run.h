/*
 * graph_run.h - one SLO for a graph of services, served: spans in, SLO judged, the culprit named,
 * the resource given and taken back, behind rails and with the record of any other run.
 *
 * Call order: open; step as often as wanted; close.
 * Memory:     sized at open.
 * Threads:    single owner; the desk may be asked by others (service_desk.h).
 *
 * The graph is simulated, and time is virtual; or it is a mesh of real processes, and a step takes
 * half a second. A run that is begun again begins a new world behind the last entry of its log,
 * with the limits of its file. What people have ordered stands.
 *
 * The trap: what a step shows is good until the next one.
 */
#ifndef AW_DAEMON_GRAPH_RUN_H
#define AW_DAEMON_GRAPH_RUN_H

#include "base/file.h"
#include "base/log.h"
#include "desk/service_desk.h"
#include "firm/intake.h"
#include "firm/manager.h"
#include "graph/campaign.h"
#include "mesh/mesh.h"

struct aw_graph_run_config {
    const struct aw_graph_app *app;           /* borrowed */
    const struct aw_campaign *campaign;       /* borrowed; NULL: nothing is injected */
    const struct aw_calibration *calibration; /* borrowed; with a campaign */
    struct aw_mesh *mesh; /* borrowed, its load begun; NULL: the graph is simulated */
    uint64_t seed;
    double span_loss, skew_us;
    enum aw_firm_kind kind;
    char state[AW_FILE_PATH_MAX]; /* directory; "": nothing is kept, and orders have no record */
    bool durable;                 /* entries outlive a power cut, not a kill alone */
    bool fresh;                   /* what is kept is forgotten first */
    const char *version;
};

/* What a step came to. */
struct aw_graph_run_step {
    double at_s; /* of this run */
    const struct aw_firm_sight *sight;
    const struct aw_firm_desk *desk;
    uint64_t orders_before; /* desk->order_count before this step */
    uint32_t requests, missed;
    bool doubt;
    const char *why; /* of the doubt */
};

struct aw_graph_run_totals {
    uint64_t steps, requests, missed, missed_steps, doubt_steps;
    uint64_t violations;          /* times that the SLO was missed, however long */
    double violated_s;            /* of all of them */
    double cores, cores_at_start; /* mean of the limits' sum; at the start */
    struct aw_assembly_counts spans;
};

struct aw_graph_run;

/* AW_ERR_UNAVAILABLE: another process has the state. AW_ERR_EXISTS: the state is of another kind
 * of run. */
AW_NODISCARD enum aw_err aw_graph_run_open(struct aw_graph_run **ret,
                                           const struct aw_graph_run_config *config,
                                           struct aw_diag *diag);
void aw_graph_run_close(struct aw_graph_run *run, const char *reason); /* NULL is a no-op */
/* Half a second of the graph's time. */
AW_NODISCARD enum aw_err aw_graph_run_step(struct aw_graph_run *run, struct aw_graph_run_step *ret,
                                           struct aw_diag *diag);
/* What verbs read of a stopped run. Nothing where no state is kept. */
AW_NODISCARD enum aw_err aw_graph_run_save(struct aw_graph_run *run, struct aw_diag *diag);
void aw_graph_run_totals(const struct aw_graph_run *run, struct aw_graph_run_totals *ret);
struct aw_service_desk *aw_graph_run_desk(struct aw_graph_run *run); /* NULL: no state */

#endif
