/*
 * assembly.c - see assembly.h.
 *
 * Spans lie in a pool, chained by trace in the order in which they came; traces lie in another,
 * in a list by when they were last touched, so that poll looks only at those that are due.
 */
#include "trace/assembly.h"

#include <string.h>

#define NONE UINT32_MAX

struct slot {
    struct aw_span span;
    uint32_t next; /* of its trace, or of the free ones */
};

struct trace {
    uint64_t hi, lo, hash;
    int64_t touched_us;
    uint32_t first, last, count;
    uint32_t before, after; /* by touched_us; `after` also chains the free ones */
};

struct item { /* of both tables */
    uint64_t hash;
    uint32_t index; /* of a trace, or of a closed one */
};

struct closed {
    uint64_t hi, lo;
};

struct aw_assembly {
    struct aw_assembly_config config;
    struct aw_assembly_counts counts;
    struct aw_hash_table open, late;
    struct slot *slots;    /* [spans_max] */
    struct trace *traces;  /* [traces_max] */
    struct aw_span *out;   /* [spans_per_trace_max] */
    struct closed *closed; /* [AW_ASSEMBLY_CLOSED], a ring */
    uint32_t slot_free, trace_free, waiting;
    uint32_t oldest, newest; /* traces */
    uint64_t closed_count;
    const struct aw_alloc *alloc;
};

