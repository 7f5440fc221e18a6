/*
 * library_teach.h - makes a library of capacity rules (policy/library.h) from many applications.
 *
 * For every application the best numbers are searched for in the simulated cluster, under a budget
 * that differs from one to the next, so that there are thrifty and careful ones. Of these the
 * farthest apart become the library. Each of them is then lived for half a day in every
 * application, under its own load and under those of others, and of every such pair the context is
 * taken that its first minutes under the default fallback show.
 *
 * Call order: config_init, changes; teach; aw_library_save.
 * Memory:     a simulated cluster for each thread; the library is the caller's.
 * Threads:    applications are spread over a pool; the bytes do not depend on its size. `alloc`
 *             must be safe in all threads.
 *
 * The trap: what is taught on is not to be reported on, neither the applications nor their loads.
 */
#ifndef AW_PRETRAIN_LIBRARY_TEACH_H
#define AW_PRETRAIN_LIBRARY_TEACH_H

#include "policy/library.h"
#include "pretrain/pretrain.h"
#include "simulation/simulate.h"

struct aw_library_teach_config {
    struct aw_pretrain_pool pool; /* the applications */
    /* The load of each, a day of it; may be called from several threads at once. */
    enum aw_err (*load_make)(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                             struct aw_load *ret_load, struct aw_diag *diag);
    void *load_ctx;
    double cores;                       /* that the mean load needs */
    struct aw_simulate_config simulate; /* bounds, SLO, prices, cluster, seed, threads */
    uint32_t rules;                     /* of the library, at most */
    uint32_t tries;                     /* of the search in each application */
    uint32_t loads;                     /* that each application is lived under */
};
/* Defaults; the pool and its loads are the caller's to fill in. */
void aw_library_teach_config_init(struct aw_library_teach_config *config);

/* Called as pieces of work finish, never from two threads at once. False: AW_ERR_INTERRUPTED. */
typedef bool aw_library_teach_progress(void *ctx, uint32_t done, uint32_t total);

/* On failure `ret` is untouched. */
AW_NODISCARD enum aw_err aw_library_teach(const struct aw_library_teach_config *config,
                                          aw_library_teach_progress *progress, void *ctx,
                                          const struct aw_alloc *alloc, struct aw_library *ret,
                                          struct aw_diag *diag);

/* What the choice costs where an application is not known, each left out in turn. */
struct aw_library_left_out {
    double cost;         /* over the best rule of the library, geometric mean */
    double missed;       /* share of steps, mean */
    double within_share; /* of applications that keep the budget */
};
void aw_library_left_out(const struct aw_library *library, const struct aw_prices *prices,
                         double budget, uint32_t level, struct aw_library_left_out *ret);

#endif
