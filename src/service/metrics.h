/*
 * metrics.h - what a service has done, as Prometheus reads it.
 *
 * Memory:  plain struct; zeroed but for `duration.bounds` is empty: aw__service_metrics_init.
 * Threads: single owner, the thread that serves.
 */
#ifndef AW_SERVICE_METRICS_H
#define AW_SERVICE_METRICS_H

#include "segments/runner.h"
#include "telemetry/metrics.h"

#define AW__SERVICE_METRICS_BYTES_MAX 16384u

enum aw__service_outcome {
    AW__OUTCOME_OK,
    AW__OUTCOME_FAILED,   /* a segment failed: 500 */
    AW__OUTCOME_FULL,     /* too many waiting: 503 */
    AW__OUTCOME_NOTREADY, /* not ready yet: 503 */
    AW__OUTCOME_GONE,     /* the client went away before its answer */
    AW__OUTCOME_COUNT
};

struct aw__service_metrics {
    uint64_t outcome[AW__OUTCOME_COUNT];
    struct aw_metric_histogram duration; /* seconds, of requests that were worked on */
    uint64_t kind_runs[AW_RUNNER_KINDS], kind_errors[AW_RUNNER_KINDS];
    double kind_cpu_s[AW_RUNNER_KINDS], kind_wait_s[AW_RUNNER_KINDS];
    uint64_t read_bytes, write_bytes, send_bytes;
};

/* What is true now. */
struct aw__service_gauges {
    uint32_t in_flight, queued, workers, connections;
    bool ready;
    const char *app;
};

void aw__service_metrics_init(struct aw__service_metrics *metrics);
/* What `run` did for `app`; `failed`: its last segment did not end well. */
void aw__service_metrics_run(struct aw__service_metrics *metrics, const struct aw_app *app,
                             const struct aw_run *run, bool failed);
/* Writes at most AW__SERVICE_METRICS_BYTES_MAX - 1 bytes. AW_ERR_IO: no room, or no memory. */
AW_NODISCARD enum aw_err aw__service_metrics_print(const struct aw__service_metrics *metrics,
                                                   const struct aw__service_gauges *now,
                                                   bool openmetrics, char *buf, size_t *ret_len);

/* Bytes of this process that are in memory; 0: not known. */
double aw__service_resident_bytes(void);

#endif
