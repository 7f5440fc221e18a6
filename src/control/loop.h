/*
 * loop.h - the control loop: many workloads, one cluster, one store, one tick at a time.
 *
 * A tick: every workload is observed; what they finished goes to the store in one group; then each
 * decides; what they decided is written down, by the desk; then plans are applied; then those learn
 * that need it most. Deciding never waits for learning, nothing is decided before the past is kept,
 * and nothing is done that was not written down, with one exception: a full disk must not become an
 * outage, so growth on a missed SLO goes on, and the desk enters it later.
 *
 * Learning is bounded: `learn_max` rounds in a tick, workloads that miss their SLO first, then
 * those that have waited longest. A round counts whatever it takes, so that the same ticks give the
 * same bytes. When a round is over (`learning`):
 *
 *   AT_ONCE  before the tick is. For time that is simulated as fast as it goes.
 *   AFTER    a fixed number of ticks later: rounds run on other threads meanwhile. The same ticks
 *            give the same bytes, whatever the machine; a tick waits only for a round that is late.
 *            For simulated time that people watch.
 *   BESIDE   when it is ready: no tick ever waits. For real clusters.
 *
 * With the last two a round has a copy of its workload's mind (pilot_round.h), on threads of a
 * lower priority, and no more than `learn_max` begin in a tick, nor run at a time (AFTER: of one
 * tick).
 *
 * Call order: new; tick, then let time pass (cluster.advance), again and again; free.
 *             add, remove, update, state_save and state_load between ticks.
 * Memory:     slots at new, a pilot at add; a tick takes nothing but what learning does, and what
 *             a fallback does that sees more pods than there ever were (fallback/fallback.h).
 * Threads:    single owner; learning spreads over threads of the loop's own. Their number changes
 *             no bytes.
 *
 * Agents of other processes (agent_exchange.h) are asked all at once, after every workload was
 * observed, and the loop waits until the last deadline at most; where no answer came the fallback
 * decides. No other thread is kept waiting: the desk is left meanwhile.
 *
 * Where the workloads are tenants of one cluster (`tenancy`), an arbiter looks at all decisions
 * between deciding and writing down, and cuts growth that others have a right to.
 *
 * A cluster that does not answer is a tick without figures: nothing shrinks, the watchdog hands
 * over to the fallback, the tick goes on with the next workload.
 */
#ifndef AW_CONTROL_LOOP_H
#define AW_CONTROL_LOOP_H

#include "base/clock.h"
#include "base/threads.h"
#include "control/agent_exchange.h"
#include "control/pilot.h"
#include "control/pilot_keep.h"
#include "tenancy/arbiter.h"

struct aw_loop; /* opaque */

/* The desk beside the loop: brings people's orders, and writes down what is about to be done. */
struct aw_loop_hooks {
    void *ctx;
    bool moments; /* record is given the moment of each decision */

    /* Around everything but learning. While the loop is inside, what its pilots have decided may
     * change; outside it does not, whatever is being learned. */
    void (*enter)(void *ctx);
    void (*leave)(void *ctx);

    /* Before workload `workload` decides. `ret` is zeroed. */
    void (*orders)(void *ctx, uint32_t workload, int64_t now_us, struct aw_orders *ret);

    /* Each decision. `moment`, its snapshot, lives until the call returns; NULL: not asked for. */
    void (*decided)(void *ctx, uint32_t workload, const struct aw_decision *decision,
                    const void *moment, size_t moment_bytes);
    /* All have decided. Not AW_OK: they could not be written down, and nothing but growth on a
     * missed SLO (aw_pilot_unrecorded) is carried out. */
    enum aw_err (*record)(void *ctx, int64_t now_us, struct aw_diag *diag);

    /* What became of a plan, after it was tried. */
    void (*applied)(void *ctx, uint32_t workload, const struct aw_decision *decision,
                    enum aw_err err);
    /* Something was learned, or tried to be. `took_s`: of a round beside the ticks; NAN: all rounds
     * since leave have taken that time together. */
    void (*learned)(void *ctx, uint32_t workload, enum aw_err err, double took_s);
};

enum aw_loop_learning { AW_LOOP_LEARN_AT_ONCE, AW_LOOP_LEARN_AFTER, AW_LOOP_LEARN_BESIDE };
/* Ticks: two minutes of the usual steps. */
#define AW_LOOP_LEARN_LATER     8u
#define AW_LOOP_LEARN_LATER_MAX 64u

