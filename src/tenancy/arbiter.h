/*
 * arbiter.h - who gets the last cores: what all workloads of a cluster ask for, projected onto what
 * the cluster has.
 *
 * Two levels under one rule: tenants share the cluster, the workloads of a tenant share what the
 * tenant gets. The rule:
 *
 *   1. floors: what a workload cannot go below (its smallest number of replicas, or all of it where
 *      its rails hold it);
 *   2. guarantees, up to what is asked;
 *   3. priority classes, the highest first, up to guarantee + borrow limit;
 *   4. inside a class weighted max-min of dominant shares (DRF, NSDI'11): everybody rises at the
 *      pace of its weight until it has what it asks or a resource that it needs is gone.
 *
 * Weights lean by at most `credit_tilt` towards who has lent and away from who has borrowed (after
 * Karma, OSDI'23). Replicas are whole: shares are rounded down, and what is left over goes round
 * once more.
 *
 * Nothing is promised twice. A workload grows only into what is free now, that is into what nobody
 * holds. What another one gives back, or is told to give back, is free when it has been seen to be.
 * Who holds more than its target gives it back when somebody has waited for `reclaim_s`. The time
 * is that of who waits: who borrows may change meanwhile.
 *
 * Call order: init; run once a tick; deinit.
 * Memory:     scratch for the maxima at init; run allocates nothing and is O(n log n).
 * Threads:    a pure function of its arguments, its memory included; an arbiter has one owner.
 *
 * The trap: `holds` is what a workload was last seen to be asked to have, pending replicas
 * included. An arbiter that is told what runs instead promises the room of pending replicas again.
 */
#ifndef AW_TENANCY_ARBITER_H
#define AW_TENANCY_ARBITER_H

#include "base/alloc.h"
#include "base/conf.h"

enum aw_pool { AW_POOL_CPU, AW_POOL_MEMORY, AW_POOLS }; /* millicores, bytes */

#define AW_TENANCY_PRIORITY_MAX 1000000000 /* as Kubernetes' user-defined priority classes */
#define AW_TENANCY_UNLIMITED    INT64_MAX

/* What a tenant, or a workload inside its tenant, was promised. */
struct aw_tenancy_terms {
    double weight;    /* > 0 */
    int64_t priority; /* higher goes first */
    int64_t guarantee[AW_POOLS];
    int64_t borrow_limit[AW_POOLS]; /* beyond the guarantee; AW_TENANCY_UNLIMITED */
};
/* Weight 1, priority 0, no guarantee, no limit. */
void aw_tenancy_terms_init(struct aw_tenancy_terms *terms);

struct aw_arbiter_settings {
    double reclaim_s;   /* for which what was borrowed may be kept when it is wanted back */
    double credit_s;    /* time constant over which lending and borrowing are remembered */
    double credit_tilt; /* the most by which they change a weight, as a factor >= 1 */
};
extern const struct aw_conf_field aw_arbiter_fields[];

/* What is remembered from tick to tick. Zeroed: nothing yet. No padding: it is saved. */
struct aw_arbiter_credit { /* of a tenant */
    double credit;         /* -1 (always borrows) to 1 (always lends) */
};
struct aw_arbiter_since { /* of a workload */
    double waits_s;       /* for which its share has been held by others */
    double over_s;        /* for which it has held more than its own limits allow */
};

#define AW_ARBITER_ALONE UINT32_MAX /* a workload that is a tenant of its own */

struct aw_arbiter_workload {
    uint32_t tenant; /* below the number of tenants, or AW_ARBITER_ALONE */
    struct aw_tenancy_terms terms;
    int64_t holds[AW_POOLS];       /* in all its replicas, pending ones too */
    int64_t quantum[AW_POOLS];     /* one replica as it is asked for; > 0 */
    uint32_t replicas_asked;       /* of that size */
    uint32_t replicas_floor;       /* that it keeps whatever happens */
    struct aw_arbiter_since since; /* in and out */
};

