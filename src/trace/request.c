/* request.c - see request.h: the tree. The path over it is path.c. */
#include "trace/request.h"

#include <string.h>

#include "trace/relations.h"
#include "trace/request_internal.h"

#define ADOPT_TRIES   64u /* orphans of a trace that are looked at: each costs a walk over it */
#define ANCESTORS_MAX 8u  /* looked at for the same clock */

enum aw_err aw_request_builder_new(struct aw_request_builder **ret, uint32_t spans_max,
                                   const struct aw_alloc *alloc)
{
    struct aw_carve carve = {0};
    struct aw_request_builder sized = {.spans_max = spans_max}, *made = NULL;
    AW_ASSERT(spans_max > 0 && spans_max <= AW_TRACE_SPANS_MAX);
    sized.map_places = 8;
    while (sized.map_places < 2 * spans_max)
        sized.map_places *= 2;
    for (unsigned char *block = NULL;;) {
        carve.used = 0;
        carve.base = block;
        made = aw_carve_take(&carve, 1, sizeof *made);
        sized.nodes = aw_carve_take(&carve, spans_max, sizeof *sized.nodes);
        sized.state = aw_carve_take(&carve, spans_max, sizeof *sized.state);
        sized.queue = aw_carve_take(&carve, spans_max, sizeof *sized.queue);
        sized.map = aw_carve_take(&carve, sized.map_places, sizeof *sized.map);
        /* a span begins one section, and each child that is entered ends one more */
        sized.sections = aw_carve_take(&carve, 2 * (size_t)spans_max, sizeof *sized.sections);
        if (block)
            break;
        block = aw_alloc_new(alloc, carve.used, 1);
        if (!block)
            return AW_ERR_NOMEM;
    }
    sized.alloc = alloc;
    *made = sized;
    *ret = made;
    return AW_OK;
}

void aw_request_builder_free(struct aw_request_builder *builder)
{
    if (builder)
        aw_alloc_free(builder->alloc, builder);
}

static uint32_t *place_of(struct aw_request_builder *builder, const struct aw_span *spans,
                          uint64_t id)
{
    const uint32_t mask = builder->map_used - 1;
    uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) & mask;
    while (builder->map[at] && spans[builder->map[at] - 1].id != id)
        at = (at + 1) & mask;
    return &builder->map[at];
}

/* Every id once. Both halves of one that Zipkin shares are kept: the client's is found by its id,
 * and knows the server's. */
static void index_ids(struct aw_request_builder *builder, const struct aw_span *spans,
                      struct aw_request *request)
{
    builder->map_used = 8;
    while (builder->map_used < 2 * request->count)
        builder->map_used *= 2;
    memset(builder->map, 0, builder->map_used * sizeof *builder->map);
    for (uint32_t i = 0; i < request->count; i++) {
        struct aw__state *state = &builder->state[i];
        *state = (struct aw__state){.twin = AW_NODE_NONE};
        builder->nodes[i] = (struct aw_span_node){.parent = AW_NODE_NONE,
                                                  .first_child = AW_NODE_NONE,
                                                  .next = AW_NODE_NONE,
                                                  .kind = spans[i].kind};
        uint32_t *place = place_of(builder, spans, spans[i].id);
        if (!*place) {
            *place = i + 1;
            continue;
        }
        const uint32_t there = *place - 1;
        const bool shared = spans[i].flags & AW_SPAN_SHARED;
        const bool shared_there = spans[there].flags & AW_SPAN_SHARED;
        if (shared && !shared_there && builder->state[there].twin == AW_NODE_NONE) {
            builder->state[there].twin = i;
            state->parent_known = there + 1;
        } else if (!shared && shared_there) {
            *place = i + 1;
            state->twin = there;
            builder->state[there].parent_known = i + 1;
        } else {
            state->duplicate = true;
            request->counts.duplicate++;
        }
    }
}

