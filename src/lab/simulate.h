/*
 * simulate.h - what the files of the verb `simulate` share: what was asked, and the results.
 *
 * Call order: ask, then the runs, then one of the prints and the report, then deinit.
 * Memory:     everything is sized by what was asked.
 * Threads:    single owner; runs of different policies may go on side by side.
 */
#ifndef AW_LAB_SIMULATE_H
#define AW_LAB_SIMULATE_H

#include "frame/verb.h"
#include "simulation/simulate.h"
#include "workload/apps.h"
#include "workload/scenario.h"

#define AW__SIMULATE_FAULTS_MAX 32u /* of one --fault */

/* What was asked. */
struct aw__simulate {
    struct aw_simulate_config config;
    uint32_t policy_count, case_count;
    struct aw_simulate_policy policy[AW_SIMULATE_POLICIES_MAX];
    struct aw_simulate_case *cases; /* [case_count] */
    struct aw_load *loads;          /* [2 * case_count]: of each case reported, tuned on */
    double load_cores;              /* that the mean load keeps busy; 0: as written */
    struct aw_schedule schedule;
    uint32_t event_count;
    struct aw_simulate_event event[2 * AW_SCHEDULE_EVENTS_MAX + AW__SIMULATE_FAULTS_MAX];
    struct aw_apps pool;           /* of a file; zeroed: applications were generated */
    struct aw_tree tree;           /* of --file */
    uint32_t peak_scaled;          /* loads whose peak decided their scale */
    struct aw_pilot_config *pilot; /* of `aware`; NULL: it was not asked for */
    struct aw_model_shelf *shelf;
    char load_text[512];   /* as asked */
    char tuning_text[128]; /* what was tuned on, for people */
};

/* Reads options and --file. Warns through the run's log. On failure it is left zeroed. */
AW_NODISCARD enum aw_err aw__simulate_ask(const struct aw_call *run, struct aw__simulate *ret,
                                          struct aw_diag *diag);
/* Adds what --fault says to the events, in order of time. */
AW_NODISCARD enum aw_err aw__simulate_faults(struct aw__simulate *ask, const char *text,
                                             struct aw_diag *diag);
void aw__simulate_deinit(struct aw__simulate *ask); /* a zeroed one is a no-op */

/* The tables that --set takes, ending with NULL. */
extern const struct aw_conf_field *const aw__simulate_tables[];

/* One application under several policies. */
enum aw_err aw__simulate_print(const struct aw_call *run, const struct aw__simulate *ask,
                               const struct aw_simulate_summary *summary, struct aw_diag *diag);
/* Many applications: what aw_simulate_rows made of them. */
enum aw_err aw__simulate_print_rows(const struct aw_call *run, const struct aw__simulate *ask,
                                    const struct aw_simulate_summary *summaries,
                                    const struct aw_simulate_row *rows, uint32_t baseline,
                                    struct aw_diag *diag);

/* Lines on a terminal while runs go on; elsewhere nothing. Any thread may tell. */
struct aw__live;
AW_NODISCARD enum aw_err aw__live_new(const struct aw__simulate *ask, FILE *out, bool quiet,
                                      struct aw__live **ret);
void aw__live_tune(struct aw__live *live, uint32_t policy);
void aw__live_step(struct aw__live *live, uint32_t policy, const struct aw_simulate_step *step);
void aw__live_done(struct aw__live *live, uint32_t policy);
void aw__live_count(struct aw__live *live, uint32_t done, uint32_t total);
/* Erases what it drew. NULL is a no-op. */
void aw__live_free(struct aw__live *live);

#endif
