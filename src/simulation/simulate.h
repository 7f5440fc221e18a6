/*
 * simulate.h - runs controllers on the simulated cluster and says what they cost.
 *
 * Call order: aw_conf_defaults(aw_simulate_fields, &settings) and the tables of the simulator, the
 *             policy and the oracle; aw_simulate_check; then aw_simulate_run for one controller on
 *             one application, aw_simulate_tune to tune one, aw_simulate_compare for a table.
 * Memory:     everything is allocated before the first step and freed after the last; a step does
 *             not allocate. Results go into the caller's arrays.
 * Threads:    run and tune have one owner. compare spreads applications over a pool of its own;
 *             the bytes of its results do not depend on the number of threads.
 *
 * One step: observe, decide, apply, let `step_s` pass, score. Scores come from what really happened
 * (aw_sim_truth), never from the metrics that the controller saw.
 *
 * Common random numbers: a run's chance comes from (seed, application) alone, not from the policy,
 * so that policies are compared on the same arrivals as long as they act alike.
 *
 * Tuning and reporting never see the same load: a case has a load to tune on and a load to report.
 *
 * The trap: with `shift` (or without `continuous`) the seed also decides where in the load a run
 * begins. Two runs of different lengths share their beginning; two seeds do not share their load.
 */
#ifndef AW_SIMULATION_SIMULATE_H
#define AW_SIMULATION_SIMULATE_H

#include "base/conf.h"
#include "base/stats.h"
#include "cluster/sim.h"
#include "control/pilot.h"
#include "fallback/fallback.h"
#include "fallback/oracle.h"

#define AW_SIMULATE_EPISODES_MAX 100000u
#define AW_SIMULATE_STEPS_MAX    10000000u /* of one run, warm-up included */
#define AW_SIMULATE_POLICIES_MAX 16u       /* of one comparison */
#define AW_SIMULATE_CASES_MAX    10000u    /* applications of one comparison */
#define AW_SIMULATE_EVENTS_MAX   1024u
#define AW_SIMULATE_NAME_MAX     32u
#define AW_SIMULATE_TUNING_SEED  0x7e57u /* xor-ed into the seed: tuning has its own chance */

/* --- what is asked ----------------------------------------------------------------------------
 */

struct aw_simulate_settings {
    uint32_t episodes;
    uint32_t episode_steps;
    uint32_t warmup_steps; /* before the first episode (each, unless continuous); not scored */
    double step_s;
    bool continuous; /* episodes follow one another; else each begins anew, elsewhere in the load */
    bool shift;      /* begin at a time of the load that the seed chooses; else at its beginning */

    /* The objective. */
    double slo_ms; /* of p99; 0: slo_factor times the application's p99 when alone */
    double slo_factor;
    double slo_budget;    /* share of steps that may miss it */
    double reward_weight; /* a of the paper's reward */
    double price_core_hour, price_gib_hour;

    /* Bounds, per replica. */
    uint32_t replicas_min, replicas_max;
    double cpu_min_cores, cpu_max_cores;
    double memory_min_mib, memory_max_mib;

    /* How a run begins. 0: chosen for the application (aw_simulate_task). */
    uint32_t replicas;
    double cpu_cores;
    double memory_mib;
};
extern const struct aw_conf_field aw_simulate_fields[];

/* AW_ERR_CONFIG, saying which key is wrong: minimum above maximum, a start outside the
 * bounds, more steps than AW_SIMULATE_STEPS_MAX, no node large enough. */
AW_NODISCARD enum aw_err aw_simulate_check(const struct aw_simulate_settings *settings,
                                           const struct aw_sim_settings *sim, struct aw_diag *diag);

/* The controller: a rule-based policy, an oracle, or the control loop itself. */
struct aw_simulate_policy {
    char name[AW_SIMULATE_NAME_MAX]; /* for tables; "hpa+vpa-mem" */
    bool is_oracle, is_aware;
    double lived_s; /* is_aware: before the warm-up, on the load that others are tuned on */
    struct aw_fallback_settings policy; /* not used by an oracle; is_aware: its fallback */
    struct aw_oracle_settings oracle;   /* not used by a policy */
    uint32_t tuning; /* enum aw_simulate_tuning: what compare does before it runs */
};

