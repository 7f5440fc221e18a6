"""client.py - the service aware.v1.Environment, as a client sees it.

A Connection is a channel to one server; a Session is a number of copies of one environment on a
stream of their own. The classes of env.py stand on these; use them directly for other shapes.
"""

import os
import queue

import grpc

from . import environment_pb2 as pb
from . import program, wire
from .errors import Error

SERVICE = "/aware.v1.Environment/"
MESSAGE_BYTES_MAX = 64 << 20
CALL_SECONDS_MAX = 60

OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # So that a machine that is gone is noticed; servers take more than a ping in 5 minutes amiss.
    ("grpc.keepalive_time_ms", 360000),
]


def target_of(address):
    """(what gRPC calls an address, whether it wants TLS).

    An address is HOST:PORT, unix:PATH, a path, or what `aware env serve` prints: grpc://HOST:PORT,
    grpcs://HOST:PORT (TLS) or grpc+unix://PATH.
    """
    tls = address.startswith("grpcs://")
    target = address
    for scheme, kept in (("grpc+unix://", "unix:"), ("grpcs://", ""), ("grpc://", "")):
        if target.startswith(scheme):
            target = kept + target[len(scheme):]
    if target.startswith("/"):
        target = "unix:" + target
    if not target.startswith("unix:") and ("/" in target or ":" not in target):
        raise ValueError("an address is HOST:PORT, unix:PATH or grpc://HOST:PORT, "
                         f"found {address!r}")
    return target, tls


class Connection:
    """A channel to a server of environments.

    address     HOST:PORT, unix:PATH, grpc://HOST:PORT, or grpcs://HOST:PORT for TLS; None: a server
                of this process's own
    token       sent with every call, for servers that want one
    ca_file     TLS, with the authorities of this PEM file; "" for those of the system
    """

    def __init__(self, address=None, token=None, ca_file=None):
        self.address, tls = target_of(address or program.address())
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        if ca_file is None and not tls:
            self.channel = grpc.insecure_channel(self.address, OPTIONS)
        else:
            roots = None
            if ca_file:
                with open(ca_file, "rb") as file:
                    roots = file.read()
            credentials = grpc.ssl_channel_credentials(roots)
            self.channel = grpc.secure_channel(self.address, credentials, OPTIONS)

    def call(self, method, request, response_type, service=SERVICE):
        """One question, one answer."""
        ask = self.channel.unary_unary(service + method,
                                       request_serializer=type(request).SerializeToString,
                                       response_deserializer=response_type.FromString)
        try:
            return ask(request, timeout=CALL_SECONDS_MAX, metadata=self.metadata)
        except grpc.RpcError as error:
            raise Error.from_rpc(error, self.address) from None

    def list(self):
        return self.call("List", pb.ListRequest(), pb.ListResponse).environments

    def describe(self, name, options=None):
        request = pb.DescribeRequest(name=name, options=text_of(options))
        return self.call("Describe", request, pb.DescribeResponse)

    def session(self, name, options=None, count=1):
        return Session(self, name, options, count)

    def close(self):
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(address=None, **keywords):
    """A Connection; see there."""
    return Connection(address, **keywords)


def text_of(options):
    """Options as the wire carries them: texts, with yes and no as aware spells them."""
    spelt = {True: "true", False: "false"}
    return {key: spelt[value] if isinstance(value, bool) else str(value)
            for key, value in (options or {}).items()}


class Stream:
    """A stream on which each request is answered before the next is made.

    Belongs to one thread, and to one process: after a fork, make another in the child.
    """

    def __init__(self, connection, path, request_type, response_type):
        self._where = connection.address
        self._pid = os.getpid()
        self._next_id = 0
        self._requests = queue.SimpleQueue()
        open_stream = connection.channel.stream_stream(
            path, request_serializer=request_type.SerializeToString,
            response_deserializer=response_type.FromString)
        # The iterator ends at the None that close puts.
        self._responses = open_stream(iter(self._requests.get, None), metadata=connection.metadata)

    def _ask(self, request):
        if self._responses is None:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION, "the environment is closed")
        if os.getpid() != self._pid:
            raise Error(grpc.StatusCode.FAILED_PRECONDITION,
                        "the environment was made before a fork; make another in this process")
        self._next_id += 1
        request.id = self._next_id
        self._requests.put(request)
        try:
            response = next(self._responses)
        except StopIteration:
            raise Error(grpc.StatusCode.UNAVAILABLE,
                        f"the server at {self._where} ended the session") from None
        except grpc.RpcError as error:
            raise Error.from_rpc(error, self._where) from None
        if response.id != request.id:
            raise Error(grpc.StatusCode.INTERNAL,
                        f"request {request.id} was answered by number {response.id}")
        if response.WhichOneof("response") == "error":
            raise Error.from_status(response.error.code, response.error.message)
        return response

    def _rows(self, data, count, dim):
        try:
            return wire.from_bytes(data, count, dim)
        except ValueError as error:
            raise Error(grpc.StatusCode.INTERNAL,
                        f"the server at {self._where} answered what is no array: {error}") from None

    def close(self):
        """Ends the stream, and with it what it has made. A second time is nothing."""
        if self._responses is not None and os.getpid() == self._pid:
            self._requests.put(None)
            self._responses.cancel()
        self._responses = None


class Session(Stream):
    """Copies of one environment on a stream.

    Arrays are numpy's, with a row for each copy; what comes back is the caller's to keep.
    """

    def __init__(self, connection, name, options=None, count=1):
        super().__init__(connection, SERVICE + "Stream", wire.StreamRequest, wire.StreamResponse)
        try:
            request = wire.StreamRequest()
            request.init.name, request.init.count = name, count
            request.init.options.update(text_of(options))
            made = self._ask(request).init
        except BaseException:
            self.close()
            raise
        self.count, self.obs_dim, self.act_dim = made.count, made.observation_dim, made.action_dim

    def _fallback(self, response, count):
        if not response.fallback_action:
            return None
        return self._rows(response.fallback_action, count, self.act_dim)

    def reset(self, seed, exact=False, autoreset=pb.AUTORESET_SAME_STEP, only=()):
        """Begins episodes in all copies, or in those of `only`: (observation, fallback_action), the
        latter None where there is no fallback."""
        request = wire.StreamRequest()
        reset = request.reset
        reset.seed, reset.exact, reset.autoreset = seed, exact, autoreset
        reset.only.extend(only)
        response, count = self._ask(request).reset, len(only) or self.count
        return self._rows(response.observation, count, self.obs_dim), \
            self._fallback(response, count)

    def step(self, action):
        """One step of every copy: (observation, reward, terminated, truncated, final_observation,
        fallback_action). The flags are the numbers of the copies that ended; final_observation has
        a row for each of them, and none without autoreset."""
        request = wire.StreamRequest()
        request.step.action = wire.to_bytes(action)
        step = self._ask(request).step
        final = step.final_observation
        if final:
            rows = len(set(step.terminated).union(step.truncated))
            final = self._rows(final, rows, self.obs_dim)
        return (self._rows(step.observation, self.count, self.obs_dim),
                self._rows(step.reward, self.count, 1)[:, 0], step.terminated, step.truncated,
                final, self._fallback(step, self.count))
