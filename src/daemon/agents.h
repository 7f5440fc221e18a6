/*
 * agents.h - the door of a run for agents of other processes: an exchange, and the gRPC service
 * in front of it.
 *
 * Call order: open, pass the exchange to the loop, wait if wanted, close after the loop is freed or
 *             while it does not tick.
 * Memory:     all at open; the server's per call.
 * Threads:    the server's and the service's own.
 */
#ifndef AW_DAEMON_AGENTS_H
#define AW_DAEMON_AGENTS_H

#include "control/agent_exchange.h"
#include "daemon/config.h"

#include <stdatomic.h>

struct aw__agents; /* opaque */

/* NULL without failure: no workload admits an external agent, and no address was asked for. */
AW_NODISCARD enum aw_err aw__agents_open(struct aw__agents **ret,
                                         const struct aw_daemon_config *config, struct aw_log *log,
                                         struct aw_diag *diag);
void aw__agents_close(struct aw__agents *agents); /* NULL is a no-op */
/* NULL of NULL. */
struct aw_agent_exchange *aw__agents_exchange(const struct aw__agents *agents);
/* Until every workload that admits an agent has one, `wait_s` are over, or `stop` is not 0. */
void aw__agents_wait(const struct aw__agents *agents, double wait_s, const _Atomic int *stop);

#endif
