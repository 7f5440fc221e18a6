/* cases_internal.h - what the readers of folders share. */
#ifndef AW_TRACE_CASES_INTERNAL_H
#define AW_TRACE_CASES_INTERNAL_H

#include "trace/cases.h"

/* A zeroed case at the end; NULL: no memory, or too many. */
struct aw_case *aw__cases_add(struct aw_cases *cases);
/* Folders SERVICE-FAULT/REP of metrics alone. */
enum aw_err aw__cases_read_metrics(struct aw_cases *cases, const char *folder,
                                   aw_cases_fn *progress, void *ctx, struct aw_diag *diag);

#endif
