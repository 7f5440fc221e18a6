/* task_contract.c - whether a task's table is whole, and its verbs (aware/task.h). */
#include <aware/task.h>

#include <string.h>

static const char *const verb_texts[AW_TASK_VERBS] = {"train", "meet", "compare", "evaluate"};

const char *aw_task_kind_text(enum aw_task_kind kind)
{
    static const char *const texts[] = {"supervised", "discrete", "box"};
    AW_ASSERT((size_t)kind < sizeof texts / sizeof *texts);
    return texts[kind];
}

const char *aw_task_verb_text(enum aw_task_verb verb)
{
    AW_ASSERT(verb < AW_TASK_VERBS);
    return verb_texts[verb];
}

static enum aw_err wrong(struct aw_diag *diag, const struct aw_task *task, const char *key,
                         const char *expected)
{
    return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key, "task %s: expected %s",
                      task->name && *task->name ? task->name : "(without a name)", expected);
}

static bool name_is_plain(const char *name)
{
    return name && *name && strlen(name) < AW_TASK_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static enum aw_err world_check(const struct aw_task *task, struct aw_diag *diag)
{
    if (task->feature_dim == 0 || task->feature_dim > AW_TASK_DIM_MAX)
        return wrong(diag, task, "feature_dim", "1 to 256");
    if (task->kind == AW_TASK_SUPERVISED) {
        if (!task->configuration || !task->sample || task->configuration_count < 2)
            return wrong(diag, task, "configuration", "two configurations or more, and sample");
        return AW_OK;
    }
    if (task->action_dim == 0 || task->action_dim > AW_TASK_DIM_MAX)
        return wrong(diag, task, "action_dim", "1 to 256");
    if (task->steps_max == 0)
        return wrong(diag, task, "steps_max", "1 or more");
    if (!task->reset || !task->step || task->world_bytes == 0 ||
        task->world_bytes > AW_TASK_WORLD_MAX)
        return wrong(diag, task, "reset", "reset, step and the bytes of a world");
    return AW_OK;
}

enum aw_err aw_task_check(const struct aw_task *task, struct aw_diag *diag)
{
    if (!name_is_plain(task->name))
        return wrong(diag, task, "name", "1 to 63 lower-case letters, digits and dashes");
    if (!task->summary || !*task->summary)
        return wrong(diag, task, "summary", "one line about the task");
    if (!task->baseline || task->baseline_count == 0 || task->baseline_count > AW_TASK_BASELINE_MAX)
        return wrong(diag, task, "baseline",
                     "1 to 32 baselines: what nothing simple was compared with says nothing");
    for (uint32_t i = 0; i < task->baseline_count; i++) {
        const struct aw_task_baseline *baseline = &task->baseline[i];
        if (!name_is_plain(baseline->name) || baseline->memory_bytes > AW_TASK_MEMORY_MAX)
            return wrong(diag, task, "baseline", "a plain name and at most 64 KiB of memory");
    }
    if (task->fallback >= task->baseline_count)
        return wrong(diag, task, "fallback", "the index of a baseline");
    /* what others do may be known to the verbs alone: a list to search by predicts nothing */
    const struct aw_task_baseline *fallback = &task->baseline[task->fallback];
    if (task->pair && (task->kind == AW_TASK_SUPERVISED ? !fallback->predict : !fallback->act))
        return wrong(diag, task, fallback->name, "what the baseline does: act, or predict");
    return task->pair ? world_check(task, diag) : AW_OK;
}

enum aw_err aw_task_do(const struct aw_task *task, enum aw_task_verb verb,
                       const struct aw_task_ask *ask, const struct aw_task_sink *sink,
                       struct aw_diag *diag)
{
    AW_ASSERT(verb < AW_TASK_VERBS);
    const enum aw_err err = aw_task_check(task, diag);
    if (err)
        return err;
    if (!task->verb[verb])
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "task %s has no '%s'", task->name,
                       verb_texts[verb]);
    return task->verb[verb](task, ask, sink, diag);
}

double aw_task_play(const struct aw_task *task, const struct aw_task_baseline *baseline,
                    const struct aw_task_pair *pair, uint64_t seed, void *world, void *memory,
                    uint32_t *ret_steps)
{
    float obs[AW_TASK_DIM_MAX], action[AW_TASK_DIM_MAX] = {0};
    struct aw_task_step step = {0};
    double sum = 0;
    uint32_t steps = 0;
    AW_ASSERT(task->reset && baseline->act);
    if (baseline->memory_bytes > 0)
        memset(memory, 0, baseline->memory_bytes);
    for (task->reset(world, pair, seed, obs); !step.done && steps < task->steps_max; steps++) {
        baseline->act(memory, obs, action);
        task->step(world, action, obs, &step);
        sum += step.reward;
    }
    *ret_steps = steps;
    return sum;
}
