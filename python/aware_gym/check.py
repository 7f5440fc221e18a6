"""check.py - does an environment keep the contract that learners rely on?

Finds what a learner would otherwise learn around: seeds that leak, hidden resets, final
observations that are lost, arrays that change after they were handed out, numbers outside of
their spaces. Works on any environment with Gymnasium's interface; those of a server are asked
some things more.
"""

import collections

import numpy

from .env import Env
from .errors import Error

Finding = collections.namedtuple("Finding", "rule text")
Finding.__doc__ = "A rule that was broken, and what was expected and found."

EPISODES = 3
STEPS_MAX = 500  # looked at, of an episode that goes on for longer


class Broken(Exception):
    """Nothing more can be checked: what follows stands on what is broken."""


class Checker:
    def __init__(self):
        self.findings = []

    def expect(self, holds, rule, text):
        """A rule is reported once, with the first thing that broke it."""
        if not holds and all(finding.rule != rule for finding in self.findings):
            self.findings.append(Finding(rule, text))
        return bool(holds)

    def need(self, holds, rule, text):
        if not self.expect(holds, rule, text):
            raise Broken


def same(a, b):
    return numpy.array_equal(numpy.asarray(a), numpy.asarray(b))


def play(checker, env, seed, steps_max=STEPS_MAX):
    """One episode of actions drawn from `seed`: [(observation, reward, terminated, truncated)]."""
    returned = env.reset(seed=seed)
    checker.need(isinstance(returned, tuple) and len(returned) == 2, "reset-returns",
                 f"reset returns (observation, info), found {returned!r}")
    observation, info = returned
    checker.expect(isinstance(info, dict), "info", f"info is a dict, found {info!r}")
    checker.need(env.observation_space.contains(observation), "reset-observation",
                 f"the first observation lies in {env.observation_space}, found {observation!r}")
    path, kept = [(observation, 0.0, False, False)], [numpy.array(observation)]
    env.action_space.seed(seed)
    for _ in range(steps_max):
        returned = env.step(env.action_space.sample())
        checker.need(isinstance(returned, tuple) and len(returned) == 5, "step-returns",
                     f"step returns five things, found {returned!r}")
        observation, reward, terminated, truncated, info = returned
        checker.need(env.observation_space.contains(observation), "step-observation",
                     f"an observation lies in {env.observation_space}, found {observation!r}")
        checker.need(numpy.ndim(reward) == 0 and numpy.isfinite(float(reward)), "reward",
                     f"a reward is one finite number, found {reward!r}")
        flags = (bool, numpy.bool_)
        checker.expect(isinstance(terminated, flags) and isinstance(truncated, flags), "flags",
                       f"terminated and truncated are true or false, found {terminated!r}, "
                       f"{truncated!r}")
        checker.expect(isinstance(info, dict), "info", f"info is a dict, found {info!r}")
        path.append((observation, float(reward), bool(terminated), bool(truncated)))
        kept.append(numpy.array(observation))
        if terminated or truncated:
            break
    checker.expect(all(same(step[0], copy) for step, copy in zip(path, kept)), "aliasing",
                   "an observation stays as it was handed out; a later step changed it")
    return path


def same_path(a, b):
    return len(a) == len(b) and all(same(x[0], y[0]) and x[1:] == y[1:] for x, y in zip(a, b))


def check_spaces(checker, env):
    for word in ("observation_space", "action_space"):
        space = getattr(env, word, None)
        checker.need(space is not None and hasattr(space, "contains") and hasattr(space, "sample"),
                     "spaces", f"the environment has an {word}, found {space!r}")
        space.seed(1)
        value = space.sample()
        checker.need(space.contains(value), "spaces", f"{word} does not contain its own {value!r}")
        if hasattr(space, "low"):
            checker.expect(numpy.all(space.low <= space.high), "bounds",
                           f"no lower bound of {word} is above its upper one")
    if hasattr(env.action_space, "low"):
        finite = numpy.isfinite(env.action_space.low) & numpy.isfinite(env.action_space.high)
        checker.expect(finite.all(), "bounds", "the bounds of actions are finite")


def check_episodes(checker, env):
    first = play(checker, env, 1)
    play(checker, env, 2, steps_max=5)  # and thrown away in the middle
    again = play(checker, env, 1)
    checker.expect(same_path(first, again), "seed",
                   "the same seed and actions give the same episode, whatever was played before")
    others = [play(checker, env, seed) for seed in range(2, 2 + EPISODES)]
    checker.expect(not all(same_path(first, other) for other in others), "chance",
                   "different seeds give different episodes")
    env.reset(seed=5)
    one, _ = env.reset()
    env.reset(seed=5)
    two, _ = env.reset()
    checker.expect(same(one, two), "seed-stream",
                   "reset() after reset(seed=n) continues what n began, and so is the same twice")
    return [first, *others]


