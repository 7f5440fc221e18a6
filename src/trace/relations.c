/* relations.c - see relations.h. */
#include "trace/relations.h"

#define FIRST_ROOM   1024u
#define CHILDREN_MAX 64u /* of one parent whose pairs are looked at: beyond, pairs are too many */

struct relation {
    uint64_t hash;
    uint32_t seen;
    uint32_t against; /* parent ended first; siblings overlapped */
};

struct aw_relations {
    struct aw_hash_table calls, pairs, edges;
    const struct aw_alloc *alloc;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 31;
}

static uint64_t call_hash(const struct aw_span *parent, const struct aw_span *child)
{
    uint64_t hash = mix(1, (uint64_t)parent->service << 32 | parent->operation);
    hash = mix(hash, (uint64_t)child->service << 32 | child->operation);
    return hash ? hash : 1;
}

/* What a call is for: an operation alone ("HTTP GET") says little, whom it reaches says more. */
static uint64_t pair_hash(const struct aw_span *parent, const struct aw_span *earlier,
                          const struct aw_span *later)
{
    uint64_t hash = mix(2, (uint64_t)parent->service << 32 | parent->operation);
    hash = mix(hash, (uint64_t)earlier->service << 32 | earlier->operation);
    hash = mix(hash, (uint64_t)later->service << 32 | later->operation);
    return hash ? hash : 1;
}

static uint64_t edge_hash(uint32_t caller, uint32_t callee)
{
    const uint64_t hash = mix(3, (uint64_t)caller << 32 | callee);
    return hash ? hash : 1;
}

enum aw_err aw_relations_new(struct aw_relations **ret, const struct aw_alloc *alloc)
{
    struct aw_relations *made = aw_alloc_new(alloc, 1, sizeof *made);
    if (!made)
        return AW_ERR_NOMEM;
    made->alloc = alloc;
    struct aw_hash_table *const tables[] = {&made->calls, &made->pairs, &made->edges};
    for (uint32_t i = 0; i < 3; i++) {
        if (aw_hash_table_init(tables[i], sizeof(struct relation), FIRST_ROOM, AW_RELATIONS_MAX,
                               alloc)) {
            aw_relations_free(made);
            return AW_ERR_NOMEM;
        }
    }
    *ret = made;
    return AW_OK;
}

void aw_relations_free(struct aw_relations *relations)
{
    if (!relations)
        return;
    aw_hash_table_deinit(&relations->calls);
    aw_hash_table_deinit(&relations->pairs);
    aw_hash_table_deinit(&relations->edges);
    aw_alloc_free(relations->alloc, relations);
}

static void count(struct aw_hash_table *table, uint64_t hash, bool against)
{
    struct relation *relation = aw_hash_table_find(table, hash);
    if (!relation)
        relation = aw_hash_table_add(table, hash);
    if (!relation)
        return;
    relation->seen += relation->seen < UINT32_MAX;
    relation->against += against && relation->against < UINT32_MAX;
}

/* How much two spans may overlap and still be one after the other. */
static int64_t tolerance(const struct aw_span_node *parent)
{
    const int64_t share = (parent->end_ns - parent->start_ns) / 100;
    return share < AW_TOLERANCE_NS_MAX ? share : AW_TOLERANCE_NS_MAX;
}

static void learn_pairs(struct aw_relations *relations, const struct aw_request *request,
                        uint32_t parent)
{
    const struct aw_span_node *nodes = request->nodes;
    const int64_t slack = tolerance(&nodes[parent]);
    uint32_t seen = 0;
    for (uint32_t b = nodes[parent].first_child; b != AW_NODE_NONE && seen < CHILDREN_MAX;
         b = nodes[b].next, seen++) {
        const struct aw_span *later = &request->spans[b];
        uint32_t left = CHILDREN_MAX;
        for (uint32_t a = nodes[b].next; a != AW_NODE_NONE && left; a = nodes[a].next, left--) {
            const struct aw_span *earlier = &request->spans[a];
            const bool overlap = nodes[a].end_ns > nodes[b].start_ns + slack &&
                                 nodes[b].end_ns > nodes[a].start_ns + slack;
            if ((nodes[a].flags | nodes[b].flags) & (AW_NODE_BACKGROUND | AW_NODE_OUTSIDE))
                continue;
            if (overlap &&
                (earlier->operation != later->operation || earlier->service != later->service)) {
                const struct aw_span *const pair[2] = {earlier, later};
                for (uint32_t k = 0; k < 2; k++)
                    count(&relations->pairs, pair_hash(&request->spans[parent], pair[k], pair[!k]),
                          true);
            }
        }
    }
}

void aw_relations_learn(struct aw_relations *relations, const struct aw_request *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        const struct aw_span_node *node = &request->nodes[i];
        const struct aw_span *span = &request->spans[i];
        if (!(node->flags & AW_NODE_REACHED))
            continue;
        if (node->parent != AW_NODE_NONE) {
            const struct aw_span *parent = &request->spans[node->parent];
            /* by one clock only: skew is not news about who waits */
            const bool one_clock = span->instance == parent->instance;
            if (one_clock && !(parent->flags & AW_SPAN_ERROR))
                count(&relations->calls, call_hash(parent, span),
                      span->end_ns > parent->end_ns + AW_TOLERANCE_NS_MAX);
            if (span->service != parent->service)
                count(&relations->edges, edge_hash(parent->service, span->service), false);
        }
        if (node->first_child != AW_NODE_NONE &&
            request->nodes[node->first_child].next != AW_NODE_NONE)
            learn_pairs(relations, request, i);
    }
}

bool aw_relations_background(const struct aw_relations *relations, const struct aw_span *parent,
                             const struct aw_span *child)
{
    const struct relation *relation =
        relations ? aw_hash_table_find(&relations->calls, call_hash(parent, child)) : NULL;
    return relation && relation->seen >= AW_RELATION_LEAST &&
           relation->against > AW_BACKGROUND_SHARE * relation->seen;
}

bool aw_relations_sequential(const struct aw_relations *relations, const struct aw_span *parent,
                             const struct aw_span *earlier, const struct aw_span *later)
{
    return !relations || !aw_hash_table_find(&relations->pairs, pair_hash(parent, earlier, later));
}

bool aw_relations_calls(const struct aw_relations *relations, uint32_t caller, uint32_t callee)
{
    return relations && aw_hash_table_find(&relations->edges, edge_hash(caller, callee));
}
