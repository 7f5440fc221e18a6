/*
 * recommended.h - a recommendation as the change of a template that a person could write: for who
 * keeps manifests in Git and lets nobody else change the cluster.
 *
 * Memory:  values that are returned are jansson's, the caller's to decref.
 * Threads: pure functions of their arguments.
 *
 * The trap: limits move with requests, by the ratio that the template has (sizing.h). A patch with
 * requests alone would change what a container may use beyond them, and its class of service.
 */
#ifndef AW_CONTROLLER_RECOMMENDED_H
#define AW_CONTROLLER_RECOMMENDED_H

#include "controller/status.h"

/* `object` is a MultidimPodAutoscaler, `target` what it scales. `ret_now` and `ret_wanted` are both
 * a strategic merge patch of the target with the same fields: one as it is, one as recommended;
 * where nothing is to be changed both are NULL. A field that the target does not have is null in
 * `ret_now`. AW_ERR_NODATA: there is no recommendation; AW_ERR_FORMAT: an amount that cannot be
 * read, or no such container. */
AW_NODISCARD enum aw_err aw_recommended_patch(const json_t *object, const json_t *target,
                                              json_t **ret_now, json_t **ret_wanted,
                                              struct aw_diag *diag);

#endif
