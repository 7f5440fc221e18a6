/* tick_timing.c - a desk that looks at the clock. */
#include "web/tick_timing.h"

#include <math.h>

/* From a tick of five workloads to one of ten thousand; learning takes seconds to minutes. */
static const double tick_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,    0.25,  0.5,    1,     2.5,  5,     15};
static const double learn_bounds[] = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

static void add(struct aw_tick_timing *timing, struct aw_metric_histogram *histogram, int64_t us)
{
    pthread_mutex_lock(&timing->lock);
    aw_metric_observe(histogram, 1e-6 * (double)us);
    pthread_mutex_unlock(&timing->lock);
}

static void enter(void *ctx)
{
    struct aw_tick_timing *timing = ctx;
    /* waiting for who looks at the desk is part of a tick */
    timing->entered_us = aw_clock_monotonic_us(timing->clock);
    timing->learned = false;
    timing->inner->enter(timing->inner->ctx);
}

static void leave(void *ctx)
{
    struct aw_tick_timing *timing = ctx;
    timing->inner->leave(timing->inner->ctx);
    timing->left_us = aw_clock_monotonic_us(timing->clock);
    add(timing, &timing->tick, timing->left_us - timing->entered_us);
}

static void orders(void *ctx, uint32_t workload, int64_t now_us, struct aw_orders *ret)
{
    const struct aw_tick_timing *timing = ctx;
    timing->inner->orders(timing->inner->ctx, workload, now_us, ret);
}

static void decided(void *ctx, uint32_t workload, const struct aw_decision *decision,
                    const void *moment, size_t moment_bytes)
{
    const struct aw_tick_timing *timing = ctx;
    timing->inner->decided(timing->inner->ctx, workload, decision, moment, moment_bytes);
}

static enum aw_err record(void *ctx, int64_t now_us, struct aw_diag *diag)
{
    struct aw_tick_timing *timing = ctx;
    const enum aw_err err = timing->inner->record(timing->inner->ctx, now_us, diag);
    if (err) {
        pthread_mutex_lock(&timing->lock);
        timing->records_failed++;
        pthread_mutex_unlock(&timing->lock);
    }
    return err;
}

static void applied(void *ctx, uint32_t workload, const struct aw_decision *decision,
                    enum aw_err err)
{
    struct aw_tick_timing *timing = ctx;
    timing->inner->applied(timing->inner->ctx, workload, decision, err);
    if (err) {
        pthread_mutex_lock(&timing->lock);
        timing->applies_failed++;
        pthread_mutex_unlock(&timing->lock);
    }
}

static void learned(void *ctx, uint32_t workload, enum aw_err err, double took_s)
{
    struct aw_tick_timing *timing = ctx;
    if (!isnan(took_s))
        add(timing, &timing->learn, (int64_t)(1e6 * took_s));
    else if (!timing->learned) /* rounds run side by side: the first to be told ends them all */
        add(timing, &timing->learn, aw_clock_monotonic_us(timing->clock) - timing->left_us);
    timing->learned = true;
    pthread_mutex_lock(&timing->lock);
    timing->rounds += err == AW_OK;
    timing->rounds_without_data += err == AW_ERR_NODATA;
    timing->rounds_failed += err != AW_OK && err != AW_ERR_NODATA;
    pthread_mutex_unlock(&timing->lock);
    timing->inner->learned(timing->inner->ctx, workload, err, took_s);
}

enum aw_err aw_tick_timing_init(struct aw_tick_timing *timing, const struct aw_clock *clock)
{
    *timing = (struct aw_tick_timing){.clock = clock};
    timing->tick.bounds = tick_bounds;
    timing->tick.bound_count = sizeof tick_bounds / sizeof *tick_bounds;
    timing->learn.bounds = learn_bounds;
    timing->learn.bound_count = sizeof learn_bounds / sizeof *learn_bounds;
    if (pthread_mutex_init(&timing->lock, NULL))
        return AW_ERR_NOMEM;
    timing->made = true;
    return AW_OK;
}

void aw_tick_timing_deinit(struct aw_tick_timing *timing)
{
    if (timing->made)
        pthread_mutex_destroy(&timing->lock);
    *timing = (struct aw_tick_timing){0};
}

const struct aw_loop_hooks *aw_tick_timing_desk(struct aw_tick_timing *timing,
                                                const struct aw_loop_hooks *inner)
{
    timing->inner = inner;
    timing->hooks = (struct aw_loop_hooks){.ctx = timing,
                                           .moments = inner->moments,
                                           .enter = enter,
                                           .leave = leave,
                                           .orders = orders,
                                           .decided = decided,
                                           .record = record,
                                           .applied = applied,
                                           .learned = learned};
    return &timing->hooks;
}
