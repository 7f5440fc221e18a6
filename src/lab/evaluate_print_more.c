/* evaluate_print_more.c - the tables of disturbances and of estimates. */
#include "lab/evaluate.h"
#include "lab/evaluate_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"

/* --- disturbances ----------------------------------------------------------------------------- */

static enum aw_err disturbed_scenarios(const struct aw_call *run, const struct aw__evaluate *ask,
                                       const struct aw_evaluate_disturbed_sum *sum,
                                       struct aw_diag *diag)
{
    static const char *const heads[] = {"SCENARIO",         ">APPS",         "WHO",
                                        AW__EVALUATE_HEADS, ">REWARD BELOW", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t s = 0; aw_evaluate_scenarios[s]; s++) {
        for (uint32_t k = 0; sum->by[s].apps > 0 && k < AW_EVALUATE_KINDS; k++) {
            const struct aw_evaluate_means m = aw__evaluate_means(ask, &sum->by[s].last[k]);
            aw_table_add(&table, "%s", aw_evaluate_scenarios[s]);
            aw_table_add(&table, "%" PRIu32, sum->by[s].apps);
            aw_table_add(&table, "%s", aw_evaluate_kind_names[k]);
            aw__evaluate_cells_add(&table, &m);
            aw_table_add(&table, "%+.2f %%", 100 * sum->by[s].drop[k]);
        }
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static enum aw_err disturbed_mean(const struct aw_call *run, const struct aw__evaluate *ask,
                                  const struct aw_evaluate_disturbed_sum *sum, struct aw_diag *diag)
{
    static const char *const heads[] = {"REWARD BELOW ONE THAT KNEW NOTHING ELSE", ">LAST HALF DAY",
                                        ">ALL TIME AFTER", NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++) {
        if (k == AW_EVALUATE_NATIVE)
            continue;
        aw_table_add(&table, "%s", aw_evaluate_kind_names[k]);
        aw_table_add(&table, "%+.2f %%", 100 * sum->drop[k]);
        aw_table_add(&table, "%+.2f %%", 100 * sum->drop_after[k]);
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static json_t *disturbed_json(const struct aw__evaluate *ask,
                              const struct aw_evaluate_disturbed *rows, uint32_t count,
                              const struct aw_evaluate_disturbed_sum *sum)
{
    json_t *object = aw__evaluate_head_json(ask, sum->goal, sum->goal_count), *list = json_array(),
           *drops = json_object();
    for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++)
        json_object_set_new(drops, aw_evaluate_kind_names[k], aw_json_real(sum->drop[k]));
    json_object_set_new(object, "reward_below", drops);
    json_object_set_new(object, "reward_below_95", aw__evaluate_interval_json(&sum->drop_interval));
    for (uint32_t i = 0; i < count; i++) {
        json_t *entry = json_object(), *last = json_object(), *after = json_object();
        json_object_set_new(entry, "scenario",
                            json_string(aw_evaluate_scenarios[rows[i].scenario]));
        json_object_set_new(entry, "index", json_integer(rows[i].index));
        json_object_set_new(entry, "app", json_string(rows[i].app));
        json_object_set_new(entry, "served", json_integer(rows[i].served));
        json_object_set_new(entry, "moves", aw_json_real(rows[i].moves));
        for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++) {
            json_object_set_new(last, aw_evaluate_kind_names[k],
                                aw__evaluate_totals_json(ask, &rows[i].last[k]));
            json_object_set_new(after, aw_evaluate_kind_names[k],
                                aw__evaluate_totals_json(ask, &rows[i].after[k]));
        }
        json_object_set_new(entry, "last", last);
        json_object_set_new(entry, "after", after);
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "rows", list);
    return object;
}

enum aw_err aw__evaluate_print_disturbed(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_disturbed *rows,
                                         uint32_t row_count,
                                         const struct aw_evaluate_disturbed_sum *sum,
                                         struct aw_diag *diag)
{
    if (ask->format == AW__EVALUATE_JSON)
        return aw_json_print(disturbed_json(ask, rows, row_count, sum), diag);
    if (ask->format == AW__EVALUATE_CSV) {
        printf("scenario,app,who,span,served,moves," AW__EVALUATE_CSV_HEADS "\n");
        for (uint32_t i = 0; i < row_count; i++) {
            for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++) {
                for (uint32_t span = 0; span < 2; span++) {
                    printf("%s,%" PRIu32 ",%s,%s,%" PRIu32 ",%.4g,",
                           aw_evaluate_scenarios[rows[i].scenario], rows[i].index,
                           aw_evaluate_kind_names[k], span ? "last" : "after", rows[i].served,
                           rows[i].moves);
                    aw__evaluate_csv_totals(ask, span ? &rows[i].last[k] : &rows[i].after[k]);
                }
            }
        }
        return AW_OK;
    }
    aw__evaluate_head_print(ask);
    enum aw_err err = disturbed_mean(run, ask, sum, diag);
    if (err)
        return err;
    printf("With retraining, per application and scenario: %+.2f %% (95 %%: %+.2f to %+.2f). The "
           "paper has 3.6 %%.\n\n",
           100 * sum->drop[AW_EVALUATE_RETRAINED], 100 * sum->drop_interval.low,
           100 * sum->drop_interval.high);
    if ((err = aw__evaluate_goals_print(run, ask, sum->goal, sum->goal_count, diag)))
        return err;
    aw__evaluate_title(ask, "The last half day, by scenario");
    return disturbed_scenarios(run, ask, sum, diag);
}

/* --- estimates -------------------------------------------------------------------------------- */

static enum aw_err estimates_groups(const struct aw_call *run, const struct aw__evaluate *ask,
                                    const struct aw_evaluate_estimates_sum *sum,
                                    struct aw_diag *diag)
{
    static const char *const heads[] = {"ESTIMATES",   ">CASES", ">TRUTH WITHIN", ">ABOVE ITS LOW",
                                        ">HALF WIDTH", ">ERROR", ">BETTER",       NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t g = 0; g < AW_EVALUATE_GROUPS; g++) {
        if (sum->by[g].cases == 0)
            continue;
        aw_table_add(&table, "%s", aw_evaluate_group_names[g]);
        aw_table_add(&table, "%" PRIu32, sum->by[g].cases);
        aw_table_add(&table, "%.1f %%", 100 * sum->by[g].within);
        aw_table_add(&table, "%.1f %%", 100 * sum->by[g].above);
        aw_table_add(&table, "%.1f %%", 100 * sum->by[g].width);
        aw_table_add(&table, "%.1f %%", 100 * sum->by[g].error);
        aw_table_add(&table, "%" PRIu32, sum->by[g].better);
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

static json_t *estimates_json(const struct aw__evaluate *ask,
                              const struct aw_evaluate_estimate *rows, uint32_t count,
                              const struct aw_evaluate_estimates_sum *sum)
{
    json_t *object = aw__evaluate_head_json(ask, sum->goal, sum->goal_count),
           *groups = json_object(), *list = json_array();
    for (uint32_t g = 0; g < AW_EVALUATE_GROUPS; g++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "cases", json_integer(sum->by[g].cases));
        json_object_set_new(entry, "within", aw_json_real(sum->by[g].within));
        json_object_set_new(entry, "above_low", aw_json_real(sum->by[g].above));
        json_object_set_new(entry, "half_width", aw_json_real(sum->by[g].width));
        json_object_set_new(entry, "error", aw_json_real(sum->by[g].error));
        json_object_set_new(entry, "better", json_integer(sum->by[g].better));
        json_object_set_new(groups, aw_evaluate_group_names[g], entry);
    }
    json_object_set_new(object, "groups", groups);
    json_object_set_new(object, "within_95", aw__evaluate_interval_json(&sum->within_interval));
    json_object_set_new(object, "factor_low", aw_json_real(sum->factor_low));
    json_object_set_new(object, "factor_high", aw_json_real(sum->factor_high));
    for (uint32_t i = 0; i < count; i++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "index", json_integer(rows[i].index));
        json_object_set_new(entry, "app", json_string(rows[i].app));
        json_object_set_new(entry, "fallback",
                            json_string(aw_evaluate_fallback_names[rows[i].fallback]));
        json_object_set_new(entry, "seed", json_integer((json_int_t)rows[i].seed));
        json_object_set_new(entry, "episode", json_integer(rows[i].episode));
        json_object_set_new(entry, "mean", aw_json_real(rows[i].mean));
        json_object_set_new(entry, "low", aw_json_real(rows[i].low));
        json_object_set_new(entry, "high", aw_json_real(rows[i].high));
        json_object_set_new(entry, "truth", aw_json_real(rows[i].truth));
        json_object_set_new(entry, "fallback_score", aw_json_real(rows[i].fallback_score));
        json_array_append_new(list, entry);
    }
    json_object_set_new(object, "cases", list);
    return object;
}

enum aw_err aw__evaluate_print_estimates(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_estimate *rows,
                                         uint32_t row_count,
                                         const struct aw_evaluate_estimates_sum *sum,
                                         struct aw_diag *diag)
{
    if (ask->format == AW__EVALUATE_JSON)
        return aw_json_print(estimates_json(ask, rows, row_count, sum), diag);
    if (ask->format == AW__EVALUATE_CSV) {
        printf("app,fallback,seed,episode,mean,low,high,truth,fallback_score\n");
        for (uint32_t i = 0; i < row_count; i++)
            printf("%" PRIu32 ",%s,%" PRIu64 ",%" PRIu32 ",%.9g,%.9g,%.9g,%.9g,%.9g\n",
                   rows[i].index, aw_evaluate_fallback_names[rows[i].fallback], rows[i].seed,
                   rows[i].episode, rows[i].mean, rows[i].low, rows[i].high, rows[i].truth,
                   rows[i].fallback_score);
        return AW_OK;
    }
    aw__evaluate_head_print(ask);
    enum aw_err err = estimates_groups(run, ask, sum, diag);
    if (err)
        return err;
    printf("Half width and error are medians, of the fallback's score. 95 %% of the share within, "
           "over applications: %.1f to %.1f %%.\n"
           "Ends that would have left 10 %% beyond each: %.2f times as far below the mean, %.2f "
           "times as far above.\n\n",
           100 * sum->within_interval.low, 100 * sum->within_interval.high, sum->factor_low,
           sum->factor_high);
    return aw__evaluate_goals_print(run, ask, sum->goal, sum->goal_count, diag);
}
