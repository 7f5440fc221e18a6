"""parallel.py - environments of many agents that act at once, as PettingZoo's ParallelEnv.

    env = aware_gym.parallel_env("tenants-v0", agents=24)
    observations, infos = env.reset(seed=1)
    while env.agents:
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)

Agents come and go: `agents` are those that act next. An agent that ended is in the dictionaries of
the step in which it ended, and never after; one that joins is in them with a reward of 0. Which
choices are allowed is in infos[agent]["action_mask"].

The same without dictionaries, for many agents: reset_flat and step_flat, with arrays [agents][...]
in which row i is possible_agents[i]. Both ways step the same environment; use one or the other.
"""

import grpc
import numpy

from . import parallel_pb2 as pb
from . import environment_pb2, wire
from .client import Connection, Stream, text_of
from .env import SEED_MAX, axes_of, space_of
from .errors import Error

try:
    from pettingzoo import ParallelEnv as BaseParallelEnv
except ImportError:
    class BaseParallelEnv:
        """pettingzoo.ParallelEnv, as far as it has behaviour of its own."""

        metadata = {}

        @property
        def num_agents(self):
            return len(self.agents)

        @property
        def max_num_agents(self):
            return len(self.possible_agents)

        @property
        def unwrapped(self):
            return self

SERVICE = "/aware.v1.ParallelEnvironment/"
LIVE, JOINED, TERMINATED, TRUNCATED = 1, 2, 4, 8


class Flat:
    """What reset_flat and step_flat show: arrays with a row for each of possible_agents.

    flags         [agents] uint8: LIVE, JOINED, TERMINATED, TRUNCATED or-ed; 0: not there
    observations  [agents][elements]
    rewards       [agents]
    action_masks  [agents][choices] bool; None for a box
    contexts      [agents][elements]: what a critic may see of all others; None unless asked for

    Rows of agents that are not there (flags 0) are zeroes. The arrays are the caller's to keep.
    """

    __slots__ = ("flags", "observations", "rewards", "action_masks", "contexts")

    def __init__(self, flags, observations, rewards, action_masks, contexts):
        self.flags, self.observations, self.rewards = flags, observations, rewards
        self.action_masks, self.contexts = action_masks, contexts

    @property
    def live(self):
        """[agents] bool: who acts in the next step."""
        return (self.flags & LIVE) != 0

    @property
    def terminations(self):
        return (self.flags & TERMINATED) != 0

    @property
    def truncations(self):
        return (self.flags & TRUNCATED) != 0


class ParallelSession(Stream):
    """One environment of many agents on a stream."""

    def __init__(self, connection, name, options=None, context=False):
        super().__init__(connection, SERVICE + "StreamParallel", wire.ParallelRequest,
                         wire.ParallelResponse)
        try:
            request = wire.ParallelRequest()
            request.init.name, request.init.context = name, context
            request.init.options.update(text_of(options))
            made = self._ask(request).init
        except BaseException:
            self.close()
            raise
        self.agents_max, self.choices = made.agents_max, made.choices
        self.obs_dim, self.act_dim = made.observation_dim, made.action_dim
        self.context_dim = made.context_dim if context else 0

    def _flat(self, rows):
        if len(rows.flags) != self.agents_max:
            raise Error(grpc.StatusCode.INTERNAL, f"the server at {self._where} answered flags of "
                        f"{len(rows.flags)} agents, of {self.agents_max}")
        flags = numpy.frombuffer(rows.flags, numpy.uint8).copy()
        there = numpy.flatnonzero(flags)
        count = len(there)
        found = [self._rows(rows.observation, count, self.obs_dim),
                 self._rows(rows.reward, count, 1)[:, 0], None, None]
        if self.choices:
            if len(rows.allowed) != count * self.choices:
                raise Error(grpc.StatusCode.INTERNAL, f"the server at {self._where} answered masks "
                            f"of {len(rows.allowed)} bytes, not {count} x {self.choices}")
            found[2] = numpy.frombuffer(rows.allowed, bool).reshape(count, self.choices)
        if self.context_dim:
            found[3] = self._rows(rows.context, count, self.context_dim)
        if count < self.agents_max:
            found = [self._spread(there, one) for one in found]
        elif self.choices:
            found[2] = found[2].copy()
        return Flat(flags, *found)

    def _spread(self, there, rows):
        if rows is None:
            return None
        all_rows = numpy.zeros((self.agents_max, *rows.shape[1:]), rows.dtype)
        all_rows[there] = rows
        return all_rows

    def reset(self, seed):
        request = wire.ParallelRequest()
        request.reset.seed = seed
        return self._flat(self._ask(request).rows)

    def step(self, actions):
        """`actions` has a row for each agent that is live, in ascending order."""
        request = wire.ParallelRequest()
        request.step.action = wire.to_bytes(actions)
        return self._flat(self._ask(request).rows)


