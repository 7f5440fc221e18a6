/* evaluate_print_day.c - the table `day` of `evaluate`, and that of its drifts. */
#include "lab/evaluate.h"
#include "lab/evaluate_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "frame/json.h"
#include "frame/layout.h"

static double missed_of(const struct aw__evaluate *ask, const struct aw_totals *totals)
{
    return aw__evaluate_means(ask, totals).violation_share;
}

static double changes_per_day(const struct aw__evaluate *ask, const struct aw_totals *totals)
{
    return (double)totals->replica_changes * 86400 /
           ((double)totals->steps * aw__evaluate_step_s(ask));
}

/* --- for people ------------------------------------------------------------------------------- */

static enum aw_err who_print(const struct aw_call *run, const struct aw__evaluate *ask,
                             const struct aw_evaluate_day_sum *sum, struct aw_diag *diag)
{
    static const char *const heads[] = {"WHO",      ">HOUR 1",     ">2-12 H",        ">12-24 H",
                                        ">$/H",     ">COST RATIO", ">WITHIN BUDGET", ">CHANGES/DAY",
                                        ">REMOVED", ">ADDED",      ">CHOSEN",        NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t row = 0; row < AW_EVALUATE_RULES + 2; row++) {
        const bool aware = row == 0, best = row == 1;
        const uint32_t r = row < 2 ? 0 : row - 2;
        const struct aw_totals *span = aware ? sum->life : best ? sum->best : sum->rule[r];
        const struct aw_totals *whole = &span[AW_EVALUATE_SPAN_WHOLE];
        const double days = (double)whole->steps * aw__evaluate_step_s(ask) / 86400;
        aw_table_add(&table, "%s",
                     aware  ? "aware"
                     : best ? "best tuned baseline"
                            : aw_evaluate_rule_names[r]);
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &span[AW_EVALUATE_SPAN_HOUR1]));
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &span[AW_EVALUATE_SPAN_REST1]));
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &span[AW_EVALUATE_SPAN_DAY2]));
        aw_table_add(&table, "%.4f",
                     aw__evaluate_means(ask, &span[AW_EVALUATE_SPAN_DAY2]).cost_per_hour);
        aw_table_add(&table, "%.3f", aware ? sum->cost_day2 : best ? 1 : sum->cost[r]);
        aw_table_add(&table, "%.0f of %" PRIu32,
                     aware  ? sum->within_share * ask->count
                     : best ? sum->best_within
                            : sum->within[r],
                     ask->count);
        aw_table_add(&table, "%.1f", changes_per_day(ask, whole));
        aw_table_add(&table, "%.1f", (double)whole->reversals_down / days);
        aw_table_add(&table, "%.1f", (double)whole->reversals_up / days);
        if (aware || best)
            aw_table_add(&table, "-");
        else
            aw_table_add(&table, "%" PRIu32, sum->chosen[r]);
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static enum aw_err misses_print(const struct aw_call *run, const struct aw__evaluate *ask,
                                const struct aw_evaluate_day_sum *sum, struct aw_diag *diag)
{
    static const char *const heads[] = {"WHY A STEP MISSED", ">FIRST HOUR", ">AFTER IT", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t m = 0; m < AW_EVALUATE_MISSES; m++) {
        aw_table_add(&table, "%s", aw_evaluate_miss_texts[m]);
        aw_table_add(&table, "%" PRIu64, sum->missed[0][m]);
        aw_table_add(&table, "%" PRIu64, sum->missed[1][m]);
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static enum aw_err apps_print(const struct aw_call *run, const struct aw__evaluate *ask,
                              const struct aw_evaluate_day *rows, struct aw_diag *diag)
{
    static const char *const heads[] = {">APP",
                                        ">ACTS FROM",
                                        ">HOUR 1",
                                        ">2-12 H",
                                        ">12-24 H",
                                        ">WORST 6 H",
                                        "BEST BASELINE",
                                        ">ITS MISSED",
                                        ">ITS $/H",
                                        ">AWARE $/H",
                                        ">RATIO DAY 1",
                                        ">RATIO DAY 2",
                                        ">CHANGES",
                                        ">OF HPA",
                                        "WON: BUDGET FIRST, STRICT",
                                        "MISSED MOSTLY",
                                        NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct aw_evaluate_day *row = &rows[i];
        const struct aw_totals *best = row->rule[row->best], *hpa = row->rule[AW_EVALUATE_RULE_HPA];
        uint64_t all = 0, most = 0;
        uint32_t why = 0;
        for (uint32_t m = 0; m < AW_EVALUATE_MISSES; m++) {
            const uint64_t misses = row->missed[0][m] + row->missed[1][m];
            all += misses;
            if (misses > most) {
                most = misses;
                why = m;
            }
        }
        aw_table_add(&table, "%" PRIu32, row->index);
        if (isnan(row->acting_minute))
            aw_table_add(&table, "never");
        else
            aw_table_add(&table, "%.0f min", row->acting_minute);
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &row->life[AW_EVALUATE_SPAN_HOUR1]));
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &row->life[AW_EVALUATE_SPAN_REST1]));
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &row->life[AW_EVALUATE_SPAN_DAY2]));
        aw_table_add(&table, "%.2f %%", 100 * row->worst_six_hours);
        aw_table_add(&table, "%s", aw_evaluate_rule_names[row->best]);
        aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &best[AW_EVALUATE_SPAN_DAY2]));
        aw_table_add(&table, "%.4f",
                     aw__evaluate_means(ask, &best[AW_EVALUATE_SPAN_DAY2]).cost_per_hour);
        aw_table_add(&table, "%.4f",
                     aw__evaluate_means(ask, &row->life[AW_EVALUATE_SPAN_DAY2]).cost_per_hour);
        aw_table_add(&table, "%.3f", row->cost_day1);
        aw_table_add(&table, "%.3f", row->cost_day2);
        aw_table_add(&table, "%.0f", changes_per_day(ask, &row->life[AW_EVALUATE_SPAN_WHOLE]));
        aw_table_add(&table, "%.0f", changes_per_day(ask, &hpa[AW_EVALUATE_SPAN_WHOLE]));
        aw_table_add(&table, "%s, %s", row->won_budget_first ? "yes" : "no",
                     row->won_strict ? "yes" : "no");
        if (all)
            aw_table_add(&table, "%s, %.0f %%", aw_evaluate_miss_keys[why],
                         100 * (double)most / (double)all);
        else
            aw_table_add(&table, "-");
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static json_t *totals_json(const struct aw__evaluate *ask, const struct aw_totals *totals)
{
    json_t *object = aw__evaluate_totals_json(ask, totals);
    json_object_set_new(object, "replica_changes",
                        json_integer((json_int_t)totals->replica_changes));
    json_object_set_new(object, "removed_in_window",
                        json_integer((json_int_t)totals->reversals_down));
    json_object_set_new(object, "added_in_window", json_integer((json_int_t)totals->reversals_up));
    return object;
}

