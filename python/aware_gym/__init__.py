"""aware_gym - the environments of AWARE in Python, and environments of Python for AWARE.

    import aware_gym
    env = aware_gym.make("autoscale-v0")
    observation, info = env.reset(seed=1)

make        an environment, as gymnasium.Env; make_vec: many copies in lockstep, as VectorEnv
parallel_env  one of many agents that act at once, as PettingZoo's ParallelEnv, or in flat arrays
list_envs   what there is; describe: everything about one of them
serve       lets the learners of `aware` train on an environment that is written in Python
attend      an agent in Python decides for a workload of a running daemon
check_env   does an environment keep the contract? (check_vec_env: many copies of it;
            check_parallel_env: one of many agents)

Without an address, `aware` itself is started on a private socket and ends with this process.
Without gymnasium the classes are the same, with small spaces of their own. Every failure of the
other side is an aware_gym.Error with one sentence and a status code.
"""

try:
    import grpc as _grpc # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "aware_gym needs grpcio, protobuf and numpy for this Python: pip install grpcio protobuf "
        "numpy, or use Debian's /usr/bin/python3 with python3-grpcio") from error

from .agent import Attendance, attend
from .check import Finding, check_env, check_vec_env
from .check_parallel import check_parallel_env
from .client import Connection, Session, connect
from .env import Env, VectorEnv, describe, list_envs, make, make_vec
from .errors import Error
from .gym import Box, Discrete, MultiDiscrete
from .parallel import Flat, ParallelEnv, list_parallel_envs, parallel_env
from .server import Server, serve

__version__ = "0.1.0"

__all__ = [
    "Attendance", "Box", "Connection", "Discrete", "Env", "Error", "Finding", "Flat",
    "MultiDiscrete", "ParallelEnv", "Server", "Session", "VectorEnv", "attend", "check_env",
    "check_parallel_env", "check_vec_env", "connect", "describe", "list_envs",
    "list_parallel_envs", "make", "make_vec", "parallel_env", "serve",
]
