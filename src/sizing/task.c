/* task.c - configuration search as a task: its baselines and its verbs. */
#include "sizing/task.h"

#include <math.h>

#include "sizing/evaluate.h"
#include "sizing/world.h"

#define DRAWS   6u  /* of shots, for each workload met */
#define LEARNED 40u /* functions of the task's own world that are learned from */
#define UNSEEN  20u

/* The file that was given, or the task's own world. */
static enum aw_err tables_get(const struct aw_task *task, const struct aw_task_ask *ask,
                              struct aw_size_tables *ret, uint32_t *ret_learned,
                              struct aw_diag *diag)
{
    *ret_learned = ask->data ? 0 : LEARNED;
    if (ask->data)
        return aw_size_read(ask->data, ret, diag);
    const enum aw_err err =
        aw_size_table_of_task(task, ask->seed, LEARNED, UNSEEN, &ret->table[0], diag);
    ret->count = err ? 0 : 1;
    return err;
}

static enum aw_err study(const struct aw_task *task, const struct aw_task_ask *ask,
                         const struct aw_task_sink *sink, bool ablate, struct aw_diag *diag)
{
    struct aw_size_tables tables = {0};
    struct aw_size_protocol protocol = {.seed = ask->seed,
                                        .seeds = ask->seeds,
                                        .threads = ask->threads,
                                        .draws = DRAWS,
                                        .ablate = ablate,
                                        .settings = aw_size_default()};
    enum aw_err err = tables_get(task, ask, &tables, &protocol.learned, diag);
    err = err ? err : aw_size_evaluate(&tables, &protocol, sink, diag);
    aw_size_tables_deinit(&tables);
    return err;
}

static enum aw_err evaluate(const struct aw_task *task, const struct aw_task_ask *ask,
                            const struct aw_task_sink *sink, struct aw_diag *diag)
{
    return study(task, ask, sink, false, diag);
}

static enum aw_err compare(const struct aw_task *task, const struct aw_task_ask *ask,
                           const struct aw_task_sink *sink, struct aw_diag *diag)
{
    return study(task, ask, sink, true, diag);
}

static enum aw_err meet(const struct aw_task *task, const struct aw_task_ask *ask,
                        const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_size_tables tables = {0};
    uint32_t learned = 0;
    enum aw_err err = tables_get(task, ask, &tables, &learned, diag);
    for (uint32_t t = 0; t < tables.count && !err; t++)
        err = aw_size_meet(&tables.table[t], ask->seed, learned, sink, diag);
    if (!err)
        sink->note(
            sink->self,
            "regret: of the best so far, in cost where it is known, else in time. mape: of all "
            "configurations not measured yet, by what was learned (aware), by "
            "mean effects (additive) and by the mean of the measurements alone (flat).");
    aw_size_tables_deinit(&tables);
    return err;
}

static double flat(const float *features, const double *values, uint32_t count, const float *target)
{
    double sum = 0;
    (void)features, (void)target;
    for (uint32_t i = 0; i < count; i++)
        sum += log(values[i]);
    return exp(sum / count);
}

static const struct aw_task_baseline baselines[] = {
    {.name = "flat",
     .summary = "The geometric mean of what was measured, everywhere",
     .predict = flat},
    {.name = "additive",
     .summary = "Level of the workload, and the mean effect of a configuration"},
    {.name = "gp", .summary = "Additive, and the covariance of configurations elsewhere"},
    {.name = "nearest", .summary = "Known workloads, weighted by how their shape fits"},
    {.name = "family",
     .summary = "a + b/share of a core, by least squares; Amdahl's law for nodes"},
    {.name = "in-order", .summary = "Search: what was best on average elsewhere, in that order"},
    {.name = "random", .summary = "Search: any configuration"},
};

const struct aw_task aw_task_size = {
    .name = "size",
    .summary = "Find a workload's best configuration from a few measurements",
    .text = "A pair is a program, function or task with its input. A configuration is a machine "
            "type, a number of nodes, a memory size: whatever the columns of a CSV say (--data); "
            "without one, simulated functions whose CPU comes with their memory. From one to "
            "three measured configurations the time on all others is predicted, with intervals; a "
            "search proposes what to measure next.",
    .kind = AW_TASK_SUPERVISED,
    .feature_dim = 2,
    .pair_count = UNSEEN,
    .pair = aw_size_world_pair,
    .configuration_count = AW_SIZE_WORLD_SIZES,
    .configuration = aw_size_world_configuration,
    .sample = aw_size_world_sample,
    .best = aw_size_world_best,
    .baseline = baselines,
    .baseline_count = sizeof baselines / sizeof *baselines,
    .verb = {[AW_TASK_MEET] = meet, [AW_TASK_COMPARE] = compare, [AW_TASK_EVALUATE] = evaluate},
};
