/* pilot_peek.c - looking into a pilot, and bending it. */
#include "control/pilot_peek.h"

#include <math.h>

#include "control/pilot_internal.h"
#include "policy/capacity.h"
#include "policy/network.h"

void aw_pilot_peek(const struct aw_pilot *pilot, struct aw_pilot_peek *ret)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const bool copies = pilot->config.learning && aw__pilot_makes_copies(pilot);
    const bool by_trial = pilot->decision.canary.acts && pilot->trial.self;
    const struct aw_capacity *capacity = aw_capacity_of(&pilot->policy);
    const struct aw_capacity *decided = by_trial ? aw_capacity_of(&pilot->trial) : capacity;
    *ret = (struct aw_pilot_peek){
        .finished = pilot->finished,
        .episode = memory->episode,
        .reading = &memory->reading,
        .score = &pilot->score,
        .record = copies ? &memory->record : NULL,
        .rehearsed_load = capacity ? capacity->memory.rehearsed_load : 0,
        .better_mean = memory->better_mean,
        .better_low = memory->better_low,
        .better_high = memory->better_high,
    };
    if (decided && capacity->memory.id)
        ret->formula = &decided->memory.formula;
}

double aw_pilot_episode_score(const struct aw_pilot *pilot, double cost, double need,
                              double violation_share)
{
    const double ratio = need > 0 ? fmin(AW_COST_RATIO_MAX, cost / need) : 0;
    return -(double)pilot->config.episode_steps * (ratio + pilot->config.lambda * violation_share);
}

void aw_pilot_set_stage(struct aw_pilot *pilot, enum aw_stage stage, int64_t now_us)
{
    pilot->memory.lifecycle.stage = stage;
    aw_watchdog_begin(&pilot->memory.watchdog, now_us);
}

struct aw_pilot_numbers aw_pilot_numbers(struct aw_pilot *pilot)
{
    struct aw_capacity *capacity = aw_capacity_of(&pilot->policy);
    struct aw_network *network = aw_network_of(&pilot->policy);
    return (struct aw_pilot_numbers){
        .formula = capacity ? &capacity->values : NULL,
        .network = network ? &network->actor : NULL,
    };
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
    for (uint32_t i = 0; i < pilot->obs_dim; i++)
        pilot->obs[i] = fminf(aw_state_axes[i].high,
                              fmaxf(aw_state_axes[i].low, pilot->obs[i] + after[i] - before[i]));
}
