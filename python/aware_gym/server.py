"""server.py - environments written in Python, for the learners of `aware`.

    aware_gym.serve(MyEnv, "127.0.0.1:50051")
    aware train --env grpc://127.0.0.1:50051/my --agent td3         in another terminal

MyEnv is anything with Gymnasium's reset and step, a Box or Discrete observation_space and
action_space: a class, or a function that makes one. Gymnasium itself is not needed. What more there
is to say about it can be said by attributes, all optional:

    name, summary                   what it is called ("pendulum-v1"); one sentence
    observation_axes, action_axes   a (name, unit) for each element or choice
    episode_steps_max               truncated after so many steps
    reward_range                    (lowest, highest)
    solved_return                   mean return that counts as solved
    fallback_action(self)           a method: what the agent would do that needs no learning

Numbers are checked here, so that an environment does not have to: actions are clipped to the bounds
or refused, and observations or rewards that are not finite never reach a learner.
"""

import concurrent.futures
import inspect
import logging
import re
import secrets
import signal
import threading
import time

import grpc
import numpy

from . import environment_pb2 as pb
from .client import MESSAGE_BYTES_MAX, target_of
from .errors import Error
from .gym import Box, Discrete

SESSIONS_MAX = 64
COPIES_MAX = 1024  # of one session
IDLE_SECONDS_MAX = 600
STOP_SECONDS_MAX = 5
SERVICE = "aware.v1.Environment"
FLOAT_MAX = float(numpy.finfo(numpy.float32).max)

log = logging.getLogger("aware_gym.server")


def kind_of(space):
    """KIND_BOX or KIND_DISCRETE, by its members: spaces of other libraries will do."""
    if isinstance(space, Discrete) or hasattr(space, "n") and not hasattr(space, "low"):
        return pb.Space.KIND_DISCRETE
    if isinstance(space, Box) or hasattr(space, "low") and hasattr(space, "high"):
        return pb.Space.KIND_BOX
    raise Error(grpc.StatusCode.UNIMPLEMENTED,
                f"only Box and Discrete can be served, not {space!r}")


class Layout:
    """How a space lies in a row of floats."""

    def __init__(self, space, axes, word):
        self.kind = kind_of(space)
        if self.kind == pb.Space.KIND_BOX:
            self.shape = tuple(space.shape)
            self.dtype = numpy.dtype(getattr(space, "dtype", numpy.float32))
            self.low = numpy.broadcast_to(space.low, self.shape).ravel().astype(numpy.float32)
            self.high = numpy.broadcast_to(space.high, self.shape).ravel().astype(numpy.float32)
            self.dim = self.low.size
            named = self.dim
        else:
            self.start = int(getattr(space, "start", 0))
            self.n = named = int(space.n)
            self.dim = 1
        if axes is None:
            axes = [(f"{word}_{i}", "") for i in range(named)]
        axes = [(axis, "") if isinstance(axis, str) else tuple(axis)[:2] for axis in axes]
        if len(axes) != named:
            raise Error(grpc.StatusCode.INTERNAL,
                        f"{word}_axes names {len(axes)} elements, the space has {named}")
        self.axes = axes

    def message(self):
        message = pb.Space(kind=self.kind)
        for i, (name, unit) in enumerate(self.axes):
            axis = message.axes.add(name=name, unit=unit)
            if self.kind == pb.Space.KIND_BOX:
                axis.low, axis.high = self.low[i], self.high[i]
        return message

    def row(self, value, what):
        """A value of the space as floats, finite."""
        if self.kind == pb.Space.KIND_DISCRETE:
            return numpy.array([int(value) - self.start], numpy.float32)
        row = numpy.asarray(value, numpy.float32).ravel()
        if row.size != self.dim:
            raise Error(grpc.StatusCode.INTERNAL,
                        f"{what} has {row.size} elements, its space {self.dim}")
        if not numpy.isfinite(row).all():
            raise Error(grpc.StatusCode.INTERNAL, f"{what} is not finite: {row.tolist()}")
        return row

    def values(self, rows):
        """Actions from their floats, a row each: clipped to the bounds, or all refused."""
        if not numpy.isfinite(rows).all():
            raise Error(grpc.StatusCode.OUT_OF_RANGE, f"an action is finite, found {rows.tolist()}")
        if self.kind == pb.Space.KIND_BOX:
            rows = numpy.minimum(numpy.maximum(rows, self.low), self.high)
            return rows.astype(self.dtype, copy=False).reshape(-1, *self.shape)
        choices = rows[:, 0]
        if not ((choices >= 0) & (choices < self.n) & (choices == numpy.trunc(choices))).all():
            raise Error(grpc.StatusCode.OUT_OF_RANGE,
                        f"an action is a whole number below {self.n}, found {choices.tolist()}")
        return (choices.astype(int) + self.start).tolist()


