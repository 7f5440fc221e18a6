/*
 * run_summary.c - the end of a run: AWARE against the fallback alone on the same load, in words
 * that are true whoever won.
 */
#include "cli/run.h"

#include "base/quantity.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVEN         0.005 /* of a ratio: nearer to 1 is as good as equal */
#define CLIPS_TOLD   6u    /* rails named in words; all are in the JSON */
#define OVER_TOLD    4u    /* workloads over their own budget */
#define SENTENCE_MAX 512u

/* Both worlds over one part of a run. */
struct part {
    struct aw_totals totals[AW_JOB_WORLDS];
};

static void part_add(struct part *into, const struct aw_totals from[AW_JOB_WORLDS], int sign)
{
    for (int w = 0; w < AW_JOB_WORLDS; w++)
        aw_totals_add(&into->totals[w], &from[w], sign);
}

/* The whole run, until each workload first served, and after that. */
enum { WHOLE, BEFORE, AFTER, PARTS };
static const char *const part_names[PARTS] = {"whole", "until_serving", "after"};

static void parts_of(const struct aw_job_view *view, struct part parts[PARTS])
{
    part_add(&parts[WHOLE], view->total, 1);
    part_add(&parts[BEFORE], view->before_serving, 1);
    part_add(&parts[AFTER], view->total, 1);
    part_add(&parts[AFTER], view->before_serving, -1);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static double missed_share(const struct aw_totals *totals)
{
    return share((double)totals->violations, (double)totals->steps);
}

/* --- words ------------------------------------------------------------------------------------ */

/* "spent 12 % less than hpa+vpa-mem alone on the same load". */
static void say_cost(struct aw_text *text, const struct part *part, const char *fallback)
{
    const double ratio = aw__run_cost_ratio(part->totals);
    if (isnan(ratio))
        aw_text_add(text, "spent $%.3f", part->totals[AW_JOB_AWARE].cost);
    else if (fabs(ratio - 1) < EVEN)
        aw_text_add(text, "spent as much as %s alone on the same load", fallback);
    else
        aw_text_add(text, "spent %.1f %% %s than %s alone on the same load", 100 * fabs(ratio - 1),
                    ratio < 1 ? "less" : "more", fallback);
}

/* "missed the SLO less often: in 0.41 % of steps instead of 0.62 % (123 instead of 186)". */
static void say_missed(struct aw_text *text, const struct part *part)
{
    const struct aw_totals *own = &part->totals[AW_JOB_AWARE], *twin = &part->totals[AW_JOB_TWIN];
    if (own->violations == twin->violations)
        aw_text_add(text, "missed the SLO as often: in %.2f %% of steps (%" PRIu64 ")",
                    100 * missed_share(own), own->violations);
    else
        aw_text_add(text,
                    "missed the SLO %s often: in %.2f %% of steps instead of %.2f %% (%" PRIu64
                    " instead of %" PRIu64 ")",
                    own->violations < twin->violations ? "less" : "more", 100 * missed_share(own),
                    100 * missed_share(twin), own->violations, twin->violations);
}

/* The share of steps that may miss the SLO, where all workloads have the same; 0: they differ. */
static double budget_of(const struct aw_daemon_config *ask)
{
    const double budget = ask->workload[0].pilot.slo_budget;
    for (uint32_t i = 1; i < ask->count; i++) {
        if (ask->workload[i].pilot.slo_budget != budget)
            return 0;
    }
    return budget;
}

static void say_part(struct aw_text *text, const struct aw_daemon_config *ask,
                     const struct part *part, const char *when)
{
    const struct aw_totals *own = &part->totals[AW_JOB_AWARE];
    aw_text_add(text, "%s AWARE ", when);
    say_cost(text, part, ask->fallback);
    if (ask->twin) {
        const double ratio = aw__run_cost_ratio(part->totals);
        const bool cheaper = ratio<1 - EVEN, dearer = ratio> 1 + EVEN;
        const uint64_t twin = part->totals[AW_JOB_TWIN].violations;
        const bool torn = (cheaper && own->violations > twin) || (dearer && own->violations < twin);
        aw_text_add(text, torn ? ", but " : " and ");
        say_missed(text, part);
    } else {
        aw_text_add(text, " and missed the SLO in %.2f %% of steps (%" PRIu64 ")",
                    100 * missed_share(own), own->violations);
    }
    if (budget_of(ask) > 0)
        aw_text_add(text, "; the budget is %g %%", 100 * budget_of(ask));
    aw_text_add(text, ".");
}

/* How often in a day of a workload. */
static double per_day(const struct aw_daemon_config *ask, uint64_t events,
                      const struct aw_totals *totals)
{
    return share(86400 * (double)events, (double)totals->steps * ask->step_s);
}

/* "It changed the number of replicas 26 times a day per workload (hpa+vpa-mem 31), and removed none
 * within five minutes of adding it." */
static void say_changes(struct aw_text *text, const struct aw_daemon_config *ask,
                        const struct part *part)
{
    const struct aw_totals *own = &part->totals[AW_JOB_AWARE], *twin = &part->totals[AW_JOB_TWIN];
    const uint64_t back = own->reversals_down;
    aw_text_add(text, "It changed the number of replicas %.0f times a day per workload",
                per_day(ask, own->replica_changes, own));
    if (ask->twin)
        aw_text_add(text, " (%s %.0f)", ask->fallback, per_day(ask, twin->replica_changes, twin));
    if (back == 0)
        aw_text_add(text, ", and removed none within five minutes of adding it.");
    else
        aw_text_add(text, "; %" PRIu64 " time%s it removed one within five minutes of adding it.",
                    back, back == 1 ? "" : "s");
}

/* "Over its own budget: uploads (1.02 % of 1 %)." The mean of all may hide it. */
static void say_over(struct aw_text *text, const struct aw__runend *end)
{
    uint32_t over = 0;
    for (uint32_t i = 0; i < end->ask->count; i++) {
        const double budget = end->ask->workload[i].pilot.slo_budget;
        struct aw_job_view view;
        aw_job_view(end->job, i, &view);
        const double missed = missed_share(&view.total[AW_JOB_AWARE]);
        if (end->ask->count < 2 || !(missed > budget) || over++ >= OVER_TOLD)
            continue;
        aw_text_add(text, "%s%s (%.2f %% of %g %%)", over == 1 ? "Over its own SLO budget: " : ", ",
                    aw_run_name(view.name), 100 * missed, 100 * budget);
    }
    if (over > OVER_TOLD)
        aw_text_add(text, " and %" PRIu32 " more", over - OVER_TOLD);
    if (over)
        aw_text_add(text, ".");
}

static void say_rails(struct aw_text *text, const struct aw_history_counts *all)
{
    bool told[AW_CLIP_COUNT] = {false};
    aw_text_add(text,
                "Guard rails limited %" PRIu64 " of %" PRIu64 " decisions, some several times",
                all->clipped, all->decisions);
    for (uint32_t n = 0; n < CLIPS_TOLD; n++) {
        uint32_t most = AW_CLIP_COUNT;
        for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
            if (!told[c] && all->clips[c] > 0 &&
                (most == AW_CLIP_COUNT || all->clips[c] > all->clips[most]))
                most = c;
        }
        if (most == AW_CLIP_COUNT)
            break;
        told[most] = true;
        aw_text_add(text, "%s%s %" PRIu64, n ? ", " : ": ", aw_clip_name((enum aw_clip)most),
                    all->clips[most]);
    }
    aw_text_add(text, ".");
}

