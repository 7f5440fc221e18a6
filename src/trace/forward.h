/*
 * forward.h - messages of spans, passed on as they came to another OTLP receiver over HTTP, so that
 * the tool that people look at traces with (Jaeger, Tempo, a collector) stays where it is.
 *
 * Who sends spans to us never waits for that receiver: a message goes into a queue, and a thread
 * sends one after the other. 429, 502, 503, 504 and no answer at all: later once more (Retry-After,
 * else 1 s, doubling to 30 s), behind the others that wait. Any other status refuses the message.
 * Dropped is what finds no room in the queue, what failed AW_FORWARD_TRIES times while others
 * arrived, and what is tried for AW_FORWARD_OLD_US. All are counted. A try has 5 s, and a second
 * more for every MiB.
 *
 * Call order: new; put from any thread; end, for the last counts; free.
 * Memory:     AW_FORWARD_BYTES of messages at most.
 * Threads:    put, counts and trouble from any.
 */
#ifndef AW_TRACE_FORWARD_H
#define AW_TRACE_FORWARD_H

#include "base/file.h"
#include "trace/read.h"

#define AW_FORWARD_BYTES    ((size_t)32 << 20) /* of messages that wait */
#define AW_FORWARD_MESSAGES 4096u
#define AW_FORWARD_URL_MAX  1024u
#define AW_FORWARD_WHY_MAX  256u
#define AW_FORWARD_TRIES    8u
#define AW_FORWARD_OLD_US   INT64_C(3600000000)

struct aw_forward_config {
    const char *url; /* as OTEL_EXPORTER_OTLP_ENDPOINT: without a path, /v1/traces is added */
    char token[AW_TOKEN_MAX]; /* "": none */
    int64_t again_us;         /* before the second try; 0: 1 s */
};

struct aw_forward_counts {
    uint64_t sent, refused, dropped; /* messages */
    uint64_t tried_again;
    uint32_t waiting;
};

struct aw_forward;
/* AW_ERR_USAGE: not a URL of http or https. AW_ERR_NOMEM, AW_ERR_UNAVAILABLE. */
AW_NODISCARD enum aw_err aw_forward_new(struct aw_forward **ret,
                                        const struct aw_forward_config *config,
                                        struct aw_diag *diag);
void aw_forward_free(struct aw_forward *forward); /* NULL is a no-op */
/* Tries what still waits for up to 2 s, and a try under way ends at most 1 s later; the rest is
 * dropped. What came of it all. */
void aw_forward_end(struct aw_forward *forward, struct aw_forward_counts *ret);
/* Copies `bytes`: OTLP as protobuf, or as JSON. */
void aw_forward_put(struct aw_forward *forward, const char *bytes, size_t size,
                    enum aw_span_format format);
void aw_forward_counts(struct aw_forward *forward, struct aw_forward_counts *ret);
/* Why messages do not arrive, once for every time that it begins. False: nothing new. */
bool aw_forward_trouble(struct aw_forward *forward, char ret[AW_FORWARD_WHY_MAX]);

#endif
