/*
 * arbitrate.h - the arbiter between functions of multi/world.h: what all want, projected onto the
 * cores and the memory of the nodes.
 *
 * Call order: init; per step: whoever acts sets what is wanted, run, then the world steps; deinit.
 * Memory:     all at init. Threads: single owner, of the world too.
 */
#ifndef AW_MULTI_ARBITRATE_H
#define AW_MULTI_ARBITRATE_H

#include "multi/world.h"
#include "tenancy/arbiter.h"

struct aw_multi_arbiter {
    struct aw_arbiter arbiter;
    double overcommit;              /* containers for each core */
    struct aw_tenancy_terms *terms; /* [agents_max]; the caller's to change */
    struct aw_arbiter_workload *claim;
    struct aw_arbiter_since *since;
    struct aw_arbiter_grant *grant;       /* of agent `agent[k]` */
    struct aw_arbiter_standing *standing; /* likewise */
    uint32_t *agent;
    uint32_t count; /* that were there */
    const struct aw_alloc *alloc;
};
AW_NODISCARD enum aw_err aw_multi_arbiter_init(struct aw_multi_arbiter *arbiter,
                                               const struct aw_multi_world *world,
                                               double overcommit, const struct aw_alloc *alloc,
                                               struct aw_diag *diag);
void aw_multi_arbiter_deinit(struct aw_multi_arbiter *arbiter);
/* Cuts what is wanted to what is granted. */
void aw_multi_arbitrate(struct aw_multi_arbiter *arbiter, struct aw_multi_world *world);

#endif
