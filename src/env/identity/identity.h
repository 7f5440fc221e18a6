/* identity.h - answer with what you see: the smallest tasks a learner can fail. See identity.c. */
#ifndef AW_ENV_IDENTITY_H
#define AW_ENV_IDENTITY_H

#include <aware/env.h>

extern const struct aw_env_factory aw__identity_box_factory;
extern const struct aw_env_factory aw__identity_discrete_factory;

#endif