static int64_t length_ns(const struct aw_span *span)
{
    return span->end_ns - span->start_ns;
}

/* The root: the longest span without a parent; where the root is missing, the longest of those
 * whose parent is; where all go round in a circle, the longest. */
static bool choose_root(struct aw_request_builder *builder, const struct aw_span *spans,
                        struct aw_request *request)
{
    uint32_t best[3] = {AW_NODE_NONE, AW_NODE_NONE, AW_NODE_NONE};
    for (uint32_t i = 0; i < request->count; i++) {
        const uint32_t sort = builder->nodes[i].parent != AW_NODE_NONE ? 2
                              : spans[i].parent                        ? 1
                                                                       : 0;
        if (builder->state[i].duplicate || length_ns(&spans[i]) <= 0)
            continue;
        if (best[sort] == AW_NODE_NONE || length_ns(&spans[i]) > length_ns(&spans[best[sort]]))
            best[sort] = i;
    }
    request->root = best[0] != AW_NODE_NONE ? best[0] : best[1] != AW_NODE_NONE ? best[1] : best[2];
    if (request->root == AW_NODE_NONE)
        return false;
    request->counts.rootless = best[0] == AW_NODE_NONE;
    builder->nodes[request->root].parent = AW_NODE_NONE;
    return true;
}

static void link_parents(struct aw_request_builder *builder, const struct aw_span *spans,
                         const struct aw_request *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        struct aw__state *state = &builder->state[i];
        struct aw_span_node *node = &builder->nodes[i];
        if (state->duplicate)
            continue;
        if (state->parent_known) {
            node->parent = state->parent_known - 1;
            continue;
        }
        const uint32_t found = spans[i].parent ? *place_of(builder, spans, spans[i].parent) : 0;
        if (!found || found - 1 == i)
            continue;
        /* what an id that is shared has called, its server's half has called */
        const uint32_t twin = builder->state[found - 1].twin;
        node->parent = twin != AW_NODE_NONE && twin != i ? twin : found - 1;
    }
}

static void list_children(struct aw_request_builder *builder, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        const uint32_t parent = builder->nodes[i].parent;
        if (parent == AW_NODE_NONE)
            continue;
        builder->nodes[i].next = builder->nodes[parent].first_child;
        builder->nodes[parent].first_child = i;
    }
}

static bool elsewhere(const struct aw_span *a, const struct aw_span *b)
{
    return a->instance && b->instance ? a->instance != b->instance : a->service != b->service;
}

/* A span without a kind whose only child is of another instance is the client of a call. */
static void infer_kind(struct aw_request_builder *builder, const struct aw_span *spans, uint32_t i)
{
    struct aw_span_node *node = &builder->nodes[i];
    const uint32_t child = node->first_child;
    if (node->kind || child == AW_NODE_NONE || builder->nodes[child].next != AW_NODE_NONE ||
        !elsewhere(&spans[i], &spans[child]))
        return;
    node->kind = AW_SPAN_CLIENT;
    if (!builder->nodes[child].kind)
        builder->nodes[child].kind = AW_SPAN_SERVER;
}

/* How far the clock of an instance was moved above: by whom of the same instance is nearest. */
static int64_t shift_above(const struct aw_request_builder *builder, const struct aw_span *spans,
                           uint32_t i)
{
    uint32_t at = builder->nodes[i].parent;
    for (uint32_t n = 0; at != AW_NODE_NONE && n < ANCESTORS_MAX; n++) {
        if (!elsewhere(&spans[i], &spans[at]))
            return builder->state[at].shift_ns;
        at = builder->nodes[at].parent;
    }
    return 0;
}

/* Jaeger's rule, for calls from one instance to another alone: a server that does not fit into its
 * client is put into the middle of it; one that is longer begins with it. */
