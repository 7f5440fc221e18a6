/* pilot_external.c - a pilot whose agent lives in another process: what it is asked, and what is
 * made of its answer. */
#include <string.h>

#include "control/pilot_internal.h"
#include "policy/external.h"

/* What the fallback is about to want; it is asked again when it is decided, and must not know. */
static void peek(struct aw_pilot *pilot, int64_t now_us, float *ret_action)
{
    struct aw_plan plan;
    struct aw_fallback_reason reason;
    aw_fallback_state_save(pilot->fallback, pilot->peek);
    aw_fallback_decide(pilot->fallback, &pilot->sample, now_us, &plan, &reason);
    const enum aw_err err = aw_fallback_state_load(pilot->fallback, pilot->peek);
    AW_ASSERT(!err);
    const struct aw_plan all = aw__pilot_whole(&plan, &pilot->memory.reading);
    aw_action_from_plan(&pilot->action, &pilot->memory.action, &all, ret_action);
}

bool aw_pilot_asks(struct aw_pilot *pilot, int64_t now_us, struct aw_external_agent_request *ret)
{
    const struct aw__pilot_memory *memory = &pilot->memory;
    const struct aw_external *external = aw_external_of(&pilot->policy);
    if (!external || !pilot->config.learning ||
        !aw_external_agent_asks(&external->memory.agent, now_us))
        return false;
    *ret = (struct aw_external_agent_request){
        .episode = memory->episode,
        .step = memory->step,
        .obs_dim = pilot->obs_dim,
        .act_dim = pilot->action.dim,
        .has_last = pilot->finished,
        .violated = pilot->finished && pilot->score.violated,
        .followed = pilot->finished && memory->actor == AW_ACTOR_AGENT,
        .reward = pilot->finished ? pilot->reward : 0,
    };
    memcpy(ret->obs, pilot->obs, pilot->obs_dim * sizeof *ret->obs);
    peek(pilot, now_us, ret->fallback);
    if (pilot->finished)
        memcpy(ret->action, pilot->action_last, sizeof ret->action);
    return true;
}

void aw_pilot_hear(struct aw_pilot *pilot, const struct aw_external_agent_answer *answer)
{
    struct aw_external *external = aw_external_of(&pilot->policy);
    AW_ASSERT(external);
    external->memory.heard = *answer;
}
