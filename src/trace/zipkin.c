/*
 * zipkin.c - spans out of Zipkin's JSON, version 2: a list of spans (or several lists in a row, or
 * a list of lists, as /api/v2/traces answers).
 *
 * Client and server may share one id (`shared` on the server's half): both are kept, and request.c
 * puts the server's half below the client's. Times in microseconds; either may be missing.
 */
#include <stdio.h>
#include <string.h>

#include "trace/read_internal.h"

#define NS_PER_US 1000
#define US_MAX    (INT64_MAX / 2 / NS_PER_US)

struct zipkin {
    struct aw_spans *spans;
    const struct aw__value_place *place;
    struct aw_diag *diag;
    size_t index;
};

static enum aw_err refuse(const struct zipkin *zipkin, const char *key, const char *expected,
                          const json_t *found)
{
    char path[AW_DIAG_KEY_MAX];
    snprintf(path, sizeof path, "[%zu].%s", zipkin->index, key);
    return aw__value_refuse(zipkin->diag, zipkin->place, path, expected, found);
}

static uint8_t kind_of(const json_t *value)
{
    static const char *const names[AW_SPAN_KINDS] = {"",       "INTERNAL", "SERVER",
                                                     "CLIENT", "PRODUCER", "CONSUMER"};
    size_t len;
    const char *text = aw__value_text(value, &len);
    for (uint8_t i = 1; len && i < AW_SPAN_KINDS; i++) {
        if (!strcmp(text, names[i]))
            return i;
    }
    return AW_SPAN_UNSPECIFIED;
}

static void endpoints(struct zipkin *zipkin, const json_t *value, struct aw_span *span)
{
    struct aw_names *names = &zipkin->spans->names;
    const json_t *local = json_object_get(value, "localEndpoint");
    const json_t *remote = json_object_get(value, "remoteEndpoint");
    size_t len, host_len;
    char instance[128];
    const char *text = aw__value_text(json_object_get(local, "serviceName"), &len);
    const char *host = aw__value_text(json_object_get(local, "ipv4"), &host_len);
    span->service = aw_names_add(names, text, len);
    if (!host_len)
        host = aw__value_text(json_object_get(local, "ipv6"), &host_len);
    const json_t *port = json_object_get(local, "port");
    const int used = json_is_integer(port) ? snprintf(instance, sizeof instance, "%s:%jd", host,
                                                      (intmax_t)json_integer_value(port))
                                           : snprintf(instance, sizeof instance, "%s", host);
    if (host_len && used > 0)
        span->instance = aw_names_add(names, instance, strlen(instance));
    text = aw__value_text(json_object_get(remote, "serviceName"), &len);
    if (span->kind == AW_SPAN_CLIENT || span->kind == AW_SPAN_PRODUCER)
        span->peer = aw_names_add(names, text, len);
}

static void tags(struct zipkin *zipkin, const json_t *value, struct aw_span *span)
{
    const char *key;
    json_t *tag;
    json_t *all = json_object_get(value, "tags"); /* jansson iterates over what is not const */
    json_object_foreach(all, key, tag)
    {
        size_t len;
        const char *text = aw__value_text(tag, &len);
        if (!strcmp(key, "error"))
            span->flags |= AW_SPAN_ERROR;
        else if (len)
            aw__span_take_text(span, &zipkin->spans->names, key, strlen(key), text, len);
    }
}

static enum aw_err one_span(struct zipkin *zipkin, const json_t *value)
{
    uint64_t none = 0;
    int64_t start_us = 0, duration_us = 0;
    size_t len;
    if (!json_is_object(value))
        return refuse(zipkin, "", "a span", value);
    struct aw_span *span = aw_spans_push(zipkin->spans);
    if (!span)
        return AW_OK;
    const json_t *trace = json_object_get(value, "traceId"), *id = json_object_get(value, "id");
    const json_t *parent = json_object_get(value, "parentId");
    const json_t *start = json_object_get(value, "timestamp");
    const json_t *duration = json_object_get(value, "duration");
    if (!aw__value_id(trace, &span->trace_hi, &span->trace_lo))
        return refuse(zipkin, "traceId", "16 or 32 hexadecimal digits", trace);
    if (!aw__value_id(id, &none, &span->id) || none)
        return refuse(zipkin, "id", "16 hexadecimal digits", id);
    if (!aw__value_id(parent, &none, &span->parent) || none)
        return refuse(zipkin, "parentId", "16 hexadecimal digits", parent);
    if (!aw__value_whole(start, &start_us) || start_us < 0 || start_us > US_MAX)
        return refuse(zipkin, "timestamp", "microseconds since 1970", start);
    if (!aw__value_whole(duration, &duration_us) || duration_us < 0 || duration_us > US_MAX)
        return refuse(zipkin, "duration", "microseconds", duration);
    span->start_ns = start_us * NS_PER_US;
    span->end_ns = span->start_ns + duration_us * NS_PER_US;
    span->kind = kind_of(json_object_get(value, "kind"));
    if (!start_us || !duration_us)
        span->flags |= AW_SPAN_UNTIMED;
    if (json_is_true(json_object_get(value, "shared")) && span->kind == AW_SPAN_SERVER)
        span->flags |= AW_SPAN_SHARED;
    const char *name = aw__value_text(json_object_get(value, "name"), &len);
    span->operation = aw_names_add(&zipkin->spans->names, name, len);
    endpoints(zipkin, value, span);
    tags(zipkin, value, span);
    aw_spans_judge(zipkin->spans);
    return AW_OK;
}

enum aw_err aw__zipkin_json(struct aw_spans *spans, const json_t *value,
                            const struct aw__value_place *place, struct aw_diag *diag)
{
    struct zipkin zipkin = {.spans = spans, .place = place, .diag = diag};
    const json_t *one, *inner;
    enum aw_err err = AW_OK;
    size_t i;
    if (!json_is_array(value))
        return aw__value_refuse(diag, place, NULL, "a list of spans", value);
    json_array_foreach(value, zipkin.index, one)
    {
        if (!json_is_array(one)) {
            if ((err = one_span(&zipkin, one)))
                return err;
            continue;
        }
        json_array_foreach(one, i, inner)
        {
            if ((err = one_span(&zipkin, inner)))
                return err;
        }
    }
    return AW_OK;
}
