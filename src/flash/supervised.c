/* supervised.c - see supervised.h. */
#include "flash/supervised.h"

#include <math.h>
#include <stdio.h>

#include "sizing/evaluate.h"
#include "sizing/world.h"

#define DRAWS 6u /* of shots, for each pair met */

enum aw_err aw_task_supervised(const struct aw_task *task, const struct aw_task_ask *ask,
                               const struct aw_task_sink *sink, struct aw_diag *diag)
{
    const uint32_t unseen = task->pair_count ? task->pair_count : AW_TASK_UNSEEN_PAIRS;
    struct aw_size_tables tables = {.count = 1};
    const struct aw_size_protocol protocol = {.seed = ask->seed,
                                              .seeds = ask->seeds,
                                              .threads = ask->threads,
                                              .draws = DRAWS,
                                              .learned = AW_TASK_LEARNED_PAIRS,
                                              .task = task,
                                              .settings = aw_size_default()};
    if (!task->pair || task->kind != AW_TASK_SUPERVISED)
        return aw_fail(diag, AW_ERR_USAGE, "task %s is not one of supervised pairs", task->name);
    enum aw_err err = aw_size_table_of_task(task, ask->seed, AW_TASK_LEARNED_PAIRS, unseen,
                                            &tables.table[0], diag);
    if (err)
        return err;
    err = aw_size_evaluate(&tables, &protocol, sink, diag);
    aw_size_tables_deinit(&tables);
    return err;
}

/* --- rows as lines --- */

static void lines_text(void *self, const char *key, const char *value)
{
    (void)self;
    printf("%s %s  ", key, value);
}

static void lines_figure(void *self, const char *key, double value)
{
    (void)self;
    if (isfinite(value))
        printf("%s %.3g  ", key, value);
}

static void lines_row(void *self)
{
    (void)self;
    printf("\n");
}

static void lines_note(void *self, const char *sentence)
{
    (void)self;
    printf("%s\n", sentence);
}

static bool lines_progress(void *self, double share, const char *what)
{
    (void)self, (void)share, (void)what;
    return true;
}

const struct aw_task_sink aw_task_sink_lines = {
    .text = lines_text,
    .figure = lines_figure,
    .row = lines_row,
    .note = lines_note,
    .progress = lines_progress,
};
