/*
 * lifecycle.h - which controller may act: AWARE's Algorithm 1, with what it leaves open filled in.
 *
 *   INITIALIZED -> OFFLINE   bootstrapping: the fallback acts, the agent learns from its steps
 *   INITIALIZED -> ONLINE    without bootstrapping
 *   OFFLINE     -> ONLINE    the lower bound of the agent's estimated score reaches T_online
 *   ONLINE      -> SERVING   mean >= T_serving and deviation <= T_var over the last episodes
 *   SERVING     -> ONLINE    either fails (high stakes: -> OFFLINE); the agent learns again
 *   ONLINE, SERVING -> OFFLINE   the watchdog tripped too often; or ONLINE stays poor for long
 *
 * Call order: aw_conf_defaults(aw_lifecycle_fields, &settings), aw_lifecycle_init, begin; then
 *             aw_lifecycle_episode at the end of every episode, aw_lifecycle_trip at every trip of
 *             the watchdog that is the agent's fault.
 * Memory:     plain structs. A memory has no padding: it is part of snapshots.
 * Threads:    pure functions of their arguments.
 *
 * A stage is judged by its own episodes alone, so a transition empties the agent's window: what
 * was done while exploring says little of serving, and the other way round.
 *
 * The trap: scores of different weights of the SLO cannot be compared. The score of an episode must
 * come from one formula for agent and fallback, at one reference weight that never moves.
 */
#ifndef AW_SAFETY_LIFECYCLE_H
#define AW_SAFETY_LIFECYCLE_H

#include <aware/stage.h>

#include "base/conf.h"

#define AW_LIFECYCLE_WINDOW_MAX 24u /* episodes: ten hours of them */
#define AW_LIFECYCLE_TRIPS_MAX  16u

struct aw_lifecycle_settings {
    bool bootstrap;         /* begin OFFLINE */
    bool retrain_offline;   /* high stakes: the fallback acts while the agent learns again */
    uint32_t window;        /* episodes over which mean and deviation are taken */
    uint32_t fill;          /* of them at least, before anything is judged */
    uint32_t offline_least; /* episodes to stay OFFLINE; doubles each time it was poor or tripped */
    uint32_t stage_least;   /* episodes to stay ONLINE and SERVING */
    uint32_t streak;        /* looks in a row that must fail before SERVING ends */
    uint32_t patience;      /* ONLINE episodes after which a poor mean ends it; 0: never (Alg. 1) */
    double serving_margin;  /* auto T_serving over the fallback's mean, in its standard errors */
    double hysteresis;      /* below T_serving before SERVING ends, in standard errors */
    double deviation_factor;     /* auto T_var over the fallback's deviation */
    double deviation_hysteresis; /* relative, over T_var before SERVING ends */
    double drift;        /* auto: standard errors below its own level before SERVING ends; 0: off */
    uint32_t trip_count; /* trips of the watchdog that end ONLINE and SERVING */
    double trip_window;  /* seconds within which they count */
};
extern const struct aw_conf_field aw_lifecycle_fields[];

/* Numbers in units of an episode's score. NAN: auto, from the fallback's own episodes. */
struct aw_lifecycle_thresholds {
    double online, serving;
    double deviation; /* T_var */
};

struct aw_lifecycle {
    struct aw_lifecycle_settings settings;
    struct aw_lifecycle_thresholds thresholds;
};

/* The last scores of one actor. Zeroed is empty. */
struct aw_lifecycle_ring {
    double score[AW_LIFECYCLE_WINDOW_MAX];
    uint32_t count, next;
};

struct aw_lifecycle_memory {
    struct aw_lifecycle_ring agent;    /* of this stage alone */
    struct aw_lifecycle_ring fallback; /* of all time */
    double level_mean, level_std;      /* of the first full window in SERVING; NAN: none yet */
    int64_t trip_us[AW_LIFECYCLE_TRIPS_MAX]; /* ring */
    uint32_t trip_next;
    uint32_t stage;          /* enum aw_stage */
    uint32_t stage_episodes; /* in this stage, of agent and fallback */
    uint32_t fail_streak;
    uint32_t demotions; /* for being poor or tripping, since it last got to SERVING */
    uint32_t episodes;  /* seen in all */
    uint32_t acted;     /* 1: an agent has */
    uint32_t unused_;   /* 0 */
};

/* One finished episode. */
struct aw_lifecycle_episode {
    double score;       /* at the reference weight; not finite: the episode does not count */
    double agent_share; /* of its steps in which the agent acted, exploring or not */
    bool admitted; /* nothing can be estimated of the agent, and it may be tried all the same */
};
/* At least this share makes it the agent's episode, at most that share the fallback's. What is in
 * between says nothing of either. */
#define AW_LIFECYCLE_AGENT_SHARE    0.8
#define AW_LIFECYCLE_FALLBACK_SHARE 0.2

/* What off-policy evaluation says of the agent's score; NAN: nothing yet. */
struct aw_lifecycle_estimate {
    double mean, low, high;
};

