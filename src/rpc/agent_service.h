/*
 * agent_service.h - aware.v1.Agent: agents of other processes for the workloads of a control loop
 * (proto/aware/v1/agent.proto), over an exchange (control/agent_exchange.h).
 *
 * Call order: new, hand `service` to aw_rpc_server_open, close that server, free; the exchange is
 *             freed after it.
 * Memory:     a stream's from the heap; as many streams as the server admits.
 * Threads:    the server's, and one of its own that sends what the loop asks and tells: the loop
 *             never waits for a wire.
 */
#ifndef AW_RPC_AGENT_SERVICE_H
#define AW_RPC_AGENT_SERVICE_H

#include "control/agent_exchange.h"
#include "rpc/server.h"

/* Of one message of an agent: far more than an action and its explanation take. */
#define AW_AGENT_SERVICE_BYTES_MAX 65536u
/* A stream on which an agent says nothing for so long ends: longer than one may be set aside. */
#define AW_AGENT_SERVICE_IDLE_US INT64_C(7200000000)

struct aw_agent_service; /* opaque */

/* Called with lines for an operator: an agent came, was refused, left. Any thread. */
typedef void aw_agent_service_told(void *ctx, const char *what, const char *workload,
                                   const char *agent, const char *text);

/* `exchange` is borrowed; `told` may be NULL. */
AW_NODISCARD enum aw_err aw_agent_service_new(struct aw_agent_service **ret,
                                              struct aw_agent_exchange *exchange,
                                              aw_agent_service_told *told, void *ctx,
                                              struct aw_diag *diag);
void aw_agent_service_free(struct aw_agent_service *service); /* NULL is a no-op */
const struct aw_rpc_service *aw_agent_service_service(struct aw_agent_service *service);

#endif
