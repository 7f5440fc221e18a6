/*
 * evaluate.h - what AWARE is worth, measured: bootstrapping, converged, disturbed.
 *
 * An application has a day of load. Its first half is there to learn and to tune on, its second to
 * report. A learner that needs more than half a day lives through the first half several times.
 * Rule-based controllers are tuned on the first half as well as their users could, and run through
 * the day without a reset; the oracle of cost is the ceiling. Everything is scored by what really
 * happened (aw_sim_truth), never by the metrics that a controller saw.
 *
 *   bootstrap     from the first second to SERVING, beside the fallback alone on the same load, and
 *                 beside an agent that learns without a fallback (AWARE section 5.4)
 *   converged     the reported half, beside every tuned baseline and the ceiling
 *   disturbances  after a disturbance that does not end: with retraining, without it, and one that
 *                 has known nothing else (AWARE section 5.3)
 *   estimates     what was believed of a policy before it acted, beside what it did then
 *   day           one pass through the day with the fallback that users have, untuned: which
 *                 controller acts at minute 15, what is missed and what it costs until noon and
 *                 after it
 *
 * Call order: config_init, changes; one of the tables; its summary.
 * Memory:     results go into the caller's arrays; the rest is freed again.
 * Threads:    (application, seed) pairs are spread over a pool; the bytes of the results do not
 *             depend on its size. `alloc` must be safe in all threads.
 *
 * The trap: what was chosen on the reported half is no result. The best baseline of an application
 * is chosen by the half that it was tuned on.
 */
#ifndef AW_STUDY_EVALUATE_H
#define AW_STUDY_EVALUATE_H

#include "simulation/job.h"
#include "simulation/simulate.h"

#define AW_EVALUATE_SEEDS_MAX   16u
#define AW_EVALUATE_APPS_MAX    1000u
#define AW_EVALUATE_HALVES_MAX  64u /* of a day, that one life has in all */
#define AW_EVALUATE_QUARTERS    4u
#define AW_EVALUATE_BOOTSTRAP_N 2000u /* resamples of an interval */

/* One application under the load of its day. */
struct aw_evaluate_app {
    uint32_t index; /* of its pool; also its stream of chance */
    struct aw_app app;
    struct aw_load day; /* the table deinits nothing; see aw_evaluate_apps_deinit */
};
void aw_evaluate_apps_deinit(struct aw_evaluate_app *apps, uint32_t count);

/* Where finished pieces of work are kept, so that they need not be done again: plain bytes, by the
 * turn they had. Called from several threads at once. */
struct aw_evaluate_shelf {
    bool (*take)(void *ctx, uint32_t turn, void *piece, size_t size); /* false: not there */
    enum aw_err (*keep)(void *ctx, uint32_t turn, const void *piece, size_t size,
                        struct aw_diag *diag);
    void *ctx;
};

struct aw_evaluate_config {
    struct aw_simulate_config simulate; /* settings, cluster, first seed, tuning, threads */
    struct aw_pilot_config pilot;       /* bounds, SLO, prices, fallback and seed are filled in */
    uint32_t seeds;                     /* from simulate.seed on */
    uint32_t learn_halves;              /* how often the first half is lived through */
    uint32_t after_halves;              /* disturbances: second halves after it began */
    uint32_t apps_each;                 /* disturbances: applications of one scenario, at most */
    double cores;                       /* disturbances: that the heavier world needs on average */
    bool ceiling;                       /* converged: run the oracle too */
    const char *fallback;               /* day: untuned; of aw_fallback_names */
    bool leave_out;                     /* an application is not to be found in the library */
    bool foreign;                       /* day: the load is of a kind that nothing was chosen on */
    const struct aw_evaluate_shelf
        *shelf; /* disturbances, bootstrapping, a day's baselines; may be NULL */
};
/* Defaults of every table; 3 seeds, 4 halves to learn, 150 evaluations to tune a baseline. */
void aw_evaluate_config_init(struct aw_evaluate_config *config);
/* The paper's own way: its reward as the objective, its state, absolute actions, a network. */
void aw_evaluate_config_paper(struct aw_evaluate_config *config);

