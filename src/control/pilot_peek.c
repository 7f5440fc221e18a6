/* pilot_peek.c - looking into a pilot, and bending it. */
#include "control/pilot_peek.h"

#include <math.h>
#include <string.h>

#include "control/pilot_internal.h"

void aw_pilot_peek(const struct aw_pilot *pilot, struct aw_pilot_peek *ret)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const bool by_trial = pilot->decision.canary.acts && pilot->trial.self;
    *ret = (struct aw_pilot_peek){
        .finished = pilot->finished,
        .episode = memory->episode,
        .reading = &memory->reading,
        .score = &pilot->score,
        .record = aw__pilot_makes_copies(pilot) ? &memory->record : NULL,
        .policy = by_trial ? &pilot->trial : &pilot->policy,
        .better_mean = memory->better_mean,
        .better_low = memory->better_low,
        .better_high = memory->better_high,
    };
}

void aw_pilot_forecast(const struct aw_pilot *pilot, const struct aw_plan *before,
                       struct aw_pilot_forecast *ret)
{
    const struct aw_decision *decision = &pilot->decision;
    const double arrivals = decision->reading.arrivals_per_s;
    const double error_max = pilot->config.rehearse.error_max;
    struct aw_copy_fit fit;
    struct aw_diag why;
    *ret =
        (struct aw_pilot_forecast){.latency_us_before = NAN, .latency_us_after = NAN, .error = NAN};
    why.text[0] = '\0';
    if (!aw__pilot_makes_copies(pilot)) {
        aw_fail(&why, AW_ERR_NODATA, "no copy of the workload is made: it learns from its record");
    } else if (isnan(arrivals)) {
        aw_fail(&why, AW_ERR_NODATA, "the load was not known");
    } else if (aw_copy_fit(&pilot->memory.record, pilot->config.slo.quantile, 0, &fit)) {
        aw_fail(&why, AW_ERR_NODATA, "too little was seen of the workload to make a copy of it");
    } else if (fit.error > error_max) {
        ret->error = fit.error;
        aw_fail(&why, AW_ERR_NODATA, "the copy of the workload is off by %.2f, %.2f is believed",
                fit.error, error_max);
    } else {
        const struct aw_plan after = aw_plan_over(&decision->guard.plan, before);
        ret->error = fit.error;
        ret->latency_us_before = aw_copy_latency_us(&fit, before, arrivals);
        ret->latency_us_after = aw_copy_latency_us(&fit, &after, arrivals);
    }
    memcpy(ret->why, why.text, sizeof ret->why);
}

void aw_pilot_set_stage(struct aw_pilot *pilot, enum aw_stage stage, int64_t now_us)
{
    pilot->memory.lifecycle.stage = stage;
    aw_watchdog_begin(&pilot->memory.watchdog, now_us);
}

struct aw_policy *aw_pilot_in_force(struct aw_pilot *pilot)
{
    return &pilot->policy;
}

/* --- as if it had been measured so ------------------------------------------------------------ */

/* What a state looks like from here; the difference of two such is what a figure does to it. */
static void encode(const struct aw_pilot *pilot, float *out)
{
    struct aw_state_memory past = pilot->memory.state;
    aw_state_encode(&pilot->state, &past, &pilot->memory.reading, &pilot->score, out);
}

void aw_pilot_nudge(struct aw_pilot *pilot, enum aw_input input, double factor)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    float before[AW_STATE_DIM_MAX], after[AW_STATE_DIM_MAX];
    encode(pilot, before);
    aw__pilot_figure(pilot, input)->value *= factor;
    for (uint32_t i = 0; i < pilot->sample.pod_count; i++) {
        if (input == AW_INPUT_CPU_CORES_USED)
            pilot->pods[i].cpu_cores_used.value *= factor;
        if (input == AW_INPUT_MEMORY_BYTES_USED)
            pilot->pods[i].memory_bytes_used.value *= factor;
    }
    aw_reading_take(&pilot->sample, pilot->rules.stale_us, pilot->config.slo.quantile,
                    &memory->reading);
    pilot->rules.objective.cost_reference_per_hour = memory->cost_reference_per_hour;
    aw_step_score(&pilot->rules, &memory->reading, &pilot->score);
    pilot->gain = aw__pilot_gain(pilot, pilot->score.cost, pilot->score.paper_reward);

    /* the reading takes the place of the one that was taken in last */
    struct aw_action_memory *action = &memory->action;
    action->next = (action->next ? action->next : pilot->action.config.window) - 1;
    action->oom_steps_left += action->oom_steps_left > 0;
    aw_action_observe(&pilot->action, action, &memory->reading);
    encode(pilot, after);
    for (uint32_t i = 0; i < pilot->obs_dim; i++) {
        const struct aw_space_axis *axis = aw_state_axis(pilot->obs_dim, pilot->state.more, i);
        pilot->obs[i] = fminf(axis->high, fmaxf(axis->low, pilot->obs[i] + after[i] - before[i]));
    }
}