/* Who shares the cluster, and on which terms. */
struct aw_loop_name {
    char text[AW_CLUSTER_NAME_MAX];
};
struct aw_loop_tenant {
    char name[AW_CLUSTER_NAME_MAX];
    struct aw_tenancy_terms terms;
};
struct aw_loop_place {
    uint32_t tenant; /* of `tenants`, or AW_ARBITER_ALONE */
    struct aw_tenancy_terms terms;
};
struct aw_loop_tenancy {
    struct aw_arbiter_settings settings;
    const struct aw_loop_place *places;   /* [workload_count], copied; NULL: nobody arbitrates */
    const struct aw_loop_tenant *tenants; /* [tenant_count], copied */
    uint32_t tenant_count;
};

struct aw_loop_config {
    struct aw_cluster cluster;            /* borrowed; workload i of it is pilot i */
    struct aw_store *store;               /* borrowed; NULL: nothing is kept, nothing is recalled */
    const struct aw_pilot_config *pilots; /* [workload_count], copied */
    const struct aw_fallback_task *tasks; /* [workload_count]: how each stands now, copied */
    uint32_t workload_count;              /* to begin with */
    uint32_t workloads_max;               /* slots; 0: as many as there are to begin with */
    uint32_t thread_count;                /* that learn; 0 and 1: the caller alone */
    enum aw_loop_learning learning;
    uint32_t learn_after;              /* ticks; 0: AW_LOOP_LEARN_LATER */
    uint32_t learn_max;                /* rounds of one tick; 0: AW_LOOP_LEARN_AFTER_MAX, or else
                             AW_LOOP_LEARN_MAX or the threads */
    int64_t deadline_us;               /* of one call of the cluster */
    const struct aw_loop_hooks *hooks; /* borrowed, no slot NULL; NULL: no desk */
    bool steadfast; /* a store that fails is lived with: nothing is changed until it is back */
    /* Times agents, for the watchdog's deadline; borrowed. NULL: they take no time, as where time
     * is simulated. */
    const struct aw_clock *clock;
    /* Through which the loop asks agents of other processes; borrowed. NULL: there are none. */
    struct aw_agent_exchange *exchange;
    /* With a known capacity (aw_loop_capacity) growth is arbitrated between all workloads. */
    struct aw_loop_tenancy tenancy;
};

/* A round is about a second's work: eight of them fit into the shortest usual period, 15 s. With
 * AFTER few begin in a tick, so that a tick of a clock that runs faster waits for few. */
#define AW_LOOP_LEARN_MAX       8u
#define AW_LOOP_LEARN_AFTER_MAX 2u

/* Called for every decision, in the order of workloads, after it was applied or refused. */
typedef void aw_loop_sink(void *ctx, uint32_t workload, const struct aw_decision *decision);

/* What went wrong and was lived with. */
struct aw_loop_counts {
    uint64_t ticks, decisions, plans_applied;
    uint64_t observe_failures, apply_failures;
    uint64_t store_failures;  /* ticks whose past could not be kept */
    uint64_t record_failures; /* ticks whose decisions could not be written down */
    uint64_t learn_rounds, learn_failures;
    uint64_t learn_waiting; /* workloads, now: they could learn, and it is not their turn yet */
    uint64_t learn_waited;  /* the same summed over all ticks */
};

AW_NODISCARD enum aw_err aw_loop_new(const struct aw_loop_config *config,
                                     const struct aw_alloc *alloc, struct aw_loop **ret_loop,
                                     struct aw_diag *diag);
void aw_loop_free(struct aw_loop *loop); /* NULL is a no-op */

/* A workload comes. Its slot is the one that was given back last, or else the lowest unused one:
 * aw_sim_add counts the same way. AW_ERR_LIMIT: every slot is taken. On failure nothing changed. */
AW_NODISCARD enum aw_err aw_loop_add(struct aw_loop *loop, const struct aw_pilot_config *config,
                                     const struct aw_fallback_task *task, uint32_t *ret_workload,
                                     struct aw_diag *diag);
