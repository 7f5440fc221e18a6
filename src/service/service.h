/*
 * service.h - an application behind HTTP: workers, a queue, memory and a start-up like a service's.
 *
 *     GET or POST /           one request through all segments; ?payload=2 makes it a heavier one
 *     GET /healthz            200 as long as the process is well
 *     GET /readyz             200 when requests are served; 503 while starting and while draining
 *     GET /metrics            Prometheus text
 *
 * The answer of / has as many bytes as the description sends, and says in Server-Timing what the
 * request cost: queue (waiting for a worker), cpu and wait, in milliseconds.
 *
 * Call order: run, which returns after SIGTERM or SIGINT when everything in flight was answered.
 * Memory:     blocks at the start; requests as runner.h says.
 * Threads:    one that serves, `worker_count` that work, one that starts them up.
 */
#ifndef AW_SERVICE_SERVICE_H
#define AW_SERVICE_SERVICE_H

#include "base/log.h"
#include "segments/runner.h"

#define AW_SERVICE_WORKERS_UNLIMITED 64u /* where a description has no limit */
#define AW_SERVICE_ANSWER_BYTES_MAX  ((size_t)4 << 20)

struct aw_service_config {
    struct aw_runner_config runner; /* worker_count 0: as the description says */
    int listen_fd;                  /* listening, not blocking; taken over, and closed */
    int unix_fd;                    /* the same, a Unix socket; -1: none */
    int signal_fd;                  /* signalfd(2) with SIGTERM and SIGINT, borrowed */
    uint32_t connections_max;
    uint32_t queue_max;     /* requests waiting for a worker; more are refused with 503 */
    bool hold_memory;       /* keep as much as the description's base */
    int64_t start_us;       /* from the start of the process to ready; -1: as described */
    int64_t measure_us;     /* CPU time to measure each segment with */
    const char *costs_file; /* measured costs: read from it, or written to it; NULL: none */
    int64_t answer_bytes;   /* of an answer; -1: as described */
    int64_t linger_us;      /* go on serving so long after SIGTERM, not ready */
    int64_t drain_us;       /* and then give what is in flight so long to end */
    struct aw_log *log;     /* borrowed; NULL: silent */
    const struct aw_alloc *alloc;
};

/* AW_OK: drained. AW_ERR_DEADLINE: something was still in flight after drain_us. Otherwise it could
 * not start. */
AW_NODISCARD enum aw_err aw_service_run(const struct aw_service_config *config,
                                        struct aw_diag *diag);

#endif
