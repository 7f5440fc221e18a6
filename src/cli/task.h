/* task.h - what the files of the verbs `task` share: rows that a task found, printed and drawn. */
#ifndef AW_CLI_TASK_H
#define AW_CLI_TASK_H

#include <aware/task.h>

#include <jansson.h>

#include "frame/status_line.h"

/* What a task put into its sink. */
struct aw__task_found {
    json_t *rows, *row, *notes;
    struct aw_status_line line;
    struct aw_task_sink sink;
};
AW_NODISCARD enum aw_err aw__task_found_init(struct aw__task_found *found, bool quiet,
                                             struct aw_diag *diag);
void aw__task_found_deinit(struct aw__task_found *found); /* a zeroed one is a no-op */

/* Rows as a table for people, then the notes. */
AW_NODISCARD enum aw_err aw__task_found_print(const struct aw__task_found *found, bool color,
                                              struct aw_diag *diag);
/* {"task", "verb", "seed", "seeds", "rows", "notes"}. NULL: out of memory. */
json_t *aw__task_found_json(const struct aw__task_found *found, const struct aw_task *task,
                            enum aw_task_verb verb, const struct aw_task_ask *ask);
/* Documents of the form above, one table each, as a page. */
AW_NODISCARD enum aw_err aw__task_page_write(const json_t *documents, const char *title,
                                             const char *shows, const char *command,
                                             const char *path, struct aw_diag *diag);

#endif
