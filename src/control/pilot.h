/*
 * pilot.h - one workload's mind: what it saw, which controller decides, what was decided and why.
 *
 * A tick: observe (a sample in, the finished step out, for the store), decide (a decision out),
 * applied (whether the cluster took it). Both controllers are asked in every tick; the stage says
 * which of them acts, the other one is a shadow; the guard rails have the last word.
 *
 *   sample -> reading -> score of the last step -> state -> fallback and agent -> watchdog -> guard
 *
 * Call order: config_init or config_of, new; per tick observe, decide, applied; learn whenever
 *             aw_pilot_learn_due says so, at best after the decision was carried out; free.
 *             state_save and state_load between ticks.
 * Memory:     all at new but for the learner, which is there only while there is something to
 *             learn: a workload in SERVING is small (aw_pilot_bytes). observe, decide and applied
 *             never allocate, but for the fallback where it sees more pods than there ever were
 *             (fallback.h); learn does.
 * Threads:    single owner. Deciding is a function of the state, the sample and the time.
 *
 * The policy in force changes between episodes alone. A new one is tried first (canary.h): in the
 * last part of an episode, so that steps of this one may have two ids, then in whole ones.
 */
#ifndef AW_CONTROL_PILOT_H
#define AW_CONTROL_PILOT_H

#include <aware/cluster.h>
#include <aware/store.h>

#include "fallback/fallback.h"
#include "policy/capacity_rule.h"
#include "policy/policy.h"
#include "policy/pretrained.h"
#include "rehearsal/lesson.h"
#include "safety/canary.h"
#include "safety/external_agent.h"
#include "safety/guard.h"
#include "safety/lifecycle.h"
#include "safety/limits.h"
#include "safety/orders.h"
#include "safety/relief.h"
#include "safety/step.h"
#include "safety/watchdog.h"
#include "task/action.h"
#include "task/bounds.h"
#include "task/objective.h"
#include "task/reading.h"
#include "task/state.h"

struct aw_clock;

struct aw_pilot_config {
    char name[AW_STORE_NAME_MAX];
    struct aw_bounds bounds;
    uint32_t controlled; /* AW_PLAN_*: what may be changed at all */

    struct aw_slo slo;
    double slo_budget;  /* share of steps that may miss it */
    uint32_t objective; /* enum aw_objective_kind */
    double slo_weight;
    struct aw_prices prices;

    double step_s, stale_s;
    uint32_t episode_steps;
    uint32_t state;   /* enum aw_state_preset */
    uint32_t mapping; /* enum aw_action_mapping */

    bool learning;  /* false: the fallback alone, for ever */
    bool retrain;   /* false: what serves serves for ever, whatever becomes of it */
    uint32_t agent; /* enum aw_policy_kind */
    double explore_sigma;
    uint32_t explore_hold; /* steps for which one departure lasts */
    double lambda;         /* weight of the SLO to begin with, and in every score */
    double level;          /* of the interval that the step to ONLINE asks */
    uint64_t seed;

    struct aw_fallback_settings fallback;
    struct aw_guard_settings guard;
    struct aw_watchdog_settings watchdog;
    struct aw_lifecycle_settings lifecycle;
    struct aw_lifecycle_thresholds thresholds;
    struct aw_learner_settings learner;
    struct aw_rehearse_settings rehearse;
    struct aw_canary_settings canary;
    struct aw_external_agent_settings external;
    struct aw_relief_settings relief;

    struct aw_amounts node; /* largest node; 0: unknown */
    bool in_place;

