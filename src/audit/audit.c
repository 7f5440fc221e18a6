/* audit.c - the writer of the audit log: clearing up, appending and committing. */
#include "audit/writer.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

static enum aw_err place(struct aw_diag *diag, const struct aw_audit *a, uint32_t number,
                         enum aw_err err)
{
    char name[AW_AUDIT_NAME_MAX];
    if (err)
        aw__audit_place(diag, a->folder, aw__audit_file_name(number, name, sizeof name));
    return err;
}

enum aw_err aw__audit_path_of(const struct aw_audit *a, uint32_t number, char *buf, size_t size,
                              struct aw_diag *diag)
{
    char name[AW_AUDIT_NAME_MAX];
    return aw__audit_path(a->folder, aw__audit_file_name(number, name, sizeof name), buf, size,
                          diag);
}

static enum aw_err sync_file(const struct aw_audit *a, int file, struct aw_diag *diag)
{
    return a->config.no_sync ? AW_OK : a->disk->ops->sync(a->disk->self, file, diag);
}

static enum aw_err sync_folder(const struct aw_audit *a, struct aw_diag *diag)
{
    return a->config.no_sync ? AW_OK : a->disk->ops->sync_folder(a->disk->self, a->folder, diag);
}

/* ---- clearing up ---- */

/* Named by what it was, so that doing it again after another power cut replaces it. */
void aw__audit_aside_name(const struct aw_audit *a, char *buf, size_t size)
{
    snprintf(buf, size, "torn-%08u-at-%ju.part", a->number, (uintmax_t)a->size);
}

static enum aw_err keep_aside(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    void *self = a->disk->self;
    char path[AW_DISK_PATH_MAX], name[AW_AUDIT_NAME_MAX];
    int to = -1;
    size_t len = 0;
    aw__audit_aside_name(a, name, sizeof name);
    enum aw_err err = aw__audit_path(a->folder, name, path, sizeof path, diag);
    if (err || (err = ops->open(self, path, AW_DISK_WRITE, &to, diag)))
        return err;
    err = ops->truncate(self, to, 0, diag);
    for (uint64_t done = 0; !err; done += len) {
        err = ops->read(self, a->file, a->size + done, a->text, AW_AUDIT_LINE_MAX, &len, diag);
        if (err || len == 0)
            break;
        err = ops->write(self, to, done, a->text, len, diag);
    }
    if (!err)
        err = sync_file(a, to, diag);
    ops->close(self, to);
    return err ? err : sync_folder(a, diag);
}

/* Whoever wrote the current file may have seen a sync fail and then died: what we read may be in a
 * cache that takes itself for clean, and syncing it again promises nothing (disk.h). What the head
 * does not vouch for is written once more; an unharmed write of the same bytes harms nothing. */
static enum aw_err write_again(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    enum aw_err err = AW_OK;
    for (uint64_t at = 0; !err && a->last.seq != a->head_seq && at < a->size;) {
        const uint64_t left = a->size - at;
        size_t len = 0;
        err = ops->read(a->disk->self, a->file, at, a->text,
                        left < AW_AUDIT_LINE_MAX ? (size_t)left : AW_AUDIT_LINE_MAX, &len, diag);
        if (!err && len == 0)
            err = aw_fail(diag, AW_ERR_IO, "the file is shorter than it was");
        err = err ? err : ops->write(a->disk->self, a->file, at, a->text, len, diag);
        at += len;
    }
    return err;
}

enum aw_err aw__audit_clear(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    char path[AW_DISK_PATH_MAX];
    enum aw_err err = AW_OK;
    if (a->mess == AW__AUDIT_TORN && (err = keep_aside(a, diag)))
        return place(diag, a, a->number, err);
    if (a->mess == AW__AUDIT_TORN || a->mess == AW__AUDIT_TAIL) {
        err = ops->truncate(a->disk->self, a->file, a->size, diag);
        if (!err && a->mess == AW__AUDIT_TORN)
            err = write_again(a, diag);
        if (!err)
            err = sync_file(a, a->file, diag);
        place(diag, a, a->number, err);
    } else if (a->mess == AW__AUDIT_OPENED) {
        if (!(err = write_again(a, diag)))
            err = sync_file(a, a->file, diag);
        place(diag, a, a->number, err);
        if (!err)
            err = sync_folder(a, diag);
    } else if (a->mess == AW__AUDIT_NEW_FILE) {
        err = aw__audit_path_of(a, a->number + 1, path, sizeof path, diag);
        if (!err && (err = ops->unlink(a->disk->self, path, diag)) == AW_ERR_NOTFOUND)
            err = AW_OK;
        if (!err)
            err = sync_folder(a, diag);
    }
    if (!err)
        a->mess = AW__AUDIT_CLEAN;
    return err;
}

