/* trial_print.c - what came of a trial, as tables and as JSON. */
#include "lab/trial.h"

#include "base/quantity.h"
#include "base/stats.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"

#include <inttypes.h>
#include <math.h>

#define CELL_MAX  48u
#define LEVEL     0.95 /* of intervals */
#define RESAMPLES 2000u
#define PAIRS_MAX (AW__TRIAL_REPEATS_MAX * AW_LOCAL_WORKLOADS_MAX)

/* What is told of a run, per workload. */
enum figure {
    MISSED,
    COST,
    CORES,
    CPU,
    MEMORY,
    P99_MS,
    INSIDE_P50_MS,
    INSIDE_P99_MS,
    AGENT,
    FIGURES
};
static const char *const figure_names[FIGURES] = {
    "violation_share", "cost_per_hour", "cores",         "cpu_utilisation", "memory_utilisation",
    "latency_ms_p99",  "inside_ms_p50", "inside_ms_p99", "agent_share"};

static double figure_of(const struct aw__trial *trial, const struct aw__trial_cell *cell,
                        enum figure figure)
{
    const struct aw_totals *t = &cell->totals;
    const double n = t->steps ? (double)t->steps : 1;
    switch (figure) {
    case MISSED:
        return (double)t->violations / n;
    case COST:
        return 3600 * t->cost / (n * trial->ask.step_s);
    case CORES:
        return t->core_s * trial->ask.speed / (n * trial->ask.step_s);
    case CPU:
        return t->cpu_utilisation / n;
    case MEMORY:
        return t->memory_utilisation / n;
    case P99_MS:
        return 1e-3 * cell->latency_us_p99;
    case INSIDE_P50_MS:
        return 1e-3 * cell->inside_us_p50;
    case INSIDE_P99_MS:
        return 1e-3 * cell->inside_us_p99;
    case AGENT:
        return (double)t->agent_steps / n;
    case FIGURES:
        break;
    }
    AW_ASSERT(!"a figure");
    return 0;
}

struct spread {
    double mean, std, min, max;
};

static struct spread spread_of(const struct aw__trial *trial, enum aw__trial_arm arm, uint32_t i,
                               enum figure figure)
{
    double x[AW__TRIAL_REPEATS_MAX];
    for (uint32_t r = 0; r < trial->repeats; r++) {
        x[r] = figure_of(trial, aw__trial_cell(trial, r, arm, i), figure);
        if (isnan(x[r])) /* replicas without metrics of their own */
            return (struct spread){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    }
    return (struct spread){aw_stats_mean(x, trial->repeats), aw_stats_std(x, trial->repeats),
                           aw_stats_min(x, trial->repeats), aw_stats_max(x, trial->repeats)};
}

static const char *with_spread(const struct spread *s, double scale, int digits, char *buf)
{
    snprintf(buf, CELL_MAX, "%.*f +- %.*f", digits, scale * s->mean, digits, scale * s->std);
    return buf;
}

/* "hpa+vpa-mem", "hpa-tuned" and so on, for the first column. */
static const char *arm_name(const struct aw__trial *trial, enum aw__trial_arm arm)
{
    return arm == AW__TRIAL_RULES ? trial->ask.fallback : aw__trial_arm_names[arm];
}

static enum aw_err table_print(const struct aw_call *run, const struct aw__trial *trial,
                               struct aw_table *table, struct aw_diag *diag)
{
    return trial->markdown ? aw_table_print_markdown(table, stdout, diag)
                           : aw_table_print(table, stdout, run->color_out, diag);
}

static enum aw_err means_print(const struct aw_call *run, const struct aw__trial *trial,
                               struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD", "CONTROLLER", ">MISSED %", ">$/H",     ">CORES",
                                        ">CPU %",   ">MEM %",     ">P99 ms",   ">AGENT %", NULL};
    static const struct {
        enum figure figure;
        double scale;
        int digits;
    } columns[] = {{MISSED, 100, 1}, {COST, 1, 4},   {CORES, 1, 2},  {CPU, 100, 0},
                   {MEMORY, 100, 0}, {P99_MS, 1, 0}, {AGENT, 100, 0}};
    struct aw_table table;
    char cell[CELL_MAX];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < trial->ask.count; i++)
        for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++) {
            const enum aw__trial_arm arm = (enum aw__trial_arm)a;
            aw_table_add(&table, "%s", aw_run_name(trial->ask.workload[i].pilot.name));
            aw_table_add(&table, "%s", arm_name(trial, arm));
            for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
                const struct spread spread = spread_of(trial, arm, i, columns[c].figure);
                aw_table_add(&table, "%s",
                             with_spread(&spread, columns[c].scale, columns[c].digits, cell));
            }
        }
    return table_print(run, trial, &table, diag);
}

