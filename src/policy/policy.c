/* policy.c - the table of kinds, and the slots that have nothing to do. */
#include "policy/policy.h"

#include "policy/capacity.h"
#include "policy/external.h"
#include "policy/network.h"
#include "policy/peers.h"

const char *const aw_policy_names[] = {
#define X(id, policy, teacher, name) name,
    AW_POLICY_MAP(X)
#undef X
        NULL};

const struct aw_policy_ops *aw_policy_ops_of(uint32_t kind)
{
    static const struct aw_policy_ops *const kinds[] = {
#define X(id, policy, ...) &aw_##policy##_ops,
        AW_POLICY_MAP(X)
#undef X
    };
    AW_ASSERT(kind < AW_POLICY_KINDS);
    return kinds[kind];
}

enum aw_err aw_policy_new(const struct aw_policy_ops *ops, const struct aw_policy_task *task,
                          const struct aw_alloc *alloc, struct aw_policy *ret)
{
    void *self = NULL;
    const enum aw_err err = ops->new (task, alloc, &self);
    if (!err)
        *ret = (struct aw_policy){ops, self};
    return err;
}

void aw_policy_free(struct aw_policy *policy)
{
    if (policy->self)
        policy->ops->free(policy->self);
    policy->self = NULL;
}

void aw_policy_sees_nothing(void *self, const float *obs)
{
    (void)self;
    (void)obs;
}

void aw_policy_follows_nothing(void *self, const void *good)
{
    (void)self;
    (void)good;
}

void aw_policy_unchanged(void *self, bool load)
{
    (void)self;
    (void)load;
}

void aw_policy_observes_nothing(void *self, const struct aw_policy_seen *seen)
{
    (void)self;
    (void)seen;
}

const struct aw_policy_known *aw_policy_unknown(const void *self)
{
    (void)self;
    return NULL;
}