static uint64_t trips_of(const struct aw_history_counts *counts)
{
    uint64_t trips = 0;
    for (uint32_t c = 0; c < AW_WATCHDOG_CAUSE_COUNT; c++)
        trips += counts->trips[c];
    return trips;
}

static void say_watchdog(struct aw_text *text, const struct aw_history_counts *all)
{
    const uint64_t trips = trips_of(all);
    const char *separator = ": ";
    if (trips == 0) {
        aw_text_add(text, "The watchdog never had to take over.");
    } else {
        aw_text_add(text, "The watchdog took over %" PRIu64 " time%s", trips,
                    trips == 1 ? "" : "s");
        for (uint32_t c = 0; c < AW_WATCHDOG_CAUSE_COUNT; c++) {
            if (all->trips[c] == 0)
                continue;
            aw_text_add(text, "%s%s %" PRIu64, separator,
                        aw_watchdog_cause_name((enum aw_watchdog_cause)c), all->trips[c]);
            separator = ", ";
        }
        aw_text_add(text, "; the fallback acted in its stead for %" PRIu64 " decisions.",
                    all->held);
    }
}

/* --- the table -------------------------------------------------------------------------------- */

/* Where a terminal is narrow the highest rank goes first; a pipe has every column. */
/* clang-format off */
static const struct aw_grid_column columns[] = {
    /*               right  rank  wide  least */
    {"WORKLOAD",     false, 0,    false, 12},
    {"STAGE",        false, 3,    false, 0},
    {"SERVING AT",   true,  7,    false, 0},
    {"COST",         true,  1,    false, 0},
    {"ONCE SERVED",  true,  8,    false, 0},
    {"SLO MISSED",   true,  1,    false, 0},
    {"ONCE SERVED",  true,  9,    false, 0},
    {"CHANGES/DAY",  true,  2,    false, 0},
    {"TAKEN BACK",   true,  4,    false, 0},
    {"REWARD",       true,  10,   false, 0},
    {"CPU USED",     true,  6,    false, 0},
    {"MEMORY USED",  true,  6,    false, 0},
    {"TRIPS",        true,  5,    false, 0},
    {NULL,           false, 0,    false, 0},
};
/* clang-format on */

