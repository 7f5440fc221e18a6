/*
 * cartpole.c - a pole stands on a cart; push the cart left or right so that it does not fall.
 *
 * The task of Barto, Sutton and Anderson (1983) as Gymnasium defines CartPole-v1: the equations of
 * Florian (2007) without friction, integrated by explicit Euler with the old velocities. The state
 * is kept in double and only shown in float. Every step pays 1, the one that lets the pole fall
 * too.
 */
#include "env/cartpole/cartpole.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/envelope.h"
#include "base/rng.h"

#define GRAVITY      9.8  /* m/s^2 */
#define CART_MASS    1.0  /* kg */
#define POLE_MASS    0.1  /* kg */
#define POLE_HALF    0.5  /* m, half the length of the pole */
#define PUSH         10.0 /* N */
#define TIME_STEP    0.02 /* s */
#define POSITION_MAX 2.4  /* m */
#define ANGLE_MAX    (12 * 2 * 3.14159265358979323846 / 360)
#define START_MAX    0.05 /* every element starts within +- this */
#define STEPS_MAX    500

struct cartpole {
    const struct aw_alloc *alloc;
    struct aw__cartpole_state state;
    uint32_t step;
    bool live; /* reset, and not yet ended */
};

struct snapshot {
    struct aw_envelope head;
    struct aw__cartpole_state state;
    uint32_t step;
    uint32_t live;
};
AW_LAYOUT(layout, struct snapshot, 0, AW_ENVELOPE(head.), state.position, state.velocity,
          state.angle, state.spin, step, live);
static struct aw_format format = {
    .kind = "cart", .what = "a state of cartpole-v1", .version = 1, .layout = {layout}};

/* The observation space is twice what ends an episode, so that the last observation is inside. */
static const struct aw_space_axis observation_axes[] = {
    {"cart_position", "m", (float)(-2 * POSITION_MAX), (float)(2 * POSITION_MAX)},
    {"cart_velocity", "m/s", -INFINITY, INFINITY},
    {"pole_angle", "rad", (float)(-2 * ANGLE_MAX), (float)(2 * ANGLE_MAX)},
    {"pole_spin", "rad/s", -INFINITY, INFINITY},
};
static const struct aw_space_axis action_axes[] = {
    {"push_left", "", 0, 0},
    {"push_right", "", 1, 1},
};

static const struct aw_env_spec spec = {
    .name = "cartpole-v1",
    .summary = "Balance a pole on a cart by pushing the cart left or right.",
    .observation = {AW_SPACE_BOX, 4, 0, observation_axes},
    .action = {AW_SPACE_DISCRETE, 1, 2, action_axes},
    .episode_steps_max = STEPS_MAX,
    .reward_low = 1,
    .reward_high = 1,
    .solved_return = 475,
    .state_bytes = sizeof(struct snapshot),
};

/* Taylor's series, far enough that its error is below the rounding of a double for any angle at
 * which the pole still stands. Faster than the library's, which must serve every angle, and
 * the same bits on every machine, which the library does not promise. */
static void sine_and_cosine(double x, double *ret_sine, double *ret_cosine)
{
    double q = x * x;
    double s = 1.0 / 362880 - q * (1.0 / 39916800);
    s = 1.0 / 120 - q * (1.0 / 5040 - q * s);
    *ret_sine = x - x * q * (1.0 / 6 - q * s);
    double c = 1.0 / 40320 - q * (1.0 / 3628800 - q * (1.0 / 479001600));
    c = 1.0 / 24 - q * (1.0 / 720 - q * c);
    *ret_cosine = 1 - q * (0.5 - q * c);
}

