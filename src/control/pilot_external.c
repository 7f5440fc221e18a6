/* pilot_external.c - a pilot whose agent lives in another process: what it is asked, and what is
 * made of its answer. */
#include <math.h>
#include <string.h>

#include "control/loop_internal.h"
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

static float change(double now, double before)
{
    return now > 0 && before > 0 ? (float)fmax(-1, fmin(1, log(now / before))) : 0;
}

bool aw__pilot_figures(const struct aw_pilot *pilot, float ret[AW_OTHERS_FIGURES],
                       float *ret_reward)
{
    const struct aw_reading *now = &pilot->memory.reading, *before = &pilot->decision.reading;
    const struct aw_plan plan = aw_plan_of(now->wanted), last = aw_plan_of(before->wanted);
    const double cpu = now->allocated[AW_RESOURCE_CPU] * 1e-3;
    const double memory = now->allocated[AW_RESOURCE_MEMORY] * 0x1p-30;
    const double slo = pilot->config.slo.latency_us_p99, latency = now->latency_us_slo;
    const bool missed = slo > 0 && latency > slo;
    const float figures[AW_OTHERS_FIGURES] = {
        [AW_OTHERS_CPU] = (float)log1p(fmax(0, cpu)),
        [AW_OTHERS_MEMORY] = (float)log1p(fmax(0, memory)),
        [AW_OTHERS_VERTICAL] = change((double)plan.cpu_millicores, (double)last.cpu_millicores),
        [AW_OTHERS_HORIZONTAL] = change((double)plan.replicas, (double)last.replicas),
        [AW_OTHERS_KEPT] = missed ? (float)(slo / latency) : 1,
        [AW_OTHERS_USE] = isfinite(now->cpu_utilisation) ? (float)now->cpu_utilisation : 0,
    };
    memcpy(ret, figures, sizeof figures);
    *ret_reward = pilot->finished ? pilot->reward : 0;
    return pilot->finished;
}

void aw_pilot_hear(struct aw_pilot *pilot, const struct aw_external_agent_answer *answer)
{
    struct aw_external *external = aw_external_of(&pilot->policy);
    AW_ASSERT(external);
    external->memory.heard = *answer;
}
