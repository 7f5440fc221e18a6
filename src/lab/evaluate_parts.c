/* evaluate_parts.c - parts that the tables of `evaluate` share. */
#include "lab/evaluate_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"

double aw__evaluate_step_s(const struct aw__evaluate *ask)
{
    return ask->config.simulate.settings.step_s;
}

struct aw_evaluate_means aw__evaluate_means(const struct aw__evaluate *ask,
                                            const struct aw_totals *totals)
{
    return aw_evaluate_means(totals, aw__evaluate_step_s(ask));
}

enum aw_err aw__evaluate_grid_print(const struct aw_call *run, const struct aw__evaluate *ask,
                                    struct aw_table *table, struct aw_diag *diag)
{
    enum aw_err err = ask->format == AW__EVALUATE_MARKDOWN
                          ? aw_table_print_markdown(table, stdout, diag)
                          : aw_table_print(table, stdout, run->color_out, diag);
    printf("\n");
    return err;
}

void aw__evaluate_title(const struct aw__evaluate *ask, const char *text)
{
    printf("%s%s\n\n", ask->format == AW__EVALUATE_MARKDOWN ? "### " : "", text);
}

void aw__evaluate_head_print(const struct aw__evaluate *ask)
{
    char took[32];
    const char *fence = ask->format == AW__EVALUATE_MARKDOWN ? "`" : "";
    printf("%s%s%s\n", fence, ask->command, fence);
    printf("%" PRIu32 " applications of pool %" PRIu64 " from %" PRIu32 " on, %" PRIu32
           " seeds from %" PRIu64 " on, load %s, agent %s%s, source %s, %s\n\n",
           ask->count, ask->pool, ask->first, ask->config.seeds, ask->config.simulate.seed,
           ask->load, aw_policy_names[ask->config.pilot.agent], ask->paper ? ", preset paper" : "",
           AW_VERSION_SOURCE, aw_seconds_format(ask->seconds, took, sizeof took));
}

enum aw_err aw__evaluate_goals_print(const struct aw_call *run, const struct aw__evaluate *ask,
                                     const struct aw_evaluate_goal *goal, uint32_t count,
                                     struct aw_diag *diag)
{
    static const char *const heads[] = {"GOAL", ">VALUE", ">WANTED", "MET", NULL};
    struct aw_table table;
    if (count == 0)
        return AW_OK;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < count; i++) {
        aw_table_add(&table, "%s", goal[i].name);
        aw_table_add(&table, "%.4g", goal[i].value);
        aw_table_add(&table, "%s %.4g", goal[i].lower_is_better ? "<=" : ">=", goal[i].goal);
        aw_table_add(&table, "%s", aw_evaluate_met(&goal[i]) ? "yes" : "no");
    }
    return aw__evaluate_grid_print(run, ask, &table, diag);
}

/* Cost, violations, reward and utilisation: five cells. */
void aw__evaluate_cells_add(struct aw_table *table, const struct aw_evaluate_means *m)
{
    aw_table_add(table, "%.4f", m->cost_per_hour);
    aw_table_add(table, "%.2f %%", 100 * m->violation_share);
    aw_table_add(table, "%.1f", m->reward);
    aw_table_add(table, "%.1f %%", 100 * m->cpu_utilization);
    aw_table_add(table, "%.1f %%", 100 * m->memory_utilization);
}

json_t *aw__evaluate_totals_json(const struct aw__evaluate *ask, const struct aw_totals *totals)
{
    const struct aw_evaluate_means m = aw__evaluate_means(ask, totals);
    json_t *object = json_object();
    json_object_set_new(object, "steps", json_integer((json_int_t)totals->steps));
    json_object_set_new(object, "violations", json_integer((json_int_t)totals->violations));
    json_object_set_new(object, "agent_steps", json_integer((json_int_t)totals->agent_steps));
    json_object_set_new(object, "cost_per_hour", aw_json_real(m.cost_per_hour));
    json_object_set_new(object, "violation_share", aw_json_real(m.violation_share));
    json_object_set_new(object, "reward_per_episode", aw_json_real(m.reward));
    json_object_set_new(object, "cpu_utilization", aw_json_real(m.cpu_utilization));
    json_object_set_new(object, "memory_utilization", aw_json_real(m.memory_utilization));
    return object;
}

json_t *aw__evaluate_quarters_json(const struct aw__evaluate *ask, const struct aw_totals *quarter)
{
    json_t *list = json_array();
    for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
        json_array_append_new(list, aw__evaluate_totals_json(ask, &quarter[q]));
    return list;
}

json_t *aw__evaluate_interval_json(const struct aw_interval *interval)
{
    json_t *list = json_array();
    json_array_append_new(list, aw_json_real(interval->low));
    json_array_append_new(list, aw_json_real(interval->high));
    return list;
}

json_t *aw__evaluate_head_json(const struct aw__evaluate *ask, const struct aw_evaluate_goal *goal,
                               uint32_t goal_count)
{
    json_t *object = json_object(), *goals = json_array();
    json_object_set_new(object, "command", json_string(ask->command));
    json_object_set_new(object, "source", json_string(AW_VERSION_SOURCE));
    json_object_set_new(object, "pool", json_integer((json_int_t)ask->pool));
    json_object_set_new(object, "first", json_integer(ask->first));
    json_object_set_new(object, "applications", json_integer(ask->count));
    json_object_set_new(object, "seed", json_integer((json_int_t)ask->config.simulate.seed));
    json_object_set_new(object, "seeds", json_integer(ask->config.seeds));
    json_object_set_new(object, "load", json_string(ask->load));
    json_object_set_new(object, "agent", json_string(aw_policy_names[ask->config.pilot.agent]));
    json_object_set_new(object, "preset", json_string(ask->paper ? "paper" : "default"));
    json_object_set_new(object, "seconds", aw_json_real(ask->seconds));
    for (uint32_t i = 0; i < goal_count; i++) {
        json_t *entry = json_object();
        json_object_set_new(entry, "name", json_string(goal[i].name));
        json_object_set_new(entry, "value", aw_json_real(goal[i].value));
        json_object_set_new(entry, "goal", aw_json_real(goal[i].goal));
        json_object_set_new(entry, "met", json_boolean(aw_evaluate_met(&goal[i])));
        json_array_append_new(goals, entry);
    }
    json_object_set_new(object, "goals", goals);
    return object;
}

void aw__evaluate_csv_totals(const struct aw__evaluate *ask, const struct aw_totals *totals)
{
    const struct aw_evaluate_means m = aw__evaluate_means(ask, totals);
    printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9g,%.9g,%.9g,%.9g,%.9g\n", totals->steps,
           totals->violations, totals->agent_steps, m.cost_per_hour, m.violation_share, m.reward,
           m.cpu_utilization, m.memory_utilization);
}

void aw__evaluate_ratio_format(double ratio, char *buf, size_t size)
{
    if (isfinite(ratio))
        snprintf(buf, size, "%.2fx", ratio);
    else
        snprintf(buf, size, "-");
}
