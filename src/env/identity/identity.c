/*
 * identity.c - the right action is what the observation shows. Nothing the learner does has
 * consequences, so a learner that fails here has a bug in its update, not a hard problem.
 *
 * After the IdentityEnv family of Stable-Baselines3, with 100 steps an episode:
 *
 * identity-discrete-v0  One of CHOICES is lit (a one-hot observation, which is what SB3 feeds its
 *                       networks); naming it pays 1, anything else 0. Random play scores 25.
 * identity-box-v0       A number in [-1, 1] is shown; the reward is 1 - |action - number|, in
 *                       [-1, 1]. SB3 pays 1 within 0.05 and 0 elsewhere; a slope says more to a
 *                       learner of 1000 steps. Always answering 0 scores 50, random play 33.
 *
 * A step shows the next thing to answer. Episodes are truncated, never terminated.
 */
#include "env/identity/identity.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/envelope.h"
#include "base/rng.h"
#include "base/space.h"

#define STEPS_MAX 100
#define CHOICES   4

struct identity {
    const struct aw_alloc *alloc;
    struct aw_rng rng; /* of this episode: what will be shown next */
    float shown;       /* box: the number; discrete: the index */
    uint32_t step;
    bool live; /* reset, and not yet ended */
};

struct snapshot {
    struct aw_envelope head;
    struct aw_rng rng;
    float shown;
    uint32_t step;
    uint32_t live;
    uint32_t unused; /* zero */
};
AW_LAYOUT(layout, struct snapshot, 0, AW_ENVELOPE(head.), rng.s, shown, step, live, unused);
static struct aw_format format = {
    .kind = "same", .what = "a state of identity-v0", .version = 1, .layout = {layout}};
enum owner { BOX = 1, DISCRETE };

static const struct aw_space_axis discrete_observation_axes[CHOICES] = {
    {"lit_0", "", 0, 1}, {"lit_1", "", 0, 1}, {"lit_2", "", 0, 1}, {"lit_3", "", 0, 1}};
static const struct aw_space_axis discrete_action_axes[CHOICES] = {
    {"name_0", "", 0, 0}, {"name_1", "", 1, 1}, {"name_2", "", 2, 2}, {"name_3", "", 3, 3}};
static const struct aw_space_axis box_observation_axes[] = {{"number", "", -1, 1}};
static const struct aw_space_axis box_action_axes[] = {{"answer", "", -1, 1}};

static const struct aw_env_spec discrete_spec = {
    .name = "identity-discrete-v0",
    .summary = "Name the one light that is on; the smallest task with choices.",
    .observation = {AW_SPACE_BOX, CHOICES, 0, discrete_observation_axes},
    .action = {AW_SPACE_DISCRETE, 1, CHOICES, discrete_action_axes},
    .episode_steps_max = STEPS_MAX,
    .reward_low = 0,
    .reward_high = 1,
    .solved_return = 90,
    .state_bytes = sizeof(struct snapshot),
};
static const struct aw_env_spec box_spec = {
    .name = "identity-box-v0",
    .summary = "Repeat the number that is shown; the smallest continuous task.",
    .observation = {AW_SPACE_BOX, 1, 0, box_observation_axes},
    .action = {AW_SPACE_BOX, 1, 0, box_action_axes},
    .episode_steps_max = STEPS_MAX,
    .reward_low = -1,
    .reward_high = 1,
    .solved_return = 90,
    .state_bytes = sizeof(struct snapshot),
};

static void discrete_show_next(struct identity *self, float *obs)
{
    self->shown = (float)aw_rng_below(&self->rng, CHOICES);
    for (int i = 0; i < CHOICES; i++)
        obs[i] = self->shown == (float)i ? 1 : 0;
}

static void box_show_next(struct identity *self, float *obs)
{
    self->shown = 2 * aw_rng_float(&self->rng) - 1;
    obs[0] = self->shown;
}

static void begin(struct identity *self, uint64_t seed)
{
    aw_rng_init(&self->rng, seed, 0);
    self->step = 0;
    self->live = true;
}

static void pay(struct identity *self, float reward, struct aw_step *ret)
{
    self->step++;
    *ret = (struct aw_step){.reward = reward, .truncated = self->step >= STEPS_MAX};
    self->live = !ret->truncated;
}

