/*
 * reserve.c - blocks that are taken while the disk has room, for what must be recorded when it has
 * none.
 *
 * The file `reserve` is empty and has its blocks (fallocate with FALLOC_FL_KEEP_SIZE). On a full
 * disk it is renamed, which makes it the next file of the log, and written: nobody else can take
 * its blocks in between, as they could if a file were removed to make room. A crash on the way
 * leaves an empty or torn newest file, as any commit does.
 */
#include "audit/writer.h"

#define RESERVE_NAME "reserve"

enum aw_err aw__audit_reserve(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    void *self = a->disk->self;
    char path[AW_DISK_PATH_MAX];
    uint64_t size = 0;
    int file = -1;
    if (!a->config.reserve_bytes || a->reserved || a->no_reserve)
        return AW_OK;
    enum aw_err err = aw__audit_path(a->folder, RESERVE_NAME, path, sizeof path, diag);
    if (err || (err = ops->open(self, path, AW_DISK_WRITE, &file, diag)))
        return err;
    err = ops->size(self, file, &size, diag);
    if (!err && size) /* not written by us: a line in it would be in the log */
        err = ops->truncate(self, file, 0, diag);
    err = err ? err : ops->reserve(self, file, a->config.reserve_bytes, diag);
    if (!err && !a->config.no_sync)
        err = ops->sync(self, file, diag);
    ops->close(self, file);
    if (!err && !a->config.no_sync)
        err = ops->sync_folder(self, a->folder, diag);
    a->reserved = !err;
    a->no_reserve = err == AW_ERR_UNAVAILABLE;
    if (!err || a->no_reserve)
        a->on_reserve = false;
    if (err) { /* no file that is nothing: what cannot be removed is found by the next try */
        enum aw_err ignored = ops->unlink(self, path, NULL);
        (void)ignored;
    }
    return a->no_reserve ? AW_OK : err;
}

enum aw_err aw__audit_write_reserved(struct aw_audit *a, struct aw_diag *diag)
{
    const struct aw_disk_ops *ops = a->disk->ops;
    void *self = a->disk->self;
    char from[AW_DISK_PATH_MAX], to[AW_DISK_PATH_MAX];
    int file = -1;
    if (a->number >= AW__AUDIT_NUMBER_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, a->folder, 0, 0, NULL, "more than %u files",
                          AW__AUDIT_NUMBER_MAX);
    enum aw_err err = aw__audit_path(a->folder, RESERVE_NAME, from, sizeof from, diag);
    err = err ? err : aw__audit_path_of(a, a->number + 1, to, sizeof to, diag);
    if (err)
        return err;
    a->reserved = false;
    a->mess = AW__AUDIT_NEW_FILE;
    if ((err = ops->rename(self, from, to, diag)))
        return err;
    /* the name before the bytes: what a power cut brings back as `reserve` is empty */
    if (!a->config.no_sync)
        err = ops->sync_folder(self, a->folder, diag);
    err = err ? err : ops->open(self, to, AW_DISK_WRITE, &file, diag);
    err = err ? err : aw__audit_begin_file(a, file, diag);
    a->on_reserve = !err;
    return err;
}
