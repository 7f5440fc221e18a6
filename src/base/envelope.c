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
    return aw_hash_bytes(hash, &bytes, sizeof bytes);
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

/* Whether `bytes` are a whole envelope of the kind, of whatever version. */
static enum aw_err whole(const struct aw_format *format, const void *bytes, size_t size,
                         struct aw_envelope *ret, struct aw_diag *diag)
{
    if (size < sizeof *ret)
        return aw_fail(diag, AW_ERR_FORMAT, "truncated: expected %s, found %zu bytes", format->what,
                       size);
    memcpy(ret, bytes, sizeof *ret);
    if (memcmp(ret->mark, mark, sizeof mark) != 0)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "expected %s, found something else: of an earlier version of aware, which "
                       "this one cannot read, or no saved state at all",
                       format->what);
    if (memcmp(ret->kind, format->kind, sizeof ret->kind) != 0)
        return aw_fail(diag, AW_ERR_FORMAT, "expected %s (%s), found \"%.*s\"", format->what,
                       format->kind, (int)sizeof ret->kind, ret->kind);
    if (ret->bytes != size - sizeof *ret)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "%s: expected %" PRIu64 " bytes behind the head, found %zu",
                       ret->bytes > size - sizeof *ret ? "truncated" : "damaged", ret->bytes,
                       size - sizeof *ret);
    if (ret->crc != crc_of(ret->version, bytes, size))
        return aw_fail(diag, AW_ERR_FORMAT, "damaged: the checksum of %s does not match",
                       format->what);
    return AW_OK;
}

static enum aw_err current(struct aw_format *format, const struct aw_envelope *head,
                           uint64_t layout, struct aw_diag *diag)
{
    if (head->version != format->version)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "%s was made by %s version of aware: expected format %" PRIu32
                       ", found %" PRIu32,
                       format->what, head->version > format->version ? "a newer" : "an older",
                       format->version, head->version);
    if (head->layout != layout)
        return aw_fail(diag, AW_ERR_FORMAT,
                       "%s was made by another build of aware: expected layout %016" PRIx64
                       ", found %016" PRIx64,
                       format->what, layout, head->layout);
    return AW_OK;
}

static enum aw_err owned(const struct aw_format *format, const struct aw_envelope *head,
                         uint64_t owner, struct aw_diag *diag)
{
    return head->owner == owner
               ? AW_OK
               : aw_fail(diag, AW_ERR_FORMAT, "%s with other workloads, settings or seed",
                         format->what);
}

enum aw_err aw_envelope_open(struct aw_format *format, uint64_t owner, const void *bytes,
                             size_t size, struct aw_diag *diag)
{
    struct aw_envelope head;
    enum aw_err err = whole(format, bytes, size, &head, diag);
    err = err ? err : current(format, &head, layout_of(format), diag);
    return err ? err : owned(format, &head, owner, diag);
}

/* --- files ------------------------------------------------------------------------------------ */

enum aw_err aw_envelope_write(struct aw_format *format, uint64_t owner, void *bytes, size_t size,
                              const char *path, struct aw_diag *diag)
{
    aw_envelope_seal(format, owner, bytes, size);
    return aw_file_replace(path, bytes, size, NULL, diag);
}

static const struct aw_format_past *past_of(const struct aw_format *format, uint32_t version)
{
    for (uint32_t i = 0; i < format->past_count; i++)
        if (format->past[i].version == version)
            return &format->past[i];
    return NULL;
}

/* One version on. `bytes` and `size` are replaced. */
static enum aw_err step(const struct aw_format *format, const struct aw_format_past *past,
                        const struct aw_alloc *alloc, char **bytes, size_t *size,
                        struct aw_diag *diag)
{
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
    return AW_OK;
}

/* From the version that was found to the present one. */
static enum aw_err migrate(struct aw_format *format, const struct aw_envelope *head,
                           const struct aw_alloc *alloc, char **bytes, size_t *size,
                           struct aw_diag *diag)
{
    const struct aw_format_past *past = past_of(format, head->version);
    if (!past || past->layout != head->layout)
        return current(format, head, layout_of(format), diag);
    for (enum aw_err err; past; past = past_of(format, past->version + 1))
        if ((err = step(format, past, alloc, bytes, size, diag)))
            return err;
    aw_envelope_seal(format, head->owner, *bytes, *size);
    return AW_OK;
}

enum aw_err aw_envelope_read(struct aw_format *format, uint64_t owner, const char *path,
                             size_t size_max, const struct aw_alloc *alloc, void **ret_bytes,
                             size_t *ret_size, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    struct aw_envelope head;
    enum aw_err err = aw_file_read(path, size_max, alloc, &bytes, &size, diag);
    if (err)
        return err;
    err = whole(format, bytes, size, &head, diag);
    err = err ? err : owned(format, &head, owner, diag);
    err = err ? err : migrate(format, &head, alloc, &bytes, &size, diag);
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
    return err == AW_ERR_FORMAT && len > 0 && (size_t)len < size && rename(path, buf) == 0 ? buf
                                                                                           : "";
}
