/* task.c - the verbs `task list|describe|train|meet|compare|evaluate`: one mechanism, any task. */
#include <aware/task.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/threads.h"
#include "cli/task.h"
#include "flash/tasks.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/stop.h"
#include "frame/verbs.h"

#define HEAD_MAX    32u
#define COLUMNS_MAX 20u

/* --- what a task finds ------------------------------------------------------------------------ */

static void sink_text(void *self, const char *key, const char *value)
{
    struct aw__task_found *found = self;
    json_object_set_new(found->row, key, json_string(value));
}

static void sink_figure(void *self, const char *key, double value)
{
    struct aw__task_found *found = self;
    const bool whole = fabs(value) < 1e15 && value == nearbyint(value);
    json_object_set_new(found->row, key,
                        whole ? json_integer((json_int_t)value) : aw_json_real(value));
}

static void sink_row(void *self)
{
    struct aw__task_found *found = self;
    json_array_append_new(found->rows, found->row);
    found->row = json_object();
}

static void sink_note(void *self, const char *sentence)
{
    struct aw__task_found *found = self;
    json_array_append_new(found->notes, json_string(sentence));
}

static bool sink_progress(void *self, double share, const char *what)
{
    struct aw__task_found *found = self;
    aw_status_line_draw(&found->line, false, aw_clock_monotonic_us(NULL), "%3.0f %%  %s",
                        100 * share, what);
    return aw_stop_signal == 0;
}

static const char *cell(const json_t *value, char *buf, size_t size)
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value))
        snprintf(buf, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value) && fabs(json_real_value(value)) < 100 &&
             fabs(json_real_value(value)) >= 5e-4)
        snprintf(buf, size, "%.3f", json_real_value(value));
    else if (json_is_real(value))
        snprintf(buf, size, "%.4g", json_real_value(value));
    else
        snprintf(buf, size, "-");
    return buf;
}

/* "median_ape" as ">MEDIAN APE"; figures stand to the right. */
static void head_of(const char *key, const json_t *value, char head[HEAD_MAX])
{
    size_t n = 0;
    if (!json_is_string(value))
        head[n++] = '>';
    for (const char *c = key; *c && n + 1 < HEAD_MAX; c++)
        head[n++] = *c == '_' ? ' ' : (char)toupper((unsigned char)*c);
    head[n] = 0;
}

enum aw_err aw__task_found_init(struct aw__task_found *found, bool quiet, struct aw_diag *diag)
{
    *found =
        (struct aw__task_found){.rows = json_array(), .row = json_object(), .notes = json_array()};
    found->sink =
        (struct aw_task_sink){found, sink_text, sink_figure, sink_row, sink_note, sink_progress};
    aw_status_line_init(&found->line, stderr, quiet);
    if (found->rows && found->row && found->notes)
        return AW_OK;
    aw__task_found_deinit(found);
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for results");
}

void aw__task_found_deinit(struct aw__task_found *found)
{
    json_decref(found->rows);
    json_decref(found->row);
    json_decref(found->notes);
    *found = (struct aw__task_found){0};
}

json_t *aw__task_found_json(const struct aw__task_found *found, const struct aw_task *task,
                            enum aw_task_verb verb, const struct aw_task_ask *ask)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:O, s:O}", "task", task->name, "verb",
                     aw_task_verb_text(verb), "seed", (json_int_t)ask->seed, "seeds",
                     (json_int_t)ask->seeds, "rows", found->rows, "notes", found->notes);
}

/* Whether a column says nothing to people: a number that is the same in all rows, or what an
 * earlier column has said already. JSON has them all. */
static bool idle(const json_t *rows, const char *key, const char *const *before, uint32_t count)
{
    const json_t *first = json_object_get(json_array_get(rows, 0), key), *row;
    bool same = json_array_size(rows) > 1 && json_is_number(first);
    size_t i;
    json_array_foreach(rows, i, row) same = same && json_equal(json_object_get(row, key), first);
    for (uint32_t k = 0; !same && k < count && json_is_number(first); k++) {
        same = true;
        json_array_foreach(rows, i, row) same =
            same && json_equal(json_object_get(row, key), json_object_get(row, before[k]));
    }
    return same;
}

enum aw_err aw__task_found_print(const struct aw__task_found *found, bool color,
                                 struct aw_diag *diag)
{
    char head[COLUMNS_MAX][HEAD_MAX], buf[64];
    const char *heads[COLUMNS_MAX + 1] = {NULL}, *keys[COLUMNS_MAX];
    uint32_t column_count = 0;
    size_t index;
    const char *key;
    json_t *row, *value;
    json_object_foreach(json_array_get(found->rows, 0), key, value)
    {
        if (column_count == COLUMNS_MAX)
            break;
        if (idle(found->rows, key, keys, column_count))
            continue;
        head_of(key, value, head[column_count]);
        keys[column_count] = key;
        heads[column_count] = head[column_count];
        column_count++;
    }
    if (column_count > 0) {
        struct aw_table table;
        aw_table_init(&table, heads);
        json_array_foreach(found->rows, index, row) for (uint32_t k = 0; k < column_count; k++)
            aw_table_add(&table, "%s", cell(json_object_get(row, keys[k]), buf, sizeof buf));
        const enum aw_err err = aw_table_print(&table, stdout, color, diag);
        if (err)
            return err;
    }
    if (json_array_size(found->notes) > 0 && column_count > 0)
        printf("\n");
    json_array_foreach(found->notes, index, value)
        aw_wrap(stdout, json_string_value(value), 0, 0, aw_columns(stdout));
    return AW_OK;
}

