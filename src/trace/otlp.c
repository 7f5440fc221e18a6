/*
 * otlp.c - spans out of OTLP's protobuf (opentelemetry-proto, trace/v1/trace.proto).
 *
 * The wire types are read in place: a span has some ten attributes of which two or three matter
 * here, and unpacking all of them into blocks, as a general reader does, takes several times as
 * long as the rest of the way to the critical path. Fields come in any order; unknown ones are
 * skipped. Values of attributes are read one level deep only, so nesting costs nothing.
 */
#include <string.h>

#include "trace/read_internal.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* Field numbers. */
enum { REQUEST_RESOURCE_SPANS = 1 };
enum { RESOURCE_SPANS_RESOURCE = 1, RESOURCE_SPANS_SCOPES = 2 };
enum { RESOURCE_ATTRIBUTES = 1, SCOPE_SPANS = 2 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2, ANY_STRING = 1, ANY_INT = 3 };
enum { STATUS_CODE = 3, STATUS_CODE_ERROR = 2 };
enum {
    SPAN_TRACE_ID = 1,
    SPAN_ID = 2,
    SPAN_PARENT = 4,
    SPAN_NAME = 5,
    SPAN_KIND = 6,
    SPAN_START = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    SPAN_STATUS = 15,
};

struct wire {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    uint32_t type;
    uint64_t value;    /* of a varint or a fixed number */
    struct wire bytes; /* of WIRE_BYTES */
};