/* "0.82 / 0.31 %": AWARE's and, where there is one, the twin's. */
static void both_add(struct aw_grid *grid, bool twin, int digits, double own, double other,
                     const char *unit)
{
    if (isnan(own))
        aw_grid_add(grid, AW_TONE_PLAIN, "-");
    else if (twin)
        aw_grid_add(grid, AW_TONE_PLAIN, "%.*f / %.*f%s", digits, own, digits, other, unit);
    else
        aw_grid_add(grid, AW_TONE_PLAIN, "%.*f%s", digits, own, unit);
}

static void cells_of(struct aw_grid *grid, const struct aw_daemon_config *ask,
                     const struct part parts[PARTS], uint32_t episode_steps)
{
    const struct aw_totals *own = &parts[WHOLE].totals[AW_JOB_AWARE];
    const struct aw_totals *twin = &parts[WHOLE].totals[AW_JOB_TWIN];
    const struct aw_totals *after = parts[AFTER].totals;
    const double steps = own->steps ? (double)own->steps : 1;
    const double ratio = aw__run_cost_ratio(after);
    char text[32];
    if (ask->twin)
        aw_grid_add(grid, AW_TONE_PLAIN, "%.2fx", aw__run_cost_ratio(parts[WHOLE].totals));
    else
        aw_grid_add(grid, AW_TONE_PLAIN, "$%.3f", own->cost);
    snprintf(text, sizeof text, "%.2fx", ratio);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", !ask->twin || isnan(ratio) ? "-" : text);
    both_add(grid, ask->twin, 2, 100 * missed_share(own), 100 * missed_share(twin), " %");
    both_add(grid, ask->twin, 2, ask->twin ? 100 * missed_share(&after[AW_JOB_AWARE]) : NAN,
             100 * missed_share(&after[AW_JOB_TWIN]), " %");
    both_add(grid, ask->twin, 0, per_day(ask, own->replica_changes, own),
             per_day(ask, twin->replica_changes, twin), "");
    both_add(grid, ask->twin, 0, (double)own->reversals_down, (double)twin->reversals_down, "");
    both_add(grid, ask->twin, 1, aw__run_reward(own, episode_steps),
             aw__run_reward(twin, episode_steps), "");
    both_add(grid, ask->twin, 0, 100 * own->cpu_utilisation / steps,
             100 * twin->cpu_utilisation / steps, " %");
    both_add(grid, ask->twin, 0, 100 * own->memory_utilisation / steps,
             100 * twin->memory_utilisation / steps, " %");
}

