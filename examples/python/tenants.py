#!/usr/bin/env python3
"""tenants.py - many agents on one cluster: square-root staffing in one line, beside random agents.

    tenants.py [EPISODES [AGENTS [ADDRESS]]]

Functions come and go while they scale. The first half plays the dictionaries of PettingZoo's
parallel interface, the second the same worlds in flat arrays, as one would for thousands of agents.
Without an address it starts `aware` itself (from $AWARE or the PATH).
"""

import sys
import time

import numpy

import aware_gym

STAFFING = 6  # of the choices: containers for the load plus 3 times its square root, 1024 shares


def play_dictionaries(env, seed):
    """Random agents, each by itself. Mean reward of a step and agent."""
    for agent in env.possible_agents:
        env.action_space(agent).seed(seed)
    _, infos = env.reset(seed=seed)
    total = count = 0
    while env.agents:
        actions = {}
        for agent in env.agents:
            choice = env.action_space(agent).sample()
            allowed = infos[agent]["action_mask"]
            actions[agent] = choice if allowed[choice] else int(numpy.flatnonzero(allowed)[0])
        _, rewards, _, _, infos = env.step(actions)
        total, count = total + sum(rewards.values()), count + len(rewards)
    return total / count


def play_flat(env, seed):
    """The staffing rule for all at once."""
    flat = env.reset_flat(seed)
    actions = numpy.full(len(env.possible_agents), STAFFING)
    total = count = 0
    while flat.live.any():
        flat = env.step_flat(actions)
        there = flat.flags != 0
        total, count = total + flat.rewards[there].sum(), count + there.sum()
    return total / count


def main(episodes=4, agents=24, address=None):
    agents = int(agents)
    with aware_gym.parallel_env("tenants-v0", address, agents=agents, agents_max=2 * agents,
                                joins=0.02 * agents, leaves=0.02) as env:
        for name, play in (("random, dictionaries", play_dictionaries),
                           ("staffing, flat", play_flat)):
            began = time.monotonic()
            rewards = [play(env, seed) for seed in range(int(episodes))]
            print(f"{name}: mean reward {sum(rewards) / len(rewards):.3f} of a step and agent, "
                  f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
