/* cgroup_file.c - limits and counters of one group, as text in control files. */
#include "cluster/local/cgroup_file.h"

#include "cluster/local/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_FILE_MAX 64 /* of "/NAME/FILE" behind a sub-tree, see aw__cgroup_find */

ssize_t aw__cgroup_file_read(const char *path, char *buf, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    ssize_t got = 0;
    while (len < size - 1 && (got = read(fd, buf + len, size - 1 - len)) > 0)
        len += (size_t)got;
    const int why = errno;
    close(fd);
    if (got < 0) {
        errno = why;
        return -1;
    }
    buf[len] = '\0';
    return (ssize_t)len;
}

int aw__cgroup_file_write(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    if (fd < 0)
        return errno;
    const size_t len = strlen(text);
    const ssize_t written = write(fd, text, len);
    int why = written < 0 ? errno : (size_t)written == len ? 0 : EIO;
    close(fd);
    return why;
}

static const char *file_of(const struct aw__cgroup_tree *tree, enum aw__cgroup_role role,
                           const char *name, const char *file, char *buf)
{
    AW_ASSERT(tree->of[role] < tree->part_count);
    snprintf(buf, AW__CGROUP_PATH_MAX, "%.*s/%s/%s", (int)(AW__CGROUP_PATH_MAX - NAME_FILE_MAX),
             tree->part[tree->of[role]], name, file);
    return buf;
}

/* --- numbers in texts ------------------------------------------------------------------------- */

/* The number at `text`; -1: none, or too large. */
static int64_t number(const char *text)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    return errno || end == text ? -1 : (int64_t)value;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

int64_t aw__cgroup_value(const char *text, const char *key)
{
    const size_t len = strlen(key);
    for (const char *line = text; *line; line = next_line(line))
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return number(line + len + 1);
    return -1;
}

static int64_t add(int64_t sum, int64_t more)
{
    return more < 0 ? sum : (sum < 0 ? 0 : sum) + more;
}

int64_t aw__cgroup_io_sum(const char *text)
{
    int64_t sum = *text ? -1 : 0; /* an empty file: nothing was read or written yet */
    for (const char *at = text; (at = strstr(at, "bytes=")); at += strlen("bytes=")) {
        const bool ours = at > text && (at[-1] == 'r' || at[-1] == 'w'); /* not "dbytes=" */
        sum = ours ? add(sum, number(at + strlen("bytes="))) : sum;
    }
    return sum;
}

int64_t aw__cgroup_blkio_sum(const char *text)
{
    int64_t sum = 0;
    for (const char *line = text; *line; line = next_line(line)) {
        const char *word = line + strcspn(line, " \n");
        if (strncmp(word, " Read ", 6) == 0)
            sum = add(sum, number(word + 6));
        else if (strncmp(word, " Write ", 7) == 0)
            sum = add(sum, number(word + 7));
    }
    return sum;
}

/* --- limits ----------------------------------------------------------------------------------- */

static enum aw_err put(const struct aw__cgroup_tree *tree, enum aw__cgroup_role role,
                       const char *name, const char *file, const char *text, struct aw_diag *diag)
{
    char path[AW__CGROUP_PATH_MAX];
    const int why = aw__cgroup_file_write(file_of(tree, role, name, file, path), text);
    if (!why)
        return AW_OK;
    return aw_fail(diag, why == EBUSY ? AW_ERR_CONFLICT : AW_ERR_IO, "%s: \"%s\": %s", path, text,
                   strerror(why));
}

enum aw_err aw__cgroup_limit_cpu(const struct aw__cgroup_tree *tree, const char *name,
                                 int64_t millicores, struct aw_diag *diag)
{
    char text[64];
    int64_t quota = millicores * AW__CGROUP_PERIOD_US / 1000;
    quota = quota < AW__CGROUP_QUOTA_MIN ? AW__CGROUP_QUOTA_MIN : quota;
    if (tree->version == 2) {
        snprintf(text, sizeof text, "%" PRId64 " %" PRId64, quota, AW__CGROUP_PERIOD_US);
        return put(tree, AW__CGROUP_CPU, name, "cpu.max", text, diag);
    }
    snprintf(text, sizeof text, "%" PRId64, AW__CGROUP_PERIOD_US);
    enum aw_err err = put(tree, AW__CGROUP_CPU, name, "cpu.cfs_period_us", text, diag);
    snprintf(text, sizeof text, "%" PRId64, quota);
    return err ? err : put(tree, AW__CGROUP_CPU, name, "cpu.cfs_quota_us", text, diag);
}

/* 1024 shares are a core's; version 2 squeezes 2 to 262144 of them into 1 to 10000, by the formula
 * that container runtimes use. */