static inline bool varint(struct wire *in, uint64_t *ret)
{
    uint64_t value = 0;
    if (in->at < in->end && *in->at < 0x80) {
        *ret = *in->at++;
        return true;
    }
    for (uint32_t shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        const uint8_t byte = *in->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

/* The next field. False: nonsense; `in->at` is about where. Not to be called at the end. */
static inline bool next(struct wire *in, struct field *field)
{
    uint64_t key;
    field->value = 0;
    field->bytes = (struct wire){0};
    if (!varint(in, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return false;
    field->number = (uint32_t)(key >> 3);
    field->type = (uint32_t)(key & 7);
    const size_t left = (size_t)(in->end - in->at);
    switch (field->type) {
    case WIRE_VARINT:
        return varint(in, &field->value);
    case WIRE_64:
        if (left < 8)
            return false;
        memcpy(&field->value, in->at, 8); /* little-endian, as this machine is */
        in->at += 8;
        return true;
    case WIRE_32:
        if (left < 4)
            return false;
        in->at += 4;
        return true;
    case WIRE_BYTES:
        if (!varint(in, &field->value) || field->value > (uint64_t)(in->end - in->at))
            return false;
        field->bytes = (struct wire){in->at, in->at + field->value};
        in->at += field->value;
        return true;
    default: /* groups ended with proto2 */
        return false;
    }
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fixed64 is read as it lies");

static uint64_t big_endian(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap64(value);
}

/* One attribute, for its resource or its span. Returns where it made no sense; NULL: it did. */
static const uint8_t *attribute(struct wire in, struct aw_names *names, struct aw__origin *resource,
                                struct aw_span *span)
{
    struct field field;
    struct wire key = {0}, value = {0};
    while (in.at < in.end) {
        if (!next(&in, &field))
            return in.at;
        if (field.type == WIRE_BYTES && field.number == KEY_VALUE_KEY)
            key = field.bytes;
        else if (field.type == WIRE_BYTES && field.number == KEY_VALUE_VALUE)
            value = field.bytes;
    }
    while (value.at < value.end) {
        if (!next(&value, &field))
            return value.at;
        const char *name = (const char *)key.at;
        const size_t name_len = (size_t)(key.end - key.at);
        if (field.number == ANY_STRING && field.type == WIRE_BYTES) {
            const char *text = (const char *)field.bytes.at;
            const size_t text_len = (size_t)(field.bytes.end - field.bytes.at);
            if (resource)
                aw__origin_take(resource, names, name, name_len, text, text_len);
            else
                aw__span_take_text(span, names, name, name_len, text, text_len);
        } else if (field.number == ANY_INT && field.type == WIRE_VARINT && span) {
            aw__span_take_number(span, name, name_len, (int64_t)field.value);
        }
    }
    return NULL;
}

static const uint8_t *status(struct wire in, struct aw_span *span)
{
    struct field field;
    while (in.at < in.end) {
        if (!next(&in, &field))
            return in.at;
        if (field.number == STATUS_CODE && field.type == WIRE_VARINT)
            span->flags = field.value == STATUS_CODE_ERROR ? AW_SPAN_ERROR : 0;
    }
    return NULL;
}

/* A field with bytes in it. */
static const uint8_t *span_bytes(const struct field *field, struct aw_span *span, struct wire *name)
{
    const size_t len = (size_t)(field->bytes.end - field->bytes.at);
    switch (field->number) {
    case SPAN_TRACE_ID:
        if (len == 16) {
            span->trace_hi = big_endian(field->bytes.at);
            span->trace_lo = big_endian(field->bytes.at + 8);
        }
        return NULL;
    case SPAN_ID:
        span->id = len == 8 ? big_endian(field->bytes.at) : 0;
        return NULL;
    case SPAN_PARENT:
        span->parent = len == 8 ? big_endian(field->bytes.at) : 0;
        return NULL;
    case SPAN_NAME:
        *name = field->bytes;
        return NULL;
    case SPAN_STATUS:
        return status(field->bytes, span);
    default:
        return NULL;
    }
}

static const uint8_t *one_span(struct aw_spans *spans, struct wire in,
                               const struct aw__origin *resource)
{
    struct aw_span *span = aw_spans_push(spans);
    struct wire name = {0}, again = in;
    struct field field;
    const uint8_t *bad = NULL;
    if (!span)
        return NULL;
    span->service = resource->service;
    span->instance = resource->instance;
    while (in.at < in.end && !bad) {
        if (!next(&in, &field))
            return in.at;
        if (field.type == WIRE_BYTES && field.number != SPAN_ATTRIBUTES)
            bad = span_bytes(&field, span, &name);
        else if (field.type == WIRE_64 && field.number == SPAN_START)
            span->start_ns = (int64_t)field.value;
        else if (field.type == WIRE_64 && field.number == SPAN_END)
            span->end_ns = (int64_t)field.value;
        else if (field.type == WIRE_VARINT && field.number == SPAN_KIND)
            span->kind = field.value < AW_SPAN_KINDS ? (uint8_t)field.value : 0;
    }
    span->operation =
        aw_names_add(&spans->names, (const char *)name.at, (size_t)(name.end - name.at));
    while (again.at < again.end && !bad && next(&again, &field)) {
        if (field.type == WIRE_BYTES && field.number == SPAN_ATTRIBUTES)
            bad = attribute(field.bytes, &spans->names, NULL, span);
    }
    if (!span->start_ns || !span->end_ns) {
        span->flags |= AW_SPAN_UNTIMED;
        span->end_ns = span->start_ns = span->start_ns ? span->start_ns : span->end_ns;
    }
    aw_spans_judge(spans);
    return bad;
}

static const uint8_t *scope_spans(struct aw_spans *spans, struct wire in,
                                  const struct aw__origin *resource)
{
    struct field field;
    const uint8_t *bad = NULL;
    while (in.at < in.end && !bad) {
        if (!next(&in, &field))
            return in.at;
        if (field.number == SCOPE_SPANS && field.type == WIRE_BYTES)
            bad = one_span(spans, field.bytes, resource);
    }
    return bad;
}

static const uint8_t *resource_spans(struct aw_spans *spans, struct wire in)
{
    struct aw__origin resource = {0};
    struct field field, inner;
    struct wire again = in;
    const uint8_t *bad = NULL;
    while (in.at < in.end && !bad) { /* whose they are may stand behind them */
        if (!next(&in, &field))
            return in.at;
        if (field.number != RESOURCE_SPANS_RESOURCE || field.type != WIRE_BYTES)
            continue;
        while (field.bytes.at < field.bytes.end && !bad) {
            if (!next(&field.bytes, &inner))
                return field.bytes.at;
            if (inner.number == RESOURCE_ATTRIBUTES && inner.type == WIRE_BYTES)
                bad = attribute(inner.bytes, &spans->names, &resource, NULL);
        }
    }
    while (again.at < again.end && !bad && next(&again, &field)) {
        if (field.number == RESOURCE_SPANS_SCOPES && field.type == WIRE_BYTES)
            bad = scope_spans(spans, field.bytes, &resource);
    }
    return bad;
}

enum aw_err aw_spans_read_otlp(struct aw_spans *spans, const char *name, const void *bytes,
                               size_t size, struct aw_diag *diag)
{
    const uint8_t *begin = bytes;
    struct wire in = {begin, begin + size};
    const uint32_t count = spans->count;
    struct field field;
    const uint8_t *bad = NULL;
    while (in.at < in.end && !bad) {
        if (!next(&in, &field))
            bad = in.at;
        else if (field.number == REQUEST_RESOURCE_SPANS && field.type == WIRE_BYTES)
            bad = resource_spans(spans, field.bytes);
    }
    if (!bad)
        return AW_OK;
    spans->count = count;
    return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                      "expected OTLP's protobuf, found bytes that are none near byte %zu of %zu",
                      (size_t)(bad - begin), size);
}