/* clang-format off */
/*     id               name               sentence */
#define AW_LIFECYCLE_CAUSE_MAP(X)                                                                  \
    X(NONE,            "none",            "nothing changes")                                       \
    X(BOOTSTRAP,       "bootstrap",       "begins with bootstrapping: the fallback acts")          \
    X(NO_BOOTSTRAP,    "no_bootstrap",    "begins without bootstrapping: the agent acts")          \
    X(YOUNG_STAGE,     "young_stage",     "too few episodes in this stage yet")                    \
    X(NO_ESTIMATE,     "no_estimate",     "the agent's score has not been estimated yet")          \
    X(NO_REFERENCE,    "no_reference",    "too few episodes of the fallback to set the threshold") \
    X(NO_WINDOW,       "no_window",       "too few episodes of the agent to judge it")             \
    X(ESTIMATE_LOW,    "estimate_low",    "the estimate's lower bound is below the threshold")     \
    X(ESTIMATE_GOOD,   "estimate_good",   "the estimate's lower bound has reached the threshold")  \
    X(MEAN_LOW,        "mean_low",        "the mean is below the threshold")                       \
    X(DEVIATION_HIGH,  "deviation_high",  "the deviation is above the threshold")                  \
    X(PROVEN,          "proven",          "mean and deviation have reached their thresholds")      \
    X(HOLDS,           "holds",           "mean and deviation hold")                               \
    X(DRIFTED,         "drifted",         "the mean fell below the agent's own level")             \
    X(POOR,            "poor",            "stayed below the fallback for too long")                \
    X(TRIPS,           "trips",           "the watchdog tripped too often")                        \
    X(ADMITTED,        "admitted",        "an agent of which nothing can be estimated is tried")   \
    X(KNOWN,           "known",           "begins with what was best for workloads like this one")
/* clang-format on */

enum aw_lifecycle_cause {
#define X(id, name, sentence) AW_LIFECYCLE_CAUSE_##id,
    AW_LIFECYCLE_CAUSE_MAP(X)
#undef X
        AW_LIFECYCLE_CAUSE_COUNT
};
const char *aw_lifecycle_cause_name(enum aw_lifecycle_cause cause);
const char *aw_lifecycle_cause_sentence(enum aw_lifecycle_cause cause);

/* Why a stage began, or why it stays. Figures that a cause does not have are NAN. */
struct aw_lifecycle_reason {
    enum aw_lifecycle_cause cause;
    enum aw_stage from, to; /* equal: it stays */
    uint32_t count;         /* episodes, or trips, that were looked at */
    double mean, std;       /* of them; `mean` of an estimate is its lower bound */
    double threshold;       /* that the mean was compared with */
    double deviation;       /* that std was compared with */
};
/* "online -> serving: mean and deviation have reached their thresholds (mean ...)". */
#define AW_LIFECYCLE_TEXT_MAX 320u
const char *aw_lifecycle_reason_format(const struct aw_lifecycle_reason *reason, char *buf,
                                       size_t size);
/* The same for a person who has never met the stages: "learning from hpa+vpa: 2 of 5 episodes".
 * `least`: episodes that the settings ask for before the agent may act. */
const char *aw_lifecycle_reason_words(const struct aw_lifecycle_reason *reason, uint32_t least,
                                      const char *fallback, char *buf, size_t size);

/* The thresholds in force, hysteresis included; NAN: not known yet. */
struct aw_lifecycle_limits {
    double online;
    double serving_enter, serving_leave;
    double deviation_enter, deviation_leave;
    double drift; /* below this mean SERVING ends, though above the other limits; NAN: none */
};

/* AW_ERR_CONFIG: fill above window, an infinite threshold, a negative one of the deviation. */
AW_NODISCARD enum aw_err aw_lifecycle_init(struct aw_lifecycle *lifecycle,
                                           const struct aw_lifecycle_settings *settings,
                                           const struct aw_lifecycle_thresholds *thresholds,
                                           struct aw_diag *diag);

/* INITIALIZED, and at once on to OFFLINE or ONLINE. `ret_reason` may be NULL, here and below. */
void aw_lifecycle_begin(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                        struct aw_lifecycle_reason *ret_reason);

/* Takes in an episode and looks whether the stage ends: at most one transition. True: it did. The
 * reason says why it did or did not. `estimate` is read in OFFLINE alone and may be NULL. */
bool aw_lifecycle_episode(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                          const struct aw_lifecycle_episode *episode,
                          const struct aw_lifecycle_estimate *estimate,
                          struct aw_lifecycle_reason *ret_reason);
/* There is a policy that others have lived. OFFLINE -> SERVING, at once as long as no agent has
 * acted, and then only with time. True: it acts from now on. */
bool aw_lifecycle_known(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                        struct aw_lifecycle_reason *ret_reason);
/* Takes in a trip of the watchdog. True: it was one too many, and the stage is OFFLINE now. */
bool aw_lifecycle_trip(const struct aw_lifecycle *lifecycle, struct aw_lifecycle_memory *memory,
                       int64_t now_us, struct aw_lifecycle_reason *ret_reason);

/* True in ONLINE and SERVING. */
bool aw_lifecycle_agent_acts(const struct aw_lifecycle_memory *memory);
/* True in OFFLINE and ONLINE. */
bool aw_lifecycle_agent_learns(const struct aw_lifecycle_memory *memory);

void aw_lifecycle_limits(const struct aw_lifecycle *lifecycle,
                         const struct aw_lifecycle_memory *memory,
                         struct aw_lifecycle_limits *ret_limits);

#endif
