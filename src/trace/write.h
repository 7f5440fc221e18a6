/*
 * write.h - spans as OTLP: protobuf for another collector, JSON for files that any tool reads.
 *
 * Spans that stand together and have one service and instance become one resource. What a reader of
 * read.h takes of the result is what was written.
 *
 * Memory:  one block that grows; the caller frees `bytes` with aw_alloc_free of its allocator.
 * Threads: no shared state.
 */
#ifndef AW_TRACE_WRITE_H
#define AW_TRACE_WRITE_H

#include <stdio.h>

#include "trace/span.h"

struct aw_bytes {
    uint8_t *bytes;
    size_t size, room;
    const struct aw_alloc *alloc;
};
#define AW_BYTES_MAX ((size_t)1 << 30)

/* An ExportTraceServiceRequest, appended. AW_ERR_NOMEM, AW_ERR_LIMIT; then `out` is as before. */
AW_NODISCARD enum aw_err aw_spans_write_otlp(const struct aw_span *spans, uint32_t count,
                                             const struct aw_names *names, struct aw_bytes *out);
/* The same as one line of JSON. AW_ERR_IO, AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_spans_write_json(const struct aw_span *spans, uint32_t count,
                                             const struct aw_names *names, FILE *out);

#endif