static enum aw_err verb_do(enum aw_task_verb verb, const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const struct aw_task *task = NULL;
    enum aw_err err = aw_task_find(args->positional[0], &task, diag);
    if (err)
        return err;
    const struct aw_task_ask ask = {
        .data = aw_args_text(args, "data"),
        .model = aw_args_text(args, "model"),
        .preset = aw_args_text(args, "preset"),
        .seed = aw_args_number(args, "seed"),
        .seeds = (uint32_t)aw_args_number(args, "seeds"),
        .threads = (uint32_t)aw_args_number(args, "threads"),
    };
    struct aw__task_found found;
    if ((err = aw__task_found_init(&found, aw_args_given(args, "quiet"), diag)))
        return err;
    aw_stop_catch(&(struct aw_stop_config){.twice = true});
    err = aw_task_do(task, verb, &ask, &found.sink, diag);
    aw_status_line_clear(&found.line);
    json_t *document = err ? NULL : aw__task_found_json(&found, task, verb, &ask);
    if (!err && aw_args_given(args, "report")) {
        char command[AW_TEXT_MAX];
        json_t *documents = json_pack("[O]", document);
        snprintf(command, sizeof command, "aware task %s %s --seed %llu --seeds %u",
                 aw_task_verb_text(verb), task->name, (unsigned long long)ask.seed, ask.seeds);
        err = aw__task_page_write(documents, task->name, task->summary, command,
                                  aw_args_text(args, "report"), diag);
        json_decref(documents);
    }
    if (!err && run->json)
        err = aw_json_print(json_incref(document), diag);
    else if (!err)
        err = aw__task_found_print(&found, run->color_out, diag);
    json_decref(document);
    aw__task_found_deinit(&found);
    return err;
}

/* --- list and describe ------------------------------------------------------------------------ */

static json_t *task_json(const struct aw_task *task)
{
    json_t *verbs = json_array(), *baselines = json_array();
    for (uint32_t v = 0; v < AW_TASK_VERBS; v++)
        if (task->verb[v])
            json_array_append_new(verbs, json_string(aw_task_verb_text((enum aw_task_verb)v)));
    for (uint32_t b = 0; b < task->baseline_count; b++)
        json_array_append_new(baselines, json_pack("{s:s, s:s}", "name", task->baseline[b].name,
                                                   "summary", task->baseline[b].summary));
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "name", task->name, "summary",
                     task->summary, "kind", aw_task_kind_text(task->kind), "feature_dim",
                     (json_int_t)task->feature_dim, "action_dim", (json_int_t)task->action_dim,
                     "steps_max", (json_int_t)task->steps_max, "verbs", verbs, "baselines",
                     baselines);
}

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"NAME", "KIND", ">BASELINES", "SUMMARY", NULL};
    const struct aw_task *const *tasks = aw_tasks();
    if (run->json) {
        json_t *list = json_array();
        for (uint32_t i = 0; tasks[i]; i++)
            json_array_append_new(list, task_json(tasks[i]));
        return aw_json_print(list, diag);
    }
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; tasks[i]; i++) {
        aw_table_add(&table, "%s", tasks[i]->name);
        aw_table_add(&table, "%s", aw_task_kind_text(tasks[i]->kind));
        aw_table_add(&table, "%u", tasks[i]->baseline_count);
        aw_table_add(&table, "%s", tasks[i]->summary);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static void dim_print(const char *what, uint32_t count)
{
    if (count > 0)
        printf("%s%u\n", what, count);
}

static enum aw_err describe_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"BASELINE", "WHAT IT DOES", NULL};
    const struct aw_task *task = NULL;
    const enum aw_err err = aw_task_find(run->args->positional[0], &task, diag);
    if (err)
        return err;
    if (run->json)
        return aw_json_print(task_json(task), diag);
    printf("%s: %s\n\n", task->name, task->summary);
    if (task->text) {
        aw_wrap(stdout, task->text, 0, 0, aw_columns(stdout));
        printf("\n");
    }
    printf("Kind:      %s\n", aw_task_kind_text(task->kind));
    dim_print(task->kind == AW_TASK_SUPERVISED ? "Features:  " : "State:     ", task->feature_dim);
    dim_print(task->kind == AW_TASK_DISCRETE ? "Choices:   " : "Action:    ", task->action_dim);
    dim_print("Steps:     ", task->steps_max);
    printf("Verbs:    ");
    for (uint32_t v = 0; v < AW_TASK_VERBS; v++)
        if (task->verb[v])
            printf(" %s", aw_task_verb_text((enum aw_task_verb)v));
    printf("\n\n");
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t b = 0; b < task->baseline_count; b++) {
        aw_table_add(&table, "%s", task->baseline[b].name);
        aw_table_add(&table, "%s", task->baseline[b].summary);
    }
    return aw_table_print(&table, stdout, run->color_out, diag);
}

