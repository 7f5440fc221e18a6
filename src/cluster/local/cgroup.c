/* cgroup.c - the sub-tree: found, made, and taken down with everything in it. */
#include "cluster/local/cgroup.h"

#include "base/clock.h"
#include "cluster/local/cgroup_file.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEAF             "self" /* where this process sits beside its replicas */
#define NAMES_MAX        128    /* bytes of a name or a file in a path */
#define LOOK_US          2000
#define CONTROLLERS_FILE "cgroup.controllers"
#define CONTROL_FILE     "cgroup.subtree_control"
#define NEEDED           (AW__CGROUP_SET_CPU | AW__CGROUP_SET_MEMORY)

/* Long paths are refused in find, so that nothing is cut here. */
static const char *join(char *buf, const char *a, const char *b)
{
    snprintf(buf, AW__CGROUP_PATH_MAX, "%.*s/%.*s", (int)AW__CGROUP_PATH_MAX - NAMES_MAX - 2, a,
             NAMES_MAX, b);
    return buf;
}

/* --- controllers of version 2 ----------------------------------------------------------------- */

static const struct {
    const char *word;
    uint32_t bit;
} controllers[] = {
    {"cpu", AW__CGROUP_SET_CPU},
    {"memory", AW__CGROUP_SET_MEMORY},
    {"io", AW__CGROUP_SET_IO},
};
#define CONTROLLERS (sizeof controllers / sizeof *controllers)

static bool has_word(const char *text, const char *word)
{
    const size_t len = strlen(word);
    for (const char *at = text; *at;) {
        at += strspn(at, " \n");
        const size_t here = strcspn(at, " \n");
        if (here == len && strncmp(at, word, len) == 0)
            return true;
        at += here;
    }
    return false;
}

uint32_t aw__cgroup_set_read(const char *text)
{
    uint32_t set = 0;
    for (size_t i = 0; i < CONTROLLERS; i++)
        set |= has_word(text, controllers[i].word) ? controllers[i].bit : 0;
    return set;
}

const char *aw__cgroup_set_text(uint32_t set, const char *sign, char buf[AW__CGROUP_SET_TEXT])
{
    size_t len = 0;
    *buf = '\0';
    for (size_t i = 0; i < CONTROLLERS; i++)
        if (set & controllers[i].bit)
            len += (size_t)snprintf(buf + len, AW__CGROUP_SET_TEXT - len, "%s%s%s", len ? " " : "",
                                    sign, controllers[i].word);
    return buf;
}

/* Those that a file of `dir` names. Returns 0 or an errno. */
static int set_of(const char *dir, const char *file, uint32_t *ret_set)
{
    char path[AW__CGROUP_PATH_MAX], text[AW__CGROUP_TEXT_MAX];
    if (aw__cgroup_file_read(join(path, dir, file), text, sizeof text) < 0)
        return errno;
    *ret_set = aw__cgroup_set_read(text);
    return 0;
}

/* What `dir` has and does not hand down. */
static int set_kept(const char *dir, uint32_t *ret_has, uint32_t *ret_kept)
{
    uint32_t down = 0;
    int failed = set_of(dir, CONTROLLERS_FILE, ret_has);
    if (!failed && !(failed = set_of(dir, CONTROL_FILE, &down)))
        *ret_kept = *ret_has & ~down;
    return failed;
}

static int set_write(const char *dir, const char *sign, uint32_t set)
{
    char path[AW__CGROUP_PATH_MAX], text[AW__CGROUP_SET_TEXT];
    return aw__cgroup_file_write(join(path, dir, CONTROL_FILE),
                                 aw__cgroup_set_text(set, sign, text));
}

/* One that somebody else needs by now stays on, and keeps none of the others on. */
static void set_take_back(const char *dir, uint32_t set)
{
    if (!set || !set_write(dir, "-", set))
        return;
    for (size_t i = 0; i < CONTROLLERS; i++)
        if (set & controllers[i].bit)
            (void)set_write(dir, "-", controllers[i].bit);
}

/* --- found ------------------------------------------------------------------------------------ */

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The group of this process in version 2: the line "0::/path". */
static void own_group(char *buf, size_t size)
{
    char text[AW__CGROUP_TEXT_MAX];
    *buf = '\0';
    if (aw__cgroup_file_read("/proc/self/cgroup", text, sizeof text) < 0)
        return;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "0::/", 4) == 0) {
            snprintf(buf, size, "%.*s", (int)strcspn(line + 4, "\n"), line + 4);
            return;
        }
    }
}