static json_t *spans_json(const struct aw__evaluate *ask, const struct aw_totals *spans)
{
    json_t *object = json_object();
    for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++)
        json_object_set_new(object, aw_evaluate_span_keys[s], totals_json(ask, &spans[s]));
    return object;
}

static json_t *misses_json(const uint64_t missed[2][AW_EVALUATE_MISSES])
{
    static const char *const when[] = {"first_hour", "after"};
    json_t *object = json_object();
    for (uint32_t w = 0; w < 2; w++) {
        json_t *counts = json_object();
        for (uint32_t m = 0; m < AW_EVALUATE_MISSES; m++)
            json_object_set_new(counts, aw_evaluate_miss_keys[m],
                                json_integer((json_int_t)missed[w][m]));
        json_object_set_new(object, when[w], counts);
    }
    return object;
}

static json_t *row_json(const struct aw__evaluate *ask, const struct aw_evaluate_day *row)
{
    json_t *object = json_object(), *rules = json_object(), *tuned = json_object();
    json_object_set_new(object, "index", json_integer(row->index));
    json_object_set_new(object, "app", json_string(row->app));
    json_object_set_new(object, "best", json_string(aw_evaluate_rule_names[row->best]));
    json_object_set_new(object, "acting_by_15min", json_integer(row->acting));
    json_object_set_new(object, "acting_minute", aw_json_real(row->acting_minute));
    json_object_set_new(object, "worst_six_hours", aw_json_real(row->worst_six_hours));
    json_object_set_new(object, "cost_day1", aw_json_real(row->cost_day1));
    json_object_set_new(object, "cost_day2", aw_json_real(row->cost_day2));
    json_object_set_new(object, "priced_day1", aw_json_real(row->priced_day1));
    json_object_set_new(object, "priced_day2", aw_json_real(row->priced_day2));
    json_object_set_new(object, "within_budget", json_boolean(row->within_budget));
    json_object_set_new(object, "won_budget_first", json_boolean(row->won_budget_first));
    json_object_set_new(object, "won_strict", json_boolean(row->won_strict));
    json_object_set_new(object, "hopeless", json_boolean(row->hopeless));
    json_object_set_new(object, "missed_why", misses_json(row->missed));
    json_object_set_new(object, "aware", spans_json(ask, row->life));
    for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++) {
        json_object_set_new(rules, aw_evaluate_rule_names[r], spans_json(ask, row->rule[r]));
        json_object_set_new(tuned, aw_evaluate_rule_names[r], totals_json(ask, &row->learned[r]));
    }
    json_object_set_new(object, "baselines", rules);
    json_object_set_new(object, "tuned_on", tuned);
    return object;
}

