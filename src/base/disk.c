/* disk.c - the disk of the machine, through POSIX. */
#include "base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE   0600 /* what was decided, and why, is the owner's to read */
#define FOLDER_MODE 0700

/* AW_ERR_NOTFOUND for what will not appear by waiting; the rest is I/O. */
static enum aw_err fail_errno(struct aw_diag *diag, const char *path, const char *verb, int error)
{
    enum aw_err err = error == ENOENT || error == ENOTDIR ? AW_ERR_NOTFOUND
                      : error == EEXIST                   ? AW_ERR_EXISTS
                      : error == ENOMEM                   ? AW_ERR_NOMEM
                                                          : AW_ERR_IO;
    char text[128];
    return aw_fail_at(diag, err, path, 0, 0, NULL, "cannot %s: %s", verb,
                      strerror_r(error, text, sizeof text));
}

static enum aw_err posix_sync_folder(void *self, const char *folder, struct aw_diag *diag)
{
    (void)self;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(diag, folder, "open the folder", errno);
    int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    /* Some file systems cannot sync a folder and say EINVAL: nothing more can be done there. */
    return error && error != EINVAL ? fail_errno(diag, folder, "sync the folder", error) : AW_OK;
}

/* `path` is cut at its last slash for the call. */
static enum aw_err sync_parent(char *path, struct aw_diag *diag)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return posix_sync_folder(NULL, ".", diag);
    if (slash == path)
        return posix_sync_folder(NULL, "/", diag);
    *slash = '\0';
    enum aw_err err = posix_sync_folder(NULL, path, diag);
    *slash = '/';
    return err;
}

static enum aw_err posix_make_folder(void *self, const char *folder, struct aw_diag *diag)
{
    char part[AW_DISK_PATH_MAX];
    size_t len = strlen(folder);
    enum aw_err err = AW_OK;
    (void)self;
    if (len == 0 || len >= sizeof part)
        return aw_fail_at(diag, AW_ERR_RANGE, folder, 0, 0, NULL,
                          "expected a path of 1 to %u bytes", AW_DISK_PATH_MAX - 1);
    memcpy(part, folder, len + 1);
    while (len > 1 && part[len - 1] == '/')
        part[--len] = '\0';
    for (size_t i = 1; i <= len && !err; i++) {
        char end = part[i];
        struct stat st;
        if (end != '/' && end != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, FOLDER_MODE) == 0)
            err = sync_parent(part, diag);
        else {
            int error = errno; /* asked after, not before: another process may be making it too */
            if (stat(part, &st) != 0)
                err = fail_errno(diag, part, "make the folder", error);
            else if (!S_ISDIR(st.st_mode))
                err = aw_fail_at(diag, AW_ERR_EXISTS, part, 0, 0, NULL,
                                 "expected a folder, found something else");
        }
        part[i] = end;
    }
    return err;
}

static enum aw_err posix_list(void *self, const char *folder, aw_disk_visit *visit, void *ctx,
                              struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    (void)self;
    DIR *dir = opendir(folder);
    if (!dir)
        return fail_errno(diag, folder, "open the folder", errno);
    while (!err) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                err = fail_errno(diag, folder, "read the folder", errno);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            err = visit(ctx, entry->d_name);
    }
    closedir(dir);
    return err;
}

static enum aw_err posix_open(void *self, const char *path, enum aw_disk_mode mode, int *ret_file,
                              struct aw_diag *diag)
{
    int flags = mode == AW_DISK_READ     ? O_RDONLY
                : mode == AW_DISK_CREATE ? O_RDWR | O_CREAT | O_EXCL
                                         : O_RDWR | O_CREAT;
    (void)self;
    int fd = open(path, flags | O_CLOEXEC | O_NOCTTY, FILE_MODE);
    if (fd < 0)
        return fail_errno(diag, path, mode == AW_DISK_CREATE ? "create" : "open", errno);
    *ret_file = fd;
    return AW_OK;
}

static void posix_close(void *self, int file)
{
    (void)self;
    if (file >= 0)
        close(file);
}

static enum aw_err posix_read(void *self, int file, uint64_t offset, void *buf, size_t size,
                              size_t *ret_len, struct aw_diag *diag)
{
    size_t len = 0;
    (void)self;
    while (len < size) {
        ssize_t n = pread(file, (char *)buf + len, size - len, (off_t)(offset + len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(diag, NULL, "read", errno);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    *ret_len = len;
    return AW_OK;
}

static enum aw_err posix_write(void *self, int file, uint64_t offset, const void *bytes, size_t len,
                               struct aw_diag *diag)
{
    (void)self;
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(file, (const char *)bytes + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(diag, NULL, "write", errno);
        done += (size_t)n;
    }
    return AW_OK;
}

static enum aw_err posix_truncate(void *self, int file, uint64_t size, struct aw_diag *diag)
{
    (void)self;
    return ftruncate(file, (off_t)size) == 0 ? AW_OK : fail_errno(diag, NULL, "truncate", errno);
}

static enum aw_err posix_size(void *self, int file, uint64_t *ret_size, struct aw_diag *diag)
{
    struct stat st;
    (void)self;
    if (fstat(file, &st) != 0)
        return fail_errno(diag, NULL, "ask for the size", errno);
    *ret_size = (uint64_t)st.st_size;
    return AW_OK;
}

static enum aw_err posix_reserve(void *self, int file, uint64_t bytes, struct aw_diag *diag)
{
    int got;
    (void)self;
    do
        got = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
    while (got != 0 && errno == EINTR);
    if (got == 0)
        return AW_OK;
    if (errno == EOPNOTSUPP || errno == ENOSYS)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the file system cannot reserve blocks");
    return fail_errno(diag, NULL, "reserve blocks", errno);
}

static enum aw_err posix_sync(void *self, int file, struct aw_diag *diag)
{
    (void)self;
    return fsync(file) == 0 ? AW_OK : fail_errno(diag, NULL, "sync", errno);
}

static enum aw_err posix_lock(void *self, int file, struct aw_diag *diag)
{
    (void)self;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        return AW_OK;
    return errno == EWOULDBLOCK
               ? aw_fail(diag, AW_ERR_UNAVAILABLE, "in use by another process, which writes to it")
               : fail_errno(diag, NULL, "lock", errno);
}

static enum aw_err posix_rename(void *self, const char *from, const char *to, struct aw_diag *diag)
{
    (void)self;
    return rename(from, to) == 0 ? AW_OK : fail_errno(diag, from, "rename", errno);
}

static enum aw_err posix_unlink(void *self, const char *path, struct aw_diag *diag)
{
    (void)self;
    return unlink(path) == 0 ? AW_OK : fail_errno(diag, path, "remove", errno);
}

static const struct aw_disk_ops posix_ops = {
    .name = "posix",
    .make_folder = posix_make_folder,
    .list = posix_list,
    .sync_folder = posix_sync_folder,
    .open = posix_open,
    .close = posix_close,
    .read = posix_read,
    .write = posix_write,
    .truncate = posix_truncate,
    .size = posix_size,
    .reserve = posix_reserve,
    .sync = posix_sync,
    .lock = posix_lock,
    .rename = posix_rename,
    .unlink = posix_unlink,
};

const struct aw_disk aw_disk_posix = {.ops = &posix_ops, .self = NULL};
