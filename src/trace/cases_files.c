/* cases_files.c - see cases.h: which files a folder of traced faults has. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "trace/cases_internal.h"

bool aw__cases_is_there(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

bool aw__cases_path(const char *folder, const char *file, char *ret, size_t size)
{
    static const char *const under[] = {"", "traces/"};
    const size_t len = strlen(file);
    const bool packed = len > 3 && !strcmp(file + len - 3, ".gz");
    for (size_t i = 0; i < sizeof under / sizeof *under; i++) {
        snprintf(ret, size, "%s/%s%s", folder, under[i], file);
        if (aw__cases_is_there(ret))
            return true;
        snprintf(ret, size, "%s/%s%.*s%s", folder, under[i], (int)(packed ? len - 3 : len), file,
                 packed ? "" : ".gz");
        if (aw__cases_is_there(ret))
            return true;
    }
    snprintf(ret, size, "%s/%s", folder, file);
    return false;
}

static int is_table(const struct dirent *entry)
{
    const size_t len = strlen(entry->d_name);
    return entry->d_name[0] != '.' && len < 128 &&
           ((len > 4 && !strcmp(entry->d_name + len - 4, ".csv")) ||
            (len > 7 && !strcmp(entry->d_name + len - 7, ".csv.gz")));
}

enum aw_err aw__cases_list(const char *folder, const char *mark, const struct aw_alloc *alloc,
                           char (**ret)[AW_CASES_FILE_MAX], uint32_t *ret_count)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_table, alphasort);
    *ret_count = 0;
    *ret = NULL;
    if (count < 0)
        return AW_ERR_NOTFOUND;
    char(*files)[AW_CASES_FILE_MAX] = aw_alloc_new(alloc, (size_t)count + 1, sizeof *files);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        /* a file and the same one packed stand beside each other: "x.csv", "x.csv.gz" */
        const char *last = *ret_count && files ? files[*ret_count - 1] : "";
        const bool twice = *last && !strncmp(name, last, strlen(last));
        if (files && strstr(name, mark) && !twice)
            snprintf(files[(*ret_count)++], sizeof *files, "%.127s", name);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    *ret = files;
    return files ? AW_OK : AW_ERR_NOMEM;
}
