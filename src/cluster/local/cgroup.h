/*
 * cgroup.h - control groups of version 1 and 2: one sub-tree of our own, a group per replica in it.
 *
 * A sub-tree is `aware-local-ID` below one parent, in one hierarchy (version 2) or in several
 * (version 1: cpu, cpuacct, memory, blkio). Nothing outside of it is written, but for what version
 * 2 asks: controllers are handed down by the parent, and the parent must then hold no process, so
 * that a process that shares the delegated parent with its replicas moves into a leaf of the
 * sub-tree, and back. What the parent did not hand down before, it does not afterwards.
 *
 * Call order: find, make; per group add, limits, read, end, remove; drop. drop alone suffices after
 *             a crash: all it needs is what find has filled in.
 * Memory:     the caller's; nothing is allocated.
 * Threads:    no shared state; one owner per group.
 *
 * The root of the file system is an argument, so that tests feed directories of plain files. The
 * trap: a process is never ended by its number alone. It is held by a pidfd, seen to be a member of
 * this sub-tree, and only then sent a signal.
 *
 * Sources: Documentation/admin-guide/cgroup-v1/, cgroup-v2.rst and scheduler/sched-bwc.rst of the
 * Linux kernel.
 */
#ifndef AW_CLUSTER_LOCAL_CGROUP_H
#define AW_CLUSTER_LOCAL_CGROUP_H

#include <aware/err.h>

#define AW__CGROUP_ROOT     "/sys/fs/cgroup"
#define AW__CGROUP_PREFIX   "aware-local-"
#define AW__CGROUP_PATH_MAX 512u
#define AW__CGROUP_TREE_MAX 320u /* of the path of a sub-tree: what is in it fits behind it */
#define AW__CGROUP_NAME_MAX 32u  /* of a group, with its NUL */
#define AW__CGROUP_ID_MAX   32u
#define AW__CGROUP_DEPTH    8u /* of groups that a replica has made inside its own */
/* Of bandwidth control; Kubernetes' too. */
#define AW__CGROUP_PERIOD_US INT64_C(100000)
#define AW__CGROUP_QUOTA_MIN INT64_C(1000) /* us: the kernel takes no less */

/* Which hierarchy does what. In version 2 it is one and the same. */
enum aw__cgroup_role {
    AW__CGROUP_CPU,
    AW__CGROUP_CPUACCT,
    AW__CGROUP_MEMORY,
    AW__CGROUP_IO,
    AW__CGROUP_ROLES
};
#define AW__CGROUP_NOWHERE UINT32_MAX

/* Controllers of version 2, as a set and as words: "+cpu +memory". */
#define AW__CGROUP_SET_CPU    1u
#define AW__CGROUP_SET_MEMORY 2u
#define AW__CGROUP_SET_IO     4u
#define AW__CGROUP_SET_TEXT   24u /* bytes of all of them with signs, and a NUL */

struct aw__cgroup_tree {
    uint32_t version; /* 1 or 2; 0: none */
    uint32_t part_count;
    uint32_t of[AW__CGROUP_ROLES];                    /* role -> part, or AW__CGROUP_NOWHERE */
    char part[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX]; /* the sub-tree in each hierarchy */
    char id[AW__CGROUP_ID_MAX];                       /* "aware-local-" and this is its name */
    bool moved;                                       /* this process sits in its leaf */
    uint32_t lent; /* set of controllers that the parent hands down for its sake alone */
};

/* Finds out what there is below `root`, and where a sub-tree would be: below `parent` (relative to
 * each hierarchy), or where that is "", at the top if this process may write there, else in its own
 * group (version 2). Changes nothing. AW_ERR_UNSUPPORTED: no hierarchy with CPU and memory. */
AW_NODISCARD enum aw_err aw__cgroup_find(struct aw__cgroup_tree *ret_tree, const char *root,
                                         const char *parent, const char *id, struct aw_diag *diag);
/* Makes the sub-tree. On failure what was made is gone again. AW_ERR_UNSUPPORTED: not permitted, or
 * a controller is missing; the text says what is needed. */
AW_NODISCARD enum aw_err aw__cgroup_make(struct aw__cgroup_tree *tree, struct aw_diag *diag);
/* What version 2 asks beyond directories: the parent hands controllers down to the sub-tree, and
 * that to its groups. A part of make. AW_ERR_UNSUPPORTED: as there; other processes in the parent
 * are named in the message. */