class Kind:
    """An environment that is served: how to make it, and what to say of it."""

    def __init__(self, make, name=None, episode_steps_max=None):
        self.make_one = make
        sample = self.make({})
        try:
            bare = getattr(sample, "unwrapped", sample)
            self.name = name or getattr(bare, "name", None) or name_of(type(bare).__name__)
            if not re.fullmatch(r"[a-z0-9-]{1,63}", self.name):
                raise ValueError(f"a name is lower case letters, digits and dashes: {self.name!r}")
            text = getattr(bare, "summary", None) or inspect.getdoc(type(bare)) or self.name
            self.summary = text.strip().splitlines()[0]
            declared = getattr(getattr(sample, "spec", None), "max_episode_steps", None)
            self.episode_steps_max = int(
                episode_steps_max or getattr(bare, "episode_steps_max", None) or declared or 0)
        finally:
            close(sample)

    def make(self, options):
        try:
            return self.make_one(**options)
        except TypeError as error:
            if not options:
                raise
            raise Error(grpc.StatusCode.INVALID_ARGUMENT,
                        f"the environment does not take {sorted(options)}: {error}") from None

    def layouts(self, env):
        """(of observations, of actions)"""
        bare = getattr(env, "unwrapped", env)
        return (Layout(env.observation_space, getattr(bare, "observation_axes", None),
                       "observation"),
                Layout(env.action_space, getattr(bare, "action_axes", None), "action"))

    def describe(self, options):
        env = self.make(options)
        try:
            bare = getattr(env, "unwrapped", env)
            observation, action = self.layouts(env)
            response = pb.DescribeResponse(
                name=self.name, summary=self.summary, observation=observation.message(),
                action=action.message(), episode_steps_max=self.episode_steps_max,
                count_max=COPIES_MAX, idle_timeout_ms=IDLE_SECONDS_MAX * 1000)
            reward_range = getattr(bare, "reward_range", None)
            if reward_range is not None:
                response.reward_low, response.reward_high = reward_range
            solved = getattr(bare, "solved_return", None)
            if solved is not None:
                response.solved_return = solved
            if hasattr(bare, "fallback_action"):
                response.fallback_agent = getattr(bare, "fallback_agent", "fallback")
            return response
        finally:
            close(env)


def name_of(class_name):
    """PendulumEnv -> pendulum"""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", re.sub(r"Env(ironment)?$", "", class_name))
    return words.replace("_", "-").lower()


def close(env):
    if hasattr(env, "close"):
        env.close()


