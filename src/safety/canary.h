/*
 * canary.h - a new policy of a workload that has one already: watched, tried, adopted or taken
 * back.
 *
 *   NONE, or an outcome -> SHADOW   a policy was proposed; it is asked, and decides nothing
 *   SHADOW -> REFUSED               it is not finite, absurd, or cut by hard rails too often
 *   SHADOW -> TRIAL                 it acts for the last part of an episode, then in whole ones
 *   TRIAL  -> ADOPTED               it is the last known good one now
 *   TRIAL  -> ROLLED_BACK           fewer promises kept than chance explains, or a watchdog's trip
 *   either -> ROLLED_BACK           a person ordered it
 *
 * Call order: aw_conf_defaults(aw_canary_fields, &settings); aw_canary_begin; aw_canary_propose
 *             between episodes. Then per tick: aw_canary_judge (the step that ended),
 *             aw_canary_turn (which policy decides), in SHADOW aw_canary_watch, after a watchdog's
 *             trip aw_canary_trip; and aw_canary_episode where an episode ends. Each says whether
 *             the state changed; the reason is in the memory.
 * Memory:     plain structs. A memory has no padding: it is part of snapshots.
 * Threads:    pure functions of their arguments.
 *
 * Two tests, both against what was predicted when the policy was found:
 *   violations  after every missed step of the trial: with n steps and v misses, rolled back where
 *               P(Binomial(n / clump, p) >= v / clump) < chance; p is the largest of the budget,
 *               the predicted share, and the share of the policy in force.
 *   score       after every whole episode: the mean of k of them against the lower end of the
 *               predicted interval (aw_canary_low).
 *
 * The trap: only ids are known here. The owner of the policies switches them when the state does.
 */
#ifndef AW_SAFETY_CANARY_H
#define AW_SAFETY_CANARY_H

#include <aware/cluster.h>

#include "base/conf.h"

#define AW_CANARY_BARRED_MAX 4u /* policies that are remembered as rolled back */
/* Of an episode's steps at least, for it to be one of the policy on trial. */
#define AW_CANARY_EPISODE_SHARE 0.8

struct aw_canary_settings {
    bool enabled;          /* false: a new policy acts at once */
    uint32_t shadow_steps; /* for which it is asked beside the one in force */
    double share;          /* of the first episode in which it acts: its last part */
    uint32_t episodes;     /* whole ones in which it acts before it is adopted */
    double clipped; /* share of shadow steps that hard rails may cut, above the good policy's */
    double width;   /* of the predicted interval of the score, in deviations */
    double chance;  /* below which violations are no accident */
    double clump;   /* steps: violations come in groups of about so many */
    uint32_t grace; /* steps after taking over that count for the former actor */
    uint32_t restore_steps; /* for which a last known good allocation is asked for, at most */
};
extern const struct aw_conf_field aw_canary_fields[];

enum aw_canary_state {
    AW_CANARY_NONE, /* nothing was ever tried */
    AW_CANARY_SHADOW,
    AW_CANARY_TRIAL,
    AW_CANARY_ADOPTED, /* the last outcomes, until the next proposal */
    AW_CANARY_ROLLED_BACK,
    AW_CANARY_REFUSED,
    AW_CANARY_STATE_COUNT
};
const char *aw_canary_state_name(enum aw_canary_state state); /* "rolled_back" */

