/* analysis.c - see analysis.h. */
#include "trace/analysis.h"

#include <stdlib.h>

enum aw_err aw_analysis_init(struct aw_analysis *analysis, const struct aw_alloc *alloc)
{
    *analysis = (struct aw_analysis){0};
    enum aw_err err = aw_request_builder_new(&analysis->builder, AW_TRACE_SPANS_MAX, alloc);
    if (!err)
        err = aw_relations_new(&analysis->relations, alloc);
    if (err)
        aw_analysis_deinit(analysis);
    return err;
}

void aw_analysis_deinit(struct aw_analysis *analysis)
{
    aw_request_builder_free(analysis->builder);
    aw_relations_free(analysis->relations);
    *analysis = (struct aw_analysis){0};
}

static int by_trace(const void *left, const void *right)
{
    const struct aw_span *a = left, *b = right;
    if (a->trace_hi != b->trace_hi)
        return a->trace_hi < b->trace_hi ? -1 : 1;
    if (a->trace_lo != b->trace_lo)
        return a->trace_lo < b->trace_lo ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static void walk(struct aw_analysis *analysis, struct aw_spans *spans, aw_analysis_fn *fn,
                 void *ctx)
{
    bool sorted = true;
    for (uint32_t i = 1; i < spans->count && sorted; i++)
        sorted = by_trace(&spans->at[i - 1], &spans->at[i]) <= 0;
    if (!sorted)
        qsort(spans->at, spans->count, sizeof *spans->at, by_trace);
    for (uint32_t from = 0, until; from < spans->count; from = until) {
        struct aw_request request;
        for (until = from + 1; until < spans->count &&
                               spans->at[until].trace_lo == spans->at[from].trace_lo &&
                               spans->at[until].trace_hi == spans->at[from].trace_hi;)
            until++;
        const enum aw_err err = aw_request_build(analysis->builder, spans->at + from, until - from,
                                                 analysis->relations, &request);
        analysis->too_large += err == AW_ERR_LIMIT;
        analysis->without_length += err == AW_ERR_NODATA;
        if (!err && !fn(ctx, &request))
            break;
    }
}

static bool learn(void *ctx, const struct aw_request *request)
{
    aw_relations_learn(((struct aw_analysis *)ctx)->relations, request);
    return true;
}

void aw_analysis_learn(struct aw_analysis *analysis, struct aw_spans *spans)
{
    walk(analysis, spans, learn, analysis);
    analysis->too_large = analysis->without_length = 0; /* each will count them */
}

struct each {
    struct aw_analysis *analysis;
    aw_analysis_fn *fn;
    void *ctx;
};

static bool one(void *ctx, const struct aw_request *request)
{
    struct each *each = ctx;
    aw_request_counts_add(&each->analysis->counts, &request->counts);
    each->analysis->traces++;
    return each->fn(each->ctx, request);
}

void aw_analysis_each(struct aw_analysis *analysis, struct aw_spans *spans, aw_analysis_fn *fn,
                      void *ctx)
{
    walk(analysis, spans, one, &(struct each){analysis, fn, ctx});
}