void aw__cartpole_advance(struct aw__cartpole_state *state, bool push_right)
{
    /* constants folded at compile time: a step has one division, not four */
    const double per_mass = 1 / (CART_MASS + POLE_MASS);
    const double moment_per_mass = POLE_MASS * POLE_HALF * per_mass;
    double sine, cosine;
    sine_and_cosine(state->angle, &sine, &cosine);
    double push = push_right ? PUSH : -PUSH;
    double drive = push * per_mass + moment_per_mass * state->spin * state->spin * sine;
    double spin_rate = (GRAVITY * sine - cosine * drive) /
                       (POLE_HALF * 4.0 / 3.0 - POLE_HALF * POLE_MASS * per_mass * cosine * cosine);
    double acceleration = drive - moment_per_mass * spin_rate * cosine;
    state->position += TIME_STEP * state->velocity;
    state->velocity += TIME_STEP * acceleration;
    state->angle += TIME_STEP * state->spin;
    state->spin += TIME_STEP * spin_rate;
}

bool aw__cartpole_fallen(const struct aw__cartpole_state *state)
{
    return fabs(state->position) > POSITION_MAX || fabs(state->angle) > ANGLE_MAX;
}

static void show(const struct cartpole *self, float *obs)
{
    obs[0] = (float)self->state.position;
    obs[1] = (float)self->state.velocity;
    obs[2] = (float)self->state.angle;
    obs[3] = (float)self->state.spin;
}

static enum aw_err cartpole_reset(void *ctx, uint64_t seed, float *obs)
{
    struct cartpole *self = ctx;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    self->state.position = aw_rng_uniform(&rng, -START_MAX, START_MAX);
    self->state.velocity = aw_rng_uniform(&rng, -START_MAX, START_MAX);
    self->state.angle = aw_rng_uniform(&rng, -START_MAX, START_MAX);
    self->state.spin = aw_rng_uniform(&rng, -START_MAX, START_MAX);
    self->step = 0;
    self->live = true;
    show(self, obs);
    return AW_OK;
}

static enum aw_err cartpole_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct cartpole *self = ctx;
    AW_ASSERT(self->live);
    if (action[0] != 0 && action[0] != 1) /* nor is a NaN */
        return AW_ERR_RANGE;
    aw__cartpole_advance(&self->state, action[0] == 1);
    self->step++;
    *ret = (struct aw_step){
        .reward = 1,
        .terminated = aw__cartpole_fallen(&self->state),
        .truncated = self->step >= STEPS_MAX,
    };
    self->live = !ret->terminated && !ret->truncated;
    show(self, obs);
    return AW_OK;
}

static void cartpole_state_save(const void *ctx, void *bytes)
{
    const struct cartpole *self = ctx;
    struct snapshot snapshot = {.state = self->state, .step = self->step, .live = self->live};
    aw_envelope_seal(&format, 0, &snapshot, sizeof snapshot);
    memcpy(bytes, &snapshot, sizeof snapshot);
}

static enum aw_err cartpole_state_load(void *ctx, const void *bytes)
{
    struct cartpole *self = ctx;
    struct snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    const struct aw__cartpole_state *state = &snapshot.state;
    if (aw_envelope_open(&format, 0, &snapshot, sizeof snapshot, NULL) ||
        !isfinite(state->position) || !isfinite(state->velocity) || !isfinite(state->angle) ||
        !isfinite(state->spin) || snapshot.step > STEPS_MAX || snapshot.live > 1 ||
        (snapshot.live && aw__cartpole_fallen(state)))
        return AW_ERR_FORMAT;
    self->state = *state;
    self->step = snapshot.step;
    self->live = snapshot.live;
    return AW_OK;
}

static void cartpole_free(void *ctx)
{
    struct cartpole *self = ctx;
    if (self)
        aw_alloc_free(self->alloc, self);
}

static const struct aw_env_ops ops = {
    .reset = cartpole_reset,
    .step = cartpole_step,
    .state_save = cartpole_state_save,
    .state_load = cartpole_state_load,
    .free = cartpole_free,
};

static enum aw_err cartpole_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                                 struct aw_diag *diag)
{
    struct cartpole *self = aw_alloc_new(alloc, 1, sizeof *self);
    if (!self)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", spec.name);
    self->alloc = alloc;
    *ret_env = (struct aw_env){&spec, &ops, self};
    return AW_OK;
}

const struct aw_env_factory aw__cartpole_factory = {.spec = &spec, .make = cartpole_make};