/* Called as pieces of work finish, never from two threads at once. False stops the table:
 * AW_ERR_INTERRUPTED. */
typedef bool aw_evaluate_progress(void *ctx, uint32_t done, uint32_t total);

/* Means of totals, in the units of tables. All NAN where there are no steps. */
struct aw_evaluate_means {
    double cost_per_hour;
    double violation_share;
    double reward; /* the paper's, per episode of 100 steps */
    double cpu_utilization, memory_utilization;
};
struct aw_evaluate_means aw_evaluate_means(const struct aw_totals *totals, double step_s);

/* Cost per hour, times what was missed over the budget where that is more than one: who misses
 * twice what is allowed might as well have paid twice. */
double aw_evaluate_priced(const struct aw_evaluate_means *means, double budget);

/* A figure that was promised, and what it is. */
struct aw_evaluate_goal {
    char name[96];
    double value, goal;
    bool lower_is_better;
};
#define AW_EVALUATE_GOALS_MAX 16u
bool aw_evaluate_met(const struct aw_evaluate_goal *goal);

/* --- converged --------------------------------------------------------------------------------
 */

/* clang-format off */
/*     id            name            */
#define AW_EVALUATE_WHO_MAP(X)         \
    X(AWARE,        "aware")           \
    X(HPA,          "hpa")             \
    X(HPA_VPA,      "hpa+vpa")         \
    X(HPA_VPA_MEM,  "hpa+vpa-mem")     \
    X(CONSTANT,     "constant")        \
    X(ORACLE,       "oracle-cost")
/* clang-format on */
enum aw_evaluate_who {
#define X(id, name) AW_EVALUATE_##id,
    AW_EVALUATE_WHO_MAP(X)
#undef X
        AW_EVALUATE_WHO_COUNT
};
extern const char *const aw_evaluate_who_names[]; /* ends with NULL */

/* One application, all seeds together. */
struct aw_evaluate_converged {
    uint32_t index;
    char app[AW_APP_NAME_MAX];
    struct aw_totals learned[AW_EVALUATE_WHO_COUNT]; /* first half; of tuned baselines only */
    struct aw_totals quarter[AW_EVALUATE_WHO_COUNT][AW_EVALUATE_QUARTERS]; /* of the second */
    struct aw_totals reported[AW_EVALUATE_WHO_COUNT];                      /* their sum */
    uint32_t best;              /* enum aw_evaluate_who: the best tuned baseline, by `learned` */
    uint32_t hindsight;         /* and by `reported`, which no tuner could have known */
    uint32_t served;            /* seeds in which the second half began in SERVING */
    uint32_t reached;           /* seeds in which SERVING was ever reached */
    double serving_episode;     /* mean over those that did; NAN: none */
    bool cheaper, no_worse_slo; /* than the best tuned baseline */
};
/* `ret` has room for `count`. */
AW_NODISCARD enum aw_err aw_evaluate_converged(const struct aw_evaluate_config *config,
                                               const struct aw_evaluate_app *apps, uint32_t count,
                                               aw_evaluate_progress *progress, void *ctx,
                                               const struct aw_alloc *alloc,
                                               struct aw_evaluate_converged *ret,
                                               struct aw_diag *diag);

struct aw_evaluate_converged_sum {
    struct aw_totals total[AW_EVALUATE_WHO_COUNT];
    struct aw_totals quarter[AW_EVALUATE_WHO_COUNT][AW_EVALUATE_QUARTERS];
    struct aw_totals best, best_quarter[AW_EVALUATE_QUARTERS]; /* of each application's best */
    uint32_t within[AW_EVALUATE_WHO_COUNT], best_within; /* applications that kept the budget */
    uint32_t chosen[AW_EVALUATE_WHO_COUNT];              /* how often each was the best */
    double cost_ratio[AW_EVALUATE_WHO_COUNT];            /* to the best, geometric mean */
    struct aw_interval ratio_interval;                   /* of AWARE's; 95 % over applications */
    double win_share;                                    /* cheaper at no more violations */
    double hindsight_ratio,
        hindsight_share; /* of cost and of wins, against the best in hindsight */
    struct aw_interval hindsight_interval;
    double gap_closed; /* of the log-cost between best and ceiling; NAN: no ceiling */
    double served_share, reached_share;
    uint32_t goal_count;
    struct aw_evaluate_goal goal[AW_EVALUATE_GOALS_MAX];
};
AW_NODISCARD enum aw_err aw_evaluate_converged_sum(const struct aw_evaluate_config *config,
                                                   const struct aw_evaluate_converged *rows,
                                                   uint32_t count, const struct aw_alloc *alloc,
                                                   struct aw_evaluate_converged_sum *ret,
                                                   struct aw_diag *diag);

