/*
 * fuzz_spans.c - any bytes as spans of any format: refused in one line, or spans that make sound
 * requests, whose exclusive times sum to the latency, and which are read back as they are written;
 * as metrics of pods; and as what a classifier has learned. The first byte says which.
 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/classifier.h"
#include "trace/metrics.h"
#include "trace/read.h"
#include "trace/relations.h"
#include "trace/window.h"
#include "trace/write.h"

#define SPANS_MAX 4096u

struct analysis {
    struct aw_request_builder *builder;
    struct aw_relations *relations;
    struct aw_window *window;
};

static void one_trace(void *ctx, const struct aw_span *spans, uint32_t count)
{
    struct analysis *analysis = ctx;
    struct aw_request request;
    if (aw_request_build(analysis->builder, spans, count, analysis->relations, &request))
        return;
    int64_t sum = 0, cursor = request.nodes[request.root].end_ns;
    for (uint32_t i = 0; i < request.count; i++)
        sum += request.nodes[i].exclusive_ns;
    for (uint32_t i = 0; i < request.section_count; i++) {
        AW_ASSERT(request.sections[i].end_ns == cursor);
        cursor = request.sections[i].start_ns;
    }
    AW_ASSERT(cursor == request.nodes[request.root].start_ns);
    AW_ASSERT(sum == aw_request_latency_ns(&request));
    aw_relations_learn(analysis->relations, &request);
    AW_ASSERT(aw_window_add(analysis->window, &request));
}

static void check_names(const struct aw_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        for (const char *at = aw_names_text(names, i); *at; at++)
            AW_ASSERT((unsigned char)*at >= 0x20 && *at != 0x7f);
    }
}

static void localize(const struct aw_window *window, const struct aw_span_profile *base)
{
    struct aw_localization found;
    if (aw_localize(&found, window, base, NULL, 0, NULL))
        return;
    AW_ASSERT(!aw_localize_paper(&found, window));
    for (uint32_t i = 0; i < found.count; i++) {
        char text[AW_CULPRIT_TEXT];
        for (uint32_t k = 0; k < AW_FEATURES; k++)
            AW_ASSERT(isfinite(found.culprits[i].feature[k]));
        AW_ASSERT(*aw_culprit_text(&found.culprits[i], text, sizeof text));
    }
    aw_localization_deinit(&found);
}

static void as_metrics(const uint8_t *data, size_t size)
{
    struct aw_metrics metrics = {0};
    struct aw_names names;
    struct aw_diag diag = {0};
    struct aw_evidence evidence[16];
    AW_ASSERT(!aw_names_init(&names, NULL));
    const enum aw_err err =
        aw_metrics_read(&metrics, &names, "input", (const char *)data, size, &diag);
    if (err)
        check_refusal(&diag, err);
    aw_metrics_join(&metrics);
    const uint32_t count =
        aw_metrics_evidence(&metrics, (struct aw_minutes){0, INT64_MAX}, NULL, 0, evidence, 16);
    AW_ASSERT(count <= 16);
    aw_metrics_deinit(&metrics);
    aw_names_deinit(&names);
}

static void as_learned(const uint8_t *data, size_t size)
{
    struct aw_classifier classifier;
    struct aw_diag diag = {0};
    const enum aw_err err =
        aw_classifier_read(&classifier, "input", (const char *)data, size, &diag);
    if (err)
        check_refusal(&diag, err);
    else
        AW_ASSERT(isfinite(aw_classifier_score(&classifier, &(struct aw_culprit){0})));
}

static void analyse(struct aw_spans *spans)
{
    struct analysis analysis = {0};
    struct aw_assembly *assembly = NULL;
    struct aw_window window;
    const struct aw_assembly_config config = {.spans_max = SPANS_MAX, .traces_max = SPANS_MAX};
    AW_ASSERT(!aw_window_init(&window, &spans->names, NULL));
    AW_ASSERT(!aw_request_builder_new(&analysis.builder, SPANS_MAX, NULL));
    AW_ASSERT(!aw_relations_new(&analysis.relations, NULL));
    AW_ASSERT(!aw_assembly_new(&assembly, &config, NULL));
    analysis.window = &window;
    for (uint32_t i = 0; i < spans->count; i++)
        AW_ASSERT(aw_assembly_push(assembly, &spans->at[i], 0));
    aw_assembly_flush(assembly, one_trace, &analysis);
    for (uint32_t i = 0; i < window.request_count; i++) {
        int64_t sum = 0;
        for (uint32_t k = 0; k < window.requests[i].share_count; k++)
            sum += window.shares[window.requests[i].share_first + k].ns;
        AW_ASSERT(sum == window.requests[i].latency_ns);
    }
    struct aw_span_profile base;
    AW_ASSERT(!aw_profile_make(&base, &window, 0, 2, NULL));
    localize(&window, &base);
    localize(&window, NULL);
    aw_profile_deinit(&base);
    aw_assembly_free(assembly);
    aw_relations_free(analysis.relations);
    aw_request_builder_free(analysis.builder);
    aw_window_deinit(&window);
}

static void write_and_read(const struct aw_spans *spans)
{
    struct aw_bytes bytes = {0};
    struct aw_spans back;
    AW_ASSERT(!aw_spans_init(&back, SPANS_MAX, NULL));
    AW_ASSERT(!aw_spans_write_otlp(spans->at, spans->count, &spans->names, &bytes));
    AW_ASSERT(!aw_spans_read_otlp(&back, "back", bytes.bytes, bytes.size, NULL));
    /* at 0 ns nothing can begin: such a span has no time, and is kept for its id alone */
    AW_ASSERT(back.count + back.refused == spans->count);
    aw_alloc_free(NULL, bytes.bytes);
    aw_spans_deinit(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t format = size ? data[0] % (AW_SPAN_FORMATS + 3u) : 0;
    struct aw_spans spans;
    struct aw_diag diag = {0};
    char *unpacked = NULL;
    size_t unpacked_size = 0;
    if (!size)
        return 0;
    data++;
    size--;
    if (format == AW_SPAN_FORMATS) { /* gzip */
        const enum aw_err err =
            aw_packed_inflate("input", data, size, 1 << 20, NULL, &unpacked, &unpacked_size, &diag);
        if (err)
            check_refusal(&diag, err);
        aw_alloc_free(NULL, unpacked);
        return 0;
    }
    if (format > AW_SPAN_FORMATS) {
        (format == AW_SPAN_FORMATS + 1 ? as_metrics : as_learned)(data, size);
        return 0;
    }
    AW_ASSERT(!aw_spans_init(&spans, SPANS_MAX, NULL));
    const enum aw_err err =
        aw_spans_read(&spans, "input", (const char *)data, size, format, NULL, &diag);
    if (err) {
        check_refusal(&diag, err);
        AW_ASSERT(spans.count == 0);
    }
    check_names(&spans.names);
    if (spans.count) {
        analyse(&spans);
        write_and_read(&spans);
    }
    aw_spans_deinit(&spans);
    return 0;
}
