/*
 * network.h - a network that serves (rl/actnet.h) behind the contract of policies.
 *
 * Memory:  one block, and that of the network.
 * Threads: as policy.h.
 */
#ifndef AW_POLICY_NETWORK_H
#define AW_POLICY_NETWORK_H

#include "policy/policy.h"
#include "rl/actnet.h"
#include "safety/watchdog.h"

struct aw_network {
    struct aw_actnet actor;
    struct aw_familiar familiar; /* the states that it knows */
    struct aw_policy_task task;
    const struct aw_alloc *alloc;
};
extern const struct aw_policy_ops aw_network_ops;

struct aw_network *aw_network_of(const struct aw_policy *policy); /* NULL: of another kind */

#endif
