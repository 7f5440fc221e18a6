/*
 * recent.h - what has lately happened, kept small: the last points of every workload, its episodes,
 * the fleet as a whole, and counts since the start. The page, the tables and the metrics are made
 * of it.
 *
 * Call order: init; after every tick twin (where there is one) and tick; lock, look, unlock from
 *             any thread; deinit.
 * Memory:     rings. How long they are follows from how many workloads there are, so that all of
 *             them stay within AW_RECENT_BYTES_MAX; they are made anew, shorter, where more come. A
 *             tick without new workloads allocates nothing.
 * Threads:    a lock of its own. tick takes the desk's lock first; a thread that holds this lock
 *             must not take the desk's.
 *
 * save and load carry it over a restart. It is no record: that is the store, the journal and the
 * audit log.
 *
 * The trap: figures of a decision are those of the step that had ended when it was taken. What the
 * twin did comes after its step, and is therefore kept for the next tick.
 */
#ifndef AW_WEB_RECENT_H
#define AW_WEB_RECENT_H

#include <pthread.h>

#include "desk/desk.h"
#include "task/turns.h"

#define AW_RECENT_POINTS_MAX   1440u /* of one workload: six hours of steps of 15 s */
#define AW_RECENT_POINTS_MIN   8u
#define AW_RECENT_EPISODES_MAX 256u
#define AW_RECENT_EPISODES_MIN 8u
#define AW_RECENT_FLEET_MAX    1440u
#define AW_RECENT_BYTES_MAX    (16u << 20) /* of all points and episodes together */

/* What became of a decision. */
/* clang-format off */
#define AW_RECENT_OUTCOME_MAP(X)                                                                   \
    X(UNCHANGED,   "unchanged")   /* nothing else was wanted, or not by enough */                  \
    X(APPLIED,     "applied")                                                                      \
    X(RECOMMENDED, "recommended") /* mode or a freeze does not let it act */                       \
    X(HELD,        "held")        /* by a rail */                                                  \
    X(FAILED,      "failed")      /* the cluster did not take it */                                \
    X(UNRECORDED,  "unrecorded")  /* it could not be written down, so it was not done */
/* clang-format on */
enum aw_recent_outcome {
#define X(id, name) AW_RECENT_##id,
    AW_RECENT_OUTCOME_MAP(X)
#undef X
        AW_RECENT_OUTCOME_COUNT
};
extern const char *const aw_recent_outcome_names[]; /* [AW_RECENT_OUTCOME_COUNT] */

enum aw_recent_flag {
    AW_RECENT_MISSED = 1,      /* the SLO, in the step that had ended */
    AW_RECENT_TWIN_MISSED = 2, /* the twin did */
    AW_RECENT_TWIN = 4,        /* the twin's figures are there */
    AW_RECENT_FROZEN_DOWN = 8,
    AW_RECENT_FROZEN_ALL = 16,
    AW_RECENT_UNANSWERED = 32, /* the cluster did not answer */
    AW_RECENT_TRIPPED = 64,    /* the watchdog, now */
    AW_RECENT_WATCHED = 128,   /* the watchdog holds the agent back */
};

/* One tick of one workload. NAN: not known. */
struct aw_recent_point {
    int64_t at_us;
    float arrivals_per_s;
    float latency_us; /* of the SLO's quantile */
    float cpu_used, memory_used;
    float cpu_millicores, memory_bytes; /* of a replica, behind the decision */
    float cost_per_hour, fallback_cost_per_hour;
    float reward; /* the paper's, of a step: [0, 2] */
    float twin_cost_per_hour, twin_latency_us, twin_reward;
    uint32_t clips; /* AW_CLIP_BIT */
    uint16_t ready, wanted, fallback_replicas, twin_replicas;
    uint8_t stage, actor, outcome, flags;
};

/* One finished episode. NAN: not known. */
struct aw_recent_episode {
    int64_t end_us;
    uint64_t policy_id;
    uint32_t number, steps, missed, agent_steps;
    uint32_t twin_steps, twin_missed;
    float reward, twin_reward;      /* sums, the paper's */
    float cost, twin_cost;          /* $ */
    float estimate, low, high;      /* off-policy, of the policy, per episode */
    float judged, judged_deviation; /* mean and deviation that the lifecycle looked at */
    float threshold;                /* that it compared with */
    float lambda;
    float critic_loss, imitation_loss, copy_error; /* of the last round of learning */
    uint32_t rounds;                               /* of learning, by then */
    uint32_t stage;
};

/* What one workload has come to. */
struct aw_recent_one {
    char name[AW_STORE_NAME_MAX]; /* "": an empty slot */
    uint64_t policy_id;
    double slo_latency_us, slo_budget;    /* NAN: none */
    uint32_t recent_steps, recent_missed; /* in the watchdog's window */
    uint32_t mode;                        /* enum aw_guard_mode */
    uint32_t agent;                       /* enum aw_policy_kind */
    uint32_t replica_count_max;
    uint32_t pending;             /* replicas that no node has room for, in the last tick */
    bool learns_now;              /* a round of learning is under way */
    bool learning, has_slo, seen; /* seen: by the last tick */
    bool loaded;                  /* from a file, and no tick was since */

    /* since the start */
    uint64_t steps, missed, model_changes, stage_changes;
    uint64_t replica_changes, taken_back; /* taken back: fewer within AW_STABILISATION_S of more */
    struct aw_replica_track track;
    uint64_t outcomes[AW_RECENT_OUTCOME_COUNT];
    double reward, cost; /* sums; cost in $ */
    /* the same over steps of which the twin's figures are there */
    struct aw_recent_beside {
        uint64_t steps, missed, twin_missed;
        double reward, cost, twin_reward, twin_cost;
    } beside;
    struct aw_learned learned;
    struct aw_lifecycle_estimate estimate;
    double lambda;

