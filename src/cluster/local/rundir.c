/* rundir.c - directories of runs: made, found dead, cleared. */
#include "cluster/local/rundir.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cluster/local/cgroup_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK      "lock"
#define STATE     "state"
#define NAME_MAX_ 48 /* bytes of a name in a run */
#define MAGIC     "aware-local 1"
/* Between fork and exec a replica still has its parent's lock. */
#define LOCK_TRIES    10
#define LOCK_PAUSE_US 5000

enum aw_err aw__rundir_id(char ret_id[AW__CGROUP_ID_MAX], struct aw_diag *diag)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return aw_fail(diag, AW_ERR_IO, "no random number for the name of a run");
    snprintf(ret_id, AW__CGROUP_ID_MAX, "%016llx", (unsigned long long)number);
    return AW_OK;
}

static bool is_id(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
}

static const char *join(char *buf, const char *dir, const char *name)
{
    snprintf(buf, AW__RUNDIR_PATH_MAX, "%.*s/%.*s", (int)AW__RUNDIR_PATH_MAX - NAME_MAX_ - 2, dir,
             NAME_MAX_, name);
    return buf;
}

/* --- the state -------------------------------------------------------------------------------- */

enum aw_err aw__rundir_state_write(const struct aw__cgroup_tree *tree, char *buf, size_t size)
{
    struct aw_text text;
    char lent[AW__CGROUP_SET_TEXT];
    aw_text_init(&text, buf, size);
    aw_text_add(&text, MAGIC "\nid %s\nversion %u\n", tree->id, tree->version);
    for (uint32_t i = 0; i < tree->part_count; i++)
        aw_text_add(&text, "group %s\n", tree->part[i]);
    if (tree->lent)
        aw_text_add(&text, "lent %s\n", aw__cgroup_set_text(tree->lent, "", lent));
    aw_text_add(&text, "end\n");
    return text.cut ? AW_ERR_LIMIT : AW_OK;
}

/* The rest of a line that begins with `key` and a space; NULL: it does not. Moves on. */
static const char *line_of(const char **text, const char *key, size_t *ret_len)
{
    const size_t len = strlen(key);
    if (strncmp(*text, key, len) != 0 || (*text)[len] != ' ')
        return NULL;
    const char *value = *text + len + 1;
    *ret_len = strcspn(value, "\n");
    if (value[*ret_len] != '\n')
        return NULL;
    *text = value + *ret_len + 1;
    return value;
}

enum aw_err aw__rundir_state_read(const char *text, struct aw__cgroup_tree *ret_tree)
{
    struct aw__cgroup_tree tree = {0};
    char suffix[AW__CGROUP_ID_MAX + sizeof AW__CGROUP_PREFIX + 1];
    size_t len;
    const char *value;
    if (strncmp(text, MAGIC "\n", strlen(MAGIC "\n")) != 0)
        return AW_ERR_FORMAT;
    text += strlen(MAGIC "\n");
    if (!(value = line_of(&text, "id", &len)) || len >= sizeof tree.id)
        return AW_ERR_FORMAT;
    memcpy(tree.id, value, len);
    if (!is_id(tree.id))
        return AW_ERR_FORMAT;
    if (!(value = line_of(&text, "version", &len)) || len != 1 || (*value != '1' && *value != '2'))
        return AW_ERR_FORMAT;
    tree.version = (uint32_t)(*value - '0');
    snprintf(suffix, sizeof suffix, "/" AW__CGROUP_PREFIX "%s", tree.id);
    while ((value = line_of(&text, "group", &len))) {
        char *part = tree.part[tree.part_count];
        const size_t tail = strlen(suffix);
        if (tree.part_count == AW__CGROUP_ROLES || len >= AW__CGROUP_TREE_MAX || len <= tail)
            return AW_ERR_FORMAT;
        memcpy(part, value, len);
        part[len] = '\0';
        if (*part != '/' || strcmp(part + len - tail, suffix) != 0 || strstr(part, "/../"))
            return AW_ERR_FORMAT;
        tree.part_count++;
    }
    if ((value = line_of(&text, "lent", &len))) {
        char lent[AW__CGROUP_SET_TEXT], again[AW__CGROUP_SET_TEXT];
        snprintf(lent, sizeof lent, "%.*s", (int)(len < sizeof lent ? len : 0), value);
        tree.lent = aw__cgroup_set_read(lent);
        if (!tree.lent || strcmp(aw__cgroup_set_text(tree.lent, "", again), lent) != 0)
            return AW_ERR_FORMAT;
    }
    if (strcmp(text, "end\n") != 0 || tree.part_count == 0)
        return AW_ERR_FORMAT;
    *ret_tree = tree;
    return AW_OK;
}

/* --- locks ------------------------------------------------------------------------------------ */

static enum aw_err failed(struct aw_diag *diag, const char *path)
{
    const int why = errno;
    const bool refused = why == EACCES || why == EPERM || why == EROFS;
    return aw_fail_at(diag, refused ? AW_ERR_UNSUPPORTED : AW_ERR_IO, path, 0, 0, NULL,
                      "%s; the local cluster needs a directory of its own, see --run-dir",
                      strerror(why));
}

/* Waits for whoever holds it. Returns a descriptor, or -1 with errno. */
static int lock_wait(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    while (flock(fd, LOCK_EX)) {
        if (errno == EINTR)
            continue;
        close(fd);
        return -1;
    }
    return fd;
}

