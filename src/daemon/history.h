/*
 * history.h - what has happened in a run, for its summary, its plots and its report.
 *
 * Call order: init, load where a run is resumed; cluster and step in each step, in order; save.
 * Memory:     one block, at init. A history holds a fixed number of points: where a run has more
 *             steps than points, several become one.
 * Threads:    single owner.
 */
#ifndef AW_DAEMON_HISTORY_H
#define AW_DAEMON_HISTORY_H

#include "daemon/config.h"

#define AW_HISTORY_POINTS_MAX   2048u /* of one workload's plots */
#define AW_HISTORY_EPISODES_MAX 1024u
#define AW_HISTORY_EVENTS_MAX   512u /* kept; the oldest go first */
#define AW_HISTORY_PLOTTED_MAX  64u  /* workloads with a panel of their own in a report */
#define AW_HISTORY_TEXT_MAX     320u

enum aw_history_kind { AW_HISTORY_STAGE, AW_HISTORY_TRIP, AW_HISTORY_SCENARIO, AW_HISTORY_FAULT };

/* No padding, here and below: these are written into a file. */
struct aw_history_event {
    int64_t at_us;
    uint32_t workload; /* UINT32_MAX: the cluster */
    uint32_t kind;     /* enum aw_history_kind */
    uint32_t from, to; /* STAGE: enum aw_stage */
    char text[AW_HISTORY_TEXT_MAX];
};

/* One or several steps of a workload in both worlds. */
struct aw_history_point {
    float load;
    float ready[AW_JOB_WORLDS], wanted[AW_JOB_WORLDS];
    float cpu_cores[AW_JOB_WORLDS], memory_gib[AW_JOB_WORLDS]; /* of a replica */
    float cpu_used[AW_JOB_WORLDS], memory_used[AW_JOB_WORLDS]; /* shares */
    float p99_ms[AW_JOB_WORLDS];                               /* the worst; NAN: no request */
    float cost_per_hour[AW_JOB_WORLDS];
    uint16_t missed[AW_JOB_WORLDS]; /* steps that missed the SLO */
    uint8_t stage, actor;
    uint16_t unused; /* 0 */
};

/* One or several episodes. */
struct aw_history_episode {
    double end_s;
    float reward[AW_JOB_WORLDS], cost[AW_JOB_WORLDS]; /* of one episode, on average */
    float missed[AW_JOB_WORLDS];                      /* share of steps */
    float agent_share;
    uint32_t stage; /* at its end */
};

/* How often what happened, over the whole run. */
struct aw_history_counts {
    uint64_t decisions, changes;   /* changes: something was asked of the cluster */
    uint64_t clipped;              /* decisions that a rail changed */
    uint64_t clips[AW_CLIP_COUNT]; /* by rail; a decision may meet several */
    uint64_t trips[AW_WATCHDOG_CAUSE_COUNT];
    uint64_t held;                   /* decisions taken from the agent */
    uint64_t stages[AW_STAGE_COUNT]; /* times each was entered */
    int64_t retrained_us;            /* when SERVING last ended for drift; AW_NEVER: never */
};

struct aw_history {
    uint32_t count, plotted;
    double step_s;
    uint64_t steps;
    uint32_t stride;                    /* steps of a point */
    uint32_t points;                    /* begun */
    struct aw_history_point *point;     /* [plotted][AW_HISTORY_POINTS_MAX]; NULL: no plots */
    uint32_t *episode_count;            /* [count] records */
    uint32_t *episode_span;             /* [count] episodes of a record */
    uint32_t *episode_fill;             /* [count] episodes in the last record */
    struct aw_history_episode *episode; /* [count][AW_HISTORY_EPISODES_MAX]; NULL: no plots */
    char (*name)[AW_STORE_NAME_MAX];    /* [count] of the workloads */
    uint32_t *episodes_seen;            /* [count] */
    struct aw_history_counts *counts;   /* [count] */
    struct aw_history_event *event;     /* [AW_HISTORY_EVENTS_MAX] ring */
    uint64_t event_count;               /* of all time */
    void *block;
    size_t block_bytes;
};

AW_NODISCARD enum aw_err aw_history_init(struct aw_history *history,
                                         const struct aw_daemon_config *ask, struct aw_diag *diag);
void aw_history_deinit(struct aw_history *history);
/* One step of one workload, in order. `view` is as after the step. Returns what it did to the event
 * log: the number of events that were added. */
uint32_t aw_history_step(struct aw_history *history, const struct aw_daemon_config *ask,
                         const struct aw_job_step *step, const struct aw_job_view *view);
/* Figures of the cluster itself at `at_us`; once per step. */
uint32_t aw_history_cluster(struct aw_history *history, const struct aw_daemon_config *ask,
                            int64_t at_us);
/* The nth event from the last; NULL: no such event, or it is forgotten. */
const struct aw_history_event *aw_history_event(const struct aw_history *history,
                                                uint64_t nth_from_last);

/* A file per save, named by its step: `DIR/history-STEPS`. A save of the job with the same number
 * of steps belongs to it. */
AW_NODISCARD enum aw_err aw_history_save(const struct aw_history *history, const char *dir,
                                         struct aw_diag *diag);
/* Workloads are found by name: those that are new have no past, and of those that are gone nothing
 * is told. AW_ERR_NOTFOUND, AW_ERR_FORMAT: nothing changed, but a refused file is called .refused
 * now. */
AW_NODISCARD enum aw_err aw_history_load(struct aw_history *history, const char *dir,
                                         uint64_t steps, struct aw_diag *diag);
/* Removes those of other steps; UINT64_MAX: all. */
void aw_history_prune(const char *dir, uint64_t keep_steps);

#endif
