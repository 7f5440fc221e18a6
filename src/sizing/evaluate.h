/*
 * evaluate.h - how well configurations are predicted and chosen for workloads never seen.
 *
 * Groups are split in halves, each half learned from in turn and the other met (fewer than eight
 * groups: each left out in turn). Of a workload that is met, 1, 2 and 3 random configurations are
 * measured; errors are of all others. Searches begin with nothing and choose by themselves. Every
 * method has the same splits and the same draws.
 *
 * Threads: splits are shared out; the figures do not depend on how many.
 */
#ifndef AW_SIZING_EVALUATE_H
#define AW_SIZING_EVALUATE_H

#include <aware/task.h>

#include "sizing/learner.h"

struct aw_size_protocol {
    uint64_t seed;
    uint32_t seeds, threads;
    uint32_t draws; /* of shots, for each workload met */
    bool ablate;    /* rows of our own parts, and of the network told wrong things, as well */
    /* Of a task that draws its pairs: so many workloads of the table are learned from, the others
     * met, and its own baselines are asked. 0 and NULL: the groups are split. */
    uint32_t learned;
    const struct aw_task *task;
    struct aw_size_settings settings;
};
/* Puts rows into `sink`, set after set, shots after shots, method after method. */
AW_NODISCARD enum aw_err aw_size_evaluate(const struct aw_size_tables *tables,
                                          const struct aw_size_protocol *protocol,
                                          const struct aw_task_sink *sink, struct aw_diag *diag);

/* A workload never seen before, measured five times as the search proposes: a row for each. The
 * first after `learned` workloads is met, or (0) one drawn by the seed, without its group. */
AW_NODISCARD enum aw_err aw_size_meet(const struct aw_size_table *table, uint64_t seed,
                                      uint32_t learned, const struct aw_task_sink *sink,
                                      struct aw_diag *diag);

#endif