/* ---- the head ---- */

enum aw_err aw__audit_write_head(struct aw_audit *a)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    void *self = a->disk->self;
    char from[AW_DISK_PATH_MAX], to[AW_DISK_PATH_MAX], text[AW__AUDIT_HEAD_BYTES_MAX];
    size_t len = aw__audit_head_format(&a->last, text, sizeof text);
    int file = -1;
    enum aw_err err;
    if (a->last.seq == a->head_seq || a->mess != AW__AUDIT_CLEAN)
        return AW_OK;
    if ((err = aw__audit_path(a->folder, AW__AUDIT_HEAD_TEMP_NAME, from, sizeof from, NULL)) ||
        (err = aw__audit_path(a->folder, AW__AUDIT_HEAD_NAME, to, sizeof to, NULL)) ||
        (err = ops->open(self, from, AW_DISK_WRITE, &file, NULL)))
        return err;
    if (!(err = ops->truncate(self, file, 0, NULL)) &&
        !(err = ops->write(self, file, 0, text, len, NULL)))
        err = sync_file(a, file, NULL);
    ops->close(self, file);
    if (!err)
        err = ops->rename(self, from, to, NULL);
    if (!err)
        err = sync_folder(a, NULL);
    if (!err)
        a->head_seq = a->last.seq;
    return err;
}

/* ---- retention ---- */

/* How many of the oldest files go when one is added. */
static uint32_t files_to_drop(const struct aw_audit *a)
{
    uint32_t count = a->number_count + 1;
    return a->config.files_max && count > a->config.files_max ? count - a->config.files_max : 0;
}

/* What the first line of a file says about the line before it. */
static enum aw_err read_before(struct aw_audit *a, uint32_t number, struct aw_audit_head *ret)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    char path[AW_DISK_PATH_MAX];
    struct aw_audit_entry entry;
    bool first;
    int file = -1;
    size_t len = 0;
    enum aw_err err = aw__audit_path_of(a, number, path, sizeof path, NULL);
    if (err || (err = ops->open(a->disk->self, path, AW_DISK_READ, &file, NULL)))
        return err;
    err = ops->read(a->disk->self, file, 0, a->text, AW_AUDIT_LINE_MAX, &len, NULL);
    ops->close(a->disk->self, file);
    if (err)
        return err;
    const char *newline = len ? memchr(a->text, '\n', len) : NULL;
    if (!newline ||
        aw__audit_read_line(&a->digest, a->text, (size_t)(newline - a->text), &entry, &first))
        return AW_ERR_FORMAT;
    ret->seq = entry.seq - 1;
    memcpy(ret->hash, entry.prev, AW_AUDIT_HASH_LEN);
    ret->hash[AW_AUDIT_HASH_LEN] = '\0';
    return AW_OK;
}

enum aw_err aw__audit_add_line(struct aw_audit *a, int64_t at_us, const char *kind,
                               const char *members, size_t len, size_t size, struct aw_diag *diag)
{
    struct aw_audit_head last = {.seq = a->group_last.seq + 1};
    struct aw__audit_fields fields = {.seq = last.seq,
                                      .at_us = at_us,
                                      .kind = kind,
                                      .first = a->group_len == 0,
                                      .members = members,
                                      .members_len = len,
                                      .prev = a->group_last.hash};
    size_t line_len = 0;
    enum aw_err err = aw__audit_write_line(&a->digest, &fields, a->group + a->group_len, size,
                                           &line_len, last.hash, diag);
    if (err)
        return err;
    a->group_len += line_len;
    a->group_last = last;
    a->group_at_us = at_us;
    return AW_OK;
}

/* Says in the group that the `drop` oldest files go, before they do. */
static enum aw_err add_retained(struct aw_audit *a, uint32_t drop)
{
    struct aw_audit_head through;
    char members[AW__AUDIT_RETAINED_BYTES / 2];
    enum aw_err err = read_before(a, a->numbers[drop], &through);
    if (err || through.seq == 0)
        return err ? err : AW_ERR_FORMAT;
    int len = snprintf(members, sizeof members, "\"through_seq\":%ju,\"through_hash\":\"%s\"",
                       (uintmax_t)through.seq, through.hash);
    return aw__audit_add_line(a, a->group_at_us, AW_AUDIT_KIND_RETAINED, members, (size_t)len,
                              a->group_size - a->group_len, NULL);
}

