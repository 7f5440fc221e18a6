/*
 * api_metrics.c - /metrics: the daemon as Prometheus sees it (docs/mechanisms/metrics.md).
 *
 * Names that every controller has (workqueue_*, controller_runtime_*) mean what they mean there: a
 * reconcile is one workload looked at and decided in a tick, and the queue is that of workloads
 * that wait for their turn to learn.
 */
#include "web/api_internal.h"

#include "control/agent_exchange.h"
#include "telemetry/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct aw_metric_label label;

struct writer {
    struct aw_metrics *m;
    const struct aw_recent *watch;
    const uint32_t *rows; /* [count] */
    uint32_t count;
};

/* --- the process ------------------------------------------------------------------------------ */

static void gauge(struct aw_metrics *m, const char *name, const char *unit, const char *help,
                  double value)
{
    aw_metrics_family(m, name, AW_METRIC_GAUGE, unit, help);
    aw_metrics_sample(m, NULL, 0, value);
}

static void counter(struct aw_metrics *m, const char *name, const char *unit, const char *help,
                    double value)
{
    aw_metrics_family(m, name, AW_METRIC_COUNTER, unit, help);
    aw_metrics_sample(m, NULL, 0, value);
}

/* NAN where /proc does not say. */
static double resident_bytes(void)
{
    unsigned long long size, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    const bool read = file && fscanf(file, "%llu %llu", &size, &resident) == 2;
    if (file)
        fclose(file);
    return read ? (double)resident * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static void put_process(struct aw_metrics *m, const struct aw_api *api)
{
    struct rusage used;
    gauge(m, "process_resident_memory_bytes", "bytes", "Resident memory size.", resident_bytes());
    gauge(m, "process_start_time_seconds", "seconds", "Start time since 1970.",
          1e-6 * (double)api->started_us);
    if (getrusage(RUSAGE_SELF, &used) == 0)
        counter(m, "process_cpu_seconds", "seconds", "User and system CPU time spent.",
                (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                    1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    aw_metrics_family(m, "aware_build", AW_METRIC_INFO, NULL,
                      "Version of the program and kind of the cluster.");
    aw_metrics_sample(
        m, (label[]){{"version", api->config.version}, {"cluster", api->config.cluster}}, 2, 1);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void put_loop(struct aw_metrics *m, const struct aw_loop_counts *c, double tick_age_s)
{
    counter(m, "aware_ticks", NULL, "Ticks of the control loop.", (double)c->ticks);
    gauge(m, "aware_tick_age_seconds", "seconds", "Real time since the last tick ended.",
          tick_age_s);
    counter(m, "aware_plans_applied", NULL, "Plans that the cluster took.",
            (double)c->plans_applied);
    aw_metrics_family(m, "aware_failures", AW_METRIC_COUNTER, NULL,
                      "What went wrong and was lived with, by what was tried.");
    const struct {
        const char *what;
        uint64_t count;
    } failures[] = {{"observe", c->observe_failures},
                    {"apply", c->apply_failures},
                    {"store", c->store_failures},
                    {"record", c->record_failures},
                    {"learn", c->learn_failures}};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        aw_metrics_sample(m, (label[]){{"of", failures[i].what}}, 1, (double)failures[i].count);
}

static void put_late(struct aw_metrics *m, struct aw_desk *desk)
{
    aw_desk_lock(desk);
    const struct aw_desk_counts counts = *aw_desk_counts(desk);
    aw_desk_unlock(desk);
    counter(m, "aware_changes_late", NULL,
            "Changes that were carried out before the audit log could be written.",
            (double)counts.late);
    gauge(m, "aware_changes_unrecorded", NULL,
          "Changes that were carried out and are not in the audit log yet.",
          (double)counts.late_waiting);
}

static void put_timing(struct aw_metrics *m, const struct aw_loop_counts *c,
                       struct aw_tick_timing *timing)
{
    const label learn[] = {{"name", "learn"}}, loop[] = {{"controller", "workload"}};
    const double failed = (double)(c->observe_failures + c->apply_failures);
    aw_metrics_family(m, "controller_runtime_reconcile", AW_METRIC_COUNTER, NULL,
                      "Reconciliations of workloads, by result.");
    aw_metrics_sample(m, (label[]){{"controller", "workload"}, {"result", "success"}}, 2,
                      fmax(0, (double)c->decisions - failed));
    aw_metrics_sample(m, (label[]){{"controller", "workload"}, {"result", "error"}}, 2, failed);
    aw_metrics_family(m, "workqueue_depth", AW_METRIC_GAUGE, NULL,
                      "Workloads that wait for their turn to learn.");
    aw_metrics_sample(m, learn, 1, (double)c->learn_waiting);
    aw_metrics_family(m, "workqueue_adds", AW_METRIC_COUNTER, NULL,
                      "Workloads that came to have something to learn.");
    aw_metrics_sample(m, learn, 1,
                      (double)(c->learn_rounds + c->learn_failures + c->learn_waiting));
    aw_metrics_family(m, "workqueue_retries", AW_METRIC_COUNTER, NULL,
                      "Rounds of learning that failed and are tried again.");
    aw_metrics_sample(m, learn, 1, (double)c->learn_failures);
    counter(m, "aware_learning_rounds", NULL, "Rounds of learning that gave a policy.",
            (double)c->learn_rounds);
    if (!timing)
        return;
    pthread_mutex_lock(&timing->lock);
    const struct aw_metric_histogram tick = timing->tick, took = timing->learn;
    pthread_mutex_unlock(&timing->lock);
    aw_metrics_family(m, "controller_runtime_reconcile_time_seconds", AW_METRIC_HISTOGRAM,
                      "seconds", "Time of one tick over all workloads, without learning.");
    aw_metrics_histogram(m, loop, 1, &tick);
    aw_metrics_family(m, "workqueue_work_duration_seconds", AW_METRIC_HISTOGRAM, "seconds",
                      "Time of one tick's rounds of learning, which run side by side.");
    aw_metrics_histogram(m, learn, 1, &took);
}

static void put_decisions(struct aw_metrics *m, const struct aw_recent *watch)
{
    aw_metrics_family(m, "aware_decisions", AW_METRIC_COUNTER, NULL,
                      "Decisions, by who decided and what became of them.");
    for (uint32_t a = 0; a < AW_ACTOR_COUNT; a++)
        for (uint32_t o = 0; o < AW_RECENT_OUTCOME_COUNT; o++)
            if (watch->decisions[a][o] || a == AW_ACTOR_AGENT || a == AW_ACTOR_FALLBACK)
                aw_metrics_sample(
                    m,
                    (label[]){{"actor", aw_actor_name(a)}, {"outcome", aw_recent_outcome_names[o]}},
                    2, (double)watch->decisions[a][o]);
    aw_metrics_family(m, "aware_guard_clips", AW_METRIC_COUNTER, NULL,
                      "Decisions that a guard rail changed, by rail.");
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++)
        aw_metrics_sample(m, (label[]){{"guard", aw_clip_name((enum aw_clip)c)}}, 1,
                          (double)watch->clips[c]);
    aw_metrics_family(m, "aware_watchdog_trips", AW_METRIC_COUNTER, NULL,
                      "Times that control was taken from the agent, by cause.");
    for (uint32_t c = AW_WATCHDOG_CAUSE_NONE + 1; c < AW_WATCHDOG_CAUSE_COUNT; c++)
        aw_metrics_sample(m,
                          (label[]){{"cause", aw_watchdog_cause_name((enum aw_watchdog_cause)c)}},
                          1, (double)watch->trips[c]);
    aw_metrics_family(m, "aware_stage_entries", AW_METRIC_COUNTER, NULL,
                      "Times that a workload entered a stage.");
    for (uint32_t s = 0; s < AW_STAGE_COUNT; s++)
        aw_metrics_sample(m, (label[]){{"stage", aw_stage_name(s)}}, 1, (double)watch->stages[s]);
}

static void put_fleet(struct aw_metrics *m, const struct aw_recent *watch)
{
    const uint32_t count = aw_recent_fleets(watch);
    if (count == 0)
        return;
    const struct aw_recent_fleet *f = aw_recent_fleet(watch, count - 1);
    aw_metrics_family(m, "aware_workloads", AW_METRIC_GAUGE, NULL, "Workloads, by stage.");
    for (uint32_t s = 0; s < AW_STAGE_COUNT; s++)
        aw_metrics_sample(m, (label[]){{"stage", aw_stage_name(s)}}, 1, f->stage[s]);
    gauge(m, "aware_workloads_missing_slo", NULL,
          "Workloads that missed their SLO in the last step.", f->missing);
    gauge(m, "aware_workloads_frozen", NULL, "Workloads that an order freezes.", f->frozen);
    gauge(m, "aware_workloads_held_by_watchdog", NULL,
          "Workloads whose agent is held back by the watchdog.", f->held);
}

/* --- agents of other processes ---------------------------------------------------------------- */

/* No label has an agent's name, which is its own to choose: a stranger must not make series. */
static void put_agents(struct aw_metrics *m, struct aw_agent_exchange *exchange)
{
    struct aw_agent_exchange_counts c;
    if (!exchange)
        return;
    aw_agent_exchange_counts(exchange, &c);
    aw_metrics_family(m, "aware_agent_seats", AW_METRIC_GAUGE, NULL,
                      "Workloads that admit an external agent, by how theirs stands.");
    for (uint32_t s = 0; s < AW_EXTERNAL_AGENT_STANDING_COUNT; s++)
        aw_metrics_sample(m,
                          (label[]){{"standing", aw_external_agent_standing_name(
                                                     (enum aw_external_agent_standing)s)}},
                          1, c.standing[s]);
    gauge(m, "aware_agents_acting", NULL,
          "External agents whose answer was carried out in the last step.", c.acting);
    aw_metrics_family(m, "aware_agent_registrations", AW_METRIC_COUNTER, NULL,
                      "External agents that came, by whether they got a seat.");
    aw_metrics_sample(m, (label[]){{"result", "admitted"}}, 1, (double)c.registered);
    aw_metrics_sample(m, (label[]){{"result", "refused"}}, 1, (double)c.refused);
    counter(m, "aware_agent_departures", NULL, "External agents that left.", (double)c.left);
    counter(m, "aware_agent_questions", NULL, "Questions to external agents.", (double)c.asked);
    counter(m, "aware_agent_answers", NULL, "Good answers, in time and well formed.",
            (double)c.answered);
    aw_metrics_family(m, "aware_agent_refused_answers", AW_METRIC_COUNTER, NULL,
                      "Answers that were not taken and questions without one, by reason; the "
                      "fallback decides then.");
    for (uint32_t f = AW_EXTERNAL_AGENT_FAULT_LATE; f < AW_EXTERNAL_AGENT_FAULT_COUNT; f++)
        aw_metrics_sample(
            m, (label[]){{"reason", aw_external_agent_fault_name((enum aw_external_agent_fault)f)}},
            1, (double)c.faults[f]);
    aw_metrics_family(m, "aware_agent_answer_time_seconds", AW_METRIC_HISTOGRAM, "seconds",
                      "Time from a question to a good answer.");
    aw_metrics_histogram(m, NULL, 0, &c.took_s);
    aw_metrics_family(m, "aware_agent_deadline_used_ratio", AW_METRIC_HISTOGRAM, "ratio",
                      "Share of its deadline that a good answer took.");
    aw_metrics_histogram(m, NULL, 0, &c.deadline_share);
}

/* --- workloads -------------------------------------------------------------------------------- */

static const struct aw_recent_point *last_of(const struct writer *w, uint32_t row)
{
    const struct aw_recent_one *one = &w->watch->one[w->rows[row]];
    return aw_recent_point(w->watch, one, aw_recent_points(w->watch, one) - 1);
}

static const struct aw_recent_one *one_of(const struct writer *w, uint32_t row)
{
    return &w->watch->one[w->rows[row]];
}

/* namespace and workload of a full name. */
struct named {
    char namespace[AW_STORE_NAME_MAX];
    label labels[AW_METRICS_LABELS_MAX];
};

static void name_labels(const char *name, struct named *ret)
{
    const char *slash = strchr(name, '/');
    snprintf(ret->namespace, sizeof ret->namespace, "%.*s", slash ? (int)(slash - name) : 7,
             slash ? name : "default");
    ret->labels[0] = (label){"namespace", ret->namespace};
    ret->labels[1] = (label){"workload", slash ? slash + 1 : name};
}

/* The figures of a workload: how each is called, what it is, how those beyond the maximum are
 * merged, and where it is from: `one` and its `last` point. */
/* clang-format off */
#define FIGURES(X)                                                                                 \
    X(READY, "replicas_ready", NULL, GAUGE, SUM,                                                   \
      "Replicas that are ready.",                                                                  \
      last->ready)                                                                                 \
    X(WANTED, "replicas_wanted", NULL, GAUGE, SUM,                                                 \
      "Replicas that are asked for.",                                                              \
      last->wanted)                                                                                \
    X(CPU, "cpu_limit_cores", "cores", GAUGE, MEAN,                                                \
      "CPU of one replica.",                                                                       \
      1e-3 * (double)last->cpu_millicores)                                                         \
    X(MEMORY, "memory_limit_bytes", "bytes", GAUGE, MEAN,                                          \
      "Memory of one replica.",                                                                    \
      last->memory_bytes)                                                                          \
    X(CPU_USED, "cpu_utilization_ratio", "ratio", GAUGE, MEAN,                                     \
      "CPU used over limit.",                                                                      \
      last->cpu_used)                                                                              \
    X(MEMORY_USED, "memory_utilization_ratio", "ratio", GAUGE, MEAN,                               \
      "Memory used over limit.",                                                                   \
      last->memory_used)                                                                           \
    X(ARRIVALS, "arrivals_per_second", NULL, GAUGE, SUM,                                           \
      "Requests that came.",                                                                       \
      last->arrivals_per_s)                                                                        \
    X(LATENCY, "latency_seconds", "seconds", GAUGE, MAX,                                           \
      "Latency at the SLO's quantile.",                                                            \
      1e-6 * (double)last->latency_us)                                                             \
    X(SLO, "slo_latency_seconds", "seconds", GAUGE, MAX,                                           \
      "Latency that the SLO allows.",                                                              \
      1e-6 * one->slo_latency_us)                                                                  \
    X(BUDGET, "slo_budget_ratio", "ratio", GAUGE, MEAN,                                            \
      "Share of steps that may miss the SLO.",                                                     \
      one->has_slo ? one->slo_budget : NAN)                                                        \
    X(STEPS, "steps", NULL, COUNTER, SUM,                                                          \
      "Steps that were watched.",                                                                  \
      (double)one->steps)                                                                          \
    X(MISSED, "slo_missed_steps", NULL, COUNTER, SUM,                                              \
      "Steps that missed the SLO.",                                                                \
      (double)one->missed)                                                                         \
    X(REPLICA_CHANGES, "replica_changes", NULL, COUNTER, SUM,                                      \
      "Times that the number of replicas was changed.",                                            \
      (double)one->replica_changes)                                                                \
    X(TAKEN_BACK, "replicas_removed_early", NULL, COUNTER, SUM,                                    \
      "Times that replicas were removed within five minutes of being added.",                      \
      (double)one->taken_back)                                                                     \
    X(REWARD, "reward", NULL, GAUGE, MEAN,                                                         \
      "The paper's reward of the last step, of 2.",                                                \
      last->reward)                                                                                \
    X(TWIN_REWARD, "twin_reward", NULL, GAUGE, MEAN,                                               \
      "The same under the fallback alone.",                                                        \
      last->twin_reward)                                                                           \
    X(COST, "cost_dollars_per_hour", NULL, GAUGE, SUM,                                             \
      "What the plan in force costs.",                                                             \
      last->cost_per_hour)                                                                         \
    X(FALLBACK_COST, "fallback_cost_dollars_per_hour", NULL, GAUGE, SUM,                           \
      "What the fallback's plan would cost.",                                                      \
      last->fallback_cost_per_hour)                                                                \
    X(TWIN_COST, "twin_cost_dollars_per_hour", NULL, GAUGE, SUM,                                   \
      "What the fallback alone costs.",                                                            \
      last->twin_cost_per_hour)                                                                    \
    X(SPENT, "cost_dollars", "dollars", COUNTER, SUM,                                              \
      "What was spent since the start.",                                                           \
      one->cost)                                                                                   \
    X(MODELS, "model_changes", NULL, COUNTER, SUM,                                                 \
      "Times that another policy was taken.",                                                      \
      (double)one->model_changes)                                                                  \
    X(EPISODES, "episodes", NULL, COUNTER, SUM,                                                    \
      "Episodes that ended.",                                                                      \
      (double)one->episode_count)                                                                  \
    X(ESTIMATE, "estimate", NULL, GAUGE, MEAN,                                                     \
      "Estimated score of the policy, per episode.",                                               \
      one->estimate.mean)                                                                          \
    X(ESTIMATE_LOW, "estimate_low", NULL, GAUGE, MEAN,                                             \
      "Lower bound of the estimate.",                                                              \
      one->estimate.low)                                                                           \
    X(ESTIMATE_HIGH, "estimate_high", NULL, GAUGE, MEAN,                                           \
      "Upper bound of the estimate.",                                                              \
      one->estimate.high)                                                                          \
    X(WEIGHT, "slo_weight", NULL, GAUGE, MEAN,                                                     \
      "Weight of the SLO in the objective.",                                                       \
      one->lambda)
/* clang-format on */
enum figure {
#define X(id, name, unit, type, merge, help, value) FIGURE_##id,
    FIGURES(X)
#undef X
        FIGURE_COUNT
};

static const struct {
    const char *name, *unit;
    enum aw_metric_type type;
    enum aw_metric_merge merge;
    const char *help;
} figures[] = {
#define X(id, name, unit, type, merge, help, value) \
    {"aware_workload_" name, unit, AW_METRIC_##type, AW_METRIC_##merge, help},
    FIGURES(X)
#undef X
};

static double figure_of(enum figure figure, const struct aw_recent_one *one,
                        const struct aw_recent_point *last)
{
    switch (figure) {
#define X(id, name, unit, type, merge, help, value) \
    case FIGURE_##id:                               \
        return value;
        FIGURES(X)
#undef X
    case FIGURE_COUNT:
        break;
    }
    return NAN;
}

/* Counters of workloads that are merged fall when one of them gets a name of its own: that looks
 * like a restart, which whoever computes a rate knows to handle. */
static void put_figures(const struct writer *w)
{
    static const label other[] = {{"namespace", AW_METRICS_OTHER}, {"workload", AW_METRICS_OTHER}};
    for (uint32_t f = 0; f < FIGURE_COUNT; f++) {
        struct aw_metric_rest rest = {.merge = figures[f].merge};
        aw_metrics_family(w->m, figures[f].name, figures[f].type, figures[f].unit, figures[f].help);
        for (uint32_t i = 0; i < w->count; i++) {
            struct named named;
            name_labels(one_of(w, i)->name, &named);
            aw_metrics_one_of(w->m, &rest, i, named.labels, 2,
                              figure_of((enum figure)f, one_of(w, i), last_of(w, i)));
        }
        aw_metrics_rest(w->m, &rest, other, 2);
    }
}

/* One series for each value of a third label: 1 for the stage that it is in, counts of outcomes. */
static void put_states(const struct writer *w)
{
    const label other[] = {{"namespace", AW_METRICS_OTHER}, {"workload", AW_METRICS_OTHER}};
    struct named named;
    aw_metrics_family(w->m, "aware_workload_stage", AW_METRIC_GAUGE, NULL,
                      "1 for the stage that a workload is in.");
    for (uint32_t s = 0; s < AW_STAGE_COUNT; s++) {
        struct aw_metric_rest rest = {.merge = AW_METRIC_SUM};
        const label stage = {"stage", aw_stage_name(s)};
        for (uint32_t i = 0; i < w->count; i++) {
            name_labels(one_of(w, i)->name, &named);
            named.labels[2] = stage;
            aw_metrics_one_of(w->m, &rest, i, named.labels, 3, last_of(w, i)->stage == s);
        }
        aw_metrics_rest(w->m, &rest, (label[]){other[0], other[1], stage}, 3);
    }
    aw_metrics_family(w->m, "aware_workload_decisions", AW_METRIC_COUNTER, NULL,
                      "Decisions about a workload, by what became of them.");
    for (uint32_t o = 0; o < AW_RECENT_OUTCOME_COUNT; o++) {
        struct aw_metric_rest rest = {.merge = AW_METRIC_SUM};
        const label outcome = {"outcome", aw_recent_outcome_names[o]};
        for (uint32_t i = 0; i < w->count; i++) {
            name_labels(one_of(w, i)->name, &named);
            named.labels[2] = outcome;
            aw_metrics_one_of(w->m, &rest, i, named.labels, 3, (double)one_of(w, i)->outcomes[o]);
        }
        aw_metrics_rest(w->m, &rest, (label[]){other[0], other[1], outcome}, 3);
    }
    /* a version cannot be merged: those beyond the maximum have none here */
    aw_metrics_family(w->m, "aware_workload_model", AW_METRIC_INFO, NULL,
                      "Id of the policy of a workload.");
    for (uint32_t i = 0; i < w->count && i < AW_METRICS_SERIES_MAX; i++) {
        char id[24];
        if (!one_of(w, i)->policy_id)
            continue;
        snprintf(id, sizeof id, "%016llx", (unsigned long long)one_of(w, i)->policy_id);
        name_labels(one_of(w, i)->name, &named);
        named.labels[2] = (label){"model", id};
        aw_metrics_sample(w->m, named.labels, 3, 1);
    }
}

enum aw_err aw__api_get_metrics(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_api *api = call->api;
    struct aw_recent *watch = &api->watch;
    struct aw_metrics m;
    const bool openmetrics = aw_metrics_wants_openmetrics(call->request->accept);
    const int64_t now = aw_clock_monotonic_us(api->config.clock);
    pthread_mutex_lock(&api->lock);
    const struct aw_loop_counts counts = api->counts;
    const double age_s =
        api->tick_mono_us == AW_NEVER ? NAN : 1e-6 * (double)(now - api->tick_mono_us);
    pthread_mutex_unlock(&api->lock);
    aw_metrics_init(&m, call->out, openmetrics);
    call->content_type = openmetrics ? AW_METRICS_OPENMETRICS : AW_METRICS_TEXT_FORMAT;
    put_process(&m, api);
    put_loop(&m, &counts, age_s);
    put_late(&m, api->config.desk);
    put_timing(&m, &counts, api->config.timing);
    put_agents(&m, api->exchange);
    if (api->config.more)
        api->config.more(api->config.ctx, &m);
    aw_recent_lock(watch);
    uint32_t *rows = calloc(watch->count + 1, sizeof *rows);
    struct writer writer = {.m = &m, .watch = watch, .rows = rows};
    for (uint32_t i = 0; rows && i < watch->count; i++)
        if (watch->one[i].seen && watch->one[i].point_count)
            rows[writer.count++] = i;
    put_decisions(&m, watch);
    put_fleet(&m, watch);
    if (rows) {
        put_states(&writer);
        put_figures(&writer);
    }
    aw_recent_unlock(watch);
    const bool ok = rows != NULL;
    free(rows);
    return ok && !aw_metrics_end(&m) ? AW_OK
                                     : aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}
