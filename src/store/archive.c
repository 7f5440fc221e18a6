/* archive.c - files of named parts: written part by part, read by name. */
#include "store/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/hash.h"

#define MARK       UINT32_C(0x54524150) /* "PART" */
#define SHAPE_NAME "shape"
#define END_NAME   "end"
#define FLUSH      ((size_t)1 << 20) /* bytes that are written at once */
#define ALIGN      8u                /* of every part, so that it is found behind a damaged one */

/* The end of line is there to be broken by a transfer as text; the last byte is the version. */
static const char mark[8] = {'A', 'W', 'A', 'R', 'E', '\r', '\n', 2};

struct file_head {
    char mark[8];
    char kind[8];
};

/* Name and bytes follow it, each padded to ALIGN. */
struct part_head {
    uint32_t mark;
    uint32_t crc; /* of all that follows */
    uint64_t bytes;
    uint64_t shape;
    uint32_t version;
    uint32_t name_bytes; /* with its NUL */
};
_Static_assert(sizeof(struct part_head) == 32, "a head has no padding");

/* A shape in a file: for each table a struct table, and for each member a struct member and its
 * name, padded. */
struct table {
    uint32_t count, bytes;
};
struct member {
    uint32_t offset, bytes;
    uint32_t type;
    uint32_t name_bytes; /* with its NUL */
};