/* Oldest first, so that what is left is always the end of the log. What cannot be removed stays,
 * and goes another time. */
static void drop_files(struct aw_audit *a, uint32_t drop)
{
    char path[AW_DISK_PATH_MAX];
    uint32_t gone = 0;
    while (gone < drop) {
        enum aw_err err = aw__audit_path_of(a, a->numbers[gone], path, sizeof path, NULL);
        if (!err)
            err = a->disk->ops->unlink(a->disk->self, path, NULL);
        /* each removal is made durable before the next: a gap would look like somebody's work */
        if ((err && err != AW_ERR_NOTFOUND) || sync_folder(a, NULL))
            break;
        gone++;
    }
    a->number_count -= gone;
    memmove(a->numbers, a->numbers + gone, a->number_count * sizeof *a->numbers);
}

/* ---- commit ---- */

static enum aw_err write_on(struct aw_audit *a, struct aw_diag *diag)
{
    a->mess = AW__AUDIT_TAIL;
    enum aw_err err =
        a->disk->ops->write(a->disk->self, a->file, a->size, a->group, a->group_len, diag);
    if (!err)
        err = sync_file(a, a->file, diag);
    if (err)
        return place(diag, a, a->number, err);
    a->mess = AW__AUDIT_CLEAN;
    a->size += a->group_len;
    return AW_OK;
}

enum aw_err aw__audit_begin_file(struct aw_audit *a, int file, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    enum aw_err err = ops->write(a->disk->self, file, 0, a->group, a->group_len, diag);
    if (!err)
        err = sync_file(a, file, diag);
    place(diag, a, a->number + 1, err);
    if (!err)
        err = sync_folder(a, diag);
    if (err) {
        ops->close(a->disk->self, file);
        return err;
    }
    a->mess = AW__AUDIT_CLEAN;
    ops->close(a->disk->self, a->file);
    a->file = file;
    a->number++;
    a->size = a->group_len;
    if (a->config.files_max)
        a->numbers[a->number_count++] = a->number;
    return AW_OK;
}

static enum aw_err write_new(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    void *self = a->disk->self;
    char path[AW_DISK_PATH_MAX];
    int file = -1;
    if (a->number >= AW__AUDIT_NUMBER_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, a->folder, 0, 0, NULL, "more than %u files",
                          AW__AUDIT_NUMBER_MAX);
    enum aw_err err = aw__audit_path_of(a, a->number + 1, path, sizeof path, diag);
    if (err || (err = ops->open(self, path, AW_DISK_CREATE, &file, diag)))
        return err;
    a->mess = AW__AUDIT_NEW_FILE;
    return aw__audit_begin_file(a, file, diag);
}

void aw_audit_abort(struct aw_audit *audit)
{
    audit->group_len = 0;
    audit->group_last = audit->last;
}

enum aw_err aw__audit_commit_group(struct aw_audit *a, struct aw__audit_how how,
                                   struct aw_diag *diag)
{
    if (how.drop && add_retained(a, how.drop))
        how.drop = 0; /* what cannot be said cannot be done; the next rotation tries again */
    enum aw_err err = how.new_file ? write_new(a, diag) : write_on(a, diag);
    if (err == AW_ERR_IO && how.reserved && a->reserved) {
        how = (struct aw__audit_how){.new_file = false};
        err = aw__audit_clear(a, diag);
        err = err ? err : aw__audit_write_reserved(a, diag);
    }
    if (!err)
        a->last = a->group_last;
    aw_audit_abort(a);
    if (err) {
        enum aw_err ignored = aw__audit_clear(a, NULL); /* else the next commit tries it first */
        (void)ignored;
    } else if (how.new_file) {
        enum aw_err ignored = aw__audit_write_head(a);
        (void)ignored;
        drop_files(a, how.drop);
    }
    return err;
}

static enum aw_err commit(struct aw_audit *audit, bool reserved, struct aw_diag *diag)
{
    const uint64_t most = audit->config.file_bytes_max;
    if (audit->group_len == 0)
        return AW_OK;
    enum aw_err err = aw__audit_clear(audit, diag);
    if (!err && !reserved) {
        const enum aw_err refused = aw__audit_reserve(audit, diag);
        err = audit->on_reserve ? refused : AW_OK; /* else there may be room for this group yet */
    }
    if (err) {
        aw_audit_abort(audit);
        return err;
    }
    bool full = audit->size > 0 && (audit->size > most || audit->group_len > most - audit->size);
    /* where the oldest files cannot be removed, the newest grows: their list has its maximum */
    bool room = !audit->config.files_max || audit->number_count < audit->number_size;
    bool new_file = audit->number == 0 || (full && room && !audit->on_reserve);
    return aw__audit_commit_group(
        audit,
        (struct aw__audit_how){.new_file = new_file,
                               .reserved = reserved && room,
                               .drop = new_file ? files_to_drop(audit) : 0},
        diag);
}