static enum aw_err table_print(const struct aw_call *run, const struct aw__runend *end,
                               const struct part all[PARTS], struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = end->ask;
    struct aw_grid grid;
    char clock[AW_RUN_CLOCK_MAX];
    uint32_t serving = 0, served = 0;
    uint64_t trips = 0;
    aw_grid_init(&grid, columns);
    for (uint32_t c = 0; columns[c].head; c++)
        if (!ask->twin && !strcmp(columns[c].head, "ONCE SERVED"))
            aw_grid_spare(&grid, c);
    for (uint32_t i = 0; i < ask->count; i++) {
        struct aw_job_view view;
        struct part parts[PARTS] = {0};
        aw_job_view(end->job, i, &view);
        parts_of(&view, parts);
        const enum aw_stage stage = aw_pilot_stage(view.pilot);
        serving += stage == AW_STAGE_SERVING;
        served += view.serving_us != AW_NEVER;
        trips += trips_of(&end->history->counts[i]);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw_run_name(view.name));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw_stage_name(stage));
        aw_grid_add(
            &grid, AW_TONE_PLAIN, "%s",
            view.serving_us == AW_NEVER ? "-" : aw_run_clock(view.serving_us, clock, sizeof clock));
        cells_of(&grid, ask, parts, ask->workload[i].pilot.episode_steps);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%" PRIu64, trips_of(&end->history->counts[i]));
    }
    if (ask->count > 1) {
        aw_grid_add(&grid, AW_TONE_PLAIN, "all");
        aw_grid_add(&grid, AW_TONE_PLAIN, "%" PRIu32 "/%" PRIu32 " serve", serving, ask->count);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%" PRIu32 "/%" PRIu32, served, ask->count);
        cells_of(&grid, ask, all, ask->workload[0].pilot.episode_steps);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%" PRIu64, trips);
    }
    const struct aw_grid_look look = {.width = isatty(STDOUT_FILENO) ? aw_columns(stdout) : 0,
                                      .heads = true,
                                      .color = run->color_out,
                                      .end = "\n"};
    return aw_grid_print(&grid, stdout, &look, diag);
}