static size_t padded(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* --- shapes ----------------------------------------------------------------------------------- */

static void shape_hash(struct aw_shape *shape)
{
    uint64_t h = aw_hash_bytes(AW_HASH_BEGIN, &shape->version, sizeof shape->version);
    for (uint32_t t = 0; t < shape->count; t++) {
        const struct aw_layout_table *table = &shape->table[t];
        for (uint32_t m = 0; m < table->count; m++) {
            const struct aw_member *member = &table->members[m];
            const uint32_t place[] = {member->offset, member->bytes, (unsigned char)member->type};
            h = aw_hash_byte(aw_hash_text(h, member->name), 0);
            h = aw_hash_bytes(h, place, sizeof place);
        }
        h = aw_hash_bytes(h, &table->bytes, sizeof table->bytes);
    }
    shape->hash = h ? h : 1;
}

void aw_shape_of(struct aw_shape *shape, uint32_t version, aw_layout *layout)
{
    *shape = (struct aw_shape){.version = version};
    shape->count = aw_layout_tables(layout, shape->table, AW_SHAPE_TABLES_MAX);
    AW_ASSERT(shape->count > 0 && shape->count <= AW_SHAPE_TABLES_MAX);
    shape_hash(shape);
}

void aw_shape_of_members(struct aw_shape *shape, uint32_t version, const struct aw_member *members,
                         uint32_t count, uint32_t bytes)
{
    *shape = (struct aw_shape){.version = version, .count = 1, .table = {{members, count, bytes}}};
    shape_hash(shape);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void fail(struct aw_archive_writer *w, enum aw_err err)
{
    if (!w->err)
        w->err = err;
}

static void flush(struct aw_archive_writer *w)
{
    if (w->err || w->used == 0)
        return;
    fail(w, aw_file_writer_write(&w->file, w->buf, w->used, &w->diag));
    w->used = 0;
}

/* The part that is being filled in has all its bytes. */
static void seal(struct aw_archive_writer *w)
{
    if (!w->open || w->err)
        return;
    unsigned char *part = w->buf + w->open_at;
    const size_t from = offsetof(struct part_head, bytes);
    const uint32_t crc = aw_crc32c(0, part + from, w->used - w->open_at - from);
    memcpy(part + offsetof(struct part_head, crc), &crc, sizeof crc);
    w->open = false;
    if (w->used >= FLUSH)
        flush(w);
}

static unsigned char *room_for(struct aw_archive_writer *w, size_t bytes)
{
    if (w->used + bytes > w->room) {
        const size_t room = 2 * (w->used + bytes) > 2 * FLUSH ? 2 * (w->used + bytes) : 2 * FLUSH;
        unsigned char *buf = aw_alloc_new(w->alloc, room, 1);
        if (!buf) {
            fail(w, aw_fail(&w->diag, AW_ERR_NOMEM, "no memory to save %zu bytes", bytes));
            return NULL;
        }
        if (w->used)
            memcpy(buf, w->buf, w->used);
        aw_alloc_free(w->alloc, w->buf);
        w->buf = buf;
        w->room = room;
    }
    unsigned char *at = w->buf + w->used;
    memset(at, 0, bytes);
    w->used += bytes;
    return at;
}

static unsigned char *part_begin(struct aw_archive_writer *w, const char *name, uint64_t shape,
                                 uint32_t version, size_t bytes)
{
    seal(w);
    const struct part_head head = {.mark = MARK,
                                   .bytes = bytes,
                                   .shape = shape,
                                   .version = version,
                                   .name_bytes = (uint32_t)strlen(name) + 1};
    AW_ASSERT(head.name_bytes <= AW_ARCHIVE_NAME_MAX);
    const size_t before = sizeof head + padded(head.name_bytes);
    const size_t at = w->used;
    unsigned char *to = w->err ? NULL : room_for(w, before + padded(bytes));
    if (!to)
        return NULL;
    w->open_at = at;
    w->open = true;
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, name, head.name_bytes);
    return to + before;
}

static size_t shape_bytes(const struct aw_shape *shape)
{
    size_t bytes = 0;
    for (uint32_t t = 0; t < shape->count; t++) {
        bytes += sizeof(struct table);
        for (uint32_t m = 0; m < shape->table[t].count; m++)
            bytes += sizeof(struct member) + padded(strlen(shape->table[t].members[m].name) + 1);
    }
    return bytes;
}

/* Once in a file. False: it is there already. */
static bool shape_first(struct aw_archive_writer *w, uint64_t hash)
{
    for (uint32_t i = 0; i < w->shape_count; i++)
        if (w->shapes[i] == hash)
            return false;
    if (w->shape_count == AW_ARCHIVE_SHAPES_MAX) {
        fail(w, aw_fail(&w->diag, AW_ERR_LIMIT, "expected at most %u kinds of structs in a file",
                        AW_ARCHIVE_SHAPES_MAX));
        return false;
    }
    w->shapes[w->shape_count++] = hash;
    return true;
}

static void shape_write(struct aw_archive_writer *w, const struct aw_shape *shape)
{
    if (!shape_first(w, shape->hash))
        return;
    unsigned char *to = part_begin(w, SHAPE_NAME, shape->hash, shape->version, shape_bytes(shape));
    for (uint32_t t = 0; to && t < shape->count; t++) {
        const struct aw_layout_table *from = &shape->table[t];
        const struct table table = {from->count, from->bytes};
        memcpy(to, &table, sizeof table);
        to += sizeof table;
        for (uint32_t m = 0; m < from->count; m++) {
            const struct member member = {from->members[m].offset, from->members[m].bytes,
                                          (unsigned char)from->members[m].type,
                                          (uint32_t)strlen(from->members[m].name) + 1};
            memcpy(to, &member, sizeof member);
            memcpy(to + sizeof member, from->members[m].name, member.name_bytes);
            to += sizeof member + padded(member.name_bytes);
        }
    }
}

enum aw_err aw_archive_create(struct aw_archive_writer *w, const char *path, const char *kind,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *w = (struct aw_archive_writer){.alloc = alloc};
    struct file_head head = {0};
    memcpy(head.mark, mark, sizeof mark);
    AW_ASSERT(strlen(kind) < sizeof head.kind);
    memcpy(head.kind, kind, strlen(kind));
    const enum aw_err err = aw_file_writer_open(&w->file, path, NULL, diag);
    if (err)
        return err;
    unsigned char *to = room_for(w, sizeof head);
    if (to)
        memcpy(to, &head, sizeof head);
    return AW_OK;
}

void *aw_archive_add(struct aw_archive_writer *w, const char *name, const struct aw_shape *shape,
                     size_t bytes)
{
    if (shape)
        shape_write(w, shape);
    return part_begin(w, name, shape ? shape->hash : 0, shape ? shape->version : 0, bytes);
}

static const struct aw_archive_part *described(const struct aw_archive *a, uint64_t shape)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->part[i].shape == shape && strcmp(a->part[i].name, SHAPE_NAME) == 0)
            return &a->part[i];
    return NULL;
}

