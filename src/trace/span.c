/* span.c - see span.h. */
#include "trace/span.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIRST_ROOM 1024u

const char *aw_span_kind_name(enum aw_span_kind kind)
{
    static const char *const names[AW_SPAN_KINDS] = {"",       "internal", "server",
                                                     "client", "producer", "consumer"};
    AW_ASSERT(kind < AW_SPAN_KINDS);
    return names[kind];
}

enum aw_err aw_spans_init(struct aw_spans *spans, uint32_t max, const struct aw_alloc *alloc)
{
    AW_ASSERT(max > 0 && max <= AW_SPANS_MAX);
    *spans = (struct aw_spans){.max = max, .alloc = alloc};
    return aw_names_init(&spans->names, alloc);
}

void aw_spans_deinit(struct aw_spans *spans)
{
    aw_names_deinit(&spans->names);
    aw_alloc_free(spans->alloc, spans->at);
    *spans = (struct aw_spans){0};
}

void aw_spans_reset(struct aw_spans *spans)
{
    spans->count = 0;
    spans->dropped = spans->refused = 0;
}

static bool grow(struct aw_spans *spans)
{
    uint32_t room = spans->room ? spans->room * 2 : FIRST_ROOM;
    room = room < spans->max ? room : spans->max;
    if (room <= spans->count)
        return false;
    struct aw_span *larger = aw_alloc_new(spans->alloc, room, sizeof *larger);
    if (!larger)
        return false;
    if (spans->count)
        memcpy(larger, spans->at, spans->count * sizeof *larger);
    aw_alloc_free(spans->alloc, spans->at);
    spans->at = larger;
    spans->room = room;
    return true;
}

struct aw_span *aw_spans_push(struct aw_spans *spans)
{
    if (spans->count == spans->room && !grow(spans)) {
        spans->dropped++;
        return NULL;
    }
    struct aw_span *span = &spans->at[spans->count++];
    *span = (struct aw_span){0};
    return span;
}

void aw_spans_judge(struct aw_spans *spans)
{
    struct aw_span *span = &spans->at[spans->count - 1];
    AW_ASSERT(spans->count > 0);
    if (!span->service) /* what OpenTelemetry calls it; a graph has no nameless nodes */
        span->service = aw_names_add(&spans->names, "unknown_service", 15);
    if (!(span->trace_hi | span->trace_lo) || !span->id || span->end_ns < span->start_ns ||
        span->start_ns < 0 || span->id == span->parent * !(span->flags & AW_SPAN_SHARED)) {
        spans->count--;
        spans->refused++;
    }
}

bool aw_span_hex_parse(const char *text, size_t len, uint64_t *ret_hi, uint64_t *ret_lo)
{
    uint64_t hi = 0, lo = 0;
    if (len < 1 || len > 32)
        return false;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (c | 0x20u) - 'a' + 10u;
        else
            return false;
        hi = hi << 4 | lo >> 60;
        lo = lo << 4 | digit;
    }
    *ret_hi = hi;
    *ret_lo = lo;
    return true;
}

const char *aw_span_trace_text(const struct aw_span *span, char *buf, size_t size)
{
    snprintf(buf, size, "%016" PRIx64 "%016" PRIx64, span->trace_hi, span->trace_lo);
    return buf;
}

/* What Kubernetes makes names of: no vowels, and digits (older versions: all of them). */
static bool is_random(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr("bcdfghjklmnpqrstvwxz0123456789", at[i]) || !at[i])
            return false;
    return len > 0;
}

/* Letters and digits; at least `digits` of these. */
static bool is_mixed(const char *at, size_t len, size_t digits)
{
    size_t found = 0;
    for (size_t i = 0; i < len; i++) {
        const bool digit = at[i] >= '0' && at[i] <= '9';
        if (!digit && (at[i] < 'a' || at[i] > 'z'))
            return false;
        found += digit;
    }
    return found >= digits;
}

static size_t part_start(const char *pod, size_t end)
{
    while (end > 0 && pod[end - 1] != '-')
        end--;
    return end;
}

size_t aw_span_pod_service(const char *pod, size_t len, bool by_parts)
{
    const size_t last = part_start(pod, len), last_len = len - last;
    bool number = last_len > 0 && last_len <= 4;
    if (last < 2)
        return len;
    const size_t hash = part_start(pod, last - 1), hash_len = last - 1 - hash;
    const char *a = pod + hash, *b = pod + last;
    if (by_parts)
        return hash >= 2 ? hash - 1 : len;
    if (hash >= 2 && hash_len >= 5 && hash_len <= 10 && last_len >= 4 && last_len <= 6 &&
        ((is_random(a, hash_len) && is_random(b, last_len)) ||
         (is_mixed(a, hash_len, 1) && is_mixed(b, last_len, 0))))
        return hash - 1;
    for (size_t i = 0; i < last_len; i++)
        number = number && b[i] >= '0' && b[i] <= '9';
    if (number || (last_len == 5 && is_random(b, last_len)))
        return last - 1;
    return len;
}