    /* What learning begins at: a shared model (borrowed, for as long as any pilot has this config).
     * NULL, or one that does not fit: it begins at nothing. No part of what decides: a policy is in
     * the pilot's state once it is made. */
    const struct aw_pretrained *model;
    /* What others have lived, to begin with (borrowed likewise); NULL: there is none. */
    const struct aw_library *library;
    uint32_t unknown; /* of its applications the one that is not to be known, from 1; 0: none */
    /* Networks of agents that learned together, of which all workloads of a category have one
     * (borrowed likewise); NULL: there are none. */
    const struct aw_peers_model *peers;
    /* A kind of policy of the caller's own, in the place of that of `agent`; NULL: that one. */
    const struct aw_policy_ops *policy;
    const struct aw_teacher_ops *teacher; /* of that kind; NULL: it learns nothing */
};
/* All of it but pointers, in parts (base/conf.h), the first of which are its plain members. */
extern const struct aw_conf_part aw_pilot_fields[];
/* Marks a row: with another value what was learned answers another question (new_after). */
#define AW_PILOT_ASKS UINT32_C(1)
/* Whether a pilot of this config can use a shared model: it learns, and not from an external agent.
 */
bool aw_pilot_wants_model(const struct aw_pilot_config *config);
/* Whether `model` can be used. AW_ERR_CONFIG: what differs. */
AW_NODISCARD enum aw_err aw_pilot_model_fits(const struct aw_pilot_config *config,
                                             const struct aw_pretrained *model,
                                             struct aw_diag *diag);

/* What such a pilot begins at, by what its owner says ("shipped", "none", a path): a library, or a
 * shared model where a network acts. On failure it begins at nothing, and `diag` says why. */
AW_NODISCARD enum aw_err aw_pilot_model_take(struct aw_pilot_config *config,
                                             struct aw_model_shelf *shelf, const char *what,
                                             struct aw_diag *diag);

/* Every table's defaults; bounds, SLO and name are the caller's to fill in. */
void aw_pilot_config_init(struct aw_pilot_config *config);

/* clang-format off */
/* The figures that decisions are made of, as members of struct aw_reading.
 *     id                  member              unit of its value */
#define AW_INPUT_MAP(X)                                                                            \
    X(ARRIVALS_PER_S,     arrivals_per_s,     "requests/s")                                        \
    X(COMPLETIONS_PER_S,  completions_per_s,  "requests/s")                                        \
    X(ERRORS_PER_S,       errors_per_s,       "requests/s")                                        \
    X(LATENCY_US_SLO,     latency_us_slo,     "us")                                                \
    X(IN_FLIGHT,          in_flight,          "requests")                                          \
    X(CPU_CORES_USED,     cpu_cores_used,     "cores")                                             \
    X(THROTTLED_SHARE,    throttled_share,    "share")                                             \
    X(MEMORY_BYTES_USED,  memory_bytes_used,  "bytes")                                             \
    X(MEMORY_BYTES_PEAK,  memory_bytes_peak,  "bytes")                                             \
    X(DISK_BYTES_PER_S,   disk_bytes_per_s,   "bytes/s")                                           \
    X(NET_BYTES_PER_S,    net_bytes_per_s,    "bytes/s")
/* clang-format on */
enum aw_input {
#define X(id, member, unit) AW_INPUT_##id,
    AW_INPUT_MAP(X)
#undef X
        AW_INPUT_COUNT
};

/* What was decided, and everything that led to it. */
struct aw_decision {
    int64_t at_us;
    uint32_t episode, step;
    enum aw_stage stage;
    enum aw_actor actor;
    enum aw_actor in_charge; /* the same, but for orders: which controller decides without one */
    uint64_t policy_id;      /* 0: none yet */
    struct aw_policy_origin origin; /* of that policy */

    float action[AW_ACTION_MAX]; /* of the actor, before the rails */
    float shadow[AW_ACTION_MAX]; /* of the other one */
    bool has_shadow;

    struct aw_orders orders;            /* what people had ordered */
    struct aw_fallback_reason fallback; /* why the fallback wants what it wants */
    struct aw_plan by_fallback;         /* what it would have proposed; `set`: what it speaks of */
    uint32_t relieved;       /* AW_PLAN_*: of it, what was raised because the SLO is missed */
    uint32_t homing;         /* AW_PLAN_*: of it, what goes back to the size before the agent's */
    struct aw_plan by_agent; /* the same of the agent; empty: no agent yet */
    struct aw_guard_result guard; /* what was proposed, recommended and is to be applied */
    enum aw_watchdog_verdict verdict;
    struct aw_watchdog_reason watchdog;
    bool moved;                      /* the stage changed since the decision before */
    struct aw_lifecycle_reason stay; /* why it changed, or why it did not */
    double took_s;                   /* time of the agent's answer; 0: not measured */
    bool applied;                    /* the cluster has taken it; set by aw_pilot_applied */
    struct aw_canary_report canary;  /* a new policy beside the one in force */
    struct aw_external_agent_report external; /* zeroed: not an external agent */

