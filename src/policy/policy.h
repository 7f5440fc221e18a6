/*
 * policy.h - what a pilot may ask of a policy, whatever it is made of.
 *
 * A policy is a handle: a table of functions and what they work on. The policy in force and one on
 * trial beside it are two handles of one kind. A kind is one file with a table of functions, and
 * one line in AW_POLICY_MAP. How a kind learns is the business of its teacher (rehearsal/lesson.h).
 *
 * Call order: new; then act once per tick, in order of time, and anything else between ticks; free.
 *             A candidate gets the policy in force before each act.
 * Memory:     one block at new, and what a kind says. act, follow, sees and distance allocate
 *             nothing.
 * Threads:    single owner; learned, describe and save read alone.
 *
 * The trap: act takes in what it is shown. Asking twice in a tick counts as two ticks.
 */
#ifndef AW_POLICY_POLICY_H
#define AW_POLICY_POLICY_H

#include <jansson.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "policy/capacity_rule.h"
#include "policy/library.h"
#include "policy/peers_model.h"
#include "task/action.h"
#include "task/state.h"

/* clang-format off */
/* A kind is added by its file, and a line here.
 *     id         policy     teacher (rehearsal/lesson.h)   name in profiles */
#define AW_POLICY_MAP(X)                                               \
    X(CAPACITY,  capacity,  capacity,                      "formula") \
    X(NETWORK,   network,   network,                       "network") \
    X(EXTERNAL,  external,  no,                            "external") \
    X(MULTI,     peers,     peers,                         "multi")
/* clang-format on */
enum aw_policy_kind {
#define X(id, ...) AW_POLICY_##id,
    AW_POLICY_MAP(X)
#undef X
        AW_POLICY_KINDS
};
extern const char *const aw_policy_names[]; /* ends with NULL */

/* What a policy is made for. */
struct aw_policy_task {
    struct aw_capacity_rule_task need; /* bounds, and the budget of violations */
    const struct aw_action *action;    /* how actions and plans translate; borrowed */
    uint32_t state, obs_dim, hidden;
    double strange; /* distance beyond which a state is not known */
    int64_t now_us; /* when it is made */
    struct aw_slo slo;
    struct aw_prices prices;
    double step_s;
    const struct aw_library *library; /* borrowed; NULL: there is none */
    uint32_t unknown;                 /* its application that is not to be known, from 1; 0: none */
    const struct aw_peers_model *peers; /* of agents that learned together; likewise */
};

/* What it acts on. */
struct aw_policy_seen {
    const struct aw_reading *reading;
    const struct aw_action_memory *action;
    const float *obs;      /* [obs_dim] */
    double latency_us_p50; /* NAN: not known */
    bool violated;         /* the step that has ended missed its SLO */
    bool acted;            /* this very policy has brought that step about */
    bool set_aside;        /* its stage lets the fallback act */
};
/* Of a policy that others have lived: what it was chosen by. No padding: it is saved. */
struct aw_policy_known {
    uint64_t checksum; /* of the library; 0: others have not lived it */
    double distance;   /* to the nearest workload known; above 1: far from all */
    double missed;     /* share of steps, as it is expected */
    uint32_t level;    /* how careful the choice was */
    uint32_t switches; /* to more careful ones, in all */
};
struct aw_policy_answer {
    float action[AW_ACTION_MAX]; /* finite */
    struct aw_plan plan;         /* the same as amounts */
};

struct aw_policy_ops {
    bool explores;  /* while it is ONLINE, around its actions */
    bool elsewhere; /* another process decides: nothing is learned, tried or kept here */

    /* Has learned nothing. AW_ERR_NOMEM: `ret_self` is untouched. */
    enum aw_err (*new)(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                       void **ret_self);
    void (*free)(void *self); /* NULL is a no-op */
    size_t (*bytes)(const void *self);

    /* False: it has no answer that can be used, and `ret` is untouched. */
    bool (*act)(void *self, const struct aw_policy_seen *seen, struct aw_policy_answer *ret);
    /* A step has ended: before it is asked what to do next. May change what it does by what others
     * have lived. */
    void (*observe)(void *self, const struct aw_policy_seen *seen);
    /* What others have lived needs no estimate before it acts. NULL: it has learned otherwise, or
     * nothing. */
    const struct aw_policy_known *(*known)(const void *self);
    /* Id of what it has learned, under which decisions are recorded; 0: nothing yet. */
    uint64_t (*learned)(const void *self);
    /* How far what it sees is from what it has learned on; NAN: unknown. */
    double (*distance)(const void *self, const struct aw_policy_seen *seen);
    /* While it learns: what it is shown from now on is familiar. */
    void (*sees)(void *self, const float *obs);

    /* Numbers drawn by chance, so that something can act that has learned nothing. */
    enum aw_err (*draw)(void *self, struct aw_rng *rng);
    /* A candidate shares the past of `good`, as if it had been there all along. */
    void (*follow)(void *self, const void *good);
    /* Becomes what `other`, of the same shape, has learned; what it has seen of the workload
     * stays. */
    void (*adopt)(void *self, const void *other);
    /* A teacher has changed `taught`, which was a copy of this policy when the lesson began: the
     * same is done to this one. What it has seen of the workload since then stays. */
    void (*taught)(void *self, const void *taught);
    /* Whether `other` is of the same shape. */
    bool (*fits)(const void *self, const void *other);
    /* The workload changed: another load, or other requests. */
    void (*changed)(void *self, bool load);

    /* Everything that decides the future, in as many bytes for every policy of the shape.
     * AW_ERR_FORMAT: not such bytes; it is to be thrown away then. */
    uint64_t (*layout)(uint64_t hash); /* of the structs in these bytes; see base/envelope.h */
    size_t (*state_bytes)(const void *self);
    void (*save)(const void *self, void *bytes);
    enum aw_err (*load)(void *self, const void *bytes);

    /* Adds to an object what makes up the policy, for a file and for people. 0: done; else no
     * memory. */
    int (*describe)(const void *self, json_t *policy);
    /* Becomes what describe wrote. AW_ERR_FORMAT: damaged. AW_ERR_CONFIG: made for another task.
     * After a failure it is to be thrown away. */
    enum aw_err (*read)(void *self, const json_t *policy, uint64_t id, struct aw_diag *diag);
};

struct aw_policy {
    const struct aw_policy_ops *ops; /* no slot is ever NULL */
    void *self;                      /* NULL: no policy */
};

const struct aw_policy_ops *aw_policy_ops_of(uint32_t kind);
/* On failure `ret` is untouched. */
AW_NODISCARD enum aw_err aw_policy_new(const struct aw_policy_ops *ops,
                                       const struct aw_policy_task *task,
                                       const struct aw_alloc *alloc, struct aw_policy *ret);
void aw_policy_free(struct aw_policy *policy); /* a zeroed one is a no-op */

/* Slots that have nothing to do. */
void aw_policy_sees_nothing(void *self, const float *obs);
void aw_policy_observes_nothing(void *self, const struct aw_policy_seen *seen);
const struct aw_policy_known *aw_policy_unknown(const void *self);
void aw_policy_follows_nothing(void *self, const void *good);
void aw_policy_unchanged(void *self, bool load);

#endif
