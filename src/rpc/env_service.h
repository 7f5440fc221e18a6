/*
 * env_service.h - aware.v1.Environment over the environments of this program
 * (proto/aware/v1/environment.proto).
 *
 * Call order: new, hand `service` to aw_rpc_server_open, close that server, free.
 * Memory:     sessions of clients, bounded: AW_ENV_SERVICE_SESSIONS of them, streams included,
 *             AW_ENV_SERVICE_COPIES environments in all. A session that is not used for
 *             AW_ENV_SERVICE_IDLE_US is ended.
 * Threads:    the server's. Calls of one session wait for each other.
 */
#ifndef AW_RPC_ENV_SERVICE_H
#define AW_RPC_ENV_SERVICE_H

#include "rpc/server.h"

#define AW_ENV_SERVICE_SESSIONS 256u
#define AW_ENV_SERVICE_COPIES   16384u
#define AW_ENV_SERVICE_IDLE_US  600000000

struct aw_env_service; /* opaque */

/* `only` is the one environment that is served, by name; NULL: all that are built in. */
AW_NODISCARD enum aw_err aw_env_service_new(struct aw_env_service **ret, const char *only,
                                            struct aw_diag *diag);
void aw_env_service_free(struct aw_env_service *service); /* NULL is a no-op */
const struct aw_rpc_service *aw_env_service_service(struct aw_env_service *service);

struct aw_env_service_stats {
    uint32_t sessions, copies; /* now */
    uint64_t steps;            /* of environments, all told */
};
void aw_env_service_stats(struct aw_env_service *service, struct aw_env_service_stats *ret);

#endif
