/* folder.c - the files of an audit log, and their lines one after the other. */
#include "audit/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define NAME_HEAD    "audit-"
#define NAME_TAIL    ".jsonl"
#define NAME_DIGITS  8u
#define BUFFER_BYTES (2u * AW_AUDIT_LINE_MAX) /* a line and most of the next one */

const char *aw__audit_file_name(uint32_t number, char *buf, size_t size)
{
    snprintf(buf, size, NAME_HEAD "%0*u" NAME_TAIL, (int)NAME_DIGITS, number);
    return buf;
}

enum aw_err aw__audit_path(const char *folder, const char *name, char *buf, size_t size,
                           struct aw_diag *diag)
{
    int len = snprintf(buf, size, "%s/%s", folder, name);
    return len > 0 && (size_t)len < size ? AW_OK
                                         : aw_fail_at(diag, AW_ERR_LIMIT, folder, 0, 0, NULL,
                                                      "the path is longer than %zu bytes", size);
}

void aw__audit_place(struct aw_diag *diag, const char *folder, const char *name)
{
    struct aw_text text;
    size_t len = strlen(folder);
    if (!diag)
        return;
    aw_text_init(&text, diag->file, sizeof diag->file);
    size_t most = sizeof diag->file - AW_AUDIT_NAME_MAX - 1;
    aw_text_add_bytes(&text, folder + (len > most ? len - most : 0), len > most ? most : len);
    aw_text_add(&text, "/%s", name);
}

/* 0: not the name of a file of the log. */
static uint32_t number_of(const char *name)
{
    const size_t head = strlen(NAME_HEAD);
    char again[AW_AUDIT_NAME_MAX];
    uint32_t number = 0;
    if (strlen(name) != head + NAME_DIGITS + strlen(NAME_TAIL))
        return 0;
    for (uint32_t i = 0; i < NAME_DIGITS; i++) {
        char digit = name[head + i];
        if (digit < '0' || digit > '9')
            return 0;
        number = number * 10 + (uint32_t)(digit - '0');
    }
    return strcmp(aw__audit_file_name(number, again, sizeof again), name) == 0 ? number : 0;
}

struct listing {
    uint32_t *numbers; /* NULL: only counts */
    uint32_t count, max;
};

static enum aw_err list_name(void *ctx, const char *name)
{
    struct listing *listing = ctx;
    uint32_t number = number_of(name);
    if (!number)
        return AW_OK;
    if (listing->numbers && listing->count < listing->max)
        listing->numbers[listing->count] = number;
    listing->count++;
    return AW_OK;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

enum aw_err aw__audit_folder_open(struct aw__audit_folder *folder, const struct aw_disk *disk,
                                  const char *path, const struct aw_alloc *alloc,
                                  struct aw_diag *diag)
{
    struct listing listing = {0};
    struct aw_disk_ops const *ops = disk->ops;
    *folder = (struct aw__audit_folder){.file = -1};
    enum aw_err err = ops->list(disk->self, path, list_name, &listing, diag);
    if (err)
        return err;
    if (listing.count > AW_AUDIT_FILES_LISTED)
        return aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, NULL,
                          "expected at most %u files of a log, found %u", AW_AUDIT_FILES_LISTED,
                          listing.count);
    struct aw__audit_folder f = {.disk = disk, .alloc = alloc, .path = path, .file = -1};
    listing.max = listing.count;
    for (int pass = 0; pass < 2; pass++) {
        struct aw_carve carve = {.base = f.block};
        f.numbers = aw_carve_take(&carve, listing.max, sizeof *f.numbers);
        f.buf = aw_carve_take(&carve, BUFFER_BYTES, 1);
        if (pass == 0 && !(f.block = aw_alloc_new(alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory to read the log");
    }
    listing = (struct listing){.numbers = f.numbers, .max = listing.max};
    err = ops->list(disk->self, path, list_name, &listing, diag);
    if (err) {
        aw_alloc_free(alloc, f.block);
        return err;
    }
    /* files that appeared between the two looks are newer than what was asked for */
    f.count = listing.count < listing.max ? listing.count : listing.max;
    if (f.count)
        qsort(f.numbers, f.count, sizeof *f.numbers, by_number);
    *folder = f;
    return AW_OK;
}

void aw__audit_folder_close(struct aw__audit_folder *folder)
{
    if (folder->block) {
        folder->disk->ops->close(folder->disk->self, folder->file);
        aw_alloc_free(folder->alloc, folder->block);
    }
    *folder = (struct aw__audit_folder){.file = -1};
}

void aw__audit_folder_seek(struct aw__audit_folder *folder, uint32_t index, uint64_t offset)
{
    folder->disk->ops->close(folder->disk->self, folder->file);
    folder->file = -1;
    folder->index = index;
    folder->line_number = 0;
    folder->offset = offset;
    folder->start = folder->len = 0;
    if (index < folder->count)
        aw__audit_file_name(folder->numbers[index], folder->name, sizeof folder->name);
}

/* More of the file behind what is in the buffer. `*ret_end`: there is no more. */
static enum aw_err fill(struct aw__audit_folder *f, bool *ret_end, struct aw_diag *diag)
{
    char path[AW_DISK_PATH_MAX];
    size_t got = 0;
    enum aw_err err = AW_OK;
    if (f->file < 0 &&
        ((err = aw__audit_path(f->path, f->name, path, sizeof path, diag)) ||
         (err = f->disk->ops->open(f->disk->self, path, AW_DISK_READ, &f->file, diag))))
        return err;
    if (f->start) {
        memmove(f->buf, f->buf + f->start, f->len - f->start);
        f->len -= f->start;
        f->start = 0;
    }
    err = f->disk->ops->read(f->disk->self, f->file, f->offset, f->buf + f->len,
                             BUFFER_BYTES - f->len, &got, diag);
    if (err)
        aw__audit_place(diag, f->path, f->name);
    f->len += got;
    f->offset += got;
    *ret_end = got == 0;
    return err;
}

enum aw_err aw__audit_folder_next(struct aw__audit_folder *f, struct aw__audit_line *ret,
                                  struct aw_diag *diag)
{
    bool end = false, too_long = false;
    enum aw_err err = AW_OK;
    *ret = (struct aw__audit_line){.bytes = NULL};
    while (f->index < f->count) {
        const char *start = f->buf + f->start;
        size_t left = f->len - f->start;
        const char *newline = left ? memchr(start, '\n', left) : NULL;
        size_t len = newline ? (size_t)(newline - start) : left;
        if (!newline && !end && left < AW_AUDIT_LINE_MAX) {
            if ((err = fill(f, &end, diag)))
                return err;
            continue;
        }
        if (!newline && left == 0) { /* the end of this file */
            if (too_long)
                return AW_OK;
            aw__audit_folder_seek(f, f->index + 1, 0);
            end = false;
            continue;
        }
        if (!ret->bytes) {
            f->line_number++;
            *ret = (struct aw__audit_line){.bytes = start,
                                           .len = len,
                                           .index = f->index,
                                           .offset = f->offset - left,
                                           .whole = newline && len < AW_AUDIT_LINE_MAX};
        }
        f->start += len + (newline ? 1 : 0);
        if (newline || end)
            return AW_OK;
        /* Only its beginning fits. It is shown as nothing much: the buffer is needed to skip it. */
        too_long = true;
        ret->bytes = "";
        ret->len = 0;
    }
    return AW_OK;
}
