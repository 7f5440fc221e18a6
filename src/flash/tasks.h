/* tasks.h - the tasks that the program knows (aware/task.h): one line each in tasks.c. */
#ifndef AW_FLASH_TASKS_H
#define AW_FLASH_TASKS_H

#include <aware/task.h>

/* All of them, ending with NULL. */
const struct aw_task *const *aw_tasks(void);
/* AW_ERR_NOTFOUND with a diagnostic that names what there is. */
AW_NODISCARD enum aw_err aw_task_find(const char *name, const struct aw_task **ret_task,
                                      struct aw_diag *diag);

#endif
