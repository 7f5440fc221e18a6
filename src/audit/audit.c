/*
 * audit.c - the writer of the audit log.
 *
 * Everything up to `size` of the current file is acknowledged: written, and synced. A commit writes
 * behind it; a commit that fails leaves something there, or a new file with something in it, and
 * `mess` says which. A mess is cleared, and the clearing synced, before anything else is written:
 * so at any moment only the last commit can be torn by a power cut, which is what chain.c relies
 * on.
 */
#include "audit/audit.h"

#include <stdio.h>
#include <string.h>

#include "audit/chain.h"
#include "base/json.h"
#include "base/text.h"

#define LOCK_NAME      "lock"
#define RETAINED_BYTES 512u /* of the group's buffer, kept free for an entry of kind retained */
#define GROUP_SPARE    (RETAINED_BYTES + 1u) /* and for a NUL */
#define NUMBERS_SPARE  16u                   /* files that may wait to be removed */

enum mess {
    CLEAN,
    OPENED,   /* whoever wrote the current file may have died before it was synced */
    TAIL,     /* bytes behind `size` of the current file */
    TORN,     /* the same, found when opening: they are kept aside first */
    NEW_FILE, /* a file after the current one */
};

struct aw_audit {
    const struct aw_disk *disk;
    const struct aw_alloc *alloc;
    struct aw_audit_config config;
    char folder[AW_DISK_PATH_MAX];
    int lock, file;            /* -1: not open */
    uint32_t number;           /* of the current file; 0: none yet */
    uint64_t size;             /* acknowledged bytes of it */
    struct aw_audit_head last; /* acknowledged; seq 0 and zeros: none */
    uint64_t head_seq;         /* of the file `head` */
    enum mess mess;
    struct aw__audit_digest digest;

    uint32_t *numbers; /* [number_count] of all files, ascending; kept when files_max is set */
    uint32_t number_count, number_size;

    char *group; /* [group_size] whole lines that wait for a commit */
    size_t group_size, group_len;
    struct aw_audit_head group_last;
    int64_t group_at_us;

    FILE *to_text; /* where JSON becomes text, in `text` */
    char *text;    /* [AW_AUDIT_LINE_MAX] */
    size_t text_len;
    bool text_cut;
};

static enum aw_err place(struct aw_diag *diag, const struct aw_audit *a, uint32_t number,
                         enum aw_err err)
{
    char name[AW_AUDIT_NAME_MAX];
    if (err)
        aw__audit_place(diag, a->folder, aw__audit_file_name(number, name, sizeof name));
    return err;
}

