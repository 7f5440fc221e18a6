/*
 * file.h - whole files in, whole files out, and never half a file.
 *
 * Replacing: aw_file_replace, or for large content aw_file_writer open, write any number of times,
 * then commit or abort. The bytes go to a temporary file in the same directory, which is synced,
 * renamed over the target, and made durable by syncing the directory.
 *
 * Memory:  reading takes blocks from the allocator given; writing allocates nothing.
 * Threads: no shared state but a counter of temporary names, which is atomic.
 *
 * Links at the end of a path are followed: the file that they name is replaced. What is no regular
 * file (a character device, a pipe, /dev/stdout) is never replaced but written through, in place.
 */
#ifndef AW_BASE_FILE_H
#define AW_BASE_FILE_H

#include "base/alloc.h"

#define AW_FILE_PATH_MAX 4096u /* bytes of a path, with its NUL */

/* Reads all of a file, at most `bytes_max`, into one block that the caller frees with
 * aw_alloc_free; a NUL follows the content. AW_ERR_NOTFOUND: no such file, or a directory.
 * AW_ERR_LIMIT: larger. Outputs are untouched on failure. */
AW_NODISCARD enum aw_err aw_file_read(const char *path, size_t bytes_max,
                                      const struct aw_alloc *alloc, char **ret_bytes,
                                      size_t *ret_len, struct aw_diag *diag);
/* Opens a file for reading. A pipe is waited for until a process has written to it, `wait_ms` at
 * most: AW_ERR_UNAVAILABLE. What has no end, a device but a terminal and /dev/null, is refused:
 * AW_ERR_UNSUPPORTED. */
#define AW_FILE_WAIT_MS 5000
AW_NODISCARD enum aw_err aw_file_open(const char *path, int wait_ms, int *ret_fd,
                                      struct aw_diag *diag);
/* The same from an open descriptor, e.g. standard input; `name` is for diagnostics. */
AW_NODISCARD enum aw_err aw_file_read_fd(int fd, const char *name, size_t bytes_max,
                                         const struct aw_alloc *alloc, char **ret_bytes,
                                         size_t *ret_len, struct aw_diag *diag);

#define AW_TOKEN_MIN 16u  /* fewer bytes could be guessed */
#define AW_TOKEN_MAX 257u /* with its NUL */

/* A token: the first line of a file that its owner reads, and at most a group of this process
 * beside (a kubelet hands Secrets to a pod's fsGroup, 0440). `ret_token` has AW_TOKEN_MAX bytes,
 * those behind the token zero. AW_ERR_CONFIG: too short, too long, not printable, or other users
 * have rights to it. */
AW_NODISCARD enum aw_err aw_file_read_token(const char *path, char *ret_token,
                                            struct aw_diag *diag);

/* For tests: makes one operation of a replacement fail. NULL where one may be passed: no fault. */
struct aw_file_fault {
    uint32_t fail_at;  /* 1: the first of open, write, sync, close, rename, ...; 0: none */
    bool crash;        /* everything after it fails too, as if the power had gone */
    uint32_t op_count; /* operations seen so far */
};

/* Replaces the content of `path`, creating it if need be; an existing file keeps its mode. On
 * failure the old content is in place and no temporary file is left, with one exception that the
 * diagnostic names: when only the last sync of the directory fails, the new content is in place but
 * might not survive a power cut. A block device is refused, and so is a pipe without a reader. */
AW_NODISCARD enum aw_err aw_file_replace(const char *path, const void *bytes, size_t len,
                                         struct aw_file_fault *fault, struct aw_diag *diag);

/* The same in pieces. Zeroed and after commit or abort it is closed. */
struct aw_file_writer {
    int fd_plus_1; /* 0: closed */
    struct aw_file_fault *fault;
    char path[AW_FILE_PATH_MAX];
    char temp[AW_FILE_PATH_MAX]; /* "": written in place */
};
/* On failure the writer is closed and nothing is left behind. */
AW_NODISCARD enum aw_err aw_file_writer_open(struct aw_file_writer *writer, const char *path,
                                             struct aw_file_fault *fault, struct aw_diag *diag);
/* On failure the writer is still open: abort it. */
AW_NODISCARD enum aw_err aw_file_writer_write(struct aw_file_writer *writer, const void *bytes,
                                              size_t len, struct aw_diag *diag);
/* Closes the writer whatever the outcome, as aw_file_replace does. */
AW_NODISCARD enum aw_err aw_file_writer_commit(struct aw_file_writer *writer, struct aw_diag *diag);
/* Drops what was written; a closed or zeroed writer is a no-op. */
void aw_file_writer_abort(struct aw_file_writer *writer);

/* Makes a directory and its parents where they are missing. AW_ERR_EXISTS: a part of the path is
 * there and is not a directory. */
AW_NODISCARD enum aw_err aw_file_mkdirs(const char *path, struct aw_diag *diag);

/* The program `name` beside the one that runs; where there is none, `name` alone, for PATH. */
void aw_file_program_beside(const char *name, char *buf, size_t size);

#endif