    /* the step that had ended */
    bool answered;               /* the cluster did; else nothing but what was wanted is known */
    float age_s[AW_INPUT_COUNT]; /* of each figure by now; NAN: it was not measured */
    uint32_t state_dim, act_dim;
    float state[AW_STATE_DIM_MAX]; /* aw_state_axes names the elements */
    struct aw_reading reading;
    struct aw_score score;
    double gain;                           /* the objective without the SLO */
    double lambda;                         /* weight of the SLO now */
    struct aw_lifecycle_estimate estimate; /* of the policy, per episode; NAN: none */
};

struct aw_pilot; /* opaque */

/* `task` says how the workload stands now. AW_ERR_CONFIG where settings cannot work together. */
AW_NODISCARD enum aw_err aw_pilot_new(const struct aw_pilot_config *config,
                                      const struct aw_fallback_task *task, int64_t now_us,
                                      const struct aw_alloc *alloc, struct aw_pilot **ret_pilot,
                                      struct aw_diag *diag);
/* A pilot with another config that knows what `old` knows; `old` is as it was, and to be freed. The
 * past of the workload (load, what its requests cost, peaks, restarts, kills) and its policy are
 * kept, and so are cool-downs and budgets of the guard. What no longer applies under the new config
 * is forgotten: scores and stage where objective, SLO or prices changed; the fallback's history
 * where its kind or its window changed; a network of another shape; and the step in flight.
 * AW_ERR_CONFIG: another name, or settings that cannot work together. */
AW_NODISCARD enum aw_err aw_pilot_new_after(const struct aw_pilot *old,
                                            const struct aw_pilot_config *config,
                                            struct aw_pilot **ret_pilot, struct aw_diag *diag);
void aw_pilot_free(struct aw_pilot *pilot); /* NULL is a no-op */

/* Where pilots that tick together keep the pods that they saw, from observe until they have
 * decided: there are thousands of pilots, and few have as many pods as they may. The caller sets
 * `used` to 0 before a tick. */
struct aw_pilot_pods {
    struct aw_pod *pod; /* [max] */
    uint32_t max, used;
};
/* The most that a pilot takes of it. */
uint32_t aw_pilot_pods_max(const struct aw_pilot_config *config);
/* As new; `among` (borrowed) in the place of a block of its own. */
AW_NODISCARD enum aw_err aw_pilot_new_among(const struct aw_pilot_config *config,
                                            const struct aw_fallback_task *task, int64_t now_us,
                                            struct aw_pilot_pods *among,
                                            const struct aw_alloc *alloc,
                                            struct aw_pilot **ret_pilot, struct aw_diag *diag);

/* Answers of its policies are timed by `clock` (borrowed) from now on: what takes longer than the
 * watchdog's deadline is not used. NULL, as a new one has it: they take no time, so that decisions
 * are a function of what was seen alone. */
void aw_pilot_clock(struct aw_pilot *pilot, const struct aw_clock *clock);

/* Takes in a sample; NULL: the cluster did not answer. True: a step is finished, and `ret_row`,
 * valid until the next call, is to be stored before anything is decided. */
bool aw_pilot_observe(struct aw_pilot *pilot, const struct aw_sample *sample, int64_t now_us,
                      struct aw_store_row *ret_row);
/* The workload ran on while no pilot watched it: what was in flight is not known, nothing changes
 * before it has been seen, nor in that decision but by order, and steps go on in an episode behind
 * the last that is kept (NULL: none is), however old the state is that was loaded. */
