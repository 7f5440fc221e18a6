/* envelope.c - heads of saved bytes: written, read, refused with a sentence. */
#include "base/envelope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/hash.h"

/* The end of line is there to be broken by a transfer as text. */
static const char mark[8] = {'A', 'W', 'A', 'R', 'E', '\r', '\n', 1};

/* --- layouts ---------------------------------------------------------------------------------- */

/* Where aw_layout_tables collects what a layout mixes; NULL: nobody asks. */
static _Thread_local struct collected {
    struct aw_layout_table *tables;
    uint32_t count, max;
} * collected;

uint64_t aw_layout_mix(uint64_t hash, const struct aw_member *members, size_t count, size_t bytes)
{
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aw_member *member = &members[i];
        end = (end + member->align - 1) / member->align * member->align;
        AW_ASSERT(member->offset == end); /* every member is named, and in order */
        end += member->bytes;
        const uint32_t place[] = {member->offset, member->bytes, (unsigned char)member->type};
        hash = aw_hash_byte(aw_hash_text(hash, member->name), 0);
        hash = aw_hash_bytes(hash, place, sizeof place);
    }
    AW_ASSERT(end <= bytes);
    if (collected && collected->count++ < collected->max)
        collected->tables[collected->count - 1] =
            (struct aw_layout_table){members, (uint32_t)count, (uint32_t)bytes};
    return aw_hash_bytes(hash, &bytes, sizeof bytes);
}

uint32_t aw_layout_tables(aw_layout *layout, struct aw_layout_table *ret, uint32_t max)
{
    struct collected into = {.tables = ret, .max = max};
    collected = &into;
    (void)layout(AW_HASH_BEGIN);
    collected = NULL;
    return into.count;
}

static uint64_t layout_of(struct aw_format *format)
{
    uint64_t hash = atomic_load_explicit(&format->layout_hash, memory_order_relaxed);
    if (hash)
        return hash;
    hash = AW_HASH_BEGIN;
    for (uint32_t i = 0; i < AW_FORMAT_LAYOUTS_MAX && format->layout[i]; i++)
        hash = format->layout[i](hash);
    atomic_store_explicit(&format->layout_hash, hash, memory_order_relaxed);
    return hash;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static uint32_t crc_of(uint32_t version, const void *bytes, size_t size)
{
    const size_t from = offsetof(struct aw_envelope, kind);
    return aw_crc32c(version, (const unsigned char *)bytes + from, size - from);
}

void aw_envelope_seal(struct aw_format *format, uint64_t owner, void *bytes, size_t size)
{
    struct aw_envelope head = {.version = format->version,
                               .layout = layout_of(format),
                               .owner = owner,
                               .bytes = size - sizeof head};
    AW_ASSERT(size >= sizeof head);
    memcpy(head.mark, mark, sizeof mark);
    memcpy(head.kind, format->kind, sizeof head.kind);
    memcpy(bytes, &head, sizeof head);
    head.crc = crc_of(head.version, bytes, size);
    memcpy((unsigned char *)bytes + offsetof(struct aw_envelope, crc), &head.crc, sizeof head.crc);
}

static const struct aw_format_past *past_of(const struct aw_format *format, uint32_t version)
{
    for (uint32_t i = 0; i < format->past_count; i++)
        if (format->past[i].version == version)
            return &format->past[i];
    return NULL;
}

/* What is wrong is found in the order in which the rest can be believed. `ret_past` gets the way on
 * from an older version, NULL from the present one; where it is NULL itself, there is none. */
static enum aw_err check(struct aw_format *format, uint64_t owner, const void *bytes, size_t size,
                         const struct aw_format_past **ret_past, struct aw_diag *diag)
{
    struct aw_envelope head;
    const char *what = format->what;
    if (size < sizeof head)
        return aw_fail(diag, AW_ERR_FORMAT, "truncated: expected %s, found %zu bytes", what, size);
    memcpy(&head, bytes, sizeof head);
    const size_t found = size - sizeof head;
    if (memcmp(head.mark, mark, sizeof mark) != 0)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "expected %s, found something else: of an earlier version of aware, which "
                       "this one cannot read, or no saved state at all",
                       what);
    if (memcmp(head.kind, format->kind, sizeof head.kind) != 0)
        return aw_fail(diag, AW_ERR_FORMAT, "expected %s (%s), found \"%.*s\"", what, format->kind,
                       (int)sizeof head.kind, head.kind);
    if (head.bytes != found)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "%s: expected %" PRIu64 " bytes behind the head, found %zu",
                       head.bytes > found ? "truncated" : "damaged", head.bytes, found);
    if (head.crc != crc_of(head.version, bytes, size))
        return aw_fail(diag, AW_ERR_FORMAT, "damaged: the checksum of %s does not match", what);
    if (head.owner != owner)
        return aw_fail(diag, AW_ERR_FORMAT, "%s with other workloads, settings or seed", what);
    const struct aw_format_past *past = ret_past ? past_of(format, head.version) : NULL;
    if (head.version != format->version && !(past && past->layout == head.layout))
        return aw_fail(
            diag, AW_ERR_FORMAT,
            "%s was made by %s version of aware: expected format %" PRIu32 ", found %" PRIu32, what,
            head.version > format->version ? "a newer" : "an older", format->version, head.version);
    if (!past && head.layout != layout_of(format))
        return aw_fail(diag, AW_ERR_FORMAT,
                       "%s was made by another build of aware: expected layout %016" PRIx64
                       ", found %016" PRIx64,
                       what, layout_of(format), head.layout);
    if (ret_past)
        *ret_past = past;
    return AW_OK;
}

