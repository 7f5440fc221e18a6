/*
 * run.h - what the files of the verb `run` share: what was asked, what has happened, how it is
 * shown.
 *
 * Call order: ask (run_ask.c), then steps of the job, each told to the history and, through rows,
 *             to whoever shows them; then summary and report.
 * Memory:     sized by what was asked. A history holds a fixed number of points: where a run has
 *             more steps than points, several become one.
 * Threads:    single owner each. The live table alone has a lock: one thread tells, another draws.
 */
#ifndef AW_CLI_RUN_H
#define AW_CLI_RUN_H

#include "desk/steward.h"
#include "frame/verb.h"
#include "simulation/job.h"
#include "web/door.h"
#include "web/timing.h"

#include <stdio.h>

#define AW__RUN_POINTS_MAX    2048u /* of one workload's plots */
#define AW__RUN_EPISODES_MAX  1024u
#define AW__RUN_EVENTS_MAX    512u /* kept; the oldest go first */
#define AW__RUN_PLOTTED_MAX   64u  /* workloads with a panel of their own in a report */
#define AW__RUN_EVENT_TEXT    320u
#define AW__RUN_WHY_MAX       512u
#define AW__RUN_DURATION_TEXT "24h" /* simulated, when --duration does not say */

/* Of what is kept, in the directory of a run. */
#define AW__RUN_AUDIT   "audit"
#define AW__RUN_JOURNAL "decisions.db"
#define AW__RUN_VIEWS   "views.json"
#define AW__RUN_SOCKET  "socket"
#define AW__RUN_AGENTS  "agents"

/* --- what was asked --------------------------------------------------------------------------- */

struct aw_runask {
    bool demo;
    const char *cluster; /* "sim", "local" */
    struct aw_profile_set set;
    struct aw_job_workload *workload; /* [set.profile_count] */
    struct aw_load *load;             /* [set.profile_count] */
    struct aw_shelf *shelf;           /* models that they begin at; NULL: none does */
    uint32_t count;
    const char *fallback; /* "hpa+vpa-mem"; "the fallback" where they differ */
    uint64_t seed;
    uint64_t steps_total;
    double step_s;
    double speed; /* simulated over real time; INFINITY: as fast as it goes */
    bool twin;
    bool daemon; /* for good, with a socket */
    bool audit;  /* with an audit log and a journal */
    uint32_t thread_count;
    char socket[AW_TEXT_MAX];  /* of a daemon */
    struct aw_door door;       /* of its page and metrics; host "": none */
    char reports[AW_TEXT_MAX]; /* folder that the page shows; "": none */
    char agents[AW_TEXT_MAX];  /* where agents of other processes come in; "": nowhere */
    double agents_wait_s;      /* for which a run waits for them before its first step */
    char state[AW_TEXT_MAX];   /* directory; "": none */
    char store[AW_TEXT_MAX];   /* for aw_store_open */
    char report[AW_TEXT_MAX];  /* file; "": none */
};

/* Reads options and files; what is odd or wrong in files goes to stderr. On failure zeroed. */
AW_NODISCARD enum aw_err aw__runask_read(const struct aw_call *run, struct aw_runask *ret,
                                         struct aw_diag *diag);
/* The parts of read, for other verbs that take files of workloads (--file, --models, --seed,
 * --threads) and may change what was read in between. `ask` is zeroed but for `demo` and an
 * initialised set; on failure it is to be deinitialised. */
