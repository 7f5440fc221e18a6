/* pendulum.h - pendulum-v1: swing a pendulum up and hold it there. See pendulum.c. */
#ifndef AW_ENV_PENDULUM_H
#define AW_ENV_PENDULUM_H

#include <aware/env.h>

extern const struct aw_env_factory aw__pendulum_factory;

struct aw__pendulum_state {
    double angle;        /* rad, counted on beyond a full turn; 0 is upright */
    double speed;        /* rad/s */
    double cosine, sine; /* of the angle: the observation shows them, the next step needs them */
};

void aw__pendulum_place(struct aw__pendulum_state *state, double angle, double speed);
/* One time step under `torque` (N m, clipped to what the motor has); returns the reward. */
double aw__pendulum_advance(struct aw__pendulum_state *state, double torque);

#endif
