/*
 * metrics.h - what pods used, minute by minute, and what stands out of it: CSV as the data of Nezha
 * has it (TimeStamp, PodName, CpuUsage(m), CpuUsageRate(%)), gzipped or not.
 *
 * Call order: read every file; join; aw_metrics_evidence for any period; deinit.
 * Memory:     one block of rows.
 * Threads:    read by any number.
 */
#ifndef AW_TRACE_METRICS_H
#define AW_TRACE_METRICS_H

#include "trace/localize.h"

#define AW_METRICS_ROWS_MAX (8u << 20)
#define AW_METRICS_HISTORY  20u /* minutes that are compared with, at most */
#define AW_METRICS_LEAST    3u  /* at least */
#define AW_METRICS_OLDEST   720 /* minutes before a period: what is older is of another time */

struct aw_metric {
    int64_t minute; /* since 1970 */
    uint32_t service, pod;
    double cpu_millicores;
    double cpu_use; /* of the limit: 0 to 1; NAN: no limit */
};

struct aw_metrics {
    struct aw_metric *rows; /* once joined: of services, by service, then time */
    uint32_t count, room;
    bool joined;
    const struct aw_alloc *alloc;
};

/* Appends; `names` is that of the spans. On failure the rows are as before. */
AW_NODISCARD enum aw_err aw_metrics_read_file(struct aw_metrics *metrics, struct aw_names *names,
                                              const char *path, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_metrics_read(struct aw_metrics *metrics, struct aw_names *names,
                                         const char *name, const char *bytes, size_t size,
                                         struct aw_diag *diag);
/* After the last file: files may overlap. Rows of a pod in one minute become their mean, pods of a
 * service their sum. */
void aw_metrics_join(struct aw_metrics *metrics);
void aw_metrics_deinit(struct aw_metrics *metrics); /* zeroed is a no-op */

/* A period that is no history: [from, until] in minutes. */
struct aw_minutes {
    int64_t from, until;
};

/* Of every service with rows in the period, and in the minute after it (figures lag): how its CPU
 * differs from up to AW_METRICS_HISTORY minutes before it that lie in none of `faulty` (later ones
 * where there are too few). `ret` has room for `max`. Returns how many there are. */
uint32_t aw_metrics_evidence(const struct aw_metrics *metrics, struct aw_minutes period,
                             const struct aw_minutes *faulty, uint32_t faulty_count,
                             struct aw_evidence *ret, uint32_t max);

#endif