AW_NODISCARD enum aw_err aw_runask_files(const struct aw_call *run, struct aw_runask *ask,
                                         struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_runask_workloads(const struct aw_call *run, struct aw_runask *ask,
                                             struct aw_diag *diag);
void aw_runask_deinit(struct aw_runask *ask); /* a zeroed one is a no-op */

/* The demo as a file of YAML; the caller frees it with free(). NULL: no memory. */
char *aw__run_demo_yaml(void);

/* --- what has happened ------------------------------------------------------------------------ */

enum aw__runevent_kind {
    AW__RUNEVENT_STAGE,
    AW__RUNEVENT_TRIP,
    AW__RUNEVENT_SCENARIO,
    AW__RUNEVENT_FAULT
};

/* No padding, here and below: these are written into a file. */
struct aw__runevent {
    int64_t at_us;
    uint32_t workload; /* UINT32_MAX: the cluster */
    uint32_t kind;     /* enum aw__runevent_kind */
    uint32_t from, to; /* STAGE: enum aw_stage */
    char text[AW__RUN_EVENT_TEXT];
};

/* One or several steps of a workload in both worlds. */
struct aw__runpoint {
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
struct aw__runepisode {
    double end_s;
    float reward[AW_JOB_WORLDS], cost[AW_JOB_WORLDS]; /* of one episode, on average */
    float missed[AW_JOB_WORLDS];                      /* share of steps */
    float agent_share;
    uint32_t stage; /* at its end */
};

/* How often what happened, over the whole run. */
struct aw__runcounts {
    uint64_t decisions, changes;   /* changes: something was asked of the cluster */
    uint64_t clipped;              /* decisions that a rail changed */
    uint64_t clips[AW_CLIP_COUNT]; /* by rail; a decision may meet several */
    uint64_t trips[AW_WATCHDOG_CAUSE_COUNT];
    uint64_t held;                   /* decisions taken from the agent */
    uint64_t stages[AW_STAGE_COUNT]; /* times each was entered */
    int64_t retrained_us;            /* when SERVING last ended for drift; AW_NEVER: never */
};

struct aw__runhistory {
    uint32_t count, plotted;
    double step_s;
    uint64_t steps;
    uint32_t stride;                /* steps of a point */
    uint32_t points;                /* begun */
    struct aw__runpoint *point;     /* [plotted][AW__RUN_POINTS_MAX]; NULL: no plots */
    uint32_t *episode_count;        /* [count] records */
    uint32_t *episode_span;         /* [count] episodes of a record */
    uint32_t *episode_fill;         /* [count] episodes in the last record */
    struct aw__runepisode *episode; /* [count][AW__RUN_EPISODES_MAX]; NULL: no plots */
    uint32_t *episodes_seen;        /* [count] */
    struct aw__runcounts *counts;   /* [count] */
    struct aw__runevent *event;     /* [AW__RUN_EVENTS_MAX] ring */
    uint64_t event_count;           /* of all time */
    void *block;
    size_t block_bytes;
};

AW_NODISCARD enum aw_err aw__runhistory_init(struct aw__runhistory *history,
                                             const struct aw_runask *ask, struct aw_diag *diag);
void aw__runhistory_deinit(struct aw__runhistory *history);
/* One step of one workload, in order. `view` is as after the step. Returns what it did to the event
 * log: the number of events that were added. */
uint32_t aw__runhistory_step(struct aw__runhistory *history, const struct aw_runask *ask,
                             const struct aw_job_step *step, const struct aw_job_view *view);
/* What is said of the cluster itself at `at_us`; once per step. */
uint32_t aw__runhistory_cluster(struct aw__runhistory *history, const struct aw_runask *ask,
                                int64_t at_us);
/* The nth event from the last; NULL: there is none, or it is forgotten. */
const struct aw__runevent *aw__runhistory_event(const struct aw__runhistory *history,
                                                uint64_t nth_from_last);

/* A file per save, named by its step: `DIR/history-STEPS`. A save of the job with the same number
 * of steps belongs to it. */
AW_NODISCARD enum aw_err aw__runhistory_save(const struct aw__runhistory *history, const char *dir,
                                             struct aw_diag *diag);
/* AW_ERR_NOTFOUND, AW_ERR_FORMAT: nothing changed, but a refused file is called .refused now. */
AW_NODISCARD enum aw_err aw__runhistory_load(struct aw__runhistory *history, const char *dir,
                                             uint64_t steps, struct aw_diag *diag);
/* Removes those of other steps; UINT64_MAX: all. */
void aw__runhistory_prune(const char *dir, uint64_t keep_steps);

/* --- what is kept ----------------------------------------------------------------------------- */

/* A run that goes on. The caller sets run and ask, and lock_fd to -1; close ends any state of it.
 */
struct aw__runsession {
    const struct aw_call *run;
    struct aw_runask ask;
    struct aw_job *job;
    struct aw_store store;
    struct aw__runhistory history;
    struct aw_steward *steward;   /* NULL: no audit log */
    struct aw_timing *timing;     /* borrowed; NULL: nobody measures */
    struct aw__runagents *agents; /* their door (run_agents.h); NULL: none */
    uint64_t steps_before;        /* of earlier sessions */
    int64_t begin_us, saved_us;   /* real */
    uint64_t save_every, saved_steps;
    int lock_fd; /* -1: none */
};

AW_NODISCARD enum aw_err aw__runsession_open(struct aw__runsession *session, bool *ret_resumed,
                                             struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__runsession_save(struct aw__runsession *session, struct aw_diag *diag);
void aw__runsession_close(struct aw__runsession *session);

/* The parts of open, for who puts other settings in the place of these: a job of `ask`, beside a
 * steward or NULL; its state from the last save; a new steward; the two brought together. */
AW_NODISCARD enum aw_err aw__runsession_job(struct aw__runsession *session,
                                            struct aw_steward *steward, struct aw_job **ret_job,
                                            struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__runsession_reload(struct aw__runsession *session, struct aw_job *job,
                                               struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__runsession_steward(struct aw__runsession *session,
                                                struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__runsession_attach(struct aw__runsession *session,
                                               struct aw_diag *diag);

/* `aware run --cluster local`. */
AW_NODISCARD enum aw_err aw__run_local(const struct aw_call *run, struct aw_diag *diag);

/* `aware run --daemon`. */
AW_NODISCARD enum aw_err aw__run_daemon(const struct aw_call *run, struct aw_diag *diag);

/* --- how it is shown -------------------------------------------------------------------------- */

/* What a table shows of a workload. */
struct aw__runrow {
    const char *name;
    enum aw_stage stage;
    enum aw_actor actor;
    enum aw_watchdog_verdict verdict;
    uint32_t ready, wanted;
    int64_t cpu_millicores, memory_bytes;
    double arrivals_per_s;
    double cpu_used, memory_used;
    double latency_us, slo_us;
    bool violated;
    struct aw_job_tally total[AW_JOB_WORLDS], recent[AW_JOB_WORLDS];
    uint32_t episodes, episode_steps;
    char why[AW__RUN_WHY_MAX];
};
void aw__runrow_of(struct aw__runrow *row, const struct aw_job_step *step,
                   const struct aw_job_view *view);

/* AWARE's over the fallback's; NAN: no twin, or nothing spent. */
double aw__run_cost_ratio(const struct aw_job_tally *tally);
/* Of one episode of `steps`. */
double aw__run_reward(const struct aw_job_tally *tally, uint32_t steps);
/* The name without "default/". */
const char *aw_run_name(const char *name);
/* "4:05", "1d 04:05": hours and minutes of simulated time. Returns `buf`. */
#define AW__RUN_CLOCK_MAX 32u
const char *aw__run_clock(int64_t us, char *buf, size_t size);

/* The live table. begin draws at once; told by one thread, drawn by another. */
struct aw__runlive;
/* NULL without failure: `out` is no terminal, or nobody wants it. */
AW_NODISCARD enum aw_err aw__runlive_new(const struct aw_runask *ask, FILE *out, bool wanted,
                                         bool color, uint64_t steps_before,
                                         struct aw__runlive **ret);
/* Any thread; cheap when it is not yet time. `rows` [ask->count]. */
bool aw__runlive_due(const struct aw__runlive *live);
void aw__runlive_tell(struct aw__runlive *live, const struct aw__runrow *rows, uint64_t steps,
                      const struct aw__runhistory *history);
void aw__runlive_draw(struct aw__runlive *live, bool stopping);
void aw__runlive_free(struct aw__runlive *live); /* erases it; NULL is a no-op */

/* One line per workload and episode, and one per event. */
void aw__runrows_head(FILE *out, const struct aw_runask *ask);
void aw__runrows_episode(FILE *out, const struct aw_runask *ask, const struct aw__runrow *row,
                         int64_t at_us);
void aw__runrows_event(FILE *out, const struct aw_runask *ask, const struct aw__runevent *event);

/* Lines for programs. */
void aw__runlines_head(FILE *out, bool json, const struct aw_runask *ask, uint64_t steps);
void aw__runlines_step(FILE *out, bool json, const struct aw_runask *ask,
                       const struct aw_job_step *step);

/* The end of a run. */
struct aw__runend {
    const struct aw_runask *ask;
    const struct aw_job *job;
    const struct aw__runhistory *history;
    uint64_t steps_before; /* of earlier sessions */
    double seconds;        /* of this one, real */
    bool interrupted;
};
AW_NODISCARD enum aw_err aw__runsummary_print(const struct aw_call *run,
                                              const struct aw__runend *end, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__runsummary_json(const struct aw__runend *end, struct aw_diag *diag);
/* The summary's sentences as a list: `put` writes one, commas are put between. */
void aw__runsummary_words(const struct aw__runend *end, void (*put)(FILE *out, const char *text),
                          FILE *out);
AW_NODISCARD enum aw_err aw__runreport_write(const struct aw__runend *end, const char *path,
                                             struct aw_diag *diag);

#endif
