/* task.h - CPU frequency as a task (aware/task.h). */
#ifndef AW_FREQUENCY_TASK_H
#define AW_FREQUENCY_TASK_H

#include <aware/task.h>

extern const struct aw_task aw_frequency_task;

#endif
