/*
 * pendulum.c - a pendulum hangs on a weak motor; swing it up and hold it upright.
 *
 * Gymnasium's Pendulum-v1. The reward looks at the state before the step and at the clipped torque.
 * Nothing ends an episode but the clock: every episode is truncated, so a learner always has to
 * bootstrap from the final observation.
 */
#include "env/pendulum/pendulum.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/envelope.h"
#include "base/rng.h"
#include "base/space.h"

#define PI              3.14159265358979323846
#define GRAVITY         10.0 /* m/s^2 */
#define MASS            1.0  /* kg */
#define LENGTH          1.0  /* m */
#define TIME_STEP       0.05 /* s */
#define TORQUE_MAX      2.0  /* N m */
#define SPEED_MAX       8.0  /* rad/s */
#define START_SPEED_MAX 1.0
#define STEPS_MAX       200
/* angle^2 + 0.1 speed^2 + 0.001 torque^2 at their largest */
#define COST_MAX (PI * PI + 0.1 * SPEED_MAX * SPEED_MAX + 0.001 * TORQUE_MAX * TORQUE_MAX)
/* no episode turns further than this */
#define ANGLE_MAX (PI + STEPS_MAX * SPEED_MAX * TIME_STEP)

struct pendulum {
    const struct aw_alloc *alloc;
    struct aw__pendulum_state state;
    uint32_t step;
    bool live; /* reset, and not yet ended */
};

struct snapshot {
    struct aw_envelope head;
    double angle, speed;
    uint32_t step;
    uint32_t live;
};
AW_LAYOUT(layout, struct snapshot, 0, AW_ENVELOPE(head.), angle, speed, step, live);
static struct aw_format format = {
    .kind = "swing", .what = "a state of pendulum-v1", .version = 1, .layout = {layout}};

static const struct aw_space_axis observation_axes[] = {
    {"angle_cosine", "", -1, 1},
    {"angle_sine", "", -1, 1},
    {"angular_speed", "rad/s", (float)-SPEED_MAX, (float)SPEED_MAX},
};
static const struct aw_space_axis action_axes[] = {
    {"torque", "N m", (float)-TORQUE_MAX, (float)TORQUE_MAX},
};

static const struct aw_env_spec spec = {
    .name = "pendulum-v1",
    .summary = "Swing a pendulum up with a weak motor and hold it upright.",
    .observation = {AW_SPACE_BOX, 3, 0, observation_axes},
    .action = {AW_SPACE_BOX, 1, 0, action_axes},
    .episode_steps_max = STEPS_MAX,
    .reward_low = (float)-COST_MAX,
    .reward_high = 0,
    .solved_return = NAN, /* Gymnasium states none; good learners reach about -150 */
    .state_bytes = sizeof(struct snapshot),
};

static double clip(double x, double most)
{
    return x < -most ? -most : x > most ? most : x;
}

/* Into [-pi, pi), from within a few turns. */
static double wrap(double angle)
{
    double turns = (angle + PI) * (1 / (2 * PI));
    double whole = (double)(int64_t)turns; /* towards zero: one too many below it */
    return angle - (whole - (turns < whole)) * (2 * PI);
}

void aw__pendulum_place(struct aw__pendulum_state *state, double angle, double speed)
{
    state->angle = angle;
    state->speed = speed;
    sincos(angle, &state->sine, &state->cosine);
}

double aw__pendulum_advance(struct aw__pendulum_state *state, double torque)
{
    torque = clip(torque, TORQUE_MAX);
    double off = wrap(state->angle);
    double cost = off * off + 0.1 * state->speed * state->speed + 0.001 * torque * torque;
    double acceleration =
        3 * GRAVITY / (2 * LENGTH) * state->sine + 3.0 / (MASS * LENGTH * LENGTH) * torque;
    double speed = clip(state->speed + acceleration * TIME_STEP, SPEED_MAX);
    aw__pendulum_place(state, state->angle + speed * TIME_STEP, speed);
    return -cost;
}

static void show(const struct pendulum *self, float *obs)
{
    obs[0] = (float)self->state.cosine;
    obs[1] = (float)self->state.sine;
    obs[2] = (float)self->state.speed;
}

static enum aw_err pendulum_reset(void *ctx, uint64_t seed, float *obs)
{
    struct pendulum *self = ctx;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    double angle = aw_rng_uniform(&rng, -PI, PI);
    double speed = aw_rng_uniform(&rng, -START_SPEED_MAX, START_SPEED_MAX);
    aw__pendulum_place(&self->state, angle, speed);
    self->step = 0;
    self->live = true;
    show(self, obs);
    return AW_OK;
}

static enum aw_err pendulum_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct pendulum *self = ctx;
    AW_ASSERT(self->live);
    if (!aw_space_accepts(&spec.action, action))
        return AW_ERR_RANGE;
    double reward = aw__pendulum_advance(&self->state, (double)action[0]);
    self->step++;
    *ret = (struct aw_step){.reward = (float)reward, .truncated = self->step >= STEPS_MAX};
    self->live = !ret->truncated;
    show(self, obs);
    return AW_OK;
}

static void pendulum_state_save(const void *ctx, void *bytes)
{
    const struct pendulum *self = ctx;
    struct snapshot snapshot = {.angle = self->state.angle,
                                .speed = self->state.speed,
                                .step = self->step,
                                .live = self->live};
    aw_envelope_seal(&format, 0, &snapshot, sizeof snapshot);
    memcpy(bytes, &snapshot, sizeof snapshot);
}

static enum aw_err pendulum_state_load(void *ctx, const void *bytes)
{
    struct pendulum *self = ctx;
    struct snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    if (aw_envelope_open(&format, 0, &snapshot, sizeof snapshot, NULL) ||
        !(fabs(snapshot.angle) <= ANGLE_MAX) || !(fabs(snapshot.speed) <= SPEED_MAX) ||
        snapshot.step > STEPS_MAX || snapshot.live > 1)
        return AW_ERR_FORMAT;
    aw__pendulum_place(&self->state, snapshot.angle, snapshot.speed);
    self->step = snapshot.step;
    self->live = snapshot.live;
    return AW_OK;
}

static void pendulum_free(void *ctx)
{
    struct pendulum *self = ctx;
    if (self)
        aw_alloc_free(self->alloc, self);
}

static const struct aw_env_ops ops = {
    .reset = pendulum_reset,
    .step = pendulum_step,
    .state_save = pendulum_state_save,
    .state_load = pendulum_state_load,
    .free = pendulum_free,
};

static enum aw_err pendulum_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                                 struct aw_diag *diag)
{
    struct pendulum *self = aw_alloc_new(alloc, 1, sizeof *self);
    if (!self)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", spec.name);
    self->alloc = alloc;
    *ret_env = (struct aw_env){&spec, &ops, self};
    return AW_OK;
}

const struct aw_env_factory aw__pendulum_factory = {.spec = &spec, .make = pendulum_make};