class Copies:
    """The environments of one session. Belongs to one call at a time."""

    def __init__(self, kind, options, count):
        if count > COPIES_MAX:
            raise Error(grpc.StatusCode.RESOURCE_EXHAUSTED,
                        f"a session has at most {COPIES_MAX} copies, found {count}")
        self.kind = kind
        self.count = count or 1
        self.envs = []
        try:
            for _ in range(self.count):
                self.envs.append(kind.make(options))
        except BaseException:
            self.close()
            raise
        self.observation, self.action = kind.layouts(self.envs[0])
        bare = [getattr(env, "unwrapped", env) for env in self.envs]
        self.fallbacks = [env.fallback_action for env in bare if hasattr(env, "fallback_action")]
        self.seeds = [None] * self.count
        self.steps = [0] * self.count
        self.running = [False] * self.count
        self.autoreset = pb.AUTORESET_SAME_STEP

    def shape(self, session=""):
        return pb.InitResponse(session=session, count=self.count,
                               observation_dim=self.observation.dim, action_dim=self.action.dim)

    def _begin(self, i, seed=None):
        """An episode in copy i, from `seed` or from the next seed of its stream."""
        if seed is None:
            seed = int(self.seeds[i].integers(2**63))
        observation, _ = self.envs[i].reset(seed=seed)
        row = self.observation.row(observation, "the first observation")
        self.steps[i], self.running[i] = 0, True
        return row

    def reset(self, request):
        only = list(request.only)
        if only and request.autoreset != pb.AUTORESET_MANUAL:
            raise Error(grpc.StatusCode.INVALID_ARGUMENT, "`only` goes with AUTORESET_MANUAL alone")
        if any(i >= self.count for i in only) or only != sorted(set(only)):
            raise Error(grpc.StatusCode.INVALID_ARGUMENT,
                        f"`only` names copies below {self.count}, ascending; found {only}")
        if only and None in self.seeds:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "the first Reset is of all copies")
        if not only:
            self.autoreset = request.autoreset
            self.seeds = [numpy.random.default_rng((request.seed, i)) for i in range(self.count)]
        which = only or range(self.count)
        rows = [self._begin(i, (request.seed + i) % 2**64 if request.exact else None)
                for i in which]
        response = pb.ResetResponse(observation=numpy.concatenate(rows).tolist())
        response.fallback_action.extend(self._fallback(which))
        return response

    def _fallback(self, which):
        if not self.fallbacks:
            return []
        rows = [self.action.row(self.fallbacks[i](), "the fallback's action") if self.running[i]
                else numpy.zeros(self.action.dim) for i in which]
        return numpy.concatenate(rows).tolist()

    def step(self, request):
        rows = numpy.array(request.action, numpy.float32)
        if rows.size != self.count * self.action.dim:
            raise Error(grpc.StatusCode.INVALID_ARGUMENT,
                        f"{self.count * self.action.dim} floats of actions are wanted, "
                        f"found {rows.size}")
        next_step = self.autoreset == pb.AUTORESET_NEXT_STEP
        if not all(self.running) and not next_step:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION,
                        f"copy {self.running.index(False)} has no episode; reset it first")
        # All are looked at before any moves: a refused step moves nothing.
        actions = self.action.values(rows.reshape(self.count, -1))
        response = pb.StepResponse()
        observations, finals = [], []
        for i, action in enumerate(actions):
            if not self.running[i] and next_step:
                response.reward.append(0)
                observations.append(self._begin(i))
                continue
            row, ended = self._step_one(i, action, response)
            if ended and self.autoreset == pb.AUTORESET_SAME_STEP:
                finals.append(row)
                row = self._begin(i)
            observations.append(row)
        response.observation.extend(numpy.concatenate(observations).tolist())
        if finals:
            response.final_observation.extend(numpy.concatenate(finals).tolist())
        response.fallback_action.extend(self._fallback(range(self.count)))
        return response

    def _step_one(self, i, action, response):
        self.running[i] = False  # until it is known to go on: a failure ends the episode
        observation, reward, terminated, truncated, _ = self.envs[i].step(action)
        row = self.observation.row(observation, "an observation")
        reward = float(reward)
        if not abs(reward) <= FLOAT_MAX:  # nor is NaN
            raise Error(grpc.StatusCode.INTERNAL, f"a reward is not finite: {reward}")
        self.steps[i] += 1
        terminated = bool(terminated)
        truncated = bool(truncated) or 0 < self.kind.episode_steps_max <= self.steps[i]
        response.reward.append(reward)
        if terminated:
            response.terminated.append(i)
        if truncated:
            response.truncated.append(i)
        self.running[i] = not (terminated or truncated)
        return row, not self.running[i]

    def close(self):
        for env in self.envs:
            close(env)
        self.envs = []


def guarded(function, *arguments):
    """Calls into somebody's environment: what it raises becomes an Error, and a line in the log."""
    try:
        return function(*arguments)
    except Error:
        raise
    except Exception as error:  # pylint: disable=broad-except
        log.exception("the environment failed")
        raise Error(grpc.StatusCode.INTERNAL,
                    f"the environment failed: {type(error).__name__}: {error}") from error


