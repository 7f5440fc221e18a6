/*
 * job.h - the control loop on a cluster, and the results; where the cluster is simulated, beside a
 * twin that the fallback runs alone.
 *
 * Simulated, there are two worlds with the same applications, load, disturbances, faults and
 * chance. In one the control loop acts as it would in production; in the other the fallback acts
 * for ever. What happened in both is summed from the simulator's truth, so "against the fallback"
 * is measured, not estimated.
 *
 * A cluster of the caller's has no twin and no truth: what is summed is what the loop measured. A
 * step is a tick, and the caller lets time pass in between. Its figures are known at the tick that
 * ends it, so the first tick of a life ends no step and tells of none.
 *
 * Call order: new, step as often as wanted, totals in between, free. save and load between steps.
 * Memory:     all at new but for what learning takes.
 * Threads:    single owner; the loop learns on threads of its own.
 *
 * A simulated job that was saved, ended and loaded takes the same decisions as one that was not.
 * The store may be ahead of the save: its rows are lived again and found to be the same. A cluster
 * of the caller's ran on meanwhile: nothing changes before it was seen (aw_loop_resume).
 */
#ifndef AW_SIMULATION_JOB_H
#define AW_SIMULATION_JOB_H

#include "cluster/sim.h"
#include "control/loop.h"
#include "profile/profile.h"
#include "task/turns.h"

/* One application under control. */
struct aw_job_workload {
    struct aw_pilot_config pilot;
    struct aw_fallback_task task; /* how it begins */
    struct aw_app app;
    const struct aw_load *load; /* borrowed */
    struct aw_schedule scenarios;
};

struct aw_job_config {
    const struct aw_job_workload *workloads; /* [count], copied */
    uint32_t count;
    const struct aw_cluster *cluster; /* workload i is its workload i; NULL: a simulated one. What
                                         it is made of is borrowed */
    double seconds_per_step;          /* real ones, on a cluster of the caller's */
    struct aw_sim_settings sim;       /* these three: of a simulated cluster */
    const struct aw_profile_fault *faults; /* [fault_count] by time; copied */
    uint32_t fault_count;
    uint64_t seed;
    struct aw_store *store; /* borrowed; NULL: none */
    bool twin;              /* simulated alone */
    uint32_t thread_count;
    enum aw_loop_learning learning;     /* of AWARE's world */
    const struct aw_loop_hooks *hooks;  /* of AWARE's world; borrowed; NULL: none */
    bool steadfast;                     /* see aw_loop_config */
    struct aw_agent_exchange *exchange; /* the same, of AWARE's world */
    /* Tenants of AWARE's world; the twin has none: independent autoscalers. Copied. */
    struct aw_loop_tenancy tenancy;
    int64_t capacity[AW_POOLS]; /* of a cluster of the caller's; 0: not known */
};

/* Sums over steps. */
struct aw_totals {
    uint64_t steps, violations, agent_steps;
    double cost;                                /* $ */
    double reward;                              /* the paper's */
    double cpu_utilisation, memory_utilisation; /* sums of shares */
    double requests, failed;
    double core_s, gib_s, replica_s;
    uint64_t oom_kills, restarts;
    uint64_t replica_changes; /* steps that asked for another number of replicas */
    uint64_t reversals_down;  /* of them: fewer within AW_STABILISATION_S after more */
    uint64_t reversals_up;    /* and more within it after fewer */
};

/* Counts what aw_replica_track_step said of a step. */
void aw_totals_turn(struct aw_totals *totals, uint32_t turn);
/* Adds `sign` times what `from` has; 1 or -1. */
void aw_totals_add(struct aw_totals *into, const struct aw_totals *from, int sign);

enum aw_job_world { AW_JOB_AWARE, AW_JOB_TWIN, AW_JOB_WORLDS };

/* One step of one workload in both worlds, by what really happened. */
struct aw_job_step {
    uint32_t workload;
    const struct aw_decision *decision; /* at its beginning, in AWARE's world */
    const struct aw_sample *sample;     /* of real replicas at its end; NULL: they are simulated */
    int64_t at_us;
    struct aw_score truth[AW_JOB_WORLDS];
    struct aw_totals own[AW_JOB_WORLDS]; /* of this step alone */
    double arrivals_per_s;
    uint32_t replicas_ready[AW_JOB_WORLDS]; /* at its beginning */
    struct aw_plan plan[AW_JOB_WORLDS];     /* asked for: all three amounts, `set` what changed */
};
typedef void aw_job_sink(void *ctx, const struct aw_job_step *step);

