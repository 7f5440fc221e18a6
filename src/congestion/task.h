/* task.h - congestion control as a task (aware/task.h). */
#ifndef AW_CONGESTION_TASK_H
#define AW_CONGESTION_TASK_H

#include <aware/task.h>

extern const struct aw_task aw_congestion_task;

#endif
