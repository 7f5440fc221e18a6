#!/usr/bin/env python3
"""python_test.py - the Python package against servers of its own and against `aware`.

    python_test.py TEST AWARE       one of the functions below

Exit status: 0 it holds, 1 it does not, 77 skipped, with the reason.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples/python"), str(Path(__file__).parent)]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import google.protobuf
    import grpc
    import numpy
except ImportError as missing:
    skip(f"{missing}; Debian has python3-grpcio, python3-numpy and python3-protobuf")

AWARE = "aware"
WAIT_SECONDS_MAX = 60


def expect(holds, what):
    if not holds:
        print(f"FAILED: {what}")
        sys.exit(1)


def expect_error(code, words, function, *arguments, **keywords):
    import aware_gym
    try:
        function(*arguments, **keywords)
    except aware_gym.Error as error:
        expect(error.code.name == code, f"status {code}, found {error.code.name}: {error}")
        expect(words in str(error), f"a sentence with {words!r}, found {str(error)!r}")
        return
    expect(False, f"an Error {code}, found none")


def expect_sound(findings):
    expect(findings == [], f"no findings, found {findings}")


class Counter:
    """Count to four: the smallest environment that ends by itself."""

    made = closed = 0

    def __init__(self, first="0"):
        import aware_gym
        Counter.made += 1
        self.first = int(first)
        self.observation_space = aware_gym.Box(numpy.float32([0, 0]), numpy.float32([9, 99]))
        self.action_space = aware_gym.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.at, self.tag = self.first, (seed or 0) % 100
        return numpy.float32([self.at, self.tag]), {}

    def step(self, action):
        self.at += int(action)
        return numpy.float32([self.at, self.tag]), float(action), self.at >= 4, False, {}

    def fallback_action(self):
        return 1

    def close(self):
        Counter.closed += 1


# --- without aware: our server and our client ---------------------------------------------------


def the_messages_are_those_of_the_protocol():
    """What `python/generate` made is what proto/ says now."""
    from google.protobuf import descriptor_pb2
    from aware_gym import agent_pb2, environment_pb2, parallel_pb2
    compiler = shutil.which("protoc") or shutil.which("protoc-c")
    if not compiler:
        skip("no compiler of protocols: protobuf-compiler or protobuf-c-compiler")
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([compiler, "-I", ROOT / "proto", f"--descriptor_set_out={file.name}",
                        "aware/v1/environment.proto", "aware/v1/agent.proto",
                        "aware/v1/parallel.proto"], check=True)
        now = descriptor_pb2.FileDescriptorSet.FromString(Path(file.name).read_bytes())
    for said, module in zip(now.file, (environment_pb2, agent_pb2, parallel_pb2)):
        kept = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(kept)
        for message in walk(said.message_type):
            for field in message.field:
                field.ClearField("json_name")  # one of the two spells it out
        for message in walk(kept.message_type):
            for field in message.field:
                field.ClearField("json_name")
        expect(said == kept, f"{said.name} has changed; run python/generate")


def walk(messages):
    for message in messages:
        yield message
        yield from walk(message.nested_type)


def arrays_are_read_as_the_protocol_writes_them():
    from aware_gym import environment_pb2 as pb, wire
    rows = numpy.float32([[1, -2.5, 3], [0, 1e-30, -7]])
    told = pb.StreamResponse(id=3, step=pb.StepResponse(
        observation=rows.ravel().tolist(), reward=[1, 2], truncated=[0, 1]))
    read = wire.StreamResponse.FromString(told.SerializeToString())
    expect(numpy.array_equal(wire.from_bytes(read.step.observation, 2, 3), rows), "rows")
    expect(list(read.step.truncated) == [0, 1] and read.step.fallback_action == b"", "the rest")
    asked = wire.StreamRequest()
    asked.step.action = wire.to_bytes(rows.astype(float))
    asked = pb.StreamRequest.FromString(asked.SerializeToString())
    expect(numpy.array_equal(asked.step.action, rows.ravel()), "and written")
    for data, columns in ((b"12345678", 3), (b"123", 1), (b"", 1), (wire.to_bytes([numpy.nan]), 1)):
        try:
            wire.from_bytes(data, 1, columns)
            expect(False, f"{data} is no row of {columns}")
        except ValueError:
            pass


def the_small_spaces_hold_what_they_draw():
    import aware_gym
    infinite = aware_gym.Box(numpy.float32([-numpy.inf, 0, -numpy.inf]),
                             numpy.float32([numpy.inf, numpy.inf, 0]))
    for space in (aware_gym.Box(numpy.float32([-1, 2]), numpy.float32([1, 2])), infinite,
                  aware_gym.Discrete(3), aware_gym.MultiDiscrete([2, 5])):
        space.seed(4)
        drawn = [space.sample() for _ in range(100)]
        expect(all(value in space for value in drawn), f"{space} contains {drawn[0]}")
        space.seed(4)
        expect(all(numpy.array_equal(space.sample(), value) for value in drawn), "the same again")
        expect(len({str(value) for value in drawn}) > 1, f"{space} draws more than one value")
    box = aware_gym.Box(numpy.float32([-1]), numpy.float32([1]))
    for wrong in (numpy.float32([2]), numpy.float32([0, 0]), numpy.float32([numpy.nan]), [1e300]):
        expect(wrong not in box, f"{box} does not contain {wrong}")
    expect(3 not in aware_gym.Discrete(3) and 0.5 not in aware_gym.Discrete(3), "choices")
    expect(box == aware_gym.Box(numpy.float32([-1]), numpy.float32([1])), "spaces are compared")


def an_environment_of_python_is_served_and_keeps_the_contract():
    import aware_gym
    from pendulum import Pendulum
    expect_sound(aware_gym.check_env(Pendulum()))
    with aware_gym.Server(Pendulum, "127.0.0.1:0", episode_steps_max=40) as server:
        expect(list(aware_gym.list_envs(server.address)) == ["python-pendulum-v1"], "the list")
        with aware_gym.make("python-pendulum-v1", f"grpc://{server.address}") as env:
            expect([axis.name for axis in env.observation_axes][2] == "angular_speed", "axes")
            expect(env.action_axes[0].unit == "N m", "units")
            expect_sound(aware_gym.check_env(env))
            local = Pendulum()
            here, there = local.reset(seed=7)[0], env.reset(seed=7)[0]
            for step in range(40):
                expect(numpy.array_equal(here, there), f"the same observation in step {step}")
                action = numpy.float32([2 * numpy.sin(step)])
                here, reward, *_ = local.step(action)
                there, told, terminated, truncated, _ = env.step(action)
                expect(told == numpy.float32(reward), "the same reward")
                expect((terminated, truncated) == (False, step == 39), "the clock ends it")
        with aware_gym.make_vec("python-pendulum-v1", 5, server.address) as envs:
            expect_sound(aware_gym.check_vec_env(envs))


def ended_copies_begin_anew_and_keep_their_last_observation():
    import aware_gym
    with aware_gym.Server(Counter, "127.0.0.1:0") as server:
        envs = aware_gym.make_vec("counter", 3, server.address, first=1)
        rows, infos = envs.reset(seed=11)
        tags = rows[:, 1].copy()
        expect(rows[:, 0].tolist() == [1, 1, 1] and len(set(tags)) > 1, "first observations")
        expect(infos["fallback_action"].tolist() == [[1], [1], [1]], "the fallback's opinion")
        rows, rewards, terminated, truncated, infos = envs.step([0, 1, 2])
        expect(rows[:, 0].tolist() == [1, 2, 3] and rewards.tolist() == [0, 1, 2], "a step")
        expect(not terminated.any() and "final_obs" not in infos, "nothing ended")
        rows, _, terminated, truncated, infos = envs.step([0, 1, 2])
        expect(terminated.tolist() == [False, False, True] and not truncated.any(), "flags")
        expect(infos["_final_obs"].tolist() == [False, False, True], "mask")
        expect(infos["final_obs"][2].tolist() == [5, tags[2]], "the last of the old episode")
        expect(rows[2, 0] == 1, "the first of the new one")
        envs.close()

        env = aware_gym.make("counter", server.address)
        observation, info = env.reset(seed=42)
        expect(observation.tolist() == [0, 42], "an exact seed is the seed itself")
        expect(info["fallback_action"].tolist() == [1], "the fallback's opinion")
        env.step(2)
        observation, reward, terminated, truncated, _ = env.step(2)
        expect((observation[0], reward, terminated, truncated) == (4, 2, True, False), "the end")
        expect_error("FAILED_PRECONDITION", "reset", env.step, 1)
        env.close()
    deadline = time.monotonic() + 20 # a session ends on a thread of the server's own
    while Counter.made != Counter.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(Counter.made == Counter.closed > 0, f"{Counter.made} made, {Counter.closed} closed")


def what_goes_wrong_is_one_error_with_one_sentence():
    import aware_gym
    logging.disable()  # the server's own lines are for whoever runs it
    with aware_gym.Server(Counter, "127.0.0.1:0", token="a-token-of-16-bytes") as server:
        expect_error("UNAUTHENTICATED", "token", aware_gym.make, "counter", server.address)
        with aware_gym.make("counter", server.address, token="a-token-of-16-bytes"):
            pass
    with aware_gym.Server(Counter, "127.0.0.1:0") as server:
        there = server.address
        expect_error("NOT_FOUND", "there is counter", aware_gym.make, "conter", there)
        expect_error("INVALID_ARGUMENT", "last", aware_gym.make, "counter", there, last=1)
        expect_error("INTERNAL", "ValueError", aware_gym.make, "counter", there, first="x")
        expect_error("RESOURCE_EXHAUSTED", "1024", aware_gym.make_vec, "counter", 5000, there)
        expect_error("UNAVAILABLE", "cannot listen", aware_gym.Server, Counter, there)
        env = aware_gym.make("counter", there)
        expect_error("FAILED_PRECONDITION", "reset first", env.step, 0)
        env.reset(seed=1)
        expect_error("OUT_OF_RANGE", "below 3", env.step, 3)
        expect_error("OUT_OF_RANGE", "finite", env.step, float("nan"))
        expect(env.step(1)[0][0] == 1, "a refused action moved nothing")
        for wrong in ("1", 1.5, -1, 2**64, [1, 2]):
            try:
                env.reset(seed=wrong)
                expect(False, f"the seed {wrong!r} is refused")
            except (TypeError, ValueError):
                pass
    expect_error("UNAVAILABLE", "no server", env.step, 1)
    env.close()
    env.close()
    expect_error("FAILED_PRECONDITION", "closed", env.reset)
    expect_error("UNAVAILABLE", "no server", aware_gym.make, "counter", there)
    for wrong in ("here", "http://127.0.0.1:1", "grpc://127.0.0.1:1/counter"):
        try:
            aware_gym.connect(wrong)
            expect(False, f"{wrong} is no address")
        except ValueError as error:
            expect(wrong in str(error), str(error))
    try:
        aware_gym.Server(Counter, "0.0.0.0:0")
        expect(False, "beyond loopback only with token and TLS")
    except ValueError as error:
        expect("tls" in str(error), str(error))


def an_environment_that_fails_harms_nobody_else():
    import aware_gym

    class Moody(Counter):
        def step(self, action):
            if action == 2:
                raise RuntimeError("not today")
            observation, reward, *rest = super().step(action)
            return observation, float("nan") if self.at == 3 else reward, *rest

    logging.disable()
    with aware_gym.Server({"moody": Moody}, "127.0.0.1:0") as server:
        with aware_gym.make("moody", server.address) as env:
            for action, words in ((2, "not today"), (1, "not finite")):
                env.reset(seed=1)
                with contextlib.suppress(aware_gym.Error):
                    env.step(1), env.step(1)
                expect_error("INTERNAL", words, env.step, action)
                expect_error("FAILED_PRECONDITION", "reset", env.step, 1)
                env.reset(seed=1)
                expect(env.step(1)[0][0] == 1, "after reset it goes on")


def a_reset_finds_a_server_that_was_away():
    import aware_gym
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        with aware_gym.Server(Counter, address):
            env = aware_gym.make("counter", address)
            envs = aware_gym.make_vec("counter", 2, address)
            env.reset(seed=1)
            envs.reset(seed=1)
        expect_error("UNAVAILABLE", "", env.step, 1)
        with aware_gym.Server(Counter, address):
            expect(env.reset(seed=5)[0].tolist() == [0, 5], "the episode of the seed")
            expect(env.step(1)[0][0] == 1, "it goes on")
            expect(envs.reset(seed=1)[0].shape == (2, 2), "and so do many")
        env.close()
        envs.close()


def single_calls_do_what_the_stream_does():
    import aware_gym
    from aware_gym import environment_pb2 as pb
    with aware_gym.Server(Counter, "127.0.0.1:0") as server, \
            aware_gym.connect(server.address) as connection:
        made = connection.call("Init", pb.InitRequest(name="counter", count=2), pb.InitResponse)
        expect((made.observation_dim, made.action_dim, len(made.session) > 16) == (2, 1, True),
               "the shape of a session")
        session = {"session": made.session}
        step = pb.StepRequest(action=[0, 2], **session)
        expect_error("FAILED_PRECONDITION", "reset", connection.call, "Step", step, pb.StepResponse)
        reset = pb.ResetRequest(seed=5, exact=True, autoreset=pb.AUTORESET_MANUAL, **session)
        told = connection.call("Reset", reset, pb.ResetResponse)
        expect(list(told.observation) == [0, 5, 0, 6], "copy i begins from seed + i")
        connection.call("Step", step, pb.StepResponse)
        told = connection.call("Step", step, pb.StepResponse)
        expect((list(told.terminated), list(told.observation)) == ([1], [0, 5, 4, 6]),
               "nothing is reset by itself, and the last observation is shown")
        expect_error("FAILED_PRECONDITION", "copy 1", connection.call, "Step", step,
                     pb.StepResponse)
        only = pb.ResetRequest(only=[1], autoreset=pb.AUTORESET_MANUAL, **session)
        told = connection.call("Reset", only, pb.ResetResponse)
        expect(len(told.observation) == 2 and told.observation[0] == 0, "one copy is reset")
        connection.call("Step", step, pb.StepResponse)
        for wrong in ([2], [1, 1], [1, 0]):
            only = pb.ResetRequest(only=wrong, autoreset=pb.AUTORESET_MANUAL, **session)
            expect_error("INVALID_ARGUMENT", "only", connection.call, "Reset", only,
                         pb.ResetResponse)
        for _ in range(2):
            connection.call("Close", pb.CloseRequest(**session), pb.CloseResponse)
        expect_error("NOT_FOUND", "session", connection.call, "Step", step, pb.StepResponse)


def the_checker_finds_what_is_wrong():
    import aware_gym

    class Good(Counter):
        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.random = numpy.random.default_rng(seed)
            return super().reset(seed=int(self.random.integers(100)))

    expect_sound(aware_gym.check_env(Good()))

    class SeedLeaks(Good):
        plays = 0

        def reset(self, **keywords):
            SeedLeaks.plays += 1
            observation, info = super().reset(**keywords)
            return numpy.float32([0, SeedLeaks.plays % 99]), info

    class Aliases(Good):
        def step(self, action):
            observation, *rest = super().step(action)
            self.shared = getattr(self, "shared", observation)
            self.shared[:] = observation
            return self.shared, *rest

    class OldStep(Good):
        def step(self, action):
            return super().step(action)[:4]

    class OldReset(Good):
        def reset(self, **keywords):
            return super().reset(**keywords)[0]

    class Outside(Good):
        def step(self, action):
            observation, *rest = super().step(action)
            return observation + 50, *rest

    class WrongType(Good):
        def step(self, action):
            observation, *rest = super().step(action)
            return observation.astype(numpy.float64), *rest

    class NotFinite(Good):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, float("inf"), *rest

    class NoFlag(Good):
        def step(self, action):
            observation, reward, terminated, _, info = super().step(action)
            return observation, reward, terminated, None, info

    class NoChance(Good):
        def reset(self, **keywords):
            observation, info = super().reset(**keywords)
            self.tag = 0
            self.action_space.seed = lambda seed: type(self.action_space).seed(
                self.action_space, 1)
            return numpy.float32([0, 0]), info

    for wrong, rule in ((SeedLeaks, "seed"), (Aliases, "aliasing"), (OldStep, "step-returns"),
                        (OldReset, "reset-returns"), (Outside, "step-observation"),
                        (WrongType, "step-observation"), (NotFinite, "reward"),
                        (NoFlag, "flags"), (NoChance, "chance")):
        rules = [finding.rule for finding in aware_gym.check_env(wrong())]
        expect(rule in rules, f"{wrong.__name__}: the rule {rule}, found {rules}")


def with_gymnasium_the_classes_are_gymnasium_s():
    """Gymnasium is no package of Debian: a stand-in with its names shows which are used."""
    sys.path.insert(0, str(Path(__file__).parent / "standin"))
    import gymnasium
    import aware_gym
    from pendulum import Pendulum
    with aware_gym.Server(Pendulum, "127.0.0.1:0", episode_steps_max=40) as server:
        with aware_gym.make("python-pendulum-v1", server.address) as env:
            expect(isinstance(env, gymnasium.Env), "an Env of Gymnasium")
            expect(type(env.action_space) is gymnasium.spaces.Box, "a space of Gymnasium")
            env.reset(seed=3)
            first = env.np_random.integers(1000)
            env.reset(seed=3)
            expect(env.np_random.integers(1000) == first, "Gymnasium's generator is the seed's")
            expect_sound(aware_gym.check_env(env))
        with aware_gym.make_vec("python-pendulum-v1", 3, server.address) as envs:
            expect(isinstance(envs, gymnasium.vector.VectorEnv), "a VectorEnv of Gymnasium")
            expect(envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP,
                   "how it resets")
            expect_sound(aware_gym.check_vec_env(envs))
        expect(envs.closed, "closed")
        expect(gymnasium.registry["autoscale-v0"]["kwargs"] == {"name": "autoscale-v0"},
               "gymnasium.make(\"aware_gym:autoscale-v0\") finds it")


def a_server_ends_well_at_a_signal():
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        process = subprocess.Popen(
            [sys.executable, "-m", "aware_gym", "serve",
             f"{ROOT}/examples/python/pendulum.py:Pendulum", address],
            env={**os.environ, "PYTHONPATH": f"{ROOT}/python", "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        expect(f"grpc+unix://{folder}/socket?env=python-pendulum-v1" in line, f"where: {line!r}")
        import aware_gym
        with aware_gym.make("python-pendulum-v1", address) as env:
            env.reset(seed=1)
        process.send_signal(signal.SIGTERM)
        expect(process.wait(WAIT_SECONDS_MAX) == 0, f"exit 0, found {process.returncode}")


def an_agent_is_asked_answers_and_is_told():
    """Against a daemon of a few lines that says what proto/ says."""
    import concurrent.futures
    import aware_gym
    from aware_gym import agent_pb2 as pb, environment_pb2
    logging.disable()
    answers, seen = [], []

    def daemon(messages, _):
        register = next(messages).register
        if register.workload != "shop/checkout":
            yield pb.DaemonMessage(refused=pb.Refused(
                reason=pb.Refused.REASON_NO_WORKLOAD, message="no such workload"))
            return
        box = environment_pb2.Space(kind=environment_pb2.Space.KIND_BOX)
        box.axes.add(name="cpu", unit="cores", low=-1, high=1)
        yield pb.DaemonMessage(registered=pb.Registered(
            workload=register.workload, observation=box, action=box, deadline_ms=1000))
        yield pb.DaemonMessage(standing=pb.Standing(state=pb.Standing.STATE_ACTING))
        for number in range(1, 4):
            due = pb.StateRequest(id=number, observation=[number / 10], fallback_action=[0.5],
                                  episode_begins=number == 1)
            if number > 1:
                due.reward = -1
                due.last_action.append(0.25)
            yield pb.DaemonMessage(state=due)
            if number == 2:
                continue  # this one the policy leaves to the fallback
            answers.append(next(messages).action)
            yield pb.DaemonMessage(outcome=pb.Outcome(
                id=number, verdict=pb.Outcome.VERDICT_ACCEPTED))
        yield pb.DaemonMessage(replaced=pb.Replaced(
            reason=pb.Replaced.REASON_STOPPING, message="the daemon ends"))

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), [
        grpc.method_handlers_generic_handler("aware.v1.Agent", {
            "Serve": grpc.stream_stream_rpc_method_handler(
                daemon, pb.AgentMessage.FromString, pb.DaemonMessage.SerializeToString)})])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()

    def policy(state):
        seen.append(state)
        if state.id == 2:
            raise RuntimeError("not this one")
        return state.observation * 2

    outcomes, standings = [], []
    expect_error("NOT_FOUND", "no such workload", aware_gym.attend, policy, "shop/cart", address)
    expect_error("ABORTED", "the daemon ends (REASON_STOPPING)", aware_gym.attend, policy,
                 "shop/checkout", address, on_outcome=outcomes.append,
                 on_standing=standings.append)
    server.stop(None).wait()
    expect([answer.id for answer in answers] == [1, 3], f"answers to 1 and 3, found {answers}")
    expect(numpy.allclose([list(answer.values) for answer in answers], [[0.2], [0.6]]), "actions")
    expect(seen[0].reward is None and seen[0].last_action is None and seen[0].episode_begins,
           "the first state has nothing before it")
    expect(seen[2].reward == -1 and seen[2].last_action.tolist() == [0.25], "the step before")
    expect([outcome.id for outcome in outcomes] == [1, 3] and len(standings) == 1, "told")


# --- with aware ----------------------------------------------------------------------------------


def need_aware():
    done = subprocess.run([AWARE, "help", "env", "serve"], capture_output=True, check=False)
    if done.returncode != 0:
        skip("this aware has no `env serve`")
    os.environ["AWARE"] = AWARE


def the_environments_of_aware_keep_the_contract():
    need_aware()
    import aware_gym
    names = aware_gym.list_envs()
    expect({"autoscale-v0", "cartpole-v1", "pendulum-v1"} <= set(names), f"found {set(names)}")
    for name in names:
        with aware_gym.make(name) as env:
            expect_sound(aware_gym.check_env(env))
        with aware_gym.make_vec(name, 4) as envs:
            expect_sound(aware_gym.check_vec_env(envs))
    expect(set(aware_gym.env.NAMES) == set(names), "the names that gymnasium.make finds")


def three_lines_are_enough_and_nothing_is_left():
    need_aware()
    program = ("import aware_gym\n"
               "env = aware_gym.make('autoscale-v0', episode_steps=5)\n"
               "print(env.reset(seed=1)[0].shape, flush=True)\n"
               "import aware_gym.program as program, sys\n"
               "print(program._server.process.pid, program._server.folder, flush=True)\n"
               "sys.stdin.read()\n")
    for way in ("end", "kill"):
        user = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": f"{ROOT}/python"})
        expect(user.stdout.readline().strip() == "(19,)", "an observation")
        pid, folder = user.stdout.readline().split()
        if way == "kill":
            if not shutil.which("setpriv"):
                user.kill()
                skip("no setpriv here")
            user.kill()
        user.communicate()
        wait_until(lambda: not alive(int(pid)), f"after {way} the server is gone")
        expect(way == "kill" or not os.path.exists(folder), "its folder is gone")
        shutil.rmtree(folder, ignore_errors=True)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(holds, what):
    limit = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        expect(time.monotonic() < limit, what)
        time.sleep(0.02)


def a_program_that_is_missing_is_told():
    import aware_gym
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        os.environ["AWARE"] = "/nonexistent/aware"
        expect_error("NOT_FOUND", "$AWARE", aware_gym.make, "autoscale-v0")
        os.environ["AWARE"] = shutil.which("false")
        expect_error("UNAVAILABLE", "did not start", aware_gym.make, "autoscale-v0")
        expect(os.listdir(folder) == [], f"nothing is left, found {os.listdir(folder)}")


def the_end_of_a_run_is_no_missing_server():
    """What an agent is told when its run ends is not that no server of environments answers."""
    import types
    import grpc
    from aware_gym import agent, errors

    class Gone(grpc.RpcError):
        def code(self):
            return grpc.StatusCode.UNAVAILABLE

        def details(self):
            return "Socket closed"

    def gone():
        raise Gone()
        yield

    for registered, text in ((None, "no server of agents answers at unix:/x"),
                             (object(), "the run at unix:/x has ended")):
        one = agent.Attendance.__new__(agent.Attendance)
        one._stream, one.registered = gone(), registered
        one._connection = types.SimpleNamespace(address="unix:/x")
        try:
            one._receive()
        except errors.Error as error:
            expect(text in str(error), str(error))
        else:
            expect(False, "it goes on")


def a_random_agent_plays_on_autoscale():
    need_aware()
    import random_agent
    random_agent.main(5)


def an_agent_in_pytorch_runs_over_the_wire():
    need_aware()
    try:
        import torch
    except ImportError as missing:
        skip(f"{missing}; Debian has python3-torch")
    import json
    expect(torch.__version__, "a version")
    done = subprocess.run(
        [sys.executable, ROOT / "examples/python/torch_td3.py", "--env", "identity-box-v0",
         "--steps", "1050", "--eval-episodes", "1"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/python", "OPENBLAS_NUM_THREADS": "1"})
    expect(done.returncode == 0, f"exit 0, found {done.returncode}: {done.stderr}")
    told = json.loads(done.stdout)
    expect(told["steps"] == 1050 and numpy.isfinite(told["return_mean"]), done.stdout)


def many_threads_have_sessions_of_their_own():
    need_aware()
    import aware_gym
    seen = {}

    def play(seed):
        with aware_gym.make("pendulum-v1") as env:
            rows = [env.reset(seed=seed % 2)[0]]
            rows += [env.step([0.5])[0] for _ in range(50)]
            seen[seed] = numpy.array(rows)

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(len(seen) == 8, "every thread ended well")
    expect(all(numpy.array_equal(seen[seed], seen[seed % 2]) for seed in seen), "same seed, same")
    expect(not numpy.array_equal(seen[0], seen[1]), "another seed, another episode")


def a_learner_in_c_learns_from_python():
    """Three hundred steps are not enough to learn; they are enough to see both sides agree."""
    need_aware()
    import aware_gym
    from pendulum import Pendulum
    with aware_gym.Server(Pendulum, "127.0.0.1:0") as server:
        done = subprocess.run(
            [AWARE, "train", "--env", server.url("python-pendulum-v1"), "--agent", "td3", "--steps",
             "600", "--set", "warmup_steps=200", "--eval-episodes", "1", "-q", "-o", "json"],
            capture_output=True, text=True, check=False, timeout=100)
    expect(done.returncode == 0, f"exit 0, found {done.returncode}: {done.stderr}")
    expect('"steps": 600' in done.stdout and '"episodes": 3' in done.stdout, done.stdout)


def a_learner_in_c_begins_with_the_rule_of_an_environment_in_python():
    need_aware()
    import json
    import aware_gym
    from pendulum import Pendulum

    class NoRule(Pendulum):
        name = "no-rule"
        fallback_action = property()  # hasattr finds none

    kinds = {kind.name: kind for kind in (Pendulum, NoRule)}
    with aware_gym.Server(kinds, "127.0.0.1:0") as server:
        def train(name, *more):
            return subprocess.run(
                [AWARE, "train", "--env", server.url(name), "--agent", "bcq", "--steps", "800",
                 "--bootstrap", "3", "--eval-episodes", "1", "-q", "-o", "json", *more],
                capture_output=True, text=True, check=False, timeout=100)
        done = train("python-pendulum-v1")
        refused = train("no-rule")
        described = subprocess.run([AWARE, "env", "describe", server.url("python-pendulum-v1")],
                                   capture_output=True, text=True, check=False, timeout=100)
    expect("pump-and-hold" in described.stdout, described.stdout + described.stderr)
    expect(done.returncode == 0, f"exit 0, found {done.returncode}: {done.stderr}")
    told = json.loads(done.stdout)
    expect(told["bootstrap"]["episodes"] == 3 and told["episodes"] == 4, done.stdout)
    expect(told["bootstrap"]["return_mean"] > -600, f"what the rule gets: {done.stdout}")
    expect(refused.returncode != 0 and "no agent of its own" in refused.stderr, refused.stderr)


def options_of_a_served_environment_travel_with_its_address():
    need_aware()
    import aware_gym

    class Short:
        """Ends when it is told to."""

        name = "short"
        observation_space = aware_gym.Box(-1, 1, (1,))
        action_space = aware_gym.Box(-1, 1, (1,))

        def __init__(self, length="9"):
            self.length = int(length)

        def reset(self, *, seed=None, options=None):
            self.left = self.length
            return [0.0], {}

        def step(self, action):
            self.left -= 1
            return [0.5], 1.0, self.left == 0, False, {}

    with aware_gym.Server(Short, "127.0.0.1:0") as server:
        def train(pair):
            return subprocess.run(
                [AWARE, "train", "--env", server.url("short"), "--agent", "td3", "--steps", "40",
                 "--set", pair, "--eval-episodes", "1", "-q", "-o", "json"],
                capture_output=True, text=True, check=False, timeout=100)
        done, wrong = train("env.length=4"), train("env.width=4")
    expect(done.returncode == 0, f"exit 0, found {done.returncode}: {done.stderr}")
    expect('"episodes": 10' in done.stdout, f"ten episodes of 4 steps: {done.stdout}")
    expect("?set.length=4" in done.stdout, f"the address tells: {done.stdout}")
    expect(wrong.returncode != 0 and "width" in wrong.stderr, wrong.stderr)


def a_minimal_environment_in_python_is_checked():
    """Two spaces, reset and step: no names of axes, no bounds of the reward, no name, no close."""
    need_aware()
    import aware_gym

    class Minimal:
        observation_space = aware_gym.Box(-1, 1, (2,))
        action_space = aware_gym.Discrete(2)

        def reset(self, seed=None, options=None):
            if seed is not None or not hasattr(self, "random"):
                self.random = numpy.random.default_rng(seed)
            self.left = 10
            return self.random.uniform(-1, 1, 2).astype(numpy.float32), {}

        def step(self, action):
            self.left -= 1
            seen = self.random.uniform(-1, 1, 2).astype(numpy.float32)
            return seen, float(action), self.left == 0, False, {}

    expect_sound(aware_gym.check_env(Minimal()))
    with aware_gym.Server(Minimal, "127.0.0.1:0") as server:
        name = next(iter(aware_gym.list_envs(server.address)))
        for verb in ("check", "describe"):
            done = subprocess.run([AWARE, "env", verb, server.url(name)], capture_output=True,
                                  text=True, check=False, timeout=100)
            expect(done.returncode == 0,
                   f"{verb}: exit 0, found {done.returncode}: {done.stdout}{done.stderr}")
            expect(verb != "check" or "snapshot-none" in done.stdout, done.stdout)
        with aware_gym.make(name, server.address) as env:
            expect_sound(aware_gym.check_env(env))


def main():
    global AWARE
    names = [name for name, value in globals().items()
             if callable(value) and getattr(value, "__module__", "") == "__main__"]
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        print(f"usage: python_test.py TEST [AWARE]; TEST is one of {' '.join(names)}")
        return 64
    if len(sys.argv) > 2:
        AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
