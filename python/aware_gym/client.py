"""client.py - the service aware.v1.Environment, as a client sees it.

A Connection is a channel to one server; a Session is a number of copies of one environment on a
stream of their own. The classes of env.py stand on these; use them directly for other shapes.
"""

import os
import queue

import grpc

from . import environment_pb2 as pb
from . import program
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
    """What gRPC calls an address: grpc://HOST:PORT, HOST:PORT, unix:PATH or a path."""
    if address.startswith("grpc://"):
        address = address[len("grpc://"):]
    if address.startswith("/"):
        address = "unix:" + address
    return address


class Connection:
    """A channel to a server of environments.

    address     HOST:PORT, grpc://HOST:PORT or unix:PATH; None: a server of this process's own
    token       sent with every call, for servers that want one
    ca_file     TLS, with the authorities of this PEM file; "" for those of the system
    """

    def __init__(self, address=None, token=None, ca_file=None):
        self.address = target_of(address) if address else program.address()
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        if ca_file is None:
            self.channel = grpc.insecure_channel(self.address, OPTIONS)
        else:
            roots = None
            if ca_file:
                with open(ca_file, "rb") as file:
                    roots = file.read()
            credentials = grpc.ssl_channel_credentials(roots)
            self.channel = grpc.secure_channel(self.address, credentials, OPTIONS)

    def call(self, method, request, response_type):
        """One question, one answer."""
        ask = self.channel.unary_unary(SERVICE + method,
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


class Session:
    """Copies of one environment on a stream: each request is answered before the next is made.

    Belongs to one thread, and to one process: after a fork, make another in the child.
    """

    def __init__(self, connection, name, options=None, count=1):
        self._where = connection.address
        self._pid = os.getpid()
        self._next_id = 0
        self._requests = queue.SimpleQueue()
        open_stream = connection.channel.stream_stream(
            SERVICE + "Stream", request_serializer=pb.StreamRequest.SerializeToString,
            response_deserializer=pb.StreamResponse.FromString)
        # The iterator ends at the None that close puts.
        self._responses = open_stream(iter(self._requests.get, None), metadata=connection.metadata)
        try:
            request = pb.InitRequest(name=name, options=text_of(options), count=count)
            self.shape = self._ask(pb.StreamRequest(init=request)).init
        except BaseException:
            self.close()
            raise

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

    def reset(self, seed, exact=False, autoreset=pb.AUTORESET_SAME_STEP, only=()):
        """Begins episodes; returns a ResetResponse."""
        request = pb.ResetRequest(seed=seed, exact=exact, autoreset=autoreset, only=only)
        return self._ask(pb.StreamRequest(reset=request)).reset

    def step(self, action):
        """`action`: an iterable of floats, copy after copy. Returns a StepResponse."""
        request = pb.StreamRequest()
        request.step.action.extend(action)
        return self._ask(request).step

    def close(self):
        """Ends the stream, and with it the copies. A second time is nothing."""
        if self._responses is not None and os.getpid() == self._pid:
            self._requests.put(None)
            self._responses.cancel()
        self._responses = None
