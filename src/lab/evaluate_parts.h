/*
 * evaluate_parts.h - parts that the tables of `evaluate` share: heads, goals, cells, JSON of
 * totals.
 *
 * Memory:  JSON is the caller's. Threads: none.
 */
#ifndef AW_LAB_EVALUATE_PARTS_H
#define AW_LAB_EVALUATE_PARTS_H

#include <jansson.h>

#include "frame/layout.h"
#include "lab/evaluate.h"

#define AW__EVALUATE_HEADS ">$/H", ">MISSED", ">REWARD", ">CPU", ">MEMORY"
#define AW__EVALUATE_CSV_HEADS                                                           \
    "steps,violations,agent_steps,cost_per_hour,violation_share,reward,cpu_utilization," \
    "memory_utilization"

double aw__evaluate_step_s(const struct aw__evaluate *ask);
struct aw_evaluate_means aw__evaluate_means(const struct aw__evaluate *ask,
                                            const struct aw_totals *totals);
enum aw_err aw__evaluate_grid_print(const struct aw_call *run, const struct aw__evaluate *ask,
                                    struct aw_table *table, struct aw_diag *diag);
void aw__evaluate_title(const struct aw__evaluate *ask, const char *text);
void aw__evaluate_head_print(const struct aw__evaluate *ask);
enum aw_err aw__evaluate_goals_print(const struct aw_call *run, const struct aw__evaluate *ask,
                                     const struct aw_evaluate_goal *goal, uint32_t count,
                                     struct aw_diag *diag);
void aw__evaluate_cells_add(struct aw_table *table, const struct aw_evaluate_means *m);
json_t *aw__evaluate_totals_json(const struct aw__evaluate *ask, const struct aw_totals *totals);
json_t *aw__evaluate_quarters_json(const struct aw__evaluate *ask, const struct aw_totals *quarter);
json_t *aw__evaluate_interval_json(const struct aw_interval *interval);
json_t *aw__evaluate_head_json(const struct aw__evaluate *ask, const struct aw_evaluate_goal *goal,
                               uint32_t goal_count);
void aw__evaluate_csv_totals(const struct aw__evaluate *ask, const struct aw_totals *totals);
void aw__evaluate_ratio_format(double ratio, char *buf, size_t size);

#endif
