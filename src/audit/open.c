/* open.c - the audit log is opened, mended where a power cut has torn it, and closed. */
#include "audit/writer.h"

#include <string.h>

#define LOCK_NAME     "lock"
#define GROUP_SPARE   (AW__AUDIT_RETAINED_BYTES + 1u) /* of the group's buffer, and for a NUL */
#define NUMBERS_SPARE 16u                             /* files that may wait to be removed */

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
    enum aw_err err = aw__audit_members_text(a, members, &len, diag);
    json_decref(members);
    if (!err)
        err = aw__audit_add_line(a, a->config.now_us, AW_AUDIT_KIND_BREAK, a->text + 1, len,
                                 a->group_size - AW__AUDIT_RETAINED_BYTES, diag);
    return err ? err
               : aw__audit_commit_group(a, (struct aw__audit_how){.new_file = true},
                                        diag); /* nothing is dropped: it is evidence */
}

static enum aw_err check_config(struct aw_audit_config *c, struct aw_diag *diag)
{
    char at[AW__AUDIT_AT_LEN + 1];
    c->file_bytes_max = c->file_bytes_max ? c->file_bytes_max : AW_AUDIT_FILE_BYTES;
    c->group_bytes_max = c->group_bytes_max ? c->group_bytes_max : AW_AUDIT_GROUP_BYTES;
    if (c->file_bytes_max > AW_AUDIT_FILE_BYTES_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected at most %ju bytes a file, found %ju",
                       (uintmax_t)AW_AUDIT_FILE_BYTES_MAX, (uintmax_t)c->file_bytes_max);
    if (c->reserve_bytes > AW_AUDIT_RESERVE_BYTES_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected at most %u reserved bytes, found %ju",
                       AW_AUDIT_RESERVE_BYTES_MAX, (uintmax_t)c->reserve_bytes);
    if (c->group_bytes_max < AW_AUDIT_LINE_MAX || c->group_bytes_max > AW_AUDIT_GROUP_BYTES_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected a commit of %u to %u bytes, found %u",
                       AW_AUDIT_LINE_MAX, AW_AUDIT_GROUP_BYTES_MAX, c->group_bytes_max);
    if (c->files_max == 1 || c->files_max > AW_AUDIT_FILES_LISTED / 2)
        return aw_fail(diag, AW_ERR_RANGE, "expected 0 or 2 to %u files, found %u",
                       AW_AUDIT_FILES_LISTED / 2, c->files_max);
    if (!aw_audit_format_at(c->now_us, at))
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
    if ((err = aw__audit_path_of(a, a->number, path, sizeof path, diag)) ||
        (err = a->disk->ops->open(a->disk->self, path, AW_DISK_WRITE, &a->file, diag)) ||
        (err = a->disk->ops->size(a->disk->self, a->file, &size, diag)))
        return err;
    a->size = chain->torn ? chain->torn_offset : size;
    a->mess = chain->torn ? AW__AUDIT_TORN : AW__AUDIT_OPENED;
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
    if (a->mess == AW__AUDIT_CLEAN)
        aw__audit_aside_name(a, ret->torn_aside, sizeof ret->torn_aside);
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
    enum aw_err ignored = aw__audit_clear(a, NULL);
    (void)ignored;
    if (chain->damaged && (err = begin_new_chain(a, chain, diag)))
        return err;
    ignored = aw__audit_write_head(a);
    ignored = aw__audit_reserve(a, NULL); /* or a commit does, once there is room */
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
    a->to_text = fopencookie(a, "w", (cookie_io_functions_t){.write = aw__audit_text_write});
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
        enum aw_err ignored =
            aw__audit_clear(audit, NULL); /* else whoever opens it next sees to it */
        ignored = aw__audit_write_head(audit);
        (void)ignored;
    }
    if (audit->to_text)
        fclose(audit->to_text);
    aw__audit_digest_deinit(&audit->digest);
    audit->disk->ops->close(audit->disk->self, audit->file);
    audit->disk->ops->close(audit->disk->self, audit->lock);
    aw_alloc_free(audit->alloc, audit);
}