void aw_archive_copy(struct aw_archive_writer *w, const struct aw_archive *from,
                     const struct aw_archive_part *part)
{
    const struct aw_archive_part *shape = part->shape ? described(from, part->shape) : NULL;
    unsigned char *to = NULL;
    if (part == shape || !*part->name) /* a shape goes with those that have it */
        return;
    if (shape && shape_first(w, part->shape) &&
        (to = part_begin(w, SHAPE_NAME, shape->shape, shape->version, shape->size)))
        memcpy(to, shape->bytes, shape->size);
    if ((to = part_begin(w, part->name, part->shape, part->version, part->size)))
        memcpy(to, part->bytes, part->size);
}

enum aw_err aw_archive_commit(struct aw_archive_writer *w, struct aw_diag *diag)
{
    (void)part_begin(w, END_NAME, 0, 0, 0);
    seal(w);
    flush(w);
    if (w->err) {
        if (diag)
            *diag = w->diag;
        const enum aw_err err = w->err;
        aw_archive_abort(w);
        return err;
    }
    aw_alloc_free(w->alloc, w->buf);
    w->buf = NULL;
    return aw_file_writer_commit(&w->file, diag);
}

void aw_archive_abort(struct aw_archive_writer *w)
{
    aw_alloc_free(w->alloc, w->buf);
    w->buf = NULL;
    aw_file_writer_abort(&w->file);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Bytes of the part at `at`, 0: it is none, or a damaged one. */
static size_t part_at(const struct aw_archive *a, size_t at, struct aw_archive_part *ret)
{
    struct part_head head;
    const size_t left = a->size - at;
    if (left < sizeof head)
        return 0;
    memcpy(&head, a->bytes + at, sizeof head);
    if (head.mark != MARK || head.name_bytes == 0 || head.name_bytes > AW_ARCHIVE_NAME_MAX ||
        head.bytes > left)
        return 0;
    const size_t before = sizeof head + padded(head.name_bytes);
    const size_t size = before + padded(head.bytes);
    const size_t from = offsetof(struct part_head, bytes);
    const char *name = a->bytes + at + sizeof head;
    if (size > left || name[head.name_bytes - 1] != '\0' ||
        head.crc != aw_crc32c(0, a->bytes + at + from, size - from))
        return 0;
    *ret = (struct aw_archive_part){.name = name,
                                    .bytes = a->bytes + at + before,
                                    .size = head.bytes,
                                    .shape = head.shape,
                                    .version = head.version};
    return size;
}

/* Where the next part begins. */
static size_t part_search(const struct aw_archive *a, size_t at)
{
    const uint32_t sought = MARK;
    for (at += ALIGN; at < a->size; at += ALIGN)
        if (a->size - at >= sizeof sought && memcmp(a->bytes + at, &sought, sizeof sought) == 0)
            return at;
    return a->size;
}

/* Fills in the index, or with `part` NULL counts. True: the end was found. */
static bool walk(struct aw_archive *a)
{
    bool ended = false, lost = false;
    a->count = a->damaged = 0;
    for (size_t at = sizeof(struct file_head); at < a->size && !ended;) {
        struct aw_archive_part part;
        const size_t size = part_at(a, at, &part);
        if (size == 0) {
            a->damaged += !lost; /* what looks like a mark inside of it is no part either */
            lost = true;
            at = part_search(a, at);
            continue;
        }
        lost = false;
        at += size;
        ended = strcmp(part.name, END_NAME) == 0;
        if (ended)
            continue;
        if (a->part) {
            a->part[a->count] = part;
            a->hash[a->count] = aw_hash_text(AW_HASH_BEGIN, part.name);
        }
        a->count++;
    }
    a->damaged += !ended && !lost;
    return ended;
}

enum aw_err aw_archive_read(struct aw_archive *a, const char *path, const char *kind,
                            const char *what, const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct file_head head;
    *a = (struct aw_archive){.alloc = alloc};
    enum aw_err err = aw_file_read(path, AW_ARCHIVE_BYTES_MAX, alloc, &a->bytes, &a->size, diag);
    if (err)
        return err;
    if (a->size < sizeof head) {
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "truncated: expected %s, found %zu bytes", what, a->size);
        goto out;
    }
    memcpy(&head, a->bytes, sizeof head);
    if (memcmp(head.mark, mark, sizeof mark - 1) != 0)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "expected %s, found something else: not a saved state", what);
    else if (head.mark[7] != mark[7])
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "%s was made by %s version of aware: expected format %d, found %d", what,
                         head.mark[7] > mark[7] ? "a newer" : "an older", mark[7], head.mark[7]);
    else if (strncmp(head.kind, kind, sizeof head.kind) != 0)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "expected %s (%s), found \"%.*s\"",
                         what, kind, (int)sizeof head.kind, head.kind);
    if (err)
        goto out;
    (void)walk(a);
    a->part = aw_alloc_new(alloc, a->count + 1, sizeof *a->part);
    a->hash = aw_alloc_new(alloc, a->count + 1, sizeof *a->hash);
    if (!a->part || !a->hash) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory to read %s", what);
        goto out;
    }
    (void)walk(a);
    if (a->count == 0)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "damaged: no part of %s can be read", what);
