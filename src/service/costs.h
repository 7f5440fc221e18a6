/*
 * costs.h - what an application's segments cost on this machine, kept in a file between starts.
 *
 * JSON, with the application, its payload, whose payload that is (families, as bits; 0: all), and a
 * row per segment. A file that belongs to another application or payload counts as none, and so
 * does an empty one: costs are measured anew and the file is replaced.
 *
 * Processes that start together take turns: one measures, the rest read what it has written. So all
 * of them do the same work, whatever the machine was doing when each of them began.
 *
 * Call order: read; where there is nothing, turn, read again, measure, write, close the turn.
 */
#ifndef AW_SERVICE_COSTS_H
#define AW_SERVICE_COSTS_H

#include "segments/runner.h"

/* AW_ERR_NOTFOUND: no such file, or not of this application. AW_ERR_FORMAT, AW_ERR_CONFIG: not such
 * a file. `ret` has room for all segments, and is untouched on failure. */
AW_NODISCARD enum aw_err aw__costs_read(const char *path, const struct aw_runner_config *config,
                                        struct aw_runner_cost *ret, struct aw_diag *diag);
/* To measure for this file. Returns a descriptor, and closing it ends the turn, as the end of the
 * process does; or -1 with errno: EWOULDBLOCK while another process holds it. A missing file is
 * created empty. */
int aw__costs_turn(const char *path);
AW_NODISCARD enum aw_err aw__costs_write(const char *path, const struct aw_runner_config *config,
                                         const struct aw_runner_cost *cost, struct aw_diag *diag);

#endif
