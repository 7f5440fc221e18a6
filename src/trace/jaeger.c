/*
 * jaeger.c - spans out of what Jaeger's query service answers (/api/traces), and its UI saves.
 *
 * The parent is the CHILD_OF reference to the same trace; where there is none, FOLLOWS_FROM
 * (jaeger#4382), whose parent does not wait. Old data has `parentSpanID`.
 */
#include <stdio.h>
#include <string.h>

#include "trace/read_internal.h"

#define NS_PER_US 1000

struct jaeger {
    struct aw_spans *spans;
    const struct aw__value_place *place;
    struct aw_diag *diag;
    size_t trace, span;
};

static enum aw_err refuse(const struct jaeger *jaeger, const char *key, const char *expected,
                          const json_t *found)
{
    char path[AW_DIAG_KEY_MAX];
    snprintf(path, sizeof path, "data[%zu].spans[%zu].%s", jaeger->trace, jaeger->span, key);
    return aw__value_refuse(jaeger->diag, jaeger->place, path, expected, found);
}

static bool references(const json_t *value, struct aw_span *span)
{
    const json_t *reference;
    size_t i, len;
    bool child_of = false;
    json_array_foreach(value, i, reference)
    {
        uint64_t hi, lo, none, id;
        const char *type = aw__value_text(json_object_get(reference, "refType"), &len);
        if (!aw__value_id(json_object_get(reference, "traceID"), &hi, &lo) ||
            !aw__value_id(json_object_get(reference, "spanID"), &none, &id) || none)
            return false;
        const bool child = !strcmp(type, "CHILD_OF");
        if (child_of || !id || hi != span->trace_hi || lo != span->trace_lo ||
            (span->parent && !child))
            continue;
        span->parent = id;
        span->flags =
            (uint8_t)(child ? span->flags & ~AW_SPAN_FOLLOWS : span->flags | AW_SPAN_FOLLOWS);
        child_of = child;
    }
    return true;
}

static void tags(struct jaeger *jaeger, const json_t *list, struct aw_span *span)
{
    static const char *const kinds[AW_SPAN_KINDS] = {"",       "internal", "server",
                                                     "client", "producer", "consumer"};
    struct aw_names *names = &jaeger->spans->names;
    const json_t *tag;
    size_t i, key_len, len;
    json_array_foreach(list, i, tag)
    { /* the kind first: it decides what others mean */
        const char *key = aw__value_text(json_object_get(tag, "key"), &key_len);
        const char *text = aw__value_text(json_object_get(tag, "value"), &len);
        for (uint8_t kind = 1; !strcmp(key, "span.kind") && kind < AW_SPAN_KINDS; kind++)
            span->kind = !strcmp(text, kinds[kind]) ? kind : span->kind;
    }
    json_array_foreach(list, i, tag)
    {
        const char *key = aw__value_text(json_object_get(tag, "key"), &key_len);
        const json_t *value = json_object_get(tag, "value");
        const char *text = aw__value_text(value, &len);
        int64_t number = 0;
        if (!strcmp(key, "error") && (json_is_true(value) || !strcmp(text, "true")))
            span->flags |= AW_SPAN_ERROR;
        else if (len)
            aw__span_take_text(span, names, key, key_len, text, len);
        else if (json_is_integer(value) && aw__value_whole(value, &number))
            aw__span_take_number(span, key, key_len, number);
    }
}

static void process(struct jaeger *jaeger, const json_t *processes, const json_t *id,
                    const json_t *own, struct aw_span *span)
{
    struct aw_names *names = &jaeger->spans->names;
    struct aw__origin resource = {0};
    const json_t *tag;
    size_t i, key_len, len;
    const char *key = aw__value_text(id, &len);
    const json_t *value = own ? own : json_object_get(processes, key);
    const char *service = aw__value_text(json_object_get(value, "serviceName"), &len);
    resource.service = aw_names_add(names, service, len);
    json_array_foreach(json_object_get(value, "tags"), i, tag)
    {
        key = aw__value_text(json_object_get(tag, "key"), &key_len);
        const char *text = aw__value_text(json_object_get(tag, "value"), &len);
        if (!strcmp(key, "hostname")) /* Jaeger's own clients */
            aw__origin_take(&resource, names, "host.name", 9, text, len);
        else if (strcmp(key, "service.name") != 0)
            aw__origin_take(&resource, names, key, key_len, text, len);
    }
    span->service = resource.service;
    span->instance = resource.instance;
}

