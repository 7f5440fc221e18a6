/*
 * relations.h - what many requests show about calls, that one cannot: who waits for whom.
 *
 * A call is in the background when its parent, without an error, ends before it in more than
 * AW_BACKGROUND_SHARE of at least AW_RELATION_LEAST requests. Two calls of one parent are in
 * sequence while no request has shown them overlapping (FIRM, 3.2.2): a counter-example breaks it,
 * and then the one is not taken for the cause of the other even where it happened to end first.
 * Which services call which is kept too: it finds callers for spans whose parent is missing.
 *
 * Call order: new; learn from requests as they come; ask.
 * Memory:     made at new, with a maximum; what does not fit is not learned.
 * Threads:    single owner.
 */
#ifndef AW_TRACE_RELATIONS_H
#define AW_TRACE_RELATIONS_H

#include "trace/request.h"

#define AW_RELATION_LEAST   20u
#define AW_BACKGROUND_SHARE 0.05
#define AW_RELATIONS_MAX    (1u << 16) /* of each sort */

/* AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_relations_new(struct aw_relations **ret, const struct aw_alloc *alloc);
void aw_relations_free(struct aw_relations *relations); /* NULL is a no-op */

/* Spans must have their names from one table. */
void aw_relations_learn(struct aw_relations *relations, const struct aw_request *request);

/* Of a span and its child. */
bool aw_relations_background(const struct aw_relations *relations, const struct aw_span *parent,
                             const struct aw_span *child);
/* May `later` have been made because `earlier` had returned? True unless overlaps were seen. */
bool aw_relations_sequential(const struct aw_relations *relations, const struct aw_span *parent,
                             const struct aw_span *earlier, const struct aw_span *later);
/* Does a service call another? */
bool aw_relations_calls(const struct aw_relations *relations, uint32_t caller, uint32_t callee);

#endif
