/*
 * member.h - one service of a graph as a process: visits behind HTTP.
 *
 *     GET or POST /           a visit of the service's only operation; /op/NAME of one of several
 *         ?alone=1            its work, and none of its calls
 *     GET /bulk?bytes=N       as many bytes, for nothing but their transfer
 *     GET /healthz, /readyz   200 when requests are served
 *     GET /metrics            Prometheus text: visits, calls, spans sent and dropped
 *
 * Call order: run, which returns after SIGTERM or SIGINT when everything in flight was answered.
 * Memory:     at the start.
 * Threads:    one that serves, and as many that work as the service has threads.
 */
#ifndef AW_SERVICE_MEMBER_H
#define AW_SERVICE_MEMBER_H

#include "base/log.h"
#include "service/visit.h"

#define AW_MEMBER_QUEUE_MAX 4096u /* visits that wait for a thread; more get 503 */
#define AW_MEMBER_BULK_MAX  ((size_t)4 << 20)

struct aw_member_config {
    struct aw__visits_config visits;
    int listen_fd; /* listening, not blocking; taken over, and closed */
    int unix_fd;   /* the same, a Unix socket; -1: none */
    int signal_fd; /* with SIGTERM and SIGINT, borrowed */
    uint32_t connections_max;
    uint32_t threads; /* visits at once */
    int64_t drain_us;
    struct aw_log *log; /* borrowed */
    const struct aw_alloc *alloc;
};

/* AW_OK: drained. AW_ERR_DEADLINE: something was still in flight after drain_us. */
AW_NODISCARD enum aw_err aw_member_run(const struct aw_member_config *config, struct aw_diag *diag);

#endif
