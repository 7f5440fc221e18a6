/*
 * chaos.h - bad days by the thousand: the control loop and everything around it, in virtual time,
 * from one seed, with faults at every seam and promises that are looked at after every tick.
 *
 * A world is a simulated cluster that lies, a store that refuses, a disk that breaks, a clock that
 * jumps, people who give orders, harmful policies, and in the middle of it, as shipped: loop,
 * pilots, guard, watchdog, desk, audit log. Which faults a world has and how often is drawn from
 * its seed, so worlds differ in kind, not in detail alone (swarm testing: Groce et al., ISSTA
 * 2012).
 *
 * Invariants are judged from outside: by what the cluster was shown and told, what the disk holds,
 * what was acknowledged. Nothing here asks the guard what it thinks is right; the rules are written
 * down a second time, plainly, over the whole history instead of over sliding windows.
 *
 * Call order: aw_chaos_run per seed.
 * Memory:     all of a world is gone when the run returns.
 * Threads:    worlds are independent: any number of runs at once.
 *
 * The same config gives the same bytes (digest): a seed that fails is a bug report.
 */
#ifndef AW_CHAOS_CHAOS_H
#define AW_CHAOS_CHAOS_H

#include <aware/cluster.h>
#include <aware/store.h>

#include "safety/external_agent.h"

#define AW_CHAOS_WORKLOADS_MAX 6u
#define AW_CHAOS_STEPS_MAX     2000u

/* clang-format off */
/*     id                name                 sentence: what goes wrong */
#define AW_CHAOS_FAULT_MAP(X)                                                                      \
    X(METRICS_LOST,     "metrics-lost",     "the cluster says nothing of a workload")              \
    X(FIGURES_LOST,     "figures-lost",     "single figures are missing")                          \
    X(METRICS_DELAYED,  "metrics-delayed",  "a reading of some minutes ago comes as the latest")   \
    X(METRICS_TWICE,    "metrics-twice",    "the last reading comes again")                        \
    X(METRICS_STALE,    "metrics-stale",    "figures stop, and their times with them")             \
    X(NOT_FINITE,       "not-finite",       "figures are NaN or infinite")                         \
    X(NEGATIVE,         "negative",         "figures are below zero")                              \
    X(IMPOSSIBLE,       "impossible",       "figures are far beyond what can be")                  \
    X(PODS_MISSING,     "pods-missing",     "pods have no figures, or are not listed")             \
    X(OBSERVE_ERROR,    "observe-error",    "observing fails, in every way that there is")         \
    X(SLOW_API,         "slow-api",         "every call of the cluster takes seconds")             \
    X(SLOW_AGENT,       "slow-agent",       "a policy takes seconds to answer")                    \
    X(APPLY_ERROR,      "apply-error",      "the cluster refuses a plan")                          \
    X(APPLY_LATE,       "apply-late",                                                              \
      "a plan is carried out, but the answer is a time-out")                                       \
    X(APPLY_PARTIAL,    "apply-partial",    "a part of a plan is carried out")                     \
    X(SOMEBODY,         "someone",         "someone else scales the workload")                   \
    X(PAUSED,           "paused",           "someone has scaled the workload to zero")            \
    X(CLOCK_FORWARD,    "clock-forward",    "the clock jumps ahead")                               \
    X(CLOCK_BACK,       "clock-back",       "the clock jumps back")                                \
    X(SKEW,             "skew",             "figures come from a clock that is off")               \
    X(NODE_LOSS,        "node-loss",        "a node goes down")                                    \
    X(OOM_STORM,        "oom-storm",        "memory leaks until replicas are killed")              \
    X(CRASH_LOOP,       "crash-loop",       "containers restart again and again")                  \
    X(ROLLOUT,          "rollout",          "someone rolls a new version out")                    \
    X(LOAD_SPIKE,       "load-spike",       "many times the load")                                 \
    X(DISTURBANCE,      "disturbance",      "requests cost more, neighbours are noisy")            \
    X(STORE_FULL,       "store-full",       "the store takes no more rows")                        \
    X(STORE_BROKEN,     "store-broken",     "the store is read-only, gone or damaged")             \
    X(STORE_SLOW,       "store-slow",       "the store takes seconds")                             \
    X(DISK_FULL,        "disk-full",        "no space for the audit log")                          \
    X(DISK_READ_ONLY,   "disk-read-only",   "the disk of the audit log is read-only")              \
    X(DISK_ERROR,       "disk-error",       "calls of that disk fail")                             \
    X(POWER_CUT,        "power-cut",                                                               \
      "the power goes, in the middle of a write or between")                                       \
    X(KILL,             "kill",             "kill -9, and started again from the last save")       \
    X(STATE_DAMAGED,    "state-damaged",    "the save is cut, flipped, or of another run")         \
    X(NO_MEMORY,        "no-memory",        "an allocation fails while learning or starting")      \
    X(ORDERS,           "orders",           "people freeze, undo, approve, declare emergencies")   \
    X(NONSENSE,         "nonsense",         "people order what cannot be meant")                   \
    X(ADVERSARY,        "adversary",        "the policy wants to hurt, or is not a number")        \
    X(MODEL,            "model",            "people hand in policies, also damaged ones")

