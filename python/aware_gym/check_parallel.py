"""check_parallel.py - does an environment of many agents keep the rules of PettingZoo's parallel API?

The rules are those of PettingZoo's parallel_api_test and parallel_seed_test, in our own words:
dictionaries are keyed by the agents that acted or joined, agents that terminated or were truncated
are no longer in `agents` and never come back, spaces are the same objects whenever they are asked
for, and a seed is an episode. Works on any environment with that interface.
"""

import numpy

from .check import Broken, Checker, same

STEPS_MAX = 400  # looked at, of an episode that goes on for longer


def choose(env, infos, agent):
    """A choice that is allowed, where the environment says which are."""
    space = env.action_space(agent)
    action = space.sample()
    mask = infos.get(agent, {}).get("action_mask") if isinstance(infos, dict) else None
    if mask is not None and not mask[action]:
        action = int(numpy.flatnonzero(mask)[0])
    return action


def check_dicts(checker, env, dicts, agents, where):
    for word, one in dicts.items():
        checker.need(isinstance(one, dict), f"{where}-returns",
                     f"{where}: {word} is a dictionary, found {type(one).__name__}")
        checker.expect(set(one) == agents, "keys",
                       f"{where}: {word} has the agents that acted or joined; "
                       f"missing {sorted(agents - set(one))[:3]}, "
                       f"more {sorted(set(one) - agents)[:3]}")
    for agent, observation in dicts["observations"].items():
        checker.expect(env.observation_space(agent).contains(observation), "observation",
                       f"{agent} sees what lies in its space, found {observation!r}")


def play(checker, env, seed, steps_max=STEPS_MAX):
    """One episode: a list of what its steps returned, by agent."""
    returned = env.reset(seed=seed)
    checker.need(isinstance(returned, tuple) and len(returned) == 2, "reset-returns",
                 "reset returns (observations, infos)")
    observations, infos = returned
    live, ended = set(env.agents), set()
    checker.need(len(live) > 0, "reset-agents", "somebody is live after a reset")
    checker.expect(len(live) == len(env.agents), "agents", "nobody is in `agents` twice")
    check_dicts(checker, env, {"observations": observations, "infos": infos}, live, "reset")
    path = [(dict(observations),)]
    for agent in env.possible_agents:
        env.action_space(agent).seed(7)
    while env.agents and len(path) <= steps_max:
        checker.expect(set(env.agents) <= set(env.possible_agents), "possible-agents",
                       "agents are among possible_agents")
        for agent in env.agents:
            checker.expect(env.observation_space(agent) is env.observation_space(agent)
                           and env.action_space(agent) is env.action_space(agent), "spaces",
                           f"the spaces of {agent} are the same objects whenever asked for")
        returned = env.step({agent: choose(env, infos, agent) for agent in env.agents})
        checker.need(isinstance(returned, tuple) and len(returned) == 5, "step-returns",
                     "step returns observations, rewards, terminations, truncations, infos")
        observations, rewards, terminations, truncations, infos = returned
        now = set(env.agents)
        checker.expect(not now & ended, "revived",
                       f"who ended does not come back, found {sorted(now & ended)[:3]}")
        joined = now - live
        check_dicts(checker, env, dict(zip(
            ("observations", "rewards", "terminations", "truncations", "infos"), returned)),
            live | joined, "step")
        checker.expect(all(numpy.isfinite(reward) for reward in rewards.values()), "reward",
                       "rewards are finite")
        gone = {agent for agent in live | joined
                if terminations.get(agent) or truncations.get(agent)}
        checker.expect(now == (live | joined) - gone, "removed",
                       "`agents` are those that have not terminated and were not truncated; "
                       f"too many {sorted(now & gone)[:3]}, "
                       f"missing {sorted((live - gone) - now)[:3]}")
        live, ended = now, ended | gone
        path.append((dict(observations), dict(rewards), dict(terminations), dict(truncations)))
    return path


def same_path(a, b):
    return len(a) == len(b) and all(
        len(x) == len(y) and all(set(p) == set(q) and all(same(p[k], q[k]) for k in p)
                                 for p, q in zip(x, y))
        for x, y in zip(a, b))


def check_parallel_env(env):
    """Findings, [] when it keeps the rules. Resets it several times."""
    checker = Checker()
    try:
        checker.need(len(env.possible_agents) > 0 and
                     len(set(env.possible_agents)) == len(env.possible_agents),
                     "possible-agents", "possible_agents are there, each once")
        first = play(checker, env, 1)
        play(checker, env, 2, steps_max=5)  # and thrown away in the middle
        checker.expect(same_path(first, play(checker, env, 1)), "seed",
                       "the same seed and actions give the same episode")
        checker.expect(not same_path(first, play(checker, env, 3)), "chance",
                       "different seeds give different episodes")
        env.reset(seed=5)
        one, _ = env.reset()
        env.reset(seed=5)
        two, _ = env.reset()
        checker.expect(set(one) == set(two) and all(same(one[k], two[k]) for k in one),
                       "seed-stream", "reset() after reset(seed=n) is the same twice")
    except Broken:
        pass
    return checker.findings
