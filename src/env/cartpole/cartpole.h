/* cartpole.h - cartpole-v1: balance a pole on a cart. See cartpole.c. */
#ifndef AW_ENV_CARTPOLE_H
#define AW_ENV_CARTPOLE_H

#include <aware/env.h>

extern const struct aw_env_factory aw__cartpole_factory;

struct aw__cartpole_state {
    double position; /* m, of the cart */
    double velocity; /* m/s */
    double angle;    /* rad, of the pole; 0 is upright */
    double spin;     /* rad/s */
};

/* The equations of motion over one time step, with the push to the right or to the left. The pole
 * must still stand. */
void aw__cartpole_advance(struct aw__cartpole_state *state, bool push_right);
bool aw__cartpole_fallen(const struct aw__cartpole_state *state);

#endif