struct aw_arbiter_tenant {
    struct aw_tenancy_terms terms;
    struct aw_arbiter_credit credit; /* in and out */
};

/* clang-format off */
/*     id          name          sentence: why it did not get what it asked for */
#define AW_ARBITER_REASON_MAP(X)                                                                   \
    X(GRANTED,    "granted",    "it got what it asked for")                                        \
    X(BORROW,     "borrow",     "its guarantee and borrow limit are used up")                      \
    X(PRIORITY,   "priority",   "tenants of a higher priority use what is left")                   \
    X(SHARE,      "share",      "its fair share of a full cluster is used up")                     \
    X(TENANT,     "tenant",     "other workloads of its tenant use the rest of its share")         \
    X(WAITING,    "waiting",    "its share is still held by others, who give it back")             \
    X(RECLAIMED,  "reclaimed",  "it held more than its share, and others wait for theirs")
/* clang-format on */
enum aw_arbiter_reason {
#define X(id, name, sentence) AW_ARBITER_##id,
    AW_ARBITER_REASON_MAP(X)
#undef X
        AW_ARBITER_REASONS
};
const char *aw_arbiter_reason_name(enum aw_arbiter_reason reason);
const char *aw_arbiter_reason_sentence(enum aw_arbiter_reason reason);

/* What a workload gets. */
struct aw_arbiter_grant {
    enum aw_arbiter_reason reason;
    uint32_t replicas; /* of its quantum, that it may have now; with `keeps`: no more than it has */
    bool keeps;        /* nothing may grow, and nothing has to shrink yet */
    uint32_t target;   /* replicas that it comes to once others have given back */
    double wait_s;     /* WAITING: until borrowers are told to give back, at most; else 0 */
};

/* How a tenant stands; of a workload that is alone: as a tenant. */
struct aw_arbiter_standing {
    int64_t holds[AW_POOLS], asks[AW_POOLS];
    int64_t target[AW_POOLS]; /* that it is entitled to, given what all ask */
    int64_t gets[AW_POOLS];   /* now */
    int64_t lends[AW_POOLS];  /* of its guarantee or fair share, what others use */
    int64_t borrows[AW_POOLS];
    double share;      /* dominant share of the cluster that it gets */
    uint32_t rank, of; /* place in its class by share over weight, the lowest first; from 1 */
};

struct aw__arbiter_entry;

struct aw_arbiter {
    struct aw_arbiter_settings settings;
    uint32_t workloads_max, tenants_max;
    struct aw__arbiter_entry *entry; /* [workloads_max] and [tenants_max + workloads_max] */
    uint32_t *order;                 /* [tenants_max + 2 workloads_max] */
    const struct aw_alloc *alloc;
};

/* On failure `arbiter` is zeroed, and deinit of it is a no-op. */
AW_NODISCARD enum aw_err aw_arbiter_init(struct aw_arbiter *arbiter,
                                         const struct aw_arbiter_settings *settings,
                                         uint32_t tenants_max, uint32_t workloads_max,
                                         const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_arbiter_deinit(struct aw_arbiter *arbiter);

struct aw_arbiter_case {
    int64_t capacity[AW_POOLS]; /* > 0; what may be given in all */
    double elapsed_s;           /* since the run before; 0: the first */
    uint32_t tenant_count, workload_count;
    struct aw_arbiter_tenant *tenants;     /* [tenant_count] */
    struct aw_arbiter_workload *workloads; /* [workload_count] */
};
/* Standings are those of the tenants, then those of the workloads (zero where one is not alone):
 * [tenant_count + workload_count]; NULL: not wanted. */
void aw_arbiter_run(struct aw_arbiter *arbiter, struct aw_arbiter_case *of,
                    struct aw_arbiter_grant *ret_grants, struct aw_arbiter_standing *ret_standings);

#endif