def refuses(function, *arguments):
    try:
        function(*arguments)
    except Error:
        return True
    return False


def check_remote(checker, env, paths):
    """What the environments of a server promise beyond Gymnasium's contract."""
    limit = env.description.episode_steps_max
    low, high = env.reward_range
    rewards = [step[1] for path in paths for step in path[1:]]
    checker.expect(low <= min(rewards) and max(rewards) <= high, "reward-range",
                   f"rewards lie in {low:g} to {high:g}, "
                   f"found {min(rewards):g} to {max(rewards):g}")
    if limit:
        checker.expect(all(len(path) - 1 <= limit for path in paths)
                       and all(path[-1][3] for path in paths if len(path) - 1 == limit),
                       "truncation", f"an episode is truncated after {limit} steps, not later")
    if any(path[-1][2] or path[-1][3] for path in paths):
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in paths[0][1:]:
            env.step(env.action_space.sample())
        checker.expect(refuses(env.step, env.action_space.sample()), "step-after-end",
                       "a step after the end of an episode is refused until reset")

    # An action that is not one moves nothing; one beyond the bounds is the bound.
    discrete = hasattr(env.action_space, "n")
    wrong = env.action_space.n if discrete else numpy.full(env.action_space.shape, numpy.nan)
    env.action_space.seed(3)
    action = env.action_space.sample()
    env.reset(seed=3)
    plain = env.step(action)
    env.reset(seed=3)
    checker.expect(refuses(env.step, wrong), "action-refused",
                   f"the action {wrong!r} is refused with an Error")
    checker.expect(same(plain[0], env.step(action)[0]), "action-still",
                   "a refused action moves nothing")
    if not discrete:
        env.reset(seed=3)
        bound = env.step(env.action_space.high)
        env.reset(seed=3)
        beyond = env.step(env.action_space.high + 1)
        checker.expect(same(bound[0], beyond[0]) and bound[1] == beyond[1], "action-clipped",
                       "an action beyond a bound does what the bound itself does")


def check_env(env):
    """Findings about an environment, [] when it keeps the contract. Resets it many times."""
    checker = Checker()
    try:
        check_spaces(checker, env)
        paths = check_episodes(checker, env)
        if isinstance(getattr(env, "unwrapped", env), Env):
            check_remote(checker, getattr(env, "unwrapped", env), paths)
    except Broken:
        pass
    return checker.findings


def roll(checker, envs, seed, steps):
    """Some steps of all copies: what each returned, and the masks of what ended."""
    rows, _ = envs.reset(seed=seed)
    checker.need(envs.observation_space.contains(rows), "reset-observation",
                 f"first observations lie in {envs.observation_space}, found {rows!r}")
    envs.action_space.seed(seed)
    steps_seen = [(rows,)]
    for _ in range(steps):
        returned = envs.step(envs.action_space.sample())
        checker.need(isinstance(returned, tuple) and len(returned) == 5, "step-returns",
                     f"step returns five things, found {returned!r}")
        rows, rewards, terminated, truncated, infos = returned
        count = (envs.num_envs,)
        checker.need(envs.observation_space.contains(rows), "step-observation",
                     f"observations lie in {envs.observation_space}, found {rows!r}")
        checker.need(rewards.shape == count and numpy.isfinite(rewards).all(), "reward",
                     f"there is a finite reward for each copy, found {rewards!r}")
        checker.need(terminated.shape == count and terminated.dtype == bool
                     and truncated.shape == count and truncated.dtype == bool, "flags",
                     "there are two flags for each copy")
        ended = terminated | truncated
        if ended.any():
            checker.need("final_obs" in infos and same(infos.get("_final_obs"), ended),
                         "final-observation", "infos keep the last observation of what ended")
            inside = all(envs.single_observation_space.contains(row)
                         for row in infos["final_obs"][ended])
            checker.expect(inside, "final-observation", "a last observation lies in its space")
            checker.expect(not same(infos["final_obs"][ended], rows[ended]), "final-observation",
                           "the last observation of an episode is not the first of the next one")
        steps_seen.append((rows, rewards, terminated, truncated))
    return steps_seen


def check_vec_env(envs):
    """Findings about many copies of an environment, [] when they keep the contract."""
    checker = Checker()
    limit = getattr(getattr(envs, "description", None), "episode_steps_max", 0) or 200
    try:
        first = roll(checker, envs, 1, limit + 10)
        again = roll(checker, envs, 1, limit + 10)
        checker.expect(all(same(x, y) for a, b in zip(first, again) for x, y in zip(a, b)), "seed",
                       "the same seed and actions give the same steps of all copies")
        rows = first[0][0]
        checker.expect(envs.num_envs == 1 or not all(same(rows[0], row) for row in rows[1:])
                       or not all(same(step[0][0], row) for step in first for row in step[0][1:]),
                       "chance", "copies have episodes of their own")
    except Broken:
        pass
    return checker.findings
