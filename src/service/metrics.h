/*
 * metrics.h - what a service has done, as Prometheus reads it (text exposition format 0.0.4).
 *
 * Memory:  plain struct; zeroed is empty.
 * Threads: single owner, the thread that serves.
 */
#ifndef AW_SERVICE_METRICS_H
#define AW_SERVICE_METRICS_H

#include "base/text.h"
#include "segments/runner.h"

#define AW__METRICS_BUCKETS   22u
#define AW__METRICS_BYTES_MAX 16384u

enum aw__outcome {
    AW__OUTCOME_OK,
    AW__OUTCOME_FAILED,   /* a segment failed: 500 */
    AW__OUTCOME_FULL,     /* too many waiting: 503 */
    AW__OUTCOME_NOTREADY, /* not ready yet: 503 */
    AW__OUTCOME_GONE,     /* the client went away before its answer */
    AW__OUTCOME_COUNT
};

struct aw__metrics {
    uint64_t outcome[AW__OUTCOME_COUNT];
    uint64_t
        bucket[AW__METRICS_BUCKETS + 1]; /* of answered requests, not cumulated; the last: more */
    double duration_s;                   /* of all of them */
    uint64_t kind_runs[AW_RUNNER_KINDS], kind_errors[AW_RUNNER_KINDS];
    double kind_cpu_s[AW_RUNNER_KINDS], kind_wait_s[AW_RUNNER_KINDS];
    uint64_t read_bytes, write_bytes, send_bytes;
};

/* What is true now. */
struct aw__gauges {
    uint32_t in_flight, queued, workers, connections;
    bool ready, draining;
    const char *app;
};

void aw__metrics_request(struct aw__metrics *metrics, int64_t duration_us);
/* What `run` did for `app`; `failed`: its last segment did not end well. */
void aw__metrics_run(struct aw__metrics *metrics, const struct aw_app *app,
                     const struct aw_run *run, bool failed);
/* Returns the length; at most AW__METRICS_BYTES_MAX - 1. */
size_t aw__metrics_print(const struct aw__metrics *metrics, const struct aw__gauges *now, char *buf,
                         size_t size);

#endif
