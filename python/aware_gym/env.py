"""env.py - environments of a server as gymnasium.Env and gymnasium.vector.VectorEnv.

An episode comes from its seed alone: reset(seed=n) gives the same episode here, in C and on every
other machine of the same kind. reset() without a seed draws the next seed from the generator that
the last seed began, or from the system's chance when there was none.
"""

import collections

import grpc
import numpy

from . import environment_pb2 as pb
from .client import Connection
from .errors import Error
from .gym import BaseEnv, BaseVectorEnv, Box, Discrete, autoreset_of, batched, register

Axis = collections.namedtuple("Axis", "name unit low high")

SEED_MAX = 2**64 - 1
LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED)


def space_of(message):
    """A pb.Space as a space of Gymnasium."""
    if message.kind == pb.Space.KIND_DISCRETE:
        return Discrete(len(message.axes))
    if message.kind != pb.Space.KIND_BOX:
        raise Error(grpc.StatusCode.UNIMPLEMENTED,
                    f"a space of kind {message.kind} is not known; aware_gym is too old for it")
    return Box(numpy.array([axis.low for axis in message.axes], numpy.float32),
               numpy.array([axis.high for axis in message.axes], numpy.float32))


def axes_of(message):
    return tuple(Axis(axis.name, axis.unit, axis.low, axis.high) for axis in message.axes)


class Remote:
    """What one environment and many of them have in common: description, session, seeds."""

    def _open(self, name, options, count, connection):
        self._connection = connection
        self._made_with = name, options, count
        try:
            self.description = connection.describe(name, options)
            self.single_observation_space = space_of(self.description.observation)
            self.single_action_space = space_of(self.description.action)
            self._session = connection.session(*self._made_with)
        except BaseException:
            connection.close()
            raise
        self._start_chance(None)

    def _begin(self, *arguments):
        """Resets the session. A server ends a stream that nobody used for long: nothing is lost
        then, for an episode that begins may as well begin on another stream."""
        self._want_open()
        try:
            return self._session.reset(*arguments)
        except Error as error:
            if error.code not in LOST:
                raise
        self._session.close()
        self._session = self._connection.session(*self._made_with)
        return self._session.reset(*arguments)

    def _want_open(self):
        if self._session is None:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "the environment is closed")

    # Names, units and bounds of what the arrays hold.

    @property
    def observation_axes(self):
        return axes_of(self.description.observation)

    @property
    def action_axes(self):
        """Of a discrete space: its choices."""
        return axes_of(self.description.action)

    @property
    def reward_range(self):
        low, high = self.description.reward_low, self.description.reward_high
        return (low, high) if (low, high) != (0, 0) else (-numpy.inf, numpy.inf)

    def _start_chance(self, seed):
        # Where gymnasium.Env keeps its own generator, which is made in the same way: `np_random`.
        self._np_random = numpy.random.default_rng(seed)
        self._np_random_seed = seed

    def _seed(self, seed):
        """The seed to use: the one given, or the next of the generator."""
        if seed is None:
            return int(self._np_random.integers(SEED_MAX, dtype=numpy.uint64))
        if isinstance(seed, bool) or not isinstance(seed, (int, numpy.integer)):
            raise TypeError(f"a seed is one whole number, found {seed!r}")
        if not 0 <= seed <= SEED_MAX:
            raise ValueError(f"a seed lies between 0 and {SEED_MAX}, found {seed}")
        self._start_chance(int(seed))
        return int(seed)

    def _close(self):
        if getattr(self, "_session", None) is not None:
            self._session.close()
            self._session = None
            self._connection.close()


class Env(Remote, BaseEnv):
    """One environment. See make."""

    metadata = {"render_modes": []}

    def __init__(self, name, options=None, connection=None):
        self._session = None
        self._open(name, options, 1, connection or Connection())
        self.observation_space = self.single_observation_space
        self.action_space = self.single_action_space
        self.name = name
        self._running = False

    def reset(self, *, seed=None, options=None):
        """Begins an episode; `options` is not used: those of the environment are given to make."""
        del options
        rows, fallback = self._begin(self._seed(seed), True, pb.AUTORESET_MANUAL)
        self._running = True
        return rows[0], info_of(fallback)

    def step(self, action):
        """One step. An action beyond the bounds is clipped by the environment."""
        self._want_open()
        if not self._running:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION,
                        "no episode is running; call reset first")
        action = numpy.asarray(action, numpy.float32)
        if action.shape != self.action_space.shape:
            raise ValueError(f"an action has the shape {self.action_space.shape}, "
                             f"found {action.shape}")
        rows, rewards, terminated, truncated, _, fallback = self._session.step(action)
        terminated, truncated = bool(terminated), bool(truncated)
        self._running = not (terminated or truncated)
        return rows[0], float(rewards[0]), terminated, truncated, info_of(fallback)

    def close(self):
        self._close()

    def __repr__(self):
        return f"<aware_gym.Env {self.name}>"


def info_of(fallback):
    """The fallback's opinion, where the environment has a fallback."""
    return {} if fallback is None else {"fallback_action": fallback[0]}