/* Removes a workload and what it learned. AW_ERR_NOTFOUND: no such workload. */
AW_NODISCARD enum aw_err aw_loop_remove(struct aw_loop *loop, uint32_t workload);
/* A workload is to be treated otherwise from now on (aw_pilot_new_after says what it forgets).
 * AW_ERR_NOTFOUND, AW_ERR_CONFIG, AW_ERR_NOMEM: nothing changed. */
AW_NODISCARD enum aw_err aw_loop_update(struct aw_loop *loop, uint32_t workload,
                                        const struct aw_pilot_config *config, struct aw_diag *diag);

/* After new, or after a state was loaded, where the cluster ran on meanwhile: the first tick
 * changes nothing but by order, and what is kept goes on behind what the store has. */
void aw_loop_resume(struct aw_loop *loop);

/* One tick now. A cluster that fails, and with `steadfast` a store that does, is counted and lived
 * with; a row that contradicts what is kept (AW_ERR_CONFLICT) is not. `sink` may be NULL. */
AW_NODISCARD enum aw_err aw_loop_tick(struct aw_loop *loop, aw_loop_sink *sink, void *ctx,
                                      struct aw_diag *diag);

/* What the cluster has now, in all, for the ticks that follow; 0: not known. Without tenancy a
 * no-op. */
void aw_loop_capacity(struct aw_loop *loop, const int64_t capacity[AW_POOLS]);
/* How all stood in the last tick, until the next. False: nothing was arbitrated. */
struct aw_loop_tenancy_view {
    const struct aw_arbiter_case *of;            /* what was asked */
    const struct aw_arbiter_grant *grants;       /* [of->workload_count] */
    const struct aw_arbiter_standing *standings; /* as aw_arbiter_run writes them */
    const uint32_t *slots;                       /* [of->workload_count] */
    const struct aw_loop_name *names;            /* [of->tenant_count] */
    const struct aw_arbiter_settings *settings;
};
bool aw_loop_tenancy_view(const struct aw_loop *loop, struct aw_loop_tenancy_view *ret);

uint32_t aw_loop_count(const struct aw_loop *loop); /* slots that have been used; some are empty */
bool aw_loop_has(const struct aw_loop *loop, uint32_t workload);
struct aw_pilot *aw_loop_pilot(struct aw_loop *loop, uint32_t workload);
/* A round of learning of this workload is under way beside the ticks. */
bool aw_loop_learns(const struct aw_loop *loop, uint32_t index);
/* What the loop and its pilots take, without what learning does. */
size_t aw_loop_bytes(const struct aw_loop *loop);
const struct aw_loop_counts *aw_loop_counts(const struct aw_loop *loop);

/* Everything that decides the future but the cluster and the store. Of a loop that learns at once:
 * rounds that are under way are no part of it. */
size_t aw_loop_state_bytes(const struct aw_loop *loop);
void aw_loop_state_save(const struct aw_loop *loop, void *bytes);
/* AW_ERR_FORMAT: not the state of a loop with these settings; free the loop then. */
AW_NODISCARD enum aw_err aw_loop_state_load(struct aw_loop *loop, const void *bytes);

/* The same for a later process: every workload by its name, under `place` (pilot_keep.h). */
void aw_loop_keep(const struct aw_loop *loop, const char *place, struct aw_archive_writer *to);
void aw_loop_keep_one(const struct aw_loop *loop, uint32_t workload, const char *place,
                      struct aw_archive_writer *to);
/* One workload that has just come. AW_ERR_NOMEM: nothing changed. */
AW_NODISCARD enum aw_err aw_loop_recover_one(struct aw_loop *loop, uint32_t workload,
                                             struct aw_archive *from, const char *place,
                                             struct aw_pilot_found *ret_found,
                                             struct aw_diag *diag);
/* What was found of each workload; `text` lives until the call returns. */
typedef void aw_loop_found(void *ctx, uint32_t workload, const struct aw_pilot_found *found);
/* Before the first tick. `found` may be NULL. `ret_same`: every workload, and the loop itself, is
 * as it was. AW_ERR_NOMEM: free the loop then. */
AW_NODISCARD enum aw_err aw_loop_recover(struct aw_loop *loop, struct aw_archive *from,
                                         const char *place, aw_loop_found *found, void *ctx,
                                         bool *ret_same, struct aw_diag *diag);

#endif
