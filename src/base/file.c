/*
 * file.c - reading whole files, replacing them atomically, making directories.
 *
 * Why each step of a replacement: without the sync of the file a crash can leave the new name with
 * no content (rename may reach the disk before the data); without the sync of the directory the
 * rename itself may be lost after success was reported. See fsync(2) and rename(2).
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READ_BYTES_MIN    ((size_t)4096) /* first guess for what has no size, e.g. a pipe */
#define TEMP_ATTEMPTS_MAX 100
#define TEMP_SUFFIX_BYTES ((size_t)40) /* ".PID-COUNT.tmp" */
#define GROUPS_MAX        1024         /* that a process is asked for */
#define LINKS_MAX         40           /* as the kernel: path_resolution(7) */

/* AW_ERR_NOTFOUND for what will not appear by waiting; the rest is I/O. */
static enum aw_err fail_errno(struct aw_diag *diag, const char *path, const char *verb, int error)
{
    enum aw_err err = error == ENOENT || error == ENOTDIR || error == EISDIR ? AW_ERR_NOTFOUND
                      : error == ENOMEM                                      ? AW_ERR_NOMEM
                                                                             : AW_ERR_IO;
    char text[128];
    return aw_fail_at(diag, err, path, 0, 0, NULL, "cannot %s: %s", verb,
                      strerror_r(error, text, sizeof text));
}

static ssize_t read_some(int fd, void *buf, size_t size)
{
    ssize_t n;
    do
        n = read(fd, buf, size);
    while (n < 0 && errno == EINTR);
    return n;
}

enum aw_err aw_file_read_fd(int fd, const char *name, size_t bytes_max,
                            const struct aw_alloc *alloc, char **ret_bytes, size_t *ret_len,
                            struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    struct stat st;
    char *bytes = NULL;
    size_t len = 0, size = READ_BYTES_MIN;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        if ((uintmax_t)st.st_size > bytes_max)
            goto too_large;
        size = (size_t)st.st_size + 2; /* room for the NUL, and to see the end without growing */
    }
    bytes = aw_alloc_new(alloc, size, 1);
    for (;;) {
        if (!bytes) {
            err = aw_fail_at(diag, AW_ERR_NOMEM, name, 0, 0, NULL, "out of memory");
            goto out;
        }
        ssize_t n = read_some(fd, bytes + len, size - 1 - len);
        if (n < 0) {
            err = fail_errno(diag, name, "read", errno);
            goto out;
        }
        len += (size_t)n;
        if (len > bytes_max)
            goto too_large;
        if (n == 0)
            break;
        if (len < size - 1)
            continue;
        char *larger = aw_alloc_new(alloc, size, 2);
        if (larger)
            memcpy(larger, bytes, len);
        aw_alloc_free(alloc, bytes);
        bytes = larger;
        size *= 2;
    }
    bytes[len] = 0;
    *ret_bytes = bytes;
    *ret_len = len;
    return AW_OK;

too_large:
    err = aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, NULL, "expected at most %zu bytes, found more",
                     bytes_max);
out:
    aw_alloc_free(alloc, bytes);
    return err;
}

enum aw_err aw_file_open(const char *path, int wait_ms, int *ret_fd, struct aw_diag *diag)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0) {
        const enum aw_err err = fail_errno(diag, path, "open", errno);
        if (fd >= 0)
            close(fd);
        return err;
    }
    enum aw_err err = AW_OK;
    const bool null = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3); /* null(4) */
    if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !null && !isatty(fd)))
        err = aw_fail_at(diag, AW_ERR_UNSUPPORTED, path, 0, 0, NULL,
                         "expected a file, found a device");
    if (S_ISFIFO(st.st_mode) && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, wait_ms) == 0)
        err = aw_fail_at(diag, AW_ERR_UNAVAILABLE, path, 0, 0, NULL,
                         "nothing was written to this pipe for %g s", wait_ms / 1e3);
    const int flags = fcntl(fd, F_GETFL);
    if (!err && (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0))
        err = fail_errno(diag, path, "open", errno);
    if (err)
        close(fd);
    else
        *ret_fd = fd;
    return err;
}

