/* autoscaling.h - autoscaling behind the contract of tasks (aware/task.h). */
#ifndef AW_PRETRAIN_AUTOSCALING_H
#define AW_PRETRAIN_AUTOSCALING_H

#include <aware/task.h>

extern const struct aw_task aw_autoscaling_task;

#endif
