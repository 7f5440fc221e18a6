/*
 * assembly.h - spans as they arrive, put together by trace until it has been quiet for a while.
 *
 * Nobody says when a trace is complete: senders flush when they like. A trace is taken for complete
 * when no span of it has come for a quiet period. What comes later is counted and dropped.
 *
 * Call order: init; push as spans arrive, poll as time passes; flush at the end; deinit.
 * Memory:     everything is made at init. Beyond a maximum, spans are counted and dropped; what is
 *             being assembled already is not touched.
 * Threads:    single owner. Time is an argument.
 *
 * The trap: the spans that a caller is given are good during the call alone.
 */
#ifndef AW_TRACE_ASSEMBLY_H
#define AW_TRACE_ASSEMBLY_H

#include "trace/span.h"

#define AW_TRACE_SPANS_MAX   32768u           /* of one trace; more is a loop or a batch job */
#define AW_ASSEMBLY_QUIET_US INT64_C(5000000) /* senders flush every 1 to 5 s */
#define AW_ASSEMBLY_CLOSED   8192u            /* traces that are remembered, to tell what is late */

struct aw_assembly_config {
    int64_t quiet_us;             /* 0: AW_ASSEMBLY_QUIET_US */
    uint32_t spans_max;           /* waiting at any time */
    uint32_t traces_max;          /* the same */
    uint32_t spans_per_trace_max; /* 0: AW_TRACE_SPANS_MAX, which is also the most */
};

struct aw_assembly_counts {
    uint64_t spans;         /* that arrived */
    uint64_t traces;        /* that were handed over */
    uint64_t late;          /* spans of a trace that had been handed over */
    uint64_t dropped_full;  /* spans beyond spans_max or traces_max */
    uint64_t dropped_trace; /* spans beyond spans_per_trace_max */
};

/* One trace that is complete. Its names belong to the caller of push. */
typedef void aw_assembly_fn(void *ctx, const struct aw_span *spans, uint32_t count);

struct aw_assembly;

/* AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_assembly_new(struct aw_assembly **ret,
                                         const struct aw_assembly_config *config,
                                         const struct aw_alloc *alloc);
void aw_assembly_free(struct aw_assembly *assembly); /* NULL is a no-op */

/* Copies the span. False: it was dropped, and counted. */
bool aw_assembly_push(struct aw_assembly *assembly, const struct aw_span *span, int64_t now_us);
/* Hands over what has been quiet, the longest quiet first. */
void aw_assembly_poll(struct aw_assembly *assembly, int64_t now_us, aw_assembly_fn *fn, void *ctx);
/* Hands over everything. */
void aw_assembly_flush(struct aw_assembly *assembly, aw_assembly_fn *fn, void *ctx);
struct aw_assembly_counts aw_assembly_counts(const struct aw_assembly *assembly);
uint32_t aw_assembly_waiting(const struct aw_assembly *assembly); /* spans */

#endif