static int64_t skew_of(const struct aw_request_builder *builder, const struct aw_span *spans,
                       uint32_t i)
{
    const struct aw_span_node *node = &builder->nodes[i];
    const struct aw_span *span = &spans[i], *caller = &spans[node->parent];
    const int64_t shift = builder->state[i].shift_ns;
    const int64_t from = caller->start_ns + builder->state[node->parent].shift_ns;
    const int64_t until = caller->end_ns + builder->state[node->parent].shift_ns;
    const int64_t start = span->start_ns + shift, end = span->end_ns + shift;
    if (builder->nodes[node->parent].kind != AW_SPAN_CLIENT || node->kind != AW_SPAN_SERVER ||
        !elsewhere(span, caller))
        return 0;
    if (start >= from - AW_TOLERANCE_NS_MAX && end <= until + AW_TOLERANCE_NS_MAX)
        return 0;
    int64_t skew;
    if (end - start > until - from) {
        /* the caller gave up: that it goes on is no fault of a clock */
        if (start >= from && start <= until)
            return 0;
        skew = from - start;
    } else {
        skew = from + ((until - from) - (end - start)) / 2 - start;
    }
    return skew > AW_SKEW_NS_MAX || skew < -AW_SKEW_NS_MAX ? 0 : skew;
}

static bool in_background(const struct aw_span *spans, const struct aw_span_node *nodes, uint32_t i,
                          const struct aw_relations *relations)
{
    const uint32_t parent = nodes[i].parent;
    return nodes[i].kind == AW_SPAN_CONSUMER || (spans[i].flags & AW_SPAN_FOLLOWS) ||
           (nodes[parent].flags & AW_NODE_BACKGROUND) ||
           aw_relations_background(relations, &spans[parent], &spans[i]);
}

/* Times of a node whose parent has its own. */
static void place_node(struct aw_request_builder *builder, const struct aw_span *spans, uint32_t i,
                       const struct aw_relations *relations, struct aw_request_counts *counts)
{
    struct aw_span_node *node = &builder->nodes[i];
    const struct aw_span_node *parent = &builder->nodes[node->parent];
    struct aw__state *state = &builder->state[i];
    node->flags |= AW_NODE_REACHED;
    node->depth = parent->depth < UINT16_MAX ? (uint16_t)(parent->depth + 1) : UINT16_MAX;
    infer_kind(builder, spans, i);
    state->shift_ns = shift_above(builder, spans, i);
    if (in_background(spans, builder->nodes, i, relations)) {
        node->flags |= AW_NODE_BACKGROUND;
        counts->background++;
        node->start_ns = spans[i].start_ns + state->shift_ns;
        node->end_ns = spans[i].end_ns + state->shift_ns;
        return;
    }
    const int64_t skew = skew_of(builder, spans, i);
    if (skew) {
        state->shift_ns += skew;
        node->flags |= AW_NODE_SKEWED;
        counts->skewed++;
    }
    const int64_t start = spans[i].start_ns + state->shift_ns;
    const int64_t end = spans[i].end_ns + state->shift_ns;
    node->start_ns = start > parent->start_ns ? start : parent->start_ns;
    node->end_ns = end < parent->end_ns ? end : parent->end_ns;
    if (node->start_ns >= node->end_ns && end > start) {
        node->flags |= AW_NODE_OUTSIDE;
        counts->outside++;
    } else if (node->start_ns - start > AW_TOLERANCE_NS_MAX ||
               end - node->end_ns > AW_TOLERANCE_NS_MAX) {
        node->flags |= AW_NODE_CLIPPED;
        counts->clipped++;
    }
    if (node->start_ns > node->end_ns || node->flags & AW_NODE_OUTSIDE) {
        node->start_ns = node->start_ns < parent->end_ns ? node->start_ns : parent->end_ns;
        node->end_ns = node->start_ns;
    }
}