enum aw_err aw_envelope_open(struct aw_format *format, uint64_t owner, const void *bytes,
                             size_t size, struct aw_diag *diag)
{
    return check(format, owner, bytes, size, NULL, diag);
}

/* --- files ------------------------------------------------------------------------------------ */

enum aw_err aw_envelope_write(struct aw_format *format, uint64_t owner, void *bytes, size_t size,
                              const char *path, struct aw_diag *diag)
{
    aw_envelope_seal(format, owner, bytes, size);
    return aw_file_replace(path, bytes, size, NULL, diag);
}

/* One version on. `bytes` and `size` are replaced. */
static enum aw_err step(struct aw_format *format, uint64_t owner, const struct aw_format_past *past,
                        const struct aw_alloc *alloc, char **bytes, size_t *size,
                        struct aw_diag *diag)
{
    AW_ASSERT(past->version + 1 == format->version || past_of(format, past->version + 1));
    const size_t head = sizeof(struct aw_envelope), more = past->bytes(*size - head);
    char *to = more ? aw_alloc_new(alloc, head + more, 1) : NULL;
    if (more && !to)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to read %s of version %" PRIu32, format->what,
                       past->version);
    if (!to || past->migrate(*bytes + head, *size - head, to + head)) {
        aw_alloc_free(alloc, to);
        return aw_fail(diag, AW_ERR_FORMAT, "%s of version %" PRIu32 " cannot be read",
                       format->what, past->version);
    }
    aw_alloc_free(alloc, *bytes);
    *bytes = to;
    *size = head + more;
    aw_envelope_seal(format, owner, *bytes, *size);
    return AW_OK;
}

enum aw_err aw_envelope_read(struct aw_format *format, uint64_t owner, const char *path,
                             size_t size_max, const struct aw_alloc *alloc, void **ret_bytes,
                             size_t *ret_size, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    const struct aw_format_past *past = NULL;
    enum aw_err err = aw_file_read(path, size_max, alloc, &bytes, &size, diag);
    if (err)
        return err;
    err = check(format, owner, bytes, size, &past, diag);
    for (; !err && past; past = past_of(format, past->version + 1))
        err = step(format, owner, past, alloc, &bytes, &size, diag);
    if (!err) {
        *ret_bytes = bytes;
        *ret_size = size;
        return AW_OK;
    }
    aw_alloc_free(alloc, bytes);
    if (diag)
        snprintf(diag->file, sizeof diag->file, "%s", path);
    return err;
}

const char *aw_envelope_set_aside(const char *path, enum aw_err err, char *buf, size_t size)
{
    const int len = snprintf(buf, size, "%s.refused", path);
    const bool there = err && err != AW_ERR_NOTFOUND;
    return there && len > 0 && (size_t)len < size && rename(path, buf) == 0 ? buf : "";
}