/* When the agent first acted: minutes of the controllers' time from the beginning of a run. */
static const char *acts_text(const struct aw__trial *trial, const struct aw__trial_cell *cell,
                             char buf[CELL_MAX])
{
    snprintf(buf, CELL_MAX, "-");
    if (cell->acts_from)
        snprintf(buf, CELL_MAX, "%.1f min", cell->acts_from * trial->ask.step_s / 60);
    return buf;
}

static enum aw_err runs_print(const struct aw_call *run, const struct aw__trial *trial,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD",  "CONTROLLER", "RUN",    ">MISSED",  ">$/H",
                                        ">REQUESTS", ">FAILED",    ">LOST",  ">P99 ms",  ">CHANGES",
                                        ">OOM",      ">ACTS AT",   ">TRIPS", ">CLIPPED", NULL};
    struct aw_table table;
    char text[CELL_MAX];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < trial->ask.count; i++)
        for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++)
            for (uint32_t r = 0; r < trial->repeats; r++) {
                const enum aw__trial_arm arm = (enum aw__trial_arm)a;
                const struct aw__trial_cell *cell = aw__trial_cell(trial, r, arm, i);
                aw_table_add(&table, "%s", aw_run_name(trial->ask.workload[i].pilot.name));
                aw_table_add(&table, "%s", arm_name(trial, arm));
                aw_table_add(&table, "%" PRIu32, r + 1);
                aw_table_add(&table, "%" PRIu64 " of %" PRIu64, cell->totals.violations,
                             cell->totals.steps);
                aw_table_add(&table, "%.4f", figure_of(trial, cell, COST));
                aw_table_add(&table, "%" PRIu64, cell->requests);
                aw_table_add(&table, "%" PRIu64, cell->failed);
                aw_table_add(&table, "%" PRIu64, cell->lost);
                aw_table_add(&table, "%.0f", figure_of(trial, cell, P99_MS));
                aw_table_add(&table, "%" PRIu64, cell->totals.replica_changes);
                aw_table_add(&table, "%" PRIu64, cell->totals.oom_kills);
                aw_table_add(&table, "%s", acts_text(trial, cell, text));
                aw_table_add(&table, "%" PRIu32, cell->trips);
                aw_table_add(&table, "%" PRIu32, cell->clipped);
            }
    return table_print(run, trial, &table, diag);
}

/* What was found out first, in a sentence each. */
static void tuned_print(const struct aw__trial *trial)
{
    for (uint32_t i = 0; i < trial->ask.count; i++) {
        const struct aw__trial_tuned *tuned = &trial->tuned[i];
        char at[CELL_MAX];
        printf("%s%s: HPA missed", trial->markdown ? "- " : "",
               aw_run_name(trial->ask.workload[i].pilot.name));
        for (uint32_t t = 0; t < AW__TRIAL_TARGETS; t++)
            printf("%s %.1f %% at %" PRIu32 " %% (%.4f $/h)", t ? "," : "",
                   100 * figure_of(trial, &tuned->target[t], MISSED), aw__trial_targets[t],
                   figure_of(trial, &tuned->target[t], COST));
        printf("; taken: %" PRIu32 " %%; constant: %" PRIu32 " replicas; ",
               aw__trial_targets[tuned->best], tuned->replicas);
        if (tuned->learning.acts_from)
            printf("while AWARE learned, a policy acted after %s.\n",
                   acts_text(trial, &tuned->learning, at));
        else
            printf("while AWARE learned, no policy acted.\n");
    }
}