/* --- bootstrap --------------------------------------------------------------------------------
 */

/* Fallbacks that are bootstrapped from, tuned on the first half. */
enum { AW_EVALUATE_FALLBACKS = 2 };
extern const char *const aw_evaluate_fallback_names[]; /* "hpa+vpa" (the paper's), "hpa+vpa-mem" */

/* Learners of the first halves: with bootstrapping, and without it or any watchdog. */
enum aw_evaluate_start { AW_EVALUATE_WITH, AW_EVALUATE_WITHOUT, AW_EVALUATE_STARTS };

/* One application, all seeds together. Spans are up to SERVING of the bootstrapped one, or all of
 * the learning time where it never got there. */
struct aw_evaluate_bootstrap {
    uint32_t index;
    char app[AW_APP_NAME_MAX];
    struct {
        struct aw_totals before[AW_EVALUATE_STARTS]; /* up to SERVING */
        struct aw_totals twin;                       /* the fallback alone, as long */
        struct aw_totals quarter[AW_EVALUATE_STARTS][AW_EVALUATE_QUARTERS]; /* learning time */
        struct aw_totals twin_quarter[AW_EVALUATE_QUARTERS];
        uint32_t reached;       /* seeds */
        double serving_episode; /* mean over those that did; NAN: none */
    } by[AW_EVALUATE_FALLBACKS];
};
AW_NODISCARD enum aw_err aw_evaluate_bootstrap(const struct aw_evaluate_config *config,
                                               const struct aw_evaluate_app *apps, uint32_t count,
                                               aw_evaluate_progress *progress, void *ctx,
                                               const struct aw_alloc *alloc,
                                               struct aw_evaluate_bootstrap *ret,
                                               struct aw_diag *diag);

struct aw_evaluate_bootstrap_sum {
    struct {
        struct aw_totals before[AW_EVALUATE_STARTS], twin;
        struct aw_totals quarter[AW_EVALUATE_STARTS][AW_EVALUATE_QUARTERS];
        struct aw_totals twin_quarter[AW_EVALUATE_QUARTERS];
        double violation_ratio[AW_EVALUATE_STARTS]; /* to the twin's */
        double without_ratio; /* violations without bootstrapping over those with it */
        double reached_share;
        double serving_episode; /* mean; NAN: none */
    } by[AW_EVALUATE_FALLBACKS];
    uint32_t goal_count;
    struct aw_evaluate_goal goal[AW_EVALUATE_GOALS_MAX];
};
void aw_evaluate_bootstrap_sum(const struct aw_evaluate_config *config,
                               const struct aw_evaluate_bootstrap *rows, uint32_t count,
                               struct aw_evaluate_bootstrap_sum *ret);

/* --- disturbances -----------------------------------------------------------------------------
 */

/* The disturbances of AWARE section 2.3, by name; ends with NULL. */
extern const char *const aw_evaluate_scenarios[];
#define AW_EVALUATE_SCENARIOS_MAX 8u

/* Whether the scenario changes what a request of the application costs, or how many there are. */
bool aw_evaluate_affected(const struct aw_app *app, const struct aw_effect *effect);

enum aw_evaluate_kind {
    AW_EVALUATE_RETRAINED, /* learns again */
    AW_EVALUATE_FROZEN,    /* learns nothing once it has served */
    AW_EVALUATE_NATIVE,    /* has lived in the disturbed world from its beginning */
    AW_EVALUATE_FALLBACK,  /* the fallback alone */
    AW_EVALUATE_KINDS
};
extern const char *const aw_evaluate_kind_names[];

