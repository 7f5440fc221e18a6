/*
 * drive.h - sends requests when they are due, whatever the server does, and measures from then on.
 *
 * Open loop, without coordinated omission (Tene, "How NOT to measure latency"): a request's latency
 * runs from the moment at which it was due. When a server stalls, the requests that were due
 * meanwhile all count with the time that they had to wait, although a generator that waits for
 * answers before it sends again would never have sent them. One that fails counts, too, with the
 * time until it did: every request that was due is in the histogram.
 *
 * A request that is due takes an idle connection, else a new one, else (all `connections_max` are
 * busy) it waits its turn, and the wait counts. A kept connection that the server closes just as it
 * is used again is no failure (RFC 9112 section 9.3.1): a request that may be repeated is, once, on
 * a new one, and counted as retried.
 *
 * Call order: run, which returns when the timetable is over and everything is answered or timed
 *             out.
 * Memory:     one block per thread, at the start; none while it runs.
 * Threads:    `threads` of its own; the caller's thread waits, and calls `report`.
 */
#ifndef AW_LOAD_DRIVE_H
#define AW_LOAD_DRIVE_H

#include "base/alloc.h"
#include "base/latency_histogram.h"
#include "load/target.h"
#include "load/timetable.h"

#define AW_DRIVE_THREADS_MAX     64u
#define AW_DRIVE_CONNECTIONS_MAX 65536u
#define AW_DRIVE_BACKLOG_MAX     (1u << 20) /* requests of a thread waiting for a connection */
#define AW_DRIVE_BODY_BYTES_MAX  ((size_t)16 << 20)

/* clang-format off */
/*     name       what happened to a request                          */
#define AW_DRIVE_ERROR_MAP(X)                                            \
    X(REFUSED,    "refused",    "the connection was refused")            \
    X(CONNECT,    "connect",    "no connection could be made")           \
    X(CLOSED,     "closed",     "closed before the answer was complete") \
    X(RESET,      "reset",      "reset by the server")                   \
    X(MALFORMED,  "malformed",  "the answer was not HTTP")               \
    X(TIMEOUT,    "timeout",    "not answered in time")                  \
    X(STATUS,     "status",     "answered with a status of 400 or more") \
    X(BACKLOG,    "backlog",    "too many were waiting for a connection")
/* clang-format on */

enum aw_drive_error {
#define X(name, word, text) AW_DRIVE_##name,
    AW_DRIVE_ERROR_MAP(X)
#undef X
        AW_DRIVE_ERRORS
};
const char *aw_drive_error_name(enum aw_drive_error error);
const char *aw_drive_error_text(enum aw_drive_error error);

struct aw_drive_totals {
    uint64_t due;      /* by the timetable, warm-up left out as everywhere here */
    uint64_t answered; /* with a whole answer of any status */
    uint64_t ok;       /* of them, with a status below 400 */
    uint64_t error[AW_DRIVE_ERRORS];
    uint64_t retried, connects, bytes_in, bytes_out;
    uint64_t status[6]; /* answers by their first digit; [0] none */
};

/* What has happened since the last report; the histogram lives until `report` returns. */
struct aw_drive_report {
    int64_t at_us, span_us; /* since the start; since the last report */
    struct aw_drive_totals all;
    uint64_t answered;
    const struct aw_latency_histogram *latency; /* of what was answered or failed */
    uint32_t connections;
    uint64_t in_flight; /* due and not answered */
};

struct aw_drive_config {
    struct aw_target target;
    struct aw_timetable_config timetable;
    const char *method;  /* NULL: GET */
    const char *headers; /* further lines, each with its CRLF; NULL: none */
    const void *body;    /* borrowed; NULL: none */
    size_t body_len;
    uint32_t connections_max; /* of all threads together */
    uint32_t threads;
    int64_t timeout_us; /* of a request, from when it was due */
    int64_t warm_up_us; /* requests due before it are sent, and not counted */
    bool no_retry;
    int64_t report_us; /* between two calls of `report` */
    /* False ends it: what is under way is dropped. NULL: no reports. */
    bool (*report)(void *ctx, const struct aw_drive_report *report);
    void *ctx;
    const struct aw_alloc *alloc;
};

struct aw_drive_result {
    struct aw_drive_totals all;
    int64_t span_us;       /* from the end of the warm-up until the last request was due */
    int64_t drained_us;    /* and until the last was answered or given up */
    uint64_t backlog_max;  /* requests that waited for a connection at once, of one thread */
    int64_t behind_us_p99; /* how late requests with a connection were sent: the generator's own */
    bool stopped;          /* `report` ended it */
    struct aw_latency_histogram latency; /* from due to answered or failed: all that were due */
    struct aw_latency_histogram
        service; /* from sent to answered: what a closed loop would have seen */
};

/* AW_OK whatever became of the requests: the result tells. AW_ERR_CONFIG, AW_ERR_NODATA,
 * AW_ERR_LIMIT (see timetable.h); AW_ERR_NOMEM; AW_ERR_UNAVAILABLE: no thread or no epoll. */
AW_NODISCARD enum aw_err aw_drive_run(const struct aw_drive_config *config,
                                      struct aw_drive_result *ret_result, struct aw_diag *diag);

#endif
