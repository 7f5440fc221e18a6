/*
 * otlp_json.c - spans out of OTLP's JSON: ids are hexadecimal, enumerations are numbers, 64-bit
 * numbers are texts or numbers. Senders that write the names of enumerations ("SPAN_KIND_SERVER"),
 * as protobuf's own JSON has them, are understood too, as is Tempo's `batches`.
 */
#include <stdio.h>
#include <string.h>

#include "trace/read_internal.h"

struct otlp {
    struct aw_spans *spans;
    const struct aw__value_place *place;
    struct aw_diag *diag;
    size_t resource, scope, span; /* where we are, for diagnostics */
    const char *scopes_key, *resources_key;
};

static enum aw_err refuse(const struct otlp *otlp, const char *key, const char *expected,
                          const json_t *found)
{
    char path[AW_DIAG_KEY_MAX];
    snprintf(path, sizeof path, "%s[%zu].%s[%zu].spans[%zu].%s", otlp->resources_key,
             otlp->resource, otlp->scopes_key, otlp->scope, otlp->span, key);
    return aw__value_refuse(otlp->diag, otlp->place, path, expected, found);
}

/* The first of two spellings that is there. */
static const json_t *either(const json_t *object, const char *now, const char *before,
                            const char **ret_key)
{
    const json_t *value = json_object_get(object, now);
    *ret_key = value ? now : before;
    if (!value)
        value = json_object_get(object, before);
    *ret_key = value ? *ret_key : now;
    return value;
}

static uint8_t kind_of(const json_t *value)
{
    static const char *const names[AW_SPAN_KINDS] = {"SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL",
                                                     "SPAN_KIND_SERVER",      "SPAN_KIND_CLIENT",
                                                     "SPAN_KIND_PRODUCER",    "SPAN_KIND_CONSUMER"};
    size_t len;
    int64_t number = 0;
    const char *text = aw__value_text(value, &len);
    for (uint8_t i = 0; len && i < AW_SPAN_KINDS; i++) {
        if (!strcmp(text, names[i]))
            return i;
    }
    if (!aw__value_whole(value, &number) || number < 0 || number >= AW_SPAN_KINDS)
        return AW_SPAN_UNSPECIFIED;
    return (uint8_t)number;
}

static bool failed(const json_t *status)
{
    const json_t *code = json_object_get(status, "code");
    int64_t number = 0;
    size_t len;
    const char *text = aw__value_text(code, &len);
    if (len && !strcmp(text, "STATUS_CODE_ERROR"))
        return true;
    return aw__value_whole(code, &number) && number == 2;
}

static void take_attributes(struct otlp *otlp, const json_t *attributes,
                            struct aw__origin *resource, struct aw_span *span)
{
    const json_t *attribute;
    size_t i;
    json_array_foreach(attributes, i, attribute)
    {
        size_t key_len, len;
        const char *key = aw__value_text(json_object_get(attribute, "key"), &key_len);
        const json_t *value = json_object_get(attribute, "value");
        const char *text = aw__value_text(json_object_get(value, "stringValue"), &len);
        int64_t number = 0;
        if (resource && len)
            aw__origin_take(resource, &otlp->spans->names, key, key_len, text, len);
        else if (span && len)
            aw__span_take_text(span, &otlp->spans->names, key, key_len, text, len);
        else if (span && aw__value_whole(json_object_get(value, "intValue"), &number))
            aw__span_take_number(span, key, key_len, number);
    }
}

static enum aw_err one_span(struct otlp *otlp, const json_t *value,
                            const struct aw__origin *resource)
{
    uint64_t none = 0;
    size_t len;
    if (!json_is_object(value))
        return refuse(otlp, "", "a span", value);
    struct aw_span *span = aw_spans_push(otlp->spans);
    if (!span)
        return AW_OK;
    const json_t *trace = json_object_get(value, "traceId"), *id = json_object_get(value, "spanId");
    const json_t *parent = json_object_get(value, "parentSpanId");
    const json_t *start = json_object_get(value, "startTimeUnixNano");
    const json_t *end = json_object_get(value, "endTimeUnixNano");
    if (!aw__value_id(trace, &span->trace_hi, &span->trace_lo))
        return refuse(otlp, "traceId", "32 hexadecimal digits", trace);
    if (!aw__value_id(id, &none, &span->id) || none)
        return refuse(otlp, "spanId", "16 hexadecimal digits", id);
    if (!aw__value_id(parent, &none, &span->parent) || none)
        return refuse(otlp, "parentSpanId", "16 hexadecimal digits", parent);
    if (!aw__value_whole(start, &span->start_ns))
        return refuse(otlp, "startTimeUnixNano", "nanoseconds since 1970", start);
    if (!aw__value_whole(end, &span->end_ns))
        return refuse(otlp, "endTimeUnixNano", "nanoseconds since 1970", end);
    const char *name = aw__value_text(json_object_get(value, "name"), &len);
    span->operation = aw_names_add(&otlp->spans->names, name, len);
    span->kind = kind_of(json_object_get(value, "kind"));
    span->flags = failed(json_object_get(value, "status")) ? AW_SPAN_ERROR : 0;
    span->service = resource->service;
    span->instance = resource->instance;
    take_attributes(otlp, json_object_get(value, "attributes"), NULL, span);
    if (!span->start_ns || !span->end_ns) {
        span->flags |= AW_SPAN_UNTIMED;
        span->end_ns = span->start_ns = span->start_ns ? span->start_ns : span->end_ns;
    }
    aw_spans_judge(otlp->spans);
    return AW_OK;
}

static enum aw_err resource_spans(struct otlp *otlp, const json_t *value)
{
    struct aw__origin resource = {0};
    const json_t *scope, *span;
    enum aw_err err = AW_OK;
    const json_t *scopes =
        either(value, "scopeSpans", "instrumentationLibrarySpans", &otlp->scopes_key);
    take_attributes(otlp, json_object_get(json_object_get(value, "resource"), "attributes"),
                    &resource, NULL);
    if (scopes && !json_is_array(scopes))
        return aw__value_refuse(otlp->diag, otlp->place, otlp->scopes_key, "a list", scopes);
    json_array_foreach(scopes, otlp->scope, scope)
    {
        const json_t *spans = json_object_get(scope, "spans");
        if (spans && !json_is_array(spans))
            return aw__value_refuse(otlp->diag, otlp->place, "spans", "a list", spans);
        json_array_foreach(spans, otlp->span, span)
        {
            if ((err = one_span(otlp, span, &resource)))
                return err;
        }
    }
    return AW_OK;
}

enum aw_err aw__otlp_json(struct aw_spans *spans, const json_t *value,
                          const struct aw__value_place *place, struct aw_diag *diag)
{
    struct otlp otlp = {.spans = spans, .place = place, .diag = diag};
    const json_t *all = either(value, "resourceSpans", "batches", &otlp.resources_key);
    const json_t *inner = json_object_get(value, "trace"); /* Tempo, v2 */
    const json_t *one;
    enum aw_err err = AW_OK;
    if (!all && inner)
        all = either(inner, "resourceSpans", "batches", &otlp.resources_key);
    if (all && !json_is_array(all))
        return aw__value_refuse(diag, place, otlp.resources_key, "a list", all);
    json_array_foreach(all, otlp.resource, one)
    {
        if ((err = resource_spans(&otlp, one)))
            return err;
    }
    return AW_OK;
}