/*     id                name                     sentence: what always holds */
#define AW_INVARIANT_MAP(X)                                                                        \
    X(BOUNDS,           "bounds_hold",                                                             \
      "no amount outside the profile's bounds is asked for")                                       \
    X(NODE,             "never_above_largest_node", "no replica is larger than the largest node")  \
    X(STEP,             "step_limit_holds",                                                        \
      "no decision changes an amount by more than its step")                                       \
    X(CHANGE_BUDGET,    "change_budget_holds_over_the_window",                                     \
      "no amount moves further within the window than its budget")                                 \
    X(RESTART_BUDGET,   "restart_budget_holds",                                                    \
      "sizes change no more often within the window than allowed")                                 \
    X(COOL_DOWN,        "cool_down_holds",  "nothing changes again before its cool-down is over")  \
    X(WORKING_SET,      "never_below_working_set",                                                 \
      "nothing shrinks below recent peaks of use plus the margin")                                 \
    X(OOM_FLOOR,        "never_below_what_was_killed",                                             \
      "memory does not shrink below what was killed for want of it")                               \
    X(NO_DATA,          "missing_or_stale_never_shrinks",                                          \
      "what has no fresh figures does not shrink")                                                 \
    X(RESTART,          "restart_decides_nothing",                                                 \
      "the first tick after a restart changes nothing but by order")                               \
    X(NOT_FINITE,       "not_finite_goes_to_fallback",                                             \
      "a policy that is not a number does not act")                                                \
    X(STRANGE,          "strange_or_late_goes_to_fallback",                                        \
      "on strange, late or missing figures the fallback acts")                                     \
    X(CRASH_LOOP,       "crash_loop_freezes",                                                      \
      "in a crash loop nothing changes but what may end it")                                       \
    X(ROLLOUT,          "rollout_freezes",                                                         \
      "while a rollout runs no size changes and nothing shrinks")                                  \
    X(FROZEN,           "frozen_means_frozen",                                                     \
      "what is frozen does not change, whatever froze it")                                         \
    X(FREEZE,           "freeze_is_always_taken",                                                  \
      "a freeze that can be meant is taken, as long as the disk takes it")                         \
    X(PAUSED,           "paused_stays_paused", "what is scaled to zero is left alone")             \
    X(RECOMMEND_ONLY,   "recommend_only_changes_nothing",                                          \
      "in mode Off nothing changes but by order")                                                  \
    X(APPROVAL,         "approval_needed",                                                         \
      "what waits for approval changes only by an order that was acknowledged")                    \
    X(RECORDED,         "every_change_is_recorded_before_it_is_done",                              \
      "the disk holds a decision before the cluster is told")                                      \
    X(UNRECORDED,       "unrecorded_is_not_done",                                                  \
      "what could not be written down is not carried out, but growth on a missed SLO")             \
    X(CLIP_NAMED,       "every_clip_is_named",                                                     \
      "where a plan differs from the proposal a rail has its name on it")                          \
    X(AUDIT,            "audit_verifies",   "the audit log has no edit, gap or reordering")        \
    X(ORDERS_SURVIVE,   "acknowledged_orders_survive",                                             \
      "an order that was acknowledged stands, whatever dies")                                      \
    X(UNDO,             "undo_restores",                                                           \
      "an undone change goes back to what it was, or a rail says why not")                         \
    X(WATCHDOG,         "slo_budget_watchdog_promise",                                             \
      "the agent misses the SLO no more often than promised")                                      \
    X(NEIGHBOURS,       "one_bad_workload_does_not_touch_others",                                  \
      "each workload is seen and decided on in every tick")                                        \
    X(MEMORY,           "memory_is_bounded",                                                       \
      "memory in use has a limit, and none is left behind")                                        \
    X(TICK,             "tick_never_fails", "no tick ends with an error")                          \
    X(STATE,            "state_is_whole_after_kill",                                               \
      "a save is taken up whole, or refused and done without")                                     \
    X(EXTERNAL,         "only_a_good_answer_in_time_is_followed",                                  \
      "what another process answers is carried out in time and in form, or not at all")            \
    X(SAME,             "same_seed_same_run", "the same seed gives the same run, byte for byte")