/* Paired by parts of the load: how `arm` stands to `rival`. */
struct pairs {
    double points[PAIRS_MAX], ratio[PAIRS_MAX]; /* of missed steps; ln of cost */
    uint32_t count;
};
struct verdict {
    double points, ratio;
    struct aw_interval points_in, ratio_in;
};

static void pairs_add(const struct aw__trial *trial, enum aw__trial_arm arm,
                      enum aw__trial_arm rival, uint32_t i, struct pairs *pairs)
{
    for (uint32_t r = 0; r < trial->repeats; r++) {
        const struct aw__trial_cell *a = aw__trial_cell(trial, r, arm, i);
        const struct aw__trial_cell *b = aw__trial_cell(trial, r, rival, i);
        pairs->points[pairs->count] =
            100 * (figure_of(trial, a, MISSED) - figure_of(trial, b, MISSED));
        pairs->ratio[pairs->count++] = log(figure_of(trial, a, COST) / figure_of(trial, b, COST));
    }
}

/* Workload `only`, or all of them. */
static struct verdict verdict_of(const struct aw__trial *trial, enum aw__trial_arm arm,
                                 enum aw__trial_arm rival, uint32_t only)
{
    struct pairs pairs = {.count = 0};
    struct verdict ret;
    struct aw_rng rng;
    double scratch[PAIRS_MAX + RESAMPLES];
    for (uint32_t i = 0; i < trial->ask.count; i++)
        if (only == trial->ask.count || only == i)
            pairs_add(trial, arm, rival, i, &pairs);
    aw_rng_init(&rng, 1, 0);
    ret.points = aw_stats_mean(pairs.points, pairs.count);
    ret.ratio = exp(aw_stats_mean(pairs.ratio, pairs.count));
    ret.points_in =
        aw_stats_bootstrap_mean(pairs.points, pairs.count, LEVEL, RESAMPLES, &rng, scratch);
    ret.ratio_in =
        aw_stats_bootstrap_mean(pairs.ratio, pairs.count, LEVEL, RESAMPLES, &rng, scratch);
    ret.ratio_in = (struct aw_interval){exp(ret.ratio_in.low), exp(ret.ratio_in.high)};
    return ret;
}

static enum aw_err verdicts_print(const struct aw_call *run, const struct aw__trial *trial,
                                  struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD",        "CONTROLLER", "AGAINST",
                                        ">MISSED, POINTS", ">COST",      NULL};
    const uint32_t count = trial->ask.count;
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = count > 1 ? 0 : 1; i <= count; i++)
        for (uint32_t a = AW__TRIAL_FRESH; a < AW__TRIAL_ARMS; a++)
            for (uint32_t b = AW__TRIAL_RULES; b < AW__TRIAL_FRESH; b++) {
                const enum aw__trial_arm arm = (enum aw__trial_arm)a;
                const enum aw__trial_arm rival = (enum aw__trial_arm)b;
                const struct verdict v = verdict_of(trial, arm, rival, i);
                aw_table_add(&table, "%s",
                             i < count ? aw_run_name(trial->ask.workload[i].pilot.name) : "all");
                aw_table_add(&table, "%s", arm_name(trial, arm));
                aw_table_add(&table, "%s", arm_name(trial, rival));
                aw_table_add(&table, "%+.1f (%+.1f to %+.1f)", v.points, v.points_in.low,
                             v.points_in.high);
                aw_table_add(&table, "%.2f (%.2f to %.2f)", v.ratio, v.ratio_in.low,
                             v.ratio_in.high);
            }
    return table_print(run, trial, &table, diag);
}

