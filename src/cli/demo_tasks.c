/*
 * demo_tasks.c - `aware run --demo tasks`: a workload never seen before of every task, what a rule
 * does with it and what the meta-learned one does after a few samples.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/demos.h"
#include "cli/task.h"
#include "flash/tasks.h"
#include "frame/json.h"
#include "frame/show.h"
#include "frame/stop.h"

#define SENTENCE_MAX 320u

/* A figure of the last row in which `key` is `value`; NAN: there is none. */
static double of(const json_t *rows, const char *key, const char *value, const char *figure)
{
    double found = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!strcmp(aw_at_text(json_array_get(rows, i), key), value))
            found = aw_at_real(json_array_get(rows, i), figure);
    return found;
}

static double in_hundred(double share)
{
    return 100 * share;
}

/* What the rows come to, in a sentence; "": of a task that is not ours. */
static void say(const char *task, const json_t *rows, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    if (!strcmp(task, "size")) {
        const json_t *first = json_array_get(rows, 0);
        size_t n = 0;
        while (n + 1 < json_array_size(rows) && aw_at_real(json_array_get(rows, n), "regret") > 0)
            n++;
        const double regret = aw_at_real(json_array_get(rows, n), "regret");
        aw_text_add(&text,
                    "After one measurement it predicts all other sizes with %.0f %% error; mean "
                    "effects have %.0f %%. After %.0f ",
                    in_hundred(aw_at_real(first, "mape_aware")),
                    in_hundred(aw_at_real(first, "mape_additive")),
                    aw_at_real(json_array_get(rows, n), "measured"));
        if (regret > 0)
            aw_text_add(&text, "the best one found is %.1f %% above the best that there is.",
                        in_hundred(regret));
        else
            aw_text_add(&text, "it has found the best one.");
    } else if (!strcmp(task, "congestion")) {
        aw_text_add(&text,
                    "It loses %.1f %% of what the link could give; a controller like BBR loses "
                    "%.1f %%, one like CUBIC %.0f %%.",
                    in_hundred(of(rows, "controller", "adaptive", "regret")),
                    in_hundred(of(rows, "controller", "bbr-like", "regret")),
                    in_hundred(of(rows, "controller", "cubic-like", "regret")));
    } else if (!strcmp(task, "frequency")) { /* the last rows are of work that changes */
        aw_text_add(&text,
                    "Where the work changes it takes %.0f %% of the energy that Linux's schedutil "
                    "takes and misses %.1f %% of the seconds (schedutil %.1f %%).",
                    in_hundred(of(rows, "method", "learned", "joules_of_schedutil")),
                    in_hundred(of(rows, "method", "learned", "missed")),
                    in_hundred(of(rows, "method", "schedutil", "missed")));
    } else if (!strcmp(task, "autoscaling")) {
        const json_t *rule = json_array_get(rows, 0), *learned = json_array_get(rows, 1);
        aw_text_add(&text,
                    "In its first episode it misses the SLO in %.0f %% of the steps, where HPA and "
                    "VPA, untuned, miss %.0f %%, at %.2f times the cost.",
                    in_hundred(aw_at_real(learned, "violations")),
                    in_hundred(aw_at_real(rule, "violations")),
                    aw_at_real(learned, "cost_per_hour") / aw_at_real(rule, "cost_per_hour"));
    }
}

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
    char sentence[SENTENCE_MAX] = "";
    if (!err)
        say(task->name, found.rows, sentence, sizeof sentence);
    if (*sentence)
        json_array_insert_new(found.notes, 0, json_string(sentence));
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