/* What became of real requests in this session: as who sent them and as replicas saw it. */
static enum aw_err requests_print(const struct aw_call *run, const struct aw__runend *end,
                                  struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD", ">REQUESTS", ">FAILED", ">P99",
                                        ">INSIDE",  ">OOM",      NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < end->ask->count; i++) {
        const struct aw_drive_result *sent = &end->local->load[i].result;
        const double inside = aw_local_inside_us(end->local->local, i, 0.99);
        struct aw_job_view view;
        char p99[AW_QUANTITY_TEXT_MAX];
        aw_job_view(end->job, i, &view);
        aw_table_add(&table, "%s", aw_run_name(view.name));
        aw_table_add(&table, "%" PRIu64, sent->all.due);
        aw_table_add(&table, "%" PRIu64, aw_local_run_failed(&sent->all));
        aw_table_add(&table, "%s",
                     aw_duration_round((int64_t)aw_latency_histogram_quantile(&sent->latency, 0.99),
                                       p99, sizeof p99));
        aw_table_add(&table, "%s",
                     isfinite(inside) ? aw_duration_round((int64_t)inside, p99, sizeof p99) : "-");
        aw_table_add(&table, "%" PRIu64, view.total[AW_JOB_AWARE].oom_kills);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static void counts_sum(const struct aw__runend *end, struct aw_history_counts *ret)
{
    *ret = (struct aw_history_counts){0};
    for (uint32_t i = 0; i < end->ask->count; i++) {
        const struct aw_history_counts *c = &end->history->counts[i];
        ret->decisions += c->decisions;
        ret->changes += c->changes;
        ret->clipped += c->clipped;
        ret->held += c->held;
        for (uint32_t k = 0; k < AW_CLIP_COUNT; k++)
            ret->clips[k] += c->clips[k];
        for (uint32_t k = 0; k < AW_WATCHDOG_CAUSE_COUNT; k++)
            ret->trips[k] += c->trips[k];
        for (uint32_t k = 0; k < AW_STAGE_COUNT; k++)
            ret->stages[k] += c->stages[k];
    }
}

static void parts_sum(const struct aw__runend *end, struct part all[PARTS])
{
    for (uint32_t i = 0; i < end->ask->count; i++) {
        struct aw_job_view view;
        aw_job_view(end->job, i, &view);
        parts_of(&view, all);
    }
}

/* The sentences of a summary, one after the other; false: there are no more. */
static bool sentence(const struct aw__runend *end, uint32_t nth, char *buf, size_t size)
{
    const struct aw_daemon_config *ask = end->ask;
    struct part all[PARTS] = {0};
    struct aw_history_counts counts;
    struct aw_text text;
    parts_sum(end, all);
    counts_sum(end, &counts);
    aw_text_init(&text, buf, size);
    const bool served = all[AFTER].totals[AW_JOB_AWARE].steps > 0;
    switch (nth) {
    case 0:
        say_part(&text, ask, &all[WHOLE], "In all,");
        return true;
    case 1:
        if (served)
            say_part(&text, ask, &all[BEFORE], "Until they first served,");
        else
            aw_text_add(&text, "No workload has come to SERVING yet: the agent has not shown "
                               "itself better than the fallback, or there was too little time.");
        return true;
    case 2:
        if (served)
            say_part(&text, ask, &all[AFTER], "From then on,");
        return true;
    case 3:
        say_over(&text, end);
        return true;
    case 4:
        say_changes(&text, ask, &all[WHOLE]);
        return true;
    case 5:
        say_watchdog(&text, &counts);
        return true;
    case 6:
        say_rails(&text, &counts);
        return true;
    default:
        return false;
    }
}

void aw__runsummary_words(const struct aw__runend *end, void (*put)(FILE *out, const char *text),
                          FILE *out)
{
    char buf[SENTENCE_MAX];
    bool first = true;
    for (uint32_t n = 0; sentence(end, n, buf, sizeof buf); n++) {
        if (!*buf)
            continue;
        fputs(first ? "" : ",", out);
        put(out, buf);
        first = false;
    }
}

enum aw_err aw__runsummary_print(const struct aw_call *run, const struct aw__runend *end,
                                 struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = end->ask;
    struct part all[PARTS] = {0};
    char clock[AW_RUN_CLOCK_MAX], seconds[32], buf[SENTENCE_MAX];
    const unsigned columns_ = aw_columns(stdout), width = columns_ < 100 ? columns_ : 100;
    parts_sum(end, all);
    printf("\n%" PRIu32 " workload%s, %s %s%s, %s of real time\n", ask->count,
           ask->count == 1 ? "" : "s", aw_run_clock(aw_job_lived_us(end->job), clock, sizeof clock),
           ask->local ? "of control" : "simulated", end->steps_before ? " in all" : "",
           aw_seconds_format(end->seconds, seconds, sizeof seconds));
    if (ask->twin)
        snprintf(
            buf, sizeof buf,
            "AWARE / %s alone, on the same load and chance; COST is AWARE's over the fallback's",
            ask->fallback);
    if (ask->twin)
        aw_wrap(stdout, buf, 0, 0, width);
    putchar('\n');
    enum aw_err err = table_print(run, end, all, diag);
    if (!err && end->local) {
        putchar('\n');
        err = requests_print(run, end, diag);
    }
    if (err)
        return err;
    putchar('\n');
    for (uint32_t n = 0; sentence(end, n, buf, sizeof buf); n++) {
        if (*buf)
            aw_wrap(stdout, buf, 0, 0, width);
    }
    if (*ask->report)
        printf("Plots: %s\n", ask->report);
    if (*ask->state && aw_daemon_config_keeps(ask))
        printf("Kept in %s: the same command with a longer --duration goes on.\n", ask->state);
    return AW_OK;
}

/* --- for programs ----------------------------------------------------------------------------- */

static json_t *totals_json(const struct aw_totals *totals)
{
    json_t *object = json_object();
    const double steps = totals->steps ? (double)totals->steps : NAN;
    json_object_set_new(object, "steps", json_integer((json_int_t)totals->steps));
    json_object_set_new(object, "violations", json_integer((json_int_t)totals->violations));
    json_object_set_new(object, "agent_steps", json_integer((json_int_t)totals->agent_steps));
    json_object_set_new(object, "cost", aw_json_real(totals->cost));
    json_object_set_new(object, "reward_per_step", aw_json_real(totals->reward / steps));
    json_object_set_new(object, "cpu_utilization", aw_json_real(totals->cpu_utilisation / steps));
    json_object_set_new(object, "memory_utilization",
                        aw_json_real(totals->memory_utilisation / steps));
    json_object_set_new(object, "requests", aw_json_real(totals->requests));
    json_object_set_new(object, "failed", aw_json_real(totals->failed));
    json_object_set_new(object, "core_hours", aw_json_real(totals->core_s / 3600));
    json_object_set_new(object, "gib_hours", aw_json_real(totals->gib_s / 3600));
    json_object_set_new(object, "replica_hours", aw_json_real(totals->replica_s / 3600));
    json_object_set_new(object, "replica_changes",
                        json_integer((json_int_t)totals->replica_changes));
    json_object_set_new(object, "replicas_removed_within_5m",
                        json_integer((json_int_t)totals->reversals_down));
    json_object_set_new(object, "replicas_added_within_5m",
                        json_integer((json_int_t)totals->reversals_up));
    json_object_set_new(object, "oom_kills", json_integer((json_int_t)totals->oom_kills));
    json_object_set_new(object, "restarts", json_integer((json_int_t)totals->restarts));
    return object;
}

static void parts_json(json_t *object, const struct aw_daemon_config *ask,
                       const struct part parts[PARTS])
{
    for (int p = 0; p < PARTS; p++) {
        json_t *both = json_object();
        json_object_set_new(both, "aware", totals_json(&parts[p].totals[AW_JOB_AWARE]));
        if (ask->twin) {
            json_object_set_new(both, "fallback", totals_json(&parts[p].totals[AW_JOB_TWIN]));
            json_object_set_new(both, "cost_ratio",
                                aw_json_real(aw__run_cost_ratio(parts[p].totals)));
        }
        json_object_set_new(object, part_names[p], both);
    }
}

static void counts_json(json_t *object, const struct aw_history_counts *counts)
{
    json_t *clips = json_object(), *trips = json_object();
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
        if (counts->clips[c])
            json_object_set_new(clips, aw_clip_name((enum aw_clip)c),
                                json_integer((json_int_t)counts->clips[c]));
    }
    for (uint32_t c = 0; c < AW_WATCHDOG_CAUSE_COUNT; c++) {
        if (counts->trips[c])
            json_object_set_new(trips, aw_watchdog_cause_name((enum aw_watchdog_cause)c),
                                json_integer((json_int_t)counts->trips[c]));
    }
    json_object_set_new(object, "decisions", json_integer((json_int_t)counts->decisions));
    json_object_set_new(object, "changes", json_integer((json_int_t)counts->changes));
    json_object_set_new(object, "clipped", json_integer((json_int_t)counts->clipped));
    json_object_set_new(object, "clips", clips);
    json_object_set_new(object, "trips", trips);
    json_object_set_new(object, "held", json_integer((json_int_t)counts->held));
}

