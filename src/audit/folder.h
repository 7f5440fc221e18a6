/*
 * folder.h - the files of an audit log, and their lines one after the other. Inside audit alone.
 *
 * Call order: aw__audit_folder_open, aw__audit_folder_seek, aw__audit_folder_next until it has no
 *             line, aw__audit_folder_close.
 * Memory:     one block at open.
 */
#ifndef AW_AUDIT_FOLDER_H
#define AW_AUDIT_FOLDER_H

#include "audit/line.h"

#define AW__AUDIT_NUMBER_MAX 99999999u

struct aw__audit_folder {
    const struct aw_disk *disk;
    const struct aw_alloc *alloc;
    const char *path;
    void *block;
    uint32_t *numbers; /* [count] of its files, ascending */
    uint32_t count;

    uint32_t index; /* of the file that is read; `count`: none is left */
    int file;       /* -1: none is open */
    char name[AW_AUDIT_NAME_MAX];
    uint32_t line_number;
    char *buf;
    uint64_t offset; /* in the file, of what follows the buffer */
    size_t start, len;
};

/* "audit-00000001.jsonl". Returns `buf`. */
const char *aw__audit_file_name(uint32_t number, char *buf, size_t size);
/* AW_ERR_LIMIT: the path is too long. */
AW_NODISCARD enum aw_err aw__audit_path(const char *folder, const char *name, char *buf,
                                        size_t size, struct aw_diag *diag);
/* Puts folder/name into a diagnostic, which may be NULL; what is too long is cut at its left. */
void aw__audit_place(struct aw_diag *diag, const char *folder, const char *name);

/* On failure `folder` is zeroed, but for its file; close of it is a no-op. AW_ERR_NOTFOUND: no such
 * folder. A folder without a log has a count of 0. `path` is borrowed. */
AW_NODISCARD enum aw_err aw__audit_folder_open(struct aw__audit_folder *folder,
                                               const struct aw_disk *disk, const char *path,
                                               const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__audit_folder_close(struct aw__audit_folder *folder);

/* The next line will be the one that begins at `offset` of the index-th file, or the end. */
void aw__audit_folder_seek(struct aw__audit_folder *folder, uint32_t index, uint64_t offset);

struct aw__audit_line {
    const char *bytes; /* without its newline; until the next call. NULL: there is no line left */
    size_t len;
    uint32_t index;  /* of its file */
    uint64_t offset; /* in its file */
    bool whole;      /* it has a newline, and is not longer than AW_AUDIT_LINE_MAX with it */
};
/* A line that is too long is given as an empty one that is not whole. AW_ERR_NOTFOUND: a file was
 * removed since the folder was opened. */
AW_NODISCARD enum aw_err aw__audit_folder_next(struct aw__audit_folder *folder,
                                               struct aw__audit_line *ret, struct aw_diag *diag);

#endif
