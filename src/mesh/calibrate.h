/*
 * calibrate.h - how strong an anomaly has to be among real processes: found by trying, and kept.
 *
 * As for simulated graphs (graph/campaign.h): intensity 0 is where more than 5 % of requests first
 * miss their SLO, 1 where four fifths do or nothing more is to be had. A try takes some three
 * seconds, a pair of service and kind up to eleven tries.
 *
 * Memory and threads: those of the mesh.
 */
#ifndef AW_MESH_CALIBRATE_H
#define AW_MESH_CALIBRATE_H

#include "graph/campaign.h"
#include "mesh/mesh.h"

/* AW_OK: it can be put in here. AW_ERR_UNSUPPORTED, with the reason: nobody here can do it, or
 * could see it. */
AW_NODISCARD enum aw_err aw_mesh_can(const struct aw_mesh *mesh, enum aw_anomaly_kind kind,
                                     struct aw_diag *diag);

/* The load runs, and nobody gives orders. `stop` (or NULL) not 0: AW_ERR_INTERRUPTED. A pair that
 * no request misses its SLO by becomes NAN. AW_ERR_UNAVAILABLE: SLOs are missed without one. */
AW_NODISCARD enum aw_err aw_mesh_calibrate(struct aw_mesh *mesh, uint32_t service,
                                           enum aw_anomaly_kind kind, const _Atomic int *stop,
                                           struct aw_calibration *ret, struct aw_diag *diag);

/* None of any pair. */
void aw_calibration_none(struct aw_calibration *ret);
/* As JSON: {"application": .., "pairs": [{"target", "kind", "start", "end"}]}; what was not tried
 * is not there. Reading leaves other pairs as they are. AW_ERR_NOTFOUND: no such file. */
AW_NODISCARD enum aw_err aw_calibration_write(const char *path, const struct aw_graph_app *app,
                                              const struct aw_calibration *calibration,
                                              struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_calibration_read(const char *path, const struct aw_graph_app *app,
                                             struct aw_calibration *ret, struct aw_diag *diag);

#endif