enum aw_simulate_tuning {
    AW_SIMULATE_AS_GIVEN,
    AW_SIMULATE_TUNE_SLO,    /* the least cost among those that keep the SLO budget */
    AW_SIMULATE_TUNE_REWARD, /* the highest reward of the paper */
};

/* A policy with defaults from its name: those of aw_fallback_names, "oracle" and "oracle-cost",
 * "constant-reward" (constant, tuned for the reward), "aware" (from the minute at which a learned
 * policy acts) and "aware:day2" (after a day), both with an untuned hpa+vpa-mem as fallback. hpa,
 * hpa+vpa, hpa+vpa-mem and constant are to be tuned for the SLO, the rest run as given.
 * AW_ERR_NOTFOUND: names the nearest. */
AW_NODISCARD enum aw_err aw_simulate_policy_named(const char *name,
                                                  struct aw_simulate_policy *ret_policy,
                                                  struct aw_diag *diag);
/* The names, by index, rules and oracles first; NULL past the last. */
const char *aw_simulate_policy_name(uint32_t index);

/* Something that happens to the workload at a time, counted from the end of the warm-up (without
 * `continuous`: of every episode's). A schedule of scenarios becomes events by walking
 * aw_schedule_next and taking aw_schedule_effect as the disturbance at each stop. */
enum aw_simulate_event_kind {
    AW_SIMULATE_DISTURB,      /* until changed again */
    AW_SIMULATE_NEIGHBOURS,   /* until changed again */
    AW_SIMULATE_FAIL_NODE,    /* for `duration_us` */
    AW_SIMULATE_FAIL_METRICS, /* for `duration_us` */
    AW_SIMULATE_FAIL_API,     /* for `duration_us` */
};
struct aw_simulate_event {
    int64_t at_us; /* takes effect at the first step that begins then or later */
    enum aw_simulate_event_kind kind;
    struct aw_sim_disturbance disturbance; /* DISTURB */
    double cpu_share, memory_share;        /* NEIGHBOURS */
    uint32_t node;                         /* FAIL_NODE */
    int64_t duration_us;                   /* FAIL_* */
};

/* One application under one load. The loads are borrowed. */
struct aw_simulate_case {
    struct aw_app app;
    const struct aw_load *load;             /* reported */
    const struct aw_load *tuning_load;      /* tuned on; NULL: cannot be tuned */
    const struct aw_simulate_event *events; /* [event_count], by time; not while tuning */
    uint32_t event_count;
};

/* Bounds, the p99 that must not be exceeded, and how a run begins unless the settings say
 * otherwise: as chosen by an operator who knows only the load. One core, memory for 16 requests at
 * once and half of that again, replicas for twice the mean load, all within the bounds. */
struct aw_fallback_task aw_simulate_task(const struct aw_simulate_settings *settings,
                                         const struct aw_simulate_case *c);

/* --- one run ----------------------------------------------------------------------------------
 */

/* One step: what was decided at its beginning, and what happened in it. */
struct aw_simulate_step {
    uint32_t episode; /* 0-based; warm-up steps are not told */
    uint32_t step;    /* within the episode */
    int64_t at_us;    /* its beginning, of the cluster's time */

    bool applied;        /* false: the cluster did not answer; `plan` is empty then */
    struct aw_plan plan; /* after bounds and rules; an empty set: nothing */
    struct aw_fallback_reason reason;

    /* At its end. */
    uint32_t replicas_wanted, replicas_ready, replicas_pending, replicas_starting;
    bool rollout;
    int64_t cpu_millicores; /* wanted, per replica */
    int64_t memory_bytes;

    /* Over it. */
    struct aw_sim_truth truth;
    double arrivals_per_s;
    double cpu_utilization, memory_utilization; /* use over what was reserved, at most 1 */
    double slo_latency_us;
    double slo_preservation; /* SP: 1 when met, SLO / p99 when not */
    bool violated;
    double reward; /* of the paper, 0..2 */
    double cost;   /* at the stated prices */
};

