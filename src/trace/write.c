/* write.c - see write.h. */
#include "trace/write.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/json.h"

#define FIRST_ROOM 4096u

enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };

/* ---- protobuf ---- */

/* Room for `more`; false: none. */
static bool room_for(struct aw_bytes *out, size_t more)
{
    if (out->room - out->size >= more)
        return true;
    size_t room = out->room ? out->room : FIRST_ROOM;
    while (room - out->size < more && room < AW_BYTES_MAX)
        room *= 2;
    uint8_t *larger = room - out->size < more ? NULL : aw_alloc_new(out->alloc, room, 1);
    if (!larger)
        return false;
    if (out->size)
        memcpy(larger, out->bytes, out->size);
    aw_alloc_free(out->alloc, out->bytes);
    out->bytes = larger;
    out->room = room;
    return true;
}

static size_t varint(uint8_t *to, uint64_t value)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        to[size++] = (uint8_t)(value | 0x80);
    to[size++] = (uint8_t)value;
    return size;
}

static bool put_varint(struct aw_bytes *out, uint32_t field, uint64_t value)
{
    if (!room_for(out, 16))
        return false;
    out->size += varint(out->bytes + out->size, field << 3 | VARINT);
    out->size += varint(out->bytes + out->size, value);
    return true;
}

static bool put_fixed(struct aw_bytes *out, uint32_t field, uint64_t value)
{
    if (!room_for(out, 16))
        return false;
    out->size += varint(out->bytes + out->size, field << 3 | FIXED64);
    memcpy(out->bytes + out->size, &value, sizeof value);
    out->size += sizeof value;
    return true;
}

static bool put_bytes(struct aw_bytes *out, uint32_t field, const void *bytes, size_t size)
{
    if (!room_for(out, size + 16))
        return false;
    out->size += varint(out->bytes + out->size, field << 3 | BYTES);
    out->size += varint(out->bytes + out->size, size);
    if (size)
        memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
    return true;
}

/* A message within: begin remembers where, end puts its length in front. */
#define LENGTH_BYTES 5u
static bool begin(struct aw_bytes *out, uint32_t field, size_t *ret_at)
{
    if (!room_for(out, 16))
        return false;
    out->size += varint(out->bytes + out->size, field << 3 | BYTES);
    *ret_at = out->size;
    out->size += LENGTH_BYTES;
    return true;
}