class ParallelEnv(BaseParallelEnv):
    """An environment of many agents. See parallel_env."""

    def __init__(self, name, options=None, connection=None, context=False):
        self._connection = connection or Connection()
        self._session = None
        self.metadata = {"name": name, "render_modes": []}
        self.render_mode = None
        self.name = name
        try:
            request = environment_pb2.DescribeRequest(name=name, options=text_of(options))
            self.description = self._connection.call("DescribeParallel", request,
                                                     pb.ParallelDescription, SERVICE)
            self._session = ParallelSession(self._connection, name, options, context)
        except BaseException:
            self._connection.close()
            raise
        self.possible_agents = [f"agent_{i}" for i in range(self._session.agents_max)]
        self._number = {agent: i for i, agent in enumerate(self.possible_agents)}
        self.observation_spaces = {agent: space_of(self.description.observation)
                                   for agent in self.possible_agents}
        self.action_spaces = {agent: space_of(self.description.action)
                              for agent in self.possible_agents}
        self.agents = []
        self._live = numpy.zeros(self._session.agents_max, bool)
        self._chance = numpy.random.default_rng()

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    @property
    def observation_axes(self):
        return axes_of(self.description.observation)

    @property
    def action_axes(self):
        return axes_of(self.description.action)

    @property
    def context_axes(self):
        return axes_of(self.description.context)

    # --- arrays --------------------------------------------------------------------------------

    def reset_flat(self, seed=None):
        """Begins an episode drawn from `seed`; without one, from the generator that the last seed
        began."""
        self._want_open()
        if seed is None:
            seed = int(self._chance.integers(SEED_MAX, dtype=numpy.uint64))
        elif isinstance(seed, bool) or not isinstance(seed, (int, numpy.integer)):
            raise TypeError(f"a seed is one whole number, found {seed!r}")
        elif not 0 <= seed <= SEED_MAX:
            raise ValueError(f"a seed lies between 0 and {SEED_MAX}, found {seed}")
        else:
            self._chance = numpy.random.default_rng(int(seed))
        return self._seen(self._session.reset(int(seed)))

    def step_flat(self, actions):
        """One step of all; `actions` has a row for each of possible_agents, and those of agents
        that are not live are not looked at."""
        self._want_open()
        actions = numpy.asarray(actions)
        shape = (self._session.agents_max,) if self._session.choices else \
            (self._session.agents_max, self._session.act_dim)
        if actions.shape != shape:
            raise ValueError(f"actions have the shape {shape}, found {actions.shape}")
        return self._seen(self._session.step(actions[self._live]))

    def _seen(self, flat):
        self._live = flat.live
        self.agents = None  # made when somebody asks
        return flat

    @property
    def num_live(self):
        """How many act in the next step: len(agents), without making the list."""
        return int(self._live.sum())

    @property
    def agents(self):
        """Who acts in the next step."""
        if self._agents is None:
            self._agents = [self.possible_agents[i] for i in numpy.flatnonzero(self._live)]
        return self._agents

    @agents.setter
    def agents(self, agents):
        self._agents = agents

    # --- dictionaries --------------------------------------------------------------------------

    def reset(self, seed=None, options=None):
        """({agent: observation}, {agent: info}); options are given to parallel_env instead."""
        del options
        flat = self.reset_flat(seed)
        there = numpy.flatnonzero(flat.flags)
        return self._keyed(there, flat.observations), self._infos(there, flat)

    def step(self, actions):
        """`actions` has one for each of `agents`, and for nobody else."""
        self._want_open()
        if not self.agents:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "nobody is live; call reset first")
        if set(actions) != set(self.agents):
            missing, more = set(self.agents) - set(actions), set(actions) - set(self.agents)
            raise ValueError(f"an action for each live agent; missing {sorted(missing)[:3]}, "
                             f"not live {sorted(more)[:3]}")
        rows = numpy.array([actions[agent] for agent in self.agents], numpy.float32)
        flat = self._seen(self._session.step(rows))
        there = numpy.flatnonzero(flat.flags)
        return (self._keyed(there, flat.observations),
                self._plain(there, flat.rewards, float),
                self._plain(there, flat.terminations, bool),
                self._plain(there, flat.truncations, bool),
                self._infos(there, flat))

    def _keyed(self, there, rows):
        return {self.possible_agents[i]: rows[i] for i in there}

    def _plain(self, there, values, kind):
        return {self.possible_agents[i]: kind(values[i]) for i in there}

    def _infos(self, there, flat):
        infos = {self.possible_agents[i]: {} for i in there}
        for key, rows in (("action_mask", flat.action_masks), ("context", flat.contexts)):
            if rows is not None:
                for i in there:
                    row = rows[i]
                    infos[self.possible_agents[i]][key] = \
                        row.astype(numpy.int8) if key == "action_mask" else row
        return infos

    # --- the rest ------------------------------------------------------------------------------

    def render(self):
        """There is nothing to look at."""

    def _want_open(self):
        if self._session is None:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "the environment is closed")

    def close(self):
        if getattr(self, "_session", None) is not None:
            self._session.close()
            self._session = None
            self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<aware_gym.ParallelEnv {self.name} of {len(self.possible_agents)}>"


def parallel_env(name="tenants-v0", address=None, *, token=None, ca_file=None, context=False,
                 **options):
    """An environment of many agents by its name, with PettingZoo's parallel interface.

    context: infos[agent]["context"] and Flat.contexts have what a critic may see of all others.
    Addresses as in make; all other keywords are options, as `aware env describe NAME` lists them.
    """
    return ParallelEnv(name, options, Connection(address, token, ca_file), context)


def list_parallel_envs(address=None, *, token=None, ca_file=None):
    """{name: summary} of the environments of many agents that a server has."""
    with Connection(address, token, ca_file) as connection:
        listed = connection.call("ListParallel", environment_pb2.ListRequest(),
                                 environment_pb2.ListResponse, SERVICE)
        return {entry.name: entry.summary for entry in listed.environments}
