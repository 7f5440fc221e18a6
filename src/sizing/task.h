/* task.h - configuration search as a task (aware/task.h): `aware task ... size`. */
#ifndef AW_SIZING_TASK_H
#define AW_SIZING_TASK_H

#include <aware/task.h>

extern const struct aw_task aw_task_size;

#endif
