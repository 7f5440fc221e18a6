/* network.c - a network as a policy. */
#include "policy/network.h"

#include <math.h>
#include <string.h>

#include "base/envelope.h"

struct aw_network *aw_network_of(const struct aw_policy *policy)
{
    return policy->ops == &aw_network_ops ? policy->self : NULL;
}

static enum aw_err network_new(const struct aw_policy_task *task, const struct aw_alloc *alloc,
                               void **ret_self)
{
    struct aw_network *network = aw_alloc_new(alloc, 1, sizeof *network);
    if (!network)
        return AW_ERR_NOMEM;
    network->task = *task;
    network->alloc = alloc;
    aw_familiar_begin(&network->familiar, task->obs_dim);
    const enum aw_err err = aw_actnet_init(&network->actor,
                                           &(struct aw_actnet_shape){.obs_dim = task->obs_dim,
                                                                     .act_dim = task->action->dim,
                                                                     .hidden = task->hidden},
                                           alloc);
    if (err)
        aw_alloc_free(alloc, network);
    else
        *ret_self = network;
    return err;
}

static void network_free(void *self)
{
    struct aw_network *network = self;
    if (!network)
        return;
    aw_actnet_deinit(&network->actor);
    aw_alloc_free(network->alloc, network);
}

static size_t network_bytes(const void *self)
{
    const struct aw_network *network = self;
    return sizeof *network + network->actor.block_bytes;
}

static bool network_act(void *self, const struct aw_policy_seen *seen, struct aw_policy_answer *ret)
{
    const struct aw_network *network = self;
    struct aw_policy_answer answer;
    if (!network->actor.id || aw_actnet_act(&network->actor, seen->obs, answer.action))
        return false;
    aw_action_plan(network->task.action, seen->action, seen->reading, answer.action, &answer.plan);
    *ret = answer;
    return true;
}

static uint64_t network_learned(const void *self)
{
    return ((const struct aw_network *)self)->actor.id;
}

static double network_distance(const void *self, const struct aw_policy_seen *seen)
{
    return aw_familiar_distance(&((const struct aw_network *)self)->familiar, seen->obs);
}

static void network_sees(void *self, const float *obs)
{
    aw_familiar_push(&((struct aw_network *)self)->familiar, obs);
}

static enum aw_err network_draw(void *self, struct aw_rng *rng)
{
    struct aw_network *network = self;
    aw_actnet_init_weights(&network->actor, 0, rng);
    return aw_actnet_seal(&network->actor);
}

static void network_adopt(void *self, const void *other)
{
    aw_actnet_copy(&((struct aw_network *)self)->actor, &((const struct aw_network *)other)->actor);
}

static bool network_fits(const void *self, const void *other)
{
    const struct aw_actnet_shape *a = &((const struct aw_network *)self)->actor.shape;
    const struct aw_actnet_shape *b = &((const struct aw_network *)other)->actor.shape;
    return a->obs_dim == b->obs_dim && a->act_dim == b->act_dim && a->hidden == b->hidden;
}

AW_LAYOUT(network_layout, struct aw_familiar, 0, mean, m2, low, high, count, dim, unused_);

static size_t network_state_bytes(const void *self)
{
    const struct aw_network *network = self;
    return sizeof network->familiar + aw_actnet_state_bytes(&network->actor);
}

static void network_save(const void *self, void *bytes)
{
    const struct aw_network *network = self;
    memcpy(bytes, &network->familiar, sizeof network->familiar);
    aw_actnet_state_save(&network->actor, (unsigned char *)bytes + sizeof network->familiar);
}

static enum aw_err network_load(void *self, const void *bytes)
{
    struct aw_network *network = self;
    memcpy(&network->familiar, bytes, sizeof network->familiar);
    return aw_actnet_state_load(&network->actor,
                                (const unsigned char *)bytes + sizeof network->familiar);
}

