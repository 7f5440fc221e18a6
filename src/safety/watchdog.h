/*
 * watchdog.h - takes control from the agent at once when something is wrong, and says what.
 *
 * Call order: aw_conf_defaults(aw_watchdog_fields, &settings); begin; then once per tick, after the
 *             agent has decided and before anything is applied: aw_watchdog_step. It says whether
 *             the agent may act now. aw_explore_allowed says whether it may also explore.
 * Memory:     plain structs. A memory has no padding: it is part of snapshots.
 * Threads:    pure functions of their arguments.
 *
 * After a trip the fallback acts for a quiet time, which doubles with every further trip, and for
 * as long as the figures are missing or the state is strange. A long time without trips makes the
 * quiet time short again. So it does not flap.
 *
 * The promise behind the SLO budget: over any `window` steps in which the agent acts it causes at
 * most max(budget, what the fallback itself had) * window + slack violations before it is stopped.
 *
 * The trap: the violation of a step is known one tick later. `last_*` speak of the step that has
 * ended, everything else of the decision that is about to be applied.
 */
#ifndef AW_SAFETY_WATCHDOG_H
#define AW_SAFETY_WATCHDOG_H

#include <aware/stage.h>

#include "base/conf.h"

#define AW_WATCHDOG_WINDOW_MAX 512u /* steps */
#define AW_EXPLORE_PIECES      16u  /* a window of exploring is kept in this many pieces */
#define AW_FAMILIAR_DIM_MAX    32u

struct aw_watchdog_settings {
    double slo_budget;        /* share of steps that may miss the SLO; the profile's */
    uint32_t window;          /* steps of the agent over which violations are counted */
    double slack;             /* violations beyond the budget before it trips */
    double fallback_factor;   /* of the fallback's own share of violations, when that is more */
    uint32_t grace;           /* steps after taking over that count for the former actor */
    double stale;             /* seconds after which a figure that is needed counts as missing */
    double strange;           /* distance of a state from what was trained on that is too far */
    double deadline;          /* seconds that a decision may take */
    double quiet, quiet_max;  /* seconds for which the fallback acts after a trip; doubles */
    uint32_t explore_window;  /* steps over which exploring is accounted */
    double explore_violation; /* share of slo_budget that exploring may spend in them */
    double explore_cost;      /* extra cost per step of them, in units of cost */
    double explore_slack;     /* violations while exploring that are always forgiven */
};
extern const struct aw_conf_field aw_watchdog_fields[];

/* clang-format off */
/*     id            name            agent's fault  sentence */
#define AW_WATCHDOG_CAUSE_MAP(X)                                                                   \
    X(NONE,         "none",         false, "nothing is wrong")                                     \
    X(NOT_FINITE,   "not_finite",   true,  "the agent's action or value is not a finite number")   \
    X(NO_FIGURES,   "no_figures",   false, "a figure that is needed is missing or stale")          \
    X(STRANGE,      "strange",      true,  "the state lies outside what the agent was trained on") \
    X(DEADLINE,     "deadline",     false, "the decision took longer than allowed")                \
    X(SLO_BUDGET,   "slo_budget",   true,  "the SLO was missed more often than the budget allows") \
    X(QUIET,        "quiet",        false, "the fallback acts for a quiet time after a trip")
/* clang-format on */

enum aw_watchdog_cause {
#define X(id, name, fault, sentence) AW_WATCHDOG_CAUSE_##id,
    AW_WATCHDOG_CAUSE_MAP(X)
#undef X
        AW_WATCHDOG_CAUSE_COUNT
};
const char *aw_watchdog_cause_name(enum aw_watchdog_cause cause);
const char *aw_watchdog_cause_sentence(enum aw_watchdog_cause cause);
/* Whether a trip counts against the agent (aw_lifecycle_trip): a metrics outage does not. */
bool aw_watchdog_cause_fault(enum aw_watchdog_cause cause);

enum aw_watchdog_slo { AW_WATCHDOG_SLO_MET, AW_WATCHDOG_SLO_MISSED, AW_WATCHDOG_SLO_UNKNOWN };

struct aw_watchdog_input {
    /* the step that has ended */
    enum aw_actor last_actor; /* NOBODY: no step before, nothing is counted */
    enum aw_watchdog_slo last_slo;
    double
        last_extra_cost; /* over what the fallback would have cost, e.g. of ratios; NAN: unknown */

