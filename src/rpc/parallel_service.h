/*
 * parallel_service.h - aware.v1.ParallelEnvironment over the environments of many agents of this
 * program (proto/aware/v1/parallel.proto).
 *
 * Call order: new, hand `service` to aw_rpc_server_open, close that server, free.
 * Memory:     an environment and its arrays per stream, at its init; at most
 *             AW_PARALLEL_SERVICE_STREAMS. A step allocates what unpacking its message does.
 * Threads:    the server's. A stream has one owner at a time.
 */
#ifndef AW_RPC_PARALLEL_SERVICE_H
#define AW_RPC_PARALLEL_SERVICE_H

#include "rpc/server.h"

#define AW_PARALLEL_SERVICE_STREAMS 64u

struct aw_parallel_service; /* opaque */

AW_NODISCARD enum aw_err aw_parallel_service_new(struct aw_parallel_service **ret,
                                                 struct aw_diag *diag);
void aw_parallel_service_free(struct aw_parallel_service *service); /* NULL is a no-op */
const struct aw_rpc_service *aw_parallel_service_service(struct aw_parallel_service *service);

#endif