/* Of a run that may be dead. Returns a descriptor; -1: somebody lives in it. */
static int lock_try(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        const enum aw_err err =
            aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + LOCK_PAUSE_US);
        (void)err; /* a signal only brings the next try forward */
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* For its owner alone: what lies in it is believed. */
static enum aw_err base_open(const char *base, bool make, int *ret_lock, struct aw_diag *diag)
{
    char path[AW__RUNDIR_PATH_MAX];
    struct stat st = {0};
    if (strlen(base) + 80 > AW__RUNDIR_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a path of at most %u bytes was expected, found %.64s",
                       AW__RUNDIR_PATH_MAX - 80, base);
    if (make) {
        enum aw_err err = aw_file_mkdirs(base, diag);
        if (err)
            return err;
    }
    /* looked at before it is changed, and what is changed is what was looked at: a link that others
     * have put there must not have us change the rights of what it points to */
    const int dir = open(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 && errno != ELOOP && errno != ENOTDIR)
        return errno == ENOENT && !make ? AW_ERR_NOTFOUND : failed(diag, base);
    const bool ours = dir >= 0 && fstat(dir, &st) == 0 && st.st_uid == geteuid();
    const bool closed = ours && (!make || fchmod(dir, 0700) == 0);
    const int why = errno;
    if (dir >= 0)
        close(dir);
    errno = why;
    if (!ours)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, base, 0, 0, NULL,
                          "expected a directory that belongs to user %ld", (long)geteuid());
    if (!closed)
        return failed(diag, base);
    const int fd = lock_wait(join(path, base, LOCK));
    if (fd < 0)
        return failed(diag, path);
    *ret_lock = fd;
    return AW_OK;
}

/* --- one run ---------------------------------------------------------------------------------- */

enum aw_err aw__rundir_make(struct aw__rundir *rundir, const char *base,
                            const struct aw__cgroup_tree *tree, struct aw_diag *diag)
{
    char path[AW__RUNDIR_PATH_MAX], text[4 * AW__CGROUP_PATH_MAX];
    int base_lock = -1;
    *rundir = (struct aw__rundir){0};
    enum aw_err err = aw__rundir_state_write(tree, text, sizeof text);
    if (err)
        return aw_fail(diag, err, "the state of a run does not fit");
    if ((err = base_open(base, true, &base_lock, diag)))
        return err;
    join(rundir->path, base, tree->id);
    if (mkdir(rundir->path, 0700)) {
        err = failed(diag, rundir->path);
        rundir->path[0] = '\0';
        goto out;
    }
    const int lock = lock_try(join(path, rundir->path, LOCK));
    if (lock < 0) {
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be locked");
        goto out;
    }
    rundir->lock_fd_plus_1 = lock + 1;
    err = aw_file_replace(join(path, rundir->path, STATE), text, strlen(text), NULL, diag);
out:
    if (err)
        aw__rundir_remove(rundir);
    close(base_lock);
    return err;
}

/* Every file in it: the state last, so that a remover that is killed can be followed by another. */
static void directory_remove(const char *dir)
{
    char path[AW__RUNDIR_PATH_MAX];
    DIR *open_dir = opendir(dir);
    if (!open_dir)
        return;
    for (const struct dirent *entry; (entry = readdir(open_dir));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, STATE) != 0 &&
            strcmp(entry->d_name, LOCK) != 0 && strlen(entry->d_name) <= NAME_MAX_)
            unlink(join(path, dir, entry->d_name));
    closedir(open_dir);
    unlink(join(path, dir, STATE));
    unlink(join(path, dir, LOCK));
    rmdir(dir);
}

void aw__rundir_remove(struct aw__rundir *rundir)
{
    if (rundir->path[0])
        directory_remove(rundir->path);
    if (rundir->lock_fd_plus_1)
        close(rundir->lock_fd_plus_1 - 1);
    *rundir = (struct aw__rundir){0};
}

/* --- dead runs -------------------------------------------------------------------------------- */

static enum aw_err run_clear(const char *dir, int64_t patience_us, struct aw__rundir_counts *counts,
                             struct aw_diag *diag)
{
    char path[AW__RUNDIR_PATH_MAX], text[4 * AW__CGROUP_PATH_MAX];
    struct aw__cgroup_tree tree;
    const int lock = lock_try(join(path, dir, LOCK));
    if (lock < 0) {
        counts->alive++;
        return AW_OK;
    }
    enum aw_err err = AW_OK;
    if (aw__cgroup_file_read(join(path, dir, STATE), text, sizeof text) >= 0) {
        if (aw__rundir_state_read(text, &tree))
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                             "not the state of a local run; remove it by hand");
        else
            err = aw__cgroup_drop(&tree, patience_us, diag);
    } /* without a state nothing else had been made yet */
    if (!err) {
        directory_remove(dir);
        counts->cleared++;
    }
    close(lock);
    return err;
}

enum aw_err aw__rundir_clean(const char *base, int64_t patience_us, struct aw__rundir_counts *ret,
                             struct aw_diag *diag)
{
    struct aw__rundir_counts counts = {0};
    char path[AW__RUNDIR_PATH_MAX];
    int base_lock = -1;
    enum aw_err err = base_open(base, false, &base_lock, diag);
    if (err == AW_ERR_NOTFOUND) {
        *ret = counts;
        return AW_OK;
    }
    if (err)
        return err;
    DIR *open_dir = opendir(base);
    if (!open_dir)
        err = failed(diag, base);
    uint32_t seen = 0;
    for (const struct dirent *entry; open_dir && (entry = readdir(open_dir));) {
        if (!is_id(entry->d_name))
            continue;
        if (seen++ == AW__RUNDIR_RUNS_MAX)
            break;
        const enum aw_err one =
            run_clear(join(path, base, entry->d_name), patience_us, &counts, err ? NULL : diag);
        err = err ? err : one;
    }
    if (open_dir)
        closedir(open_dir);
    close(base_lock);
    *ret = counts;
    return err;
}
