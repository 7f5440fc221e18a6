/*
 * external_agent.h - an agent that lives in another process: whether its answer counts in this
 * tick, and whether it may act.
 *
 *   ABSENT    -> PROBATION   an agent has registered
 *   PROBATION -> TRUSTED     `probation` answers in a row, in time and well formed
 *   PROBATION, TRUSTED -> ASIDE   `strikes` bad answers; it is not asked for a while, each time for
 *                            twice as long, and begins with PROBATION again
 *   any -> ABSENT            the agent left; the next one, under whatever name, begins with
 *                            PROBATION, and what is left of the back-off stays
 *
 * A bad answer is never used: in that tick the fallback decides, whatever the standing. An answer
 * of PROBATION is a shadow: it is judged, recorded, and not applied. A trusted agent still acts
 * only where the stage of its workload lets an agent act, under the watchdog and behind the rails.
 *
 * Call order: aw_conf_defaults(aw_external_agent_fields, &settings), begin; then once per tick
 *             aw_external_agent_asks, and aw_external_agent_step with the answer.
 * Memory:     plain structs. A memory and an answer have no padding: they are part of snapshots.
 * Threads:    pure functions of their arguments.
 *
 * The trap: the watchdog forgives the first steps after a takeover (grace). An agent that answers
 * every second time would always be in its first steps; strikes, which twenty good answers take
 * back one at a time, are what ends that.
 */
#ifndef AW_SAFETY_EXTERNAL_AGENT_H
#define AW_SAFETY_EXTERNAL_AGENT_H

#include "base/conf.h"
#include "task/action.h"
#include "task/state.h"

#define AW_EXTERNAL_AGENT_NAME_MAX 128u /* bytes with the NUL: "name@version" */

struct aw_external_agent_settings {
    double deadline;             /* seconds from asking to the answer */
    uint32_t strikes;            /* bad answers that set it aside */
    uint32_t forgive;            /* good answers that take back one strike, or one doubling */
    uint32_t probation;          /* good answers in a row before it may act */
    double backoff, backoff_max; /* seconds for which it is set aside; doubles */
};
extern const struct aw_conf_field aw_external_agent_fields[];

/* clang-format off */
/* What an answer is like. All but NONE and UNASKED are bad.
 *     id           name          sentence, as what follows "the agent" */
#define AW_EXTERNAL_AGENT_FAULT_MAP(X)                                                 \
    X(NONE,        "none",        "has answered")                                      \
    X(UNASKED,     "unasked",     "was not asked")                                     \
    X(LATE,        "late",        "has not answered within the deadline")              \
    X(GONE,        "gone",        "went away before it answered")                      \
    X(SIZE,        "size",        "has answered with a wrong number of values")        \
    X(NOT_FINITE,  "not_finite",  "has answered with what is not a finite number")     \
    X(BOUNDS,      "bounds",      "has answered with a value outside of -1 to 1")      \
    X(OLD,         "old",         "has answered what nobody asks any more")            \
    X(FLOOD,       "flood",       "has sent far more than was asked for")

/*     id           name          sentence */
#define AW_EXTERNAL_AGENT_STANDING_MAP(X)                                              \
    X(ABSENT,      "absent",      "no agent is registered for the workload")           \
    X(PROBATION,   "probation",   "it is on probation: asked, judged, not followed")   \
    X(TRUSTED,     "trusted",     "its answers may be followed")                       \
    X(ASIDE,       "aside",       "it is set aside: too many bad answers")
/* clang-format on */
enum aw_external_agent_fault {
#define X(id, name, sentence) AW_EXTERNAL_AGENT_FAULT_##id,
    AW_EXTERNAL_AGENT_FAULT_MAP(X)
#undef X
        AW_EXTERNAL_AGENT_FAULT_COUNT
};
enum aw_external_agent_standing {
#define X(id, name, sentence) AW_EXTERNAL_AGENT_##id,
    AW_EXTERNAL_AGENT_STANDING_MAP(X)
#undef X
        AW_EXTERNAL_AGENT_STANDING_COUNT
};
const char *aw_external_agent_fault_name(enum aw_external_agent_fault fault);
const char *aw_external_agent_standing_name(enum aw_external_agent_standing standing);

/* What an agent is asked. */
struct aw_external_agent_request {
    uint64_t id; /* set by the carrier; ascending, never 0 */
    uint32_t episode, step;
    uint32_t obs_dim, act_dim;
    float obs[AW_STATE_DIM_MAX];
    float fallback[AW_ACTION_MAX]; /* what happens unless it answers; the rails are still to come */

