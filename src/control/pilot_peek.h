/*
 * pilot_peek.h - what explanations, evaluations and bad days may see of a pilot, and bend.
 *
 * Call order: between ticks; nudge and stage between a load and decide.
 * Memory:     a peek borrows from the pilot, until its next call.
 * Threads:    those of the pilot.
 *
 * The trap: nothing on the tick may use this. What a bent pilot decides is a question of "what if",
 * or a fault that the rails have to stop.
 */
#ifndef AW_CONTROL_PILOT_PEEK_H
#define AW_CONTROL_PILOT_PEEK_H

#include "control/pilot.h"

struct aw_pilot_peek {
    bool finished; /* a step was, in this tick */
    uint32_t episode;
    const struct aw_reading *reading;
    const struct aw_score *score;
    const struct aw_copy_record *record; /* what copies are made from; NULL: none are made */
    const struct aw_policy *policy;      /* that decided last */
    double better_mean, better_low, better_high; /* than the fallback, per episode; NAN: unknown */
};
void aw_pilot_peek(const struct aw_pilot *pilot, struct aw_pilot_peek *ret);

/* What a copy of the workload (copy_fit.h), fitted to what it has done so far, says of latency
 * under the load of the last decision, with `before` in force and with what was decided. */
struct aw_pilot_forecast {
    double latency_us_before, latency_us_after; /* of the SLO's quantile; INFINITY: more load than
                                                   it can serve; NAN: not known */
    double error;                               /* of the copy: mean of |ln|; NAN: no copy */
    char why[AW_DIAG_TEXT_MAX];                 /* it is not known; "" where it is */
};
void aw_pilot_forecast(const struct aw_pilot *pilot, const struct aw_plan *before,
                       struct aw_pilot_forecast *ret);

/* As if this figure had been measured `factor` times as large, all else as it was. What a step
 * before this one left behind stays. */
void aw_pilot_nudge(struct aw_pilot *pilot, enum aw_input input, double factor);
/* Puts it into this stage, with a watchdog that knows nothing. */
void aw_pilot_set_stage(struct aw_pilot *pilot, enum aw_stage stage, int64_t now_us);

/* Its policy in force, whose numbers can be bent past all that checks what is learned or loaded. */
struct aw_policy *aw_pilot_in_force(struct aw_pilot *pilot);

#endif