enum aw_err aw_file_read(const char *path, size_t bytes_max, const struct aw_alloc *alloc,
                         char **ret_bytes, size_t *ret_len, struct aw_diag *diag)
{
    int fd = -1;
    enum aw_err err = aw_file_open(path, AW_FILE_WAIT_MS, &fd, diag);
    if (err)
        return err;
    err = aw_file_read_fd(fd, path, bytes_max, alloc, ret_bytes, ret_len, diag);
    close(fd);
    return err;
}

static bool in_own_group(gid_t group)
{
    gid_t groups[GROUPS_MAX];
    if (group == getegid())
        return true;
    for (int i = getgroups(GROUPS_MAX, groups); i-- > 0;)
        if (groups[i] == group)
            return true;
    return false;
}

enum aw_err aw_file_read_token(const char *path, char *ret_token, struct aw_diag *diag)
{
    char text[AW_TOKEN_MAX + 1];
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_errno(diag, path, "open", errno);
    const int error = fstat(fd, &st) ? errno : 0;
    const ssize_t got = read_some(fd, text, sizeof text - 1);
    close(fd);
    if (error || got < 0)
        return fail_errno(diag, path, "read", error ? error : errno);
    const mode_t may = in_own_group(st.st_gid) ? S_IRGRP : 0;
    if (st.st_mode & (S_IRWXG | S_IRWXO) & ~may)
        return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                          "others have rights to the token (mode %03o): chmod 600 it",
                          (unsigned)(st.st_mode & 0777));
    text[got] = '\0';
    const size_t len = strcspn(text, "\r\n");
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return aw_fail_at(diag, AW_ERR_CONFIG, path, 1, (uint32_t)i + 1, NULL,
                              "expected a token of printable ASCII without spaces");
    if (len < AW_TOKEN_MIN || len >= AW_TOKEN_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, path, 0, 0, NULL,
                          "expected a token of %u to %u bytes, found %zu; e.g. `openssl rand -hex "
                          "24`",
                          AW_TOKEN_MIN, AW_TOKEN_MAX - 1, len);
    memset(ret_token, 0, AW_TOKEN_MAX);
    memcpy(ret_token, text, len);
    return AW_OK;
}

/* Counts an operation; true when it is to fail, with errno set. */
static bool fault_hits(struct aw_file_fault *fault)
{
    if (!fault)
        return false;
    fault->op_count++;
    bool hit = fault->fail_at && (fault->op_count == fault->fail_at ||
                                  (fault->crash && fault->op_count > fault->fail_at));
    if (hit)
        errno = EIO;
    return hit;
}

static int faulty_sync(int fd, struct aw_file_fault *fault)
{
    return fault_hits(fault) ? -1 : fsync(fd);
}

/* The descriptor is gone afterwards whatever close says. */
static int faulty_close(int fd, struct aw_file_fault *fault)
{
    bool hit = fault_hits(fault);
    int result = close(fd);
    return hit ? -1 : result;
}

static int faulty_rename(const char *from, const char *to, struct aw_file_fault *fault)
{
    return fault_hits(fault) ? -1 : rename(from, to);
}

static int faulty_open(const char *path, int flags, mode_t mode, struct aw_file_fault *fault)
{
    return fault_hits(fault) ? -1 : open(path, flags | O_CLOEXEC, mode);
}

static void faulty_unlink(const char *path, struct aw_file_fault *fault)
{
    if (!fault_hits(fault))
        unlink(path);
}

/* A write that fails has written half: that is how disks fill up. */
static ssize_t faulty_write(int fd, const void *bytes, size_t len, struct aw_file_fault *fault)
{
    if (!fault_hits(fault))
        return write(fd, bytes, len);
    if (fault->op_count == fault->fail_at) {
        ssize_t half = write(fd, bytes, len / 2);
        (void)half;
    }
    errno = ENOSPC;
    return -1;
}

static bool in_proc(const char *path)
{
    return strncmp(path, "/proc/", 6) == 0;
}