static enum aw_err path_of(const struct aw_audit *a, uint32_t number, char *buf, size_t size,
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
static void aside_name(const struct aw_audit *a, char *buf, size_t size)
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
    aside_name(a, name, sizeof name);
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

static enum aw_err clear(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    char path[AW_DISK_PATH_MAX];
    enum aw_err err = AW_OK;
    if (a->mess == TORN && (err = keep_aside(a, diag)))
        return place(diag, a, a->number, err);
    if (a->mess == TORN || a->mess == TAIL) {
        err = ops->truncate(a->disk->self, a->file, a->size, diag);
        if (!err && a->mess == TORN)
            err = write_again(a, diag);
        if (!err)
            err = sync_file(a, a->file, diag);
        place(diag, a, a->number, err);
    } else if (a->mess == OPENED) {
        if (!(err = write_again(a, diag)))
            err = sync_file(a, a->file, diag);
        place(diag, a, a->number, err);
        if (!err)
            err = sync_folder(a, diag);
    } else if (a->mess == NEW_FILE) {
        err = path_of(a, a->number + 1, path, sizeof path, diag);
        if (!err && (err = ops->unlink(a->disk->self, path, diag)) == AW_ERR_NOTFOUND)
            err = AW_OK;
        if (!err)
            err = sync_folder(a, diag);
    }
    if (!err)
        a->mess = CLEAN;
    return err;
}

enum aw_err aw_audit_probe(struct aw_audit *audit, struct aw_diag *diag)
{
    AW_ASSERT(audit->group_len == 0);
    return clear(audit, diag);
}

/* ---- the head ---- */

/* How far the log goes, replaced in one step. A failure leaves the old head, which is true too. */
static enum aw_err write_head(struct aw_audit *a)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    void *self = a->disk->self;
    char from[AW_DISK_PATH_MAX], to[AW_DISK_PATH_MAX], text[AW__AUDIT_HEAD_BYTES_MAX];
    size_t len = aw__audit_head_format(&a->last, text, sizeof text);
    int file = -1;
    enum aw_err err;
    if (a->last.seq == a->head_seq || a->mess != CLEAN)
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
    enum aw_err err = path_of(a, number, path, sizeof path, NULL);
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

static enum aw_err add_line(struct aw_audit *a, int64_t at_us, const char *kind,
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
    char members[RETAINED_BYTES / 2];
    enum aw_err err = read_before(a, a->numbers[drop], &through);
    if (err || through.seq == 0)
        return err ? err : AW_ERR_FORMAT;
    int len = snprintf(members, sizeof members, "\"through_seq\":%ju,\"through_hash\":\"%s\"",
                       (uintmax_t)through.seq, through.hash);
    return add_line(a, a->group_at_us, AW_AUDIT_KIND_RETAINED, members, (size_t)len,
                    a->group_size - a->group_len, NULL);
}

/* Oldest first, so that what is left is always the end of the log. What cannot be removed stays,
 * and goes another time. */
static void drop_files(struct aw_audit *a, uint32_t drop)
{
    char path[AW_DISK_PATH_MAX];
    uint32_t gone = 0;
    while (gone < drop) {
        enum aw_err err = path_of(a, a->numbers[gone], path, sizeof path, NULL);
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
    a->mess = TAIL;
    enum aw_err err =
        a->disk->ops->write(a->disk->self, a->file, a->size, a->group, a->group_len, diag);
    if (!err)
        err = sync_file(a, a->file, diag);
    if (err)
        return place(diag, a, a->number, err);
    a->mess = CLEAN;
    a->size += a->group_len;
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
    enum aw_err err = path_of(a, a->number + 1, path, sizeof path, diag);
    if (err || (err = ops->open(self, path, AW_DISK_CREATE, &file, diag)))
        return err;
    a->mess = NEW_FILE;
    if (!(err = ops->write(self, file, 0, a->group, a->group_len, diag)))
        err = sync_file(a, file, diag);
    place(diag, a, a->number + 1, err);
    if (!err)
        err = sync_folder(a, diag);
    if (err) {
        ops->close(self, file);
        return err;
    }
    a->mess = CLEAN;
    ops->close(self, a->file);
    a->file = file;
    a->number++;
    a->size = a->group_len;
    if (a->config.files_max)
        a->numbers[a->number_count++] = a->number;
    return AW_OK;
}

void aw_audit_abort(struct aw_audit *audit)
{
    audit->group_len = 0;
    audit->group_last = audit->last;
}

static enum aw_err commit_group(struct aw_audit *a, bool new_file, uint32_t drop,
                                struct aw_diag *diag)
{
    if (drop && add_retained(a, drop))
        drop = 0; /* what cannot be said cannot be done; the next rotation tries again */
    enum aw_err err = new_file ? write_new(a, diag) : write_on(a, diag);
    if (!err)
        a->last = a->group_last;
    aw_audit_abort(a);
    if (err) {
        enum aw_err ignored = clear(a, NULL); /* else the next commit tries it first */
        (void)ignored;
    } else if (new_file) {
        enum aw_err ignored = write_head(a);
        (void)ignored;
        drop_files(a, drop);
    }
    return err;
}

enum aw_err aw_audit_commit(struct aw_audit *audit, struct aw_diag *diag)
{
    const uint64_t most = audit->config.file_bytes_max;
    if (audit->group_len == 0)
        return AW_OK;
    enum aw_err err = clear(audit, diag);
    if (err) {
        aw_audit_abort(audit);
        return err;
    }
    bool full = audit->size > 0 && (audit->size > most || audit->group_len > most - audit->size);
    /* where the oldest files cannot be removed, the newest grows: their list has its maximum */
    bool room = !audit->config.files_max || audit->number_count < audit->number_size;
    bool new_file = audit->number == 0 || (full && room);
    return commit_group(audit, new_file, new_file ? files_to_drop(audit) : 0, diag);
}

/* ---- append ---- */

enum aw_err aw_audit_append_text(struct aw_audit *audit, int64_t at_us, const char *kind,
                                 const char *members, size_t len, uint64_t *ret_seq,
                                 struct aw_diag *diag)
{
    char at[AW__AUDIT_AT_LEN + 1], quoted[AW_TEXT_QUOTE_MAX];
    size_t size = audit->group_size - RETAINED_BYTES - audit->group_len;
    if (!aw__audit_kind_fine(kind) || !strcmp(kind, AW_AUDIT_KIND_RETAINED) ||
        !strcmp(kind, AW_AUDIT_KIND_BREAK))
        return aw_fail(diag, AW_ERR_RANGE, "expected a kind made of a-z 0-9 . _ -, found %s",
                       aw_text_quote(kind, strlen(kind), quoted, sizeof quoted));
    if (!aw__audit_format_at(at_us, at))
        return aw_fail(diag, AW_ERR_RANGE, "expected a time from 1970 to 9999, found %jd us",
                       (intmax_t)at_us);
    enum aw_err err = aw__audit_check_members(members, len, diag);
    if (err)
        return err;
    bool roomy = size > AW_AUDIT_LINE_MAX; /* with a NUL */
    err = add_line(audit, at_us, kind, members, len, roomy ? AW_AUDIT_LINE_MAX + 1 : size, diag);
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

static ssize_t write_text(void *cookie, const char *bytes, size_t len)
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

/* The members of a JSON object as text, which begins at `text` + 1. */
static enum aw_err members_to_text(struct aw_audit *a, const json_t *members, size_t *ret_len,
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
    enum aw_err err = members ? members_to_text(audit, members, &len, diag) : AW_OK;
    return err ? err
               : aw_audit_append_text(audit, at_us, kind, audit->text + 1, len, ret_seq, diag);
}

void aw_audit_last(const struct aw_audit *audit, struct aw_audit_head *ret)
{
    *ret = audit->last;
}

/* ---- open and close ---- */

static enum aw_err fail_damaged(const char *folder, const struct aw__audit_chain *chain,
                                struct aw_diag *diag)
{
    aw_fail_at(diag, AW_ERR_FORMAT, NULL, chain->line, 0, NULL, "%s", chain->why);
    aw__audit_place(diag, folder, chain->file);
    return AW_ERR_FORMAT;
}

/* A file of its own, with an entry that says what was found. */
static enum aw_err begin_new_chain(struct aw_audit *a, const struct aw__audit_chain *chain,
                                   struct aw_diag *diag)
{
    size_t len = 0;
    json_t *members = json_pack("{s:s, s:i, s:s}", "file", chain->file, "line", (int)chain->line,
                                "why", chain->why);
    if (!members)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    a->last = (struct aw_audit_head){.seq = chain->seq_max};
    memcpy(a->last.hash, aw__audit_zeros, sizeof a->last.hash);
    a->group_last = a->last;
    enum aw_err err = members_to_text(a, members, &len, diag);
    json_decref(members);
    if (!err)
        err = add_line(a, a->config.now_us, AW_AUDIT_KIND_BREAK, a->text + 1, len,
                       a->group_size - RETAINED_BYTES, diag);
    return err ? err : commit_group(a, true, 0, diag); /* nothing is dropped: it is evidence */
}

static enum aw_err check_config(struct aw_audit_config *c, struct aw_diag *diag)
{
    char at[AW__AUDIT_AT_LEN + 1];
    c->file_bytes_max = c->file_bytes_max ? c->file_bytes_max : AW_AUDIT_FILE_BYTES;
    c->group_bytes_max = c->group_bytes_max ? c->group_bytes_max : AW_AUDIT_GROUP_BYTES;
    if (c->file_bytes_max > AW_AUDIT_FILE_BYTES_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected at most %ju bytes a file, found %ju",
                       (uintmax_t)AW_AUDIT_FILE_BYTES_MAX, (uintmax_t)c->file_bytes_max);
    if (c->group_bytes_max < AW_AUDIT_LINE_MAX || c->group_bytes_max > AW_AUDIT_GROUP_BYTES_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected a commit of %u to %u bytes, found %u",
                       AW_AUDIT_LINE_MAX, AW_AUDIT_GROUP_BYTES_MAX, c->group_bytes_max);
    if (c->files_max == 1 || c->files_max > AW_AUDIT_FILES_LISTED / 2)
        return aw_fail(diag, AW_ERR_RANGE, "expected 0 or 2 to %u files, found %u",
                       AW_AUDIT_FILES_LISTED / 2, c->files_max);
    if (!aw__audit_format_at(c->now_us, at))
        return aw_fail(diag, AW_ERR_RANGE, "expected a time from 1970 to 9999, found %jd us",
                       (intmax_t)c->now_us);
    return AW_OK;
}

/* One block for the object and its buffers. */
static struct aw_audit *allocate(const struct aw_audit_config *config, uint32_t file_count,
                                 const struct aw_alloc *alloc)
{
    uint32_t numbers = file_count > config->files_max ? file_count : config->files_max;
    struct aw_audit *a = NULL;
    void *block = NULL;
    numbers = config->files_max ? numbers + NUMBERS_SPARE : 0;
    for (int pass = 0; pass < 2; pass++) {
        struct aw_carve carve = {.base = block};
        a = aw_carve_take(&carve, 1, sizeof *a);
        uint32_t *list = aw_carve_take(&carve, numbers, sizeof *list);
        char *group = aw_carve_take(&carve, config->group_bytes_max + GROUP_SPARE, 1);
        char *text = aw_carve_take(&carve, AW_AUDIT_LINE_MAX, 1);
        if (pass == 0 && !(block = aw_alloc_new(alloc, carve.used, 1)))
            return NULL;
        if (pass == 1)
            *a = (struct aw_audit){.alloc = alloc,
                                   .config = *config,
                                   .lock = -1,
                                   .file = -1,
                                   .numbers = list,
                                   .number_size = numbers,
                                   .group = group,
                                   .group_size = config->group_bytes_max + GROUP_SPARE,
                                   .text = text};
    }
    return a;
}

static enum aw_err take_lock(const struct aw_disk *disk, const char *folder, int *ret_lock,
                             struct aw_diag *diag)
{
    char path[AW_DISK_PATH_MAX];
    int file = -1;
    enum aw_err err = aw__audit_path(folder, LOCK_NAME, path, sizeof path, diag);
    if (err || (err = disk->ops->open(disk->self, path, AW_DISK_WRITE, &file, diag)))
        return err;
    err = disk->ops->lock(disk->self, file, diag);
    if (err) {
        if (diag)
            snprintf(diag->file, sizeof diag->file, "%s", folder);
        disk->ops->close(disk->self, file);
        return err;
    }
    *ret_lock = file;
    return AW_OK;
}

/* What is there, from its first line to its last. A damaged head is damage of the chain. */
static enum aw_err inspect(const struct aw_disk *disk, const char *path,
                           struct aw__audit_folder *folder, struct aw_audit_head *head,
                           struct aw__audit_chain *chain, const struct aw_alloc *alloc,
                           struct aw_diag *diag)
{
    struct aw_diag why = {0};
    *head = (struct aw_audit_head){.seq = 0};
    enum aw_err head_err = aw__audit_head_read(disk, path, head, &why);
    if (head_err && head_err != AW_ERR_FORMAT) {
        if (diag)
            *diag = why;
        return head_err;
    }
    enum aw_err err = aw__audit_folder_open(folder, disk, path, alloc, diag);
    if (err || (err = aw__audit_chain_walk(folder, head, NULL, NULL, NULL, chain, diag)))
        return err;
    if (head_err && !chain->damaged) {
        chain->damaged = true;
        chain->torn = false;
        chain->line = why.line;
        snprintf(chain->file, sizeof chain->file, "%s", AW__AUDIT_HEAD_NAME);
        snprintf(chain->why, sizeof chain->why, "%.*s", (int)sizeof chain->why - 1, why.text);
    }
    return AW_OK;
}

/* Goes on where the log ends. */
static enum aw_err go_on(struct aw_audit *a, const struct aw__audit_folder *folder,
                         const struct aw__audit_chain *chain, struct aw_diag *diag)
{
    char path[AW_DISK_PATH_MAX];
    uint64_t size = 0;
    enum aw_err err;
    a->number = folder->count ? folder->numbers[folder->count - 1] : 0;
    if (a->number == 0)
        return AW_OK;
    if ((err = path_of(a, a->number, path, sizeof path, diag)) ||
        (err = a->disk->ops->open(a->disk->self, path, AW_DISK_WRITE, &a->file, diag)) ||
        (err = a->disk->ops->size(a->disk->self, a->file, &size, diag)))
        return err;
    a->size = chain->torn ? chain->torn_offset : size;
    a->mess = chain->torn ? TORN : OPENED;
    return AW_OK;
}

static void describe(const struct aw_audit *a, const struct aw__audit_folder *folder,
                     const struct aw__audit_chain *chain, uint64_t torn_bytes,
                     struct aw_audit_recovery *ret)
{
    *ret = (struct aw_audit_recovery){
        .entry_count = chain->entry_count, .torn_bytes = torn_bytes, .new_chain = chain->damaged};
    memcpy(ret->why, chain->why, sizeof ret->why);
    if (!chain->torn)
        return;
    aw__audit_file_name(folder->numbers[folder->count - 1], ret->torn_file, sizeof ret->torn_file);
    if (a->mess == CLEAN)
        aside_name(a, ret->torn_aside, sizeof ret->torn_aside);
}

static enum aw_err start(struct aw_audit *a, const struct aw__audit_folder *folder,
                         const struct aw_audit_head *head, const struct aw__audit_chain *chain,
                         struct aw_audit_recovery *ret_recovery, struct aw_diag *diag)
{
    struct aw_audit_recovery recovery;
    uint64_t size = 0;
    enum aw_err err = AW_OK;
    a->head_seq = head->seq;
    a->last.seq = chain->last_seq;
    memcpy(a->last.hash, chain->last_seq ? chain->last_hash : aw__audit_zeros, sizeof a->last.hash);
    aw_audit_abort(a);
    for (uint32_t i = 0; i < folder->count && a->config.files_max; i++)
        a->numbers[a->number_count++] = folder->numbers[i];
    if ((err = go_on(a, folder, chain, diag)))
        return err;
    if (chain->torn && (err = a->disk->ops->size(a->disk->self, a->file, &size, diag)))
        return err;
    /* A disk that is full now may have space later: the first commits fail until it has. */
    enum aw_err ignored = clear(a, NULL);
    (void)ignored;
    if (chain->damaged && (err = begin_new_chain(a, chain, diag)))
        return err;
    ignored = write_head(a);
    describe(a, folder, chain, chain->torn ? size - chain->torn_offset : 0, &recovery);
    if (ret_recovery)
        *ret_recovery = recovery;
    return AW_OK;
}

enum aw_err aw_audit_open(struct aw_audit **ret_audit, const struct aw_disk *disk,
                          const char *folder, const struct aw_audit_config *config,
                          const struct aw_alloc *alloc, struct aw_audit_recovery *ret_recovery,
                          struct aw_diag *diag)
{
    struct aw_audit_config wanted = config ? *config : (struct aw_audit_config){0};
    struct aw__audit_folder files = {.file = -1};
    struct aw__audit_chain chain;
    struct aw_audit_head head;
    struct aw_audit *a = NULL;
    int lock = -1;
    disk = disk ? disk : &aw_disk_posix;
    enum aw_err err = check_config(&wanted, diag);
    if (err)
        return err;
    if (strlen(folder) + AW_AUDIT_NAME_MAX > AW_DISK_PATH_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, folder, 0, 0, NULL, "the path is too long");
    if ((err = disk->ops->make_folder(disk->self, folder, diag)) ||
        (err = take_lock(disk, folder, &lock, diag)))
        return err;
    if ((err = inspect(disk, folder, &files, &head, &chain, alloc, diag)))
        goto out;
    if (chain.damaged && !wanted.begin_new_chain) {
        err = fail_damaged(folder, &chain, diag);
        goto out;
    }
    if (!(a = allocate(&wanted, files.count, alloc))) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the audit log");
        goto out;
    }
    a->disk = disk;
    a->lock = lock;
    lock = -1;
    memcpy(a->folder, folder, strlen(folder) + 1);
    a->to_text = fopencookie(a, "w", (cookie_io_functions_t){.write = write_text});
    if (!a->to_text) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the audit log");
        goto out;
    }
    if ((err = aw__audit_digest_init(&a->digest, diag)) ||
        (err = start(a, &files, &head, &chain, ret_recovery, diag)))
        goto out;
    *ret_audit = a;
    a = NULL;
out:
    aw__audit_folder_close(&files);
    aw_audit_close(a);
    disk->ops->close(disk->self, lock);
    return err;
}

void aw_audit_close(struct aw_audit *audit)
{
    if (!audit)
        return;
    aw_audit_abort(audit);
    if (audit->file >= 0) {
        enum aw_err ignored = clear(audit, NULL); /* else whoever opens it next sees to it */
        ignored = write_head(audit);
        (void)ignored;
    }
    if (audit->to_text)
        fclose(audit->to_text);
    aw__audit_digest_deinit(&audit->digest);
    audit->disk->ops->close(audit->disk->self, audit->file);
    audit->disk->ops->close(audit->disk->self, audit->lock);
    aw_alloc_free(audit->alloc, audit);
}