/* clang-format off */
/*     id           sentence */
#define AW_CANARY_CAUSE_MAP(X)                                                      \
    X(NONE,        "no new policy was tried")                                       \
    X(FOUND,       "a better policy was found: it is asked, and decides nothing")   \
    X(PROPOSED,    "a policy was handed in: it is asked, and decides nothing")      \
    X(NOT_FINITE,  "refused: it gave a number that is not finite")                  \
    X(ABSURD,      "refused: it proposed an amount that cannot be one")             \
    X(CLIPPED,     "refused: hard rails cut what it proposed too often")            \
    X(SOUND,       "its proposals are sound: it acts for a part of an episode")     \
    X(PART_GOOD,   "its part of an episode was good: it acts for whole ones")       \
    X(VIOLATIONS,  "rolled back: the SLO was missed more often than chance allows") \
    X(SCORE_LOW,   "rolled back: the score is below its predicted interval")        \
    X(TRIPPED,     "rolled back: the watchdog tripped while it acted")              \
    X(STAGE,       "given up: the fallback acts again")                             \
    X(CHANGED,     "given up: the workload is not what it was predicted for")       \
    X(ORDERED,     "rolled back: a person ordered it")                              \
    X(PROVEN,      "adopted: score and violations are within what was predicted")
/* clang-format on */
enum aw_canary_cause {
#define X(id, sentence) AW_CANARY_CAUSE_##id,
    AW_CANARY_CAUSE_MAP(X)
#undef X
        AW_CANARY_CAUSE_COUNT
};
const char *aw_canary_cause_sentence(enum aw_canary_cause cause);

/* Why it took its last step. Figures that a cause does not have are NAN. */
struct aw_canary_reason {
    enum aw_canary_cause cause;
    enum aw_canary_state from, to;
    uint32_t count;   /* steps or episodes that were looked at */
    uint64_t trial;   /* id of the policy that was tried */
    uint64_t good;    /* id of the last known good one */
    double observed;  /* share of cut or missed steps, or mean score of an episode */
    double predicted; /* the same as it was expected */
    double limit;     /* that it was compared with */
    double tail;      /* VIOLATIONS: probability of so many by chance */
};
/* "trial -> rolled_back: ... (observed 0.30, limit 0.01, ...)". Returns `buf`. */
#define AW_CANARY_TEXT_MAX 320u
const char *aw_canary_reason_format(const struct aw_canary_reason *reason, char *buf, size_t size);

/* What is known of a new policy when it is proposed. */
struct aw_canary_candidate {
    uint64_t id;
    double gain,
        gain_error;         /* score of an episode over that of the policy in force; NAN: unknown */
    double violation_share; /* predicted; NAN: unknown */
};
/* And of the policy in force. */
struct aw_canary_standing {
    uint64_t id;
    double score_mean, score_std; /* of its episodes; NAN: none yet */
    double violation_share;       /* NAN: none yet */
    double budget;
    double episodes; /* that the mean is taken over */
};

struct aw_canary_memory {
    struct aw_canary_reason reason;
    struct aw_canary_candidate candidate;
    struct aw_canary_standing good;
    struct aw_plan allocation; /* last known good: before the trial began; `set` 0: none */
    double score_sum;          /* of whole episodes on trial */
    uint64_t barred_id[AW_CANARY_BARRED_MAX]; /* ring; 0: none */
    uint64_t barred_rows[AW_CANARY_BARRED_MAX];
    uint32_t barred_next;
    uint32_t failures; /* rolled back or refused since the last one was adopted */
    uint32_t state;    /* enum aw_canary_state */
    uint32_t steps, clipped, clipped_good; /* of the shadow */
    uint32_t armed;                        /* the first part of an episode may begin */
    uint32_t whole;                        /* that part is over */
    uint32_t acted, judged, missed;        /* steps of the trial: in a row, judged, missed */
    uint32_t episodes;                     /* whole ones on trial */
    uint32_t restore_left;                 /* steps */
    uint32_t acted_episode;                /* steps of the episode so far */
};

void aw_canary_begin(struct aw_canary_memory *memory);

/* A policy is in SHADOW or TRIAL. */
bool aw_canary_busy(const struct aw_canary_memory *memory);
/* It was rolled back, and fewer than `rows` steps have told something since. */
bool aw_canary_barred(const struct aw_canary_memory *memory, uint64_t id, uint64_t rows);

