/* lock.c - one writer per file. */
#include "store/sqlite/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define ATTEMPTS_MAX 100 /* someone may unlink the file between our open and our lock */
#define PID_TEXT_MAX 24

static enum aw_err fail_errno(struct aw_diag *diag, const char *path, const char *verb, int error)
{
    char text[128];
    return aw_fail_at(diag, error == ENOENT || error == ENOTDIR ? AW_ERR_NOTFOUND : AW_ERR_IO, path,
                      0, 0, NULL, "cannot %s: %s", verb, strerror_r(error, text, sizeof text));
}

static enum aw_err fail_in_use(struct aw_diag *diag, const char *file, int fd)
{
    char text[PID_TEXT_MAX] = "";
    uint64_t pid;
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    text[len > 0 ? strcspn(text, "\n") : 0] = '\0';
    if (aw_text_parse_u64(text, &pid))
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, file, 0, 0, NULL,
                          "in use by another process, which writes to it");
    return aw_fail_at(diag, AW_ERR_UNAVAILABLE, file, 0, 0, NULL,
                      "in use by another process (%ju), which writes to it", (uintmax_t)pid);
}

/* True when `fd` is still what `path` names. */
static bool is_current(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

enum aw_err aw__lock_take(struct aw__lock *lock, const char *file, struct aw_diag *diag)
{
    *lock = (struct aw__lock){0};
    int len = snprintf(lock->path, sizeof lock->path, "%s-lock", file);
    if (len < 0 || (size_t)len >= sizeof lock->path)
        return aw_fail(diag, AW_ERR_LIMIT, "the path is longer than %u bytes",
                       AW_FILE_PATH_MAX - 6);
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        int fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return fail_errno(diag, lock->path, "create", errno);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            enum aw_err err = errno == EWOULDBLOCK ? fail_in_use(diag, file, fd)
                                                   : fail_errno(diag, lock->path, "lock", errno);
            close(fd);
            return err;
        }
        if (is_current(fd, lock->path)) {
            /* the id is a courtesy to whoever is refused: without it they are refused all the same
             */
            char text[PID_TEXT_MAX];
            int n = snprintf(text, sizeof text, "%jd\n", (intmax_t)getpid());
            if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
                errno = 0;
            lock->fd_plus_1 = fd + 1;
            return AW_OK;
        }
        close(fd);
    }
    return aw_fail_at(diag, AW_ERR_UNAVAILABLE, file, 0, 0, NULL, "other processes fight for it");
}

void aw__lock_drop(struct aw__lock *lock)
{
    if (lock->fd_plus_1) {
        unlink(lock->path); /* while the lock is held; who waits looks again, see is_current */
        close(lock->fd_plus_1 - 1);
    }
    *lock = (struct aw__lock){0};
}