enum aw_err aw__trial_print(const struct aw_call *run, const struct aw__trial *trial,
                            struct aw_diag *diag)
{
    char took[32];
    printf("%" PRIu32 " workloads at the same time, %g times faster than real time; HPA tried for "
           "%" PRIu32 " steps at each of %u targets, AWARE lived %" PRIu32 "; runs: %" PRIu32
           " steps after %" PRIu32 " to warm up, %" PRIu32
           " of each controller, each on a part of its own of the load: %s; seed %" PRIu64
           "; source %s; %s\n\n",
           trial->ask.count, trial->ask.speed, trial->tune, AW__TRIAL_TARGETS, trial->learn,
           trial->steps, trial->warm, trial->repeats,
           *trial->load ? trial->load : "as the files say", trial->ask.seed, AW_VERSION_SOURCE,
           aw_seconds_format(trial->seconds, took, sizeof took));
    enum aw_err err = means_print(run, trial, diag);
    printf("\n");
    err = err ? err : runs_print(run, trial, diag);
    printf("\n");
    if (err)
        return err;
    tuned_print(trial);
    printf("\nPaired by parts of the load: mean of missed steps in points, and of cost as a ratio, "
           "with intervals of %.0f %%.\n\n",
           100 * LEVEL);
    return verdicts_print(run, trial, diag);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *run_json(const struct aw__trial *trial, const struct aw__trial_cell *cell,
                        uint32_t repeat)
{
    json_t *one = json_object(), *why = json_object();
    json_object_set_new(one, "repeat", json_integer((json_int_t)repeat + 1));
    json_object_set_new(one, "steps", json_integer((json_int_t)cell->totals.steps));
    json_object_set_new(one, "violations", json_integer((json_int_t)cell->totals.violations));
    json_object_set_new(one, "agent_steps", json_integer((json_int_t)cell->totals.agent_steps));
    for (uint32_t f = 0; f < FIGURES; f++)
        json_object_set_new(one, figure_names[f],
                            aw_json_real(figure_of(trial, cell, (enum figure)f)));
    json_object_set_new(one, "requests", json_integer((json_int_t)cell->requests));
    json_object_set_new(one, "failed", json_integer((json_int_t)cell->failed));
    json_object_set_new(one, "lost", json_integer((json_int_t)cell->lost));
    json_object_set_new(one, "oom_kills", json_integer((json_int_t)cell->totals.oom_kills));
    json_object_set_new(one, "watchdog_trips", json_integer((json_int_t)cell->trips));
    json_object_set_new(one, "acts_from_step",
                        cell->acts_from ? json_integer(cell->acts_from) : json_null());
    json_object_set_new(one, "replica_changes",
                        json_integer((json_int_t)cell->totals.replica_changes));
    for (uint32_t c = 0; c < AW_WATCHDOG_CAUSE_COUNT; c++)
        if (cell->trips_by[c])
            json_object_set_new(why, aw_watchdog_cause_name((enum aw_watchdog_cause)c),
                                json_integer(cell->trips_by[c]));
    json_object_set_new(one, "watchdog_causes", why);
    json_object_set_new(one, "clipped_decisions", json_integer((json_int_t)cell->clipped));
    return one;
}

static json_t *policy_json(const struct aw__trial *trial, enum aw__trial_arm arm, uint32_t i)
{
    json_t *policy = json_object(), *runs = json_array();
    json_object_set_new(policy, "name", json_string(aw__trial_arm_names[arm]));
    for (uint32_t f = 0; f < FIGURES; f++) {
        const struct spread s = spread_of(trial, arm, i, (enum figure)f);
        json_t *one = json_object();
        json_object_set_new(one, "mean", aw_json_real(s.mean));
        json_object_set_new(one, "std", aw_json_real(s.std));
        json_object_set_new(one, "min", aw_json_real(s.min));
        json_object_set_new(one, "max", aw_json_real(s.max));
        json_object_set_new(policy, figure_names[f], one);
    }
    for (uint32_t r = 0; r < trial->repeats; r++)
        json_array_append_new(runs, run_json(trial, aw__trial_cell(trial, r, arm, i), r));
    json_object_set_new(policy, "runs", runs);
    return policy;
}

static json_t *tuned_json(const struct aw__trial *trial, uint32_t i)
{
    const struct aw__trial_tuned *tuned = &trial->tuned[i];
    json_t *one = json_object(), *targets = json_array();
    for (uint32_t t = 0; t < AW__TRIAL_TARGETS; t++) {
        json_t *run = run_json(trial, &tuned->target[t], 0);
        json_object_set_new(run, "target_percent", json_integer(aw__trial_targets[t]));
        json_array_append_new(targets, run);
    }
    json_object_set_new(one, "targets", targets);
    json_object_set_new(one, "target_percent", json_integer(aw__trial_targets[tuned->best]));
    json_object_set_new(one, "constant_replicas", json_integer(tuned->replicas));
    json_object_set_new(one, "learning", run_json(trial, &tuned->learning, 0));
    return one;
}

static json_t *verdicts_json(const struct aw__trial *trial, uint32_t only)
{
    json_t *list = json_array();
    for (uint32_t a = AW__TRIAL_FRESH; a < AW__TRIAL_ARMS; a++)
        for (uint32_t b = AW__TRIAL_RULES; b < AW__TRIAL_FRESH; b++) {
            const struct verdict v =
                verdict_of(trial, (enum aw__trial_arm)a, (enum aw__trial_arm)b, only);
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:f, s:[ff], s:f, s:[ff]}", "controller",
                                aw__trial_arm_names[a], "against", aw__trial_arm_names[b],
                                "violation_points", v.points, "violation_points_interval",
                                v.points_in.low, v.points_in.high, "cost_ratio", v.ratio,
                                "cost_ratio_interval", v.ratio_in.low, v.ratio_in.high));
        }
    return list;
}