    /* the step that has ended */
    bool has_last; /* false: no step before, or its result is unknown */
    bool violated; /* the SLO was missed */
    bool followed; /* it was this agent's answer, or what the rails made of it */
    float reward;
    float action[AW_ACTION_MAX]; /* as it was carried out */
};

/* What an agent says of its answer, for people: kept and shown, never acted upon. Zeroed: nothing.
 * No padding, as in what it is part of. */
#define AW_EXTERNAL_AGENT_WORDS_MAX 256u
struct aw_external_agent_words {
    uint32_t has_confidence;
    float confidence; /* 0 to 1 */
    char explanation[AW_EXTERNAL_AGENT_WORDS_MAX];
};
/* The wall that words from outside cross: well-formed UTF-8 without control characters, cut between
 * two characters, with other quotes and slashes than those that JSON would escape. `confidence`
 * NULL, or no number from 0 to 1: not stated; so is a NULL text. */
void aw_external_agent_words_take(struct aw_external_agent_words *words, const float *confidence,
                                  const char *explanation);

/* The answer, or why there is none. Zeroed: no agent. */
struct aw_external_agent_answer {
    uint64_t agent;              /* hash of its name; 0: no agent */
    double took_s;               /* from asking; 0: there is no answer */
    uint32_t fault;              /* enum aw_external_agent_fault */
    uint32_t shadow;             /* 1: it wants to be judged, and never to act */
    float action[AW_ACTION_MAX]; /* where fault is NONE; each in [-1, 1] */
    uint32_t unused_;            /* 0 */
    struct aw_external_agent_words words;
    char name[AW_EXTERNAL_AGENT_NAME_MAX];
};
/* Never 0. */
uint64_t aw_external_agent_id(const char *name);

/* The wall that values from outside cross; there should be `dim` of them. `ret_action` is written
 * where it returns NONE. */
enum aw_external_agent_fault aw_external_agent_check(const float *values, size_t count,
                                                     uint32_t dim, float ret_action[AW_ACTION_MAX]);

struct aw_external_agent_memory {
    int64_t seen_us;    /* last step */
    int64_t until_us;   /* end of the time for which it is set aside; 0: it is not */
    uint64_t agent;     /* that was there last; 0: none yet */
    uint64_t good, bad; /* answers, in all */
    uint32_t standing;  /* enum aw_external_agent_standing */
    uint32_t strikes;
    uint32_t streak;                       /* good answers in a row */
    uint32_t level;                        /* of the back-off */
    uint32_t asides;                       /* times that it was set aside */
    uint32_t shadow;                       /* 1: the agent wants to be judged, and never to act */
    char name[AW_EXTERNAL_AGENT_NAME_MAX]; /* of that agent */
};

/* What a decision reports of it. */
struct aw_external_agent_report {
    enum aw_external_agent_standing standing;
    enum aw_external_agent_fault fault;
    bool asked;  /* in this tick */
    bool follow; /* its answer may be carried out */
    bool shadow; /* as it asked for itself */
    bool moved;  /* the standing changed in this tick */
    uint32_t strikes, strikes_max;
    uint32_t streak, probation;            /* good answers in a row, and how many it takes */
    double left_s;                         /* for which it is still set aside; 0: it is not */
    char name[AW_EXTERNAL_AGENT_NAME_MAX]; /* "": there was no agent yet */
    struct aw_external_agent_words words;  /* with the answer of this tick, if it was a good one */
};
/* "agent td3@7 is not followed: it has not answered within the deadline (strike 2 of 3)". */
#define AW_EXTERNAL_AGENT_TEXT_MAX 320u
const char *aw_external_agent_report_format(const struct aw_external_agent_report *report,
                                            char *buf, size_t size);

void aw_external_agent_begin(struct aw_external_agent_memory *memory, int64_t now_us);
/* Whether bytes that were saved can be such a memory, and what was heard in its last tick. */
bool aw_external_agent_sound(const struct aw_external_agent_memory *memory,
                             const struct aw_external_agent_answer *heard);
/* Whether to ask in this tick: not while it is set aside. */
bool aw_external_agent_asks(const struct aw_external_agent_memory *memory, int64_t now_us);
void aw_external_agent_step(const struct aw_external_agent_settings *settings,
                            struct aw_external_agent_memory *memory,
                            const struct aw_external_agent_answer *answer, int64_t now_us,
                            struct aw_external_agent_report *ret_report);

#endif