/* Not while busy, and neither the policy in force nor a barred one: assert. `cause` is FOUND or
 * PROPOSED. */
void aw_canary_propose(struct aw_canary_memory *memory, const struct aw_canary_candidate *candidate,
                       const struct aw_canary_standing *standing, enum aw_canary_cause cause);

/* What the policy in SHADOW would have done in this tick. */
struct aw_canary_watched {
    bool finite;
    bool absurd;       /* an amount that cannot be one */
    bool clipped;      /* by a hard rail */
    bool clipped_good; /* so was the policy in force */
};
/* One tick of SHADOW; a tick without figures does not count. True: it took a step. */
bool aw_canary_watch(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                     const struct aw_canary_watched *watched);

/* Whether the policy on trial decides step `step` of an episode, if an agent may act at all. */
bool aw_canary_turn(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                    uint32_t step, uint32_t episode_steps);
/* It does: what stands before its first step is the last known good allocation. */
void aw_canary_acts(struct aw_canary_memory *memory, const struct aw_plan *present);
/* It does not, in this tick. */
void aw_canary_rests(struct aw_canary_memory *memory);

/* The step that ended was decided by the policy on trial; `missed` its SLO. True: rolled back. */
bool aw_canary_judge(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                     bool missed);
/* The watchdog tripped; `own`: over its answer. True: it is rolled back, for that, or for having
 * acted in the step before. */
bool aw_canary_trip(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                    bool own);
/* An episode of so many steps has ended. True: it took a step. */
bool aw_canary_episode(const struct aw_canary_settings *settings, struct aw_canary_memory *memory,
                       double score, uint32_t episode_steps);
/* It is given up, by no fault of its own: STAGE or CHANGED. True: there was something to give up.
 */
bool aw_canary_withdraw(struct aw_canary_memory *memory, enum aw_canary_cause cause);
/* A person wants it taken back: as after a failure. True: there was something to take back. */
bool aw_canary_order_back(const struct aw_canary_settings *settings,
                          struct aw_canary_memory *memory);
/* What was rolled back is not tried again before so many steps have told something. */
void aw_canary_bar(struct aw_canary_memory *memory, uint64_t rows);

/* While the last known good allocation is asked for: true, and a tick is counted. */
bool aw_canary_restore(struct aw_canary_memory *memory, const struct aw_plan *present);

/* The predicted interval of the mean of `episodes` whole episodes; NAN: nothing was predicted.
 * What does no worse than the policy in force is never below it. */
double aw_canary_mean(const struct aw_canary_memory *memory);
double aw_canary_low(const struct aw_canary_settings *settings,
                     const struct aw_canary_memory *memory, uint32_t episodes);
double aw_canary_high(const struct aw_canary_settings *settings,
                      const struct aw_canary_memory *memory, uint32_t episodes);
/* P(Binomial(n, p) >= k). */
double aw_canary_tail(uint32_t n, double p, uint32_t k);

/* What a decision tells of it. */
struct aw_canary_report {
    enum aw_canary_state state;
    bool moved;     /* since the decision before */
    bool acts;      /* the policy on trial has taken this decision */
    bool restoring; /* the last known good allocation is asked for */
    uint64_t trial; /* id of the policy in SHADOW or TRIAL; 0: none */
    uint64_t good;  /* id of the last known good one; 0: none */
    double predicted_mean, predicted_low, predicted_high; /* score of an episode; NAN: none */
    double predicted_share;                               /* of missed steps; NAN: none */
    double observed_mean;                                 /* score; NAN: none yet */
    double observed_share;                                /* NAN: none yet */
    uint32_t steps, episodes;                             /* judged ones of the trial */
    struct aw_plan plan;                                  /* what it proposes; empty: none */
    struct aw_canary_reason reason;
};
void aw_canary_report(const struct aw_canary_settings *settings,
                      const struct aw_canary_memory *memory, struct aw_canary_report *ret);

#endif