/* One application under one scenario, all seeds together. */
struct aw_evaluate_disturbed {
    uint32_t scenario; /* of aw_evaluate_scenarios */
    uint32_t index;
    char app[AW_APP_NAME_MAX];
    struct aw_totals after[AW_EVALUATE_KINDS]; /* from the disturbance on */
    struct aw_totals last[AW_EVALUATE_KINDS];  /* the last second half */
    uint32_t served;                           /* seeds that were SERVING when it came */
    double moves;                              /* changes of stage after it, mean over seeds */
};
/* How many rows there are to be: at most apps_each for every scenario. */
uint32_t aw_evaluate_disturbed_count(const struct aw_evaluate_config *config,
                                     const struct aw_evaluate_app *apps, uint32_t count);
/* `ret` has room for so many. */
AW_NODISCARD enum aw_err aw_evaluate_disturbed(const struct aw_evaluate_config *config,
                                               const struct aw_evaluate_app *apps, uint32_t count,
                                               aw_evaluate_progress *progress, void *ctx,
                                               const struct aw_alloc *alloc,
                                               struct aw_evaluate_disturbed *ret,
                                               struct aw_diag *diag);

struct aw_evaluate_disturbed_sum {
    struct {
        uint32_t apps;
        struct aw_totals after[AW_EVALUATE_KINDS], last[AW_EVALUATE_KINDS];
        double drop[AW_EVALUATE_KINDS]; /* of reward below NATIVE in the last half, relative */
    } by[AW_EVALUATE_SCENARIOS_MAX];
    double drop[AW_EVALUATE_KINDS]; /* mean over scenarios */
    double drop_after[AW_EVALUATE_KINDS];
    struct aw_interval drop_interval; /* of RETRAINED's; 95 % over rows */
    uint32_t goal_count;
    struct aw_evaluate_goal goal[AW_EVALUATE_GOALS_MAX];
};
AW_NODISCARD enum aw_err aw_evaluate_disturbed_sum(const struct aw_evaluate_config *config,
                                                   const struct aw_evaluate_disturbed *rows,
                                                   uint32_t count, const struct aw_alloc *alloc,
                                                   struct aw_evaluate_disturbed_sum *ret,
                                                   struct aw_diag *diag);

/* --- estimates --------------------------------------------------------------------------------
 */

#define AW_EVALUATE_MOMENTS_MAX 16u /* searches of one life that are looked at */

/* One search of one life: by how much the policy was said to be better than the fallback, per
 * episode, and by how much it was. */
struct aw_evaluate_estimate {
    uint32_t index;
    char app[AW_APP_NAME_MAX];
    uint32_t fallback; /* of aw_evaluate_fallback_names */
    uint64_t seed;
    uint32_t episode; /* when */
    double mean, low, high;
    double truth;          /* over the lifecycle's window of episodes that came then */
    double fallback_score; /* of an episode, over the same */
};
uint32_t aw_evaluate_estimates_max(const struct aw_evaluate_config *config, uint32_t count);
/* `ret` has room for so many. AW_ERR_CONFIG: of a network. AW_ERR_UNSUPPORTED: a world that cannot
 * be copied. */
AW_NODISCARD enum aw_err aw_evaluate_estimates(const struct aw_evaluate_config *config,
                                               const struct aw_evaluate_app *apps, uint32_t count,
                                               aw_evaluate_progress *progress, void *ctx,
                                               const struct aw_alloc *alloc,
                                               struct aw_evaluate_estimate *ret,
                                               uint32_t *ret_count, struct aw_diag *diag);

/* Cases that are seen together. */
/* clang-format off */
/*     id        name                        */
#define AW_EVALUATE_GROUP_MAP(X)               \
    X(ALL,      "all")                         \
    X(HPA_VPA,  "from hpa+vpa")                \
    X(HPA_MEM,  "from hpa+vpa-mem")            \
    X(EARLY,    "before the 10th episode")     \
    X(LATE,     "from the 10th episode on")    \
    X(PASSED,   "whose lower end lets it act")
