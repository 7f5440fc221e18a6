/* pilot_forget.c - a workload's mind as on the first day, in a body that goes on. */
#include "control/pilot_internal.h"

#include <string.h>

enum aw_err aw_pilot_forget(struct aw_pilot *pilot, int64_t order_us, struct aw_diag *diag)
{
    if (order_us <= pilot->memory.forgotten_us)
        return AW_OK;
    struct aw_pilot *fresh = NULL;
    enum aw_err err =
        aw_pilot_new(&pilot->config, &pilot->task, order_us, pilot->alloc, &fresh, diag);
    if (err)
        return err;
    if ((err = aw__pilot_copy_policy(pilot, &fresh->policy, &pilot->policy))) {
        aw_pilot_free(fresh);
        return aw_fail(diag, err, "no memory to forget what workload %s has learned",
                       pilot->config.name);
    }
    const struct aw__pilot_memory before = pilot->memory;
    struct aw__pilot_memory *memory = &pilot->memory;
    *memory = fresh->memory;
    memory->forgotten_us = order_us;
    memory->policy_order = before.policy_order;

    /* what is seen of the workload, and what was done to it */
    memory->state = before.state;
    memory->action = before.action;
    memory->guard = before.guard;
    memory->relief = before.relief;
    memory->reading = before.reading;

    /* the step in flight, which has to be finished and kept as it was begun */
    memory->episode = before.episode;
    memory->step = before.step;
    memory->in_flight = before.in_flight;
    memory->actor = before.actor;
    memory->stage = before.stage;
    memory->has_shadow = before.has_shadow;
    memory->at_us = before.at_us;
    memory->policy_id = before.policy_id;
    memcpy(memory->obs, before.obs, sizeof memory->obs);
    memcpy(memory->action_taken, before.action_taken, sizeof memory->action_taken);
    memcpy(memory->shadow, before.shadow, sizeof memory->shadow);

    /* sizes that the agent has left behind go home */
    memory->away = before.away;
    memcpy(memory->home, before.home, sizeof memory->home);

    /* of the episode so far; nothing of it is believed */
    memory->gain_sum = before.gain_sum;
    memory->cost_sum = before.cost_sum;
    memory->need_sum = before.need_sum;
    memory->step_count = before.step_count;
    memory->violation_count = before.violation_count;
    memory->agent_steps = before.agent_steps;
    memory->learn_from = before.episode + 1;

    aw_policy_free(&pilot->trial);
    pilot->moved = true;
    aw_learner_free(pilot->learner);
    pilot->learner = NULL;
    aw_pilot_free(fresh);
    return AW_OK;
}