/* What became of a workload so far. */
struct aw_job_view {
    const char *name;
    const struct aw_pilot *pilot;
    const struct aw_decision *decision; /* the last; NULL before the first */
    struct aw_totals total[AW_JOB_WORLDS];
    struct aw_totals stage[AW_JOB_WORLDS][AW_STAGE_COUNT]; /* by the stage in AWARE's world */
    struct aw_totals before_serving[AW_JOB_WORLDS];        /* until it first served */
    struct aw_totals recent[AW_JOB_WORLDS];                /* the last whole episode */
    uint32_t episodes;
    uint32_t transitions; /* of the stage */
    int64_t serving_us;   /* when it first served; AW_NEVER: not yet */
    struct aw_plan asked; /* for what last, with all amounts set; none set: never */
    int64_t at_us;        /* by the cluster's clock, when that was; AW_NEVER */
};

struct aw_job; /* opaque */

AW_NODISCARD enum aw_err aw_job_new(const struct aw_job_config *config,
                                    const struct aw_alloc *alloc, struct aw_job **ret_job,
                                    struct aw_diag *diag);
void aw_job_free(struct aw_job *job); /* NULL is a no-op */

/* One step of both worlds; on a cluster of the caller's one tick. `sink` (may be NULL) is called
 * for every workload, in order. */
AW_NODISCARD enum aw_err aw_job_step(struct aw_job *job, aw_job_sink *sink, void *ctx,
                                     struct aw_diag *diag);
/* From the next step on the workload is judged by SLO and prices of `config`; where `told`, the
 * loop knows it too (aw_loop_update). After a failure the job is to be thrown away. */
AW_NODISCARD enum aw_err aw_job_update(struct aw_job *job, uint32_t workload,
                                       const struct aw_pilot_config *config, bool told,
                                       struct aw_diag *diag);
/* The step under way is not reported: what comes next is no part of it. */
void aw_job_pause(struct aw_job *job);
int64_t aw_job_now_us(const struct aw_job *job);   /* by the cluster's clock */
int64_t aw_job_lived_us(const struct aw_job *job); /* that steps have taken */
uint64_t aw_job_steps(const struct aw_job *job);
void aw_job_view(const struct aw_job *job, uint32_t workload, struct aw_job_view *ret_view);
const struct aw_loop_counts *aw_job_counts(const struct aw_job *job);
struct aw_loop *aw_job_loop(struct aw_job *job);

/* One file, replaced atomically. Of simulations only with the fast model: AW_ERR_UNSUPPORTED. */
AW_NODISCARD enum aw_err aw_job_save(const struct aw_job *job, const char *path,
                                     struct aw_diag *diag);
/* Goes on from a save, of the same build or of another one, with the same settings or with others
 * (job_keep.c). AW_ERR_FORMAT: not a save at all, or of a program whose files this one cannot read.
 * After a failure the job is to be thrown away. AW_ERR_NOTFOUND: no such file; the job is as it
 * was. */
struct aw_job_recovery {
    aw_loop_found *found; /* hears what was found of each workload; may be NULL */
    void *ctx;
    bool just_saved; /* the store has no steps behind the save */
};
AW_NODISCARD enum aw_err aw_job_recover(struct aw_job *job, const char *path,
                                        const struct aw_job_recovery *how, struct aw_diag *diag);
/* The same, for who does not ask. */
AW_NODISCARD enum aw_err aw_job_load(struct aw_job *job, const char *path, struct aw_diag *diag);

/* What users wrote, as workloads of a job. `loads` has room for set->profile_count; the caller
 * deinits them when the job is gone. AW_ERR_CONFIG: a target that no SimulatedApplication stands
 * for, with the profile's place. */
AW_NODISCARD enum aw_err aw_job_workloads_of(const struct aw_profile_set *set,
                                             const struct aw_alloc *alloc,
                                             struct aw_job_workload *ret_workloads,
                                             struct aw_load *ret_loads, struct aw_diag *diag);

/* The tenancy that users wrote; `places` and `tenants` have room for all profiles and tenants of
 * the set. Nobody speaks of it: zeroed, and nobody arbitrates. */
struct aw_loop_tenancy aw_job_tenancy_of(const struct aw_profile_set *set,
                                         struct aw_loop_place *places,
                                         struct aw_loop_tenant *tenants);

#endif
