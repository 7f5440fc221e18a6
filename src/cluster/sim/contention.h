/*
 * contention.h - how the pods of a node share its cores when their limits sum to more than those.
 *
 * aw__share is exact, and what the reference uses at every change. aw__contention_solve is what
 * the fast model makes of a whole interval: cores that each pod gets when it is busy, at several
 * levels of what the others want.
 *
 * Memory:  the caller's; nothing is allocated.
 * Threads: pure but for what is passed in.
 */
#ifndef AW_CLUSTER_SIM_CONTENTION_H
#define AW_CLUSTER_SIM_CONTENTION_H

#include "cluster/sim/internal.h"

/* Wants `want` cores for the share `busy` of the time. Weights are positive. */
struct aw__sharer {
    double busy, want, weight;
};
/* The cores of a unit of weight where those who want more get no more than it times their weight,
 * and all of `cores` is used; INFINITY: everybody gets what it wants. */
double aw__share(const struct aw__sharer *sharers, uint32_t count, double cores);

/* Levels of what the others of a node want, from cores to spare to far too few. */
#define AW__LEVELS 4u

/* A running pod, for an interval. */
struct aw__tenant {
    uint32_t node;
    bool saturated;           /* has more to do than it gets done */
    double weight, quota;     /* cores */
    double parallelism;       /* of a request */
    double request_ms;        /* of a request on the CPU, alone */
    double use;               /* cores, on average */
    double busy, want;        /* share of the time, and cores then */
    double share[AW__LEVELS]; /* out: of the time, at each level of what the others want */
    double cores[AW__LEVELS]; /* out: that it gets then, when it is busy */
    double lasting;           /* out: that it gets when it is always busy */
};

struct aw__contention {
    uint32_t count, tenants_max;
    struct aw__tenant *tenant; /* [tenants_max] of all nodes */
    struct aw__sharer *sharer; /* [tenants_max] */
    uint32_t *on;              /* [tenants_max] by node */
    uint32_t *of;              /* [workloads_max] its first pod in `tenant` */
    uint32_t first[AW_SIM_NODES_MAX + 1];
};

AW_NODISCARD enum aw_err aw__contention_new(struct aw_sim *sim);
void aw__contention_free(struct aw_sim *sim);
/* For the pods that run between the two times, all present workloads. */
void aw__contention_run(struct aw_sim *sim, double from_us, double until_us);
void aw__contention_solve(struct aw__contention *c, uint32_t nodes, double cores);

#endif
