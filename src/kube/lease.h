/*
 * lease.h - an election (election.h) over a Lease object of the cluster.
 *
 * Call order: init; step from a loop, no later than it says; release before the process ends.
 * Memory:     a plain struct. Threads: those of the client.
 *
 * The trap: a renewal must not wait for other work. Give the election a client of its own and a
 * thread of its own: a list that takes twenty seconds on the same client would cost the leadership.
 */
#ifndef AW_KUBE_LEASE_H
#define AW_KUBE_LEASE_H

#include "kube/client.h"
#include "kube/election.h"

struct aw_kube_leader {
    struct aw_kube *kube;  /* borrowed */
    const char *ns, *name; /* of the Lease; borrowed */
    struct aw_kube_election election;
};

AW_NODISCARD enum aw_err aw_kube_leader_init(struct aw_kube_leader *leader, struct aw_kube *kube,
                                             const char *ns, const char *name,
                                             const struct aw_kube_election_config *config,
                                             struct aw_diag *diag);
/* Reads and writes what is due; `ret_due_us` is when to step again (monotonic). An error is for the
 * log: it tries again by itself. */
AW_NODISCARD enum aw_err aw_kube_leader_step(struct aw_kube_leader *leader, int64_t *ret_due_us,
                                             struct aw_diag *diag);
bool aw_kube_leader_leads(const struct aw_kube_leader *leader);
/* Gives the Lease back, also after aw_kube_stop: the next leader need not wait for its end. */
AW_NODISCARD enum aw_err aw_kube_leader_release(struct aw_kube_leader *leader,
                                                struct aw_diag *diag);

/* A Lease object to a record and back. AW_ERR_FORMAT: not a Lease. NULL: no memory. */
AW_NODISCARD enum aw_err aw_kube_lease_read(const json_t *object, struct aw_kube_lease *ret_lease,
                                            struct aw_diag *diag);
json_t *aw_kube_lease_write(const struct aw_kube_lease *lease, const char *ns, const char *name);

#endif