/* clang-format on */
enum aw_evaluate_group {
#define X(id, name) AW_EVALUATE_GROUP_##id,
    AW_EVALUATE_GROUP_MAP(X)
#undef X
        AW_EVALUATE_GROUPS
};
extern const char *const aw_evaluate_group_names[];

struct aw_evaluate_estimates_sum {
    struct {
        uint32_t cases;
        uint32_t better;                /* of them: the policy was better in truth */
        double within;                  /* share of truths within their intervals */
        double above;                   /* and above the lower end */
        double width, error;            /* half of an interval, and |truth - mean|; medians, of the
                                           fallback's score */
    } by[AW_EVALUATE_GROUPS];           /* NAN where there is no case */
    struct aw_interval within_interval; /* of all; 95 % over applications */
    /* Times the distance from mean to either end that would have left just 10 % of the truths
     * beyond it, by the rule of split conformal prediction. */
    double factor_low, factor_high;
    uint32_t goal_count;
    struct aw_evaluate_goal goal[AW_EVALUATE_GOALS_MAX];
};
/* `count` at least 1. */
AW_NODISCARD enum aw_err aw_evaluate_estimates_sum(const struct aw_evaluate_estimate *rows,
                                                   uint32_t count, const struct aw_alloc *alloc,
                                                   struct aw_evaluate_estimates_sum *ret,
                                                   struct aw_diag *diag);

/* --- day --------------------------------------------------------------------------------------
 */

#define AW_EVALUATE_ACTING_S 900   /* by then a learned policy acts */
#define AW_EVALUATE_WORST_S  21600 /* length of the window whose worst share is reported */

/* Parts of a day. They overlap. */
/* clang-format off */
/*     id      key         text                                 */
#define AW_EVALUATE_SPAN_MAP(X)                                   \
    X(HOUR1,  "hour1",    "first hour")                           \
    X(REST1,  "2_12h",    "second hour to noon")                  \
    X(DAY1,   "day1",     "minute 15 to noon")                    \
    X(DAY2,   "day2",     "noon to midnight")                     \
    X(WHOLE,  "whole",    "whole day")

/* Why a step missed the SLO: the first of these that is true. */
/*     id         key                text                                              */
#define AW_EVALUATE_MISS_MAP(X)                                                          \
    X(BOUND,     "at_bound",        "at the bound: no more replicas are allowed")        \
    X(STARTING,  "starting",        "starting: replicas that are not ready yet")         \
    X(JUMP,      "load_jump",       "load jump: 30 % more than in the step before")      \
    X(FALLBACK,  "fallback_acting", "fallback acting, none of the above")                \
    X(STEADY,    "steady",          "steady: the policy acts, none of the above")

/* Baselines, each tuned on the first half. */
/*     id            name            */
#define AW_EVALUATE_RULE_MAP(X)        \
    X(HPA,          "hpa")             \
    X(HPA_VPA_MEM,  "hpa+vpa-mem")     \
    X(CONSTANT,     "constant")        \
    X(AIMD,         "aimd")
/* clang-format on */
#define X(id, ...) AW_EVALUATE_SPAN_##id,
enum aw_evaluate_span { AW_EVALUATE_SPAN_MAP(X) AW_EVALUATE_SPANS };
#undef X
#define X(id, ...) AW_EVALUATE_MISS_##id,
enum aw_evaluate_miss { AW_EVALUATE_MISS_MAP(X) AW_EVALUATE_MISSES };
#undef X
#define X(id, ...) AW_EVALUATE_RULE_##id,
enum aw_evaluate_rule { AW_EVALUATE_RULE_MAP(X) AW_EVALUATE_RULES };
#undef X
extern const char *const aw_evaluate_span_keys[], *const aw_evaluate_span_texts[];
extern const char *const aw_evaluate_miss_keys[], *const aw_evaluate_miss_texts[];
extern const char *const aw_evaluate_rule_names[];

