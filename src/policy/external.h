/*
 * external.h - an agent of another process (safety/external_agent.h) behind policy.h.
 *
 * Memory:  one block.
 * Threads: as policy.h.
 *
 * The trap: it has no answer of its own. The caller asks over the wire and hands in the answer;
 * aw_external_step says before each act whether it can be used.
 */
#ifndef AW_POLICY_EXTERNAL_H
#define AW_POLICY_EXTERNAL_H

#include "policy/policy.h"
#include "safety/external_agent.h"

/* No padding: it is copied into snapshots. */
struct aw_external_memory {
    struct aw_external_agent_memory agent;
    struct aw_external_agent_answer heard; /* in this tick; zeroed between decisions */
};
struct aw_external {
    struct aw_external_memory memory;
    float action[AW_ACTION_MAX]; /* of this tick */
    bool usable;                 /* there is one */
    struct aw_policy_task task;
    const struct aw_alloc *alloc;
};
extern const struct aw_policy_ops aw_external_ops;

struct aw_external *aw_external_of(const struct aw_policy *policy); /* NULL: of another kind */
/* Takes in the answer, and forgets it. Returns how long it took. */
double aw_external_step(struct aw_external *external,
                        const struct aw_external_agent_settings *settings, int64_t now_us,
                        struct aw_external_agent_report *ret_report);

#endif