    /* the decision that is about to be applied */
    bool wanted;     /* the lifecycle lets the agent act; false: there is nothing to guard */
    bool finite;     /* its action, and its value where there is one */
    double age_s;    /* of the oldest figure that it needs; INFINITY or NAN: one is missing */
    double distance; /* aw_familiar_distance; NAN: not judged */
    double took_s;   /* from asking to the answer */
};

struct aw_watchdog_memory {
    uint64_t missed[AW_WATCHDOG_WINDOW_MAX / 64]; /* ring of bits: steps of the agent */
    double fallback_steps, fallback_missed;       /* counts that fade */
    double explore_extra[AW_EXPLORE_PIECES];      /* cost */
    uint32_t explore_missed[AW_EXPLORE_PIECES];   /* violations of exploring steps */
    uint32_t explore_steps[AW_EXPLORE_PIECES];    /* all steps, of agent and fallback */
    int64_t seen_us;                              /* last step */
    int64_t until_us; /* end of the quiet time; AW_WATCHDOG_ARMED: none */
    int64_t armed_us; /* since when the agent may act again */
    uint32_t step_count, step_next, missed_count; /* of the ring */
    uint32_t acted_steps;                         /* of the agent in a row, for the grace */
    uint32_t level;                               /* of the back-off: trips that still count */
    uint32_t cause;                               /* enum aw_watchdog_cause of the last trip */
    uint32_t trips;                               /* in all */
    uint32_t explore_piece;
    uint32_t last_slo; /* of the last step; enum aw_watchdog_slo */
    uint32_t unused_;  /* 0 */
};
#define AW_WATCHDOG_ARMED INT64_MIN

/* Why, with figures; those that a cause does not have are NAN. */
struct aw_watchdog_reason {
    enum aw_watchdog_cause cause;
    double value, limit; /* violations, seconds or distance, and what was allowed */
    double quiet_s;      /* how long the fallback acts from now */
};
/* "the SLO was missed more often than the budget allows (5 in 100 steps, allowed 4.0); ...". */
#define AW_WATCHDOG_TEXT_MAX 320u
const char *aw_watchdog_reason_format(const struct aw_watchdog_reason *reason, char *buf,
                                      size_t size);

void aw_watchdog_begin(struct aw_watchdog_memory *memory, int64_t now_us);

enum aw_watchdog_verdict {
    AW_WATCHDOG_PASS,    /* the agent acts, if the lifecycle lets it */
    AW_WATCHDOG_TRIPPED, /* just now: the fallback acts */
    AW_WATCHDOG_HELD,    /* since a trip before: the fallback acts */
};
enum aw_watchdog_verdict aw_watchdog_step(const struct aw_watchdog_settings *settings,
                                          struct aw_watchdog_memory *memory,
                                          const struct aw_watchdog_input *input, int64_t now_us,
                                          struct aw_watchdog_reason *ret_reason);

/* Violations within the window that are still allowed; what a live table shows. */
double aw_watchdog_allowed(const struct aw_watchdog_settings *settings,
                           const struct aw_watchdog_memory *memory);

/* Whether exploring may cost something now: not while tripped, not while the SLO is missed or
 * unknown, and not beyond its own budget of violations and cost in the last explore_window steps.
 */
bool aw_explore_allowed(const struct aw_watchdog_settings *settings,
                        const struct aw_watchdog_memory *memory);

/* --- what was trained on -----------------------------------------------------------------------
 *
 * A box around all states seen, and their deviation as the unit in which the way out of it is
 * measured. The distance of a state is that of its worst element: one strange number is enough.
 */
struct aw_familiar {
    double mean[AW_FAMILIAR_DIM_MAX];
    double m2[AW_FAMILIAR_DIM_MAX]; /* sum of squared distances from the mean */
    float low[AW_FAMILIAR_DIM_MAX];
    float high[AW_FAMILIAR_DIM_MAX];
    uint64_t count;
    uint32_t dim;
    uint32_t unused_; /* 0 */
};
void aw_familiar_begin(struct aw_familiar *familiar, uint32_t dim); /* 1 .. AW_FAMILIAR_DIM_MAX */
/* A state with an element that is not finite is not taken in. */
void aw_familiar_push(struct aw_familiar *familiar, const float *state);
/* 0 inside the box; NAN below AW_FAMILIAR_COUNT_MIN states; INFINITY for what is not finite. */
#define AW_FAMILIAR_COUNT_MIN 100u
double aw_familiar_distance(const struct aw_familiar *familiar, const float *state);

#endif
