#!/usr/bin/env python3
"""parallel_test.py - environments of many agents in Python: PettingZoo's rules, and flat arrays.

    parallel_test.py TEST AWARE       one of the functions below

Exit status: 0 it holds, 1 it does not, 77 skipped, with the reason.
"""

import os
import sys

import python_test
from python_test import expect, expect_error, expect_sound, need_aware, numpy


class Crowd:
    """Three agents of which one leaves and one comes: PettingZoo's rules, and what breaks them."""

    def __init__(self, fault=""):
        import aware_gym
        self.fault = fault
        self.possible_agents = ["a", "b", "c"]
        self.spaces = {agent: (aware_gym.Box(numpy.float32([-9]), numpy.float32([9])),
                               aware_gym.Discrete(2)) for agent in self.possible_agents}
        self.chance = numpy.random.default_rng()

    def observation_space(self, agent):
        import aware_gym
        if self.fault == "spaces":
            return aware_gym.Box(numpy.float32([-9]), numpy.float32([9]))
        return self.spaces[agent][0]

    def action_space(self, agent):
        return self.spaces[agent][1]

    def show(self):
        return numpy.float32([self.chance.uniform(-1, 1)]) + (99 if self.fault == "observation"
                                                              and self.steps == 3 else 0)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.chance = numpy.random.default_rng(0 if self.fault == "chance" else seed)
        elif self.fault == "seed-stream":
            self.chance = numpy.random.default_rng()
        if self.fault == "seed":
            self.chance = numpy.random.default_rng()
        self.steps, self.agents = 0, ["a", "b"]
        return {x: self.show() for x in self.agents}, {x: {} for x in self.agents}

    def step(self, actions):
        self.steps += 1
        there = sorted(set(self.agents) | ({"c"} if self.steps == 2 else set()))
        ended = {x: x == "b" and self.steps == 2 for x in there}
        cut = {x: self.steps == 6 for x in there}
        self.agents = [x for x in there if not (ended[x] or cut[x])]
        if self.fault == "removed" and self.steps == 2:
            self.agents.append("b")
        if self.fault == "revived" and self.steps == 4:
            self.agents.append("b")
        told = [x for x in there if not (self.fault == "keys" and ended[x])]
        return ({x: self.show() for x in told}, {x: 1.0 for x in told},
                {x: ended[x] for x in told}, {x: cut[x] for x in told}, {x: {} for x in told})


def the_checker_of_many_agents_finds_what_is_wrong():
    import aware_gym
    expect_sound(aware_gym.check_parallel_env(Crowd()))
    for fault in ("spaces", "observation", "seed", "chance", "seed-stream", "removed", "revived",
                  "keys"):
        rules = [finding.rule for finding in aware_gym.check_parallel_env(Crowd(fault))]
        expect(fault in rules, f"the rule {fault!r} to be broken, found {rules}")


def many_agents_keep_the_rules_of_pettingzoo():
    import aware_gym as gym
    need_aware()
    expect("tenants-v0" in gym.list_parallel_envs(), "tenants-v0 in the list")
    for options in ({}, {"agents": 6, "agents_max": 30, "joins": 0.5, "leaves": 0.05},
                    {"agents": 3, "actions": "steps", "episode_steps": 20}):
        with gym.parallel_env("tenants-v0", **options) as env:
            expect_sound(gym.check_parallel_env(env))
    with gym.parallel_env("tenants-v0", agents=6, agents_max=30, joins=0.5,
                          leaves=0.05) as env:
        env.reset(seed=4)
        seen, gone = set(env.agents), set()
        while env.agents:
            _, _, ended, cut, _ = env.step({agent: 5 for agent in env.agents})
            seen |= set(env.agents)
            gone |= {agent for agent in ended if ended[agent]}
            expect(not gone & set(env.agents), "who terminated is not in agents")
        expect(len(seen) > 8 and len(gone) > 2, f"{len(seen)} came and {len(gone)} went")


def flat_arrays_are_the_dictionaries():
    import aware_gym as gym
    need_aware()
    options = {"agents": 5, "agents_max": 20, "joins": 0.5, "leaves": 0.05, "actions": "steps"}
    one = gym.parallel_env("tenants-v0", context=True, **options)
    two = gym.parallel_env("tenants-v0", context=True, **options)
    with one, two:
        observations, infos = one.reset(seed=2)
        flat = two.reset_flat(2)
        terminations = truncations = {}
        rewards = dict.fromkeys(observations, 0)
        for step in range(100):
            expect(one.agents == two.agents, f"the same agents at step {step}")
            for i, agent in enumerate(one.possible_agents):
                expect((agent in observations) == (flat.flags[i] != 0), f"{agent} is there")
                if agent not in observations:
                    expect(not flat.observations[i].any(), "rows of the absent are zeroes")
                    continue
                expect(numpy.array_equal(observations[agent], flat.observations[i])
                       and rewards[agent] == flat.rewards[i]
                       and numpy.array_equal(infos[agent]["action_mask"], flat.action_masks[i])
                       and numpy.array_equal(infos[agent]["context"], flat.contexts[i])
                       and bool(terminations.get(agent)) == flat.terminations[i]
                       and bool(truncations.get(agent)) == flat.truncations[i],
                       f"{agent} at step {step}")
            if not one.agents:
                break
            choice = numpy.arange(20) % 5
            observations, rewards, terminations, truncations, infos = one.step(
                {agent: choice[int(agent.split("_")[1])] for agent in one.agents})
            flat = two.step_flat(choice)
        expect(step == 50, f"an episode of 50 steps, found {step}")
        expect_error("FAILED_PRECONDITION", "nobody is live", one.step, {})
        expect_error("FAILED_PRECONDITION", "nobody is live", two.step_flat, choice)


def what_many_agents_get_wrong_is_told():
    import aware_gym as gym
    need_aware()
    expect_error("NOT_FOUND", "tenants-v0", gym.parallel_env, "tenant-v0")
    expect_error("INVALID_ARGUMENT", "agents", gym.parallel_env, "tenants-v0", agent=3)
    with gym.parallel_env("tenants-v0", agents=3) as env:
        expect_error("FAILED_PRECONDITION", "reset", env.step, {})
        env.reset(seed=1)
        plain = env.step({"agent_0": 1, "agent_1": 2, "agent_2": 3})
        env.reset(seed=1)
        for wrong in ({"agent_0": 1}, {f"agent_{i}": 0 for i in range(4)}):
            try:
                env.step(wrong)
                expect(False, f"{wrong} to be refused")
            except ValueError as error:
                expect("live" in str(error), f"a sentence, found {error}")
        expect_error("OUT_OF_RANGE", "agent 1", env.step,
                     {"agent_0": 1, "agent_1": 8, "agent_2": 3})
        again = env.step({"agent_0": 1, "agent_1": 2, "agent_2": 3})
        expect(plain[1] == again[1], "nothing moved")
    expect_error("FAILED_PRECONDITION", "closed", env.reset)


def the_example_of_many_agents_runs():
    import tenants
    need_aware()
    tenants.main(1, 6)


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in globals():
        print("usage: parallel_test.py TEST AWARE")
        return 64
    python_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
