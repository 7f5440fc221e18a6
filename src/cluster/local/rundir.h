/*
 * rundir.h - what a local cluster owns, written down before it is made.
 *
 *   BASE/lock        held while a run is made or cleared
 *   BASE/ID/lock     held as long as the run lives
 *   BASE/ID/state    its control groups, and controllers that are switched on for them
 *
 * A run whose lock is free is dead, however it ended, and everything that its state names can go:
 * the kernel lets go of a lock with the last process that has it.
 *
 * Call order: make, then control groups; at the end control groups first, then remove. clean at any
 *             time, by any user who may write BASE.
 * Memory:     the caller's.
 * Threads:    no shared state; processes are kept apart by the locks.
 */
#ifndef AW_CLUSTER_LOCAL_RUNDIR_H
#define AW_CLUSTER_LOCAL_RUNDIR_H

#include "cluster/local/cgroup.h"

#define AW__RUNDIR_PATH_MAX 256u
#define AW__RUNDIR_RUNS_MAX 1024u /* in one BASE */

struct aw__rundir {
    char path[AW__RUNDIR_PATH_MAX]; /* BASE/ID */
    int lock_fd_plus_1;             /* 0: none */
};

/* A name that no other run has. */
AW_NODISCARD enum aw_err aw__rundir_id(char ret_id[AW__CGROUP_ID_MAX], struct aw_diag *diag);
/* BASE is made where it is missing, for its owner alone. On failure nothing is left. */
AW_NODISCARD enum aw_err aw__rundir_make(struct aw__rundir *rundir, const char *base,
                                         const struct aw__cgroup_tree *tree, struct aw_diag *diag);
/* A zeroed one is a no-op. */
void aw__rundir_remove(struct aw__rundir *rundir);

struct aw__rundir_counts {
    uint32_t alive;   /* runs whose lock is held: untouched */
    uint32_t cleared; /* dead runs that are gone now */
};
/* Ends and removes what dead runs have left. On failure the rest was cleared all the same. A BASE
 * that is not there is a success. */
AW_NODISCARD enum aw_err aw__rundir_clean(const char *base, int64_t patience_us,
                                          struct aw__rundir_counts *ret, struct aw_diag *diag);

/* The state as text, and back. AW_ERR_FORMAT: malformed, or it names a directory which is not a
 * sub-tree of its own id. */
AW_NODISCARD enum aw_err aw__rundir_state_write(const struct aw__cgroup_tree *tree, char *buf,
                                                size_t size);
AW_NODISCARD enum aw_err aw__rundir_state_read(const char *text, struct aw__cgroup_tree *ret_tree);

#endif
