/* cases_internal.h - what the readers of folders share. */
#ifndef AW_TRACE_CASES_INTERNAL_H
#define AW_TRACE_CASES_INTERNAL_H

#include "trace/cases.h"

/* A zeroed case at the end; NULL: no memory, or too many. */
struct aw_case *aw__cases_add(struct aw_cases *cases);
bool aw__cases_is_there(const char *path);
/* Where a file of ground_truth.json is: as it is written or under traces/, packed or not. False:
 * nowhere; `ret` is where it should be. */
bool aw__cases_path(const char *folder, const char *file, char *ret, size_t size);
/* The .csv and .csv.gz of a folder with `mark` in their names, in order. AW_ERR_NOTFOUND: no such
 * folder. */
enum aw_err aw__cases_list(const char *folder, const char *mark, const struct aw_alloc *alloc,
                           char (**ret)[AW_CASES_FILE_MAX], uint32_t *ret_count);
/* Folders SERVICE-FAULT/REP of metrics alone. */
enum aw_err aw__cases_read_metrics(struct aw_cases *cases, const char *folder,
                                   aw_cases_fn *progress, void *ctx, struct aw_diag *diag);

#endif
