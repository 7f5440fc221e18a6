/* external.c - the agent of another process as a policy. */
#include "policy/external.h"

#include <math.h>
#include <string.h>

struct aw_outside *aw_outside_of(const struct aw_policy *policy)
{
    return policy->ops == &aw_external_ops ? policy->self : NULL;
}

double aw_outside_step(struct aw_outside *outside, const struct aw_external_settings *settings,
                       int64_t now_us, struct aw_external_report *ret_report)
{
    struct aw_external_answer *heard = &outside->memory.heard;
    aw_external_step(settings, &outside->memory.agent, heard, now_us, ret_report);
    outside->usable = ret_report->asked && ret_report->fault == AW_EXTERNAL_FAULT_NONE &&
                      ret_report->standing != AW_EXTERNAL_ASIDE;
    memcpy(outside->action, heard->action, sizeof outside->action);
    const double took_s = heard->took_s;
    memset(heard, 0, sizeof *heard);
    return took_s;
}

static enum aw_err outside_new(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                               void **ret_self)
{
    struct aw_outside *outside = aw_alloc_new(alloc, 1, sizeof *outside);
    if (!outside)
        return AW_ERR_NOMEM;
    outside->task = *task;
    outside->alloc = alloc;
    aw_external_begin(&outside->memory.agent, task->now_us);
    *ret_self = outside;
    return AW_OK;
}

static void outside_free(void *self)
{
    struct aw_outside *outside = self;
    if (outside)
        aw_alloc_free(outside->alloc, outside);
}

static size_t outside_bytes(const void *self)
{
    return sizeof *(const struct aw_outside *)self;
}

static bool outside_act(void *self, const struct aw_policy_seen *seen, struct aw_policy_answer *ret)
{
    const struct aw_outside *outside = self;
    if (!outside->usable)
        return false;
    memcpy(ret->action, outside->action, sizeof ret->action);
    aw_action_plan(outside->task.action, seen->action, seen->reading, ret->action, &ret->plan);
    return true;
}

static uint64_t outside_learned(const void *self)
{
    return ((const struct aw_outside *)self)->memory.agent.agent;
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
    ((struct aw_outside *)self)->memory = ((const struct aw_outside *)other)->memory;
}

static bool outside_fits(const void *self, const void *other)
{
    (void)self;
    (void)other;
    return true;
}

static size_t outside_state_bytes(const void *self)
{
    return sizeof((const struct aw_outside *)self)->memory;
}

static void outside_save(const void *self, void *bytes)
{
    memcpy(bytes, &((const struct aw_outside *)self)->memory, outside_state_bytes(self));
}

static enum aw_err outside_load(void *self, const void *bytes)
{
    memcpy(&((struct aw_outside *)self)->memory, bytes, outside_state_bytes(self));
    return AW_OK;
}

static int outside_describe(const void *self, json_t *policy)
{
    return json_object_set_new(policy, "agent",
                               json_string(((const struct aw_outside *)self)->memory.agent.name));
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
    .learned = outside_learned,
    .distance = outside_distance,
    .sees = aw_policy_sees_nothing,
    .draw = outside_draw,
    .follow = aw_policy_follows_nothing,
    .adopt = outside_adopt,
    .fits = outside_fits,
    .changed = aw_policy_unchanged,
    .state_bytes = outside_state_bytes,
    .save = outside_save,
    .load = outside_load,
    .describe = outside_describe,
    .read = outside_read,
};
