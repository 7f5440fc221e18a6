/* tasks.c - the table of tasks. A new one: its header, and its line. */
#include "flash/tasks.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "congestion/task.h"
#include "frequency/task.h"
#include "pretrain/autoscaling.h"
#include "sizing/task.h"

static const struct aw_task *const tasks[] = {
    &aw_task_size, &aw_congestion_task, &aw_frequency_task, &aw_autoscaling_task, NULL,
};

const struct aw_task *const *aw_tasks(void)
{
    return tasks;
}

enum aw_err aw_task_find(const char *name, const struct aw_task **ret_task, struct aw_diag *diag)
{
    char names[256] = "", quoted[AW_TEXT_QUOTE_MAX];
    for (uint32_t i = 0; tasks[i]; i++) {
        if (strcmp(tasks[i]->name, name) == 0) {
            *ret_task = tasks[i];
            return AW_OK;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", tasks[i]->name);
    }
    return aw_fail(diag, AW_ERR_NOTFOUND, "expected a task (%s), found %s", names,
                   aw_text_quote(name, strlen(name), quoted, sizeof quoted));
}