enum aw_err aw__cgroup_weigh(const struct aw__cgroup_tree *tree, const char *name,
                             int64_t millicores, struct aw_diag *diag)
{
    char text[32];
    int64_t shares = millicores * 1024 / 1000;
    shares = shares < 2 ? 2 : shares > 262144 ? 262144 : shares;
    const bool second = tree->version == 2;
    snprintf(text, sizeof text, "%" PRId64, second ? 1 + (shares - 2) * 9999 / 262142 : shares);
    return put(tree, AW__CGROUP_CPU, name, second ? "cpu.weight" : "cpu.shares", text, diag);
}

enum aw_err aw__cgroup_limit_memory(const struct aw__cgroup_tree *tree, const char *name,
                                    int64_t bytes, struct aw_diag *diag)
{
    struct aw__cgroup_usage usage;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, bytes);
    enum aw_err err = aw__cgroup_read(tree, name, &usage);
    if (err)
        return aw_fail(diag, err, "%s: no such group", name);
    /* version 2 would not refuse but kill */
    if (usage.memory_bytes > bytes)
        return aw_fail(diag, AW_ERR_CONFLICT,
                       "%s: %" PRId64 " bytes are in use, more than a limit of %" PRId64, name,
                       usage.memory_bytes, bytes);
    if (tree->version == 2) {
        err = put(tree, AW__CGROUP_MEMORY, name, "memory.max", text, diag);
        const enum aw_err swap = put(tree, AW__CGROUP_MEMORY, name, "memory.swap.max", "0", NULL);
        (void)swap; /* not every kernel accounts for it */
        return err;
    }
    /* memory and swap together may never be less than memory: which goes first depends */
    const bool grows = bytes > usage.memory_limit_bytes;
    enum aw_err both = AW_OK;
    if (grows)
        both = put(tree, AW__CGROUP_MEMORY, name, "memory.memsw.limit_in_bytes", text, NULL);
    err = put(tree, AW__CGROUP_MEMORY, name, "memory.limit_in_bytes", text, diag);
    if (!grows && !err)
        both = put(tree, AW__CGROUP_MEMORY, name, "memory.memsw.limit_in_bytes", text, NULL);
    (void)both; /* not every kernel accounts for it */
    return err;
}

enum aw_err aw__cgroup_limit_io(const struct aw__cgroup_tree *tree, const char *name,
                                const char *device, int64_t read_bytes_per_s,
                                int64_t write_bytes_per_s, struct aw_diag *diag)
{
    char text[128], read_text[32] = "max", write_text[32] = "max";
    if (tree->of[AW__CGROUP_IO] == AW__CGROUP_NOWHERE)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "no I/O controller: I/O cannot be limited");
    if (tree->version == 2) {
        if (read_bytes_per_s > 0)
            snprintf(read_text, sizeof read_text, "%" PRId64, read_bytes_per_s);
        if (write_bytes_per_s > 0)
            snprintf(write_text, sizeof write_text, "%" PRId64, write_bytes_per_s);
        snprintf(text, sizeof text, "%s rbps=%s wbps=%s", device, read_text, write_text);
        return put(tree, AW__CGROUP_IO, name, "io.max", text, diag);
    }
    snprintf(text, sizeof text, "%s %" PRId64, device, read_bytes_per_s);
    enum aw_err err = put(tree, AW__CGROUP_IO, name, "blkio.throttle.read_bps_device", text, diag);
    snprintf(text, sizeof text, "%s %" PRId64, device, write_bytes_per_s);
    return err ? err
               : put(tree, AW__CGROUP_IO, name, "blkio.throttle.write_bps_device", text, diag);
}

/* --- counters --------------------------------------------------------------------------------- */

static bool get(const struct aw__cgroup_tree *tree, enum aw__cgroup_role role, const char *name,
                const char *file, char *buf)
{
    char path[AW__CGROUP_PATH_MAX];
    *buf = '\0';
    return tree->of[role] != AW__CGROUP_NOWHERE &&
           aw__cgroup_file_read(file_of(tree, role, name, file, path), buf, AW__CGROUP_TEXT_MAX) >=
               0;
}

int64_t aw__cgroup_cpu_limit(const struct aw__cgroup_tree *tree, const char *name)
{
    char text[AW__CGROUP_TEXT_MAX];
    int64_t quota = -1, period = -1;
    if (tree->version == 2) {
        if (!get(tree, AW__CGROUP_CPU, name, "cpu.max", text) ||
            sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2)
            return -1;
    } else {
        if (get(tree, AW__CGROUP_CPU, name, "cpu.cfs_quota_us", text))
            quota = number(text);
        if (get(tree, AW__CGROUP_CPU, name, "cpu.cfs_period_us", text))
            period = number(text);
    }
    return quota > 0 && period > 0 ? 1000 * quota / period : -1;
}