static json_t *day_json(const struct aw__evaluate *ask, const struct aw_evaluate_day *rows,
                        const struct aw_evaluate_day_sum *sum)
{
    json_t *object = aw__evaluate_head_json(ask, sum->goal, sum->goal_count),
           *rules = json_object(), *apps = json_array();
    const struct {
        const char *key;
        double value;
    } figures[] = {
        {"budget", ask->config.simulate.settings.slo_budget},
        {"acting_by_15min_share", sum->acting_share},
        {"missed_hour1", sum->missed_share[AW_EVALUATE_SPAN_HOUR1]},
        {"missed_2_12h", sum->missed_share[AW_EVALUATE_SPAN_REST1]},
        {"missed_12_24h", sum->missed_share[AW_EVALUATE_SPAN_DAY2]},
        {"twice_budget_2_12h_share", sum->twice_share},
        {"worst_six_hours", sum->worst_six_hours},
        {"within_budget_share", sum->within_share},
        {"cost_day1_geomean", sum->cost_day1},
        {"cost_day2_geomean", sum->cost_day2},
        {"cost_day2_median", sum->cost_day2_median},
        {"cost_day2_geomean_without_best5", sum->cost_day2_without_best5},
        {"cost_day1_geomean_priced", sum->priced_day1},
        {"cost_day2_geomean_priced", sum->priced_day2},
        {"won_budget_first", sum->won_budget_first},
        {"won_strict", sum->won_strict},
        {"changes_per_day", sum->changes_per_day},
        {"changes_per_day_hpa", sum->changes_per_day_hpa},
        {"reversals_in_window", sum->reversals_per_day},
        {"reversals_in_window_hpa", sum->reversals_per_day_hpa},
        {"regrets_in_window", sum->regrets_per_day},
        {"regrets_in_window_hpa", sum->regrets_per_day_hpa},
        {"hopeless_count", sum->hopeless},
        {"served_missed_2_12h", sum->served.missed_share[AW_EVALUATE_SPAN_REST1]},
        {"served_missed_12_24h", sum->served.missed_share[AW_EVALUATE_SPAN_DAY2]},
        {"served_worst_six_hours", sum->served.worst_six_hours},
        {"served_within_budget_share", sum->served.within_share},
        {"served_cost_day1_geomean", sum->served.cost_day1},
        {"served_cost_day2_geomean", sum->served.cost_day2},
    };
    json_object_set_new(object, "fallback", json_string(ask->config.fallback));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(object, figures[i].key, aw_json_real(figures[i].value));
    json_object_set_new(object, "cost_day1_geomean_95",
                        aw__evaluate_interval_json(&sum->cost_day1_interval));
    json_object_set_new(object, "cost_day2_geomean_95",
                        aw__evaluate_interval_json(&sum->cost_day2_interval));
    json_object_set_new(object, "missed_why", misses_json(sum->missed));
    json_object_set_new(object, "aware", spans_json(ask, sum->life));
    json_object_set_new(object, "best", spans_json(ask, sum->best));
    for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++) {
        json_t *entry = spans_json(ask, sum->rule[r]);
        json_object_set_new(entry, "chosen", json_integer(sum->chosen[r]));
        json_object_set_new(entry, "within_budget", json_integer(sum->within[r]));
        json_object_set_new(entry, "cost_ratio", aw_json_real(sum->cost[r]));
        json_object_set_new(rules, aw_evaluate_rule_names[r], entry);
    }
    json_object_set_new(object, "baselines", rules);
    for (uint32_t i = 0; i < ask->count; i++)
        json_array_append_new(apps, row_json(ask, &rows[i]));
    json_object_set_new(object, "apps", apps);
    return object;
}

