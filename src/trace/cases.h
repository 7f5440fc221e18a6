/*
 * cases.h - a folder of known faults, read and localized: the data that localization is learned
 * from and judged by.
 *
 * Two sorts of folder are known by what is in them:
 *   ground_truth.json   a list of {file, day, inject_time, minutes, service or pod, type}, beside
 *                       traces/ (DAY_normal_*.csv[.gz] is the baseline of a day) and, if there are
 *                       any, metrics/ with files named ..pods...csv[.gz];
 *   SERVICE-FAULT/REP/  {normal,anomalous}.csv[.gz]: metrics alone, columns SERVICE_METRIC.
 *
 * Call order: aw_cases_read, then judge (evaluate.h); deinit.
 * Memory:     blocks of its own, features only: spans are let go of file by file.
 * Threads:    single owner.
 */
#ifndef AW_TRACE_CASES_H
#define AW_TRACE_CASES_H

#include "trace/classifier.h"

#define AW_CASES_MAX      4096u
#define AW_CASES_FILE_MAX 128u

enum aw_case_sort { AW_CASE_RESOURCE, AW_CASE_CODE, AW_CASE_NORMAL, AW_CASE_SORTS };
const char *aw_case_sort_name(enum aw_case_sort sort);

struct aw_case {
    char name[128];    /* the file, or SERVICE-FAULT/REP */
    char service[128]; /* the culprit; "": none */
    char also[128];    /* what its pod calls it, where that is another name; else "" */
    char type[48];     /* "cpu_contention" */
    enum aw_case_sort sort;
    struct aw_localization found; /* without scores; empty for metrics alone */
    /* what came of it */
    uint32_t rank; /* of the culprit, from 1; 0: not among the services, or none to find */
    bool confident;
    char first[128], second[128], third[128]; /* services, the likeliest first */
    char text[AW_CULPRIT_TEXT];               /* the evidence of the first */
};

struct aw_cases {
    struct aw_case *at;
    uint32_t count, room;
    bool metrics_alone; /* ranks are there already, of robust scores */
    uint32_t missing;   /* faults that were left out, because their file is not there */
    char missing_first[AW_CASES_FILE_MAX];
    uint32_t without_metrics, without_baseline; /* windows */
    struct aw_names names;
    const struct aw_alloc *alloc;
};

/* Called after each case, for a line of progress; may be NULL. */
typedef void aw_cases_fn(void *ctx, uint32_t done, uint32_t all);

/* Does the name mean the culprit of a case? */
bool aw_case_is(const struct aw_case *one, const char *service);
/* On failure `cases` is zeroed. */
AW_NODISCARD enum aw_err aw_cases_read(struct aw_cases *cases, const char *folder, bool paper,
                                       aw_cases_fn *progress, void *ctx,
                                       const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_cases_deinit(struct aw_cases *cases); /* zeroed is a no-op */

#endif