/* Lengths are written in five bytes, which readers take as well as one: nothing has to move. */
static void end(struct aw_bytes *out, size_t at)
{
    uint64_t size = out->size - at - LENGTH_BYTES;
    for (uint32_t i = 0; i < LENGTH_BYTES; i++, size >>= 7)
        out->bytes[at + i] = (uint8_t)((size & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

static bool put_attribute(struct aw_bytes *out, uint32_t field, const char *key, const char *value)
{
    size_t attribute, any;
    if (!begin(out, field, &attribute) || !put_bytes(out, 1, key, strlen(key)) ||
        !begin(out, 2, &any) || !put_bytes(out, 1, value, strlen(value)))
        return false;
    end(out, any);
    end(out, attribute);
    return true;
}

static bool put_count(struct aw_bytes *out, uint32_t field, const char *key, uint32_t value)
{
    size_t attribute, any;
    if (!begin(out, field, &attribute) || !put_bytes(out, 1, key, strlen(key)) ||
        !begin(out, 2, &any) || !put_varint(out, 3, value))
        return false;
    end(out, any);
    end(out, attribute);
    return true;
}

static bool put_span(struct aw_bytes *out, const struct aw_span *span, const struct aw_names *names)
{
    uint64_t trace[2] = {__builtin_bswap64(span->trace_hi), __builtin_bswap64(span->trace_lo)};
    const uint64_t id = __builtin_bswap64(span->id), parent = __builtin_bswap64(span->parent);
    const char *name = aw_names_text(names, span->operation);
    size_t at, status;
    if (!begin(out, 2, &at) || !put_bytes(out, 1, trace, sizeof trace) ||
        !put_bytes(out, 2, &id, sizeof id) ||
        (span->parent && !put_bytes(out, 4, &parent, sizeof parent)) ||
        !put_bytes(out, 5, name, strlen(name)) || !put_varint(out, 6, span->kind) ||
        !put_fixed(out, 7, (uint64_t)span->start_ns) || !put_fixed(out, 8, (uint64_t)span->end_ns))
        return false;
    if (span->peer && !put_attribute(out, 9, "peer.service", aw_names_text(names, span->peer)))
        return false;
    if (span->resend && !put_count(out, 9, "http.request.resend_count", span->resend))
        return false;
    if (span->flags & AW_SPAN_ERROR) {
        if (!begin(out, 15, &status) || !put_varint(out, 3, 2))
            return false;
        end(out, status);
    }
    end(out, at);
    return true;
}

static bool put_resource(struct aw_bytes *out, const struct aw_span *span,
                         const struct aw_names *names)
{
    size_t resource;
    if (!begin(out, 1, &resource) ||
        !put_attribute(out, 1, "service.name", aw_names_text(names, span->service)) ||
        (span->instance &&
         !put_attribute(out, 1, "service.instance.id", aw_names_text(names, span->instance))))
        return false;
    end(out, resource);
    return true;
}

static bool same_resource(const struct aw_span *a, const struct aw_span *b)
{
    return a->service == b->service && a->instance == b->instance;
}

enum aw_err aw_spans_write_otlp(const struct aw_span *spans, uint32_t count,
                                const struct aw_names *names, struct aw_bytes *out)
{
    const size_t before = out->size;
    bool fits = true;
    for (uint32_t i = 0; i < count && fits;) {
        size_t all, scope;
        fits = begin(out, 1, &all) && put_resource(out, &spans[i], names) && begin(out, 2, &scope);
        const struct aw_span *first = &spans[i];
        for (; fits && i < count && same_resource(first, &spans[i]); i++)
            fits = put_span(out, &spans[i], names);
        if (fits) {
            end(out, scope);
            end(out, all);
        }
    }
    if (fits)
        return AW_OK;
    const enum aw_err err = out->room >= AW_BYTES_MAX ? AW_ERR_LIMIT : AW_ERR_NOMEM;
    out->size = before;
    return err;
}

/* ---- JSON ---- */

static json_t *attribute_json(const char *key, const char *value)
{
    return json_pack("{ss s{ss}}", "key", key, "value", "stringValue", value);
}

static json_t *span_json(const struct aw_span *span, const struct aw_names *names)
{
    char trace[AW_SPAN_TRACE_HEX], id[17], parent[17] = "", start[24], until[24];
    snprintf(id, sizeof id, "%016" PRIx64, span->id);
    if (span->parent)
        snprintf(parent, sizeof parent, "%016" PRIx64, span->parent);
    snprintf(start, sizeof start, "%" PRId64, span->start_ns);
    snprintf(until, sizeof until, "%" PRId64, span->end_ns);
    json_t *json = json_pack(
        "{ss ss ss ss si ss ss}", "traceId", aw_span_trace_text(span, trace, sizeof trace),
        "spanId", id, "parentSpanId", parent, "name", aw_names_text(names, span->operation), "kind",
        span->kind, "startTimeUnixNano", start, "endTimeUnixNano", until);
    json_t *attributes = json_array();
    if (span->peer)
        json_array_append_new(attributes,
                              attribute_json("peer.service", aw_names_text(names, span->peer)));
    if (span->resend)
        json_array_append_new(attributes,
                              json_pack("{ss s{si}}", "key", "http.request.resend_count", "value",
                                        "intValue", span->resend));
    if (json_array_size(attributes))
        json_object_set(json, "attributes", attributes);
    json_decref(attributes);
    if (span->flags & AW_SPAN_ERROR)
        json_object_set_new(json, "status", json_pack("{si}", "code", 2));
    return json;
}

enum aw_err aw_spans_write_json(const struct aw_span *spans, uint32_t count,
                                const struct aw_names *names, FILE *out)
{
    json_t *root = json_object(), *all = json_array();
    for (uint32_t i = 0; i < count;) {
        const struct aw_span *first = &spans[i];
        json_t *list = json_array(), *attributes = json_array();
        json_array_append_new(attributes,
                              attribute_json("service.name", aw_names_text(names, first->service)));
        if (first->instance)
            json_array_append_new(
                attributes,
                attribute_json("service.instance.id", aw_names_text(names, first->instance)));
        for (; i < count && same_resource(first, &spans[i]); i++)
            json_array_append_new(list, span_json(&spans[i], names));
        json_array_append_new(all, json_pack("{s{so} s[{so}]}", "resource", "attributes",
                                             attributes, "scopeSpans", "spans", list));
    }
    json_object_set_new(root, "resourceSpans", all);
    enum aw_err err = root && all ? aw_json_write(root, out, 0) : AW_ERR_NOMEM;
    json_decref(root);
    return err;
}