/* Called for every scored step, in order. False stops the run: AW_ERR_INTERRUPTED. */
typedef bool aw_simulate_sink(void *ctx, const struct aw_simulate_step *step);

/* clang-format off */
/*     member              unit      which is better   text, as a table's heading               */
#define AW_SIMULATE_COLUMN_MAP(X)                                                                 \
    X(reward,             "",       HIGH,             "paper's reward per episode")               \
    X(violation_share,    "",       LOW,              "share of steps that missed the SLO")       \
    X(violations_per_100, "",       LOW,              "SLO violations in 100 episodes")           \
    X(cost,               "",       LOW,              "cost per hour")                            \
    X(cpu_utilization,    "",       HIGH,             "CPU used of what was reserved")            \
    X(memory_utilization, "",       HIGH,             "memory used of what was reserved")         \
    X(latency_us_p50,     "us",     LOW,              "median latency, median step")              \
    X(latency_us_p99,     "us",     LOW,              "p99 latency, median step")                 \
    X(latency_us_p99_bad, "us",     LOW,              "p99 latency, worst step of 20")            \
    X(replica_hours,      "h",      LOW,              "replica-hours per hour")                   \
    X(core_hours,         "h",      LOW,              "core-hours reserved per hour")             \
    X(gib_hours,          "h",      LOW,              "GiB-hours reserved per hour")              \
    X(oom_kills,          "",       LOW,              "OOM kills per hour")                       \
    X(restarts,           "",       LOW,              "restarts per hour")                        \
    X(failed_share,       "",       LOW,              "share of requests that failed")            \
    X(changes,            "",       LOW,              "plans applied per hour")                   \
    X(replica_changes,    "",       LOW,              "changes of replicas per day")              \
    X(replicas_taken_back, "",      LOW,              "of them removed within 5 minutes")
/* clang-format on */

/* Figures of a run, all doubles so that they can be averaged by one loop. Rates are per hour of
 * cluster time, so runs of different lengths can be compared; `hours` gives totals. */
struct aw_simulate_columns {
#define X(member, unit, better, text) double member;
    AW_SIMULATE_COLUMN_MAP(X)
#undef X
};

enum aw_simulate_better { AW_SIMULATE_LOW, AW_SIMULATE_HIGH };
struct aw_simulate_column {
    const char *name; /* "latency_us_p99" */
    const char *unit;
    enum aw_simulate_better better;
    const char *text;
    size_t offset; /* of the double in struct aw_simulate_columns */
};
#define X(member, unit, better, text) +1u
enum { AW_SIMULATE_COLUMN_COUNT = 0 AW_SIMULATE_COLUMN_MAP(X) };
#undef X
extern const struct aw_simulate_column aw_simulate_column[AW_SIMULATE_COLUMN_COUNT];
double aw_simulate_column_get(const struct aw_simulate_columns *columns, uint32_t column);

struct aw_simulate_summary {
    char policy[AW_SIMULATE_NAME_MAX];
    struct aw_simulate_columns mean;
    struct aw_interval reward_interval;    /* 95 %, bootstrap over episodes */
    struct aw_interval violation_interval; /* of the share, likewise */
    uint32_t episodes;
    uint64_t steps, steps_with_requests;
    double hours; /* of cluster time, scored */
    double requests, failed_requests;
    uint64_t violations, oom_kills, restarts, changes;
    uint64_t replica_changes, replicas_taken_back; /* taken back: within AW_STABILISATION_S */
    double slo_latency_us;
    bool slo_kept;       /* violation_share within the budget */
    bool slo_unmeetable; /* a named warning: the SLO is below the application's p99 when alone */
    struct aw_fallback_settings tuned; /* what ran, after tuning */
    struct aw_fallback_task task;      /* how it began; its size may be tuned too */
};

struct aw_simulate_config {
    struct aw_simulate_settings settings;
    struct aw_sim_settings sim;
    uint64_t seed;
    uint32_t tuning_episodes; /* of one evaluation while tuning */
    uint32_t tuning_budget;   /* evaluations of one tuning, at most */
    bool tuning_whole;        /* tune on the load from its beginning on, not on pieces of it */
    uint32_t thread_count;    /* of compare; 0 and 1: the caller alone */
    /* What `aware` begins at and how it learns; bounds, SLO, prices and fallback come from the run.
     * Borrowed; NULL: it cannot be run. */
    const struct aw_pilot_config *pilot;
};
/* Defaults of all tables, seed 1, 8 episodes and 60 evaluations to tune, one thread. */
void aw_simulate_config_init(struct aw_simulate_config *config);