static void directory_of(const char *path, char *buf, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(buf, size, ".");
    else
        snprintf(buf, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Follows the links at the end of a path, so that the file they name is replaced and the links
 * stay: `path` becomes the file's own. Returns 0 or an errno. What lies under /proc is a name of an
 * open descriptor, which no path can stand for: it is left as it is. */
static int follow_links(char *path, size_t size)
{
    char target[AW_FILE_PATH_MAX], directory[AW_FILE_PATH_MAX];
    for (int link = 0; link < LINKS_MAX; link++) {
        const ssize_t len = in_proc(path) ? -1 : readlink(path, target, sizeof target - 1);
        if (len < 0)
            return 0; /* no link, or nothing there: open says what is wrong */
        target[len] = 0;
        directory_of(path, directory, sizeof directory);
        const bool absolute = target[0] == '/';
        const int need =
            snprintf(path, size, "%s%s%s", absolute ? "" : directory, absolute ? "" : "/", target);
        if (need < 0 || (size_t)need >= size)
            return ENAMETOOLONG;
    }
    return ELOOP;
}

/* A device or a pipe is written through, as a shell does; nothing waits for a reader of a pipe. */
static enum aw_err open_through(struct aw_file_writer *writer, const struct stat *st,
                                struct aw_diag *diag)
{
    const int none = S_ISBLK(st->st_mode) ? ENOTSUP : 0;
    const int fd = none ? -1
                        : faulty_open(writer->path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY, 0,
                                      writer->fault);
    if (fd < 0)
        return fail_errno(diag, writer->path, "write", none ? none : errno);
    writer->fd_plus_1 = fd + 1;
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0)
        return AW_OK;
    enum aw_err err = fail_errno(diag, writer->path, "write", errno);
    aw_file_writer_abort(writer);
    return err;
}

enum aw_err aw_file_writer_open(struct aw_file_writer *writer, const char *path,
                                struct aw_file_fault *fault, struct aw_diag *diag)
{
    static atomic_uint counter;
    writer->fd_plus_1 = 0;
    writer->fault = fault;
    writer->temp[0] = 0;
    if (strlen(path) + TEMP_SUFFIX_BYTES > sizeof writer->path)
        return aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, NULL, "the path is too long");
    memcpy(writer->path, path, strlen(path) + 1);
    struct stat st;
    /* The kernel follows the links first: it refuses those that others planted in /tmp. */
    const bool exists = stat(path, &st) == 0;
    int error = exists || errno == ENOENT ? 0 : errno;
    if (!error)
        error = exists && S_ISDIR(st.st_mode)
                    ? EISDIR
                    : follow_links(writer->path, sizeof writer->path - TEMP_SUFFIX_BYTES);
    if (error)
        return fail_errno(diag, path, "write", error);
    if (exists && (!S_ISREG(st.st_mode) || in_proc(writer->path)))
        return open_through(writer, &st, diag);
    int fd = -1;
    /* Not mkstemp: its files are 0600, and what the umask allows cannot be asked for safely. */
    for (int attempt = 0; fd < 0 && attempt < TEMP_ATTEMPTS_MAX; attempt++) {
        snprintf(writer->temp, sizeof writer->temp, "%.*s.%ld-%u.tmp",
                 (int)(sizeof writer->path - TEMP_SUFFIX_BYTES), writer->path, (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        fd = faulty_open(writer->temp, O_WRONLY | O_CREAT | O_EXCL, 0666, fault);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        return fail_errno(diag, path, "create a temporary file beside it", errno);
    writer->fd_plus_1 = fd + 1;
    if (exists && fchmod(fd, st.st_mode & 07777) != 0) {
        enum aw_err err = fail_errno(diag, path, "keep its mode", errno);
        aw_file_writer_abort(writer);
        return err;
    }
    return AW_OK;
}

enum aw_err aw_file_writer_write(struct aw_file_writer *writer, const void *bytes, size_t len,
                                 struct aw_diag *diag)
{
    AW_ASSERT(writer->fd_plus_1 > 0);
    const char *at = bytes;
    while (len) {
        ssize_t n = faulty_write(writer->fd_plus_1 - 1, at, len, writer->fault);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(diag, writer->path, "write", errno);
        at += n;
        len -= (size_t)n;
    }
    return AW_OK;
}

void aw_file_writer_abort(struct aw_file_writer *writer)
{
    if (writer->fd_plus_1 == 0)
        return;
    faulty_close(writer->fd_plus_1 - 1, writer->fault);
    if (writer->temp[0])
        faulty_unlink(writer->temp, writer->fault);
    writer->fd_plus_1 = 0;
}

static int sync_directory(const char *path, struct aw_file_fault *fault)
{
    char directory[AW_FILE_PATH_MAX];
    directory_of(path, directory, sizeof directory);
    int fd = faulty_open(directory, O_RDONLY | O_DIRECTORY, 0, fault);
    if (fd < 0)
        return -1;
    int result = faulty_sync(fd, fault);
    int error = errno;
    close(fd);
    errno = error;
    /* Some file systems cannot sync a directory and say EINVAL: nothing more can be done there. */
    return result != 0 && error != EINVAL ? -1 : 0;
}

enum aw_err aw_file_writer_commit(struct aw_file_writer *writer, struct aw_diag *diag)
{
    AW_ASSERT(writer->fd_plus_1 > 0);
    const char *verb = NULL;
    int error = 0;
    const bool through = !writer->temp[0];
    /* A device or a pipe has nothing to sync, and says EINVAL. */
    if (faulty_sync(writer->fd_plus_1 - 1, writer->fault) != 0 && !(through && errno == EINVAL)) {
        enum aw_err err = fail_errno(diag, writer->path, "sync", errno);
        aw_file_writer_abort(writer);
        return err;
    }
    int closed = faulty_close(writer->fd_plus_1 - 1, writer->fault);
    writer->fd_plus_1 = 0;
    if (closed != 0) {
        error = errno;
        verb = "close";
    } else if (!through && faulty_rename(writer->temp, writer->path, writer->fault) != 0) {
        error = errno;
        verb = "replace";
    }
    if (verb) {
        if (!through)
            faulty_unlink(writer->temp, writer->fault);
        return fail_errno(diag, writer->path, verb, error);
    }
    if (!through && sync_directory(writer->path, writer->fault) != 0)
        return fail_errno(diag, writer->path, "sync its directory (the new content is in place)",
                          errno);
    return AW_OK;
}

enum aw_err aw_file_replace(const char *path, const void *bytes, size_t len,
                            struct aw_file_fault *fault, struct aw_diag *diag)
{
    struct aw_file_writer writer;
    enum aw_err err = aw_file_writer_open(&writer, path, fault, diag);
    if (err)
        return err;
    err = aw_file_writer_write(&writer, bytes, len, diag);
    if (err) {
        aw_file_writer_abort(&writer);
        return err;
    }
    return aw_file_writer_commit(&writer, diag);
}

enum aw_err aw_file_mkdirs(const char *path, struct aw_diag *diag)
{
    char part[AW_FILE_PATH_MAX];
    size_t len = strlen(path);
    if (len == 0)
        return fail_errno(diag, path, "make the directory", ENOENT);
    if (len >= sizeof part)
        return aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, NULL, "the path is too long");
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != 0)
            continue;
        part[i] = 0;
        struct stat st;
        /* Asking after a failure, not before: another process may be making the same path. */
        if (mkdir(part, 0777) != 0) {
            int error = errno;
            if (stat(part, &st) != 0)
                return fail_errno(diag, part, "make the directory", error);
            if (!S_ISDIR(st.st_mode))
                return aw_fail_at(diag, AW_ERR_EXISTS, part, 0, 0, NULL,
                                  "expected a directory, found something else");
        }
        part[i] = path[i];
    }
    return AW_OK;
}

void aw_file_program_beside(const char *name, char *buf, size_t size)
{
    char path[PATH_MAX];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    snprintf(buf, size, "%s", name);
    if (len <= 0)
        return;
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    const size_t left = slash ? sizeof path - (size_t)(slash + 1 - path) : 0;
    if (strlen(name) >= left)
        return;
    snprintf(slash + 1, left, "%s", name);
    if (access(path, X_OK) == 0 && strlen(path) < size)
        snprintf(buf, size, "%s", path);
}
