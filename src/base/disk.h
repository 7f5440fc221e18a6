/*
 * disk.h - what something that must not lose bytes asks of a disk, as a table of functions.
 *
 * Two keep the promise: the disk of the machine (aw_disk_posix), and one in memory whose power can
 * be cut at every step (base/disk_sim.h). Code that is written against this contract is tested
 * against both.
 *
 * Call order: open, then read, write, sync, truncate and size in any order, then close. Paths are
 *             as the operating system takes them; a folder must exist before a file in it.
 * Memory:     nothing is allocated by the real one.
 * Threads:    the real one is safe everywhere; a file has one owner.
 *
 * The trap: a write is in a cache until sync of the file has returned AW_OK; a new name, a new file
 * among them, until sync_folder of its folder has. And after a sync that failed the cache may claim
 * to hold what the disk never got: write it again, do not only sync it again (fsync(2), and
 * "Can applications recover from fsync failures?", Rebello et al., USENIX ATC 2020).
 */
#ifndef AW_BASE_DISK_H
#define AW_BASE_DISK_H

#include <aware/err.h>

#define AW_DISK_PATH_MAX 4096u /* bytes of a path, with its NUL */

enum aw_disk_mode {
    AW_DISK_READ,   /* AW_ERR_NOTFOUND: no such file */
    AW_DISK_WRITE,  /* to read and write; created empty (0600) where it is missing */
    AW_DISK_CREATE, /* the same; AW_ERR_EXISTS: it is there already */
};

/* A name inside a folder, without the folder. Not AW_OK: the walk ends, and returns this. */
typedef enum aw_err aw_disk_visit(void *ctx, const char *name);

/* All failures but those named are AW_ERR_IO (no space, a broken disk, not allowed, read-only),
 * with a diagnostic that says why; worth trying again later. Functions that take a path name it
 * there, those that take an open file leave that to the caller. Outputs are untouched on failure.
 * No slot is ever NULL. */
struct aw_disk_ops {
    const char *name;

    /* Makes a folder (0700) and its parents where they are missing, and makes that durable.
     * AW_ERR_EXISTS: there is something else of that name. */
    enum aw_err (*make_folder)(void *self, const char *folder, struct aw_diag *diag);
    /* Every name but "." and "..", in no order. AW_ERR_NOTFOUND: no such folder. */
    enum aw_err (*list)(void *self, const char *folder, aw_disk_visit *visit, void *ctx,
                        struct aw_diag *diag);
    /* Makes durable which names were made, changed or removed in the folder. */
    enum aw_err (*sync_folder)(void *self, const char *folder, struct aw_diag *diag);

    enum aw_err (*open)(void *self, const char *path, enum aw_disk_mode mode, int *ret_file,
                        struct aw_diag *diag);
    void (*close)(void *self, int file); /* -1 is a no-op; does not sync */
    /* Fewer bytes than asked for: the end of the file. */
    enum aw_err (*read)(void *self, int file, uint64_t offset, void *buf, size_t size,
                        size_t *ret_len, struct aw_diag *diag);
    /* All of it, or a failure that may have written any part of it. A gap reads as zeros. */
    enum aw_err (*write)(void *self, int file, uint64_t offset, const void *bytes, size_t len,
                         struct aw_diag *diag);
    enum aw_err (*truncate)(void *self, int file, uint64_t size, struct aw_diag *diag);
    enum aw_err (*size)(void *self, int file, uint64_t *ret_size, struct aw_diag *diag);
    /* Blocks for the first `bytes` bytes of the file, whose size stays as it is: writes there do
     * not fail for want of space. A truncation may give them back. AW_ERR_UNAVAILABLE: the file
     * system cannot do that. */
    enum aw_err (*reserve)(void *self, int file, uint64_t bytes, struct aw_diag *diag);
    /* Makes content and size of the file durable. */
    enum aw_err (*sync)(void *self, int file, struct aw_diag *diag);
    /* Keeps other processes that ask for it too out, until the file is closed or its owner is dead.
     * AW_ERR_UNAVAILABLE: another one has it. */
    enum aw_err (*lock)(void *self, int file, struct aw_diag *diag);

    /* Replaces what is at `to` in one step. Both are in the same folder. */
    enum aw_err (*rename)(void *self, const char *from, const char *to, struct aw_diag *diag);
    /* AW_ERR_NOTFOUND: no such file. */
    enum aw_err (*unlink)(void *self, const char *path, struct aw_diag *diag);
};

struct aw_disk {
    const struct aw_disk_ops *ops;
    void *self;
};

/* The disk of the machine. Passing NULL for a disk anywhere means this one. */
extern const struct aw_disk aw_disk_posix;

#endif
