/*
 * capacity.h - the policy of nine numbers (capacity_rule.h) behind the contract of policies.
 *
 * Where there is a library (library.h) it has numbers after ten minutes: it watches who acts, and
 * takes those that did best in applications like this one. While steps are missed again and again
 * it goes on to the next more careful ones.
 *
 * Memory:  one block.
 * Threads: as policy.h.
 *
 * The trap: change the numbers with aw_capacity_set, or the old values go on deciding.
 */
#ifndef AW_POLICY_CAPACITY_H
#define AW_POLICY_CAPACITY_H

#include "policy/policy.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
/* What outlives a tick. No padding: it is copied into snapshots. */
struct aw_capacity_memory {
    struct aw_capacity_rule rule;
    struct aw_capacity_rule_memory lived;
    struct aw_context_memory context; /* until numbers were chosen by it */
    float seen[AW_CONTEXT_DIM];       /* the context that they were chosen by */
    struct aw_policy_known known;
    struct aw_prices prices; /* that they were chosen for, and .. */
    double budget;           /* .. the budget, and .. */
    double slo_latency_us;   /* .. the SLO */
    uint64_t recent; /* bits of the last steps that it brought about: missed; the latest lowest */
    uint32_t since;  /* such steps since its numbers last changed */
    uint32_t sure;   /* 1: the context was complete when they were chosen */
    double rehearsed_load; /* requests/s, the highest that it was tried on; 0: none */
    uint64_t id;           /* 0: nothing was learned yet */
};
#pragma GCC diagnostic pop

struct aw_capacity {
    struct aw_capacity_memory memory;
    struct aw_capacity_rule_values values; /* of the capacity rule */
    struct aw_policy_task task;
    const struct aw_alloc *alloc;
};
extern const struct aw_policy_ops aw_capacity_ops;

struct aw_capacity *aw_capacity_of(const struct aw_policy *policy); /* NULL: of another kind */
/* Other numbers from now on; `id` 0: as if nothing had been learned. */
void aw_capacity_set(struct aw_capacity *capacity, const struct aw_capacity_rule *rule,
                     uint64_t id);

/* What its library expects of each rule here; false: there is none, or too little was seen. */
bool aw_capacity_expect(const struct aw_capacity *capacity, struct aw_library_expected *ret);
/* A rule of its library as it would act here: where misses have not made its choice more careful,
 * of the size that did well under the fallback. */
struct aw_capacity_rule aw_capacity_lived(const struct aw_capacity *capacity, uint32_t rule);
/* Another rule of its library from now on; it is known as the one before was. */
void aw_capacity_take(struct aw_capacity *capacity, uint32_t rule);

#endif
