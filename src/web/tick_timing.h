/*
 * tick_timing.h - how long the loop takes: a desk that measures and hands everything on to another.
 *
 * Call order: init; desk, which goes into the loop's config in the place of the other one; read
 *             from any thread; deinit when the loop is gone.
 * Memory:     plain struct.
 * Threads:    the loop tells on its own thread; a lock is held while numbers are added or read.
 *
 * What is measured is real time: from enter to leave, which is everything but learning, and from
 * leave until the results of learning are reported, a round of several workloads at once.
 */
#ifndef AW_WEB_TICK_TIMING_H
#define AW_WEB_TICK_TIMING_H

#include <pthread.h>

#include "base/clock.h"
#include "control/loop.h"
#include "telemetry/metrics.h"

struct aw_tick_timing {
    const struct aw_clock *clock;      /* NULL: the real one */
    const struct aw_loop_hooks *inner; /* borrowed */
    struct aw_loop_hooks hooks;
    int64_t entered_us, left_us; /* monotonic */
    bool learned;                /* in this tick */
    pthread_mutex_t lock;        /* of what follows */
    bool made;
    struct aw_metric_histogram tick;  /* seconds */
    struct aw_metric_histogram learn; /* seconds, of one tick's rounds together */
    uint64_t rounds, rounds_failed, rounds_without_data;
    uint64_t applies_failed, records_failed;
};

AW_NODISCARD enum aw_err aw_tick_timing_init(struct aw_tick_timing *timing,
                                             const struct aw_clock *clock);
void aw_tick_timing_deinit(struct aw_tick_timing *timing); /* a zeroed one is a no-op */
/* The desk to use in the place of `inner`, which may be another one after a reload. */
const struct aw_loop_hooks *aw_tick_timing_desk(struct aw_tick_timing *timing,
                                                const struct aw_loop_hooks *inner);

#endif