class VectorEnv(Remote, BaseVectorEnv):
    """Copies of an environment, stepped by one message. See make_vec.

    A copy whose episode ends is reset within the same step (Gymnasium's SAME_STEP): the
    observation is the first of its next episode, and infos["final_obs"][i] the last of the old
    one, for the copies that the mask infos["_final_obs"] names. Bootstrap from that, never from
    the observation. With DISABLED the observation is the last of the episode, and
    reset(options={"reset_mask": mask}) begins the next in the copies of the mask before any step;
    with NEXT_STEP the next step begins it, whatever the action, with a reward of 0.
    """

    metadata = {"render_modes": [], "autoreset_mode": autoreset_of("SameStep")}

    def __init__(self, name, num_envs, options=None, connection=None, autoreset_mode="SameStep"):
        self._session = None
        mode = autoreset_of(autoreset_mode)
        self.metadata = dict(type(self).metadata, autoreset_mode=mode)
        self._mode = {"SameStep": pb.AUTORESET_SAME_STEP, "NextStep": pb.AUTORESET_NEXT_STEP,
                      "Disabled": pb.AUTORESET_MANUAL}[getattr(mode, "value", mode)]
        self._rows = None
        self._open(name, options, num_envs, connection or Connection())
        self.name = name
        self.num_envs = num_envs
        self.observation_space = batched(self.single_observation_space, num_envs)
        self.action_space = batched(self.single_action_space, num_envs)
        self._begun = False

    def reset(self, *, seed=None, options=None):
        """Begins an episode in every copy; copy i draws its seeds from (seed, i). Where nothing is
        reset by itself, options={"reset_mask": MASK} begins the next one in these copies alone."""
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            return self._reset_some(numpy.asarray(mask, bool), seed)
        rows, fallback = self._begin(self._seed(seed), False, self._mode)
        self._begun, self._rows = True, rows
        return rows, self._infos(fallback)

    def _reset_some(self, mask, seed):
        if self._mode != pb.AUTORESET_MANUAL or not self._begun or seed is not None:
            raise ValueError("reset_mask is for copies that have begun and are not reset by "
                             "themselves (autoreset_mode DISABLED), and takes no seed")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(f"reset_mask has {self.num_envs} truths, one of them at least true")
        only = numpy.flatnonzero(mask)
        rows, fallback = self._session.reset(0, False, pb.AUTORESET_MANUAL, only.tolist())
        self._rows = numpy.array(self._rows)
        self._rows[only] = rows
        if fallback is None:
            return self._rows, {}
        opinion = numpy.zeros((self.num_envs, *fallback.shape[1:]), fallback.dtype)
        opinion[only] = fallback
        return self._rows, {"fallback_action": opinion, "_fallback_action": mask}

    def step(self, actions):
        """One step of every copy; `actions` has a row, or a choice, for each."""
        self._want_open()
        if not self._begun:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "call reset first")
        actions = numpy.asarray(actions, numpy.float32)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions have the shape {self.action_space.shape}, "
                             f"found {actions.shape}")
        rows, rewards, ended, cut, final, fallback = self._session.step(actions)
        terminated = numpy.zeros(self.num_envs, bool)
        truncated = numpy.zeros(self.num_envs, bool)
        infos = self._infos(fallback)
        self._rows = rows
        terminated[list(ended)] = True
        truncated[list(cut)] = True
        mask = terminated | truncated
        if mask.any() and self._mode == pb.AUTORESET_SAME_STEP:
            if not len(final):
                raise Error(grpc.StatusCode.INTERNAL, "a copy ended and its last observation is "
                            "missing; the server does not reset within the step")
            last = numpy.full(self.observation_space.shape, numpy.nan, numpy.float32)
            last[mask] = final
            infos["final_obs"], infos["_final_obs"] = last, mask
            infos["final_info"], infos["_final_info"] = {}, mask
        return rows, rewards.astype(numpy.float64), terminated, truncated, infos

    def _infos(self, fallback):
        if fallback is None:
            return {}
        return {"fallback_action": fallback, "_fallback_action": numpy.ones(self.num_envs, bool)}

    def close_extras(self, **keywords):
        del keywords
        self._close()

    def __enter__(self):  # which gymnasium.vector.VectorEnv does not have
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<aware_gym.VectorEnv {self.name} x {self.num_envs}>"


def make(name, address=None, *, token=None, ca_file=None, **options):
    """An environment by its name.

        env = aware_gym.make("autoscale-v0", app="1:7")

    Without an address, `aware` is started on a private socket, once for all environments of this
    process. Else it is that of a server: HOST:PORT, unix:PATH or what `aware env serve` prints;
    token and ca_file for servers that want them (see Connection). All other keywords are options
    of the environment, as `aware env describe NAME` lists them.
    """
    return Env(name, options, Connection(address, token, ca_file))


def make_vec(name, num_envs, address=None, *, token=None, ca_file=None,
             autoreset_mode="SameStep", **options):
    """`num_envs` copies of an environment, stepped by one message; the rest as in make."""
    return VectorEnv(name, num_envs, options, Connection(address, token, ca_file), autoreset_mode)


def list_envs(address=None, *, token=None, ca_file=None):
    """{name: summary} of what a server has."""
    with Connection(address, token, ca_file) as connection:
        return {entry.name: entry.summary for entry in connection.list()}


def describe(name, address=None, *, token=None, ca_file=None, **options):
    """Everything about an environment, as the message DescribeResponse of proto/."""
    with Connection(address, token, ca_file) as connection:
        return connection.describe(name, options)


# Of `aware env list`, those of one agent; a test compares.
NAMES = ("cartpole-v1", "pendulum-v1", "identity-box-v0", "identity-discrete-v0", "autoscale-v0",
         "autoscale-paper-v0")
register(NAMES)
