/* trace.h - what the verbs `aware trace ...` share: files in, one request chosen. */
#ifndef AW_OPERATE_TRACE_H
#define AW_OPERATE_TRACE_H

#include "frame/verb.h"
#include "trace/analysis.h"
#include "trace/read.h"

#include <jansson.h>

struct aw__traces {
    struct aw_spans spans;
    struct aw_analysis analysis; /* has learned from all of them */
};

/* Reads `count` files. AW_ERR_NODATA: not one span in any of them. On failure zeroed. */
AW_NODISCARD enum aw_err aw__traces_read(struct aw__traces *traces, const struct aw_call *run,
                                         char *const *files, uint32_t count, struct aw_diag *diag);
void aw__traces_deinit(struct aw__traces *traces);

/* The request of --trace, or the slowest, built; good until the next is built. */
AW_NODISCARD enum aw_err aw__traces_choose(struct aw__traces *traces, const struct aw_call *run,
                                           struct aw_request *ret, struct aw_diag *diag);

/* "12.3 ms"; figures of a trace have one more digit than those of a day. Returns `buf`. */
const char *aw__ms_show(int64_t ns, char *buf, size_t size);
json_t *aw__counts_json(const struct aw_request_counts *counts);

extern const char *const aw__trace_formats[];
#define AW__TRACE_FORMAT                                                         \
    AW_OPTION(CHOICE, "format", 0, "FORMAT", "auto",                             \
              "auto: otlp, otlp-json, jaeger, zipkin or csv by the first bytes", \
              .choices = aw__trace_formats)
#define AW__TRACE_ID                        \
    AW_OPTION(TEXT, "trace", 0, "ID", NULL, \
              "the trace id or its first digits; without it, the slowest request")
#define AW__TRACE_FILES                                                                    \
    {                                                                                      \
        .name = "FILE", .kind = AW_ARG_FILE,                                               \
        .help = "spans: OTLP, Jaeger, Zipkin or CSV, gzipped or not; - is standard input", \
        .repeated = true                                                                   \
    }

#endif
