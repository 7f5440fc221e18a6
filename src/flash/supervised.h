/*
 * supervised.h - the verbs of any supervised task (aware/task.h), from its table alone.
 *
 * Pairs are drawn and sampled on every configuration; what was learned from one part of them meets
 * the other, beside the task's own baselines and the usual ones. A task's table names this function
 * as its `compare` or `evaluate`; examples/task_supervised.c is one.
 */
#ifndef AW_FLASH_SUPERVISED_H
#define AW_FLASH_SUPERVISED_H

#include <aware/task.h>

#define AW_TASK_LEARNED_PAIRS 24u /* pairs that are learned from */
#define AW_TASK_UNSEEN_PAIRS  12u /* pairs that are met, where the task does not say */

AW_NODISCARD enum aw_err aw_task_supervised(const struct aw_task *task,
                                            const struct aw_task_ask *ask,
                                            const struct aw_task_sink *sink, struct aw_diag *diag);

/* Prints rows on standard output, one a line: "set threads  shots 1  method aware ...". */
extern const struct aw_task_sink aw_task_sink_lines;

#endif
