/*
 * read.h - spans out of what tracing systems write: OTLP (protobuf and JSON), Jaeger JSON, Zipkin
 * v2 JSON, and CSV with TraceID, SpanID, ParentID, PodName, OperationName and times.
 *
 * aw_spans_read_file takes any of them, gzipped or not, and finds out which by its first bytes; the
 * other functions take bytes of one format, as a receiver has them.
 *
 * Every reader appends to a list. On failure the list has the spans it had before, and the
 * diagnostic says where: a line of text, a byte of protobuf, or the path of a JSON value.
 * A span without a trace id or an id, or that ends before it begins, is left out and counted
 * (`spans->refused`), because one bad sender must not lose the rest of a batch.
 *
 * Memory:  blocks of the size of the input, freed before return, and what the list keeps.
 * Threads: no shared state.
 */
#ifndef AW_TRACE_READ_H
#define AW_TRACE_READ_H

#include "trace/span.h"

enum aw_span_format {
    AW_SPANS_AUTO,
    AW_SPANS_OTLP,      /* ExportTraceServiceRequest or TracesData */
    AW_SPANS_OTLP_JSON, /* the same as JSON; several values in a row, as the collector's files */
    AW_SPANS_JAEGER,
    AW_SPANS_ZIPKIN,
    AW_SPANS_CSV,
    AW_SPAN_FORMATS
};
const char *aw_span_format_name(enum aw_span_format format); /* "otlp-json" */
/* AW_SPANS_AUTO: none that is known. */
enum aw_span_format aw_span_format_guess(const char *bytes, size_t size);

#define AW_SPANS_FILE_MAX ((size_t)2 << 30) /* bytes of a file, and of what it unpacks to */

/* AW_ERR_FORMAT, AW_ERR_LIMIT, AW_ERR_NOMEM; AW_ERR_NOTFOUND and others of aw_file_read. "-" is
 * standard input. */
AW_NODISCARD enum aw_err aw_spans_read_file(struct aw_spans *spans, const char *path,
                                            enum aw_span_format format,
                                            enum aw_span_format *ret_format, struct aw_diag *diag);
/* `name` stands for the source in diagnostics. */
AW_NODISCARD enum aw_err aw_spans_read(struct aw_spans *spans, const char *name, const char *bytes,
                                       size_t size, enum aw_span_format format,
                                       enum aw_span_format *ret_format, struct aw_diag *diag);

AW_NODISCARD enum aw_err aw_spans_read_otlp(struct aw_spans *spans, const char *name,
                                            const void *bytes, size_t size, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_spans_read_csv(struct aw_spans *spans, const char *name,
                                           const char *bytes, size_t size, struct aw_diag *diag);

/* A whole file, unpacked if it is gzip; the caller frees it with aw_alloc_free. A NUL follows. */
AW_NODISCARD enum aw_err aw_packed_read(const char *path, size_t bytes_max,
                                        const struct aw_alloc *alloc, char **ret_bytes,
                                        size_t *ret_size, struct aw_diag *diag);
/* gzip in memory; AW_ERR_LIMIT: it unpacks to more than `bytes_max`. */
AW_NODISCARD enum aw_err aw_packed_inflate(const char *name, const void *bytes, size_t size,
                                           size_t bytes_max, const struct aw_alloc *alloc,
                                           char **ret_bytes, size_t *ret_size,
                                           struct aw_diag *diag);
bool aw_packed_is(const char *bytes, size_t size);

#endif