class Service:
    """The seven methods of aware.v1.Environment over a set of environments."""

    def __init__(self, kinds, token=None):
        self.kinds = kinds
        self.token = token
        self.lock = threading.Lock()
        self.sessions = {}  # of single calls: name -> [copies, lock, last used]
        self.streams = 0

    def kind(self, name):
        # One environment needs no name: "grpc://HOST:PORT" says enough.
        if not name and len(self.kinds) == 1:
            return next(iter(self.kinds.values()))
        if name not in self.kinds:
            raise Error(grpc.StatusCode.NOT_FOUND,
                        f"no environment {name!r} here; there is {', '.join(sorted(self.kinds))}")
        return self.kinds[name]

    def list(self, _):
        response = pb.ListResponse()
        for kind in self.kinds.values():
            response.environments.add(name=kind.name, summary=kind.summary)
        return response

    def describe(self, request):
        return guarded(self.kind(request.name).describe, dict(request.options))

    def copies(self, request):
        return guarded(Copies, self.kind(request.name), dict(request.options), request.count)

    # Single calls.

    def init(self, request):
        self.forget_idle()
        with self.lock:
            if len(self.sessions) + self.streams >= SESSIONS_MAX:
                raise Error(grpc.StatusCode.RESOURCE_EXHAUSTED,
                            f"this server has at most {SESSIONS_MAX} sessions")
        copies, name = self.copies(request), secrets.token_urlsafe(16)
        with self.lock:
            self.sessions[name] = [copies, threading.Lock(), time.monotonic()]
        return copies.shape(name)

    def on_session(self, name, function, request):
        with self.lock:
            session = self.sessions.get(name)
        if session is None:
            raise Error(grpc.StatusCode.NOT_FOUND, "no such session (any more)")
        with session[1]:
            session[2] = time.monotonic()
            return guarded(function, session[0], request)

    def reset(self, request):
        return self.on_session(request.session, Copies.reset, request)

    def step(self, request):
        return self.on_session(request.session, Copies.step, request)

    def close(self, request):
        with self.lock:
            session = self.sessions.pop(request.session, None)
        if session:
            with session[1]:
                session[0].close()
        return pb.CloseResponse()

    def forget_idle(self):
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        with self.lock:
            idle = [name for name, session in self.sessions.items() if session[2] < oldest]
        for name in idle:
            self.close(pb.CloseRequest(session=name))

    # The stream.

    def stream(self, requests, _):
        with self.lock:
            if len(self.sessions) + self.streams >= SESSIONS_MAX:
                raise Error(grpc.StatusCode.RESOURCE_EXHAUSTED,
                            f"this server has at most {SESSIONS_MAX} sessions")
            self.streams += 1
        copies = None
        try:
            for request in requests:
                response = pb.StreamResponse(id=request.id)
                try:
                    copies = self.answer(copies, request, response)
                except Error as error:
                    response.error.code = error.code.value[0]
                    response.error.message = str(error)
                yield response
        finally:
            if copies:
                copies.close()
            with self.lock:
                self.streams -= 1

    def answer(self, copies, request, response):
        what = request.WhichOneof("request")
        if what == "init":
            if copies:
                raise Error(grpc.StatusCode.FAILED_PRECONDITION, "a stream has one session")
            copies = self.copies(request.init)
            response.init.CopyFrom(copies.shape())
        elif copies is None:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "the first request is `init`")
        elif what == "step":
            response.step.CopyFrom(guarded(copies.step, request.step))
        elif what == "reset":
            response.reset.CopyFrom(guarded(copies.reset, request.reset))
        else:
            raise Error(grpc.StatusCode.INVALID_ARGUMENT, "a request is init, reset or step")
        return copies

    # How gRPC meets it.

    def admit(self, context):
        if self.token is None:
            return
        given = dict(context.invocation_metadata()).get("authorization", "")
        if not secrets.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this server wants a token")

    def handler(self):
        def unary(function, request_type):
            def answer(request, context):
                self.admit(context)
                try:
                    return function(request)
                except Error as error:
                    context.abort(error.code, str(error))
            return grpc.unary_unary_rpc_method_handler(
                answer, request_type.FromString, lambda response: response.SerializeToString())

        def stream(requests, context):
            self.admit(context)
            try:
                yield from self.stream(requests, context)
            except Error as error:
                context.abort(error.code, str(error))

        return grpc.method_handlers_generic_handler(SERVICE, {
            "List": unary(self.list, pb.ListRequest),
            "Describe": unary(self.describe, pb.DescribeRequest),
            "Init": unary(self.init, pb.InitRequest),
            "Reset": unary(self.reset, pb.ResetRequest),
            "Step": unary(self.step, pb.StepRequest),
            "Close": unary(self.close, pb.CloseRequest),
            "Stream": grpc.stream_stream_rpc_method_handler(
                stream, pb.StreamRequest.FromString, pb.StreamResponse.SerializeToString),
        })


