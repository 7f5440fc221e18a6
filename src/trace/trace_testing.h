/* trace_testing.h - traces for tests: written in a line each, or drawn at random. */
#ifndef AW_TRACE_TESTING_H
#define AW_TRACE_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trace/request.h"

#define MS INT64_C(1000000)
#define T0 (INT64_C(1700000000) * 1000 * MS)

/* One span; times in milliseconds after T0. Its operation is its service's name. */
static inline struct aw_span *testing_span(struct aw_spans *spans, uint64_t trace, uint64_t id,
                                           uint64_t parent, const char *service, double start_ms,
                                           double end_ms, enum aw_span_kind kind)
{
    struct aw_span *span = aw_spans_push(spans);
    AW_ASSERT(span);
    char instance[128];
    snprintf(instance, sizeof instance, "%s-0", service);
    span->trace_hi = 1;
    span->trace_lo = trace;
    span->id = id;
    span->parent = parent;
    span->service = aw_names_add(&spans->names, service, strlen(service));
    span->operation = span->service;
    span->instance = aw_names_add(&spans->names, instance, strlen(instance));
    span->start_ns = T0 + (int64_t)(start_ms * (double)MS);
    span->end_ns = T0 + (int64_t)(end_ms * (double)MS);
    span->kind = (uint8_t)kind;
    return span;
}

/* A trace in which everything happens: parallel and sequential calls, skewed clocks, spans that
 * outlive their parents, missing parents, duplicates, circles, no kind at all. */
static inline void testing_random_trace(struct aw_spans *spans, struct aw_rng *rng, uint64_t trace,
                                        uint32_t count)
{
    static const char *const services[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    const uint32_t first = spans->count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t up = i ? aw_rng_below(rng, i) : 0;
        const struct aw_span above = i ? spans->at[first + up] : (struct aw_span){0};
        const int64_t from = i ? above.start_ns - T0 : 0;
        const int64_t length = i ? above.end_ns - above.start_ns : 100 * MS;
        double a = aw_rng_double(rng), b = aw_rng_double(rng);
        a = a < b ? a : b;
        b = a + (b > a ? b - a : a - b);
        const double skew = aw_rng_below(rng, 10) ? 0 : aw_rng_uniform(rng, -50, 50);
        struct aw_span *span =
            testing_span(spans, trace, i + 1, i ? up + 1 : 0, services[aw_rng_below(rng, 8)],
                         ((double)from + a * (double)length) / (double)MS + skew,
                         ((double)from + (i ? b : 1) * (double)length) / (double)MS + skew,
                         aw_rng_below(rng, AW_SPAN_KINDS));
        if (!aw_rng_below(rng, 12))
            span->end_ns += (int64_t)aw_rng_below(rng, 40) * MS;
        if (!aw_rng_below(rng, 15) && i)
            span->parent = 1000 + aw_rng_below(rng, 5); /* nobody */
        if (!aw_rng_below(rng, 20) && i)
            span->parent = 1 + aw_rng_below(rng, count); /* anybody: circles */
        if (!aw_rng_below(rng, 20) && i)
            span->id = 1 + aw_rng_below(rng, i); /* a duplicate */
        if (!aw_rng_below(rng, 20))
            span->flags |= AW_SPAN_FOLLOWS;
        if (!aw_rng_below(rng, 20))
            span->flags |= AW_SPAN_SHARED;
        if (!aw_rng_below(rng, 10))
            span->flags |= AW_SPAN_ERROR;
    }
}

#endif
