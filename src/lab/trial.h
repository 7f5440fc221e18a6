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

#define AW__TRIAL_REPEATS_MAX  32u
#define AW__TRIAL_EPISODES_MAX 100u
#define AW__TRIAL_STEPS_MAX    10000u /* of one run */

/* The controllers measured, each alone on the same load. */
enum aw__trial_arm {
    AW__TRIAL_FALLBACK, /* the rules alone */
    AW__TRIAL_SHARED,   /* the shared model's policy as the rules' episodes gave it: zero-shot */
    AW__TRIAL_ADAPTED,  /* what became of it after some episodes of its own */
    AW__TRIAL_ARMS
};
extern const char *const aw__trial_arm_names[]; /* "fallback", "zero-shot", "adapted", NULL */

/* One workload in one run. */
struct aw__trial_cell {
    struct aw_totals totals;
    double latency_us_p99;               /* of all requests of the run, from when they were due */
    double inside_us_p50, inside_us_p99; /* of them, inside replicas; NAN: not known */
    uint64_t requests, failed, lost;
    uint32_t trips; /* of the watchdog */
    uint32_t trips_by[AW_WATCHDOG_CAUSE_COUNT];
    uint32_t first_trip; /* the step before it, from 1; 0: none */
    uint32_t clipped;    /* decisions that a rail changed */
    uint64_t policy_id;
    struct aw_policy_origin origin;
};

struct aw__trial {
    struct aw_daemon_config ask; /* local, with the speed */
    uint32_t bootstrap, adapt;   /* episodes */
    uint32_t steps, repeats;
    uint32_t warm;               /* steps of the fallback before a run that is measured */
    char load[512];              /* as asked, without directories; "": as the files say */
    uint32_t done;               /* runs that came to their end, in the order they are kept */
    struct aw__trial_cell *cell; /* [repeats][AW__TRIAL_ARMS][ask.count] */
    struct aw_totals *learned[AW__TRIAL_ARMS]; /* [ask.count], while learning; SHARED: none */
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