int64_t aw__cgroup_io_limit(const struct aw__cgroup_tree *tree, const char *name,
                            const char *device)
{
    char text[AW__CGROUP_TEXT_MAX];
    const bool second = tree->version == 2;
    const size_t len = strlen(device);
    int64_t bytes = -1;
    if (!get(tree, AW__CGROUP_IO, name, second ? "io.max" : "blkio.throttle.write_bps_device",
             text))
        return -1;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, device, len) != 0 || line[len] != ' ')
            continue;
        const char *at = second ? strstr(line, "wbps=") : line + len;
        return at && sscanf(at + (second ? 5 : 0), "%" SCNd64, &bytes) == 1 ? bytes : -1;
    }
    return -1;
}

int64_t aw__cgroup_oom_kills(const struct aw__cgroup_tree *tree, const char *name)
{
    char text[AW__CGROUP_TEXT_MAX];
    const char *file = tree->version == 2 ? "memory.events" : "memory.oom_control";
    return get(tree, AW__CGROUP_MEMORY, name, file, text) ? aw__cgroup_value(text, "oom_kill") : -1;
}

/* As Kubernetes counts it: use without file pages that were not touched lately. */
static int64_t working_set(int64_t usage, const char *stat, const char *key)
{
    const int64_t inactive = aw__cgroup_value(stat, key);
    if (usage < 0 || inactive < 0)
        return usage;
    return usage > inactive ? usage - inactive : 0;
}

static int64_t at_most(int64_t value) /* "max" reads as -1, and stands for no limit */
{
    return value < 0 ? INT64_MAX : value;
}

static void read_v1(const struct aw__cgroup_tree *tree, const char *name,
                    struct aw__cgroup_usage *ret)
{
    char text[AW__CGROUP_TEXT_MAX];
    if (get(tree, AW__CGROUP_CPUACCT, name, "cpuacct.usage", text)) {
        const int64_t ns = number(text);
        ret->cpu_us = ns < 0 ? -1 : ns / 1000;
    }
    if (get(tree, AW__CGROUP_CPU, name, "cpu.stat", text)) {
        ret->periods = aw__cgroup_value(text, "nr_periods");
        ret->throttled = aw__cgroup_value(text, "nr_throttled");
    }
    if (get(tree, AW__CGROUP_MEMORY, name, "memory.usage_in_bytes", text)) {
        const int64_t usage = number(text);
        get(tree, AW__CGROUP_MEMORY, name, "memory.stat", text);
        ret->memory_bytes = working_set(usage, text, "total_inactive_file");
    }
    if (get(tree, AW__CGROUP_MEMORY, name, "memory.limit_in_bytes", text))
        ret->memory_limit_bytes = at_most(number(text));
    if (get(tree, AW__CGROUP_IO, name, "blkio.throttle.io_service_bytes", text))
        ret->io_bytes = aw__cgroup_blkio_sum(text);
}

static void read_v2(const struct aw__cgroup_tree *tree, const char *name,
                    struct aw__cgroup_usage *ret)
{
    char text[AW__CGROUP_TEXT_MAX];
    if (get(tree, AW__CGROUP_CPU, name, "cpu.stat", text)) {
        ret->cpu_us = aw__cgroup_value(text, "usage_usec");
        ret->periods = aw__cgroup_value(text, "nr_periods");
        ret->throttled = aw__cgroup_value(text, "nr_throttled");
    }
    if (get(tree, AW__CGROUP_MEMORY, name, "memory.current", text)) {
        const int64_t usage = number(text);
        get(tree, AW__CGROUP_MEMORY, name, "memory.stat", text);
        ret->memory_bytes = working_set(usage, text, "inactive_file");
    }
    if (get(tree, AW__CGROUP_MEMORY, name, "memory.max", text))
        ret->memory_limit_bytes = at_most(number(text));
    if (get(tree, AW__CGROUP_IO, name, "io.stat", text))
        ret->io_bytes = aw__cgroup_io_sum(text);
}

enum aw_err aw__cgroup_read(const struct aw__cgroup_tree *tree, const char *name,
                            struct aw__cgroup_usage *ret)
{
    char path[AW__CGROUP_PATH_MAX];
    struct aw__cgroup_usage usage = {.cpu_us = -1,
                                     .periods = -1,
                                     .throttled = -1,
                                     .memory_bytes = -1,
                                     .memory_limit_bytes = INT64_MAX,
                                     .oom_kills = -1,
                                     .io_bytes = -1};
    if (access(file_of(tree, AW__CGROUP_MEMORY, name, "", path), F_OK))
        return AW_ERR_NOTFOUND;
    if (tree->version == 2)
        read_v2(tree, name, &usage);
    else
        read_v1(tree, name, &usage);
    usage.oom_kills = aw__cgroup_oom_kills(tree, name);
    *ret = usage;
    return AW_OK;
}
