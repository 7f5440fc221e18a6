/*
 * costs.h - what an application's segments cost on this machine, kept in a file between starts.
 *
 * JSON, with the application, its payload, whose payload that is (families, as bits; 0: all), and a
 * row per segment. A file that belongs to another application or payload counts as none: costs are
 * measured anew and the file is replaced.
 */
#ifndef AW_SERVICE_COSTS_H
#define AW_SERVICE_COSTS_H

#include "segments/runner.h"

/* AW_ERR_NOTFOUND: no such file, or not of this application. AW_ERR_FORMAT, AW_ERR_CONFIG: not such
 * a file. `ret` has room for all segments, and is untouched on failure. */
AW_NODISCARD enum aw_err aw__costs_read(const char *path, const struct aw_runner_config *config,
                                        struct aw_runner_cost *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__costs_write(const char *path, const struct aw_runner_config *config,
                                         const struct aw_runner_cost *cost, struct aw_diag *diag);

#endif