static enum aw_err discrete_reset(void *ctx, uint64_t seed, float *obs)
{
    begin(ctx, seed);
    discrete_show_next(ctx, obs);
    return AW_OK;
}

static enum aw_err discrete_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct identity *self = ctx;
    AW_ASSERT(self->live);
    if (!aw_space_accepts(&discrete_spec.action, action))
        return AW_ERR_RANGE;
    pay(self, action[0] == self->shown ? 1 : 0, ret);
    discrete_show_next(self, obs);
    return AW_OK;
}

static enum aw_err box_reset(void *ctx, uint64_t seed, float *obs)
{
    begin(ctx, seed);
    box_show_next(ctx, obs);
    return AW_OK;
}

static enum aw_err box_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct identity *self = ctx;
    AW_ASSERT(self->live);
    if (!aw_space_accepts(&box_spec.action, action))
        return AW_ERR_RANGE;
    float answer = action[0] < -1 ? -1 : action[0] > 1 ? 1 : action[0];
    pay(self, 1 - fabsf(answer - self->shown), ret);
    box_show_next(self, obs);
    return AW_OK;
}

static void save(const struct identity *self, enum owner owner, void *bytes)
{
    struct snapshot snapshot = {
        .rng = self->rng, .shown = self->shown, .step = self->step, .live = self->live};
    aw_envelope_seal(&format, owner, &snapshot, sizeof snapshot);
    memcpy(bytes, &snapshot, sizeof snapshot);
}

static enum aw_err load(struct identity *self, enum owner owner, float low, float high,
                        const void *bytes)
{
    struct snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    if (aw_envelope_open(&format, owner, &snapshot, sizeof snapshot, NULL) ||
        !(snapshot.shown >= low && snapshot.shown <= high) ||
        (owner == DISCRETE && snapshot.shown != floorf(snapshot.shown)) ||
        snapshot.step > STEPS_MAX || snapshot.live > 1 || snapshot.unused != 0)
        return AW_ERR_FORMAT;
    self->rng = snapshot.rng;
    self->shown = snapshot.shown;
    self->step = snapshot.step;
    self->live = snapshot.live;
    return AW_OK;
}

static void discrete_state_save(const void *ctx, void *bytes)
{
    save(ctx, DISCRETE, bytes);
}

static enum aw_err discrete_state_load(void *ctx, const void *bytes)
{
    return load(ctx, DISCRETE, 0, CHOICES - 1, bytes);
}

static void box_state_save(const void *ctx, void *bytes)
{
    save(ctx, BOX, bytes);
}

static enum aw_err box_state_load(void *ctx, const void *bytes)
{
    return load(ctx, BOX, -1, 1, bytes);
}

static void identity_free(void *ctx)
{
    struct identity *self = ctx;
    if (self)
        aw_alloc_free(self->alloc, self);
}

static const struct aw_env_ops discrete_ops = {
    .reset = discrete_reset,
    .step = discrete_step,
    .state_save = discrete_state_save,
    .state_load = discrete_state_load,
    .free = identity_free,
};
static const struct aw_env_ops box_ops = {
    .reset = box_reset,
    .step = box_step,
    .state_save = box_state_save,
    .state_load = box_state_load,
    .free = identity_free,
};

static enum aw_err make(const struct aw_alloc *alloc, const struct aw_env_spec *spec,
                        const struct aw_env_ops *ops, struct aw_env *ret_env, struct aw_diag *diag)
{
    struct identity *self = aw_alloc_new(alloc, 1, sizeof *self);
    if (!self)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", spec->name);
    self->alloc = alloc;
    *ret_env = (struct aw_env){spec, ops, self};
    return AW_OK;
}

static enum aw_err discrete_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                                 struct aw_diag *diag)
{
    return make(alloc, &discrete_spec, &discrete_ops, ret_env, diag);
}

static enum aw_err box_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                            struct aw_diag *diag)
{
    return make(alloc, &box_spec, &box_ops, ret_env, diag);
}

const struct aw_env_factory aw__identity_discrete_factory = {.spec = &discrete_spec,
                                                             .make = discrete_make};
const struct aw_env_factory aw__identity_box_factory = {.spec = &box_spec, .make = box_make};
