/*
 * names.h - the names of the workloads that a daemon runs or has left, for completion.
 */
#ifndef AW_OPERATE_NAMES_H
#define AW_OPERATE_NAMES_H

/* Calls `take` for each. `socket` and `state` as verbs are given them, or NULL. Says nothing where
 * no daemon answers and none has left anything. */
void aw_workload_names(const char *socket, const char *state,
                       void (*take)(void *ctx, const char *name), void *ctx);

#endif