/* Everything below a node that has its times, level by level. */
static void place_below(struct aw_request_builder *builder, const struct aw_span *spans,
                        uint32_t top, const struct aw_relations *relations,
                        struct aw_request_counts *counts)
{
    uint32_t head = 0, tail = 0;
    builder->queue[tail++] = top;
    while (head < tail) {
        const uint32_t at = builder->queue[head++];
        for (uint32_t child = builder->nodes[at].first_child; child != AW_NODE_NONE;
             child = builder->nodes[child].next) {
            if (builder->nodes[child].flags & AW_NODE_REACHED)
                continue; /* the root, from within a circle */
            place_node(builder, spans, child, relations, counts);
            builder->queue[tail++] = child;
        }
    }
}

/* The shortest span that holds `orphan` in time and whose service calls its service. */
static uint32_t caller_for(const struct aw_request_builder *builder, const struct aw_span *spans,
                           uint32_t count, uint32_t orphan, const struct aw_relations *relations)
{
    uint32_t best = AW_NODE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_span_node *node = &builder->nodes[i];
        if ((node->flags & (AW_NODE_REACHED | AW_NODE_BACKGROUND)) != AW_NODE_REACHED ||
            node->start_ns > spans[orphan].start_ns || node->end_ns < spans[orphan].end_ns ||
            !aw_relations_calls(relations, spans[i].service, spans[orphan].service))
            continue;
        if (best == AW_NODE_NONE || node->end_ns - node->start_ns <
                                        builder->nodes[best].end_ns - builder->nodes[best].start_ns)
            best = i;
    }
    return best;
}

static void adopt_orphans(struct aw_request_builder *builder, struct aw_request *request,
                          const struct aw_relations *relations)
{
    uint32_t tries = relations ? ADOPT_TRIES : 0;
    for (uint32_t i = 0; i < request->count && tries; i++) {
        struct aw_span_node *node = &builder->nodes[i];
        if (node->flags & AW_NODE_REACHED || builder->state[i].duplicate ||
            node->parent != AW_NODE_NONE || !request->spans[i].parent)
            continue;
        tries--;
        const uint32_t caller = caller_for(builder, request->spans, request->count, i, relations);
        if (caller == AW_NODE_NONE)
            continue;
        node->parent = caller;
        node->next = builder->nodes[caller].first_child;
        builder->nodes[caller].first_child = i;
        node->flags |= AW_NODE_ADOPTED;
        request->counts.adopted++;
        place_node(builder, request->spans, i, relations, &request->counts);
        place_below(builder, request->spans, i, relations, &request->counts);
    }
}

/* By end, the last first; then the longer; then by id, so that no order of arrival decides. */
static bool comes_first(const struct aw_span_node *nodes, const struct aw_span *spans, uint32_t a,
                        uint32_t b)
{
    if (nodes[a].end_ns != nodes[b].end_ns)
        return nodes[a].end_ns > nodes[b].end_ns;
    if (nodes[a].start_ns != nodes[b].start_ns)
        return nodes[a].start_ns < nodes[b].start_ns;
    return spans[a].id < spans[b].id;
}

/* Two sorted lists as one. */
static uint32_t merge(struct aw_span_node *nodes, const struct aw_span *spans, uint32_t a,
                      uint32_t b)
{
    uint32_t first = AW_NODE_NONE, *link = &first;
    while (a != AW_NODE_NONE && b != AW_NODE_NONE) {
        uint32_t *from = comes_first(nodes, spans, a, b) ? &a : &b;
        *link = *from;
        link = &nodes[*from].next;
        *from = *link;
    }
    *link = a != AW_NODE_NONE ? a : b;
    return first;
}

/* Runs of 1, 2, 4, ... are merged. */
static uint32_t sort(struct aw_span_node *nodes, const struct aw_span *spans, uint32_t list)
{
    uint32_t runs[32];
    uint32_t used = 0;
    while (list != AW_NODE_NONE) {
        uint32_t one = list, level = 0;
        list = nodes[list].next;
        nodes[one].next = AW_NODE_NONE;
        while (level < used && runs[level] != AW_NODE_NONE) {
            one = merge(nodes, spans, runs[level], one);
            runs[level++] = AW_NODE_NONE;
        }
        if (level == used)
            used++;
        runs[level] = one;
    }
    for (uint32_t i = 0; i < used; i++)
        list = runs[i] == AW_NODE_NONE ? list : merge(nodes, spans, runs[i], list);
    return list;
}

