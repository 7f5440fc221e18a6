/* trial_print.c - what came of a trial, as tables and as JSON. */
#include "lab/trial.h"

#include "base/quantity.h"
#include "base/stats.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"

#include <inttypes.h>
#include <math.h>

#define REWARD_STEPS 100.0 /* of an episode of the paper: at most 200 */
#define CELL_MAX     48u

/* What is told of a run, per workload. */
enum figure {
    REWARD,
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
    "reward_per_100_steps", "violation_share", "cost_per_hour", "cores",         "cpu_utilisation",
    "memory_utilisation",   "latency_ms_p99",  "inside_ms_p50", "inside_ms_p99", "agent_share"};

static double figure_of(const struct aw__trial *trial, const struct aw__trial_cell *cell,
                        enum figure figure)
{
    const struct aw_totals *t = &cell->totals;
    const double n = t->steps ? (double)t->steps : 1;
    switch (figure) {
    case REWARD:
        return REWARD_STEPS * t->reward / n;
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

/* "zero-shot", "the fallback's policy" and so on, for the first column. */
static const char *arm_name(const struct aw__trial *trial, enum aw__trial_arm arm)
{
    return arm == AW__TRIAL_FALLBACK ? trial->ask.fallback : aw__trial_arm_names[arm];
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
    static const char *const heads[] = {"WORKLOAD", "POLICY",   ">REWARD", ">MISSED %",
                                        ">$/H",     ">CORES",   ">CPU %",  ">MEM %",
                                        ">P99 ms",  ">AGENT %", NULL};
    static const struct {
        enum figure figure;
        double scale;
        int digits;
    } columns[] = {{REWARD, 1, 1}, {MISSED, 100, 1}, {COST, 1, 4},   {CORES, 1, 2},
                   {CPU, 100, 0},  {MEMORY, 100, 0}, {P99_MS, 1, 0}, {AGENT, 100, 0}};
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

static enum aw_err runs_print(const struct aw_call *run, const struct aw__trial *trial,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD", "POLICY",    "RUN",      ">REWARD", ">MISSED",
                                        ">$/H",     ">REQUESTS", ">FAILED",  ">LOST",   ">P99 ms",
                                        ">OOM",     ">TRIPS",    ">CLIPPED", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < trial->ask.count; i++)
        for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++)
            for (uint32_t r = 0; r < trial->repeats; r++) {
                const enum aw__trial_arm arm = (enum aw__trial_arm)a;
                const struct aw__trial_cell *cell = aw__trial_cell(trial, r, arm, i);
                aw_table_add(&table, "%s", aw_run_name(trial->ask.workload[i].pilot.name));
                aw_table_add(&table, "%s", arm_name(trial, arm));
                aw_table_add(&table, "%" PRIu32, r + 1);
                aw_table_add(&table, "%.1f", figure_of(trial, cell, REWARD));
                aw_table_add(&table, "%" PRIu64 " of %" PRIu64, cell->totals.violations,
                             cell->totals.steps);
                aw_table_add(&table, "%.4f", figure_of(trial, cell, COST));
                aw_table_add(&table, "%" PRIu64, cell->requests);
                aw_table_add(&table, "%" PRIu64, cell->failed);
                aw_table_add(&table, "%" PRIu64, cell->lost);
                aw_table_add(&table, "%.0f", figure_of(trial, cell, P99_MS));
                aw_table_add(&table, "%" PRIu64, cell->totals.oom_kills);
                aw_table_add(&table, "%" PRIu32, cell->trips);
                aw_table_add(&table, "%" PRIu32, cell->clipped);
            }
    return table_print(run, trial, &table, diag);
}

/* Whose policy acted, in a sentence each: a model's, or what own learning put in its place. */
static void origins_print(const struct aw__trial *trial)
{
    for (uint32_t i = 0; i < trial->ask.count; i++) {
        const struct aw__trial_cell *shared = aw__trial_cell(trial, 0, AW__TRIAL_SHARED, i);
        const struct aw__trial_cell *adapted = aw__trial_cell(trial, 0, AW__TRIAL_ADAPTED, i);
        const char *mark = trial->markdown ? "- " : "";
        const char *name = aw_run_name(trial->ask.workload[i].pilot.name);
        if (shared->origin.checksum)
            printf("%s%s: zero-shot is model %s, which knew it by %" PRIu32
                   " episodes of the fallback; adapted is %s.\n",
                   mark, name, shared->origin.name, shared->origin.episodes,
                   adapted->policy_id == shared->policy_id
                       ? "the same policy: nothing better was found"
                   : adapted->origin.checksum ? "the model's with more episodes"
                                              : "what it learned itself");
        else
            printf("%s%s: the model gave no policy in time, so that zero-shot is %s.\n", mark, name,
                   shared->policy_id ? "one of its own learning" : "the fallback");
    }
}

static void verdicts_print(const struct aw__trial *trial)
{
    const char *mark = trial->markdown ? "- " : "";
    for (uint32_t i = 0; i < trial->ask.count; i++)
        for (uint32_t a = AW__TRIAL_SHARED; a < AW__TRIAL_ARMS; a++) {
            const enum aw__trial_arm arm = (enum aw__trial_arm)a;
            const struct spread rules = spread_of(trial, AW__TRIAL_FALLBACK, i, REWARD),
                                own = spread_of(trial, arm, i, REWARD),
                                rules_missed = spread_of(trial, AW__TRIAL_FALLBACK, i, MISSED),
                                own_missed = spread_of(trial, arm, i, MISSED);
            const bool apart = own.min > rules.max || own.max < rules.min;
            printf("%s%s, %s: reward %+.1f against %s, %s; %+.1f points of missed steps.\n", mark,
                   aw_run_name(trial->ask.workload[i].pilot.name), aw__trial_arm_names[arm],
                   own.mean - rules.mean, trial->ask.fallback,
                   !apart                  ? "within the spread of runs"
                   : own.mean > rules.mean ? "better in every run"
                                           : "worse in every run",
                   100 * (own_missed.mean - rules_missed.mean));
        }
}

enum aw_err aw__trial_print(const struct aw_call *run, const struct aw__trial *trial,
                            struct aw_diag *diag)
{
    char took[32];
    printf("%" PRIu32 " workloads at the same time, %g times faster than real time; learning: "
           "%" PRIu32 " episodes of %s, %" PRIu32 " of the agent, %" PRIu32
           " steps each; runs: %" PRIu32 " steps after %" PRIu32 " of %s to warm up, %" PRIu32
           " of each policy; load: %s; seed %" PRIu64 "; source %s; %s\n\n",
           trial->ask.count, trial->ask.speed, trial->bootstrap, trial->ask.fallback, trial->adapt,
           trial->ask.workload[0].pilot.episode_steps, trial->steps, trial->warm,
           trial->ask.fallback, trial->repeats, *trial->load ? trial->load : "as the files say",
           trial->ask.seed, AW_VERSION_SOURCE,
           aw_seconds_format(trial->seconds, took, sizeof took));
    enum aw_err err = means_print(run, trial, diag);
    printf("\n");
    err = err ? err : runs_print(run, trial, diag);
    printf("\n");
    if (!err) {
        origins_print(trial);
        printf("\n");
        verdicts_print(trial);
    }
    return err;
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
    json_object_set_new(one, "first_trip_step", json_integer(cell->first_trip));
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
    const struct aw__trial_cell *first = aw__trial_cell(trial, 0, arm, i);
    char id[24];
    snprintf(id, sizeof id, "%016" PRIx64, first->policy_id);
    json_object_set_new(policy, "name", json_string(aw__trial_arm_names[arm]));
    json_object_set_new(policy, "policy", json_string(id));
    json_object_set_new(policy, "specialised_from",
                        first->origin.checksum ? json_string(first->origin.name) : json_null());
    json_object_set_new(policy, "known_by_episodes", json_integer(first->origin.episodes));
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

static json_t *learned_json(const struct aw_totals *totals)
{
    const double n = totals->steps ? (double)totals->steps : 1;
    json_t *one = json_object();
    json_object_set_new(one, "steps", json_integer((json_int_t)totals->steps));
    json_object_set_new(one, "violations", json_integer((json_int_t)totals->violations));
    json_object_set_new(one, "agent_steps", json_integer((json_int_t)totals->agent_steps));
    json_object_set_new(one, "reward_per_100_steps",
                        aw_json_real(REWARD_STEPS * totals->reward / n));
    return one;
}

enum aw_err aw__trial_print_json(const struct aw__trial *trial, struct aw_diag *diag)
{
    json_t *root = json_object(), *list = json_array();
    for (uint32_t i = 0; i < trial->ask.count; i++) {
        json_t *one = json_object(), *policies = json_array();
        json_object_set_new(one, "name", json_string(trial->ask.workload[i].pilot.name));
        json_object_set_new(one, "bootstrap", learned_json(&trial->learned[AW__TRIAL_FALLBACK][i]));
        json_object_set_new(one, "adapt", learned_json(&trial->learned[AW__TRIAL_ADAPTED][i]));
        for (uint32_t a = 0; a < AW__TRIAL_ARMS; a++)
            json_array_append_new(policies, policy_json(trial, (enum aw__trial_arm)a, i));
        json_object_set_new(one, "policies", policies);
        json_array_append_new(list, one);
    }
    json_object_set_new(root, "fallback", json_string(trial->ask.fallback));
    json_object_set_new(root, "speed", aw_json_real(trial->ask.speed));
    json_object_set_new(root, "step_s", aw_json_real(trial->ask.step_s));
    json_object_set_new(root, "episode_steps",
                        json_integer(trial->ask.workload[0].pilot.episode_steps));
    json_object_set_new(root, "bootstrap_episodes", json_integer(trial->bootstrap));
    json_object_set_new(root, "adapt_episodes", json_integer(trial->adapt));
    json_object_set_new(root, "steps", json_integer(trial->steps));
    json_object_set_new(root, "warm_steps", json_integer(trial->warm));
    json_object_set_new(root, "repeats", json_integer(trial->repeats));
    json_object_set_new(root, "load", *trial->load ? json_string(trial->load) : json_null());
    json_object_set_new(root, "seed", json_integer((json_int_t)trial->ask.seed));
    json_object_set_new(root, "source", json_string(AW_VERSION_SOURCE));
    json_object_set_new(root, "seconds", aw_json_real(trial->seconds));
    json_object_set_new(root, "workloads", list);
    return aw_json_print(root, diag);
}
