/*
 * trial.h - what the files of the verb `trial` share: what was asked, the results, how they are
 * printed.
 *
 * Memory:  everything is sized by what was asked.
 * Threads: single owner.
 */
#ifndef AW_LAB_TRIAL_H
#define AW_LAB_TRIAL_H

#include "daemon/session.h"
#include "frame/verb.h"

#define AW__TRIAL_REPEATS_MAX 32u
#define AW__TRIAL_STEPS_MAX   10000u /* of one run */
#define AW__TRIAL_TARGETS     5u     /* of the tuned HPA */

/* The controllers measured, each alone on the same load. */
enum aw__trial_arm {
    AW__TRIAL_RULES,    /* the rules as the files say, by default HPA and VPA */
    AW__TRIAL_TUNED,    /* HPA alone, at the best of five targets */
    AW__TRIAL_CONSTANT, /* what the tuned HPA had at most, all the time */
    AW__TRIAL_FRESH,    /* AWARE, which sees the workload for the first time */
    AW__TRIAL_LEARNED,  /* AWARE, which has lived with it before */
    AW__TRIAL_ARMS
};
extern const char *const aw__trial_arm_names[]; /* "rules", "hpa-tuned", and so on; NULL */
extern const uint32_t aw__trial_targets[AW__TRIAL_TARGETS]; /* percent */

/* One workload in one run. */
struct aw__trial_cell {
    struct aw_totals totals;
    double latency_us_p99;               /* of all requests of the run, from when they were due */
    double inside_us_p50, inside_us_p99; /* of them, inside replicas; NAN: not known */
    uint64_t requests, failed, lost;
    uint32_t trips; /* of the watchdog */
    uint32_t trips_by[AW_WATCHDOG_CAUSE_COUNT];
    uint32_t clipped;      /* decisions that a rail changed */
    uint32_t acts_from;    /* the first step in which the agent acted, from 1; 0: never */
    uint32_t replicas_max; /* asked for at most */
};

/* What was found out about a workload before anything was measured. */
struct aw__trial_tuned {
    struct aw__trial_cell target[AW__TRIAL_TARGETS], learning;
    uint32_t best;     /* of the targets */
    uint32_t replicas; /* of the constant */
};

struct aw__trial {
    struct aw_daemon_config ask; /* local, with the speed */
    uint32_t tune, learn;        /* steps of each target, and of AWARE */
    uint32_t steps, repeats;
    uint32_t warm;                 /* steps before a run that is measured */
    char load[512];                /* as asked, without directories; "": as the files say */
    uint32_t done;                 /* runs that came to their end, in the order they are kept */
    struct aw__trial_cell *cell;   /* [repeats][AW__TRIAL_ARMS][ask.count] */
    struct aw__trial_tuned *tuned; /* [ask.count] */
    bool markdown;
    double seconds;
};

struct aw__trial_cell *aw__trial_cell(const struct aw__trial *trial, uint32_t repeat,
                                      enum aw__trial_arm arm, uint32_t workload);

/* Each prints one whole document to stdout. */
AW_NODISCARD enum aw_err aw__trial_print(const struct aw_call *run, const struct aw__trial *trial,
                                         struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__trial_print_json(const struct aw__trial *trial, struct aw_diag *diag);

#endif
