/*
 * collector.h - spans of any sender to requests, and these to a store: what stands behind a
 * receiver.
 *
 * Call order: new; take from any thread; tick about once a second; free, which hands over what
 *             still waits.
 * Memory:     made at new, and a body's spans while they are taken. A flood is dropped and counted.
 * Threads:    any: it has a lock of its own.
 */
#ifndef AW_TRACE_COLLECTOR_H
#define AW_TRACE_COLLECTOR_H

#include "trace/forward.h"
#include "trace/read.h"
#include "trace/request.h"

#define AW_COLLECTOR_SPANS      (1u << 18) /* that wait at once: 20 MB */
#define AW_COLLECTOR_BATCH      (1u << 17) /* of one message */
#define AW_COLLECTOR_FULL_SHARE 0.9        /* of them: from then on senders are told to wait */

struct aw_collector_config {
    const char *store;          /* a file; NULL: requests are only counted */
    int64_t quiet_us;           /* 0: AW_ASSEMBLY_QUIET_US */
    uint32_t spans_max;         /* 0: AW_COLLECTOR_SPANS */
    int64_t keep_us;            /* of requests in the store; 0: for ever */
    uint64_t traces_max;        /* in the store; 0: any number */
    struct aw_forward *forward; /* gets every message that was taken; borrowed, NULL: nobody does */
    /* Sees the spans of every message that was taken, from whichever thread took it, before
     * anything is put together; no two at a time. NULL: nobody. */
    void (*seen)(void *ctx, const struct aw_spans *spans, int64_t now_us);
    void *ctx;
};

struct aw_collector_counts {
    struct aw_assembly_counts assembly;
    struct aw_request_counts requests; /* what was odd about those that were put together */
    uint64_t refused;                  /* spans without an id, or that end before they begin */
    uint64_t turned_away;              /* messages that came when all was full */
    uint64_t store_failures;           /* seconds of which nothing was kept */
    uint32_t waiting;                  /* spans */
};

struct aw_collector;

AW_NODISCARD enum aw_err aw_collector_new(struct aw_collector **ret,
                                          const struct aw_collector_config *config,
                                          struct aw_diag *diag);
/* AW_ERR_FORMAT: not this format. AW_ERR_UNAVAILABLE: full; to be sent again. `ret_rejected` are
 * spans of it that cannot be used. */
AW_NODISCARD enum aw_err aw_collector_take(struct aw_collector *collector, const char *bytes,
                                           size_t size, enum aw_span_format format, int64_t now_us,
                                           uint64_t *ret_rejected, struct aw_diag *diag);
/* Puts requests together that have been quiet, and keeps them. A store that cannot be written costs
 * these requests and nothing else: the first such failure is the error, later ones are counted. */
AW_NODISCARD enum aw_err aw_collector_tick(struct aw_collector *collector, int64_t now_us,
                                           struct aw_diag *diag);
/* The same for everything that waits, quiet or not. */
AW_NODISCARD enum aw_err aw_collector_flush(struct aw_collector *collector, struct aw_diag *diag);
struct aw_collector_counts aw_collector_counts(struct aw_collector *collector);
/* NULL is a no-op. */
void aw_collector_free(struct aw_collector *collector);

#endif
