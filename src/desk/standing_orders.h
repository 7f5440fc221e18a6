/*
 * standing_orders.h - the orders of people that are in force: freezes, undone changes, approvals,
 * emergencies.
 *
 * They are a fold over the audit log: every order is an entry there, and applying them in order
 * gives them back after a restart. What an order means for a workload at a time is a function
 * of the book, the workload's name and the time.
 *
 * Call order: init; apply for every order, in the order of the log; done when a pin was carried
 *             out; orders before each decision; deinit.
 * Memory:     one block at init; apply never allocates. Full is AW_ERR_LIMIT: nothing is dropped.
 * Threads:    single owner.
 */
#ifndef AW_DESK_STANDING_ORDERS_H
#define AW_DESK_STANDING_ORDERS_H

#include <jansson.h>

#include "base/alloc.h"
#include "safety/orders.h"

#include <aware/store.h>

#define AW_STANDING_ORDERS_FREEZES_MAX 1024u /* in force at once */
#define AW_STANDING_ORDERS_PINS_MAX    4096u /* undos and approvals under way, and emergencies */
#define AW_ORDER_REASON_MAX            256u  /* bytes with the NUL */
#define AW_ORDER_BY_MAX                64u
#define AW_FOR_EVER                    INT64_MAX

/* The workload of an order. */
enum aw_order_scope { AW_SCOPE_WORKLOAD, AW_SCOPE_NAMESPACE, AW_SCOPE_ALL };
extern const char *const aw_order_scope_names[]; /* "workload", "namespace", "all", NULL */

/* A policy that was handed in: its text is in the log, in parts, before the order. */
struct aw_order_policy {
    uint64_t id;
    char checksum[24]; /* of its text */
    uint64_t first;    /* entry with its first part */
    uint32_t parts;    /* that follow each other */
    uint32_t bytes;    /* of all of them */
};

struct aw_order {
    uint32_t kind;                /* enum aw_order_kind, not NONE */
    uint32_t scope;               /* enum aw_order_scope */
    char name[AW_STORE_NAME_MAX]; /* "namespace/workload", or a namespace; "" for all */
    bool down_only;               /* FREEZE: growing goes on */
    int64_t until_us;             /* FREEZE, EMERGENCY: when it ends by itself; else when the order
                                     is no longer tried; AW_FOR_EVER */
    int64_t freeze_until_us;      /* UNDO: the workload is frozen until then; AW_NEVER: it is not */
    uint64_t decision;            /* UNDO, APPROVE, REJECT: entry that it is about; UNFREEZE, CALM:
                                     order that it ends, 0: all in its scope */
    struct aw_plan plan;          /* UNDO, APPROVE: what is to be; EMERGENCY: the floor */
    struct aw_order_policy policy; /* PROPOSE */
    char reason[AW_ORDER_REASON_MAX];
    char by[AW_ORDER_BY_MAX]; /* the user who gave it */
};

/* As members of an audit entry, and back. from_json refuses what is no order: AW_ERR_FORMAT with
 * the member that is wrong. NULL: no memory. */
json_t *aw_order_to_json(const struct aw_order *order);
AW_NODISCARD enum aw_err aw_order_from_json(json_t *object, struct aw_order *ret,
                                            struct aw_diag *diag);
/* Amounts that a plan sets: {"replicas":3,"memory_bytes":536870912}; {} sets none. AW_ERR_FORMAT
 * with the member that is wrong; `ret` is untouched then. */
AW_NODISCARD enum aw_err aw_plan_from_json(json_t *plan, struct aw_plan *ret, struct aw_diag *diag);
/* AW_ERR_CONFIG where an order cannot be meant: no reason given, a scope without its name. */
AW_NODISCARD enum aw_err aw_order_check(const struct aw_order *order, struct aw_diag *diag);

/* An order that is in force. */
struct aw_standing {
    uint64_t id; /* its entry in the audit log */
    int64_t at_us;
    struct aw_order order;
};

struct aw_standing_orders {
    uint32_t freeze_count, pin_count;
    struct aw_standing
        *freeze; /* [AW_STANDING_ORDERS_FREEZES_MAX] by age; FREEZE, and the freezes of UNDO */
    struct aw_standing *pin; /* [AW_STANDING_ORDERS_PINS_MAX] by age; UNDO, APPROVE, EMERGENCY */
    const struct aw_alloc *alloc;
};

AW_NODISCARD enum aw_err aw_standing_orders_init(struct aw_standing_orders *book,
                                                 const struct aw_alloc *alloc);
void aw_standing_orders_deinit(struct aw_standing_orders *book); /* a zeroed one is a no-op */

/* Takes an order in. Ids ascend. A later UNDO or APPROVE of a workload takes the place of an
 * earlier one. AW_ERR_LIMIT: as many as there can be stand already. */
AW_NODISCARD enum aw_err aw_standing_orders_apply(struct aw_standing_orders *book, uint64_t id,
                                                  int64_t at_us, const struct aw_order *order,
                                                  struct aw_diag *diag);
/* The pin of this order was carried out: it is tried no more. Unknown ids are no failure. */
void aw_standing_orders_done(struct aw_standing_orders *book, uint64_t id);
/* Forgets what has ended by itself. Never needed for what orders says. */
void aw_standing_orders_expire(struct aw_standing_orders *book, int64_t now_us);

/* What stands for this workload now: the strictest freeze, the latest pin, the highest floors. */
void aw_standing_orders_orders(const struct aw_standing_orders *book, const char *workload,
                               int64_t now_us, struct aw_orders *ret);
/* Whether an order of this scope and name is about this workload. */
bool aw_order_is_about(const struct aw_order *order, const char *workload);

/* After an emergency its floor goes down by this share per minute (as tortoise does per reconcile),
 * in steps of some minutes so that sizes do not change in every tick, until it is gone. */
#define AW_EMERGENCY_LET_DOWN_PER_MIN 0.05
#define AW_EMERGENCY_STEP_MIN         5
#define AW_EMERGENCY_GONE_MIN         60

#endif
