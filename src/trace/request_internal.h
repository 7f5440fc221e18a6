/* request_internal.h - the builder's memory, which tree and path share. */
#ifndef AW_TRACE_REQUEST_INTERNAL_H
#define AW_TRACE_REQUEST_INTERNAL_H

#include "trace/request.h"

struct aw__state {
    int64_t shift_ns;      /* that was added to its clock */
    uint32_t twin;         /* the server's half of a shared id */
    uint32_t parent_known; /* 1 + the client's half; 0: look for its parent's id */
    uint32_t child_next;   /* path: the child to be looked at next */
    uint32_t child_last;   /* path: the child that was entered last */
    bool duplicate;
};

struct aw_request_builder {
    uint32_t spans_max;
    uint32_t map_places, map_used; /* powers of two */
    struct aw_span_node *nodes;    /* [spans_max] */
    struct aw__state *state;       /* [spans_max] */
    uint32_t *queue;               /* [spans_max] */
    uint32_t *map;                 /* [map_places]: 1 + index of a span; 0: free */
    struct aw_section *sections;   /* [2 spans_max] */
    const struct aw_alloc *alloc;
};

/* Fills sections and exclusive times of a tree that is complete. */
void aw__path_walk(struct aw_request_builder *builder, struct aw_request *request,
                   const struct aw_relations *relations);

#endif
