/*
 * request.h - one trace as a tree (FIRM's execution history graph), and its critical path.
 *
 * The spans of a trace become nodes: who called whom, which clock had to be moved, what lies
 * outside of its parent, what nobody waited for. The critical path is a list of sections, from the
 * end of the root back to its beginning: every instant of the root belongs to exactly one span, so
 * the exclusive times sum to the latency exactly.
 *
 * From the end of a span back to the end of its child that finished last, into that child, then on
 * from the child's start. (Jaeger's and Google's way; FIRM's Algorithm 3.1 as printed adds up
 * siblings that overlap.) Children that overlap the one taken ran in parallel and were not waited
 * for.
 *
 * Call order: builder_new once; build for each trace; what it gives is good until the next build.
 * Memory:     all of the builder's, made at its start. Building allocates nothing and never
 *             recurses.
 * Threads:    single owner.
 *
 * The trap: times of a node are moved and cut; those of its span are what the sender said.
 */
#ifndef AW_TRACE_REQUEST_H
#define AW_TRACE_REQUEST_H

#include "trace/assembly.h"

#define AW_NODE_NONE UINT32_MAX

enum {
    AW_NODE_REACHED = 1,     /* below the root */
    AW_NODE_SKEWED = 2,      /* its clock was moved to fit into its caller */
    AW_NODE_CLIPPED = 4,     /* a part outside of its parent was cut off */
    AW_NODE_OUTSIDE = 8,     /* all of it is outside of its parent: never on the path */
    AW_NODE_BACKGROUND = 16, /* nobody waits for it: never on the path, nor what is below */
    AW_NODE_ADOPTED = 32,    /* its parent is missing; a caller was found by time and habit */
    AW_NODE_RETRY = 64,      /* the attempt before it, by the same caller, had failed */
};

struct aw_span_node {
    uint32_t parent;      /* AW_NODE_NONE: the root, or not reached */
    uint32_t first_child; /* by end, the last first */
    uint32_t next;        /* sibling */
    uint8_t flags;
    uint8_t kind;   /* of the span; where that says nothing, inferred */
    uint16_t depth; /* of the root: 0; cut at 65535 */
    int64_t start_ns, end_ns;
    int64_t exclusive_ns; /* on the critical path */
};

struct aw_section {
    uint32_t node;
    uint32_t after;  /* the child at whose end it begins; AW_NODE_NONE: at the span's own start */
    uint32_t before; /* the child at whose start it ends; AW_NODE_NONE: at the span's own end */
    int64_t start_ns, end_ns;
};

struct aw_request_counts {
    uint64_t duplicate; /* spans of an id that was there already; the first counts */
    uint64_t orphaned;  /* spans whose parent is missing, and that found no other */
    uint64_t adopted;
    uint64_t skewed, clipped, outside, background, retried;
    uint64_t rootless; /* traces whose root is missing: their longest span stands for it */
};

struct aw_request {
    const struct aw_span *spans;      /* [count] */
    const struct aw_span_node *nodes; /* [count] */
    uint32_t count;
    uint32_t root;
    const struct aw_section *sections; /* [section_count], the last in time first */
    uint32_t section_count;
    struct aw_request_counts counts; /* of this trace */
};

struct aw_relations; /* relations.h: what many requests have shown; NULL: nothing yet */
struct aw_request_builder;

/* For traces of at most `spans_max`. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_request_builder_new(struct aw_request_builder **ret, uint32_t spans_max,
                                                const struct aw_alloc *alloc);
void aw_request_builder_free(struct aw_request_builder *builder); /* NULL is a no-op */

/* AW_ERR_NODATA: no span of it has a length, so there is nothing to divide. AW_ERR_LIMIT: more than
 * `spans_max`. `spans` must outlive the request. */
AW_NODISCARD enum aw_err aw_request_build(struct aw_request_builder *builder,
                                          const struct aw_span *spans, uint32_t count,
                                          const struct aw_relations *relations,
                                          struct aw_request *ret);

int64_t aw_request_latency_ns(const struct aw_request *request);
void aw_request_counts_add(struct aw_request_counts *sum, const struct aw_request_counts *more);

#define AW_SKEW_NS_MAX      (INT64_C(600) * 1000000000) /* a clock further off is not corrected */
#define AW_TOLERANCE_NS_MAX INT64_C(1000000) /* clocks that count milliseconds are this coarse */

#endif