/* clang-format on */
enum aw_chaos_fault {
#define X(id, name, sentence) AW_CHAOS_##id,
    AW_CHAOS_FAULT_MAP(X)
#undef X
        AW_CHAOS_FAULT_COUNT
};
enum aw_invariant {
#define X(id, name, sentence) AW_INVARIANT_##id,
    AW_INVARIANT_MAP(X)
#undef X
        AW_INVARIANT_COUNT
};
#define AW_CHAOS_BIT(fault) (UINT64_C(1) << (fault))
#define AW_CHAOS_ALL        (AW_CHAOS_BIT(AW_CHAOS_FAULT_COUNT) - 1)

const char *aw_chaos_fault_name(uint32_t fault);
const char *aw_chaos_fault_sentence(uint32_t fault);
const char *aw_invariant_name(uint32_t invariant);
const char *aw_invariant_sentence(uint32_t invariant);
/* "all", "none", or names with commas between; "-name" leaves one out: "all,-kill". */
AW_NODISCARD enum aw_err aw_chaos_faults_parse(const char *text, uint64_t *ret_faults,
                                               struct aw_diag *diag);

struct aw_chaos_config {
    uint64_t seed;
    uint32_t steps;     /* ticks; 0: drawn from the seed */
    uint32_t workloads; /* 0: drawn from the seed */
    uint64_t faults;    /* AW_CHAOS_BIT or-ed: those that may happen */
    bool again;         /* live it twice, and compare */
    bool external;      /* agents are other processes, and as bad as they come */

    /* Called with every line of the story; may be NULL. */
    void (*trace)(void *ctx, const char *line);
    void *ctx;
};

struct aw_chaos_failure {
    uint32_t invariant; /* enum aw_invariant */
    uint32_t tick;
    char workload[AW_STORE_NAME_MAX]; /* "": not about one */
    char text[512];                   /* what was seen */
    char account[2048];               /* of the decision; "": none */
};

struct aw_chaos_result {
    bool failed;
    struct aw_chaos_failure failure; /* the first; a run ends with it */
    uint64_t digest;                 /* of everything that was decided and told */
    uint32_t ticks, workloads;
    uint64_t decisions, changes, orders, restarts, agent_steps, learned;
    uint64_t fault_count[AW_CHAOS_FAULT_COUNT]; /* times each struck */
    uint64_t check_count[AW_INVARIANT_COUNT];   /* times each had something to say */
    uint64_t answers
        [AW_EXTERNAL_AGENT_FAULT_COUNT]; /* of external agents, by what was wrong with them */
    uint64_t asides;                     /* times that one was set aside */
};

/* An error is one of the world itself (no memory); a promise that was broken is a result. */
AW_NODISCARD enum aw_err aw_chaos_run(const struct aw_chaos_config *config,
                                      struct aw_chaos_result *ret_result, struct aw_diag *diag);

#endif