/* --- all of it -------------------------------------------------------------------------------- */

static enum aw_err day_csv(const struct aw__evaluate *ask, const struct aw_evaluate_day *rows)
{
    printf("app,who,best,span,replica_changes,removed_in_window,added_in_"
           "window," AW__EVALUATE_CSV_HEADS "\n");
    for (uint32_t i = 0; i < ask->count; i++)
        for (uint32_t who = 0; who <= AW_EVALUATE_RULES; who++)
            for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++) {
                const bool aware = who == AW_EVALUATE_RULES;
                const struct aw_totals *totals = aware ? &rows[i].life[s] : &rows[i].rule[who][s];
                printf("%" PRIu32 ",%s,%d,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", rows[i].index,
                       aware ? "aware" : aw_evaluate_rule_names[who], who == rows[i].best,
                       aw_evaluate_span_keys[s], totals->replica_changes, totals->reversals_down,
                       totals->reversals_up);
                aw__evaluate_csv_totals(ask, totals);
            }
    return AW_OK;
}

static void hopeless_print(const struct aw__evaluate *ask, const struct aw_evaluate_day *rows,
                           const struct aw_evaluate_day_sum *sum)
{
    if (sum->hopeless == 0)
        return;
    printf("Nothing can serve %" PRIu32 " of %" PRIu32
           " (every tuned baseline misses more than %d times the budget on the half that it was "
           "tuned on):",
           sum->hopeless, ask->count, AW_EVALUATE_HOPELESS);
    for (uint32_t i = 0; i < ask->count; i++)
        if (rows[i].hopeless)
            printf(" %" PRIu32, rows[i].index);
    if (sum->hopeless < ask->count)
        printf(
            ".\nWithout these: missed %.2f %% from the second hour to noon and %.2f %% from noon "
            "on, worst six hours %.2f %%, %.0f %% within the budget, cost %.3f and %.3f",
            100 * sum->served.missed_share[AW_EVALUATE_SPAN_REST1],
            100 * sum->served.missed_share[AW_EVALUATE_SPAN_DAY2],
            100 * sum->served.worst_six_hours, 100 * sum->served.within_share,
            sum->served.cost_day1, sum->served.cost_day2);
    printf(".\n");
}

