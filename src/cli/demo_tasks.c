/*
 * demo_tasks.c - `aware run --demo tasks`: a workload never seen before of every task, what a rule
 * does with it and what the meta-learned one does after a few samples.
 */
#include <stdio.h>

#include "cli/demos.h"
#include "cli/task.h"
#include "flash/tasks.h"
#include "frame/json.h"
#include "frame/stop.h"

static enum aw_err task_show(const struct aw_call *call, const struct aw_task *task,
                             json_t *documents, struct aw_diag *diag)
{
    const struct aw_task_ask ask = {
        .seed = aw_args_number(call->args, "seed"), .seeds = 1, .preset = "default"};
    struct aw__task_found found;
    enum aw_err err =
        aw__task_found_init(&found, call->json || aw_args_given(call->args, "quiet"), diag);
    if (err)
        return err;
    if (!call->json)
        printf("%s: %s\n\n", task->name, task->summary);
    fflush(stdout);
    err = aw_task_do(task, AW_TASK_MEET, &ask, &found.sink, diag);
    aw_status_line_clear(&found.line);
    if (!err) {
        json_array_append_new(documents, aw__task_found_json(&found, task, AW_TASK_MEET, &ask));
        if (!call->json)
            err = aw__task_found_print(&found, call->color_out, diag);
        if (!call->json)
            printf("\n");
    }
    aw__task_found_deinit(&found);
    return err;
}

enum aw_err aw__demo_tasks(const struct aw_call *call, struct aw_diag *diag)
{
    json_t *documents = json_array();
    enum aw_err err = documents ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the demo");
    const char *report = aw_args_text(call->args, "report");
    const bool page = aw_args_given(call->args, "report") || !call->json;
    aw_stop_catch(&(struct aw_stop_config){.twice = true});
    for (uint32_t i = 0; aw_tasks()[i] && !err; i++)
        if (aw_tasks()[i]->verb[AW_TASK_MEET])
            err = task_show(call, aw_tasks()[i], documents, diag);
    report = report && *report ? report : "report.html";
    if (!err && page)
        err = aw__task_page_write(documents, "One meta-learner, several tasks",
                                  "a workload never seen before of each task",
                                  "aware run --demo tasks", report, diag);
    if (!err && page && !call->json)
        printf("The same as a page: %s\n", report);
    if (!err && call->json)
        return aw_json_print(documents, diag);
    json_decref(documents);
    return err;
}