static enum aw_err place(struct aw__cgroup_tree *tree, const char *top, const char *parent,
                         struct aw_diag *diag)
{
    const char *slash = *parent ? "/" : "";
    const int len = snprintf(tree->part[tree->part_count], AW__CGROUP_TREE_MAX,
                             "%s%s%s/" AW__CGROUP_PREFIX "%s", top, slash, parent, tree->id);
    if (len < 0 || (size_t)len >= AW__CGROUP_TREE_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of a control group is longer than %u bytes",
                       AW__CGROUP_TREE_MAX);
    tree->part_count++;
    return AW_OK;
}

/* The directory above the sub-tree. */
static const char *parent_of(const struct aw__cgroup_tree *tree, uint32_t part, char *buf)
{
    snprintf(buf, AW__CGROUP_PATH_MAX, "%s", tree->part[part]);
    char *slash = strrchr(buf, '/');
    AW_ASSERT(slash);
    *slash = '\0';
    return buf;
}

static enum aw_err find_v1(struct aw__cgroup_tree *tree, const char *root, const char *parent,
                           struct aw_diag *diag)
{
    static const char *const names[AW__CGROUP_ROLES] = {"cpu", "cpuacct", "memory", "blkio"};
    char top[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX];
    tree->version = 1;
    for (uint32_t role = 0; role < AW__CGROUP_ROLES; role++) {
        tree->of[role] = AW__CGROUP_NOWHERE;
        if (!is_directory(join(top[role], root, names[role]))) {
            if (role == AW__CGROUP_IO)
                continue;
            return aw_fail(diag, AW_ERR_UNSUPPORTED,
                           "%s has no control groups of CPU, accounting and memory", root);
        }
        /* "cpu" and "cpuacct" are often two names of one hierarchy */
        for (uint32_t other = 0; other < role; other++)
            if (tree->of[other] != AW__CGROUP_NOWHERE && same_file(top[other], top[role]))
                tree->of[role] = tree->of[other];
        if (tree->of[role] != AW__CGROUP_NOWHERE)
            continue;
        tree->of[role] = tree->part_count;
        const enum aw_err err = place(tree, top[role], parent, diag);
        if (err)
            return err;
    }
    return AW_OK;
}

enum aw_err aw__cgroup_find(struct aw__cgroup_tree *ret_tree, const char *root, const char *parent,
                            const char *id, struct aw_diag *diag)
{
    struct aw__cgroup_tree tree = {0};
    char path[AW__CGROUP_PATH_MAX], own[AW__CGROUP_PATH_MAX] = "";
    uint32_t has = 0;
    if (strlen(root) > AW__CGROUP_PATH_MAX / 2 || strlen(id) >= sizeof tree.id)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of control groups is too long: %.64s", root);
    snprintf(tree.id, sizeof tree.id, "%s", id);
    enum aw_err err = AW_OK;
    if (access(join(path, root, CONTROLLERS_FILE), F_OK) == 0) {
        tree.version = 2;
        if (!*parent && access(root, W_OK) != 0) {
            own_group(own, sizeof own);
            parent = own;
        }
        err = place(&tree, root, parent, diag); /* every role is in part 0 */
        if (!err)
            (void)set_kept(parent_of(&tree, 0, path), &has, &tree.lent); /* make tells failures */
    } else {
        err = find_v1(&tree, root, parent, diag);
    }
    if (!err)
        *ret_tree = tree;
    return err;
}

/* --- made ------------------------------------------------------------------------------------- */

static enum aw_err refused(struct aw_diag *diag, const char *path, int why)
{
    return aw_fail(diag, AW_ERR_UNSUPPORTED,
                   "the local cluster needs control groups that it may write (%s: %s): run it as "
                   "root, or with cgroup v2 in a delegated group: systemd-run --user --scope -p "
                   "Delegate=yes aware ...",
                   path, strerror(why));
}

/* Who is in the group at `dir`. */
struct crowd {
    uint32_t others;
    long first; /* of the others */
    bool self;
};

static struct crowd crowd_of(const char *dir)
{
    char path[AW__CGROUP_PATH_MAX], text[AW__CGROUP_TEXT_MAX];
    struct crowd crowd = {0};
    if (aw__cgroup_file_read(join(path, dir, "cgroup.procs"), text, sizeof text) < 0)
        return crowd;
    for (char *at = text, *next; *at; at = next + strspn(next, "\n ")) {
        const long pid = strtol(at, &next, 10);
        if (next == at)
            break;
        if (pid == (long)getpid())
            crowd.self = true;
        else if (crowd.others++ == 0)
            crowd.first = pid;
    }
    return crowd;
}

static enum aw_err crowded(struct aw_diag *diag, const char *dir, const struct crowd *crowd)
{
    return aw_fail(diag, AW_ERR_UNSUPPORTED,
                   "%s holds %u other process%s (the first is %ld), and a group of cgroup v2 with "
                   "processes hands no controllers down: run it in a group of its own: systemd-run "
                   "%s--scope -p Delegate=yes aware ..., or name an empty group as cgroupParent",
                   dir, crowd->others, crowd->others == 1 ? "" : "es", crowd->first,
                   geteuid() == 0 ? "" : "--user ");
}

