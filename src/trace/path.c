/* path.c - see request.h: the critical path, backwards from the end of the root. */
#include "trace/relations.h"
#include "trace/request_internal.h"

/* How much of two siblings may overlap that are taken for one after the other (CRISP: 1 %). */
static int64_t tolerance(const struct aw_span_node *parent)
{
    const int64_t share = (parent->end_ns - parent->start_ns) / 100;
    return share < AW_TOLERANCE_NS_MAX ? share : AW_TOLERANCE_NS_MAX;
}

static void emit(struct aw_request_builder *builder, struct aw_request *request, uint32_t node,
                 uint32_t after, int64_t start_ns, int64_t end_ns)
{
    if (start_ns >= end_ns)
        return;
    builder->sections[request->section_count++] =
        (struct aw_section){.node = node,
                            .after = after,
                            .before = builder->state[node].child_last,
                            .start_ns = start_ns,
                            .end_ns = end_ns};
    builder->nodes[node].exclusive_ns += end_ns - start_ns;
}

/* The child that `at` waited for last before `cursor`; AW_NODE_NONE: for none. Whoever is passed
 * over is never looked at again: the cursor only goes back. */
static uint32_t waited_for(struct aw_request_builder *builder, const struct aw_request *request,
                           uint32_t at, int64_t cursor, const struct aw_relations *relations)
{
    struct aw__state *state = &builder->state[at];
    const int64_t slack = tolerance(&builder->nodes[at]);
    while (state->child_next != AW_NODE_NONE) {
        const uint32_t child = state->child_next;
        const struct aw_span_node *node = &builder->nodes[child];
        state->child_next = node->next;
        if (node->flags & (AW_NODE_BACKGROUND | AW_NODE_OUTSIDE) || node->start_ns >= cursor ||
            node->start_ns >= node->end_ns)
            continue;
        if (state->child_last == AW_NODE_NONE) /* its end is inside of its parent's already */
            return child;
        if (node->end_ns <= cursor + slack &&
            aw_relations_sequential(relations, &request->spans[at], &request->spans[child],
                                    &request->spans[state->child_last]))
            return child;
    }
    return AW_NODE_NONE;
}

void aw__path_walk(struct aw_request_builder *builder, struct aw_request *request,
                   const struct aw_relations *relations)
{
    uint32_t at = request->root;
    int64_t cursor = builder->nodes[at].end_ns;
    for (uint32_t i = 0; i < request->count; i++) {
        builder->state[i].child_next = builder->nodes[i].first_child;
        builder->state[i].child_last = AW_NODE_NONE;
    }
    while (at != AW_NODE_NONE) {
        struct aw_span_node *node = &builder->nodes[at];
        const uint32_t child = waited_for(builder, request, at, cursor, relations);
        if (child == AW_NODE_NONE) {
            emit(builder, request, at, AW_NODE_NONE, node->start_ns, cursor);
            cursor = node->start_ns < cursor ? node->start_ns : cursor;
            at = node->parent;
            continue;
        }
        const int64_t returned_ns = builder->nodes[child].end_ns;
        emit(builder, request, at, child, returned_ns, cursor);
        cursor = returned_ns < cursor ? returned_ns : cursor;
        builder->state[at].child_last = child;
        at = child;
    }
}