/* Whether `b` is another attempt at what had failed as `a`: same caller, same operation, later. */
static bool is_again(const struct aw_span_node *nodes, const struct aw_span *spans, uint32_t a,
                     uint32_t b)
{
    return spans[a].flags & AW_SPAN_ERROR && spans[a].operation == spans[b].operation &&
           spans[a].service == spans[b].service && spans[a].peer == spans[b].peer &&
           nodes[a].end_ns <= nodes[b].start_ns;
}

static void flag_retries(struct aw_request_builder *builder, struct aw_request *request, uint32_t i)
{
    struct aw_span_node *nodes = builder->nodes;
    for (uint32_t b = nodes[i].first_child; b != AW_NODE_NONE; b = nodes[b].next) {
        const uint32_t a = nodes[b].next; /* ended before it */
        if (request->spans[b].resend ||
            (a != AW_NODE_NONE && is_again(nodes, request->spans, a, b))) {
            nodes[b].flags |= AW_NODE_RETRY;
            request->counts.retried++;
        }
    }
}

enum aw_err aw_request_build(struct aw_request_builder *builder, const struct aw_span *spans,
                             uint32_t count, const struct aw_relations *relations,
                             struct aw_request *ret)
{
    struct aw_request request = {
        .spans = spans, .nodes = builder->nodes, .count = count, .sections = builder->sections};
    if (count > builder->spans_max)
        return AW_ERR_LIMIT;
    if (!count)
        return AW_ERR_NODATA;
    AW_ASSERT(spans);
    index_ids(builder, spans, &request);
    link_parents(builder, spans, &request);
    if (!choose_root(builder, spans, &request))
        return AW_ERR_NODATA;
    list_children(builder, count);
    struct aw_span_node *root = &builder->nodes[request.root];
    root->flags = AW_NODE_REACHED;
    root->start_ns = spans[request.root].start_ns;
    root->end_ns = spans[request.root].end_ns;
    infer_kind(builder, spans, request.root);
    place_below(builder, spans, request.root, relations, &request.counts);
    adopt_orphans(builder, &request, relations);
    for (uint32_t i = 0; i < count; i++) {
        struct aw_span_node *node = &builder->nodes[i];
        if (!(node->flags & AW_NODE_REACHED)) {
            request.counts.orphaned += !builder->state[i].duplicate;
            *node = (struct aw_span_node){.parent = AW_NODE_NONE,
                                          .first_child = AW_NODE_NONE,
                                          .next = AW_NODE_NONE,
                                          .kind = spans[i].kind,
                                          .start_ns = spans[i].start_ns,
                                          .end_ns = spans[i].end_ns};
        } else if (node->first_child != AW_NODE_NONE &&
                   builder->nodes[node->first_child].next != AW_NODE_NONE) {
            node->first_child = sort(builder->nodes, spans, node->first_child);
            flag_retries(builder, &request, i);
        }
    }
    aw__path_walk(builder, &request, relations);
    *ret = request;
    return AW_OK;
}

int64_t aw_request_latency_ns(const struct aw_request *request)
{
    const struct aw_span_node *root = &request->nodes[request->root];
    return root->end_ns - root->start_ns;
}

void aw_request_counts_add(struct aw_request_counts *sum, const struct aw_request_counts *more)
{
    sum->duplicate += more->duplicate;
    sum->orphaned += more->orphaned;
    sum->adopted += more->adopted;
    sum->skewed += more->skewed;
    sum->clipped += more->clipped;
    sum->outside += more->outside;
    sum->background += more->background;
    sum->retried += more->retried;
    sum->rootless += more->rootless;
}
