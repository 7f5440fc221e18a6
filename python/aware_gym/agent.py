"""agent.py - an agent in Python for a workload of a running daemon.

    def policy(state):
        return state.fallback_action        # three numbers, in the order of agent.action_axes

    aware_gym.attend(policy, "shop/checkout", "unix:/run/aware/grpc.sock")

The agent is asked each time the workload has to be decided, and answers within the deadline or
not at all: then the fallback acts. It never touches the workload: its answer passes the same
guard rails as any other, and the daemon says what became of it. An agent that fails is set aside
and comes back when it has behaved for a while; see proto/aware/v1/agent.proto.
"""

import collections
import logging
import queue

import grpc
import numpy

from . import agent_pb2 as pb
from .client import Connection
from .env import axes_of, space_of
from .errors import Error

SERVICE = "/aware.v1.Agent/"
EXPLANATION_BYTES_MAX = 255

log = logging.getLogger("aware_gym.agent")

State = collections.namedtuple("State", [
    "id", "observation", "fallback_action", "reward", "last_action", "episode_begins",
    "deadline_ms", "context", "epoch", "members", "team_reward"], defaults=(None, 0, 0, None))
State.__doc__ = """One decision that is due.

reward and last_action are about the step before, for an agent that learns: None in the first state.
last_action is what was carried out, after guard rails; learn from that, not from what was proposed.

With want_global, context is what the daemon has observed of all other workloads (means and deviations,
for a critic), members how many are counted, team_reward their mean reward of the step before. Cut what
you learn from where epoch changes: other workloads are there from then on.
"""

REFUSED = {
    pb.Refused.REASON_NO_WORKLOAD: grpc.StatusCode.NOT_FOUND,
    pb.Refused.REASON_TAKEN: grpc.StatusCode.ALREADY_EXISTS,
    pb.Refused.REASON_SHAPE: grpc.StatusCode.INVALID_ARGUMENT,
    pb.Refused.REASON_LIMIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    pb.Refused.REASON_NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
}


class Attendance:
    """A registration as the agent of one workload: iterate over the states, answer each.

        with Attendance("shop/checkout", address) as agent:
            for state in agent:
                agent.answer(state, my_policy(state.observation))

    on_outcome and on_standing are told what became of answers and whether the agent acts; both
    get the message of proto/.
    """

    def __init__(self, workload, address, *, agent="python", version="", shadow=False,
                 take_over=False, want_global=False, token=None, ca_file=None, on_outcome=None,
                 on_standing=None):
        self._connection = Connection(address, token, ca_file)
        self._messages = queue.SimpleQueue()
        self.registered = None
        self._told = {"outcome": on_outcome, "standing": on_standing}
        open_stream = self._connection.channel.stream_stream(
            SERVICE + "Serve", request_serializer=pb.AgentMessage.SerializeToString,
            response_deserializer=pb.DaemonMessage.FromString)
        self._stream = open_stream(iter(self._messages.get, None),
                                   metadata=self._connection.metadata)
        try:
            self._messages.put(pb.AgentMessage(register=pb.Register(
                workload=workload, agent=agent, version=version, shadow=shadow,
                take_over=take_over, want_global=want_global)))
            self.registered = self._receive().registered
            self.observation_space = space_of(self.registered.observation)
            self.action_space = space_of(self.registered.action)
        except BaseException:
            self.close()
            raise
        self.observation_axes = axes_of(self.registered.observation)
        self.action_axes = axes_of(self.registered.action)
        self.context_axes = axes_of(getattr(self.registered, "global"))

    def _receive(self):
        """The next message; an Error when it is the last one."""
        try:
            message = next(self._stream)
        except StopIteration:
            raise Error(grpc.StatusCode.UNAVAILABLE, "the daemon ended the stream") from None
        except grpc.RpcError as error:
            where = self._connection.address
            if self.registered is not None and error.code() == grpc.StatusCode.UNAVAILABLE:
                raise Error(error.code(), f"the run at {where} has ended") from None
            raise Error.from_rpc(error, where, "agents") from None
        kind = message.WhichOneof("message")
        if kind == "refused":
            code = REFUSED.get(message.refused.reason, grpc.StatusCode.FAILED_PRECONDITION)
            raise Error(code, message.refused.message or "the daemon refused the agent")
        if kind == "replaced":
            reason = pb.Replaced.Reason.Name(message.replaced.reason)
            raise Error(grpc.StatusCode.ABORTED,
                        f"{message.replaced.message or 'the agent was replaced'} ({reason})")
        return message

    def __iter__(self):
        """The states, for as long as the daemon asks."""
        while True:
            message = self._receive()
            kind = message.WhichOneof("message")
            if kind != "state":
                if self._told.get(kind):
                    self._told[kind](getattr(message, kind))
                continue
            due = message.state
            told = getattr(due, "global")  # a word of Python's
            floats = lambda numbers: numpy.array(numbers, numpy.float32)
            yield State(due.id, floats(due.observation), floats(due.fallback_action),
                        due.reward if due.WhichOneof("before") else None,
                        floats(due.last_action) if due.last_action else None, due.episode_begins,
                        due.deadline_ms, floats(told) if told else None, due.epoch, due.members,
                        due.team_reward if due.WhichOneof("team") else None)

    def answer(self, state, action, explanation="", confidence=None):
        """Answers one state. What is not finite is sent as it is: the daemon takes the fallback."""
        message = pb.AgentMessage(action=pb.Action(
            id=state.id, values=numpy.asarray(action, numpy.float32).ravel().tolist(),
            explanation=explanation.encode()[:EXPLANATION_BYTES_MAX].decode(errors="ignore")))
        if confidence is not None:
            message.action.confidence = confidence
        self._messages.put(message)

    def close(self):
        """Leaves; the fallback, or the daemon's own agent, takes over."""
        if self._stream is not None:
            self._messages.put(None)
            self._stream.cancel()
            self._stream = None
            self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def attend(policy, workload, address, **keywords):
    """Lets `policy` decide for a workload until the daemon ends the stream; an Error then says why.

    policy(state) returns an action, or None to leave this decision to the fallback. What it
    raises is logged and leaves the decision to the fallback, too. The keywords are those of
    Attendance.
    """
    with Attendance(workload, address, **keywords) as agent:
        for state in agent:
            try:
                action = policy(state)
            except Exception:  # pylint: disable=broad-except
                log.exception("the policy failed; the fallback decides")
                continue
            if action is not None:
                agent.answer(state, action)
