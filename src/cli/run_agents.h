/*
 * run_agents.h - the door of a run for agents of other processes: an exchange, and the gRPC service
 * in front of it.
 *
 * Call order: open, hand the exchange to whoever makes the loop, wait if one likes, close after the
 *             loop is gone or while nobody ticks.
 * Memory:     all at open; the server's per call.
 * Threads:    the server's and the service's own.
 */
#ifndef AW_CLI_RUN_AGENTS_H
#define AW_CLI_RUN_AGENTS_H

#include "cli/run.h"

#include <stdatomic.h>

struct aw__runagents; /* opaque */

/* NULL without failure: no workload admits such an agent, and nobody asked for a door. */
AW_NODISCARD enum aw_err aw__runagents_open(struct aw__runagents **ret, const struct aw_call *run,
                                            const struct aw_runask *ask, struct aw_diag *diag);
void aw__runagents_close(struct aw__runagents *agents); /* NULL is a no-op */
/* NULL of NULL. */
struct aw_exchange *aw__runagents_exchange(const struct aw__runagents *agents);
/* Until every workload that admits an agent has one, `wait_s` are over, or `stop` is not 0. */
void aw__runagents_wait(const struct aw__runagents *agents, double wait_s, const _Atomic int *stop);

#endif