static enum aw_err one_span(struct jaeger *jaeger, const json_t *value, const json_t *processes)
{
    uint64_t none = 0;
    int64_t start_us = 0, duration_us = 0;
    size_t len;
    if (!json_is_object(value))
        return refuse(jaeger, "", "a span", value);
    struct aw_span *span = aw_spans_push(jaeger->spans);
    if (!span)
        return AW_OK;
    const json_t *trace = json_object_get(value, "traceID"), *id = json_object_get(value, "spanID");
    const json_t *start = json_object_get(value, "startTime");
    const json_t *duration = json_object_get(value, "duration");
    const json_t *parent = json_object_get(value, "parentSpanID");
    if (!aw__value_id(trace, &span->trace_hi, &span->trace_lo))
        return refuse(jaeger, "traceID", "hexadecimal digits", trace);
    if (!aw__value_id(id, &none, &span->id) || none)
        return refuse(jaeger, "spanID", "16 hexadecimal digits", id);
    if (!aw__value_id(parent, &none, &span->parent) || none)
        return refuse(jaeger, "parentSpanID", "16 hexadecimal digits", parent);
    if (!aw__value_whole(start, &start_us) || start_us < 0 || start_us > INT64_MAX / 2 / NS_PER_US)
        return refuse(jaeger, "startTime", "microseconds since 1970", start);
    if (!aw__value_whole(duration, &duration_us) || duration_us < 0 ||
        duration_us > INT64_MAX / 2 / NS_PER_US)
        return refuse(jaeger, "duration", "microseconds", duration);
    if (!references(json_object_get(value, "references"), span))
        return refuse(jaeger, "references", "ids in hexadecimal", NULL);
    span->start_ns = start_us * NS_PER_US;
    span->end_ns = span->start_ns + duration_us * NS_PER_US;
    const char *name = aw__value_text(json_object_get(value, "operationName"), &len);
    span->operation = aw_names_add(&jaeger->spans->names, name, len);
    process(jaeger, processes, json_object_get(value, "processID"),
            json_object_get(value, "process"), span);
    tags(jaeger, json_object_get(value, "tags"), span);
    aw_spans_judge(jaeger->spans);
    return AW_OK;
}

static enum aw_err one_trace(struct jaeger *jaeger, const json_t *value)
{
    const json_t *spans = json_object_get(value, "spans"), *span;
    const json_t *processes = json_object_get(value, "processes");
    enum aw_err err = AW_OK;
    if (!json_is_array(spans)) {
        char path[AW_DIAG_KEY_MAX];
        snprintf(path, sizeof path, "data[%zu].spans", jaeger->trace);
        return aw__value_refuse(jaeger->diag, jaeger->place, path, "a list of spans", spans);
    }
    json_array_foreach(spans, jaeger->span, span)
    {
        if ((err = one_span(jaeger, span, processes)))
            return err;
    }
    return AW_OK;
}

enum aw_err aw__jaeger_json(struct aw_spans *spans, const json_t *value,
                            const struct aw__value_place *place, struct aw_diag *diag)
{
    struct jaeger jaeger = {.spans = spans, .place = place, .diag = diag};
    const json_t *data = json_is_array(value) ? value : json_object_get(value, "data"), *trace;
    enum aw_err err = AW_OK;
    if (!data)
        return one_trace(&jaeger, value);
    if (!json_is_array(data))
        return aw__value_refuse(diag, place, "data", "a list of traces", data);
    json_array_foreach(data, jaeger.trace, trace)
    {
        if ((err = one_trace(&jaeger, trace)))
            return err;
    }
    return AW_OK;
}
