/*
 * mesh.h - an application that is a graph of services, as real processes of this machine.
 *
 * Every service is a workload of the local cluster (cluster/local.h): replicas of `aware-workload`
 * in control groups of their own, behind a balancer on loopback. Callers know the balancers' ports,
 * so that callees are started first. Load arrives open-loop at the entries; spans come over OTLP to
 * a receiver of the mesh on loopback.
 *
 * What can be ordered is found by trying (aw_mesh_actuators), and what is missing is refused:
 *
 *   cpu      CFS quota and weight of the group
 *   disk     blkio.throttle or io.max of the group
 *   network  bytes/s each way through the service's balancer
 *   memory   bandwidth: resctrl, which this machine may not have
 *   llc      the same
 *
 * Everything that is set belongs to groups of this run, and goes with them: at close, or by the
 * next start after a crash. Replicas and stressors die with this process.
 *
 * Call order: open, ready, load_begin; wait, read, spans, count and the plant (graph/plant.h) in
 *             turn; load_end; close.
 * Memory:     at open; lists of spans have maxima.
 * Threads:    single owner, which must outlive stressors: they are its children.
 */
#ifndef AW_MESH_MESH_H
#define AW_MESH_MESH_H

#include "cluster/local.h"
#include "graph/plant.h"
#include "trace/collector.h"

#define AW_MESH_STRESS_US (INT64_C(600) * 1000000) /* that a stressor lives; then it is renewed */

struct aw_mesh_config {
    const struct aw_graph_app *app;          /* borrowed */
    const char *graph;                       /* as `aware-workload --graph` takes it */
    const struct aw_local_settings *cluster; /* borrowed */
    const char *program;                     /* NULL: aware-workload, where this program lies */
    const char *temp_dir;                    /* of services and stressors; NULL: $TMPDIR or /tmp */
    const char *store;                       /* file that requests are kept in; NULL: none */
    double load;                             /* of the application's rate; 0: 1 */
    uint64_t seed;
};

/* Of one resource: NULL where it can be set; else why not. */
struct aw_mesh_actuators {
    char why[AW_GRAPH_RESOURCES][AW_DIAG_TEXT_MAX]; /* "": it can be set */
};

struct aw_mesh_spans {
    const struct aw_span *at;
    const int64_t *arrived_us; /* [count], of the mesh's time */
    uint32_t count;
    uint64_t dropped; /* ever: more came between two steps than there is room for */
};

struct aw_mesh;

/* A CPU limit is at most what this machine has. Before the application is given to anybody. */
void aw_mesh_fit(struct aw_graph_app *app);

/* AW_ERR_UNSUPPORTED: control groups cannot be written here. AW_ERR_RANGE: a service is larger than
 * the machine. */
AW_NODISCARD enum aw_err aw_mesh_open(struct aw_mesh **ret, const struct aw_mesh_config *config,
                                      struct aw_diag *diag);
void aw_mesh_close(struct aw_mesh *mesh); /* NULL is a no-op */
/* Waits until every service has a replica that answers. `stop` (or NULL) not 0: AW_OK at once. */
AW_NODISCARD enum aw_err aw_mesh_ready(struct aw_mesh *mesh, const _Atomic int *stop,
                                       struct aw_diag *diag);
/* The mesh's time begins anew with it. */
AW_NODISCARD enum aw_err aw_mesh_load_begin(struct aw_mesh *mesh, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_mesh_load_end(struct aw_mesh *mesh, struct aw_diag *diag);

/* Sleeps until then, or until a signal comes; requests that are complete go to the store. */
void aw_mesh_wait(struct aw_mesh *mesh, int64_t until_ns);
/* Since the last time; `ret` [services]. What nobody can see is 0. */
void aw_mesh_read(struct aw_mesh *mesh, struct aw_graph_reading *ret);
/* Spans that have come since the last time, good until then; their names are those of `names`. */
void aw_mesh_spans(struct aw_mesh *mesh, struct aw_mesh_spans *ret);
struct aw_names *aw_mesh_names(struct aw_mesh *mesh);
/* Requests that have ended since the last time, as the load generator saw them, from when they were
 * due. */
void aw_mesh_count(struct aw_mesh *mesh, uint32_t *ret_requests, uint32_t *ret_missed);

struct aw_graph_plant aw_mesh_plant(struct aw_mesh *mesh);
const struct aw_mesh_actuators *aw_mesh_actuators(const struct aw_mesh *mesh);
/* Why the plant refused a stress last; "" where it did not. */
const char *aw_mesh_trouble(const struct aw_mesh *mesh);
const struct aw_graph_app *aw_mesh_app(const struct aw_mesh *mesh);
struct aw_local *aw_mesh_local(struct aw_mesh *mesh);
uint16_t aw_mesh_port(const struct aw_mesh *mesh, uint32_t service);
uint16_t aw_mesh_traces_port(const struct aw_mesh *mesh);

#endif