/* From `dir`; adds what was off before to `lent`. The I/O controller may be missing. */
static enum aw_err hand_down(const char *dir, uint32_t *lent, struct aw_diag *diag)
{
    uint32_t has = 0, kept = 0;
    int failed = set_kept(dir, &has, &kept);
    if (failed)
        return refused(diag, dir, failed);
    if ((has & NEEDED) != NEEDED)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "%s has no controllers of CPU and memory: they must be delegated to it",
                       dir);
    failed = kept ? set_write(dir, "+", kept) : 0;
    if (failed && (kept & AW__CGROUP_SET_IO)) { /* limits of I/O are optional */
        kept &= NEEDED;
        failed = kept ? set_write(dir, "+", kept) : 0;
    }
    if (!failed) {
        *lent |= kept;
        return AW_OK;
    }
    const struct crowd crowd = crowd_of(dir);
    return failed == EBUSY && crowd.others ? crowded(diag, dir, &crowd)
                                           : refused(diag, dir, failed);
}

static enum aw_err step_aside(struct aw__cgroup_tree *tree, struct aw_diag *diag)
{
    char leaf[AW__CGROUP_PATH_MAX], path[AW__CGROUP_PATH_MAX], number[32];
    join(leaf, tree->part[0], LEAF);
    if (mkdir(leaf, 0755) && errno != EEXIST)
        return refused(diag, leaf, errno);
    snprintf(number, sizeof number, "%ld", (long)getpid());
    const int failed = aw__cgroup_file_write(join(path, leaf, "cgroup.procs"), number);
    if (failed)
        return refused(diag, path, failed);
    tree->moved = true;
    return AW_OK;
}

/* Controllers are handed down by a group without processes alone, or by the root of the hierarchy,
 * which has no cgroup.events (cgroup-v2.rst, "No Internal Process Constraint"). */
enum aw_err aw__cgroup_hand_down(struct aw__cgroup_tree *tree, struct aw_diag *diag)
{
    char parent[AW__CGROUP_PATH_MAX], path[AW__CGROUP_PATH_MAX];
    uint32_t own = 0;
    enum aw_err err = AW_OK;
    parent_of(tree, 0, parent);
    if (access(join(path, parent, "cgroup.events"), F_OK) == 0) {
        const struct crowd crowd = crowd_of(parent);
        if (crowd.others)
            return crowded(diag, parent, &crowd);
        err = crowd.self ? step_aside(tree, diag) : AW_OK;
    }
    err = err ? err : hand_down(parent, &tree->lent, diag);
    return err ? err : hand_down(tree->part[0], &own, diag);
}

enum aw_err aw__cgroup_make(struct aw__cgroup_tree *tree, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < tree->part_count; i++)
        if (mkdir(tree->part[i], 0755))
            err = refused(diag, tree->part[i], errno);
    if (!err && tree->version == 2)
        err = aw__cgroup_hand_down(tree, diag);
    if (err) {
        const enum aw_err gone = aw__cgroup_drop(tree, 1000000, NULL);
        (void)gone; /* the first failure is the one to tell */
    }
    return err;
}

/* --- taken down ------------------------------------------------------------------------------- */

bool aw__cgroup_member(const char *text, const char *id)
{
    char name[AW__CGROUP_ID_MAX + sizeof AW__CGROUP_PREFIX + 1];
    const int len = snprintf(name, sizeof name, "/" AW__CGROUP_PREFIX "%s", id);
    for (const char *at = text; (at = strstr(at, name)); at++) {
        const char next = at[len];
        if (next == '/' || next == '\n' || next == '\0')
            return true;
    }
    return false;
}

/* A number may be somebody else's by now: the pidfd holds on to one process, whose membership is
 * then looked up. */
static void end_member(long pid, const char *id)
{
    char path[64], text[AW__CGROUP_TEXT_MAX];
    if (pid <= 1 || pid == (long)getpid())
        return;
    const int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0)
        return; /* it has ended */
    snprintf(path, sizeof path, "/proc/%ld/cgroup", pid);
    if (aw__cgroup_file_read(path, text, sizeof text) >= 0 && aw__cgroup_member(text, id))
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    close(fd);
}

/* Members of the group at `dir`; each of them is sent SIGKILL where `end`. */
static uint32_t members(const char *dir, const char *id, bool end)
{
    char path[AW__CGROUP_PATH_MAX], text[AW__CGROUP_TEXT_MAX];
    uint32_t count = 0;
    if (aw__cgroup_file_read(join(path, dir, "cgroup.procs"), text, sizeof text) < 0)
        return 0;
    for (char *at = text, *next; *at; at = next) {
        const long pid = strtol(at, &next, 10);
        if (next == at)
            break;
        count++;
        if (end)
            end_member(pid, id);
        next += strspn(next, "\n ");
    }
    return count;
}