static json_t *requests_json(const struct aw__runend *end, uint32_t i)
{
    const struct aw_drive_result *sent = &end->local->load[i].result;
    struct aw_local *local = end->local->local;
    struct aw_local_requests seen;
    json_t *object = json_object();
    aw_local_requests(local, i, &seen);
    json_object_set_new(object, "sent", json_integer((json_int_t)sent->all.due));
    json_object_set_new(object, "ok", json_integer((json_int_t)sent->all.ok));
    json_object_set_new(object, "failed",
                        json_integer((json_int_t)aw_local_run_failed(&sent->all)));
    json_object_set_new(object, "lost", json_integer((json_int_t)seen.lost));
    json_object_set_new(object, "retries", json_integer((json_int_t)seen.retries));
    json_object_set_new(object, "latency_us_p99",
                        aw_json_real((double)aw_latency_histogram_quantile(&sent->latency, 0.99)));
    json_object_set_new(object, "inside_us_p50", aw_json_real(aw_local_inside_us(local, i, 0.5)));
    json_object_set_new(object, "inside_us_p99", aw_json_real(aw_local_inside_us(local, i, 0.99)));
    return object;
}

enum aw_err aw__runsummary_json(const struct aw__runend *end, struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = end->ask;
    struct part all[PARTS] = {0};
    struct aw_history_counts counts;
    json_t *object = json_object(), *list = json_array(), *sum = json_object();
    parts_sum(end, all);
    counts_sum(end, &counts);
    json_object_set_new(object, "type", json_string("summary"));
    json_object_set_new(object, "simulated_s",
                        aw_json_real(1e-6 * (double)aw_job_lived_us(end->job)));
    json_object_set_new(object, "interrupted", json_boolean(end->interrupted));
    for (uint32_t i = 0; i < ask->count; i++) {
        struct aw_job_view view;
        struct part parts[PARTS] = {0};
        json_t *entry = json_object();
        aw_job_view(end->job, i, &view);
        parts_of(&view, parts);
        json_object_set_new(entry, "workload", json_string(view.name));
        json_object_set_new(entry, "stage", json_string(aw_stage_name(aw_pilot_stage(view.pilot))));
        json_object_set_new(entry, "episodes", json_integer(view.episodes));
        json_object_set_new(entry, "transitions", json_integer(view.transitions));
        json_object_set_new(
            entry, "serving_s",
            view.serving_us == AW_NEVER ? json_null() : json_real(1e-6 * (double)view.serving_us));
        parts_json(entry, ask, parts);
        counts_json(entry, &end->history->counts[i]);
        if (end->local)
            json_object_set_new(entry, "requests", requests_json(end, i));
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "workloads", list);
    parts_json(sum, ask, all);
    counts_json(sum, &counts);
    json_object_set_new(object, "all", sum);
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(object);
    if (!line)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the summary");
    puts(line);
    free(line);
    return AW_OK;
}
