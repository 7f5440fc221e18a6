/*
 * reports.h - a folder of reports that the page lists and shows: HTML and JSON files in it, and the
 * curves of training runs (progress.csv, evaluation.csv) one folder below.
 *
 * Call order: none.
 * Memory:     list writes to the caller's stream; open hands out a descriptor.
 * Threads:    pure functions of their arguments and of the folder.
 *
 * A name comes from the client. It has only letters, digits, '.', '_' and '-', at most one slash,
 * no part that begins with a dot, and no link is followed on the way: nothing outside of the folder
 * can be named.
 */
#ifndef AW_WEB_REPORTS_H
#define AW_WEB_REPORTS_H

#include <aware/err.h>

#include <stdio.h>

#define AW_REPORTS_MAX      1000u /* listed; the newest */
#define AW_REPORT_NAME_MAX  256u  /* bytes, with the NUL */
#define AW_REPORT_BYTES_MAX (64u << 20)

/* {"folder":..., "reports":[{"name","kind","bytes","modified"}], "missing": text or null}, newest
 * first. A folder that is not there is an empty list that says so. "" : no folder was given. */
AW_NODISCARD enum aw_err aw_reports_list(const char *folder, FILE *out, struct aw_diag *diag);

/* A descriptor of the file, its size and type (a text that lives for ever). AW_ERR_NOTFOUND: no
 * report of that name, or an invalid name. AW_ERR_LIMIT: it is larger than is served. */
AW_NODISCARD enum aw_err aw_report_open(const char *folder, const char *name, int *ret_fd,
                                        uint64_t *ret_bytes, const char **ret_type,
                                        struct aw_diag *diag);
bool aw_report_name_sound(const char *name);

#endif
