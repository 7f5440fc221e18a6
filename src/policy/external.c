/* external.c - the agent of another process as a policy. */
#include "policy/external.h"

#include <math.h>
#include <string.h>

#include "base/envelope.h"

struct aw_external *aw_external_of(const struct aw_policy *policy)
{
    return policy->ops == &aw_external_ops ? policy->self : NULL;
}

double aw_external_step(struct aw_external *external,
                        const struct aw_external_agent_settings *settings, int64_t now_us,
                        struct aw_external_agent_report *ret_report)
{
    struct aw_external_agent_answer *heard = &external->memory.heard;
    aw_external_agent_step(settings, &external->memory.agent, heard, now_us, ret_report);
    external->usable = ret_report->asked && ret_report->fault == AW_EXTERNAL_AGENT_FAULT_NONE &&
                       ret_report->standing != AW_EXTERNAL_AGENT_ASIDE;
    memcpy(external->action, heard->action, sizeof external->action);
    const double took_s = heard->took_s;
    memset(heard, 0, sizeof *heard);
    return took_s;
}

static enum aw_err outside_new(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                               void **ret_self)
{
    struct aw_external *external = aw_alloc_new(alloc, 1, sizeof *external);
    if (!external)
        return AW_ERR_NOMEM;
    external->task = *task;
    external->alloc = alloc;
    aw_external_agent_begin(&external->memory.agent, task->now_us);
    *ret_self = external;
    return AW_OK;
}

static void outside_free(void *self)
{
    struct aw_external *external = self;
    if (external)
        aw_alloc_free(external->alloc, external);
}

static size_t outside_bytes(const void *self)
{
    return sizeof *(const struct aw_external *)self;
}

static bool outside_act(void *self, const struct aw_policy_seen *seen, struct aw_policy_answer *ret)
{
    const struct aw_external *external = self;
    if (!external->usable)
        return false;
    memcpy(ret->action, external->action, sizeof ret->action);
    aw_action_plan(external->task.action, seen->action, seen->reading, ret->action, &ret->plan);
    return true;
}

static uint64_t outside_learned(const void *self)
{
    return ((const struct aw_external *)self)->memory.agent.agent;
}

/* What it was taught nobody here knows. */
static double outside_distance(const void *self, const struct aw_policy_seen *seen)
{
    (void)self;
    (void)seen;
    return NAN;
}

static enum aw_err outside_draw(void *self, struct aw_rng *rng)
{
    (void)self; /* it comes as it is */
    (void)rng;
    return AW_OK;
}

static void outside_adopt(void *self, const void *other)
{
    ((struct aw_external *)self)->memory = ((const struct aw_external *)other)->memory;
}

static bool outside_fits(const void *self, const void *other)
{
    (void)self;
    (void)other;
    return true;
}

#define WORDS(at) at has_confidence, at confidence, at explanation
#define ANSWER(at) \
    at agent, at took_s, at fault, at shadow, at action, at unused_, WORDS(at words.), at name
#define MEMORY(at)                                                                          \
    at seen_us, at until_us, at agent, at good, at bad, at standing, at strikes, at streak, \
        at level, at asides, at shadow, at name
AW_LAYOUT(outside_layout, struct aw_external_memory, 0, MEMORY(agent.), ANSWER(heard.));

static size_t outside_state_bytes(const void *self)
{
    return sizeof((const struct aw_external *)self)->memory;
}

static void outside_save(const void *self, void *bytes)
{
    memcpy(bytes, &((const struct aw_external *)self)->memory, outside_state_bytes(self));
}

static enum aw_err outside_load(void *self, const void *bytes)
{
    struct aw_external_memory *memory = &((struct aw_external *)self)->memory;
    memcpy(memory, bytes, sizeof *memory);
    return aw_external_agent_sound(&memory->agent, &memory->heard) ? AW_OK : AW_ERR_FORMAT;
}

static int outside_describe(const void *self, json_t *policy)
{
    return json_object_set_new(policy, "agent",
                               json_string(((const struct aw_external *)self)->memory.agent.name));
}

static enum aw_err outside_read(void *self, const json_t *policy, uint64_t id, struct aw_diag *diag)
{
    (void)self;
    (void)policy;
    (void)id;
    return aw_fail(diag, AW_ERR_CONFIG, "an external agent keeps its policy itself");
}

const struct aw_policy_ops aw_external_ops = {
    .elsewhere = true,
    .new = outside_new,
    .free = outside_free,
    .bytes = outside_bytes,
    .act = outside_act,
    .observe = aw_policy_observes_nothing,
    .known = aw_policy_unknown,
    .learned = outside_learned,
    .distance = outside_distance,
    .sees = aw_policy_sees_nothing,
    .draw = outside_draw,
    .follow = aw_policy_follows_nothing,
    .adopt = outside_adopt,
    .taught = outside_adopt,
    .fits = outside_fits,
    .changed = aw_policy_unchanged,
    .layout = outside_layout,
    .state_bytes = outside_state_bytes,
    .save = outside_save,
    .load = outside_load,
    .describe = outside_describe,
    .read = outside_read,
};
