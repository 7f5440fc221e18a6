/*
 * evaluate.h - every controller on the same links, as rows: FLASH's boxes, or recorded paths.
 *
 * Memory:  one flow per thread while it runs.
 * Threads: as many as asked for; the rows do not depend on how many.
 */
#ifndef AW_CONGESTION_EVALUATE_H
#define AW_CONGESTION_EVALUATE_H

#include <aware/task.h>

#include "congestion/adaptive.h"

#define AW_CONGESTION_LOSS_CASES 2u /* recorded paths: without random loss, and with 1 % */

/* The 425 boxes that are not learned from (every `stride`-th of them), with the links that each
 * seed draws in them. Rows: method, boxes, regret, regret_median, regret_p90, regret_low,
 * regret_high, utilisation, rtt_ratio, loss. */
AW_NODISCARD enum aw_err aw_congestion_boxes(const struct aw_adaptive_policy *policy,
                                             const struct aw_task_ask *ask, uint32_t stride,
                                             const struct aw_task_sink *sink, struct aw_diag *diag);
/* Every run of a file. Rows, for each kind and site and for all: set, random_loss, method,
 * runs, score, gap_closed, utilisation, rtt_ratio, rtt_p95_ms, p95_of_bbr, loss. */
AW_NODISCARD enum aw_err aw_congestion_traces(const struct aw_adaptive_policy *policy,
                                              const struct aw_task_ask *ask,
                                              const struct aw_task_sink *sink,
                                              struct aw_diag *diag);

#endif