    /* rings; aw_recent_point, aw_recent_episode read them */
    uint64_t point_count, episode_count; /* of all time */
    struct aw_recent_episode open;       /* that is under way */
    struct aw_recent_twin {
        double cost_per_hour, latency_us, reward;
        uint32_t replicas;
        bool missed, there;
    } twin, twin_next; /* of the step that ended with the last tick told; of the one behind it */
    uint32_t ring;     /* which */
};

/* The fleet at one tick. */
struct aw_recent_fleet {
    int64_t at_us;
    float cost_per_hour, fallback_cost_per_hour, twin_cost_per_hour; /* NAN: not known */
    float arrivals_per_s, cpu_used, memory_used;                     /* used: means */
    uint32_t total, missing, twin_missing, with_twin, frozen, held, changes, pending;
    uint32_t stage[AW_STAGE_COUNT];
};

struct aw_recent {
    pthread_mutex_t lock;
    const struct aw_alloc *alloc;
    bool made;
    double step_s;

    uint32_t count, max;               /* slots in use; made */
    uint32_t named;                    /* slots below it have a name */
    uint32_t points_max, episodes_max; /* of one workload */
    struct aw_recent_one *one;         /* [max] */
    struct aw_recent_point *point;     /* [max][points_max] */
    struct aw_recent_episode *episode; /* [max][episodes_max] */
    struct aw_recent_fleet *fleet;     /* [AW_RECENT_FLEET_MAX] */
    uint64_t fleet_count;              /* of all time */
    uint64_t ticks, dropped;           /* dropped: ticks without memory for a new workload */
    uint64_t decisions[AW_ACTOR_COUNT][AW_RECENT_OUTCOME_COUNT];
    uint64_t clips[AW_CLIP_COUNT];
    uint64_t trips[AW_WATCHDOG_CAUSE_COUNT];
    uint64_t stages[AW_STAGE_COUNT]; /* times each was entered */
};

AW_NODISCARD enum aw_err aw_recent_init(struct aw_recent *watch, double step_s,
                                        const struct aw_alloc *alloc);
void aw_recent_deinit(struct aw_recent *watch); /* a zeroed one is a no-op */

/* A file that replaces `path`; and what is in it, taken over before the first tick. No such file is
 * no error; one that cannot be read is put aside (aw_envelope_set_aside): nothing is taken over. */
AW_NODISCARD enum aw_err aw_recent_save(struct aw_recent *watch, const char *path,
                                        struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_recent_load(struct aw_recent *watch, const char *path,
                                        struct aw_diag *diag);
/* Room for `slots` workloads; false: no memory, and everything is as it was. */
bool aw__recent_room(struct aw_recent *watch, uint32_t slots);

/* What the twin of workload `index` did in the step that has just ended. */
void aw_recent_twin(struct aw_recent *watch, uint32_t index, const struct aw_recent_twin *twin);
/* A tick is over: reads what the desk's workloads have decided. */
void aw_recent_tick(struct aw_recent *watch, struct aw_desk *desk);

/* What a workload costs by its latest decision, `present` being what is wanted of it, and what the
 * fallback's idea of now would. One basis for both, and that of a step's cost: replicas that no
 * node has room for cost nothing, and where some wait, more would wait too. */
void aw_recent_costs(const struct aw_pilot_config *config, const struct aw_decision *decision,
                     const struct aw_plan *present, double *ret_cost, double *ret_fallback);
/* What is saved, as a share of what the fallback costs; NAN: not known. One definition for every
 * verb, page and metric: since the start against the twin that the fallback runs alone; where there
 * is no twin, the present plan against the one that the fallback proposes. */
double aw_recent_saved(const struct aw_recent_beside *beside, double cost_per_hour,
                       double fallback_cost_per_hour);
/* Times a day that `one`, or each of all seen (NULL), changed its number of replicas; NAN: not
 * known yet. `ret_back`: how often one was removed within AW_STABILISATION_S of being added. With
 * the lock held. */
double aw_recent_changes(const struct aw_recent *watch, const struct aw_recent_one *one,
                         uint64_t *ret_back);
/* Of all workloads together; with the lock held. */
void aw_recent_beside(const struct aw_recent *watch, struct aw_recent_beside *ret);

void aw_recent_lock(struct aw_recent *watch);
void aw_recent_unlock(struct aw_recent *watch);
/* With the lock held. How many points a workload has, and the n-th of them from the oldest. */
uint32_t aw_recent_points(const struct aw_recent *watch, const struct aw_recent_one *one);
const struct aw_recent_point *aw_recent_point(const struct aw_recent *watch,
                                              const struct aw_recent_one *one, uint32_t nth);
uint32_t aw_recent_episodes(const struct aw_recent *watch, const struct aw_recent_one *one);
const struct aw_recent_episode *aw_recent_episode(const struct aw_recent *watch,
                                                  const struct aw_recent_one *one, uint32_t nth);
uint32_t aw_recent_fleets(const struct aw_recent *watch);
const struct aw_recent_fleet *aw_recent_fleet(const struct aw_recent *watch, uint32_t nth);
/* NULL: no workload of this name. */
const struct aw_recent_one *aw_recent_find(const struct aw_recent *watch, const char *name);

#endif
