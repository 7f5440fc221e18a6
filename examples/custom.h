/*
 * custom.h - an environment and an agent of one's own, written against <aware/env.h> and
 * <aware/agent.h> alone.
 *
 * custom_env.c    a pool of workers before a queue: the environment
 * custom_agent.c  the cross-entropy method on a linear policy: the agent
 * custom.c        the loop in which the two meet
 *
 * Start with custom.c; then change the file whose half you want to write yourself.
 */
#ifndef CUSTOM_H
#define CUSTOM_H

#include <aware/agent.h>
#include <aware/env.h>

/* "pool-v0". Whoever has this factory can make the environment: it is all that has to be shown. */
extern const struct aw_env_factory pool_factory;

/* An agent for discrete actions; all its chance comes from `seed`. AW_ERR_UNSUPPORTED: the actions
 * of `shape` are continuous, or its sizes are beyond the agent's limits. */
AW_NODISCARD enum aw_err linear_agent_new(const struct aw_agent_shape *shape, uint64_t seed,
                                          struct aw_agent *ret_agent, struct aw_diag *diag);

/* The generator of both files: Steele, Lea and Flood's SplitMix64 (OOPSLA 2014). Its whole state is
 * one number, so a snapshot of the environment can hold it. Uniform in [0, 1). */
static inline double chance(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

#endif
