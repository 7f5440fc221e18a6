/* evaluate_print.c - the tables of `evaluate` for people, for pages, as JSON and as CSV. */
#include "lab/evaluate.h"
#include "lab/evaluate_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"

/* --- converged -------------------------------------------------------------------------------- */

static enum aw_err converged_who(const struct aw_call *run, const struct aw__evaluate *ask,
                                 const struct aw_evaluate_converged_sum *sum, struct aw_diag *diag)
{
    static const char *const heads[] = {"WHO",         AW__EVALUATE_HEADS, ">WITHIN BUDGET",
                                        ">COST RATIO", ">CHOSEN",          NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t row = 0; row <= AW_EVALUATE_WHO_COUNT; row++) {
        /* after AWARE the best of each application, then every baseline */
        const bool best = row == 1;
        const uint32_t who = row ? row - 1 : AW_EVALUATE_AWARE;
        if (!best && who == AW_EVALUATE_ORACLE && !ask->config.ceiling)
            continue;
        const struct aw_evaluate_means m =
            aw__evaluate_means(ask, best ? &sum->best : &sum->total[who]);
        aw_table_add(&table, "%s", best ? "best tuned baseline" : aw_evaluate_who_names[who]);
        aw__evaluate_cells_add(&table, &m);
        aw_table_add(&table, "%" PRIu32 " of %" PRIu32, best ? sum->best_within : sum->within[who],
                     ask->count);
        aw_table_add(&table, "%.3f", best ? 1 : sum->cost_ratio[who]);
        if (best || who == AW_EVALUATE_AWARE || who == AW_EVALUATE_ORACLE)
            aw_table_add(&table, "-");
        else
            aw_table_add(&table, "%" PRIu32, sum->chosen[who]);
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static enum aw_err converged_quarters(const struct aw_call *run, const struct aw__evaluate *ask,
                                      const struct aw_evaluate_converged_sum *sum,
                                      struct aw_diag *diag)
{
    static const char *const heads[] = {"MISSED, BY QUARTER", ">1ST", ">2ND", ">3RD", ">4TH", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t row = 0; row < 2; row++) {
        aw_table_add(&table, "%s", row ? "best tuned baseline" : "aware");
        for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++) {
            const struct aw_evaluate_means m = aw__evaluate_means(
                ask, row ? &sum->best_quarter[q] : &sum->quarter[AW_EVALUATE_AWARE][q]);
            aw_table_add(&table, "%.2f %%", 100 * m.violation_share);
        }
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static enum aw_err converged_apps(const struct aw_call *run, const struct aw__evaluate *ask,
                                  const struct aw_evaluate_converged *rows, struct aw_diag *diag)
{
    static const char *const heads[] = {">APP",
                                        "BEST BASELINE",
                                        ">ITS $/H",
                                        ">ITS MISSED",
                                        ">AWARE $/H",
                                        ">MISSED",
                                        ">RATIO",
                                        ">CEILING $/H",
                                        ">SERVING FROM EPISODE",
                                        "CHEAPER, SLO NO WORSE",
                                        NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct aw_evaluate_converged *row = &rows[i];
        const struct aw_evaluate_means aware =
            aw__evaluate_means(ask, &row->reported[AW_EVALUATE_AWARE]);
        const struct aw_evaluate_means best = aw__evaluate_means(ask, &row->reported[row->best]);
        const struct aw_evaluate_means ceiling =
            aw__evaluate_means(ask, &row->reported[AW_EVALUATE_ORACLE]);
        char text[32];
        aw_table_add(&table, "%" PRIu32, row->index);
        aw_table_add(&table, "%s", aw_evaluate_who_names[row->best]);
        aw_table_add(&table, "%.4f", best.cost_per_hour);
        aw_table_add(&table, "%.2f %%", 100 * best.violation_share);
        aw_table_add(&table, "%.4f", aware.cost_per_hour);
        aw_table_add(&table, "%.2f %%", 100 * aware.violation_share);
        aw_table_add(&table, "%.3f", aware.cost_per_hour / best.cost_per_hour);
        aw_table_add(&table, "%s", aw_figure_format(ceiling.cost_per_hour, text, sizeof text));
        aw_table_add(&table, "%s", aw_figure_format(row->serving_episode, text, sizeof text));
        aw_table_add(&table, "%s, %s", row->cheaper ? "yes" : "no",
                     row->no_worse_slo ? "yes" : "no");
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

/* What AWARE's authors state in words (sections 2.3, 5.3 and 5.4); their figures 9 and 10 have bars
 * without numbers. */
static enum aw_err converged_paper(const struct aw_call *run, const struct aw__evaluate *ask,
                                   const struct aw_evaluate_converged_sum *sum,
                                   struct aw_diag *diag)
{
    static const char *const heads[] = {"FIGURE", ">PAPER", ">HERE", NULL};
    const struct aw_evaluate_means rule = aw__evaluate_means(ask, &sum->total[AW_EVALUATE_HPA_VPA]);
    const struct aw_evaluate_means aware = aw__evaluate_means(ask, &sum->total[AW_EVALUATE_AWARE]);
    struct aw_table table;
    aw_table_init(&table, heads);
    aw_table_add(&table, "reward per episode, HPA+VPA");
    aw_table_add(&table, "about 130");
    aw_table_add(&table, "%.1f", rule.reward);
    aw_table_add(&table, "reward per episode, AWARE");
    aw_table_add(&table, "about 190 (5 is 2.6 %% of it)");
    aw_table_add(&table, "%.1f", aware.reward);
    aw_table_add(&table, "SLO violations in 100 episodes, HPA+VPA");
    aw_table_add(&table, "5");
    aw_table_add(&table, "%.0f", 1e4 * rule.violation_share);
    aw_table_add(&table, "SLO violations in 100 episodes, AWARE");
    aw_table_add(&table, "-");
    aw_table_add(&table, "%.0f", 1e4 * aware.violation_share);
    aw_table_add(&table, "CPU utilization of AWARE over HPA+VPA");
    aw_table_add(&table, "-");
    aw_table_add(&table, "%+.1f %%", 100 * (aware.cpu_utilization / rule.cpu_utilization - 1));
    aw_table_add(&table, "memory utilization of AWARE over HPA+VPA");
    aw_table_add(&table, "-");
    aw_table_add(&table, "%+.1f %%",
                 100 * (aware.memory_utilization / rule.memory_utilization - 1));
    aw__evaluate_title(ask, "Beside the paper");
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static json_t *converged_json(const struct aw__evaluate *ask,
                              const struct aw_evaluate_converged *rows,
                              const struct aw_evaluate_converged_sum *sum)
{
    json_t *object = aw__evaluate_head_json(ask, sum->goal, sum->goal_count), *all = json_object(),
           *apps = json_array();
    json_object_set_new(object, "win_share", aw_json_real(sum->win_share));
    json_object_set_new(object, "cost_ratio", aw_json_real(sum->cost_ratio[AW_EVALUATE_AWARE]));
    json_object_set_new(object, "cost_ratio_95", aw__evaluate_interval_json(&sum->ratio_interval));
    json_object_set_new(object, "hindsight_win_share", aw_json_real(sum->hindsight_share));
    json_object_set_new(object, "hindsight_cost_ratio", aw_json_real(sum->hindsight_ratio));
    json_object_set_new(object, "hindsight_cost_ratio_95",
                        aw__evaluate_interval_json(&sum->hindsight_interval));
    json_object_set_new(object, "gap_closed", aw_json_real(sum->gap_closed));
    json_object_set_new(object, "served_share", aw_json_real(sum->served_share));
    for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++) {
        json_t *entry = aw__evaluate_totals_json(ask, &sum->total[who]);
        json_object_set_new(entry, "within_budget", json_integer(sum->within[who]));
        json_object_set_new(entry, "cost_ratio", aw_json_real(sum->cost_ratio[who]));
        json_object_set_new(entry, "chosen", json_integer(sum->chosen[who]));
        json_object_set_new(entry, "quarters", aw__evaluate_quarters_json(ask, sum->quarter[who]));
        json_object_set_new(all, aw_evaluate_who_names[who], entry);
    }
    json_object_set_new(object, "all", all);
    for (uint32_t i = 0; i < ask->count; i++) {
        json_t *entry = json_object(), *by = json_object(), *learned = json_object();
        json_object_set_new(entry, "index", json_integer(rows[i].index));
        json_object_set_new(entry, "app", json_string(rows[i].app));
        json_object_set_new(entry, "best", json_string(aw_evaluate_who_names[rows[i].best]));
        json_object_set_new(entry, "best_in_hindsight",
                            json_string(aw_evaluate_who_names[rows[i].hindsight]));
        json_object_set_new(entry, "cheaper", json_boolean(rows[i].cheaper));
        json_object_set_new(entry, "no_worse_slo", json_boolean(rows[i].no_worse_slo));
        json_object_set_new(entry, "served", json_integer(rows[i].served));
        json_object_set_new(entry, "serving_episode", aw_json_real(rows[i].serving_episode));
        for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++) {
            json_object_set_new(by, aw_evaluate_who_names[who],
                                aw__evaluate_totals_json(ask, &rows[i].reported[who]));
            if (rows[i].learned[who].steps)
                json_object_set_new(learned, aw_evaluate_who_names[who],
                                    aw__evaluate_totals_json(ask, &rows[i].learned[who]));
        }
        json_object_set_new(entry, "reported", by);
        json_object_set_new(entry, "tuned_on", learned);
        json_array_append_new(apps, entry);
    }
    json_object_set_new(object, "apps", apps);
    return object;
}

enum aw_err aw__evaluate_print_converged(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_converged *rows,
                                         const struct aw_evaluate_converged_sum *sum,
                                         struct aw_diag *diag)
{
    if (ask->format == AW__EVALUATE_JSON)
        return aw_json_print(converged_json(ask, rows, sum), diag);
    if (ask->format == AW__EVALUATE_CSV) {
        printf("app,who,best,half," AW__EVALUATE_CSV_HEADS "\n");
        for (uint32_t i = 0; i < ask->count; i++) {
            for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++) {
                for (uint32_t half = 0; half < 2; half++) {
                    const struct aw_totals *totals =
                        half ? &rows[i].reported[who] : &rows[i].learned[who];
                    if (totals->steps == 0)
                        continue;
                    printf("%" PRIu32 ",%s,%d,%s,", rows[i].index, aw_evaluate_who_names[who],
                           who == rows[i].best, half ? "reported" : "tuned");
                    aw__evaluate_csv_totals(ask, totals);
                }
            }
        }
        return AW_OK;
    }
    aw__evaluate_head_print(ask);
    enum aw_err err = converged_who(run, ask, sum, diag);
    if (err)
        return err;
    printf("Cheaper at no more violations than max(budget, best tuned baseline): %.0f %% of "
           "applications.\n"
           "Cost over the best tuned baseline's, geometric mean: %.3f (95 %%: %.3f to %.3f).\n",
           100 * sum->win_share, sum->cost_ratio[AW_EVALUATE_AWARE], sum->ratio_interval.low,
           sum->ratio_interval.high);
    printf("Against the baseline that turned out best on the reported half: %.0f %% of "
           "applications, %.3f (95 %%: %.3f to %.3f).\n",
           100 * sum->hindsight_share, sum->hindsight_ratio, sum->hindsight_interval.low,
           sum->hindsight_interval.high);
    if (ask->config.ceiling)
        printf("Of the way in log cost from there to the ceiling: %.0f %%.\n",
               100 * sum->gap_closed);
    printf("SERVING when the reported half began: %.0f %% of runs.\n\n", 100 * sum->served_share);
    if ((err = converged_quarters(run, ask, sum, diag)) ||
        (err = aw__evaluate_goals_print(run, ask, sum->goal, sum->goal_count, diag)) ||
        (ask->paper && (err = converged_paper(run, ask, sum, diag))))
        return err;
    return converged_apps(run, ask, rows, diag);
}

/* --- bootstrap -------------------------------------------------------------------------------- */

static const char *const start_names[] = {"AWARE", "without bootstrapping"};

static enum aw_err bootstrap_before(const struct aw_call *run, const struct aw__evaluate *ask,
                                    const struct aw_evaluate_bootstrap_sum *sum,
                                    struct aw_diag *diag)
{
    static const char *const heads[] = {"FALLBACK",    "WHO",          AW__EVALUATE_HEADS,
                                        ">VIOLATIONS", ">TO FALLBACK", NULL};
    struct aw_table table;
    char text[32];
    aw_table_init(&table, heads);
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        for (uint32_t k = 0; k <= AW_EVALUATE_STARTS; k++) {
            const bool twin = k == AW_EVALUATE_STARTS;
            const struct aw_totals *totals = twin ? &sum->by[f].twin : &sum->by[f].before[k];
            const struct aw_evaluate_means m = aw__evaluate_means(ask, totals);
            aw_table_add(&table, "%s", aw_evaluate_fallback_names[f]);
            aw_table_add(&table, "%s", twin ? "fallback alone" : start_names[k]);
            aw__evaluate_cells_add(&table, &m);
            aw_table_add(&table, "%" PRIu64, totals->violations);
            aw__evaluate_ratio_format(twin ? 1 : sum->by[f].violation_ratio[k], text, sizeof text);
            aw_table_add(&table, "%s", text);
        }
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

/* Table 3 of the paper: 400 episodes in four segments. */
static const struct {
    const char *cpu, *memory, *violations;
} paper_segment[AW_EVALUATE_QUARTERS] = {
    {"-32.3 %", "-28.8 %", "56.1x"},
    {"-42.9 %", "-30.5 %", "22.2x"},
    {"-22.1 %", "-26.5 %", "12.7x"},
    {"-10.0 %", "-7.8 %", "10.1x"},
};

static enum aw_err bootstrap_segments(const struct aw_call *run, const struct aw__evaluate *ask,
                                      const struct aw_evaluate_bootstrap_sum *sum,
                                      struct aw_diag *diag)
{
    static const char *const heads[] = {"RELATIVE TO", "WHO",  "WHAT", ">1ST QUARTER",
                                        ">2ND",        ">3RD", ">4TH", NULL};
    static const char *const what[] = {"CPU utilization", "memory utilization", "SLO violations"};
    struct aw_table table;
    char text[32];
    aw_table_init(&table, heads);
    for (uint32_t w = 0; w < 3; w++) {
        aw_table_add(&table, "HPA+VPA, paper");
        aw_table_add(&table, "without bootstrapping");
        aw_table_add(&table, "%s", what[w]);
        for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
            aw_table_add(&table, "%s",
                         w == 0   ? paper_segment[q].cpu
                         : w == 1 ? paper_segment[q].memory
                                  : paper_segment[q].violations);
    }
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        for (uint32_t k = AW_EVALUATE_STARTS; k-- > 0;) {
            for (uint32_t w = 0; w < 3; w++) {
                aw_table_add(&table, "%s", aw_evaluate_fallback_names[f]);
                aw_table_add(&table, "%s", start_names[k]);
                aw_table_add(&table, "%s", what[w]);
                for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++) {
                    const struct aw_evaluate_means m =
                        aw__evaluate_means(ask, &sum->by[f].quarter[k][q]);
                    const struct aw_evaluate_means twin =
                        aw__evaluate_means(ask, &sum->by[f].twin_quarter[q]);
                    if (w < 2)
                        snprintf(text, sizeof text, "%+.1f %%",
                                 100 * (w ? m.memory_utilization / twin.memory_utilization - 1
                                          : m.cpu_utilization / twin.cpu_utilization - 1));
                    else
                        aw__evaluate_ratio_format(m.violation_share / twin.violation_share, text,
                                                  sizeof text);
                    aw_table_add(&table, "%s", text);
                }
            }
        }
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

/* Section 5.4: AWARE over the agent without bootstrapping, until the agent has converged. */
static enum aw_err bootstrap_paper(const struct aw_call *run, const struct aw__evaluate *ask,
                                   const struct aw_evaluate_bootstrap_sum *sum,
                                   struct aw_diag *diag)
{
    static const char *const heads[] = {"AWARE OVER THE AGENT WITHOUT BOOTSTRAPPING", ">PAPER",
                                        ">HERE, FROM HPA+VPA", ">FROM HPA+VPA-MEM", NULL};
    static const struct {
        const char *what, *paper;
    } row[] = {{"CPU utilization", "+47.5 %"},
               {"memory utilization", "+39.2 %"},
               {"reward per episode", "+47.3 %"},
               {"SLO violations, fewer by", "16.9x"}};
    struct aw_table table;
    char text[32];
    aw_table_init(&table, heads);
    for (uint32_t r = 0; r < sizeof row / sizeof *row; r++) {
        aw_table_add(&table, "%s", row[r].what);
        aw_table_add(&table, "%s", row[r].paper);
        for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
            const struct aw_evaluate_means with =
                aw__evaluate_means(ask, &sum->by[f].before[AW_EVALUATE_WITH]);
            const struct aw_evaluate_means without =
                aw__evaluate_means(ask, &sum->by[f].before[AW_EVALUATE_WITHOUT]);
            const double gain[] = {with.cpu_utilization / without.cpu_utilization,
                                   with.memory_utilization / without.memory_utilization,
                                   with.reward / without.reward};
            if (r < 3)
                snprintf(text, sizeof text, "%+.1f %%", 100 * (gain[r] - 1));
            else
                aw__evaluate_ratio_format(sum->by[f].without_ratio, text, sizeof text);
            aw_table_add(&table, "%s", text);
        }
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static enum aw_err bootstrap_apps(const struct aw_call *run, const struct aw__evaluate *ask,
                                  const struct aw_evaluate_bootstrap *rows, struct aw_diag *diag)
{
    static const char *const heads[] = {">APP",
                                        "FALLBACK",
                                        ">SERVING FROM EPISODE",
                                        ">AWARE MISSED",
                                        ">FALLBACK ALONE",
                                        ">RATIO",
                                        ">AWARE $/H",
                                        ">FALLBACK $/H",
                                        ">WITHOUT BOOTSTRAPPING",
                                        NULL};
    struct aw_table table;
    char text[32];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < ask->count; i++) {
        for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
            const struct aw_evaluate_means with =
                aw__evaluate_means(ask, &rows[i].by[f].before[AW_EVALUATE_WITH]);
            const struct aw_evaluate_means without =
                aw__evaluate_means(ask, &rows[i].by[f].before[AW_EVALUATE_WITHOUT]);
            const struct aw_evaluate_means twin = aw__evaluate_means(ask, &rows[i].by[f].twin);
            aw_table_add(&table, "%" PRIu32, rows[i].index);
            aw_table_add(&table, "%s", aw_evaluate_fallback_names[f]);
            aw_table_add(&table, "%s",
                         aw_figure_format(rows[i].by[f].serving_episode, text, sizeof text));
            aw_table_add(&table, "%.2f %%", 100 * with.violation_share);
            aw_table_add(&table, "%.2f %%", 100 * twin.violation_share);
            aw__evaluate_ratio_format(with.violation_share / twin.violation_share, text,
                                      sizeof text);
            aw_table_add(&table, "%s", text);
            aw_table_add(&table, "%.4f", with.cost_per_hour);
            aw_table_add(&table, "%.4f", twin.cost_per_hour);
            aw_table_add(&table, "%.2f %%", 100 * without.violation_share);
        }
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static json_t *bootstrap_json(const struct aw__evaluate *ask,
                              const struct aw_evaluate_bootstrap *rows,
                              const struct aw_evaluate_bootstrap_sum *sum)
{
    json_t *object = aw__evaluate_head_json(ask, sum->goal, sum->goal_count), *by = json_object(),
           *apps = json_array();
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "aware",
                            aw__evaluate_totals_json(ask, &sum->by[f].before[AW_EVALUATE_WITH]));
        json_object_set_new(entry, "without_bootstrapping",
                            aw__evaluate_totals_json(ask, &sum->by[f].before[AW_EVALUATE_WITHOUT]));
        json_object_set_new(entry, "fallback_alone",
                            aw__evaluate_totals_json(ask, &sum->by[f].twin));
        json_object_set_new(entry, "aware_quarters",
                            aw__evaluate_quarters_json(ask, sum->by[f].quarter[AW_EVALUATE_WITH]));
        json_object_set_new(
            entry, "without_bootstrapping_quarters",
            aw__evaluate_quarters_json(ask, sum->by[f].quarter[AW_EVALUATE_WITHOUT]));
        json_object_set_new(entry, "fallback_alone_quarters",
                            aw__evaluate_quarters_json(ask, sum->by[f].twin_quarter));
        json_object_set_new(entry, "violation_ratio",
                            aw_json_real(sum->by[f].violation_ratio[AW_EVALUATE_WITH]));
        json_object_set_new(entry, "without_ratio", aw_json_real(sum->by[f].without_ratio));
        json_object_set_new(entry, "reached_share", aw_json_real(sum->by[f].reached_share));
        json_object_set_new(entry, "serving_episode", aw_json_real(sum->by[f].serving_episode));
        json_object_set_new(by, aw_evaluate_fallback_names[f], entry);
    }
    json_object_set_new(object, "fallbacks", by);
    for (uint32_t i = 0; i < ask->count; i++) {
        json_t *app = json_object();
        json_object_set_new(app, "index", json_integer(rows[i].index));
        json_object_set_new(app, "app", json_string(rows[i].app));
        for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
            json_t *entry = json_object();
            json_object_set_new(entry, "reached", json_integer(rows[i].by[f].reached));
            json_object_set_new(entry, "serving_episode",
                                aw_json_real(rows[i].by[f].serving_episode));
            json_object_set_new(
                entry, "aware",
                aw__evaluate_totals_json(ask, &rows[i].by[f].before[AW_EVALUATE_WITH]));
            json_object_set_new(
                entry, "without_bootstrapping",
                aw__evaluate_totals_json(ask, &rows[i].by[f].before[AW_EVALUATE_WITHOUT]));
            json_object_set_new(entry, "fallback_alone",
                                aw__evaluate_totals_json(ask, &rows[i].by[f].twin));
            json_object_set_new(app, aw_evaluate_fallback_names[f], entry);
        }
        json_array_append_new(apps, app);
    }
    json_object_set_new(object, "apps", apps);
    return object;
}

enum aw_err aw__evaluate_print_bootstrap(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_bootstrap *rows,
                                         const struct aw_evaluate_bootstrap_sum *sum,
                                         struct aw_diag *diag)
{
    if (ask->format == AW__EVALUATE_JSON)
        return aw_json_print(bootstrap_json(ask, rows, sum), diag);
    if (ask->format == AW__EVALUATE_CSV) {
        printf("app,fallback,who,reached,serving_episode," AW__EVALUATE_CSV_HEADS "\n");
        for (uint32_t i = 0; i < ask->count; i++) {
            for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
                for (uint32_t k = 0; k <= AW_EVALUATE_STARTS; k++) {
                    const bool twin = k == AW_EVALUATE_STARTS;
                    printf("%" PRIu32 ",%s,%s,%" PRIu32 ",%.4g,", rows[i].index,
                           aw_evaluate_fallback_names[f], twin ? "fallback alone" : start_names[k],
                           rows[i].by[f].reached, rows[i].by[f].serving_episode);
                    aw__evaluate_csv_totals(ask,
                                            twin ? &rows[i].by[f].twin : &rows[i].by[f].before[k]);
                }
            }
        }
        return AW_OK;
    }
    aw__evaluate_head_print(ask);
    aw__evaluate_title(ask, "From the first second to SERVING");
    enum aw_err err = bootstrap_before(run, ask, sum, diag);
    if (err)
        return err;
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        char text[32];
        printf("From %s: SERVING reached in %.0f %% of runs, after %s episodes on average.%s\n",
               aw_evaluate_fallback_names[f], 100 * sum->by[f].reached_share,
               aw_figure_format(sum->by[f].serving_episode, text, sizeof text),
               ask->format == AW__EVALUATE_MARKDOWN ? "  " : "");
    }
    printf("\n");
    if ((err = aw__evaluate_goals_print(run, ask, sum->goal, sum->goal_count, diag)) ||
        (err = bootstrap_paper(run, ask, sum, diag)))
        return err;
    aw__evaluate_title(
        ask, "Quarters of the time to learn, as the paper's Table 3 (400 episodes there)");
    if ((err = bootstrap_segments(run, ask, sum, diag)))
        return err;
    return bootstrap_apps(run, ask, rows, diag);
}