void aw_pilot_resume(struct aw_pilot *pilot, const struct aw_store_last *last);
/* Of an external agent, between observe and decide: whether it is to be asked, and what.
 * aw_pilot_hear takes its answer; a decision without one counts as one without an agent. */
bool aw_pilot_asks(struct aw_pilot *pilot, int64_t now_us,
                   struct aw_external_agent_request *ret_request);
void aw_pilot_hear(struct aw_pilot *pilot, const struct aw_external_agent_answer *answer);

/* What to do now. The decision stays until the next decide. `orders` NULL: nothing was ordered. */
const struct aw_decision *aw_pilot_decide(struct aw_pilot *pilot, const struct aw_orders *orders,
                                          int64_t now_us);
/* The arbiter between tenants leaves this of the decision: it changes as its last rail says. What
 * is ordered with the same grant is decided the same. */
void aw_pilot_grant(struct aw_pilot *pilot, const struct aw_order_grant *grant);
/* The decision could not be written down. Where the workload misses its SLO, or a person has called
 * an emergency, what grows is left of it (true: to be carried out, and written down later);
 * everything else changes nothing, and says why. */
bool aw_pilot_unrecorded(struct aw_pilot *pilot);
void aw_pilot_applied(struct aw_pilot *pilot, bool taken, int64_t now_us);
/* Forgets what was learned, as a person ordered at `order_us`: stage, policy, record and watchdog
 * begin as on the first day. What the workload has, its rails, the fallback and the count of
 * episodes stay, and what the store has of before is not believed. An order that was carried out
 * already, before a restart perhaps, is a no-op. Between observe and decide, or between ticks.
 * AW_ERR_NOMEM: nothing is forgotten. */
AW_NODISCARD enum aw_err aw_pilot_forget(struct aw_pilot *pilot, int64_t order_us,
                                         struct aw_diag *diag);

/* The moment between observe and decide: everything that a decision is a function of, but orders
 * and time. A pilot with the same config that loads it decides the same. */
size_t aw_pilot_snapshot_bytes_max(const struct aw_pilot *pilot);
/* Returns how many bytes were written. */
size_t aw_pilot_snapshot_save(const struct aw_pilot *pilot, void *bytes);
/* How long the agent took is an input too, known only after the decision: it is written into a
 * saved snapshot then. */
void aw_pilot_snapshot_took(void *bytes, double took_s);
/* AW_ERR_FORMAT: not a snapshot of a pilot with this config; free the pilot then. */
AW_NODISCARD enum aw_err aw_pilot_snapshot_load(struct aw_pilot *pilot, const void *bytes,
                                                size_t size);

/* An episode has ended, and there is something to learn from it. It stays so until learn. */
bool aw_pilot_learn_due(const struct aw_pilot *pilot);
/* Whether it learns from its episodes, which a store has, and not from its record alone. */
bool aw_pilot_learns_episodes(const struct aw_pilot *pilot);
/* A round that was under way is lost: it is due again. */
void aw_pilot_learn_again(struct aw_pilot *pilot);
/* Since it last learned, more steps missed the SLO than the budget has. */
bool aw_pilot_misses(const struct aw_pilot *pilot);
/* Before learn, from the thread that owns the store: makes the learner if needed, and fills it with
 * what the store has of this workload. A capacity rule needs none but where a shared model is to be
 * shown the fallback's episodes, and learn frees that one. */
AW_NODISCARD enum aw_err aw_pilot_recall(struct aw_pilot *pilot, struct aw_store *store,
                                         struct aw_diag *diag);
/* Frees the learner that recall has made, which then fills another one from the store. */
void aw_pilot_put_away(struct aw_pilot *pilot);
/* Learns; takes long. AW_ERR_NODATA is no failure: too few episodes yet. After any failure the
 * policy is as it was. */
AW_NODISCARD enum aw_err aw_pilot_learn(struct aw_pilot *pilot, struct aw_diag *diag);

/* Learning writes it: for the thread that ticks, between ticks. */
const struct aw_learned *aw_pilot_learned(const struct aw_pilot *pilot);