/* The settings of a pilot that come from a simulation: bounds, SLO, budget, prices, steps, nodes
 * and its fallback. What is its own (name, seed, learning) stays. */
void aw_simulate_pilot(const struct aw_simulate_config *config, const struct aw_fallback_task *task,
                       const struct aw_fallback_settings *fallback, struct aw_pilot_config *pilot);

/* Runs one controller. `index` is the application's stream of chance. `sink` may be NULL;
 * `ret_rewards` too, else it has room for `episodes` rewards. On failure nothing is written but
 * what the sink was told. */
AW_NODISCARD enum aw_err
aw_simulate_run(const struct aw_simulate_config *config, const struct aw_simulate_case *c,
                uint32_t index, const struct aw_simulate_policy *policy,
                const struct aw_fallback_task *task, aw_simulate_sink *sink, void *ctx,
                const struct aw_alloc *alloc, struct aw_simulate_summary *ret_summary,
                double *ret_rewards, struct aw_diag *diag);

/* Tunes a policy on the case's tuning load: HPA target and CPU size, or the constant's three
 * numbers. `task` gets the tuned size. What `policy->tuning` says is sought; AS_GIVEN does nothing.
 * `ret_kept`: whether the SLO budget was kept on the tuning load by what was chosen. */
AW_NODISCARD enum aw_err
aw_simulate_tune(const struct aw_simulate_config *config, const struct aw_simulate_case *c,
                 uint32_t index, struct aw_simulate_policy *policy, struct aw_fallback_task *task,
                 const struct aw_alloc *alloc, bool *ret_kept, struct aw_diag *diag);

/* --- a table ----------------------------------------------------------------------------------
 */

/* Called as (case, policy) pairs finish, from any thread but never from two at once, in no order.
 * False stops the comparison: AW_ERR_INTERRUPTED. */
typedef bool aw_simulate_progress(void *ctx, uint32_t done, uint32_t total);

/* Tunes and runs every policy on every case. With threads `alloc` must be safe in all of them.
 * `ret` has room for case_count * policy_count and is filled as ret[case * policy_count + policy].
 * The first failure in order of pairs is returned. */
AW_NODISCARD enum aw_err aw_simulate_compare(const struct aw_simulate_config *config,
                                             const struct aw_simulate_case *cases,
                                             uint32_t case_count,
                                             const struct aw_simulate_policy *policies,
                                             uint32_t policy_count, aw_simulate_progress *progress,
                                             void *ctx, const struct aw_alloc *alloc,
                                             struct aw_simulate_summary *ret, struct aw_diag *diag);

/* One policy over all cases, and against another on the same cases. */
struct aw_simulate_row {
    char policy[AW_SIMULATE_NAME_MAX];
    struct aw_simulate_columns mean;
    struct aw_interval interval[AW_SIMULATE_COLUMN_COUNT]; /* 95 %, bootstrap over cases */
    uint32_t case_count;
    uint32_t kept_count; /* cases within their SLO budget */
    /* Against the baseline, paired by case. */
    double reward_gain; /* mean difference */
    struct aw_interval reward_gain_interval;
    double cost_ratio; /* geometric mean of cost / cost of the baseline */
    struct aw_interval cost_ratio_interval;
    uint32_t cheaper_count; /* lower cost with no more violations than the baseline or the budget */
};
/* `baseline` is the index of the policy to compare with. */
AW_NODISCARD enum aw_err aw_simulate_rows(const struct aw_simulate_summary *summaries,
                                          uint32_t case_count, uint32_t policy_count,
                                          uint32_t baseline, double slo_budget, uint64_t seed,
                                          const struct aw_alloc *alloc,
                                          struct aw_simulate_row *ret_rows, struct aw_diag *diag);

#endif
