/*
 * run.h - what the files of the verb `run` share: what was asked, and how a run is shown.
 *
 * Call order: options, then a session (daemon/session.h), whose steps become rows for the display;
 *             then summary and report.
 * Memory:     sized by what was asked.
 * Threads:    single owner each. The live table alone has a lock: one thread tells, another draws.
 */
#ifndef AW_CLI_RUN_H
#define AW_CLI_RUN_H

#include "daemon/session.h"
#include "frame/verb.h"

#include <stdio.h>

#define AW__RUN_WHY_MAX       512u
#define AW__RUN_DURATION_TEXT "24h" /* simulated, when --duration does not say */

/* Reads options and files; what is odd or wrong in files goes to stderr. On failure zeroed. */
AW_NODISCARD enum aw_err aw__run_options_read(const struct aw_call *run,
                                              struct aw_daemon_config *ret, struct aw_diag *diag);

/* The demo as a file of YAML; the caller frees it with free(). NULL: no memory. */
char *aw__run_demo_yaml(void);

/* --- how it is shown -------------------------------------------------------------------------- */

/* What a table shows of a workload. */
struct aw__runrow {
    const char *name;
    enum aw_stage stage;
    enum aw_actor actor;
    enum aw_watchdog_verdict verdict;
    uint32_t ready, wanted;
    AW_AMOUNTS(amount, ); /* wanted, of each replica */
    double arrivals_per_s;
    double cpu_used, memory_used;
    double latency_us, slo_us;
    bool violated;
    struct aw_totals total[AW_JOB_WORLDS], recent[AW_JOB_WORLDS];
    uint32_t episodes, episode_steps;
    char why[AW__RUN_WHY_MAX];
};
void aw__runrow_of(struct aw__runrow *row, const struct aw_job_step *step,
                   const struct aw_job_view *view);

/* Resources beyond the common three that any of the workloads is bounded in, as AW_PLAN_*. */
uint32_t aw__run_more(const struct aw_daemon_config *ask);
/* AWARE's over the fallback's; NAN: no twin, or nothing spent. */
double aw__run_cost_ratio(const struct aw_totals *totals);
/* Of one episode of `steps`. */
double aw__run_reward(const struct aw_totals *totals, uint32_t steps);

/* The live table. begin draws at once; told by one thread, drawn by another. */
struct aw__runlive;
/* NULL without failure: `out` is not a terminal, or it is not wanted. */
AW_NODISCARD enum aw_err aw__runlive_new(const struct aw_daemon_config *ask, FILE *out, bool wanted,
                                         bool color, uint64_t steps_before,
                                         struct aw__runlive **ret);
/* Any thread; cheap when it is not yet time. `rows` [ask->count]. */
bool aw__runlive_due(const struct aw__runlive *live);
void aw__runlive_tell(struct aw__runlive *live, const struct aw__runrow *rows, uint64_t steps,
                      const struct aw_history *history);
void aw__runlive_draw(struct aw__runlive *live, bool stopping);
void aw__runlive_free(struct aw__runlive *live); /* erases it; NULL is a no-op */

/* One line per workload and episode, and one per event. */
void aw__runrows_head(FILE *out, const struct aw_daemon_config *ask);
void aw__runrows_episode(FILE *out, const struct aw_daemon_config *ask,
                         const struct aw__runrow *row, int64_t at_us);
void aw__runrows_event(FILE *out, const struct aw_daemon_config *ask,
                       const struct aw_history_event *event);

/* Lines for programs. */
void aw__runlines_head(FILE *out, bool json, const struct aw_daemon_config *ask, uint64_t steps);
void aw__runlines_step(FILE *out, bool json, const struct aw_daemon_config *ask,
                       const struct aw_job_step *step);

/* The end of a run. */
struct aw__runend {
    const struct aw_daemon_config *ask;
    const struct aw_job *job;
    const struct aw_history *history;
    struct aw_local_run *local; /* NULL: simulated */
    uint64_t steps_before;      /* of earlier sessions */
    double seconds;             /* of this one, real */
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