enum aw_err aw__trial_print_json(const struct aw__trial *trial, struct aw_diag *diag)
{
    json_t *root = json_object(), *list = json_array();
    for (uint32_t i = 0; i < trial->ask.count; i++) {
        json_t *one = json_object(), *policies = json_array();
        json_object_set_new(one, "name", json_string(trial->ask.workload[i].pilot.name));
        json_object_set_new(one, "tuned", tuned_json(trial, i));
        for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++)
            json_array_append_new(policies, policy_json(trial, (enum aw__trial_arm)a, i));
        json_object_set_new(one, "controllers", policies);
        json_object_set_new(one, "verdicts", verdicts_json(trial, i));
        json_array_append_new(list, one);
    }
    json_object_set_new(root, "fallback", json_string(trial->ask.fallback));
    json_object_set_new(root, "speed", aw_json_real(trial->ask.speed));
    json_object_set_new(root, "step_s", aw_json_real(trial->ask.step_s));
    json_object_set_new(root, "tune_steps", json_integer(trial->tune));
    json_object_set_new(root, "learn_steps", json_integer(trial->learn));
    json_object_set_new(root, "steps", json_integer(trial->steps));
    json_object_set_new(root, "warm_steps", json_integer(trial->warm));
    json_object_set_new(root, "repeats", json_integer(trial->repeats));
    json_object_set_new(root, "load", *trial->load ? json_string(trial->load) : json_null());
    json_object_set_new(root, "seed", json_integer((json_int_t)trial->ask.seed));
    json_object_set_new(root, "source", json_string(AW_VERSION_SOURCE));
    json_object_set_new(root, "seconds", aw_json_real(trial->seconds));
    json_object_set_new(root, "workloads", list);
    json_object_set_new(root, "verdicts", verdicts_json(trial, trial->ask.count));
    return aw_json_print(root, diag);
}
