/*
 * tenants_env.h - tenants-v0: functions of one cluster that scale at once, as an environment for
 * others (<aware/parallel.h>). The world is multi/world.h; what agents see, do and get is
 * multi/team.h.
 *
 * Functions come and go as `joins` and `leaves` say, drawn from the seed of the reset too.
 */
#ifndef AW_MULTI_TENANTS_ENV_H
#define AW_MULTI_TENANTS_ENV_H

#include <aware/parallel.h>

extern const struct aw_parallel_factory aw_tenants_factory;

#endif