enum aw_err aw__evaluate_print_day(const struct aw_call *run, const struct aw__evaluate *ask,
                                   const struct aw_evaluate_day *rows,
                                   const struct aw_evaluate_day_sum *sum, struct aw_diag *diag)
{
    char without[32];
    if (ask->format == AW__EVALUATE_JSON)
        return aw_json_print(day_json(ask, rows, sum), diag);
    if (ask->format == AW__EVALUATE_CSV)
        return day_csv(ask, rows);
    aw__evaluate_head_print(ask);
    printf("Fallback %s, untuned; budget %g %%. Columns by hour are shares of steps that missed "
           "the SLO; $/h, ratio and budget are from noon on; removed, added: replicas within 300 s "
           "after one was added, or removed, per day.\n\n",
           ask->config.fallback, 100 * ask->config.simulate.settings.slo_budget);
    enum aw_err err = who_print(run, ask, sum, diag);
    if (err)
        return err;
    printf("Cost over the best tuned baseline's, geometric means: %.3f from minute 15 to noon "
           "(95 %%: %.3f to %.3f),\n%.3f from noon on (%.3f to %.3f; median %.3f; without the five "
           "best %s).\n",
           sum->cost_day1, sum->cost_day1_interval.low, sum->cost_day1_interval.high,
           sum->cost_day2, sum->cost_day2_interval.low, sum->cost_day2_interval.high,
           sum->cost_day2_median,
           aw_figure_format(sum->cost_day2_without_best5, without, sizeof without));
    printf(
        "With misses beyond the budget priced (cost times missed over budget, for both): %.3f and "
        "%.3f.\n",
        sum->priced_day1, sum->priced_day2);
    hopeless_print(ask, rows, sum);
    printf("Won from noon on: %.0f %% with the budget first, %.0f %% cheaper at no more "
           "violations.\n\n",
           100 * sum->won_budget_first, 100 * sum->won_strict);
    if ((err = aw__evaluate_goals_print(run, ask, sum->goal, sum->goal_count, diag)) ||
        (err = misses_print(run, ask, sum, diag)))
        return err;
    return apps_print(run, ask, rows, diag);
}

/* --- drifts ----------------------------------------------------------------------------------- */