out:
    if (err)
        aw_archive_close(a);
    return err;
}

void aw_archive_close(struct aw_archive *a)
{
    aw_alloc_free(a->alloc, a->hash);
    aw_alloc_free(a->alloc, a->part);
    aw_alloc_free(a->alloc, a->bytes);
    *a = (struct aw_archive){0};
}

/* Parts are mostly asked for in the order of the file. */
const struct aw_archive_part *aw_archive_find(struct aw_archive *a, const char *name)
{
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, name);
    for (uint32_t i = 0; i < a->count; i++) {
        const uint32_t at = a->next + i < a->count ? a->next + i : a->next + i - a->count;
        if (a->hash[at] != hash || strcmp(a->part[at].name, name) != 0)
            continue;
        a->next = at + 1 < a->count ? at + 1 : 0;
        return &a->part[at];
    }
    return NULL;
}

void aw_archive_drop(struct aw_archive *a, const char *place)
{
    const size_t length = strlen(place);
    for (uint32_t i = 0; i < a->count; i++)
        if (strncmp(a->part[i].name, place, length) == 0 && a->part[i].name[length] == '/')
            a->part[i].name = "";
}

bool aw_archive_same(const struct aw_archive_part *part, const struct aw_shape *shape, size_t size)
{
    return part->shape == (shape ? shape->hash : 0) && part->size == size;
}

/* --- by name ---------------------------------------------------------------------------------- */

/* The tables of a shape as the file has them. Members are in `room`; false: they are damaged or too
 * many. */
struct read_shape {
    struct aw_member *members;
    uint32_t count; /* tables */
    struct aw_layout_table table[AW_SHAPE_TABLES_MAX];
};

static bool shape_read(const struct aw_archive_part *part, struct read_shape *ret, uint32_t room)
{
    const char *from = part->bytes, *end = from + part->size;
    uint32_t used = 0;
    ret->count = 0;
    while (from < end) {
        struct table table;
        if ((size_t)(end - from) < sizeof table || ret->count == AW_SHAPE_TABLES_MAX)
            return false;
        memcpy(&table, from, sizeof table);
        from += sizeof table;
        if (table.count > room - used)
            return false;
        ret->table[ret->count++] =
            (struct aw_layout_table){ret->members + used, table.count, table.bytes};
        for (uint32_t m = 0; m < table.count; m++) {
            struct member member;
            if ((size_t)(end - from) < sizeof member)
                return false;
            memcpy(&member, from, sizeof member);
            from += sizeof member;
            if (member.name_bytes == 0 || member.name_bytes > (size_t)(end - from) ||
                from[member.name_bytes - 1] != '\0' || member.offset > table.bytes ||
                member.bytes > table.bytes - member.offset)
                return false;
            ret->members[used++] = (struct aw_member){.name = from,
                                                      .offset = member.offset,
                                                      .bytes = member.bytes,
                                                      .type = (char)member.type};
            from += padded(member.name_bytes);
        }
    }
    return ret->count > 0 && ret->table[ret->count - 1].bytes > 0;
}

static bool same_table(const struct aw_layout_table *a, const struct aw_layout_table *b)
{
    bool same = a->count == b->count && a->bytes == b->bytes;
    for (uint32_t m = 0; same && m < a->count; m++)
        same = strcmp(a->members[m].name, b->members[m].name) == 0 &&
               a->members[m].offset == b->members[m].offset &&
               a->members[m].bytes == b->members[m].bytes &&
               a->members[m].type == b->members[m].type;
    return same;
}

