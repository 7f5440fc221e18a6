/*
 * orders.h - what people have ordered for one workload, as its pilot gets it in a tick.
 *
 * Memory:  plain struct; zeroed is "nothing was ordered".
 * Threads: none of its own.
 *
 * An order of a person replaces what agent or fallback propose. It passes the rails that keep a
 * workload safe (bounds, node, missing figures, working set), and none of those that only keep
 * things calm (steps, budgets, cool-down, dead band), nor freeze and mode: a person who undoes a
 * change in the middle of a crash loop wants it now.
 */
#ifndef AW_SAFETY_ORDERS_H
#define AW_SAFETY_ORDERS_H

#include <aware/cluster.h>

#include "safety/guard.h"

/* clang-format off */
/*     id            name           sentence: what it makes of a decision */
#define AW_ORDER_MAP(X)                                                                            \
    X(NONE,         "none",        "nobody has ordered anything")                                  \
    X(FREEZE,       "freeze",      "nothing is changed")                                           \
    X(UNFREEZE,     "unfreeze",    "a freeze is over")                                             \
    X(UNDO,         "undo",        "what a decision changed goes back to what it was")             \
    X(APPROVE,      "approve",     "what was recommended is carried out")                          \
    X(REJECT,       "reject",      "what was recommended is not carried out")                      \
    X(EMERGENCY,    "emergency",   "generous resources at once, and back slowly")                  \
    X(CALM,         "calm",        "an emergency is over, resources go back slowly")              \
    X(RESET,        "reset",       "what was learned is forgotten, and the fallback acts")         \
    X(PROPOSE,      "propose",     "a policy is watched, tried, and adopted or rolled back")       \
    X(ROLLBACK,     "rollback",    "a policy on trial is taken back, the last known good one acts")
/* clang-format on */
enum aw_order_kind {
#define X(id, name, sentence) AW_ORDER_##id,
    AW_ORDER_MAP(X)
#undef X
        AW_ORDER_COUNT
};
const char *aw_order_name(uint32_t kind); /* "undo"; NULL for what is no order */
const char *aw_order_sentence(uint32_t kind);

/* What the arbiter between tenants left of a decision (tenancy/arbiter.h). */
struct aw_order_grant {
    uint32_t reason;     /* enum aw_arbiter_reason; 0: all of it */
    uint32_t asked, got; /* replicas */
    uint32_t target;     /* replicas that it comes to when others have given back */
    uint32_t same_size;  /* 1: replicas do not become larger */
    uint32_t wait_s;     /* until others are told to give back, at most */
    uint32_t rank, of;   /* place of its tenant in its class by share, the lowest first */
};

struct aw_orders {
    uint32_t freeze;      /* enum aw_guard_freeze */
    uint32_t pin_kind;    /* AW_ORDER_UNDO, AW_ORDER_APPROVE, or AW_ORDER_NONE: no pin */
    uint64_t freeze_id;   /* which order froze it; 0: none */
    uint64_t pin_id;      /* which order pins; 0: none */
    uint64_t floor_id;    /* which emergency; 0: none */
    struct aw_plan pin;   /* `set`: proposed instead of the actor's plan */
    struct aw_plan floor; /* `set`: nothing below it is proposed */
    bool urgent;          /* the floor is an emergency that goes on; else it is being let down */
    struct aw_order_grant grant; /* no person's: it comes after the decision, as its last rail */
};

#endif
