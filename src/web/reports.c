/* reports.c - files of one folder, and of the folders in it. */
#include "web/reports.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct kind {
    const char *end; /* of the name */
    const char *kind, *type;
    bool below; /* in a folder of the folder, and nowhere else */
};
static const struct kind kinds[] = {
    {".html", "html", "text/html; charset=utf-8", false},
    {".json", "json", "application/json", false},
    {"/progress.csv", "run", "text/csv; charset=utf-8", true},
    {"/evaluation.csv", "run", "text/csv; charset=utf-8", true},
};

static const struct kind *kind_of(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t end = strlen(kinds[i].end);
        if (len > end && strcmp(name + len - end, kinds[i].end) == 0 &&
            kinds[i].below == (strchr(name, '/') != NULL))
            return &kinds[i];
    }
    return NULL;
}

bool aw_report_name_sound(const char *name)
{
    const char *slash = strchr(name, '/');
    const size_t len = strlen(name);
    if (len == 0 || len >= AW_REPORT_NAME_MAX || *name == '.' || *name == '/' ||
        (slash && (slash[1] == '.' || strchr(slash + 1, '/'))))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") ==
               len &&
           kind_of(name);
}

/* --- a list ----------------------------------------------------------------------------------- */

struct entry {
    char name[AW_REPORT_NAME_MAX];
    const struct kind *kind;
    int64_t modified_s;
    uint64_t bytes;
};

struct list {
    struct entry *entry; /* [AW_REPORTS_MAX] */
    uint32_t count;
};

/* A full list drops its oldest. */
static void list_add(struct list *list, const struct entry *entry)
{
    uint32_t at = list->count;
    if (at == AW_REPORTS_MAX) {
        for (uint32_t i = at = 0; i < list->count; i++)
            at = list->entry[i].modified_s < list->entry[at].modified_s ? i : at;
        if (list->entry[at].modified_s >= entry->modified_s)
            return;
    } else {
        list->count++;
    }
    list->entry[at] = *entry;
}

static void scan(struct list *list, int folder, const char *prefix)
{
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    for (const struct dirent *found; dir && (found = readdir(dir));) {
        struct entry entry = {0};
        struct stat st;
        const int len = snprintf(entry.name, sizeof entry.name, "%s%.255s", prefix, found->d_name);
        if (found->d_name[0] == '.' || len < 0 || (size_t)len >= sizeof entry.name)
            continue;
        if (fstatat(folder, found->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISDIR(st.st_mode) && !*prefix) {
            char below[AW_REPORT_NAME_MAX + 1];
            const int inner =
                openat(folder, found->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            snprintf(below, sizeof below, "%s/", entry.name);
            if (inner >= 0) {
                scan(list, inner, below);
                close(inner);
            }
            continue;
        }
        if (!S_ISREG(st.st_mode) || !aw_report_name_sound(entry.name))
            continue;
        entry.kind = kind_of(entry.name);
        entry.modified_s = st.st_mtim.tv_sec;
        entry.bytes = (uint64_t)st.st_size;
        list_add(list, &entry);
    }
    if (dir)
        closedir(dir);
}

static int newest_first(const void *a, const void *b)
{
    const struct entry *first = a, *second = b;
    return first->modified_s > second->modified_s   ? -1
           : first->modified_s < second->modified_s ? 1
                                                    : strcmp(first->name, second->name);
}

static void put_time(FILE *out, int64_t seconds)
{
    const time_t when = (time_t)seconds;
    struct tm tm;
    char text[40] = "";
    if (gmtime_r(&when, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000000Z", &tm);
    fprintf(out, "\"%s\"", text);
}

enum aw_err aw_reports_list(const char *folder, FILE *out, struct aw_diag *diag)
{
    const char *missing = NULL;
    struct list list = {.entry = calloc(AW_REPORTS_MAX, sizeof *list.entry)};
    if (!list.entry)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the list of reports");
    const int fd = *folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (!*folder)
        missing = "no folder of reports was given: start the daemon with --reports DIR";
    else if (fd < 0)
        missing = "the folder of reports cannot be read";
    if (fd >= 0) {
        scan(&list, fd, "");
        close(fd);
        qsort(list.entry, list.count, sizeof *list.entry, newest_first);
    }
    fputs("{\"reports\":[", out);
    for (uint32_t i = 0; i < list.count; i++) {
        /* a sound name needs no escaping */
        fprintf(out, "%s{\"name\":\"%s\",\"kind\":\"%s\",\"bytes\":%" PRIu64 ",\"modified\":",
                i ? "," : "", list.entry[i].name, list.entry[i].kind->kind, list.entry[i].bytes);
        put_time(out, list.entry[i].modified_s);
        putc('}', out);
    }
    fputs("],\"missing\":", out);
    if (!missing && list.count == 0)
        missing = "the folder has no .html or .json file yet, and no run of aware train";
    if (missing)
        fprintf(out, "\"%s\"}\n", missing);
    else
        fputs("null}\n", out);
    free(list.entry);
    return AW_OK;
}

/* --- one -------------------------------------------------------------------------------------- */

enum aw_err aw_report_open(const char *folder, const char *name, int *ret_fd, uint64_t *ret_bytes,
                           const char **ret_type, struct aw_diag *diag)
{
    char first[AW_REPORT_NAME_MAX];
    struct stat st;
    if (!*folder || !aw_report_name_sound(name))
        return aw_fail(diag, AW_ERR_NOTFOUND, "there is no report of this name");
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *slash = strchr(name, '/'), *last = slash ? slash + 1 : name;
    if (slash && at >= 0) {
        snprintf(first, sizeof first, "%.*s", (int)(slash - name), name);
        const int inner = openat(at, first, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = inner;
    }
    /* a pipe of that name must not hold up the server */
    const int fd = at < 0 ? -1 : openat(at, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (at >= 0)
        close(at);
    if (fd < 0)
        return aw_fail(diag, AW_ERR_NOTFOUND, "there is no report of this name");
    enum aw_err err = AW_OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        err = aw_fail(diag, AW_ERR_NOTFOUND, "there is no report of this name");
    else if ((uint64_t)st.st_size > AW_REPORT_BYTES_MAX)
        err = aw_fail(diag, AW_ERR_LIMIT, "the report has more bytes than are served: %u",
                      AW_REPORT_BYTES_MAX);
    if (err) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)st.st_size;
    *ret_type = kind_of(name)->type;
    return AW_OK;
}
