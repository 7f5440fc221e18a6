/*
 * span.h - one span, as every reader makes it, and a list of them that grows up to a maximum.
 *
 * A span is one operation of one instance of a service. Its times are what its sender said and are
 * never changed; what has to be moved or cut to make sense beside others is moved in the tree that
 * stands on them (request.h).
 *
 * Call order: aw_spans_init; readers (read.h) push; aw_spans_deinit.
 * Memory:     the list doubles up to `max` spans; beyond, they are counted as dropped.
 * Threads:    single owner.
 */
#ifndef AW_TRACE_SPAN_H
#define AW_TRACE_SPAN_H

#include "trace/names.h"

enum aw_span_kind { /* numbers of OTLP */
                    AW_SPAN_UNSPECIFIED,
                    AW_SPAN_INTERNAL,
                    AW_SPAN_SERVER,
                    AW_SPAN_CLIENT,
                    AW_SPAN_PRODUCER,
                    AW_SPAN_CONSUMER,
                    AW_SPAN_KINDS
};
const char *aw_span_kind_name(enum aw_span_kind kind); /* "server"; "" for unspecified */

enum {
    AW_SPAN_ERROR = 1,   /* its status says that it failed */
    AW_SPAN_FOLLOWS = 2, /* FOLLOWS_FROM: its parent does not wait for it */
    AW_SPAN_SHARED = 4,  /* Zipkin: the server's half of an id that the client's half has too */
    AW_SPAN_UNTIMED = 8, /* its sender gave no start or no end: it has no length */
};

struct aw_span {
    uint64_t trace_hi, trace_lo;
    uint64_t id, parent;      /* parent 0: a root */
    int64_t start_ns, end_ns; /* since 1970, by the clock of its instance; end >= start */
    uint32_t service, instance, operation; /* names */
    uint32_t peer; /* whom a client span calls, where it says so; AW_NAME_NONE */
    uint8_t kind;  /* enum aw_span_kind */
    uint8_t flags;
    uint16_t resend; /* of how many attempts before this one; 0: the first, or not said */
};

#define AW_SPANS_MAX (8u << 20) /* of one list: 640 MB */

struct aw_spans {
    struct aw_span *at; /* [count] */
    uint32_t count, room, max;
    uint64_t dropped; /* beyond `max`, or out of memory */
    uint64_t refused; /* without an id, or that end before they begin */
    struct aw_names names;
    const struct aw_alloc *alloc;
};

/* AW_ERR_NOMEM: `spans` is left zeroed. */
AW_NODISCARD enum aw_err aw_spans_init(struct aw_spans *spans, uint32_t max,
                                       const struct aw_alloc *alloc);
void aw_spans_deinit(struct aw_spans *spans); /* zeroed is a no-op */
/* Forgets the spans and counters, keeps names and memory. */
void aw_spans_reset(struct aw_spans *spans);

/* A zeroed span at the end of the list, or NULL, and then it is counted as dropped. */
struct aw_span *aw_spans_push(struct aw_spans *spans);
/* Takes the last one back if it cannot be used: no trace id, no id, ends before it begins. One
 * without a service is of "unknown_service". */
void aw_spans_judge(struct aw_spans *spans);

/* 1 to 32 digits of either case as the two halves of a trace id. False: something else. */
bool aw_span_hex_parse(const char *text, size_t len, uint64_t *ret_hi, uint64_t *ret_lo);
#define AW_SPAN_TRACE_HEX 33u /* bytes of a trace id as text, with its NUL */
const char *aw_span_trace_text(const struct aw_span *span, char *buf, size_t size);

/* The service of a pod: its name without what its controller added, known by its form: two parts
 * of a Deployment ("orders-6f6cfc45b-h5m2n"), one of a DaemonSet ("orders-h5m2n") or a StatefulSet
 * ("orders-0"). Any other name is the service's own. `by_parts`: the name without its last two
 * parts, whatever they look like; a name of fewer is the service's own. */
size_t aw_span_pod_service(const char *pod, size_t len, bool by_parts);

#endif
