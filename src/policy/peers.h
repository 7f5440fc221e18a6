/*
 * peers.h - agents that learned together as a policy: a staffing rule, corrected.
 *
 * The anchor is a capacity rule (capacity_rule.h): the one of the library that did best in
 * applications like this one, or the plain one. In every step the network of the workload's
 * category chooses a factor on the rule's margin, from what it sees of the workload alone. Sizes,
 * memory and sleep are the rule's. The networks are shared by all workloads of a category and were
 * taught together (SIMPPO; `aware pretrain multi`); what a workload learns of its own is how far to
 * lean towards larger factors.
 *
 * A newcomer is watched for ten minutes, put into a category, and begins with its network.
 *
 * Memory:  one block, with a copy of the network; the model (peers_model.h) is borrowed.
 * Threads: as policy.h.
 *
 * The trap: aw_peers_see takes in what it is shown. Asking twice in a step counts as two steps.
 */
#ifndef AW_POLICY_PEERS_H
#define AW_POLICY_PEERS_H

#include "policy/peers_model.h"
#include "policy/policy.h"

#define AW_PEERS_LEAN_MIN (-2)
#define AW_PEERS_LEAN_MAX 4

extern const double aw_peers_factor[AW_PEERS_CHOICES]; /* on the margin, of each choice */

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
/* What outlives a tick. No padding: it is copied into snapshots. */
struct aw_peers_memory {
    struct aw_capacity_rule rule;
    struct aw_capacity_rule_memory lived;
    struct aw_context_memory context; /* until there is a category */
    struct aw_policy_known known;
    double arrivals_per_s; /* of the step before; 0: none */
    double swing;          /* smoothed change of the load, of the load */
    uint64_t id;           /* 0: nothing was learned yet */
    uint64_t recent;       /* bits of the last steps that it brought about: missed; latest lowest */
    uint32_t since;        /* such steps since it last leaned further */
    uint32_t category;     /* enum aw_peers_category; AW_PEERS_CATEGORIES: not known yet */
    int32_t lean;          /* choices further up, towards more */
    uint32_t chosen;       /* the last choice, lean included */
    uint64_t net_id;       /* of what follows; 0: no network, and the rule stays as it is */
    struct aw_peers_net net;
};
#pragma GCC diagnostic pop

struct aw_peers {
    struct aw_peers_memory memory;
    struct aw_policy_task task;
    const struct aw_alloc *alloc;
};
extern const struct aw_policy_ops aw_peers_ops;
struct aw_peers *aw_peers_of(const struct aw_policy *policy); /* NULL: of another kind */

/* As new, in the caller's storage. */
void aw_peers_begin(struct aw_peers *peers, const struct aw_policy_task *task);
/* The category and the rule of a workload whose context is known; no lean. */
void aw_peers_know(struct aw_peers *peers, const float context[AW_CONTEXT_DIM]);
/* The network of its category, of a model; NULL: none. */
void aw_peers_wear(struct aw_peers *peers, const struct aw_peers_model *model);
/* Leans by so much from now on; category and rule stay. */
void aw_peers_lean(struct aw_peers *peers, int32_t lean);
/* The category, rule and lean of another. */
void aw_peers_become(struct aw_peers *peers, const struct aw_peers *other);

/* What an agent sees of a step, each about -1 to 1 and finite. */
void aw_peers_see(struct aw_peers *peers, const struct aw_reading *reading, bool violated,
                  float ret[AW_PEERS_STATE]);
/* The likeliest choice, before leaning; without a model the rule as it is. */
uint32_t aw_peers_choose(const struct aw_peers *peers, const float state[AW_PEERS_STATE]);
/* What a choice asks for: all of `ret_plan` is set. */
void aw_peers_plan(struct aw_peers *peers, const struct aw_reading *reading, bool violated,
                   bool acted, uint32_t choice, struct aw_plan *ret_plan);

/* By how a request is spent and what a replica holds: waiting beyond twice its CPU is I/O, much
 * memory for the cores in use is memory, all else CPU. `context` as aw_context_read gives it. */
enum aw_peers_category aw_peers_category_of(const float context[AW_CONTEXT_DIM]);

#endif