static uint64_t hash_of(uint64_t hi, uint64_t lo)
{
    uint64_t hash = (hi ^ lo) * UINT64_C(0x9e3779b97f4a7c15); /* ids are random in most bits */
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

enum aw_err aw_assembly_new(struct aw_assembly **ret, const struct aw_assembly_config *config,
                            const struct aw_alloc *alloc)
{
    struct aw_assembly *made = aw_alloc_new(alloc, 1, sizeof *made);
    if (!made)
        return AW_ERR_NOMEM;
    made->alloc = alloc;
    made->config = *config;
    AW_ASSERT(config->spans_max > 0 && config->spans_max <= AW_SPANS_MAX);
    AW_ASSERT(config->traces_max > 0 && config->spans_per_trace_max <= AW_TRACE_SPANS_MAX);
    if (!made->config.quiet_us)
        made->config.quiet_us = AW_ASSEMBLY_QUIET_US;
    if (!made->config.spans_per_trace_max)
        made->config.spans_per_trace_max = AW_TRACE_SPANS_MAX;
    if (made->config.spans_per_trace_max > config->spans_max)
        made->config.spans_per_trace_max = config->spans_max;
    made->slots = aw_alloc_new(alloc, config->spans_max, sizeof *made->slots);
    made->traces = aw_alloc_new(alloc, config->traces_max, sizeof *made->traces);
    made->out = aw_alloc_new(alloc, made->config.spans_per_trace_max, sizeof *made->out);
    made->closed = aw_alloc_new(alloc, AW_ASSEMBLY_CLOSED, sizeof *made->closed);
    if (!made->slots || !made->traces || !made->out || !made->closed ||
        aw_hash_table_init(&made->open, sizeof(struct item), config->traces_max, config->traces_max,
                           alloc) ||
        aw_hash_table_init(&made->late, sizeof(struct item), AW_ASSEMBLY_CLOSED, AW_ASSEMBLY_CLOSED,
                           alloc)) {
        aw_assembly_free(made);
        return AW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < config->spans_max; i++)
        made->slots[i].next = i + 1 < config->spans_max ? i + 1 : NONE;
    for (uint32_t i = 0; i < config->traces_max; i++)
        made->traces[i].after = i + 1 < config->traces_max ? i + 1 : NONE;
    made->oldest = made->newest = NONE;
    *ret = made;
    return AW_OK;
}

void aw_assembly_free(struct aw_assembly *assembly)
{
    if (!assembly)
        return;
    aw_hash_table_deinit(&assembly->open);
    aw_hash_table_deinit(&assembly->late);
    aw_alloc_free(assembly->alloc, assembly->slots);
    aw_alloc_free(assembly->alloc, assembly->traces);
    aw_alloc_free(assembly->alloc, assembly->out);
    aw_alloc_free(assembly->alloc, assembly->closed);
    aw_alloc_free(assembly->alloc, assembly);
}

static void unlist(struct aw_assembly *assembly, uint32_t index)
{
    struct trace *trace = &assembly->traces[index];
    *(trace->before == NONE ? &assembly->oldest : &assembly->traces[trace->before].after) =
        trace->after;
    *(trace->after == NONE ? &assembly->newest : &assembly->traces[trace->after].before) =
        trace->before;
}

static void list_last(struct aw_assembly *assembly, uint32_t index)
{
    struct trace *trace = &assembly->traces[index];
    trace->before = assembly->newest;
    trace->after = NONE;
    *(assembly->newest == NONE ? &assembly->oldest : &assembly->traces[assembly->newest].after) =
        index;
    assembly->newest = index;
}

static struct item *open_item(const struct aw_assembly *assembly, uint64_t hi, uint64_t lo,
                              uint64_t hash)
{
    struct item *item = aw_hash_table_find(&assembly->open, hash);
    while (item &&
           (assembly->traces[item->index].hi != hi || assembly->traces[item->index].lo != lo))
        item = aw_hash_table_next(&assembly->open, item);
    return item;
}

static struct item *late_item(const struct aw_assembly *assembly, uint64_t hi, uint64_t lo,
                              uint64_t hash)
{
    struct item *item = aw_hash_table_find(&assembly->late, hash);
    while (item &&
           (assembly->closed[item->index].hi != hi || assembly->closed[item->index].lo != lo))
        item = aw_hash_table_next(&assembly->late, item);
    return item;
}

/* The trace of a span, a new one if need be; NONE: there is no room for it. */
static uint32_t trace_of(struct aw_assembly *assembly, const struct aw_span *span)
{
    const uint64_t hash = hash_of(span->trace_hi, span->trace_lo);
    const struct item *known = open_item(assembly, span->trace_hi, span->trace_lo, hash);
    if (known)
        return known->index;
    if (late_item(assembly, span->trace_hi, span->trace_lo, hash)) {
        assembly->counts.late++;
        return NONE;
    }
    const uint32_t index = assembly->trace_free;
    struct item *item = index == NONE ? NULL : aw_hash_table_add(&assembly->open, hash);
    if (!item) {
        assembly->counts.dropped_full++;
        return NONE;
    }
    struct trace *trace = &assembly->traces[index];
    assembly->trace_free = trace->after;
    item->index = index;
    *trace = (struct trace){
        .hi = span->trace_hi, .lo = span->trace_lo, .hash = hash, .first = NONE, .last = NONE};
    list_last(assembly, index);
    return index;
}

bool aw_assembly_push(struct aw_assembly *assembly, const struct aw_span *span, int64_t now_us)
{
    assembly->counts.spans++;
    if (assembly->slot_free == NONE) {
        assembly->counts.dropped_full++;
        return false;
    }
    const uint32_t index = trace_of(assembly, span);
    if (index == NONE)
        return false;
    struct trace *trace = &assembly->traces[index];
    trace->touched_us = now_us;
    if (assembly->newest != index) {
        unlist(assembly, index);
        list_last(assembly, index);
    }
    if (trace->count == assembly->config.spans_per_trace_max) {
        assembly->counts.dropped_trace++;
        return false;
    }
    const uint32_t place = assembly->slot_free;
    struct slot *slot = &assembly->slots[place];
    assembly->slot_free = slot->next;
    slot->span = *span;
    slot->next = NONE;
    *(trace->last == NONE ? &trace->first : &assembly->slots[trace->last].next) = place;
    trace->last = place;
    trace->count++;
    assembly->waiting++;
    return true;
}

static void remember_closed(struct aw_assembly *assembly, const struct trace *trace)
{
    const uint32_t index = (uint32_t)(assembly->closed_count++ % AW_ASSEMBLY_CLOSED);
    struct closed *closed = &assembly->closed[index];
    if (assembly->closed_count > AW_ASSEMBLY_CLOSED) {
        struct item *old =
            late_item(assembly, closed->hi, closed->lo, hash_of(closed->hi, closed->lo));
        AW_ASSERT(old);
        aw_hash_table_drop(&assembly->late, old);
    }
    *closed = (struct closed){trace->hi, trace->lo};
    struct item *item = aw_hash_table_add(&assembly->late, trace->hash);
    AW_ASSERT(item); /* it has room for as many as there are */
    item->index = index;
}

static void hand_over(struct aw_assembly *assembly, aw_assembly_fn *fn, void *ctx)
{
    const uint32_t index = assembly->oldest;
    struct trace *trace = &assembly->traces[index];
    uint32_t count = 0;
    for (uint32_t at = trace->first; at != NONE;) {
        struct slot *slot = &assembly->slots[at];
        const uint32_t next = slot->next;
        assembly->out[count++] = slot->span;
        slot->next = assembly->slot_free;
        assembly->slot_free = at;
        at = next;
    }
    assembly->waiting -= count;
    remember_closed(assembly, trace);
    struct item *item = open_item(assembly, trace->hi, trace->lo, trace->hash);
    AW_ASSERT(item);
    aw_hash_table_drop(&assembly->open, item);
    unlist(assembly, index);
    trace->after = assembly->trace_free;
    assembly->trace_free = index;
    if (!count) /* its only span found no room */
        return;
    assembly->counts.traces++;
    fn(ctx, assembly->out, count);
}

void aw_assembly_poll(struct aw_assembly *assembly, int64_t now_us, aw_assembly_fn *fn, void *ctx)
{
    while (assembly->oldest != NONE &&
           now_us - assembly->traces[assembly->oldest].touched_us >= assembly->config.quiet_us)
        hand_over(assembly, fn, ctx);
}

void aw_assembly_flush(struct aw_assembly *assembly, aw_assembly_fn *fn, void *ctx)
{
    while (assembly->oldest != NONE)
        hand_over(assembly, fn, ctx);
}

struct aw_assembly_counts aw_assembly_counts(const struct aw_assembly *assembly)
{
    return assembly->counts;
}

uint32_t aw_assembly_waiting(const struct aw_assembly *assembly)
{
    return assembly->waiting;
}