/* A step that missed the SLO. */
struct aw_evaluate_moment {
    uint32_t replicas_wanted, replicas_ready, replicas_max; /* at its beginning */
    double arrivals, arrivals_before;                       /* in it, and in the one before */
    bool by_agent;
};
enum aw_evaluate_miss aw_evaluate_miss_of(const struct aw_evaluate_moment *moment);

/* The highest share of `window` steps in a row, of `count`; of fewer where there are not as many.
 * NAN: no steps. */
double aw_evaluate_worst(const bool *missed, uint32_t count, uint32_t window);

/* Whether `aware` is better. Strictly: cheaper at no more violations than max(budget, the other's).
 * Budget first: only one of them keeps 1.05 times the budget, or both do and it is cheaper; where
 * neither does, it wins by being cheaper at no more violations. */
bool aw_evaluate_won_strict(const struct aw_evaluate_means *aware,
                            const struct aw_evaluate_means *other, double budget);
bool aw_evaluate_won_budget_first(const struct aw_evaluate_means *aware,
                                  const struct aw_evaluate_means *other, double budget);

/* One application, all seeds together. */
struct aw_evaluate_day {
    uint32_t index;
    char app[AW_APP_NAME_MAX];
    struct aw_totals life[AW_EVALUATE_SPANS];
    struct aw_totals rule[AW_EVALUATE_RULES][AW_EVALUATE_SPANS];
    struct aw_totals learned[AW_EVALUATE_RULES]; /* first half, with the chance of tuning */
    uint32_t best;                               /* enum aw_evaluate_rule, by `learned` */
    uint64_t missed[2][AW_EVALUATE_MISSES];      /* in the first hour, and after it */
    uint32_t acting;                             /* seeds in which the policy acts at minute 15 */
    double acting_minute;        /* when it first did, mean over those that did; NAN: none */
    double worst_six_hours;      /* share missed of the worst after the first hour, of any seed */
    double cost_day1, cost_day2; /* over the best baseline's */
    double priced_day1, priced_day2;                  /* the same of aw_evaluate_priced */
    bool within_budget, won_budget_first, won_strict; /* of the second half */
    bool hopeless; /* even the baseline that misses least does so in AW_EVALUATE_HOPELESS times the
                      budget, on the half that it was tuned on: nothing can serve it */
};
#define AW_EVALUATE_HOPELESS 5
/* `ret` has room for `count`. Of longer loads the first 24 hours are lived. AW_ERR_NODATA: a half
 * of the day is no longer than an hour. */
AW_NODISCARD enum aw_err aw_evaluate_day(const struct aw_evaluate_config *config,
                                         const struct aw_evaluate_app *apps, uint32_t count,
                                         aw_evaluate_progress *progress, void *ctx,
                                         const struct aw_alloc *alloc, struct aw_evaluate_day *ret,
                                         struct aw_diag *diag);

struct aw_evaluate_day_sum {
    struct aw_totals life[AW_EVALUATE_SPANS], best[AW_EVALUATE_SPANS];
    struct aw_totals rule[AW_EVALUATE_RULES][AW_EVALUATE_SPANS];
    uint32_t chosen[AW_EVALUATE_RULES];              /* how often each was the best */
    uint32_t within[AW_EVALUATE_RULES], best_within; /* applications within budget on day two */
    double cost[AW_EVALUATE_RULES]; /* on day two, over the best's, geometric mean */
    uint64_t missed[2][AW_EVALUATE_MISSES];
    double acting_share;
    double missed_share[AW_EVALUATE_SPANS];
    double twice_share; /* applications that missed at most twice the budget from hour 2 to noon */
    double worst_six_hours;
    double within_share;
    double cost_day1, cost_day2, cost_day2_median; /* geometric means, and a median */
    double cost_day2_without_best5;                /* NAN: there are no more than five */
    double priced_day1, priced_day2;               /* geometric means */
    struct aw_interval cost_day1_interval, cost_day2_interval; /* 95 % over applications */
    double won_budget_first, won_strict;                       /* shares */
    double changes_per_day, changes_per_day_hpa;               /* of replicas */
    double reversals_per_day, reversals_per_day_hpa; /* removed within the window after added */
    double regrets_per_day, regrets_per_day_hpa;     /* added within it after removed */
    uint32_t hopeless;                               /* applications that nothing can serve */
    struct {                                         /* the same figures without these */
        double missed_share[AW_EVALUATE_SPANS];
        double worst_six_hours, within_share, cost_day1, cost_day2; /* NAN: there are no others */
    } served;
    uint32_t goal_count;
    struct aw_evaluate_goal goal[AW_EVALUATE_GOALS_MAX];
};
/* `count` at least 1. */
AW_NODISCARD enum aw_err aw_evaluate_day_sum(const struct aw_evaluate_config *config,
                                             const struct aw_evaluate_day *rows, uint32_t count,
                                             const struct aw_alloc *alloc,
                                             struct aw_evaluate_day_sum *ret, struct aw_diag *diag);