static enum aw_err drift_kinds(const struct aw_call *run, const struct aw__evaluate *ask,
                               const struct aw_evaluate_drift_sum *sum, struct aw_diag *diag)
{
    static const char *const heads[] = {"CHANGE AT NOON", "WHO",         ">MISSED 1ST HOUR",
                                        ">MISSED LATER",  ">$/H LATER",  ">COST RATIO",
                                        ">GAP CLOSED",    ">WORST COST", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t k = 0; k < AW_EVALUATE_DRIFTS; k++)
        for (uint32_t who = 0; sum->by[k].apps && who < AW_EVALUATE_DRIFTERS; who++) {
            const bool own = who == AW_EVALUATE_RELEARNS;
            aw_table_add(&table, "%s", aw_evaluate_drift_names[k]);
            aw_table_add(&table, "%s", aw_evaluate_drifter_names[who]);
            aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &sum->by[k].hour1[who]));
            aw_table_add(&table, "%.2f %%", 100 * missed_of(ask, &sum->by[k].later[who]));
            aw_table_add(&table, "%.4f",
                         aw__evaluate_means(ask, &sum->by[k].later[who]).cost_per_hour);
            aw_table_add(&table, "%.3f", sum->by[k].cost[who]);
            if (own && !isnan(sum->by[k].closed))
                aw_table_add(&table, "%.0f %%", 100 * sum->by[k].closed);
            else
                aw_table_add(&table, "-");
            if (own)
                aw_table_add(&table, "%.3f", sum->by[k].dearest);
            else
                aw_table_add(&table, "-");
        }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static json_t *drift_json(const struct aw__evaluate *ask, const struct aw_evaluate_drift *rows,
                          uint32_t row_count, const struct aw_evaluate_drift_sum *sum)
{
    json_t *object = aw__evaluate_head_json(ask, sum->goal, sum->goal_count),
           *kinds = json_object(), *apps = json_array();
    for (uint32_t k = 0; k < AW_EVALUATE_DRIFTS; k++) {
        if (sum->by[k].apps == 0)
            continue;
        json_t *entry = json_object();
        json_object_set_new(entry, "gap_closed", aw_json_real(sum->by[k].closed));
        json_object_set_new(entry, "dearest", aw_json_real(sum->by[k].dearest));
        for (uint32_t who = 0; who < AW_EVALUATE_DRIFTERS; who++) {
            json_t *one = json_object();
            json_object_set_new(one, "hour1", totals_json(ask, &sum->by[k].hour1[who]));
            json_object_set_new(one, "later", totals_json(ask, &sum->by[k].later[who]));
            json_object_set_new(one, "cost_ratio", aw_json_real(sum->by[k].cost[who]));
            json_object_set_new(entry, aw_evaluate_drifter_names[who], one);
        }
        json_object_set_new(kinds, aw_evaluate_drift_names[k], entry);
    }
    json_object_set_new(object, "drifts", kinds);
    for (uint32_t i = 0; i < row_count; i++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "index", json_integer(rows[i].index));
        json_object_set_new(entry, "app", json_string(rows[i].app));
        json_object_set_new(entry, "drift", json_string(aw_evaluate_drift_names[rows[i].kind]));
        for (uint32_t who = 0; who < AW_EVALUATE_DRIFTERS; who++) {
            json_t *one = json_object();
            json_object_set_new(one, "hour1", totals_json(ask, &rows[i].hour1[who]));
            json_object_set_new(one, "later", totals_json(ask, &rows[i].later[who]));
            json_object_set_new(one, "after", totals_json(ask, &rows[i].after[who]));
            json_object_set_new(entry, aw_evaluate_drifter_names[who], one);
        }
        json_array_append_new(apps, entry);
    }
    json_object_set_new(object, "apps", apps);
    return object;
}

enum aw_err aw__evaluate_print_drift(const struct aw_call *run, const struct aw__evaluate *ask,
                                     const struct aw_evaluate_drift *rows, uint32_t row_count,
                                     const struct aw_evaluate_drift_sum *sum, struct aw_diag *diag)
{
    if (ask->format == AW__EVALUATE_JSON)
        return aw_json_print(drift_json(ask, rows, row_count, sum), diag);
    if (ask->format == AW__EVALUATE_CSV) {
        printf("drift,app,who,span," AW__EVALUATE_CSV_HEADS "\n");
        for (uint32_t i = 0; i < row_count; i++)
            for (uint32_t k = 0; k < 3 * AW_EVALUATE_DRIFTERS; k++) {
                static const char *const spans[] = {"hour1", "later", "after"};
                const uint32_t who = k / 3;
                const struct aw_totals *const all[] = {&rows[i].hour1[who], &rows[i].later[who],
                                                       &rows[i].after[who]};
                printf("%s,%" PRIu32 ",%s,%s,", aw_evaluate_drift_names[rows[i].kind],
                       rows[i].index, aw_evaluate_drifter_names[who], spans[k % 3]);
                aw__evaluate_csv_totals(ask, all[k % 3]);
            }
        return AW_OK;
    }
    aw__evaluate_head_print(ask);
    printf("Later: from two hours after the change on. Cost ratio: to one that has learned anew, "
           "geometric mean, misses beyond the budget priced; worst cost: over the frozen one's "
           "since the change, of any application.\n\n");
    const enum aw_err err = drift_kinds(run, ask, sum, diag);
    return err ? err : aw__evaluate_goals_print(run, ask, sum->goal, sum->goal_count, diag);
}