/* --- as a file -------------------------------------------------------------------------------- */

static json_t *task_of(const struct aw_network *network)
{
    const struct aw_actnet_shape *shape = &network->actor.shape;
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "state", (int)network->task.state, "mapping",
                     (int)network->task.action->config.mapping, "obs_dim", (int)shape->obs_dim,
                     "act_dim", (int)shape->act_dim, "hidden", (int)shape->hidden);
}

static json_t *floats(const float *from, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        if (json_array_append_new(array, json_real((double)from[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static int network_describe(const void *self, json_t *policy)
{
    const struct aw_network *network = self;
    const struct aw_actnet *actor = &network->actor;
    int bad = json_object_set_new(policy, "task", task_of(network));
    bad |= json_object_set_new(policy, "theta", floats(actor->theta, actor->count));
    bad |= json_object_set_new(policy, "mean", floats(actor->mean, actor->shape.obs_dim));
    bad |= json_object_set_new(policy, "scale", floats(actor->scale, actor->shape.obs_dim));
    bad |= json_object_set_new(policy, "base", floats(actor->base, actor->shape.act_dim));
    bad |= json_object_set_new(policy, "reach", floats(actor->reach, actor->shape.act_dim));
    return bad;
}

static enum aw_err read_floats(const json_t *policy, const char *key, size_t count, float *ret,
                               struct aw_diag *diag)
{
    const json_t *array = json_object_get(policy, key);
    if (json_array_size(array) != count)
        return aw_fail(diag, AW_ERR_FORMAT, "%s: expected %zu numbers, found %zu", key, count,
                       json_array_size(array));
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(array, i);
        const double x = json_is_number(number) ? json_number_value(number) : (double)NAN;
        if (!(fabs(x) <= 1e30))
            return aw_fail(diag, AW_ERR_FORMAT, "%s: element %zu is not a number that can be", key,
                           i);
        ret[i] = (float)x;
    }
    return AW_OK;
}

static enum aw_err network_read(void *self, const json_t *policy, uint64_t id, struct aw_diag *diag)
{
    struct aw_network *network = self;
    struct aw_actnet *actor = &network->actor;
    json_t *own = task_of(network);
    if (!own)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to read a policy");
    const bool same = json_equal(own, json_object_get(policy, "task"));
    json_decref(own);
    if (!same)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "task: made for another state, action or size of network");
    enum aw_err err = read_floats(policy, "theta", actor->count, actor->theta, diag);
    err = err ? err : read_floats(policy, "mean", actor->shape.obs_dim, actor->mean, diag);
    err = err ? err : read_floats(policy, "scale", actor->shape.obs_dim, actor->scale, diag);
    err = err ? err : read_floats(policy, "base", actor->shape.act_dim, actor->base, diag);
    err = err ? err : read_floats(policy, "reach", actor->shape.act_dim, actor->reach, diag);
    if (err)
        return err;
    if (aw_actnet_seal(actor))
        return aw_fail(diag, AW_ERR_FORMAT, "a number of the network is out of its range");
    if (actor->id != id)
        return aw_fail(diag, AW_ERR_FORMAT, "id: not that of this network");
    return AW_OK;
}

const struct aw_policy_ops aw_network_ops = {
    .explores = true,
    .new = network_new,
    .free = network_free,
    .bytes = network_bytes,
    .act = network_act,
    .observe = aw_policy_observes_nothing,
    .known = aw_policy_unknown,
    .learned = network_learned,
    .distance = network_distance,
    .sees = network_sees,
    .draw = network_draw,
    .follow = aw_policy_follows_nothing,
    .adopt = network_adopt,
    .taught = network_adopt,
    .fits = network_fits,
    .changed = aw_policy_unchanged,
    .layout = network_layout,
    .state_bytes = network_state_bytes,
    .save = network_save,
    .load = network_load,
    .describe = network_describe,
    .read = network_read,
};