def is_private(target):
    """Reached from this machine alone."""
    host = target.rsplit(":", 1)[0]
    return target.startswith("unix:") or host in ("127.0.0.1", "localhost", "[::1]", "::1")


class Server:
    """Serves environments from its start to its stop; usable as a context.

    env                 a class or function that makes an environment, or {name: one of these}
    address             HOST:PORT (port 0: any; see .address) or unix:PATH
    name                instead of the environment's own
    episode_steps_max   instead of the environment's own
    token               that every call has to bring
    tls                 (certificate file, key file), PEM
    """

    def __init__(self, env, address, *, name=None, episode_steps_max=None, token=None, tls=None):
        target, _ = target_of(address)
        if not is_private(target) and not (token and tls):
            raise ValueError(f"{address} can be reached from elsewhere: give token and tls, "
                             "or serve on 127.0.0.1 or a unix: socket")
        if isinstance(env, dict):
            kinds = [Kind(make, name, episode_steps_max) for name, make in env.items()]
        else:
            kinds = [Kind(env, name, episode_steps_max)]
        self.names = [kind.name for kind in kinds]
        self._tls = bool(tls)
        service = Service({kind.name: kind for kind in kinds}, token)
        # A stream holds a thread for as long as it lives; single calls need some beside them.
        self._threads = concurrent.futures.ThreadPoolExecutor(SESSIONS_MAX + 8)
        self._server = grpc.server(self._threads, [service.handler()], options=[
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.so_reuseport", 0)])  # two servers on one port: an error, not a lottery
        try:
            if tls:
                with open(tls[0], "rb") as certificate, open(tls[1], "rb") as key:
                    pairs = [(key.read(), certificate.read())]
                port = self._server.add_secure_port(target, grpc.ssl_server_credentials(pairs))
            else:
                port = self._server.add_insecure_port(target)
        except RuntimeError:
            port = 0
        if port == 0:
            self._threads.shutdown(wait=False)
            raise Error(grpc.StatusCode.UNAVAILABLE, f"cannot listen on {address}")
        self.address = target if target.startswith("unix:") else \
            f"{target.rsplit(':', 1)[0]}:{port}"

    def url(self, name):
        """What `aware train --env` takes."""
        if self.address.startswith("unix:"):
            return f"grpc+unix://{self.address[len('unix:'):]}?env={name}"
        return f"{'grpcs' if self._tls else 'grpc'}://{self.address}/{name}"

    def start(self):
        self._server.start()
        return self

    def wait(self):
        self._server.wait_for_termination()

    def stop(self):
        """Refuses what is new, lets what runs end for a moment, then ends."""
        self._server.stop(STOP_SECONDS_MAX).wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self._server.stop(None).wait()


def serve(env, address, **keywords):
    """Serves an environment until Ctrl-C or SIGTERM; see Server for the keywords, and for serving
    beside other things."""
    server = Server(env, address, **keywords).start()
    for name in server.names:
        print(f"serving {name}: aware train --env '{server.url(name)}'", flush=True)
    before = signal.signal(signal.SIGTERM, lambda *_: server._server.stop(STOP_SECONDS_MAX))
    try:
        server.wait()
    except KeyboardInterrupt:
        server.stop()
    finally:
        signal.signal(signal.SIGTERM, before)
