/*
 * cgroup_file.h - whole control files in and out.
 *
 * Threads: no shared state.
 */
#ifndef AW_CLUSTER_LOCAL_CGROUP_FILE_H
#define AW_CLUSTER_LOCAL_CGROUP_FILE_H

#include <stddef.h>
#include <sys/types.h>

#define AW__CGROUP_TEXT_MAX \
    8192u /* bytes of a control file that are read; memory.stat has 2000 \
           */

/* Reads at most size - 1 bytes and adds a NUL. Returns how many, or -1 with errno. */
ssize_t aw__cgroup_file_read(const char *path, char *buf, size_t size);
/* Writes `text` into a file that is there, in one call. Returns 0 or an errno. */
int aw__cgroup_file_write(const char *path, const char *text);

#endif