/* Depth first. False: something is still there. */
static bool clear(const char *dir, const char *id, uint32_t depth)
{
    DIR *open_dir = opendir(dir);
    char path[AW__CGROUP_PATH_MAX];
    if (!open_dir)
        return errno == ENOENT;
    members(dir, id, true);
    for (const struct dirent *entry; (entry = readdir(open_dir));) {
        if (entry->d_name[0] == '.' || strlen(dir) + NAMES_MAX + 2 > sizeof path ||
            strlen(entry->d_name) > NAMES_MAX)
            continue;
        join(path, dir, entry->d_name);
        if (depth > 0 && is_directory(path))
            (void)clear(path, id, depth - 1);
    }
    closedir(open_dir);
    return rmdir(dir) == 0 || errno == ENOENT;
}

/* Out of the leaf, back to where it was. */
static void step_back(struct aw__cgroup_tree *tree)
{
    char parent[AW__CGROUP_PATH_MAX], path[AW__CGROUP_PATH_MAX], number[32];
    parent_of(tree, 0, parent);
    snprintf(number, sizeof number, "%ld", (long)getpid());
    set_take_back(tree->part[0], NEEDED | AW__CGROUP_SET_IO);
    set_take_back(parent, tree->lent);
    if (aw__cgroup_file_write(join(path, parent, "cgroup.procs"), number) == 0)
        tree->moved = false;
}

enum aw_err aw__cgroup_drop(struct aw__cgroup_tree *tree, int64_t patience_us, struct aw_diag *diag)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + patience_us;
    char parent[AW__CGROUP_PATH_MAX];
    for (;;) {
        bool gone = true;
        uint32_t left = 0;
        for (uint32_t i = 0; i < tree->part_count; i++) {
            const bool cleared = clear(tree->part[i], tree->id, AW__CGROUP_DEPTH);
            left = gone && !cleared ? i : left;
            gone = gone && cleared;
        }
        if (gone) {
            if (tree->lent)
                set_take_back(parent_of(tree, 0, parent), tree->lent);
            tree->lent = 0;
            return AW_OK;
        }
        if (tree->moved)
            step_back(tree);
        const int64_t now = aw_clock_monotonic_us(NULL);
        if (now >= until)
            return aw_fail(diag, AW_ERR_DEADLINE, "%s: still there after %.1f s", tree->part[left],
                           1e-6 * (double)patience_us);
        const enum aw_err err = aw_clock_sleep_until(NULL, now + LOOK_US);
        (void)err; /* a signal only brings the next look forward */
    }
}

/* --- one group -------------------------------------------------------------------------------- */

enum aw_err aw__cgroup_add(const struct aw__cgroup_tree *tree, const char *name,
                           struct aw_diag *diag)
{
    char path[AW__CGROUP_PATH_MAX];
    for (uint32_t i = 0; i < tree->part_count; i++) {
        if (mkdir(join(path, tree->part[i], name), 0755) == 0)
            continue;
        const int why = errno;
        for (uint32_t k = 0; k < i; k++)
            rmdir(join(path, tree->part[k], name));
        return aw_fail(diag, why == ENOSPC || why == EAGAIN ? AW_ERR_LIMIT : AW_ERR_IO, "%s/%s: %s",
                       tree->part[i], name, strerror(why));
    }
    return AW_OK;
}

enum aw_err aw__cgroup_remove(const struct aw__cgroup_tree *tree, const char *name)
{
    char path[AW__CGROUP_PATH_MAX];
    bool gone = true;
    for (uint32_t i = 0; i < tree->part_count; i++)
        gone = clear(join(path, tree->part[i], name), tree->id, AW__CGROUP_DEPTH) && gone;
    return gone ? AW_OK : AW_ERR_CONFLICT;
}

uint32_t aw__cgroup_doors(const struct aw__cgroup_tree *tree, const char *name,
                          char ret_paths[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX])
{
    for (uint32_t i = 0; i < tree->part_count; i++)
        snprintf(ret_paths[i], AW__CGROUP_PATH_MAX, "%.*s/%s/cgroup.procs",
                 (int)(AW__CGROUP_PATH_MAX - 64), tree->part[i], name);
    return tree->part_count;
}

uint32_t aw__cgroup_end(const struct aw__cgroup_tree *tree, const char *name)
{
    char path[AW__CGROUP_PATH_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < tree->part_count; i++) {
        const uint32_t here = members(join(path, tree->part[i], name), tree->id, true);
        count = here > count ? here : count;
    }
    return count;
}
