/*
 * process.h - a replica's process: born inside its control groups, never left without a parent, and
 * never with more rights than it was born with (no_new_privs).
 *
 * Call order: spawn, then status until it says that the process has ended.
 * Memory:     the caller's; nothing is allocated.
 * Threads:    a process is asked about by the thread that made it, which must live as long: the
 *             kernel ends the replica when that thread ends.
 */
#ifndef AW_CLUSTER_LOCAL_PROCESS_H
#define AW_CLUSTER_LOCAL_PROCESS_H

#include "cluster/local/cgroup.h"

struct aw__process_start {
    char *const *argv;   /* ends with NULL; argv[0] is looked up in PATH */
    char *const *envp;   /* ends with NULL */
    const char *log;     /* file that standard output and error go to; NULL: nowhere */
    uint32_t uid, gid;   /* who it becomes, without other groups; uid 0: it stays who we are */
    uint32_t door_count; /* see aw__cgroup_doors */
    const char (*doors)[AW__CGROUP_PATH_MAX];
};
/* Returns when the program runs, or could not be run: AW_ERR_NOTFOUND where there is no such
 * program, else AW_ERR_IO. */
AW_NODISCARD enum aw_err aw__process_spawn(const struct aw__process_start *start, int *ret_pid,
                                           struct aw_diag *diag);

enum aw__process_state { AW__PROCESS_RUNS, AW__PROCESS_EXITED, AW__PROCESS_SIGNALLED };
/* Reaps it when it has ended. `ret_code`: exit status or signal. */
enum aw__process_state aw__process_status(int pid, int *ret_code);
/* Waits for one that has ended, or is about to. */
void aw__process_wait(int pid);

#endif
