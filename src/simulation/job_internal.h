/* job_internal.h - what the files of a job share: its insides. */
#ifndef AW_SIMULATION_JOB_INTERNAL_H
#define AW_SIMULATION_JOB_INTERNAL_H

#include "simulation/job.h"
#include "store/archive.h"

/* The totals of one workload. No padding: it is part of a save. */
struct aw__job_account {
    struct aw_totals total[AW_JOB_WORLDS];
    struct aw_totals stage[AW_JOB_WORLDS][AW_STAGE_COUNT];
    struct aw_totals before_serving[AW_JOB_WORLDS];
    struct aw_totals recent[AW_JOB_WORLDS];
    struct aw_totals episode[AW_JOB_WORLDS]; /* so far */
    int64_t serving_us;
    uint32_t episodes, transitions;
    int64_t at_us;
    struct aw_plan asked[AW_JOB_WORLDS];
    struct aw_replica_track track[AW_JOB_WORLDS];
};

struct aw__job_world {
    struct aw_sim *sim; /* NULL: the cluster is the caller's */
    struct aw_cluster cluster;
    struct aw_loop *loop;
};

struct aw_job {
    uint32_t count, worlds, fault_count;
    struct aw_job_workload *workload; /* [count] */
    struct aw_objective *objective;   /* [count] */
    struct aw__job_account *account;  /* [count] */
    struct aw_profile_fault *fault;   /* [fault_count] */
    struct aw__job_world world[AW_JOB_WORLDS];
    struct aw_sim_settings sim;
    uint64_t steps;
    uint64_t seed;
    uint64_t settings_hash; /* with the same one the worlds go on as they were */
    int64_t before_us; /* that were lived before the first step, as far as steps of step_us tell */
    int64_t step_us;
    double step_s; /* real on a cluster of the caller's */
    bool simulated;
    bool under_way;         /* a step is, on a cluster of the caller's */
    struct aw_archive left; /* what was kept of workloads that are not here now; empty: none */
    const struct aw_alloc *alloc;
};

/* What disturbs workload `i`, and the cluster, at `now`, in a world that was just made. */
void aw__job_disturb_again(const struct aw_job *job, const struct aw__job_world *world,
                           int64_t now);
/* Workload `i` as the simulated cluster is to have it, with the amounts of `start`. */
struct aw_sim_workload aw__job_placed(const struct aw_job *job, uint32_t i,
                                      const struct aw_plan *start);

#endif