AW_NODISCARD enum aw_err aw__cgroup_hand_down(struct aw__cgroup_tree *tree, struct aw_diag *diag);
/* Ends every process in the sub-tree, removes it and takes back what was lent, within
 * `patience_us`. A sub-tree that is not there is a success. AW_ERR_DEADLINE: something would not
 * go. */
AW_NODISCARD enum aw_err aw__cgroup_drop(struct aw__cgroup_tree *tree, int64_t patience_us,
                                         struct aw_diag *diag);

/* --- one group -------------------------------------------------------------------------------- */

AW_NODISCARD enum aw_err aw__cgroup_add(const struct aw__cgroup_tree *tree, const char *name,
                                        struct aw_diag *diag);
/* Ends what is left in it, and removes it. AW_ERR_CONFLICT: it takes a moment; ask again. */
AW_NODISCARD enum aw_err aw__cgroup_remove(const struct aw__cgroup_tree *tree, const char *name);
/* Files that a process writes "0" into to become a member, all of them; returns how many. */
uint32_t aw__cgroup_doors(const struct aw__cgroup_tree *tree, const char *name,
                          char ret_paths[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX]);
/* Sends SIGKILL to every member. Returns how many there were. */
uint32_t aw__cgroup_end(const struct aw__cgroup_tree *tree, const char *name);

AW_NODISCARD enum aw_err aw__cgroup_limit_cpu(const struct aw__cgroup_tree *tree, const char *name,
                                              int64_t millicores, struct aw_diag *diag);
/* Its share of CPU time under contention: in proportion to its millicores, as Kubernetes does with
 * requests. `name` "": the whole sub-tree, beside everything else. */
AW_NODISCARD enum aw_err aw__cgroup_weigh(const struct aw__cgroup_tree *tree, const char *name,
                                          int64_t millicores, struct aw_diag *diag);
/* Without swap, where that can be said. AW_ERR_CONFLICT: more than that is in use, and does not go
 * away; the old limit holds. */
AW_NODISCARD enum aw_err aw__cgroup_limit_memory(const struct aw__cgroup_tree *tree,
                                                 const char *name, int64_t bytes,
                                                 struct aw_diag *diag);
/* Of one device ("8:0"); 0: no limit. AW_ERR_UNSUPPORTED: no I/O controller. */
AW_NODISCARD enum aw_err aw__cgroup_limit_io(const struct aw__cgroup_tree *tree, const char *name,
                                             const char *device, int64_t read_bytes_per_s,
                                             int64_t write_bytes_per_s, struct aw_diag *diag);

/* What is set now; -1: no limit, or not to be had. */
int64_t aw__cgroup_cpu_limit(const struct aw__cgroup_tree *tree, const char *name); /* millicores */
int64_t aw__cgroup_io_limit(const struct aw__cgroup_tree *tree, const char *name,
                            const char *device); /* bytes/s of writing */

/* Counters since the group was made; -1: not to be had. */
struct aw__cgroup_usage {
    int64_t cpu_us;
    int64_t periods, throttled; /* of bandwidth control */
    int64_t memory_bytes;       /* working set: without file pages that can be dropped at once */
    int64_t memory_limit_bytes;
    int64_t oom_kills;
    int64_t io_bytes;
};
/* AW_ERR_NOTFOUND: no such group. */
AW_NODISCARD enum aw_err aw__cgroup_read(const struct aw__cgroup_tree *tree, const char *name,
                                         struct aw__cgroup_usage *ret);
/* The counter alone; -1: not to be had. */
int64_t aw__cgroup_oom_kills(const struct aw__cgroup_tree *tree, const char *name);

/* --- for reading, by themselves --------------------------------------------------------------- */

/* Those of the three that are words of `text`: "cpu" is not in "cpuset". */
uint32_t aw__cgroup_set_read(const char *text);
/* And back, each behind `sign`. Returns `buf`. */
const char *aw__cgroup_set_text(uint32_t set, const char *sign, char buf[AW__CGROUP_SET_TEXT]);
/* The number behind `key` and a space at the beginning of a line; -1: none. */
int64_t aw__cgroup_value(const char *text, const char *key);
/* The sum of "rbytes=" and "wbytes=" over all devices of io.stat. */
int64_t aw__cgroup_io_sum(const char *text);
/* The same of blkio.throttle.io_service_bytes: lines "8:0 Read 4096", "8:0 Write 0". */
int64_t aw__cgroup_blkio_sum(const char *text);
/* Whether `text` (of /proc/PID/cgroup) names `aware-local-ID` as a whole word of a path. */
bool aw__cgroup_member(const char *text, const char *id);

#endif