/* The policy in force as the text of a file (pilot_policy.c); the caller frees it. AW_ERR_NODATA:
 * no policy yet. */
AW_NODISCARD enum aw_err aw_pilot_policy_text(const struct aw_pilot *pilot, char **ret_text,
                                              struct aw_diag *diag);
/* Takes a policy as text, between ticks or between observe and decide, not while it learns: the
 * policy is watched, tried, and adopted or rolled back (canary.h), whether found ones are or not.
 * Nothing is predicted of it, so it must do no worse than the policy in force. AW_ERR_FORMAT:
 * damaged or something else. AW_ERR_CONFIG: of another kind or task. AW_ERR_EXISTS: it is in force.
 * AW_ERR_CONFLICT: another one is tried, the fallback acts, or it was rolled back before. After a
 * failure nothing has changed. */
#define AW_PILOT_POLICY_BYTES_MAX (16u << 20)
AW_NODISCARD enum aw_err aw_pilot_propose(struct aw_pilot *pilot, const char *text, size_t size,
                                          struct aw_diag *diag);
/* The policy on trial as text. AW_ERR_NODATA: no trial. */
AW_NODISCARD enum aw_err aw_pilot_trial_text(const struct aw_pilot *pilot, char **ret_text,
                                             struct aw_diag *diag);

/* Reads a policy from text for this workload, without a trial. */
struct aw_pilot_policy {
    uint64_t id;
    char checksum[24]; /* 16 hexadecimal digits */
    char *text;        /* the same in ASCII without white space; the caller frees it */
};
/* Asks nothing of the pilot that changes: any thread may, while it learns too. Failures are those
 * of propose that the text is to blame for. */
AW_NODISCARD enum aw_err aw_pilot_policy_read(const struct aw_pilot *pilot, const char *text,
                                              size_t size, struct aw_pilot_policy *ret,
                                              struct aw_diag *diag);
/* The policy that is watched or tried is taken back as a person wants it, and not tried again soon;
 * what it did to the workload goes back as after any rollback. When propose may be called.
 * AW_ERR_CONFLICT: none is. */
AW_NODISCARD enum aw_err aw_pilot_rollback(struct aw_pilot *pilot, struct aw_diag *diag);
/* Number of the order about policies that was carried out last; 0: none. It is part of the state:
 * after a restart it tells which of the orders are done. */
uint64_t aw_pilot_policy_order(const struct aw_pilot *pilot);
void aw_pilot_policy_ordered(struct aw_pilot *pilot, uint64_t order);

/* What its rails and its watchdog still allow. */
void aw_pilot_limits(const struct aw_pilot *pilot, int64_t now_us, struct aw_limits *ret);
const struct aw_pilot_config *aw_pilot_config(const struct aw_pilot *pilot);
const struct aw_decision *aw_pilot_decision(const struct aw_pilot *pilot); /* the last */
const struct aw_sample *aw_pilot_sample(const struct aw_pilot *pilot);     /* that it was made on */
enum aw_stage aw_pilot_stage(const struct aw_pilot *pilot);
/* What the workload takes; `learning` adds the learner, if there is one. */
size_t aw_pilot_bytes(const struct aw_pilot *pilot, bool learning);

/* Everything that decides the future but the store, in an envelope (base/envelope.h). */
uint64_t aw_pilot_layout(uint64_t hash); /* of these bytes, see base/envelope.h */
size_t aw_pilot_state_bytes(const struct aw_pilot *pilot);
void aw_pilot_state_save(const struct aw_pilot *pilot, void *bytes);
/* AW_ERR_FORMAT: not the state of a pilot with this config; free the pilot then. */
AW_NODISCARD enum aw_err aw_pilot_state_load(struct aw_pilot *pilot, const void *bytes);
/* Of that, what the fallback alone remembers. */
size_t aw_pilot_fallback_bytes(const struct aw_pilot *pilot);
void aw_pilot_fallback_save(const struct aw_pilot *pilot, void *bytes);
AW_NODISCARD enum aw_err aw_pilot_fallback_load(struct aw_pilot *pilot, const void *bytes);

#endif