enum aw_err aw_audit_commit(struct aw_audit *audit, struct aw_diag *diag)
{
    return commit(audit, false, diag);
}

enum aw_err aw_audit_commit_reserved(struct aw_audit *audit, struct aw_diag *diag)
{
    return commit(audit, true, diag);
}

bool aw_audit_on_reserve(const struct aw_audit *audit)
{
    return audit->on_reserve;
}

/* ---- append ---- */

enum aw_err aw_audit_append_text(struct aw_audit *audit, int64_t at_us, const char *kind,
                                 const char *members, size_t len, uint64_t *ret_seq,
                                 struct aw_diag *diag)
{
    char at[AW__AUDIT_AT_LEN + 1], quoted[AW_TEXT_QUOTE_MAX];
    size_t size = audit->group_size - AW__AUDIT_RETAINED_BYTES - audit->group_len;
    if (!aw__audit_kind_fine(kind) || !strcmp(kind, AW_AUDIT_KIND_RETAINED) ||
        !strcmp(kind, AW_AUDIT_KIND_BREAK))
        return aw_fail(diag, AW_ERR_RANGE, "expected a kind made of a-z 0-9 . _ -, found %s",
                       aw_text_quote(kind, strlen(kind), quoted, sizeof quoted));
    if (!aw_audit_format_at(at_us, at))
        return aw_fail(diag, AW_ERR_RANGE, "expected a time from 1970 to 9999, found %jd us",
                       (intmax_t)at_us);
    enum aw_err err = aw__audit_check_members(members, len, diag);
    if (err)
        return err;
    bool roomy = size > AW_AUDIT_LINE_MAX; /* with a NUL */
    err = aw__audit_add_line(audit, at_us, kind, members, len, roomy ? AW_AUDIT_LINE_MAX + 1 : size,
                             diag);
    if (err == AW_ERR_LIMIT)
        return roomy ? aw_fail(diag, err, "expected a line of at most %u bytes", AW_AUDIT_LINE_MAX)
                     : aw_fail(diag, err, "the group is full: %zu of %u bytes", audit->group_len,
                               audit->config.group_bytes_max);
    if (err)
        return err;
    if (ret_seq)
        *ret_seq = audit->group_last.seq;
    return AW_OK;
}

ssize_t aw__audit_text_write(void *cookie, const char *bytes, size_t len)
{
    struct aw_audit *a = cookie;
    if (len > AW_AUDIT_LINE_MAX - a->text_len) {
        a->text_cut = true;
    } else {
        memcpy(a->text + a->text_len, bytes, len);
        a->text_len += len;
    }
    return (ssize_t)len;
}

enum aw_err aw__audit_members_text(struct aw_audit *a, const json_t *members, size_t *ret_len,
                                   struct aw_diag *diag)
{
    a->text_len = 0;
    a->text_cut = false;
    if (!json_is_object(members))
        return aw_fail(diag, AW_ERR_RANGE, "expected a JSON object as members");
    enum aw_err err = aw_json_write(members, a->to_text, 0);
    fflush(a->to_text);
    if (err || a->text_cut)
        return aw_fail(diag, AW_ERR_LIMIT, "expected a line of at most %u bytes and %u levels",
                       AW_AUDIT_LINE_MAX, AW_TREE_DEPTH_MAX);
    *ret_len = a->text_len - 3; /* { } and a newline */
    return AW_OK;
}

enum aw_err aw_audit_append(struct aw_audit *audit, int64_t at_us, const char *kind,
                            const json_t *members, uint64_t *ret_seq, struct aw_diag *diag)
{
    size_t len = 0;
    enum aw_err err = members ? aw__audit_members_text(audit, members, &len, diag) : AW_OK;
    return err ? err
               : aw_audit_append_text(audit, at_us, kind, audit->text + 1, len, ret_seq, diag);
}

void aw_audit_last(const struct aw_audit *audit, struct aw_audit_head *ret)
{
    *ret = audit->last;
}