static const struct aw_positional name_positional[] = {
    {.name = "NAME", .kind = AW_ARG_TEXT, .help = "a task; 'aware task list' shows them"},
    {.name = NULL},
};
static const struct aw_example list_examples[] = {
    {"aware task list", "what can be learned across workloads"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_task_list = {
    .name = "task list",
    .summary = "List the tasks that one meta-learner serves",
    .text = "A task is a way of managing a system: its workloads, an oracle, simple rules to beat, "
            "and a learner that adapts to a workload it has never seen.",
    .examples = list_examples,
    .json = true,
    .run = list_run,
};
static const struct aw_example describe_examples[] = {
    {"aware task describe congestion", "what a state, an action and a reward are"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_task_describe = {
    .name = "task describe",
    .summary = "Show what a task is, its baselines and its verbs",
    .positionals = name_positional,
    .examples = describe_examples,
    .json = true,
    .run = describe_run,
};

/* --- train, meet, compare, evaluate ----------------------------------------------------------- */

static const char *const presets[] = {"default", "paper", NULL};
static const struct aw_option task_options[] = {
    AW_OPTION(FILE, "data", 'd', "FILE", NULL,
              "measurements, or a trace, that the task reads instead of its own world"),
    AW_OPTION(FILE, "model", 'm', "FILE", NULL,
              "the model: 'train' writes it, the other verbs read it"),
    AW_OPTION(CHOICE, "preset", 0, "NAME", "default", "settings of encoder and base learner",
              .choices = presets),
    AW_OPTION_SEED("1", "the first seed; the same seed gives the same figures"),
    AW_NUMBER("seeds", 0, "N", "3", 1, 100, "seeds, one after the other, from --seed on"),
    AW_OPTION_THREADS("0", "threads; 0: one for each processor"),
    AW_OPTION(FILE, "report", 0, "FILE", NULL, "write the rows as a page too"),
    AW_FLAG("quiet", 'q', "no progress on standard error"),
    {.name = NULL},
};

static enum aw_err train_run(const struct aw_call *run, struct aw_diag *diag)
{
    return verb_do(AW_TASK_TRAIN, run, diag);
}

static enum aw_err meet_run(const struct aw_call *run, struct aw_diag *diag)
{
    return verb_do(AW_TASK_MEET, run, diag);
}

static enum aw_err compare_run(const struct aw_call *run, struct aw_diag *diag)
{
    return verb_do(AW_TASK_COMPARE, run, diag);
}

static enum aw_err evaluate_run(const struct aw_call *run, struct aw_diag *diag)
{
    return verb_do(AW_TASK_EVALUATE, run, diag);
}

static const struct aw_example train_examples[] = {
    {"aware task train congestion --model congestion.json", "learn it anew; some minutes"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_task_train = {
    .name = "task train",
    .summary = "Learn a task from its workloads and write a model",
    .options = task_options,
    .positionals = name_positional,
    .examples = train_examples,
    .json = true,
    .run = train_run,
};
static const struct aw_example meet_examples[] = {
    {"aware task meet congestion", "links never seen before, with the model that ships"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_task_meet = {
    .name = "task meet",
    .summary = "Meet workloads never seen before, with what a model knows",
    .options = task_options,
    .positionals = name_positional,
    .examples = meet_examples,
    .json = true,
    .run = meet_run,
};
static const struct aw_example compare_examples[] = {
    {"aware task compare size --data measurements.csv -o json",
     "beside simple rules and ablations"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_task_compare = {
    .name = "task compare",
    .summary = "Compare a task's learner with its baselines, peers and ablations",
    .text = "Ablations give the learner an embedding of another workload (shuffled), none (zeroed) "
            "or the workload's true parameters: if shuffled is as good as right, the embedding "
            "tells nothing.",
    .options = task_options,
    .positionals = name_positional,
    .examples = compare_examples,
    .json = true,
    .run = compare_run,
};
static const struct aw_example evaluate_examples[] = {
    {"aware task evaluate size --data measurements.csv",
     "errors, regret and coverage of intervals"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_task_evaluate = {
    .name = "task evaluate",
    .summary = "Evaluate a task's learner and its baselines on a file of measurements",
    .options = task_options,
    .positionals = name_positional,
    .examples = evaluate_examples,
    .json = true,
    .run = evaluate_run,
};