/* --- drift ------------------------------------------------------------------------------------
 */

/* The world changes at noon, for good. */
/* clang-format off */
/*     id      name        text                                               */
#define AW_EVALUATE_DRIFT_MAP(X)                                                \
    X(LESS,   "load/5",   "a fifth of the requests")                            \
    X(MORE,   "load*5",   "five times the requests")                            \
    X(CPU,    "cpu*2",    "a request takes twice the CPU time")                 \
    X(SLO,    "slo*0.8",  "the SLO is a fifth stricter")                        \
    X(PRICE,  "price",    "memory costs four times as much")
/* clang-format on */
#define X(id, ...) AW_EVALUATE_DRIFT_##id,
enum aw_evaluate_drift_kind { AW_EVALUATE_DRIFT_MAP(X) AW_EVALUATE_DRIFTS };
#undef X
extern const char *const aw_evaluate_drift_names[], *const aw_evaluate_drift_texts[];

/* Who lives through it, from the same first second. */
enum aw_evaluate_drifter {
    AW_EVALUATE_RELEARNS, /* as a run does; of a new SLO or price it is told */
    AW_EVALUATE_STAYS,    /* learns nothing once it has served, and is told nothing */
    AW_EVALUATE_ANEW,     /* has known nothing else */
    AW_EVALUATE_DRIFTERS
};
extern const char *const aw_evaluate_drifter_names[];

/* One application under one change, all seeds together. */
struct aw_evaluate_drift {
    uint32_t kind, index;
    char app[AW_APP_NAME_MAX];
    struct aw_totals hour1[AW_EVALUATE_DRIFTERS]; /* after it */
    struct aw_totals later[AW_EVALUATE_DRIFTERS]; /* from two hours after it on */
    struct aw_totals after[AW_EVALUATE_DRIFTERS]; /* all of it */
};
/* `kind` AW_EVALUATE_DRIFTS: all of them. `ret` has room for `count` rows of each. */
AW_NODISCARD enum aw_err aw_evaluate_drift(const struct aw_evaluate_config *config,
                                           const struct aw_evaluate_app *apps, uint32_t count,
                                           uint32_t kind, aw_evaluate_progress *progress, void *ctx,
                                           const struct aw_alloc *alloc,
                                           struct aw_evaluate_drift *ret, struct aw_diag *diag);

/* Costs are of aw_evaluate_priced: who saves by missing saves nothing. */
struct aw_evaluate_drift_sum {
    struct {
        uint32_t apps;
        struct aw_totals hour1[AW_EVALUATE_DRIFTERS], later[AW_EVALUATE_DRIFTERS];
        double cost[AW_EVALUATE_DRIFTERS]; /* later, over ANEW's; geometric mean */
        double closed;                     /* of the gap in log cost between STAYS and ANEW; NAN:
                                              it is too small to be closed */
        double dearest; /* RELEARNS over STAYS after the change, highest of an application */
    } by[AW_EVALUATE_DRIFTS];
    uint32_t goal_count;
    struct aw_evaluate_goal goal[AW_EVALUATE_GOALS_MAX];
};
void aw_evaluate_drift_sum(const struct aw_evaluate_config *config,
                           const struct aw_evaluate_drift *rows, uint32_t count,
                           struct aw_evaluate_drift_sum *ret);

#endif
