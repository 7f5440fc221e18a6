/* desk_internal.h - what the files of a desk share: its insides. */
#ifndef AW_DESK_DESK_INTERNAL_H
#define AW_DESK_DESK_INTERNAL_H

#include <pthread.h>
#include <stdlib.h>

#include "desk/desk.h"

#define AW__OUTCOMES_MAX 4096u /* of one tick; more are counted as lost */

/* The latest orders about its policies, and what became of the last of them. */
struct aw__seat_policy {
    uint64_t propose_id, rollback_id; /* 0: none */
    struct aw_order_policy order;     /* of propose_id */
    char *text;                       /* malloc'd; NULL: in the log alone, or tried already */
    uint64_t tried_id;                /* 0: none since the loop was made */
    enum aw_err tried_err;
    char *why; /* malloc'd; NULL: it was carried out */
};

/* What is known of one workload beyond what its pilot knows. */
struct aw__seat {
    char name[AW_STORE_NAME_MAX];
    struct aw_fallback_task task;
    int64_t decided_us; /* when it was last decided for; AW_NEVER: not yet */
    struct aw_explanation_noted noted;
    uint64_t config_sum; /* of the bytes of config and task that `config` was made from */
    int64_t config;      /* its number in the journal; 0: not known */
    uint64_t last_id, changed_id;
    uint64_t fresh_id; /* of this tick's entry; 0: none */
    struct aw_desk_proposal proposal;
    struct aw_orders orders;
    struct aw__seat_policy policy;
    int64_t reset_us; /* when it was last ordered to forget what it learned; 0: never */
    bool unlogged;    /* its latest is not in the log: to be told again */
    bool changes;     /* this tick's decision changes something */
};

struct aw__outcome {
    char name[AW_STORE_NAME_MAX];
    uint64_t of, order; /* entries; 0: none */
    enum aw_err err;
};

#define AW__LATE_MAX  1024u /* changes that wait for the log; more are only reported and counted */
#define AW__LATE_TICK 16u   /* of them are entered in one tick: each is a sync */

/* A change that was carried out while the log could not be written. */
struct aw__late {
    uint32_t seat;
    int64_t at_us;
    enum aw_err err; /* what the cluster said */
    json_t *entry;
};

/* An order of before the restart. */
struct aw__past {
    uint64_t id;
    int64_t at_us;
    bool done; /* it was carried out */
    struct aw_order order;
};

struct aw_desk {
    struct aw_desk_config config;
    pthread_mutex_t lock;
    struct aw_loop_hooks hooks;
    struct aw_loop *loop; /* NULL: not attached */
    struct aw_audit *audit;
    struct aw_journal *journal; /* NULL: none */
    struct aw_standing_orders book;
    uint32_t count;
    struct aw__seat **seat; /* [AW_WORKLOADS_MAX]; NULL: empty */

    struct aw__past *past; /* orders of the log, by number */
    uint32_t past_count, past_max, past_next;
    int64_t lived_until_us; /* latest decision of the log; AW_NEVER: none */

    /* of this tick */
    int64_t now_us;
    enum aw_err tick_err;
    uint32_t tick_entries;
    bool journal_open, relived;
    bool unwritten; /* what was decided could not be written down */
    uint32_t outcome_count;
    struct aw__outcome outcome[AW__OUTCOMES_MAX];

    struct aw__late late[AW__LATE_MAX]; /* [counts.late_waiting], oldest first */
    struct aw_desk_counts counts;
    enum aw_err ailing; /* why the log could not be written; AW_OK: it could */
    struct aw_diag ailment;
    const struct aw_alloc *alloc;
};

/* The latest decision of a workload that is there; at_us AW_NEVER: none yet. */
const struct aw_decision *aw__desk_last(const struct aw_desk *desk, uint32_t index);
void aw__desk_ail(struct aw_desk *desk, enum aw_err err, const struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__desk_commit_reserved(struct aw_desk *desk, struct aw_diag *diag);
/* Reads the log: orders, and what became of workloads. */
AW_NODISCARD enum aw_err aw__desk_recall(struct aw_desk *desk, struct aw_diag *diag);
/* Orders of before the restart come into force when their time has come: in virtual time it may
 * have to be lived again. */
void aw__desk_catch_up(struct aw_desk *desk, int64_t now_us);
/* The caller's members of an entry, which it owns then. */
AW_NODISCARD enum aw_err aw__desk_members(const struct aw_audit_entry *entry, json_t **ret);
/* Takes an order, with the lock held. `text`: of the policy, for PROPOSE alone. */
AW_NODISCARD enum aw_err aw__desk_take(struct aw_desk *desk, struct aw_order *order,
                                       const char *text, int64_t now_us, uint64_t *ret_id,
                                       struct aw_diag *diag);
/* The outcome of entry `of`, by order `order` (0: none), is written at the end of the tick. */
void aw__desk_outcome(struct aw_desk *desk, const struct aw__seat *seat, uint64_t of,
                      uint64_t order, enum aw_err result);

/* Policies (desk_policy.c). An order about them is in the log, and its time has come. */
void aw__desk_policy_note(struct aw_desk *desk, uint64_t id, const struct aw_order *order);
/* Whether it can be taken, as far as the last decision says. */
AW_NODISCARD enum aw_err aw__desk_policy_may(const struct aw_desk *desk, uint32_t index,
                                             const struct aw_order *order, struct aw_diag *diag);
/* Adds the parts of a text to the group, and says in the order where they are. */
AW_NODISCARD enum aw_err aw__desk_policy_write(struct aw_desk *desk, struct aw_order *order,
                                               const char *text, int64_t now_us,
                                               struct aw_diag *diag);
/* The order whose policy waits for the next decision; 0: none does. */
uint64_t aw__desk_policy_waits(const struct aw__seat *seat, const struct aw_pilot *pilot);
/* Before a decision: what waits is carried out. */
void aw__desk_policies(struct aw_desk *desk, struct aw__seat *seat, struct aw_pilot *pilot);
void aw__desk_policy_drop(struct aw__seat *seat); /* frees what it has */

#endif