static const struct aw_member *member_of(const struct aw_layout_table *table, const char *name,
                                         uint32_t first)
{
    for (uint32_t m = 0; m < table->count; m++) {
        const uint32_t at = (first + m) % table->count;
        if (strcmp(table->members[at].name, name) == 0)
            return &table->members[at];
    }
    return NULL;
}

static size_t group_length(const char *name)
{
    return strcspn(name, ".");
}

static bool in_group(const char *name, const char *group)
{
    const size_t length = group_length(name);
    return strncmp(name, group, length) == 0 && group[length] == '\0';
}

bool aw_archive_lost(const struct aw_archive_match *match, const char *group)
{
    for (uint32_t i = 0; i < match->lost_count; i++)
        if (strcmp(match->lost[i], group) == 0)
            return true;
    return false;
}

static bool is_lost(const struct aw_archive_match *match, const char *name)
{
    for (uint32_t i = 0; i < match->lost_count; i++)
        if (in_group(name, match->lost[i]))
            return true;
    return false;
}

static bool lose(struct aw_archive_match *match, const char *name)
{
    if (is_lost(match, name))
        return true;
    if (match->lost_count == AW_ARCHIVE_LOST_MAX || group_length(name) >= sizeof match->lost[0])
        return false;
    snprintf(match->lost[match->lost_count++], sizeof match->lost[0], "%.*s",
             (int)group_length(name), name);
    return true;
}

/* Which groups cannot be taken. False: too many of them. */
static bool find_lost(const struct aw_shape *shape, const struct read_shape *old,
                      struct aw_archive_match *match)
{
    const struct aw_layout_table *to = &shape->table[shape->count - 1];
    const struct aw_layout_table *from = &old->table[old->count - 1];
    bool elements = old->count == shape->count; /* what arrays are made of has not changed */
    for (uint32_t t = 0; elements && t + 1 < old->count; t++)
        elements = same_table(&old->table[t], &shape->table[t]);
    for (uint32_t m = 0; m < to->count; m++) {
        const struct aw_member *member = &to->members[m];
        const struct aw_member *was = member_of(from, member->name, m);
        const bool kept = was && was->bytes == member->bytes && was->type == member->type &&
                          (elements || member->type != 's');
        if (was && !kept && !lose(match, member->name))
            return false;
    }
    return true;
}

enum aw_err aw_archive_take(struct aw_archive *a, const struct aw_archive_part *part,
                            const struct aw_shape *shape, void *to, size_t size,
                            struct aw_archive_match *ret)
{
    *ret = (struct aw_archive_match){.same = aw_archive_same(part, shape, size)};
    if (ret->same) {
        memcpy(to, part->bytes, size);
        return AW_OK;
    }
    if (!shape || part->version != shape->version)
        return AW_ERR_FORMAT;
    const struct aw_archive_part *said = described(a, part->shape);
    struct read_shape old = {0};
    old.members = aw_alloc_new(a->alloc, AW_ARCHIVE_MEMBERS_MAX, sizeof *old.members);
    enum aw_err err = !old.members                                               ? AW_ERR_NOMEM
                      : !said || !shape_read(said, &old, AW_ARCHIVE_MEMBERS_MAX) ? AW_ERR_FORMAT
                                                                                 : AW_OK;
    const struct aw_layout_table *now = &shape->table[shape->count - 1];
    const struct aw_layout_table *was = err ? NULL : &old.table[old.count - 1];
    if (!err && (part->size < was->bytes || part->size - was->bytes != size - now->bytes ||
                 !find_lost(shape, &old, ret)))
        err = AW_ERR_FORMAT;
    const unsigned char *from = part->bytes;
    for (uint32_t m = 0; !err && m < now->count; m++) {
        const struct aw_member *member = &now->members[m];
        const struct aw_member *source = member_of(was, member->name, m);
        if (source && !is_lost(ret, member->name))
            memcpy((unsigned char *)to + member->offset, from + source->offset, member->bytes);
    }
    if (!err && size > now->bytes)
        memcpy((unsigned char *)to + now->bytes, from + was->bytes, size - now->bytes);
    aw_alloc_free(a->alloc, old.members);
    return err;
}
