/*
 * time_scale.h - a cluster whose time runs faster: hours of control in minutes of real processes.
 *
 * What a controller knows of time is in its settings: periods of 15 s, windows of minutes, quiet
 * times of hours. To see hours of it on a cluster that cannot be hurried (local.h) there are two
 * clocks: `speed` seconds of the clock that controllers see pass in one real second. All times that
 * a cluster tells are scaled, and nothing else is: rates are per real second, latencies and CPU
 * time are real, as a load that is sent faster keeps its rates (load/timetable.h).
 *
 * Call order: init, then through aw_time_scale_cluster as any cluster.
 * Memory:     the caller's struct; nothing is allocated.
 * Threads:    those of the cluster inside.
 *
 * The trap: what takes real time takes longer here. A replica that needs a second to start seems to
 * need `speed` of them, and a step has fewer requests than its rate and its length say.
 */
#ifndef AW_CLUSTER_TIME_SCALE_H
#define AW_CLUSTER_TIME_SCALE_H

#include <aware/cluster.h>

#define AW_TIME_SCALE_MIN 0.01
#define AW_TIME_SCALE_MAX 1000.0

struct aw_time_scale {
    struct aw_cluster inner; /* borrowed */
    double speed;
    int64_t inner_us, outer_us;             /* the same moment by both clocks */
    struct aw_pod pod[AW_CLUSTER_PODS_MAX]; /* of the last sample */
};

/* It is `begin_us` now. `speed` is within AW_TIME_SCALE_MIN and AW_TIME_SCALE_MAX (AW_ASSERT). */
void aw_time_scale_init(struct aw_time_scale *pace, struct aw_cluster inner, double speed,
                        int64_t begin_us);
/* Deadlines of observe and apply are passed on as they are: what a caller is ready to wait is real.
 * `free` frees the cluster inside. */
struct aw_cluster aw_time_scale_cluster(struct aw_time_scale *pace);

#endif
