/*
 * analysis.h - from a list of spans that is complete (a file) to its requests, one by one, with
 * what all of them together show about who waits for whom.
 *
 * Call order: new; learn over a list, if its own requests shall be learned from; each over the same
 *             or another list with the same names; free.
 * Memory:     made at new.
 * Threads:    single owner.
 *
 * The trap: the list is sorted by trace in place.
 */
#ifndef AW_TRACE_ANALYSIS_H
#define AW_TRACE_ANALYSIS_H

#include "trace/relations.h"

struct aw_analysis {
    struct aw_request_builder *builder;
    struct aw_relations *relations;
    struct aw_request_counts counts; /* of all requests that `each` has built */
    uint64_t traces;                 /* of them */
    uint64_t without_length;         /* traces that have nothing to divide */
    uint64_t too_large;              /* traces beyond AW_TRACE_SPANS_MAX */
};

/* Return false to stop. The request is good during the call. */
typedef bool aw_analysis_fn(void *ctx, const struct aw_request *request);

/* AW_ERR_NOMEM: left zeroed. */
AW_NODISCARD enum aw_err aw_analysis_init(struct aw_analysis *analysis,
                                          const struct aw_alloc *alloc);
void aw_analysis_deinit(struct aw_analysis *analysis); /* zeroed is a no-op */

void aw_analysis_learn(struct aw_analysis *analysis, struct aw_spans *spans);
/* By trace id, not by time. */
void aw_analysis_each(struct aw_analysis *analysis, struct aw_spans *spans, aw_analysis_fn *fn,
                      void *ctx);

#endif
