/*
 * remote.h - an environment that another process serves, as an aw_env: what `aware train --env
 * grpc://...` learns from, in whatever language it is written.
 *
 * Call order: aw_env_elsewhere_set(&aw_rpc_elsewhere) once at start; then any name that is an
 *             address (target.h) is found by aw_env_find, and made, reset and stepped like any
 *             other.
 * Memory:     one entry per address, AW_REMOTE_MAX in a process, which stays. Steps allocate inside
 *             the gRPC library, unlike those of environments that live here.
 * Threads:    as any aw_env; all of one address share a connection, each has a stream of its own.
 *
 * Nothing that comes is taken at its word: sizes, finite numbers, and that an answer is to what was
 * asked. Calls of an aw_env have no diagnostic: what went wrong last is kept, see trouble.
 *
 * The trap: the other process cannot be put back into an earlier state. A snapshot is taken back
 * only while nothing has happened since, so a run on a remote environment cannot be resumed.
 */
#ifndef AW_RPC_REMOTE_H
#define AW_RPC_REMOTE_H

#include <aware/env.h>

#define AW_REMOTE_MAX 4u

extern const struct aw_env_elsewhere aw_rpc_elsewhere;

/* An option that the other side says its environment has; all of it is text for people. */
struct aw_remote_option {
    char key[AW_ENV_NAME_MAX], takes[AW_ENV_NAME_MAX], initial[128], help[256];
};
#define AW_REMOTE_OPTIONS_MAX 64u /* more are not kept */
/* Those of an environment that was found by its address; they live as long as the factory. Returns
 * how many: 0 for local environments. */
uint32_t aw_remote_options(const struct aw_env_factory *factory,
                           const struct aw_remote_option **ret_options);
/* What the last failure of a remote environment was, for people: "" when there was none. Copies
 * into `buf`, and returns it. */
const char *aw_remote_trouble(char *buf, size_t size);

#endif
