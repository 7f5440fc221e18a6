/*
 * world.h - the task's own world: serverless functions whose CPU comes with their memory; and any
 * supervised task as a table.
 *
 * A function waits, computes on one or more threads, and needs some memory; below it, it thrashes.
 * The environment is how fast cores and the network are. CPU is a share of a core in proportion to
 * memory, a whole one at 1769 MB, up to six (AWS Lambda's documents).
 */
#ifndef AW_SIZING_WORLD_H
#define AW_SIZING_WORLD_H

#include <aware/task.h>

#include "sizing/table.h"

#define AW_SIZE_WORLD_SIZES 12u

void aw_size_world_pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret_pair);
void aw_size_world_configuration(uint32_t index, float *features, char name[AW_TASK_NAME_MAX]);
double aw_size_world_sample(const struct aw_task_pair *pair, uint32_t index, uint64_t seed);
double aw_size_world_best(const struct aw_task_pair *pair);

/* Every pair of a supervised task on every configuration: `learned` pairs, then `unseen` ones.
 * AW_ERR_RANGE: a value that is not above 0. On failure there is no table. */
AW_NODISCARD enum aw_err aw_size_table_of_task(const struct aw_task *task, uint64_t seed,
                                               uint32_t learned, uint32_t unseen,
                                               struct aw_size_table *ret_table,
                                               struct aw_diag *diag);

#endif
